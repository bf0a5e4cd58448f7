"""What an owner does to an account from the command line: `discreet ledger open`, `budget`, `freeze`, `analyst`, …."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import click

from discreet.cli import output
from discreet.cli.budgets import spelled
from discreet.cli.options import Amount, BudgetAmount
from discreet.errors import InvalidParameter
from discreet.privacy.exact import positive

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.privacy.guarantee import Budget

F = TypeVar("F", bound=Callable[..., Any])


def _signed(command: F) -> F:
    """Add who signs off and why, both required: an owner's change is never silent."""
    command = click.option("--reason", required=True, help="Why, in public words.")(command)
    return click.option("--by", required=True, help="Who signs it off.")(command)


_key = click.option(
    "--key", metavar="KEYFILE", help="Owner's private key, where the ledger is locked with one."
)
_per_query = click.option("--per-query", type=Amount(positive), help="The most ε of one question.")


@click.command("open", short_help="Open the account of a population.")
@click.argument("ledger")
@click.argument("population")
@click.argument("budget", type=BudgetAmount())
@_per_query
@click.option("--relation", type=click.Choice(["add-remove", "replace"]), help="What makes neighbours.")
@click.option("--filter", metavar="NAME", help="How charges add: basic, zcdp, gdp or renyi.")
@click.option(
    "--analysts", type=click.Choice(["together", "apart"]), help="Apart: a promise for each one, too."
)
@_key
def open_account(
    ledger: str,
    population: str,
    budget: tuple[Fraction, Fraction | None],
    per_query: Fraction | None,
    relation: str | None,
    filter: str | None,  # noqa: A002  # the option's word
    analysts: str | None,
    key: str | None,
) -> None:
    """Open the account of POPULATION in LEDGER, which is made if it is not there: `open L customers 3,1e-6`."""
    from discreet.ledger.ledger import Ledger

    limit = _budget(budget, per_query)
    with Ledger.open(ledger) as book:
        account = book.open_account(
            population, limit, relation=relation, filter=filter, analysts=analysts, key=key
        )
        output.say(
            f"The account of {account.population} has a budget of {spelled(account.budget)}, for life."
        )
        output.say("\n".join(account.promises()))


@click.command("budget", short_help="Raise or lower a population's budget.")
@click.argument("ledger")
@click.argument("population")
@click.argument("budget", type=BudgetAmount())
@_per_query
@_key
@_signed
def budget(
    ledger: str,
    population: str,
    budget: tuple[Fraction, Fraction | None],
    per_query: Fraction | None,
    by: str,
    reason: str,
    key: str | None,
) -> None:
    """Give POPULATION another budget; never less than is spent. It stays in the history who did it and why."""
    with _account(ledger, population) as account:
        account.change_budget(_budget(budget, per_query), by=by, reason=reason, key=key)
        output.say(f"The budget of {account.population} is now {spelled(account.budget)}.")


@click.command("freeze", short_help="Take no charge until it is thawed.")
@click.argument("ledger")
@click.argument("population")
@_signed
def freeze(ledger: str, population: str, by: str, reason: str) -> None:
    """Take no charge to POPULATION until it is thawed; what was answered is still free."""
    with _account(ledger, population) as account:
        account.freeze(by=by, reason=reason)
        output.say(f"The account of {account.population} is frozen.")


@click.command("thaw", short_help="End a freeze.")
@click.argument("ledger")
@click.argument("population")
@_key
@_signed
def thaw(ledger: str, population: str, by: str, reason: str, key: str | None) -> None:
    """Take charges to POPULATION again."""
    with _account(ledger, population) as account:
        account.thaw(by=by, reason=reason, key=key)
        output.say(f"The account of {account.population} takes charges again.")


@click.command("close", short_help="Never take a charge again.")
@click.argument("ledger")
@click.argument("population")
@_signed
def close(ledger: str, population: str, by: str, reason: str) -> None:
    """Never take a charge to POPULATION again; what was answered is still free. It cannot be undone."""
    with _account(ledger, population) as account:
        account.close(by=by, reason=reason)
        output.say(f"The account of {account.population} is closed for ever.")


