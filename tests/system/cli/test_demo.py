from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from discreet import data
from discreet.backends.connection import open_database
from discreet.cli import demo
from tests.cli.conftest import Call


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_story_is_told_whole_in_seconds_and_leaves_nothing_behind(call: Call) -> None:
    start = time.process_time()
    result = call("demo")
    assert time.process_time() - start < 60
    assert (result.exit_code, result.stderr) == (0, "")
    for number, title in enumerate(("Ask", "People with many rows", "Attack", "Average", "What is left"), start=1):
        assert f"\n{number}. {title}" in result.stdout
    assert "7,841 − 7,840 = 1" in result.stdout
    assert "After 10 results at ε = 0.05" in result.stdout
    assert "1 result" in result.stdout
    assert re.search(r"demo-adults +13 +ε = 1 +ε = 0\n", result.stdout)
    assert list(Path().iterdir()) == []


def test_told_again_on_its_ledger_it_gives_the_same_answers_free(call: Call) -> None:
    first, again = (call("demo", "--ledger", "demo.ledger") for _ in range(2))
    assert first.exit_code == again.exit_code == 0
    table = re.compile(r" +workclass.*?\n\n", re.DOTALL)
    assert table.findall(first.stdout) == table.findall(again.stdout)
    accounts = json.loads(call("budget", "demo.ledger", "--json").stdout)["populations"]
    assert [(a["population"], a["spent"]["epsilon"], len(a["questions"])) for a in accounts] == [
        ("demo-adults", 1, 13),
        ("demo-patients", 1, 1),
    ]
    assert call("ledger", "verify", "demo.ledger").exit_code == 0


def test_the_target_is_one_person_and_so_is_her_colleague() -> None:

    with open_database() as database:
        database.execute(f"CREATE VIEW adult AS FROM '{data.adult()}'")
        counts = [database.execute(q).fetchall()[0][0] for q in (demo.EVERYONE, demo.all_but(59), demo.all_but(58))]
        rewordings = {database.execute(demo.reworded(i)).fetchall()[0][0] for i in range(20)}
    assert counts == [7_841, 7_840, 7_841]  # she earns more than $50,000, her colleague does not
    assert len(rewordings) == 1


def test_the_samples_are_saved_and_nothing_is_overwritten(call: Call) -> None:
    assert call("demo", "--save", "new/folder").exit_code == 0
    saved = Path("new/folder")
    assert {p.name: p.read_bytes() for p in saved.iterdir()} == {p.name: p.read_bytes() for p in data.tables()}
    for path in saved.iterdir():
        path.unlink()
    Path("new/folder/trips.parquet").write_text("mine")
    result = call("demo", "--save", "new/folder")
    assert result.exit_code == 4
    assert "exists already; nothing was copied" in result.stderr
    assert [(p.name, p.read_text()) for p in saved.iterdir()] == [("trips.parquet", "mine")]
