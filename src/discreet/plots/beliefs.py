"""What an attacker may come to believe about one person, whatever was believed before."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from discreet.accounting import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.plots.loss import Losing
from discreet.plots.style import COLOURS, GREY, coloured, dressed
from discreet.plots.vega import Picture, Values, alt, inline, needed, written
from discreet.privacy.exact import Real, exact, probability
from discreet.privacy.guarantee import decimal

Sources: TypeAlias = PrivacyLoss | Losing | Real
"""A loss, or an ε."""

_PRIORS = np.sin(np.linspace(0, np.pi / 2, 81)) ** 2  # dense at both ends
_SIDE = 400
_HALVINGS = 40
_BESIDE = 3  # posteriors in one line


def posterior(loss: Sources | Mapping[str, Sources], *, prior: Real | None = None, delta: Real = 0) -> Picture:
    """Return the attacker's posterior against the prior: the band in which ε-DP keeps it, for each ε.

    Whoever held with probability `prior` that a person is in the data, and knows everything else, holds after any
    result a probability in the band: its odds move by a factor between e^−ε and e^ε.

    Args:
        loss: an ε, a loss, a mechanism whose loss it is, or several by their labels.
        prior: one prior that is marked, with the least and the largest posterior.
        delta: the probability with which a result may lead out of the band; needed for losses that are not pure. The ε
            of the band is then larger than `loss.epsilon(delta)`, which promises less (see `odds`).

    Raises:
        InvalidParameter: no ε, a prior outside (0, 1), or a loss that has no ε at this δ.
        MissingExtra: Altair or vl-convert is not installed.

    References: Dwork, Roth 2014, Section 2.3; Kasiviswanathan, Smith 2014,
    https://arxiv.org/abs/0803.3946 (δ above 0).
    """
    d = probability("delta", delta)
    given = dict(loss) if isinstance(loss, Mapping) else {"": loss}
    if not given:
        raise InvalidParameter("a picture of beliefs needs an ε or a loss.", hint="plots.posterior(1, prior='0.1')")
    sizes = {written(label): odds(one, float(d)) for label, one in given.items()}
    if list(sizes) == [""]:
        sizes = {f"ε = {sizes['']:.4g}": sizes[""]}
    at = None if prior is None else float(exact("prior", prior))
    if at is not None and not 0 < at < 1:
        raise InvalidParameter(f"prior must lie between 0 and 1, not {prior}.")
    needed()
    words = ["the band in which any result leaves the belief" + (f", but for a chance of {decimal(d)}" if d else "")]
    if at is not None:
        ends = [f"{moved(at, -e):.1%} to {moved(at, e):.1%} ({label})" for label, e in sizes.items()]
        lines = [", ".join(ends)] if len(ends) <= _BESIDE else ends
        words += [f"from {100 * at:.4g}% to: {lines[0]}", *lines[1:]]
    return dressed(_drawn(sizes, at), "What an attacker can come to believe", words)


def odds(loss: Sources, delta: float) -> float:
    """Return an ε such that, except with probability `delta`, no result moves the odds by more than e^ε either way.

    For each side δ/2 is allowed. With L the loss, P(L > ε) ≤ δ(ε − t)/(1 − e^−t) for every t > 0, since
    δ(ε − t) = E(1 − e^(ε − t − L))₊ is at least (1 − e^−t)·P(L > ε).
    """
    given: Any = loss
    loss = getattr(given, "loss", given)  # of a mechanism
    if not isinstance(loss, PrivacyLoss):
        size = float(exact("epsilon", given))
        if not 0 <= size <= 700:
            raise InvalidParameter(f"epsilon must lie between 0 and 700, not {given}.")
        return size
    if loss.pure is not None:
        return float(loss.pure)
    if delta <= 0:
        raise InvalidParameter(
            "this loss is not pure: with a small probability a result may say more.", hint="say how small: delta=1e-6"
        )
    low, high = 0.0, loss.epsilon(delta / 4) + math.log(2) + 1
    if not _rare(loss, high, delta / 2):
        raise InvalidParameter("no ε is known for this loss at this δ.", hint="ask at a larger delta")
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _rare(loss, middle, delta / 2) else (middle, high)
        if high - low < 1e-4 * high:
            break
    return high


def _rare(loss: PrivacyLoss, epsilon: float, most: float) -> bool:
    return any(
        t <= epsilon and loss.delta(epsilon - t) <= most * -math.expm1(-t) for t in (0.1, 0.2, 0.4, math.log(2), 1.0)
    )


def moved(prior: float, epsilon: float) -> float:
    """Return the posterior when the odds are multiplied by e^ε."""
    return prior / (prior + (1 - prior) * math.exp(-epsilon)) if prior else 0.0


def _drawn(sizes: Mapping[str, float], at: float | None) -> Any:
    rows: Values = [
        {"series": label, "prior": float(p), "low": moved(float(p), -e), "high": moved(float(p), e)}
        for label, e in sizes.items()
        for p in _PRIORS
    ]
    scale, axis = alt.Scale(domain=[0, 1], nice=False), alt.Axis(format="%", tickCount=5)
    x = alt.X("prior:Q", title="before: probability that the person is in the data", scale=scale, axis=axis)
    y = alt.Y("low:Q", title="after: the same, when the result is known", scale=scale, axis=axis)
    base = alt.Chart(inline(rows))
    told = [
        alt.Tooltip("series:N", title="loss"),
        alt.Tooltip("prior:Q", title="before", format=".1%"),
        alt.Tooltip("low:Q", title="after, at least", format=".2%"),
        alt.Tooltip("high:Q", title="after, at most", format=".2%"),
    ]
    colour = coloured(list(sizes))
    bands = base.mark_area(opacity=0.22, line=False).encode(x=x, y=y, y2="high:Q", color=colour)
    upper = base.mark_line(strokeWidth=2.5).encode(x=x, y=alt.Y("high:Q", scale=scale), color=colour)
    lower = base.mark_line(strokeWidth=2.5).encode(x=x, y=alt.Y("low:Q", scale=scale), color=colour)
    unseen = base.mark_point(size=120, opacity=0, aria=False).encode(x=x, y="high:Q", tooltip=told)
    none = alt.Chart(inline([{"prior": 0, "low": 0}, {"prior": 1, "low": 1}]))
    diagonal = none.mark_line(color=GREY, strokeDash=[2, 3], strokeWidth=1.5).encode(x=x, y=y)
    layers = [bands, diagonal, upper, lower, unseen]
    if at is not None:
        layers += _marked(sizes, at)
    return alt.layer(*layers).properties(width=_SIDE, height=_SIDE)


def _marked(sizes: Mapping[str, float], at: float) -> list[Any]:
    ends: Values = [
        {"x": at, "y": moved(at, side * e), "colour": COLOURS[i % len(COLOURS)], "words": label}
        for i, (label, e) in enumerate(sizes.items())
        for side in (1, -1)
    ]
    rule = alt.Chart(inline([{"x": at}])).mark_rule(color=GREY, strokeDash=[5, 4]).encode(x="x:Q")
    dots = (
        alt.Chart(inline(ends))
        .mark_point(filled=True, size=80, opacity=1)
        .encode(
            x="x:Q",
            y="y:Q",
            color=alt.Color("colour:N", scale=None),
            tooltip=[alt.Tooltip("words:N", title="loss"), alt.Tooltip("y:Q", title="after", format=".2%")],
        )
    )
    return [rule, dots]
