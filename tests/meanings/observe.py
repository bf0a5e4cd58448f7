"""What a query means, as JSON: facts of its plan, and what a release of a stored noisy state shows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from discreet.errors import DiscreetError
from tests.meanings import adapter
from tests.meanings.adapter import Facts
from tests.meanings.worlds import World, plain
from tests.seeded import Seeded

LEVELS = (Fraction(9, 10), Fraction(19, 20), Fraction(999, 1000))
MOST_ROWS = 10
"""Rows of a release that are stored, in even distances."""
MOST_CHARACTERS = 300
"""Exact cells that are longer as JSON are stored as a digest."""


class Observer:
    """A connected world, and what queries to it mean."""

    def __init__(self, world: World) -> None:
        self._session = adapter.connected(world)

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def observe(self, case: Mapping[str, Any]) -> tuple[str, Facts]:
        """Return the identity of a case's query and what it means; a noisy state is drawn where none is stored."""
        s = self._session
        try:
            plan = adapter.plan(s, case["sql"], case["asked"])
        except DiscreetError as error:
            return "", {"planned": {"refused": type(error).__name__}}
        planned: Facts = {"cost": adapter.costs(plan), **adapter.account(s, plan)}
        if "each" in planned.get("people", ()):
            planned["people"]["each"] = _short(planned["people"]["each"])
        queries = adapter.queries(plan)
        state = case.get("state") or adapter.draw(s, plan, _Draws(case["sql"]))
        if queries:
            planned["cells"] = _cells(s, plan)
        else:
            looks = adapter.first_stage(s, plan)
            planned |= {"columns": plan.columns, "notes": list(plan.notes)}
            planned["first stage"] = [look | {"counts": _short(look["counts"])} for look in looks]
            queries = {"": adapter.second_stage(plan, state["chosen"])}
            planned["chosen cells"] = _cells(s, queries[""])
        planned["queries"] = {name: _query(q) for name, q in queries.items()}
        shown = {name: _release(adapter.release(q, state[name])) for name, q in queries.items()}
        means = {"planned": planned, "state": state, "shown": shown}
        return plan.identity, json.loads(json.dumps(means))


class _Draws:
    """Entropy that is always the same for a query."""

    def __init__(self, sql: Any) -> None:
        self._source = Seeded(f"meanings {sql}")

    def bytes(self, n: int, /) -> bytes:
        return self._source(n)


def _query(q: Any) -> Facts:
    """The facts of one query: what it measures, and what is said before the data."""
    errors = {str(float(level)): [_errors(q, c, level) for c in q.columns] for level in LEVELS}
    return {"columns": q.columns, "notes": list(q.notes), "error": errors, **adapter.measured(q)}


def _errors(q: Any, column: str, level: Fraction) -> list[Any]:
    """The error of a column, that over a guessed number of rows, and that of its rank; or how they are refused."""
    ways: tuple[Callable[[], float], ...] = (
        lambda: q.error(column, level),
        lambda: q.error(column, level, assuming={"rows": 1000}),
        lambda: q.rank_error(column, level),
    )
    found: list[Any] = []
    for way in ways:
        try:
            found.append(plain(way()))
        except DiscreetError as refusal:
            found.append(type(refusal).__name__)
    return found


def _cells(s: Any, plan: Any) -> list[Any]:
    return sorted(map(_short, adapter.exact_cells(s, plan)), key=json.dumps)


def _short(cells: Any) -> Any:
    """The cells, or their digest where they are long."""
    text = json.dumps(cells)
    if len(text) <= MOST_CHARACTERS:
        return cells
    return f"{hashlib.sha256(text.encode()).hexdigest()[:20]} of {len(text)}"


def _release(r: Any) -> Facts:
    """What a release shows: rows, intervals, notes, and the same of its non-negative form."""
    return _shown(r, LEVELS) | {"notes": list(r.notes), "nonnegative": _shown(r.nonnegative(), LEVELS[1:2])}


def _shown(r: Any, levels: Sequence[Fraction]) -> Facts:
    step = -(-len(r.rows) // MOST_ROWS) or 1
    intervals = {
        str(float(level)): [plain(r.interval(column, level)[::step]) for column in r.columns] for level in levels
    }
    return {"rows": plain(r.rows[::step]), "of": len(r.rows), "intervals": intervals}
