"""Certificates of two populations, forged by hand: each is rejected at the step that is wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from discreet.privacy import codec
from discreet.privacy.codec import fraction_text
from discreet.privacy.event import Composed
from discreet.verify.certificate.checker import STEPS, check
from discreet.verify.certificate.document import checks_of
from discreet.verify.flows import side_moves
from tests.verify.asked import plain, visits
from tests.verify.asked_both import asked, both, exported, honest
from tests.verify.forging import Change, Document, accounts, flow_claim, forged, relink, rewrite, sealed

ZERO = "0" * 64
FIRST, SECOND, BOTH = (0,), (1,), (0, 1)


def shown(value: object) -> str:
    """A parameter in a test's name: the same in every process."""
    return "" if callable(value) else str(value)[:60]


def all_of(*changes: Change) -> Change:
    def change(d: Document) -> None:
        for each in changes:
            each(d)

    return change


def said(places: tuple[int, ...], entry: str, **fields: Any) -> Change:
    return lambda d: rewrite(d, entry, lambda body: body.update(fields), places)


def noted(places: tuple[int, ...], **fields: Any) -> Change:
    return lambda d: rewrite(d, "charge", lambda body: body["note"].update(fields), places)


def unnoted(places: tuple[int, ...], field: str) -> Change:
    return lambda d: rewrite(d, "charge", lambda body: body["note"].pop(field), places)


def pinned(places: tuple[int, ...], **fields: Any) -> Change:
    return lambda d: rewrite(d, "schemas", lambda body: body["schema"].update(fields), places)


def kept(places: tuple[int, ...], change: Callable[[dict[str, Any]], Any]) -> Change:
    return lambda d: rewrite(d, "release", lambda body: change(body["release"]), places)


def another(name: str, of: int, entries: dict[int, tuple[str, ...]], kind: str = "add-remove") -> Change:
    """Entries of another certificate: the second draw (1) or the cheaper question (2) of this ledger, or another's."""

    def change(d: Document) -> None:
        found = copy.deepcopy(honest(name, kind)[:3][of])
        for place, names in entries.items():
            for entry in names:
                accounts(d)[place][entry] = accounts(found)[place][entry]

    return change


def exchanged(*names: str) -> Change:
    def change(d: Document) -> None:
        first, second = accounts(d)
        for name in names:
            first[name], second[name] = second[name], first[name]

    return change


def doubled(*names: str) -> Change:
    def change(d: Document) -> None:
        for name in names:
            accounts(d)[1][name] = copy.deepcopy(accounts(d)[0][name])

    return change


def alone_twice(d: Document) -> None:
    accounts(d)[1] = copy.deepcopy(accounts(d)[0])


def one_alone(d: Document) -> None:
    del accounts(d)[1]


ALL = ("account", "schemas", "charge", "release")

