"""The check of a certificate: every step of the proof, in order, by code that needs no planner and no session."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic

from discreet.errors import DiscreetError, InternalError
from discreet.ledger.chain import canonical
from discreet.ledger.entry import Opened
from discreet.privacy.event import Composed
from discreet.verify.certificate import seal
from discreet.verify.certificate.document import OF_BOTH, C, Certificate, read, read_of_both
from discreet.verify.certificate.entries import (
    charged_for,
    check_chain,
    check_ledger,
    check_sure,
    opened_under,
    released_under,
    tables_of,
)
from discreet.verify.certificate.events import of_charge, of_measurements
from discreet.verify.certificate.evidence import Evidence
from discreet.verify.certificate.reasons import reasons, reasons_of_both
from discreet.verify.certificate.registry import registry, registry_of_both
from discreet.verify.certificate.stored import check_plain, check_stored
from discreet.verify.certificate.verdict import STEPS, Broken, must
from discreet.verify.certificate.verdict import Verdict as Verdict
from discreet.verify.certificate.verdict import words as words
from discreet.verify.check import Found, check_moves, derived, priced, without_parts
from discreet.verify.claim import PlanClaim
from discreet.verify.derive import PrivateRows
from discreet.verify.flows import Edges, FlowClaim, Side, derived_flows, priced_side, side_moves
from discreet.verify.matching import finds_one
from discreet.verify.moves import column_moves, norms, tree_moves
from discreet.verify.plain import ambiguity
from discreet.verify.price import check_charge, check_divergence, check_events, check_total, fits
from discreet.verify.shapes import reject


def check(document: Any, ledger: Iterable[str] | None = None, *, head: str | None = None) -> Verdict:
    """Checks a certificate step by step, to the first that does not hold.

    Guarantee:
        When all steps hold, whatever the certificate says else: for every value of `$secret` and all data, the numbers
        that the statements give, with the noise that is named added independently, are (ε, δ)-differentially private
        for `claim.charged`, under `claim.relation`; and the entries of the ledger commit to that claim, and to these
        noisy numbers and this answer. Of a release to two populations this holds for each of them, at its own price
        and under its own relation, of the maximum flows through the caps of the claim (docs/proofs/certificates.md).

    Args:
        document: the certificate as JSON was read.
        ledger: the lines of a ledger's public export, `Ledger.export()`; None where there is none to compare.
        head: a head that was published, which the ledger must contain.

    Raises:
        LedgerError: the ledger that was given cannot be read.
    """
    if type(document) is dict and document.get("format") == OF_BOTH:
        return _judge(_CheckOfBoth(document), ledger, head)
    return _judge(_Check(document), ledger, head)


def _judge(work: _Check | _CheckOfBoth, ledger: Iterable[str] | None, head: str | None) -> Verdict:
    """Takes the steps in order, to the first that does not hold."""
    steps = work.steps
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


class _Work(ABC, Generic[C]):
    """The check of one certificate: a method for each step, in the order of `STEPS`."""

    shows: ClassVar[Mapping[str, str]] = STEPS

    def __init__(self, document: Any) -> None:
        self._document = document
        self.found: Certificate[C] | None = None

    @property
    def steps(self) -> dict[str, Callable[[], None]]:
        """All steps but the last."""
        return {name: getattr(self, f"_{name}") for name in STEPS if name != "ledger"}

    def ledger(self, lines: Sequence[str], published: str | None) -> None:
        """The last step: all entries are in that ledger."""
        evidence = self._given.evidence
        check_ledger(lines, published, [link for own in evidence for link in own.links], evidence[0].head)

    @abstractmethod
    def _read(self, document: Any) -> Certificate[C]:
        """The certificate, which measures something."""

    @property
    def _given(self) -> Certificate[C]:
        assert self.found is not None  # to read is the first step
        return self.found

    def _format(self) -> None:
        canonical(self._document)  # no NaN, and no key that is not text
        self.found = self._read(self._document)


class _Check(_Work[PlanClaim]):
    _facts: tuple[Found, ...] = ()
    _opened: Opened | None = None

    def _read(self, document: Any) -> Certificate[PlanClaim]:
        found = read(document)
        must(found.claim.measurements or found.claim.parts, "nothing is measured")
        return found

    def _bounds(self) -> None:
        for text in self._given.claim.statements:
            found = ambiguity(text)
            must(found is None, f"two readers of a statement could take it for different things: {found}")
        self._facts = derived(self._given.claim)

    def _sensitivity(self) -> None:
        claim = self._given.claim
        check_moves(claim, self._facts)
        check_exact(claim, self._facts)
        must(list(self._given.reasons) == reasons(claim), "the reasons are not those of the claim")

    def _noise(self) -> None:
        claim = self._given.claim
        check_total(priced(claim, self._facts), without_parts(claim))

    def _events(self) -> None:
        claim = self._given.claim
        parts, measured = priced(claim, self._facts), without_parts(claim)
        check_events(parts, measured)
        check_divergence(parts, measured)
        same = claim.measured.events == of_measurements(claim)
        must(same, "the events of the measurements are not those of their noise")
        check_charge(claim)
        must(claim.charged.events == of_charge(claim), "the events of the charge are not those of its parts")

    def _guarantee(self) -> None:
        claim = self._given.claim
        for cost in (claim.measured, claim.charged):
            must(fits(cost), "the events cost more than ε and δ")

    def _account(self) -> None:
        given = self._given
        self._opened = opened_under(given.evidence[0], given.populations[0], given.claim.relation)

    def _tables(self) -> None:
        given = self._given
        pinned = tables_of(given.evidence[0], given.populations[0], given.claim.sources)
        for source, texts in _by_source(given.claim):
            if source.table is not None and source.unit is None:
                columns = dict(pinned[source.table.casefold()]["columns"])
                for text in texts:
                    must(finds_one(text, columns), "a row could find two keys of a list")
            check_sure(source, pinned, texts)

    def _charge(self) -> None:
        given, claim = self._given, self._given.claim
        says = {"version": given.version, "library": given.library, "claim": seal.before(claim)}
        charged_for(given.evidence[0], given.populations[0], given.question, claim.charged, says)

    def _release(self) -> None:
        given, claim = self._given, self._given.claim
        sealed = seal.of_claim(claim)
        kept = released_under(given.evidence[0], given.populations[0], given.question, sealed, given.answer)
        check_stored(kept, claim, self._facts)

    def _registry(self) -> None:
        given = self._given
        assert self._opened is not None
        wanted = registry(given.claim, self._opened, population=given.populations[0], version=given.version)
        must(canonical(given.registry) == canonical(wanted), "it does not follow")


SHOWS_OF_BOTH = {
    **STEPS,
    "bounds": "the statement that ran gives whole numbers of each group and pair of units, and the flows are of these",
    "sensitivity": "each column moves by exactly what is said when a unit of either population comes, goes or changes",
    "noise": "the one noise on the columns costs neither population more than its guarantee",
    "events": "what either account was told is what the noise costs its population",
    "guarantee": "the events of each population composed cost no more than its guarantee",
    "account": "the ledger opened both accounts, each under the relation of its side of the claim",
    "tables": "the ledger fixed for both populations whose the rows are, as the claim has it, before the charges",
    "charge": "the ledger charged both together for this claim, one entry after the other, before the data was read",
    "release": "the ledger keeps the same noisy numbers under both charges, and the answer is the one made of them",
}
"""What each step shows of a release to two populations."""


class _CheckOfBoth(_Work[FlowClaim]):
    shows: ClassVar[Mapping[str, str]] = SHOWS_OF_BOTH
    _edges: Edges | None = None
    _opened: tuple[Opened, ...] = ()

    def _read(self, document: Any) -> Certificate[FlowClaim]:
        found = read_of_both(document)
        must(found.claim.measured, "nothing is measured")
        return found

    def _sides(self) -> Iterator[tuple[str, Side, Evidence]]:
        given = self._given
        return zip(given.populations, given.claim.sides, given.evidence, strict=True)

    def _bounds(self) -> None:
        self._edges = derived_flows(self._given.claim)

    def _sensitivity(self) -> None:
        """Each number is of one flow, whose caps limit what a pair carries; and sensitivities are just the moves."""
        claim, most = self._given.claim, self._edges.most if self._edges is not None else ()
        pipes = [pipe for column in claim.measured for pipe in column.pipes]
        must([p.place for p in pipes] == list(range(len(most))), "the flows are not of each number once")
        for pipe in pipes:
            must(most[pipe.place] == min(pipe.caps), "the caps of a flow are not those of the statement")
        for place, side in enumerate(claim.sides):
            for moved, said in zip(side_moves(claim, place), side.sensitivities, strict=True):
                must(moved.norms == norms(said), "a unit moves a column less far than is said")
        must(list(self._given.reasons) == reasons_of_both(claim), "the reasons are not those of the claim")

    def _noise(self) -> None:
        claim = self._given.claim
        for place, side in enumerate(claim.sides):
            check_total([priced_side(claim, place)], side.cost)

    def _events(self) -> None:
        claim = self._given.claim
        for place, side in enumerate(claim.sides):
            part = priced_side(claim, place)
            check_events([part], side.cost)
            check_divergence([part], side.cost)
            columns = zip(claim.measured, side.sensitivities, strict=True)
            told = sum((column.noise.event(s) for column, s in columns), Composed())
            must(side.cost.events == told, "the events of a population are not those of the noise for it")

    def _guarantee(self) -> None:
        for side in self._given.claim.sides:
            must(fits(side.cost), "the events cost more than ε and δ")

    def _account(self) -> None:
        self._opened = tuple(opened_under(own, name, side.relation) for name, side, own in self._sides())
        check_chain([own.account for own in self._given.evidence])

    def _tables(self) -> None:
        """Both accounts fixed the table with the same columns, each with its own unit and the other's beside it."""
        claim, whose = self._given.claim, [(name, side.unit) for name, side, _ in self._sides()]
        columns = []
        for place, (name, side, own) in enumerate(self._sides()):
            source = PrivateRows(claim.table, claim.columns, side.unit, view=claim.view)
            pinned = tables_of(own, name, [source], [whose[1 - place]])
            check_sure(source, pinned, [claim.sql])
            columns.append(pinned[claim.table.casefold()]["columns"])
        must(columns[0] == columns[1], "the columns of the table were fixed in two ways")
        check_chain([link for own in self._given.evidence for link in (own.account, *own.schemas)])

    def _charge(self) -> None:
        given = self._given
        says = {
            "version": given.version,
            "library": given.library,
            "claim": seal.of_claim(given.claim),
            "table": given.claim.table,
        }
        for name, side, own in self._sides():
            charged_for(own, name, given.question, side.cost, says, together=given.populations)
        first, second = (own.charge for own in given.evidence)
        must(first.seq + 1 == second.seq, "the two charges were not made together")
        check_chain([first, second])

    def _release(self) -> None:
        given, claim = self._given, self._given.claim
        groups, kept = math.prod(claim.lists), []
        for name, _, own in self._sides():
            release = released_under(own, name, given.question, seal.of_claim(claim), given.answer)
            check_plain(release, len(claim.lists), groups, len(claim.measured))
            kept.append(canonical(release))
        must(kept[0] == kept[1], "the two accounts keep different numbers")
        first, second = (own.release for own in given.evidence)
        must(first.seq + 1 == second.seq, "the two releases were not stored together")
        check_chain([*(own.charge for own in given.evidence), first, second])

    def _registry(self) -> None:
        given = self._given
        wanted = registry_of_both(
            given.claim, self._opened, populations=given.populations, version=given.version
        )
        must(canonical(given.registry) == canonical(wanted), "it does not follow")


