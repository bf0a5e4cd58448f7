"""The share of units outside a chosen range: its limit, what it decides, and how it is kept and shown."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from benchmarks.chosen_ranges import Seeded, choose, chosen_in, places, settled, stages_of
from discreet.cli.answers import as_json, csv_of, measured_json
from discreet.cli.output import json_text
from discreet.engine.cells import measure
from discreet.engine.release import Release
from discreet.errors import InternalError
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.auto_bounds.queries import Choice
from discreet.plan.auto_bounds.ranges import (
    CONFIDENCE,
    MOST_OUTSIDE,
    PLACES,
    Stakes,
    Use,
    choose_range,
    holds,
    share_outside,
)
from discreet.plan.nodes.node import Measured
from discreet.plan.plan import Plan
from discreet.plan.query import Query
from discreet.verify.check import check, check_look
from discreet.verify.claim import PlanClaim

Limit = Callable[[int, int, DiscreteLaplaceNoise], Fraction]


def connect(frame: pd.DataFrame, **options: Any) -> dp.Session:
    asked: dict[str, Any] = {
        "unit": dp.PrivacyUnit.row(),
        "bounds": "values",
        "budget": dp.Budget(epsilon=1000),
        "columns": {"y": dp.Range(0, 10)} if "y" in frame else {},
        "population": "p",
        "ledger": ":memory:",
    }
    return dp.connect({"t": frame}, **{**asked, **options})


def staged(session: dp.Session, sql: str, **options: Any) -> Plan:
    plan = session.plan(sql, **{"epsilon": 1, "bounds": "values", **options})
    assert plan.stages is not None
    return plan


# --- the limit ---


def failure(outside: int, inside: int, scale: int, limit: Limit) -> float:
    """With what chance the limit is below the true share: summed over the law of both noises, of which |z| beyond 30
    scales is left out.
    """
    q, noise = math.exp(-1 / scale), DiscreteLaplaceNoise(Fraction(scale))
    law = {z: (1 - q) / (1 + q) * q ** abs(z) for z in range(-30 * scale, 30 * scale + 1)}
    true, missed, first = Fraction(outside, outside + inside), 0.0, min(law)
    below = list(itertools.accumulate(law.values(), initial=0.0))
    for z2, p in law.items():
        # the limit grows with z1: up to where it is too small is found by halving
        low, high = first, max(law) + 1
        while low < high:
            z1 = (low + high) // 2
            low, high = (z1 + 1, high) if limit(outside + z1, inside + z2, noise) < true else (low, z1)
        missed += p * below[low - first]
    return missed


@pytest.mark.thinned(2)
@pytest.mark.laws
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("outside", "inside"), [(1, 30), (20, 400), (60, 60), (300, 100), (50, 0)])
@pytest.mark.parametrize("scale", [1, 4])
def test_the_true_share_is_beyond_the_limit_in_one_case_of_forty(outside: int, inside: int, scale: int) -> None:
    assert failure(outside, inside, scale, share_outside) <= 1 - CONFIDENCE


def test_the_limit_is_hardly_wider_than_it_must_be_and_a_smaller_one_is_refused() -> None:
    def two_thirds(outside: int, inside: int, noise: DiscreteLaplaceNoise) -> Fraction:
        most = max(outside + 2 * noise.quantile(Fraction(952, 1000)) // 3, 0)
        return Fraction(most, max(most + inside, 1))

    assert failure(60, 4000, 4, share_outside) > 0.01
    assert failure(60, 4000, 4, two_thirds) > 1 - CONFIDENCE


def test_a_limit_is_a_share_whatever_the_noise() -> None:
    noise = DiscreteLaplaceNoise(Fraction(5))
    for outside, inside in itertools.product((-(10**9), -3, 0, 2, 10**9), repeat=2):
        assert 0 <= share_outside(outside, inside, noise) <= 1
    assert share_outside(-100, -100, noise) == 1  # nobody is seen


# --- what is counted ---


@pytest.mark.parametrize("unit", ["rows", "units"])
def test_outside_are_those_with_a_value_beyond_the_bounds(unit: str) -> None:
    """The numbers without noise, against the rows; a value at a bound that is a power of two may count as outside."""
    rng = np.random.default_rng(20_261_124)
    frame = pd.DataFrame({"uid": rng.integers(0, 900, 3000), "x": rng.normal(30, 40, 3000)})
    frame.loc[::7, "x"] = math.nan
    own = dp.PrivacyUnit.row() if unit == "rows" else dp.PrivacyUnit("uid", max_groups=1, max_rows=5)
    each = frame.dropna().index if unit == "rows" else frame.dropna().uid
    with connect(frame, unit=own) as session:
        plan = staged(session, "SELECT AVG(x) AS m FROM t")
        stages = stages_of(plan)
        assert stages.of_values is not None
        silent = replace(stages.of_values, outside=DiscreteLaplaceNoise(Fraction(1, 1000)))
        plan = replace(plan, stages=replace(stages, of_values=silent))
        rows = session._desk.backend.rows(plan.statements[0], {})
        for seed in range(10):
            choice = choose(plan, lambda _: rows, Seeded(np.random.default_rng(seed)))
            (chosen,), ((outside, inside),) = choice.ranges, choice.outside
            low, high = float(chosen.low), float(chosen.high)
            beyond = (frame.dropna().x < low) | (frame.dropna().x > high)
            assert outside == beyond.groupby(each.to_numpy()).any().sum()
            assert inside + outside == len(set(each))


def test_every_number_of_a_place_that_is_held_lies_within() -> None:
    values = [s * 2.0**k * f for k in range(-40, 63) for s in (1, -1) for f in (1, 1.5, 1.9999)]
    for bounds in (dp.Range(0, 128), dp.Range(-4, 8), dp.Range(64, 96), dp.Range(-16, -1), dp.Range(1, 3)):
        held = [v for v, p in zip(values, places(np.array(values)), strict=True) if holds(bounds, int(p))]
        assert all(bounds.low <= v <= bounds.high for v in held)
        assert bool(held) == (bounds.high != 96)  # which ends inside of the one place that begins in it


def test_numbers_near_0_lie_outside_where_they_do() -> None:
    """A tenth of a billionth below 0 is below 0: half of these rows are outside of 0 … 1."""
    values = np.where(np.arange(4000) % 2, -1e-10, 1e-10)
    with connect(pd.DataFrame({"x": values})) as session:
        plan = staged(session, "SELECT AVG(x) AS m FROM t")
        rows = session._desk.backend.rows(plan.statements[0], {})
        for seed in range(10):
            choice = choose(plan, lambda _: rows, Seeded(np.random.default_rng(seed)))
            ((low, high),) = [(float(r.low), float(r.high)) for r in choice.ranges]
            outside = np.mean((values < low) | (values > high))
            assert outside <= chosen_in(settled(plan, choice)).limits[0]
            assert high - low < 1e-8  # it is known that all are near 0


# --- what is chosen ---


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("use", list(Use))
@pytest.mark.parametrize("whole", [True, False])
def test_bounds_can_be_chosen_from_any_counts(use: Use, whole: bool) -> None:
    """Nothing may fail after the charge: places at both ends, on both sides, empty ones, and noise of any size."""
    rng = np.random.default_rng(3)
    stakes = Stakes(frozenset({use}), 10.0, 1.0, Fraction(2**60))
    for scale in (Fraction(1, 10**6), Fraction(30), Fraction(10**9)):
        noise = DiscreteLaplaceNoise(scale)
        for at in itertools.product((-95, -40, 0, 33, 95), repeat=2):
            for size in (0, 10**12) if scale == 10**9 else (10**3,):
                counts = []
                for place in at:
                    drawn = np.rint(rng.laplace(0, float(scale), len(PLACES))).astype(int).tolist()
                    counts.append(dict(zip(PLACES, drawn, strict=True)))
                    counts[-1][place] += size
                for lowest in counts:
                    found = choose_range(counts[0], lowest, noise, stakes, whole=whole)
                    assert -(2**60) <= found.low < found.high <= 2**60


# --- what rests on it ---


def released(session: dp.Session, sql: str, outside: tuple[tuple[int, int], ...], **options: Any) -> Release:
    """The release of a question whose first stage gave [0, 64] and these noisy numbers."""
    plan = staged(session, sql, **options)
    choice = Choice(None, tuple(dp.Range(0, 64) for _ in outside), outside)
    plan = settled(plan, choice)
    rng = Seeded(np.random.default_rng(1))
    return Release(plan, measure(plan.query, lambda text: session._desk.backend.rows(text, {}), rng))


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame({"x": rng.uniform(0, 60, 500), "z": rng.uniform(0, 60, 500), "y": 5.0})


AGGREGATES = "AVG(x) AS m, SUM(x) AS s, VAR_POP(x) AS v, AVG(x) - 2 * AVG(y) AS d, COVAR_POP(x, y) AS k"
OTHERS = "COUNT(*) AS n, COUNT(x) AS c, AVG(y) AS y, AVG(z) AS z, SUM(z) AS zs"


@pytest.mark.exhaustive
def test_what_rests_on_an_unsure_range_has_no_finite_interval(frame: pd.DataFrame) -> None:
    sql = f"SELECT {AGGREGATES}, MEDIAN(x) AS md, {OTHERS} FROM t"
    with connect(frame) as session:
        named = stages_of(staged(session, sql)).of_values
        assert named is not None
        counts = tuple((0, 10**6) if "z" in name else (5 * 10**5, 10**6) for name in named.named)
        release = released(session, sql, counts)
    for name in ("m", "s", "v", "d", "k", "md"):
        assert release.interval(name) == [(-math.inf, math.inf)], name
    for name in ("n", "c", "y", "z", "zs"):
        ((low, high),) = release.interval(name)
        assert math.isfinite(low) and math.isfinite(high), name
    (raised,) = release.nonnegative().interval("s")
    assert raised[1] == math.inf


def resolved(found: Any, plan: Query) -> Any:
    """A column's expression with what is measured for it in the place of numbers of columns."""
    if isinstance(found, Measured):
        return found.step, resolved(plan.question.measures[found.index], plan)
    if isinstance(found, tuple):
        return tuple(resolved(part, plan) for part in found)
    if is_dataclass(found):
        return type(found).__name__, *(resolved(getattr(found, f.name), plan) for f in fields(found))
    return found


