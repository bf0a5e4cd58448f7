"""What each family of mechanisms adds to the tables of contracts: a module each, with `AUDITS` or `MECHANISMS`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any


def added(table: str) -> Iterator[Any]:
    """The rows that all families add to a table."""
    for module in pkgutil.iter_modules(__path__):
        yield from getattr(importlib.import_module(f"{__name__}.{module.name}"), table, ())
