from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
import sys
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.cli import output

TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(TREES)
@settings(max_examples=50)
def test_json_says_what_it_was_given(value: object) -> None:
    assert json.loads(output.json_text(value)) == value


@given(st.text(st.characters()))
def test_json_is_safe_to_show(text: str) -> None:
    shown = output.json_text({"key": text})
    assert not any(ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F or 0xD800 <= ord(char) <= 0xDFFF for char in shown)
    assert json.loads(shown) == {"key": text}


def test_what_json_has_no_word_for_becomes_null_or_text() -> None:
    value = {"a": math.nan, "b": -math.inf, "c": dt.date(2026, 1, 2), "d": Fraction(3), "e": (Fraction(1, 4), None)}
    assert json.loads(output.json_text(value)) == {"a": None, "b": None, "c": "2026-01-02", "d": 3, "e": [0.25, None]}


def test_csv_can_be_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[list[object]] = [["a,b", 'say "hi"', "two\nlines", "\x1b[2J"], ["naïve", None, 1.5, Decimal("2.50")]]
    output.say_csv(["w", "x", "y", "z"], rows)
    read = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert read == [["w", "x", "y", "z"], rows[0], ["naïve", "", "1.5", "2.50"]]


def test_csv_on_a_terminal_cannot_move_the_cursor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    output.say_csv(["\x1b[2J"], [["\x9b31m\x07"]])
    assert capsys.readouterr().out == "\\x1b[2J\n\\x9b31m\\x07\n"


def test_lines_stay_lines_and_the_rest_is_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    output.say("one\ntwo\x1b[31m")
    output.remark("three\r")
    assert capsys.readouterr() == ("one\ntwo\\x1b[31m\n", "three\\r\n")
