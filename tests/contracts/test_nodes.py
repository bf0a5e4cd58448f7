"""The contract of answer nodes: each class has a row with what an outsider knows, and broken twins are caught."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction as F
from itertools import pairwise
from typing import Any, overload

import numpy as np
import pytest

from discreet.catalog.types import Type
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise
from discreet.plan.aggregates.nested import ListOf
from discreet.plan.nodes.covariance import Covariance
from discreet.plan.nodes.mean import Mean
from discreet.plan.nodes.node import Answer, Applied, Constant, Key, Measured, Node, RowInterval, measured_in
from discreet.plan.nodes.noise import Laws
from discreet.plan.nodes.of_tree import Histogram, Mode, Quantile, Top, Within
from discreet.plan.nodes.slope import Slope
from discreet.plan.quantile_tree.shape import TreeShape
from discreet.plan.quantile_tree.tree import NoisyTree
from discreet.plan.question import tree_reads
from discreet.plan.rules.recentred import Recentred
from discreet.query.functions.calendar import EPOCH
from tests.plan.tree_shapes import given, shape_of, whole

CONFIDENCES = (F(9, 10), F(19, 20), F(999, 1000))
NOISE = DiscreteLaplaceNoise(F(3))

# 400 rows of two numbers in steps of 1/8, within ±4; their exact sums, and those of their products in steps of 1/64.
X = (np.arange(400) * 37) % 65 - 32
Y = (X + (np.arange(400) * 11) % 33 - 16) // 2
EIGHTH, SQUARE, ROOM = F(1, 8), F(1, 64), F(16)
COLUMNS = tuple(int(n) for n in (len(X), X.sum(), Y.sum(), (X * X).sum(), (X * Y).sum()))
COUNT = Measured(0, F(1), Type.INT)
MEAN_X, MEAN_Y = (Mean(Measured(i, EIGHTH, Type.REAL), COUNT, F(0), F(-4), F(4)) for i in (1, 2))
OF_SQUARES, OF_PRODUCTS = (
    Mean(Measured(i, SQUARE, Type.REAL), COUNT, F(0), low, ROOM) for i, low in ((3, F(0)), (4, -ROOM))
)
VARIANCE = Covariance(OF_SQUARES, MEAN_X, MEAN_X, F(0), ROOM, sample=False)
COVARIANCE = Covariance(OF_PRODUCTS, MEAN_X, MEAN_Y, -ROOM, ROOM, sample=False)
COVARIANCES = np.cov(X / 8, Y / 8, ddof=0)

# A tree of 64 leaves, leaves of one level, and a partition of 6 cells.
TREE, FLAT = shape_of(64, 4, 3), shape_of(9, 9, 1)
CELLS = replace(shape_of(6, 6, 1), layers=(tuple((i,) for i in range(6)),))
WEIGHTS: dict[TreeShape, dict[int, int]] = {
    TREE: dict.fromkeys(range(10, 51), 20),
    FLAT: {0: 40, 3: 200, 4: 90, 7: 150},
    CELLS: {0: 30, 1: 50, 2: 70, 5: 11},
}
LAWS = Laws((NOISE,) * len(COLUMNS), dict.fromkeys(WEIGHTS, NOISE), is_row=True)
KEYS = ("north", 3)


def tree_of(shape: TreeShape) -> NoisyTree:
    """A tree without noise in it, of which noise is known."""
    tree = given(shape, WEIGHTS[shape], NOISE, lambda *_: 0)
    if shape.layers is None:
        return whole(tree)
    return NoisyTree(shape, NOISE, {(0, 0): tree.family(0, 0) or ()}, is_row=True)


TREES = {shape: tree_of(shape) for shape in WEIGHTS}


@dataclass(frozen=True)
class Row:
    """A node, and its value where there is no noise, from the data."""

    node: Node
    truth: Any


ROWS = {
    "key": Row(Key(1, Type.INT), 3),
    "literal": Row(Constant(2.5, Type.REAL), 2.5),
    "count": Row(COUNT, 400),
    "sum": Row(MEAN_Y.numerator, Y.sum() / 8),
    "recentred": Row(Recentred(MEAN_X.numerator, COUNT, F(5), Type.REAL, F(1)), (X / 8 + 5).sum()),
    "mean": Row(MEAN_X, X.mean() / 8),
    "variance": Row(VARIANCE, COVARIANCES[0, 0]),
    "sample": Row(replace(VARIANCE, sample=True), np.var(X / 8, ddof=1)),
    "covariance": Row(COVARIANCE, COVARIANCES[0, 1]),
    "slope": Row(Slope(COVARIANCE, VARIANCE, F(1, 1024), F(1024)), np.polyfit(X / 8, Y / 8, 1)[0]),
    "median": Row(Quantile(TREE, F(1, 2), Type.INT), 30),
    "least": Row(Quantile(TREE, F(0), Type.REAL), 10.0),
    "mode": Row(Mode(FLAT, Type.INT), 3),
    "top": Row(Top(FLAT, 2, Type.INT), [3, 7]),
    "histogram": Row(Histogram(FLAT, Type.INT), {i: WEIGHTS[FLAT].get(i, 0) for i in range(9)}),
    "within": Row(Within(CELLS, (0, 2, 5)), 111),
    "list": Row(ListOf(tuple(Quantile(TREE, p, Type.INT) for p in (F(1, 4), F(3, 4)))), [20, 40]),
    "affine": Row(Applied("+", (COUNT, Constant(5, Type.INT)), Type.INT), 405),
    "difference": Row(Applied("-", (Within(CELLS, (1,)), Within(CELLS, (5,))), Type.INT), 39),
    "root": Row(Applied("sqrt", (VARIANCE,), Type.REAL), np.sqrt(COVARIANCES[0, 0])),
    "date": Row(
        Applied("date + days", (Constant(EPOCH.date(), Type.DATE), Mode(FLAT, Type.INT)), Type.DATE),
        dt.date(1970, 1, 4),
    ),
}


class Watched(Sequence[Any]):
    """Cells, keys or trees that note what is read of them."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values, self.read = values, set[int]()

    @overload
    def __getitem__(self, i: int) -> Any: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[Any]: ...
    def __getitem__(self, i: int | slice) -> Any:
        assert isinstance(i, int)
        self.read.add(i)
        return self.values[i]

    def __len__(self) -> int:
        return len(self.values)


