"""Private parts of a recipe's plan: what is drawn of people's rows, how often, with which mechanism, at which price."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from discreet.accounting.calibrate import calibrate
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter, NotPrivate, UnsupportedQuery
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.draws import AddedNoise, DrawLaw
from discreet.mechanisms.samples import Sampling
from discreet.plan.person_rows import PersonRows
from discreet.plan.plan import Payer, Plan
from discreet.plan.query import source_of
from discreet.privacy.event import ApproximateEvent, Composed, Event, GaussianEvent
from discreet.privacy.exact import Real, count, positive, probability
from discreet.privacy.guarantee import Approximate, words
from discreet.privacy.unit import Relation, Sensitivity
from discreet.verify.certificate.seal import of_claim
from discreet.verify.claim import PartClaim, PartKind

WIDEST = 1 << 62
"""What the squares of a person's part may add up to, so that 64 bits hold them."""


@dataclass(frozen=True, slots=True)
class PersonPart:
    """What a recipe draws of people's rows.

    Guarantee:
        Each of `times` draws moves, when one unit comes or goes or is replaced, by the norms at most that the price is
        for: of all kinds but "whole" whatever the recipe's code does with one person's rows, since the meter counts 0
        for a part beyond `norms`; of kind "whole" as the recipe promises (docs/proofs/pipeline.md).

    Attributes:
        name: what a draw calls it.
        rows: what the code is handed.
        norms: how far a person's part may go; of a whole, how far one unit moves it under the account's relation.
        width: how many integers a draw has.
        kind: "each", "places" (each, as histograms of places where rows count), "squares" (each, as sums of x·xᵀ over
            rows x) or "whole".
        apart: whether code of kind "each" is called for one person at a time: then no part can follow from others, by
            construction. Else it gives all parts at once, and that each follows from one person's rows is its promise.
        times: how often it may be drawn.
        law: the mechanism; None for noise that is chosen so that the plan costs what was asked.
        share: the weight of its part of the budget, where the noise is chosen.
        sampling: how the people of each draw are sampled; None where all are in it.
    """

    name: str
    rows: PersonRows
    norms: Sensitivity
    width: int
    kind: PartKind = PartKind.EACH
    apart: bool = False
    times: int = 1
    law: DrawLaw | None = None
    share: Fraction = Fraction(1)
    sampling: Sampling | None = None

    @property
    def relation(self) -> Relation:
        """Who are neighbours."""
        return self.rows.question.table.relation

    @property
    def claim(self) -> PartClaim:
        """What is claimed of it; its noise has been chosen."""
        assert self.law is not None
        rows = self.rows
        said = (self.kind, self.apart, source_of(rows.question), rows.sql, rows.most)
        return PartClaim(self.name, *said, self.width, self.norms, self.law, self.times, self.sampling)

    @property
    def moves(self) -> Sensitivity:
        """How far one unit moves a draw: a replaced unit takes its part away and adds another."""
        n = self.norms
        if self.kind is PartKind.WHOLE or self.relation is not Relation.REPLACE:
            return n
        signs = 1 if self.kind is PartKind.PLACES else 2  # numbers of one sign cancel where both parts have some
        turned = 2 if self.kind is PartKind.EACH else 1  # of the others no two parts point away from each other
        l0, linf = min(n.l0 * 2, self.width), min(n.linf * signs, math.isqrt(n.l2_squared * 2 * turned))
        l1, l2_squared = min(n.l1 * 2, l0 * linf), min(n.l2_squared * 2 * turned, l0 * linf * linf)
        return Sensitivity(l0, linf, l1=l1, l2_squared=l2_squared)

    @property
    def events(self) -> Composed:
        """What all its draws cost.

        Raises:
            InvalidParameter: its mechanism or its sampling is not for such draws.
        """
        assert self.law is not None
        moved, relation = self.moves, self.relation
        if self.sampling is None:
            return self.law.events(moved, self.times, relation)
        if self.sampling.relation is not relation:
            raise InvalidParameter(
                f"{type(self.sampling).__name__} protects units under {self.sampling.relation.value}, and this account "
                f"is for {relation.value}.",
                hint="leave sampling= out, or take the scheme of this relation",
            )
        if self.law.remembers:
            raise InvalidParameter(
                f"{self.law.name} shares noise between draws, and is not sampled.", hint="leave sampling= out"
            )
        return self.sampling.events(self.law.events(moved, 1, relation), self.times)


