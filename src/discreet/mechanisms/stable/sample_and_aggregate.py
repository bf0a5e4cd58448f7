"""Any estimator made private: run on disjoint blocks of the rows, and its answers brought together privately."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import Mechanism, numbered
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.parameters import read_choice, read_confidence, read_size
from discreet.mechanisms.quantiles import named
from discreet.mechanisms.stable.smooth_sensitivity import SmoothSensitivity
from discreet.mechanisms.values import Declared, plain
from discreet.noise import laplace
from discreet.noise.entropy import Entropy, SystemEntropy, below_vector, words64
from discreet.privacy.discrete_events import BoundedRangeEvent
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.exact import Real, above, count, exact, set_fields
from discreet.privacy.guarantee import called, decimal
from discreet.privacy.unit import Relation

Rows: TypeAlias = "NDArray[Any] | Sequence[Any]"
"""One row for each unit: a list, or an array whose first axis is that of the units."""

Estimator: TypeAlias = Callable[[Any], Any]
"""Rows of one block, of the type that was given, to a number, or to as many numbers as ranges were declared."""

AGGREGATIONS = ("median", "winsorized")
"""How answers are brought together."""

_BITS = 30  # of the grid on which answers are averaged
_QUARTILES = (Fraction(1, 4), Fraction(3, 4))


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SampleAndAggregate(Mechanism):
    """A black-box estimator on random blocks of the rows, and the median or the Winsorized mean of its answers.

    "median": the median of the answers by `SmoothSensitivity`. "winsorized": two quartiles of the answers by the
    exponential mechanism (ε/4 each), the answers cut off at blocks^(13/30) quartile distances around their middle, and
    their mean with Laplace noise (ε/2). Where there are several numbers each gets an even part of ε.

    Guarantee:
        ε-DP for any estimator whose answer on a block depends on the rows of that block alone (and on its own
        randomness): it must keep nothing from one call to the next, and look at nothing else. Each row is one
        unit and is in `repeats` blocks, drawn without a look at the rows: under add-remove for each row by
        itself, under replace (the number of rows is public) evenly by position. So one unit changes at most
        `repeats` of the answers. An answer outside its range is moved to the nearer end; NaN, an error, another
        shape or type, and an empty block count as `default`, the middle of the range. No error of the estimator
        and no warning gets out (while several threads use it a warning may: Python has one filter for all). How long
        it takes, what it prints, and what else it does to the world is not hidden; Ctrl-C is passed on.

    References:
        Nissim, Raskhodnikova, Smith 2007, Section 4, https://doi.org/10.1145/1250790.1250803; Smith 2011, Algorithm 1
        (widened Winsorized mean), https://doi.org/10.1145/1993636.1993743; docs/proofs/sample-and-aggregate.md.

    >>> m = SampleAndAggregate(np.mean, blocks=50, epsilon=1000, lower=0, upper=10)
    >>> round(m.release(np.full(5000, 3.0)), 6)
    3.0
    """

    estimator: Estimator
    blocks: int
    epsilon: Fraction
    aggregation: str
    relation: Relation
    repeats: int
    default: tuple[Fraction, ...]
    _single: bool
    _ranges: tuple[Declared, ...]

    def __init__(
        self,
        estimator: Estimator,
        *,
        blocks: int,
        epsilon: Real,
        lower: Real | Sequence[Real],
        upper: Real | Sequence[Real],
        aggregation: str = "median",
        relation: Relation | str = Relation.ADD_REMOVE,
        repeats: int = 1,
        default: Real | Sequence[Real] | None = None,
    ) -> None:
        if not callable(estimator):
            raise InvalidParameter(
                f"estimator must be a function of rows, not {type(estimator).__name__}.", hint="numpy.mean"
            )
        aggregation = read_choice("aggregation", aggregation, AGGREGATIONS)
        ranges, single = _ranges(lower, upper)
        set_fields(self, estimator=estimator, blocks=_blocks(blocks), epsilon=read_size("epsilon", epsilon))
        set_fields(self, aggregation=aggregation, relation=Relation.parse(relation), repeats=count("repeats", repeats))
        set_fields(self, default=_defaults(default, ranges, single), _single=single, _ranges=ranges)
        if self.repeats > self.blocks:
            raise InvalidParameter(f"repeats must be at most blocks = {self.blocks}, not {self.repeats}.")

    @property
    def each(self) -> Fraction:
        """The ε of each number."""
        return self.epsilon / len(self._ranges)

    @property
    def events(self) -> Composed:
        if self.aggregation == "median":
            return Composed([(ApproximateEvent(self.each), len(self._ranges))])
        quartiles = (BoundedRangeEvent(self.each / 4), 2 * len(self._ranges))
        return Composed([quartiles, (ApproximateEvent(self.each / 2), len(self._ranges))])

    def release(self, rows: Rows, *, rng: Entropy | None = None) -> float | list[float]:
        """Return the aggregate of the estimator's answers: a float, or a list where lists of ends were declared.

        Args:
            rows: a list, or a plain array; each row is one unit. The type of an array, for texts with their width,
                is public: each block has it.
            rng: where randomness comes from, for tests; the operating system's by default.

        Raises:
            InvalidParameter: not a list or an array. What the rows hold does not matter.
        """
        source = SystemEntropy() if rng is None else rng
        answers = [self._ask(block) for block in self._dealt(_rows(rows), source)]
        columns = np.array(answers, dtype=np.float64).T
        found = [self._aggregate(z, r, source) for z, r in zip(columns, self._ranges, strict=True)]
        return found[0] if self._single else found

    def error(self, confidence: Real = 0.95, *, spread: Real | None = None) -> float:
        """Return a half-width within which each number stays around the same aggregate of the blocks' answers without
        noise.

        Args:
            confidence: strictly between 0 and 1.
            spread: what is assumed, for planning, of the answers: the smooth sensitivity of their median, or for
                "winsorized" the distance of the cut-offs. The whole range, the public worst case, by default.
        """
        return max(self._error(r, confidence, spread) for r in self._ranges)

    def explain(self) -> str:
        e, k, r = decimal(self.epsilon), self.blocks, self.repeats
        how = (
            f"each result's median with noise for its smooth sensitivity, ε = {decimal(self.each)}, where one unit "
            f"changes {r} of {k} answers."
            if self.aggregation == "median"
            else f"quartiles at ε = {decimal(self.each / 4)} each; answers cut off {self._widening} quartile distances "
            f"from their middle; their sum, which one unit moves by {r} times the cut-offs' distance, at ε = "
            f"{decimal(self.each / 2)}."
        )
        return numbered(
            repr(self),
            f"Blocks. Each row is put into {r} of {k} blocks, drawn without a look at the rows.",
            f"Sensitivity. Given the draw, one unit is in {r} of the blocks under {self.relation.value} neighbours: so "
            "many answers change, arbitrarily within their range.",
            f"Aggregate. {how[0].upper()}{how[1:]}",
            f"Numbers. {len(self._ranges)} at ε = {decimal(self.each)} make {e}.",
            f"Conclusion. M is {e}-DP whatever the estimator computes from its block.",
        )

    def _dealt(self, rows: Rows, rng: Entropy) -> list[Any]:
        """Return the rows of each block, in the order in which they came."""
        n, k, r = len(rows), self.blocks, self.repeats
        if self.relation is Relation.REPLACE:
            slots = np.empty(n, dtype=np.int64)
            slots[np.argsort(words64(rng, n), kind="stable")] = np.arange(n)
            chosen = (slots[:, None] * r + np.arange(r)) % k
        else:
            chosen = _subsets(n, k, r, rng)
        order = np.argsort(chosen.reshape(-1), kind="stable")
        ends = np.cumsum(np.bincount(chosen.reshape(-1), minlength=k))[:-1]
        return [_taken(rows, held) for held in np.split(order // r, ends)]

    def _ask(self, block: Any) -> list[float]:
        """Return the estimator's answer on one block, whatever happens in it."""
        if len(block) == 0:
            return [float(d) for d in self.default]
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                given = block if self.repeats == 1 else copy.deepcopy(block)  # what it changes, others do not see
                answer = np.asarray(self.estimator(given))
                shape = () if self._single else (len(self._ranges),)
                if answer.shape != shape or answer.dtype.kind not in "iuf":
                    return [float(d) for d in self.default]
                found = answer.astype(np.float64).reshape(-1)
        except KeyboardInterrupt:
            raise
        except BaseException:
            # Any failure shows something of the rows and must not get out; the panics of libraries in Rust, such as
            # polars, are no Exception.
            return [float(d) for d in self.default]
        counted: list[float] = np.where(np.isnan(found), [float(d) for d in self.default], found).tolist()
        return counted

    def _aggregate(self, answers: NDArray[np.float64], declared: Declared, rng: Entropy) -> float:
        if self.aggregation == "median":
            return self._median(declared).release(answers, rng=rng)
        z = np.sort(declared.places(answers))
        rate = self.each / (8 * self.repeats)
        low, high = sorted(named(z, declared.span + 1, p, rate, rng) for p in _QUARTILES)
        reach = self._widening * max(high - low, 1)
        low, high = max((low + high) // 2 - reach, 0), min((low + high) // 2 + reach, declared.span)
        summed = int(np.clip(z, low, high).sum())
        noise = laplace.sample(self.repeats * (high - low) / (self.each / 2), rng)
        place = round(Fraction(summed + noise, self.blocks))
        return declared.value(min(max(place, low), high))

    def _median(self, declared: Declared) -> SmoothSensitivity:
        return SmoothSensitivity(
            "median",
            epsilon=self.each,
            lower=declared.lower,
            upper=declared.upper,
            relation=Relation.REPLACE,
            changes=self.repeats,
        )

    def _error(self, declared: Declared, confidence: Real, spread: Real | None) -> float:
        if self.aggregation == "median":
            return self._median(declared).error(confidence, smooth_sensitivity=spread)
        wide = declared.width if spread is None else min(exact("spread", spread), declared.width)
        if wide < 0:
            raise InvalidParameter("spread must be at least 0.")
        steps = max(math.ceil(declared.in_steps(wide)), 1)
        law = DiscreteLaplaceNoise(self.repeats * steps / (self.each / 2))
        width = declared.grid.step * (Fraction(law.quantile(read_confidence(confidence)), self.blocks) + 1)
        return min(above(width), above(declared.width))

    @property
    def _widening(self) -> int:
        """Quartile distances from the middle at which answers are cut off: Smith's exponent 1/3 + 1/10."""
        return math.ceil(math.pow(self.blocks, 13 / 30))

    def __repr__(self) -> str:
        name = getattr(self.estimator, "__name__", type(self.estimator).__name__)
        ends = [(decimal(r.lower), decimal(r.upper)) for r in self._ranges]
        lower, upper = (", ".join(side) for side in zip(*ends, strict=True))
        if not self._single:
            lower, upper = f"[{lower}]", f"[{upper}]"
        first = f"{name}, blocks={self.blocks}, epsilon={decimal(self.epsilon)}, lower={lower}, upper={upper}"
        return called(self, first=first, aggregation="median", relation=Relation.ADD_REMOVE, repeats=1)


def _subsets(n: int, k: int, r: int, rng: Entropy) -> NDArray[np.int64]:
    """For each of n rows r different blocks of k, uniformly (Floyd's algorithm, for all rows at once)."""
    chosen = np.empty((n, r), dtype=np.int64)
    for i, last in enumerate(range(k - r, k)):
        drawn = below_vector(last + 1, n, rng)
        taken = (chosen[:, :i] == drawn[:, None]).any(axis=1)
        chosen[:, i] = np.where(taken, last, drawn)
    return chosen


def _taken(rows: Rows, held: NDArray[np.int64]) -> Any:
    """Return some rows: a copy of an array's, a list of the others."""
    return rows[held] if isinstance(rows, np.ndarray) else [rows[i] for i in held.tolist()]


def _rows(rows: Rows) -> Rows:
    rows = plain(rows)
    if isinstance(rows, np.ndarray) and type(rows) is np.ndarray and rows.ndim >= 1:
        return rows
    if isinstance(rows, Sequence) and not isinstance(rows, str | bytes):
        return rows
    raise InvalidParameter(
        f"rows must be a list or a plain array with one row for each unit, not {type(rows).__name__}.",
        hint="a data frame, or frame.to_dict('records')",
    )


def _blocks(blocks: int) -> int:
    found = count("blocks", blocks, least=2)
    if found > _MOST_BLOCKS:
        raise InvalidParameter(f"blocks must be at most {_MOST_BLOCKS}, not {found}.")
    return found


_MOST_BLOCKS = 1 << 24


def _ranges(lower: Real | Sequence[Real], upper: Real | Sequence[Real]) -> tuple[tuple[Declared, ...], bool]:
    lows, highs = _several(lower), _several(upper)
    if lows is None and highs is None:
        return (Declared.of(lower, upper, bits=_BITS),), True  # type: ignore[arg-type]  # no sequences, as just seen
    if lows is None or highs is None or len(lows) != len(highs) or not lows:
        raise InvalidParameter(
            "lower and upper must be two numbers, or two lists with a number for each that the estimator gives.",
            hint="lower=[0, 0], upper=[1, 100]",
        )
    return tuple(Declared.of(a, b, bits=_BITS) for a, b in zip(lows, highs, strict=True)), False


def _several(ends: object) -> list[Any] | None:
    if isinstance(ends, np.ndarray) and ends.ndim == 1:
        return list(ends.tolist())
    return list(ends) if isinstance(ends, list | tuple) else None


def _defaults(
    default: Real | Sequence[Real] | None, ranges: tuple[Declared, ...], single: bool
) -> tuple[Fraction, ...]:
    if default is None:
        return tuple((r.lower + r.upper) / 2 for r in ranges)
    given: list[Any] | None = [default] if single else _several(default)
    if given is None or len(given) != len(ranges):
        raise InvalidParameter("default must be a number for each that the estimator gives.")
    found = tuple(exact("default", d) for d in given)
    if not all(r.lower <= d <= r.upper for d, r in zip(found, ranges, strict=True)):
        raise InvalidParameter("default must lie between lower and upper.")
    return found
