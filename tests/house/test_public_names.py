"""Every public name says what it is, every mechanism what it promises, every error is of one tree."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import discreet
from discreet import errors, mechanisms
from tests.house.tree import ROOT, listed, name_of, sources

# Errors that are not from `errors.py` and may be raised all the same.
BUILTIN_ERRORS = {
    "AssertionError": "what every test runner takes for a failure, from `assert_private`",
    "AttributeError": "the protocol of `__getattr__`",
    "IndexError": "the protocol of `__getitem__`",
    "KeyError": "the protocol of `__getitem__`",
    "KeyboardInterrupt": "Ctrl-C, passed on",
    "OverflowError": "a number that nothing here can hold",
    "SystemExit": "the end of the command line",
    "TypeError": "a slip of the programmer",
}
# Where a ValueError never gets out: what is not canonical there is a LedgerCorrupt to the reader.
PARSERS = "src/discreet/ledger/"


def parts(name: str, value: object) -> Iterator[tuple[str, object]]:
    """A public value and, for a class, its public methods and properties."""
    yield name, value
    if inspect.isclass(value):
        for member, item in vars(value).items():
            function = getattr(item, "__func__", item)  # inside a classmethod or a staticmethod
            if not member.startswith("_") and (inspect.isfunction(function) or isinstance(item, property)):
                yield f"{name}.{member}", getattr(value, member)


def docstring(value: object) -> str:
    """What somebody wrote: for a class its own words, neither inherited nor made up by `dataclass`."""
    if not inspect.isclass(value):
        return inspect.getdoc(value) or ""
    own = vars(value).get("__doc__") or ""
    made_up = dataclasses.is_dataclass(value) and own.startswith(f"{value.__name__}(")
    return "" if made_up else own


def mechanism_classes() -> dict[str, type]:
    """The mechanisms that a user can make."""
    values = {name: getattr(mechanisms, name) for name in listed(mechanisms)}
    classes = {name: value for name, value in values.items() if inspect.isclass(value)}
    return {name: c for name, c in classes.items() if hasattr(c, "release") and not inspect.isabstract(c)}


def test_every_public_name_exists_and_is_listed_once() -> None:
    names = listed(discreet)
    assert {"Budget", "PrivacyUnit", "Range", "Values", "connect", "errors", "mechanism"} <= set(names)
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(discreet, name)] == []


def test_every_public_name_of_a_part_exists_and_no_module_hides_it() -> None:
    # A module that is loaded sets its name in its package; what is loaded with the package is set after it.
    parts = [value for name in listed(discreet) if inspect.ismodule(value := getattr(discreet, name))]
    assert {"audit", "local", "mechanisms"} <= {part.__name__.rpartition(".")[2] for part in parts}
    for part in parts:
        names = listed(part)
        assert [name for name in names if getattr(part, name, None) is None] == []
        files = {path.stem for path in Path(inspect.getsourcefile(part) or "").parent.iterdir()}
        early = re.compile(rf"^from {part.__name__}\.\w+ import (\w+)", flags=re.MULTILINE)
        assert [n for n in files.intersection(names) if n not in early.findall(inspect.getsource(part))] == []


def test_every_public_name_has_a_docstring() -> None:
    values = {name: getattr(discreet, name) for name in listed(discreet)}
    described = {n: v for n, v in values.items() if callable(v) or inspect.ismodule(v)}
    assert [p for n, v in described.items() for p, item in parts(n, v) if not docstring(item).strip()] == []


def test_every_module_says_what_it_is() -> None:
    said = re.compile(r'(#.*\n)*r?"""\s*[^"\s]')
    assert [name_of(path) for path in sources() if not said.match(path.read_text(encoding="utf-8"))] == []


def test_every_mechanism_states_its_guarantee_and_its_references() -> None:
    assert {"Laplace", "Gaussian"} <= mechanism_classes().keys()
    wanted = ("Guarantee:", "References:")
    missing = [(n, w) for n, c in mechanism_classes().items() for w in wanted if w not in docstring(c)]
    assert missing == []


def test_every_mechanism_has_a_page_of_proof_that_names_its_file() -> None:
    proofs = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "proofs").glob("*.md"))
    files = {c.__module__.replace(".", "/") + ".py" for c in mechanism_classes().values()}
    assert [file for file in sorted(files) if file not in proofs] == []


def test_every_error_stands_in_the_tree_that_users_read() -> None:
    assert errors.__doc__
    classes = [v for v in vars(errors).values() if inspect.isclass(v) and issubclass(v, Exception)]
    assert [c.__name__ for c in classes if c.__name__ not in errors.__doc__] == []
    assert [c.__name__ for c in classes if not issubclass(c, errors.DiscreetError)] == []


def test_only_errors_of_that_tree_are_raised() -> None:
    builtin = {n for n, v in vars(builtins).items() if inspect.isclass(v) and issubclass(v, BaseException)}
    found = []
    for path in sources():
        for raised in re.finditer(r"\braise (\w+)", path.read_text(encoding="utf-8")):
            inside = raised[1] == "ValueError" and name_of(path).startswith(PARSERS)
            if raised[1] in builtin - BUILTIN_ERRORS.keys() and not inside:
                found.append(f"{name_of(path)} {raised[1]}")
    assert found == []


def test_the_kit_for_tests_is_loaded_only_where_it_is_asked_for() -> None:
    loaded = "import sys, discreet; print('discreet.testing' in sys.modules, bool(discreet.testing))"
    assert subprocess.check_output([sys.executable, "-c", loaded], text=True).split() == ["False", "True"]
