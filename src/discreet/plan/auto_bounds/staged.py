"""Queries in two stages: what they lack is chosen from noisy counts of units, and with it they are asked.

`bounds="auto"` chooses how much a unit may add, and the ranges of values that have none; `bounds="values"` the ranges
alone, and `bounds="ranges"` these for their own sake. What both stages cost is fixed before the first: the second has
its ε and δ whatever is chosen, because its noise is calibrated to it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.catalog.schema import Range, TableSchema
from discreet.errors import InternalError, InvalidParameter, UnsupportedQuery
from discreet.plan.auto_bounds.caps import CANDIDATES, Caps, share_beyond
from discreet.plan.auto_bounds.queries import CapsQuery, Choice, RangesQuery, caps_query, ranges_query
from discreet.plan.auto_bounds.ranges import CONFIDENCE, LARGEST, MOST_OUTSIDE, share_outside
from discreet.plan.bound import bounding, tree_sql
from discreet.plan.explain import report_lines
from discreet.plan.measures.ranges import ChosenRanges, Missing, Ranges
from discreet.plan.nodes.node import Node, measured_in
from discreet.plan.notes import capped, clamped, missing, said_of, undeclared
from discreet.plan.plan import Payer, Plan, PlanOutput
from discreet.plan.quantile_tree.chosen import is_alone
from discreet.plan.query import Query, claim_in_stages, statements
from discreet.plan.question import Question, tree_reads
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.guarantee import Approximate, decimal, words
from discreet.query.expr import Expr
from discreet.verify.price import check_charge

if TYPE_CHECKING:
    pass

SHARE = Fraction(1, 10)
"""The part of ε that the choice of caps costs, and that of ranges as well."""

NEARLY_ALL = Fraction(99, 100)
"""The part that the choice of ranges costs where they are what is wanted, and not the numbers of the second stage."""


@dataclass(frozen=True, slots=True)
class ChosenBounds:
    """What a first stage chose, and what its noisy counts say of it.

    Attributes:
        choice: what was chosen.
        spent: what both stages cost together.
        named: what the ranges are of.
        limits: for each range, the share of units that have a value outside it is at most this, at `CONFIDENCE`.
        unsure: the values of which too many may lie outside.
        exceeding: the share of units that exceed the chosen caps is at most this, at `CONFIDENCE`.
        is_row: whether each row is a unit.
        grouped: whether the query has groups.
        share: the part of ε that each choice cost.
    """

    choice: Choice
    spent: Approximate
    named: tuple[str, ...]
    limits: tuple[Fraction, ...]
    unsure: tuple[Expr, ...]
    exceeding: Fraction
    is_row: bool
    grouped: bool
    share: Fraction

    @property
    def caps(self) -> Caps | None:
        """How much a unit may add, where that was chosen."""
        return self.choice.caps

    @property
    def ranges(self) -> dict[str, Range]:
        """The chosen range of each value that had none."""
        return dict(zip(self.named, self.choice.ranges, strict=True))

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was chosen, and at which price."""
        share = words(self.spent.epsilon * self.share, Fraction(0))
        caps, ranges = self.choice.caps, self.ranges
        said = []
        if caps is not None:
            more = "more groups, or more rows in one" if caps.total is None else "more rows"
            said += [
                f"{caps.words} {'were' if caps.total is None else 'was'} chosen privately, for {share}.",
                f"At most {percent(self.exceeding)} of units have {more} ({_SURE}).",
            ]
        if ranges:
            listed = "; ".join(f"{name}: {r!r}" for name, r in ranges.items())
            said.append(f"Bounds of values were chosen privately, for {share}: {listed}.")
        said += [self._said_of(*of) for of in zip(self.named, self.choice.ranges, self.limits, strict=True)]
        return tuple(said)

    def _said_of(self, name: str, chosen: Range, limit: Fraction) -> str:
        """How much may lie outside a chosen range."""
        most = percent(limit)
        lie = "rows lie" if self.is_row else "units have a value"
        bounds = f"{decimal(chosen.low)} … {decimal(chosen.high)}"
        other = "; one group may have more" if self.grouped and limit < 1 else ""
        said = f"At most {most} of {lie} outside the chosen range {bounds} of {name} ({_SURE}){other}."
        if limit <= MOST_OUTSIDE:
            return said
        return f"{said} That may be too many: what rests on {name} has no finite interval."

    def is_unsure(self, expr: Node, question: Question) -> bool:
        """Whether an output column's expression is made of values of which too many may lie outside their range."""
        clamped = [v for m in measured_in(expr) for v in question.measures[m.index].clamped]
        clamped += [tree_read.shape.value for tree_read in tree_reads([expr])]
        return any(v.expr in self.unsure for v in clamped)

    def explain(self, second: str) -> str:
        """Return what the first stage did, and the derivation of the second one."""
        share, caps = words(self.spent.epsilon * self.share, Fraction(0)), self.choice.caps
        lines = []
        if caps is not None:
            lines += [
                f"First stage ({share}): {_OF_UNITS}, with Laplace noise on each count;",
                f"  from it {'were' if caps.total is None else 'was'} chosen {caps.words}.",
            ]
        if self.ranges:
            lines.append(f"First stage ({share}): {_OF_VALUES}, with Laplace noise on each count;")
            lines += [f"  from them was chosen {r!r} for {name}." for name, r in self.ranges.items()]
            lines.append(f"  {_OF_OUTSIDE}, with Laplace noise on both numbers.")
        price = words(self.spent.epsilon, self.spent.delta)
        return "\n".join([*lines, "Second stage:", second, f"Both stages together: {price}."])


_SURE = f"{float(100 * CONFIDENCE):g} % confidence"
_OF_UNITS = "a census of units by their numbers of groups and rows"
_OF_VALUES = "counts of units by the sign and the power of two of their largest value, and of their least one"
_OF_OUTSIDE = "Then counts of units with a value outside the chosen bounds, and of those without"


@dataclass(frozen=True, slots=True)
class PlanStages:
    """How a query's bounds are chosen privately, before they are: free to look at.

    Guarantee:
        One unit is in one place of the census of caps, and in one place by its largest and one by its least value of
        each expression, so that each of both looks is (`share`·ε)-DP; the second stage has the rest of ε, and δ, for
        every choice (docs/proofs/census.md).

    Attributes:
        of_caps: the look from which caps are chosen; None where they are declared.
        of_values: the look from which ranges are chosen; None where none are missing.
        second: the second stage's query for a choice.
        last: that for the largest caps and ranges, and for all that does not depend on them.
        rehearsed: queries of the second stage to be tried before the charge: for the least and for the largest choices.
        spent: what both stages cost together.
        share: the part of ε that each look costs.
    """

    of_caps: CapsQuery | None
    of_values: RangesQuery | None
    second: Callable[[Choice], Query]
    last: Query
    rehearsed: tuple[Query, ...]
    spent: Approximate
    share: Fraction

    @property
    def left(self) -> Approximate:
        """What the first stage leaves of (ε, δ) for the second one, whatever is chosen."""
        looks = (self.of_caps is not None) + (self.of_values is not None)
        return Approximate(self.spent.epsilon * (1 - self.share * looks), self.spent.delta)

    @property
    def notes(self) -> tuple[str, ...]:
        """What its numbers leave out, as far as it does not follow from the first stage."""
        q, values = self.last.question, self.of_values
        parts = clamped(q, apart=() if values is None else values.exprs)
        if values is not None:
            are = "is" if len(values.named) == 1 else "are"
            parts.append(f"{', '.join(values.named)} {are} clamped to bounds that the first stage chooses")
        chosen = ["one unit counts within caps that the first stage chooses"]
        few = missing(self.last)
        if self.of_caps is not None and few:
            where = "" if q.outer.sets is None else ", from totals too"
            few = f"Small groups may be missing{where}; how small follows from the first stage."
        bias = said_of([*parts, *(capped(self.last) if self.of_caps is None else chosen)])
        return tuple(sentence for sentence in (bias, undeclared(q), few) if sentence)

    def settled(self, plan: Plan, choice: Choice) -> Plan:
        """Return the plan whose stages these are, with what was chosen."""
        query = self.second(choice)
        self.refuse_costlier(query)
        query = replace(query, chosen=self._settled(choice, query.question))
        return replace(plan, measurements=(query,), outputs={"": PlanOutput(query)}, stages=None)

    def refuse_costlier(self, query: Query) -> None:
        """Refuses a second stage that costs more than was set aside for it.

        Raises:
            InternalError: it does; the charge stands.
        """
        promised, left = query.allocation.guarantee, self.left
        if promised.epsilon > left.epsilon or promised.delta > left.delta:
            raise InternalError("The second stage costs more than was set aside for it. The charge stands.")

    def _settled(self, choice: Choice, question: Question) -> ChosenBounds:
        named: tuple[str, ...] = ()
        limits: tuple[Fraction, ...] = ()
        unsure: tuple[Expr, ...] = ()
        exceeding = Fraction(0)
        if self.of_values is not None:
            noise, exprs, named = self.of_values.outside, self.of_values.exprs, self.of_values.named
            limits = tuple(share_outside(out, inside, noise) for out, inside in choice.outside)
            unsure = tuple(e for e, limit in zip(exprs, limits, strict=True) if limit > MOST_OUTSIDE)
        if self.of_caps is not None and choice.caps is not None and choice.beyond is not None:
            exceeding = share_beyond(choice.beyond, choice.caps, self.of_caps.noise, self.of_caps.groups)
        is_row, grouped = question.table.unit.is_row, bool(question.keys.exprs)
        return ChosenBounds(choice, self.spent, named, limits, unsure, exceeding, is_row, grouped, self.share)

    def explain(self, plan: Plan) -> str:
        """Return what both stages do and cost."""
        share = words(self.spent.epsilon * self.share, Fraction(0))
        lines = []
        if self.of_caps is not None:
            lines.append(f"First stage ({share}): {_OF_UNITS}, from which caps are chosen.")
        if self.of_values is not None:
            listed = ", ".join(self.of_values.named)
            lines.append(
                f"First stage ({share}): {_OF_VALUES}, from which the bounds are chosen of {listed}. {_OF_OUTSIDE}."
            )
        left = words(self.left.epsilon, self.left.delta)
        lines.append(f"Second stage ({left}): the query with what was chosen.")
        outlook = f" {plan.outlook}" if plan.outlook else ""
        return "\n".join([*lines, f"Together: {plan.price}.{outlook}"])

    def described(self, plan: Plan) -> str:
        """Return the plan in a few lines."""
        what = " and ".join(
            name for name, look in (("the caps", self.of_caps), ("the bounds", self.of_values)) if look is not None
        )
        head = f"A plan in two stages that costs {plan.price}; {what}, and so the error, follow from the first"
        lines = (f"  {line} or less" for line in report_lines(*self.rehearsed))
        return "\n".join([head, *lines, *self.notes])


