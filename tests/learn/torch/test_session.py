"""Training in a session: what rows become, what one person may add, what is charged, and how a run goes on."""

from __future__ import annotations

import copy
import math
import os
import signal
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import discreet as dp
from discreet.catalog.schema import Fact, TableSchema
from discreet.catalog.types import Type
from discreet.engine.person_parts import PeopleRows, people_of
from discreet.engine.recipe import Draw
from discreet.engine.session import Session
from discreet.errors import BudgetExceeded, DiscreetError, InvalidParameter
from discreet.learn.torch import PrivateTrainer, TrainedModel
from discreet.learn.torch import session as in_session
from discreet.learn.torch.clipping import Clipper
from discreet.learn.torch.session import Training, training_of
from discreet.plan.plan import Plan
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.recipes import Running
from discreet.verify.certificate.checker import check
from tests.contracts.recipes import CHECKS, SHORT, Effort, RecipeRow, faults
from tests.contracts.recipes_row import FACTS, UNIT
from tests.engine.test_charges import DELTA, FILTERS, PAYERS, PAYS, REASONS, D, charges, refused_as, spent

pytestmark = pytest.mark.filterwarnings("ignore:After 20 steps")

FRAME = pd.DataFrame(
    {
        "who": [0, 0, 0, 1, 2, 3, 4, 4, 5],
        "x": [-2, 2, None, 1.5, math.nan, 9, math.inf, 0, 1],
        "ward": ["a", "b", "c", "other", None, "a", "b", "a", "c"],
        "sick": ["no", "yes", "yes", "no", "yes", "maybe", None, "no", "no"],
    }
)
COLUMNS: dict[str, Fact] = {"x": dp.Range(-2, 2), "ward": dp.Values("a", "b", "c"), "sick": dp.Values("yes", "no")}
TRUSTED: Any = {"features": ["ward", "x"], "target": "sick", "trusted_code": True}


def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(model(x), y, reduction="none")


