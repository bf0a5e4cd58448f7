"""Between which numbers an expression lies: what the database computes lies there, to the last digit of what a double
does not hold.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from discreet.backends.connection import open_database
from discreet.verify.certificate.checker import check
from discreet.verify.kinds import span_of
from discreet.verify.shapes import read
from tests.exhaustive.verify.test_forged_shapes import answers, broken, counted, honest, row
from tests.verify.forging import Document, forged, measurement, sealed

BIG = 1 << 62
DECIMALS = ["0.5", "2.5", "0.1", "0.30000000000000004", "0.99999999953433871", "123456789.12345678",
            "4503599627370495.5", f"{BIG + 511}.0", f"{BIG + 511}.5", f"{BIG - 1}.75",
            "99999999999999999999999999999999999.25", "0.99999904632568359375",
            "12345678901234567890.123456789"]  # fmt: skip
NUMBERS = [
    "0",
    "1",
    "-7",
    f"{BIG + 513}",
    "1e3",
    "2.3283064365386963e-10",
    "9.223372036854775807e18",
    "1.5e18",
    *DECIMALS,
]
SPANS = [
    *NUMBERS,
    *(f"-{n}" for n in NUMBERS if not n.startswith("-")),
    *(f"CAST({n} AS DOUBLE)" for n in NUMBERS),
    *(f"CAST(-{n} AS DOUBLE)" for n in DECIMALS),
    *(f"CAST(CAST({n} AS DOUBLE) AS HUGEINT)" for n in NUMBERS),
    *(f"TRY_CAST({n} AS HUGEINT)" for n in NUMBERS),
    *(f"TRY_CAST({n} AS BIGINT)" for n in NUMBERS),
    *(f"CAST(round(CAST({n} AS DOUBLE)) AS HUGEINT)" for n in NUMBERS),
    *(f"CAST({n} AS DOUBLE) * CAST(134217728.0 AS DOUBLE)" for n in NUMBERS),
    *(f"CAST({n} AS DOUBLE) * CAST(0.1 AS DOUBLE)" for n in NUMBERS),
    f"least(CAST({BIG + 513} AS BIGINT), {BIG + 514})",
]


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.parametrize("expression", SPANS)
def test_the_database_computes_what_lies_in_the_span(expression: str) -> None:
    low, high = span_of(read(f"SELECT {expression}").expressions[0], frozenset())
    with open_database() as database:
        (value,) = database.execute(f"SELECT {expression}").fetchone() or (None,)
    if value is None:  # TRY_CAST of what no whole number holds
        assert expression.startswith("TRY_CAST")
        return
    assert all(math.isinf(end) or isinstance(end, int | Fraction | float) for end in (low, high))
    assert math.isinf(low) or Fraction(low) <= Fraction(value)
    assert math.isinf(high) or Fraction(value) <= Fraction(high)
    assert math.isinf(low) == math.isinf(high)


def test_most_of_these_spans_are_one_number_or_two_digits_wide() -> None:
    found = [span_of(read(f"SELECT {e}").expressions[0], frozenset()) for e in SPANS]
    known = [s for s in found if not math.isinf(s[0])]
    assert len(known) > 0.8 * len(found)
    widths = [(Fraction(high) - Fraction(low), abs(Fraction(high))) for low, high in known]
    assert all(width <= max(most / (1 << 49), Fraction(2)) for width, most in widths)


def centred(value: str, centre: int) -> str:
    return counted(f"{value} AS d", f"(CAST(sum(d) AS HUGEINT) - CAST(count(d) AS HUGEINT) * {centre})")


@pytest.mark.parametrize(
    ("value", "centre"),
    [
        (f"TRY_CAST({BIG + 511}.0 AS HUGEINT)", BIG - 1),
        (f"TRY_CAST(-{BIG + 511}.0 AS HUGEINT)", -BIG - 1),
        (f'CAST(least(greatest(s."cost", {BIG + 513}), {BIG + 513}) AS BIGINT)', BIG + 512),
        (f'CAST(coalesce(least(greatest(s."cost", {BIG + 513}), {BIG + 513}), {BIG + 513}) AS BIGINT)', BIG + 512),
        (f'CAST(CASE WHEN s."cost" > 1 THEN {BIG + 513} ELSE CAST({BIG} AS DOUBLE) END AS HUGEINT)', BIG + 512),
    ],
)
def test_one_row_adds_no_more_than_is_claimed_beyond_what_doubles_hold(value: str, centre: int) -> None:
    sql = centred(value, centre)
    moved = abs(int(answers(sql, row(cost=5.0))[0][0]))
    assert moved > 1
    assert broken("each row", "a count", ("sql",), sql) in ("bounds", "sensitivity", "tables")


def test_bounds_that_only_whole_numbers_hold_are_honest() -> None:
    sql = centred(f'CAST(least(greatest(s."day", {BIG + 512}), {BIG + 513}) AS BIGINT)', BIG + 512)
    assert answers(sql, row()) == [("0",)]
    assert broken("each row", "a count", ("sql",), sql) is None

    def change(d: Document) -> None:
        measurement(d)["sql"] = sql.replace('s."day"', 's."cost"')

    assert check(sealed(forged(honest("each row", "a count"), change))).broken == "tables"
