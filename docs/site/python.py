"""Reference of the Python API, as pages for Sphinx: public names, in the order in which their modules list them."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Collection
from types import ModuleType

MODULES = (
    "accounting",
    "audit",
    "finite",
    "learn",
    "local",
    "mechanisms",
    "plots",
    "sketch",
    "synth",
    "errors",
    "data",
    "testing",
    "recipes",
)


def pages() -> dict[str, str]:
    """Return the pages, by their places in the site."""
    import discreet

    names = [name for name in listed(discreet) if not inspect.ismodule(getattr(discreet, name))]
    front = [
        "# `discreet`",
        "The names that `import discreet as dp` gives. What is not listed in this reference is private and may change.",
        "| part | holds |\n|---|---|\n" + "\n".join(_row(name) for name in MODULES),
        directives("discreet", discreet, names),
    ]
    found = {"reference/python/discreet.md": "\n\n".join(front)}
    shown = {id(getattr(discreet, name)) for name in names}
    for name in MODULES:
        module = importlib.import_module(f"discreet.{name}")
        about = (inspect.getdoc(module) or "").partition("\n\n")[0].replace("\n", " ")
        text = [f"# `discreet.{name}`", about, directives(f"discreet.{name}", module, listed(module), shown)]
        found[f"reference/python/{name}.md"] = "\n\n".join(text)
    return found


def _row(name: str) -> str:
    module = importlib.import_module(f"discreet.{name}")
    about = (inspect.getdoc(module) or "").partition("\n\n")[0].replace("\n", " ")
    return f"| [`discreet.{name}`]({name}.md) | {about} |"


def directives(name: str, module: ModuleType, names: list[str], shown: Collection[int] = ()) -> str:
    """Return what makes Sphinx write the docstrings of some names of a module, but for those that are shown already."""
    values = {f"{name}.{n}": getattr(module, n) for n in names}
    lines = [_directive(path, value) for path, value in values.items() if id(value) not in shown]
    return "```{eval-rst}\n" + "\n".join(lines) + "```\n"


def _directive(path: str, value: object) -> str:
    if inspect.isclass(value):
        return f".. autoclass:: {path}\n   :members:\n   :inherited-members: {_python_classes(value)}\n\n"
    kind = "autofunction" if callable(value) else "autodata"
    return f".. {kind}:: {path}\n\n"


def _python_classes(value: type) -> str:
    """Return the names of the bases that Python or a library has: their members are not ours."""
    ours = lambda c: c.__module__.split(".")[0] == "discreet"  # noqa: E731
    return ", ".join(c.__name__ for c in value.__mro__ if not ours(c))


def listed(module: ModuleType) -> list[str]:
    """Return the public names of a module: `__all__`, what its file imports as `X as X`, or what it defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    tree = ast.parse(inspect.getsource(module))
    aliases = [alias for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    given = [alias.name for alias in aliases if alias.asname == alias.name]
    defined = [
        n.name for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef) and not n.name.startswith("_")
    ]
    return given or defined
