"""Counting queries that are answered one at a time, at a price that does not grow with their number.

Private multiplicative weights: an expected number of rows for each combination of cells answers a query where it is
near enough, which a sparse vector says; else the query is measured, and the expectation learns from it. The most
measurements are charged at once, when the run opens, and after the last of them it has ended.

Guarantee:
    ε-DP for one person for the whole run, whoever chooses each query in sight of all earlier answers. Each answer is
    within `error` of the number of rows that were read, all of them with a probability of 95 % (docs/proofs/synth.md).

References:
    Hardt, Rothblum 2010, https://doi.org/10.1109/FOCS.2010.85; Dwork, Roth 2014, Section 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.engine.person_recipe import as_json
from discreet.engine.recipe import Draw, Wait
from discreet.errors import InvalidParameter, NotPrivate
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.draws import AboveOrBelow, AddedNoise
from discreet.mechanisms.sparse_vector import SparseVector
from discreet.plan.parts import person_part, plan_recipe
from discreet.privacy.exact import Real, count, positive
from discreet.privacy.guarantee import decimal
from discreet.privacy.unit import Sensitivity
from discreet.synth.asked import BINS, AskedSynthesis
from discreet.synth.domain import CellRecipe, Integers, read_count
from discreet.synth.named import DOUBT, CellWeights, model_of, rows_where
from discreet.synth.synthetic import Synthetic

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.engine.person_parts import Parts, PeopleRows
    from discreet.engine.recipe import Receipt, Running
    from discreet.engine.session import Session
    from discreet.plan.plan import Plan

FOR_ROWS, FOR_LOOKS = Fraction(1, 20), Fraction(3, 5)
"""The shares of ε for the number of rows, and for whether queries are near enough; the rest measures."""

MOST_UPDATES = 200  # the most queries that are measured
_EACH = 1 - Fraction(DOUBT) / 3  # with which each of three kinds of noise keeps to what is stated


class OnlineAnswer(NamedTuple):
    """An answer to a counting query.

    Attributes:
        value: the number of rows; None after the run has ended.
        measured: whether the query was measured, and not answered by what was known.
    """

    value: float | None
    measured: bool


class Margins(NamedTuple):
    """How far noise goes at most: of a look, of a measurement, and of the number of rows."""

    look: int
    number: int
    rows: int


@dataclass(frozen=True)
class OnlineWeights(CellRecipe):
    """The recipe of a run of queries that are answered one at a time; its δ is 0."""

    queries: int  # how many queries are answered at most
    error: Fraction  # how far an answer may be off

    @cached_property
    def updates(self) -> int:
        """How many queries are measured at most: as many as let the most rows be answered for.

        Raises:
            InvalidParameter: the error is too small for any.
        """
        best = max(range(1, MOST_UPDATES + 1), key=self._reach)
        if self._reach(best) <= 0:
            look, number, rows = self._margins(1)
            raise InvalidParameter(
                f"error={decimal(self.error)} is too small for ε = {decimal(self.epsilon)} and {self.queries:,} "
                f"queries: it has to be above {2 * look + number + 2 * rows:,} rows.",
                hint="a larger error= or epsilon=, or fewer queries",
            )
        return best

    @property
    def rows_at_most(self) -> int:
        """For how many rows the measurements suffice, whatever the queries are, with a probability of 95 %."""
        reach = self._reach(self.updates)
        log_n = math.log(math.prod(self.sizes))
        return max(math.floor(math.sqrt(reach / (4 * log_n))) - self._margins(self.updates).rows, 0)

    @property
    def threshold(self) -> int:
        """How far a query may be from what is expected before it is measured."""
        return math.floor(self.error) - self._margins(self.updates).look

    def _reach(self, updates: int) -> float:
        """Return by how much so many measurements lower 4·n²·ln N at least."""
        look, number, rows = self._margins(updates)
        seen = math.floor(self.error) - 2 * look - rows
        return updates * (seen**2 - (number + rows) ** 2) if seen > number + rows else -1

    def _margins(self, updates: int) -> Margins:
        return _margins(self.epsilon, self.per_person, self.queries, updates)

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        CellWeights(self.sizes, 1)  # refuses what is too large
        rows = self.rows(tables)
        one, epsilon = Sensitivity(1, rows.most), self.epsilon * part
        of_rows, looks, numbers = _laws(epsilon, self.per_person, self.threshold, self.updates)
        whole: dict[str, Any] = {"kind": "whole", "times": self.queries, "law": AboveOrBelow(looks)}
        parts = [
            person_part("rows", rows, width=1, norms=one, kind="places", law=AddedNoise(of_rows)),
            # a person's rows in chosen cells are from 0 to m, so that they move the number by m, also where replaced
            person_part("far", rows, width=1, norms=one, **whole),
            person_part("number", rows, width=1, norms=one, kind="places", times=self.updates, law=AddedNoise(numbers)),
        ]
        return plan_recipe(parts, epsilon=epsilon, parameters={"of": repr(self)})

    def run(self, plan: Plan) -> Running[dict[str, Any]]:
        (noisy,) = yield Draw("rows")
        state: dict[str, Any] = {"rows": int(noisy), "steps": []}
        weights, left = CellWeights(self.sizes, int(noisy)), self.updates
        for _ in range(self.queries):
            sql = yield Wait(state)
            chosen = self.chosen(sql)
            far = yield Draw("far", {"chosen": chosen, "guess": round(weights.guess(chosen))})
            if far:
                (noisy,) = yield Draw("number", {"chosen": chosen})
                state["steps"].append([sql, int(noisy)])
                weights.learn(chosen, float(noisy))
                left -= 1
                if not left:
                    break
        return state

    def chosen(self, sql: str) -> NDArray[np.bool_]:
        """Return the combinations of cells that a query counts; raises as `read_count`."""
        counted = read_count(sql, self.columns)
        return np.array(counted.over(range(len(self.columns)), self.sizes))

    def prepare(self, people: PeopleRows) -> Any:
        """Return for each row the place of its combination."""
        return np.ravel_multi_index([people.matrix[:, i] for i in range(len(self.columns))], self.sizes)

    def each(self, people: PeopleRows, of: str, args: Any) -> Parts:
        if of == "rows":
            return rows_where(people, np.ones(len(people.matrix), np.bool_))
        return rows_where(people, args["chosen"].reshape(-1)[people.prepared])

    def whole(self, people: PeopleRows, of: str, args: Any) -> Integers:
        found = int(args["chosen"].reshape(-1)[people.prepared].sum())
        return np.array([abs(found - args["guess"])], np.int64)

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Return the noisy numbers."""
        return ["query", "rows"], [["", state["rows"]], *([sql, noisy] for sql, noisy in state["steps"])]

    def build(self, plan: Plan, state: Any, receipt: Receipt) -> Any:
        """Return the data set that was learned: all of it follows from the state."""
        kept = as_json(state)
        weights = CellWeights(self.sizes, kept["rows"])
        for sql, noisy in kept["steps"]:
            weights.learn(self.chosen(sql), float(noisy))
        said = f"It was learned from {len(kept['steps'])} queries, and is near the data for queries like these."
        return Synthetic(model_of(self.columns, weights.held, said), plan, self.proof(plan, state, receipt))


