"""Outputs of any type as rows of numbers and as codes."""

from __future__ import annotations

import copy
import datetime as dt
import math
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.audit.outputs.encoding import Encoded, Encoder, on_grid, step_of
from discreet.audit.outputs.sampling import Raised
from discreet.audit.outputs.tree import lowest_bit


@dataclass(frozen=True)
class Answer:
    value: float
    key: str


Pair = namedtuple("Pair", "a b")

KINDS: list[list[Any]] = [
    [1.0, 1, True, 0.0, -0.0, math.nan, math.inf, -math.inf, 10**400, None, "1.0", b"1.0", "", 1 << 70],
    [[1, 2], (1, 2), [1, 2, 3], [], [1, None], [1, [2]], [True, 2], [1.0, 2.0]],
    [{"a": 1}, {"b": 1}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": {"b": 1}}, {}],
    [{1, 2}, {1}, frozenset(), {1, 2, 3}],
    [np.array([1.0, 2.0]), np.array([1.0, 3.0]), np.array([[1.0, 2.0]]), np.array([1.0]), np.float32(2)],
    [dt.date(2020, 1, 1), dt.date(2020, 1, 2), dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.timedelta(1)],
    [Fraction(1, 3), Fraction(1, 2), Decimal("0.5"), Decimal("0.3")],
    [Answer(1.0, "a"), Answer(1.0, "b"), Answer(2.0, "a"), Pair(1, 2), Pair(1, 3)],
    [Raised("ValueError", "a"), Raised("ValueError", "b"), Raised("TypeError", "a"), 3.0],
    [pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [2, 1]}), pd.DataFrame({"b": [1, 2]})],
    [pl.DataFrame({"a": [1, 2]}), pl.DataFrame({"a": [1, 3]}), pl.DataFrame({"a": [1], "b": [2]})],
    [pa.table({"a": [1, 2]}), pa.table({"a": [1, 3]}), pa.table({"c": [1, 3]})],
]


@pytest.mark.parametrize("outputs", KINDS)
def test_codes_are_equal_where_outputs_are_and_different_where_they_differ(outputs: list[Any]) -> None:
    encoder = Encoder.learned(outputs)
    first = encoder.encode(outputs)
    again = encoder.encode(copy.deepcopy(outputs)[::-1])
    assert len(set(first.codes.tolist())) == len(outputs)
    assert np.array_equal(first.codes, again.codes[::-1])


@pytest.mark.parametrize("outputs", KINDS)
def test_every_kind_of_output_has_columns_that_tell_it_apart_and_an_example(outputs: list[Any]) -> None:
    rows = Encoder.learned(outputs).encode(outputs)
    assert rows.values.shape == (len(outputs), len(rows.names))
    assert rows.values.dtype == np.float64
    assert all(rows.examples(int(c)) for c in rows.codes)
    assert rows.examples(12345) == ""


@pytest.mark.parametrize(
    "outputs",
    [
        [[1, 2], [1, 3], [1], []],
        [{"a": 1}, {"b": 1}, {"a": 2}],
        ["x", "y", None, 3.0],
        [Raised("ValueError", "a"), Raised("ValueError", "b"), 3.0],
        [pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [2, 1]}), pd.DataFrame({"a": [1]})],
        [math.nan, 1.0, 2.0],
    ],
)
def test_values_differ_where_outputs_do(outputs: list[Any]) -> None:
    rows = Encoder.learned(outputs).encode(outputs)
    assert len({row.tobytes() for row in rows.values}) == len(outputs)


@pytest.mark.parametrize("width", [3, 9])
def test_columns_that_are_needed_are_those_of_the_whole_rows(width: int) -> None:
    values = np.random.default_rng(0).normal(size=(200, width))
    encoder = Encoder.learned(values)
    whole = encoder.encode(values)
    for needed in ({0}, {width + 1, len(whole.names) - 1}, {-1, 2}, set[int]()):
        rows = encoder.encode(values, needed=needed)
        assert rows.names == whole.names
        for j in range(len(whole.names)):
            assert np.array_equal(rows.values[:, j], whole.values[:, j] if j in needed else np.zeros(200))
        assert np.array_equal(rows.codes, whole.codes if -1 in needed else np.zeros(200))


