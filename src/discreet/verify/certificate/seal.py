"""Claims and results as JSON, and the digests of these that bind them to the ledger: of the claim before the data is
read, of the result after.

A field of a claim that is not in the tables below is refused and not skipped.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

from discreet.errors import InternalError, InvalidParameter
from discreet.ledger.chain import canonical
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.binary_tree import BinaryTree
from discreet.mechanisms.draws import AboveOrBelow, AddedNoise, BestOfRuns, DrawLaw, NamedBest, RunningTotals
from discreet.mechanisms.exponential import Exponential, PermuteAndFlip
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.mechanisms.noisy_max import NoisyMax
from discreet.mechanisms.perturbed_minimum import PerturbedMinimum
from discreet.mechanisms.rounds import MOST_GROUPS, GaussianRounds
from discreet.mechanisms.samples import FixedSizeSampling, OneOfSteps, PoissonSampling, Sampling
from discreet.mechanisms.sparse_vector import SparseVector
from discreet.mechanisms.threshold import Threshold
from discreet.privacy import codec
from discreet.privacy.event import Composed
from discreet.privacy.unit import Relation, Sensitivity
from discreet.verify.certificate.forms import (
    Form,
    fields,
    flag,
    fraction,
    listed,
    named,
    number,
    optional,
    record,
    refuse,
    text,
    whole,
)
from discreet.verify.claim import Cost, Level, Look, Measurement, NoisyColumn, PartClaim, PartKind, PlanClaim, Tree
from discreet.verify.derive import PrivateRows
from discreet.verify.flows import ClaimedFlow, FlowClaim, FlowColumn, Side
from discreet.verify.owned import PublicTable


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON of a value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def of_claim(claim: PlanClaim | FlowClaim) -> str:
    """Return the digest of a claim."""
    return digest(encode(claim))


def before(claim: PlanClaim | FlowClaim) -> str:
    """Return the digest of what is known of a claim before the data is read: where something is chosen by a first look,
    the measurements follow from it, and their events within what they may cost.
    """
    if isinstance(claim, FlowClaim) or not claim.looks:
        return of_claim(claim)
    measured = replace(claim.measured, events=Composed())
    return of_claim(replace(claim, measurements=(), measured=measured))


def noted(claim: PlanClaim | FlowClaim) -> dict[str, str]:
    """Return what the charge's note says of a claim, and of the library that makes it."""
    return {"claim": before(claim), "library": _library()}


