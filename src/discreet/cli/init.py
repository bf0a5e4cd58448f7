"""`discreet init`: draft of a policy from names and types of tables, and from a charged look where one is asked for."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from discreet.cli import output, writing
from discreet.cli.options import Amount, BudgetAmount
from discreet.errors import InvalidParameter
from discreet.privacy.exact import positive
from discreet.privacy.guarantee import decimal

if TYPE_CHECKING:
    from discreet.catalog.schema import Fact
    from discreet.catalog.types import TableShape
    from discreet.cli.private_bounds import FoundFacts
    from discreet.privacy.guarantee import Budget
    from discreet.privacy.unit import PrivacyUnit

_EXAMPLE = """\b
Examples, on a table of `discreet demo --save .`:
  discreet init adult.parquet
  discreet sql "SELECT COUNT(*) AS n FROM adult" --epsilon 0.5
  discreet init adult.parquet -o found.toml --each-row --private-bounds 0.5 --budget 3,1e-6
"""

_HEAD = """\
# Policy of discreet, drafted from the names and types of columns: {read}.
# Lines that begin with # are not in force. Capital letters and numbers in them are yours to decide:
# 1. who is protected, under [table.…]; 2. the privacy budget, under [population.…]; 3. public facts, under columns.
"""

_POPULATION = """\
[population.{name}]
ledger = "discreet.ledger"
{budget}       # all that may ever be learned about each person; it never resets
# per_person = {{ epsilon = 2, delta = 1e-6 }}   # or each person's own budget, beside it or instead
# locked = true                                # after `discreet ledger lock`: only the owner opens accounts
"""

_UNIT = """\
# unit = {unit}
# max_groups = 3              # with unit: groups of one query that a person may enter
# max_rows = 10               # with unit: rows that a person may add to each of them
# max_contributions = 20      # with unit: rows that a person may add in all, alone or with the other two
# each_row = true             # instead of these four: each row is one person
# public = true               # instead of these five: table without personal data
"""

_ANALYST = """\
# [analyst.ana]               # analysts, each with a cap within the budget; then each query names its analyst
# tables = [{tables}]
# budget = {{ epsilon = 1 }}
"""


@click.command("init", short_help="Draft of a policy file from names and types.", epilog=_EXAMPLE)
@click.argument("sources", metavar="SOURCE…", nargs=-1, required=True)
@click.option("-o", "--output", "file", default="discreet.toml", show_default=True, help="File to write; - is stdout.")
@click.option("--population", help="Name of the people whose data it is.")
@click.option(
    "--private-bounds",
    "epsilon",
    type=Amount(positive),
    metavar="EPSILON",
    help="ε of a charged look at the rows of one table, which fills in ranges and values.",
)
@click.option("--budget", type=BudgetAmount(), help="With --private-bounds: privacy budget, 3 or 3,1e-6.")
@click.option("--unit", metavar="COLUMN", help="With --private-bounds: column with the person's id.")
@click.option("--each-row", is_flag=True, help="With --private-bounds: each row is one person.")
@click.option("--max-groups", type=int, default=3, show_default=True, help="With --unit: groups that a unit may enter.")
@click.option("--max-rows", type=int, default=10, show_default=True, help="With --unit: rows a unit may add to each.")
def command(
    sources: Sequence[str],
    file: str,
    population: str | None,
    epsilon: Fraction | None,
    budget: tuple[Fraction, Fraction | None] | None,
    unit: str | None,
    each_row: bool,
    max_groups: int,
    max_rows: int,
) -> None:
    """Write a commented policy for the tables in SOURCE….

    SOURCE is a file, a glob or a DuckDB database. Only names and types of columns are read. What cannot follow
    from them (who is protected, the budget, ranges and values) stands in the draft as comments, for the owner to
    decide. With --private-bounds ranges and values are found privately, and charged to discreet.ledger beside the
    draft: numbers get a range, and text its frequent values where the budget has a δ.
    """
    given = [o for o, said in (("--budget", budget), ("--unit", unit), ("--each-row", each_row)) if said]
    if epsilon is None and given:
        raise InvalidParameter(
            f"{given[0]} goes with --private-bounds.", hint="say it in the draft, or add --private-bounds 0.5"
        )
    if epsilon is not None and (budget is None or (unit is None) is not each_row):
        raise InvalidParameter(
            "--private-bounds is charged: it needs --budget, and either --unit or --each-row.",
            hint="as in --private-bounds 0.5 --budget 3,1e-6 --unit user_id",
        )
    if file != "-":
        writing.check("--output", file, sources)
        if Path(file).exists():
            raise InvalidParameter(f"{file} is there already.", hint="name another file with -o, or edit this one")
    keys: dict[str, list[str]] = {}
    tables = shapes(sources, keys)
    people = population or (next(iter(tables)) if len(tables) == 1 else "people")
    folder = Path("." if file == "-" else file).parent
    look = None
    if epsilon is not None and budget is not None:
        look = _look(tables, people, folder, epsilon, budget, unit, (max_groups, max_rows))
    text = "\n".join(_draft(tables, keys, people, folder, look))
    if file == "-":
        click.echo(text, nl=False)
        return
    Path(file).write_text(text, encoding="utf-8")
    name = next(iter(tables))
    if look is not None:
        output.say(f"{file} is written: {name}. Charged {look.spent} to discreet.ledger for ranges and values.")
        output.say("Check what was found. Then ask, in its folder:")
    else:
        output.say(f"{file} is written: {', '.join(tables)}; {_read(tables)}.")
        output.say("Say there who is protected, and the budget. Then ask, in its folder:")
    output.say(f'  discreet sql "SELECT COUNT(*) AS n FROM {_sql_name(name)}" --epsilon 0.5')


def shapes(sources: Sequence[str], keys: dict[str, list[str]] | None = None) -> dict[str, tuple[str, TableShape]]:
    """Return the source and the shape of each table; put the foreign keys that a database declares into `keys`.

    Raises:
        InvalidParameter: two tables of one name.
    """
    from discreet.backends.duckdb import DuckDB

    found: dict[str, tuple[str, TableShape]] = {}
    for source in sources:
        with closing(DuckDB(source)) as backend:
            if keys is not None:
                keys |= backend.foreign_keys()
            for table in backend.tables:
                if table in found:
                    raise InvalidParameter(
                        f"Two sources have a table {table!r}.", hint="draft one, and copy its section"
                    )
                found[table] = source, backend.discover(table)
    return found


def _look(
    tables: Mapping[str, tuple[str, TableShape]],
    population: str,
    folder: Path,
    epsilon: Fraction,
    budget: tuple[Fraction, Fraction | None],
    unit: str | None,
    caps: tuple[int, int],
) -> FoundFacts:
    """Return what a charged look found in the one table."""
    from discreet.cli.private_bounds import find_facts
    from discreet.privacy.guarantee import Budget
    from discreet.privacy.unit import PrivacyUnit

    if len(tables) > 1:
        raise InvalidParameter(
            f"--private-bounds looks at one table, and there are {len(tables)}.",
            hint="draft each alone, with -o and --population, and put the sections together",
        )
    ((name, (source, shape)),) = tables.items()
    who = PrivacyUnit.row() if unit is None else PrivacyUnit(unit, *caps)
    whole = Budget(budget[0], budget[1] or 0)
    place = str(folder / "discreet.ledger")
    return find_facts(source, name, shape, epsilon=epsilon, unit=who, budget=whole, population=population, ledger=place)


def _read(tables: Mapping[str, tuple[str, TableShape]]) -> str:
    """Return what was read of the rows, in words."""
    has_json = any(Path(source).suffix in _JSON for source, _ in tables.values())
    return "of JSON the keys of objects were read, and no value" if has_json else "no row was read"


_JSON = (".json", ".jsonl", ".ndjson")


def _draft(
    tables: Mapping[str, tuple[str, TableShape]],
    keys: Mapping[str, Sequence[str]],
    population: str,
    folder: Path,
    look: FoundFacts | None,
) -> Iterator[str]:
    yield _HEAD.format(read=_read(tables) if look is None else f"ranges and values cost {look.spent} of the budget")
    budget = "# budget = { epsilon = 3, delta = 1e-6 }" if look is None else f"budget = {_budget(look.budget)}"
    yield _POPULATION.format(name=_key(population), budget=budget)
    shared = Counter(c.casefold() for _, shape in tables.values() for c in shape.columns)
    for name, (source, shape) in tables.items():
        place = source if Path(source).is_absolute() else Path(os.path.relpath(source, folder)).as_posix()
        yield f"[table.{_key(name)}]\nsource = {_quoted(place)}"
        led = keys.get(name, ())
        links = f"# links = [{', '.join(map(_quoted, led))}]   {_LINKS}\n" if led else ""
        unit = _UNIT.format(unit=_unit(name, shape.columns, led, shared)) if look is None else _unit_in_force(look.unit)
        yield unit + links + "".join(_facts(shape, look))
    yield _ANALYST.format(tables=", ".join(map(_quoted, tables)))


def _budget(budget: Budget) -> str:
    delta = f", delta = {decimal(budget.delta)}" if budget.delta else ""
    return f"{{ epsilon = {decimal(budget.epsilon)}{delta} }}"


def _unit_in_force(unit: PrivacyUnit) -> str:
    if unit.column is None:
        return "each_row = true\n"
    return f"unit = {_quoted(unit.column)}\nmax_groups = {unit.max_groups}\nmax_rows = {unit.max_rows}\n"


_LINKS = "# with unit: joins along these keys, if each key is of one person"


def _unit(table: str, columns: Mapping[str, str | None], keys: Sequence[str], shared: Mapping[str, int]) -> str:
    """Return what stands after `unit =`: a column whose name looks like that of a person's id, else a foreign key, for
    the owner to judge. Ids that several tables have go before others, and ids of the table's own rows come last.
    """
    own = {
        "id",
        "uid",
        "uuid",
        *(f"{stem}{_}id" for stem in (table.casefold(), table.casefold()[:-1]) for _ in ("_", "")),
    }

    def rank(name: str) -> tuple[int, bool]:
        whose = name.casefold() in own and not _PERSON.search(name)
        return -1 if whose else -shared.get(name.casefold(), 1), not _PERSON.search(name)

    led = [key.partition(" -> ")[0] for key in keys]
    likely = sorted((name for name in columns if _ID.search(name) and name not in led), key=rank) or [
        *(name for name in columns if _PERSON.search(name)),
        *keys,
        *(name for name in columns if _ID.search(name)),
    ]
    others = f", or {', '.join(map(_key, likely[1:4]))}" if len(likely) > 1 else ""
    return f"{_quoted(likely[0] if likely else 'COLUMN'):<20} # column with the person's id{others}"


def _facts(shape: TableShape, look: FoundFacts | None) -> Iterator[str]:
    """Return a line for each column: what was found of it, or a place for what is publicly known of it."""
    found = {} if look is None else look.facts
    yield "# Public facts: values outside a range are clamped, rows with other values are in no group.\n"
    for name, kind in shape.columns.items():
        key = f"columns.{_key(name)} = "
        if kind is None:
            yield f"# {_key(name)} is nested or binary, and cannot be queried.\n"
        elif name in found:
            limit = look.outside.get(name) if look is not None else None
            sure = f": {limit}, with 97.5 % confidence" if limit else ""
            yield f"{key}{{ {_found(found[name])} }}   # {kind}, found through noise{sure}\n"
        elif shape.text:
            yield f'# {key}{{ range = [LOW, HIGH] }}   # or {{ values = ["A", "B"] }}\n'
        else:
            yield f"# {key}{{ {_PLACES.get(kind, _RANGE)} }}   # {kind}\n"


def _found(fact: Fact) -> str:
    from discreet.catalog.schema import Range

    if isinstance(fact, Range):
        return f"range = [{decimal(fact.low)}, {decimal(fact.high)}]" + (", integer = true" if fact.integer else "")
    keys = ", ".join(_quoted(str(v)) for v in fact.values if v is not None)
    return f"values = [{keys}]" + (", null = true" if None in fact.values else "")


_ID = re.compile(r"(?i)(^|[_\W])(u?id|uuid|user|person|patient|customer|client|member)([_\W]|$)|[a-z]Id$")
_PERSON = re.compile(r"(?i)(^|[_\W])(user|person|patient|customer|client|member)([_\W]|$)")
_RANGE = "range = [LOW, HIGH]"
_PLACES = {
    "VARCHAR": 'values = ["A", "B"]',
    "BOOLEAN": "values = [true, false], null = true",
    "BIGINT": f"{_RANGE}, integer = true",
    "DATE": "range = [2020-01-01, 2026-01-01]",
    "TIMESTAMP": "range = [2020-01-01, 2026-01-01]",
}


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(text: str) -> str:
    """Return the text as one of TOML, on one line, with nothing in it that does not print."""
    written = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in written)


def _sql_name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else f'\\"{name}\\"'
