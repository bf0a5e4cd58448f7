"""The options that `sql` and `plan` share, and how their values are read."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from discreet.errors import InvalidParameter
from discreet.privacy.exact import exact, positive, probability

if TYPE_CHECKING:
    _Param = click.ParamType[Any]
else:
    _Param = click.ParamType  # generic only in newer versions of click

F = TypeVar("F", bound=Callable[..., Any])

Bounds: TypeAlias = tuple[str, Fraction | dt.date, Fraction | dt.date, bool]
"""A column, its low and its high bound, and whether it holds whole numbers."""


class Amount(_Param):
    """A privacy parameter, kept exact: `0.5`, `1/2`, `1e-6`."""

    name = "number"

    def __init__(self, check: Callable[[str, str], Fraction]) -> None:
        self.check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Fraction:
        """Return the exact value, or the refusal that names the option."""
        if isinstance(value, Fraction):
            return value
        option = param.opts[0] if param is not None else "the value"
        try:
            return self.check(option, str(value))
        except InvalidParameter as error:
            raise InvalidParameter(error.message, hint=f"as in {option} 0.5 or {option} 1e-6") from None


class BudgetAmount(_Param):
    """A budget: `3`, or with δ after a comma `3,1e-6`."""

    name = "epsilon[,delta]"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Fraction, Fraction | None]:
        """ε, and δ where it was given."""
        option = param.opts[0] if param is not None else "--budget"
        epsilon, comma, delta = str(value).partition(",")
        hint = f"write {option} 3, or {option} 3,1e-6 to allow δ as well"
        if comma and not delta.strip():
            raise InvalidParameter(f"{option} {value!r} has a comma and no δ after it.", hint=hint)
        try:
            return positive(option, epsilon.strip()), probability("δ", delta.strip()) if comma else None
        except InvalidParameter as error:
            raise InvalidParameter(error.message, hint=hint) from None


class RangeOf(_Param):
    """Public bounds of a column: `amount=0:200`, `day=2020-01-01:2026-01-01`, and `age=0:120:integer` for whole numbers
    in a text file.
    """

    name = "column=low:high"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Bounds:
        """Return the column, its two bounds, exact, and whether it holds whole numbers."""
        column, equals, bounds = str(value).rpartition("=")
        moments = _MOMENTS.fullmatch(bounds)
        if equals and column and moments is not None:
            return column, _moment(column, moments[1]), _moment(column, moments[2]), False
        low, *rest = bounds.split(":")
        if not (equals and column and low.strip() and rest and rest[0].strip() and rest[1:] in ([], ["integer"])):
            raise InvalidParameter(
                f"--range {value!r} does not have the form COLUMN=LOW:HIGH.",
                hint="write --range amount=0:200, or --range age=0:120:integer when a CSV column has whole "
                "numbers; a bound may be negative, as in --range balance=-500:500, or a date: --range "
                "day=2020-01-01:2026-01-01",
            )
        name = f"a bound of --range {column}"
        return column, exact(name, low.strip()), exact(name, rest[0].strip()), bool(rest[1:])


_TIME = r"(\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?)"
_MOMENTS = re.compile(rf"\s*{_TIME}\s*:\s*{_TIME}\s*")


def _moment(column: str, text: str) -> dt.date:
    """Return a date or time that is written as one."""
    try:
        return dt.date.fromisoformat(text) if len(text) == len("2020-01-01") else dt.datetime.fromisoformat(text)
    except ValueError:
        raise InvalidParameter(
            f"a bound of --range {column} is no date or time: {text}.", hint="write --range day=2020-01-01:2026-01-01"
        ) from None


class ValuesOf(_Param):
    """Public keys of a column: `region=north,south`, quoted as in CSV (a quoted key is always text)."""

    name = "column=a,b,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, list[str | int | None]]:
        """Return the column and its keys: bare NULL is NULL, and bare whole numbers are numbers when all are."""
        column, equals, keys = str(value).partition("=")
        if not (equals and column and keys):
            raise InvalidParameter(
                f"--values {value!r} does not have the form COLUMN=a,b,….",
                hint="write --values region=north,south; quote a value that has a comma: "
                "--values 'city=\"Paris, TX\",Rome'",
            )
        found = fields(f"--values {column}", keys)
        if any(len(text) > 1 and text[0] == text[-1] == "'" and not quoted for text, quoted in found):
            bare = ",".join(text.strip("'") for text, _ in found)
            raise InvalidParameter(
                f"--values {column} has values in single quotes, which would be part of them.",
                hint=f"write --values {column}={bare}; around a value that has such quotes itself, double ones",
            )
        return column, _keys(found)


class NamedTable(_Param):
    """A table and what is said of it: `orders=orders.parquet`, or `items=order_id -> orders.id`."""

    def __init__(self, name: str, hint: str) -> None:
        self.name = name
        self.hint = hint

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Return the table's name and what stands after the first `=`."""
        if isinstance(value, tuple):
            return value
        option = param.opts[0] if param is not None else "the value"
        table, _, said = (part.strip() for part in str(value).partition("="))
        if not (table and said):
            raise InvalidParameter(f"{option} {value!r} does not have the form {self.name}.", hint=f"write {self.hint}")
        return table, said


