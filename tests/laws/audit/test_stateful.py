"""State probes find each kind of broken twin, and leave sound mechanisms alone."""

from __future__ import annotations

import functools
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.audit.finding import Probe
from discreet.audit.outputs.sampling import Sampler
from discreet.audit.probes import processes
from discreet.audit.probes.stateful import Yardstick, probe_state, stream
from discreet.errors import InvalidParameter
from discreet.mechanisms import Geometric, Laplace
from tests.audit import twins

NAMES = ("repeated calls", "fork", "copies", "seeds", "new processes", "threads")


def probed(mechanism: Callable[..., object], **options: Any) -> dict[str, Probe]:
    found = probe_state(mechanism, 0, **{"fork": True, "seconds": 30, **options})
    return {p.name: p for p in found}


def violated(probes: dict[str, Probe]) -> set[str]:
    return {name for name, p in probes.items() if p.verdict == "violated"}


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        (twins.copied_by_fork, {"fork", "new processes"}),
        (twins.fresh_copied_by_fork, {"fork"}),
        (twins.seedable, {"fork", "seeds"}),
        (twins.seedable_plainly, {"seeds"}),  # the standard library seeds itself anew after a fork
        (twins.seed_in_each_thread, {"fork", "new processes", "threads"}),
        (twins.Holder(), {"fork", "copies", "new processes"}),
        (twins.ForkUnaware(), {"fork", "copies", "new processes"}),
    ],
    ids=lambda v: getattr(v, "__name__", type(v).__name__) if callable(v) else "",
)
def test_broken_twins_are_found(mechanism: Callable[..., object], expected: set[str]) -> None:
    probes = probed(mechanism)
    assert tuple(probes) == NAMES
    assert violated(probes) == expected, probes
    for name in expected:
        assert "the same" in probes[name].words


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "mechanism",
    [twins.sound, twins.coin, Geometric(epsilon=1).release, Laplace(epsilon="0.1").release],
    ids=["sound", "coin", "geometric", "laplace"],
)
def test_sound_mechanisms_are_not_accused(mechanism: Callable[..., object]) -> None:
    probes = probed(mechanism)
    assert {p.verdict for p in probes.values()} == {"consistent"}, probes
    assert tuple(probes) == NAMES


def test_a_function_that_cannot_be_sent_is_skipped_with_a_reason() -> None:
    probes = probed(lambda x: twins.sound(x))
    assert violated(probes) == set()
    assert probes["new processes"].verdict == "skipped"
    assert "define it in a module" in probes["new processes"].words
    assert probed(lambda x: float("nan") + x)["repeated calls"].verdict == "consistent"


def test_a_factory_makes_the_mechanism_anew_in_each_process() -> None:
    found = probe_state(x=0, factory=twins.Holder, fork=False, seconds=20)
    probes = {p.name: p for p in found}
    assert probes["new processes"].verdict == "consistent"
    assert probes["fork"].verdict == "skipped"
    assert probes["copies"].verdict == "violated"


@pytest.mark.parametrize("mechanism", [twins.cached, lambda x: x, lambda x: 1 / 0])
def test_the_same_output_again_and_again_is_said_and_not_accused(mechanism: Callable[..., object]) -> None:
    (only,) = probe_state(mechanism, 0, fork=True, seconds=5)
    assert (only.name, only.verdict) == ("repeated calls", "consistent")
    assert "cached" in only.words


@pytest.mark.parametrize("most", [4150, 5000])
def test_a_mechanism_that_stops_answering_is_not_accused(most: int) -> None:
    assert violated(probed(twins.Exhausted(most))) == set()


def test_a_thread_that_blocks_ends_the_probe_in_time() -> None:
    started = time.monotonic()
    probes = probed(twins.blocks_in_threads, seconds=20)
    assert probes["threads"].verdict == "suspicious"
    assert "did not return" in probes["threads"].words
    assert time.monotonic() - started < 300  # a loaded machine takes its time
    twins.RELEASED.set()


def test_a_child_that_blocks_is_ended_and_waited_for() -> None:
    parent = os.getpid()

    def blocks_in_children(x: float) -> float:
        if os.getpid() != parent:
            time.sleep(1000)
        return twins.sound(x)

    started = time.monotonic()
    probe = probed(blocks_in_children, seconds=2)["fork"]
    assert probe.verdict == "suspicious"
    assert time.monotonic() - started < 300
    with processes.forked(lambda: time.sleep(1000)) as child:
        assert child.result(0.1) is None
    with pytest.raises(ProcessLookupError):  # not even a dead one is left
        os.kill(child.pid, 0)


def test_a_slow_mechanism_is_given_up_in_time() -> None:
    def slow(x: float) -> float:
        time.sleep(0.02)
        return twins.sound(x)

    started = time.monotonic()
    probes = probed(slow, seconds=2)
    assert {p.verdict for p in probes.values()} <= {"consistent", "skipped"}
    assert time.monotonic() - started < 10


