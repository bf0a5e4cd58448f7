"""The recipe of SQL: one question or several, with bounds declared or chosen, of one population or of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from discreet.engine.cells import measured
from discreet.engine.release import Release
from discreet.plan.auto_bounds.queries import Choice
from discreet.plan.auto_bounds.staged import kept, restored
from discreet.post.noisy_table import FORMAT, NoisyTable, check_format
from discreet.verify.certificate.seal import answer

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.engine.recipe import Receipt, Running
    from discreet.plan.plan import Place, Plan

Make: TypeAlias = "Callable[[Sequence[TableSchema], Fraction], Plan]"
"""The plan over these tables, at so large a part of the ε asked for."""


@dataclass(frozen=True, slots=True)
class AnsweredQuestions:
    """The noisy tables of a plan's measurements, what its first stage chose, where it has one, and the plan with it."""

    tables: tuple[NoisyTable, ...]
    choice: Choice | None = None
    settled: Plan | None = None


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions in SQL, as a recipe: their results are releases, by name.

    Attributes:
        make: their plan.
    """

    make: Make

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        return self.make(tables, part)

    def run(self, plan: Plan) -> Running[AnsweredQuestions]:
        if plan.flows is not None:
            from discreet.engine.flows import measured_flows

            return AnsweredQuestions(((yield from measured_flows(plan)),))
        if plan.stages is not None:
            from discreet.engine.looks import measured_in_stages

            choice, settled, table = yield from measured_in_stages(plan)
            return AnsweredQuestions((table,), choice, settled)
        tables = []
        for i, query in enumerate(plan.measurements):
            table = yield from measured(query, f"{i} ")
            tables.append(table)
        return AnsweredQuestions(tuple(tables))

    def settled(self, plan: Plan, state: AnsweredQuestions) -> Plan:
        return plan if state.settled is None else state.settled

    def keep(self, state: AnsweredQuestions) -> dict[str, Any]:
        first, *others = state.tables
        if state.choice is not None:
            return {"format": FORMAT, **kept(state.choice, first.to_json())}
        if others:
            return {"format": FORMAT, "tables": [t.to_json() for t in state.tables]}
        return first.to_json()

    def restore(self, plan: Plan, kept: dict[str, Any]) -> AnsweredQuestions:
        check_format(kept)
        if plan.stages is not None:
            choice, table = restored(kept)
            return AnsweredQuestions((NoisyTable.from_json(table),), choice, plan.stages.settled(plan, choice))
        return AnsweredQuestions(tuple(NoisyTable.from_json(t) for t in kept.get("tables", [kept])))

    def build(self, plan: Plan, state: AnsweredQuestions, receipt: Receipt) -> dict[str, Release]:
        return {
            name: Release(
                plan,
                _part(state.tables, output.place),
                name=name,
                stored=receipt.stored,
                paid=receipt.paid,
                drawn=receipt.drawn,
            )
            for name, output in plan.outputs.items()
        }

    def answers(self, plan: Plan, state: AnsweredQuestions, result: Mapping[str, Release]) -> dict[str, dict[str, Any]]:
        return {name: answer(r.columns, r.rows) for name, r in result.items()}


def _part(tables: Sequence[NoisyTable], place: Place | None) -> NoisyTable:
    """Return a question's own columns of the measurement that it is answered from."""
    if place is None:
        return tables[0]
    table = tables[place.measurement]
    cells = tuple(tuple(row[i] for i in place.columns) for row in table.cells)
    spreads = tuple(table.spreads[i] for i in place.spreads)
    levels = tuple(tuple(tuple(row[i] for i in place.columns) for row in level) for level in table.levels)
    return NoisyTable(table.keys, cells, (), spreads, levels)
