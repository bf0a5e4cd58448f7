"""The audit of every mechanism, aggregate and estimator, and of the SQL engine: one table, with a broken twin for each.

What is built later adds a row here, beside its contract: `tests/house/test_audits.py` fails for what has none, and
`tests/laws/contracts/test_audits.py` runs what is here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from discreet.accounting.loss import PrivacyLoss
from discreet.audit import audit_sql
from discreet.audit.sql import Neighbours, Ours, RandomDatabases, RandomTables
from discreet.audit.sql.ours import Connection
from discreet.audit.sql.tables import UNIT, Draws, Row
from discreet.catalog.schema import Values
from discreet.engine.cells import measure
from discreet.mechanisms import (
    DiscreteGaussian,
    Exponential,
    ExponentialQuantile,
    Gaussian,
    Geometric,
    Laplace,
    NoisyMax,
    PermuteAndFlip,
    Threshold,
)
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.exponential_quantile import COUNTED
from discreet.noise.entropy import SystemEntropy
from discreet.plan.query import Query
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import PrivacyUnit
from tests.audit.broken_engines import HalvedSensitivity
from tests.contracts.audit_row import ENGINE, ERROR, Audited, AuditRow, sampled
from tests.contracts.families import added
from tests.contracts.staged_audit import (
    Staging,
    asked,
    counted_for_each_row,
    outside_with_little_noise,
    placed_by_each_row,
    sound,
)
from tests.plan.join_shapes import COLUMNS, FACTS, PUBLIC, SHAPES, Slip, World, unit


def noise(kind: Callable[..., Any], x: float, y: float, *, case: str, broken: str, **parameters: Any) -> AuditRow:
    """A number plus noise at ε = 1; the twin has another ε and the same claim.

    Floats are released many at once, so that their number is the dimension for which their grid is made.
    """
    real = isinstance(x, float)

    def law(epsilon: str) -> Callable[..., object]:
        def release(value: float, n: int) -> object:
            many = {"dimension": n} if real else {}
            return kind(epsilon=epsilon, **parameters, **many).release(np.full(n, value))

        return release

    mechanism = kind(epsilon=1, **parameters)
    sound, twin = (sampled(law(e), x, y, mechanism.loss) for e in ("1", broken))
    return AuditRow(type(mechanism).__name__, case, sound, twin, f"ε = {broken} sold as 1", 40_000, 10_000_000)


def selection(kind: type[Exponential | PermuteAndFlip | NoisyMax], broken: Fraction) -> AuditRow:
    """The worst neighbours: one of many utilities falls, and all others rise."""
    x, y = [1, *[0] * 9], [0, *[1] * 9]

    def law(epsilon: Fraction) -> Callable[..., object]:
        mechanism = kind(epsilon=epsilon)
        return lambda utilities, n: np.array([mechanism.release(range(len(utilities)), utilities) for _ in range(n)])

    claim = kind(epsilon=1).loss
    sound, twin = (sampled(law(e), x, y, claim) for e in (Fraction(1), broken))
    return AuditRow(kind.__name__, "ten candidates", sound, twin, f"ε = {broken} sold as 1", 6_000, 300_000)


def quantile(broken: Fraction) -> AuditRow:
    """The middle rank lies between two wide empty parts, and a row more moves it towards one of them."""
    cells = 1 << 20
    held = [0, cells // 2, cells - 1]

    def law(epsilon: Fraction) -> Callable[..., object]:
        mechanism, rng = ExponentialQuantile(epsilon=epsilon), SystemEntropy()

        def release(more: int, n: int) -> object:
            before = [0, 200, 202, 402 + more]
            return np.array([mechanism.choose(held, before, cells, rng).cell for _ in range(n)])

        return release

    claim = ExponentialQuantile(epsilon=1).loss
    sound, twin = (sampled(law(e), 0, 1, claim) for e in (Fraction(1), broken))
    power = f"ε = {broken} sold as 1"
    return AuditRow("ExponentialQuantile", "a row at the end", sound, twin, power, 2_000, 60_000)


def counted_about_quantile(broken: Fraction) -> AuditRow:
    """The second histogram of a grid of one cell, where no part is without the row that is added."""

    def law(epsilon: Fraction) -> Callable[..., object]:
        mechanism, rng = ExponentialQuantile(epsilon=epsilon), SystemEntropy()
        return lambda rows, n: np.array([mechanism.choose([0], [0, rows], 1, rng).counts[0] for _ in range(n)])

    claim = Composed([(ApproximateEvent(COUNTED), 1)])
    sound, twin = (sampled(law(e), 5, 6, PrivacyLoss(claim)) for e in (Fraction(1), broken))
    power = f"ε = {broken} sold as 1"
    return AuditRow("ExponentialQuantile", "a row in the only cell", sound, twin, power, 2_500, 100_000)


def threshold(x: list[int], y: list[int], case: str) -> AuditRow:
    """Which groups are shown, of so many units each."""

    def law(kept: Threshold) -> Callable[..., object]:
        return lambda counts, n: np.array(kept.release(np.tile(counts, n))).reshape(n, -1)

    honest, broken = Threshold(1, "0.02"), Threshold("1.25", "0.05")
    claim = Budget(epsilon=honest.epsilon, delta=honest.delta)
    sound, twin = (sampled(law(t), x, y, claim) for t in (honest, broken))
    return AuditRow("Threshold", case, sound, twin, "(1.25, 0.05) sold as (1, 0.02)", 40_000, 10_000_000)


@dataclass(frozen=True)
class LessNoise(Ours):
    """The engine with three quarters of the noise."""

    def plan(self, connection: Connection, query: str) -> Query:
        plan = super().plan(connection, query)
        noises = []
        for law in plan.allocation.noises:
            assert isinstance(law, DiscreteLaplaceNoise)
            noises.append(DiscreteLaplaceNoise(law.scale * Fraction(3, 4)))
        return replace(plan, allocation=replace(plan.allocation, noises=tuple(noises)))


def aggregate(of: str, query: str, worlds: Neighbours | None = None, ci: int = 20_000) -> AuditRow:
    """A whole question, asked of a few people and of one more, who has as many and as large values as can be."""
    sound, twin = (
        sampled(_asking(kind(delta=0), query, worlds or WORLDS), 0, 1, Budget(epsilon=1)) for kind in (Ours, LessNoise)
    )
    return AuditRow(of, query, sound, twin, "¾ of the noise", ci, 100_000)


@dataclass(frozen=True)
class LessTotals(Ours):
    """The engine with a quarter of the noise on totals, as if they moved like one of their parts alone."""

    def plan(self, connection: Connection, query: str) -> Query:
        plan = super().plan(connection, query)
        levels = []
        for level in plan.allocation.levels:
            scales = [z.scale for z in level.noises if isinstance(z, DiscreteLaplaceNoise)]
            assert len(scales) == len(level.noises)
            levels.append(replace(level, noises=tuple(DiscreteLaplaceNoise(b / 4) for b in scales)))
        assert levels
        return replace(plan, allocation=replace(plan.allocation, levels=tuple(levels)))


def totals(query: str) -> AuditRow:
    """Groups and totals that are measured beside them, asked of a few people and of one more in two groups."""
    columns = {**FACTS_OF_TOTALS, "level": Values(*range(1, 31))}
    sound, twin = (
        sampled(_asking(kind(delta=0, columns=columns), query, IN_TWO_GROUPS), 0, 1, Budget(epsilon=1))
        for kind in (Ours, LessTotals)
    )
    return AuditRow("RowCount", query, sound, twin, "¼ of the noise on totals", 10_000, 100_000)


@dataclass(frozen=True)
class LessTreeNoise(Ours):
    """The engine with half of the noise in trees."""

    def plan(self, connection: Connection, query: str) -> Query:
        plan = super().plan(connection, query)
        noises = []
        for law in plan.allocation.trees:
            assert isinstance(law, DiscreteLaplaceNoise)
            noises.append(DiscreteLaplaceNoise(law.scale / 2))
        return replace(plan, allocation=replace(plan.allocation, trees=tuple(noises)))


@dataclass(frozen=True)
class Steeper(Ours):
    """The engine with quantiles that are chosen at 16 times the rate."""

    def plan(self, connection: Connection, query: str) -> Query:
        plan = super().plan(connection, query)
        (chosen,) = plan.allocation.trees
        assert isinstance(chosen, ExponentialQuantile)
        steep = ExponentialQuantile(
            epsilon=16 * chosen.epsilon, p=chosen.p, sensitivity=chosen.sensitivity, row=chosen.row
        )
        return replace(plan, allocation=replace(plan.allocation, trees=(steep,)))


def by_rank(query: str, *, ci: int, long: int) -> AuditRow:
    """The leaves that a question names."""
    sound, twin = (
        sampled(_nodes(kind(delta=0), query, AT_BOTH_ENDS), 0, 1, Budget(epsilon=1)) for kind in (Ours, Steeper)
    )
    return AuditRow("TreeShape", query, sound, twin, "16 times the rate", ci, long)


def spread(query: str, *, ci: int, long: int, worlds: Neighbours | None = None, **settings: Any) -> AuditRow:
    """All nodes of a tree that a question looks at, in the order in which they are drawn."""
    sound, twin = (
        sampled(_nodes(kind(delta=0, **settings), query, worlds), 0, 1, Budget(epsilon=1))
        for kind in (Ours, LessTreeNoise)
    )
    return AuditRow("TreeShape", query, sound, twin, "½ of the noise", ci, long)


def staged(sql: str, slip: Staging, **options: Any) -> AuditRow:
    """What two stages choose and answer; the twin's first stage has a slip."""
    kept, twin = (asked(sql, s, error=ERROR, **options) for s in (sound, slip))
    power = slip.__name__.replace("_", " ")
    return AuditRow(ENGINE, f"bounds={options['bounds']!r}: {sql}", kept, twin, power, 500, 20_000)


