"""Databases as histograms: how many records of each kind, which two are neighbours, and all of them up to a size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, TypeAlias

from discreet.errors import InvalidParameter
from discreet.finite.measured import Pairs
from discreet.finite.rows import ProbabilityTable, graph, several
from discreet.privacy.exact import count, set_fields
from discreet.privacy.unit import Relation

MOST = 1_000_000
"""Databases, or pairs of neighbours, that are gone through one by one; as many take some seconds."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Database:
    """A point of N^X: how many records there are of each kind in the universe X.

    The order of records is no part of it. `records` lists them in the universe's order.

    Attributes:
        universe: the kinds of records, in order.
        counts: how many records there are of each kind.

    >>> x = Database(["flu", "cold"], [2, 1])
    >>> x.records, x.size, x.distance(Database(["flu", "cold"], [1, 3]))
    (('flu', 'flu', 'cold'), 3, 3)
    """

    universe: tuple[object, ...]
    counts: tuple[int, ...]

    def __init__(self, universe: Iterable[object], counts: Iterable[int]) -> None:
        kinds = kinds_of(universe)
        many = tuple(
            count("a count of records", n, least=0) for n in several("counts", counts, hint="counts=[2, 0, 1]")
        )
        if len(many) != len(kinds):
            raise InvalidParameter(f"there are {len(kinds)} kinds of records and {len(many)} counts.")
        set_fields(self, universe=kinds, counts=many)

    @classmethod
    def of(cls, records: Iterable[object] | Mapping[Any, int], *, universe: Iterable[object] | None = None) -> Database:
        """Return the database of these records, or of these counts by kind, whose kinds are the universe unless given.

        >>> Database.of([4, 0, 4], universe=range(5)).counts
        (1, 0, 0, 0, 2)
        >>> Database.of({"flu": 2, "cold": 1}).records
        ('flu', 'flu', 'cold')

        Raises:
            InvalidParameter: a record that is no element of the universe, or records without a universe.
        """
        if isinstance(records, Mapping):
            kinds = kinds_of(records if universe is None else universe)
            for kind in records:
                _place(kinds, kind)
            return cls(kinds, [records.get(kind, 0) for kind in kinds])
        if universe is None:
            raise InvalidParameter(
                "records need a universe.", hint="universe=range(5); or counts: {'flu': 2, 'cold': 1}"
            )
        kinds = kinds_of(universe)
        counts = [0] * len(kinds)
        for record in _several("records", records):
            counts[_place(kinds, record)] += 1
        return cls(kinds, counts)

    @property
    def records(self) -> tuple[Any, ...]:
        """The records, in the universe's order."""
        return tuple(r for r, n in zip(self.universe, self.counts, strict=True) for _ in range(n))

    @property
    def size(self) -> int:
        """The number of records, which is the ℓ1 norm ‖x‖₁."""
        return sum(self.counts)

    def distance(self, other: Database) -> int:
        """Return the ℓ1 distance ‖x − y‖₁: how many records have to be added or removed to get from one to the other.

        References: Dwork, Roth 2014, Definition 2.3, https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf
        """
        if self.universe != other.universe:
            raise InvalidParameter("databases over two universes have no distance.", hint="give both the same universe")
        return sum(abs(a - b) for a, b in zip(self.counts, other.counts, strict=True))

    def steps(self, other: Database, relation: str | Relation) -> int | None:
        """Return how many steps of neighbours lead to the other; None where no number of steps does."""
        away = self.distance(other)
        if Relation.parse(relation) is Relation.ADD_REMOVE:
            return away
        return away // 2 if self.size == other.size else None

    def is_neighbour(self, other: Database, relation: str | Relation) -> bool:
        """Return whether one record is added or removed, or one is replaced by another, between the two."""
        return self.steps(other, relation) == 1

    def __str__(self) -> str:
        return f"({', '.join(map(repr, self.records))})"

    def __repr__(self) -> str:
        return f"Database{self}"


def databases(
    universe: Iterable[object], size: int, *, relation: str | Relation = Relation.ADD_REMOVE
) -> tuple[Database, ...]:
    """All databases of at most `size` records; with `relation="replace"`, where the size is public, of exactly that.

    >>> len(databases(range(5), 4)), len(databases(range(5), 4, relation="replace"))
    (126, 70)

    Raises:
        InvalidParameter: more of them than can be gone through; the message says how many.
    """
    kinds, n, kind = kinds_of(universe), count("size", size, least=0), Relation.parse(relation)
    refuse_many(how_many(len(kinds), n, kind), n, len(kinds), "databases")
    return tuple(_known(kinds, c) for c in histograms(len(kinds), n, kind))


