"""Certificates with one thing wrong, and all that a forger can make to fit it made to fit: each is rejected at the step
that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

import discreet as dp
from discreet.privacy.codec import fraction_text
from discreet.verify.certificate.checker import STEPS, check
from tests.verify.asked import SEVERAL, SINGLE, ask, exported, plain, shop, visits
from tests.verify.forging import Change, Document, accounts, forged, measurement, plan_claim, relink, rewrite, sealed

WANTED = {
    "two keys": (False, "add-remove"),
    "groups": (False, "add-remove"),
    "means": (False, "replace"),
    "Gaussian": (False, "add-remove"),
    "private groups": (False, "add-remove"),
    "groups in rounds": (False, "replace"),
    "values": (False, "add-remove"),
    "quartiles": (False, "add-remove"),
    "a median": (False, "replace"),
    "totals": (False, "add-remove"),
    "a report": (False, "add-remove"),
    "both chosen": (False, "add-remove"),
    "caps chosen": (False, "replace"),
    "a join": (True, "add-remove"),
    "by keys": (True, "add-remove"),
    "a public table": (True, "add-remove"),
}


@cache
def honest(name: str) -> tuple[Document, tuple[str, ...]]:
    """A certificate and the export of its ledger, which has a later entry as well."""
    several, relation = WANTED[name]
    unit: dict[str, Any] = (
        {"unit": dp.PrivacyUnit("uid", max_groups=8, max_rows=3)} if name == "groups in rounds" else {}
    )
    where = (shop if several else visits)(relation=relation, **unit)
    sql, options = (SEVERAL if several else SINGLE)[name]
    release = ask(where, sql, options)
    document = plain(release.certificate())
    ask(where, sql, {**options, "epsilon": 2})
    return document, tuple(exported(where))


def found(document: Document, name: str) -> str | None:
    """The first step that does not hold, with the honest ledger to compare."""
    return check(document, honest(name)[1]).broken


def shown(value: object) -> str:
    """A parameter in a test's name: the same in every process."""
    return "" if callable(value) else str(value)[:60]


@pytest.mark.parametrize("name", WANTED)
def test_each_of_them_is_accepted_as_it_is_and_when_it_is_sealed_again(name: str) -> None:
    document, ledger = honest(name)
    assert check(document, ledger).ok
    assert check(sealed(forged(document, lambda d: None)), ledger).ok


# --- the statements ---

TEXTS: list[tuple[str, str, str, str]] = [
    ("two keys", "no ranking", " <= 2\n", " <= 2 OR TRUE\n"),
    ("two keys", "one group more", " <= 2\n", " <= 3\n"),
    ("two keys", "a rank that repeats", "row_number()", "rank()"),
    ("two keys", "a count without its cap", "least(n, 3)", "n"),
    ("two keys", "another unit", 's."uid" AS u', 's."day" AS u'),
    ("two keys", "a unit for each row", 's."uid" AS u', "s.rowid AS u"),
    ("groups", "rows of nobody kept", ' AND s."uid" IS NOT NULL', ""),
    ("two keys", "one declared key more", "('c', 2)", "('c', 2), ('d', 3)"),
    ("two keys", "keys from the data", "VALUES ('a', 0)", "SELECT ward, 0 FROM main.visits"),
    ("two keys", "an order without the secret", ", $secret)", ")"),
    ("two keys", "the secret written out", "$secret", "12345"),
    ("two keys", "a filter on exact sums", 'FROM "unit bounded" GROUP BY g0, g1',
     'FROM "unit bounded" GROUP BY g0, g1 HAVING sum(m0) > 5'),
    ("two keys", "the sum of squares", "sum(m0)", "sum(m0 * m0)"),
    ("two keys", "another table", 'main."visits"', 'main."people"'),
    ("groups", "a sum without its upper bound", "least(greatest(coalesce(", "(greatest(coalesce("),
    ("groups", "a wider bound", ", 0), ", ", 0), 1"),
    ("groups", "a condition that looks at others", 'WHERE (s."day"', 'WHERE random() < 0.5 AND (s."day"'),
    ("groups", "a window over others", "least(n, 3)", "least(sum(n) OVER (), 3)"),
    ("groups", "another unit, in upper case", 's."uid" AS u', 's."day" AS "U", s."uid" AS u'),
    ("groups", "another column, in upper case", "least(n, 3) AS m0", 'n * 1000 AS "M0", least(n, 3) AS m0'),
    ("groups", "keys of the data, in upper case", "k0.g AS g0", 's."note" AS "G0", k0.g AS g0'),
    ("groups", "a join behind invisible spaces", 'FROM "unit bounded" GROUP',
     'FROM "unit bounded" AS x\u200bCROSS\u200bJOIN\u200bvisits GROUP'),
    ("means", "a bound of two left out", "least(greatest(", "(greatest("),
    ("means", "a sum three times", "sum(m0)", "3 * sum(m0)"),
    ("Gaussian", "a wider cap", "least(n, 3)", "least(n, 4)"),
    ("private groups", "rows counted instead of units", "1 AS m1", "least(n, 9) AS m1"),
    ("private groups", "the row shown as a key", "AS g0", "AS g0x, s.rowid AS g0"),
    ("a join", "units not held equal", "ON l.u = r.u", "ON TRUE"),
    ("a join", "a bound missing on one branch", 'least(greatest(s."', '(greatest(s."'),
    ("a join", "joined on nothing", "ON l.u = r.u", "ON TRUE OR l.u = r.u"),
    ("a join", "the wrong side of a join kept", "JOIN (", "FULL JOIN ("),
    ("a join", "another column as the unit", 't."id" AS u', 't."age" AS u'),
    ("by keys", "another key", 't."oid" = o.', 't."price" = o.'),
    ("by keys", "an owner without its key", "SELECT DISTINCT u", "SELECT u"),
    ("a public table", "a private table for a public one", 'main."zones"', 'main."orders"'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "what", "old", "new"), TEXTS, ids=shown)
