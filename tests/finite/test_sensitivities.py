"""Sensitivities against closed forms of the textbook and a brute force over ordered databases."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from statistics import median, pstdev, stdev
from typing import Any

import mpmath
import numpy as np
import pytest

import discreet as dp
from discreet.errors import InvalidParameter
from discreet.finite import Attained, Database, databases, local_sensitivity, sensitivity, smooth_sensitivity

F = Fraction


def brute(f: Callable[[tuple[int, ...]], Any], universe: range, size: int, relation: str) -> Fraction:
    """Over all ordered databases, changing each place, or leaving each out."""
    best = F(0)
    if relation == "replace":
        for x in itertools.product(universe, repeat=size):
            for i, v in itertools.product(range(size), universe):
                best = max(best, abs(F(f(tuple(sorted(x)))) - F(f(tuple(sorted((*x[:i], v, *x[i + 1 :])))))))
        return best
    for n in range(1, size + 1):
        for x in itertools.product(universe, repeat=n):
            for i in range(n):
                best = max(best, abs(F(f(tuple(sorted(x)))) - F(f(tuple(sorted((*x[:i], *x[i + 1 :])))))))
    return best


FUNCTIONS: list[Callable[[tuple[int, ...]], Any]] = [
    sum,
    len,
    lambda r: max(r, default=0),
    lambda r: sorted(r)[len(r) // 2] if r else 0,
    lambda r: F(sum(r), max(len(r), 1)),
    lambda r: len(set(r)) ** 2,
    lambda r: (sum(v * v for v in r) * 7) % 5,
]


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_it_is_the_largest_change_of_a_brute_force(f: Callable[..., Any], relation: str) -> None:
    found = sensitivity(f, universe=range(3), size=4, relation=relation)
    assert found == brute(f, range(3), 4, relation)
    assert found.exact
    assert found.pair is not None
    x, y = found.pair
    assert x.is_neighbour(y, relation)
    assert abs(F(f(x.records)) - F(f(y.records))) == found  # the pair attains it


def test_textbook_values() -> None:
    front = sensitivity(sum, universe=range(5), size=4, relation="replace", norm=1)
    assert front == 4
    for relation, moved in (("replace", 2), ("add-remove", 1)):
        assert sensitivity(Counter, universe=range(10), size=3, relation=relation) == moved
        assert sensitivity(Counter, universe=range(10), size=3, relation=relation, norm=math.inf) == 1
        assert sensitivity(Counter, universe=range(10), size=3, relation=relation, norm=2).squared == moved
    assert sensitivity(lambda r: 3 * len(r), universe="ab", size=3, relation="add-remove") == 3
    assert sensitivity(len, relation="replace", universe="ab", size=3) == 0


@pytest.mark.parametrize("n", [2, 3, 5])
def test_means_and_deviations_on_the_unit_interval(n: int) -> None:
    unit = [0, F(1, 2), 1]
    assert sensitivity(lambda r: F(sum(r), n), relation="replace", universe=unit, size=n) == F(1, n)
    assert float(sensitivity(stdev, relation="replace", universe=unit, size=n)) == pytest.approx(1 / math.sqrt(n))
    assert float(sensitivity(pstdev, relation="replace", universe=unit, size=n)) == pytest.approx(math.sqrt(n - 1) / n)
    assert sensitivity(lambda r: F(sum(r), n), relation="replace", universe=[20, 60, 100], size=n) == F(80, n)


def test_values_of_all_kinds_are_read() -> None:
    one = sensitivity(lambda r: [[len(r), 0], [0, Decimal("0.1")]], universe="ab", size=2, relation="add-remove")
    assert one == 1
    assert one.exact
    array = sensitivity(lambda r: np.bincount(r, minlength=3), relation="replace", universe=range(3), size=2)
    assert array == 2
    assert array.exact
    assert sensitivity(lambda r: "a" in r, relation="replace", universe="ab", size=2) == 1
    assert sensitivity(lambda r: np.float64(len(r)), universe="ab", size=2, relation="add-remove") == 1


def test_floats_and_roots_are_never_less_than_the_change() -> None:
    f = sensitivity(lambda r: 0.1 * sum(r), relation="replace", universe=range(4), size=3)
    assert not f.exact
    assert f == max(abs(F(0.1 * sum(x.records)) - F(0.1 * sum(y.records))) for x, y in _edges(4, 3))
    root = sensitivity(Counter, relation="replace", universe="ab", size=2, norm=2)
    assert root * root >= 2
    assert root * root < 2 * (1 + F(1, 2**58))
    assert not root.exact
    assert root.squared == 2
    assert sensitivity(lambda r: [3 * len(r), 4 * len(r)], universe="a", size=2, relation="add-remove", norm=2) == 5


def _edges(kinds: int, size: int) -> list[tuple[Database, Database]]:
    return list(dp.finite.neighbours(range(kinds), size, relation="replace"))


def test_it_is_used_as_a_number() -> None:
    third = sensitivity(lambda r: F(sum(r), 3), relation="replace", universe=range(2), size=3)
    assert isinstance(third, Attained)
    assert third + third == F(2, 3)
    assert third < 1
    assert hash(third) == hash(F(1, 3))
    assert dp.mechanisms.Laplace(epsilon=1, sensitivity=third).sensitivity == F(1, 3)  # not 0.3333333333333333
    for again in (copy.deepcopy(third), copy.copy(third), pickle.loads(pickle.dumps(third))):
        assert (again, again.pair, again.exact) == (third, third.pair, third.exact)
    assert str(third) == "1/3, between (0, 0, 0) and (0, 0, 1)"


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_the_global_is_the_largest_local_sensitivity(relation: str) -> None:
    def f(r: tuple[int, ...]) -> int:
        return sorted(r)[len(r) // 2] ** 2 if r else 0

    world = databases(range(4), 3, relation=relation)
    size = 3 if relation == "add-remove" else None
    local = [local_sensitivity(f, x, universe=range(4), size=size, relation=relation) for x in world]
    assert max(local) == sensitivity(f, universe=range(4), size=3, relation=relation)
    for x, found in zip(world, local, strict=True):
        assert found.pair is not None
        assert found.pair[0] == x


def test_the_smooth_sensitivity_is_the_definition() -> None:
    world = databases([0, 3, 10], 4, relation="replace")

    def f(r: tuple[int, ...]) -> int:
        return sorted(r)[1]

    for x in world:
        found = smooth_sensitivity(f, x, "0.3", relation="replace", universe=[0, 3, 10])
        truth = max(
            mpmath.exp(mpmath.mpf("-0.3") * (x.steps(y, "replace") or 0))
            * int(local_sensitivity(f, y, relation="replace", universe=[0, 3, 10]))
            for y in world
        )
        assert float(found) == pytest.approx(float(truth), rel=1e-14)
        assert found.centre == x


def test_the_smooth_sensitivity_of_the_median_has_its_closed_form() -> None:
    """On {0, 10} with five records and k tens, the median's is 10 for k in {2, 3}, and each step away fades by e^−β."""
    for k, steps in enumerate([2, 1, 0, 0, 1, 2]):
        found = smooth_sensitivity(median, [0] * (5 - k) + [10] * k, 1, relation="replace", universe=[0, 10])
        assert float(found) == pytest.approx(10 * math.exp(-steps), rel=1e-14)
        assert found.exact == (steps == 0)
        with mpmath.workdps(60):
            assert mpmath.mpf(found.numerator) / found.denominator >= 10 * mpmath.exp(-steps)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_the_smooth_sensitivity_is_smooth_and_above_the_local_one(relation: str) -> None:
    def f(r: tuple[int, ...]) -> int:
        return max(r, default=0)

    size = 3 if relation == "add-remove" else None
    options: dict[str, Any] = {"universe": range(4), "size": size, "relation": relation}
    world = databases(range(4), 3, relation=relation)
    smooth = {x: smooth_sensitivity(f, x, 1, **options) for x in world}
    assert all(smooth[x] >= local_sensitivity(f, x, **options) for x in world)
    edges = dp.finite.neighbours(range(4), 3, relation=relation)
    assert all(float(smooth[x] / smooth[y]) <= math.e * (1 + 1e-12) for x, y in edges)
    assert all(float(smooth[y] / smooth[x]) <= math.e * (1 + 1e-12) for x, y in edges)


