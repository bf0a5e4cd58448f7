"""What may be imported where: randomness in one place, each driver in its file, nothing heavy at once."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import import_statements, imports, name_of, sources, tree_of

UNSAFE_RANDOMNESS = ("random", "secrets", "numpy.random", "scipy.stats.qmc")
# An auditor's random inputs protect nobody, and are to be repeated.
ATTACKERS = ("src/discreet/audit/",)

# The operating system's randomness is drawn only here: the noise, and secrets that are stored.
URANDOM = {
    "src/discreet/noise/entropy.py": "every random bit of every release",
    "src/discreet/ledger/": "the account's secret key, which orders a person's groups",
}

# A library that belongs to one place: names of files, or of folders ending in a slash.
ONLY_IN = {
    "duckdb": (
        "src/discreet/backends/connection.py",
        "src/discreet/backends/duckdb.py",
        "src/discreet/backends/sources.py",  # these two find out what the one above reads
        "src/discreet/backends/text_files.py",
        "src/discreet/backends/sandbox.py",
        "src/discreet/backends/sandbox.py",
        "src/discreet/backends/connection.py",  # says how the one above is to count
        "src/discreet/cli/demo.py",  # gives the demo's attacker the exact answers
    ),
    "altair": ("src/discreet/plots/",),
    "vl_convert": ("src/discreet/plots/",),
    "pg8000": ("src/discreet/backends/postgres.py", "src/discreet/ledger/postgres/link.py"),
    "pyspark": ("src/discreet/backends/spark.py",),
    "sqlite3": ("src/discreet/ledger/", "src/discreet/cli/doctor.py"),
    "sqlglot": tuple(f"src/discreet/{room}/" for room in ("query", "plan", "verify", "backends")),
    "click": ("src/discreet/cli/",),
    "sklearn": ("src/discreet/learn/",),
    "torch": ("src/discreet/learn/torch/",),
}

HEAVY = (
    "scipy",
    "duckdb",
    "sqlglot",
    "cryptography",
    "pandas",
    "polars",
    "pyarrow",
    "click",
    "sqlite3",
    "altair",
    "vl_convert",
    "pg8000",
    "sklearn",
)


def within(path: Path, places: tuple[str, ...]) -> bool:
    """Whether a file is one of the places."""
    return any(name_of(path) == p or (p.endswith("/") and name_of(path).startswith(p)) for p in places)


def starts_with(module: str, name: str) -> bool:
    """Whether a dotted name is another one or lies below it."""
    return module == name or module.startswith(name + ".")


def attributes(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every dotted expression such as `np.random` or `os.urandom`, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{node.value.id}.{node.attr}", node.lineno


FOREIGN = "src/discreet/learn/trusted.py"
"""Seeds the generators from which somebody else's estimators draw, and draws nothing of them itself."""


def test_no_unsafe_randomness_anywhere_in_the_package() -> None:
    found = [
        f"{name_of(path)}:{line} {module}"
        for path in sources()
        if not within(path, (*ATTACKERS, FOREIGN))
        and re.search("random|secrets|qmc|rvs", path.read_text(encoding="utf-8"))
        for module, line in [*imports(path), *attributes(tree_of(path))]
        if module in {"np.random", "scipy.stats.rvs"} or any(starts_with(module, n) for n in UNSAFE_RANDOMNESS)
    ]
    assert found == []


def test_urandom_is_read_only_where_it_is_declared() -> None:
    found = [
        f"{name_of(path)}:{line}"
        for path in sources()
        if not within(path, tuple(URANDOM)) and "random" in path.read_text(encoding="utf-8")
        for module, line in [*imports(path), *attributes(tree_of(path))]
        if module in {"os.urandom", "os.getrandom"}
    ]
    assert found == []


@pytest.mark.exhaustive
def test_no_import_is_overlooked() -> None:
    for path in sources():
        every = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.Import | ast.ImportFrom)]
        found = import_statements(path.read_text(encoding="utf-8"))
        assert sorted((n.lineno, ast.dump(n)) for n in found) == sorted((n.lineno, ast.dump(n)) for n in every)


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_stays_in_its_place(library: str) -> None:
    found = [
        f"{name_of(path)}:{line}"
        for path in sources()
        if not within(path, ONLY_IN[library])
        for module, line in imports(path)
        if starts_with(module, library)
    ]
    assert found == []


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, discreet; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(HEAVY) & set(done.stdout.split()) == set()
