"""CSV, JSON and Parquet, as a clumsy owner writes them: the pinned shape decides, and nothing is said.

`CLEAN` is what a known table answers before its file changes. Each hostile file is compared with the answers to a clean
twin: the same people, the hostile row left out, cut or NULL.
"""

from __future__ import annotations

import gzip
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.errors import InvalidParameter, SourceError, UnknownColumn
from tests.backends.asking import CLEAN_ROWS, Known, answers, connected, counted, exact

CSV = "uid,region,amount\n1,north,10\n2,south,20\n3,north,30\n"
CLEAN = {"north": (2, 2, 40.0), "south": (1, 1, 20.0)}
NOBODY = {"north": (0, 0, 0.0), "south": (0, 0, 0.0)}
PLUS_40 = {"north": (3, 3, 80.0), "south": (1, 1, 20.0)}
PLUS_NULL = {"north": (3, 2, 40.0), "south": (1, 1, 20.0)}

CSV_CASES: dict[str, tuple[str | bytes, dict[str, tuple[int, int, float]]]] = {
    "a text in a numeric column": (CSV + "4,north,abc\n", PLUS_NULL),
    "what looks like a number and is none": (CSV + "4,north,nan\n", PLUS_NULL),
    "infinity": (CSV + "4,north,-inf\n", PLUS_NULL),
    "a number beyond doubles": (CSV + "4,north,1e999\n", PLUS_NULL),
    "too many cells": (CSV + "4,north,40,extra,more\n", PLUS_40),
    "too few cells": (CSV + "4,north\n", PLUS_NULL),
    "one cell": (CSV + "4\n", CLEAN),
    "an empty unit": (CSV + ",north,40\n", CLEAN),
    "blank lines": (CSV + "\n\n\n", CLEAN),
    "other column order": ("amount,region,uid\n10,north,1\n20,south,2\n30,north,3\n", CLEAN),
    "a column that is not there": (
        "uid,region\n1,north\n2,south\n3,north\n",
        {"north": (2, 0, 0.0), "south": (1, 0, 0.0)},
    ),
    "no unit column": ("region,amount\nnorth,10\n", NOBODY),
    "a column more": ("uid,zzz,region,amount\n1,a,north,10\n2,b,south,20\n3,c,north,30\n", CLEAN),
    "a column twice": ("uid,region,amount,amount\n1,north,10,7\n2,south,20,7\n3,north,30,7\n", CLEAN),
    "a column twice but for case": ("uid,region,AMOUNT,amount\n1,north,7,10\n2,south,7,20\n3,north,7,30\n", CLEAN),
    "names in other case": ("UID,Region,AMOUNT\n1,north,10\n2,south,20\n3,north,30\n", CLEAN),
    "names with spaces": (" uid , region ,amount \n1,north,10\n2,south,20\n3,north,30\n", CLEAN),
    "an empty name": ("uid,region,,amount\n1,north,7,10\n2,south,7,20\n3,north,7,30\n", CLEAN),
    "no header, so that the first person is one": ("9,north,90\n1,north,10\n", NOBODY),
    "a header alone": ("uid,region,amount\n", NOBODY),
    "no bytes": ("", NOBODY),
    "a line end alone": ("\n", NOBODY),
    "bytes that are no text": (CSV.encode() + b"4,north\xff\xfe,40\n", CLEAN),
    "bytes that are no number": (CSV.encode() + b"4,north,\xff40\n", CLEAN),
    "UTF-16": (CSV.encode("utf-16"), NOBODY),
    "a byte-order mark": (b"\xef\xbb\xbf" + CSV.encode(), CLEAN),
    "a quote not closed, at the end": (CSV + '4,"north,40\n', CLEAN),
    "a quote in a cell": (CSV + '4,no"rth,40\n', CLEAN),
    "text after a quote": (CSV + '4,"north"x,40\n', PLUS_40),
    "a line end in quotes": (CSV + '4,"no\nrth",40\n', CLEAN),
    "Windows line ends": (CSV.replace("\n", "\r\n"), CLEAN),
    "old Macintosh line ends": (CSV.replace("\n", "\r"), CLEAN),
    "no line end at the end": (CSV.rstrip(), CLEAN),
    "NUL in a cell": (CSV + "4,no\0rth,40\n", CLEAN),
    "NUL alone": (CSV + "\0\n", CLEAN),
    "a cell of five million characters": (CSV + "4," + "x" * 5_000_000 + ",40\n", CLEAN),
    "a line of a hundred thousand cells": (CSV + "4," + ",x" * 100_000 + "\n", CLEAN),
    "a comment mark": (CSV + "#4,north,40\n", PLUS_40),
    "spaces around cells": (CSV + " 4 , north , 40 \n", PLUS_40),
    "another delimiter than the pinned one": (CSV.replace(",", ";"), NOBODY),
}


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Known]:
    """Tables that were connected when their sources were clean."""
    folder = tmp_path_factory.mktemp("clean")
    firsts = {
        "csv": write(folder / "t.csv", CSV),
        "by line": write(folder / "t.json", BY_LINE),
        "array": write(folder / "a.json", ARRAY),
        "parquet": write_parquet(folder / "t.parquet", PEOPLE),
    }
    known = {name: Known(first) for name, first in firsts.items()}
    assert all(known[name].counted(first) == CLEAN for name, first in firsts.items())
    return known


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.thinned(4)
@pytest.mark.parametrize(("content", "answer"), CSV_CASES.values(), ids=list(CSV_CASES))
def test_a_later_csv_is_read_in_the_pinned_shape_without_a_word(
    content: str | bytes,
    answer: dict[str, tuple[int, int, float]],
    known: dict[str, Known],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert known["csv"].counted(write(tmp_path / "t.csv", content)) == answer
    said = capfd.readouterr()
    assert (said.out, said.err) == ("", "")


def test_a_quote_that_is_opened_and_not_closed_runs_on_and_no_error_tells(tmp_path: Path) -> None:
    """What a row is, the format says; the reference tells owners to write files that keep to it."""
    table = Known(write(tmp_path / "t.csv", CSV))
    later = CSV.replace("2,south", '2,"south')
    assert table.counted(write(tmp_path / "t.csv", later)) == {"north": (1, 1, 10.0), "south": (0, 0, 0.0)}
    long = later + "9,south,1\n" * 500_000
    assert table.counted(write(tmp_path / "t.csv", long)) == {"north": (1, 1, 10.0), "south": (0, 0, 0.0)}


def test_a_hostile_file_among_good_ones_adds_nothing_and_takes_nothing_away(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    table = Known(tmp_path / "*.csv")
    for content in ("", "\n", "no,such,names\n1,2,3\n", "a,a\n1,1\n", "uid;region;amount\n9;north;90\n", "\0"):
        (tmp_path / "b.csv").write_text(content)
        assert table.counted(tmp_path / "*.csv") == CLEAN, content


def test_a_packed_csv_is_read_and_a_torn_one_is_an_error_before_any_charge(tmp_path: Path) -> None:
    packed = gzip.compress(CSV.encode())
    (tmp_path / "t.csv.gz").write_bytes(packed)
    assert counted({"t": tmp_path / "t.csv.gz"}) == CLEAN
    for torn in (packed[:15], b"\x1f\x8b", CSV.encode()):
        (tmp_path / "t.csv.gz").write_bytes(torn)
        with pytest.raises(SourceError, match="cannot be opened"):
            connected(tmp_path / "t.csv.gz")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty: it has no header"),
        ("\n\n", "empty: it has no header"),
        ("a,a\n1,2\n", "names a column twice"),
        ("a,A\n1,2\n", "names a column twice"),
        ("a\0b,c\n1,2\n", "not plain UTF-8"),
        (CSV.encode("utf-16"), "not plain UTF-8"),
        (b"\xff\xfe,c\n1,2\n", "not plain UTF-8"),
    ],
)
def test_the_first_csv_needs_a_header_that_can_be_pinned(content: str | bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SourceError, match=words) as caught:
        connected(file)
    assert caught.value.hint
    assert str(tmp_path) not in str(caught.value)