def neighbours(
    universe: Iterable[object], size: int, *, relation: str | Relation = Relation.ADD_REMOVE
) -> tuple[tuple[Database, Database], ...]:
    """All pairs of neighbours among `databases(universe, size, relation=relation)`, each pair once.

    >>> [f"{x} ~ {y}" for x, y in neighbours("ab", 1)]
    ["() ~ ('a')", "() ~ ('b')"]

    Raises:
        InvalidParameter: more of them than can be gone through; the message says how many.
    """
    kinds, n, kind = kinds_of(universe), count("size", size, least=0), Relation.parse(relation)
    refuse_many(how_many_pairs(len(kinds), n, kind), n, len(kinds), "pairs of neighbours")
    return tuple((_known(kinds, a), _known(kinds, b)) for a, b in adjacent(len(kinds), n, kind))


def how_many(kinds: int, size: int, relation: Relation) -> int:
    """Return the number of databases: multisets of exactly, or of at most, `size` records."""
    more = 1 if relation is Relation.ADD_REMOVE else 0
    return math.comb(kinds + size - 1 + more, size)


def how_many_pairs(kinds: int, size: int, relation: Relation) -> int:
    """Return the number of pairs of neighbours: what they share, and the one record or two in which they differ."""
    if not size:
        return 0
    if relation is Relation.ADD_REMOVE:
        return kinds * math.comb(kinds + size - 1, size - 1)
    return math.comb(kinds, 2) * math.comb(kinds + size - 2, size - 1)


def histograms(kinds: int, size: int, relation: Relation) -> Iterator[tuple[int, ...]]:
    """Yield the counts of all databases of exactly `size` records, or of 0, 1, … records up to it."""
    for n in range(size + 1) if relation is Relation.ADD_REMOVE else [size]:
        for chosen in combinations_with_replacement(range(kinds), n):
            counts = [0] * kinds
            for k in chosen:
                counts[k] += 1
            yield tuple(counts)


