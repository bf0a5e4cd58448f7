"""The view of a table, read a second time: what changes rows, or shows an id in another form, is refused."""

from __future__ import annotations

import json
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.backends.duckdb import DuckDB
from discreet.catalog.owners import Owner
from discreet.engine.tables import with_id_kinds
from discreet.errors import InternalError
from discreet.verify.certificate.checker import check as verify
from discreet.verify.view import read_view

PARQUET = "SELECT 7 AS uid, 'a' AS region, 1.5 AS amount, DATE '2020-01-01' AS day, 2::DECIMAL(9, 2) AS paid"


def views(folder: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """The view of a source of each kind, with the types of its columns."""
    with open_database() as db:
        db.execute(f"COPY ({PARQUET}) TO '{folder / 'p.parquet'}'")
    (folder / "c.csv").write_text("uid;region\n7;a\n")
    (folder / "l.jsonl").write_text('{"uid": 7, "re/g~ion": "a"}\n')
    (folder / "a.json").write_text('[{"uid": 7, "region": "a"}]')
    sources: dict[str, Any] = {
        "parquet": folder / "p.parquet",
        "csv": folder / "c.csv",
        "lines": folder / "l.jsonl",
        "array": folder / "a.json",
        "frame": pd.DataFrame({"uid": [7], "region": ["a"]}),
    }
    found = {}
    for name, source in sources.items():
        with closing(DuckDB({"t": source})) as backend:
            owners = {"t": Owner("uid")}
            pinned = with_id_kinds(backend, {"t": backend.discover("t")}, owners, ())["t"]
            types = {n: kind or "VARCHAR" for n, kind in pinned.columns.items()}
            found[name] = (backend.attach("t", pinned, ["uid"]), types)
    return found


def test_the_views_that_are_written_are_read(tmp_path: Path) -> None:
    for text, types in views(tmp_path).values():
        assert read_view(text, ["uid"]) == types


MUTANTS = {
    "rows left out": ("parquet", "$", " WHERE uid > 3"),
    "one row of each": ("parquet", "SELECT CASE", "SELECT DISTINCT CASE"),
    "rows twice": ("parquet", "$", ", (SELECT 1 UNION ALL SELECT 2) x"),
    "groups": ("parquet", "$", " GROUP BY ALL"),
    "a limit": ("csv", "$", " LIMIT 10"),
    "a sample": ("parquet", "$", " USING SAMPLE 10%"),
    "other rows' values": ("parquet", 'TRY_CAST("amount" AS DOUBLE)', 'TRY_CAST(max("amount") OVER () AS DOUBLE)'),
    "an aggregate": ("parquet", 'TRY_CAST("day" AS DATE)', 'TRY_CAST(max("day") AS DATE)'),
    "a number of its own": ("parquet", 'TRY_CAST("day" AS DATE)', "TRY_CAST(random() AS DATE)"),
    "another query": ("parquet", 'TRY_CAST("day" AS DATE)', "TRY_CAST((SELECT 1) AS DATE)"),
    "no cast": ("parquet", 'TRY_CAST("day" AS DATE)', '"day"'),
    "another column": ("parquet", 'TRY_CAST("day" AS DATE)', 'TRY_CAST("amount" AS DATE)'),
    "an id of another column": ("parquet", '"uid"', '"region"'),
    "folders": ("parquet", "hive_partitioning = false", "hive_partitioning = true"),
    "folders in csv": ("csv", "hive_partitioning = false", "hive_partitioning = true"),
    "folders in json": ("lines", "hive_partitioning = false", "hive_partitioning = true"),
    "by place": ("csv", "columns = $header", "columns = {'uid': 'VARCHAR', 'region': 'VARCHAR'}"),
    "several readers": ("csv", "parallel = false", "parallel = true"),
    "underscores in ids": ("parquet", "regexp_full_match", "NOT regexp_full_match"),
    "any digits": ("parquet", "0|-?[1-9][0-9]*", "-?[0-9]*"),
    "other white space": ("csv", " \t\n\r\v\f", " "),
    "a type more": ("csv", "'VARCHAR', 'UUID'", "'VARCHAR', 'DOUBLE', 'UUID'"),
    "integers that are reals": ("parquet", "'UHUGEINT'", "'DOUBLE'"),
    "case": ("csv", "COLLATE C", "COLLATE NOCASE"),
    "no collation": ("csv", " COLLATE C", ""),
    "reals in json": ("lines", "json_type(\"uid\") = 'VARCHAR' OR", "TRUE OR"),
    "other objects": ("array", "json_type(object) = 'OBJECT'", "json_type(object) <> 'ARRAY'"),
    "a file of its own": ("parquet", "read_parquet($files", "read_parquet(['other.parquet']"),
    "another table": ("frame", 'FROM "frame\x01t"', 'FROM "people"'),
    "a join": ("frame", "$", ' JOIN "frame\x01u" USING (uid)'),
    "two parts as one": ("parquet", "$", None),
}


@pytest.mark.exhaustive
@pytest.mark.sampled(12)
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_view_that_is_another_is_refused(mutant: str, tmp_path: Path) -> None:
    kind, old, new = MUTANTS[mutant]
    text, types = views(tmp_path)[kind]
    if new is None:
        changed = f"{text} UNION {text}"
    elif old == "$":
        changed = text + new
    else:
        assert old in text
        changed = text.replace(old, new)
    with suppress(InternalError):
        assert read_view(changed, ["uid"]) != types


def test_a_view_that_is_not_of_the_pinned_types_is_seen(tmp_path: Path) -> None:
    text, types = views(tmp_path)["parquet"]
    assert read_view(text.replace("AS DATE", "AS TIMESTAMP"), ["uid"]) != types


def test_a_view_needs_the_id_in_its_canonical_form(tmp_path: Path) -> None:
    text, _ = views(tmp_path)["parquet"]
    with pytest.raises(InternalError):
        read_view(text, ["uid", "amount"])
    with pytest.raises(InternalError):
        read_view(text, ["uid", "missing"])


def test_a_certificate_says_how_its_table_shows_its_source(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("uid,x\n1,5\n2,6\n")
    with dp.connect(
        tmp_path / "t.csv",
        unit=dp.PrivacyUnit("uid", max_groups=1, max_rows=2),
        budget=dp.Budget(epsilon=3),
        ledger=":memory:",
    ) as session:
        document = session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1).certificate()
    assert verify(document).ok
    text = json.dumps(document)
    assert "read_csv($files" in text and str(tmp_path) not in text
    for old, new in (("hive_partitioning = false", "hive_partitioning = true"), ("[1-9]", "[0-9]")):
        if old in text:
            assert not verify(json.loads(text.replace(old, new))).ok
    view = document["claim"]["measurements"][0]["source"]
    view["view"] = None
    assert not verify(document).ok
