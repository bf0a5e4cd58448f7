"""A `PrivacyLoss` for each kind of use: its parameters in, what it costs out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet.accounting.loss import PrivacyLoss, made
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
from discreet.privacy.exact import Real, above, coprime, count, exact, lowest, positive, probability
from discreet.privacy.unit import Relation

_LARGEST = 10**100
"""Of an integer, or of one of a list: its square, times any count of uses, is still a float."""

if TYPE_CHECKING:
    from discreet.privacy.densities import Density


def pure(epsilon: Real) -> PrivacyLoss:
    """Return the loss of any ε-DP use.

    >>> pure(0.5).epsilon()
    0.5
    """
    return _one(ApproximateEvent(_at_least_zero("epsilon", epsilon)))


def approximate(epsilon: Real, delta: Real) -> PrivacyLoss:
    """Return the loss of any (ε, δ)-DP use.

    >>> round((approximate(0.5, 1e-7) * 2).epsilon(delta=2e-7), 9)
    1.0
    """
    return _one(ApproximateEvent(_at_least_zero("epsilon", epsilon), probability("delta", delta)))


def zcdp(rho: Real) -> PrivacyLoss:
    """Return the loss of any ρ-zCDP use.

    >>> round(zcdp(0.5).epsilon(delta=1e-6), 3)
    5.222
    """
    return _one(ZCDPEvent(_at_least_zero("rho", rho)))


def gdp(mu: Real) -> PrivacyLoss:
    """Return the loss of any μ-GDP use, as that of the Gaussian use that is exactly μ-GDP.

    >>> round(gdp(1).epsilon(delta=1e-6), 3)
    4.887
    """
    return _one(GaussianEvent(_at_least_zero("mu", mu) ** 2))


def laplace(scale: Real, sensitivity: Real = 1) -> PrivacyLoss:
    """Return the loss of Laplace noise of that scale on a number that moves by at most `sensitivity`.

    >>> laplace(scale=2)
    PrivacyLoss: ε = 0.5 (pure)
    """
    if type(sensitivity) is int and sensitivity == 1:  # what comes most often
        n, d = positive("scale", scale).as_integer_ratio()
        return _one(LaplaceEvent(coprime(d, n)))
    return _one(LaplaceEvent(_ratio(_at_least_zero("sensitivity", sensitivity), positive("scale", scale))))


def gaussian(noise_multiplier: Real) -> PrivacyLoss:
    """Return the loss of Gaussian noise whose deviation is `noise_multiplier` times the ℓ2 sensitivity.

    It holds in any dimension, and for noise that is rounded afterwards.

    >>> gaussian(noise_multiplier=2)
    PrivacyLoss: μ = 0.5 (Gaussian: ε = 2.254 at δ = 1e-06)
    """
    n, d = positive("noise_multiplier", noise_multiplier).as_integer_ratio()
    return _one(GaussianEvent(coprime(d * d, n * n)))


def discrete_laplace(scale: Real, shift: int = 1) -> PrivacyLoss:
    """Return the loss of noise with mass ∝ exp(−|k|/scale) on one integer that moves by at most `shift`.

    >>> discrete_laplace(scale=4, shift=2).epsilon()
    0.5
    """
    return _one(DiscreteLaplaceEvent(_shift("shift", shift), positive("scale", scale)))


def discrete_gaussian(sigma: Real, shift: int = 1) -> PrivacyLoss:
    """Return the loss of noise with mass ∝ exp(−k²/2σ²) on one integer that moves by at most `shift`.

    >>> discrete_gaussian(sigma=10)
    PrivacyLoss: ρ = 0.005 (zCDP)
    """
    deviation = positive("sigma", sigma)
    if not Fraction(1, 10**50) <= deviation <= 10**50:
        raise InvalidParameter(f"sigma must lie between 1e-50 and 1e50, not {sigma}.")
    return _one(DiscreteGaussianEvent(_shift("shift", shift), deviation**2))


def randomized_response(epsilon: Real, categories: int = 2) -> PrivacyLoss:
    """Return the loss of saying the truth with chance e^ε/(e^ε + k − 1), and each other category with 1/(e^ε + k − 1).

    Guarantee:
        For one person's answer replaced by any other; and for a person added or removed, where an absent person is
        taken to answer one fixed category.

    >>> round((randomized_response(0.5, categories=4) * 20).epsilon(delta=1e-6), 2)
    8.07
    """
    return _one(RandomizedResponseEvent(_at_least_zero("epsilon", epsilon), count("categories", categories, least=2)))


def exponential(epsilon: Real) -> PrivacyLoss:
    """Return the loss of an ε-bounded-range use, as the exponential mechanism with weights exp(εu/2Δ) is one.

    It is ε-DP, and (ε²/8)-zCDP: a quarter of what ε alone would say.

    >>> round((exponential(0.1) * 50).epsilon(delta=1e-6), 2)
    1.66
    """
    return _one(BoundedRangeEvent(_at_least_zero("epsilon", epsilon)))


def geometric(epsilon: Real, *, sensitivity: int = 1) -> PrivacyLoss:
    """Return the loss of the geometric mechanism: noise with mass ∝ exp(−ε|k|/sensitivity) on an integer.

    >>> geometric(0.5) == discrete_laplace(scale=2)
    True
    """
    s = _shift("sensitivity", sensitivity, least=1)
    e = positive("epsilon", epsilon)
    whole, parts = e.as_integer_ratio()
    return _one(DiscreteLaplaceEvent(s, lowest(s * parts, whole)))


def staircase(epsilon: Real, *, gamma: Real | None = None) -> PrivacyLoss:
    """Return the loss of staircase noise; γ is by default that of the least expected error, 1/(1 + e^(ε/2)).

    Guarantee:
        For one number that moves by at most the sensitivity that the noise was made for.

    References: Geng, Viswanath 2012, https://arxiv.org/abs/1212.1186; docs/proofs/pairs.md, "Staircase"

    >>> round((staircase(0.5) * 10).epsilon(delta=1e-3), 4)
    4.8506
    """
    from discreet.privacy.staircase import StaircaseEvent

    e = positive("epsilon", epsilon)
    # The cost depends on γ: a sampler whose γ is another number than this float has to say so.
    best = Fraction(1 / (1 + math.exp(min(above(e) / 2, 700.0))))
    return _one(StaircaseEvent(e, best if gamma is None else exact("gamma", gamma)))


def permute_and_flip(epsilon: Real) -> PrivacyLoss:
    """Return the loss of ε-DP permute-and-flip, the same as report noisy max with exponential noise.

    Laplace noise with the same ε dominates it, which costs less than ε alone; it is not ε-bounded-range.

    References: McKenna, Sheldon 2020, https://arxiv.org/abs/2010.12603; docs/proofs/pairs.md

    >>> round((permute_and_flip(0.1) * 50).epsilon(delta=1e-6), 2)
    3.12
    """
    return _one(LaplaceEvent(_at_least_zero("epsilon", epsilon)))


def from_pmfs(p: Sequence[Real], q: Sequence[Real], *, relation: str | Relation = Relation.ADD_REMOVE) -> PrivacyLoss:
    """Return the loss of a use whose outputs have masses p on a data set with a unit, and q on the one without it.

    Each sums to 1 exactly: write thirds as '1/3'. With `relation="replace"` they are the laws of two units, of
    which either may replace the other. Where q is p in another order nothing depends on that.

    >>> from_pmfs([0.75, 0.25], [0.25, 0.75])
    PrivacyLoss: ε = 1.09861 (pure)
    """
    return _ordered(AtomsEvent(_numbers("p", p), _numbers("q", q)), relation)


def from_densities(
    p: Density,
    q: Density,
    *,
    points: int | Sequence[float] = 1024,
    largest: Real | None = None,
    relation: str | Relation = Relation.ADD_REMOVE,
) -> PrivacyLoss:
    """Return the loss of a use whose output has density p on a data set with a unit, and q on the one without it.

    The densities are such as `scipy.stats.norm(0, 1)`, and their ratio is monotone. It is taken for a pair of
    finite laws above them, nearer with more `points`; `largest` is the largest loss, where there is one, and
    `relation` as in `from_pmfs`.

    References: docs/proofs/densities.md

    >>> from scipy.stats import laplace as density
    >>> round(from_densities(density(0, 2), density(1, 2), largest=0.5).epsilon(delta=1e-9), 4)
    0.5
    """
    from discreet.privacy import densities

    return _ordered(densities.from_densities(p, q, points=points, largest=largest), relation)


def _ordered(event: AtomsEvent, relation: str | Relation) -> PrivacyLoss:
    from discreet.privacy.discrete_events import EitherOrderEvent

    either = Relation.parse(relation) is Relation.REPLACE and event.relation is not None
    return _one(EitherOrderEvent(event) if either else event)


def renyi(orders: Sequence[Real], divergences: Sequence[Real]) -> PrivacyLoss:
    """Return the loss of any use whose Rényi divergences of these orders are at most these, in both directions.

    >>> round((renyi([2, 8, 32], [0.01, 0.04, 0.16]) * 10).epsilon(delta=1e-6), 3)
    1.902
    """
    from discreet.privacy.event import RenyiEvent

    return _one(RenyiEvent(_numbers("orders", orders), _numbers("divergences", divergences)))


def random_allocation(noise_multiplier: Real, steps: int) -> PrivacyLoss:
    """Return the loss of one pass over `steps` noisy steps, of which each unit enters one, drawn uniformly.

    Guarantee:
        For add-remove neighbours: each unit draws its step by itself, and the draws stay secret. Batches of
        fixed size after a shuffle are not covered (https://arxiv.org/abs/2403.17673).

    References: Chua et al. 2024, https://arxiv.org/abs/2412.16802; Feldman, Shenfeld 2025,
    https://arxiv.org/abs/2502.08202; docs/proofs/allocation.md

    >>> random_allocation(noise_multiplier=1, steps=100)
    PrivacyLoss: 1 use, for add-remove neighbours
    """
    from discreet.privacy.allocation import AllocationEvent

    return _one(AllocationEvent(1 / positive("noise_multiplier", noise_multiplier) ** 2, count("steps", steps)))


def _one(event: Event) -> PrivacyLoss:
    return made(Composed.of(event), True, 1)


def _numbers(name: str, values: Sequence[Real]) -> tuple[Fraction, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidParameter(
            f"{name} must be a list of numbers, not {type(values).__name__}.", hint=f"as in {name}=[0.5, 0.5]"
        )
    known = tuple(exact(name, x) for x in values)
    if any(abs(x) > _LARGEST for x in known):
        raise InvalidParameter(f"{name} must be at most 1e100, each of them.")
    return known


def _shift(name: str, value: int, least: int = 0) -> int:
    n = count(name, value, least=least)
    if n > _LARGEST:
        raise InvalidParameter(f"{name} must be at most 1e100, not {n}.")
    return n


def _at_least_zero(name: str, value: Real) -> Fraction:
    x = exact(name, value)
    if x.numerator < 0:
        raise InvalidParameter(f"{name} must be at least 0, not {value}.")
    return x


def _ratio(x: Fraction, y: Fraction) -> Fraction:
    """x/y of a positive y, a little faster."""
    (a, b), (c, d) = x.as_integer_ratio(), y.as_integer_ratio()
    return x if c == d else lowest(a * d, b * c)
