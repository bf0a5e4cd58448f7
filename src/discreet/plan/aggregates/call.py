"""An aggregate as a query calls it: its node, with its arguments bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from discreet.catalog.types import Type
from discreet.errors import UnsupportedQuery
from discreet.pages import page
from discreet.query.bind import bind_row, call, coerce
from discreet.query.expr import Expr, Literal
from discreet.query.parse import word
from discreet.query.scope import Scope

HINT = f"{page('sql-reference')} lists the supported aggregates"
_NO_NUMBER = (
    "ask for MEDIAN(x), MIN(x) or MAX(x), or for a number of it that has bounds: "
    "AVG(least(365, greatest(0, date_diff('day', DATE '2026-01-01', x))))"
)

Applied: TypeAlias = tuple[str, tuple[Expr, ...]]
"""An aggregate's name among `AGGREGATES`, and its arguments."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate as it is asked for: its node, whose names `scope` knows, over the rows that `where` keeps.

    Attributes:
        node: the aggregate itself, without FILTER.
        scope: what names stand for.
        where: the condition of FILTER (WHERE …), bound; None without one.
    """

    node: exp.Expr
    scope: Scope
    where: Expr | None

    @property
    def word(self) -> str:
        """The aggregate in the user's words."""
        return word(self.node)

    def value(self, argument: exp.Expr) -> Expr:
        """Return an argument over the cells of a row; NULL on the rows that FILTER leaves out."""
        return self.kept(bind_row(argument, self.scope))

    def kept(self, value: Expr) -> Expr:
        """CASE WHEN where THEN value END."""
        return value if self.where is None else call("case", [self.where, value, Literal(None, None)])

    def number(self, argument: exp.Expr | None) -> Expr:
        """Return an argument that is a number; true and false are 1 and 0, and text is read as a number."""
        if isinstance(argument, exp.Distinct):
            raise UnsupportedQuery(f"{self.word} with DISTINCT is not supported here.", hint=HINT)
        if argument is None or isinstance(argument, exp.Star):
            raise UnsupportedQuery(f"{self.word} needs one number.", hint=f"write {self.word}(x)")
        kind = bind_row(argument, self.scope).type
        if kind is not None and kind.is_moment:
            raise UnsupportedQuery(f"{self.word} of a date or time is not supported here.", hint=_NO_NUMBER)
        if kind not in (Type.BOOL, Type.INT, Type.REAL, Type.TEXT):
            raise UnsupportedQuery(f"{self.word} needs a number.", hint="CAST the argument to DOUBLE")
        value = self.value(argument)
        if kind is Type.BOOL:
            return coerce(value, Type.INT)
        return coerce(value, Type.REAL) if kind is Type.TEXT else value

    def condition(self, argument: exp.Expr | None) -> Expr:
        """Return an argument that is true or false."""
        if argument is None or isinstance(argument, exp.Distinct | exp.Star):
            raise UnsupportedQuery(f"{self.word} needs one condition.", hint=f"write {self.word}(x > 0)")
        if bind_row(argument, self.scope).type is not Type.BOOL:
            raise UnsupportedQuery(f"{self.word} needs a condition.", hint=f"write {self.word}(x > 0), for instance")
        return self.value(argument)
