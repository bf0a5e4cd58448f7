"""Releases of SQL over results: the rows of an outer query over the noisy tables of measured parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Never

from discreet.backends.sandbox import naming_failures, open_tables, rehearsed
from discreet.backends.source import identifier
from discreet.catalog.types import OF_CELLS
from discreet.engine.release import Release
from discreet.errors import InvalidParameter, UnknownColumn, UnsupportedQuery

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.plan.outer import OuterQuery
    from discreet.plan.plan import Plan
    from discreet.plan.query import Query
    from discreet.privacy.exact import Real

MOST_PUBLIC = 2_000_000
"""Rows of a public table that an outer query reads."""

ReadPublic = Callable[[str], Sequence[tuple[Any, ...]]]
"""Runs a statement over public tables."""


def tried(plan: Plan) -> Plan:
    """Return the plan with the columns of its outer query, which is tried on empty tables.

    Raises:
        UnsupportedQuery: the outer query cannot run.
    """
    outer = plan.outer
    assert outer is not None
    try:
        for name, columns in outer.parts.items():
            if nested := [n for n, kind in columns if kind not in OF_CELLS]:
                raise UnsupportedQuery(
                    f"{nested[0]!r} of {name} holds several values, which no query over results reads.",
                    hint="ask for each value by itself: QUANTILE_CONT(x, 0.5)",
                )
        shapes = {name: _types(columns) for name, columns in outer.parts.items()}
        found = rehearsed(outer.sql, shapes | {t.name: _public_columns(t, outer) for t in outer.public})
        lowered = [n.lower() for n in found]
        if twins := [n for n in found if lowered.count(n.lower()) > 1]:
            raise UnsupportedQuery(f"Two output columns are called {twins[0]!r}.", hint="name them apart with AS")
    except UnsupportedQuery as error:
        raise (outer.refused or error) from None
    return replace(plan, outer=replace(outer, columns=tuple(found)))


class OuterRelease(Release):
    """Publishable rows of SQL over results.

    Guarantee:
        The rows are a function of the noisy tables of `parts`, whose cost the ledger was charged, of public tables and
        of the text (docs/decisions/0010-sql-over-results.md).

    Attributes:
        parts: the release of each measured part, by its name in the plan.
    """

    # a release whose rows are computed by the database: it shares how a release is shown and handed on
    def __init__(self, plan: Plan, parts: Mapping[str, Release], public: ReadPublic) -> None:
        first = next(iter(parts.values()))
        self.plan, self.parts, self.name = plan, parts, first.name
        self.stored, self.paid, self.drawn, self.over_people = first.stored, first.paid, first.drawn, first.over_people
        self.table, self._original = first.table, None
        outer = plan.outer
        assert outer is not None
        self.outer: OuterQuery = outer
        with naming_failures(), open_tables(self._tables(public)) as sandbox:
            sandbox.check(outer.sql)
            _, self._found = sandbox.run(outer.sql)

    def _tables(self, public: ReadPublic) -> dict[str, Any]:
        found: dict[str, Any] = {n: (_types(c), self.parts[n].codes) for n, c in self.outer.parts.items()}
        for t in self.outer.public:
            columns = _public_columns(t, self.outer)
            listed = ", ".join(identifier(n) for n, _ in columns)
            found[t.name] = columns, public(f"SELECT {listed} FROM main.{identifier(t.name)}")
        return found

    @property
    def columns(self) -> list[str]:
        """The names of the output columns."""
        return [*self.outer.columns]

    @property
    def codes(self) -> list[tuple[Any, ...]]:
        """The rows, with values in place of labels."""
        return self._found

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of the outer query; keys have their values, and not their labels."""
        return self._found

    @property
    def text(self) -> str:
        """The query as it was asked."""
        return self.outer.text

    @property
    def query(self) -> Query:
        """The one question of a release, of which there is none here.

        Raises:
            InvalidParameter: always.
        """
        raise InvalidParameter(
            "this result is computed from several noisy tables.", hint="look at .parts, the release of each"
        )

    def has_interval(self, column: str) -> bool:
        """Whether cells of an output column have intervals."""
        self.check_column(column)
        return False

    def check_column(self, name: str) -> None:
        """Check that there is such an output column.

        Raises:
            UnknownColumn: there is none.
        """
        if name not in self.outer.columns:
            raise UnknownColumn(
                f"The result has no column {name!r}.", hint=f"its columns are: {', '.join(self.columns)}"
            )

    def interval(self, column: str, confidence: Real = 0.95) -> list[Any]:
        """One interval for each row; None where it is not known."""
        self.check_column(column)
        return [None] * len(self._found)

    def nonnegative(self) -> Never:
        """Refuse: numbers of an outer query may be of any sign.

        Raises:
            InvalidParameter: always.
        """
        raise InvalidParameter(
            "nonnegative() is for results of one query.", hint="write greatest(n, 0) in the query over results"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know beside the numbers, in sentences."""
        told = [note for part in self.parts.values() for note in part.notes]
        return tuple(dict.fromkeys([*self.outer.notes, *told]))

    @property
    def truncation(self) -> tuple[Any, ...]:
        """Truncation reports, of which an outer query has none."""
        return ()

    def explain(self) -> str:
        """Return the derivation of each measured part, and the outer query."""
        return self.plan.explain()

    def citations(self) -> list[str]:
        """Return the works on which the guarantee of the parts rests."""
        return list(dict.fromkeys(work for part in self.parts.values() for work in part.citations()))

    def certificate(self) -> dict[str, Any]:
        """Return the certificate of the first measured part, as `parts` has that of each; its claim is of all together.

        It has the query over results beside it as post-processing: the text that was charged for.
        """
        return next(iter(self.parts.values())).certificate()

    def __len__(self) -> int:
        return len(self._found)


def _types(columns: Sequence[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(name, kind.value) for name, kind in columns]


def _public_columns(table: TableSchema, outer: OuterQuery) -> list[tuple[str, str]]:
    """Return the columns of a public table that the outer query may read."""
    if (table.rows or 0) > MOST_PUBLIC:
        raise UnsupportedQuery(
            f"The public table {table.name!r} has more than {MOST_PUBLIC:,} rows, too many for a query over results.",
            hint="join it inside the measured part",
        )
    text = outer.sql.lower()
    every = "*" in text or "natural" in text
    kinds = [(n, k.value) for n, k in table.columns.items() if k is not None]
    return [(n, k) for n, k in kinds if every or n.lower() in text] or kinds[:1]