def test_a_statement_that_bounds_less_breaks_the_bounds(name: str, what: str, old: str, new: str) -> None:
    def change(d: Document) -> None:
        text = measurement(d)["sql"]
        assert old in text, text
        measurement(d)["sql"] = text.replace(old, new)

    document = sealed(forged(honest(name)[0], change))
    assert found(document, name) in ("bounds", "sensitivity")
    assert found(document, name) == "bounds" or what in WIDER


WIDER = {
    "one group more", "a wider bound", "a wider cap", "rows counted instead of units", "a bound missing on one branch",
}  # fmt: skip
"""What is bounded all the same, but by more than is said."""

OTHERS: list[tuple[str, str, Callable[[Document], tuple[dict[str, Any], Any]], str, str]] = [
    ("values", "a cap of values", lambda d: (measurement(d)["distinct"][0], 1), " <= 3", " <= 4"),
    ("values", "values of everybody", lambda d: (measurement(d)["distinct"][0], 1), "PARTITION BY u", "PARTITION BY d"),
    ("values", "values counted as rows", lambda d: (measurement(d)["distinct"][0], 1), "count(DISTINCT d)", "count(d)"),
    ("quartiles", "weights", lambda d: (measurement(d)["trees"][0], "sql"), "// greatest(", "// least("),
    ("quartiles", "weights of others", lambda d: (measurement(d)["trees"][0], "sql"), "ON r.u = w.u AND ", "ON "),
    ("quartiles", "squares", lambda d: (measurement(d)["trees"][0], "sql"), "sum(w.w)", "sum(w.w * w.w)"),
    ("a median", "more weight", lambda d: (measurement(d)["trees"][0], "sql"), "3145728 //", "3145729 //"),
    ("a median", "leaves of reals", lambda d: (measurement(d)["trees"][0], "sql"), " AS INTEGER)", " AS DOUBLE)"),
    ("a median", "a place among reals", lambda d: (measurement(d)["trees"][0], "sql"), "CAST(0 AS BIGINT)",
     "CAST(0 AS DOUBLE)"),
    ("a report", "a sum for a count", lambda d: (measurement(d)["truncation"], 0), "count(*) FILTER", "sum(p0) FILTER"),
    ("a report", "rows without a unit", lambda d: (measurement(d)["truncation"], 1), ' WHERE s."uid" IS NOT NULL', ""),
    ("a report", "a row for each match", lambda d: (measurement(d)["truncation"], 1), "LEFT JOIN", "FULL JOIN"),
    ("caps chosen", "a look that counts twice", lambda d: (d["claim"]["looks"][0], "sql"), "count(*)", "2 * count(*)"),
    ("caps chosen", "a look at rows", lambda d: (d["claim"]["looks"][0], "sql"), 'FROM "unit places"',
     'FROM "unit groups"'),
    ("both chosen", "values of all rows", lambda d: (d["claim"]["looks"][1], "sql"), "max(", "sum("),
]  # fmt: skip


