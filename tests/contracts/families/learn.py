"""Estimators: what all gradients of a fit tell of each of many canaries, of which a fair coin puts each in.

The points at which gradients are asked for may follow from earlier ones. Here they are the worst for the canaries: all
at the start, where no weight has been fitted yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from discreet.accounting.loss import PrivacyLoss
from discreet.audit import one_run
from discreet.catalog.schema import Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.person_recipe import run_on_arrays
from discreet.engine.recipe import Draw
from discreet.learn import GaussianNB, choose
from discreet.learn.aggregate import SampleAggregate
from discreet.learn.asked import DeclaredRows
from discreet.learn.bayes import ClassSums
from discreet.learn.clusters import SIDES, Clustering
from discreet.learn.descent import CLIP, LinearDescent
from discreet.learn.features import DeclaredColumn
from discreet.learn.gram import GramSum, NarrowedGram
from discreet.learn.losses import Hinge, Huber, Logistic, Poisson, RowLoss, Squared
from discreet.learn.objective import ObjectiveMinimum
from discreet.learn.trees import TreeDescent
from discreet.mechanisms.perturbed_minimum import PerturbedMinimum
from discreet.noise.entropy import Entropy
from discreet.plan.plan import Plan
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.contracts.audit_row import AuditRow, sampled

DELTA = "1e-5"
ERROR = 1e-5
"""The chance of accusing what is sound: a curve of claims cannot be refuted at less than its least δ."""

ONCE = 28
"""The ε of 300 steps with the noise that one step needs at ε = 1."""


class AtTheStart(LinearDescent):
    """All gradients are asked for at the same point, and added up."""

    at: ClassVar[dict[str, Any]] = {}

    def run(self, plan: Plan) -> Any:
        at = {"weights": np.zeros((1, self.features.width)), "clip": CLIP, **self.at}
        total = np.zeros(self.features.width)
        for _ in range(self.draws):
            total += np.array((yield Draw("gradient", at)), np.float64)
        return total


class TreesAtTheStart(TreeDescent, AtTheStart):
    """The same of boosted trees of declared values."""

    at: ClassVar[dict[str, Any]] = {"cuts": [], "depth": 3}


class Seen(NamedTuple):
    """What the table of audits reads."""

    violated: bool
    notes: tuple[str, ...] = ()


def canaries(of: str, loss: RowLoss, target: tuple[float, float] | None = None) -> AuditRow:
    """People each of whom has a feature of their own, which their gradient alone moves."""

    def audited(epsilon: int) -> Callable[[int], Any]:
        def audit(people: int) -> Seen:
            given: dict[str, Any] = {"loss": loss, "target": target, "rows": people}
            kind = TreesAtTheStart if of.startswith("BoostedTrees") else AtTheStart
            recipe = kind(listed(people), Fraction(epsilon), Fraction(DELTA), **given)
            y = Range(0, 2, integer=True) if target is None else Range(*target)
            facts = {"x0": Range(0, people, integer=True), "y": y}
            types = {"x0": Type.INT, "y": Type.INT if target is None else Type.REAL}
            table = TableSchema("rows", types, facts, PrivacyUnit.row(), Relation.ADD_REMOVE)
            plan = recipe.plan([table])

            def train(who: Any) -> Any:
                own = np.full(len(who), 1.0 if target is None else target[1])
                return run_on_arrays(recipe, plan, np.arange(len(who)), {"x0": np.asarray(who), "y": own})

            score = lambda model, who: -float(model[int(who)])  # noqa: E731
            claim = PrivacyLoss(replace(recipe, epsilon=Fraction(1)).plan([table]).payers[0].events)
            found = one_run(train, np.arange(people), score, claim, error=ERROR)
            return Seen(found.violated)

        return audit

    return AuditRow(of, "canaries", audited(1), audited(ONCE), "300 steps charged as one", 500, 2000)


class Largest(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator that one row decides."""

    def fit(self, X: Any, y: Any) -> Largest:
        self.coef_ = np.max(X, axis=0)
        return self


def blocks() -> AuditRow:
    """A person with a row in every block; the twin takes each of the rows for a person."""
    given: dict[str, Any] = {"blocks": 40, "epsilon": 1, "weights": (0, 1), "attributes": ["coef_"]}
    model = SampleAggregate(Largest(), **given)
    others, own = np.zeros((9, 1)), np.ones((400, 1))

    def sampler(*, kept: bool) -> Callable[[bool, int], object]:
        def sample(there: bool, n: int) -> object:
            rows = np.concatenate([others, own]) if there else others
            who = np.minimum(np.arange(len(rows)), 9) if kept else None
            return np.array([model.fit(rows, rows[:, 0], who=who).model_.coef_[0] for _ in range(n)])

        return sample

    claim = Budget(epsilon=1)
    ours, theirs = (sampled(sampler(kept=kept), False, True, claim) for kept in (True, False))
    return AuditRow("SampleAggregate", "rows of a person", ours, theirs, "each row taken for a person", 500, 2000)


class Cells(Clustering):
    """The noisy counts of a grid, of which a person is in a cell of their own."""

    def run(self, plan: Plan) -> Any:
        return (yield Draw("grid"))