@click.command("analyst", short_help="Add an analyst, or change the cap of one.")
@click.argument("ledger")
@click.argument("population")
@click.argument("name")
@click.argument("cap", type=BudgetAmount())
@_per_query
@click.option("--group", help="Whose cap counts too; for ever.")
@_key
@_signed
def analyst(
    ledger: str,
    population: str,
    name: str,
    cap: tuple[Fraction, Fraction | None],
    per_query: Fraction | None,
    group: str | None,
    by: str,
    reason: str,
    key: str | None,
) -> None:
    """Let NAME spend CAP of the budget of POPULATION; from the first analyst on every question names who asks."""
    with _account(ledger, population) as account:
        account.cap_analyst(name, _budget(cap, per_query), group=group, by=by, reason=reason, key=key)
        output.say("\n".join(account.seen_by(name).promises()))


@click.command("group", short_help="Add a group of analysts, or change its cap.")
@click.argument("ledger")
@click.argument("population")
@click.argument("name")
@click.argument("cap", type=BudgetAmount())
@_per_query
@_key
@_signed
def group(
    ledger: str,
    population: str,
    name: str,
    cap: tuple[Fraction, Fraction | None],
    per_query: Fraction | None,
    by: str,
    reason: str,
    key: str | None,
) -> None:
    """Let all analysts of the group NAME together spend CAP of the budget of POPULATION."""
    with _account(ledger, population) as account:
        account.cap_group(name, _budget(cap, per_query), by=by, reason=reason, key=key)
        output.say(f"The group {name} may spend {spelled(_budget(cap, per_query))} of it.")


@click.command("lock", short_help="Have no query open an account.")
@click.argument("ledger")
@_key
@_signed
def lock(ledger: str, key: str | None, by: str, reason: str) -> None:
    """From now on, only `discreet ledger open` opens accounts in LEDGER, and no query does.

    With --key, that, unlocking, and each change of a budget or a cap and each thaw need this Ed25519 key, and the chain
    shows its signature.
    """
    from discreet.ledger.ledger import Ledger
    from discreet.ledger.places import called

    with Ledger.existing(ledger) as book:
        book.lock(key=key, by=by, reason=reason)
        opened = "only `discreet ledger open` opens accounts in it"
        output.say(f"The ledger {called(ledger)} is locked: {opened}.")


@click.command("unlock", short_help="End a lock.")
@click.argument("ledger")
@_key
@_signed
def unlock(ledger: str, key: str | None, by: str, reason: str) -> None:
    """Have queries open accounts in LEDGER again."""
    from discreet.ledger.ledger import Ledger
    from discreet.ledger.places import called

    with Ledger.existing(ledger) as book:
        book.unlock(key=key, by=by, reason=reason)
        output.say(f"The ledger {called(ledger)} is unlocked.")


@click.command("transfer", short_help="Move a whole ledger into another store.")
@click.argument("ledger")
@click.argument("to")
@_signed
def transfer(ledger: str, to: str, by: str, reason: str) -> None:
    """Move LEDGER into the new ledger TO: here every account ends, there all go on with what they have spent.

    If it is cut off, the same command finishes it. Keep LEDGER: its chain proves the move.
    """
    from discreet.ledger.ledger import Ledger
    from discreet.ledger.places import called

    with Ledger.existing(ledger) as book, book.transfer(to, by=by, reason=reason) as other:
        output.say(f"{_accounts(len(other.populations()))} on in {called(to)}. Its head is\n{other.head}")


COMMANDS = (open_account, budget, freeze, thaw, close, analyst, group, lock, unlock, transfer)
"""The commands of the group `ledger` that change something."""


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


def _budget(amount: tuple[Fraction, Fraction | None], per_query: Fraction | None) -> Budget:
    from discreet.privacy.guarantee import Budget

    epsilon, delta = amount
    return Budget(epsilon, delta or 0, **({} if per_query is None else {"per_query": per_query}))
