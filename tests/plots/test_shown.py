"""Pictures in notebooks and beside each other, and those that take what one tries first."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from typing import Any

import altair as alt
import pandas as pd
import pytest

import discreet as dp
from discreet import mechanisms, plots
from discreet.engine.session import Session
from discreet.errors import InvalidParameter
from tests.plots.seen import marks, parts, rows, words

FRAME = pd.DataFrame({"who": range(60), "day": [i % 12 for i in range(60)], "x": [1.0] * 60})


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    facts: dict[str, Any] = {"day": dp.Range(0, 11, integer=True), "x": dp.Range(0, 4)}
    budget = dp.Budget(10**6, "0.1", per_query=10**4)
    unit = dp.PrivacyUnit("who", max_groups=1, max_rows=1)
    with dp.connect({"t": FRAME}, unit=unit, columns=facts, budget=budget, ledger=":memory:") as opened:
        yield opened


def by_day(session: Session) -> Any:
    return plots.release(session.sql("SELECT day, COUNT(*) AS n FROM t GROUP BY day ORDER BY day", epsilon=1000))


def test_a_notebook_gets_a_png_beside_the_description_and_no_script(session: Session) -> None:
    bundle, size = by_day(session)._repr_mimebundle_()
    assert set(bundle) == {"application/vnd.vegalite.v6+json", "image/png", "text/plain"}
    assert base64.b64decode(bundle["image/png"]).startswith(b"\x89PNG") and size["image/png"]["width"] > 400
    assert bundle["application/vnd.vegalite.v6+json"]["layer"] and bundle["text/plain"] == "<LayerChart>"


def test_a_renderer_that_was_chosen_is_obeyed(session: Session) -> None:
    with alt.renderers.enable("json"):
        bundle, *_ = by_day(session)._repr_mimebundle_()
    assert "application/json" in bundle and "image/png" not in bundle


@pytest.mark.exhaustive
def test_pictures_stand_beside_and_below_each_other(session: Session) -> None:
    days = by_day(session)
    before = days.to_dict()
    both = (days | days) & plots.privacy(dp.accounting.pure(1))
    described = both.to_dict()
    assert [len(p.get("hconcat", [])) for p in described["vconcat"]] == [2, 2]
    assert marks(both)[:3] == marks(days)[:3] and "config" in described
    assert sum("config" in p for p in parts(both)) == 1
    names = [p["name"] for p in described["params"]]
    assert len(set(names)) == len(names) >= 2  # each can be moved by itself
    file = io.BytesIO()
    both.save(file, format="png")
    assert days.to_dict() == before  # the parts are as they were
    assert marks(days | alt.Chart(pd.DataFrame({"x": [1]})).mark_bar())[-1] == "bar"
    with pytest.raises(InvalidParameter, match="beside a picture"):
        days | 3  # that is the test


def test_spending_takes_a_session(session: Session) -> None:
    by_day(session)
    assert rows(plots.spending(session), "who", "epsilon")


def test_two_neighbours_are_a_sensitivity_apart_unless_given() -> None:
    drawn = plots.densities(mechanisms.Laplace(epsilon=1, sensitivity=3))
    assert drawn.to_dict() == plots.densities(mechanisms.Laplace(epsilon=1, sensitivity=3), 0, 3).to_dict()
    assert "answers on 0.5" in str(plots.densities(mechanisms.Laplace(epsilon=1, sensitivity="0.5")).to_dict())
    assert "answers on 4" in str(plots.densities(mechanisms.Laplace(epsilon=1), 4).to_dict())


def test_errors_of_a_plan_are_those_of_plans_at_each_epsilon(session: Session) -> None:
    sql = "SELECT day, COUNT(*) AS n, AVG(x) AS m FROM t GROUP BY day"
    drawn = plots.error(session.plan(sql, epsilon=1), epsilons=[1, 2])
    found = {(r["series"], r["epsilon"]): r["error"] for r in rows(drawn, "series", "error")}
    for epsilon in (1, 2):
        plan = session.plan(sql, epsilon=epsilon)
        assert found["n", epsilon] == plan.error("n")
        assert found["m (over 10,000 rows)", epsilon] == plan.error("m", assuming={"rows": 10_000})
    guessed = plots.error(session.plan(sql, epsilon=1), epsilons=[1], assuming={"rows": 50})
    assert {r["series"] for r in rows(guessed, "series", "error")} == {"n", "m"}


@pytest.mark.exhaustive
def test_a_choice_of_epsilon_shows_what_an_attacker_learns_beside_the_error(session: Session) -> None:
    plan = session.plan("SELECT COUNT(*) AS n FROM t", epsilon=1)
    drawn = plots.choice(plan, epsilons=["0.5"], prior="0.5")
    beliefs = {r["epsilon"]: r["belief"] for r in rows(drawn, "belief")}
    assert beliefs == {0.5: pytest.approx(0.62246, abs=1e-5), 1.0: pytest.approx(0.73106, abs=1e-5)}  # e^ε/(1 + e^ε)
    assert {r["epsilon"] for r in rows(drawn, "error")} == {0.5, 1.0} and "ε = 1, the plan's" in words(drawn)
    noisy = session.plan("SELECT COUNT(*) AS n FROM t", epsilon=1, delta="1e-6", noise="gaussian")
    assert "but for a chance of 1e-05" in words(plots.choice(noisy, epsilons=[1]))


def test_what_is_no_plan_of_one_query_has_no_choice(session: Session) -> None:
    staged = session.plan("SELECT COUNT(*) AS n FROM t", epsilon=1, bounds="auto")
    reported = session.plan("SELECT COUNT(*) AS n FROM t", epsilon=1, truncation="0.1")
    given: list[tuple[Any, dict[str, Any], str]] = [
        ("SELECT 1", {}, "drawn of a plan, not of str"),
        (staged, {}, "without bounds='auto'"),
        (reported, {}, "without bounds='auto' and truncation="),
        (session.plan("SELECT COUNT(*) AS n FROM t", epsilon=1), {"prior": 1}, "prior must lie between"),
        (session.plan("SELECT MEDIAN(x) AS m FROM t", epsilon=1), {}, "known before the data"),
    ]
    for plan, how, said in given:
        with pytest.raises(InvalidParameter, match=said) as caught:
            plots.choice(plan, **how)
        assert caught.value.hint


def test_a_spectrum_has_the_errors_of_each_level() -> None:
    frame = pd.DataFrame({"a": [1, 2], "x": [1, 2]})
    ranges = {"a": dp.Range(1, 2, integer=True), "x": dp.Range(1, 2, integer=True)}
    given: dict[str, Any] = {"unit": dp.PrivacyUnit.row(), "columns": ranges, "budget": dp.Budget(9, "1e-5")}
    with dp.connect({"t": frame}, population="p", ledger=":memory:", **given) as s:
        plan = s.plan_hierarchy(levels=["a"], attributes=["x"], epsilon=1, delta="1e-6")
    found = {(p["series"], p["epsilon"]): p["error"] for p in rows(plots.spectrum(plan, epsilons=[1, 2]), "series")}
    assert found == {(level, e): error for e, level, table, error in plan.spectrum([1, 2]) if table == "total"}
    with pytest.raises(InvalidParameter, match="no table of this release"):
        plots.spectrum(plan, table="town")
    with pytest.raises(InvalidParameter, match="census-style release"):
        plots.spectrum(1)
