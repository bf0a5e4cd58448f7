"""What recipes of private parts share: what is kept of them, their table, and runs over a caller's own arrays."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.engine.meter import Meter, follow
from discreet.engine.person_parts import part_uses
from discreet.errors import InternalError, InvalidParameter, LedgerError
from discreet.noise.entropy import SystemEntropy
from discreet.verify.certificate.seal import answer

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.engine.person_parts import Parts, PeopleRows
    from discreet.engine.recipe import Receipt, Recipe, Running
    from discreet.engine.row_factor import Integers
    from discreet.noise.entropy import Entropy
    from discreet.plan.decided import HandedRows
    from discreet.plan.plan import Plan


_FORMAT = 1  # version of the stored form


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


def run_on_arrays(
    recipe: Recipe[Any, Any],
    plan: Plan,
    who: NDArray[Any],
    columns: Mapping[str, NDArray[Any]],
    *,
    rng: Entropy | None = None,
) -> Any:
    """Draw what a recipe planned, of arrays in the place of its tables, and return the state of its run.

    Guarantee:
        All that is returned costs the plan's events for one person of `who`, once for each call; the caller accounts
        for them. Values are clamped and rounded, and rows of a person cut off, as the plan's rows say.

    Args:
        recipe: whose parts all read columns of these names.
        plan: what it planned; WHERE and the tables of its rows are the caller's business.
        who: whose each row is: integers.
        columns: name → the numbers of all rows, NaN for none.
        rng: where randomness comes from; the operating system's by default.

    Raises:
        InvalidParameter: a column is missing, or has another length, or the plan asks SQL.
        InternalError: the recipe's code failed.
    """
    if plan.measurements or not plan.parts:
        raise InvalidParameter(
            "arrays have people's rows, and this plan asks queries in SQL.", hint="perform it in a session"
        )
    reads = {part.rows.sql: part.rows for part in plan.parts}
    for read in reads.values():
        _check(read, len(who), columns)
    meter = Meter(
        part_uses(plan.parts, recipe),
        lambda text, keyed: [],
        SystemEntropy() if rng is None else rng,
        lambda text, keyed: _columns(reads[text], np.asarray(who), columns),
    )
    return follow(recipe.run(plan), meter)


def _check(read: HandedRows, rows: int, columns: Mapping[str, NDArray[Any]]) -> None:
    """Refuse arrays that lack a column, or have different lengths."""
    missing = [name for name in read.columns if name not in columns]
    if missing or any(len(columns[name]) != rows for name in read.columns):
        raise InvalidParameter(
            f"the arrays lack {missing[0]!r}." if missing else "the arrays have different lengths.",
            hint=f"one number a row in each of: {', '.join(read.columns)}",
        )


def _columns(read: HandedRows, who: NDArray[Any], columns: Mapping[str, NDArray[Any]]) -> list[Integers]:
    """Return what a database would have given of these rows: people's numbers, and whole numbers within the bounds."""
    found = []
    for name, v in read.columns.items():
        real = np.asarray(columns[name], np.float64)
        steps = np.rint(np.clip(real / float(v.step), v.low, v.high))
        nearest = min(max(0, v.low), v.high)
        found.append(np.where(np.isfinite(real), steps, nearest).astype(np.int64))
    if not read.is_keyed:
        return found
    people, number = np.unique(who, return_inverse=True)
    order = np.lexsort([*reversed(found), number])
    first = np.searchsorted(number[order], np.arange(len(people)))
    kept = order[np.arange(len(order)) - first[number[order]] < read.most]
    return [number[kept].astype(np.int64), *(c[kept] for c in found)]
