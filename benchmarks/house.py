"""Size, shape and imports of the package, beside their targets: `python -m benchmarks.house`.

Counts come from the syntax trees of `src`. The trace runs in a process of its own: the second query of a session,
planned anew, on an in-memory ledger. `--check` fails on a target that was reached once and is missed now.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from tests.house.tree import ROOT, SRC, module_of, sources, tree_of

TEST_MACHINERY = {"hypothesis", "pytest", "tests", "unittest"}

_TRACE = """
import collections, json, sys, types
import pandas, discreet as dp
frame = pandas.DataFrame({"id": range(20), "x": range(20)})
unit = dp.PrivacyUnit("id", max_groups=1, max_rows=1)
session = dp.connect({"t": frame}, unit=unit, population="house", budget=dp.Budget(epsilon=9), ledger=":memory:")
session.sql("SELECT COUNT(*) AS n FROM t WHERE id > 3", epsilon=1)
root = dp.__file__.removesuffix("__init__.py")
files, entered, asked, running = set(), collections.Counter(), collections.defaultdict(list), {}
def seen(frame, event, value):
    code = frame.f_code
    if event not in ("call", "return") or not code.co_filename.startswith(root):
        return
    files.add(code.co_filename)
    name = code.co_filename.removeprefix(root) + " " + code.co_qualname
    if not name.startswith(("query/", "plan/")) or code.co_flags & 0x20 or "<" in code.co_name:
        return
    if event == "call":
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        running[frame] = [frame.f_locals[n] for n in names]
    elif frame in running:  # a value of the package, or several
        given = running.pop(frame)
        first = value[0] if isinstance(value, tuple) and value else value
        made = type(first).__module__.startswith("discreet") or first == ()
        if made and not any(value is one for one in given):
            entered[name] += given in asked[name]
            asked[name].append(given)
sys.setprofile(seen)
session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1)
sys.setprofile(None)
print(json.dumps([len(files), entered]))
"""


@dataclass(frozen=True)
class Row:
    """One number beside its target; `held` says that the target was reached, so that `--check` keeps it."""

    name: str
    value: float
    most: float | None = None
    held: bool = False

    @property
    def missed(self) -> bool:
        """Whether the number is above its target."""
        return self.most is not None and self.value > self.most

    def __str__(self) -> str:
        target = "" if self.most is None else f"≤ {self.most:,}"
        verdict = "missed" if self.missed else "held" if self.held else "reached" if target else ""
        return f"{self.name:<58} {self.value:>10,.5g} {target:>10}  {verdict}"


def edges(path: Path) -> Iterator[tuple[str, str]]:
    """Names that a file imports, each with its kind: "run", "type" (for type checkers) or "local" (in a function)."""

    def walk(node: ast.AST, kind: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ImportFrom):
                yield from ((f"{child.module}.{alias.name}", kind) for alias in child.names)
            elif isinstance(child, ast.Import):
                yield from ((alias.name, kind) for alias in child.names)
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                yield from walk(child, "local")
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                yield from walk(child, "type" if kind == "run" else kind)
            else:
                yield from walk(child, kind)

    yield from walk(tree_of(path), "run")


def graph(kinds: set[str]) -> dict[str, set[str]]:
    """Return which modules of the package each of them imports in one of these ways."""
    modules = {module_of(path): path for path in sources()}
    found: dict[str, set[str]] = {}
    for module, path in modules.items():
        targets = {target for target, kind in edges(path) if kind in kinds}
        inner = {target if target in modules else target.rpartition(".")[0] for target in targets}
        found[module] = (inner & modules.keys()) - {module}
    return found


def cycles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the sets of modules that reach one another, each sorted."""

    def reached(module: str) -> set[str]:
        found: set[str] = set()
        todo = [module]
        while todo:
            new = imports[todo.pop()] - found
            found |= new
            todo.extend(new)
        return found

    reach = {module: reached(module) for module in imports}
    turning = [module for module in reach if module in reach[module]]
    found = {tuple(sorted(m for m in reach[module] if module in reach[m])) for module in turning}
    return [list(together) for together in sorted(found)]


