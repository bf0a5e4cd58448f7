"""What a plan says of its numbers whatever the rows hold: clamping, caps, undeclared values, missing groups."""

from __future__ import annotations

import math
import re
from contextlib import closing
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.catalog.schema import Range, Reached, TableSchema, Values
from discreet.catalog.types import Type
from discreet.errors import UnknownColumn, UnsupportedQuery
from discreet.mechanisms.rounds import GaussianRounds, weight
from discreet.plan.clamping import may_clamp
from discreet.plan.measures.lattice_value import LatticeValue
from discreet.plan.planner import make_query
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.query.expr import finite

BIAS = "Truncation bias, which ± does not cover: "
ROW = PrivacyUnit.row()
CAPS = PrivacyUnit("uid", max_groups=2, max_rows=5)
ONE_GROUP = "one 'uid' counts for at most 5 rows"
V, X = "'v' is clamped to [-2, 3]", "'x' is clamped to [-3, 12]"


@pytest.mark.parametrize(
    ("sql", "unit", "parts"),
    [
        ("COUNT(*)", ROW, ""),
        ("COUNT(*)", CAPS, ONE_GROUP),
        ("COUNT(DISTINCT uid)", CAPS, ""),
        ("COUNT(DISTINCT region)", CAPS, "one 'uid' counts for at most 5 values"),
        ("COUNT_IF(v > 1)", ROW, ""),
        ("BOOL_OR(v > 1)", CAPS, ""),
        ("SUM(v)", ROW, V),
        ("AVG(v)", ROW, V),
        ("SUM(v)", CAPS, f"{V}; {ONE_GROUP}"),
        ("SUM(v) FILTER (WHERE x > 1)", ROW, V),
        ("AVG(v), SUM(x), MEDIAN(v)", ROW, f"{V}, 'x' to [-3, 12]"),
        ("VAR_POP(v)", ROW, V),
        ("CORR(v, x)", ROW, f"{V}, 'x' to [-3, 12]"),
        ("SUM(v * w)", ROW, "an expression of 'v' and 'w' is clamped to [-400, 600]"),
        ("MEDIAN(x)", ROW, X),
        ("MAX(v)", ROW, V),
        ("SUM(v > 1)", ROW, ""),
        ("SUM(CASE WHEN region = 'a' THEN 7 ELSE 0 END)", ROW, ""),
        ("SUM(least(2, greatest(1, uid)))", ROW, ""),
        ("AVG(least(0.1, greatest(-0.1, v)))", ROW, ""),
        ("MODE(region)", ROW, "only declared values of 'region' count"),
        ("MODE(flag)", ROW, ""),
        ("HISTOGRAM(x, [0, 5])", ROW, ""),
        ("HISTOGRAM(x, [0, 20])", ROW, "'x' above 20 counts in the last bin"),
        ("SUM_WITHIN(v, -1, 2)", ROW, "'v' is clamped to [-1, 2]"),
        ("SUM_WITHIN(v, -1, 2)", CAPS, f"{V}; what one 'uid' adds to the sum of 'v' is clamped to [-1, 2]"),
        ("COUNT_WITHIN(v, 0, 3)", CAPS, "what one 'uid' adds to the count of 'v' is clamped to [0, 3]"),
        ("COUNT_WITHIN(*, 0, 3)", CAPS, "what one 'uid' adds to the count of rows is clamped to [0, 3]"),
        ("MIN(day)", ROW, "'day' is clamped to [2024-01-01, 2024-02-01]"),
        ("MEDIAN(at)", ROW, "'at' is clamped to [2024-01-01 00:00:00, 2024-01-02 00:00:00]"),
    ],
)
def test_all_that_is_clamped_or_capped_is_said_by_column(sql: str, unit: PrivacyUnit, parts: str) -> None:
    found = planned(f"SELECT {sql} FROM t", unit).notes
    assert found == ((f"{BIAS}{parts}.",) if parts else ())


def test_caps_are_said_where_they_may_cut() -> None:
    grouped = "SELECT region, COUNT(*) FROM t GROUP BY region"
    assert f"{BIAS}one 'uid' counts in at most 2 groups, for at most 5 rows in each." in planned(grouped, CAPS).notes
    three = PrivacyUnit("uid", max_groups=3, max_rows=1)  # as many as there are
    assert f"{BIAS}one 'uid' counts for at most 1 row in each group." in planned(grouped, three).notes
    one = PrivacyUnit("uid", max_groups=1, max_rows=2)
    assert f"{BIAS}one 'uid' counts in at most 1 group, for at most 2 rows in it." in planned(grouped, one).notes
    each = "SELECT AVG(least(n, 4)) FROM (SELECT uid, COUNT(*) AS n FROM t GROUP BY uid) people"
    assert planned(each, CAPS).notes == ()  # a unit has one row


