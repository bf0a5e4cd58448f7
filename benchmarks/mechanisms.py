"""Mechanisms, from the values to the release: vectors of noise, selection, sparse vector; beside peers.

    python -m benchmarks.mechanisms [--rounds 7] [--peers]

`--peers` adds OpenDP, diffprivlib and tmlt-core where they have the mechanism (`python -m benchmarks.peers opendp
diffprivlib tumult` installs them). A peer that takes one value at a time is asked fewer values, and its time is
multiplied up. A new mechanism is one more `Case`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

if __package__ in (None, ""):  # `python benchmarks/mechanisms.py` works too
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks import peers
from benchmarks.runner import Claim, Contender, Sample, Timing, alternate, in_subprocess, save, table
from discreet.mechanisms import Exponential, Gaussian, Laplace, NoisyMax, PermuteAndFlip, SparseVector, Staircase
from discreet.noise.entropy import SystemEntropy

MILLION = 1_000_000
CANDIDATES = 100_000
FEW = 2_000  # values for a peer that takes one at a time
RNG = SystemEntropy()


@dataclass(frozen=True)
class Case:
    """One mechanism at one size.

    Attributes:
        name: what the table calls it.
        run: one release.
        items: how many values it takes.
        milliseconds: the most it may take; None where there is no target.
        peers: for each peer, the kind of mechanism that `mechanisms_peers` knows, and how many values it is asked.
    """

    name: str
    run: Callable[[], object]
    items: int
    milliseconds: float | None = None
    peers: Mapping[str, tuple[str, int]] = field(default_factory=dict)


ZEROS = np.zeros(MILLION, dtype=np.int64)
REALS = np.zeros(MILLION)
UTILITIES = np.random.default_rng(7).integers(0, 10_000, CANDIDATES)
NAMES = range(CANDIDATES)

ONE_AT_A_TIME = {"diffprivlib": ("laplace", FEW), "tumult": ("geometric", FEW)}
GAUSSIAN = {"opendp": ("gaussian", CANDIDATES), "diffprivlib": ("gaussian", FEW), "tumult": ("gaussian", FEW)}

CASES = (
    Case(
        "Laplace, whole numbers",
        partial(Laplace(epsilon=1).release, ZEROS),
        MILLION,
        MILLION / 50e3,
        {"opendp": ("laplace", CANDIDATES), **ONE_AT_A_TIME},
    ),
    Case("Gaussian, whole numbers", partial(Gaussian(sigma=4).release, ZEROS), MILLION, MILLION / 50e3, GAUSSIAN),
    Case("Laplace, floats", partial(Laplace(epsilon=1, dimension=MILLION).release, REALS), MILLION),
    Case("Gaussian, floats", partial(Gaussian(sigma=4, dimension=MILLION).release, REALS), MILLION),
    Case(
        "Staircase, whole numbers",
        partial(Staircase(epsilon=1, sensitivity=10).noise.draw, MILLION, RNG),
        MILLION,
        peers={"diffprivlib": ("staircase", FEW)},
    ),
    Case(
        "Exponential",
        partial(Exponential(epsilon=1, sensitivity=10).release, NAMES, UTILITIES),
        CANDIDATES,
        5,
        {"diffprivlib": ("exponential", CANDIDATES)},
    ),
    Case(
        "PermuteAndFlip",
        partial(PermuteAndFlip(epsilon=1, sensitivity=10).release, NAMES, UTILITIES),
        CANDIDATES,
        5,
        {"opendp": ("noisy-max", CANDIDATES), "diffprivlib": ("permute-and-flip", CANDIDATES)},
    ),
    Case("NoisyMax, Laplace", partial(NoisyMax(epsilon=1, sensitivity=10).release, NAMES, UTILITIES), CANDIDATES, 5),
    Case(
        "SparseVector, whole numbers",
        partial(SparseVector(epsilon=1, threshold=10_000, cutoff=10).release, ZEROS),
        MILLION,
        100,
    ),
    Case(
        "SparseVector, floats",
        partial(SparseVector(epsilon=1, threshold=10_000, cutoff=10).release, REALS),
        MILLION,
        100,
    ),
)
"""Every case: all of ours run in turns, then each beside its peers."""


def ours(rounds: int) -> tuple[list[Timing], list[Claim]]:
    """All cases in turns, and their targets."""
    timings = alternate([Contender(c.name, c.run) for c in CASES], rounds=rounds, warmup=2)
    claims = []
    for case, timing in zip(CASES, timings, strict=True):
        if case.milliseconds is not None:
            rate = case.items / timing.cpu / 1e6
            what = f"{case.name}, {case.items:,} values ({rate:.0f} M/s)"
            claims.append(Claim(what, 1e3 * timing.cpu, case.milliseconds, "ms"))
    return timings, claims


def beside(case: Case, rounds: int) -> tuple[list[Timing], list[Claim]]:
    """One case in turns with every peer that is installed."""
    found = {p: peers.python_of(p) for p in case.peers}
    contenders = [Contender(case.name, case.run)]
    for peer, python in found.items():
        if python is None:
            print(f"{peer} is left out: make its environment with `python -m benchmarks.peers {peer}`")
            continue
        kind, items = case.peers[peer]
        contenders.append(Contender(peer, partial(scaled, case.items / items, peer, kind, items, python)))
    if len(contenders) == 1:
        return [], []
    timings = alternate(contenders, rounds=rounds)
    return timings, [
        Claim(f"{case.name}: {t.name} ÷ ours", t.ratio(timings[0])[0], 1, at_least=True) for t in timings[1:]
    ]


def scaled(factor: float, peer: str, kind: str, items: int, python: Path) -> Sample:
    """What a peer would take for as many values as ours, from what it took for fewer."""
    sample = in_subprocess("benchmarks.mechanisms_peers", peer, kind, str(items), python=python)
    return Sample(sample.wall * factor, sample.cpu * factor, sample.peak_mb)


def main() -> None:
    """Measures, prints the tables and the targets, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", action="store_true", help="peers too, where their environments were made")
    options = parser.parse_args()
    parts = {"ours": ours(options.rounds)}
    if options.peers:
        parts |= {c.name: beside(c, min(options.rounds, 3)) for c in CASES if c.peers}
    for title, (timings, _) in parts.items():
        if timings:
            print(f"\n{title}\n{table(timings, baseline=timings[0].name)}")
    claims = [claim for _, found in parts.values() for claim in found]
    print("", *claims, sep="\n")
    print(save("mechanisms", {title: timings for title, (timings, _) in parts.items()}, claims))


if __name__ == "__main__":
    main()
