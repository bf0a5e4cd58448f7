from __future__ import annotations

import csv
from fractions import Fraction
from typing import Any

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.cli.options import Amount, BudgetAmount, ColumnNames, RangeOf, ValuesOf, fields
from discreet.errors import InvalidParameter
from discreet.privacy.exact import positive, probability


def read(kind: Amount | BudgetAmount | RangeOf | ValuesOf | ColumnNames, text: str) -> Any:
    return kind.convert(text, click.Option(["--it"]), None)


@pytest.mark.parametrize(("text", "value"), [("0.1", (1, 10)), ("1/3", (1, 3)), ("1e-6", (1, 10**6)), ("3", (3, 1))])
def test_an_amount_is_exact(text: str, value: tuple[int, int]) -> None:
    assert read(Amount(positive), text) == Fraction(*value)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "half", "", "1/0", "1e999999999", "0x10"])
def test_an_amount_that_is_none_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(InvalidParameter, match="--it"):
        read(Amount(positive), text)


def test_a_delta_lies_below_one() -> None:
    assert read(Amount(probability), "0") == 0
    with pytest.raises(InvalidParameter, match="--it"):
        read(Amount(probability), "1")


def test_a_budget_has_epsilon_and_perhaps_delta() -> None:
    assert read(BudgetAmount(), "3") == (3, None)
    assert read(BudgetAmount(), "3, 1e-6") == (3, Fraction(1, 10**6))


@pytest.mark.parametrize("text", ["3,", "0", "-1", "a", "3,1", "3,-1", "3,x", "", ",1e-6"])
def test_a_bad_budget_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        read(BudgetAmount(), text)
    assert "--it 3,1e-6" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("amount=0:200", ("amount", 0, 200, False)),
        ("x=-5:5", ("x", -5, 5, False)),
        ("x=-5:-1", ("x", -5, -1, False)),
        ("x=0.1:1e3", ("x", Fraction(1, 10), 1000, False)),
        ("age=0:120:integer", ("age", 0, 120, True)),
        ("a=b=1:2", ("a=b", 1, 2, False)),
        ("größe m=0:3", ("größe m", 0, 3, False)),
    ],
)
def test_a_range_names_its_column_and_bounds(text: str, bounds: tuple[object, ...]) -> None:
    assert read(RangeOf(), text) == bounds


@pytest.mark.parametrize(
    "text", ["amount", "amount=", "amount=0", "amount=0:", "amount=:5", "=0:5", "a=1:2:3", "0:5", ""]
)
def test_a_range_with_a_part_missing_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        read(RangeOf(), text)
    assert "COLUMN=LOW:HIGH" in caught.value.message
    assert "--range amount=0:200" in caught.value.hint


@pytest.mark.parametrize("text", ["a=x:5", "a=0:nan", "a=0:inf", "a=1,5:2"])
def test_a_bound_that_is_no_number_is_refused_by_its_column(text: str) -> None:
    with pytest.raises(InvalidParameter, match="--range a"):
        read(RangeOf(), text)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("region=north,south", ["north", "south"]),
        ("region= north , south ", ["north", "south"]),
        ('city="Paris, TX",Rome', ["Paris, TX", "Rome"]),
        ('q="say ""hi""",x', ['say "hi"', "x"]),
        ("month=1,2,-3", [1, 2, -3]),
        ("month=1,NULL,2", [1, None, 2]),
        ('month="1","2"', ["1", "2"]),
        ('word="NULL",NULL', ["NULL", None]),
        ("zip=02139,10001", ["02139", "10001"]),
        ("mixed=1,2,N", ["1", "2", "N"]),
        ("big=99999999999999999999", ["99999999999999999999"]),
        ("sign=+1,1", ["+1", "1"]),
        ("income=<=50K,>50K", ["<=50K", ">50K"]),
        ("blank=,a", ["", "a"]),
        ("東=京,都", ["京", "都"]),
    ],
)
def test_values_are_read_by_the_rules_of_csv(text: str, keys: list[object]) -> None:
    column, found = read(ValuesOf(), text)
    assert column == text.partition("=")[0]
    assert found == keys
    assert [type(key) for key in found] == [type(key) for key in keys]


def test_values_in_single_quotes_are_taken_for_a_slip() -> None:
    with pytest.raises(InvalidParameter) as caught:
        ValuesOf().convert("sex='F','M'", None, None)
    assert "write --values sex=F,M;" in (caught.value.hint or "")
    assert ValuesOf().convert("""s="'F'",o'k""", None, None) == ("s", ["'F'", "o'k"])


@pytest.mark.parametrize("text", ["region", "region=", "=a,b", ""])
def test_values_with_a_part_missing_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        read(ValuesOf(), text)
    assert "--values region=north,south" in caught.value.hint


@pytest.mark.parametrize("text", ['a="b', 'a=b"c', 'a="b"c', 'a="', 'a=b,"c"d,e'])
def test_a_quote_without_its_other_half_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter, match="quote"):
        read(ValuesOf(), text)


@pytest.mark.exhaustive
@settings(max_examples=25)
@given(st.lists(st.text(st.characters(exclude_characters='"\r\n', codec="utf-8")), min_size=1))
def test_fields_agree_with_the_csv_module_on_what_it_writes(cells: list[str]) -> None:
    row = ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)
    assert [text for text, _ in fields("--values", row)] == next(csv.reader([row])) == cells


def test_names_may_be_quoted_and_may_not_be_empty() -> None:
    assert read(ColumnNames(), 'age,"hours, weekly",x') == ["age", "hours, weekly", "x"]
    with pytest.raises(InvalidParameter, match="empty name"):
        read(ColumnNames(), "a,,b")
