"""The check of a certificate: every step of the proof, in order, by code that needs no planner and no session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from discreet.errors import DiscreetError, InternalError
from discreet.ledger.chain import canonical
from discreet.ledger.entry import Opened
from discreet.privacy.unit import Relation
from discreet.verify.certificate import declared, seal
from discreet.verify.certificate.claim_checks import ClaimChecks
from discreet.verify.certificate.document import Certificate, checks_of, read
from discreet.verify.certificate.entries import (
    charged_for,
    check_chain,
    check_ledger,
    check_sure,
    opened_under,
    released_under,
    tables_of,
)
from discreet.verify.certificate.evidence import ChainedEntry, Evidence
from discreet.verify.certificate.forms import Broken, must
from discreet.verify.certificate.registry import registry
from discreet.verify.claim import Cost
from discreet.verify.derive import own_rows
from discreet.verify.lists import finds_one
from discreet.verify.price import check_divergence, check_events, check_total, fits

STEPS = {
    "format": "the certificate has the fields of its format, and no others",
    "bounds": "each statement that ran limits what it gives of a unit in each group, whatever the tables hold",
    "sensitivity": "each column moves by exactly what is said when one unit comes, goes or changes",
    "noise": "the noise on the columns costs no population more than its guarantee",
    "events": "what the ledger was told is what the noise costs",
    "guarantee": "the events composed cost no more than the guarantee",
    "account": "the ledger opened the account of each population, under the relation of the claim",
    "tables": "the ledger fixed whose the rows of each table are, as the claim has it, before the charge",
    "charge": "the ledger charged each population for this claim, together, before the data was read",
    "release": "the ledger keeps the noisy numbers under that charge, and the result is the one that was made of them",
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
        declared: what the certificate of a declared charge shows, in a sentence; "" of any other.
    """

    held: tuple[str, ...]
    broken: str | None = None
    reason: str = ""
    certificate: Certificate | None = None
    declared: str = ""

    @property
    def ok(self) -> bool:
        """Whether all steps hold."""
        return self.broken is None


def words(verdict: Verdict) -> Sequence[str]:
    """Return the verdict in lines: each step that holds, and the first that does not."""
    steps = declared.STEPS if verdict.declared else STEPS
    lines = [f"holds   {name}: {steps[name]}{_limit(name, verdict.certificate)}" for name in verdict.held]
    if verdict.broken is not None:
        lines.append(f"BROKEN  {verdict.broken}: {verdict.reason}")
    return lines


def _limit(step: str, certificate: Certificate | None) -> str:
    """Return what a step cannot show: how far a part moves that only the code of its recipe bounds."""
    if step != "sensitivity" or certificate is None:
        return ""
    promised = checks_of(certificate.claim).promised
    return (
        f"; of {', '.join(map(repr, promised))} this is the recipe's promise, which is not checked here"
        if promised
        else ""
    )


def check(document: Any, ledger: Iterable[str] | None = None, *, head: str | None = None) -> Verdict:
    """Check a certificate step by step, to the first that does not hold.

    Guarantee:
        When all steps hold, whatever the certificate says else: for every value of `$secret` and all data, the numbers
        that the statements give, with the noise that is named added independently, are (ε, δ)-differentially private
        for `claim.charged`, under `claim.relation`; and the entries of the ledger commit to that claim, and to these
        noisy numbers and this result. Of a release to two populations this holds for each of them, at its own price
        and under its own relation, of the maximum flows through the caps of the claim (docs/proofs/certificates.md).

    Args:
        document: the certificate as JSON was read.
        ledger: the lines of a ledger's public export, `Ledger.export()`; None where there is none to compare.
        head: a head that was published, which the ledger must contain.

    Raises:
        LedgerError: the ledger that was given cannot be read.
    """
    own = type(document) is dict and document.get("format") == declared.FORMAT
    work: _Check | declared.DeclaredCheck = declared.DeclaredCheck(document) if own else _Check(document)
    held = list[str]()
    lines = None if ledger is None else [line.rstrip("\n") for line in ledger]
    for name in declared.STEPS if own else STEPS:
        try:
            if name != "ledger":
                getattr(work, f"_{name}")()
            elif lines is not None:
                work.ledger(lines, head)
            else:
                continue
        except (Broken, DiscreetError) as error:
            return Verdict(tuple(held), name, _words(error), work.found)
        except (RecursionError, OverflowError, ArithmeticError, ValueError, TypeError, LookupError, AttributeError):
            # what no honest certificate holds: numbers beyond all bounds, texts that nest without end
            return Verdict(tuple(held), name, "it holds what cannot be judged", work.found)
        held.append(name)
    return Verdict(tuple(held), certificate=work.found, declared=work.said)


