"""A device's tally only grows: over restarts, crashes, kills, processes, and whatever is done to its files."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.errors import BudgetExceeded, InvalidParameter, LedgerBusy, LedgerCorrupt, LedgerError
from discreet.local import DeviceBudget, Memoised, RandomizedResponse, device_budget, durable

RESPONSE = RandomizedResponse(5, epsilon=1)
START = "fork" if sys.platform == "linux" else "spawn"


@pytest.fixture(autouse=True)
def restarted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test starts as a fresh process would."""
    monkeypatch.setattr(device_budget, "_newest", {})
    yield


def restart() -> None:
    """What this process remembers is gone."""
    device_budget._newest.clear()


def test_a_charge_is_exact_durable_and_never_more_than_the_budget(tmp_path: Path) -> None:
    budget = DeviceBudget.create(tmp_path / "tally", 1)
    for _ in range(3):
        budget.charge(Fraction(1, 3))
    assert budget.spent == 1 and budget.remaining == 0 and budget.epsilon == 1
    with pytest.raises(BudgetExceeded, match="left") as refused:
        budget.charge(Fraction(1, 10**30))
    assert refused.value.left == "ε = 0"
    restart()
    assert DeviceBudget(tmp_path / "tally").tally.charges == 3
    assert repr(DeviceBudget(tmp_path / "tally")).endswith("1 of 1 spent")
    assert stat.S_IMODE((tmp_path / "tally").stat().st_mode) == 0o600


def test_every_report_is_charged_before_it_is_drawn(tmp_path: Path) -> None:
    budget = DeviceBudget.create(tmp_path / "tally", 3)

    class Watching:
        def bytes(self, n: int, /) -> bytes:
            drawn_at.append(DeviceBudget(tmp_path / "tally").spent)
            return bytes(n)

    drawn_at: list[Fraction] = []
    for i in range(3):
        budget.randomize(RESPONSE, 2, rng=Watching())
        assert set(drawn_at) == {Fraction(i + 1)}
        drawn_at.clear()
    with pytest.raises(BudgetExceeded):
        budget.randomize(RESPONSE, 2, rng=Watching())
    assert drawn_at == []


def test_memoised_answers_are_free_and_new_values_are_not(tmp_path: Path) -> None:
    budget = DeviceBudget.create(tmp_path / "tally", 2)
    daily = Memoised(RESPONSE, tmp_path / "answers")
    assert len({budget.randomize(daily, 3) for _ in range(10)}) == 1 and budget.spent == 1
    budget.randomize(daily, 4)
    assert budget.spent == 2
    budget.randomize(daily, 3)
    with pytest.raises(BudgetExceeded):
        budget.randomize(daily, 0)
    assert not daily.knows(0)


def test_work_starts_when_it_is_paid(tmp_path: Path) -> None:
    budget = DeviceBudget.create(tmp_path / "tally", 1)
    assert budget.paying(1, lambda: budget.spent) == 1
    with pytest.raises(BudgetExceeded):
        budget.paying(1, lambda: pytest.fail("it was not paid"))


def test_there_is_no_second_first_day(tmp_path: Path) -> None:
    path = tmp_path / "tally"
    with pytest.raises(LedgerError, match="there is no budget"):
        DeviceBudget(path)
    DeviceBudget.create(path, 1).charge(1)
    for _ in range(2):
        with pytest.raises(LedgerError, match="is, or was"):
            DeviceBudget.create(path, 1)
        restart()
    path.unlink()  # only one of the two files
    with pytest.raises(LedgerError, match="is, or was"):
        DeviceBudget.create(path, 1)
    with pytest.raises(LedgerCorrupt, match="is gone"):
        DeviceBudget(path)
    with pytest.raises(LedgerError, match="budget of 1 for its life"):
        DeviceBudget(DeviceBudget.create(tmp_path / "other", 1).path, 2)


def test_an_older_tally_is_refused_by_this_process_and_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "tally"
    budget = DeviceBudget.create(path, 5)
    budget.charge(1)
    old, old_seen = path.read_bytes(), path.with_name("tally.seen").read_bytes()
    budget.charge(1)
    path.write_bytes(old)
    for _ in range(2):
        with pytest.raises(LedgerCorrupt, match="older"):
            budget.charge(1)
        restart()  # the companion file still knows
    path.with_name("tally.seen").write_bytes(old_seen)
    assert budget.spent == 1  # both set back, in a fresh process: that cannot be seen
    budget.charge(1)
    path.with_name("tally.seen").write_bytes(old_seen)
    path.write_bytes(old)
    with pytest.raises(LedgerCorrupt, match="older"):
        budget.charge(1)  # but this process has seen more


def test_the_tally_of_another_device_is_refused(tmp_path: Path) -> None:
    one, two = (DeviceBudget.create(tmp_path / name, 5) for name in ("one", "two"))
    one.charge(3)
    (tmp_path / "one").write_bytes((tmp_path / "two").read_bytes())
    for _ in range(2):
        with pytest.raises(LedgerCorrupt, match=r"place|companion"):
            one.charge(1)
        restart()
    assert two.spent == 0
    (tmp_path / "one.seen").unlink()
    (tmp_path / "two.seen").unlink()
    two_ahead = (tmp_path / "two").read_bytes()
    assert DeviceBudget(tmp_path / "two").spent == 0  # nothing was spent: nothing could be lost
    assert (tmp_path / "two").read_bytes() == two_ahead


def test_a_lost_companion_is_refused_once_something_is_spent(tmp_path: Path) -> None:
    budget = DeviceBudget.create(tmp_path / "tally", 5)
    budget.charge(1)
    (tmp_path / "tally.seen").unlink()
    with pytest.raises(LedgerCorrupt, match="companion"):
        budget.charge(1)


