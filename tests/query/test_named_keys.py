"""Keys that are declared for their name in the result: groups without a δ, never beyond those that are known."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import discreet as dp
from discreet.errors import DiscreetError, InvalidParameter, NotPrivate, UnknownColumn

ROWS = {"uid": [1, 2, 3, 4], "code": ["a-x", "bb-y", "c-x", "d-z"], "x": [1.5, 2.5, 3.5, 9.5], "ward": ["a"] * 4}
LETTERS = "SELECT split_part(code, '-', 2) AS letter, COUNT(*) AS n FROM t GROUP BY letter"


def session(**options: Any) -> dp.Session:
    unit = dp.PrivacyUnit("uid", max_groups=1, max_rows=1)
    return dp.connect({"t": pl.DataFrame(ROWS)}, unit=unit, budget=dp.Budget(1000), ledger=":memory:", **options)


@pytest.mark.parametrize(
    ("sql", "groups"),
    [
        (LETTERS, ["x", "y"]),
        (LETTERS.replace("BY letter", "BY 1"), ["x", "y"]),
        (LETTERS.replace("AS letter", 'AS "Letter"').replace("BY letter", "BY split_part(code, '-', 2)"), ["x", "y"]),
        (
            "SELECT letter, COUNT(*) AS n FROM (SELECT split_part(code, '-', 2) AS letter FROM t) u GROUP BY letter",
            ["x", "y"],
        ),
        ("SELECT floor(x) AS g, COUNT(*) AS n FROM t GROUP BY g", [1.0, 2.0]),
    ],
)
def test_groups_are_those_of_the_declared_name(sql: str, groups: list[Any]) -> None:
    with session(columns={"letter": dp.Values("x", "y"), "g": dp.Values(1, 2)}) as s:
        release = s.sql(sql, epsilon=20)
        assert [key for key, _ in release.rows] == groups
        assert [n for _, n in release.rows] == ([2, 1] if "x" in groups else [1, 1])
        assert release.cost.delta(epsilon=20) == 0


def test_labels_are_shown() -> None:
    with session(columns={"letter": dp.Values({"x": "Ex", "y": "Why"})}) as s:
        release = s.sql(LETTERS, epsilon=20)
    assert [key for key, _ in release.rows] == ["Ex", "Why"]


def test_the_refusal_without_them_names_the_key() -> None:
    with session() as s:
        with pytest.raises(NotPrivate) as caught:
            s.sql(LETTERS, epsilon=1)
        assert caught.value.hint == "add columns={'letter': dp.Values('A', 'B')}"
        with pytest.raises(NotPrivate, match="'x': dp"):  # its name would be that of a column
            s.sql("SELECT floor(x) AS x, COUNT(*) AS n FROM t GROUP BY floor(x)", epsilon=1)


@pytest.mark.parametrize(
    ("columns", "kind", "words"),
    [
        ({"letter": dp.Values(1)}, InvalidParameter, "declared for a key that is text"),
        ({"letter": dp.Range(0, 1)}, UnknownColumn, "declared of 'letter', which no table has"),
        ({"wards": dp.Values("a")}, UnknownColumn, "perhaps ward is meant"),
        ({"w": dp.Values("a", "secret"), "ward": dp.Values("a")}, InvalidParameter, "not among the values"),
    ],
)
def test_what_does_not_fit_is_refused(columns: Any, kind: type[DiscreetError], words: str) -> None:
    with pytest.raises(kind, match=words), session(columns=columns) as s:
        query = LETTERS if "letter" in columns else "SELECT ward AS w, COUNT(*) AS n FROM t GROUP BY w"
        s.sql(query, epsilon=1)
