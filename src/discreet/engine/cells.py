"""From a query's exact numbers to its noisy table: they are read once, and the noise is added that was planned.

The numbers of a query are cells of groups, sums of cells, and leaves of trees. No code of anybody else stands between
the statements, which were derived twice, and the noise.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from discreet.backends.connection import redacting_errors
from discreet.engine.meter import Meter, PlannedUse, PrivateReads, drawn, follow
from discreet.engine.recipe import Draw, Running
from discreet.errors import BackendFailed, InternalError
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.mechanisms.rounds import GaussianRounds
from discreet.plan.bound import with_shown
from discreet.plan.flows.flow import Whole, largest_flows
from discreet.plan.quantile_tree.chosen import named
from discreet.plan.quantile_tree.tree import ExactLeaves, Families, NoisyTree
from discreet.plan.query import Query
from discreet.post.noisy_table import NoisyTable
from discreet.query.keys import sort_key

if TYPE_CHECKING:
    from discreet.catalog.schema import Scalar
    from discreet.mechanisms.additive import Additive
    from discreet.noise.entropy import Entropy
    from discreet.plan.plan import Plan


Run: TypeAlias = Callable[[str], list[tuple[Any, ...]]]  # runs SQL on the data
Key: TypeAlias = "tuple[Scalar, ...]"

Cells: TypeAlias = "dict[Key, list[int]]"  # Group key → exact bounded integers. Private.

Leaves: TypeAlias = "dict[Key, ExactLeaves]"
"""Group key → exact weights of a tree's leaves; a group that is not there has none. Private."""


def uses_of(query: Query, of: str = "") -> list[PlannedUse]:
    """Every use of a mechanism that a query was planned with; their names begin with `of`."""
    a = query.allocation
    found: list[PlannedUse] = [ReportsUse(f"{of}reports", query)] if query.truncation else []
    if a.threshold is not None:
        found.append(GroupsUse(f"{of}groups", query, of))
    found += [ColumnUse(f"{of}column {i}", query, of, i) for i in range(len(a.noises))]
    found += [
        TotalsUse(f"{of}totals {level} {i}", query, of, level, i)
        for level, noise in enumerate(a.levels)
        for i in range(len(noise.noises))
    ]
    return [*found, *(TreeUse(f"{of}tree {i}", query, of, i) for i in range(len(a.trees)))]


def measured(query: Query, of: str = "") -> Running[NoisyTable]:
    """Draws every use of a query, for all of its groups: its noisy table.

    Guarantee:
        The result is a function of the cells with the query's noise added and of the groups that its mechanism
        selected, in an order that follows the keys alone; it costs the query's events.
    """
    a, keys = query.allocation, query.question.keys
    reports = (yield Draw(f"{of}reports")) if query.truncation else ()
    shown = (yield Draw(f"{of}groups")) if a.threshold is not None else tuple(keys.all())
    columns = yield from drawn(Draw(f"{of}column {i}", shown) for i in range(len(a.noises)))
    levels = []
    for level, noise in enumerate(a.levels):
        totals = yield from drawn(Draw(f"{of}totals {level} {i}") for i in range(len(noise.noises)))
        levels.append(tuple(zip(*totals, strict=True)))
    trees = yield from drawn(Draw(f"{of}tree {i}", shown) for i in range(len(a.trees)))
    rows = zip(*columns, strict=True) if columns else (() for _ in shown)
    return NoisyTable(tuple(shown), tuple(tuple(r) for r in rows), tuple(reports), tuple(trees), tuple(levels))


def measure(query: Query, run: Run, rng: Entropy) -> NoisyTable:
    """Read the exact numbers of a query without a ledger, and add its noise: for audits, and who charges elsewhere.

    Guarantee:
        It costs the query's events, once for each call; the caller accounts for them.

    Args:
        query: what was decided.
        run: runs its statements on the data, with the `$secret` of the caller where there is one.
        rng: the noise.
    """
    return follow(measured(query), Meter(uses_of(query), lambda text, keyed: run(text), rng))


@dataclass(frozen=True, slots=True)
class ReportsUse(PlannedUse):
    """The noisy counts of all truncation reports, side by side."""

    query: Query

    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> tuple[int, ...]:
        return _reports(self.query, self._once(exact), rng)

    def read_ahead(self, exact: PrivateReads) -> None:
        for text in self.query.truncation:
            self._once(exact)(text)

    def _once(self, exact: PrivateReads) -> Run:
        run = _run(self.query, exact)
        return lambda text: exact.once((self.name, text), lambda: run(text))


