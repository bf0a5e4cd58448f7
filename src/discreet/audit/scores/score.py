"""What a score is."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.encoding import Encoded

Floats: TypeAlias = NDArray[np.float64]


class Score(Protocol):
    """A number for each output, learned from two samples: the larger, the likelier under the first of them.

    Estimates of log(P/Q) are best: then "score above ε" is the event of the promise at ε. Any monotone function will
    do, since thresholds are chosen on other samples.
    """

    @property
    def name(self) -> str:
        """How it was learned."""

    @property
    def needs(self) -> frozenset[int]:
        """The columns that it looks at, and −1 for the codes of whole outputs."""

    def __call__(self, outputs: Encoded) -> Floats:
        """Return the score of each output."""

    def words(self, outputs: Encoded, hit: NDArray[np.bool_]) -> str:
        """Return the event `hit` (a threshold of this score on these outputs) in words a reader can check."""
