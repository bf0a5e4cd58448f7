"""Fixture for users' tests: `pytest_plugins = ["discreet.testing.plugin"]` in a `conftest.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from discreet.testing.seeded import session

if TYPE_CHECKING:
    from discreet.engine.session import Session


@pytest.fixture
def seeded_session() -> Iterator[Callable[..., Session]]:
    """Give a function that makes seeded sessions (`discreet.testing.session`, seed 0), closed after the test."""
    with ExitStack() as opened:

        def make(source: object, *, seed: int = 0, **terms: Any) -> Session:
            return opened.enter_context(session(source, seed=seed, **terms))

        yield make
