"""Cells that the database's readers fail on, before any TRY: each is NULL, and no word tells of it."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.catalog.types import Type
from discreet.errors import InvalidParameter, MissingExtra
from tests.backends.asking import exact
from tests.written import written


def raw(kind: Any, cells: list[int]) -> Any:
    """An array of this type with these integers inside, whatever the type says of them."""
    held = array("i" if kind.bit_width == 32 else "q", cells)
    return pa.Array.from_buffers(kind, len(cells), [None, pa.py_buffer(held)])


def not_utf8(kind: Any = None) -> Any:
    """The texts `a`, a byte that is no text, and `b`."""
    held = array("q" if kind == pa.large_string() else "i", [0, 1, 2, 3])
    return pa.Array.from_buffers(kind or pa.string(), 3, [None, pa.py_buffer(held), pa.py_buffer(b"a\xffb")])


def connected(source: Any, population: str = "people") -> dp.Session:
    return dp.connect(
        source, unit=dp.PrivacyUnit.row(), budget=dp.Budget(epsilon=100), population=population, ledger=":memory:"
    )


def shown(source: Any, cell: str = "x") -> tuple[list[int], str]:
    """How many of the cells and of the rows are there, and the text of the view."""
    with connected({"t": source}) as session:
        found = exact(session, f"SELECT COUNT({cell}) AS a, COUNT(*) AS b FROM t")[()]
        return sorted(found), str(session._desk.tables[0].view)


COARSE = [pa.timestamp(unit, zone) for unit in ("s", "ms") for zone in (None, "Asia/Tokyo")]
TIMES = [pa.time32("ms"), pa.time64("us"), pa.time64("ns")]


def brought(table: Any, folder: Path) -> dict[str, Any]:
    """The table in each way that a source can bring it; Parquet has no seconds."""
    found = {"table": table, "batch": table.to_batches()[0], "dataset": ds.dataset(table)}
    found["pandas"] = pd.DataFrame({n: pd.arrays.ArrowExtensionArray(table[n]) for n in table.column_names})
    if not str(table["x"].type).startswith("timestamp[s"):
        for statistics in (True, False):
            file = folder / f"{statistics}.parquet"
            pq.write_table(table, file, write_statistics=statistics)
            found[file.name] = file
    return found


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("kind", [*COARSE, *TIMES], ids=str)
def test_a_time_that_the_database_does_not_have_is_null_and_no_word_tells(kind: Any, tmp_path: Path) -> None:
    far = 2**31 - 1 if kind.bit_width == 32 else 10**17
    hostile, plain = (pa.table({"x": raw(kind, [one, 5, 6]), "z": [1, 2, 3]}) for one in (far, 4))
    for folder in ("hostile", "plain"):
        (tmp_path / folder).mkdir()
    bad, good = brought(hostile, tmp_path / "hostile"), brought(plain, tmp_path / "plain")
    for how in bad:
        (cells, form), (all_cells, same) = shown(bad[how]), shown(good[how])
        assert (cells, all_cells, form) == ([2, 3], [3, 3], same), how


@pytest.mark.parametrize("unit", ["s", "ms"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_far_time_of_numpy_and_polars_is_null(unit: Any, zone: str | None) -> None:
    cells = pd.Series([10**17, 5, 6]).astype("int64").to_numpy().view(f"datetime64[{unit}]")
    times = pd.Series(cells) if zone is None else pd.Series(cells).dt.tz_localize(zone)
    assert shown(pd.DataFrame({"x": times}))[0] == [2, 3]
    if unit == "ms":
        far = pl.Series("x", [10**17, 5, 6]).cast(pl.Datetime("ms", zone))
        assert shown(far.to_frame())[0] == [2, 3]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_text_that_is_not_utf8_is_null_however_arrow_brings_it(kind: Any, tmp_path: Path) -> None:
    table = pa.table({"x": not_utf8(kind), "z": [1, 2, 3]})
    feather.write_feather(table, tmp_path / "bad.arrow", compression="uncompressed")
    coded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0]), not_utf8(kind))
    assert shown(table)[0] == shown(ds.dataset(tmp_path / "bad.arrow", format="ipc"))[0] == [2, 3]
    assert shown(pd.DataFrame({"x": pd.arrays.ArrowExtensionArray(table["x"])}))[0] == [2, 3]
    assert shown(pa.table({"x": coded}))[0] == [3, 4]
    listed = pa.ListArray.from_arrays(pa.array(range(4), pa.int32()), not_utf8(kind))
    assert shown(pa.table({"x": [1, 2, None], "y": listed}))[0] == [2, 3]
    assert shown(ds.dataset(pa.table({"x": [1, 2, None], "y": listed})))[0] == [2, 3]
    assert shown(pa.table({"x": pa.chunked_array([not_utf8(kind)] * 3)}))[0] == [6, 9]


def test_text_that_is_not_utf8_in_a_parquet_file_stops_no_question(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": not_utf8(), "z": [1, 2, 3]}), tmp_path / "t.parquet")
    assert shown(tmp_path / "t.parquet", "nullif(x, 'b')")[0] == [2, 3]


EXTREME = [
    (pa.timestamp("us"), [-(2**63), -(2**63) + 2, -9223372022400000001]),
    (pa.timestamp("us", "UTC"), [-(2**63), -(2**63) + 2]),
    (pa.timestamp("s"), [-9223372036854, -9223372036853]),
    (pa.date32(), [-(2**31)]),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@pytest.mark.parametrize(("kind", "cells"), EXTREME, ids=str)
def test_a_time_before_the_first_is_null_and_leaves_the_database_whole(
    kind: Any, cells: list[int], tmp_path: Path
) -> None:
    """A cast of one to text is an internal error of the database, after which it answers nothing."""
    table = pa.table({"x": raw(kind, [*cells, 5]), "z": range(len(cells) + 1)})
    for how, source in brought(table, tmp_path).items():
        with connected({"t": source}) as session:
            for cell in ("x", "CAST(x AS VARCHAR)", "YEAR(x)", "x + INTERVAL 1 DAY", "date_trunc('month', x)"):
                found = exact(session, f"SELECT COUNT({cell}) AS a, COUNT(*) AS b FROM t")[()]
                assert sorted(found) == [1, len(cells) + 1], (how, cell)


def test_a_parquet_file_reads_the_same_through_arrow(tmp_path: Path) -> None:
    """Ids, texts and numbers are those of the database's own reader, also where a column of times needs another one."""
    with open_database() as db:
        db.execute(
            "COPY (SELECT i AS u, i::VARCHAR AS uid, md5(i::VARCHAR)::UUID AS k, i / 4 AS d, "
            "(i / 4)::DECIMAL(9, 2) AS e, (i * 7)::UTINYINT AS b, DATE '2020-01-01' + i::INT AS day, "
            "(i % 3)::VARCHAR::ENUM('0', '1', '2') AS c, "
            "i::HUGEINT AS h, (2::UBIGINT ** 63)::UBIGINT + i AS w, TIMESTAMP '2020-01-01' + INTERVAL (i) HOUR AS at "
            f"FROM range(20) r(i)) TO '{tmp_path / 'own.parquet'}'"
        )
    table = pq.read_table(tmp_path / "own.parquet")
    with_times = table.append_column("ms", pa.array(range(20), pa.timestamp("ms")))
    pq.write_table(with_times, tmp_path / "coarse.parquet")
    pq.write_table(table, tmp_path / "plain.parquet")
    read = []
    for name in ("plain", "coarse"):
        with connected({"t": tmp_path / f"{name}.parquet"}) as session:
            types = {n: k for n, k in session._desk.tables[0].columns.items() if n != "ms"}
            columns = ", ".join(f'"{n}"' for n in types)
            read.append((types, sorted(session._desk.backend.rows(f"SELECT {columns} FROM main.t", {}), key=str)))
    assert read[0] == read[1]


