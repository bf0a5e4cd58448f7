"""Answers that hold several values: histograms, commonest values, lists of quantiles."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.catalog.schema import Fact, Range, Values
from discreet.catalog.types import Type
from discreet.engine.session import Session
from discreet.errors import DiscreetError, InvalidParameter, MissingBounds, UnsupportedQuery
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.aggregates.nested import ListOf
from discreet.plan.nodes.of_tree import Histogram, Quantile, Top
from discreet.plan.plan import alone
from discreet.plan.quantile_tree.tree import NoisyTree
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.coverage import covers
from tests.exhaustive.plan.test_tree_sql import ENGINE, ONE, ROW, SCHEMA, SHORT, leaves, level_moves, norms
from tests.exhaustive.plan.test_tree_sql import planned as small
from tests.plan.claims import check
from tests.plan.tables import planned
from tests.plan.tree_shapes import given, shape_of
from tests.reference.expression import Row


def asked(expression: str) -> Any:
    ((_, found),) = planned(f"SELECT {expression} FROM visits").question.outer.columns
    return found


@pytest.mark.parametrize(
    ("text", "shares", "kind"),
    [
        ("QUANTILE_CONT(amount, [0.25, 0.5])", ["1/4", "1/2"], Type.REAL),
        ("quantile_disc(day, [0.9])", ["9/10"], Type.INT),
        ("QUANTILE(day, ARRAY[0, 1])", ["0", "1"], Type.INT),
        ("APPROX_QUANTILE(amount, [0.5, 0.5])", ["1/2", "1/2"], Type.REAL),
        ("PERCENTILE_CONT(ARRAY[0.1, 0.2]) WITHIN GROUP (ORDER BY amount)", ["1/10", "1/5"], Type.REAL),
        ("PERCENTILE_DISC([0.1, 0.2]) WITHIN GROUP (ORDER BY day DESC)", ["9/10", "4/5"], Type.INT),
        ("APPROX_QUANTILES(day, 4)", ["0", "1/4", "1/2", "3/4", "1"], Type.INT),
        ("QUANTILE_CONT(amount, [0.25]) FILTER (WHERE day > 3)", ["1/4"], Type.REAL),
    ],
)
def test_a_list_of_shares_is_a_list_of_quantiles_of_one_tree(text: str, shares: list[str], kind: Type) -> None:
    found = asked(text)
    assert isinstance(found, ListOf) and found.type is Type.LIST
    quantiles = [q for q in found.items if isinstance(q, Quantile)]
    assert [q.p for q in quantiles] == list(map(Fraction, shares)) and {q.type for q in quantiles} == {kind}
    assert len({q.shape for q in quantiles}) == 1


def test_a_list_costs_what_its_parts_cost() -> None:
    one = planned("SELECT QUANTILE_CONT(amount, [0.25, 0.5, 0.75]) FROM visits")
    parts = planned("SELECT QUANTILE_CONT(amount, 0.25) a, MEDIAN(amount) b, QUANTILE_CONT(amount, 0.75) c FROM visits")
    assert one.identity == parts.identity and one.allocation == parts.allocation


def test_histograms_commonest_values_and_the_mode_read_one_tree() -> None:
    alone = planned("SELECT MODE(region) FROM visits")
    all_of_them = planned("SELECT HISTOGRAM(region), APPROX_TOP_K(region, 2), MODE(region) FROM visits")
    assert alone.identity == all_of_them.identity and len(all_of_them.trees) == 1
    assert isinstance(asked("HISTOGRAM(region)"), Histogram)
    assert asked("APPROX_TOP_K(day, 3)") == Top(asked("MODE(day)").shape, 3, Type.INT)
    assert asked("APPROX_TOP_K(day, 900)").most == 7


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("HISTOGRAM(day, [5, 2, 5])", (2, 5, math.inf)),
        ("HISTOGRAM(day, [2, 7])", (2, 7)),
        ("HISTOGRAM(day, range(0, 10, 5))", (0, 5, math.inf)),
        ("HISTOGRAM(day, generate_series(0, 10, 5))", (0, 5, 10)),
        ("HISTOGRAM(day, [1.5])", (1.5, math.inf)),
        ("HISTOGRAM(amount, [-1, 10, 20])", (-1.0, 10.0, 20.0, math.inf)),
        ("HISTOGRAM(user_id, [3])", (3, math.inf)),
        ("HISTOGRAM(amount, [200])", (200.0,)),
    ],
)
def test_bins_are_called_by_their_upper_ends(text: str, keys: tuple[Any, ...]) -> None:
    assert asked(text).shape.listed == keys


NO_PARTS = "Nothing is made of a result that holds several values: it is a column as it stands."
NO_ENDS = "HISTOGRAM takes the ends of its bins as a list of 1 to 200 constants."
NO_COUNT = "APPROX_TOP_K needs how many values to show, a whole number from 1 to 1,000."
OTHER_KIND = "HISTOGRAM with bins needs numbers, or dates and times, and ends of the same kind."


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("HISTOGRAM(amount)", UnsupportedQuery, "HISTOGRAM needs values that can be counted one by one."),
        ("HISTOGRAM(user_id)", MissingBounds, None),
        ("HISTOGRAM(day * 1000)", UnsupportedQuery,
         "HISTOGRAM shows at most 1,000 values; the declared range has 6,001."),
        ("HISTOGRAM(*)", UnsupportedQuery, "HISTOGRAM needs one value, and the ends of its bins or none."),
        ("HISTOGRAM(DISTINCT day)", UnsupportedQuery, "HISTOGRAM needs one value, and the ends of its bins or none."),
        ("HISTOGRAM(day, [])", UnsupportedQuery, NO_ENDS),
        ("HISTOGRAM(day, [day])", UnsupportedQuery, NO_ENDS),
        ("HISTOGRAM(day, [NULL])", UnsupportedQuery, NO_ENDS),
        ("HISTOGRAM(day, [1/0])", UnsupportedQuery, NO_ENDS),
        ("HISTOGRAM(day, 3)", UnsupportedQuery, NO_ENDS),
        ("HISTOGRAM(day, range(0, 1000, 1))", UnsupportedQuery, NO_ENDS),
        ("HISTOGRAM(day, range(0, 10, 0))", UnsupportedQuery, NO_ENDS),
        ("HISTOGRAM(region, ['a'])", UnsupportedQuery, OTHER_KIND),
        ("HISTOGRAM(day, [DATE '2020-01-01'])", UnsupportedQuery, OTHER_KIND),
        ("HISTOGRAM(flag, [TRUE])", UnsupportedQuery, OTHER_KIND),
        ("APPROX_TOP_K(amount, 3)", UnsupportedQuery, "APPROX_TOP_K needs values that can be counted one by one."),
        ("APPROX_TOP_K(region)", UnsupportedQuery, NO_COUNT),
        ("APPROX_TOP_K(region, 0)", UnsupportedQuery, NO_COUNT),
        ("APPROX_TOP_K(region, 2.5)", UnsupportedQuery, NO_COUNT),
        ("APPROX_TOP_K(region, day)", UnsupportedQuery, NO_COUNT),
        ("APPROX_TOP_K(*, 3)", UnsupportedQuery, "APPROX_TOP_K needs one value."),
        ("APPROX_QUANTILES(amount, 0)", UnsupportedQuery,
         "APPROX_QUANTILES needs a whole number of parts, from 1 to 99."),
        ("QUANTILE_CONT(amount, [0.5, 2])", UnsupportedQuery,
         "QUANTILE_CONT needs a share between 0 and 1, as a number."),
        ("QUANTILE_CONT(amount, [day])", UnsupportedQuery,
         "QUANTILE_CONT needs a share between 0 and 1, as a number."),
        ("QUANTILE_CONT(amount, [0.5])[1]", UnsupportedQuery, NO_PARTS),
        ("length(APPROX_TOP_K(region, 2))", UnsupportedQuery, NO_PARTS),
        ("coalesce(HISTOGRAM(day), HISTOGRAM(day))", UnsupportedQuery, NO_PARTS),
        ("HISTOGRAM(day) IS NULL", UnsupportedQuery, NO_PARTS),
        ("STRING_AGG(region, ',')", UnsupportedQuery, "STRING_AGG would show values of single rows."),
        ("LISTAGG(region)", UnsupportedQuery, "STRING_AGG would show values of single rows."),
        ("LIST(region)", UnsupportedQuery, "LIST would show values of single rows."),
        ("ANY_VALUE(region)", UnsupportedQuery, "ANY_VALUE would show values of single rows."),
        ("MAX_BY(region, day)", UnsupportedQuery, "MAX_BY would show values of single rows."),
    ],
)  # fmt: skip
def test_what_has_no_answer_is_refused_by_name_with_a_way_round(
    text: str, error: type[DiscreetError], message: str | None
) -> None:
    with pytest.raises(error) as caught:
        asked(text)
    assert caught.value.hint and (message is None or caught.value.message == message)


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        ("ORDER BY h", "Rows are not put in order by a map."),
        ("ORDER BY 2", "Rows are not put in order by a map."),
        ("ORDER BY q", "Rows are not put in order by a list."),
        ("HAVING h", "HAVING needs a condition, not a map."),
        ("HAVING h IS NOT NULL", NO_PARTS),
    ],
)
def test_rows_are_not_chosen_or_ordered_by_several_values(tail: str, message: str) -> None:
    text = "SELECT region, HISTOGRAM(day) AS h, QUANTILE_CONT(day, [0.5]) AS q FROM visits GROUP BY region "
    with pytest.raises(UnsupportedQuery) as caught:
        planned(text + tail)
    assert caught.value.message == message and caught.value.hint


def test_totals_of_histograms_are_refused_and_their_interval_has_no_single_end() -> None:
    with pytest.raises(UnsupportedQuery, match="do not add up over groups"):
        planned("SELECT region, HISTOGRAM(day) FROM visits GROUP BY ROLLUP (region)")
    with pytest.raises(UnsupportedQuery, match="DP_INTERVAL_LOW"):
        planned("SELECT HISTOGRAM(day) AS h, DP_INTERVAL_LOW(h) AS low FROM visits")


def test_the_error_of_a_histogram_is_known_before_the_data_and_that_of_the_others_is_not() -> None:
    plan = planned("SELECT HISTOGRAM(day) AS h, APPROX_TOP_K(day, 2) AS k, QUANTILE_CONT(day, [0.5]) AS q FROM visits")
    place = [s.shape for s in plan.question.trees].index(asked("MODE(day)").shape)
    noise = plan.allocation.trees[place]
    assert isinstance(noise, DiscreteLaplaceNoise)
    assert plan.error("h") == noise.quantile(Fraction(19, 20)) / (1 << 20) + 0.5
    assert "h: ±" in str(alone(plan, "p"))
    for column in ("k", "q"):
        with pytest.raises(InvalidParameter, match="depends on how the values lie"):
            plan.error(column)


# --- what the database counts


BINS = "SELECT region, HISTOGRAM(v, [1, 2.5, 4]) FROM t GROUP BY region"


@pytest.mark.parametrize("text", ["SELECT HISTOGRAM(v, [1, 2.5, 4]) FROM t", "SELECT HISTOGRAM(x, [1, 2]) FROM t"])
def test_bins_hold_what_duckdb_counts(text: str) -> None:
    values = [-1.0, 0.0, 1.0, 1.5, 2.5, 2.75, 4.0, 4.5, 99.0, None]
    rows: list[Row] = [{"uid": 0, "region": "a", "v": v, "x": None if v is None else int(v)} for v in values]
    plan = small(text, ROW, Relation.ADD_REMOVE)
    listed = plan.question.trees[0].shape.listed
    assert listed is not None
    found = {k: leaves(plan, rows)[()].get(i, 0) for i, k in enumerate(listed)}
    ENGINE.fill(rows, SCHEMA)
    ((duckdb,),) = ENGINE.run(text)
    named = {math.inf if k == (1 << 63) - 1 else k: n for k, n in duckdb.items()}
    assert found == named and sum(found.values()) == len(values) - 1


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("text", [BINS, "SELECT HISTOGRAM(x) FROM t", "SELECT APPROX_TOP_K(x, 2) FROM t"])
def test_no_unit_moves_a_histogram_further_than_planned(text: str, relation: Relation) -> None:
    plan = small(text, ONE, relation)
    allowed, found = plan.trees[0][0], norms(level_moves(plan, SHORT, relation, 0))
    assert found[2] <= allowed.l1 and found[3] <= allowed.l2_squared and found[1] == allowed.linf


def test_a_heavier_row_in_a_bin_is_refused_by_the_second_reader() -> None:
    from dataclasses import replace

    from discreet.errors import InternalError

    plan = small(BINS, ONE, Relation.ADD_REMOVE)
    ((moves, text),) = plan.trees
    for old, new in (("2097152 // greatest", "4194304 // greatest"), ("sum(w.w)", "count(*) * sum(w.w)")):
        assert old in text
        with pytest.raises(InternalError):
            check(plan.sql, replace(plan, trees=((moves, text.replace(old, new)),)))


# --- what is read of noisy leaves


def flat(weights: Mapping[int, int], noise: tuple[int, ...], scale: int = 2) -> NoisyTree:
    """A tree of one level whose leaves have this noise."""
    shape = shape_of(len(noise), len(noise), 1)
    return given(shape, weights, DiscreteLaplaceNoise(Fraction(scale)), lambda _level, _place, i: noise[i])


def shown(node: Any, tree: NoisyTree, *given: Any) -> Any:
    """The value of a node that reads a tree."""
    return node(tree.shape, *given).compiled()((), [{tree.shape: tree}])


def intervals(node: Any, tree: NoisyTree, confidence: Fraction, *given: Any) -> Any:
    """Its interval."""
    return node(tree.shape, *given).interval([], confidence)((), [{tree.shape: tree}])


def test_the_intervals_of_commonest_values_hold_them_whatever_noise_there_is_within_its_quantile() -> None:
    confidence = Fraction(19, 20)
    for weights in ((5, 3, 9, 0), (4, 4, 4, 4), (0, 0, 0, 0), (1, 9, 8, 8)):
        t = DiscreteLaplaceNoise(Fraction(1)).quantile(1 - (1 - confidence) / 4)
        for noise in itertools.product((-t, 0, t), repeat=4):
            tree = flat(dict(enumerate(weights)), noise, 1)
            found = intervals(Top, tree, confidence, 3, Type.INT)
            values = shown(Top, tree, 3, Type.INT)
            for order in itertools.permutations(range(4)):  # each order in which ties may be broken
                if [weights[i] for i in order] == sorted(weights, reverse=True):
                    assert all(e is not None and e[0] <= i <= e[1] for i, e in zip(order, found, strict=False))
            assert all(e is not None and e[0] <= v <= e[1] for v, e in zip(values, found, strict=True))


def test_noise_beyond_its_quantile_can_hide_the_commonest_value() -> None:
    t = DiscreteLaplaceNoise(Fraction(1)).quantile(1 - Fraction(1, 80))
    (found,) = intervals(Top, flat({0: 5}, (-3 * t, 0, 0, 2 * t), 1), Fraction(19, 20), 1, Type.INT)
    assert found is not None and found[0] > 0


def test_counts_are_noisy_weights_and_their_intervals_have_the_quantile_of_one_noise() -> None:
    tree = flat({0: 7, 2: 3}, (1, -4, 0))
    assert shown(Histogram, tree, Type.INT) == {0: 8, 1: -4, 2: 3}
    t = tree.noise.quantile(Fraction(9, 10))
    assert intervals(Histogram, tree, Fraction(9, 10), Type.INT) == {
        0: (8 - t, 8 + t), 1: (-4 - t, -4 + t), 2: (3 - t, 3 + t)
    }  # fmt: skip
    assert shown(Top, tree, 2, Type.INT) == [0, 2]
    assert intervals(Top, tree, Fraction(1, 2), 2, Type.TEXT) == [None, None]


# --- end to end

N = 6_000
RNG = np.random.default_rng(5)
FRAME = pd.DataFrame(
    {
        "user_id": np.arange(N) // 3,
        "region": RNG.choice(["north", "south", "east"], N, p=[0.5, 0.3, 0.2]),
        "day": RNG.choice(np.arange(1, 8), N, p=[0.3, 0.25, 0.15, 0.12, 0.1, 0.05, 0.03]),
        "amount": np.minimum(RNG.gamma(2.0, 20.0, N), 190.0),
    }
)
FACTS: dict[str, Fact] = {
    "region": Values("north", "south", "east", "west"),
    "day": Range(1, 7, integer=True),
    "amount": Range(0, 200),
}
QUESTION = """SELECT region, HISTOGRAM(day) AS h, APPROX_TOP_K(day, 3) AS k,
    QUANTILE_CONT(amount, [0.25, 0.5, 0.75]) AS q, HISTOGRAM(amount, [20, 50]) AS b, COUNT(*) AS n
    FROM visits GROUP BY region"""


def opened(unit: PrivacyUnit | None = None) -> Session:
    return dp.connect(
        {"visits": FRAME},
        unit=unit or PrivacyUnit("user_id", max_groups=3, max_rows=3),
        columns=FACTS,
        budget=dp.Budget(10**9, "0.1", per_query=10**8),
        ledger=":memory:",
    )


@pytest.mark.parametrize("unit", [None, PrivacyUnit.row()], ids=["people", "rows"])
def test_with_hardly_any_noise_the_answers_are_those_of_pandas(unit: PrivacyUnit | None) -> None:
    with opened(unit) as s:
        r = s.sql(QUESTION, epsilon=10**7)
    for region, h, k, q, b, n in r.rows:
        x = FRAME[FRAME.region == region]
        assert n == len(x)
        assert h == {d: int((x.day == d).sum()) for d in range(1, 8)}
        assert b == {
            20.0: int((x.amount <= 20).sum()),
            50.0: int(((x.amount > 20) & (x.amount <= 50)).sum()),
            math.inf: int((x.amount > 50).sum()),
        }
        if n:
            assert k == [d for d, _ in Counter(x.day.tolist()).most_common(3)]
            assert q == pytest.approx(np.quantile(x.amount, [0.25, 0.5, 0.75]), abs=0.5)
            assert q == sorted(q)


def test_intervals_have_the_shape_of_the_answers_and_hold_them() -> None:
    with opened() as s:
        r = s.sql(QUESTION, epsilon=1)
        for name, place in (("k", 2), ("q", 3)):
            for row, ends in zip(r.rows, r.interval(name), strict=True):
                assert all(low <= v <= high for v, (low, high) in zip(row[place], ends, strict=True))
        for name, place in (("h", 1), ("b", 4)):
            for row, ends in zip(r.rows, r.interval(name, "0.5"), strict=True):
                assert list(ends) == list(row[place])
                assert all(low - 0.5 <= row[place][v] <= high + 0.5 for v, (low, high) in ends.items())
        narrow, wide = (r.interval("h", c)[0][1] for c in ("0.5", "0.99"))
        assert wide[0] < narrow[0] < narrow[1] < wide[1]
        again = s.sql(QUESTION, epsilon=1)
        assert again.stored and again.rows == r.rows


@pytest.mark.slow
def test_intervals_of_counts_and_commonest_values_hold_them_as_often_as_they_say() -> None:
    truth = Counter(FRAME.day.tolist())
    best = [d for d, _ in truth.most_common(3)]
    hits = tops = narrow = 0
    runs = 300
    with opened(PrivacyUnit.row()) as s:
        for _ in range(runs):
            r = s.sql("SELECT HISTOGRAM(day) AS h, APPROX_TOP_K(day, 3) AS k FROM visits", epsilon="0.02", fresh=True)
            counts, values = r.interval("h")[0], r.interval("k")[0]
            hits += counts[3][0] <= truth[3] <= counts[3][1]
            half = r.interval("h", "0.5")[0]
            narrow += half[3][0] <= truth[3] <= half[3][1]
            tops += all(low <= d <= high for d, (low, high) in zip(best, values, strict=True))
    assert covers(hits, runs, 0.95) and covers(tops, runs, 0.95)
    assert hits < runs and not covers(narrow, runs, 0.95)


def test_other_frames_have_lists_and_maps_of_their_own() -> None:
    import pyarrow as pa

    with opened() as s:
        r = s.sql(QUESTION, epsilon=1)
    arrow, polars, pandas = r.to_arrow(), r.to_polars(), r.to_pandas()
    assert arrow.schema.field("h").type == pa.map_(pa.int64(), pa.int64())
    assert arrow.schema.field("b").type == pa.map_(pa.float64(), pa.int64())
    assert arrow.schema.field("q").type == pa.list_(pa.float64())
    for i, row in enumerate(r.rows):
        assert dict(arrow["h"][i].as_py()) == row[1] == pandas["h"][i]
        assert arrow["k"][i].as_py() == row[2] == pandas["k"][i] == polars["k"][i].to_list()
        assert {p["key"]: p["value"] for p in polars["h"][i]} == row[1]


def test_the_printed_table_shows_each_value_with_its_own_interval() -> None:
    with opened() as s:
        text = str(s.sql("SELECT HISTOGRAM(region) AS h, APPROX_TOP_K(region, 2) AS k FROM visits", epsilon=1))
    assert "{east=" in text and " ± " in text.splitlines()[2] and "[north, south]" in text


def test_the_bin_above_the_last_end_of_whole_numbers_has_a_name_that_people_read() -> None:
    with opened() as s:
        r = s.sql(f"SELECT HISTOGRAM(day, [2, 4]) AS h, HISTOGRAM(user_id, [{2**60}]) AS i FROM visits", epsilon=1)
        assert [list(h) for h in r.rows[0]] == [[2, 4, math.inf], [2**60, math.inf]]
        assert [list(r.interval(name)[0]) for name in ("h", "i")] == [list(h) for h in r.rows[0]]
        assert "∞=" in str(r) and "9223372036854775807" not in (str(r) + repr(r.rows)).replace(",", "")
        assert [dict(r.to_arrow()[name][0].as_py()) for name in ("h", "i")] == list(r.rows[0])
        assert r.to_pandas()["h"][0] == r.rows[0][0]


def test_a_batch_answers_them_as_a_question_alone_does() -> None:
    with opened() as s:
        both = s.batch({"a": QUESTION, "b": "SELECT region, MODE(day) AS d FROM visits GROUP BY region"}, epsilon=10**7)
        assert [row[1] for row in both["b"].rows][:3] == [row[2][0] for row in both["a"].rows][:3]
        alone = s.sql(QUESTION, epsilon=10**7)
        assert [row[1] for row in both["a"].rows] == [row[1] for row in alone.rows]
