"""A query whose counts of rows under conditions are read from one partition, in place of a column for each.

A condition is a formula of comparisons with constants; whatever else is true or false is taken as it stands. The
constants that one expression is compared with cut its values into regions: those below, at and above each of them, and
NULL. A cell is all rows that fulfil the same conditions; rows that fulfil none lie in no cell.

References: docs/proofs/partition.md.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.errors import DiscreetError
from discreet.plan.cost import sensitivity_of, tree_sensitivity
from discreet.plan.measures.lattice_value import LatticeValue
from discreet.plan.measures.measure import KnownCount, Measure
from discreet.plan.nodes.node import Measured, Node, measured_in
from discreet.plan.partition.strategy import chosen
from discreet.plan.quantile_tree.shape import TreeShape
from discreet.query.bind import call
from discreet.query.expr import Call, Expr, Literal, columns_of, finite

if TYPE_CHECKING:
    from discreet.plan.bound import BoundedQuery


def in_ratios(node: Node) -> list[Measured]:
    """Return the noisy columns that means and the like are made of, which have to be columns."""
    return [m for e in node.walk() if not e.children for m in measured_in(e) if m is not e]


def condition(measure: Measure) -> Expr | None:
    """Return the condition whose rows a measure counts: COUNT(CASE WHEN condition THEN 1 END); None for another
    measure.
    """
    if not isinstance(measure, KnownCount):
        return None
    match measure.argument:
        case Call("case", (where, Literal(value, _), Literal(None, _)), _) if value is not None:
            return where
    return None


def joint_tree(
    conditions: Sequence[Expr], b: BoundedQuery, *, gaussian: bool
) -> tuple[TreeShape, list[tuple[int, ...]]] | None:
    """Return the tree from which the rows under these conditions are counted, and for each condition its leaves; None
    where each is better counted by itself.
    """
    if len(conditions) < 2:
        return None
    cut = partition(conditions)
    if cut is None or not all(cut.inside) or cut.cells < 2:
        return None
    layers = chosen(cut.inside, cut.cells, _moved(b, cut.cells), gaussian=gaussian)
    if layers is None:
        return None
    place = LatticeValue(cut.place, 0, cut.cells - 1, Fraction(1))
    return TreeShape(place, 1, None, cut.cells, len(layers), layers), list(cut.inside)


def _moved(b: BoundedQuery, cells: int) -> tuple[float, float]:
    """Return the norms by which one unit moves a level of the cells, of those by which it moves one count."""
    one = sensitivity_of((0, 1), b.max_groups, b.keys.count, b.table.relation)
    level = tree_sensitivity(1, b.max_groups, b.keys.count, cells, b.table.relation)
    return level.l1 / one.l1, level.l2_squared / one.l2_squared


MOST_REGIONS = 2048
"""Combinations of regions that are looked at."""

MOST_CELLS = 200
"""Cells of a partition; the database compares each row with the ends of each."""

Truth: TypeAlias = NDArray[np.int8]
"""For each combination of regions 1 where something is true, 0 where it is false, −1 where it is unknown (NULL)."""


@dataclass(frozen=True, slots=True)
class Partition:
    """The cells of some conditions.

    Attributes:
        place: the cell of a row, a whole number; NULL where it is in none.
        cells: how many there are.
        inside: for each condition, the cells whose rows fulfil it.
    """

    place: Expr
    cells: int
    inside: tuple[tuple[int, ...], ...]


def partition(conditions: Sequence[Expr]) -> Partition | None:
    """Return the cells that conditions on a row cut all rows into; None where these are too many to be counted."""
    axes: dict[Expr, _Axis] = {}
    for condition in conditions:
        _collect(condition, axes)
    if not axes:
        return None
    every = [axis.ready() for axis in axes.values()]
    shape = tuple(axis.size for axis in every)
    if not 0 < math.prod(shape) <= MOST_REGIONS:
        return None
    grids = np.meshgrid(*(np.arange(-1, n - 1) for n in shape), indexing="ij")
    where = dict(zip(axes, zip(every, (g.ravel() for g in grids), strict=True), strict=True))
    fulfilled = np.array([_truth(c, where) == 1 for c in conditions])
    possible = np.logical_and.reduce([axis.possible(at) for axis, at in where.values()])
    places = np.full(fulfilled.shape[1], -1)
    found: dict[bytes, int] = {}
    for i in np.flatnonzero(fulfilled.any(axis=0) & possible):
        places[i] = found.setdefault(fulfilled[:, i].tobytes(), len(found))
    if not 0 < len(found) <= MOST_CELLS:
        return None
    inside = tuple(tuple(sorted({*places[row & possible].tolist()})) for row in fulfilled)
    place = _placed(every, places.reshape(shape), possible.reshape(shape))
    try:
        finite(place)
    except DiscreetError:  # too long to be written
        return None
    return Partition(place, len(found), inside)


class _Axis:
    """The regions of one expression: −1 is NULL. With constants c₀ < c₁ < …, 2i + 1 is cᵢ, 2i lies below it, and the
    last lies above all; where only equality is asked (texts), 0 is every other value. Without constants, of something
    true or false, 1 is true and 0 false.
    """

    __slots__ = ("cuts", "expr", "given")

    def __init__(self, expr: Expr) -> None:
        self.expr = expr
        self.given: set[Any] = set()
        self.cuts: list[Any] = []

    def ready(self) -> _Axis:
        """With its constants in order."""
        self.cuts = sorted(self.given)
        return self

    @property
    def is_truth(self) -> bool:
        return self.expr.type is Type.BOOL

    @property
    def size(self) -> int:
        """How many regions, NULL included."""
        return 3 if self.is_truth else 2 * len(self.cuts) + 2

    def possible(self, at: NDArray[Any]) -> NDArray[np.bool_]:
        """Where any value lies in the region: not between neighbouring whole numbers, nor beside the texts named."""
        found = np.ones(len(at), dtype=np.bool_)
        if self.expr.type is Type.TEXT:
            found &= (at <= 0) | (at % 2 == 1)
        elif self.expr.type is Type.INT:
            for i, (a, b) in enumerate(pairwise(self.cuts), start=1):
                found &= (at != 2 * i) | (b - a > 1)
        return found


_COMPARED: dict[str, Callable[[Any, int], Any]] = {
    "=": lambda at, cut: at == cut,
    "<>": lambda at, cut: at != cut,
    "<": lambda at, cut: at < cut,
    "<=": lambda at, cut: at <= cut,
    ">": lambda at, cut: at > cut,
    ">=": lambda at, cut: at >= cut,
}
_TURNED = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class _Comparison:
    """An expression, and the constants that it is compared with."""

    expr: Expr
    name: str
    constants: tuple[Any, ...]


def _collect(condition: Expr, axes: dict[Expr, _Axis]) -> None:
    """Note each expression that a condition compares, with the constants."""
    if parts := condition.args_of("and", "or", "not"):
        for part in parts:
            _collect(part, axes)
        return
    if condition.is_literal:
        return
    found = _comparison(condition)
    if found is None:
        axes.setdefault(condition, _Axis(condition))
    else:
        axes.setdefault(found.expr, _Axis(found.expr)).given.update(found.constants)


def _comparison(condition: Expr) -> _Comparison | None:
    """Return a comparison of an expression with constants; None for anything else."""
    if not isinstance(condition, Call):
        return None
    name, args = condition.name, condition.args
    if name in _TURNED and not columns_of(args[0]):
        name, args = _TURNED[name], args[::-1]
    if name == "is null":
        return _Comparison(args[0], name, ()) if _is_cut(args[0].type, "=") else None
    if name not in _TURNED and name != "in":
        return None
    kind = args[0].type
    if not columns_of(args[0]) or any(columns_of(a) for a in args[1:]) or not _is_cut(kind, name):
        return None
    values = [_constant(a) for a in args[1:]]
    whole = args[0].args_of("as double")
    if whole and whole[0].type is Type.INT:
        return _of_whole(whole[0], name, values)
    if any(not isinstance(v, _SORTED[kind]) or isinstance(v, bool) or v != v for v in values):
        return None
    return _Comparison(args[0], name, tuple(values))


def _of_whole(expr: Expr, name: str, values: Sequence[Scalar]) -> _Comparison | None:
    """Return a comparison of whole numbers with one real constant, as one with a whole constant."""
    (value,) = values if len(values) == 1 else (None,)
    if not isinstance(value, float) or not abs(value) < _EXACT:
        return None
    if value.is_integer():
        return _Comparison(expr, name, (int(value),))
    if name in ("<", ">="):
        return _Comparison(expr, name, (math.ceil(value),))
    return _Comparison(expr, name, (math.floor(value),)) if name in ("<=", ">") else None


_EXACT = 2.0**53  # below it, whole numbers are doubles

_SORTED: dict[Type | None, type | tuple[type, ...]] = {
    Type.INT: int,
    Type.REAL: float,
    Type.DATE: dt.date,
    Type.TIMESTAMP: dt.datetime,
    Type.TEXT: str,
}


def _is_cut(kind: Type | None, name: str) -> bool:
    """Whether constants cut the values of a type in an order that is known; texts are only told apart."""
    return kind in _SORTED and (kind is not Type.TEXT or name in ("=", "<>", "in"))


def _constant(expr: Expr) -> Scalar:
    """Return the value of an expression that reads no column."""
    try:
        return expr.of_row({})
    except (TypeError, KeyError):
        return None


def _truth(condition: Expr, where: Mapping[Expr, tuple[_Axis, NDArray[Any]]]) -> Truth:
    """Return the truth of a condition in each combination of regions."""
    match condition:
        case Call("not", (inner,), _):
            truth = _truth(inner, where)
            return np.where(truth < 0, -1, 1 - truth).astype(np.int8)
        case Call("and" | "or", args, _):
            parts = [_truth(p, where) for p in args]
            # one part that is so is enough; else one unknown leaves it unknown
            decides = int(condition.name == "or")
            decided = np.logical_or.reduce([p == decides for p in parts])
            unknown = np.logical_or.reduce([p < 0 for p in parts])
            return np.where(decided, decides, np.where(unknown, -1, 1 - decides)).astype(np.int8)
        case Literal(value, _):
            size = len(next(iter(where.values()))[1])
            return np.full(size, -1 if value is None else int(bool(value)), dtype=np.int8)
    found = _comparison(condition)
    if found is None:
        return where[condition][1].astype(np.int8)
    axis, at = where[found.expr]
    if found.name == "is null":
        return (at < 0).astype(np.int8)
    name = "=" if found.name == "in" else found.name
    cuts = [2 * axis.cuts.index(c) + 1 for c in found.constants]
    true = np.logical_or.reduce([_COMPARED[name](at, cut) for cut in cuts])
    return np.where(at < 0, -1, true).astype(np.int8)


def _placed(axes: Sequence[_Axis], places: NDArray[Any], possible: NDArray[np.bool_]) -> Expr:
    """CASE by CASE, the cell of a row; what is not possible is as its neighbour, so that it needs no arm."""
    left = {*places[possible].tolist()}
    if len(left) < 2 or not axes:
        only = left.pop() if left else -1
        return Literal(None if only < 0 else only, None if only < 0 else Type.INT)
    axis, rest = axes[0], axes[1:]
    subs = {i - 1: _placed(rest, places[i], possible[i]) for i in range(len(places)) if possible[i].any()}
    ordered = not (axis.is_truth or axis.expr.type is Type.TEXT)
    otherwise = subs[max(subs) if ordered else 0]  # NULL as well, which no comparison is true of
    arms: list[Expr] = []
    if subs[-1] != otherwise:
        arms += [call("is null", [axis.expr]), subs[-1]]
    known = sorted(r for r in subs if r >= 0)
    if axis.is_truth:
        arms += [axis.expr, subs[1]] if subs[1] != otherwise else []
    elif ordered:
        for r, following in pairwise(known):
            if subs[r] != subs[following]:
                arms += [call("<=" if r % 2 else "<", [axis.expr, _literal(axis, r)]), subs[r]]
    else:
        for r in known:
            arms += [call("=", [axis.expr, _literal(axis, r)]), subs[r]] if subs[r] != otherwise else []
    return call("case", [*arms, otherwise]) if arms else otherwise


def _literal(axis: _Axis, region: int) -> Literal:
    """Return the constant at a region, or above it."""
    return Literal(axis.cuts[region // 2], axis.expr.type)
