"""The check of a certificate: every step of the proof, in order, by code that needs no planner and no session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.certificate import seal
from discreet.certificate.document import Certificate, read
from discreet.certificate.events import fits, of_charge, of_measurements
from discreet.certificate.evidence import CERTIFIED, Link, links_of
from discreet.certificate.exact import check_exact
from discreet.certificate.forms import digest, record
from discreet.certificate.reasons import reasons
from discreet.certificate.registry import registry
from discreet.certificate.stored import check_stored
from discreet.certificate.tables import is_pinned, names_of, types_of
from discreet.errors import DiscreetError, InternalError
from discreet.ledger.chain import canonical
from discreet.ledger.entry import Charged, Entry, Opened, Pinned, Released
from discreet.ledger.export import verify_export
from discreet.rederive.check import Found, check_moves, derived, priced
from discreet.rederive.claim import Claim
from discreet.rederive.derive import Source
from discreet.rederive.failing import failure
from discreet.rederive.matching import finds_one
from discreet.rederive.plain import ambiguity
from discreet.rederive.price import check_charge, check_divergence, check_events, check_total

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
    """

    held: tuple[str, ...]
    broken: str | None = None
    reason: str = ""
    certificate: Certificate | None = None

    @property
    def ok(self) -> bool:
        """Whether all steps hold."""
        return self.broken is None


class _Broken(Exception):  # never leaves this module
    """The step at hand does not hold."""


def check(document: Any, ledger: Iterable[str] | None = None, *, head: str | None = None) -> Verdict:
    """Checks a certificate step by step, to the first that does not hold.

    Guarantee:
        When all steps hold, whatever the certificate says else: for every value of `$secret` and all data, the numbers
        that the statements give, with the noise that is named added independently, are (ε, δ)-differentially private
        for `claim.charged`, under `claim.relation`; and the entries of the ledger commit to that claim, and to these
        noisy numbers and this answer (docs/proofs/certificates.md).

    Args:
        document: the certificate as JSON was read.
        ledger: the lines of a ledger's public export, `Ledger.export()`; None where there is none to compare.
        head: a head that was published, which the ledger must contain.

    Raises:
        LedgerError: the ledger that was given cannot be read.
    """
    held: list[str] = []
    work = _Check(document)
    steps: list[tuple[str, Callable[[], None]]] = [
        ("format", work.read),
        ("bounds", work.bounds),
        ("sensitivity", work.sensitivity),
        ("noise", work.noise),
        ("events", work.events),
        ("guarantee", work.guarantee),
        ("account", work.account),
        ("tables", work.tables),
        ("charge", work.charge),
        ("release", work.release),
        ("registry", work.registry),
    ]
    if ledger is not None:
        lines = [line.rstrip("\n") for line in ledger]
        steps.append(("ledger", lambda: work.ledger(lines, head)))
    for name, step in steps:
        try:
            step()
        except (_Broken, DiscreetError) as error:
            return Verdict(tuple(held), name, _words(error), work.found)
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
            return Verdict(tuple(held), name, "it holds what cannot be judged", work.found)
        held.append(name)
    return Verdict(tuple(held), certificate=work.found)


def _words(error: Exception) -> str:
    """What is wrong, without the words in which a plan is refused."""
    text = error.message if isinstance(error, DiscreetError) else str(error)
    if isinstance(error, InternalError) and " disagrees with the first about " in text:
        about = text.split(" disagrees with the first about ")[1].removesuffix(". Nothing was charged.")
        return f"the second derivation finds something else about {about}"
    return text.removesuffix(".")


def _must(holds: object, reason: str) -> None:
    if not holds:
        raise _Broken(reason)