@dataclass(frozen=True, slots=True)
class CellUse(PlannedUse):
    """A use that reads a query's cells and leaves, which are read once for all of them."""

    query: Query  # what they are of
    of: str  # what the names of its uses begin with

    def cells(self, exact: PrivateReads) -> Cells:
        """Return the exact cells. Private."""
        return self._read(exact)[0]

    def leaves(self, exact: PrivateReads, place: int) -> Leaves:
        """Return the exact leaves of a tree. Private."""
        return self._read(exact)[1][place]

    def read_ahead(self, exact: PrivateReads) -> None:
        self._read(exact)

    def _read(self, exact: PrivateReads) -> tuple[Cells, list[Leaves]]:
        return exact.once(self.of, lambda: exact_all(self.query, _run(self.query, exact)))


@dataclass(frozen=True, slots=True)
class GroupsUse(CellUse):
    """The keys of the groups that the selection keeps, in the order of their keys."""

    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> tuple[Key, ...]:
        threshold = self.query.allocation.threshold
        assert threshold is not None
        if isinstance(threshold, GaussianRounds):
            return self._in_rounds(threshold, exact, rng)
        cells = self.cells(exact)
        there = (k for k, cell in cells.items() if cell[-1])  # groups of values alone have no unit to be shown by
        keys = sorted(filter(self.query.question.keys.holds, there), key=sort_key)
        kept = threshold.keep([cells[k][-1] for k in keys], rng)
        return tuple(k for k, keep in zip(keys, kept, strict=True) if keep)

    def _in_rounds(self, rounds: GaussianRounds, exact: PrivateReads, rng: Entropy) -> tuple[Key, ...]:
        text, n = self.query.weights, len(self.query.question.keys.exprs)
        keyed = self.query.is_keyed(text)
        shown: dict[Key, int] = {}
        for one in rounds.rounds:
            rows = exact.read(with_shown(text, shown.values()), keyed)
            sums = {_plain(row[:n]): (int(row[n]), int(row[n + 1])) for row in rows}
            keys = sorted(filter(self.query.question.keys.holds, sums), key=sort_key)
            kept = one.kept([sums[k][1] for k in keys], rng)
            shown |= {k: sums[k][0] for k, keep in zip(keys, kept, strict=True) if keep}
        return tuple(sorted(shown, key=sort_key))


_PLAIN = frozenset({str, int, float, bool, type(None), dt.date, dt.datetime})


def distinct(keys: object) -> Sequence[Key]:
    """Return the keys of groups, each once and of plain values: what a number is drawn for twice, is told better than
    it was paid for, and values of other classes would be compared with private keys by code of their own.

    Raises:
        InternalError: they are not; nothing was read.
    """
    found = [] if type(keys) not in (tuple, list) else list(keys)  # type: ignore[call-overload]  # it is one
    plain = type(keys) in (tuple, list) and all(
        type(key) is tuple and all(type(v) in _PLAIN for v in key) for key in found
    )
    if not plain or len(set(found)) < len(found):
        raise InternalError("The keys of a draw are plain values, each group once. The charge stands.")
    return found


@dataclass(frozen=True, slots=True)
class ColumnUse(CellUse):
    """A column's noisy numbers in groups of these keys, each once; a group that is not there has 0."""

    place: int

    def draw(self, exact: PrivateReads, args: Sequence[Key], rng: Entropy) -> list[int]:
        args = distinct(args)
        cells, i = self.cells(exact), self.place
        return self.query.allocation.noises[i].add([cells[k][i] if k in cells else 0 for k in args], rng)


@dataclass(frozen=True, slots=True)
class TotalsUse(CellUse):
    """The noisy totals of a level, of one column, in the order of the level's keys."""

    level: int
    place: int

    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> list[int]:
        level = self.query.allocation.levels[self.level]
        sums = exact.once((self.of, self.level), lambda: level_sums(level.kept, self.cells(exact)))
        return level.noises[self.place].add([row[self.place] for row in sums.values()], rng)