def engine(case: str, *, candidates: int = 8, ci: int = 6_000, long: int = 100_000, **settings: Any) -> AuditRow:
    """Random questions about random tables; the twin has noise for half of what a unit can move."""

    def audited(ours: Ours) -> Audited:
        tables = RandomTables(unit=ours.unit.column, relation=ours.relation)
        return lambda samples: audit_sql(
            ours,
            claimed=Budget(epsilon=ours.epsilon, delta=ours.delta),
            tables=tables,
            samples=samples,
            seconds=600,
            candidates=candidates if samples <= ci else 300,
            keep=1 if samples <= ci else 4,
            error=ERROR,
        )

    sound, twin = (audited(kind(**settings)) for kind in (Ours, HalvedSensitivity))
    return AuditRow(ENGINE, case, sound, twin, "½ of the noise", ci, long)


def databases(case: str, *, ci: int = 4_000, long: int = 100_000, **settings: Any) -> AuditRow:
    """Random questions about random databases, dirty keys included; the twin has noise for half of it."""

    def audited(ours: Ours) -> Audited:
        return lambda samples: audit_sql(
            ours,
            claimed=Budget(epsilon=ours.epsilon, delta=ours.delta),
            tables=RandomDatabases(relation=ours.relation),
            samples=samples,
            seconds=600,
            candidates=4 if samples <= ci else 200,
            keep=1 if samples <= ci else 4,
            error=ERROR,
        )

    sound, twin = (audited(kind.over_databases(**settings)) for kind in (Ours, HalvedSensitivity))
    return AuditRow(ENGINE, case, sound, twin, "½ of the noise", ci, long)