RESTING = (
    (
        "SUM(x) AS a, SUM(2 * x) AS b, SUM(least(greatest(x, 0), 10)) AS c, AVG(x + 1) AS d, AVG(x) AS e, "
        "AVG(x) FILTER (WHERE y > 5) AS f, SUM(z) / SUM(x) AS g, COUNT(*) + COUNT(x) AS h, round(AVG(z), 1) AS i"
    ),
    (
        "STDDEV(x) AS a, CORR(x, z) AS b, REGR_SLOPE(x, y) AS c, REGR_INTERCEPT(y, x) AS d, REGR_AVGX(x, y) AS e, "
        "REGR_AVGY(x, y) AS f, REGR_COUNT(x, y) AS g, REGR_SXX(x, y) AS h, REGR_SXY(x, y) AS i, AVG(x) AS j"
    ),
    (
        "SUM(x) AS a, histogram(x, [10, 20, 30]) AS b, MEDIAN(x) AS c, quantile_cont(z, [0.25, 0.75]) AS d, "
        "MIN(z) AS e, COUNT(DISTINCT floor(x)) AS f, MODE(y > 5) AS g, CASE WHEN AVG(x) > 5 THEN 1 ELSE 0 END AS h"
    ),
)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("columns", RESTING)
def test_a_column_rests_on_a_range_exactly_where_it_changes_with_it(frame: pd.DataFrame, columns: str) -> None:
    declared = {"y": dp.Range(0, 10)}
    with connect(frame, columns=declared) as session:
        plan = staged(session, f"SELECT {columns} FROM t")
        of_values = stages_of(plan).of_values
        assert of_values is not None
        count = len(of_values.exprs)

        def advised(place: int | None) -> Query:
            """The second stage with another range of one value, outside of which many may lie."""
            ranges = [dp.Range(0, 128 if i == place else 64) for i in range(count)]
            outside = tuple((9**6 if i == place else 0, 9**7) for i in range(count))
            return settled(plan, Choice(None, tuple(ranges), outside)).query

        before = advised(None)
        for place in range(count):
            after = advised(place)
            for name in after.columns:
                changed = resolved(before.column(name), before) != resolved(after.column(name), after)
                assert after.is_unsure(after.column(name)) == changed, (name, of_values.named[place])


