"""Questions in two stages: what they lack is chosen from noisy counts of units, and with it they are asked.

`bounds="auto"` chooses how much a unit may add, and the ranges of values that have none; `bounds="values"` the ranges
alone. What both stages cost is fixed before the first: the second has its ε and δ whatever is chosen, because its noise
is calibrated to it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.accounting.filter import Charge
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InternalError, InvalidParameter, UnsupportedQuery
from discreet.plan.auto_bounds.caps import CANDIDATES, Caps, share_beyond
from discreet.plan.auto_bounds.queries import CapsLook, ValuesLook, look_at_caps, look_at_values
from discreet.plan.auto_bounds.ranges import CONFIDENCE, LARGEST, MOST_OUTSIDE, share_outside
from discreet.plan.claim import claim_in_stages
from discreet.plan.explain import explain, report_lines
from discreet.plan.expr import Expr, measured_in
from discreet.plan.measures.ranges import ChosenRanges, Missing, Ranges
from discreet.plan.notes import capped, clamped, missing, said_of, undeclared
from discreet.plan.plan import Plan, bounding, statements
from discreet.plan.quantile_tree.chosen import is_alone
from discreet.plan.quantile_tree.shape import looked_at
from discreet.plan.quantile_tree.sql import spread_sql
from discreet.plan.question import Question
from discreet.plan.schema import Range, TableSchema
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.guarantee import Approximate, Budget, decimal, words
from discreet.verify.claim import Look, PlanClaim
from discreet.verify.price import check_charge

if TYPE_CHECKING:
    from discreet.noise.entropy import Entropy

SHARE = Fraction(1, 10)
"""The part of ε that the choice of caps costs, and that of ranges as well."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the first stage chose.

    Attributes:
        caps: how much a unit may add; None where that is declared.
        ranges: of the values that had none.
        outside: for each range, the noisy numbers of units that have a value outside, and of those that have none.
        beyond: of chosen caps, the noisy numbers of units that may exceed them, and of all.
    """

    caps: Caps | None
    ranges: tuple[Range, ...] = ()
    outside: tuple[tuple[int, int], ...] = ()
    beyond: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Advised(Plan):
    """The second stage: a plan with what the first one chose; its price and cost are those of both stages.

    Attributes:
        whole: the guarantee of both stages together.
        both: the events of both stages.
        choice: what was chosen.
        named: what the ranges are of.
        limits: for each range, the share of units that have a value outside it is at most this, at `CONFIDENCE`.
        unsure: the values of which too many may lie outside.
        exceeding: the share of units that exceed the chosen caps is at most this, at `CONFIDENCE`.
        looks: what was looked at first, for the second derivation.
    """

    whole: Approximate = Approximate(Fraction(0))  # noqa: RUF009  # a frozen value
    both: Composed = Composed()  # noqa: RUF009  # a frozen value
    choice: Choice = Choice(None)
    named: tuple[str, ...] = ()
    limits: tuple[Fraction, ...] = ()
    unsure: tuple[Expr, ...] = ()
    exceeding: Fraction = Fraction(0)
    looks: tuple[Look, ...] = ()

    @property
    def cost(self) -> PrivacyLoss:
        return PrivacyLoss(self.both)

    @property
    def claim(self) -> PlanClaim:
        """Both stages, as the second derivation takes them."""
        return claim_in_stages(self.looks, self, self.both, self.whole)

    @property
    def charge(self) -> Charge:
        return Charge(self.both, self.whole)

    @property
    def price(self) -> str:
        return words(self.whole.epsilon, self.whole.delta)

    @property
    def caps(self) -> Caps | None:
        """How much a unit may add, where that was chosen."""
        return self.choice.caps

    @property
    def ranges(self) -> dict[str, Range]:
        """The chosen range of each value that had none."""
        return dict(zip(self.named, self.choice.ranges, strict=True))

    @property
    def chosen(self) -> tuple[str, ...]:
        share = words(self.whole.epsilon * SHARE, Fraction(0))
        caps, ranges = self.choice.caps, self.ranges
        said = []
        if caps is not None:
            said += [
                f"max_groups = {caps.groups} and max_rows = {caps.rows} were chosen privately, for {share}.",
                f"At most {_percent(self.exceeding)} of units have more groups, or more rows in one ({_SURE}).",
            ]
        if ranges:
            listed = "; ".join(f"{name}: {r!r}" for name, r in ranges.items())
            said.append(f"Bounds of values were chosen privately, for {share}: {listed}.")
        said += [self._said_of(*of) for of in zip(self.named, self.choice.ranges, self.limits, strict=True)]
        return tuple(said)

    def _said_of(self, name: str, chosen: Range, limit: Fraction) -> str:
        """How much may lie outside a chosen range."""
        most = _percent(limit)
        lie = "rows lie" if self.question.table.unit.is_row else "units have a value"
        bounds = f"{decimal(chosen.low)} … {decimal(chosen.high)}"
        other = "; one group may have more" if self.question.keys.exprs and limit < 1 else ""
        said = f"At most {most} of {lie} outside the chosen range {bounds} of {name} ({_SURE}){other}."
        if limit <= MOST_OUTSIDE:
            return said
        return f"{said} That may be too many: what rests on {name} has no finite interval."

    def is_unsure(self, expr: Expr) -> bool:
        measures = self.question.measures
        clamped = [v for m in measured_in(expr) for v in measures[m.index].clamped]
        clamped += [looked.spread.value for looked in looked_at([expr])]
        return any(v.expr in self.unsure for v in clamped)

    def explain(self) -> str:
        """The derivation of the second stage, and what the first one did."""
        share, caps = words(self.whole.epsilon * SHARE, Fraction(0)), self.choice.caps
        lines = []
        if caps is not None:
            lines += [
                f"First stage ({share}): {_OF_UNITS}, with Laplace noise on each count;",
                f"  from it were chosen max_groups = {caps.groups} and max_rows = {caps.rows}.",
            ]
        if self.ranges:
            lines.append(f"First stage ({share}): {_OF_VALUES}, with Laplace noise on each count;")
            lines += [f"  from them was chosen {r!r} for {name}." for name, r in self.ranges.items()]
            lines.append(f"  {_OF_OUTSIDE}, with Laplace noise on both numbers.")
        return "\n".join([*lines, "Second stage:", explain(self), f"Both stages together: {self.price}."])


_SURE = f"{float(100 * CONFIDENCE):g} % confidence"
_OF_UNITS = "a census of units by their numbers of groups and rows"
_OF_VALUES = "counts of units by the sign and the power of two of their largest value, and of their least one"
_OF_OUTSIDE = "Then counts of units with a value outside the chosen bounds, and of those without"


@dataclass(frozen=True, slots=True)
class StagedPlan:
    """A question for which something is chosen privately: free to look at, and nothing has been read or charged.

    Guarantee:
        One unit is in one place of the census of caps, and in one place by its largest and one by its least value of
        each expression, so that each of both looks is (`SHARE`·ε)-DP; the second stage has the rest of ε, and δ, for
        every choice (docs/proofs/census.md).

    Attributes:
        identity: the same for the same question.
        of_caps: the look from which caps are chosen; None where they are declared.
        of_values: the look from which ranges are chosen; None where none are missing.
        second: the second stage's plan for a choice.
        last: that for the largest caps and ranges, and for all that does not depend on them.
        rehearsed: plans of the second stage to be tried before the charge: for the least and for the largest choices.
        events, guarantee: of both stages together.
        left, outlook: as those of a `Plan`.
    """

    identity: str
    of_caps: CapsLook | None
    of_values: ValuesLook | None
    second: Callable[[Choice], Plan]
    last: Plan
    rehearsed: tuple[Plan, ...]
    events: Composed
    guarantee: Approximate
    left: Budget | None = None
    outlook: str = ""

    @property
    def cost(self) -> PrivacyLoss:
        """What running it will cost."""
        return PrivacyLoss(self.events)

    @property
    def charge(self) -> Charge:
        """What the ledger is asked to pay."""
        return Charge(self.events, self.guarantee)

    @property
    def looks(self) -> tuple[CapsLook | ValuesLook, ...]:
        """The first stage."""
        return tuple(look for look in (self.of_caps, self.of_values) if look is not None)

    @property
    def claim(self) -> PlanClaim:
        """What is charged for, whatever is chosen, as the second derivation takes it: its second stage is `last`."""
        return claim_in_stages([look.claim for look in self.looks], self.last, self.events, self.guarantee)

    @property
    def first(self) -> tuple[str, ...]:
        """What the database will run first; the other statements follow from what is chosen."""
        return tuple(look.sql for look in self.looks)

    @property
    def sql(self) -> str:
        """The statements of the first stage."""
        return ";\n\n".join(self.first)

    @property
    def columns(self) -> list[str]:
        """The names of the answer's columns."""
        return self.last.columns

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

    def advised(self, choice: Choice) -> Advised:
        """The second stage with what was chosen."""
        plan = self.second(choice)
        promised, left = plan.allocation.guarantee, self.guarantee.epsilon - self._first_epsilon
        if promised.epsilon > left or promised.delta > self.guarantee.delta:
            raise InternalError("The second stage costs more than was charged for it.")
        own = {f.name: getattr(plan, f.name) for f in fields(Plan)}
        named = () if self.of_values is None else self.of_values.named
        limits: tuple[Fraction, ...] = ()
        unsure: tuple[Expr, ...] = ()
        if self.of_values is not None:
            noise, exprs = self.of_values.outside, self.of_values.exprs
            limits = tuple(share_outside(out, inside, noise) for out, inside in choice.outside)
            unsure = tuple(e for e, limit in zip(exprs, limits, strict=True) if limit > MOST_OUTSIDE)
        if self.of_caps is not None and choice.caps is not None and choice.beyond is not None:
            noise, groups = self.of_caps.noise, self.of_caps.groups
            own["exceeding"] = share_beyond(choice.beyond, choice.caps, noise, groups)
        looks = tuple(look.claim for look in self.looks)
        own |= {"whole": self.guarantee, "both": self.events, "choice": choice, "looks": looks}
        return Advised(**own, named=named, limits=limits, unsure=unsure)

    def choose(self, run: Callable[[str], list[tuple[Any, ...]]], rng: Entropy) -> Choice:
        """Runs the first stage, adds its noise, and chooses: a function of the noisy counts."""
        caps, beyond = (None, None) if self.of_caps is None else self.of_caps.choose(run, rng)
        ranges, outside = ((), ()) if self.of_values is None else self.of_values.choose(run, rng, caps)
        return Choice(caps, ranges, outside, beyond)

    def explain(self) -> str:
        """What both stages do and cost."""
        share = words(self.guarantee.epsilon * SHARE, Fraction(0))
        lines = []
        if self.of_caps is not None:
            lines.append(
                f"First stage ({share}): {_OF_UNITS}, from which max_groups and max_rows are chosen."
            )
        if self.of_values is not None:
            listed = ", ".join(self.of_values.named)
            lines.append(
                f"First stage ({share}): {_OF_VALUES}, from which the bounds are chosen of {listed}. {_OF_OUTSIDE}."
            )
        left = words(self.guarantee.epsilon - self._first_epsilon, self.guarantee.delta)
        lines.append(f"Second stage ({left}): the question with what was chosen.")
        outlook = f" {self.outlook}" if self.outlook else ""
        together = f"Together: {words(self.guarantee.epsilon, self.guarantee.delta)}.{outlook}"
        return "\n".join([*lines, together])

    @property
    def _first_epsilon(self) -> Fraction:
        return self.guarantee.epsilon * SHARE * len(self.first)

    def __str__(self) -> str:
        what = " and ".join(
            name
            for name, look in (("the caps", self.of_caps), ("the bounds", self.of_values))
            if look is not None
        )
        price = words(self.guarantee.epsilon, self.guarantee.delta)
        head = f"A plan in two stages that costs {price}; {what}, and so the error, follow from the first"
        return "\n".join(
            [head, *(f"  {line} or less" for line in report_lines(*self.rehearsed)), *self.notes]
        )

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class StagedQuery:
    """A question that may be planned with any caps and ranges.

    Attributes:
        make: the plan with this ε, these caps (None: the declared ones) and these ranges of values without bounds.
        identify: the identity of a question that spends this ε.
        epsilon, delta: what both stages may spend.
        caps: whether caps are chosen; else the declared ones hold.
        rows: the most rows of a unit in a group that are declared, 1 where nothing is.
    """

    make: Callable[[Fraction, Caps | None, Ranges], Plan]
    identify: Callable[[Question, Fraction], str]
    epsilon: Fraction
    delta: Fraction
    caps: bool
    rows: int


