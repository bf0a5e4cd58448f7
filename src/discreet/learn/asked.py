"""Rows of declared columns that recipes read, of arrays or as SQL, and the fitted estimator that comes out.

Bounds, labels and the target's range are those that the owner declared. A number is read as its distance from the
middle of its bounds, so that what is missing counts as the middle.
"""

from __future__ import annotations

import datetime as dt
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from discreet.catalog.schema import Fact, Range, Values, asked_table, refuse_undeclared
from discreet.engine.person_recipe import PersonRecipe, as_json
from discreet.errors import InvalidParameter, MissingBounds
from discreet.learn.features import DeclaredColumn, Features
from discreet.learn.losses import Floats
from discreet.plan.measures.lattice_value import lattice_value
from discreet.plan.parts import PersonPart, person_part, plan_recipe
from discreet.plan.person_rows import PersonRows, person_rows
from discreet.privacy.unit import Sensitivity
from discreet.query.expr import Column, quoted
from discreet.verify.certificate.seal import answer

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.engine.person_parts import Parts, PeopleRows
    from discreet.engine.recipe import Receipt
    from discreet.plan.plan import Plan


@dataclass(frozen=True)
class DeclaredRows(PersonRecipe):
    """A recipe that reads rows of declared columns, from arrays or from a session's tables."""

    columns: tuple[DeclaredColumn, ...]  # the declared columns, which are read under the names x0, x1, …
    epsilon: Fraction  # the ε to be spent
    delta: Fraction  # the δ to be spent
    sql: str | None = field(default=None, kw_only=True)  # which names a session's columns; None for the arrays' own
    per_person: int = field(default=1, kw_only=True)  # how many rows of a person are read at most
    # whether numbers are read as distances from the middle of their bounds
    centred: bool = field(default=False, kw_only=True)
    # in a session the estimator that is fitted, with its declarations; a fit leaves it as it is
    model: Any = field(default=None, repr=False, compare=False, kw_only=True)

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        epsilon, told = self.epsilon * part, {"recipe": type(self).__name__, "said": self.said}
        return plan_recipe(self.parts(self.read(tables), epsilon), epsilon=epsilon, delta=self.delta, parameters=told)

    @abstractmethod
    def parts(self, rows: PersonRows, epsilon: Fraction) -> list[PersonPart]:
        """Return what is drawn of rows; `epsilon` is for laws that are given here."""

    @property
    @abstractmethod
    def said(self) -> Any:
        """What the result follows from beside the rows, as plain values."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Parts:
        """Return what `prepare` made of the rows, which every draw adds up."""
        found: Parts = people.prepared
        return found

    def build(self, plan: Plan, state: Any, receipt: Receipt) -> Any:
        """Return a fitted estimator: all of it follows from the state; of no estimator the table."""
        if self.model is None:
            return super().build(plan, state, receipt)
        found = as_json(state)
        columns, rows = self.table(plan, found)
        fitted: Any = clone(self.model)
        fitted.declare_columns(self.model._columns)
        fitted.accept(plan, found)
        fitted.__dict__["_receipt"] = (receipt, columns, [tuple(row) for row in rows])
        return fitted

    def answers(self, plan: Plan, state: Any, result: Any) -> Mapping[str, dict[str, Any]]:
        """Return the table as JSON, of which the ledger keeps a digest."""
        return {"": answer(*self.table(plan, as_json(state)))}

    def read(self, tables: Sequence[TableSchema]) -> PersonRows:
        """Return which rows are read."""
        return read_rows(self.sql, tables, self.per_person)

    def cells(self, people: PeopleRows) -> Iterator[NDArray[Any]]:
        """Yield each column of people's rows as numbers within its bounds, or as places of its values."""
        return (
            np.clip(people.real(f"x{i}") + c.middle * self.centred, c.low, c.high)
            if c.values is None
            else np.clip(people.column(f"x{i}"), 0, len(c.values))
            for i, c in enumerate(self.columns)
        )

    def numbers(self, people: PeopleRows, low: float, high: float) -> Floats:
        """Return the target of people's rows, within its bounds."""
        return np.clip(people.real("y") + (low + high) / 2 * self.centred, low, high)


