"""Round trips of all types and sizes through synthetic data, and prices recomputed from certificates alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import discreet as dp
from discreet.accounting.loss import PrivacyLoss
from discreet.audit import distinguish
from discreet.engine.person_recipe import run_on_arrays
from discreet.engine.session import Session
from discreet.errors import InvalidParameter
from discreet.privacy.unit import PrivacyUnit
from discreet.synth import Independent
from discreet.synth import asked as asking
from discreet.synth.recipe import AdaptiveSynthesis
from tests.synth.test_recipe import synthesis, table

ROWS = 1200
AT = np.arange(ROWS)
FRAME = pa.table(
    {
        "price": pa.array([Decimal(int(i % 40)) / 4 for i in AT], pa.decimal128(8, 2)),
        "day": [dt.date(2024, 1, 1) + dt.timedelta(days=int(i % 31)) for i in AT],
        "at": [dt.datetime(2024, 1, 1) + dt.timedelta(hours=int(i % 48)) for i in AT],
        "name": ["ann" if i % 3 else None for i in AT],
        "on": [bool(i % 2) if i % 5 else None for i in AT],
        "n": pa.array((AT % 7).tolist(), pa.int16()),
        "code": pa.array((AT % 3 * 1000).tolist(), pa.int64()),
    }
)
DOMAIN: dict[str, Any] = {
    "price": dp.Range(0, 10),
    "day": dp.Range(dt.date(2024, 1, 1), dt.date(2024, 1, 31)),
    "at": dp.Range(dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 3)),
    "name": dp.Values("ann", None),
    "on": dp.Values(True, False, None),
    "n": dp.Range(0, 6),
    "code": dp.Values(0, 1000, 2000),
}


@pytest.fixture(scope="module", autouse=True)
def few_components() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "COMPONENTS", 5)
        yield


def test_values_come_back_in_the_types_of_the_data() -> None:
    made = Independent(epsilon=15, delta="1e-6", bins=40).fit(FRAME, DOMAIN)
    rows = made.sample(3000).to_pandas()
    assert [*rows] == [*DOMAIN]
    price = pd.to_numeric(rows.price).dropna()
    assert price.between(0, 10).all() and abs(price.mean() - 4.875) < 0.5
    days = rows.day.dropna()
    assert {type(day) for day in days} == {dt.date} and days.nunique() == 31
    moments = pd.to_datetime(rows["at"]).dropna()
    assert moments.between("2024-01-01", "2024-01-03").all() and moments.nunique() > 1000
    assert abs((rows.name == "ann").mean() - 2 / 3) < 0.06
    assert abs(rows.name.isna().mean() - 1 / 3) < 0.06
    assert abs(rows.on.isna().mean() - 1 / 5) < 0.06 and {*rows.on.dropna()} == {True, False}
    assert {*rows.n.dropna()} <= {*range(7)} and {*rows.code.dropna()} == {0, 1000, 2000}
    assert made.interval("SELECT COUNT(*) FROM t WHERE day < DATE '2024-01-16'", 1 - 1e-9).low < 590
    back = made.sample(50).to_arrow()
    assert back.num_rows == 50 and back.column_names == [*DOMAIN]


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("method", ["adaptive", "independent", "mst", "mwem"])
def test_no_row_and_one_row_make_data_like_any(rows: int, relation: str, method: str) -> None:
    few = {name: DOMAIN[name] for name in ("on", "code")}
    with session(FRAME.select([*few]).slice(0, rows), few, relation=relation) as s:
        made = s.synthesize(epsilon=1, delta="1e-6", method=method)
        assert len(made.sample(20)) == 20
        assert made.rows >= 1


def session(frame: Any, columns: Any, **given: Any) -> Session:
    said: dict[str, Any] = {"unit": PrivacyUnit.row(), "population": "p", "ledger": ":memory:"}
    return dp.connect({"t": frame}, columns=columns, budget=dp.Budget(9, "1e-5"), **said | given)


def test_ten_thousand_declared_values_are_refused_with_the_number() -> None:
    many = {"code": dp.Values(*range(10_000)), "n": dp.Range(0, 6)}
    with session(FRAME.select(["code", "n"]), many) as s:
        with pytest.raises(InvalidParameter, match=r"10,009 values and bins in all, .* alone has 10,001"):
            s.synthesize(epsilon=1, delta="1e-6")
        assert s.remaining.epsilon == 9
    with (
        session(FRAME.select(["code"]), {"code": dp.Values(*range(1900))}) as s,
        pytest.raises(InvalidParameter, match="'code' has 1,901 values or bins, are too many"),
    ):
        s.synthesize(epsilon=1, delta="1e-6")


@pytest.mark.exhaustive
def test_rare_values_are_merged_with_the_number() -> None:
    many = {"code": dp.Values(*range(0, 1000, 2), 2000), "n": dp.Range(0, 6)}
    with session(FRAME.select(["code", "n"]), many) as s:
        made = s.synthesize(epsilon=1, delta="1e-6", method="independent")
    fact = made._model.facts[0]
    assert fact.merged > 400
    assert f"merged, and are equally likely: code ({fact.merged})" in str(made.report())


def rho_of(certificate: Any) -> Fraction:
    """Return ρ from the noise scales and norms of a certificate alone."""
    claim, total = certificate["claim"], Fraction(0)
    for part in claim["parts"]:
        replaced = claim["relation"] == "replace"
        if part["kind"] == "whole":
            assert Fraction(part["law"]["selection"]["sensitivity"]) == int(part["norms"]["linf"])
            total += int(part["times"]) * Fraction(part["law"]["selection"]["epsilon"]) ** 2 / 8
        else:  # two histograms at most √2 times as far apart as one is long; in one cell no further than it is long
            square = int(part["norms"]["l2_squared"]) * (2 if replaced and int(part["width"]) > 1 else 1)
            total += int(part["times"]) * square / (2 * Fraction(part["law"]["noise"]["sigma"]) ** 2)
    return total


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("method", ["adaptive", "independent", "mst", "aim", "mwem"])
def test_the_rho_of_a_certificate_is_the_sum_of_its_events(method: str, relation: str) -> None:
    few = {name: DOMAIN[name] for name in ("on", "code", "name")}
    with session(FRAME.select([*few]), few, relation=relation, filter="basic") as s:
        found = s.synthesize(epsilon=1, delta="1e-6", method=method).certificate()
    said = Fraction(0)
    for event in found["claim"]["charged"]["events"]:
        if event["event"] == "gaussian":
            said += int(event["count"]) * Fraction(event["mu_squared"]) / 2
        else:
            assert event["event"] == "bounded-range"
            said += int(event["count"]) * Fraction(event["epsilon"]) ** 2 / 8
    assert said == rho_of(found)
    assert dp.accounting.zcdp(said).epsilon(delta=1e-6) >= 0.99


@pytest.mark.laws
def test_a_number_of_rows_that_is_exact_is_caught_under_add_remove() -> None:
    recipe = synthesis(
        AdaptiveSynthesis, columns=synthesis().columns[:1], candidates=(), weights=(), components=1, per_person=1
    )
    plan = recipe.plan([table(rows=1)])

    def number(exact: bool) -> Any:
        def of(rows: int, n: int) -> Any:
            given = np.arange(rows), {"c0": np.zeros(rows)}
            seen = [sum(run_on_arrays(recipe, plan, *given)["columns"]) for _ in range(n)]
            return np.array([rows] * n if exact else seen)

        return of

    claim = PrivacyLoss(plan.payers[0].events)
    verdicts = [
        distinguish(number(e), 10, 11, claim, samples=500, error=1e-9, probes=False).violated for e in (False, True)
    ]
    assert verdicts == [False, True]
