"""The matrix mechanism, with strategies that are optimised for a workload.

All of that is public, and the strategy is only rounded afterwards: how good it is, not whether it is private, hangs on
what happens here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import Mechanism, numbered
from discreet.mechanisms.additive import Additive
from discreet.mechanisms.calibrated import AskedGuarantee, bits_for, half_width
from discreet.mechanisms.linear.strategies import Strategy, hierarchical
from discreet.mechanisms.linear.workloads import Explicit, Floats, Workload, checked, explicit, multiplied
from discreet.mechanisms.parameters import read_whole
from discreet.mechanisms.values import read, total
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.privacy.event import Composed
from discreet.privacy.exact import Real, count, set_fields
from discreet.privacy.guarantee import called, decimal
from discreet.privacy.unit import Relation

NAMES = ("optimised", "identity", "hierarchical", "workload")
"""The strategies that have a name."""

_DENSE = 512  # cells up to which a stack of several terms is optimised as one matrix
_BITS = (18, 12, 10)  # digits of a strategy's entries, for one, two, and more attributes


LARGEST = 1024
"""Values of an attribute at most: each step of the optimisation takes the cube of it."""

_SWEEPS = 4  # over the attributes, where terms tie them together
_ITERATIONS = 200
_CLOSE = 1e-6  # of the optimum, by the gap to the dual
_FLAT = 1e-6  # of the mean of a Gram matrix's diagonal


@dataclass(frozen=True, slots=True)
class Answered:
    """What a release gives.

    Attributes:
        answers: one noisy answer for each query of the workload, in its order.
        estimate: the estimated cells, in the shape of the workload; where the strategy does not tell cells apart,
            the shortest that agree with what was measured. Negative numbers and fractions are not mended.
    """

    answers: NDArray[np.float64]
    estimate: NDArray[np.float64]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class MatrixMechanism(Mechanism):
    """Answers many linear queries about a vector of integers through noisy answers to few well-chosen ones.

    A strategy is measured with noise, the cells are estimated from it by least squares, and the workload's answers
    are read from the estimate, so that they agree with each other.

    Guarantee:
        ε-DP with Laplace noise, and (ε, δ)-DP and μ-GDP with Gaussian noise. Under "add-remove" neighbours differ
        in one cell, by at most `sensitivity` = s; under "replace" one cell falls and another rises, each by at most s
        (by 0 for a unit in no cell). The strategy is a matrix of whole numbers when its sensitivity is taken, in
        integers: the largest norm of a column, under "replace" of a difference of two as well (ℓ1 for Laplace, ℓ2
        for Gaussian noise). What is released is an integer vector with integer noise; estimates are
        post-processing. The workload, the strategy and the number of cells are public.

    References:
        Li, Miklau, Hay, McGregor, Rastogi 2015, Section 3, https://doi.org/10.1007/s00778-015-0398-x; McKenna, Miklau,
        Hay, Machanavajjhala 2018, Section 5, https://arxiv.org/abs/1808.03537; docs/proofs/matrix-mechanism.md.

    >>> from discreet.mechanisms.linear import prefix
    >>> m = MatrixMechanism(prefix(4), "identity", epsilon=1)
    >>> round(m.root_mean_square, 3)
    2.236
    """

    epsilon: Fraction
    delta: Fraction
    workload: Workload
    strategy: Strategy
    chosen: str
    sensitivity: int
    relation: Relation
    noise: Additive
    _shift: int
    _questions: Workload
    _events: Composed

    def __init__(
        self,
        workload: Workload | NDArray[Any] | None = None,
        strategy: str | NDArray[Any] | Sequence[NDArray[Any]] | None = None,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        noise: str | None = None,
        sensitivity: Real = 1,
        relation: Relation | str = Relation.ADD_REMOVE,
    ) -> None:
        """Chooses and calibrates; "optimised", the default, may take seconds beyond a few hundred cells.

        Args:
            workload: from `discreet.mechanisms.linear`, or a matrix with a row for each query.
            strategy: a name of `NAMES`, a matrix with a column for each cell, or one matrix for each attribute.
            epsilon: the guarantee.
            delta: the guarantee, with Gaussian noise.
            noise: "laplace" or "gaussian"; by default what δ says.
            sensitivity: the most that a unit adds to its cell.
            relation: "add-remove" or "replace".
        """
        asked = AskedGuarantee.read("MatrixMechanism", epsilon, delta, noise)
        s, kind = int(read_whole("sensitivity", sensitivity)), Relation.parse(relation)
        if workload is None:
            raise InvalidParameter("MatrixMechanism needs a workload.", hint="discreet.mechanisms.linear.prefix(100)")
        wanted = workload if isinstance(workload, Workload) else explicit(workload)
        chosen, measured = _strategy(wanted, strategy, asked.is_pure)
        questions = wanted if measured.shape == wanted.shape else _flat(wanted)
        if not measured.answers(questions):
            raise InvalidParameter(
                "the strategy cannot answer the workload: some query is no combination of its rounded rows.",
                hint="give whole numbers, or add rows, for example those of np.eye(cells)",
            )
        l1, l2_squared = measured.sensitivity(kind)
        shift = bits_for(asked.width(l1 * s, l2_squared * s * s))
        l1, l2_squared = (l1 * s) << shift, (l2_squared * s * s) << 2 * shift
        law, events = asked.calibrated(l1, l2_squared)
        set_fields(self, epsilon=asked.epsilon, delta=asked.delta, workload=wanted, strategy=measured, chosen=chosen)
        set_fields(self, sensitivity=s, relation=kind, noise=law, _shift=shift, _questions=questions, _events=events)

    @property
    def events(self) -> Composed:
        return self._events

    def release(self, x: NDArray[Any], *, rng: Entropy | None = None) -> Answered:
        """Noisy answers to all queries, and the noisy cells that they are read from.

        Args:
            x: a numpy array of integers, flat or in the shape of the workload; its size is public.
            rng: where randomness comes from, for tests; the operating system's by default.

        Raises:
            InvalidParameter: another type or size. The message quotes no value.
        """
        self.workload.check_queries()
        numbers = read(x)
        if numbers.is_real:
            raise InvalidParameter(
                "x must hold integers.",
                hint="round it to a public grid first, and count the rounding in the sensitivity",
            )
        if numbers.shape not in ((self.workload.cells,), self.workload.shape):
            raise InvalidParameter(
                f"x must have the shape {self.workload.shape} of the workload, or be flat, not {numbers.shape}."
            )
        exact = self.strategy.measure(numbers.entries.reshape(self.strategy.shape), self._shift)
        noise = self.noise.draw(len(exact), SystemEntropy() if rng is None else rng)
        noisy = total(exact, noise).astype(np.float64) * 2.0**-self._shift
        # From here on only noisy numbers.
        estimate = self.strategy.estimate(noisy).reshape(self.workload.shape)
        return Answered(self.workload.answers(estimate), estimate)

    def error(self, confidence: Real = 0.95, *, query: int | None = None) -> float:
        """Return a half-width within which the error of the answer to this query stays; by default of each of them.

        It holds for every query by itself, not for all together. The roundings of floats, some 10⁻¹⁵ of the
        largest answer, come on top.
        """
        squares = self._largest() if query is None else float(self._squares_of(query))
        return self._width(squares, confidence)

    def half_widths(self, confidence: Real = 0.95) -> NDArray[np.float64]:
        """`error` of every query."""
        return np.sqrt(self._squares()) * self._width(1.0, confidence)

    @property
    def root_mean_square(self) -> float:
        """The root of the mean squared error over all queries."""
        return math.sqrt(self.strategy.mean_squares(self._questions) * self._unit_variance)

    def deviations(self) -> NDArray[np.float64]:
        """Return the standard deviation of the answer to every query."""
        return np.sqrt(self._squares() * self._unit_variance)

    def explain(self) -> str:
        e = decimal(self.epsilon)
        l1, l2_squared = self.strategy.sensitivity(self.relation)
        if self.delta:
            size = f"‖A(x − y)‖₂ ≤ {math.sqrt(l2_squared) * self.sensitivity:.6g}"
            law = f"of N(0, σ²) with σ = {math.sqrt(self._unit_variance):.6g}"
            end = f"The loss is μ-GDP with μ² = {float(self._events.parts[0][0].mu_squared or 0):.6g}: ({e}, "
            end += f"{decimal(self.delta)})-DP"
        else:
            size = f"‖A(x − y)‖₁ ≤ {l1 * self.sensitivity}"
            law = f"of the discrete Laplace law of scale {l1 * self.sensitivity}/{e}"
            end = f"Ratios of probabilities are at most exp({e}): {e}-DP"
        apart = "one cell differs" if self.relation is Relation.ADD_REMOVE else "one cell is lower and another higher"
        return numbered(
            repr(self),
            f"Neighbours. Of x and y {apart}, by at most {self.sensitivity}.",
            f"Strategy. A, {self.chosen}, is a matrix of whole numbers: {self.strategy!r}.",
            f"Sensitivity. Over all columns of A, in integers, {size}.",
            f"Noise. Each entry of z is {law}, on multiples of 2^-{self._shift}; Ax + z is released.",
            f"Conclusion. {end}.",
            "Answers. W·A⁺(Ax + z): the least-squares estimate, post-processing.",
            f"Error. {self.root_mean_square:.6g} in the root mean square; each result within ±{self.error():.6g} "
            "with confidence 95%.",
        )

    @property
    def _unit_variance(self) -> float:
        """The variance of the noise in the strategy's units."""
        return self.noise.variance * 4.0**-self._shift

    def _width(self, squares: float, confidence: Real) -> float:
        unit = 4.0**-self._shift
        rows = math.prod(self.strategy.rows)  # (Σ |c|)² ≤ rows · Σ c²
        return half_width(self.noise, squares * unit, math.sqrt(rows * squares * unit), confidence)

    def _largest(self) -> float:
        return max(math.prod(float(v.max()) for v in term) for term in self.strategy.squares(self._questions))

    def _squares(self) -> NDArray[np.float64]:
        self.workload.check_queries()
        return np.concatenate([multiplied(term) for term in self.strategy.squares(self._questions)])

    def _squares_of(self, query: int) -> float:
        i = count("query", query, least=0)
        if i >= self.workload.queries:
            raise InvalidParameter(f"query must be below the {self.workload.queries} queries, not {query}.")
        for term in self.strategy.squares(self._questions):
            size = math.prod(len(v) for v in term)
            if i < size:
                places = np.unravel_index(i, tuple(len(v) for v in term))
                return math.prod(float(v[k]) for v, k in zip(term, places, strict=True))
            i -= size
        raise AssertionError("a query beyond the last")

    def __repr__(self) -> str:
        first = f"{self.workload!r}, {self.chosen!r}"
        return called(self, "epsilon", first=first, delta=0, sensitivity=1, relation=Relation.ADD_REMOVE)


