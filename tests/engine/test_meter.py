"""The meter draws what was paid for, once each, and tells nothing else, whatever fails."""

from __future__ import annotations

import dis
import inspect
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from discreet.engine.cells import measured, uses_of
from discreet.engine.meter import Meter, PlannedUse, PrivateReads, Reserved, follow
from discreet.engine.recipe import Draw, Running
from discreet.errors import BackendFailed, InternalError, redacted
from discreet.noise.entropy import Entropy, SystemEntropy
from tests.engine.reachable import reachable
from tests.plan.tables import planned

GROUPED = "SELECT region, COUNT(*) AS n, SUM(amount) AS s FROM visits GROUP BY region"
PRIVATE = 271828182845904523  # longer than an address
ROWS: list[tuple[Any, ...]] = [(1, str(PRIVATE), "7")]


@dataclass(frozen=True, slots=True)
class Told(PlannedUse):
    """A use that reads a private number and does something with it."""

    work: Callable[[int], Any]

    def draw(self, exact: PrivateReads, args: Any, rng: Entropy) -> Any:
        private = int(exact.read("SELECT", False)[0][1])
        return self.work(private)


def meter(*uses: PlannedUse, read: Callable[[str, bool], list[tuple[Any, ...]]] = lambda text, keyed: ROWS) -> Meter:
    return Meter(uses, read, SystemEntropy())


def fail(error: BaseException) -> Callable[[int], Any]:
    def work(private: int) -> Any:
        raise error

    return work


def test_a_use_is_drawn_once_and_never_again() -> None:
    own = meter(*uses_of(planned(GROUPED)))
    own.draw(Draw("column 0", [("south",)]))
    with pytest.raises(InternalError, match="drawn already"):
        own.draw(Draw("column 0", [("south",)]))
    with pytest.raises(InternalError, match="ended"):  # it is closed then, for what was not drawn as well
        own.draw(Draw("column 1", [("south",)]))
    assert own.journal == ["column 0"]


def test_what_was_not_planned_is_not_drawn() -> None:
    with pytest.raises(InternalError, match="not paid for"):
        meter(*uses_of(planned(GROUPED))).draw(Draw("column 2", []))


def test_two_uses_of_one_name_are_refused() -> None:
    with pytest.raises(InternalError, match="same name"):
        meter(Told("a", str), Told("a", str))


def test_a_column_at_a_key_that_is_not_there_is_noise_about_0() -> None:
    query = planned(GROUPED, epsilon=15)
    noisy = meter(*uses_of(query)).draw(Draw("column 1", [("nowhere",), ("north",)]))
    assert all(abs(n) < 20 * query.allocation.noises[1].quantile("0.999") for n in noisy)


def test_of_many_threads_one_has_a_use() -> None:
    own, had, refused = meter(Told("a", lambda private: 1)), [], []
    ready = threading.Barrier(8)

    def draw() -> None:
        ready.wait()
        try:
            had.append(own.draw(Draw("a")))
        except InternalError:
            refused.append(1)

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(had), len(refused)) == (1, 7)


def test_a_forked_child_draws_nothing() -> None:
    own = meter(Told("a", lambda private: 1))
    child = os.fork()
    if child == 0:
        try:
            own.draw(Draw("a"))
        except InternalError:
            os._exit(3)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert own.draw(Draw("a")) == 1


def test_a_child_that_private_code_forks_is_given_nothing() -> None:
    home = os.getpid()
    own = meter(Told("a", lambda private: os.fork()))
    try:
        child = own.draw(Draw("a"))
    except InternalError:
        os._exit(3 if os.getpid() != home else 4)
    if os.getpid() != home:
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3


def test_it_is_not_pickled() -> None:
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(meter())


@pytest.mark.parametrize(
    ("raised", "wanted"),
    [
        (ValueError(f"{PRIVATE} is no number"), InternalError),
        (ZeroDivisionError(), InternalError),
        (MemoryError(), InternalError),
        (BackendFailed("The database failed. The charge stands."), BackendFailed),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (SystemExit(3), SystemExit),
    ],
)
def test_a_failure_says_nothing_of_the_data(raised: BaseException, wanted: type[BaseException]) -> None:
    own = meter(Told("a", fail(raised)), Told("b", str))
    with pytest.raises(wanted) as caught:
        own.draw(Draw("a"))
    says_nothing(caught.value)
    with pytest.raises(InternalError, match="ended"):
        own.draw(Draw("b"))


def says_nothing(error: BaseException) -> None:
    errors, frames = reachable(error)
    assert not any(str(PRIVATE) in str(e) for e in errors)
    assert not any(str(PRIVATE) in repr(value) for frame in frames for value in frame.f_locals.values())
    assert not {"work", "twice", "read"} & {frame.f_code.co_name for frame in frames}


