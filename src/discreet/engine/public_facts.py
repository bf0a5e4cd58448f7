"""What is public of the tables of a session, free; and the public facts that a query lacks, all of them: it is planned
with stand-ins for those that are missing.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet.catalog.schema import Fact, Range, TableSchema, Values, domain_values, looks_like, unknown_table
from discreet.catalog.types import Type
from discreet.errors import DiscreetError, InvalidParameter, MissingBounds, MissingFact, NotPrivate
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import Budget, decimal
from discreet.query.expr import columns_of
from discreet.query.keys import known_values
from discreet.table import render

if TYPE_CHECKING:
    from discreet.plan.plan import Plan


ASKS_FOR_SCHEMA = re.compile(
    r"\s*(?:(?P<tables>show\s+tables)|desc(?:ribe)?\s+(?:table\s+)?(?P<quoted>\"(?:[^\"]|\"\")+\"|[\w.]+))\s*;?\s*",
    re.IGNORECASE,
)
"""SHOW TABLES or DESCRIBE, which are no queries."""

_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows that describe tables, all of them public: no row of data is read, and nothing is charged.

    Attributes:
        columns: names of the columns of this listing.
        rows: its rows.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return render(list(self.columns), [list(row) for row in self.rows])


@dataclass(frozen=True, slots=True)
class DescribedTable:
    """A table as it is described: types by column, None for those that cannot be queried; facts; and whose it is."""

    columns: Mapping[str, str | None]
    facts: Mapping[str, Fact]
    owner: str

    @classmethod
    def of(cls, table: TableSchema) -> DescribedTable:
        """Return a connected table."""
        columns = {name: None if kind is None else kind.value for name, kind in table.columns.items()}
        key = table.reached
        owner = f"unit {table.unit.column}" if key is None else f"unit by {key.column} -> {key.table}.{key.key}"
        if table.public:
            owner = "public"
        elif table.unit.is_row:
            owner = "unit: each row"
        return cls(columns, table.facts, owner)

    def rows(self) -> list[tuple[str, ...]]:
        """Return a row for each column: its name, its type, and what is known of it."""
        return [
            (name, kind or "cannot be queried", _known(self.facts.get(name))) for name, kind in self.columns.items()
        ]


def schema_of(tables: Mapping[str, DescribedTable]) -> Listing:
    """Return all columns of all tables."""
    return Listing(
        ("table", "column", "type", "known"), tuple((name, *row) for name, t in tables.items() for row in t.rows())
    )


def described(sql: str, tables: Mapping[str, DescribedTable]) -> Listing:
    """Return what SHOW TABLES or DESCRIBE asks for.

    Raises:
        UnknownColumn: DESCRIBE of a table that is not there.
    """
    asked = ASKS_FOR_SCHEMA.fullmatch(sql)
    assert asked is not None
    if asked["tables"]:
        rows = tuple((name, str(len(t.columns)), t.owner) for name, t in tables.items())
        return Listing(("table", "columns", "rows are of"), rows)
    name = asked["quoted"]
    name = name[1:-1].replace('""', '"') if name.startswith('"') else name
    found = [n for n in tables if n == name] or [n for n in tables if n.lower() == name.lower()]
    if len(found) != 1:
        raise unknown_table(f"There is no table {name!r:.60}.", name, list(tables), [])
    return Listing(("column", "type", "known"), tuple(tables[found[0]].rows()))


def _known(fact: Fact | None) -> str:
    if fact is None:
        return ""
    if isinstance(fact, Range):
        return repr(fact)
    shown = [repr(v) for v in fact.values[:_MOST_SHOWN]]
    more = f", … ({len(fact.values)} values)" if len(fact.values) > len(shown) else ""
    return f"Values({', '.join(shown)}{more})"


_STAND_IN = Fraction(1, 10**6)
_MOST = 50  # refusals after which no more facts are looked for

Planning = Callable[[Sequence[TableSchema], Real], "Plan"]
"""A query's plan over these tables at this δ, or at more where the query says so."""


EPSILON = MissingFact("epsilon", "ε, the privacy cost of the query", "epsilon=0.5")