def _laws(
    epsilon: Fraction, most: int, threshold: int, updates: int
) -> tuple[DiscreteLaplaceNoise, SparseVector, DiscreteLaplaceNoise]:
    looks = SparseVector(epsilon=epsilon * FOR_LOOKS, threshold=threshold, sensitivity=most, cutoff=updates)
    rest = 1 - FOR_ROWS - FOR_LOOKS
    return (
        DiscreteLaplaceNoise(most / (epsilon * FOR_ROWS)),
        looks,
        DiscreteLaplaceNoise(most * updates / (epsilon * rest)),
    )


@lru_cache(maxsize=1024)
def _margins(epsilon: Fraction, most: int, queries: int, updates: int) -> Margins:
    rows, looks, numbers = _laws(epsilon, most, 0, updates)
    # an expected number is rounded before it is compared
    look = math.ceil(looks.error(_EACH, queries=queries)) + 1
    return Margins(look, numbers.quantile(1 - Fraction(DOUBT) / (3 * updates)), rows.quantile(_EACH))


class Answers:
    """Counting queries to a session's table, answered one at a time, for one charge of ε.

    Close it, or use it in a `with` statement. It ends by itself after `queries_at_most` queries, and after the last of
    `updates` measurements; from then on the value of an answer is None. What was charged stands.

    Guarantee:
        ε-DP for the whole run, charged when it is made. With a probability of 95 % every answer is within `error` rows
        of the data as they are read: at most `max_rows` of a person, values moved into their ranges. With the same
        probability it answers all of `queries_at_most` queries where there are at most `rows_at_most` rows.

    Attributes:
        error: how far an answer may be off.
        queries_at_most: how many queries are answered at most.
        updates: how many of them are measured at most.
        rows_at_most: for how many rows these suffice, whatever the queries are.
        rows: a noisy number of rows.

    References:
        Hardt, Rothblum 2010, https://doi.org/10.1109/FOCS.2010.85.
    """

    def __init__(
        self,
        session: Session,
        epsilon: Real | None,
        *,
        queries_at_most: int,
        error: Real,
        table: str | None = None,
        columns: Sequence[str] | None = None,
        bins: int = BINS,
    ) -> None:
        """Charge the account, and open the run.

        Args:
            session: whose table is asked.
            epsilon: the ε to be spent.
            queries_at_most: how many queries are answered at most.
            error: how far an answer may be off, in rows.
            table: the table, where there are several.
            columns: columns that queries may read; all but the person's where they are left out.
            bins: the most bins of a range.

        Raises:
            PlanError, InvalidParameter: it cannot be done so: columns with too many combinations, an error too small.
            BudgetExceeded, LedgerError, BackendFailed: as `session.open`.
        """
        if epsilon is None:
            raise NotPrivate("Answers need an ε.", hint="epsilon=1")
        asked = AskedSynthesis(None, None, table, columns, bins=bins)
        own, found, most = asked.domain(session._desk.tables)
        n = count("queries_at_most", queries_at_most)
        given = positive("epsilon", epsilon), Fraction(0), most, n, positive("error", error)
        self._recipe = OnlineWeights(found, own, *given)
        self.error, self.queries_at_most = given[-1], n
        self.updates, self.rows_at_most = self._recipe.updates, self._recipe.rows_at_most
        self._run = session.open(self._recipe, trusted_code=True)
        self.rows = int(self._run.first[0][0])
        self._weights = CellWeights(self._recipe.sizes, self.rows)

    @property
    def is_open(self) -> bool:
        """Whether it answers further queries."""
        return self._run.is_open

    @property
    def synthetic(self) -> Synthetic | None:
        """The data set that was learned; None while the run is open."""
        return self._run.result

    def ask(self, sql: str) -> OnlineAnswer:
        """Return the answer to a counting query: SELECT COUNT(*) FROM the table WHERE a condition.

        Raises:
            PlanError: it is no such query, or its condition holds for a part of a bin; it does not count as one.
        """
        chosen = self._recipe.chosen(sql)
        if not self.is_open:
            return OnlineAnswer(None, measured=False)
        guess = self._weights.guess(chosen)
        _, *noisy = self._run.ask(sql)
        if not noisy:
            return OnlineAnswer(guess, measured=False)
        value = float(noisy[0][0])
        self._weights.learn(chosen, value)
        return OnlineAnswer(value, measured=True)

    def close(self) -> None:
        """End the run; `synthetic` is what was learned."""
        self._run.close()

    def __enter__(self) -> Answers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "open" if self.is_open else "ended"
        return (
            f"Answers(within {decimal(self.error)} rows; {self.queries_at_most:,} queries, {self.updates} of them "
            f"measured, at most; {state})"
        )
