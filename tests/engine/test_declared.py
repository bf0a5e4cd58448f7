"""Mechanisms used by hand: charged to the account first, with a note that their sensitivity was declared."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.engine.session import Session
from discreet.errors import BudgetExceeded, InvalidParameter
from discreet.ledger.entry import Charged
from discreet.mechanisms import AboveThreshold, Exponential, Gaussian, Laplace, Mechanism, Median
from discreet.privacy.event import Composed

FRAME = pd.DataFrame({"who": range(100), "x": [1, 2] * 50})


class ByHand(Mechanism):
    """A mechanism that is not used by one call."""

    @property
    def events(self) -> Composed:
        return Laplace(epsilon="0.1").events

    def explain(self) -> str:
        return "By its noise."

    def __repr__(self) -> str:
        return "ByHand()"


def session(**more: Any) -> Session:
    unit = dp.PrivacyUnit("who", max_groups=1, max_rows=1)
    given: dict[str, Any] = {"budget": dp.Budget(3, "1e-5"), "population": "p", "ledger": ":memory:"} | more
    return dp.connect({"t": FRAME}, unit=unit, columns={"x": dp.Range(0, 4)}, **given)


def test_a_mechanism_is_charged_before_it_is_used_and_the_ledger_says_whose_word_its_sensitivity_is() -> None:
    with session() as s:
        assert s.charge(Laplace(epsilon=1)).epsilon == 1
        found = s.release(Laplace(epsilon=Fraction(1, 2)), 42)
        assert found.interval is not None and found.interval[0] < found.value < found.interval[1]
        assert s.remaining.epsilon == Fraction(3, 2)
        charges = [e.content for e in s.history() if isinstance(e.content, Charged)]
        assert [c.charge.guarantee.epsilon for c in charges] == [1, Fraction(1, 2)]
        for charge in charges:
            assert charge.note["sensitivity"] == "sensitivity declared by the caller, not derived"
            assert charge.note["relation"] == "add-remove" and charge.note["mechanism"].startswith("Laplace(epsilon=")
        assert all("42" not in repr(charge.note) for charge in charges)
        assert s.release(Laplace(epsilon=Fraction(1, 2)), 42).value is not None  # never answered from the ledger
        assert s.remaining.epsilon == 1
        assert s.sql("SELECT COUNT(*) AS n FROM t", epsilon=1).charged.epsilon == 1


def test_what_the_account_cannot_pay_is_not_released() -> None:
    with session() as s:
        with pytest.raises(BudgetExceeded):
            s.release(Laplace(epsilon=4), 42)
        assert s.history() == []


@pytest.mark.parametrize(
    ("mechanism", "how", "said"),
    [
        (Laplace(epsilon=1), {"relation": "replace"}, "add-remove neighbours, and the mechanism for replace"),
        (Median(epsilon=1, lower=0, upper=9, relation="replace"), {}, "the mechanism for replace"),
        (Gaussian(sigma=2), {}, "no pure ε"),
        (Laplace, {}, "a mechanism is charged, not"),
        (42, {}, "a mechanism is charged, not int"),
    ],
)
def test_what_cannot_be_charged_is_refused(mechanism: Any, how: Any, said: str) -> None:
    with session() as s:
        with pytest.raises(InvalidParameter, match=said) as caught:
            s.charge(mechanism, **how)
        assert caught.value.hint and s.history() == []


def test_mechanisms_of_every_kind_are_charged() -> None:
    with session() as s:
        assert s.release(Exponential(epsilon=1), ["a", "b"], [0, 5]).value in ("a", "b")
        assert s.release(AboveThreshold(epsilon=1, threshold=3), [0, 1, 9]).cost.epsilon() == pytest.approx(1)
        assert s.charge(Gaussian(sigma=20), delta="1e-6").delta == Fraction(1, 10**6)
        assert s.charge(Gaussian(epsilon="0.1", delta="1e-6")).delta == Fraction(1, 10**6)
        with pytest.raises(InvalidParameter, match="no release") as caught:
            s.release(ByHand(), 3)
        assert "session.charge" in caught.value.hint and s.charge(ByHand()).epsilon == Fraction(1, 10)


@pytest.mark.parametrize("data", [(), (1, 2, 3)])
@pytest.mark.parametrize("mechanism", [Laplace(epsilon=1), Exponential(epsilon=1)])
def test_data_of_another_number_is_refused_before_the_charge(mechanism: Mechanism, data: tuple[int, ...]) -> None:
    with session() as s:
        with pytest.raises(InvalidParameter, match=f"does not release {len(data)} values"):
            s.release(mechanism, *data)
        assert s.history() == []


def test_people_with_budgets_of_their_own_are_not_charged_for_what_says_nothing_of_them() -> None:
    with session(budget=None, per_person=dp.Budget(1)) as s, pytest.raises(InvalidParameter, match="of their own"):
        s.charge(Laplace(epsilon=1))
