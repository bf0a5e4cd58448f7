"""How the rows of a group lie over public bins of a column: what quantiles, extremes and modes are read from.

A quantile tree is a tree of counts. Its leaves are the listed values of a column, whole numbers, or equal parts of a
range; each node holds the weight of the rows below it. What is asked of a tree later (`tree.py`) is read from noisy
nodes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Never

from discreet.catalog.schema import Fact, Range, Scalar, Values
from discreet.catalog.types import Type
from discreet.errors import InvalidParameter, MissingBounds, MissingFact, UnsupportedQuery
from discreet.plan.measures.lattice_value import WIDEST, LatticeValue, lattice_value
from discreet.plan.measures.measure import Measure, Name, Part, Tally
from discreet.query.bind import call
from discreet.query.expr import Call, Expr, Literal, cells_of, columns_of
from discreet.query.functions.calendar import EPOCH
from discreet.query.keys import domain

STEPS = 1 << 20
"""Steps of weight in one row, where a unit has many: a unit with more rows than it may have gives each of them less."""

MOST_LEAVES = 1 << 16
"""Leaves of a tree: 4 levels of 16."""

MOST_LISTED = 200
"""Listed values that are leaves of their own; the database compares each row with each of them."""


@dataclass(frozen=True, slots=True)
class TreeShape(Measure):
    """The weights of the leaves of one column, and the sums of them up a tree.

    Guarantee:
        A unit adds a weight to the leaves of a group of at most `total(max_rows)` steps in all, and so does it to the
        nodes of each level of the tree, whatever the rows hold (docs/proofs/quantile-trees.md).

    Attributes:
        value: the column as whole steps of a public grid; where it is listed, as places in the list.
        width: how many steps make one leaf.
        listed: the values of the leaves in their order; None where they follow from the grid.
        fanout: children of a node.
        depth: levels of nodes below the root, whose own weight is never measured.
        layers: where conditions are counted, the leaves of each node of each level; None for a tree.
    """

    value: LatticeValue
    width: int
    listed: tuple[Scalar, ...] | None
    fanout: int
    depth: int
    layers: tuple[tuple[tuple[int, ...], ...], ...] | None = None

    def __hash__(self) -> int:  # trees are looked up often, and few are alike
        return hash((self.value.low, self.value.high, self.width, self.fanout, self.depth))

    def __post_init__(self) -> None:
        for layer in self.layers or ():
            below = [leaf for node in layer for leaf in node]
            if len(set(below)) != len(below):
                raise InvalidParameter("the nodes of a level must lie apart.")
        if self.layers is not None and len(self.layers) != self.depth:
            raise InvalidParameter("each level has its nodes.")

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return (self.value.high - self.value.low) // self.width + 1

    def steps(self, *, is_row: bool) -> int:
        """Return the steps of weight in one row: a single one where each row is a unit."""
        return 1 if is_row else STEPS

    def rows(self, steps: int, *, is_row: bool) -> float:
        """How far noise of so many steps moves the number of rows of a leaf at most, rounding included."""
        return steps / self.steps(is_row=is_row) + (0.0 if is_row else 0.5)

    def total(self, max_rows: int, *, is_row: bool = False) -> int:
        """Return the most weight that a unit adds to a group."""
        return max_rows * self.steps(is_row=is_row)  # at most 2^51, as max_rows is at most 2^31

    @property
    def parts(self) -> tuple[Part, ...]:
        return ((Tally.KNOWN, self.value),)

    def clipped(self, name: Name, max_rows: int) -> str:
        """Return SQL for the weight of each row of a unit in a group: n rows of total//max(n, max_rows) are ≤ total."""
        return f"{self.total(max_rows)} // greatest({name(self.parts[0])}, {max_rows})"

    def summed(self, column: Name) -> str:
        return "count(*)"

    def span(self, max_rows: int) -> tuple[int, int]:
        return 0, self.total(max_rows)

    @property
    def identity(self) -> Any:
        listed = None if self.listed is None else [[type(v).__name__, str(v)] for v in self.listed]
        described = ["tree", self.value.identity, self.width, listed, self.fanout, self.depth]
        return described if self.layers is None else [*described, [[list(n) for n in x] for x in self.layers]]

    @property
    def step(self) -> Fraction:
        return Fraction(1, STEPS)

    @property
    def word(self) -> str:
        if self.layers is not None:
            return f"how rows spread over the {self.leaves:,} cells that conditions tell apart"
        if self.listed is not None:
            return f"how rows spread over {self.leaves:,} values"
        kind = "whole numbers" if self.value.is_whole and self.width == 1 else "parts of the range"
        tree = "" if self.depth == 1 else f", a tree of {self.depth} levels of {self.fanout}"
        return f"how rows spread over {self.leaves:,} {kind}{tree}"

    def at(self, leaf: int, kind: Type) -> Scalar:
        """Return the value that stands for a leaf: its own, or the middle of its part of the range; a date or time for
        its number of days or seconds since 1970.
        """
        if kind.is_moment:
            found = self.at(leaf, Type.INT)
            if not isinstance(found, int):
                return found
            of = dt.timedelta(days=found) if kind is Type.DATE else dt.timedelta(seconds=found)
            return (EPOCH.date() if kind is Type.DATE else EPOCH) + of
        if self.listed is not None:
            found = self.listed[leaf]
            return float(found) if kind is Type.REAL and isinstance(found, int | float) else found
        first, last = self._ends(leaf)
        middle = Fraction(first + last, 2)
        if kind is Type.INT:
            return (first + last) // 2 if self.value.is_whole else round(middle * self.value.step)
        return float(middle * self.value.step)

    def reach(self, first: int, last: int) -> tuple[float, float]:
        """Return the least and the greatest number that two leaves and all between them stand for."""
        if self.listed is not None:
            ends = self.listed[first], self.listed[last]
            assert isinstance(ends[0], int | float) and isinstance(ends[1], int | float)
            return float(ends[0]), float(ends[1])
        step = self.value.step
        return float(self._ends(first)[0] * step), float(self._ends(last)[1] * step)

    def _ends(self, leaf: int) -> tuple[int, int]:
        """Return the first and the last grid step of a leaf."""
        first = self.value.low + leaf * self.width
        return first, min(first + self.width - 1, self.value.high)