def comparisons_of_types(path: Path) -> int:
    """Return how many `isinstance(x, T)` and `type(x) is T` a file has."""
    found = 0
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call):
            found += isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
            found += isinstance(node.left, ast.Call) and ast.unparse(node.left.func) == "type"
    return found


def trace() -> tuple[int, dict[str, int]]:
    """Return how many files a warm COUNT(*) enters, and how often each function of the planner makes a value again."""
    out = subprocess.run([sys.executable, "-c", _TRACE], cwd=ROOT, check=True, capture_output=True, text=True)
    files, again = json.loads(out.stdout)
    return files, {name: count for name, count in again.items() if count}


def rows() -> Iterator[Row]:
    """Count everything but the trace."""
    paths = sources()
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select=D401", "--output-format=json"]
    nouns = json.loads(subprocess.run(ruff, cwd=SRC, check=False, capture_output=True).stdout)
    yield Row("docstrings of functions that begin with no verb", len(nouns), 0)
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    longest = sorted(lines.values())
    yield Row("lines of src", sum(longest), 87_000)
    yield Row("files of src", len(paths), 500)
    yield Row("lines of a file: median", median(longest))
    yield Row("lines of a file: 90 % have at most", quantiles(longest, n=10)[-1], 600, held=True)
    yield Row("lines of a file: most", longest[-1])
    nodes = (node for path in paths for node in ast.walk(tree_of(path)))
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = sum((node.end_lineno or 0) - node.lineno >= 40 for node in functions)
    yield Row("% of functions with more than 40 lines", 100 * long / len(functions), 2, held=True)
    planner = [path for path in paths if path.relative_to(SRC / "discreet").parts[0] in ("query", "plan")]
    for name, some, most in (("all", paths, None), ("planner", planner, 16)):
        count = 1000 * sum(map(comparisons_of_types, some)) / sum(lines[path] for path in some)
        yield Row(f"isinstance and `type(x) is` in 1,000 lines: {name}", count, most)
    everything = graph({"run", "type", "local"})
    yield Row("cycles of files: imports when they are loaded", len(cycles(graph({"run"}))), 0, held=True)
    yield Row("cycles of files: and for type checkers", len(cycles(graph({"run", "type"}))), 0, held=True)
    yield Row("cycles of files: and inside functions", len(cycles(everything)), 0, held=True)
    importers = Counter(target for targets in everything.values() for target in targets)
    alone = [path for path in paths if importers[module_of(path)] == 1]
    yield Row("files with exactly one importer", len(alone))
    yield Row("lines of these", sum(lines[path] for path in alone))
    kit = SRC / "discreet" / "testing"
    others = [path for path in paths if path != kit / "plugin.py"]  # pytest loads it, and nothing else does
    needs = (any(t.split(".")[0] in TEST_MACHINERY for t, _ in edges(path)) for path in others)
    yield Row("files of the wheel that need a test library", sum(needs), 0, held=True)
    yield Row("lines of discreet.testing", sum(lines[p] for p in paths if kit in p.parents), 1000, held=True)


def main() -> None:
    """Print every number beside its target, and fail under `--check` where one that was reached is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.house", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail on a target that was reached before")
    checked = parser.parse_args().check
    found = list(rows())
    files, again = trace()
    found.append(Row("files that a warm SELECT COUNT(*) enters", files, 60))
    found.append(Row("values that its planner builds again", sum(again.values()), 0, held=True))
    print("\n".join(map(str, found)))
    for name, count in Counter(again).most_common():
        print(f"    {count:3} × again: {name}")
    for together in cycles(graph({"run", "type", "local"})):
        print("    cycle:", ", ".join(name.removeprefix("discreet.") for name in together))
    if checked and (lost := [row.name for row in found if row.held and row.missed]):
        sys.exit(f"missed, and reached before: {'; '.join(lost)}")


if __name__ == "__main__":
    main()
