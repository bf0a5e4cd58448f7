"""Measurements without noise, whose exact cells a test is told: all that answers follow from, but the noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from discreet.engine import cells
from discreet.engine.cells import Cells, ColumnUse, GroupsUse, Key, Leaves, Run, exact_all
from discreet.engine.meter import PrivateReads
from discreet.plan.query import Query


def without_noise(monkeypatch: pytest.MonkeyPatch, told: Callable[[Query, Cells], None]) -> None:
    """From now on columns are shown exactly, of all groups that there are; each measurement is told once."""

    def read(query: Query, run: Run) -> tuple[Cells, list[Leaves]]:
        exact, leaves = exact_all(query, run)
        told(query, exact)
        return exact, leaves

    def groups(use: GroupsUse, exact: PrivateReads, _args: Any, _rng: Any) -> tuple[Key, ...]:
        return tuple(use.cells(exact))

    def column(use: ColumnUse, exact: PrivateReads, args: Sequence[Key], _rng: Any) -> list[int]:
        return [use.cells(exact)[key][use.place] for key in args]

    monkeypatch.setattr(cells, "exact_all", read)
    monkeypatch.setattr(GroupsUse, "draw", groups)
    monkeypatch.setattr(ColumnUse, "draw", column)
