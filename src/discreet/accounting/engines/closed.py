"""What closed forms say of a composition: sums of ε, of ρ and of μ², and their conversions.

Every answer is a theorem's; none is numeric composition. Proofs: docs/proofs/conversions.md

The μ of a use: a use is μ-GDP when no test tells its neighbours' outputs apart better than N(0, 1) from N(μ, 1). Each μ
here is the least one, and composes as √Σμ². Proofs: docs/proofs/questions.md
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from discreet.accounting.bounds import AccountingEngine, Loss, Sums, sums, total
from discreet.accounting.convert import SMALLEST_DELTA, gdp_delta, gdp_epsilon, zcdp_delta, zcdp_epsilon
from discreet.accounting.divergence import orders_of, renyi_delta, renyi_epsilon, renyi_upper
from discreet.errors import InvalidParameter
from discreet.privacy.discrete_events import AtomsEvent, BoundedRangeEvent, RandomizedResponseEvent
from discreet.privacy.event import Composed, DiscreteGaussianEvent, DiscreteLaplaceEvent, Event, LaplaceEvent, ZCDPEvent
from discreet.privacy.exact import above, below
from discreet.privacy.guarantee import decimal
from discreet.privacy.pairs.guaranteed import ApproximatePair
from discreet.privacy.sampling import PoissonEvent

_FEW = 64  # distinct events whose known μ is worth its time


SUM = AccountingEngine("sum of ε and δ", "Dwork, Roth 2014, Theorem 3.16")
GAUSSIAN = AccountingEngine("Gaussian closed form", "Balle, Wang 2018, Theorem 8")
GDP = AccountingEngine("closed form of Gaussian differential privacy", "Dong, Roth, Su 2019, Corollary 3.3")
RENYI = AccountingEngine("Rényi divergences added up", "Canonne, Kamath, Steinke 2020, Proposition 12")
ZCDP = AccountingEngine("zCDP closed form", "Canonne, Kamath, Steinke 2020, Proposition 12")


def epsilons(events: Composed, delta: Fraction) -> Iterator[tuple[Fraction, AccountingEngine]]:
    """Every closed ε at δ; all of them valid."""
    known = sums(events)
    left = delta - known.failure
    if left < 0:
        return
    if known.pure is not None:
        yield known.pure, SUM
    if left < SMALLEST_DELTA:
        return
    yield from _converted(known, left)
    for alpha, divergence in _divergences(events):
        yield renyi_epsilon(alpha, divergence, left), RENYI
    mu_squared = _known_mu_squared(events, known)
    if mu_squared is not None:
        yield from _finite(gdp_epsilon(mu_squared, left), GDP)
    pure, rest = _split(events)
    if pure and rest is not None:
        yield from ((pure + epsilon, engine) for epsilon, engine in _converted(rest, left))


def deltas(events: Composed, epsilon: Fraction) -> Iterator[tuple[float, AccountingEngine]]:
    """Every closed δ at ε, none below the failure; all of them valid, the first is 1."""
    known = sums(events)
    yield 1.0, SUM
    if known.pure is not None:  # all of it is one (ε, δ)-DP use
        if known.pure <= epsilon:
            yield above(min(known.failure, Fraction(1))), SUM
        pair = ApproximatePair(above(known.pure), above(min(known.failure, Fraction(1))))
        yield float(pair.upper(np.array(below(epsilon)))), SUM
    yield from _lost(known, known.failure, epsilon)
    mu_squared = _known_mu_squared(events, known)
    if mu_squared is not None:
        yield gdp_delta(mu_squared, epsilon), GDP
    for alpha, divergence in _divergences(events):
        yield _plus(known.failure, renyi_delta(alpha, divergence, epsilon)), RENYI
    pure, rest = _split(events)
    if pure and pure <= epsilon and rest is not None:
        yield from _lost(rest, known.failure, epsilon - pure)


def _converted(known: Sums, delta: Fraction) -> Iterator[tuple[Fraction, AccountingEngine]]:
    if known.mu_squared is not None:
        yield from _finite(gdp_epsilon(known.mu_squared, delta), GAUSSIAN)
    elif known.rho is not None:
        yield from _finite(zcdp_epsilon(known.rho, delta), ZCDP)


def _finite(epsilon: float, engine: AccountingEngine) -> Iterator[tuple[Fraction, AccountingEngine]]:
    """Yield what left the range of floats says nothing."""
    if math.isfinite(epsilon):
        yield Fraction(epsilon), engine


def _lost(known: Sums, failure: Fraction, epsilon: Fraction) -> Iterator[tuple[float, AccountingEngine]]:
    if known.mu_squared is not None:
        yield _plus(failure, gdp_delta(known.mu_squared, epsilon)), GAUSSIAN
    elif known.rho is not None:
        yield _plus(failure, zcdp_delta(known.rho, epsilon)), ZCDP


def _known_mu_squared(events: Composed, known: Sums) -> Fraction | None:
    """Return a μ² of uses that are not all Gaussian; worth nothing for a single one, whose curve is known."""
    single = sum(n for _, n in events.parts) == 1  # `len(events)` is no more than a machine's integer
    if known.mu_squared is not None or known.failure or single or len(events.parts) > _FEW:
        return None
    return known_mu_squared(events)


def _divergences(events: Composed) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield the orders at which some event's divergence is given, with the divergence of all together."""
    orders = {alpha for event, _ in events for alpha in orders_of(event)}
    for alpha in sorted(orders):
        divergence = total((renyi_upper(event, alpha), n) for event, n in events)
        if divergence is not None:
            yield alpha, divergence