def test_no_damage_of_one_byte_lowers_the_tally(tmp_path: Path) -> None:
    path = tmp_path / "tally"
    budget = DeviceBudget.create(path, 5)
    budget.charge(2)
    whole = path.read_bytes()
    for i in range(len(whole)):
        flipped = whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :]
        for bad in (flipped, whole[:i]) if i % 8 == 0 else (flipped,):
            path.write_bytes(bad)
            restart()
            with contextlib.suppress(LedgerCorrupt):
                assert budget.spent >= 2
    for bad in (b"", b"{}", b"7", b"[" * 100_000, b"\xff"):
        path.write_bytes(bad)
        with pytest.raises(LedgerCorrupt, match="damaged"):
            DeviceBudget(path)


STEPS = ["os.open", "os.write", "os.fsync", "pathlib.Path.replace", "os.lseek", "os.fchmod"]


class Crash(BaseException):
    """The machine stops here."""


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_step_loses_no_charge_that_returned(
    step: str, after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tally"
    budget = DeviceBudget.create(path, 100)
    returned, crashed = 0, 0
    module, _, name = step.rpartition(".")
    owner: Any = Path if module == "pathlib.Path" else os
    real = getattr(owner, name)
    for nth in range(8):
        before = budget.spent
        calls = 0

        def stops(*args: Any, nth: int = nth, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls - 1 != nth:
                return real(*args, **kwargs)
            if after:
                real(*args, **kwargs)
            raise Crash

        with monkeypatch.context() as broken:
            broken.setattr(owner, name, stops)
            try:
                budget.charge(1)
                returned += 1
            except Crash:
                crashed += 1
        restart()
        assert budget.spent in ((before, before + 1) if calls > nth else (before + 1,))
        assert budget.spent >= returned
    assert crashed > 0 and budget.spent <= returned + crashed
    budget.charge(1)


@pytest.mark.parametrize("step", ["os.open", "os.write", "os.fsync", "os.lseek"])
def test_a_failing_disk_is_an_error_of_the_ledger_and_no_report(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = DeviceBudget.create(tmp_path / "tally", 5)

    class Silent:
        def bytes(self, n: int, /) -> bytes:
            raise AssertionError("a report was drawn")

    def fails(*args: object, **kwargs: object) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(step, fails)
        with pytest.raises(LedgerError, match="Input/output"):
            budget.randomize(RESPONSE, 1, rng=Silent())
    assert budget.remaining >= 4


def _spends(path: str, n: int) -> int:
    budget, paid = DeviceBudget(path), 0
    for _ in range(n):
        try:
            budget.charge(1)
            paid += 1
        except BudgetExceeded:
            pass
    return paid


def test_processes_share_one_budget(tmp_path: Path) -> None:
    path = DeviceBudget.create(tmp_path / "tally", 40).path
    with multiprocessing.get_context(START).Pool(3) as pool:
        paid = pool.starmap(_spends, [(path, 25)] * 3)
    assert sum(paid) == 40 == DeviceBudget(path).spent


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")
def test_a_killed_process_has_paid_for_all_that_it_said(tmp_path: Path) -> None:
    path = DeviceBudget.create(tmp_path / "tally", 10**6).path
    code = (
        "import sys\nfrom discreet.local import DeviceBudget\n"
        f"budget = DeviceBudget({path!r})\n"
        "while True:\n    budget.charge(1)\n    print('x', flush=True)\n"
    )
    said = 0
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert process.stdout is not None
        for _ in range(7):
            said += len(process.stdout.readline()) > 0
        process.kill()
        said += len(process.stdout.read().split())
        process.wait()
        process.stdout.close()
        restart()
        assert said <= DeviceBudget(path).spent <= said + 2


def test_whoever_waits_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = DeviceBudget.create(tmp_path / "tally", 5)
    monkeypatch.setattr(durable, "_PATIENCE", 0.02)
    with durable.exclusive(f"{budget.path}.seen"), pytest.raises(LedgerBusy, match="too long"):
        budget.charge(1)
    budget.charge(1)


def test_a_link_leads_to_the_same_tally(tmp_path: Path) -> None:
    budget = DeviceBudget.create(tmp_path / "tally", 5)
    (tmp_path / "link").symlink_to(tmp_path / "tally")
    DeviceBudget(tmp_path / "link").charge(2)
    assert budget.spent == 2 and (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "x", None, True], ids=repr)
def test_impossible_amounts_are_refused(bad: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        DeviceBudget.create(tmp_path / "tally", bad)
    budget = DeviceBudget.create(tmp_path / "tally", 5)
    with pytest.raises(InvalidParameter, match="epsilon"):
        budget.charge(bad)
    assert budget.spent == 0


def test_a_tally_does_not_grow_without_bound(tmp_path: Path) -> None:
    budget = DeviceBudget.create(tmp_path / "tally", 5)
    with pytest.raises(InvalidParameter, match="digits"):
        for i in range(100):
            budget.charge(Fraction(1, 10**390 + i))
    budget.charge(1)
    assert (tmp_path / "tally").stat().st_size < 4096


def test_values_of_several_devices_are_refused_before_anything_is_charged(tmp_path: Path) -> None:
    budget = DeviceBudget.create(tmp_path / "tally", 5)
    for randomizer in (RESPONSE, Memoised(RESPONSE)):
        with pytest.raises(InvalidParameter, match="one device"):
            budget.randomize(randomizer, np.array([1, 2]))
    assert budget.spent == 0


def test_threads_share_one_budget(tmp_path: Path) -> None:
    path = DeviceBudget.create(tmp_path / "tally", 30).path
    with ThreadPoolExecutor(3) as pool:
        paid = list(pool.map(_spends, [path] * 3, [15] * 3))
    assert sum(paid) == 30 == DeviceBudget(path).spent
