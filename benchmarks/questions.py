"""Five everyday questions on `visits`: our answer beside plain DuckDB and the usual SQL that bounds each person.

    python -m benchmarks.questions [--rows 1000000,10000000] [--rounds 3] [--only Q3,Q4] [--peers] [--disk]

Q1 COUNT(*); Q2 COUNT, SUM and AVG by 20 declared regions; Q3 the same by region and day, the groups selected privately;
Q4 the three quartiles of a column; Q5 the number of people. The two-window SQL bounds a person to 3 regions of 10 rows
and adds no noise: a floor for engines that bound this way. `--peers` asks OpenDP's Polars engine too, which adds noise
(its environment: `python -m benchmarks.peers opendp`). Then: the memory of each question in a process of its own, what
it costs for each row as the table grows, and what it costs where there is no data to speak of. `--disk` asks of 100
million rows as well, where the database may hold 3 GB and spills the rest (about 1 GB of Parquet is made once), beside
the engine's own grouping by person, whose cost for each row grows too.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import discreet as dp
from benchmarks import peers
from benchmarks.bounding import FEW, GROUPS, ROWS
from benchmarks.query import in_duckdb, session
from benchmarks.runner import Claim, Contender, Timing, alternate, in_subprocess, report_sample, save, table
from benchmarks.visits import visits

PLAIN: Mapping[str, str] = {
    "Q1": "SELECT COUNT(*) FROM visits",
    "Q2": "SELECT region, COUNT(*), SUM(amount), AVG(amount) FROM visits GROUP BY region",
    "Q3": "SELECT region, day, COUNT(*), SUM(amount), AVG(amount) FROM visits GROUP BY region, day",
    "Q4": "SELECT quantile_cont(amount, 0.25), quantile_cont(amount, 0.5), quantile_cont(amount, 0.75) FROM visits",
    "Q5": "SELECT COUNT(DISTINCT user_id) FROM visits",
}
_MEANS = "count(*) AS n, sum(amount) AS s, count(amount) AS m FROM visits GROUP BY user_id"
GROUPED: Mapping[str, str] = {
    "Q1": "SELECT sum(n) FROM (SELECT count(*) AS n FROM visits GROUP BY user_id)",
    "Q2": f"SELECT sum(n), sum(s), sum(m) FROM (SELECT region, {_MEANS}, region)",
    "Q3": f"SELECT sum(n), sum(s), sum(m) FROM (SELECT region, day, {_MEANS}, region, day)",
    "Q4": "WITH people AS (SELECT user_id, count(*) AS n FROM visits GROUP BY user_id) "
    "SELECT sum(amount / n) FROM visits JOIN people USING (user_id)",
    "Q5": "SELECT count(user_id) FROM (SELECT user_id FROM visits GROUP BY user_id)",
}
"""What whoever bounds people asks of the engine at least: each person's rows together."""
UNIT = dp.PrivacyUnit("user_id", max_groups=GROUPS, max_rows=ROWS)
DISK = 100_000_000
HELD = "3GB"
OVER_WINDOWS, UNDER_OPENDP, MEMORY, ON_DISK, OVERHEAD, PLANNING = 0.45, 5, 1024, 4096, 50, 10
GROWTH, BEYOND_ENGINE = 1.5, 1.25
"""The targets: ratios of CPU seconds, MB, MB, milliseconds, milliseconds; ratios of ratios of CPU seconds."""

Part = tuple[list[Timing], list[Claim]]


def two_windows(name: str) -> str:
    """The question over the rows that the usual bounding keeps."""
    text = FEW + PLAIN[name].replace("FROM visits", "FROM few")
    return f"{text} HAVING COUNT(DISTINCT user_id) > 20" if name == "Q3" else text


def spent(name: str) -> dict[str, Any]:
    """What a question may cost: a δ where groups are selected."""
    return {"epsilon": 1, "delta": 1e-6 if name == "Q3" else 0}


def ask(path: Path, name: str) -> None:
    """From the file to the noisy answer: connect, open an account, plan, charge, run, add noise."""
    with session(path, UNIT) as s:
        rows = s.sql(PLAIN[name], **spent(name), fresh=True).rows
        assert rows or name == "Q3"  # a small table has no group that many people enter


