"""Estimators: what all gradients of a fit tell of each of many canaries, of which a fair coin puts each in.

The points at which gradients are asked for may follow from earlier ones. Here they are the worst for the canaries: all
at the start, where no weight has been fitted yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from discreet.accounting.loss import PrivacyLoss
from discreet.audit import one_run
from discreet.catalog.schema import Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.on_arrays import run_on_arrays
from discreet.engine.recipe import Draw
from discreet.learn.descent import CLIP, LinearDescent
from discreet.learn.features import DeclaredColumn, Features
from discreet.learn.losses import Hinge, Logistic, Poisson, RowLoss, Squared
from discreet.plan.plan import Plan
from discreet.privacy.unit import PrivacyUnit, Relation
from tests.contracts.audit_row import AuditRow

DELTA = "1e-5"
ERROR = 1e-5
"""The chance of accusing what is sound: a curve of claims cannot be refuted at less than its least δ."""

ONCE = 28
"""The ε of 300 steps with the noise that one step needs at ε = 1."""


class AtTheStart(LinearDescent):
    """All gradients are asked for at the same point, and added up."""

    def run(self, plan: Plan) -> Any:
        at = {"weights": np.zeros((1, self.features.width)), "clip": CLIP}
        total = np.zeros(self.features.width)
        for _ in range(self.draws):
            total += np.array((yield Draw("gradient", at)), np.float64)
        return total


class Seen(NamedTuple):
    """What the table of audits reads."""

    violated: bool
    notes: tuple[str, ...] = ()


def canaries(of: str, loss: RowLoss, target: tuple[float, float] | None = None) -> AuditRow:
    """People each of whom has a feature of their own, which their gradient alone moves."""

    def audited(epsilon: int) -> Callable[[int], Any]:
        def audit(people: int) -> Seen:
            features = Features((DeclaredColumn.of("who", Values(*range(people))),))
            recipe = AtTheStart(features, loss, target, Fraction(epsilon), Fraction(DELTA), rows=people)
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


AUDITS = [
    canaries("LogisticRegression", Logistic()),
    canaries("LinearSVC", Hinge()),
    canaries("LinearRegression", Squared(), (-1, 1)),
    canaries("PoissonRegressor", Poisson(high=5), (0, 5)),
]
"""The audits of this family."""
