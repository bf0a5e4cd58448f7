"""Several questions, one charge: what is shared is measured once, noise is what one budget over all columns gives."""

from __future__ import annotations

import hashlib
import json
import math
import re
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest
from scipy.stats import norm

import discreet as dp
from discreet.engine.session import Session
from discreet.errors import BudgetExceeded, InternalError, InvalidParameter, PlanError, UnknownColumn
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.cost import allocate
from discreet.plan.needs import counted_now
from discreet.plan.plan import Plan
from discreet.plan.planner import plan_batch
from discreet.plan.rules import common as batch_module
from tests.plan.tables import visits

FRAME = pd.DataFrame(
    {
        "uid": [i // 3 for i in range(300)],
        "ward": ["a", "b", "c"] * 100,
        "cost": [float(i % 7) for i in range(300)],
        "day": [i % 5 for i in range(300)],
    }
)
OTHER = pd.DataFrame({"uid": list(range(50)), "score": [5.0] * 50})
PER_WARD = "SELECT ward, COUNT(*) AS n, SUM(cost) AS s FROM data GROUP BY ward"
QUESTIONS = {
    "counts": PER_WARD,
    "means": "SELECT ward, COUNT(*) AS visits, AVG(cost) AS a FROM data GROUP BY ward HAVING COUNT(*) > 5 "
    "ORDER BY 3 DESC",
    "all": "SELECT COUNT(*) AS n FROM data",
    "dear": "SELECT COUNT(*) AS n FROM data WHERE cost > 3",
    "scores": "SELECT SUM(score) AS s FROM other",
}


def opened(**options: Any) -> Session:
    said: dict[str, Any] = {
        "unit": dp.PrivacyUnit("uid", max_groups=3, max_rows=3),
        "columns": {"cost": dp.Range(0, 7), "score": dp.Range(0, 10), "ward": dp.Values("a", "b", "c")},
        "budget": dp.Budget(10**9, "0.5", per_query=10**9),
        "population": "people",
        "ledger": ":memory:",
    }
    return dp.connect({"data": FRAME, "other": OTHER}, **{**said, **options})


def batch_of(questions: dict[str, str], **asked: Any) -> Plan:
    options: dict[str, Any] = {"population": "customers", "version": None, "epsilon": 1, **asked}
    return plan_batch(questions, [visits()], **options)


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_without_much_noise_each_answer_is_that_of_its_question_alone(noise: str, relation: str) -> None:
    private = {"days": "SELECT day, COUNT(*) AS n FROM data GROUP BY day ORDER BY n, day DESC",
               "which": "SELECT day FROM data GROUP BY day",
               "middles": "SELECT MEDIAN(cost) AS m, COUNT(*) AS n FROM data GROUP BY ward"}  # fmt: skip
    asked: dict[str, Any] = {"delta": "0.01", "noise": noise}
    with opened(relation=relation) as session:
        together = session.batch({**QUESTIONS, **private}, epsilon=10**7, **asked)
        for name, sql in {**QUESTIONS, **private}.items():
            alone = session.sql(sql, epsilon=10**7, **asked)
            assert together[name].columns == alone.columns
            for mine, theirs in zip(together[name].rows, alone.rows, strict=True):
                assert mine == pytest.approx(theirs, abs=0.3), name


def test_a_batch_is_one_charge_and_one_stored_release() -> None:
    with opened() as session:
        releases = session.batch(QUESTIONS, epsilon=2)
        charge, stored = session.history()[-2:]
        assert (charge.kind, stored.kind) == ("charge", "release")
        assert (charge.epsilon, charge.delta) == (Fraction(2), Fraction(0))
        assert charge.note["batch"] == QUESTIONS
        assert charge.note["tables"] == ["data", "other"]
        assert session.spent.epsilon(delta=0) == 2
        for release in releases.values():
            assert release.charged.epsilon == 2
            assert not release.stored
            assert release.cost.epsilon(delta=0) <= 2
            assert "charged ε = 2 for the 5 queries of a batch" in str(release)
            assert release.explain().endswith(
                "This is one of 5 queries that were planned together: the price is that of all of them, paid once."
            )


def test_the_same_batch_again_is_free_however_its_answers_are_made() -> None:
    with opened() as session:
        first = session.batch(QUESTIONS, epsilon=1)
        paid = len(session.history())
        again = session.batch(QUESTIONS, epsilon=1)
        assert [again[n].rows for n in QUESTIONS] == [first[n].rows for n in QUESTIONS]
        assert all(r.stored and r.charged.epsilon == 0 for r in again.values())
        other = {"x": "SELECT 2 * SUM(cost), COUNT(*) FROM data GROUP BY ward", "y": QUESTIONS["all"],
                 "m": "SELECT COUNT(*), AVG(cost) / 2 FROM data d GROUP BY d.ward",
                 "z": "SELECT 2 * COUNT(*) AS twice FROM data d WHERE d.cost > 3",
                 "s": QUESTIONS["scores"]}  # fmt: skip
        same = session.batch(other, epsilon=1)
        assert len(session.history()) == paid
        assert same["z"].rows[0][0] == 2 * first["dear"].rows[0][0]
        drawn = session.batch(QUESTIONS, epsilon=1, fresh=True)
        assert len(session.history()) == paid + 2
        assert [drawn[n].rows for n in QUESTIONS] != [first[n].rows for n in QUESTIONS]
        session.batch(QUESTIONS, epsilon="1.5")
        assert len(session.history()) == paid + 4


def test_questions_that_are_one_measurement_are_that_question() -> None:
    with opened() as session:
        alone = session.sql(PER_WARD, epsilon=1)
        paid = len(session.history())
        parts = {"n": "SELECT ward, COUNT(*) AS n FROM data GROUP BY ward",
                 "s": "SELECT ward, SUM(cost) AS s FROM data GROUP BY ward"}  # fmt: skip
        releases = session.batch(parts, epsilon=1)
        assert len(session.history()) == paid
        assert [r[1] for r in releases["n"].rows] == [r[1] for r in alone.rows]
        assert [r[1] for r in releases["s"].rows] == [r[2] for r in alone.rows]
        one = session.batch({"it": PER_WARD}, epsilon=1)["it"]
        assert one.rows == alone.rows
        assert "it cost ε = 1)" in str(one)
        fresh = session.batch({"it": PER_WARD}, epsilon=2)["it"]
        assert session.sql(PER_WARD, epsilon=2).rows == fresh.rows


def test_what_two_questions_share_is_measured_once_in_one_statement() -> None:
    batch = batch_of(
        {
            "a": "SELECT region, COUNT(*) FROM visits GROUP BY region",
            "b": "SELECT region, COUNT(*), AVG(amount) FROM visits GROUP BY 1",
            "c": "SELECT COUNT(*) FROM visits",
        }
    )
    assert sorted(len(p.question.measures) for p in batch.measurements) == [1, 3]
    assert len({p.sql for p in batch.measurements}) == 2
    # a needs a third for its count, b a ninth for each of three columns, c a third: 8/9 together, and the rest for all.
    # One unit moves each count by 3 · 10, that of the whole table by 10
    scales = sorted(n.scale for n in batch.outputs["a"].query.allocation.noises if isinstance(n, DiscreteLaplaceNoise))
    assert scales == [30 * Fraction(8, 3)]
    assert [getattr(n, "scale", None) for n in batch.outputs["c"].query.allocation.noises] == [10 * Fraction(8, 3)]
    assert batch.charge.guarantee.epsilon == 1
    assert sum((n * (e.pure or Fraction(0)) for e, n in batch.charge.events), Fraction(0)) == 1


def test_gaussian_noise_of_m_columns_is_root_m_times_that_of_one() -> None:
    counts = {f"q{i}": f"SELECT COUNT(day) FROM visits WHERE day < {i}" for i in range(1, 10)}
    nine = batch_of(counts, delta="1e-6", noise="gaussian")
    one = batch_of({"q": "SELECT COUNT(day) FROM visits"}, delta="1e-6", noise="gaussian")
    (alone,) = one.outputs["q"].query.allocation.noises
    assert isinstance(alone, RoundedGaussianNoise)
    mu_squared = 0.0
    for output in nine.outputs.values():
        (noise,) = output.query.allocation.noises
        assert isinstance(noise, RoundedGaussianNoise)
        assert noise.sigma / alone.sigma == pytest.approx(3, rel=1e-6)
        mu_squared += (10 / float(noise.sigma)) ** 2
    mu = math.sqrt(mu_squared)
    delta = norm.cdf(mu / 2 - 1 / mu) - math.e * norm.cdf(-mu / 2 - 1 / mu)
    assert delta == pytest.approx(1e-6, rel=1e-4)
    assert delta <= 1e-6


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(("noise", "delta"), [("laplace", 0), ("laplace", "1e-6"), ("gaussian", "1e-6")])
def test_no_question_has_more_noise_than_alone_with_its_part_of_the_budget(noise: str, delta: Any) -> None:
    questions = {
        "a": "SELECT region, COUNT(*), SUM(amount) FROM visits GROUP BY region",
        "b": "SELECT region, COUNT(*) FROM visits GROUP BY region",
        "c": "SELECT day, AVG(amount) FROM visits WHERE amount > 5 GROUP BY day",
        "d": "SELECT MEDIAN(amount) FROM visits",
    }
    batch = batch_of(questions, epsilon=2, delta=delta, noise=noise)
    for name, sql in questions.items():
        alone = (
            batch_of({name: sql}, epsilon=Fraction(2, 4), delta=Fraction(delta) / 4, noise=noise)
            .outputs[name]
            .query.allocation
        )
        mine = batch.outputs[name].query.allocation
        pairs = [*zip(mine.noises, alone.noises, strict=True), *zip(mine.trees, alone.trees, strict=True)]
        assert pairs
        for own, other in pairs:
            assert isinstance(own, Additive)
            assert isinstance(other, Additive)
            assert own.variance <= other.variance * (1 + 1e-9)


def test_selections_of_groups_share_the_delta_and_each_has_what_it_needs_of_epsilon() -> None:
    """Needs: 1/8 and 1/4 for counts and selection by `seen`, 1/8 twice by month, 1/4 for all: 7/8 together."""
    questions = {
        "seen": "SELECT seen, COUNT(*) FROM visits GROUP BY seen",
        "which": "SELECT seen FROM visits GROUP BY seen",
        "months": "SELECT date_trunc('month', seen), COUNT(*) FROM visits GROUP BY 1",
        "all": "SELECT COUNT(*) FROM visits",
    }
    batch = batch_of(questions, delta="1e-6")
    thresholds = [p.allocation.threshold for p in batch.measurements if p.allocation.threshold]
    assert sorted(t.epsilon for t in thresholds) == [Fraction(1, 7), Fraction(2, 7)]
    assert [t.delta for t in thresholds] == [Fraction(1, 2 * 10**6)] * 2
    assert (batch.charge.guarantee.epsilon, batch.charge.guarantee.delta) == (Fraction(1), Fraction(1, 10**6))
    pure = sum((n * (e.pure or Fraction(0)) for e, n in batch.charge.events), Fraction(0))
    failure = sum((n * e.failure for e, n in batch.charge.events), Fraction(0))
    assert (pure, failure) == (Fraction(1), Fraction(1, 10**6))
    which = batch.outputs["which"].query.allocation
    assert which.threshold == batch.outputs["seen"].query.allocation.threshold


MANY = {
    **{f"q{i}": f"SELECT COUNT(*) FROM visits WHERE day < {i}" for i in range(1, 6)},
    "groups": "SELECT seen, COUNT(*), AVG(amount) FROM visits GROUP BY seen",
    "wide": "SELECT day, region, COUNT(*), SUM(amount), VARIANCE(amount) FROM visits GROUP BY day, region",
    "shared": "SELECT region, COUNT(*) FROM visits GROUP BY region",
    "more": "SELECT region, COUNT(*), MEDIAN(amount) FROM visits GROUP BY region",
    "totals": "SELECT region, day, COUNT(*), SUM(amount) FROM visits GROUP BY CUBE (region, day)",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("noise", "delta"), [("laplace", "1e-6"), ("gaussian", "1e-6")])
@pytest.mark.parametrize("left_out", [(), ("groups",)])
def test_every_question_of_a_mixed_batch_has_at_most_its_noise_alone(
    noise: str, delta: str, left_out: tuple[str, ...]
) -> None:
    """A selection, trees, totals, shared columns; alone with an m-th of ε and δ. `explain` says what that is."""
    questions = {n: q for n, q in MANY.items() if n not in left_out}
    m = len(questions)
    batch = batch_of(questions, epsilon=3, delta=delta, noise=noise)
    for name, sql in questions.items():
        alone = batch_of({name: sql}, epsilon=Fraction(3, m), delta=Fraction(delta) / m, noise=noise)
        mine, theirs = batch.outputs[name].query.allocation, alone.outputs[name].query.allocation
        if mine.threshold is not None:
            assert theirs.threshold is not None
            assert mine.threshold.epsilon >= theirs.threshold.epsilon
            assert mine.threshold.delta >= theirs.threshold.delta
        counted = counted_now(batch.outputs[name].query, alone.outputs[name].query)
        if counted is not None:
            assert counted[0] <= counted[1] * (1 + 1e-3)
        elif bool(mine.levels) == bool(theirs.levels):
            for own, other in zip((*mine.noises, *mine.trees), (*theirs.noises, *theirs.trees), strict=True):
                assert isinstance(own, Additive)
                assert isinstance(other, Additive)
                assert own.variance <= other.variance * (1 + 1e-9)
        said = re.search(
            r"alone at about ε = ([\d.]+); an even part of the batch is ε = ([\d.]+)\.\n", batch.explain(name)
        )
        assert said is not None
        assert float(said[1]) >= float(said[2]) * 0.999


def test_a_question_of_one_column_does_not_pay_for_one_of_five() -> None:
    five = "SELECT region, COUNT(*), SUM(amount), VARIANCE(amount), COUNT(amount) FROM visits GROUP BY region"
    batch = batch_of({"one": "SELECT COUNT(*) FROM visits WHERE day = 1", "five": five})
    (one,) = batch.outputs["one"].query.allocation.noises
    assert one == DiscreteLaplaceNoise(Fraction(10 * 2))
    plan = batch.outputs["five"].query
    assert plan.allocation.noises == tuple(DiscreteLaplaceNoise(Fraction(s.l1 * 2 * 5)) for s in plan.sensitivities)
    assert len(plan.sensitivities) == 5
    assert "alone at about ε = 0.5; an even part of the batch is ε = 0.5." in batch.explain("one")


def test_batches_that_are_divided_as_ever_keep_their_identity_and_others_have_a_new_one() -> None:
    even = batch_of({"a": "SELECT COUNT(*) FROM visits", "b": "SELECT COUNT(*) FROM visits WHERE day = 1"})
    described = ["batch", 1, [p.identity for p in even.measurements]]
    assert even.identity == hashlib.sha256(json.dumps(described).encode()).hexdigest()
    uneven = batch_of({"a": "SELECT COUNT(*) FROM visits", "b": "SELECT AVG(amount) FROM visits WHERE day = 1"})
    described = ["batch", 1, [p.identity for p in uneven.measurements]]
    assert uneven.identity != hashlib.sha256(json.dumps(described).encode()).hexdigest()
    columns = {"a": "SELECT COUNT(*) FROM visits", "b": "SELECT AVG(amount), SUM(amount) FROM visits"}
    assert (
        batch_of(columns).identity
        != batch_of({"both": "SELECT COUNT(*), AVG(amount), SUM(amount) FROM visits"}).identity
    )


def test_totals_that_are_measured_stand_beside_the_same_groups_without_totals() -> None:
    sql = {"plain": "SELECT region, day, COUNT(*) AS n FROM visits GROUP BY region, day",
           "totals": "SELECT region, day, COUNT(*) AS n FROM visits GROUP BY ROLLUP (region, day)"}  # fmt: skip
    for asked in ({}, {"delta": "1e-6", "noise": "gaussian"}):
        batch = batch_of(sql, **asked)
        assert len(batch.measurements) == 2
        assert batch.outputs["totals"].query.allocation.levels
        assert not batch.outputs["plain"].query.allocation.levels


def test_the_names_and_order_of_questions_do_not_make_another_batch() -> None:
    a, b, c = (
        "SELECT COUNT(*) FROM visits",
        "SELECT SUM(amount) FROM visits WHERE day = 1",
        "SELECT 2 * COUNT(*) FROM visits",
    )
    first = batch_of({"x": a, "y": b}).identity
    assert batch_of({"p": b, "q": c}).identity == first
    assert batch_of({"x": a, "y": b}, epsilon=2).identity != first
    assert batch_of({"x": a, "y": b}, version="2").identity != first
    assert batch_of({"x": a}).identity != first
    assert len({o.query.identity for o in batch_of({"x": a, "y": b, "z": c}).outputs.values()}) == 2  # x and z are one


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("questions", "kind", "words"),
    [
        ({"good": QUESTIONS["all"], "bad": "SELECT foo FROM data"}, UnknownColumn,
         "in query 'bad': There is no column 'foo' in data."),
        ({"good": QUESTIONS["all"], "bad": "SELECT day, COUNT(*) FROM data GROUP BY day"}, PlanError,
         "in query 'bad': The groups of this query are not declared. Showing undeclared groups needs δ > 0."),
        ({"good": QUESTIONS["all"], "bad": 5}, InvalidParameter,
         "in query 'bad': the query must be text, not int."),
        ({}, InvalidParameter, "a batch is a dict from a name to a query, not {}."),
        ([QUESTIONS["all"]], InvalidParameter,
         "a batch is a dict from a name to a query, not ['SELECT COUNT(*) AS n FROM data']."),
        ({1: QUESTIONS["all"]}, InvalidParameter, "the name of a query must be text, not 1."),
    ],
    ids=str,
)  # fmt: skip
def test_a_batch_is_refused_as_a_whole_and_says_which_question(
    questions: Any, kind: type[Exception], words: str
) -> None:
    with opened() as session:
        before = len(session.history())
        with pytest.raises(kind) as caught:
            session.batch(questions, epsilon=1)
        assert caught.value.message == words  # type: ignore[attr-defined]
        assert len(session.history()) == before


