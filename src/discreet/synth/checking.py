"""A private look at how far a synthetic data set is from the data: the distance of each column and pair, with noise.

Guarantee:
    (ε, δ)-DP for one person under the relation of the account: the model is public, and a person whose rows are at most
    m moves each table, and so its ℓ1 distance from the model's, by at most m, or by 2m where they are replaced
    (docs/proofs/synth.md).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.engine.connect import connect
from discreet.engine.person_recipe import PersonRecipe, RecipeTable
from discreet.engine.recipe import Draw
from discreet.mechanisms.draws import AddedNoise
from discreet.plan.parts import person_part, plan_recipe
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import PrivacyUnit, Relation, Sensitivity
from discreet.synth.domain import Integers, SynthColumn, cell_rows

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.engine.person_parts import PeopleRows
    from discreet.engine.recipe import Running
    from discreet.plan.plan import Plan


@dataclass(frozen=True)
class ModelCheck(PersonRecipe):
    """The noisy ℓ1 distances of a model's tables from those of the data.

    Attributes:
        columns: the columns.
        source: the name of their table.
        epsilon: the ε to be spent.
        delta: the δ to be spent; 0 for Laplace noise.
        per_person: how many rows of a person are read at most.
        tables: the model's expected counts, by the places of their columns.
        digest: of these.
    """

    columns: tuple[SynthColumn, ...]
    source: str
    epsilon: Fraction
    delta: Fraction
    per_person: int
    tables: Mapping[tuple[int, ...], Integers] = field(repr=False, compare=False)
    digest: str = ""

    @classmethod
    def of(
        cls,
        columns: Sequence[SynthColumn],
        tables: Mapping[tuple[int, ...], Integers],
        source: str,
        price: tuple[Fraction, Fraction],
        per_person: int,
    ) -> ModelCheck:
        """Return the check of these tables at the price of (ε, δ)."""
        text = b"".join(table.tobytes() for table in tables.values())
        return cls(tuple(columns), source, *price, per_person, tables, hashlib.sha256(text).hexdigest())

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        rows = cell_rows(self.columns, self.source, tables, self.per_person)
        n, moved = len(self.tables), rows.most * (2 if rows.question.table.relation is Relation.REPLACE else 1)
        norms = Sensitivity(n, moved)
        made = person_part("distances", rows, width=n, norms=norms, kind="whole")
        return plan_recipe([made], epsilon=self.epsilon * part, delta=self.delta, parameters={"of": repr(self)})

    def run(self, plan: Plan) -> Running[list[int]]:
        noisy = yield Draw("distances")
        return [int(n) for n in noisy]

    def whole(self, people: PeopleRows, of: str, args: Any) -> Integers:
        found = [
            int(np.abs(counted(people.matrix, places, table.shape) - table).sum())
            for places, table in self.tables.items()
        ]
        return np.array(found, np.int64)

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        names = [", ".join(self.columns[i].name for i in places) for places in self.tables]
        return ["table", "distance"], [[name, int(n)] for name, n in zip(names, state, strict=True)]


def found_in(checked: RecipeTable) -> tuple[list[int], int]:
    """Return the distances, and how far each is off at most with a probability of 95 %."""
    (part,) = checked.plan.parts
    assert isinstance(part.law, AddedNoise)
    return [n for _, n in checked.rows], part.law.noise.quantile(Fraction(19, 20))


def counted(matrix: Integers, places: Sequence[int], shape: Sequence[int]) -> Integers:
    """Return how many rows stand in each cell of some columns. Private."""
    flat = np.ravel_multi_index([matrix[:, i] for i in places], [*shape])
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)


def of_frame(frame: Any, relation: str | Relation, check: ModelCheck) -> RecipeTable:
    """Return what a check finds in a data frame, each row of which is a person; the caller accounts for it."""
    with connect(
        {check.source: frame},
        unit=PrivacyUnit.row(),
        columns={column.name: column.fact for column in check.columns},
        relation=relation,
        population="rows",
        budget=Budget(check.epsilon, check.delta, per_query=check.epsilon),
        ledger=":memory:",
    ) as session:
        return session.perform(check, trusted_code=True)
