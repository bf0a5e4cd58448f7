"""Noise in proportion to the smooth sensitivity of the data at hand, by laws whose scale may follow it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import Mechanism, numbered
from discreet.mechanisms.parameters import read_choice, read_confidence, read_delta, read_size
from discreet.mechanisms.stable.spread import SensitivityBounds, Statistic, Weights
from discreet.mechanisms.values import Values
from discreet.noise.entropy import Entropy, SystemEntropy, bits
from discreet.noise.fixedpoint import exp_neg, ln
from discreet.noise.ratio import LaplaceLogNormal, Magnitude, QuarticShape, Ratio, StudentShape, digits_for, rounded
from discreet.privacy.event import ApproximateEvent, Composed, ZCDPEvent
from discreet.privacy.exact import Real, above, count, exact, set_fields
from discreet.privacy.guarantee import called, decimal
from discreet.privacy.unit import Relation

LAWS = ("student-t", "cauchy", "quartic", "laplace-log-normal")
"""Every law of the noise."""

_MOST_DEGREES = 32

MOST_EPSILON = Fraction(40)
"""More than this ε buys no less noise."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SmoothSensitivity(Mechanism):
    """A median, quantile, interquartile range, median deviation or mode, with noise that follows the data.

    The noise is S(x)/α·Z, where S(x) is at least what one unit could change on the data x, and at most B times S of any
    neighbour. S is computed in whole numbers, B and α are fractions. Where a unit changes little, there is little
    noise. "student-t" (with `degrees`), "cauchy" (the same with one degree) and "quartic" (density ∝ 1/(1 + z⁴)) are
    pure; "laplace-log-normal" is concentrated and needs δ.

    Guarantee:
        ε-DP, and with "laplace-log-normal" ρ-zCDP for the ρ that gives (ε, δ)-DP, when each unit holds at most
        `changes` of the values: under add-remove a unit's values are there or not, under replace the number of
        values is public and up to `changes` of them become any others. Values outside [lower, upper] are moved
        to the nearer end, NaN counts as `lower`. The real output of the continuous mechanism is drawn lazily
        and rounded to a grid that follows from the range alone, then cut off at the ends of the possible
        answers: nothing of it shows S. `error` is public. How long the computation takes depends on the data.

    References:
        Nissim, Raskhodnikova, Smith 2007, Definition 2.1, Sections 2 and 3.1,
        https://doi.org/10.1145/1250790.1250803; Bun, Steinke 2019, Section 3 (Student's t, Laplace log-normal),
        https://arxiv.org/abs/1906.02830; docs/proofs/smooth-sensitivity.md (the exact ε of Student's t, with
        which there is about half as much noise as with the bound there).

    >>> m = SmoothSensitivity("median", epsilon=1, lower=0, upper=100)
    >>> m.error(0.95), 0.5 < m.error(0.95, smooth_sensitivity=0.1) < 0.6
    (100.0, True)
    """

    statistic: str
    epsilon: Fraction
    delta: Fraction | None
    relation: Relation
    law: str
    degrees: int
    changes: int
    _statistic: Statistic
    _law: SmoothLaw
    _cost: Fraction
    _calibration: Calibration

    def __init__(
        self,
        statistic: str = "median",
        *,
        epsilon: Real,
        lower: Real,
        upper: Real,
        delta: Real | None = None,
        p: Real | None = None,
        values: Sequence[Real] | None = None,
        relation: Relation | str = Relation.ADD_REMOVE,
        law: str = "student-t",
        degrees: int = 2,
        changes: int = 1,
        beta: Real | None = None,
    ) -> None:
        e = read_size("epsilon", epsilon)
        d = _delta(law, delta)
        noise, cost = _law(law, degrees, e, d)
        set_fields(self, statistic=statistic, epsilon=e, delta=d, relation=Relation.parse(relation), law=law)
        set_fields(self, degrees=count("degrees", degrees), changes=_changes(changes))
        set_fields(self, _statistic=Statistic.read(statistic, lower=lower, upper=upper, p=p, values=values), _law=noise)
        set_fields(self, _cost=cost, _calibration=_calibrated(noise, cost, beta))

    @property
    def base(self) -> Fraction:
        """B: the factor by which the smooth sensitivities of neighbours may differ."""
        return self._calibration.base

    @property
    def beta(self) -> float:
        """β = ln B."""
        return math.log1p(float(self.base - 1))

    @property
    def alpha(self) -> Fraction:
        """α: the noise is S/α·Z."""
        return self._calibration.alpha

    @property
    def step(self) -> Fraction:
        """The distance of neighbouring answers: a power of two that follows from the range."""
        return self._statistic.declared.grid.step

    @property
    def events(self) -> Composed:
        if isinstance(self._law, LogNormal):
            return Composed([ZCDPEvent(self._cost)])
        return Composed([ApproximateEvent(self.epsilon)])

    def release(self, values: Values, *, rng: Entropy | None = None) -> float:
        """Return the statistic with fresh noise.

        Args:
            values: one number for each row; a list or an array in one dimension. It may be empty.
            rng: where randomness comes from, for tests; the operating system's by default.

        Raises:
            InvalidParameter: not such an array. Which values it holds does not matter.
        """
        source = SystemEntropy() if rng is None else rng
        place = self._noisy(self._statistic.of(values, self.relation, self.changes), source)
        return self._statistic.answer(place)

    def error(self, confidence: Real = 0.95, *, smooth_sensitivity: Real | None = None) -> float:
        """Return a half-width within which the answer stays around the statistic with at least this confidence.

        Args:
            confidence: strictly between 0 and 1.
            smooth_sensitivity: what S is assumed to be, for planning; by default the whole range, its public
                worst case. It is never taken from the data: S(x) itself is private.
        """
        likely = read_confidence(confidence)
        worst = self._statistic.width
        s = worst if smooth_sensitivity is None else min(_assumed(smooth_sensitivity), worst)
        width = above(s / self.alpha) * self._law.quantile(likely) * (1 + 2.0**-40) + float(self.step)
        if self._statistic.values is not None:  # the nearest value is at most as far again from the noisy number
            width *= 2
        return min(width, above(worst))

    def explain(self) -> str:
        e, b, a = decimal(self.epsilon), f"{float(self.base):.6g}", f"{float(self.alpha):.6g}"
        pure = not isinstance(self._law, LogNormal)
        claim = (
            f"{e}-DP"
            if pure
            else f"{float(self._cost):.6g}-zCDP, and so ({e}, {decimal(self.delta or Fraction(0))})-DP"
        )
        return numbered(
            repr(self),
            "Local sensitivity. Aₖ(x) bounds what one unit can change on every data set within k "
            "units of x; here a unit "
            f"has {self.changes} value{'s' if self.changes > 1 else ''} at most. Aₖ(x) ≤ Aₖ₊₁(y) for neighbours x, y.",
            f"Smooth sensitivity. S(x) = max over k of Aₖ(x)/B^k with B = {b}: A₀(x) ≤ S(x) ≤ B·S(y).",
            f"Noise. M(x) = f(x) + S(x)/α·Z with α = {a} and Z of the law {self.law!r}.",
            "Place. Between x and y the centre moves by at most S(x), that is by α in units of the noise.",
            f"Scale. The noise's scale changes by a factor of at most B = {b}.",
            f"Ratio. {self._ratio()}",
            f"Rounding. To multiples of 2^{self._statistic.declared.grid.exponent}, from the range "
            "alone: post-processing.",
            f"Conclusion. M is {claim}.",
            f"Error. Within ±{self.error():.6g} with confidence 95% in the worst case of all data sets.",
        )

    def _ratio(self) -> str:
        if isinstance(self._law, StudentT):
            return (
                f"Of all ratios of two such densities the largest is exp({decimal(self.epsilon)}) or "
                "less: μ^((d+1)/2)/λ at "
                f"λ = B or 1, with d = {self._law.degrees} and the larger root μ of μ² − (1 + α²/d + λ²)μ + λ²."
            )
        if isinstance(self._law, Quartic):
            return f"Scale costs 3·ln B and place 3^(3/4)·α: together at most {decimal(self.epsilon)}."
        assert isinstance(self._law, LogNormal)
        s = decimal(self._law.sigma)
        return (
            f"With σ = {s}, scale costs as a Gaussian of shift ln(B)/σ and place exp(3σ²/2)·α purely: √(2ρ) is their "
            f"sum, ρ = {float(self._cost):.6g} for ε = {decimal(self.epsilon)}."
        )

    def _noisy(self, spread: SensitivityBounds, rng: Entropy) -> int:
        """Return the place of the answer."""
        scale = spread.smooth(Weights.of(self.base)) / self.alpha
        low, high = self._statistic.ends()
        z = self._law.draw(digits_for(self._statistic.declared.span), rng)
        return rounded(z, bits(rng, 1) == 1, scale, spread.value(), low, high)

    def __repr__(self) -> str:
        first, add_remove = self._statistic.arguments(), Relation.ADD_REMOVE
        degrees = 2 if self.law == "student-t" else self.degrees
        given = called(
            self, "epsilon", "delta", first=first, relation=add_remove, law="student-t", degrees=degrees, changes=1
        )
        chosen = self._calibration != self._law.calibrate(self._cost)
        return f"{given[:-1]}, beta={self.beta:.6g})" if chosen else given


