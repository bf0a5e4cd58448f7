"""The person table in the ledger: one segment for each charge, committed to by an entry, and all merged now and then.

A segment has the sums, after a charge, of those who paid; what is in a later one counts. Every `MERGED`th charge writes
the whole table as one segment instead and removes the others: by number, never by size, since sizes are private. The
entry `people` of a charge holds a commitment to all segments that there are after it.

Guarantee:
    The commitment hides: without the account's secret it tells nothing of the table, whatever else is known (HMAC as a
    pseudorandom function). And it binds: a table that was changed, cut short or exchanged for an older one does not
    meet the last commitment (a collision of SHA-256 else).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from discreet.errors import LedgerCorrupt
from discreet.ledger.chain import canonical
from discreet.ledger.entry import Entry, PeopleCharged, from_row
from discreet.ledger.failures import KEEP
from discreet.ledger.log import View
from discreet.ledger.people.table import PeopleTable

MERGED = 16
"""So many segments are merged into one."""

_NAME = re.compile("([0-9]{16})/([0-9]{4})")


@dataclass(frozen=True, slots=True)
class Segments:
    """Which segments there are: the names of their portions in order, each with its SHA-256 where that is known.

    Attributes:
        population: whose they are.
        sums: how many sums each person has.
        portions: name → digest.
    """

    population: str
    sums: int
    portions: Mapping[str, str]

    @property
    def numbers(self) -> list[int]:
        """The entries that wrote the segments."""
        return sorted({number(self.population, name) for name in self.portions})

    def commitment(self, secret: bytes) -> str:
        """Return the commitment to these segments, under a key of the account's secret."""
        key = hmac.digest(secret, b"discreet person table, commitment", "sha256")
        told = canonical([self.population, self.sums, [[n, self.portions[n]] for n in sorted(self.portions)]])
        return hmac.digest(key, told.encode(), "sha256").hex()

    def of(self, seq: int) -> list[str]:
        """Return the names of one segment's portions, in order."""
        return sorted(n for n in self.portions if number(self.population, n) == seq)


def name(population: str, seq: int, portion: int) -> str:
    """Return the name of a portion of the segment that entry `seq` commits to; names are ordered as their numbers."""
    return f"people/{population}/{seq:016d}/{portion:04d}"


def number(population: str, blob: str) -> int:
    """Return the entry that wrote a portion; 0 if it is no portion of this population's table."""
    start = f"people/{population}/"
    found = _NAME.fullmatch(blob[len(start) :]) if blob.startswith(start) else None
    return int(found[1]) if found else 0


def stored(view: View, population: str) -> list[str]:
    """Return the names of all portions of a population's table, in order."""
    return [blob for blob in view.blobs() if number(population, blob)]


def last_entry(view: View, population: str, newest: int) -> Entry | None:
    """Return the last `people` entry of a population, which must be the one that wrote its newest segment.

    Raises:
        LedgerCorrupt: it is another one.
    """
    rows = view.rows(after=max(newest - 1, 0), limit=2, population=population, kind=PeopleCharged.kind)
    if [row.seq for row in rows] != ([newest] if newest else []):
        raise corrupt(population)
    if not rows:
        return None
    view.entry(rows[0])  # its hash
    return from_row(rows[0])


def digest(portion: bytes) -> str:
    """Return what a commitment says of a portion."""
    return hashlib.sha256(portion).hexdigest()


def joined(tables: Sequence[PeopleTable], sums: int) -> PeopleTable:
    """Return the table that these make, in order of their numbers; the first may be large, and is read once."""
    first, *later = [t for t in tables if len(t)] or [PeopleTable.nobody(sums)]
    newer = PeopleTable.nobody(sums)
    for table in later:
        newer = newer.after(table)
    return first.after(newer)


def corrupt(population: str) -> LedgerCorrupt:
    """Return the table is not the one that the chain commits to."""
    return LedgerCorrupt(
        f"what the people of {population!r} have spent is not what the ledger's chain says: the table was changed, cut "
        "short or exchanged.",
        hint=KEEP,
    )
