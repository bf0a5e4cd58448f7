"""Events of Google's dp_accounting: read without it, and written as JSON, or as its objects where it is installed.

An event comes as an object of that library, as what its `to_named_tuple` returns, or as JSON: an object with
`class_name`, `module_name` (which may be left out) and the fields by their names, or a list of module name,
class name and the fields in order, which is what `json.dumps(event.to_named_tuple())` writes.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from discreet import accounting
from discreet.accounting.interop.text import down, parse, root, times, total, up
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter, MissingExtra
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
from discreet.privacy.exact import above, count, exact, positive
from discreet.privacy.sampling import FixedSizeEvent, PoissonEvent
from discreet.privacy.unit import Relation

FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "NoOpDpEvent": (),
        "RandomizedResponseDpEvent": ("noise_parameter", "num_buckets"),
        "EpsilonDeltaDpEvent": ("epsilon", "delta"),
        "GaussianDpEvent": ("noise_multiplier",),
        "LaplaceDpEvent": ("noise_multiplier",),
        "DiscreteLaplaceDpEvent": ("noise_parameter", "sensitivity"),
        "DiscreteGaussianDpEvent": ("sigma", "sensitivity", "dimension"),
        "ZCDpEvent": ("rho", "xi"),
        "ExponentialMechanismDpEvent": ("epsilon",),
        "PermuteAndFlipDpEvent": ("epsilon",),
        "SelfComposedDpEvent": ("event", "count"),
        "ComposedDpEvent": ("events",),
        "PoissonSampledDpEvent": ("sampling_probability", "event"),
        "SampledWithoutReplacementDpEvent": ("source_dataset_size", "sample_size", "event"),
    }
)
"""The events that are read, with their fields in order."""

_DEFAULTS: Mapping[str, object] = MappingProxyType({"xi": 0, "dimension": None})
_DEEPEST = 100
_Values = Mapping[str, Any]


def from_dp_accounting(event: object, *, relation: str | Relation = Relation.ADD_REMOVE) -> PrivacyLoss:
    """Return the loss of a dp_accounting event: an object, its named tuple, or its JSON as text or as parsed.

    Guarantee:
        It holds for neighbours by `relation`, dp_accounting's `neighboring_relation`, and for no other. By replacement
        the noise of an event covers twice the norm: its `noise_multiplier` is relative to the norm of one record's
        contribution, which one record takes away and another adds. Sampling without replacement and randomized response
        are read by replacement only, Poisson sampling by adding and removing only. `EpsilonDeltaDpEvent`, `ZCDpEvent`,
        `ExponentialMechanismDpEvent` and `PermuteAndFlipDpEvent` are promises and taken as given for `relation`. Noise
        on a vector of bounded ℓ1 norm is read as noise on one number, which dominates it.

    Raises:
        InvalidParameter: an event that is unknown, is not private, is nested too deeply, or has parameters
            out of range; the message says where in the event.

    >>> from_dp_accounting('{"class_name": "GaussianDpEvent", "noise_multiplier": 2.0}')
    PrivacyLoss: μ = 0.5 (Gaussian: ε = 2.254 at δ = 1e-06)
    """
    node = parse(event) if isinstance(event, str) else event
    return _Reader(Relation.parse(relation)).loss(node, "event", 0)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads every object once, however often it occurs: sixty levels of a pair of the same event are few."""

    relation: Relation
    known: dict[int, tuple[object, PrivacyLoss]] = field(default_factory=dict)

    def loss(self, node: object, where: str, depth: int) -> PrivacyLoss:
        if id(node) in self.known:
            return self.known[id(node)][1]
        if depth > _DEEPEST:
            raise InvalidParameter(f"the event is nested more than {_DEEPEST} deep, or inside itself: {where[:60]}….")
        name, values = _name_and_values(node, where)
        try:
            found = self._loss(name, values, where, depth)
        except InvalidParameter as reason:
            if reason.message.startswith(("event (", "event.", "event:")):  # it says where already
                raise
            raise InvalidParameter(f"{where} ({name}): {reason.message}", hint=reason.hint) from None
        self.known[id(node)] = (node, found)  # the node itself, so that its id stays its own
        return found

    def _loss(self, name: str, values: _Values, where: str, depth: int) -> PrivacyLoss:
        if name in _LEAVES:
            return _LEAVES[name](values, self.relation)
        if name == "ComposedDpEvent":
            events = values["events"]
            if not isinstance(events, list | tuple):
                raise InvalidParameter(f"events must be a list, not {type(events).__name__}.")
            return total([(self.loss(e, f"{where}.events[{i}]", depth + 1), 1) for i, e in enumerate(events)])
        inner = self.loss(values["event"], f"{where}.event", depth + 1)
        if name == "SelfComposedDpEvent":
            return total([(inner, times("count", values["count"]))])
        if name == "PoissonSampledDpEvent":
            self._only(Relation.ADD_REMOVE)
            return inner.poisson(exact("sampling_probability", values["sampling_probability"]))
        self._only(Relation.REPLACE)
        return inner.fixed_size(_size("sample_size", values), _size("source_dataset_size", values))

    def _only(self, relation: Relation) -> None:
        _holds_only(relation, self.relation)