class Protected(_Param):
    """A population, the column of its ids, and how many rows one unit may add: `patients=patient_id:8`."""

    name = "NAME=COLUMN:ROWS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str, int]:
        """Return the three, of which the number is at least 1."""
        if isinstance(value, tuple):
            return value
        population, _, rest = str(value).partition("=")
        column, _, rows = rest.rpartition(":")
        if not (population.strip() and column.strip() and rows.strip().isascii() and rows.strip().isdigit()):
            raise InvalidParameter(
                f"--protect {value!r} does not have the form {self.name}.",
                hint="write --protect patients=patient_id:8, where one patient counts with 8 rows at most",
            )
        return population.strip(), column.strip(), int(rows)


class Said(_Param):
    """Something for both populations, or for the one that it names: `0.5`, `patients=0.5`."""

    name = "[NAME=]VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str | None, str]:
        """Return the population, None for both; and what is said."""
        if isinstance(value, tuple):
            return value
        population, equals, said = str(value).rpartition("=")
        return (population.strip() if equals else None), said.strip()


class ColumnNames(_Param):
    """Column names for a file without a header: `age,ward,cost`, quoted as in CSV."""

    name = "a,b,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """Return the names, of which none may be empty."""
        names = [text for text, _ in fields("--names", str(value))]
        if not all(names):
            raise InvalidParameter(
                f"--names {value!r} has an empty name.", hint="give every column a name: --names age,ward,cost"
            )
        return names


def fields(option: str, text: str) -> list[tuple[str, bool]]:
    """Return the fields of one CSV line, and of each whether it was quoted; spaces around a bare field are dropped.

    >>> fields("--values", 'a, "b, c", d')
    [('a', False), ('b, c', True), ('d', False)]
    """
    found: list[tuple[str, bool]] = []
    at = 0
    while True:
        match = _FIELD.match(text, at)
        if match is None:
            raise InvalidParameter(
                f"{option} has a quote that does not open or close a value.",
                hint='quote a whole value, as in "Paris, TX", and write a quote inside it twice',
            )
        quoted = match["quoted"] is not None
        found.append((match["quoted"].replace('""', '"') if quoted else match["bare"].strip(), quoted))
        at = match.end()
        if at == len(text):
            return found
        at += 1  # the comma


def between(ctx: click.Context, param: click.Parameter, value: float) -> float:
    """Return a confidence, which lies between 0 and 1."""
    if not 0 < value < 1:
        raise InvalidParameter(f"{param.opts[0]} must lie between 0 and 1, not {value}.", hint="as in 0.95")
    return value


class Sized(_Param):
    """A number for a column of the result: `n=50`; for an error also a share of its size, `n=5%`."""

    name = "column=number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Return the column and the number's text, which the plan reads."""
        column, equals, number = str(value).rpartition("=")
        if not equals or not column.strip() or not number.strip():
            option = param.opts[0] if param is not None else "the value"
            raise InvalidParameter(f"{option} {value!r} is not COLUMN=NUMBER.", hint=f"as in {option} n=50")
        return column.strip(), number.strip()


