"""The mechanisms of Microsoft's prv_accountant, read without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from discreet import accounting
from discreet.accounting.interop.text import times, total
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, exact


def from_prv(prvs: object, num_self_compositions: int | Sequence[int]) -> PrivacyLoss:
    """Return the loss of prv_accountant's mechanisms, each as often as said: what `compute_epsilon` is asked for.

    `prvs` is one mechanism, several, or an accountant that holds them.

    Guarantee:
        As the mechanisms promise: Poisson samples of Gaussian noise for adding or removing one record.

    Raises:
        InvalidParameter: an unknown mechanism, a parameter out of range, or counts of another length.
    """
    held = getattr(prvs, "prvs", prvs)
    mechanisms = list(held) if isinstance(held, list | tuple) else [held]
    counts = num_self_compositions
    several = list(counts) if isinstance(counts, Sequence) else [counts]
    if len(several) != len(mechanisms):
        raise InvalidParameter(f"{len(mechanisms)} mechanisms need as many counts, not {len(several)}.")
    pairs = zip(mechanisms, several, strict=True)
    return total((_one(mechanism), times("num_self_compositions", n)) for mechanism, n in pairs)


def _one(mechanism: Any) -> PrivacyLoss:
    name = type(mechanism).__name__
    if name not in _MECHANISMS:
        raise InvalidParameter(
            f"{name} is not a mechanism that can be accounted for.", hint=f"these can: {', '.join(_MECHANISMS)}"
        )
    try:
        return _MECHANISMS[name](mechanism)
    except AttributeError:
        raise InvalidParameter(f"the {name} does not hold its parameters as prv_accountant 0.2 does.") from None


def _quotient(name: str, value: Real) -> Fraction:
    """Return the largest quotient that may have been rounded to this float."""
    return exact(name, math.nextafter(float(exact(name, value)), math.inf))


_MECHANISMS: Mapping[str, Callable[[Any], PrivacyLoss]] = MappingProxyType(
    {
        "PoissonSubsampledGaussianMechanism": lambda m: accounting.gaussian(exact("noise_multiplier", m.sigma)).poisson(
            exact("sampling_probability", m.p)
        ),
        "GaussianMechanism": lambda m: accounting.gdp(_quotient("mu", m.mu)),
        "LaplaceMechanism": lambda m: accounting.laplace(1, exact("mu", m.mu)),
        "PureDPMechanism": lambda m: accounting.pure(exact("eps", m.eps)),
        "ApproximateDPMechanism": lambda m: accounting.approximate(
            exact("epsilon", m.pure_dp.eps), exact("delta", m.delta)
        ),
    }
)
