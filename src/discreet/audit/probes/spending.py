"""Whether a budget can be spent twice by asking from several threads or processes at once."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable

from discreet.audit.finding import CONSISTENT, VIOLATED, Probe
from discreet.audit.probes.processes import fresh

_WORKERS = 4
_TRIES = 4  # refusals after which a worker stops: one may be a lock that was busy


def spending(
    accounts: Callable[[], Callable[[], object]], answers: int, *, seconds: float = 60.0
) -> tuple[Probe, ...]:
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
    """How many answers were given before several refusals, or `most`."""
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
            f"What asks for an answer cannot be pickled ({type(e).__name__}): return functools.partial(ask, path).",
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
        return Probe(
            name, "suspicious", f"{total} of {answers} answers were given to {workers}.{late}", details
        )
    words = f"{total} answers were given to {workers} that asked for more than the budget's {answers}."
    return Probe(name, CONSISTENT, words, details)
