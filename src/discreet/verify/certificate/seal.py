"""Digests that bind a claim and an answer to the ledger: of the claim before the data is read, of the answer after."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from discreet.ledger.chain import canonical
from discreet.privacy.event import Composed
from discreet.verify.certificate.codec import encode
from discreet.verify.claim import PlanClaim
from discreet.verify.flows import FlowClaim


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
    """Return what a stored release says of the claim that it was measured under, and of the answer to each of its
    questions, by its name in a batch; "" without one.
    """
    return {"claim": of_claim(claim), "answers": {name: digest(answer) for name, answer in answers.items()}}


def answer(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return an answer as JSON: numbers, text and truth values as they are, and what JSON lacks as an object of one
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
