"""Continual counting and the matrix mechanism: contracts, audits and broken twins."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms import BinaryTree, MatrixMechanism
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise
from discreet.mechanisms.linear import identity, kron, prefix, ranges, total
from tests.contracts.audit_row import AuditRow, sampled
from tests.contracts.mechanism_row import DELTA, Row

MECHANISMS = (
    Row(BinaryTree, lambda e: BinaryTree(epsilon=e, steps=1000), "binary-tree", True, given={"steps": 8}),
    Row(
        BinaryTree,
        lambda e: BinaryTree(epsilon=e, steps=9, sensitivity=3, contributions=2, relation="replace"),
        "binary-tree",
        True,
        given={"steps": 8},
    ),
    Row(
        BinaryTree,
        lambda e: BinaryTree(epsilon=e, delta=DELTA, steps=300, contributions=5),
        "binary-tree",
        False,
        given={"steps": 8, "noise": "gaussian"},
    ),
    Row(
        BinaryTree,
        lambda e: BinaryTree(epsilon=e, delta=DELTA, steps=300, factorization="square-root"),
        "square-root",
        False,
        given={"steps": 8, "noise": "gaussian", "factorization": "square-root"},
    ),
    Row(
        MatrixMechanism,
        lambda e: MatrixMechanism(ranges(8), epsilon=e, relation="replace"),
        "matrix-mechanism",
        True,
        given={"workload": prefix(3)},
    ),
    Row(
        MatrixMechanism,
        lambda e: MatrixMechanism(kron(prefix(6), total(2)), epsilon=e, delta=DELTA, sensitivity=2),
        "matrix-mechanism",
        False,
        given={"workload": prefix(3), "noise": "gaussian"},
    ),
)


def with_noise(tree: BinaryTree, noise: Additive) -> BinaryTree:
    """A twin with other noise and the same claim."""
    twin = copy(tree)
    object.__setattr__(twin, "noise", noise)
    return twin


def streams(tree: BinaryTree, told: NDArray[np.float64], changed: int) -> Callable[..., object]:
    """A number told from all answers to a stream that starts with so many ones or not: that which tells most."""

    def release(first: int, n: int) -> object:
        values = np.zeros(len(told), dtype=np.int64)
        values[:changed] = first
        return np.array([tree.release(values) @ told for _ in range(n)])

    return release


def tree_audit() -> AuditRow:
    """As a twin: a tree with the noise for one level."""
    tree = BinaryTree(epsilon=1, steps=1000)
    assert isinstance(tree.noise, DiscreteLaplaceNoise)
    levels = tree.measured.l1(1) >> tree.measured.bits
    broken = with_noise(tree, DiscreteLaplaceNoise(tree.noise.scale / levels))
    told = np.zeros(8)
    told[[0, 1, 3, 7]] = 1  # the answers of one block of each height
    sound, twin = (sampled(streams(t, told, 1), 0, 1, tree.loss) for t in (tree, broken))
    return AuditRow("BinaryTree", "a tree", sound, twin, f"{levels} levels paid as one", 5_000, 200_000)


def root_audit() -> AuditRow:
    """As a twin: noise for a unit that changes one element, where it changes four."""
    root, broken = (
        BinaryTree(epsilon=1, delta="0.01", steps=16, factorization="square-root", contributions=contributions)
        for contributions in (4, 1)
    )
    k = np.arange(1, 16)
    column = np.concatenate(([1.0], np.cumprod((2 * k - 1) / (2 * k))))
    square_root = np.array([[column[i - j] if i >= j else 0.0 for j in range(16)] for i in range(16)])
    told = np.linalg.solve(square_root.T, square_root[:, :4].sum(axis=1))  # what was measured, along the change
    sound, twin = (sampled(streams(t, told, 4), 0, 1, root.loss) for t in (root, broken))
    return AuditRow("BinaryTree", "a square root", sound, twin, "four elements paid as one", 1_400, 200_000)


def strategy_audit(relation: str, delta: str | None) -> AuditRow:
    """Many tables of two cells at once, measured by their sum and their difference.

    As a twin: a strategy that is scaled after its sensitivity was taken.
    """
    side = 1000
    matrix = MatrixMechanism(
        kron(identity(side), prefix(2)),
        [np.eye(side), np.array([[1, 1], [1, -1]])],
        epsilon=1,
        delta=delta,
        relation=relation,
    )
    x = np.array([3, 5])
    y = x + (np.array([1, 0]) if relation == "add-remove" else np.array([1, -1]))

    def release(factor: int) -> Callable[..., object]:
        def draw(counts: NDArray[np.int64], n: int) -> object:
            tables = np.tile(factor * counts, (side, 1))
            drawn = [matrix.release(tables).estimate / factor for _ in range(-(-n // side))]
            return np.concatenate(drawn)[:n] @ np.array([1, -1 if relation == "replace" else 0])

        return draw

    sound, twin = (sampled(release(f), x, y, matrix.loss) for f in (1, 4))
    case = f"{'Gaussian' if delta else 'Laplace'}, {relation}"
    power = "a strategy made four times larger after its sensitivity was taken"
    return AuditRow("MatrixMechanism", case, sound, twin, power, 2_400, 300_000)


AUDITS = (
    tree_audit(),
    root_audit(),
    strategy_audit("add-remove", None),
    strategy_audit("replace", None),
    strategy_audit("add-remove", "0.01"),
)
