"""The contract of recipes at length: thousands of lone people of every extreme, newcomers, noise, both relations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from discreet.privacy.unit import Relation
from tests.contracts.recipes import CHECKS, THOROUGH, RecipeRow
from tests.contracts.test_recipes import SOUND

CASES = [(row, relation) for row in SOUND for relation in row.relations]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("row", "relation"), CASES, ids=lambda x: x.value if isinstance(x, Relation) else str(x))
def test_every_recipe_holds_the_contract_at_length(row: RecipeRow, relation: Relation, check: Any) -> None:
    effort = replace(THOROUGH, newcomers=6) if row.slow else THOROUGH
    assert list(check(row, relation, effort)) == []