def _multiplier(values: _Values) -> Fraction:
    return positive("noise_multiplier", values["noise_multiplier"])


def _discrete_laplace(values: _Values, relation: Relation) -> PrivacyLoss:
    shift = times("sensitivity", values["sensitivity"]) * contributions(relation)
    return accounting.discrete_laplace(1 / positive("noise_parameter", values["noise_parameter"]), shift)


def _discrete_gaussian(values: _Values, relation: Relation) -> PrivacyLoss:
    """In one dimension the mechanism; in several, or an unknown number, its theorem ρ = Δ²/2σ².

    References: Canonne, Kamath, Steinke 2020, Theorem 14, https://arxiv.org/abs/2004.00010
    """
    sigma = positive("sigma", values["sigma"])
    moves = exact("sensitivity", values["sensitivity"])
    if moves < 0:
        raise InvalidParameter(f"sensitivity must be at least 0, not {moves}.")
    if values["dimension"] is None or _size("dimension", values) > 1:
        return accounting.zcdp((moves * contributions(relation) / sigma) ** 2 / 2)
    whole = moves.numerator // moves.denominator  # an integer moves by no fraction
    return accounting.discrete_gaussian(sigma, whole * contributions(relation))


def _randomized_response(values: _Values, relation: Relation) -> PrivacyLoss:
    _holds_only(Relation.REPLACE, relation)
    noise = exact("noise_parameter", values["noise_parameter"])
    buckets = _size("num_buckets", values)
    if buckets == 1:  # there is one answer, whatever the truth
        return PrivacyLoss(Composed())
    if not 0 < noise <= 1:
        raise InvalidParameter(f"noise_parameter must lie in (0, 1], not {noise}.")
    lie = noise / buckets
    truth, rest = 1 - noise + lie, noise - 2 * lie  # the other buckets are as likely under both answers
    others = [rest] if rest else []
    return accounting.from_pmfs([truth, lie, *others], [lie, truth, *others])


def _zcdp(values: _Values, relation: Relation) -> PrivacyLoss:
    if exact("xi", values["xi"]) != 0:
        raise InvalidParameter("xi must be 0: only ρ-zCDP without a constant is read.")
    return accounting.zcdp(exact("rho", values["rho"]))


_LEAVES: Mapping[str, Callable[[_Values, Relation], PrivacyLoss]] = MappingProxyType(
    {
        "NoOpDpEvent": lambda v, _: PrivacyLoss(Composed()),
        "GaussianDpEvent": lambda v, relation: accounting.gaussian(_multiplier(v) / contributions(relation)),
        "LaplaceDpEvent": lambda v, relation: accounting.laplace(_multiplier(v), contributions(relation)),
        "DiscreteLaplaceDpEvent": _discrete_laplace,
        "DiscreteGaussianDpEvent": _discrete_gaussian,
        "RandomizedResponseDpEvent": _randomized_response,
        "ZCDpEvent": _zcdp,
        "EpsilonDeltaDpEvent": lambda v, _: accounting.approximate(v["epsilon"], v["delta"]),
        "ExponentialMechanismDpEvent": lambda v, _: accounting.exponential(v["epsilon"]),
        "PermuteAndFlipDpEvent": lambda v, _: accounting.pure(v["epsilon"]),
    }
)


