"""Continual counting and the matrix mechanism: time, and error against what is naive.

    python -m benchmarks.streams [--steps 1000000] [--rounds 7] [--peers]

Errors are exact, from public parameters: root mean squares over all steps or questions at sensitivity 1. "Naive" for a
stream is the better of fresh noise for every prefix sum and prefix sums of noisy elements. `--peers` adds OpenDP's
binary tree with its consistent leaves (`python -m benchmarks.peers opendp` installs it), whose error is measured; it
uses nodes that are complete only later, so that it is no continual count.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

if __package__ in (None, ""):  # `python benchmarks/streams.py` works too
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks import peers
from benchmarks.runner import ROOT, Claim, Contender, Timing, alternate, in_subprocess, save, table
from discreet.mechanisms import BinaryTree, Gaussian, MatrixMechanism
from discreet.mechanisms.linear import Workload, kron, marginals, prefix, ranges

DELTA = 1e-6
RUN = 20_000  # steps of a run that is timed


def times(steps: int, rounds: int) -> tuple[list[Timing], list[Claim]]:
    """Releases of a whole stream, and runs of a shorter one."""
    values = np.random.default_rng().integers(0, 2, steps)
    pure = BinaryTree(epsilon=1, steps=steps)
    normal = BinaryTree(epsilon=1, delta=DELTA, steps=steps)
    root = BinaryTree(epsilon=1, delta=DELTA, steps=min(steps, 1 << 20), factorization="square-root")

    def run(tree: BinaryTree) -> None:
        going = tree.start()
        for _ in range(RUN):
            going.add(1)

    timings = alternate(
        [
            Contender("numpy cumsum", partial(np.cumsum, values)),
            Contender("tree, Laplace", partial(pure.release, values)),
            Contender("tree, Gaussian", partial(normal.release, values)),
            Contender("square root", partial(root.release, values[: root.steps])),
            Contender(f"a run of {RUN:,}, tree", partial(run, pure)),
            Contender(f"a run of {RUN:,}, square root", partial(run, root)),
        ],
        rounds=rounds,
    )
    by = {t.name: t for t in timings}
    claims = [
        Claim(f"{name} over {steps:,} steps", 1e3 * by[name].cpu, 200, "ms")
        for name in ("tree, Laplace", "tree, Gaussian")
    ]
    claims.append(Claim("one step of a tree's run", 1e6 * by[f"a run of {RUN:,}, tree"].cpu / RUN, 20, "µs"))
    return timings, claims


def stream_errors() -> list[Claim]:
    """Error of the ways to count, over lengths of streams."""
    claims = []
    print(f"\nRoot mean square error over all steps, ε = 1 (δ = {DELTA:g} for Gaussian noise)")
    print(f"{'steps':>10} {'naive':>10} {'tree':>10} {'naive, G.':>10} {'tree, G.':>10} {'root, G.':>10}")
    sigma = Gaussian(epsilon=1, delta=DELTA).sigma
    for steps in (16, 256, 1 << 12, 1 << 16, 1 << 20):
        pure = min(steps * math.sqrt(2), math.sqrt(2 * (steps + 1) / 2))
        normal = sigma * min(math.sqrt(steps), math.sqrt((steps + 1) / 2))
        tree = BinaryTree(epsilon=1, steps=steps).root_mean_square
        tree_normal = BinaryTree(epsilon=1, delta=DELTA, steps=steps).root_mean_square
        root = BinaryTree(epsilon=1, delta=DELTA, steps=steps, factorization="square-root").root_mean_square
        print(f"{steps:>10,} {pure:>10.4g} {tree:>10.4g} {normal:>10.4g} {tree_normal:>10.4g} {root:>10.4g}")
        claims.append(Claim(f"error of the square root ÷ the tree's, {steps:,} steps", root / tree_normal, 1))
        claims.append(Claim(f"error of the tree ÷ the naive one's, {steps:,} steps", tree / pure, 1.0001))
    return claims


def matrix_errors() -> list[Claim]:
    """Error of optimised strategies against identity and hierarchical ones."""
    claims = []
    cases: list[Workload] = [
        prefix(128),
        prefix(512),
        ranges(128),
        ranges(512),
        kron(prefix(64), ranges(32)),
        marginals((8, 8, 8), 2),
    ]
    print("\nRoot mean square error over all questions, ε = 1; Laplace | Gaussian")
    print(f"{'':44} {'identity':>21} {'hierarchical':>21} {'optimised':>21}")
    for workload in cases:
        found: dict[str, list[float]] = {}
        for name in ("identity", "hierarchical", "optimised"):
            found[name] = [
                MatrixMechanism(workload, name, epsilon=1, delta=delta).root_mean_square for delta in (None, DELTA)
            ]
        row = " ".join(f"{f'{a:.4g} | {b:.4g}':>21}" for a, b in found.values())
        print(f"{workload!r:44} {row}")
        for i, noise in enumerate(("Laplace", "Gaussian")):
            ratio = found["optimised"][i] / min(found["identity"][i], found["hierarchical"][i])
            claims.append(Claim(f"error of optimised ÷ the better of both, {workload!r}, {noise}", ratio, 1.0001))
    return claims


def against_opendp(steps: int, rounds: int) -> tuple[list[Timing], list[Claim]]:
    """How many times faster than OpenDP's binary tree, and its error beside ours."""
    python = peers.python_of("opendp")
    if python is None:
        print("OpenDP is left out: make its environment with `python -m benchmarks.peers opendp`")
        return [], []
    tree, values = BinaryTree(epsilon=1, steps=steps), np.zeros(steps, dtype=np.int64)
    peer = partial(in_subprocess, "benchmarks.streams_opendp", "time", str(steps), python=python)
    timings = alternate(
        [Contender("tree, Laplace", partial(tree.release, values)), Contender("OpenDP", peer)], rounds=rounds, warmup=0
    )
    claims = [Claim(f"OpenDP ÷ ours, {steps:,} steps", timings[1].ratio(timings[0])[0], 20, at_least=True)]
    for few in (256, 1 << 12):
        command = [str(python), "-m", "benchmarks.streams_opendp", "error", str(few)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        theirs = float(done.stdout.split("error: ")[1])
        ours = BinaryTree(epsilon=1, steps=few).root_mean_square
        claims.append(Claim(f"our error ÷ OpenDP's (not continual), {few:,} steps", ours / theirs, 1.5))
    return timings, claims


def show(title: str, timings: Sequence[Timing]) -> None:
    """One table."""
    print(f"\n{title}\n{table(timings, baseline=timings[0].name)}")


def main() -> None:
    """Measures, prints the tables and the targets, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", action="store_true", help="OpenDP too, where its environment was made")
    options = parser.parse_args()
    title = f"{options.steps:,} steps"
    timings, claims = times(options.steps, options.rounds)
    parts = {title: timings}
    show(title, timings)
    claims += stream_errors() + matrix_errors()
    if options.peers:
        timings, found = against_opendp(min(options.steps, 100_000), 3)
        if timings:
            parts["beside OpenDP"] = timings
            show("beside OpenDP", timings)
            claims += found
    print("", *claims, sep="\n")
    print(save(f"streams-{options.steps}", parts, claims))


if __name__ == "__main__":
    main()