def _strategy(
    workload: Workload, asked: str | NDArray[Any] | Sequence[NDArray[Any]] | None, is_pure: bool
) -> tuple[str, Strategy]:
    """Return what is measured, and its name."""
    if asked is None or isinstance(asked, str):
        name = asked or "optimised"
        if name not in NAMES:
            raise InvalidParameter(
                f"strategy must be a matrix or one of {', '.join(map(repr, NAMES))}, not {asked!r}.",
                hint="leave strategy out: it is optimised for the workload",
            )
        return name, _optimised(workload, is_pure) if name == "optimised" else _named(workload, name)
    if isinstance(asked, np.ndarray):
        matrix = checked("strategy", asked)
        if matrix.shape[1] != workload.cells:
            raise InvalidParameter(
                f"strategy must have a column for each of the {workload.cells} cells, not {matrix.shape[1]}."
            )
        return "given", _made([matrix])
    given: object = asked  # what came need not be what was annotated
    if not isinstance(given, Sequence) or not given:
        raise InvalidParameter(
            f"strategy must be a matrix, or a list of one matrix for each attribute, not {type(asked).__name__}.",
            hint="strategy=np.eye(4), or 'hierarchical'",
        )
    matrices = [checked("strategy", m) for m in asked]
    if tuple(m.shape[1] for m in matrices) != workload.shape:
        raise InvalidParameter(
            f"strategy must be one matrix for each attribute, with {workload.shape} columns, "
            f"not {tuple(m.shape[1] for m in matrices)}."
        )
    return "given", _made(matrices)