SAID: list[tuple[str, Change, str]] = [
    ("the accounts exchanged", lambda d: accounts(d).reverse(), "account"),
    ("the populations exchanged", lambda d: d["populations"].reverse(), "account"),
    ("both exchanged", all_of(lambda d: accounts(d).reverse(), lambda d: d["populations"].reverse()), "tables"),
    ("both and the sides exchanged", all_of(lambda d: accounts(d).reverse(), lambda d: d["populations"].reverse(),
     lambda d: d["claim"]["sides"].reverse()), "bounds"),
    ("the openings exchanged", exchanged("account"), "account"),
    ("the tables exchanged", exchanged("schemas"), "tables"),
    ("the charges exchanged", exchanged("charge"), "charge"),
    ("the releases exchanged", exchanged("release"), "release"),
    ("one account twice", alone_twice, "account"),
    ("one account twice, as both", all_of(alone_twice,
     lambda d: d.update(populations=["patients"] * 2)), "format"),
    ("one opening for both", doubled("account"), "account"),
    ("one table for both", doubled("schemas"), "tables"),
    ("one charge for both", doubled("charge"), "charge"),
    ("one charge for both, under the other's name", all_of(doubled("charge"), said(SECOND, "charge",
     population="doctors")), "charge"),
    ("one release for both", doubled("release"), "release"),
    ("one release for both, under the other's name", all_of(doubled("release"), said(SECOND, "release",
     population="doctors")), "release"),
    ("one population left out", lambda d: d["populations"].pop(), "format"),
    ("one account left out", one_alone, "format"),
    ("one side left out", lambda d: d["claim"]["sides"].pop(), "format"),
    ("one left out everywhere", all_of(lambda d: d["populations"].pop(), one_alone,
     lambda d: d["claim"]["sides"].pop()), "format"),
    ("three populations", all_of(lambda d: d["populations"].append("nurses"), lambda d: accounts(d).append(
     accounts(d)[0])), "format"),
    ("another format", lambda d: d.update(format="discreet certificate, format 2"), "format"),
    ("a cheaper query's charge to the first", another("groups", 2, {0: ("charge",)}), "charge"),
    ("a cheaper query's charge to the second", another("groups", 2, {1: ("charge",)}), "charge"),
    ("a cheaper query's charges", another("groups", 2, {0: ("charge",), 1: ("charge",)}), "charge"),
    ("a cheaper query's entries to the first", another("groups", 2, {0: ALL}), "charge"),
    ("a cheaper query's releases", another("groups", 2, {0: ("release",), 1: ("release",)}), "release"),
    ("the second draw's charge to the first", another("groups", 1, {0: ("charge",)}), "charge"),
    ("the second draw's charge to the second", another("groups", 1, {1: ("charge",)}), "charge"),
    ("the second draw's charges", another("groups", 1, {0: ("charge",), 1: ("charge",)}), "release"),
    ("the second draw's release in one account", another("groups", 1, {1: ("release",)}), "release"),
    ("the second draw's releases", another("groups", 1, {0: ("release",), 1: ("release",)}), "release"),
    ("the second draw's account", another("groups", 1, {1: ("charge", "release")}), "charge"),
    ("the second draw's entries", another("groups", 1, {0: ALL, 1: ALL}), "release"),
    ("the second draw's answer", lambda d: d.update(answer=honest("groups")[1]["answer"]), "release"),
    ("another query's charges", another("two keys", 0, {0: ("charge",), 1: ("charge",)}), "charge"),
    ("another query's releases", another("two keys", 0, {0: ("release",), 1: ("release",)}), "release"),
    ("another ledger's accounts", another("two keys", 0, {0: ("account",), 1: ("account",)}), "tables"),
    ("another ledger's account", another("two keys", 0, {1: ("account",)}), "account"),
    ("an account under another relation", another("groups", 0, {1: ("account",)}, "both replaced"), "account"),
    ("another ledger's tables", another("two keys", 0, {0: ("schemas",), 1: ("schemas",)}), "tables"),
    ("the head of another ledger", lambda d: d["ledger"].update(head={"seq": 99, "hash": ZERO}), "ledger"),
    ("a head before the releases", lambda d: d["ledger"]["head"].update(seq=7), "release"),
    ("a head of another hash", lambda d: d["ledger"]["head"].update(hash=ZERO), "release"),
    ("no table fixed for the second", lambda d: accounts(d)[1].update(schemas=[]), "tables"),
    ("a table fixed twice", lambda d: accounts(d)[0]["schemas"].append(accounts(d)[0]["schemas"][0]), "tables"),
    ("a table of the first alone", lambda d: rewrite(d, "schemas", lambda b: b["schema"].pop("others"), FIRST),
     "tables"),
    ("a table of the second alone", lambda d: rewrite(d, "schemas", lambda b: b["schema"].pop("others"), SECOND),
     "tables"),
    ("a table of a third population", pinned(FIRST, others=[["nurses", "doctor"]]), "tables"),
    ("a table of three populations", pinned(FIRST, others=[["doctors", "doctor"], ["nurses", "ward"]]), "tables"),
    ("a table whose other ids are elsewhere", pinned(FIRST, others=[["doctors", "ward"]]), "tables"),
    ("a table of another unit", pinned(SECOND, unit="ward"), "tables"),
    ("a table of each row", pinned(SECOND, unit=None), "tables"),
    ("a table that is public", pinned(SECOND, public=True), "tables"),
    ("a table with other types for the second", pinned(SECOND, columns=[["patient", "BIGINT"], ["doctor", "VARCHAR"],
     ["ward", "VARCHAR"], ["cost", "DOUBLE"], ["days", "INTEGER"], ["day", "TIMESTAMP"]]), "tables"),
    ("a table with a column less", pinned(BOTH, columns=[["patient", "BIGINT"], ["doctor", "VARCHAR"]]), "tables"),
    ("another table fixed", lambda d: rewrite(d, "schemas", lambda b: b.update(table="staff"), BOTH), "tables"),
    ("a charge that cost the first less", said(FIRST, "charge", epsilon="1/100"), "charge"),
    ("a charge that cost the second less", said(SECOND, "charge", epsilon="1/100"), "charge"),
    ("a charge with another δ", said(SECOND, "charge", delta="1/1000000"), "charge"),
    ("a charge without events", said(FIRST, "charge", events=[]), "charge"),
    ("a charge of another query", said(SECOND, "charge", question=ZERO), "charge"),
    ("a charge of another number", said(SECOND, "charge", seq=77), "charge"),
    ("a charge at another time", said(SECOND, "charge", time="2020-01-01T00:00:00.000Z"), "ledger"),
    ("a tally that tells less", said(SECOND, "charge", spent=["0/1", "0/1"]), "ledger"),
    ("notes of the other order", noted(BOTH, together=["doctors", "patients"]), "charge"),
    ("a note that names itself alone", noted(FIRST, together=["patients"]), "charge"),
    ("a note that names a third", noted(SECOND, together=["patients", "doctors", "nurses"]), "charge"),
    ("a note that names nobody", unnoted(SECOND, "together"), "charge"),
    ("notes of another claim", noted(BOTH, claim=ZERO), "charge"),
    ("a note of another claim to the first", noted(FIRST, claim=ZERO), "charge"),
    ("a note of another claim to the second", noted(SECOND, claim=ZERO), "charge"),
    ("a note without a claim to the first", unnoted(FIRST, "claim"), "charge"),
    ("a note without a claim to the second", unnoted(SECOND, "claim"), "charge"),
    ("notes of another table", noted(BOTH, table="staff"), "charge"),
    ("a note of another text", noted(SECOND, sql="SELECT 1"), "charge"),
    ("a note of another version", noted(SECOND, version="2020"), "charge"),
    ("a note of another library", noted(SECOND, library="9.9"), "charge"),
    ("a noisy number in both", kept(BOTH, lambda r: r["cells"][0].__setitem__(0, r["cells"][0][0] + "9")), "ledger"),
    ("a noisy number in one", kept(FIRST, lambda r: r["cells"][0].__setitem__(0, r["cells"][0][0] + "9")), "release"),
    ("a column of noisy numbers more", kept(BOTH, lambda r: [row.append("1") for row in r["cells"]]), "release"),
    ("a group more", kept(BOTH, lambda r: [r["keys"].append(["d"]), r["cells"].append(r["cells"][0])]), "release"),
    ("a group less", kept(BOTH, lambda r: [r["keys"].pop(), r["cells"].pop()]), "release"),
    ("a key more", kept(BOTH, lambda r: [key.append(1) for key in r["keys"]]), "release"),
    ("an exact number beside", kept(BOTH, lambda r: r.update(exact=["1"])), "release"),
    ("a report that was not paid", kept(BOTH, lambda r: r["reports"].append("5")), "release"),
    ("trees that were not paid", kept(BOTH, lambda r: r.update(trees=[[[[0, 0, ["5"]]]]])), "release"),
    ("totals that were not paid", kept(BOTH, lambda r: r.update(levels=[[["5"]]])), "release"),
    ("no digests", kept(BOTH, lambda r: r.pop("certified")), "release"),
    ("no digests in the second", kept(SECOND, lambda r: r.pop("certified")), "release"),
    ("another claim's digest", kept(SECOND, lambda r: r["certified"].update(claim=ZERO)), "release"),
    ("another result's digest", kept(SECOND, lambda r: r["certified"]["answers"].update({"": ZERO})), "release"),
    ("a release of another charge", said(SECOND, "release", charge=5), "release"),
    ("releases of one charge", said(BOTH, "release", charge=5), "release"),
    ("a changed row", lambda d: d["answer"]["rows"][0].__setitem__(1, d["answer"]["rows"][0][1] + 1), "release"),
    ("a row left out", lambda d: d["answer"]["rows"].pop(), "release"),
    ("another column's name", lambda d: d["answer"]["columns"].__setitem__(0, "city"), "release"),
    ("another text of the query", lambda d: d["question"].update(sql="SELECT 1"), "charge"),
    ("another identity", lambda d: d["question"].update(identity=ZERO), "charge"),
    ("a name as in a batch", lambda d: d["question"].update(name="n"), "charge"),
    ("no version of the data", lambda d: d.update(version=None), "charge"),
    ("an account with more to spend", said(SECOND, "account", budget={
        "epsilon": "99999999/1", "delta": "1/2", "per_query": "20/1"}), "registry"),
    ("a registry with less ε", lambda d: d["registry"][1]["parameters"].update(epsilon="1/10"), "registry"),
    ("a registry of one population", lambda d: d["registry"].pop(), "registry"),
    ("registries exchanged", lambda d: d["registry"].reverse(), "registry"),
    ("a registry that leaves out the other", lambda d: d["registry"][0]["unit"].pop("protected_beside"), "registry"),
    ("a reason less", lambda d: d["reasons"].pop(), "sensitivity"),
    ("reasons exchanged", lambda d: d["reasons"].reverse(), "sensitivity"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "change", "step"), SAID, ids=shown)
