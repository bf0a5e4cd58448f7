"""What a mechanism may answer on two neighbours, and how far e^ε lets the two laws be apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.errors import InvalidParameter
from discreet.mechanisms import Numeric
from discreet.mechanisms.additive import Additive
from discreet.plots.style import COLOURS, HIGH, POWERS, dressed, ticks
from discreet.plots.vega import Picture, Values, alt, inline, needed
from discreet.privacy.exact import Real, exact
from discreet.privacy.guarantee import decimal
from discreet.privacy.pair import Curve

_WIDE = 640
_POINTS = 161  # of a curve; whole numbers are drawn one by one where there are fewer
_NEAR, _FAR = 0.997, 0.999999  # of the probability that is in the picture
_BAND, _WITNESS = "#BBBBBB", "#E69F00"


@dataclass(frozen=True, slots=True)
class Two:
    """Two laws on the same places: the masses of whole numbers, or densities."""

    places: Curve
    p: Curve
    q: Curve
    whole: bool


def densities(
    mechanism: Numeric,
    x: float | None = None,
    x_neighbour: float | None = None,
    *,
    epsilon: Real | None = None,
    log: bool | None = None,
) -> Picture:
    """Return the laws of a mechanism's answers on two neighbours, and the band around the second in which the first
    must stay.

    The band is what e^ε leaves. Where the first law is above it, that part is filled: these answers are the witness of
    δ, P(S) − e^ε·Q(S), which is written above. Integers have masses, floats densities.

    Args:
        mechanism: one that adds noise to a number, such as `Laplace(epsilon=1)`.
        x: a made-up true value, 0 unless given. It is shown.
        x_neighbour: the true value of a neighbour; away from x by the sensitivity unless given.
        epsilon: of the band; that of the mechanism unless given.
        log: a logarithmic axis, on which the band is equally wide everywhere; taken where the mechanism has a δ.

    Raises:
        InvalidParameter: another mechanism, values that are no finite numbers of one kind, or no ε.
        MissingExtra: Altair or vl-convert is not installed.
    """
    band = _epsilon(mechanism, epsilon)
    x, x_neighbour = _two(mechanism, x, x_neighbour)
    needed()
    more = _excess(mechanism, x, x_neighbour, band)
    shown = log if log is not None else mechanism.loss.pure is None
    two = _laws(mechanism, x, x_neighbour, _FAR if shown else _NEAR)
    size = decimal(exact("epsilon", band))
    words = [f"grey: where ε = {size} lets the first law be, from e^−ε to e^ε times the second"]
    beyond = more > 1e-9
    if beyond:
        words.append(f"yellow: answers that leave it, δ = P(S) − e^ε·Q(S) = {more:.3g}")
    near = (f"{x:g}", f"{x_neighbour:g}")
    first, second = near if near[0] != near[1] else (str(x), str(x_neighbour))
    chart = _drawn(two, band, (f"answers on {first}", f"answers on {second}"), log=shown, beyond=beyond)
    return dressed(chart, f"{mechanism!r}", words)


def _epsilon(mechanism: object, asked: Real | None) -> float:
    if not isinstance(mechanism, Numeric):
        raise InvalidParameter(
            f"densities are drawn of mechanisms that add noise to a number, not of {type(mechanism).__name__}.",
            hint="plots.densities(dp.mechanisms.Laplace(epsilon=1), 10, 11)",
        )
    found = asked if asked is not None else getattr(mechanism, "epsilon", None)
    if found is None:
        raise InvalidParameter("this mechanism was made without an ε.", hint="say one: epsilon=1")
    size = float(exact("epsilon", found))
    if not 0 <= size <= 100:
        raise InvalidParameter(f"epsilon must lie between 0 and 100 to be drawn, not {found}.")
    return size


def _two(mechanism: Numeric, x: float | None, y: float | None) -> tuple[float, float]:
    """Return the two values: integers where the sensitivity is one, unless they are given."""
    move = mechanism.sensitivity
    away = int(move) if move.denominator == 1 else float(move)
    first = x if x is not None else 0 if y is None else y - away
    return first if isinstance(away, int) else float(first), first + away if y is None else y


def _laws(mechanism: Numeric, x: float, y: float, part: float, points: int = _POINTS) -> Two:
    """Both laws, wide enough for this part of the probability."""
    noise, step = _noise(mechanism, x, y)
    x, y = float(x), float(y)
    one = step * noise.quantile(part)
    reach = one + abs(y - x)
    low, high = min(x, y) - reach, max(x, y) + reach
    if step == 1.0 and high - low < 4 * points:
        places = np.arange(math.floor(low), math.ceil(high) + 1, dtype=np.float64)
        return Two(places, _mass(noise, places - x), _mass(noise, places - y), whole=True)
    places = np.union1d(np.linspace(low, high, points), [x, y])  # a peak is not cut off
    if abs(y - x) > 2 * one:  # two peaks far apart: each with points of its own
        around = np.linspace(-one, one, points)
        places = np.union1d(places, np.concatenate([x + around, y + around]))
    # A window around each place: of whole numbers it holds the same number everywhere, which is twice the half.
    half = max(round(one / points / 4), 1) / 2 if step == 1.0 else step * (1 << 10)
    return Two(
        places,
        _density(noise, (places - x) / step, half / step) / step,
        _density(noise, (places - y) / step, half / step) / step,
        whole=False,
    )


def _noise(mechanism: Numeric, x: object, y: object) -> tuple[Additive, float]:
    """Return the law that is added, in steps, and their width: 1 for integers."""
    if all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in (x, y)):
        return mechanism.noise, 1.0
    if not all(isinstance(v, float | np.floating) and math.isfinite(v) for v in (x, y)):
        raise InvalidParameter(
            "x and x_neighbour must be two integers or two finite floats.", hint="densities(mechanism, 10, 11)"
        )
    fine = mechanism.lattice
    if fine is None:
        raise InvalidParameter(f"{type(mechanism).__name__} takes integers only.", hint="densities(mechanism, 10, 11)")
    return fine.noise, float(fine.grid.step)


def _excess(mechanism: Numeric, x: float, y: float, epsilon: float) -> float:
    """δ(ε) = Σ (p − e^ε·q)₊ of these two laws, to three digits or so."""
    two = _laws(mechanism, x, y, 1 - 1e-12, points=20_001)
    over = np.maximum(two.p - math.exp(epsilon) * two.q, 0.0)
    return min(float(over.sum() if two.whole else np.trapezoid(over, two.places)), 1.0)


def _mass(noise: Additive, k: Curve) -> Curve:
    """P(Z = k): by symmetry from the lower tail, where no digits are lost."""
    below = -np.abs(k)
    return np.maximum(noise.cdf(below) - noise.cdf(below - 1), 0.0)


def _density(noise: Additive, t: Curve, half: float) -> Curve:
    """Return the density of Z near each t, from the mass within `half`, which is little beside the noise's width."""
    centre = -np.abs(t)
    return np.maximum(noise.cdf(centre + half) - noise.cdf(centre - half), 0.0) / (2 * half)


