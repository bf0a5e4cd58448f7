"""Linear models by objective perturbation, and by noise on the minimum, which is for teaching.

The objective is Σ losses + λ‖w‖²/2 + b·w with a public λ. Its losses have derivatives that are linear between public
knots, so that gradients are exact: of whole numbers, whatever the rows hold. Newton's method goes on until the exact
gradient is shorter than planned.

Guarantee:
    (ε, δ)-DP for one person with one row: see `PerturbedMinimum`. By output perturbation the minimum moves by
    slope/λ, and by what the gradient leaves (docs/proofs/objective-perturbation.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit

from discreet.engine.recipe import Draw
from discreet.errors import InvalidParameter
from discreet.learn.asked import FeatureRows
from discreet.learn.features import BITS as FEATURE_BITS
from discreet.learn.losses import Floats, Huber, RowLoss, said
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.perturbed_minimum import BITS, PerturbedMinimum, calibrated, moving
from discreet.plan.parts import person_part
from discreet.privacy.unit import Sensitivity

if TYPE_CHECKING:
    from discreet.engine.person_parts import PeopleRows
    from discreet.engine.recipe import Running
    from discreet.plan.parts import PersonPart
    from discreet.plan.person_rows import PersonRows
    from discreet.plan.plan import Plan
    from discreet.privacy.unit import Relation

OUTPUT = Fraction(1, 100)  # the part of ε for the noise on the minimum
BENT, MOST_BENT = 0.1, 10.0  # the part of ε for ln(1 + β/λ), and the most of it, which chooses λ
CLOSE = 40  # the exact gradient at what is taken for the minimum is shorter than 2^-40 of the scale of b
_KNOT, _REACH, _LEVEL = 7, 32, 40  # knots of the logistic loss: 2^-7 apart within ±32, at multiples of 2^-40
_SCORE = BITS + FEATURE_BITS  # bits of a score
_RESIDUAL = _LEVEL + _SCORE - _KNOT  # bits of a loss's derivative
_GRADIENT = FEATURE_BITS + _RESIDUAL
_WEIGHT = 32  # bits of λ
_FAR = 1e6
_FINEST = 40  # bits of the grid of the minimum: 64 bits hold it up to 2^21


class Slopes(NamedTuple):
    """What the rows of a model promise of each loss: the lengths of its gradient and of its second derivative."""

    slope: Fraction
    curvature: Fraction


@dataclass(frozen=True)
class ObjectiveMinimum(FeatureRows):
    """Weights of a linear model at the minimum of its objective."""

    loss: RowLoss = field(kw_only=True)  # logistic or Huber
    inside: bool = field(default=True, kw_only=True)  # whether the noise is in the objective; else on its minimum alone

    def parts(self, rows: PersonRows, epsilon: Fraction) -> list[PersonPart]:
        if rows.most > 1:
            raise InvalidParameter(
                "an objective has one loss for each person, and several rows of a person are read.",
                hint="max_rows=1, or solver='gradient'",
            )
        relation, width = rows.question.table.relation, self.features.width
        given: dict[str, Any] = {"width": width, "kind": "whole"}
        if self.inside:
            law = self._law(epsilon, relation, Fraction(1))
            norms = self._at(law.scale, law.weight)[1]
            given["law"] = replace(law, output=DiscreteLaplaceNoise(norms.l1 / (epsilon * OUTPUT)))
        else:
            norms = self._at(moving(self.promised.slope, relation), self._weight(self.epsilon))[1]
        return [person_part("minimum", rows, **given, norms=norms)]

    def _law(self, epsilon: Fraction, relation: Relation, output: Fraction) -> PerturbedMinimum:
        own, weight = epsilon * (1 - OUTPUT), self._weight(epsilon)
        shape: dict[str, Any] = {**self.promised._asdict(), "weight": weight, "width": self.features.width}
        return calibrated(own, self.delta, relation, **shape, output=DiscreteLaplaceNoise(output))

    def _at(self, scale: Fraction, weight: Fraction) -> tuple[int, Sensitivity]:
        """Return the bits of the grid of the minimum, and how far a person moves it there: what the gradient leaves of
        two minima, over λ, and rounding; of output perturbation also the minimum's own move.
        """
        width = self.features.width
        move = (scale * (not self.inside) + 2 * scale / (1 << CLOSE)) / weight
        bits = min(max(math.ceil(-math.log2(move)) + (0 if self.inside else 12), 0), _FINEST)
        l2 = math.ceil(move * (1 << bits)) + math.isqrt(width) + 1
        return bits, Sensitivity(width, l2, l1=min(math.isqrt(width * l2 * l2) + 1, width * l2), l2_squared=l2 * l2)

    @property
    def said(self) -> Any:
        return [self.features.said, said(self.loss), self.target, self.inside]

    def _weight(self, epsilon: Fraction) -> Fraction:
        """Return λ: a public total."""
        if self.inside:
            found = float(self.promised.curvature) / math.expm1(min(BENT * float(epsilon), MOST_BENT))
        else:
            found = self.features.width / float(epsilon)
        return Fraction(math.ceil(found * 2**_WEIGHT), 1 << _WEIGHT)

    @property
    def promised(self) -> Slopes:
        """What is true of each loss: rows are no longer than 1 before they are rounded."""
        square = Fraction(self._longest, 1 << 2 * FEATURE_BITS)
        bound, smooth = Fraction(self.loss.bound), Fraction(self.loss.smoothness) + Fraction(1, 1 << 30)
        return Slopes(bound * (1 + (square - 1) / 2), smooth * square)  # √(1 + x) ≤ 1 + x/2

    @property
    def _longest(self) -> int:
        """The largest square of a row's length, in whole numbers: each of its values is rounded by ½ at most."""
        values = len(self.columns) * 2 + 1
        return int((2**FEATURE_BITS + math.isqrt(values) / 2 + 1) ** 2)

    # ------------------------------------------------------------------ public
    def run(self, plan: Plan) -> Running[Any]:
        (part,) = plan.parts
        law, relation = part.law, part.relation
        if isinstance(law, PerturbedMinimum):
            scale, weight = law.scale, law.weight
        else:
            scale, weight = moving(self.promised.slope, relation), self._weight(self.epsilon)
        bits = self._at(scale, weight)[0]
        close = scale / (1 << CLOSE)
        args = {"bits": bits, "close": [close.numerator, close.denominator], "weight": int(weight * (1 << _WEIGHT))}
        noisy = yield Draw("minimum", args)
        found = np.array([int(v) / (1 << bits) for v in noisy])
        return {"weights": [np.clip(found, -_FAR, _FAR).tolist()], "steps": 0, "clip": 0.0}

    # ------------------------------------------------------------------ private
    def prepare(self, people: PeopleRows) -> Any:
        n = len(people.matrix)
        places, values = self.features.encode(self.cells(people), n)
        kept = (values.astype(np.int64) ** 2).sum(axis=1) <= self._longest
        if self.target is None:
            labels = people.column("y")
            kept &= labels < 2
            y = labels
        else:
            real = self.loss.scaled(self.numbers(people, *self.target), *self.target)
            y = np.rint(real * 2**_LEVEL).astype(np.int64)
        places, values, y = places[kept], values[kept], y[kept]
        starts = np.arange(len(y) + 1, dtype=np.int64) * places.shape[1]
        shape = (len(y), self.features.width)
        entries = (values.astype(np.int64).reshape(-1), places.astype(np.int64).reshape(-1), starts)
        return _Objective(csr_array(entries, shape=shape), y, self.loss)

    def whole(self, people: PeopleRows, of: str, args: Any) -> NDArray[np.int64]:
        given = args["args"] if self.inside else args
        b = args["secret"] if self.inside else [0] * self.features.width
        w = people.prepared.minimum(b, given["weight"], Fraction(*given["close"]) / 2)
        drop = BITS - given["bits"]
        found = [min(max((v + (1 << drop - 1)) >> drop, -(1 << 61)), 1 << 61) for v in w]
        return np.array(found, np.int64)


