"""`discreet ledger`: is the ledger whole and the newest, what its owner does, and what strangers may see of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from discreet.cli import output, owner
from discreet.errors import InvalidParameter, LedgerCorrupt, LedgerError

if TYPE_CHECKING:
    from discreet.ledger.verify import LedgerReport


@click.group(
    "ledger",
    short_help="Look after a ledger: verify, publish its head, change an account.",
    invoke_without_command=True,
)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Look after a ledger."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command(
    "verify", short_help="Check a ledger, or an export of one, from its first entry to its last."
)
@click.argument("ledger")
@click.option("--head", metavar="HASH", help="The head that was published before; an older copy lacks it.")
@click.option("--signature", metavar="HEX", help="The owner's signature under that head.")
@click.option("--public-key", metavar="HEX", help="The owner's key, from elsewhere than the ledger.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def verify(
    ledger: str, head: str | None, signature: str | None, public_key: str | None, as_json: bool
) -> None:
    """Check the hash chain of LEDGER from its first entry to its last, and print its head.

    LEDGER is a ledger, or what `discreet ledger export` has written of one. Keep the head somewhere else. Given back
    later with --head, it shows whether the file was replaced by an older copy, in which charges are missing.
    """
    from discreet.ledger.places import called

    _check_signature(head, signature, public_key)
    report = _report(ledger, head)
    if as_json:
        found = {
            name: getattr(report, name)
            for name in ("ok", "entries", "accounts", "head", "locked", "problems")
        }
        output.say_json(found)
    elif report.ok:
        output.say(f"The ledger is whole: {_many(report.entries, 'entry', 'entries')} in an unbroken chain.")
        locked = " and is locked: no query opens another" if report.locked else ""
        output.say(f"It has {_many(report.accounts, 'account', 'accounts')}{locked}. Its head is")
        output.say(report.head)
        if signature is not None:
            output.say("The head that was given is in it, and its signature is by that key.")
    else:
        output.say("\n".join(f"Wrong: {problem}" for problem in report.problems))
    if not report.ok:
        raise LedgerCorrupt(
            f"The ledger {called(ledger)} is not what it must be.",
            hint="keep the file as it is, find out what happened to it, and go back to a good copy",
        )


@command.command("head", short_help="The hash that commits to the whole ledger, to be published.")
@click.argument("ledger")
@click.option("--sign", metavar="KEYFILE", help="Sign it with the Ed25519 key in this file.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def head(ledger: str, sign: str | None, as_json: bool) -> None:
    """Print the head of LEDGER: publish it, or give it to somebody who has no hand on the file.

    It commits to every entry and, without telling it, to the table of what each person has spent.
    """
    from discreet.ledger.ledger import Ledger

    with Ledger.existing(ledger) as book:
        signed = None if sign is None else book.sign_head(sign)
        found = book.head if signed is None else signed.head
    if as_json:
        more = {} if signed is None else {"signature": signed.signature, "public_key": signed.public_key}
        output.say_json({"head": found, **more})
    elif signed is None:
        output.say(found)
    else:
        output.say(f"head        {found}\nsignature   {signed.signature}\npublic key  {signed.public_key}")


@command.command("key", short_help="Make a key for signing heads.")
@click.argument("keyfile")
def key(keyfile: str) -> None:
    """Make an Ed25519 key in KEYFILE, for its owner only, and print its public key.

    Publish the public key where the keepers of the ledger cannot change it.
    """
    from discreet.ledger.sign import new_key

    output.say(new_key(keyfile))


@command.command("export", short_help="All public entries, as lines of JSON that anyone can verify.")
@click.argument("ledger")
def export(ledger: str) -> None:
    """Print the public entries of LEDGER as lines of JSON; `discreet ledger verify` checks them.

    The first line says how many entries follow and to which head they lead. No secret is in it, and no person's
    spending; all questions and all releases are.
    """
    from discreet.ledger.ledger import Ledger

    with Ledger.existing(ledger) as book:
        for line in book.export():
            click.echo(line)


for one in owner.COMMANDS:
    command.add_command(one)


def _check_signature(head: str | None, signature: str | None, public_key: str | None) -> None:
    if signature is None and public_key is None:
        return
    from discreet.ledger.sign import is_signed

    if head is None or signature is None or public_key is None:
        raise InvalidParameter(
            "A signature is checked with three things: --head, --signature and --public-key.",
            hint="`discreet ledger head LEDGER --sign KEYFILE` prints all of them",
        )
    if not is_signed(head, signature, public_key):
        raise LedgerCorrupt(
            "The signature is not by that key under that head.",
            hint="take the key from where its owner has published it, and the head with its signature from one place",
        )


def _report(ledger: str, head: str | None) -> LedgerReport:
    from discreet.ledger.export import is_export, verify_export
    from discreet.ledger.ledger import Ledger
    from discreet.ledger.places import called

    try:
        with Path(ledger).open(encoding="ascii", errors="replace") as file:
            first = file.readline(10_000)
            if is_export(first):
                file.seek(0)
                return verify_export(file, head)
    except (OSError, ValueError):
        pass  # not a file that can be read: what it is, the ledger says
    except LedgerError as error:
        raise LedgerError(f"{called(ledger)}: {error.message}", hint=error.hint) from None
    with Ledger.existing(ledger) as book:
        return book.verify(head)


def _many(n: int, one: str, more: str) -> str:
    return f"{n:,} {one if n == 1 else more}"