@pytest.mark.parametrize(("name", "what", "where", "old", "new"), OTHERS, ids=shown)
def test_so_does_any_other_statement(name: str, what: str, where: Any, old: str, new: str) -> None:
    def change(d: Document) -> None:
        holder, key = where(d)
        assert old in holder[key], holder[key]
        holder[key] = holder[key].replace(old, new)

    document = sealed(forged(honest(name)[0], change))
    assert found(document, name) in ("bounds", "sensitivity"), what


# --- numbers of the claim ---


def scaled(field: str, factor: Fraction) -> Change:
    """A change of the first column's noise, and of nothing that follows from it."""

    def change(d: Document) -> None:
        noise = measurement(d)["columns"][0]["noise"]
        noise[field] = fraction_text(Fraction(noise[field]) * factor)

    return change


def events_follow(d: Document) -> None:
    """The events that the mechanisms of a claim have, told wherever events are."""
    from discreet.privacy import codec
    from discreet.verify.certificate.claim_checks import of_charge, of_measurements

    d["claim"]["measured"]["events"] = codec.encode(of_measurements(plan_claim(d)))
    d["claim"]["charged"]["events"] = codec.encode(of_charge(plan_claim(d)))


def tell(d: Document, change: Callable[[list[Any]], None]) -> None:
    """Changes the events, wherever they are told."""
    for cost in ("measured", "charged"):
        change(d["claim"][cost]["events"])


def less(d: Document) -> None:
    for cost in ("measured", "charged"):
        d["claim"][cost]["epsilon"] = "999/1000"


def both(*changes: Change) -> Change:
    def change(d: Document) -> None:
        for each in changes:
            each(d)

    return change


def put(*path: Any, to: Any) -> Change:
    """A change of one field of the claim."""

    def change(d: Document) -> None:
        at = d["claim"]
        for step in path[:-1]:
            at = at[step]
        at[path[-1]] = to(at[path[-1]]) if callable(to) else to

    return change


M, C = ("measurements", 0), ("measurements", 0, "columns", 0)
HALF, JUST = Fraction(1, 2), Fraction(999, 1000)


def told_as(n: int) -> Change:
    """The ε of all noise as n losses of the same size, whose ρ is smaller than that of the noise."""

    def change(d: Document) -> None:
        epsilon = Fraction(d["claim"]["charged"]["epsilon"]) / n
        event = {"event": "approximate", "epsilon": fraction_text(epsilon), "delta": "0/1", "count": n}
        for cost in ("measured", "charged"):
            d["claim"][cost]["events"] = [event]

    return change


