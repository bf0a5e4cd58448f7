"""A ledger elsewhere: its public entries as lines of JSON, which a stranger can verify without it, and its move to
another store, whose end here is durable before anything begins there.

Of an export the first line says what the file is, how many entries follow and to which head they lead. Each further
line is the canonical body of one entry, byte for byte as it was hashed: whoever reads them can follow the chain with
SHA-256 alone.
States, secret keys and the person table are not in it; `people` entries commit to the table without telling it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace

from discreet.errors import DiscreetError, LedgerCorrupt, LedgerError
from discreet.ledger import forms, names
from discreet.ledger.chain import GENESIS, canonical, link, parse
from discreet.ledger.entry import KINDS, Moved, Opened
from discreet.ledger.failures import ANOTHER
from discreet.ledger.forms import ARRIVED, MARK, MARKED, MOVED, moved_text, read_moved
from discreet.ledger.log import HEAD, NO_END, Log, View
from discreet.ledger.store import Row, Store, Transaction, rows_up_to
from discreet.ledger.verify import LedgerReport, verify_rows

FORMAT = 1  # the version of the export's form; the entries have the ledger's own
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


def transfer(old: Log, new: Store, *, by: str, reason: str) -> None:
    """End every account here and copy the ledger's chain, states and blobs into an empty store.

    The order decides. If the copy came first, a crash between the two would leave two ledgers that both take charges,
    and every budget could be spent twice. So all accounts end here first, with entries that name the other store and
    the head up to which its copy goes; then everything is copied in one transaction. A crash between leaves a ledger
    that takes no charge anywhere, and the same call again goes on where it stopped. There is one copy at most, also
    where the first was taken away and something else stands in its place: before anything ends here the empty store
    gets a mark, drawn at random, and what ends here names it. No other store has that mark.

    Raises:
        LedgerError: nothing to move, the other store is not empty, or the ledger has moved to a third one, or has had
            its copy there.
    """
    signed, mark = (names.words("by", by), names.words("reason", reason)), ""
    if old.read(_unmoved):
        mark = new.write(lambda now: _marked(now, new.place))

    def end(view: View) -> tuple[str, int, str]:
        if (text := view.get(MOVED)) is not None:
            return read_moved(text)
        seq, head = view.head
        for row in view.rows(after=0, limit=NO_END, kind=Opened.kind):
            view.append(row.population, Moved(new.place, head, *signed))
        view.put(MOVED, moved_text(new.place, seq, head))
        view.put(MARKED, mark)
        return new.place, seq, head

    to, seq, head = old.write(end)
    if to != new.place:
        raise LedgerError(f"the ledger {old.store.place} has moved to another place.", hint=f"open it in {to}")
    new.write(lambda copy: _copy(old.store, copy, new.place, seq, head))
    old.write(lambda view: view.put(ARRIVED, moved_text(to, seq, head)))


def _unmoved(view: View) -> bool:
    """Whether a ledger has not moved; one without accounts never does, and marks no store."""
    if not view.rows(after=0, limit=1, kind=Opened.kind):
        raise LedgerError("there is no account in this ledger that could be moved.")
    return view.get(MOVED) is None


def _copy(old: Store, copy: Transaction, place: str, end: int, head: str) -> None:
    if (there := copy.row(end)) is not None and there.hash == head:
        return  # an earlier call has copied it
    arrived, mark = old.read(lambda now: (now.get(ARRIVED), now.get(MARKED)))
    if arrived is not None or (mark is not None and copy.get(MARK) != mark):
        raise LedgerError(
            f"the ledger {old.place} has moved to {place}, and what is there now is not that ledger.",
            hint="find the one that it went on in: a second copy would spend every budget twice",
        )
    _refuse_full(copy, place)
    for row in rows_up_to(old, end):
        copy.append(row)
    states = old.read(lambda now: {name: now.get(name) or "" for name in now.names()})
    for name, value in states.items():
        if name not in (HEAD, MOVED, ARRIVED, MARK, MARKED):
            copy.put(name, value)
    copy.put(HEAD, f"{end} {head}")
    for name in old.read(lambda now: now.blobs()):
        copy.put_blob(name, _blob(old, name))


def _blob(old: Store, name: str) -> bytes | None:
    return old.read(lambda now: now.blob(name))


def _marked(now: Transaction, place: str) -> str:
    """Return the mark of an empty store. One that it has is kept: a ledger may have named it already."""
    _refuse_full(now, place)
    mark = now.get(MARK)
    if mark is None:
        mark = os.urandom(16).hex()
        now.put(MARK, mark)
    return mark


def _refuse_full(now: Transaction, place: str) -> None:
    if now.last() is not None or set(now.names()) - {MARK} or now.blobs():
        raise LedgerError(f"the ledger {place} is not empty.", hint="move into a new one")
