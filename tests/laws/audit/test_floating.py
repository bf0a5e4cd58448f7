"""Probes of floats find noise that was made of floats, and leave lattices, grids and integers alone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import discreet as dp
from discreet.audit.finding import Probe
from discreet.audit.outputs.sampling import Raised
from discreet.audit.probes.contrast import BITS, EXACT, VALUES, OutputNumbers, contrast
from discreet.audit.probes.floating import grid_of, probe_floats
from discreet.errors import InvalidParameter
from discreet.mechanisms import Gaussian, Geometric, Laplace

Floats = NDArray[np.float64]
NAMES = ("reachable support", "lattice", "large values", "special inputs")
FEW = (1.0, 1e9)


def generator() -> np.random.Generator:
    return np.random.default_rng(20221212)


def float_laplace(x: float, *, n: int) -> Floats:
    return x + np.random.default_rng().laplace(size=n)


def float_laplace_by_logarithm(x: float, *, n: int) -> Floats:
    """The textbook's inverse of the distribution, as Mironov 2012 attacks it."""
    rng = np.random.default_rng()
    return x + np.where(rng.random(n) < 0.5, 1, -1) * np.log(rng.random(n))


def float_gaussian(x: float, *, n: int) -> Floats:
    return x + np.random.default_rng().normal(scale=3.7304, size=n)


def single_laplace(x: float, *, n: int) -> NDArray[np.float32]:
    return np.float32(x) + np.random.default_rng().laplace(size=n).astype(np.float32)


def on_a_grid(x: float, *, n: int) -> Floats:
    """Snapped to a public grid of 1/32, after clamping: post-processing."""
    return np.clip(np.round((x + np.random.default_rng().laplace(size=n)) * 32) / 32, -1e12, 1e12)


def to_one_decimal(x: float, *, n: int) -> Floats:
    return np.round(x + np.random.default_rng().laplace(size=n), 1)


