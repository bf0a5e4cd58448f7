"""1,000 random trees."""

from __future__ import annotations

import pytest

from tests.synth.trees import DENSE, check_estimates, check_whole, random_tree


@pytest.mark.parametrize("hundred", range(10))
def test_a_thousand_trees_are_fitted_exactly_and_made_whole(hundred: int) -> None:
    for seed in range(100 * hundred, 100 * hundred + 100):
        case = random_tree(seed)
        check_whole(case)
        if seed % 4 < 3 and case.tree.sizes[-1] * case.noise.cells <= DENSE:
            check_estimates(case)
