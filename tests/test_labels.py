"""Labels of declared values: queries compare the values, results show the labels, and proofs hold the values."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet import plots
from discreet.engine.session import Session
from discreet.errors import InvalidParameter
from discreet.verify.certificate.checker import check
from tests.plots.seen import rows

FRAME = pd.DataFrame({"who": range(90), "sex": [1, 2, 2] * 30, "ward": ["a", "b"] * 45})
FACTS: dict[str, Any] = {"sex": dp.Values({1: "Male", 2: "Female", None: "unknown"}), "ward": dp.Values("a", "b")}


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    unit = dp.PrivacyUnit("who", max_groups=1, max_rows=1)
    budget = dp.Budget(10**6, per_query=10**4)
    with dp.connect({"t": FRAME}, unit=unit, columns=FACTS, budget=budget, ledger=":memory:") as opened:
        yield opened


def ask(session: Session, sql: str) -> dp.Release:
    return session.sql(sql, epsilon=1000)


def test_rows_frames_texts_and_pictures_show_labels_and_sql_compares_values(session: Session) -> None:
    release = ask(
        session, "SELECT sex, ward, COUNT(*) AS n FROM t WHERE sex <> 1 GROUP BY sex, ward ORDER BY sex, ward"
    )
    assert [row[0] for row in release.rows] == ["Male", "Male", "Female", "Female", "unknown", "unknown"]
    assert release["n"][0] == 0 and release[2][:2] == ("Female", "a") and release[2][2] == 30
    assert list(release.to_pandas()["sex"]) == release["sex"] == release.to_arrow()["sex"].to_pylist()
    assert "Female" in str(release) and "Female" in release._repr_html_()
    assert {r["k0"] for r in rows(plots.release(release), "k0")} == {"Male", "Female", "unknown"}
    assert copy.deepcopy(release).rows == release.rows


def test_labels_are_left_out_where_that_is_asked_and_of_proofs(session: Session) -> None:
    release = ask(session, "SELECT sex, COUNT(*) AS n FROM t GROUP BY sex")
    assert release.to_dict(labels=False)["sex"] == [1, 2, None] == [code for code, _ in release.codes]
    assert release.to_polars(labels=False)["sex"].to_list() == [1, 2, None]
    assert [row["sex"] for row in json.loads(release.to_json(labels=False))] == [1, 2, None]
    assert {r["k0"] for r in rows(plots.release(release, labels=False), "k0")} == {"1", "2", "NULL"}
    certificate = release.certificate()
    assert [row[0] for row in certificate["answer"]["rows"]] == [1, 2, None]
    assert check(certificate).ok


def test_labels_follow_a_column_and_not_what_is_made_of_it(session: Session) -> None:
    inner = "SELECT g, COUNT(*) AS n FROM (SELECT sex AS g, who FROM t) u GROUP BY g"
    assert ask(session, inner)["g"] == ["Male", "Female", "unknown"]
    assert ask(session, "SELECT sex + 1 AS s, COUNT(*) AS n FROM t GROUP BY sex + 1")["s"][:2] == [2, 3]
    totals = ask(session, "SELECT sex, COUNT(*) AS n FROM t GROUP BY ROLLUP(sex)")
    assert set(totals["sex"]) == {"Male", "Female", None}  # NULL is a total there


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({1: 2}, "a text as each label"),
        ({1: "a", 2: "a"}, "two values one label"),
        ({1: ""}, "a text"),
        ({}, "at least"),
    ],
)
def test_labels_that_say_nothing_are_refused(given: Any, said: str) -> None:
    with pytest.raises(InvalidParameter, match=said):
        dp.Values(given)


def test_values_with_labels_are_values() -> None:
    facts = dp.Values({1: "Male", 2.5: "Female"})
    assert facts.values == (1.0, 2.5) and repr(facts) == "Values({1: 'Male', 2.5: 'Female'})"
    assert dp.Values({1: "a"}) != dp.Values({1: "b"}) != dp.Values(1)


RESULT = (
    "WITH r AS (SELECT sex, ward, COUNT(*) AS n FROM t GROUP BY 1, 2), "
    "v AS (SELECT sex, COUNT(*) AS n FROM t GROUP BY 1) "
)
OF_RESULTS: dict[str, list[Any]] = {
    "SELECT s AS g, n FROM (SELECT sex AS s, n * 2 AS n FROM v) x ORDER BY 1": ["Male", "Female", "unknown"],
    "SELECT sex, SUM(n) FROM r GROUP BY sex HAVING SUM(n) > 9 ORDER BY 1": ["Male", "Female"],
    "SELECT sex, n FROM v UNION ALL SELECT sex, n + 900 FROM r ORDER BY 2, 1 LIMIT 2": ["unknown", "Male"],
    "SELECT b.sex, a.n FROM v a JOIN v b USING (sex) ORDER BY 1 LIMIT 1": ["Male"],
    "SELECT b.sex FROM v a LEFT JOIN v b ON a.sex = b.sex AND a.n > 9 ORDER BY 1": ["Male", "Female", None],
    "SELECT sex + 0, n FROM v ORDER BY 1": [1, 2, None],
    "SELECT sex FROM v UNION ALL SELECT 3 ORDER BY 1 LIMIT 1": [1],
    "SELECT MAX(sex) FROM v WHERE n > 5": [2],
}


@pytest.mark.parametrize("sql", OF_RESULTS)
def test_labels_stay_with_a_key_through_a_query_over_results(session: Session, sql: str) -> None:
    release = ask(session, RESULT + sql)
    assert release.plan.outer is not None
    assert [row[0] for row in release] == OF_RESULTS[sql]
    codes = {"Male": 1, "Female": 2, "unknown": None}
    assert [row[0] for row in release.codes] == [codes.get(v, v) for v in OF_RESULTS[sql]]
    assert release.to_dict(labels=False)[release.columns[0]] == [row[0] for row in release.codes]
