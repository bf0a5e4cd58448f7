"""Private selection of groups in rounds of Gaussian noise, by weights that each person gives to their own groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from discreet.accounting.convert import mu_squared_for
from discreet.mechanisms.additive import RoundedGaussianNoise
from discreet.mechanisms.gaussian import root_above
from discreet.mechanisms.parameters import read_confidence
from discreet.mechanisms.threshold import Threshold
from discreet.noise.entropy import Entropy
from discreet.privacy.event import ApproximateEvent, Composed, GaussianEvent
from discreet.privacy.exact import Real, first_whole
from discreet.privacy.unit import Relation

WHOLE = 1 << 20
"""The weight of a person's only group; with n groups each has ⌊WHOLE/√n⌋, so that the squares add up to WHOLE² or less.
"""

SHARES = (Fraction(1, 5), Fraction(4, 5))
"""How the rounds divide ρ: a first one for the large groups, which then take no weight from the others."""


MOST_GROUPS = 1 << 16
"""Rounds are for so many groups of a person at most: each number of them is looked at."""


def weight(groups: int) -> int:
    """Return the weight that a person with so many groups left gives to each: ⌊WHOLE/√groups⌋, exactly.

    >>> weight(1), weight(2), weight(4)
    (1048576, 741455, 524288)
    """
    return math.isqrt(WHOLE**2 // groups)


@dataclass(frozen=True, slots=True)
class Round:
    """One round: Gaussian noise on the sums of weights, and the least noisy sum of a group that is shown.

    Attributes:
        noise: of each sum.
        least: a group is shown where its noisy sum is no less.
        failure: the probability with which groups of one person alone are shown, or more.
    """

    noise: RoundedGaussianNoise
    least: int
    failure: Fraction

    def kept(self, sums: Sequence[int], rng: Entropy) -> list[bool]:
        """Return whether each group is shown, given its sum of weights."""
        return [noisy >= self.least for noisy in self.noise.add(sums, rng)]

    def chance(self, total: int) -> float:
        """Return the probability with which a group of this sum of weights is shown, to ten digits."""
        far = self.least - total
        return self.noise.tail(far - 1) / 2 if far > 0 else 1 - self.noise.tail(-far) / 2


@dataclass(frozen=True, slots=True)
class GaussianRounds:
    """Shows a group whose noisy sum of weights is large in one of two rounds; who has groups left weighs them anew.

    In each round a person gives ⌊2²⁰/√n⌋ to each of their n groups that no round has shown yet, at most `max_groups`.
    Half of δ is that of the Gaussian noise, half is divided among the rounds' failures.

    Guarantee:
        The set of shown groups is (ε, δ)-DP, and its `events` are what it costs: of each round μ² = c·2⁴⁰/σ² and c
        failures δₖ, with c = 1 under add-remove and c = 2 under replace. The caller enforces `max_groups`, and that a
        person's weights follow from their own groups and from what was shown before (docs/proofs/rounds.md).

    References:
        Swanberg, Desfontaines, Haney 2023, *DP-SIPS: a simpler, more scalable mechanism for differentially private
        partition selection*, Theorem 1, https://arxiv.org/abs/2301.01998

    >>> s = GaussianRounds(Fraction(1), Fraction(1, 10**6), 20, Relation.ADD_REMOVE)
    >>> s.kept_from(Fraction(1, 2)), Threshold(1, "1e-6", 20).kept_from(Fraction(1, 2))
    (126, 263)
    """

    epsilon: Fraction
    delta: Fraction
    max_groups: int
    relation: Relation
    rounds: tuple[Round, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", _rounds(self.epsilon, self.delta, self.max_groups, self._changed))

    @property
    def min_people(self) -> int:
        """How many people a shown group has at least: weights count no people, so that none is promised beyond 1."""
        return 1

    @property
    def touched(self) -> int:
        """How many groups one unit may change: m under add-remove, 2m under replace."""
        return self.max_groups * self._changed

    @property
    def events(self) -> Composed:
        found = Composed()
        for one in self.rounds:
            moved = GaussianEvent(self._changed * WHOLE**2 / one.noise.sigma**2)
            found += Composed([(moved, 1), (ApproximateEvent(Fraction(0), one.failure), self._changed)])
        return found

    def event(self) -> Composed:
        """Return what one selection costs, whatever the number of groups."""
        return self.events

    def kept_from(self, confidence: Real = 0.95) -> int:
        """Return the least number of units with which a group is shown with at least this probability, each of them
        with `max_groups` groups left in every round; with fewer groups a unit gives more.
        """
        c, each = read_confidence(confidence), weight(self.max_groups)

        def is_kept(n: int) -> bool:
            return math.prod(1 - one.chance(n * each) for one in self.rounds) <= 1 - c

        return first_whole(is_kept)

    @property
    def _changed(self) -> int:
        return 2 if self.relation is Relation.REPLACE else 1


Selection: TypeAlias = Threshold | GaussianRounds
"""How undeclared groups are selected."""


@lru_cache(maxsize=256)  # a query is planned for its price and once more when it is asked
def selection(epsilon: Fraction, delta: Fraction, max_groups: int, relation: Relation, min_people: int) -> Selection:
    """Return the selection of groups: rounds where they show a group of any weights at half and at 19/20 of the times
    from no more units on than the optimal threshold does, which follows from public facts alone.

    With one group a person, or more than `MOST_GROUPS`, and with `min_people`, it is the threshold.
    """
    known = Threshold(epsilon, delta, max_groups, relation=relation, min_people=min_people)
    if not 1 < max_groups <= MOST_GROUPS or min_people > 1:
        return known
    rounds = GaussianRounds(epsilon, delta, max_groups, relation)
    levels = (Fraction(1, 2), Fraction(19, 20))
    return rounds if all(rounds.kept_from(c) <= known.kept_from(c) for c in levels) else known


@lru_cache(maxsize=256)
def _rounds(epsilon: Fraction, delta: Fraction, max_groups: int, changed: int) -> tuple[Round, ...]:
    # never dearer in ρ than the threshold's groups at ε/(m·c) each, in accounts that add up ρ
    mu_squared = min(mu_squared_for(epsilon, delta / 2), epsilon**2 / (max_groups * changed))
    failure = delta / (2 * len(SHARES) * changed)
    found = []
    for share in SHARES:
        noise = RoundedGaussianNoise(root_above(changed * WHOLE**2 / (mu_squared * share)))
        found.append(Round(noise, _least(noise, failure, max_groups), failure))
    return tuple(found)


def _least(noise: RoundedGaussianNoise, failure: Fraction, max_groups: int) -> int:
    """Return the least threshold that shows a group of a person with n groups, which nobody else has, with probability
    `failure` or less, for every n: at most n·P(Z ≥ threshold − weight(n)).
    """
    blocks = list(_blocks(max_groups))

    def holds(least: int) -> bool:
        return all(last * noise.tail(least - weight(first) - 1) / 2 <= failure for first, last in blocks)

    return first_whole(holds, low=WHOLE)


def _blocks(most: int) -> Iterator[tuple[int, int]]:
    """Numbers from 1 to `most` in blocks, each of one number up to 64; of a block the first has the largest weight, the
    last counts most.
    """
    first = 1
    while first <= most:
        last = min(first + first // 64, most)
        yield first, last
        first = last + 1
