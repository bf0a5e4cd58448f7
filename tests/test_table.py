from __future__ import annotations

import datetime as dt
import math
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.table import measured, render, render_html, shorten, uncertain, visible, width

# What a terminal may obey: C0, DEL, C1, and the marks that reorder or split lines.
OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")

CELLS = st.none() | st.text(st.characters())


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    assert render(["ward", "n"], [["surgery", "1,204"], ["x", "17"]]).splitlines() == [
        "ward         n",
        "───────  ─────",
        "surgery  1,204",
        "x           17",
    ]


def test_a_column_of_values_with_their_errors_counts_as_numbers() -> None:
    lines = render(["n"], [["1,204 ± 17"], ["9 ± 17"], ["-3.5e-07"], ["12%"], ["nan"]]).splitlines()
    assert [line for line in lines[2:] if not line.startswith(" ")] == ["1,204 ± 17"]


def test_null_is_shown_as_null_and_does_not_make_a_column_of_numbers_a_text() -> None:
    assert render(["n"], [["1234567"], [None]]).splitlines()[2:] == ["1234567", "   NULL"]


def test_the_given_sides_win() -> None:
    assert render(["n", "t"], [["1", "a"]], align=["left", "right"]).splitlines()[2] == "1  a"
    assert render(["name", "text"], [["1", "a"]], align=["left", "right"]).splitlines()[2] == "1        a"


def test_a_table_without_rows_has_its_head() -> None:
    assert render(["a", "b"], []) == "a  b\n─  ─\n(no rows)"


@pytest.mark.parametrize(
    ("text", "cells"),  # widths as Unicode Standard Annex 11 and the common terminals have them
    [
        ("abc", 3),
        ("naïve", 5),
        ("nai\u0308ve", 5),
        ("東京", 4),
        ("ｱ", 1),
        ("한글", 4),
        ("🦊", 2),
        ("❤️", 2),
        ("می\u200cشود", 5),
    ],
)
def test_width_counts_terminal_cells(text: str, cells: int) -> None:
    assert width(text) == cells


def test_wide_characters_keep_the_columns_aligned() -> None:
    lines = render(["city", "n"], [["東京", "1"], ["Oslo", "22"]]).splitlines()
    assert {width(line) for line in lines} == {8}


def test_escape_sequences_and_reordering_marks_are_written_out() -> None:
    text = render(["key\x1b]0;owned\x07"], [["\x1b[2J\x9b31m"], ["a\nb\tc\r"], ["\u202eevil"], ["\u2028"]])
    assert not OBEYED.search(text.replace("\n", ""))
    assert text.count("\n") == 5
    assert r"\x1b[2J\x9b31m" in text
    assert r"a\nb\tc\r" in text
    assert r"\u202eevil" in text


@given(CELLS, CELLS)
def test_nothing_that_a_terminal_obeys_comes_out(name: str | None, cell: str | None) -> None:
    text = render([name or "", "n"], [[cell, "1"]], max_width=40)
    assert not OBEYED.search(text.replace("\n", ""))
    assert text.count("\n") == 2
    text.encode("utf-8")  # no lone surrogates


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=4), st.integers(20, 60))
def test_texts_are_shortened_to_the_width(rows: list[list[str | None]], most: int) -> None:
    lines = render(["a", "b", "c"], rows, align=["left"] * 3, max_width=most).split("\n")
    assert max(width(line) for line in lines) <= most
    assert len(lines) == 2 + max(1, len(rows))


def test_a_number_is_never_shortened_but_its_heading_is() -> None:
    lines = render(["a very long name for so short a number"], [["1234567890"]], max_width=8).splitlines()
    assert lines[2] == "1234567890"
    assert lines[0] == "a very lo…"


def test_a_huge_cell_costs_little() -> None:
    assert width(render(["t"], [["x" * 1_000_000]], max_width=80).splitlines()[2]) == 80


@given(st.text(st.characters()), st.integers(1, 30))
def test_shorten_keeps_a_prefix(text: str, cells: int) -> None:
    short = shorten(text, cells)
    assert width(short) <= cells
    assert short == text or (short.endswith("…") and text.startswith(short[:-1]))


def test_ordinary_text_of_any_language_is_shown_as_it_is() -> None:
    for text in ("plain", "naïve", "Ελλάδα", "北京", "می\u200cشود", "👩\u200d👩\u200d👧", "50 %", "a\\b"):
        assert visible(text) == text


def test_rows_of_another_length_are_a_programming_error() -> None:
    with pytest.raises(TypeError, match="2 entries for 1 columns"):
        render(["a"], [["1", "2"]])
    with pytest.raises(TypeError, match="align has 1 entries for 2 columns"):
        render(["a", "b"], [["1", "2"]], align=["left"])


@given(st.lists(st.tuples(CELLS, CELLS), max_size=3))
def test_html_is_well_formed_and_holds_no_tag_of_a_cell(rows: list[tuple[str | None, str | None]]) -> None:
    tree = ET.fromstring(render_html(["<script>", "b&c"], rows))
    assert {node.tag for node in tree.iter()} <= {"table", "thead", "tbody", "tr", "th", "td", "em"}
    assert [node.text for node in tree.iter("th")] == ["<script>", "b&c"]
    assert len(list(tree.iter("td"))) == 2 * len(rows)