def test_seeds_are_left_as_they_were() -> None:
    plain, arrays = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]  # a tuple
    probed(twins.sound)
    assert random.getstate() == plain
    assert np.random.get_state()[1].tolist() == arrays  # type: ignore[index]  # a tuple


def test_torch_is_seeded_where_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Torch:
        """The three functions of torch that are used, on a generator of numpy's."""

        rng = np.random.default_rng()

        def manual_seed(self, seed: int) -> None:
            self.rng = np.random.default_rng(seed)

        def get_rng_state(self) -> object:
            return self.rng.bit_generator.state

        def set_rng_state(self, state: Any) -> None:
            self.rng.bit_generator.state = state

    torch = Torch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    probe = probed(lambda x: x + torch.rng.laplace(), fork=False)["seeds"]
    assert probe.verdict == "violated"
    assert probe.words.startswith("After torch.manual_seed(")


def test_duckdb_is_not_forked_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", sys)
    probe = probed(twins.sound, fork=None)["fork"]
    assert (probe.verdict, "DuckDB" in probe.words) == ("skipped", True)


def test_a_budget_that_is_checked_before_it_is_spent_is_spent_twice(tmp_path: Path) -> None:
    found = probe_state(accounts=functools.partial(twins.open_careless, tmp_path, 6), answers=6)
    assert [(p.name, p.verdict) for p in found] == [
        ("double spending, threads", "violated"),
        ("double spending, processes", "violated"),
    ]
    assert all(p.details["given"] > 6 for p in found)


def test_a_budget_that_is_spent_in_one_statement_is_spent_once(tmp_path: Path) -> None:
    found = probe_state(accounts=functools.partial(twins.open_careful, tmp_path, 25), answers=25)
    assert [p.verdict for p in found] == ["consistent", "consistent"]
    assert [p.details["given"] for p in found] == [25, 25]


@pytest.mark.slow
def test_the_ledger_is_spent_once_from_threads_and_processes(tmp_path: Path) -> None:
    found = probe_state(accounts=functools.partial(twins.open_session, tmp_path, 5), answers=5)
    assert [p.verdict for p in found] == ["consistent", "consistent"]
    assert [p.details["given"] for p in found] == [5, 5]


def test_accounts_that_cannot_be_sent_are_probed_in_threads_only() -> None:
    left = [3]

    def spend() -> bool:
        left[0] -= 1
        return left[0] >= 0

    found = probe_state(accounts=lambda: spend, answers=3)
    assert [p.verdict for p in found] == ["consistent", "skipped"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a mechanism"),
        ({"mechanism": twins.sound, "factory": twins.Holder}, "not both"),
        ({"mechanism": twins.sound, "error": 0}, "error"),
        ({"mechanism": twins.sound, "seconds": 0}, "seconds"),
        ({"mechanism": twins.sound, "answers": 0}, "answers"),
        ({"mechanism": 3}, "callable"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        probe_state(**options)


def test_the_bound_on_collisions_holds() -> None:
    # two-sided geometric noise with a = e^-3: Σ p² = ((1−a)/(1+a))² (1 + a²)/(1 − a²)
    a = np.exp(-3)
    truth = ((1 - a) / (1 + a)) ** 2 * (1 + a**2) / (1 - a**2)
    stick = Yardstick.of(Sampler(twins.coin, 0), comparisons=64, seconds=2, error=1e-9)
    assert stick is not None
    assert truth < stick.collision < truth + 0.1
    assert 64 * stick.length**2 * stick.collision**stick.run <= 1e-9
    same, other = (stream(twins.coin, 0, stick.length) for _ in range(2))
    assert stick.shared(same, same)
    assert stick.shared(same[5:] + other[:5], same)
    assert not stick.shared(same, other)
    assert not stick.tells([None] * stick.length)
    assert not stick.tells([1] * stick.length)


def test_a_job_that_fails_says_why_and_one_that_blocks_is_ended() -> None:
    import pickle

    fails = pickle.dumps((int, ("x",)))
    sleeps = pickle.dumps((time.sleep, (1000,)))
    prints = pickle.dumps((print, ("noise",)))
    started = time.monotonic()
    results = processes.fresh([fails, sleeps, prints], 20)  # on a loaded machine an interpreter starts in ten seconds
    assert results[0].startswith("failed: ValueError")
    assert results[1:] == [None, None]
    assert time.monotonic() - started < 300


def test_a_probe_runs_from_a_plain_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\n"
        "from discreet.audit.probes.stateful import probe_state\n"
        "def mechanism(x):\n    return x + np.random.laplace()\n"
        "for p in probe_state(mechanism, 0.0, seconds=10):\n    print(p.name, '=', p.verdict)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=True)
    assert "fork = violated" in done.stdout
    assert "seeds = violated" in done.stdout
    assert "new processes = skipped" in done.stdout
