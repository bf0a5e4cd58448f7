"""Values and reports that nobody thought of: no value is refused, and no tuple is more than one report."""

from __future__ import annotations

import threading
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from discreet.errors import InvalidParameter
from discreet.local import (
    CountMeanSketch,
    DeviceBudget,
    Domain,
    Duchi,
    HadamardSketch,
    HeavyHitters,
    Laplace,
    Memoised,
    Piecewise,
    PrivUnit,
    RandomizedResponse,
    Randomizer,
    Rappor,
    UnaryEncoding,
)
from discreet.local.memoised import fingerprint
from discreet.noise.entropy import Entropy

NUMBERS = [Duchi(epsilon=1), Laplace(epsilon=1), Piecewise(epsilon=1)]
VECTORS = [Duchi(epsilon=1, dimension=2), PrivUnit(epsilon=1, dimension=2)]
ANY = [
    RandomizedResponse(10, epsilon=1),
    RandomizedResponse(["a", "b"], epsilon=1),
    CountMeanSketch(epsilon=1, rows=2, width=8),
    HadamardSketch(epsilon=1, rows=2, width=8),
    HeavyHitters(epsilon=1, length=4),
    Rappor(epsilon=1),
]


def nested(depth: int) -> tuple[Any, ...]:
    value: tuple[Any, ...] = ()
    for _ in range(depth):
        value = (value,)
    return value


ODD = {
    "endless": Decimal("1e999999999999"),
    "tiny": Decimal("1e-999999999999"),
    "signalling": Decimal("sNaN"),
    "long": 10**5000,
    "long inside": (10**5000,),
    "long fraction": Fraction(10**5000, 3),
    "deep": nested(100_000),
    "missing": pd.NA,
    "least": np.int64(-(2**63)),
    "half": np.float16(1),
}