@dataclass(frozen=True, slots=True)
class StagedQuery:
    """A query that may be planned with any caps and ranges.

    Attributes:
        make: the plan with this ε, these caps (None: the declared ones) and these ranges of values without bounds.
        identify: the identity of a query that spends this ε.
        population: whose account pays.
        epsilon, delta: what both stages may spend.
        caps: whether caps are chosen; else the declared ones hold.
        rows: the most rows of a unit in a group that are declared, 1 where nothing is.
        share: the part of ε that each look costs.
        label: what tells its identity apart beside these.
    """

    make: Callable[[Fraction, Caps | None, Ranges], Query]
    identify: Callable[[Question, Fraction], str]
    population: str
    epsilon: Fraction
    delta: Fraction
    caps: bool
    rows: int
    share: Fraction = SHARE
    label: str = ""


def stage(asked: StagedQuery) -> Plan | None:
    """Decides a query in two stages; None where nothing is to be chosen, since all bounds are declared.

    Raises:
        PlanError, InvalidParameter: as `asked.make`; or there is nothing to choose for caps that were asked for.
    """
    left = asked.epsilon * (1 - asked.share)
    caps, missing, last = _largest(asked, left)
    is_row = last.question.table.unit.is_row
    if is_row and not missing.found and asked.caps:
        raise UnsupportedQuery(
            "Each row is a unit of its own, so there are no caps to choose.", hint="leave bounds='auto' out"
        )
    if is_row:
        caps = None
    if caps is None and not missing.found:
        return None
    _refuse_capped(last.question, caps, missing)
    exprs = tuple(missing.found)
    if caps is not None and exprs:
        left = asked.epsilon * (1 - 2 * asked.share)
        last = asked.make(left, caps, replace(missing, found=[]))

    def second(choice: Choice) -> Query:
        return asked.make(left, choice.caps, ChosenRanges(dict(zip(exprs, choice.ranges, strict=True))))

    each = asked.epsilon * asked.share
    of_caps = None if caps is None else caps_query(last, each, caps)
    of_values = ranges_query(last, each, exprs) if exprs else None
    events = Composed([(ApproximateEvent(left, asked.delta), 1)])
    for look in (of_caps, of_values):
        events = events if look is None else look.events + events
    one_window = () if caps is None or last.question.keys.count == 1 else (_narrowed(last, Caps(2, 2, 2)),)
    if exprs:
        rehearsed = _ends(asked, left, caps, last)
        what = "bounds and ranges" if caps is not None else "ranges"
        named = f"{what} chosen by a census: {rehearsed[-1].identity}"
    else:
        least = _narrowed(last)
        rehearsed = (last, least)
        named = f"bounds chosen by a census: {asked.identify(least.question, left)}"
    named += _told_apart(last.question, exprs) + asked.label
    identity = hashlib.sha256(named.encode()).hexdigest()
    spent = Approximate(asked.epsilon, asked.delta)
    stages = PlanStages(of_caps, of_values, second, last, (*rehearsed, *one_window), spent, asked.share)
    looks = tuple(look.claim for look in (of_caps, of_values) if look is not None)
    payer = Payer(asked.population, events, spent)
    plan = Plan(identity, (last,), {"": PlanOutput(last)}, (payer,), looks=looks, stages=stages)
    check_charge(claim_in_stages(looks, last, events, spent))
    return plan


