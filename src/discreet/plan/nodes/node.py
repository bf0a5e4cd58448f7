"""Nodes of a result, frozen: expressions over its group keys and noisy columns, with their operations.

`Constant`, `Applied`, `Measured` and the other files of `plan/nodes` are all of them. An operation of `Node` is that of
a node of which nothing is known.

Guarantee:
    Values and intervals are post-processing of noisy numbers. For each row and column, the interval contains the
    bounded result (the value without noise, caps and bounds applied) with probability at least `confidence` over the
    noise, whatever the data: affine columns by the exact law of their noise, what has an interval of its own
    (`is_atom`) by that, anything else by interval arithmetic on a box that holds all of its noisy terms at once
    (Bonferroni). Where the bounded result may be NULL somewhere in the box, the interval is (−∞, ∞).
"""

from __future__ import annotations

import datetime as dt
import math
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, TypeAlias

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.mechanisms.additive import Additive
from discreet.plan.nodes.noise import Laws, Terms, quantile
from discreet.plan.partition.counted import Combined
from discreet.query.expr import Call, Expr, Literal, applied
from discreet.query.functions import image
from discreet.query.functions.calendar import moment_range, moments
from discreet.query.functions.function import EVERYTHING, Interval
from discreet.query.functions.logic import hull, truth

Answer: TypeAlias = Callable[[Sequence[Scalar], Sequence[Any]], Any]
"""From a row's keys and noisy integers to a value; where trees are read, their noisy trees come last, by tree."""

RowInterval: TypeAlias = Callable[[Sequence[Scalar], Sequence[Any]], tuple[float, float] | None]
"""From a row's keys and noisy integers to an interval; None where the column is no number."""

Affine: TypeAlias = tuple[Fraction, dict[int, Fraction]]
"""A constant, and the coefficient of each noisy integer."""

Known: TypeAlias = Mapping["Node", tuple[float, float] | None]
"""Where noisy terms lie; None for one that is no number."""


