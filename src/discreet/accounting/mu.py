"""The μ of Gaussian differential privacy: for Gaussian uses, and for others that are provably no worse.

A use is μ-GDP when no test tells its neighbours' outputs apart better than N(0, 1) from N(μ, 1). Each μ here is
the least one, and composes as √Σμ². Proofs: docs/proofs/questions.md
"""

from __future__ import annotations

import math
from fractions import Fraction

from discreet.accounting.bounds import Loss
from discreet.errors import InvalidParameter
from discreet.privacy.discrete_events import AtomsEvent, BoundedRangeEvent, RandomizedResponseEvent
from discreet.privacy.event import Composed, DiscreteGaussianEvent, DiscreteLaplaceEvent, Event, LaplaceEvent, ZCDPEvent
from discreet.privacy.exact import above
from discreet.privacy.guarantee import decimal
from discreet.privacy.sampling import PoissonEvent

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
