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
from discreet.verify.certificate.document import checks_of
from discreet.verify.certificate.evidence import CERTIFIED, LINKS
from discreet.verify.certificate.registry import registry
from discreet.verify.certificate.seal import decode
from discreet.verify.claim import PlanClaim
from discreet.verify.flows import FlowClaim

Document: TypeAlias = dict[str, Any]
Change: TypeAlias = Callable[[Document], None]


def forged(honest: Document, change: Change) -> Document:
    """A copy with this change, and nothing else."""
    document = copy.deepcopy(honest)
    change(document)
    return document


def accounts(document: Document) -> list[dict[str, Any]]:
    """The entries of each account."""
    found: list[dict[str, Any]] = document["ledger"]["accounts"]
    return found


def body(document: Document, entry: str) -> dict[str, Any]:
    """What an entry of the first account says."""
    found: dict[str, Any] = json.loads(accounts(document)[0][entry]["body"])
    return found


def rewrite(
    document: Document, entry: str, change: Callable[[dict[str, Any]], None], places: tuple[int, ...] = (0,)
) -> None:
    """Changes what an entry of these accounts says, with the hashes that follow."""
    for place in places:
        own = accounts(document)[place][entry]
        own = own[0] if entry == "schemas" else own
        said = json.loads(own["body"])
        change(said)
        own["body"] = canonical(said)
    relink(document)


def relink(document: Document) -> None:
    """Hashes that follow from the bodies again, as far as the certificate has them."""
    links = [
        link for own in accounts(document) for link in (own["account"], *own["schemas"], own["charge"], own["release"])
    ]
    before: dict[int, str] = {}
    for own in sorted(links, key=lambda own: own["seq"]):
        own["previous"] = before.get(own["seq"] - 1, own["previous"])
        own["hash"] = link(own["previous"], own["body"])
        before[own["seq"]] = own["hash"]
    head = document["ledger"]["head"]
    head["hash"] = before.get(head["seq"], head["hash"])


def sealed(document: Document) -> Document:
    """The document with everything made to fit its claim and its answer again, by a forger without the ledger."""
    try:
        claim = decode(document["claim"])
        checks = checks_of(claim)
        document["reasons"] = checks.reasons()
    except (DiscreetError, LookupError):  # a claim of no form, or with too few sensitivities
        return document
    costs = [side["cost"] for side in document["claim"].get("sides", [{"cost": document["claim"].get("charged")}])]

    def release(said: dict[str, Any]) -> None:
        seals = said["release"][CERTIFIED]
        seals["claim"] = seal.of_claim(claim)
        if document["answer"] is not None:
            seals["answers"][document["question"]["name"] or ""] = seal.digest(document["answer"])

    for place, cost in enumerate(costs):

        def charge(said: dict[str, Any], cost: dict[str, Any] = cost) -> None:
            said["note"]["claim"] = seal.before(claim)
            said.update({name: cost[name] for name in ("events", "epsilon", "delta")})

        rewrite(document, "charge", charge, (place,))
        rewrite(document, "release", release, (place,))
    opened = []
    for own in accounts(document):
        content = LINKS["account"](own["account"]).read().content
        assert isinstance(content, Opened)
        opened.append(content)
    document["registry"] = registry(checks, opened, populations=document["populations"], version=document["version"])
    return document


def plan_claim(document: Document) -> PlanClaim:
    """The claim of a plan."""
    claim = decode(document["claim"])
    assert isinstance(claim, PlanClaim)
    return claim


def flow_claim(document: Document) -> FlowClaim:
    """The claim of flows."""
    claim = decode(document["claim"])
    assert isinstance(claim, FlowClaim)
    return claim


def measurement(document: Document, i: int = 0) -> dict[str, Any]:
    """One of the measurements."""
    found: dict[str, Any] = document["claim"]["measurements"][i]
    return found
