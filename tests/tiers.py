"""Tiers of tests: a test's folder gives its tier, and a sample of each tier runs in the default one too."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

TIERS = ("laws", "exhaustive", "system")
HERE = Path(__file__).parent


def tier_of(path: Path) -> str | None:
    """Return the tier of the tests in a file; None where each test says it itself, or is in the default tier."""
    folder = path.relative_to(HERE).parts[0] if path.is_relative_to(HERE) else ""
    return folder if folder in TIERS else None


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the marker of its tier, and some the marker of the sample."""
    seen: Counter[str] = Counter()
    for item in items:
        tier = tier_of(item.path)
        if tier is not None:
            item.add_marker(tier)
        sampled = item.get_closest_marker("sampled")
        if sampled is not None:
            name = item.nodeid.partition("[")[0]
            (every,) = sampled.args or (1,)
            if seen[name] % every == 0 and item.get_closest_marker("slow") is None:
                item.add_marker("sample")
            seen[name] += 1


def is_default(item: pytest.Item) -> bool:
    """Return whether a test runs in the default tier."""
    named = {marker.name for marker in item.iter_markers()}
    return "sample" in named or not named.intersection((*TIERS, "slow"))
