"""One number at a time: how long a hand-held `release` takes, and whether its time tells the noise.

    python -m benchmarks.releases [--calls 200000] [--peers]

Each call is timed alone by the wall clock; the ratio is that of medians, to numpy's unsafe float sampler in the same
run. `--peers` adds diffprivlib and tmlt-core, which also take one number at a time (`python -m benchmarks.peers
diffprivlib tumult` installs them).
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from functools import partial
from itertools import repeat
from pathlib import Path
from time import perf_counter_ns

if __package__ in (None, ""):  # `python benchmarks/releases.py` works too
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from benchmarks import peers
from benchmarks.runner import Claim, in_subprocess, save
from discreet.mechanisms import DiscreteGaussian, Gaussian, Geometric, Laplace, Numeric, Staircase
from discreet.mechanisms.numeric import _MOST as BLOCK
from discreet.noise.entropy import SystemEntropy

MECHANISMS: tuple[Numeric, ...] = (
    Laplace(epsilon=0.5),
    Laplace(epsilon=0.001),
    Laplace(epsilon=1e-9),
    Geometric(epsilon=0.5),
    Gaussian(epsilon=0.5, delta=1e-6),
    Gaussian(epsilon=0.001, delta=1e-6),
    DiscreteGaussian(epsilon=0.5, delta=1e-6),
    Staircase(epsilon=1, sensitivity=10),
)
ON_LATTICE = (*(m for m in MECHANISMS if m.lattice is not None), DiscreteGaussian(sigma=2, step=2**-10))
CASES: tuple[tuple[Numeric, int | float], ...] = (
    *((m, value) for m in MECHANISMS for value in (0, 1_000_000)),
    *((m, value) for m in ON_LATTICE for value in (0.0, 42.5)),
)
FEW = 2_000  # values for a peer that takes one at a time
REFILLS = 2_000


def timed(release: Callable[[], float], calls: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Nanoseconds and result of each call, after enough calls for a full block."""
    for _ in range(2 * BLOCK):
        release()
    times, results = [0] * calls, [0.0] * calls
    gc.collect()
    gc.disable()
    try:
        for i in range(calls):
            start = perf_counter_ns()
            released = release()
            times[i], results[i] = perf_counter_ns() - start, released
    finally:
        gc.enable()
    return np.array(times), np.array(results, dtype=float)


def case(mechanism: Numeric, value: int | float, calls: int, baseline: float) -> list[Claim]:
    """Median time and correlation of one mechanism."""
    times, released = timed(partial(mechanism.release, value), calls)
    microseconds = float(np.median(times)) / 1e3
    rho = abs(float(spearmanr(times, np.abs(released - value)).statistic))
    name = f"{mechanism!r}.release({value!r})"
    return [
        Claim(f"{name} ({microseconds / baseline:.2f} × numpy)", microseconds, 5, "µs"),
        Claim(f"{name}, Spearman with the noise's magnitude", rho, 0.05, ""),
    ]


def refills(mechanism: Numeric) -> Claim:
    """How far the time in which a block is drawn tells how large its numbers are."""
    rng, times, sizes = SystemEntropy(), [], []
    for _ in repeat(None, REFILLS):
        start = perf_counter_ns()
        drawn = mechanism.noise.draw(BLOCK, rng)
        times.append(perf_counter_ns() - start)
        sizes.append(float(np.abs(drawn.astype(float)).mean()))
    rho = abs(float(spearmanr(times, sizes).statistic))
    return Claim(f"{mechanism!r}, a block's time and mean magnitude: Spearman over {REFILLS:,}", rho, 0.1, "")


def beside(baseline: float) -> None:
    """Prints peers' times for one number, where they are installed."""
    for peer, kind in (("diffprivlib", "laplace"), ("diffprivlib", "gaussian"), ("tumult", "geometric")):
        python = peers.python_of(peer)
        if python is None:
            print(f"{peer} is left out: make its environment with `python -m benchmarks.peers {peer}`")
            continue
        sample = in_subprocess("benchmarks.mechanisms_peers", peer, kind, str(FEW), python=python)
        each = 1e6 * sample.cpu / FEW
        print(f"{peer}, {kind}: {each:.1f} µs ({each / baseline:.1f} × numpy)")


def main() -> None:
    """Measures, prints the targets, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--peers", action="store_true", help="peers too, where their environments were made")
    options = parser.parse_args()
    generator = np.random.default_rng()
    times, _ = timed(lambda: 42 + generator.laplace(0.0, 2.0), options.calls)
    baseline = float(np.median(times)) / 1e3
    print(f"numpy's laplace, one number: {baseline:.2f} µs")
    claims = []
    for mechanism, value in CASES:
        claims += case(mechanism, value, options.calls, baseline)
        print(*claims[-2:], sep="\n", flush=True)
    for mechanism in MECHANISMS:
        claims.append(refills(mechanism))
        print(claims[-1], flush=True)
    if options.peers:
        beside(baseline)
    print(save("releases", {}, claims))


if __name__ == "__main__":
    main()