def test_a_certificate_that_says_something_else_breaks_its_step(what: str, change: Change, step: str) -> None:
    document, _, _, ledger = honest("groups")
    forgery = forged(document, change)
    assert check(forgery, ledger).broken == step, what
    if step != "ledger":
        assert check(forgery).broken == step, what
        # nor does it help the forger to make the hashes fit again
        relink(forgery)
        assert forgery == document or not check(forgery, ledger).ok


# --- the claim, with all that could be made to fit it made to fit ---


def put(*path: Any, to: Any) -> Change:
    """A change of one field of the claim."""

    def change(d: Document) -> None:
        at = d["claim"]
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = to(at[path[-1]]) if callable(to) else to

    return change


def text(old: str, new: str) -> Change:
    def change(d: Document) -> None:
        assert old in d["claim"]["sql"], d["claim"]["sql"]
        d["claim"]["sql"] = d["claim"]["sql"].replace(old, new)

    return change


def follow(d: Document) -> None:
    """Sensitivities and events that follow from the caps and the noise, and the ε of Laplace noise with them."""
    for side in d["claim"]["sides"]:
        far = 1 << 40
        most = {"l0": "9", "linf": str(far), "l1": str(9 * far), "l2_squared": str(9 * far * far)}
        side["sensitivities"] = [most] * len(d["claim"]["measured"])
    claim = flow_claim(d)
    for place, side in enumerate(d["claim"]["sides"]):
        side["sensitivities"] = [
            dict(zip(("l0", "linf", "l1", "l2_squared"), map(str, moved.norms), strict=True))
            for moved in side_moves(claim, place)
        ]
    claim = flow_claim(d)
    for side, own in zip(d["claim"]["sides"], claim.sides, strict=True):
        pairs = zip(claim.measured, own.sensitivities, strict=True)
        events = sum((c.noise.event(s) for c, s in pairs), Composed())
        side["cost"]["events"] = codec.encode(events)


