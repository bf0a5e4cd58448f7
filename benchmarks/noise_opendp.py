"""OpenDP's vector Laplace and Gaussian on integers; runs in OpenDP's own environment.

python -m benchmarks.noise --peers      runs it
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import opendp.prelude as dp

from benchmarks.runner import report_sample

KINDS: dict[str, tuple[Callable[[], Any], Callable[..., Any]]] = {
    "laplace": (lambda: dp.l1_distance(T=int), dp.m.make_laplace),
    "gaussian": (lambda: dp.l2_distance(T=float), dp.m.make_gaussian),
}


def main() -> None:
    """Adds noise to a vector of zeros, once."""
    kind, scale, size = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    metric, make = KINDS[kind]
    mechanism = make(dp.vector_domain(dp.atom_domain(T=int)), metric(), scale=scale)
    zeros = [0] * size
    mechanism(zeros[:1000])
    report_sample(lambda: mechanism(zeros))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    dp.enable_features("contrib")
    main()