def test_a_plan_knows_no_error_of_what_rests_on_an_unsure_range(frame: pd.DataFrame) -> None:
    with connect(frame, columns={"y": dp.Range(0, 10)}) as session:
        release = released(session, "SELECT SUM(x) AS s, AVG(x) AS m, SUM(y) AS y FROM t", ((10**5, 10**6),))
    plan = release.plan
    assert plan.error("s") == plan.error("m") == plan.error("m", assuming={"n": 500}) == math.inf
    assert math.isfinite(plan.error("y"))
    assert "s: ± ∞ at 95 %" in str(plan) and "m: ± ∞ at 95 %" in str(plan)


def test_of_groups_it_is_said_that_one_may_have_more_outside(frame: pd.DataFrame) -> None:
    declared = {"g": dp.Values("a", "b")}
    sql = "SELECT g, AVG(x) AS m FROM t GROUP BY g"
    with connect(frame.assign(g="a"), columns=declared) as session:
        release = released(session, sql, ((13_000, 10**6),))
    said = "At most 1.3 % of rows lie outside the chosen range 0 … 64 of 'x' (97.5 % confidence)"
    assert f"{said}; one group may have more." in release.notes


def test_it_is_said_and_shown_as_infinite_everywhere(frame: pd.DataFrame) -> None:
    with connect(frame) as session:
        release = released(session, "SELECT AVG(x) AS m, COUNT(*) AS n FROM t", ((10**5, 10**6),))
    assert "± ∞" in str(release) and "± ∞" in release._repr_html_()
    said = [note for note in release.notes if "chosen range" in note]
    limit = "At most 9.1 % of rows lie outside the chosen range 0 … 64 of 'x' (97.5 % confidence)."
    assert said == [f"{limit} That may be too many: what rests on 'x' has no finite interval."]
    shown = json.loads(json_text(measured_json(release, 0.95)))
    assert shown["intervals"]["m"] == [[None, None]]
    assert None not in shown["intervals"]["n"][0]
    columns, (row,) = csv_of(release, 0.95)
    assert row[columns.index("m_low")] == -math.inf


