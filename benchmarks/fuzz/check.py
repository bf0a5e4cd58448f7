"""What must hold for a question on two neighbouring worlds: each break of it is a sentence."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias
from unittest.mock import patch

import duckdb

from benchmarks.chosen_ranges import choose, settled, stages_of
from benchmarks.fuzz.sources import Sources
from benchmarks.fuzz.worlds import CANARY, KINDS, Shape, World
from discreet.backends.connection import open_database
from discreet.catalog.schema import TableSchema
from discreet.catalog.types import Type
from discreet.engine.cells import exact_all as exact
from discreet.engine.cells import measure
from discreet.engine.outer_release import type_of_result
from discreet.engine.release import Release
from discreet.errors import DiscreetError, InternalError, InvalidParameter
from discreet.mechanisms.rounds import WHOLE
from discreet.noise.entropy import SystemEntropy
from discreet.plan import planner as planning
from discreet.plan.auto_bounds.asking import plan_in_stages
from discreet.plan.auto_bounds.queries import RangesQuery
from discreet.plan.auto_bounds.staged import PlanStages
from discreet.plan.cost import PlanTerms
from discreet.plan.plan import Plan, alone
from discreet.plan.planner import make_plan
from discreet.plan.quantile_tree.shape import TreeShape
from discreet.plan.quantile_tree.tree import ExactLeaves
from discreet.plan.query import Query, kind_of
from discreet.plan.reports import report_moves
from discreet.post.noisy_table import NoisyTable
from discreet.privacy.exact import positive
from discreet.privacy.unit import Relation, Sensitivity
from discreet.query.dialects.prepared import prepare
from discreet.query.expr import parameters_of
from discreet.query.split import FedResult

Rows: TypeAlias = list[tuple[Any, ...]]
Cells: TypeAlias = Mapping[tuple[Any, ...], Sequence[int]]

Schemas: TypeAlias = tuple[TableSchema, ...]

_SETTINGS = ("SET threads = 1", "SET enable_progress_bar = false")


@dataclass(frozen=True, slots=True)
class Asked:
    """How a question is asked.

    Attributes:
        epsilon, delta, noise, truncation: as `make_query` takes them.
        auto: whether the caps are chosen by a census.
        secret: the account's key.
        collide: whether to run it again as if every hash were the same.
        again: whether to plan it twice.
        rehearse: whether to run it on empty tables too.
        intervals: whether to work out every interval of the release, which can take seconds.
        derived: whether the second derivation is asked as well, which takes half of the time.
        dialect: the spelling.
        min_people: of how many units a shown group is at least.
    """

    epsilon: str = "1"
    delta: str = "1e-6"
    noise: str | None = None
    truncation: str = "0"
    auto: bool = False
    secret: int = 0x9E3779B97F4A7C15
    collide: bool = False
    again: bool = False
    rehearse: bool = True
    intervals: bool = True
    derived: bool = True
    dialect: str = "duckdb"
    min_people: int = 1


@dataclass(slots=True)
class Outcome:
    """What became of a question.

    Attributes:
        refusal: the message with which it was refused; None when it was answered.
        moved: whether an integer that leaves the database differs between the neighbours.
        broken: what does not hold.
    """

    refusal: str | None = None
    moved: bool = False
    broken: list[str] = field(default_factory=list)


class Databases:
    """Three databases of the same shape: two neighbours and an empty one."""

    def __init__(self) -> None:
        self.fed: dict[str, Any] = {}
        self._open: list[duckdb.DuckDBPyConnection] = []
        self._made: Shape | None = None
        self._sources: Sources | None = None

    def fill(self, shape: Shape, first: World, second: World) -> None:
        """Creates the tables and fills them."""
        if not self._open:
            self._open = [open_database() for _ in range(3)]
            for c in self._open:
                for setting in _SETTINGS:
                    c.execute(setting)
        for connection, world in zip(self._open, (first, second, None), strict=True):
            if self._made is not None:
                for t in self._made.tables:
                    connection.execute(f'DROP TABLE main."{t.name}"')
            for t in shape.tables:
                columns = ", ".join(f'"{n}" {KINDS[k].value}' for n, k in t.columns.items())
                connection.execute(f'CREATE TABLE main."{t.name}" ({columns})')
                rows = [] if world is None else world[t.name]
                if rows:
                    values = ", ".join(f"CAST(unnest(?) AS {KINDS[k].value})" for k in t.columns.values())
                    lists = [list(cells) for cells in zip(*rows, strict=True)]
                    connection.execute(f'INSERT INTO main."{t.name}" SELECT {values}', lists)
        self._made = shape
        self._shut()
        if shape.kind is not None:
            self._sources = Sources(shape, self._open[0], self._open[1])

    def schemas(self, shape: Shape) -> tuple[TableSchema, ...]:
        """The tables as the planner sees them, with their views where they have sources."""
        return tuple(shape.schemas()) if self._sources is None else self._sources.schemas

    def _shut(self) -> None:
        if self._sources is not None:
            self._sources.close()
        self._sources = None

    def close(self) -> None:
        """Closes them."""
        self._shut()
        for c in self._open:
            c.close()
        self._open.clear()

    def read(self, text: str, secret: int | None, *, rehearse: bool = True) -> tuple[list[Rows], list[list[Any]]]:
        """The rows and the columns' types of a statement on each of the three, or on the neighbours alone."""
        rows, types = [], []
        connections = self._open if self._sources is None else self._sources.connections
        (parsed,) = connections[0].extract_statements(text)  # once for all
        for c in connections if rehearse else connections[:2]:
            given = {name: self.fed[name] for name in parameters_of(text)} if self.fed else {}
            done = c.execute(parsed, given if secret is None else {"secret": secret, **given})
            types.append([d[1] for d in done.description or []])
            rows.append(done.fetchall())
        return rows, types


