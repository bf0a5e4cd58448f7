"""One value of a sorted column by its rank: the exponential mechanism over the cells of a public range."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.exponential_quantile import Runs
from discreet.noise import selection
from discreet.noise.entropy import Entropy
from discreet.noise.uniform import below


def named(ordered: NDArray[np.int64], cells: int, p: Fraction, rate: Fraction, rng: Entropy) -> int:
    """A cell c of 0, …, cells − 1, with probability ∝ exp(−rate·d(c)), d(c) how far pn lies from the ranks of c.

    Guarantee:
        Exact. One selection of `ExponentialQuantile`, whose proof says how far d moves
        (docs/proofs/exponential-quantile.md): when values are added or removed, w in all, the changes of d lie in an
        interval of width 2w·max(p, 1 − p); when w values become others, in one of 2w.
    """
    places, held = np.unique(ordered, return_counts=True)
    before = [0, *np.cumsum(held).tolist()]
    runs = Runs.of(places.tolist(), before, cells)
    losses = runs.losses(p.numerator * before[-1], p.denominator)
    run = selection.exponential(-losses, rate / p.denominator, rng, copies=runs.lengths)
    return int(runs.starts[run]) + below(int(runs.lengths[run]), rng)


def rank_error(rate: Fraction, cells: int, doubt: Fraction) -> float:
    """A t such that d is at least t with probability `doubt` or less: as in `ExponentialQuantile.error`."""
    odds = (cells - 1) * float((1 - doubt) / doubt)
    return math.log(odds) / float(rate) * (1 + 2.0**-40) if odds > 1 else 0.0
