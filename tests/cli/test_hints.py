"""Hints are in the language of the caller: the library's name arguments, and the command line's options."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from discreet.cli.hints import for_command_line
from discreet.cli.sql import command
from discreet.cli.synth import command as synth
from tests.house.tree import SRC, name_of

ROOMS = ("query", "plan", "engine", "catalog", "backends", "privacy", "ledger", "synth")
PYTHON_ALONE = {
    "plan/parts.py": "private parts of recipes",
    "engine/declared.py": "mechanisms of the owner's own code",
    "engine/meter.py": "recipes",
    "engine/session.py": "recipes",
    "engine/wings.py": "as above",
    "engine/connect.py": "two populations, whose options `both` checks itself",
    "engine/sql_recipe.py": "a number for each of two populations",
    "engine/plain_copy.py": "estimators of one's own",
    "synth/released.py": "errors of releases that are at hand",
    "backends/sources.py": "sources that are no path",
    "catalog/schema.py": "whole dates, which --range cannot say",
    "ledger/ledger.py": "curves, which no option gives",
    "ledger/account_state.py": "as above",
    "ledger/names.py": "who signs, which the options require",
    "ledger/analysts.py": "groups of analysts",
    "ledger/postgres/failures.py": "parameters of a URL",
    "ledger/postgres/link.py": "parameters of a URL",
    "privacy/exact.py": "numbers that options read themselves",
    "privacy/unit.py": "a unit's own arguments",
    "synth/asked.py": "workloads, structural zeros, and lists of columns",
    "synth/synthetic.py": "what is made of a data set in Python",
    "synth/census.py": "census tables, which no command makes",
    "synth/hierarchical.py": "as above",
    "synth/units.py": "as above",
}
"""Files of which some hints have no option to name, and why."""


def text_of(node: ast.expr) -> str:
    """The text of a hint; a value in it stands as a name, or as text in quotes."""
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(parts):
            return "".join(
                str(p.value)
                if isinstance(p, ast.Constant)
                else "'x'"
                if getattr(p, "conversion", -1) == ord("r")
                else "x"
                for p in parts
            )
        case ast.IfExp(_, body, orelse):
            return f"{text_of(body)} | {text_of(orelse)}"
        case ast.BinOp(left, _, right):
            return text_of(left) + text_of(right)
    return ""


def hints() -> Iterator[tuple[str, int, str]]:
    for room in ROOMS:
        for path in sorted((SRC / "discreet" / room).rglob("*.py")):
            for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(call, ast.Call):
                    yield from (
                        (name_of(path).removeprefix("src/discreet/"), call.lineno, text_of(k.value))
                        for k in call.keywords
                        if k.arg == "hint"
                    )


def test_no_hint_of_the_library_names_an_option() -> None:
    named = {f"{file}:{line}" for file, line, text in hints() if re.search(r"--[a-z]", re.sub("`[^`]*`", "", text))}
    assert named == set()


def test_no_hint_on_the_command_line_names_an_argument_of_python() -> None:
    left = {}
    for file, line, text in hints():
        said = re.sub(r"--[\w-]+ '?[\w.…]+=|`[^`]*`", "", for_command_line(text))
        if file not in PYTHON_ALONE and re.search(r"\bdp\.|\w=(?!=)|\b(connect|PrivacyUnit|Budget)\(", said):
            left[f"{file}:{line}"] = said
    assert left == {}


@pytest.mark.parametrize(
    ("python", "options"),
    [
        ("columns={'age': dp.Range(0, 120)}, or pass delta=1e-6", "--range age=0:120, or pass --delta 1e-6"),
        (
            "add columns={'a': dp.Range(0, 9, integer=True), 'b': dp.Values('x', 'y')}",
            "add --range a=0:9:integer --values b=x,y",
        ),
        ("columns={'d': dp.Range(date(2020, 1, 1), date(2026, 1, 1))}", "--range d=2020-01-01:2026-01-01"),
        ("columns={\"pole\": dp.Values('north pole')}", "--values 'pole=north pole'"),
        (
            "unit=dp.PrivacyUnit('uid', max_groups=3, max_rows=10): both",
            "--unit uid --max-groups 3 --max-rows 10: both",
        ),
        ("dp.PrivacyUnit.row() where each row is one person", "--each-row where each row is one person"),
        ("budget=dp.Budget(epsilon=3, delta=1e-6)", "--budget 3,1e-6"),
        ("epsilon=0.5, or error={'n': 50} for the least", "--epsilon 0.5, or --error n=50 for the least"),
        ("leave relation= out: it is fixed", "leave --relation out: it is fixed"),
        ("and pass epsilon=", "and pass --epsilon"),
        ("tables={'items': 'order_id -> orders.id'}", "--unit-path 'items=order_id -> orders.id'"),
        ("links={'items': 'ticket -> tickets.id'}", "--link 'items=ticket -> tickets.id'"),
        ('public=["regions"], names=["a", "b"]', "--public regions, --names a,b"),
        ("fresh=True draws again; noise='laplace'", "--fresh draws again; --noise laplace"),
        ("columns={'a': dp.Range(0, 9)}, when you connect; or fewer bins=", "--range a=0:9; or fewer --bins"),
        ("narrower bounds (dp.Range), or dp.Values", "narrower bounds (--range), or --values"),
        ("SELECT x FROM t WHERE x = 3 AND f(a=2)", "SELECT x FROM t WHERE x = 3 AND f(a=2)"),
    ],
)
def test_arguments_are_options_on_the_command_line(python: str, options: str) -> None:
    assert for_command_line(python) == options


def test_every_option_that_a_hint_names_is_one() -> None:
    known = {name for option in (*command.params, *synth.params) for name in option.opts} | {"--key"}
    for _, _, text in hints():
        said = for_command_line(re.sub(r"`[^`]*`", "", text))
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", said)) <= known
