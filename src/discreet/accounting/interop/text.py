"""JSON of other people's runs: no NaN, no key twice, no number rounded before it is looked at.

Parameters as floats for other libraries, rounded to the side of more loss.

Many uses counted at once: a long history stays flat, and an absurd one is refused.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import NoReturn

from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.privacy.event import Composed, Event
from discreet.privacy.exact import above

_LONGEST = 64 * 2**20  # characters; a run of a million different steps has fewer

MOST = 10**18
"""More uses than any run has, and few enough for a C integer."""


def parse(text: str) -> object:
    """Return the value of a JSON text, with its decimals as they are written.

    Raises:
        InvalidParameter: not JSON, or JSON that means nothing definite.
    """
    if len(text) > _LONGEST:
        raise InvalidParameter(f"the JSON text has more than {_LONGEST} characters: it is no record of a run.")
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


def root(x: Fraction) -> Fraction:
    """√x, exactly where it is a fraction, and otherwise rounded down by less than 2^−100 of it."""
    n, d = math.isqrt(x.numerator), math.isqrt(x.denominator)
    if n * n == x.numerator and d * d == x.denominator:
        return Fraction(n, d)
    bits = max(0, 110 + (x.denominator.bit_length() - x.numerator.bit_length()) // 2)
    return Fraction(math.isqrt((x.numerator << 2 * bits) // x.denominator), 1 << bits)


def up(x: Fraction) -> float:
    """Return the least float whose shortest decimal, as which it will be read, is at least x."""
    near = above(x)
    for f in (math.nextafter(near, -math.inf), near, math.nextafter(near, math.inf)):
        if math.isfinite(f) and Fraction(repr(f)) >= x:
            return f
    raise InvalidParameter("a parameter of this loss is too large for a float.")


def down(x: Fraction) -> float:
    """Return the greatest float whose shortest decimal is at most x, for x > 0."""
    found = -up(-x)
    if found <= 0:
        raise InvalidParameter("a parameter of this loss is too small for a float.")
    return found


def total(parts: Iterable[tuple[PrivacyLoss, int]]) -> PrivacyLoss:
    """Return the loss of all parts, each as often as it says."""
    tally: Counter[Event] = Counter()
    by_use = True
    for loss, times in parts:
        by_use = by_use and loss.by_use
        for event, n in loss.events:
            tally[event] += n * times
    if tally.total() > MOST:
        raise InvalidParameter("there are more than 10^18 uses, which is no run.")
    return PrivacyLoss(Composed(tally.items()), by_use)


def times(name: str, value: object) -> int:
    """Return a number of uses: an integer from 0 to `MOST`."""
    if not hasattr(value, "__index__") or isinstance(value, bool):
        raise InvalidParameter(f"{name} must be an integer, not {type(value).__name__}.")
    n: int = value.__index__()
    if not 0 <= n <= MOST:
        raise InvalidParameter(f"{name} must be an integer from 0 to 10^18.")
    return n