def _delta(law: str, delta: Real | None) -> Fraction | None:
    read_choice("law", law, LAWS)
    if law == "laplace-log-normal":
        if delta is None:
            raise InvalidParameter(
                "laplace-log-normal noise needs a delta.", hint="delta=1e-6, or law='student-t', which is pure"
            )
        return read_delta(delta, hint="take delta=1e-6; without δ use law='student-t'")
    if delta is not None and exact("delta", delta) != 0:
        raise InvalidParameter(
            f"{law} noise needs no delta, and takes 0 only.", hint="leave delta out, or law='laplace-log-normal'"
        )
    return None


def _law(law: str, degrees: int, epsilon: Fraction, delta: Fraction | None) -> tuple[SmoothLaw, Fraction]:
    """Return the law, and its cost in its own terms."""
    if count("degrees", degrees) > _MOST_DEGREES:
        raise InvalidParameter(f"degrees must be at most {_MOST_DEGREES}, not {degrees}.", hint="degrees=2")
    if delta is not None:
        from discreet.accounting.convert import rho_for

        rho = rho_for(epsilon, delta)
        if rho <= 0:
            raise InvalidParameter(
                "epsilon and delta leave nothing for laplace-log-normal noise.",
                hint="law='student-t', which needs no δ",
            )
        return LogNormal.best(rho), rho
    return {"student-t": StudentT(degrees), "cauchy": StudentT(1), "quartic": Quartic()}[law], epsilon