def person_part(
    name: str,
    rows: PersonRows,
    *,
    width: int,
    norms: Sensitivity | None = None,
    l2: Real | None = None,
    kind: str = "each",
    apart: bool = False,
    times: int = 1,
    law: DrawLaw | None = None,
    share: Real = 1,
    sampling: Sampling | None = None,
) -> PersonPart:
    """Return a private part (`PersonPart` says what each argument is).

    Args:
        name: what a draw calls it.
        rows: what the code is handed.
        width: how many integers a draw has.
        norms: how far a person's part may go, or one unit moves the whole.
        l2: in their place, its Euclidean length, which is rounded down to a whole square.
        kind: "each", "places", "squares" or "whole".
        apart: whether the code is called for one person at a time.
        times: how often it may be drawn.
        law: the mechanism; left out, the noise is chosen.
        share: the weight of its part of the budget, where the noise is chosen.
        sampling: how the people of each draw are sampled.

    Raises:
        InvalidParameter: a width, norm or number of draws that cannot be.
    """
    n = count("width", width)
    if (norms is None) == (l2 is None):
        raise InvalidParameter(
            "a private part needs norms= or l2=.", hint="l2=2**20, or norms=Sensitivity(l0=1, linf=1)"
        )
    if norms is None:
        assert l2 is not None
        square = math.floor(positive("l2", l2) ** 2)
        most = math.isqrt(square)
        norms = Sensitivity(n, most, l1=min(n * most, math.isqrt(n * square)), l2_squared=min(square, n * most**2))
    if norms.l0 > n or not norms.l0 or not norms.linf:
        raise InvalidParameter(f"norms.l0 must lie between 1 and width = {n}, and norms.linf above 0, not {norms}.")
    if norms.l0 * norms.linf**2 >= WIDEST and kind != PartKind.WHOLE.value:
        raise InvalidParameter(
            "a person's part may be so long that its squares do not fit in 64 bits.",
            hint="count in coarser steps: a length of 2^20 leaves 2^-20 of it for rounding",
        )
    if kind not in [k.value for k in PartKind]:
        raise InvalidParameter(f"kind must be 'each', 'places', 'squares' or 'whole', not {kind!r}.")
    if apart and kind != "each":
        raise InvalidParameter("apart goes with kind='each'.", hint="places, squares and the whole are of all people")
    weight = positive("share", share)
    return PersonPart(name, rows, norms, n, PartKind(kind), bool(apart), count("times", times), law, weight, sampling)


