"""Errors that depend on the data, at sizes that the asker assumes: public guesses, never looked up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Never

from discreet.catalog.types import Type
from discreet.errors import InvalidParameter
from discreet.plan.nodes.node import PARTIAL, Affine, Node, measured_in
from discreet.plan.partition.counted import Combined, Layered
from discreet.plan.question import tree_reads
from discreet.privacy.exact import Real, exact
from discreet.query.expr import Literal

if TYPE_CHECKING:
    from discreet.plan.decided import Decided

ROWS = "rows"
"""The size that says over how many rows each mean is."""

_DIGITS = 300  # of a ROUND; beyond, floats end


@dataclass(frozen=True, slots=True)
class Assumed:
    """Public guesses at the result: an output column's name → its value; `rows` → the rows that a mean is over.

    A name that is no output column is a number of rows too.
    """

    plan: Decided
    sizes: Mapping[str, Fraction]

    @classmethod
    def of(cls, plan: Decided, assuming: Mapping[str, Real] | None) -> Assumed:
        """Return the guesses, as exact numbers.

        Raises:
            InvalidParameter: not a dict of numbers.
        """
        if assuming is not None and not isinstance(assuming, Mapping):
            raise InvalidParameter(
                f"assuming must be a dict from a column's name to a public guess, not {type(assuming).__name__}.",
                hint="assuming={'n': 10_000}",
            )
        return cls(plan, {k: exact(f"assuming[{k!r}]", v) for k, v in (assuming or {}).items()})

    def error(self, column: str, confidence: Fraction) -> float:
        """Return the half-width t such that the noise moves the column by at most t with probability `confidence`, if
        the result is as assumed.

        Raises:
            InvalidParameter: the error depends on a size that is not assumed.
        """
        return self._error(column, self.plan.column(column), confidence)

    def _error(self, column: str, expr: Node, confidence: Fraction) -> float:
        width = self._moved(column, expr, confidence)
        if width is not None:
            return width
        match expr.children if expr.args_of("round") else ():
            case (inner,):  # each of the two values moves by at most half a step
                return self._error(column, inner, confidence) + 1
            case inner, Literal(int(digits), Type.INT) if abs(digits) < _DIGITS:
                return self._error(column, inner, confidence) + 10.0**-digits
        box, middle = self._boxes(column, expr, confidence)
        ((low, high), sure), ((below, above), _) = expr.bounded(box, ()), expr.bounded(middle, ())
        if not sure and any(e.args_of(*PARTIAL) for e in expr.walk()):
            return math.inf  # no bound on an error counts an answer that is not there
        if math.isinf(below) or math.isinf(above):
            self._missing(column, expr)
        return float(max(high - below, above - low))

    def value(self, column: str) -> Fraction:
        """Return what a column is assumed to be, or what follows for it.

        Raises:
            InvalidParameter: that is not assumed.
        """
        if column in self.sizes:
            return self.sizes[column]
        expr = self.plan.column(column)
        if expr.mean_width is not None:
            self._missing(column, expr)
        box = {a: (v, v) for a in expr.atoms() for v in [float(self._atom(column, a))]}
        (low, high), _ = expr.bounded(box, ())
        if math.isinf(low) or math.isinf(high):
            self._missing(column, expr)
        return (Fraction(low) + Fraction(high)) / 2

    def _boxes(
        self, column: str, expr: Node, confidence: Fraction
    ) -> tuple[dict[Node, tuple[float, float]], dict[Node, tuple[float, float]]]:
        """Where all noisy terms lie at once with probability `confidence` (Bonferroni), and where they are assumed."""
        terms = expr.atoms()
        settled = all(t.over is not None or (t.affine() or t.counts()) is not None for t in terms)
        if not terms or not settled or any(e.key is not None for e in expr.walk()):
            self._missing(column, expr)
        level = 1 - (1 - confidence) / len(terms)
        box: dict[Node, tuple[float, float]] = {}
        middle: dict[Node, tuple[float, float]] = {}
        for term in terms:
            value = float(self._atom(column, term))
            moved = self._moved(column, term, level)
            assert moved is not None
            box[term], middle[term] = term.box(value, moved), (value, value)
        return box, middle

    def _moved(self, column: str, term: Node, level: Fraction) -> float | None:
        """How far noise moves it; None where that follows from its terms alone."""
        if term.over is None:
            return term.known_error(self.plan.laws, level)
        return term.error_over(float(self._rows(column, term)), self.plan.row_noises, level)

    def _rows(self, column: str, mean: Node) -> Fraction:
        """Over how many rows a mean is: `rows`, the assumed count that it is divided by, or the least other guess."""
        if ROWS in self.sizes:
            return self.sizes[ROWS]
        outputs = dict(self.plan.question.outer.columns)
        for name, expr in outputs.items():
            if expr.is_drawn and [m.index for m in measured_in(expr)] == [mean.over] and name in self.sizes:
                return self.sizes[name]
        others = [v for k, v in self.sizes.items() if k not in outputs]
        counts = [v for k, v in self.sizes.items() if k in outputs and outputs[k].is_drawn]
        if not others and not counts:
            self._missing(column, mean)
        return min(others or counts)

    def _atom(self, column: str, term: Node) -> Fraction:
        """Return the assumed value of a noisy term: an output column's own, or what follows from those of others."""
        outputs = dict(self.plan.question.outer.columns)
        for name, expr in outputs.items():
            if expr == term and name in self.sizes:
                return self.sizes[name]
        joint = term.counts()
        if joint is not None:
            counts = (c * self._count(column, joint.shape, cells) for c, cells in joint.parts)
            return joint.constant + sum(counts, Fraction(0))
        found = term.affine()
        if found is None:
            self._missing(column, self.plan.column(column))
        # what is 0 if the sizes are as assumed: by it, one noisy integer after the other is put out of the rest
        known = ((self.sizes[name], expr.affine()) for name, expr in outputs.items() if name in self.sizes)
        zeros = [(own[0] - size, own[1]) for size, own in known if own is not None]
        while zeros:
            first, *zeros = zeros
            if first[1]:
                found, *zeros = (_without(min(first[1]), first, each) for each in (found, *zeros))
        if found[1]:
            self._missing(column, self.plan.column(column))
        return found[0]

    def _count(self, column: str, shape: Layered, cells: tuple[int, ...]) -> Fraction:
        """Return the assumed number of rows under a condition."""
        alone = Combined(shape, Fraction(0), ((Fraction(1), cells),))
        for name, expr in self.plan.question.outer.columns:
            if expr.is_drawn and expr.counts() == alone and name in self.sizes:
                return self.sizes[name]
        self._missing(column, self.plan.column(column))

    def _missing(self, column: str, expr: Node) -> Never:
        if any(tree_read.shape.layers is None for tree_read in tree_reads([expr])):
            raise InvalidParameter(
                f"the error of {column!r} depends on how the values lie, which is private.",
                hint=f"rank_error({column!r}) says how far off its rank is; the release itself has an interval",
            )
        mean = expr.over is not None
        what = "how many rows it is over" if mean else "the values of the columns that it combines"
        raise InvalidParameter(
            f"the error of {column!r} depends on {what}.",
            hint="for a mean, give a public guess: assuming={'rows': 10_000}; the release itself has an interval"
            if mean
            else "give public guesses at the columns that it combines: SELECT them too (that costs no more), and "
            "assuming={'n': 10_000, 's': 50_000}; the release itself has an interval",
        )


def _without(place: int, zero: Affine, number: Affine) -> Affine:
    """Return a number without one noisy integer: less as many times what is 0."""
    times = number[1].get(place, Fraction(0)) / zero[1][place]
    left = {i: number[1].get(i, Fraction(0)) - times * zero[1].get(i, Fraction(0)) for i in {*number[1], *zero[1]}}
    return number[0] - times * zero[0], {i: c for i, c in left.items() if c}