NUMBERS: list[tuple[str, str, Change, str]] = [
    ("two keys", "sensitivity one less", put(*C, "sensitivity", to=lambda s: {**s, "l1": str(int(s["l1"]) - 1),
     "l0": s["l0"], "linf": s["linf"]}), "sensitivity"),
    ("two keys", "a smaller ℓ2", put(*C, "sensitivity", "l2_squared", to=lambda v: str(int(v) - 1)), "sensitivity"),
    ("two keys", "all norms for one group", put(*C, "sensitivity", to=lambda s: {
        "l0": "1", "linf": s["linf"], "l1": s["linf"], "l2_squared": str(int(s["linf"]) ** 2)}), "sensitivity"),
    ("two keys", "all norms for three groups", put(*C, "sensitivity", to=lambda s: {
        "l0": "3", "linf": s["linf"], "l1": str(3 * int(s["linf"])),
        "l2_squared": str(3 * int(s["linf"]) ** 2)}), "sensitivity"),
    ("two keys", "fewer groups", put(*M, "groups", to=1), "sensitivity"),
    ("two keys", "more groups", put(*M, "groups", to=3), "sensitivity"),
    ("two keys", "a narrower contribution", put(*C, "high", to=lambda v: str(int(v) - 1)), "sensitivity"),
    ("two keys", "a wider contribution", put(*C, "high", to=lambda v: str(int(v) + 1)), "sensitivity"),
    ("two keys", "a contribution below 0", put(*C, "low", to="-1"), "sensitivity"),
    ("two keys", "the other relation", put("relation", to="replace"), "sensitivity"),
    ("means", "the other relation", put("relation", to="add-remove"), "sensitivity"),
    ("two keys", "noise halved", scaled("scale", HALF), "noise"),
    ("two keys", "noise halved and told", both(scaled("scale", HALF), events_follow), "noise"),
    ("two keys", "noise just short", both(scaled("scale", JUST), events_follow), "noise"),
    ("two keys", "noise doubled and not told", scaled("scale", Fraction(2)), "events"),
    ("Gaussian", "noise halved", both(scaled("sigma", HALF), events_follow), "noise"),
    ("Gaussian", "noise just short", both(scaled("sigma", JUST), events_follow), "noise"),
    ("Gaussian", "noise doubled and not told", scaled("sigma", Fraction(2)), "events"),
    ("Gaussian", "a column with other noise", put(*C, "noise", to={"kind": "discrete-laplace", "scale": "6/1"}),
     "noise"),
    ("two keys", "no noise", put(*C, "noise", to={"kind": "discrete-laplace", "scale": "1/1000000"}), "noise"),
    ("two keys", "less ε", less, "noise"),
    ("two keys", "an event left out", lambda d: tell(d, lambda e: e.pop()), "events"),
    ("two keys", "an event once less", lambda d: tell(d, lambda e: e[0].update(count=e[0]["count"] - 1)), "events"),
    ("two keys", "an event twice", lambda d: tell(d, lambda e: e[0].update(count=2 * e[0]["count"])), "events"),
    ("two keys", "an event of a smaller shift", lambda d: tell(d, lambda e: e[-1].update(shift=2)), "events"),
    ("two keys", "events by their sum alone", lambda d: tell(d, lambda e: e.__setitem__(slice(None), [
        {"event": "approximate", "epsilon": "1/1", "delta": "0/1", "count": 1}])), "events"),
    ("two keys", "no events", lambda d: tell(d, lambda e: e.clear()), "events"),
    ("two keys", "other events for the ledger", put("charged", "events", to=[]), "events"),
    ("two keys", "another price for the ledger", put("charged", "epsilon", to="1/2"), "events"),
    ("private groups", "less δ", both(put("measured", "delta", to="1/20000"), put("charged", "delta", to="1/20000")),
     "noise"),
    ("private groups", "a selection for one group", put(*M, "threshold", "max_groups", to=1), "noise"),
    ("private groups", "a selection with more ε", put(*M, "threshold", "epsilon", to="9/10"), "noise"),
    ("private groups", "a selection with less ε, not told", put(*M, "threshold", "epsilon", to="1/10"), "events"),
    ("private groups", "a selection under another relation", put(*M, "threshold", "relation", to="replace"), "events"),
    ("groups in rounds", "a selection with more ε", put(*M, "threshold", "epsilon", to="19/1"), "noise"),
    ("groups in rounds", "a selection with less ε, not told", put(*M, "threshold", "epsilon", to="1/10"), "events"),
    ("groups in rounds", "a selection for fewer groups", put(*M, "threshold", "max_groups", to=7), "noise"),
    ("groups in rounds", "a threshold for rounds", put(*M, "threshold", to=lambda t: {
        **t, "kind": "threshold", "min_people": 1}), "bounds"),
    ("groups in rounds", "no weights", put(*M, "weights", to=""), "bounds"),
    ("groups in rounds", "each round fails once", lambda d: tell(d, lambda e: next(
        x for x in e if x["event"] == "approximate" and x["epsilon"] == "0/1").update(count=2)), "events"),
    ("private groups", "no selection", put(*M, "threshold", to=None), "bounds"),
    ("private groups", "declared keys", put(*M, "lists", to=[3]), "bounds"),
    ("two keys", "private keys", put(*M, "lists", to=None), "bounds"),
    ("two keys", "a shorter list of keys", put(*M, "lists", to=[2, 5]), "bounds"),
    ("two keys", "lists exchanged for one", put(*M, "lists", to=[15]), "bounds"),
    ("two keys", "one key less", put(*M, "keys", to=1), "bounds"),
    ("two keys", "a column left out", lambda d: measurement(d)["columns"].pop(), "bounds"),
    ("two keys", "a column twice", lambda d: measurement(d)["columns"].append(measurement(d)["columns"][0]), "bounds"),
    ("two keys", "nothing measured", put("measurements", to=[]), "format"),
    ("two keys", "measured twice", lambda d: d["claim"]["measurements"].append(measurement(d)), "noise"),
    ("values", "another place", put(*M, "distinct", 0, 0, to=9), "bounds"),
    ("values", "no statement of its own", put(*M, "distinct", to=[]), "bounds"),
    ("quartiles", "no level", put(*M, "trees", 0, "depth", to=0), "noise"),
    ("quartiles", "a level more", put(*M, "trees", 0, "depth", to=lambda n: n + 1), "noise"),
    ("quartiles", "a level less", put(*M, "trees", 0, "depth", to=lambda n: n - 1), "events"),
    ("quartiles", "a level less, not told", both(put(*M, "trees", 0, "depth", to=lambda n: n - 1), events_follow),
     "release"),
    ("quartiles", "less weight", put(*M, "trees", 0, "sensitivity", to=lambda s: {
        **s, "l0": "1", "l1": s["linf"], "l2_squared": str(int(s["linf"]) ** 2)}), "sensitivity"),
    ("quartiles", "noise halved", put(*M, "trees", 0, "noise", "scale", to=lambda v: fraction_text(Fraction(v) / 2)),
     "noise"),
    ("quartiles", "no tree", put(*M, "trees", to=[]), "bounds"),
    ("a median", "another quantile", put(*M, "trees", 0, "at", to=["1/4"]), "noise"),
    ("a median", "a choice with more ε", put(*M, "trees", 0, "noise", "epsilon", to="2/1"), "noise"),
    ("a median", "a choice for less weight", put(*M, "trees", 0, "noise", "sensitivity", to="1"), "noise"),
    ("a median", "a choice under the other relation", put(*M, "trees", 0, "noise", "relation", to="add-remove"),
     "noise"),
    ("totals", "totals that were not paid", put(*M, "levels", 0, "noises", 0, "scale", to="1/1"), "noise"),
    ("totals", "totals told as many small losses", told_as(6), "events"),
    ("totals", "the same totals twice", lambda d: measurement(d)["levels"].append(measurement(d)["levels"][0]),
     "noise"),
    ("totals", "totals of a key that is none", put(*M, "levels", 0, "kept", to=[7]), "noise"),
    ("totals", "totals with one column", put(*M, "levels", 0, "noises", to=[]), "noise"),
    ("a report", "a report without noise", put(*M, "reports", 0, "scale", to="1/1000"), "noise"),
    ("a report", "noise for a unit that comes or goes", both(put(*M, "reports", 0, "scale",
     to=lambda v: fraction_text(Fraction(v) / 2)), events_follow), "noise"),
    ("a report", "one report only", lambda d: measurement(d)["reports"].pop(), "bounds"),
    ("a report", "no statement for reports", put(*M, "truncation", to=[]), "bounds"),
    ("a report", "one statement twice", lambda d: measurement(d)["truncation"].append(measurement(d)["truncation"][0]),
     "bounds"),
    ("a report", "one report twice, and no noise for it", lambda d: (
        measurement(d)["truncation"].append(measurement(d)["truncation"][0]),
        measurement(d)["reports"].append({"kind": "discrete-laplace", "scale": "1000000/1"}))[-1], "noise"),
    ("caps chosen", "a look with less noise", put("looks", 0, "noise", "scale", to="1/1"), "sensitivity"),
    ("caps chosen", "a look for more ε", put("looks", 0, "epsilon", to="1/2"), "events"),
    ("caps chosen", "a look that is not charged", put("looks", to=[]), "events"),
    ("caps chosen", "a look twice", lambda d: d["claim"]["looks"].append(d["claim"]["looks"][0]), "events"),
    ("caps chosen", "a look of another kind", put("looks", 0, "kind", to="values"), "bounds"),
    ("caps chosen", "a look with fewer places", put("looks", 0, "counts", to=2), "bounds"),
    ("caps chosen", "a look with noise for add-remove", put("looks", 0, "noise", "scale",
     to=lambda v: fraction_text(Fraction(v) / 2)), "sensitivity"),
    ("caps chosen", "a second stage with all of ε", put("measured", "epsilon", to="1/1"), "events"),
    ("caps chosen", "a second stage with less", put("measured", "epsilon", to="1/2"), "noise"),
    ("both chosen", "no noise on who is outside", put("looks", 1, "outside", to=None), "bounds"),
    ("both chosen", "half the noise on who is outside", put("looks", 1, "outside", "scale",
     to=lambda v: fraction_text(Fraction(v) / 2)), "sensitivity"),
    ("both chosen", "noise on who is outside, paid by the counts", both(
        put("looks", 1, "outside", "scale", to="20/1"), put("looks", 1, "noise", "scale", to="40/1")), "events"),
    ("both chosen", "noise on who is outside of caps", put("looks", 0, "outside",
     to={"kind": "discrete-laplace", "scale": "1000000/1"}), "bounds"),
    ("both chosen", "counts of one value less", put("looks", 1, "counts", to=1), "bounds"),
    ("a join", "fewer rows of a table known", put(*M, "source", "tables", "people", "columns", to={"id": "BIGINT"}),
     "bounds"),
    ("a join", "a table that is nobody's", put(*M, "source", "tables", "orders", to=lambda t: {
        **t, "unit": None, "public": True}), "bounds"),
    ("a join", "a table of another unit", put(*M, "source", "tables", "orders", "unit", to="oid"), "bounds"),
    ("by keys", "a key to another table", put(*M, "source", "tables", "items", "key", to=["oid", "people", "id"]),
     "bounds"),
    ("by keys", "a table left out", lambda d: measurement(d)["source"]["tables"].pop("items"), "bounds"),
    ("two keys", "a unit for each row", put(*M, "source", "unit", to=None), "bounds"),
    ("two keys", "another unit", put(*M, "source", "unit", to="day"), "bounds"),
    ("two keys", "another table", put(*M, "source", "table", to="people"), "bounds"),
    ("two keys", "a column that is not known", lambda d: measurement(d)["source"]["columns"].remove("ward"), "bounds"),
    ("two keys", "a column too many", lambda d: measurement(d)["source"]["columns"].append("zzz"), "tables"),
    ("a join", "a column of a table too many", put(*M, "source", "tables", "people", "columns",
     to=lambda c: {**c, "zzz": "BIGINT"}), "tables"),
    ("two keys", "fewer rows of a unit", put(*M, "rows", to=1), "ledger"),
    ("groups", "another query, as well bounded", put(*M, "sql", to=lambda v: v.replace("< CAST(4", "< CAST(3")),
     "ledger"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "what", "change", "step"), NUMBERS, ids=shown)