@pytest.mark.parametrize("randomizer", ANY, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("odd", ODD)
def test_no_value_is_refused(randomizer: Randomizer, odd: str) -> None:
    shape = np.shape(randomizer.randomize("a"))
    for report in (randomizer.randomize(ODD[odd]), Memoised(randomizer).randomize(ODD[odd])):
        assert np.shape(report) == shape
    assert np.shape(randomizer.randomize([ODD[odd], "a"])) == (2, *shape)


@pytest.mark.parametrize("odd", ["endless", "tiny", "signalling", "long", "long fraction", "missing", "least", "half"])
def test_no_number_is_refused(odd: str) -> None:
    for number in NUMBERS:
        assert isinstance(number.randomize(ODD[odd]), int)
        assert isinstance(Memoised(number).randomize(ODD[odd]), int)
    for vector in VECTORS:
        assert vector.randomize([ODD[odd], 0.5]).shape == (2,)
        assert Memoised(vector).randomize([ODD[odd], 0.5]).shape == (2,)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("several", [(0.9,) * 5, range(5), memoryview(bytes(5))], ids=["tuple", "range", "memory"])
def test_one_charge_pays_for_one_report(tmp_path: Path, number: Randomizer, several: Any) -> None:
    budget = DeviceBudget.create(tmp_path / "budget.json", 10)
    with pytest.raises(InvalidParameter):
        budget.randomize(number, several)
    with pytest.raises(InvalidParameter):
        Memoised(number).randomize(several)


class Numbered:
    """Randomness for which two threads wait for each other: one draws zeros, the other ones."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2)

    def bytes(self, n: int, /) -> bytes:
        return bytes([255 * self.barrier.wait(20)]) * n


def test_threads_that_draw_at_the_same_time_report_the_same_answer() -> None:
    daily, rng = Memoised(UnaryEncoding(16, epsilon=1)), Numbered()
    reports: list[Any] = []

    def day(source: Entropy = rng) -> None:
        reports.append(daily.randomize(3, rng=source).tolist())

    threads = [threading.Thread(target=day) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert reports[0] == reports[1] == daily.randomize(3).tolist()


def test_what_is_done_to_a_report_does_not_reach_what_is_kept() -> None:
    daily = Memoised(UnaryEncoding(8, epsilon=1))
    first = daily.randomize(3)
    kept = first.copy()
    first ^= 1
    assert (daily.randomize(3) == kept).all()


class Forgetful(Memoised):
    """Its file is deleted whenever nobody looks."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in ("randomize", "again", "knows"):

            def wrapped(*args: Any, **named: Any) -> Any:
                try:
                    return found(*args, **named)
                finally:
                    Path(self.path or "").unlink(missing_ok=True)

            return wrapped
        return found


def test_an_answer_that_is_gone_is_paid_for_again(tmp_path: Path) -> None:
    budget = DeviceBudget.create(tmp_path / "budget.json", 2)
    daily = Forgetful(RandomizedResponse(1000, epsilon=1), tmp_path / "answers.json")
    known = Memoised(RandomizedResponse(1000, epsilon=1), tmp_path / "answers.json")
    first = known.randomize(3)
    assert budget.randomize(daily, 3) == first
    assert budget.spent == 0
    budget.randomize(daily, 3)
    assert budget.spent == 1


@pytest.mark.parametrize("kind", [set, frozenset])
def test_a_domain_has_an_order(kind: Any) -> None:
    with pytest.raises(InvalidParameter, match="order"):
        Domain(kind(["a", "b", "c"]))
    assert Domain({"a": 1, "b": 2}.keys()).labels == ("a", "b")


def test_labels_that_numpy_wraps_are_the_labels() -> None:
    wrapped = [np.str_("a"), np.int64(3), np.float64(0.5), np.bytes_(b"b")]
    plain = ["a", 3, 0.5, b"b"]
    assert repr(Domain(wrapped)) == repr(Domain(plain))
    question, same = (RandomizedResponse(labels, epsilon=1) for labels in (wrapped, plain))
    assert fingerprint(question) == fingerprint(same)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_narrow_floats_do_not_round_the_size_of_the_domain(kind: Any) -> None:
    question = RandomizedResponse(2049, epsilon=100)
    assert question.randomize(np.array([2048, 7], dtype=kind)).tolist() == [2048, 7]
    assert RandomizedResponse(2**40, epsilon=100).randomize(np.array([2048, 7], dtype=kind)).tolist() == [2048, 7]


@pytest.mark.parametrize("value", [0.5, 7, "tree", b"tree", True, float("nan")])
def test_a_value_out_of_an_array_is_hashed_as_the_plain_one(value: Any) -> None:
    for sketch in (HadamardSketch(epsilon=1), CountMeanSketch(epsilon=1)):
        as_scalar, as_array = np.array([value])[0], np.array(value)
        assert sketch.key(value) == sketch.key(as_scalar) == sketch.key(as_array)


@pytest.mark.parametrize("place", [2**64 - 1, 2**64 - 2**60, 2**63])
def test_a_forged_report_of_a_vector_is_refused(place: int) -> None:
    vectors = PrivUnit(epsilon=4, dimension=3)
    reports = vectors.randomize(np.zeros((4, 3))).astype(np.uint64)
    for column in (0, 1):
        forged = reports.copy()
        forged[0, column] = place
        with pytest.raises(InvalidParameter):
            vectors.estimate(forged)


@pytest.mark.parametrize("reports", [[1, [1]], np.ma.array([1, 2], mask=[True, False])], ids=["ragged", "masked"])
@pytest.mark.parametrize("randomizer", [*ANY, *NUMBERS], ids=lambda r: type(r).__name__)
def test_what_is_no_array_of_reports_is_refused(randomizer: Randomizer, reports: Any) -> None:
    asked = ["a"] if isinstance(randomizer, CountMeanSketch | HadamardSketch | HeavyHitters | Rappor) else None
    with pytest.raises(InvalidParameter):
        randomizer.estimate(reports, domain=asked)


def test_a_forged_report_of_a_number_does_not_wrap() -> None:
    with pytest.raises(InvalidParameter):
        Laplace(epsilon=1).estimate(np.array([2**64 - 1, 3], dtype=np.uint64))


def test_the_nearest_shares_of_huge_estimates_are_found() -> None:
    question = RandomizedResponse(2**40, epsilon="0.000001")
    assert question.estimate([0], domain=[0, 1]).simplex().values.tolist() == [1.0, 0.0]


def test_a_sketch_is_asked_for_pairs() -> None:
    sketch = HadamardSketch(epsilon=1, rows=2, width=8)
    assert sketch.estimate([1, 2, 3], domain=[(1, 2), (3, 4)]).labels == ((1, 2), (3, 4))


def test_means_of_wide_vectors_are_exact_to_a_rounding() -> None:
    wide = Duchi(epsilon=1, low=0, high=10, dimension=2001)
    bits = np.zeros((3, 2001), dtype=np.uint8)
    bits[0, :1000] = 1
    expected = [float(5 + 10 * (Fraction(k, 3) - Fraction(1, 2)) / wide.signal) for k in (1, 0)]
    values = wide.estimate(bits).values
    assert values[[0, -1]].tolist() == pytest.approx(expected, rel=1e-14)
