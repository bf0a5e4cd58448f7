"""`discreet audit`: attacks somebody's function, or ours, and says what it found."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import output
from discreet.cli.options import Amount
from discreet.cli.waiting import waiting
from discreet.errors import InvalidParameter, SourceError
from discreet.privacy.exact import exact, probability
from discreet.privacy.guarantee import Budget

if TYPE_CHECKING:
    from discreet.audit import Audit

_VIOLATED = 1  # the exit code, as of programs that compare and find a difference
_WAYS = ("x", "vectors", "datasets", "numbers", "pairs")
_HINT = "--x 0 --neighbour 1 for one pair; --vectors 5, --datasets 0,1, --numbers 0:10 or --pairs MODULE:NAME to search"

_FORM = "write package.module:function, or path/to/file.py:function"


@click.command("audit", short_help="Audit of a function that claims to be private.")
@click.argument("target", metavar="MODULE:FUNCTION")
@click.option("--epsilon", type=Amount(exact), required=True, help="Claimed ε.")
@click.option("--delta", type=Amount(probability), default="0", show_default=True, help="Claimed δ.")
@click.option("--x", metavar="VALUE", help="Input, as a Python literal: 0, [1, 2], {'a': None}.")
@click.option("--neighbour", metavar="VALUE", help="Neighbour of --x, as a Python literal.")
@click.option("--vectors", type=int, metavar="LENGTH", help="Length of vectors of query results to search.")
@click.option(
    "--change",
    type=click.Choice(["each", "one", "sum"]),
    default="each",
    show_default=True,
    help="Norm in which neighbours in --vectors differ by at most 1: each result, one, or all in sum.",
)
@click.option("--datasets", metavar="A,B,…", help="Values of which all small lists are searched.")
@click.option("--most", type=int, default=3, show_default=True, help="Length of the longest list of --datasets.")
@click.option(
    "--relation",
    type=click.Choice(["add-remove", "replace"]),
    default="add-remove",
    show_default=True,
    help="Neighbouring relation of --datasets.",
)
@click.option("--numbers", metavar="LOW:HIGH", help="Range of numbers to search; neighbours differ by at most 1.")
@click.option("--pairs", metavar="MODULE:NAME", help="Pairs to search: an iterable, or a function that returns one.")
@click.option("--samples", type=int, help="Largest number of outputs for each input, instead of a time limit.")
@click.option("--seconds", type=float, help="Time limit in seconds, about; 20 unless --samples is given.")
@click.option(
    "--error",
    type=float,
    default=1e-3,
    show_default=True,
    help="False-positive rate: probability of a violation verdict on a sound function.",
)
@click.option(
    "--floats",
    type=click.Choice(["keep", "ignore"]),
    default="keep",
    show_default=True,
    help="Test of the low-order bits of real outputs.",
)
@click.option("--html", "page", metavar="FILE", help="File for the report as an HTML page.")
@click.option("--json", "as_json", is_flag=True, help="JSON output.")
def command(
    target: str,
    epsilon: Fraction,
    delta: Fraction,
    samples: int | None,
    seconds: float | None,
    error: float,
    floats: str,
    page: str | None,
    as_json: bool,
    **ways: Any,
) -> int:  # fmt: skip
    """Look for a violation of (ε, δ) in MODULE:FUNCTION, a function of one input. Exit code 1 when one is found.

    `discreet audit noise.py:noisy_sum --epsilon 1 --x '[0]' --neighbour '[1]'` tries one pair of neighbours.
    A function with a keyword n is asked for n outputs at once, which is much faster.
    """
    from discreet.audit.sequential import limit_of

    mechanism, claimed = load(target), Budget(epsilon, delta)
    if not callable(mechanism):
        raise InvalidParameter(f"{target} is a {type(mechanism).__name__}, which cannot be called.")
    if page is not None and not Path(page).resolve().parent.is_dir():
        raise SourceError(f"{page} cannot be written: there is no such folder.")
    options = {"samples": samples, "seconds": seconds, "error": error, "name": target, "floats": floats}
    with waiting(f"Auditing {target}", limit=limit_of(samples, seconds), quiet=as_json):
        audit = _run(mechanism, claimed, ways, options)
    if page is not None:
        try:
            Path(page).write_text(audit.to_html(), encoding="utf-8")
        except OSError as problem:
            raise SourceError(f"{page} cannot be written: {problem.strerror}.") from None
        output.remark(f"The report is in {page}.")
    if as_json:
        output.say_json(audit.to_json())
    else:
        output.say(str(audit))
    return _VIOLATED if audit.violated else 0


def _run(mechanism: Callable[..., object], claimed: Budget, ways: dict[str, Any], options: dict[str, Any]) -> Audit:
    from discreet.audit import Datasets, Numbers, Vectors, distinguish, refute

    given = [way for way in _WAYS if ways[way] is not None]
    if len(given) != 1 or (ways["neighbour"] is not None) != (given == ["x"]):
        raise InvalidParameter("audit needs one kind of inputs.", hint=_HINT)
    if given == ["x"]:
        x, neighbour = _literal("--x", ways["x"]), _literal("--neighbour", ways["neighbour"])
        return distinguish(mechanism, x, neighbour, claimed, **options)
    inputs: Any
    if given == ["vectors"]:
        inputs = Vectors(ways["vectors"], change=ways["change"])
    elif given == ["datasets"]:
        values = [_literal("--datasets", v) for v in ways["datasets"].split(",")]
        inputs = Datasets(values, most=ways["most"], relation=ways["relation"])
    elif given == ["numbers"]:
        low, colon, high = ways["numbers"].partition(":")
        if not colon:
            raise InvalidParameter(f"--numbers {ways['numbers']!r} does not have the form LOW:HIGH.")
        inputs = Numbers(float(exact("--numbers", low)), float(exact("--numbers", high)))
    else:
        pairs = load(ways["pairs"])
        inputs = pairs() if callable(pairs) else pairs
    return refute(mechanism, inputs, claimed, **options)


def _literal(option: str, words: str) -> object:
    """Return a Python literal; nan and inf are numbers, and a bare word is a text."""
    words = words.strip()
    if words.lower() in ("nan", "inf", "-inf"):
        return math.nan if words.lower() == "nan" else math.copysign(math.inf, -1 if words[0] == "-" else 1)
    try:
        return ast.literal_eval(words)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        if words.isidentifier():
            return words
        raise InvalidParameter(
            f"{option} {words!r} is no Python literal.", hint="write 0, 0.5, 'text', [1, 2] or {'a': 1}"
        ) from None


def load(target: str) -> object:
    """Return what `MODULE:NAME` names; a module is looked for in the current folder first, as `python -m` does.

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
        raise InvalidParameter(f"{name} failed when it was imported: {type(error).__name__}: {error}") from None


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
        raise InvalidParameter(f"{path} failed when it was imported: {type(error).__name__}: {error}") from None
    return module