class _Check:
    """The check of one certificate: a method for each step, in the order of `STEPS`."""

    _given: Certificate  # since to read it is the first step
    _claim: ClaimChecks
    _opened: Sequence[Opened]

    def __init__(self, document: Any) -> None:
        self._document = document
        self.found: Certificate | None = None
        self.said = ""

    def _format(self) -> None:
        canonical(self._document)  # no NaN, and no key that is not text
        self._given = read(self._document)
        self._claim = checks_of(self._given.claim)
        must(self._claim.measures, "nothing is measured")
        self.found = self._given

    def _bounds(self) -> None:
        self._claim.derive()

    def _sensitivity(self) -> None:
        self._claim.check_sensitivities()
        must(list(self._given.reasons) == self._claim.reasons(), "the reasons are not those of the claim")

    def _noise(self) -> None:
        for priced in self._claim.priced():
            check_total(priced.parts, priced.claimed)

    def _events(self) -> None:
        for priced in self._claim.priced():
            check_events(priced.parts, priced.claimed)
            check_divergence(priced.parts, priced.claimed)
            same = priced.claimed.events == priced.events
            must(same, "the events of the measurements are not those of their noise")
        self._claim.check_charges()

    def _guarantee(self) -> None:
        for cost in self._claim.costs:
            must(fits(cost), "the events cost more than ε and δ")

    def _account(self) -> None:
        self._opened = [opened_under(own, name, relation) for own, name, relation, _ in self._payers()]
        check_chain([own.account for own in self._given.evidence])

    def _tables(self) -> None:
        """Each account fixed the tables with the same columns, each with its own unit, and others' beside it."""
        columns = []
        for place, (own, name, _, _) in enumerate(self._payers()):
            sources = self._claim.sources(place)
            others = self._claim.others(place, self._given.populations)
            pinned = tables_of(own, name, [source for source, _ in sources], others)
            for source, texts in sources:
                if source.unit is None:
                    kinds = {} if source.table is None else dict(pinned[source.table.casefold()]["columns"])
                    found = [(text, kinds) if source.tables == {} else own_rows(text, source) for text in texts]
                    must(all(finds_one(*own) for own in found), "a row could find two keys of a list")
                check_sure(source, pinned, texts)
            columns.append({table: schema["columns"] for table, schema in pinned.items()})
        must(all(found == columns[0] for found in columns), "the columns of a table were fixed in two ways")
        if len(columns) > 1:  # of one ledger
            check_chain([link for own in self._given.evidence for link in (own.account, *own.schemas)])

    def _charge(self) -> None:
        given = self._given
        says = {"version": given.version, "library": given.library, "claim": seal.before(given.claim)}
        together = given.populations if len(given.populations) > 1 else None
        for own, name, _, cost in self._payers():
            charged_for(own, name, given.question, cost, {**says, **self._claim.note}, together)
        charges = [own.charge for own in given.evidence]
        must(_one_after_another(charges), "the charges were not made together")
        check_chain(charges)

    def _release(self) -> None:
        given, sealed = self._given, seal.of_claim(self._given.claim)
        kept = [released_under(own, name, given.question, sealed, given.answer) for own, name, *_ in self._payers()]
        self._claim.check_stored(kept[0])
        must(len({canonical(release) for release in kept}) == 1, "the accounts keep different numbers")
        releases = [own.release for own in given.evidence]
        must(_one_after_another(releases), "the releases were not stored together")
        check_chain([*(own.charge for own in given.evidence), *releases])

    def _registry(self) -> None:
        given = self._given
        wanted = registry(self._claim, self._opened, populations=given.populations, version=given.version)
        must(canonical(given.registry) == canonical(wanted), "it does not follow")

    def ledger(self, lines: Sequence[str], published: str | None) -> None:
        """Take the last step: all entries are in that ledger."""
        evidence = self._given.evidence
        check_ledger(lines, published, [link for own in evidence for link in own.links], evidence[0].head)

    def _payers(self) -> Iterator[tuple[Evidence, str, Relation, Cost]]:
        """Yield what the ledger says of each population that paid, its name, its neighbours and its charge."""
        given = self._given
        for own, name, payer in zip(given.evidence, given.populations, self._claim.payers, strict=True):
            yield own, name, *payer


def _one_after_another(links: Sequence[ChainedEntry]) -> bool:
    return all(before.seq + 1 == after.seq for before, after in pairwise(links))


def _words(error: Exception) -> str:
    """Return what is wrong, without the words in which a plan is refused."""
    text = error.message if isinstance(error, DiscreetError) else str(error)
    if isinstance(error, InternalError) and " disagrees with the first about " in text:
        about = text.split(" disagrees with the first about ")[1].removesuffix(". Nothing was charged.")
        return f"the second derivation finds something else about {about}"
    return text.removesuffix(".")
