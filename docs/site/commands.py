"""Reference of the commands, as a page for Sphinx: what `--help` says, of every command."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

PAGE = "reference/commands.md"


def pages() -> dict[str, str]:
    """Return the page, by its place in the site."""
    from discreet.cli.program import main

    parts = [
        "# Commands",
        "What `discreet COMMAND --help` says, of every command.",
        *_described(main, "discreet", None),
    ]
    return {PAGE: "\n\n".join(parts) + "\n"}


def _described(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    context = click.Context(command, parent=parent, info_name=name.rpartition(" ")[2])
    if parent is not None:
        yield f"{'#' * len(name.split())} `{name}`"
    yield _prose(command.help or "")
    yield f"```text\n{context.get_usage().removeprefix('Usage: ')}\n```"
    rows = [record for param in command.get_params(context) if (record := param.get_help_record(context))]
    if rows:
        yield "| option | |\n|---|---|\n" + "\n".join(f"| {_code(option)} | {_cell(text)} |" for option, text in rows)
    if command.epilog:
        yield _prose(command.epilog)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            sub = command.get_command(context, child)
            if sub is not None and not sub.hidden:
                yield from _described(sub, f"{name} {child}", context)


def _prose(text: str) -> str:
    r"""Return a help text in Markdown; what follows click's `\b` keeps its lines."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text.partition("\f")[0]))
    return "\n\n".join(
        f"```text\n{p.removeprefix(chr(8)).strip(chr(10))}\n```" if p.startswith("\b") else " ".join(p.split())
        for p in paragraphs
    )


def _code(option: str) -> str:
    return f"`{option}`".replace("|", r"\|")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|").replace("<", "&lt;")