def test_no_neighbours_is_no_change() -> None:
    assert sensitivity(sum, relation="replace", universe=[1], size=3) == 0
    assert sensitivity(sum, relation="replace", universe=[1, 2], size=0).pair is None
    assert str(sensitivity(sum, relation="replace", universe=[1], size=3)) == "0, between no two neighbours"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: sensitivity(sum, relation="replace", universe=range(100), size=10),
            "about 10\\^15 pairs of neighbours|pairs of neighb",
        ),
        (
            lambda: sensitivity(sum, relation="replace", universe=range(3), size=2, norm=3),
            "norm must be 1, 2 or math.inf, not 3",
        ),
        (lambda: sensitivity(sum, relation="replace", universe=range(3), size=2, norm=True), "norm must be"),
        (lambda: sensitivity(7, relation="replace", universe=range(3), size=2), "f must be a function"),  # type: ignore[arg-type]
        (
            lambda: sensitivity(lambda r: math.nan, relation="replace", universe=range(3), size=2),
            r"f gave nan for the database \(0, 0\)",
        ),
        (lambda: sensitivity(lambda r: math.inf, relation="replace", universe=range(3), size=2), "must be finite"),
        (lambda: sensitivity(str, relation="replace", universe=range(3), size=2), "must give numbers, not str"),
        (
            lambda: sensitivity(lambda r: r[: r[0]], relation="replace", universe=range(3), size=2),
            "numbers for one database",
        ),
        (lambda: sensitivity(median, universe=range(3), size=2, relation="add-remove"), "failed on the database"),
        (lambda: local_sensitivity(sum, [0, 7], relation="replace", universe=range(3)), "7 is no element"),
        (lambda: local_sensitivity(sum, [0, 1], relation="replace", universe=range(3), size=1), "x has 2 records"),
        (lambda: smooth_sensitivity(sum, [0], 0, relation="replace", universe=range(3)), "beta must be above 0"),
        (
            lambda: smooth_sensitivity(sum, [0], 10**6, relation="replace", universe=range(3)),
            "beta must be at most 1000",
        ),
        (
            lambda: smooth_sensitivity(sum, 5, 1, relation="replace", universe=range(3)),  # type: ignore[arg-type]
            "records must be several values",
        ),
        (lambda: smooth_sensitivity(sum, [0], 1, universe=range(3), relation="add-remove"), "size= is needed"),
        (lambda: smooth_sensitivity(sum, [0] * 50, 1, relation="replace", universe=range(30)), "pairs of neighbours"),
    ],
)
def test_bad_questions_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        call()


def test_fractions_of_numpys_integers_do_not_wrap() -> None:
    numpys: Any = np.int64(2**62), np.int64(3)
    far = F(numpys[0]), F(-numpys[0], numpys[1])
    found = sensitivity(lambda r: far[len(r)], universe=[0], size=1, relation="add-remove")
    assert found == F(2**62) + F(2**62, 3)
    mean = sensitivity(lambda r: F(sum(r), len(r)), relation="replace", universe=np.arange(3), size=3)
    assert mean == F(2, 3) and "2/3" in str(mean)
