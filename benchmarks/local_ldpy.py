"""multi-freq-ldpy's unary encoding (compiled, with numpy's generator), one device at a time; in its own environment.

python -m benchmarks.local --peers      runs it
"""

from __future__ import annotations

import sys

from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Client  # type: ignore[import-not-found]  # its own environment

from benchmarks.runner import report_sample


def main() -> None:
    """Reports for so many devices, once."""
    k, n = int(sys.argv[1]), int(sys.argv[2])
    UE_Client(3, k, 1.0, False)  # compiles
    report_sample(lambda: [UE_Client(3, k, 1.0, False) for _ in range(n)])


if __name__ == "__main__":
    main()