def _drawn(two: Two, epsilon: float, names: tuple[str, str], *, log: bool, beyond: bool) -> Any:
    grow, top = math.exp(epsilon), float(max(two.p.max(), two.q.max()))
    floor = max(top * 1e-8, float(min(two.p.min(), two.q.min()))) if log else 0.0
    shape: Any = "step" if two.whole and len(two.places) < _POINTS else "linear"
    rows: Values = [
        {
            "o": float(o),
            "p": max(float(p), floor),
            "q": max(float(q), floor),
            "low": max(float(q) / grow, floor),
            "high": max(float(q) * grow, floor),
            "over": max(float(p), float(q) * grow, floor),
        }
        for o, p, q in zip(two.places, two.p, two.q, strict=True)
    ]
    high = 2 * top if log else 1.2 * top
    scale = alt.Scale(type="log", domain=[floor, high], nice=False) if log else alt.Scale(domain=[0, high], nice=False)
    axis = alt.Axis(labelExpr=POWERS, values=ticks(floor, high)) if log else alt.Axis(tickCount=6)
    title = "probability" if two.whole else "density"
    base = alt.Chart(inline(rows)).encode(x=alt.X("o:Q", title="answer", scale=alt.Scale(zero=False, nice=False)))
    band = base.mark_area(color=_BAND, opacity=0.45, interpolate=shape, clip=True).encode(
        y=alt.Y("low:Q", title=title, scale=scale, axis=axis), y2="high:Q"
    )
    layers = [band]
    if beyond:
        over = base.mark_area(color=_WITNESS, opacity=0.9, interpolate=shape, clip=True)
        layers.append(over.encode(y=alt.Y("high:Q", scale=scale), y2="over:Q"))
    lines = base.transform_fold(["p", "q"], as_=["law", "mass"]).transform_calculate(
        series=f"datum.law == 'p' ? {names[0]!r} : {names[1]!r}"
    )
    colour = alt.Color(
        "series:N", scale=alt.Scale(domain=list(names), range=list(COLOURS[:2])), legend=alt.Legend(symbolType="stroke")
    )
    dash = alt.StrokeDash(
        "series:N", scale=alt.Scale(domain=list(names), range=[[1, 0], [7, 4]]), legend=alt.Legend(symbolType="stroke")
    )
    layers.append(
        lines.mark_line(strokeWidth=2.5, interpolate=shape, clip=True).encode(
            y=alt.Y("mass:Q", scale=scale), color=colour, strokeDash=dash
        )
    )
    told = [
        alt.Tooltip("o:Q", title="answer", format=".4g"),
        alt.Tooltip("p:Q", title=names[0], format=".3g"),
        alt.Tooltip("q:Q", title=names[1], format=".3g"),
    ]
    layers.append(
        base.mark_point(size=120, opacity=0, aria=False, clip=True).encode(y=alt.Y("p:Q", scale=scale), tooltip=told)
    )
    return alt.layer(*layers).properties(width=_WIDE, height=HIGH)
