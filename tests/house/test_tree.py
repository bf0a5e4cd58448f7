"""What the files themselves look like: size, no paths of one machine, nothing unfinished."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import discreet
from tests.house.tree import ROOT, SRC, name_of, sources, texts

# A name of two public classes: how readers tell them apart.
SHARED_NAMES = {
    "Laplace": "dp.mechanisms.Laplace and dp.local.Laplace, the same law on a server and on a device",
    "Mechanism": "dp.finite.Mechanism is given by its matrix, dp.mechanisms.Mechanism by its parameters",
    "Histogram": "dp.mechanisms.Histogram, and the node of a result that HISTOGRAM makes",
}

# Written so that this file does not match itself.
MACHINE_PATH = re.compile(r"(?<![\w.~}-])/(?:work|root|farm|home|tmp|Users)/" + r"\w")
REGISTRY = re.compile("|".join(["pypi" + r"\.org", "python" + r"hosted\.org", "npm" + r"js\.org", "/opt/" + "pypi"]))
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


_PUBLIC_CLASS = re.compile(r"^class ([A-Za-z]\w*)", flags=re.MULTILINE)


def shared_names(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names of public classes that several of these files define, each with the files."""
    found: dict[str, list[str]] = {}
    for name, text in files.items():
        for public in _PUBLIC_CLASS.findall(text):
            found.setdefault(public, []).append(name)
    return {public: names for public, names in found.items() if len(names) > 1}


def test_no_two_public_classes_share_a_name() -> None:
    files = {name_of(path): path.read_text(encoding="utf-8") for path in sources()}
    assert shared_names(files).keys() == SHARED_NAMES.keys()


def test_a_second_class_of_one_name_is_seen() -> None:
    files = {
        "a.py": "class Cost:\n    ...",
        "b.py": "x = 1\nclass Cost(Base):\n    class Inner: ...",
        "c.py": "class _Cost: ...",
    }
    assert shared_names(files) == {"Cost": ["a.py", "b.py"]}


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
