"""Reports of 1e5 devices over 100 values, exact, against plain numpy, which is fast and unsafe; and the server's half.

    python -m benchmarks.local [--users 100000] [--values 100] [--rounds 7] [--peers]

`--peers` adds OpenDP's randomized response on bit vectors and multi-freq-ldpy's unary encoding, one device at a time
(`python -m benchmarks.peers opendp multi-freq-ldpy` installs them).
"""

from __future__ import annotations

import argparse
import math
import sys
from functools import partial
from pathlib import Path

if __package__ in (None, ""):  # `python benchmarks/local.py` works too
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from numpy.typing import NDArray

from benchmarks import peers
from benchmarks.runner import Claim, Contender, Timing, alternate, in_subprocess, save, table
from discreet.local import FrequencyOracle, Hadamard, RandomizedResponse, SubsetSelection, UnaryEncoding

NUMPY = np.random.default_rng()
EPSILON = 1
FEW = 2_000  # devices that a peer answers for
PEERS = {"opendp": "benchmarks.local_opendp", "multi-freq-ldpy": "benchmarks.local_ldpy"}


def plain(values: NDArray[np.int64], k: int) -> NDArray[np.bool_]:
    """Optimised unary encoding with float coins of a generator that anybody can predict."""
    bits = NUMPY.random((values.size, k), dtype=np.float32) < 1 / (math.exp(EPSILON) + 1)
    bits[np.arange(values.size), values] = NUMPY.random(values.size, dtype=np.float32) < 0.5
    return bits


def main() -> None:
    """Measures, prints the tables and the targets, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--values", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", action="store_true", help="peers too, whose environments were made")
    options = parser.parse_args()
    n, k = options.users, options.values
    values = NUMPY.integers(0, k, n)
    oracles: dict[str, FrequencyOracle] = {
        "optimised unary encoding": UnaryEncoding(k, epsilon=EPSILON),
        "symmetric unary encoding": UnaryEncoding(k, epsilon=EPSILON, variant="symmetric"),
        "subset selection": SubsetSelection(k, epsilon=EPSILON),
        "Hadamard response": Hadamard(k, epsilon=EPSILON),
        "randomized response": RandomizedResponse(k, epsilon=EPSILON),
    }
    devices = alternate(
        [
            Contender("numpy", partial(plain, values, k)),
            *(Contender(name, partial(oracle.randomize, values)) for name, oracle in oracles.items()),
        ],
        rounds=options.rounds,
    )
    reports = {name: oracle.randomize(values) for name, oracle in oracles.items()}
    server = alternate(
        [Contender(name, partial(oracle.estimate, reports[name])) for name, oracle in oracles.items()],
        rounds=options.rounds,
    )
    by = {t.name: t for t in devices}
    ours = by["optimised unary encoding"]
    claims = [
        Claim(f"unary encoding, {n:,} × {k}", 1e3 * ours.cpu, 200, "ms"),
        Claim("unary encoding ÷ numpy", ours.ratio(by["numpy"])[0], 1.0),
    ]
    parts: dict[str, list[Timing]] = {f"{n:,} devices, {k} values": devices, "estimates": server}
    if options.peers:
        for peer, module in PEERS.items():
            pair, more = against(peer, module, n, k, options.rounds)
            claims += more
            if pair:
                parts[peer] = pair
    for title, timings in parts.items():
        print(f"\n{title}\n{table(timings, baseline=timings[0].name)}")
    print("\n" + "\n".join(map(str, claims)))
    print(f"\nwritten to {save('local', parts, claims)}")


def against(peer: str, module: str, n: int, k: int, rounds: int) -> tuple[list[Timing], list[Claim]]:
    """How many times faster for one device: ours in a crowd, theirs one device at a time, as they offer it."""
    python = peers.python_of(peer)
    if python is None:
        print(f"{peer} is left out: make its environment with `python -m benchmarks.peers {peer}`")
        return [], []
    ours = UnaryEncoding(k, epsilon=EPSILON, variant="symmetric")
    values = NUMPY.integers(0, k, n)
    pair = alternate(
        [
            Contender(f"ours, {n:,} devices", partial(ours.randomize, values)),
            Contender(f"{peer}, {FEW:,} devices", partial(in_subprocess, module, str(k), str(FEW), python=python)),
        ],
        rounds=rounds,
    )
    faster = pair[1].ratio(pair[0])[0] * n / FEW
    return pair, [Claim(f"symmetric unary encoding, one device: {peer} ÷ ours", faster, 10, at_least=True)]


if __name__ == "__main__":
    main()
