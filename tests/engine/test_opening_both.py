"""Two accounts of one table: opened and pinned both or neither, and charged so that the ledger shows it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import discreet as dp
from discreet.engine.payers import note_of
from discreet.errors import InvalidParameter
from discreet.ledger.account import Account
from discreet.ledger.export import verify_export
from discreet.ledger.joint_charge import charge_together
from discreet.ledger.ledger import Ledger
from tests.engine.test_two_populations import BUDGET, COUNT, UNITS, both, left, visits
from tests.written import written


def test_a_refusal_to_leave_one_out_does_not_lead_to_where_nobody_knows_of_it(tmp_path: Path) -> None:
    place = tmp_path / "l"
    written(both(place=place)).close()
    unit = dp.PrivacyUnit("patient", max_groups=1, max_rows=2)
    with pytest.raises(InvalidParameter, match="fixed with") as refused:
        dp.connect({"visits": visits()}, unit=unit, population="patients", ledger=place)
    assert "connect_both" in str(refused.value.hint)
    assert "population=" not in str(refused.value.hint)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"filter": {"doctors": "zcdp"}}, "zcdp"),
        ({"filter": {"doctors": "nope"}}, "not known"),
        ({"analyst": {"doctors": "ann"}}, "no analyst of 'doctors'"),
        ({"budget": {"patients": dp.Budget(3), "doctors": dp.Budget(0)}}, "above 0"),
        (
            {
                "units": {"patients": UNITS["patients"], "Patients": UNITS["doctors"]},
                "budget": {"patients": dp.Budget(3), "Patients": dp.Budget(1)},
            },
            "looks like",
        ),
        (
            {
                "units": {"patients": UNITS["patients"], "doctors ": UNITS["doctors"]},
                "budget": {"patients": dp.Budget(3), "doctors ": dp.Budget(1)},
            },
            "without spaces",
        ),
    ],
)
def test_what_is_refused_opens_neither_account(tmp_path: Path, wrong: dict[str, Any], match: str) -> None:
    place = tmp_path / "l"
    with pytest.raises(InvalidParameter, match=match):
        both(place=place, relation={"patients": "replace"}, **wrong)
    with Ledger.open(place) as book:
        assert book.populations() == []
    with both(place=place, budget=dict.fromkeys(UNITS, dp.Budget(5))) as session:
        assert {a.budget for a in session.accounts.values()} == {dp.Budget(5)}


def test_terms_that_differ_from_those_of_an_open_account_open_no_other(tmp_path: Path) -> None:
    place = tmp_path / "l"
    with Ledger.open(place) as book:
        book.open_account("doctors", dp.Budget(2))
        for wrong in ({"budget": BUDGET | {"doctors": dp.Budget(1)}}, {"relation": {"doctors": "replace"}}):
            with pytest.raises(InvalidParameter, match="'doctors' has"):
                both(place=place, **wrong)
            assert book.populations() == ["doctors"]
    both(place=place).close()


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5, 8, None])
def test_the_first_charge_opens_pins_and_charges_both_or_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int | None
) -> None:
    """Interrupted before any of the pins, of two accounts and two tables; the second time to the very end."""
    place, calls = tmp_path / "l", []
    real = Account.pinning

    def failing(self: Account, table: str, schema: dict[str, Any]) -> Any:
        calls.append(table)
        if len(calls) == at:
            raise KeyboardInterrupt
        return real(self, table, schema)

    with both({"visits": visits(), "stays": visits()}, place=place) as session:
        plan, desk = session.plan(COUNT, epsilon=0.2), session._desk
        assert not place.exists()
        with monkeypatch.context() as broken:
            broken.setattr(Account, "pinning", failing)
            with pytest.raises(KeyboardInterrupt) if at else nullcontext():
                desk.payers.charge(plan, note_of(plan, None))
        if at:
            assert not place.exists()
            assert left(session) == BUDGET
            desk.payers.charge(plan, note_of(plan, None))
    with Ledger.open(place) as book:
        accounts = [a for name in UNITS if (a := book.account(name)) is not None]
        assert [len(a.pins()) for a in accounts] == [2, 2]
        assert [len(a.history()) for a in accounts] == [4, 4]
        assert book.verify().ok


def test_a_charge_or_a_release_of_one_alone_is_found_in_the_ledger(tmp_path: Path) -> None:
    place = tmp_path / "l"
    with both({"Visits": visits()}, place=place) as session, Ledger.open(place) as book:
        session.sql(COUNT, epsilon=0.2)
        session.sql(COUNT, epsilon=0.2, fresh=True)
        plan = session.plan(COUNT, epsilon=0.3)
        accounts = {p: a for p in UNITS if (a := book.account(p)) is not None}
        paying = [(a, plan.charges[p]) for p, a in accounts.items()]
        first, second = charge_together(paying, plan.identity, note={"table": "Visits"})
        assert book.verify().ok
        accounts["patients"].store(plan.identity, first.seq, {"n": "1"})
        assert "does not have as well" in str(book.verify().problems)
        accounts["doctors"].store(plan.identity, second.seq, {"n": "2"})
        assert "does not have as well" in str(book.verify().problems)
    for note in ({"table": "Visits"}, {"tables": ["Visits"]}):
        place = tmp_path / str(len(str(note)))
        with written(both({"Visits": visits()}, place=place)), Ledger.open(place) as book:
            account = book.account("patients")
            assert account is not None
            account.charge("q", plan.charges["patients"], note={"table": "people"})
            assert book.verify().ok
            account.charge("q", plan.charges["patients"], note=note)
            problems = book.verify().problems
            assert "a charge for table 'Visits' that 'doctors' did not pay for as well" in str(problems)
            assert verify_export(list(book.export())).problems == problems