def with_all_missing(
    plan: Planning, tables: Sequence[TableSchema], delta: Real, left: Budget, known: Sequence[MissingFact] = ()
) -> DiscreetError | Plan:
    """Return the plan, or the refusal that names every fact which it lacks.

    Raises:
        DiscreetError: another refusal, which no fact would avert.
    """
    found: list[MissingFact] = []
    first: DiscreetError | None = None
    done: Plan | None = None
    while done is None and len(found) < _MOST:
        try:
            done = plan(tables, delta)
        except (MissingBounds, NotPrivate) as error:
            first = first or error
            if new := [fact for fact in error.missing if fact not in found]:
                found += new
                tables = [_with_stand_ins(t, new) for t in tables]
                delta = _STAND_IN if any(fact.kind in ("groups", "delta") for fact in new) else delta
                continue
            if not found:
                raise
            found.append(MissingFact("", error.message.rstrip("."), error.hint))
            break
        except DiscreetError as error:
            if error.missing and (found or known):
                first = first or error
                found += error.missing
                break
            if not any(_makes_another_type(fact, table) for fact in found for table in tables):
                raise
            break  # the refusal may be that of the stand-in
    if first is None:
        assert done is not None
        return done
    found = [_named(fact, done, left) if fact.kind == "groups" else fact for fact in found]
    if len(found) + len(known) > 1:
        return MissingBounds.of([*found, *known])
    if found[0].kind != "groups":
        return first
    ways = found[0].say if not found[0].instead else f"{found[0].say}; or {found[0].instead}"
    return NotPrivate(first.message, hint=f"add {ways}", missing=found)


def unpriced(plan: Callable[[Fraction], Plan], left: Budget) -> InvalidParameter:
    """Return the refusal of a query without ε: three prices, and the error that each would buy.

    Raises:
        DiscreetError: it cannot be answered at any price.
    """
    top = min(Fraction(1), left.per_query, left.epsilon if left.epsilon > 0 else Fraction(1))
    offers, column = [], "COLUMN"
    for epsilon in (top / 10, top / 2, top):
        errors, column = _errors(plan(epsilon))
        offers.append(f"epsilon={decimal(epsilon)}" + (f" gives {errors}" if errors else ""))
    return InvalidParameter(
        f"A query needs epsilon=, its privacy cost: {'; '.join(offers)} (95 % confidence).",
        hint=f"add epsilon={decimal(top / 2)}; or error={{{column!r}: 50}} for the least ε that gives this error",
        missing=[replace(EPSILON, say=f"epsilon={decimal(top / 2)}")],
    )


def _errors(plan: Plan) -> tuple[str, str]:
    """Return the margins of error of the first columns that have one before the data, in words; and one of these."""
    found: dict[str, str] = {}
    sure = []
    for name in plan.columns if plan.stages is None else ():
        for guess, where in ((None, ""), ({"rows": 10_000}, " over 10,000 rows")):
            try:
                error = plan.error(name, assuming=guess)
                found[name] = f"{name} ± {error:{',.3g' if error < 1000 else ',.0f'}}{where}"
            except InvalidParameter:
                continue
            sure += [] if guess else [name]
            break
    return " and ".join([*found.values()][:3]), next(iter([*sure, *found]), "COLUMN")


def _named(fact: MissingFact, plan: Plan | None, left: Budget) -> MissingFact:
    """Return what is missing of undeclared groups: their keys by name, or a δ where the account has one."""
    names: list[str] = []
    for question in () if plan is None or plan.stages is not None else [q.question for q in plan.measurements]:
        shown = {} if question.relation is None else dict(question.relation.shown)
        facts, stored = question.table.facts, [shown.get(n, n) for n in question.table.columns]
        titles = {node.key: name for name, node in question.outer.columns if looks_like(name, stored) is None}
        for i, e in enumerate(question.keys.exprs):
            if e.column is None and i in titles and e not in question.keys.named and known_values(e, facts) is None:
                names.append(titles[i])
            elif e not in question.keys.named and known_values(e, facts) is None:
                names += [shown.get(n, n) for n in columns_of(e) if domain_values(facts.get(n)) is None]
    listed = ", ".join(f"{n!r}: dp.Values('A', 'B')" for n in dict.fromkeys(names))
    keys = f"columns={{{listed}}}" if listed else ""
    or_delta = ", or a δ" if left.delta > 0 else ""
    what = f"the groups of {' and '.join(map(repr, dict.fromkeys(names)))}{or_delta}" if names else fact.what
    spend = f"delta={decimal(min(Fraction(1, 10**7), left.delta))}"
    if left.delta > 0 or not keys:
        return replace(fact, what=what, say=spend, instead=keys)
    return replace(fact, what=what, say=keys)


def _with_stand_ins(table: TableSchema, missing: Sequence[MissingFact]) -> TableSchema:
    more = {
        fact.column: _stand_in(fact.kind, table.columns[fact.column])
        for fact in missing
        if fact.column in table.columns
    }
    return replace(table, facts={**table.facts, **more}) if more else table


def _makes_another_type(fact: MissingFact, table: TableSchema) -> bool:
    """Return whether a stand-in makes numbers of what is stored as something else."""
    stored = table.columns.get(fact.column)
    return fact.kind == "range" and stored is not None and not stored.is_number


def _stand_in(kind: str, stored: Type | None) -> Fact:
    if kind == "moments":
        return Range(dt.date(2020, 1, 1), dt.date(2020, 1, 31))
    if kind == "range":
        return Range(0, 1, integer=stored is Type.INT)
    return Values(0, 1) if stored is Type.INT else Values("A", "B")
