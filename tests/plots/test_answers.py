"""A release as a picture holds its rows and intervals, and nothing else."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet import plots
from discreet.engine.session import Session
from discreet.errors import InvalidParameter
from tests.plots.seen import marks, parts, rows, words

DAYS = [dt.date(2024, 1, 1) + dt.timedelta(days=i) for i in range(20)]
FRAME = pd.DataFrame(
    {
        "ward": ["a", "b", "b", "b"] * 50,
        "sex": ["f", "m"] * 100,
        "age": [20.0, 40.0, 41.0, 42.0] * 50,
        "day": [DAYS[i % 20] for i in range(200)],
        "wealth": [123456789.0] * 200,
        "k": pd.array([0, 1, None, 2**53 + 1] * 50, dtype="Int64"),
        "hour": [i % 20 for i in range(200)],
        "ward_code": [10 + i % 20 for i in range(200)],
        "odd": [1 + 2 * (i % 10) for i in range(200)],
        "visit": [dt.date(2024, 1 + i % 12, 1 + i % 20) for i in range(200)],
        "at": [dt.datetime(2024, 1, 1, i % 20) for i in range(200)],
        "week": [f"2024-W{1 + i % 20:02d}-1" for i in range(200)],
        "code": ["NULL", None, "x", "y"] * 50,
    }
)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    columns: dict[str, Any] = {
        "ward": dp.Values("a", "b"),
        "sex": dp.Values("f", "m"),
        "age": dp.Range(0, 100),
        "day": dp.Values(*DAYS),
        "wealth": dp.Range(0, 10**9),
        "k": dp.Values(0, 1, None, 2**53 + 1, 2**53),
        "hour": dp.Range(0, 19, integer=True),
        "ward_code": dp.Values(*range(10, 30)),
        "at": dp.Values(*[dt.datetime(2024, 1, 1, i) for i in range(20)]),
        "week": dp.Values(*[f"2024-W{1 + i:02d}-1" for i in range(20)]),
        "code": dp.Values("NULL", None, "x", "y"),
    }
    budget = dp.Budget(10**7, "0.1", per_query=10**5)
    with dp.connect(
        {"t": FRAME}, unit=dp.PrivacyUnit.row(), columns=columns, budget=budget, ledger=":memory:"
    ) as opened:
        yield opened


def ask(session: Session, sql: str, epsilon: float = 1000) -> dp.Release:
    return session.sql(sql, epsilon=epsilon)


def test_one_key_and_two_measures_are_two_panels_with_the_releases_numbers(session: Session) -> None:
    release = ask(session, "SELECT ward, COUNT(*) AS n, AVG(age) AS age FROM t GROUP BY ward ORDER BY ward")
    chart = plots.release(release, confidence="0.9")
    held = rows(chart, "k0", "v0", "v1")
    assert [(r["k0"], r["v0"], r["v1"]) for r in held] == [(w, float(n), a) for w, n, a in release.rows]
    for j, name in enumerate(("n", "age")):
        assert [(r[f"l{j}"], r[f"h{j}"]) for r in held] == release.interval(name, confidence="0.9")
    assert all(r.keys() == {"k0", "v0", "l0", "h0", "v1", "l1", "h1"} for r in held)
    assert len(next(parts(chart))["hconcat"]) == 2
    assert "n, age by ward | 90 % intervals; private at ε = 1000" in words(chart)


def test_a_picture_of_a_stored_release_says_when_it_was_drawn(session: Session) -> None:
    first, again = (ask(session, "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex", 999) for _ in range(2))
    assert again.stored and str(again.drawn) in words(plots.release(again))
    assert "drawn" not in words(plots.release(first))


def test_numbers_that_are_null_leave_an_axis_with_ends_and_are_said(session: Session, tmp_path: Path) -> None:
    sql = "SELECT sex, COUNT(*) AS n, LN(COUNT(*) - 1000) AS l FROM t GROUP BY sex"
    for asked in (sql, "SELECT LN(COUNT(*) - 1000) AS l FROM t"):
        chart = plots.release(ask(session, asked))
        assert "where there is no number, it is NULL, perhaps by its noise" in words(chart)
        plots.save(chart, tmp_path / "null.svg")
        assert "Infinity" not in (tmp_path / "null.svg").read_text(encoding="utf-8")
    assert "perhaps by its noise" not in words(plots.release(ask(session, "SELECT COUNT(*) AS n FROM t")))


def test_bars_start_at_zero_and_points_need_not(session: Session) -> None:
    counts = plots.release(ask(session, "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward"))
    assert "bar" in marks(counts)  # 50 and 150
    ages = plots.release(ask(session, "SELECT ward, AVG(age) + 100 AS age FROM t GROUP BY ward"))
    assert "bar" not in marks(ages) and "point" in marks(ages)
    assert {p["encoding"]["x"]["scale"]["zero"] for p in parts(counts) if "mark" in p} == {True}
    assert {p["encoding"]["x"]["scale"]["zero"] for p in parts(ages) if "mark" in p} == {False}


def test_a_second_key_is_a_colour(session: Session) -> None:
    chart = plots.release(ask(session, "SELECT ward, sex, COUNT(*) AS n FROM t GROUP BY ward, sex"))
    (domain,) = {
        tuple(p["encoding"]["color"]["scale"]["domain"])
        for p in parts(chart)
        if "scale" in p.get("encoding", {}).get("color", {})
    }
    assert set(domain) in ({"a", "b"}, {"f", "m"})


def test_dates_are_a_line_with_a_band(session: Session) -> None:
    release = ask(session, "SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY day")
    chart = plots.release(release)
    assert marks(chart) == ["area", "line", "point"]
    assert [r["k0"] for r in rows(chart, "k0")] == [d.isoformat() for d in DAYS]


def test_one_number_is_a_point_with_its_interval(session: Session) -> None:
    release = ask(session, "SELECT COUNT(*) AS n FROM t")
    (row,) = rows(plots.release(release), "v0")
    assert (row["v0"], (row["l0"], row["h0"])) == (release.rows[0][0], release.interval("n")[0])


def test_the_ends_of_an_interval_are_no_keys(session: Session) -> None:
    sql = "SELECT ward, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low FROM t GROUP BY ward"
    held = rows(plots.release(ask(session, sql)), "k0")
    assert all(r.keys() == {"k0", "v0", "l0", "h0"} for r in held)


def test_files_hold_nothing_but_the_release(session: Session, tmp_path: Path) -> None:
    release = ask(session, "SELECT ward, COUNT(*) AS n FROM t WHERE wealth > 5 GROUP BY ward")
    chart = plots.release(release)
    plots.save(chart, tmp_path / "n.svg")
    for text in ((tmp_path / "n.svg").read_text(encoding="utf-8"), chart.to_json()):
        assert "123456789" not in text and "wealth" not in text


def test_what_no_picture_has_room_for_is_refused(session: Session) -> None:
    three = ask(session, "SELECT ward, sex, day, COUNT(*) AS n FROM t GROUP BY ward, sex, day")
    with pytest.raises(InvalidParameter, match="up to two columns"):
        plots.release(three)
    many = ask(session, "SELECT day, day AS again, COUNT(*) AS n FROM t GROUP BY day")
    with pytest.raises(InvalidParameter, match="up to 7 values"):
        plots.release(many)
    with pytest.raises(InvalidParameter, match="made of a release"):
        plots.release([1, 2])  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="no rows"):
        plots.release(ask(session, "SELECT ward, COUNT(*) AS n FROM t GROUP BY ward HAVING COUNT(*) > 1000000"))


def test_several_panels_of_dates_and_of_accounts_can_each_be_zoomed(session: Session) -> None:
    release = ask(session, "SELECT day, COUNT(*) AS n, AVG(age) AS age FROM t GROUP BY day ORDER BY day")
    names = [p["name"] for p in plots.release(release).to_dict()["params"]]
    assert names == ["zoom0", "zoom1"]


def test_a_number_that_is_a_key_is_no_measure(session: Session) -> None:
    release = ask(session, "SELECT hour, COUNT(*) AS n FROM t GROUP BY hour ORDER BY hour")
    chart = plots.release(release)
    assert marks(chart) == ["area", "line", "point"] and "n by hour" in words(chart)
    assert [r["k0"] for r in rows(chart, "k0")] == list(range(20))
    half = plots.release(ask(session, "SELECT hour * 2 AS twice, COUNT(*) AS n FROM t GROUP BY hour"))
    assert "n by twice" in words(half)


def test_numbers_beside_null_are_names_and_none_is_rounded(session: Session, tmp_path: Path) -> None:
    chart = plots.release(ask(session, "SELECT k, COUNT(*) AS n FROM t GROUP BY k"))
    plots.save(chart, tmp_path / "k.svg")
    assert {r["k0"] for r in rows(chart, "k0")} == {"0", "1", "NULL", "9007199254740992", "9007199254740993"}


def test_a_text_null_is_not_the_group_of_what_is_absent(session: Session) -> None:
    chart = plots.release(ask(session, "SELECT code, COUNT(*) AS n FROM t GROUP BY code"))
    assert len({r["k0"] for r in rows(chart, "k0")}) == 4


def test_a_time_is_one_of_utc_wherever_it_is_drawn(session: Session) -> None:
    chart = plots.release(ask(session, "SELECT at, COUNT(*) AS n FROM t GROUP BY at ORDER BY at"))
    assert [r["k0"] for r in rows(chart, "k0")] == [f"2024-01-01T{i:02d}:00:00Z" for i in range(20)]


def test_only_what_every_reader_takes_for_a_date_is_one(session: Session) -> None:
    assert "line" not in marks(plots.release(ask(session, "SELECT week, COUNT(*) AS n FROM t GROUP BY week")))


def test_rows_that_a_picture_would_not_tell_apart_are_refused(session: Session) -> None:
    for sql in ("SELECT COUNT(*) AS n FROM t GROUP BY ward", "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex, hour"):
        with pytest.raises(InvalidParameter, match="same name"):
            plots.release(ask(session, sql))


def test_a_number_whose_interval_has_no_bounds_is_said_to_have_none(session: Session) -> None:
    unbounded = ask(session, "SELECT ward, 1 / (COUNT(*) - 50.5) AS x FROM t GROUP BY ward", epsilon=0.1)
    assert "it has no bounds" in words(plots.release(unbounded, confidence="0.9999999999"))
    bounded = ask(session, "SELECT ward, COUNT(*) AS x FROM t GROUP BY ward")
    assert "it has no bounds" not in words(plots.release(bounded))


def test_a_column_cannot_make_a_tooltip_fetch_a_picture(session: Session) -> None:
    chart = plots.release(ask(session, 'SELECT ward AS image, COUNT(*) AS "title" FROM t GROUP BY ward'))
    told = {t["title"] for p in parts(chart) for t in p.get("encoding", {}).get("tooltip", [])}
    assert len(told) == 4 and not told & {"image", "title"}


def test_a_line_ends_where_keys_are_missing_and_the_notes_stand_below_the_title(session: Session) -> None:
    sql = "SELECT hour, COUNT(*) AS n FROM t GROUP BY hour HAVING hour NOT IN (5, 6, 9, 11) ORDER BY hour"
    chart = plots.release(ask(session, sql))
    assert marks(chart) == ["rule", "area", "line", "point"]  # 10 is alone: its interval is a rule
    every = max(chart.to_dict()["datasets"].values(), key=len)
    run = {r["k0"]: r["run"] for r in every}
    found = [[h for h in run if run[h] == i] for i in dict.fromkeys(run.values())]
    assert found == [[0, 1, 2, 3, 4], [7, 8], [10], list(range(12, 20))]
    assert "In no group: rows in which 'hour' is NULL or undeclared." in words(chart)


def test_declared_codes_and_bins_are_bars(session: Session) -> None:
    for key in ("ward_code", "width_bucket(hour, 0, 20, 20)", "hour // 1"):
        chart = plots.release(ask(session, f"SELECT {key} AS k, SUM(age * age) AS n FROM t GROUP BY 1"))
        assert not {"line", "area"} & set(marks(chart)), key


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("key", "runs"), [("odd", 10), ("date_trunc('month', visit)", 1), ("visit", 60), ("hour + 0", None)]
)
def test_no_line_crosses_a_group_that_may_be_missing(session: Session, key: str, runs: int | None) -> None:
    """Of odd numbers the even ones between them are missing; months follow each other, and the days are apart."""
    release = session.sql(f"SELECT {key} AS k, COUNT(*) AS n FROM t GROUP BY 1", epsilon=1000, delta="1e-6")
    drawn = parts(plots.release(release))
    found = {r["run"] for p in drawn for rows in p.get("datasets", {}).values() for r in rows if "run" in r}
    assert len(found) == (0 if runs is None else runs)


def test_a_result_of_results_is_drawn_with_what_is_known_of_it(session: Session) -> None:
    counts = "WITH r AS (SELECT ward, COUNT(*) AS n FROM t GROUP BY ward) "
    asked = counts + "SELECT ward AS w, n, n * 2 AS m, n > 9 AS many, RANK() OVER (ORDER BY n) AS k FROM r"
    release = session.sql(asked, epsilon=1)
    found = rows(plots.release(release), "v1")
    assert [(row["k0"], row["v0"], row["v1"]) for row in found] == [row[:3] for row in release.rows]
    assert [(row["l1"], row["h1"]) for row in found] == release.interval("m")
    assert all(set(row) <= {"k0", *(f"{end}{i}" for end in "vlh" for i in range(3))} for row in found)
    days = (
        "WITH r AS (SELECT day, COUNT(*) AS n FROM t GROUP BY day) SELECT day AS d, n FROM r WHERE day <> '2024-01-05'"
    )
    assert {row["run"] for row in rows(plots.release(session.sql(days, epsilon=1)), "run")} == {0, 1}  # a gap


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ("ward, CASE WHEN n > 9 THEN 'x' END AS c", "no number with an interval"),
        ("n", "several rows of the release have the same name"),
        ("ward, upper(ward), ward || 'x', n", "not by 3"),
        ("ward, n FROM r WHERE ward = 'z' --", "no rows"),
    ],
)
def test_a_result_of_results_without_a_picture_says_why(session: Session, columns: str, why: str) -> None:
    counts = "WITH r AS (SELECT ward, COUNT(*) AS n FROM t GROUP BY ward) "
    release = session.sql(f"{counts}SELECT {columns} FROM r", epsilon=1)
    with pytest.raises(InvalidParameter, match=why):
        plots.release(release)
    plan = session.plan(f"{counts}SELECT {columns} FROM r", epsilon=1)
    for draw in (plots.choice, plots.error):
        with pytest.raises(InvalidParameter, match="SQL over results"):
            draw(plan)
