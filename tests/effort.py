"""CPU time of the default tier: a test that takes far more than 2 s fails; the end of a run names what took longest."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from fractions import Fraction

import pytest

from tests.tiers import is_default

MOST = 2.0
"""Seconds of CPU time that a default test may take, its fixtures too; the end of a run names those that took more."""

VARIES = 2.0
"""How many times as long the same work may take beside other work, which shares the caches (1.6 times was measured).

A test that takes more fails; one within its limit does not fail by chance.
"""

LONG = 20.0
"""Seconds by the clock from which the end of a run names a default test: a loaded machine is no failure."""

USUAL = 0.0065
"""Seconds of CPU time of `_work` where the tests were measured."""

_STARTED = pytest.StashKey[tuple[float, float]]()


def cpu() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def slowness(tries: int = 20) -> float:
    """Return how many times slower than usual this machine is at the moment, and at least 1."""
    before = time.process_time()
    for _ in range(tries):
        _work()
    return max(1.0, (time.process_time() - before) / tries / USUAL)


def _work() -> Fraction:
    return sum((Fraction(1, n) for n in range(1, 3000)), Fraction())


def too_much(used: float) -> bool:
    """Return whether a default test took more CPU time than it may, whatever ran beside it."""
    return used > VARIES * MOST and used > VARIES * MOST * slowness()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Start to count."""
    item.stash[_STARTED] = cpu(), time.monotonic()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a default test that took too much CPU time, and remember what each took."""
    yield
    began = item.stash[_STARTED]
    used, passed = cpu() - began[0], time.monotonic() - began[1]
    if is_default(item):
        item.user_properties.append(("effort", (used, passed)))
        if too_much(used):
            pytest.fail(
                f"{used:.1f} s of CPU time: a default test may take {MOST:g} s. Make it cheaper, or give it another"
                " tier (CONTRIBUTING.md).",
                pytrace=False,
            )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much CPU time the default tests took, and which took long."""
    efforts: list[tuple[float, float, str]] = []
    for report in (r for reports in terminalreporter.stats.values() for r in reports):
        if isinstance(report, pytest.TestReport) and report.when == "teardown":
            found = dict(report.user_properties).get("effort")
            if isinstance(found, tuple | list):
                efforts.append((found[0], found[1], report.nodeid))
    if efforts:
        used = sorted(efforts, reverse=True)
        terminalreporter.write_line(f"{sum(e[0] for e in used):.0f} s of CPU time in default tests; the most in")
        above = [u for u in used if u[0] > MOST]
        for seconds, _, name in used[: max(5, len(above))]:
            terminalreporter.write_line(f"{seconds:6.2f} s  {name}")
        for _, passed, name in sorted(efforts, key=lambda e: -e[1]):
            if passed > LONG:
                terminalreporter.write_line(f"warning: {passed:.0f} s by the clock in {name}", yellow=True)