def stage(asked: StagedQuery) -> StagedPlan | None:
    """Decides a question in two stages; None where nothing is to be chosen, since all bounds are declared.

    Raises:
        PlanError, InvalidParameter: as `asked.make`; or there is nothing to choose for caps that were asked for.
    """
    left = asked.epsilon * (1 - SHARE)
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
        left = asked.epsilon * (1 - 2 * SHARE)
        last = asked.make(left, caps, replace(missing, found=[]))

    def second(choice: Choice) -> Plan:
        return asked.make(left, choice.caps, ChosenRanges(dict(zip(exprs, choice.ranges, strict=True))))

    spent = asked.epsilon * SHARE
    of_caps = None if caps is None else look_at_caps(last, spent, caps)
    of_values = look_at_values(last, spent, exprs) if exprs else None
    events = Composed([(ApproximateEvent(left, asked.delta), 1)])
    for look in (of_caps, of_values):
        events = events if look is None else look.events + events
    if exprs:
        rehearsed = _ends(asked, left, caps, last)
        what = "bounds and ranges" if caps is not None else "ranges"
        named = f"{what} chosen by a census: {rehearsed[-1].identity}"
    else:
        least = _narrowed(last)
        rehearsed = (last, least)
        named = f"bounds chosen by a census: {asked.identify(least.question, left)}"
    named += _told_apart(last.question, exprs)
    identity = hashlib.sha256(named.encode()).hexdigest()
    guarantee = Approximate(asked.epsilon, asked.delta)
    staged = StagedPlan(identity, of_caps, of_values, second, last, rehearsed, events, guarantee)
    check_charge(staged.claim)
    return staged


