"""Parts of a finding, as values: chances, the witness, the trade-off, probes, what was tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.evidence.intervals import clopper_pearson
from discreet.audit.outputs.encoding import Encoder
from discreet.audit.outputs.shape import Batch
from discreet.audit.places import Floats, places
from discreet.audit.scores import Score

VIOLATED = "violated"
CONSISTENT = "consistent"

LAW = "law"
BITS = "bits"

Bits: TypeAlias = Literal["keep", "ignore"]
"""The treatment of the bits of real numbers: tested, or lost on a grid."""


@dataclass(frozen=True, slots=True)
class Chance:
    """The chance of an event: how often it was seen among fresh samples, with its Clopper–Pearson interval."""

    hits: int
    samples: int
    low: float
    high: float

    @classmethod
    def of(cls, hits: int, samples: int, error: float) -> Chance:
        """Return the chance of an event that was seen that often; its interval misses with probability `error`."""
        return cls(hits, samples, *clopper_pearson(hits, samples, error))

    @property
    def estimate(self) -> float:
        """The share of samples in which the event was seen."""
        return self.hits / self.samples if self.samples else 0.0


@dataclass(frozen=True, slots=True)
class Witness:
    """Two neighbours, an event, and its chances: what a reader needs to check the claim by hand.

    Attributes:
        x: the neighbour under which the event is the likelier.
        x_neighbour: the other one.
        event: the event in words.
        under_x: the chance of the event under x.
        under_neighbour: its chance under the other neighbour.
        epsilon: log of the ratio of the two, of what the intervals leave for sure at the claimed δ.
        happens: the event as a function: `happens(outputs)` tells for each output whether it happened.
    """

    x: object
    x_neighbour: object
    event: str
    under_x: Chance
    under_neighbour: Chance
    epsilon: float
    happens: EventPredicate | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """The errors of the best test that was found, beside those that the claim allows.

    Attributes:
        alpha: type I errors, rising.
        beta: the type II errors of the test, estimated on fresh samples.
        beta_high: upper bounds of them, all at once at the audit's error.
        claimed: the least type II errors that the claim allows; `beta_high` below it is a violation.
    """

    alpha: Floats
    beta: Floats
    beta_high: Floats
    claimed: Floats


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe beside the statistical test.

    Attributes:
        name: what was probed: "reachable support", "fork", …
        verdict: "violated", "suspicious" (worth a look; no proof), "consistent" or "skipped".
        words: what was seen, in one or two sentences.
        details: numbers for machines.
    """

    name: str
    verdict: str
    words: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tried:
    """One thing that was tried: a pair of neighbours or a score, and the ε that its training samples showed."""

    what: str
    epsilon: float
    samples: int


@dataclass(frozen=True, slots=True, eq=False)
class EventPredicate:
    """Whether an event happened, and how far each output is from it; the same for the same output at any time.

    Attributes:
        encoder: turns outputs into rows.
        score: ranks them.
        at: the rising thresholds on the score.
        cut: the number of the event's threshold.
        other: whether the event is the complement, "score at most the threshold".
    """

    encoder: Encoder
    score: Score
    at: Floats
    cut: int
    other: bool

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.at) + 1

    @property
    def least(self) -> int:
        """The least rank with which the event happens."""
        return len(self.at) - self.cut if self.other else self.cut + 1

    def __call__(self, outputs: Batch) -> NDArray[np.bool_]:
        """Return whether the event happened, for each of several outputs of the mechanism."""
        return np.asarray(self.rank(outputs) >= self.least)

    def rank(self, outputs: Batch) -> NDArray[np.intp]:
        """Return each output's rank below `ranks`: the larger, the likelier under the witness's first input."""
        rows = self.encoder.encode(outputs, needed=self.score.needs)
        found = places(self.at, self.score(rows))
        return len(self.at) - found if self.other else found
