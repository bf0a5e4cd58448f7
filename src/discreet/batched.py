"""The answers of a batch: from the noisy tables of its measurements, one release for each of its questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from discreet.release import NoisyTable, Release

if TYPE_CHECKING:
    from discreet.plan.batch import Batch, Place
    from discreet.privacy.guarantee import Approximate


def releases(
    batch: Batch, tables: Sequence[NoisyTable], *, charged: Approximate, stored: bool
) -> dict[str, Release]:
    """One release for each question, by its name.

    Guarantee:
        Post-processing: a release holds columns of a noisy table of the batch, which was charged as a whole.
    """
    return {
        name: Release(plan, _part(tables, batch.places[name]), charged=charged, stored=stored)
        for name, plan in batch.plans.items()
    }


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