EXPRESSIONS = [
    "v", "x", "-v", "abs(v)", "v * 2 + 1", "v * v", "v * w", "least(v, 1)", "greatest(v, 1)",
    "least(1, greatest(0, v))",
    "least(100, greatest(-100, v))", "coalesce(least(1, greatest(0, v)), 0.5)", "CASE WHEN v > 0 THEN 1 ELSE x END",
    "CASE WHEN v > 0 THEN 1 WHEN v < 0 THEN -2 END", "sign(v)", "round(v)", "sqrt(abs(v))", "(v > 1)::BIGINT",
    "width_bucket(v, 0, 1, 4)", "sin(v)", "least(5, greatest(0, x % 7))",
]  # fmt: skip
VALUES = [-1e18, -1000.5, -3.0, -2.0, -0.3, 0.0, 0.1, 0.7, 1.0, 3.0, 4.0, 12.0, 999.25, 1e18]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_a_value_without_a_note_is_never_moved(text: str) -> None:
    """DuckDB's own value of the expression, over values inside and far outside the declared bounds."""
    made = planned(f"SELECT SUM({text}) FROM t", ROW)
    (value,) = [part for m in made.question.measures for _, part in m.parts if isinstance(part, LatticeValue)]
    tried = " UNION ALL ".join(
        f"SELECT {v!r}::DOUBLE AS v, {int(u)}::BIGINT AS x, {w!r}::DOUBLE AS w"
        for v, u, w in zip(VALUES, VALUES, VALUES[::-1], strict=True)
    )
    with closing(open_database()) as connection:
        cells = connection.execute(f"SELECT {finite(value.expr)} FROM ({tried}) s").fetchall()
    known = [Fraction(cell) for (cell,) in cells if cell is not None]
    moved = any(not value.low - 1 < cell / value.step < value.high + 1 for cell in known)
    assert known and may_clamp(value, None) >= moved
    if text in ("v", "x", "-v", "v * 2 + 1", "v * v", "v * w", "least(v, 1)", "round(v)"):
        assert may_clamp(value, None) and moved


@pytest.mark.parametrize(
    ("key", "hidden"),
    [
        ("region", "'region' is NULL or undeclared"),
        ("flag", "'flag' is NULL"),
        ("known", "'known' is undeclared"),
        ("region || '!'", "\"region || '!'\" is NULL or undeclared"),
        ("CASE WHEN x < 3 THEN 'low' ELSE 'high' END", ""),
        ("CASE WHEN x < 3 THEN 'low' WHEN x > 90 THEN 'no' ELSE 'high' END", "'k' is undeclared"),
        ("x > 3", "'k' is NULL"),
        ("coalesce(region, 'z')", "'k' is NULL or undeclared"),
    ],
)
def test_rows_in_no_group_are_said(key: str, hidden: str) -> None:
    named = f"{key} AS k" if hidden.startswith("'k' ") or not hidden else key
    found = planned(f"SELECT {named}, COUNT(*) AS n FROM t GROUP BY {key}", ROW).notes
    assert found == ((f"In no group: rows in which {hidden}.",) if hidden else ())


def test_totals_lack_what_their_groups_lack() -> None:
    found = planned("SELECT region, flag, COUNT(*) FROM t GROUP BY ROLLUP (region, flag)", ROW).notes
    assert found == ("In no group and no total: rows in which 'region' is NULL or undeclared, or 'flag' is NULL.",)


@pytest.mark.parametrize(("unit", "of"), [(ROW, "rows"), (CAPS, "different 'uid'")])
def test_totals_over_selected_groups_lack_the_groups_that_are_missing(unit: PrivacyUnit, of: str) -> None:
    """The number is about groups by all keys: what is split into smaller ones is in no total, however large it is."""
    keys = "FROM t GROUP BY {} (uid % 7, flag)"
    made, each = (
        planned(f"SELECT COUNT(*) AS n {keys.format(by)}", unit, epsilon=2, delta="1e-6") for by in ("ROLLUP", "")
    )
    n = re.findall(r"[\d,]+", each.notes[-1])[0]
    assert made.notes[-1] == (
        f"Groups by all keys of fewer than {n} {of} may be missing, from totals too; "
        f"one of {n} is counted with probability 0.95."
    )