def contributions(relation: Relation) -> int:
    """Return how many records' contributions two neighbours differ by."""
    return 2 if relation is Relation.REPLACE else 1


def _holds_only(relation: Relation, asked: Relation) -> None:
    if asked is not relation:
        raise InvalidParameter(
            f"it holds for {relation.value} neighbours only, and {asked.value} ones were asked for.",
            hint=f"read the whole event with relation={relation.value!r}",
        )


def _size(name: str, values: _Values) -> int:
    return count(name, times(name, values[name]))


def _name_and_values(node: object, where: str) -> tuple[str, _Values]:
    """Return the name of the event's class, and its fields; refuses a class or a field that is not known."""
    given: dict[str, object]
    if isinstance(node, Mapping):
        given = {str(key): value for key, value in node.items()}
        name = _text(given.pop("class_name", None), where)
    elif hasattr(node, "_fields") and hasattr(node, "class_name"):
        given = {key: getattr(node, key) for key in node._fields if key != "class_name"}
        name = _text(node.class_name, where)
    elif isinstance(node, list | tuple):
        name = _text(node[1] if len(node) > 1 else None, where)
        fields = FIELDS.get(name, ())
        if len(node) - 2 > len(fields) and name in FIELDS:
            raise InvalidParameter(f"{where} ({name}): it has more fields than {', '.join(fields) or 'none'}.")
        given = dict(zip(fields, node[2:], strict=False))
    else:
        name = type(node).__name__
        named = [a.name for a in getattr(type(node), "__attrs_attrs__", ())] or FIELDS.get(name, ())
        given = {key: getattr(node, key) for key in named if hasattr(node, key)}
    given.pop("module_name", None)
    if name not in FIELDS:
        raise InvalidParameter(
            f"{where}: {name[:80]} is not an event that can be accounted for.",
            hint=f"the events that can: {', '.join(FIELDS)}",
        )
    for key, value in given.items():
        if key not in FIELDS[name] and value is not None:  # a later version's field may change the meaning
            raise InvalidParameter(f"{where} ({name}): its field {key[:80]!r} is not known here.")
    return name, {key: _value(name, key, given, where) for key in FIELDS[name]}


def _value(name: str, key: str, given: Mapping[str, object], where: str) -> object:
    if key in given:
        return given[key]
    if key in _DEFAULTS:
        return _DEFAULTS[key]
    if (name, key) == ("DiscreteGaussianDpEvent", "sensitivity"):
        return Fraction(1)
    raise InvalidParameter(f"{where} ({name}): its field {key!r} is missing.")


def _text(name: object, where: str) -> str:
    if isinstance(name, bytes):  # as dp_accounting allows in a named tuple
        name = name.decode(errors="replace")
    if not isinstance(name, str):
        raise InvalidParameter(f"{where}: an event needs a class_name.")
    return name


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


def _discrete_laplace_event(e: DiscreteLaplaceEvent, relation: Relation) -> _Written:
    return _event(
        "DiscreteLaplaceDpEvent", noise_parameter=up(1 / e.scale), sensitivity=-(-e.shift // contributions(relation))
    )


def _discrete_gaussian_event(e: DiscreteGaussianEvent, relation: Relation) -> _Written:
    return _event(
        "DiscreteGaussianDpEvent",
        sigma=down(root(e.sigma_squared)),
        sensitivity=float(-(-e.shift // contributions(relation))),
        dimension=1,
    )


def _randomized_response_event(e: RandomizedResponseEvent, relation: Relation) -> _Written:
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
        DiscreteLaplaceEvent: _discrete_laplace_event,
        DiscreteGaussianEvent: _discrete_gaussian_event,
        RandomizedResponseEvent: _randomized_response_event,
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
