"""Linear models by noisy full-batch gradient descent, as a recipe of the one pipeline.

One public rule for every data set chooses the number of steps and how people's gradients are clipped, from a noisy
number of rows (or the public guess `rows`). All noise is Gaussian, so that steps, count and calibration together are
one Gaussian event. Every draw of a gradient is paid for in advance: where fewer steps are wanted, each of them is the
mean of several draws at the same point.

Guarantee:
    μ-GDP for one person under the relation of the account, with μ² the sum over all planned draws of l2²/σ² (times 4
    under replace): a person's gradient, count and calibration keep to norms that are checked in integers, whatever the
    rows hold and whatever weights they are asked at. So is everything that follows from the noisy values.

References:
    Dong, Roth, Su 2019, Corollary 3.3 (composition of Gaussian mechanisms), https://arxiv.org/abs/1905.02383; Bassily,
    Smith, Thakurta 2014 (noisy gradient descent), https://arxiv.org/abs/1405.7085; docs/proofs/learn.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.engine.recipe import Draw
from discreet.engine.row_factor import Integers, RowFactor
from discreet.learn.asked import FeatureRows
from discreet.learn.features import BITS
from discreet.learn.losses import REACH, Floats, Hinge, RowLoss, Softmax, said
from discreet.plan.parts import person_part
from discreet.privacy.unit import Sensitivity

if TYPE_CHECKING:
    from discreet.engine.person_parts import Parts, PeopleRows
    from discreet.engine.recipe import Running
    from discreet.plan.parts import PersonPart
    from discreet.plan.person_rows import PersonRows
    from discreet.plan.plan import Plan

FEWEST, MOST = 20, 300  # steps of the descent

CLIP, SHORT = 0.5, 0.3
"""The length to which a person's gradient is clipped where rows and budget do not allow the loss's own bound; the
second where they allow few steps."""

MOMENTUM = 0.9
STEP, LONGEST = 1.3, 2.0
"""The step, over 1/(β·λ): with Nesterov's momentum of 0.9 it is stable below 3.8/2.8, where λ is the largest eigenvalue
of the second moment of the rows. It is at most `LONGEST`, over 1/β."""

POWERS = 3  # draws of the power method that finds λ
EFFORT = 0.05  # how much noise a step may have: the noise of the mean gradient is about `EFFORT`⁻¹·T^½·C·d^½/(μ·n)

UNCLIPPED = 10
"""How many times more steps than `MOST` there could be where people's gradients are not clipped below the loss's own
bound: clipping biases them, and less than noise does otherwise."""

COUNTED, MEASURED, CALIBRATED = Fraction(1, 100), Fraction(1, 100), Fraction(5, 100)
"""The parts of μ² for the number of rows, for λ, and for the calibration of the scores."""

PASSES = 3  # Newton steps of the calibration
_FINE = 20  # bits of the calibration's grid
_LARGEST = 2.0**40  # what is taken for the number of rows
_FAR = 1e6  # no weight is larger; noise of any size leads to numbers that floats hold


class DescentRule(NamedTuple):
    """What the public rule chose: steps, draws averaged in each, and the length of people's gradients."""

    steps: int
    draws: int
    clip: float


