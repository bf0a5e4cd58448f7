"""The outer query of SQL over results: what is made of the noisy tables of measured parts. A value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from discreet.catalog.schema import TableSchema
from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery


@dataclass(frozen=True, slots=True)
class OuterQuery:
    """A query over the noisy tables of a plan's parts, and public tables: post-processing.

    Attributes:
        text: the query as it was asked, in DuckDB's dialect.
        sql: the outer query over noisy and public tables.
        parts: the columns of each noisy table, by its name, which is that of the part among the plan's outputs.
        public: the public tables that it reads.
        columns: the names of its output columns; empty until it was tried on empty tables.
        over_groups: whether it has aggregates over parts with declared keys, and over parts with selected ones.
        refused: what is said where it cannot run, as the text was refused as a query of its own before it was split.
    """

    text: str
    sql: str
    parts: Mapping[str, Sequence[tuple[str, Type | None]]]
    public: tuple[TableSchema, ...] = ()
    columns: tuple[str, ...] = ()
    refused: UnsupportedQuery | None = None
    over_groups: tuple[bool, bool] = (False, False)
    said: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know of its numbers, in sentences."""
        measured = "1 measured part" if len(self.parts) == 1 else f"{len(self.parts)} measured parts"
        declared, selected = self.over_groups
        empty = ["Aggregates over groups of declared keys are over those without rows, too."] if declared else []
        hidden = (
            ["Aggregates over groups of selected keys leave out the hidden ones, which are small."] if selected else []
        )
        said = f"The result is computed from the noisy tables of {measured}, which are what was paid for."
        return (*self.said, said, *empty, *hidden)