def test_an_array_of_numbers_becomes_its_columns() -> None:
    values = np.random.default_rng(0).normal(size=(500, 3))
    rows = Encoder.learned(values).encode(values)
    assert rows.names[:3] == ("output[0]", "output[1]", "output[2]")
    assert np.array_equal(rows.values[:, :3], values)
    by_name = dict(zip(rows.names, rows.values.T, strict=True))
    assert np.allclose(by_name["sum of output"], values.sum(axis=1))
    assert np.array_equal(by_name["index of the largest of output"], values.argmax(axis=1))
    assert np.array_equal(by_name["output[2] − output[1]"], values[:, 2] - values[:, 1])


def test_lists_and_arrays_of_equal_numbers_are_encoded_alike() -> None:
    values = np.random.default_rng(0).normal(size=200)
    encoder = Encoder.learned(values)
    assert np.array_equal(encoder.encode(values).codes, encoder.encode(values.tolist()).codes)
    assert np.array_equal(encoder.encode(values).values, encoder.encode(values.tolist()).values)


def test_an_output_of_a_new_kind_is_a_row_without_numbers() -> None:
    encoder = Encoder.learned([0.5, 1.5])
    rows = encoder.encode([0.5, Raised("ValueError", "late"), [1, 2]])
    assert rows.values[0, 0] == 0.5
    assert np.isnan(rows.values[1:, 0]).all()
    assert rows.codes[0] == encoder.encode([0.5, 1.5]).codes[0]
    assert rows.examples(int(rows.codes[1])) == "raised ValueError: late"


def test_ragged_sequences_show_their_length_and_their_stop() -> None:
    outputs: list[Any] = [[False, True], [False], [True], [False, False, True]] * 10
    rows = Encoder.learned(outputs).encode(outputs)
    by_name = dict(zip(rows.names, rows.values.T, strict=True))
    assert by_name["length of output"][:4].tolist() == [2, 1, 1, 3]
    assert by_name["index of the largest of output"][[0, 2, 3]].tolist() == [1, 0, 2]
    assert np.isnan(by_name["output[1]"][1])


def test_the_lowest_bit_is_exact() -> None:
    values = [1.0, 3.0, 0.5, 0.75, 2.0**60, 5e-324, 0.1, 6.0]
    truth = []
    for v in values:
        ratio = Fraction(v)
        lowest = (ratio.numerator & -ratio.numerator).bit_length() - 1
        truth.append(lowest - (ratio.denominator.bit_length() - 1))
    assert lowest_bit(np.array(values)).tolist() == truth
    assert lowest_bit(np.array([0.0]))[0] == math.inf
    assert np.isnan(lowest_bit(np.array([math.nan, math.inf]))).all()


def test_bits_are_columns_only_where_they_are_asked_for_and_of_whole_numbers() -> None:
    values = np.random.default_rng(0).normal(size=100)
    assert Encoder.learned(values).encode(values).names == ("output", "lowest bit of output")
    (name,) = Encoder.learned(values, bits=False).encode(values).names
    assert name.startswith("output (grid 2^-")
    whole = np.arange(100.0)
    for bits in (True, False):
        rows = Encoder.learned(whole, bits=bits).encode(whole)
        assert rows.names == ("output", "lowest bit of output")
        assert np.array_equal(rows.codes, Encoder.learned(whole).encode(whole).codes)


def test_on_a_grid_the_law_stays_and_the_bits_are_lost() -> None:
    rng = np.random.default_rng(0)
    for values in (rng.laplace(0, 3, 9000), 2.0**40 + rng.normal(0, 2, 9000), rng.standard_cauchy(9000)):
        step = step_of(values)
        found = on_grid(values, step)
        near = np.abs(values) < np.quantile(np.abs(values), 0.999)
        assert np.all(np.abs(found - values)[near] <= step)
        # Each cell holds many floats, and the cells are small beside what the values vary by.
        assert np.all(np.spacing(values[near]) * 32 < step)
        assert step < np.ptp(np.quantile(values, [0.25, 0.75])) / 100
        assert np.array_equal(found, on_grid(found, step))
        near_by = np.nextafter(values, rng.choice([-np.inf, np.inf], len(values)))
        assert np.mean(found[near] != on_grid(near_by, step)[near]) < 0.05


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (0.1 + 0.2, 0.3, True),  # one number, up to its bits
        (1.0, 1.0 - 2**-53, True),
        (0.3, 0.4, False),
        (1e-300, 3e-300, False),
        (1e300, 1.0000001e300, False),
        (1e17, 1e17 + 16, True),
        (math.inf, 0.5, False),
        (math.nan, 0.5, False),
        (-math.inf, math.inf, False),
        (0.0, -0.0, True),
    ],
)
def test_two_outputs_are_one_cell_where_only_bits_tell_them_apart(one: float, other: float, same: bool) -> None:
    outputs: list[object] = [one, other, 0.5] if math.isinf(one) or one == 0 else [one, other]
    rows = Encoder.learned(outputs, bits=False).encode(outputs)
    assert (rows.codes[0] == rows.codes[1]) == same
    assert np.array_equal(rows.values[0], rows.values[1]) == same
    kept = Encoder.learned(outputs).encode(outputs)
    assert kept.codes[0] != kept.codes[1]