def _named(workload: Workload, name: str) -> Strategy:
    if name == "identity":
        return _made([np.eye(n) for n in workload.shape])
    if name == "hierarchical":
        return _made([hierarchical(n) for n in workload.shape])
    if len(workload.terms) > 1:
        return _made([workload.matrix()])
    for f in workload.terms[0]:
        if f.rows * f.n > 1 << 22:
            raise InvalidParameter(
                f"the workload as a strategy would have a matrix of {f.rows:,} × {f.n:,}, too large to invert.",
                hint="take strategy='optimised' or 'hierarchical'",
            )
    return _made([f.matrix() for f in workload.terms[0]])


def _optimised(workload: Workload, is_pure: bool) -> Strategy:
    """Return the best of what optimisation finds and of the strategies with a name that need none."""
    tried = [_made(optimised(workload, is_pure=is_pure))]
    tried += [_named(workload, name) for name in ("identity", "hierarchical")]
    several = len(workload.terms) > 1 and len(workload.shape) > 1
    if several and workload.cells <= _DENSE and workload.queries * workload.cells <= 1 << 22:
        tried.append(_made(optimised(_flat(workload), is_pure=is_pure)))

    def cost(s: Strategy) -> float:
        l1, l2_squared = s.sensitivity(Relation.ADD_REMOVE)
        questions = workload if s.shape == workload.shape else _flat(workload)
        return s.mean_squares(questions) * (l1 * l1 if is_pure else l2_squared)

    return min(tried, key=cost)


