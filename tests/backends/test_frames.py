"""Data frames: pandas, polars, pyarrow, with everything that a cell, a column or a name can be."""

from __future__ import annotations

import datetime as dt
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.fs
import pytest

import discreet as dp
from discreet.backends.frames import readable
from discreet.backends.person_filter import PersonFilter
from discreet.errors import DiscreetError, InvalidParameter, SourceError, UnsupportedQuery
from tests.backends.asking import CLEAN_ROWS, Known, answers, connected, counted

CLEAN = {"north": (2, 2, 40.0), "south": (1, 1, 20.0)}
COLUMNS: dict[str, list[Any]] = {name: [row[name] for row in CLEAN_ROWS] for name in CLEAN_ROWS[0]}


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS).astype({"uid": "Int64", "region": "string", "amount": "Float64"}),
        pd.DataFrame(COLUMNS).astype({"region": "category"}),
        pd.DataFrame(COLUMNS).astype({"uid": object, "amount": object, "region": object}),
        pd.DataFrame(COLUMNS).astype({"amount": "float32"}),
        pd.DataFrame(COLUMNS).astype({"uid": "int64[pyarrow]", "region": "string[pyarrow]"}),
        pd.DataFrame(COLUMNS).set_index("uid").reset_index(),
        pl.DataFrame(COLUMNS),
        pl.DataFrame(COLUMNS).lazy(),
        pl.DataFrame(COLUMNS).with_columns(pl.col("region").cast(pl.Categorical), pl.col("uid").cast(pl.UInt64)),
        pa.table(COLUMNS),
        pa.table(COLUMNS).to_batches()[0],
        pa.table(COLUMNS).to_reader(),
        pa.table({**COLUMNS, "region": pa.array(COLUMNS["region"]).dictionary_encode()}),
    ],
    ids=lambda frame: type(frame).__module__.split(".")[0] + " " + type(frame).__name__,
)
def test_frames_of_every_kind_answer_alike(frame: Any) -> None:
    assert counted({"t": frame}) == CLEAN


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("SECRET")


HOSTILE: list[Any] = [
    *([1], {"a": 1}, b"x", np.array([1, 2]), Unprintable(), "x" * 10_000, "a\0b", "\ud800"),
    *(None, pd.NA, pd.NaT, float("nan"), float("inf"), 1e308, 10**400, Decimal("NaN")),
    *(1, 1.0, True, Decimal("1.5"), dt.date(2020, 1, 1)),
]


@pytest.fixture(scope="module")
def clean() -> Known:
    return Known(pd.DataFrame(COLUMNS))


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("cell", HOSTILE, ids=lambda cell: type(cell).__name__)
def test_a_cell_of_a_python_object_matters_to_itself_alone(cell: Any, clean: Known) -> None:
    last = pd.DataFrame({"uid": [9], "region": ["elsewhere"], "amount": pd.Series([cell], dtype=object)})
    frame = pd.concat([pd.DataFrame(COLUMNS).astype({"amount": object}), last])
    assert clean.counted(frame) == CLEAN
    assert Known(frame).counted(frame) == CLEAN


def test_ids_among_python_objects_are_texts_and_integers() -> None:
    ids = [1, 1.0, "1", np.int64(1), True, "True", 1.5, "a", None, float("nan")]
    frame = pd.DataFrame({"uid": pd.Series(ids, dtype=object)})
    unit = dp.PrivacyUnit("uid", max_groups=1, max_rows=1)
    # 1, the text True, and a
    assert answers({"t": frame}, "SELECT COUNT(*) FROM t", unit=unit)[()] == [3]


@pytest.mark.parametrize("missing", [[None] * 3, pd.array([None] * 3, dtype="Int64")])
def test_rows_whose_unit_is_missing_belong_to_nobody(missing: Any) -> None:
    assert counted({"t": pd.DataFrame({**COLUMNS, "uid": missing})}) == {"north": (0, 0, 0.0), "south": (0, 0, 0.0)}


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns called 'a'"),
        (pd.DataFrame([[1, 2]], columns=["a", "A"]), "two columns called"),
        (pd.DataFrame([[1, 2]], columns=["1", 1]), "two columns called '1'"),
        (pd.DataFrame([[1]], columns=[""]), "cannot be written in SQL"),
        (pd.DataFrame([[1]], columns=["a\0b"]), "cannot be written in SQL"),
        (pd.DataFrame([[1]], columns=["a\nb"]), "cannot be written in SQL"),
        (pd.DataFrame(), "no columns"),
        (pl.DataFrame(), "no columns"),
        (pa.table({}), "no columns"),
        (pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]), "two columns called 'a'"),
        (pd.DataFrame({"x": [1 + 2j]}), "a type that cannot be read"),
        (pd.DataFrame({"x": pd.period_range("2020", periods=2)}), "a type that cannot be read"),
        (pl.DataFrame({"x": pl.Series([object()], dtype=pl.Object)}), "'x' has a type that cannot be read"),
        (pa.table({"x": pa.array(np.array([1], np.float16))}), "a type that cannot be read"),
    ],
)
def test_a_frame_that_cannot_be_a_table_is_refused(frame: Any, words: str) -> None:
    with pytest.raises(SourceError, match=words) as caught:
        connected(frame)
    assert caught.value.hint


