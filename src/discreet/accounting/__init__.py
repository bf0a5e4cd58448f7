"""What uses of mechanisms cost together: losses, conversions, calibration. Names no mechanism.

Every constructor here returns a `PrivacyLoss`; add them, multiply them by a count, and ask for `epsilon` or
`delta`.

>>> loss = gaussian(noise_multiplier=10) * 20 + pure(0.1)
>>> round(loss.epsilon(delta=1e-6), 2)
2.04
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from discreet.accounting.calibrate import calibrate as calibrate
from discreet.accounting.loss import PrivacyLoss as PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.privacy.discrete_events import AtomsEvent, BoundedRangeEvent, RandomizedResponseEvent
from discreet.privacy.event import (
    ApproximateEvent,
    Composed,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    ZCDPEvent,
)
from discreet.privacy.exact import Real, count, exact, positive, probability


def pure(epsilon: Real) -> PrivacyLoss:
    """The loss of any ε-DP use.

    >>> pure(0.5).epsilon()
    0.5
    """
    return _one(ApproximateEvent(_at_least_zero("epsilon", epsilon)))


def approximate(epsilon: Real, delta: Real) -> PrivacyLoss:
    """The loss of any (ε, δ)-DP use.

    >>> (approximate(0.5, 1e-7) * 2).epsilon(delta=2e-7)
    1.0
    """
    return _one(ApproximateEvent(_at_least_zero("epsilon", epsilon), probability("delta", delta)))


def zcdp(rho: Real) -> PrivacyLoss:
    """The loss of any ρ-zCDP use.

    >>> round(zcdp(0.5).epsilon(delta=1e-6), 3)
    5.222
    """
    return _one(ZCDPEvent(_at_least_zero("rho", rho)))


def gdp(mu: Real) -> PrivacyLoss:
    """The loss of any μ-GDP use, as that of the Gaussian use that is exactly μ-GDP.

    >>> round(gdp(1).epsilon(delta=1e-6), 3)
    4.887
    """
    return _one(GaussianEvent(_at_least_zero("mu", mu) ** 2))


def laplace(scale: Real, sensitivity: Real = 1) -> PrivacyLoss:
    """The loss of Laplace noise of that scale on a number that moves by at most `sensitivity`.

    >>> laplace(scale=2)
    PrivacyLoss: ε = 0.5 (pure)
    """
    return _one(LaplaceEvent(_at_least_zero("sensitivity", sensitivity) / positive("scale", scale)))


def gaussian(noise_multiplier: Real) -> PrivacyLoss:
    """The loss of Gaussian noise whose deviation is `noise_multiplier` times the ℓ2 sensitivity.

    It holds in any dimension, and for noise that is rounded afterwards.

    >>> gaussian(noise_multiplier=2)
    PrivacyLoss: μ = 0.5 (Gaussian)
    """
    return _one(GaussianEvent(1 / positive("noise_multiplier", noise_multiplier) ** 2))


def discrete_laplace(scale: Real, shift: int = 1) -> PrivacyLoss:
    """The loss of noise with mass ∝ exp(−|k|/scale) on one integer that moves by at most `shift`.

    >>> discrete_laplace(scale=4, shift=2).epsilon()
    0.5
    """
    return _one(DiscreteLaplaceEvent(count("shift", shift, least=0), positive("scale", scale)))


def discrete_gaussian(sigma: Real, shift: int = 1) -> PrivacyLoss:
    """The loss of noise with mass ∝ exp(−k²/2σ²) on one integer that moves by at most `shift`.

    >>> discrete_gaussian(sigma=10)
    PrivacyLoss: ρ = 0.005 (zCDP)
    """
    return _one(DiscreteGaussianEvent(count("shift", shift, least=0), positive("sigma", sigma) ** 2))


def randomized_response(epsilon: Real, categories: int = 2) -> PrivacyLoss:
    """The loss of saying the truth with chance e^ε/(e^ε + k − 1), and each other category with 1/(e^ε + k − 1).

    Guarantee:
        For one person's answer replaced by another.

    >>> round((randomized_response(0.5, categories=4) * 20).epsilon(delta=1e-6), 2)
    8.07
    """
    return _one(
        RandomizedResponseEvent(_at_least_zero("epsilon", epsilon), count("categories", categories, least=2))
    )


def exponential(epsilon: Real) -> PrivacyLoss:
    """The loss of an ε-bounded-range use, as the exponential mechanism with weights exp(εu/2Δ) is one.

    It is ε-DP, and (ε²/8)-zCDP: a quarter of what ε alone would say.

    >>> round((exponential(0.1) * 50).epsilon(delta=1e-6), 2)
    1.66
    """
    return _one(BoundedRangeEvent(_at_least_zero("epsilon", epsilon)))


def from_pmfs(p: Sequence[Real], q: Sequence[Real]) -> PrivacyLoss:
    """The loss of a use whose outputs have masses p on one data set and q on its neighbour, either way round.

    Each sums to 1 exactly: write thirds as '1/3'.

    >>> from_pmfs([0.75, 0.25], [0.25, 0.75])
    PrivacyLoss: ε = 1.09861 (pure)
    """
    return _one(AtomsEvent(tuple(exact("p", x) for x in p), tuple(exact("q", x) for x in q)))


def _one(event: Event) -> PrivacyLoss:
    return PrivacyLoss(Composed([event]))


def _at_least_zero(name: str, value: Real) -> Fraction:
    x = exact(name, value)
    if x < 0:
        raise InvalidParameter(f"{name} must be at least 0, not {value}.")
    return x