def question(command: F) -> F:
    """Add the arguments and options of a query to a command, which makes a `QueryCall` of them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def without(left_out: frozenset[str], add: Callable[[F], F]) -> Callable[[F], F]:
    """Return what adds the same arguments and options to a command but for some of them, of a SOURCE alone."""

    def added(command: F) -> F:
        command = add(command)
        made: list[click.Parameter] = getattr(command, "__click_params__")  # noqa: B009  # click's own place for them
        made[:] = [p for p in made if not left_out & {*p.opts}]
        for p in made:
            if isinstance(p, click.Argument):
                p.required, p.metavar = False, "[SOURCE]"
        return command

    return added


class QueryCommand(click.Command):
    """Command over a query, whose help lists its options by groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options of each group under its title, and those of no group last."""
        options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        records = {p.opts[0]: found for p in options if (found := p.get_help_record(ctx)) is not None}
        for title, names in _GROUPS.items():
            if rows := [records.pop(name) for name in names if name in records]:
                with formatter.section(title):
                    formatter.write_dl(rows)
        with formatter.section("Result"):
            formatter.write_dl([*records.values()])


_GROUPS = {
    "Data": ("--policy", "--table", "--names", "--version", "--dialect"),
    "Who is protected": (
        "--unit",
        "--each-row",
        "--max-groups",
        "--max-rows",
        "--max-contributions",
        "--unit-path",
        "--public",
        "--link",
    ),
    "Public facts": ("--range", "--values", "--keys", "--bounds"),
    "Cost and noise": (
        "--epsilon",
        "--error",
        "--assuming",
        "--rows",
        "--delta",
        "--noise",
        "--truncation",
        "--min-people",
    ),
    "Budget": (
        "--population",
        "--budget",
        "--budget-delta",
        "--per-query",
        "--per-person",
        "--ledger",
        "--relation",
        "--filter",
        "--analyst",
    ),
}
"""Titles of the groups of options that a query's command has, and the options of each."""


def answering(command: F) -> F:
    """Add the options that say how a query is answered, to a command which makes an `Answering` of them."""
    for option in reversed(_ANSWERING):
        command = option(command)
    return command


_FIELD = re.compile(r'\s*"(?P<quoted>(?:[^"]|"")*)"\s*(?=,|$)|(?P<bare>[^",]*)(?=,|$)')
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")

TABLE = click.option(
    "--table",
    "tables",
    multiple=True,
    type=NamedTable("NAME=SOURCE", "--table orders=orders.parquet"),
    help="Further table. Repeatable.",
)
RANGE = click.option(
    "--range",
    "ranges",
    multiple=True,
    type=RangeOf(),
    help="Public bounds of a column: amount=0:200, day=2020-01-01:2026-01-01. Repeatable.",
)
VALUES = click.option(
    "--values",
    multiple=True,
    type=ValuesOf(),
    help="Public values of a column, or of a key by its name in the result: region=a,b. Repeatable.",
)
KEYS = click.option(
    "--keys", metavar="FILE", help="CSV file with a header: the groups of its columns together, one a line."
)
LEDGER = click.option(
    "--ledger",
    metavar="FILE",
    envvar="DISCREET_LEDGER",
    help="Ledger that the cost is charged to; else where DISCREET_LEDGER says, or ./discreet.ledger.",
)
NAMES = click.option("--names", type=ColumnNames(), help="Column names of a file without a header.")
VERSION = click.option("--version", metavar="LABEL", help="Public label of the data's version.")
DIALECT = click.option(
    "--dialect",
    default="duckdb",
    show_default=True,
    type=click.Choice(["duckdb", "postgres", "bigquery", "snowflake", "spark"]),
    help="SQL dialect of QUERY.",
)
NOISE = click.option(
    "--noise",
    type=click.Choice(["laplace", "gaussian", "auto"]),
    help="Law of the noise; auto unless given: the narrower one.",
)

