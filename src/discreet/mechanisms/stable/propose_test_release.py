"""A proposed bound of the sensitivity, a private test whether the data keeps it, and an answer or none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import Mechanism, numbered
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.parameters import read_confidence, read_delta, read_size
from discreet.mechanisms.stable.spread import ModeBounds, SensitivityBounds, Statistic
from discreet.mechanisms.values import Values
from discreet.noise import laplace
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.noise.fixedpoint import exp_neg, ln
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.exact import Real, above, count, first_whole, set_fields
from discreet.privacy.guarantee import called, decimal
from discreet.privacy.unit import Relation


@dataclass(frozen=True, slots=True, init=False, repr=False)
class ProposeTestRelease(Mechanism):
    """A statistic with noise for a sensitivity of `bound`, where the data is surely stable enough for it; else None.

    The distance D(x) is how many units must change, at least, before one more could move the statistic by more than
    `bound`. It is computed in whole numbers and tested with discrete Laplace noise against a whole threshold, whose
    failure is exactly bounded. For "mode" there is no bound and no noise: the mode is released as it is, where no one
    unit could change it.

    Guarantee:
        (ε, δ)-DP when each unit holds at most `changes` of the values: under add-remove a unit's values are there or
        not; under replace the number of values is public and up to `changes` of them become any others. None is an
        output like any other: that it came shows no more than ε and δ allow. Values outside [lower, upper] are moved to
        the nearer end, NaN counts as `lower`. How long the computation takes depends on the data.

    References:
        Dwork, Lei 2009, Section 4 (propose-test-release), https://doi.org/10.1145/1536414.1536466; Vadhan 2017, *The
        Complexity of Differential Privacy*, Section 3.2, https://doi.org/10.1007/978-3-319-57048-8_7;
        docs/proofs/propose-test-release.md.

    Attributes:
        threshold: the largest noisy distance that is refused: the least T with P(Z > T) ≤ δ for the test's Z.

    >>> m = ProposeTestRelease("median", bound=1, epsilon=1, delta="1e-6", lower=0, upper=100)
    >>> m.release([3, 90]) is None, m.threshold, m.error(0.95)
    (True, 26, 5.9...)
    """

    statistic: str
    bound: Fraction
    epsilon: Fraction
    delta: Fraction
    relation: Relation
    changes: int
    threshold: int
    _statistic: Statistic

    def __init__(
        self,
        statistic: str = "median",
        *,
        epsilon: Real,
        delta: Real,
        lower: Real,
        upper: Real,
        bound: Real | None = None,
        p: Real | None = None,
        values: Sequence[Real] | None = None,
        relation: Relation | str = Relation.ADD_REMOVE,
        changes: int = 1,
    ) -> None:
        found = Statistic.read(statistic, lower=lower, upper=upper, p=p, values=values)
        set_fields(self, statistic=statistic, epsilon=read_size("epsilon", epsilon))
        set_fields(self, delta=read_delta(delta, hint="take delta=1e-6; SmoothSensitivity needs none"))
        set_fields(self, relation=Relation.parse(relation), changes=count("changes", changes), _statistic=found)
        set_fields(self, bound=_bound(bound, found))
        if 1 / self.testing > laplace.LARGEST_SCALE:
            raise InvalidParameter("epsilon is so small that no distance could pass the test.", hint="epsilon=0.5")
        object.__setattr__(self, "threshold", _threshold(self.testing, self.delta))

    @property
    def testing(self) -> Fraction:
        """What of ε the test costs: half of it; for the mode, which gets no noise, all of it."""
        return self.epsilon if self._exactly else self.epsilon / 2

    @property
    def events(self) -> Composed:
        return Composed([ApproximateEvent(self.epsilon, self.delta)])

    @property
    def noise(self) -> DiscreteLaplaceNoise | None:
        """The noise that is added where the test passes, in steps of the public grid; None for the mode."""
        if self._exactly:
            return None
        return DiscreteLaplaceNoise(self._steps / (self.epsilon - self.testing))

    def release(self, values: Values, *, rng: Entropy | None = None) -> float | None:
        """Return the statistic with fresh noise, or None where the test did not pass.

        Args:
            values: one number for each row; a list or an array in one dimension. It may be empty.
            rng: where randomness comes from, for tests; the operating system's by default.

        Raises:
            InvalidParameter: not such an array. Which values it holds does not matter.
        """
        source = SystemEntropy() if rng is None else rng
        spread = self._statistic.of(values, self.relation, self.changes)
        passed = self._distance(spread) + laplace.sample(1 / self.testing, source) > self.threshold
        place, noise = spread.value(), self.noise
        if noise is not None:  # drawn in any case, so that a refusal takes as long
            low, high = self._statistic.ends()
            place = min(max(place + laplace.sample(noise.scale, source), low), high)
        return self._statistic.answer(place) if passed else None

    def error(self, confidence: Real = 0.95) -> float:
        """Return a half-width around the statistic for an answer that is not None, with at least this confidence."""
        likely, noise = read_confidence(confidence), self.noise
        if noise is None:
            return 0.0
        step = self._statistic.declared.grid.step
        return min(above(step * (noise.quantile(likely) + 1)), above(self._statistic.width))

    def answers_from(self, confidence: Real = 0.95) -> int:
        """Return the least distance D at which there is an answer with at least this probability."""
        law = DiscreteLaplaceNoise(1 / self.testing)
        doubt = 1 - read_confidence(confidence)
        # P(Z < −t) is half of the two-sided tail
        return self.threshold + 1 + law.quantile(1 - min(2 * doubt, Fraction(1, 2)))

    def explain(self) -> str:
        e, d, e1 = decimal(self.epsilon), decimal(self.delta), decimal(self.testing)
        released = (
            "Release. Where D(x) + Z > T, f(x) as it is; where D(x) ≥ 1 all neighbours have the same f."
            if self._exactly
            else "Release. Where D(x) + Z > T, f(x) with Laplace noise of scale "
            f"{decimal(self.bound)}/{decimal(self.epsilon - self.testing)}."
        )
        return numbered(
            repr(self),
            f"Distance. D(x): how many units must change before another can move f by more than {decimal(self.bound)}; "
            "it moves by at most 1 between neighbours.",
            f"Test. Z is discrete Laplace of scale 1/{e1}, and T = {self.threshold}: P(Z > T) ≤ {d}.",
            released,
            f"Stable. If D(x) ≥ 1 or D(y) ≥ 1 then f moves by at most {decimal(self.bound)} between x and y: the test "
            f"costs {e1} and the noise the rest.",
            f"Unstable. If D(x) = D(y) = 0 the test is the same on both, and passes with probability {d} at most.",
            f"Conclusion. M is ({e}, {d})-DP.",
        )

    @property
    def _exactly(self) -> bool:
        return self._statistic.name == "mode"

    @property
    def _steps(self) -> int:
        """The bound in whole steps, rounded down."""
        return math.floor(self._statistic.declared.in_steps(self.bound))

    def _distance(self, spread: SensitivityBounds) -> int:
        if isinstance(spread, ModeBounds):
            return spread.lead()
        return spread.stable_for(self._steps)

    def __repr__(self) -> str:
        names = ("epsilon", "delta") if self._exactly else ("bound", "epsilon", "delta")
        return called(self, *names, first=self._statistic.arguments(), relation=Relation.ADD_REMOVE, changes=1)


def _bound(bound: Real | None, statistic: Statistic) -> Fraction:
    if statistic.name == "mode":
        if bound is not None:
            raise InvalidParameter("the mode takes no bound: it is released as it is, or not at all.")
        return Fraction(0)
    if bound is None:
        raise InvalidParameter(
            "ProposeTestRelease needs bound=, the sensitivity that is proposed.",
            hint="what one unit could move the statistic by on data as you expect it; never a number from the data",
        )
    b = read_size("bound", bound)
    if statistic.declared.in_steps(b) < 1:
        raise InvalidParameter("bound must be at least 2^-40 of the range.", hint="declare a narrower range")
    return b


def _threshold(epsilon: Fraction, delta: Fraction) -> int:
    """Return the least T with P(Z > T) ≤ δ, for discrete Laplace Z of scale 1/ε."""
    # P(Z > t) = q^(t + 1)/(1 + q) lies between q^(t + 1) and half of it
    bound = Fraction(ln(1 / delta, 64)[1], 1 << 64) / epsilon
    low, high = max(0, math.floor(bound) - math.ceil(1 / epsilon) - 2), math.ceil(bound) + 1
    return first_whole(lambda t: _passes(t, epsilon, delta), low - 1, high)


def _passes(t: int, epsilon: Fraction, delta: Fraction) -> bool:
    """Return whether P(Z > t) ≤ δ, surely."""
    w = 320 + delta.denominator.bit_length()
    power = Fraction(exp_neg((t + 1) * epsilon, w)[1], 1 << w)
    return power <= delta * (1 + Fraction(exp_neg(epsilon, w)[0], 1 << w))
