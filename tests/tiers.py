"""Tiers of tests: a test's folder gives its tier, and a sample of each tier runs in the default one too."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import chain, combinations
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression

TIERS = ("laws", "exhaustive", "system")
MARKERS = {"sampled": "sample", "thinned": "slow"} | {name: name for name in (*TIERS, "slow", "unseeded")}
"""What a file's text may mark tests with, and the marker that they then carry."""

GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it lie evenly in [0, 1) after each: so do the cases of a thinned family, whatever they are made of."""

HERE = Path(__file__).parent


def is_kept(case: int, every: int) -> bool:
    """Return whether the case with this number is one of those that a thinned family keeps, about one in so many."""
    return case * GOLDEN % 1 < 1 / every


@cache
def tier_of(path: Path) -> str | None:
    """Return the tier of the tests in a file; None where each test says it itself, or is in the default tier."""
    folder = path.relative_to(HERE).parts[0] if path.is_relative_to(HERE) else ""
    return folder if folder in TIERS else None


def may_choose(expression: str, path: Path) -> bool:
    """Return whether `-m` may choose a test of a file, from its folder and from the markers that its text names."""
    if not expression:
        return True
    tier, text = tier_of(path), path.read_text(encoding="utf-8")
    may = {given for name, given in MARKERS.items() if f"mark.{name}" in text}
    some = chain.from_iterable(combinations(may, size) for size in range(len(may) + 1))
    own = () if tier is None else (tier,)
    return any(_chooses(expression, {*have, *own}) for have in some)


def _chooses(expression: str, markers: set[str]) -> bool:
    return Expression.compile(expression).evaluate(lambda name, /, **_: name in markers)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file of which `-m` chooses no test: to import all tiers, with their assertions, takes a minute."""
    named = collection_path.suffix == ".py" and collection_path.name != "conftest.py"
    return True if named and not may_choose(config.option.markexpr, collection_path) else None


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the marker of its tier, some the marker of the sample, and most of a thinned family `slow`."""
    seen: Counter[str] = Counter()
    for item in items:
        tier = tier_of(item.path)
        if tier is not None:
            item.add_marker(tier)
        name = item.nodeid.partition("[")[0]
        case, seen[name] = seen[name], seen[name] + 1
        if item.get_closest_marker("slow") is not None:
            continue
        sampled, thinned = item.get_closest_marker("sampled"), item.get_closest_marker("thinned")
        if sampled is not None and case % (sampled.args or (1,))[0] == 0:
            item.add_marker("sample")
        elif thinned is not None and not is_kept(case, thinned.args[0]):
            item.add_marker("slow")


def is_default(item: pytest.Item) -> bool:
    """Return whether a test runs in the default tier."""
    named = {marker.name for marker in item.iter_markers()}
    return "sample" in named or not named.intersection((*TIERS, "slow"))
