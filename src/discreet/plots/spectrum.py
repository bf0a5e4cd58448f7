"""The picture of a census-style release: its errors at each level against ε."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discreet.errors import InvalidParameter
from discreet.plots.style import dressed
from discreet.plots.vega import Picture, Values, needed, written
from discreet.plots.widths import drawn
from discreet.privacy.exact import Real


def spectrum(plan: Any, *, epsilons: Sequence[Real] | None = None, table: str = "total") -> Picture:
    """Return the standard errors of a table against ε, one line for each level. It is free.

    Args:
        plan: `session.plan_hierarchy(…)`, or a release.
        epsilons: where; 21 from 0.1 to 10 unless given.
        table: which one: "total", an attribute, or all attributes as `errors()` names them.

    Raises:
        InvalidParameter: no such plan, or it has no such table.
        MissingExtra: Altair or vl-convert is not installed.
    """
    if not callable(getattr(plan, "spectrum", None)):
        raise InvalidParameter(
            f"a spectrum is drawn of a census-style release, not of {type(plan).__name__}.",
            hint="plots.spectrum(session.plan_hierarchy(…))",
        )
    found = plan.spectrum(epsilons)
    rows: Values = [
        {"series": written(level), "epsilon": e, "error": error}
        for e, level, of, error in found
        if of == table and error
    ]
    if not rows:
        tables = ", ".join(dict.fromkeys(of for _, _, of, _ in found))
        raise InvalidParameter(f"{table!r:.60} is no table of this release.", hint=f"its tables are: {tables}")
    needed()
    return dressed(drawn(rows), f"Standard error of {written(table)} against ε", ["before the tables are made whole"])
