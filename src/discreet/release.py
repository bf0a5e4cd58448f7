"""What leaves: a noisy table with intervals, its cost, and its derivation. Everything here is post-processing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from discreet.errors import MissingExtra
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import Approximate, words

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss
    from discreet.plan.plan import Plan
    from discreet.plan.question import OrderBy
    from discreet.plan.schema import Scalar

SHOWN_ROWS = 60
"""Rows that a printed release shows; `rows` has all."""


@dataclass(frozen=True, slots=True)
class NoisyTable:
    """The noisy integers of one measurement, as they are stored in the ledger.

    Attributes:
        keys: the group keys, one tuple a row; a single empty one without GROUP BY.
        cells: the noisy integers of each row, in the order of the question's measures.
        reports: the noisy numbers of units above `max_groups` and above `max_rows`, when they were asked for.
    """

    keys: tuple[tuple[Scalar, ...], ...]
    cells: tuple[tuple[int, ...], ...]
    reports: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The stored form; integers are text, since JSON readers lose digits of large ones."""
        return {
            "format": 1,
            "keys": [[_stored(v) for v in key] for key in self.keys],
            "cells": [[str(c) for c in row] for row in self.cells],
            "reports": [str(c) for c in self.reports],
        }

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> NoisyTable:
        """What `to_json` wrote."""
        return cls(
            tuple(tuple(_restored(v) for v in key) for key in kept["keys"]),
            tuple(tuple(int(c) for c in row) for row in kept["cells"]),
            tuple(int(c) for c in kept["reports"]),
        )


