"""The default tier of tests, many times in a row beside a load on every core: `python -m benchmarks.tests --runs 20`.

None may fail. Tests draw the same in every run (`tests/seeded.py`); what differs is the order in which two workers take
them, the order of sets, and how long everything takes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SPIN = "while True: sum(range(10_000))"


def run(number: int) -> bool:
    """Run the default tier once, say what it took, and return whether all passed."""
    began, before = time.monotonic(), os.times()
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2"]
    with tempfile.TemporaryFile("w+") as out:
        status = subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, check=False).returncode
        out.seek(0)
        text = out.read()
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    last = text.strip().splitlines()[-1]
    print(f"{number:3}: {time.monotonic() - began:5.0f} s, CPU {used:5.0f} s: {last}", flush=True)
    if status:
        print(text[text.find("= FAILURES") :] if "= FAILURES" in text else text)
    return status == 0


def main() -> None:
    """Run as often as is asked, and fail when a run did."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tests", description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--load", type=int, default=os.cpu_count() or 2, help="processes that keep a core busy")
    asked = parser.parse_args()
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(asked.load)]
    try:
        passed = [run(number) for number in range(1, asked.runs + 1)]
    finally:
        for process in spinning:
            process.kill()
            process.wait()
    print(f"{sum(passed)} of {asked.runs} runs passed")
    sys.exit(sum(passed) < asked.runs)


if __name__ == "__main__":
    main()