def _made(matrices: Sequence[NDArray[np.float64]]) -> Strategy:
    return Strategy(matrices, bits=_BITS[min(len(matrices), len(_BITS)) - 1])


def _flat(workload: Workload) -> Workload:
    """Return the same queries about cells without attributes."""
    return Workload((workload.cells,), ((Explicit(workload.matrix()),),))


def optimised(workload: Workload, *, is_pure: bool) -> list[Floats]:
    """One matrix for each attribute, with little total squared error on the workload at sensitivity 1.

    One term: each attribute by itself. Several: one attribute after another, each for the terms weighed by what the
    others' strategies make of them, a few times over.

    References:
        McKenna, Miklau, Hay, Machanavajjhala 2018, Sections 5 and 6, https://arxiv.org/abs/1808.03537.
    """
    for n in workload.shape:
        if n > LARGEST:
            raise InvalidParameter(
                f"strategies are optimised for at most {LARGEST:,} values of an attribute, not {n:,}.",
                hint="take strategy='hierarchical', or put neighbouring values together",
            )
    best = _for_l1 if is_pure else _for_l2
    grams = [[f.gram() for f in term] for term in workload.terms]
    found = [np.eye(n) for n in workload.shape]
    for _ in range(_SWEEPS if len(grams) > 1 and len(found) > 1 else 1):
        for i in range(len(found)):
            together = np.zeros_like(grams[0][i])
            for term in grams:
                others = [_cost(term[j], found[j]) for j in range(len(found)) if j != i]
                together += term[i] * float(np.prod(others))
            found[i] = best(together)
    return found


def _cost(gram: Floats, strategy: Floats) -> float:
    return float(np.trace(gram @ np.linalg.pinv(strategy.T @ strategy, hermitian=True)))