def test_a_claim_with_a_wrong_number_breaks_its_step(name: str, what: str, change: Change, step: str) -> None:
    document = sealed(forged(honest(name)[0], change))
    assert document["claim"] != honest(name)[0]["claim"]
    assert found(document, name) == step, what
    if step != "ledger":
        assert check(document).broken == step
        # the forger who does not make things fit is found no later
        assert list(STEPS).index(found(forged(honest(name)[0], change), name) or "") <= list(STEPS).index(step)


# --- the ledger, the answer, and what is said in words ---


def other(name: str, entry: str) -> Change:
    """An entry of another release."""

    def change(d: Document) -> None:
        accounts(d)[0][entry] = accounts(honest(name)[0])[0][entry]

    return change


def said(entry: str, **fields: Any) -> Change:
    """An entry that says something else, with the hash that follows."""

    def change(d: Document) -> None:
        rewrite(d, entry, lambda body: body.update(fields))

    return change


def noted(**fields: Any) -> Change:
    def change(d: Document) -> None:
        rewrite(d, "charge", lambda body: body["note"].update(fields))

    return change


def kept(change_release: Callable[[dict[str, Any]], Any]) -> Change:
    def change(d: Document) -> None:
        rewrite(d, "release", lambda body: change_release(body["release"]))

    return change


