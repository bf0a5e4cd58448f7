"""The accountant against every other that installs: who tells the truth, and what it costs.

    python -m benchmarks.accounting                     ours, beside the recorded answers of the others
    python -m benchmarks.accounting --peers             the others' times as well, in turns with ours
    python -m benchmarks.accounting --record            asks the others again, and stores their answers

The table of truth sets each accountant's ε beside the truth with 256 bits (`benchmarks.accounting_truth`). An
answer below the truth promises more privacy than there is. `python -m benchmarks.peers NAME` makes the
environment of another accountant; without any, the answers in accounting_answers.json stand for them.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import accounting_sweep, accounting_truth, pace, peers
from benchmarks.accounting_cases import CASES
from benchmarks.accounting_peers import ACCOUNTANTS
from benchmarks.runner import RESULTS, ROOT, Claim, Contender, Timing, alternate, in_subprocess, save, table

ANSWERS = Path(__file__).with_name("accounting_answers.json")
OURS, LOWER = "discreet", "discreet, lower bound"
MODULE = "benchmarks.accounting_peers"
PATIENCE = 60.0  # seconds of wall clock for all the answers of one accountant in one case
ROUNDING = 1e-12  # relative; what is nearer to the truth than this is not below it

Answer = float | str | None
Answers = Mapping[str, Mapping[str, Mapping[str, Answer]]]
"""Accountant → case → δ → ε, or what it said instead."""

LIMITS = {  # seconds of CPU
    "W1-1000": 0.025, "W1-10000": 0.025, "W1-100000": 0.025, "W1-short": 0.25, "W1-one": 0.25,
    "W2-distinct": 0.15, "W3-0": 0.06, "W3-1": 0.06, "W3-2": 0.06,
}  # fmt: skip


def python_of(name: str) -> Path | None:
    """The interpreter in which an accountant lives, or None when its environment was not made."""
    environment = ACCOUNTANTS[name][0]
    return peers.python_of(environment) if environment else Path(sys.executable)


def ask(name: str, case: str) -> dict[str, Answer]:
    """What one accountant answers to one case; a time-out keeps what had been said."""
    python = python_of(name)
    assert python is not None
    command = [str(python), "-m", MODULE, name, case, "value"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
        said, ending = (done.stdout, "" if done.returncode == 0 else (done.stderr.strip() or "?").splitlines()[-1])
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode()
        ending = f"more than {PATIENCE:.0f} s"
    lines = [line for line in said.splitlines() if line.startswith("answers: ")]
    found: dict[str, Answer] = json.loads(lines[-1].removeprefix("answers: ")) if lines else {}
    if ending:
        found |= {delta: ending[:160] for delta in CASES[case].deltas if delta not in found}
    return found


def gather(name: str) -> dict[str, dict[str, Answer]]:
    """All answers of one accountant."""
    found = {case: answers for case in CASES if (answers := ask(name, case))}
    print(f"asked {name}", file=sys.stderr, flush=True)
    return found


def record(names: Sequence[str]) -> None:
    """Asks the others whose environments exist, and stores their answers; the rest stays as it was."""
    for name in names:
        if python_of(name) is None:
            continue
        fresh = gather(name)
        stored = json.loads(ANSWERS.read_text(encoding="utf-8")) if ANSWERS.exists() else {"answers": {}}
        known = {**stored["answers"], name: fresh}
        answers = {one: known[one] for one in ACCOUNTANTS if one in known}
        packages = sorted({ACCOUNTANTS[one][0] for one in answers})
        versions = [next(x for x in peers.PEERS[package] if "==" in x) for package in packages]
        kept = {"command": "python -m benchmarks.accounting --record", "versions": versions, "answers": answers}
        ANSWERS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def truth_table(answers: Answers) -> Iterator[str]:
    """Markdown: a row for each case and δ, the truth, and every accountant's answer with its distance."""
    truths = accounting_truth.load()
    for case in CASES.values():
        names = [name for name in answers if name != LOWER and case.name in answers[name]]
        yield f"\n### {case.name}: {describe(case.name)}\n"
        yield "| accountant | " + " | ".join(f"δ = {delta}" for delta in case.deltas) + " |"
        yield "|---|" + "---|" * len(case.deltas)
        known = truths.get(case.name, {})
        bits = [f"**{known[d]:.10g}**" if d in known else "not known" for d in case.deltas]
        yield "| **truth** | " + " | ".join(bits) + " |"
        lower = answers.get(LOWER, {}).get(case.name, {})
        for name in names:
            cells = [cell(answers[name][case.name].get(d), known.get(d), lower.get(d)) for d in case.deltas]
            yield f"| {name} | " + " | ".join(cells) + " |"


def describe(name: str) -> str:
    """A case in words."""
    case = CASES[name]
    sampled = f"σ = {case.sigma}, q = {case.rate}, T = {case.steps:,}"
    return {
        "sgd": f"ε of DP-SGD, {sampled}",
        "gaussian": f"ε of Gaussian noise, σ = {case.sigma}, {case.steps:,} times",
        "response": f"ε of {case.epsilon}-DP randomized response, {case.steps:,} times",
        "mixed": f"ε of {case.steps:,} mechanisms of four families"
        + (", all of them different" if case.distinct else ", about forty different ones"),
        "noise": f"least σ for ε = {case.epsilon}, q = {case.rate}, T = {case.steps:,}",
        "fixed": f"ε of samples of {case.batch} of {case.records:,} without replacement, σ = {case.sigma}, "
        f"T = {case.steps:,}",
    }[case.kind]


