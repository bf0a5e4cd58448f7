"""VAR, STDDEV, COVAR, CORR and the line of least squares: functions of centred sums, sums of products, and a count.

All of one argument share their columns with AVG of it, all of one pair share theirs. A product is taken of values that
are clamped first and measured from the middle of their bounds, so that its bounds follow, and a unit with more than
`max_rows` rows enters its sum with `max_rows` times the unit's own mean, as it enters the sums of the values.

No public bound holds for a slope, nor for a correlation where nothing varies. So a standard deviation that is divided
by is taken as at least 1/`FLATTEST` of the reach of its number, which is the half-width of its bounds: slopes are then
within ±`FLATTEST` times the ratio of the two reaches, and where x does not vary at all, slope and correlation are 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from discreet.catalog.types import Type
from discreet.errors import InvalidParameter
from discreet.plan.aggregates.aggregate import Needs
from discreet.plan.measures.lattice_value import LatticeValue, lattice_value, lattice_within
from discreet.plan.measures.measure import CentredTotal, KnownCount
from discreet.plan.nodes.covariance import Covariance
from discreet.plan.nodes.mean import Mean
from discreet.plan.nodes.node import Measured
from discreet.plan.nodes.slope import Slope
from discreet.query.bind import call, coerce
from discreet.query.expr import Expr, Literal

FLATTEST = 1024
"""A number whose standard deviation is below 1/FLATTEST of its reach counts as one of that standard deviation."""

_FINEST = Fraction(1, 1 << 800)  # of a variance that is divided by: quotients of such numbers stay floats


@dataclass(frozen=True, slots=True)
class _Number:
    """One of a pair: the expression where its partner is known, and its lattice value there."""

    expr: Expr
    value: LatticeValue

    @property
    def centre(self) -> Fraction:
        return CentredTotal(self.value).centre * self.value.step

    @property
    def bounds(self) -> tuple[Fraction, Fraction]:
        return self.value.low * self.value.step, self.value.high * self.value.step

    @property
    def reach(self) -> Fraction:
        """Half the width of the bounds."""
        return (self.bounds[1] - self.bounds[0]) / 2

    @property
    def offsets(self) -> tuple[Fraction, Fraction]:
        """The bounds of the number less the centre."""
        return self.bounds[0] - self.centre, self.bounds[1] - self.centre

    def offset(self) -> Expr:
        """Return the number clamped, less the centre; NULL where it is NULL, which the clamp alone would not be."""
        low, high, centre = (_real(x) for x in (*self.bounds, self.centre))
        clamped = call("least", [call("greatest", [coerce(self.expr, Type.REAL), low]), high])
        return _where(_known(self.expr), call("-", [clamped, centre]))


class _Pair:
    """Two numbers on the rows where both are known, the dependent one first; the same one twice is one number."""

    __slots__ = ("_known", "_needs", "x", "y")

    def __init__(self, arguments: tuple[Expr, ...], needs: Needs) -> None:
        y, x = arguments
        self._needs = needs
        self._known = x
        if x != y:
            both = call("and", sorted([_known(x), _known(y)], key=repr))
            self._known = _where(both, Literal(1, Type.INT))
            x, y = _where(_known(y), x), _where(_known(x), y)
        self.x, self.y = (_Number(e, lattice_value(e, needs.facts)) for e in (x, y))

    @property
    def count(self) -> Measured:
        return self._needs.column(KnownCount(self._known), Type.INT)

    def mean(self, a: _Number) -> Mean:
        """Return the mean of one of them."""
        return Mean(self._sum(a.value), self.count, a.centre, *a.bounds)

    def covariance(self, a: _Number, b: _Number, *, sample: bool) -> Covariance:
        """Of two of them, or the variance of one."""
        first, second = sorted((a, b), key=lambda n: repr(n.expr))  # covariances are symmetric
        value = lattice_within(call("*", [first.offset(), second.offset()]), *_product_bounds(first, second))
        area = first.reach * second.reach
        return Covariance(
            Mean(
                self._sum(value),
                self.count,
                CentredTotal(value).centre * value.step,
                value.low * value.step,
                value.high * value.step,
            ),
            self._offset_mean(first),
            self._offset_mean(second),
            Fraction(0) if first == second else -area,
            area,
            sample,
        )

    def divisor(self, a: _Number) -> Expr:
        """Return the variance of one of them, as something is divided by it."""
        return call("greatest", [self.covariance(a, a, sample=False), _real(_flattest(a))])

    def slope(self) -> Slope:
        """Of the line of least squares."""
        return Slope(
            self.covariance(self.x, self.y, sample=False),
            self.covariance(self.x, self.x, sample=False),
            _flattest(self.x),
            FLATTEST * self.y.reach / (self.x.reach or 1),
        )

    def _offset_mean(self, a: _Number) -> Mean:
        return Mean(self._sum(a.value), self.count, Fraction(0), *a.offsets)

    def _sum(self, value: LatticeValue) -> Measured:
        return self._needs.column(CentredTotal(value), Type.REAL)


def covariance(arguments: tuple[Expr, ...], needs: Needs, *, sample: bool = False) -> Expr:
    """COVAR_POP(y, x), COVAR_SAMP(y, x)."""
    pair = _Pair(arguments, needs)
    return pair.covariance(pair.y, pair.x, sample=sample)


def variance(arguments: tuple[Expr, ...], needs: Needs, *, sample: bool = False) -> Expr:
    """VAR_POP(x), VAR_SAMP(x)."""
    return covariance(arguments * 2, needs, sample=sample)


def deviation(arguments: tuple[Expr, ...], needs: Needs, *, sample: bool = False) -> Expr:
    """STDDEV_POP(x), STDDEV_SAMP(x)."""
    return call("sqrt", [variance(arguments, needs, sample=sample)])


def correlation(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """CORR(y, x), within ±1."""
    pair = _Pair(arguments, needs)
    deviations = [call("sqrt", [pair.divisor(a)]) for a in (pair.y, pair.x)]
    return _within(call("/", [pair.covariance(pair.y, pair.x, sample=False), call("*", deviations)]), Fraction(1))


def determination(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """REGR_R2(y, x), the square of the correlation."""
    size = call("abs", [correlation(arguments, needs)])  # its sign lost, its interval is squared without loss
    return call("*", [size, size])


def slope(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """REGR_SLOPE(y, x)."""
    return _Pair(arguments, needs).slope()


def intercept(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """REGR_INTERCEPT(y, x)."""
    pair = _Pair(arguments, needs)
    return call("-", [pair.mean(pair.y), call("*", [pair.slope(), pair.mean(pair.x)])])


def pair_count(arguments: tuple[Expr, ...], needs: Needs) -> Expr:
    """REGR_COUNT(y, x)."""
    return _Pair(arguments, needs).count


def pair_mean(arguments: tuple[Expr, ...], needs: Needs, *, of_x: bool) -> Expr:
    """REGR_AVGX(y, x), REGR_AVGY(y, x)."""
    pair = _Pair(arguments, needs)
    return pair.mean(pair.x if of_x else pair.y)


def scatter(arguments: tuple[Expr, ...], needs: Needs, *, of: str) -> Expr:
    """REGR_SXX(y, x), REGR_SXY(y, x), REGR_SYY(y, x): n times a variance or covariance."""
    pair = _Pair(arguments, needs)
    a, b = ({"x": pair.x, "y": pair.y}[letter] for letter in of)
    return call("*", [coerce(pair.count, Type.REAL), pair.covariance(a, b, sample=False)])


def _flattest(a: _Number) -> Fraction:
    """Return the least variance that is divided by; 1 where the bounds leave no room to vary."""
    least = (a.reach / FLATTEST) ** 2 or Fraction(1)
    if least < _FINEST:
        raise InvalidParameter(
            "The bounds of a number whose deviation is divided by are too narrow to be told from one point.",
            hint="multiply it by a constant in the query: CORR(1e9 * x, y)",
        )
    return least


def _known(x: Expr) -> Expr:
    return call("not", [call("is null", [x])])


def _where(condition: Expr, x: Expr) -> Expr:
    return call("case", [condition, x, Literal(None, None)])


def _product_bounds(a: _Number, b: _Number) -> tuple[Fraction, Fraction]:
    """Of the product of the two offsets; a square is never below 0."""
    corners = [x * y for x in a.offsets for y in b.offsets]
    return (Fraction(0) if a == b else min(corners)), max(corners)


def _within(x: Expr, size: Fraction) -> Expr:
    """Clamped to ±size."""
    return call("least", [call("greatest", [x, _real(-size)]), _real(size)])


def _real(x: Fraction) -> Literal:
    return Literal(float(x), Type.REAL)
