"""Synthetic data in a session and of a frame: charged, stored, certified, in the user's types."""

from __future__ import annotations

import datetime as dt
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.engine.session import Session
from discreet.errors import BudgetExceeded, InvalidParameter, MissingBounds, NotPrivate, UnknownColumn
from discreet.synth import Adaptive, Independent, Synthetic, load
from discreet.synth import asked as asking
from discreet.verify.certificate.checker import check

PLACE = np.arange(3000)
AGE = 18 + PLACE % 70
FRAME = pd.DataFrame(
    {
        "who": PLACE // 2,
        "age": AGE,
        "town": np.where(AGE > 50, "no'rth", np.where(AGE > 25, "south", "undeclared")),
        "born": [dt.date(2020, 1, 1) + dt.timedelta(days=int(a)) for a in AGE],
        "paid": np.where(PLACE % 10 == 0, np.nan, AGE * 10.5),
        "old": AGE > 50,
        "name": "x",
    }
)
COLUMNS: dict[str, Any] = {
    "age": dp.Range(18, 90),
    "town": dp.Values("no'rth", "south"),
    "born": dp.Range(dt.date(2020, 1, 1), dt.date(2020, 12, 31)),
    "paid": dp.Range(0, 1000),
    "old": dp.Values(True, False),
}
NAMES = [*COLUMNS]
ASKED: dict[str, Any] = {"epsilon": 10, "delta": "1e-6", "columns": NAMES, "bins": 20}


