"""Analysts inside a population's budget: their caps, their groups, and the weaker promise for analysts kept apart.

A charge is taken by the population, the analyst's group and the analyst, or by none of them. Apart means that nothing
an analyst sees follows from what others asked: caps are reserved, so that only the analyst's own charges decide what
is refused, and stored releases, sums and history are the analyst's own.

References: docs/proofs/analysts.md
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from discreet.accounting.filter import Filter, Tally, within
from discreet.errors import DiscreetError, InvalidParameter
from discreet.ledger import names
from discreet.ledger.account_state import Cap, Limit, Standing, refit, total
from discreet.ledger.entry import (
    AnalystCapped,
    Analysts,
    Begun,
    Charged,
    Entry,
    GroupCapped,
    Moved,
    Opened,
    PeopleCharged,
    Pinned,
    Released,
)
from discreet.ledger.forms import analyst_name, group_name, tally_text
from discreet.ledger.owner import Owned
from discreet.privacy.guarantee import Budget, words


@dataclass(frozen=True, slots=True)
class Standings:
    """An analyst, or a group of them, with its cap, as its owner sees it.

    Attributes:
        kind: "analyst" or "group".
        name: who.
        group: an analyst's group.
        budget: the cap.
        limit: what is spent of it.
    """

    kind: str
    name: str
    group: str | None
    budget: Budget
    limit: Limit


def known(capped: Collection[str], population: str, analyst: str) -> str:
    """Return the analyst's name, normalised. Raises InvalidParameter: the owner has not added one of that name."""
    who = names.person("analyst", analyst)
    if who not in capped:
        raise unknown(population, who)
    return who


def unknown(population: str, analyst: str) -> InvalidParameter:
    """Return the refusal of an analyst whom the owner has not added."""
    return InvalidParameter(
        f"{analyst!r} is no analyst of {population!r}.",
        hint="its owner adds one with `discreet ledger analyst`, or account.cap_analyst(…)",
    )


def unnamed(population: str) -> InvalidParameter:
    """Return the refusal of a charge that names nobody, where every charge has to."""
    return InvalidParameter(
        f"{population!r} has analysts: every query needs the one who asks.",
        hint='add analyst="ana", a name that its owner has added',
    )


def cap_analyst(account: Owned, analyst: str, cap: Budget, group: str | None, by: str, reason: str) -> Entry:
    """Append an analyst's cap. See `Account.cap_analyst`."""
    account.refuse_closed()
    who, now = names.person("analyst", analyst), account.now
    team = None if group is None else names.person("group", group)
    if (old := now.analyst(who)) is None:
        names.apart("analyst", who, now.terms.analysts)
    elif team not in (None, old.group):
        raise InvalidParameter(
            f"{who!r} is in {'no group' if old.group is None else f'the group {old.group!r}'}, and stays there.",
            hint="what was spent stays with the group; add the analyst under another name",
        )
    else:
        team = old.group
    if team is not None and team not in now.terms.groups:
        raise InvalidParameter(f"there is no group {team!r}.", hint="its cap comes first: account.cap_group(…)")
    capacity = refit(account.units, cap).capacity
    _check(account, f"the cap of {who!r}", capacity, old)
    content = AnalystCapped(who, team, cap, capacity, names.words("by", by), names.words("reason", reason))
    if account.opened.analysts is Analysts.APART:
        others = [c for c in now.analysts() if c.content.name != who and c.group == team]
        room = None if team is None else now.group(team)
        if room is None:
            _fits(account, [*_contents(now.groups()), *_contents(others), content])
        else:
            _fits(account, [*_contents(others), content], room.content)
    entry = _said(account, content, analyst_name(account.population, who), old)
    account.agree(replace(now.terms, analysts=now.terms.analysts | {who: entry.seq}))
    return entry


def cap_group(account: Owned, group: str, cap: Budget, by: str, reason: str) -> Entry:
    """Append a group's cap. See `Account.cap_group`."""
    account.refuse_closed()
    team, now = names.person("group", group), account.now
    if (old := now.group(team)) is None:
        names.apart("group", team, now.terms.groups)
    capacity = refit(account.units, cap).capacity
    _check(account, f"the cap of the group {team!r}", capacity, old)
    content = GroupCapped(team, cap, capacity, names.words("by", by), names.words("reason", reason))
    if account.opened.analysts is Analysts.APART:
        others = [c for c in now.groups() if c.content.name != team]
        others += [c for c in now.analysts() if c.group is None]
        _fits(account, [*_contents(others), content])
    entry = _said(account, content, group_name(account.population, team), old)
    account.agree(replace(now.terms, groups=now.terms.groups | {team: entry.seq}))
    return entry


def standings(now: Standing) -> list[Standings]:
    """Every group and every analyst, by name."""
    found: list[tuple[str, Cap]] = [("group", cap) for cap in now.groups()]
    found += [("analyst", cap) for cap in now.analysts()]
    return [Standings(kind, cap.content.name, cap.group, cap.content.budget, cap.limit) for kind, cap in found]


def least(limits: Sequence[Limit]) -> Budget:
    """Return what can still be charged under all these limits, as one budget: the least ε, the least δ."""
    left = [limit.remaining for limit in limits if limit.capacity is not None]
    if not left:  # a population without a budget: nothing that spending may show
        return limits[-1].filter.budget
    return Budget(min(b.epsilon for b in left), min(b.delta for b in left), per_query=min(b.per_query for b in left))


