"""Deliberately broken twins of this package's engine: one slip each, of the kind that is found in real engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType

import duckdb
import numpy as np

from discreet.audit.outputs.sampling import Raised
from discreet.audit.sql import Ours
from discreet.audit.sql.ours import Connection, Exact
from discreet.audit.sql.tables import UNIT, Draws, Tables
from discreet.backends.connection import open_database
from discreet.catalog.schema import Range
from discreet.mechanisms import Threshold
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.query import Query
from discreet.privacy.unit import PrivacyUnit


@dataclass(frozen=True)
class HalvedSensitivity(Ours):
    """Noise for half of what one unit can move."""

    def plan(self, connection: Connection, query: str) -> Query:
        plan = super().plan(connection, query)
        noises = tuple(_halved(noise) for noise in plan.allocation.noises)
        return replace(plan, allocation=replace(plan.allocation, noises=noises))


@dataclass(frozen=True)
class KeysAsTheyAre(Ours):
    """Every group that exists is shown, private or not."""

    def plan(self, connection: Connection, query: str) -> Query:
        plan = super().plan(connection, query)
        return replace(plan, allocation=replace(plan.allocation, threshold=None))


@dataclass(frozen=True)
class LowThreshold(Ours):
    """Private groups are shown at ten times the δ that is charged."""

    def plan(self, connection: Connection, query: str) -> Query:
        plan = super().plan(connection, query)
        kept = plan.allocation.threshold
        if kept is None:
            return plan
        low = Threshold(kept.epsilon, 10 * kept.delta, kept.max_groups, relation=kept.relation)
        return replace(plan, allocation=replace(plan.allocation, threshold=low))


@dataclass(frozen=True)
class EmptyGroupsHidden(Ours):
    """Of the declared groups only those are shown that somebody is in."""

    def exact(self, connection: Connection, query: str) -> Exact | Raised:
        exact = super().exact(connection, query)
        if isinstance(exact, Raised):
            return exact
        return replace(exact, cells={k: c for k, c in exact.cells.items() if any(c)})


@dataclass(frozen=True)
class ErrorsQuoteData(Ours):
    """The question is tried on the raw table first, and what the database says is passed on."""

    def exact(self, connection: Connection, query: str) -> Exact | Raised:
        with open_database() as raw:
            for name, frame in connection.frames.items():
                raw.register(name, frame)
            try:
                raw.execute(query).fetchall()
            except duckdb.Error as error:
                return Raised(type(error).__name__, str(error))
        return super().exact(connection, query)


@dataclass(frozen=True)
class OrderOfTheExact(Ours):
    """The numbers are noisy, and the groups stand in the order of the exact ones."""

    def bulk(self, first: Connection, second: Connection, query: str) -> tuple[Draws, Draws]:
        one, two = super().bulk(first, second, query)
        exact = [self.exact(c, query) for c in (first, second)]
        keys = sorted(set().union(*(e.cells for e in exact if isinstance(e, Exact))), key=repr)
        return _beside(one, _order(exact[0], keys)), _beside(two, _order(exact[1], keys))


@dataclass(frozen=True)
class NoClamp(Ours):
    """Values outside the declared range are added as they are."""

    def exact(self, connection: Connection, query: str) -> Exact | Raised:
        columns = dict(self.columns) | {"x": Range(-(10**6), 10**6), "v": Range(-(10**6), 10**6)}
        wide = _otherwise(self, connection, query, columns=columns)
        exact = super().exact(connection, query)
        if isinstance(exact, Raised) or isinstance(wide, Raised):
            return exact
        pairs = zip(wide.plan.question.measures, exact.plan.question.measures, strict=True)
        scales = [Fraction(a.step, b.step) for a, b in pairs] + [Fraction(1)]
        cells = {k: [round(c * s) for c, s in zip(row, scales, strict=False)] for k, row in wide.cells.items()}
        return replace(exact, cells=cells)


@dataclass(frozen=True)
class CountedTwice(Ours):
    """A join on the way has doubled everybody's rows under a second id."""

    def open(self, tables: Tables) -> Connection:
        doubled = {name: [*rows, *(row | {UNIT: _second(row[UNIT])} for row in rows)] for name, rows in tables.items()}
        return super().open(doubled)


@dataclass(frozen=True)
class NoCaps(Ours):
    """Noise for two groups and two rows of a unit, all of whose rows are counted."""

    def exact(self, connection: Connection, query: str) -> Exact | Raised:
        exact = super().exact(connection, query)
        free = PrivacyUnit(UNIT, max_groups=1000, max_rows=1000)
        uncapped = _otherwise(self, connection, query, unit=free)
        if isinstance(exact, Raised) or isinstance(uncapped, Raised):
            return exact
        return replace(exact, cells=uncapped.cells)