def test_a_total_is_that_of_the_groups_that_are_shown() -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": ["x"] * 1000, "b": [f"{i // 5}" for i in range(600)] + ["most"] * 400})
    budget = dp.Budget(10**5, "0.1", per_query=10**5)
    with dp.connect({"t": frame}, unit=ROW, budget=budget, ledger=":memory:") as session:
        sql = "SELECT a, b, COUNT(*) AS n FROM t GROUP BY ROLLUP (a, b)"
        release = session.sql(sql, epsilon=1, delta="1e-6")
    (total,) = (n for a, _, n in release.rows if a is None)
    assert abs(total - 400) < 100  # of 1,000 rows: 600 are in groups of five
    assert any("may be missing, from totals too" in note for note in release.notes)


def test_columns_of_one_name_are_told_apart_by_their_tables() -> None:
    import pandas as pd

    frame = pd.DataFrame({"uid": [1, 2], "x": [0, 1], "y": [0, 1]})
    unit, budget = PrivacyUnit("uid", max_groups=3, max_rows=5), dp.Budget(9)
    facts: dict[str, Any] = {"bought.x": dp.Range(-3, 12), "sold.x": dp.Range(0, 5), "sold.y": dp.Range(0, 1)}
    tables = {"bought": frame, "sold": frame}
    with dp.connect(tables, unit=unit, columns=facts, budget=budget, population="p", ledger=":memory:") as session:
        for columns, said in (
            ("SUM(b.x), AVG(sold.x)", "'b.x' is clamped to [-3, 12], 'sold.x' to [0, 5]"),
            ("SUM(b.x - sold.x)", "an expression of 'b.x' and 'sold.x' is clamped to [-8, 12]"),
            ("SUM(b.x), AVG(sold.y)", "'x' is clamped to [-3, 12], 'y' to [0, 1]"),
        ):
            sql = f"SELECT {columns} FROM bought b JOIN sold USING (uid)"
            plan = session.plan(sql, epsilon=1, truncation="0.5")
            assert plan.notes == (f"{BIAS}{said}; {ONE_GROUP}.",)
            named = {"the caps", *re.findall("('.*?'|an exp.*?) (?:is|to)", said)}
            assert {r.name for r in plan.query.reports} == named


def test_two_populations_hear_of_their_caps_in_the_same_words() -> None:
    import pandas as pd

    frame = pd.DataFrame({"uid": [1, 2], "doctor": [3, 4], "x": [0, 1], "region": ["a", "b"]})
    units = {
        "patients": PrivacyUnit("uid", max_groups=3, max_rows=5),
        "doctors": PrivacyUnit("doctor", max_groups=3, max_rows=1),
    }
    with dp.connect_both(
        {"t": frame},
        units=units,
        columns={"x": dp.Range(-3, 12), "region": dp.Values("a", "b", "c")},
        budget={"patients": dp.Budget(9), "doctors": dp.Budget(9)},
        ledger=":memory:",
    ) as session:
        for sql, each in (("", ""), (" GROUP BY region", " in each group")):
            caps = [f"one {u!r} counts for at most {n}{each}" for u, n in (("uid", "5 rows"), ("doctor", "1 row"))]
            said = session.plan(f"SELECT SUM(x) AS s FROM t{sql}", epsilon=1).notes[0]
            assert said == f"{BIAS}{X}; {'; '.join(caps)}."
            alone = planned(f"SELECT SUM(x) AS s FROM t{sql}", units["patients"]).notes[0]
            assert alone == f"{BIAS}{X}; {caps[0]}."


def test_no_row_is_outside_all_groups_without_a_note() -> None:
    """A thousand rows of three are of no group; the same sentences whether any is or none."""

    def asked(values: list[Any]) -> tuple[tuple[str, ...], int]:
        import pandas as pd

        frame = pd.DataFrame({"ward": values, "x": 1.0})
        facts: dict[str, Any] = {"ward": dp.Values("a", "b"), "x": dp.Range(0, 1)}
        budget = dp.Budget(10**6, per_query=10**6)
        with dp.connect({"t": frame}, unit=ROW, columns=facts, budget=budget, ledger=":memory:") as session:
            sql = "SELECT ward, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY ward"
            before, release = session.plan(sql, epsilon=10_000), session.sql(sql, epsilon=10_000)
            assert before.notes == release.notes
            return release.notes, sum(n for _, n, _ in release.rows)

    full, hidden = asked(["a", "b", "a"] * 1000), asked(["a", "b", None] * 1000)
    assert (full[1], hidden[1]) == (3000, 2000)
    assert (
        full[0]
        == hidden[0]
        == (f"{BIAS}'x' is clamped to [0, 1].", "In no group: rows in which 'ward' is NULL or undeclared.")
    )


@pytest.mark.parametrize("unit", [ROW, CAPS, PrivacyUnit("uid", max_groups=20, max_rows=5)])
@pytest.mark.parametrize("relation", list(Relation))
def test_the_least_group_that_is_mostly_shown_follows_from_the_mechanisms_law(
    unit: PrivacyUnit, relation: Relation
) -> None:
    made = planned("SELECT uid % 7 AS k, COUNT(*) FROM t GROUP BY k", unit, relation, epsilon=2, delta="1e-6")
    found = re.search(
        r"Groups of fewer than ([\d,]+) (rows|different 'uid') may be missing; one of \1 is shown", made.notes[-1]
    )
    assert found is not None and (found[2] == "rows") == (unit is ROW)
    n = int(found[1].replace(",", ""))

    # Desfontaines et al. 2022, (1) and (2): the most that a group of one more may be shown
    threshold = made.allocation.threshold
    assert threshold is not None
    if isinstance(threshold, GaussianRounds):  # Swanberg et al. 2023: each unit has all its groups in both rounds
        assert unit.max_groups == 20
        rounds = [(r.least - 0.5, float(r.noise.sigma) * 2**0.5) for r in threshold.rounds]
        hidden = [math.prod(math.erfc((k * weight(20) - t) / s) / 2 for t, s in rounds) for k in (n - 1, n)]
        assert hidden[0] > 0.05 >= hidden[1]
        return
    touched = (unit.max_groups or 1) * (2 if relation is Relation.REPLACE else 1)
    epsilon, delta = float(threshold.epsilon) / touched, float(threshold.delta) / touched
    shown = [0.0]
    while shown[-1] < 0.95:
        p = shown[-1]
        shown.append(min(math.exp(epsilon) * p + delta, 1 - math.exp(-epsilon) * (1 - p - delta), 1))
    assert n == len(shown) - 1
    assert shown[n] >= 0.95 > shown[n - 1]


REFUSED = [
    "SELECT uid, COUNT(*) FROM t GROUP BY uid",
    "SELECT uid::VARCHAR AS u, region, COUNT(*) FROM t GROUP BY ALL",
    "SELECT region, uid, COUNT(*) FROM t GROUP BY ROLLUP (region, uid)",
    "SELECT a.uid, COUNT(*) FROM t a JOIN t b ON a.uid = b.uid GROUP BY 1",
    "SELECT uid, AVG(least(n, 4)) FROM (SELECT uid, COUNT(*) AS n FROM t GROUP BY uid) people GROUP BY uid",
    "SELECT order_id, SUM(price) FROM items GROUP BY order_id",
    "SELECT id, COUNT(*) FROM orders GROUP BY id",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_groups_of_one_unit_each_are_refused_before_the_charge(sql: str) -> None:
    with pytest.raises(
        UnsupportedQuery, match=r"Each group would be of one unit, as '(uid|order_id|id|u)' says"
    ) as found:
        planned(sql, CAPS, delta="1e-6")
    assert "inside" in found.value.hint and "#" not in str(found.value)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT uid // 10, COUNT(*) FROM t GROUP BY uid // 10",
        "SELECT n, COUNT(*) FROM (SELECT uid, COUNT(*) AS n FROM t GROUP BY uid) people GROUP BY n",
        "SELECT region, COUNT(DISTINCT uid) FROM t GROUP BY region",
    ],
)
def test_groups_that_units_share_are_answered(sql: str) -> None:
    assert planned(sql, CAPS, delta="1e-6").sql


