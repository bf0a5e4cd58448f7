"""Tests draw the same in every run: what they draw from is seeded, and what cannot be seeded is not used."""

from __future__ import annotations

import os
import random
import re
import secrets
import uuid

import numpy as np
import pytest

from discreet.mechanisms import Laplace
from discreet.noise.entropy import SystemEntropy
from tests.house.tree import ROOT, name_of, texts
from tests.seeded import Seeded, seeded_by

BEYOND_REACH = re.compile(
    r"\bSystemRandom\b|\bRandom\(\)"  # they do not ask `os.urandom`
    r"|(?:Random|default_rng|seed)\(hash\("  # another one in every process, for texts
    r"|(?<![.\w])(?:rand|random|uuid|gen_random_uuid|setseed)\(|\bTABLESAMPLE\b|\bUSING SAMPLE\b"  # DuckDB's own
)

ALLOWED = {
    "tests/backends/test_duckdb.py": "a view that is refused",
    "tests/backends/test_sandbox.py": "texts that are refused, and never run",
    "tests/engine/test_outer_release.py": "a text that is refused, and never run",
    "tests/exhaustive/verify/test_both_forged.py": "texts that are refused, and never run",
    "tests/exhaustive/verify/test_forged.py": "texts that are refused, and never run",
    "tests/exhaustive/verify/test_forged_shapes.py": "texts that are refused, and never run",
    "tests/exhaustive/plan/test_distinct.py": "a text that is refused, and never run",
    "tests/verify/test_view.py": "texts that are refused, and never run",
    "tests/plan/join_shapes.py": "a group for each row, whatever is drawn",
    "tests/plan/owned_texts.py": "texts that are refused, and never run",
    "tests/plan/test_check.py": "texts that are refused, and never run",
    "tests/plan/test_kinds.py": "an expression without a kind",
    "tests/query/test_refused_table.py": "queries that are refused",
    "tests/plan/test_question.py": "queries that are refused",
    "tests/test_auto_bounds.py": "a text that is refused, and never run",
    "tests/test_bad_input.py": "queries that are refused",
}


def drawn() -> list[object]:
    """Return a draw from each source that a test may use."""
    return [
        os.urandom(8),
        SystemEntropy().bytes(8),
        float(np.random.default_rng().random()),
        float(np.random.rand()),
        random.random(),
        random.SystemRandom().random(),
        secrets.token_hex(8),
        uuid.uuid4(),
    ]


def test_a_name_gives_the_same_draws_again_and_another_name_others() -> None:
    rng = SystemEntropy()  # was drawn from before
    mechanism = Laplace(epsilon=1e-6)
    assert len({rng.bytes(8), *(mechanism.release(0) for _ in range(10))}) > 2
    found = []
    for name in ("a", "b", "a"):
        with seeded_by(name):
            found.append([*drawn(), rng.bytes(8), mechanism.release(0)])
    assert found[0] == found[2]
    assert not set(found[0]).intersection(found[1])


def test_a_test_goes_on_where_it_was_after_a_fixture_was_made() -> None:
    def twice(between: str | None) -> list[object]:
        with seeded_by("outside"):
            first = drawn()
            if between is not None:
                with seeded_by(between):
                    drawn()
            return [*first, os.urandom(8), random.random(), float(np.random.rand())]

    assert twice(None) == twice("inside") == twice("another")


def test_this_test_is_seeded() -> None:
    assert isinstance(os.urandom, Seeded)


@pytest.mark.unseeded
def test_an_unseeded_test_draws_from_the_operating_system() -> None:
    assert not isinstance(os.urandom, Seeded)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_the_child_of_a_fork_draws_neither_what_its_parent_nor_what_another_draws() -> None:
    seen = []
    for _ in range(2):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, os.urandom(8))
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            seen.append(pipe.read())
        os.waitpid(child, 0)
    assert len({os.urandom(8), *seen}) == 3


def test_nothing_is_used_that_cannot_be_seeded() -> None:
    found = {
        name_of(path)
        for path in texts()
        if path.suffix == ".py" and path.is_relative_to(ROOT / "tests")
        if BEYOND_REACH.search(path.read_text(encoding="utf-8"))
    }
    assert found - {"tests/house/test_randomness.py", "tests/seeded.py"} == ALLOWED.keys()


@pytest.mark.parametrize(
    "text", ["random.Random()", "SystemRandom().random()", "default_rng(hash(name))", "'SELECT random() < 0.5'"]
)
def test_what_cannot_be_seeded_is_seen(text: str) -> None:
    assert BEYOND_REACH.search(text)


def test_what_is_seeded_is_not_complained_about() -> None:
    for text in ("rng.random()", "random.Random(5)", "np.random.default_rng(5).random()", "uuid4()", "hash(a) == 1"):
        assert not BEYOND_REACH.search(text)
