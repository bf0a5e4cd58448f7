"""CONTRIBUTING says in how many files of the package each kind of addition stands, by an example that is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.house.test_docs import blocks
from tests.house.tree import ROOT, SRC, module_of, sources

PACKAGE = SRC / "discreet"
# | kind | number | `Name`, `name` | `file.py`, `folder/file.py` |
ROW = re.compile(r"^\| (an? [^|]+?) \| (\d+) \| ([^|]+?) \| ([^|]+?) \|$", flags=re.MULTILINE)


def rows() -> list[tuple[str, int, list[str], list[str]]]:
    """Return the table's rows: what is added, in how many files, the example's names, and the files."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    quoted = re.compile(r"`([^`]+)`")
    return [(kind, int(n), quoted.findall(a), quoted.findall(b)) for kind, n, a, b in ROW.findall(text)]


def code_of(path: Path) -> str:
    """Return the code of a file without its comments and docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            plain = [n for n in node.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
            node.body = plain or [ast.Pass()]
    return ast.unparse(tree)


def files_with(names: list[str], paths: list[Path]) -> set[str]:
    """Return the files whose code has one of these words, and the modules of these names."""
    words = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)")
    plain = re.compile("|".join(re.escape(name.strip("'")) for name in names))
    likely = [path for path in paths if plain.search(path.read_text(encoding="utf-8"))]
    found = [path for path in likely if words.search(code_of(path))]
    found += [path for path in paths if module_of(path) in names]
    return {path.relative_to(PACKAGE).as_posix() for path in found}


def test_each_addition_takes_as_many_files_as_the_table_says() -> None:
    found = rows()
    assert {"a recipe", "a mechanism", "an aggregate of measured columns", "a command", "a source"} <= {
        r[0] for r in found
    }
    for kind, number, names, files in found:
        assert files_with(names, sources()) == {*files}, kind
        assert len(files) == number, kind


def test_a_worked_example_of_a_recipe_is_short() -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    examples = re.findall(r"^## Example: .*?(?=^## (?!Hold))", page, flags=re.MULTILINE | re.DOTALL)
    for example in examples:
        code = "".join(block.text for block in blocks(example) if block.language == "python")
        assert 20 < len([line for line in code.splitlines() if line.strip()]) <= 60
    assert len(examples) == 2


def test_a_file_that_the_table_does_not_name_is_seen() -> None:
    _, _, names, files = next(row for row in rows() if row[3])
    assert files_with(names, [PACKAGE / files[0]]) == {files[0]}
    assert files_with([names[0] + "Of"], sources()) == set()