def test_chosen_bounds_are_said_as_they_are(frame: pd.DataFrame) -> None:
    wide = dp.Range(-4194304, Fraction(1, 4096))
    with connect(frame) as session:
        plan = settled(staged(session, "SELECT AVG(x) AS m FROM t"), Choice(None, (wide,), ((0, 10**6),)))
    said = chosen_in(plan).sentences[-1]
    assert "outside the chosen range -4194304 … 0.000244140625 of 'x'" in said


def test_few_outside_leave_the_interval_and_are_said(frame: pd.DataFrame) -> None:
    with connect(frame) as session:
        release = released(session, "SELECT AVG(x) AS m FROM t", ((13_000, 10**6),))
        ((low, high),) = release.interval("m")
    assert math.isfinite(low) and math.isfinite(high)
    said = "At most 1.3 % of rows lie outside the chosen range 0 … 64 of 'x' (97.5 % confidence)."
    assert said in release.notes
    unit = dp.PrivacyUnit("uid", max_groups=1, max_rows=2)
    with connect(frame.assign(uid=range(500)), unit=unit) as session:
        release = released(session, "SELECT AVG(x) AS m FROM t", ((0, 10**6),))
    assert any(note.startswith("At most 0.0044 % of units have a value outside") for note in release.notes)


def test_a_list_of_quantiles_has_an_infinite_interval_for_each(frame: pd.DataFrame) -> None:
    sql = "SELECT quantile_cont(x, [0.25, 0.75]) AS q FROM t"
    with connect(frame) as session:
        release = released(session, sql, ((10**5, 10**6),))
    assert release.interval("q") == [[(-math.inf, math.inf)] * 2]


