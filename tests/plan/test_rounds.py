"""The statement of a round of selection: what it sums, what the second derivation reads in it, and what it refuses."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from fractions import Fraction as F
from typing import Any

import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.errors import DiscreetError, InternalError, UnsupportedQuery
from discreet.mechanisms.rounds import WHOLE, GaussianRounds, weight
from discreet.plan.bound import with_shown
from discreet.plan.parts import kept_open
from discreet.plan.query import Query, claim_of
from discreet.privacy.event import Composed
from discreet.verify.check import check
from discreet.verify.weights import derive_weights

QUESTION = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
ROWS = [(person, f"k{group}") for person in range(12) for group in range(person % 8 + 1)]


def session(relation: str = "add-remove", rows: list[tuple[int, str]] = ROWS, **more: Any) -> dp.Session:
    import pyarrow as pa

    table = pa.table({"id": [r[0] for r in rows], "k": [r[1] for r in rows]})
    unit = more.pop("unit", dp.PrivacyUnit("id", max_groups=6, max_rows=2))
    budget = more.pop("budget", dp.Budget(epsilon=100, delta="0.1"))
    settings = {"unit": unit, "population": "p", "budget": budget, "ledger": ":memory:", "relation": relation}
    return dp.connect({"t": table}, **settings, **more)


def planned(relation: str = "add-remove", **more: Any) -> Query:
    with session(relation, **more) as s:
        return s.plan(QUESTION, epsilon=1, delta="1e-6").query


def found(text: str, rows: list[tuple[int, str]]) -> dict[str, tuple[int, int]]:
    """Group → hash and sum of weights."""
    with open_database() as db:
        db.execute('CREATE TABLE "t" (id BIGINT, k VARCHAR)')
        if rows:
            db.executemany('INSERT INTO "t" VALUES (?, ?)', rows)
        parameters = {"secret": 5} if "$secret" in text else {}
        return {k: (int(h), int(m)) for k, h, m in db.execute(text, parameters).fetchall()}


def test_each_person_weighs_the_groups_that_are_left() -> None:
    text = planned(unit=dp.PrivacyUnit("id", max_groups=8, max_rows=2)).weights
    first = found(text, ROWS)
    shown = [first["k0"][0], first["k3"][0]]
    for hashes, away in (([], set()), (shown, {"k0", "k3"})):
        own = Counter(person for person, group in ROWS if group not in away)
        wanted: Counter[str] = Counter()
        for person, group in ROWS:
            if group not in away:
                wanted[group] += weight(own[person])
        assert {k: m for k, (_, m) in found(with_shown(text, hashes), ROWS).items()} == wanted


def test_no_person_moves_the_weights_further_than_is_charged() -> None:
    text, names = planned().weights, [f"k{i}" for i in range(3)]
    others = [(90, "k0"), (90, "k1"), (91, "k1")]
    hashes = {k: h for k, (h, _) in found(text, [*others, (92, "k2")]).items()}
    sets = [own for n in range(4) for own in itertools.combinations(names, n)]
    for shown in ((), ("k1",), ("k0", "k2")):
        run = with_shown(text, [hashes[k] for k in shown])
        sums = [{k: m for k, (_, m) in found(run, [*others, *((1, k) for k in own)]).items()} for own in sets]
        moved = {
            (i, j): sum((one.get(k, 0) - other.get(k, 0)) ** 2 for k in names)
            for (i, one), (j, other) in itertools.product(enumerate(sums), repeat=2)
        }
        assert max(far for (i, _), far in moved.items() if i == 0) <= WHOLE**2
        assert max(moved.values()) <= 2 * WHOLE**2
        assert shown or max(moved.values()) > WHOLE**2  # replace needs the second


FORGED = [
    ("floor(", "ceil("),
    ("sqrt(", "ln("),
    (f"floor({WHOLE}", f"floor({WHOLE * 2}"),
    (f", 0), {WHOLE})", f", 0), {WHOLE * 2})"),
    ("OVER (PARTITION BY u)))", "OVER (PARTITION BY g0)))"),
    ("OVER (PARTITION BY u)))", "OVER ()))"),
    ("LEFT JOIN", "JOIN"),
    ("WHERE k.h IS NULL", "WHERE k.h IS NOT NULL"),
    ("ON hash(b.g0) = k.h", "ON hash(b.u) = k.h"),
    ("b.u AS u, b.g0 AS g0", "b.g0 AS u, b.g0 AS g0"),
    ("string_split('', ',')", "string_split('x', ',')"),
    ("coalesce(sum(w), 0)", "coalesce(max(w), 0)"),
    ('FROM "group weights" GROUP BY g0', 'FROM "group weights" WHERE w > 5 GROUP BY g0'),
    ("GROUP BY u, g0", "GROUP BY g0, u"),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("old", "new"), FORGED)
def test_a_text_with_other_weights_is_refused(old: str, new: str) -> None:
    query = planned()
    source = claim_of(query).measurements[0].source
    assert derive_weights(query.weights, source).groups == 6
    assert query.weights.count(old) == 1
    with pytest.raises(InternalError):
        derive_weights(query.weights.replace(old, new), source)


def test_a_text_that_keeps_more_groups_of_a_person_is_refused() -> None:
    query = planned()
    text = query.weights.replace("<= 6", "<= 7")
    assert derive_weights(text, claim_of(query).measurements[0].source).groups == 7
    with pytest.raises(InternalError):
        check(_with(query, weights=text))


def test_rounds_that_are_told_as_less_are_refused() -> None:
    """Twins: one failure a round under replace, no failure, the μ² of add-remove, and noise of half the size."""
    query = planned("replace")
    claim = claim_of(query)
    check(claim)
    events = dict(claim.measured.events.parts)
    once = {e: n // 2 if e.failure else n for e, n in events.items()}
    none = {e: n for e, n in events.items() if not e.failure}
    halved = {replace(e, mu_squared=e.mu_squared / 2) if e.mu_squared else e: n for e, n in events.items()}  # type: ignore[type-var]
    for twin in (once, none, halved):
        cost = replace(claim.measured, events=Composed(list(twin.items())))
        with pytest.raises(InternalError):
            check(replace(claim, measured=cost, charged=cost))
    (m,) = claim.measurements
    assert isinstance(m.threshold, GaussianRounds)
    loud = GaussianRounds(m.threshold.epsilon * 2, m.threshold.delta, 6, m.threshold.relation)
    for chosen in (loud, replace(m.threshold, max_groups=5), None):
        with pytest.raises(InternalError):
            check(_with(query, threshold=chosen))


def _with(query: Query, **changed: Any) -> Any:
    claim = claim_of(query)
    return replace(claim, measurements=(replace(claim.measurements[0], **changed),))


def test_groups_are_selected_once_and_stored() -> None:
    rows = [(person, f"k{group}") for person in range(700) for group in range(6 if person % 2 else 2)]
    with session(rows=rows) as s:
        first = s.sql(QUESTION, epsilon=4, delta="1e-4")
        assert {row[0] for row in first.rows} == {f"k{i}" for i in range(6)}
        assert s.sql(QUESTION, epsilon=4, delta="1e-4").rows == first.rows
        assert s.remaining == dp.Budget(epsilon=96, delta="0.0999")
        assert "2 rounds of Gaussian noise" in s.plan(QUESTION, epsilon=4, delta="1e-4").explain()


def test_a_gdp_account_refuses_them_as_any_selection() -> None:
    with session(filter="gdp") as s, pytest.raises(DiscreetError, match="the gdp filter cannot add it up"):
        s.sql(QUESTION, epsilon=1, delta="1e-6", noise="gaussian")


def test_each_person_pays_the_selection_in_full_and_the_sums_by_their_own_rows() -> None:
    with session(budget=None, per_person=dp.Budget(epsilon=2, delta="1e-5")) as s:
        s.sql(QUESTION, epsilon=1, delta="1e-6")
        account = s._desk._people
        assert account is not None
        cost = account.cost(s.plan(QUESTION, epsilon=1, delta="1e-6"))
    assert cost is not None
    assert "unit sums" in cost.sql and cost.statements[0].least < cost.worst[0]


def test_a_run_that_stays_open_refuses_what_reads_the_data_twice() -> None:
    with session() as s:
        plan = s.plan(QUESTION, epsilon=1, delta="1e-6")
    with pytest.raises(UnsupportedQuery, match="selected in rounds"):
        kept_open(plan)


def test_a_cap_on_all_rows_bounds_the_groups_too() -> None:
    unit = dp.PrivacyUnit("id", max_groups=8, max_rows=2, max_contributions=7)
    query = planned(unit=unit)
    assert query.weights and "unit capped" in query.weights
    assert derive_weights(query.weights, claim_of(query).measurements[0].source).groups == 7
    assert F(query.allocation.guarantee.epsilon) == 1
