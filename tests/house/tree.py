"""The project's own files, as the house tests see them: no caches, no environments, no results."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
_FOLDERS = (".ci", "benchmarks", "changelog.d", "docs", "examples", "src", "tests")
_LEFT_OUT = {"__pycache__", ".venvs", "results", "build", "dist"}
_TEXT = {"", ".py", ".md", ".toml", ".sh", ".sql", ".txt", ".cff", ".json", ".csv"}


def sources() -> list[Path]:
    """Every Python file of the package."""
    return sorted((SRC / "discreet").rglob("*.py"))


def pages() -> list[Path]:
    """Every Markdown file of the project."""
    return [path for path in texts() if path.suffix == ".md"]


def texts() -> list[Path]:
    """Every text file of the project."""
    return sorted(path for path in _files() if path.suffix in _TEXT)


def name_of(path: Path) -> str:
    """A path as a reader would write it, from the project's root."""
    return path.relative_to(ROOT).as_posix()


def module_of(path: Path) -> str:
    """The dotted name of a source file."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def listed(module: ModuleType) -> list[str]:
    """Return the public names of a module: `__all__`, or what its file imports as `X as X`."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    tree = ast.parse(inspect.getsource(module))
    aliases = [alias for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    return [alias.name for alias in aliases if alias.asname == alias.name]


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a source file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=name_of(path))


@cache
def imports(path: Path) -> tuple[tuple[str, int], ...]:
    """Dotted names that a source file imports, with their lines: at any depth, inside functions too.

    `from a import b` gives `a.b`: whether b is a module or a name is for the caller to see.
    """
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    package = module_of(path).split(".")[: None if path.name == "__init__.py" else -1]
    for node in import_statements(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *(node.module or "").split(".")]).strip(".")
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


_IMPORT = re.compile(
    r"^[ \t]*((?:from +[\w.]+ +import +(?:\([^)]*\)|[^\n(]*)|import +\w[\w., ]*))(?:#.*)?$", flags=re.MULTILINE
)


def import_statements(text: str) -> Iterator[ast.stmt]:
    """Return the imports of a file as the formatter writes them: to parse all of every file takes seconds."""
    for match in _IMPORT.finditer(text):
        (node,) = ast.parse(match[1]).body
        yield ast.increment_lineno(node, text.count("\n", 0, match.start(1)))


@cache
def _files() -> tuple[Path, ...]:
    found = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]  # a file in a worktree
    for folder in _FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            inside = path.relative_to(ROOT).parts
            hidden = any(part.startswith(".") for part in inside[1:])
            if path.is_file() and not hidden and not _LEFT_OUT.intersection(inside):
                found.append(path)
    return tuple(found)
