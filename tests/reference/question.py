"""A brute-force reference for bounded aggregate queries: the referee of all that plans, runs or checks them.

Plain Python on tiny tables, with no SQL, no planner and no array: each step of decision 0001 is a line or two
that can be read against it. What an engine is free to choose is handed in: the order of a unit's groups, and
the grid of each real column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any, TypeAlias

from discreet.errors import InvalidParameter
from discreet.privacy.exact import count
from tests.reference.expression import Column, Expression, Row
from tests.reference.measures import Measure, OnLattice
from tests.reference.values import Value, rank

Key: TypeAlias = tuple[Value, ...]
Cells: TypeAlias = dict[Key, tuple[int, ...]]
Order: TypeAlias = Callable[[Value, Key], Any]
"""The hash of a unit and a group (or anything that compares); equal hashes fall back on the group itself."""


@dataclass(frozen=True, slots=True)
class Question:
    """A bounded aggregate query over one table.

    Attributes:
        measures: what is measured in each group.
        keys: the expressions that form a group's key; empty for a single group with the key `()`.
        declared_keys: every public key; None when groups come from the data and are selected privately.
        where: the row filter; None keeps every row.
        unit: the column with the unit's id; None when each row is a unit.
        max_groups: how many groups a unit enters at most.
        max_rows: how many rows it adds to each at most.
    """

    measures: tuple[Measure, ...]
    keys: tuple[Expression, ...] = ()
    declared_keys: tuple[Key, ...] | None = None
    where: Expression | None = None
    unit: Column | None = None
    max_groups: int = 1
    max_rows: int = 1

    def __post_init__(self) -> None:
        count("max_groups", self.max_groups)
        count("max_rows", self.max_rows)
        if self.unit is None and (self.max_groups, self.max_rows) != (1, 1):
            raise InvalidParameter("max_groups and max_rows must be 1 when each row is a unit.")
        if any(len(key) != len(self.keys) for key in self.declared_keys or ()):
            raise InvalidParameter(f"each declared key must have {len(self.keys)} parts.")

    @property
    def groups(self) -> tuple[Key, ...] | None:
        """The public groups; None when they come from the data."""
        return self.declared_keys if self.keys else ((),)

    @property
    def width(self) -> int:
        """How many integer columns are measured."""
        return sum(m.columns for m in self.measures)

    def on_lattice(self, grid_exponent: Callable[[OnLattice], int]) -> Question:
        """The same question with every grid that was not decided yet."""
        return replace(
            self,
            measures=tuple(
                replace(m, grid_exponent=grid_exponent(m))
                if isinstance(m, OnLattice) and m.grid_exponent is None
                else m
                for m in self.measures
            ),
        )


def combinations(*values: Iterable[Value]) -> tuple[Key, ...]:
    """Every combination of the values declared for each key, as declared keys.

    >>> combinations(["a", None], [1, 2])
    (('a', 1), ('a', 2), (None, 1), (None, 2))
    """
    return tuple(product(*values))


def bounded_cells(rows: Sequence[Row], question: Question, order: Order) -> Cells:
    """The exact bounded integers of each group: each declared one, or each that some unit enters."""
    kept = kept_rows(rows, question, order)
    keys = groups_of(question, kept)
    return {key: _total(question, _of(key, kept)) for key in keys}


def bounded_answers(rows: Sequence[Row], question: Question, order: Order) -> dict[Key, tuple[Fraction, ...]]:
    """What would be returned without noise: a number for each measure and group, caps and bounds applied."""
    cells = bounded_cells(rows, question, order)
    return {key: tuple(m.answer(part) for m, part in split(question, cell)) for key, cell in cells.items()}


def true_answers(rows: Sequence[Row], question: Question) -> dict[Key, tuple[Fraction | None, ...]]:
    """What SQL would answer with no caps and no bounds, exactly.

    Rows of no unit and undeclared groups are still left out. AVG over no value is None; SUM over none is 0.
    """
    blocks = _blocks(rows, question)
    keys = groups_of(question, blocks)
    return {key: tuple(m.truth(_of(key, blocks)) for m in question.measures) for key in keys}


def split(question: Question, cell: tuple[int, ...]) -> list[tuple[Measure, tuple[int, ...]]]:
    """Each measure with its columns of a cell."""
    parts, at = [], 0
    for m in question.measures:
        parts.append((m, cell[at : at + m.columns]))
        at += m.columns
    return parts


Blocks: TypeAlias = dict[tuple[Value, Key], list[Row]]
"""The rows of each (unit, group)."""


def _blocks(rows: Sequence[Row], question: Question) -> Blocks:
    """The rows of each (unit, group): kept by WHERE, of some unit, in a group that is asked for."""
    blocks: Blocks = {}
    for i, row in enumerate(rows):
        unit = question.unit.at(row) if question.unit is not None else i
        key = tuple(k.at(row) for k in question.keys)
        wanted = question.where is None or question.where.at(row) is True
        if unit is not None and wanted and (question.groups is None or key in question.groups):
            blocks.setdefault((unit, key), []).append(row)
    return blocks


def kept_rows(rows: Sequence[Row], question: Question, order: Order) -> Blocks:
    """The blocks of the first `max_groups` groups of each unit, by (hash, then the group itself)."""
    blocks = _blocks(rows, question)
    touched: dict[Value, list[Key]] = {}
    for unit, key in blocks:
        touched.setdefault(unit, []).append(key)
    first = {
        unit: sorted(keys, key=lambda key: (order(unit, key), _key_rank(key)))[: question.max_groups]
        for unit, keys in touched.items()
    }
    return {(unit, key): block for (unit, key), block in blocks.items() if key in first[unit]}


def _total(question: Question, blocks: list[list[Row]]) -> tuple[int, ...]:
    """The sum over units of what each adds to one group."""
    cells = [[n for m in question.measures for n in m.cell(block, question.max_rows)] for block in blocks]
    return tuple(map(sum, zip([0] * question.width, *cells, strict=True)))


def groups_of(question: Question, blocks: Blocks) -> Sequence[Key]:
    """The groups that are answered: each declared one, or each with a block."""
    return sorted({key for _, key in blocks}, key=_key_rank) if question.groups is None else question.groups


def _of(key: Key, blocks: Blocks) -> list[list[Row]]:
    return [block for (_, k), block in blocks.items() if k == key]


def _key_rank(key: Key) -> tuple[Any, ...]:
    return tuple(map(rank, key))
