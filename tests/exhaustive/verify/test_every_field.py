"""Every field of certificates of several shapes, changed in every way that its type knows: each change is rejected, and
at a step that reads the field.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from discreet.privacy.codec import fraction_text
from discreet.verify.certificate.checker import check
from tests.exhaustive.verify.test_forged import honest

NAMES = ("two keys", "Gaussian", "private groups", "groups in rounds", "values", "quartiles", "a median", "totals",
         "a report", "both chosen", "a join", "by keys")  # fmt: skip

READERS: list[tuple[str, set[str]]] = [
    (r"answer(/.*)?", {"release"}),
    (r"registry(/.*)?", {"registry"}),
    (r"reasons(/.*)?", {"sensitivity"}),
    (r"populations(/.*)?", {"account"}),
    (r"(library|version)", {"charge"}),
    (r"question(/.*)?", {"charge"}),
    (r"ledger/accounts(/\*)?", {"account"}),
    (r"ledger/accounts/\*/account(/.*)?", {"account", "charge", "tables"}),
    (r"ledger/accounts/\*/schemas(/.*)?", {"tables"}),
    (r"ledger/accounts/\*/charge(/.*)?", {"charge", "tables"}),
    (r"ledger/accounts/\*/release(/.*)?", {"release"}),
    (r"ledger/head(/.*)?", {"release", "ledger"}),
    (r"claim/.*/(noise|noises)(/.*)?", {"noise", "events", "sensitivity", "charge"}),
    (r"claim/(recipe|open)", {"sensitivity", "charge"}),
    (r"claim/relation", {"sensitivity"}),
    (r"claim/(measured|charged)/(epsilon|delta)", {"noise", "events", "charge"}),
    (r"claim/(measured|charged)/events(/.*)?", {"events"}),
    (r"claim/looks(/\*)?", {"events", "bounds", "sensitivity"}),
    (r"claim/measurements(/\*)?", {"noise", "bounds", "sensitivity"}),
    (r"claim/.*/source(/.*)?", {"bounds", "tables"}),
    (r"claim/.*/(sql|truncation|distinct|weights)(/.*)?", {"bounds", "charge"}),
    (r"claim/.*/(keys|lists|counts|kind)(/.*)?", {"bounds", "charge"}),
    (r"claim/.*/groups", {"sensitivity"}),
    (r"claim/.*/rows", {"sensitivity", "charge", "release"}),
    (r"claim/.*/(low|high|sensitivity)(/.*)?", {"sensitivity"}),
    (r"claim/.*/threshold/min_people", {"charge"}),  # it costs nothing: only the charge commits to it
    (r"claim/.*/threshold(/.*)?", {"bounds", "noise", "events", "sensitivity"}),
    (r"claim/.*/(columns|trees|reports)(/\*)?", {"bounds", "sensitivity", "noise", "events"}),
    (r"claim/.*/(depth|at|layers|kept|levels)(/.*)?", {"noise", "events", "sensitivity", "release", "charge"}),
    (r"claim/.*/reports(/.*)?", {"bounds", "noise", "events"}),
    (r"claim/looks/\*/epsilon", {"sensitivity", "events"}),
]
"""A field, and the steps that read it; a value that is none of its type is a matter of the format."""

NEUTRAL = {
    ("answer", "nothing"),  # a certificate may be without rows
    ("answer", "left out, as null"),
}


def nodes(value: Any, path: tuple[Any, ...] = (), each: tuple[str, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every value inside a document; of alike elements of a list only the first, but in the lists of these names."""
    if path:
        yield path, value
    if isinstance(value, dict):
        for name, part in value.items():
            yield from nodes(part, (*path, name), each)
    elif isinstance(value, list) and value:
        for i, part in enumerate(value if path and path[-1] in each else value[:1]):
            yield from nodes(part, (*path, i), each)


def generic(path: tuple[Any, ...]) -> str:
    """The field of a path, whatever its place in lists."""
    return "/".join("*" if isinstance(p, int) else p for p in path)


