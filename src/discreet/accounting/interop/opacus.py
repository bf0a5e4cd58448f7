"""The histories that Opacus' accountants keep."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from discreet.accounting import gaussian
from discreet.accounting.interop.text import down, root, times, total, up
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.privacy.event import GaussianEvent
from discreet.privacy.exact import exact
from discreet.privacy.sampling import PoissonEvent

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
    PrivacyLoss: μ = 1 (Gaussian)
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
