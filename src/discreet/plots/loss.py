"""The two pictures of a privacy loss: δ for each ε, and which errors are left to an attacker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np

from discreet.accounting import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.plots.style import COLOURS, GREY, HIGH, POWERS, WIDE, coloured, dashed, dressed, hovered, said, zoomed
from discreet.plots.vega import Picture, Values, alt, inline, needed, written
from discreet.privacy.exact import Real, probability
from discreet.privacy.guarantee import decimal
from discreet.privacy.pair import Curve

Losses: TypeAlias = PrivacyLoss | Mapping[str, PrivacyLoss]
"""One loss, or several by their labels."""

_POINTS = 41  # of a curve; those of sampled noise take some 10 ms each
_LEVELS = np.sin(np.linspace(0, np.pi / 2, 121)) ** 2  # of tests; dense at both ends, where the curves bend
_LOWEST = Fraction(1, 10**10)  # the least δ on the axis, unless one is asked for


class Losing(Protocol):
    """What has a loss: a mechanism, a randomizer of devices, a sketch."""

    @property
    def loss(self) -> PrivacyLoss: ...


def privacy(loss: Losses, *, delta: Real | None = None) -> Picture:
    """Both pictures side by side: δ(ε) on a logarithmic scale, and the trade-off between an attacker's errors.

    Args:
        loss: A loss, or several by their labels.
        delta: A δ at which the ε of each loss is marked.

    Guarantee:
        The curves are certified: those of δ are not below the truth, those of the errors not above.

    Raises:
        InvalidParameter: no loss, or a δ that is not in (0, 1).
        MissingExtra: Altair or vl-convert is not installed.
    """
    losses, at = labelled(loss), asked(delta)
    needed()
    panels = alt.hconcat(
        _deltas(losses, at).properties(title="Privacy curve"),
        _errors(losses).properties(title="Errors of the best attacker"),
    )
    return dressed(panels)


def delta(loss: Losses, *, delta: Real | None = None) -> Picture:
    """Return the curve δ(ε) on a logarithmic scale; `delta` marks the ε there. See `privacy`."""
    losses, at = labelled(loss), asked(delta)
    needed()
    return dressed(_deltas(losses, at), "Privacy curve")


def tradeoff(loss: Losses) -> Picture:
    """Return the trade-off between the errors of an attacker, with the diagonal that guessing gives. See `privacy`."""
    losses = labelled(loss)
    needed()
    return dressed(_errors(losses), "Errors of the best attacker")


def labelled(loss: Losses) -> dict[str, PrivacyLoss]:
    """Losses by their labels; one loss alone has none.

    Raises:
        InvalidParameter: no loss.
    """
    given: object = {"": loss} if isinstance(loss, PrivacyLoss) else loss
    losses = dict(given) if isinstance(given, Mapping) else {}
    if not losses or not all(isinstance(x, PrivacyLoss) for x in losses.values()):
        raise InvalidParameter(
            "a plot needs at least one loss, or several by their labels.", hint="plots.privacy({'plan A': loss})"
        )
    return {written(label): x for label, x in losses.items()}


def asked(delta: Real | None) -> Fraction | None:
    """Return a δ that can be marked on a logarithmic scale.

    Raises:
        InvalidParameter: a δ that is not in (0, 1).
    """
    if delta is None:
        return None
    at = probability("delta", delta)
    if at == 0:
        raise InvalidParameter("delta must be above 0 to be marked on a logarithmic scale.")
    return at


def _deltas(losses: Mapping[str, PrivacyLoss], at: Fraction | None) -> Any:
    bottom = float(min(_LOWEST, at / 1000) if at else _LOWEST)
    wide = 1.04 * max(_reach(loss, Fraction(bottom)) for loss in losses.values()) or 1.0
    rows: Values = []
    still: list[str] = []
    for label, loss in losses.items():
        epsilon = _grid(loss, wide)
        found = [loss.delta(float(e)) for e in epsilon]
        rows += [
            {"series": label, "epsilon": float(e), "delta": max(d, bottom / 1e3)}
            for e, d in zip(epsilon, found, strict=True)
        ]
        if not any(found):
            still.append(f"{label}: δ = 0 at every ε".removeprefix(": "))
    powers = [10.0**-k for k in range(round(-math.log10(bottom)) + 1)]
    x = alt.X("epsilon:Q", title="ε", scale=alt.Scale(domain=[0, wide], nice=False), axis=alt.Axis(tickCount=7))
    y = alt.Y(
        "delta:Q",
        title="δ",
        scale=alt.Scale(type="log", domain=[bottom, 1.0], nice=False),
        axis=alt.Axis(values=powers[:: -(-len(powers) // 7)], labelExpr=POWERS, titleAngle=0),
    )
    base = alt.Chart(inline(rows))
    lines = base.mark_line(strokeWidth=2.5, clip=True).encode(
        x=x, y=y, color=coloured(list(losses)), strokeDash=dashed(list(losses))
    )
    told = (alt.Tooltip("epsilon:Q", title="ε", format=".4g"), alt.Tooltip("delta:Q", title="δ", format=".3g"))
    unseen = hovered(base.encode(x=x, y=y), *told)
    layers = [lines, unseen, *(said(w, 0, bottom, dx=8, dy=-10 - 18 * i) for i, w in enumerate(still))]
    if at is not None:
        layers += _marks(losses, at, wide)
    return zoomed(alt.layer(*layers).properties(width=WIDE, height=HIGH), "zoom", "x", "y")


def _grid(loss: PrivacyLoss, wide: float) -> Curve:
    """Return the ε of the points of a curve: up to the sum of the pure ε, where it jumps down or ends, and beyond."""
    pure = _pure(loss)
    if pure >= wide:
        return wide * np.linspace(0, 1, _POINTS)
    inner = pure * np.sin(np.linspace(0, np.pi / 2, _POINTS))  # denser at the end, which is steep
    return np.append(inner, [pure * (1 + 1e-9), wide])


def _marks(losses: Mapping[str, PrivacyLoss], at: Fraction, wide: float) -> list[Any]:
    """Return the ε of each loss that has one at this δ; said in words where there is one loss only."""
    y = float(at)
    found = [(s, i, loss.epsilon(at)) for i, (s, loss) in enumerate(losses.items()) if _has_epsilon(loss, at)]
    level = alt.Chart(inline([{"y": y}])).mark_rule(color=GREY, strokeDash=[5, 4]).encode(y="y:Q")
    points: Values = [
        {"x": e, "y": y, "words": f"{s}: ε = {e:.4g}".removeprefix(": "), "colour": COLOURS[i % len(COLOURS)]}
        for s, i, e in found
    ]
    dots = (
        alt.Chart(inline(points))
        .mark_point(filled=True, size=90, opacity=1)
        .encode(
            x="x:Q", y="y:Q", color=alt.Color("colour:N", scale=None), tooltip=alt.Tooltip("words:N", title="marked")
        )
    )
    if len(losses) > 1 or not found:
        # On the right and above there is no curve, unless one comes down there: then on the left and below.
        left = max((e for _, _, e in found), default=0) > 0.78 * wide
        place: dict[str, Any] = (
            {"x": 0, "dx": 8, "dy": 12} if left else {"x": wide, "dx": -8, "dy": -10, "align": "right"}
        )
        return [level, dots, said(f"δ = {decimal(at)}", y=y, **place)]
    epsilon = found[0][2]
    # Right of the point and above, or left of it and below: the curve is in neither place.
    right = epsilon < 0.6 * wide
    words = f"ε = {epsilon:.4g} at δ = {decimal(at)}"
    beside: dict[str, Any] = {"dx": 9, "dy": -12} if right else {"dx": -9, "dy": 14, "align": "right"}
    return [level, dots, said(words, epsilon, y, **beside)]


def _errors(losses: Mapping[str, PrivacyLoss]) -> Any:
    rows: Values = []
    for label, loss in losses.items():
        missed = loss.tradeoff(_LEVELS)
        rows += [
            {"series": label, "alarm": float(a), "miss": float(b), "told": i % 4 == 0}
            for i, (a, b) in enumerate(zip(_LEVELS, missed, strict=True))
        ]
    scale = alt.Scale(domain=[0, 1], nice=False)
    axis = alt.Axis(format="%", tickCount=5)
    x = alt.X("alarm:Q", title="False alarm rate", scale=scale, axis=axis)
    y = alt.Y("miss:Q", title="Miss rate", scale=scale, axis=axis)
    guess = alt.Chart(inline([{"alarm": 0, "miss": 1}, {"alarm": 1, "miss": 0}]))
    diagonal = guess.mark_line(color=GREY, strokeDash=[2, 3], strokeWidth=1.5).encode(x=x, y=y)
    base = alt.Chart(inline(rows))
    lines = base.mark_line(strokeWidth=2.5).encode(
        x=x, y=y, color=coloured(list(losses)), strokeDash=dashed(list(losses))
    )
    told = (
        alt.Tooltip("alarm:Q", title="false alarms", format=".3%"),
        alt.Tooltip("miss:Q", title="misses", format=".3%"),
    )
    unseen = hovered(base.transform_filter("datum.told").encode(x=x, y=y), *told)
    words = said("guessing", 0.68, 0.32, dx=0, dy=-12, angle=45, align="center", color=GREY)
    return alt.layer(diagonal, lines, unseen, words).properties(width=HIGH, height=HIGH)


def _reach(loss: PrivacyLoss, bottom: Fraction) -> float:
    """Return the ε at which the curve leaves the picture, or is flat."""
    apart = loss.failure * Fraction(101, 100)
    least = max(bottom, apart)
    return min(loss.epsilon(least), _pure(loss)) if least < 1 else 0.0


def _has_epsilon(loss: PrivacyLoss, at: Fraction) -> bool:
    return at > loss.failure or (at == loss.failure and math.isfinite(_pure(loss)))


def _pure(loss: PrivacyLoss) -> float:
    """Return the sum of the events' ε, whatever is spent apart; infinite when an event is not pure."""
    return math.inf if loss.pure_apart is None else float(loss.pure_apart)