def kept(choice: Choice, table: dict[str, Any]) -> dict[str, Any]:
    """What the ledger keeps of an answer in two stages."""
    caps = None
    if choice.caps is not None:
        caps = [choice.caps.groups, choice.caps.rows, *map(str, choice.beyond or ())]
    ranges = [
        [str(r.low), str(r.high), r.integer, str(out), str(inside)]
        for r, (out, inside) in zip(choice.ranges, choice.outside, strict=True)
    ]
    return {"format": 1, "caps": caps, "ranges": ranges, "table": table}


def restored(found: dict[str, Any]) -> tuple[Choice, dict[str, Any]]:
    """What `kept` wrote."""
    caps = beyond = None
    if found["caps"] is not None:
        groups, rows, cut, units = map(int, found["caps"])
        caps, beyond = Caps(groups, rows), (cut, units)
    kept = found["ranges"]
    ranges = tuple(Range(Fraction(a), Fraction(b), integer=whole) for a, b, whole, _, _ in kept)
    outside = tuple((int(out), int(inside)) for *_, out, inside in kept)
    return Choice(caps, ranges, outside, beyond), found["table"]


def _percent(share: Fraction) -> str:
    """A share in percent, rounded up to two digits."""
    if not share:
        return "0 %"
    digits = max(1 - math.floor(math.log10(float(100 * share))), 0)
    return f"{float(Fraction(math.ceil(100 * share * 10**digits), 10**digits)):.{digits}f} %"