def squared(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return (model(x)[:, 0] - y).square()


def make(wide: int = 5, *, out: int = 2, loss_fn: Any = loss, lr: float = 0.1, **given: Any) -> PrivateTrainer:
    torch.manual_seed(3)
    model = nn.Linear(wide, out)
    asked: dict[str, Any] = {"epsilon": 2, "delta": DELTA, "steps": 3, "batch_size": 4, "max_grad_norm": 1.0}
    return PrivateTrainer(model, loss_fn, torch.optim.Adam(model.parameters(), lr=lr), **{**asked, **given})


def connect(place: Any = ":memory:", rows: int = 2, frame: pd.DataFrame = FRAME, **given: Any) -> Session:
    unit = dp.PrivacyUnit("who", max_groups=1, max_rows=rows)
    asked: dict[str, Any] = {"budget": dp.Budget(20, "1e-4"), "columns": COLUMNS, "population": "p"}
    return dp.connect({"t": frame}, ledger=place, unit=unit, **{**asked, **given})


def kinds(s: Session) -> list[str]:
    return [e.kind for e in s.history()]


# ------------------------------------------------------------------ what is asked and what comes out
def test_a_training_is_charged_with_its_count_and_has_a_certificate(tmp_path: Path) -> None:
    with connect() as s:
        trainer = make()
        before = copy.deepcopy(trainer.model.state_dict())
        plan = s.plan_train(trainer, people=40, **TRUSTED)
        assert "Counting people costs ε = 0.04 besides." in str(plan)
        assert not s.history()
        found = s.train(trainer, **TRUSTED)
        assert isinstance(found, TrainedModel)
        assert found.model is trainer.model
        assert not torch.equal(before["weight"], trainer.model.state_dict()["weight"])
        assert [e.epsilon for e in s.history() if e.kind == "charge"] == [Fraction(1, 25), Fraction(49, 25)]
        assert s.remaining.epsilon == 18
        assert found.cost.epsilon(delta=DELTA) == pytest.approx(1.96)
        assert check(found.certificate()).ok
        with pytest.raises(InvalidParameter, match=r"session\.spent"):
            trainer.spent(delta=DELTA)
        s.train(make(), **TRUSTED)  # without a checkpoint it is another training; the count is known
        assert s.remaining.epsilon == 18 - Fraction(49, 25)


def test_the_same_training_is_free_where_its_checkpoint_is(tmp_path: Path) -> None:
    place, kept = tmp_path / "a.ledger", tmp_path / "run.ckpt"
    with connect(place) as s:
        first = s.train(make(rows=40), **TRUSTED, checkpoint=kept)
        charged = s.remaining
    with connect(place) as s:
        again = s.train(make(rows=40), **TRUSTED, checkpoint=kept)
        assert again.stored and s.remaining == charged
        assert again.rows == first.rows
        assert torch.equal(again.model.weight, first.model.weight)
        assert check(again.certificate()).ok
        others = (
            make(rows=40, lr=0.2),
            make(rows=40, batch_size=5),
            make(rows=40, loss_fn=lambda m, x, y: loss(m, x, y)),
        )
        for i, other in enumerate(others):
            assert not s.train(other, **TRUSTED, checkpoint=tmp_path / f"{i}.ckpt").stored
            left = s.remaining
            with pytest.raises(InvalidParameter, match=r"is of another training.*\n.*manual_seed"):
                s.train(other, **TRUSTED, checkpoint=kept)
            assert s.remaining == left
        kept.write_bytes((tmp_path / "0.ckpt").read_bytes())
        with pytest.raises(InvalidParameter, match="is of another training"):
            s.train(make(rows=40), **TRUSTED, checkpoint=kept)
        with pytest.raises(InvalidParameter, match="no such folder"):
            s.train(make(rows=40), **TRUSTED, checkpoint=tmp_path / "none" / "run.ckpt")
        assert not s.train(make(rows=40), **TRUSTED, checkpoint=kept, fresh=True).stored


@pytest.mark.parametrize("encode", ["one-hot", "index"])
def test_a_trained_model_predicts_rows_as_they_are_and_is_measured(encode: str) -> None:
    class Net(nn.Module):
        """Of numbers, and of places of values where they are given apart."""

        def __init__(self) -> None:
            super().__init__()
            self.last = nn.LazyLinear(2)

        def forward(self, *x: Tensor) -> Tensor:
            return self.last(torch.cat([own.reshape(len(own), -1).float() for own in x], 1))  # type: ignore[no-any-return]

    with connect() as s:
        net = Net()
        net(*([torch.zeros(1, 5)] if encode == "one-hot" else [torch.zeros(1, 1), torch.zeros(1, 1)]))

        def of(model: nn.Module, *both: Tensor) -> Tensor:
            return nn.functional.cross_entropy(model(*both[:-1]), both[-1], reduction="none")

        sgd = torch.optim.SGD(net.parameters(), lr=0.1)
        given: dict[str, Any] = {"epsilon": 2, "delta": DELTA, "steps": 3, "batch_size": 4, "max_grad_norm": 1.0}
        found = s.train(PrivateTrainer(net, of, sgd, rows=40, **given), **TRUSTED, encode=encode)
        told = found.predict(FRAME)
        assert len(told) == len(FRAME) and {*told.tolist()} <= {*found._asked.labels}
        assert (found.predict(FRAME[found.feature_names_in_].to_numpy(object)) == told).all()
        how: dict[str, Any] = {"target": TRUSTED["target"], "epsilon": 5, "trusted_code": True}
        first = s.evaluate(found, **how)
        assert 0 <= first.accuracy.value <= 1
        assert s.evaluate(found, **how).stored


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "would run beside the data": ({}, {"trusted_code": False}),
    "A session charges ε and δ": ({"epsilon": None, "delta": None, "noise_multiplier": 1, "rows": 9}, {}),
    "needs the number of people": ({"sampling": "fixed"}, {}),
    "In a session noise is independent": ({"noise": "banded"}, {}),
    "encode must be": ({}, {"encode": "hash"}),
    "age": ({}, {"target": "age"}),
    r"fails on rows that were made up, of shapes \[\(5,\), \(\)\]": ({"wide": 7}, {}),
    "transform made no tensors": ({}, {"transform": lambda x: None}),
}