@dataclass(frozen=True)
class SeedPerQuestion(Ours):
    """The same question has the same noise, whatever the data."""

    def bulk(self, first: Connection, second: Connection, query: str) -> tuple[Draws, Draws]:
        one, two = super().bulk(first, second, query)
        widths = [drawn.shape[1] for draw in (one, two) if isinstance(drawn := draw(1), np.ndarray)]
        if len(widths) < 2:
            return one, two
        noise = np.random.default_rng(len(query)).laplace(scale=3.0, size=widths[0])
        values = [_numbers(self.exact(c, query), widths[0]) + noise for c in (first, second)]
        return (lambda n: np.tile(values[0], (n, 1))), (lambda n: np.tile(values[1], (n, 1)))


@dataclass(frozen=True)
class SizeInTheNotes(Ours):
    """A note says how many rows were read."""

    sizes: dict[int, int] = field(default_factory=dict)

    def open(self, tables: Tables) -> Connection:
        connection = super().open(tables)
        self.sizes[id(connection)] = sum(map(len, tables.values()))
        return connection

    def bulk(self, first: Connection, second: Connection, query: str) -> tuple[Draws, Draws]:
        one, two = super().bulk(first, second, query)
        sizes = [np.array([float(self.sizes[id(c)])]) for c in (first, second)]
        return _beside(one, sizes[0]), _beside(two, sizes[1])


class RawWithNoise:
    """Somebody's first engine, through the two-method adapter: the database's own answer, with float Laplace noise."""

    def __init__(self, epsilon: float) -> None:
        self._scale = 1 / epsilon
        self._rng = np.random.default_rng(5)

    def open(self, tables: Tables) -> duckdb.DuckDBPyConnection:
        connection = open_database()
        for name, frame in Ours().open(tables).frames.items():
            connection.register(name, frame)
        return connection

    def ask(self, connection: duckdb.DuckDBPyConnection, query: str) -> object:
        rows = connection.execute(query).fetchall()
        return [tuple(self._noisy(v) for v in row) for row in rows]

    def _noisy(self, value: object) -> object:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return value + self._rng.laplace(scale=self._scale) if number else value  # type: ignore[operator]


TWINS: Mapping[str, Callable[[], Ours]] = MappingProxyType(
    {
        "sensitivity halved": HalvedSensitivity,
        "keys shown without a threshold": KeysAsTheyAre,
        "a threshold at ten times the δ": lambda: LowThreshold(delta=Fraction(1, 100)),
        "empty declared groups hidden": EmptyGroupsHidden,
        "errors that quote data": ErrorsQuoteData,
        "the order of the exact numbers": OrderOfTheExact,
        "no clamp": NoClamp,
        "a unit counted twice": CountedTwice,
        "no caps": NoCaps,
        "one seed for each query": SeedPerQuestion,
        "the size in the notes": SizeInTheNotes,
    }
)
"""What an SQL audit must find, by what is wrong."""


def _halved(noise: Additive) -> Additive:
    if isinstance(noise, DiscreteLaplaceNoise):
        return DiscreteLaplaceNoise(noise.scale / 2)
    assert isinstance(noise, RoundedGaussianNoise)
    return RoundedGaussianNoise(noise.sigma / 2)


def _second(unit: object) -> object:
    return unit + 10**7 if isinstance(unit, int) else unit


def _otherwise(ours: Ours, connection: Connection, query: str, **changes: object) -> Exact | Raised:
    """What the engine would read with other settings."""
    fields = {name: getattr(ours, name) for name in Ours.__dataclass_fields__}
    other = Ours(**fields | changes)
    with other.session(connection.frames) as planner:
        return other.exact(replace(connection, planner=planner), query)


def _numbers(exact: Exact | Raised, width: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    cells = [] if isinstance(exact, Raised) else [c for row in exact.cells.values() for c in row]
    return np.resize(np.array([*cells, 0.0], dtype=np.float64), width)


def _order(exact: Exact | Raised, keys: Sequence[object]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if isinstance(exact, Raised):
        return np.zeros(0)
    first = {repr(k): row[0] if row else 0 for k, row in exact.cells.items()}
    return np.argsort([-first.get(repr(k), 0) for k in keys], kind="stable").astype(np.float64)


def _beside(draws: Draws, told: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Draws:
    def both(n: int) -> object:
        drawn = draws(n)
        return np.hstack([drawn, np.tile(told, (n, 1))]) if isinstance(drawn, np.ndarray) else drawn

    return both  # type: ignore[return-value]