def with_caps(tables: Any, caps: Caps) -> tuple[Any, ...]:
    """The tables under these caps instead of the declared ones."""
    return tuple(t if t.public or t.unit.is_row else _under(t, caps) for t in tables)


def _under(table: TableSchema, caps: Caps) -> TableSchema:
    return replace(table, unit=replace(table.unit, max_groups=caps.groups, max_rows=caps.rows))


def _largest(asked: StagedQuery, left: Fraction) -> tuple[Caps | None, Missing, Plan]:
    """The largest caps under which sums still fit their integers, found before anything is charged, and their plan."""

    def planned(rows: int, caps: Caps | None) -> tuple[Missing, Plan]:
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


def _ends(asked: StagedQuery, left: Fraction, caps: Caps | None, last: Plan) -> tuple[Plan, ...]:
    """Plans for the widest ranges of all and for the narrowest, with the least caps: what lies between can be planned
    as they can.

    Raises:
        UnsupportedQuery: a question that says itself between what values lie.
    """
    narrow = None if caps is None else Caps(1, 1)
    try:
        least = asked.make(left, narrow, Missing())
        if caps is None:
            return last, least
        return last, asked.make(left, narrow, Missing(int(LARGEST), int(LARGEST))), least
    except InvalidParameter:
        raise UnsupportedQuery(
            "The question cannot be asked with every range that could be chosen for its values.",
            hint="declare the bounds of its columns: dp.Range(low, high)",
        ) from None


def _narrowed(plan: Plan) -> Plan:
    """The same question under the least caps: its identity and its texts, to be tried before the charge."""
    question = replace(plan.question, table=_under(plan.question.table, Caps(1, 1)))
    text, distinct = statements(question)
    b = bounding(question)
    spreads = [(m, spread_sql(b, s.spread)) for (m, _), s in zip(plan.spreads, question.spreads, strict=True)]
    return replace(plan, question=question, sql=text, distinct=distinct, spreads=tuple(spreads))


def _told_apart(question: Question, missing: Sequence[Expr]) -> str:
    """What of a question its least choice may not show, and other choices do: which ranges are chosen, which totals may
    be measured as well, and which quantiles may be chosen by rank. Empty where there is nothing of it.
    """
    alone = [is_alone(question.outer.expressions, looked) for looked in question.spreads]
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
            "SUM_WITHIN needs declared bounds of its values.",
            hint="ask SUM; or declare them: dp.Range(low, high)",
        )
