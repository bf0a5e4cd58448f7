"""Values that the database's readers fail on, before any TRY: found when the owner connects, or read another way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.errors import InvalidParameter, SourceError

FAR = 10**16  # milliseconds; beyond what microseconds in 64 bits hold
NOT_UTF8 = pa.StringArray.from_buffers(
    2, pa.py_buffer(b"\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00"), pa.py_buffer(b"a\xff")
)


def connected(source: Any, population: str = "people") -> dp.Session:
    return dp.connect(
        source,
        unit=dp.PrivacyUnit.row(),
        budget=dp.Budget(epsilon=100),
        population=population,
        ledger=":memory:",
    )


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("statistics", [True, False])
def test_a_time_that_no_timestamp_holds_is_found_at_connect(
    tmp_path: Path, zone: str | None, statistics: bool
) -> None:
    path = tmp_path / "times.parquet"
    for cells in ([FAR, 0], [0, 1]):
        table = pa.table({"t": pa.array(cells, pa.timestamp("ms", zone)), "z": [1, 2]})
        pq.write_table(table, path, write_statistics=statistics)
        if FAR in cells:
            with pytest.raises(SourceError, match="holds a time") as caught:
                connected(path)
            assert str(FAR) not in str(caught.value)
            assert caught.value.__context__ is None
        else:
            with connected(path) as session:
                assert session.sql("SELECT COUNT(t) FROM times", epsilon=20).rows[0][0] == pytest.approx(
                    2, abs=3
                )


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_a_time_with_a_zone_beyond_microseconds_is_found_in_a_frame(unit: Any) -> None:
    with pytest.raises(SourceError, match="holds a time"):
        connected({"data": pa.table({"t": pa.array([10**17, 0], pa.timestamp(unit, "UTC"))})})


def test_a_number_beyond_every_type_is_null_and_leaves_the_database_whole(tmp_path: Path) -> None:
    path = tmp_path / "big.duckdb"
    with open_database(path) as made:
        made.execute("CREATE TABLE big(u INT, n BIGNUM)")
        made.execute("INSERT INTO big VALUES (1, '99999999999999999999'), (2, '5')")
    with connected(path) as session:
        for sql, truth in (("SELECT COUNT(n) FROM big", 1), ("SELECT COUNT(*) FROM big WHERE u = 2", 1)):
            assert session.sql(sql, epsilon=20).rows[0][0] == pytest.approx(truth, abs=3)


def test_text_that_is_not_utf8_is_found_however_arrow_brings_it(tmp_path: Path) -> None:
    feather.write_feather(pa.table({"x": NOT_UTF8}), tmp_path / "bad.arrow", compression="uncompressed")
    frames = [
        pa.table({"x": NOT_UTF8}),
        ds.dataset(tmp_path / "bad.arrow", format="ipc"),
        pd.DataFrame({"x": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([NOT_UTF8])))}),
    ]
    for frame in frames:
        with pytest.raises(SourceError, match="breaks the rules"):
            connected({"data": frame})


def test_two_tables_whose_names_differ_by_case_alone_are_refused() -> None:
    table = pa.table({"x": [1]})
    with pytest.raises(InvalidParameter, match="Two tables"):
        connected({"data": table, "DATA": table})


def test_another_spelling_of_a_known_table_has_the_same_unit(tmp_path: Path) -> None:
    ledger, table = tmp_path / "people.ledger", pa.table({"u": [1, 2], "x": [1, 2]})
    person = dp.PrivacyUnit("u", max_groups=1, max_rows=1)
    dp.connect(
        {"data": table}, unit=person, budget=dp.Budget(epsilon=1), population="p", ledger=ledger
    ).close()
    with pytest.raises(InvalidParameter, match="Who is protected"):
        dp.connect({"DATA": table}, unit=dp.PrivacyUnit.row(), population="p", ledger=ledger)
