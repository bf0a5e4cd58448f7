"""The users' test kit: randomness that was written down, and the exact law of what is drawn from it."""

from __future__ import annotations

from discreet.testing.replay import EntropyExhausted, ReplayEntropy, exact_law

__all__ = ["EntropyExhausted", "ReplayEntropy", "exact_law"]
