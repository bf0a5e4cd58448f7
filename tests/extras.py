"""Parts that need a library which the extra `[test]` does not bring: they are collected where it is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

PLACES = {"torch": ("src/discreet/learn/torch", "tests/learn/torch")}
"""Folders by the library that they need."""

ROOT = Path(__file__).parent.parent


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what needs a library that is not installed."""
    for library, places in PLACES.items():
        within = any(collection_path.is_relative_to(ROOT / place) for place in places)
        if within and importlib.util.find_spec(library) is None:
            return True
    return None