@pytest.fixture(scope="module", autouse=True)
def few_components() -> Iterator[None]:
    """Mixtures of few products, so that a fit takes little time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "COMPONENTS", 40)
        yield


def session(frame: pd.DataFrame = FRAME, **given: Any) -> Session:
    said: dict[str, Any] = {
        "budget": dp.Budget(25, "1e-5"),
        "unit": dp.PrivacyUnit("who", max_groups=1, max_rows=2),
        "columns": COLUMNS,
    } | given
    return dp.connect({"people": frame}, population="p", **{"ledger": ":memory:", **said})


@pytest.mark.exhaustive
def test_a_synthesis_is_charged_once_and_answered_again_from_the_ledger(tmp_path: Path) -> None:
    with session(ledger=tmp_path / "a.ledger") as s:
        plan = s.plan_synthesis(**ASKED)
        assert plan.price == "ε = 10, δ = 1e-06"
        assert plan.pairs == (10, 10)
        assert s.spent.epsilon(1e-6) == 0
        first = s.synthesize(**ASKED)
        assert not first.stored
        assert s.remaining.epsilon == 15
        again = s.synthesize(**ASKED)
        assert again.stored
        assert again.tables == first.tables
        assert (again._model.held == first._model.held).all()
        assert s.remaining.epsilon == 15
        assert first.cost.epsilon(1e-6) <= 10
        verdict = check(json.loads(json.dumps(first.certificate())), list(s._ledger.export()))
        assert verdict.broken is None, verdict.reason
    assert abs(first.rows - 3000) < 200
    sampled = first.sample(2000).to_pandas()
    assert [*sampled] == NAMES
    assert abs((sampled.old == (sampled.age > 50)).mean() - 1) < 0.1
    assert set(sampled.town) == {"no'rth", "south", "other"}
    assert {type(day) for day in sampled.born} <= {dt.date, type(None)}
    assert 0.03 < sampled.paid.isna().mean() < 0.2
    assert sampled.paid.between(0, 1000).sum() == sampled.paid.notna().sum()


@pytest.fixture(scope="module")
def made() -> Synthetic:
    domain = {name: COLUMNS[name] for name in ("age", "town", "old")}
    return Adaptive(epsilon=10, delta="1e-9", bins=20).fit(FRAME, domain)


def test_given_values_are_held_and_what_hardly_occurs_is_refused_with_the_number(made: Synthetic) -> None:
    assert set(made.sample(50, given={"town": "no'rth"}).cells[1]) == {"no'rth"}
    assert all(60 <= age < 76 for age in made.sample(50, given={"age": (64, 71)}).cells[0])
    assert made.sample(0).rows == []
    assert {old for _, _, old in made.sample(200, given={"age": 87})} <= {True, False, None}
    for given, words in (
        ({"town": "west"}, "no declared value"),
        ({"age": 200}, "outside of the declared range"),
        ({"age": "old"}, "takes a whole number"),
        ({"wage": 1}, "no column"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            made.sample(5, given=given)
    model = made._model
    model.held[:, model.columns[0].size] = 0  # no town is "no'rth"
    with pytest.raises(InvalidParameter, match="has a probability of 0, below 1e-06"):
        made.sample(5, given={"town": "no'rth"})


def test_marginals_add_up_to_the_rows() -> None:
    found = Independent(epsilon=5, delta="1e-9").fit(FRAME, {"town": COLUMNS["town"], "old": COLUMNS["old"]})
    assert isinstance(found, Synthetic)
    one, two = found.marginal("old"), found.marginal("old", "town")
    assert [row[0] for row in one] == [True, False, None]
    assert sum(n for *_, n in two) == pytest.approx(found._model.rows)
    assert dict(one)[True] == pytest.approx(sum(n for old, _, n in two if old), rel=1e-3)
    assert "not measured" in str(found.report())
    with pytest.raises(InvalidParameter, match="one column or two"):
        found.marginal()
    with pytest.raises(InvalidParameter, match="without a ledger"):
        found.certificate()


def test_structural_zeros_never_occur() -> None:
    zeros: list[dict[str, Any]] = [{"old": True, "age": (18, 51)}, {"town": "south"}]
    domain = {name: COLUMNS[name] for name in ("age", "town", "old")}
    found = Adaptive(epsilon=1, delta="1e-9", structural_zeros=zeros, bins=37).fit(FRAME, domain)
    assert not [row for row in found.sample(3000) if row[1] == "south" or (row[2] and (row[0] or 99) <= 51)]
    assert dict(found.marginal("town"))["south"] == 0
    with pytest.raises(InvalidParameter, match="fewer than 1 in 1000"):
        found.sample(5, given={"town": "south"})


def test_a_model_file_has_all_but_the_certificate(tmp_path: Path, made: Synthetic) -> None:
    domain = {name: COLUMNS[name] for name in NAMES}
    found = Independent(epsilon=5, delta="1e-9", structural_zeros=[{"town": "south"}]).fit(FRAME, domain)
    found.save(tmp_path / "a.model")
    again = load(tmp_path / "a.model")
    assert again.marginal("born", "town") == found.marginal("born", "town")
    assert str(again.report()) == str(found.report())
    assert len(again.sample()) == again.rows == found.rows
    for ask in (again.certificate, lambda: again.cost):
        with pytest.raises(InvalidParameter, match="file"):
            ask()
    for bad in (b"", b"PK\x03\x04", b'{"a": 1}'):
        (tmp_path / "b.model").write_bytes(bad)
        with pytest.raises(InvalidParameter, match="no model file"):
            load(tmp_path / "b.model")
    pickled = np.array([{"a": 1}], object)
    np.savez(tmp_path / "c.npz", model=pickled, held=np.zeros((1, 1)))
    with pytest.raises(InvalidParameter, match="no model file"):
        load(tmp_path / "c.npz")


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"columns": ["age", "wage"]}, UnknownColumn, "'wage'"),
        ({"columns": None}, MissingBounds, "'name'"),
        ({"columns": "age"}, InvalidParameter, "list"),
        ({"columns": ["age", "age"]}, InvalidParameter, "twice"),
        ({"delta": 0}, NotPrivate, "δ above 0"),
        ({"delta": None}, NotPrivate, "delta="),
        ({"method": "magic"}, InvalidParameter, "'adaptive', 'independent', 'mst'"),
        ({"workload": [("age", "wage")]}, InvalidParameter, "no pair of columns"),
        ({"workload": {("age", "town"): 1000}}, InvalidParameter, "from 1 to 100"),
        ({"label": "wage"}, InvalidParameter, "none of the columns"),
        ({"bins": 3000}, InvalidParameter, "at most 2,048 are measured; 'paid' alone has 3,001"),
        ({"structural_zeros": [{"wage": 1}]}, InvalidParameter, "'wage'"),
        ({"structural_zeros": [{"old": 3}]}, InvalidParameter, "no declared value"),
        ({"structural_zeros": [{"age": (18, 50)}]}, InvalidParameter, "inside of a bin"),
        ({"table": "persons"}, UnknownColumn, "'persons'"),
        ({"bins": 3, "columns": ["born"], "epsilon": -1}, InvalidParameter, "epsilon"),
        ({"epsilon": 21}, InvalidParameter, "."),
    ],
)
def test_what_cannot_be_made_is_refused_and_charges_nothing(asked: Any, error: Any, words: str) -> None:
    with session() as s:
        with pytest.raises((error, BudgetExceeded) if words == "." else error, match=words):
            s.synthesize(**{**ASKED, **asked})
        assert s.remaining.epsilon == 25


def test_frames_need_a_domain() -> None:
    with pytest.raises(MissingBounds, match="domain="):
        Adaptive(epsilon=1, delta="1e-6").fit(FRAME, {"age": (1, 2)})  # type: ignore[dict-item]
    with pytest.raises(UnknownColumn):
        Adaptive(epsilon=1, delta="1e-6").fit(FRAME, {"wage": dp.Values(1, 2)})


def test_people_with_many_rows_count_with_some_of_them() -> None:
    frame = FRAME.assign(who=np.where(PLACE < 1500, 0, PLACE))  # one person has half of all rows
    with session(frame) as s:
        found = s.synthesize(**{**ASKED, "columns": ["old"], "epsilon": 20})
    assert abs(found.rows - 1502) < 60
    with session(frame, relation="replace") as s:
        twice = s.plan_synthesis(**ASKED)
    with session(frame) as s:
        once = s.plan_synthesis(**ASKED)
    assert twice.sigma == pytest.approx(math.sqrt(2) * once.sigma, rel=1e-3)


@pytest.mark.exhaustive
def test_choices_of_pairs_are_refused_in_accounts_of_gaussian_noise() -> None:
    columns = {f"c{i}": dp.Values(True, False) for i in range(11)}
    frame = pd.DataFrame(dict.fromkeys(columns, AGE > 50))
    given: dict[str, Any] = {"unit": dp.PrivacyUnit.row(), "columns": columns, "filter": "gdp"}
    with session(frame, **given) as s:
        assert s.plan_synthesis(epsilon=1, delta="1e-6").pairs == (36, 55)
        with pytest.raises(InvalidParameter, match="the gdp filter cannot add it up"):
            s.synthesize(epsilon=1, delta="1e-6")
        made = s.synthesize(epsilon=1, delta="1e-6", workload={("c0", "c1"): 3, ("c2", "c1"): 1}, label="c1")
        assert [fact.columns for fact in made._model.facts[11:] if fact.sigma] == [("c0", "c1"), ("c1", "c2")]
    with session(frame, **given | {"filter": "zcdp"}) as s:
        made = s.synthesize(epsilon=1, delta="1e-6")
        assert sum(fact.sigma is not None for fact in made._model.facts[11:]) == 36
        same = made.sample(1000)
        assert np.mean([a == b for a, b, *_ in same]) > 0.9


def test_two_tables_make_no_synthetic_one() -> None:
    unit = dp.PrivacyUnit("who", max_groups=1, max_rows=2)
    with (
        dp.connect(
            {"a": FRAME, "b": FRAME}, unit=unit, columns=COLUMNS, population="p", budget=dp.Budget(1), ledger=":memory:"
        ) as s,
        pytest.raises(InvalidParameter, match="several tables"),
    ):
        s.synthesize(**ASKED)