def _calibrated(law: SmoothLaw, cost: Fraction, beta: Real | None) -> Calibration:
    if beta is None:
        found = law.calibrate(cost)
    else:
        # any fraction near exp(β) will do, as α is proved for the fraction itself
        b = read_size("beta", beta)
        if b > _MOST_BETA:
            raise InvalidParameter(f"beta must be at most {_MOST_BETA}, not {decimal(b)}.")
        base = 1 + Fraction(math.expm1(b))
        found = Calibration(base, law.alpha(cost, base))
    if found.alpha <= 0:
        raise InvalidParameter(
            "beta alone costs all of epsilon, which leaves nothing for the noise.", hint="leave beta= out"
        )
    return found


_MOST_BETA = 20


def _changes(changes: int) -> int:
    found = count("changes", changes)
    if found > _MOST_CHANGES:
        raise InvalidParameter(f"changes must be at most {_MOST_CHANGES}, not {found}.")
    return found


_MOST_CHANGES = 1 << 20


def _assumed(value: Real) -> Fraction:
    s = exact("smooth_sensitivity", value)
    if s < 0:
        raise InvalidParameter("smooth_sensitivity must be at least 0.")
    return s


@dataclass(frozen=True, slots=True)
class Calibration:
    """The factor B by which a smooth sensitivity S may differ between neighbours, and α: the noise is S/α·Z."""

    base: Fraction
    alpha: Fraction


class SmoothLaw(ABC):
    """A symmetric law of Z that hides a change of place and of scale at once."""

    __slots__ = ()

    @abstractmethod
    def alpha(self, cost: Fraction, base: Fraction) -> Fraction:
        """Return the largest α, rounded down, with which S/α·Z costs no more; 0 where B alone costs as much.

        `cost` is ε for pure laws; for the concentrated one it is ρ.
        """

    @abstractmethod
    def estimate(self, cost: float, beta: float) -> float:
        """α in floats, for B = exp(β): where to look, and no more."""

    def calibrate(self, cost: Fraction) -> Calibration:
        """B and α for the least noise on evenly spaced values."""
        return _searched(self, cost)

    @abstractmethod
    def draw(self, digits: int, rng: Entropy) -> Magnitude:
        """|Z|."""

    @abstractmethod
    def tail(self, z: float) -> float:
        """P(|Z| > z)."""

    def quantile(self, confidence: Fraction) -> float:
        """Return a z with P(|Z| ≤ z) ≥ `confidence`, within one part in 2^36."""
        doubt = float(1 - confidence)
        if doubt < _LEAST_DOUBT:  # what follows is not proved to so many digits
            return math.inf
        high = 1.0
        while self.tail(high) > doubt * (1 - _NEAR):
            high *= 2
        low = 0.0
        while high - low > _NEAR * high / 4:
            middle = (low + high) / 2
            low, high = (low, middle) if self.tail(middle) <= doubt * (1 - _NEAR) else (middle, high)
        return high