def plan_recipe(
    parts: Sequence[PersonPart],
    *,
    epsilon: Real | None = None,
    delta: Real = 0,
    parameters: Mapping[str, Any] | None = None,
) -> Plan:
    """Return the plan of a recipe that draws private parts of people's rows.

    Guarantee:
        All draws together are (ε, δ)-DP under the relation of the account, in any order and with any public arguments
        that follow from earlier noisy values: mechanisms, norms, numbers of draws and samples are fixed here.

    Args:
        parts: what may be drawn; the noise of those without a law is chosen so that all cost (ε, δ): Gaussian where
            δ > 0, else Laplace.
        epsilon: the ε to be spent; left out, what the given laws cost at δ.
        delta: the δ to be spent.
        parameters: everything else that `run` reads of the recipe, as JSON: other parameters are another query.

    Raises:
        InvalidParameter: parts of tables with different relations, or laws that cost more than (ε, δ).
        NotPrivate: noise is to be chosen, and no ε was given.
    """
    if not parts:
        raise InvalidParameter("a recipe draws at least one private part.", hint="person_part(name, rows, …)")
    relations = {part.relation for part in parts}
    if len(relations) > 1 or len({part.name for part in parts}) < len(parts):
        raise InvalidParameter("the parts of a recipe have different names, and one relation.")
    d = probability("delta", delta)
    if epsilon is None:
        if any(part.law is None for part in parts):
            raise NotPrivate("Noise is to be chosen, and no ε was given.", hint="epsilon=1, or law= for each part")
        chosen = tuple(parts)
        guarantee = PrivacyLoss(_events(chosen)).guarantee(d)
    else:
        guarantee = Approximate(positive("epsilon", epsilon), d)
        chosen = _with_noise(parts, guarantee)
    events = _events(chosen)
    costs = PrivacyLoss(events).guarantee(d)
    if float(costs.epsilon) > float(guarantee.epsilon) * (1 + 1e-9):
        raise InvalidParameter(
            f"the draws cost {words(costs.epsilon, d)}, and {words(guarantee.epsilon, d)} was asked.",
            hint="more noise, fewer draws, or a larger epsilon=",
        )
    if costs.epsilon > guarantee.epsilon and chosen == tuple(parts):
        guarantee = costs  # laws that were given are charged to the last digit
    plan = Plan("", (), {}, (Payer("", events, guarantee),), parts=chosen)
    try:
        said = json.dumps([of_claim(plan.claim), dict(parameters or {})], sort_keys=True)
    except (TypeError, ValueError):
        raise InvalidParameter(
            "parameters= are plain values: numbers, text, lists and dicts.", hint="parameters={'rate': 0.5}"
        ) from None
    return replace(plan, identity=hashlib.sha256(said.encode()).hexdigest())


def kept_open(plan: Plan) -> Plan:
    """Return the plan of a run that stays open: what its draws cost is charged whole, as one event.

    Guarantee:
        The event dominates the run as an interactive mechanism, whoever chooses its inputs: a μ² where each draw has
        one, else (ε, δ) (docs/proofs/pipeline.md).

    Raises:
        UnsupportedQuery: its groups are selected in rounds.
    """
    if any(query.weights for query in plan.measurements):
        raise UnsupportedQuery(
            "Undeclared groups are selected in rounds, which each read the data. A run that stays open reads it once.",
            hint="declare the groups with dp.Values, or ask the query in a run that does not wait",
        )
    (payer,) = plan.payers
    draws, g = payer.events, payer.guarantee
    whole: Event = ApproximateEvent(g.epsilon, g.delta)
    if all(event.mu_squared is not None and not event.failure for event, _ in draws):
        whole = GaussianEvent(sum((n * (event.mu_squared or Fraction(0)) for event, n in draws), Fraction(0)))
    return replace(plan, draws=draws, payers=(replace(payer, events=Composed.of(whole)),))


def _events(parts: Sequence[PersonPart]) -> Composed:
    return sum((part.events for part in parts), Composed())


def _with_noise(parts: Sequence[PersonPart], guarantee: Approximate) -> tuple[PersonPart, ...]:
    """Return the parts, with noise for those without a law, so wide that all cost the guarantee."""
    free = [part for part in parts if part.law is None]
    if not free:
        return tuple(parts)
    total = sum((part.share for part in free), Fraction(0))

    def at(width: Fraction) -> tuple[PersonPart, ...]:
        return tuple(
            part
            if part.law is not None
            else replace(part, law=_noise(part, part.share / total, width, gaussian=gaussian))
            for part in parts
        )

    gaussian = guarantee.delta > 0
    found = calibrate(
        lambda width: PrivacyLoss(_events(at(width))),
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        start=1 / guarantee.epsilon,
    )
    return at(found)


def _noise(part: PersonPart, share: Fraction, width: Fraction, *, gaussian: bool) -> DrawLaw:
    """Return the noise of a part for its share of the budget, of which `width` is one over the ε, or over the μ, of
    all.
    """
    moved = part.moves
    if not gaussian:
        return AddedNoise(DiscreteLaplaceNoise(width * moved.l1 * part.times / share))
    square = width**2 * moved.l2_squared * part.times / share
    fine = 1 << 32
    return AddedNoise(RoundedGaussianNoise(Fraction(math.isqrt(math.ceil(square * fine * fine)) + 1, fine)))