@pytest.mark.parametrize("says", REFUSED)
def test_it_is_refused_before_anything_is_charged_or_opened(says: str) -> None:
    with connect() as s:
        with pytest.raises(InvalidParameter if says != "age" else DiscreetError, match=says):
            s.train(make(**REFUSED[says][0]), **TRUSTED | REFUSED[says][1])
        assert kinds(s) == []


def test_a_trainer_has_one_source_of_rows() -> None:
    model, data = nn.Linear(5, 2), (torch.zeros(9, 5), torch.zeros(9, dtype=torch.long))
    sgd = torch.optim.SGD(model.parameters())
    own = PrivateTrainer(model, loss, sgd, data, batch_size=4, max_grad_norm=1, epsilon=1, delta=D, steps=2)
    with connect() as s, pytest.raises(InvalidParameter, match="made without a dataset"):
        s.train(own, **TRUSTED)
    with pytest.raises(InvalidParameter, match="has no dataset"):
        make().fit()


def test_nothing_is_counted_where_the_training_cannot_be_paid() -> None:
    with connect(budget=dp.Budget("1.99", "1e-4")) as s:
        with pytest.raises(BudgetExceeded):
            s.train(make(), **TRUSTED)
        assert kinds(s) == []


def test_a_policy_lets_no_model_be_trained(tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "discreet.toml").write_text(
        f'[population.p]\nledger = "{tmp_path / "a.ledger"}"\nbudget = {{ epsilon = 10 }}\n'
        f'[table.t]\nsource = "{tmp_path / "t.parquet"}"\npopulation = "p"\nunit = "who"\nmax_groups = 1\n'
        "max_rows = 2\n"
    )
    with dp.connect(tmp_path / "discreet.toml") as s, pytest.raises(InvalidParameter, match="opened by a policy"):
        s.train(make(), **TRUSTED)


# ------------------------------------------------------------------ what rows become
SCHEMA = TableSchema(
    "t",
    {"who": Type.INT, "x": Type.REAL, "ward": Type.TEXT, "sick": Type.TEXT},
    COLUMNS,
    PrivacyUnit("who", max_groups=1, max_rows=2),
    Relation.ADD_REMOVE,
)


def rows_of(recipe: Training) -> PeopleRows:
    """Return the people of the frame, as the meter hands them."""
    with connect(rows=3) as s:
        read = recipe.read(s._desk.tables)
        return people_of(read, s._desk.backend.columns(read.sql, {"secret": 1}))


def test_rows_come_in_the_order_of_the_features_within_their_bounds() -> None:
    asked: Any = {"features": ["ward", "x"], "target": "sick"}
    recipe = replace(training_of(make(rows=9), [SCHEMA], **asked), per_person=3)
    people = rows_of(recipe)
    (x, y), fits = recipe._tensors(people)
    found = {(*map(float, row), int(k)) for row, k, fit in zip(x, y, fits, strict=True) if fit}
    wards = {name: tuple(np.eye(4)[k]) for k, name in enumerate(["a", "b", "c", "other"])}
    assert x.dtype == torch.float32
    assert found == {
        (*wards["a"], -1, 0),
        (*wards["b"], 1, 1),
        (*wards["c"], 0, 1),  # NULL is the middle
        (*wards["other"], 0.75, 0),
        (*wards["other"], 0, 1),  # as NaN and as a value that is NULL
        (*wards["a"], 0, 0),
        (*wards["c"], 0.5, 0),
    }
    by_place = replace(training_of(make(rows=9), [SCHEMA], **asked), encode="index")
    (numbers, wards_at, _), _ = by_place._tensors(people)
    assert numbers.shape == (9, 1) and wards_at.dtype == torch.int64
    assert set(wards_at.tolist()) == {0, 1, 2, 3}
    (x, goal), fits = training_of(make(4, out=1, loss_fn=squared), [SCHEMA], features=["ward"], target="x")._tensors(
        people
    )
    assert bool(fits.all()) and float(goal.abs().max()) == 2


