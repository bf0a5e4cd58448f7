"""Laws: that of the privacy loss (how strongly a result speaks for one of two neighbours), of a finite mechanism."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from discreet.accounting import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.plots.loss import Losing, asked
from discreet.plots.style import COLOURS, GREY, HIGH, INK, dressed, said
from discreet.plots.vega import Picture, Values, alt, inline, needed, written
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import decimal
from discreet.privacy.pair import Curve

if TYPE_CHECKING:
    from discreet.finite import Mechanism


_WIDE = 600
_BARS = 60
_TAIL = Fraction(1, 10**4)  # of the probability may lie beyond the picture


def privacy_loss(loss: PrivacyLoss | Losing, *, delta: Real | None = None) -> Picture:
    """Return the privacy-loss distribution: with which probability a result has which loss, log p(o)/q(o) for o from
    P.

    The law is the one whose δ(ε) joins the certified curve at the places of the bars by straight lines in e^ε, which
    is never below it (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022, https://arxiv.org/abs/2207.04380, Section 4).
    Where the two directions of a pair differ, as with samples, the curve is the worse of them at each ε, which shows as
    a higher bar at 0.

    Args:
        loss: a loss, or a mechanism (a randomizer, a sketch) whose loss it is.
        delta: a δ at which the ε is marked; losses beyond it are coloured.

    Raises:
        InvalidParameter: neither a loss nor a mechanism, or a δ that is not in (0, 1).
        MissingExtra: Altair or vl-convert is not installed.
    """
    found = loss if isinstance(loss, PrivacyLoss) else getattr(loss, "loss", None)
    if not isinstance(found, PrivacyLoss):
        raise InvalidParameter(
            f"loss must be a privacy loss or a mechanism, not {type(loss).__name__}.",
            hint="plots.privacy_loss(dp.mechanisms.Laplace(epsilon=1))",
        )
    at = asked(delta)
    needed()
    places, mass = law(found)
    epsilon = None if at is None else found.epsilon(at)
    width = float(places[1] - places[0])
    rows: Values = [
        {
            "low": float(l - width / 2),
            "high": float(l + width / 2),
            "loss": float(l),
            "mass": float(m),
            "where": "beyond" if epsilon is not None and l > epsilon else "within",
        }
        for l, m in zip(places, mass, strict=True)
    ]
    colour = alt.Color(
        "where:N", scale=alt.Scale(domain=["within", "beyond"], range=[COLOURS[0], COLOURS[1]]), legend=None
    )
    bars = (
        alt.Chart(inline(rows))
        .mark_bar(binSpacing=0, stroke="white", strokeWidth=0.5, clip=True)
        .encode(
            x=alt.X(
                "low:Q",
                title="privacy loss  log p(o) / q(o)",
                axis=alt.Axis(tickCount=8),
                scale=alt.Scale(domain=[rows[0]["low"], rows[-1]["high"]], nice=False),
            ),
            x2="high:Q",
            y=alt.Y("mass:Q", title="probability", axis=alt.Axis(format="~%"), scale=alt.Scale(domainMin=0)),
            y2=alt.Y2(datum=0),
            color=colour,
            tooltip=[
                alt.Tooltip("loss:Q", title="loss near", format=".3g"),
                alt.Tooltip("mass:Q", title="probability", format=".3g"),
            ],
        )
    )
    layers = [bars]
    most = float(mass.max())
    if at is not None and epsilon is not None:
        rule = alt.Chart(inline([{"x": epsilon}])).mark_rule(color=GREY, strokeDash=[5, 4], strokeWidth=1.5)
        side = {"dx": -8, "align": "right"} if epsilon > float(places[-1]) * 0.6 else {"dx": 8}
        layers += [rule.encode(x="x:Q"), said(f"ε = {epsilon:.4g} at δ = {decimal(at)}", epsilon, most, dy=6, **side)]
    words = ["how strongly a result o speaks for the neighbour that it comes from"]
    if found.failure:
        words.append(f"with a probability of up to {decimal(found.failure)} the loss is infinite")
    return dressed(alt.layer(*layers).properties(width=_WIDE, height=HIGH), "Privacy loss", words)


def law(loss: PrivacyLoss) -> tuple[Curve, Curve]:
    """Losses and their probabilities under P; what is missing to 1 lies beyond them, or is infinite.

    With H(α) = sup P(S) − αQ(S), Q(L > log α) = −H'(α) and P has e^L times the mass of Q. Joining H at α₀ < α₁ < … by
    lines gives Q the mass of the change of slope at each α_i.
    """
    reach = _reach(loss)
    places = np.linspace(-reach, reach, _BARS + 1)
    alpha = np.exp(places)
    curve = np.array([loss.hockey_stick(float(a)) for a in alpha])
    # At α = 0 the curve is 1; beyond the last place it is taken to be flat, which is where it ends up.
    slopes = np.diff(np.concatenate(([1.0], curve))) / np.diff(np.concatenate(([0.0], alpha)))
    q = np.diff(np.concatenate((slopes, [0.0])))
    return places, np.maximum(q, 0.0) * alpha


def _reach(loss: PrivacyLoss) -> float:
    """Losses up to here are drawn: a pure ε, or where little is left."""
    pure = math.inf if loss.pure_apart is None else float(loss.pure_apart)
    least = max(_TAIL, loss.failure * Fraction(101, 100))
    tail = loss.epsilon(least) if least < 1 else math.inf
    reach = min(pure, 1.15 * tail)
    if not 0 < reach <= 300:
        words = "is nothing at all" if reach == 0 else "is so large that it leaves the range of floats"
        raise InvalidParameter(f"this loss {words}: there is no law to draw.", hint="plots.privacy draws its curve")
    return reach


_MOST = 40  # rows and columns
_WRITTEN = 12  # up to so many, with their numbers
_CELL = 46
_LETTER = 8  # points of a letter of a label


def matrix(mechanism: Mechanism) -> Picture:
    """Return the stochastic matrix of a finite mechanism: one row for each input, darker where an output is likelier.

    Args:
        mechanism: one of `discreet.finite`, with at most 40 inputs and 40 outputs.

    Raises:
        InvalidParameter: another mechanism, or a larger one.
        MissingExtra: Altair or vl-convert is not installed.
    """
    from discreet.finite import Mechanism

    given: object = mechanism  # what came need not be what was annotated
    if not isinstance(given, Mechanism):
        raise InvalidParameter(
            f"a matrix is drawn of a finite mechanism, not of {type(given).__name__}.",
            hint="plots.matrix(dp.finite.Mechanism({0: ['3/4', '1/4'], 1: ['1/4', '3/4']}))",
        )
    inputs, outputs = list(given.inputs), list(given.outputs)
    if max(len(inputs), len(outputs)) > _MOST:
        raise InvalidParameter(
            f"a picture has room for {_MOST} inputs and outputs, not for {len(inputs)} and {len(outputs)}.",
            hint="draw a smaller mechanism of the same kind",
        )
    needed()
    rows: Values = [
        {"input": written(x), "output": written(o), "p": float(p), "exact": str(p)}
        for x in inputs
        for o, p in given.law(x).items()
    ]
    few = max(len(inputs), len(outputs)) <= _WRITTEN
    size = _CELL if few else _CELL // 2
    long = max(len(row["output"]) for row in rows) * _LETTER > size
    base = alt.Chart(inline(rows)).encode(
        x=alt.X(
            "output:N", sort=[written(o) for o in outputs], title="output", axis=alt.Axis(labelAngle=-90 if long else 0)
        ),
        y=alt.Y("input:N", sort=[written(x) for x in inputs], title="input"),
        tooltip=["input:N", "output:N", alt.Tooltip("exact:N", title="probability")],
    )
    shade = alt.Color(
        "p:Q",
        scale=alt.Scale(domain=[0, 1], range=["#F4F4F4", "#0072B2"], interpolate="rgb"),
        legend=None if few else alt.Legend(),
    )
    cells = base.mark_rect(stroke="white", strokeWidth=2).encode(color=shade)
    words = base.mark_text(fontSize=12, color=INK).encode(
        text=alt.Text("p:Q", format=".2~f"), color=alt.condition("datum.p > 0.6", alt.value("white"), alt.value(INK))
    )
    chart = alt.layer(cells, words) if few else cells
    sized = chart.properties(width=size * len(outputs), height=size * len(inputs))
    return dressed(sized, "Probability of each output")
