"""Private steps of PyTorch models beside plain ones: CPU time, with exact noise and without, and peak memory.

python -m benchmarks.torch                  # ratios to plain training, and to torch.func
python -m benchmarks.torch --memory         # peak memory, each in a process of its own
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch

from discreet.learn.torch.clipping import Clipper
from discreet.learn.torch.noise import GridNoise, set_gradients
from discreet.noise.entropy import SystemEntropy
from tests.learn.torch import nets

CASES: dict[str, tuple[Callable[[], Any], int, float]] = {
    "MLP 95-128-64-2": (nets.NETS["mlp"], 256, 1.9),
    "CNN 26,010": (nets.mnist, 256, 1.65),
    "GroupNorm CNN 32x32": (nets.grouped, 64, 1.6),
    "causal LM": (lambda: nets.causal(256, 64, 32, False), 64, 1.45),
    "causal LM, tied": (lambda: nets.causal(256, 64, 32, True), 64, 1.45),
}
"""Nets with the size of a batch and the target of a step's time, over that of plain training."""

WAYS = ("plain", "private", "without noise", "torch.func")


def steps(name: str) -> tuple[dict[str, Callable[[Any], None]], Callable[[], Any]]:
    """Return a training step for each way, and what makes a batch."""
    torch.manual_seed(0)
    made, rows, _ = CASES[name]
    model, loss, batch_of = made()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    clipper, slow = Clipper.of(model, loss, batch_of), Clipper.of(model, loss, batch_of)
    slow.calls = None
    width, rng = sum(p.numel() for p in clipper.trained), SystemEntropy()
    noise = GridNoise(Fraction(1), Fraction(1), width, rows, tuple(clipper.terms))

    def plain(batch: Any) -> None:
        optimizer.zero_grad()
        loss(model, *batch).mean().backward()
        optimizer.step()

    def clipped(how: Clipper, noisy: bool) -> Callable[[Any], None]:
        def step(batch: Any) -> None:
            sums = how.sums(batch, 1.0)
            total = noise.whole([sums[p] for p in how.trained])
            found = noise.noisy(total, rng) if noisy else total * float(noise.grid.step)
            set_gradients(how.trained, found / rows)
            optimizer.step()

        return step

    ways = (plain, clipped(clipper, True), clipped(clipper, False), clipped(slow, True))
    return dict(zip(WAYS, ways, strict=True)), lambda: batch_of(rows)


def ratios(name: str, rounds: int, each: int) -> dict[str, float]:
    """Return the CPU time of each way over that of plain training, the median over alternating rounds."""
    ways, batch = steps(name)
    found: dict[str, list[float]] = {way: [] for way in WAYS[1:]}
    for turn in range(rounds + 1):
        took = {}
        for way, step in ways.items():
            batches = [batch() for _ in range(each)]
            start = time.process_time()
            for b in batches:
                step(b)
            took[way] = time.process_time() - start
        if turn:  # the first warms up
            for way in found:
                found[way].append(took[way] / took["plain"])
    return {way: statistics.median(values) for way, values in found.items()}


def memory(name: str, way: str) -> float:
    """Return the peak memory of a process that takes steps in one way, in MB."""
    code = (
        "import resource, torch; from benchmarks.torch import steps\n"
        f"torch.set_num_threads(1); ways, batch = steps({name!r})\n"
        f"for _ in range(5): ways[{way!r}](batch())\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--each", type=int, default=4, help="steps of each way in a round")
    parser.add_argument("--memory", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="There is a performance drop")
    print(
        "| net | "
        + ("peak memory, over plain |" if asked.memory else "target | private | without noise | torch.func |")
    )
    print("|---|---|" + ("" if asked.memory else "---|---|---|"))
    for name, (_, _, target) in CASES.items():
        if asked.memory:
            print(f"| {name} | {memory(name, 'private') / memory(name, 'plain'):.2f} |", flush=True)
        else:
            found = ratios(name, asked.rounds, asked.each)
            print(f"| {name} | {target} | " + " | ".join(f"{found[way]:.2f}" for way in WAYS[1:]) + " |", flush=True)


if __name__ == "__main__":
    main()