def kept(choice: Choice, table: dict[str, Any]) -> dict[str, Any]:
    """Return what the ledger keeps of a result in two stages, beside the version of its form."""
    caps = None
    if choice.caps is not None:
        total = [] if choice.caps.total is None else [choice.caps.total]
        caps = [choice.caps.groups, choice.caps.rows, *total, *map(str, choice.beyond or ())]
    ranges = [
        [str(r.low), str(r.high), r.integer, str(out), str(inside)]
        for r, (out, inside) in zip(choice.ranges, choice.outside, strict=True)
    ]
    return {"caps": caps, "ranges": ranges, "table": table}


def restored(found: dict[str, Any]) -> tuple[Choice, dict[str, Any]]:
    """Return what `kept` wrote."""
    caps = beyond = None
    if found["caps"] is not None:
        groups, rows, *total, cut, units = map(int, found["caps"])
        caps, beyond = Caps(groups, rows, *total), (cut, units)
    kept = found["ranges"]
    ranges = tuple(Range(Fraction(a), Fraction(b), integer=whole) for a, b, whole, _, _ in kept)
    outside = tuple((int(out), int(inside)) for *_, out, inside in kept)
    return Choice(caps, ranges, outside, beyond), found["table"]


def percent(share: Fraction) -> str:
    """Return a share in percent, rounded up to two digits."""
    if not share:
        return "0 %"
    digits = max(1 - math.floor(math.log10(float(100 * share))), 0)
    return f"{float(Fraction(math.ceil(100 * share * 10**digits), 10**digits)):.{digits}f} %"


def with_caps(tables: Any, caps: Caps) -> tuple[Any, ...]:
    """Return the tables under these caps instead of the declared ones."""
    return tuple(t if t.public or t.unit.is_row else _under(t, caps) for t in tables)


