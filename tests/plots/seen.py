"""What a picture holds, read from its own description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def parts(chart: Any) -> Iterator[dict[str, Any]]:
    """The description of a picture and of everything inside it."""
    description = chart if isinstance(chart, dict) else chart.to_dict()
    yield description
    for inside in ("layer", "hconcat", "vconcat"):
        for part in description.get(inside, []):
            yield from parts(part)


def rows(chart: Any, *fields: str) -> list[dict[str, Any]]:
    """The rows of the one set of data that has these fields."""
    description = chart if isinstance(chart, dict) else chart.to_dict()
    kept = dict(description.get("datasets", {}))
    found: dict[str, list[dict[str, Any]]] = {}
    for part in parts(description):
        data = part.get("data", {})
        values = data.get("values", kept.get(data.get("name"), []))
        if values and all(field in values[0] for field in fields):
            found[repr(values)] = values
    (only,) = found.values()
    return only


def words(chart: Any) -> str:
    """All titles, and all that is written inside panels."""
    description = chart if isinstance(chart, dict) else chart.to_dict()
    said: list[str] = []
    for values in description.get("datasets", {}).values():
        said += [str(row["words"]) for row in values if "words" in row]
    for part in parts(description):
        title = part.get("title", "")
        said += [title] if isinstance(title, str) else [title["text"], *title.get("subtitle", [])]
    return " | ".join(said)


def marks(chart: Any) -> list[str]:
    """The kinds of marks, in the order in which they are drawn."""
    return [part["mark"]["type"] for part in parts(chart) if "mark" in part]