def _split(events: Composed) -> tuple[Fraction, Sums | None]:
    """Return the sum of the pure events' ε, and the sums of the others; None when there are no others."""
    pure = total((e.pure, n) for e, n in events if e.pure is not None)
    rest = [(e, n) for e, n in events if e.pure is None]
    assert pure is not None
    return pure, sums(rest) if rest else None


def _plus(failure: Fraction, delta: float) -> float:
    return min(above(failure + Fraction(delta)), 1.0) if math.isfinite(delta) else 1.0


_UP = 1 + 1e-12  # far above the errors of SciPy's quantiles, which the tests compare with 50 digits
_MOST_CATEGORIES = 2**1000  # more of them are less loss, and this many still fit a float
_WORDS = {DiscreteGaussianEvent: "discrete Gaussian noise", ZCDPEvent: "a use known by its ρ alone"}


def gdp(loss: Loss) -> float:
    """Return a μ for which all of it is μ-GDP, rounded up: the least one for a single use.

    Guarantee:
        Any ε-DP use has μ = 2Φ⁻¹(e^ε/(1 + e^ε)), an ε-bounded-range use that of ε/2, Laplace noise
        2Φ⁻¹(1 − e^−r/2 /2); a use on a sample has no more than without sampling.

    Raises:
        InvalidParameter: a δ that is spent apart (no μ allows for it), or a use for which no μ is proven.

    References: Dong, Roth, Su 2019, Definition 2.6, Theorem 2.7 and Corollary 3.3 (sums),
    https://arxiv.org/abs/1905.02383; pure uses: Liu, Sun, Jiang, Kong 2022, https://arxiv.org/abs/2210.09269; the
    least μ of each: docs/proofs/questions.md
    """
    if loss.failure:
        raise InvalidParameter(
            f"this loss has no μ: δ = {decimal(loss.failure)} is spent apart, and no Gaussian noise ever reveals "
            "everything.",
            hint="ask for epsilon(delta) at a larger delta, or for tradeoff",
        )
    total = known_mu_squared(loss.events)
    if total is None:
        unknown = next(event for event, _ in loss.events if _mu_squared(event) is None)
        words = _WORDS.get(type(unknown), type(unknown).__name__)
        raise InvalidParameter(
            f"this loss has no known μ: none is proven for {words}.",
            hint="ask for epsilon(delta=1e-6), zcdp or tradeoff",
        )
    mu = math.sqrt(above(total))
    return mu if Fraction(mu) ** 2 >= total else math.nextafter(mu, math.inf)


def known_mu_squared(events: Composed) -> Fraction | None:
    """Return a μ² for which events that spend no δ apart are μ-GDP together; None where one has no known μ."""
    total = Fraction(0)
    for event, n in events:
        mu_squared = _mu_squared(event)
        if mu_squared is None:
            return None
        total += mu_squared * n
    return total