def test_declared_ids_are_groups_as_any_other() -> None:
    facts = {"uid": Values(1, 2, 3)}
    table = TableSchema("t", {"uid": Type.INT}, facts, CAPS, Relation.ADD_REMOVE)
    asked: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1}
    assert make_query("SELECT uid, COUNT(*) FROM t GROUP BY uid", [table], **asked).question.keys.count == 3


def planned(sql: str, unit: PrivacyUnit, relation: Relation = Relation.ADD_REMOVE, **asked: Any) -> Any:
    import datetime as dt

    columns = {"uid": Type.INT, "region": Type.TEXT, "x": Type.INT, "v": Type.REAL, "w": Type.REAL, "flag": Type.BOOL}
    columns |= {"day": Type.DATE, "at": Type.TIMESTAMP, "known": Type.TEXT}
    facts: dict[str, Any] = {
        "region": Values("a", "b", "c"), "x": Range(-3, 12, integer=True), "v": Range(-2, 3), "w": Range(100, 200),
        "flag": Values(True, False), "known": Values("a", None),
        "day": Range(dt.date(2024, 1, 1), dt.date(2024, 2, 1)),
        "at": Range(dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)),
    }  # fmt: skip
    tables = [TableSchema("t", columns, facts, unit, relation)]
    if "orders" in sql or "items" in sql:
        tables = [
            TableSchema("orders", {"id": Type.INT, "uid": Type.INT}, {}, unit, relation),
            TableSchema(
                "items", {"order_id": Type.INT, "price": Type.REAL}, {"price": Range(0, 9)}, unit, relation,
                Reached("order_id", "orders", "id"),
            ),
        ]  # fmt: skip
    options: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1, **asked}
    return make_query(sql, tables, **options)


