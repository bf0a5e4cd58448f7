"""`discreet budget`: what is promised, what is spent and what is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import output, writing
from discreet.cli.options import BudgetAmount
from discreet.cli.output import amounts, spelled, spent
from discreet.errors import InvalidParameter
from discreet.ledger.entry import SUMMARY
from discreet.privacy.guarantee import Approximate
from discreet.table import render

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.ledger.analysts import Standings
    from discreet.ledger.entry import Entry
    from discreet.ledger.ledger import Ledger
    from discreet.spending import Spending


@click.command("budget", short_help="Spent and remaining budget of each population.")
@click.argument("ledger", nargs=-1, required=True)
@click.option("--population", help="Name of the one account to show.")
@click.option("--history", is_flag=True, help="All charges and changes, oldest first.")
@click.option("--plot", metavar="FILE", help="File for a picture of spending over time (.svg, .png, .pdf).")
@click.option("--json", "as_json", is_flag=True, help="JSON output, with the history.")
@click.option(
    "--people-summary",
    type=BudgetAmount(),
    help="ε[,δ] for a private summary of per-person spending; it is charged to each person.",
)
@click.option("--analyst", help="Name of the analyst; needed where the account has analysts.")
def command(
    ledger: tuple[str, ...],
    population: str | None,
    history: bool,
    plot: str | None,
    as_json: bool,
    people_summary: tuple[Fraction, Fraction | None] | None,
    analyst: str | None,
) -> None:
    """Show the budget, what is spent and what is left, of every population in LEDGER.

    Of several ledgers it says too what it means when one population is in more than one of them.

    Nothing here costs anything but --people-summary, which is a query about those people: it is charged to each of
    them, and to the account. Asked again before anything else was, it is free.
    """
    from discreet.ledger.ledger import Ledger, warnings

    if plot is not None:
        writing.check_picture(plot, ledger)  # before the work
    with ExitStack() as stack:
        books = {place: stack.enter_context(Ledger.existing(place)) for place in dict.fromkeys(ledger)}
        found = [
            (place, account)
            for place, book in books.items()
            for account in _accounts(place, book, population, len(books))
        ]
        accounts = [account for _, account in found]
        summary = None if people_summary is None else _summary(accounts, people_summary, analyst)
        if analyst is not None and people_summary is None:
            raise InvalidParameter("--analyst says who asks for --people-summary, which was not asked for.")
        if as_json:
            summed = {} if summary is None else {"people_summary": summary.to_json()}
            output.say_json({"populations": [_json(account) for account in accounts], **summed})
        else:
            _say(accounts, history=history)
            if summary is not None:
                output.say(f"\n{summary}")
        for warning in warnings(books):
            output.remark(f"Note: {warning}")
        if plot is not None and accounts:
            _draw(found, plot)


def _summary(accounts: Sequence[Account], asked: tuple[Fraction, Fraction | None], analyst: str | None) -> Spending:
    from discreet.spending import spending_of

    if len(accounts) != 1:
        raise InvalidParameter(
            f"--people-summary is charged to the people of one account, and there are {len(accounts)}.",
            hint="name it: --population NAME",
        )
    return spending_of(accounts[0].asked_by(analyst), epsilon=asked[0], delta=asked[1])


def charges(account: Account) -> list[Entry]:
    """Return the queries that were charged, oldest first."""
    return [entry for entry in account.history() if entry.kind == "charge"]


def _accounts(place: str, book: Ledger, population: str | None, ledgers: int) -> list[Account]:
    from discreet.ledger.places import called

    names = book.populations()
    if population is not None and population not in names:
        if ledgers > 1:
            return []
        raise InvalidParameter(
            f"There is no account of {population!r} in {called(place)}.",
            hint=f"it has {', '.join(map(repr, names)) or 'none'}",
        )
    found = [book.account(name) for name in names if population in (None, name)]
    return [account for account in found if account is not None]


def _say(accounts: Sequence[Account], *, history: bool) -> None:
    if not accounts:
        output.say("No account has been opened in this ledger.")
        return
    output.say(render(["population", "queries", "spent", "left", "budget"], [_row(a) for a in accounts]))
    for account in accounts:
        if lines := _lines(account):
            output.say("\n" + "\n".join(lines))
        if standings := account.standings():
            paid = charges(account)
            rows = [_standing(s, account, paid) for s in standings]
            output.say("\n" + render(["analyst", "group", "queries", "spent", "left", "cap"], rows))
    if history:
        for account in accounts:
            output.say(f"\nCharged to {account.population}:")
            told = [
                _line(e) for e in account.history() if e.kind not in ("account", "schema", "release", "begun", "people")
            ]
            output.say(render(["when (UTC)", "charged", "query"], told))


def _lines(account: Account) -> list[str]:
    """Return what is promised beyond the budget, whether charges are taken, and for how long it will do."""
    from discreet.ledger.account_state import Status
    from discreet.ledger.entry import Analysts

    lines = []
    if account.people is not None or account.analysts is Analysts.APART:
        lines += [f"Promised: {promise}" for promise in account.promises()]
    if (status := account.status) is not Status.OPEN:
        last = [e for e in account.history() if e.kind in ("freeze", "close")][-1]
        lines.append(f"{account.population} is {status.value} by {_signed(last)}. No charge is taken.")
    elif (more := _forecast(account)) is not None:
        many = "query" if more == 1 else "queries"
        lines.append(f"At this rate: {more:,} more {many} like the last of {account.population}.")
    return lines


def _forecast(account: Account) -> int | None:
    """How many more queries like the last one fit; None where none was asked or nothing limits them."""
    from discreet.ledger.entry import Charged

    asked = [e.content for e in account.history() if isinstance(e.content, Charged)]
    last = [content for content in asked if SUMMARY not in content.note][-1:]
    return account.times(last[0].charge) if last else None


def _row(account: Account) -> list[str | None]:
    used = spelled(spent(account.spent, account.budget))
    many = str(len(charges(account)))
    if not account.limited:
        return [account.population, many, used, "each person's", f"{spelled(account.budget)} each"]
    return [account.population, many, used, spelled(account.remaining), spelled(account.budget)]


def _standing(standing: Standings, account: Account, paid: Sequence[Entry]) -> list[str | None]:
    limit = standing.limit
    members = {standing.name}
    if standing.kind == "group":
        members = {s.name for s in account.standings() if s.group == standing.name}
    many = sum(entry.analyst in members for entry in paid)
    used = spelled(spent(limit.filter.loss(limit.spent), standing.budget))
    who = "" if standing.kind == "group" else standing.name
    team = standing.name if standing.kind == "group" else standing.group or ""
    return [who, team, str(many), used, spelled(limit.remaining), spelled(standing.budget)]


def _line(entry: Entry) -> list[str | None]:
    when = entry.time[:19].replace("T", " ")
    if entry.kind != "charge":
        return [when, "", _change(entry)]
    amount = spelled(Approximate(entry.epsilon or Fraction(0), entry.delta or Fraction(0)))
    who = "" if entry.analyst is None else f"{entry.analyst}: "
    if SUMMARY in entry.note:
        return [when, amount, f"{who}a summary of what people have used"]
    return [when, amount, who + " ".join(str(entry.note.get("sql", "")).split())]


def _change(entry: Entry) -> str:
    """Return an owner's entry, as a sentence."""
    from discreet.ledger.entry import AnalystCapped, GroupCapped, Moved, Rebudgeted

    match entry.content:
        case Rebudgeted(budget=budget):
            what = f"the budget is {spelled(budget)}"
        case AnalystCapped(name=name, group=group, budget=budget):
            team = "" if group is None else f" in {group}"
            what = f"the cap of {name}{team} is {spelled(budget)}"
        case GroupCapped(name=name, budget=budget):
            what = f"the cap of the group {name} is {spelled(budget)}"
        case Moved(to=to):
            what = f"moved to {to}"
        case _:
            what = {"freeze": "frozen", "thaw": "thawed", "close": "closed"}.get(entry.kind, entry.kind)
    return f"{what} by {_signed(entry)}"