def scaled(factor: Fraction) -> Change:
    return put("measured", 0, "noise", "scale", to=lambda v: fraction_text(Fraction(v) * factor))


def less(place: int) -> Change:
    return put("sides", place, "cost", "epsilon", to=lambda v: fraction_text(Fraction(v) * Fraction(999, 1000)))


def fewer(place: int, by: int = 1) -> Change:
    """A lower cap of one population, in the first column."""
    return put("measured", 0, "flows", 0, "caps", place, to=lambda v: str(int(v) - by))


COUNTED = "least(count(x0), 1)"
CLAIMS: list[tuple[str, Change, str]] = [
    ("noise halved", scaled(Fraction(1, 2)), "noise"),
    ("noise halved and told", all_of(scaled(Fraction(1, 2)), follow), "noise"),
    ("noise just short", all_of(scaled(Fraction(999, 1000)), follow), "noise"),
    ("noise doubled and not told", scaled(Fraction(2)), "events"),
    ("Gaussian noise on one column", put("measured", 0, "noise", to={"kind": "rounded-gaussian", "sigma": "9/1"}),
     "noise"),
    ("less ε for the first", less(0), "noise"),
    ("less ε for the second", less(1), "noise"),
    ("the second charged as the first", lambda d: d["claim"]["sides"][1].update(
        cost=d["claim"]["sides"][0]["cost"]), "noise"),
    ("the first charged as the second", lambda d: d["claim"]["sides"][0].update(
        cost=d["claim"]["sides"][1]["cost"]), "events"),
    ("an event of the first left out", put("sides", 0, "cost", "events", to=lambda e: e[1:]), "events"),
    ("an event of the second left out", put("sides", 1, "cost", "events", to=lambda e: e[1:]), "events"),
    ("no events of the second", put("sides", 1, "cost", "events", to=[]), "events"),
    ("events by their sum alone", lambda d: d["claim"]["sides"][1]["cost"].update(events=[
        {"event": "approximate", "epsilon": "1/1", "delta": "0/1", "count": 1}]), "events"),
    ("the second's cap lowered", fewer(1, 1), "sensitivity"),
    ("the second's cap lowered in the last column", put("measured", 4, "flows", 0, "caps", 1,
     to=lambda v: str(int(v) - 1)), "sensitivity"),
    ("the first's cap lowered", fewer(0), "sensitivity"),
    ("both caps lowered, and what follows", all_of(fewer(0), fewer(1), follow), "sensitivity"),
    ("a cap below the statement's, and what follows", all_of(fewer(1), follow), "sensitivity"),
    ("caps exchanged", put("measured", 1, "flows", 0, "caps", to=lambda v: v[::-1]), "sensitivity"),
    ("caps exchanged, and what follows", all_of(put("measured", 1, "flows", 0, "caps", to=lambda v: v[::-1]), follow),
     "noise"),
    ("a cap of 2^31", put("measured", 1, "flows", 0, "caps", 1, to=str(1 << 31)), "bounds"),
    ("a cap below 0", put("measured", 1, "flows", 0, "caps", 1, to="-1"), "bounds"),
    ("a cap raised, and not told", put("measured", 1, "flows", 0, "caps", 1, to="10"), "sensitivity"),
    ("a number of another column", put("measured", 1, "flows", 0, "place", to=4), "sensitivity"),
    ("a number that is not there", put("measured", 1, "flows", 0, "place", to=9), "bounds"),
    ("a flow twice", put("measured", 1, "flows", to=lambda v: [*v, v[0]]), "bounds"),
    ("a flow left out", put("measured", 2, "flows", to=lambda v: v[:1]), "sensitivity"),
    ("flows of one sign", put("measured", 2, "flows", 1, "sign", to="1"), "bounds"),
    ("signs exchanged", all_of(put("measured", 2, "flows", 0, "sign", to="-1"), put("measured", 2, "flows", 1, "sign",
     to="1")), "ledger"),
    ("a flow counted twice", put("measured", 1, "flows", 0, "sign", to="2"), "bounds"),
    ("a column left out", lambda d: d["claim"]["measured"].pop(), "sensitivity"),
    ("a column left out, and what follows", all_of(lambda d: d["claim"]["measured"].pop(), follow), "sensitivity"),
    ("a column twice", lambda d: d["claim"]["measured"].append(d["claim"]["measured"][0]), "sensitivity"),
    ("nothing measured", put("measured", to=[]), "format"),
    ("the first's relation", put("sides", 0, "relation", to="replace"), "sensitivity"),
    ("the second's relation", put("sides", 1, "relation", to="replace"), "sensitivity"),
    ("the second's relation, and what follows", all_of(put("sides", 1, "relation", to="replace"), follow), "noise"),
    ("another unit", put("sides", 1, "unit", to="ward"), "bounds"),
    ("one unit for both", put("sides", 1, "unit", to="patient"), "bounds"),
    ("another table", put("table", to="staff"), "bounds"),
    ("a column too many", put("columns", to=lambda v: sorted([*v, "zzz"])), "tables"),
    ("a column that is not known", put("columns", to=lambda v: [c for c in v if c != "cost"]), "bounds"),
    ("a group less", put("lists", to=[2]), "bounds"),
    ("a group more", put("lists", to=[4]), "bounds"),
    ("no groups", put("lists", to=[]), "bounds"),
    ("the groups of another key", put("lists", to=[1, 3]), "bounds"),
    ("the sensitivity of one group", put("sides", 1, "sensitivities", 0, to=lambda s: {
        "l0": "1", "linf": s["linf"], "l1": s["linf"], "l2_squared": str(int(s["linf"]) ** 2)}), "sensitivity"),
    ("a sensitivity one less", put("sides", 1, "sensitivities", 1, to=lambda s: {
        "l0": "3", "linf": "8", "l1": "24", "l2_squared": "192"}), "sensitivity"),
    ("a sensitivity too large", put("sides", 1, "sensitivities", 1, to=lambda s: {
        "l0": "3", "linf": "10", "l1": "30", "l2_squared": "300"}), "sensitivity"),
    ("the sensitivities of the first for the second", lambda d: d["claim"]["sides"][1].update(
        sensitivities=d["claim"]["sides"][0]["sensitivities"]), "sensitivity"),
    ("another unit's column", text('s."doctor" AS w', 's."ward" AS w'), "bounds"),
    ("an id that is cast", text('s."doctor" AS w', 'lower(s."doctor") AS w'), "bounds"),
    ("another first unit", text('s."patient" AS u', 's."days" AS u'), "bounds"),
    ("another first unit, in upper case", text('s."patient" AS u', 's."days" AS "U", s."patient" AS u'), "bounds"),
    ("rows of nobody kept", text(' AND s."patient" IS NOT NULL', ""), "bounds"),
    ("rows without the second kept", text(" WHERE NOT w IS NULL", ""), "bounds"),
    ("pairs not kept apart", text("GROUP BY g0, u, w", "GROUP BY g0, u"), "bounds"),
    ("groups not kept apart", text("GROUP BY g0, u, w", "GROUP BY u, w"), "bounds"),
    ("a filter on pairs", text("GROUP BY g0, u, w", "GROUP BY g0, u, w HAVING count(*) > 1"), "bounds"),
    ("a number without its cap", text(COUNTED, "count(x0)"), "bounds"),
    ("a number with a wider cap", text(COUNTED, "least(count(x0), 2)"), "sensitivity"),
    ("a number with a narrower cap", text(COUNTED, "least(count(x0), 0)"), "sensitivity"),
    ("a number of all rows", text(COUNTED, "least(count(*) OVER (), 1)"), "bounds"),
    ("a number below 0", text("sum(greatest(v0, 0))", "sum(v0)"), "bounds"),
    ("numbers without bounds", text("CAST(-4.0 AS DOUBLE)", "CAST(-1e300 AS DOUBLE)"), "bounds"),
    ("another table read", text('main."visits"', 'main."staff"'), "bounds"),
    ("keys of the data", text("k0.g AS g0", 's."days" AS g0'), "bounds"),
    ("a key found twice", text("IS NOT DISTINCT FROM k0.v", "<> k0.v"), "bounds"),
    ("a condition by chance", text("WHERE (", "WHERE random() < 0.5 AND ("), "bounds"),
    ("a comment", text("GROUP BY g0, u, w", "GROUP BY g0, u, w -- and more"), "bounds"),
    ("a condition that could fail", text("WHERE (", "WHERE CAST(s.\"ward\" AS INTEGER) < 5 AND ("), "bounds"),
    ("another query, as well bounded", text("< CAST(5", "< CAST(4"), "ledger"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "change", "step"), CLAIMS, ids=shown)