# --- small tables, from end to end ---


@pytest.mark.laws
def test_means_of_few_people_are_covered_or_have_no_interval() -> None:
    """Of 200 to 500 people U(0, 100) had means 96.0 ± .3, 192.3 and 1.0: tight intervals that missed."""
    rng = np.random.default_rng(8)
    for n in (200, 500, 5000):
        values = rng.uniform(0, 100, n)
        with connect(pd.DataFrame({"x": values})) as session:
            plan = staged(session, "SELECT AVG(x) AS m FROM t")
            answers: dict[str, list[Any]] = {}
            unsure = 0

            def run(text: str, session: dp.Session = session, answers: Any = answers) -> list[Any]:
                if text not in answers:
                    answers[text] = session._desk.backend.rows(text, {})
                return list(answers[text])

            for seed in range(16):
                entropy = Seeded(np.random.default_rng([n, seed]))
                both = settled(plan, choose(plan, run, entropy))
                release = Release(both, measure(both.query, run, entropy))
                ((low, high),) = release.interval("m")
                unsure += not math.isfinite(low)
                assert not math.isfinite(low) or low - 2.5 <= values.mean() <= high + 2.5
            assert unsure == 0 if n == 5000 else unsure >= 15


def test_the_whole_charge_stands_and_the_stored_answer_says_the_same(
    frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "discreet.noise.entropy.SystemEntropy", lambda: Seeded(np.random.default_rng(2))
    )  # of 700 such tables one has a finite interval
    sql = "SELECT AVG(x) AS m, COUNT(*) AS n FROM t"
    with connect(frame[:60]) as session:
        release = session.sql(sql, epsilon=1)
        assert session.remaining.epsilon == 999
        assert release.interval("m") == [(-math.inf, math.inf)]
        again = session.sql(sql, epsilon=1)
        assert again.stored
        assert again.interval("m") == release.interval("m")
        found = chosen_in(again.plan)
        assert (again.notes, str(found)) == (release.notes, str(chosen_in(release.plan)))
        assert found.limits[0] > MOST_OUTSIDE


# --- what it costs ---


@pytest.mark.parametrize("bounds", ["auto", "values"])
def test_what_an_answer_says_of_its_cost_is_that_of_both_stages(frame: pd.DataFrame, bounds: str) -> None:
    unit = dp.PrivacyUnit("uid", 1, 2) if bounds == "values" else "uid"
    with connect(frame.assign(uid=range(500)), unit=unit, bounds=bounds) as session:
        for _ in range(2):  # drawn, and from the ledger
            release = session.sql("SELECT AVG(x) AS m FROM t", epsilon=1)
            assert as_json(release, session, 0.95, explain=False)["cost"] == {"epsilon": 1, "delta": 0}
            assert release.explain().splitlines()[-1] == "Both stages together: ε = 1."
            assert release.plan.charge == session.plan("SELECT AVG(x) AS m FROM t", epsilon=1).charge


def test_the_second_derivation_counts_the_noise_on_who_is_outside(frame: pd.DataFrame) -> None:
    for relation, unit in itertools.product(
        ("add-remove", "replace"), (dp.PrivacyUnit.row(), dp.PrivacyUnit("uid", 1, 2))
    ):
        with connect(frame.assign(uid=range(500)), relation=relation, unit=unit) as session:
            claim = staged(session, "SELECT AVG(x) AS m, SUM(z) AS s FROM t").claim
        assert isinstance(claim, PlanClaim)
        check(claim)
        (look,) = claim.looks
        assert look.outside is not None and look.values == 2
        less = DiscreteLaplaceNoise(look.outside.scale * Fraction(999, 1000))
        with pytest.raises(InternalError, match="what the first stage costs"):
            check(replace(claim, looks=(replace(look, outside=less),)))
        with pytest.raises(InternalError, match="what is chosen first"):
            check_look(replace(look, outside=None))
