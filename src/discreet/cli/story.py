"""How the demo speaks: numbered headings, short paragraphs, and what is shown set in."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet import data
from discreet.cli import output

if TYPE_CHECKING:
    import duckdb

    from discreet.session import Session

WIDTH = 92


@dataclass(frozen=True, slots=True)
class Scene:
    """What every part of the story works with.

    Attributes:
        adults: the people of the census survey, one row each, with a budget of ε = 1.
        clinic: the people of the clinic, many rows each.
        practice: the same adults under a throw-away account, to show odds that one attempt cannot show.
        exact: the data as it is, to compare with; no analyst has it.
    """

    adults: Session
    clinic: Session
    practice: Session
    exact: duckdb.DuckDBPyConnection

    def truth(self, query: str) -> list[tuple[Any, ...]]:
        """The exact answer, which an analyst never sees."""
        return self.exact.execute(query).fetchall()


def heading(number: int, title: str) -> None:
    """Begin a part of the story."""
    click.secho(f"\n{number}. {title}\n", bold=True)


def tell(text: str) -> None:
    """Say something in plain sentences."""
    output.say(textwrap.fill(" ".join(text.split()), WIDTH, break_on_hyphens=False) + "\n")


def show(text: str) -> None:
    """Show a query, a table or a message, set in."""
    output.say(textwrap.indent(text, "    ") + "\n")


def exact_data() -> duckdb.DuckDBPyConnection:
    """Both sample tables as they are, for comparison."""
    from discreet.backends.connection import open_database

    database = open_database()
    for path in (data.adult(), data.clinic_visits()):
        database.execute(f"CREATE VIEW {path.stem} AS SELECT * FROM read_parquet('{_quoted(path)}')")
    return database


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
