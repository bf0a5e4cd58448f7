"""Implementation slips: mechanisms whose claim is false, as they are found in real code.

Those with a second argument give n samples at once; the others are plain Python, one call a sample. Noise is rounded to
a grid (see `case.py`) unless floats are the slip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from benchmarks.zoo.case import GRID, Case, Floats, exponential, laplace, on_grid, own
from discreet import Budget
from discreet.audit.neighbours import Datasets, Numbers, Vectors

Rows = Sequence[float]
Vector = NDArray[np.float64]
Integers = NDArray[np.int64]


def sensitivity_forgotten(rows: Rows, n: int) -> Floats:
    return on_grid(sum(min(max(r, 0.0), 3.0) for r in rows)) + laplace(1.0, n)


def half_the_sensitivity(rows: Rows, n: int) -> Floats:
    """Values are −1 or 1: replacing one moves the sum by 2, and the scale is that of 1."""
    return on_grid(sum(rows)) + laplace(1.0, n)


def epsilon_squared(x: float, n: int) -> Floats:
    return on_grid(x) + laplace(1 / 2.0**2, n)


def epsilon_for_scale(x: float, n: int) -> Floats:
    return on_grid(x) + laplace(0.5, n)


def classical_gaussian(x: float, n: int) -> Floats:
    """σ = √(2 ln(1.25/δ))/ε is proved for ε ≤ 1 only; here ε = 8, δ = 0.1."""
    sigma = math.sqrt(2 * math.log(1.25 / 0.1)) / 8
    return np.asarray(on_grid(x) + np.rint(own().normal(0.0, sigma / GRID, n)) * GRID)


def gaussian_as_pure(x: float, n: int) -> Floats:
    return np.asarray(on_grid(x) + np.rint(own().normal(0.0, 1.0 / GRID, n)) * GRID)


def gaussian_of_l1(x: Vector, n: int) -> Floats:
    """σ for one number, on four numbers that all move: ε = 1, δ = 0.01."""
    noise = np.rint(own().normal(0.0, 3.107 / GRID, (n, len(x)))) * GRID
    return np.asarray(on_grid(x) + noise)


def clipped_noise(x: float, n: int) -> Floats:
    return np.asarray(on_grid(x) + np.clip(laplace(1.0, n), -3.0, 3.0))


def redrawn_noise(x: float, n: int) -> Floats:
    """Noise beyond three scales is drawn again."""
    u = own().uniform(math.expm1(-3.0), -math.expm1(-3.0), n)
    return np.asarray(on_grid(x) + np.rint(-np.sign(u) * np.log1p(-np.abs(u)) / GRID) * GRID)


def redrawn_answer(x: float, n: int) -> Floats:
    """An answer below zero is drawn again: the law is divided by the chance of an answer above it."""
    found = on_grid(max(x, 0.0)) + laplace(1.0, n)
    while (bad := np.flatnonzero(found < 0)).size:
        found[bad] = on_grid(max(x, 0.0)) + laplace(1.0, bad.size)
    return np.asarray(found)


def spent_twice(x: float, n: int) -> Floats:
    return on_grid(x) + laplace(1.0, (n, 2))


def overlapping_groups(rows: Rows, n: int) -> Floats:
    """Parallel composition claimed of two groups that share people."""
    answers = [sum(r >= 1 for r in rows), sum(r >= 2 for r in rows)]
    return np.asarray(answers, dtype=np.float64) + laplace(1.0, (n, 2))


def bounds_of_the_data(rows: Rows, n: int) -> Floats:
    """The sum is scaled by the largest record there is."""
    return on_grid(sum(rows)) + laplace(max([1.0, *rows]), n)


def public_size(rows: Rows, n: int) -> Floats:
    size = max(len(rows), 1)
    return np.asarray(on_grid(sum(rows) / size) + laplace(1 / size, n))


def true_divisor(rows: Rows, n: int) -> Floats:
    return np.asarray((sum(rows) + laplace(1.0, n)) / max(len(rows), 1))


def noise_of_the_size(rows: Rows, n: int) -> Floats:
    return on_grid(len(rows)) + laplace(1 / math.sqrt(len(rows) + 1), n)


def same_noise_twice(rows: Rows, n: int) -> Floats:
    """One seed for each query: two counts carry the same noise."""
    noise = laplace(2.0, (n, 1))
    return np.asarray([sum(r == 0 for r in rows), sum(r == 1 for r in rows)], dtype=np.float64) + noise


def seed_of_the_data(rows: Rows, n: int) -> Floats:
    seed = int(1000 * sum(rows)) + len(rows)
    return np.full(n, sum(rows) + np.random.default_rng(seed).laplace())


def fixed_seed(x: float, n: int) -> Floats:
    return np.full(n, x + np.random.default_rng(2024).laplace())


_CACHE: dict[str, float] = {}


def cached_noise(x: float) -> float:
    """The noise of a query is kept, and used again when the data has changed."""
    if "noise" not in _CACHE:
        _CACHE["noise"] = float(laplace(1.0, 1)[0])
    return x + _CACHE["noise"]


def seldom_exact(x: float, n: int) -> Floats:
    exact = own().random(n) < 1e-3
    return np.where(exact, x, on_grid(x) + laplace(1.0, n))


def seldom_everything(rows: Sequence[int]) -> object:
    rng = own()
    if rng.random() < 1e-3:
        return f"debug: {sorted(rows)}"
    return len(rows) + int(rng.geometric(1 - math.exp(-1)) - rng.geometric(1 - math.exp(-1)))


def float_laplace(x: float, n: int) -> Floats:
    """Mironov 2012: the low bits of x + noise say what x was."""
    return np.asarray(x + own().laplace(0.0, 1.0, n))


def fine_float_laplace(x: float, n: int) -> Floats:
    """Rounded, but to a grid that is finer than the gaps between floats near 1."""
    return np.asarray(np.rint((x + own().laplace(0.0, 1.0, n)) * 2.0**56) / 2.0**56)


def float_gaussian(x: float, n: int) -> Floats:
    """σ is right for ε = 1, δ = 1e-3; the floats are not."""
    return np.asarray(x + own().normal(0.0, 2.6, n))


def coarse_uniforms(x: float, n: int) -> Floats:
    """Inverse transform of ten random bits: 1,024 noises in all."""
    u = (own().integers(0, 1024, n) + 0.5) / 1024 - 0.5
    return np.asarray(x - np.sign(u) * np.log1p(-2 * np.abs(u)))


def few_digits_of_noise(x: float, n: int) -> Floats:
    """The noise has one digit, the value as many as it has."""
    return np.asarray(x + np.round(own().laplace(0.0, 1.0, n), 1))


def whole_noise(x: int, n: int) -> Integers:
    """Noise cut to whole numbers: zero gets twice its share."""
    return np.asarray(x + np.trunc(own().laplace(0.0, 1.0, n)).astype(np.int64))


def rounded_first(x: float, n: int) -> Floats:
    """Rounding to tens moves a neighbour by ten, and the noise is that of one."""
    return 10.0 * round(x / 10) + laplace(1.0, n)


def uniform_noise(x: int, n: int) -> Integers:
    return x + own().integers(-5, 6, n)


def one_sided_noise(x: float, n: int) -> Floats:
    return np.asarray(on_grid(x) + exponential(1.0, n))


def geometric_of_base_ten(x: int, n: int) -> Integers:
    rng, p = own(), 1 - 10.0**-1
    return np.asarray(x + rng.geometric(p, n) - rng.geometric(p, n))


def rounding_only(x: float, n: int) -> Floats:
    return np.full(n, 5.0 * round(x / 5))


def shown_keys(rows: Sequence[str]) -> dict[str, float]:
    """Every key that occurs, with a noisy count: the keys themselves are exact."""
    return {key: rows.count(key) + float(laplace(1.0, 1)[0]) for key in sorted(set(rows))}


def threshold_without_delta(rows: Sequence[str]) -> dict[str, float]:
    noisy = {key: rows.count(key) + float(laplace(1.0, 1)[0]) for key in sorted(set(rows))}
    return {key: count for key, count in noisy.items() if count > 3}


def small_counts_hidden(rows: Rows) -> float | None:
    """Suppression looks at the true count."""
    return None if len(rows) < 2 else len(rows) + float(laplace(1.0, 1)[0])


def order_of_the_data(rows: Sequence[str]) -> list[tuple[str, float]]:
    """Noisy counts of public keys, the most frequent first, by their true counts."""
    keys = sorted("abc", key=lambda key: (-rows.count(key), key))
    return [(key, rows.count(key) + float(laplace(2.0, 1)[0])) for key in keys]


def true_size_in_text(rows: Rows) -> str:
    return f"mean {len(rows) / 2 + float(laplace(1.0, 1)[0]):.1f} (n={len(rows)})"


def exact_error_bar(rows: Rows) -> dict[str, float]:
    return {"value": sum(rows) + float(laplace(1.0, 1)[0]), "error": 0.1 * sum(rows)}


def empty_is_zero(rows: Rows, n: int) -> Floats:
    return len(rows) + laplace(1.0, n) if rows else np.zeros(n)


def raises_for_a_record(rows: Rows) -> float:
    if any(r < 0 for r in rows):
        raise ValueError("square root of a negative number")
    return sum(math.sqrt(r) > 0.5 for r in rows) + float(laplace(1.0, 1)[0])


def nan_passes(rows: Rows, n: int) -> Floats:
    return float(np.sum(np.clip(rows, 0.0, 1.0))) + laplace(1.0, n)


def sum_that_wraps(rows: Sequence[int], n: int) -> Integers:
    """Eight bits: the sum wraps before the noise is added, so a neighbour may move by more than 100."""
    rng, p = own(), 1 - math.exp(-1 / 100)
    wrapped = (sum(rows) + 128) % 256 - 128
    return np.asarray(wrapped + rng.geometric(p, n) - rng.geometric(p, n))


def clamped_sum(rows: Rows, n: int) -> Floats:
    """The sum is clamped, not its records."""
    return on_grid(min(max(sum(rows), 0.0), 10.0)) + laplace(1.0, n)


def fixed_sample(rows: Rows, n: int) -> Floats:
    """Amplification by a sample of a tenth is claimed, and the sample is every tenth record."""
    return on_grid(sum(rows[::10])) + laplace(1.0, n)


def shuffled_only(rows: Sequence[int], n: int) -> Integers:
    """The shuffler works, but nobody randomised."""
    return own().permuted(np.tile(np.asarray(rows, dtype=np.int64), (n, 1)), axis=1)


def one_row_sampled(rows: Sequence[str]) -> str:
    return rows[int(own().integers(len(rows)))]


def coin_on_top(x: bool, n: int) -> NDArray[np.bool_]:
    """The truth with e^ε/(1 + e^ε), else a fresh coin, which is right half of the time again."""
    rng = own()
    return np.where(rng.random(n) < math.e / (1 + math.e), x, rng.random(n) < 0.5)


def skips_missing(x: bool | None) -> bool | None:
    """Randomized response that lets missing answers through."""
    return None if x is None else bool(x ^ (own().random() < 1 / (1 + math.e)))


def no_factor_two(x: Vector, n: int) -> Integers:
    """The exponential mechanism with exp(ε u) where exp(ε u/2) is due."""
    return _gumbel(x - np.max(x), n)


def scaled_by_the_best(x: Vector, n: int) -> Integers:
    """Utilities are divided by the best one first."""
    return _gumbel(5 * x / max(float(np.max(np.abs(x))), 1e-9), n)


def _gumbel(logits: Vector, n: int) -> Integers:
    return np.asarray(np.argmax(logits + own().gumbel(size=(n, len(logits))), axis=1))


def maximum_with_its_value(x: Vector, n: int) -> Floats:
    noisy = on_grid(x) + laplace(2.0, (n, len(x)))
    return np.column_stack([np.argmax(noisy, axis=1), np.max(noisy, axis=1)])


def maximum_of_half_noise(x: Vector, n: int) -> Integers:
    return np.asarray(np.argmax(on_grid(x) + laplace(1.0, (n, len(x))), axis=1))


def one_noise_for_all(x: Vector, n: int) -> Integers:
    """Sparse vector that draws the noise of its queries once."""
    rho, nu = own().laplace(0.0, 2.0, (n, 1)), own().laplace(0.0, 4.0, (n, 1))
    return (x + nu >= rho).astype(np.int64)


def stream_that_stops(rows: Rows) -> list[float]:
    """A running count with noise on every step, that stops when the true count has reached two."""
    out = []
    for i in range(1, 6):
        seen = sum(r > 0 for r in rows[:i])
        out.append(seen + float(laplace(5.0, 1)[0]))
        if seen >= 2:
            break
    return out


def local_median(rows: Rows, n: int) -> Floats:
    """The median with noise of its local sensitivity."""
    padded = sorted([0.0, *rows, 10.0])
    middle = len(padded) // 2
    local = max(padded[middle] - padded[middle - 1], padded[min(middle + 1, len(padded) - 1)] - padded[middle])
    return np.asarray(on_grid(median(padded)) + laplace(local + GRID, n))


def smooth_median(rows: Rows, n: int) -> Floats:
    """Smooth sensitivity with β = 1, Laplace noise and no δ."""
    padded = [0.0] * 4 + sorted(rows) + [10.0] * 4
    middle, most = len(padded) // 2, 4
    smooth = max(
        math.exp(-k)
        * max(padded[min(middle + t, len(padded) - 1)] - padded[max(middle + t - k - 1, 0)] for t in range(k + 2))
        for k in range(most)
    )
    return np.asarray(on_grid(median(padded)) + laplace(2 * smooth + GRID, n))


def propose_test_release(rows: Rows) -> float | None:
    """The distance to instability is tested without noise."""
    return None if abs(sum(rows) - 5) < 2 else 5.0 * (sum(rows) > 5)


def variance(rows: Rows, n: int) -> Floats:
    """E[x²] − E[x]² of n values in [0, 1] moves by up to (n − 1)/n², at most 1/4; the noise is that of 1/9."""
    return np.asarray(np.rint(np.var(rows) / GRID**2) * GRID**2 + laplace(1 / 9, n))


def bins_of_the_data(rows: Rows, n: int) -> Floats:
    counts = np.histogram(rows, bins=3)[0] if rows else np.zeros(3)
    return np.asarray(counts + laplace(1.0, (n, 3)))


def replaced_not_added(rows: Sequence[str], n: int) -> Floats:
    """A histogram with noise for add-remove, claimed of replacing."""
    return np.asarray([rows.count("a"), rows.count("b")], dtype=np.float64) + laplace(1.0, (n, 2))


def quantile_of_points(rows: Rows) -> float:
    """The exponential mechanism over the records themselves: an interval of length zero."""
    points = sorted({0.0, *rows})
    ranks = np.array([-abs(sum(r < p for r in rows) - len(rows) / 2) for p in points])
    return points[int(_gumbel(ranks / 2, 1)[0])]


def exact_above(rows: Rows) -> tuple[bool, float]:
    """A noisy comparison decides whether the exact sum is shown."""
    shown = sum(rows) + float(laplace(1.0, 1)[0]) > 3
    return shown, float(sum(rows)) if shown else 0.0


def frequent_items(rows: Sequence[str]) -> frozenset[str]:
    """Items with a noisy count above one, each with the whole ε."""
    return frozenset(k for k in "abc" if 2 * rows.count(k) + float(laplace(1.0, 1)[0]) > 1)


_UNIT = Numbers(-10.0, 10.0, change=1.0)
_WHOLE = Numbers(-10, 10, change=1, integer=True)
_BITS = Datasets((0, 1))
_WORDS = Datasets(("a", "b", "c"))
_SMALL = Datasets((0.0, 1.0, 10.0))
_ANSWERS = ((True, False),)
_AMPLIFIED = math.log1p(0.1 * math.expm1(1.0))
_INF = math.inf

BROKEN: tuple[Case, ...] = tuple(
    Case(f.__name__.replace("_", " "), f, inputs, claimed, true, True, source)
    for f, inputs, claimed, true, source in (
        (sensitivity_forgotten, Datasets((0.0, 1.0, 3.0)), 1.0, 3.0, "wrong scale"),
        (half_the_sensitivity, Datasets((-1.0, 1.0), relation="replace"), 1.0, 2.0, "wrong scale"),
        (epsilon_squared, _UNIT, 2.0, 4.0, "wrong scale"),
        (epsilon_for_scale, _UNIT, 0.5, 2.0, "wrong scale"),
        (classical_gaussian, _UNIT, Budget(epsilon=8, delta="0.1"), None, "wrong scale; Balle, Wang 2018"),
        (gaussian_as_pure, _UNIT, 1.0, _INF, "wrong law"),
        (gaussian_of_l1, Vectors(4), Budget(epsilon=1, delta="0.01"), None, "wrong scale"),
        (clipped_noise, _UNIT, 1.0, _INF, "support"),
        (redrawn_noise, _UNIT, 1.0, _INF, "support"),
        (redrawn_answer, Numbers(0.0, 10.0), 1.0, 1 + math.log(2 - math.exp(-1)), "normalisation"),
        (spent_twice, _UNIT, 1.0, 2.0, "composition"),
        (overlapping_groups, Datasets((0, 1, 2)), 1.0, 2.0, "composition"),
        (bounds_of_the_data, Datasets((0.0, 1.0, 3.0)), 1.0, _INF, "bounds from the data"),
        (public_size, _BITS, 1.0, _INF, "public size"),
        (true_divisor, _BITS, 1.0, _INF, "public size"),
        (noise_of_the_size, _BITS, 1.0, _INF, "public size"),
        (same_noise_twice, _BITS, 1.0, _INF, "seeds"),
        (seed_of_the_data, _BITS, 1.0, _INF, "seeds"),
        (fixed_seed, _UNIT, 1.0, _INF, "seeds"),
        (cached_noise, _UNIT, 1.0, _INF, "state"),
        (seldom_exact, _UNIT, 1.0, _INF, "leak once in a thousand"),
        (seldom_everything, _BITS, 1.0, _INF, "leak once in a thousand"),
        (float_laplace, _UNIT, 1.0, _INF, "floats; Mironov 2012"),
        (fine_float_laplace, _UNIT, 1.0, _INF, "floats; Mironov 2012"),
        (float_gaussian, _UNIT, Budget(epsilon=1, delta="0.001"), _INF, "floats"),
        (coarse_uniforms, _UNIT, 1.0, _INF, "support"),
        (few_digits_of_noise, _UNIT, 1.0, _INF, "support"),
        (whole_noise, _WHOLE, 1.0, 1 + math.log(2), "rounding"),
        (rounded_first, _UNIT, 1.0, 10.0, "rounding"),
        (uniform_noise, _WHOLE, 1.0, _INF, "wrong law"),
        (one_sided_noise, _UNIT, 1.0, _INF, "wrong law"),
        (geometric_of_base_ten, _WHOLE, 1.0, math.log(10), "wrong law"),
        (rounding_only, _UNIT, 1.0, _INF, "no noise"),
        (shown_keys, _WORDS, 1.0, _INF, "keys"),
        (threshold_without_delta, _WORDS, 1.0, _INF, "keys"),
        (small_counts_hidden, _BITS, 1.0, _INF, "a branch on the data"),
        (order_of_the_data, _WORDS, 1.0, _INF, "order"),
        (true_size_in_text, _BITS, 1.0, _INF, "a value beside the noisy one"),
        (exact_error_bar, _BITS, 1.0, _INF, "a value beside the noisy one"),
        (empty_is_zero, _BITS, 1.0, _INF, "a branch on the data"),
        (raises_for_a_record, Datasets((-1.0, 0.0, 1.0)), 1.0, _INF, "errors"),
        (nan_passes, Datasets((0.0, 1.0, math.nan)), 1.0, _INF, "NaN"),
        (sum_that_wraps, Datasets((1, 27, 100)), 1.0, None, "overflow"),
        (clamped_sum, Datasets((0.0, 1.0, 5.0)), 1.0, 5.0, "order of steps"),
        (fixed_sample, _BITS, _AMPLIFIED, None, "amplification"),
        (shuffled_only, Datasets((0, 1), relation="replace"), 1.0, _INF, "shuffling"),
        (one_row_sampled, Datasets(("a", "b", "c"), relation="replace"), 1.0, _INF, "sampling is not noise"),
        (coin_on_top, _ANSWERS, 1.0, math.log(1 + 2 * math.e), "wrong coin"),
        (skips_missing, ((True, False), (True, None), (False, None)), 1.0, _INF, "NULL"),
        (no_factor_two, Vectors(5), 1.0, 2.0, "exponential mechanism"),
        (scaled_by_the_best, Vectors(5, low=0, high=10), 1.0, None, "exponential mechanism"),
        (maximum_with_its_value, Vectors(5), 1.0, None, "noisy maximum"),
        (maximum_of_half_noise, Vectors(5), 1.0, 2.0, "noisy maximum"),
        (one_noise_for_all, Vectors(5), 1.0, _INF, "sparse vector"),
        (stream_that_stops, Datasets((0, 1), most=4), 1.0, _INF, "a branch on the data"),
        (local_median, _SMALL, 1.0, _INF, "local sensitivity"),
        (smooth_median, _SMALL, 1.0, _INF, "local sensitivity"),
        (propose_test_release, Datasets((0.0, 1.0, 2.0)), 1.0, _INF, "local sensitivity"),
        (variance, Datasets((0.0, 0.5, 1.0), relation="replace"), 1.0, 2.25, "wrong sensitivity"),
        (bins_of_the_data, _SMALL, 1.0, None, "bins from the data"),
        (replaced_not_added, Datasets(("a", "b"), relation="replace"), 1.0, 2.0, "wrong relation"),
        (quantile_of_points, _SMALL, 1.0, _INF, "support"),
        (exact_above, _BITS, 1.0, _INF, "a value beside the noisy one"),
        (frequent_items, _WORDS, 1.0, 2.0, "wrong sensitivity"),
    )
)
