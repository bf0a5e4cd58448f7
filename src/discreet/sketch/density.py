"""Kernel density and similarity from one private sketch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.abstract import numbered
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.privacy.exact import Real
from discreet.privacy.unit import Relation
from discreet.sketch.counting import Counting, Sketch, described, rows_of, scores
from discreet.sketch.hashing import Hashes
from discreet.sketch.vectors import Floats, Ranges


@dataclass(frozen=True, slots=True, init=False, repr=False)
class DensitySketch(Sketch):
    """A private RACE sketch: noisy counts of rows in buckets of random hash functions under which near rows collide.

    What comes out of `fit` answers any number of questions for the same ε: how dense rows are around a point
    (`density`), and how many rows' worth of similarity a point has (`score`).

    Guarantee:
        ε-DP, or (ε, δ)-DP where a `delta` was given, when each row is one unit, for neighbours by `relation`: with
        "add-remove" the number of rows is private as well. Hash functions are drawn without the data. Numbers outside
        of their range are moved to its nearest end and NaN to its middle, so that no row is refused. The type of the
        array and its number of columns are public.

    References:
        Coleman, Shrivastava 2020, Theorem 2 and Section 3, https://arxiv.org/abs/2006.09352; docs/proofs/race.md.

    Args:
        epsilon: of all counts together.
        dimension: how many numbers a row has.
        ranges: a pair (low, high) for all of them, or one for each.
        kernel: "l2", by distance; or "angular", by the angle seen from the middle of the ranges.
        bandwidth: of "l2": distances are taken where each range has width 1, and the kernel falls from 1 to about
            0.6 at half of the bandwidth, 0.37 at all of it, 0.2 at twice.
        power: the kernel is raised to it, which makes it narrower.
        repetitions: hash functions. More of them take chance out of the answer, and each has its share of ε; with a δ
            they cost nothing but time.
        buckets: of each function, a power of two. With few of them the number of rows is more exact; with many, less
            falls into a bucket by accident.
        delta: 0 for Laplace noise; above 0 for Gaussian noise, which is less for many repetitions.
        relation: "add-remove" or "replace".

    >>> sketch = DensitySketch(epsilon=1, dimension=3, ranges=(0, 1), bandwidth=0.5, repetitions=100)
    >>> sketch.loss.epsilon()
    1.0
    """

    counting: Counting

    def __init__(
        self,
        *,
        epsilon: Real,
        dimension: int,
        ranges: Ranges = (0, 1),
        kernel: str = "l2",
        bandwidth: Real | None = None,
        power: int = 1,
        repetitions: int = 200,
        buckets: int = 256,
        delta: Real = 0,
        relation: str | Relation = Relation.ADD_REMOVE,
    ) -> None:
        counting = Counting.of(
            epsilon=epsilon,
            delta=delta,
            relation=relation,
            dimension=dimension,
            ranges=ranges,
            kernel=kernel,
            bandwidth=bandwidth,
            power=power,
            repetitions=repetitions,
            buckets=buckets,
            parts=1,
        )
        object.__setattr__(self, "counting", counting)

    def fit(self, rows: NDArray[Any], *, rng: Entropy | None = None) -> Densities:
        """Return the private sketch of these rows.

        Args:
            rows: an array with one row for each unit.
            rng: where randomness comes from, for tests; the operating system's by default.

        Raises:
            InvalidParameter: no plain array of numbers with `dimension` columns.
        """
        source = SystemEntropy() if rng is None else rng
        hashes = self.counting.family.draw(source)
        return Densities(self.counting, hashes, self.counting.counted(hashes, rows, None, source))

    def explain(self) -> str:
        """Return the steps of the privacy proof, with this sketch's numbers in them."""
        width = f"Error. The noise moves a score by at most {self.error():.6g} rows with confidence 95%."
        return numbered(repr(self), *self.counting.steps(), width)

    def __repr__(self) -> str:
        return described("DensitySketch", self.counting)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Densities:
    """A private sketch that answers: what `DensitySketch.fit` gives. Everything in it is public.

    Guarantee:
        A function of the noisy counts and of the hash functions.

    Attributes:
        counting: its parameters.
        hashes: the functions.
        counts: the noisy counts; part, repetition, bucket.
    """

    counting: Counting
    hashes: Hashes
    counts: NDArray[Any]

    @property
    def rows(self) -> float:
        """The noisy number of rows, from the same counts: the fewer buckets, the more exact."""
        return float(rows_of(self.counts)[0])

    def score(self, points: NDArray[Any]) -> Floats:
        """Σ k(point, row) for each point: how many rows' worth of similarity there is.

        It is unbiased, and so may be negative.
        """
        f = self.counting.family
        whole = f.box.whole(points)
        found = [scores(self.counts, f, self.hashes.buckets(whole[b]))[0] for b in self.hashes.blocks(len(whole))]
        return np.concatenate([np.empty(0), *found])

    def density(self, points: NDArray[Any]) -> Floats:
        """Return the mean of k(point, row) over the rows, from 0 to 1: the score over the noisy number of rows."""
        return np.asarray(np.clip(self.score(points) / max(self.rows, 1.0), 0.0, 1.0))

    def __repr__(self) -> str:
        return f"<{described('DensitySketch', self.counting)} of about {self.rows:,.0f} rows>"
