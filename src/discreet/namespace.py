"""Public names of a package, for `dir`."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType


def public_names(names: Mapping[str, object]) -> list[str]:
    """Return the names that a package gives its users: its own classes and functions, and no helpers or modules.

    Args:
        names: `globals()` of its `__init__`.
    """
    home = str(names["__name__"])

    def is_own(name: str, value: object) -> bool:
        inside = str(getattr(value, "__module__", "")).startswith(home)
        return inside and not name.startswith("_") and not isinstance(value, ModuleType)

    return sorted(name for name, value in names.items() if is_own(name, value))
