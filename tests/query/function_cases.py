"""Calls of every function of the language, over columns of every type, and the nasty values of each type."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
import struct
from collections.abc import Iterator
from typing import Any

from discreet.catalog.types import OF_CELLS, Type
from discreet.errors import PlanError
from discreet.query.bind import call
from discreet.query.expr import Call, Column, Expr, Literal
from discreet.query.functions import FUNCTIONS

ENDS = [(1 << 63) - 1, -(1 << 63)]
CORNERS: dict[Type, list[Any]] = {
    Type.BOOL: [True, False, None],
    Type.INT: [0, 1, -1, 3, -7, 12, 31, 2024, 1 << 31, -(1 << 31) - 1, (1 << 53) + 1, *ENDS, None],
    Type.REAL: [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -3.0, 0.1, 1e20, 1.7e308, -1.7e308, 5e-324, None],
    Type.TEXT: [
        *("", "a", "É", "ß", "ŉ", "a b", " a ", "%", "it's", "2.5", "1e3", "true", "2024-02-29", "nan", "🎈", "a-b-c"),
        *("\x00", "a\x00b", "e\u0301", "İ", "ſ", "K", "👨\u200d👩\u200d👧", "\\", "_", "a_c", "AbC\n", "\n", "--", "-"),
        *("x" * 3000, "é" * 1100, "-12", "12.50", "9223372036854775808", "２", "\u200b", "a\r\nb", "100%", None),
    ],
    Type.DATE: [
        *(dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2020, 12, 31), dt.date(1969, 12, 31)),
        *(dt.date(2021, 1, 3), dt.date(2023, 1, 31), dt.date(1600, 2, 29), None),
    ],
    Type.TIMESTAMP: [
        *(dt.datetime(2024, 2, 29, 13, 45, 59, 123456), dt.datetime(1, 1, 1), dt.datetime(2023, 3, 31, 0, 0, 0, 1)),
        *(dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1969, 12, 31, 23, 59, 59, 500000)),
        *(dt.datetime(2023, 1, 31, 12), None),
    ],
}  # fmt: skip
"""What a cell or a declared value may be."""

WRITTEN: dict[str, list[tuple[Any, ...]]] = {
    "width_bucket": [(0, 10, 5), (-1.5, 1e308, 1_000_000), (0.1, 0.7, 3)],
    "strftime": [("%Y-%m-%d %H:%M:%S.%f",), ("%G-W%V-%u %j %y %I%p %%",), ("%A, %B %d (%a %b %w)",), ("é🎈%d",)],
    "lpad": [(5, "xy"), (0, "x"), (1000, "é🎈")],
    "rpad": [(5, "xy"), (0, "x"), (1000, "é🎈")],
    "replace": [("a", "bb"), ("aa", ""), ("\n", "é"), ("-", "🎈" * 100)],
    "split_part": [("-",), ("é",), ("aa",)],
    "like_escape": [("a!%b", "!"), ("%!_%", "!"), ("_%\\\\", "\\")],
    "regexp_matches": [
        ("a",),
        ("^[a-c]+$", "i"),
        (r"\d{2,4}|\s\w", "s"),
        ("k", "i"),
        ("[^a]s", "i"),
        (".",),
        (r"\bb",),
    ],
    "regexp_full_match": [("a",), ("[a-c]+", "i"), (r"(a|-)+\w{1,3}?",), (".*", "s"), (r"\W+", "i")],
    "regexp_extract": [("a(.)c", 1), ("(-)?([a-c])", 1), ("(-)?([a-c]+)", 2), (".+?", 0, "s"), ("(x+)(x+)", 2)],
    "regexp_replace": [("a", "é"), (".", r"[\0\0]", "gs"), ("([a-c])(.)", r"\2\1\\", "g"), (r"\bx", "y", "g")],
}
"""Constants for the places that want them."""

SPELLINGS = [
    *[
        "1",
        "-1",
        "+1",
        "1.",
        ".5",
        "-.5",
        "1e3",
        "1E3",
        "1e-3",
        "1e",
        "0x10",
        "0xg",
        "0b1",
        "0o7",
        "1_000",
        "1__0",
        "_1",
        "1,000",
        "00012",
        "-0",
        "-",
        "+",
        ".",
        "1e400",
        "-1e400",
        "1e-400",
    ],
    *[
        "nan",
        "inf",
        "-Infinity",
        "٣",
        "1f",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "1e999999999",
    ],
    *[
        "9223372036854775807.4",
        "9223372036854775807.5",
        "2.5",
        "3.5",
        "-2.5",
        "0.5",
        "-0.5",
        "0.49999999999999999",
        "1e18",
        "1e19",
        "15e-1",
    ],
    *[
        "true",
        "TRUE",
        "t",
        "T",
        "f",
        "yes",
        "no",
        "on",
        "off",
        "y",
        "n",
        "0",
        "1",
        "2",
        "truee",
        "2024-01-01",
        "2024-1-1",
        "24-1-1",
        "10000-01-01",
        "2024/01/01",
        "2024/1/1",
    ],
    *[
        "2024.01.01",
        "2024-01/01",
        "20240101",
        "2024-W01-1",
        "2024-001",
        "2024-01",
        "2024-02-30",
        "2023-02-29",
        "2024-00-01",
        "0000-01-01",
    ],
    *["2024-01-01T10:00", "2024-01-01T10", "2024-01-01T24:00:00", "2024-01-01T24:00:01", "2024-01-01T23:59:60"],
    *["2024-01-01T10:00:00.1", "2024-01-01T10:00:00.1234567", "2024-01-01T10:00:00Z", "2024-01-01Z", "2024-01-01+02"],
    *["2024-01-01T10:00:00+02", "2024-01-01T10:00:00+02:00", "2024-01-01T10:00:00-0530", "2024-01-01t10:00"],
    *["2024-01-01T1:00", "2024-01-01T10:0", "2024-01-01T10:00:", "2024-01-01T10:00:00.", "2024-01-01T10:00:00,5"],
    *["epoch", "infinity", "today", "now", "-2024-01-01", "2024-01-01x", "99999-01-01", "2024-01-01T100000"],
    *("2024-01-01 10:00", "2024-01-01  10:00:01.5", "2024-01-01 ", "  2024-01-01 ", " 1", "1 ", "\t1\n", " true "),
    *("2024-01-01 (BC)", "2024-01-01 10:00 UTC", "2024-01-01 10:00:00 +02", "2024-01-01 10:00:00 Europe/Berlin"),
    *("2024-01-01 24:00:00", "2024-01-01 10", "\xa01", "1\x00", "1 1", "- 1", "\u20281", ""),
]
"""Texts that are, or are not quite, numbers, truths, dates and times."""

INEXACT = 4e-15
"""How far two mathematical libraries may be apart, relatively."""


def calls(name: str, most: int = 4) -> Iterator[Call]:
    """The function applied to columns c0, c1, … of all types that it takes, without and with casts."""
    if FUNCTIONS[name].constants:
        for constants in WRITTEN[name]:
            for types in itertools.product(OF_CELLS, repeat=2 if name == "split_part" else 1):
                yield from _written(name, constants, types)
        return
    for n in range(1, most + 1 if name in ("case", "concat_ws") else min(most, 3) + 1):
        for types in itertools.product(OF_CELLS, repeat=n):
            try:
                found = call(name, [Column(f"c{i}", kind) for i, kind in enumerate(types)])
            except PlanError:
                continue
            assert isinstance(found, Call)
            yield found


def exact_calls(name: str, most: int = 4) -> Iterator[Call]:
    """Those without casts."""
    for found in calls(name, most):
        if all(isinstance(a, Column | Literal) for a in found.args):
            yield found


def _written(name: str, constants: tuple[Any, ...], types: tuple[Type, ...]) -> Iterator[Call]:
    places = FUNCTIONS[name].constants
    args: list[Expr] = []
    given = iter(constants)
    free = iter(types)
    for i in range(len(constants) + len(types)):
        if i in places:
            value = next(given)
            args.append(Literal(value, _KIND[type(value)]))
        else:
            args.append(Column(f"c{sum(isinstance(a, Column) for a in args)}", next(free)))
    try:
        found = call(name, args)
    except PlanError:
        return
    assert isinstance(found, Call)
    yield found


_KIND = {int: Type.INT, float: Type.REAL, str: Type.TEXT}


def columns(expr: Call) -> list[Type]:
    """The types of c0, c1, … under whatever casts were put on them."""
    found: dict[int, Type] = {}
    stack: list[Any] = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, Column):
            found[int(node.name[1:])] = node.type
        elif isinstance(node, Call):
            stack += node.args
    return [found[i] for i in range(len(found))]


def drawn(kind: Type, rng: random.Random) -> Any:
    """A random value of the type: a corner half of the time."""
    if rng.random() < 0.4:
        return rng.choice(CORNERS[kind])
    match kind:
        case Type.BOOL:
            return rng.random() < 0.5
        case Type.INT:
            return rng.randrange(-(1 << rng.randrange(1, 64)), 1 << rng.randrange(1, 64))
        case Type.REAL:
            return rng.choice([_any_double(rng), rng.randrange(-2000, 2000) / 8, rng.uniform(-50, 50)])
        case Type.TEXT:
            return "".join(rng.choice(_LETTERS) for _ in range(rng.randrange(0, 12)))
        case Type.DATE:
            return dt.date.fromordinal(rng.choice([rng.randrange(1, 3652060), rng.randrange(730000, 740000)]))
        case _:
            first, last = rng.choice([(0, 315537897599_999_999), (62_135_000_000_000_000, 63_900_000_000_000_000)])
            return dt.datetime(1, 1, 1) + dt.timedelta(microseconds=rng.randrange(first, last))


_LETTERS = "aaabbcxy-- %_\\\n.019ABKSksé\u0301🎈ßİſK\u200d'\x00\t"


def _any_double(rng: random.Random) -> float:
    x: float = struct.unpack("<d", rng.randbytes(8))[0]
    return x if math.isfinite(x) else 0.25
