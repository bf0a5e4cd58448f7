"""A run goes on in one place only: no copies, no forks, no more answers than were paid for."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.mechanisms import SparseVector
from discreet.mechanisms.sparse_vector import SparseRun
from discreet.noise.entropy import SystemEntropy


def sharp(cutoff: int = 2) -> SparseVector:
    return SparseVector(epsilon=10**6, threshold=5, cutoff=cutoff)


def test_a_run_answers_until_the_cutoff_and_refuses_after_it() -> None:
    run = sharp().start()
    assert isinstance(run, SparseRun)
    assert [run.ask(x) for x in (1, 9, 2)] == [False, True, False]
    assert (run.asked, run.left, run.halted) == (3, 1, False)
    assert run.ask(7) is True
    assert run.halted and repr(run) == "<SparseRun: 4 asked, 0 left>"
    for value in (1, 9):
        with pytest.raises(InvalidParameter, match="over") as caught:
            run.ask(value)
        assert "another run" in caught.value.hint
    assert run.asked == 4


def test_numbers_come_for_those_above_and_none_for_the_others() -> None:
    run = SparseVector(epsilon=10**6, threshold=5, cutoff=2, answers="gap").start()
    assert [run.ask(x) for x in (1, 9)] == [None, 9]
    fresh = SparseVector(epsilon=10**6, threshold=5, cutoff=2, answers=0.5).start()
    assert fresh.ask(1.5) is None
    assert fresh.ask(9.25) == pytest.approx(9.25, abs=1e-3)


def test_all_answers_of_a_run_share_one_noisy_threshold() -> None:
    # Asked the same far question twice by runs without a cut-off in reach, the noisy threshold stays as drawn.
    levels = set()
    for _ in range(50):
        run = SparseVector(epsilon="0.001", threshold=0).start()
        run.ask(-(10**9))
        first = run._level
        run.ask(-(10**9))
        assert run._level == first
        levels.add(first)
    assert len(levels) > 40  # and every run has its own


def test_the_first_question_fixes_the_type() -> None:
    run = sharp().start()
    run.ask(1)
    with pytest.raises(InvalidParameter, match="began with an integer"):
        run.ask(1.5)
    assert run.asked == 1
    small = SparseVector(epsilon=1, threshold=0, sensitivity="0.5").start()
    with pytest.raises(InvalidParameter, match="below 1"):
        small.ask(3)
    small.ask(0.5)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "7", None, True, [1], np.array([1])], ids=repr)
def test_what_is_no_number_is_refused_and_not_counted(value: object) -> None:
    run = sharp().start()
    with pytest.raises(InvalidParameter):
        run.ask(value)
    assert run.asked == 0


def test_a_run_is_neither_copied_nor_pickled() -> None:
    run = sharp().start()
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            duplicate(run)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_child_of_a_fork_is_refused_and_the_parent_goes_on() -> None:
    run = sharp().start()
    run.ask(1)
    child = os.fork()
    if not child:  # pragma: no cover - in the child, which must not go back into pytest
        refused = False
        try:
            run.ask(9)
        except InvalidParameter as error:
            refused = "another process" in str(error)
        finally:
            os._exit(0 if refused else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert run.ask(9) is True


def test_a_question_in_the_middle_of_another_is_refused_and_does_not_wait_for_ever() -> None:
    runs: list[SparseRun] = []
    caught: list[InvalidParameter] = []

    class Interrupted:
        """Entropy in the middle of which a signal handler asks."""

        def __init__(self) -> None:
            self.kept = SystemEntropy()

        def bytes(self, n: int, /) -> bytes:
            if not caught:
                with pytest.raises(InvalidParameter, match="in the middle") as refused:
                    runs[0].ask(9)
                caught.append(refused.value)
            return self.kept.bytes(n)

    runs.append(sharp(1).start(rng=Interrupted()))
    assert runs[0].ask(9) is True
    assert caught and runs[0].asked == 1


def test_threads_get_no_more_than_the_cutoff() -> None:
    run = sharp(cutoff=50).start()
    start = threading.Barrier(4)

    def ask(_: int) -> int:
        start.wait()
        got = 0
        while True:
            try:
                got += bool(run.ask(9))
            except InvalidParameter:
                return got

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(ask, range(4))) == 50


def test_questions_may_depend_on_answers() -> None:
    # Binary search, with a question that follows from the answers before it.
    run, low, high = SparseVector(epsilon=10**6, threshold=0, cutoff=64).start(), 0, 1 << 20
    hidden = 123_456
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if run.ask(hidden - middle) else (low, middle)
    assert low == hidden
