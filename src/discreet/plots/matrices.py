"""A finite mechanism as the matrix that it is: the probability of each output on each input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.errors import InvalidParameter
from discreet.plots.style import INK, dressed
from discreet.plots.vega import Picture, Values, alt, inline, needed, written

if TYPE_CHECKING:
    from discreet.finite import Mechanism

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
            "output:N",
            sort=[written(o) for o in outputs],
            title="output",
            axis=alt.Axis(labelAngle=-90 if long else 0),
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
        text=alt.Text("p:Q", format=".2~f"),
        color=alt.condition("datum.p > 0.6", alt.value("white"), alt.value(INK)),
    )
    chart = alt.layer(cells, words) if few else cells
    sized = chart.properties(width=size * len(outputs), height=size * len(inputs))
    return dressed(sized, "Probability of each output")
