"""The picture of an account: what was spent when, under the budget as it was then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from discreet.accounting.filter import Filter, Tally
from discreet.errors import InvalidParameter
from discreet.ledger.account import Account
from discreet.ledger.account_state import meter
from discreet.ledger.entry import Charged, Entry, Opened, Rebudgeted
from discreet.plots.style import CLOCK, COLOURS, dressed, legend, zoomed
from discreet.plots.vega import Picture, Values, alt, inline, needed, written
from discreet.privacy.guarantee import Budget

if TYPE_CHECKING:
    from discreet.engine.session import Session

Accounts: TypeAlias = Account | Mapping[str, Account]
"""One account, or several by their labels."""

_MOST = 400  # points of a line
_SHORTEST = timedelta(minutes=1)  # what is drawn of an account, so that one just opened has lines and times too
_WIDE, _HIGH = 640, 240
_WHOLE, _LIMIT, *_OTHERS = COLOURS


@dataclass(slots=True)
class AccountLine:
    """What one analyst, or everybody, has spent: after which charge, when, and the filter's sums then."""

    label: str
    times: list[datetime] = field(default_factory=list)
    sums: list[Tally] = field(default_factory=list)


def spending(account: Accounts | Session) -> Picture:
    """Return the ε that was spent over time, below the budget; one panel for each account, one thin line for each
    analyst.

    Times are those that entries tell, in UTC. Where a clock was set back, entries keep their order and are drawn at the
    latest time before them.

    Args:
        account: a session, an account, or several accounts by their labels.

    Raises:
        InvalidParameter: no account.
        MissingExtra: Altair or vl-convert is not installed.
    """
    held: Any = getattr(account, "accounts", account)  # of a session
    accounts = dict(held) if isinstance(held, Mapping) else {getattr(held, "population", ""): held}
    if not accounts or not all(isinstance(one, Account) for one in accounts.values()):
        raise InvalidParameter("a picture of spending needs a session or an account.", hint="plots.spending(session)")
    needed()
    panels = [_panel(i, label, one) for i, (label, one) in enumerate(accounts.items())]
    return dressed(alt.vconcat(*panels).resolve_scale(color="independent", strokeDash="independent"))


def _panel(place: int, label: str, account: Account) -> Any:
    entries = account.history()
    opened = entries[0].content
    assert isinstance(opened, Opened)
    units, budget = meter(opened), account.budget
    lines, limits, end = _lines(entries, units)
    rows: Values = []
    for line in lines:
        rows += _steps(line, units, budget, end)
    most = [(time, float(limit.epsilon)) for time, limit in limits]
    if most:
        rows += _rows("budget", [*most, (end, most[-1][1])])
    names = [line.label for line in lines] + (["budget"] if most else [])
    top = max([float(budget.epsilon), *(row["epsilon"] for row in rows)]) * 1.06 or 1.0
    return _drawn(rows, names, top, place).properties(width=_WIDE, height=_HIGH, title=written(label))


def _drawn(rows: Values, names: list[str], top: float, place: int) -> Any:
    colours = [_WHOLE, *(_OTHERS[i % len(_OTHERS)] for i in range(len(names) - 1))]
    dashes, widths = [[1, 0] for _ in names], [3.0, *(1.8 for _ in names[1:])]
    if names[-1] == "budget" and len(names) > 1:
        colours[-1], dashes[-1], widths[-1] = _LIMIT, [7, 4], 2.2
    base = alt.Chart(inline(rows)).encode(
        x=alt.X(
            "time:T",
            title=None,
            scale=alt.Scale(type="utc", padding=10),
            axis=alt.Axis(tickCount=6, labelFlush=True, format=CLOCK),
        ),
        y=alt.Y("epsilon:Q", title="ε", scale=alt.Scale(domain=[0, top], nice=False), axis=alt.Axis(titleAngle=0)),
        color=alt.Color("who:N", scale=alt.Scale(domain=names, range=colours), legend=legend(names)),
    )
    steps = base.mark_line(interpolate="step-after").encode(
        strokeDash=alt.StrokeDash("who:N", scale=alt.Scale(domain=names, range=dashes), legend=legend(names)),
        strokeWidth=alt.StrokeWidth("who:N", scale=alt.Scale(domain=names, range=widths), legend=None),
        order="place:Q",
    )
    dots = base.mark_point(filled=True, size=45, opacity=1, aria=False).encode(
        tooltip=[
            alt.Tooltip("who:N", title="who"),
            alt.Tooltip("time:T", title="when (UTC)", format="%Y-%m-%d %H:%M"),
            alt.Tooltip("epsilon:Q", title="ε", format=".4g"),
        ]
    )
    few = dots.transform_filter("datum.dot")
    return zoomed(alt.layer(steps, few), f"zoom{place}", "x")


def _lines(
    entries: Iterable[Entry], units: Filter
) -> tuple[list[AccountLine], list[tuple[datetime, Budget]], datetime]:
    """Everybody's line and then each analyst's, the budgets from when on, and the time at which they end."""
    lines, limits = {"": AccountLine("spent")}, list[tuple[datetime, Budget]]()
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
                    line = lines.setdefault(
                        charged.analyst, AccountLine(_name(charged.analyst), [begun_at], [units.empty])
                    )
                    _add(line, now, units.add(line.sums[-1], units.cost(charged.charge)))
            case _:
                pass
    return list(lines.values()), limits, max(now, lines[""].times[0] + _SHORTEST)


def _name(analyst: str) -> str:
    """Return an analyst, who is neither what everybody spent nor the budget, whatever the name."""
    return f"{written(analyst)} (analyst)" if analyst in ("spent", "budget") else written(analyst)


def _add(line: AccountLine, time: datetime, sums: Tally) -> None:
    line.times.append(time)
    line.sums.append(sums)


def _steps(line: AccountLine, units: Filter, budget: Budget, end: datetime) -> Values:
    """Return the points of one line, and its last value again at the end; of few charges each is a dot."""
    every = max(1, -(-len(line.sums) // _MOST))
    kept = [*range(0, len(line.sums) - 1, every), len(line.sums) - 1]
    spent = [(line.times[i], _epsilon(units, line.sums[i], budget)) for i in kept]
    rows = _rows(line.label, [*spent, (end, spent[-1][1])])
    for row in rows[1:-1]:
        row["dot"] = len(kept) < 60
    return rows


def _rows(who: str, points: list[tuple[datetime, float]]) -> Values:
    return [
        {"who": who, "place": i, "time": time.isoformat(), "epsilon": epsilon, "dot": False}
        for i, (time, epsilon) in enumerate(points)
    ]


def _epsilon(units: Filter, sums: Tally, budget: Budget) -> float:
    """Return the ε of what was spent: at the δ of the charges where ε adds up, else at that of the budget."""
    loss = units.loss(sums)
    try:
        return float(loss.guarantee(loss.failure).epsilon)
    except InvalidParameter:
        return float(loss.guarantee(budget.delta).epsilon)
