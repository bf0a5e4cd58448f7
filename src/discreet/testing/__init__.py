"""The users' test kit: sessions with a seed, randomness that was written down, and the exact law of what is drawn.

`discreet.testing.plugin` has a pytest fixture.
"""

from __future__ import annotations

from discreet.testing.replay import EntropyExhausted, ReplayEntropy, exact_law
from discreet.testing.seeded import SeededEntropy, session

__all__ = ["EntropyExhausted", "ReplayEntropy", "SeededEntropy", "exact_law", "session"]


def __dir__() -> list[str]:
    return sorted(__all__)
