"""A randomized algorithm as a stochastic matrix: a point of the probability simplex for each input."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidParameter
from discreet.finite.composing import adaptive, beside, cost, law_of, mixed, prior_of, refuse_large, through
from discreet.finite.histograms import Neighbours, pairs_of, product, records_of, refuse_slow
from discreet.finite.measured import ComparedTable, OutputEvent, Pairs, in_words, likelier, log_above, within
from discreet.finite.rows import ProbabilityTable, graph, of_integers, read, refuse_no_function, several
from discreet.noise.entropy import Entropy, SystemEntropy, below
from discreet.privacy.exact import Real, above, count, exact
from discreet.privacy.guarantee import decimal
from discreet.privacy.unit import Relation

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss

_WIDE = 8  # columns and rows that are shown

Row = tuple[int, ...]

_WIDEST = 425_000_000
_DIGITS = 60
_SLACK = Fraction(1, 10**45)
MOST_BITS = 50_000_000
"""Of the powers of an exact moment; more would take minutes."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Mechanism(ComparedTable):
    """A mechanism with finitely many inputs and outputs, given by the probabilities of its outputs.

    Args:
        rows: a mapping input → row of probabilities, or input → (mapping output → probability); a function of an
            input that returns such a mapping, with `inputs`; or rows alone, for the inputs 0, 1, … Probabilities
            are fractions, integers, decimals or texts; a float means its shortest decimal. Each row sums to 1,
            exactly: write thirds as '1/3'.
        inputs: the inputs, where `rows` does not name them.
        neighbours: which inputs are neighbours: all of them unless said (the local model); "add-remove" or
            "replace" for inputs that are `Database`s; pairs; or a function of two inputs, true in either order.
        rounding: for rows that were computed in floats: they may miss 1 by this share, and are divided by their sums.
            The mechanism is the one with the divided rows, and all that it says is exact of that one. If each given
            probability is within a share r of the true one, and r ≤ 1/100, then the truth has an ε at δ = 0 within
            2·log((1 + r)/(1 − r)) of what is said, apart from outputs of which one law is 0, and a δ within 5r.

    Guarantee:
        `ratio`, `delta_bounds`, `tradeoff`, `moment`, `worst` and `dominating` are exact, or bounds on the stated
        side, under the neighbours that were given. No float takes part.

    References:
        Dwork, Roth 2014, Definitions 2.1, 2.2 and 2.4, https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf;
        docs/proofs/finite.md

    >>> M = Mechanism({0: [0.75, 0.25], 1: [0.25, 0.75]})
    >>> M.ratio(), round(M.epsilon(), 4), round(M.delta(epsilon=1), 4)
    (Fraction(3, 1), 1.0986, 0.0704)
    >>> M.loss
    PrivacyLoss: ε = 1.09861 (pure)

    Raises:
        InvalidParameter: rows that are no probabilities or do not sum to 1, neighbours that are no inputs, or more
            probabilities or pairs than can be compared.
    """

    def __init__(
        self, rows: object, *, inputs: Iterable[object] | None = None, neighbours: Neighbours = None, rounding: Real = 0
    ) -> None:
        slack = exact("rounding", rounding)
        if isinstance(rows, Mapping) and rows and not any(isinstance(r, Mapping) for r in rows.values()):
            if inputs is not None:
                raise InvalidParameter("inputs are the keys of the mapping already.", hint="leave inputs out")
            rows, inputs = [_row(x, row) for x, row in rows.items()], tuple(rows)
        elif isinstance(rows, np.ndarray):
            rows = rows.tolist()  # what is masked is None then, and refused
        table = read(rows, inputs, slack)
        refuse_large(len(table.inputs), len(table.outputs))
        table = _scaled(table) if slack else table
        _set(self, table, pairs_of(table, neighbours))

    def law(self, x: object) -> dict[Hashable, Fraction]:
        """Return the law of the output on x, which is a point of the probability simplex."""
        row = self.table.rows[self._at(x)]
        return {o: Fraction(p, self.table.whole) for o, p in zip(self.outputs, row, strict=True)}

    def chance(self, x: object, event: Iterable[Hashable] | Callable[[Any], bool]) -> Fraction:
        """P(M(x) ∈ E) for an event: outputs, or a function that says which outputs are in it."""
        inside: Callable[[Any], bool] = (
            event if callable(event) else several("event", event, hint="outputs, or a function of one").__contains__
        )
        return sum((p for o, p in self.law(x).items() if inside(o)), Fraction(0))

    def sample(self, x: object, *, rng: Entropy | None = None) -> Hashable:
        """Return one output on x, drawn with its exact probability.

        Args:
            x: the input.
            rng: where randomness comes from, for tests; the operating system's by default.
        """
        place = below(self.table.whole, SystemEntropy() if rng is None else rng)
        ends = accumulate(self.table.rows[self._at(x)])
        return next(o for o, end in zip(self.outputs, ends, strict=True) if place < end)

    def worst(self, epsilon: Real | None = None) -> OutputEvent | None:
        """Return the neighbours and the event that tell the most; None where nothing has a neighbour.

        Without `epsilon` it is the event with the largest ratio of probabilities; with it, the event with the
        largest P(E) − e^ε Q(E), which is δ(ε).
        """
        if epsilon is None:
            return self.largest()
        e = exact("epsilon", epsilon)
        if e < 0:
            raise InvalidParameter(f"epsilon must be at least 0, not {epsilon}.")
        best = max(self.ordered(), key=lambda pair: self.excess(pair[0], pair[1], e), default=None)
        return None if best is None else self.event(*best, likelier(*self.rows_of(*best), e))

    def moment(self, order: int) -> Fraction | None:
        """e^((α−1)D_α) for the largest Rényi divergence of an integer order α: Σ P^α Q^(1−α), exactly.

        None where a neighbour never gives an output, so that it is infinite.
        """
        n = count("order", order)
        if n * self.table.whole.bit_length() * len(self.outputs) > MOST_BITS:
            raise InvalidParameter(
                f"the exact moment of order {n} is too long a number.", hint="ask renyi(alpha), a float"
            )
        found = [moment(p, q, self.table.whole, n) for p, q in self.all_rows()]
        known = [m for m in found if m is not None]
        return max(known, default=Fraction(1)) if len(known) == len(found) else None

    def renyi(self, alpha: Real) -> float:
        """Return the largest Rényi divergence D_α(P ‖ Q) of two neighbours for α ≥ 1, rounded up to a float.

        For α = 1 it is the Kullback-Leibler divergence; for α = math.inf, ε.

        References: Mironov 2017, Definitions 3 and 4, https://arxiv.org/abs/1702.07476
        """
        if isinstance(alpha, float) and alpha == math.inf:
            return self.epsilon()
        a = exact("alpha", alpha)
        if a < 1:
            raise InvalidParameter(f"alpha must be at least 1, not {alpha}.")
        return max((divergence(p, q, self.table.whole, a) for p, q in self.all_rows()), default=0.0)

    @property
    def dominating(self) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
        """Two laws whose δ(ε) is that of this mechanism at every ε, in both orders."""
        return dominating(self.all_rows(), self.table.whole)

    @property
    def loss(self) -> PrivacyLoss:
        """What one use costs, to be added to other uses. It is that of `dominating`."""
        from discreet.accounting.constructors import from_pmfs

        return from_pmfs(*self.dominating)

    def post(self, channel: object) -> Mechanism:
        """Return the mechanism whose output is handed to a channel that does not see the input.

        Args:
            channel: a function or a mapping of an output to the new output, or to a mapping of new outputs to
                their probabilities; or a `Mechanism` whose inputs are the outputs of this one.

        References: Dwork, Roth 2014, Proposition 2.1
        """
        if isinstance(channel, Mechanism):
            table = through(self.table, channel.law)
        elif isinstance(channel, Mapping):
            table = through(self.table, lambda o: law_of(_found(channel, o), o))
        elif callable(channel):
            table = through(self.table, lambda o: law_of(channel(o), o))
        else:
            raise InvalidParameter(
                f"a channel is a function, a mapping or a Mechanism, not {type(channel).__name__}.",
                hint="M.post(lambda o: o > 3)",
            )
        return made(table, self.pairs, self.edges)

    def __and__(self, other: object) -> Mechanism:
        """Both outputs, each with coins of its own: M & N."""
        return self.then(other) if isinstance(other, Mechanism) else NotImplemented

    def then(self, second: object) -> Mechanism:
        """Return this mechanism and then a second one on the same input, which may be chosen by the first output.

        The output is the pair of both outputs.

        Args:
            second: a `Mechanism`; or a function or a mapping that gives one for each output of this mechanism.

        References: Dwork, Roth 2014, Theorems 3.14 and 3.16
        """
        chosen = [self._second(second, o) for o in self.outputs]
        return made(adaptive(self.table, [m.table for m in chosen]), self.pairs, self.edges)

    def parallel(self, other: Mechanism) -> Mechanism:
        """Return this mechanism on one part of the data and the other on a disjoint part.

        Inputs are pairs of inputs, outputs pairs of outputs; neighbours differ in one of the two parts.

        References: McSherry 2009, Theorem 4, https://doi.org/10.1145/1559845.1559850
        """
        if not isinstance(other, Mechanism):
            raise InvalidParameter(f"what works on the other part must be a Mechanism, not {type(other).__name__}.")
        table = beside(self.table, other.table)
        m, n = len(self.inputs), len(other.inputs)
        pairs = product(self.pairs, other.pairs, m, n)
        edges = (
            pairs if (self.pairs, other.pairs) == (self.edges, other.edges) else product(self.edges, other.edges, m, n)
        )
        return made(table, pairs, edges)

    def group(self, k: int) -> Mechanism:
        """Return the same mechanism for neighbours that are up to k steps apart: what it promises a group of k.

        Steps are those of the neighbours that were given when it was made, also where it is a group's already.

        References: Dwork, Roth 2014, Theorem 2.2
        """
        return made(self.table, within(self.edges, len(self.inputs), k), self.edges)

    def of(self, f: Callable[..., Hashable], *, inputs: Iterable[object], neighbours: Neighbours = None) -> Mechanism:
        """Return the mechanism x ↦ M(f(x)): this one, on the result of a query about the input.

        `f` is handed the records of a `Database`, and any other input as it is.
        """
        known = tuple(inputs)
        if not known:
            raise InvalidParameter("inputs has no elements.")
        chosen = []
        for x in known:
            answer = f(records_of(x))
            try:
                chosen.append(self._at(answer))
            except InvalidParameter:
                raise InvalidParameter(
                    f"f gives {answer!r} on {x!r}, which is no input of the mechanism.",
                    hint=f"its inputs are such as {self.inputs[0]!r}",
                ) from None
        refuse_large(len(known), len(self.outputs))
        rows = tuple(self.table.rows[i] for i in chosen)
        table = of_integers(known, self.outputs, rows, self.table.whole)
        return made(table, pairs_of(table, neighbours))

    def poisson(self, rate: Real) -> Mechanism:
        """Return this mechanism on a sample that each record of a `Database` enters by itself, with chance `rate`.

        Its inputs must have every part of an input among them, as `databases(universe, size)` has.

        References: Balle, Barthe, Gaboardi 2018, Theorem 8, https://arxiv.org/abs/1807.01647
        """
        from discreet.finite.composing import poisson

        q = exact("rate", rate)
        if not 0 <= q <= 1:
            raise InvalidParameter(f"rate must lie in [0, 1], not {rate}.")
        return made(poisson(self.table, q), self.pairs, self.edges)

    def fixed_size(self, sample: int, population: int) -> Mechanism:
        """Return this mechanism on `sample` records drawn without replacement from databases of `population`.

        The new inputs are all such databases, and neighbours replace one record.

        References: Balle, Barthe, Gaboardi 2018, Theorem 9, https://arxiv.org/abs/1807.01647
        """
        from discreet.finite.composing import fixed_size

        table = fixed_size(self.table, count("sample", sample, least=0), count("population", population))
        return made(table, pairs_of(table, Relation.REPLACE))

    def posterior(self, output: Hashable, prior: object = None) -> dict[Any, Fraction]:
        """Return what somebody believes of the input after the output, by Bayes' rule; the prior is uniform unless
        given.

        Raises:
            InvalidParameter: an output that has no chance under that prior.
        """
        asked: Any = output  # what came need not be what was annotated
        if not isinstance(asked, Hashable) or output not in self.outputs:
            shown = repr(asked) if isinstance(asked, Hashable) else f"a {type(asked).__name__}"
            raise InvalidParameter(f"{shown} is no output.", hint="M.outputs lists them")
        k = self.outputs.index(output)
        joint = [b * row[k] for b, row in zip(prior_of(self.inputs, prior), self.table.rows, strict=True)]
        total = sum(joint, Fraction(0))
        if not total:
            raise InvalidParameter(f"{output!r} has no chance under this prior, so nothing follows from it.")
        return {x: j / total for x, j in zip(self.inputs, joint, strict=True)}

    def mixture(self, priors: Mapping[Any, object]) -> Mechanism:
        """Return the mechanism whose inputs are laws on the inputs of this one: what it tells about where the data came
        from.

        All new inputs are neighbours of each other.
        """
        if not isinstance(priors, Mapping):
            raise InvalidParameter(
                f"priors must be a mapping of names to laws, not {type(priors).__name__}.",
                hint="priors={'a guess': [1, 0]}",
            )
        if not priors:
            raise InvalidParameter("priors has no elements.", hint="priors={'a guess': [1, 0]}")
        laws = [prior_of(self.inputs, p) for p in priors.values()]
        whole = math.lcm(*(b.denominator for law in laws for b in law))
        weights = tuple(tuple(int(b * whole) for b in law) for law in laws)
        table = mixed(self.table, tuple(priors), weights, whole)
        return made(table, graph(table, None))

    def expected(self, loss: Callable[[Any, Any], Real], prior: object = None) -> Fraction:
        """Return the mean of loss(input, output) under a prior on inputs; without one, that on the worst input."""
        refuse_no_function("loss", loss, hint="lambda x, o: abs(x - o)")
        whole = self.table.whole
        means = [
            sum((p * cost("loss", loss(records_of(x), o)) for p, o in zip(row, self.outputs, strict=True)), Fraction(0))
            / whole
            for x, row in zip(self.inputs, self.table.rows, strict=True)
        ]
        if prior is None:
            return max(means)
        return sum((b * m for b, m in zip(prior_of(self.inputs, prior), means, strict=True)), Fraction(0))

    def __str__(self) -> str:
        size = f"{len(self.inputs)} inputs × {len(self.outputs)} outputs, {_counted(len(self.pairs))}"
        ratio, worst = self.ratio(), self.worst()
        said = (
            f"No finite ε at δ = 0: δ is at least {in_words(self.failure)} however large ε is."
            if ratio is None
            else f"ε = {log_above(ratio):.6g} at δ = 0: the largest ratio is {in_words(ratio)}."
        )
        lines = [f"Mechanism: {size}", *self._matrix(), said]
        return "\n".join(lines if worst is None else [*lines, f"Worst: {worst}"])

    def __repr__(self) -> str:
        ratio = self.ratio()
        said = f"δ ≥ {decimal(self.failure)} at every ε" if ratio is None else f"ε = {log_above(ratio):.6g}"
        return f"<Mechanism {len(self.inputs)}×{len(self.outputs)}: {said}>"

    def _matrix(self) -> list[str]:
        if len(self.inputs) > _WIDE or len(self.outputs) > _WIDE:
            return []
        cells = [["", *map(str, self.outputs)]]
        cells += [[str(x), *(_cell(p) for p in self.law(x).values())] for x in self.inputs]
        wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
        return ["  " + "  ".join(c.rjust(w) for c, w in zip(row, wide, strict=True)) for row in cells]

    def _at(self, x: object) -> int:
        for i, known in enumerate(self.inputs):
            if known is x or (type(known) is type(x) and bool(known == x)):
                return i
        given: Any = x  # an array has no hash
        if isinstance(given, Hashable) and x in self.inputs:
            return self.inputs.index(x)
        shown = repr(x) if isinstance(given, Hashable) else f"a {type(x).__name__}"
        raise InvalidParameter(f"{shown} is no input.", hint="M.inputs lists them")

    def _second(self, second: Any, o: Hashable) -> Mechanism:
        if isinstance(second, Mechanism):
            chosen = second
        elif isinstance(second, Mapping):
            chosen = _found(second, o)
        elif callable(second):
            chosen = second(o)
        else:
            chosen = second
        if not isinstance(chosen, Mechanism):
            raise InvalidParameter(
                f"what follows {o!r} must be a Mechanism, not {type(chosen).__name__}.",
                hint="M.then(N), or M.then(lambda o: N if o else K)",
            )
        if chosen.inputs != self.inputs or set(chosen.pairs) != set(self.pairs):
            raise InvalidParameter(
                "both mechanisms must have the same inputs, in one order, and the same neighbours.",
                hint="make both with the same inputs= and neighbours=; for disjoint parts there is .parallel()",
            )
        if set(chosen.edges) != set(self.edges):
            raise InvalidParameter(
                "both mechanisms must have the same steps between inputs: one of them is a group's.",
                hint="compose first, and take .group(k) of the whole",
            )
        return chosen


