"""`discreet ledger`: is the ledger whole and the newest, what its owner does, and what strangers may see of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from discreet.cli import output
from discreet.cli.options import Amount, BudgetAmount
from discreet.cli.output import spelled
from discreet.errors import InvalidParameter, LedgerCorrupt, LedgerError
from discreet.privacy.exact import positive

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.ledger.verify import LedgerReport
    from discreet.privacy.guarantee import Budget


F = TypeVar("F", bound=Callable[..., Any])
Amounts: TypeAlias = tuple[Fraction, Fraction | None]
"""ε, and δ where it was given."""


def _signed(command: F) -> F:
    """Add who signs off and why, both required: an owner's change is never silent."""
    command = click.option("--reason", required=True, help="Reason of the change; it is public.")(command)
    return click.option("--by", required=True, help="Name of the person who approves the change.")(command)


def _of_account(command: F) -> F:
    """Add the ledger and the population whose account is meant."""
    return click.argument("ledger")(click.argument("population")(command))


_key = click.option(
    "--key", metavar="KEYFILE", help="File with the owner's private key, for a ledger locked with a key."
)
_per_query = click.option("--per-query", type=Amount(positive), help="Largest ε of one query.")


@click.group("ledger", short_help="Ledger: verify, publish its head, change accounts.", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """Look after a ledger."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@command.command("verify", short_help="Verify a ledger, or an export of one.")
@click.argument("ledger")
@click.option("--head", metavar="HASH", help="Head published earlier; an older copy lacks it.")
@click.option("--signature", metavar="HEX", help="Owner's signature of that head.")
@click.option("--public-key", metavar="HEX", help="Owner's public key, from a source other than the ledger.")
@click.option("--json", "as_json", is_flag=True, help="JSON output.")
def verify(ledger: str, head: str | None, signature: str | None, public_key: str | None, as_json: bool) -> None:
    """Check the hash chain of LEDGER from its first entry to its last, and print its head.

    LEDGER is a ledger, or what `discreet ledger export` has written of one. Keep the head somewhere else. Given back
    later with --head, it shows whether the file was replaced by an older copy, in which charges are missing.
    """
    from discreet.ledger.places import called

    _check_signature(head, signature, public_key)
    report = _report(ledger, head)
    if as_json:
        found = {name: getattr(report, name) for name in ("ok", "entries", "accounts", "head", "locked", "problems")}
        output.say_json(found)
    elif report.ok:
        output.say(f"The ledger is whole: {_many(report.entries, 'entry', 'entries')} in an unbroken chain.")
        key = f"by the key {report.lock_key}" if report.lock_key else "without a key"
        locked = f" and is locked {key}: no query opens another" if report.locked else ""
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


@command.command("head", short_help="Print the hash that commits to the whole ledger.")
@click.argument("ledger")
@click.option("--sign", metavar="KEYFILE", help="File with the Ed25519 key that signs the head.")
@click.option("--json", "as_json", is_flag=True, help="JSON output.")
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
    from discreet.ledger.chain import new_key

    output.say(new_key(keyfile))


@command.command("export", short_help="Export of all public entries, as JSON lines.")
@click.argument("ledger")
def export(ledger: str) -> None:
    """Print the public entries of LEDGER as lines of JSON; `discreet ledger verify` checks them.

    The first line says how many entries follow and to which head they lead. No secret is in it, and no person's
    spending; all queries and all releases are.
    """
    from discreet.ledger.ledger import Ledger

    with Ledger.existing(ledger) as book:
        for line in book.export():
            click.echo(line)


@command.command("open", short_help="Open the account of a population.")
@_of_account
@click.argument("amount", metavar="BUDGET", type=BudgetAmount(), required=False)
@click.option("--budget", type=BudgetAmount(), help="BUDGET, as other commands take it.")
@_per_query
@click.option("--relation", type=click.Choice(["add-remove", "replace"]), help="Neighbouring relation.")
@click.option("--filter", metavar="NAME", help="Composition rule: basic, zcdp, gdp or renyi.")
@click.option(
    "--analysts", type=click.Choice(["together", "apart"]), help="apart: also a promise for each analyst alone."
)
@_key
def open_account(
    ledger: str,
    population: str,
    amount: Amounts | None,
    budget: Amounts | None,
    per_query: Fraction | None,
    relation: str | None,
    filter: str | None,  # noqa: A002  # the option's word
    analysts: str | None,
    key: str | None,
) -> None:
    """Open the account of POPULATION in LEDGER, which is made if it is not there: `open L customers 3,1e-6`."""
    from discreet.ledger.ledger import Ledger

    given = amount or budget
    if given is None or None not in (amount, budget):
        raise InvalidParameter(
            "A new account needs one BUDGET.", hint=f"`discreet ledger open {ledger} {population} 3,1e-6`"
        )
    limit = _budget(given, per_query)
    with Ledger.open(ledger) as book:
        account = book.open_account(population, limit, relation=relation, filter=filter, analysts=analysts, key=key)
        output.say(
            f"The account of {account.population} has a budget of {spelled(account.budget)}, which never resets."
        )
        output.say("\n".join(account.promises()))


@command.command("budget", short_help="Raise or lower a population's budget.")
@_of_account
@click.argument("budget", type=BudgetAmount())
@_per_query
@_key
@_signed
def budget(ledger: str, population: str, budget: Amounts, per_query: Fraction | None, **signed: Any) -> None:
    """Give POPULATION another budget; never less than is spent. It stays in the history who did it and why.

    Without a δ the account keeps the one that it has (`8,0` ends it); without --per-query, that cap.
    """
    with _account(ledger, population) as account:
        now = account.budget
        account.change_budget(_budget(budget, per_query or now.per_query, now.delta), **signed)
        output.say(f"The budget of {account.population} is now {spelled(account.budget)}.")


@command.command("freeze", short_help="Freeze an account: no charges until it is thawed.")
@_of_account
@_signed
def freeze(ledger: str, population: str, **signed: Any) -> None:
    """Take no charge to POPULATION until it is thawed; stored results are still free."""
    with _account(ledger, population) as account:
        account.freeze(**signed)
        output.say(f"The account of {account.population} is frozen.")


@command.command("thaw", short_help="Thaw a frozen account.")
@_of_account
@_key
@_signed
def thaw(ledger: str, population: str, **signed: Any) -> None:
    """Take charges to POPULATION again."""
    with _account(ledger, population) as account:
        account.thaw(**signed)
        output.say(f"The account of {account.population} takes charges again.")


@command.command("close", short_help="Close an account: no more charges.")
@_of_account
@_signed
def close(ledger: str, population: str, **signed: Any) -> None:
    """Never take a charge to POPULATION again; stored results are still free. It cannot be undone."""
    with _account(ledger, population) as account:
        account.close(**signed)
        output.say(f"The account of {account.population} is closed for ever.")


@command.command("analyst", short_help="Add an analyst, or change the cap of one.")
@_of_account
@click.argument("name")
@click.argument("cap", type=BudgetAmount())
@_per_query
@click.option("--group", help="Group whose cap applies too; fixed.")
@_key
@_signed
def analyst(
    ledger: str, population: str, name: str, cap: Amounts, per_query: Fraction | None, group: str | None, **signed: Any
) -> None:
    """Let NAME spend CAP of the budget of POPULATION; from the first analyst on every query names who asks."""
    with _account(ledger, population) as account:
        account.cap_analyst(name, _budget(cap, per_query), group=group, **signed)
        output.say("\n".join(account.seen_by(name).promises()))


@command.command("group", short_help="Add a group of analysts, or change its cap.")
@_of_account
@click.argument("name")
@click.argument("cap", type=BudgetAmount())
@_per_query
@_key
@_signed
def group(ledger: str, population: str, name: str, cap: Amounts, per_query: Fraction | None, **signed: Any) -> None:
    """Let all analysts of the group NAME together spend CAP of the budget of POPULATION."""
    with _account(ledger, population) as account:
        account.cap_group(name, _budget(cap, per_query), **signed)
        output.say(f"The group {name} may spend {spelled(_budget(cap, per_query))} of it.")


@command.command("lock", short_help="Lock a ledger: queries open no accounts.")
@click.argument("ledger")
@_key
@_signed
def lock(ledger: str, **signed: Any) -> None:
    """From now on, only `discreet ledger open` opens accounts in LEDGER, and no query does.

    With --key, that, unlocking, and each change of a budget or a cap and each thaw need this Ed25519 key, and the chain
    shows its signature.
    """
    from discreet.ledger.ledger import Ledger
    from discreet.ledger.places import called

    with Ledger.existing(ledger) as book:
        book.lock(**signed)
        opened = "only `discreet ledger open` opens accounts in it"
        by = "with this key: without it nobody unlocks it" if signed["key"] else "without a key: anybody unlocks it"
        output.say(f"The ledger {called(ledger)} is locked {by}. From now on, {opened}.")


@command.command("unlock", short_help="Unlock a ledger.")
@click.argument("ledger")
@_key
@_signed
def unlock(ledger: str, **signed: Any) -> None:
    """Have queries open accounts in LEDGER again."""
    from discreet.ledger.ledger import Ledger
    from discreet.ledger.places import called

    with Ledger.existing(ledger) as book:
        book.unlock(**signed)
        output.say(f"The ledger {called(ledger)} is unlocked.")


@command.command("transfer", short_help="Move a ledger into another file or database.")
@click.argument("ledger")
@click.argument("to")
@_signed
def transfer(ledger: str, to: str, **signed: Any) -> None:
    """Move LEDGER into the new ledger TO: here every account ends, there all go on with what they have spent.

    If it is cut off, the same command finishes it. Keep LEDGER: its chain proves the move.
    """
    from discreet.ledger.ledger import Ledger
    from discreet.ledger.places import called

    with Ledger.existing(ledger) as book, book.transfer(to, **signed) as other:
        output.say(f"{_accounts(len(other.populations()))} on in {called(to)}. Its head is\n{other.head}")


def _check_signature(head: str | None, signature: str | None, public_key: str | None) -> None:
    if signature is None and public_key is None:
        return
    from discreet.ledger.chain import is_signed

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


def _accounts(accounts: int) -> str:
    return "1 account goes" if accounts == 1 else f"{accounts} accounts go"


@contextmanager
def _account(ledger: str, population: str) -> Iterator[Account]:
    from discreet.ledger.ledger import Ledger
    from discreet.ledger.places import called

    with Ledger.existing(ledger) as book:
        account = book.account(population)
        if account is None:
            raise InvalidParameter(
                f"There is no account of {population!r} in {called(ledger)}.",
                hint=f"it has {', '.join(map(repr, book.populations())) or 'none'}",
            )
        yield account


def _budget(amount: Amounts, per_query: Fraction | None, kept: Fraction = Fraction(0)) -> Budget:
    from discreet.privacy.guarantee import Budget

    epsilon, delta = amount
    return Budget(epsilon, kept if delta is None else delta, **({} if per_query is None else {"per_query": per_query}))
