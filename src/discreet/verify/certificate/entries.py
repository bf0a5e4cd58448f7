"""Whether the entries of one account say what a claim needs: its opening, its tables, its charge and its release."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from discreet.ledger.entry import TOGETHER, Charged, Entry, Opened, Pinned, Released
from discreet.ledger.export import verify_export
from discreet.privacy.unit import Relation
from discreet.verify.certificate import seal
from discreet.verify.certificate.document import CertifiedQuery
from discreet.verify.certificate.evidence import CERTIFIED, ChainedEntry, Evidence, links_of
from discreet.verify.certificate.forms import digest, must, record
from discreet.verify.claim import Cost
from discreet.verify.derive import PrivateRows
from discreet.verify.failing import failure
from discreet.verify.view import check_views

Schemas = dict[str, dict[str, Any]]
"""What the ledger fixed of each table, by its name in lower case."""


def opened_under(evidence: Evidence, population: str, relation: Relation) -> Opened:
    """Return what the account was opened as; its neighbours are those of the claim."""
    content = entry_of(evidence.account, Opened, population).content
    assert isinstance(content, Opened)
    must(content.relation is relation, "the account is for other neighbours")
    return content


def tables_of(
    evidence: Evidence, population: str, sources: Sequence[PrivateRows], others: Collection[tuple[str, str]] = ()
) -> Schemas:
    """Return what the ledger fixed, before the charge, of the tables that may be read: no more and no less.

    Args:
        evidence: the account's.
        population: whose it is.
        sources: the rows that may be read.
        others: the other populations that the rows belong to as well, with the columns of their ids.
    """
    pinned: Schemas = {}
    for own in evidence.schemas:
        content = entry_of(own, Pinned, population).content
        assert isinstance(content, Pinned)
        must(evidence.account.seq < own.seq < evidence.charge.seq, "a table was fixed after the charge")
        must(content.table not in pinned, "a table was fixed twice")
        pinned[content.table] = content.schema
    used = {name.casefold() for source in sources for name in names_of(source)}
    must(used == pinned.keys(), "the tables are not those that were measured")
    for source in sources:
        must(is_pinned(source, pinned, others), "whose the rows of a table are was fixed in another way")
        views = check_views(source, [column for _, column in others])
        must(views.keys() == set(names_of(source)), "a table has no view of its source")
        must(shows(views, pinned), "a table does not show its source in the columns and types that were fixed")
    return pinned


def check_sure(source: PrivateRows, pinned: Schemas, texts: Iterable[str]) -> None:
    """No statement over these rows can fail on some of them."""
    for text in texts:
        fails = failure(text, types_of(source, pinned))
        must(fails is None, f"a statement could fail on some row: {fails}")


def charged_for(
    evidence: Evidence,
    population: str,
    question: CertifiedQuery,
    cost: Cost,
    says: Mapping[str, Any],
    together: Sequence[str] | None = None,
) -> None:
    """Check that the charge is for this query and of these events and price, and its note says this; so it commits
    to the claim before the data is read.

    Args:
        evidence: the account's.
        population: whose it is.
        question: what was asked.
        cost: what the claim has of this account.
        says: fields of the note.
        together: the populations that pay for it, where it is not this one alone.
    """
    entry = entry_of(evidence.charge, Charged, population)
    content = entry.content
    assert isinstance(content, Charged)
    must(entry.seq > evidence.account.seq, "the charge is older than its account")
    must(content.question == question.identity, "the charge is for another query")
    must(content.charge.events == cost.events, "other events were charged")
    guarantee = content.charge.guarantee
    must((guarantee.epsilon, guarantee.delta) == (cost.epsilon, cost.delta), "another price was charged")
    note = content.note
    asked = note.get("sql") if question.name is None else _of_batch(note, question.name)
    must(asked == question.sql, "the charge is for another text of the query")
    must(note.get("outer") == question.outer, "the charge is for another query over results")
    for name, wanted in says.items():
        must(note.get(name) == wanted, f"the charge {_SAYS[name]}")
    paid = None if together is None else list(together)
    must(note.get(TOGETHER) == paid, "other populations paid for it together")


_SAYS = {
    "version": "is for another version of the data",
    "library": "was made by another version of the library",
    "claim": "commits to another claim",
    "table": "is for another table",
}


def released_under(
    evidence: Evidence, population: str, question: CertifiedQuery, sealed: str, answer: Any
) -> dict[str, Any]:
    """Return what the release holds; it is of this query and charge, and commits to this claim and result."""
    entry = entry_of(evidence.release, Released, population)
    content = entry.content
    assert isinstance(content, Released)
    must(content.question == question.identity, "the release is of another query")
    must(content.charge == evidence.charge.seq, "another charge paid for the release")
    must(entry.seq > evidence.charge.seq, "the release is older than its charge")
    check_chain([evidence.charge, evidence.release])
    found = record(content.release.get(CERTIFIED), {"claim": digest, "answers": _digests}, "the digests of the release")
    must(found["claim"] == sealed, "the release commits to another claim")
    if answer is not None:
        wanted = found["answers"].get(question.name or "")
        must(wanted == seal.digest(answer), "the result is not the one that was stored")
    seq, own = evidence.head
    must(seq >= entry.seq, "the head is older than the release")
    must(seq != entry.seq or own == evidence.release.hash, "the head is another entry's")
    return content.release


def check_chain(links: Iterable[ChainedEntry]) -> None:
    """No entry stands for two, and one that is next to another follows from it."""
    ordered = sorted(links, key=lambda own: own.seq)
    for before, after in pairwise(ordered):
        must(before.seq < after.seq, "one entry stands for two")
        if before.seq + 1 == after.seq:
            must(after.previous == before.hash, "the chain is broken")


def check_ledger(
    lines: Sequence[str], published: str | None, links: Iterable[ChainedEntry], head: tuple[int, str]
) -> None:
    """Check that the ledger that was given is valid, contains the published head, these entries and this head."""
    report = verify_export(lines, published)
    must(report.ok, report.problems[0].removesuffix(".") if report.problems else "")
    known = {own.seq: own for own in links_of(lines[1:])}
    for own in links:
        must(known.get(own.seq) == own, f"entry {own.seq} is another one in the ledger, or not there")
    seq, last = head
    must(seq in known and known[seq].hash == last, "the head of the certificate is not in the ledger")


def entry_of(link: ChainedEntry, kind: type[Opened | Pinned | Charged | Released], population: str) -> Entry:
    """Return an entry of the certificate: its hash follows, and it is of that kind and population."""
    must(link.follows, f"the hash of entry {link.seq} is another")
    entry = link.read()
    must(isinstance(entry.content, kind), f"entry {link.seq} is of another kind")
    must(entry.population == population, f"entry {link.seq} is of another population")
    return entry


def _of_batch(note: dict[str, Any], name: str) -> Any:
    batch = note.get("batch")
    return batch.get(name) if isinstance(batch, dict) else None


def _digests(value: Any) -> dict[str, str]:
    return {name: digest(own) for name, own in value.items()}


def names_of(source: PrivateRows) -> tuple[str, ...]:
    """Return the tables that may be read."""
    return tuple(source.tables) if source.table is None else (source.table,)


def types_of(source: PrivateRows, pinned: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str | None]]:
    """Return the tables that may be read, each with its columns and the types as which they are read."""
    return {name: _columns(pinned[name.casefold()]) for name in names_of(source)}


def is_pinned(
    source: PrivateRows, pinned: Mapping[str, Mapping[str, Any]], others: Collection[tuple[str, str]] = ()
) -> bool:
    """Whether the rows are as the ledger has them: `pinned` has each table's schema, by its name in lower case.

    `others` are the other populations that each row belongs to as well, with the columns of their ids: no more and no
    less than the ledger has, so that a claim for one of two populations is never taken for all that was promised.
    """
    if any(_others(pinned[name.casefold()]) != set(others) for name in names_of(source)):
        return False
    if source.table is not None:
        schema = pinned[source.table.casefold()]
        return set(_columns(schema)) == source.columns and _owner(schema) == (source.unit, None, False)
    for name, table in source.tables.items():
        schema = pinned[name.casefold()]
        key = None if table.key is None else [table.key[0], table.key[1].casefold(), table.key[2]]
        if _columns(schema) != dict(table.columns) or _owner(schema) != (table.unit, key, table.public):
            return False
    return True


def _owner(schema: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    return schema["unit"], schema["reached"], schema["public"]


def shows(views: Mapping[str, Mapping[str, Any]], pinned: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether all tables show their sources in the columns and types that were fixed."""
    wanted = {name: {n: kind or "VARCHAR" for n, kind in _columns(pinned[name.casefold()]).items()} for name in views}
    return dict(views) == wanted


def _others(schema: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return the other populations of a table's rows, as accounts are named, with the columns of their ids."""
    return {(unicodedata.normalize("NFC", name), column) for name, column in schema["others"]}


def _columns(schema: Mapping[str, Any]) -> dict[str, str | None]:
    return dict(schema["columns"])
