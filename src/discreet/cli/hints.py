"""Translation of hints: arguments of Python's calls, as the command line writes them."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Sequence

_PLAIN: tuple[str, ...] = (
    "analyst",
    "bins",
    "bounds",
    "confidence",
    "delta",
    "dialect",
    "epsilon",
    "filter",
    "key",
    "label",
    "ledger",
    "method",
    "noise",
    "population",
)
_PLAIN += (
    "basis",
    "solver",
    "target",
    "relation",
    "truncation",
    "version",
    "per_query",
    "max_groups",
    "max_rows",
    "max_contributions",
)
_CAPS = _PLAIN[-3:]
_STARTS = re.compile(
    r"(?<![\w.(-])(?:(?P<name>[a-z_]+)=(?=[^=\s,;:.)])|(?P<call>(?:dp\.)?(?:PrivacyUnit\.row|PrivacyUnit|Range|Values|Budget)\())"
)
_BARE = re.compile(r"(?<![\w.-])(?:([a-z_]+)=(?=[\s;:,.)]|$)|dp\.(Range|Values|PrivacyUnit|Budget)\b(?!\())")
_NAMES = {
    "columns": "--range",
    "error": "--error",
    "fresh": "--fresh",
    "keys": "--keys",
    "min_people": "--min-people",
    "names": "--names",
    "per_person": "--per-person",
    "public": "--public",
    "budget": "--budget",
    "assuming": "--assuming",
    "classes": "--classes",
    "features": "--features",
    "tables": "--unit-path",
    "links": "--link",
    "unit": "--unit",
    "Range": "--range",
    "Values": "--values",
    "PrivacyUnit": "--unit",
    "Budget": "--budget",
} | {name: f"--{name.replace('_', '-')}" for name in _PLAIN}
_DEEPEST = 400


def for_command_line(text: str) -> str:
    """Return a sentence with each argument of Python's as the option that says the same; one command does it all.

    >>> for_command_line("columns={'age': dp.Range(0, 120)}, or pass delta=1e-6")
    '--range age=0:120, or pass --delta 1e-6'
    """
    text, found, at, column = (
        text.partition(", or in Python ")[0].replace("X, in a session out of ", ""),
        "",
        0,
        "COLUMN",
    )
    while (start := _STARTS.search(text, at)) is not None:
        end = _end(text, start.end("name") + 1 if start["name"] else start.end() - 1)
        said = _option(text[start.start() : end], column)
        if said is None:
            end = start.end()
            said = text[start.start() : end]
        column = named[1] if (named := re.match(r"--(?:range|values) (\w+)=", said)) else column
        found, at = found + _bare(text[at : start.start()]) + said, end
    return (found + _bare(text[at:])).replace(", when you connect", "")


def _bare(text: str) -> str:
    """Return the text with names of arguments and classes that stand alone as options."""
    return _BARE.sub(lambda m: _NAMES.get(m[1] or m[2], m[0]), text)


def _end(text: str, at: int) -> int:
    """Return where the value ends that begins there: behind its last bracket or quote, or before a space."""
    depth, quote = 0, ""
    for i in range(at, min(len(text), at + _DEEPEST)):
        c = text[i]
        if quote:
            quote = "" if c == quote else quote
            if not quote and depth == 0:
                return i + 1
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth <= 0:
                return i + (depth == 0)
        elif depth == 0 and (c in " ;:" or (c in ",." and text[i + 1 : i + 2] in (" ", ""))):
            return i
    return len(text)


def _option(code: str, column: str) -> str | None:
    """Return an argument or a call as options, a call those of this column; None where it has none."""
    call = code if code.endswith(")") and not re.match(r"[a-z_]+=", code) else f"f({code})"
    try:
        parsed = ast.parse(call.replace("…", "..."), mode="eval").body
    except SyntaxError:
        return None
    if not isinstance(parsed, ast.Call) or not (parsed.keywords or call is code):
        return None
    if call is code:
        return _of_call(parsed, column)
    argument = parsed.keywords[0]
    return None if argument.arg is None else _of_argument(argument.arg, argument.value)


def _of_argument(name: str, value: ast.expr) -> str | None:
    match name, value:
        case "unit", ast.Call() | ast.Constant():
            return _of_call(value, "") if isinstance(value, ast.Call) else f"--unit {_text(value)}"
        case "budget" | "per_person", ast.Call():
            return f"{_NAMES[name]} {_amount(value)}"
        case "columns" | "error" | "assuming" | "tables" | "links", ast.Dict():
            pairs = [(_text(k), v) for k, v in zip(value.keys, value.values, strict=True) if k is not None]
            return " ".join(said for k, v in pairs if (said := _of_pair(name, k, v)))
        case "public" | "names" | "classes" | "features", ast.List():
            texts = [_text(e) for e in value.elts]
            return " ".join(f"--public {t}" for t in texts) if name == "public" else f"--{name} {','.join(texts)}"
        case "fresh", ast.Constant(True):
            return "--fresh"
        case _, _ if name in _PLAIN:
            return f"{_NAMES[name]} {_text(value)}"
    return None


def _of_pair(name: str, key: str, value: ast.expr) -> str | None:
    if isinstance(value, ast.Call):
        return _of_call(value, key)
    if name == "columns":
        return f"--range {key}={_text(value)}"
    return f"{_NAMES[name]} {_quoted(key, [_text(value)])}"


def _of_call(call: ast.Call, column: str) -> str | None:
    kind = ast.unparse(call.func).removeprefix("dp.")
    given = [_text(a) for a in call.args]
    named = {k.arg: k.value for k in call.keywords}
    match kind:
        case "PrivacyUnit.row":
            return "--each-row"
        case "PrivacyUnit":
            caps = [f"{_NAMES[n]} {_text(v)}" for n in _CAPS if (v := named.get(n)) is not None]
            paths = [said for v in (named.get("tables"),) if v is not None and (said := _of_argument("tables", v))]
            return " ".join([f"--unit {given[0]}", *caps, *paths]) if given else None
        case "Range" if len(given) == 2:
            whole = ":integer" if "integer" in named else ""
            return f"--range {column}={given[0]}:{given[1]}{whole}"
        case "Values":
            return f"--values {_quoted(column, given)}"
        case "Budget":
            return f"--budget {_amount(call)}"
    return None


def _quoted(key: str, values: Sequence[str]) -> str:
    said = f"{key}={','.join(values)}"
    return shlex.quote(said) if shlex.quote(said.replace("…", "")) != said.replace("…", "") else said


def _amount(call: ast.Call) -> str:
    """Return ε, and δ after a comma."""
    named = {k.arg: k.value for k in call.keywords}
    parts = [*call.args, *(named[n] for n in ("epsilon", "delta") if n in named)]
    more = f" --per-query {_text(named['per_query'])}" if "per_query" in named else ""
    return ",".join(_text(p) for p in parts) + more


def _text(value: ast.expr) -> str:
    match value:
        case ast.Constant(str(text)):
            return text
        case ast.Constant(float(number)):
            return f"{number:g}".replace("e-0", "e-")
        case ast.Constant(v) if v is ...:
            return "…"
        case ast.Call(ast.Name("date"), args):
            year, month, day = (int(_text(a)) for a in args)
            return f"{year:04}-{month:02}-{day:02}"
        case ast.Starred():
            return "…"
        case _:
            return ast.unparse(value)