def test_a_batch_that_the_account_cannot_pay_reads_nothing() -> None:
    with opened(budget=dp.Budget(3, per_query=2)) as session:
        with pytest.raises(InvalidParameter, match="one query may ask ε = 2 at most, and this one asks ε = 3"):
            session.batch(QUESTIONS, epsilon=3)
        session.batch(QUESTIONS, epsilon=2)
        with pytest.raises(BudgetExceeded):
            session.batch(QUESTIONS, epsilon=2, fresh=True)
        assert [e.kind for e in session.history()].count("charge") == 1
        with pytest.raises(InvalidParameter, match="A query needs epsilon="):
            session.batch(QUESTIONS)


def test_too_little_noise_in_a_batch_is_found_before_the_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: an allocation that forgets one question of three."""

    def forgetful(sensitivities: Any, *, epsilon: Fraction, **asked: Any) -> Any:
        return allocate(sensitivities, epsilon=epsilon * Fraction(3, 2), **asked)

    questions = {f"q{i}": f"SELECT COUNT(*) FROM data WHERE cost < {i}" for i in range(3)}
    monkeypatch.setattr(batch_module, "allocate", forgetful)
    gaussian: dict[str, Any] = {"delta": "1e-6", "noise": "gaussian"}
    for asked in ({}, gaussian):
        with opened() as session:
            before = len(session.history())
            with pytest.raises(InternalError):
                session.batch(questions, epsilon=1, **asked)
            assert len(session.history()) == before


def test_a_batch_survives_in_the_ledger(tmp_path: Any) -> None:
    place = tmp_path / "people.ledger"
    with opened(ledger=place) as session:
        first = session.batch(QUESTIONS, epsilon=1)
    with opened(ledger=place) as session:
        again = session.batch(QUESTIONS, epsilon=1)
        assert all(r.stored for r in again.values())
        assert [again[n].rows for n in QUESTIONS] == [first[n].rows for n in QUESTIONS]
