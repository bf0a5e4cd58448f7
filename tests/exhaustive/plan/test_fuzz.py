"""A slice of the fuzzer in benchmarks/fuzz: random questions of random neighbours, and the cases that failed once."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from benchmarks.fuzz import record
from benchmarks.fuzz.__main__ import asked_in_order
from benchmarks.fuzz.cases import QUESTIONS, Case, cases, load, tried, write
from benchmarks.fuzz.check import Asked, Databases
from benchmarks.fuzz.dialects import LANGUAGES, constructs
from benchmarks.fuzz.functions import DUCKDB, TEMPLATES, Language, Name, Writer
from benchmarks.fuzz.questions import random_question
from benchmarks.fuzz.sources import KINDS
from benchmarks.fuzz.tally import Tally, one_seed, rare
from benchmarks.fuzz.worlds import KINDS as KINDS_OF_TYPES
from benchmarks.fuzz.worlds import LAYOUTS, Shape, Table, World, random_shape, without
from discreet.catalog.schema import Range, Values
from discreet.errors import InternalError
from discreet.plan.query import Query
from discreet.plan.question import read_question
from discreet.privacy.unit import Relation
from discreet.query.dialects.dialect import as_duckdb
from discreet.query.dialects.prepared import prepare
from discreet.query.functions import FUNCTIONS

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures" / "fuzz").glob("*.json"))
SEEDS = (7001, 7003, 7005, 7006, 7008, 7010, 7011, 7012, 7013, 7014, 7016, 7017, 7020, 7021)


@pytest.fixture(scope="module")
def databases() -> Iterator[Databases]:
    found = Databases()
    yield found
    found.close()


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_breaks_on_random_questions_of_random_neighbours(seed: int, databases: Databases) -> None:
    answered = 0
    for i, case in enumerate(cases(seed, questions=9)):
        outcome = tried(databases, case, filled=i > 0)
        assert not outcome.broken, (case.sql, outcome.broken)
        answered += outcome.refusal is None
    assert answered >= 3


SOURCES = (8000, 8004, 8008, 8012, 8016, 8020, 8032, 8044, 8052, 8060, 8092, 8096)
"""A seed for each kind of source."""


@pytest.mark.thinned(3)
@pytest.mark.parametrize("seed", SOURCES)
def test_nothing_breaks_on_random_questions_of_files_and_frames_that_are_rewritten(
    seed: int, databases: Databases
) -> None:
    answered = 0
    for i, case in enumerate(cases(seed, questions=5)):
        assert case.shape.kind is not None
        outcome = tried(databases, case, filled=i > 0)
        assert not outcome.broken, (case.sql, outcome.broken)
        answered += outcome.refusal is None
    assert answered


def test_the_seeds_have_every_kind_of_source() -> None:
    assert {next(cases(seed, questions=1)).shape.kind for seed in SOURCES} == set(KINDS)
    assert next(cases(8001, questions=1)).shape.kind is None


def test_a_view_that_tells_the_spellings_of_one_id_apart_is_seen(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = next(t for layout in LAYOUTS for t in layout if t.unit is not None and t.columns[t.unit] == "t")
    shape = Shape((table,), {}, (1, 1, None), Relation.ADD_REMOVE, "csv")
    row = ["a" if k == "t" else None for k in table.columns.values()]
    world: World = {table.name: [(spelling, *row[1:]) for spelling in ("a", " a", "a ", "b")]}
    case = Case(shape, world, without(shape, world, "a"), f"SELECT COUNT(*) FROM {table.name}", Asked())
    assert len(case.second[table.name]) == 1
    assert tried(databases, case).broken == []
    monkeypatch.setattr("discreet.catalog.ids.trimmed", lambda text: text)
    monkeypatch.setattr("discreet.backends.duckdb.read_view", lambda _, __: case_types(table))
    assert "column 0 moves" in " ".join(tried(databases, replace(case, asked=Asked(derived=False))).broken)


def case_types(table: Table) -> dict[str, str]:
    return {n: KINDS_OF_TYPES[k].value for n, k in table.columns.items()}


@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: p.stem)
def test_what_broke_once_holds_now(path: Path, databases: Databases) -> None:
    case = load(path)
    assert not tried(databases, case).broken, case.sql


WIDE = Relation.ADD_REMOVE
SHAPE = Shape(
    LAYOUTS[0],
    {"customers": {"age": Range(0, 9, integer=True), "region": Values("a", "b")}},
    (1, 2, None),
    Relation.ADD_REMOVE,
)
ONE = (1, 1, "a", 9, "2024-02-29", True, 0.5)
WORLD: World = {"customers": [ONE, ONE, ONE], "orders": [], "items": [], "regions": []}


def asked(sql: str, **how: object) -> Case:
    return Case(SHAPE, WORLD, without(SHAPE, WORLD, 1), sql, replace(Asked(), **how))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sql", "broken", "instead", "says"),
    [
        ("SELECT SUM(age) FROM customers", "least(", "greatest(", "column 0 moves"),
        ("SELECT COUNT(*) FROM customers", "least(n, 2)", "n", "column 0 moves"),
        ("SELECT MEDIAN(age) FROM customers", "sum(w.w)", "9 * sum(w.w)", "of tree 0 moves"),
        ("SELECT COUNT(*) FROM customers", "SELECT ", "SELECT 1 / nothing, ", "the database failed"),
    ],
)
def test_a_broken_twin_is_seen(
    sql: str, broken: str, instead: str, says: str, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = asked(sql)
    assert tried(databases, case).broken == []
    read = Databases.read

    def twisted(self: Databases, text: str, secret: int | None, *, rehearse: bool = True) -> object:
        assert broken in text
        return read(self, text.replace(broken, instead), secret, rehearse=rehearse)

    monkeypatch.setattr(Databases, "read", twisted)
    assert says in " ".join(tried(databases, case).broken)


def test_a_plan_that_crashes_is_seen(databases: Databases, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> Query:
        raise KeyError("x")

    monkeypatch.setattr("benchmarks.fuzz.check.make_plan", crash)
    assert "planning crashed" in tried(databases, asked("SELECT COUNT(*) FROM customers")).broken[0]


def test_a_second_derivation_that_disagrees_is_seen_where_it_is_asked(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject(_: object) -> None:
        raise InternalError("no")

    monkeypatch.setattr("discreet.plan.planner.check", reject)
    sql = "SELECT COUNT(*) FROM customers"
    assert "two derivations disagree" in tried(databases, asked(sql)).broken[0]
    assert tried(databases, asked(sql, derived=False)).broken == []
    assert sum(case.asked.derived for case in cases(1)) == QUESTIONS // 20


def test_where_some_constructs_are_rare_other_questions_are_not_asked(tmp_path: Path) -> None:
    wanted = {"second derivation"}
    found = one_seed(7001, tmp_path, wanted)
    assert found.asked == found.seen["second derivation"] == QUESTIONS // 20
    assert one_seed(7001, tmp_path, {"no such construct"}).asked == 0


OWN = (*(t for found in DUCKDB.templates.values() for t in found), ("function case", "CASE WHEN"))
CAPITALS = re.compile(r"[A-Z_][A-Z_0-9]+(?: [A-Z_]{2,})*")


def standing(construct: str, language: Language) -> list[str]:
    """Regular expressions of which one fits any question that the construct stands in."""
    spellings = [t for c, t, *_ in (*OWN, *language.aggregates) if c == construct]
    for found in language.templates.values():
        spellings += [t for c, t in found if c == construct]
    if spellings:
        parts = ([p.strip(" ()") for p in re.split(r"\{\w\}", text)] for text in set(spellings))
        return [".*".join(re.escape(p) for p in found if p) for found in parts]
    kind, _, name = construct.partition(" ")
    if kind in (forms := {"window": r"\b{}\(", "framed": r"\b{}\(.*\b(ROWS|RANGE) ", "option": r"\b{} = "}):
        return [forms[kind].format(name)]
    words = CAPITALS.findall(construct)[:1]
    return [rf"\b{w if 'JOIN' in w else w.replace(' ', '.*')}\b" for w in words]


def test_constructs_are_counted_only_where_they_stand() -> None:
    tree_read: set[str] = set()
    for seed in range(60):
        rng = Random(seed)
        shape = random_shape(rng)
        for _ in range(30):
            question = random_question(rng, shape)
            for construct in question.constructs:
                wanted = standing(construct, LANGUAGES.get(question.dialect, DUCKDB))
                tree_read.update([construct] if wanted else [])
                fits = any(re.search(w, question.sql, re.DOTALL | re.IGNORECASE) for w in wanted)
                assert fits or not wanted, (construct, question.sql)
    assert len(tree_read) > 300


def test_neighbours_differ_in_more_than_the_order_of_their_rows() -> None:
    for seed in range(50):
        case = next(cases(seed))
        one, other = (
            {name: sorted(map(repr, rows)) for name, rows in world.items()} for world in (case.first, case.second)
        )
        assert one != other


def test_a_row_goes_with_the_last_of_its_owners() -> None:
    both = {**WORLD, "customers": [ONE, (1, 2, *ONE[2:])], "orders": [(5, 1, 0, None, None, 0.0, "new", True)]}
    (row,) = both["orders"]
    assert without(SHAPE, both, 1)["orders"] == [row], "customer 1 is two people's number"
    assert without(SHAPE, without(SHAPE, both, 1), 2)["orders"] == []


def test_a_case_is_the_same_after_it_was_written(tmp_path: Path) -> None:
    for seed in range(20):
        case = next(cases(seed))
        write(case, tmp_path / "case.json", why="a test")
        found = load(tmp_path / "case.json")
        assert (found.sql, found.asked, repr(found.shape)) == (case.sql, case.asked, repr(case.shape))
        assert repr((found.first, found.second)) == repr((case.first, case.second))


def test_the_grammar_spells_every_function() -> None:
    spelled = {name for templates in TEMPLATES.values() for name, _ in templates}
    assert spelled == set(FUNCTIONS)
    assert set(rare(Tally())) == {f"function {name}" for name in FUNCTIONS} | set(constructs())


@pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)
def test_every_spelling_of_another_database_is_read(language: Language) -> None:
    names = [
        Name(f"a.{c}", k, bounded=True) for c, k in (("x", "i"), ("v", "r"), ("day", "d"), ("at", "s"), ("note", "t"))
    ]
    shape = Shape(LAYOUTS[3], {"t": {"x": Range(-3, 8, integer=True), "v": Range(-5, 5)}}, (1, 2, None), WIDE)
    writer = Writer(Random(1), language)
    tables = shape.schemas()
    for kind, templates in language.templates.items():
        for construct, template in templates:
            text = f"SELECT COUNT(*) FROM t a WHERE ({writer.fill(template, kind, names, 0)}) IS NULL"
            assert len(read_question(as_duckdb(text, language.name, tables), tables).measures) == 1, construct
    for construct, template, kind in language.aggregates:
        text = template.replace("{x}", "a.x").replace("{v}", "a.v").replace("{u}", "a.v")
        asked = prepare(f"SELECT {writer.fill(text, kind, names, 0)} AS o FROM t a", language.name, tables)
        assert [name for name, _ in read_question(asked.text, tables).outer.columns] == ["o"], construct


def test_runs_add_up_and_never_ask_a_seed_again(tmp_path: Path) -> None:
    path = tmp_path / "fuzz.jsonl"
    assert record.next_seed(record.stretches(path)) == 0
    one = Tally(20, 15, 9, Counter({"a": 3}), Counter({"a": 4, "b": 1}), ["seed 0: x"], [], 1.5)
    other = Tally(40, 30, 11, Counter({"a": 2}), Counter({"a": 2}), [], [], 0.5)
    asked, later = record.Version("c", "g", "l"), record.Version("d", "g", "l")
    record.add(path, 0, 0, one, asked)
    record.add(path, 1, 2, other, later)
    found = record.stretches(path)
    assert record.next_seed(found) == 3
    assert [s.version for s in found] == [asked, later]
    both = record.total(found)
    assert (both.asked, both.answered, both.moved, both.seconds) == (60, 45, 20, 2.0)
    assert both.broken == ["seed 0: x"]
    assert (both.hits, both.seen) == ({"a": 5}, {"a": 6, "b": 1})
    record.add(path, 3, 4, other, asked)
    record.add(path, 5, 6, other, asked)
    lines = {s.version: s for s in record.stretches(path)}
    assert [lines[v].seeds for v in (asked, later)] == [((0, 0), (3, 6)), ((1, 2),)]
    assert (lines[asked].tally.asked, lines[asked].tally.hits) == (100, {"a": 7})
    assert path.read_text(encoding="utf-8").count("\n") == 2
    with record.alone(path), pytest.raises(BlockingIOError), record.alone(path):
        pass


def test_the_digest_of_code_changes_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n", encoding="utf-8")
    before = record.digest(tmp_path)
    assert record.digest(tmp_path) == before
    (tmp_path / "a.py").write_text("x = 2\n", encoding="utf-8")
    assert record.digest(tmp_path) != before


def test_a_process_that_dies_is_seen_and_the_next_seed_is_asked() -> None:
    found = list(asked_in_order(range(3, 5), os._exit, 1))
    assert [(seed, tally.asked) for seed, tally in found] == [(3, 0), (4, 0)]
    assert all("took the process down" in tally.broken[0] for _, tally in found)
