"""Public shape of a table: the names and types of its columns, as the ledger keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.errors import LedgerError


@dataclass(frozen=True, slots=True)
class TableShape:
    """Public shape of a table, fixed with the first charged query of a session that has it.

    Attributes:
        columns: name → the SQL type as which it is read (a `Type` value); None for nested and binary columns. Of ids it
            is one of the two kinds of `catalog/ids.py`.
        text: whether the first source was text (CSV, JSON).
        delimiter: what separated the cells of a CSV.
    """

    columns: Mapping[str, str | None]
    text: bool
    delimiter: str = ","

    def to_json(self) -> dict[str, Any]:
        """Return the form in which the ledger keeps it."""
        columns = [list(c) for c in self.columns.items()]
        return {"form": _FORM, "columns": columns, "text": self.text, "delimiter": self.delimiter}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> TableShape:
        """Return what `to_json` wrote.

        Raises:
            LedgerError: another version of discreet wrote it.
        """
        if kept.get("form") != _FORM:
            raise LedgerError(
                "Another version of discreet fixed the shape of this table, and read ids in another way.",
                hint="what was spent still counts: open an account in a new ledger with the budget that remains",
            )
        return cls(dict(kept["columns"]), bool(kept["text"]), str(kept["delimiter"]))


_FORM = 3
"""Version of the stored shape."""