def rule(loss: RowLoss, ratio: float, rows: float, width: int, draws: int = MOST) -> DescentRule:
    """Return the rule's choice, from public facts and a noisy number of rows.

    Args:
        loss: of the model.
        ratio: √draws over the noise of one draw, where a person's gradient has a length of at most 1: μ.
        rows: how many rows there are, about.
        width: how many weights there are.
        draws: of the gradient that were planned.
    """

    def wanted(clip: float) -> float:
        return (EFFORT * ratio * rows / (clip * math.sqrt(width))) ** 2

    clip = loss.bound
    if wanted(clip) < UNCLIPPED * MOST:
        clip = min(clip, SHORT if wanted(CLIP) < MOST / 2 else CLIP)
    each = max(1, math.ceil(draws / min(max(wanted(clip), FEWEST), MOST)))
    return DescentRule(draws // each, each, clip)


@dataclass(frozen=True)
class LinearDescent(FeatureRows):
    """Weights of a linear model."""

    loss: RowLoss = field(kw_only=True)  # of a row's score and its target
    # a public guess at the number of rows; None to have them counted
    rows: int | None = field(default=None, kw_only=True)
    draws: int = field(default=MOST, kw_only=True)  # how many gradients are drawn

    def parts(self, rows: PersonRows, epsilon: Fraction) -> list[PersonPart]:
        most, width = rows.most, self.features.width * self.loss.outputs
        parts = self._first(rows)
        if self.rows is None:
            parts.append(person_part("count", rows, width=1, norms=Sensitivity(1, most), share=COUNTED))
        of_rows: dict[str, Any] = {"l2": self.length, "width": self.features.width}
        parts.append(person_part("moment", rows, **of_rows, times=POWERS, share=MEASURED))
        if self.is_calibrated:
            shape: dict[str, Any] = {"width": self._calibration[0], "l2": self._calibration[1], "times": PASSES}
            parts.append(person_part("calibration", rows, **shape, share=CALIBRATED))
        left = 1 - sum((p.share for p in parts), Fraction(0))
        return [*parts, person_part("gradient", rows, width=width, l2=self.length, times=self.draws, share=left)]

    def _first(self, rows: PersonRows) -> list[PersonPart]:
        """Return what is drawn of the features before the descent."""
        return []

    @property
    def said(self) -> Any:
        return [self.features.said, said(self.loss), self.target, self.rows]

    @property
    def is_calibrated(self) -> bool:
        """Whether slope and intercept of the scores are adjusted in the end."""
        return not isinstance(self.loss, Hinge)

    @property
    def bits(self) -> int:
        """Of the residuals' grid: so fine that squares of a person's part fit in 62 bits."""
        return min(24, (61 - (self.features.width * self.loss.outputs).bit_length()) // 2 - BITS)

    @property
    def length(self) -> int:
        """The length of a person's gradient in whole numbers, whatever it is clipped to."""
        return 1 << (BITS + self.bits)

    @property
    def _calibration(self) -> tuple[int, int]:
        """How many numbers a draw of the calibration has, and how long a person's part is."""
        if isinstance(self.loss, Softmax):
            return 2 * self.loss.outputs, math.isqrt(3 << 2 * _FINE)
        square = 2 * self.loss.bound**2 + 3 * self.loss.smoothness**2
        return 5, math.floor(math.sqrt(square) * 2**_FINE)

    @property
    def _reach(self) -> float:
        return max(map(abs, self.loss.span))

    # ------------------------------------------------------------------ public: weights from noisy values
    def run(self, plan: Plan) -> Running[Any]:
        parts = {part.name: part for part in plan.parts}
        if self.rows is None:  # fewer than the noise may hide are no better known
            rows = max(_single((yield Draw("count"))), 3 * _sigma(parts["count"]))
        else:
            rows = float(self.rows)
        rows = min(max(rows, 1.0), _LARGEST)
        gradient = parts["gradient"]
        ratio = math.sqrt(gradient.times) * self.length / _sigma(gradient)
        shape, active = yield from self._shaped(parts, rows, ratio)
        chosen = rule(self.loss, ratio, rows, int(active.sum()) * self.loss.outputs, gradient.times)
        w = np.zeros((self.loss.outputs, len(active)))
        moved, summed, kept = np.zeros_like(w), np.zeros_like(w), 0
        longest = yield from self._step(rows, shape, active)
        step = longest / self.loss.smoothness * chosen.clip / (self.length * rows * chosen.draws)
        for t in range(chosen.steps):
            at = {"weights": w + MOMENTUM * moved, "clip": chosen.clip, **shape}
            noisy = np.zeros(w.size)
            for _ in range(chosen.draws):
                noisy += np.array((yield Draw("gradient", at)), np.float64)
            moved = np.clip(MOMENTUM * moved - step * active * noisy.reshape(w.shape), -_FAR, _FAR)
            w = np.clip(w + moved, -_FAR, _FAR)
            if 2 * t >= chosen.steps:
                summed, kept = summed + w, kept + 1
        w = summed / kept
        if self.is_calibrated:
            w = yield from self._calibrated(w, _sigma(parts["calibration"]) / 2**_FINE, shape)
        return {"weights": w.tolist(), "rows": rows, "steps": chosen.steps, "clip": chosen.clip, **shape}

    def _shaped(self, parts: Mapping[str, Any], rows: float, ratio: float) -> Running[tuple[dict[str, Any], Floats]]:
        """Return what draws are told of the features beside weights, and 1 for each feature that is in use."""
        yield from ()
        return {}, np.ones(self.features.width)

    def _step(self, rows: float, shape: Mapping[str, Any], active: Floats) -> Running[float]:
        """Return the longest stable step, over 1/β: noise makes λ look larger, and the step shorter."""
        v = np.zeros(self.features.width)
        v[-1], long = 1.0, 1.0
        for _ in range(POWERS):
            noisy = active * np.array((yield Draw("moment", {"weights": v[None, :], "clip": 1.0, **shape})), np.float64)
            long = max(float(np.linalg.norm(noisy)), 1e-9)
            v = noisy / long
        return min(LONGEST, STEP / min(long / (self.length * rows), 1.0))

    def _calibrated(self, w: Floats, sigma: float, shape: Mapping[str, Any]) -> Running[Floats]:
        """Return weights whose scores were adjusted by noisy Newton steps.

        Each step is the most likely one, where it is about a sixth of the scores' span and the noise is σ: so noise
        that is too large adjusts nothing.
        """
        several, sigma = self.loss.outputs > 1, sigma * REACH / self._reach
        slope, shift = 1.0, np.zeros(self.loss.outputs)
        for _ in range(PASSES):
            args = {"weights": w, "slope": slope, "shift": shift, **shape}
            seen = np.clip(np.array((yield Draw("calibration", args)), np.float64) / 2**_FINE, -1e12, 1e12)
            if several:
                g, h = seen[: len(shift)], np.maximum(seen[len(shift) :], 0)
                shift = shift - np.clip(h * g / (h * h + sigma**2), -1, 1)
            else:
                (by_shift, by_slope), h = seen[:2], np.array([[seen[2], seen[3]], [seen[3], seen[4]]])
                ridge = sigma**2 + 1e-9 * float((h * h).sum())  # noise of any size leaves it regular
                found = np.linalg.solve(h.T @ h + ridge * np.eye(2), h.T @ np.array([by_shift, by_slope]))
                shift = shift - np.clip(found[:1], -1, 1)
                slope = min(max(slope - float(np.clip(found[1], -1, 1)) / self._reach, 0.25), 4.0)
        w = w * slope
        w[:, -1] += shift * 2**BITS / round(2**BITS * self.features.scale)
        return np.clip(w, -_FAR, _FAR)

    # ------------------------------------------------------------------ private: of people's rows
    def prepare(self, people: PeopleRows) -> Any:
        places, values = self.features.encode(self.cells(people), len(people.matrix))
        return PreparedRows(RowFactor(people.starts, places, values, self.features.width), *self._goal(people))

    def _goal(self, people: PeopleRows) -> tuple[Floats, Floats]:
        """Return the target of each row as the loss reads it, and 1 for each row that counts."""
        if self.target is None:
            labels = people.column("y").astype(np.float64)
            counts = labels < max(self.loss.outputs, 2)
            return np.where(counts, labels, 0)[:, None], counts.astype(np.float64)[:, None]
        y = self.loss.scaled(self.numbers(people, *self.target), *self.target)[:, None]
        return y, np.ones(y.shape)

    def _known(self, people: PeopleRows, args: Any) -> PreparedRows:
        """Return what a draw needs of the rows."""
        found: PreparedRows = people.prepared
        return found

    def each(self, people: PeopleRows, of: str, args: Any) -> Parts:
        known = self._known(people, args)
        if of == "count":
            return people.summed(known.counts).astype(np.int64)
        z = known.factor.matrix @ args["weights"].T / 2**BITS
        if of == "calibration":
            return self._adjusting(people, known, z, args["slope"], args["shift"])
        residual = (z if of == "moment" else self.loss.residual(z, known.y)) * known.counts
        return self._clipped(people, known.factor, residual * (2.0**self.bits / args["clip"])), known.factor

    def _clipped(self, people: PeopleRows, factor: RowFactor, weights: Floats) -> Integers:
        """Return whole weights, towards 0, so that no person's part is longer than planned."""
        outputs = weights.shape[1]
        if self.per_person == 1:  # public: how a part is shortened never follows from how many rows others have
            norms = person_part_norms(self.length, factor.width * outputs)
            most = np.maximum(factor.most(norms) - (outputs > 1), 0)
            return _whole(weights, most, _lengths(weights))
        square = np.zeros(people.size)
        for k in range(outputs):
            mixed = _summing(people, weights[:, k]) @ factor.matrix
            square += np.asarray(mixed.multiply(mixed).sum(axis=1)).reshape(-1)
        # whole weights are off by less than 1, and a row is no longer than 1.01
        rounding = np.diff(people.starts) * (math.sqrt(outputs) * 1.01 * 2**BITS)
        return _whole(weights, np.maximum(self.length - rounding, 0)[people.person], np.sqrt(square)[people.person])

    def _adjusting(self, people: PeopleRows, known: PreparedRows, z: Floats, slope: float, shift: Floats) -> Integers:
        """Return what the calibration adds up: derivatives of the loss by slope and shift of the scores."""
        z = np.clip(z, *self.loss.span)
        scores = slope * z + shift
        g, h = self.loss.residual(scores, known.y) * known.counts, self.loss.curvature(scores, known.y) * known.counts
        if self.loss.outputs > 1:
            found = np.concatenate([g, h], axis=1)
        else:
            u = z / self._reach
            found = np.concatenate([g, g * u, h, h * u, h * u * u], axis=1)
        found = people.summed(found)
        found *= 2.0**_FINE
        return _whole(found, np.full(people.size, float(self._calibration[1])), _lengths(found))


class PreparedRows(NamedTuple):
    """What all draws need of the rows: features, targets, and 1 for each row that counts."""

    factor: RowFactor
    y: Floats
    counts: Floats


def person_part_norms(length: int, width: int) -> Sensitivity:
    """Return the norms of a part of this Euclidean length, as `person_part` has them."""
    square = length * length
    return Sensitivity(width, length, l1=min(width * length, math.isqrt(width * square)), l2_squared=square)


def _whole(found: Floats, most: NDArray[Any], long: Floats) -> Integers:
    """Return rows of whole numbers, towards 0, of rows that are shortened from `long` to `most`, in their place; no
    number is 0.
    """
    found *= np.minimum(most * (1 - 2.0**-40) / np.maximum(long, 1e-300), 1)[:, None]
    return np.nan_to_num(found, copy=False, nan=0.0, posinf=0.0, neginf=0.0).astype(np.int64)


def _lengths(found: Floats) -> Floats:
    """Return the lengths of rows, each added up in the same order, however many rows there are."""
    square = np.zeros(len(found))
    for column in found.T:
        square += column * column
    return np.sqrt(square)


def _summing(people: PeopleRows, weights: Floats) -> Any:
    """Return the matrix that sums rows by person, each with its weight."""
    from scipy.sparse import csr_array

    rows = len(people.person)
    return csr_array((weights, (people.person, np.arange(rows))), shape=(people.size, rows))


def _single(noisy: Any) -> float:
    return float(noisy[0])


def _sigma(part: Any) -> float:
    """Return the σ of a part's noise."""
    return float(part.law.noise.sigma)
