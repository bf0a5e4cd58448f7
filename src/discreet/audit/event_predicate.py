"""An event that separates two neighbours, as a function of outputs: what a reader checks a witness with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.encoding import Encoder
from discreet.audit.outputs.shape import Batch
from discreet.audit.places import places
from discreet.audit.scores.score import Score

Floats: TypeAlias = NDArray[np.float64]


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
        """Return a number from 0 to `ranks` − 1 for each output: the larger, the likelier under the witness's first
        input.
        """
        rows = self.encoder.encode(outputs, needed=self.score.needs)
        found = places(self.at, self.score(rows))
        return len(self.at) - found if self.other else found