def _for_l2(gram: Floats) -> Floats:
    """Return a with columns of length 1 that has the least tr(G(AᵀA)⁻¹)."""
    eigenvalues, vectors = np.linalg.eigh(optimal_gram(gram)[0])
    return np.asarray((vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T)


def optimal_gram(gram: Floats) -> tuple[Floats, float, float]:
    """Return the X with diagonal 1 that minimises tr(G X⁻¹), its value, and a lower bound on any.

    The problem is convex. For v > 0 its dual is 2 tr((√v G √v)^½) − Σ v; at the optimum v is the diagonal of that
    root, and taking it again and again converges.

    References:
        Yuan, Yang, Zhang, Hao 2016, Section 3, https://arxiv.org/abs/1602.04302 (the problem is convex); Denisov,
        McMahan, Rush, Smith, Thakurta 2022, Section 3, https://arxiv.org/abs/2202.08312 (the fixed point).
    """
    g, unit = gram, float(np.trace(gram)) / len(gram)
    if np.linalg.eigvalsh(g)[0] < _FLAT * unit:  # what nobody asks about is measured a little all the same
        g = g + _FLAT * unit * np.eye(len(g))
    v = np.sqrt(np.diag(g))
    x, value, bound = np.eye(len(g)), float(np.trace(g)), 0.0
    for _ in range(_ITERATIONS):
        root = np.sqrt(v)
        eigenvalues, vectors = np.linalg.eigh(root[:, None] * g * root)
        roots = np.sqrt(np.maximum(eigenvalues, 0.0))
        middle = (vectors * roots) @ vectors.T
        bound = max(bound, 2 * float(roots.sum()) - float(v.sum()))
        found = middle / np.outer(root, root)
        lengths = np.sqrt(np.diag(found))
        found = found / np.outer(lengths, lengths)
        reached = float(np.trace(np.linalg.solve(found, g)))
        if reached < value:
            x, value = found, reached
        if value - bound <= _CLOSE * value:
            break
        v = np.diag(middle)
    return x, value, bound


def _for_l1(gram: Floats) -> Floats:
    """Return a p-Identity strategy [I; Θ]·D, columns of ℓ1 norm 1, p = ⌈n/16⌉, by L-BFGS from a fixed start."""
    return _p_identity(gram.tobytes(), len(gram))


@lru_cache(maxsize=16)
def _p_identity(entries: bytes, n: int) -> Floats:
    from scipy.optimize import minimize

    gram = np.frombuffer(entries).reshape(n, n)
    p = -(-n // 16)
    # Evenly spread numbers in place of random ones, so that one workload has one strategy.
    start = np.mod(np.arange(1, p * n + 1) * ((np.sqrt(5.0) - 1) / 2), 1.0)
    done = minimize(
        _total_error,
        start,
        args=(gram, p, float(np.trace(gram))),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * (p * n),
        options={"maxiter": _ITERATIONS, "maxcor": 8},
    )
    theta = np.asarray(done.x).reshape(p, n)
    made = np.concatenate((np.eye(n), theta)) / (1 + theta.sum(axis=0))
    made.setflags(write=False)
    return np.asarray(made)


def _total_error(flat: Floats, gram: Floats, p: int, unit: float) -> tuple[float, Floats]:
    """tr(G(AᵀA)⁻¹) and its gradient in Θ, for AᵀA = D(I + ΘᵀΘ)D and D⁻¹ = diag(1 + Σ Θ), in time p·n²."""
    theta = flat.reshape(p, -1)
    s = 1 + theta.sum(axis=0)
    small = np.linalg.solve(np.eye(p) + theta @ theta.T, theta)  # (I + ΘᵀΘ)⁻¹ = I − Θᵀ·small
    h = gram * np.outer(s, s)
    left = h - theta.T @ (small @ h)
    both = left - (left @ theta.T) @ small
    inverse = np.eye(len(s)) - theta.T @ small
    gradient = -2 * theta @ both + 2 * ((gram * inverse) @ s)
    return float(np.trace(left)) / unit, gradient.ravel() / unit
