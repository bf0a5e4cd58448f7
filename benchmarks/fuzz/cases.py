"""A case of the fuzzer: made from a seed, written as JSON, and tried."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.fuzz.check import Asked, Databases, Outcome, check
from benchmarks.fuzz.questions import PRIVATE_GROUPS, random_question
from benchmarks.fuzz.sources import with_kind
from benchmarks.fuzz.worlds import Shape, Table, World, random_neighbours, random_shape
from discreet.catalog.schema import Fact, ListedRows, Range, Values
from discreet.privacy.unit import Relation

QUESTIONS = 20
"""How many questions are asked of each pair of neighbours."""

OF_ASKING = frozenset({"listed keys", "max_contributions", "bounds='auto'", "min_people"})
"""Constructs of how a question is asked, or of its tables, which no text has."""

_FOR_ROUNDS = 4  # groups of a unit, above which groups may be selected in rounds

_DERIVED = 20
"""The second derivation is asked about one question of so many: it takes as long as all the rest."""


@dataclass(frozen=True, slots=True)
class Case:
    """A question on two neighbours."""

    shape: Shape
    first: World
    second: World
    sql: str
    asked: Asked
    constructs: tuple[str, ...] = ()


def cases(seed: int, questions: int = QUESTIONS, wanted: str = "") -> Iterator[Case]:
    """The questions that a seed gives, all of one pair of neighbours; with `wanted` mostly such with this construct."""
    rng = Random(seed)
    shape = with_kind(seed, next(s for s in iter(lambda: random_shape(rng), None) if _may_have(s, wanted)))
    first, second = random_neighbours(rng, shape)
    of_text = "" if wanted in OF_ASKING else PRIVATE_GROUPS if wanted == "groups in rounds" else wanted
    for i in range(questions):
        question = random_question(rng, shape, of_text)
        asked = _asked(rng, question.dialect, needs_delta=question.needs_delta, derived=i % _DERIVED == 0)
        if wanted == "min_people":
            asked = replace(asked, min_people=2, delta="1e-6")
        extra = [
            *(["second derivation"] if asked.derived else []),
            *(["listed keys"] if shape.listed else []),
            *(["max_contributions"] if shape.caps[2] is not None and not shape.is_row else []),
            *(["bounds='auto'"] if asked.auto else []),
            *(["min_people"] if asked.min_people > 1 else []),
            *(["groups in rounds"] if question.needs_delta and shape.caps[0] > _FOR_ROUNDS else []),
            *(["truncation report"] if asked.truncation != "0" else []),
            f"noise {asked.noise or 'laplace'}",
            f"relation {shape.relation.value}",
            *([f"source {shape.kind}"] if shape.kind is not None else []),
            "rows are units" if shape.is_row else "units with a column",
        ]
        yield Case(shape, first, second, question.sql, asked, (*question.constructs, *extra))


def _may_have(shape: Shape, construct: str) -> bool:
    """Whether questions of a shape may have a construct, as far as that follows from its tables."""
    if construct in _NEEDED:
        return _NEEDED[construct](shape)
    public = construct.startswith("public ") or construct in (
        *("join from the public side", "dates that are written out", "rows that are written out"),
    )
    return not public or any(t.public for t in shape.tables)


_NEEDED: Mapping[str, Callable[[Shape], bool]] = {
    "public n": lambda shape: shape.is_row and shape.relation is Relation.REPLACE,
    "derived table of row units": lambda shape: shape.is_row,
    "public join of row units": lambda shape: shape.is_row and len(shape.tables) > 1,
    "listed keys": lambda shape: bool(shape.listed),
    "max_contributions": lambda shape: shape.caps[2] is not None and not shape.is_row,
    "groups in rounds": lambda shape: shape.caps[0] > _FOR_ROUNDS and not shape.is_row,
    "join along a link": lambda shape: any(t.tie for t in shape.tables),
    "subquery along a link": lambda shape: any(t.tie for t in shape.tables),
}
"""What a construct needs of the tables."""


def tried(databases: Databases, case: Case, *, filled: bool = False) -> Outcome:
    """The outcome of a case; `filled` when its neighbours are in the databases already."""
    if not filled:
        databases.fill(case.shape, case.first, case.second)
    return check(databases, case.shape, case.sql, case.asked)


def write(case: Case, path: Path, *, why: str) -> None:
    """Writes a case that failed, as a fixture that stands alone."""
    record = {
        "why": why,
        "sql": case.sql,
        "asked": asdict(case.asked),
        "caps": list(case.shape.caps),
        "relation": case.shape.relation.value,
        "kind": case.shape.kind,
        "tables": [_table_json(case, t) for t in case.shape.tables],
    }
    path.write_text(json.dumps(record, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")


def load(path: Path) -> Case:
    """A case that `write` wrote."""
    record = json.loads(path.read_text(encoding="utf-8"))
    tables, facts = [], {}
    listed: dict[str, ListedRows] = {}
    first: World = {}
    second: World = {}
    for t in record["tables"]:
        name = t["name"]
        link = tuple(t["link"]) if t["link"] else None
        tie = tuple(t["tie"]) if t.get("tie") else None
        tables.append(Table(name, t["columns"], t["unit"], link, t["public"], tie))
        facts[name] = {c: _fact(f) for c, f in t["facts"].items()}
        if t.get("listed"):
            names, rows_of = t["listed"]
            cells = tuple(tuple(_cell(v) for v in row) for row in rows_of)
            listed[name] = ListedRows(tuple(names), cells, some=True)
        first[name], second[name] = ([tuple(_cell(c) for c in row) for row in t[part]] for part in ("first", "second"))
    groups, rows, *total = record["caps"]
    shape = Shape(
        tuple(tables),
        facts,
        (groups, rows, total[0] if total else None),
        Relation(record["relation"]),
        record.get("kind"),
        listed,
    )
    return Case(shape, first, second, record["sql"], Asked(**record["asked"]))


def _asked(rng: Random, dialect: str, *, needs_delta: bool, derived: bool) -> Asked:
    noise = rng.choice((None,) * 5 + ("laplace", "laplace", "gaussian"))
    few = rng.choice((2, 3)) if rng.random() < 0.03 else 1
    needed = needs_delta or noise == "gaussian" or few > 1 or rng.random() < 0.005
    return Asked(
        epsilon=rng.choice(("1", "0.0001", "0.1", "100")),
        delta=rng.choice(("1e-6", "1e-6", "1e-2")) if needed else "0",
        noise=noise,
        truncation="0.1" if rng.random() < 0.02 else "0",
        auto=rng.random() < 0.008,
        secret=rng.getrandbits(62),
        collide=rng.random() < 0.05,
        again=rng.random() < 0.02,
        rehearse=rng.random() < 0.1,
        intervals=rng.random() < 0.1,
        derived=derived,
        dialect=dialect,
        min_people=few,
    )


def _table_json(case: Case, t: Table) -> dict[str, Any]:
    return {
        "name": t.name,
        "columns": dict(t.columns),
        "unit": t.unit,
        "link": t.link,
        "tie": t.tie,
        "public": t.public,
        "listed": None if (found := case.shape.listed.get(t.name)) is None else _listed_json(found),
        "facts": {c: _fact_json(f) for c, f in case.shape.facts.get(t.name, {}).items()},
        "first": [[_cell_json(c) for c in row] for row in case.first[t.name]],
        "second": [[_cell_json(c) for c in row] for row in case.second[t.name]],
    }


def _listed_json(listed: ListedRows) -> list[Any]:
    return [list(listed.columns), [[_cell_json(v) for v in row] for row in listed.rows]]


def _fact_json(fact: Fact) -> list[Any]:
    if isinstance(fact, Range):
        of = [fact.type.value] if fact.type.is_moment else []
        return ["range", str(fact.low), str(fact.high), fact.integer, *of]
    return ["values", [_value_json(v) for v in fact.values]]


def _fact(kept: list[Any]) -> Fact:
    if kept[0] == "range":
        low, high = Fraction(kept[1]), Fraction(kept[2])
        if len(kept) <= _PLAIN:
            return Range(low, high, integer=kept[3])
        ends = [dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(end)) for end in (low, high)]
        return Range(*(ends if kept[-1] == "TIMESTAMP" else [end.date() for end in ends]))

    values = (dt.date.fromisoformat(v["date"]) if isinstance(v, dict) else v for v in kept[1])
    return Values(*values)


_PLAIN = 4  # parts of a range of numbers


def _value_json(value: object) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str) else {"date": str(value)}


def _cell_json(cell: Any) -> Any:
    if isinstance(cell, float):
        return {"real": cell.hex() if math.isfinite(cell) else str(cell)}
    return _value_json(cell)


def _cell(kept: Any) -> Any:
    if isinstance(kept, Mapping):
        if "date" in kept:
            return dt.date.fromisoformat(kept["date"])
        text = kept["real"]
        return float.fromhex(text) if "x" in text else float(text)
    return kept
