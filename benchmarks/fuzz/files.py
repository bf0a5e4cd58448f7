"""Random files of people of every kind, rewritten between queries: what leaves is what a plain reading says.

`python -m benchmarks.fuzz.files --worlds 2000`. Ids are spelled at random; the reading that judges is a dozen lines of
Python. Of two neighbours (add-remove, one canonical id) no integer differs by more than its plan's sensitivity.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import discreet as dp
from discreet.backends.connection import open_database
from discreet.engine.cells import exact_cells

Row = tuple[str | None, int]
"""The spelling of an id, and a value."""

CAPS = dp.PrivacyUnit("uid", max_groups=1, max_rows=2)
FACTS = {"x": dp.Range(0, 10)}
QUERIES = ("SELECT COUNT(*) AS n FROM t", "SELECT SUM(x) AS s FROM t", "SELECT COUNT(DISTINCT uid) AS k FROM t")
KINDS = ("csv", "tsv", "json", "array.json", "parquet")
_SPELLINGS = (
    *("1", "12", "123", "1_23", "12_3", "012", "+12", "12.0", "1e1", " 12", "12\t", "\t", "", "a", "A", "a ", "é"),
    *("e\u0301", "1\uff12", "-0", "0", "-1", "9223372036854775808", "\u00a01", "\u200b1", "1;2", 'a"b', "a,b"),
)


def canonical(spelling: str | None, *, whole: bool) -> str | int | None:
    """The id that a spelling is, or None."""
    text = (spelling or "").strip(" \t\n\r\x0b\x0c")
    if not whole:
        return text or None
    digits = text.removeprefix("-")
    plain = digits.isascii() and digits.isdigit() and (digits[0] != "0" or text == "0")
    return int(text) if plain and -(2**63) <= int(text) < 2**63 else None


def expected(rows: list[Row], *, whole: bool) -> list[int]:
    """The exact answers of the queries: at most two rows of each person, and sums clamped to [0, 20]."""
    people: dict[str | int, list[int]] = {}
    for spelling, x in rows:
        own = canonical(spelling, whole=whole)
        if own is not None:
            people.setdefault(own, []).append(min(max(x, 0), 10))
    counts = sum(min(len(xs), 2) for xs in people.values())
    return [counts, sum(min(sum(xs), 20) for xs in people.values()), len(people)]


def write(folder: Path, kind: str, rows: list[Row], rng: Random) -> Path:
    """Writes the rows in a random layout, as another file in place of the one before."""
    file = folder / f"t.{kind}" if kind != "array.json" else folder / "t_array.json"
    names = ["uid", "x", *(f"extra{i}" for i in range(rng.randrange(3)))]
    rng.shuffle(names)
    cells: list[dict[str, Any]] = [
        {n: u if n == "uid" else x if n == "x" else rng.randrange(9) for n in names} for u, x in rows
    ]
    new = folder / f"new.{file.suffix}"
    if kind == "parquet":
        with open_database() as db:
            typed = rng.choice(["BIGINT", "INTEGER", "VARCHAR", "DOUBLE"])
            shown = ", ".join(f"{n} VARCHAR" if n == "uid" else f"{n} {typed}" for n in names)
            db.execute(f"CREATE TABLE t ({shown})")
            db.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", [list(c.values()) for c in cells])
            db.execute(f"COPY t TO '{new}' (FORMAT parquet)")
    elif "json" in kind:
        texts = [json.dumps(c) for c in cells]
        new.write_text("[" + ",".join(texts) + "]" if kind == "array.json" else "\n".join(texts))
    else:
        mark = "\t" if kind == "tsv" else ","
        quoted = [['"' + ("" if v is None else str(v)).replace('"', '""') + '"' for v in c.values()] for c in cells]
        lines = [mark.join(names), *(mark.join(line) for line in quoted)]
        new.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    new.replace(file)
    return file


def broken(seed: int, folder: Path) -> Iterator[str]:
    """What does not hold in one random world."""
    rng = Random(seed)
    kind, whole = rng.choice(KINDS), rng.random() < 0.5
    pool = [rng.choice(_SPELLINGS) for _ in range(6)]
    rows: list[Row] = [(rng.choice([*pool, None]), rng.randrange(-5, 20)) for _ in range(rng.randrange(2, 14))]
    rows.append(("7", 3))
    tables: dict[str, Any] = {"t": write(folder, kind, rows, rng)}
    if whole and kind != "parquet":  # beside whole numbers the cells are whole numbers
        with open_database() as db:
            db.execute(f"COPY (SELECT 7 AS uid) TO '{folder / 'other.parquet'}'")
        tables["other"] = folder / "other.parquet"
    else:
        whole = False
    options: dict[str, Any] = {"unit": CAPS, "columns": {"t.x": FACTS["x"]}, "population": "p", "ledger": ":memory:"}
    with dp.connect(tables, budget=dp.Budget(epsilon=9), **options) as session:
        before: list[list[int]] | None = None
        for _ in range(3):
            gone = rng.choice(rows)[0]
            session._desk.backend.refresh()
            found = []
            for sql in QUERIES:
                query = session.plan(sql, epsilon=1).query
                cells = exact_cells(query, lambda text: session._desk.backend.rows(text, {}))
                found.append((list(cells[()]), query))
            values = [int(cell[0] * query.question.measures[0].step) for cell, query in found]
            wanted = expected(rows, whole=whole)
            centre = [cell for cell, _ in found]
            if values[0] != wanted[0] or values[2] != wanted[2]:
                yield f"seed {seed}, {kind}: {values} for {wanted} of {rows}"
            if before is not None:
                for (cell, query), old in zip(found, before, strict=True):
                    if any(abs(a - b) > s.l1 for a, b, s in zip(cell, old, query.sensitivities, strict=True)):
                        yield f"seed {seed}, {kind}: moved from {old} to {cell} by one person, {rows}"
            own = canonical(gone, whole=whole)
            left = [r for r in rows if own is None or canonical(r[0], whole=whole) != own]
            rows, before = left or [("8", 1)], centre if left else None
            write(folder, kind, rows, rng)


def main() -> int:
    """Runs random worlds, and says what broke."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=500)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.first, options.first + options.worlds):
            for line in broken(seed, Path(folder)):
                print(line, flush=True)
                found.append(line)
    print(f"{options.worlds:,} worlds, {len(found)} broke something")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
