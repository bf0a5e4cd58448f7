"""`discreet tables`: names and types of tables, and what a policy says of them; free."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from discreet.cli import output
from discreet.errors import InvalidParameter
from discreet.table import render

if TYPE_CHECKING:
    from discreet.engine.public_facts import DescribedTable, Listing


@click.command("tables", short_help="Names and types of tables; free.")
@click.argument("sources", metavar="[SOURCE|POLICY]…", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="JSON output.")
def command(sources: Sequence[str], as_json: bool) -> None:
    """Show the tables of SOURCE, or those of a policy, and their columns.

    Without an argument it shows the tables of the policy discreet.toml in this folder. No row is read (of JSON
    no value), and nothing is charged.
    """
    from discreet.engine.public_facts import schema_of

    _say(schema_of(_described(sources)), as_json=as_json)


def say_described(query: str, sources: Sequence[str], *, as_json: bool) -> bool:
    """Print what SHOW TABLES or DESCRIBE asks for, and return whether the query is one of them."""
    from discreet.engine.public_facts import ASKS_FOR_SCHEMA, described

    if not ASKS_FOR_SCHEMA.fullmatch(query):
        return False
    _say(described(query, _described(sources)), as_json=as_json)
    return True


def _say(listing: Listing, *, as_json: bool) -> None:
    if as_json:
        output.say_json({"columns": listing.columns, "rows": listing.rows})
    else:
        rows = [list(row) for row in listing]
        output.say(render(list(listing.columns), rows, max_width=output.terminal_width()))


def _described(sources: Sequence[str]) -> dict[str, DescribedTable]:
    from discreet.backends.duckdb import DuckDB
    from discreet.cli.init import shapes
    from discreet.engine.public_facts import DescribedTable
    from discreet.policy import FILE, Policy, is_policy

    if not sources and not Path(FILE).exists():
        raise InvalidParameter(
            f"There is no policy {FILE} in this folder.", hint="name a source: `discreet tables adult.parquet`"
        )
    chosen = sources or (FILE,)
    if not any(is_policy(s) for s in chosen):
        return {n: DescribedTable(shape.columns, {}, "not said") for n, (_, shape) in shapes(chosen).items()}
    if len(chosen) > 1:
        raise InvalidParameter("A policy names all its tables.", hint="name the policy alone")
    found = {}
    for name, table in Policy.read(chosen[0]).tables.items():
        with closing(DuckDB({name: table.source}, names=table.names)) as backend:
            found[name] = DescribedTable(backend.discover(name).columns, table.columns, table.owner)
    return found
