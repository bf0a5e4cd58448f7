"""The contract of recipes at length: thousands of lone people of every extreme, newcomers, noise, both relations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from discreet.privacy.unit import Relation
from tests.contracts.recipes import CHECKS, THOROUGH, RecipeRow, bounds, private_parts
from tests.contracts.test_recipes import SOUND

CASES = [
    (row, relation, check)
    for row in SOUND
    for i, relation in enumerate(row.relations)
    # what the public side does follows from no relation
    for check in (CHECKS if i == 0 else (private_parts, bounds))
]


def name_of(part: Any) -> str:
    """What a part of a case is called."""
    return part.value if isinstance(part, Relation) else getattr(part, "__name__", str(part))


# few, since each recipe holds the same contract on fewer people in `tests/contracts`
@pytest.mark.thinned(12)
@pytest.mark.parametrize(("row", "relation", "check"), CASES, ids=name_of)
def test_every_recipe_holds_the_contract_at_length(row: RecipeRow, relation: Relation, check: Any) -> None:
    effort = replace(THOROUGH, newcomers=3) if row.slow else THOROUGH
    assert list(check(row, relation, effort)) == []