@dataclass(frozen=True, slots=True)
class TreeUse(CellUse):
    """For each of these groups the noisy nodes of a tree that the results read, each drawn when it is first looked
    at; or the leaves that are chosen by rank.
    """

    place: int

    def draw(self, exact: PrivateReads, args: Sequence[Key], rng: Entropy) -> tuple[Families, ...]:
        args = distinct(args)
        leaves = self.leaves(exact, self.place)
        return tuple(_looked_at(self.query, self.place, leaves.get(k, NOTHING), rng) for k in args)


def _run(query: Query, exact: PrivateReads) -> Run:
    return lambda text: exact.read(text, query.is_keyed(text))


def exact_all(plan: Query, run: Run) -> tuple[Cells, list[Leaves]]:
    """Return the exact cells, and the exact leaves of each tree. Private. When one of them fails, the others are
    forgotten first, so that no exact number is in any frame of the traceback.
    """
    leaves: list[Leaves] = []
    try:
        leaves.extend(exact_leaves(plan, place, run) for place in range(len(plan.trees)))
        return exact_cells(plan, run), leaves
    except BaseException:
        leaves.clear()
        raise


def exact_leaves(plan: Query, place: int, run: Run) -> Leaves:
    """Return the exact weights of the leaves of one of the plan's trees, in each group that has any. Private."""
    keys, most = plan.question.keys, plan.question.trees[place].shape.leaves - 1
    n = len(keys.exprs)
    found: dict[tuple[Scalar, ...], dict[int, int]] = {}
    for row in run(plan.trees[place][1]):
        key = _plain(row[:n]) if keys.lists is None else _declared(row[:n], keys.lists)
        weights = found.setdefault(key, {})
        leaf = min(max(int(row[n]), 0), most)  # as it is anyhow: what is private may not fail here
        weights[leaf] = weights.get(leaf, 0) + int(row[n + 1])
    return {key: ExactLeaves.of(weights) for key, weights in found.items()}


def level_sums(kept: Sequence[int], cells: Cells) -> Cells:
    """Return the exact totals of a level, which keeps these keys: sums of bounded cells, in their order. Private."""
    found: Cells = {}
    for key, row in cells.items():
        shown = tuple(key[i] for i in kept)
        found[shown] = [a + b for a, b in zip(found[shown], row, strict=True)] if shown in found else list(row)
    return found


NOTHING = ExactLeaves.of({})  # the leaves of a group without rows


def _looked_at(plan: Query, place: int, leaves: ExactLeaves, rng: Entropy) -> Families:
    """Return the noisy nodes of a group that the query's results read, the noise of each drawn when it is first
    read; or the leaves that are chosen by rank.
    """
    tree_read = plan.question.trees[place]
    noise, shape = plan.allocation.trees[place], tree_read.shape
    if isinstance(noise, ExponentialQuantile):
        return named(noise.choose(leaves.leaves, leaves.before, shape.leaves, rng))

    def draw(level: int, node: int) -> tuple[int, ...]:
        return tuple(noise.add(leaves.sums(shape, level, node), rng))

    tree = NoisyTree(shape, noise, {}, is_row=plan.question.table.unit.is_row, draw=draw)
    tree.look(tree_read)
    return tree.families


def exact_cells(plan: Query, run: Run) -> Cells:
    """Return the exact bounded integers of each group, every declared one included. Private: only uses and audits call
    it.
    """
    keys = plan.question.keys
    found: list[Cells] = []
    try:
        found.extend(_read(plan, run, text) for _, text in plan.distinct)
        cells = _read(plan, run, plan.sql) if plan.sql else {}
    except BaseException:
        found.clear()  # so that no exact number is in any frame of the traceback
        raise
    if keys.lists is not None:
        empty = [0] * (len(plan.question.measures) - len(plan.distinct))
        cells = {key: cells.get(key, list(empty)) for key in keys.all()}
    elif cells:  # under a cap on all rows the values that are counted apart may keep other groups of a unit
        empty = [0] * len(next(iter(cells.values())))
        cells |= {key: list(empty) for counts in found for key in counts if key not in cells}
    for (place, _), counts in zip(plan.distinct, found, strict=True):
        for key, cell in cells.items():
            cell.insert(place, counts.get(key, [0])[0])
    return cells


def _read(plan: Query, run: Run, text: str) -> Cells:
    """Return the cells of the groups that a statement gives."""
    keys = plan.question.keys
    n = len(keys.exprs)
    rows = run(text)
    if keys.lists is None:
        found = {_plain(row[:n]): [int(c) for c in row[n:]] for row in rows}
    else:
        found = {_declared(row[:n], keys.lists): [int(c) for c in row[n:]] for row in rows}
    if len(found) != len(rows):  # two rows of one group would mean that a unit was counted in both
        raise BackendFailed("The database gave one group twice. The charge stands.", hint="please report the query")
    return found