def test_names_stand_for_the_header_that_a_file_lacks(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("1,north,10\n2,south,20\n3,north,30\n")
    assert counted({"t": tmp_path / "t.csv"}, names=["uid", "region", "amount"]) == CLEAN


@pytest.mark.parametrize("names", ["uid", [], ["a", ""], ["a", 1], ["a", "a"], ["a", "A"], ["a\n"], 5, {"a": 1}])
def test_names_that_cannot_be_columns_are_refused(names: Any, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("1,2\n")
    with pytest.raises(InvalidParameter, match="names"):
        connected(tmp_path / "t.csv", names=names)


@pytest.mark.parametrize("name", ["t.json", "t.duckdb"])
def test_names_are_refused_for_files_that_have_their_own(name: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"a": 1}')
    with closing(open_database(tmp_path / "t.duckdb")) as db:
        db.execute("CREATE TABLE t AS SELECT 1 AS a")
    with pytest.raises(InvalidParameter, match="names= is for CSV files"):
        connected(tmp_path / name, names=["a"])


ROWS = CLEAN_ROWS
LAST = '{"uid": 5, "region": "south", "amount": 20}'
BY_LINE = "".join(json.dumps(row) + "\n" for row in ROWS)
ARRAY = json.dumps(ROWS)
JSON_CLEAN = {"north": (2, 2, 40.0), "south": (2, 2, 40.0)}
JSON_40 = {"north": (3, 3, 80.0), "south": (2, 2, 40.0)}
JSON_NULL = {"north": (3, 2, 40.0), "south": (2, 2, 40.0)}

ELEMENTS: dict[str, tuple[str | bytes, dict[str, tuple[int, int, float]]]] = {
    "a text in a numeric column": ('{"uid": 4, "region": "north", "amount": "abc"}', JSON_NULL),
    "a number as text": ('{"uid": 4, "region": "north", "amount": "40"}', JSON_40),
    "an extra key": ('{"uid": 4, "region": "north", "amount": 40, "zzz": 1}', JSON_40),
    "a key of emoji": ('{"uid": 4, "region": "north", "amount": 40, "é🦊": 1}', JSON_40),
    "a missing key": ('{"uid": 4, "region": "north"}', JSON_NULL),
    "a nested value": ('{"uid": 4, "region": "north", "amount": {"a": [1, 2]}}', JSON_NULL),
    "a list": ('{"uid": 4, "region": ["north"], "amount": 40}', JSON_CLEAN),
    "a key twice": ('{"uid": 4, "region": "north", "amount": 40, "amount": 50}', JSON_40),
    "keys in other case": ('{"UID": 4, "Region": "north", "AMOUNT": 40}', JSON_CLEAN),
    "NaN": ('{"uid": 4, "region": "north", "amount": NaN}', JSON_NULL),
    "infinity": ('{"uid": 4, "region": "north", "amount": -Infinity}', JSON_NULL),
    "a number beyond doubles": ('{"uid": 4, "region": "north", "amount": 1e999}', JSON_NULL),
    "four hundred digits": ('{"uid": 4, "region": "north", "amount": ' + "9" * 400 + "}", JSON_NULL),
    "half a character": (r'{"uid": 4, "region": "no\ud800rth", "amount": 40}', JSON_CLEAN),
    "an escaped NUL": (r'{"uid": 4, "region": "no\u0000rth", "amount": 40}', JSON_CLEAN),
    "a wrong escape": (r'{"uid": 4, "region": "no\xrth", "amount": 40}', JSON_CLEAN),
    "bytes that are no text": (b'{"uid": 4, "region": "no\xffrth", "amount": 40}', JSON_CLEAN),
    "null": ("null", JSON_CLEAN),
    "a number": ("17", JSON_CLEAN),
    "a text": ('"x"', JSON_CLEAN),
    "an array": ("[1, 2]", JSON_CLEAN),
    "an empty object": ("{}", JSON_CLEAN),
    "three thousand brackets": (
        '{"uid": 4, "region": "north", "amount": 40, "z": ' + "[" * 3000 + "]" * 3000 + "}",
        JSON_40,
    ),
    "brackets in a text": (r'{"uid": 4, "region": "north", "amount": 40, "z": "]}\",[{"}', JSON_40),
    "a cell of three million characters": ('{"uid": 4, "region": "' + "x" * 3_000_000 + '", "amount": 40}', JSON_CLEAN),
}


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.thinned(4)
@pytest.mark.parametrize("array", [False, True], ids=["by line", "array"])
@pytest.mark.parametrize(("element", "answer"), ELEMENTS.values(), ids=list(ELEMENTS))
def test_a_later_json_object_matters_to_itself_alone(
    element: str | bytes,
    answer: dict[str, tuple[int, int, float]],
    array: bool,
    known: dict[str, Known],
    tmp_path: Path,
) -> None:
    hostile = element if isinstance(element, bytes) else element.encode()
    if array:
        later = ARRAY.encode()[:-1] + b",\n" + hostile + b", " + LAST.encode() + b"]\n"
    else:
        later = BY_LINE.encode() + hostile + b"\n" + LAST.encode() + b"\n"
    assert known["array" if array else "by line"].counted(write(tmp_path / "t.json", later)) == answer


@pytest.mark.parametrize(
    ("first", "later", "answer"),
    [
        (BY_LINE, "", NOBODY),
        (ARRAY, "", NOBODY),
        (ARRAY, "[]", NOBODY),
        (ARRAY, "[ ]\n", NOBODY),
        (BY_LINE, "\n\n", NOBODY),
        (BY_LINE, ARRAY, CLEAN),
        (ARRAY, BY_LINE, CLEAN),
        (BY_LINE, BY_LINE.replace("\n", "\r\n"), CLEAN),
        (BY_LINE, "\ufeff" + BY_LINE, CLEAN),
        (ARRAY, "\ufeff" + ARRAY, CLEAN),
        (ARRAY, json.dumps(ROWS, indent=1), CLEAN),
        (BY_LINE, json.dumps(ROWS[0], indent=1), NOBODY),
        (BY_LINE, BY_LINE + '{"uid": 4, "region": "north"\n', CLEAN),
        (BY_LINE, "xx\n" + BY_LINE, CLEAN),
        (ARRAY, "17", NOBODY),
    ],
)
def test_a_later_json_file_of_another_form_is_read_or_is_nothing(
    first: str, later: str, answer: dict[str, tuple[int, int, float]], known: dict[str, Known], tmp_path: Path
) -> None:
    table = known["array" if first is ARRAY else "by line"]
    assert table.counted(write(tmp_path / "t.json", later)) == answer


@pytest.mark.parametrize("ending", ["json.gz", "jsonl.gz", "ndjson.gz"])
def test_a_torn_json_is_an_error_before_any_charge(ending: str, tmp_path: Path) -> None:
    for torn in (gzip.compress(BY_LINE.encode())[:15], b"\x1f\x8b", BY_LINE.encode()):
        with pytest.raises(SourceError, match="cannot be opened") as caught:
            connected(write(tmp_path / f"t.{ending}", torn))
        assert caught.value.hint


@pytest.mark.parametrize("content", ["", "[]", "17", "[1, 2]", "null", '"x"', "xx"])
def test_the_first_json_needs_an_object(content: str, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(SourceError, match="names no columns"):
        connected(tmp_path / "t.json")


def test_an_array_that_is_not_closed_is_no_json_file(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(ARRAY[:-5])
    with pytest.raises(SourceError, match="not closed"):
        connected(tmp_path / "t.json")


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["no mark", "a byte-order mark"])
@pytest.mark.parametrize("line", ["[1, 2]", "[", "]", '"["', "17", "", "[{}]"])
def test_the_first_line_of_a_file_of_lines_matters_to_itself_alone(line: str, mark: str, tmp_path: Path) -> None:
    for ending in ("jsonl", "ndjson"):
        file = write(tmp_path / f"t.{ending}", mark + line + "\n" + BY_LINE)
        assert counted({"t": file}) == CLEAN
        (tmp_path / f"t.{ending}.gz").write_bytes(gzip.compress(file.read_bytes()))
        assert counted({"t": tmp_path / f"t.{ending}.gz"}) == CLEAN


def test_line_breaks_of_unicode_break_no_line_of_json(tmp_path: Path) -> None:
    rows = "".join(
        f'{{"uid": {i}, "region": "north", "amount": 10, "z": "{c}"}}\n' for i, c in enumerate("\u2028\u2029\x85a")
    )
    for mark in ("", "\ufeff"):
        assert counted({"t": write(tmp_path / "t.jsonl", mark + rows)})["north"] == (4, 4, 40.0)


@pytest.mark.parametrize("array", [False, True], ids=["by line", "array"])
def test_a_key_in_another_case_gives_no_second_column_and_is_no_reason_to_refuse(array: bool, tmp_path: Path) -> None:
    rows = [*ROWS, {"UID": 9, "Region": "north", "AMOUNT": 5}]
    text = json.dumps(rows) if array else "".join(json.dumps(r) + "\n" for r in rows)
    with connected({"t": write(tmp_path / "t.json", text)}, unit=dp.PrivacyUnit("uid", 1, 1)) as session:
        assert list(session._desk.tables[0].columns) == ["uid", "region", "amount"]
        assert exact(session, "SELECT COUNT(*) AS n FROM t")[()] == [3]


def test_keys_that_look_like_a_part_of_the_view_are_names(tmp_path: Path) -> None:
    rows = [{"uid": i, "$files": i, "$header": "a", "object": '{"x": 2}', "CASE": 1} for i in (1, 2)]
    for text in (json.dumps(rows), "".join(json.dumps(r) + "\n" for r in rows)):
        write(tmp_path / "t.json", text)
        found = answers(tmp_path / "t.json", 'SELECT COUNT("$files") AS a, COUNT("$header") AS b FROM t')
        assert found[()] == [2, 2]
        for unit in ("uid", "object", "CASE"):
            with connected({"t": tmp_path / "t.json"}, unit=dp.PrivacyUnit(unit, 1, 9)) as session:
                assert exact(session, "SELECT COUNT(*) AS n FROM t")[()] == [2]


NAMES = ["a[1]", "a*", "a?", "[!b]", "a[", "~a", "a'b", "a{b,c}", "**", "a\\b"]


@pytest.mark.exhaustive
@pytest.mark.sampled(7)
@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet"])
def test_a_file_whose_name_is_a_pattern_is_read_itself(name: str, ending: str, tmp_path: Path) -> None:
    """The database would read another file that the pattern matches, by this one's header."""

    def made(stem: str, people: int) -> Path:
        rows = [{"uid": i, "amount": 1} for i in range(people)]
        plain = tmp_path / f"plain.{ending}"
        if ending == "parquet":
            write_parquet(plain, f"SELECT i AS uid, 1 AS amount FROM range({people}) r(i)")
        elif ending == "csv":
            write(plain, "uid,amount\n" + "".join(f"{row['uid']},1\n" for row in rows))
        else:
            write(plain, json.dumps(rows) if ending == "json" else "".join(json.dumps(r) + "\n" for r in rows))
        return plain.rename(tmp_path / f"{stem}.{ending}")

    for decoy in ("a1", "ab", "abc", "b", "x", "c"):
        made(decoy, 40)
    with connected({"t": made(name, 3)}, unit=dp.PrivacyUnit("uid", 1, 1)) as session:
        assert exact(session, "SELECT COUNT(*) AS n FROM t")[()] == [3]


def test_keys_are_columns_whatever_they_are_called(tmp_path: Path) -> None:
    rows = [{"a/b~c": i, 'quote"d': "x", "Ünï": None, "'; DROP": 2} for i in (1, 2)]
    for text in (json.dumps(rows), "".join(json.dumps(r) + "\n" for r in rows)):
        (tmp_path / "t.json").write_text(text)
        sql = 'SELECT COUNT("a/b~c") AS a, COUNT("quote""d") AS b, COUNT("Ünï") AS c, COUNT("\'; DROP") AS d FROM t'
        assert sorted(answers(tmp_path / "t.json", sql)[()]) == [0, 2, 2, 2]


def write(file: Path, content: str | bytes) -> Path:
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def write_parquet(file: Path, query: str) -> Path:
    with open_database() as connection:
        connection.execute(f"COPY ({query}) TO '{file}' (FORMAT parquet)")
    return file


PEOPLE = (
    "SELECT * FROM (VALUES (1::BIGINT, 'north', 10.0::DOUBLE), (2, 'south', 20), (3, 'north', 30)) "
    "t(uid, region, amount)"
)
PARQUET_CASES: dict[str, tuple[str, dict[str, tuple[int, int, float]]]] = {
    "text numbers": ("SELECT uid::VARCHAR AS uid, region, amount::VARCHAR AS amount FROM ({})", CLEAN),
    "text that is none": (
        "SELECT uid, region, 'abc' AS amount FROM ({})",
        {"north": (2, 0, 0.0), "south": (1, 0, 0.0)},
    ),
    "float ids, as pandas writes them beside NULL": (
        "SELECT uid::DOUBLE AS uid, region, amount FROM ({}) UNION ALL SELECT NULL, 'north', 40",
        NOBODY,
    ),
    "decimal ids": ("SELECT uid::DECIMAL(38,10) AS uid, region, amount FROM ({})", NOBODY),
    "decimals and huge integers": (
        "SELECT uid, region, CASE WHEN uid < 9 THEN amount::DECIMAL(18,3) ELSE amount::HUGEINT END AS amount FROM ({})",
        CLEAN,
    ),
    "dates for numbers": (
        "SELECT uid, region, DATE '2020-01-01' AS amount FROM ({})",
        {"north": (2, 0, 0.0), "south": (1, 0, 0.0)},
    ),
    "lists for numbers": (
        "SELECT uid, region, [amount] AS amount FROM ({})",
        {"north": (2, 0, 0.0), "south": (1, 0, 0.0)},
    ),
    "names in other case": ("SELECT uid AS UID, region AS Region, amount AS Amount FROM ({})", CLEAN),
    "other order": ("SELECT amount, uid, region FROM ({})", CLEAN),
    "a column more": ("SELECT 1 AS z, * FROM ({})", CLEAN),
    "no unit": ("SELECT region, amount FROM ({})", NOBODY),
    "no rows": ("SELECT * FROM ({}) WHERE false", NOBODY),
    "one row": ("SELECT * FROM ({}) WHERE uid = 2", {"north": (0, 0, 0.0), "south": (1, 1, 20.0)}),
    "categories": ("SELECT uid, region::ENUM('north', 'south') AS region, amount FROM ({})", CLEAN),
    "bytes": ("SELECT uid, region::BLOB AS region, amount FROM ({})", CLEAN),
}


@pytest.mark.parametrize(("query", "answer"), PARQUET_CASES.values(), ids=list(PARQUET_CASES))
def test_a_later_parquet_file_is_read_in_the_pinned_types(
    query: str, answer: dict[str, tuple[int, int, float]], known: dict[str, Known], tmp_path: Path
) -> None:
    file = write_parquet(tmp_path / "t.parquet", query.format(PEOPLE))
    assert known["parquet"].counted(file) == answer


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("query", "answer"), PARQUET_CASES.values(), ids=list(PARQUET_CASES))
def test_a_parquet_file_beside_others_changes_how_none_of_them_is_read(
    query: str, answer: dict[str, tuple[int, int, float]], known: dict[str, Known], tmp_path: Path
) -> None:
    write_parquet(tmp_path / "a.parquet", PEOPLE)
    shift = f"SELECT * REPLACE (uid + 10 AS uid) FROM ({PEOPLE})"
    table = known["parquet"]
    write_parquet(tmp_path / "b.parquet", query.format(shift).replace("uid = 2", "uid = 12"))
    both = {r: tuple(x + y for x, y in zip(CLEAN[r], answer[r], strict=True)) for r in CLEAN}
    assert table.counted(tmp_path / "*.parquet") == both


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 100, b"hello, world"])
def test_what_is_no_parquet_file_is_an_error_before_any_charge(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(SourceError, match="cannot be read as Parquet") as caught:
        connected(tmp_path / "t.parquet")
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("missing.parquet", "There is no file"),
        ("missing-*.csv", "There is no file"),
        (".", "is a directory"),
        ("t.xlsx", "cannot be told from its name"),
        ("t", "cannot be told from its name"),
        ("mixed/*", "of several kinds"),
    ],
)
def test_a_path_that_leads_nowhere_is_said_without_the_rest_of_the_disk(
    path: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mixed").mkdir()
    for name in ("t.xlsx", "t", "mixed/a.csv", "mixed/b.json"):
        (tmp_path / name).write_text(CSV)
    with pytest.raises(SourceError, match=words) as caught:
        connected(path)
    assert caught.value.hint
    assert str(tmp_path) not in str(caught.value)


@pytest.mark.parametrize("path", ["http://x.example/y.csv", "s3://bucket/x.parquet", "file:///etc/passwd"])
def test_only_local_paths_are_connected(path: str) -> None:
    with pytest.raises(SourceError, match="cannot be connected"):
        connected(path)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (
            "shop.sqlite",
            "INSTALL sqlite; LOAD sqlite; COPY (FROM sqlite_scan('shop.sqlite', 'TABLE')) TO 'TABLE.parquet'",
        ),
        ("s3://b/x.parquet", "INSTALL httpfs; LOAD httpfs; COPY (FROM 's3://b/x.parquet') TO 'TABLE.parquet'"),
        ("https://u:secret@h/x.csv", "COPY (FROM 'https://…') TO 'TABLE.parquet'"),
        ("postgresql://u:secret@h/db", "COPY (FROM postgres_scan('postgresql://…', 'public', 'TABLE'))"),
    ],
)
def test_what_an_extension_of_duckdb_reads_is_refused_with_the_line_to_write(
    path: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.sqlite").write_bytes(b"SQLite format 3")
    with pytest.raises(SourceError, match="discreet installs none") as caught:
        connected(path)
    assert line in (caught.value.hint or "") and "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "source", ["", "a\0b.csv", b"x.csv", 5, None, [1, 2], object(), {}, {"": "x.csv"}, {5: "x.csv"}]
)
def test_what_is_no_source_is_refused(source: Any) -> None:
    with pytest.raises(InvalidParameter):
        connected(source)


