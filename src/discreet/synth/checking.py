"""A private look at how far a synthetic data set is from the data: the distance of each column and pair, with noise.

Guarantee:
    (ε, δ)-DP for one person under the relation of the account: the model is public, and a person whose rows are at most
    m moves each table, and so its ℓ1 distance from the model's, by at most m, or by 2m where they are replaced
    (docs/proofs/synth.md).
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.engine.person_recipe import PersonRecipe
from discreet.engine.recipe import Draw
from discreet.plan.parts import person_part, plan_recipe
from discreet.privacy.unit import Relation, Sensitivity
from discreet.synth.domain import CellRecipe, Integers

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.engine.person_parts import PeopleRows
    from discreet.engine.recipe import Running
    from discreet.plan.person_rows import PersonRows
    from discreet.plan.plan import Plan


class Distances(PersonRecipe):
    """Noisy ℓ1 distances of public tables from those of the data: each moves by as many rows as a person has."""

    epsilon: Fraction
    delta: Fraction

    @abstractmethod
    def rows(self, tables: Sequence[TableSchema]) -> PersonRows:
        """Return the rows that are read."""

    @property
    @abstractmethod
    def of(self) -> list[tuple[str, ...]]:
        """What names each distance."""

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        rows, n = self.rows(tables), len(self.of)
        moved = rows.most * (2 if rows.question.table.relation is Relation.REPLACE else 1)
        made = person_part("distances", rows, width=n, norms=Sensitivity(n, moved), kind="whole")
        return plan_recipe([made], epsilon=self.epsilon * part, delta=self.delta, parameters={"of": repr(self)})

    def run(self, plan: Plan) -> Running[list[int]]:
        noisy = yield Draw("distances")
        return [int(n) for n in noisy]

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        names = ["level", "table"][-len(self.of[0]) :]
        return [*names, "distance"], [[*name, int(n)] for name, n in zip(self.of, state, strict=True)]


@dataclass(frozen=True)
class ModelCheck(CellRecipe, Distances):
    """The noisy ℓ1 distances of a model's tables from those of the data; with a δ of 0 the noise is Laplace's.

    Attributes:
        tables: the model's expected counts, by the places of their columns.
        digest: of these.
    """

    tables: Mapping[tuple[int, ...], Integers] = field(repr=False, compare=False)
    digest: str = ""

    @property
    def of(self) -> list[tuple[str, ...]]:
        return [(", ".join(self.columns[i].name for i in places),) for places in self.tables]

    def whole(self, people: PeopleRows, of: str, args: Any) -> Integers:
        found = [
            int(np.abs(counted(people.matrix, places, table.shape) - table).sum())
            for places, table in self.tables.items()
        ]
        return np.array(found, np.int64)


def digest_of(tables: Iterable[Integers]) -> str:
    """Return a SHA-256 of tables: others are another query."""
    return hashlib.sha256(b"".join(table.tobytes() for table in tables)).hexdigest()


def counted(matrix: Integers, places: Sequence[int], shape: Sequence[int]) -> Integers:
    """Return how many rows stand in each cell of some columns. Private."""
    flat = np.ravel_multi_index([matrix[:, i] for i in places], [*shape])
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)