def test_grids_are_those_of_each_column_and_of_nothing_else() -> None:
    rng = np.random.default_rng(0)
    outputs: list[object] = [
        {"key": key, "count": int(count), "mean": mean}
        for key, count, mean in zip("ab" * 200, rng.integers(0, 99, 400), rng.normal(0, 1e-6, 400), strict=True)
    ]
    rows = Encoder.learned(outputs, bits=False).encode(outputs)
    kept = Encoder.learned(outputs).encode(outputs)
    assert [name for name in rows.names if name.endswith(")")] == ["output['mean'] (grid 2^-37)"]
    for name in ("output['count']", "output['key']", "length of output['key']"):
        column, same = (found.values[:, found.names.index(name)] for found in (rows, kept))
        assert np.array_equal(column, same)
    assert "lowest bit of output['count']" in rows.names
    assert "lowest bit of output['mean']" not in rows.names


def test_rows_are_taken_and_joined() -> None:
    encoder = Encoder.learned([1.0, 2.0, 3.0])
    rows = encoder.encode([1.0, 2.0, 3.0])
    assert rows[np.array([True, False, True])].values[:, 0].tolist() == [1, 3]
    assert rows[1:].values[:, 0].tolist() == [2, 3]
    joined = Encoded.joined([rows, encoder.encode([4.0, 5.0])])
    assert joined.values[:, 0].tolist() == [1, 2, 3, 4, 5]
    assert joined.examples(int(joined.codes[4])) == "5.0"


def test_of_a_wide_array_those_columns_are_kept_that_differ() -> None:
    random = np.random.default_rng(0)
    p, q = random.normal(size=(500, 2000)), random.normal(size=(500, 2000))
    p[:, 1234] += 3
    assert "output[1234]" in Encoder.learned(p, q).encode(p).names


def test_text_that_is_a_number_is_a_number_too() -> None:
    rows = Encoder.learned(["0.25", "1.5"]).encode(["0.25", "1.5", "x"])
    column = rows.values[:, rows.names.index("number in output")]
    assert column[:2].tolist() == [0.25, 1.5]
    assert np.isnan(column[2])


LEAVES = st.one_of(
    st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.none(), st.sampled_from([0.0, -0.0, 1, 1.0])
)
OUTPUTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner, inner), st.dictionaries(st.text(max_size=1), inner, max_size=2)
    ),
    max_leaves=6,
)


@settings(max_examples=80, deadline=None)
@given(st.lists(OUTPUTS, min_size=2, max_size=8))
def test_a_row_depends_on_its_own_output_only(outputs: list[Any]) -> None:
    encoder = Encoder.learned(outputs[: len(outputs) // 2 or 1])
    together = encoder.encode(outputs)
    for i, output in enumerate(outputs):
        alone = encoder.encode([output])
        assert alone.codes[0] == together.codes[i]
        assert np.array_equal(alone.values[0], together.values[i], equal_nan=True)
        assert alone.names == together.names


@settings(max_examples=80, deadline=None)
@given(st.lists(OUTPUTS, min_size=2, max_size=8))
def test_codes_are_equal_exactly_where_the_text_of_outputs_is(outputs: list[Any]) -> None:
    codes = Encoder.learned(outputs).encode(outputs).codes
    texts = [repr(o) for o in outputs]
    for i in range(len(outputs)):
        for j in range(i):
            assert (codes[i] == codes[j]) == (texts[i] == texts[j])


@given(st.lists(st.sampled_from([1.5, 2, True, 2**63, "a", None]), min_size=1, max_size=6))
def test_arrays_give_the_codes_of_their_entries(outputs: list[Any]) -> None:
    whole = Encoder.learned(outputs).encode(np.array(outputs, dtype=object))
    assert np.array_equal(whole.codes, Encoder.learned(outputs).encode(outputs).codes)