def engines(path: Path, name: str, rounds: int, *, with_peers: bool) -> Part:
    """Plain, bounded by two windows, ours, and OpenDP."""
    entries = [
        Contender("plain", partial(in_duckdb, path, PLAIN[name])),
        Contender("two windows", partial(in_duckdb, path, two_windows(name))),
        Contender("ours", partial(ask, path, name)),
    ]
    opendp = peers.python_of("opendp") if with_peers else None
    if opendp is not None:
        run = partial(in_subprocess, "benchmarks.query_opendp", str(path), name, python=opendp)
        entries.append(Contender("OpenDP (Polars)", run))
    ask(visits(100), name)  # what is imported late, and the file's pages, are there for everybody
    in_duckdb(path, PLAIN[name])
    timings = alternate(entries, rounds=rounds, warmup=0)
    _, bounded, ours, *others = timings
    claims = [Claim(f"{name}, CPU against two windows", ours.ratio(bounded)[0], OVER_WINDOWS)]
    claims += [
        Claim(f"{name}, CPU of OpenDP against ours", other.ratio(ours)[0], UNDER_OPENDP, at_least=True)
        for other in others
    ]
    return timings, claims


def memory(path: Path, names: Sequence[str]) -> Part:
    """Peak memory of a process that does nothing else."""
    timings = [Timing(n, (in_subprocess("benchmarks.questions", "--once", n, str(path)),)) for n in names]
    return timings, [Claim(f"{t.name}, peak memory", t.peak_mb or float("nan"), MEMORY, "MB") for t in timings]


def growth(ours: Mapping[int, Mapping[str, Timing]], names: Sequence[str]) -> list[Claim]:
    """The cost for each row of the largest table against that of the smallest."""
    least, most = min(ours), max(ours)
    if least == most:
        return []
    return [
        Claim(
            f"{n}, CPU for each row, {most:,} rows against {least:,}",
            ours[most][n].cpu / most / (ours[least][n].cpu / least),
            GROWTH,
        )
        for n in names
    ]


def overhead(rounds: int, names: Sequence[str]) -> Part:
    """What a question costs when there is next to no data: ours less plain on 100 rows; and its planning alone."""
    path, found, claims = visits(100), [], []
    with session(path, UNIT) as s:
        for n in names:
            entries = [
                Contender(f"{n} plain", partial(in_duckdb, path, PLAIN[n])),
                Contender(f"{n} ours", partial(s.sql, PLAIN[n], **spent(n), fresh=True)),
                Contender(f"{n} planned", partial(s.plan, PLAIN[n], **spent(n))),
            ]
            plain, ours, planned = timings = alternate(entries, rounds=4 * rounds, warmup=2)
            found += timings
            claims += [
                Claim(f"{n}, fixed overhead, CPU", 1000 * (ours.cpu - plain.cpu), OVERHEAD, "ms"),
                Claim(f"{n}, fixed overhead, wall", 1000 * (ours.wall - plain.wall), OVERHEAD, "ms"),
                Claim(f"{n}, planning, CPU", 1000 * planned.cpu, PLANNING, "ms"),
            ]
    return found, claims


def planning(keys: int, rounds: int) -> Part:
    """Planning of a question with so many declared keys."""
    facts: dict[str, dp.Range | dp.Values] = {
        "whole numbers": dp.Range(1, keys, integer=True),
        "texts": dp.Values(*(f"name {i}" for i in range(keys))),
    }
    timings = []
    for name, fact in facts.items():
        column, where = ("day", visits(100)) if name == "whole numbers" else ("region", visits(100))
        with tempfile.TemporaryDirectory() as folder:
            s = dp.connect(
                {"visits": str(where)},
                unit=UNIT,
                columns={column: fact},
                budget=dp.Budget(epsilon=1),
                population="visits",
                ledger=f"{folder}/visits.ledger",
            )
            with s:
                run = partial(s.plan, f"SELECT {column}, COUNT(*) FROM visits GROUP BY {column}", epsilon=1)
                timings += alternate([Contender(f"{keys:,} {name}", run)], rounds=rounds)
    return timings, [Claim(f"planning, {t.name} as keys, CPU", 1000 * t.cpu, 300, "ms") for t in timings]


