"""`audit_sql`: one engine, random neighbouring tables, random queries, everything that comes back."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.loss import PrivacyLoss
from discreet.audit.claim import Claim
from discreet.audit.finding import Bits, Tried
from discreet.audit.outputs.encoding import Encoded, Encoder
from discreet.audit.outputs.sampling import Sampler
from discreet.audit.outputs.shape import Batch
from discreet.audit.places import Floats
from discreet.audit.result import Audit
from discreet.audit.sequential import distinguish
from discreet.audit.sql.databases import DATABASE_TRAPS, RandomDatabases, all_database_queries
from discreet.audit.sql.tables import TRAPS, BulkEngine, Engine, Neighbours, RandomTables, Tables, all_queries
from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import Approximate, Budget

_T = TypeVar("_T")

_SHARE = 0.5
"""The share of the time in which candidates are looked for; the rest tests the best ones."""

_LEAST = 0.5
"""Seconds that each test may take, however late it is."""

_SURE = 8.0
"""Standard errors after which no further candidates are looked for."""

_LOOKS, _FEWEST = 2_000, 10
"""Answers of each neighbour in a quick look, at most and at least."""

_MOMENT = 0.3
"""About how many seconds a quick look at one neighbour takes."""

_EACH = 6
"""Queries about each pair of worlds but the first, since opening them takes longer than asking."""

_SHOWN = 3
"""Rows that an input shows of those in which it differs; `tables` has all."""

_LISTED = 20
"""Candidates that a report lists."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One query to one of two neighbouring worlds: what an audited engine is given.

    Attributes:
        query: the query.
        worlds: both neighbours.
        side: which of them is asked, 0 or 1.
    """

    query: str
    worlds: Neighbours
    side: int

    @property
    def tables(self) -> Tables:
        """The world that is asked."""
        return self.worlds.second if self.side else self.worlds.first

    def __str__(self) -> str:
        mine, other = ([repr(r) for rows in t.values() for r in rows] for t in self._both())
        own = [r for r in mine if r not in other]
        shown = f": {', '.join(own[:_SHOWN])}{', …' if len(own) > _SHOWN else ''}" if own else ""
        return f"{self.query!r} of {len(mine)} rows, {len(own)} of which the other has not{shown} ({self.worlds.words})"

    __repr__ = __str__

    def _both(self) -> tuple[Tables, Tables]:
        return self.tables, self.worlds.first if self.side else self.worlds.second


def audit_sql(
    engine: Engine,
    *,
    claimed: Budget | Approximate | PrivacyLoss | Claim | Real,
    tables: RandomTables | RandomDatabases | Iterable[Neighbours] | None = None,
    queries: Iterable[str] | None = None,
    samples: int | None = None,
    seconds: float | None = None,
    candidates: int | None = None,
    error: float = 1e-3,
    keep: int = 3,
    seed: int = 0,
    bulk: bool = True,
    name: str | None = None,
    floats: Bits = "keep",
) -> Audit:
    """Attack an SQL engine end to end: two worlds that differ in one unit, one query, everything that comes back.

    Many candidates (a pair of worlds and a query) are looked at with few samples, which are thrown away. The `keep`
    most suspicious ones are tested with fresh samples, the error divided among them, until one is refuted.

    Guarantee:
        An engine each of whose answers keeps the claim is called "violated" with probability at most `error`,
        if the tables given are neighbours under the relation that was claimed.

    Args:
        engine: `Ours()`, or any object with `open(tables)` and `ask(connection, query)` (see `Engine`).
        claimed: what each answer is said to cost.
        tables: where neighbours come from: `RandomTables`, one table; `RandomDatabases`, several of them with foreign
            keys and a public one (for which `Ours.over_databases()` is made); or an iterable of `Neighbours`.
        queries: the queries, over and over; a list of traps and random ones, for these tables, unless given.
        samples: the most answers of each neighbour in one test: 100,000 where the engine draws in bulk, else 2,000.
        seconds: about how long to go on; 60 unless given.
        candidates: how many candidates are looked at: as many as fit in the time, unless given.
        error: the chance of accusing an engine that keeps its claim, for the whole call.
        keep: how many candidates are tested.
        seed: for the auditor's own choices of tables and queries.
        bulk: whether to use the engine's `bulk`, where it has one.
        name: how the report calls the engine.
        floats: "ignore" looks for a wrong law only, as for `distinguish`; else bits may choose what is tested.

    Raises:
        InvalidParameter: an impossible argument, or nothing to ask.

    >>> class Open:  # no noise at all
    ...     def open(self, tables): return tables["t"]
    ...     def ask(self, connection, query): return len(connection)
    >>> audit_sql(Open(), claimed=1, candidates=10, samples=200).verdict
    'violated'
    """
    start, claim = time.monotonic(), Claim.of(claimed)
    if keep < 1 or (candidates is not None and candidates < 1) or not 0 < error < 1:
        raise InvalidParameter(
            "keep and candidates must be at least 1, and error strictly between 0 and 1.",
            hint="audit_sql(engine, claimed=1, keep=3, error=1e-3)",
        )
    limit = 60.0 if seconds is None else seconds
    target, audits = _Target(engine, bulk), list[Audit]()
    try:
        supply = itertools.islice(_supply(tables, queries, seed), candidates)
        looks = _search(target, claim, supply, start + limit * _SHARE, bits=floats == "keep")
        found = sorted(looks, key=lambda c: -c.look.excess)
        for i, candidate in enumerate(found[:keep]):
            left = start + limit - time.monotonic()
            audits.append(
                distinguish(
                    target.mechanism(candidate.asked),
                    candidate.asked,
                    replace(candidate.asked, side=1),
                    claim,
                    samples=samples if samples is not None else target.most,
                    seconds=max(left / (min(keep, len(found)) - i), _LEAST),
                    error=error / keep,
                    probes=False,
                    floats=floats,
                )
            )
            if audits[-1].violated:
                break
    finally:
        target.close()
    worst = max(audits, key=lambda a: (a.violated, a.epsilon_lower))
    looked = f"{len(found)} queries about random neighbours were looked at, {len(audits)} of them tested."
    return replace(
        worst,
        name=name or type(engine).__name__,
        error=error,
        samples=2 * sum(c.samples for c in found) + sum(a.samples for a in audits),
        seconds=time.monotonic() - start,
        tried=tuple(Tried(c.words, c.look.epsilon, 2 * c.samples) for c in found[:_LISTED]),
        notes=(looked, *worst.notes),
    )


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A query and two worlds, and what a quick look at few answers showed."""

    asked: Asked
    look: QuickLook
    samples: int

    @property
    def words(self) -> str:
        return f"{self.asked.query} — {self.asked.worlds.words}"


