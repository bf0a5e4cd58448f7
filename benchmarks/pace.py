"""How slow the machine is at this minute, beside the one on which absolute targets were set.

A target in milliseconds is a promise about a machine. On that machine numpy's floating-point Laplace took 16 ns a
sample; a shared host takes up to twice that in some minutes, and everything else then takes longer too. The
factor is printed beside absolute claims, so that a reader can tell a slow minute from slow code; no claim is
divided by it.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

NANOSECONDS = 16.0  # a sample, where the targets were set
SAMPLES, ROUNDS = 500_000, 9


def slowness() -> float:
    """The time of numpy's Laplace samples now, as a multiple of what they took where the targets were set."""
    generator = np.random.default_rng(0)
    rounds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        generator.laplace(size=SAMPLES)
        rounds.append(time.process_time() - start)
    return statistics.median(rounds) / SAMPLES * 1e9 / NANOSECONDS


def report(factors: list[float]) -> str:
    """One line: the range of the factors that were met while a benchmark ran."""
    low, high = min(factors), max(factors)
    return (
        f"numpy's Laplace took {NANOSECONDS * low:.1f} – {NANOSECONDS * high:.1f} ns a sample meanwhile, where the "
        f"targets were set {NANOSECONDS:.0f}: this machine was slower by factors of {low:.2f} – {high:.2f}"
    )
