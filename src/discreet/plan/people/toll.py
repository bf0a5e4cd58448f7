"""What a charge costs each person in it: statements for the database, and the most that anybody pays.

The database counts in whole parts of a person's capacity, exactly in 128 bits and rounded up once; what could leave
them is charged the worst case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.accounting.filter import Charge, Filter, Tally
from discreet.errors import InternalError, UnsupportedQuery
from discreet.ledger.people.table import BEYOND, CAPACITY, parts_of
from discreet.plan.bound import (
    Bounding,
    bounded_sql,
    contribution_stages,
    needs_secret,
    scope_stages,
)
from discreet.plan.people.rates import Rate, Rates, rates_of
from discreet.plan.plan import Plan, bounding

_MOST = 1 << 126
"""What the database's 128-bit numbers hold, and one bit less."""

_MOST_OF_64 = 1 << 62
"""The same of its 64-bit numbers, which are faster."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What one measurement costs its people.

    Attributes:
        sql: one row for each person with a row in the measurement: the id `u`, and the parts `p0` of the first sum.
        keyed: whether it has the `$secret` parameter.
        rest: the parts of the other sums, the same for everybody.
        least: the parts that everybody in it pays, whatever they add.
    """

    sql: str
    keyed: bool
    rest: tuple[int, ...]
    least: int


@dataclass(frozen=True, slots=True)
class Toll:
    """What a charge costs each person in it.

    Guarantee:
        For every person, the charge is, between the data with and without this person, a use of at most the cost that
        is counted: the person's own by contribution, or `worst` where that is less. It follows from that person's rows
        and from public facts. Who has no row in the charge's measurements does not move them (docs/proofs/people.md).

    Attributes:
        statements: one for each measurement.
        worst: the parts that the whole charge costs at most; a person is never charged more.
    """

    statements: tuple[Statement, ...]
    worst: tuple[int, ...]

    @property
    def keyed(self) -> bool:
        """Whether `sql` has the `$secret` parameter."""
        return any(s.keyed for s in self.statements)

    @property
    def sums(self) -> int:
        """How many sums are counted."""
        return len(self.worst)

    @property
    def hopeless(self) -> bool:
        """Whether nobody can ever pay it: a public fact."""
        return all(max(s.least, *s.rest, 0) > CAPACITY for s in self.statements)

    @property
    def sql(self) -> str:
        """One row for each person in the charge: the id `u`, and the parts `p0`, … of each sum."""
        shown = [
            f"SELECT u, p0{''.join(f', CAST({p} AS BIGINT) AS p{i}' for i, p in enumerate(s.rest, 1))} FROM ({s.sql}) t"
            for s in self.statements
        ]
        if len(shown) == 1:
            return shown[0]
        added = [f"CAST(least(sum(p{i}), {BEYOND}) AS BIGINT) AS p{i}" for i in range(self.sums)]
        return f"SELECT u, {', '.join(added)} FROM ({' UNION ALL '.join(shown)}) a GROUP BY u"


def toll_of(plans: Sequence[Plan], charge: Charge, rule: Filter, capacity: Tally) -> Toll:
    """What a charge for these measurements costs each person, counted by a filter of this capacity.

    Raises:
        InvalidParameter: the filter cannot count the charge.
        UnsupportedQuery: each row is a unit of its own.
    """
    _check_people(plans)
    worst = rule.cost(charge)
    parts = tuple(parts_of(x, most) for x, most in zip(worst, capacity, strict=True))
    statements = tuple(_statement(p, rates_of(p, rule, worst), capacity, parts) for p in plans)
    return Toll(statements, parts)


def whole_toll(plan: Plan, charge: Charge, rule: Filter, capacity: Tally) -> Toll:
    """As `toll_of`, for a charge of which `plan` says whose rows are in it: everybody pays the worst case."""
    _check_people([plan])
    worst = rule.cost(charge)
    parts = tuple(parts_of(x, most) for x, most in zip(worst, capacity, strict=True))
    return Toll((_everybody(bounding(plan.question), parts),), parts)


def same_people(plan: Plan, other: Plan) -> bool:
    """Whether the same people have rows in both, whatever the data."""
    return scope_stages(bounding(plan.question)) == scope_stages(bounding(other.question))


def _statement(plan: Plan, rates: Rates, capacity: Tally, worst: tuple[int, ...]) -> Statement:
    b = bounding(plan.question)
    rest = tuple(parts_of(x, most) for x, most in zip(rates.fixed[1:], capacity[1:], strict=True))
    if not rates.columns:
        return _everybody(b, worst)
    if bounded_sql(b) != plan.sql:
        raise InternalError("The contributions are not those of the question's SQL. Nothing was charged.")
    unit = Fraction(capacity[0], CAPACITY)
    wide = [max(-low, high) for low, high in (m.span(b.max_rows) for m in b.measures)]
    most = [(b.max_groups * m, b.max_groups * m * m) for m in wide]
    scaled = _Scaled.of(rates.columns, unit, rates.fixed[0], most)
    if scaled is None:
        return _everybody(b, worst)
    return Statement(
        f"{contribution_stages(b)},\n{scaled.sql(most, several=b.max_groups > 1)}",
        needs_secret(b),
        rest,
        scaled.fixed // scaled.divisor,
    )