def test_a_claim_with_something_wrong_breaks_its_step(what: str, change: Change, step: str) -> None:
    document, _, _, ledger = honest("groups", "add-remove")
    plainly = forged(document, change)
    assert plainly["claim"] != document["claim"]
    fitted = sealed(copy.deepcopy(plainly))
    assert check(fitted, ledger).broken == step, what
    # the forger who does not make things fit is found no later
    steps = list(STEPS)
    assert steps.index(check(plainly, ledger).broken or "") <= steps.index(step)


def test_a_claim_that_one_population_pays_for_is_none_of_two() -> None:
    document = honest("groups")[0]
    with visits() as session:
        alone = plain(session.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=1).certificate())
    assert check(alone).ok
    for wrong in (
        {**document, "claim": alone["claim"]},
        {**alone, "claim": document["claim"]},
        {**alone, "populations": ["patients", "doctors"]},
        {**document, "ledger": {**document["ledger"], "accounts": accounts(document)[:1]}},
    ):
        assert check(wrong).broken == "format"


def test_the_groups_of_two_keys_cannot_be_exchanged() -> None:
    document, _, _, ledger = honest("two keys")
    assert document["claim"]["lists"] == [3, 6]
    change = put("lists", to=[6, 3])
    assert check(sealed(forged(document, change)), ledger).broken == "bounds"


