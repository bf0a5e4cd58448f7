"""The best private mechanism for a task, with a proof that none is better; and the best use of a given one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from discreet.errors import InternalError, InvalidParameter
from discreet.finite.composing import cost, prior_of
from discreet.finite.histograms import Neighbours, records_of
from discreet.finite.laws import grown, names_of
from discreet.finite.measured import exponential
from discreet.finite.mechanism import Mechanism
from discreet.finite.rows import refuse_no_function, several
from discreet.privacy.exact import Real, positive
from discreet.privacy.guarantee import decimal

_MOST_VARIABLES = 10_000
_MOST_CONSTRAINTS = 200_000
_LARGEST = 12
_NEAR = Fraction(1, 10**7)  # of the largest cost: a gap that is not worth another way to solve

Matrix: TypeAlias = list[list[Fraction]]
_TRIES = (("highs-ds", 1e-10), ("highs-ds", 1e-7), ("highs-ipm", 1e-10), ("highs-ipm", 1e-7))
"""Ways to solve, the best first: it finds corners, but now and then takes a task for unbounded."""

Ordered: TypeAlias = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True, repr=False)
class Optimal:
    """A mechanism for a task, its cost, and the cost below which no mechanism gets.

    Attributes:
        mechanism: the mechanism, in fractions.
        value: its mean cost under the prior; without a prior, its largest mean cost over all inputs. Exactly.
        bound: a number that the cost of no ε-DP mechanism is below, proved by `prices`.
        prior: the prior that was given, or the one that `bound` takes: a least favourable one.
        prices: for each ordered pair of neighbours (x, y) the prices λ ≥ 0 of the outputs, a solution of the dual.
        is_vertex: whether the mechanism is a corner of the set of private mechanisms, found exactly; else a share
            of a constant law was mixed in, to make up for rounding.
    """

    mechanism: Mechanism
    value: Fraction
    bound: Fraction
    prior: tuple[Fraction, ...]
    prices: tuple[tuple[Fraction, ...], ...]
    is_vertex: bool

    @property
    def gap(self) -> Fraction:
        """By how much a better mechanism could be better, at most."""
        return self.value - self.bound

    def __str__(self) -> str:
        return (
            f"{self.mechanism}\nMean cost {decimal(self.value)}; none that is as private costs less than "
            f"{decimal(self.bound)}, {float(self.gap):.1g} below it."
        )

    def __repr__(self) -> str:
        return f"<Optimal {self.mechanism!r}: cost {decimal(self.value)}, gap {float(self.gap):.1g}>"


def optimal(
    loss: Callable[[Any, Any], Real],
    *,
    inputs: Iterable[object],
    epsilon: Real,
    outputs: Iterable[Hashable] | None = None,
    prior: object = None,
    neighbours: Neighbours = None,
) -> Optimal:
    """Return the ε-DP mechanism with the least mean loss, by linear programming, made exact and proved to be best.

    Args:
        loss: a function of the input (the records of a `Database`) and the output; for a utility, its negative.
        inputs: the inputs.
        epsilon: ε, at most 12.
        outputs: what may come out; the inputs unless given.
        prior: a law on the inputs, under which the mean is taken; without one the largest mean over inputs counts.
        neighbours: which inputs are neighbours, as in `Mechanism`.

    Guarantee:
        The mechanism is ε-DP exactly: a corner of the set of such mechanisms is recovered in fractions from what the
        solver found in floats, or where that fails a constant law is mixed in until every ratio holds; a fraction
        just below e^ε stands for it. `bound` is the value of the dual for given prices in fractions, with a fraction
        above e^ε, and holds whatever the solver did.

    References: Ghosh, Roughgarden, Sundararajan 2009, Section 3.1 (the program), https://arxiv.org/abs/0811.2841;
    docs/proofs/finite.md

    >>> best = optimal(lambda x, o: abs(x - o), inputs=range(3), epsilon=1, neighbours=lambda x, y: abs(x - y) == 1)
    >>> best.gap < Fraction(1, 10**9), round(best.mechanism.epsilon(), 12)
    (True, 1.0)

    Raises:
        InvalidParameter: a task that is too large (the message says how large), or an ε that is.
    """
    e = positive("epsilon", epsilon)
    if e > _LARGEST:
        raise InvalidParameter(
            f"epsilon must be at most {_LARGEST}, not {epsilon}: floats cannot tell more from no privacy at all."
        )
    refuse_no_function("loss", loss, hint="lambda x, o: abs(x - o)")
    known = several("inputs", inputs, hint="inputs=range(11)")
    if not known:
        raise InvalidParameter("inputs has no elements.", hint="inputs=range(11)")
    names: tuple[Any, ...] = names_of("outputs", known if outputs is None else outputs)
    if len(known) * len(names) > _MOST_VARIABLES:
        raise InvalidParameter(
            f"{len(known):,} inputs with {len(names):,} outputs are {len(known) * len(names):,} unknown "
            f"probabilities; at most {_MOST_VARIABLES:,} are solved for.",
            hint="take fewer inputs, or one of each class that is alike by symmetry",
        )
    blank = Mechanism(lambda _: {names[0]: 1}, inputs=known, neighbours=neighbours)
    edges = [*blank.pairs, *((y, x) for x, y in blank.pairs)]
    if len(edges) * len(names) > _MOST_CONSTRAINTS:
        raise InvalidParameter(
            f"{len(blank.pairs):,} pairs of neighbours with {len(names):,} outputs are {len(edges) * len(names):,} "
            f"constraints; at most {_MOST_CONSTRAINTS:,} are taken.",
            hint="give neighbours= only for inputs that differ by one record",
        )
    costs = [[cost("loss", loss(records_of(x), o)) for o in names] for x in known]
    law = None if prior is None else prior_of(known, prior)
    low, high = grown(e), exponential(e, 40)[1]
    near = _NEAR * max((abs(c) for row in costs for c in row), default=Fraction(0))
    reached: list[tuple[Fraction, Matrix, bool]] = []
    proved: list[tuple[Fraction, Solution]] = []
    for found in solutions(costs, edges, low, law):
        corner = vertex(found.rows, edges, low, costs if law is None else None)
        rows = mixed_in(found.rows, edges, low) if corner is None else corner
        assert keeps(rows, edges, low)
        reached.append((_mean(costs, rows, law), rows, corner is not None))
        proved.append((lower_bound(costs, edges, high, found.prior, found.prices), found))
        if min(reached, key=_first)[0] - max(proved, key=_first)[0] <= near:
            break
    (value, rows, is_vertex), (bound, found) = min(reached, key=_first), max(proved, key=_first)
    each = iter(rows)
    mechanism = Mechanism(
        lambda _: dict(zip(names, next(each), strict=True)),
        inputs=known,
        neighbours=[(known[i], known[j]) for i, j in blank.pairs] if neighbours is not None else None,
    )
    return Optimal(mechanism, value, bound, tuple(found.prior), tuple(tuple(r) for r in found.prices), is_vertex)


def remapped(
    mechanism: Mechanism, loss: Callable[[Any, Any], Real], *, prior: object, outputs: Iterable[Hashable] | None = None
) -> Mechanism:
    """Return the mechanism whose every output is replaced by the best reply to it under a prior: post-processing.

    By Bayes' rule the reply to o is the r with the least Σ prior(x) P(o | x) loss(x, r). For counts and a loss that
    grows with the distance this makes the geometric mechanism as good as the best one.

    References: Ghosh, Roughgarden, Sundararajan 2009, Theorem 3.1, https://arxiv.org/abs/0811.2841
    """
    if not isinstance(mechanism, Mechanism):
        raise InvalidParameter(
            f"mechanism must be a Mechanism, not {type(mechanism).__name__}.", hint="geometric(10, epsilon=1)"
        )
    refuse_no_function("loss", loss, hint="lambda x, o: abs(x - o)")
    law = prior_of(mechanism.inputs, prior)
    known = mechanism.outputs if outputs is None else names_of("outputs", outputs)
    costs: Matrix = [
        [b * cost("loss", loss(records_of(x), r)) for r in known] for b, x in zip(law, mechanism.inputs, strict=True)
    ]
    reply = {}
    for o, column in zip(mechanism.outputs, zip(*mechanism.table.rows, strict=True), strict=True):
        means = [
            sum((p * row[k] for p, row in zip(column, costs, strict=True)), Fraction(0)) for k in range(len(known))
        ]
        reply[o] = known[means.index(min(means))]
    return mechanism.post(reply)


def _first(ranked: tuple[Fraction, *tuple[object, ...]]) -> Fraction:
    return ranked[0]


def _mean(costs: Matrix, rows: Matrix, law: list[Fraction] | None) -> Fraction:
    means = [sum((c * p for c, p in zip(a, b, strict=True)), Fraction(0)) for a, b in zip(costs, rows, strict=True)]
    return max(means) if law is None else sum((b * v for b, v in zip(law, means, strict=True)), Fraction(0))


_MOST_UNKNOWNS = 60  # of a system that is solved in fractions: some seconds; 80 take minutes


def vertex(rows: Matrix, edges: Ordered, grown: Fraction, costs: Matrix | None) -> Matrix | None:
    """Return the corner of the set of all private mechanisms that is meant: its equations are read off and solved
    exactly.

    Entries near 0 are 0, and ratios near the allowed one are that. So each column falls into parts that are known up
    to a factor, and the factors follow from the sums of the rows (and, with `costs`, from the mean costs that are as
    large as the largest). None where that is no mechanism, or does not decide all factors.
    """
    n, m = len(rows), len(rows[0])
    parts: list[dict[int, Fraction]] = []  # of one column each: input → multiple of the factor
    column_of: list[int] = []
    for o in range(m):
        column = [row[o] for row in rows]
        found = _parts(column, edges, grown)
        if found is None:
            return None
        parts += found
        column_of += [o] * len(found)
    unknowns = len(parts) + (costs is not None)
    if unknowns > _MOST_UNKNOWNS:
        return None
    system = [[part.get(x, Fraction(0)) for part in parts] for x in range(n)]
    if costs is not None:
        means = [
            sum((c * p for c, p in zip(cost, row, strict=True)), Fraction(0))
            for cost, row in zip(costs, rows, strict=True)
        ]
        size = max(map(abs, means)) or Fraction(1)
        for row in system:
            row.append(Fraction(0))
        for x in range(n):
            if max(means) - means[x] <= _NEAR * size:
                mean = [part.get(x, Fraction(0)) * costs[x][o] for part, o in zip(parts, column_of, strict=True)]
                system.append([*mean, Fraction(-1)])
    right = [Fraction(1)] * n + [Fraction(0)] * (len(system) - n)
    factors = _solved([[*row, b] for row, b in zip(system, right, strict=True)], unknowns)
    if factors is None:
        return None
    exactly = [[Fraction(0)] * m for _ in range(n)]
    for part, o, factor in zip(parts, column_of, factors, strict=False):
        for x, multiple in part.items():
            exactly[x][o] = multiple * factor
    return exactly if keeps(exactly, edges, grown) else None


def mixed_in(rows: Matrix, edges: Ordered, grown: Fraction) -> Matrix:
    """Rows divided by their sums, with as much of a constant law mixed in as the ratios need.

    A ratio that is missed by v = P(o|x) − e^ε P(o|y) > 0 holds for (1 − t)P + tw once t ≥ v/(v + (e^ε − 1)w(o)), as
    the constant law w has room (e^ε − 1)w(o). It is uniform on the outputs that are used, so the others stay unused.
    """
    used = [any(column) for column in zip(*rows, strict=True)]
    law = [Fraction(int(u), sum(used)) for u in used]
    scaled = [[p / sum(row) for p in row] for row in rows]
    share = Fraction(0)
    for x, y in edges:
        for p, q, w in zip(scaled[x], scaled[y], law, strict=True):
            if (missed := p - grown * q) > 0:
                share = max(share, missed / (missed + (grown - 1) * w))
    return [[(1 - share) * p + share * w for p, w in zip(row, law, strict=True)] for row in scaled]


def keeps(rows: Matrix, edges: Ordered, grown: Fraction) -> bool:
    """Return whether rows are laws whose ratios between the given inputs are at most `grown`, exactly."""
    if any(sum(row) != 1 or min(row) < 0 for row in rows):
        return False
    return all(p <= grown * q for x, y in edges for p, q in zip(rows[x], rows[y], strict=True))


def _parts(column: Sequence[Fraction], edges: Ordered, grown: Fraction) -> list[dict[int, Fraction]] | None:
    """Return the inputs of a column that met ratios tie together, each with its multiple; None where they disagree."""
    tied: dict[int, list[tuple[int, Fraction]]] = {}
    for x, y in edges:
        p, q = column[x], column[y]
        if p > _NEAR**2 and abs(p - grown * q) <= _NEAR * p:
            tied.setdefault(x, []).append((y, 1 / grown))
            tied.setdefault(y, []).append((x, grown))
    found: list[dict[int, Fraction]] = []
    left = {x for x, p in enumerate(column) if p > _NEAR**2}
    while left:
        start = min(left)
        part, ahead = {start: Fraction(1)}, [start]
        while ahead:
            x = ahead.pop()
            for y, factor in tied.get(x, ()):
                if y not in part:
                    part[y] = part[x] * factor
                    ahead.append(y)
                elif part[y] != part[x] * factor:
                    return None
        left -= part.keys()
        found.append(part)
    return found


def _solved(system: Matrix, unknowns: int) -> list[Fraction] | None:
    """Return the one solution of linear equations, each with its right side last; None where there is none or more."""
    for k in range(unknowns):
        pivot = next((r for r in range(k, len(system)) if system[r][k]), None)
        if pivot is None:
            return None
        system[k], system[pivot] = system[pivot], system[k]
        head = system[k] = [v / system[k][k] for v in system[k]]
        for r, row in enumerate(system):
            if r != k and row[k]:
                system[r] = [v - row[k] * h for v, h in zip(row, head, strict=True)]
    return None if any(row[-1] for row in system[unknowns:]) else [row[-1] for row in system[:unknowns]]


@dataclass(frozen=True, slots=True)
class Solution:
    """What the solver found, near the truth: the probabilities, and a price for each constraint.

    Attributes:
        rows: the probabilities, a row for each input.
        prices: for each output and each ordered pair (x, y) the price λ ≥ 0 of P(o | x) ≤ e^ε P(o | y).
        prior: the prior on the inputs: the one that was given, or the least favourable.
    """

    rows: Matrix
    prices: Matrix
    prior: list[Fraction]


def solutions(costs: Matrix, edges: Ordered, grown: Fraction, prior: list[Fraction] | None) -> Iterator[Solution]:
    """Yield the least mean cost under the prior, or without one the least of the largest mean cost, in several ways.

    The variables are P(o | x), row by row, and for the second task the largest mean. All solutions are near the truth;
    which of them has the nearest probabilities, or the nearest prices, differs from task to task.

    Raises:
        InternalError: the solver gave up, whichever way.
    """
    import numpy as np
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    n, m = len(costs), len(costs[0])
    size = max((abs(c) for row in costs for c in row), default=Fraction(0)) or Fraction(1)
    scaled = np.array([[float(c / size) for c in row] for row in costs])
    extra = prior is None
    objective = np.append(np.zeros(n * m), 1.0) if prior is None else (scaled * _column(prior)).ravel()
    pairs = np.array(edges, dtype=np.int64).reshape(-1, 2)
    one = (pairs[:, :1] * m + np.arange(m)).ravel()  # P(o | x) − e^ε P(o | y) ≤ 0
    two = (pairs[:, 1:] * m + np.arange(m)).ravel()
    # Each such row is divided by e^(ε/2): its entries then lie as far below 1 as above, which loses the fewest digits.
    half = float(grown) ** 0.5
    at = np.arange(one.size)
    entries = [np.full(one.size, 1 / half), np.full(one.size, -half)]
    rows, columns = [at, at], [one, two]
    if extra:  # Σ cost P(o | x) − t ≤ 0
        last = one.size + np.arange(n)
        rows += [np.repeat(last, m), last]
        columns += [np.arange(n * m), np.full(n, n * m)]
        entries += [scaled.ravel(), -np.ones(n)]
    width = n * m + extra
    upper = coo_matrix(
        (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))), shape=(one.size + n * extra, width)
    ).tocsr()
    sums = coo_matrix((np.ones(n * m), (np.repeat(np.arange(n), m), np.arange(n * m))), shape=(n, width)).tocsr()
    solver: Any = linprog
    found: Any = None
    solved = False
    for method, tolerance in _TRIES:
        found = solver(
            objective,
            A_ub=upper if upper.shape[0] else None,
            b_ub=np.zeros(upper.shape[0]) if upper.shape[0] else None,
            A_eq=sums,
            b_eq=np.ones(n),
            bounds=[(0, 1)] * (n * m) + [(-2, 2)] * extra,  # implied, and a help to the solver
            method=method,
            options={"primal_feasibility_tolerance": tolerance, "dual_feasibility_tolerance": tolerance},
        )
        if not found.success:
            continue
        solved = True
        marginals = -np.asarray(found.ineqlin.marginals) if upper.shape[0] else np.zeros(0)
        marginals = np.maximum(marginals, 0.0)
        weights = prior
        if weights is None:
            least = [Fraction(float(w)) for w in marginals[one.size :]]
            weights = [w / sum(least) for w in least] if any(least) else [Fraction(1, n)] * n
        prices = [[Fraction(float(v) / half) * size for v in row] for row in marginals[: one.size].reshape(-1, m)]
        law = [[Fraction(max(float(p), 0.0)) for p in row] for row in found.x[: n * m].reshape(n, m)]
        yield Solution(law, prices, weights)
    if not solved:
        raise InternalError(f"the linear program was not solved: {found.message}")


def lower_bound(costs: Matrix, edges: Ordered, grown: Fraction, prior: Sequence[Fraction], prices: Matrix) -> Fraction:
    """Return what no mechanism with all ratios at most `grown` goes below under the prior: the value of the dual.

    For any prices λ ≥ 0 and every such mechanism, the mean cost is at least what it is with Σ λ(P(o|x) − e^ε P(o|y))
    added, which is ≤ 0; that is a sum over single probabilities with coefficients, and each row gives
    at least its least one.
    """
    reduced = [[b * c for c in row] for b, row in zip(prior, costs, strict=True)]
    for (x, y), row in zip(edges, prices, strict=True):
        for o, price in enumerate(row):
            if price:
                reduced[x][o] += price
                reduced[y][o] -= grown * price
    return sum((min(row) for row in reduced), Fraction(0))


def _column(prior: Sequence[Fraction]) -> object:
    import numpy as np

    return np.array([[float(b)] for b in prior])