def _set(mechanism: Mechanism, table: ProbabilityTable, pairs: Pairs, edges: Pairs | None = None) -> None:
    refuse_slow(table.whole.bit_length(), len(table.outputs), len(pairs))
    object.__setattr__(mechanism, "table", table)
    object.__setattr__(mechanism, "pairs", pairs)
    object.__setattr__(mechanism, "edges", pairs if edges is None else edges)


def made(table: ProbabilityTable, pairs: Pairs, edges: Pairs | None = None) -> Mechanism:
    """Return the mechanism of a table that is known to be one."""
    mechanism = object.__new__(Mechanism)
    _set(mechanism, table, pairs, edges)
    return mechanism


def _found(mapping: Mapping[Any, Any], o: object) -> Any:
    if o not in mapping:
        raise InvalidParameter(f"nothing is given for the output {o!r}.")
    return mapping[o]


def _scaled(table: ProbabilityTable) -> ProbabilityTable:
    """Rows divided by their sums."""
    sums = [sum(row) for row in table.rows]
    whole = math.lcm(*sums)
    rows = tuple(tuple(p * (whole // s) for p in row) for row, s in zip(table.rows, sums, strict=True))
    return of_integers(table.inputs, table.outputs, rows, whole)


def _row(x: object, row: Any) -> list[Any]:
    try:
        return list(row.tolist() if isinstance(row, np.ndarray) else row)
    except TypeError:
        raise InvalidParameter(
            f"the law of {x!r} must be a row of probabilities or a mapping to them, not {type(row).__name__}.",
            hint="{0: [0.75, 0.25], 1: [0.25, 0.75]}",
        ) from None


def _counted(pairs: int) -> str:
    return f"{pairs} pair of neighbours" if pairs == 1 else f"{pairs} pairs of neighbours"


def _cell(p: Fraction) -> str:
    return str(p) if p.denominator < 1000 else f"{float(p):.4g}"


def dominating(laws: Iterable[tuple[Row, Row]], whole: int) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """(P, Q) with P(E) − aQ(E) at its largest, for every a ≥ 0, what it is at most over all the given pairs of laws.

    The points (Q(E), P(E)) of the likeliest events of all pairs have an upper convex hull; its edges are the
    outcomes of the pair.

    References: Zhu, Dong, Wang 2022, Proposition 8, https://arxiv.org/abs/2106.08567; proof: docs/proofs/finite.md
    """
    points = {(0, 0), (whole, whole)}
    for p, q in laws:
        points |= set(_curve(p, q))
    hull = _upper(points)
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(hull)]
    return tuple(Fraction(p, whole) for _, p in steps), tuple(Fraction(q, whole) for q, _ in steps)


def _curve(p: Row, q: Row) -> Iterable[tuple[int, int]]:
    """Return the events {P > aQ} as points (Q, P), from the likeliest outputs on."""
    ratios: dict[Fraction | None, tuple[int, int]] = {}
    for a, b in zip(p, q, strict=True):
        if a or b:
            ratio = Fraction(a, b) if b else None
            more, less = ratios.get(ratio, (0, 0))
            ratios[ratio] = more + a, less + b
    under, over = 0, 0
    if None in ratios:
        over = ratios.pop(None)[0]
        yield 0, over
    for _, (a, b) in sorted(ratios.items(), key=lambda r: r[0] or Fraction(0), reverse=True):
        under, over = under + b, over + a
        yield under, over


def _upper(points: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the vertices of the upper hull from (0, 0) to the right end, none between two others (Andrew 1979)."""
    highest: dict[int, int] = {}
    for x, y in points:
        highest[x] = max(y, highest.get(x, y))
    hull: list[tuple[int, int]] = []
    for x, y in sorted(highest.items()):
        while len(hull) > 1 and _turn(hull[-2], hull[-1], (x, y)) >= 0:
            hull.pop()
        hull.append((x, y))
    return hull if hull[0] == (0, 0) else [(0, 0), *hull]


def _turn(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> int:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def moment(p: Sequence[int], q: Sequence[int], whole: int, order: int) -> Fraction | None:
    """Σ P^α Q^(1−α) for an integer α ≥ 1, exactly; None where P has an output that Q never gives."""
    total = Fraction(0)
    for a, b in zip(p, q, strict=True):
        if a and not b:
            return None
        if a:
            total += Fraction(a**order, b ** (order - 1))
    return total / whole


def divergence(p: Sequence[int], q: Sequence[int], whole: int, order: Fraction) -> float:
    """D_α(P ‖ Q) for α ≥ 1, rounded up; for α = 1 the Kullback-Leibler divergence.

    Sixty digits are computed, and as many more as 1/(α − 1) has. A logarithm of a ratio, at most 10⁶ in size for
    ratios of integers that fit a memory, is off by 10⁻⁵³ at most, and so is D_α by it; the sum is off by 10⁻⁵³
    times α − 1, at most, before it is divided by that: all far below the slack that is added.
    """
    if any(a and not b for a, b in zip(p, q, strict=True)):
        return math.inf
    if tuple(p) == tuple(q):
        return 0.0
    more = 0 if order == 1 else len(str(int(1 / (order - 1))))
    c = Context(prec=_DIGITS + more, rounding=ROUND_HALF_EVEN, Emin=-_WIDEST, Emax=_WIDEST)
    losses = [(Decimal(a), _log(a, b, c)) for a, b in zip(p, q, strict=True) if a]
    # Terms of both signs: the error is relative to their sizes, which the largest loss bounds.
    slack = _SLACK * (1 + max(abs(Fraction(loss)) for _, loss in losses))
    if order == 1:
        mean = Decimal(0)
        for a, loss in losses:
            mean = c.add(mean, c.multiply(a, loss))
        return above(max(Fraction(mean) / whole, Fraction(0)) + slack)
    power = c.divide(Decimal(order.numerator - order.denominator), Decimal(order.denominator))
    top = max(loss for _, loss in losses)
    total = Decimal(0)
    for a, loss in losses:  # relative to the largest loss, so that no power is too large for a decimal
        total = c.add(total, c.multiply(a, c.exp(c.multiply(power, c.subtract(loss, top)))))
    below_top = c.ln(c.divide(total, Decimal(whole)))
    return above(max(Fraction(0), Fraction(top) + Fraction(below_top) / (order - 1)) + slack)


def _log(a: int, b: int, c: Context) -> Decimal:
    """log(a/b) with an error of 10⁻⁵⁸ beside its relative one."""
    return Decimal(0) if a == b else c.ln(c.divide(Decimal(a), Decimal(b)))
