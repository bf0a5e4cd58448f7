"""What the command line prints: results to stdout, the rest to stderr, nothing that a terminal obeys."""

from __future__ import annotations

import csv
import difflib
import io
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from discreet.errors import DiscreetError, InvalidParameter, MissingBounds
from discreet.privacy.guarantee import Approximate, Budget, decimal
from discreet.table import visible

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss


def say(text: str = "") -> None:
    """Print lines of a result; control characters inside a line are written out."""
    click.echo("\n".join(visible(line) for line in text.split("\n")))


def remark(text: str) -> None:
    """Print lines beside the result, on stderr, so that a pipe carries the result alone."""
    click.echo("\n".join(visible(line) for line in text.split("\n")), err=True)


def say_json(value: object) -> None:
    """Print a value as one JSON document."""
    click.echo(json_text(value))


def say_csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows as CSV (NULL is an empty field); to a terminal, control characters are written out."""
    writer = csv.writer(sys.stdout, lineterminator="\n")  # click.echo would take escape sequences out
    terminal = sys.stdout.isatty()
    for row in [columns, *rows]:
        cells = ["" if cell is None else str(cell) for cell in row]
        writer.writerow([visible(cell) for cell in cells] if terminal else cells)
    sys.stdout.flush()


def json_text(value: object) -> str:
    r"""Return a value as JSON that is safe to show: numbers that are no JSON numbers are null, controls are escaped.

    >>> json_text({"n": float("nan"), "key": "a\u009b31m"})
    '{"n": null, "key": "a\\u009b31m"}'
    """
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def error(problem: DiscreetError, *, as_json: bool, typed: Sequence[str] = ()) -> None:
    """Print an error of ours, its arguments as options; for missing facts also the command as typed, with them."""
    from discreet.cli import hints

    def for_command_line(text: str) -> str:
        said = hints.for_command_line(text)
        if rows_alone:
            said = re.sub(r"\btable=(?:'([^']*)')?", lambda m: f"--from {m[1]}" if m[1] else "--from", said)
        return said.replace("--max-groups 3 ", "") if rows_alone else said

    rows_alone = typed[:1] in (["synth"], ["learn"])  # they read rows: there are no groups, and no --bounds
    if rows_alone and any(fact.kind == "caps" for fact in problem.missing):
        rows = {"what": "how many rows of one person are read, 1 where each has one", "instead": ""}
        problem = MissingBounds.of([replace(f, **rows) if f.kind == "caps" else f for f in problem.missing])
    added = " ".join(for_command_line(fact.say) for fact in problem.missing if fact.kind not in ("", "policy"))
    line = f"{_quoted(['discreet', *typed])} {added}" if added and typed else ""
    message, hint = for_command_line(problem.message), _ended(for_command_line(problem.hint))
    failure(type(problem).__name__, message, hint, as_json=as_json, line=line)


def usage_error(problem: click.UsageError, *, as_json: bool) -> None:
    """Print a wrong call: what is wrong, and which help to read."""
    where = problem.ctx.command_path if problem.ctx else "discreet"
    message = " ".join(problem.format_message().split())
    hint = f"`{where} --help` shows how to call it."
    kind = problem.param.type if isinstance(problem, click.BadParameter) and problem.param else None
    if isinstance(kind, click.Choice):
        given = re.search("'([^']*)' is not one of", message)
        near = difflib.get_close_matches(given[1].lower(), list(map(str, kind.choices)), n=1) if given else []
        hint = f"perhaps {near[0]} is meant; {hint}" if near else hint
    failure("UsageError", _ended(message), hint, as_json=as_json)


def unexpected(*, as_json: bool) -> None:
    """Print that something unforeseen broke, and nothing of its text, which may quote data."""
    failure(
        "UnexpectedError",
        "Something in discreet failed that should not; its details are withheld, since they may quote data.",
        "a charge that was already written stays in the ledger; please report the command, without data, "
        "and what `discreet doctor` prints. The same call from Python, where the data is, shows the cause.",
        as_json=as_json,
    )


def failure(kind: str, message: str, hint: str, *, as_json: bool, line: str = "") -> None:
    """Print one failure on stderr: a sentence, a hint and a command that would do, or the same as JSON."""
    if as_json:
        found = {"error": kind, "message": message, "hint": hint, **({"command": line} if line else {})}
        click.echo(json_text(found), err=True)
        return
    click.echo(click.style("Error: ", fg="red", bold=True) + visible(message), err=True)
    if hint:
        click.echo(click.style("Hint: ", bold=True) + visible(hint), err=True)
    if line:
        click.echo(f"\n  {visible(line)}", err=True)


def tolerate_narrow_encodings() -> None:
    """Let a terminal that has no ± or ε show `?` in its place, rather than fail after the charge."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def terminal_width() -> int | None:
    """How wide a table may be: a terminal's width, and no limit in a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def flush() -> None:
    """Push out what is buffered now, while a broken pipe can still be met."""
    sys.stdout.flush()


def close_quietly() -> None:
    """Point stdout at nothing, so that the interpreter's own flush at its end does not complain."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# DEL and C1 controls, which JSON lets through, and the marks that reorder text on a terminal
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def _quoted(words: Sequence[str]) -> str:
    """Return the words of a command as this system's shell takes them."""
    return subprocess.list2cmdline(words) if os.name == "nt" else shlex.join(words)


def _ended(sentence: str) -> str:
    return sentence if not sentence or sentence.endswith((".", "!", "?", "`", ")")) else sentence + "."


def _plain(value: object) -> Any:
    """Return the value in JSON's own types; what JSON has no word for becomes its text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    return str(value)


def spelled(amount: Approximate | Budget) -> str:
    """Return the amount in words: `ε = 0.5`, or `ε = 0.5, δ = 1e-06` where there is a δ."""
    epsilon = f"ε = {decimal(amount.epsilon)}"
    return f"{epsilon}, δ = {decimal(amount.delta)}" if amount.delta else epsilon


def amounts(amount: Approximate | Budget) -> dict[str, Fraction]:
    """Return the amount for JSON."""
    return {"epsilon": amount.epsilon, "delta": amount.delta}


def spent(loss: PrivacyLoss, budget: Budget) -> Approximate:
    """Return what was spent as one (ε, δ): as it was charged where charges add up so, else at the budget's δ."""
    try:
        return loss.guarantee(loss.failure)
    except InvalidParameter:  # zCDP has no ε at that δ
        return loss.guarantee(budget.delta)