class Node(Expr):
    """A node of a result: its value, and how far the noise may move it."""

    __slots__ = ()

    is_atom: ClassVar[bool] = False
    """Whether it has an interval of its own, which does not follow from those of its parts."""
    is_drawn: ClassVar[bool] = False
    """Whether it is one noisy number, as it was drawn or read from a partition."""

    # What it is made of.

    @property
    def children(self) -> tuple[Node, ...]:
        return ()

    def walk(self) -> Iterator[Node]:
        """Yield the node and all below it."""
        yield self
        for node in self.children:
            yield from node.walk()

    def with_columns(self, change: Callable[[Measured], Node]) -> Node:
        """Return the tree with each noisy column replaced; one that a mean is made of, by a noisy column."""
        return self.map_children(lambda node: node.with_columns(change))

    @property
    def key(self) -> int | None:
        """The place of the group key that it is."""
        return None

    @property
    def source(self) -> Hashable | None:
        """The tree that the node itself is read from."""
        return None

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The shares of its weight at which the tree is read."""
        return ()

    # Over a row of the noisy table.

    def compiled(self) -> Answer:
        """Return the value as a function of a row of the noisy table; an error is None, as in SQL it is NULL."""
        raise TypeError(f"{type(self).__name__} is not part of the result")

    def affine(self) -> Affine | None:
        """(constant, index → coefficient) when it is affine in the noisy integers, and all that it is made of is far
        within what doubles hold: beyond, the result is NULL at times.
        """
        found = self._affine()
        if found is None or any(abs(x) > _FAR for x in (found[0], *found[1].values())):
            return None
        return found

    def _affine(self) -> Affine | None:
        return None

    def counts(self) -> Combined | None:
        """Return what it is when it is affine in counts from one partition."""
        return None

    def atoms(self) -> list[Node]:
        """Return the largest noisy terms whose own intervals are known."""
        affine = self.affine()
        if affine is not None:
            return [self] if affine[1] else []
        if self.is_atom or self.counts() is not None:
            return [self]
        return list(dict.fromkeys(a for e in self.children for a in e.atoms()))

    def atom_interval(self, noises: Sequence[Additive], level: Fraction) -> RowInterval:
        """Return the interval of an atom, as a function of the released row."""
        counts, affine = self.counts(), self.affine()
        if counts is not None:
            return _of_partition(counts, self.compiled(), level)
        assert affine is not None
        constant, coefficients = affine
        t = quantile(_terms(coefficients, noises), level)

        def row(_keys: Sequence[Scalar], cells: Sequence[Any]) -> tuple[float, float]:
            x = float(constant + sum(c * cells[i] for i, c in coefficients.items()))
            return x - t, x + t

        return row

    def bounded(self, known: Known, keys: Sequence[Scalar]) -> tuple[Interval, bool]:
        """Return an interval for the values while noisy terms lie in known ones, and whether it surely is a value,
        never NULL. A truth value is 0 or 1.
        """
        return (known[self] or EVERYTHING, True) if self in known else self._bounded(known, keys)

    def _bounded(self, known: Known, keys: Sequence[Scalar]) -> tuple[Interval, bool]:
        return EVERYTHING, False

    def number_interval(self, noises: Sequence[Additive], confidence: Fraction) -> RowInterval:
        """Return the interval of a number or date, as a function of the released row; dates are microseconds since
        1970.
        """
        terms = self.atoms()
        if self.type is None or not (self.type.is_number or (self.type.is_moment and terms)):
            return lambda _keys, _cells: None
        if not terms:
            value = self.compiled()
            return lambda keys, cells: point(value(keys, cells))
        level = 1 - (1 - confidence) / len(terms)
        found = {a: a.atom_interval(noises, level) for a in terms}

        def row(keys: Sequence[Scalar], cells: Sequence[Any]) -> tuple[float, float] | None:
            (low, high), sure = self.bounded({a: f(keys, cells) for a, f in found.items()}, keys)
            return (float(low), float(high)) if sure else (-math.inf, math.inf)

        return row

    def interval(self, noises: Sequence[Additive], confidence: Fraction) -> Answer:
        """Return the interval as a function of the released row, in the shape of the cell: of a list or map, of each of
        its values; None where there is none.
        """
        kind, found = self.type, self.number_interval(noises, confidence)
        if kind is None or not kind.is_moment:
            return found

        def of_moment(keys: Sequence[Scalar], cells: Sequence[Any]) -> Any:
            ends = found(keys, cells)
            return None if ends is None else moments(*ends, kind)

        return of_moment

    @property
    def has_interval(self) -> bool:
        """Whether cells of the column have intervals, rather than being public or words."""
        return self.type is not None and (self.type.is_number or self.type.is_moment) and bool(self.atoms())

    def raised(self, cells: Sequence[Any]) -> tuple[Any, ...]:
        """Return a row's noisy integers, moved so that it is not below 0 where its exact value cannot be."""
        return tuple(cells)

    @property
    def said(self) -> str:
        """A sentence on what it is read from, where that is not what it is called by; else nothing."""
        return ""

    def lowest(self, places: Sequence[bool]) -> float:
        """Return a number below which the exact value surely is not, −inf where nothing is known; `places` says of each
        noisy column whether its exact value cannot be below 0.
        """
        affine = self.affine()
        if affine is None or not affine[1]:
            return -math.inf
        constant, parts = affine
        return float(constant) if all(places[i] and c >= 0 for i, c in parts.items()) else -math.inf

    # Before the data.

    def known_error(self, laws: Laws, confidence: Fraction) -> float | None:
        """Return the half-width t such that noise moves it by at most t with probability `confidence`; None where that
        depends on the data.
        """
        counts, affine = self.counts(), self.affine()
        if counts is not None:
            return counts.error(laws.of(counts.shape), confidence)
        return quantile(_terms(affine[1], laws.columns), confidence) if affine and affine[1] else None

    def noise_variance(self, laws: Laws) -> float | None:
        """Return the variance of one noisy number; None for anything else."""
        return None

    @property
    def over(self) -> int | None:
        """The place of the noisy count of rows that settles how far noise moves a mean, or what is made of means."""
        return None

    def error_over(self, rows: float, noises: Sequence[Additive], confidence: Fraction) -> float:
        """Return a half-width that holds whatever the value, when the bounded count (`over`) is so many rows."""
        raise TypeError(f"the error of {type(self).__name__} does not follow from a number of rows")

    def box(self, value: float, error: float) -> tuple[float, float]:
        """Where it lies when it is within `error` of a value."""
        return value - error, value + error

    @property
    def mean_width(self) -> Fraction | None:
        """How far apart the bounds of a mean are; None for what is no mean."""
        return None

    def rank_error(self, laws: Laws, confidence: Fraction) -> float | None:
        """How many rows the rank of a quantile is off by; None for what has no rank."""
        return None


_FAR = 1 << 800
_LINEAR = frozenset({"as double", "neg", "+", "-", "*", "/"})

