"""Queries to ask of the random tables: a list of traps, then random ones; and what an audited engine has to offer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from discreet.audit.sql.tables import TABLE, Tables

TRAPS: tuple[str, ...] = tuple(
    text.replace(" t ", f" {TABLE} ").strip()
    for text in (
        "SELECT COUNT(*) FROM t ",
        "SELECT SUM(x) FROM t ",
        "SELECT AVG(v) FROM t ",
        "SELECT COUNT(*) AS n, SUM(v) AS s, AVG(x) AS m FROM t WHERE x >= 0",
        "SELECT region, COUNT(*) AS n FROM t GROUP BY region",
        "SELECT level, COUNT(*) AS n FROM t GROUP BY level",
        "SELECT level, flag, SUM(x) AS s FROM t GROUP BY level, flag ORDER BY s DESC",
        "SELECT region, SUM(v) AS s FROM t GROUP BY region HAVING s > 0 ORDER BY s DESC LIMIT 1",
        "SELECT level, AVG(x) AS m FROM t GROUP BY level HAVING COUNT(*) > 1 ORDER BY m LIMIT 3",
        "SELECT level // 7 AS k, COUNT(*) AS n FROM t GROUP BY k ORDER BY n",
        "SELECT CASE WHEN x > 5 THEN 'high' ELSE region END AS k, COUNT(*) FROM t GROUP BY k",
        "SELECT SUM(CASE WHEN flag THEN x ELSE 0 END) AS s FROM t ",
        "SELECT AVG(CASE WHEN v > 5 THEN 1 ELSE 0 END) AS share FROM t ",
        "SELECT COUNT(*) FROM t WHERE CAST(region AS BIGINT) > 3",
        "SELECT COUNT(*) FROM t WHERE 1 / (x - 3) > 0",
        "SELECT COUNT(*) FROM t WHERE sqrt(v) < 2 OR ln(x) > 1",
        "SELECT COUNT(*) FROM t WHERE x * x * x > 1000",
        "SELECT COUNT(*) FROM t WHERE v <> v OR v IS NULL",
        "SELECT SUM(greatest(0, least(10, v * v))) AS s FROM t ",
        "SELECT COUNT(x), COUNT(v), COUNT(DISTINCT uid) FROM t ",
        "SELECT COUNT(*) FROM t WHERE uid = 1000003",
        "SELECT flag, COUNT(*) AS n FROM t WHERE region LIKE 'o%' GROUP BY flag ORDER BY n DESC, flag",
        "SELECT COUNT(*) / 0 AS q, SUM(x) / COUNT(*) AS m, sqrt(SUM(x)) AS r FROM t ",
        "SELECT MAX(x) FROM t ",
        "SELECT * FROM t ",
    )
)
"""Queries on which engines are known to leak: rows that fail, keys, orders, huge values, refusals."""

_AGGREGATES = (
    "COUNT(*)",
    "COUNT(x)",
    "COUNT(v)",
    "COUNT(DISTINCT uid)",
    "SUM(x)",
    "SUM(v)",
    "AVG(x)",
    "AVG(v)",
    "SUM(CASE WHEN flag THEN x END)",
    "SUM(-x)",
    "SUM(x - 5)",
    "AVG(CASE WHEN region = 'a' THEN v ELSE 0 END)",
    "SUM(least(greatest(coalesce(v, 0), -1), 2))",
    "COUNT(DISTINCT x)",
    "VAR_POP(v)",
    "CORR(x, v)",
    "SUM(x) FILTER (WHERE flag)",
    "COUNT_IF(x > 4)",
)
_KEYS = ("region", "level", "flag", "level % 2", "lower(region)", "x > 4", "CASE WHEN v > 2 THEN 'up' END")
_CONDITIONS = (
    "x > 2",
    "v <= 4.5",
    "region = 'a'",
    "region LIKE '%a%'",
    "flag",
    "level IN (1, 2)",
    "x IS NOT NULL",
    "length(region) > 1",
    "x / level > 1",
    "CAST(v AS BIGINT) = 1",
    "uid > 3",
    "x BETWEEN 0 AND 10",
)

Draws: TypeAlias = Callable[[int], Sequence[object] | NDArray[np.float64]]
"""So many answers, one after the other on axis 0."""


def random_query(rng: np.random.Generator) -> str:
    """One query over the random table: up to three aggregates, two keys and two conditions."""
    keys = _some(_KEYS, 0, 2, rng)
    columns = [f"{a} AS a{i}" for i, a in enumerate(_some(_AGGREGATES, 1, 3, rng))]
    text = f"SELECT {', '.join([*(f'{k} AS k{i}' for i, k in enumerate(keys)), *columns])} FROM {TABLE}"
    if conditions := _some(_CONDITIONS, 0, 2, rng):
        text += f" WHERE {_one_of((' AND ', ' OR '), rng).join(conditions)}"
    if keys:
        text += f" GROUP BY {', '.join(keys)}"
        text += _one_of(("", "", " HAVING a0 > 1", " HAVING COUNT(*) < 4"), rng)
    text += _one_of(("", "", " ORDER BY a0", " ORDER BY a0 DESC"), rng)
    return text + _one_of(("", "", "", " LIMIT 1", " LIMIT 2 OFFSET 1"), rng)


def all_queries(rng: np.random.Generator) -> Iterator[str]:
    """Return queries without end: the traps first, then traps and random ones by turns."""
    return by_turns(TRAPS, random_query, rng)


def by_turns(
    traps: tuple[str, ...], made: Callable[[np.random.Generator], str], rng: np.random.Generator
) -> Iterator[str]:
    """Yield all traps, then without end one that is made and a trap."""
    yield from traps
    while True:
        yield made(rng)
        yield _one_of(traps, rng)


def _some(choices: tuple[str, ...], least: int, most: int, rng: np.random.Generator) -> list[str]:
    n = int(rng.integers(least, most + 1))
    return [choices[int(i)] for i in rng.permutation(len(choices))[:n]]


def _one_of(choices: tuple[str, ...], rng: np.random.Generator) -> str:
    return choices[int(rng.integers(len(choices)))]


class Engine(Protocol):
    """Any engine that answers queries about tables.

    `open` is called once for each world, and `ask` very often; each answer must be a new one. An engine that remembers
    its answers, or whose budget runs out, therefore opens itself inside `ask`, and may let `open` return
    the tables as they are. What either raises is an output like any other. A connection with a method
    `close` is closed.

    >>> class Naive:
    ...     def open(self, tables): return tables["t"]
    ...     def ask(self, connection, query): return len(connection)
    """

    def open(self, tables: Tables) -> Any:
        """Return a connection to these tables: whatever `ask` needs."""

    def ask(self, connection: Any, query: str) -> object:
        """Return a fresh answer, with everything that an analyst would see: values, keys, their order, names, notes."""


@runtime_checkable
class BulkEngine(Protocol):
    """An engine that can draw many answers of two neighbouring worlds quickly, as numbers."""

    def bulk(self, first: Any, second: Any, query: str) -> tuple[Draws, Draws] | None:
        """For each of two connections a function that draws fresh answers; None where there is no short cut.

        The two may share what does not depend on which of them is drawn from, such as the list of columns.
        """