@pytest.mark.parametrize(
    "thing", [pd.Series([1]), pl.Series([1]), pa.array([1]), np.array([[1]]), [{"a": 1}], {"t": 5}, 5]
)
def test_what_is_no_frame_is_refused(thing: Any) -> None:
    with pytest.raises(InvalidParameter, match="cannot be connected"):
        connected(thing)


@pytest.mark.exhaustive
def test_columns_may_be_called_anything_that_can_be_written() -> None:
    names = ['quote"d', "semi;colon", "O'Brien", "select", "a b", "été", "🦊", "--", "$secret"]
    names += ["s", "u", "g0", "m0", "n", "one"]  # the engine's own
    frame = pd.DataFrame([[1] * len(names)] * 3, columns=names)
    for name in names:
        quoted = name.replace('"', '""')
        facts = {name: dp.Range(0, 1)}
        sql = f'SELECT SUM("{quoted}") AS a FROM t WHERE "{quoted}" = 1'
        assert answers({"t": frame}, sql, columns=facts)[()][0] in (3, 3 << 30), name
        keyed = f'SELECT "{quoted}", COUNT(*) AS a FROM t GROUP BY "{quoted}"'
        assert answers({"t": frame}, keyed, columns={name: dp.Values(0, 1)}) == {(0,): [0], (1,): [3]}, name


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    "name",
    ["s", "main", "unit rows", "unit kept", "unit groups", "list 0", "unit bounded", "row groups", "key 0", "k0"],
)
@pytest.mark.parametrize("unit", [dp.PrivacyUnit.row(), dp.PrivacyUnit("uid", max_groups=1, max_rows=2)])
def test_a_table_may_have_any_of_the_engines_own_names(name: str, unit: dp.PrivacyUnit) -> None:
    frame = pd.DataFrame({"uid": [1, 2, 2], "region": ["a", "a", "b"], "amount": [1.0, 2.0, 3.0]})
    facts = {"region": dp.Values("a", "b"), "amount": dp.Range(0, 4)}
    sql = f'SELECT region, COUNT(*) AS n, AVG(amount) AS m FROM "{name}" GROUP BY region'
    cells = answers({name: frame, "other": frame.head(1)}, sql, unit=unit, columns=facts)
    assert list(cells) == [("a",), ("b",)]
    assert sum(c[-1] for c in cells.values()) in (2, 3)


@pytest.mark.parametrize("name", ["", "a\nb", "a\0b", "\x1b[31m", "x" * 201, 5, None])
def test_a_tables_name_must_be_writable(name: Any) -> None:
    with pytest.raises(InvalidParameter, match="table's name"):
        connected({name: pd.DataFrame(COLUMNS)})


def test_tables_of_one_name_but_for_case_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="same name"):
        connected({"a": pd.DataFrame(COLUMNS), "A": pd.DataFrame(COLUMNS)})


