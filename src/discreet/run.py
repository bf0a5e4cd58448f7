"""From a plan to its noisy table: the cells are read once, groups are selected, noise is added.

This is the only place where private integers and noise meet. Its input is the plan, a function that runs SQL, and
entropy; its output is the noisy table, and nothing else leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from discreet.errors import BackendFailed
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.plan.keys import sort_key
from discreet.plan.plan import Plan
from discreet.plan.quantile_tree.chosen import named
from discreet.plan.quantile_tree.shape import TreeRead
from discreet.plan.quantile_tree.tree import ExactLeaves, Families, NoisyTree
from discreet.release import NoisyTable

if TYPE_CHECKING:
    from discreet.mechanisms.additive import Additive
    from discreet.noise.entropy import Entropy
    from discreet.plan.cost import LevelNoise
    from discreet.plan.schema import Scalar

Run: TypeAlias = Callable[[str], list[tuple[Any, ...]]]
"""Runs SQL on the data."""

Cells: TypeAlias = "dict[tuple[Scalar, ...], list[int]]"
"""Group key → exact bounded integers. Private."""

Leaves: TypeAlias = "dict[tuple[Scalar, ...], ExactLeaves]"
"""Group key → exact weights of a spread's leaves; a group that is not there has none. Private."""


def measure(plan: Plan, run: Run, rng: Entropy) -> NoisyTable:
    """The noisy table of a plan.

    Guarantee:
        The result is a function of the cells with the plan's noise added and of the groups that the plan's mechanism
        selected, in an order that follows the keys alone; it costs the plan's events.
    """
    reports = _reports(plan, run, rng)  # first: when it fails, no exact cell is in any frame of the traceback
    cells, leaves = exact(plan, run)
    keys = _shown_groups(plan, cells, rng)
    columns: list[list[int]] = []
    for i, noise in enumerate(plan.allocation.noises):
        columns.append(noise.add([cells[k][i] for k in keys], rng))
    rows = zip(*columns, strict=True) if columns else (() for _ in keys)
    levels = tuple(_totals(plan, level, cells, rng) for level in plan.allocation.levels)
    trees = tuple(
        tuple(_looked_at(plan, i, found.get(k, NOTHING), rng) for k in keys) for i, found in enumerate(leaves)
    )
    return NoisyTable(tuple(keys), tuple(tuple(r) for r in rows), reports, trees, levels)


def exact(plan: Plan, run: Run) -> tuple[Cells, list[Leaves]]:
    """The exact cells, and the exact leaves of each spread. Private. When one of them fails, the others are forgotten
    first, so that no exact number is in any frame of the traceback.
    """
    leaves: list[Leaves] = []
    try:
        leaves.extend(exact_leaves(plan, place, run) for place in range(len(plan.spreads)))
        return exact_cells(plan, run), leaves
    except BaseException:
        leaves.clear()
        raise


def exact_leaves(plan: Plan, place: int, run: Run) -> Leaves:
    """The exact weights of the leaves of one of the plan's spreads, in each group that has any. Private."""
    keys, most = plan.question.keys, plan.question.spreads[place].spread.leaves - 1
    n = len(keys.exprs)
    found: dict[tuple[Scalar, ...], dict[int, int]] = {}
    for row in run(plan.spreads[place][1]):
        key = _plain(row[:n]) if keys.lists is None else _declared(row[:n], keys.lists)
        weights = found.setdefault(key, {})
        leaf = min(max(int(row[n]), 0), most)  # as it is anyhow: what is private may not fail here
        weights[leaf] = weights.get(leaf, 0) + int(row[n + 1])
    return {key: ExactLeaves.of(weights) for key, weights in found.items()}


def level_sums(kept: Sequence[int], cells: Cells) -> Cells:
    """The exact totals of a level, which keeps these keys: sums of the bounded cells, in their order. Private."""
    found: Cells = {}
    for key, row in cells.items():
        shown = tuple(key[i] for i in kept)
        found[shown] = (
            [a + b for a, b in zip(found[shown], row, strict=True)] if shown in found else list(row)
        )
    return found


