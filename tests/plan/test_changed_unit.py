"""A derivation says what changing one unit costs, where neighbours have one unit more or less."""

from __future__ import annotations

from typing import Any

import pytest

from discreet.plan.explain import explain
from discreet.privacy.unit import Relation
from tests.plan.tables import planned, visits


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"epsilon": "0.5"}, "Changing one such unit is two steps, and costs at most ε = 1."),
        ({"delta": "1e-6", "noise": "gaussian"}, "costs at most ε = 2, δ = 3.71828e-06."),  # (1 + e)·1e-6
    ],
)
def test_changing_one_unit_costs_twice_under_add_remove(how: Any, said: str) -> None:
    sql = "SELECT COUNT(*) AS n FROM visits"
    assert said in explain(planned(sql, **how))
    assert "Changing one" not in explain(planned(sql, visits(relation=Relation.REPLACE), **how))