class _Target:
    """An engine as the mechanism that the rest of the auditor knows; it keeps the last two worlds open."""

    def __init__(self, engine: Engine, bulk: bool) -> None:
        self.engine = engine
        self.bulk = engine if bulk and isinstance(engine, BulkEngine) else None
        self._worlds: Neighbours | None = None
        self._opened: tuple[Any, ...] = ()

    @property
    def most(self) -> int:
        """Answers of each neighbour in one test."""
        return 2_000 if self.bulk is None else 100_000

    def mechanism(self, asked: Asked) -> Callable[..., object]:
        """Return the engine, open for both worlds of `asked`, as a function of one `Asked`."""
        first, second = self._open(asked.worlds)
        unopened = any(isinstance(c, _Unopened) for c in (first, second))
        draws = None if self.bulk is None or unopened else self.bulk.bulk(first, second, asked.query)

        def many(asked: Asked, *, n: int) -> object:
            assert draws is not None
            return draws[asked.side](n)

        def one(asked: Asked) -> object:
            connection = second if asked.side else first
            if isinstance(connection, _Unopened):
                raise connection.refusal
            return self.engine.ask(connection, asked.query)

        return one if draws is None else many

    def close(self) -> None:
        """Close the worlds that are open."""
        opened, self._opened, self._worlds = self._opened, (), None
        for connection in opened:
            if hasattr(connection, "close"):
                connection.close()

    def _open(self, worlds: Neighbours) -> tuple[Any, ...]:
        if self._worlds is not worlds:
            self.close()
            self._opened = tuple(self._opening(tables) for tables in (worlds.first, worlds.second))
            self._worlds = worlds
        return self._opened

    def _opening(self, tables: Tables) -> Any:
        try:
            return self.engine.open(tables)
        except Exception as refusal:  # an engine that cannot even open one of two worlds has told them apart
            return _Unopened(refusal)


@dataclass(frozen=True)
class _Unopened:
    refusal: Exception


def _supply(
    tables: RandomTables | RandomDatabases | Iterable[Neighbours] | None, queries: Iterable[str] | None, seed: int
) -> Iterator[Asked]:
    """Queries about neighbours: without end where one of the two has none."""
    rng = np.random.default_rng(seed)
    chosen = RandomTables() if tables is None else tables
    pairs = chosen.pairs(rng) if isinstance(chosen, RandomTables | RandomDatabases) else _round("tables", chosen)
    several = isinstance(chosen, RandomDatabases)
    texts = all_database_queries(rng) if several else all_queries(rng)
    if queries is not None:
        texts = _round("queries", queries)
    for i, worlds in enumerate(pairs):
        for query in itertools.islice(texts, _EACH if i else len(DATABASE_TRAPS if several else TRAPS)):
            yield Asked(query, worlds, 0)


def _round(name: str, given: Iterable[_T]) -> Iterator[_T]:
    listed = tuple(given)
    if not listed:
        raise InvalidParameter(f"{name} is empty: there is nothing to ask.", hint="leave it out for random ones")
    return itertools.cycle(listed)


