"""The steps of a check, in order, and what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from discreet.verify.certificate.document import Certificate
    from discreet.verify.claim import PlanClaim
    from discreet.verify.flows import FlowClaim

STEPS = {
    "format": "the certificate has the fields of its format, and no others",
    "bounds": "each statement that ran lets a unit enter so many groups at most, and add so much to each",
    "sensitivity": "each column moves by exactly what is said when one unit comes, goes or changes",
    "noise": "the noise on the columns costs no more than the guarantee",
    "events": "what the ledger was told is what the noise costs",
    "guarantee": "the events composed cost no more than the guarantee",
    "account": "the ledger opened the account, under the relation of the claim",
    "tables": "the ledger fixed whose the rows of each table are, as the claim has it, before the charge",
    "charge": "the ledger charged for this claim, before the data was read",
    "release": "the ledger keeps the noisy numbers under that charge, and the answer is the one that was made of them",
    "registry": "what the certificate says in other words follows from the claim",
    "ledger": "the ledger that was given is whole, and has these entries and this head",
}
"""The steps, in order, and what each shows."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the check of a certificate found.

    Attributes:
        held: the steps that hold, in order.
        broken: the first step that does not; None when all hold.
        reason: what is wrong with it.
        certificate: what was checked, once it could be read.
        shows: what each step shows.
    """

    held: tuple[str, ...]
    broken: str | None = None
    reason: str = ""
    certificate: Certificate[PlanClaim] | Certificate[FlowClaim] | None = None
    shows: Mapping[str, str] = field(default_factory=lambda: STEPS)

    @property
    def ok(self) -> bool:
        """Whether all steps hold."""
        return self.broken is None


class Broken(Exception):  # never leaves the checker
    """The step at hand does not hold."""


def must(holds: object, reason: str) -> None:
    """The step at hand does not hold without this."""
    if not holds:
        raise Broken(reason)


def words(verdict: Verdict) -> Sequence[str]:
    """The verdict in lines: each step that holds, and the first that does not."""
    lines = [f"holds   {name}: {verdict.shows[name]}" for name in verdict.held]
    if verdict.broken is not None:
        lines.append(f"BROKEN  {verdict.broken}: {verdict.reason}")
    return lines