def defects(value: Any) -> Iterator[tuple[str, Any]]:
    """What may be wrong with a value."""
    yield "nothing", None
    match value:
        case bool():
            yield "the contrary", not value
            yield "a number", int(value)
        case int():
            yield "one more", value + 1
            yield "one less", value - 1
            yield "as text", str(value)
            yield "as a float", float(value)
            yield "true", True
        case str() if re.fullmatch(r"-?\d+/\d+", value):
            x = Fraction(value)
            yield "half", fraction_text(x / 2 if x else Fraction(1, 3))
            yield "double", fraction_text(x * 2 if x else Fraction(1, 2))
            yield "a bit more", fraction_text(x + Fraction(1, 1000))
            yield "a bit less", fraction_text(x - Fraction(1, 1000))
            yield "not in lowest terms", f"{2 * x.numerator}/{2 * x.denominator}"
            yield "a float", float(x)
        case str() if re.fullmatch(r"-?\d+", value):
            yield "one more", str(int(value) + 1)
            yield "one less", str(int(value) - 1)
            yield "a leading zero", f"0{value}"
            yield "a number", int(value)
        case str() if re.fullmatch(r"[0-9a-f]{64}", value):
            yield "another digit", ("1" if value[0] != "1" else "2") + value[1:]
            yield "cut", value[:-1]
            yield "in capitals", value.upper() if value.upper() != value else value[:-1] + "G"
        case str():
            yield "a letter more", f"{value}x"
            yield "empty", "" if value else "y"
            yield "a number", 5
        case float():
            yield "a bit more", value + 0.5
        case list():
            yield "no list", {}
            if value:
                yield "one less", value[:-1]
                yield "the last twice", [*value, value[-1]]
                yield "empty", []
        case dict():
            yield "a field more", {**value, "more": 1}
            yield "no object", list(value)
            if value:
                yield "a field less", dict(list(value.items())[1:])
        case None:
            yield "a text", "z"
            yield "a count", 1
            yield "a list", []


def changed(document: Any, path: tuple[Any, ...], to: Any) -> Any:
    """The document with another value at this place; what is beside the path is the same object."""
    if not path:
        return to
    found = copy.copy(document)
    found[path[0]] = changed(document[path[0]], path[1:], to)
    return found


@cache
def forgeries() -> dict[str, list[tuple[str, str, Any]]]:
    """Field, defect and the forged document, each kind once, by the honest certificate that it is of."""
    found: dict[str, list[tuple[str, str, Any]]] = {name: [] for name in NAMES}
    seen = set()
    for name in NAMES:
        document = honest(name)[0]
        for path, value in nodes(document):
            for what, to in defects(value):
                kind = generic(path), what
                if kind in seen or kind in NEUTRAL or (to == value and type(to) is type(value)):
                    continue
                seen.add(kind)
                found[name].append((*kind, changed(document, path, to)))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_no_field_can_be_changed(name: str) -> None:
    ledger = honest(name)[1]
    wrong = []
    for field, what, document in forgeries()[name]:
        allowed = next((steps for pattern, steps in READERS if re.fullmatch(pattern, field)), set())
        alone = check(document)
        broken = alone.broken if alone.broken is not None else check(document, ledger).broken
        if broken != "format" and broken not in allowed:
            wrong.append((field, what, broken, alone.reason))
    assert wrong == []


def test_the_kinds_of_changes_are_many() -> None:
    assert sum(map(len, forgeries().values())) >= 500


@pytest.mark.parametrize(
    "nonsense",
    [None, [], {}, "", 5, {"format": "discreet certificate, format 2"}, {"format": []}, [[]] * 3, {"format": None}],
    ids=repr,
)
def test_what_is_no_certificate_is_said_to_be_none(nonsense: Any) -> None:
    verdict = check(nonsense)
    assert (verdict.broken, verdict.held) == ("format", ())
    assert "no certificate" in verdict.reason


def test_what_no_honest_certificate_holds_is_rejected_and_not_computed_for_ever() -> None:
    document, _ = honest("two keys")
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    huge = "9" * 3000 + "/1"
    cases: list[tuple[tuple[Any, ...], Any]] = [
        (("answer",), deep),
        (("claim", "measured", "epsilon"), huge),
        (("claim", "measurements", 0, "sql"), "SELECT " + "(" * 50_000),
        (("claim", "measurements", 0, "columns", 0, "noise", "scale"), "1/" + "9" * 3000),
        (("claim", "measurements", 0, "lists"), [10**15, 10**15]),
        (("claim", "measured", "events", 0, "count"), 10**400),
        (("registry",), float("nan")),
    ]
    for path, to in cases:
        assert not check(changed(document, path, to)).ok


def test_a_tree_of_any_number_of_levels_is_not_computed_for_ever() -> None:
    document, _ = honest("quartiles")
    measured = ("claim", "measurements", 0)
    for path in (("trees", 0, "depth"), ("groups",), ("keys",)):
        assert not check(changed(document, (*measured, *path), 10**12)).ok
