"""The laws of the losses of events, for those whose moment generating function has a formula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias, TypeGuard

import numpy as np

from discreet.accounting.engines.sampled_gaussian import SampledGaussianLaw
from discreet.accounting.sums import total
from discreet.privacy.discrete_events import RandomizedResponseEvent
from discreet.privacy.event import ApproximateEvent, Composed, DiscreteLaplaceEvent, Event, GaussianEvent, LaplaceEvent
from discreet.privacy.exact import above, below
from discreet.privacy.law import Floats, GaussianLaw, LaplaceLaw, Law, SumLaw, TimesLaw, TwoPointLaw
from discreet.privacy.sampling import PoissonEvent

_Part: TypeAlias = tuple[int, int, int]
"""The numerator and the denominator of a parameter, and how often it comes."""

_FEW = 64  # parameters that are rounded to the next float above


def laws(events: Composed) -> tuple[Law, Law] | None:
    """Return the law of the loss, and of the reverse loss, apart from `failure`; None when an event has no formula.

    Parameters are rounded to floats, towards the larger loss.
    """
    two: list[_Part] = []
    laplace: list[_Part] = []
    sampled = []
    other: list[tuple[Law, Law]] = []
    gaussian: list[tuple[Fraction | None, int]] = []
    for event, n in events:
        # Types are compared as they are: of many events, an `isinstance` of abstract ones takes longer than the rest.
        if type(event) is GaussianEvent:
            gaussian.append((event.mu_squared, n))
        elif type(event) is LaplaceEvent:
            laplace.append((*event.ratio.as_integer_ratio(), n))
        elif type(event) is ApproximateEvent:
            two.append((*event.epsilon.as_integer_ratio(), n))
        elif type(event) is DiscreteLaplaceEvent and event.shift == 1:
            scale, unit = event.scale.as_integer_ratio()
            two.append((unit, scale, n))
        elif type(event) is RandomizedResponseEvent and event.categories == 2:
            two.append((*event.epsilon.as_integer_ratio(), n))
        elif samples_nearly_all(event):  # floats cannot say how many it leaves out; taking all dominates
            gaussian.append((event.event.mu_squared, n))
        elif _samples_gaussian(event):
            sampled.append((event, n))
        else:
            pair = event.pair()
            both = pair.law(), pair.reverse().law()
            if both[0] is None or both[1] is None:
                return None
            other.append((TimesLaw(both[0], n), TimesLaw(both[1], n)))
    mu_squared = total(gaussian)
    common: list[Law] = [GaussianLaw(above(mu_squared))] if mu_squared else []
    common += [LaplaceLaw(*_arrays(laplace))] if laplace else []
    common += [TwoPointLaw(*_arrays(two))] if two else []
    sampled.sort(key=repr)
    other.sort(key=repr)
    remove = (*(_sampled(e, n, True) for e, n in sampled), *(law for law, _ in other))
    add = (*(_sampled(e, n, False) for e, n in sampled), *(law for _, law in other))
    return SumLaw((*common, *remove)), SumLaw((*common, *add))


def samples_nearly_all(event: Event) -> TypeGuard[PoissonEvent]:
    """Return whether it is Gaussian noise on a sample whose rate is 1 but for less than floats can say."""
    return _samples_gaussian(event) and 1 - event.rate < Fraction(1, 2**50)


def _samples_gaussian(event: Event) -> TypeGuard[PoissonEvent]:
    return isinstance(event, PoissonEvent) and isinstance(event.event, GaussianEvent)


def _sampled(event: Event, n: int, removes: bool) -> SampledGaussianLaw:
    assert isinstance(event, PoissonEvent)
    assert isinstance(event.event, GaussianEvent)
    sigma = math.sqrt(below(1 / event.event.mu_squared)) * (1 - 2.0**-51)
    return SampledGaussianLaw(sigma, above(event.rate), n, removes)


def _arrays(parts: Sequence[_Part]) -> tuple[Floats, Floats]:
    try:  # one unit more, for a quotient that was rounded down: of many, to look at each takes longer
        many = len(parts) > _FEW
        x = np.nextafter([whole / unit for whole, unit, _ in parts], math.inf) if many else None
    except OverflowError:
        x = None
    if x is None:
        x = np.array([above(Fraction(whole, unit)) for whole, unit, _ in parts])
    counts = np.array([float(n) for _, _, n in parts])
    order = np.lexsort((counts, x))  # the order of composition leaves no trace
    return x[order], counts[order]
