"""The two pictures of a privacy loss: δ for each ε, and which errors are left to an attacker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from discreet.accounting import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.plots.files import blank
from discreet.privacy.exact import Real, probability
from discreet.privacy.guarantee import decimal
from discreet.privacy.pair import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Losses: TypeAlias = PrivacyLoss | Mapping[str, PrivacyLoss]
"""One loss, or several by their labels."""

_POINTS = 41  # of a curve; those of sampled noise take some 10 ms each
_LEVELS = np.sin(np.linspace(0, np.pi / 2, 121)) ** 2  # of tests; dense at both ends, where the curves bend
_LOWEST = Fraction(1, 10**10)  # the least δ on the axis, unless one is asked for

# Okabe and Ito's colours, which colour-blind people tell apart; the dashes tell them apart in print.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", "-.", ":")
_GREY = "#666666"
_FAINT = "#E2E2E2"


def privacy(loss: Losses, *, delta: Real | None = None) -> Figure:
    """Both pictures side by side: δ(ε) on a logarithmic scale, and the trade-off between an attacker's errors.

    Args:
        loss: A loss, or several by their labels.
        delta: A δ at which the ε of each loss is marked.

    Guarantee:
        The curves are certified: those of δ are not below the truth, those of the errors not above.

    Raises:
        InvalidParameter: no loss, or a δ that is not in (0, 1).
        MissingExtra: matplotlib is not installed.
    """
    losses, at = _losses(loss), _asked(delta)
    figure = blank(10.0, 4.4)
    left, right = figure.subplots(1, 2)
    _draw_deltas(left, losses, at)
    _draw_errors(right, losses)
    _legend(figure, losses)
    return figure


def delta(loss: Losses, *, delta: Real | None = None) -> Figure:
    """The curve δ(ε) on a logarithmic scale; `delta` marks the ε there. See `privacy`."""
    losses, at = _losses(loss), _asked(delta)
    figure = blank(5.4, 4.4)
    _draw_deltas(figure.subplots(), losses, at)
    _legend(figure, losses)
    return figure


def tradeoff(loss: Losses) -> Figure:
    """The trade-off between the errors of an attacker, with the diagonal that guessing gives. See `privacy`."""
    losses = _losses(loss)
    figure = blank(5.0, 4.6)
    _draw_errors(figure.subplots(), losses)
    _legend(figure, losses)
    return figure


def _losses(loss: Losses) -> dict[str, PrivacyLoss]:
    given: object = {"": loss} if isinstance(loss, PrivacyLoss) else loss
    losses = dict(given) if isinstance(given, Mapping) else {}
    if not losses or not all(isinstance(x, PrivacyLoss) for x in losses.values()):
        raise InvalidParameter(
            "a plot needs at least one loss, or several by their labels.",
            hint="plots.privacy({'plan A': loss})",
        )
    return losses


def _asked(delta: Real | None) -> Fraction | None:
    if delta is None:
        return None
    at = probability("delta", delta)
    if at == 0:
        raise InvalidParameter("delta must be above 0 to be marked on a logarithmic scale.")
    return at


def _draw_deltas(axes: Axes, losses: Mapping[str, PrivacyLoss], at: Fraction | None) -> None:
    bottom = float(min(_LOWEST, at / 1000) if at else _LOWEST)
    wide = 1.04 * max(_reach(loss, Fraction(bottom)) for loss in losses.values()) or 1.0
    for i, (label, loss) in enumerate(losses.items()):
        epsilon = _grid(loss, wide)
        found = np.array([loss.delta(float(e)) for e in epsilon])
        _line(axes, epsilon, np.maximum(found, bottom / 1e3), i, label)
        if not found.any():
            _say(axes, " ".join(filter(None, [label and f"{label}:", "δ = 0 at every ε"])), 0, bottom, (8, 8))
    axes.set_yscale("log")
    axes.set_ylim(bottom, 1.5)
    axes.set_xlim(0, wide)
    if at is not None:
        _mark(axes, losses, at, wide)
    _dress(axes, "Privacy curve", "ε", "δ")
    axes.yaxis.label.set_rotation(0)


def _grid(loss: PrivacyLoss, wide: float) -> Curve:
    """The ε of the points of a curve: up to the sum of the pure ε, where it jumps down or ends, and beyond."""
    pure = _pure(loss)
    if pure >= wide:
        return wide * np.linspace(0, 1, _POINTS)
    inner = pure * np.sin(np.linspace(0, np.pi / 2, _POINTS))  # denser at the end, which is steep
    return np.append(inner, [pure * (1 + 1e-9), wide])


def _mark(axes: Axes, losses: Mapping[str, PrivacyLoss], at: Fraction, wide: float) -> None:
    """Mark the ε of each loss that has one at this δ, and say it where there is one loss only."""
    y = float(at)
    axes.axhline(y, color=_GREY, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    found = [(i, loss.epsilon(at)) for i, loss in enumerate(losses.values()) if _has_epsilon(loss, at)]
    for i, epsilon in found:
        axes.plot([epsilon], [y], "o", color=_colour(i), markersize=6, zorder=4)
    if len(losses) > 1 or not found:
        _say(axes, f"δ = {decimal(at)}", wide, y, (-5, 4), "right")
        return
    epsilon = found[0][1]
    # Right of the point and above, or left of it and below: the curve is in neither place.
    right = epsilon < 0.6 * wide
    words = f"ε = {epsilon:.4g} at δ = {decimal(at)}"
    _say(axes, words, epsilon, y, (7, 5) if right else (-7, -14), "left" if right else "right")


def _say(axes: Axes, words: str, x: float, y: float, offset: tuple[int, int], side: str = "left") -> None:
    axes.annotate(
        words,
        (x, y),
        xytext=offset,
        textcoords="offset points",
        horizontalalignment="left" if side == "left" else "right",
        fontsize=10,
        zorder=5,
    )


def _draw_errors(axes: Axes, losses: Mapping[str, PrivacyLoss]) -> None:
    axes.plot([0, 1], [1, 0], color=_GREY, linewidth=1, linestyle=(0, (1, 2)), zorder=1)
    axes.annotate(
        "perfect privacy: guessing",
        (0.62, 0.38),
        xytext=(3, 3),
        textcoords="offset points",
        rotation=-45,
        rotation_mode="anchor",
        horizontalalignment="center",
        verticalalignment="bottom",
        fontsize=9,
        color=_GREY,
    )
    for i, (label, loss) in enumerate(losses.items()):
        _line(axes, _LEVELS, loss.tradeoff(_LEVELS), i, label)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_aspect("equal")
    _dress(axes, "Errors of the best attacker", "False alarm rate", "Miss rate")


def _reach(loss: PrivacyLoss, bottom: Fraction) -> float:
    """The ε at which the curve leaves the picture, or is flat."""
    apart = loss.failure * Fraction(101, 100)
    least = max(bottom, apart)
    return min(loss.epsilon(least), _pure(loss)) if least < 1 else 0.0


def _has_epsilon(loss: PrivacyLoss, at: Fraction) -> bool:
    return at > loss.failure or (at == loss.failure and math.isfinite(_pure(loss)))


def _pure(loss: PrivacyLoss) -> float:
    """The sum of the events' ε, whatever is spent apart; infinite when an event is not pure."""
    return math.inf if loss.pure_apart is None else float(loss.pure_apart)


def _line(axes: Axes, x: Curve, y: Curve, i: int, label: str) -> None:
    style = _DASHES[i % len(_DASHES)]
    axes.plot(x, y, color=_colour(i), linestyle=style, linewidth=2, label=label, zorder=3)


def _colour(i: int) -> str:
    return _COLOURS[i % len(_COLOURS)]


def _dress(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_title(title, loc="left", fontsize=12)
    axes.set_xlabel(x, fontsize=11)
    axes.set_ylabel(y, fontsize=11)
    axes.tick_params(labelsize=10, color=_GREY)
    axes.grid(color=_FAINT, linewidth=0.7, zorder=0)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_GREY)


def _legend(figure: Figure, losses: Mapping[str, PrivacyLoss]) -> None:
    """The labels, above the pictures so that they hide nothing; none for a loss without a label."""
    if list(losses) != [""]:
        lines = figure.axes[0].get_lines()
        shown = [line for line in lines if not str(line.get_label()).startswith("_")]
        figure.legend(
            handles=shown,
            loc="outside upper center",
            ncols=2 if len(shown) > 3 else 3,
            fontsize=10,
            frameon=False,
        )