def _declared(places: tuple[Any, ...], lists: tuple[tuple[Scalar, ...], ...]) -> tuple[Scalar, ...]:
    """Return a declared key by the places of its values in their lists."""
    return tuple(values[i] for values, i in zip(lists, places, strict=True))


def _reports(plan: Query, run: Run, rng: Entropy) -> tuple[int, ...]:
    noises = [z for report, z in zip(plan.reports, plan.allocation.reports, strict=True) for _ in range(report.places)]
    found: list[int] = []
    for text in plan.truncation:
        found += _noisy_counts(run, text, noises[len(found) :], rng)  # in a frame of its own, as the next may fail
    if len(found) != len(noises):
        raise _no_report()
    return tuple(found)


def _noisy_counts(run: Run, text: str, noises: Sequence[Additive], rng: Entropy) -> list[int]:
    """Return the one row of counts of a statement, each with its own noise."""
    rows = run(text)
    if len(rows) != 1 or len(rows[0]) > len(noises):
        rows.clear()
        raise _no_report()
    return [noise.add([int(c)], rng)[0] for noise, c in zip(noises, rows[0], strict=False)]


def _no_report() -> BackendFailed:
    return BackendFailed("The database gave no truncation report. The charge stands.")


def _plain(key: tuple[Any, ...]) -> tuple[Scalar, ...]:
    return tuple(v + 0.0 if isinstance(v, float) else v for v in key)  # −0.0 is 0


@dataclass(frozen=True, slots=True)
class FlowUse(PlannedUse):
    """A column's noisy flows, in each declared group in the order of their declaration."""

    plan: Plan
    place: int

    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> list[int]:
        found = exact.once("flows", lambda: exact_flows(self.plan, lambda text: exact.read(text, False)))
        return self.plan.query.allocation.noises[self.place].add(found[self.place], rng)


def flow_uses(plan: Plan) -> list[PlannedUse]:
    """Every use of a plan that two populations pay for."""
    return [FlowUse(f"column {i}", plan, i) for i in range(len(plan.query.allocation.noises))]


def measured_flows(plan: Plan) -> Running[NoisyTable]:
    """Draws every column: the noisy table.

    Guarantee:
        The result is a function of the flows with the plan's noise added, one row for each declared group in the order
        of their declaration; it costs each population what the plan charges it (docs/proofs/flows.md).
    """
    columns = yield from drawn(Draw(f"column {i}") for i in range(len(plan.query.allocation.noises)))
    return NoisyTable(tuple(plan.query.question.keys.all()), tuple(zip(*columns, strict=True)))


def exact_flows(plan: Plan, run: Run) -> list[list[int]]:
    """Return the exact number of each group, for each column. Private: only uses and audits call it."""
    return redacting_errors(lambda: _flows(plan, run(plan.query.sql)))


def _flows(plan: Plan, rows: Sequence[tuple[Any, ...]]) -> list[list[int]]:
    keys, flows = plan.query.question.keys, plan.flows
    assert flows is not None
    sizes = [len(values) for values in keys.lists or ()]
    n, groups = len(sizes), keys.count or 1
    columns = list(zip(*rows, strict=True)) if rows else [()] * (n + 2 + len(flows.flows))
    group = np.zeros(len(rows), np.int64)
    for size, places in zip(sizes, columns[:n], strict=True):
        group = group * size + np.array(places, np.int64)
    first, second = _numbered(columns[n]), _numbered(columns[n + 1])
    weights = iter(columns[n + 2 :])
    found = []
    for network in flows.networks:
        total = np.zeros(groups, np.int64)
        for flow in network.flows:
            weight = np.array(next(weights), np.int64)
            total += flow.sign * largest_flows(
                group, first, second, weight, groups=groups, most_first=flow.caps[0], most_second=flow.caps[1]
            )
        found.append(total.tolist())
    return found


_NAN = math.nan  # one of the many objects that the database's only NaN comes as


def _numbered(ids: Sequence[Hashable]) -> Whole:
    """Each id by a number of its own, from 0: ids that are one to the database have one, and so has NaN."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(i if i == i else _NAN, len(known)) for i in ids], np.int64)
