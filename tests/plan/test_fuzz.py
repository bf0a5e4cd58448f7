"""A slice of the fuzzer in benchmarks/fuzz: random questions of random neighbours, and the cases that failed once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.fuzz.cases import Case, cases, load, tried, write
from benchmarks.fuzz.check import Asked, Databases
from benchmarks.fuzz.tally import Tally, rare
from benchmarks.fuzz.worlds import LAYOUTS, Shape, World, without
from discreet.plan.functions import FUNCTIONS
from discreet.plan.plan import Plan
from discreet.plan.schema import Range, Values
from discreet.privacy.unit import Relation

FIXTURES = sorted((Path(__file__).parents[1] / "fixtures" / "fuzz").glob("*.json"))
SEEDS = (7001, 7003, 7005, 7006, 7008, 7010, 7011, 7012, 7013, 7014, 7016, 7017, 7020, 7021)


@pytest.fixture(scope="module")
def databases() -> Iterator[Databases]:
    found = Databases()
    yield found
    found.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_breaks_on_random_questions_of_random_neighbours(seed: int, databases: Databases) -> None:
    answered = 0
    for i, case in enumerate(cases(seed, questions=9)):
        outcome = tried(databases, case, filled=i > 0)
        assert not outcome.broken, (case.sql, outcome.broken)
        answered += outcome.refusal is None
    assert answered >= 3


@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: p.stem)
def test_what_broke_once_holds_now(path: Path, databases: Databases) -> None:
    case = load(path)
    assert not tried(databases, case).broken, case.sql


SHAPE = Shape(
    LAYOUTS[0],
    {"customers": {"age": Range(0, 9, integer=True), "region": Values("a", "b")}},
    (1, 2),
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
        ("SELECT MEDIAN(age) FROM customers", "sum(w.w)", "9 * sum(w.w)", "of spread 0 moves"),
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
    def crash(*_: object, **__: object) -> Plan:
        raise KeyError("x")

    monkeypatch.setattr("benchmarks.fuzz.check.make_plan", crash)
    assert "planning crashed" in tried(databases, asked("SELECT COUNT(*) FROM customers")).broken[0]


def test_a_row_goes_with_the_last_of_its_owners() -> None:
    both = {
        **WORLD,
        "customers": [ONE, (1, 2, *ONE[2:])],
        "orders": [(5, 1, 0, None, None, 0.0, "new", True)],
    }
    (row,) = both["orders"]
    assert without(SHAPE, both, 1)["orders"] == [row], "customer 1 is two people's number"
    assert without(SHAPE, without(SHAPE, both, 1), 2)["orders"] == []


def test_a_case_is_the_same_after_it_was_written(tmp_path: Path) -> None:
    for seed in range(20):
        case = next(cases(seed))
        write(case, tmp_path / "case.json", why="a test")
        found = load(tmp_path / "case.json")
        assert (found.sql, found.asked, found.shape) == (case.sql, case.asked, case.shape)
        assert repr((found.first, found.second)) == repr((case.first, case.second))


def test_the_grammar_spells_every_function() -> None:
    from benchmarks.fuzz.functions import TEMPLATES

    spelled = {name for templates in TEMPLATES.values() for name, _ in templates}
    assert spelled == set(FUNCTIONS)
    assert set(rare(Tally())) == {f"function {name}" for name in FUNCTIONS}
