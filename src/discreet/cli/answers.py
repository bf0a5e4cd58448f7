"""A release as the command line prints it: a table with ±, CSV with both ends, JSON with everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from discreet.cli import output, writing
from discreet.cli.output import amounts, json_text
from discreet.cli.waiting import charging, waiting
from discreet.errors import InvalidParameter
from discreet.table import measured, render

if TYPE_CHECKING:
    from discreet.engine.release import Release
    from discreet.engine.session import Session


_AGAIN = "It was {drawn}; --fresh draws again and is charged, a new --version label asks for new data."


@dataclass(frozen=True, slots=True)
class Answering:
    """How `sql` and `both` answer: the options that say what is printed, and what is written beside it."""

    fresh: bool
    confidence: float
    as_json: bool
    as_csv: bool
    certificate: str | None
    plot: str | None
    explain: bool

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Answering:
        """Take these options out of all that a command was called with."""
        how = cls(**{field.name: options.pop(field.name) for field in fields(cls)})
        if how.as_json and how.as_csv:
            raise InvalidParameter("--json and --csv cannot both be had.", hint="choose one")
        return how

    def check(self, used: Sequence[str]) -> None:
        """Refuse files that cannot be written or are in use, before the charge."""
        if self.certificate is not None:
            writing.check("--certificate", self.certificate, used)
            used = [*used, self.certificate]
        if self.plot is not None:
            writing.check_picture(self.plot, used)

    def ask(self, session: Session, query: str, price: dict[str, Any], *, ledger: str) -> Release:
        """Ask the query, and write its certificate."""
        if self.certificate is not None:
            from discreet.verify.certificate.evidence import check_together

            check_together(session.accounts.values())
        if self.plot is not None:
            writing.foresee_picture(session.plan(query, **price))
        with charging(ledger, as_json=self.as_json), waiting("asking the data", quiet=self.as_json):
            release = session.sql(query, fresh=self.fresh, **price)
        if self.certificate is not None:
            writing.certificate(self.certificate, release)
        return release

    def say(self, release: Release) -> None:
        """Print the rows as CSV or as a table, and remark what there is to note."""
        confidence = self.confidence
        if self.as_csv:
            output.say_csv(*csv_of(release, confidence))
            for name in release.columns:
                if of := sum(flags := release.uncertain(name, confidence)):
                    reached = f"in {of} of {len(flags)} rows of {name!r}"
                    output.remark(f"The margin of error is at least as large as the value {reached}.")
        else:
            output.say(as_table(release, confidence=confidence, max_width=output.terminal_width()))
            if self.explain:
                output.say(f"\n{release.explain()}\n")
            if any(any(release.uncertain(name, confidence)) for name in release.columns):
                from discreet.engine.release import MARKED  # which loads the planner, as no help does

                output.remark(MARKED)
        if release.stored and release.drawn is not None:
            output.remark(_AGAIN.format(drawn=release.drawn))
        for note in release.notes:
            output.remark(note)

    def draw(self, release: Release) -> None:
        """Draw the result, once it has been printed."""
        if self.plot is not None:
            writing.picture(self.plot, release, self.confidence)


def as_table(release: Release, *, confidence: float = 0.95, max_width: int | None = None) -> str:
    """All rows, each number with the ± of its interval."""
    ends = [release.interval(name, confidence=confidence) for name in release.columns]
    rows = [[measured(value, ends[j][i]) for j, value in enumerate(row)] for i, row in enumerate(release.rows)]
    return render(release.columns, rows, max_width=max_width)


def csv_of(release: Release, confidence: float) -> tuple[list[str], list[list[object]]]:
    """Return the rows, and after each noisy column the two ends of its intervals."""
    columns = release.to_dict(confidence=confidence)
    return [*columns], [[_field(cell) for cell in row] for row in zip(*columns.values(), strict=True)]


def _field(value: Any) -> object:
    """Return a cell of a CSV: lists and maps as JSON."""
    return json_text(value) if isinstance(value, list | dict) else value


def measured_json(release: Release, confidence: float) -> dict[str, Any]:
    """Return what was measured: the rows and their intervals."""
    return {
        "columns": release.columns,
        "rows": release.rows,
        "intervals": {name: release.interval(name, confidence=confidence) for name in release.columns},
        "confidence": confidence,
        "uncertain": {name: flags for name in release.columns if any(flags := release.uncertain(name, confidence))},
        "drawn": None if release.drawn is None else asdict(release.drawn),
        "notes": release.notes,
    }


def as_json(release: Release, session: Session, confidence: float, *, explain: bool) -> dict[str, Any]:
    """Return the rows, their intervals, and what was paid."""
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
