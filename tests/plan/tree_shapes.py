"""Trees made by hand, and trees of them: drawn on demand, from true noise or from a given one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from discreet.catalog.types import Type
from discreet.mechanisms.additive import Additive
from discreet.noise.entropy import SystemEntropy
from discreet.plan.measures.lattice_value import LatticeValue
from discreet.plan.quantile_tree.shape import TreeShape
from discreet.plan.quantile_tree.tree import ExactLeaves, NoisyTree, children
from discreet.query.expr import Column

HALF = Fraction(1, 2)


def shape_of(leaves: int, fanout: int, depth: int) -> TreeShape:
    """Leaves that are the whole numbers from 0 on."""
    value = LatticeValue(Column("x", Type.INT), 0, leaves - 1, Fraction(1))
    return TreeShape(value, 1, None, fanout, depth)


def drawn(shape: TreeShape, weights: Mapping[int, int], noise: Additive) -> NoisyTree:
    """A tree whose nodes get their noise when they are looked at; each row is one step."""
    leaves, rng = ExactLeaves.of(weights), SystemEntropy()
    return NoisyTree(shape, noise, {}, is_row=True, draw=lambda i, j: tuple(noise.add(leaves.sums(shape, i, j), rng)))


def given(
    shape: TreeShape, weights: Mapping[int, int], noise: Additive, z: Callable[[int, int, int], int]
) -> NoisyTree:
    """A tree whose noise is a function of the node."""
    leaves = ExactLeaves.of(weights)

    def draw(level: int, place: int) -> tuple[int, ...]:
        exact = leaves.sums(shape, level, place)
        return tuple(w + z(level, place, i) for i, w in enumerate(exact))

    return NoisyTree(shape, noise, {}, is_row=True, draw=draw)


def whole(tree: NoisyTree) -> NoisyTree:
    """The tree with every node looked at, and no way to draw another."""
    shape = tree.shape
    for level in range(shape.depth):
        for place in range(-(-shape.leaves // shape.fanout ** (shape.depth - level))):
            assert len(tree.family(level, place) or ()) == len(children(shape, level, place))
    return NoisyTree(shape, tree.noise, tree.families, is_row=True)


def at(tree: NoisyTree, p: Fraction) -> int:
    """The quantile, where leaves are whole numbers."""
    found = tree.quantile(p, Type.INT)
    assert isinstance(found, int)
    return found
