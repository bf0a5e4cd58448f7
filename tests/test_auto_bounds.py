"""`bounds="auto"`: what the census moves by, what is charged, what is stored, and how much better the caps are."""

from __future__ import annotations

import hashlib
import itertools
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from benchmarks.chosen_ranges import settled, stages_of
from discreet.backends.connection import open_database
from discreet.errors import BudgetExceeded, InternalError, InvalidParameter, MissingBounds, UnsupportedQuery
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.auto_bounds.caps import EDGES, Caps, choose, place_sql
from discreet.plan.auto_bounds.queries import Choice
from discreet.plan.plan import Plan
from discreet.plan.query import source_of
from discreet.post.truncation import reported
from discreet.verify.census import check_price, derive_census

BY_REGION = "SELECT region, COUNT(*) AS n FROM t GROUP BY region"


def connect(frame: pd.DataFrame, **options: Any) -> dp.Session:
    asked: dict[str, Any] = {"unit": "uid", "bounds": "auto", "budget": dp.Budget(epsilon=100, delta="0.01")}
    return dp.connect(
        {"t": frame},
        columns={"region": dp.Values("a", "b", "c"), "x": dp.Range(0, 10)},
        population="p",
        ledger=":memory:",
        **{**asked, **options},
    )


def heavy() -> pd.DataFrame:
    """3,000 people, most with a few rows, some with hundreds: half of all rows are theirs."""
    rng = np.random.default_rng(20_261_121)
    rows = np.maximum(1, rng.lognormal(0.8, 1.2, 3000)).astype(int)
    uid = np.repeat(np.arange(3000), rows)
    return pd.DataFrame(
        {"uid": uid, "region": rng.choice(["a", "b", "c"], len(uid)), "x": rng.uniform(0, 10, len(uid))}
    )


def counted(session: dp.Session, plan: Plan) -> dict[tuple[int, ...], int]:
    look = stages_of(plan).of_caps
    assert look is not None
    return {tuple(map(int, row[:-1])): int(row[-1]) for row in session._desk.backend.rows(look.sql, {})}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("relation", "most"), [("add-remove", 1), ("replace", 2)])
def test_one_unit_moves_one_place_of_the_census(relation: str, most: int) -> None:
    rows = [("a", 1.0), ("b", 2.0), ("c", None), (None, 3.0)]
    owned = [
        [r for r, n in zip(rows, c, strict=True) for _ in range(n)] for c in itertools.product((0, 1, 3), repeat=4)
    ]
    others = [(7, "a", 1.0), (7, "a", 1.0), (8, "b", 2.0)]
    found = []
    for mine in owned[::5]:
        table = pd.DataFrame([*others, *((1, *r) for r in mine)], columns=["uid", "region", "x"])
        with connect(table, relation=relation) as session:
            found.append(counted(session, session.plan(BY_REGION, epsilon=1, bounds="auto")))
    without = found[0]
    moves = []
    for a, b in itertools.product(found, found if relation == "replace" else [without]):
        moves.append(sum(abs(a.get(k, 0) - b.get(k, 0)) for k in {*a, *b}))
    assert max(moves) == most


def test_both_stages_are_charged_before_the_first() -> None:
    with connect(heavy()) as session:
        plan = session.plan(BY_REGION, epsilon=1, bounds="auto")
        assert plan.cost.epsilon(delta=0) == 1
        release = session.sql(BY_REGION, epsilon=1)
        assert release.cost.epsilon(delta=0) == 1
        assert session.remaining.epsilon == 99
        assert release.charged.epsilon == 1
        assert "charged ε = 1" in str(release)


def test_the_same_question_is_answered_again_free_with_the_same_caps() -> None:
    with connect(heavy()) as session:
        first = session.sql(BY_REGION, epsilon=1)
        again = session.sql(BY_REGION, epsilon=1)
        assert again.stored
        assert again.rows == first.rows
        assert again.interval("n") == first.interval("n")
        assert session.remaining.epsilon == 99
        assert not session.sql(BY_REGION, epsilon=1, fresh=True).stored


def test_a_poor_account_pays_for_neither_stage() -> None:
    with connect(heavy(), budget=dp.Budget(epsilon="0.5")) as session, pytest.raises(BudgetExceeded):
        session.sql(BY_REGION, epsilon=1)


