"""COUNT(DISTINCT x), SUM(DISTINCT x): the engine against the referee, sensitivity by enumeration, what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dp
from discreet.catalog.schema import Fact, TableSchema, Values
from discreet.catalog.types import Type
from discreet.errors import InternalError, UnsupportedQuery
from discreet.plan.measures.measure import DistinctCount
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit, Relation, Sensitivity
from tests.exhaustive.plan.test_sensitivity import as_tuple, norms, within
from tests.plan.cases import SECRET, Engine, plan_of, with_known_keys
from tests.plan.claims import check
from tests.plan.distinct_cases import orders
from tests.plan.tables import planned, visits
from tests.reference.distinct import distinct_cells
from tests.reference.expression import Expression, Row
from tests.reference.question import Cells
from tests.reference.sql import sql
from tests.reference.values import Kind
from tests.reference.worlds import Table, World, difference
from tests.strategies.questions import SCHEMA, Case, expressions, queries

ENGINE = Engine.open()


def counting(case: Case, argument: Expression, relation: Relation) -> Query:
    """The case with COUNT(DISTINCT argument) as its only number."""
    keys = [sql(k) for k in case.question.keys]
    shown = [*keys, f"COUNT(DISTINCT {sql(argument)}) AS a0"]
    _, where, rest = case.sql.partition(" WHERE ") if case.question.where is not None else ("", "", "")
    where = f"{where}{rest.rpartition(' GROUP BY ')[0] if keys else rest}"
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    return plan_of(replace(case, sql=f"SELECT {', '.join(shown)} FROM t{where}{by}"), relation)


def assert_same(case: Case, argument: Expression, relation: Relation) -> None:
    plan = counting(case, argument, relation)
    ((place, _),) = plan.distinct
    found = {key: cell[place] for key, cell in ENGINE.cells(plan, case.rows).items()}
    assert found == distinct_cells(case.rows, with_known_keys(case, plan), argument, *orders(plan, ENGINE))


ARGUMENTS = st.sampled_from([Kind.INT, Kind.REAL, Kind.TEXT]).flatmap(lambda k: expressions(k, depth=1))


def with_a_column(argument: Expression) -> bool:
    return any(name in sql(argument) for name in SCHEMA)


@given(queries(), ARGUMENTS.filter(with_a_column), st.sampled_from(list(Relation)))
@settings(max_examples=25, derandomize=True, deadline=None)
def test_every_count_is_the_referees(case: Case, argument: Expression, relation: Relation) -> None:
    assert_same(case, argument, relation)


@pytest.mark.slow
@given(queries(max_size=14), ARGUMENTS.filter(with_a_column), st.sampled_from(list(Relation)))
@settings(max_examples=800, deadline=None)
def test_every_count_is_the_referees_at_length(case: Case, argument: Expression, relation: Relation) -> None:
    assert_same(case, argument, relation)


COLUMNS = {"uid": Kind.INT, "region": Kind.TEXT, "x": Kind.INT}
UNIVERSE: tuple[Row, ...] = tuple({"region": r, "x": x} for r, x in product(("a", "b"), (1, 2, None)))
SHARED: tuple[Row, ...] = tuple({"region": "a", "x": x} for x in (1, 2, 3))


def of_region(unit: PrivacyUnit, relation: Relation, *, keys: bool = True, private: bool = False) -> Query:
    facts: Mapping[str, Fact] = {} if private else {"region": Values("a", "b")}
    t = TableSchema("t", {n: Type(k.value) for n, k in COLUMNS.items()}, facts, unit, relation)
    text = f"SELECT {'region, ' if keys else ''}COUNT(DISTINCT x) AS n FROM t{' GROUP BY region' if keys else ''}"
    return make_query(text, [t], population="p", version=None, epsilon=1, delta="1e-6")


def observed(plan: Query, world: World, relation: Relation) -> tuple[int, int, int, int]:
    """The largest moves of the count over every pair of neighbours in the world."""

    def run(table: Table) -> Cells:
        rows = [{**r, "uid": 0} if world.unit is None else r for r in world.rows(table)]
        return {key: cell[:1] for key, cell in ENGINE.cells(plan, rows, COLUMNS).items()}

    cells = {t: run(t) for t in world.tables(relation)}
    moves = (difference(c, cells[n]) for t, c in cells.items() for n in world.neighbours(t, relation))
    (found,) = norms(moves, 1)
    return found


ONE = PrivacyUnit("uid", max_groups=1, max_rows=2)
TWO = PrivacyUnit("uid", max_groups=2, max_rows=1)
FEW = PrivacyUnit("uid", max_groups=1, max_rows=1)
# a unit alone, and units that bring each other's values
ALONE = World(UNIVERSE, units=(1,), max_rows_per_unit=2, unit="uid")
VALUED = World(SHARED, units=(1,), max_rows_per_unit=3, unit="uid")
PAIR = World(SHARED[:2], units=(1, 2), max_rows_per_unit=2, unit="uid")
TRIO = World(UNIVERSE[:2], units=(1, 2, 3), max_rows_per_unit=1, unit="uid")
ROWS = World(UNIVERSE, units=(1, 2))


@pytest.mark.thinned(4)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize(
    ("unit", "world"),
    [(ONE, ALONE), (TWO, ALONE), (ONE, VALUED), (FEW, PAIR), (ONE, TRIO), (PrivacyUnit.row(), ROWS)],
    ids=["two values", "two groups", "three values", "a pair", "a trio", "rows"],
)
def test_no_unit_moves_the_count_further_than_planned_and_some_unit_moves_it_as_far(
    unit: PrivacyUnit, world: World, private: bool, relation: Relation
) -> None:
    plan = of_region(unit, relation, private=private)
    found = observed(plan, world, relation)
    assert within(found, plan.sensitivities[0])
    if private and unit is TWO and relation is Relation.REPLACE:
        return  # two groups left and two others entered are more than this world has
    if world is ALONE or world is ROWS:
        assert found == as_tuple(plan.sensitivities[0])


@pytest.mark.parametrize("relation", list(Relation))
def test_when_every_hash_collides_the_values_alone_bound_what_a_unit_brings(relation: Relation) -> None:
    for unit, world in ((ONE, VALUED), (TWO, ALONE)):
        plan = of_region(unit, relation, private=True)
        ((place, text),) = plan.distinct
        collided = text.replace("hash(", "0 * hash(")
        assert collided != text
        assert within(observed(replace(plan, distinct=((place, collided),)), world, relation), plan.sensitivities[0])


SIGNED: tuple[Row, ...] = tuple({"region": r, "x": x} for r, x in product(("a", "b"), (-2, 3, None)))
SUMS = {
    "alone": (ONE, World(SIGNED, units=(1,), max_rows_per_unit=2, unit="uid")),
    "alone in two groups": (TWO, World(SIGNED, units=(1,), max_rows_per_unit=2, unit="uid")),
    "a pair": (FEW, World(SIGNED[:2], units=(1, 2), max_rows_per_unit=2, unit="uid")),
    "rows": (PrivacyUnit.row(), World(SIGNED, units=(1, 2))),
}


def summing(unit: PrivacyUnit, relation: Relation, bounds: tuple[int, int] = (-2, 3)) -> Query:
    facts: Mapping[str, Fact] = {"region": Values("a", "b"), "x": dp.Range(*bounds, integer=True)}
    t = TableSchema("t", {n: Type(k.value) for n, k in COLUMNS.items()}, facts, unit, relation)
    text = "SELECT region, SUM(DISTINCT x) AS s FROM t GROUP BY region"
    return make_query(text, [t], population="p", version=None, epsilon=1, delta="1e-6")


@pytest.mark.thinned(3)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("case", SUMS)
def test_no_unit_moves_the_sum_of_different_values_further_than_planned(case: str, relation: Relation) -> None:
    unit, world = SUMS[case]
    for bounds in ((-2, 3), (0, 1), (-9, -1)):  # two of which move values into them
        plan = summing(unit, relation, bounds)
        found = observed(plan, world, relation)
        assert within(found, plan.sensitivities[0])
        if bounds == (-2, 3) and case in ("alone in two groups", "rows"):
            assert found == as_tuple(plan.sensitivities[0])


SUMMED = "sum(DISTINCT least(greatest(d, -2), 3))"
FORGED = {
    "rows and not values": SUMMED.replace("DISTINCT ", ""),
    "no bounds": "sum(DISTINCT d)",
    "wider bounds": SUMMED.replace("3", "4"),
    "no lower bound": "sum(DISTINCT least(d, 3))",
    "a factor": f"2 * {SUMMED}",
    "another column": SUMMED.replace("(d,", "(g0,"),
    "bounds of others": SUMMED.replace("3", "max(d) OVER ()"),
}


@pytest.mark.parametrize("unit", [ONE, PrivacyUnit.row()], ids=["units", "rows"])
@pytest.mark.parametrize("case", FORGED)
def test_the_second_derivation_refuses_other_sums(case: str, unit: PrivacyUnit) -> None:
    plan = summing(unit, Relation.ADD_REMOVE)
    ((place, text),) = plan.distinct
    assert SUMMED in text
    check(plan.sql, plan)
    with pytest.raises(InternalError, match="disagrees with the first"):
        check(plan.sql, replace(plan, distinct=((place, text.replace(SUMMED, FORGED[case])),)))


def test_a_sum_of_unknown_values_or_under_a_cap_on_all_rows_is_judged_as_well() -> None:
    plan = summing(ONE, Relation.ADD_REMOVE)
    ((place, text),) = plan.distinct
    with pytest.raises(InternalError, match="disagrees with the first"):
        check(plan.sql, replace(plan, distinct=((place, text.replace(" FILTER (WHERE d IS NOT NULL)", "")),)))
    capped = summing(PrivacyUnit("uid", max_groups=2, max_rows=3, max_contributions=4), Relation.ADD_REMOVE)
    assert capped.sensitivities[0].l1 == 4 * 3
    check(capped.sql, capped)


VALUE_RANK = "row_number() OVER (PARTITION BY u, g0 ORDER BY d IS NULL, hash(u, g0, d, $secret), d) <= 2"
GROUP_RANK = "dense_rank() OVER (PARTITION BY u ORDER BY hash(u, g0, $secret), g0) <= 1"
BROKEN = {
    "no cap on values": (VALUE_RANK, "TRUE", VALUED),
    "no cap on groups": (GROUP_RANK, "TRUE", ALONE),
    "ties of values": (
        VALUE_RANK,
        VALUE_RANK.replace("row_number", "rank").replace("hash(u, g0, d, $secret), d", "0 * $secret"),
        VALUED,
    ),
    "ties of groups": (GROUP_RANK, GROUP_RANK.replace("hash(u, g0, $secret), g0", "0 * $secret"), ALONE),
    "another cap": (VALUE_RANK, VALUE_RANK.replace("<= 2", "<= 3"), VALUED),
    "everybody is one": ('s."uid" AS u', "1 AS u", TRIO),
    "rows and not values": ("count(DISTINCT d)", "count(*)", TRIO),
    "ranked across people": (VALUE_RANK, VALUE_RANK.replace("PARTITION BY u, g0", "PARTITION BY g0"), TRIO),
    "an order of all rows": (VALUE_RANK, VALUE_RANK.replace("hash(u, g0, d, $secret), d", "random()"), VALUED),
    "another key": (VALUE_RANK, VALUE_RANK.replace("hash(u, g0, d, $secret)", "hash(g0, d, $secret)"), VALUED),
    "a filter": ('FROM "unit values"', 'FROM "unit values" WHERE d <> 1', VALUED),
    "a second look": ("SELECT u, g0, d FROM", 'SELECT u, g0, (SELECT max(d) FROM "unit rows") AS d FROM', VALUED),
}
SEEN = ("no cap on values", "no cap on groups", "ties of values", "ties of groups", "another cap")


@pytest.mark.parametrize("case", BROKEN)
def test_the_second_derivation_refuses_every_text_that_is_not_known_to_be_bounded(case: str) -> None:
    old, new, _ = BROKEN[case]
    plan = of_region(ONE, Relation.ADD_REMOVE)
    ((place, text),) = plan.distinct
    assert old in text
    with pytest.raises(InternalError, match="disagrees with the first"):
        check(plan.sql, replace(plan, distinct=((place, text.replace(old, new)),)))


@pytest.mark.parametrize("case", SEEN)
def test_a_broken_bound_is_seen(case: str) -> None:
    old, new, world = BROKEN[case]
    plan = of_region(ONE, Relation.ADD_REMOVE)
    ((place, text),) = plan.distinct
    twin = replace(plan, distinct=((place, text.replace(old, new)),))
    assert not within(observed(twin, world, Relation.ADD_REMOVE), plan.sensitivities[0])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("count(DISTINCT d)", "2 * count(DISTINCT d)"),
        ("count(DISTINCT d)", "count(DISTINCT d) OVER ()"),
        ("count(DISTINCT d)", "sum(DISTINCT d)"),
        ("GROUP BY g0", "GROUP BY ALL"),
    ],
)
def test_the_second_derivation_refuses_other_texts_over_rows(old: str, new: str) -> None:
    plan = of_region(PrivacyUnit.row(), Relation.REPLACE)
    ((place, text),) = plan.distinct
    assert old in text
    with pytest.raises(InternalError, match="disagrees with the first"):
        check(plan.sql, replace(plan, distinct=((place, text.replace(old, new)),)))


def test_a_price_for_less_than_a_unit_moves_is_refused() -> None:
    plan = of_region(ONE, Relation.ADD_REMOVE)
    cheap = of_region(PrivacyUnit("uid", max_groups=1, max_rows=1), Relation.ADD_REMOVE)
    with pytest.raises(InternalError, match="the price of the columns"):
        check(plan.sql, replace(plan, allocation=cheap.allocation))


def test_sensitivities_are_those_of_the_proof() -> None:
    five = PrivacyUnit("user_id", max_groups=3, max_rows=5)
    text = "SELECT region, COUNT(DISTINCT day) FROM visits GROUP BY region"
    assert planned(text, visits(five)).sensitivities == (Sensitivity(3, 5, l1=15, l2_squared=75),)
    assert planned(text, visits(five, Relation.REPLACE)).sensitivities == (Sensitivity(4, 5, l1=20, l2_squared=100),)


def test_a_question_of_counts_alone_is_one_statement_and_people_are_still_counted_as_before() -> None:
    alone = planned("SELECT COUNT(DISTINCT day) FROM visits")
    assert alone.statements == (alone.distinct[0][1],)
    assert alone.sql == ""
    people = planned("SELECT COUNT(DISTINCT user_id) FROM visits")
    assert people.distinct == ()
    assert people.statements == (people.sql,)
    both = planned("SELECT COUNT(DISTINCT day), COUNT(DISTINCT upper(region)), COUNT(*) FROM visits")
    assert [i for i, m in enumerate(both.question.measures) if isinstance(m, DistinctCount)] == [
        i for i, _ in both.distinct
    ]
    assert len(both.statements) == 3


def test_constants_that_look_like_the_text_change_nothing() -> None:
    plan = planned("SELECT COUNT(DISTINCT region || ',\n\"unit values\" AS (') FROM visits WHERE region <> '$secret'")
    assert plan.needs_secret
    assert plan.is_keyed(plan.statements[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("COUNT(DISTINCT 1)", "COUNT(DISTINCT …) of a constant counts nothing.\nHint: count the values of a column"),
        ("COUNT(DISTINCT NULL)", "COUNT(DISTINCT …) of a constant counts nothing.\nHint: count the values of a column"),
    ],
)
def test_other_forms_are_refused_with_the_way_round(text: str, message: str) -> None:
    with pytest.raises(UnsupportedQuery) as refusal:
        planned(f"SELECT {text} FROM visits")
    assert str(refusal.value) == message


def test_an_answer_and_its_interval_are_about_the_bounded_count() -> None:
    import pyarrow as pa

    frame = pa.table({"uid": [1] * 5 + [2, 3, 4], "x": [1, 2, 3, 4, 5, 1, None, 9], "y": ["a"] * 7 + ["b"]})
    unit = dp.PrivacyUnit("uid", max_groups=2, max_rows=3)
    budget, keys = dp.Budget(epsilon=10**6, per_query=10**6), {"y": dp.Values("a", "b", "c")}
    with dp.connect(frame, unit=unit, columns=keys, budget=budget, population="p", ledger=":memory:") as session:
        text = "SELECT y, COUNT(DISTINCT x) AS n, COUNT(*) AS m FROM data GROUP BY y HAVING n > -1 ORDER BY n DESC"
        found = session.sql(text, epsilon=10**5)
        rows = {row[0]: row[1] for row in found.rows}
        assert rows["a"] in (3, 4)  # three values of the first person, and perhaps another one of the second
        assert (rows["b"], rows["c"]) == (1, 0)
        loose = session.sql("SELECT COUNT(DISTINCT x) AS n FROM data", epsilon=1)
        again = session.sql("SELECT 2 * COUNT(DISTINCT x) AS twice FROM data", epsilon=1)
        assert again.rows[0][0] == 2 * loose.rows[0][0]
        assert "different values" in session.plan("SELECT COUNT(DISTINCT x) AS n FROM data", epsilon=1).explain()


def test_secrets_of_accounts_choose_different_values() -> None:
    plan = of_region(PrivacyUnit("uid", max_groups=1, max_rows=1), Relation.ADD_REMOVE, keys=False)
    ENGINE.fill([{"uid": u, "region": "a", "x": x} for u in range(40) for x in range(40)], COLUMNS)
    ((_, text),) = plan.distinct
    counts = {
        secret: int(ENGINE.connection.execute(text, {"secret": secret}).fetchall()[0][0])
        for secret in range(SECRET, SECRET + 5)
    }
    # people who all have the same 40 values choose different ones: 40(1 − (39/40)^40) = 25.5 are expected, 1.6 apart
    assert all(16 <= n <= 35 for n in counts.values())
    assert len(set(counts.values())) > 1