def check(databases: Databases, shape: Shape, sql: str, asked: Asked) -> Outcome:
    """Asks a question of the neighbours that are in the databases, and says what does not hold."""
    outcome = Outcome()
    try:
        planned = _planned(databases.schemas(shape), shape, sql, asked)
    except InternalError as error:
        outcome.broken.append(f"two derivations disagree: {error}")
        return outcome
    except DiscreetError as error:
        outcome.refusal = error.message
        if not error.hint and not isinstance(error, InvalidParameter):
            outcome.broken.append(f"a refusal without a hint: {error}")
        if CANARY in str(error) or not str(error).strip():
            outcome.broken.append(f"a message with a cell in it: {error}")
        return outcome
    except Exception as error:
        outcome.broken.append(f"planning crashed: {type(error).__name__}: {error}"[:300])
        return outcome
    if isinstance(planned, Plan) and planned.outer is not None:
        for values in _values(planned.outer.fed):
            databases.fed = {f.name: v for f, v in zip(planned.outer.fed, values, strict=True)}
            for query in planned.measurements:  # what is made of their results has no data but these
                _compare(databases, query, asked, outcome, is_shown=len(planned.outputs) == 1)
        return outcome
    if isinstance(planned, Plan):
        outcome.broken += _census(databases, stages_of(planned), asked, shape.relation)
        if outcome.broken:
            return outcome
    plan = _second(databases, planned, asked)
    for tree_read in [plan, *([_colliding(plan)] if asked.collide and "ORDER BY hash(" in plan.sql else [])]:
        _compare(databases, tree_read, asked, outcome)
    if asked.again and not outcome.broken:
        other = _planned(databases.schemas(shape), shape, sql, asked)
        if (other.identity, other.sql) != (planned.identity, planned.sql):
            outcome.broken.append("the same question is planned in two ways")
    return outcome


def _values(fed: Sequence[FedResult]) -> Iterable[tuple[Any, ...]]:
    """Values that results may have: none, and the ends and the middle of their types."""
    for i in range(4 if fed else 1):
        yield tuple(_SOME[f.type][i] for f in fed)


_SOME: Mapping[Type, tuple[Any, Any, Any, Any]] = {
    Type.BOOL: (None, True, False, True),
    Type.INT: (None, 1, -(1 << 63), 2),
    Type.REAL: (None, 1.5, -1.7e308, -0.0),
    Type.TEXT: (None, "a", "'$fed_1\u00e9", "|a|b|1|2|2024-01-31||"),
    Type.DATE: (None, dt.date(2024, 1, 31), dt.date(1, 1, 1), dt.date(2023, 1, 31)),
    Type.TIMESTAMP: (None, dt.datetime(2024, 1, 31), dt.datetime(9999, 12, 31), dt.datetime(2023, 1, 31, 12)),
}


def _planned(schemas: Schemas, shape: Shape, sql: str, asked: Asked) -> Query | Plan:
    if asked.derived:
        return _planned_once(schemas, shape, sql, asked)
    with patch.object(planning, "check"):
        return _planned_once(schemas, shape, sql, asked)


