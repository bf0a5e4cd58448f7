"""The outer query of SQL over results: what is made of the noisy tables of measured parts. A value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from discreet.catalog.schema import TableSchema
from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.query.ends import EndedQuery, EndKind, with_ends
from discreet.query.lineage import Follows, Traced, TracedColumn, traced

if TYPE_CHECKING:
    from discreet.catalog.schema import Scalar
    from discreet.plan.query import Query
    from discreet.privacy.exact import Real
    from discreet.query.split import FedResult

PartColumns: TypeAlias = "Sequence[tuple[str, Type | None]]"
"""The columns of a part's noisy table."""


class Foreseen(Protocol):
    """Errors of a result's columns before the data, at public guesses (`plan/assumed.py`)."""

    @property
    def sizes(self) -> Mapping[str, Fraction]: ...
    def error(self, column: str, confidence: Fraction) -> float: ...
    def value(self, column: str) -> Fraction: ...


Foresee: TypeAlias = "Callable[[Any, Mapping[str, Real] | None], Foreseen]"

MOST_PUBLIC = 2_000_000
"""Rows of a public table that an outer query reads."""


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
        foresee: finds the errors of its columns before the data, of a plan and guesses; None until it was tried.
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
    foresee: Foresee | None = field(default=None, repr=False, compare=False)

    def traced(self, queries: Mapping[str, Query]) -> Traced:
        """Return how its columns follow from those of the parts' queries, as far as that is known."""
        tables = {name: [_traced_column(name, queries[name], n) for n, _ in self.parts[name]] for name in self.parts}
        for t in self.public:
            tables[t.name] = [TracedColumn(n, Follows.PUBLIC) for n, _ in public_columns(t, self.sql)]
        found = traced(self.sql, tables)
        if found is None or len(found.lineage.columns) != len(self.columns):
            return Traced.unknown(self.sql, self.columns)
        return replace(found, lineage=found.lineage.called(self.columns))

    def ended(self, queries: Mapping[str, Query]) -> EndedQuery | None:
        """Return its text with the ends of its numbers, from those of the parts' numbers; None where none are known."""
        tables: dict[str, Sequence[tuple[str, EndKind]]] = {
            part: [(n, _kind(queries[part], n)) for n, _ in columns] for part, columns in self.parts.items()
        }
        tables |= {t.name: [(n, EndKind.PUBLIC) for n, _ in public_columns(t, self.sql)] for t in self.public}
        found = with_ends(self.sql, tables)
        return found if found is None or max(found.places, default=0) < len(self.columns) else None

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


def public_columns(table: TableSchema, sql: str) -> list[tuple[str, str]]:
    """Return the columns of a public table that the outer query may read."""
    if (table.rows or 0) > MOST_PUBLIC:
        raise UnsupportedQuery(
            f"The public table {table.name!r} has more than {MOST_PUBLIC:,} rows, too many for a query over results.",
            hint="join it inside the measured part",
        )
    text = sql.lower()
    every = "*" in text or "natural" in text
    kinds = [(n, k.value) for n, k in table.columns.items() if k is not None]
    return [(n, k) for n, k in kinds if every or n.lower() in text] or kinds[:1]


def _kind(query: Query, name: str) -> EndKind:
    """Return what a column of a part is: a noisy number with an interval has ends."""
    node = query.column(name)
    number = query.has_interval(name) and node.type is not None and node.type.is_number
    return EndKind.PUBLIC if node.key is not None else EndKind.ENDED if number else EndKind.UNKNOWN


def _traced_column(part: str, query: Query, name: str) -> TracedColumn:
    """Return how a column of a part follows from noise: each number with an interval is a noisy one by itself."""
    node = query.column(name)
    noisy = Follows.LINEAR if node.affine() is not None else Follows.ONE
    follows = noisy if query.has_interval(name) else Follows.UNKNOWN
    return TracedColumn(name, Follows.PUBLIC if node.key is not None else follows, ((part, name),))


def _shown(value: Scalar) -> str:
    return "NULL" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
