"""noise="auto": Gaussian noise exactly where a δ is spent anyhow, both cost the same, and no number is wider by it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import Additive, RoundedGaussianNoise
from discreet.plan.auto_bounds.caps import Caps
from discreet.plan.auto_bounds.queries import Choice
from discreet.plan.plan import Plan
from discreet.plan.planner import plan_batch

ROWS = pd.DataFrame({"id": range(300), "k": [i % 7 for i in range(300)], "x": [float(i % 10) for i in range(300)]})
PRIVATE = "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k"
NOISES = ("auto", "laplace", "gaussian")
DECLARED = "SELECT COUNT(*) AS n, SUM(x) AS s FROM t"


def opened(**given: Any) -> dp.Session:
    options: dict[str, Any] = {
        "unit": dp.PrivacyUnit("id", max_groups=40, max_rows=1),
        "columns": {"x": dp.Range(0, 10)},
        "budget": dp.Budget(10, "1e-3"),
        "population": "p",
        "ledger": ":memory:",
    }
    return dp.connect({"t": ROWS}, **{**options, **given})


def is_gaussian(session: dp.Session, sql: str, **asked: Any) -> bool:
    return session.plan(sql, epsilon=1, **{"delta": "1e-6", "noise": "auto", **asked}).query.allocation.is_gaussian


def test_it_is_the_narrower_of_both_where_groups_are_selected() -> None:
    for groups, expected in ((40, True), (1, False)):
        with opened(unit=dp.PrivacyUnit("id", max_groups=groups, max_rows=1)) as session:
            assert is_gaussian(session, PRIVATE) == expected
            plans = [session.plan(PRIVATE, epsilon=1, delta="1e-6", noise=n) for n in NOISES]
            widths = [[z.quantile(Fraction(19, 20)) for z in p.query.allocation.noises] for p in plans]
            assert widths[0] == [min(pair) for pair in zip(*widths[1:], strict=True)]
            assert plans[0].query.identity == plans[1 + expected].query.identity
            assert all(isinstance(z, Additive) for z in plans[0].query.allocation.noises)
            assert any(isinstance(z, RoundedGaussianNoise) for z in plans[0].query.allocation.noises) == expected


def test_it_spends_no_delta_that_laplace_noise_does_not() -> None:
    with opened() as session:
        assert not is_gaussian(session, DECLARED)
        assert session.sql(DECLARED, epsilon=1, delta="1e-6", noise="auto").charged.delta == 0


@pytest.mark.parametrize("account", [{"filter": "zcdp"}, {"per_person": dp.Budget(5, "1e-3")}])
def test_it_is_laplace_where_both_do_not_cost_the_same(account: dict[str, Any]) -> None:
    with opened(**account) as session:
        assert not is_gaussian(session, PRIVATE)


BATCH = {"a": PRIVATE, "b": "SELECT k, SUM(x * x) AS q FROM t GROUP BY k"}


def test_it_is_what_is_done_where_no_noise_is_named() -> None:
    with opened() as session:
        one, other = (session.plan(PRIVATE, epsilon=1, delta="1e-6", noise=n) for n in (None, "auto"))
        assert one.query.identity == other.query.identity and one.query.allocation.is_gaussian


def test_a_batch_has_the_narrower_of_both_in_every_number() -> None:
    for groups, expected in ((40, True), (1, False)):
        with opened(unit=dp.PrivacyUnit("id", max_groups=groups, max_rows=1)) as session:
            asked: dict[str, Any] = {"population": "p", "version": None, "epsilon": 1, "delta": "1e-6"}
            plans = [plan_batch(BATCH, session._desk.tables, **asked, noise=n, alike=True) for n in NOISES]
            widths = [[z.quantile(Fraction(19, 20)) for z in noises_of(p)] for p in plans]
            assert widths[0] == [min(pair) for pair in zip(*widths[1:], strict=True)]
            assert plans[0].identity == plans[1 + expected].identity
            assert plans[0].price == plans[1].price
            releases = session.batch(BATCH, epsilon=1, delta="1e-6")
            gaussian = {r.plan.outputs[name].query.allocation.is_gaussian for name, r in releases.items()}
            assert gaussian == {expected}


def test_a_batch_spends_no_delta_that_laplace_noise_does_not() -> None:
    with opened() as session:
        for release in session.batch(
            {"a": DECLARED, "b": "SELECT AVG(x) AS m FROM t"}, epsilon=1, delta="1e-6"
        ).values():
            assert release.charged.delta == 0


def test_in_two_stages_each_choice_has_the_narrower_of_both() -> None:
    with opened(columns={}, unit=dp.PrivacyUnit("id", max_groups=40, max_rows=1)) as session:
        asked: dict[str, Any] = {"epsilon": 4, "delta": "1e-6", "bounds": "values"}
        sql = "SELECT k, SUM(x) AS s FROM t GROUP BY k"
        plans = [session.plan(sql, noise=n, **asked) for n in NOISES]
        assert len({p.identity for p in plans}) == 3
        assert [p.price for p in plans] == [plans[0].price] * 3
        choice = Choice(None, (dp.Range(0, 8),), ((0, 300),))
        seconds = [p.stages.settled(p, choice).query for p in plans if p.stages is not None]
        widths = [[z.quantile(Fraction(19, 20)) for z in q.allocation.noises] for q in seconds]
        assert widths[0] == widths[2] < widths[1]
        first = session.sql(sql, **asked)
        assert session.sql(sql, **asked).rows == first.rows
        few = [p.stages.settled(p, replace(choice, caps=Caps(1, 1))).query for p in plans if p.stages is not None]
        assert not few[0].allocation.is_gaussian  # of one group and one row, Laplace noise is narrower


def test_for_two_populations_it_is_laplace_noise_which_spends_no_delta() -> None:
    rows = ROWS.assign(other=ROWS["id"] % 50)
    units = {
        "one": dp.PrivacyUnit("id", max_groups=1, max_rows=1),
        "two": dp.PrivacyUnit("other", max_groups=1, max_rows=9),
    }
    budget = dict.fromkeys(units, dp.Budget(10, "1e-3"))
    with dp.connect_both({"t": rows}, units=units, budget=budget, ledger=":memory:") as session:
        for noise in (None, "auto"):
            plan = session.plan("SELECT COUNT(*) AS n FROM t", epsilon=1, delta="1e-6", noise=noise)
            assert all(payer.guarantee.delta == 0 for payer in plan.payers)


def test_another_noise_is_refused() -> None:
    with opened() as session, pytest.raises(InvalidParameter, match="'auto', 'laplace' or 'gaussian'"):
        session.plan(DECLARED, epsilon=1, noise="uniform")


def noises_of(plan: Plan) -> list[Any]:
    return [z for output in plan.outputs.values() for z in output.query.allocation.noises]
