"""The oldest versions that are tried are those that the package declares."""

from __future__ import annotations

import re
import tomllib

from tests.house.tree import ROOT

FILE = ROOT / "constraints" / "oldest.txt"
DEVELOPERS = ("docs", "test")  # extras that users do not install


def declared() -> dict[str, str]:
    """Return the lower bound of every package that a user may install, the extras' too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = {*project["dependencies"], *(line for name in extras for line in extras[name] if name not in DEVELOPERS)}
    return dict(bound(line) for line in lines if not line.startswith("discreet"))


def bound(line: str) -> tuple[str, str]:
    """Return a package and its lower bound; `discreet doctor` knows these two forms alone."""
    found = re.fullmatch(r"([\w-]+)>=([\d.]+)(?:,<[\d.]+)?", line)
    assert found, line
    return found[1], found[2]


def test_the_oldest_versions_are_the_lower_bounds() -> None:
    lines = [line for line in FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert lines == [f"{name}=={version}" for name, version in sorted(declared().items())]


def test_one_package_has_one_lower_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [line for extra in project["optional-dependencies"].values() for line in extra]
    bounds = {bound(line) for line in lines if line.startswith(("pyarrow", "pandas>", "polars"))}
    assert len(bounds) == len({name for name, _ in bounds}) == 3


def test_continuous_integration_tries_them() -> None:
    assert "-c constraints/oldest.txt" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
