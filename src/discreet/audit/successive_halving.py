"""Tests of several pairs of neighbours, of which none stands out: all begin, and the most promising ones go on."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from discreet.audit.sequential_test import SequentialTest

_BEGINNING = 0.25  # of the time, in which all begin
_CLEAR = 3.0  # standard deviations beyond the claim with which a test goes on at once
_HOPEFUL = (
    1.0,
    1.5,
)  # the same with which the best one goes on when all have begun, and with which the others do


def race(duels: Sequence[SequentialTest], seconds: float | None = None) -> None:
    """Runs tests until one refutes its claim, none is promising any more, or the time is over.

    With a limit on time a quarter of it is for beginning. Each test that goes on has half of what is left, and the best
    one has the rest, promising or not.

    A search compares pairs by few samples of each. Where an excess is small it cannot tell good pairs from bad ones,
    and one long test would be spent on the wrong pair too often.

    Guarantee:
        Which test goes on is chosen from what all of them have seen, never from what is still to come; so each wealth
        stays a nonnegative supermartingale, and each test is wrong with its own error at most
        (docs/proofs/auditing.md, "Several tests").
    """
    _race(duels, math.inf if seconds is None else time.monotonic() + seconds)
    for duel in duels:
        duel.forget()


def _race(duels: Sequence[SequentialTest], end: float) -> None:
    for place, duel in enumerate(duels):
        duel.give(_left(end) * _BEGINNING / (len(duels) - place))
        if duel.begin().refuted:
            return
        if duel.promise >= _CLEAR:
            duel.give(_left(end) / 2)
            if duel.run().refuted:
                return
    ranked = sorted(duels, key=lambda duel: -duel.promise)
    for place, duel in enumerate(ranked):
        duel.give(_left(end) / 2)
        if duel.run(_HOPEFUL[min(place, 1)]).refuted:
            return
    if end < math.inf:
        best = max(ranked, key=lambda duel: duel.promise)
        best.give(_left(end))
        best.run(-math.inf, patient=True)


def _left(end: float) -> float:
    return max(end - time.monotonic(), 0.0)
