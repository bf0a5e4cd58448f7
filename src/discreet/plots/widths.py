"""How exact a result is for each ε."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from discreet.errors import InvalidParameter
from discreet.mechanisms import Mechanism
from discreet.plan.plan import Plan
from discreet.plan.planner import replanned
from discreet.plan.query import Query, confidence_level
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


ROWS = 10_000
"""Over how many rows a mean is drawn, unless guesses at the result say otherwise."""

Makers = Mapping[str, Callable[..., Any]]
"""For each label a class that takes `epsilon=`, or a function of ε, which makes a mechanism."""


def error(
    mechanisms: Makers | Plan,
    *,
    epsilons: Sequence[Real] | None = None,
    confidence: Real = 0.95,
    unit: str | None = None,
    assuming: Mapping[str, Real] | None = None,
) -> Picture:
    """Return the half-width of the error against ε, one line for each mechanism or for each noisy column of a plan.

    Both axes are logarithmic. A mechanism that refuses an ε, such as one whose calibration holds only below 1, has no
    point there.

    Args:
        mechanisms: labels, each with a class that takes `epsilon=` or a function of ε; what it makes has
            `error(confidence)`. Or a plan, whose query is planned again at each ε: free.
        epsilons: where; 25 from 0.05 to 5 unless given.
        confidence: with which the error stays within the half-width.
        unit: what the result is counted in, for the axis, such as "people".
        assuming: of a plan, public guesses at its result, as in `Plan.error`; a mean is over 10,000 rows otherwise.

    Raises:
        InvalidParameter: no mechanism, no ε, or nothing that has an error.
        MissingExtra: Altair or vl-convert is not installed.
    """
    places = [positive("epsilons", e) for e in (_EPSILONS if epsilons is None else epsilons)]
    if not places:
        raise InvalidParameter("a picture of errors needs at least one ε.", hint="epsilons=[0.1, 1]")
    if isinstance(mechanisms, Plan):
        level = confidence_level(confidence)
        rows = plan_errors(replanned_at(mechanisms, places), level, assuming)
        needed()
        return dressed(drawn(rows, unit), "Error against ε", [f"half-width of a {decimal(100 * level)} % interval"])
    given: object = mechanisms  # what came need not be what was annotated
    if not isinstance(given, Mapping) or not given or not all(map(callable, given.values())):
        raise InvalidParameter(
            "a picture of errors needs labels with classes or functions of ε.",
            hint="plots.error({'Laplace': dp.mechanisms.Laplace})",
        )
    level = exact("confidence", confidence)
    if not 0 < level < 1:
        raise InvalidParameter(f"confidence must lie between 0 and 1, not {confidence}.", hint="confidence=0.95")
    rows = []
    for label, make in mechanisms.items():
        found = [(float(e), _width(make, e, level)) for e in places]
        rows += [{"series": written(label), "epsilon": e, "error": w} for e, w in found if w is not None and w > 0]
    if not rows:
        raise InvalidParameter("no mechanism has an error at these ε.", hint="try larger ones: epsilons=[0.1, 1, 10]")
    needed()
    return dressed(drawn(rows, unit), "Error against ε", [f"half-width of a {decimal(100 * level)} % interval"])


def replanned_at(plan: Plan, epsilons: Sequence[Real]) -> dict[float, Query]:
    """Return the query of a plan at each ε.

    Raises:
        InvalidParameter: the plan is of several queries, or more than ε decides its errors.
    """
    if plan.stages is not None or len(plan.payers) > 1 or plan.query.truncation:
        raise InvalidParameter(
            "errors are drawn of a plan of one population, without bounds='auto' and truncation=.",
            hint="declare caps and bounds, and plan again",
        )
    query, population = plan.query, plan.payers[0].population
    return {float(exact("epsilon", e)): replanned(query, population, e) for e in epsilons}


def plan_errors(queries: Mapping[float, Query], level: Fraction, assuming: Mapping[str, Real] | None = None) -> Values:
    """Return the error of each noisy column at each ε, as far as it is known before the data.

    Raises:
        InvalidParameter: no error is known.
    """
    rows: Values = []
    for epsilon, query in queries.items():
        for name in filter(query.has_interval, query.columns):
            width, guessed = _known(query, name, level, assuming)
            label = written(name) + (f" (over {ROWS:,} rows)" if guessed else "")
            if width is not None and 0 < width < math.inf:
                rows.append({"series": label, "epsilon": epsilon, "error": width})
    if not rows:
        raise InvalidParameter(
            "no column has an error that is known before the data.", hint="assuming={'rows': 10_000}, or its size"
        )
    return rows


def _known(query: Query, name: str, level: Fraction, assuming: Mapping[str, Real] | None) -> tuple[float | None, bool]:
    """Return the error of a column, and whether it is over so many rows as nobody said."""
    for guesses in (None, assuming or {"rows": ROWS}):
        try:
            return query.error(name, level, assuming=guesses), guesses is not None and assuming is None
        except InvalidParameter:
            continue
    return None, False


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


def drawn(rows: Values, unit: str | None = None, *, wide: int = _WIDE) -> Any:
    """Return the lines of errors against ε, one for each series."""
    labels = list(dict.fromkeys(row["series"] for row in rows))
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
    return alt.layer(lines, hovered(base.encode(x=x, y=y), *told)).properties(width=wide, height=HIGH)


def _ticks(rows: Values, name: str) -> list[float]:
    values = [row[name] for row in rows]
    return ticks(min(values), max(values))
