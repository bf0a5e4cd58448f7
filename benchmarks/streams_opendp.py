"""OpenDP's binary tree with Laplace noise on all prefix sums; runs in OpenDP's own environment.

    python -m benchmarks.streams --peers      runs it

`error` in place of a round prints the root mean square of its errors over all steps, at sensitivity 1 and ε = 1.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
import opendp.prelude as dp
from numpy.typing import NDArray

from benchmarks.runner import report_sample


def main() -> None:
    """Releases a tree over zeros, and prefix sums of its consistent leaves."""
    what, steps = sys.argv[1], int(sys.argv[2])
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    tree = dp.t.make_b_ary_tree(*space, leaf_count=steps, branching_factor=2)
    mechanism = tree >> dp.m.then_laplace(scale=float(tree.map(1)))
    consistent = dp.t.make_consistent_b_ary_tree(branching_factor=2)
    zeros = [0] * steps

    def released() -> NDArray[np.float64]:
        return np.asarray(np.cumsum(consistent(mechanism(zeros))))

    if what == "time":
        report_sample(released)
    else:
        squares = [np.mean(np.square(released())) for _ in range(20)]
        print(f"error: {float(np.mean(squares)) ** 0.5}")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    dp.enable_features("contrib")
    main()