class Release:
    """Publishable rows with intervals.

    Guarantee:
        The rows, intervals, notes and explanation are functions of a noisy table whose cost the ledger was
        charged before the
        data was read, and of public facts.
    """

    def __init__(self, plan: Plan, table: NoisyTable, *, charged: Approximate, stored: bool) -> None:
        self.plan = plan
        self.table = table
        self.charged = charged
        self.stored = stored
        self._selected = _selected(plan, table)

    @property
    def columns(self) -> list[str]:
        """The names of the output columns."""
        return self.plan.columns

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows: noisy values, group keys and what the question makes of them."""
        return [values for _, values in self._selected]

    @property
    def cost(self) -> PrivacyLoss:
        """What the measurement behind this release cost when it was drawn."""
        return self.plan.cost

    def interval(self, column: str, confidence: Real = Fraction(19, 20)) -> list[tuple[float, float] | None]:
        """One interval for each row, which contains the bounded answer with probability `confidence`.

        The bounded answer is what would have been returned without noise, caps and bounds applied; what truncation
        removed is not in it (ask for `truncation=` to see how much that may be). None for columns that are no number.

        Raises:
            UnknownColumn: no such output column.
            InvalidParameter: a confidence outside (0, 1).
        """
        from discreet.plan.interval import interval_of
        from discreet.plan.plan import confidence_level

        of_row = interval_of(
            self.plan.column(column), self.plan.allocation.noises, confidence_level(confidence)
        )
        return [of_row(self.table.keys[i], self.table.cells[i]) for i, _ in self._selected]

    @property
    def notes(self) -> list[str]:
        """What a reader should know beside the numbers: the truncation report, and what intervals cover."""
        notes = _truncation_notes(self.plan, self.table.reports)
        if not self.plan.question.table.unit.is_row:
            notes.append(
                "Intervals cover the answer with caps and bounds applied; what they cut off is not in them."
            )
        return notes

    def explain(self) -> str:
        """The derivation in the textbook's terms, with the numbers of this release."""
        return self.plan.explain()

    def citations(self) -> list[str]:
        """The works on which this release's guarantee rests."""
        from discreet.plan.explain import citations

        return citations(self.plan)

    def to_arrow(self) -> Any:
        """The rows as a pyarrow table."""
        pa = _extra("pyarrow", "arrow")
        return pa.table({n: _storable([r[i] for r in self.rows]) for i, n in enumerate(self.columns)})

    def to_polars(self) -> Any:
        """The rows as a polars frame."""
        pl = _extra("polars", "polars")
        return pl.DataFrame({n: [r[i] for r in self.rows] for i, n in enumerate(self.columns)}, strict=False)

    def to_pandas(self) -> Any:
        """The rows as a pandas frame."""
        pd = _extra("pandas", "pandas")
        return pd.DataFrame({n: [r[i] for r in self.rows] for i, n in enumerate(self.columns)})

    def __str__(self) -> str:
        from discreet.table import render

        columns, rows = self._shown()
        lines = [render(columns, rows)]
        if len(self._selected) > SHOWN_ROWS:
            lines.append(f"… {len(self._selected) - SHOWN_ROWS} more rows in .rows")
        return "\n".join([*lines, self._footer(), *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from html import escape

        from discreet.table import render_html

        columns, rows = self._shown()
        below = "<br>".join(escape(line) for line in [self._footer(), *self.notes])
        return f"{render_html(columns, rows)}<p>{below}</p>"

    def _footer(self) -> str:
        guarantee = self.plan.allocation.guarantee
        price = words(guarantee.epsilon, guarantee.delta)
        paid = (
            f"answered again from the ledger, free (it cost {price})" if self.stored else f"charged {price}"
        )
        return f"± is a 95 % interval; {paid}"

    def _shown(self) -> tuple[list[str], list[list[str | None]]]:
        """The columns and cells of the printed table, each uncertain number with its ±."""
        from discreet.table import measured

        shown = self._selected[:SHOWN_ROWS]
        intervals = [self.interval(name)[:SHOWN_ROWS] for name in self.columns]
        cells = [
            [measured(v, intervals[j][i]) for j, v in enumerate(values)]
            for i, (_, values) in enumerate(shown)
        ]
        return self.columns, cells


def _selected(plan: Plan, table: NoisyTable) -> list[tuple[int, tuple[Any, ...]]]:
    """(place in the noisy table, output values) after HAVING, ORDER BY, LIMIT and OFFSET."""
    from discreet.plan.evaluate import compiled

    outer = plan.question.outer
    columns = [compiled(e) for _, e in outer.columns]
    having = None if outer.having is None else compiled(outer.having)
    places = [i for i in range(len(table.keys)) if having is None or having(table.keys[i], table.cells[i])]
    for term in reversed(outer.order):
        by = compiled(term.by)
        places.sort(key=_ordering(term, lambda i, by=by: by(table.keys[i], table.cells[i])))  # type: ignore[misc]  # bound now
    end = None if outer.limit is None else outer.offset + outer.limit
    return [(i, tuple(c(table.keys[i], table.cells[i]) for c in columns)) for i in places[outer.offset : end]]


def _ordering(term: OrderBy, value: Callable[[int], Any]) -> Callable[[int], Any]:
    """A sort key for one term: NULLs where the term says, equal values in the order they had."""

    def compare(i: int, j: int) -> int:
        a, b = value(i), value(j)
        if a is None or b is None:
            first = -1 if term.nulls_first else 1
            return 0 if a is None and b is None else first if a is None else -first
        order = int(a > b) - int(a < b)
        return -order if term.descending else order

    key: Callable[[int], Any] = cmp_to_key(compare)
    return key


def _truncation_notes(plan: Plan, reports: Sequence[int]) -> list[str]:
    if not reports:
        return []
    unit = plan.question.table.unit
    width = [n.quantile(Fraction(19, 20)) for n in plan.allocation.reports]
    groups, rows = (max(r, 0) for r in reports)
    return [
        (
            f"About {groups:,} ± {width[0]:,} units have rows in more than {unit.max_groups} groups; "
            f"about {rows:,} ± {width[1]:,} have more than {unit.max_rows} rows in one group."
        )
    ]


def _stored(value: Scalar) -> Any:
    if isinstance(value, dt.datetime):
        return {"timestamp": value.isoformat()}
    if isinstance(value, dt.date):
        return {"date": value.isoformat()}
    if isinstance(value, float):
        return {"real": value.hex()}
    return value


def _restored(value: Any) -> Scalar:
    if not isinstance(value, dict):
        return value  # type: ignore[no-any-return]  # JSON's own scalars
    ((kind, text),) = value.items()
    if kind == "real":
        return float.fromhex(text)
    return dt.datetime.fromisoformat(text) if kind == "timestamp" else dt.date.fromisoformat(text)


def _storable(column: list[Any]) -> list[Any]:
    """The column, as floats where a whole number needs more than Arrow's 64 bits."""
    wide = any(isinstance(v, int) and not -(1 << 63) <= v < 1 << 63 for v in column)
    return [None if v is None else float(v) for v in column] if wide else column


def _extra(module: str, extra: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtra(
            f"This needs {module}, which is not installed.", hint=f"pip install 'discreet[{extra}]'"
        ) from None
