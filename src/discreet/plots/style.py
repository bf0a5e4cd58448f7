"""How every picture looks: colours, sizes, words. Large enough for a slide of 1280 points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from discreet.plots.vega import Picture, Values, alt, finished, inline

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which colour-blind people tell apart; the dashes tell them apart in print."""

DASHES = ([1, 0], [8, 4], [8, 3, 2, 3], [2, 3])
"""The dashes of lines, in the order of the colours."""

INK, GREY, FAINT = "#222222", "#666666", "#E2E2E2"
"""Of words, of guides and of grids."""

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
"""The first comes with vl-convert; the others have the same widths, or are anybody's own."""

WIDE, HIGH = 460, 340
"""The size of one panel."""

CLOCK = {"hours": "%H:%M", "minutes": "%H:%M"}
"""How an axis of times writes hours and minutes; days and years as it does anyway."""

POWERS = "datum.value == 1 ? '1' : format(datum.value, '.0e')"
"""How powers of ten are written on an axis."""


def dressed(
    chart: Any, title: str | None = None, subtitle: str | Sequence[str] | None = None, *, limit: float | None = None
) -> Picture:
    """Return the finished picture: its title, of so many points at most, and its looks."""
    if title is not None:
        words: dict[str, Any] = {} if subtitle is None else {"subtitle": subtitle}
        words |= {} if limit is None else {"limit": limit}
        chart = chart.properties(title=alt.TitleParams(title, **words))
    looks = alt.Config(
        font=FONT,
        background="white",
        padding=16,
        view=alt.ViewConfig(stroke=None),
        axis=alt.AxisConfig(
            labelFontSize=14,
            titleFontSize=15,
            titleFontWeight="normal",
            titlePadding=10,
            labelColor=INK,
            titleColor=INK,
            domainColor=GREY,
            tickColor=GREY,
            gridColor=FAINT,
        ),
        title=alt.TitleConfig(
            fontSize=18,
            fontWeight="bold",
            color=INK,
            anchor="start",
            offset=14,
            subtitleFontSize=14,
            subtitleColor=GREY,
            subtitlePadding=6,
        ),
        legend=alt.LegendConfig(
            labelFontSize=14,
            titleFontSize=14,
            titleFontWeight="normal",
            titleColor=INK,
            labelColor=INK,
            labelLimit=420,
            symbolSize=260,
            symbolStrokeWidth=2.5,
            symbolOpacity=1,
            orient="top",
            title=None,
            offset=10,
        ),
        header=alt.HeaderConfig(labelFontSize=15, titleFontSize=15),
        text=alt.MarkConfig(fontSize=14, color=INK),
        concat=alt.CompositionConfig(spacing=36),
    )
    return finished(chart.properties(config=looks))


def coloured(labels: Sequence[str], field: str = "series") -> Any:
    """Return the colour of each series; a legend above the picture where there is more than one, or one with a name."""
    scale = alt.Scale(domain=list(labels), range=[COLOURS[i % len(COLOURS)] for i in range(len(labels))])
    return alt.Color(field, type="nominal", scale=scale, legend=legend(labels))


def dashed(labels: Sequence[str], field: str = "series") -> Any:
    """Return the dashes of each series, which join the legend of its colour."""
    scale = alt.Scale(domain=list(labels), range=[DASHES[i % len(DASHES)] for i in range(len(labels))])
    return alt.StrokeDash(field, type="nominal", scale=scale, legend=legend(labels))


def legend(labels: Sequence[str]) -> Any:
    """Return the legend of these labels; none where there is nothing to tell apart."""
    if list(labels) == [""]:
        return None
    return alt.Legend(columns=2 if len(labels) > 3 else 3, symbolType="stroke", symbolSize=500)


def ticks(least: float, most: float) -> list[float]:
    """Where a logarithmic axis is marked: at powers of ten, where they are few also at 2 and 5 times them."""
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    some = (1, 2, 5) if math.log10(most / least) < 2.5 else (1,)
    every = max(1, -(-(high - low) // 7))
    return [float(f"{m}e{k}") for k in range(low, high + 1, every) for m in some]


def said(text: str, x: Any, y: Any, *, dx: float = 0, dy: float = 0, **looks: Any) -> Any:
    """Return a few words beside a place, in the units of the axes."""
    place: Values = [{"x": x, "y": y, "words": text}]
    marks = alt.Chart(inline(place)).mark_text(dx=dx, dy=dy, **{"align": "left", **looks})
    return marks.encode(x=alt.X("x:Q"), y=alt.Y("y:Q"), text="words:N")


def hovered(chart: Any, *tooltips: Any) -> Any:
    """Unseen points that tell their numbers when a pointer comes near, in notebooks."""
    return chart.mark_point(size=120, opacity=0, filled=True, aria=False, clip=True).encode(tooltip=list(tooltips))


def zoomed(chart: Any, name: str, *axes: Literal["x", "y"]) -> Any:
    """Return the chart, which a wheel or a drag moves along these axes in notebooks; each panel has its own name."""
    return chart.add_params(alt.selection_interval(name=name, bind="scales", encodings=list(axes)))
