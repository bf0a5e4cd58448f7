"""`discreet doctor`: does everything that an answer needs work on this machine?"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from discreet.cli import output
from discreet.errors import DiscreetError, InternalError
from discreet.table import render

CORE = ("numpy", "scipy", "duckdb", "sqlglot", "cryptography", "click")

EXTRAS = {  # the extra: the package it brings, and what that enables
    "arrow": ("pyarrow", "pyarrow tables as sources, and release.to_arrow()"),
    "plots": ("altair", "pictures: discreet.plots, and --plot"),
    "pandas": ("pandas", "pandas frames as sources, and release.to_pandas()"),
    "polars": ("polars", "polars frames as sources, and release.to_polars()"),
    "postgres": ("pg8000", "ledgers in PostgreSQL"),
}

OLDEST = (3, 11)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at: whether it is as it must be, and what was found."""

    name: str
    state: str
    found: str

    @property
    def healthy(self) -> bool:
        """Whether answers can be given all the same."""
        return self.state != "FAILED"


@click.command("doctor", short_help="Check that everything an answer needs works here.")
@click.option(
    "--ledger", metavar="FILE", default="discreet.ledger", help="The ledger that is meant to be used."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def command(ledger: str, as_json: bool) -> None:
    """Check Python, the packages, randomness, the database and the ledger's folder; report what is missing.

    Exit code 0 when questions can be asked, 4 when they cannot.
    """
    findings = [
        _python(),
        *map(_package, CORE),
        _tried("randomness", _randomness),
        _tried("database", _database),
        _tried("ledger folder", lambda: _folder(Path(ledger))),
        *(_extra(name, *extra) for name, extra in EXTRAS.items()),
    ]
    healthy = all(finding.healthy for finding in findings)
    if as_json:
        checks = [{"check": f.name, "state": f.state, "found": f.found} for f in findings]
        output.say_json({"healthy": healthy, "checks": checks})
    else:
        output.say(f"discreet {_version('discreet')} on {platform.system()} {platform.machine()}")
        output.say()
        output.say(render(["state", "check", "found"], [[f.state, f.name, f.found] for f in findings]))
        output.say()
        output.say(
            "All is well: questions can be asked."
            if healthy
            else "What says FAILED has to be put right first."
        )
    if not healthy:
        raise click.exceptions.Exit(4)


def _python() -> Finding:
    new_enough = sys.version_info >= OLDEST
    return Finding("Python", "ok" if new_enough else "FAILED", platform.python_version())


def _package(name: str) -> Finding:
    """Whether a package can be found; what it can do is tried further down."""
    found = importlib.util.find_spec(name) is not None
    return Finding(name, "ok" if found else "FAILED", _version(name) if found else "not installed")


def _extra(name: str, package: str, enables: str) -> Finding:
    if importlib.util.find_spec(package) is not None:
        return Finding(f"[{name}]", "ok", f"{package} {_version(package)}: {enables}")
    return Finding(f"[{name}]", "absent", f"pip install 'discreet[{name}]' enables {enables}")


def _tried(name: str, trial: Callable[[], str]) -> Finding:
    """The trial's own words, or that it failed: a doctor among the sick must not fall ill."""
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
    with tempfile.TemporaryDirectory(dir=ledger.absolute().parent, prefix=".discreet-doctor-") as folder:
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
        return "(version unknown)"