def _signed(entry: Entry) -> str:
    said = entry.content.to_json()
    return f"{said['by']}: {said['reason']}"


def _json(account: Account) -> dict[str, Any]:
    from discreet.ledger.entry import Opened

    opened = account.history()[0].content
    assert isinstance(opened, Opened)
    caps: list[Mapping[str, Any]] = [
        {
            "kind": s.kind,
            "name": s.name,
            "group": s.group,
            "cap": amounts(s.budget),
            "spent": amounts(spent(s.limit.filter.loss(s.limit.spent), s.budget)),
            "remaining": amounts(s.limit.remaining),
        }
        for s in account.standings()
    ]
    return {
        "population": account.population,
        "relation": account.relation.value,
        "filter": account.filter,
        "status": account.status.value,
        "budget": amounts(account.budget) if account.limited else None,
        "per_person": None if account.people is None else amounts(account.people.budget),
        "spent": amounts(spent(account.spent, account.budget)),
        "remaining": amounts(account.remaining) if account.limited else None,
        "more_like_the_last": _forecast(account),
        "promises": account.promises(),
        "analysts": opened.analysts.value,
        "caps": caps,
        "questions": [
            {"time": e.time, "epsilon": e.epsilon, "delta": e.delta, "analyst": e.analyst, **e.note}
            for e in charges(account)
        ],
    }


def _draw(found: Sequence[tuple[str, Account]], file: str) -> None:
    """One panel for each account; one of a population that several ledgers have tells its ledger too."""
    from discreet import plots
    from discreet.errors import SourceError
    from discreet.ledger.places import shown

    names = [account.population for _, account in found]
    panels = {
        name if names.count(name) == 1 else f"{name} in {shown(place)}": account
        for (place, account), name in zip(found, names, strict=True)
    }
    try:
        plots.save(plots.spending(panels), file)
    except OSError as error:
        raise SourceError(f"The picture {file} cannot be written.", hint="look at the path") from error