def test_a_file_that_is_rewritten_with_coarse_times_is_read_in_the_pinned_shape(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": pa.array([1, 2, 3], pa.timestamp("us"))}), file)
    with connected({"t": file}) as session:
        for kind, cells in ((pa.timestamp("ms"), [10**17, 5]), (pa.timestamp("us"), [5, 6, 7, 8])):
            pq.write_table(pa.table({"x": raw(kind, cells)}), file)
            session._desk.backend.refresh()
            found = exact(session, "SELECT COUNT(x) AS a, COUNT(*) AS b FROM t")[()]
            assert sorted(found) == ([1, 2] if len(cells) == 2 else [4, 4])


def test_coarse_times_without_pyarrow_are_refused_with_the_line_that_rewrites_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"x": pa.array([1], pa.timestamp("ms"))}), tmp_path / "t.parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.dataset", None)
    with pytest.raises(MissingExtra, match="milliseconds") as caught:
        connected({"t": tmp_path / "t.parquet"})
    assert "COPY" in caught.value.hint


def test_a_number_beyond_every_type_is_null_and_leaves_the_database_whole(tmp_path: Path) -> None:
    path = tmp_path / "big.duckdb"
    with open_database(path) as made:
        made.execute("CREATE TABLE big(u INT, n BIGNUM)")
        made.execute("INSERT INTO big VALUES (1, '99999999999999999999'), (2, '5')")
    with connected(path) as session:
        for sql, truth in (("SELECT COUNT(n) FROM big", 1), ("SELECT COUNT(*) FROM big WHERE u = 2", 1)):
            assert session.sql(sql, epsilon=20).rows[0][0] == pytest.approx(truth, abs=3)