def _by_source(claim: PlanClaim) -> list[tuple[PrivateRows, list[str]]]:
    """The statements over each source."""
    found = [(look.source, [look.sql]) for look in claim.looks]
    for m in claim.measurements:
        texts = [m.sql, *m.truncation, *(own for _, own in m.distinct), *(t.sql for t in m.trees)]
        found.append((m.source, [text for text in texts if text]))
    return [*found, *((part.source, [part.sql]) for part in claim.parts)]


def check_exact(claim: PlanClaim, found: Sequence[Found]) -> None:
    """Refuses a claim that a unit enters more groups, adds more or moves a column further than its statements let it.

    Less noise would have done then: it is no danger, and still not what the certificate says.

    Raises:
        InternalError: naming it.
    """
    other = claim.relation.value == "replace"
    for m, facts in zip(claim.measurements, found, strict=True):
        if m.groups != facts.groups:
            reject("how many groups a unit enters")
        for column, (low, high) in zip(m.columns, facts.spans, strict=True):
            if (column.low, column.high) != (min(low, 0), max(high, 0)):
                reject("what a unit adds to a group")
            moved = column_moves((low, high), facts.groups, m.declared, replace=other)
            if moved.norms != norms(column.sensitivity):
                reject("how far a unit moves a column")
        for tree, reach in zip(m.trees, facts.trees, strict=True):
            moved = tree_moves(reach, facts.groups, replace=other)
            nodes = (
                (2 if other else 1) * facts.groups * reach.total
            )  # each by a step, in as many as there are
            if m.declared is not None:
                nodes = min(nodes, m.declared * reach.leaves)
            if (nodes, reach.total, moved.l1, moved.l2_squared) != norms(tree.sensitivity):
                reject("how far a unit moves a spread")


def _words(error: Exception) -> str:
    """What is wrong, without the words in which a plan is refused."""
    text = error.message if isinstance(error, DiscreetError) else str(error)
    if isinstance(error, InternalError) and " disagrees with the first about " in text:
        about = text.split(" disagrees with the first about ")[1].removesuffix(". Nothing was charged.")
        return f"the second derivation finds something else about {about}"
    return text.removesuffix(".")
