"""What leaves: a noisy table with intervals, its cost, and its derivation. Everything here is post-processing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

from discreet.engine import frames
from discreet.engine.recipe import Drawn
from discreet.errors import InvalidParameter
from discreet.post.evaluate import evaluate
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import Approximate

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss
    from discreet.catalog.schema import Scalar
    from discreet.engine.payers import Paid
    from discreet.plan.plan import Plan
    from discreet.plan.query import Query
    from discreet.post.noisy_table import NoisyTable
    from discreet.post.truncation import Reported

SHOWN_ROWS = 60  # rows that a printed release shows; `rows` has all

MARKED = "* The margin of error is at least as large as the value."
"""What a printed release says where a value is marked."""

AGAIN = "It was {drawn}; fresh=True draws again and is charged, a new version= label asks for new data."
"""What a release from the ledger says of itself."""

OVER_PEOPLE = (
    "Each person has a budget of their own here. People whose budget is used up are left out of later results: values "
    "and intervals are over the others."
)
"""What every release says where people have budgets of their own, whether anybody was left out or not."""


class Release:
    """Publishable rows with intervals.

    Guarantee:
        The rows, intervals, notes and explanation are functions of a noisy table whose cost the ledger was
        charged before the
        data was read, and of public facts.
    """

    def __init__(
        self,
        plan: Plan,
        table: NoisyTable,
        *,
        name: str | None = None,
        stored: bool = False,
        paid: Paid | None = None,
        original: Release | None = None,
        drawn: Drawn | None = None,
    ) -> None:
        self.plan = plan
        self.table = table
        self.name = next(iter(plan.outputs)) if name is None else name
        self.stored = stored
        self.paid = paid
        self.over_people = paid is not None and any(a.people is not None for a in paid.accounts)
        self.drawn = drawn
        self._original = original
        self._rows = evaluate(self.query, table, nonnegative=original is not None)

    @property
    def query(self) -> Query:
        """The query as planned, with the noise of its numbers."""
        return self.plan.outputs[self.name].query

    @property
    def parts(self) -> Mapping[str, Release]:
        """The release of each measured part: of SQL over results several, else this one alone."""
        return {self.name: self}

    @property
    def charges(self) -> dict[str, Approximate]:
        """What each population was charged for this asking: nothing where the ledger had the result."""
        free = Approximate(Fraction(0))
        return {p.population: free if self.stored else p.guarantee for p in self.plan.payers}

    @property
    def charged(self) -> Approximate:
        """What this asking was charged: nothing where the ledger had the result.

        Raises:
            InvalidParameter: two populations paid for it, each something else.
        """
        return Approximate(Fraction(0)) if self.stored else self.plan.charge.guarantee

    def nonnegative(self) -> Release:
        """Return this release with numbers that cannot be negative, such as counts, made so: post-processing, free.

        A noisy count below 0 becomes 0. Where totals are shown (ROLLUP, CUBE), they keep their values, unless below 0
        themselves, and their parts are the non-negative numbers nearest to the noisy ones that add up to them.
        HAVING, ORDER BY and whatever is computed from such numbers follow them. A single number comes nearer to the
        truth so; sums over many small groups that are not shown as totals become too large on average, since noise is
        then cut off on one side only: take them from the release itself.

        Guarantee:
            A function of the release alone. Intervals still contain the bounded result with their confidence: they
            are those of the release, without what is impossible, and with the new value (docs/proofs/totals.md).
        """
        if self._original is not None:
            return self
        return Release(
            self.plan, self.table, name=self.name, stored=self.stored, paid=self.paid, original=self, drawn=self.drawn
        )

    @property
    def columns(self) -> list[str]:
        """The names of the output columns."""
        return self.query.columns

    @property
    def text(self) -> str:
        """The query as it was asked, in DuckDB's dialect."""
        return self.query.question.text

    def has_interval(self, column: str) -> bool:
        """Tell whether cells of an output column have intervals."""
        return self.query.has_interval(column)

    def check_column(self, name: str) -> None:
        """Check that there is such an output column.

        Raises:
            UnknownColumn: there is none.
        """
        self.query.column(name)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows: noisy values, group keys (by the labels of their values, where the owner gave some), and what the
        query makes of them.
        """
        labels = [self.labels(name) for name in self.columns]
        if not any(labels):
            return self.codes
        return [tuple(l.get(v, v) if l else v for l, v in zip(labels, row, strict=True)) for row in self.codes]

    def labels(self, column: str) -> dict[Scalar, str]:
        """Return the labels that the owner gave the values of an output column; none where it is no such key."""
        return self.query.labels(column)

    def origin(self, column: str) -> tuple[Query, str] | None:
        """Return the query that has measured an output column, and its name there."""
        return self.query, column

    @property
    def codes(self) -> list[tuple[Any, ...]]:
        """The rows with values in place of labels, as a certificate has them."""
        return [values for _, values in self._rows]

    @property
    def cost(self) -> PrivacyLoss:
        """What the measurement behind this release cost when it was drawn.

        Raises:
            InvalidParameter: two populations paid for it, each something else.
        """
        return self.plan.cost

    @property
    def costs(self) -> dict[str, PrivacyLoss]:
        """What the measurement behind this release cost each population when it was drawn."""
        return self.plan.costs

    def interval(self, column: str, confidence: Real = Fraction(19, 20)) -> list[Any]:
        """One interval for each row, which contains the bounded result with probability `confidence`.

        The bounded result is what would have been returned without noise, caps and bounds applied; what truncation
        removed is not in it (ask for `truncation=` to see how much that may be). An interval is a pair: of numbers, of
        dates for a date, of times for a time. For a list it is a list of them, one for each value; for a map a dict of
        them, by its keys; each with that probability. None for what is neither a number nor a date.

        Raises:
            UnknownColumn: no such output column.
            InvalidParameter: a confidence outside (0, 1).
        """
        from discreet.plan.query import confidence_level
        from discreet.post.evaluate import interval_of

        if self.query.is_end(column):
            return [None] * len(self._rows)
        of_row = interval_of(self.query, self.query.column(column), confidence_level(confidence))
        return [of_row(row) for row, _ in self._rows]

    @property
    def notes(self) -> tuple[str, ...]:
        """The facts to know beside the numbers, in sentences: what the plan leaves out (`Plan.notes`), and what
        was bought or chosen with it.
        """
        from discreet.post.truncation import report_notes

        raised = ["Numbers that cannot be negative are not shown below 0."] if self._original is not None else []
        people = [OVER_PEOPLE] if self.over_people else []
        reports = report_notes(self.query, self.truncation, self._noisy_rows)
        chosen = () if self.query.chosen is None else self.query.chosen.sentences
        return (*chosen, *self.plan.notes_of(self.name), *reports, *raised, *people)

    def _noisy_rows(self, column: str) -> list[tuple[Any, Any, Any]]:
        """For each row its noisy integers, their noises, and the interval of a column."""
        pairs = zip(self._rows, self.interval(column), strict=True)
        return [(row.before or row.cells, row.noises, interval) for (row, _), interval in pairs]

    @property
    def truncation(self) -> tuple[Reported, ...]:
        """What the truncation reports say, where they were asked for (`truncation=`): shares with intervals."""
        from discreet.post.truncation import reported

        return reported(self.query, self.table.reports)

    def uncertain(self, column: str, confidence: Real = Fraction(19, 20)) -> list[bool]:
        """Whether the margin of error of a column is at least as large as its value, row by row.

        Of a list or map, whether that of one of its values is.
        """
        from discreet.table import uncertain

        place = self.columns.index(column) if column in self.columns else 0
        pairs = zip(self.rows, self.interval(column, confidence), strict=True)
        return [uncertain(row[place], interval) for row, interval in pairs]

    def explain(self) -> str:
        """Return the derivation in the textbook's terms, with the numbers of this release."""
        return self.plan.explain(self.name)

    def citations(self) -> list[str]:
        """Return the works on which this release's guarantee rests."""
        return self.plan.citations(self.name)

    def certificate(self) -> dict[str, Any]:
        """Return the proof of this release, as JSON that `discreet verify` checks without the data: the query, the
        SQL that ran and why it bounds each unit, the noise, what it costs, the ledger's entries, and the rows.

        Guarantee:
            It holds public facts only: what this release shows, entries of the ledger that its head commits to, and
            texts in which `$secret` stands for the account's key (docs/proofs/certificates.md).

        Raises:
            InvalidParameter: the release was not made by a session, or the ledger does not keep it as it is.
            LedgerError: the ledger cannot be read.
        """
        if self.paid is None:
            raise InvalidParameter(
                "only a release of a session has a certificate: a ledger vouches for it.",
                hint="ask with session.sql(…) or session.batch(…)",
            )
        shown = self if self._original is None else self._original
        return self.paid.certificate(self.name, shown.columns, shown.codes)

    def __len__(self) -> int:
        return len(self._rows)

    def __bool__(self) -> bool:
        return True  # a result without rows is a result

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    @overload
    def __getitem__(self, place: int) -> tuple[Any, ...]: ...
    @overload
    def __getitem__(self, place: str | slice) -> list[Any]: ...
    def __getitem__(self, place: int | slice | str) -> Any:
        """Return a row by its place, several by a slice, or a column as a list by its name.

        Raises:
            UnknownColumn: no such output column.
            IndexError: no such row.
        """
        if not isinstance(place, str):
            return self.rows[place]
        self.check_column(place)
        return [row[self.columns.index(place)] for row in self.rows]

    @property
    def value(self) -> Any:
        """The one value of a result with one row and one column.

        Raises:
            InvalidParameter: it has more or fewer cells.
        """
        if (len(self), len(self.columns)) == (1, 1):
            return self.rows[0][0]
        raise InvalidParameter(
            f"value needs a result of one row and one column; this one has {len(self)} rows and {len(self.columns)} "
            "columns.",
            hint=f"release[0] is a row, release[{self.columns[0]!r}] a column",
        )

    def to_dict(
        self, *, intervals: bool = True, labels: bool = True, confidence: Real = Fraction(19, 20)
    ) -> dict[str, list[Any]]:
        """Return the columns as lists, by their names; `n_low` and `n_high`, the ends of the intervals, follow each
        noisy column `n`, unless the query has them itself.

        Args:
            intervals: whether the ends are there. The planner refuses other columns of these names.
            labels: whether keys have the labels that the owner gave their values, rather than the values.
            confidence: of the intervals.
        """
        found: dict[str, list[Any]] = {}
        there = {name.lower() for name in self.columns}
        rows = self.rows if labels else self.codes
        for i, name in enumerate(self.columns):
            found[name] = [row[i] for row in rows]
            if intervals and self.has_interval(name):
                ends = self.interval(name, confidence)
                names = (f"{name}_low", f"{name}_high")
                found |= {
                    end: [frames.side(interval, place) for interval in ends]
                    for place, end in enumerate(names)
                    if end.lower() not in there
                }
        return found

    def to_json(self, *, intervals: bool = True, labels: bool = True) -> str:
        """Return the rows as a JSON list of objects, with the columns of `to_dict`."""
        return frames.to_json(self.to_dict(intervals=intervals, labels=labels))

    def to_arrow(self, *, intervals: bool = True, labels: bool = True) -> Any:
        """Return the columns of `to_dict` as a pyarrow table, in which lists and maps have Arrow's types of these
        names.
        """
        return frames.to_arrow(self.to_dict(intervals=intervals, labels=labels))

    def to_polars(self, *, intervals: bool = True, labels: bool = True) -> Any:
        """Return the columns of `to_dict` as a polars frame; a map is a list of structs of `key` and `value`, as DuckDB
        gives it.
        """
        return frames.to_polars(self.to_dict(intervals=intervals, labels=labels))

    def to_pandas(self, *, intervals: bool = True, labels: bool = True) -> Any:
        """Return the columns of `to_dict` as a pandas frame; lists and maps are Python's lists and dicts.

        Its `attrs` hold the notes, when it was `drawn` and, as `uncertain`, for each column in which a margin of error
        is at least as large as the value, in which rows.
        """
        frame = frames.to_pandas(self.to_dict(intervals=intervals, labels=labels))
        uncertain = {n: flags for n in self.columns if any(flags := self.uncertain(n))}
        drawn = None if self.drawn is None else str(self.drawn)
        frame.attrs |= {"notes": list(self.notes), "drawn": drawn, "uncertain": uncertain}
        return frame

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the table of `to_arrow` as a stream, which polars, pandas, DuckDB and others read."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy or a pickle holds: public facts and noisy numbers, without the ledger's account.

        So a copy shows the same, and has no certificate.
        """
        return {**vars(self), "paid": None}

    def __str__(self) -> str:
        from discreet.table import render

        columns, rows = self._shown()
        return "\n".join([render(columns, rows), *self._more(), *self._below(rows)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        from discreet.table import render_html, visible

        columns, rows = self._shown()
        left = [] if self.paid is None else [f"Remaining: {words}" for words in self.paid.remaining]
        below = "<br>".join(escape(visible(line)) for line in [*self._more(), *self._below(rows), *left])
        asked = escape("\n".join(map(visible, self.text.split("\n"))))
        table = render_html(columns, rows, faded=self._mostly_noise())
        return f"{table}<p>{below}</p><details><summary>Query</summary><pre>{asked}</pre></details>"

    def _mostly_noise(self) -> list[bool]:
        """Whether the margin of error is at least as large as the value in most noisy cells of each printed row."""
        flags = [self.uncertain(name)[:SHOWN_ROWS] for name in self.columns if self.has_interval(name)]
        return [2 * sum(of_row) > len(of_row) for of_row in zip(*flags, strict=True)] or [False] * len(self._shown()[1])

    def _more(self) -> list[str]:
        more = len(self) - SHOWN_ROWS
        return [f"… {more} more rows in .rows"] if more > 0 else []

    def _below(self, shown: Sequence[Sequence[str | None]]) -> list[str]:
        """Return the lines below the printed table."""
        marked = any(any(self.uncertain(name)[:SHOWN_ROWS]) for name in self.columns)
        stored = [AGAIN.format(drawn=self.drawn)] if self.stored and self.drawn is not None else []
        return [self._footer(shown), *([MARKED] if marked else []), *stored, *self.notes]

    def _footer(self, shown: Sequence[Sequence[str | None]]) -> str:
        price = self.plan.price
        paid = f"answered again from the ledger, free (it cost {price})" if self.stored else f"charged {price}"
        uneven = any(" +" in cell and " −" in cell for row in shown for cell in row if cell is not None)
        sides = ", + and − are its sides where they differ" if uneven else ""
        return f"± is a 95 % interval{sides}; {paid}"

    def _shown(self) -> tuple[list[str], list[list[str | None]]]:
        """Return the columns and cells of the printed table, each uncertain number with its ±."""
        from discreet.table import measured

        intervals = [self.interval(name)[:SHOWN_ROWS] for name in self.columns]
        shown = self.rows[:SHOWN_ROWS]
        cells = [[measured(v, intervals[j][i]) for j, v in enumerate(values)] for i, values in enumerate(shown)]
        return self.columns, cells
