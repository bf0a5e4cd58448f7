"""A file that records a run, whichever of the libraries wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from discreet.accounting.interop.dp_accounting import from_dp_accounting
from discreet.accounting.interop.opacus import from_opacus
from discreet.accounting.interop.text import parse
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter, SourceError
from discreet.privacy.unit import Relation


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
