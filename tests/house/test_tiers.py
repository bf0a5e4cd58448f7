"""What a thinned family of tests keeps in its tier, and which tests are never thinned."""

from __future__ import annotations

import re

import pytest

from tests.tiers import HERE, is_kept

MARKED = re.compile(r"^@pytest\.mark\.thinned.*?^def (\w+)", re.MULTILINE | re.DOTALL)
REJECTS = re.compile("broken|twin|forged|forger|slip|wrong|rejected")


@pytest.mark.parametrize("every", [2, 3, 4, 6, 12])
def test_a_thinned_family_keeps_its_share_of_the_first_cases_and_of_each_column_of_a_table(every: int) -> None:
    for n in range(1, 500):
        assert abs(sum(is_kept(case, every) for case in range(n)) - n / every) < 3
    for columns in range(2, 21):
        assert {case % columns for case in range(12 * every * columns) if is_kept(case, every)} == {*range(columns)}


def test_what_rejects_a_broken_law_is_never_thinned() -> None:
    names = [name for path in HERE.rglob("test_*.py") for name in MARKED.findall(path.read_text(encoding="utf-8"))]
    assert len(names) > 50
    assert not [name for name in names if REJECTS.search(name)]
