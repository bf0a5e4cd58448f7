"""`probe_state`: whether noise repeats itself (forks, threads, copies, seeds, processes) or a budget is spent twice."""

from __future__ import annotations

import copy
import math
import pickle
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from discreet.audit.evidence.intervals import clopper_pearson
from discreet.audit.finding import CONSISTENT, VIOLATED, Probe
from discreet.audit.outputs.identity import codes_of
from discreet.audit.outputs.sampling import Raised, Sampler
from discreet.audit.outputs.shape import Batch
from discreet.audit.probes.processes import CAN_FORK, forked, fresh
from discreet.errors import InvalidParameter
from discreet.privacy.exact import count

SUSPICIOUS = "suspicious"
SKIPPED = "skipped"

_COMPARISONS = 64  # pairs of streams that are compared, at most
_THREADS = 4
_SEED = 20061107

Stream: TypeAlias = list[int | None]
"""Outputs one after another, by their codes; None for an exception."""

_MOST = 4096
_LEAST = 64
_LONGEST = 4000
_SHIFT = 24  # by how much two streams may be shifted

_WORKERS = 4
_TRIES = 4  # refusals after which a worker stops: one may be a lock that was busy


def probe_state(
    mechanism: Callable[..., object] | None = None,
    x: object = 0.0,
    *,
    factory: Callable[[], Callable[..., object]] | None = None,
    accounts: Callable[[], Callable[[], object]] | None = None,
    answers: int = 10,
    fork: bool | None = None,
    seconds: float = 60.0,
    error: float = 1e-9,
) -> tuple[Probe, ...]:
    """Probes of a mechanism's state: repeated calls, fork, threads, copies, seeds, new processes, double spending.

    Args:
        mechanism: what is called with x, as for `distinguish`.
        x: an input.
        factory: makes the mechanism, in place of `mechanism`: in new processes it is made anew.
        accounts: opens accounts with a budget for exactly `answers` answers; see `spending`.
        answers: how many answers the budget of each account is for.
        fork: whether this process may be forked. By default it is not where DuckDB is loaded, whose threads a child
            would lack.
        seconds: about how long all of it may take; the two probes of `accounts` may take as long again.
        error: the chance that any probe says "violated" of a mechanism whose outputs are independent.

    Guarantee:
        Noise is said to repeat where two streams of outputs share a run so long that independent outputs share one
        with probability at most `error`, in all probes together; how likely two outputs are equal by chance is
        measured first, with a Clopper–Pearson bound. Children are ended and waited for.

    References:
        Clopper, Pearson 1934, https://doi.org/10.1093/biomet/26.4.404; Garfinkel, Leclerc 2020 (what randomness a
        production system needs), https://arxiv.org/abs/2009.03777

    Raises:
        InvalidParameter: neither or both of a mechanism and a factory, where there are no accounts.
    """
    if mechanism is not None and factory is not None:
        raise InvalidParameter("give a mechanism or a factory, not both.")
    if mechanism is None and factory is None and accounts is None:
        raise InvalidParameter("probe_state needs a mechanism, a factory or accounts.")
    if not 0 < error < 1 or not seconds > 0:
        raise InvalidParameter("error must lie in (0, 1), and seconds must be above 0.")
    most = count("answers", answers)
    found: list[Probe] = []
    made = factory() if factory is not None else mechanism
    if made is not None:
        found += _of_mechanism(made, factory, x, fork, seconds, error)
    if accounts is not None:
        found += spending(accounts, most, seconds=seconds / 2)
    return tuple(found)


def _of_mechanism(
    mechanism: Callable[..., object],
    factory: Callable[[], Callable[..., object]] | None,
    x: object,
    fork: bool | None,
    seconds: float,
    error: float,
) -> list[Probe]:
    deadline = time.monotonic() + seconds
    sampler = Sampler(mechanism, x)
    stick = Yardstick.of(sampler, comparisons=_COMPARISONS, seconds=seconds / 20, error=error)
    if stick is None:
        words = (
            "The mechanism raises, gives one and the same output again and again (cached, or without noise), or has "
            "hardly any noise, or is too slow: nothing can be told from equal outputs."
        )
        return [Probe("repeated calls", CONSISTENT, words, {})]
    words = f"{stick.distinct} different outputs in {stick.drawn} calls with one input."
    details = {"distinct": stick.distinct, "drawn": stick.drawn, "collision": stick.collision, "run": stick.run}
    probes = [Probe("repeated calls", CONSISTENT, words, details)]
    steps: tuple[tuple[str, int, Callable[[], Probe]], ...] = (
        ("fork", 1, lambda: _fork(sampler, stick, fork, deadline)),
        ("copies", 5, lambda: _copies(mechanism, x, stick)),
        ("seeds", 4, lambda: _seeds(sampler, stick)),
        ("new processes", 1, lambda: _processes(factory or mechanism, factory is not None, x, stick, deadline)),
        # last, since a thread that blocks cannot be ended
        ("threads", _THREADS, lambda: _threads(mechanism, x, stick, deadline)),
    )
    for name, streams, step in steps:
        late = time.monotonic() + streams * stick.seconds > deadline
        probes.append(Probe(name, SKIPPED, "The time was too short.", {}) if late else step())
    return probes


