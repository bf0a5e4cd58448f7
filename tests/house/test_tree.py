"""What the files themselves look like: size, no paths of one machine, nothing unfinished."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import discreet
from tests.house.tree import ROOT, SRC, name_of, sources, texts

MAX_LINES = 600

# A longer file of the package: the reason why it is still one idea.
LONG: dict[str, str] = {}

# Written so that this file does not match itself.
MACHINE_PATH = re.compile(r"(?<![\w.~}-])/(?:work|root|farm|home|tmp|Users)/" + r"\w")
REGISTRY = re.compile(
    "|".join(["pypi" + r"\.org", "python" + r"hosted\.org", "npm" + r"js\.org", "/opt/" + "pypi"])
)
UNFINISHED = re.compile(r"\b(?:TO" + "DO|FIX" + "ME|XX" + r"X)\b|NotImplemented" + "Error")
OUTSIDE = re.compile(r"\.\./" + "shared")


def matches(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    """Where a pattern occurs, as file:line."""
    return [
        f"{name_of(path)}:{number} {line.strip()[:80]}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if pattern.search(line)
    ]


def test_a_long_file_of_the_package_has_a_reason() -> None:
    lines = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}
    long = {name for name, count in lines.items() if count > MAX_LINES}
    assert long == LONG.keys()


def test_no_file_names_a_path_of_one_machine() -> None:
    assert matches(MACHINE_PATH, texts()) == []


def test_no_file_names_the_host_of_a_package_registry() -> None:
    assert matches(REGISTRY, texts()) == []


def test_no_file_reads_outside_the_checkout() -> None:
    assert matches(OUTSIDE, texts()) == []


def test_nothing_in_the_package_is_left_unfinished() -> None:
    assert matches(UNFINISHED, [path for path in texts() if path.is_relative_to(SRC)]) == []


def test_the_patterns_see_what_they_look_for() -> None:
    assert MACHINE_PATH.search('open("' + "/tmp" + '/x")')
    assert not MACHINE_PATH.search("https://example.org/home/page and docs/root/x")
    assert UNFINISHED.search("# " + "TO" + "DO: later")


def test_there_is_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"\nversion: {project}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert metadata.version("discreet") == discreet.__version__ == project
