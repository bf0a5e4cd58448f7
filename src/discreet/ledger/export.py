"""A ledger's public entries as lines of JSON, which a stranger can verify without the ledger.

The first line says what the file is, how many entries follow and to which head they lead. Each further line is the
canonical body of one entry, byte for byte as it was hashed: whoever reads them can follow the chain with SHA-256 alone.
States, secret keys and the person table are not in it; `people` entries commit to the table without telling it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from discreet.errors import DiscreetError, LedgerCorrupt, LedgerError
from discreet.ledger import forms
from discreet.ledger.chain import GENESIS, canonical, link, parse
from discreet.ledger.entry import KINDS
from discreet.ledger.failures import ANOTHER
from discreet.ledger.store import Row, Store, rows_up_to
from discreet.ledger.verify import LedgerReport, verify_rows

FORMAT = 1
"""The version of the export's form; the entries have the ledger's own."""

_WHAT = "ledger export"


def export_lines(store: Store) -> Iterator[str]:
    """Yield the lines of an export, without their ends: the ledger as it was when the first line was asked for."""
    last = store.read(lambda now: now.last())
    end, head = (0, GENESIS) if last is None else (last.seq, last.hash)
    yield canonical({"discreet": _WHAT, "format": FORMAT, "entries": end, "head": head})
    for row in rows_up_to(store, end):
        yield row.body


def is_export(text: str) -> bool:
    """Whether this first line of a file says that it is an export, of whatever format."""
    try:
        return bool(forms.object_of(json.loads(text)).get("discreet") == _WHAT)
    except (ValueError, TypeError, RecursionError):
        return False


def verify_export(lines: Iterable[str], head: str | None = None) -> LedgerReport:
    """Whether an export is what it must be, derived anew, and contains a head that was published earlier.

    Raises:
        LedgerError: not an export, or one that another version wrote.
    """
    rest = iter(lines)
    first = next(rest, "").rstrip("\n")
    if not is_export(first):
        raise LedgerError("this is no export of a ledger.", hint="`discreet ledger export LEDGER > FILE` writes one")
    entries, last = _header(first)
    report = verify_rows(_rows(line.rstrip("\n") for line in rest), head)
    if (report.entries, report.head) == (entries, last):
        return report
    problem = (
        f"the export begins by saying that {entries} entries lead to the head {last}, and {report.entries} lead to "
        f"{report.head}: it was cut or changed."
    )
    return replace(report, problems=(*report.problems, problem))


def _header(text: str) -> tuple[int, str]:
    try:
        value = parse(text)
        if forms.number(value["format"]) != FORMAT:
            raise LedgerError(
                f"the export has format {value['format']}, and this version of discreet knows format {FORMAT}.",
                hint=ANOTHER,
            )
        return forms.number(value["entries"]), forms.digest(value["head"])
    except (ValueError, KeyError, TypeError):
        raise LedgerCorrupt("the first line of the export is damaged.") from None


def _rows(bodies: Iterable[str]) -> Iterator[Row]:
    """Yield the rows that the bodies were stored as; what cannot be read is found out where the row is replayed."""
    head = GENESIS
    for number, body in enumerate(bodies, 1):
        head = link(head, body)
        yield _row(number, body, head)


def _row(number: int, body: str, head: str) -> Row:
    try:
        fields = forms.object_of(parse(body))
        seq, population, kind = forms.number(fields["seq"]), fields["population"], fields["kind"]
        return Row(seq, population, kind, KINDS[kind].from_json(fields).key, body, head)
    except (DiscreetError, ValueError, KeyError, AttributeError, TypeError, ArithmeticError, RecursionError):
        return Row(number, "", "", "", body, head)