def _totals(plan: Plan, level: LevelNoise, cells: Cells, rng: Entropy) -> tuple[tuple[int, ...], ...]:
    """The noisy totals of a level, of every column."""
    sums = level_sums(level.kept, cells).values()
    columns = [z.add([row[i] for row in sums], rng) for i, z in enumerate(level.noises)]
    return tuple(zip(*columns, strict=True))


NOTHING = ExactLeaves.of({})
"""The leaves of a group without rows."""


def _looked_at(plan: Plan, place: int, leaves: ExactLeaves, rng: Entropy) -> Families:
    """The noisy nodes of a group that the question's answers read, the noise of each drawn when it is first read; or
    the leaves that are chosen by rank.
    """
    looked: TreeRead = plan.question.spreads[place]
    noise, spread = plan.allocation.spreads[place], looked.spread
    if isinstance(noise, ExponentialQuantile):
        return named(noise.choose(leaves.leaves, leaves.before, spread.leaves, rng))

    def draw(level: int, node: int) -> tuple[int, ...]:
        return tuple(noise.add(leaves.sums(spread, level, node), rng))

    tree = NoisyTree(spread, noise, {}, is_row=plan.question.table.unit.is_row, draw=draw)
    tree.look(looked)
    return tree.families


def exact_cells(plan: Plan, run: Run) -> Cells:
    """The exact bounded integers of each group, every declared one included. Private: only `measure` and
    audits call it.
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
    for (place, _), counts in zip(plan.distinct, found, strict=True):
        for key, cell in cells.items():
            cell.insert(place, counts.get(key, [0])[0])
    return cells


def _read(plan: Plan, run: Run, text: str) -> Cells:
    """The cells of the groups that a statement gives."""
    keys = plan.question.keys
    n = len(keys.exprs)
    rows = run(text)
    if keys.lists is None:
        found = {_plain(row[:n]): [int(c) for c in row[n:]] for row in rows}
    else:
        found = {_declared(row[:n], keys.lists): [int(c) for c in row[n:]] for row in rows}
    if len(found) != len(rows):  # two rows of one group would mean that a unit was counted in both
        raise BackendFailed(
            "The database gave one group twice. The charge stands.", hint="please report the question"
        )
    return found


def _declared(places: tuple[Any, ...], lists: tuple[tuple[Scalar, ...], ...]) -> tuple[Scalar, ...]:
    """A declared key by the places of its values in their lists."""
    return tuple(values[i] for values, i in zip(lists, places, strict=True))


def _shown_groups(plan: Plan, cells: Cells, rng: Entropy) -> list[tuple[Scalar, ...]]:
    """All declared groups in their declared order, or those that the selection keeps, in the order of their keys."""
    threshold = plan.allocation.threshold
    if threshold is None:
        return list(cells)
    keys = sorted(cells, key=sort_key)
    kept = threshold.keep([cells[k][-1] for k in keys], rng)
    return [k for k, keep in zip(keys, kept, strict=True) if keep]


def _reports(plan: Plan, run: Run, rng: Entropy) -> tuple[int, ...]:
    noises = [
        z
        for report, z in zip(plan.reports, plan.allocation.reports, strict=True)
        for _ in range(report.places)
    ]
    found: list[int] = []
    for text in plan.truncation:
        found += _noisy_counts(
            run, text, noises[len(found) :], rng
        )  # in a frame of its own, as the next may fail
    if len(found) != len(noises):
        raise _no_report()
    return tuple(found)


def _noisy_counts(run: Run, text: str, noises: Sequence[Additive], rng: Entropy) -> list[int]:
    """The one row of counts of a statement, each with its own noise."""
    rows = run(text)
    if len(rows) != 1 or len(rows[0]) > len(noises):
        rows.clear()
        raise _no_report()
    return [noise.add([int(c)], rng)[0] for noise, c in zip(noises, rows[0], strict=False)]


def _no_report() -> BackendFailed:
    return BackendFailed("The database gave no truncation report. The charge stands.")


def _plain(key: tuple[Any, ...]) -> tuple[Scalar, ...]:
    return tuple(v + 0.0 if isinstance(v, float) else v for v in key)  # −0.0 is 0
