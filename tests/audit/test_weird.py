"""Callables that do what nobody expects: each ends in a result or in words, never in somebody else's traceback."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import json
import math
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from discreet.audit.outputs.encoding import Encoder
from discreet.audit.outputs.identity import codes_of
from discreet.audit.outputs.sampling import Raised, Sampler
from discreet.audit.search import refute
from discreet.audit.sequential import distinguish
from discreet.errors import InvalidParameter

RANDOM = np.random.default_rng(0)


class Silent:
    def __repr__(self) -> str:
        raise ValueError("no text")


class Bare:
    def __init__(self, value: int) -> None:
        self.value = value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: int) -> None:
        self.value = value


class Panic(BaseException):
    """As compiled libraries raise."""


def contains_itself(x: object) -> Any:
    found: list[Any] = [1]
    found.append(found)
    return found


def deep(x: object) -> Any:
    found: list[Any] = [1]
    for _ in range(1500):
        found = [found]
    return found


def panics(x: object) -> int:
    if RANDOM.random() < 0.3:
        raise Panic("thread panicked")
    return 1


def cancelled(x: object) -> int:
    raise asyncio.CancelledError


def masked_array(x: object, n: int = 1) -> Any:
    return np.ma.array(RANDOM.random(n), mask=RANDOM.random(n) < 0.5)


WEIRD: list[Callable[..., Any]] = [
    contains_itself,
    deep,
    panics,
    masked_array,
    lambda x: Silent(),
    lambda x: math,
    lambda x: np.ma.masked,
    lambda x: np.timedelta64(3, "s"),
    lambda x: np.timedelta64("NaT"),
    lambda x: np.datetime64("NaT"),
    lambda x: decimal.Decimal("sNaN"),
    lambda x: dt.datetime.min,
    lambda x: object(),
    lambda x: lambda: 3,
    lambda x: {Bare(1), None, 2},
    lambda x, n=1: RANDOM.random((n, int(RANDOM.integers(1, 4)))),
    lambda x, n=1: np.zeros(n, dtype=[("a", "i4"), ("b", "f8")]),
    lambda x, n=1: RANDOM.integers(2**63, 2**64 - 1, n, dtype=np.uint64),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("mechanism", [cancelled, lambda x: 1 // 0, lambda x, n=1: x.missing])
@pytest.mark.parametrize("probes", [True, False])
def test_a_mechanism_that_raises_in_every_run_is_refused_and_not_called_consistent(
    mechanism: Callable[..., Any], probes: bool
) -> None:
    audits: list[Callable[[], object]] = [
        lambda: distinguish(mechanism, [0], [1], 1, samples=60, probes=probes, name="mine"),
        lambda: refute(mechanism, [([0], [1]), ([2], [3])], 1, samples=60, probes=probes, name="mine"),
    ]
    for run in audits:
        with pytest.raises(InvalidParameter, match="mine raised an exception in every run") as refused:
            run()
        assert "call it once" in refused.value.hint


def test_exceptions_that_tell_the_neighbours_apart_are_a_violation() -> None:
    def late(x: list[int]) -> int:
        return 1 // x[0]

    def other(x: list[int]) -> int:
        raise ValueError if x[0] else TypeError

    for mechanism in (late, other):
        assert distinguish(mechanism, [0], [1], 1, samples=400).violated
        assert refute(mechanism, [([0], [1])], 1, samples=400).violated


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("mechanism", WEIRD)
def test_any_output_ends_in_a_report(mechanism: Callable[..., Any]) -> None:
    audit = distinguish(mechanism, [0], [1], claimed=1, samples=60)
    assert not audit.violated
    assert str(audit)
    assert json.dumps(audit.to_json(), allow_nan=False)
    assert "<html" in audit.to_html()


@pytest.mark.parametrize("made", [Bare, Slotted, lambda v: SimpleNamespace(value=v)])
def test_objects_are_what_they_hold_and_not_where_they_are(made: Callable[[int], Any]) -> None:
    outputs = [made(1), made(2), made(1)]
    codes = codes_of(outputs)
    assert codes[0] == codes[2] != codes[1]
    rows = Encoder.learned(outputs).encode(outputs)
    assert "0x" not in rows.examples(int(codes[0]))
    assert len({row.tobytes() for row in rows.values}) == 2


def test_places_in_memory_are_no_outputs() -> None:
    def mechanism(x: int) -> Any:
        raise ValueError(f"cannot use {object()!r}")

    batch = Sampler(mechanism, 0).draw(3)
    assert batch == [Raised("ValueError", "cannot use <object object>")] * 3
    assert len(set(codes_of([object(), object(), object()]).tolist())) == 1


def test_numbers_of_numpy_count_by_value_and_those_of_python_by_type_too() -> None:
    whole = np.arange(-5, 6)
    assert np.array_equal(codes_of(whole), codes_of(whole.astype(float)))
    assert np.array_equal(codes_of(whole), codes_of(list(whole.astype(np.float32))))
    assert np.array_equal(codes_of(np.array([True, False])), codes_of(np.array([1, 0])))
    assert len(set(codes_of([1, 1.0, True]).tolist())) == 3
    large = np.array([2**63 - 1, 2**63 - 2, 2**53 + 1, -(2**53) - 1])
    assert len(set(codes_of(large).tolist())) == 4
    unsigned = np.array([2**64 - 1, 2**64 - 2, 2, 1], dtype=np.uint64)
    assert len(set(codes_of(unsigned).tolist())) == 4


PLAIN: list[dict[Any, Any]] = [
    {"a": 1, "b": 2},
    {"b": 2, "a": 1},
    {},
    {1: None, "x": True},
    {"a": b"t", "b": "t"},
    {"a": 2**70, "b": 2},
]


def test_dictionaries_have_the_same_codes_in_any_company() -> None:
    together = codes_of(list(PLAIN))
    for strange in ({"a": 1.5}, {"a": [1]}, {(1, 2): 3}, "text", None, {"a": float("nan")}):
        assert np.array_equal(codes_of([*PLAIN, strange])[:-1], together)
    assert np.array_equal(np.concatenate([codes_of([one]) for one in PLAIN]), together)
    assert len(set(together.tolist())) == len(PLAIN)


def test_dictionaries_have_the_same_columns_in_any_company() -> None:
    alike: list[object] = [{"a": 1, "b": 2}, {"b": 3, "a": 1}, {"a": 2}, {}]
    encoder = Encoder.learned(alike)
    rows = encoder.encode(alike).values
    for strange in ({1: 2}, "text", OrderedDict(a=7)):
        assert np.array_equal(encoder.encode([*alike, strange]).values[:-1], rows, equal_nan=True)
    assert np.array_equal(
        encoder.encode([OrderedDict(m) for m in alike if isinstance(m, dict)]).values, rows, equal_nan=True
    )


@pytest.mark.parametrize("buffers", [1, 2, 5])
def test_outputs_that_the_mechanism_writes_again_are_copied(buffers: int) -> None:
    ring = [np.zeros(2) for _ in range(buffers)]
    turn = iter(range(10**9))

    def mechanism(x: int) -> Any:
        found = ring[next(turn) % buffers]
        found[:] = RANDOM.random(2)
        return found[:1]

    sampler = Sampler(mechanism, 0)
    assert len({float(o[0]) for o in sampler.draw(50)}) == 50  # type: ignore[index]
    assert any("each output was copied" in note for note in sampler.notes)


@pytest.mark.parametrize("wrong", [{"seconds": "a"}, {"error": "x"}, {"error": None}, {"until": ["end"]}])
def test_arguments_of_the_wrong_type_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        distinguish(lambda x: 1, 0, 1, claimed=1, samples=10, **wrong)
