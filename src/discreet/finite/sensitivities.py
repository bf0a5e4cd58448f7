"""How far one record moves a function: everywhere, at one database, and smoothed, by trying every pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

from discreet.errors import DiscreetError, InvalidParameter
from discreet.finite.histograms import (
    Database,
    adjacent,
    around,
    databases,
    how_many,
    how_many_pairs,
    kinds_of,
    refuse_many,
)
from discreet.finite.measured import exponential
from discreet.privacy.exact import Real, count, positive
from discreet.privacy.guarantee import decimal
from discreet.privacy.unit import Relation

Counts: TypeAlias = tuple[int, ...]
Pair: TypeAlias = tuple[Counts, Counts]
Numbers: TypeAlias = dict[object, int | Fraction]

_BITS = 64  # of a root that is no fraction
_DIGITS = 40  # of e^βd
_LARGEST = 1000  # β; beyond it nothing but the database itself counts

_LONG = 4096  # bits; far longer integers are refused as text by Python itself


def sensitivity(
    f: Callable[..., Any], *, universe: Iterable[object], size: int, relation: str | Relation, norm: float = 1
) -> Attained:
    """Return the global sensitivity of f: the largest ‖f(x) − f(y)‖ over all neighbours x and y, which are tried one by
    one.

    Args:
        f: a function of the tuple of records, listed in the universe's order; its value is a number, several
            numbers, or a mapping to numbers (what is missing in it is 0).
        universe: the values that a record may take.
        size: with "replace" the number of records, which is public; with "add-remove" the most there may be.
        relation: which databases are neighbours: one record "replace"d, or one more or less ("add-remove").
        norm: 1, 2 or math.inf.

    Guarantee:
        The number is exact where f gives integers, fractions or decimals and the norm is 1 or infinite; else it
        is at least the change between the values that f gave. It holds for databases of this universe and size
        alone. f must not depend on the order of records, which a histogram does not have.

    References:
        Dwork, Roth 2014, Definitions 3.1 and 3.8, https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf

    >>> sensitivity(sum, universe=range(5), size=4, relation="replace")
    <4, between (0, 0, 0, 0) and (0, 0, 0, 4)>
    >>> sensitivity(len, universe="ab", size=3, relation="replace") == 0
    True

    Raises:
        InvalidParameter: too many pairs (the message says how many), or values of f that are no finite numbers.
    """
    kinds, n, kind, norm = _read(universe, size, relation, norm)
    refuse_many(how_many_pairs(len(kinds), n, kind), n, len(kinds), "pairs of neighbours")
    values = _Values(f, kinds)
    best, where = Fraction(-1), None
    for pair in adjacent(len(kinds), n, kind):
        change = values.change(pair, norm)
        if change > best:
            best, where = change, pair
    return values.attained(best, where, norm)


def local_sensitivity(
    f: Callable[..., Any],
    x: Iterable[object] | Database,
    *,
    universe: Iterable[object],
    size: int | None = None,
    relation: str | Relation,
    norm: float = 1,
) -> Attained:
    """Return the local sensitivity of f at x: the largest ‖f(x) − f(y)‖ over the neighbours y of x.

    It depends on the data: noise of that size does not protect it. See `smooth_sensitivity`.

    Args:
        f: as in `sensitivity`.
        x: the records, or a `Database`.
        universe: the values that a record may take.
        size: with "add-remove", the most records that a database may have; no limit unless given.
        relation: as in `sensitivity`.
        norm: 1, 2 or math.inf.

    References: Nissim, Raskhodnikova, Smith 2007, Definition 1.3, https://doi.org/10.1145/1250790.1250803

    >>> from statistics import median
    >>> local_sensitivity(median, [0, 0, 0, 100, 100], universe=[0, 100], relation="replace")
    <100, between (0, 0, 0, 100, 100) and (0, 0, 100, 100, 100)>
    >>> local_sensitivity(median, [0, 0, 0, 0, 100], universe=[0, 100], relation="replace")
    <0, between (0, 0, 0, 0, 100) and (0, 0, 0, 100, 100)>
    """
    kinds, _, kind, norm = _read(universe, 0 if size is None else size, relation, norm)
    counts = _of(x, kinds, size, kind)
    values = _Values(f, kinds)
    best, where = values.local(counts, kind, size, norm)
    return values.attained(best, where, norm)


def smooth_sensitivity(
    f: Callable[..., Any],
    x: Iterable[object] | Database,
    beta: Real,
    *,
    universe: Iterable[object],
    size: int | None = None,
    relation: str | Relation,
    norm: float = 1,
) -> Attained:
    """Return the β-smooth sensitivity of f at x: the largest e^(−βd(x, y)) · LS(y) over all databases y.

    d(x, y) is the number of steps from x to y, LS(y) the local sensitivity there. `pair` is y and the neighbour
    of y between which the change is that large.

    Args:
        f: as in `sensitivity`.
        x: the records, or a `Database`.
        beta: β > 0.
        universe: the values that a record may take.
        size: with "add-remove", the most records that a database may have, which has to be given; with "replace"
            every database has as many as x.
        relation: as in `sensitivity`.
        norm: 1, 2 or math.inf.

    Guarantee:
        At least the β-smooth sensitivity, and above it by less than one part in 10³⁸ (for the norm 2, in 2⁶⁰).

    References: Nissim, Raskhodnikova, Smith 2007, Definition 2.2, https://doi.org/10.1145/1250790.1250803

    >>> from statistics import median
    >>> smooth_sensitivity(median, [0, 0, 0, 0, 100], "0.5", universe=[0, 100], relation="replace")
    <60.6531, between (0, 0, 0, 100, 100) and (0, 0, 100, 100, 100)>
    """
    b = positive("beta", beta)
    if b > _LARGEST:
        raise InvalidParameter(
            f"beta must be at most {_LARGEST}, not {beta}.", hint="so large a beta is local_sensitivity"
        )
    universe = kinds_of(universe)
    x = x if isinstance(x, Database) else Database.of(x, universe=universe)
    kinds, most, kind, norm = _read(universe, _smooth_size(x, size, relation), relation, norm)
    centre = _of(x, kinds, most, kind)
    refuse_many(2 * how_many_pairs(len(kinds), most, kind), most, len(kinds), "pairs of neighbours")
    refuse_many(how_many(len(kinds), most, kind), most, len(kinds), "databases")
    values = _Values(f, kinds)
    here = Database(kinds, centre)
    best, where, near = Fraction(-1), None, 0
    for y in databases(kinds, most, relation=kind):
        change, pair = values.local(y.counts, kind, most, norm)
        steps = here.steps(y, kind)
        if pair is None or steps is None:
            continue
        faded = change / exponential((2 if norm == 2 else 1) * b * steps, _DIGITS)[0]
        if faded > best or (faded == best and steps < near):
            best, where, near = faded, pair, steps
    return values.attained(best, where, norm, centre=here, exactly=near == 0)


class _Values:
    """The values of f, each computed once."""

    def __init__(self, f: Callable[..., Any], kinds: tuple[object, ...]) -> None:
        if not callable(f):
            raise InvalidParameter(f"f must be a function of the records, not {type(f).__name__}.", hint="f=sum")
        self.f, self.kinds = f, kinds
        self.known: dict[Counts, Numbers] = {}
        self.exact = True
        self.length: int | None = None

    def at(self, counts: Counts) -> Numbers:
        if counts not in self.known:
            self.known[counts] = self._ask(counts)
        return self.known[counts]

    def change(self, pair: Pair, norm: float) -> Fraction:
        """Return the distance of the values at two databases; for the norm 2 its square."""
        a, b = self.at(pair[0]), self.at(pair[1])
        if a.keys() == b.keys():
            moved: list[Fraction] = [abs(Fraction(v - b[k])) for k, v in a.items()]
        else:
            moved = [abs(Fraction(a.get(k, 0) - b.get(k, 0))) for k in a.keys() | b.keys()]
        if norm == 1:
            return sum(moved, Fraction(0))
        return sum((m * m for m in moved), Fraction(0)) if norm == 2 else max(moved, default=Fraction(0))

    def local(self, counts: Counts, relation: Relation, size: int | None, norm: float) -> tuple[Fraction, Pair | None]:
        """Return the largest change from one database to a neighbour, and the two."""
        best, where = Fraction(-1), None
        for other in around(counts, relation, size):
            change = self.change((counts, other), norm)
            if change > best:
                best, where = change, (counts, other)
        return best, where

    def attained(
        self, best: Fraction, where: Pair | None, norm: float, *, centre: Database | None = None, exactly: bool = True
    ) -> Attained:
        """Return the number with its pair; 0 where there are no neighbours."""
        best = max(best, Fraction(0))
        value = _root_above(best) if norm == 2 else best
        pair = None if where is None else (Database(self.kinds, where[0]), Database(self.kinds, where[1]))
        sure = self.exact and exactly and (norm != 2 or value * value == best)
        return Attained(value, pair, exact=sure, squared=best if norm == 2 else best * best, centre=centre)

    def _ask(self, counts: Counts) -> Numbers:
        x = Database(self.kinds, counts)
        try:
            value = self.f(x.records)
        except DiscreetError:
            raise
        except Exception as error:
            raise InvalidParameter(
                f"f failed on the database {x} with {type(error).__name__}: {error}",
                hint="give f a value for every database, the empty one too, or take relation='replace'",
            ) from error
        found: Numbers = {}
        for k, v in _flat(value):
            found[k] = self._number(v, x)
        if not isinstance(value, Mapping):
            if self.length not in (None, len(found)):
                raise InvalidParameter(f"f gives {self.length} numbers for one database and {len(found)} for {x}.")
            self.length = len(found)
        return found

    def _number(self, v: Any, x: Database) -> int | Fraction:
        if isinstance(v, int):  # also True and False, as 1 and 0
            return int(v)
        if isinstance(v, float | Decimal):
            if not math.isfinite(v):
                raise InvalidParameter(f"f gave {v} for the database {x}; its values must be finite.")
            self.exact = self.exact and not isinstance(v, float)
            return Fraction(v)
        if isinstance(v, Fraction):  # which may hold numpy's integers, and they wrap
            return Fraction(int(v.numerator), int(v.denominator))
        raise InvalidParameter(f"f must give numbers, not {type(v).__name__} (for the database {x}).")


def _flat(value: Any) -> Iterator[tuple[object, Any]]:
    """Yield the numbers that a value of f consists of, each with a name."""
    if isinstance(value, Mapping):
        for k, v in value.items():
            yield k, v.tolist() if hasattr(v, "tolist") else v
        return
    plain = value.tolist() if hasattr(value, "tolist") else value  # NumPy's arrays and numbers
    stack, at = [plain], 0
    while stack:
        v = stack.pop()
        if isinstance(v, list | tuple):
            stack.extend(reversed(v))
        else:
            yield at, v.tolist() if hasattr(v, "tolist") else v
            at += 1


def _read(
    universe: Iterable[object], size: int, relation: str | Relation, norm: float
) -> tuple[tuple[object, ...], int, Relation, float]:
    asked: object = norm  # what came need not be what was annotated
    if not isinstance(asked, int | float) or asked not in (1, 2, math.inf) or isinstance(asked, bool):
        given = repr(asked) if isinstance(asked, int | float | str) else type(asked).__name__
        raise InvalidParameter(f"norm must be 1, 2 or math.inf, not {given}.", hint="norm=1 for Laplace noise")
    return kinds_of(universe), count("size", size, least=0), Relation.parse(relation), norm


def _of(x: Iterable[object] | Database, kinds: tuple[object, ...], size: int | None, relation: Relation) -> Counts:
    if isinstance(x, Database):
        if x.universe != kinds:
            raise InvalidParameter("x is a database over another universe.", hint="universe=x.universe")
        found = x
    else:
        found = Database.of(x, universe=kinds)
    if size is not None and (found.size > size or (relation is Relation.REPLACE and found.size != size)):
        wanted = "as many" if relation is Relation.REPLACE else "at most that many"
        raise InvalidParameter(f"x has {found.size} records, and size={size} means {wanted}.")
    return found.counts


def _smooth_size(x: Database, size: int | None, relation: str | Relation) -> int:
    if size is not None:
        return size
    if Relation.parse(relation) is Relation.ADD_REMOVE:
        raise InvalidParameter(
            "with relation='add-remove' size= is needed: the most records that a database may have.",
            hint="size=len(x) + 3, or what is publicly known",
        )
    return x.size


def _root_above(x: Fraction) -> Fraction:
    """√x where that is a fraction, else a fraction above it by less than one part in 2^60."""
    p, q = math.isqrt(x.numerator), math.isqrt(x.denominator)
    if p * p == x.numerator and q * q == x.denominator:
        return Fraction(p, q)
    shift = max(0, _BITS + (x.denominator.bit_length() - x.numerator.bit_length()) // 2)
    scaled = math.ceil(x * 4**shift)
    return Fraction(math.isqrt(scaled - 1) + 1, 2**shift)


class Attained(Fraction):
    """The largest change of a function, with the neighbours that attain it: a fraction, and to be used as one.

    Attributes:
        pair: the two neighbours between which the change is that large; None where there are no two neighbours.
        exact: whether the number is the change itself. Else it is at least that, and rounding is all that
            it exceeds it by: roots and exponentials are rounded up, and floats that f gave are taken as they are.
        squared: the square of the change; for the norm 2 of exact numbers it is a fraction where the change is none.
        centre: for a smooth sensitivity, the database that it is of; else None.
    """

    __slots__ = ("centre", "exact", "pair", "squared")

    pair: tuple[Database, Database] | None
    exact: bool
    squared: Fraction
    centre: Database | None

    def __new__(
        cls,
        value: Fraction,
        pair: tuple[Database, Database] | None,
        *,
        exact: bool = True,
        squared: Fraction | None = None,
        centre: Database | None = None,
    ) -> Attained:
        """Return the number, and where it is attained."""
        self = super().__new__(cls, value.numerator, value.denominator)
        self.pair = pair
        self.exact = exact
        self.squared = value * value if squared is None else squared
        self.centre = centre
        return self

    def __reduce__(self) -> tuple[Callable[..., Attained], tuple[object, ...]]:
        return _made, (Fraction(self), self.pair, self.exact, self.squared, self.centre)

    def __copy__(self) -> Attained:
        return self

    def __deepcopy__(self, memo: object) -> Attained:
        return self

    def __str__(self) -> str:
        where = "no two neighbours" if self.pair is None else f"{self.pair[0]} and {self.pair[1]}"
        long = self.denominator == 1 or self.numerator.bit_length() + self.denominator.bit_length() > _LONG
        number = (decimal(self) if long else super().__str__()) if self.exact else f"{float(self):.6g}"
        return f"{number}, between {where}"

    def __repr__(self) -> str:
        return f"<{self}>"


def _made(
    value: Fraction, pair: tuple[Database, Database] | None, exact: bool, squared: Fraction, centre: Database | None
) -> Attained:
    return Attained(value, pair, exact=exact, squared=squared, centre=centre)
