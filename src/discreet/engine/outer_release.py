"""Releases of SQL over results: the rows of an outer query over the noisy tables of measured parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Never

from discreet.backends.sandbox import FAILURES, Sandbox, naming_failures, open_tables, rehearsed
from discreet.backends.source import identifier, read_as
from discreet.catalog.types import OF_CELLS, Type
from discreet.engine.outer_errors import foreseen
from discreet.engine.release import Release
from discreet.errors import InvalidParameter, UnknownColumn, UnsupportedQuery
from discreet.plan.outer import public_columns
from discreet.plan.query import confidence_level
from discreet.plan.question import numbered
from discreet.post.redraw import PAIRS, Rows, redrawn, spread
from discreet.query.ends import HIGH, LOW
from discreet.query.lineage import Follows, Traced

if TYPE_CHECKING:
    from discreet.catalog.schema import Scalar, TableSchema
    from discreet.plan.outer import OuterQuery, PartColumns
    from discreet.plan.plan import Plan
    from discreet.plan.query import Query
    from discreet.privacy.exact import Real
    from discreet.query.split import FedResult

ReadPublic = Callable[[str], Sequence[tuple[Any, ...]]]  # runs a statement over public tables


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
        found = rehearsed(outer.sql, shapes | {t.name: public_columns(t, outer.sql) for t in outer.public})
    except UnsupportedQuery as error:
        raise (outer.refused or error) from None
    return replace(plan, outer=replace(outer, columns=tuple(numbered(found)), foresee=foreseen))


def type_of_result(sql: str, parts: Mapping[str, PartColumns], public: Sequence[TableSchema]) -> Type:
    """Return the type of a result that is fed back into people's rows: of the one column of its query.

    Raises:
        UnsupportedQuery: the query cannot run, or has other columns.
    """
    shapes = {name: _types(columns) for name, columns in parts.items()}
    found = rehearsed(sql, shapes | {t.name: public_columns(t, sql) for t in public}, types=True)
    kind = read_as(found[0]) if len(found) == 1 else None
    if kind is None:
        raise UnsupportedQuery(
            "A subquery that stands for one value in people's rows shows something else than one value.",
            hint="SELECT one number, text, date or truth value in it",
        )
    return Type(kind)


def result_value(outer: OuterQuery, fed: FedResult, rows: Mapping[str, Rows], public: ReadPublic) -> Scalar:
    """Return the value of a result that is fed back into people's rows, from noisy and public tables; NULL of no row,
    of what is no finite number, and of a query that fails.
    """
    tables: dict[str, Any] = {name: (_types(outer.parts[name]), rows[name]) for name in fed.parts}
    for t in outer.public:
        if t.name in fed.public:
            tables[t.name] = _public_cells(t, fed.sql, public)
    with open_tables(tables) as sandbox:
        sandbox.check(fed.sql)
        try:
            _, found = sandbox.run(f"SELECT TRY_CAST(({fed.sql}) AS {fed.type.value})")
        except FAILURES:
            return None
    value: Scalar = found[0][0]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class OuterRelease(Release):
    """Publishable rows of SQL over results.

    Guarantee:
        The rows are a function of the noisy tables of `parts`, whose cost the ledger was charged, of public tables and
        of the text (docs/decisions/0010-sql-over-results.md).
    """

    # a release whose rows are computed by the database: it shares how a release is shown and handed on
    def __init__(self, plan: Plan, parts: Mapping[str, Release], public: ReadPublic) -> None:
        first = next(iter(parts.values()))
        self.plan, self._parts, self.name = plan, parts, first.name
        self.stored, self.paid, self.drawn, self.over_people = first.stored, first.paid, first.drawn, first.over_people
        self.table, self._original = first.table, None
        outer = plan.outer
        assert outer is not None
        self.outer: OuterQuery = outer
        self._tables: dict[str, Any] = {n: (_types(c), parts[n].codes) for n, c in outer.parts.items()}
        for t in outer.public:
            self._tables[t.name] = _public_cells(t, outer.sql, public)
        with naming_failures(), open_tables(self._tables) as sandbox:
            sandbox.check(outer.sql)
            _, self._found = sandbox.run(outer.sql)
        self._drawn_again: tuple[Rows, list[tuple[Rows, Rows]]] | None = None

    @property
    def parts(self) -> Mapping[str, Release]:
        """The release of each measured part, by its name in the plan."""
        return self._parts

    @property
    def columns(self) -> list[str]:
        """The names of the output columns."""
        return [*self.outer.columns]

    @property
    def codes(self) -> list[tuple[Any, ...]]:
        """The rows, with values in place of labels, as the outer query compares them."""
        return self._found

    def labels(self, column: str) -> dict[Scalar, str]:
        """Return the labels of a column that is a key with labels, by whatever name; where several keys are put
        together, if all have the same.
        """
        origins = self._traced.column(column).origins
        found = [self.parts[part].labels(name) for part, name in origins]
        if not found or any(other != found[0] for other in found):
            return {}
        rows_without = {"LEFT", "RIGHT", "FULL"} & set(self.outer.sql.upper().split())
        return {v: text for v, text in found[0].items() if v is not None or not rows_without}

    def origin(self, column: str) -> tuple[Query, str] | None:
        """Return the query of a part, and its column, where an output column is just that."""
        origins = self._traced.column(column).origins
        return (self.parts[origins[0][0]].query, origins[0][1]) if origins else None

    @property
    def text(self) -> str:
        """The query as it was asked."""
        return self.outer.text

    @property
    def query(self) -> Query:
        """The one query of a release, of which there is none here.

        Raises:
            InvalidParameter: always.
        """
        raise InvalidParameter(
            "this result is computed from several noisy tables.", hint="look at .parts, the release of each"
        )

    def has_interval(self, column: str) -> bool:
        """Tell whether cells of an output column have intervals."""
        self.check_column(column)
        return self.plan.has_interval(column)

    def check_column(self, name: str) -> None:
        """Check that there is such an output column.

        Raises:
            UnknownColumn: there is none.
        """
        if name not in self.outer.columns:
            raise UnknownColumn(
                f"The result has no column {name!r}.", hint=f"its columns are: {', '.join(self.columns)}"
            )

    def interval(self, column: str, confidence: Real = Fraction(19, 20)) -> list[Any]:
        """One interval for each row, as of a query's result; None where it is not known.

        A number that follows from one noisy number, rising or falling with it, has the interval that follows from that
        one's. A number that follows smoothly from several has one by drawing their noise again
        (`post/redraw.py`). Numbers in rows that noise chose, by LIMIT or HAVING, ranks and extremes have intervals
        that hold for all rows at once from which noise might have chosen, where they follow (`query/ends.py`).
        """
        level = confidence_level(confidence)
        if not self.has_interval(column):
            return [None] * len(self._found)
        place = self.outer.columns.index(column)
        if column in self.plan.banded:
            shown, found = self._at_once(self.plan.banded[column], level)
        elif self.plan.follows[column] < Follows.SUM:
            shown, found = self._from_ends(place, level)
        else:
            shown, runs = self._runs()
            widths = spread(shown, place, runs, level) if runs else [None] * len(shown)
            found = [None if w is None else (r[place] - w, r[place] + w) for r, w in zip(shown, widths, strict=True)]
        return _in_order(self._found, shown, found)

    @cached_property
    def _traced(self) -> Traced:
        return self.plan.traced

    def _from_ends(self, place: int, level: Fraction) -> tuple[Rows, list[Any]]:
        """Return rows of the outer query, and intervals of a column from those of the noisy numbers."""
        lows, highs = ({name: _ends(part, side, level) for name, part in self.parts.items()} for side in (0, 1))
        with open_tables(self._tables) as sandbox:
            shown, low, high = (self._again(sandbox, rows) for rows in ({}, lows, highs))
        if low is None or high is None or shown is None:
            return [], []
        pairs = [(a[place], b[place]) for a, b in zip(low, high, strict=True)]
        return shown, [(min(pair), max(pair)) if all(map(_is_number, pair)) else None for pair in pairs]

    def _at_once(self, place: int, level: Fraction) -> tuple[Rows, list[Any]]:
        """Return rows of the outer query, and intervals of a column that hold while all noisy numbers of the parts lie
        in theirs, at once (Bonferroni).
        """
        ended, width = self.plan.ended, len(self.columns)
        assert ended is not None
        noisy = {name: [n for n in part.columns if part.has_interval(n)] for name, part in self.parts.items()}
        numbers = sum(len(self.parts[name]) * len(columns) for name, columns in noisy.items())
        each = 1 - (1 - level) / max(numbers, 1)
        with open_tables(self._tables) as sandbox:
            for name, columns in noisy.items():
                ends = [self.parts[name].interval(n, each) for n in columns]
                shapes = [(end + n, "DOUBLE") for n in columns for end in (LOW, HIGH)]
                cells = [_end(column, side) for column in ends for side in (0, 1)]
                rows = [(*row, *(c[i] for c in cells)) for i, row in enumerate(self.parts[name].codes)]
                sandbox.fill(name, [*self._tables[name][0], *shapes], rows)
            try:
                _, found = sandbox.run(ended.sql)
            except FAILURES:
                return [], []
        pairs = [(row[place], row[place + 1]) for row in found]
        known = [p if all(map(_is_number, p)) and any(map(math.isfinite, p)) else None for p in pairs]
        return [row[:width] for row in found], known

    def _runs(self) -> tuple[Rows, list[tuple[Rows, Rows]]]:
        """Return rows of the outer query, and pairs of runs with the noise drawn again; none where one fails."""
        if self._drawn_again is None:
            tables = {name: part.table for name, part in self.parts.items()}
            pairs: list[tuple[Rows, Rows]] = []
            with open_tables(self._tables) as sandbox:
                shown = self._again(sandbox, {}) or []
                for up, down in redrawn(self.plan, tables):
                    one, other = self._again(sandbox, up), self._again(sandbox, down)
                    if one is None or other is None:
                        pairs = []
                        break
                    pairs.append((one, other))
            self._drawn_again = shown, pairs
        return self._drawn_again

    def _again(self, sandbox: Sandbox, rows: Mapping[str, Rows]) -> Rows | None:
        """Return the rows of the outer query over other noisy values; None where it fails, or has other rows."""
        for name, own in rows.items():
            columns = self._tables[name][0]
            reals = [any(isinstance(row[i], float) for row in own) for i in range(len(columns))]
            kinds = [(n, "DOUBLE" if r and k == "BIGINT" else k) for (n, k), r in zip(columns, reals, strict=True)]
            sandbox.fill(name, kinds, own)
        try:
            _, found = sandbox.run(self._traced.unordered)
        except FAILURES:
            return None
        keys = self._traced.public_cells(found)
        if not rows:
            self._keys = keys
        return found if keys is not None and keys == self._keys else None

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
        """The facts to know beside the numbers, in sentences."""
        told = [note for part in self.parts.values() for note in part.notes]
        several = [n for n, f in self.plan.follows.items() if f in (Follows.SUM, Follows.SEVERAL)]
        banded = [n for n in self.columns if n in self.plan.banded]
        rest = [n for n, f in self.plan.follows.items() if f is Follows.UNKNOWN and n not in banded]
        at_once = f"The ± of {_listed(banded)} holds at once for all rows and numbers among which noise chose."
        redraw = f"The ± of {_listed(several)} is from {2 * PAIRS} runs with the noise drawn again."
        unknown = f"No ± is known of {_listed(rest)}: noise chooses the rows, or more than sums and ratios."
        own = [*([redraw] if several else []), *([at_once] if banded else []), *([unknown] if rest else [])]
        return tuple(dict.fromkeys([*self.outer.notes, *own, *told]))

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


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _ends(part: Release, side: int, level: Fraction) -> Rows:
    """Return a part's rows with one end of its interval in place of each number."""
    ends = [part.interval(name, level) for name in part.columns]
    return [
        [value if ends[j][i] is None else ends[j][i][side] for j, value in enumerate(row)]
        for i, row in enumerate(part.codes)
    ]


