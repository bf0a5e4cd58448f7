"""Kernel density, similarity, and the class to which a vector is most similar, each from one private sketch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import numbered
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.privacy.exact import Real, set_fields
from discreet.privacy.unit import Relation
from discreet.sketch.counting import Counting, Sketch, described, rows_of, scores
from discreet.sketch.hashing import Floats, Hashes, Ranges, read_rows


@dataclass(frozen=True, slots=True, init=False, repr=False)
class DensitySketch(Sketch):
    """A private RACE sketch: noisy counts of rows in buckets of random hash functions under which near rows collide.

    What comes out of `fit` answers any number of queries for the same ε: how dense rows are around a point
    (`density`), and how many rows' worth of similarity a point has (`score`).

    Guarantee:
        ε-DP, or (ε, δ)-DP where a `delta` was given, when each row is one unit, for neighbours by `relation`: with
        "add-remove" the number of rows is private as well. Hash functions are drawn without the data. Numbers outside
        of their range are clamped and NaN to its middle, so that no row is refused. The type of the
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


@dataclass(frozen=True, slots=True, init=False, repr=False)
class SketchClassifier(Sketch):
    """A private sketch for each class, all with the same hash functions: a point gets the class it is most similar to.

    Guarantee:
        ε-DP, or (ε, δ)-DP with a `delta`, when each row with its label is one unit, for neighbours by `relation`.
        Classes are disjoint parts of the rows, so a row is in one bucket of each repetition, whatever its class: all
        classes together cost what one sketch does. A row whose label is none of `classes` is in no bucket. Values are
        treated as by `DensitySketch`.

    References:
        Coleman, Shrivastava 2020, Section 3.2, https://arxiv.org/abs/2006.09352; McSherry 2009, Theorem 4 (disjoint
        parts), https://doi.org/10.1145/1559845.1559850; docs/proofs/race.md.

    Args:
        epsilon: of all counts together.
        classes: the labels, which are public: texts or integers.
        dimension: how many numbers a row has.
        ranges, kernel, bandwidth, power, repetitions, buckets, delta, relation: as of `DensitySketch`.
    """

    counting: Counting
    classes: tuple[Any, ...]

    def __init__(
        self,
        *,
        epsilon: Real,
        classes: Sequence[str] | Sequence[int],
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
        names = _classes(classes)
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
            parts=len(names),
        )
        set_fields(self, counting=counting, classes=names)

    def fit(self, rows: NDArray[Any], labels: Sequence[Any] | NDArray[Any], *, rng: Entropy | None = None) -> Nearest:
        """Return the private sketches of these rows, by class.

        Raises:
            InvalidParameter: no plain array of numbers with `dimension` columns, or not one label for each row.
        """
        points = read_rows(rows, self.counting.family.box.dimension)
        given = self._labels(labels)
        if len(given) != len(points):
            raise InvalidParameter("there must be one label for each row.", hint="fit(rows, labels)")
        places = {name: i for i, name in enumerate(self.classes)}
        parts = np.array([_place(places, label) for label in given], dtype=np.int64)
        source = SystemEntropy() if rng is None else rng
        hashes = self.counting.family.draw(source)
        return Nearest(self.counting, self.classes, hashes, self.counting.counted(hashes, points, parts, source))

    def _labels(self, labels: Sequence[Any] | NDArray[Any]) -> list[Any]:
        """Return the labels as a list; an array's dtype, which is public, must be that of the classes."""
        given: object = labels  # what came need not be what was annotated
        if not isinstance(given, np.ndarray):
            if isinstance(given, str | bytes) or not isinstance(given, Iterable):
                raise InvalidParameter(
                    f"labels must be a list or an array, not {type(given).__name__}.", hint="fit(rows, labels)"
                )
            return list(given)
        kinds = "O" + ("iuf" if isinstance(self.classes[0], int) else "U")
        if type(labels) is np.ndarray and labels.shape == (0,):  # numpy makes floats of a list of no labels
            return []
        if type(labels) is not np.ndarray or labels.ndim != 1 or labels.dtype.kind not in kinds:
            raise InvalidParameter(
                "labels must be a plain array with one axis, of the type of the classes.",
                hint="labels.astype(int) or labels.astype(str)",
            )
        return list(labels.tolist())

    def explain(self) -> str:
        """Return the steps of the privacy proof, with the numbers in them."""
        parts = f"Classes. A row has one label, so it is counted in one of {len(self.classes)} disjoint sketches."
        hashes, *steps = self.counting.steps()
        width = f"Error. The noise moves a score by at most {self.error():.6g} rows with confidence 95%."
        return numbered(repr(self), hashes, parts, *steps, width)

    def __repr__(self) -> str:
        return described("SketchClassifier", self.counting)[:-1] + f", classes={list(self.classes)!r})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Nearest:
    """Private sketches by class that answer: what `SketchClassifier.fit` gives. Everything in it is public.

    Attributes:
        counting: its parameters.
        classes: the labels, in the order of the first axis of `counts`.
        hashes: the functions.
        counts: the noisy counts; class, repetition, bucket.
    """

    counting: Counting
    classes: tuple[Any, ...]
    hashes: Hashes
    counts: NDArray[Any]

    @property
    def rows(self) -> dict[Any, float]:
        """The noisy number of rows of each class."""
        return dict(zip(self.classes, rows_of(self.counts).tolist(), strict=True))

    def scores(self, points: NDArray[Any]) -> Floats:
        """Σ k(point, row) over the rows of each class: one row for each point, one column for each class."""
        f = self.counting.family
        whole = f.box.whole(points)
        found = [scores(self.counts, f, self.hashes.buckets(whole[b])).T for b in self.hashes.blocks(len(whole))]
        return np.concatenate([np.empty((0, len(self.classes))), *found])

    def predict(self, points: NDArray[Any]) -> list[Any]:
        """Return the class with the largest score, for each point."""
        return [self.classes[i] for i in self.scores(points).argmax(axis=1).tolist()]

    def __repr__(self) -> str:
        return f"<{described('SketchClassifier', self.counting)} of {len(self.classes)} classes>"


def _classes(classes: object) -> tuple[Any, ...]:
    names = tuple(classes) if isinstance(classes, Sequence) and not isinstance(classes, str) else ()
    kinds = {type(name) for name in names}
    if len(names) < 2 or len(set(names)) < len(names) or kinds not in ({str}, {int}):
        raise InvalidParameter(
            "classes must be two or more different texts, or integers.", hint='classes=["no", "yes"] or range(10)'
        )
    if kinds == {int} and max(map(abs, names)) >= 1 << 53:
        raise InvalidParameter(
            "classes must be integers below 2^53, which floats tell apart, or texts.", hint="use texts"
        )
    return names


def _place(places: dict[Any, int], label: object) -> int:
    """Return the class of a label; −1 for one that was not declared, which may be anything.

    A whole float is the integer: one missing label makes floats of all the others in many libraries, and that must not
    move their rows.
    """
    if isinstance(label, np.generic):
        label = label.item()
    if type(label) is float and label.is_integer():
        label = int(label)
    if type(label) not in (str, int):
        return -1
    return places.get(label, -1)