class WatchedTrees(dict[TreeShape, NoisyTree]):
    """Trees that note which are read."""

    def __init__(self, trees: Mapping[TreeShape, NoisyTree]) -> None:
        super().__init__(trees)
        self.read = set[TreeShape]()

    def __getitem__(self, shape: TreeShape) -> NoisyTree:
        self.read.add(shape)
        return super().__getitem__(shape)


def value(node: Node, cells: Sequence[int] = COLUMNS) -> Any:
    return node.compiled()(KEYS, (*cells, TREES))


def ends(found: Any) -> Iterator[tuple[Any, Any]]:
    """The pairs in what an interval is."""
    if isinstance(found, tuple):
        yield found
    elif isinstance(found, dict):
        yield from found.values()
    elif found is not None:
        for inner in found:
            yield from ends(inner)


def interval(node: Node, confidence: F, cells: Sequence[int] = COLUMNS) -> list[tuple[Any, Any]]:
    return list(ends(node.interval(LAWS.columns, confidence)(KEYS, (*cells, TREES))))


def values(found: Any) -> list[Any]:
    """The single values of a cell."""
    return list(found.values()) if isinstance(found, dict) else found if isinstance(found, list) else [found]


def says_the_truth(row: Row) -> None:
    """Without noise the value is the truth; the interval holds it and the truth, after a little noise as well."""
    wanted = values(row.truth)
    for found, truth in zip(values(value(row.node)), wanted, strict=True):
        assert found == (truth if isinstance(truth, dt.date) else pytest.approx(truth))
    for z in (0, -1, 1):
        cells = [c + z * (-1) ** i for i, c in enumerate(COLUMNS)]
        now, held = values(value(row.node, cells)), interval(row.node, F(19, 20), cells)
        assert len(held) == len(now) or not row.node.has_interval
        for (low, high), truth, x in zip(held, wanted, now, strict=True):
            assert low <= x <= high and low <= truth <= high


def widens(row: Row) -> None:
    """An interval holds those of less confidence."""
    for less, more in pairwise([interval(row.node, c) for c in CONFIDENCES]):
        for (a, b), (c, d) in zip(less, more, strict=True):
            assert c <= a <= b <= d


def names_what_it_reads(row: Row) -> None:
    """Keys, noisy columns and trees that are read for value and interval are those that it names."""
    node = row.node
    for what in (node.compiled(), node.interval(LAWS.columns, F(19, 20))):
        keys, trees = Watched(KEYS), WatchedTrees(TREES)
        cells = Watched((*COLUMNS, trees))
        what(keys, cells)
        assert keys.read == {e.key for e in node.walk() if e.key is not None}
        assert cells.read - {-1} == {m.index for m in measured_in(node)}
        assert trees.read == {tree_read.shape for tree_read in tree_reads([node])}


def keeps_its_parts(row: Row) -> None:
    """A change of nothing gives the same node; other places of columns, the same value there."""
    node = row.node
    assert node.map_children(lambda e: e) == node
    assert node.with_columns(lambda m: m) == node
    moved = node.with_columns(lambda m: replace(m, index=m.index + 2))
    assert [m.index for m in measured_in(moved)] == [m.index + 2 for m in measured_in(node)]
    assert value(moved, (0, 0, *COLUMNS)) == value(node)