def _end(intervals: Sequence[Any], side: int) -> list[float]:
    """Return one end of each interval; infinite of those that are unknown or no numbers."""
    far = (-math.inf, math.inf)
    return [(far if pair is None or not all(map(_is_number, pair)) else pair)[side] for pair in intervals]


def _is_number(value: Any) -> bool:
    """Tell whether it has a place among numbers: the square root of a lower end may have none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _in_order(shown: Rows, rows: Rows, intervals: Sequence[Any]) -> list[Any]:
    """Return the intervals of rows in the order in which these are shown; none of rows that differ in these alone."""
    found: dict[tuple[Any, ...], set[Any]] = {}
    for row, interval in zip(rows, intervals, strict=True):
        found.setdefault(tuple(map(repr, row)), set()).add(interval)
    kept = [found.get(tuple(map(repr, row)), set()) for row in shown]
    return [next(iter(k)) if len(k) == 1 else None for k in kept]


def _types(columns: Sequence[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(name, kind.value) for name, kind in columns]


def _public_cells(table: TableSchema, sql: str, public: ReadPublic) -> tuple[list[tuple[str, str]], Any]:
    columns = public_columns(table, sql)
    listed = ", ".join(identifier(n) for n, _ in columns)
    return columns, public(f"SELECT {listed} FROM main.{identifier(table.name)}")
