"""What a recipe of private parts shares with others: what is kept of it, and the table that it gives."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InternalError, LedgerError
from discreet.verify.certificate.seal import answer

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.engine.person_parts import Parts, PeopleRows
    from discreet.engine.recipe import Receipt, Running
    from discreet.engine.row_factor import Integers
    from discreet.plan.plan import Plan

_FORMAT = 1
"""Version of the stored form."""


class RecipeTable:
    """What a recipe made of its noisy values: columns and rows, and what proves them.

    Attributes:
        plan: what was decided before the data was touched.
        columns: the names of the columns.
        rows: the rows, of plain values.
    """

    def __init__(self, plan: Plan, columns: Sequence[str], rows: Sequence[Sequence[Any]], receipt: Receipt) -> None:
        self.plan = plan
        self.columns = [*columns]
        self.rows = [tuple(row) for row in rows]
        self._receipt = receipt

    @property
    def stored(self) -> bool:
        """Whether the ledger had it, so that it cost nothing."""
        return self._receipt.stored

    def certificate(self) -> dict[str, Any]:
        """Return its certificate, for `discreet verify`.

        Raises:
            InvalidParameter: the ledger does not keep it.
        """
        return self._receipt.paid.certificate("", self.columns, self.rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"RecipeTable({', '.join(self.columns)}; {len(self.rows)} rows)"


class PersonRecipe(ABC):
    """A recipe of one's own over rows of people: `plan`, `run` and `table` are public, `each` and `whole` private.

    The session calls `plan` before the charge. After it, `run` is sent noisy values for what it yields, and returns a
    state of plain values that the ledger keeps; for every draw the meter calls `each` or `whole` with people's rows.
    `table` makes the result of the state alone: so does the same recipe asked again, free.
    """

    @abstractmethod
    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        """Return what may be drawn (`plan_recipe`); with `part`, at so large a part of the ε asked for."""

    @abstractmethod
    def run(self, plan: Plan) -> Running[Any]:
        """Yield draws, be sent their noisy values, and return a state of plain values."""

    @abstractmethod
    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Return the columns and the rows that follow from a state, as JSON has read it."""

    def prepare(self, people: PeopleRows) -> Any:
        """Return whatever of people's rows all draws need: private, and nothing by default."""
        return None

    def each(self, people: PeopleRows, of: str, args: Any) -> Parts:
        """Return a row of integers for each person, in their order, each of that person's rows alone: private."""
        raise InternalError("A recipe with parts of kind 'each' has a method each(people, of, args).")

    def whole(self, people: PeopleRows, of: str, args: Any) -> Integers:
        """Return a vector of integers of all people: private."""
        raise InternalError("A recipe with parts of kind 'whole' has a method whole(people, of, args).")

    def settled(self, plan: Plan, state: Any) -> Plan:
        """Return the plan: nothing of it is chosen by a first stage."""
        return plan

    def keep(self, state: Any) -> dict[str, Any]:
        """Return what the ledger keeps."""
        return {"format": _FORMAT, "state": as_json(state)}

    def restore(self, plan: Plan, kept: dict[str, Any]) -> Any:
        """Return the state that `keep` wrote.

        Raises:
            LedgerError: another version of discreet wrote it.
        """
        if kept.get("format") != _FORMAT:
            raise LedgerError(
                "This result was stored by another version of discreet. What was spent for it still counts.",
                hint="ask again with fresh=True, which is charged",
            )
        return kept["state"]

    def build(self, plan: Plan, state: Any, receipt: Receipt) -> Any:
        """Return the table of a state, or whatever follows from it."""
        return self.proof(plan, state, receipt)

    def proof(self, plan: Plan, state: Any, receipt: Receipt) -> RecipeTable:
        """Return the table of a state, which its certificate proves."""
        return RecipeTable(plan, *self.table(plan, as_json(state)), receipt)

    def answers(self, plan: Plan, state: Any, result: Any) -> Mapping[str, dict[str, Any]]:
        """Return the table as JSON, of which the ledger keeps a digest."""
        return {"": answer(*self.table(plan, as_json(state)))}


def as_json(state: Any) -> Any:
    """Return a state as JSON reads it back, so that a result is made of the same values now and when it is replayed.

    Raises:
        InternalError: it holds something that JSON has not.
    """
    try:
        return json.loads(json.dumps(state, default=_plain, allow_nan=False))
    except (TypeError, ValueError):
        raise InternalError(
            "The state that run() returned is no JSON: numbers, text, lists and dicts. The charge stands.",
            hint="return plain values: w.tolist()",
        ) from None


def _plain(value: Any) -> Any:
    """Return an array or a number of numpy as plain values."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError
