"""Intervals for every output column, by propagating the public noise laws through the outer query.

Guarantee:
    For each row and column, the interval contains the bounded answer (the value without noise, caps and
    bounds applied) with
    probability at least `confidence` over the noise, whatever the data: affine columns by the exact law of
    their noise, quantiles by inverting a test on their ranks (`spreads/tree.py`), means by inverting the test
    |numerator − θ·denominator| ≤ quantile(θ), variances, covariances and slopes by tests of that kind too
    (`covariance.py`, `slope.py`), anything else by interval arithmetic on a box that holds all of
    its noisy terms at once (Bonferroni). Looking costs nothing: this is post-processing.

References:
    Inversion for ratios: Fieller 1954, *Some problems in interval estimation*,
    https://doi.org/10.1111/j.2517-6161.1954.tb00159.x
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from discreet.mechanisms.additive import Additive
from discreet.plan.evaluate import compiled, tree_of
from discreet.plan.expr import (
    Call,
    Commonest,
    Covariance,
    Expr,
    Key,
    Literal,
    Mean,
    Measured,
    Quantile,
    Slope,
)
from discreet.plan.functions import image
from discreet.plan.functions.calendar import moment_range
from discreet.plan.functions.function import EVERYTHING, Interval
from discreet.plan.partition.counted import Combined, combined
from discreet.plan.schema import Scalar
from discreet.plan.types import Type

RowInterval: TypeAlias = Callable[[Sequence[Scalar], Sequence[int]], tuple[float, float] | None]
"""From a row's keys and noisy integers to an interval; None where the column is no number."""

Terms: TypeAlias = tuple[tuple[Fraction, Additive], ...]
"""Independent noises, each with the size of its coefficient."""

_SEGMENTS = 16  # of |θ| in a mean's inversion: the quantile is taken at the far end of each
_CELLS = 150  # of one standard deviation in a convolution
_MOST_CELLS = 10_000  # that the reaches of all terms take together


def interval_of(expr: Expr, noises: Sequence[Additive], confidence: Fraction) -> RowInterval:
    """The interval of an output column, as a function of the released row; dates are microseconds since 1970."""
    terms = atoms(expr)
    if expr.type is None or not (expr.type.is_number or (expr.type.is_moment and terms)):
        return lambda _keys, _cells: None
    if not terms:
        value = compiled(expr)
        return lambda keys, cells: _point(value(keys, cells))
    level = 1 - (1 - confidence) / len(terms)
    found = {a: _atom(a, noises, level) for a in terms}

    def row(keys: Sequence[Scalar], cells: Sequence[int]) -> tuple[float, float] | None:
        low, high = _walk(expr, {a: f(keys, cells) for a, f in found.items()}, keys)
        return float(low), float(high)

    return row


def half_width(expr: Expr, noises: Sequence[Additive], confidence: Fraction) -> float | None:
    """The half-width of an affine column's interval, the same for all rows; None for other columns."""
    affine = affine_of(expr)
    return None if affine is None or not affine[1] else quantile(_terms(affine[1], noises), confidence)


@dataclass(frozen=True, slots=True)
class MeanError:
    """How far a noisy mean may be from the bounded one, given how many rows it is over."""

    mean: Mean
    noises: tuple[Additive, ...]

    def at(self, count: float, confidence: Fraction) -> float:
        """A half-width that holds for every value of the mean when the bounded count is `count`."""
        m = self.mean
        ratio = max(abs(m.low - m.centre), abs(m.high - m.centre)) / m.numerator.step
        level = 1 - (1 - confidence) / 2
        top = quantile(
            ((Fraction(1), self.noises[m.numerator.index]), (ratio, self.noises[m.denominator.index])), level
        )
        fewest = max(count - self.noises[m.denominator.index].quantile(level), 1)
        return min(float(top * m.numerator.step / fewest), float(m.high - m.low))


def affine_of(expr: Expr) -> tuple[Fraction, dict[int, Fraction]] | None:
    """(constant, index → coefficient) when the expression is affine in the noisy integers, and all that it is made of
    is far within what doubles hold: beyond, the answer is NULL at times.
    """
    found = _affine(expr)
    if found is None or any(abs(x) > _FAR for x in (found[0], *found[1].values())):
        return None
    return found


_FAR = 1 << 800


def _affine(expr: Expr) -> tuple[Fraction, dict[int, Fraction]] | None:
    match expr:
        case Measured(i, step, _):
            return Fraction(0), {i: step}
        case Literal(value, _) if isinstance(value, int | float) and not isinstance(value, bool):
            return Fraction(value), {}
        case Call("as double", (inner,), _) if inner.type is Type.INT:
            return affine_of(inner)
        case Call("neg", (inner,), _):
            return _scaled(affine_of(inner), Fraction(-1))
        case Call("+" | "-" as sign, (a, b), _):
            return _added(affine_of(a), _scaled(affine_of(b), Fraction(1 if sign == "+" else -1)))
        case Call("*", (a, b), _):
            left, right = affine_of(a), affine_of(b)
            if left is not None and not left[1]:
                return _scaled(right, left[0])
            return _scaled(left, right[0]) if right is not None and not right[1] else None
        case Call("/", (a, b), _):
            right = affine_of(b)
            return (
                _scaled(affine_of(a), 1 / right[0])
                if right is not None and not right[1] and right[0]
                else None
            )
        case _:
            return None


