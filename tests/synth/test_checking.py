"""A private look at how far synthetic data are from the data: its contract, its charge, and what it finds."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.errors import BudgetExceeded, InvalidParameter
from discreet.privacy.unit import Relation
from discreet.synth import Adaptive, Synthetic
from discreet.synth import asked as asking
from discreet.synth.released import ModelCheck
from tests.contracts.recipes import SHORT, RecipeRow, faults
from tests.synth.test_recipe import COLUMNS

TABLES = {(0,): np.full(4, 5), (2,): np.full(4, 5), (0, 1): np.full((4, 4), 2), (1, 2): np.full((4, 4), 2)}
PLACE = np.arange(2000)
FRAME = pd.DataFrame({"who": PLACE // 2, "a": PLACE % 2 == 0, "b": PLACE % 4 < 2, "c": PLACE % 2 == 0})
DOMAIN = dict.fromkeys("abc", dp.Values(True, False))


@pytest.fixture(scope="module", autouse=True)
def few_components() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "COMPONENTS", 20)
        yield


def check(kind: type[ModelCheck] = ModelCheck) -> ModelCheck:
    return kind(COLUMNS, "t", Fraction(1), Fraction(0), 2, TABLES)


@pytest.mark.parametrize("relation", Relation)
def test_a_check_holds_the_contract_of_recipes(relation: Relation) -> None:
    assert faults(RecipeRow("check", check, relations=(relation,)), SHORT) == []


class Doubles(ModelCheck):
    """A broken twin: distances that move twice as far as is planned."""

    def whole(self, people: Any, of: str, args: Any) -> Any:
        return super().whole(people, of, args) * 2


def test_a_check_that_moves_further_is_caught() -> None:
    row = RecipeRow("twin", lambda: check(Doubles), relations=(Relation.ADD_REMOVE,))
    assert "bounds" in {fault.check for fault in faults(row, SHORT)}


def test_the_look_is_charged_to_the_account_once_and_finds_the_distance() -> None:
    unit = dp.PrivacyUnit("who", max_groups=1, max_rows=2)
    given: dict[str, Any] = {"unit": unit, "columns": DOMAIN, "population": "p", "ledger": ":memory:"}
    with dp.connect({"t": FRAME}, budget=dp.Budget(17, "1e-5"), **given) as s:
        made = s.synthesize(epsilon=1, delta="1e-6", columns=[*"abc"], method="independent")
        assert made.report().checked == ()
        with pytest.raises(InvalidParameter, match="not looked at"):
            _ = made.report().mean
        found = made.report(check=12)
        assert s.remaining.epsilon == 4
        assert made.report(check=12) == found  # from the ledger
        assert s.remaining.epsilon == 4
        by_name = dict(zip([row[0] for row in found.rows], found.checked, strict=True))
        assert by_name["a", "c"] == pytest.approx(0.5, abs=0.03)  # the same column, made independent
        assert by_name["a", "b"] == pytest.approx(0, abs=0.03)
        assert found.mean == pytest.approx(0.5 / 3, abs=0.03)
        assert found.margin is not None and 0 < found.margin < 0.01
        assert "0.5" in str(found) and found.as_json()["tables"][4]["distance"] == by_name["a", "c"]
        less = made.report(check="0.5", delta="1e-6")
        assert s.remaining.epsilon == Fraction(7, 2)
        assert less.margin is not None and less.margin > found.margin
        with pytest.raises(BudgetExceeded):
            made.report(check=5)
        assert s.remaining.epsilon == Fraction(7, 2)


def test_a_frame_is_looked_at_where_no_session_made_the_data() -> None:
    made = Adaptive(epsilon=8, delta="1e-6").fit(FRAME, DOMAIN)
    assert isinstance(made, Synthetic)
    found = made.report(check=10, frame=FRAME, relation="replace")
    assert max(found.checked) < 0.05
    with pytest.raises(InvalidParameter, match="no session"):
        made.report(check=1)
    with pytest.raises(InvalidParameter, match="look at the data"):
        made.report(frame=FRAME)
