"""Synthetic data: what all noisy tables tell of each of many canaries, of which a fair coin puts each in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.accounting.loss import PrivacyLoss
from discreet.audit import one_run
from discreet.catalog.schema import Range, TableSchema
from discreet.catalog.types import Type
from discreet.engine.on_arrays import run_on_arrays
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.synth.census import KINDS
from discreet.synth.domain import SynthColumn
from discreet.synth.hierarchical import AskedHierarchy
from discreet.synth.recipe import AdaptiveSynthesis
from tests.contracts.audit_row import AuditRow
from tests.contracts.families.learn import DELTA, ERROR, Seen

MORE = 100
"""The ε of tables that are charged at ε = 1."""


def canaries(of: str, candidates: tuple[tuple[int, int], ...]) -> AuditRow:
    """People each of whom has a value of their own, in a column and in its pair with another."""

    def audited(epsilon: int) -> Callable[[int], Any]:
        def audit(people: int) -> Seen:
            who, one = (Range(0, n, integer=True) for n in (people - 1, 0))
            columns = tuple(SynthColumn.of(name, f, Type.INT, people) for name, f in (("who", who), ("one", one)))
            recipe = AdaptiveSynthesis(
                columns=columns,
                source="rows",
                epsilon=Fraction(epsilon),
                delta=Fraction(DELTA),
                candidates=candidates,
                weights=(1,) * len(candidates),
                components=1,
                steps=(1, 1),
            )
            types = {"who": Type.INT, "one": Type.INT}
            table = TableSchema("rows", types, {"who": who, "one": one}, PrivacyUnit.row(), Relation.ADD_REMOVE)
            plan = recipe.plan([table])

            def train(there: Any) -> Any:
                cells = {"c0": np.asarray(there), "c1": np.zeros(len(there))}
                # in the pair rare values are one, so that no canary has a cell of its own
                return run_on_arrays(recipe, plan, np.arange(len(there)), cells)["columns"]

            claim = PrivacyLoss(replace(recipe, epsilon=Fraction(1)).plan([table]).payers[0].events)
            found = one_run(train, np.arange(people), lambda m, who: float(m[int(who)]), claim, error=ERROR)
            return Seen(found.violated)

        return audit

    return AuditRow(of, "canaries", audited(1), audited(MORE), "tables of ε = 100 charged as 1", 500, 2000)


def units_of_their_own(of: str) -> AuditRow:
    """People each of whom is alone in a unit, under replace: one who is not there stands in a unit beside all."""

    def audited(epsilon: int) -> Callable[[int], Any]:
        def audit(people: int) -> Seen:
            types, unit = {"who": Type.INT, "one": Type.INT}, PrivacyUnit.row()
            facts = {"who": Range(0, people, integer=True), "one": Range(0, 1, integer=True)}
            table = TableSchema("rows", types, facts, unit, Relation.REPLACE)
            recipe = AskedHierarchy(epsilon, DELTA, ["who"], ["one"]).recipe([table])
            plan = recipe.plan([table])

            def train(there: Any) -> Any:
                at = np.full(people, people)
                at[np.asarray(there)] = np.asarray(there)
                state = run_on_arrays(recipe, plan, np.arange(people), {"c0": at, "c1": np.zeros(people)})
                totals, cells = (np.array(state[f"{kind} 1"].split(), np.int64) for kind in KINDS)
                return totals + cells.reshape(-1, recipe.attributes.cells)[:, 0]

            claim = PrivacyLoss(replace(recipe, epsilon=Fraction(1)).plan([table]).payers[0].events)
            found = one_run(train, np.arange(people), lambda m, who: float(m[int(who)]), claim, error=ERROR)
            return Seen(found.violated)

        return audit

    return AuditRow(of, "units of their own", audited(1), audited(MORE), "tables of ε = 100 charged as 1", 500, 2000)


AUDITS = [units_of_their_own("Hierarchy"), canaries("Adaptive", ((0, 1),)), canaries("Independent", ())]
"""The audits of this family."""