@pytest.mark.exhaustive
def test_chosen_caps_have_a_third_of_the_error_of_small_fixed_ones() -> None:
    frame = heavy()
    truth = frame.groupby("region").size()

    def error(session: dp.Session) -> float:
        found = [session.sql(BY_REGION, epsilon=1, fresh=True) for _ in range(5)]
        return float(np.median([sum(abs(truth[k] - n) for k, n in r.rows) for r in found]))

    with connect(frame) as auto, connect(frame, unit=dp.PrivacyUnit("uid", 1, 3), bounds=None) as fixed:
        assert error(auto) < error(fixed) / 3


def test_the_explanation_says_what_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.plan.auto_bounds.caps._SURE", 1e-9)  # one look in a thousand chooses other caps
    with connect(heavy()) as session:
        text = session.sql(BY_REGION, epsilon=1).explain()
        assert "First stage (ε = 0.1): a census of units" in text
        assert "was chosen max_contributions = " in text
        assert "Second stage (ε = 0.9)" in session.plan(BY_REGION, epsilon=1, bounds="auto").explain()


@pytest.mark.exhaustive
def test_private_groups_and_other_aggregates_work_with_chosen_caps() -> None:
    with connect(heavy()) as session:
        sql = "SELECT floor(x) AS k, COUNT(*) AS n, AVG(x) AS m, MEDIAN(x) AS md FROM t GROUP BY k"
        release = session.sql(sql, epsilon=10, delta="1e-6")
        assert release.charged.delta == Fraction(1, 10**6)
        assert len(release.rows) >= 8


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("change", "broken"),
    [
        ("GROUP BY u\n", "GROUP BY u, g0\n"),
        ("count(*) AS VARCHAR", "sum(p0) AS VARCHAR"),
        ("greatest(groups, 1)", "greatest(random(), 1)"),
        ("greatest(groups, 1)", "greatest(CAST(groups AS BIGINT), 1)"),
        ("greatest(groups, 1)", "greatest(count(*) OVER (), 1)"),
        ("GROUP BY p0, p1, p2", "GROUP BY p0, p1"),
        ("GROUP BY p0, p1, p2", "GROUP BY GROUPING SETS ((p0, p1, p2), ())"),
        ("p0, p1, p2, CAST", "p1, p0, p2, CAST"),
        ('FROM "unit totals"', 'FROM "unit groups"'),
        ('FROM "unit places"', 'FROM "unit places" WHERE p0 > 1'),
    ],
)
def test_a_census_of_another_shape_is_refused(change: str, broken: str) -> None:
    with connect(heavy()) as session:
        staged = session.plan(BY_REGION, epsilon=1, bounds="auto")
        source, (text,) = source_of(stages_of(staged).last.question), staged.statements
        assert derive_census(text, source) == 3
        assert change in text
        with pytest.raises(InternalError):
            derive_census(text.replace(change, broken, 1), source)


def test_bins_of_rows_begin_at_powers_of_two() -> None:
    """The logarithm that places units is compared with the edges themselves."""
    rows = [*range(1, 70), *(e + d for e in EDGES[6:] for d in (-1, 0, 1)), 10**9]
    listed = ", ".join(f"({n})" for n in rows)
    place, _, _ = place_sql("n", "n", "n")
    found = open_database().execute(f"SELECT n, {place} FROM (VALUES {listed}) t(n)").fetchall()
    assert all(p == sum(n >= e for e in EDGES) - 1 for n, p in found)


@pytest.mark.parametrize("within", ["SUM_WITHIN(x, 0, 30)", "COUNT_WITHIN(*, 0, 5)"])
def test_what_a_question_bounds_itself_is_not_chosen(within: str) -> None:
    refused = pytest.raises(
        UnsupportedQuery, match="SUM_WITHIN and COUNT_WITHIN say themselves how much a unit adds to a group, and bounds"
    )
    with connect(heavy()) as session, refused:
        session.plan(f"SELECT {within} AS n FROM t", epsilon=1)


def test_questions_that_could_be_asked_before_keep_their_identity() -> None:
    """Stored answers are found by it."""
    with connect(heavy()) as session:
        staged = session.plan(BY_REGION, epsilon=1, bounds="auto")
    with connect(heavy(), unit=dp.PrivacyUnit("uid", 1, 1), bounds=None) as session:
        least = session.plan(BY_REGION, epsilon="0.9")
    named = f"bounds chosen by a census: {least.identity}"
    assert staged.identity == hashlib.sha256(named.encode()).hexdigest()