def own_laplace(x: float, *, n: int) -> Floats:
    """Entries of a released array are independent, of the noise that one number would get (and a finer grid)."""
    blocks = [Laplace(epsilon=1, dimension=1024).release(np.full(1024, float(x))) for _ in range(-(-n // 1024))]
    return np.asarray(np.concatenate(blocks)[:n], dtype=np.float64)


def own_geometric(x: int, *, n: int) -> Any:
    return Geometric(epsilon=1).release(np.full(n, x))


def named(probes: tuple[Probe, ...]) -> dict[str, Probe]:
    assert tuple(p.name for p in probes) == NAMES
    return {p.name: p for p in probes}


@pytest.mark.parametrize(
    ("mechanism", "claimed"),
    [
        (float_laplace, 1),
        (float_laplace_by_logarithm, 1),
        (float_gaussian, dp.Budget(epsilon=1, delta="1e-5")),
        (float_gaussian, Gaussian(sigma="3.73").loss),
        (single_laplace, 1),
    ],
    ids=["laplace", "logarithm", "gaussian", "gaussian's curve", "single precision"],
)
def test_noise_made_of_floats_is_found(mechanism: Callable[..., object], claimed: Any) -> None:
    probes = named(probe_floats(mechanism, claimed=claimed, values=FEW))
    support = probes["reachable support"]
    assert support.verdict == "violated", support
    assert support.details["epsilon_lower"] > 3
    assert (support.details["x"], support.details["x_neighbour"]) in (("0.0", "1.0"), ("1.0", "0.0"))
    assert "lowest bit" in support.words
    assert probes["lattice"].verdict == "suspicious"
    assert "function of the value" in probes["lattice"].words


def test_noise_made_of_floats_is_found_one_by_one_in_a_short_time() -> None:
    rng = generator()
    started = time.monotonic()
    probes = named(probe_floats(lambda x: x + rng.laplace(), claimed=1, seconds=2))
    assert probes["reachable support"].verdict == "violated"
    assert time.monotonic() - started < 10


def test_noise_made_of_floats_is_suspicious_where_nothing_was_claimed() -> None:
    support = named(probe_floats(float_laplace, samples=20_000, values=()))["reachable support"]
    assert support.verdict == "suspicious"
    assert "bits give it away" in support.words


def test_entries_of_vectors_are_probed() -> None:
    def vector(x: list[float], *, n: int) -> Floats:
        return np.asarray(x) + np.random.default_rng().laplace(size=(n, len(x)))

    probes = named(probe_floats(vector, [5.0, 0.0], [5.0, 1.0], claimed=1, values=()))
    assert probes["reachable support"].verdict == "violated"
    assert "output[1]" in probes["reachable support"].words


@pytest.mark.parametrize(
    ("mechanism", "x", "y", "claimed"),
    [
        (own_laplace, 0.0, 1.0, 1),
        (Laplace(epsilon=1).release, 0.0, 1.0, 1),
        (Gaussian(epsilon=1, delta="1e-5").release, 0.0, 1.0, dp.Budget(epsilon=1, delta="1e-5")),
        (Gaussian(sigma=3).release, 0.0, 1.0, Gaussian(sigma=3).loss),
        (own_geometric, 0, 1, 1),
        (on_a_grid, 0.0, 1.0, 1),
        (to_one_decimal, 0.0, 1.0, 1),
    ],
    ids=["own laplace", "own laplace, singly", "own gaussian", "its curve", "geometric", "snapped", "one decimal"],
)
def test_sound_mechanisms_are_not_accused(mechanism: Callable[..., object], x: Any, y: Any, claimed: Any) -> None:
    probes = named(probe_floats(mechanism, x, y, claimed=claimed, seconds=1.5))
    special = probes.pop("special inputs")
    assert probes["reachable support"].verdict == "consistent"
    assert {p.verdict for p in probes.values()} <= {"consistent", "skipped"}, probes
    assert special.verdict != "violated"


def test_own_mechanisms_refuse_what_is_no_number_and_hold_at_every_float() -> None:
    probes = named(probe_floats(own_laplace, claimed=1, everywhere=True, seconds=8))
    assert {p.verdict for p in probes.values()} == {"consistent"}, probes
    assert "NaN: refused" in probes["special inputs"].words


def test_the_order_of_the_values_is_not_taken_for_bits() -> None:
    # integers of ε = 10 show what they are told to show, and so they do at ε = 1
    sharp = lambda x, *, n: Geometric(epsilon=10).release(np.full(n, x))  # noqa: E731
    probes = named(probe_floats(sharp, 0, 1, claimed=10, samples=20_000))
    assert probes["reachable support"].verdict == "consistent"
    assert probes["special inputs"].verdict == "skipped"
    accused = named(probe_floats(sharp, 0, 1, claimed=1, samples=20_000))["reachable support"]
    assert accused.verdict == "violated"
    assert "The order of the values alone tells as much." in accused.words


def test_integer_noise_on_a_number_between_shows_where_it_came_from() -> None:
    def unrounded(x: float, *, n: int) -> Floats:
        return np.asarray(x + Geometric(epsilon=1).release(np.zeros(n, dtype=np.int64)))

    support = named(probe_floats(unrounded, 0.0, 0.3, claimed=1))["reachable support"]
    assert support.verdict == "violated"
    assert support.details["epsilon_lower"] > 7


def test_nan_in_nan_out_shows() -> None:
    only_here = named(probe_floats(on_a_grid, claimed=1, samples=5000, values=()))["special inputs"]
    assert only_here.verdict == "suspicious"
    everywhere = named(probe_floats(on_a_grid, claimed=1, samples=5000, values=(), everywhere=True))
    assert everywhere["special inputs"].verdict == "violated"
    assert "NaN: 100% of the outputs are NaN" in everywhere["special inputs"].words


def test_a_claim_for_two_inputs_is_not_held_against_others() -> None:
    # randomised response on 0 and 1; elsewhere it says the input or something else that tells it
    def response(x: float, *, n: int) -> Floats:
        return np.asarray(np.where(np.random.default_rng().random(n) < 0.7, x, 1.0 - x))

    support = named(probe_floats(response, 0.0, 1.0, claimed=1, samples=20_000))["reachable support"]
    assert support.verdict == "suspicious"
    assert "may not be meant for these inputs" in support.words
    strict = named(probe_floats(response, 0.0, 1.0, claimed=1, samples=20_000, everywhere=True))
    assert strict["reachable support"].verdict == "violated"


def test_lost_noise_is_seen() -> None:
    probes = named(probe_floats(single_laplace, claimed=1, samples=20_000))
    assert probes["large values"].verdict == "suspicious"
    assert "noise is lost" in probes["large values"].words
    assert "1000000000.0" in probes["large values"].details["unchanged"]


@pytest.mark.parametrize(
    "mechanism",
    [lambda x: "text", lambda x: [1.0] * int(generator().integers(1, 5)), lambda x: {"a": 1}, lambda x: None],
)
def test_outputs_that_are_no_numbers_are_skipped(mechanism: Callable[..., object]) -> None:
    probes = probe_floats(mechanism, claimed=1, samples=200, values=())
    assert {p.verdict for p in probes} <= {"skipped", "consistent"}


def test_mechanisms_that_raise_or_never_change_are_not_accused() -> None:
    def sometimes(x: float) -> float:
        if generator.__name__ and np.random.default_rng().random() < 0.3:
            raise ValueError("no")
        return Laplace(epsilon=1).release(x)  # type: ignore[no-any-return]

    for mechanism in (sometimes, lambda x: 1 / 0, lambda x: 7.0, lambda x: math.nan):
        probes = probe_floats(mechanism, claimed=1, samples=3000, seconds=2)
        assert "violated" not in {p.verdict for p in probes}, probes


def test_an_exception_that_tells_the_neighbours_apart_is_found() -> None:
    def refuses(x: float) -> float:
        if x > 0.5:
            raise ValueError("too large")
        return x

    support = named(probe_floats(refuses, claimed=1, samples=4000, values=()))["reachable support"]
    assert support.verdict == "violated"


@pytest.mark.parametrize("x", ["text", None, {}, [], math.nan, [1, "a"], np.asarray([]), True])
def test_any_input_is_taken(x: Any) -> None:
    probes = probe_floats(lambda _: generator().normal(), x, x, claimed=1, samples=100)
    assert tuple(p.name for p in probes) == NAMES


def test_other_values_keep_the_distance_and_the_type() -> None:
    seen: list[Any] = []

    def mechanism(x: Any, *, n: int) -> Floats:
        seen.append(x)
        return np.zeros(n)

    probe_floats(
        mechanism,
        np.asarray([1, 2], dtype=np.float32),
        np.asarray([1, 2.5], dtype=np.float32),
        samples=100,
        values=(0.0, 1e-9, 2.0**30),
    )
    assert all(isinstance(x, np.ndarray) and x.dtype == np.float32 for x in seen)
    seen.clear()
    probe_floats(mechanism, 0, 3, samples=100, values=(0.5, 7.0, 2**53 + 1))
    assert {int(x) for x in seen} == {0, 3, 7, 10, 2**53 + 1, 2**53 + 4}
    assert all(type(x) is int for x in seen)
    seen.clear()
    probe_floats(mechanism, 0.0, 0.1, samples=100, values=(0.3, 1e17))
    numbers = {x for x in seen if math.isfinite(x) and x not in (0.0, 5e-324)}
    assert numbers in ({0.1, 0.3, 0.4}, {0.1, 0.3, math.nextafter(0.4, 0)})


def test_bad_arguments_are_refused() -> None:
    for options in ({"error": 0}, {"error": 1}, {"seconds": 0}, {"samples": 10}, {"claimed": "x"}):
        with pytest.raises(InvalidParameter):
            probe_floats(float_laplace, **options)


def test_the_certified_ratio_holds_as_often_as_it_says() -> None:
    # P(1) = 0.75, Q(1) = 0.25: the truth is log 3; at error 0.2 a share of at most 0.2 may exceed it
    rng, wrong, repeats = generator(), 0, 300
    for _ in range(repeats):
        p, q = (OutputNumbers.of((rng.random(400) < chance).astype(float)) for chance in (0.75, 0.25))
        assert p is not None
        assert q is not None
        found = contrast(p, q, 0.0, 0.2)
        assert found is not None
        wrong += found.epsilon > math.log(3)
        assert found.epsilon > 0.3
    assert wrong <= 0.2 * repeats + 6 * math.sqrt(repeats * 0.2 * 0.8)  # 6 σ


def test_a_claim_just_below_the_truth_is_broken_and_one_just_above_is_not() -> None:
    rng = generator()
    p, q = (OutputNumbers.of((rng.random(200_000) < chance).astype(float)) for chance in (0.75, 0.25))
    assert p is not None
    assert q is not None
    found = contrast(p, q, 0.0, 1e-6)
    assert found is not None
    assert found.feature == VALUES
    assert found.breaks([(math.log(2.8), 0.0)])
    assert not found.breaks([(math.log(3), 0.0)])
    assert not found.breaks([(math.log(2.8), 0.06)])  # 0.75 − 2.8/4 = 0.05


def test_features_see_what_they_are_for() -> None:
    rng = generator()
    even, odd = 2.0 * rng.integers(0, 10**6, 4000), 2.0 * rng.integers(0, 10**6, 4000) + 1
    found = contrast(OutputNumbers.of(even), OutputNumbers.of(odd), 0.0, 1e-6)  # type: ignore[arg-type]  # not None
    assert found is not None
    assert found.feature == BITS
    assert found.epsilon > 4
    some, others = rng.choice([0.3, 0.7, 0.55], 4000), rng.choice([0.4, 0.6, 0.45], 4000)
    found = contrast(OutputNumbers.of(some), OutputNumbers.of(others), 0.0, 1e-6)  # type: ignore[arg-type]  # not None
    assert found is not None
    assert found.feature in (VALUES, EXACT)
    assert found.epsilon > 4


def test_a_grid_is_seen_as_such() -> None:
    rng = generator()

    def seen(values: Any) -> Any:
        numbers = OutputNumbers.of(values)
        assert numbers is not None
        return grid_of(numbers, 0.0)

    fine = seen(np.round(rng.normal(size=5000) * 2**30) / 2**30)
    assert (fine.exponent, fine.relative, fine.coarse, fine.rounded) == (-30, False, False, False)
    assert seen(rng.normal(size=5000)).relative
    assert seen(rng.normal(size=5000).astype(np.float32)).relative
    assert seen(np.round(rng.normal(size=5000), 2)).coarse
    large = seen(1e9 + np.round(rng.normal(size=5000) * 2**20) / 2**20)
    assert (large.exponent, large.relative, large.rounded) == (-20, False, True)
    assert seen(np.zeros(10)) is None


def test_numbers_are_read_from_any_batch() -> None:
    mixed = OutputNumbers.of([1, 2.5, Raised("ValueError", "no"), True])
    assert mixed is not None
    assert mixed.raised.tolist() == [False, False, True, False]
    assert mixed.kinds == ("ValueError",)
    huge = OutputNumbers.of([10**30, -(10**30)])
    assert huge is not None
    assert huge.values.ravel().tolist() == [1e30, -1e30]
    assert OutputNumbers.of(["a"]) is None
    assert OutputNumbers.of([[1.0], [1.0, 2.0]]) is None
    only = OutputNumbers.of([Raised("ValueError", "")] * 3)
    assert only is not None
    assert np.isnan(only.values).all()
