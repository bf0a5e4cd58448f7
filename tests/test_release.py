"""What leaves, looked at in every way: rows, intervals, frames, text, HTML; and stored and read again."""

from __future__ import annotations

import copy
import datetime as dt
import gc
import json
import math
import pickle
from itertools import pairwise
from types import FunctionType, ModuleType
from typing import Any

import pandas as pd
import polars as pl
import pytest

import discreet as dp
from discreet.cli.answers import measured_json
from discreet.engine.release import Release
from discreet.engine.session import Session
from discreet.errors import DiscreetError, InvalidParameter, UnknownColumn, UnsupportedQuery
from discreet.post.noisy_table import NoisyTable

EVIL = '<script>alert(1)</script>\x1b[31m\u202e"; DROP TABLE data; --'
FRAME = pd.DataFrame(
    {
        "uid": range(8),
        "x": [0.0, 1, 2, 3, 4, 4, 4, 4],
        "ward": ["a", "a", "b", "b", EVIL, None, "elsewhere", "a"],
        "ok": [True, False, None, True, False, True, None, True],
        "day": [dt.date(2024, 1, d) for d in range(1, 9)],
        "n": [2**62, -(2**62), 0, 1, 2, 3, 4, 5],
    }
)
FACTS: dict[str, Any] = {
    "x": dp.Range(0, 4),
    "ward": dp.Values("a", "b", EVIL, None),
    "ok": dp.Values(True, False, None),
    "day": dp.Values(dt.date(2024, 1, 2), dt.date(2024, 1, 1)),
}


@pytest.fixture(scope="module")
def session() -> Any:
    budget = dp.Budget(10**9, "0.9", per_query=10**6)
    with dp.connect(FRAME, unit=dp.PrivacyUnit.row(), columns=FACTS, budget=budget, ledger=":memory:") as opened:
        yield opened


def ask(session: Session, sql: str, **asked: Any) -> Release:
    return session.sql(sql, **{"epsilon": 10_000, "delta": "1e-3", **asked})


def every_view(release: Release) -> None:
    """Looks at a release in every way; nothing of it may fail, and all of it agrees."""
    width, height = len(release.columns), len(release.rows)
    assert all(len(row) == width for row in release.rows)
    assert str(release) == repr(release)
    assert release._repr_html_().count("<tr") == min(height, 60) + 1
    assert (len(release), list(release), release[:]) == (height, release.rows, release.rows)
    for beside in (True, False):
        columns = release.to_dict(intervals=beside)
        frames = (getattr(release, f"to_{kind}")(intervals=beside) for kind in ("arrow", "polars", "pandas"))
        arrow, polars, pandas = frames
        assert (arrow.num_columns, arrow.num_rows) == polars.shape[::-1] == pandas.shape[::-1] == (len(columns), height)
        assert list(arrow.column_names) == polars.columns == list(pandas.columns) == list(columns)
        assert [list(row) for row in json.loads(release.to_json(intervals=beside))] == [list(columns)] * height
    assert list(columns) == release.columns
    for i, name in enumerate(release.columns):
        intervals = release.interval(name)
        assert len(intervals) == height
        for row, interval in zip(release.rows, intervals, strict=True):
            if interval is not None and isinstance(row[i], int | float):
                value = float(row[i])  # of which the ends may be the next floats
                assert math.nextafter(interval[0], -math.inf) <= value <= math.nextafter(interval[1], math.inf)
    assert release.explain() and release.citations() and release.notes is not None
    assert NoisyTable.from_json(json.loads(json.dumps(release.table.to_json()))) == release.table


