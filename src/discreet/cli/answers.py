"""A release as the command line prints it: a table with ±, CSV with both ends, JSON with everything."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from discreet.cli import output
from discreet.cli.budgets import amounts
from discreet.cli.output import json_text
from discreet.engine.release import MARKED
from discreet.table import measured, render

if TYPE_CHECKING:
    from discreet.engine.release import Release
    from discreet.engine.session import Session
    from discreet.plan.query import Query


_AGAIN = "It was {drawn}; --fresh draws again and is charged, a new --version label asks for new data."


def say(release: Release, confidence: float, *, as_csv: bool, explain: bool) -> None:
    """Print the rows as CSV or as a table, and remark what there is to note."""
    if as_csv:
        output.say_csv(*csv_of(release, confidence))
        for name in release.columns:
            if of := sum(flags := release.uncertain(name, confidence)):
                reached = f"in {of} of {len(flags)} rows of {name!r}"
                output.remark(f"The margin of error is at least as large as the value {reached}.")
    else:
        output.say(as_table(release, confidence=confidence, max_width=output.terminal_width()))
        if explain:
            output.say(f"\n{release.explain()}\n")
        if any(any(release.uncertain(name, confidence)) for name in release.columns):
            output.remark(MARKED)
    if release.stored and release.drawn is not None:
        output.remark(_AGAIN.format(drawn=release.drawn))
    for note in release.notes:
        output.remark(note)


def as_table(release: Release, *, confidence: float = 0.95, max_width: int | None = None) -> str:
    """All rows, each number with the ± of its interval."""
    ends = [release.interval(name, confidence=confidence) for name in release.columns]
    rows = [
        [measured(value, ends[j][i]) for j, value in enumerate(row)] for i, row in enumerate(release.rows)
    ]
    return render(release.columns, rows, max_width=max_width)


def csv_of(release: Release, confidence: float) -> tuple[list[str], list[list[object]]]:
    """The rows, and after each noisy column the two ends of its intervals."""
    columns: list[str] = []
    cells: list[list[object]] = []
    for j, name in enumerate(release.columns):
        columns.append(name)
        cells.append([_field(row[j]) for row in release.rows])
        ends = release.interval(name, confidence=confidence)
        if is_noisy(release.query, name):
            columns += [f"{name}_low", f"{name}_high"]
            cells += [[_field(_side(end, side)) for end in ends] for side in (0, 1)]
    return columns, [list(row) for row in zip(*cells, strict=True)]


def _side(interval: Any, side: int) -> Any:
    """One end of an interval, or of each of a list or map of them."""
    if isinstance(interval, dict):
        return {key: _side(inner, side) for key, inner in interval.items()}
    if isinstance(interval, list):
        return [_side(inner, side) for inner in interval]
    return None if interval is None else interval[side]


def _field(value: Any) -> object:
    """A cell of a CSV: lists and maps as JSON."""
    return json_text(value) if isinstance(value, list | dict) else value


def is_noisy(query: Query, column: str) -> bool:
    """Whether a column's cells have intervals, rather than being keys."""
    return query.column(column).has_interval


def measured_json(release: Release, confidence: float) -> dict[str, Any]:
    """What was measured: the rows and their intervals."""
    return {
        "columns": release.columns,
        "rows": release.rows,
        "intervals": {name: release.interval(name, confidence=confidence) for name in release.columns},
        "confidence": confidence,
        "uncertain": {
            name: flags for name in release.columns if any(flags := release.uncertain(name, confidence))
        },
        "drawn": None if release.drawn is None else asdict(release.drawn),
        "notes": release.notes,
    }


def as_json(release: Release, session: Session, confidence: float, *, explain: bool) -> dict[str, Any]:
    """The rows, their intervals, and what was paid."""
    answer = {
        **measured_json(release, confidence),
        "cost": amounts(release.plan.charge.guarantee),
        "stored": release.stored,
        "charged": amounts(release.charged),
        "population": session.population,
        "remaining": amounts(session.remaining),
    }
    if release.truncation:
        answer["truncation"] = [report.to_json() for report in release.truncation]
    return {**answer, "explanation": release.explain()} if explain else answer
