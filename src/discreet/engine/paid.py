"""Payment for a release, and the certificate that is made of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.errors import DiscreetError, InvalidParameter
from discreet.ledger.entry import Released
from discreet.privacy.guarantee import words
from discreet.verify.certificate import seal
from discreet.verify.certificate.document import CertifiedQuery, checks_of, write
from discreet.verify.certificate.entries import names_of
from discreet.verify.certificate.evidence import CERTIFIED, Evidence, evidence_of
from discreet.verify.claim import PlanClaim
from discreet.verify.flows import FlowClaim

if TYPE_CHECKING:
    from discreet.ledger.account import Account


def seals_of(evidence: Evidence, own: str) -> dict[str, Any]:
    """Return the digests in a stored release, of which that of its claim is this.

    Raises:
        InvalidParameter: there are none, or of another claim.
    """
    content = evidence.release.read().content
    assert isinstance(content, Released)
    seals: dict[str, Any] = content.release.get(CERTIFIED, {})
    if seals.get("claim") != own:
        raise InvalidParameter(
            "this result was measured by another version of discreet, which would write its certificate.",
            hint="use that version; or ask again with fresh=True, which is charged anew",
        )
    return seals


@dataclass(frozen=True, slots=True)
class Paid:
    """A release in a ledger.

    Attributes:
        accounts: who paid; of two populations in the order of the claim's sides.
        identity: of what was measured.
        kept: the noisy numbers as they are stored, without digests.
        claim: what was paid for.
    """

    accounts: tuple[Account, ...]
    identity: str
    kept: Callable[[], dict[str, Any]]
    claim: Callable[[], PlanClaim | FlowClaim]

    @property
    def remaining(self) -> list[str]:
        """What the accounts have left now, in words, for a reader; nothing where the ledger cannot be read any more."""
        try:
            left = [(a.population, a.remaining) for a in self.accounts]
        except DiscreetError:
            return []
        of = " of {!r}" if len(left) > 1 else ""
        return [f"{words(budget.epsilon, budget.delta)}{of.format(name)}" for name, budget in left]

    def certificate(self, own: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """Return the certificate of the release whose result these rows are; `own` is its name in a batch, "" without
        one.

        Raises:
            InvalidParameter: the ledger does not keep the release, or keeps it without digests or with others.
        """
        claim = self.claim()
        tables = {name for source, _ in checks_of(claim).sources(0) for name in names_of(source)}
        found = evidence_of(self.accounts, self.identity, self.kept(), tables)
        answers, *_ = [seals_of(evidence, seal.of_claim(claim))["answers"] for evidence in found]
        answer = seal.answer(columns, rows)
        name = _stored_as(answers, own, seal.digest(answer))
        charged = found[0].charge.read().note
        texts = charged.get("batch") or {"": charged.get("sql")}
        # the same numbers may answer a question that makes something else of them: its rows were never stored
        known = name is not None
        name = name if name is not None else own if own in texts else next(iter(texts))
        question = CertifiedQuery(
            texts[name], self.identity, name if "batch" in charged else None, charged.get("outer")
        )
        return write(question, claim, answer if known else None, found)


def _stored_as(answers: Mapping[str, str], name: str, own: str) -> str | None:
    """Return the name under which a result of this digest is stored; None when it is not."""
    if answers.get(name) == own:
        return name
    return next((name for name, found in answers.items() if found == own), None)