def cell(answer: Answer, truth: float | None, lower: Answer) -> str:
    """An answer, and how far from the truth it is; or, where that is not known, from our lower bound."""
    if not isinstance(answer, float | int):
        return "no answer" if answer is None else str(answer).split(":")[0]
    if not math.isfinite(answer):
        return "∞"
    if truth is not None:
        if answer < truth * (1 - ROUNDING):
            return f"{answer:.8g} **BELOW by {(truth - answer) / truth:.2g}**"
        return f"{answer:.8g} (+{max(answer - truth, 0) / truth:.1e})"
    proven = isinstance(lower, float | int) and answer < lower
    return f"{answer:.8g}" + (" **BELOW a proven bound**" if proven else "")


def precision(answers: Answers) -> list[Claim]:
    """How far our answers are from the truth, and that none is below."""
    worst, beneath = 0.0, 0
    for case, row in accounting_truth.load().items():
        for delta, truth in row.items():
            ours, low = answers[OURS].get(case, {}).get(delta), answers[LOWER].get(case, {}).get(delta)
            if not isinstance(ours, float | int):
                beneath += 1
                print(f"{case} at {delta}: {ours}")
                continue
            beneath += ours < truth * (1 - ROUNDING)
            beneath += isinstance(low, float | int) and low > truth * (1 + ROUNDING)
            if ours - truth > 1e-9:
                worst = max(worst, (ours - truth) / truth)
    return [
        Claim("answers that are below the truth, or missing, or lower bounds above it", beneath, 0, ""),
        Claim("largest relative distance to the truth, beyond 1e-9", worst, 1e-6, ""),
    ]


def times(
    names: Sequence[str], answers: Answers, cases: Sequence[str], rounds: int
) -> tuple[dict[str, list[Timing]], list[Claim]]:
    """What the first δ of each case costs, every accountant in turns with ours, each in a process of its own."""
    found: dict[str, list[Timing]] = {}
    claims = []
    for case in cases:
        first = CASES[case].deltas[0]
        answering = [n for n in names if isinstance(answers.get(n, {}).get(case, {}).get(first), float | int)]
        if OURS not in answering:
            continue
        title = f"{case}: {describe(case)}, δ = {first}"
        found[title] = alternate(
            [
                Contender(name, partial(in_subprocess, MODULE, name, case, "time", python=python_of(name)))
                for name in answering
            ],
            rounds=rounds,
            warmup=0,
        )
        print(f"\n{title}\n{table(found[title], baseline=OURS)}", flush=True)
        ours = found[title][0]
        if case in LIMITS:
            claims.append(Claim(f"{case}, {describe(case)}", 1e3 * ours.cpu, 1e3 * LIMITS[case], "ms of CPU"))
        if ours.peak_mb is not None:
            claims.append(Claim(f"{case}: peak memory of the process", ours.peak_mb, 100, "MB"))
    return found, claims


def importing(rounds: int) -> tuple[list[Timing], Claim]:
    """What the import costs in a process that has numpy and scipy already."""
    [timing] = alternate([Contender("import", partial(in_subprocess, MODULE, OURS, "W5", "import"))], rounds=rounds)
    return [timing], Claim("import of the accountant beyond numpy and scipy", 1e3 * timing.cpu, 50, "ms of CPU")


def main() -> None:
    """Asks, measures, prints the tables and the claims, and writes both files of results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), help="time only these")
    parser.add_argument("--peers", action="store_true", help="time the others too, where they are installed")
    parser.add_argument("--record", nargs="*", metavar="NAME", help="ask the others, or these, again, and stop")
    options = parser.parse_args()
    others = [name for name, (environment, _) in ACCOUNTANTS.items() if environment]
    if options.record is not None:
        record(options.record or others)
        return
    recorded: dict[str, Any] = json.loads(ANSWERS.read_text(encoding="utf-8"))["answers"]
    answers: Answers = {
        **{name: gather(name) for name in (OURS, LOWER)},
        **{name: recorded[name] for name in others if name in recorded},
    }
    lines = list(truth_table(answers))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "accounting.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(*lines, sep="\n")
    claims = precision(answers)
    timed = [OURS, *(n for n in others if options.peers and python_of(n) is not None)]
    factors = [pace.slowness()]
    timings, more = times(timed, answers, options.cases, options.rounds)
    timings["import"], last = importing(options.rounds)
    factors.append(pace.slowness())
    results = accounting_sweep.sweep(accounting_sweep.SEED, accounting_sweep.CASES)
    factors.append(pace.slowness())
    print("\nThe slowest of the random runs, beside what they may take:", *accounting_sweep.slowest(results), sep="\n")
    claims += [*more, last, *accounting_sweep.claims(results)]
    print("", *claims, "", pace.report(factors), sep="\n")
    print(save("accounting", timings, claims))


if __name__ == "__main__":
    main()
