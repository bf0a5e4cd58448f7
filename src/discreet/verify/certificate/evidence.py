"""What a ledger says of one release: the entries that opened its account, paid for it and keep it, and the head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidParameter, LedgerError
from discreet.ledger.chain import GENESIS, canonical, link, parse
from discreet.ledger.entry import Entry, Opened, Pinned, Released, from_row
from discreet.ledger.log import View
from discreet.ledger.store import Row
from discreet.verify.certificate.forms import Form, digest, fields, listed, number, record, text

if TYPE_CHECKING:
    from discreet.ledger.account import Account

CERTIFIED = "certified"
"""The field of a stored release that holds its digests; what is stored beside it is the release itself."""


@dataclass(frozen=True, slots=True)
class ChainedEntry:
    """One entry of a chain: its number, the hash before it, its body as it is hashed, and its hash."""

    seq: int
    previous: str
    body: str
    hash: str

    @property
    def follows(self) -> bool:
        """Whether the hash is that of the body after the previous hash."""
        return link(self.previous, self.body) == self.hash

    def read(self) -> Entry:
        """Return what the entry says.

        Raises:
            LedgerError: a body that this version cannot read, or of another number.
        """
        try:
            body = parse(self.body)
            key = _KEYS.get(body["kind"])
            row = Row(self.seq, body["population"], body["kind"], body[key] if key else "", self.body, self.hash)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise LedgerError(f"entry {self.seq} is not as a ledger writes it.") from None
        return from_row(row)


_KEYS = {"charge": "question", "release": "question", "schema": "table"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """The entries of one release, those that fixed the tables it was measured on, and the number and hash of the last
    entry of the chain when they were looked up.
    """

    account: ChainedEntry
    schemas: tuple[ChainedEntry, ...]
    charge: ChainedEntry
    release: ChainedEntry
    head: tuple[int, str]

    @property
    def links(self) -> tuple[ChainedEntry, ...]:
        """All its entries."""
        return self.account, *self.schemas, self.charge, self.release


def _head(value: Any) -> tuple[int, str]:
    found = record(value, {"seq": number, "hash": digest}, "the head")
    return found["seq"], found["hash"]


LINK = fields(ChainedEntry, "an entry", seq=number, previous=digest, body=text, hash=digest)
"""One entry."""

LINKS: dict[str, Form[Any]] = {**dict.fromkeys(("account", "charge", "release"), LINK), "schemas": listed(LINK)}
"""The entries of one account."""

HEAD: Form[tuple[int, str]] = Form(_head, lambda head: {"seq": head[0], "hash": head[1]})
"""The number and hash of a chain's last entry."""


def check_together(accounts: Iterable[Account]) -> None:
    """Refuses certificates to an analyst who is kept apart; before the charge where a query is asked with one.

    Raises:
        InvalidParameter: it is one.
    """
    if any(account.alone for account in accounts):
        raise InvalidParameter(
            "an analyst who is kept apart has no certificates: an entry tells what all analysts spent.",
            hint="certificates are for accounts whose analysts are together",
        )


def evidence_of(
    accounts: Sequence[Account], question: str, kept: Mapping[str, Any], tables: Iterable[str]
) -> tuple[Evidence, ...]:
    """Return the entries behind a stored release, of each of the accounts of one ledger that paid for it.

    Args:
        accounts: who paid.
        question: the identity of what was measured.
        kept: the release as it is stored, without its digests.
        tables: whose rows were measured.

    Raises:
        InvalidParameter: the ledger has no such release, or it is not to be shown to this analyst.
        LedgerError: the ledger cannot be read.
    """
    check_together(accounts)
    wanted, names = canonical(dict(kept)), sorted({name.casefold() for name in tables})

    def find(account: Account, view: View) -> Evidence | None:
        found = view.latest(account.population, Released.kind, question)
        while found is not None and isinstance(found.content, Released):
            stored = {name: part for name, part in found.content.release.items() if name != CERTIFIED}
            if canonical(stored) == wanted:
                opened = view.latest(account.population, Opened.kind, Opened.key)
                assert opened is not None  # an account has its first entry
                pins = [view.latest(account.population, Pinned.kind, name) for name in names]
                first, paid, last = (link_of(view, seq) for seq in (opened.seq, found.content.charge, found.seq))
                schemas = tuple(link_of(view, pin.seq) for pin in pins if pin is not None)
                return Evidence(first, schemas, paid, last, view.head)
            found = view.latest(account.population, Released.kind, question, before=found.seq)
        return None

    found = accounts[0].log.read(lambda view: [find(account, view) for account in accounts])
    evidence = tuple(own for own in found if own is not None)
    if len(evidence) < len(accounts):
        raise InvalidParameter(
            "the ledger does not keep this result any more, so there is nothing to certify.",
            hint="ask again with the same ledger; fresh=True draws and charges anew",
        )
    return evidence


def link_of(view: View, seq: int) -> ChainedEntry:
    """Return the entry with this number, and the hash before it."""
    rows = {row.seq: row for row in view.rows(after=max(seq - 2, 0), limit=2)}
    previous = GENESIS if seq == 1 else rows[seq - 1].hash
    return ChainedEntry(seq, previous, rows[seq].body, rows[seq].hash)


def links_of(bodies: Iterable[str]) -> Iterator[ChainedEntry]:
    """Yield the links of a chain from its beginning, given the body of each entry in order."""
    previous = GENESIS
    for seq, body in enumerate(bodies, 1):
        found = ChainedEntry(seq, previous, body, link(previous, body))
        yield found
        previous = found.hash
