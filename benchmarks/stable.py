"""Mechanisms that follow the data, and counts and ranks: how long a release takes, and how far off it is.

    python -m benchmarks.stable [--size 100000] [--rounds 5]

Times are beside numpy's sort of the same column. Errors are medians over many releases of a column of normal numbers
in a range forty deviations wide, in deviations, beside Laplace noise for the global sensitivity (the whole range).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # `python benchmarks/stable.py` works too
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from numpy.typing import NDArray

from benchmarks.runner import Claim, Contender, alternate, save, table
from discreet.mechanisms import (
    Histogram,
    Laplace,
    Median,
    ProposeTestRelease,
    Quantiles,
    SampleAndAggregate,
    SmoothSensitivity,
    TopK,
)

RANGE: dict[str, Any] = {"lower": -20, "upper": 20}
DECILES = [i / 10 for i in range(1, 10)]
NUMPY = np.random.default_rng()


def releases(x: NDArray[np.float64]) -> dict[str, Callable[[], object]]:
    """One release of each kind."""
    counts = NUMPY.integers(0, 1000, 100_000)
    names = range(len(counts))
    keys = NUMPY.integers(0, 100, len(x))
    laws = {
        "t": SmoothSensitivity(epsilon=1, **RANGE),
        "Cauchy": SmoothSensitivity(epsilon=1, law="cauchy", **RANGE),
        "log-normal": SmoothSensitivity(epsilon=1, law="laplace-log-normal", delta="1e-6", **RANGE),
        "t, ε = 1/100": SmoothSensitivity(epsilon="0.01", **RANGE),
    }
    return {
        **{f"smooth median, {name}": partial(m.release, x) for name, m in laws.items()},
        "smooth quartile distance": partial(SmoothSensitivity("iqr", epsilon=1, **RANGE).release, x),
        "smooth median deviation": partial(SmoothSensitivity("mad", epsilon=1, **RANGE).release, x),
        "propose, test, release": partial(ProposeTestRelease(epsilon=1, delta="1e-6", bound="0.1", **RANGE).release, x),
        "sample and aggregate": partial(SampleAndAggregate(np.mean, blocks=200, epsilon=1, **RANGE).release, x),
        "median": partial(Median(epsilon=1, **RANGE).release, x),
        "nine quantiles": partial(Quantiles(DECILES, epsilon=1, **RANGE).release, x),
        "histogram of 100 keys": partial(Histogram(range(100), epsilon=1).release, keys),
        "10 of 1e5": partial(TopK(10, epsilon=1).release, names, counts),
    }


def off(release: Callable[[], object], truth: float, times: int) -> float:
    """The median distance from the truth."""
    return float(np.median([abs(float(release()) - truth) for _ in range(times)]))  # type: ignore[arg-type]  # a float


def errors(x: NDArray[np.float64], times: int) -> list[Claim]:
    """How many times nearer than Laplace noise for the global sensitivity."""
    truth = float(np.median(x))
    plain = Laplace(epsilon=1, sensitivity=40)
    base = off(lambda: plain.release(truth), truth, times)
    ours: dict[str, SmoothSensitivity | Median] = {
        "smooth median, t": SmoothSensitivity(epsilon=1, **RANGE),
        "smooth median, Cauchy": SmoothSensitivity(epsilon=1, law="cauchy", **RANGE),
        "median by the exponential mechanism": Median(epsilon=1, **RANGE),
    }
    return [
        Claim(
            f"{name}: Laplace's error ÷ its own", base / off(partial(m.release, x), truth, times), 1000, at_least=True
        )
        for name, m in ours.items()
    ]


def main() -> None:
    """Measures, prints the table and the claims, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    x = NUMPY.normal(0, 1, options.size)
    kinds = releases(x)
    timings = alternate(
        [Contender("numpy sort", partial(np.sort, x)), *(Contender(n, r) for n, r in kinds.items())],
        rounds=options.rounds,
    )
    title = f"{options.size:,} values"
    print(f"\n{title}\n{table(timings, baseline='numpy sort')}\n")
    by = {t.name: t for t in timings}
    claims = [
        Claim(f"{name} ÷ numpy sort", by[name].ratio(by["numpy sort"])[0], 10)
        for name in kinds
        if name.startswith(("smooth", "propose"))
    ]
    claims.append(Claim("one name of 1e5", 1e3 * by["10 of 1e5"].cpu / 10, 5, "ms"))
    claims += errors(x, 15 * options.rounds)
    print(*claims, sep="\n")
    print(save(f"stable-{options.size}", {title: timings}, claims))


if __name__ == "__main__":
    main()
