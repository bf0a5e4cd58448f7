"""The steps of a check, in order, to the first that does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from discreet.errors import DiscreetError, InternalError

if TYPE_CHECKING:
    from discreet.certificate.both.document import CertificateOfBoth
    from discreet.certificate.document import Certificate

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
    certificate: Certificate | CertificateOfBoth | None = None
    shows: Mapping[str, str] = field(default_factory=lambda: STEPS)

    @property
    def ok(self) -> bool:
        """Whether all steps hold."""
        return self.broken is None


class Work(Protocol):
    """The check of one certificate: a method for each step but the last, in their order."""

    @property
    def found(self) -> Certificate | CertificateOfBoth | None:
        """What was read."""

    @property
    def shows(self) -> Mapping[str, str]:
        """What each step shows."""

    @property
    def steps(self) -> Sequence[Callable[[], None]]:
        """All steps but the last."""

    def ledger(self, lines: Sequence[str], published: str | None) -> None:
        """The last step: the entries are in that ledger."""


class Broken(Exception):  # never leaves the checker
    """The step at hand does not hold."""


def must(holds: object, reason: str) -> None:
    """The step at hand does not hold without this."""
    if not holds:
        raise Broken(reason)


def judge(work: Work, ledger: Iterable[str] | None, head: str | None) -> Verdict:
    """Takes the steps in order, to the first that does not hold."""
    steps = dict(zip(STEPS, work.steps, strict=False))
    if ledger is not None:
        lines = [line.rstrip("\n") for line in ledger]
        steps["ledger"] = lambda: work.ledger(lines, head)
    held: list[str] = []
    for name, step in steps.items():
        try:
            step()
        except (Broken, DiscreetError) as error:
            return Verdict(tuple(held), name, _words(error), work.found, work.shows)
        except (
            RecursionError,
            OverflowError,
            ArithmeticError,
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
        ):
            # what no honest certificate holds: numbers beyond all bounds, texts that nest without end
            return Verdict(tuple(held), name, "it holds what cannot be judged", work.found, work.shows)
        held.append(name)
    return Verdict(tuple(held), certificate=work.found, shows=work.shows)


def words(verdict: Verdict) -> Sequence[str]:
    """The verdict in lines: each step that holds, and the first that does not."""
    lines = [f"holds   {name}: {verdict.shows[name]}" for name in verdict.held]
    if verdict.broken is not None:
        lines.append(f"BROKEN  {verdict.broken}: {verdict.reason}")
    return lines


def _words(error: Exception) -> str:
    """What is wrong, without the words in which a plan is refused."""
    text = error.message if isinstance(error, DiscreetError) else str(error)
    if isinstance(error, InternalError) and " disagrees with the first about " in text:
        about = text.split(" disagrees with the first about ")[1].removesuffix(". Nothing was charged.")
        return f"the second derivation finds something else about {about}"
    return text.removesuffix(".")