def test_what_was_charged_for_less_is_not_made_to_fit_with_the_honest_entries() -> None:
    """Lower caps of one population, with all that follows from them, under the charges that were made."""
    document, _, _, ledger = honest("a count")
    forgery = forged(document, all_of(put("measured", 0, "flows", 0, "caps", 1, to="3"), follow))
    forgery["reasons"] = checks_of(flow_claim(forgery)).reasons()
    assert check(forgery, ledger).broken == "charge"
    fitted = sealed(forgery)
    assert check(fitted).ok  # it is true of itself, as anybody can make up a ledger
    assert check(fitted, ledger).broken == "ledger"


def test_no_certificate_passes_with_a_ledger_that_is_not_its_own() -> None:
    document, _, _, ledger = honest("groups")
    for name in ("two keys", "a count"):
        assert check(document, honest(name)[3]).broken == "ledger"
    for cut in (ledger[:1], ledger[:-1], ledger[:6], [*ledger[:5], *ledger[6:]], [*ledger, ledger[-1]]):
        assert check(document, cut).broken == "ledger"
    assert check(document, ledger, head="ab" * 32).broken == "ledger"
    assert check(document, ledger, head=document["ledger"]["head"]["hash"]).ok


def test_the_ledgers_of_two_sessions_cannot_be_joined() -> None:
    """Each population's part is honest, of the same question, of another ledger."""
    with both() as one, both() as other:
        first, second = asked(one, "a count"), asked(other, "a count")
        ledger = exported(one)
    forgery = copy.deepcopy(first)
    forgery["ledger"]["accounts"][1] = second["ledger"]["accounts"][1]
    assert check(forgery).broken == "account"
    relink(forgery)
    assert check(forgery, ledger).broken in ("release", "ledger")


def test_a_statement_that_could_fail_on_somebodys_row_breaks_the_tables() -> None:
    document, _, _, ledger = honest("groups")
    value = 'CASE WHEN s."days" IS NOT NULL THEN CAST(least(greatest(s."days", 0), 4) AS INTEGER) END'
    assert value in document["claim"]["sql"]
    change = text(value, value.replace('greatest(s."days", 0)', 'greatest(s."days" * 9999999999, 0)'))
    assert check(sealed(forged(document, change)), ledger).broken == "tables"


def test_the_kinds_of_forgery_are_many() -> None:
    assert len(SAID) + len(CLAIMS) >= 150
    for kinds in (SAID, CLAIMS):
        assert len({what for what, *_ in kinds}) == len(kinds)