QUESTIONS = [
    "SELECT COUNT(*) AS n FROM data",
    "SELECT ward, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m FROM data GROUP BY ward",
    "SELECT ward, ok, day, COUNT(x) AS n FROM data GROUP BY ward, ok, day ORDER BY n DESC, ward LIMIT 3 OFFSET 1",
    "SELECT ok, COUNT(*) AS n FROM data GROUP BY ok ORDER BY ok DESC NULLS FIRST",
    "SELECT day, COUNT(*) AS n FROM data GROUP BY day ORDER BY day",
    "SELECT date_trunc('month', day) AS m, YEAR(day) AS y, COUNT(*) AS n FROM data GROUP BY day",
    "SELECT lower(ward) AS w, COUNT(*) AS n FROM data GROUP BY lower(ward) HAVING n > 0.5",
    "SELECT uid, COUNT(*) AS n FROM data GROUP BY uid",
    "SELECT x, COUNT(*) AS n FROM data GROUP BY x HAVING COUNT(*) < 0",
    "SELECT ward || 'x' AS k, COUNT(*) > 1 AS t, COUNT(*) / 0 AS z, COUNT(*)::VARCHAR AS v FROM data GROUP BY ward",
    "SELECT NULL AS z, 'x' AS t, 1 AS o, 1.5 AS p, TRUE AS b, COUNT(*) AS n FROM data",
    "SELECT exp(exp(COUNT(*))) AS e, sqrt(-COUNT(*)) AS q, ln(0 * COUNT(*)) AS l, COUNT(*) // 0 AS d FROM data",
    "SELECT COUNT(*) * 9223372036854775807 * 9223372036854775807 AS n FROM data",
    "SELECT COUNT(*) AS n FROM data WHERE NULL",
    "SELECT COUNT(*) AS n FROM data HAVING NULL",
    "SELECT CASE WHEN COUNT(*) > 3 THEN 'many' ELSE 'few' END AS c, COUNT(*) % 3 AS r, -SUM(x) AS s FROM data",
    'SELECT COUNT(*) AS "<b>\x1b[31m", SUM(x) AS "a;b", AVG(x) AS """" FROM data',
]


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.thinned(4)
@pytest.mark.parametrize("sql", QUESTIONS)
@pytest.mark.parametrize("epsilon", ["1e-6", "1e-3", 1, 10_000])
def test_a_release_can_be_looked_at_in_every_way(sql: str, epsilon: Any, session: Session) -> None:
    every_view(ask(session, sql, epsilon=epsilon, delta="1e-4"))


@pytest.mark.parametrize("sql", QUESTIONS)
def test_a_stored_release_is_the_release(sql: str, session: Session) -> None:
    first, again = ask(session, sql, epsilon=3), ask(session, sql, epsilon=3)
    assert again.stored and again.charged.epsilon == 0
    assert (first.rows, first.columns, first.notes) == (again.rows, again.columns, again.notes)
    for name in first.columns:
        assert first.interval(name) == again.interval(name)
    assert "free" in str(again)


def test_gaussian_noise_and_reports_are_looked_at_alike() -> None:
    unit = dp.PrivacyUnit("uid", max_groups=1, max_rows=1)
    with dp.connect(FRAME, unit=unit, columns=FACTS, budget=dp.Budget(100, "0.1"), ledger=":memory:") as session:
        sql = "SELECT ward, COUNT(*) AS n, AVG(x) AS m FROM data GROUP BY ward"
        release = ask(session, sql, epsilon=5, delta="1e-3", noise="gaussian", truncation="0.1")
        every_view(release)
        assert any("units have rows in more than 1 groups" in note for note in release.notes)


def test_nothing_of_a_cell_reaches_a_terminal_or_a_page_as_a_command(session: Session) -> None:
    release = ask(session, "SELECT ward, COUNT(*) AS n FROM data GROUP BY ward")
    assert release.rows[2][0] == EVIL  # the value itself is the declared one
    shown = str(release) + release._repr_html_()
    assert "\x1b" not in shown and "\u202e" not in shown
    assert "<script>" not in release._repr_html_()


def test_rows_come_in_an_order_that_follows_the_keys_alone() -> None:
    """The same people, in other orders: the answer's rows are in the same order."""
    orders = set()
    for seed in range(5):
        shuffled = FRAME.sample(frac=1, random_state=seed).reset_index(drop=True)
        with dp.connect(
            pd.concat([shuffled] * 50),
            unit=dp.PrivacyUnit.row(),
            columns={"ok": FACTS["ok"]},
            budget=dp.Budget(2000, "0.1", per_query=1000),
            ledger=":memory:",
        ) as session:
            declared = [r[0] for r in ask(session, "SELECT ok, COUNT(*) AS n FROM data GROUP BY ok", epsilon=900).rows]
            private = [r[0] for r in ask(session, "SELECT uid, COUNT(*) AS n FROM data GROUP BY uid", epsilon=900).rows]
            orders.add((tuple(declared), tuple(private)))
    assert orders == {((True, False, None), tuple(range(8)))}


