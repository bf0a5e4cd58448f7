"""Losses as events of Google's dp_accounting: as JSON, or as its objects where it is installed."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from discreet.accounting.interop.dp_accounting import contributions
from discreet.accounting.interop.text import down, root, up
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter, MissingExtra
from discreet.privacy.discrete_events import AtomsEvent, BoundedRangeEvent, RandomizedResponseEvent
from discreet.privacy.event import (
    ApproximateEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    ZCDPEvent,
)
from discreet.privacy.exact import above
from discreet.privacy.fixed_size import FixedSizeEvent
from discreet.privacy.sampling import PoissonEvent
from discreet.privacy.unit import Relation

_MODULE = "dp_accounting.dp_event"
_Written = dict[str, Any]


def to_dp_accounting_json(loss: PrivacyLoss, *, relation: str | Relation | None = None) -> str:
    """Return a loss as JSON of a dp_accounting event, as `from_dp_accounting` reads it.

    Guarantee:
        The event costs at least what `loss` does, for neighbours by `relation` (by default those of `loss`,
        or adding and removing): a number that no float has is rounded to the side of more loss.

    Raises:
        InvalidParameter: a use for which dp_accounting has no event.

    >>> from discreet.accounting import gaussian
    >>> to_dp_accounting_json(gaussian(2))
    '{"module_name": "dp_accounting.dp_event", "class_name": "GaussianDpEvent", "noise_multiplier": 2.0}'
    """
    return json.dumps(_loss(loss, relation), allow_nan=False)


def to_dp_accounting(loss: PrivacyLoss, *, relation: str | Relation | None = None) -> object:
    """Return the same as an object of dp_accounting.

    Guarantee: as `to_dp_accounting_json`.

    Raises:
        MissingExtra: dp_accounting is not installed.
        InvalidParameter: a use for which it, or the version that is installed, has no event.
    """
    try:
        module = importlib.import_module(_MODULE)
    except ImportError:
        raise MissingExtra(
            "dp_accounting is not installed.",
            hint="install dp-accounting, or use to_dp_accounting_json, which needs nothing",
        ) from None
    return _object(module, _loss(loss, relation))


def _object(module: object, written: _Written) -> object:
    values = {key: value for key, value in written.items() if key not in ("module_name", "class_name")}
    if "event" in values:
        values["event"] = _object(module, values["event"])
    if "events" in values:
        values["events"] = [_object(module, event) for event in values["events"]]
    make = getattr(module, written["class_name"], None)
    if make is None:
        raise InvalidParameter(
            f"the installed dp_accounting has no {written['class_name']}.", hint="install a newer one"
        )
    made: object = make(**values)
    return made


def _loss(loss: PrivacyLoss, relation: str | Relation | None) -> _Written:
    own = loss.events.relation
    asked = (own or Relation.ADD_REMOVE) if relation is None else Relation.parse(relation)
    if own is not None and own is not asked:
        raise InvalidParameter(f"this loss holds for {own.value} neighbours only, not for {asked.value} ones.")
    parts = [_times(_use(event, asked), n) for event, n in loss.events]
    if len(parts) == 1:
        return parts[0]
    return _event("ComposedDpEvent", events=parts) if parts else _event("NoOpDpEvent")


def _times(written: _Written, n: int) -> _Written:
    return _event("SelfComposedDpEvent", event=written, count=n) if n > 1 else written


def _use(event: Event, relation: Relation) -> _Written:
    if type(event) not in _WRITERS:
        raise InvalidParameter(f"dp_accounting has no event for a {type(event).__name__.removesuffix('Event')} use.")
    return _WRITERS[type(event)](event, relation)


def _laplace(e: LaplaceEvent, relation: Relation) -> _Written:
    return _noise("LaplaceDpEvent", contributions(relation) / e.ratio) if e.ratio else _event("NoOpDpEvent")


def _gaussian(e: GaussianEvent, relation: Relation) -> _Written:
    if not e.mu_squared:
        return _event("NoOpDpEvent")
    return _noise("GaussianDpEvent", contributions(relation) * root(1 / e.mu_squared))


def _discrete_laplace(e: DiscreteLaplaceEvent, relation: Relation) -> _Written:
    return _event(
        "DiscreteLaplaceDpEvent", noise_parameter=up(1 / e.scale), sensitivity=-(-e.shift // contributions(relation))
    )


def _discrete_gaussian(e: DiscreteGaussianEvent, relation: Relation) -> _Written:
    return _event(
        "DiscreteGaussianDpEvent",
        sigma=down(root(e.sigma_squared)),
        sensitivity=float(-(-e.shift // contributions(relation))),
        dimension=1,
    )


def _randomized_response(e: RandomizedResponseEvent, relation: Relation) -> _Written:
    if e.epsilon > 600:
        raise InvalidParameter("randomized response with ε above 600 hardly differs from the truth.")
    odds = math.exp(above(e.epsilon)) * (1 + 2**-50)  # not below e^ε: more than the rounding of exp
    noise = Fraction(e.categories) / (Fraction(odds) + e.categories - 1) if e.epsilon else Fraction(1)
    return _response(noise, e.categories, relation)


def _atoms(e: AtomsEvent, relation: Relation) -> _Written:
    """Randomized response, which is read as atoms: the truth, one lie, and all the others."""
    if len(e.p) in (2, 3) and (e.p[1], e.p[0], *e.p[2:]) == e.q and min(e.p) > 0:
        truth, lie, *others = e.p
        buckets = 2 + sum(others) / lie
        if truth >= lie and buckets == int(buckets):
            return _response(lie * buckets, int(buckets), relation)
    raise InvalidParameter("dp_accounting has no event for a use that is known by its two laws.")


def _response(noise: Fraction, buckets: int, relation: Relation) -> _Written:
    if relation is not Relation.REPLACE:
        raise InvalidParameter(
            "dp_accounting knows randomized response for replace neighbours only.",
            hint="write the loss with relation='replace', if it was derived for these neighbours",
        )
    return _event("RandomizedResponseDpEvent", noise_parameter=down(noise), num_buckets=buckets)


def _poisson(e: PoissonEvent, relation: Relation) -> _Written:
    inner = _use(e.event, relation)
    return _event("PoissonSampledDpEvent", sampling_probability=min(up(e.rate), 1.0), event=inner)


def _fixed_size(e: FixedSizeEvent, relation: Relation) -> _Written:
    sizes = {"source_dataset_size": e.population, "sample_size": e.sample}
    return _event("SampledWithoutReplacementDpEvent", **sizes, event=_use(e.event, relation))


_WRITERS: Mapping[type[Event], Callable[[Any, Relation], _Written]] = MappingProxyType(
    {
        ApproximateEvent: lambda e, _: _event("EpsilonDeltaDpEvent", epsilon=up(e.epsilon), delta=up(e.delta)),
        ZCDPEvent: lambda e, _: _event("ZCDpEvent", rho=up(e.rho), xi=0.0),
        LaplaceEvent: _laplace,
        GaussianEvent: _gaussian,
        DiscreteLaplaceEvent: _discrete_laplace,
        DiscreteGaussianEvent: _discrete_gaussian,
        RandomizedResponseEvent: _randomized_response,
        AtomsEvent: _atoms,
        BoundedRangeEvent: lambda e, _: _event("ExponentialMechanismDpEvent", epsilon=up(e.epsilon)),
        PoissonEvent: _poisson,
        FixedSizeEvent: _fixed_size,
    }
)


def _event(name: str, **values: object) -> _Written:
    return {"module_name": _MODULE, "class_name": name, **values}


def _noise(name: str, multiplier: Fraction) -> _Written:
    return _event(name, noise_multiplier=down(multiplier))