@dataclass(frozen=True, slots=True)
class StudentT(SmoothLaw):
    """Student's t with d degrees of freedom, density ∝ (1 + z²/d)^(−(d+1)/2); d = 1 is the Cauchy law.

    Guarantee:
        f + S/α·Z is ε-DP for exactly the least such ε: with A = α²/d and λ = B or 1, the ratio of two densities
        is μ^((d+1)/2)/λ at most, where μ is the larger root of μ² − (1 + A + λ²)μ + λ²
        (docs/proofs/smooth-sensitivity.md).

    References:
        Bun, Steinke 2019, Section 3 (ε ≤ d·ln B + α(d + 1)/(2√d), with which the noise is about twice as much),
        https://arxiv.org/abs/1906.02830; Nissim, Raskhodnikova, Smith 2007, Section 2 (Cauchy),
        https://doi.org/10.1145/1250790.1250803
    """

    degrees: int

    def alpha(self, cost: Fraction, base: Fraction) -> Fraction:
        d, e = self.degrees, min(cost, MOST_EPSILON)
        w = _bits(e)
        least = min(_square(2 * (e + _ln(base, w)[0]) / (d + 1), base, w), _square(2 * e / (d + 1), Fraction(1), w))
        return _root_below(d * least)

    def draw(self, digits: int, rng: Entropy) -> Magnitude:
        return Ratio(StudentShape(self.degrees), digits, rng)

    def tail(self, z: float) -> float:
        from scipy.special import stdtr

        return 2 * float(stdtr(self.degrees, -z))

    def estimate(self, cost: float, beta: float) -> float:
        d, whole = self.degrees, 2 * (cost + beta) / (self.degrees + 1)
        one = math.expm1(whole) * -math.expm1(2 * beta - whole)
        two = math.expm1(2 * cost / (d + 1)) * -math.expm1(-2 * cost / (d + 1))
        return math.sqrt(d * max(min(one, two), 0.0))


@dataclass(frozen=True, slots=True)
class Quartic(SmoothLaw):
    """The law with density ∝ 1/(1 + z⁴): Cauchy-type, with a finite variance.

    Guarantee:
        f + S/α·Z is ε-DP with ε = 3·ln B + 3^(3/4)·α.

    References:
        Nissim, Raskhodnikova, Smith 2007, Section 2 (γ = 4, with ε/10 for each of the two),
        https://doi.org/10.1145/1250790.1250803; docs/proofs/smooth-sensitivity.md.
    """

    def alpha(self, cost: Fraction, base: Fraction) -> Fraction:
        e = min(cost, MOST_EPSILON)
        w = _bits(e)
        return max((e - 3 * _ln(base, w)[1]) / _STEEPEST, Fraction(0))

    def draw(self, digits: int, rng: Entropy) -> Magnitude:
        return Ratio(QuarticShape(), digits, rng)

    def estimate(self, cost: float, beta: float) -> float:
        return (cost - 3 * beta) / float(_STEEPEST)

    def tail(self, z: float) -> float:
        # π/√8 less the integral of 1/(1 + t⁴) up to z, over π/√8; far out by its series
        if z > 1e3:
            return min(1.0, math.sqrt(8) / math.pi / (3 * z**3))
        r = math.sqrt(2.0)
        log = math.log((z * z + r * z + 1) / (z * z - r * z + 1))
        angle = math.atan(r * z + 1) + math.atan(r * z - 1)
        return max(0.0, 1 - (log + 2 * angle) / (2 * math.pi))