def image_over(expr: Expr, box: Mapping[Expr, tuple[float, float]]) -> Interval:
    """Where an expression without group keys lies while its noisy terms (`atoms`) lie in a box."""
    return _walk(expr, dict(box), ())


@lru_cache(maxsize=4096)
def quantile(terms: Terms, confidence: Fraction) -> float:
    """A t with P(|Σ aᵢ Zᵢ| ≤ t) ≥ confidence for independent noises, at most about one per cent above the least.

    Where a term that is nearly always 0 reaches far beyond the deviation of the sum, the cells are wider, so that there
    are not too many, and t is less close.
    """
    terms = tuple((abs(a), z) for a, z in terms if a)
    if not terms:
        return 0.0
    if len(terms) == 1:
        a, z = terms[0]
        return float(a * z.quantile(confidence))
    deviation = math.sqrt(sum(float(a) ** 2 * z.variance for a, z in terms))
    apart = float(
        sum(a * _alone(z, 1 - (1 - confidence) / len(terms)) for a, z in terms)
    )  # each within its own
    if deviation == 0.0:
        return apart
    slack = sum(float(a) * z.slack for a, z in terms)
    beyond = (1 - confidence) / (1000 * len(terms))
    reaches = [float(a) * _alone(z, 1 - beyond) for a, z in terms]
    step = max(deviation / _CELLS, sum(reaches) / _MOST_CELLS)
    law = np.ones(1)
    for (a, z), far in zip(terms, reaches, strict=True):
        reach = math.ceil(far / step) + 1
        edges = (np.arange(-reach, reach + 2, dtype=np.float64) - 0.5) * (step / float(a))
        law = np.convolve(law, np.diff(z.cdf(edges)))
    middle = len(law) // 2
    inside = law[middle] + np.concatenate(([0.0], np.cumsum(law[middle + 1 :] + law[:middle][::-1])))
    enough = np.flatnonzero(inside >= float(confidence))  # mass beyond the reach counts as outside
    k = int(enough[0]) if len(enough) else len(inside)
    return min((k + len(terms) / 2 + 0.5) * step + slack, apart)  # each term was moved by at most half a step


@lru_cache(maxsize=4096)
def _alone(noise: Additive, confidence: Fraction) -> int:
    """The quantile of one noise, which is searched for."""
    return noise.quantile(confidence)


def atoms(expr: Expr) -> list[Expr]:
    """The largest noisy terms whose own intervals are known."""
    affine = affine_of(expr)
    if affine is not None:
        return [expr] if affine[1] else []
    if isinstance(expr, Mean | Covariance | Slope | Quantile | Commonest) or combined(expr) is not None:
        return [expr]
    if isinstance(expr, Call):
        return list(dict.fromkeys(a for arg in expr.args for a in atoms(arg)))
    return []


def _atom(expr: Expr, noises: Sequence[Additive], level: Fraction) -> RowInterval:
    if isinstance(expr, Mean):
        return mean_interval(expr, noises, level)
    if isinstance(expr, Covariance):
        from discreet.plan.intervals.covariance import covariance_interval  # which takes its means' from here

        return covariance_interval(expr, noises, level)
    if isinstance(expr, Slope):
        from discreet.plan.intervals.slope import slope_interval

        return slope_interval(expr, noises, level)
    if isinstance(expr, Quantile | Commonest):
        return _of_spread(expr, level)
    joint = combined(expr)
    if joint is not None:
        return _of_partition(expr, joint, level)
    affine = affine_of(expr)
    assert affine is not None
    constant, coefficients = affine
    t = quantile(_terms(coefficients, noises), level)

    def row(_keys: Sequence[Scalar], cells: Sequence[int]) -> tuple[float, float]:
        x = float(constant + sum(c * cells[i] for i, c in coefficients.items()))
        return x - t, x + t

    return row


def _of_partition(expr: Expr, joint: Combined, level: Fraction) -> RowInterval:
    shown = compiled(expr)

    def row(keys: Sequence[Scalar], cells: Sequence[int]) -> tuple[float, float]:
        tree = tree_of(cells, joint.spread)
        x, value = joint.estimate(tree), float(shown(keys, cells))
        t = joint.reach(tree.noise, level)
        return min(float(x) - t, value), max(float(x) + t, value)

    return row