def test_declared_groups_are_all_there_whatever_the_data_holds(session: Session) -> None:
    sql = "SELECT ward, day, COUNT(*) AS n, AVG(x) AS m FROM data WHERE x > 100 GROUP BY ward, day"
    release = ask(session, sql)
    assert [r[:2] for r in release.rows] == [(w, d) for w in FACTS["ward"].values for d in FACTS["day"].values]
    assert all(abs(n) <= 1 and 0 <= m <= 4 for *_, n, m in release.rows)


def test_where_values_are_null_they_come_last_unless_said(session: Session) -> None:
    def order(clause: str) -> list[Any]:
        return [r[0] for r in ask(session, f"SELECT ok, COUNT(*) AS n FROM data GROUP BY ok {clause}").rows]

    assert order("ORDER BY ok") == [False, True, None]
    assert order("ORDER BY ok DESC") == [True, False, None]
    assert order("ORDER BY ok NULLS FIRST") == [None, False, True]
    assert order("ORDER BY 1 DESC NULLS FIRST") == [None, True, False]


def test_limit_and_offset_cut_the_noisy_table(session: Session) -> None:
    sql = "SELECT ok, COUNT(*) AS n FROM data GROUP BY ok"
    every = ask(session, sql).rows
    for limit, offset in ((0, 0), (1, 0), (2, 1), (10, 2), (10, 99)):
        release = ask(session, f"{sql} LIMIT {limit} OFFSET {offset}")
        assert release.rows == every[offset : offset + limit]
        assert release.stored  # the measurement is the same


def test_a_column_that_is_not_there_and_a_confidence_that_is_none_are_refused(session: Session) -> None:
    release = ask(session, "SELECT COUNT(*) AS n FROM data")
    with pytest.raises(UnknownColumn, match="no column 'm'") as caught:
        release.interval("m")
    assert "n" in caught.value.hint
    for level in (0, 1, -1, 2, float("nan"), "x", None):
        with pytest.raises(InvalidParameter, match="confidence"):
            release.interval("n", level)  # type: ignore[arg-type]  # that is the test


def test_wider_confidence_gives_wider_intervals(session: Session) -> None:
    # With so little noise that no count comes near 0, where an average is anything in its bounds at any level.
    release = ask(
        session, "SELECT COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m, SUM(x) / COUNT(*) AS r FROM data", epsilon=100
    )
    for name in release.columns:
        widths = []
        for level in ("0.5", "0.9", "0.99", "0.999999"):
            (interval,) = release.interval(name, level)
            assert interval is not None
            widths.append(interval[1] - interval[0])
        assert all(a <= b or math.isinf(b) for a, b in pairwise(widths))


def test_numbers_that_arrow_cannot_hold_become_floats(session: Session) -> None:
    release = ask(session, "SELECT COUNT(*) * 9223372036854775807 AS n, COUNT(*) AS m FROM data")
    assert release.rows[0][0] > 1 << 64  # eight rows, and hardly any noise
    assert [str(field.type) for field in release.to_arrow(intervals=False).schema] == ["double", "int64"]


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "made",
    [
        "COUNT(*) + 1e308 * 10",
        "COUNT(*) - 1e308 - 1e308",
        "COUNT(*) * 1e308",
        "COUNT(*) * 1e200 * 1e200",
        "COUNT(*) / 1e-308",
        "COUNT(*) / (1e-200 * 1e-200)",
        "-(SUM(x) * 1e308)",
        "ROUND(SUM(x) * 1e307)",
        "COUNT(*) * 1e308 / 1e308",
        "AVG(x) * 1e308 * 10",
        "SQRT(COUNT(*)) * 1e308",
    ],
)
def test_numbers_beyond_what_doubles_hold_are_null_and_can_be_looked_at(session: Session, made: str) -> None:
    for of_group in ("", "ward, "):
        by = " GROUP BY ward" if of_group else ""
        release = ask(session, f"SELECT {of_group}{made} AS n FROM data{by}")
        every_view(release)
        every_view(release.nonnegative())
        assert "1e308 *" not in made or "+" not in made or {row[-1] for row in release.rows} == {None}