ZERO = "0" * 64
SAID: list[tuple[str, str, Change, str]] = [
    ("two keys", "a changed row", lambda d: d["answer"]["rows"][0].__setitem__(2, d["answer"]["rows"][0][2] + 1),
     "release"),
    ("two keys", "a row left out", lambda d: d["answer"]["rows"].pop(), "release"),
    ("two keys", "rows exchanged", lambda d: d["answer"]["rows"].reverse(), "release"),
    ("two keys", "a row more", lambda d: d["answer"]["rows"].append(["a", 1, 2, 3]), "release"),
    ("two keys", "another column's name", lambda d: d["answer"]["columns"].__setitem__(0, "city"), "release"),
    ("two keys", "a result of another release", lambda d: d.update(answer=honest("groups")[0]["answer"]), "release"),
    ("two keys", "a noisy number", kept(lambda r: r["cells"][0].__setitem__(0, r["cells"][0][0] + "9")), "ledger"),
    ("two keys", "a column of noisy numbers more", kept(lambda r: [row.append("1") for row in r["cells"]]), "release"),
    ("two keys", "a group more", kept(lambda r: r["keys"].append(["d", 9])), "release"),
    ("two keys", "an exact number beside", kept(lambda r: r.update(exact=["1"])), "release"),
    ("two keys", "a report that was not paid", kept(lambda r: r["reports"].append("5")), "release"),
    ("two keys", "trees that were not paid", kept(lambda r: r.update(trees=[[[[0, 0, ["5"]]]]])), "release"),
    ("two keys", "a tree of no node that was not paid", kept(lambda r: r.update(trees=[[]])), "release"),
    ("two keys", "a number that is no text", kept(lambda r: r["cells"][0].__setitem__(0, 5)), "release"),
    ("two keys", "no digests", kept(lambda r: r.pop("certified")), "release"),
    ("two keys", "another claim's digest", kept(lambda r: r["certified"].update(claim=ZERO)), "release"),
    ("two keys", "another result's digest", kept(lambda r: r["certified"]["answers"].update({"": ZERO})), "release"),
    ("quartiles", "a node of a level without noise", kept(lambda r: r["trees"][0][0].append([7, 0, ["1"]])),
     "release"),
    ("quartiles", "a node twice", kept(lambda r: r["trees"][0][0].append(r["trees"][0][0][0])), "release"),
    ("a median", "a fourth choice", kept(lambda r: r["trees"][0][0][0][2].append("1")), "release"),
    ("totals", "totals that were not measured", kept(lambda r: r["levels"].append(r["levels"][0])), "release"),
    ("caps chosen", "other caps", kept(lambda r: r.update(caps=[1, 1000, *r["caps"][2:]])), "release"),
    ("caps chosen", "an exact number behind the caps", kept(lambda r: r["caps"].append("5")), "release"),
    ("caps chosen", "a number behind the caps that is no text", kept(lambda r: r["caps"].__setitem__(3, 5)), "release"),
    ("caps chosen", "no caps", kept(lambda r: r.update(caps=None)), "release"),
    ("both chosen", "an exact number behind a range", kept(lambda r: r["ranges"][0].append("5")), "release"),
    ("two keys", "the charge of another ledger", other("groups", "charge"), "charge"),
    ("two keys", "the release of another query", other("groups", "release"), "release"),
    ("two keys", "the account of another ledger", other("groups", "account"), "ledger"),
    ("two keys", "the account of another population", other("a join", "account"), "account"),
    ("two keys", "an account under another relation", other("means", "account"), "account"),
    ("two keys", "the head of another ledger", lambda d: d["ledger"].update(head={"seq": 9, "hash": ZERO}), "ledger"),
    ("two keys", "a head before the release", lambda d: d["ledger"].update(head={"seq": 1, "hash": ZERO}), "release"),
    ("two keys", "a head with another hash", lambda d: d["ledger"]["head"].update(hash=ZERO), "release"),
    ("two keys", "tables of another ledger", lambda d: accounts(d)[0].update(
        schemas=accounts(honest("groups")[0])[0]["schemas"]), "ledger"),
    ("two keys", "no table fixed", lambda d: accounts(d)[0].update(schemas=[]), "tables"),
    ("two keys", "a table fixed twice", lambda d: accounts(d)[0]["schemas"].append(accounts(d)[0]["schemas"][0]),
     "tables"),
    ("a join", "a table that was not fixed", lambda d: accounts(d)[0]["schemas"].pop(), "tables"),
    ("two keys", "a charge that cost less", said("charge", epsilon="1/2"), "charge"),
    ("two keys", "a charge with another δ", said("charge", delta="1/1000000"), "charge"),
    ("two keys", "a charge without events", said("charge", events=[]), "charge"),
    ("two keys", "a charge of another query", said("charge", question=ZERO), "charge"),
    ("two keys", "a charge of another population", said("charge", population="others"), "charge"),
    ("two keys", "a charge that is a freeze", said("charge", kind="freeze"), "charge"),
    ("two keys", "a charge of another number", said("charge", seq=77), "charge"),
    ("two keys", "a charge with a field more", said("charge", more=1), "charge"),
    ("two keys", "a charge at another time", said("charge", time="2020-01-01T00:00:00.000Z"), "ledger"),
    ("two keys", "a tally that tells less", said("charge", spent=["0/1", "0/1"]), "ledger"),
    ("two keys", "a note of another text", noted(sql="SELECT 1"), "charge"),
    ("two keys", "a note of another version", noted(version="2020-01"), "charge"),
    ("two keys", "a note of another library", noted(library="9.9"), "charge"),
    ("two keys", "a note of another claim", noted(claim=ZERO), "charge"),
    ("two keys", "a release of another query", said("release", question=ZERO), "release"),
    ("two keys", "a release of another charge", said("release", charge=1), "release"),
    ("two keys", "a release of another population", said("release", population="others"), "release"),
    ("two keys", "an account with more to spend", said("account", budget={
        "epsilon": "99999999/1", "delta": "1/2", "per_query": "20/1"}), "registry"),
    ("two keys", "an account under another filter", said("account", filter="zcdp"), "registry"),
    ("two keys", "an account of another relation", said("account", relation="replace"), "account"),
    ("two keys", "a body without its hash", lambda d: accounts(d)[0]["charge"].update(
        body=accounts(d)[0]["charge"]["body"].replace('"1/1"', '"1/2"')), "charge"),
    ("two keys", "a hash without its body", lambda d: accounts(d)[0]["release"].update(hash=ZERO), "release"),
    ("two keys", "another hash before", lambda d: accounts(d)[0]["account"].update(previous="1" * 64), "account"),
    ("two keys", "another hash before, and what follows", both(lambda d: accounts(d)[0]["account"].update(
        previous="1" * 64), relink), "ledger"),
    ("two keys", "another text of the query", lambda d: d["question"].update(sql="SELECT 1"), "charge"),
    ("two keys", "another identity", lambda d: d["question"].update(identity=ZERO), "charge"),
    ("two keys", "a name as in a batch", lambda d: d["question"].update(name="n"), "charge"),
    ("two keys", "another version of the data", lambda d: d.update(version="2027"), "charge"),
    ("two keys", "no version of the data", lambda d: d.update(version=None), "charge"),
    ("two keys", "another population", lambda d: d.update(populations=["others"]), "account"),
    ("two keys", "another library", lambda d: d.update(library="0.0.1"), "charge"),
    ("two keys", "another reason", lambda d: d["reasons"].__setitem__(0, "Trust us."), "sensitivity"),
    ("two keys", "a reason less", lambda d: d["reasons"].pop(), "sensitivity"),
    ("two keys", "a registry with less ε", lambda d: d["registry"][0]["parameters"].update(epsilon="1/10"), "registry"),
    ("two keys", "a registry with a better unit", lambda d: d["registry"][0]["unit"].update({"is": ["each clinic"]}),
     "registry"),
    ("two keys", "a registry that leaves out what is out of scope", lambda d: d["registry"][0]["out_of_scope"].pop(),
     "registry"),
    ("two keys", "a registry of another model", lambda d: d["registry"][0].update(model="local"), "registry"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "what", "change", "step"), SAID, ids=shown)
def test_a_certificate_that_says_something_else_breaks_its_step(
    name: str, what: str, change: Change, step: str
) -> None:
    assert found(forged(honest(name)[0], change), name) == step, what


def test_no_certificate_passes_with_a_ledger_that_is_not_its_own() -> None:
    document, ledger = honest("two keys")
    for name in ("groups", "values", "a join"):
        assert check(document, honest(name)[1]).broken == "ledger"
    for cut in (ledger[:1], ledger[:-1], ledger[:3], [*ledger[:2], *ledger[3:]], [*ledger, ledger[-1]], ["x"]):
        verdict = check(document, cut) if cut != ["x"] else check(document, ["x"])
        assert verdict.broken == "ledger", len(cut)
    assert check(document, ledger, head="ab" * 32).broken == "ledger"
    assert check(document, ledger, head=accounts(document)[0]["charge"]["hash"]).ok


def test_the_kinds_of_forgery_are_many() -> None:
    assert len(TEXTS) + len(OTHERS) + len(NUMBERS) + len(SAID) >= 180
