"""`discreet doctor`: does everything that a result needs work on this machine?"""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from discreet.cli import output
from discreet.errors import DiscreetError, InternalError, SourceError
from discreet.table import render

EXTRAS = {  # what each enables
    "arrow": "pyarrow tables as sources, and release.to_arrow()",
    "learn": "scikit-learn's habits: discreet.learn",
    "plots": "pictures: discreet.plots, and --plot",
    "pandas": "pandas frames as sources, and release.to_pandas()",
    "polars": "polars frames as sources, and release.to_polars()",
    "postgres": "ledgers in PostgreSQL",
    "torch": "private training of PyTorch models: discreet.learn.torch",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: whether it is as it must be, and what was found."""

    name: str
    state: str
    found: str

    @property
    def healthy(self) -> bool:
        """Whether results can be given all the same."""
        return self.state != "FAILED"


@click.command("doctor", short_help="Check of the installation and the ledger.")
@click.option("--ledger", metavar="FILE", default="discreet.ledger", help="File of the ledger to check.")
@click.option("--json", "as_json", is_flag=True, help="JSON output.")
def command(ledger: str, as_json: bool) -> None:
    """Check Python, the packages' versions, randomness, the database and the ledger's folder; report what is missing.

    Exit code 0 when queries can run, 4 when they cannot.
    """
    findings = [
        *_core(),
        _tried("randomness", _randomness),
        _tried("database", _database),
        _tried("ledger folder", lambda: _folder(Path(ledger))),
        *(_extra(name, enables) for name, enables in EXTRAS.items() if _version("discreet")),
    ]
    healthy = all(finding.healthy for finding in findings)
    if as_json:
        checks = [{"check": f.name, "state": f.state, "found": f.found} for f in findings]
        output.say_json({"healthy": healthy, "checks": checks})
    else:
        output.say(f"discreet {_version('discreet') or '(not installed)'} on {platform.system()} {platform.machine()}")
        output.say()
        output.say(render(["state", "check", "found"], [[f.state, f.name, f.found] for f in findings]))
        output.say()
        output.say("All is well: queries can be asked." if healthy else "What says FAILED has to be put right first.")
    if not healthy:
        raise click.exceptions.Exit(4)


def _core() -> list[Finding]:
    """Compare Python and the packages that are always needed with what this package declares."""
    if not _version("discreet"):
        return [Finding("discreet", "FAILED", "not installed, so it is not known what it needs: pip install .")]
    python = importlib.metadata.metadata("discreet")["Requires-Python"]
    listed = [("Python", python, platform.python_version(), f"make an environment with Python {python}")]
    listed += [(name, wanted, _version(name), f"pip install '{name}{wanted}'") for name, wanted in _declared()]
    return [
        Finding(name, "FAILED", f"{wrong}: {mend}") if (wrong := _unfit(found, wanted)) else Finding(name, "ok", found)
        for name, wanted, found, mend in listed
    ]


def _extra(name: str, enables: str) -> Finding:
    """Compare the packages of an extra with what this package declares, where they are installed."""
    versions = [(package, wanted, _version(package)) for package, wanted in _declared(name)]
    for package, wanted, found in versions:
        if not found:
            return Finding(f"[{name}]", "absent", f"pip install 'discreet[{name}]' enables {enables}")
        if wrong := _unfit(found, wanted):
            return Finding(f"[{name}]", "unfit", f"{package} {wrong}: pip install '{package}{wanted}'")
    return Finding(f"[{name}]", "ok", ", ".join(f"{p} {v}" for p, _, v in versions) + f": {enables}")


def _declared(extra: str | None = None) -> list[tuple[str, str]]:
    """Return the packages that this one, or an extra of it, declares, each with the versions that fit."""
    parts = (re.split(r"; *extra == ", line) for line in importlib.metadata.requires("discreet") or [])
    lines = [part[0] for part in parts if part[1:] == ([f"'{extra}'"] if extra else [])]
    return [re.findall(r"([\w-]+)(.+)", line)[0] for line in lines]


def _unfit(version: str, wanted: str) -> str:
    """Return how a version misses what is declared (`>=` and `<`); empty where it fits."""
    if not version:
        return "not installed"
    for bound in wanted.split(","):
        if (_order(version) >= _order(bound.lstrip("<>="))) is not bound.startswith(">="):
            return f"{version}, not {bound}"
    return ""


def _order(version: str) -> tuple[list[int], bool]:
    """Return what versions are compared by: their numbers, and that 2.0rc1 and 2.0.dev1 come before 2.0."""
    numbers, rest = re.findall(r"^([\d.]*\d)(.*)", version)[0]
    places = [int(n) for n in re.sub(r"(\.0)+$", "", numbers).split(".")]
    return places, not re.match(r"[.-]?(a|b|rc|dev)", rest)


def _tried(name: str, trial: Callable[[], str]) -> Finding:
    """Return the trial's own words, or that it failed: a doctor among the sick must not fall ill."""
    try:
        return Finding(name, "ok", trial())
    except DiscreetError as error:
        return Finding(name, "FAILED", error.message)
    except Exception as error:  # no private data is near
        return Finding(name, "FAILED", f"{type(error).__name__}: {error}")


def _randomness() -> str:
    from discreet.noise.entropy import SystemEntropy

    first, second = SystemEntropy().bytes(32), SystemEntropy().bytes(32)
    if len(first) != 32 or first == second:
        raise InternalError("the operating system's random numbers repeat")
    return "the operating system's generator, stretched by AES"


def _database() -> str:
    from discreet.backends.connection import open_database

    with open_database() as database:
        rows = database.execute("SELECT sum(x)::VARCHAR FROM range(1, 5) AS t (x)").fetchall()
    if rows != [("10",)]:
        raise InternalError("DuckDB adds up wrongly")
    return "DuckDB answers"


def _folder(ledger: Path) -> str:
    """Whether a ledger can be made there, by making one beside it for a moment."""
    if not (there := ledger.absolute().parent).is_dir():
        raise SourceError(f"there is no folder {there}: make it, or name another one with --ledger.")
    with tempfile.TemporaryDirectory(dir=there, prefix=".discreet-doctor-") as folder:
        trial = sqlite3.connect(Path(folder) / "trial.ledger")
        try:
            trial.execute("CREATE TABLE trial (x)")
        finally:
            trial.close()
    return "can be written" + (f", and {ledger.name} is there" if ledger.exists() else "")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
