"""Mechanisms used by hand: charged to the account first, with a note that their sensitivity was declared."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner

import discreet as dp
from discreet.cli import main
from discreet.engine.session import Session
from discreet.errors import BudgetExceeded, InvalidParameter
from discreet.ledger.chain import canonical, link
from discreet.ledger.entry import Charged
from discreet.mechanisms import AboveThreshold, Exponential, Gaussian, Laplace, Mechanism, Median
from discreet.privacy.event import Composed
from discreet.verify.certificate.checker import check, words

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


def test_a_charge_of_a_mechanism_has_a_certificate_that_says_whose_word_its_sensitivity_is(tmp_path: Path) -> None:
    with session(ledger=tmp_path / "p.ledger") as s:
        s.sql("SELECT COUNT(*) AS n FROM t", epsilon=1)
        s.release(Laplace(epsilon=Fraction(1, 2)), 42)
        charges = [e for e in s.history() if isinstance(e.content, Charged)]
        document = json.loads(json.dumps(s.certificate(charges[-1].seq)))
        with pytest.raises(InvalidParameter, match="no charge of a mechanism") as caught:
            s.certificate(charges[0].seq)
        assert "release.certificate()" in (caught.value.hint or "")
    with dp.Ledger.open(tmp_path / "p.ledger") as ledger:
        lines = list(ledger.export())
    verdict = check(document, lines)
    assert verdict.ok and verdict.held[-1] == "ledger"
    assert "ε = 0.5" in verdict.declared and verdict.declared.endswith("declared by the caller, not derived.")
    assert any("not checked" in line for line in words(verdict))
    file = tmp_path / "c.json"
    file.write_text(json.dumps(document), encoding="utf-8")
    told = CliRunner().invoke(main, ["verify", str(file), "--ledger", str(tmp_path / "p.ledger")])
    assert told.exit_code == 0 and "declared by the caller, not derived" in told.stdout

    def forged(**changes: Any) -> str | None:
        return check({**document, **changes}, lines).broken

    other = json.loads(document["charge"]["body"])
    other["epsilon"] = "1/4"
    body = canonical(other)
    cheaper = {**document["charge"], "body": body}
    assert forged(charge=cheaper) == "charge"
    assert forged(charge={**cheaper, "hash": link(cheaper["previous"], body)}) == "guarantee"
    assert forged(charge=document["account"]) == "charge"
    assert forged(sensitivity="derived") == "sensitivity"
    assert forged(more=1) == "format"
    assert forged(head={"seq": document["head"]["seq"], "hash": "0" * 64}) == "ledger"


def test_a_ledger_of_a_path_is_refused_with_the_call_that_opens_it(tmp_path: Path) -> None:
    path: Any = tmp_path / "p.ledger"
    given: Any
    for given in (path, str(path)):
        with pytest.raises(InvalidParameter, match=r"dp\.Ledger\.open"):
            dp.Ledger(given)
    assert not path.exists()
