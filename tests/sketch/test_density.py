"""What one row changes, what noise there is, what it costs, and that answers are near the truth."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import discreet as dp
from discreet.errors import InvalidParameter
from discreet.noise.entropy import SystemEntropy
from discreet.sketch import DensitySketch, SketchClassifier
from tests.coverage import covers
from tests.noise.chi_square import accepts

SILENT = 10**12  # an ε at which noise is 0, but for a chance of exp(−1e9)


def sketch(**given: Any) -> DensitySketch:
    return DensitySketch(**{"epsilon": 1, "dimension": 2, "bandwidth": "0.25", "repetitions": 20, **given})


def exact_counts(made: DensitySketch, worlds: list[NDArray[np.float64]]) -> list[NDArray[np.int64]]:
    """The counts of several tables under the same hash functions, without noise."""
    drawn = made.counting.family.draw(SystemEntropy())
    return [made.counting.counted(drawn, rows, None, SystemEntropy()) for rows in worlds]


HOSTILE = np.array([[math.nan, math.inf], [1e308, -1e308], [0.0, 1.0], [-5.0, 0.5], [5e-324, math.nan]])


def test_a_row_more_is_one_more_in_each_repetition_whatever_it_holds() -> None:
    made = sketch(epsilon=SILENT)
    rows = np.random.default_rng(3).uniform(0, 1, (101, 2))
    for extra in HOSTILE:
        for place in (0, 50, 101):
            more = np.insert(rows, place, extra, axis=0)
            a, b = exact_counts(made, [rows, more])
            change = b - a
            assert change.min() >= 0 and (change.sum(axis=2) == 1).all() and change.max() == 1
    assert made.counting.sensitivity.l1 == 20


def test_a_replaced_row_moves_at_most_one_count_to_another_in_each_repetition() -> None:
    made = sketch(epsilon=SILENT, relation="replace")
    rows = np.random.default_rng(4).uniform(0, 1, (50, 2))
    for other in HOSTILE:
        changed = rows.copy()
        changed[7] = other
        a, b = exact_counts(made, [rows, changed])
        assert (np.abs(b - a).sum(axis=2) <= 2).all() and ((b - a).sum(axis=2) == 0).all()
    assert (made.counting.sensitivity.l1, made.counting.sensitivity.l2_squared) == (40, 40)


def test_counts_get_the_noise_of_all_repetitions_and_no_less() -> None:
    made = sketch(repetitions=10, buckets=4096, epsilon=2)
    drawn = made.fit(np.empty((0, 2))).counts.reshape(-1)
    k = np.arange(-400, 401)
    for scale, right in ((5.0, True), (5.4, False), (4.6, False)):
        mass = np.exp(-np.abs(k) / scale)
        assert accepts((drawn + 400).tolist(), (mass / mass.sum()).tolist()) is right


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_laplace_noise_costs_its_epsilon_exactly(relation: str) -> None:
    made = sketch(epsilon="0.3", repetitions=7, relation=relation)
    assert made.loss.pure == Fraction(3, 10)
    assert made.loss.epsilon(1e-6) <= 0.3
    rows = 7 if relation == "add-remove" else 14
    assert made.counting.noise.variance == pytest.approx(2 * math.exp(-0.3 / rows) / (1 - math.exp(-0.3 / rows)) ** 2)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_gaussian_noise_costs_epsilon_and_delta(relation: str) -> None:
    made = sketch(epsilon="0.7", delta="1e-6", repetitions=50, relation=relation)
    assert made.loss.guarantee(Fraction(1, 10**6)).epsilon <= Fraction(7, 10)
    moved = 50 if relation == "add-remove" else 100
    with mp.workdps(40):  # Balle, Wang 2018, Theorem 8
        sigma = mp.mpf(made.counting.noise.sigma.numerator) / made.counting.noise.sigma.denominator  # type: ignore[attr-defined]
        mu, e = mp.sqrt(moved) / sigma, mp.mpf("0.7")
        delta = mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)
        assert mp.mpf("0.999e-6") < delta <= mp.mpf("1e-6")


def test_scores_stay_within_their_error_of_the_exact_kernel_sum() -> None:
    n, w = 1_000, 0.25
    rows = np.repeat([[0.2, 0.5]], n, axis=0)
    rows[: n // 2] = [0.8, 0.5]
    points = np.array([[0.2, 0.5], [0.3, 0.5], [0.5, 0.5], [0.5, 0.9]])
    made = sketch(epsilon=2, repetitions=1_500)
    found = made.fit(rows)
    wide = made.error(1 - 1e-10, rows=n)

    def kernel_sum(width: float) -> NDArray[np.float64]:
        other = sketch(bandwidth=str(width))
        distance = np.sqrt(((points[:, None] - rows[None]) ** 2).sum(axis=2))
        return np.asarray(other.kernel(distance).sum(axis=1))

    off = np.abs(found.score(points) - kernel_sum(w))
    assert (off < wide).all()
    assert (np.abs(found.score(points) - kernel_sum(4 * w)) > wide).any()
    assert found.rows == pytest.approx(n, abs=8 * math.sqrt(2 * 256 * 1_500) / 2)
    noisy = max(found.rows, 1.0)  # one table of a hundred seems to have no row
    assert found.density(points) == pytest.approx(np.clip(found.score(points) / noisy, 0, 1))


def test_the_error_of_the_noise_covers_at_its_rate() -> None:
    made = sketch(repetitions=100, buckets=1024, bandwidth=Fraction(1, 4096))
    points = np.random.default_rng(5).uniform(0, 1, (3_000, 2))  # in buckets of their own, nearly
    scores = made.fit(np.empty((0, 2))).score(points)
    inside, narrow = ((np.abs(scores) <= part * made.error(0.9)).mean() for part in (1, 0.7))
    runs = 1_500  # as many independent ones vary as much
    assert covers(inside * runs, runs, 0.9) and inside < 0.95
    assert not covers(narrow * runs, runs, 0.9)


@pytest.mark.parametrize(
    ("epsilon", "repetitions", "buckets", "confidence"),
    [(5, 1, 256, 0.95), (20, 10, 64, 0.5), (100, 20, 16, 0.95), (1, 3, 2, 0.5), (1, 20, 2, 0.95)],
)
def test_the_error_covers_also_where_most_noise_is_zero_or_buckets_are_few(
    epsilon: int, repetitions: int, buckets: int, confidence: float
) -> None:
    n = 300_000 // (repetitions * buckets) + 4_000
    made = sketch(epsilon=epsilon, repetitions=repetitions, buckets=buckets)
    drawn = made.counting.noise.draw(n * repetitions * buckets, SystemEntropy())
    z = drawn.astype(float).reshape(n, repetitions, buckets)
    moved = np.abs((z[:, :, 0].mean(axis=1) - z.mean(axis=(1, 2))) / (1 - 1 / buckets))
    wide = made.error(confidence)
    assert covers((moved <= wide).sum(), n, confidence)
    assert covers((moved > 0.8 * wide).sum(), n, 1 - confidence)  # and hardly wider than it must be
    assert not covers((moved <= wide / 2).sum(), n, confidence)


def test_a_doubt_of_almost_nothing_has_a_finite_width() -> None:
    wide = [sketch().error(1 - Fraction(1, 10**k)) for k in (3, 8, 10, 14)]
    assert wide == sorted(wide) and wide[-1] < 100 * wide[0]


def test_near_points_score_more_than_far_ones_also_by_angle() -> None:
    rows = np.repeat([[1.0, 0.1, 0.0]], 2_000, axis=0)
    made = DensitySketch(epsilon=1, dimension=3, ranges=(-1, 1), kernel="angular", power=4, repetitions=100)
    near, far = made.fit(rows).score(np.array([[0.5, 0.0, 0.0], [-1.0, 0.0, 0.0]]))
    assert near > 1_000 > 500 > far


def test_classes_are_told_apart_and_strange_labels_are_in_none() -> None:
    centres = {"a": [0.2, 0.2], "b": [0.8, 0.2], "c": [0.5, 0.9]}
    rng = np.random.default_rng(6)
    labels = [name for name in centres for _ in range(700)]
    rows = np.clip(np.array([centres[name] for name in labels]) + rng.normal(0, 0.03, (2_100, 2)), 0, 1)
    made = SketchClassifier(epsilon=1, classes=list(centres), dimension=2, bandwidth="0.25", repetitions=100)
    strange: list[Any] = [None, 3, "d", math.nan, ["a"], True]
    found = made.fit(np.vstack([rows, np.full((6, 2), 0.5)]), labels + strange)
    assert found.predict(np.array(list(centres.values()))) == list(centres)
    silent = SketchClassifier(epsilon=SILENT, classes=list(centres), dimension=2, bandwidth="0.25")
    held = silent.fit(np.vstack([rows, np.full((6, 2), 0.5)]), labels + strange)
    assert held.rows == {"a": 700, "b": 700, "c": 700}
    assert (held.counts.sum(axis=2) == 700).all()
    numbers = SketchClassifier(epsilon=SILENT, classes=range(3), dimension=2, bandwidth="0.25")
    assert numbers.fit(rows, np.repeat([2, 0, 7], 700).astype(np.uint8)).rows == {0: 700, 1: 0, 2: 700}


def test_a_missing_label_that_makes_floats_of_the_others_moves_no_other_row() -> None:
    made = SketchClassifier(epsilon=SILENT, classes=[0, 1], dimension=2, bandwidth="0.25")
    rows = np.random.default_rng(8).uniform(0, 1, (5, 2))
    whole = pd.Series([0, 1, 1, 0, 1])
    given: list[Any] = [whole, whole.to_numpy()]
    for labels in given:
        assert made.fit(rows, labels).rows == {0: 2, 1: 3}
    missing = pd.Series([0, 1, 1, 0, None])
    given = [missing, missing.to_numpy(), [0.0, 1.0, 1, 0.0, 0.5]]
    for labels in given:
        assert made.fit(rows, labels).rows == {0: 2, 1: 2}


def test_a_relabelled_row_moves_at_most_two_counts_in_each_repetition() -> None:
    made = SketchClassifier(
        epsilon=SILENT, classes=["a", "b"], dimension=2, bandwidth="0.25", repetitions=20, relation="replace"
    )
    drawn = made.counting.family.draw(SystemEntropy())
    rows, parts = np.random.default_rng(7).uniform(0, 1, (30, 2)), np.arange(30) % 3 - 1
    a = made.counting.counted(drawn, rows, parts, SystemEntropy())
    for label in (-1, 0, 1):
        other = parts.copy()
        other[4] = label
        b = made.counting.counted(drawn, rows, other, SystemEntropy())
        assert np.abs(b - a).sum() <= 2 * 20 == made.counting.sensitivity.l1


def test_explain_has_the_numbers_and_the_neighbours() -> None:
    text = sketch(epsilon="0.5", repetitions=30, relation="replace").explain()
    assert text.splitlines()[0].startswith("DensitySketch(epsilon=0.5, dimension=2, kernel='l2', bandwidth=0.25")
    assert "at most 60 in ℓ1" in text and "Neighbours: replace" in text and "b = 60/ε = 120" in text
    gaussian = SketchClassifier(epsilon=1, delta="1e-6", classes=["a", "b"], dimension=1, bandwidth=1)
    assert "(1, 1e-06)-DP" in gaussian.explain() and "2 disjoint sketches" in gaussian.explain()


BAD: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": 0}, "epsilon"),
    ({"epsilon": math.nan}, "epsilon"),
    ({"delta": 1}, "delta"),
    ({"delta": -1}, "delta"),
    ({"dimension": 0}, "dimension"),
    ({"dimension": True}, "dimension"),
    ({"dimension": 10**6}, "at most 65,536"),
    ({"ranges": (1, 1)}, "lower to a higher"),
    ({"ranges": (0, math.inf)}, "ranges"),
    ({"ranges": (1, Fraction(10**30 + 1, 10**30))}, "lower to a higher"),
    ({"ranges": (0, Fraction(10**350))}, "finite"),
    ({"ranges": (0, 1, 2)}, "one pair for each of 2"),
    ({"ranges": [(0, 1)] * 3}, "one pair for each of 2"),
    ({"ranges": "01"}, "pair"),
    ({"ranges": ((0, 1), "01")}, "pair of numbers"),
    ({"kernel": "rbf"}, "kernel must be"),
    ({"bandwidth": None}, "needs a bandwidth"),
    ({"kernel": "angular"}, "no bandwidth"),
    ({"bandwidth": 0}, "bandwidth"),
    ({"bandwidth": "1e-12"}, "bandwidth must lie"),
    ({"bandwidth": 10**6}, "bandwidth must lie"),
    ({"power": 0}, "power"),
    ({"repetitions": 0}, "repetitions"),
    ({"repetitions": 1 << 21}, "at most 2\\^20"),
    ({"buckets": 100}, "power of two"),
    ({"buckets": 1}, "power of two"),
    ({"buckets": 1 << 26}, "counts, above"),
    ({"relation": "both"}, "relation must be"),
]


@pytest.mark.parametrize(("given", "word"), BAD, ids=str)
def test_impossible_parameters_are_refused_with_a_sentence(given: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidParameter, match=word):
        sketch(**given)


@pytest.mark.parametrize(
    "rows",
    [
        [[0.0, 1.0]],
        np.zeros(2),
        np.zeros((3, 3)),
        np.zeros((2, 2), dtype=bool),
        np.zeros((2, 2), dtype=complex),
        np.zeros((2, 2), dtype=object),
        np.ma.masked_array(np.zeros((2, 2)), mask=True),
    ],
    ids=lambda rows: f"{type(rows).__name__} {getattr(rows, 'dtype', '')} {np.shape(rows)}",
)
def test_what_is_no_table_of_numbers_is_refused_by_its_type_alone(rows: Any) -> None:
    with pytest.raises(InvalidParameter, match="rows must"):
        sketch().fit(rows)


@pytest.mark.parametrize(
    ("rows", "ranges"),
    [
        (np.array([[0x7FA00000, 0x7FA00000]], dtype=np.uint32).view(np.float32), (0, 1)),
        (np.array([[0x7FF4000000000000] * 2], dtype=np.uint64).view(np.float64), (0, 1)),
        (np.array([[5e-324, -5e-324]]), (-1e300, 1e300)),
        (np.array([[1e308, -1e308]]), (0, 5e-324)),
        (np.array([[2**64 - 1, 0]], dtype=np.uint64), (0, 1)),
    ],
    ids=["signalling 32", "signalling 64", "underflow", "overflow", "uint64"],
)
def test_no_row_makes_arithmetic_warn_or_stop(rows: NDArray[Any], ranges: tuple[float, float]) -> None:
    with np.errstate(all="raise"):
        assert sketch(ranges=ranges).fit(rows).counts.shape == (1, 20, 256)


def test_no_rows_answer_like_some_whatever_numpy_makes_of_an_empty_list() -> None:
    assert sketch().fit(np.array([])).counts.shape == (1, 20, 256)
    for classes in (["a", "b"], [0, 1]):
        made = SketchClassifier(epsilon=1, classes=classes, dimension=2, bandwidth=1)
        assert made.fit(np.array([]), np.array([])).counts.shape == (2, 200, 256)


def test_classes_and_labels_are_looked_at() -> None:
    for classes in ([], ["a"], ["a", "a"], ["a", 1], "ab", [1.5, 2.5], [True, False], [0, 2**53]):
        with pytest.raises(InvalidParameter, match="classes must be"):
            SketchClassifier(epsilon=1, classes=classes, dimension=1, bandwidth=1)  # type: ignore[arg-type]
    made = SketchClassifier(epsilon=1, classes=[0, 1], dimension=1, bandwidth=1)
    with pytest.raises(InvalidParameter, match="one label for each row"):
        made.fit(np.zeros((2, 1)), [0])
    for labels in (np.zeros(2, dtype=bool), np.zeros((2, 1), dtype=int), np.array(["0", "1"])):
        with pytest.raises(InvalidParameter, match="type of the classes"):
            made.fit(np.zeros((2, 1)), labels)


def test_the_front_door_knows_sketches() -> None:
    assert dp.sketch.DensitySketch is DensitySketch


@pytest.mark.parametrize("labels", [None, 3, True, "ab", object()], ids=lambda labels: type(labels).__name__)
def test_labels_that_are_no_list_are_refused(labels: Any) -> None:
    classifier = SketchClassifier(epsilon=1, classes=["a", "b"], dimension=1, bandwidth=0.5, repetitions=2)
    with pytest.raises(InvalidParameter, match="labels must be a list or an array") as refused:
        classifier.fit(np.zeros((2, 1)), labels)
    assert refused.value.hint
