"""Neighbours to search: vectors of answers, small worlds, numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.reports import shown
from discreet.errors import InvalidParameter

Pair: TypeAlias = tuple[Any, Any]


class Inputs(Protocol):
    """Where a search gets its neighbours from."""

    def pairs(self) -> Iterator[Pair]:
        """Neighbours to begin with, the most telling first."""

    def mutate(self, pair: Pair, rng: np.random.Generator) -> Pair:
        """Other neighbours, near to these ones."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """Neighbouring vectors of query answers.

    Attributes:
        length: how many answers.
        change: what one person may change: "each" answer by `size`; "one" of them by `size`; any of them, by `size`
            in "sum" (ℓ1).
        size: see `change`.
        low: the least answer.
        high: the largest answer.
        integer: whether answers are whole numbers.

    References:
        The patterns: Ding, Wang, Wang, Zhang, Kifer 2018, Table 1, https://doi.org/10.1145/3243734.3243818
    """

    length: int
    change: str = "each"
    size: float = 1.0
    low: float = -10.0
    high: float = 10.0
    integer: bool = False

    def __post_init__(self) -> None:
        if self.length < 1:
            raise InvalidParameter(f"length must be at least 1, not {self.length}.", hint="Vectors(5)")
        if self.change not in ("each", "one", "sum"):
            raise InvalidParameter(
                f"change must be 'each', 'one' or 'sum', not {self.change!r}.", hint="Vectors(5, change='each')"
            )
        if not 0 < self.size <= self.high - self.low:
            raise InvalidParameter(
                f"size must be above 0 and at most high − low, not {self.size}.", hint="Vectors(5, size=1.0)"
            )

    def pairs(self) -> Iterator[Pair]:
        """Yield the known patterns on flat, one-sided, halved and rising answers."""
        seen = set()
        bases, steps = list(self._bases()), list(self._steps())
        # Along diagonals: the first pairs of all have early bases and early steps.
        order = sorted(itertools.product(range(len(bases)), range(len(steps))), key=sum)
        for i, j in order:
            pair = self._pair(bases[i], steps[j])
            key = pair[0].tobytes(), pair[1].tobytes()
            if key[0] != key[1] and key not in seen and key[::-1] not in seen:
                seen.add(key)
                yield pair
        if self.change == "each" and self.length > 1:
            yield self._cross()

    def mutate(self, pair: Pair, rng: np.random.Generator) -> Pair:
        """Move answers together, or changes how the neighbours differ."""
        base, step = pair[0].astype(np.float64), (pair[1] - pair[0]).astype(np.float64)
        for _ in range(int(rng.integers(1, 3))):
            i, j = rng.integers(self.length, size=2)
            span = slice(min(i, j), max(i, j) + 1)
            match int(rng.integers(7)):
                case 0:
                    base[span] = np.round(rng.uniform(self.low, self.high) * 8) / 8
                case 1:
                    base[i] = rng.choice([self.low, self.high, 0.5 * (self.low + self.high)])
                case 2:
                    base += rng.choice([-4, -2, -1, 1, 2, 4]) * self.size
                case 3:
                    base[span] += rng.choice([-4, -2, -1, 1, 2, 4]) * self.size
                case 4:
                    base[[i, j]], step[[i, j]] = base[[j, i]], step[[j, i]]
                case 5:
                    base = 0.5 * (self.low + self.high) + rng.choice([0.5, 2.0]) * (base - 0.5 * (self.low + self.high))
                case _:
                    step = self._changed(step, span, rng)
        return self._pair(base, step)

    def _pair(self, base: NDArray[np.float64], step: NDArray[np.float64]) -> Pair:
        x = np.clip(base, self.low, self.high)
        if not self.integer:
            return x, np.clip(x + step, self.low, self.high)
        x = np.clip(np.floor(x), np.ceil(self.low), np.floor(self.high))
        y = np.clip(x + np.trunc(step), np.ceil(self.low), np.floor(self.high))
        return x.astype(np.int64), y.astype(np.int64)

    def _bases(self) -> Iterator[NDArray[np.float64]]:
        n, low, high = self.length, self.low, self.high
        middle = 0.5 * (low + high)
        flat = np.ones(n)
        yield middle * flat
        if n > 1:
            upper = np.full(n, high - self.size)
            upper[-1] = low + self.size
            yield upper
            lower = np.full(n, middle - 0.2 * (high - low))
            lower[-1] = middle + 0.25 * (high - low)
            yield lower
            yield np.where(np.arange(n) < n // 2, low + self.size, high - self.size)
        for level in (min(max(1.0, low), high), high - self.size, low + self.size):
            yield level * flat
        if n > 1:
            for one in (n - 1, 0):
                for here, rest in ((high - self.size, low + self.size), (low + self.size, high - self.size)):
                    base = rest * flat
                    base[one] = here
                    yield base
            yield np.linspace(low + self.size, high - self.size, n)

    def _steps(self) -> Iterator[NDArray[np.float64]]:
        n, size = self.length, self.size
        first, last, flat = np.zeros(n), np.zeros(n), np.ones(n)
        first[0], last[-1] = 1.0, 1.0
        half = np.where(np.arange(n) < n // 2, 1.0, -1.0)
        if self.change == "each":
            # Half against half, and one against the rest, break most; a vector that moves as a whole breaks sums.
            shapes = [half, flat - 2 * last, 2 * first - flat, flat, (flat + half) / 2, last, first]
        elif self.change == "one":
            shapes = [first, last]
        else:
            shapes = [first, last, flat / n, half / n, (first - last) / 2]
        for shape in shapes:
            yield size * shape
            yield -size * shape

    def _cross(self) -> Pair:
        # "X shape": the halves change places.
        middle = 0.5 * (self.low + self.high)
        half = np.where(np.arange(self.length) < self.length // 2, 0.0, self.size)
        return self._pair(middle + half, self.size - 2 * half)

    def _changed(self, step: NDArray[np.float64], span: slice, rng: np.random.Generator) -> NDArray[np.float64]:
        if self.change == "each":
            new = step.copy()
            new[span] = self.size * rng.choice([-1.0, 0.0, 1.0])
            return new if np.any(new) else -step
        new = np.zeros(self.length)
        places = [span.start] if self.change == "one" else list(range(span.start, span.stop))
        signs = rng.choice([-1.0, 1.0], size=len(places))
        new[places] = signs * self.size / len(places)
        return new


@dataclass(frozen=True, slots=True)
class Numbers:
    """Neighbouring numbers: any two in [low, high] that differ by at most `change`.

    Attributes:
        low: the least number.
        high: the largest number.
        change: the largest difference between neighbours.
        integer: whether only whole numbers are taken.
    """

    low: float
    high: float
    change: float = 1.0
    integer: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.change <= self.high - self.low:
            raise InvalidParameter(
                f"change must be above 0 and at most high − low, not {self.change}.",
                hint="Numbers(-10, 10, change=1.0)",
            )

    def pairs(self) -> Iterator[Pair]:
        """Numbers at the ends, around zero, whole, half and odd ones, a full change apart; then smaller changes."""
        top = self.high - self.change
        middle = 0.5 * (self.low + self.high)
        starts = [0.0, self.low, top, middle, 0.5, 1.0, -0.5, -1.0, 0.1, 1 / 3, 4.5, -0.7, 2.25, 1e-9]
        # So near to each other that every threshold has a pair on either side.
        starts += list(np.linspace(self.low, top, 2 + min(math.ceil((top - self.low) / self.change), 38)))
        seen = set()
        for share in (1.0, 0.25):
            for start in starts:
                pair = self._pair(start, self.change * share)
                if pair[0] != pair[1] and pair not in seen:
                    seen.add(pair)
                    yield pair

    def mutate(self, pair: Pair, rng: np.random.Generator) -> Pair:
        """Move both, or changes their difference."""
        x, step = float(pair[0]), float(pair[1]) - float(pair[0])
        match int(rng.integers(5)):
            case 0:
                x = rng.uniform(self.low, self.high)
            case 1:
                x += rng.choice([-2, -1, -0.5, -0.1, 0.1, 0.5, 1, 2]) * self.change
            case 2:
                x = round(x * 2) / 2
            case 3:
                step = self.change * rng.choice([-1.0, 1.0])
            case _:
                step = self.change * rng.uniform(-1.0, 1.0)
        new = self._pair(x, step)
        return new if new[0] != new[1] else pair

    def _pair(self, x: float, step: float) -> Pair:
        if self.integer:
            i = int(np.clip(round(x), np.ceil(self.low), np.floor(self.high)))
            move = max(1, int(abs(step)))
            j = i + move if step > 0 else i - move
            return i, int(np.clip(j, np.ceil(self.low), np.floor(self.high)))
        a = float(np.clip(x, self.low, self.high))
        b = float(np.clip(a + step, self.low, self.high))
        while abs(b - a) > self.change:  # rounding may have added an ulp: then they are no neighbours
            b = float(np.nextafter(b, a))
        return a, b


@dataclass(frozen=True, slots=True)
class Datasets:
    """All small worlds over an alphabet, as lists of records.

    Attributes:
        values: the records that may occur.
        most: the largest number of records of the worlds to begin with; mutation makes larger ones.
        relation: "add-remove" one record, or "replace" one.
    """

    values: Sequence[Any]
    most: int = 3
    relation: str = "add-remove"

    def __post_init__(self) -> None:
        if not self.values or self.most < 1:
            raise InvalidParameter("Datasets needs at least one value, and most ≥ 1.", hint="Datasets((0, 1), most=3)")
        if self.relation not in ("add-remove", "replace"):
            raise InvalidParameter(
                f"relation must be 'add-remove' or 'replace', not {self.relation!r}.",
                hint="Datasets((0, 1), relation='replace')",
            )

    def pairs(self) -> Iterator[Pair]:
        """Every multiset of at most `most` records, with one record added at its end (or replaced)."""
        indices = range(len(self.values))
        for size in range(self.most):
            for world in itertools.combinations_with_replacement(indices, size):
                common = [self.values[i] for i in world]
                if self.relation == "add-remove":
                    for value in self.values:
                        yield list(common), [*common, value]
                else:
                    for a, b in itertools.combinations(self.values, 2):
                        yield [*common, a], [*common, b]

    def mutate(self, pair: Pair, rng: np.random.Generator) -> Pair:
        """Add, drop or repeat common records, or change the one that differs and its place."""
        common, a, b, place = self._parts(pair)
        match int(rng.integers(7)):
            case 0 | 1:
                common.insert(int(rng.integers(len(common) + 1)), self._any(rng))
            case 2 if common:
                common.pop(int(rng.integers(len(common))))
            case 3 if 0 < len(common) <= 64:
                common = common * 2
            case 4:
                place = int(rng.integers(len(common) + 1))
            case 5:
                b = self._any(rng)
            case _:
                common = [common[i] for i in rng.permutation(len(common))]
                a = a if self.relation == "add-remove" else self._any(rng)
        return self._joined(common, a, b, min(place, len(common)))

    def _any(self, rng: np.random.Generator) -> Any:
        return self.values[int(rng.integers(len(self.values)))]

    def _joined(self, common: list[Any], a: Any, b: Any, place: int) -> Pair:
        left = [] if self.relation == "add-remove" else [a]
        return [*common[:place], *left, *common[place:]], [*common[:place], b, *common[place:]]

    def _parts(self, pair: Pair) -> tuple[list[Any], Any, Any, int]:
        """Return what is common, what each has alone, and where."""
        x, y = list(pair[0]), list(pair[1])
        if len(x) > len(y):
            x, y = y, x
        place = next((i for i, (u, v) in enumerate(zip(x, y, strict=False)) if not _same(u, v)), len(x))
        if self.relation == "add-remove":
            return x, None, y[min(place, len(y) - 1)], place
        place = min(place, len(x) - 1)
        return x[:place] + x[place + 1 :], x[place], y[place], place


@dataclass(frozen=True, slots=True)
class Given:
    """Neighbours that were given: nothing else is tried.

    Attributes:
        given: the pairs.
    """

    given: tuple[Pair, ...]

    def pairs(self) -> Iterator[Pair]:
        """Yield what was given."""
        yield from self.given

    def mutate(self, pair: Pair, rng: np.random.Generator) -> Pair:
        """Return the same: nothing is known of what else is a neighbour."""
        return pair


def described(pair: Pair) -> str:
    """Return two neighbours in words."""
    return f"{shown(pair[0])} and {shown(pair[1])}"


def read_inputs(inputs: Any) -> Inputs:
    """Return inputs as such, or a plain iterable of pairs.

    Raises:
        InvalidParameter: neither, or no pair at all.
    """
    if all(hasattr(inputs, name) for name in ("pairs", "mutate")):
        found: Inputs = inputs
        return found
    hint = "refute(mechanism, Vectors(5), 1.0), or inputs=[(x, x_neighbour), …]"
    try:
        given = tuple((x, y) for x, y in inputs)
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"inputs must be Vectors, Datasets, Numbers or pairs of neighbours, not {type(inputs).__name__}.", hint=hint
        ) from None
    if not given:
        raise InvalidParameter("inputs has no pair of neighbours.", hint=hint)
    return Given(given)


def _same(u: object, v: object) -> bool:
    """Equal, where NaN equals itself."""
    return u is v or bool(u == v)
