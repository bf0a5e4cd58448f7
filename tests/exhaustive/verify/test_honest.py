"""Certificates of what was honestly released are accepted, over the whole language."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import discreet as dp
from discreet.engine.release import Release
from discreet.errors import InvalidParameter
from discreet.ledger.ledger import Ledger
from discreet.post.noisy_table import NoisyTable
from discreet.verify.certificate.checker import STEPS, check
from tests.verify.asked import BATCHES, SEVERAL, SINGLE, ask, exported, plain, session, visits
from tests.verify.forging import accounts

ALL = list(STEPS)
ROWS = [name for name in SINGLE if SINGLE[name][1].get("bounds") != "auto" and name not in (
    "a report", "nested", "windows", "both chosen")]  # fmt: skip
SELDOM = [name for i, name in enumerate(SINGLE) if i % 3]  # under the other relation, in the long run only
ASKED = [
    *((name, "add-remove", False) for name in SINGLE),
    *(pytest.param(name, "replace", False, marks=[pytest.mark.slow] if name in SELDOM else []) for name in SINGLE),
    *((name, "each row", False) for name in ROWS),
    *((name, kind, True) for kind in ("add-remove", "replace") for name in SEVERAL),
]


@pytest.mark.sampled(10)
@pytest.mark.thinned(6)
@pytest.mark.parametrize(("name", "kind", "several"), ASKED, ids=lambda v: str(v))
def test_what_was_released_is_accepted(name: str, kind: str, several: bool) -> None:
    where = session(kind, several)
    sql, options = (SEVERAL if several else SINGLE)[name]
    document = plain(ask(where, sql, options).certificate())
    compared = kind == "add-remove"
    verdict = check(document, exported(where) if compared else None)
    assert (verdict.broken, verdict.reason) == (None, "")
    assert list(verdict.held) == (ALL if compared else ALL[:-1])
    assert document["question"]["sql"] == sql
    assert "$secret" not in sql
    again = plain(ask(where, sql, options).certificate())
    for own in (document, again):
        del own["ledger"]["head"]
    assert again == document  # the stored answer carries the same proof


@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("kind", ["add-remove", "replace"])
def test_every_question_of_a_batch_has_its_certificate(name: str, kind: str) -> None:
    questions, options = BATCHES[name]
    where = session(kind, False)
    for _ in range(2):  # fresh, and from the ledger
        releases: dict[str, Any] = where.batch(questions, **{"epsilon": 2, **options})
        for own, release in releases.items():
            document = plain(release.certificate())
            verdict = check(document, exported(where))
            assert (verdict.broken, verdict.reason) == (None, "")
            assert document["question"]["name"] == own
            assert document["answer"]["columns"] == release.columns


def test_the_same_numbers_shown_in_another_way_are_certified_without_rows() -> None:
    where = session("add-remove", False)
    first = ask(where, "SELECT COUNT(*) AS n FROM visits WHERE day > 1", {})
    second = ask(where, "SELECT -COUNT(*) AS m FROM visits WHERE day > 1", {})
    assert second.stored
    document = plain(second.certificate())
    assert document["answer"] is None
    assert document["question"] == plain(first.certificate())["question"]
    assert check(document, exported(where)).ok


def test_the_accounts_secret_is_in_no_certificate() -> None:
    where = session("add-remove", False)
    text = str(ask(where, *SINGLE["two keys"]).certificate())
    secret = where._account.secret
    assert "$secret" in text
    for own in (secret.hex(), str(int.from_bytes(secret[:8], "big")), repr(secret)):
        assert own not in text


@pytest.mark.parametrize("analysts", ["together", "apart"])
def test_an_analyst_who_is_kept_apart_has_no_certificate(tmp_path: Path, analysts: str) -> None:
    with Ledger.open(tmp_path / "visits.ledger") as ledger:
        account = ledger.open_account("patients", dp.Budget(10_000, "0.5"), analysts=analysts)
        account.cap_analyst("ana", dp.Budget(10), by="the owner", reason="a study")
    with visits(tmp_path / "visits.ledger", analyst="ana") as session:
        release = ask(session, *SINGLE["groups"])
        if analysts == "together":
            assert check(plain(release.certificate()), exported(session)).ok
            return
        with pytest.raises(InvalidParameter, match="tells what all analysts spent"):
            release.certificate()


def test_a_release_without_a_ledger_has_no_certificate() -> None:
    release = ask(session("add-remove", False), *SINGLE["a count"])
    alone = Release(release.plan, release.table, stored=False)
    with pytest.raises(InvalidParameter, match="only a release of a session has a certificate"):
        alone.certificate()


def test_an_answer_that_the_ledger_keeps_without_digests_has_no_certificate(tmp_path: Path) -> None:
    with visits(tmp_path / "visits.ledger") as session:
        plan = session.plan(SINGLE["a count"][0], epsilon=1)
        entry = session._account.charge(plan.identity, plan.charge, note={})
        session._account.store(plan.identity, entry.seq, NoisyTable(((),), ((7,),)).to_json())
        release = ask(session, *SINGLE["a count"])
        assert release.rows == [(7,)]
        with pytest.raises(InvalidParameter, match="measured by another version of discreet"):
            release.certificate()


def test_of_two_answers_to_one_question_each_has_its_own_certificate() -> None:
    where = session("add-remove", False)
    sql, options = SINGLE["means"]
    first = ask(where, sql, options)
    second = ask(where, sql, {**options, "fresh": True})
    one, two = plain(first.certificate()), plain(second.certificate())
    assert accounts(one)[0]["charge"]["seq"] < accounts(two)[0]["charge"]["seq"]
    assert one["answer"] != two["answer"]
    assert check(one, exported(where)).ok
    assert check(two, exported(where)).ok
    assert check({**one, "answer": two["answer"]}).broken == "release"
    assert check({**one, "ledger": two["ledger"]}).broken == "release"