@dataclass(frozen=True, slots=True)
class TreeRead:
    """A tree, and the quantiles that are read from it: they say which of its nodes are looked at."""

    shape: TreeShape
    at: tuple[Fraction, ...]

    @property
    def identity(self) -> Any:
        """What makes two of them the same, as JSON."""
        return [self.shape.identity, [str(p) for p in self.at]]


def ordered_tree(expr: Expr, facts: Mapping[str, Fact]) -> TreeShape:
    """Return the tree of a number, for quantiles: leaves are its listed values, whole numbers, or parts of its range.

    Raises:
        MissingBounds, UnsupportedQuery: its bounds are not declared, or it has no order that is answered.
    """
    if expr.type is None or not expr.type.is_number:
        kind = "NULL" if expr.type is None else expr.type.word
        raise UnsupportedQuery(f"Quantiles, MIN and MAX are supported for numbers, not for {kind}.", hint=_AS_NUMBER)
    listed = _listed(expr, facts)
    if listed is not None:
        return _of_list(expr, listed, flat=False)
    value = _lattice(expr, facts)
    steps = value.high - value.low + 1
    if steps > WIDEST:
        raise InvalidParameter(
            "The bounds of the values are too wide for a quantile: more than 2^62 whole numbers.",
            hint="declare narrower bounds (dp.Range)",
        )
    width = -(-steps // MOST_LEAVES)
    return TreeShape(value, width, None, *_shape(-(-steps // width)))


def counted_tree(expr: Expr, facts: Mapping[str, Fact]) -> TreeShape:
    """Return the tree of a column of which each value is a leaf, for MODE.

    Raises:
        MissingBounds, UnsupportedQuery: its values are not declared, or are too many.
    """
    listed = _listed(expr, facts)
    if listed is not None:
        return _of_list(expr, listed, flat=True)
    if expr.type is not Type.INT:
        _refuse_unlisted(expr)
    value = _lattice(expr, facts)
    if value.high - value.low >= MOST_LEAVES:
        raise UnsupportedQuery(
            f"MODE is supported for at most {MOST_LEAVES:,} whole numbers; the declared range has more.",
            hint="count coarser values: MODE(x // 100)",
        )
    return TreeShape(value, 1, None, max(value.high - value.low + 1, 1), 1)


def _lattice(expr: Expr, facts: Mapping[str, Fact]) -> LatticeValue:
    """Return the column as whole steps of a grid; what is missing is said of quantiles."""
    try:
        return lattice_value(expr, facts)
    except (MissingBounds, InvalidParameter) as error:
        said = error.message
        for words in ("SUM and AVG", "SUM or AVG"):
            said = said.replace(words, "quantiles, MIN, MAX and MODE")
        raise type(error)(said[:1].upper() + said[1:], hint=error.hint, missing=error.missing) from None


_AS_NUMBER = "ask for a number of it, such as date_part('year', x), or CAST it to DOUBLE and declare its bounds"


def _of_list(expr: Expr, values: tuple[Scalar, ...], *, flat: bool) -> TreeShape:
    """Leaves by their places in the list; a row with another value has no place, and is not counted."""
    arms: list[Expr] = []
    for i, v in enumerate(values):
        arms += [call("=", [expr, Literal(v, expr.type)]), Literal(i, Type.INT)]
    place = call("case", [*arms, Literal(None, None)])
    lattice = LatticeValue(place, 0, len(values) - 1, Fraction(1))
    shape = (len(values), 1) if flat else _shape(len(values))
    return TreeShape(lattice, 1, values, *shape)


def _listed(expr: Expr, facts: Mapping[str, Fact]) -> tuple[Scalar, ...] | None:
    """Return the public values of an expression over columns with listed ones, in their order; None where there are
    none.
    """
    value = _kept(expr)
    if value.type is Type.BOOL:
        return False, True
    names = columns_of(value)
    number = value.type is not None and value.type.is_number
    if not names or not all(_has_list(facts.get(n), number=number) for n in names):
        return None
    found = domain(value, facts, MOST_LEAVES)
    values = [v for v in found or () if v is not None]
    if not values or (len(values) > MOST_LISTED and number):
        return None
    if len(values) > MOST_LISTED:
        raise UnsupportedQuery(
            f"MODE is supported for at most {MOST_LISTED} listed values; here are {len(values)}.", hint=_BY_GROUP
        )
    return tuple(sorted(values))


def _has_list(fact: Fact | None, *, number: bool) -> bool:
    """Whether a column has listed values; whole numbers of a range have a grid of their own, unless words are made of
    them.
    """
    few = isinstance(fact, Range) and fact.integer and fact.high - fact.low < MOST_LISTED
    return isinstance(fact, Values) or (few and not number)


def _kept(expr: Expr) -> Expr:
    """Return the value of CASE WHEN condition THEN value END, as FILTER is written."""
    match expr:
        case Call("case", (_, value, Literal(None, _)), _):
            return value
        case _:
            return expr


_BY_GROUP = "count them instead: SELECT x, COUNT(*) AS n ... GROUP BY x ORDER BY n DESC LIMIT 1"


def _refuse_unlisted(expr: Expr) -> Never:
    names = [e.name for e in cells_of(_kept(expr))]
    listed = f"declare the values of {names[0]!r} with dp.Values" if names else "declare its values"
    if expr.type is Type.REAL:
        raise UnsupportedQuery(
            "MODE needs values that can be counted one by one.", hint=f"MODE(CAST(x AS BIGINT)) has them; or {listed}"
        )
    raise MissingBounds(
        "MODE needs the list of values, which must not be read from the data.",
        hint=f"{listed}; or {_BY_GROUP}",
        missing=[
            MissingFact("values", f"the values of {n!r}", f"columns={{{n!r}: dp.Values('A', 'B')}}", column=n)
            for n in names[:1]
        ],
    )


def _shape(leaves: int) -> tuple[int, int]:
    """(fan-out, depth) of the tree in which the rank of a value is least noisy.

    A rank sums about (fan-out)/4 nodes of each of `depth` levels, each of which has 1/depth of the budget and so
    depth² of the variance.
    """
    best = min(range(1, 17), key=lambda d: (_root(leaves, d) + 1) * d**3)
    return _root(leaves, best), best


def _root(leaves: int, depth: int) -> int:
    """Return the least fan-out of a tree of this depth with so many leaves."""
    fanout: int = max(round(leaves ** (1 / depth)) - 1, 1)
    while fanout**depth < leaves:
        fanout += 1
    return fanout
