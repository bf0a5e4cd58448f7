"""How exact an answer is for each ε."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from discreet.errors import InvalidParameter
from discreet.mechanisms import Mechanism
from discreet.plots.style import HIGH, coloured, dashed, dressed, hovered, ticks
from discreet.plots.vega import Picture, Values, alt, inline, needed, written
from discreet.privacy.exact import Real, exact, positive
from discreet.privacy.guarantee import decimal

_WIDE = 600
_EPSILONS = tuple(float(f"{x:.3g}") for x in np.geomspace(0.05, 5, 25))


class HasError(Protocol):
    """What has an error that is known before the data."""

    def error(self, confidence: Real) -> float:
        """Return a half-width within which the error stays with this confidence."""
        ...


Makers = Mapping[str, Callable[..., Any]]
"""For each label a class that takes `epsilon=`, or a function of ε, which makes a mechanism."""


def error(
    mechanisms: Makers, *, epsilons: Sequence[Real] | None = None, confidence: Real = 0.95, unit: str | None = None
) -> Picture:
    """Return the half-width of the error against ε, one line for each mechanism, both on logarithmic scales.

    A mechanism that refuses an ε, such as one whose calibration holds only below 1, has no point there.

    Args:
        mechanisms: labels, each with a class that takes `epsilon=` or a function of ε; what it makes has
            `error(confidence)`.
        epsilons: where; 25 from 0.05 to 5 unless given.
        confidence: with which the error stays within the half-width.
        unit: what the answer is counted in, for the axis, such as "people".

    Raises:
        InvalidParameter: no mechanism, no ε, or nothing that has an error.
        MissingExtra: Altair or vl-convert is not installed.
    """
    given: object = mechanisms  # what came need not be what was annotated
    if not isinstance(given, Mapping) or not given or not all(map(callable, given.values())):
        raise InvalidParameter(
            "a picture of errors needs labels with classes or functions of ε.",
            hint="plots.error({'Laplace': dp.mechanisms.Laplace})",
        )
    level = exact("confidence", confidence)
    if not 0 < level < 1:
        raise InvalidParameter(f"confidence must lie between 0 and 1, not {confidence}.", hint="confidence=0.95")
    places = [positive("epsilons", e) for e in (_EPSILONS if epsilons is None else epsilons)]
    if not places:
        raise InvalidParameter("a picture of errors needs at least one ε.", hint="epsilons=[0.1, 1]")
    rows: Values = []
    for label, make in mechanisms.items():
        found = [(float(e), _width(make, e, level)) for e in places]
        rows += [{"series": written(label), "epsilon": e, "error": w} for e, w in found if w is not None and w > 0]
    if not rows:
        raise InvalidParameter("no mechanism has an error at these ε.", hint="try larger ones: epsilons=[0.1, 1, 10]")
    needed()
    labels = [written(label) for label in mechanisms]
    return dressed(
        _drawn(rows, labels, unit), "Error against ε", [f"half-width of a {decimal(100 * level)} % interval"]
    )


def _width(make: Callable[..., Any], epsilon: Any, level: Any) -> float | None:
    try:
        made: HasError = make(epsilon=epsilon) if isinstance(make, type) else make(epsilon)
    except InvalidParameter:
        return None
    if not callable(getattr(made, "error", None)):
        kind = type(made).__name__
        raise InvalidParameter(
            f"{kind} has no error that is known before the data.",
            hint="a choice of one candidate has no half-width" if isinstance(made, Mechanism) else "make a mechanism",
        )
    try:
        return float(made.error(level))
    except TypeError:
        raise InvalidParameter(
            f"the error of {type(made).__name__} needs more than a confidence.",
            hint="give a function that makes something with error(confidence)",
        ) from None


def _drawn(rows: Values, labels: Sequence[str], unit: str | None) -> Any:
    words = "error" if unit is None else f"error in {written(unit)}"
    x = alt.X(
        "epsilon:Q",
        title="ε",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(format="~g", values=_ticks(rows, "epsilon")),
    )
    y = alt.Y(
        "error:Q",
        title=f"± {words}",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(format=",.4~g", values=_ticks(rows, "error")),
    )
    base = alt.Chart(inline(rows))
    lines = base.mark_line(strokeWidth=2.5).encode(x=x, y=y, color=coloured(labels), strokeDash=dashed(labels))
    told = (
        alt.Tooltip("series:N", title="mechanism"),
        alt.Tooltip("epsilon:Q", title="ε", format=".3g"),
        alt.Tooltip("error:Q", title="±", format=".4g"),
    )
    return alt.layer(lines, hovered(base.encode(x=x, y=y), *told)).properties(width=_WIDE, height=HIGH)


def _ticks(rows: Values, name: str) -> list[float]:
    values = [row[name] for row in rows]
    return ticks(min(values), max(values))
