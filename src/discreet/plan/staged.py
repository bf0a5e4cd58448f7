"""Questions in two stages, `bounds="auto"`: a noisy census of units chooses the caps with which the question is asked.

What both stages cost is fixed before the first: the second has its ε and δ whatever caps are chosen, because its noise
is calibrated to them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

from discreet.accounting.filter import Charge
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InternalError, InvalidParameter, UnsupportedQuery
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.advice import CANDIDATES, EDGES, SHARES, Caps, choose
from discreet.plan.bound import census_sql
from discreet.plan.census_check import derive_census
from discreet.plan.check import source_of
from discreet.plan.explain import explain
from discreet.plan.plan import Plan, bounding
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.guarantee import Approximate, words
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.unit import Relation

if TYPE_CHECKING:
    from discreet.noise.entropy import Entropy

SHARE = Fraction(1, 10)
"""The part of ε that the census costs."""


@dataclass(frozen=True, slots=True)
class Advised(Plan):
    """The second stage: a plan with caps that the census chose; its price and cost are those of both stages.

    Attributes:
        whole: the guarantee of both stages together.
        both: the events of both stages.
        caps: what was chosen.
    """

    whole: Approximate = Approximate(Fraction(0))  # noqa: RUF009  # a frozen value
    both: Composed = Composed()  # noqa: RUF009  # a frozen value
    caps: Caps = Caps(1, 1)  # noqa: RUF009  # a frozen value

    @property
    def cost(self) -> PrivacyLoss:
        return PrivacyLoss(self.both)

    @property
    def price(self) -> str:
        return words(self.whole.epsilon, self.whole.delta)

    def explain(self) -> str:
        """The derivation of the second stage, and what the first one did."""
        first = words(self.whole.epsilon - self.epsilon, Fraction(0))
        return (
            f"First stage ({first}): a census of units by their numbers of groups and rows, with Laplace noise on each "
            f"count;\n  from it were chosen max_groups = {self.caps.groups} and max_rows = {self.caps.rows}.\n"
            f"Second stage:\n{explain(self)}"
        )


@dataclass(frozen=True, slots=True)
class StagedPlan:
    """A question whose caps are chosen privately: free to look at, and nothing has been read or charged.

    Guarantee:
        One unit is counted in one place of the census, once, so the census is (`SHARE`·ε)-DP; the second stage is
        ((1 − `SHARE`)·ε, δ)-DP for every choice of caps (docs/proofs/census.md).

    Attributes:
        identity: the same for the same question.
        census: the SQL of the first stage.
        noise: what is added to each count of the census.
        most: the largest caps that may be chosen.
        second: the second stage's plan for some caps.
        first: that for the least caps, for all that does not depend on them.
        last: that for the largest.
        events, guarantee: of both stages together.
    """

    identity: str
    census: str
    noise: DiscreteLaplaceNoise
    most: Caps
    second: Callable[[Caps], Plan]
    first: Plan
    last: Plan
    events: Composed
    guarantee: Approximate

    @property
    def cost(self) -> PrivacyLoss:
        """What running it will cost."""
        return PrivacyLoss(self.events)

    @property
    def charge(self) -> Charge:
        """What the ledger is asked to pay."""
        return Charge(self.events, self.guarantee)

    @property
    def sql(self) -> str:
        """What the database will run first; the second statement follows from the caps that are chosen."""
        return self.census

    @property
    def columns(self) -> list[str]:
        """The names of the answer's columns."""
        return self.first.columns

    def advised(self, caps: Caps) -> Advised:
        """The second stage with the chosen caps."""
        plan = self.second(caps)
        promised = plan.allocation.guarantee
        if promised.epsilon > self.guarantee.epsilon * (1 - SHARE) or promised.delta > self.guarantee.delta:
            raise InternalError("The second stage costs more than was charged for it.")
        own = {f.name: getattr(plan, f.name) for f in fields(Plan)}
        return Advised(**own, whole=self.guarantee, both=self.events, caps=caps)

    def choose(self, run: Callable[[str], list[tuple[Any, ...]]], rng: Entropy) -> Caps:
        """Runs the census, adds its noise, and chooses: a function of the noisy counts."""
        places = list(product(range(len(EDGES)), range(len(EDGES)), range(SHARES)))
        found = {(int(k), int(t), int(m)): int(n) for k, t, m, n in run(self.census)}
        noisy = self.noise.add([found.get(place, 0) for place in places], rng)
        del found
        first = self.first
        advice = choose(
            dict(zip(places, noisy, strict=True)),
            self.noise,
            groups=first.question.keys.count,
            columns=max(
                len(first.allocation.noises) + sum(s.spread.depth for s in first.question.spreads), 1
            ),
            epsilon=first.epsilon,
        )
        return Caps(min(advice.groups, self.most.groups), min(advice.rows, self.most.rows))

    def explain(self) -> str:
        """What both stages do and cost."""
        first, second = self.guarantee.epsilon * SHARE, self.guarantee.epsilon * (1 - SHARE)
        return (
            f"First stage ({words(first, Fraction(0))}): a census of units by their numbers of groups and rows "
            f"chooses max_groups and max_rows.\n"
            f"Second stage ({words(second, self.guarantee.delta)}): the question with these caps.\n"
            f"Together: {words(self.guarantee.epsilon, self.guarantee.delta)}."
        )

    def __str__(self) -> str:
        price = words(self.guarantee.epsilon, self.guarantee.delta)
        return f"A plan in two stages that costs {price}; the caps, and so the error, follow from the first"

    __repr__ = __str__


