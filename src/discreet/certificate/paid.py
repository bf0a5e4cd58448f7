"""What a release needs to prove itself: its account, what was asked, and how it is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.certificate import seal
from discreet.certificate.document import CertifiedQuery, write
from discreet.certificate.entries import names_of
from discreet.certificate.evidence import CERTIFIED, Evidence, evidence_of
from discreet.errors import InvalidParameter
from discreet.ledger.entry import Released
from discreet.ledger.joint_charge import store_together
from discreet.verify.claim import PlanClaim
from discreet.verify.flows import FlowClaim

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.ledger.entry import Entry


def seals_of(evidence: Evidence, own: str) -> dict[str, Any]:
    """The digests in a stored release, of which that of its claim is this.

    Raises:
        InvalidParameter: there are none, or of another claim.
    """
    content = evidence.release.read().content
    assert isinstance(content, Released)
    seals: dict[str, Any] = content.release.get(CERTIFIED, {})
    if seals.get("claim") != own:
        raise InvalidParameter(
            "this answer was measured by another version of discreet, which would write its certificate.",
            hint="use that version; or ask again with fresh=True, which is charged anew",
        )
    return seals


@dataclass(frozen=True, slots=True)
class Paid:
    """One question's release in a ledger.

    Attributes:
        account: who paid.
        identity: of what was measured.
        name: what the question is called in a batch; "" without one.
        kept: the noisy numbers as they are stored, without digests.
        claim: what was paid for.
    """

    account: Account
    identity: str
    name: str
    kept: Callable[[], dict[str, Any]]
    claim: Callable[[], PlanClaim]

    def keep(self, charge: int, digests: dict[str, Any]) -> None:
        """Stores the numbers under the charge that paid for them, with digests."""
        self.account.store(self.identity, charge, {**self.kept(), CERTIFIED: digests})

    def certificate(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """The certificate of the release whose answer these rows are.

        Raises:
            InvalidParameter: the ledger does not keep the release, or keeps it without digests or with others.
        """
        claim = self.claim()
        tables = {name for source in claim.sources for name in names_of(source)}
        found = evidence_of([self.account], self.identity, self.kept(), tables)
        (evidence,) = found
        seals = seals_of(evidence, seal.of_claim(claim))
        answer = seal.answer(columns, rows)
        name = self._stored_as(seals["answers"], seal.digest(answer))
        charged = evidence.charge.read().note
        texts = charged.get("batch") or {"": charged.get("sql")}
        # the same numbers may answer a question that makes something else of them: its rows were never stored
        known = name is not None
        name = name if name is not None else self.name if self.name in texts else next(iter(texts))
        question = CertifiedQuery(texts[name], self.identity, name if "batch" in charged else None)
        return write(question, claim, answer if known else None, found)

    def _stored_as(self, answers: Mapping[str, str], own: str) -> str | None:
        """The name under which this answer is stored; None when it is not."""
        if answers.get(self.name) == own:
            return self.name
        return next((name for name, found in answers.items() if found == own), None)


@dataclass(frozen=True, slots=True)
class PaidByBoth:
    """One question's release in the accounts of two populations.

    Attributes:
        accounts: who paid, in the order of the claim's sides.
        identity: of what was measured.
        kept: the noisy numbers as they are stored, without digests.
        claim: what was paid for.
    """

    accounts: tuple[Account, Account]
    identity: str
    kept: Callable[[], dict[str, Any]]
    claim: Callable[[], FlowClaim]

    def keep(self, charges: Sequence[Entry], columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Stores the numbers under the charges that paid for them, with digests of the claim and of this answer."""
        digests = seal.certified(self.claim(), {"": seal.answer(columns, rows)})
        store_together(self.accounts, charges, self.identity, {**self.kept(), CERTIFIED: digests})

    def certificate(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """The certificate of the release whose answer these rows are.

        Raises:
            InvalidParameter: the ledger does not keep the release, or keeps it without digests or with others.
        """
        claim = self.claim()
        first, second = evidence_of(self.accounts, self.identity, self.kept(), [claim.table])
        seals = [seals_of(own, seal.of_claim(claim)) for own in (first, second)]
        answer = seal.answer(columns, rows)
        # the same numbers may answer a question that makes something else of them: its rows were never stored
        known = seals[0]["answers"].get("") == seal.digest(answer)
        question = CertifiedQuery(first.charge.read().note["sql"], self.identity, None)
        return write(question, claim, answer if known else None, (first, second))
