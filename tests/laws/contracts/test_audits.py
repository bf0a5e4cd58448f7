"""Everything in the table of audits keeps its claim, and the auditor that says so catches its broken twin."""

from __future__ import annotations

import pytest

from tests.contracts.audit_row import AuditRow
from tests.contracts.audits import AUDITS

every = pytest.mark.parametrize("row", AUDITS, ids=str)


SLIPS = ("AttributeError", "KeyError", "NameError", "TypeError")
"""Errors of the audit's own code: as outputs that are the same on both sides they would pass for privacy."""


@pytest.mark.sampled(40)
@pytest.mark.thinned(3)
@every
def test_what_is_offered_keeps_its_claim(row: AuditRow) -> None:
    audit = row.sound(row.ci)
    assert not audit.violated, str(audit)
    assert not any(f"raised {slip}" in note for note in audit.notes for slip in SLIPS), audit.notes


@pytest.mark.sampled(40)
@every
def test_the_broken_twin_is_caught_with_as_many_samples(row: AuditRow) -> None:
    assert row.broken(row.ci).violated, row.power


@pytest.mark.slow
@every
def test_what_is_offered_keeps_its_claim_at_length(row: AuditRow) -> None:
    audit = row.sound(row.long)
    assert not audit.violated, str(audit)
