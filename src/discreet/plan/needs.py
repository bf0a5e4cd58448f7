"""What each query of a batch needs of the budget, so that its groups have no more noise than with its even part.

A query of m with c columns (levels of trees and a selection of groups are columns too) would spend 1/(mc) of the
budget on each alone. What several queries read needs the most that one of them needs; so all needs together are 1 at
most, and what is left is given to all of them in proportion.

References:
    That parts of ε and δ add up, and that with Gaussian noise μ² does: Dwork, Roth, *The Algorithmic Foundations of
    Differential Privacy*, Theorem 3.16, https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf; Dong, Roth, Su 2019,
    Corollary 3.3, https://arxiv.org/abs/1905.02383. docs/proofs/totals.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet.accounting.loss import PrivacyLoss
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.cost import Allocation, Kind
from discreet.plan.quantile_tree.shape import TreeShape
from discreet.privacy.event import Composed, GaussianEvent

if TYPE_CHECKING:
    from discreet.plan.decided import Decided


@dataclass(frozen=True, slots=True)
class BudgetNeeds:
    """Parts of the budget: of each column, of each level of each tree (`depths`: how many it has), and of the
    selection of groups, 0 where they are declared.
    """

    columns: tuple[Fraction, ...]
    trees: tuple[Fraction, ...]
    depths: tuple[int, ...]
    selection: Fraction

    @property
    def total(self) -> Fraction:
        """All of them."""
        trees = sum((w * n for w, n in zip(self.trees, self.depths, strict=True)), Fraction(0))
        return sum(self.columns, self.selection) + trees

    def divided(self, by: Fraction) -> BudgetNeeds:
        """Each of them divided."""
        columns, trees = tuple(w / by for w in self.columns), tuple(w / by for w in self.trees)
        return BudgetNeeds(columns, trees, self.depths, self.selection / by)


def needs_of(measured: Decided, asked: Sequence[Decided], questions: int) -> BudgetNeeds:
    """Return the most that a query would spend on each alone; on a partition, what all that read it would."""
    each = [(p, Fraction(1, questions * _width(p))) for p in asked]
    read = [tree_read.shape for tree_read in measured.question.trees]

    def of_level(s: TreeShape) -> Fraction:
        if s.layers is None:
            return max(w for p, w in each if s in [x.shape for x in p.question.trees])
        return sum((w * p.question.reads_of(s) for p, w in each), Fraction(0)) / s.depth

    return BudgetNeeds(
        tuple(max(w for p, w in each if m in p.question.measures) for m in measured.question.measures),
        tuple(of_level(s) for s in read),
        tuple(s.depth for s in read),
        max(w for _, w in each) if measured.question.keys.count is None else Fraction(0),
    )


def _width(plan: Decided) -> int:
    """In how many parts the budget of a query is divided when it is asked alone."""
    return plan.question.width + (plan.question.keys.count is None)


def noise_delta_of(asked: Sequence[Decided], delta: Fraction, kind: Kind) -> Fraction:
    """Return what the noise of all queries would have of δ alone; the rest is for selections."""
    selecting = sum(p.question.keys.count is None for p in asked)
    kept = Fraction(1, 2) if kind is Kind.GAUSSIAN else Fraction(0)
    return delta * (len(asked) - selecting + selecting * kept) / len(asked)


def is_composed(plan: Decided) -> bool:
    """Whether a query asked alone has Laplace noise that a δ made smaller than ε alone allows."""
    a = plan.allocation
    laplace = any(isinstance(z, DiscreteLaplaceNoise) for z in (*a.noises, *a.trees))
    return laplace and a.threshold is None and a.guarantee.delta > 0


def least_scales(plans: Sequence[Decided], asked: Sequence[Sequence[Decided]]) -> list[Fraction]:
    """For each column, and then for each level of each tree, the least scale that a query has for it alone.

    Together they cost what all queries asked alone cost, or less: so no more than (ε, δ).
    """
    columns: list[Fraction] = []
    trees: list[Fraction] = []
    for p, own in zip(plans, asked, strict=True):
        for m in p.question.measures:
            those = [(q, i) for q in own for i, n in enumerate(q.question.measures) if n == m]
            columns += [min(_scale(q, i) for q, i in those)]
        for shape in (tree_read.shape for tree_read in p.question.trees):
            found = [
                _scale(q, len(q.question.measures) + i)
                for q in own
                for i, other in enumerate(q.question.trees)
                if other.shape == shape
            ]
            trees += [min(found)] * shape.depth
    return [*columns, *trees]


def _scale(plan: Decided, place: int) -> Fraction:
    """Return the scale of a column or, after the columns, of a tree, of a query asked alone; before totals get a
    part.
    """
    noise = (*plan.allocation.of_columns, *plan.allocation.trees)[place]
    assert isinstance(noise, DiscreteLaplaceNoise)
    return noise.scale


def law_of(shares: Sequence[BudgetNeeds], noise_delta: Fraction, delta: Fraction, kind: Kind) -> tuple[str, ...]:
    """How the budget is divided; nothing where all parts are alike and δ is halved between noise and selections."""
    parts = [[*n.columns, *n.trees, *([n.selection] if n.selection else [])] for n in shares]
    selects = any(n.selection for n in shares)
    usual = (delta / 2 if kind is Kind.GAUSSIAN else Fraction(0)) if selects else noise_delta
    if len({w for own in parts for w in own}) < 2 and noise_delta == usual:
        return ()
    return (*(" ".join(map(str, own)) for own in parts), str(noise_delta))


def equivalent(plan: Decided, given: Allocation, counted: tuple[float, float] | None = None) -> float:
    """At about which ε the query alone, planned here for its even part, would have the noise that it is given.

    `counted` are the variances of a count that is read from a partition now, and of its column alone.
    """
    alone = plan.allocation
    part, share = float(alone.guarantee.epsilon), Fraction(1)
    ratios: list[Fraction] = []
    if counted is not None:
        less = counted[1] / counted[0]
        laplace = isinstance(alone.noises[0], DiscreteLaplaceNoise)
        ratios.append(Fraction(math.sqrt(less) if laplace else less))
    else:
        for one, other in zip((*alone.noises, *alone.trees), (*given.noises, *given.trees), strict=True):
            match one, other:
                case DiscreteLaplaceNoise(), DiscreteLaplaceNoise():
                    ratios.append(one.scale / other.scale)
                case RoundedGaussianNoise(), RoundedGaussianNoise():
                    ratios.append((one.sigma / other.sigma) ** 2)
    if alone.threshold is not None and given.threshold is not None:
        share -= Fraction(1, _width(plan))
        if not ratios or isinstance(alone.noises[0], DiscreteLaplaceNoise):
            ratios.append(given.threshold.epsilon / alone.threshold.epsilon)
    least = min(ratios)
    if not alone.is_gaussian:
        return part * float(least)
    selected = Composed() if alone.threshold is None else alone.threshold.event()
    mu_squared = sum((n * (e.mu_squared or 0) for e, n in alone.events), Fraction(0))
    mu_squared -= sum((n * (e.mu_squared or 0) for e, n in selected), Fraction(0))
    delta = alone.guarantee.delta * (1 if alone.threshold is None else Fraction(1, 2))
    return PrivacyLoss(Composed([GaussianEvent(mu_squared * least)])).epsilon(delta=delta) / float(share)


def compared(query: Decided, alone: Decided, questions: int) -> str:
    """Return what a query's noise in a batch of so many would be worth alone, in lines below its derivation."""
    part = alone.allocation.guarantee.epsilon
    worth = equivalent(alone, query.allocation, counted_now(query, alone))
    return (
        f"Its noise is what it would be alone at about ε = {worth:,.4g}; an even "
        f"part of the batch is ε = {float(part):,.4g}.\n"
        f"This is one of {questions} queries that were planned together: the price is that of all of them, "
        "paid once."
    )


def counted_now(plan: Decided, alone: Decided) -> tuple[float, float] | None:
    """Return the variances of the count of a query that is read from a partition in a batch only, and of its
    column alone; None for others.
    """
    if plan.question.measures == alone.question.measures:
        return None
    laws, parts = plan.laws, (e for expr in plan.question.outer.expressions for e in expr.walk())
    found = next(v for e in parts if (v := e.noise_variance(laws)) is not None)
    return found, alone.allocation.noises[0].variance