def told(of: str, make: Callable[[int, Fraction], DeclaredRows], score: Callable[[Any, int], float]) -> AuditRow:
    """People each of whom moves a number of their own in what is drawn once."""

    def audited(epsilon: int) -> Callable[[int], Any]:
        def audit(people: int) -> Seen:
            def planned(epsilon: int) -> Any:
                recipe = make(people, Fraction(epsilon))
                facts = {"x0": Range(0, people, integer=True), "y": Range(0, 2, integer=True)}
                types = {"x0": Type.INT, "y": Type.INT}
                table = TableSchema("rows", types, facts, PrivacyUnit.row(), Relation.ADD_REMOVE)
                return recipe, recipe.plan([table])

            recipe, plan = planned(epsilon)

            def train(who: Any) -> Any:
                given = {"x0": np.asarray(who), "y": np.zeros(len(who))}
                return run_on_arrays(recipe, plan, np.arange(len(who)), given)

            claim = PrivacyLoss(planned(1)[1].payers[0].events)
            found = one_run(train, np.arange(people), lambda m, who: score(m, int(who)), claim, error=ERROR)
            return Seen(found.violated)

        return audit

    return AuditRow(of, "canaries", audited(1), audited(ONCE), "28 times the ε", 500, 512)


class Bare(PerturbedMinimum):
    """A law without its secret vector: there is noise on the minimum alone."""

    def secret(self, rng: Entropy) -> Any:
        return [0] * self.width


def objective(of: str, loss: RowLoss, target: tuple[float, float] | None, delta: str) -> AuditRow:
    """People each of whom moves a weight of their own at the minimum of an objective."""

    def audited(law: type[PerturbedMinimum]) -> Callable[[int], Any]:
        def audit(samples: int) -> Seen:
            people = samples // 5  # each fit takes exact steps in as many weights
            y = Range(0, 2, integer=True) if target is None else Range(*target)
            facts = {"x0": Range(0, people, integer=True), "y": y}
            types = {"x0": Type.INT, "y": Type.INT if target is None else Type.REAL}
            table = TableSchema("rows", types, facts, PrivacyUnit.row(), Relation.ADD_REMOVE)
            recipe = ObjectiveMinimum(listed(people), Fraction(1), Fraction(delta), loss=loss, target=target)
            plan = recipe.plan([table])
            (part,) = plan.parts
            own: Any = part.law
            drawn = law(*(getattr(own, f.name) for f in fields(own)))
            held: Any = replace(plan, parts=(replace(part, law=drawn),))  # type: ignore[type-var]  # a part is a dataclass

            def train(who: Any) -> Any:
                given = {"x0": np.asarray(who), "y": np.full(len(who), 0.0 if target is None else target[0])}
                return run_on_arrays(recipe, held, np.arange(len(who)), given)

            score = lambda model, who: -float(model["weights"][0][int(who)])  # noqa: E731
            found = one_run(train, np.arange(people), score, PrivacyLoss(plan.payers[0].events), error=ERROR)
            return Seen(found.violated)

        return audit

    kind = "pure" if delta == "0" else "Gaussian"
    sound, broken = audited(PerturbedMinimum), audited(Bare)
    return AuditRow(of, f"canaries in an objective, {kind}", sound, broken, "no noise in the objective", 500, 1000)


def listed(people: int) -> tuple[DeclaredColumn, ...]:
    """A column whose values are people."""
    return (DeclaredColumn.of("who", Values(*range(people))),)


def of_matrix(people: int, epsilon: Fraction) -> DeclaredRows:
    """A Gram matrix."""
    return GramSum(listed(people), epsilon, Fraction(DELTA))


def of_narrowed(people: int, epsilon: Fraction) -> DeclaredRows:
    """A Gram matrix of narrower ranges."""
    return NarrowedGram(listed(people), epsilon, Fraction(DELTA))


def of_classes(people: int, epsilon: Fraction) -> DeclaredRows:
    """Class sums."""
    return ClassSums(listed(people), epsilon, Fraction(DELTA))


def of_grid(people: int, epsilon: Fraction) -> DeclaredRows:
    """Counts of a grid of one cell a person, and more."""
    return Cells((DeclaredColumn("x", 0.0, float(SIDES[1])),), epsilon, Fraction(0))


def chosen() -> AuditRow:
    """People each of whom has a value of their own in the best of two random fits."""

    def audited(epsilon: int) -> Callable[[int], Any]:
        def audit(people: int) -> Seen:
            model = GaussianNB(bounds=[Values(*range(people))], classes=[0, 1])
            given: dict[str, Any] = {"epsilon": epsilon, "delta": "1e-12", "runs": 2}

            def train(who: Any) -> Any:
                return choose([model], np.asarray(who)[:, None], np.zeros(len(who)), **given).model._state

            claim = PrivacyLoss(Composed([ApproximateEvent(Fraction(1), Fraction("1e-12"))]))
            found = one_run(train, np.arange(people), lambda m, i: m["sums"][0][1 + int(i)], claim, error=ERROR)
            return Seen(found.violated)

        return audit

    return AuditRow(
        "GaussianNB", "canaries in the best of runs", audited(1), audited(4 * ONCE), "112 times the ε", 500, 512
    )


AUDITS = [
    chosen(),
    blocks(),
    *(told(of, of_matrix, lambda m, i: m["gram"][i][i]) for of in ("Gram", "StandardScaler")),
    told("PCA", of_narrowed, lambda m, i: m["gram"][i][i]),
    told("GaussianNB", of_classes, lambda m, i: m["sums"][0][1 + i]),
    told("KMeans", of_grid, lambda m, i: float(m[i])),
    objective("LogisticRegression", Logistic(), None, "0"),
    objective("LinearRegression", Huber(), (-1, 1), "1e-9"),
    canaries("LogisticRegression", Logistic()),
    canaries("BoostedTrees", Logistic()),
    canaries("BoostedTreesRegressor", Squared(), (-1, 1)),
    canaries("LinearSVC", Hinge()),
    canaries("LinearRegression", Squared(), (-1, 1)),
    canaries("PoissonRegressor", Poisson(high=5), (0, 5)),
]
"""The audits of this family."""