def errors_are_those_of_intervals(row: Row) -> None:
    """An error that is known before the data is how far the interval reaches, give or take rounding to whole rows; one
    that follows from a number of rows falls with it, and all grow with the confidence.
    """
    node, errors = row.node, [row.node.known_error(LAWS, c) for c in CONFIDENCES]
    for error, confidence in zip(errors, CONFIDENCES, strict=True):
        for (low, high), x in zip(interval(node, confidence), values(value(node)), strict=True):
            assert error is None or error - 1.5 <= max(x - low, high - x) <= error + 1e-9
    assert errors == sorted(errors, key=lambda e: e or 0)
    if node.over is not None:
        of_rows = [[node.error_over(n, LAWS.columns, c) for n in (10_000, 400, 100)] for c in CONFIDENCES]
        assert all(error > 0 and line == sorted(line) for line in of_rows for error in line)
        assert all(a <= b for less, more in pairwise(of_rows) for a, b in zip(less, more, strict=True))


def is_never_below(row: Row) -> None:
    """No exact value is below the lowest one that is named."""
    lowest = row.node.lowest([c >= 0 for c in COLUMNS])
    assert lowest == -np.inf or all(x >= lowest for x in values(row.truth))


CONTRACT = (says_the_truth, widens, names_what_it_reads, keeps_its_parts, errors_are_those_of_intervals, is_never_below)


@pytest.mark.parametrize("law", CONTRACT)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_nodes_keep_the_contract(row: Row, law: Callable[[Row], None]) -> None:
    law(row)


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_what_is_no_part_of_a_row_is_not_computed_there(row: Row) -> None:
    if not {type(e) for e in row.node.walk()} <= {Constant, Applied}:
        with pytest.raises(TypeError, match="not"):
            row.node.of_row({})
        with pytest.raises(TypeError, match="not"):
            _ = row.node.identity


def subclasses(kind: type[Node]) -> Iterator[type[Node]]:
    for sub in kind.__subclasses__():
        yield sub
        yield from subclasses(sub)


def test_every_class_of_nodes_has_a_row() -> None:
    own = [kind for kind in subclasses(Node) if kind.__module__.startswith("discreet.")]
    names = {kind.__name__ for kind in own if hasattr(kind, "__dataclass_fields__")}
    assert names == {type(row.node).__name__ for row in ROWS.values()}


class Doubled(Measured):
    """Its value is twice the column."""

    def compiled(self) -> Answer:
        return lambda _keys, cells: 2 * cells[self.index]


class Sure(Mean):
    """Its interval is a point."""

    def atom_interval(self, noises: Sequence[Additive], level: F) -> RowInterval:
        return lambda keys, cells: (found := self.compiled()(keys, cells), found)


class Shrinking(Mean):
    """Its interval shrinks as the confidence grows."""

    def atom_interval(self, noises: Sequence[Additive], level: F) -> RowInterval:
        return Mean.atom_interval(self, noises, F(19, 20) - level / 2)


class Secretive(Measured):
    """It reads a column that it does not name."""

    def compiled(self) -> Answer:
        return lambda _keys, cells: cells[self.index] + 0 * cells[0]


class Rooted(Mean):
    """Its columns stay where they are."""

    def with_columns(self, change: Callable[[Measured], Any]) -> Mean:
        return self


class Unmoved(Recentred):
    """The noise of its count is left out of its error."""

    def known_error(self, laws: Laws, confidence: F) -> float | None:
        return self.total.known_error(laws, confidence)


class Losing(ListOf):
    """It loses its last value when parts are replaced."""

    def map_children(self, change: Callable[[Any], Any]) -> Losing:
        return replace(self, items=tuple(change(e) for e in self.items[:-1]))


class Modest(Within):
    """The error that it names is too small."""

    def known_error(self, laws: Laws, confidence: F) -> float:
        return 1.0


class Optimist(Within):
    """It names too large a lowest value."""

    def lowest(self, places: Sequence[bool]) -> float:
        return 112.0


def twin(kind: type[Any], name: str) -> Row:
    """The row of a node with another class."""
    row = ROWS[name]
    parts = {f.name: getattr(row.node, f.name) for f in dataclasses.fields(row.node)}  # type: ignore[arg-type]  # a node
    return replace(row, node=kind(**parts))


@pytest.mark.parametrize(
    ("kind", "name", "law"),
    [
        (Doubled, "count", says_the_truth),
        (Sure, "mean", says_the_truth),
        (Shrinking, "mean", widens),
        (Secretive, "sum", names_what_it_reads),
        (Rooted, "mean", names_what_it_reads),
        (Rooted, "mean", keeps_its_parts),
        (Unmoved, "recentred", errors_are_those_of_intervals),
        (Losing, "list", keeps_its_parts),
        (Modest, "within", errors_are_those_of_intervals),
        (Optimist, "within", is_never_below),
    ],
)
def test_broken_twins_are_caught(kind: type[Any], name: str, law: Callable[[Row], None]) -> None:
    with pytest.raises(AssertionError):
        law(twin(kind, name))