@dataclass(frozen=True)
class Slipped(Ours):
    """The engine with a slip in the SQL that it runs."""

    slip: Slip = str

    def plan(self, connection: Connection, query: str) -> Query:
        plan = super().plan(connection, query)
        return replace(plan, sql=self.slip(plan.sql))


def shape(name: str) -> AuditRow:
    """A shape in which several tables are read, on neighbours on which its slip shows."""
    claim = Budget(epsilon=1, delta=GROUPED if "private groups" in name else 0)

    def asked(broken: bool) -> Audited:
        def draws(side: int, n: int) -> object:
            return _shapes(id(SHAPES[name].pair))[name][broken][side].take(n)

        return sampled(draws, 0, 1, claim)

    power = SHAPES[name].slip.__name__.replace("_", " ")
    return AuditRow(ENGINE, name, asked(False), asked(True), power, 3_000, 100_000)


class Stock:
    """Draws that are made many at a time: a few at a time are slow."""

    def __init__(self, draws: Draws) -> None:
        self.draws = draws
        self.left = np.asarray(draws(2))

    def take(self, n: int) -> object:
        """So many fresh draws."""
        if n > len(self.left):
            self.left = np.concatenate([self.left, np.asarray(self.draws(max(n, 4_000)))])
        taken, self.left = self.left[:n], self.left[n:]
        return taken