@pytest.mark.parametrize(
    ("value", "interval", "cell"),
    [
        (1_204, (1_187.0, 1_221.0), "1,204 ± 17"),
        (-3, (-20.5, 14.0), "-3 ± 18*"),
        (38.5816, (38.2, 38.9), "38.58 ± 0.38"),
        (1_234_567.8, (1_230_000.0, 1_239_000.0), "1,234,568 ± 4,568"),
        (5.25, (0.0, 10.5), "5.2 ± 5.3*"),
        (0.00012, (0.0001, 0.00015), "0.000120 ± 0.000030"),
        (1e-14, (0.0, 2e-14), "1e-14 ± 1e-14*"),
        (-0.004, (-1.0, 1.0), "0.0 ± 1.0*"),
        (7, (7.0, 7.0), "7"),
        (1_234_567, None, "1,234,567"),
        (2.5, None, "2.5"),
        (3, (-math.inf, math.inf), "3 ± ∞*"),
        (198.02, (195.1, 200.0), "198.0 ± 2.9"),
        (199.02, (195.1, 200.0), "199.0 +1.0 −3.9"),
        (200, (150.5, 200.0), "200 +0 −50"),
        (-1_000, (-3_500.0, -900.0), "-1,000 +100 −2,500*"),
        ([1, 2.5, None], [(0.0, 2.0), (2.0, 3.0), None], "[1 ± 1*, 2.50 ± 0.50, NULL]"),
        (["a", "b"], [None, None], "[a, b]"),
        (["a"], None, "[a]"),
        ({"a": 1_200, math.inf: 3}, {"a": (1_000.0, 1_400.0), math.inf: (3.0, 3.0)}, "{a=1,200 ± 200, ∞=3}"),
        (dt.date(2026, 1, 2), (dt.date(2026, 1, 1), dt.date(2026, 2, 1)), "2026-01-02 (2026-01-01 to 2026-02-01)"),
        (dt.date(2026, 1, 2), (dt.date(2026, 1, 2), dt.date(2026, 1, 2)), "2026-01-02"),
        (True, None, "True"),
        ("surgery", None, "surgery"),
        (None, None, None),
        (dt.date(2026, 1, 2), None, "2026-01-02"),
    ],
)
def test_a_value_is_written_with_its_error(value: object, interval: object, cell: str | None) -> None:
    assert measured(value, interval) == cell


@given(st.floats(-1e9, 1e9), st.floats(0, 1e9), st.floats(1e-6, 1e9))
def test_the_shown_error_covers_the_interval(value: float, below: float, above: float) -> None:
    low, high = value - below, value + above
    text = measured(value, (low, high))
    assert text is not None
    assert text.endswith("*") == (max(high - value, value - low) >= abs(value))
    text = text.removesuffix("*")
    if "±" in text:
        shown, half = (float(part.replace(",", "")) for part in text.split(" ± "))
        up, down, larger = half, half, max(below, above)
        digit = 10.0 ** -len(text.split(" ± ")[1].partition(".")[2])
    else:
        assert max(below, above) > 1.99 * min(below, above)
        written = text.replace("−", "+").split(" +")
        shown, up, down = (float(part.replace(",", "")) for part in written)
        digit, larger = 10.0 ** -len(written[1].partition(".")[2]), above
        assert down <= below + 1.5 * digit + 1e-11 * (abs(value) + down)
    slack = 1e-11 * (abs(value) + max(up, down))
    assert abs(shown - value) <= digit / 2 + slack
    assert shown - down - slack <= low < high <= shown + up + slack
    assert up <= larger + 1.5 * digit + slack


def test_values_with_errors_stand_to_the_right() -> None:
    cells = [measured(5, (3.0, 7.0)), measured(1e-14, (0.0, 2e-14)), measured(3, (-math.inf, math.inf)), None]
    lines = render(["n"], [[cell] for cell in cells]).splitlines()
    assert [line.rstrip("*") for line in lines[2:]] == [
        "        5 ± 2",
        "1e-14 ± 1e-14",
        "        3 ± ∞",
        "         NULL",
    ]
    assert [line.endswith("*") for line in lines[2:]] == [False, True, True, False]
    assert {width(line) for line in lines if line.endswith("*")} == {width(lines[1])}


def test_a_number_is_marked_where_its_margin_of_error_reaches_it() -> None:
    assert [uncertain(10, (10 - w, 10 + w)) for w in (0.0, 9.9, 10.0, math.inf)] == [False, False, True, True]
    assert [uncertain(-10, (-20.0, -9.0)), uncertain(0, (-1.0, 1.0)), uncertain(0, (0.0, 0.0))] == [True, True, False]
    assert uncertain([5, 5], [(4.0, 6.0), (0.0, 10.0)]) and not uncertain({"a": 5}, {"a": (4.0, 6.0)})
    made = (None, (-math.inf, math.inf))  # √(n − 30): NULL for the noisy n, and perhaps a number without noise
    assert uncertain(*made) and measured(*made) == "NULL ± ∞*" and measured(None) is None
    moment = dt.date(2026, 1, 2)
    assert not any(uncertain(v, i) for v, i in ((None, None), (3, None), (moment, (moment, moment)), (True, None)))