@pytest.mark.parametrize(
    ("file", "table"),
    [
        ("visits.csv", "visits"),
        ("visits.2024.csv", "visits.2024"),
        ("visits.CSV.GZ", "visits"),
        ("visits;--.csv", "visits;--"),
        ("été.parquet", "été"),
        ("unit rows.csv", "unit rows"),
        ("main.csv", "main"),
    ],
)
def test_a_file_gives_its_table_a_name(file: str, table: str, tmp_path: Path) -> None:
    path = tmp_path / file
    if path.suffix == ".parquet":
        write_parquet(path, PEOPLE)
    else:
        path.write_bytes(gzip.compress(CSV.encode()) if path.suffix.lower() == ".gz" else CSV.encode())
    with connected(path) as session:
        assert session.tables == [table]
        assert exact(session, f'SELECT COUNT(*) FROM "{table}"')[()] == [3]


def test_a_source_that_is_gone_or_broken_is_refused_before_the_charge_without_its_words(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "t.parquet", PEOPLE.replace("'north'", "'SECRET'"))
    for damage in (file.unlink, lambda: file.write_bytes(b""), lambda: file.write_bytes(b"SECRET" * 1000)):
        write_parquet(file, PEOPLE.replace("'north'", "'SECRET'"))
        with connected(file) as session:
            damage()
            with pytest.raises(SourceError) as caught:
                session.sql("SELECT SUM(CAST(region = 'x' AS INT)) AS n FROM t", epsilon=1)
            assert session.remaining == dp.Budget(1000, "0.1", per_query=1000)
        assert "SECRET" not in repr(caught.value) + str(caught.value)


