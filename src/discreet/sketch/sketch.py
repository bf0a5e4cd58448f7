"""What all private sketches show before they have seen any data."""

from __future__ import annotations

from fractions import Fraction

from discreet.accounting.loss import PrivacyLoss
from discreet.privacy.event import Composed
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import decimal
from discreet.privacy.unit import Relation
from discreet.sketch.counting import Counting
from discreet.sketch.vectors import Floats


class Sketch:
    """Noisy counts of rows in buckets of random hash functions, and what they cost.

    Attributes:
        counting: the public parameters.
    """

    __slots__ = ()

    counting: Counting

    @property
    def events(self) -> Composed:
        """What one `fit` costs, as events."""
        return self.counting.events

    @property
    def loss(self) -> PrivacyLoss:
        """What one `fit` costs. At a δ above 0, Laplace noise in many repetitions costs less than its sum."""
        return PrivacyLoss(self.events)

    def error(self, confidence: Real = Fraction(19, 20), *, rows: int | None = None) -> float:
        """A half-width of a score (of one class), in rows, from public facts: that of the noise alone.

        With a guess of the number of `rows`, also of the chance that lies in the hash functions, by Hoeffding's bound,
        whatever the rows are; it is mostly far too large.
        """
        return self.counting.error(confidence, rows)

    def kernel(self, near: Floats) -> Floats:
        """The kernel at distances where each range has width 1, or at angles: what scores are sums of."""
        return self.counting.family.chance(near)


def described(name: str, counting: Counting) -> str:
    """The parameters, as they were given."""
    f = counting.family
    parts = [f"epsilon={decimal(counting.epsilon)}"]
    parts += [f"delta={decimal(counting.delta)}"] if counting.delta else []
    parts += [f"dimension={f.box.dimension}", f"kernel={f.kernel.value!r}"]
    parts += [f"bandwidth={decimal(f.bandwidth)}"] if f.bandwidth is not None else []
    parts += [f"power={f.power}"] if f.power > 1 else []
    parts += [f"repetitions={f.repetitions}", f"buckets={f.buckets}"]
    parts += [f"relation={counting.relation.value!r}"] if counting.relation is not Relation.ADD_REMOVE else []
    return f"{name}({', '.join(parts)})"
