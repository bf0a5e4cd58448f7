"""JSON of other people's runs: no NaN, no key twice, no number rounded before it is looked at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import NoReturn

from discreet.errors import InvalidParameter

_LONGEST = 64 * 2**20  # characters; a run of a million different steps has fewer


def parse(text: str) -> object:
    """The value of a JSON text, with its decimals as they are written.

    Raises:
        InvalidParameter: not JSON, or JSON that means nothing definite.
    """
    if len(text) > _LONGEST:
        raise InvalidParameter(
            f"the JSON text has more than {_LONGEST} characters: it is no record of a run."
        )
    try:
        value: object = json.loads(
            text, parse_float=Decimal, parse_constant=_refuse_constant, object_pairs_hook=_distinct
        )
    except InvalidParameter:
        raise
    except ValueError as reason:  # also an integer of thousands of digits
        raise InvalidParameter(f"not JSON: {reason}.") from None
    except RecursionError:
        raise InvalidParameter("the JSON is nested too deeply to be a record of a run.") from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidParameter(f"{name} is no parameter of a run.")


def _distinct(pairs: list[tuple[str, object]]) -> Mapping[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidParameter("a JSON object has one of its keys twice.")
    return found
