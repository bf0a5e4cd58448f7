"""What is released of every shape in which several tables are read keeps its claim; its twin with a slip does not."""

from __future__ import annotations

import pytest

from tests.contracts.audit_row import AuditRow
from tests.contracts.audits import SHAPE_AUDITS
from tests.plan.join_shapes import SHAPES

FIRST = {row.power: row for row in reversed(SHAPE_AUDITS)}
"""For each slip the first shape that has it; `test_shapes_enumerated.py` tries all of them exactly."""


def test_every_shape_has_an_audit() -> None:
    assert [row.case for row in SHAPE_AUDITS] == list(SHAPES)


@pytest.mark.parametrize("slip", FIRST)
def test_the_engine_keeps_its_claim_and_each_slip_is_caught(slip: str) -> None:
    row = FIRST[slip]
    audit = row.sound(row.ci)
    assert not audit.violated, str(audit)
    assert row.broken(row.ci).violated, slip


@pytest.mark.slow
@pytest.mark.parametrize("row", SHAPE_AUDITS, ids=str)
def test_the_slip_of_every_shape_is_caught(row: AuditRow) -> None:
    assert row.broken(row.ci).violated, row.power


@pytest.mark.slow
@pytest.mark.parametrize("row", SHAPE_AUDITS, ids=str)
def test_every_shape_keeps_its_claim_at_length(row: AuditRow) -> None:
    audit = row.sound(row.long)
    assert not audit.violated, str(audit)