def test_a_stored_release_says_when_it_was_drawn_and_how_to_ask_for_new_data() -> None:
    budget = dp.Budget(10, "0.1")
    with dp.connect(
        FRAME, unit=dp.PrivacyUnit.row(), columns=FACTS, budget=budget, ledger=":memory:", version="2024-05"
    ) as session:
        first, again = (session.sql("SELECT COUNT(*) AS n FROM data", epsilon=1) for _ in range(2))
        (charge,) = [e for e in session.history() if e.kind == "charge"]
        assert first.drawn is not None and first.drawn == again.drawn
        assert (first.drawn.time, first.drawn.version) == (charge.time, "2024-05")
        said = f"drawn {charge.time[:10]} {charge.time[11:19]} UTC, version '2024-05'; fresh=True draws again"
        assert said in str(again) and "fresh=True" in again._repr_html_() and "drawn" not in str(first)
        assert again.to_pandas().attrs["drawn"] == str(first.drawn)


def test_values_that_their_margin_of_error_reaches_are_marked_everywhere(session: Session) -> None:
    plan = session.plan("SELECT COUNT(*) AS n FROM data", epsilon="0.1")
    most = round(plan.error("n"))
    drowned, clear = (Release(plan, NoisyTable(((),), ((n,),))) for n in (-most, most + 1))
    assert drowned.uncertain("n") == [True] and clear.uncertain("n") == [False]
    legend = "* The margin of error is at least as large as the value."
    assert legend in str(drowned) and legend in drowned._repr_html_() and "*" not in str(clear)
    assert drowned.to_pandas().attrs["uncertain"] == {"n": [True]}
    assert clear.to_pandas().attrs == {"notes": list(clear.notes), "drawn": None, "uncertain": {}}


def test_a_number_that_noise_may_have_made_null_is_marked_everywhere(session: Session) -> None:
    sql = "SELECT SQRT(COUNT(*) - 1e6) AS n, CASE WHEN COUNT(*) > 1e6 THEN AVG(x) END AS x FROM data"
    release = ask(session, sql)
    assert release.rows == [(None, None)] and release.uncertain("n") == release.uncertain("x") == [True]
    for view in (str(release), release._repr_html_()):
        assert view.count("NULL ± ∞*") == 2 and "* The margin of error is at least as large" in view
    assert measured_json(release, 0.95)["uncertain"] == {"n": [True], "x": [True]}
    assert release.to_pandas().attrs["uncertain"] == {"n": [True], "x": [True]}


def test_rows_columns_and_the_one_cell_are_had_as_from_a_list(session: Session) -> None:
    release = ask(session, "SELECT ok, COUNT(*) AS n FROM data GROUP BY ok")
    assert list(release) == release.rows and release[0] == release.rows[0] and release[-1] == release.rows[2]
    assert release["n"] == [n for _, n in release.rows] and release[1:] == release.rows[1:]
    with pytest.raises(UnknownColumn, match="no column 'm'"):
        release["m"]
    with pytest.raises(IndexError):
        release[3]
    with pytest.raises(InvalidParameter, match="3 rows and 2 columns"):
        release.value  # noqa: B018  # reading it is the test
    one = ask(session, "SELECT COUNT(*) AS n FROM data")
    assert one.value == one.rows[0][0] == one["n"][0]
    assert ask(session, "SELECT ok, COUNT(*) AS n FROM data GROUP BY ok LIMIT 0")  # it is a result, though it is empty


def test_frames_have_both_ends_beside_each_noisy_column(session: Session) -> None:
    sql = "SELECT ok, COUNT(*) AS n, 7 AS seven, COUNT(*) > 1 AS some, HISTOGRAM(x, [2]) AS h FROM data GROUP BY ok"
    release = ask(session, sql)
    names = ["ok", "n", "n_low", "n_high", "seven", "some", "h", "h_low", "h_high"]
    assert list(release.to_dict()) == list(release.to_pandas().columns) == names
    assert list(zip(release.to_dict()["n_low"], release.to_dict()["n_high"], strict=True)) == release.interval("n")
    (row, *_) = json.loads(release.to_json())
    assert row["n_low"] <= row["n"] <= row["n_high"] and row["h_low"].keys() == row["h"].keys()
    assert release.to_dict(intervals=False) == {name: release[name] for name in release.columns}
    assert pl.DataFrame(release).equals(pl.DataFrame(release.to_arrow()))  # by the stream


