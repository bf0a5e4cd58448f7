"""Who is protected, and which two populations count as neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from discreet.errors import InvalidParameter
from discreet.privacy.exact import count


class Relation(Enum):
    """Which two populations are neighbours; fixed for a population when its account is opened.

    ADD_REMOVE: one unit with all its rows is there or is not.
    REPLACE: one unit with all its rows becomes another unit with any rows; the number of units is public.
    """

    ADD_REMOVE = "add-remove"
    REPLACE = "replace"

    @classmethod
    def parse(cls, text: str | Relation) -> Relation:
        """The relation of that name; refuses any other."""
        try:
            return cls(text)
        except ValueError:
            names = " or ".join(repr(r.value) for r in cls)
            raise InvalidParameter(f"relation must be {names}, not {text!r}.") from None


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """Who is protected: all the rows of a table that carry one value of `column`.

    Guarantee:
        In one query a unit's rows enter at most `max_groups` groups, and in each of them its COUNT is capped
        at `max_rows` and its SUM clamped to `max_rows` times the declared bounds. The caps are enforced by
        the engine, never assumed. Rows whose unit is NULL belong to nobody and are dropped.

    Attributes:
        column: the column that holds the unit's id; None when each row is one unit (see `row`).
        max_groups: how many groups of one query a unit may enter; None when it has not been said.
        max_rows: how many rows a unit may add to each group; None when it has not been said.
    """

    column: str | None
    max_groups: int | None = None
    max_rows: int | None = None

    def __post_init__(self) -> None:
        column: object = self.column  # what came need not be what was annotated
        if column is not None and (not isinstance(column, str) or not column):
            raise InvalidParameter(f"unit must be the name of a column, not {column!r}.")
        for name in ("max_groups", "max_rows"):
            value = getattr(self, name)
            if value is not None and count(name, value) > _MOST:
                raise InvalidParameter(f"{name} must be at most {_MOST}, not {value}.")

    @classmethod
    def row(cls) -> PrivacyUnit:
        """The unit for a table in which each row is one person."""
        return cls(None, max_groups=1, max_rows=1)

    @property
    def is_row(self) -> bool:
        """Whether each row is a unit of its own."""
        return self.column is None


_MOST = 1 << 31  # a cap beyond it bounds nothing, and would let a product of caps leave 64 bits
