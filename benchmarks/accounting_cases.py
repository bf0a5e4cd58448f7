"""What every accountant is asked, defined once. Standard library only: peers import it in their environments."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class Case:
    """One composition; `deltas` are texts, since every number is the decimal that is written.

    Kinds: "sgd" is Gaussian noise of `sigma` on Poisson samples of `rate`; "gaussian" the same on everything;
    "response" binary randomized response of `epsilon`, the worst ε-DP mechanism; "mixed" many mechanisms (see
    `mixture`); "noise" asks for the least sigma at which "sgd" meets `epsilon`; "fixed" is Gaussian noise on
    samples of `batch` among `records` without replacement, for replacing one record.
    """

    name: str
    kind: str
    deltas: tuple[str, ...]
    steps: int
    sigma: str = "1"
    rate: str = "1"
    epsilon: str = "0"
    batch: int = 0
    records: int = 0
    distinct: bool = False
    seed: int = 20261120

    def other(self) -> Case:
        """Nearly the same, but nothing that was kept of it helps: what is run before the clock starts."""
        return replace(
            self, sigma=str(float(self.sigma) * 1.01), epsilon=str(float(self.epsilon) * 1.01), seed=self.seed + 1
        )


SMALL = ("1e-5", "1e-12", "1e-15")

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case("W1-1000", "sgd", SMALL, 1000, rate="0.01"),
        Case("W1-10000", "sgd", SMALL, 10_000, rate="0.01"),
        Case("W1-100000", "sgd", SMALL, 100_000, rate="0.01"),
        Case("W1-one", "sgd", ("1e-6", "1e-12", "1e-15"), 1, sigma="0.5", rate="0.001"),
        Case("W1-short", "sgd", ("1e-6", "1e-12", "1e-15"), 100, sigma="0.5", rate="0.001"),
        Case("W2-repeated", "mixed", ("1e-6", "1e-12"), 10_000),
        Case("W2-distinct", "mixed", ("1e-6", "1e-12"), 10_000, distinct=True),
        Case("W3-0", "noise", ("1e-5",), 1000, rate="0.01", epsilon="1"),
        Case("W3-1", "noise", ("1e-6",), 10_000, rate="0.004", epsilon="2"),
        Case("W3-2", "noise", ("1e-8",), 50_000, rate="0.02", epsilon="8"),
        Case("W4-gaussian", "gaussian", ("1e-6", "1e-12", "1e-15"), 1000, sigma="50"),
        Case("W5", "response", ("1e-6", "1e-12", "1e-15"), 500, epsilon="0.1"),
        Case("W6", "fixed", ("1e-5",), 1000, sigma="2", batch=600, records=60_000),
    )
}


@lru_cache(maxsize=4)  # drawn before the clock starts
def mixture(case: Case) -> tuple[tuple[str, float, int], ...]:
    """(family, parameter, count) of a mixed case, every sensitivity 1.

    40 % Laplace and 15 % discrete Laplace of scale 1/parameter, 15 % binary randomized response of ε = parameter
    (all from 0.01 to 0.1), and 30 % Gaussian of deviation parameter (50 to 200). Unless they are to be distinct,
    parameters are rounded so that about ten of each family remain.
    """
    draw, found = random.Random(case.seed), Counter[tuple[str, float]]()
    for i in range(case.steps):
        u = i % 20
        family = "laplace" if u < 8 else "gaussian" if u < 14 else "response" if u < 17 else "discrete laplace"
        x = draw.uniform(50, 200) if family == "gaussian" else draw.uniform(0.01, 0.1)
        if not case.distinct:
            x = float(round(x / 15) * 15) if family == "gaussian" else round(x, 2)
        found[family, x] += 1
    return tuple((family, x, n) for (family, x), n in sorted(found.items()))
