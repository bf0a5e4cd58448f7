"""The parts of which claims are made, as JSON and back: costs, sensitivities, noises, relations and lists of keys."""

from __future__ import annotations

from typing import Any

from discreet.certificate.forms import fraction, number, record, refuse, text, whole
from discreet.errors import InternalError
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.privacy import codec
from discreet.privacy.codec import fraction_text
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.unit import Relation
from discreet.rederive.claim import Cost

_LONGEST_LIST = 1 << 24  # so that a hostile file is refused, and not computed for ever


def cost_json(cost: Cost) -> dict[str, Any]:
    """A cost as JSON."""
    return {
        "events": codec.encode(cost.events),
        "epsilon": fraction_text(cost.epsilon),
        "delta": fraction_text(cost.delta),
    }


def sensitivity_json(s: Sensitivity) -> dict[str, str]:
    """A sensitivity as JSON: whole numbers of any size, as text."""
    return {"l0": str(s.l0), "linf": str(s.linf), "l1": str(s.l1), "l2_squared": str(s.l2_squared)}


def noise_json(noise: Additive | ExponentialQuantile) -> dict[str, Any]:
    """A noise as JSON, by its kind."""
    match noise:
        case DiscreteLaplaceNoise(scale):
            return {"kind": "discrete-laplace", "scale": fraction_text(scale)}
        case RoundedGaussianNoise(sigma):
            return {"kind": "rounded-gaussian", "sigma": fraction_text(sigma)}
        case ExponentialQuantile():
            return {
                "kind": "exponential-quantile",
                "epsilon": fraction_text(noise.epsilon),
                "p": fraction_text(noise.p),
                "sensitivity": str(noise.sensitivity),
                "relation": noise.relation.value,
                "max_groups": noise.max_groups,
                "groups": noise.groups,
                "row": noise.row,
            }
        case _:
            raise InternalError("A noise of this plan has no place in a certificate.")


def relation(value: Any) -> Relation:
    """The neighbours."""
    return Relation.parse(text(value))


def sensitivity(value: Any) -> Sensitivity:
    """A sensitivity."""
    found = record(value, dict.fromkeys(("l0", "linf", "l1", "l2_squared"), whole), "a sensitivity")
    return Sensitivity(found.pop("l0"), found.pop("linf"), **found)


def kind_of(value: Any) -> str:
    """What a mechanism calls itself."""
    if type(value) is not dict or type(value.get("kind")) is not str:
        refuse("a mechanism has no kind")
    found: str = value["kind"]
    return found


def additive(value: Any) -> Additive:
    """A noise that is added."""
    match kind_of(value):
        case "discrete-laplace":
            return DiscreteLaplaceNoise(record(value, {"kind": text, "scale": fraction}, "a noise")["scale"])
        case "rounded-gaussian":
            return RoundedGaussianNoise(record(value, {"kind": text, "sigma": fraction}, "a noise")["sigma"])
        case other:
            refuse(f"the noise {other!r:.60} is not known")


def _events(value: Any) -> Any:
    if type(value) is not list or any(type(event) is not dict for event in value):
        refuse("the events are no list of objects")
    events = codec.decode(value)
    if codec.encode(events) != value:
        refuse("the events are not as they are written")
    return events


def cost(value: Any) -> Cost:
    """Events, and the (ε, δ) that they are charged at."""
    names = {"events": _events, "epsilon": fraction, "delta": fraction}
    found = Cost(**record(value, names, "a cost"))
    if found.epsilon < 0 or not 0 <= found.delta < 1:
        refuse("a cost is no (ε, δ)")
    return found


def length(value: Any) -> int:
    """How many values a key may have."""
    if number(value) > _LONGEST_LIST:
        refuse("a list of keys is longer than any that is asked")
    return number(value)