class _Objective:
    """The sum of losses, exactly: weights are multiples of 2^-96, and gradients of 2^-153.

    Attributes:
        rows: the features, as whole numbers.
    """

    def __init__(self, rows: Any, y: NDArray[np.int64], loss: RowLoss) -> None:
        self.rows, self._real = rows, rows.astype(np.float64) / 2**FEATURE_BITS
        self._columns, self._bend, self._level = rows.T.tocsr(), loss.smoothness, None
        if isinstance(loss, Huber):
            self._shift = y.astype(object) << (_SCORE - _LEVEL)
            self._most = int(loss.bound * 2**_LEVEL) << (_SCORE - _LEVEL)
        else:
            steps = _REACH << _KNOT
            self._level = np.rint(expit(np.arange(-steps, steps + 2) / 2**_KNOT) * 2**_LEVEL).astype(np.int64)
            self._shift = y.astype(object) << _RESIDUAL

    def minimum(self, b: Sequence[int], weight: int, close: Fraction) -> list[int]:
        """Return weights at which the exact gradient is no longer than `close`: every step shortens it."""
        w = [0] * self.rows.shape[1]
        limit = math.floor((close * (1 << _GRADIENT)) ** 2)
        gradient, bent = self._at(w, b, weight)
        while (square := sum(g * g for g in gradient)) > limit:
            for step, t in self._steps(gradient, bent, weight):
                tried = [v + int(math.ldexp(p, BITS)) for v, p in zip(w, step, strict=True)]
                found, curved = self._at(tried, b, weight)
                if sum(g * g for g in found) < square * Fraction(1 - t / 4) ** 2:
                    break
            w, gradient, bent = tried, found, curved
        return w

    def _steps(self, gradient: Sequence[int], bent: Floats, weight: int) -> Iterator[tuple[list[float], float]]:
        """Yield steps to be tried, and how far they should go: Newton's, shorter ones, and one that is always good."""
        real, own = -np.array([g / (1 << _GRADIENT) for g in gradient]), weight / 2**_WEIGHT
        h = (self._real.T @ self._real.multiply(bent[:, None])).toarray() + own * np.eye(len(real))
        with suppress(np.linalg.LinAlgError):
            step = np.linalg.solve(h, real)
            if np.abs(step).max() < _FAR**2:  # neither infinite nor no number
                yield from (((step * t).tolist(), t) for t in 0.25 ** np.arange(8))
        yield (real / (own + 1.1 * self._bend * len(self._shift))).tolist(), 0.0

    def _at(self, w: Sequence[int], b: Sequence[int], weight: int) -> tuple[list[int], Floats]:
        """Return the exact gradient, and the second derivative of each loss by its score."""
        z = _product(self.rows, np.array(w, object))
        if self._level is None:
            held = z - self._shift
            residual = np.clip(held, -self._most, self._most) if len(held) else held
            bent = (residual == held).astype(np.float64)
            residual = residual << (_RESIDUAL - _SCORE)
        else:
            steps = _REACH << _KNOT
            place = z >> (_SCORE - _KNOT)
            knot = np.array([min(max(k, -steps - 1), steps) for k in place], np.int64)
            at = np.maximum(knot + steps, 0)
            rise = np.where((knot >= -steps) & (knot < steps), self._level[at + 1] - self._level[at], 0)
            part = z & ((1 << _SCORE - _KNOT) - 1)
            residual = (self._level[at].astype(object) << (_SCORE - _KNOT)) + rise.astype(object) * part - self._shift
            bent = rise * 2.0 ** (_KNOT - _LEVEL)
        total, wide = _product(self._columns, residual), _GRADIENT - BITS
        parts = zip(total, w, b, strict=True)
        return [int(g) + (v * weight << wide - _WEIGHT) + (n << wide) for g, v, n in parts], bent


def _product(matrix: Any, vector: NDArray[Any]) -> NDArray[Any]:
    """Return the product of a matrix of numbers within 2^13 and of any whole numbers, exactly: some bits at a time, so
    that no sum leaves 62 bits.
    """
    limb = 62 - 13 - matrix.shape[1].bit_length()
    found, left = np.zeros(matrix.shape[0], object), vector
    limbs = max((abs(v).bit_length() for v in vector), default=0) // limb + 1
    for i in range(limbs):
        small = (left & ((1 << limb) - 1)).astype(np.int64)
        found, left = found + ((matrix @ small).astype(object) << (i * limb)), left >> limb
    # what is left is 0, or -1 of a negative number
    return np.asarray(found + ((matrix @ left.astype(np.int64)).astype(object) << (limbs * limb)))