@dataclass(frozen=True, slots=True)
class LogNormal(SmoothLaw):
    """X·exp(σY) for X Laplace of scale 1 and Y standard normal; all its moments are finite.

    Guarantee:
        f + S/α·Z is ρ-zCDP with √(2ρ) = ln(B)/σ + exp(3σ²/2)·α.

    References:
        Bun, Steinke 2019, Section 3 (Laplace log-normal), https://arxiv.org/abs/1906.02830;
        docs/proofs/smooth-sensitivity.md.
    """

    sigma: Fraction

    def alpha(self, cost: Fraction, base: Fraction) -> Fraction:
        e = min(cost, MOST_EPSILON**2 / 2)
        w = _bits(e)
        lift = Fraction(exp_neg(3 * self.sigma**2 / 2, w)[0], 1 << w)
        return max((_root_below(2 * e) - _ln(base, w)[1] / self.sigma) * lift, Fraction(0))

    @classmethod
    def best(cls, rho: Fraction) -> LogNormal:
        """Return the law, over σ, for the least standard deviation on evenly spaced values."""
        return _best_sigma(rho)

    def draw(self, digits: int, rng: Entropy) -> Magnitude:
        return LaplaceLogNormal(self.sigma, digits, rng)

    def tail(self, z: float) -> float:
        # the mean of exp(−z·exp(−σY)) by the trapezoidal rule, whose error is below 2^−40
        s = float(self.sigma)
        step = 1 / 16
        terms = [math.exp(-y * y / 2 - z * math.exp(-s * y)) for y in (step * i for i in range(-160, 161))]
        return min(1.0, math.fsum(terms) * step / math.sqrt(2 * math.pi))

    def estimate(self, cost: float, beta: float) -> float:
        s = float(self.sigma)
        return (math.sqrt(2 * cost) - beta / s) * math.exp(-1.5 * s * s)


_NEAR = 2.0**-36
_LEAST_DOUBT = 2.0**-60
_STEEPEST = Fraction(math.isqrt(math.isqrt(27 << 256)) + 1, 1 << 64)
"""3^(3/4), rounded up: the steepest that −ln(1 + z⁴) is, at z⁴ = 3."""


@lru_cache(maxsize=256)
def _searched(law: SmoothLaw, cost: Fraction) -> Calibration:
    """B for the least S/α where neighbouring values are one apart, so that S = max (k + 1)/B^k; α as proved for it."""
    e = float(min(cost, MOST_EPSILON if not isinstance(law, LogNormal) else MOST_EPSILON**2 / 2))
    scale = math.sqrt(2 * e) if isinstance(law, LogNormal) else e

    def noise(beta: float) -> float:
        a = law.estimate(e, beta)
        k = max(0, round(1 / beta) - 1) if beta < 1 else 0
        spread = max((j + 1) * math.exp(-beta * j) for j in (k, k + 1, max(k - 1, 0)))
        return spread / a if a > 0 else math.inf

    betas = [min(scale, 1.0) * i / 512 for i in range(1, 512)]
    beta = min(betas, key=noise)
    base = 1 + _short(math.expm1(beta))
    return Calibration(base, law.alpha(cost, base))


def _short(x: float) -> Fraction:
    """Return a fraction near x of 24 bits over a power of two."""
    m, e = math.frexp(x)
    return Fraction(round(m * (1 << 24))) * Fraction(2) ** (e - 24)


@lru_cache(maxsize=64)
def _best_sigma(rho: Fraction) -> LogNormal:
    def deviation(i: int) -> float:
        law = LogNormal(Fraction(i, 64))
        c = law.calibrate(rho)
        beta = float(c.base - 1)
        return math.exp(float(law.sigma) ** 2) / (float(c.alpha) * min(beta, 1.0)) if c.alpha > 0 else math.inf

    return LogNormal(Fraction(min(range(8, 97, 2), key=deviation), 64))


def _square(x: Fraction, base: Fraction, w: int) -> Fraction:
    """Return the largest A, rounded down, for which μ ≤ M = exp(x): (M − 1)(M − λ²)/M for λ = `base`, at least 0."""
    m = Fraction(1 << w, exp_neg(x, w)[1])  # at most exp(x)
    return max((m - 1) * (m - base * base) / m, Fraction(0))


def _ln(x: Fraction, w: int) -> tuple[Fraction, Fraction]:
    """Return an interval around ln x."""
    low, high = ln(x, w)
    return Fraction(low, 1 << w), Fraction(high, 1 << w)


def _bits(cost: Fraction) -> int:
    """Binary digits with which differences of the size of the squared cost keep 64."""
    return 256 + 4 * max(0, cost.denominator.bit_length() - cost.numerator.bit_length())


def _root_below(x: Fraction) -> Fraction:
    """√x rounded down to 48 bits."""
    if x <= 0:
        return Fraction(0)
    shift = 48 - (x.numerator.bit_length() - x.denominator.bit_length()) // 2
    return math.isqrt(math.floor(x * Fraction(4) ** shift)) / Fraction(2) ** shift
