"""Nodes of an answer carry their operations: no code outside their files asks which node it has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.tree import SRC, module_of, name_of, sources, tree_of

NODES = SRC / "discreet" / "plan" / "nodes"
ROOM = {*NODES.glob("*.py")}


def node_classes() -> dict[str, str]:
    """Each class of nodes, with its module."""
    found = {}
    for path in NODES.glob("*.py"):
        for item in tree_of(path).body:
            if isinstance(item, ast.ClassDef) and {ast.unparse(b) for b in item.bases} & {"Node", "OfTree"}:
                found[item.name] = module_of(path)
    return found


CLASSES = node_classes()


def users() -> list[Path]:
    """The files outside the room that import anything of it."""
    paths = (path for path in sources() if path not in ROOM)
    return [p for p in paths if re.search(r"discreet\.plan\.nodes\b", p.read_text(encoding="utf-8"))]


def imported(tree: ast.AST) -> dict[str, str]:
    """The classes of nodes that a file imports, by the names that it gives them."""
    froms = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    return {a.asname or a.name: a.name for n in froms for a in n.names if CLASSES.get(a.name) == n.module}


def questions(tree: ast.AST) -> Iterator[int]:
    """The lines that ask whether something is a node of some class."""
    names = imported(tree)
    for node in ast.walk(tree):
        asked: list[ast.AST] = []
        match node:
            case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, of]):
                asked = [of]
            case ast.Compare(left=ast.Call(func=ast.Name(id="type")), comparators=of):
                asked = [*of]
            case ast.MatchClass(cls=of):
                asked = [of]
        if any(isinstance(n, ast.Name) and n.id in names for one in asked for n in ast.walk(one)):
            yield getattr(node, "lineno", 0)


def test_only_the_room_of_nodes_asks_which_node_it_has() -> None:
    assert [f"{name_of(path)}:{line}" for path in users() for line in questions(tree_of(path))] == []


def test_a_question_would_be_seen() -> None:
    text = """
from discreet.plan.nodes.mean import Mean as M
from discreet.plan.nodes.of_tree import Mode
from discreet.plan.nodes.node import Measured
from discreet.query.expr import Call
isinstance(x, Call)
isinstance(x, Measured | Call)
type(x) is M
match x:
    case Call():
        pass
    case Mode(tree, _):
        pass
"""
    assert list(questions(ast.parse(text))) == [7, 8, 12]


def test_few_files_name_a_node() -> None:
    named: dict[str, list[str]] = {name: [] for name in CLASSES}
    for path in users():
        for name in imported(tree_of(path)).values():
            named[name].append(name_of(path))
    del named["Measured"]  # which every aggregate makes
    assert {name: files for name, files in named.items() if len(files) > 2} == {}
    assert any(named.values())
