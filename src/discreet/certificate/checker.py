"""The check of a certificate: every step of the proof, in order, by code that needs no planner and no session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.certificate import seal
from discreet.certificate.both.checker import CheckOfBoth, is_of_both
from discreet.certificate.document import Certificate, read
from discreet.certificate.entries import (
    charged_for,
    check_ledger,
    check_sure,
    opened_under,
    released_under,
    tables_of,
)
from discreet.certificate.events import fits, of_charge, of_measurements
from discreet.certificate.exact import check_exact
from discreet.certificate.reasons import reasons
from discreet.certificate.registry import registry
from discreet.certificate.stored import check_stored
from discreet.certificate.verdict import STEPS as STEPS
from discreet.certificate.verdict import Verdict as Verdict
from discreet.certificate.verdict import Work, judge, must
from discreet.certificate.verdict import words as words
from discreet.ledger.chain import canonical
from discreet.ledger.entry import Opened
from discreet.rederive.check import Found, check_moves, derived, priced
from discreet.rederive.claim import Claim
from discreet.rederive.derive import Source
from discreet.rederive.matching import finds_one
from discreet.rederive.plain import ambiguity
from discreet.rederive.price import check_charge, check_divergence, check_events, check_total


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
    work: Work = CheckOfBoth(document) if is_of_both(document) else _Check(document)
    return judge(work, ledger, head)


@dataclass(slots=True)
class _Check:
    document: Any
    found: Certificate | None = None
    _facts: tuple[Found, ...] = ()
    _opened: Opened | None = None

    @property
    def shows(self) -> Mapping[str, str]:
        return STEPS

    @property
    def steps(self) -> Sequence[Callable[[], None]]:
        return (
            self.read,
            self.bounds,
            self.sensitivity,
            self.noise,
            self.events,
            self.guarantee,
            self.account,
            self.tables,
            self.charge,
            self.release,
            self.registry,
        )

    @property
    def _given(self) -> Certificate:
        assert self.found is not None  # read is the first step
        return self.found

    def read(self) -> None:
        canonical(self.document)  # no NaN, and no key that is not text
        self.found = read(self.document)
        must(self.found.claim.measurements, "nothing is measured")

    def bounds(self) -> None:
        for text in self._given.claim.statements:
            found = ambiguity(text)
            must(found is None, f"two readers of a statement could take it for different things: {found}")
        self._facts = derived(self._given.claim)

    def sensitivity(self) -> None:
        claim = self._given.claim
        check_moves(claim, self._facts)
        check_exact(claim, self._facts)
        must(list(self._given.reasons) == reasons(claim), "the reasons are not those of the claim")

    def noise(self) -> None:
        claim = self._given.claim
        check_total(priced(claim, self._facts), claim.measured)

    def events(self) -> None:
        claim = self._given.claim
        parts = priced(claim, self._facts)
        check_events(parts, claim.measured)
        check_divergence(parts, claim.measured)
        same = claim.measured.events == of_measurements(claim)
        must(same, "the events of the measurements are not those of their noise")
        check_charge(claim)
        must(claim.charged.events == of_charge(claim), "the events of the charge are not those of its parts")

    def guarantee(self) -> None:
        claim = self._given.claim
        for cost in (claim.measured, claim.charged):
            must(fits(cost), "the events cost more than ε and δ")

    def account(self) -> None:
        given = self._given
        self._opened = opened_under(given.evidence, given.population, given.claim.relation)

    def tables(self) -> None:
        given = self._given
        pinned = tables_of(given.evidence, given.population, given.claim.sources)
        for source, texts in _by_source(given.claim):
            if source.table is not None and source.unit is None:
                columns = dict(pinned[source.table.casefold()]["columns"])
                for text in texts:
                    must(finds_one(text, columns), "a row could find two keys of a list")
            check_sure(source, pinned, texts)

    def charge(self) -> None:
        given, claim = self._given, self._given.claim
        says = {"version": given.version, "library": given.library, "claim": seal.before(claim)}
        charged_for(given.evidence, given.population, given.question, claim.charged, says)

    def release(self) -> None:
        given, claim = self._given, self._given.claim
        sealed = seal.of_claim(claim)
        kept = released_under(given.evidence, given.population, given.question, sealed, given.answer)
        check_stored(kept, claim, self._facts)

    def registry(self) -> None:
        given = self._given
        assert self._opened is not None
        wanted = registry(given.claim, self._opened, population=given.population, version=given.version)
        must(canonical(given.registry) == canonical(wanted), "it does not follow")

    def ledger(self, lines: Sequence[str], published: str | None) -> None:
        evidence = self._given.evidence
        check_ledger(lines, published, evidence.links, evidence.head)


def _by_source(claim: Claim) -> list[tuple[Source, list[str]]]:
    """The statements over each source."""
    found = [(look.source, [look.sql]) for look in claim.looks]
    for m in claim.measurements:
        texts = [m.sql, *m.truncation, *(own for _, own in m.distinct), *(t.sql for t in m.trees)]
        found.append((m.source, [text for text in texts if text]))
    return found