def left_after(refusal: DiscreetError | None, limits: Sequence[Limit], cost: Tally) -> Budget | None:
    """Return what a charge would leave under all these limits; None where it is refused."""
    return None if refusal is not None else least([limit.after(cost) for limit in limits])


def times(limits: Sequence[Limit], cost: Tally) -> int | None:
    """How many charges like this one fit under all these limits; None when any number does."""
    counts = [n for limit in limits if (n := limit.times(cost)) is not None]
    return min(counts, default=None)


def own_history(entries: Sequence[Entry], analyst: str, units: Filter) -> list[Entry]:
    """Return the entries that an analyst who is kept apart may see, as if nobody else had written any."""
    caps = [e.content for e in entries if isinstance(e.content, AnalystCapped) and e.content.name == analyst]
    group = caps[0].group if caps else None
    spent, places, found = units.empty, dict[int, int](), list[Entry]()
    for entry in entries:
        content = entry.content
        match content:
            case Charged():
                if content.analyst != analyst:
                    continue
                spent = units.add(spent, units.cost(content.charge))
                content = replace(content, spent=spent)
                places[entry.seq] = len(found) + 1
            case Released() | Begun():
                if content.charge not in places:
                    continue
                content = replace(content, charge=places[content.charge])
            case AnalystCapped():
                if content.name != analyst:
                    continue
            case GroupCapped():
                if content.name != group:
                    continue
            case PeopleCharged() | Moved() | Pinned():  # they follow from what all have done
                continue
            case _:
                pass
        found.append(Entry(len(found) + 1, entry.time, entry.population, content))
    return found


def promises(opened: Opened, now: Standing, population: str, analyst: str | None) -> list[str]:
    """Return what is promised, in sentences."""
    whole, who = now.population.budget, f"each unit of {population!r}"
    near = f"({opened.relation.value} neighbours)"
    said = []
    if whole is not None:
        said.append(
            f"All results together are {words(whole.epsilon, whole.delta)} differentially private for {who} {near}, "
            "whatever analysts tell each other."
        )
    if opened.people is not None:
        each = opened.people.budget
        said.append(
            f"All results together are {words(each.epsilon, each.delta)} differentially private for each person by "
            f"itself {near}, by a budget that each person has alone (two people share one with a chance below n/2⁶⁴, "
            f"6·10⁻¹³ for n = ten million, which comes on top of δ)."
        )
    if opened.analysts is Analysts.APART:
        said += _apart(now, analyst)
    elif analyst is not None and (cap := now.analyst(analyst)) is not None:
        b = cap.content.budget
        said.append(
            f"{analyst!r} may spend {words(b.epsilon, b.delta)} of it; that is a limit and no promise of its own, "
            "since results of others are shown too."
        )
    return said


def _apart(now: Standing, analyst: str | None) -> list[str]:
    cap = None if analyst is None else now.analyst(analyst)
    arriving = "rows that arrive later do not depend on what other analysts were told"
    silent = f"as long as analysts tell each other nothing and {arriving}"
    if cap is None:
        return [f"What one analyst alone has seen is differentially private at that analyst's own cap, {silent}."]
    b = cap.content.budget
    said = [f"What {analyst!r} alone has seen is {words(b.epsilon, b.delta)} differentially private, {silent}."]
    if cap.group is not None and (group := now.group(cap.group)) is not None:
        b = group.content.budget
        said.append(
            f"What the group {cap.group!r} has seen together is {words(b.epsilon, b.delta)} differentially private, as "
            f"long as it tells and hears nothing else and {arriving}."
        )
    return said


def _said(account: Owned, content: AnalystCapped | GroupCapped, state: str, old: Cap | None) -> Entry:
    """Append a cap, with an empty tally for one that is new."""
    entry = account.say(content)
    if old is None:
        account.view.put(state, tally_text(entry.seq, account.units.empty))
    return entry


def _check(account: Owned, what: str, capacity: Tally, old: Cap | None) -> None:
    if old is None:
        return
    if not within(old.limit.spent, capacity):
        raise InvalidParameter(f"{what} cannot be so low: more than that is spent.")
    if account.opened.analysts is Analysts.APART and not within(old.content.capacity, capacity):
        raise InvalidParameter(
            f"{what} is reserved, and is never lowered.", hint="where analysts are kept apart, caps are added or raised"
        )


def _contents(caps: Iterable[Cap]) -> list[AnalystCapped | GroupCapped]:
    return [cap.content for cap in caps]


def _fits(
    account: Owned, caps: Sequence[AnalystCapped | GroupCapped], group: AnalystCapped | GroupCapped | None = None
) -> None:
    """Refuse caps that together are more than the group's cap, or than the population's budget."""
    population = account.now.population
    budget, capacity = (population.budget, population.capacity) if group is None else (group.budget, group.capacity)
    if budget is None or capacity is None or within(total([c.capacity for c in caps], account.units.empty), capacity):
        return
    sums = words(sum((c.budget.epsilon for c in caps), Fraction()), sum((c.budget.delta for c in caps), Fraction()))
    whole = f"the budget of {account.population!r}" if group is None else f"the cap of the group {group.name!r}"
    raise InvalidParameter(
        f"The caps add up to {sums}; {whole} is {words(budget.epsilon, budget.delta)}. Caps are reserved where "
        "analysts are kept apart.",
        hint=f"give a smaller cap, or raise {whole}",
    )
