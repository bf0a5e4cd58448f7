"""Tables made of tables: one after another, side by side, through a channel."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from discreet.errors import InvalidParameter
from discreet.finite.histograms import Database, histograms, how_many, refuse_many
from discreet.finite.rows import ProbabilityTable, Rows, of_integers, several
from discreet.privacy.exact import exact
from discreet.privacy.guarantee import decimal
from discreet.privacy.unit import Relation

MOST_ENTRIES = 2_000_000
"""Probabilities of one table."""


def adaptive(first: ProbabilityTable, seconds: Sequence[ProbabilityTable]) -> ProbabilityTable:
    """Return the first's output o and then that of the o-th of the others, on the same inputs."""
    refuse_large(len(first.inputs), sum(len(t.outputs) for t in seconds))
    whole = math.lcm(*(t.whole for t in seconds))
    scale = [whole // t.whole for t in seconds]
    rows = tuple(
        tuple(p * s * q for p, s, t in zip(first.rows[i], scale, seconds, strict=True) for q in t.rows[i])
        for i in range(len(first.inputs))
    )
    outputs = tuple((o, u) for o, t in zip(first.outputs, seconds, strict=True) for u in t.outputs)
    return of_integers(first.inputs, outputs, rows, first.whole * whole)


def beside(first: ProbabilityTable, second: ProbabilityTable) -> ProbabilityTable:
    """Both outputs, where the first works on one part of the input and the second on the other."""
    refuse_large(len(first.inputs) * len(second.inputs), len(first.outputs) * len(second.outputs))
    rows = tuple(tuple(a * b for a in p for b in q) for p in first.rows for q in second.rows)
    inputs = tuple((x, y) for x in first.inputs for y in second.inputs)
    outputs = tuple((o, u) for o in first.outputs for u in second.outputs)
    return of_integers(inputs, outputs, rows, first.whole * second.whole)


def mixed(table: ProbabilityTable, inputs: tuple[object, ...], weights: Rows, whole: int) -> ProbabilityTable:
    """Return the laws of new inputs, each a mixture of the table's laws with weights / whole."""
    refuse_large(len(inputs), len(table.outputs))
    columns = list(zip(*table.rows, strict=True))
    rows = tuple(
        tuple(sum(w * p for w, p in zip(row, column, strict=True) if w) for column in columns) for row in weights
    )
    return of_integers(inputs, table.outputs, rows, whole * table.whole)


def through(table: ProbabilityTable, channel: Callable[[Hashable], Mapping[Hashable, Fraction]]) -> ProbabilityTable:
    """Return the table whose output was handed to a channel: a law for each output."""
    laws = [channel(o) for o in table.outputs]
    outputs: dict[Hashable, int] = {}
    for law in laws:
        for o in law:
            outputs.setdefault(o, len(outputs))
    refuse_large(len(table.inputs), len(outputs))
    whole = math.lcm(*(p.denominator for law in laws for p in law.values()))
    rows = []
    for row in table.rows:
        found = [0] * len(outputs)
        for p, law in zip(row, laws, strict=True):
            if p:
                for o, chance in law.items():
                    found[outputs[o]] += p * chance.numerator * (whole // chance.denominator)
        rows.append(tuple(found))
    return of_integers(table.inputs, tuple(outputs), tuple(rows), table.whole * whole)


def law_of(given: Any, o: object) -> dict[Hashable, Fraction]:
    """Return what a channel does with the output o: a mapping is a law, anything else the new output itself.

    Raises:
        InvalidParameter: a law that does not sum to 1, or an output that cannot be one.
    """
    if not isinstance(given, Mapping):
        if not isinstance(given, Hashable):
            raise InvalidParameter(
                f"the channel turns {o!r} into a {type(given).__name__}, which cannot be an output.",
                hint="give a number, a text or a tuple, or a mapping of outputs to probabilities",
            )
        return {given: Fraction(1)}
    law = {u: exact(f"the probability of an output of the channel at {o!r}", p) for u, p in given.items()}
    total = sum(law.values(), Fraction(0))
    if any(p < 0 for p in law.values()) or total != 1:
        raise InvalidParameter(
            f"the channel at {o!r} is no law: its probabilities must be at least 0 and sum to 1, and sum to "
            f"{decimal(total)}.",
            hint="give fractions, or texts such as '1/3'",
        )
    return law


def cost(name: str, value: Any) -> Fraction:
    """Return a loss or a utility as a fraction; True and False are 1 and 0."""
    return Fraction(int(value)) if isinstance(value, bool) else exact(name, value)


def refuse_large(inputs: int, outputs: int) -> None:
    """Refuses tables beyond `MOST_ENTRIES`, with the numbers.

    Raises:
        InvalidParameter: there would be more.
    """
    if inputs * outputs > MOST_ENTRIES:
        raise InvalidParameter(
            f"{inputs:,} inputs with {outputs:,} outputs are {inputs * outputs:,} probabilities; at most "
            f"{MOST_ENTRIES:,} are kept.",
            hint="merge outputs with .post(), or take fewer inputs",
        )


def prior_of(inputs: Sequence[object], prior: Any) -> list[Fraction]:
    """Return a law on the inputs: uniform, in their order, or by name.

    Raises:
        InvalidParameter: it names something else, or is no law.
    """
    if prior is None:
        return [Fraction(1, len(inputs))] * len(inputs)
    if isinstance(prior, Mapping):
        unknown = [x for x in prior if x not in inputs]
        if unknown:
            raise InvalidParameter(f"prior names {unknown[0]!r}, which is no input.")
        given: Iterable[Any] = [prior.get(x, 0) for x in inputs]
    else:
        given = several("prior", prior, hint="prior=['1/2', '1/2'], or {input: probability}")
    law = [exact("a prior probability", p) for p in given]
    if len(law) != len(inputs):
        raise InvalidParameter(f"prior has {len(law)} probabilities for {len(inputs)} inputs.")
    if min(law) < 0 or sum(law) != 1:
        raise InvalidParameter(
            f"prior must be at least 0 and sum to 1; its sum is {decimal(sum(law, Fraction(0)))}.",
            hint="write thirds as '1/3'",
        )
    return law


_FIT = "make the mechanism on dp.finite.databases(universe, size)"


def poisson(table: ProbabilityTable, rate: Fraction) -> ProbabilityTable:
    """Return the table on a sample that each record enters by itself with chance `rate`.

    A database with n_k records of kind k has the sample s with chance Π C(n_k, s_k) q^s_k (1−q)^(n_k − s_k).
    """
    known = _databases(table)
    work = sum(math.prod(n + 1 for n in x.counts) for x in known)
    if work > MOST_ENTRIES:
        raise InvalidParameter(f"the inputs have {work:,} samples in all; at most {MOST_ENTRIES:,} are gone through.")
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
