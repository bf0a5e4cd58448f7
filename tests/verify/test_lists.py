"""Where each row is a unit, a row finds one key of a list: also where values of two types are compared."""

from __future__ import annotations

import datetime as dt
from functools import cache
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.engine.session import Session
from discreet.verify.certificate.checker import check
from discreet.verify.lists import finds_one
from tests.verify.asked import ask, plain
from tests.verify.forging import Document, forged, measurement, sealed

BIG = 2**53
DAY = dt.datetime(2026, 1, 5)
ROWS = pd.DataFrame(
    {
        "name": ["a", "b"] * 6,
        "real": [0.5, 1.5, float(BIG)] * 4,
        "whole": [1, 2, BIG + 1] * 4,
        "yes": [True, False] * 6,
        "at": [DAY, DAY + dt.timedelta(days=40)] * 6,
        "day": [DAY.date(), dt.date(2026, 2, 14)] * 6,
    }
)
KEYS: dict[str, tuple[Any, ...]] = {
    "name": ("a", "b", "c"),
    "real": (0.5, 1.5, float(BIG)),
    "whole": (1, 2, BIG, BIG + 1),
    "yes": (True, False),
    "day": (dt.date(2026, 1, 5), dt.date(2026, 2, 14)),
}
DERIVED = (
    "upper(name)", "name || 'x'", "whole + 1", "whole % 3", "CASE WHEN real > 1 THEN 'x' ELSE 'y' END", "year(at)",
    "month(day)", "date_trunc('month', at)", "real > 1", "CAST(whole AS VARCHAR)", "floor(real)", "length(name)",
    "CAST(at AS DATE)", "coalesce(whole, 0)", "NOT yes",
)  # fmt: skip


@cache
def rows() -> Session:
    columns = {name: dp.Values(*values) for name, values in KEYS.items()}
    budget = dp.Budget(1000, "0.5")
    return dp.connect(
        {"t": ROWS},
        unit=dp.PrivacyUnit.row(),
        columns={**columns, "at": dp.Range(DAY, DAY + dt.timedelta(days=60))},
        budget=budget,
        population="rows",
        ledger=":memory:",
    )


def honest(sql: str) -> Document:
    found: Document = plain(ask(rows(), sql, {"delta": "1e-4"}).certificate())
    return found


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("key", [*KEYS, *DERIVED])
def test_honest_keys_of_every_type_are_accepted(key: str) -> None:
    assert check(honest(f"SELECT {key} AS k, COUNT(*) AS n FROM t GROUP BY 1")).ok


@pytest.mark.parametrize("sql", ["SELECT name, MEDIAN(whole) AS m FROM t GROUP BY name"])
def test_honest_trees_are_accepted(sql: str) -> None:
    with dp.connect(
        {"t": ROWS[["name", "whole"]]},
        unit=dp.PrivacyUnit.row(),
        columns={"name": dp.Values("a", "b"), "whole": dp.Range(0, 9, integer=True)},
        budget=dp.Budget(9),
        population="rows",
        ledger=":memory:",
    ) as where:
        assert check(plain(where.sql(sql, epsilon=1).certificate())).ok


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("whole", 's."whole"', 'CASE WHEN isfinite(s."real") THEN s."real" END'),
        ("name", 's."name"', 's."whole"'),
        ("whole", f"CAST({BIG} AS BIGINT)", f"{BIG}.5"),
    ],
)
def test_a_row_that_could_find_two_keys_breaks_the_certificate(key: str, old: str, new: str) -> None:
    def change(d: Document) -> None:
        text = measurement(d)["sql"]
        assert old in text, text
        measurement(d)["sql"] = text.replace(old, new)

    document = honest(f"SELECT {key} AS k, COUNT(*) AS n FROM t GROUP BY 1")
    assert check(sealed(forged(document, change))).broken == "tables"


def test_the_database_finds_two_whole_numbers_for_one_double() -> None:
    text = (
        f'WITH "key 0" AS (SELECT v, min(g) AS g FROM (VALUES ({BIG}, 0), ({BIG + 1}, 1)) l(v, g) GROUP BY v), '
        f'"unit bounded" AS (SELECT s.x AS g0, 1 AS one FROM t s) '
        'SELECT k0.g AS g0 FROM "unit bounded" r JOIN "key 0" k0 ON r.g0 = k0.v'
    )
    with open_database() as database:
        database.execute(f"CREATE TABLE t AS SELECT {BIG}::DOUBLE AS x")
        assert sorted(database.execute(text).fetchall()) == [(0,), (1,)]
    assert not finds_one(text, {"x": "DOUBLE"})
    assert not finds_one(text, {"x": None})
    assert finds_one(text, {"x": "BIGINT"})