_FLOATS = -sys.float_info.max, sys.float_info.max
_MOMENTS = moment_range([dt.datetime.min, dt.datetime.max])
_DOMAINS = {"sqrt": (0, math.inf), "asin": (-1, 1), "acos": (-1, 1), "as bigint": (-(1 << 63), (1 << 63) - 1)}
"""Where functions have a value whose bounds do not say it: nothing bounds a division by 0, or the logarithm of 0."""
PARTIAL = ("sqrt", "ln", "log10", "asin", "acos", "nullif", "case")
"""Functions that may be NULL of numbers, whatever they lie between."""


@dataclass(frozen=True, slots=True)
class Constant(Node, Literal):
    """A constant in a result."""

    def compiled(self) -> Answer:
        return lambda _keys, _cells: self.value

    def _affine(self) -> Affine | None:
        number = _written(self)
        return None if number is None else (number, {})

    def _bounded(self, known: Known, keys: Sequence[Scalar]) -> tuple[Interval, bool]:
        return point(self.value) or EVERYTHING, self.value is not None


@dataclass(frozen=True, slots=True)
class Applied(Node, Call):
    """A function of the closed language, applied to nodes of a result."""

    args: tuple[Node, ...]

    @property
    def children(self) -> tuple[Node, ...]:
        return self.args

    def compiled(self) -> Answer:
        name, args, kind = self.name, [a.compiled() for a in self.args], self.type
        return lambda keys, cells: applied(name, [a(keys, cells) for a in args], kind)

    def _affine(self) -> Affine | None:
        match self.name, [a.affine() for a in self.args if self.name in _LINEAR]:
            case "as double", [inner] if self.args[0].type is Type.INT:
                return inner
            case "neg", [inner]:
                return _scaled(inner, Fraction(-1))
            case "+" | "-", [left, right]:
                return _added(left, _scaled(right, Fraction(1 if self.name == "+" else -1)))
            case "*", [left, right] if left is not None and not left[1]:
                return _scaled(right, left[0])
            case "*", [left, right] if right is not None and not right[1]:
                return _scaled(left, right[0])
            case "/", [left, right] if right is not None and not right[1] and right[0]:
                return _scaled(left, 1 / right[0])
        return None

    def counts(self) -> Combined | None:
        match self.name, [(a.counts(), _written(a)) for a in self.args if self.name in _LINEAR]:
            case "as double", [(inner, _)] if self.args[0].type is Type.INT:
                return inner
            case "neg", [(inner, _)]:
                return inner and inner.scaled(Fraction(-1))
            case "+" | "-", [(left, first), (right, second)]:
                sign = Fraction(1 if self.name == "+" else -1)
                right = right and right.scaled(sign)
                if left and right:
                    return left.plus(right)
                if left and second is not None:
                    return left.shifted(sign * second)
                return right.shifted(first) if right and first is not None else None
            case "*", [(left, first), (right, second)]:
                by, of = (second, left) if first is None else (first, right)
                return of.scaled(by) if of and by is not None else None
            case "/", [(left, _), (_, by)]:
                return left.scaled(1 / by) if left and by else None
        return None

    def _bounded(self, known: Known, keys: Sequence[Scalar]) -> tuple[Interval, bool]:
        public = _public(self)
        value = None if public is None else public(keys, ())
        if public is not None and (value is None or self.type is Type.BOOL):
            return point(value) or EVERYTHING, value is not None
        found = [a.bounded(known, keys) for a in self.args]
        inner, sure = [i for i, _ in found], [s for _, s in found]
        match self.name:
            case "coalesce" | "least" | "greatest" if self.name == "coalesce" or not all(sure):
                # a NULL is passed over, so any of the others may be the value
                return hull(inner), any(sure)
            case "nullif":
                return inner[0], sure[0] and not truth("=", inner)[1]
            case "is null":
                return (0, 1 - int(sure[0])), True
            case "case":
                return _reached(found)
        bounds = truth(self.name, inner) if self.type is Type.BOOL else image(self.name, inner)
        least, most = _DOMAINS.get(self.name, EVERYTHING)
        first, last = _MOMENTS if self.type.is_moment else _FLOATS
        within = all(least <= low and high <= most for low, high in inner[:1])
        kept = all(sure) and within and first <= bounds[0] and bounds[1] <= last
        return bounds, kept or value is not None


