"""Tables of probabilities: however a user writes them, as exact integers over one denominator."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from discreet.errors import InvalidParameter
from discreet.privacy.exact import exact
from discreet.privacy.guarantee import decimal

Rows: TypeAlias = tuple[tuple[int, ...], ...]

_MOST = 10**8
"""Comparisons of two probabilities; as many take a minute."""

_UNDERFLOW = Fraction(1, 10**300)
"""What a probability that was computed in floats may be off beside its relative error: it may have become 0."""

_COARSEST = Fraction(1, 100)
_EXAMPLE = '{"yes": {"yes": "3/4", "no": "1/4"}, "no": {"yes": "1/4", "no": "3/4"}}'

_MOST_GIVEN = 2_000_000


@dataclass(frozen=True, slots=True)
class ProbabilityTable:
    """Probabilities rows[input][output] / whole, which are off by as much as least/wide and most/wide say.

    Attributes:
        inputs: the inputs, in order.
        outputs: the outputs, in order.
        rows: integers, a row for each input.
        whole: what stands for probability 1 in `rows`.
        least: the least probabilities within the rounding.
        most: the most probabilities within the rounding.
        wide: what stands for probability 1 in `least` and `most`.
        rounding: the most by which each probability may be off, relatively; 0 for exact ones.
    """

    inputs: tuple[object, ...]
    outputs: tuple[Hashable, ...]
    rows: Rows
    whole: int
    least: Rows
    most: Rows
    wide: int
    rounding: Fraction


def read(mechanism: Any, inputs: Iterable[object] | None, rounding: Fraction) -> ProbabilityTable:
    """Return the table of a mapping of mappings, of a function and its inputs, or of rows.

    Raises:
        InvalidParameter: it is none of them, or its rows are no probabilities.
    """
    if not 0 <= rounding <= _COARSEST:
        raise InvalidParameter(f"rounding must lie in [0, {decimal(_COARSEST)}], not {rounding}.")
    if isinstance(mechanism, Mapping):
        if inputs is not None:
            raise InvalidParameter("inputs are the keys of the mapping already.", hint="leave inputs out")
        return _of_mappings(tuple(mechanism), list(mechanism.values()), rounding)
    if callable(mechanism):
        if inputs is None:
            raise InvalidParameter("a function needs inputs=.", hint="inputs=[0, 1, 2]")
        known = several("inputs", inputs, hint="inputs=[0, 1, 2]")
        return _of_mappings(known, [mechanism(x) for x in known], rounding)
    try:
        rows = [list(row) for row in mechanism]
    except TypeError:
        raise InvalidParameter(
            f"mechanism must be a mapping, a function or rows of probabilities, not {type(mechanism).__name__}.",
            hint=_EXAMPLE,
        ) from None
    if len({len(row) for row in rows}) > 1:
        raise InvalidParameter("rows must have one length: a column for each output.", hint=_EXAMPLE)
    known = tuple(range(len(rows))) if inputs is None else several("inputs", inputs, hint="inputs=[0, 1, 2]")
    if len(known) != len(rows):
        raise InvalidParameter(f"there are {len(rows)} rows and {len(known)} inputs.")
    return _table(known, tuple(range(len(rows[0]) if rows else 0)), rows, rounding)


def graph(table: ProbabilityTable, neighbours: Iterable[tuple[object, object]] | None) -> tuple[tuple[int, int], ...]:
    """Pairs of neighbours as indices of inputs, each once and in order; all pairs by default.

    Raises:
        InvalidParameter: a pair that is none of two inputs.
    """
    many = len(table.inputs)
    if neighbours is None:
        _few(many * (many - 1) // 2, table)
        return tuple((i, j) for i in range(many) for j in range(i + 1, many))
    place = _places(table.inputs)
    found: dict[tuple[int, int], None] = {}
    for pair in several("neighbours", neighbours, hint="neighbours=[(0, 1), (1, 2)], a function, or 'replace'"):
        try:
            x, y = pair
        except (TypeError, ValueError):
            raise InvalidParameter(
                f"neighbours must be pairs of inputs, not {pair!r}.", hint="neighbours=[(0, 1), (1, 2)]"
            ) from None
        i, j = _place(place, table.inputs, x), _place(place, table.inputs, y)
        if i != j:
            found[min(i, j), max(i, j)] = None
    _few(len(found), table)
    return tuple(found)


def of_integers(inputs: tuple[object, ...], outputs: tuple[Hashable, ...], rows: Rows, whole: int) -> ProbabilityTable:
    """Return the table of exact probabilities rows / whole, in lowest terms; each row is known to sum to `whole`."""
    shared = math.gcd(whole, *(p for row in rows for p in row))
    least = tuple(tuple(p // shared for p in row) for row in rows)
    return ProbabilityTable(inputs, outputs, least, whole // shared, least, least, whole // shared, Fraction(0))


def _of_mappings(inputs: tuple[object, ...], laws: Sequence[object], rounding: Fraction) -> ProbabilityTable:
    outputs: dict[Hashable, None] = {}
    for x, law in zip(inputs, laws, strict=True):
        if not isinstance(law, Mapping):
            raise InvalidParameter(
                f"the law of {x!r} must be a mapping of outputs to probabilities, not {type(law).__name__}.",
                hint=_EXAMPLE,
            )
        outputs.update(dict.fromkeys(law))
    rows = [[law.get(o, 0) for o in outputs] for law in laws if isinstance(law, Mapping)]
    return _table(inputs, tuple(outputs), rows, rounding)


def _table(
    inputs: tuple[object, ...], outputs: tuple[Hashable, ...], rows: Sequence[Sequence[Any]], rounding: Fraction
) -> ProbabilityTable:
    if not inputs or not outputs:
        raise InvalidParameter("mechanism has no inputs or no outputs.", hint=_EXAMPLE)
    laws = [_law(x, row, rounding) for x, row in zip(inputs, rows, strict=True)]
    whole = math.lcm(*(p.denominator for law in laws for p in law))
    exactly = _integers(laws, whole)
    if not rounding:
        return ProbabilityTable(inputs, outputs, exactly, whole, exactly, exactly, whole, rounding)
    wide = whole * rounding.denominator * _UNDERFLOW.denominator
    least = [[max(Fraction(0), p * (1 - rounding) - _UNDERFLOW) for p in law] for law in laws]
    most = [[p * (1 + rounding) + _UNDERFLOW for p in law] for law in laws]
    return ProbabilityTable(
        inputs, outputs, exactly, whole, _integers(least, wide), _integers(most, wide), wide, rounding
    )


def _law(x: object, row: Sequence[Any], rounding: Fraction) -> list[Fraction]:
    law = [exact(f"the probability of an output under {x!r}", p) for p in row]
    if min(law) < 0:
        raise InvalidParameter(f"a probability under {x!r} is below 0.")
    off = sum(law, Fraction(-1))
    if abs(off) > rounding:
        raise InvalidParameter(
            f"the probabilities under {x!r} must sum to 1; the sum is off by {decimal(off)}.",
            hint="give fractions, or rounding=1e-12 where they were computed in floats",
        )
    return law


def _integers(laws: Sequence[Sequence[Fraction]], whole: int) -> Rows:
    return tuple(tuple(p.numerator * (whole // p.denominator) for p in law) for law in laws)


def _few(pairs: int, table: ProbabilityTable) -> None:
    if 2 * pairs * len(table.outputs) > _MOST:
        raise InvalidParameter(
            f"{pairs} pairs of neighbours with {len(table.outputs)} outputs are too many.",
            hint="give neighbours=, or one of each class of inputs that are alike by symmetry",
        )


def _places(inputs: tuple[object, ...]) -> dict[Hashable, int]:
    places: dict[Hashable, int] = {}
    for i, x in enumerate(inputs):
        if isinstance(x, Hashable):
            try:
                if x in places:
                    raise InvalidParameter(f"the input {x!r} is given twice.")
                places[x] = i
            except TypeError:  # a tuple with a list inside
                continue
    return places


def _place(places: dict[Hashable, int], inputs: tuple[object, ...], x: Any) -> int:
    try:
        if x in places:
            return places[x]
    except TypeError:  # compared one by one below
        pass
    for i, known in enumerate(inputs):
        if type(known) is type(x) and bool(known == x):
            return i
    raise InvalidParameter(f"{x!r} is a neighbour, but not an input.")


def several(name: str, values: object, *, hint: str) -> tuple[Any, ...]:
    """Return the values, one after the other.

    Raises:
        InvalidParameter: it is a single one, or a range of more than a table could hold.
    """
    if not isinstance(values, Iterable):
        raise InvalidParameter(f"{name} must be several values, not {type(values).__name__}.", hint=hint)
    if isinstance(values, range) and len(values) > _MOST_GIVEN:  # before it fills the memory
        raise InvalidParameter(
            f"{name} has {len(values):,} elements; at most {_MOST:,} are gone through.",
            hint="what is wrong shows in small worlds",
        )
    return tuple(values)


def refuse_no_function(name: str, value: object, *, hint: str) -> None:
    """Refuses what cannot be called.

    Raises:
        InvalidParameter: it cannot.
    """
    if not callable(value):
        raise InvalidParameter(f"{name} must be a function, not {type(value).__name__}.", hint=hint)