def _stocks(draws: tuple[Draws, Draws]) -> list[Stock]:
    return [Stock(d) for d in draws]


@cache
def _shapes(pair: int) -> dict[str, tuple[list[Stock], list[Stock]]]:
    """Draws of all shapes on one pair of neighbours, which are opened once: sound ones, and those of the twins."""
    those = {name: given for name, given in SHAPES.items() if id(given.pair) == pair}
    found = {}
    worlds = next(given.pair for given in those.values())
    settings: dict[str, Any] = {"unit": unit(), "columns": FACTS, "types": COLUMNS, "public": PUBLIC}
    with Ours(**settings).open(_tables(worlds.first)) as first, Ours(**settings).open(_tables(worlds.second)) as second:
        for name, given in those.items():
            delta = GROUPED if "private groups" in name else 0
            one, two = Ours(delta=delta, **settings), Slipped(delta=delta, slip=given.slip, **settings)
            found[name] = (_stocks(one.bulk(first, second, given.sql)), _stocks(two.bulk(first, second, given.sql)))
    return found


GROUPED = Fraction(1, 1000)
"""The δ of a question with private groups."""


def _tables(world: World) -> dict[str, list[Row]]:
    return {t: [dict(zip(COLUMNS[t], row, strict=True)) for row in rows] for t, rows in world.items()}


PERSON: Row = {UNIT: 1, "x": 10, "v": 10.0, "region": "a", "level": 1, "flag": True}
WORLDS = Neighbours(
    {"t": [PERSON | {UNIT: u, "x": u, "v": float(u)} for u in range(2, 9)]},
    {"t": [*(PERSON | {UNIT: u, "x": u, "v": float(u)} for u in range(2, 9)), *[PERSON] * 5]},
    "one unit more, with five rows at the top of every range",
)

ONE_ROW_MORE = Neighbours(WORLDS.first, {"t": [*WORLDS.first["t"], PERSON]}, "one row more, in each of the ranges")

APART = [PERSON | {UNIT: u, "v": v} for u, v in enumerate([0.0] * 20 + [5.0] * 2 + [10.0] * 20, start=2)]
AT_BOTH_ENDS = Neighbours(
    {"t": APART}, {"t": [*APART, *[PERSON] * 5]}, "one unit more, with five rows at the top, where half of all are"
)

NEW_VALUES = Neighbours(
    WORLDS.first,
    {"t": [*WORLDS.first["t"], *(PERSON | {"x": x} for x in range(10, 15))]},
    "one unit more, with five values that nobody else has",
)

NEW_NUMBERS = Neighbours(
    WORLDS.first,
    {"t": [*WORLDS.first["t"], *(PERSON | {"v": 10 - i / 100} for i in range(5))]},
    "one unit more, with five numbers near the top that nobody else has",
)


FACTS_OF_TOTALS = {"region": Values("a", "b")}
IN_TWO_GROUPS = Neighbours(
    WORLDS.first,
    {"t": [*WORLDS.first["t"], *(PERSON | {"level": n} for n in (1, 1, 2, 2))]},
    "one unit more, in two groups with two rows each",
)


def _asking(ours: Ours, query: str, worlds: Neighbours) -> Callable[..., object]:
    @cache
    def draws() -> tuple[Draws, Draws]:
        with ours.open(worlds.first) as first, ours.open(worlds.second) as second:
            return ours.bulk(first, second, query)

    def asked(side: int, n: int) -> object:
        return draws()[side](n)

    return asked


def _nodes(ours: Ours, query: str, worlds: Neighbours | None = None) -> Callable[..., object]:
    @cache
    def read(side: int) -> tuple[Query, dict[str, Any]]:
        given = worlds or WORLDS
        with ours.open((given.first, given.second)[side]) as connection:
            plan = ours.plan(connection, query)
            run = connection.run(plan, ours.secret)
            return plan, {text: run(text) for text in plan.statements}

    def asked(side: int, n: int) -> object:
        plan, rows = read(side)
        rng = SystemEntropy()
        found = []
        for _ in range(n):
            ((families,),) = measure(plan, rows.__getitem__, rng).trees
            nodes = [w for family in families.values() for w in family]
            found.append((*nodes, *[0] * MOST_NODES)[:MOST_NODES])
        return np.array(found, dtype=np.float64)

    return asked


