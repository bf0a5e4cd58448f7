"""A question whose counts of rows under conditions are read from one partition, in place of a column for each.

References: docs/proofs/partition.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet.plan.cost import sensitivity_of, spread_sensitivity
from discreet.plan.expr import (
    Call,
    Covariance,
    Expr,
    Literal,
    Mean,
    Measured,
    Several,
    Slope,
    Within,
    walk,
)
from discreet.plan.measures.lattice_value import LatticeValue
from discreet.plan.measures.measure import KnownCount, Measure, RowCount
from discreet.plan.partition.regions import partition
from discreet.plan.partition.strategy import chosen
from discreet.plan.spreads.spread import Spread
from discreet.plan.types import Type

if TYPE_CHECKING:
    from discreet.plan.bound import Bounding
    from discreet.plan.question import Outer, Question


def counted_jointly(question: Question, b: Bounding, *, gaussian: bool) -> Question | None:
    """The same question with its counts under conditions read from one partition; None where there are no two of them,
    where that is not better, or where a unit has many rows: what counts of its rows under a cap then depended on which
    other conditions are asked for.

    Args:
        question: what is asked, without totals.
        b: its caps and groups.
        gaussian: whether noise is Gaussian.
    """
    if question.outer.sets is not None or not b.table.unit.is_row:
        return None
    elsewhere = {m.index for e in question.outer.expressions for m in in_ratios(e)}
    every = Literal(True, Type.BOOL)
    places = {
        i: found
        for i, m in enumerate(question.measures)
        if (found := every if isinstance(m, RowCount) else condition(m)) and i not in elsewhere
    }
    joint = joint_spread(list(places.values()), b, gaussian=gaussian)
    if joint is None:
        return None
    spread, leaves = joint
    of_place = dict(zip(places, leaves, strict=True))
    left = [i for i in range(len(question.measures)) if i not in places]

    def swap(m: Measured) -> Expr:
        if m.index in of_place:
            return Within(spread, of_place[m.index])
        return replace(m, index=left.index(m.index))

    measures = tuple(question.measures[i] for i in left)
    return replace(question, measures=measures, outer=swapped(question.outer, swap))


def condition(measure: Measure) -> Expr | None:
    """The condition whose rows a measure counts: COUNT(CASE WHEN condition THEN 1 END); None for another measure."""
    if not isinstance(measure, KnownCount):
        return None
    match measure.argument:
        case Call("case", (where, Literal(value, _), Literal(None, _)), _) if value is not None:
            return where
    return None


def joint_spread(
    conditions: Sequence[Expr], b: Bounding, *, gaussian: bool
) -> tuple[Spread, list[tuple[int, ...]]] | None:
    """The spread from which the rows under these conditions are counted, and for each condition its leaves; None where
    each is better counted by itself.
    """
    if len(conditions) < 2:
        return None
    cut = partition(conditions)
    if cut is None or not all(cut.inside) or cut.cells < 2:
        return None
    layers = chosen(cut.inside, cut.cells, _moved(b, cut.cells), gaussian=gaussian)
    if layers is None:
        return None
    place = LatticeValue(cut.place, 0, cut.cells - 1, Fraction(1))
    return Spread(place, 1, None, cut.cells, len(layers), layers), list(cut.inside)


def ranges_of(question: Question, spread: Spread) -> int:
    """How many different counts a question reads from a spread; as many columns would have been measured else."""
    read = {e for expr in question.outer.expressions for e in walk(expr) if isinstance(e, Within)}
    return len({e.leaves for e in read if e.spread == spread})


def width_of(question: Question) -> int:
    """In how many parts the budget of a question's columns is divided: for a count read from a partition one."""
    read = [looked.spread for looked in question.spreads]
    return len(question.measures) + sum(s.depth if s.layers is None else ranges_of(question, s) for s in read)


def shares_of(question: Question) -> tuple[Fraction, ...]:
    """The part of the columns' budget that each column has and each level of each spread, such that all of a
    partition's levels have what its counts would have had together; nothing where all parts are alike anyhow.
    """
    read = [looked.spread for looked in question.spreads]
    if all(s.layers is None for s in read):
        return ()
    each = Fraction(1, width_of(question))
    levels = [each if s.layers is None else each * ranges_of(question, s) / s.depth for s in read]
    return (*(each for _ in question.measures), *levels)


def swapped(outer: Outer, swap: Callable[[Measured], Expr]) -> Outer:
    """The same clauses with each noisy column in them replaced."""
    return replace(
        outer,
        columns=tuple((n, _swapped(e, swap)) for n, e in outer.columns),
        having=None if outer.having is None else _swapped(outer.having, swap),
        order=tuple(replace(o, by=_swapped(o.by, swap)) for o in outer.order),
    )


def _swapped(expr: Expr, swap: Callable[[Measured], Expr]) -> Expr:
    match expr:
        case Measured():
            return swap(expr)
        case Call(name, args, kind):
            return Call(name, tuple(_swapped(a, swap) for a in args), kind)
        case Several(items, kind):
            return Several(tuple(_swapped(e, swap) for e in items), kind)
        case Mean() | Covariance() | Slope():
            changed: Mapping[str, Expr] = {
                f.name: _swapped(part, swap)
                for f in fields(expr)
                if isinstance(part := getattr(expr, f.name), Measured | Mean | Covariance)
            }
            return replace(expr, **changed)  # type: ignore[arg-type]  # what is swapped in a ratio stays a column
        case _:
            return expr


def in_ratios(expr: Expr) -> list[Measured]:
    """The noisy columns that means and the like are made of, which have to be columns."""
    found: list[Measured] = []
    for e in walk(expr):
        if isinstance(e, Mean | Covariance | Slope):
            parts = [getattr(e, f.name) for f in fields(e)]
            found += [p for p in parts if isinstance(p, Measured)]
            found += [m for p in parts if isinstance(p, Mean | Covariance) for m in in_ratios(p)]
    return found


def _moved(b: Bounding, cells: int) -> tuple[float, float]:
    """The norms by which one unit moves a level of the cells, of those by which it moves one count."""
    one = sensitivity_of((0, 1), b.max_groups, b.keys.count, b.table.relation)
    level = spread_sensitivity(1, b.max_groups, b.keys.count, cells, b.table.relation)
    return level.l1 / one.l1, level.l2_squared / one.l2_squared
