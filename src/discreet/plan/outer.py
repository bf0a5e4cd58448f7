"""The outer query of SQL over results: what is made of the noisy tables of measured parts. A value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from discreet.catalog.schema import TableSchema
from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery

if TYPE_CHECKING:
    from discreet.catalog.schema import Scalar
    from discreet.query.split import FedResult

PartColumns: TypeAlias = "Sequence[tuple[str, Type | None]]"
"""The columns of a part's noisy table."""


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
        fed: the results that parts read as a value: each is computed from its own parts, which are measured first.
        values: the values of these; empty until they were measured.
    """

    text: str
    sql: str
    parts: Mapping[str, PartColumns]
    public: tuple[TableSchema, ...] = ()
    columns: tuple[str, ...] = ()
    refused: UnsupportedQuery | None = None
    over_groups: tuple[bool, bool] = (False, False)
    said: tuple[str, ...] = ()
    fed: tuple[FedResult, ...] = ()
    values: tuple[Scalar, ...] = ()

    @property
    def results(self) -> list[str]:
        """The results that parts read, in lines: how each is computed and, once it was measured, its value."""
        told = {f.name: f" = {_shown(v)}" for f, v in zip(self.fed, self.values, strict=False)}
        return [f"${f.name}{told.get(f.name, '')}, read by what is measured after it: {f.sql}" for f in self.fed]

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
        fed = ["What reads a result is measured for its noisy value, and its ± is of that query."] if self.fed else []
        return (*self.said, said, *fed, *self.results, *empty, *hidden)


def _shown(value: Scalar) -> str:
    return "NULL" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
