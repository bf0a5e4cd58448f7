"""An analyst who knows SQL and pandas, on the American Community Survey and on New York's taxis."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import discreet as dp
from tests.journeys.walk import Journey

pytestmark = pytest.mark.system

FIRST = 'discreet sql "SELECT COUNT(*) AS n FROM survey" --epsilon 0.5'
BY_EDUCATION = "SELECT education, COUNT(*) AS n, AVG(income) AS income FROM survey GROUP BY education"
DECIDED = ("each_row = true", "budget = { epsilon = 3, delta = 1e-6 }")


def test_an_analyst_meets_one_refusal_before_the_first_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ana = Journey("analyst", tmp_path)
    monkeypatch.chdir(tmp_path)
    ana.run("discreet demo --save .")
    said = ana.run("discreet init survey.parquet")
    assert FIRST in said  # the line that a reader copies

    # The first try is the printed line, with the draft as it is. The refusal names both decisions and their lines.
    assert ana.run(FIRST) == ""
    for line in DECIDED:
        assert f"`{line}`" in ana.refusals[0]
        ana.edit("discreet.toml", (f"# {line}", line))
    assert re.search(r"\d", ana.run(FIRST))
    assert len(ana.refusals) == 1

    # Groups and means: the draft has a place for each column.
    assert ana.run(f'discreet sql "{BY_EDUCATION}" --epsilon 0.5') == ""
    assert "the bounds of 'income'" in ana.refusals[1]
    assert "the groups of 'education'" in ana.refusals[1]
    levels = '"no diploma", "high school", "some college", "bachelor", "graduate"'
    ana.edit(
        "discreet.toml",
        ("# columns.income = { range = [LOW, HIGH]", "columns.income = { range = [0, 200000]"),
        ('# columns.education = { values = ["A", "B"] }', f"columns.education = {{ values = [{levels}] }}"),
    )
    shown = json.loads(ana.run(f'discreet sql "{BY_EDUCATION}" --epsilon 0.5 --json'))
    assert len(shown["rows"]) == 5

    # The same result in pandas is free, and carries its intervals.
    with dp.connect("discreet.toml") as session:
        release = session.sql(BY_EDUCATION, epsilon=0.5)
        assert release.stored
        frame = release.to_pandas()
        assert list(frame.columns) == ["education", "n", "n_low", "n_high", "income", "income_low", "income_high"]
        assert session.remaining == dp.Budget(2, "1e-6")

    # Taxis: hours of the day and days of the week are groups without a declaration.
    assert "pickup" in ana.run("discreet tables trips.parquet")
    hours = 'discreet sql trips.parquet "SELECT hour(pickup) AS h, COUNT(*) AS n FROM trips GROUP BY h ORDER BY h"'
    taxis = "--each-row --budget 3 --ledger taxis.ledger --epsilon 0.5"
    assert len(ana.run(f"{hours} {taxis} --csv").splitlines()) == 1 + 24 + 1  # NULL is a group
    fares = 'discreet sql trips.parquet "SELECT dayname(pickup) AS d, AVG(fare) AS fare FROM trips GROUP BY d"'
    assert "Sunday" in ana.run(f"{fares} {taxis} --range fare=0:100")
    ana.end(most=2)
    assert "analyst: 2 refusals met" in capsys.readouterr().out
