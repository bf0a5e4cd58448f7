"""What public tables say themselves: their values or ranges, and a digest of their rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.errors import InvalidParameter, LedgerError, SourceError
from tests.engine.shop import SHOP, WAYS, database, opened, schemas, shop_unit


def facts(frame: Any, **options: Any) -> Mapping[str, Any]:
    with opened({**SHOP, "regions": frame}, **options) as session:
        return schemas(session)["regions"].facts


def test_a_public_table_tells_its_values_sorted_with_null_last() -> None:
    frame = pd.DataFrame(
        {
            "name": ["b", "a", None, "b"],
            "n": [3, 1, 2, 1],
            "x": [1.5, float("nan"), -0.0, float("inf")],
            "yes": [True, False, True, True],
            "day": pd.to_datetime(["2020-01-02", "", "2020-01-01", "2020-01-01"]),
            "none": pd.Series([None] * 4, dtype="float64"),
        }
    )
    found = facts(frame)
    assert {n: f.values for n, f in found.items()} == {
        "name": ("a", "b", None),
        "n": (1, 2, 3),
        "x": (0.0, 1.5, None),
        "yes": (False, True),
        "day": (pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-02"), None),
    }
    assert str(found["x"].values[0]) == "0.0"


def test_the_owners_word_goes_before_what_a_public_table_says() -> None:
    frame = SHOP["regions"]
    assert facts(frame, columns={"people": dp.Range(0, 99)})["people"] == dp.Range(0, 99)
    assert facts(frame, columns={"regions.people": dp.Range(0, 9)})["people"] == dp.Range(0, 9)
    assert facts(frame, columns={"regions.city": dp.Values("a")})["city"] == dp.Values("a")
    assert facts(frame, columns={"customers.city": dp.Values("a")})["city"] == dp.Values("a", "b", None)


def test_a_column_of_many_values_tells_its_range() -> None:
    many = 10_001
    frame = pd.DataFrame(
        {
            "n": range(many),
            "x": [i / 4 for i in range(many)],
            "name": [f"k{i}" for i in range(many)],
            "few": [i % 10_000 for i in range(many)],
            "huge": [(1 << 62) + i for i in range(many)],
        }
    )
    found = facts(frame)
    assert found["n"] == dp.Range(0, 10_000, integer=True)
    assert found["x"] == dp.Range(0, 2500)
    assert found["few"] == dp.Values(*range(10_000))
    assert found.keys() == {"n", "x", "few"}  # no range reaches so far, and text has none


def test_a_public_text_files_columns_are_numbers_and_dates_when_all_cells_are(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(
        "code,zip,price,day,mixed,gone\n10,01234,1.50,2020-01-01,1,\n2,12345,-2,2020-01-02,x,\n,,,,,\n"
    )
    found = facts(tmp_path / "r.csv")
    assert found["code"] == dp.Values(2, 10, None)
    assert found["zip"] == dp.Values("01234", "12345", None)
    assert found["price"] == dp.Values(-2.0, 1.5, None)
    assert [str(v) for v in found["day"].values] == ["2020-01-01", "2020-01-02", "None"]
    assert found["mixed"] == dp.Values("1", "x", None)
    assert "gone" not in found


def test_cells_that_no_declaration_can_hold_are_left_out(tmp_path: Path) -> None:
    file = database(
        tmp_path,
        people="SELECT 1 AS person",
        odd="SELECT * FROM (VALUES ('a' || chr(0), TIMESTAMP 'infinity', DATE '0044-03-15 (BC)', [1]), "
        "('b', TIMESTAMP '2020-01-01', DATE '2020-01-01', [2])) t(word, seen, day, nested)",
        bare="SELECT 1 AS x WHERE false",
    )
    unit = dp.PrivacyUnit("person", 1, 1)
    with opened(file, unit=unit, public=["odd", "bare"]) as session:
        found = schemas(session)
    assert [str(v) for v in found["odd"].facts["word"].values] == ["b", "None"]  # type: ignore[union-attr]
    assert [str(v) for v in found["odd"].facts["seen"].values] == ["2020-01-01 00:00:00", "None"]  # type: ignore[union-attr]
    assert [str(v) for v in found["odd"].facts["day"].values] == ["2020-01-01", "None"]  # type: ignore[union-attr]
    assert "nested" not in found["odd"].facts
    assert found["bare"].facts == {}


def test_the_digest_of_a_public_table_follows_its_cells_and_not_their_order() -> None:
    def digest(frame: Any) -> str | None:
        with opened({**SHOP, "regions": frame}) as session:
            return schemas(session)["regions"].digest

    frame = SHOP["regions"]
    base = digest(frame)
    assert base is not None and len(base) == 64
    assert digest(frame.sort_values("people")) == base
    swapped = frame.assign(people=list(reversed(frame["people"])))  # the same values in every column
    twice = pd.concat([frame, frame.head(1)])
    shifted = pd.DataFrame({"city": ["b2", "a", None], "people": [0, 10, 30]})
    others = [digest(f) for f in (swapped, twice, frame.head(2), shifted, frame.rename(columns={"city": "town"}))]
    assert len({base, *others}) == 6


def test_a_public_table_with_a_column_of_the_units_name_is_refused_in_any_case() -> None:
    for name in ("customer_id", "Customer_ID"):
        with pytest.raises(InvalidParameter, match="has a column of the unit's name, 'customer_id', and it is named"):
            facts(pd.DataFrame({name: [1], "x": [2]}))
    renamed = shop_unit({**WAYS, "orders": "customer_id"}, column="who")  # the way round
    assert facts(pd.DataFrame({"customer_id": [1]}), unit=renamed) == {"customer_id": dp.Values(1)}


def test_a_public_source_that_cannot_be_read_is_an_error_before_any_charge(tmp_path: Path) -> None:
    (tmp_path / "r.parquet").write_bytes(b"PAR1")
    with pytest.raises((SourceError, LedgerError)):
        facts(tmp_path / "r.parquet")
