"""Random DP-SGD runs over the whole range that is promised: how close the bounds are, and what each run costs.

    python -m benchmarks.accounting_sweep [--seed 11] [--cases 200]

σ from 0.3 to 10, q from 10⁻⁵ to 1 and T from 1 to 10⁶ are drawn evenly on a logarithmic scale, and so is δ from
10⁻¹⁵ to 10⁻³. The same seed is the same runs. All are asked three times over, in one process, and what one costs is the
median of its CPU time.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from dataclasses import dataclass, replace

from benchmarks.runner import Claim
from discreet import accounting

SEED, CASES = 11, 200
QUICK, PATIENT = 0.025, 0.25  # seconds of CPU where T·q is at least 1, and elsewhere
RELATIVE, ABSOLUTE = 1e-6, 1e-9  # how far the two bounds may be apart


@dataclass(frozen=True, slots=True)
class Run:
    """One run of DP-SGD, and the δ at which it is asked for ε."""

    sigma: float
    rate: float
    steps: int
    delta: float

    @property
    def limit(self) -> float:
        """The seconds of CPU that it may take."""
        return QUICK if self.steps * self.rate >= 1 else PATIENT


@dataclass(frozen=True, slots=True)
class Result:
    """What a run was bounded by, and the seconds of CPU that it took."""

    run: Run
    lower: float
    upper: float
    seconds: float

    @property
    def is_close(self) -> bool:
        """Whether the two bounds are as near to each other as is promised."""
        return self.upper - self.lower <= max(RELATIVE * self.upper, ABSOLUTE)


def runs(seed: int, count: int) -> list[Run]:
    """The first `count` runs of that seed."""
    draw = random.Random(seed)

    def one() -> Run:
        sigma = math.exp(draw.uniform(math.log(0.3), math.log(10)))
        rate = math.exp(draw.uniform(math.log(1e-5), 0))
        steps = int(math.exp(draw.uniform(0, math.log(1e6))))
        return Run(round(sigma, 5), round(rate, 8), steps, 10 ** draw.uniform(-15, -3))

    return [one() for _ in range(count)]


def ask(run: Run) -> Result:
    """Both bounds of ε of one run."""
    loss = accounting.gaussian(run.sigma).poisson(run.rate) * run.steps
    start = time.process_time()
    lower, upper = loss.bounds(run.delta)
    return Result(run, lower, upper, time.process_time() - start)


def sweep(seed: int, count: int) -> list[Result]:
    """All of them in three rounds, with medians of the seconds; two before that load the engines, and scipy."""
    ask(Run(1.0, 0.01, 1000, 1e-5))
    ask(Run(1.0, 0.01, 1, 1e-5))
    asked = runs(seed, count)
    rounds = [[ask(run) for run in asked] for _ in range(3)]
    return [
        replace(results[0], seconds=statistics.median(r.seconds for r in results))
        for results in zip(*rounds, strict=True)
    ]


def claims(results: list[Result]) -> list[Claim]:
    """How many are as close and as quick as promised."""
    found = [Claim("random DP-SGD runs whose bounds are farther apart", sum(not r.is_close for r in results), 0, "")]
    for limit, where in ((QUICK, "T·q ≥ 1"), (PATIENT, "T·q < 1")):
        known = [r for r in results if r.run.limit == limit]
        if known:
            share = 100 * sum(r.seconds <= limit for r in known) / len(known)
            what = f"random DP-SGD runs with {where} of {1e3 * limit:.0f} ms of CPU at most, of {len(known)}"
            found.append(Claim(what, share, 100, "%", at_least=True))
    return found


def slowest(results: list[Result], count: int = 10) -> list[str]:
    """The runs that took the most of what they may."""
    worst = sorted(results, key=lambda r: -r.seconds / r.run.limit)[:count]
    return [f"{1e3 * r.seconds:7.1f} ms of {1e3 * r.run.limit:.0f}: {r.run}" for r in worst]


def main() -> None:
    """Prints the claims and the slowest runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--cases", type=int, default=CASES)
    options = parser.parse_args()
    results = sweep(options.seed, options.cases)
    print(*claims(results), "", *slowest(results), sep="\n")


if __name__ == "__main__":
    main()