def _under(table: TableSchema, caps: Caps) -> TableSchema:
    totals = [n for n in (table.unit.max_contributions, caps.total) if n is not None]
    unit = replace(table.unit, max_groups=caps.groups, max_rows=caps.rows, max_contributions=min(totals, default=None))
    return replace(table, unit=unit)


def _largest(asked: StagedQuery, left: Fraction) -> tuple[Caps | None, Missing, Query]:
    """Return the largest caps under which sums still fit their integers, found before anything is charged, and their
    plan.
    """

    def planned(rows: int, caps: Caps | None) -> tuple[Missing, Query]:
        missing = Missing(int(LARGEST), int(LARGEST) // rows)
        return missing, asked.make(left, caps, missing)

    if not asked.caps:
        return (None, *planned(asked.rows, None))
    most = CANDIDATES[-1]
    for i, rows in enumerate(reversed(CANDIDATES)):
        try:
            missing, plan = planned(rows, Caps(most, rows))
        except InvalidParameter:
            if i == 0:
                planned(1, Caps(1, 1))  # what is refused under any caps is refused now
            continue
        return Caps(min(most, plan.question.keys.count or most), rows), missing, plan
    raise InternalError("No caps can be planned. Nothing was charged.")


def _ends(asked: StagedQuery, left: Fraction, caps: Caps | None, last: Query) -> tuple[Query, ...]:
    """Return queries for the widest ranges of all and for the narrowest, with the least caps: what lies between can be
    planned as they can.

    Raises:
        UnsupportedQuery: a query that says itself between what values lie.
    """
    narrow = None if caps is None else Caps(1, 1)
    try:
        least = asked.make(left, narrow, Missing())
        if caps is None:
            return last, least
        return last, asked.make(left, narrow, Missing(int(LARGEST), int(LARGEST))), least
    except InvalidParameter:
        raise UnsupportedQuery(
            "The query cannot be asked with every range that could be chosen for its values.",
            hint="declare the bounds of its columns: dp.Range(low, high)",
        ) from None


_LEAST = Caps(1, 1)


def _narrowed(plan: Query, caps: Caps = _LEAST) -> Query:
    """Return the same query under small caps: its identity and its texts, to be tried before the charge."""
    question = replace(plan.question, table=_under(plan.question.table, caps))
    b = bounding(question)
    text, distinct = statements(question, b)
    trees = [(m, tree_sql(b, s.shape)) for (m, _), s in zip(plan.trees, question.trees, strict=True)]
    return replace(plan, question=question, sql=text, distinct=distinct, trees=tuple(trees))


def _told_apart(question: Question, missing: Sequence[Expr]) -> str:
    """Return what of a query its least choice may not show, and other choices do: which ranges are chosen, which
    totals may be measured as well, and which quantiles may be chosen by rank. Empty where there is nothing of it.
    """
    alone = [is_alone(question.outer.expressions, tree_read) for tree_read in question.trees]
    shown = {
        "missing": [e.identity for e in missing],
        "sets": None if question.outer.sets is None else [list(kept) for kept in question.outer.sets],
        "alone": alone if any(alone) else None,
    }
    found = {name: part for name, part in shown.items() if part}
    return f" {json.dumps(found, sort_keys=True, ensure_ascii=True)}" if found else ""


def _refuse_capped(question: Question, caps: Caps | None, missing: Missing) -> None:
    """SUM_WITHIN and COUNT_WITHIN tighten what is declared, and cannot tighten what is not known yet."""
    capped = [m for m in question.measures if m.has_bounds]
    if capped and caps is not None:
        raise UnsupportedQuery(
            "SUM_WITHIN and COUNT_WITHIN say themselves how much a unit adds to a group, and bounds='auto' would "
            "choose it.",
            hint="ask SUM or COUNT; or leave bounds='auto' out and declare caps: "
            "dp.PrivacyUnit(column, max_groups=…, max_rows=…)",
        )
    if any(v.expr in missing.found for m in capped for v in m.clamped):
        raise UnsupportedQuery(
            "SUM_WITHIN needs declared bounds of its values.", hint="ask SUM; or declare them: dp.Range(low, high)"
        )
