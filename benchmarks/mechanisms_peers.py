"""Peers' mechanisms, each in the peer's own environment.

python -m benchmarks.mechanisms --peers      runs them
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

from benchmarks.runner import report_sample

Run = Callable[[], object]


def opendp(kind: str, items: int) -> Run:
    """OpenDP's vectors of integers and its noisy max (permute and flip)."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=int))
    if kind == "noisy-max":
        select = dp.m.make_noisy_max(domain, dp.linf_distance(T=int), dp.max_divergence(), scale=20.0)
        utilities = _utilities(items)
        return lambda: select(utilities)
    metric, make, scale = {
        "laplace": (dp.l1_distance(T=int), dp.m.make_laplace, 1.0),
        "gaussian": (dp.l2_distance(T=float), dp.m.make_gaussian, 4.0),
    }[kind]
    mechanism = make(domain, metric, scale=scale)
    zeros = [0] * items
    return lambda: mechanism(zeros)


def diffprivlib(kind: str, items: int) -> Run:
    """IBM's, one value at a time."""
    from diffprivlib import mechanisms as m

    if kind in ("exponential", "permute-and-flip"):
        chosen = m.Exponential if kind == "exponential" else m.PermuteAndFlip
        u = _utilities(items)
        return lambda: chosen(epsilon=1, sensitivity=10, utility=u).randomise()
    mechanism = {
        "laplace": lambda: m.Laplace(epsilon=1, sensitivity=1),
        "gaussian": lambda: m.GaussianAnalytic(epsilon=1, delta=1e-6, sensitivity=1),
        "staircase": lambda: m.Staircase(epsilon=1, sensitivity=10),
    }[kind]()
    return lambda: [mechanism.randomise(0) for _ in range(items)]


def tumult(kind: str, items: int) -> Run:
    """tmlt-core's, one value at a time."""
    from tmlt.core.measurements import noise_mechanisms as m

    measure: Any = {"geometric": lambda: m.AddGeometricNoise(1), "gaussian": lambda: m.AddDiscreteGaussianNoise(16)}[
        kind
    ]()
    return lambda: [measure(0) for _ in range(items)]


def _utilities(items: int) -> list[int]:
    draw = random.Random(7)
    return [draw.randrange(10_000) for _ in range(items)]


def main() -> None:
    """One release, after a short one."""
    peer, kind, items = sys.argv[1], sys.argv[2], int(sys.argv[3])
    make = {"opendp": opendp, "diffprivlib": diffprivlib, "tumult": tumult}[peer]
    make(kind, 100)()
    report_sample(make(kind, items))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()
