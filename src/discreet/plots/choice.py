"""What a choice of ε means for both sides: how much an attacker may learn, and how exact the result is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from discreet.accounting import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.plan.plan import Plan
from discreet.plan.query import confidence_level
from discreet.plots.beliefs import moved, odds
from discreet.plots.style import COLOURS, GREY, HIGH, WIDE, dressed, hovered, ticks
from discreet.plots.vega import Picture, Values, alt, inline, needed
from discreet.plots.widths import drawn, plan_errors, replanned_at
from discreet.privacy.exact import Real, exact, positive
from discreet.privacy.guarantee import decimal

_EPSILONS = tuple(float(f"{x:.3g}") for x in np.geomspace(0.05, 5, 21))
_CHANCE = 10  # times δ; at δ itself a selection of groups leaves no chance for the rest


def choice(
    plan: Plan,
    *,
    epsilons: Sequence[Real] | None = None,
    prior: Real = "0.5",
    confidence: Real = 0.95,
    assuming: Mapping[str, Real] | None = None,
) -> Picture:
    """Return what an attacker may come to believe and the errors of a query side by side, against ε. It is free.

    The attacker holds something about one person with probability `prior`, such as that they are in the data, and knows
    everything else. The dashed line is the ε of the plan.

    Args:
        plan: of one query; it is planned again at each ε.
        epsilons: where; 21 from 0.05 to 5 unless given.
        prior: what the attacker believed before.
        confidence: with which an error stays within its half-width.
        assuming: public guesses at the result, as in `Plan.error`; a mean is over 10,000 rows otherwise.

    Raises:
        InvalidParameter: no plan of one query whose errors are known before the data, or a prior outside (0, 1).
        MissingExtra: Altair or vl-convert is not installed.
    """
    if not isinstance(plan, Plan):
        raise InvalidParameter(
            f"a choice of ε is drawn of a plan, not of {type(plan).__name__}.",
            hint="plots.choice(session.plan(sql, …))",
        )
    at, level = float(exact("prior", prior)), confidence_level(confidence)
    if not 0 < at < 1:
        raise InvalidParameter(f"prior must lie between 0 and 1, not {prior}.", hint="prior=0.5")
    places = sorted({positive("epsilons", e) for e in (*(_EPSILONS if epsilons is None else epsilons), plan.epsilon)})
    queries, now = replanned_at(plan, places), float(plan.epsilon)
    rows, chance = plan_errors(queries, level, assuming), _CHANCE * plan.query.allocation.guarantee.delta
    needed()
    beliefs: Values = [
        {"epsilon": e, "belief": moved(at, odds(PrivacyLoss(query.allocation.events), float(chance)))}
        for e, query in queries.items()
    ]
    left = alt.layer(_believed(beliefs, at), _marked(now))
    right = alt.layer(drawn(rows, wide=WIDE), _marked(now))
    words = [
        f"left: the most an attacker can believe after the result, from {100 * at:.4g} % before"
        + (f", but for a chance of {decimal(chance)}" if chance else ""),
        f"right: half-width of a {decimal(100 * level)} % interval; dashed: ε = {decimal(plan.epsilon)}, the plan's",
    ]
    chart = alt.hconcat(left, right).resolve_scale(color="independent", strokeDash="independent")
    return dressed(chart, "Risk and error against ε", words)


def _believed(rows: Values, prior: float) -> Any:
    x = alt.X(
        "epsilon:Q",
        title="ε",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(format="~g", values=ticks(rows[0]["epsilon"], rows[-1]["epsilon"])),
    )
    y = alt.Y(
        "belief:Q",
        title="attacker's belief, at most",
        scale=alt.Scale(domain=[min(prior, 0.5), 1], nice=False),
        axis=alt.Axis(format="%", tickCount=6),
    )
    base = alt.Chart(inline(rows)).encode(x=x, y=y)
    told = (
        alt.Tooltip("epsilon:Q", title="ε", format=".3g"),
        alt.Tooltip("belief:Q", title="belief, at most", format=".1%"),
    )
    line = base.mark_line(strokeWidth=2.5, interpolate="monotone", color=COLOURS[1])
    return alt.layer(line, hovered(base, *told)).properties(width=WIDE, height=HIGH)


def _marked(epsilon: float) -> Any:
    rule = alt.Chart(inline([{"epsilon": epsilon}])).mark_rule(strokeDash=[6, 4], strokeWidth=1.5, color=GREY)
    return rule.encode(x="epsilon:Q")
