"""Regular expressions mean here what they mean in the database, and what could differ or fail is refused beforehand."""

from __future__ import annotations

import random
import time

import pyarrow as pa
import pytest

from discreet.backends.connection import open_database
from discreet.errors import UnsupportedQuery
from discreet.query.functions import FUNCTIONS
from discreet.query.functions.pattern import regex

LETTERS = "aabbcAkKsS-1 é🎈\n,K\u017f_]"
SETS = ["a", "b-d", "K", "s", "é", r"\d", r"\W", "0-9", "A-Z", "_", r"\]", "&", "~~", ":", ".", "🎈", "a-z", "|", "*"]
ESCAPED = [r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", r"\.", r"\n", r"\-", r"\\", r"\[", r"\$", r"\b"]
REPEATS = ["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}"]


def pattern(rng: random.Random, depth: int = 3) -> str:
    """A random pattern, most of them readable."""
    return "|".join(_sequence(rng, depth) for _ in range(rng.choice([1, 1, 1, 2, 3])))


def _sequence(rng: random.Random, depth: int) -> str:
    parts = (_atom(rng, depth) + rng.choice(REPEATS) + rng.choice(["", "", "?"]) for _ in range(rng.randrange(4)))
    return "".join(parts)


def _atom(rng: random.Random, depth: int) -> str:
    how = rng.randrange(12)
    if how < 5 or (how > 8 and not depth):
        return rng.choice("abcAkKsS-1 é🎈\n,:=<>&~#@!%'\"/;]}_`")
    if how < 7:
        return rng.choice([".", "^", "$"]) if how == 5 else rng.choice(ESCAPED)
    if how < 9:
        return f"[{rng.choice(['', '^'])}{''.join(rng.choice(SETS) for _ in range(rng.randrange(1, 4)))}]"
    return f"({rng.choice(['', '?:'])}{pattern(rng, depth - 1)})"


def differences(seed: int, n: int) -> tuple[int, list[object]]:
    """How many of n random patterns are read, and where the database and Python differ on random texts."""
    rng = random.Random(seed)
    connection = open_database()
    found: list[object] = []
    read = 0
    for _ in range(n):
        written, flags = pattern(rng), rng.choice(["", "i", "s", "is", "c"])
        try:
            compiled = regex(written, ignore_case="i" in flags, dot_all="s" in flags)
        except UnsupportedQuery:
            continue
        read += 1
        texts = ["", "a", *("".join(rng.choice(LETTERS) for _ in range(rng.randrange(9))) for _ in range(12))]
        calls: list[tuple[str, tuple[object, ...]]] = [
            ("regexp_matches", (written, flags)),
            ("regexp_full_match", (written, flags)),
            ("regexp_extract", (written, rng.randrange(min(compiled.groups, 9) + 1), flags)),
        ]
        if not compiled.may_be_empty:
            replacement = rng.choice(["x", r"[\0]", r"\\\0", ""])
            calls += [("regexp_replace", (written, replacement, flags + g)) for g in ("", "g")]
        connection.register("texts", pa.table({"t": pa.array(texts, pa.string())}))
        sql = ", ".join(f"{name}(t, {', '.join(map(_literal, args))})" for name, args in calls)
        for text, there in zip(texts, connection.execute(f"SELECT {sql} FROM texts").fetchall(), strict=True):
            here = tuple(FUNCTIONS[name].value(text, *args) for name, args in calls)
            if here != there:
                found.append((written, flags, text, here, there))
    return read, found


def _literal(value: object) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


@pytest.mark.exhaustive
def test_random_patterns_mean_the_same_in_python_and_in_the_database() -> None:
    read, found = differences(1, 700)
    assert read > 200
    assert found == []


@pytest.mark.slow
def test_very_many_random_patterns_mean_the_same() -> None:
    read, found = differences(2, 60_000)
    assert read > 15_000
    assert found == []


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("(a", "a ( has no )"),
        ("a)", "a ) has no ("),
        ("[a", "a set [ ] is not closed"),
        ("[]", "a set [ ] is not closed"),
        ("[[:alpha:]]", "a set [ ] is not closed, or holds a bracket"),
        ("[b-a]", "ends before it begins"),
        ("[a-b-c]", "a - stands in the middle of a set"),
        ("*a", "nothing stands before *"),
        ("a**", "a repeat is repeated"),
        ("a*+", "a repeat is repeated"),
        ("(a*)*", "something that may be empty is repeated"),
        ("(^)+", "something that may be empty is repeated"),
        ("a||b", "a part of it is empty"),
        ("a(?:)", "a part of it is empty"),
        ("", "a part of it is empty"),
        ("a{2", "a { begins no repeat"),
        ("a{,3}", "a { begins no repeat"),
        ("a{3,2}", "a repeat is beyond"),
        ("a{101}", "a repeat is beyond"),
        ("(a{100}){11}", "more than 1000 steps"),
        ("(?=a)", "only (?: is read"),
        ("(?i)a", "only (?: is read"),
        ("(?P<x>a)", "only (?: is read"),
        (r"(a)\1", r"\1 is not read"),
        (r"\pL", r"\p is not read"),
        (r"a\Bb", r"\B is not read"),
        (r"\x41", r"\x is not read"),
        ("\\", r"\ is not read"),
        ("x" * 501, "longer than 500 characters"),
        ("(" * 60 + "a" + ")" * 60, "nests more than 50 levels"),
    ],
)
def test_a_pattern_that_could_fail_or_differ_is_refused_with_the_reason(written: str, why: str) -> None:
    with pytest.raises(UnsupportedQuery) as caught:
        regex(written)
    assert caught.value.message.startswith("This regular expression is not supported: ")
    assert why in caught.value.message
    assert caught.value.hint is not None


@pytest.mark.parametrize("written", ["(a+)+$", "(a|a)*$", "(a|ab)*c", "(.+)+b", "a?" * 30 + "a{30}"])
def test_no_pattern_takes_exponential_time(written: str) -> None:
    start = time.process_time()
    regex(written).find("a" * 3000 + "!")
    assert time.process_time() - start < 10


def test_a_pattern_of_the_largest_size_is_compiled_by_the_database() -> None:
    connection = open_database()
    for written in (r"[^a-c]{100}" * 9, r"(🎈|[é-ü]|\W){100}", "(a|b|c|d){100}x*"):
        regex(written)
        assert connection.execute(f"SELECT regexp_matches('aé🎈', '{written}')").fetchall() == [(False,)]