def test_a_row_that_transform_or_the_model_fails_on_adds_nothing() -> None:
    def picky(x: Tensor) -> Tensor:
        if float(x[0]) > 0.5:  # ward a
            raise ValueError("a row of ward a")
        return x[1:] if float(x[1]) < 0.5 else x  # that of ward b has another shape

    asked: Any = {"features": ["ward", "x"], "target": "sick"}
    whole = training_of(make(4, rows=9), [SCHEMA], **asked, transform=lambda x: x[1:])
    recipe = training_of(make(4, rows=9), [SCHEMA], **asked, transform=lambda x: x[1:])
    recipe = replace(recipe, transform=picky)
    people = rows_of(recipe)
    (x, _), fits = recipe._tensors(people)
    assert int(fits.sum()) == 4 and x.shape == (len(fits), 4)
    of_whole = whole._tensors(people)[0][0]
    assert torch.equal(x[fits], of_whole[fits])

    def fussy(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        if bool((x[:, 4] > 0.9).any()):
            raise ValueError("a row of an x that is large")
        return loss(model, x, y)

    def careful(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return loss(model, x, y) * torch.where(x[:, 4] > 0.9, torch.nan, 1)

    totals = []
    for own in (fussy, careful):
        recipe = training_of(make(rows=9, physical_batch=16), [SCHEMA], **asked)
        recipe.trainer._fitted().loss = own
        recipe.trainer._plan = recipe.training
        totals.append(recipe.whole(people, "", None))
    assert np.abs(totals[0] - totals[1]).max() <= 1
    assert np.abs(totals[0]).max() > 1000


def test_one_person_moves_little_where_the_model_fails_on_places_without_a_row() -> None:
    """A full piece has none, and one person fewer leaves one."""
    asked: Any = {"features": ["ward", "x"], "target": "sick"}
    one_row = replace(SCHEMA, unit=PrivacyUnit("who", max_groups=1, max_rows=1))
    recipe = training_of(make(rows=9, physical_batch=4), [one_row], **asked)
    people, moved = rows_of(recipe), float(recipe.trainer._noise_of(Fraction(1), None, 1).sensitivity)  # type: ignore[arg-type]
    people = people.take(np.flatnonzero(recipe._tensors(people)[1].numpy()[people.starts[:-1]])[:4])
    fewer = people.take(np.arange(3))
    for empty in (torch.zeros(5), *(x[0] for x in recipe.start.get("empty", [])[:1])):

        def fussy(model: nn.Module, x: Tensor, y: Tensor, empty: Tensor = empty) -> Tensor:
            if bool((x == empty).all(1).any()):
                raise ValueError("a place without a row")
            return loss(model, x, y)

        recipe.trainer._fitted().loss = fussy
        recipe.trainer._plan = recipe.training
        one, other = recipe.whole(people, "", None), recipe.whole(fewer, "", None)
        assert float(np.linalg.norm(one - other)) <= moved


def test_what_is_dropped_out_follows_from_no_known_state() -> None:
    def dropped(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return loss(model, functional.dropout(x, 0.5), y)

    asked: Any = {"features": ["ward", "x"], "target": "sick"}
    recipe = training_of(make(rows=9, loss_fn=dropped), [SCHEMA], **asked)
    recipe.trainer._plan, people, found = recipe.training, rows_of(recipe), set()
    for _ in range(4):
        torch.manual_seed(1)
        before = torch.get_rng_state()
        found.add(recipe.whole(people, "", None).tobytes())
        assert torch.equal(before, torch.get_rng_state())
    assert len(found) > 1


# ------------------------------------------------------------------ the contract
def row(
    name: str, kind: type[Training] = Training, relation: Relation = Relation.ADD_REMOVE, **given: Any
) -> RecipeRow:
    scheme: dict[str, Any] = {} if relation is Relation.ADD_REMOVE else {"sampling": "fixed"}
    asked: Any = {"features": ["ward", "x"], "target": "n"}
    columns = {"who": Type.INT, "ward": Type.TEXT, "x": Type.REAL, "n": Type.INT, "code": Type.INT, "v": Type.REAL}
    table = TableSchema("t", columns, FACTS, UNIT, relation)

    def make_recipe() -> Training:
        own = make(out=1, loss_fn=squared, lr=0.5, rows=400, batch_size=200, physical_batch=400, **scheme, **given)
        found = training_of(own, [table], **asked)
        return kind(**{name: getattr(found, name) for name in found.__dataclass_fields__})

    return RecipeRow(name, make_recipe, relations=(relation,))


@pytest.fixture
def in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """People stand in the order of the rows: what is compared is then exact."""
    monkeypatch.setattr(in_session, "random_order", lambda n, rng: np.arange(n))


@pytest.mark.exhaustive
@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE], ids=str)
@pytest.mark.parametrize("check_of", CHECKS, ids=lambda check_of: check_of.__name__)
@pytest.mark.usefixtures("in_one_order")
def test_a_training_holds_the_contract_of_recipes(check_of: Any, relation: Relation) -> None:
    assert list(check_of(row("training", relation=relation), relation, SHORT)) == []


class Unclipped(Training):
    """Rows are as long as they are."""

    def whole(self, people: PeopleRows, of: str, args: Any) -> Any:
        clipper = self.trainer._fitted()
        clipper.sums = lambda rows, limit, **given: Clipper.sums(clipper, rows, 1e6, **given)  # type: ignore[method-assign]
        return super().whole(people, of, args)


class ByRow(Training):
    """Each row is clipped, and a person has two."""

    def whole(self, people: PeopleRows, of: str, args: Any) -> Any:
        apart = PeopleRows(people._read, people.matrix.copy(), np.arange(len(people.matrix)), len(people.matrix))
        return super().whole(apart, of, args)


class DrawnTwice(Training):
    """The mean of two draws has less noise."""

    def run(self, plan: Plan) -> Running[Any]:
        inner = super().run(plan)
        step = next(inner)
        while True:
            one = yield Draw(step.of)  # type: ignore[union-attr]
            two = yield Draw(step.of)  # type: ignore[union-attr]
            step = inner.send((one + two) // 2)


class RaisesLate(Training):
    """The private part fails for some people where the weights are large."""

    def whole(self, people: PeopleRows, of: str, args: Any) -> Any:
        if (
            not bool((next(self.trainer.model.parameters()).abs() < 1.2).all())
            and people.size
            and int(people.column("y").max()) > 2
        ):  # type: ignore[operator, union-attr]
            raise ValueError("of a person")
        return super().whole(people, of, args)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("kind", "wanted"),
    [(Unclipped, {"bounds"}), (ByRow, {"bounds"}), (DrawnTwice, {"paid for"}), (RaisesLate, {"raises"})],
    ids=["Unclipped", "ByRow", "DrawnTwice", "RaisesLate"],
)
@pytest.mark.usefixtures("in_one_order")
def test_a_broken_twin_is_rejected_for_what_is_broken(kind: type[Training], wanted: set[str]) -> None:
    assert {fault.check for fault in faults(row("a broken twin", kind), Effort(30, 1, SHORT.scripts, far=1))} == wanted


# ------------------------------------------------------------------ runs that go on
class Stopped(Exception):
    """What stops a training."""


class Stops:
    """A schedule that stops the training after so many steps."""

    def __init__(self, after: int) -> None:
        self.left = after

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Stopped

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


@pytest.mark.parametrize("after", [0, 15, 16, 20, 39])
def test_a_training_that_was_stopped_goes_on_without_another_charge(tmp_path: Path, after: int) -> None:
    kept = tmp_path / "run.ckpt"
    given: Any = {**TRUSTED, "checkpoint": kept}
    with connect(tmp_path / "a.ledger") as s:
        with pytest.raises(Stopped):
            s.train(make(rows=40, steps=40), **given, scheduler=Stops(after))
        charged = s.remaining
        at = kept.read_bytes()
        kept.write_bytes(b"")
        with pytest.raises(InvalidParameter, match="is no checkpoint"):
            s.train(make(rows=40, steps=40), **given, scheduler=Stops(99))
        kept.write_bytes(at)
        found = s.train(make(rows=40, steps=40), **given, scheduler=Stops(99))
        assert s.remaining == charged
        assert found.rows[0] == ("steps", "40")
        assert s.train(make(rows=40, steps=40), **given, scheduler=Stops(0)).stored
        assert check(found.certificate()).ok
        assert kinds(s).count("charge") == 1


def test_a_training_that_was_killed_goes_on(tmp_path: Path) -> None:
    given: Any = {**TRUSTED, "checkpoint": tmp_path / "run.ckpt"}
    child = os.fork()
    if not child:
        try:
            with connect(tmp_path / "a.ledger") as s:
                s.train(make(rows=40, steps=40, loss_fn=loss), **given, scheduler=Killed(20))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with connect(tmp_path / "a.ledger") as s:
        paid = s.remaining
        assert kinds(s)[-1] == "begun"
        assert s.history()[-1].content.draws == 32  # type: ignore[union-attr]
        s.train(make(rows=40, steps=40), **given, scheduler=Killed(99))
        assert s.remaining == paid
        assert s._ledger.verify().ok


class Killed(Stops):
    """A schedule that kills the process."""

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            os.kill(os.getpid(), signal.SIGKILL)


# ------------------------------------------------------------------ what is charged
TRAINS = "train"


def trains(s: Session) -> object:
    replaced = next(iter(s.accounts.values())).relation is Relation.REPLACE
    given: Any = {"sampling": "fixed"} if replaced else {}
    own = make(1, out=1, loss_fn=squared, epsilon=1, rows=20, **given)
    return s.train(own, features=["n"], target="w", trusted_code=True)


@pytest.mark.parametrize("pays", PAYS)
def test_it_is_charged_as_the_page_says_or_refused_before_anything(pays: str, tmp_path: Path) -> None:
    cell = (FILTERS if pays in FILTERS[TRAINS] else PAYERS)[TRAINS][pays]
    with PAYS[pays].session(tmp_path, 2) as s:
        before, had = spent(s), [len(a.history()) for a in s.accounts.values()]
        if cell.startswith("no: "):
            with pytest.raises(DiscreetError) as raised:
                trains(s)
            refused_as(REASONS[cell.removeprefix("no: ")], raised.value)
            assert spent(s) == before
            assert [len(a.history()) for a in s.accounts.values()] == had
            return
        trains(s)
        (account,) = s.accounts.values()
        (charge,) = charges(account)
        assert [repr(event) for event, _ in charge.charge.events] == [
            f"ApproximateEvent(epsilon=Fraction(1, 1), delta=Fraction(1, {10**6}))"
        ]
        assert charge.charge.guarantee.epsilon == 1
        wanted = {"basic": "ε, δ", "zcdp": "ρ, δ"}.get(PAYS[pays].rule, "D, δ")
        assert cell == ("all" if pays.startswith("per person") else wanted)
