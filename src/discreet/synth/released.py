"""What releases of noisy tables share: their plan with its price, their proof, data frames as tables of one use, and a
private look at how far they are from the data.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from discreet.engine.connect import connect
from discreet.engine.person_recipe import PersonRecipe
from discreet.engine.recipe import Draw
from discreet.errors import InvalidParameter
from discreet.mechanisms.draws import AddedNoise
from discreet.plan.parts import person_part, plan_recipe
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import PrivacyUnit, Relation, Sensitivity
from discreet.synth.domain import CellRecipe, Integers

if TYPE_CHECKING:
    from discreet.catalog.schema import Fact, TableSchema
    from discreet.engine.person_parts import PeopleRows
    from discreet.engine.person_recipe import RecipeTable
    from discreet.engine.recipe import Running
    from discreet.engine.session import Session
    from discreet.plan.person_rows import PersonRows
    from discreet.plan.plan import Plan


ROWS = "rows"  # the name of a data frame's table


def frame_session(
    frame: object, columns: Mapping[str, Fact], relation: str | Relation, epsilon: Any, delta: Any
) -> Session:
    """Return a session over a data frame, each row of which is a person, for a release that its caller accounts for."""
    return connect(
        {ROWS: frame},
        unit=PrivacyUnit.row(),
        columns=columns,
        relation=relation,
        population=ROWS,
        budget=Budget(epsilon, delta, per_query=epsilon),
        ledger=":memory:",
    )


class Priced:
    """Anything that has been planned, with its price.

    Attributes:
        plan: what is drawn, and its price; None where it was loaded from a file.
    """

    plan: Any

    @property
    def price(self) -> str:
        """What is charged for it, in words; raises as `cost`."""
        return self._decided.price

    @property
    def cost(self) -> Any:
        """What it costs, as a `PrivacyLoss`.

        Raises:
            InvalidParameter: it was loaded from a file.
        """
        return self._decided.cost

    @property
    def _decided(self) -> Plan:
        plan: Plan | None = self.plan
        if plan is None:
            raise InvalidParameter("this was loaded from a file.", hint="its certificate has the cost")
        return plan


class Proved(Priced):
    """Anything that was made of noisy tables, with these and their certificate."""

    _proof: RecipeTable | None = None
    _look: tuple[Callable[[Any], RecipeTable], str, int] | None = None

    @property
    def stored(self) -> bool:
        """Whether the ledger had it, so that it cost nothing."""
        return self._proved.stored

    def certificate(self) -> dict[str, Any]:
        """Return the certificate of the noisy tables, for `discreet verify`.

        Raises:
            InvalidParameter: it was made without a ledger, or loaded from a file.
        """
        return self._proved.certificate()

    @property
    def tables(self) -> list[tuple[Any, ...]]:
        """The noisy tables that all of it follows from: their names, and their counts as text."""
        return [*self._proved]

    @property
    def _proved(self) -> RecipeTable:
        if self._proof is None:
            raise InvalidParameter(
                "this was made without a ledger, or loaded from a file.", hint="ask a session for it"
            )
        return self._proof

    def checked_by(self, perform: Callable[[Any], RecipeTable], source: str, per_person: int) -> Self:
        """Return the same, where a look at the data is done so: at so many rows of a person in this table."""
        self._look = perform, source, per_person
        return self

    def _looked(
        self, recipe: Callable[[str, int], Any], frame: object, facts: Mapping[str, Fact], relation: str | Relation
    ) -> tuple[RecipeTable, int]:
        """Return what a look at the data finds, and how far each number is off at most with a probability of 95 %.

        Raises:
            InvalidParameter: no session made it, and there is no frame.
        """
        if frame is not None:
            check = recipe(ROWS, 1)
            with frame_session(frame, facts, relation, check.epsilon, check.delta) as session:
                found: RecipeTable = session.perform(check, trusted_code=True)
        elif self._look is None:
            raise InvalidParameter("no session made this.", hint="check=0.1, frame=rows")
        else:
            perform, source, most = self._look
            found = perform(recipe(source, most))
        (part,) = found.plan.parts
        assert isinstance(part.law, AddedNoise)
        return found, part.law.noise.quantile(Fraction(19, 20))


class Distances(PersonRecipe):
    """Noisy ℓ1 distances of public tables from those of the data: of a synthetic data set, say, each column and pair.

    Guarantee:
        (ε, δ)-DP for one person under the relation of the account: the model is public, and a person whose rows are at
        most m moves each table, and so its ℓ1 distance from the model's, by at most m, or by 2m where they are replaced
        (docs/proofs/synth.md).
    """

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
    """The noisy ℓ1 distances of a model's tables from those of the data; with a δ of 0 the noise is Laplace's."""

    # the model's expected counts, by the places of their columns
    tables: Mapping[tuple[int, ...], Integers] = field(repr=False, compare=False)
    digest: str = ""  # of these

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
