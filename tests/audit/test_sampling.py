"""Running other people's mechanisms, whatever they do."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from discreet.audit.outputs.sampling import Raised, Sampler, check
from discreet.errors import InvalidParameter


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_a_mechanism_of_one_input_is_called_once_for_each_output() -> None:
    seen = []

    def mechanism(x: int) -> int:
        seen.append(x)
        return len(seen)

    sampler = Sampler(mechanism, 3)
    before = len(seen)
    assert sampler.draw(5) == list(range(before + 1, before + 6))
    assert set(seen) == {3}
    assert not sampler.takes_n
    assert sampler.notes == ()


def test_a_keyword_n_asks_for_many_outputs_at_once() -> None:
    random = rng()
    asked = []

    def mechanism(x: float, n: int = 1) -> Any:
        asked.append(n)
        return x + random.laplace(size=n)

    sampler = Sampler(mechanism, 0.0)
    assert sampler.takes_n
    assert len(sampler.draw(1000)) == 1000
    assert asked[-1] == 1000
    assert sampler.notes == ()


@pytest.mark.parametrize("wrong", [lambda x, n: [0] * (n + 1), lambda x, n: 0.5, lambda x, n: np.float64(1)])
def test_another_number_of_outputs_than_asked_for_is_refused(wrong: Callable[..., object]) -> None:
    with pytest.raises(InvalidParameter, match=r"asked for n=\d+ outputs and returned"):
        Sampler(wrong, 0).draw(10)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (3, "must be callable, not int"),
        (lambda: 1, "takes no input"),
        (lambda x, epsilon: 1, "epsilon"),
        (lambda x, *, scale: 1, "scale"),
    ],
)
def test_what_cannot_be_called_with_one_input_is_refused_by_name(wrong: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        check(wrong)


def test_an_asynchronous_mechanism_is_refused() -> None:
    async def mechanism(x: int) -> int:
        return x

    with pytest.raises(InvalidParameter, match="asynchronous"):
        check(mechanism)


@pytest.mark.parametrize("right", [float, max, functools.partial(pow, 2), lambda *a: 1, lambda x, y=2: y])
def test_callables_of_every_kind_are_accepted(right: Callable[..., object]) -> None:
    check(right)


def test_an_exception_is_an_output_and_is_said() -> None:
    random = rng()

    def mechanism(x: int) -> int:
        if random.random() < 0.2:
            raise ValueError(f"bad {x}")
        return x

    sampler = Sampler(mechanism, 4)
    batch = sampler.draw(1000)
    raised = [o for o in batch if o == Raised("ValueError", "bad 4")]
    assert len(raised) + sum(o == 4 for o in batch) == 1000
    assert 100 < len(raised) < 300
    assert f"it raised ValueError in {len(raised)} of 1000 runs." in sampler.notes


def test_an_exception_among_many_outputs_is_drawn_one_by_one() -> None:
    def mechanism(x: int, n: int) -> list[int]:
        if n > 100:
            raise MemoryError
        return [x] * n

    sampler = Sampler(mechanism, 1)
    before = sampler.manner
    assert sampler.draw(150) == [1] * 150
    assert sampler.manner != before  # so that who tests knows that this draw was not fair
    assert any("one by one" in note for note in sampler.notes)


def test_a_mechanism_that_changes_its_input_gets_copies() -> None:
    def mechanism(x: list[int]) -> int:
        x.append(1)
        return len(x)

    given: list[int] = []
    sampler = Sampler(mechanism, given)
    assert sampler.draw(20) == [1] * 20
    assert given == []
    assert any("changes its input" in note for note in sampler.notes)


def test_a_change_that_comes_late_is_noticed() -> None:
    calls = iter(range(10**6))

    def mechanism(x: Any) -> float:
        if next(calls) == 100:
            x[0] = 5.0
        return float(x[0])

    sampler = Sampler(mechanism, np.zeros(1))
    assert sampler.draw(200) == [0.0] * 200
    assert any("changes its input" in note for note in sampler.notes)


def test_an_object_that_is_returned_again_and_again_is_copied() -> None:
    buffer = [0.0]
    random = rng()

    def mechanism(x: int) -> list[float]:
        buffer[0] = random.random()
        return buffer

    sampler = Sampler(mechanism, 0)
    assert len({o[0] for o in sampler.draw(50)}) == 50  # type: ignore[index]
    assert any("one object" in note for note in sampler.notes)


@pytest.mark.exhaustive
def test_a_hanging_run_is_an_output_a_few_times_and_then_an_error() -> None:
    calls = iter(range(10**6))

    def once(x: int) -> int:
        if next(calls) == 30:
            try:
                time.sleep(20)
            except Exception:
                return 99  # nobody's business: the limit is no Exception
        return x

    started = time.monotonic()
    sampler = Sampler(once, 0, seconds_each=1)  # a loaded machine may pause for a tenth
    batch = sampler.draw(100)
    assert batch.count(Raised("TimeLimit", "no result in time")) == 1  # type: ignore[union-attr]
    assert any("did not return within 1 seconds" in note for note in sampler.notes)
    with pytest.raises(InvalidParameter, match="did not return within"):
        Sampler(lambda x: time.sleep(20), 0, seconds_each=1)
    assert time.monotonic() - started < 20


def test_somebody_elses_thread_can_draw() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(Sampler(lambda x: x, 2, seconds_each=1).draw(5)))
    thread.start()
    thread.join()
    assert found == [2] * 5


def test_constants_repeats_raggedness_and_nan_are_said() -> None:
    def notes(mechanism: Callable[..., object], draws: int = 1) -> str:
        sampler = Sampler(mechanism, 0)
        for _ in range(draws):
            sampler.draw(100)
        return " ".join(sampler.notes)

    random = rng()
    assert "same output" in notes(lambda x: 1)
    assert "repeats its random numbers" in notes(lambda x, n: np.random.default_rng(3).random(n), draws=2)
    assert "1 to 3 items" in notes(lambda x: [0] * int(random.integers(1, 4)))
    assert "NaN" in notes(lambda x: float("nan") if random.random() < 0.5 else 1.0)
    assert notes(lambda x: float(random.random()), draws=2) == ""


def test_an_iterator_is_read_to_its_end() -> None:
    def mechanism(x: int) -> Iterator[int]:
        yield from range(x)

    assert Sampler(mechanism, 3).draw(2) == [[0, 1, 2], [0, 1, 2]]


def test_an_input_that_cannot_be_copied_is_said() -> None:
    sampler = Sampler(lambda x: 1, threading.Lock())
    assert any("cannot be copied" in note for note in sampler.notes)


def test_a_time_limit_that_is_not_positive_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="seconds_each"):
        Sampler(lambda x: x, 0, seconds_each=0)


def test_a_single_output_of_a_mechanism_that_draws_many_is_one_output() -> None:
    sampler = Sampler(lambda x, n: np.full(n, x), 3.0)
    assert list(sampler.draw(1)) == [3.0]
    assert len(sampler.draw(2)) == 2