def _planned_once(schemas: Schemas, shape: Shape, sql: str, asked: Asked) -> Query | Plan:
    prepared = prepare(sql, asked.dialect, [t.with_people(asked.min_people) for t in schemas])
    options: dict[str, Any] = {
        "population": "p",
        "version": None,
        "epsilon": prepared.epsilon or Fraction(asked.epsilon),
        "delta": Fraction(asked.delta) if prepared.delta is None else prepared.delta,
        "noise": asked.noise,
        "truncation": asked.truncation,
    }
    staged = (
        plan_in_stages(prepared, schemas, chosen="auto" if not shape.is_row else "values", **options)
        if asked.auto
        else None
    )
    if staged is not None:
        return staged
    terms = PlanTerms(
        "p",
        None,
        positive("epsilon", options["epsilon"]),
        options["delta"],
        kind_of(asked.noise),
        Fraction(asked.truncation),
    )
    plan = make_plan(prepared.text, prepared.tables, terms, type_of=type_of_result)
    return plan.query if plan.outer is None else plan


def _second(databases: Databases, planned: Query | Plan, asked: Asked) -> Query:
    """The plan itself, or the second stage that follows from the first one of the two neighbours."""
    if isinstance(planned, Query):
        return planned

    def run(text: str) -> Rows:
        return databases.read(text, asked.secret if "$secret" in text else None, rehearse=False)[0][0]

    return settled(planned, choose(planned, run, SystemEntropy())).query


def _compare(databases: Databases, plan: Query, asked: Asked, outcome: Outcome, *, is_shown: bool = True) -> None:
    """Adds what does not hold of the plan's statements on the three databases; a measurement that several results are
    made of is shown by itself to nobody, and has no totals of its own.
    """
    read: list[dict[str, Rows]] = [{}, {}, {}] if asked.rehearse else [{}, {}]
    for text in plan.statements:
        try:
            secret = asked.secret if "$secret" in text else None
            rows, types = databases.read(text, secret, rehearse=asked.rehearse)
        except duckdb.Error as error:
            outcome.broken.append(f"the database failed: {type(error).__name__}: {str(error)[:300]}")
            return
        if any(t != types[0] for t in types):
            outcome.broken.append("the columns' types follow from the data")
            return
        for found, got in zip(read, rows, strict=True):
            found[text] = got
    try:
        (one, leaves), (other, others), *_ = [exact(plan, found.__getitem__) for found in read]
    except Exception as error:
        outcome.broken.append(f"reading the cells crashed: {type(error).__name__}: {str(error)[:300]}")
        return
    outcome.moved |= (one, leaves) != (other, others)
    outcome.broken += _weighed(plan, read)
    outcome.broken += _cells(plan, one, other)
    outcome.broken += _leaves(plan, leaves, others)
    outcome.broken += _reports(plan, read)

    def run(text: str) -> Rows:
        if text in read[0]:
            return read[0][text]
        return databases.read(text, asked.secret if "$secret" in text else None, rehearse=False)[0][0]  # a later round

    outcome.broken += _release(plan, run, intervals=asked.intervals, is_shown=is_shown)


def _weighed(plan: Query, read: Sequence[Mapping[str, Rows]]) -> Iterable[str]:
    if not plan.weights:
        return
    n = len(plan.question.keys.exprs)
    one, other = ({tuple(map(repr, row[:n])): int(row[-1]) for row in found[plan.weights]} for found in read[:2])
    moved = sum((one.get(k, 0) - other.get(k, 0)) ** 2 for k in {**one, **other})
    if moved > WHOLE**2 * (2 if plan.question.table.relation is Relation.REPLACE else 1):
        yield f"the weights of groups move by {moved / WHOLE**2}"


def _cells(plan: Query, one: Cells, other: Cells) -> Iterable[str]:
    allowed = list(plan.sensitivities)
    if plan.allocation.threshold is not None:
        allowed.append(Sensitivity(plan.allocation.threshold.touched, 1))
        least = 0 if plan.distinct else 1  # values that are counted apart may be of other groups of a unit
        if any(c[-1] < least for c in (*one.values(), *other.values())):
            yield "a group without units is there"
    nothing = (0,) * len(allowed)
    if any(len(c) != len(allowed) for c in (*one.values(), *other.values())):
        yield "a group has another number of columns than was planned"
        return
    if plan.question.keys.lists is not None and list(one) != list(other):
        yield "the declared groups differ"
    for i, s in enumerate(allowed):
        moves = [one.get(k, nothing)[i] - other.get(k, nothing)[i] for k in {**one, **other}]
        if not _within(moves, s):
            yield f"column {i} moves by {[m for m in moves if m]}, beyond {s}"