def adjacent(kinds: int, size: int, relation: Relation) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the counts of all pairs of neighbours, each pair once."""
    if not size:
        return
    exactly = Relation.REPLACE if relation is Relation.REPLACE else Relation.ADD_REMOVE
    for shared in histograms(kinds, size - 1, exactly):
        grown = [(*shared[:k], shared[k] + 1, *shared[k + 1 :]) for k in range(kinds)]
        if relation is Relation.ADD_REMOVE:
            yield from ((shared, more) for more in grown)
        else:
            yield from ((grown[i], grown[j]) for i in range(kinds) for j in range(i + 1, kinds))


def around(counts: tuple[int, ...], relation: Relation, size: int | None = None) -> Iterator[tuple[int, ...]]:
    """Yield the counts of all neighbours of a database; none beyond `size`, where it is given."""
    taken = [(*counts[:k], n - 1, *counts[k + 1 :]) for k, n in enumerate(counts) if n]
    if relation is Relation.ADD_REMOVE:
        yield from taken
        if size is None or sum(counts) < size:
            yield from ((*counts[:k], n + 1, *counts[k + 1 :]) for k, n in enumerate(counts))
        return
    for less in taken:
        for k, n in enumerate(less):
            if (other := (*less[:k], n + 1, *less[k + 1 :])) != counts:
                yield other


def kinds_of(universe: Iterable[object]) -> tuple[object, ...]:
    """Return the elements of a universe: at least one, and no two equal.

    Raises:
        InvalidParameter: an empty universe, or one with an element twice.
    """
    kinds = _several("universe", universe)
    if not kinds:
        raise InvalidParameter("universe has no elements.", hint="universe=range(5), or the values a record may take")
    if len(kinds) > MOST:
        raise InvalidParameter(f"universe has {len(kinds)} elements; at most {MOST} are gone through.")
    try:
        twice = len(set(kinds)) < len(kinds)
    except TypeError:
        twice = any(a == b for i, a in enumerate(kinds) for b in kinds[:i])
    if twice:
        raise InvalidParameter("universe has an element twice.", hint="give each kind of record once")
    return kinds


def refuse_many(many: int, size: int, kinds: int, what: str) -> None:
    """Refuses to go through more than `MOST`, with the number.

    Raises:
        InvalidParameter: there are more.
    """
    if many > MOST:
        shown = (
            f"{many:,}" if many < 10**15 else f"about 10^{len(str(many)) - 1}" if many < 10**4000 else "over 10^4000"
        )
        raise InvalidParameter(
            f"there are {shown} {what} of {size} records over {kinds} kinds; at most {MOST:,} are gone through.",
            hint="take a smaller universe or size: what is wrong shows in small worlds",
        )


def _known(kinds: tuple[object, ...], counts: tuple[int, ...]) -> Database:
    """Return a database whose parts were checked before."""
    x = object.__new__(Database)
    object.__setattr__(x, "universe", kinds)
    object.__setattr__(x, "counts", counts)
    return x


def _several(name: str, values: Iterable[object]) -> tuple[object, ...]:
    try:
        if isinstance(values, range) and len(values) > MOST:  # not made into a tuple first
            raise InvalidParameter(f"{name} has {len(values)} elements; at most {MOST} are gone through.")
        return tuple(values)
    except TypeError:
        raise InvalidParameter(
            f"{name} must be several values, not {type(values).__name__}.", hint=f"{name}=range(5)"
        ) from None


def _place(kinds: tuple[object, ...], record: object) -> int:
    for k, kind in enumerate(kinds):
        if kind is record or kind == record:
            return k
    raise InvalidParameter(
        f"the record {record!r} is no element of the universe.", hint="give universe= all kinds of records"
    )


Neighbours: TypeAlias = "str | Relation | Iterable[tuple[object, object]] | Callable[[Any, Any], bool] | None"
"""Which inputs are neighbours: all (None), those that a relation of databases or a function says, or given pairs."""

_MOST = 10**8
"""Comparisons of two short probabilities; as many take a minute."""


def pairs_of(table: ProbabilityTable, neighbours: Neighbours) -> Pairs:
    """Return the pairs of neighbouring inputs, as indices.

    Raises:
        InvalidParameter: a pair that is none of two inputs, a relation of what are no databases, or too many pairs.
    """
    if isinstance(neighbours, str | Relation):
        return graph(table, _related(table, Relation.parse(neighbours)))
    if callable(neighbours):
        graph(table, None)  # refuses what is too many
        known = table.inputs
        return graph(
            table,
            [
                (x, y)
                for i, x in enumerate(known)
                for y in known[i + 1 :]
                if neighbours(records_of(x), records_of(y)) or neighbours(records_of(y), records_of(x))
            ],
        )
    return graph(table, neighbours)


def _related(table: ProbabilityTable, relation: Relation) -> list[tuple[object, object]]:
    """Return the neighbours among databases, each found by looking up what is one step away."""
    given = [x for x in table.inputs if isinstance(x, Database)]
    hint = "inputs=dp.finite.databases(universe, size), or give pairs or a function"
    if len(given) < len(table.inputs):
        raise InvalidParameter(f"neighbours={relation.value!r} is for inputs that are databases.", hint=hint)
    if any(x.universe != given[0].universe for x in given):
        raise InvalidParameter("the inputs are databases over two universes.", hint=hint)
    known = {x.counts: x for x in given}
    if len(known) < len(given):
        raise InvalidParameter("a database is given twice as an input.", hint=hint)
    return [(x, known[c]) for x in known.values() for c in around(x.counts, relation) if c in known]


def records_of(x: object) -> Any:
    """Return what a function of an input is handed: the records of a `Database`, anything else as it is."""
    return x.records if isinstance(x, Database) else x


def refuse_slow(bits: int, outputs: int, pairs: int) -> None:
    """Refuses what would be compared for minutes: fractions of many bits count for as much as their products take."""
    comparisons = 2 * pairs * outputs
    if comparisons * (1 + (bits / 500) ** 1.5) > _MOST:
        raise InvalidParameter(
            f"{pairs:,} pairs of neighbours with {outputs:,} outputs, whose probabilities have "
            f"{bits:,} bits, are too much to compare.",
            hint="give neighbours=, probabilities with one short denominator, or fewer inputs",
        )


def product(a: Pairs, b: Pairs, many_a: int, many_b: int) -> Pairs:
    """Pairs of which one part is equal and the other a pair."""
    first = [(i * many_b + k, j * many_b + k) for i, j in a for k in range(many_b)]
    return tuple(first + [(k * many_b + i, k * many_b + j) for k in range(many_a) for i, j in b])
