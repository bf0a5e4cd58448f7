"""Mechanisms with broken state, and a sound one, that other processes can import."""

from __future__ import annotations

import contextlib
import functools
import random
import sqlite3
import threading
import time
from pathlib import Path

import numpy as np

import discreet
from discreet.mechanisms import Laplace

_SHARED = np.random.RandomState(7)
_LOCAL = threading.local()
RELEASED = threading.Event()
"""Lets those go that block in threads."""


def copied_by_fork(x: float) -> float:
    """One generator of the module, which a fork copies and every import makes anew from one seed."""
    return x + float(_SHARED.laplace())


def fresh_copied_by_fork(x: float) -> float:
    """A generator that is seeded well, once, and copied by a fork."""
    return x + float(_generator().laplace())


@functools.cache
def _generator() -> np.random.Generator:
    return np.random.default_rng()


def seedable(x: float) -> float:
    """The global generator of numpy."""
    return x + float(np.random.laplace())


def seedable_plainly(x: float) -> float:
    """The global generator of the standard library."""
    return x + random.expovariate(1) - random.expovariate(1)


def seed_in_each_thread(x: float) -> float:
    """Each thread has a generator of its own, with the same seed as all."""
    if not hasattr(_LOCAL, "rng"):
        _LOCAL.rng = np.random.default_rng(5)
    return x + float(_LOCAL.rng.laplace())


@functools.lru_cache
def cached(x: float) -> float:
    """Draws once for each input, as a session that keeps its answers does."""
    return x + float(_generator().laplace())


def sound(x: float) -> float:
    """The package's own."""
    return float(Laplace(epsilon=1).release(x))


def coin(x: int) -> int:
    """Sound, and often equal by chance."""
    return x + int(Laplace(epsilon=3).release(0))


def blocks_in_threads(x: float) -> float:
    """Does not return outside the main thread, until it is released."""
    if threading.current_thread() is not threading.main_thread():
        RELEASED.wait()
    return sound(x)


class Holder:
    """An object that carries its generator with it."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng()

    def __call__(self, x: float) -> float:
        return x + float(self.rng.laplace())


class Exhausted:
    """Sound, but it answers only so many times, and says 0 afterwards."""

    def __init__(self, most: int) -> None:
        self.left = most

    def __call__(self, x: float) -> float:
        self.left -= 1
        return sound(x) if self.left >= 0 else 0.0


class ForkUnaware:
    """Several outputs at once from a generator that a fork copies."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng()

    def __call__(self, x: float, *, n: int) -> object:
        return x + self.rng.laplace(size=n)


def open_careless(folder: Path, answers: int) -> functools.partial[bool]:
    """A budget in a file, which is read, thought about, and written."""
    path = folder / f"careless-{time.monotonic_ns()}"
    path.write_text(str(answers))
    return functools.partial(spend_carelessly, path)


def spend_carelessly(path: Path) -> bool:
    """Checks, then acts."""
    left = int(path.read_text() or 0)
    if left <= 0:
        return False
    time.sleep(0.05)
    path.write_text(str(left - 1))
    return True


def open_careful(folder: Path, answers: int) -> functools.partial[bool]:
    """A budget in a database, which is spent in one statement."""
    path = folder / f"careful-{time.monotonic_ns()}"
    with contextlib.closing(sqlite3.connect(path)) as book, book:
        book.execute("CREATE TABLE account (left INTEGER)")
        book.execute("INSERT INTO account VALUES (?)", (answers,))
    return functools.partial(spend_carefully, path)


def spend_carefully(path: Path) -> bool:
    """Acts only where something is left."""
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as book, book:
        done = book.execute("UPDATE account SET left = left - 1 WHERE left > 0")
        return done.rowcount == 1


def open_session(folder: Path, answers: int) -> functools.partial[bool]:
    """A budget of the package's own ledger, in a file."""
    source, ledger = folder / "rows.csv", folder / f"ledger-{time.monotonic_ns()}"
    source.write_text("v\n" + "1\n" * 20)
    discreet.connect(
        source, unit=discreet.PrivacyUnit.row(), budget=discreet.Budget(epsilon=answers), ledger=ledger
    ).close()
    return functools.partial(ask_session, source, ledger)


def ask_session(source: Path, ledger: Path) -> bool:
    """One question of ε = 1, through a session of its own."""
    with discreet.connect(source, unit=discreet.PrivacyUnit.row(), ledger=ledger) as session:
        session.sql("SELECT COUNT(*) FROM rows", epsilon=1, fresh=True)
    return True
