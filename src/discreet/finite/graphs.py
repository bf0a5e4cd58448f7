"""Which inputs are neighbours: all, those of a relation of databases, those that a function says, or given pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from discreet.errors import InvalidParameter
from discreet.finite.histograms import Database, around
from discreet.finite.measured import Pairs
from discreet.finite.rows import ProbabilityTable, graph
from discreet.privacy.unit import Relation

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
