"""Synthetic data: what all noisy tables tell of each of many canaries, of which a fair coin puts each in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.accounting.loss import PrivacyLoss
from discreet.audit import one_run
from discreet.catalog.schema import Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.person_recipe import run_on_arrays
from discreet.engine.recipe import Draw, Wait
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.synth.answers import OnlineWeights
from discreet.synth.census import KINDS
from discreet.synth.domain import SynthColumn
from discreet.synth.hierarchical import AskedHierarchy
from discreet.synth.named import AimSynthesis, TreeSynthesis, WeightsSynthesis
from discreet.synth.recipe import AdaptiveSynthesis, Schedule
from tests.contracts.audit_row import AuditRow
from tests.contracts.families.learn import DELTA, ERROR, Seen

MORE = 100
"""The ε of tables that are charged at ε = 1."""


def canaries(
    of: str,
    candidates: tuple[tuple[int, int], ...],
    kind: type[AdaptiveSynthesis] = AdaptiveSynthesis,
    more: int = MORE,
    cells: Callable[[Any], Any] = lambda state: state["columns"],
) -> AuditRow:
    """People each of whom has a value of their own, in a column and in its pair with another."""

    def audited(epsilon: int) -> Callable[[int], Any]:
        def audit(people: int) -> Seen:
            who, one = (Range(0, n, integer=True) for n in (people - 1, 0))
            columns = tuple(SynthColumn.of(name, f, Type.INT, people) for name, f in (("who", who), ("one", one)))
            recipe = kind(
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
                values = {"c0": np.asarray(there), "c1": np.zeros(len(there))}
                # in the pair rare values are one, so that no canary has a cell of its own
                return cells(run_on_arrays(recipe, plan, np.arange(len(there)), values))

            claim = PrivacyLoss(replace(recipe, epsilon=Fraction(1)).plan([table]).payers[0].events)
            found = one_run(train, np.arange(people), lambda m, who: float(m[int(who)]), claim, error=ERROR)
            return Seen(found.violated)

        return audit

    return AuditRow(of, "canaries", audited(1), audited(more), f"tables of ε = {more:,} charged as 1", 500, 2000)


def measured(state: Any) -> dict[int, float]:
    """What MWEM measured of each canary: the mean of its numbers in the cell where `one` is 0; else a quarter."""
    found: dict[int, list[int]] = defaultdict(list)
    for place, noisy in state["steps"]:
        if place % 2 == 0:
            found[place // 2].append(noisy)
    return defaultdict(lambda: 0.25, {who: float(np.mean(noisy)) for who, noisy in found.items()})


class Chooses(AdaptiveSynthesis):
    """Choices of pairs alone: a canary for each pair, which explains the table badly where the canary is in."""

    picks = 70

    @property
    def schedule(self) -> Schedule:
        """As many choices as are audited."""
        return Schedule(1, self.picks, 1, 1, chosen=True)

    def run(self, plan: Any) -> Any:
        n = len(self.candidates)
        maps = [np.arange(size) for size in self.sizes]
        model = np.zeros((sum(self.sizes),) * 2, np.int64)
        for i in range(n):
            model[3 * i, 3 * n] = n  # everybody, though about half of them are there
        asked = {"maps": maps, "sizes": self.sizes, "model": model, "noise": [0] * n}
        done = np.zeros(n, np.bool_)
        for _ in range(self.picks):
            place = yield Draw("choice", {**asked, "done": done})
            done = done.copy()
            done[place] = True
        return {"columns": [], "rounds": done.tolist()}


def selection() -> AuditRow:
    """Canaries each of whom is told of by the choice of a pair alone; the tables are not looked at."""

    def audited(epsilon: int) -> Callable[[int], Any]:
        def audit(effort: int) -> Seen:
            people = 140 if effort <= 500 else 199  # a query has 200 columns at most
            facts = {f"c{i}": Values(0, 1) for i in range(people + 1)}
            columns = tuple(SynthColumn.of(name, fact, Type.INT, 2) for name, fact in facts.items())
            pairs = tuple((i, people) for i in range(people))
            recipe = Chooses(columns, "rows", Fraction(epsilon), Fraction(DELTA), 1, pairs, (1,) * people, components=1)
            types = dict.fromkeys(facts, Type.INT)
            table = TableSchema("rows", types, facts, PrivacyUnit.row(), Relation.ADD_REMOVE)
            plan = recipe.plan([table])

            def train(there: Any) -> Any:
                who = np.asarray(there)
                values = {f"c{i}": (who == i).astype(float) for i in range(people)} | {f"c{people}": np.zeros(len(who))}
                return run_on_arrays(recipe, plan, np.arange(len(who)), values)["rounds"]

            claim = PrivacyLoss(replace(recipe, epsilon=Fraction(1)).plan([table]).payers[0].events)
            found = one_run(train, np.arange(people), lambda m, who: float(m[int(who)]), claim, error=ERROR)
            return Seen(found.violated)

        return audit

    return AuditRow(
        "Adaptive", "selection", audited(1), audited(10_000), "choices of ε = 10,000 charged as 1", 500, 2000
    )


class AsksAll(OnlineWeights):
    """Answers to one query after the other, each of a combination by its number."""

    def chosen(self, sql: Any) -> Any:
        """Return the combination."""
        return np.arange(self.sizes[0]) == sql

    def run(self, plan: Any) -> Any:
        inner, numbers = super().run(plan), iter(range(self.sizes[0]))
        step = next(inner)
        while True:
            try:
                step = inner.send(next(numbers)) if isinstance(step, Wait) else inner.send((yield step))
            except StopIteration as end:
                return end.value


def online() -> AuditRow:
    """People of ten rows each with a value of their own, each of whom is asked for."""

    def audited(epsilon: int) -> Callable[[int], Any]:
        def audit(effort: int) -> Seen:
            people = min(effort, 500)
            who = Range(0, people - 1, integer=True)
            columns = (SynthColumn.of("who", who, Type.INT, people),)
            error = Fraction(6 if epsilon > 1 else 9000)
            recipe = AsksAll(columns, "rows", Fraction(epsilon), Fraction(0), 10, people, error)
            types, unit = {"id": Type.INT, "who": Type.INT}, PrivacyUnit("id", max_groups=1, max_rows=10)
            table = TableSchema("rows", types, {"who": who}, unit, Relation.ADD_REMOVE)
            plan = recipe.plan([table])

            def train(there: Any) -> Any:
                rows = np.repeat(np.asarray(there), 10)
                state = run_on_arrays(recipe, plan, rows, {"c0": rows.astype(float)})
                return defaultdict(float, {place: float(noisy) for place, noisy in state["steps"]})

            claim = PrivacyLoss(Composed.of(ApproximateEvent(Fraction(1))))
            found = one_run(train, np.arange(people), lambda m, who: m[int(who)], claim, error=ERROR)
            return Seen(found.violated)

        return audit

    return AuditRow("Answers", "canaries", audited(1), audited(100_000), "noise of ε = 100,000 charged as 1", 500, 2000)


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


AUDITS = [
    units_of_their_own("Hierarchy"),
    canaries("Adaptive", ((0, 1),)),
    selection(),
    canaries("Independent", ()),
    canaries("AIM", ((0, 1),), AimSynthesis, 10_000),
    canaries("MST", ((0, 1),), TreeSynthesis),
    canaries("MWEM", ((0, 1),), WeightsSynthesis, 100_000, measured),
    online(),
]
"""The audits of this family."""
