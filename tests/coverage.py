"""The bar that every test of coverage has: confidence − 4·√(p(1 − p)/runs), with p the confidence.

A right law fails it in about one of 10,000 draws, and a test draws the same in every run (`tests/seeded.py`): once it
passed, it passes always. A narrower interval has to fail it: `not covers(…)` stands beside `covers(…)`.
"""

from __future__ import annotations

import math
from fractions import Fraction


def covers(hits: float, runs: int, confidence: Fraction | float | str) -> bool:
    """Return whether so many intervals out of `runs` hold the truth as often as they say."""
    p = float(Fraction(confidence))
    return bool(hits >= runs * p - 4 * math.sqrt(runs * p * (1 - p)))