@dataclass(slots=True)
class _Check:
    document: Any
    found: Certificate | None = None
    _facts: tuple[Found, ...] = ()
    _opened: Opened | None = None

    @property
    def _given(self) -> Certificate:
        assert self.found is not None  # read is the first step
        return self.found

    def read(self) -> None:
        canonical(self.document)  # no NaN, and no key that is not text
        self.found = read(self.document)
        _must(self.found.claim.measurements, "nothing is measured")

    def bounds(self) -> None:
        for text in self._given.claim.statements:
            found = ambiguity(text)
            _must(found is None, f"two readers of a statement could take it for different things: {found}")
        self._facts = derived(self._given.claim)

    def sensitivity(self) -> None:
        claim = self._given.claim
        check_moves(claim, self._facts)
        check_exact(claim, self._facts)
        _must(list(self._given.reasons) == reasons(claim), "the reasons are not those of the claim")

    def noise(self) -> None:
        claim = self._given.claim
        check_total(priced(claim, self._facts), claim.measured)

    def events(self) -> None:
        claim = self._given.claim
        parts = priced(claim, self._facts)
        check_events(parts, claim.measured)
        check_divergence(parts, claim.measured)
        same = claim.measured.events == of_measurements(claim)
        _must(same, "the events of the measurements are not those of their noise")
        check_charge(claim)
        _must(claim.charged.events == of_charge(claim), "the events of the charge are not those of its parts")

    def guarantee(self) -> None:
        claim = self._given.claim
        for cost in (claim.measured, claim.charged):
            _must(fits(cost), "the events cost more than ε and δ")

    def account(self) -> None:
        entry = self._entry(self._given.evidence.account, Opened)
        assert isinstance(entry.content, Opened)
        self._opened = entry.content
        _must(entry.content.relation is self._given.claim.relation, "the account is for other neighbours")

    def tables(self) -> None:
        evidence, pinned = self._given.evidence, dict[str, dict[str, Any]]()
        for own in evidence.schemas:
            content = self._entry(own, Pinned).content
            assert isinstance(content, Pinned)
            _must(evidence.account.seq < own.seq < evidence.charge.seq, "a table was fixed after the charge")
            _must(content.table not in pinned, "a table was fixed twice")
            pinned[content.table] = content.schema
        sources = self._given.claim.sources
        used = {name.casefold() for source in sources for name in names_of(source)}
        _must(used == pinned.keys(), "the tables are not those that were measured")
        for source in sources:
            _must(is_pinned(source, pinned), "whose the rows of a table are was fixed in another way")
        for source, texts in _by_source(self._given.claim):
            if source.table is not None and source.unit is None:
                columns = dict(pinned[source.table.casefold()]["columns"])
                for text in texts:
                    _must(finds_one(text, columns), "a row could find two keys of a list")
            for text in texts:
                fails = failure(text, types_of(source, pinned))
                _must(fails is None, f"a statement could fail on some row: {fails}")

    def charge(self) -> None:
        given, claim = self._given, self._given.claim
        entry = self._entry(given.evidence.charge, Charged)
        content = entry.content
        assert isinstance(content, Charged)
        _must(entry.seq > given.evidence.account.seq, "the charge is older than its account")
        _must(content.question == given.question.identity, "the charge is for another question")
        cost = claim.charged
        _must(content.charge.events == cost.events, "other events were charged")
        guarantee = content.charge.guarantee
        _must((guarantee.epsilon, guarantee.delta) == (cost.epsilon, cost.delta), "another price was charged")
        note = content.note
        asked = note.get("sql") if given.question.name is None else _of_batch(note, given.question.name)
        _must(asked == given.question.sql, "the charge is for another text of the question")
        _must(note.get("version") == given.version, "the charge is for another version of the data")
        _must(note.get("library") == given.library, "another version of the library charged")
        _must(note.get("claim") == seal.before(claim), "the charge commits to another claim")

    def release(self) -> None:
        given, claim = self._given, self._given.claim
        entry = self._entry(given.evidence.release, Released)
        content = entry.content
        assert isinstance(content, Released)
        _must(content.question == given.question.identity, "the release is of another question")
        _must(content.charge == given.evidence.charge.seq, "another charge paid for the release")
        _must(entry.seq > given.evidence.charge.seq, "the release is older than its charge")
        if entry.seq == given.evidence.charge.seq + 1:
            _must(given.evidence.release.previous == given.evidence.charge.hash, "the chain is broken")
        seals = content.release.get(CERTIFIED)
        found = record(seals, {"claim": digest, "answers": _digests}, "the digests of the release")
        _must(found["claim"] == seal.of_claim(claim), "the release commits to another claim")
        check_stored(content.release, claim)
        if given.answer is not None:
            wanted = found["answers"].get(given.question.name or "")
            _must(wanted == seal.digest(given.answer), "the answer is not the one that was stored")
        seq, own = given.evidence.head
        _must(seq >= entry.seq, "the head is older than the release")
        _must(seq != entry.seq or own == given.evidence.release.hash, "the head is another entry's")

    def registry(self) -> None:
        given = self._given
        assert self._opened is not None
        wanted = registry(given.claim, self._opened, population=given.population, version=given.version)
        _must(canonical(given.registry) == canonical(wanted), "it does not follow")

    def ledger(self, lines: Sequence[str], published: str | None) -> None:
        evidence = self._given.evidence
        report = verify_export(lines, published)
        _must(report.ok, report.problems[0].removesuffix(".") if report.problems else "")
        links = {own.seq: own for own in links_of(lines[1:])}
        for own in (evidence.account, *evidence.schemas, evidence.charge, evidence.release):
            _must(links.get(own.seq) == own, f"entry {own.seq} is another one in the ledger, or not there")
        seq, last = evidence.head
        _must(seq in links and links[seq].hash == last, "the head of the certificate is not in the ledger")

    def _entry(self, link: Link, kind: type[Opened | Pinned | Charged | Released]) -> Entry:
        """An entry of the certificate: its hash follows, and it is of that kind and population."""
        _must(link.follows, f"the hash of entry {link.seq} is another")
        entry = link.read()
        _must(isinstance(entry.content, kind), f"entry {link.seq} is of another kind")
        _must(entry.population == self._given.population, f"entry {link.seq} is of another population")
        return entry


def _by_source(claim: Claim) -> list[tuple[Source, list[str]]]:
    """The statements over each source."""
    found = [(look.source, [look.sql]) for look in claim.looks]
    for m in claim.measurements:
        texts = [m.sql, m.truncation or "", *(own for _, own in m.distinct), *(t.sql for t in m.trees)]
        found.append((m.source, [text for text in texts if text]))
    return found


def _of_batch(note: dict[str, Any], name: str) -> Any:
    batch = note.get("batch")
    return batch.get(name) if isinstance(batch, dict) else None


def _digests(value: Any) -> dict[str, str]:
    return {name: digest(own) for name, own in value.items()}


def words(verdict: Verdict) -> Sequence[str]:
    """The verdict in lines: each step that holds, and the first that does not."""
    lines = [f"holds   {name}: {STEPS[name]}" for name in verdict.held]
    if verdict.broken is not None:
        lines.append(f"BROKEN  {verdict.broken}: {verdict.reason}")
    return lines
