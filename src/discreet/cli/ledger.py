"""`discreet ledger verify`: is the ledger whole, and is it the newest?"""

from __future__ import annotations

from pathlib import Path

import click

from discreet.cli import output
from discreet.errors import LedgerCorrupt


@click.group("ledger", short_help="Look after a ledger file: `ledger verify`.", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Look after a ledger file."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command("verify")
@click.argument("ledger")
@click.option("--head", metavar="HASH", help="The head that was published before; an older copy lacks it.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def verify(ledger: str, head: str | None, as_json: bool) -> None:
    """Check the hash chain of LEDGER from its first entry to its last, and print its head.

    Keep the head somewhere else. Given back later with --head, it shows whether the file was replaced by an
    older copy, in which charges are missing.
    """
    from discreet.ledger.ledger import Ledger

    with Ledger.existing(ledger) as book:
        report = book.verify(head)
    if as_json:
        found = {name: getattr(report, name) for name in ("ok", "entries", "accounts", "head", "problems")}
        output.say_json(found)
    elif report.ok:
        output.say(f"The ledger is whole: {_many(report.entries, 'entry', 'entries')} in an unbroken chain.")
        output.say(f"It has {_many(report.accounts, 'account', 'accounts')}. Its head is")
        output.say(report.head)
    else:
        output.say("\n".join(f"Wrong: {problem}" for problem in report.problems))
    if not report.ok:
        raise LedgerCorrupt(
            f"The ledger {Path(ledger).name} is not what it must be.",
            hint="keep the file as it is, find out what happened to it, and go back to a good copy",
        )


def _many(n: int, one: str, more: str) -> str:
    return f"{n:,} {one if n == 1 else more}"