def _mu_squared(event: Event) -> Fraction | None:
    """Return the least known μ² of one use; None when there is none."""
    if event.mu_squared is not None:
        return event.mu_squared
    known = [] if event.pure is None else [Fraction(_mu(event, above(event.pure))) ** 2]
    if isinstance(event, PoissonEvent):
        inner = _mu_squared(event.event)
        known += [] if inner is None else [inner]
    if event.rho == 0:
        known.append(Fraction(0))
    return min(known, default=None)


def _mu(event: Event, pure: float) -> float:
    """Return the least μ of an ε-DP use, by its family where that says more than ε."""
    if pure == 0:
        return 0.0
    known = _pure(pure)
    if isinstance(event, LaplaceEvent):
        known = min(known, _balanced(-math.expm1(-pure / 2), -pure / 2 - math.log(2)))
    elif isinstance(event, DiscreteLaplaceEvent):
        known = min(known, _discrete_laplace(event.shift, above(1 / event.scale)))
    elif isinstance(event, BoundedRangeEvent):
        known = min(known, _pure(pure / 2))
    elif isinstance(event, RandomizedResponseEvent) and event.categories > 2:
        known = min(known, _randomized_response(pure, min(event.categories, _MOST_CATEGORIES)))
    elif isinstance(event, AtomsEvent):
        known = min(known, _atoms(event))
    return known * _UP


def _pure(epsilon: float) -> float:
    return _balanced(math.tanh(epsilon / 2), -epsilon - math.log1p(math.exp(-epsilon)))


def _balanced(centre: float, log_tail: float) -> float:
    return 2 * _deviate(centre, log_tail)


def _deviate(centre: float, log_tail: float) -> float:
    """Return the z with Φ(−z) = tail ≤ 1/2, from 1 − 2·tail and log(tail), whichever keeps the digits."""
    from scipy import special

    if centre < 0.5:
        return math.sqrt(2) * float(special.erfinv(centre))
    return -float(special.ndtri_exp(log_tail))


def _discrete_laplace(shift: int, rate: float) -> float:
    """Φ⁻¹ of the two tails e^(−m·rate)/(1 + e^−rate) whose numbers m add up to shift + 1, the most equal ones."""
    q = math.exp(-rate)

    def deviate(m: int) -> float:
        centre = -(math.expm1(-m * rate) + q * math.expm1(-(m - 1) * rate)) / (1 + q)
        return _deviate(centre, -m * rate - math.log1p(q))

    half = (shift + 1) // 2
    return deviate(half) + deviate(shift + 1 - half)


def _randomized_response(epsilon: float, categories: int) -> float:
    """Between the chances p of the truth and e^−ε·p of one lie."""
    from scipy import special

    lies = float(categories - 1) * math.exp(-epsilon)
    log_p = -math.log1p(lies)
    low = -float(special.ndtri_exp(log_p - epsilon))
    if lies < 1:
        high = float(special.ndtri_exp(log_p + math.log(lies))) if lies else -math.inf
    else:
        high = -float(special.ndtri_exp(log_p))
    return low - high + 1e-13 * (1 + abs(low) + abs(high))  # near ε = 0 the two cancel


def _atoms(event: AtomsEvent) -> float:
    """Return the largest gap at the corners of the trade-off curve, exact up to the quantiles."""
    both = ((p, q) for p, q in zip(event.p, event.q, strict=True) if p)
    largest, power, level = 0.0, Fraction(0), Fraction(0)
    for p, q in sorted(both, key=lambda x: x[0] / x[1], reverse=True):
        power, level = power + p, level + q
        if level < 1 and power < 1:
            low, high = _quantile(level), _quantile(power)
            largest = max(largest, high - low + 1e-13 * (1 + abs(low) + abs(high)))
    return largest


def _quantile(x: Fraction) -> float:
    from scipy import special

    tail = min(x, 1 - x)
    z = float(special.ndtri_exp(math.log(tail.numerator) - math.log(tail.denominator)))
    return z if x <= Fraction(1, 2) else -z
