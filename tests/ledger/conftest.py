"""What the ledger's tests share: charges of a given ε, ledgers in a fresh folder, and children by fork."""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

import pytest

from discreet.accounting.filter import Charge
from discreet.ledger.ledger import Ledger
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.guarantee import Approximate

MakeCharge: TypeAlias = Callable[..., Charge]
Fork: TypeAlias = Callable[[Callable[[], object]], int]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "customers.ledger"


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger.open(path)


@pytest.fixture
def pay() -> MakeCharge:
    """The charge of one use of an (ε, δ)-DP mechanism."""

    def charge(epsilon: str | int, delta: str | int = 0) -> Charge:
        e, d = Fraction(epsilon), Fraction(delta)
        return Charge(Composed([ApproximateEvent(e, d)]), Approximate(e, d))

    return charge


@pytest.fixture
def fork() -> Fork:
    """Run some work in a forked child and return its id; its status is 0 when the work returns nothing."""
    if not hasattr(os, "fork"):
        pytest.skip("no fork on this system")

    def start(work: Callable[[], object]) -> int:
        sys.stdout.flush()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # of threads of the test runner, which the child never uses
            pid = os.fork()
        if pid:
            return pid
        status = 99
        signal.alarm(120)  # a child that hangs ends, and fails its test
        try:
            status = int(bool(work()))
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)

    return start


@pytest.fixture
def ended() -> Callable[[int], int]:
    """The exit status of a child; negative when a signal killed it."""
    return lambda pid: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
