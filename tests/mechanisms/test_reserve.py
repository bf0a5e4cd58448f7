"""Noise that is drawn ahead: each number is used once, by one thread, one copy and one process."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, Numeric, Staircase
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.numeric import Reserve
from discreet.noise import entropy
from discreet.noise.entropy import Entropy
from discreet.noise.lattice import Grid
from discreet.privacy.event import Composed
from discreet.testing.replay import ReplayEntropy, exact_law
from tests.noise.laws import MIXED, Script

WIDE: list[Numeric] = [  # so wide that two draws agree with a chance below 1e-15
    Laplace(epsilon="1e-20"),
    Geometric(epsilon="1e-20"),
    Gaussian(sigma="1e20"),
    DiscreteGaussian(sigma="1e20"),
    Staircase(epsilon="1e-20"),
]


class Counting(DiscreteLaplaceNoise):
    """0, 1, 2, … in place of noise, and how many were asked for at a time."""

    __slots__ = ("asked", "drawn", "lock")

    asked: list[int]
    drawn: int
    lock: threading.Lock

    def __init__(self) -> None:
        super().__init__(Fraction(1))
        for name, value in (("asked", []), ("drawn", 0), ("lock", threading.Lock())):
            object.__setattr__(self, name, value)

    def draw(self, size: int, rng: Entropy) -> NDArray[Any]:
        with self.lock:
            first = self.drawn
            object.__setattr__(self, "drawn", first + size)
            self.asked.append(size)
        return np.arange(first, first + size)


class Same(DiscreteLaplaceNoise):
    """One number over and over."""

    def draw(self, size: int, rng: Entropy) -> NDArray[Any]:
        drawn = np.empty(size, dtype=object)
        drawn[:] = [int(self.scale)] * size
        return drawn


def test_every_number_is_used_once() -> None:
    law = Counting()
    reserve = Reserve(law, None)
    used = [reserve.add(0) for _ in range(1023 + 2048)]
    assert sorted(used) == list(range(1023 + 2048))


@pytest.mark.parametrize("value", [0, -(10**30), 10**9])
def test_when_a_block_is_drawn_depends_on_the_number_of_releases_alone(value: int) -> None:
    law = Counting()
    reserve = Reserve(law, None)
    for _ in range(4000):
        reserve.add(value)
    assert law.asked == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024, 1024]


def test_threads_never_take_the_same_number() -> None:
    law = Counting()
    reserve = Reserve(law, None)
    results: list[list[int | float]] = []
    start = threading.Barrier(8)

    def take() -> None:
        start.wait()
        results.append([reserve.add(0) for _ in range(500)])

    threads = [threading.Thread(target=take) for _ in range(8)]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(switch)
    used = [number for result in results for number in result]
    assert len(used) == len(set(used)) == 4_000


@pytest.mark.parametrize("before", range(4))
def test_a_block_that_another_thread_or_a_signal_handler_draws_in_between_changes_no_other(
    before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    law = Counting()
    reserve = Reserve(law, None)
    used = [reserve.add(0) for _ in range((1 << before) - 1)]
    draw, between = Counting.draw, [6 * (1 << before)]

    def interrupted(self: Counting, size: int, rng: Entropy) -> NDArray[Any]:
        drawn = draw(self, size, rng)
        while between:
            used.extend(reserve.add(0) for _ in range(between.pop()))
        return drawn

    monkeypatch.setattr(Counting, "draw", interrupted)
    used += [reserve.add(0) for _ in range(100)]
    assert len(used) == len(set(used)) == (1 << before) - 1 + 6 * (1 << before) + 100


def test_what_a_forked_process_finds_is_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    law = Counting()
    reserve = Reserve(law, None)
    for _ in range(4):
        reserve.add(0)
    assert law.drawn == 7  # three are left
    monkeypatch.setattr(entropy, "_forks", entropy._forks + 1)
    assert [reserve.add(0) for _ in range(3)] == [14, 13, 12]


def test_a_block_that_was_being_drawn_at_the_fork_is_thrown_away_too(monkeypatch: pytest.MonkeyPatch) -> None:
    law = Counting()
    reserve = Reserve(law, None)
    reserve.add(0)
    draw = Counting.draw

    def forking(self: Counting, size: int, rng: Entropy) -> NDArray[Any]:
        monkeypatch.setattr(entropy, "_forks", entropy._forks + 1)
        return draw(self, size, rng)

    monkeypatch.setattr(Counting, "draw", forking)
    assert reserve.add(0) == 2  # of 1 and 2, drawn half before the fork, half after
    monkeypatch.setattr(Counting, "draw", draw)
    assert reserve.add(0) == 6  # and not 1, which the other process has as well


@pytest.mark.parametrize("mechanism", WIDE, ids=lambda m: type(m).__name__)
def test_a_copy_starts_without_a_reserve(mechanism: Numeric) -> None:
    for value in (0, 0.0) if isinstance(mechanism, Laplace | Gaussian | Staircase) else (0,):
        for _ in range(5):
            mechanism.release(value)
        twins = [copy.copy(mechanism), copy.deepcopy(mechanism), pickle.loads(pickle.dumps(mechanism))]
        released = [[m.release(value) for _ in range(20)] for m in (mechanism, *twins)]
        assert len({x for numbers in released for x in numbers}) == 80


@pytest.mark.parametrize("mechanism", WIDE, ids=lambda m: type(m).__name__)
def test_a_reserve_is_no_part_of_what_a_mechanism_is(mechanism: Numeric) -> None:
    fresh = copy.copy(mechanism)
    mechanism.release(0)
    reserve = mechanism._for_wholes
    assert (mechanism, hash(mechanism), repr(mechanism)) == (fresh, hash(fresh), repr(fresh))
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.dumps(mechanism, protocol) == pickle.dumps(fresh, protocol)
    (_, ahead) = reserve._stock
    assert not ahead or str(ahead[0][0]) not in repr(reserve)
    for twin in (copy.copy(reserve), copy.deepcopy(reserve), pickle.loads(pickle.dumps(reserve))):
        assert (twin._law, twin._grid, twin._stock[1]) == (reserve._law, reserve._grid, [])


class Plain(Numeric):
    """A mechanism of somebody else, whose copies take all of its attributes."""

    def __init__(self) -> None:
        self.sensitivity, self.dimension = Fraction(1), None

    @property
    def noise(self) -> DiscreteLaplaceNoise:
        return DiscreteLaplaceNoise(Fraction(10**20))

    @property
    def lattice(self) -> None:
        return None

    @property
    def events(self) -> Composed:
        return Composed()

    def explain(self) -> str:
        return ""


def test_copies_that_take_all_attributes_share_no_number() -> None:
    mechanism = Plain()
    for _ in range(5):
        mechanism.release(0)
    twins = [mechanism, copy.copy(mechanism), copy.deepcopy(mechanism), pickle.loads(pickle.dumps(mechanism))]
    assert len({twin.release(0) for twin in twins for _ in range(20)}) == 80


class Scaled(Geometric):
    """A mechanism of somebody else, whose noise follows from an attribute of its own."""

    scaled = Fraction(1)

    @property
    def noise(self) -> DiscreteLaplaceNoise:
        return DiscreteLaplaceNoise(self.scaled)


@dataclass
class Open(Plain):
    """A mechanism of somebody else, whose fields may change."""

    scaled: Fraction = Fraction(1)

    @property
    def noise(self) -> DiscreteLaplaceNoise:
        return DiscreteLaplaceNoise(self.scaled)

    def __post_init__(self) -> None:
        super().__init__()


@dataclass(frozen=True, slots=True)
class Other(Geometric):
    """A mechanism of somebody else, which is as fixed as those of the house."""

    def __init__(self) -> None:
        Geometric.__init__(self, epsilon="1e-20")


def test_noise_is_drawn_ahead_only_for_parameters_that_stay() -> None:
    """Ahead of a change there is noise of the old scale, and the events are those of the new one."""
    for mechanism in (Scaled(epsilon=1), Open()):
        for _ in range(5):
            assert abs(mechanism.release(0)) < 1000
        object.__setattr__(mechanism, "scaled", Fraction(10**20))
        assert all(abs(mechanism.release(0)) > 1000 for _ in range(5))
        assert not hasattr(mechanism, "_for_wholes")
    for fixed in (*WIDE, Other()):
        assert len({fixed.release(0) for _ in range(20)}) == 20
        assert fixed._for_wholes._stock[1]


def test_given_randomness_is_used_as_it_comes_and_leaves_the_reserve_alone() -> None:
    mechanism = Laplace(epsilon=1)
    first = mechanism.release(5, rng=Script())
    assert not hasattr(mechanism, "_for_wholes")
    mechanism.release(5)
    before = list(mechanism._for_wholes._stock[1])
    assert mechanism.release(5, rng=Script()) == mechanism.release(5, rng=ReplayEntropy(MIXED * 20)) == first
    assert mechanism._for_wholes._stock[1] == before


def test_a_release_with_given_randomness_can_still_be_enumerated() -> None:
    class Coin(DiscreteLaplaceNoise):
        def draw(self, size: int, rng: Entropy) -> NDArray[Any]:
            return np.array([b % 3 for b in rng.bytes(size)])

    class Coins(Geometric):
        @property
        def noise(self) -> DiscreteLaplaceNoise:
            return Coin(Fraction(1))

    law, open_mass = exact_law(lambda rng: int(Coins(epsilon=1).release(7, rng=rng)), 1)
    assert open_mass == 0
    assert law == {7: Fraction(86, 256), 8: Fraction(85, 256), 9: Fraction(85, 256)}


@given(
    value=st.floats(allow_nan=False, allow_infinity=False),
    exponent=st.integers(-1074, 1023),
    noise=st.integers(1, 2**64),
)
def test_a_float_is_rounded_and_added_exactly(value: float, exponent: int, noise: int) -> None:
    exact = (round(Fraction(value) / Fraction(2) ** exponent) + noise) * Fraction(2) ** exponent
    far = Fraction(sys.float_info.max)
    wanted = float(exact) if abs(exact) <= far else sys.float_info.max if exact > 0 else -sys.float_info.max
    assert Reserve(Same(Fraction(noise)), Grid(exponent)).add(value) == wanted


def test_what_is_refused_at_first_is_refused_later_and_leaves_no_reserve() -> None:
    for mechanism, value in (
        (Geometric(epsilon=1), 1.5),
        (Laplace(epsilon=1, sensitivity="0.5"), 3),
        (Laplace(epsilon=1, dimension=2), 3),
        (DiscreteGaussian(sigma=2), 1.5),
        (DiscreteGaussian(sigma=2, step="1/8"), 3),
    ):
        for _ in range(2):
            with pytest.raises(InvalidParameter):
                mechanism.release(value)
        assert not hasattr(mechanism, "_for_wholes") and not hasattr(mechanism, "_for_reals")
