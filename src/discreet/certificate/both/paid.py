"""What a release to two populations needs to prove itself: its accounts, what was asked, and how it is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.certificate import seal
from discreet.certificate.both.codec import of_claim
from discreet.certificate.both.document import write
from discreet.certificate.document import Question
from discreet.certificate.evidence import CERTIFIED, evidence_of
from discreet.certificate.paid import seals_of
from discreet.ledger.together import store_together
from discreet.rederive.flows import FlowClaim

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.ledger.entry import Entry


def noted(claim: FlowClaim) -> dict[str, str]:
    """What the notes of both charges say of a claim, before the data is read."""
    return seal.noted_as(of_claim(claim))


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
        digests = seal.certified_as(of_claim(self.claim()), {"": seal.answer(columns, rows)})
        store_together(self.accounts, charges, self.identity, {**self.kept(), CERTIFIED: digests})

    def certificate(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
        """The certificate of the release whose answer these rows are.

        Raises:
            InvalidParameter: the ledger does not keep the release, or keeps it without digests or with others.
        """
        claim = self.claim()
        first, second = evidence_of(self.accounts, self.identity, self.kept(), [claim.table])
        seals = [seals_of(own, of_claim(claim)) for own in (first, second)]
        answer = seal.answer(columns, rows)
        # the same numbers may answer a question that makes something else of them: its rows were never stored
        known = seals[0]["answers"].get("") == seal.digest(answer)
        question = Question(first.charge.read().note["sql"], self.identity, None)
        return write(question, claim, answer if known else None, (first, second))