def _fork(sampler: Sampler, stick: Yardstick, allowed: bool | None, deadline: float) -> Probe:
    name = "fork"
    if not CAN_FORK:
        return Probe(name, SKIPPED, "This system has no fork.", {})
    if allowed is False or (allowed is None and "duckdb" in sys.modules):
        why = "It was not allowed." if allowed is False else "DuckDB is loaded, which a forked child cannot use."
        return Probe(name, SKIPPED, f"{why} fork=True forks all the same.", {})

    def work() -> Stream:
        return stream_of(sampler.draw(stick.length))

    with forked(work) as one, forked(work) as other:
        own = work()
        left = max(1.0, deadline - time.monotonic())
        streams = {"the parent": own, "a child": one.result(left), "another child": other.result(left)}
    known = {k: v for k, v in streams.items() if v is not None}
    if len(known) < 2:
        return Probe(name, SUSPICIOUS, "Forked children did not return: the mechanism may block there.", {})
    return _compared(name, known, stick, "Parent and children give noise of their own after a fork.")


def _copies(mechanism: Callable[..., object], x: object, stick: Yardstick) -> Probe:
    name = "copies"
    ways: tuple[tuple[str, Callable[[Any], Any]], ...] = (
        ("copy.copy", copy.copy),
        ("copy.deepcopy", copy.deepcopy),
        ("pickle", _unpickled),
        ("pickle, again", _unpickled),
    )
    made, refused = {}, []
    for way, make in ways:
        try:
            twin = make(mechanism)
        except Exception:  # refusing to be copied is a good answer
            refused.append(way)
            continue
        if twin is not mechanism:
            made[way] = twin
    if not made:
        words = f"It cannot be copied by {', '.join(refused)}." if refused else "It is a function, which has no copies."
        return Probe(name, CONSISTENT, words, {"refused": refused})
    streams = {"the original": stream(mechanism, x, stick.length)}
    streams |= {way: stream(twin, x, stick.length) for way, twin in made.items()}
    return _compared(name, streams, stick, f"Copies by {', '.join(made)} give noise of their own.")


def _seeds(sampler: Sampler, stick: Yardstick) -> Probe:
    tried = []
    for way, seed, kept in _generators():
        tried.append(way)
        with kept():
            seed()
            one = stream_of(sampler.draw(stick.length))
            seed()
            other = stream_of(sampler.draw(stick.length))
        if not (stick.tells(one) and stick.tells(other)):
            return Probe("seeds", SKIPPED, "By then the mechanism raised, or gave one output again and again.", {})
        if stick.shared(one, other):
            words = f"After {way}({_SEED}) the same {stick.run} outputs come again: who knows the seed knows the noise."
            return Probe("seeds", VIOLATED, words, {"seed": way, "run": stick.run})
    return Probe("seeds", CONSISTENT, f"{', '.join(tried)} have no effect on the outputs.", {"tried": tried})


def _processes(made: Callable[..., Any], is_factory: bool, x: object, stick: Yardstick, deadline: float) -> Probe:
    name = "new processes"
    try:
        job = pickle.dumps((_anew, (made, is_factory, x, stick.length)))
    except Exception as e:
        why = f"The mechanism cannot be sent to a new process ({type(e).__name__})"
        return Probe(name, SKIPPED, f"{why}: define it in a module, or give factory=.", {})
    results = fresh([job, job], max(1.0, deadline - time.monotonic()))
    streams = {f"process {i}": r for i, r in enumerate(results, start=1) if isinstance(r, list)}
    if len(streams) < 2:
        why = next((r for r in results if isinstance(r, str)), "no result in time")
        return Probe(name, SKIPPED, f"It could not be run in a new process ({why}).", {})
    sent = "each made the mechanism" if is_factory else "each were sent the mechanism"
    return _compared(name, streams, stick, f"Two new processes that {sent} give noise of their own.")