_OPTIONS: list[Callable[[Any], Any]] = [
    click.argument("words", metavar="[SOURCE] QUERY", nargs=-1, required=True),
    click.option("--policy", metavar="FILE", help="Policy file; ./discreet.toml where no SOURCE is given."),
    click.option("--unit", metavar="COLUMN", help="Column with the person's id."),
    click.option("--each-row", is_flag=True, help="Each row is one person."),
    click.option("--epsilon", type=Amount(positive), help="ε, the privacy cost of the query."),
    click.option(
        "--error",
        "errors",
        multiple=True,
        type=Sized(),
        help="Instead of --epsilon: largest error of a column, n=50 or n=5%. Repeatable.",
    ),
    click.option(
        "--assuming",
        multiple=True,
        type=Sized(),
        help="Public guess at a column, for errors that need it: n=10000. Repeatable.",
    ),
    click.option("--rows", default=10_000, show_default=True, help="Public guess: number of rows that a mean is over."),
    click.option(
        "--delta",
        default="0",
        show_default=True,
        type=Amount(probability),
        help="δ of the query: probability that the ε guarantee may fail.",
    ),
    click.option("--min-people", type=int, default=1, help="People that a shown group has at least; needs --delta."),
    click.option("--max-groups", type=int, help="Contribution bound: groups of one query that a unit may enter."),
    click.option("--max-rows", type=int, help="Contribution bound: rows that a unit may add to each group."),
    click.option("--max-contributions", type=int, help="Contribution bound: rows that a unit may add in all."),
    TABLE,
    click.option(
        "--unit-path",
        "paths",
        multiple=True,
        type=NamedTable("TABLE=PATH", '--unit-path customers=id, or --unit-path "items=order_id -> orders.id"'),
        help="Column of a table for the unit's id, or foreign key that leads to it. Repeatable.",
    ),
    click.option(
        "--link",
        "links",
        multiple=True,
        type=NamedTable("TABLE=PATH", '--link "orders=visit_id -> visits.id"'),
        help="Foreign key for joins; each of its values is of one person. Repeatable.",
    ),
    click.option("--public", multiple=True, metavar="TABLE", help="Table without personal data. Repeatable."),
    RANGE,
    VALUES,
    KEYS,
    click.option("--population", help="Population whose budget pays; the table's name unless given."),
    click.option("--budget", type=BudgetAmount(), help="Privacy budget of a new account: 3, or 3,1e-6. Needed once."),
    click.option("--budget-delta", type=Amount(probability), help="δ of --budget, if not written there."),
    click.option("--per-query", type=Amount(positive), help="With --budget: largest ε of one query; 20 unless given."),
    click.option(
        "--per-person", type=BudgetAmount(), help="Budget of each person in a new account, beside --budget or instead."
    ),
    LEDGER,
    NAMES,
    VERSION,
    click.option(
        "--relation", type=click.Choice(["add-remove", "replace"]), help="Neighbouring relation. Fixed at opening."
    ),
    click.option("--filter", metavar="NAME", help="Composition rule: basic, zcdp, gdp or renyi. Fixed at opening."),
    click.option("--analyst", metavar="NAME", help="Name of the analyst; needed where the account has analysts."),
    DIALECT,
    NOISE,
    click.option(
        "--truncation",
        default="0",
        metavar="SHARE",
        type=Amount(probability),
        help="Share of ε for reports of truncation bias: rows and units beyond caps, ranges and values.",
    ),
    click.option(
        "--bounds",
        type=click.Choice(["auto", "values", "ranges"]),
        help="Private choice of caps and missing ranges (auto) or of ranges alone (values), each for a tenth of ε; of "
        "ranges for 99 % of it (ranges).",
    ),
]

_ANSWERING: list[Callable[[Any], Any]] = [
    click.option("--fresh", is_flag=True, help="New noise, charged again, for a query asked before."),
    click.option(
        "--confidence",
        type=float,
        default=0.95,
        show_default=True,
        callback=between,
        help="Confidence level of the intervals.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Result and errors as JSON."),
    click.option("--csv", "as_csv", is_flag=True, help="Rows as CSV, with _low and _high beside each number."),
    click.option(
        "--certificate", metavar="FILE", help="File for the certificate, as JSON, which `discreet verify` checks."
    ),
    click.option(
        "--plot", metavar="FILE", help="File for a chart of the result with its intervals: .svg, .png or .pdf."
    ),
    click.option("--explain", is_flag=True, help="Also the derivation of the result and of its cost."),
]


def _keys(found: Sequence[tuple[str, bool]]) -> list[str | int | None]:
    values = [None if text == "NULL" and not quoted else text for text, quoted in found]
    whole = all(v is None or (_WHOLE.fullmatch(v) and not quoted) for v, (_, quoted) in zip(values, found, strict=True))
    return [int(v) if whole and v is not None else v for v in values]