@dataclass(frozen=True)
class FeatureRows(DeclaredRows):
    """A recipe that makes features of its rows."""

    basis: str = field(default="linear", kw_only=True)  # of the features: "linear" or "gam"
    knots: int = field(default=12, kw_only=True)  # of the basis "gam"
    # of a regressor the bounds of the target, read under the name y; None where y is a label 0, 1, …, or the number
    # after the last for every undeclared one, or is not read
    target: tuple[float, float] | None = field(default=None, kw_only=True)

    @cached_property
    def features(self) -> Features:
        """The features, the last of which is constant."""
        return Features(self.columns, self.basis, self.knots)

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Return the weights, a column for each output."""
        names, weights = [*self.features.names, "intercept"], state["weights"]
        shown = ["feature", *(f"weight {k}" for k in range(len(weights)))]
        return shown, [[*row] for row in zip(names, *weights, strict=True)]


def read_rows(sql: str | None, tables: Sequence[TableSchema], per_person: int) -> PersonRows:
    """Return the rows that a fit reads: of a session's tables by a query, of arrays all columns as they are."""
    if sql is not None:
        return person_rows(sql, tables, rows=per_person)
    (table,) = tables  # of arrays: there is no text to read, and there may be many columns
    found = person_rows(f"SELECT x0 FROM {table.name}", tables)
    facts = {name: lattice_value(Column(name, kind), table.facts) for name, kind in table.columns.items() if kind}
    return replace(found, columns=facts)


@dataclass(frozen=True, slots=True)
class AskedColumns:
    """What a session's fit reads."""

    facts: dict[str, Fact]  # what is declared of each feature
    target: Fact | None  # what is declared of the target; None of an estimator without one
    name: str  # the target's name
    table: str  # the table's name
    where: str | None  # a condition on its rows; None for all
    per_person: int  # how many rows of a person are read at most
    relation: str  # the account's

    @classmethod
    def of(
        cls,
        tables: Sequence[TableSchema],
        features: Sequence[str] | None,
        target: str | None,
        table: str | None,
        where: str | None,
    ) -> AskedColumns:
        """Read what was asked.

        Raises:
            UnknownColumn: there is no such table or column.
            MissingBounds: nothing is declared of a column.
            InvalidParameter: it cannot be read so.
        """
        if isinstance(features, str) or features == []:
            raise InvalidParameter("features= is a list of columns.", hint="features=['age', 'sex'], target='income'")
        own = asked_table(table, tables)
        goal = [] if target is None else [own.find(target)]
        if features is None:
            names = [name for name in own.facts if name not in (*goal, own.unit.column)]
        else:
            names = [own.find(name) for name in features]
        if not names:
            raise MissingBounds(
                "Nothing is declared of any column to learn from.",
                hint="columns={'age': dp.Range(LOW, HIGH)}, or dp.Values(…), when you connect",
            )
        if len({*names, *goal}) < len(names) + len(goal):
            raise InvalidParameter("features= and target= are different columns.")
        refuse_undeclared(own, [*names, *goal])
        rows = own.unit.max_rows or 1
        facts = {name: own.facts[name] for name in names}
        aim = own.facts[goal[0]] if goal else None
        return cls(facts, aim, "".join(goal), own.name, where, rows, own.relation.value)

    def sql(self, labels: Sequence[Any] | None) -> str:
        """Return the query of the columns; with labels the target is their place, and else a number."""
        shown = [f"{_read(name, fact)} AS x{i}" for i, (name, fact) in enumerate(self.facts.items())]
        if self.target is not None:
            goal = _read(self.name, self.target) if labels is None else _place(self.name, labels)
            shown.append(f"{goal} AS y")
        condition = "" if self.where is None else f" WHERE {self.where}"
        return f"SELECT {', '.join(shown)} FROM {quoted(self.table)}{condition}"


def _read(name: str, fact: Fact) -> str:
    """Return a column as a number: its distance from the middle of its bounds, or the place of its value."""
    if isinstance(fact, Values):
        return _place(name, fact.values)
    if fact.type.is_moment:
        raise InvalidParameter(f"the bounds of {name!r} are dates.", hint="learn from numbers, not from dates")
    return f"CAST({quoted(name)} AS DOUBLE) - ({middle_of(fact)!r})"


def in_cells(width: int, rows: int) -> Sensitivity:
    """Return how far a person with so many rows, each in one cell, moves counts of cells."""
    return Sensitivity(min(width, rows), rows, l1=rows, l2_squared=rows * rows)


def histogram_part(rows: PersonRows, numbers: int, bins: int, share: Fraction) -> PersonPart:
    """Return the private part of a histogram of each number, in which each row counts once."""
    m = rows.most
    norms = Sensitivity(numbers * min(bins, m), m, l1=numbers * m, l2_squared=numbers * m * m)
    return person_part("histogram", rows, width=numbers * bins, norms=norms, kind="places", share=share)


def middle_of(fact: Range) -> float:
    """Return the middle of a range."""
    return float(fact.low + fact.high) / 2


def _place(name: str, values: Sequence[Any]) -> str:
    """Return the place of a column's value among these; after the last for every other."""
    own = quoted(name)
    cases = [
        f"WHEN {own} IS NULL THEN {i}" if v is None else f"WHEN {own} = {_literal(name, v)} THEN {i}"
        for i, v in enumerate(values)
    ]
    return f"CASE {' '.join(cases)} ELSE {len(values)} END"


def _literal(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return f"DATE '{value.isoformat()}'"
    raise InvalidParameter(f"the values of {name!r} cannot be learned from: texts, numbers, booleans and dates can.")
