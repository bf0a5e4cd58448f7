"""Forged certificates: with one thing changed, and all that could be made to fit it again made to fit.

`sealed` is the strongest forger without the ledger: reasons, registry, digests, entries and hashes follow the change.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any, TypeAlias

from discreet.errors import DiscreetError
from discreet.ledger.chain import canonical, link
from discreet.ledger.entry import Opened
from discreet.verify.certificate import seal
from discreet.verify.certificate.codec import decode
from discreet.verify.certificate.evidence import CERTIFIED, LINKS
from discreet.verify.certificate.reasons import reasons
from discreet.verify.certificate.registry import registry

Document: TypeAlias = dict[str, Any]
Change: TypeAlias = Callable[[Document], None]


def forged(honest: Document, change: Change) -> Document:
    """A copy with this change, and nothing else."""
    document = copy.deepcopy(honest)
    change(document)
    return document


def body(document: Document, entry: str) -> dict[str, Any]:
    """What an entry says."""
    found: dict[str, Any] = json.loads(document["ledger"][entry]["body"])
    return found


def rewrite(document: Document, entry: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes what an entry says, with its hash."""
    own = document["ledger"][entry]
    said = json.loads(own["body"])
    change(said)
    own["body"] = canonical(said)
    relink(document)


def relink(document: Document) -> None:
    """Hashes that follow from the bodies again, as far as the certificate has them."""
    ledger = document["ledger"]
    links = [
        link
        for own in ledger.get("accounts", [ledger])
        for link in (own["account"], *own["schemas"], own["charge"], own["release"])
    ]
    before: dict[int, str] = {}
    for own in sorted(links, key=lambda own: own["seq"]):
        own["previous"] = before.get(own["seq"] - 1, own["previous"])
        own["hash"] = link(own["previous"], own["body"])
        before[own["seq"]] = own["hash"]
    ledger["head"]["hash"] = before.get(ledger["head"]["seq"], ledger["head"]["hash"])


def sealed(document: Document) -> Document:
    """The document with everything made to fit its claim and its answer again."""
    try:
        claim = decode(document["claim"])
    except DiscreetError:
        return document
    document["reasons"] = reasons(claim)

    def charge(said: dict[str, Any]) -> None:
        said["note"]["claim"] = seal.before(claim)
        for name in ("events", "epsilon", "delta"):
            said[name] = document["claim"]["charged"][name]

    def release(said: dict[str, Any]) -> None:
        seals = said["release"][CERTIFIED]
        seals["claim"] = seal.of_claim(claim)
        if document["answer"] is not None:
            seals["answers"][document["question"]["name"] or ""] = seal.digest(document["answer"])

    rewrite(document, "charge", charge)
    rewrite(document, "release", release)
    opened = LINKS["account"](document["ledger"]["account"]).read().content
    assert isinstance(opened, Opened)
    document["registry"] = registry(
        claim, opened, population=document["population"], version=document["version"]
    )
    return document


def measurement(document: Document, i: int = 0) -> dict[str, Any]:
    """One of the measurements."""
    found: dict[str, Any] = document["claim"]["measurements"][i]
    return found
