"""`MODULE:NAME` as the command line writes it: somebody's module or file, and a name in it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from discreet.errors import InvalidParameter

_FORM = "write package.module:function, or path/to/file.py:function"


def load(target: str) -> object:
    """What `MODULE:NAME` names; a module is looked for in the current folder first, as `python -m` does.

    Raises:
        InvalidParameter: another form, a module that is not found or fails, a name that it lacks.
    """
    place, colon, name = target.rpartition(":")
    if not (colon and place and name):
        raise InvalidParameter(f"{target!r} does not have the form MODULE:NAME.", hint=_FORM)
    value: object = _from_file(Path(place)) if place.endswith(".py") else _module(place)
    for part in name.split("."):
        if not hasattr(value, part):
            raise InvalidParameter(f"{place} has no {name}.", hint=_FORM)
        value = getattr(value, part)
    return value


def _module(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise InvalidParameter(f"There is no module {name}.", hint=_FORM) from None
        raise InvalidParameter(f"{name} needs the module {error.name}, which is not installed.") from None
    except Exception as error:
        raise InvalidParameter(
            f"{name} failed when it was imported: {type(error).__name__}: {error}"
        ) from None


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidParameter(f"There is no file {path}.", hint=_FORM)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None  # it ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # so that classes of the file can be pickled
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InvalidParameter(
            f"{path} failed when it was imported: {type(error).__name__}: {error}"
        ) from None
    return module
