"""Census-style releases in a session and of a frame: charged, stored, certified; tables that agree."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.engine.session import Session
from discreet.errors import BudgetExceeded, InvalidParameter, MissingBounds, NotPrivate
from discreet.privacy.unit import Sensitivity
from discreet.synth.census import tree_noise
from discreet.verify.certificate.checker import check

PLACE = np.arange(4000)
CODES = [f"{c:02d}{t:02d}{b}" for c in range(3) for t in range(4) for b in range(1 + (c + t) % 5)]
CODE = np.array(CODES)[(PLACE * 7) % len(CODES)]
FRAME = pd.DataFrame(
    {
        "who": PLACE // 2,
        "geo": CODE,
        "county": [int(c[:2]) for c in CODE],
        "tract": [f"t'{c[2:4]}" for c in CODE],
        "race": np.array(["a", "b", "c"])[PLACE % 3],
        "adult": PLACE % 5 > 0,
        "age": PLACE % 90,
    }
)
FACTS: dict[str, Any] = {"race": dp.Values("a", "b", "c"), "adult": dp.Values(True, False), "age": dp.Range(0, 89)}
BY_CODE: dict[str, Any] = {
    "levels": {"county": 2, "tract": 4, "block": 5},
    "code": "geo",
    "attributes": ["race", "adult"],
    "units": {"geo": CODES},
    "filler": {"race": "c", "adult": False},
    "epsilon": 10,
    "delta": "1e-6",
}
FIXED = BY_CODE | {"invariants": ["total"]}


def session(frame: Any = FRAME, **given: Any) -> Session:
    said: dict[str, Any] = {
        "budget": dp.Budget(25, "1e-4"),
        "unit": dp.PrivacyUnit.row(),
        "columns": FACTS,
        "relation": "replace",
        "ledger": ":memory:",
    } | given
    return dp.connect(frame if isinstance(frame, dict) else {"people": frame}, population="p", **said)


def agrees(h: Any) -> None:
    """Checks that each table is a sum of those below it, as they are handed out."""
    attributes = h.attributes
    finest = h.table(h.levels[-1])
    assert all(row[-1] >= 0 and type(row[-1]) is int for row in finest.rows)
    for level in ["all", *h.levels]:
        table = h.table(level)
        width = len(table.columns) - len(attributes) - 1
        sums: Counter[Any] = Counter()
        for row in finest.rows:
            own = row[:width] if not h._recipe.units.code else _prefix(h, level, row)
            sums[*own, *row[-1 - len(attributes) : -1]] += row[-1]
        assert {row[:-1]: row[-1] for row in table.rows} == dict(sums)
    totals = h.table("all", [])
    assert totals.columns == ["count"]
    assert totals.rows == [(h.rows,)]
    assert len(h.microdata()) == h.rows


def _prefix(h: Any, level: str, row: Any) -> tuple[str, ...]:
    n = {"all": 0, **BY_CODE["levels"]}[level]
    return () if not n else (row[0] if row[0] == "other" else row[0][:n],)


def test_a_release_is_charged_once_answered_again_and_certified(tmp_path: Path) -> None:
    with session(ledger=tmp_path / "a.ledger") as s:
        plan = s.plan_hierarchy(**FIXED)
        assert plan.price == "ε = 10, δ = 1e-06"
        assert s.spent.epsilon(1e-6) == 0
        h = s.hierarchy(**FIXED)
        assert h.rows == 4000
        assert not h.stored
        assert s.remaining.epsilon == 15
        again = s.hierarchy(**FIXED)
        assert again.stored
        assert again.table("block").rows == h.table("block").rows
        assert s.remaining.epsilon == 15
        assert h.errors().rows == plan.errors().rows
        verdict = check(json.loads(json.dumps(h.certificate())), list(s._ledger.export()))
        assert verdict.broken is None, verdict.reason
    agrees(h)
    truth = FRAME.groupby("county").size().to_dict()
    assert all(abs(n - truth.get(int(c), 0)) < 30 for c, n in h.table("county", []).rows if c != "other")
    microdata = h.microdata().to_pandas()
    assert [*microdata] == ["county", "tract", "block", "race", "adult"]
    assert microdata.groupby("race").size().to_dict() == {r: n for r, n in h.table("all", ["race"]).rows if n}
    assert h.to_arrow().num_rows == (len(CODES) + 1) * 6
    assert "public: units are rows" in h.explain()


@pytest.mark.parametrize("given", [FIXED, BY_CODE])
def test_the_price_is_that_of_the_noise_in_the_certificate(given: dict[str, Any]) -> None:
    """μ² is the sum of l2²/σ² over the tables that were drawn: a replaced row moves two numbers of each by 1."""
    with session(budget=dp.Budget(25, "1e-4"), filter="zcdp") as s:
        h = s.hierarchy(**given)
        (account,) = s.accounts.values()
        charged = account._read(lambda now: now.population.spent)[0]
        parts = h.certificate()["claim"]["parts"]
    laws: list[Any] = [p.law for p in h.plan.parts]
    sigmas = [law.noise.sigma for law in laws]
    assert [Fraction(p["law"]["noise"]["sigma"]) for p in parts] == sigmas
    rho = sum(Fraction(min(p["width"], 2)) / (2 * sigma**2) for p, sigma in zip(parts, sigmas, strict=True))
    assert float(charged) == pytest.approx(float(rho), rel=1e-9)
    assert len(parts) == 8 - ("invariants" in given)


def test_nested_columns_have_units_from_a_public_table_or_from_declared_keys() -> None:
    units = FRAME[["county", "tract"]].drop_duplicates()
    given: dict[str, Any] = {
        "levels": ["county", "tract"],
        "attributes": ["age"],
        "epsilon": 10,
        "delta": "1e-6",
        "bins": 3,
    }
    whose = {"people": FRAME, "map": units}
    with session(whose, public=["map"], unit=dp.PrivacyUnit("who", max_groups=1, max_rows=2)) as s:
        h = s.hierarchy(**given, units="map", table="people")
    agrees(h)
    assert h.table("tract").columns == ["county", "tract", "age", "count"]
    assert h._recipe.per_person == 2
    declared = {n: f for n, f in FACTS.items() if n == "age"}
    with session(columns=declared, keys=dp.Keys(units), relation="add-remove") as s:
        other = s.hierarchy(**given)
        with pytest.raises(MissingBounds, match="are not public"):
            s.plan_hierarchy(**given | {"levels": ["geo"]})
    agrees(other)
    assert {row[:2] for row in other.table("tract").rows} == {row[:2] for row in h.table("tract").rows}
    assert abs(other.rows - 4000) < 30
    bins = {row[2] for row in h.table("tract").rows}
    assert len(bins) == 4  # and NULL
    assert None in bins


def test_rows_of_other_units_and_values_are_left_out_nowhere() -> None:
    odd = FRAME.assign(
        geo=np.where(PLACE % 4 == 0, np.array(None), np.where(PLACE % 4 == 1, "99", CODE)),
        race=np.where(PLACE % 2 == 0, "z", np.array(None)),
    )
    with session(odd) as s:
        beside = s.hierarchy(**{**FIXED, "filler": None})
        filled = s.hierarchy(**{**FIXED, "filler": {"geo": CODES[5], "race": "b", "adult": True}})
    assert beside.rows == filled.rows == 4000
    assert abs(dict(beside.table("block", []).rows)["other"] - 2000) < 50
    assert dict(beside.table("all", ["race"]).rows)["other"] > 3900
    assert "other" not in dict(filled.table("block", []).rows)
    assert dict(filled.table("block", []).rows)[CODES[5]] > 1900
    assert dict(filled.table("all", ["race"]).rows)["b"] > 3900


def test_a_person_with_many_rows_counts_max_rows_times() -> None:
    one = pd.DataFrame({"who": 1, "geo": CODES[:1] * 500, "race": "a", "adult": True, "age": 1})
    with session(one, unit=dp.PrivacyUnit("who", max_groups=1, max_rows=3), relation="add-remove") as s:
        plan = s.plan_hierarchy(**BY_CODE)
        assert all(part.norms == Sensitivity(3, 3, l1=3, l2_squared=9) for part in plan.plan.parts[2:])
        noise = tree_noise(plan._recipe, plan.plan)
        assert s.hierarchy(**BY_CODE).rows <= 3 + 6 * math.sqrt(noise.spreads[0][0][0])


REFUSED: list[tuple[dict[str, Any], dict[str, Any], type[Exception], str]] = [
    ({"relation": "add-remove"}, FIXED, InvalidParameter, "relation='replace'"),
    ({"unit": dp.PrivacyUnit("who", max_groups=1, max_rows=2)}, FIXED, InvalidParameter, "relation='replace'"),
    ({}, FIXED | {"invariants": ["county"]}, InvalidParameter, "the only invariant"),
    ({}, FIXED | {"invariants": "total"}, InvalidParameter, "the only invariant"),
    ({}, FIXED | {"delta": 0}, NotPrivate, "δ above 0"),
    ({}, FIXED | {"epsilon": None}, NotPrivate, "epsilon="),
    ({}, FIXED | {"units": None}, MissingBounds, "are not public"),
    ({}, FIXED | {"attributes": ["who"]}, MissingBounds, "Nothing is declared"),
    ({}, FIXED | {"attributes": []}, InvalidParameter, "is a list of columns"),
    ({}, FIXED | {"levels": ["county"]}, InvalidParameter, "list of columns, or with code="),
    ({}, FIXED | {"levels": {"a": 3, "b": 2}}, InvalidParameter, "lengths of prefixes"),
    ({}, FIXED | {"levels": {"a": 9}}, InvalidParameter, "at least 9 characters"),
    ({}, FIXED | {"levels": {"all": 2}}, InvalidParameter, "whole table"),
    ({}, FIXED | {"levels": {"race": 2}}, InvalidParameter, "a level and an attribute"),
    ({}, FIXED | {"filler": {"town": 1}}, InvalidParameter, "no column of this release"),
    ({}, FIXED | {"filler": {"geo": "77"}}, InvalidParameter, "filler= needs public values"),
    ({}, FIXED | {"units": {"geo": ["other"]}}, InvalidParameter, "listed as a unit"),
    ({}, FIXED | {"units": {"geo": [f"x{i:04}" for i in range(3000)]}}, InvalidParameter, "3,000 public values"),
    ({}, FIXED | {"weights": "optimise"}, InvalidParameter, "go together"),
    ({}, FIXED | {"weights": {"all": (1, 1)}}, InvalidParameter, "a pair for each of"),
    ({}, FIXED | {"weights": "optimise", "loss": {("town", "total"): 1}}, InvalidParameter, "is no level"),
]


@pytest.mark.parametrize(("given", "asked", "error", "words"), REFUSED, ids=[words for *_, words in REFUSED])
def test_what_is_refused_costs_nothing(
    given: dict[str, Any], asked: dict[str, Any], error: type[Exception], words: str
) -> None:
    with session(**given) as s:
        with pytest.raises(error, match=words):
            s.hierarchy(**asked)
        assert s.history() == s.history()[:1]


def test_too_large_a_release_is_refused_with_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.synth.hierarchical.MOST", 100)
    with session() as s, pytest.raises(InvalidParameter, match="392 noisy numbers, and at most 100"):
        s.plan_hierarchy(**FIXED)


def test_what_the_account_cannot_pay_is_not_read() -> None:
    with session(budget=dp.Budget(5, "1e-4")) as s, pytest.raises(BudgetExceeded):
        s.hierarchy(**FIXED)


def test_optimised_weights_make_the_stated_loss_smaller() -> None:
    with session() as s:
        usual = s.plan_hierarchy(**FIXED)
        own = s.plan_hierarchy(**FIXED, weights="optimise", loss={("county", "total"): 1, ("block", "cells"): "0.1"})
        said = s.plan_hierarchy(**FIXED, weights=dict.fromkeys(("all", "county", "tract", "block"), (1, 2)))

    def loss(plan: Any) -> float:
        found = {row[:2]: row[3] for row in plan.errors().rows}
        return float(found["county", "total"] + 0.1 * found["block", "race × adult"])

    assert loss(own) < 0.9 * loss(usual)
    assert own.plan.price == usual.plan.price
    assert sum(a + b for a, b in own.weights.values()) == pytest.approx(1)
    assert said.weights["tract"] == pytest.approx((1 / 11, 2 / 11))


def test_errors_of_other_epsilons_are_those_of_their_plans() -> None:
    with session() as s:
        plan = s.plan_hierarchy(**FIXED)
        found = plan.spectrum([1, 10])
        at_one = {row[:2]: row[3] for row in s.plan_hierarchy(**FIXED | {"epsilon": 1}).errors().rows}
    for epsilon, level, table, error in found:
        if epsilon == 1 and (level, table) != ("all", "total"):
            assert error == pytest.approx(at_one[level, table])
    assert [row[3] for row in found if row[0] == 10] == pytest.approx([row[3] for row in plan.errors().rows])
    assert plan.weights["all"][0] == 0


def test_a_frame_has_a_release_without_a_ledger() -> None:
    given = {name: BY_CODE[name] for name in ("levels", "code", "units", "epsilon", "delta")}
    h = dp.synth.hierarchy(FRAME, attributes={"race": FACTS["race"]}, **given)
    agrees(h)
    assert abs(h.rows - 4000) < 30
    with pytest.raises(InvalidParameter, match="without a ledger"):
        h.certificate()
    with pytest.raises(MissingBounds, match="declares each column"):
        dp.synth.hierarchy(FRAME, attributes=["race"], **given)  # type: ignore[arg-type]  # what is refused
    for wrong in ({"level": "town"}, {"level": "block", "attributes": ["age"]}):
        with pytest.raises(InvalidParameter, match=r"is no level|names attributes"):
            h.table(**wrong)


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_tables_are_released_too(rows: int) -> None:
    with session(FRAME.head(rows)) as s:
        h = s.hierarchy(**FIXED)
        other = s.hierarchy(**BY_CODE)
    assert h.rows == rows
    agrees(h)
    agrees(other)


def test_a_recipe_that_claims_the_number_of_rows_elsewhere_is_refused() -> None:
    with session(relation="add-remove") as s:
        recipe = s.plan_hierarchy(**BY_CODE)._recipe
        with pytest.raises(InvalidParameter, match="is not public"):
            s._desk.perform(replace(recipe, fixed=True), ours=False)
        assert s.remaining.epsilon == 25


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_measured_errors_are_those_of_the_released_tables_and_are_charged(relation: str) -> None:
    given = BY_CODE | {"epsilon": 1}
    with session(relation=relation, budget=dp.Budget(2000, "1e-4", per_query=1001)) as s:
        h = s.hierarchy(**given)
        found = h.errors(check=1000)
        assert s.remaining.epsilon == 2000 - 1001
        assert h.errors(check=1000).measured == found.measured
        assert s.remaining.epsilon == 2000 - 1001
    truth = FRAME.groupby("geo").size()
    apart = [abs(n - truth.get(code, 0)) for code, n in h.table("block", []).rows]
    error, margin = found.measured["block", "total"]
    assert abs(error - np.mean(apart)) <= 3 * margin < 0.2
    assert found.measured["all", "total"][0] == pytest.approx(abs(h.rows - 4000), abs=1)
    assert ("block", "race × adult") in found.measured
    assert "measured" in str(found)
    assert "measured" not in str(h.errors())
    with pytest.raises(InvalidParameter, match="no session"):
        h.without_ledger().errors(check=1)
    seen = h.without_ledger().errors(check=1000, frame=FRAME, relation=relation).measured
    assert seen.keys() == found.measured.keys()
    for key, (error, margin) in seen.items():  # the same tables at the same rows, with other noise
        assert abs(error - found.measured[key][0]) <= 3 * (margin + found.measured[key][1])
    with pytest.raises(InvalidParameter, match="look at the data"):
        h.errors(frame=FRAME)


def test_the_number_of_lines_of_a_text_file_is_not_public(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "people.csv", index=False)
    with session({"people": str(tmp_path / "people.csv")}) as s:
        with pytest.raises(InvalidParameter, match="may be left out"):
            s.hierarchy(**FIXED)
        assert s.remaining.epsilon == 25
        assert abs(s.hierarchy(**BY_CODE).rows - 4000) < 30


@pytest.mark.parametrize(
    ("more", "hint"),
    [
        ({"levels": ["block", "county"]}, "levels=['county', 'block']"),
        ({"levels": ["county", "block"], "filler": {"sex": "X"}}, "declared are 'F', 'M'"),
    ],
)
def test_levels_the_wrong_way_round_and_unknown_fillers_are_refused_with_what_is_right(
    more: dict[str, Any], hint: str
) -> None:
    frame = pd.DataFrame({"county": ["a", "b"], "block": ["a1", "b1"], "sex": ["F", "M"]})
    units = pd.DataFrame({"county": ["a", "a", "b"], "block": ["a1", "a2", "b1"]})
    facts = {"sex": dp.Values("F", "M")}
    terms: dict[str, Any] = {"population": "p", "budget": dp.Budget(3, 1e-5), "ledger": ":memory:"}
    session = dp.connect({"p": frame}, unit=dp.PrivacyUnit.row(), columns=facts, **terms)
    with session, pytest.raises(InvalidParameter) as caught:
        session.plan_hierarchy(units=units, attributes=["sex"], epsilon=1, delta=1e-6, **more)
    assert caught.value.hint == hint