def on_disk(names: Sequence[str], ours: Mapping[int, Mapping[str, Timing]]) -> Part:
    """Ours on 100 million rows, in a process whose database holds 3 GB at most, beside the engine's own grouping."""
    least = max(ours)

    def alone(how: str, size: int) -> dict[str, Timing]:
        args = [(n, "benchmarks.questions", "--limited", how, n, str(visits(size))) for n in names]
        return {n: Timing(f"{n} {how[2:]}", (in_subprocess(*rest),)) for n, *rest in args}

    most, grouped = alone("--once", DISK), {size: alone("--grouped", size) for size in (least, DISK)}
    claims = [Claim(f"{n} on disk, peak memory", t.peak_mb or float("nan"), ON_DISK, "MB") for n, t in most.items()]
    grown = growth({least: ours[least], DISK: most}, names)
    engine = growth(grouped, names)
    claims += grown
    claims += [
        Claim(f"{n}, the same against the engine's own grouping", g.measured / e.measured, BEYOND_ENGINE)
        for n, g, e in zip(names, grown, engine, strict=True)
    ]
    return [t for n in names for t in (most[n], grouped[DISK][n], grouped[least][n])], claims


@contextmanager
def limited() -> Iterator[None]:
    """As on a machine of 4 GB, of which the database takes at most a part, with room on the disk beside the ledger."""
    from discreet.backends import connection

    with tempfile.TemporaryDirectory() as folder:
        own = (f"memory_limit = '{HELD}'", f"temp_directory = '{folder}'")
        with patch.object(connection, "_SETTINGS", (*connection._SETTINGS, *own)):
            yield


def once(path: Path, name: str, *, with_limit: bool) -> None:
    """One question, in a process of its own."""
    if with_limit:
        with limited():
            ask(visits(100), name)  # what is imported late is there, as where the smaller tables are asked
            report_sample(partial(ask, path, name))
    else:
        report_sample(partial(ask, path, name))


def grouping(path: Path, name: str, *, with_limit: bool) -> None:
    """The engine's own grouping, in a process of its own."""
    in_duckdb(visits(100), GROUPED[name])
    with tempfile.TemporaryDirectory() as folder:
        own = (f"SET memory_limit = '{HELD}'", f"SET temp_directory = '{folder}'") if with_limit else ()
        report_sample(partial(in_duckdb, path, GROUPED[name], own))


def main() -> None:
    """Measures, prints the tables and the targets, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="1000000,10000000", help="sizes of the table, with commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(PLAIN), help="questions, with commas")
    parser.add_argument("--peers", action="store_true", help="OpenDP too, where its environment was made")
    parser.add_argument("--disk", action="store_true", help="100 million rows too")
    parser.add_argument("--once", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--grouped", nargs=2, metavar=("NAME", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--limited", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        once(Path(options.once[1]), options.once[0], with_limit=options.limited)
        return
    if options.grouped:
        grouping(Path(options.grouped[1]), options.grouped[0], with_limit=options.limited)
        return
    sizes, names = sorted(int(n) for n in options.rows.split(",")), options.only.split(",")
    if options.peers and peers.python_of("opendp") is None:
        print("OpenDP is left out: make its environment with `python -m benchmarks.peers opendp`")
    found: dict[str, list[Timing]] = {}
    claims: list[Claim] = []

    def add(title: str, part: Part, baseline: str | None = None) -> None:
        found[title] = part[0]
        claims.extend(part[1])
        print(f"\n{title}\n{table(part[0], baseline=baseline or part[0][0].name)}", *part[1], sep="\n", flush=True)

    ours: dict[int, dict[str, Timing]] = {}
    for size in sizes:
        for n in names:
            part = engines(visits(size), n, options.rounds, with_peers=options.peers)
            ours.setdefault(size, {})[n] = part[0][2]
            add(f"{n}, {size:,} rows", part, "two windows")
    claims += growth(ours, names)
    add(f"one process each, {sizes[-1]:,} rows", memory(visits(sizes[-1]), names))
    add("100 rows", overhead(options.rounds, names))
    add("many keys", planning(20_000, options.rounds))
    if options.disk:
        add(f"one process each, {DISK:,} rows, {HELD} for the database", on_disk(names, ours))
    print("", *claims, sep="\n")
    print(save(f"questions-{sizes[-1]}", found, claims))


if __name__ == "__main__":
    main()
