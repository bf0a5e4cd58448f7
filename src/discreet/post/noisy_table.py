"""Noisy tables: what was measured, as the ledger stores it, and the rows of a result before their columns."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from discreet.errors import LedgerError
from discreet.plan.quantile_tree.tree import Families, families_json, families_of

if TYPE_CHECKING:
    from discreet.catalog.schema import Scalar
    from discreet.mechanisms.additive import Additive

FORMAT = 1
"""Version of the form in which results are stored."""


@dataclass(frozen=True, slots=True)
class NoisyTable:
    """The noisy integers of one measurement, as they are stored in the ledger.

    Attributes:
        keys: the group keys, one tuple a row; a single empty one without GROUP BY.
        cells: the noisy integers of each row, in the order of the query's measures.
        reports: the noisy counts of the truncation reports, side by side, when they were asked for.
        trees: for each tree that the query reads, and each row, the noisy nodes that were looked at.
        levels: for each level of totals that was measured as well, its noisy integers, in the order of its keys.
    """

    keys: tuple[tuple[Scalar, ...], ...]
    cells: tuple[tuple[int, ...], ...]
    reports: tuple[int, ...] = ()
    trees: tuple[tuple[Families, ...], ...] = ()
    levels: tuple[tuple[tuple[int, ...], ...], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the stored form; integers are text, since JSON readers lose digits of large ones."""
        return {
            "format": FORMAT,
            "keys": [[stored_cell(v) for v in key] for key in self.keys],
            "cells": [[str(c) for c in row] for row in self.cells],
            "reports": [str(c) for c in self.reports],
            "trees": [[families_json(f) for f in rows] for rows in self.trees],
            "levels": [[[str(c) for c in row] for row in level] for level in self.levels],
        }

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> NoisyTable:
        """Return what `to_json` wrote.

        Raises:
            LedgerError: another version of discreet wrote it.
        """
        check_format(kept)
        return cls(
            tuple(tuple(restored_cell(v) for v in key) for key in kept["keys"]),
            tuple(tuple(int(c) for c in row) for row in kept["cells"]),
            tuple(int(c) for c in kept["reports"]),
            tuple(tuple(families_of(f) for f in rows) for rows in kept["trees"]),
            tuple(tuple(tuple(int(c) for c in row) for row in level) for level in kept["levels"]),
        )


@dataclass(frozen=True, slots=True)
class NoisyRow:
    """A row of a result before its columns are computed.

    Attributes:
        keys: its group keys; where totals are shown, after them for each key 1 if it is added up and else 0.
        cells: its noisy integers and, where quantile trees are read, last their noisy trees.
        noises: the noise of each noisy integer.
        before: the cells before they were made non-negative, where they were.
    """

    keys: tuple[Scalar, ...]
    cells: tuple[Any, ...]
    noises: tuple[Additive, ...]
    before: tuple[Any, ...] | None = None


def check_format(kept: dict[str, Any]) -> None:
    """Refuse what another version of discreet stored of a query: a table, a batch, or a result in two stages.

    Raises:
        LedgerError: it did.
    """
    if kept.get("format") != FORMAT:
        raise LedgerError(
            "Another version of discreet stored this result, in another form.",
            hint="what was spent still counts; fresh=True asks again, and is charged",
        )


def stored_cell(value: Scalar) -> Any:
    """Return a value as JSON."""
    if isinstance(value, dt.datetime):
        return {"timestamp": value.isoformat()}
    if isinstance(value, dt.date):
        return {"date": value.isoformat()}
    if isinstance(value, float):
        return {"real": value.hex()}
    return value


def restored_cell(value: Any) -> Scalar:
    """Return what `stored_cell` wrote."""
    if not isinstance(value, dict):
        return value  # type: ignore[no-any-return]  # JSON's own scalars
    ((kind, text),) = value.items()
    if kind == "real":
        return float.fromhex(text)
    return dt.datetime.fromisoformat(text) if kind == "timestamp" else dt.date.fromisoformat(text)
