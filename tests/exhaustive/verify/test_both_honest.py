"""Certificates of what two populations paid for: honest ones are accepted, and older releases have none."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

import discreet as dp
from discreet.engine import cells as run
from discreet.engine.release import Release
from discreet.errors import InvalidParameter
from discreet.ledger.joint_charge import charge_together, store_together
from discreet.ledger.ledger import Ledger
from discreet.post.noisy_table import NoisyTable
from discreet.verify.certificate.checker import STEPS, check, words
from discreet.verify.certificate.seal import of_claim
from tests.verify.asked import plain, visits
from tests.verify.asked_both import ASKED, KINDS, asked, both, exported, honest
from tests.verify.forging import rewrite, sealed


@pytest.mark.thinned(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ASKED)
def test_what_was_released_is_accepted(name: str, kind: str) -> None:
    first, again, cheap, ledger = honest(name, kind)
    for document in (first, again, cheap):
        verdict = check(document, ledger, head=first["ledger"]["head"]["hash"])
        assert (verdict.broken, verdict.reason) == (None, "")
        assert list(verdict.held) == list(STEPS)
        assert document["question"]["sql"] == ASKED[name][0]
        assert document["populations"] == ["patients", "doctors"]
        assert document["answer"]["columns"]
    assert check(first).ok
    assert first["claim"] == again["claim"]
    assert first["ledger"] != again["ledger"]
    assert check(sealed(copy.deepcopy(first)), ledger).ok  # what forgeries are made of changes nothing itself


def test_a_verdict_names_what_each_population_paid_and_by_which_entry() -> None:
    document, *_ = honest("groups", "one replaced")
    verdict = check(document)
    assert verdict.certificate is not None
    one, other = verdict.certificate.prices
    assert (one.population, other.population) == ("patients", "doctors")
    assert (one.relation.value, other.relation.value) == ("add-remove", "replace")
    assert other.cost.epsilon == 1 > one.cost.epsilon
    assert one.entry + 1 == other.entry
    assert len({own["unit"]["population"] for own in document["registry"]}) == 2
    assert [own["parameters"]["epsilon"] for own in document["registry"]][1] == "1/1"
    assert words(verdict)[8] == f"holds   charge: {STEPS['charge']}"


def test_a_stored_answer_carries_the_same_proof_in_any_later_session(tmp_path: Path) -> None:
    place = tmp_path / "l"
    with both(ledger=place) as session:
        first = asked(session, "groups")
    with both(ledger=place, budget=None) as session:
        release = session.sql(ASKED["groups"][0], epsilon=1)
        assert release.stored
        assert release.certificate() == first
        assert release.nonnegative().certificate() == first
        other = session.sql(ASKED["groups"][0].replace("COUNT(*) AS n", "-COUNT(*) AS m"), epsilon=1)
        assert other.stored
        shown = other.certificate()
        assert (shown["answer"], shown["question"]) == (None, first["question"])
        assert check(shown, exported(session)).ok
        session.sql(ASKED["a count"][0], epsilon=1)
        later = release.certificate()["ledger"]
        assert later["accounts"] == first["ledger"]["accounts"]
        assert later["head"]["seq"] > first["ledger"]["head"]["seq"]
    with Ledger.open(place) as book:
        assert book.verify().ok


def test_an_answer_of_a_ledger_from_before_has_no_certificate_and_its_ledger_is_valid(tmp_path: Path) -> None:
    with both(ledger=tmp_path / "l") as session:
        sql = ASKED["a count"][0]
        plan = session.plan(sql, epsilon=1)
        accounts = list(session.accounts.values())
        note: dict[str, Any] = {"sql": sql, "table": "visits", "version": "2026-01"}
        pairs = [(a, plan.charges[a.population]) for a in accounts]
        entries = charge_together(pairs, plan.identity, note=note)
        store_together(accounts, entries, plan.identity, NoisyTable(((),), ((7,),)).to_json())
        release = session.sql(sql, epsilon=1)
        assert (release.rows, release.stored) == ([(7,)], True)
        with pytest.raises(InvalidParameter, match="measured by another version of discreet"):
            release.certificate()
        assert session._ledger.verify().ok
        document = asked(session, "a count", fresh=True)
        assert check(document, exported(session)).ok


def test_a_release_without_a_ledger_has_no_certificate() -> None:
    with both() as session:
        release = session.sql(ASKED["a count"][0], epsilon=1)
        alone = Release(release.plan, release.table, stored=False)
        with pytest.raises(InvalidParameter, match="only a release of a session has a certificate"):
            alone.certificate()


def test_both_charges_commit_to_the_claim_before_the_data_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise ValueError

    monkeypatch.setattr(run, "largest_flows", failing)
    with both() as session:
        plan = session.plan(ASKED["groups"][0], epsilon=1)
        with pytest.raises(dp.errors.DiscreetError):
            session.sql(ASKED["groups"][0], epsilon=1)
        notes = [e.note for a in session.accounts.values() for e in a.history() if e.note]
        assert [note["claim"] for note in notes] == [of_claim(plan.claim)] * 2
        assert notes[0] == notes[1]


def test_a_claim_for_one_population_on_a_table_of_two_is_no_certificate() -> None:
    with visits() as session:
        document = session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1).certificate()
    rewrite(document, "schemas", lambda said: said["schema"].update(others=[["doctors", "day"]]))
    verdict = check(document)
    assert (verdict.broken, verdict.reason) == ("tables", "whose the rows of a table are was fixed in another way")


def test_a_charge_that_others_paid_as_well_is_no_charge_of_one_population() -> None:
    with visits() as session:
        document = session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1).certificate()
    rewrite(document, "charge", lambda said: said["note"].update(together=["patients", "doctors"]))
    assert check(document).broken == "charge"


def test_a_population_may_be_named_in_any_spelling_of_its_letters() -> None:
    spelled, named = "me\u0301decins", "m\u00e9decins"
    units = {"patients": dp.PrivacyUnit("patient", max_rows=2), spelled: dp.PrivacyUnit("doctor", max_rows=9)}
    with both(units=units, budget={"patients": dp.Budget(3), spelled: dp.Budget(3)}) as session:
        release = session.sql(ASKED["a count"][0], epsilon={"patients": 1, spelled: 2})
        assert list(session.accounts) == ["patients", named]
        document = plain(release.certificate())
        assert document["populations"] == ["patients", named]
        assert check(document, exported(session)).ok