def test_two_tables_whose_names_differ_by_case_alone_are_refused() -> None:
    table = pa.table({"x": [1]})
    with pytest.raises(InvalidParameter, match="Two tables"):
        connected({"data": table, "DATA": table})


def test_another_spelling_of_a_known_table_has_the_same_unit(tmp_path: Path) -> None:
    ledger, table = tmp_path / "people.ledger", pa.table({"u": [1, 2], "x": [1, 2]})
    person = dp.PrivacyUnit("u", max_groups=1, max_rows=1)
    first = dp.connect({"data": table}, unit=person, budget=dp.Budget(epsilon=1), population="p", ledger=ledger)
    written(first).close()
    with pytest.raises(InvalidParameter, match="Who is protected"):
        dp.connect({"DATA": table}, unit=dp.PrivacyUnit.row(), population="p", ledger=ledger)


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Kathmandu"])
def test_times_of_nanoseconds_are_the_same_instants_in_microseconds_whatever_zone_they_have(
    zone: str | None, tmp_path: Path
) -> None:
    nanoseconds = [1_577_923_200_123_456_789, 0, 1_000, -1_000, -(2**62), 2**63 - 2_000, None]
    truth = sorted((n + 500) // 1000 for n in nanoseconds if n is not None)  # to the nearest
    kind = pa.timestamp("ns", zone)
    table = pa.table({"x": pa.array(nanoseconds, pa.int64()).cast(kind)})
    found = brought(table, tmp_path)
    found["numpy"] = table.to_pandas()
    found["polars"] = pl.from_arrow(table)
    with open_database(tmp_path / "t.duckdb") as db:
        db.register("cells", table)
        db.execute("CREATE TABLE t AS FROM cells")
    for how, source in {**found, "duckdb": tmp_path / "t.duckdb"}.items():
        with connected(source if how == "duckdb" else {"t": source}) as session:
            assert session._desk.tables[0].columns == {"x": Type.TIMESTAMP}
            rows = session._desk.backend.rows("SELECT epoch_us(x) FROM main.t WHERE x IS NOT NULL", {})
            assert sorted(row[0] for row in rows) == truth, how


def test_files_with_coarse_times_stand_among_others_in_a_glob(tmp_path: Path) -> None:
    kinds = {"a": pa.timestamp("ms", "UTC"), "b": pa.timestamp("us"), "c": pa.timestamp("ms")}
    for name, kind in kinds.items():
        table = pa.table({"x": raw(kind, [5, 2**62 if kind.unit == "ms" else 6]), "z": [1, 2]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    pq.write_table(pa.table({"z": [3]}), tmp_path / "d.parquet")
    assert shown(tmp_path / "*.parquet")[0] == [4, 7]
    with dp.connect(
        {"t": tmp_path / "*.parquet"},
        unit=dp.PrivacyUnit("z", 1, 9),
        per_person=dp.Budget(epsilon=9),
        population="p",
        ledger=":memory:",
    ) as session:
        assert abs(session.sql("SELECT COUNT(*) AS n FROM t", epsilon=8).rows[0][0] - 7) <= 30


def test_times_of_microseconds_need_no_other_reader(tmp_path: Path) -> None:
    extremes = [0, 1, -1, (1 << 63) - 1, -(1 << 63), 1 - (1 << 63)]
    for unit in ("us", "ns"):
        table = pa.table({"x": raw(pa.timestamp(unit), extremes)})
        pq.write_table(table, tmp_path / f"{unit}.parquet", store_schema=False)
        found, view = shown(tmp_path / f"{unit}.parquet")
        assert "read_parquet(" in view and found[-1] == len(extremes)