def _of_spread(expr: Quantile | Commonest, level: Fraction) -> RowInterval:
    if isinstance(expr, Quantile):
        return lambda _keys, cells: tree_of(cells, expr.spread).interval(expr.p, level)
    if not expr.type.is_number:
        return lambda _keys, _cells: None
    return lambda _keys, cells: tree_of(cells, expr.spread).commonest_interval(level)


def mean_interval(m: Mean, noises: Sequence[Additive], level: Fraction) -> RowInterval:
    """{θ : |numerator − θ·denominator| ≤ t(θ)}, with t at the far end of each of the segments that cover the bounds."""
    step, low, high = (
        m.numerator.step,
        (m.low - m.centre) / m.numerator.step,
        (m.high - m.centre) / m.numerator.step,
    )
    edges = sorted({low + (high - low) * Fraction(k, _SEGMENTS) for k in range(_SEGMENTS + 1)})
    segments = []
    for a, b in zip(edges, edges[1:] or edges, strict=False):
        far = max(abs(a), abs(b))
        t = quantile(((Fraction(1), noises[m.numerator.index]), (far, noises[m.denominator.index])), level)
        segments.append((float(a), float(b), t))
    value = compiled(m)

    def row(keys: Sequence[Scalar], cells: Sequence[int]) -> tuple[float, float]:
        s, n = float(cells[m.numerator.index]), float(cells[m.denominator.index])
        pieces = [p for a, b, t in segments if (p := _solve(s, n, a, b, t)) is not None]
        if not pieces:
            return float(m.low), float(m.high)
        ends = [float(m.centre + Fraction(e) * step) for p in pieces for e in p]
        point = value(keys, cells)
        return min(*ends, point), max(*ends, point)

    return row


def _solve(s: float, n: float, a: float, b: float, t: float) -> tuple[float, float] | None:
    """{θ in [a, b] : |s − θn| ≤ t}."""
    if n == 0:
        return (a, b) if abs(s) <= t else None
    ends = sorted(((s - t) / n, (s + t) / n))
    low, high = max(a, ends[0]), min(b, ends[1])
    return (low, high) if low <= high else None


def _walk(expr: Expr, known: dict[Expr, tuple[float, float] | None], keys: Sequence[Scalar]) -> Interval:
    return _bounded(expr, known, keys)[0]


def _bounded(
    expr: Expr, known: dict[Expr, tuple[float, float] | None], keys: Sequence[Scalar]
) -> tuple[Interval, bool]:
    """An interval for the values of the expression, and whether it surely is a number, never NULL."""
    if expr in known:
        return known[expr] or EVERYTHING, True
    match expr:
        case Literal(value, _):
            return _point(value) or EVERYTHING, value is not None
        case Key(i, _):
            return _point(keys[i]) or EVERYTHING, keys[i] is not None
        case Call(name, args, _):
            found = [_bounded(a, known, keys) for a in args]
            inner = [i for i, _ in found]
            sure = [s for _, s in found]
            if name in ("least", "greatest") and not all(sure):
                # a NULL is passed over, so any of the others may be the value
                return (min(i[0] for i in inner), max(i[1] for i in inner)), any(sure)
            bounds = image(name, inner)
            return bounds, all(sure) and _never_fails(name, inner, bounds)
        case _:
            return EVERYTHING, False


def _never_fails(name: str, inner: Sequence[Interval], bounds: Interval) -> bool:
    """Whether a function of numbers in these intervals, whose values lie in `bounds`, is a number at all of them."""
    finite = not any(math.isinf(end) for end in bounds)
    match name:
        case "+" | "-" | "*" | "neg" | "abs" | "least" | "greatest":
            return finite
        case "/":
            return finite and not inner[1][0] <= 0 <= inner[1][1]
        case "sqrt":
            return finite and inner[0][0] >= 0
        case _:
            return False


def _point(value: object) -> tuple[float, float] | None:
    if isinstance(value, dt.date):
        low, high = moment_range([value])
        return float(low), float(high)
    return (float(value), float(value)) if isinstance(value, int | float) else None


def _terms(coefficients: dict[int, Fraction], noises: Sequence[Additive]) -> Terms:
    return tuple((abs(c), noises[i]) for i, c in sorted(coefficients.items()))


def _scaled(
    affine: tuple[Fraction, dict[int, Fraction]] | None, by: Fraction
) -> tuple[Fraction, dict[int, Fraction]] | None:
    return None if affine is None else (affine[0] * by, {i: c * by for i, c in affine[1].items() if c * by})


def _added(
    a: tuple[Fraction, dict[int, Fraction]] | None, b: tuple[Fraction, dict[int, Fraction]] | None
) -> tuple[Fraction, dict[int, Fraction]] | None:
    if a is None or b is None:
        return None
    total = {i: a[1].get(i, Fraction(0)) + b[1].get(i, Fraction(0)) for i in {*a[1], *b[1]}}
    return a[0] + b[0], {i: c for i, c in total.items() if c}
