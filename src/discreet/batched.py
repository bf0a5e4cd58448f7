"""The answers of a batch: from the noisy tables of its measurements, one release for each of its questions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.certificate.paid import Paid
from discreet.privacy.guarantee import Approximate
from discreet.release import Drawn, NoisyTable, Release

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.plan.batch import Batch, Place


def releases(
    account: Account,
    batch: Batch,
    tables: Sequence[NoisyTable],
    drawn: Drawn,
    charged: Approximate | None = None,
) -> dict[str, Release]:
    """One release for each question, by its name; without `charged`, of a batch that the ledger had.

    Guarantee:
        Post-processing: a release holds columns of a noisy table of the batch, which was charged as a whole.
    """
    found = {}
    for name, plan in batch.plans.items():
        paid = Paid(account, batch.identity, name, lambda: stored(tables), lambda: batch.claim)
        part, free = _part(tables, batch.places[name]), charged is None
        price = charged or Approximate(Fraction(0))
        found[name] = Release(plan, part, charged=price, stored=free, paid=paid, drawn=drawn)
    return found


def stored(tables: Sequence[NoisyTable]) -> dict[str, Any]:
    """What the ledger keeps of a batch: a single measurement is kept as that of a question is."""
    if len(tables) == 1:
        return tables[0].to_json()
    return {"format": 1, "tables": [t.to_json() for t in tables]}


def restored(kept: dict[str, Any]) -> list[NoisyTable]:
    """What `stored` wrote."""
    return [NoisyTable.from_json(t) for t in kept.get("tables", [kept])]


def _part(tables: Sequence[NoisyTable], place: Place) -> NoisyTable:
    """A question's own columns of the measurement that it is answered from."""
    table = tables[place.measurement]
    cells = tuple(tuple(row[i] for i in place.columns) for row in table.cells)
    spreads = tuple(table.spreads[i] for i in place.spreads)
    levels = tuple(tuple(tuple(row[i] for i in place.columns) for row in level) for level in table.levels)
    return NoisyTable(table.keys, cells, (), spreads, levels)