def test_neither_a_cause_nor_another_context_says_anything_of_the_data() -> None:
    def twice(private: int) -> None:
        try:
            raise ValueError(f"{private} is no number")
        except ValueError:
            try:
                raise KeyError(private)
            except KeyError as cause:
                reason = cause
            raise BackendFailed("The database failed. The charge stands.") from reason

    with pytest.raises(BackendFailed) as caught:
        meter(Told("a", twice)).draw(Draw("a"))
    says_nothing(caught.value)


def test_a_second_interrupt_while_a_failure_is_handled_says_nothing_of_the_data(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(error: BaseException | None) -> BaseException:
        raise KeyboardInterrupt

    monkeypatch.setattr("discreet.engine.payers._told", interrupted)
    own = meter(Told("a", fail(ValueError(f"{PRIVATE} is no number"))), Told("b", str))
    with pytest.raises(KeyboardInterrupt) as caught:
        own.draw(Draw("a"))
    says_nothing(caught.value)
    with pytest.raises(InternalError, match="ended"):
        own.draw(Draw("b"))


def test_no_interrupt_can_come_before_a_failure_is_bare() -> None:
    """Signals are handled after calls and at jumps back, and the handlers of failures make none."""
    lines, first = inspect.getsourcelines(redacted)
    starts = [line.strip().partition(" ")[0] for line in lines]
    start, end = first + starts.index("except"), first + starts.index("raise")
    code = [(i.opname, i.positions and i.positions.lineno) for i in dis.get_instructions(redacted)]
    within = [name for name, line in code if line in range(start, end)]
    assert "STORE_ATTR" in within
    assert not [name for name in within if name.startswith(("CALL", "JUMP_BACKWARD", "RESUME", "SEND"))]


def test_an_error_that_lets_nothing_be_taken_from_it_is_replaced() -> None:
    @dataclass(frozen=True)
    class Kept(Exception):
        private: int

    def work(private: int) -> None:
        raise Kept(private)

    with pytest.raises(InternalError, match="charge stands") as caught:
        meter(Told("a", work)).draw(Draw("a"))
    says_nothing(caught.value)


def test_any_two_failures_of_code_look_the_same() -> None:
    said = set()
    for error in (ValueError("a"), KeyError("b"), OverflowError()):
        with pytest.raises(InternalError) as caught:
            meter(Told("a", fail(error))).draw(Draw("a"))
        said.add((type(caught.value), str(caught.value)))
    assert len(said) == 1


def test_a_run_that_ends_early_or_fails_closes_the_meter() -> None:
    def stops() -> Running[int]:
        yield Draw("a")
        raise RuntimeError("of the public side")

    own = meter(Told("a", str), Told("b", str))
    with pytest.raises(RuntimeError):
        follow(stops(), own)
    with pytest.raises(InternalError, match="ended"):
        own.draw(Draw("b"))


def test_the_run_is_sent_noisy_values_and_nothing_else() -> None:
    """The same noisy values over unrelated data: equal draws, and an equal state."""
    query = planned("SELECT region, COUNT(*) AS n, MEDIAN(amount) AS m FROM visits GROUP BY region")

    def told(sent: Iterator[Any]) -> tuple[list[Any], Any]:
        running, draws = measured(query), list[Any]()
        try:
            draws.append(next(running))
            while True:
                draws.append(running.send(next(sent)))
        except StopIteration as end:
            return draws, end.value

    trees = tuple({(0, 0): (5,)} for _ in range(4))
    assert told(iter([[1, 2, 3, 4], trees])) == told(iter([[1, 2, 3, 4], trees]))


def test_a_later_stage_is_opened_by_its_plan_once_and_not_drawn_itself() -> None:
    inner = Told("inner", lambda private: 1)
    own = meter(Reserved("later", lambda plan: [inner]))
    with pytest.raises(InternalError, match="not paid for"):
        meter(Reserved("later", lambda plan: [inner])).draw(Draw("inner"))
    plan: Any = object()
    assert own.draw(Draw("later", plan=plan)) is None
    assert own.draw(Draw("inner")) == 1
    with pytest.raises(InternalError, match="drawn already"):
        own.draw(Draw("later", plan=plan))


def test_a_later_stage_without_a_plan_is_refused() -> None:
    with pytest.raises(InternalError, match="needs the plan"):
        meter(Reserved("later", lambda plan: [])).draw(Draw("later"))


def test_a_read_is_made_once_for_all_uses_of_a_query() -> None:
    read: list[str] = []

    def count(text: str, keyed: bool) -> list[tuple[Any, ...]]:
        read.append(text)
        return ROWS

    query = planned(GROUPED)
    follow(measured(query), meter(*uses_of(query), read=count))
    assert read == [query.sql]
