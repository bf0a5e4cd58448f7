"""Audits DP-SGD as Opacus runs it, in its own environment, with canaries: in one run, and in many.

    python -m benchmarks.peers opacus-training
    python -m benchmarks.audit_training --adult adult.data

Trained is a logistic regression on rows of the Adult table (UCI, 15 columns, no header) with the ε that Opacus claims.
A canary is a row with a code that nobody else has: its gradient is clipped, and points where no other row's does, so
that the weight of the code tells whether it was in. Beside Opacus stand trainers around it with one slip each, which
have to be caught with the same claim: by one run, by many, or by both.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.audit_peers import Peer
from benchmarks.runner import Claim, Sample, Timing, save
from discreet import Budget
from discreet.audit import Canaries, many_runs, one_run
from discreet.audit.reports import number
from discreet.table import render

Floats = NDArray[np.float64]

PEER, SOUND, SEEDED = "opacus-training", "Opacus", "one seed for every run"
DELTA = 1e-5
ROWS, CANARIES, EPOCHS = 4_000, 1_000, 10  # of the one run
FEW_ROWS, FEW_EPOCHS = 400, 2  # of each of many


def adult(path: Path, rows: int) -> Floats:
    """Six numbers of each row, scaled by what is known of them, no code, and whether the income is above 50,000."""
    with path.open(encoding="utf-8", newline="") as file:
        read = [[word.strip() for word in line] for line in csv.reader(file) if line][:rows]
    if len(read) < rows or any(len(line) != 15 for line in read):
        raise SystemExit(f"{path} has fewer than {rows} rows of 15 columns")

    age, schooling, gain, loss, hours = (np.array([float(line[i]) for line in read]) for i in (0, 4, 10, 11, 12))
    male = np.array([float(line[9] == "Male") for line in read])
    rich = np.array([float(line[14].startswith(">50K")) for line in read])
    features = [age / 90, schooling / 16, np.log1p(gain) / 12, np.log1p(loss) / 9, hours / 99, male]
    return np.column_stack([*features, np.full(rows, -1.0), rich])


def canaries(many: int, width: int) -> Floats:
    """Rows of zeros with a code of their own each."""
    rows = np.zeros((many, width))
    rows[:, -2], rows[:, -1] = np.arange(many), 1.0
    return rows


def weight(model: Any, canary: Floats) -> float:
    """The weight of a canary's code: ε, the intercept and the features come before it."""
    return float(model[len(canary) + int(canary[-2])])


def trainer(peer: Peer, name: str, codes: int, epochs: int) -> Callable[[Floats], Any]:
    """A trainer of the peer, as the auditor calls it: records in, a model out."""

    def train(records: Floats) -> Any:
        asked = {"rows": records.tolist(), "codes": codes, "epochs": epochs}
        return peer.draw(name, asked, 1)[0]

    return train


@dataclass(frozen=True, slots=True)
class Row:
    """One trainer audited in one way, and the seconds that it took by the clock, the peer's training included."""

    trainer: str
    how: str
    audit: Canaries
    seconds: float

    def cells(self) -> list[str]:
        """As a row of the table."""
        a = self.audit
        numbers = [number(a.claim.epsilon), number(a.epsilon_lower), number(a.reachable)]
        return [self.trainer, self.how, *numbers, a.verdict, f"{self.seconds:.1f}"]


def once(peer: Peer, name: str, table: Floats, epsilon: float) -> Row:
    """One run with many canaries."""
    put, train = canaries(CANARIES, table.shape[1]), trainer(peer, name, CANARIES, EPOCHS)
    began = time.perf_counter()
    audit = one_run(train, put, weight, Budget(epsilon, DELTA), data=table, name=name)
    return Row(name, "one run", audit, time.perf_counter() - began)


def often(peer: Peer, name: str, table: Floats, epsilon: float, runs: int) -> Row:
    """Many runs with one canary."""
    (put,), train = canaries(1, table.shape[1]), trainer(peer, name, 1, FEW_EPOCHS)
    began = time.perf_counter()
    data, claim = table[:FEW_ROWS], Budget(epsilon, DELTA)
    audit = many_runs(train, put, weight, claim, data=data, runs=runs, name=name)
    return Row(name, "many runs", audit, time.perf_counter() - began)


def judged(rows: Sequence[Row]) -> list[Claim]:
    """What was aimed at, beside what was found."""
    caught = {row.trainer for row in rows if row.audit.violated}
    missed = {row.trainer for row in rows} - {SOUND} - caught
    return [
        Claim("audits that refute Opacus's claim", sum(r.trainer == SOUND and r.audit.violated for r in rows), 0, ""),
        Claim("slips that neither audit caught", len(missed), 0, ""),
    ]


def main() -> None:
    """Audits the trainers, prints a table and the claims."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", type=Path, required=True, help="the table Adult, as the UCI has it")
    parser.add_argument("--runs", type=int, default=160, help="of the audit with many runs")
    asked = parser.parse_args()
    table, rows = adult(asked.adult, ROWS), []
    with Peer(PEER) as peer:
        # What Opacus claims has nothing to do with the rows: the noise, the sampling and the steps are fixed.
        all_, few = (trainer(peer, SOUND, 1, n)(table[:FEW_ROWS])[0] for n in (EPOCHS, FEW_EPOCHS))
        for name in sorted(peer.mechanisms, key=lambda name: name != SOUND):
            rows += [once(peer, name, table, all_), often(peer, name, table, few, asked.runs)]
    head = ["trainer", "audit", "claimed ε", "ε ≥", "at most", "verdict", "seconds"]
    print(render(head, [row.cells() for row in rows]))
    claims = judged(rows)
    print("", *claims, sep="\n")
    timings = {
        how: [Timing(r.trainer, (Sample(r.seconds, 0.0),)) for r in rows if r.how == how]
        for how in ("one run", "many runs")
    }
    print(save("audit_training", timings, claims))


if __name__ == "__main__":
    main()