def test_the_first_stage_has_noise_enough_or_is_refused() -> None:
    check_price(Fraction(1, 10), Fraction(1, 10), replace=False)
    check_price(Fraction(4, 80), Fraction(1, 10), replace=True)
    for counts, replaced in ((1, True), (2, False)):
        with pytest.raises(InternalError, match="what the first stage costs"):
            check_price(Fraction(counts, 10), Fraction(1, 10), replace=replaced)


def test_without_caps_the_question_says_what_to_do() -> None:
    with pytest.raises(MissingBounds, match="how many groups one 'uid' may enter"):
        connect(heavy(), bounds=None)
    with pytest.raises(InvalidParameter, match="bounds must be 'auto', 'values' or 'ranges', or left out, not 'wide'"):
        connect(heavy(), unit=dp.PrivacyUnit("uid", 1, 3), bounds="wide")
    refused = pytest.raises(InvalidParameter, match="the error follows from caps that bounds='auto' chooses")
    with connect(heavy()) as session, refused:
        session.plan(BY_REGION, error={"n": 50}, bounds="auto")


def test_a_batch_has_declared_caps() -> None:
    with connect(heavy()) as session, pytest.raises(InvalidParameter, match="a batch is planned for declared caps"):
        session.batch({"a": BY_REGION}, epsilon=1)


def test_rows_that_are_people_have_no_caps_to_choose() -> None:
    refused = pytest.raises(UnsupportedQuery, match="Each row is a unit of its own, so there are no caps to choose")
    with connect(heavy(), unit=dp.PrivacyUnit.row()) as session, refused:
        session.sql(BY_REGION, epsilon=1)


def test_an_empty_census_chooses_the_least_caps() -> None:
    noise = DiscreteLaplaceNoise(Fraction(10))
    assert choose({}, noise, groups=3, columns=1, epsilon=Fraction(1)) == Caps(1, 1)


def test_people_with_one_row_each_need_one_row() -> None:
    noise = DiscreteLaplaceNoise(Fraction(1))
    assert choose({(0, 0, 0): 10**6}, noise, groups=50, columns=1, epsilon=Fraction(1)) == Caps(1, 1)


def test_many_even_people_get_the_caps_that_they_fill() -> None:
    """A million people with 4 groups of 16 rows: rows cost far more than the noise of 64 in all."""
    noise = DiscreteLaplaceNoise(Fraction(1))
    place = (EDGES.index(4), EDGES.index(64), 0)
    caps = choose({place: 10**6}, noise, groups=20, columns=1, epsilon=Fraction(1))
    assert caps.total is not None
    assert 64 <= caps.total <= 128


@pytest.mark.parametrize("bounds", ["auto", "values"])
def test_the_plan_says_how_exact_truncation_reports_are_whatever_is_chosen(bounds: str) -> None:
    options: dict[str, Any] = {"bounds": None} if bounds == "values" else {}
    unit = dp.PrivacyUnit("uid", max_groups=2, max_rows=5) if bounds == "values" else "uid"
    session = connect(heavy().assign(y=1.0, z=2), unit=unit, **options)
    query = "SELECT region, COUNT(*) AS n, AVG(y) AS y, SUM(x) AS x, MEDIAN(z) AS z FROM t GROUP BY region"
    staged = session.plan(query, epsilon=1, truncation="0.2", bounds=bounds)
    stages = stages_of(staged)
    assert stages.of_values is not None
    said = dict(re.findall(r"truncation of (.*?): ± ([\d,]+) units at 95 % or less", str(staged)))
    assert list(said) == ["the caps", "the key 'region'", "'y'", "'x'", "'z'"]
    ranges = [(dp.Range(-4, 0), dp.Range(0, 1)), (dp.Range(-1024, 1024), dp.Range(-4, 0))]
    caps = [None] if stages.of_caps is None else [Caps(1, 1), Caps(3, 4)]
    found: dict[str, set[int]] = {}
    for of_caps, chosen in itertools.product(caps, ranges):
        choice = Choice(of_caps, chosen, tuple((0, 100) for _ in chosen))
        second = settled(staged, choice).query
        for report in reported(second, [0] * sum(r.places for r in second.reports)):
            found.setdefault(report.report.name, set()).update(map(report.margin, report.report.parts))
    assert {name: f"{max(off):,}" for name, off in found.items()} == said


def test_a_plan_in_two_stages_without_reports_says_nothing_of_them() -> None:
    assert "truncation of" not in str(connect(heavy()).plan(BY_REGION, epsilon=1))