def _threads(mechanism: Callable[..., object], x: object, stick: Yardstick, deadline: float) -> Probe:
    name = "threads"
    streams: dict[str, Stream] = {}
    failed: list[str] = []
    start = threading.Barrier(_THREADS)

    def work(i: int) -> None:
        try:
            sampler = Sampler(mechanism, x)
            start.wait(10)
            streams[f"thread {i}"] = stream_of(sampler.draw(stick.length))
        except Exception as e:
            failed.append(type(e).__name__)

    workers = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(_THREADS)]
    for worker in workers:
        worker.start()
    end = max(deadline, time.monotonic() + 1)
    for worker in workers:
        worker.join(max(0.0, end - time.monotonic()))
    if failed or any(worker.is_alive() for worker in workers):
        words = f"In threads it did not work: {', '.join(failed) or 'some of them did not return'}."
        return Probe(name, SUSPICIOUS, words, {"failed": failed})
    raised = sum(code is None for s in streams.values() for code in s)
    probe = _compared(name, streams, stick, "Threads give noise of their own.")
    if probe.verdict == VIOLATED:
        return probe
    drawn = [code for s in streams.values() for code in set(s) if code is not None]
    twice = len(drawn) - len(set(drawn))
    if twice and stick.distinct == stick.drawn:
        words = f"{twice} outputs came in two threads, while {stick.drawn} calls in one thread all differed."
        return Probe(name, SUSPICIOUS, words, {"twice": twice})
    if raised:
        words = f"It raised in {raised} of {_THREADS * stick.length} calls from threads."
        return Probe(name, SUSPICIOUS, words, {"raised": raised})
    return probe


def _compared(name: str, streams: dict[str, Stream], stick: Yardstick, well: str) -> Probe:
    known = [(who, s) for who, s in streams.items() if stick.tells(s)]
    if len(known) < 2:
        return Probe(name, SKIPPED, "By then the mechanism raised, or gave one output again and again.", {})
    for i, (one, a) in enumerate(known):
        for other, b in known[i + 1 :]:
            if stick.shared(a, b):
                words = f"{one} and {other} gave the same {stick.run} outputs in a row: their noise cancels."
                return Probe(name, VIOLATED, words[0].upper() + words[1:], {"run": stick.run})
    return Probe(name, CONSISTENT, well, {"run": stick.run, "streams": len(known)})


def _anew(made: Callable[..., Any], is_factory: bool, x: object, length: int) -> Stream:
    """Return a stream of outputs in this process, for `fresh`."""
    return stream(made() if is_factory else made, x, length)


def _unpickled(mechanism: Any) -> Any:
    return pickle.loads(pickle.dumps(mechanism))  # noqa: S301  # just pickled


def _generators() -> Iterator[tuple[str, Callable[[], object], Callable[[], Any]]]:
    """(name, sets the seed, keeps and restores the state) of each generator that is global."""

    @contextmanager
    def kept(state: Callable[[], Any], put: Callable[[Any], object]) -> Iterator[None]:
        before = state()
        try:
            yield
        finally:
            put(before)

    yield "random.seed", lambda: random.seed(_SEED), lambda: kept(random.getstate, random.setstate)
    yield ("numpy.random.seed", lambda: np.random.seed(_SEED), lambda: kept(np.random.get_state, np.random.set_state))
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "manual_seed"):
        yield (
            "torch.manual_seed",
            lambda: torch.manual_seed(_SEED),
            lambda: kept(torch.get_rng_state, torch.set_rng_state),
        )