def test_a_stored_answer_needs_no_source(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "t.parquet", PEOPLE)
    with connected(file) as session:
        first = session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1)
        file.unlink()
        assert session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1).rows == first.rows


def test_columns_are_checked_against_the_pinned_shape(tmp_path: Path) -> None:
    file, ledger = write(tmp_path / "t.csv", CSV), tmp_path / "ledger"
    assert counted({"t": file}, ledger=ledger) == CLEAN
    write(file, "uid,other\n1,2\n")
    assert counted({"t": file}, ledger=ledger) == NOBODY
    with pytest.raises(UnknownColumn, match="'other', which no table has"):
        counted({"t": file}, ledger=ledger, columns={"other": dp.Range(0, 1)})


@pytest.mark.parametrize(
    ("first", "later"),
    [
        (("t.csv", CSV), ("t.json", BY_LINE)),
        (("t.json", ARRAY), ("t.csv", CSV)),
        (("t.csv", CSV.replace(",", "\t")), ("t.tsv", CSV.replace(",", "\t"))),
    ],
)
def test_a_known_table_may_come_in_another_format(
    first: tuple[str, str], later: tuple[str, str], tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    assert counted({"t": write(tmp_path / first[0], first[1])}, ledger=ledger) == CLEAN
    assert counted({"t": write(tmp_path / later[0], later[1])}, ledger=ledger) == CLEAN
    assert counted({"t": write_parquet(tmp_path / "t.parquet", PEOPLE)}, ledger=ledger) == CLEAN
