"""Runs that Opacus and prv_accountant have recorded, and files that record a run, whichever library wrote it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

from discreet import accounting
from discreet.accounting import gaussian
from discreet.accounting.interop.dp_accounting import from_dp_accounting
from discreet.accounting.interop.text import down, parse, root, times, total, up
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter, SourceError
from discreet.privacy.event import GaussianEvent
from discreet.privacy.exact import Real, exact
from discreet.privacy.sampling import PoissonEvent
from discreet.privacy.unit import Relation

_MECHANISMS = ("rdp", "gdp", "prv")
_KEYS = (("noise_multiplier",), ("sample_rate", "sampling_probability"), ("steps", "num_compositions", "num_steps"))


def from_opacus(history: object) -> PrivacyLoss:
    """Return the loss of a run, from an Opacus accountant, its `state_dict()`, or its `history`.

    A history lists `(noise_multiplier, sample_rate, steps)`. Which of its accountants wrote it does not
    matter: they differ in what they conclude.

    Guarantee:
        For adding or removing one record, where each step took each record with chance `sample_rate`
        independently: Opacus' `poisson_sampling=True`. Batches from a shuffled data loader are none such.

    Raises:
        InvalidParameter: an entry that is no such triple, or is out of range; the message says which.

    >>> from_opacus({"history": [(2.0, 1.0, 4)], "mechanism": "prv"})
    PrivacyLoss: μ = 1 (Gaussian: ε = 4.887 at δ = 1e-06)
    """
    entries = _entries(history)
    if not isinstance(entries, list | tuple):
        raise InvalidParameter(f"history must be a list, not {type(entries).__name__}.")
    return total(_steps(entry, f"history[{i}]") for i, entry in enumerate(entries))


def to_opacus(loss: PrivacyLoss) -> list[tuple[float, float, int]]:
    """Return a history that an Opacus accountant takes: `accountant.history = …`.

    Numbers are rounded to the side of more loss; decimals come back as they were.

    Raises:
        InvalidParameter: a use that is not Gaussian noise, on a Poisson sample or on everything.

    >>> to_opacus(from_opacus([(1.1, 0.004, 10_000)]))
    [(1.1, 0.004, 10000)]
    """
    out = []
    for event, n in loss.events:
        inner, rate = (event.event, event.rate) if isinstance(event, PoissonEvent) else (event, Fraction(1))
        if not isinstance(inner, GaussianEvent):
            raise InvalidParameter(
                f"an Opacus history has Gaussian noise only, and this loss has a {type(inner).__name__}.",
                hint="write it as a dp_accounting event: to_dp_accounting_json(loss)",
            )
        if inner.mu_squared:
            out.append((down(root(1 / inner.mu_squared)), min(up(rate), 1.0), n))
    return out


def _entries(history: object) -> object:
    if isinstance(history, Mapping):
        if "history" not in history:
            raise InvalidParameter("the state of an Opacus accountant needs the key 'history'.")
        mechanism = history.get("mechanism")
        if mechanism is not None and mechanism not in _MECHANISMS:
            raise InvalidParameter(
                f"the mechanism must be one of {', '.join(_MECHANISMS)}, not {str(mechanism)[:40]!r}.",
                hint="give the history alone, if it lists (noise_multiplier, sample_rate, steps)",
            )
        return history["history"]
    return getattr(history, "history", history)


def _steps(entry: Any, where: str) -> tuple[PrivacyLoss, int]:
    noise, rate, steps = _named(entry, where) if isinstance(entry, Mapping) else _listed(entry, where)
    try:
        n = times("steps", steps)
        return gaussian(exact("noise_multiplier", noise)).poisson(exact("sample_rate", rate)), n
    except InvalidParameter as reason:
        raise InvalidParameter(f"{where}: {reason.message}", hint=reason.hint) from None


def _listed(entry: Any, where: str) -> tuple[Any, Any, Any]:
    if not isinstance(entry, list | tuple) or len(entry) != 3:
        raise InvalidParameter(f"{where} must be (noise_multiplier, sample_rate, steps).")
    return entry[0], entry[1], entry[2]


def _named(entry: Mapping[str, Any], where: str) -> tuple[Any, Any, Any]:
    found = []
    for names in _KEYS:
        given = [name for name in names if name in entry]
        if len(given) != 1:
            raise InvalidParameter(f"{where} needs {' or '.join(names)}, once.")
        found.append(entry[given[0]])
    if len(entry) > len(_KEYS):
        raise InvalidParameter(f"{where} has keys beyond {', '.join(names[0] for names in _KEYS)}.")
    return found[0], found[1], found[2]


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
    if name not in _PRVS:
        raise InvalidParameter(
            f"{name} is not a mechanism that can be accounted for.", hint=f"these can: {', '.join(_PRVS)}"
        )
    try:
        return _PRVS[name](mechanism)
    except AttributeError:
        raise InvalidParameter(f"the {name} does not hold its parameters as prv_accountant 0.2 does.") from None


def _quotient(name: str, value: Real) -> Fraction:
    """Return the largest quotient that may have been rounded to this float."""
    return exact(name, math.nextafter(float(exact(name, value)), math.inf))


_PRVS: Mapping[str, Callable[[Any], PrivacyLoss]] = MappingProxyType(
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


def read_history(path: str | Path, *, relation: str | Relation = Relation.ADD_REMOVE) -> PrivacyLoss:
    """Return the loss of the run that a JSON file records.

    The file holds a dp_accounting event, an Opacus history or state, or one entry of a history as an object,
    `{"noise_multiplier": 1.1, "sample_rate": 0.01, "steps": 1000}`.

    Guarantee: as `from_dp_accounting` and `from_opacus`; the latter for adding or removing one record only.

    Raises:
        SourceError: the file cannot be read.
        InvalidParameter: it records no run that can be accounted for.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as reason:
        raise SourceError(f"{path} cannot be read: {reason.strerror or reason}.") from None
    except ValueError:  # no UTF-8, or a NUL in the path
        raise InvalidParameter(f"{path} is no text in UTF-8.", hint="a history is a JSON file") from None
    try:
        return _loss(parse(text), Relation.parse(relation))
    except InvalidParameter as reason:
        raise InvalidParameter(f"{path}: {reason.message}", hint=reason.hint) from None


def _loss(record: object, relation: Relation) -> PrivacyLoss:
    named = isinstance(record, Mapping) and "class_name" in record
    listed = isinstance(record, list) and len(record) > 1 and all(isinstance(x, str) for x in record[:2])
    if named or listed:
        return from_dp_accounting(record, relation=relation)
    if relation is not Relation.ADD_REMOVE:
        raise InvalidParameter("a history of Poisson samples holds for add-remove neighbours only.")
    if isinstance(record, Mapping) and "noise_multiplier" in record:
        return from_opacus([record])
    if isinstance(record, list) or (isinstance(record, Mapping) and "history" in record):
        return from_opacus(record)
    raise InvalidParameter(
        "it records neither a dp_accounting event nor a history.",
        hint='an event has a "class_name", a history lists [noise_multiplier, sample_rate, steps]',
    )
