"""What options declare of tables and columns, as `connect` takes it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from discreet.cli.options import Bounds
from discreet.errors import InvalidParameter


def sources(source: str, tables: Sequence[tuple[str, str]]) -> str | dict[str, str]:
    """The one source, or each table's by its name."""
    from discreet.backends.sources import table_name

    if not tables:
        return source
    found = {table_name(source): source}
    for name, other in tables:
        if name in found:
            raise InvalidParameter(
                f"Table {name!r} is given twice.", hint="give each --table a name of its own"
            )
        found[name] = other
    return found


def columns(ranges: Sequence[Bounds], values: Sequence[tuple[str, list[str | int | None]]]) -> dict[str, Any]:
    """The facts of each column."""
    import discreet as dp

    found: dict[str, Any] = {}
    declared: list[tuple[str, Any]] = []
    for column, low, high, integer in ranges:
        with _naming(f"--range {column}"):
            declared.append((column, dp.Range(low, high, integer=integer)))
    for column, keys in values:
        with _naming(f"--values {column}"):
            declared.append((column, dp.Values(*keys)))
    for column, facts in declared:
        if column in found:
            raise InvalidParameter(
                f"Column {column!r} is declared twice.",
                hint="give one --range or one --values for each column",
            )
        found[column] = facts
    return found


@contextmanager
def _naming(option: str) -> Iterator[None]:
    """Where what was declared is looked at: an error names the option."""
    try:
        yield
    except InvalidParameter as error:
        hint = error.hint or f"look at what stands after {option}="
        raise InvalidParameter(f"{option}: {error.message}", hint=hint) from None
