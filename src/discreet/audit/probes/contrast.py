"""An event of floats that tells two samples apart: learned from one half of them, judged by the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.evidence.intervals import broken, clopper_pearson_many
from discreet.audit.finding import Chance
from discreet.audit.outputs.sampling import Raised
from discreet.audit.outputs.shape import Batch
from discreet.audit.outputs.tree import lowest_bit
from discreet.audit.places import Floats

Keys: TypeAlias = NDArray[np.int64]

BITS, SIZED, EXACT, VALUES = "lowest bit", "lowest bit and size", "exact output", "value"
_NAN, _ZERO, _INFINITE, _RAISED = -1, -2, -3, -4
_COLUMNS = 8
_QUANTILES = 64
_FLOATS = 1e-9  # more than a few operations on floats are off by, relatively


@dataclass(frozen=True, slots=True)
class OutputNumbers:
    """Outputs as floats, one row a sample; a row that was an exception is NaN.

    Attributes:
        values: the numbers.
        raised: which rows were exceptions.
        kinds: types and texts of the exceptions that were seen.
        bits: of a float of the outputs' type, in the significand.
    """

    values: Floats
    raised: NDArray[np.bool_]
    kinds: tuple[str, ...]
    bits: int = 53

    @classmethod
    def of(cls, batch: Batch) -> OutputNumbers | None:
        """Return the numbers of a batch; None where outputs are something else, or vectors of several lengths."""
        if isinstance(batch, np.ndarray) and batch.dtype.kind in "fiub":
            bits = np.finfo(batch.dtype).nmant + 1 if batch.dtype.kind == "f" else 53
            rows = batch.reshape(len(batch), -1).astype(np.float64)
            return cls(rows, np.zeros(len(rows), dtype=np.bool_), (), bits)
        outputs = list(batch)
        raised = np.asarray([isinstance(o, Raised) for o in outputs], dtype=np.bool_)
        kinds = tuple(sorted({o.type for o in outputs if isinstance(o, Raised)}))
        answers = [o for o in outputs if not isinstance(o, Raised)]
        try:
            some = np.asarray(answers)
            if some.dtype.kind == "O":
                some = np.asarray([float(a) for a in answers])  # integers beyond 64 bits
        except (TypeError, ValueError, OverflowError):
            return None
        if some.dtype.kind not in "fiub":
            return None
        bits = np.finfo(some.dtype).nmant + 1 if some.dtype.kind == "f" else 53
        rows = some.reshape(len(answers), -1).astype(np.float64) if answers else np.empty((0, 1))
        values = np.full((len(outputs), rows.shape[1]), np.nan)
        values[~raised] = rows
        return cls(values, raised, kinds, bits)

    @classmethod
    def joined(cls, parts: Sequence[OutputNumbers]) -> OutputNumbers | None:
        """Several batches as one; None where they are vectors of several lengths."""
        width = max((p.values.shape[1] for p in parts if not p.raised.all()), default=1)
        if any(p.values.shape[1] != width and not p.raised.all() for p in parts):
            return None
        values = [p.values if p.values.shape[1] == width else np.full((len(p), width), np.nan) for p in parts]
        kinds = tuple(sorted({k for p in parts for k in p.kinds}))
        bits = min(p.bits for p in parts)
        return cls(np.concatenate(values), np.concatenate([p.raised for p in parts]), kinds, bits)

    def __len__(self) -> int:
        return len(self.raised)

    def halves(self) -> tuple[OutputNumbers, OutputNumbers]:
        """Return the first half, to learn from, and the second."""
        middle = len(self) // 2
        first = OutputNumbers(self.values[:middle], self.raised[:middle], self.kinds, self.bits)
        return first, OutputNumbers(self.values[middle:], self.raised[middle:], self.kinds, self.bits)


@dataclass(frozen=True, slots=True)
class Contrast:
    """An event with its chances in fresh samples.

    Attributes:
        event: the event in words.
        feature: which feature of a float it is about.
        forward: whether it is likelier under the first of the two neighbours.
        likelier: its chance under the neighbour where it is likelier.
        other: its chance under the other one.
        epsilon: log of the ratio that the two intervals leave for sure, at δ; 0 where they leave none.
        plain: the same for the best event on the order of the values alone, as training samples showed it.
    """

    event: str
    feature: str
    forward: bool
    likelier: Chance
    other: Chance
    epsilon: float
    plain: float

    def breaks(self, points: Sequence[tuple[float, float]]) -> bool:
        """Return whether a promise P(E) ≤ e^ε Q(E) + δ is refuted by the two intervals."""
        low, high = self.likelier.low * (1 - _FLOATS), self.other.high * (1 + _FLOATS)
        return broken(points, low, high)


def contrast(p: OutputNumbers, q: OutputNumbers, delta: float, error: float) -> Contrast | None:
    """Return the event that tells p from q best; None where there is too little to learn from.

    Guarantee:
        The event is chosen with the first halves. Each of the two chances of the fresh halves is outside of its
        interval, on the side that matters, with probability at most error/2. Of vectors the first eight entries are
        looked at.
    """
    if min(len(p), len(q)) < 40 or p.values.shape[1] != q.values.shape[1]:
        return None
    (p_learn, p_fresh), (q_learn, q_fresh) = p.halves(), q.halves()
    best: tuple[float, str, int, bool, Keys] | None = None
    plain = 0.0
    for column in range(min(p.values.shape[1], _COLUMNS)):
        edges = _edges(p_learn, q_learn, column)
        for feature in (VALUES, BITS, SIZED, EXACT):
            a, b = (_keys(s, column, feature, edges) for s in (p_learn, q_learn))
            if feature == EXACT and len(np.unique(np.concatenate([a, b]))) > (len(a) + len(b)) / 4:
                continue  # too many outputs to learn anything about each
            for forward in (True, False):
                bound, event = _learn(a, b, delta, error) if forward else _learn(b, a, delta, error)
                if feature == VALUES:
                    plain = max(plain, bound)
                # a plainer feature is taken where the next one says hardly more
                if best is None or bound > best[0] + 0.01:
                    best = bound, feature, column, forward, event
    assert best is not None
    _, feature, column, forward, event = best
    edges = _edges(p_learn, q_learn, column)
    one, other = (p_fresh, q_fresh) if forward else (q_fresh, p_fresh)
    over, under = (_chance(_keys(s, column, feature, edges), event, error) for s in (one, other))
    where = "" if p.values.shape[1] == 1 else f"[{column}]"
    return Contrast(
        _words(feature, event, where, len(event)), feature, forward, over, under, _ratio(over, under, delta), plain
    )


def _ratio(over: Chance, under: Chance, delta: float) -> float:
    left = over.low * (1 - _FLOATS) - delta
    return max(0.0, math.log(left / (under.high * (1 + _FLOATS)))) if left > 0 else 0.0


def _chance(keys: Keys, event: Keys, error: float) -> Chance:
    return Chance.of(int(np.isin(keys, event).sum()), len(keys), error)


def _learn(p: Keys, q: Keys, delta: float, error: float) -> tuple[float, Keys]:
    """Return the set of keys with the largest bound on ε in training samples: by falling ratio, up to some key."""
    keys, place = np.unique(np.concatenate([p, q]), return_inverse=True)
    over = np.bincount(place[: len(p)], minlength=len(keys))
    under = np.bincount(place[len(p) :], minlength=len(keys))
    order = np.argsort(-(over + 0.5) / (under + 0.5), kind="stable")
    hits, misses = np.cumsum(over[order]), np.cumsum(under[order])
    low = clopper_pearson_many(hits, len(p), error)[0] - delta
    high = clopper_pearson_many(misses, len(q), error)[1]
    bounds = np.log(np.maximum(low, 1e-300) / high)
    best = int(np.argmax(bounds))
    return max(0.0, float(bounds[best])), np.sort(keys[order[: best + 1]])


def _edges(p: OutputNumbers, q: OutputNumbers, column: int) -> Floats:
    both = np.concatenate([p.values[:, column], q.values[:, column]])
    finite = both[np.isfinite(both)]
    if not len(finite):
        return np.zeros(1)
    return np.unique(np.quantile(finite, np.linspace(0, 1, _QUANTILES + 1), method="inverted_cdf"))


def _keys(sample: OutputNumbers, column: int, feature: str, edges: Floats) -> Keys:
    """Return what a feature sees of each sample, as an integer; what is no number, zero or an exception by itself."""
    x = sample.values[:, column]
    finite = np.isfinite(x)
    safe = np.where(finite & (x != 0), x, 1.0)
    keys: Keys
    if feature == VALUES:
        keys = np.searchsorted(edges, np.where(finite, x, 0.0)).astype(np.int64)
        special = ~finite
    elif feature == EXACT:
        # no finite float has the bits of the special keys
        keys, special = np.ascontiguousarray(x).view(np.int64), ~finite
    else:
        low = lowest_bit(safe).astype(np.int64)
        keys, special = low + 2000, ~finite | (x == 0)
        if feature == SIZED:
            keys = keys * 8192 + np.frexp(safe)[1] * 2 + np.signbit(safe) + 4096
    named = np.where(np.isnan(x), _NAN, np.where(x == 0, _ZERO, _INFINITE))
    found = np.where(special, named, keys)
    return np.asarray(np.where(sample.raised, _RAISED, found), dtype=np.int64)


def _words(feature: str, event: Keys, where: str, many: int) -> str:
    output = f"output{where}"
    named = {_NAN: "it is NaN", _INFINITE: "it is infinite", _RAISED: "it is an exception"}
    special = [words for key, words in named.items() if key in event]
    if feature in (BITS, SIZED) and _ZERO in event:
        special.append("it is 0")
    plain = event[event > _NAN] if feature != EXACT else event
    said: str
    if not len(plain):
        return f"{output}: {' or '.join(special)}"
    if feature == BITS:
        low, high = int(plain.min()) - 2000, int(plain.max()) - 2000
        said = f"the lowest bit that is set in {output} lies in 2^{low} … 2^{high} ({many} of them)"
    elif feature == SIZED:
        said = f"the size of {output} and its lowest bit are one of {many} combinations"
    elif feature == EXACT:
        said = f"{output} is one of {many} floats"
    else:
        said = f"the value of {output} lies in one of {many} ranges"
    return " or ".join([said, *special])
