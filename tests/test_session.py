"""The front door: what connecting refuses, what asking charges, and what a failure leaves behind."""

from __future__ import annotations

import os
import pickle
import sqlite3
import subprocess
import sys
import threading
import traceback
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet import accounting
from discreet.engine.cells import exact_cells
from discreet.engine.session import Session
from discreet.errors import (
    BackendFailed,
    BudgetExceeded,
    DiscreetError,
    InternalError,
    InvalidParameter,
    LedgerCorrupt,
    LedgerError,
    MissingBounds,
    PlanError,
    UnknownColumn,
)
from tests.written import written

FRAME = pd.DataFrame(
    {"uid": [1, 1, 2, 3], "ward": ["SECRET-a", "b", "b", "SECRET-c"], "cost": [1.0, 2.0, 3.0, 123456789.0]}
)
UNIT = dp.PrivacyUnit("uid", max_groups=2, max_rows=2)
FACTS: dict[str, Any] = {"cost": dp.Range(0, 10)}
COUNT = "SELECT COUNT(*) AS n FROM data"


def opened(source: Any = FRAME, **options: Any) -> Session:
    said: dict[str, Any] = {"unit": UNIT, "columns": FACTS, "budget": dp.Budget(10, "1e-2"), "ledger": ":memory:"}
    return dp.connect(source, **{**said, **options})


def state(session: Session) -> tuple[Any, int]:
    return session.remaining, len(session.history())


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"unit": "uid"}, MissingBounds, "is missing: how many groups one 'uid' may enter"),
        ({"unit": dp.PrivacyUnit("uid")}, MissingBounds, "is missing: how many groups one 'uid' may enter"),
        ({"unit": dp.PrivacyUnit("uid", max_groups=3)}, MissingBounds, "how many rows one .uid. may add to each"),
        ({"unit": "row"}, UnknownColumn, "PrivacyUnit.row\\(\\) where each row is one person"),
        ({"unit": dp.PrivacyUnit("id", max_groups=1, max_rows=1)}, UnknownColumn, "unit's column 'id'"),
        ({"unit": None, "budget": None}, MissingBounds, "2 public facts are missing: who is protected; the privacy"),
        ({"unit": 5}, InvalidParameter, "unit must be a PrivacyUnit"),
        ({"unit": dp.PrivacyUnit}, InvalidParameter, "unit must be a PrivacyUnit"),
        ({"columns": {"costs": dp.Range(0, 1)}}, UnknownColumn, "declared of 'costs'"),
        ({"columns": {"other.cost": dp.Range(0, 1)}}, UnknownColumn, "declared of 'other.cost'"),
        ({"columns": {"cost": (0, 10)}}, InvalidParameter, "must be a Range or Values"),
        ({"columns": {"cost": None}}, InvalidParameter, "must be a Range or Values"),
        ({"columns": [("cost", dp.Range(0, 1))]}, InvalidParameter, "columns must be a dict"),
        ({"columns": {5: dp.Range(0, 1)}}, UnknownColumn, "declared of 5"),
        ({"budget": None}, MissingBounds, "the privacy budget of"),
        ({"budget": 3}, InvalidParameter, "budget must be a Budget"),
        ({"budget": "3"}, InvalidParameter, "budget must be a Budget"),
        ({"population": ""}, InvalidParameter, "population"),
        ({"population": 5}, InvalidParameter, "population"),
        ({"population": "a\0"}, InvalidParameter, "population"),
        ({"population": "x" * 1001}, InvalidParameter, "population"),
        ({"version": ""}, InvalidParameter, "version"),
        ({"version": 2024}, InvalidParameter, "version"),
        ({"relation": "swap"}, InvalidParameter, "relation must be"),
        ({"relation": 5}, InvalidParameter, "relation must be"),
        ({"filter": "best"}, InvalidParameter, "filter"),
        ({"filter": 5}, InvalidParameter, "filter"),
        ({"ledger": 5}, InvalidParameter, "ledger must be a path"),
        ({"ledger": b"x"}, InvalidParameter, "ledger must be a path"),
        ({"ledger": ""}, LedgerError, "path of a file"),
        ({"ledger": "a\0b"}, LedgerError, "path of a file"),
        ({"names": ["a"]}, InvalidParameter, "names= is for CSV files"),
    ],
    ids=str,
)
def test_connecting_says_what_is_wrong(options: dict[str, Any], kind: type[DiscreetError], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        opened(**options)
    assert "\n" not in caught.value.message


def test_several_tables_need_the_name_of_their_population() -> None:
    with pytest.raises(InvalidParameter, match="Several tables"):
        opened({"a": FRAME, "b": FRAME})
    with opened({"a": FRAME, "b": FRAME.rename(columns={"cost": "price"})}, columns={"a.cost": dp.Range(0, 10)},
                population="people") as session:  # fmt: skip
        assert session.tables == ["a", "b"]
        session.sql("SELECT SUM(cost) FROM a", epsilon=1)
        with pytest.raises(MissingBounds):
            session.sql("SELECT SUM(price) FROM b", epsilon=1)
        with pytest.raises(UnknownColumn, match="no table 'c'"):
            session.sql("SELECT COUNT(*) FROM c", epsilon=1)
        assert session.remaining.epsilon == 9


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "x", "", None, True, [1], "1/0", 1e-400])
def test_an_epsilon_that_is_none_costs_nothing(value: Any) -> None:
    with opened() as session:
        before = state(session)
        with pytest.raises(InvalidParameter, match="epsilon"):
            session.sql(COUNT, epsilon=value)
        with pytest.raises(InvalidParameter, match="delta"):
            session.sql(COUNT, epsilon=1, delta=1 if value in (0, 1e-400, "1e-7", "1e-399") else value)
        assert state(session) == before


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("epsilon", "delta", "kind"),
    [
        (11, 0, BudgetExceeded),
        ("10.0000000001", 0, BudgetExceeded),
        (Fraction(10) + Fraction(1, 10**30), 0, BudgetExceeded),
        (1, "0.011", BudgetExceeded),
        (21, 0, InvalidParameter),
        (1e20, 0, InvalidParameter),
        ("9" * 300, 0, InvalidParameter),
    ],
)
def test_what_the_account_cannot_pay_is_refused_and_costs_nothing(
    epsilon: Any, delta: Any, kind: type[DiscreetError]
) -> None:
    with opened() as session:
        before = state(session)
        with pytest.raises(kind) as caught:
            session.sql(
                "SELECT uid % 9, COUNT(*) AS n FROM data GROUP BY uid % 9" if delta else COUNT,
                epsilon=epsilon,
                delta=delta,
            )
        assert caught.value.hint
        assert state(session) == before
        session.sql(COUNT, epsilon=10)  # to the last digit
        assert session.remaining.epsilon == 0