def stage(make: Callable[[Fraction, Caps], Plan], epsilon: Fraction, delta: Fraction) -> StagedPlan:
    """Decides a question in two stages.

    Args:
        make: the plan with this ε and these caps.
        epsilon: what both stages may spend.
        delta: what the second stage may spend.

    Raises:
        PlanError, InvalidParameter: as `make`; or each row is a unit, so that there is nothing to choose.
    """
    left = epsilon * (1 - SHARE)

    def second(caps: Caps) -> Plan:
        return make(left, caps)

    smallest = second(Caps(1, 1))
    table = smallest.question.table
    if table.unit.is_row:
        raise UnsupportedQuery(
            "Each row is a unit of its own, so there are no caps to choose.", hint="leave bounds='auto' out"
        )
    text = census_sql(bounding(smallest.question))
    if derive_census(text, source_of(smallest)) != 3:
        raise InternalError("The census of units has another shape than was planned. Nothing was charged.")
    moved = Sensitivity(1, 1) if table.relation is Relation.ADD_REMOVE else Sensitivity(2, 1)
    noise = DiscreteLaplaceNoise(moved.l1 / (epsilon * SHARE))
    events = noise.event(moved) + Composed([(ApproximateEvent(left, delta), 1)])
    named = hashlib.sha256(f"bounds chosen by a census: {smallest.identity}".encode()).hexdigest()
    most, last = _largest(second, smallest)
    return StagedPlan(named, text, noise, most, second, smallest, last, events, Approximate(epsilon, delta))


def kept(caps: Caps, table: dict[str, Any]) -> dict[str, Any]:
    """What the ledger keeps of an answer in two stages."""
    return {"format": 1, "caps": [caps.groups, caps.rows], "table": table}


def restored(found: dict[str, Any]) -> tuple[Caps, dict[str, Any]]:
    """What `kept` wrote."""
    groups, rows = found["caps"]
    return Caps(int(groups), int(rows)), found["table"]


def with_caps(tables: Any, caps: Caps) -> tuple[Any, ...]:
    """The tables under these caps instead of the declared ones."""
    return tuple(
        t if t.public else replace(t, unit=replace(t.unit, max_groups=caps.groups, max_rows=caps.rows))
        for t in tables
    )


def _largest(second: Callable[[Caps], Plan], smallest: Plan) -> tuple[Caps, Plan]:
    """The largest caps under which sums still fit their integers, found before anything is charged, and their plan."""
    most = min(CANDIDATES[-1], smallest.question.keys.count or CANDIDATES[-1])
    for rows in reversed(CANDIDATES):
        try:
            return Caps(most, rows), second(Caps(most, rows))
        except InvalidParameter:
            continue
    return Caps(1, 1), smallest
