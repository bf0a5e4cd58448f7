"""MEDIAN, QUANTILE, MIN, MAX and MODE as they are asked for: forms, refusals, identities, releases."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.catalog.schema import Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.session import Session
from discreet.errors import InvalidParameter, LedgerError, MissingBounds, NotPrivate, UnsupportedQuery
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.explain import explain
from discreet.plan.nodes.of_tree import Mode, Quantile
from discreet.post.noisy_table import NoisyTable
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.plan.tables import COLUMNS, FACTS, planned

HALF = Fraction(1, 2)
NO_BOUNDS = (
    "Quantiles, MIN, MAX and MODE of a date or time need the bounds of 'seen', which must not be read from the data."
)
TOO_MANY = "MODE is supported for at most 65,536 whole numbers; the declared range has more."


def asked(expression: str) -> Any:
    """The expression over the answer that one output column becomes."""
    ((_, found),) = planned(f"SELECT {expression} FROM visits").question.outer.columns
    return found


@pytest.mark.parametrize(
    ("text", "p", "kind"),
    [
        ("MEDIAN(amount)", HALF, Type.REAL),
        ("median(day)", HALF, Type.REAL),
        ("QUANTILE_CONT(amount, 0.95)", Fraction(19, 20), Type.REAL),
        ("quantile_disc(day, 0.25)", Fraction(1, 4), Type.INT),
        ("quantile(day, 1)", Fraction(1), Type.INT),
        ("APPROX_QUANTILE(amount, .5)", HALF, Type.REAL),
        ("PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY amount)", Fraction(1, 10), Type.REAL),
        ("PERCENTILE_DISC(0.1) WITHIN GROUP (ORDER BY day DESC)", Fraction(9, 10), Type.INT),
        ("MIN(day)", Fraction(0), Type.INT),
        ("MAX(amount)", Fraction(1), Type.REAL),
        ("MAX(flag)", Fraction(1), Type.INT),
        ("MEDIAN(amount) FILTER (WHERE day > 3)", HALF, Type.REAL),
        ("MEDIAN(2 * amount + day)", HALF, Type.REAL),
    ],
)
def test_every_spelling_is_a_share_of_a_tree(text: str, p: Fraction, kind: Type) -> None:
    found = asked(text)
    assert isinstance(found, Quantile) and (found.p, found.type) == (p, kind)


def test_the_leaves_are_listed_values_whole_numbers_or_parts_of_the_range() -> None:
    assert asked("MEDIAN(day)").shape.leaves == 7
    reals = asked("MEDIAN(amount)").shape
    assert (reals.fanout, reals.depth) == (16, 4) and 60_000 < reals.leaves <= 65_536
    wide = asked("MAX(day * 100000)").shape
    assert wide.leaves <= 65_536 and wide.width > 1
    mode = asked("MODE(region)")
    assert isinstance(mode, Mode) and mode.type is Type.TEXT
    assert mode.shape.listed == ("east", "north", "south", "west")
    assert asked("MODE() WITHIN GROUP (ORDER BY region)") == mode
    assert asked("MODE(CASE WHEN day > 5 THEN 'weekend' ELSE 'week' END)").shape.listed == ("week", "weekend")
    assert asked("MODE(day)").shape.leaves == 7
    assert asked("MODE(CAST(amount AS BIGINT))").shape.leaves == 201
    assert asked("MODE(flag)").shape.listed == asked("MODE(amount > 3)").shape.listed == (False, True)
    assert asked("MODE(region) FILTER (WHERE amount > 3)").shape.listed == mode.shape.listed


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("MEDIAN(region)", MissingBounds, None),
        ("MIN(region)", UnsupportedQuery, "MIN of text is not supported here."),
        ("MAX(seen)", MissingBounds, NO_BOUNDS),
        ("MEDIAN(user_id)", MissingBounds, None),
        ("MEDIAN(*)", UnsupportedQuery, "MEDIAN needs one number."),
        ("MEDIAN(DISTINCT amount)", UnsupportedQuery, "MEDIAN with DISTINCT is not supported here."),
        ("QUANTILE_CONT(amount, [])", UnsupportedQuery, "QUANTILE_CONT takes a list of 1 to 100 shares."),
        ("QUANTILE_CONT(amount, 1.5)", UnsupportedQuery, "QUANTILE_CONT needs a share between 0 and 1, as a number."),
        ("QUANTILE_CONT(amount, day)", UnsupportedQuery, "QUANTILE_CONT needs a share between 0 and 1, as a number."),
        ("QUANTILE(amount)", UnsupportedQuery, "QUANTILE needs a share between 0 and 1, as a number."),
        ("MIN(amount, 3)", UnsupportedQuery, "This form of MIN is not supported here."),
        ("SUM(amount) WITHIN GROUP (ORDER BY amount)", UnsupportedQuery, "SUM does not go with WITHIN GROUP."),
        ("MODE(amount)", UnsupportedQuery, "MODE needs values that can be counted one by one."),
        ("MODE(seen)", MissingBounds, NO_BOUNDS),
        ("MODE(day * 100000)", UnsupportedQuery, TOO_MANY),
        ("MODE(*)", UnsupportedQuery, "MODE needs one value."),
        ("MODE(NULL)", UnsupportedQuery, "MODE of NULL counts nothing."),
        ("HISTOGRAM(NULL)", UnsupportedQuery, "HISTOGRAM of NULL counts nothing."),
        ("APPROX_TOP_K(NULL, 2)", UnsupportedQuery, "APPROX_TOP_K of NULL counts nothing."),
    ],
)  # fmt: skip
def test_what_has_no_answer_is_refused_by_name_with_a_way_round(
    text: str, error: type[Exception], message: str | None
) -> None:
    with pytest.raises(error) as caught:
        asked(text)
    found: Any = caught.value
    assert found.hint and (message is None or found.message == message)


def test_a_list_that_is_too_long_to_compare_with_is_refused() -> None:
    t = TableSchema("t", {"c": Type.TEXT}, {"c": Values(*map(str, range(201)))}, PrivacyUnit.row(), Relation.ADD_REMOVE)
    with pytest.raises(UnsupportedQuery, match="at most 200 listed values; here are 201"):
        planned("SELECT MODE(c) FROM t", t)


def test_bounds_beyond_what_is_counted_exactly_are_refused() -> None:
    far = TableSchema(
        "t", {"x": Type.INT}, {"x": Range(-(1 << 61), (1 << 61), integer=True)}, PrivacyUnit.row(), Relation.ADD_REMOVE
    )
    with pytest.raises(InvalidParameter, match="too wide for a quantile"):
        planned("SELECT MEDIAN(x) FROM t", far)


def test_several_quantiles_of_one_column_cost_what_one_costs_and_each_other_column_has_its_share() -> None:
    one = planned("SELECT MEDIAN(amount), MAX(amount) FROM visits")
    many = planned("SELECT MEDIAN(amount), QUANTILE_CONT(amount, 0.9), MIN(amount), MAX(amount) AS m FROM visits")
    assert one.allocation.trees == many.allocation.trees and len(many.trees) == 1
    beside = planned("SELECT MEDIAN(amount), MAX(amount), COUNT(*) FROM visits")  # four levels and a count
    (wide,), (narrow,) = beside.allocation.trees, one.allocation.trees
    assert isinstance(wide, DiscreteLaplaceNoise) and isinstance(narrow, DiscreteLaplaceNoise)
    assert wide.scale == narrow.scale * 5 / 4
    two = planned("SELECT MEDIAN(amount), MEDIAN(day) FROM visits")
    assert len(two.trees) == 2 and two.allocation.guarantee == one.allocation.guarantee


def test_the_identity_follows_what_is_looked_at_and_not_how_it_is_written() -> None:
    def identity(text: str) -> str:
        return planned(text).identity

    base = identity("SELECT MEDIAN(amount) AS a, MAX(amount) AS b FROM visits")
    assert base == identity("SELECT MAX(amount), PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY amount) FROM visits")
    assert base == identity("SELECT MEDIAN(amount) FROM visits HAVING MAX(amount) > 3 ORDER BY 1")
    others = ["MEDIAN(amount)", "MEDIAN(amount), MIN(amount)", "MEDIAN(day), MAX(day)"]
    assert len({base, *(identity(f"SELECT {o} FROM visits") for o in others)}) == 4


N = 4_000
RNG = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {
        "user_id": RNG.integers(0, 2_000, N),
        "region": RNG.choice(["north", "south", "east"], N, p=[0.5, 0.3, 0.2]),
        "day": RNG.integers(1, 8, N),
        "amount": np.minimum(RNG.gamma(2.0, 20.0, N), 190.0),
    }
)


def opened(unit: Any = None, **options: Any) -> Session:
    columns = {n: f for n, f in FACTS.items() if n in FRAME}
    said: dict[str, Any] = {
        "unit": unit or dp.PrivacyUnit("user_id", max_groups=3, max_rows=50),
        "columns": columns,
        "budget": dp.Budget(10**9, "0.1", per_query=10**8),
        "ledger": ":memory:",
    }
    return dp.connect({"visits": FRAME}, **{**said, **options})


QUESTION = """SELECT region, MEDIAN(amount) AS m, QUANTILE_CONT(amount, 0.9) AS q, MIN(amount) AS lo, MAX(amount) AS hi,
    MODE(day) AS d, QUANTILE_DISC(day, 0.3) AS e FROM visits GROUP BY region"""


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("unit", [None, dp.PrivacyUnit.row()], ids=["people", "rows"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_with_hardly_any_noise_quantiles_are_those_of_numpy(unit: Any, noise: str) -> None:
    with opened(unit) as s:
        r = s.sql(QUESTION, epsilon=10**7, noise=noise, delta="1e-3" if noise == "gaussian" else 0)
        leaf, close = 200 / 65_000, 0.5
        for region, m, q, lo, hi, d, e in r.rows:
            x = FRAME[FRAME.region == region]
            if not len(x):
                continue
            assert m == pytest.approx(np.quantile(x.amount, 0.5), abs=close)
            assert q == pytest.approx(np.quantile(x.amount, 0.9), abs=close)
            assert lo == pytest.approx(x.amount.min(), abs=leaf) and hi == pytest.approx(x.amount.max(), abs=leaf)
            assert x.day.value_counts()[d] == x.day.value_counts().max()
            assert e == np.quantile(x.day, 0.3, method="inverted_cdf") and isinstance(e, int)


def test_a_release_is_stored_with_its_trees_and_answers_again_for_free() -> None:
    with opened() as s:
        first = s.sql(QUESTION, epsilon=1)
        spent = s.spent
        again = s.sql(QUESTION.replace("AS m,", "AS middle,") + " ORDER BY 2 DESC LIMIT 2", epsilon=1)
        assert again.stored and not first.stored and s.spent == spent
        assert [r[1] for r in again.rows] == sorted((r[1] for r in first.rows), reverse=True)[:2]
        kept = first.table.to_json()
        assert NoisyTable.from_json(kept) == first.table and kept["trees"]
        for i, c in enumerate(first.columns[1:], 1):
            ends = [e for e in first.interval(c) if e is not None]
            assert all(low <= row[i] <= high for row, (low, high) in zip(first.rows, ends, strict=True))
        fresh = s.sql(QUESTION, epsilon=1, fresh=True)
        assert fresh.table.trees != first.table.trees and s.spent != spent


@pytest.mark.parametrize("version", [{"format": 2}, {"format": None}])
def test_an_answer_that_another_version_stored_is_refused_in_a_sentence(version: dict[str, Any]) -> None:
    kept = NoisyTable(((1,),), ((2,),)).to_json()
    assert kept["trees"] == [] and NoisyTable.from_json(kept) == NoisyTable(((1,),), ((2,),))
    with pytest.raises(LedgerError, match="Another version of discreet stored this result") as refused:
        NoisyTable.from_json({**kept, **version})
    assert "what was spent still counts" in (refused.value.hint or "")


def test_quantiles_stand_in_having_in_arithmetic_and_beside_private_groups() -> None:
    private = {n: f for n, f in FACTS.items() if n in FRAME and n != "region"}
    with opened(columns=private) as s:
        text = "SELECT region, MEDIAN(amount) AS m, 2 * MAX(amount) - MIN(amount) AS w FROM visits GROUP BY region "
        with pytest.raises(NotPrivate):
            s.sql(text, epsilon=5)
        r = s.sql(text + "HAVING MEDIAN(amount) > 0 ORDER BY MEDIAN(amount)", epsilon=5, delta="1e-4")
        assert {row[0] for row in r.rows} == {"north", "south", "east"}
        assert [row[1] for row in r.rows] == sorted(row[1] for row in r.rows)
        ends = [e for e in r.interval("w") if e is not None]
        assert all(low <= row[2] <= high for row, (low, high) in zip(r.rows, ends, strict=True))
        assert not s.sql(text + "HAVING MEDIAN(amount) > 200", epsilon=5, delta="1e-4").rows
        mode = s.sql("SELECT CASE WHEN MODE(day) > 3 THEN 1 ELSE 0 END AS late FROM visits", epsilon=1)
        assert mode.rows[0][0] in (0, 1)


def test_a_group_of_nobody_has_a_value_inside_the_bounds_and_says_that_it_may_be_any() -> None:
    with opened() as s:
        r = s.sql("SELECT region, MEDIAN(amount) AS m, MODE(day) AS d FROM visits GROUP BY region", epsilon="0.5")
        at = [row[0] for row in r.rows].index("west")
        assert 0 <= r.rows[at][1] <= 200 and 1 <= r.rows[at][2] <= 7
        low, high = r.interval("m", 1 - Fraction(1, 10**9))[at] or (1, 1)
        assert high - low > 100


def test_a_question_of_nothing_but_trees_and_public_groups_asks_nothing_else_of_the_database() -> None:
    plan = planned("SELECT region, MEDIAN(amount) FROM visits GROUP BY region")
    assert plan.sql == "" and plan.statements == (plan.trees[0][1],) and plan.needs_secret
    assert all(n in COLUMNS for n in FACTS)


def test_the_derivation_says_what_a_tree_is_and_costs() -> None:
    text = explain(planned("SELECT MEDIAN(amount), MAX(amount) FROM visits"), "")
    assert "a tree of 4 levels of 16" in text
    assert "2 quantiles are read from it, at the cost of one" in text
    assert "Laplace noise" in text
