"""A quick look at two samples: how far some event seems to break a promise, in standard errors."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.audit.claim import Claim, Floats
from discreet.audit.outputs.encoding import Encoded, Encoder
from discreet.audit.outputs.shape import Batch


class QuickLook(NamedTuple):
    """What a quick look showed: the excess of the best event in standard errors, and the ε of that event."""

    excess: float
    epsilon: float


def look(p: Batch, q: Batch, claim: Claim, *, bits: bool = True) -> QuickLook:
    """Return the largest excess of P(E) over e^ε Q(E) + δ, in standard errors, over simple events E and both orders.

    Events are thresholds of each column, of the direction that separates the means best, and of how often whole outputs
    were seen. The last two are learned from one half of the samples. It only says where to look: many events
    are tried on the samples that choose among them.
    """
    encoder = Encoder.learned(p, q, bits=bits)
    one, two = encoder.encode(p), encoder.encode(q)
    half = len(one) // 2, len(two) // 2
    scores = [
        *_columns(one, two),
        _direction(one, two, half),
        _whole_outputs(one, two, half),
    ]
    return max(max(_best(a, b, claim), _best(-b, -a, claim)) for a, b in scores)


def _columns(one: Encoded, two: Encoded) -> list[tuple[Floats, Floats]]:
    a, b = _filled(one), _filled(two)
    found = [(a[:, j], b[:, j]) for j in range(a.shape[1])]
    return found + [(-x, -y) for x, y in found]


def _direction(one: Encoded, two: Encoded, half: tuple[int, int]) -> tuple[Floats, Floats]:
    """Fresh halves along the difference of the means; cut off, so that no heavy tail drowns the other columns."""
    a, b = _filled(one), _filled(two)
    both = np.vstack([a[: half[0]], b[: half[1]]])
    middle = np.median(both, axis=0)
    width = np.maximum(np.quantile(np.abs(both - middle), 0.75, axis=0), 1e-300)
    with np.errstate(over="ignore"):
        x, y = (np.clip((part - middle) / width, -3, 3) for part in (a, b))
    difference = x[: half[0]].mean(axis=0) - y[: half[1]].mean(axis=0)
    return x[half[0] :] @ difference, y[half[1] :] @ difference


def _whole_outputs(one: Encoded, two: Encoded, half: tuple[int, int]) -> tuple[Floats, Floats]:
    """For fresh halves, the log-ratio of how often each whole output was seen in the others."""
    codes, place = np.unique(np.concatenate([one.codes, two.codes]), return_inverse=True)
    mine, other = place[: len(one)], place[len(one) :]
    seen = [np.bincount(part, minlength=len(codes)) for part in (mine[: half[0]], other[: half[1]])]
    ratio = np.log((seen[0] + 0.5) / (seen[1] + 0.5))
    return ratio[mine[half[0] :]], ratio[other[half[1] :]]


def _filled(encoded: Encoded) -> Floats:
    return np.nan_to_num(encoded.values, nan=-1e300, posinf=1e301, neginf=-1e301)


def _best(a: Floats, b: Floats, claim: Claim) -> QuickLook:
    """The best of the events "score ≥ t"."""
    n, m = len(a), len(b)
    points = np.unique(np.concatenate([a, b]))
    hits = n - np.searchsorted(np.sort(a), points, side="left")
    misses = m - np.searchsorted(np.sort(b), points, side="left")
    # one hit more on each side keeps rare events from looking certain
    p, q = (hits + 1) / (n + 2), (misses + 1) / (m + 2)
    looks = []
    for epsilon, delta in claim.points:
        grown = math.exp(min(epsilon, 100.0))
        error = np.sqrt(p * (1 - p) / n + grown * grown * q * (1 - q) / m)
        excess: NDArray[np.float64] = (hits / n - grown * misses / m - delta) / error
        i = int(excess.argmax())
        looks.append(QuickLook(float(excess[i]), math.log(max(float(p[i] - delta), 1e-300) / float(q[i]))))
    return max(looks)
