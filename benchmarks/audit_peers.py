"""Audits peers as they install today, each in its own environment, and says soberly what was found.

    python -m benchmarks.peers opendp diffprivlib python-dp tumult
    python -m benchmarks.audit_peers [--peer NAME] [--samples N] [--record]

A finding names the two inputs and the event with its two chances, so that anybody can repeat it. Most of them
are about the low bits of floating-point numbers, which some of these libraries document as outside their promise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from benchmarks.peers import python_of
from benchmarks.runner import RESULTS, ROOT
from discreet import accounting
from discreet.audit import Audit, Claim, refute
from discreet.audit.reports import number, shown
from discreet.privacy.guarantee import Budget
from discreet.table import render

PURE = Claim.of(1)
APPROXIMATE = Claim.of(Budget(1, 1e-3))
GAUSSIAN = Claim.of(accounting.gaussian(1))  # noise of deviation 1 on sensitivity 1
NUMBERS = [(0.0, 1.0), (1.0, 2.0), (0.5, 1.5), (1e6, 1e6 + 1), (0.0, 1 / 3)]
IN_RANGE = [(0.0, 1.0), (1.0, 2.0), (3.0, 4.0), (4.0, 3.0)]
WHOLE = [(0, 1), (1, 2), (3, 4), (1000, 1001)]
ROWS = [([], [1.0]), ([], [0.0]), ([0.0], [0.0, 1.0]), ([0.5], [0.5, 1.0]), ([0.25, 0.5], [0.25, 0.5, 0.9])]
SAME_SIZE = [([0.0], [1.0]), ([0.5, 0.5], [0.5, 1.0]), ([0.0, 1.0], [0.0, 0.0]), ([0.2, 0.4, 0.9], [0.2, 0.4, 0.0])]
VECTORS = [([0.0, 0.0], [1.0, 0.0]), ([0.0, 0.0, 0.0], [0.5, 0.25, 0.25])]
ANSWERS = [([0.0, 0.0], [1.0, 1.0]), ([0.0, 1.0, 1.0], [1.0, 0.0, 0.0]), ([0.0] * 5, [1.0] + [0.0] * 4)]


@dataclass(frozen=True, slots=True)
class Case:
    """What a peer promises for neighbours of one kind."""

    claim: Claim
    pairs: Sequence[tuple[Any, Any]]


# The neighbours are those that the peer's own documentation claims them for.
CASES: dict[str, dict[str, Case]] = {
    "diffprivlib": {
        "Laplace": Case(PURE, NUMBERS),
        "LaplaceTruncated": Case(PURE, IN_RANGE),
        "LaplaceFolded": Case(PURE, IN_RANGE),
        "LaplaceBoundedDomain": Case(PURE, IN_RANGE),
        "LaplaceBoundedNoise": Case(Claim.of(Budget(1, 0.05)), NUMBERS),
        "Snapping": Case(PURE, NUMBERS[:3]),
        "Staircase": Case(PURE, NUMBERS),
        "Geometric": Case(PURE, WHOLE),
        "GeometricTruncated": Case(PURE, [(0, 1), (3, 4)]),
        "Gaussian": Case(APPROXIMATE, NUMBERS),
        "GaussianAnalytic": Case(APPROXIMATE, NUMBERS),
        "GaussianDiscrete": Case(APPROXIMATE, WHOLE),
        "Uniform": Case(Claim.of(Budget(0, 0.25)), NUMBERS),
        "tools.sum": Case(PURE, SAME_SIZE),
        "tools.mean": Case(PURE, SAME_SIZE),
        "tools.var": Case(PURE, SAME_SIZE),
        "tools.median": Case(PURE, SAME_SIZE),
        "tools.count_nonzero": Case(PURE, SAME_SIZE),
        "tools.histogram": Case(PURE, ROWS[2:]),
    },
    "opendp": {
        "laplace on floats": Case(PURE, NUMBERS),
        "laplace on integers": Case(PURE, WHOLE),
        "gaussian on floats (ρ = 1/2)": Case(GAUSSIAN, NUMBERS),
        "laplace on a vector": Case(PURE, VECTORS),
        "randomized response": Case(PURE, [(False, True)]),
        "sum of clamped rows": Case(PURE, ROWS),
        "count": Case(PURE, ROWS),
        "noisy max": Case(PURE, ANSWERS),
    },
    "python-dp": {
        "LaplaceMechanism": Case(PURE, NUMBERS),
        "GaussianMechanism": Case(APPROXIMATE, NUMBERS),
        "Count": Case(PURE, ROWS),
        "BoundedSum": Case(PURE, ROWS),
        "BoundedMean": Case(PURE, ROWS[2:]),
        "BoundedVariance": Case(PURE, ROWS[2:]),
        "Median": Case(PURE, ROWS[2:]),
    },
    "tumult": {
        "AddLaplaceNoise": Case(PURE, NUMBERS),
        "AddGeometricNoise": Case(PURE, WHOLE),
        "AddGaussianNoise (ρ = 1/2)": Case(GAUSSIAN, NUMBERS),
        "AddDiscreteGaussianNoise (ρ = 1/2)": Case(GAUSSIAN, WHOLE),
    },
}


class Peer:
    """A peer's process, asked for outputs one line at a time."""

    def __init__(self, name: str) -> None:
        python = python_of(name)
        if python is None:
            raise SystemExit(f"{name} is not here: python -m benchmarks.peers {name}")
        module = f"benchmarks.audited.{name.replace('-', '_')}"
        self._process = subprocess.Popen(
            [str(python), "-m", "benchmarks.audited.serve", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self.mechanisms = self._read()

    def draw(self, name: str, x: object, n: int) -> list[Any]:
        """That many outputs; what the peer raised is raised here."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([name, x, n]) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        if isinstance(answer, dict):
            raise RuntimeError(answer["error"])
        return list(answer)

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Peer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def audit(peer: Peer, name: str, case: Case, samples: int, seconds: float) -> Audit:
    """One mechanism of a peer, attacked on the pairs that its promise covers."""

    def mechanism(x: object, n: int) -> list[Any]:
        return peer.draw(name, x, n)

    return refute(mechanism, case.pairs, case.claim, samples=samples, seconds=seconds, error=1e-6, name=name)


def main() -> None:
    """Audits all peers that are installed, or the one that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", choices=sorted(CASES))
    parser.add_argument("--only", help="one mechanism")
    parser.add_argument("--samples", type=int, default=200_000, help="outputs for each input")
    parser.add_argument("--seconds", type=float, default=60.0, help="the most for one mechanism")
    parser.add_argument("--record", action="store_true", help="write benchmarks/results/audit_peers.json")
    asked = parser.parse_args()
    kept: dict[str, list[dict[str, Any]]] = {}
    for peer_name in [asked.peer] if asked.peer else CASES:
        if python_of(peer_name) is None:
            print(f"{peer_name} is not here: python -m benchmarks.peers {peer_name}\n")
            continue
        with Peer(peer_name) as peer:
            rows, found = [], []
            for name, case in CASES[peer_name].items():
                if asked.only not in (None, name):
                    continue
                result = audit(peer, name, case, asked.samples, asked.seconds)
                kept.setdefault(peer_name, []).append(result.to_json())
                rows.append(
                    [name, case.claim.text, result.verdict, number(result.epsilon_lower), f"{result.seconds:.1f}"]
                )
                if result.violated and result.witness is not None:
                    w = result.witness
                    found.append(
                        f"{name}: {w.event}: {w.under_x.hits:,} of {w.under_x.samples:,} for {shown(w.x)}, "
                        f"{w.under_neighbour.hits:,} of {w.under_neighbour.samples:,} for {shown(w.x_neighbour)}"
                    )
            print(render([peer_name, "claimed", "verdict", "ε ≥", "seconds"], rows), "", sep="\n")
            print(*found, "", sep="\n")
    if asked.record:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "audit_peers.json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