def certified(claim: PlanClaim | FlowClaim, answers: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what a stored release says of the claim that it was measured under, and of the result to each of its
    queries, by its name in a batch; "" without one.
    """
    return {"claim": of_claim(claim), "answers": {name: digest(answer) for name, answer in answers.items()}}


def answer(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return a result as JSON: numbers, text and truth values as they are, and what JSON lacks as an object of one
    field.
    """
    return {"columns": list(columns), "rows": [[_value(v) for v in row] for row in rows]}


@cache
def _library() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("discreet")
    except PackageNotFoundError:  # run from its sources
        return "not installed"


def _value(value: Any) -> Any:
    match value:
        case bool() | str() | None:
            return value
        case int():
            return value if abs(value) < 1 << 53 else {"integer": str(value)}
        case float():
            return value if math.isfinite(value) else {"real": str(value)}
        case dt.datetime():
            return {"timestamp": value.isoformat()}
        case dt.date():
            return {"date": value.isoformat()}
        case Mapping():
            return {"map": [[_value(k), _value(v)] for k, v in value.items()]}
        case Sequence():
            return {"list": [_value(v) for v in value]}
        case _:
            return {"text": str(value)}


def encode(claim: PlanClaim | FlowClaim) -> dict[str, Any]:
    """Return a claim as JSON."""
    written: dict[str, Any] = _CLAIM.write(claim) if isinstance(claim, PlanClaim) else _FLOWS.write(claim)
    return written


def decode(value: Any) -> PlanClaim | FlowClaim:
    """Return the claim that `encode` wrote.

    Raises:
        InvalidParameter: anything else.
    """
    if type(value) is dict and "sides" in value:
        return _FLOWS(value)
    try:
        return _CLAIM(value)
    except InternalError as error:  # a table of the source that is public, or several kinds at once
        raise InvalidParameter(error.message) from None


def _events(value: Any) -> Composed:
    if type(value) is not list or any(type(event) is not dict for event in value):
        refuse("the events are no list of objects")
    events = codec.decode(value)
    if codec.encode(events) != value:
        refuse("the events are not as they are written")
    return events


def _cost(**found: Any) -> Cost:
    cost = Cost(**found)
    if cost.epsilon < 0 or not 0 <= cost.delta < 1:
        refuse("a cost is no (ε, δ)")
    return cost


def _most(most: int, otherwise: str) -> Form[int]:
    """Return a count of so many at most: a hostile file is refused, and not computed for ever."""

    def read(value: Any) -> int:
        if number(value) > most:
            refuse(otherwise)
        return number(value)

    return Form(read)


def _mechanism(kinds: Mapping[str, tuple[type, dict[str, Form[Any]]]]) -> Form[Any]:
    """Return a mechanism: an object with the kind and its parameters."""

    def read(value: Any) -> Any:
        if type(value) is not dict or type(value.get("kind")) is not str:
            refuse("a mechanism has no kind")
        if value["kind"] not in kinds:
            refuse(f"the noise {value['kind']!r:.60} is not known")
        kind, forms = kinds[value["kind"]]
        found = record(value, {"kind": text, **forms}, "a noise")
        del found["kind"]
        return kind(**found)

    def write(mechanism: Any) -> dict[str, Any]:
        for word, (kind, forms) in kinds.items():
            if type(mechanism) is kind:
                return {"kind": word, **{n: form.write(getattr(mechanism, n)) for n, form in forms.items()}}
        raise InternalError("A noise of this plan has no place in a certificate.")

    return Form(read, write)


def _columns(value: Any) -> frozenset[str]:
    found = listed(text)(value)
    if list(found) != sorted(set(found)):
        refuse("the columns are not as they are written")
    return frozenset(found)


def _source(**found: Any) -> PrivateRows:
    source = PrivateRows(**found)
    if (source.table is None) != bool(source.tables):
        refuse("the rows are of one table or of several")
    if source.tables and (source.columns or source.unit not in (None, "u") or source.view is not None):
        refuse("the rows of several tables have their unit as u")
    return source


def _apart(value: Any) -> tuple[int, str]:
    if type(value) is not list or len(value) != 2:
        refuse("a count of different values has not a place and a statement")
    return number(value[0]), text(value[1])


def _some(value: Any) -> Fraction | None:
    """Return a fraction, and None for 0: a mechanism without δ is made without one."""
    return fraction(value) or None


def _part_kind(value: Any) -> PartKind:
    if value not in [kind.value for kind in PartKind]:
        refuse("a private part is of no known kind")
    return PartKind(value)


_RELATION = Form(lambda value: Relation.parse(text(value)), lambda relation: relation.value)
_COST = fields(_cost, "a cost", events=Form(_events, codec.encode), epsilon=fraction, delta=fraction)
_SENSITIVITY = fields(Sensitivity, "a sensitivity", l0=whole, linf=whole, l1=whole, l2_squared=whole)
_LENGTH = _most(1 << 24, "a list of keys is longer than any that is asked")
_LAPLACE = {"discrete-laplace": (DiscreteLaplaceNoise, {"scale": fraction})}
_ADDED = {**_LAPLACE, "rounded-gaussian": (RoundedGaussianNoise, {"sigma": fraction})}
_QUANTILE: dict[str, Form[Any]] = {
    "epsilon": fraction,
    "p": fraction,
    "sensitivity": whole,
    "relation": _RELATION,
    "max_groups": number,
    "groups": optional(number),
    "row": number,
}
_NOISE: Form[Additive] = _mechanism(_ADDED)
_NODES: Form[Additive | ExponentialQuantile] = _mechanism(
    {**_ADDED, "exponential-quantile": (ExponentialQuantile, _QUANTILE)}
)
_NAMES = Form(_columns, sorted)
_TABLE = fields(
    PublicTable,
    "a table",
    columns=named(optional(text)),
    unit=optional(text),
    key=optional(listed(text, exactly=3)),
    public=flag,
    view=optional(text),
)
_SOURCE = fields(
    _source,
    "the rows",
    table=optional(text),
    columns=_NAMES,
    unit=optional(text),
    tables=named(_TABLE),
    view=optional(text),
)
_GROUPS: dict[str, Form[Any]] = {"epsilon": fraction, "delta": fraction, "max_groups": number, "relation": _RELATION}
_IN_ROUNDS = {**_GROUPS, "max_groups": _most(MOST_GROUPS, "a unit is in more groups than rounds are for")}
_MEASUREMENT = fields(
    Measurement,
    "a measurement",
    source=_SOURCE,
    sql=text,
    distinct=listed(Form(_apart, list)),
    truncation=listed(text),
    keys=number,
    lists=optional(listed(_LENGTH)),
    groups=number,
    rows=optional(number),
    columns=listed(fields(NoisyColumn, "a column", low=whole, high=whole, sensitivity=_SENSITIVITY, noise=_NOISE)),
    trees=listed(
        fields(
            Tree,
            "a tree",
            sql=text,
            depth=_most(64, "a tree has more levels than any number needs"),
            at=listed(fraction),
            sensitivity=_SENSITIVITY,
            noise=_NODES,
            layers=optional(listed(listed(listed(number)))),
        )
    ),
    levels=listed(fields(Level, "a level of totals", kept=listed(number), noises=listed(_NOISE))),
    threshold=optional(
        _mechanism(
            {
                "threshold": (Threshold, {**_GROUPS, "min_people": number}),
                "gaussian-rounds": (GaussianRounds, _IN_ROUNDS),
            }
        )
    ),
    reports=listed(_NOISE),
    weights=text,
)
_LOOK = fields(
    Look,
    "a first look",
    kind=text,
    source=_SOURCE,
    sql=text,
    counts=number,
    noise=_mechanism(_LAPLACE),
    epsilon=fraction,
    outside=optional(_mechanism(_LAPLACE)),
)
_PURE: dict[str, Form[Any]] = {"epsilon": fraction, "sensitivity": fraction, "monotonic": flag}
_SELECTION: dict[str, tuple[type, dict[str, Form[Any]]]] = {
    "exponential": (Exponential, _PURE),
    "noisy-max": (NoisyMax, {**_PURE, "noise": text}),
    "permute-and-flip": (PermuteAndFlip, _PURE),
}
_SPARSE = {**_PURE, "threshold": fraction, "cutoff": number}
_TREE: dict[str, Form[Any]] = {
    "epsilon": fraction,
    "delta": Form(_some, fraction.write),
    "steps": number,
    "sensitivity": whole,
    "contributions": number,
    "relation": _RELATION,
    "factorization": text,
}
_MINIMUM: dict[str, Form[Any]] = {
    **dict.fromkeys(("epsilon", "delta", "scale", "slope", "curvature", "weight"), fraction),
    "width": number,
    "output": _NOISE,
}
_LAW: Form[DrawLaw] = _mechanism(
    {
        "noise": (AddedNoise, {"noise": _NOISE}),
        "best": (NamedBest, {"selection": _mechanism(_SELECTION)}),
        "crossings": (AboveOrBelow, {"sparse": _mechanism({"sparse-vector": (SparseVector, _SPARSE)})}),
        "running-totals": (RunningTotals, {"tree": _mechanism({"binary-tree": (BinaryTree, _TREE)})}),
        "minimum": (PerturbedMinimum, _MINIMUM),
        "best-of-runs": (BestOfRuns, {**dict.fromkeys(("epsilon", "delta", "run"), fraction), "runs": number}),
    }
)
_SAMPLING: Form[Sampling] = _mechanism(
    {
        "poisson": (PoissonSampling, {"rate": fraction}),
        "fixed-size": (FixedSizeSampling, {"size": number, "population": number}),
        "one-of-steps": (OneOfSteps, {"steps": number}),
    }
)
_PART = fields(
    PartClaim,
    "a private part",
    name=text,
    kind=Form(_part_kind, lambda kind: kind.value),
    apart=flag,
    source=_SOURCE,
    sql=text,
    rows=number,
    width=number,
    norms=_SENSITIVITY,
    law=_LAW,
    times=number,
    sampling=optional(_SAMPLING),
)
_CLAIM = fields(
    PlanClaim,
    "the claim",
    relation=_RELATION,
    looks=listed(_LOOK),
    measurements=listed(_MEASUREMENT),
    measured=_COST,
    charged=_COST,
    parts=listed(_PART),
    recipe=text,
    open=flag,
)
_FLOW = fields(ClaimedFlow, "a flow", place=number, sign=whole, caps=listed(whole, exactly=2))
_SIDE = fields(
    Side, "a population's side", unit=text, relation=_RELATION, sensitivities=listed(_SENSITIVITY), cost=_COST
)
_FLOWS = fields(
    FlowClaim,
    "the claim",
    table=text,
    columns=_NAMES,
    view=optional(text),
    sql=text,
    lists=listed(_LENGTH),
    measured=listed(fields(FlowColumn, "a column", flows=listed(_FLOW), noise=_NOISE)),
    sides=listed(_SIDE, exactly=2),
)
