"""What truncation reports say: shares of rows or units with intervals, and how far truncation bias may go.

Guarantee:
    Post-processing of the noisy counts and of the released numbers. Each interval holds its share with 95 %, each
    "at most" holds with 95 %. What is said of bias is true of the data whenever the limits in it are: it follows from
    how many rows or units can be concerned, never from a guess at the values beyond the bounds, which nothing limits
    (docs/proofs/truncation.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from discreet.catalog.types import Type
from discreet.mechanisms.summed import summed_noises
from discreet.plan.measures.lattice_value import LatticeValue
from discreet.plan.measures.measure import KnownCount, KnownUnits, Measure, RowCount, Total, UnitCount
from discreet.plan.nodes.node import Node, measured_in
from discreet.plan.question import tree_reads
from discreet.plan.reports import Part, Report, count_margin
from discreet.query.expr import Literal, walk

if TYPE_CHECKING:
    from discreet.mechanisms.additive import Additive
    from discreet.plan.decided import Decided

_BOTH = Fraction(39, 40)
"""Two limits that hold with this probability hold together with 19/20."""

_ONE = Fraction(19, 20)
"""A symmetric noise is above its quantile of this probability, in size, with 1/40 on one side."""


@dataclass(frozen=True, slots=True)
class Share:
    """A noisy share of the rows, or of the units, and its 95 % interval."""

    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Reported:
    """A report with its noisy counts."""

    report: Report
    noise: Additive
    counts: tuple[int, ...]

    @property
    def shares(self) -> dict[Part, Share]:
        """For each part the share of which it is so."""
        return {part: self._share(part) for part in self.report.parts}

    def count(self, *parts: Part) -> int:
        """About how many have any of these parts."""
        return max(sum(self.counts[i] for i in self.report.counted(parts)), 0)

    def most(self, *parts: Part) -> int:
        """At most how many have any of these parts, with 97.5 %."""
        places = self.report.counted(parts)
        return max(sum(self.counts[i] for i in places) + self._quantile(len(places), _ONE), 0)

    def margin(self, part: Part) -> int:
        """By how much the noise moves the count of a part at most, with 95 %."""
        return count_margin(self.report, self.noise, part)

    @property
    def is_key(self) -> bool:
        """Whether rows of its parts are in no group."""
        return self.report.of is not None and not isinstance(self.report.of, LatticeValue)

    def most_of_known(self, part: Part) -> float:
        """At most which share of the known values have a part, and one value more, with 97.5 %."""
        s, r, up, down = self._apart(part, without=[Part.NULL])
        return _ratio(s + up + 1, r - down - 1)

    def to_json(self) -> dict[str, Any]:
        """Return the shares as JSON."""
        shares = {p.value: {"share": s.share, "interval": [s.low, s.high]} for p, s in self.shares.items()}
        bounds = self.report.bounds or None
        return {"of": self.report.name, "bounds": bounds, "counted": self.report.what, "shares": shares}

    def _share(self, part: Part) -> Share:
        """Return the share s/(s + r) of s that have the part among these and r others, whose noises are independent: it
        grows with s and falls with r, so that limits of both give its own.
        """
        s, r, up, down = self._apart(part)
        return Share(_ratio(s, r), _ratio(s - up, r + down), _ratio(s + up, r - down))

    def _apart(self, part: Part, without: Sequence[Part] = ()) -> tuple[int, int, int, int]:
        """How many have the part, how many others there are, and how far each may be off, with 97.5 %."""
        of = self.report.counted([part])
        others = [i for i in range(len(self.counts)) if i not in (*of, *self.report.counted(without))]
        s, r = (sum(self.counts[i] for i in places) for places in (of, others))
        return s, r, self._quantile(len(of), _BOTH), self._quantile(len(others), _BOTH)

    def _quantile(self, counts: int, level: Fraction) -> int:
        return summed_noises((self.noise,), counts)[0].quantile(level) if counts else 0


def _ratio(s: int, r: int) -> float:
    """s/(s + r) of numbers that are taken as 0 where they are below; 0 where nothing has the part."""
    return max(s, 0) / max(max(s, 0) + max(r, 0), 1)


def reported(plan: Decided, counts: Sequence[int]) -> tuple[Reported, ...]:
    """Return the reports of a release, whose noisy counts stand side by side."""
    found, at = [], 0
    for report, noise in zip(plan.reports, plan.allocation.reports, strict=True):
        found.append(Reported(report, noise, tuple(counts[at : at + report.places])))
        at += report.places
    return tuple(found)


Row: TypeAlias = "tuple[tuple[Any, ...], tuple[Additive, ...], Any]"
"""A row of the result, for one column: its noisy integers, their noises, and the column's 95 % interval."""


def report_notes(plan: Decided, found: Sequence[Reported], rows: Callable[[str], Sequence[Row]]) -> list[str]:
    """Return what the reports say, in sentences, and what of truncation bias follows for each column, in its `rows`."""
    if not found:
        return []
    notes = [bias(plan, found, n, e, rows(n)) for n, e in plan.question.outer.columns if not plan.is_end(n)]
    return [*(_said(plan, r) for r in found), *(note for note in notes if note is not None)]