def _everybody(b: Bounding, parts: tuple[int, ...]) -> Statement:
    text = f'{scope_stages(b)}\nSELECT u, CAST({parts[0]} AS BIGINT) AS p0 FROM "unit rows" GROUP BY u'
    return Statement(text, False, parts[1:], parts[0])


def _check_people(plans: Sequence[Plan]) -> None:
    if any(p.question.table.unit.is_row for p in plans):
        raise UnsupportedQuery(
            "Each person has an own budget, and in this table nobody can be told from others: each row is a unit.",
            hint="connect it with a column that names the unit: dp.PrivacyUnit('person_id', …)",
        )


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Rates as whole numbers over one divisor, in parts of the capacity; no sum of them leaves 126 bits.

    Attributes:
        columns: for each column what Σ|c|, Σc² and (Σ|c|)² are multiplied by.
        fixed: is added once.
        divisor: of the sum, which is rounded up.
    """

    columns: tuple[tuple[int | None, int | None, int], ...]
    fixed: int
    divisor: int

    @classmethod
    def of(
        cls, rates: Sequence[Rate], unit: Fraction, fixed: Fraction, most: Sequence[tuple[int, int]]
    ) -> _Scaled | None:
        """The rates in parts of `unit`, exactly where they fit, else rounded up; None if that does not fit either.

        `most` is, for each column, what Σ|c| and Σc² are at most.
        """
        given = [x for r in rates for x in (r.linear, r.square, r.total) if x is not None]
        exact = math.lcm(*((x / unit).denominator for x in [*given, fixed]))
        for divisor in [exact, *(1 << t for t in range(_FINEST, -1, -_STEP))]:
            found = cls(
                tuple(
                    (
                        _up(r.linear, unit, divisor),
                        _up(r.square, unit, divisor),
                        _up(r.total, unit, divisor) or 0,
                    )
                    for r in rates
                ),
                _up(fixed, unit, divisor) or 0,
                divisor,
            )
            if found._largest(most) < _MOST:
                return found
        return None

    def sql(self, most: Sequence[tuple[int, int]], *, several: bool) -> str:
        """The stage of each person's sums, and the person's parts: ⌈x⌉ as (x + d − 1) // d, with nothing below 0.

        `several` says whether a person may add to several groups; else each has one row, and nothing is to be summed.
        """
        wide = "BIGINT" if self._largest(most) < _MOST_OF_64 else "HUGEINT"
        total_of, by = ("sum", " GROUP BY u") if several else ("", "")
        sums, terms = [], []
        for i, (linear, square, total) in enumerate(self.columns):
            sums.append(f"CAST({total_of}(abs(m{i})) AS {wide}) AS a{i}")
            if square is not None:
                product = f"CAST(m{i} AS {wide}) * CAST(m{i} AS {wide})"
                sums.append(f"CAST({total_of}({product}) AS {wide}) AS q{i}")
            terms.append(_least(i, linear, square, total, wide))
        due = " + ".join([*terms, f"CAST({self.fixed + self.divisor - 1} AS {wide})"])
        parts = due if self.divisor == 1 else f"({due}) // CAST({self.divisor} AS {wide})"
        return (
            f'"unit sums" AS (\n  SELECT {", ".join(["u", *sums])} FROM "unit bounded"{by}\n)\n'
            f'SELECT u, CAST(least({parts}, {BEYOND}) AS BIGINT) AS p0 FROM "unit sums"'
        )

    def _largest(self, most: Sequence[tuple[int, int]]) -> int:
        """At most so large is any number on the way."""
        total = self.fixed + self.divisor
        for (linear, square, both), (a, q) in zip(self.columns, most, strict=False):
            total += a + (linear or 0) * a + (q + square * q if square is not None else 0)
            total += (both + 1) * a * a if both else 0
        return total


_FINEST, _STEP = 80, 16
"""Powers of two that are tried as divisors: parts of a part, below which rounding up is nothing."""


def _least(i: int, linear: int | None, square: int | None, total: int, wide: str) -> str:
    ways = []
    if linear is not None:
        ways.append(f"a{i} * CAST({linear} AS {wide})")
    if square is not None:
        both = f" + a{i} * a{i} * CAST({total} AS {wide})" if total else ""
        ways.append(f"q{i} * CAST({square} AS {wide}){both}")
    return f"least({', '.join(ways)})" if len(ways) > 1 else ways[0]


def _up(x: Fraction | None, unit: Fraction, divisor: int) -> int | None:
    return None if x is None else math.ceil(x / unit * divisor)