def test_slips_and_dear_ways_are_said_from_public_facts_alone() -> None:
    people = {"uid": [1], "sex": ["F"], "ill": ["no"], "place": ["a"], "age": [1]}
    source = {
        "u": pd.DataFrame(people),
        "stays": pd.DataFrame({"uid": [1], "ward": ["x"]}),
        "places": pd.DataFrame({"place": ["a", "b"], "size": [10, 20]}),
    }
    facts: dict[str, Range | Values] = {
        "sex": Values("F", "M"),
        "ill": Values("yes", "no"),
        "ward": Values("x"),
        "age": Range(0, 9),
    }
    fewer = "If 'u' has one row for each 'uid', contribution bounds of 1 have less noise."
    yess, female = (
        "'yess' is none of the known values of 'ill': perhaps 'yes' is meant.",
        "'Female' is none of the known values of 'sex': these are 'F', 'M'.",
    )
    free = (
        "'size' of the public table 'places' is noisy here and costs ε: where a group has one value of it, it is exact "
    )
    with dp.connect(source, unit=dp.PrivacyUnit("uid", 2, 2), public=["places"], columns=facts, population="p",
                    budget=dp.Budget(9), ledger=":memory:") as session:  # fmt: skip
        for sql, said in {
            "SELECT COUNT(*) FROM u WHERE ill = 'yess' AND sex <> 'Female'": [female, yess, fewer],
            "SELECT AVG(age) FILTER (WHERE ill IN ('yess', 'no')) FROM u": [yess, fewer],
            "WITH t AS (SELECT * FROM u WHERE 'yess' = ill) SELECT COUNT(*) FROM t": [yess, fewer],
            "SELECT COUNT(*) FROM u JOIN stays s ON u.uid = s.uid WHERE ward = 'x' AND ill = 'yess'": [yess],
            "SELECT COUNT(*) FROM u WHERE ill = 'yes' AND upper(sex) = 'Female'": [fewer],
            "SELECT ward, COUNT(*) FROM stays GROUP BY ward": [],
            "SELECT p.place, MAX(size) FROM u JOIN places p ON u.place = p.place GROUP BY p.place": [
                f"{free}and free in GROUP BY.",
                fewer,
            ],
            "SELECT MAX(size) FROM u JOIN places p ON u.place = p.place": [fewer],
        }.items():
            found = [n for n in session.plan(sql, epsilon=1).notes if not n.startswith(("Trunc", "In no group"))]
            assert sorted(found) == sorted(said), sql


def test_a_known_value_in_double_quotes_is_told_to_have_single_ones() -> None:
    with dp.connect({"u": pd.DataFrame({"sex": ["F"]})}, unit=dp.PrivacyUnit.row(), columns={"sex": Values("F", "M")},
                    population="p", budget=dp.Budget(9), ledger=":memory:") as session:  # fmt: skip
        for name, hint in (("F", "text stands in single quotes: 'F'"), ("xy", "columns are: sex")):
            with pytest.raises(UnknownColumn) as caught:
                session.plan(f'SELECT COUNT(*) FROM u WHERE sex = "{name}"', epsilon=1)
            assert caught.value.hint == hint
