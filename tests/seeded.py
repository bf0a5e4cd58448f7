"""Randomness of the tests: every test, and every fixture that tests share, draws from a stream seeded by its name.

What the operating system would give is replaced: `os.urandom` and so `SystemEntropy`, `numpy.random.default_rng()`,
`uuid4` and `secrets`; so are the global generators of `random` and numpy. A test draws the same in every run, on every
machine, and whatever ran before it: it fails always or never. Another word in TEST_SEED gives other draws.

Beyond reach are `random.Random()`, processes that are started, DuckDB's own random numbers, and the order of a set of
texts; `tests/house/test_randomness.py` looks for them. The child of a fork draws what neither its parent nor another
child does, and that depends on its process id.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256, shake_256
from typing import Any

import numpy as np
import pytest

from discreet.mechanisms import numeric
from discreet.noise import entropy

_epoch = 0


class _Stream(entropy._Stream):
    """A stream that is thrown away where another test begins, as in the child of a fork."""

    __slots__ = ("_epoch",)

    def __init__(self) -> None:
        super().__init__()
        self._epoch = _epoch

    def is_ours(self) -> bool:
        return self._epoch == _epoch and super().is_ours()


class Seeded:
    """What `os.urandom` is while a test runs."""

    def __init__(self, name: str) -> None:
        self._key = sha256(f"{os.environ.get('TEST_SEED', '')} {name}".encode()).digest()
        self._calls = itertools.count()
        self._process = os.getpid()

    def __call__(self, n: int, /) -> bytes:
        fork = os.getpid() - self._process
        return shake_256(self._key + f"{next(self._calls)} {fork}".encode()).digest(n)


@contextmanager
def seeded_by(name: str) -> Iterator[None]:
    """Draw everything from streams seeded by a name, and go on as before at the end."""
    global _epoch
    before = os.urandom, random._urandom, random.getstate(), np.random.get_state()  # type: ignore[attr-defined]
    source = Seeded(name)
    os.urandom = random._urandom = source  # type: ignore[attr-defined]
    random.seed(source(8))
    np.random.seed(int.from_bytes(source(4)))
    _epoch += 1
    try:
        yield
    finally:
        _epoch += 1
        os.urandom, random._urandom = before[:2]  # type: ignore[attr-defined]
        random.setstate(before[2])
        np.random.set_state(before[3])


def end_streams_with_their_test() -> None:
    """Have `SystemEntropy` take a new key in every test, and mechanisms forget what they drew ahead in another."""
    entropy._Stream = _Stream  # type: ignore[misc]
    numeric.process = _home  # type: ignore[attr-defined, assignment]
    draw = numeric.Reserve._draw

    def drawn_anew(self: numeric.Reserve) -> int:
        if self._stock[0][0] != _epoch:
            self._size = 1
        return draw(self)

    numeric.Reserve._draw = drawn_anew  # type: ignore[method-assign]


def _home() -> tuple[int, ...]:
    return _epoch, *entropy.process()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Seed what modules draw when they are imported."""
    with seeded_by("collection"):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Seed a test by its name; those marked `unseeded` draw from the operating system."""
    if item.get_closest_marker("unseeded"):
        return (yield)
    with seeded_by(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> Iterator[Any]:
    """Seed what several tests share by the fixture's name: whichever asks first gets the same."""
    if fixturedef.scope == "function":
        return (yield)
    with seeded_by(f"{fixturedef.baseid}::{fixturedef.argname} {getattr(request, 'param_index', 0)}"):
        return (yield)