@pytest.mark.parametrize(
    ("column", "key"),
    [
        (pd.to_datetime(pd.Series(["2020-01-02"])), dt.datetime(2020, 1, 2)),
        (pd.to_datetime(pd.Series(["2020-01-02"])).dt.tz_localize("Europe/Berlin"), dt.datetime(2020, 1, 1, 23)),
        (pd.to_datetime(pd.Series(["2020-01-02"])).dt.tz_localize("UTC"), dt.datetime(2020, 1, 2)),
        (pa.array([dt.datetime(2020, 1, 2)], pa.timestamp("ns", "Europe/Berlin")), dt.datetime(2020, 1, 2)),
    ],
)
def test_times_are_in_utc_on_every_machine(column: Any, key: dt.datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    frame = pa.table({"x": column}) if isinstance(column, pa.Array) else pd.DataFrame({"x": column})
    assert answers({"t": frame}, "SELECT x, COUNT(*) AS n FROM t GROUP BY x").keys() == {(key,)}


def test_nested_and_binary_columns_are_there_but_cannot_be_asked_about() -> None:
    frame = pa.table({"x": [1, 2], "l": [[1], [2]], "b": [b"a", b"b"], "d": pa.array([1, 2], pa.duration("s"))})
    for name in ("l", "b", "d"):
        with connected({"t": frame}) as session, pytest.raises(UnsupportedQuery, match="nested or binary"):
            session.plan(f"SELECT COUNT({name}) FROM t", epsilon=1)
        with pytest.raises(InvalidParameter, match="ids are whole numbers or text"):
            connected({"t": frame}, unit=dp.PrivacyUnit(name, max_groups=1, max_rows=1))
    assert answers({"t": frame}, "SELECT COUNT(*) FROM t")[()] == [2]


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_no_rows_and_one_row_answer_like_any_other(make: Any, rows: int) -> None:
    frame = make({"uid": ["1"][:rows], "region": ["north"][:rows], "amount": [10.0][:rows]})
    if make is pd.DataFrame:
        frame = frame.astype({"uid": object})
    assert counted({"t": frame}) == {"north": (rows, rows, 10.0 * rows), "south": (0, 0, 0.0)}


def test_an_empty_frame_of_objects_can_be_asked_about() -> None:
    frame = pd.DataFrame({"uid": [], "region": [], "amount": []}, dtype=object)
    assert counted({"t": frame}) == {"north": (0, 0, 0.0), "south": (0, 0, 0.0)}


def test_the_owners_frame_is_not_changed() -> None:
    frame = pd.DataFrame({1: ["a", None], "x": pd.Categorical(["a", "b"])})
    before = frame.copy(deep=True)
    answers({"t": frame}, "SELECT COUNT(*) FROM t")
    pd.testing.assert_frame_equal(frame, before)


def test_several_frames_are_asked_at_once_from_many_threads() -> None:
    frames = {f"t{i}": pd.DataFrame({"x": range(1000 * (i + 1))}) for i in range(3)}
    found: list[Any] = []

    def ask(table: str) -> None:
        try:
            found.append(session.sql(f"SELECT COUNT(*) AS n FROM {table}", epsilon=50).rows[0][0])
        except DiscreetError as error:
            found.append(error)

    with connected(frames) as session:
        threads = [threading.Thread(target=ask, args=(t,)) for t in [*frames, *frames]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.remaining.epsilon == 1000 - 150
    assert [round(n, -2) for n in sorted(found)] == [1000, 1000, 2000, 2000, 3000, 3000]


class OneStream:
    """A stream that gives its rows once."""

    def __init__(self, table: Any, most: int = 1) -> None:
        self.table, self.left = table, most

    def __arrow_c_stream__(self, requested: object = None) -> object:
        if not self.left:
            raise ValueError(f"{self.table['x'][0]} was read twice")
        self.left -= 1
        return self.table.__arrow_c_stream__(requested)


def test_a_stream_is_read_once_and_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    table = pa.table({"x": [1, 2, 3]})
    for stream in (OneStream(table), pa.RecordBatchReader.from_batches(table.schema, table.to_batches())):
        with connected({"t": stream}) as session:
            found = [session.sql("SELECT COUNT(*) AS n FROM t", epsilon=e).value for e in (400, 401)]
            assert found == [3, 3]
        assert capsys.readouterr().err == "discreet: the stream for 't' was read once, now, and is kept in memory\n"
    with pytest.raises(SourceError, match=r"cannot be read \(.*\)") as caught:
        connected({"t": OneStream(table, 0)})
    assert "read twice" not in str(caught.value) and caught.value.__context__ is None


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather"])
def test_a_dataset_is_what_it_held_at_connect_though_its_file_is_written_before_a_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / f"t.{kind}"

    def write(people: int) -> None:
        new = pa.table({"uid": list(range(people)), "x": [1] * people})
        ds.write_dataset(new, tmp_path / "new", format=kind, existing_data_behavior="delete_matching")
        (tmp_path / "new" / f"part-0.{kind}").replace(file)

    write(10)
    unit = dp.PrivacyUnit("uid", max_groups=1, max_rows=1)
    options: dict[str, Any] = {"population": "p", "per_person": dp.Budget(epsilon=20), "ledger": ":memory:"}
    before = PersonFilter.leave_out
    with dp.connect({"t": ds.dataset(file, format=kind)}, unit=unit, **options) as session:
        assert capsys.readouterr().err == "discreet: the dataset for 't' was read once, now, and is kept in memory\n"

        def leave_out(*given: Any) -> Any:
            found = before(*given)
            write(300)
            return found

        monkeypatch.setattr(PersonFilter, "leave_out", leave_out)
        assert session.sql("SELECT COUNT(*) AS n FROM t", epsilon=20).value == 10, "and not people who have not paid"


def test_a_dataset_and_a_reader_are_copied_out_of_a_mapped_file(tmp_path: Path) -> None:
    file = tmp_path / "t.arrow"
    table = pa.table({"x": [1] * 1000})
    with pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    local = pa.fs.LocalFileSystem(use_mmap=True)
    with pa.memory_map(str(file)) as mapped:
        sources = [ds.dataset(str(file), format="ipc", filesystem=local), pa.ipc.open_file(mapped)]
        kept = [readable(s)[0] for s in sources]
    bare = file.read_bytes().replace((1).to_bytes(8, "little") * 1000, (2).to_bytes(8, "little") * 1000)
    with file.open("r+b") as same:
        same.write(bare)
    assert ds.dataset(file, format="ipc").to_table()["x"][500].as_py() == 2
    assert [k["x"].unique().to_pylist() for k in kept] == [[1], [1]]


@pytest.mark.parametrize("kind", ["memory", "union", "filtered", "empty"])
def test_a_dataset_of_any_kind_is_read(kind: str, tmp_path: Path) -> None:
    table = pa.table({"x": [1, 2, 3]})
    ds.write_dataset(table, tmp_path / "d", format="parquet")
    of_files = ds.dataset(tmp_path / "d")
    found = {
        "memory": ds.dataset(table),
        "union": ds.dataset([ds.dataset(table), of_files]),
        "filtered": of_files.filter(ds.field("x") > 1),
        "empty": of_files.filter(ds.field("x") > 9),
    }
    rows = {"memory": 3, "union": 6, "filtered": 2, "empty": 0}
    with connected({"t": found[kind]}) as session:
        assert session.sql("SELECT COUNT(*) AS n FROM t", epsilon=400).value == rows[kind]


def test_no_cell_of_a_dataset_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("x\n1\n")
    found = ds.dataset(file, format="csv")
    file.write_text("x\nsecret\n")
    with pytest.raises(SourceError, match="cannot be read") as caught:
        connected({"t": found})
    assert "secret" not in str(caught.value) and caught.value.__context__ is None


def test_duckdb_relations_and_connections_are_read_and_left_as_they_are() -> None:
    import duckdb

    with duckdb.connect() as theirs:
        theirs.execute("CREATE TABLE t AS SELECT range AS x FROM range(5); CREATE SCHEMA s; CREATE TABLE s.u AS FROM t")
        before = theirs.execute("SELECT name, value FROM duckdb_settings() ORDER BY ALL").fetchall()
        pending = theirs.execute("SELECT 7")
        with connected(theirs, public=["s.u"]) as session:
            assert session.tables == ["s.u", "t"] or session.tables == ["t", "s.u"]
            assert session.sql("SELECT COUNT(*) AS n FROM t", epsilon=900).value == 5
        assert pending.fetchall() == [(7,)]
        with connected({"t": theirs.sql("SELECT x FROM t WHERE x > 1")}) as session:
            assert session.sql("SELECT COUNT(*) AS n FROM t", epsilon=900).value == 3
        assert theirs.execute("SELECT name, value FROM duckdb_settings() ORDER BY ALL").fetchall() == before
        with pytest.raises(SourceError, match="cannot be read") as caught:
            connected({"t": theirs.sql("SELECT 'secret'::INT AS x")})
        assert "secret" not in str(caught.value)
    with duckdb.connect() as empty, pytest.raises(SourceError, match="no tables"):
        connected(empty)


def test_a_connection_brings_the_tables_of_the_database_that_it_uses(tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect() as theirs:
        theirs.execute(f"CREATE TABLE t AS SELECT 1 AS x; ATTACH '{tmp_path / 'o.duckdb'}' AS other")
        theirs.execute("CREATE TABLE other.t AS SELECT range AS x FROM range(5); USE other")
        with connected(theirs) as session:
            assert session.sql("SELECT COUNT(*) AS n FROM t", epsilon=900).value == 5
        with connected({"t": theirs.sql("FROM memory.t")}) as session:  # as of a database that an extension reads
            assert session.sql("SELECT COUNT(*) AS n FROM t", epsilon=900).value == 1
        theirs.execute("SELECT 7")
        with pytest.raises(SourceError, match="a result that is not fetched"):
            connected(theirs)
