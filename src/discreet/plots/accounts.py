"""The picture of an account: what was spent when, under the budget as it was then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from discreet.accounting.filter import Filter, Tally
from discreet.errors import InvalidParameter
from discreet.ledger.account import Account
from discreet.ledger.entry import Charged, Entry, Opened, Rebudgeted
from discreet.ledger.units import meter
from discreet.plots.files import blank
from discreet.privacy.guarantee import Budget

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Accounts: TypeAlias = Account | Mapping[str, Account]
"""One account, or several by their labels."""

_MOST = 400  # points of a line
_WHOLE, _LIMIT, _GREY, _FAINT = "#0072B2", "#D55E00", "#666666", "#E2E2E2"
_OTHERS = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


@dataclass(slots=True)
class Line:
    """What one analyst, or everybody, has spent: after which charge, when, and the filter's sums then."""

    label: str
    times: list[datetime] = field(default_factory=list)
    sums: list[Tally] = field(default_factory=list)


def spending(account: Accounts) -> Figure:
    """The ε that was spent over time, below the budget; one panel for each account, one thin line for each analyst.

    Times are those that entries tell. Where a clock was set back, entries keep their order and are drawn at the latest
    time before them.

    Args:
        account: an account, or several by their labels.

    Raises:
        InvalidParameter: no account.
        MissingExtra: matplotlib is not installed.
    """
    accounts = dict(account) if isinstance(account, Mapping) else {account.population: account}
    if not accounts:
        raise InvalidParameter("a picture of spending needs an account.", hint="plots.spending(account)")
    figure = blank(8.0, 0.6 + 2.8 * len(accounts))
    panels = figure.subplots(len(accounts), 1, squeeze=False)
    for axes, (label, one) in zip(panels[:, 0], accounts.items(), strict=True):
        _draw(axes, label, one)
    return figure


def _draw(axes: Axes, label: str, account: Account) -> None:
    entries = account.history()
    opened = entries[0].content
    assert isinstance(opened, Opened)
    units, budget = meter(opened), account.budget
    lines, limits, end = _lines(entries, units)
    for i, line in enumerate(lines):
        style = (
            {"color": _OTHERS[(i - 1) % len(_OTHERS)], "linewidth": 1.2}
            if i
            else {"color": _WHOLE, "linewidth": 2.2}
        )
        _steps(axes, line, units, budget, end, style)
    if limits:
        times: list[Any] = [time for time, _ in limits] + [end]  # the stubs know no dates
        most = [float(limit.epsilon) for _, limit in limits]
        axes.step(
            times,
            [*most, most[-1]],
            where="post",
            color=_LIMIT,
            linestyle="--",
            linewidth=1.6,
            label="budget",
        )
    _dress(axes, label, budget)


def _lines(
    entries: Iterable[Entry], units: Filter
) -> tuple[list[Line], list[tuple[datetime, Budget]], datetime]:
    """Everybody's line and then each analyst's, the budgets from when on, and the last time."""
    lines, limits = {"": Line("spent")}, list[tuple[datetime, Budget]]()
    now = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    begun = False
    for entry in entries:
        told = datetime.fromisoformat(entry.time)
        now = max(now, told) if begun else told
        if not begun:
            _add(lines[""], now, units.empty)
            begun = True
        match entry.content:
            case Opened(budget=Budget() as budget) | Rebudgeted(budget=budget):
                limits.append((now, budget))
            case Charged() as charged:
                _add(lines[""], now, charged.spent)
                if charged.analyst is not None:
                    begun_at = lines[""].times[0]
                    line = lines.setdefault(charged.analyst, Line(charged.analyst, [begun_at], [units.empty]))
                    _add(line, now, units.add(line.sums[-1], units.cost(charged.charge)))
            case _:
                pass
    return list(lines.values()), limits, now


def _add(line: Line, time: datetime, sums: Tally) -> None:
    line.times.append(time)
    line.sums.append(sums)


def _steps(
    axes: Axes, line: Line, units: Filter, budget: Budget, end: datetime, style: Mapping[str, Any]
) -> None:
    every = max(1, -(-len(line.sums) // _MOST))
    kept = [*range(0, len(line.sums) - 1, every), len(line.sums) - 1]
    times = [line.times[i] for i in kept]
    spent = [_epsilon(units, line.sums[i], budget) for i in kept]
    axes.step([*times, end], [*spent, spent[-1]], where="post", label=line.label, **style)
    if len(kept) < 60:
        axes.plot(times[1:], spent[1:], "o", markersize=3.5, color=style["color"])


def _epsilon(units: Filter, sums: Tally, budget: Budget) -> float:
    """The ε of what was spent: at the δ of the charges where ε adds up, else at that of the budget."""
    loss = units.loss(sums)
    try:
        return float(loss.guarantee(loss.failure).epsilon)
    except InvalidParameter:
        return float(loss.guarantee(budget.delta).epsilon)


def _dress(axes: Axes, label: str, budget: Budget) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]  # matplotlib's own
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]  # matplotlib's own
    axes.set_title(label, loc="left", fontsize=12)
    axes.set_ylabel("ε", fontsize=11, rotation=0)
    axes.set_ylim(0, max(axes.get_ylim()[1], float(budget.epsilon) * 1.06))
    axes.tick_params(labelsize=10, color=_GREY)
    axes.grid(color=_FAINT, linewidth=0.7, zorder=0)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(fontsize=9, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