MOST_NODES = 12
"""Nodes of a tree that an audit looks at: those that are drawn first."""

CAPPED = PrivacyUnit("uid", max_groups=1, max_rows=2)

DELTA = "1e-5"
AUDITS: tuple[AuditRow, ...] = (
    noise(Laplace, 0, 1, case="whole numbers", broken="1.2"),
    noise(Laplace, 0.3, 1.3, case="floats", broken="1.2"),
    noise(Geometric, 0, 3, case="sensitivity 3", broken="1.2", sensitivity=3),
    noise(Gaussian, 0, 1, case="whole numbers", broken="1.5", delta=DELTA),
    noise(Gaussian, -0.5, 0.5, case="floats", broken="1.5", delta=DELTA),
    noise(DiscreteGaussian, 0, 1, case="whole numbers", broken="2", delta=DELTA),
    noise(DiscreteGaussian, 0.0, 1.0, case="floats", broken="2", delta=DELTA, step=Fraction(1, 1024)),
    threshold([3, 0], [3, 1], "a new group"),
    threshold([2, 4], [2, 5], "one more in a group"),
    selection(Exponential, Fraction(2)),
    selection(PermuteAndFlip, Fraction(2)),
    selection(NoisyMax, Fraction(2)),
    counted_about_quantile(Fraction(3)),
    aggregate("RowCount", "SELECT COUNT(*) FROM t"),
    aggregate("KnownCount", "SELECT COUNT(v) FROM t"),
    aggregate("UnitCount", "SELECT COUNT(DISTINCT uid) FROM t"),
    aggregate("KnownUnits", "SELECT COUNT(DISTINCT uid) FILTER (WHERE flag) FROM t"),
    aggregate("DistinctCount", "SELECT COUNT(DISTINCT x) FROM t", NEW_VALUES),
    aggregate("DistinctTotal", "SELECT SUM(DISTINCT v) FROM t", NEW_NUMBERS),
    aggregate("Total", "SELECT SUM(v) FROM t"),
    aggregate("CentredTotal", "SELECT AVG(v) FROM t", ci=30_000),
    aggregate("CappedTotal", "SELECT SUM_WITHIN(v, 0, 12) FROM t"),
    aggregate("CappedCount", "SELECT COUNT_WITHIN(*, 0, 2) FROM t"),
    totals("SELECT region, level, COUNT(*) FROM t GROUP BY ROLLUP (region, level)"),
    spread("SELECT MODE(region) FROM t", ci=3_000, long=100_000),
    spread("SELECT MAX(x) FROM t", ci=2_000, long=100_000),
    spread(
        "SELECT COUNT_IF(x < 20), COUNT_IF(x < 40), COUNT_IF(x >= 5) FROM t",
        ci=3_000,
        long=100_000,
        worlds=ONE_ROW_MORE,
        unit=PrivacyUnit.row(),
    ),
    by_rank("SELECT MEDIAN(v) FROM t", ci=1_400, long=20_000),
    staged("SELECT COUNT(*) AS n FROM t", counted_for_each_row, unit="uid", bounds="auto"),
    staged("SELECT SUM(v) AS s FROM t", placed_by_each_row, unit=CAPPED, bounds="values"),
    staged("SELECT AVG(v) AS m FROM t", outside_with_little_noise, unit=CAPPED, bounds="values"),
    engine("add-remove"),
    engine("replace", relation="replace", candidates=16),
    engine("gaussian", noise="gaussian", delta=Fraction(1, 50), candidates=12),
    engine("whole releases", releases=True, candidates=3, ci=1_500, long=20_000),
    databases("several tables"),
    databases("several tables, replace", relation="replace"),
    *added("AUDITS"),
    quantile(Fraction(8)),
)
"""Every audit."""

SHAPE_AUDITS: tuple[AuditRow, ...] = tuple(map(shape, SHAPES))
"""The audit of each shape in which several tables are read: `tests/laws/audit/test_sql_shapes.py` runs them."""