def _search(
    target: _Target, claim: Claim, supply: Iterable[Asked], until: float, *, bits: bool
) -> Iterator[_Candidate]:
    """Yield a quick look at each candidate until time is up or one is caught; at one at least."""
    for i, asked in enumerate(supply):
        if i and time.monotonic() > until:
            return
        mechanism = target.mechanism(asked)
        batches = [_few(Sampler(mechanism, replace(asked, side=side))) for side in (0, 1)]
        n = min(map(len, batches))
        seen = look(batches[0][:n], batches[1][:n], claim, bits=bits)
        yield _Candidate(asked, seen, n)
        if seen.excess > _SURE:
            return


def _few(sampler: Sampler) -> Batch:
    """As many answers as a moment allows, within bounds."""
    start = time.monotonic()
    first = sampler.draw(_FEWEST)
    each = max((time.monotonic() - start) / _FEWEST, 1e-9)
    more = sampler.draw(max(min(_LOOKS, int(_MOMENT / each)) - _FEWEST, 1))
    if isinstance(first, np.ndarray) and isinstance(more, np.ndarray):
        return np.concatenate([first, more])
    return [*first, *more]


class QuickLook(NamedTuple):
    """What a quick look showed: the excess of the best event in standard errors, and the ε of that event."""

    excess: float
    epsilon: float


def look(p: Batch, q: Batch, claim: Claim, *, bits: bool = True) -> QuickLook:
    """Return the largest excess of P(E) over e^ε Q(E) + δ, in standard errors, over simple events E and both orders.

    Events are thresholds of each column, of the direction that separates the means best, and of how often whole outputs
    were seen. The last two are learned from one half of the samples. It only says where to look: many events
    are tried on the samples that choose among them.
    """
    encoder = Encoder.learned(p, q, bits=bits)
    one, two = encoder.encode(p), encoder.encode(q)
    half = len(one) // 2, len(two) // 2
    scores = [*_columns(one, two), _direction(one, two, half), _whole_outputs(one, two, half)]
    return max(max(_best(a, b, claim), _best(-b, -a, claim)) for a, b in scores)


def _columns(one: Encoded, two: Encoded) -> list[tuple[Floats, Floats]]:
    a, b = _filled(one), _filled(two)
    found = [(a[:, j], b[:, j]) for j in range(a.shape[1])]
    return found + [(-x, -y) for x, y in found]


def _direction(one: Encoded, two: Encoded, half: tuple[int, int]) -> tuple[Floats, Floats]:
    """Fresh halves along the difference of the means; cut off, so that no heavy tail drowns the other columns."""
    a, b = _filled(one), _filled(two)
    both = np.vstack([a[: half[0]], b[: half[1]]])
    middle = np.median(both, axis=0)
    width = np.maximum(np.quantile(np.abs(both - middle), 0.75, axis=0), 1e-300)
    with np.errstate(over="ignore"):
        x, y = (np.clip((part - middle) / width, -3, 3) for part in (a, b))
    difference = x[: half[0]].mean(axis=0) - y[: half[1]].mean(axis=0)
    return x[half[0] :] @ difference, y[half[1] :] @ difference


def _whole_outputs(one: Encoded, two: Encoded, half: tuple[int, int]) -> tuple[Floats, Floats]:
    """For fresh halves, the log-ratio of how often each whole output was seen in the others."""
    codes, place = np.unique(np.concatenate([one.codes, two.codes]), return_inverse=True)
    mine, other = place[: len(one)], place[len(one) :]
    seen = [np.bincount(part, minlength=len(codes)) for part in (mine[: half[0]], other[: half[1]])]
    ratio = np.log((seen[0] + 0.5) / (seen[1] + 0.5))
    return ratio[mine[half[0] :]], ratio[other[half[1] :]]


def _filled(encoded: Encoded) -> Floats:
    return np.nan_to_num(encoded.values, nan=-1e300, posinf=1e301, neginf=-1e301)


def _best(a: Floats, b: Floats, claim: Claim) -> QuickLook:
    """Return the best of the events "score ≥ t"."""
    n, m = len(a), len(b)
    points = np.unique(np.concatenate([a, b]))
    hits = n - np.searchsorted(np.sort(a), points, side="left")
    misses = m - np.searchsorted(np.sort(b), points, side="left")
    # one hit more on each side keeps rare events from looking certain
    p, q = (hits + 1) / (n + 2), (misses + 1) / (m + 2)
    looks = []
    for epsilon, delta in claim.points:
        grown = math.exp(min(epsilon, 100.0))
        error = np.sqrt(p * (1 - p) / n + grown * grown * q * (1 - q) / m)
        excess: NDArray[np.float64] = (hits / n - grown * misses / m - delta) / error
        i = int(excess.argmax())
        looks.append(QuickLook(float(excess[i]), math.log(max(float(p[i] - delta), 1e-300) / float(q[i]))))
    return max(looks)
