"""OpenDP's randomized response on bit vectors, one device at a time; runs in OpenDP's own environment.

python -m benchmarks.local --peers      runs it
"""

from __future__ import annotations

import sys
import warnings

import opendp.prelude as dp

from benchmarks.runner import report_sample

F = 0.7550813375962909  # 2/(e^(1/2) + 1): ε = 1 for one set bit


def main() -> None:
    """Reports for so many devices, once."""
    k, n = int(sys.argv[1]), int(sys.argv[2])
    randomize = dp.m.make_randomized_response_bitvec(dp.bitvector_domain(max_weight=1), dp.discrete_distance(), f=F)
    one = bytes([128]) + bytes((k + 7) // 8 - 1)
    randomize(one)
    report_sample(lambda: [randomize(one) for _ in range(n)])


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    dp.enable_features("contrib")
    main()
