"""`discreet budget`: what is spent and what is left."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import output
from discreet.cli.budgets import amounts, spelled, spent
from discreet.errors import InvalidParameter
from discreet.privacy.guarantee import Approximate
from discreet.table import render

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.ledger.entry import Entry


@click.command("budget", short_help="What is spent and what is left, of every population.")
@click.argument("ledger")
@click.option("--population", help="Only this account.")
@click.option("--history", is_flag=True, help="Also every question that was charged, oldest first.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, with the history.")
def command(ledger: str, population: str | None, history: bool, as_json: bool) -> None:
    """Show the budget, what is spent and what is left, of every population in LEDGER."""
    from discreet.ledger.ledger import Ledger

    with Ledger.existing(ledger) as book:
        names = book.populations()
        if population is not None and population not in names:
            raise InvalidParameter(
                f"There is no account of {population!r} in {Path(ledger).name}.",
                hint=f"it has {', '.join(map(repr, names)) or 'none'}",
            )
        found = [book.account(name) for name in names if population in (None, name)]
        accounts = [account for account in found if account is not None]
        if as_json:
            output.say_json({"populations": [_json(account) for account in accounts]})
            return
        if not accounts:
            output.say("No account has been opened in this ledger.")
            return
        output.say(
            render(["population", "questions", "spent", "left", "budget"], [_row(a) for a in accounts])
        )
        if history:
            for account in accounts:
                output.say(f"\nCharged to {account.population}:")
                output.say(
                    render(["when (UTC)", "charged", "question"], [_line(e) for e in charges(account)])
                )


def charges(account: Account) -> list[Entry]:
    """The questions that were charged, oldest first."""
    return [entry for entry in account.history() if entry.kind == "charge"]


def _row(account: Account) -> list[str | None]:
    used = spelled(spent(account.spent, account.budget))
    return [
        account.population,
        str(len(charges(account))),
        used,
        spelled(account.remaining),
        spelled(account.budget),
    ]


def _line(entry: Entry) -> list[str | None]:
    amount = spelled(Approximate(entry.epsilon or Fraction(0), entry.delta or Fraction(0)))
    return [entry.time[:19].replace("T", " "), amount, " ".join(str(entry.note.get("sql", "")).split())]


def _json(account: Account) -> dict[str, Any]:
    return {
        "population": account.population,
        "relation": account.relation.value,
        "filter": account.filter,
        "budget": amounts(account.budget),
        "spent": amounts(spent(account.spent, account.budget)),
        "remaining": amounts(account.remaining),
        "questions": [
            {"time": e.time, "epsilon": e.epsilon, "delta": e.delta, **e.note} for e in charges(account)
        ],
    }
