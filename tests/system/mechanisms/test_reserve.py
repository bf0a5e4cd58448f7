"""Noise that is drawn ahead is not shared by processes, however they were started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.mechanisms import Gaussian, Laplace, Numeric
from discreet.noise import entropy

MECHANISMS: list[Numeric] = [Laplace(epsilon="1e-20"), Gaussian(sigma="1e20")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("hook", [True, False], ids=["with the hook", "by the process id alone"])
@pytest.mark.parametrize("left", [0, 1, 100])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_parents_and_children_of_forks_have_noise_of_their_own(mechanism: Numeric, hook: bool, left: int) -> None:
    """Parent, two children and a grandchild of each release the same value from what a common reserve left."""
    mechanism.release(0)
    while len(mechanism._for_wholes._stock[1]) != left:
        mechanism.release(0)
    pipes = []
    for _ in range(2):
        read, write = os.pipe()
        before = entropy._forks
        if os.fork() == 0:
            try:
                if os.fork() == 0 and not hook:
                    entropy._forks = before
                said = "".join(f"{mechanism.release(0)}\n" for _ in range(40))
                os.write(write, said.encode())
            finally:
                os._exit(0)
        os.close(write)
        pipes.append(read)
    released = [mechanism.release(0) for _ in range(40)]
    for read in pipes:
        with os.fdopen(read) as pipe:
            released += [int(line) for line in pipe.read().split()]
        os.wait()
    assert len(released) == len(set(released)) == 200


_PROGRAM = """
import multiprocessing, sys
from discreet.mechanisms import Laplace

shared = Laplace(epsilon="1e-20")
before = [shared.release(0) for _ in range(5)]

def draw(given):
    return shared.release(0), given.release(0)

if __name__ == "__main__":
    print(*before)
    for method in sys.argv[1:]:
        with multiprocessing.get_context(method).Pool(2) as pool:
            for pair in pool.map(draw, [shared] * 20, chunksize=1):
                print(*pair)
    print(shared.release(0))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork here")
def test_workers_started_in_any_way_have_noise_of_their_own(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    ran = subprocess.run(
        [sys.executable, str(program), "fork", "spawn", "forkserver"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    released = ran.stdout.split()
    assert len(released) == len(set(released)) == 5 + 3 * 40 + 1
