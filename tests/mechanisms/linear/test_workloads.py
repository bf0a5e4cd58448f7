"""Workloads without their entries answer as their matrices do."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.linear import Workload, explicit, identity, kron, marginals, prefix, ranges, stack, total

RNG = np.random.default_rng()


def rows(kind: str, n: int) -> NDArray[np.float64]:
    """The matrix, question by question, as a reader would write it."""
    asked = {
        "identity": [(i, i) for i in range(n)],
        "total": [(0, n - 1)],
        "prefix": [(0, i) for i in range(n)],
        "ranges": [(a, b) for a in range(n) for b in range(a, n)],
    }[kind]
    return np.array([[float(a <= i <= b) for i in range(n)] for a, b in asked])


SINGLE = {"identity": identity, "total": total, "prefix": prefix, "ranges": ranges}


@pytest.mark.parametrize("kind", SINGLE)
@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_the_questions_of_one_attribute(kind: str, n: int) -> None:
    w, m = SINGLE[kind](n), rows(kind, n)
    ((factor,),) = w.terms
    assert np.array_equal(w.matrix(), m) and (w.queries, w.cells) == m.shape
    assert np.allclose(factor.gram(), m.T @ m)
    c = RNG.normal(size=(n, n))
    c = c @ c.T
    assert np.allclose(factor.squares(c), np.diag(m @ c @ m.T))
    x = RNG.normal(size=n)
    assert np.allclose(w.answers(x), m @ x)


def test_products_and_stacks_are_those_of_matrices() -> None:
    w = stack(kron(prefix(3), ranges(2), identity(2)), kron(total(3), explicit(np.eye(2)), prefix(2)))
    m = np.concatenate(
        [
            np.kron(np.kron(rows("prefix", 3), rows("ranges", 2)), np.eye(2)),
            np.kron(np.kron(rows("total", 3), np.eye(2)), rows("prefix", 2)),
        ]
    )
    assert np.array_equal(w.matrix(), m)
    x = RNG.normal(size=(3, 2, 2))
    assert np.allclose(w.answers(x), m @ x.reshape(-1))
    assert kron(stack(prefix(2), total(2)), identity(3)).queries == 9


def test_marginals_are_sums_over_the_other_attributes() -> None:
    x = RNG.integers(0, 9, size=(2, 3, 4))
    wanted = [x.sum(axis=2), x.sum(axis=1), x.sum(axis=0)]
    assert np.allclose(marginals((2, 3, 4), 2).answers(x), np.concatenate([w.reshape(-1) for w in wanted]))
    assert marginals((2, 3, 4), 0).answers(x).tolist() == [float(x.sum())]


def test_workloads_are_values() -> None:
    made = [kron(prefix(3), total(2)), kron(prefix(3), total(2)), explicit(np.eye(2)), explicit(np.eye(2))]
    assert made[0] == made[1] and made[2] == made[3] and hash(made[2]) == hash(made[3])
    assert made[2] != explicit(2 * np.eye(2)) and made[0] != kron(prefix(3), total(3))


@pytest.mark.parametrize(
    "bad",
    [
        [[1, 2]],
        np.array([1, 2]),
        np.array([[True]]),
        np.array([[np.nan]]),
        np.array([[np.inf, 1]]),
        np.zeros((2, 2)),
        np.zeros((0, 3)),
        np.ones((1, 5000)),
        np.ma.array([[1.0]], mask=[[True]]),
        np.array([["a"]]),
    ],
    ids=repr,
)
def test_what_is_no_matrix_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidParameter):
        explicit(bad)


@pytest.mark.parametrize("maker", SINGLE.values())
@pytest.mark.parametrize("bad", [0, -1, 2.5, True, None, 10**6])
def test_an_impossible_number_of_cells_is_refused(maker: Any, bad: Any) -> None:
    with pytest.raises(InvalidParameter):
        maker(bad)


def test_what_is_too_large_is_refused_with_the_number() -> None:
    with pytest.raises(InvalidParameter, match="4,294,967,296"):
        kron(prefix(2048), prefix(2048), prefix(1024))
    with pytest.raises(InvalidParameter, match="4,297,064,448"):
        ranges(2048).matrix()
    with pytest.raises(InvalidParameter, match="too long"):
        kron(ranges(200), ranges(200)).answers(np.zeros((200, 200)))


def test_what_does_not_fit_together_is_refused() -> None:
    for bad in (
        lambda: stack(prefix(3), prefix(4)),
        lambda: kron(),
        lambda: stack(),
        lambda: kron(prefix(3), np.eye(2)),  # type: ignore[arg-type]
        lambda: marginals((2, 3), 3),
        lambda: marginals((), 0),
        lambda: marginals((2, 3), -1),
        lambda: prefix(3).answers(np.zeros(4)),
    ):
        with pytest.raises(InvalidParameter):
            bad()


def test_the_order_of_ranges_is_that_of_their_starts() -> None:
    x = np.array([1, 10, 100])
    sums = [x[a : b + 1].sum() for a, b in product(range(3), repeat=2) if a <= b]
    assert ranges(3).answers(x).tolist() == sums and isinstance(ranges(3), Workload)
