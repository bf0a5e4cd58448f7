"""Answers that hold several values, and dates, on the command line: as a table, as CSV and as JSON."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import re
from pathlib import Path

import pytest

from discreet.cli.options import RangeOf
from discreet.errors import InvalidParameter
from tests.cli.conftest import Call

ASKED = [
    "sql",
    "adult.parquet",
    "SELECT HISTOGRAM(sex) AS h, QUANTILE_CONT(age, [0.25, 0.5]) AS q, APPROX_TOP_K(sex, 1) AS k FROM adult",
    "--each-row",
    *("--range", "age=17:90", "--values", "sex=Female,Male", "--epsilon", "0.5"),
]
MALE = 21_790  # counted exactly, with DuckDB alone


def test_lists_and_maps_are_json_in_json_and_in_csv(samples: Path, call: Call) -> None:
    answer = json.loads(call(*ASKED, "--budget", "3", "--json").stdout)
    ((h, q, k),) = answer["rows"]
    ends = {name: found[0] for name, found in answer["intervals"].items()}
    low, high = ends["h"]["Male"]
    assert list(h) == ["Female", "Male"] and low <= h["Male"] <= high
    assert abs(h["Male"] - MALE) < 4 * (high - low)  # 8 half-widths: below 1e-10 for Laplace noise
    assert all(low <= x <= high for x, (low, high) in zip(q, ends["q"], strict=True))
    assert k == ["Male"] and ends["k"] == [None]
    (line,) = csv.DictReader(io.StringIO(call(*ASKED, "--csv").stdout))
    assert list(line) == ["h", "h_low", "h_high", "q", "q_low", "q_high", "k"]
    assert json.loads(line["h"]) == h and json.loads(line["q"]) == q and json.loads(line["k"]) == k
    assert json.loads(line["h_low"])["Male"] == low and json.loads(line["q_high"])[1] == ends["q"][1][1]


def test_the_table_shows_each_value_with_its_own_interval(samples: Path, call: Call) -> None:
    text = call(*ASKED, "--budget", "3").stdout
    assert "{Female=" in text and "[Male]" in text and text.count(" ± ") >= 2


def test_a_plan_says_how_exact_each_count_will_be(samples: Path, call: Call) -> None:
    plan = json.loads(call("plan", *ASKED[1:], "--json").stdout)
    assert 0 < plan["errors"]["h"] < 100 and plan["errors"]["q"] is None


DATES = "".join(f"2024-{1 + i % 6:02}-15,{i}\n" for i in range(600))


def test_dates_of_a_text_file_are_declared_and_shown_as_dates(samples: Path, call: Call) -> None:
    Path("visits.csv").write_text("day,n\n" + DATES)
    asked = [
        *("sql", "visits.csv", "SELECT MIN(day) AS first, MEDIAN(day) AS middle FROM visits", "--each-row"),
        *("--range", "day=2024-01-01:2024-12-31", "--epsilon", "2"),
    ]
    answer = json.loads(call(*asked, "--budget", "3", "--json").stdout)
    for value, (low, high) in zip(answer["rows"][0], (found[0] for found in answer["intervals"].values()), strict=True):
        assert dt.date.fromisoformat(low) <= dt.date.fromisoformat(value) <= dt.date.fromisoformat(high)
    assert "2024-" in call(*asked).stdout and " to 2024-" in call(*asked).stdout
    (line,) = csv.DictReader(io.StringIO(call(*asked, "--csv").stdout))
    assert [line["middle"], line["middle_low"]] == [answer["rows"][0][1], answer["intervals"]["middle"][0][0]]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("day=2020-01-01:2026-01-01", dt.date(2020, 1, 1), dt.date(2026, 1, 1)),
        ("t=2020-01-01 10:30:2026-01-01", dt.datetime(2020, 1, 1, 10, 30), dt.date(2026, 1, 1)),
        ("t=2020-01-01T10:30:15:2020-01-01T11:00", dt.datetime(2020, 1, 1, 10, 30, 15), dt.datetime(2020, 1, 1, 11)),
    ],
)
def test_a_range_of_dates_is_read(text: str, low: dt.date, high: dt.date) -> None:
    assert RangeOf().convert(text, None, None) == (text.partition("=")[0], low, high, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("day=2020-13-01:2026-01-01", "a bound of --range day is no date or time: 2020-13-01."),
        ("=2020-01-01:2026-01-01", "--range '=2020-01-01:2026-01-01' does not have the form COLUMN=LOW:HIGH."),
    ],
)
def test_what_is_no_range_of_dates_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        RangeOf().convert(text, None, None)
    assert caught.value.message == message and caught.value.hint


@pytest.mark.parametrize("asked", ["MEDIAN(n) AS m", "MEDIAN(n) AS m, MAX(n) AS most"])
def test_a_plan_says_how_far_off_a_quantile_s_rank_is(samples: Path, call: Call, asked: str) -> None:
    Path("visits.csv").write_text("day,n\n" + DATES)
    known = ["--each-row", "--range", "n=0:1000", "--epsilon", "2"]
    lines = call("plan", "visits.csv", f"SELECT {asked} FROM visits", *known).stdout.splitlines()
    [m] = [line for line in lines if line.startswith("m ")]
    assert re.search(r"its rank is off by [1-9][0-9.]* rows or less at 95 %$", m.rstrip())
    assert not any("rank" in line for line in lines if line.startswith("most "))