@dataclass(frozen=True, slots=True)
class Measured(Node):
    """The i-th noisy integer column times its grid step."""

    index: int
    step: Fraction
    type: Type
    is_drawn: ClassVar[bool] = True

    def with_columns(self, change: Callable[[Measured], Node]) -> Node:
        return change(self)

    def compiled(self) -> Answer:
        i, step, kind = self.index, self.step, self.type
        if step == 1:
            return lambda _keys, cells: cells[i] if kind is Type.INT else float(cells[i])
        return lambda _keys, cells: float(cells[i] * step)

    def _affine(self) -> Affine:
        return Fraction(0), {self.index: self.step}

    def noise_variance(self, laws: Laws) -> float:
        return float(self.step) ** 2 * laws.columns[self.index].variance


def answer_node(expr: Expr) -> Node:
    """Return a tree whose leaves are nodes of a result and constants, as nodes of a result throughout."""
    match expr:
        case Node():
            return expr.map_children(answer_node)
        case Call(name, args, kind):
            return Applied(name, tuple(map(answer_node, args)), kind)
        case Literal(value, kind):
            return Constant(value, kind)
        case _:
            raise TypeError(f"{type(expr).__name__} is not part of the result")


def measured_in(node: Node) -> list[Measured]:
    """Return the noisy columns that it is made of."""
    found: list[Measured] = []

    def note(column: Measured) -> Measured:
        found.append(column)
        return column

    node.with_columns(note)
    return found


def _of_partition(counts: Combined, shown: Answer, level: Fraction) -> RowInterval:
    def row(keys: Sequence[Scalar], cells: Sequence[Any]) -> tuple[float, float]:
        tree = cells[-1][counts.shape]
        x, value = counts.estimate(tree.families), float(shown(keys, cells))
        t = counts.reach(tree.noise, level)
        return min(float(x) - t, value), max(float(x) + t, value)

    return row


@lru_cache(maxsize=4096)
def _public(expr: Node) -> Answer | None:
    """Return the value of an expression of keys and constants; None of a noisy one."""
    public = all(isinstance(e, Applied | Constant) or e.key is not None for e in expr.walk())
    return expr.compiled() if public else None


def _reached(found: Sequence[tuple[Interval, bool]]) -> tuple[Interval, bool]:
    """Return what `bounded` says of a CASE, from conditions and values in turn: over the values that can be reached."""
    reached = []
    for (holds, sure), value in zip((*found[:-1:2], ((1, 1), True)), (*found[1::2], found[-1]), strict=True):
        reached += [value] if holds[1] >= 1 else []
        if sure and holds[0] >= 1:
            break
    return hull([i for i, _ in reached]), all(s for _, s in reached)


def point(value: object) -> tuple[float, float] | None:
    """Return the interval of one number or date; None for what is neither."""
    match value:
        case dt.date():
            low, high = moment_range([value])
            return float(low), float(high)
        case int() | float():
            return float(value), float(value)
    return None


def _written(expr: Expr) -> Fraction | None:
    """Return a number that is written out."""
    match expr:
        case Literal(value, _) if isinstance(value, int | float) and not isinstance(value, bool):
            return Fraction(value)
        case Call("neg", (inner,), _):
            found = _written(inner)
            return None if found is None else -found
        case Call("as double", (inner,), _) if inner.type is Type.INT:
            return _written(inner)
        case _:
            return None


def _terms(coefficients: Mapping[int, Fraction], noises: Sequence[Additive]) -> Terms:
    return tuple((abs(c), noises[i]) for i, c in sorted(coefficients.items()))


def _scaled(affine: Affine | None, by: Fraction) -> Affine | None:
    return None if affine is None else (affine[0] * by, {i: c * by for i, c in affine[1].items() if c * by})


def _added(a: Affine | None, b: Affine | None) -> Affine | None:
    if a is None or b is None:
        return None
    total = {i: a[1].get(i, Fraction(0)) + b[1].get(i, Fraction(0)) for i in {*a[1], *b[1]}}
    return a[0] + b[0], {i: c for i, c in total.items() if c}


@dataclass(frozen=True, slots=True)
class Key(Node):
    """The i-th group key of the result's row."""

    index: int
    type: Type

    @property
    def key(self) -> int:
        return self.index

    @property
    def has_interval(self) -> bool:
        return False

    def compiled(self) -> Answer:
        return lambda keys, _cells: keys[self.index]

    def _bounded(self, known: Known, keys: Sequence[Scalar]) -> tuple[Interval, bool]:
        value = keys[self.index]
        return point(value) or EVERYTHING, value is not None