def _leaves(
    plan: Query, ones: Sequence[Mapping[Any, ExactLeaves]], others: Sequence[Mapping[Any, ExactLeaves]]
) -> Iterable[str]:
    for place, tree_read in enumerate(plan.question.trees):
        shape, (allowed, _) = tree_read.shape, plan.trees[place]
        one, other = (_weights(found[place]) for found in (ones, others))
        for level in range(1, shape.depth + 1):
            below = _nodes(shape, level)
            nodes: dict[tuple[Any, int], int] = {}
            for sign, weights in ((1, one), (-1, other)):
                for (key, leaf), weight in weights.items():
                    for node in below(leaf):
                        nodes[key, node] = nodes.get((key, node), 0) + sign * weight
            if not _within(list(nodes.values()), allowed):
                moves = [n for n in nodes.values() if n][:20]
                yield f"level {level} of tree {place} moves by {moves}, beyond {allowed}"


def _nodes(shape: TreeShape, level: int) -> Callable[[int], Sequence[int]]:
    """The nodes of a level that a leaf is below."""
    if shape.layers is None:
        size = shape.fanout ** (shape.depth - level)
        return lambda leaf: [leaf // size]
    layer = shape.layers[level - 1]
    return lambda leaf: [i for i, node in enumerate(layer) if leaf in node]


def _weights(found: Mapping[Any, ExactLeaves]) -> dict[tuple[Any, int], int]:
    return {
        (key, leaf): after - before
        for key, tree in found.items()
        for leaf, before, after in zip(tree.leaves, tree.before[:-1], tree.before[1:], strict=True)
    }


def _within(moves: Sequence[int], s: Sensitivity) -> bool:
    moved = [abs(m) for m in moves if m]
    return (
        len(moved) <= s.l0
        and max(moved, default=0) <= s.linf
        and sum(moved) <= s.l1
        and sum(m * m for m in moved) <= s.l2_squared
    )


def _reports(plan: Query, read: Sequence[Mapping[str, Rows]]) -> Iterable[str]:
    one, other = ([int(c) for text in plan.truncation for c in found[text][0]] for found in read[:2])
    most = report_moves(plan.question.table.relation).l1
    for report in plan.reports:
        counts = [tuple(each[: report.places]) for each in (one, other)]
        if sum(abs(a - b) for a, b in zip(*counts, strict=True)) > most:
            yield f"the truncation report of {report.name} moves by more than {most}"
        del one[: report.places], other[: report.places]


def _release(plan: Query, run: Callable[[str], Rows], *, intervals: bool, is_shown: bool) -> Iterable[str]:
    try:
        table = measure(plan, run, SystemEntropy())
        stored = NoisyTable.from_json(table.to_json())
        if stored != table:
            yield "the noisy table is another one when it is stored"
        if not is_shown:
            return
        release = Release(alone(plan, "p"), table)
        rows = release.rows
        for name in release.columns if intervals else []:
            if len(release.interval(name)) != len(rows):
                yield "an interval for each row is missing"
        if intervals:
            str(release)
    except Exception as error:
        yield f"the release crashed: {type(error).__name__}: {str(error)[:300]}"


def _census(databases: Databases, stages: PlanStages, asked: Asked, relation: Relation) -> Iterable[str]:
    most = Sensitivity(1 if relation is Relation.ADD_REMOVE else 2, 1)
    for look in (stages.of_caps, stages.of_values):
        if look is None:
            continue
        try:
            found, types = databases.read(look.sql, asked.secret if "$secret" in look.sql else None)
        except duckdb.Error as error:
            yield f"the database failed on the census: {str(error)[:300]}"
            return
        if any(t != types[0] for t in types):
            yield "the types of the census follow from the data"
        one, other = ([({tuple(r[:-1]): int(r[-1]) for r in rows})] for rows in found[:2])
        if isinstance(look, RangesQuery):
            one, other = (_by_column(rows, len(look.exprs) * len(look.ends)) for rows in found[:2])
        for before, after in zip(one, other, strict=True):
            moves = [before.get(k, 0) - after.get(k, 0) for k in {**before, **after}]
            if not _within(moves, most):
                yield f"the census moves by {[m for m in moves if m]}"


def _by_column(rows: Rows, columns: int) -> list[dict[Any, int]]:
    """The counts of units by the place in each column of places, of which a row has one."""
    counts: list[dict[Any, int]] = [{} for _ in range(columns)]
    for *places, n in rows:
        for count, place in zip(counts, places, strict=True):
            if place is not None:
                count[place] = count.get(place, 0) + int(n)
    return counts


def _colliding(plan: Query) -> Query:
    """The same plan in a world where every hash is the same."""
    found: dict[str, Any] = {}
    if plan.trees:
        found["trees"] = tuple((s, _collide(t)) for s, t in plan.trees)
    if plan.distinct:
        found["distinct"] = tuple((i, _collide(t)) for i, t in plan.distinct)
    return replace(plan, sql=_collide(plan.sql), **found)


def _collide(text: str) -> str:
    return text.replace("ORDER BY hash(", "ORDER BY 0 * hash(")