@pytest.mark.exhaustive
@pytest.mark.sampled(10)
@pytest.mark.thinned(4)
@pytest.mark.parametrize("epsilon", ["1e-6", "1e-3", 1, 100])
@pytest.mark.parametrize("delta", ["0", "1e-300", "1e-12", "0.01"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_at_the_ends_of_what_may_be_asked_a_question_is_answered_or_refused(
    epsilon: Any, delta: Any, noise: str
) -> None:
    unit = dp.PrivacyUnit("uid", max_groups=2**31, max_rows=2**31)
    budget = dp.Budget(1000, "0.5", per_query=1000)
    with opened(unit=unit, columns={"cost": dp.Range(0, 2**20)}, budget=budget) as session:
        for sql in (
            "SELECT SUM(cost) AS s FROM data",
            "SELECT ward, COUNT(*) AS n, AVG(cost) AS m FROM data GROUP BY ward",
        ):
            before = state(session)
            try:
                plan = session.plan(sql, epsilon=epsilon, delta=delta, noise=noise, truncation="0.5")
                assert str(plan) and plan.explain()
                assert str(session.sql(sql, epsilon=epsilon, delta=delta, noise=noise, truncation="0.5"))
            except (PlanError, InvalidParameter):
                assert state(session) == before


def test_a_refused_question_costs_nothing_and_is_in_no_history() -> None:
    with opened() as session:
        before = state(session)
        for sql in ("", "SELECT * FROM data", "SELECT COUNT(*) FROM x", "SELECT SUM(uid) FROM data", "DROP TABLE data"):
            with pytest.raises(PlanError):
                session.sql(sql, epsilon=1)
            with pytest.raises(PlanError):
                session.plan(sql, epsilon=1)
        assert state(session) == before


def test_the_same_question_is_free_and_a_fresh_one_is_charged() -> None:
    with opened() as session:
        first = session.sql(COUNT, epsilon=1)
        again = session.sql("select count( * ) as m from DATA d", epsilon="1.0")
        assert (first.rows, again.rows) == (again.rows, first.rows) and again.stored
        assert session.remaining.epsilon == 9
        fresh = session.sql(COUNT, epsilon=1, fresh=True)
        assert not fresh.stored and session.remaining.epsilon == 8
        assert session.sql(COUNT, epsilon=1).rows == fresh.rows  # the last one


def test_a_version_label_makes_an_old_answer_a_new_question(tmp_path: Path) -> None:
    for version, left in ((None, 9), (None, 9), ("2024-01", 8), ("2024-02", 7), ("2024-01", 7), (None, 7)):
        with opened(ledger=tmp_path / "ledger", version=version) as session:
            session.sql(COUNT, epsilon=1)
            assert session.remaining.epsilon == left


def test_an_account_keeps_the_terms_it_was_opened_with(tmp_path: Path) -> None:
    written(opened(ledger=tmp_path / "ledger", population="p")).close()
    for options in (
        {"budget": dp.Budget(11, "1e-2")},
        {"budget": dp.Budget(10)},
        {"relation": "replace"},
        {"filter": "zcdp"},
        {"unit": dp.PrivacyUnit.row()},
        {"unit": dp.PrivacyUnit("cost", max_groups=1, max_rows=1)},
    ):
        with pytest.raises(InvalidParameter) as caught:
            opened(ledger=tmp_path / "ledger", population="p", **options)
        assert caught.value.hint
    with opened(ledger=tmp_path / "ledger", population="p", budget=None) as session:
        assert session.budget == dp.Budget(10, "1e-2")
    looser = dp.PrivacyUnit("uid", max_groups=9, max_rows=9)
    with opened(ledger=tmp_path / "ledger", population="p", unit=looser) as session:
        session.sql(COUNT, epsilon=1)  # caps are a question's own, and another question's


def test_spellings_of_a_population_that_look_the_same_share_a_budget(tmp_path: Path) -> None:
    with opened(ledger=tmp_path / "ledger", population="caf\u00e9") as session:
        session.sql(COUNT, epsilon=4)
    with opened(ledger=tmp_path / "ledger", population="cafe\u0301") as session:
        assert session.remaining.epsilon == 6


def test_connecting_without_a_ledger_says_where_spending_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with opened(ledger=None) as session:
        assert "spending is kept in ./discreet.ledger" in capsys.readouterr().err
        session.sql(COUNT, epsilon=1)
    assert (tmp_path / "discreet.ledger").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes what it wants")
def test_a_ledger_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    opened(ledger=tmp_path / "ledger").close()
    (tmp_path / "ledger").chmod(0o400)
    with pytest.raises(LedgerError):
        opened(ledger=tmp_path / "ledger")


@pytest.mark.parametrize("content", [b"", b"hello", b"SQLite format 3\0" + bytes(5000)])
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "ledger").write_bytes(content)
    with pytest.raises(LedgerError) as caught:
        opened(ledger=tmp_path / "ledger")
    assert caught.value.hint
    assert (tmp_path / "ledger").read_bytes() == content
    with pytest.raises(LedgerError):
        opened(ledger=tmp_path)  # a folder


def test_a_ledger_that_was_changed_by_hand_answers_nothing_more(tmp_path: Path) -> None:
    with opened(ledger=tmp_path / "ledger") as session:
        session.sql(COUNT, epsilon=1)
        with sqlite3.connect(tmp_path / "ledger") as ledger:
            ledger.execute("UPDATE state SET value = replace(value, '\"1/1\"', '\"1/2\"') WHERE name LIKE 'tally/%'")
        ledger.close()
        with pytest.raises(LedgerCorrupt):
            session.sql("SELECT COUNT(uid) AS n FROM data", epsilon=1)
    with pytest.raises(LedgerCorrupt), opened(ledger=tmp_path / "ledger") as session:
        session.sql("SELECT COUNT(cost) AS n FROM data", epsilon=1)


class Unlucky:
    """A backend whose database fails at its nth question."""

    def __init__(self, inner: Any, error: BaseException) -> None:
        self._inner, self._error = inner, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def rows(self, sql: str, parameters: Any) -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (BackendFailed("It failed."), BackendFailed),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (MemoryError("a cell"), InternalError),
    ],
)
def test_whatever_stops_a_question_after_the_charge_the_charge_stands_and_the_next_one_is_answered(
    error: BaseException, shown: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened() as session:
        healthy = session._desk.backend
        monkeypatch.setattr(session._desk, "backend", Unlucky(healthy, error))
        for left in (9, 8):  # nothing was stored, so that asking again is charged again
            with pytest.raises(shown) as failed:
                session.sql(COUNT, epsilon=1)
            assert "cell" not in str(failed.value)
            assert failed.value.__context__ is None
            assert session.remaining.epsilon == left
        monkeypatch.setattr(session._desk, "backend", healthy)
        assert len(session.sql(COUNT, epsilon=1).rows) == 1
        assert session.remaining.epsilon == 7


KILLED = """
import os
import discreet as dp
from discreet import accounting
from discreet.mechanisms.additive import DiscreteLaplaceNoise

session = dp.connect("data.csv", unit=dp.PrivacyUnit.row(), budget=dp.Budget(5), ledger="ledger")
{where}
session.sql("SELECT COUNT(*) AS n FROM data", epsilon=1)
"""
BETWEEN = {
    "before the charge": ("type(session._account).charge = lambda *a, **k: os._exit(9)", 5),
    "between charge and reading": ("session._desk.backend.rows = lambda *a: os._exit(9)", 4),
    "between reading and noise": ("DiscreteLaplaceNoise.add = lambda *a: os._exit(9)", 4),
    "before the release is stored": ("type(session._account).store = lambda *a: os._exit(9)", 4),
}


@pytest.mark.system
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("where", "left"), BETWEEN.values(), ids=list(BETWEEN))
def test_a_process_that_is_killed_in_the_middle_gets_nothing_back(where: str, left: int, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("uid\n1\n2\n")
    code = KILLED.format(where=where)
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 9
    assert (tmp_path / "ledger").exists() == (left < 5)
    budget = None if left < 5 else dp.Budget(5)
    options: dict[str, Any] = {"unit": dp.PrivacyUnit.row(), "columns": {}, "budget": budget}
    with opened(tmp_path / "data.csv", ledger=tmp_path / "ledger", **options) as session:
        assert session.remaining.epsilon == left
        assert not session.sql(COUNT, epsilon=1).stored  # what was lost is asked again, and paid again


def test_threads_that_ask_one_question_share_its_answer_and_others_do_not_wait_for_it() -> None:
    found: list[Any] = []

    def ask(i: int) -> None:
        try:
            found.append((session.sql(COUNT, epsilon=1).rows, session.sql(f"{COUNT} WHERE uid > {i}", epsilon=1).rows))
        except DiscreetError as error:
            found.append(error)

    with opened() as session:
        threads = [threading.Thread(target=ask, args=(i % 4,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({str(rows) for rows, _ in found}) == 1
        assert session.remaining.epsilon == 10 - 5


def test_threads_never_spend_more_than_there_is() -> None:
    outcomes: list[Any] = []

    def ask(i: int) -> None:
        try:
            session.sql(f"{COUNT} WHERE uid > {i}", epsilon=1)
            outcomes.append("paid")
        except BudgetExceeded:
            outcomes.append("refused")

    with opened(budget=dp.Budget(3)) as session:
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["paid"] * 3 + ["refused"] * 7
        assert session.remaining.epsilon == 0


def test_nothing_private_is_in_what_a_session_shows_of_itself(tmp_path: Path) -> None:
    """The cells of FRAME hold a mark, and so does the ledger's secret key; neither is anywhere but in released keys."""
    with opened(ledger=tmp_path / "ledger") as session:
        sql = "SELECT ward, COUNT(*) AS n, SUM(cost) AS s FROM data WHERE cost < 5 GROUP BY ward"
        plan = session.plan(sql, epsilon=1, delta="1e-9")
        release = session.sql(sql, epsilon=1, delta="1e-9")
        assert release.rows == []  # three people are too few to be shown
        errors = []
        for bad in ("SELECT SUM(ward) FROM data", "SELECT cst FROM data", "SELECT * FROM data"):
            with pytest.raises(PlanError) as caught:
                session.sql(bad, epsilon=1)
            errors.append("".join(traceback.format_exception(caught.value)))
        shown = [repr(session), repr(plan), str(plan), plan.explain(), repr(release), release.explain(), *errors]
        shown += [repr(entry) for entry in session.history()] + [repr(session.spent), repr(session._account), plan.sql]
        secret = session._account.secret.hex()
    for text in shown:
        assert "SECRET" not in text and "123456789" not in text
        assert secret not in text and str(int(secret[:16], 16)) not in text
    with sqlite3.connect(tmp_path / "ledger") as ledger:
        entries = str(ledger.execute("SELECT * FROM entry").fetchall())
    ledger.close()
    assert "SECRET" not in entries and "123456789" not in entries and secret not in entries


def test_a_session_is_not_pickled() -> None:
    with opened() as session, pytest.raises(TypeError):
        pickle.dumps(session)


def test_a_plan_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened() as session, monkeypatch.context() as patch:
        patch.setattr(session._desk, "backend", None)
        plan = session.plan("SELECT ward, AVG(cost) AS m FROM data GROUP BY ward", epsilon=1, delta="1e-6")
        assert str(plan) and plan.explain() and plan.cost.epsilon(Fraction(1, 10**6))
        assert session.remaining.epsilon == 10


# One row that somebody has, and the clean twin of the table without it.
NASTY_ROWS: list[dict[str, Any]] = [
    {"i": 2**63 - 1},
    {"i": -(2**63)},
    {"i": 0},
    {"r": 1e308},
    {"r": -1.7976931348623157e308},
    {"r": float("nan")},
    {"r": float("inf")},
    {"r": 5e-324},
    {"r": 0.0},
    {"t": "abc"},
    {"t": ""},
    {"t": "9" * 400},
    {"t": "2020-02-30"},
    {"t": "infinity"},
    {"t": "294247-01-10"},
    {"t": "%_\\"},
    {"t": "x" * 200_000},
    {"t": "a\0b"},
    {"t": "🦊\u202e\ufeff"},
    {"d": pd.Timestamp("1677-09-22")},
    {"d": pd.Timestamp("2262-04-11")},
    {"i": None, "r": None, "t": None, "d": None, "b": None},
]
ATTACKS = [
    "SELECT SUM(greatest(0, least(1, 1 // i))) AS a, AVG(greatest(0, least(1, 1 / i))) AS b FROM t",
    "SELECT COUNT(i * i * i) AS a, COUNT(-i) AS b, COUNT(abs(i)) AS c, COUNT(i % (i - 5)) AS d FROM t",
    "SELECT COUNT(i // -1) AS a, COUNT(i - i) AS b, COUNT(i + 9223372036854775807) AS c FROM t",
    "SELECT COUNT(r * r) AS a, COUNT(sqrt(r)) AS b, COUNT(ln(r)) AS c, COUNT(exp(r)) AS d, COUNT(r / r) AS e FROM t",
    "SELECT COUNT(round(r, i)) AS a, COUNT(power(r, i)) AS b, COUNT(log10(-r)) AS c, COUNT(floor(r) % 3) AS d FROM t",
    "SELECT COUNT(CAST(t AS BIGINT)) AS a, COUNT(CAST(t AS DATE)) AS b, COUNT(CAST(t AS BOOLEAN)) AS c FROM t",
    "SELECT COUNT(CAST(r AS BIGINT)) AS a, COUNT(t + 1) AS b, COUNT(year(t)) AS c, COUNT(t::TIMESTAMP) AS d FROM t",
    "SELECT COUNT(substring(t, i, i)) AS a, COUNT(t || t || t) AS b, COUNT(upper(t)) AS c FROM t",
    "SELECT COUNT(*) AS a FROM t WHERE t LIKE t OR t LIKE '%a%b%c%d%e%f%g%_%h' OR t ILIKE t || '%' OR contains(t, t)",
    "SELECT COUNT(*) AS a FROM t WHERE 1 / (r - 5) > 0 AND sqrt(-i) > 0 AND CAST(t AS DATE) > '2020-01-01'",
    "SELECT COUNT(date_trunc('week', d)) AS a, COUNT(dayofyear(d)) AS b FROM t WHERE d::DATE < '2100-01-01'",
    "SELECT r, COUNT(*) AS a FROM t GROUP BY r",
    "SELECT t, COUNT(*) AS a FROM t GROUP BY t ORDER BY t",
    "SELECT d, date_trunc('year', d) AS y, COUNT(*) AS a FROM t GROUP BY d, date_trunc('year', d) ORDER BY 1",
    "SELECT CAST(t AS DATE) AS k, COUNT(*) AS a FROM t GROUP BY k HAVING year(k) > 0",
    "SELECT i // 2 AS k, SUM(least(greatest(r, 0), 1)) AS a, AVG(least(greatest(i, 0), 1)) AS b FROM t GROUP BY k",
    "SELECT b, SUM(least(1, greatest(0, CASE WHEN b THEN 1 // i ELSE i * i END))) AS a FROM t GROUP BY b",
]


def nasty_frames() -> list[pd.DataFrame]:
    """The clean table, and its neighbours with one row more each."""
    normal = {"uid": 9, "i": 1, "r": 1.0, "t": "x", "b": True, "d": pd.Timestamp("2020-01-01")}
    rows = [
        {"uid": 1, "i": 1, "r": 1.0, "t": "1", "b": True, "d": pd.Timestamp("2020-01-01")},
        {"uid": 1, "i": 2, "r": 2.0, "t": "2020-01-01", "b": False, "d": pd.Timestamp("2021-01-01")},
        {"uid": 2, "i": 3, "r": 3.0, "t": "x", "b": None, "d": None},
    ]
    types: dict[str, Any] = {
        "uid": "int64",
        "i": "Int64",
        "r": "float64",
        "t": object,
        "b": "boolean",
        "d": "datetime64[us]",
    }
    clean = pd.DataFrame(rows).astype(types)
    more = [pd.DataFrame([{**normal, **row}]).astype(types) for row in NASTY_ROWS]
    return [clean, *(pd.concat([clean, row], ignore_index=True) for row in more)]


@pytest.fixture(scope="module")
def twins() -> Any:
    options: dict[str, Any] = {"unit": dp.PrivacyUnit.row(), "columns": {}, "budget": dp.Budget(1000, "0.5")}
    sessions = [opened({"t": frame}, **options) for frame in nasty_frames()]
    yield sessions
    for session in sessions:
        session.close()


@pytest.mark.exhaustive
@pytest.mark.thinned(3)
@pytest.mark.parametrize("sql", ATTACKS)
def test_no_row_of_anybody_makes_a_question_fail_or_changes_what_is_said(sql: str, twins: list[Session]) -> None:
    said = set()
    for session in twins:
        release = session.sql(sql, epsilon=5, delta="1e-4")
        assert str(release)  # with intervals
        said.add((tuple(release.columns), tuple(release.notes), release.explain(), release.plan.sql, release.charged))
    assert len(said) == 1


@pytest.fixture(scope="module")
def many_rows_each() -> Any:
    options: dict[str, Any] = {"unit": dp.PrivacyUnit("uid", max_groups=1, max_rows=2), "columns": {}}
    sessions = [opened({"t": frame}, **options) for frame in nasty_frames()]
    yield sessions
    for session in sessions:
        session.close()


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("sql", ATTACKS)
def test_nor_where_a_person_has_many_rows_and_moves_no_number_by_more_than_the_caps(
    sql: str, many_rows_each: list[Session]
) -> None:
    plan = many_rows_each[0].plan(sql, epsilon=1, delta="1e-6").query
    key = {"secret": 7} if plan.needs_secret else {}  # neighbours have one secret key
    databases = [session._desk.backend for session in many_rows_each]
    clean, *others = [exact_cells(plan, partial(one.rows, parameters=key)) for one in databases]
    nothing = [0] * len(next(iter(clean.values())))
    for cells in others:
        keys = [*cells, *(k for k in clean if k not in cells)]
        moves = [[a - b for a, b in zip(cells.get(k, nothing), clean.get(k, nothing), strict=True)] for k in keys]
        assert sum(any(move) for move in moves) <= 1  # max_groups
        for i, sensitivity in enumerate(plan.sensitivities):
            assert sum(abs(move[i]) for move in moves) <= sensitivity.l1


def test_an_account_may_be_kept_within_the_curve_of_a_reference() -> None:
    session = opened(filter="renyi-curve", curve=accounting.gaussian(noise_multiplier=1))
    session.sql(COUNT, epsilon=0.1)
    with pytest.raises(BudgetExceeded, match="renyi-curve"):
        session.sql("SELECT COUNT(*) AS n FROM data WHERE cost > 1", epsilon=8)
    with pytest.raises(InvalidParameter, match="curve"):
        opened(filter="zcdp", curve=accounting.gaussian(noise_multiplier=1))
    with pytest.raises(InvalidParameter, match="curve"):
        opened(filter="renyi-curve")
