"""Sessions whose noise follows a seed, for tests of code that uses this package: the only seed there is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from discreet.engine.connect import connect
from discreet.engine.perform import Desk
from discreet.errors import InvalidParameter
from discreet.privacy.exact import count
from discreet.privacy.guarantee import Budget

if TYPE_CHECKING:
    from discreet.catalog.schema import Fact
    from discreet.engine.session import Session
    from discreet.noise.entropy import Entropy
    from discreet.privacy.unit import PrivacyUnit, Relation

_BUDGET = Budget(1000, "0.01", per_query=1000)


class SeededEntropy:
    """Bytes that follow a seed. Nothing that is drawn from them is private.

    >>> SeededEntropy(1).bytes(2) == SeededEntropy(1).bytes(2) != SeededEntropy(2).bytes(2)
    True
    """

    __slots__ = ("_drawn", "_seed")

    def __init__(self, seed: int) -> None:
        self._seed = str(count("seed", seed, least=0))
        self._drawn = 0

    def bytes(self, n: int, /) -> bytes:
        """Return the next `n` bytes."""
        self._drawn += 1
        return hashlib.shake_256(f"discreet {self._seed} {self._drawn}".encode()).digest(n)


class _SeededDesk(Desk):
    """A desk that draws from one stream of a seed, and orders a person's groups by it."""

    def __init__(self, desk: Desk, seed: int) -> None:
        super().__init__(desk.payers, desk.backend, desk.tables, desk.version)
        self._rng = SeededEntropy(seed)
        self._key = int.from_bytes(SeededEntropy(seed).bytes(8), "big")

    def _entropy(self) -> Entropy:
        return self._rng

    @property
    def _secret(self) -> int:
        return self._key


def session(
    source: object,
    *,
    seed: int,
    unit: PrivacyUnit,
    columns: Mapping[str, Fact] | None = None,
    public: Collection[str] = (),
    budget: Budget = _BUDGET,
    population: str = "test",
    relation: str | Relation | None = None,
    bounds: str | None = None,
) -> Session:
    """Return a session over made-up data frames, which gives the same results in every run.

    Its ledger ends with it, and it opens no file and no database: a result of it is never private, and nothing real is
    within its reach.

    Args:
        source: a data frame, or a dict of table names to data frames.
        seed: a whole number; another one gives other noise.
        unit: as in `dp.connect`, like all that follows.
        columns: public facts.
        public: names of public tables.
        budget: ε = 1000 unless given.
        population: whose budget it is.
        relation: "add-remove" or "replace".
        bounds: "auto" or "values".

    >>> import pandas as pd
    >>> from discreet import PrivacyUnit
    >>> frame = pd.DataFrame({"x": [1, 2, 3]})
    >>> with session(frame, seed=1, unit=PrivacyUnit.row()) as s:
    ...     first = s.sql("SELECT COUNT(*) AS n FROM data", epsilon=1).value
    >>> with session(frame, seed=1, unit=PrivacyUnit.row()) as s:
    ...     s.sql("SELECT COUNT(*) AS n FROM data", epsilon=1).value == first
    True

    Raises:
        InvalidParameter: a path, a URL or a database in place of a data frame.
    """
    for one in source.values() if isinstance(source, Mapping) else [source]:
        _refuse_place(one)
    opened = connect(
        source,
        unit=unit,
        columns=columns,
        public=public,
        budget=budget,
        population=population,
        relation=relation,
        bounds=bounds,
        ledger=":memory:",
    )
    opened._desk = _SeededDesk(opened._desk, seed)
    return opened


def _refuse_place(source: Any) -> None:
    if isinstance(source, str | os.PathLike) or type(source).__module__.split(".")[0] in ("duckdb", "_duckdb"):
        raise InvalidParameter(
            "a seeded session takes data frames only: its noise can be foretold.",
            hint="make up a frame: pd.DataFrame({'x': [1, 2, 3]}); real data is for dp.connect",
        )
