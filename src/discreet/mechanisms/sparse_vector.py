"""Sparse vector: which of many queries lie above a threshold, at the cost of the few that do."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import Mechanism, Run, numbered
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.numeric import fine_grid
from discreet.mechanisms.parameters import read_confidence, read_flag, read_size
from discreet.mechanisms.values import NumberArray, read
from discreet.noise import geometric, laplace
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.noise.lattice import Grid
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.exact import Real, above, count, exact, first_whole, set_fields
from discreet.privacy.guarantee import called, decimal

WIDEST = Fraction(1 << 50)
"""The widest noise, in units: clipping at `_REACH` is far beyond all that it can hide."""

_REACH = 1 << 61  # queries farther from 0 count as that far
_FARTHEST = 1 << 60  # a threshold farther from 0 is subtracted from all queries before they are cut off
_EXACT = 1 << 62  # levels below it are compared in 64 bits


@dataclass(frozen=True, slots=True)
class SparseLaw:
    """Queries, threshold and noise as multiples of one unit: 1 for integers, the grid's step for floats.

    A query q is above when q + ν ≥ threshold + offset + ρ, where ρ is geometric of scale `bar_scale`, once for
    the whole run, and ν geometric of scale `query_scale`, fresh for each query. Both are at least 0.

    Attributes:
        grid: where floats are rounded to; None for integers.
        threshold: the public threshold.
        bar_scale: the scale of ρ.
        query_scale: the scale of ν.
        answer_scale: the scale of the discrete Laplace noise of a number; None where no fresh noise is drawn.
        offset: what is added to the threshold, so that a query on it is above about half of the time: a
            public number, and so without a part in the proof.
        shift: what `queries` and `level` are relative to: 0, or the threshold where it is far from 0.
    """

    grid: Grid | None
    threshold: int
    bar_scale: Fraction
    query_scale: Fraction
    answer_scale: Fraction | None
    offset: int = field(init=False)
    shift: int = field(init=False)

    def __post_init__(self) -> None:
        if max(self.bar_scale, self.query_scale, self.answer_scale or 0) > WIDEST:
            raise InvalidParameter(
                "the noise would be wider than 2^50 steps.", hint="take a larger epsilon or a smaller cutoff"
            )
        # For exponential variables of scales a ≤ b the median of ν − ρ is b·ln(2b/(a + b)).
        a, b = float(self.bar_scale), float(self.query_scale)
        object.__setattr__(self, "offset", max(0, round(b * math.log(2 * b / (a + b)))))
        object.__setattr__(self, "shift", 0 if abs(self.threshold) <= _FARTHEST else self.threshold)

    def level(self, rng: Entropy) -> int:
        """Return the noisy threshold of one run, relative to `shift`."""
        return self.threshold - self.shift + self.offset + geometric.sample(self.bar_scale, rng)

    def queries(self, numbers: NumberArray) -> NDArray[np.int64]:
        """Return the queries in units, relative to `shift`. Those beyond ±2^61 units are cut off there."""
        entries = numbers.entries
        if self.grid is not None:
            if self.shift or not numbers.is_real:
                return self._clipped([self.grid.snap(x) for x in entries.tolist()])
            most = self.grid.to_float(_REACH)
            return self.grid.snap_vector(np.clip(entries, -most, most))
        if entries.dtype == np.int64 and not self.shift:
            return np.asarray(np.clip(entries, -_REACH, _REACH), dtype=np.int64)
        return self._clipped(entries.tolist())

    def above(self, queries: NDArray[np.int64], level: int, most: int, rng: Entropy) -> list[tuple[int, int]]:
        """Return the places of the first queries that are above, `most` at most, each with its gap q + ν − level."""
        noise = geometric.sample_vector(self.query_scale, len(queries), rng)
        if abs(level) < _EXACT:  # then no difference of a level and a query leaves 64 bits
            places = np.flatnonzero(noise >= level - queries)[:most].tolist()
        else:
            sums = zip(queries.tolist(), noise.tolist(), strict=True)
            places = [i for i, (q, v) in enumerate(sums) if q + v >= level][:most]
        return [(i, int(queries[i]) + int(noise[i]) - level) for i in places]

    def number(self, query: int, gap: int, rng: Entropy) -> int | float:
        """Return what is said of a query that is above: itself with fresh noise, or an estimate from its gap."""
        if self.answer_scale is None:
            return self._shown(gap + self.threshold - self.shift + self.offset + self._centre)
        return self._shown(query + laplace.sample(self.answer_scale, rng))

    def within(self, doubt: float, queries: int) -> tuple[int, int]:
        """Bounds of ρ and of ν for so many queries, of which one fails with chance at most `doubt`."""
        bar = math.ceil(float(self.bar_scale) * math.log(2 / doubt) * _UP)
        query = math.ceil(float(self.query_scale) * (math.log(2 / doubt) + math.log(queries)) * _UP)
        return bar, query

    def error(self, doubt: float, queries: int) -> Fraction:
        """Return the distance from the threshold beyond which no query is wrong; see `SparseVector.error`."""
        bar, query = self.within(doubt, queries)
        rounding = Fraction(0) if self.grid is None else Fraction(3, 2)  # of a query, and of the threshold
        return self.unit * (max(bar + self.offset, query - self.offset, 0) + rounding)

    def gap_error(self, doubt: float, queries: int) -> Fraction:
        """Return how far estimates from gaps are off at most."""
        bar, query = self.within(doubt, queries)
        rounding = Fraction(0) if self.grid is None else Fraction(1, 2)
        return self.unit * (max(bar - self._centre, query + self._centre) + rounding)

    def fresh_error(self, confidence: Fraction) -> Fraction:
        """Return how far a number with fresh noise is off at most, with this confidence."""
        assert self.answer_scale is not None
        rounding = Fraction(0) if self.grid is None else Fraction(1, 2)
        return self.unit * (DiscreteLaplaceNoise(self.answer_scale).quantile(confidence) + rounding)

    @property
    def unit(self) -> Fraction:
        """The unit, as a number."""
        return Fraction(1) if self.grid is None else self.grid.step

    @property
    def _centre(self) -> int:
        """E(ρ − ν), rounded: the mean of a geometric variable of scale s is 1/(e^(1/s) − 1)."""
        means = [1 / math.expm1(min(float(1 / s), 700.0)) for s in (self.bar_scale, self.query_scale)]
        return round(means[0] - means[1])

    def _shown(self, units: int) -> int | float:
        whole = units + self.shift
        return whole if self.grid is None else self.grid.to_float(whole)

    def _clipped(self, units: list[Any]) -> NDArray[np.int64]:
        return np.array([min(max(q - self.shift, -_REACH), _REACH) for q in units], dtype=np.int64)


def doubt_of(confidence: Real) -> float:
    """1 − confidence, not more."""
    return math.nextafter(float(1 - read_confidence(confidence)), 0.0)


_UP = 1 + 2.0**-40  # more than logarithms and products round


_CHUNK = 1 << 16  # queries that are drawn for at once: more would be waste where a run ends early


@dataclass(frozen=True, slots=True)
class Crossings:
    """What a whole array of queries gave.

    Attributes:
        asked: how many queries were answered: all, or up to the one at which the cut-off was reached.
        positions: which of them are above the threshold.
        numbers: a number for each of these; None where none were asked for.
    """

    asked: int
    positions: tuple[int, ...]
    numbers: tuple[int | float, ...] | None

    @property
    def above(self) -> NDArray[np.bool_]:
        """For each query that was answered, whether it is above the threshold."""
        answers = np.zeros(self.asked, dtype=bool)
        answers[list(self.positions)] = True
        return answers


class Sparse(Mechanism):
    """What `SparseVector` and `AboveThreshold` share: the split of ε, the laws, the run."""

    __slots__ = ()

    epsilon: Fraction
    sensitivity: Fraction
    threshold: Fraction
    monotonic: bool

    @property
    @abstractmethod
    def parts(self) -> tuple[Fraction, Fraction, Fraction]:
        """What of ε is for the noisy threshold, for the comparisons, and for fresh numbers; exact fractions."""

    @property
    @abstractmethod
    def _ends(self) -> tuple[int, bool]:
        """The cut-off, and whether those above get numbers."""

    @property
    def events(self) -> Composed:
        """One event for a whole run, however long it gets."""
        return Composed([ApproximateEvent(self.epsilon)])

    @property
    def scales(self) -> tuple[float, float]:
        """The scales of the noise on the threshold and on each query, both of it at least 0."""
        return float(self._wide(self.sensitivity)[0]), float(self._wide(self.sensitivity)[1])

    def start(self, *, rng: Entropy | None = None) -> SparseRun:
        """Return a run that is asked one query after another. It costs `loss`, all at once, when it starts."""
        cutoff, answering = self._ends
        laws = (self._whole() if self.sensitivity >= 1 else None, self._real())
        return SparseRun(laws, cutoff, answering, SystemEntropy() if rng is None else rng)

    def error(self, confidence: Real = 0.95, *, queries: int) -> float:
        """Return a distance α: with at least this confidence no query's answer is wrong by more, of so many queries.

        Each that is said to be above is at least threshold − α, each other that was answered at most
        threshold + α. It holds for integers and floats alike, the rounding included.
        """
        return self._worst(lambda law: law.error(doubt_of(confidence), count("queries", queries)))

    def _worst(self, of: Callable[[SparseLaw], Fraction]) -> float:
        laws = [self._real(), *([self._whole()] if self.sensitivity >= 1 else [])]
        return above(max(of(law) for law in laws))

    def _crossings(self, values: object, rng: Entropy | None) -> Crossings:
        numbers = read(values)
        if numbers.shape is None or len(numbers.shape) != 1:
            raise InvalidParameter(
                "values must be a one-dimensional array, one number for each query.",
                hint="use np.asarray(values), or start() and ask() for one at a time",
            )
        if not numbers.is_real and self.sensitivity < 1:
            raise InvalidParameter(
                f"sensitivity {float(self.sensitivity):.6g} is below 1: an integer could not change at all.",
                hint="pass the values as floats",
            )
        source = SystemEntropy() if rng is None else rng
        law = self._real() if numbers.is_real else self._whole()
        level, (left, answering), size = law.level(source), self._ends, len(numbers.entries)
        positions: list[int] = []
        said: list[int | float] = []
        asked = size
        for start in range(0, size, _CHUNK):
            queries = law.queries(NumberArray(numbers.entries[start : start + _CHUNK], None))
            found = law.above(queries, level, left, source)
            positions += [start + i for i, _ in found]
            if answering:
                said += [law.number(int(queries[i]), gap, source) for i, gap in found]
            left -= len(found)
            if not left:
                asked = positions[-1] + 1
                break
        return Crossings(asked, tuple(positions), tuple(said) if answering else None)

    def _whole(self) -> SparseLaw:
        """Return the law of integers, which move by whole numbers."""
        return _of_integers(self)

    def _real(self) -> SparseLaw:
        """Return the law of floats: in steps of a public grid, each query moves by what rounding makes of Δ."""
        return _of_floats(self)

    def _wide(self, width: Fraction) -> tuple[Fraction, Fraction, Fraction | None]:
        """Return the scales for queries that move by at most `width`."""
        bar, query, answer = self.parts
        c = self._ends[0]
        moves = width if self.monotonic else 2 * width
        return width / bar, c * moves / query, c * width / answer if answer else None

    def _steps(self) -> tuple[str, ...]:
        """Return the proof, but for its conclusion."""
        e1, e2, _ = self.parts
        c, d = self._ends[0], decimal(self.sensitivity)
        a, b = (decimal(x) for x in self._wide(self.sensitivity)[:2])
        far = decimal(self.sensitivity * (1 if self.monotonic else 2))
        fine = self._real()
        assert fine.grid is not None
        return (
            (
                f"Sensitivity. Between neighbours x, y every query moves by at most Δ = {d}, "
                f"{'all of them in one direction' if self.monotonic else 'each in any direction'}."
            ),
            (
                f"Noise. ρ ≥ 0 of scale Δ/ε₁ = {a}, once, and ν ≥ 0 of scale {b} for each query, geometric both; query "
                "q is above when q + ν ≥ T + ρ, where T is public."
            ),
            (
                f"Threshold. Compare the run on x at ρ with that on y at ρ + Δ{_FALLING if self.monotonic else ''}: "
                f"P(ρ) = exp(ε₁)·P(ρ + Δ) with ε₁ = {decimal(e1)}."
            ),
            "Below. A query that is below on x is, with the same ν, below on y: these cost nothing, however many.",
            (
                f"Above. What ν gives on x, the gap q + ν − T − ρ included, is given on y by a ν that is larger by "
                f"between 0 and {far}: a factor of at most exp({far}/{b}) = exp(ε₂/{c}) for each of at most {c}, with "
                f"ε₂ = {decimal(e2)}."
            ),
            (
                f"Floats. Rounded to multiples of 2^{fine.grid.exponent}, each query moves by at most "
                f"{fine.grid.linf(self.sensitivity)} steps, which take the place of Δ."
            ),
        )


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SparseVector(Sparse):
    """Says of each query whether it is above a public threshold, until `cutoff` of them were.

    Those below cost nothing, however many there are. The noise is one-sided, and has half the variance of the
    Laplace noise of the textbook's variant.

    Guarantee:
        ε-DP for a whole run when the threshold is public and each query moves by at most `sensitivity` = Δ between
        neighbours, under the relation for which Δ was computed; queries may be chosen after earlier answers.
        `monotonic=True` needs less noise and asks for more: between any two neighbours all queries of a run move in one
        direction, as counts do under add-remove. Of ε, ε₁ : ε₂ = 1 : (2c)^(2/3) (monotonic: 1 : c^(2/3)) is the split
        with the least variance, as fractions. With `answers` a share, so much of ε goes to numbers with fresh Laplace
        noise; with `answers="gap"` a number comes from the gap itself, at no cost. Floats are rounded to a public grid,
        which each query's sensitivity allows for. A query that lies beyond 2^60 units (of 1, or of the grid) from the
        threshold counts as at least that far, and a number of it may fall short of it.

    References:
        Lyu, Su, Li 2017, Algorithm 7, and the split, https://arxiv.org/abs/1603.01699; Ding, Wang, Zhang, Kifer 2019
        (the gap), https://arxiv.org/abs/1904.12773; one-sided noise is studied in https://arxiv.org/abs/2407.20068, and
        proved for integers, ties and gaps in docs/proofs/sparse-vector.md.

    >>> SparseVector(epsilon=1000, threshold=10, cutoff=2).release(np.array([1, 50, 2, 60, 3, 70])).positions
    (1, 3)
    """

    epsilon: Fraction
    sensitivity: Fraction
    threshold: Fraction
    cutoff: int
    monotonic: bool
    answers: Fraction | Literal["gap"] | None

    def __init__(
        self,
        *,
        epsilon: Real,
        threshold: Real,
        sensitivity: Real = 1,
        cutoff: int = 1,
        monotonic: bool = False,
        answers: Real | Literal["gap"] | None = None,
    ) -> None:
        """Make the mechanism.

        Args:
            epsilon: what a whole run costs.
            threshold: the public threshold.
            sensitivity: how far each query moves between neighbours.
            cutoff: after so many queries above the threshold a run is over.
            monotonic: whether all queries move in one direction between any two neighbours.
            answers: numbers for the queries above: a share of ε between 0 and 1 for fresh noise, "gap" for an
                estimate that costs nothing, None for none.
        """
        set_fields(self, epsilon=read_size("epsilon", epsilon), sensitivity=read_size("sensitivity", sensitivity))
        set_fields(self, threshold=exact("threshold", threshold), cutoff=count("cutoff", cutoff))
        set_fields(self, monotonic=read_flag("monotonic", monotonic), answers=_share(answers))
        self._real()  # refuses what no type of numbers could be run with

    @property
    def parts(self) -> tuple[Fraction, Fraction, Fraction]:
        fresh = self.answers if isinstance(self.answers, Fraction) else Fraction(0)
        return (*split(self.epsilon * (1 - fresh), self.cutoff, self.monotonic), self.epsilon * fresh)

    @property
    def _ends(self) -> tuple[int, bool]:
        return self.cutoff, self.answers is not None

    def release(self, values: object, *, rng: Entropy | None = None) -> Crossings:
        """Return which of these queries are above the threshold, in their order, up to the `cutoff`-th.

        Args:
            values: the queries' answers on the data, an array of integers or of floats.
            rng: where randomness comes from, for tests; the operating system's by default.

        Raises:
            InvalidParameter: no such array, or a number in it is not finite. The message does not quote it.
        """
        return self._crossings(values, rng)

    def answer_error(self, confidence: Real = 0.95, *, queries: int) -> float:
        """Return a half-width that holds, with this confidence, for all numbers that so many queries give.

        It is for queries within 2^60 units of the threshold (a unit is 1 for integers, the grid's step for floats):
        the number of one farther out is cut off there, or somewhat beyond.
        """
        n = count("queries", queries)
        if self.answers is None:
            raise InvalidParameter(
                "this SparseVector gives no numbers.", hint='answers="gap" costs nothing, answers=0.3 is fresh noise'
            )
        if self.answers == "gap":
            return self._worst(lambda law: law.gap_error(doubt_of(confidence), n))
        each = 1 - (1 - read_confidence(confidence)) / min(n, self.cutoff)
        return self._worst(lambda law: law.fresh_error(each))

    def explain(self) -> str:
        e, (e1, e2, e3) = decimal(self.epsilon), self.parts
        numbers: tuple[str, ...] = ()
        if e3:
            numbers = (
                (
                    f"Numbers. Each of at most {self.cutoff} has fresh Laplace noise for ε₃/{self.cutoff}, with "
                    f"ε₃ = {decimal(e3)}."
                ),
            )
        elif self.answers == "gap":
            numbers = ("Numbers. They follow from the gaps, which step 5 allows for, and from public facts.",)
        total = " + ".join(decimal(x) for x in (e1, e2, e3) if x)
        return numbered(repr(self), *self._steps(), *numbers, f"Conclusion. {total} = {e}: a whole run is {e}-DP.")

    def __repr__(self) -> str:
        return called(self, "epsilon", "threshold", "sensitivity", "cutoff", monotonic=False, answers=None)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class AboveThreshold(Sparse):
    """Finds the first of many queries that is above a public threshold.

    Guarantee:
        ε-DP for a whole run, under the same conditions as `SparseVector`, of which it is the case `cutoff=1`
        without numbers.

    References:
        Dwork, Roth, *The Algorithmic Foundations of Differential Privacy*, Algorithm 1,
        https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf; Lyu, Su, Li 2017, Algorithm 7,
        https://arxiv.org/abs/1603.01699; docs/proofs/sparse-vector.md.

    >>> AboveThreshold(epsilon=1000, threshold=10).release(np.array([1, 2, 50, 3]))
    2
    """

    epsilon: Fraction
    sensitivity: Fraction
    threshold: Fraction
    monotonic: bool

    def __init__(self, *, epsilon: Real, threshold: Real, sensitivity: Real = 1, monotonic: bool = False) -> None:
        set_fields(self, epsilon=read_size("epsilon", epsilon), sensitivity=read_size("sensitivity", sensitivity))
        set_fields(self, threshold=exact("threshold", threshold), monotonic=read_flag("monotonic", monotonic))
        self._real()  # refuses what no type of numbers could be run with

    @property
    def parts(self) -> tuple[Fraction, Fraction, Fraction]:
        return (*split(self.epsilon, 1, self.monotonic), Fraction(0))

    @property
    def _ends(self) -> tuple[int, bool]:
        return 1, False

    def release(self, values: object, *, rng: Entropy | None = None) -> int | None:
        """Return the place of the first query above the threshold; None if there is none.

        Args:
            values: the queries' answers on the data, an array of integers or of floats.
            rng: where randomness comes from, for tests; the operating system's by default.

        Raises:
            InvalidParameter: no such array, or a number in it is not finite. The message does not quote it.
        """
        return next(iter(self._crossings(values, rng).positions), None)

    def explain(self) -> str:
        e, (e1, e2, _) = decimal(self.epsilon), self.parts
        conclusion = f"Conclusion. {decimal(e1)} + {decimal(e2)} = {e}: a whole run is {e}-DP."
        return numbered(repr(self), *self._steps(), conclusion)

    def __repr__(self) -> str:
        return called(self, "epsilon", "threshold", "sensitivity", monotonic=False)


@lru_cache(maxsize=64)
def _of_integers(mechanism: Sparse) -> SparseLaw:
    width = Fraction(math.floor(mechanism.sensitivity))
    return SparseLaw(None, math.ceil(mechanism.threshold), *mechanism._wide(width))


@lru_cache(maxsize=64)
def _of_floats(mechanism: Sparse) -> SparseLaw:
    delta = mechanism.sensitivity
    scales = [s for s in mechanism._wide(delta) if s is not None]
    grid = fine_grid(max(scales), min(*scales, delta))
    steps = Fraction(grid.linf(delta))
    return SparseLaw(grid, math.ceil(mechanism.threshold / grid.step), *mechanism._wide(steps))


def split(epsilon: Fraction, cutoff: int, monotonic: bool) -> tuple[Fraction, Fraction]:
    """ε₁ for the threshold and ε₂ for the comparisons: together ε, and as 1 : m^(2/3), m = 2c or monotonic c.

    It is where the variance of ν − ρ is least, (Δ/ε₁)² + (mΔ/ε₂)²; the ratio is rounded down to 16 bits, and
    any ratio is private.
    """
    m = cutoff if monotonic else 2 * cutoff
    n = m * m << 48
    root = first_whole(lambda x: x**3 > n, 0, 1 << (n.bit_length() + 2) // 3 + 1) - 1  # ∛n, rounded down
    ratio = Fraction(root, 1 << 16)
    return epsilon / (1 + ratio), epsilon - epsilon / (1 + ratio)


def _share(answers: Real | None) -> Fraction | Literal["gap"] | None:
    if answers is None:
        return None
    if isinstance(answers, str) and answers == "gap":
        return "gap"
    share = exact("answers", answers)
    if not 0 < share < 1:
        raise InvalidParameter(
            f"answers must be a share of ε above 0 and below 1, not {answers}.",
            hint='answers="gap" costs nothing; None gives no numbers',
        )
    return share


_FALLING = " (where the queries fall from x to y, at the same ρ)"


class SparseRun(Run):
    """Asks one query after another, until `cutoff` of them were above the threshold.

    Guarantee:
        That of the mechanism that started it, for all answers together, also when each query is chosen
        after the answers to those before. The number type of the first query (integer or float) is public
        and fixes that of the run: integers go through a run of floats, floats are refused in one of integers.

    References:
        Lyu, Su, Li 2017, Algorithm 7, https://arxiv.org/abs/1603.01699; docs/proofs/sparse-vector.md.
    """

    __slots__ = ("_answering", "_asked", "_law", "_laws", "_left", "_level", "_rng")

    def __init__(self, laws: tuple[SparseLaw | None, SparseLaw], cutoff: int, answering: bool, rng: Entropy) -> None:
        """Start a run; `SparseVector.start` and `AboveThreshold.start` do it.

        Args:
            laws: that of integers, or None where they are not taken, and that of floats.
            cutoff: after so many queries above the threshold it ends.
            answering: whether those are answered with a number.
            rng: where randomness comes from.
        """
        super().__init__()
        self._laws = laws
        self._law: SparseLaw | None = None
        self._level = 0
        self._left = cutoff
        self._answering = answering
        self._asked = 0
        self._rng = rng

    @property
    def asked(self) -> int:
        """How many queries were answered."""
        return self._asked

    @property
    def left(self) -> int:
        """How many more may be above the threshold."""
        return self._left

    @property
    def halted(self) -> bool:
        """Whether the run is over."""
        return self._left == 0

    def ask(self, value: object) -> bool | int | float | None:
        """Return whether this query is above the threshold; with numbers, its number if it is and None if not.

        Args:
            value: the query's answer on the data, one integer or one float.

        Raises:
            InvalidParameter: the run is over, or belongs to another process, or the value is not one finite
                number of the type of the run. The message does not quote it.
        """
        self._stay()
        numbers = read(value)
        if numbers.shape is not None:
            raise InvalidParameter(
                "ask takes one number at a time.", hint="release(values) takes a whole array at once"
            )
        with self._alone():
            if not self._left:
                raise InvalidParameter(
                    "this run is over: it has found as many queries above the threshold as cutoff= allows.",
                    hint="start another run, which is charged anew",
                )
            law = self._begin(numbers.is_real)
            query = law.queries(numbers)
            found = law.above(query, self._level, 1, self._rng)
            self._asked += 1
            self._left -= len(found)
            said = [law.number(int(query[0]), gap, self._rng) for _, gap in found] if self._answering else []
        self._stay()  # a fork in between shows here
        if self._answering:
            return said[0] if said else None
        return bool(found)

    def _begin(self, real: bool) -> SparseLaw:
        """Return the run's law; the first query fixes it and draws the noisy threshold."""
        if self._law is None:
            law = self._laws[real]
            if law is None:
                raise InvalidParameter(
                    "sensitivity is below 1: an integer could not change at all.", hint="ask with floats"
                )
            self._level = law.level(self._rng)
            self._law = law
        elif real and self._law.grid is None:
            raise InvalidParameter(
                "this run began with an integer, and takes integers only.",
                hint="begin with a float where queries of both types come",
            )
        return self._law

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._asked} asked, {self._left} left>"