@dataclass(frozen=True, slots=True)
class Yardstick:
    """How many equal outputs in a row are no chance.

    Attributes:
        run: two streams of independent outputs share a run of so many by a chance of at most the error.
        length: how many outputs of each stream are compared.
        collision: an upper bound on the chance that two independent outputs are equal.
        distinct: how many different outputs there were among `drawn`.
        drawn: how many outputs were drawn to find out.
        seconds: how long it takes to draw one stream, about.
    """

    run: int
    length: int
    collision: float
    distinct: int
    drawn: int
    seconds: float

    @classmethod
    def of(cls, sampler: Sampler, *, comparisons: int, seconds: float, error: float) -> Yardstick | None:
        """Measured on a mechanism; None where outputs are too few or too much alike.

        Guarantee:
            Where outputs are independent and of one law, `comparisons` pairs of streams of `length` share a run of
            `run` outputs, at whatever places, with probability at most `error`: half of it for the Clopper–Pearson
            bound on the chance that two outputs are equal, half for the runs.
        """
        start = time.monotonic()
        end, codes = start + seconds, Stream()
        while len(codes) < _LEAST or (len(codes) < _MOST and time.monotonic() < end):
            codes += stream_of(sampler.draw(max(_LEAST // 4, len(codes))))
            if time.monotonic() > end + 3 * seconds:
                break
        each = (time.monotonic() - start) / len(codes)
        answers = [c for c in codes if c is not None]
        if len(answers) < _LEAST // 2 or len(answers) < len(codes) / 2:
            return None
        pairs = len(answers) // 2
        equal = sum(a == b for a, b in zip(answers[:pairs], answers[pairs:], strict=False))
        collision = clopper_pearson(equal, pairs, error)[1]
        if collision >= 1 or len(set(answers)) < 2:
            return None
        run = length = 1
        while True:
            wanted = math.log(2 * comparisons * length**2 / error) / -math.log(collision)
            run = max(2, math.ceil(wanted * (1 + 1e-9)))
            if run + _SHIFT <= length:
                break
            length = run + _SHIFT
            if run > _LONGEST:
                return None
        return cls(run, length, collision, len(set(answers)), len(answers), each * length)

    def shared(self, a: Sequence[int | None], b: Sequence[int | None]) -> bool:
        """Return whether two streams have a run of equal outputs that is no chance."""
        runs = {tuple(w) for w in _windows(a, self.run)}
        return any(tuple(w) in runs for w in _windows(b, self.run))

    def tells(self, a: Sequence[int | None]) -> bool:
        """Return whether a stream has runs that can be compared.

        Exceptions do not count, and neither does one output again and again: a mechanism may have stopped answering.
        """
        return bool(_windows(a, self.run))


def stream_of(batch: Batch) -> Stream:
    """Return the codes of outputs."""
    failed = [isinstance(o, Raised) for o in batch]
    return [None if bad else int(code) for code, bad in zip(codes_of(batch), failed, strict=True)]


def stream(mechanism: Callable[..., object], x: object, length: int) -> Stream:
    """So many fresh outputs of a mechanism."""
    return stream_of(Sampler(mechanism, x).draw(length))


def _windows(s: Sequence[int | None], run: int) -> list[Sequence[int | None]]:
    windows = [s[i : i + run] for i in range(len(s) - run + 1)]
    return [w for w in windows if None not in w and len(set(w)) > 1]


def spending(accounts: Callable[[], Callable[[], object]], answers: int, *, seconds: float = 60.0) -> tuple[Probe, ...]:
    """Probes that ask from four threads, and from four processes, for more answers than a budget is for.

    Args:
        accounts: opens a new account with a budget for exactly `answers` answers, and returns a function that asks
            for one: true where it was given, false or an exception where it was refused. To be asked from other
            processes it has to be picklable: `functools.partial(ask, path)`, with `ask` in a module.
        answers: how many answers the budget is for.
        seconds: how long each of the two may take.

    Guarantee:
        "violated" is said only where more than `answers` answers were given.
    """
    return (_from_threads(accounts(), answers, seconds), _from_processes(accounts(), answers, seconds))


def ask_until_refused(spend: Callable[[], object], most: int, seconds: float) -> int:
    """Return how many answers were given before several refusals, or `most`."""
    given = refused = 0
    end = time.monotonic() + seconds
    while given < most and refused < _TRIES and time.monotonic() < end:
        try:
            answered = bool(spend())
        except Exception:
            answered = False
        given, refused = (given + 1, refused) if answered else (given, refused + 1)
    return given


def _from_threads(spend: Callable[[], object], answers: int, seconds: float) -> Probe:
    name = "double spending, threads"
    given: list[int] = []
    start = threading.Barrier(_WORKERS)

    def work() -> None:
        start.wait(seconds)
        given.append(ask_until_refused(spend, answers + 1, seconds))

    workers = [threading.Thread(target=work, daemon=True) for _ in range(_WORKERS)]
    end = time.monotonic() + seconds
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(max(0.0, end - time.monotonic()))
    return _judged(name, list(given), answers, f"{_WORKERS} threads", _WORKERS - len(given))


def _from_processes(spend: Callable[[], object], answers: int, seconds: float) -> Probe:
    name = "double spending, processes"
    try:
        job = pickle.dumps((ask_until_refused, (spend, answers + 1, seconds / 2)))
    except Exception as e:
        return Probe(
            name,
            "skipped",
            f"What asks for a result cannot be pickled ({type(e).__name__}): return functools.partial(ask, path).",
            {},
        )
    results = fresh([job] * _WORKERS, seconds)
    failed = [r for r in results if isinstance(r, str)]
    if len(failed) == len(results):
        return Probe(name, "skipped", f"No process could ask: {failed[0]}.", {})
    given = [r for r in results if isinstance(r, int)]
    return _judged(name, given, answers, f"{_WORKERS} processes", len(results) - len(given))


def _judged(name: str, given: list[int], answers: int, workers: str, silent: int) -> Probe:
    total = sum(given)
    details = {"answers": answers, "given": total, "by_worker": given, "silent": silent}
    late = f" {silent} of them did not return in time." if silent else ""
    if total > answers:
        words = f"{total} answers were given to {workers}; the budget is for {answers}.{late}"
        return Probe(name, VIOLATED, words, details)
    if silent:
        return Probe(name, "suspicious", f"{total} of {answers} answers were given to {workers}.{late}", details)
    words = f"{total} answers were given to {workers} that asked for more than the budget's {answers}."
    return Probe(name, CONSISTENT, words, details)
