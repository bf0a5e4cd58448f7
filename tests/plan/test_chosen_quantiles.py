"""Quantiles that are chosen by rank: when, how far losses move between neighbours, what the second reader refuses, what
is released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.engine.cells import exact_leaves, measure
from discreet.engine.release import Release
from discreet.engine.session import Session
from discreet.errors import InternalError, InvalidParameter
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.exponential_quantile import NAMED, ExponentialQuantile
from discreet.noise.entropy import SystemEntropy
from discreet.plan.cost import Kind, PlanTerms
from discreet.plan.quantile_tree.tree import NoisyTree
from discreet.plan.query import Query
from discreet.post.noisy_table import NoisyTable
from discreet.privacy.event import Composed
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.testing import ReplayEntropy
from tests.coverage import covers
from tests.exhaustive.plan.test_tree_sql import ENGINE, ONE, ROW, SCHEMA, TWO, planned
from tests.plan.claims import check
from tests.plan.tables import USER, visits
from tests.plan.tables import planned as planned_visits
from tests.reference.expression import Row
from tests.reference.worlds import Table, World

HALF = Fraction(1, 2)
WHOLE = "SELECT MEDIAN(v) FROM t"
GROUPED = "SELECT region, QUANTILE_CONT(v, 0.75) FROM t GROUP BY region"


def is_chosen(text: str, relation: Relation = Relation.ADD_REMOVE, **asked: Any) -> list[bool]:
    plan = planned_visits(text, visits(USER, relation), **asked)
    return [isinstance(q, ExponentialQuantile) for q in plan.allocation.trees]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT MEDIAN(amount) FROM visits", True),
        ("SELECT region, QUANTILE_CONT(amount, 0.25), COUNT(*) AS n FROM visits GROUP BY region", True),
        ("SELECT 2 * MEDIAN(amount) + 1 AS m FROM visits HAVING MEDIAN(amount) > 3", True),
        ("SELECT COUNT(*) AS n FROM visits HAVING MEDIAN(amount) > 3", True),
        ("SELECT MEDIAN(amount) AS a, MEDIAN(amount) AS b FROM visits", True),
        ("SELECT MEDIAN(amount), QUANTILE_CONT(amount, 0.9) FROM visits", False),  # two share a tree
        ("SELECT MEDIAN(amount) FROM visits HAVING MAX(amount) > 3", False),
        ("SELECT MIN(amount) FROM visits", False),  # no rank to aim at
        ("SELECT MEDIAN(amount) / COUNT(*) AS m FROM visits", True),
        ("SELECT MEDIAN(amount) - MEDIAN(day) AS m FROM visits", True),
        ("SELECT MEDIAN(day), MODE(day) FROM visits", False),
        ("SELECT MEDIAN(day) FROM visits", False),  # seven leaves: one level of a tree
        ("SELECT QUANTILE_CONT(amount, 0.95) FROM visits", True),
        ("SELECT QUANTILE_CONT(amount, 0.99) FROM visits", True),
    ],
)
def test_a_quantile_is_chosen_where_it_is_alone_and_the_grid_is_fine(text: str, expected: bool) -> None:
    assert any(is_chosen(text)) is expected
    assert not any(is_chosen(text, noise="gaussian", delta="1e-6"))


def test_under_replacement_shares_far_from_the_middle_are_no_worse() -> None:
    text = "SELECT QUANTILE_CONT(amount, 0.99) FROM visits"
    assert is_chosen(text, Relation.REPLACE) == is_chosen(text) == [True]


def test_private_groups_and_other_columns_leave_the_choice_its_share() -> None:
    plan = planned_visits("SELECT seen, MEDIAN(amount) AS m, COUNT(*) AS n FROM visits GROUP BY seen", delta="1e-6")
    (chosen,) = plan.allocation.trees
    assert isinstance(chosen, ExponentialQuantile) and chosen.groups is None and chosen.max_groups == 3
    assert chosen.epsilon == Fraction(4, 6)  # four levels of a tree, a count, and the selection of groups
    assert plan.allocation.guarantee.epsilon == 1 == sum(n * (e.pure or 0) for e, n in plan.allocation.events)
    tree = planned_visits(
        "SELECT seen, MEDIAN(amount) AS m, MAX(amount) AS x, COUNT(*) AS n FROM visits GROUP BY seen", delta="1e-6"
    )
    assert plan.allocation.noises == tree.allocation.noises


def test_the_identity_says_that_a_quantile_is_chosen_and_trees_keep_theirs() -> None:
    terms = PlanTerms("customers", None, Fraction(1), Fraction(0), Kind.LAPLACE)
    for text, same in (
        ("SELECT MEDIAN(amount), MAX(amount) FROM visits", True),
        ("SELECT MEDIAN(day) FROM visits", True),
        ("SELECT MEDIAN(amount) FROM visits", False),
    ):
        plan = planned_visits(text)
        assert (plan.question.identity(terms) == plan.identity) is same
    assert planned_visits("SELECT MEDIAN(amount) FROM visits").identity == (
        planned_visits(
            "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount) AS m FROM visits ORDER BY 1"
        ).identity
    )


ROWS: tuple[Row, ...] = tuple({"region": r, "x": 0, "v": v} for r in ("a", "b", "c") for v in (0.0, 8.0))
WORLDS = [
    pytest.param(WHOLE, ONE, World(ROWS[:2], units=(1,), max_rows_per_unit=3, unit="uid"), id="whole"),
    pytest.param(GROUPED, ONE, World(ROWS[:4], units=(1,), max_rows_per_unit=2, unit="uid"), id="declared groups"),
    pytest.param(GROUPED, TWO, World(ROWS, units=(1,), max_rows_per_unit=2, unit="uid"), id="two groups"),
    pytest.param(WHOLE, ROW, World(ROWS[:2], units=(1,), max_rows_per_unit=1), id="rows"),
    pytest.param(GROUPED, ROW, World(ROWS, units=(1,), max_rows_per_unit=1), id="rows in groups"),
]
OTHERS: list[Row] = [
    {"uid": 100 + 100 * i + 10 * j + k, "region": r, "x": 0, "v": v}
    for i, r in enumerate("abc")
    for j, v in enumerate((1.0, 4.0, 6.0, 7.0))
    for k in range(5 if v < 6 else 7)
]
"""People with a row each, on either side of the quantiles and far from them."""


def losses(held: Sequence[int], before: Sequence[int], cells: int, p: Fraction, at: Sequence[int]) -> list[Fraction]:
    """From the definition, of some cells."""
    found, target = [], p * before[-1]
    for c in at:
        left = before[sum(h < c for h in held)]
        upto = before[sum(h <= c for h in held)]
        above = Fraction(0) if c == 0 else left - target
        under = Fraction(0) if c == cells - 1 else target - upto
        found.append(max(above, under, Fraction(0)))
    return found


def moved(plan: Query, world: World, relation: Relation) -> tuple[Fraction, int]:
    """In how wide intervals all losses move, and by how much the weights of all leaves, so of all parts of a histogram
    wherever its edges lie; both added up over groups, each for the worst pair of neighbours, from the SQL.
    """
    cells, (chosen,) = plan.question.trees[0].shape.leaves, plan.allocation.trees
    assert isinstance(chosen, ExponentialQuantile)

    @cache
    def leaves(table: Table) -> dict[Any, tuple[tuple[int, ...], tuple[int, ...]]]:
        ENGINE.fill([*OTHERS, *({"uid": 1, **r} for r in world.rows(table))], SCHEMA)
        return {k: (tuple(e.leaves), tuple(e.before)) for k, e in exact_leaves(plan, 0, ENGINE.run).items()}

    worst, most = Fraction(0), 0
    for table in world.tables(relation):
        for other in world.neighbours(table, relation):
            found, apart = Fraction(0), 0
            for key in {**leaves(table), **leaves(other)}:
                one, two = leaves(table).get(key, ((), (0,))), leaves(other).get(key, ((), (0,)))
                if one == two:
                    continue
                held = [dict(zip(e[0], np.diff(e[1]).tolist(), strict=True)) for e in (one, two)]
                apart += sum(abs(held[0].get(c, 0) - held[1].get(c, 0)) for c in {**held[0], **held[1]})
                at = sorted(
                    c for c in {0, 1, cells - 1, *(h + d for h in (*one[0], *two[0]) for d in (0, 1))} if c < cells
                )
                changes = [
                    b - a
                    for a, b in zip(losses(*one, cells, chosen.p, at), losses(*two, cells, chosen.p, at), strict=True)
                ]
                found += max(changes) - min(changes)
            worst, most = max(worst, found), max(most, apart)
    return worst, most


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("private", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("text", "unit", "world"), WORLDS)
def test_no_unit_moves_losses_or_parts_further_than_is_paid_for_and_some_unit_moves_them_as_far(
    text: str, unit: PrivacyUnit, world: World, private: bool, relation: Relation
) -> None:
    if private and text is WHOLE:
        return
    plan = planned(text, unit, relation, private=private)
    (chosen,) = plan.allocation.trees
    assert isinstance(chosen, ExponentialQuantile)
    found, parts = moved(plan, world, relation)
    allowed = sum(width * n for width, n in chosen.ranges)
    # two units in two groups each would need a fourth group to be apart
    tight = not (private and unit is TWO and relation is Relation.REPLACE)
    assert found == allowed if tight else found <= allowed
    assert parts == chosen.moved.l1 if tight else parts <= chosen.moved.l1
    histograms = sum(chosen.moved.l1 / noise.scale for noise in (chosen.near, chosen.counted))
    assert chosen.rate * allowed == NAMED * chosen.epsilon and histograms == (1 - NAMED) * chosen.epsilon


CASES = list(product([ONE, TWO, ROW], [False, True], list(Relation), [WHOLE, GROUPED]))


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.parametrize(("unit", "private", "relation", "text"), CASES)
def test_the_second_reader_finds_the_same_price_and_refuses_a_lower_one(
    unit: PrivacyUnit, private: bool, relation: Relation, text: str
) -> None:
    plan = planned(text, unit, relation, private=private)
    check(plan.sql, plan)
    (q,) = plan.allocation.trees
    assert isinstance(q, ExponentialQuantile)
    given: dict[str, Any] = {
        "epsilon": q.epsilon,
        "p": q.p,
        "sensitivity": q.sensitivity,
        "relation": q.relation,
        "max_groups": q.max_groups,
        "groups": q.groups,
        "row": q.row,
    }
    slips: list[dict[str, Any]] = [{"epsilon": q.epsilon * Fraction(1001, 1000)}, {"p": Fraction(1, 3)}]
    if q.sensitivity > 1:
        slips.append({"sensitivity": q.sensitivity - 1})
    if q.relation is Relation.REPLACE:
        slips.append({"relation": Relation.ADD_REMOVE})
        if q.groups is None and q.p != HALF:
            slips.append({"groups": q.max_groups})
    if q.max_groups > 1:
        slips.append({"max_groups": 1, "groups": None})
    for slip in slips:
        wrong = ExponentialQuantile(**{**given, **slip})
        events = replace(plan.allocation, trees=(wrong,))
        with pytest.raises(InternalError):
            check(plan.sql, replace(plan, allocation=events))
    for told in (Composed(), Composed(list(plan.allocation.events)[:-1])):
        with pytest.raises(InternalError):
            check(plan.sql, replace(plan, allocation=replace(plan.allocation, events=told)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("// greatest(n_v0, 2)", "// least(n_v0, 2)"),
        ("2097152 // greatest", "2097153 // greatest"),
        ("<= 1\n)", "<= 2\n)"),
        ("sum(w.w)", "sum(w.w * w.w)"),
        ("ON r.u = w.u AND r.g0 = w.g0", "ON r.g0 = w.g0"),
    ],
)
def test_a_text_that_bounds_less_is_refused(old: str, new: str) -> None:
    plan = planned(GROUPED, ONE, Relation.ADD_REMOVE)
    ((moves, text),) = plan.trees
    assert old in text
    with pytest.raises(InternalError):
        check(plan.sql, replace(plan, trees=((moves, text.replace(old, new)),)))


def test_a_tree_in_the_place_of_a_choice_is_priced_as_a_tree() -> None:
    plan = planned(WHOLE, ONE, Relation.ADD_REMOVE)
    small = replace(plan.allocation, trees=(DiscreteLaplaceNoise(Fraction(1 << 21)),))
    with pytest.raises(InternalError):
        check(plan.sql, replace(plan, allocation=small))


RNG = np.random.default_rng(5)
N = 3_000
FRAME = pd.DataFrame(
    {
        "uid": RNG.integers(0, 1_500, N),
        "region": RNG.choice(["a", "b"], N, p=[0.97, 0.03]),
        "v": np.minimum(RNG.lognormal(2, 1, N), 190.0),
    }
)


def opened(unit: PrivacyUnit | None = None, *, frame: pd.DataFrame = FRAME, **options: Any) -> Session:
    said: dict[str, Any] = {
        "unit": unit or dp.PrivacyUnit("uid", max_groups=2, max_rows=8),
        "columns": {"region": dp.Values("a", "b", "c"), "v": dp.Range(0, 200)},
        "budget": dp.Budget(10**9, "0.1", per_query=10**8),
        "ledger": ":memory:",
    }
    return dp.connect({"t": frame}, **{**said, **options})


QUESTION = "SELECT region, MEDIAN(v) AS m FROM t GROUP BY region"


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("p", ["0.3", "0.5", "0.77"])
@pytest.mark.parametrize("unit", [None, dp.PrivacyUnit.row()], ids=["people", "rows"])
def test_with_a_large_epsilon_the_chosen_value_is_that_of_numpy(unit: Any, p: str) -> None:
    with opened(unit) as s:
        r = s.sql(f"SELECT region, QUANTILE_CONT(v, {p}) AS m FROM t GROUP BY region", epsilon=10**7)
        assert isinstance(r.query.allocation.trees[0], ExponentialQuantile)
        for region, m in r.rows[:2]:
            x = np.sort(FRAME[FRAME.region == region].v)
            near = np.quantile(x, float(p), method="inverted_cdf"), np.quantile(x, float(p), method="higher")
            assert min(near) - 0.01 <= m <= max(near) + 0.01


def test_a_release_is_stored_with_the_chosen_leaves_and_answers_again_for_free() -> None:
    with opened() as s:
        first = s.sql(QUESTION, epsilon=1)
        spent = s.spent
        again = s.sql("SELECT region, 2 * MEDIAN(v) AS m FROM t GROUP BY region ORDER BY m LIMIT 2", epsilon=1)
        assert again.stored and not first.stored and s.spent == spent
        assert [m for _, m in again.rows] == sorted(2 * m for _, m in first.rows)[:2]
        assert NoisyTable.from_json(first.table.to_json()) == first.table
        for (_, m), ends in zip(first.rows, first.interval("m"), strict=True):
            assert 0 <= ends[0] <= m <= ends[1] <= 200
        wider = first.interval("m", "0.999")  # of the same noisy counts
        assert all(a[0] <= b[0] and b[1] <= a[1] for a, b in zip(wider, first.interval("m"), strict=True))
        assert wider[0] != first.interval("m")[0]


@pytest.mark.laws
def test_intervals_hold_the_bounded_median_also_in_small_groups() -> None:
    asked, rng = 150, SystemEntropy()
    leaf = [(FRAME[FRAME.region == r].v / 200 * 2**16).astype(int).value_counts() for r in "ab"]
    rows = [(i, at, str(n)) for i, counts in enumerate(leaf) for at, n in counts.to_dict().items()]
    with opened(dp.PrivacyUnit.row()) as s:
        plan = s.plan(QUESTION, epsilon=1)
    shape = plan.query.question.trees[0].shape
    held, narrow = [0, 0], [0, 0]
    for _ in range(asked):
        table = measure(plan.query, lambda _: rows, rng)  # the database is asked once
        r = Release(plan, table)
        for i, ends in enumerate(r.interval("m")[:2]):
            x = np.sort(np.repeat(leaf[i].index, leaf[i]))
            low, high = shape.reach(x[(len(x) - 1) // 2], x[len(x) // 2])
            held[i] += ends[0] <= low and high <= ends[1]
            middle, wide = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 32
            narrow[i] += middle - wide <= low and high <= middle + wide
    assert all(covers(n, asked, 0.95) for n in held)
    assert not any(covers(n, asked, 0.95) for n in narrow)


@pytest.mark.exhaustive
def test_a_group_of_nobody_has_a_value_inside_the_bounds_and_an_interval_of_nearly_all() -> None:
    """Each end is chosen too, and in one draw of twenty it lies elsewhere: ten of 24 are wide but for 1e-9."""
    wide = 0
    with opened() as s:
        for _ in range(24):
            r = s.sql(QUESTION, epsilon=1, fresh=True)
            assert [row[0] for row in r.rows] == ["a", "b", "c"]
            low, high = r.interval("m")[2]
            assert 0 <= low <= r.rows[2][1] <= high <= 200
            wide += low < 1 and high > 199
    assert wide >= 10


def test_a_batch_reads_trees_which_its_questions_share() -> None:
    with opened() as s:
        alone = s.plan(QUESTION, epsilon=1)
        batch = s.batch({"a": QUESTION}, epsilon=1)
        assert isinstance(alone.query.allocation.trees[0], ExponentialQuantile)
        assert isinstance(batch["a"].query.allocation.trees[0], DiscreteLaplaceNoise)
        assert not s.sql(QUESTION, epsilon=1).stored


def test_the_error_is_refused_and_the_derivation_says_how_far_off_the_rank_is() -> None:
    with opened() as s:
        with pytest.raises(InvalidParameter) as caught:
            s.plan(QUESTION, error={"m": 3})
        assert str(caught.value) == (
            "the error of 'm' depends on how the values lie, which is private.\n"
            "Hint: rank_error('m') says how far off its rank is; the release itself has an interval"
        )
        plan = s.plan(QUESTION, epsilon=1)
        text = plan.explain()
    assert "by the exponential mechanism on ranks" in text and "P(leaf) ∝ exp(−r·d)" in text
    assert "interval of width 8 rows (2×)" in text and "bounded range,\n  ε = 0.3." in text
    assert "or less where\n  values lie evenly, and by" in text and "tests the rank at each" in text
    assert any("Smith 2011" in work for work in plan.citations(""))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("columns", "by_rank"), [("MEDIAN(v) AS m", True), ("MEDIAN(v) AS m, QUANTILE_CONT(v, 0.9) AS h", False)]
)
def test_the_rank_of_evenly_lying_values_is_off_by_no_more_than_is_said_before_the_charge(
    columns: str, by_rank: bool
) -> None:
    """600 values a leaf apart. A third of what is said would not do."""
    with opened(dp.PrivacyUnit.row()) as s:
        plan = s.plan(f"SELECT {columns} FROM t", epsilon=1)
    assert isinstance(plan.query.allocation.trees[0], ExponentialQuantile) is by_rank
    said, rng, off = plan.rank_error("m"), ReplayEntropy(np.random.default_rng(5).bytes(1 << 24)), []
    assert plan.rank_error("m", "0.5") < said < plan.rank_error("m", "0.999")
    assert f"  m: of a rank that is off by {said:,.3g} rows or less at 95 %" in str(plan).splitlines()
    rows = [(30_000 + i, "1") for i in range(600)]
    shape = plan.query.question.trees[0].shape
    for _ in range(100):
        ((families,),) = measure(plan.query, lambda _: rows, rng).trees
        law = plan.query.allocation.trees[0]
        if isinstance(law, ExponentialQuantile):
            leaf = families[0, 0][0]
        else:
            leaf = NoisyTree(shape, law, families, is_row=True)._leaf(HALF)
        left = min(max(leaf - 30_000, 0), 5_000)
        off.append(max(left - 300, 300 - left - 1, 0))
    assert covers(sum(x <= said for x in off), 100, "0.95")
    assert not covers(sum(x <= said / 3 for x in off), 100, "0.95")


@pytest.mark.parametrize("column", ["MAX(v)", "COUNT(*)", "2 * MEDIAN(v)"])
def test_what_is_no_inner_quantile_has_no_rank(column: str) -> None:
    with opened() as s:
        plan = s.plan(f"SELECT {column} AS m FROM t", epsilon=1)
    with pytest.raises(InvalidParameter, match="'m' has no rank"):
        plan.rank_error("m")


ODD = {
    "no numbers": [math.nan, math.inf, -math.inf, -0.0] * 25,
    "ties": [5.0] * 100,
    "nothing": [],
    "all at the ends": [0.0, 200.0] * 50,
    "all outside": [-1e308, 1e308, 5e-324, -5e-324] * 25,
}


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("units", ["one each", "one for all", "nobody"])
@pytest.mark.parametrize("odd", ODD)
def test_no_table_makes_a_quantile_fail_or_cost_or_say_anything_else(odd: str, units: str) -> None:
    ids = {"one each": range(100), "one for all": [7] * 100, "nobody": [None] * 100}[units]
    frame = pd.DataFrame({"uid": list(ids)[: len(ODD[odd])], "region": "a", "v": ODD[odd]})
    frame = frame.astype({"uid": "Int64", "v": float, "region": str})
    for relation in ("add-remove", "replace"):
        with opened(frame=frame, relation=relation) as s:
            for epsilon in ("1e-6", "1", "5000"):
                r = s.sql(QUESTION, epsilon=epsilon)
                for (_, m), (low, high), (least, most) in zip(
                    r.rows, r.interval("m"), r.interval("m", "0.999999"), strict=True
                ):
                    assert 0 <= least <= low <= m <= high <= most <= 200
            assert s.spent.pure == Fraction(5001 * 10**6 + 1, 10**6)
            assert r.notes == s.plan(QUESTION, epsilon=1).notes
