"""The noise that is chosen where none is named, over stored queries: never a higher charge, never a wider number."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from discreet.errors import DiscreetError, InvalidParameter
from tests.meanings import fixture
from tests.meanings.adapter import connected, plan


def widths(query: Any) -> dict[str, float]:
    """Return how far off each output may be at 95 %, where that is known or follows from a number of rows."""
    found = {}
    for name in query.columns:
        with suppress(InvalidParameter):
            found[name] = query.error(name, assuming={"rows": 10_000})
    return found


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_no_stored_query_costs_more_or_is_wider_than_with_laplace_noise(every: int) -> None:
    worlds, cases = fixture.load()
    sessions: dict[str, Any] = {}
    seen: Counter[str] = Counter()
    for case in cases[::every]:
        asked = case["asked"]
        if (
            "noise" in asked
            or not isinstance(case["sql"], str)
            or ("delta" not in asked and "delta" not in case["sql"])
        ):
            continue
        session = sessions.setdefault(case["world"], None) or connected(worlds[case["world"]])
        sessions[case["world"]] = session
        try:
            chosen, known = plan(session, case["sql"], asked), plan(session, case["sql"], asked | {"noise": "laplace"})
        except DiscreetError:
            continue
        assert chosen.price == known.price
        if chosen.stages is not None:
            seen["in stages"] += 1
            continue
        for name, output in known.outputs.items():
            before, after = widths(output.query), widths(chosen.outputs[name].query)
            assert before.keys() == after.keys()
            assert all(after[column] <= wide * (1 + 1e-9) for column, wide in before.items()), case["sql"]
            seen["Gaussian" if chosen.outputs[name].query.allocation.is_gaussian else "Laplace"] += 1
    assert seen["Gaussian"] > 5 and seen["Laplace"] > 30 and seen["in stages"]
