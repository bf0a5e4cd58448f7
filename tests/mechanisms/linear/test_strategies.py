"""Strategies in whole numbers: norms by enumeration, products exactly, estimates by least squares."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

from discreet.mechanisms.linear import Workload, kron, prefix, ranges, total
from discreet.mechanisms.linear.strategies import Strategy, hierarchical
from discreet.privacy.unit import Relation

RNG = np.random.default_rng()


def random_strategy(*sides: int) -> Strategy:
    return Strategy([RNG.normal(size=(n + 1, n)) for n in sides], bits=9)


@pytest.mark.parametrize("sides", [(1,), (5,), (3, 4), (2, 2, 3)])
def test_sensitivities_are_the_largest_of_all_columns_and_of_all_pairs(sides: tuple[int, ...]) -> None:
    s = random_strategy(*sides)
    columns = [[int(v) for v in c] for c in reduce(np.kron, s.factors).T]
    apart = [[a - b for a, b in zip(c, d, strict=True)] for c in columns for d in columns if c is not d]
    for relation, vectors in ((Relation.ADD_REMOVE, columns), (Relation.REPLACE, [*columns, *apart])):
        l1 = max(sum(map(abs, v)) for v in vectors)
        l2 = max(sum(x * x for x in v) for v in vectors)
        assert s.sensitivity(relation) == (l1, l2)


def _mixed(rows: int) -> Any:
    return np.array([[0.999, -0.999]] * rows)


@pytest.mark.parametrize("matrices", [[0.7 * prefix(2).matrix()] * 7, [_mixed(256), _mixed(130)]])
def test_differences_of_columns_beyond_64_bits_do_not_wrap(matrices: list[Any]) -> None:
    s = Strategy(matrices, bits=12 if len(matrices) == 2 else 10)
    grams = [(f.T.astype(object) @ f.astype(object)) for f in s.factors]
    inner = reduce(np.kron, grams)
    size = range(len(inner))
    l2 = max(inner[i, i] + inner[j, j] - 2 * inner[i, j] for i in size for j in size if i != j)
    assert l2 > 1 << 63
    assert s.sensitivity(Relation.REPLACE)[1] == max(l2, s.sensitivity(Relation.ADD_REMOVE)[1])


@pytest.mark.exhaustive
def test_where_pairs_are_too_many_they_are_bounded_from_above() -> None:
    sides = (13, 13, 13)
    for made in (random_strategy(*sides), Strategy([hierarchical(n) for n in sides], bits=9)):
        one = made.sensitivity(Relation.ADD_REMOVE)
        l1, l2 = made.sensitivity(Relation.REPLACE)
        columns = reduce(np.kron, made.factors).T[RNG.integers(0, 13**3, size=300)]
        apart = np.abs(columns[:, None, :60] - columns[None, :, :60])
        assert l1 == 2 * one[0] and l2 in (2 * one[1], 4 * one[1])
        assert apart.sum(axis=2).max() <= l1 and (apart**2).sum(axis=2).max() <= l2


def test_a_unit_that_is_replaced_by_one_in_no_cell_moves_a_total() -> None:
    assert Strategy([np.ones((1, 4))], bits=18).sensitivity(Relation.REPLACE) == (1, 1)


def test_identity_moves_by_one_or_by_two() -> None:
    s = Strategy([np.eye(4)], bits=18)
    assert s.sensitivity(Relation.ADD_REMOVE) == (1, 1) and s.sensitivity(Relation.REPLACE) == (2, 2)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 11])
def test_hierarchical_counts_every_cell_once_a_level(n: int) -> None:
    h = hierarchical(n)
    levels = (n - 1).bit_length() + 1
    assert (h.sum(axis=0) == levels).all() and h[-1].sum() == n
    assert Strategy([h], bits=18).sensitivity(Relation.ADD_REMOVE) == (levels, levels)


@pytest.mark.parametrize("largest", [10, 2**40, 2**50, 2**63 - 1])
@pytest.mark.parametrize("shift", [0, 3, 70])
def test_what_is_measured_is_exact_and_never_wraps(largest: int, shift: int) -> None:
    s = random_strategy(3, 4)
    x = RNG.integers(-largest, largest, size=(3, 4))
    x[0, 0] = largest
    matrix = reduce(np.kron, s.factors).tolist()
    exact = [sum(a * v for a, v in zip(row, x.reshape(-1).tolist(), strict=True)) << shift for row in matrix]
    assert [int(v) for v in s.measure(x, shift)] == exact


def test_estimates_are_those_of_least_squares() -> None:
    s = random_strategy(3, 4)
    matrix = reduce(np.kron, s.factors).astype(np.float64)
    y = RNG.normal(size=len(matrix))
    assert np.allclose(s.estimate(y).reshape(-1), np.linalg.lstsq(matrix, y, rcond=None)[0])


def test_errors_of_questions_are_those_of_the_dense_formula() -> None:
    s = random_strategy(3, 4)
    w = kron(prefix(3), ranges(4))
    matrix = reduce(np.kron, s.factors).astype(np.float64)
    dense = np.diag(w.matrix() @ np.linalg.inv(matrix.T @ matrix) @ w.matrix().T)
    found = np.kron(*s.squares(w)[0])
    assert np.allclose(found, dense) and s.mean_squares(w) == pytest.approx(float(dense.mean()))


def test_it_says_what_it_cannot_answer() -> None:
    only_total = Strategy([np.ones((1, 5))], bits=18)
    assert only_total.answers(total(5)) and not only_total.answers(prefix(5))
    pairs = Strategy([np.array([[1.0, 1, 0, 0], [0, 0, 1, 1]]), np.eye(2)], bits=18)
    coarse = np.array([[1.0, 1, 0, 0], [1, 1, 1, 1]])
    assert pairs.answers(Workload((4, 2), ((_explicit(coarse), prefix(2).terms[0][0]),)))
    assert not pairs.answers(kron(prefix(4), prefix(2)))


def test_whole_numbers_stay_and_others_are_rounded_to_so_many_digits() -> None:
    assert Strategy([hierarchical(5)], bits=10).factors[0].tolist() == hierarchical(5).astype(int).tolist()
    for unit in (1e-9, 1.0, 1e9):
        real = RNG.normal(size=(4, 4)) * unit
        whole = Strategy([real], bits=12).factors[0]
        ratio = np.abs(whole).max() / np.abs(real).max()
        assert 2**11 <= np.abs(whole).max() <= 2**12
        assert np.abs(whole - real * ratio).max() <= 1.0


def test_strategies_are_values() -> None:
    one, other = (Strategy([hierarchical(4), np.eye(2)], bits=9) for _ in range(2))
    assert one == other and hash(one) == hash(other) and one != Strategy([np.eye(4), np.eye(2)], bits=9)


def _explicit(matrix: Any) -> Any:
    from discreet.mechanisms.linear.workloads import Explicit

    return Explicit(matrix)
