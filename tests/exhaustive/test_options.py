"""Every option with every other: a query is refused with nothing charged, or it is charged and answers entirely.

Cases are drawn by a fixed seed so that each pair of values of two options occurs, with few other values that are not
the default: a refusal that one option causes would hide what the others do.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pytest

import discreet as dp
from discreet import accounting
from discreet.cli.answers import as_table, csv_of
from discreet.engine.meter import Meter
from discreet.engine.release import Release
from discreet.engine.session import Session
from discreet.errors import DiscreetError, InternalError, InvalidParameter
from discreet.ledger.account import Account
from discreet.ledger.ledger import Ledger
from discreet.ledger.places import is_there
from discreet.verify.certificate.checker import check, words

Case: TypeAlias = dict[str, Any]
QUERIES = {
    "count": "SELECT COUNT(*) AS n FROM t",
    "sum": "SELECT SUM(x) AS s, COUNT(x) AS n FROM t",
    "average": "SELECT AVG(x) AS a FROM t WHERE g <> 'c'",
    "undeclared range": "SELECT SUM(y) AS s FROM t",
    "variance": "SELECT STDDEV(x) AS s FROM t",
    "median": "SELECT MEDIAN(x) AS m FROM t",
    "shares": "SELECT QUANTILE_CONT(x, [0.25, 0.75]) AS q FROM t",
    "extremes": "SELECT MIN(x) AS low, MAX(x) AS high FROM t",
    "mode": "SELECT MODE(g) AS m FROM t",
    "units": "SELECT COUNT(DISTINCT id) AS n FROM t",
    "distinct": "SELECT COUNT(DISTINCT g) AS n FROM t",
    "declared keys": "SELECT g, COUNT(*) AS n FROM t GROUP BY g",
    "selected keys": "SELECT h, COUNT(*) AS n FROM t GROUP BY h",
    "ordered": "SELECT g, SUM(x) AS s FROM t GROUP BY g HAVING SUM(x) > 10 ORDER BY s DESC LIMIT 2",
    "totals": "SELECT g, COUNT(*) AS n FROM t GROUP BY ROLLUP (g)",
    "join": "SELECT label, COUNT(*) AS n FROM t JOIN p USING (g) GROUP BY label",
    "expression": "SELECT SUM(CASE WHEN x > 5 THEN x ELSE 0 END) / COUNT(*) AS r FROM t",
    "steps": "WITH s AS (SELECT g, x + 1 AS z FROM t WHERE x > 1) SELECT SUM(least(z, 9)) AS s FROM s",
    "each unit": "SELECT id, COUNT(*) AS n FROM t GROUP BY id",
}

OPTIONS: dict[str, tuple[Any, ...]] = {
    "query": tuple(QUERIES),
    "how": ("sql", "batch", "error", "plan", "fresh"),
    "units": ("id", "row", "linked", "both"),
    "store": (":memory:", "file"),
    "people": (None, "each", "each and all"),
    "analysts": (None, "together", "apart"),
    "filter": ("basic", "zcdp", "gdp", "renyi", "renyi-curve"),
    "relation": (None, "replace"),
    "chosen": (None, "auto", "values"),
    "lock": (None, "opened", "unopened"),
    "version": (None, "May"),
    "epsilon": ("1/2", None, "3/2", 7),
    "delta": ("1e-6", 0),
    "noise": (None, "laplace", "gaussian"),
    "truncation": (0, "1/4"),
    "bounds": (None, "auto", "values"),
    "dialect": ("duckdb", "postgres", "bigquery", "snowflake", "spark"),
}
"""The first value of each is the default."""

FRAME = pd.DataFrame(
    {
        "id": [i % 60 for i in range(180)],
        "doctor": [i % 7 for i in range(180)],
        "g": ["abc"[i % 3] for i in range(180)],
        "h": ["de"[i % 2] for i in range(180)],
        "x": [i % 11 for i in range(180)],
        "y": [i % 17 for i in range(180)],
    }
)
FACTS: dict[str, Any] = {"t.g": dp.Values("a", "b", "c"), "x": dp.Range(0, 10)}
PUBLIC = pd.DataFrame({"g": ["a", "b", "c"], "label": ["first", "second", "second"]})
BUDGET = dp.Budget(4, "1e-4", per_query=20)
BOARD: dict[str, Any] = {"by": "the board", "reason": "as planned"}
CURVE = accounting.gaussian(3) * 4


def cases() -> Iterator[Case]:
    """Cases in which each pair of values of two options occurs, with at most four values that are not the default."""
    rng = random.Random(34)
    values = [(name, value) for name, (_, *others) in OPTIONS.items() for value in others]
    wanted = [frozenset(pair) for pair in combinations(values, 2) if pair[0][0] != pair[1][0]]
    left = set(wanted)
    for pair in wanted:
        if pair not in left:
            continue
        chosen = dict(pair)
        for name, value in rng.sample(values, len(values)):
            new = [{(name, value), other} in left for other in chosen.items()]
            if len(chosen) < 4 and name not in chosen and all(new):
                chosen[name] = value
        left -= {frozenset(both) for both in combinations(chosen.items(), 2)}
        yield completed({name: default for name, (default, *_) in OPTIONS.items()} | chosen)


def completed(case: Case) -> Case:
    """The case with what its options need of others, unless it says these itself."""
    if case["filter"] == "gdp" and case["noise"] is None:
        case["noise"] = "gaussian"
    if case["query"] == "undeclared range" and case["how"] != "batch" and not (case["bounds"] or case["chosen"]):
        case["bounds"] = "values"
    return case


CASES = list(cases())


def name_of(case: Case) -> str:
    """What is not the default."""
    return ", ".join(f"{n}={case[n]}" for n, (default, *_) in OPTIONS.items() if case[n] != default)


def connect(case: Case, ledger: str) -> Session:
    """A session as its case says, in a ledger that its owner has prepared."""
    if case["store"] == ":memory:" and not (case["analysts"] or case["lock"]):
        ledger = ":memory:"
    facts, asked = FACTS, {} if case["analysts"] is None else {"analyst": "ana"}
    terms: dict[str, Any] = {"relation": case["relation"], "filter": case["filter"]}
    opening: dict[str, Any] = {"per_person": None if case["people"] is None else dp.Budget(3, "1e-5")}
    if case["filter"] == "renyi-curve":
        opening["curve"] = CURVE
    if case["analysts"] is not None:
        opening["analysts"] = case["analysts"]
    budget = None if case["people"] == "each" else BUDGET
    names = ["people", "doctors"] if case["units"] == "both" else ["people"]
    if case["analysts"] or case["lock"]:
        with Ledger.open(ledger) as book:
            for name in names if case["analysts"] or case["lock"] == "opened" else []:
                account = book.open_account(name, budget, **terms, **opening)
                if case["analysts"]:
                    account.cap_analyst("ana", dp.Budget(3, "5e-5"), **BOARD)
            if case["lock"]:
                book.lock(**BOARD)
    terms |= {"ledger": ledger, "version": case["version"], "columns": facts, **asked}
    if case["units"] == "both":
        if case["people"] or case["chosen"] or case["filter"] == "renyi-curve":
            pytest.skip("connect_both has no such option")
        units = {"people": dp.PrivacyUnit("id", max_rows=3), "doctors": dp.PrivacyUnit("doctor", max_rows=30)}
        return dp.connect_both({"t": FRAME}, units=units, budget=dict.fromkeys(units, BUDGET), **terms)
    tables: dict[str, Any] = {"t": FRAME.drop(columns="id") if case["units"] == "linked" else FRAME, "p": PUBLIC}
    if case["units"] == "linked":
        tables["t"]["stay"] = range(180)
        tables["stays"] = pd.DataFrame({"stay": range(180), "id": FRAME["id"]})
    unit = {
        "row": lambda: dp.PrivacyUnit.row(),
        "id": lambda: dp.PrivacyUnit("id", max_groups=3, max_rows=3),
        "linked": lambda: dp.PrivacyUnit("id", 3, 3, tables={"t": "stay -> stays.stay"}),
    }[case["units"]]()
    terms |= {"bounds": case["chosen"], "public": ["p"], "population": "people", "budget": budget}
    return dp.connect(tables, unit=unit, **terms, **opening)


def ask(session: Session, case: Case) -> dict[str, Release]:
    """The answers to its query, by name."""
    price: dict[str, Any] = {n: case[n] for n in ("epsilon", "delta", "noise", "dialect")}
    more = {n: case[n] for n in ("truncation", "bounds")}
    sql = QUERIES[case["query"]]
    of_one = len(session.accounts) == 1
    if case["how"] == "batch" and of_one:
        if case["truncation"] or case["bounds"]:
            pytest.skip("a batch has no such option")
        return session.batch({"it": sql, "all": QUERIES["count"]}, **price)
    if case["how"] == "error" and of_one:
        column = session.plan(sql, **price | {"epsilon": "1/2"}, **more).columns[-1]
        price["epsilon"] = session.plan(sql, **price | {"epsilon": None}, **more, error={column: 50}).epsilon
    if case["how"] == "plan":
        assert session.plan(sql, **price, **more).explain()
    answer = session.sql(sql, **price, **more, fresh=case["how"] == "fresh")
    assert isinstance(answer, Release)
    return {"it": answer}


def entries(session: Session) -> list[str]:
    """The kinds of all entries of the ledger."""
    log = session._ledger._log
    return [row.kind for row in log.read(lambda view: view.rows(after=0, limit=10_000))]


def show(release: Release, case: Case) -> list[Any]:
    """Everything that can be had of a release."""
    shown: list[Any] = [release.rows, [release.interval(c) for c in release.columns], list(release.notes)]
    shown += [[release.interval(c, Fraction(1, 2)) for c in release.columns], release.explain(), release.citations()]
    shown += [[release.uncertain(c) for c in release.columns], as_table(release), csv_of(release, 0.9)]
    shown += [release._repr_html_(), release.nonnegative().rows, repr(release.to_arrow()), repr(release.to_pandas())]
    if case["how"] != "batch":
        shown.append(release.truncation)
    return [repr(each) for each in shown]


@pytest.mark.sampled(20)
@pytest.mark.thinned(6)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_it_is_refused_and_not_charged_or_charged_and_answered_entirely(case: Case, tmp_path: Path) -> None:
    check_case(case, str(tmp_path / "p.ledger"))


def check_case(case: Case, place: str) -> None:
    """Asks it with a ledger at a place where none is yet, and looks at the ledger and at all of the answer."""
    try:
        session = connect(case, place)
    except InternalError:
        raise
    except DiscreetError:
        if is_there(place):
            with Ledger.existing(place) as book:
                assert "charge" not in {row.kind for row in book._log.read(lambda v: v.rows(after=0, limit=99))}
        return
    with session:
        before = entries(session)
        try:
            answers = ask(session, case)
        except InternalError:
            raise
        except DiscreetError as refused:
            assert entries(session) == before, refused
            assert all(account.remaining is not None for account in session.accounts.values())
            return
        after = entries(session)
        accounts = len(session.accounts)
        assert after[: len(before)] == before
        assert after.count("charge") == after.count("release") == accounts
        assert after.count("account") == accounts
        assert session._ledger.verify().ok
        shown = {name: show(release, case) for name, release in answers.items()}
        for release in answers.values():
            if case["analysts"] == "apart":
                with pytest.raises(DiscreetError, match="kept apart"):
                    release.certificate()
            else:
                verdict = check(release.certificate(), session._ledger.export())
                assert verdict.ok, words(verdict)
        again = ask(session, {**case, "how": "sql" if case["how"] == "fresh" else case["how"]})
        assert all(release.stored for release in again.values())
        assert {n: r.rows for n, r in again.items()} == {n: r.rows for n, r in answers.items()}
        assert {n: repr(r.rows) for n, r in again.items()} == {n: s[0] for n, s in shown.items()}
        assert entries(session) == after
        assert all(account.remaining is not None for account in session.accounts.values())
        assert all(account.history() for account in session.accounts.values())


@pytest.mark.sampled
@pytest.mark.parametrize("at", ["measured", "shown", "stored"])
def test_a_refusal_after_the_charge_is_told(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above rejects a session that refuses, or lacks a part of its answer, once the charge was made."""

    def refuse(*_: object, **__: object) -> Any:
        raise InvalidParameter("this could have been said before.")

    where = {"measured": (Meter, "draw"), "shown": (Release, "citations"), "stored": (Account, "found")}[at]
    monkeypatch.setattr(*where, refuse if at != "stored" else lambda self, question: None)
    with pytest.raises((AssertionError, InvalidParameter)):
        check_case(CASES[0], str(tmp_path / "p.ledger"))
