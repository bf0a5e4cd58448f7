"""`discreet audit` as somebody in a terminal or a CI job meets it."""

from __future__ import annotations

import json
import math
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from tests.cli.conftest import Call

MODULE = """
import numpy as np

rng = np.random.default_rng()


def sound(x, n):
    return x + rng.geometric(0.5, n) - rng.geometric(0.5, n)  # ε = log 2


def too_little(x, n):
    return x + rng.geometric(0.8, n) - rng.geometric(0.8, n)  # ε = log 5


def floats(x, n):
    return x + rng.laplace(size=n)  # ε = 1 but for its bits


def largest(votes, n):
    return (np.asarray(votes) + rng.gumbel(scale=0.3, size=(n, len(votes)))).argmax(axis=1)


def two(x, epsilon):
    return x


pairs = [(0, 1), (5, 6)]
"""
ONE = ("--x", "0", "--neighbour", "1")


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "noise.py").write_text(MODULE)
    (tmp_path / "fails.py").write_text("1 / 0")
    return tmp_path


def test_a_keeper_of_its_claim_exits_with_0(call: Call, module: Path) -> None:
    result = call("audit", "noise.py:sound", "--epsilon", "0.7", *ONE, "--samples", "5000", "--error", "1e-9")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("noise.py:sound: CONSISTENT\n")


@pytest.mark.parametrize(
    "inputs",
    [ONE, ("--numbers", "0:10"), ("--pairs", "noise.py:pairs"), ("--datasets", "0,1", "--most", "2")],
    ids=["one pair", "numbers", "pairs", "datasets"],
)
def test_a_violation_exits_with_1(call: Call, module: Path, inputs: tuple[str, ...]) -> None:
    name = "too_little"
    if inputs[0] == "--datasets":
        (module / "noise.py").write_text(MODULE + "\n\ndef count(rows, n):\n    return too_little(len(rows), n)\n")
        name = "count"
    result = call("audit", f"noise.py:{name}", "--epsilon", "1", *inputs, "--samples", "20000", "--json")
    assert result.exit_code == 1, result.stderr
    found = json.loads(result.stdout)
    # From numbers a quarter apart the same output never comes, so that no ε holds for them.
    most = math.inf if inputs[0] == "--numbers" else 1.8  # the truth is log 5
    assert found["verdict"] == "violated" and 1 < found["epsilon_lower"] <= most
    assert found["witness"]["under_x"]["hits"] > found["witness"]["under_neighbour"]["hits"]


def test_bits_are_ignored_where_that_is_asked_for(call: Call, module: Path) -> None:
    arguments = ("audit", "noise.py:floats", "--epsilon", "1", *ONE, "--samples", "8000", "--error", "1e-9")
    kept, ignored = call(*arguments), call(*arguments, "--floats", "ignore")
    assert (kept.exit_code, ignored.exit_code) == (1, 0)
    assert kept.stdout.startswith("noise.py:floats: VIOLATED by floating-point bits\n")
    assert ignored.stdout.startswith("noise.py:floats: CONSISTENT in law (floats ignored)\n")
    assert call(*arguments, "--floats", "drop").exit_code == 2


def test_the_line_that_moves_knows_the_limit(call: Call, module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float | None] = []

    def waiting(what: str, *, limit: float | None, quiet: bool) -> AbstractContextManager[None]:
        limits.append(limit)
        return nullcontext()

    monkeypatch.setattr("discreet.cli.audit.waiting", waiting)
    for arguments in (("--samples", "100"), ("--seconds", "0.1"), ("--samples", "100", "--seconds", "9")):
        assert call("audit", "noise.py:sound", "--epsilon", "0.7", *ONE, *arguments).exit_code == 0
    assert limits == [None, 0.1, 9]


def test_vectors_are_searched_and_the_page_is_written(call: Call, module: Path) -> None:
    page = module / "report.html"
    result = call("audit", "noise.py:largest", "--epsilon", "1", "--vectors", "3", "--samples", "20000",
                  "--html", str(page))  # fmt: skip
    assert result.exit_code == 1 and str(page) in result.stderr
    assert page.read_text().startswith("<!doctype html>") and "violated" in page.read_text()


@pytest.mark.parametrize(
    ("target", "arguments", "words"),
    [
        ("noise.py", ONE, "MODULE:NAME"),
        ("noise.py:nothing", ONE, "has no nothing"),
        ("absent.py:f", ONE, "no file absent.py"),
        ("no_such_module_here:f", ONE, "no module no_such_module_here"),
        ("fails.py:f", ONE, "ZeroDivisionError"),
        ("noise.py:pairs", ONE, "cannot be called"),
        ("noise.py:two", ONE, "epsilon"),
        ("noise.py:sound", (), "one kind of inputs"),
        ("noise.py:sound", ("--x", "0"), "one kind of inputs"),
        ("noise.py:sound", (*ONE, "--vectors", "3"), "one kind of inputs"),
        ("noise.py:sound", ("--x", "[0", "--neighbour", "1"), "no Python literal"),
        ("noise.py:sound", ("--numbers", "3"), "LOW:HIGH"),
        ("noise.py:sound", (*ONE, "--samples", "0"), "samples"),
        ("noise.py:sound", (*ONE, "--error", "0"), "error"),
    ],
)
def test_a_wrong_request_is_refused_by_name(
    call: Call, module: Path, target: str, arguments: tuple[str, ...], words: str
) -> None:
    result = call("audit", target, "--epsilon", "1", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr and "Traceback" not in result.stderr


def test_a_page_that_cannot_be_written_is_refused_before_the_work(call: Call, module: Path) -> None:
    result = call("audit", "noise.py:sound", "--epsilon", "1", *ONE, "--html", "absent/report.html")
    assert result.exit_code == 4 and "no such folder" in result.stderr