def test_names_that_frames_would_have_twice_are_refused_at_planning(session: Session) -> None:
    for other in ("1 AS n_low", "ok AS N_High", "DP_INTERVAL_LOW(n) AS n_high", "DP_INTERVAL_LOW(m) AS n_low"):
        sql = f"SELECT ok AS k, COUNT(*) AS n, SUM(x) AS m, {other} FROM data GROUP BY ok"
        with pytest.raises(UnsupportedQuery, match="the name of an end of the interval of 'n'"):
            session.plan(sql, epsilon=1)
    release = ask(session, "SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS n_low, 1 AS m_low, 2 AS m FROM data")
    assert list(release.to_dict()) == ["n", "n_high", "n_low", "m_low", "m"]
    assert release["n_low"] == [low for low, _ in release.interval("n")]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
def test_copies_show_the_same_and_reach_no_ledger_or_source(session: Session, copied: Any) -> None:
    release = ask(session, "SELECT ward, COUNT(*) AS n, MEDIAN(x) AS m FROM data GROUP BY ward")
    again = copied(release)
    assert (str(again), again.explain(), again.rows) == (str(release), release.explain(), release.rows)
    assert again.to_dict() == release.to_dict() and again.nonnegative().rows == release.nonnegative().rows
    with pytest.raises(InvalidParameter, match="certificate"):
        again.certificate()
    homes = ("discreet.ledger", "discreet.backends", "discreet.noise.entropy", "discreet.engine.session", "sqlglot")
    assert not [found for found in held_by(again) if type(found).__module__.startswith(homes)]
    assert [found for found in held_by(release) if type(found).__module__.startswith(homes)]  # it would be seen


def held_by(value: Any) -> list[Any]:
    """Every object that an object holds, of classes and modules nothing, of functions what they close over."""
    found: dict[int, Any] = {id(value): value}
    waiting = [value]
    while waiting:
        held = waiting.pop()
        near = [held.__closure__, held.__defaults__] if isinstance(held, FunctionType) else gc.get_referents(held)
        fresh = [o for o in near if id(o) not in found and not isinstance(o, type | ModuleType)]
        found |= {id(o): o for o in fresh}
        waiting += fresh
    return [*found.values()]


def test_a_notebook_shows_the_query_what_remains_and_greys_noise(session: Session) -> None:
    release = ask(session, "SELECT ok, COUNT(*) AS n FROM data WHERE x < 4 GROUP BY ok")
    page = release._repr_html_()
    assert "Remaining: ε = " in page and "<pre>SELECT ok, COUNT(*) AS n FROM data WHERE x &lt; 4 GROUP BY ok" in page
    plan = session.plan("SELECT ok, COUNT(*) AS n, COUNT(*) + 1e6 AS m FROM data GROUP BY ok", epsilon="0.1")
    rows = Release(plan, NoisyTable(((True,), (False,), (None,)), ((1000,), (1,), (1,))))
    assert rows._repr_html_().count("opacity:0.5") == 0  # of two numbers one is noise: not most of the row
    plan = session.plan("SELECT ok, COUNT(*) AS n FROM data GROUP BY ok", epsilon="0.1")
    rows = Release(plan, NoisyTable(((True,), (False,), (None,)), ((1000,), (1,), (1,))))
    assert rows._repr_html_().count('<tr style="opacity:0.5">') == 2


def test_a_notebook_shows_an_error_as_its_sentence_and_hint(session: Session) -> None:
    with pytest.raises(DiscreetError) as caught:
        session.plan("SELECT COUNT(*) AS n FROM nowhere", epsilon=1)
    kind, hint = caught.value._render_traceback_()
    assert kind.startswith("UnknownColumn: ") and hint.startswith("Hint: ")
