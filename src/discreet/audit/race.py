"""Tests of several pairs of neighbours, of which none stands out: all begin, and the most promising ones go on."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.audit.duel import Duel

SHARE = 4
"""The part of the samples of a single test with which each one begins."""

_CLEAR = 3.0  # standard deviations beyond the claim with which a test goes on at once
_HOPEFUL = (
    1.0,
    1.5,
)  # the same with which the best one goes on when all have begun, and with which the others do


def race(duels: Sequence[Duel]) -> None:
    """Runs tests until one refutes its claim, or none is promising any more.

    A search compares pairs by few samples of each. Where an excess is small it cannot tell good pairs from bad ones,
    and one long test would be spent on the wrong pair too often.

    Guarantee:
        Which test goes on is chosen from what all of them have seen, never from what is still to come; so each wealth
        stays a nonnegative supermartingale, and each test is wrong with its own error at most
        (docs/proofs/auditing.md, "Several tests").
    """
    _race(duels)
    for duel in duels:
        duel.forget()


def _race(duels: Sequence[Duel]) -> None:
    for duel in duels:
        if duel.begin().refuted or (duel.promise >= _CLEAR and duel.run().refuted):
            return
    for place, duel in enumerate(sorted(duels, key=lambda duel: -duel.promise)):
        if duel.run(_HOPEFUL[min(place, 1)]).refuted:
            return
