"""The check of a certificate of two populations, step by step, as that of one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.certificate.both.codec import of_claim
from discreet.certificate.both.document import FORMAT, CertificateOfBoth, read
from discreet.certificate.both.words import reasons, registry
from discreet.certificate.entries import (
    charged_for,
    check_chain,
    check_ledger,
    check_sure,
    opened_under,
    released_under,
    tables_of,
)
from discreet.certificate.events import fits
from discreet.certificate.evidence import Evidence
from discreet.certificate.stored import check_plain
from discreet.certificate.verdict import STEPS, must
from discreet.ledger.chain import canonical
from discreet.ledger.entry import Opened
from discreet.privacy.event import Composed
from discreet.rederive.derive import Source
from discreet.rederive.flows import Edges, Side, derived_flows, priced_side, side_moves
from discreet.rederive.moves import norms
from discreet.rederive.price import check_divergence, check_events, check_total

SHOWS = {
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


def is_of_both(document: Any) -> bool:
    """Whether a document calls itself a certificate of two populations."""
    return type(document) is dict and document.get("format") == FORMAT


@dataclass(slots=True)
class CheckOfBoth:
    """The check of one certificate of two populations."""

    document: Any
    found: CertificateOfBoth | None = None
    _edges: Edges | None = None
    _opened: tuple[Opened, ...] = ()

    @property
    def shows(self) -> Mapping[str, str]:
        """What each step shows."""
        return SHOWS

    @property
    def steps(self) -> Sequence[Callable[[], None]]:
        """All steps but the last."""
        return (
            self._read,
            self._bounds,
            self._sensitivity,
            self._noise,
            self._events,
            self._guarantee,
            self._account,
            self._tables,
            self._charge,
            self._release,
            self._registry,
        )

    def ledger(self, lines: Sequence[str], published: str | None) -> None:
        """The entries of both accounts are in that ledger."""
        links = [link for own in self._given.evidence for link in own.links]
        check_ledger(lines, published, links, self._given.evidence[0].head)

    @property
    def _given(self) -> CertificateOfBoth:
        assert self.found is not None  # to read is the first step
        return self.found

    def _sides(self) -> Iterator[tuple[str, Side, Evidence]]:
        given = self._given
        return zip(given.populations, given.claim.sides, given.evidence, strict=True)

    def _read(self) -> None:
        canonical(self.document)  # no NaN, and no key that is not text
        self.found = read(self.document)
        must(self.found.claim.measured, "nothing is measured")

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
        must(list(self._given.reasons) == reasons(claim), "the reasons are not those of the claim")

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
            source = Source(claim.table, claim.columns, side.unit, view=claim.view)
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
            "claim": of_claim(given.claim),
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
            release = released_under(own, name, given.question, of_claim(claim), given.answer)
            check_plain(release, len(claim.lists), groups, len(claim.measured))
            kept.append(canonical(release))
        must(kept[0] == kept[1], "the two accounts keep different numbers")
        first, second = (own.release for own in given.evidence)
        must(first.seq + 1 == second.seq, "the two releases were not stored together")
        check_chain([*(own.charge for own in given.evidence), first, second])

    def _registry(self) -> None:
        given = self._given
        wanted = registry(given.claim, self._opened, populations=given.populations, version=given.version)
        must(canonical(given.registry) == canonical(wanted), "it does not follow")
