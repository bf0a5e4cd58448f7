"""A mechanism on a secret random sample of a database, as a mixture of its laws."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product

from discreet.errors import InvalidParameter
from discreet.finite.composing import MOST_ENTRIES, mixed
from discreet.finite.histograms import Database, histograms, how_many, refuse_many
from discreet.finite.rows import ProbabilityTable, Rows
from discreet.privacy.unit import Relation

_FIT = "make the mechanism on dp.finite.databases(universe, size)"


def poisson(table: ProbabilityTable, rate: Fraction) -> ProbabilityTable:
    """Return the table on a sample that each record enters by itself with chance `rate`.

    A database with n_k records of kind k has the sample s with chance Π C(n_k, s_k) q^s_k (1−q)^(n_k − s_k).
    """
    known = _databases(table)
    work = sum(math.prod(n + 1 for n in x.counts) for x in known)
    if work > MOST_ENTRIES:
        raise InvalidParameter(
            f"the inputs have {work:,} samples in all; at most {MOST_ENTRIES:,} are gone through."
        )
    place = {x.counts: i for i, x in enumerate(known)}
    most = max(x.size for x in known)
    taken, left = rate.numerator, rate.denominator - rate.numerator
    weights = []
    for x in known:
        row = [0] * len(known)
        for s, ways in _samples(x.counts):
            if s not in place:
                raise InvalidParameter(f"the sample {Database(x.universe, s)} of {x} is no input.", hint=_FIT)
            n = sum(s)
            row[place[s]] = ways * taken**n * left ** (x.size - n) * rate.denominator ** (most - x.size)
        weights.append(tuple(row))
    return mixed(table, tuple(known), tuple(weights), rate.denominator**most)


def fixed_size(table: ProbabilityTable, sample: int, population: int) -> ProbabilityTable:
    """Return the table on `sample` of `population` records, drawn without replacement; its inputs are all such
    databases.

    The sample s has chance Π C(n_k, s_k) / C(n, m).
    """
    known = _databases(table)
    if any(x.size != sample for x in known):
        raise InvalidParameter(
            f"the mechanism must be on databases of sample={sample} records.",
            hint=f"make it on dp.finite.databases(universe, {sample}, relation='replace')",
        )
    if sample > population:
        raise InvalidParameter(f"sample must be at most population = {population}, not {sample}.")
    place = {x.counts: i for i, x in enumerate(known)}
    kinds = known[0].universe
    many = how_many(len(kinds), population, Relation.REPLACE)
    refuse_many(many, population, len(kinds), "databases")
    if many * len(known) > MOST_ENTRIES:
        raise InvalidParameter(
            f"{many:,} databases with {len(known):,} samples are too many; at most {MOST_ENTRIES:,} "
            "pairs are gone through."
        )
    inputs, weights = [], []
    for counts in histograms(len(kinds), population, Relation.REPLACE):
        row = [0] * len(known)
        for s, i in place.items():
            row[i] = math.prod(map(math.comb, counts, s))
        inputs.append(Database(kinds, counts))
        weights.append(tuple(row))
    if len(known) < how_many(len(kinds), sample, Relation.REPLACE):
        raise InvalidParameter("some samples are no inputs of the mechanism.", hint=_FIT)
    rows: Rows = tuple(weights)
    return mixed(table, tuple(inputs), rows, math.comb(population, sample))


def _samples(counts: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], int]]:
    """All samples of a database with the number of ways to draw each."""
    for s in product(*(range(n + 1) for n in counts)):
        yield s, math.prod(map(math.comb, counts, s))


def _databases(table: ProbabilityTable) -> Sequence[Database]:
    known = [x for x in table.inputs if isinstance(x, Database)]
    if len(known) < len(table.inputs):
        raise InvalidParameter("only a mechanism on databases can be given a sample.", hint=_FIT)
    if any(x.universe != known[0].universe for x in known):
        raise InvalidParameter("the inputs are databases over two universes.", hint=_FIT)
    return known
