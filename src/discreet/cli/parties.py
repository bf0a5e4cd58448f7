"""What options say of each of two populations: `patients=8`, or one thing for both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from discreet.cli.options import BudgetAmount
from discreet.errors import InvalidParameter

if TYPE_CHECKING:
    from discreet.privacy.guarantee import Budget
    from discreet.privacy.unit import PrivacyUnit

    _Param = click.ParamType[Any]
else:
    _Param = click.ParamType  # generic only in newer versions of click

T = TypeVar("T")

_FORM = "NAME=COLUMN:ROWS"


class Protected(_Param):
    """A population, the column of its ids, and how many rows one unit may add: `patients=patient_id:8`."""

    name = _FORM

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str, int]:
        """The three, of which the number is at least 1."""
        if isinstance(value, tuple):
            return value
        population, _, rest = str(value).partition("=")
        column, _, rows = rest.rpartition(":")
        if not (population.strip() and column.strip() and rows.strip().isascii() and rows.strip().isdigit()):
            raise InvalidParameter(
                f"--protect {value!r} does not have the form {_FORM}.",
                hint="write --protect patients=patient_id:8, where one patient counts with 8 rows at most",
            )
        return population.strip(), column.strip(), int(rows)


class Said(_Param):
    """Something for both populations, or for the one that it names: `0.5`, `patients=0.5`."""

    name = "[NAME=]VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str | None, str]:
        """The population, None for both; and what is said."""
        if isinstance(value, tuple):
            return value
        population, equals, said = str(value).rpartition("=")
        return (population.strip() if equals else None), said.strip()


def units(protected: Sequence[tuple[str, str, int]]) -> dict[str, PrivacyUnit]:
    """The unit of each population."""
    import discreet as dp

    found = {name: dp.PrivacyUnit(column, max_rows=rows) for name, column, rows in protected}
    if len(found) != 2 or len(protected) != 2:
        raise InvalidParameter(
            f"--protect names two populations, each once, not {len(found)}.",
            hint="write --protect patients=patient_id:8 --protect doctors=doctor_id:120; `discreet sql` asks tables "
            "of one population",
        )
    return found


def for_each(
    option: str,
    said: Sequence[tuple[str | None, str]],
    populations: Collection[str],
    read: Callable[[str], T],
) -> dict[str, T]:
    """What is said for each population; nothing for one that is not spoken of."""
    found: dict[str, T] = {}
    for name, text in said:
        if name is not None and name not in populations:
            raise InvalidParameter(
                f"{option} names {name!r}, which --protect does not.",
                hint=f"the populations are {' and '.join(map(repr, populations))}",
            )
        for one in populations if name is None else [name]:
            if one in found:
                raise InvalidParameter(
                    f"{option} is given twice for {one!r}.",
                    hint=f"give it once for both, or once for each: {option} {one}=…",
                )
            found[one] = read(text)
    return found


def budget(text: str) -> Budget:
    """A budget as it is typed: `3`, or `3,1e-6`."""
    import discreet as dp

    epsilon, delta = BudgetAmount().convert(text, None, None)
    return dp.Budget(epsilon, delta or 0)
