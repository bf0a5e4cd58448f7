"""Numbers as the user meant them: an exact fraction for anything on which a guarantee depends."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, TypeAlias

from discreet.errors import InvalidParameter

Real: TypeAlias = int | float | str | Decimal | Fraction
"""What a privacy parameter may be; a float means its shortest decimal (0.1 is 1/10)."""

_MANY = 1 << 64
_TENS = tuple(10**n for n in range(400))  # as many digits as a float's shortest decimal can have, and more
_LEAST_DOUBT = Fraction(1, 10**280)
_LONGEST = 400  # digits of a decimal exponent or a text; far beyond any use, and short enough to stay fast
_KNOWN = tuple(getattr(Fraction, "__slots__", ())) == ("_numerator", "_denominator")


def exact(name: str, value: Real) -> Fraction:
    """Return the exact value of a parameter; a float stands for its shortest decimal.

    >>> exact("epsilon", 0.1)
    Fraction(1, 10)

    Raises:
        InvalidParameter: not a number, NaN or infinite; the message carries `name`.
    """
    if type(value) is float and math.isfinite(value):  # first what comes most often
        return _shortest(value)
    if type(value) is int and -_MANY < value < _MANY:
        return coprime(value, 1)
    if type(value) is Fraction and type(value.numerator) is type(value.denominator) is int:
        return value
    if isinstance(value, bool) or type(value).__name__ == "bool":  # numpy's too
        raise InvalidParameter(f"{name} must be a number, not {value}.")
    if isinstance(value, Fraction):
        return Fraction(int(value.numerator), int(value.denominator))  # numpy's integers inside would wrap later
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidParameter(f"{name} must be a finite number, not {float(value)}.")
        return _shortest(float(value))
    if isinstance(value, str | Decimal):
        return _from_text(name, str(value))
    try:
        n = operator.index(value)
    except TypeError:
        pass
    else:
        if n.bit_length() > 4 * _LONGEST:  # also keeps it printable in a message
            raise InvalidParameter(f"{name} has more digits than any use needs ({_LONGEST} at most).")
        return Fraction(n)
    try:  # numpy's other floats, but not bytes, which float() would parse
        return exact(name, value.__float__())
    except (AttributeError, TypeError, ValueError):
        raise InvalidParameter(
            f"{name} must be a number, not {type(value).__name__}.", hint=f"give {name}=0.5, '1/2' or Fraction(1, 2)"
        ) from None


def positive(name: str, value: Real) -> Fraction:
    """Return the exact value of a parameter that must be above 0."""
    if type(value) is float and 0.0 < value < math.inf:  # first what comes most often
        return _shortest(value)
    x = exact(name, value)
    if x.numerator <= 0:
        raise InvalidParameter(f"{name} must be above 0, not {value}.")
    return x


def probability(name: str, value: Real) -> Fraction:
    """Return the exact value of a probability in [0, 1)."""
    x = exact(name, value)
    if not 0 <= x < 1:
        raise InvalidParameter(f"{name} must lie in [0, 1), not {value}.")
    return x


def read_confidence(confidence: Real) -> Fraction:
    """Return the exact value of a confidence, strictly between 0 and 1 and so far from 1 that floats can tell."""
    c = exact("confidence", confidence)
    if not 0 < c < 1 or 1 - c < _LEAST_DOUBT:
        raise InvalidParameter(f"confidence must lie between 0 and 1, not {confidence}.", hint="confidence=0.95")
    return c


def count(name: str, value: int, *, least: int = 1) -> int:
    """Return an integer parameter of at least `least`."""
    if type(value) is int and least <= value < _MANY:  # first what comes most often
        return value
    try:
        n = operator.index(value)
    except TypeError:
        n = None
    if n is None or isinstance(value, bool) or n < least:
        raise InvalidParameter(f"{name} must be an integer of at least {least}, not {value!r}.")
    if n.bit_length() > 4 * _LONGEST:  # also keeps it printable in a message
        raise InvalidParameter(f"{name} has more digits than any use needs ({_LONGEST} at most).")
    return n


def set_fields(value: object, **fields: Any) -> None:
    """Set fields of a frozen value while it is made."""
    for name, given in fields.items():
        object.__setattr__(value, name, given)


def first_whole(holds: Callable[[int], bool], low: int = 0, high: int | None = None) -> int:
    """Return the least whole number above `low` at which something holds, as it then does for all beyond.

    Args:
        holds: whether it does; it is not asked at `low`.
        low: where it does not hold.
        high: where it holds; by default it is looked for, each time twice as far away.
    """
    if high is None:
        step = 1
        while not holds(low + step):
            step *= 2
        low, high = low + step // 2, low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def lowest(whole: int, parts: int) -> Fraction:
    """whole/parts, of `parts` above 0: as `Fraction(whole, parts)`, in less than half the time.

    >>> lowest(6, 4)
    Fraction(3, 2)
    """
    common = math.gcd(whole, parts)
    return coprime(whole // common, parts // common)


def coprime(whole: int, parts: int) -> Fraction:
    """Return the same of integers without a common divisor, for which nobody looks: of the parts of other fractions
    only.

    >>> coprime(3, 2) == Fraction(3, 2)
    True
    """
    if not _KNOWN:  # a Python whose fractions look different inside
        return Fraction(whole, parts)
    made: Any = object.__new__(Fraction)
    made._numerator, made._denominator = whole, parts
    fraction: Fraction = made
    return fraction


def above(x: Fraction) -> float:
    """Return the least float that is at least `x`: for a quantity that may only be overstated.

    >>> above(Fraction(1, 10)) >= Fraction(1, 10)
    True
    """
    whole, parts = x.numerator, x.denominator
    try:
        f = whole / parts  # of integers it is rounded correctly
    except OverflowError:
        return math.inf if x > 0 else -sys.float_info.max
    n, d = f.as_integer_ratio()  # compared by hand, which is several times faster than as fractions
    return f if n * parts >= whole * d else math.nextafter(f, math.inf)


def below(x: Fraction) -> float:
    """Return the greatest float that is at most `x`: for a quantity that may only be understated."""
    return -above(-x)


def reported(x: Fraction) -> float:
    """Return the least float at or above x, when a float is read as its shortest decimal as everywhere here."""
    f = above(x)
    if not math.isfinite(f):
        return f
    down = math.nextafter(f, 0.0)
    if Fraction(repr(down)) >= x:
        return down
    while Fraction(repr(f)) < x:  # the shortest decimal of a float may lie below it
        f = math.nextafter(f, math.inf)
    return f


def _shortest(value: float) -> Fraction:
    """Return the shortest decimal that a finite float means: as Fraction(repr(value)), but faster."""
    text = repr(value)
    whole, _, part = text.partition(".")
    if part.isdigit():  # and not 1e-05 or 2.5e+20
        return lowest(int(whole + part), _TENS[len(part)])
    return Fraction(*Decimal(text).as_integer_ratio())


def _from_text(name: str, text: str) -> Fraction:
    try:
        if len(text) > _LONGEST or abs(Decimal(text).adjusted() if "/" not in text else 0) > _LONGEST:
            raise InvalidParameter(f"{name} has more digits than any use needs ({_LONGEST} at most).")
        return Fraction(text)
    except (ValueError, InvalidOperation, ZeroDivisionError):
        raise InvalidParameter(
            f"{name} must be a number, not {text!r}.", hint=f"give {name}='0.5' or {name}='1/2'"
        ) from None
