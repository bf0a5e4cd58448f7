"""Queries mean what the fixture says, and the comparison finds small changes of what they mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from discreet.engine.release import Release
from discreet.plan import query as planning
from discreet.plan.question import Question
from tests.meanings import fixture
from tests.meanings.adapter import MECHANISMS

stored = cache(fixture.load)
EVERY = 60
"""The default tier compares one case in so many, a part of them in each test."""
PARTS = 6


def assert_same(cases: list[fixture.Case]) -> None:
    differences = fixture.compared(stored()[0], cases)
    shown = "\n".join(map(str, differences[:20]))
    assert not differences, f"{fixture.summary(differences, len(cases))}\n{shown}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(2))
def test_a_sixth_of_all_queries_mean_what_they_did(part: int) -> None:
    """`python -m tests.meanings --compare` compares all of them."""
    assert_same(stored()[1][1::6][part::2])


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("part", range(PARTS))
def test_some_queries_mean_what_they_did(part: int) -> None:
    some = sorted(stored()[1][::EVERY], key=lambda case: str(case["world"]))
    size = -(-len(some) // PARTS)
    assert_same(some[part * size : (part + 1) * size])


def test_the_fixture_has_cases_of_every_kind_and_is_small() -> None:
    cases = stored()[1]
    assert fixture.FIXTURE.stat().st_size <= fixture.MOST_BYTES
    answered = [case["planned"] for case in cases if "shown" in case]
    assert len(cases) >= 2500
    assert len(answered) >= 1500
    queries = [query for planned in answered for query in planned["queries"].values()]
    facts = {fact for found in (*answered, *queries) for fact in found}
    assert {"first stage", "people", "left", "cells", "sensitivities of each"} <= facts
    assert {"measured", "trees", "totals", "reports", "selection", "notes", "error"} <= facts
    assert all(f"'{name}'" in str(queries) for name in MECHANISMS.values())
    assert {"tests", "docs", "benchmarks", "fuzzer", "batches", "dialects"} <= {case["from"] for case in cases}
    assert sum(case["same"] != i for i, case in enumerate(cases) if "same" in case) >= 100


def _wider(allocate: Callable[..., Any]) -> Callable[..., Any]:
    def changed(*given: Any, **options: Any) -> Any:
        found = allocate(*given, **options)
        wider = [replace(z, **{n: getattr(z, n) * Fraction(101, 100) for n in z.__slots__}) for z in found.noises]
        return replace(found, noises=tuple(wider))

    return changed


TWINS: dict[str, tuple[object, str, Callable[[Any], Any], set[str]]] = {
    "noise 1 % wider": (planning, "allocate", _wider, {"measured", "error", "intervals", "nonnegative"}),
    "sensitivities of one group": (
        planning,
        "sensitivity_of",
        lambda f: lambda span, most, *others: f(span, 1, *others),
        {"measured", "cost"},
    ),
    "another cap on rows": (
        planning,
        "bounded_sql",
        lambda f: lambda bounding: f(bounding).replace(", 4)", ", 3)"),
        {"cells"},
    ),
    "all queries are the same": (Question, "identity", lambda _: lambda *_, **__: "one", {"same"}),
    "a note is dropped": (planning.Query, "notes", lambda p: property(lambda plan: p.fget(plan)[1:]), {"notes"}),
    "intervals of less confidence": (
        Release,
        "interval",
        lambda f: lambda release, column, confidence: f(release, column, confidence - Fraction(1, 1000)),
        {"intervals", "nonnegative"},
    ),
}
"""Small changes of the product, each at a name of today's, and the kinds of facts that differ."""


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("twin", TWINS)
def test_a_small_change_is_found(twin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, changed, kinds = TWINS[twin]
    worlds, cases = stored()
    some = [c for c in cases if c["world"] == "visits" and c["from"] in ("options", "respelled")][::7]
    monkeypatch.setattr(owner, name, changed(getattr(owner, name)))
    found = {d.kind for d in fixture.compared(worlds, some)}
    assert kinds <= found
    if len(kinds) == 1:
        assert kinds == found