def _said(plan: Decided, r: Reported) -> str:
    """Return a report in a sentence."""
    unit, report, is_row = plan.question.table.unit, r.report, r.report.is_row
    if report.of is None:
        groups, rows = unit.caps or (0, 0)
        what = {
            Part.GROUPS: f"have rows in more than {groups} groups",
            Part.ROWS: f"have more than {rows} rows in one group",
            Part.ALL: f"have more than {unit.max_contributions} rows in all",
        }
        first, *others = (f"bout {r.count(p):,} ± {r.margin(p):,} units {what[p]}" for p in report.parts)
        return "; ".join([f"A{first}", *(f"a{other}" for other in others)]) + "."
    of = "in {} of the rows" if is_row else "in rows of {} of the units"
    each = [
        f"{'NULL' if part is Part.NULL else part.value} {of.format(_percent(s.share))} "
        f"({_percent(s.low)} to {_percent(s.high)})"
        for part, s in r.shares.items()
    ]
    name = f"{report.name}, clamped to {report.bounds}" if report.bounds else report.name
    verb = "are" if is_row else "have rows"
    lost = f"; at most {r.most(*report.parts):,} {report.what} (97.5 %) {verb} in no group for it"
    return f"{name[:1].upper()}{name[1:]}: {', '.join(each)}{lost if r.is_key else ''}."


def bias(plan: Decided, found: Sequence[Reported], name: str, expr: Node, rows: Sequence[Row]) -> str | None:
    """Whether what is cut off may move a column of the result by more than its margin of error, in any of its rows;
    None where nothing is cut off of it.
    """
    used = [plan.question.measures[m.index] for m in measured_in(expr)]
    trees = [tree_read.shape for tree_read in tree_reads([expr]) if tree_read.shape.layers is None]
    values = {v for m in used for v in m.clamped} | {s.value for s in trees}
    caps = [r for r in found if r.report.of is None and (used or trees)]
    once = bool(used) and not trees and all(m.is_of_units for m in used)
    if once:
        of_groups = {Part.GROUPS, Part.ALL}
        caps = [r for r in caps if of_groups & {*r.report.parts}]  # a unit counts once, however many rows it has
    concerned = [*caps, *(r for r in found if r.report.of in values)]
    if expr.type is Type.MAP and trees[0].listed is not None:
        concerned = caps  # other values are in none of its counts
    if not concerned or not rows:
        return None
    if expr.shares and not plan.question.keys.exprs and _holds(expr.shares[0], concerned):
        return f"No truncation bias in {name!r} (95 %): its quantile lies within the bounds."
    limit = _limit(plan, expr, used, rows)
    if limit is None:
        return f"Truncation bias of {name!r} may exceed its margin of error: nothing limits what is cut off."
    kinds = [Part.GROUPS, Part.ALL] if once else [p for p in Part if p is not Part.NULL]
    most = sum(r.most(*kinds) for r in concerned)
    far, wide = limit[0] / max(most, 1), limit[1]
    if not most or math.isinf(far):
        return f"No truncation bias in {name!r} (95 %): nothing is cut off." if not most else None
    if once and far >= 1:  # of a unit at most 1 is cut off in a group
        said = f"at most {most:,} units are not in all of their groups"
        return f"Truncation bias of {name!r} is within its margin of error (95 %): {said}."
    may = "may exceed its margin of error: it can if" if far < wide else "exceeds its margin of error only if"
    if concerned[0].report.is_row:
        when = f"the rows beyond the bounds, at most {most:,} (95 %), lie more than {far:,.4g} beyond them on average"
    else:
        when = f"more than {far:,.4g} is cut off, on average, of each unit concerned, at most {most:,} (95 %)"
    return f"Truncation bias of {name!r} {may} {when}."


def _limit(plan: Decided, expr: Node, used: Sequence[Measure], rows: Sequence[Row]) -> tuple[float, float] | None:
    """How much may be cut off in all before a column moves by more than its margin of error, in some row of the result;
    and how much one row or unit adds at most with the bounds and caps applied. None for what is not known to move in
    proportion.

    What is cut off moves a sum or a count by as much, and the mean of n rows by an nth of it: clamping leaves n as it
    is, but caps do not.
    """
    is_row, caps = plan.question.table.unit.is_row, plan.question.table.unit.caps
    assert caps is not None
    most_rows = caps[1]
    margins = [_margin(interval) for _, _, interval in rows]
    if used and expr.is_drawn and isinstance(used[0], _PROPORTIONAL):
        low, high = used[0].span(most_rows)
        if is_row and isinstance(used[0], Total):
            low, high = used[0].value.low, used[0].value.high
        return min(margins), float((high - low) * used[0].step)
    place, width = expr.over, expr.mean_width
    if place is not None and width is not None and is_row:
        least = [max(cells[place] - noises[place].quantile(_ONE), 0) for cells, noises, _ in rows]
        totals = [margin * n if n else 0.0 for margin, n in zip(margins, least, strict=True)]
        return min(totals), float(width)
    return None


_PROPORTIONAL = (Total, RowCount, KnownCount, UnitCount, KnownUnits)


def _margin(interval: Any) -> float:
    """Return the margin of error; infinite where there is none."""
    known = isinstance(interval, tuple) and all(isinstance(end, int | float) for end in interval)
    return (interval[1] - interval[0]) / 2 if known else math.inf


def _holds(p: Fraction, concerned: Sequence[Reported]) -> bool:
    """Whether so few of the known values lie below the bounds, and so few above, that the quantile lies within them.

    Of rows that FILTER leaves out it is not known how many there are.
    """
    (r, *others) = concerned
    of, parts = r.report.of, r.report.parts
    if others or not r.report.is_row or Part.BELOW not in parts or not isinstance(of, LatticeValue):
        return False
    # with one value more, quantiles between two values lie within the bounds as well
    low, high = (r.most_of_known(part) for part in (Part.BELOW, Part.ABOVE))
    arms = [args[-1] for e in walk(of.expr) if (args := e.args_of("case"))]
    filtered = any(isinstance(last, Literal) and last.value is None for last in arms)
    return not filtered and low < p < 1 - high


def _percent(share: float) -> str:
    return f"{Decimal(f'{100 * share:.3g}'):f} %"
