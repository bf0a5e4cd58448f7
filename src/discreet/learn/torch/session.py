"""Training on a session's tables: people's rows as tensors, and the recipe whose draws are noisy gradients.

The meter draws who is in a step and adds the noise; the public side sees noisy sums alone. In between the model and its
loss, the caller's trusted code, run on people's rows: nothing of what they print, warn of or raise leaves.

References:
    docs/proofs/torch.md, "In a session".
"""

from __future__ import annotations

import copy
import hashlib
import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from discreet.accounting.loss import PrivacyLoss
from discreet.catalog.schema import Values, find_table
from discreet.engine.open_run import AHEAD
from discreet.engine.person_recipe import RecipeTable
from discreet.engine.recipe import Draw
from discreet.errors import InvalidParameter
from discreet.learn.asked import AskedColumns, DeclaredRows
from discreet.learn.features import DeclaredColumn, numbers_of
from discreet.learn.torch import checkpoint
from discreet.learn.torch.batches import chance_seed, own_chance, random_order
from discreet.learn.torch.layers import RowSums
from discreet.learn.torch.trainer import COUNTED, PrivateTrainer, TrainingPlan
from discreet.learn.trusted import digest, silent
from discreet.mechanisms.additive import RoundedGaussianNoise
from discreet.mechanisms.draws import AddedNoise
from discreet.mechanisms.samples import OneOfSteps
from discreet.noise.entropy import SystemEntropy
from discreet.plan.parts import PersonPart, person_part

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.engine.person_parts import PeopleRows
    from discreet.engine.recipe import Receipt, Running
    from discreet.plan.person_rows import PersonRows
    from discreet.plan.plan import Plan

Transform: TypeAlias = Callable[..., "Tensor | Sequence[Tensor]"]
"""Makes what the loss is given of the tensors of one row."""

ENCODINGS = ("one-hot", "index")

_PART = "gradients by trusted code of the caller's"
_GUESS = 10  # times the batch: a number of people for a plan whose price does not follow from it


class TrainedModel(RecipeTable):
    """What a training in a session made.

    Attributes:
        model: the model, trained in place.
        training: what the training cost and how much noise it got.
        checkpoint: where the model is kept; None where it is not.
    """

    model: nn.Module
    training: TrainingPlan
    checkpoint: Path | None
    _asked: Training

    @property
    def cost(self) -> PrivacyLoss:
        """What the training cost, without the count of people."""
        return PrivacyLoss(self.plan.payers[0].events)

    @property
    def feature_names_in_(self) -> list[str]:
        """The features, in their order."""
        return [column.name for column in self._asked.columns]

    @property
    def told_apart(self) -> str:
        """What tells this model from others."""
        return f"{self._asked.code} {_digest(self.model)}"

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label, or the number, of each row, which `model(*tensors)` makes of the tensors of training.

        Args:
            X: a data frame, or an array with the features in their order; what is missing or undeclared is read as in
                training.
        """
        asked, was = self._asked, self.model.training
        named = [X[c.name] for c in asked.columns] if hasattr(X, "columns") else [*np.asarray(X, object).T]
        tensors, _ = asked._transformed(
            asked._encoded([c.read(own) for c, own in zip(asked.columns, named, strict=True)])
        )
        self.model.eval()
        with torch.no_grad():
            found = self.model(*(x.to(asked.trainer.device) for x in tensors)).cpu().double().numpy()
        self.model.train(was)
        if asked.labels is None:
            return np.asarray(found.reshape(-1))
        several = found.ndim == 2 and found.shape[1] > 1
        return np.array(asked.labels)[found.argmax(axis=1) if several else (found.reshape(-1) > 0).astype(int)]

    def __repr__(self) -> str:
        return f"TrainedModel({type(self.model).__name__}; {self.training.steps} steps)"


@dataclass(frozen=True)
class Training(DeclaredRows):
    """A recipe that trains a model.

    Guarantee:
        One person moves the sum of a step by at most `GridNoise.sensitivity`, however many rows they have: the
        gradients of their rows are clipped as one. `epsilon` and `delta` are those of all steps; a person is in each by
        a coin of their own, or as the trainer's other schemes say. Rows that the caller's code fails on add nothing.

    Attributes:
        trainer: a copy of the caller's, whose model is trained in place.
        source: the table's name, which of its rows, and the person's column; None where each row is a unit.
        people: how many people there are: public, or counted with noise.
        encode: how declared values are given: "one-hot" among the numbers, or "index", each column a tensor of its own.
        labels: the target's values, where it has some.
        bounds: the target's bounds, where it is a number.
        transform: of one row.
        keeps: the checkpoint; None where none is written.
        scheduler: of the learning rate.
        progress: whether a bar is shown.
        code: what tells this training from any other.
        start: the model, the optimizer and the scheduler before the training, and how far a run is.
    """

    trainer: PrivateTrainer = field(repr=False, compare=False, kw_only=True)
    source: tuple[str, str | None, str | None] = field(kw_only=True)
    people: int = field(kw_only=True)
    encode: str = field(kw_only=True)
    labels: tuple[Any, ...] | None = field(kw_only=True)
    bounds: tuple[float, float] | None = field(kw_only=True)
    transform: Transform | None = field(repr=False, compare=False, kw_only=True)
    keeps: Path | None = field(repr=False, compare=False, kw_only=True)
    scheduler: Any = field(repr=False, compare=False, kw_only=True)
    progress: bool = field(repr=False, compare=False, kw_only=True)
    code: str = field(kw_only=True)
    start: dict[str, Any] = field(repr=False, compare=False, kw_only=True)

    # ------------------------------------------------------------------ what is asked
    @property
    def counting(self) -> tuple[str, Fraction] | None:
        """The query that counts people, and its ε; None where their number is public."""
        if self.trainer._rows is not None:
            return None
        table, where, unit = self.source
        counted = "*" if unit is None else f"DISTINCT {_quoted(unit)}"
        condition = "" if where is None else f" WHERE {where}"
        assert self.trainer._epsilon is not None
        return f"SELECT COUNT({counted}) AS n FROM {_quoted(table)}{condition}", self.trainer._epsilon * COUNTED

    @property
    def with_count(self) -> Training:
        """A training at the price of this one and of the count: what an account has to be able to pay before both."""
        assert self.trainer._epsilon is not None
        return replace(self, epsilon=self.trainer._epsilon)

    def of(self, people: int) -> Training:
        """Return the training of so many people."""
        return replace(self, people=max(people, self.trainer._batch))

    def described(self, plan: Plan) -> TrainingPlan:
        """Return what it costs, with what the account would say to it."""
        counting = self.counting
        counted = [] if counting is None else [f"Counting people costs ε = {float(counting[1]):.4g} besides."]
        return replace(self.training, notes=(*self.training.notes, *counted, plan.outlook or ""))

    @property
    def training(self) -> TrainingPlan:
        """What the steps cost, and their noise."""
        return self._training(self.epsilon)

    def _training(self, epsilon: Fraction) -> TrainingPlan:
        known, key = self.start, f"plan {self.people} {epsilon}"
        if key not in known:
            known[key] = self.trainer._planned(self.people, epsilon)
        found: TrainingPlan = known[key]
        return found

    # ------------------------------------------------------------------ public
    def parts(self, rows: PersonRows, epsilon: Fraction) -> list[PersonPart]:
        training = self._training(epsilon)
        noise = self.trainer._noise_of(training.noise_multiplier, training.sampling, training.steps)
        moved = math.ceil(noise.sensitivity)
        law = AddedNoise(RoundedGaussianNoise(Fraction(math.ceil(training.noise_multiplier * moved))))
        given: dict[str, Any] = {"kind": "whole", "times": training.steps, "sampling": training.sampling}
        return [person_part(_PART, rows, width=noise.width, l2=moved, law=law, **given)]

    @property
    def said(self) -> Any:
        return repr([self.code, self.encode, [c.said for c in self.columns], self.labels, self.bounds, self.people])

    @property
    def goes_on(self) -> bool:
        """Whether there is a checkpoint from which a run that was broken off can go on."""
        return self.keeps is not None

    @property
    def together(self) -> int:
        """How many steps are priced together: those of a pass, where each person is in one of them."""
        sampling = self.training.sampling
        return sampling.steps if isinstance(sampling, OneOfSteps) else 1

    def begin(self, charge: int, begun: int) -> None:
        """Take note of a charge, and of how many steps of it were begun before.

        Raises:
            InvalidParameter: the checkpoint of these steps is not there.
        """
        self.start.update(charge=charge, begun=begun)
        if begun:
            assert self.keeps is not None
            if checkpoint.read(self.keeps).get("run") != self._run:
                raise InvalidParameter(
                    f"{self.keeps} is of another training; this one was charged, and {begun} steps of it were begun.",
                    hint="put its checkpoint back; or fresh=True, which is charged anew",
                )

    def refuse_another(self) -> None:
        """Refuse a checkpoint of another training, which would be written over, and this one charged anew."""
        if self.keeps is None or not self.keeps.exists():
            return
        if str(checkpoint.read(self.keeps).get("run")).split()[0] != self.code:
            raise InvalidParameter(
                f"{self.keeps} is of another training: of other initial weights, settings or features.",
                hint="torch.manual_seed(0) before the model is made gives the same weights again; or put its own "
                "checkpoint back; another checkpoint=, or fresh=True, is charged anew",
            )

    @property
    def _run(self) -> str:
        return f"{self.code} {self.start.get('charge', 0)}"

    def run(self, plan: Plan) -> Running[Any]:
        (part,) = plan.parts
        trainer, begun = self.trainer, self.start.get("begun", 0)
        kept = self.start["states"]
        if begun:
            assert self.keeps is not None
            kept = checkpoint.read(self.keeps)["states"]
        for own, state in zip(self._stateful, kept, strict=True):
            own.load_state_dict(copy.deepcopy(state))
        trainer._plan, trainer._begun, trainer._made = self.training, begun, None
        trainer.model.train()
        for step in range(begun, part.times):
            if (step - begun) % AHEAD == 0:
                self._save()
            noisy = yield Draw(_PART)
            trainer._begun += 1
            trainer._take(np.ldexp(noisy.astype(np.float64), trainer._noise().grid.exponent))
            if self.progress:
                trainer._show(trainer._begun)
            if self.scheduler is not None:
                self.scheduler.step()
        self._save()
        path = None if self.keeps is None else str(self.keeps.absolute())
        return {"steps": part.times, "model": _digest(trainer.model), "checkpoint": path}

    @property
    def _stateful(self) -> list[Any]:
        found = [self.trainer.model, self.trainer.optimizer]
        return found if self.scheduler is None else [*found, self.scheduler]

    def _save(self) -> None:
        if self.keeps is not None:
            checkpoint.write(self.keeps, {"run": self._run, "states": [own.state_dict() for own in self._stateful]})

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["what", "value"], [["steps", str(state["steps"])], ["model, SHA-256", state["model"]]]

    def build(self, plan: Plan, state: Any, receipt: Receipt) -> TrainedModel:
        if receipt.stored:
            assert self.keeps is not None  # else it is never found again
            with suppress(RuntimeError):
                self.trainer.model.load_state_dict(checkpoint.read(self.keeps)["states"][0])
            if _digest(self.trainer.model) != state["model"]:
                raise InvalidParameter(
                    f"{self.keeps} is not the checkpoint that this training made; its charge stands.",
                    hint=f"put it back from {state['checkpoint']}; or fresh=True, which is charged anew",
                )
        found = TrainedModel(plan, *self.table(plan, state), receipt)
        found.model, found.training, found.checkpoint = self.trainer.model, self.training, self.keeps
        found._asked = self
        return found

    # ------------------------------------------------------------------ private
    def whole(self, people: PeopleRows, of: str, args: Any) -> NDArray[np.int64]:
        trainer, m = self.trainer, self.per_person
        total = np.zeros(sum(p.numel() for p in trainer.model.parameters() if p.requires_grad), np.int64)
        order = random_order(people.size, SystemEntropy())
        with silent(), own_chance():
            tensors, fits = self._tensors(people)
            for i in range(0, people.size, trainer.physical_batch):
                some = order[i : i + trainer.physical_batch]
                at = people.starts[some][:, None] + np.arange(m)
                is_row = at < people.starts[some + 1][:, None]
                # one place is always empty: what fails on these must not follow from how many people there are
                at = np.pad(np.where(is_row, at, 0), ((0, trainer.physical_batch + 1 - len(some)), (0, 0)))
                is_row = np.pad(is_row, ((0, len(at) - len(some)), (0, 0)))
                places = torch.from_numpy(at.reshape(-1))
                kept = torch.from_numpy(is_row.reshape(-1)) & fits[places]
                total += self._piece([x[places] for x in tensors], kept)
        return total

    def _piece(self, tensors: Sequence[Tensor], kept: Tensor) -> NDArray[np.int64]:
        """Return the sum of a piece in steps of the grid; what the model or its loss fails on adds nothing. Places that
        do not count hold a row that was made up.
        """
        trainer, m = self.trainer, self.per_person
        clipper, (*rows, kept) = trainer._fitted(), (x.to(trainer.device) for x in (*tensors, kept))
        empty: list[Tensor] = self.start["empty"]
        seed = chance_seed()

        def sums_of(kept: Tensor) -> RowSums:
            torch.manual_seed(seed)  # a place has the same chance in each try
            at = [kept.reshape(-1, *[1] * (x.dim() - 1)) for x in rows]
            own = [torch.where(k, x, e.to(x)) for k, x, e in zip(at, rows, empty, strict=True)]
            return clipper.sums(own, trainer._limit, kept=kept, clipping=trainer._clipping, each=m)

        try:
            sums = sums_of(kept)
        except Exception:
            sums = RowSums({p: torch.zeros(p.shape, dtype=torch.float64, device=p.device) for p in clipper.trained})
            for i in range(0, len(kept), m):  # each person alone, in a piece of the same shape
                alone = torch.zeros_like(kept)
                alone[i : i + m] = kept[i : i + m]
                with suppress(Exception):
                    for p, own in sums_of(alone).items() if bool(alone.any()) else ():
                        sums[p] += own
        return trainer._noise().whole([sums[p] for p in clipper.trained])

    def _tensors(self, people: PeopleRows) -> tuple[list[Tensor], Tensor]:
        """Return all rows as the loss is given them, and which of them count."""
        tensors, fits = self._transformed(self._encoded([*self.cells(people)]))
        if self.labels is not None:
            y = torch.from_numpy(people.column("y").copy())
            known = (y >= 0) & (y < len(self.labels))
            return [*tensors, y.masked_fill(~known, 0)], fits & known
        if self.bounds is not None:
            tensors.append(torch.from_numpy(self.numbers(people, *self.bounds).astype(np.float32)))
        return tensors, fits

    def _encoded(self, cells: Sequence[NDArray[Any]]) -> list[Tensor]:
        """Return the features of rows as tensors."""
        scaled = [
            np.clip((2 * own - c.low - c.high) / (c.high - c.low), -1, 1) if c.values is None else own
            for c, own in zip(self.columns, cells, strict=True)
        ]
        if self.encode == "one-hot":
            return [torch.from_numpy(numbers_of(self.columns, scaled).astype(np.float32))]
        numbers = [own for c, own in zip(self.columns, scaled, strict=True) if c.values is None]
        found = [torch.from_numpy(np.stack(numbers, axis=1).astype(np.float32))] if numbers else []
        indices = [own for c, own in zip(self.columns, scaled, strict=True) if c.values is not None]
        return [*found, *(torch.from_numpy(np.asarray(own).astype(np.int64)) for own in indices)]

    def _transformed(self, tensors: list[Tensor]) -> tuple[list[Tensor], Tensor]:
        """Return what `transform` makes of each row, and where it has made what it makes of a made-up one."""
        rows = len(tensors[0])
        if self.transform is None:
            return tensors, torch.ones(rows, dtype=torch.bool)
        like: list[Tensor] = self.start["like"]
        found = [x.new_zeros(rows, *x.shape[1:]) for x in like]
        fits = torch.zeros(rows, dtype=torch.bool)
        for i in range(rows):
            made = _of_row(self.transform, [x[i] for x in tensors])
            with suppress(Exception):  # sparse or nested tensors
                if [(x.dtype, x.shape) for x in made] == [(x.dtype, x.shape[1:]) for x in like]:
                    for own, x in zip(found, made, strict=True):
                        own[i] = x
                    fits[i] = True
        return found, fits

    def made_up(self) -> list[Tensor]:
        """Return two rows that nobody has, of the ends of all bounds, as the loss is given them.

        Raises:
            InvalidParameter: `transform` cannot make tensors of them.
        """
        ends = [np.array([c.low, c.high]) if c.values is None else np.array([0, len(c.values)]) for c in self.columns]
        tensors = self._encoded(ends)
        if self.transform is not None:
            rows = [_of_row(self.transform, [x[i] for x in tensors]) for i in range(2)]
            if not rows[0] or [x.shape for x in rows[0]] != [x.shape for x in rows[1]]:
                raise InvalidParameter(
                    "transform made no tensors of one shape of rows that were made up.",
                    hint="it is given the tensors of one row, and returns one or several",
                )
            tensors = self.start["like"] = [torch.stack(x) for x in zip(*rows, strict=True)]
        if self.labels is not None:
            tensors = [*tensors, torch.tensor([0, len(self.labels) - 1])]
        elif self.bounds is not None:
            tensors = [*tensors, torch.tensor(self.bounds)]
        return [x.to(self.trainer.device) for x in tensors]


def training_of(
    trainer: Any,
    tables: Sequence[TableSchema],
    features: Sequence[str] | None = None,
    target: str | None = None,
    table: str | None = None,
    where: str | None = None,
    encode: str = "one-hot",
    transform: Transform | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    scheduler: Any = None,
    progress: bool = False,
) -> Training:
    """Return the recipe that trains a trainer's model on a session's tables; `session.train` says what is what.

    Raises:
        PlanError, InvalidParameter: it cannot be trained so.
    """
    if type(trainer) is not PrivateTrainer or trainer._source is not None:
        raise InvalidParameter(
            "session.train takes a PrivateTrainer that was made without a dataset.",
            hint="PrivateTrainer(model, loss_fn, optimizer, epsilon=3, delta=1e-5, epochs=10, batch_size=256, …)",
        )
    if trainer._epsilon is None or trainer._delta is None:
        raise InvalidParameter("A session charges ε and δ.", hint="epsilon= and delta=, and one of epochs=, steps= …")
    if trainer._kind != "independent" or trainer._clipping == "adaptive" or trainer._scheme == "cyclic":
        raise InvalidParameter(
            "In a session noise is independent, C stays as it is, and samples are no parts in turn.",
            hint='leave noise=, clipping="adaptive" and sampling="cyclic" out',
        )
    if trainer._ranks.size > 1:
        raise InvalidParameter("A session trains in one process.", hint="give the model inside of its wrapper")
    if trainer._scheme == "fixed" and trainer._rows is None:
        raise InvalidParameter(
            'sampling="fixed" needs the number of people, which is public where each is replaced.', hint="rows=…"
        )
    if encode not in ENCODINGS:
        raise InvalidParameter(f"encode must be 'one-hot' or 'index', not {encode!r}.")
    asked = AskedColumns.of(tables, features, target, table, where)
    goal, labels, bounds = asked.target, None, None
    if isinstance(goal, Values):
        labels = tuple(np.unique(np.asarray([value for value in goal.values if value is not None])).tolist())
    elif goal is not None:
        column = DeclaredColumn.of(target or "", goal)
        bounds = column.low, column.high
    own, unit = copy.copy(trainer), find_table(asked.table, tables).unit
    stateful = [trainer.model, trainer.optimizer, *([] if scheduler is None else [scheduler])]
    states = [copy.deepcopy(x.state_dict()) for x in stateful]
    kept = None if checkpoint is None else Path(checkpoint)
    if kept is not None and not kept.absolute().parent.is_dir():
        raise InvalidParameter(f"checkpoint={str(kept)!r}: there is no such folder.", hint="name another file")
    terms: list[Any] = [trainer._settings(None), trainer._epochs, repr(trainer.model), repr(states[1:])]
    terms += [type(x).__qualname__ for x in stateful] + [_code(trainer._loss_fn), _code(transform)]
    terms += [_digest(trainer.model), None if kept is not None else SystemEntropy().bytes(16).hex()]
    found = Training(
        tuple(DeclaredColumn.of(name, fact) for name, fact in asked.facts.items()),
        trainer._epsilon * (1 if trainer._rows is not None else 1 - COUNTED),
        trainer._delta,
        sql=asked.sql(None if labels is None else labels),
        per_person=1 if unit.is_row else asked.per_person,
        centred=True,
        trainer=own,
        source=(asked.table, where, unit.column),
        people=max(trainer._rows or _GUESS * trainer._batch, trainer._batch),
        encode=encode,
        labels=labels,
        bounds=bounds,
        transform=transform,
        keeps=kept,
        scheduler=scheduler,
        progress=progress,
        code=hashlib.sha256(repr(terms).encode()).hexdigest(),
        start={"states": states},
    )
    made_up = found.made_up()
    found.start["empty"] = [x[:1] for x in made_up]
    try:
        own.fit_to(made_up, each=found.per_person)
    except (RuntimeError, IndexError, TypeError) as error:
        shapes = [tuple(x.shape[1:]) for x in made_up]
        raise InvalidParameter(
            f"The model or its loss fails on rows that were made up, of shapes {shapes}: {error}.",
            hint=("target= names the column that the loss takes as y; " if goal is None else "")
            + f"the features give {shapes[0]} inputs: one for each number, and for declared values one each and one "
            "for every other",
        ) from None
    return found


def _of_row(transform: Transform, row: list[Tensor]) -> list[Tensor]:
    """Return what `transform` makes of a row; nothing where it fails. It draws from generators of its own, since what
    it draws for one row must not decide what it draws for others.
    """
    with suppress(Exception), own_chance():
        made = transform(*row)
        found = [made] if isinstance(made, Tensor) else [*made]
        return [x.detach() for x in found]
    return []


def _digest(model: nn.Module) -> str:
    """Return the SHA-256 of a model's parameters and buffers."""
    found = hashlib.sha256()
    for name, x in model.state_dict().items():
        found.update(f"{name} {x.dtype} {tuple(x.shape)} ".encode())
        found.update(x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def _code(function: Any) -> str:
    """Return what tells a function from others: its name, and what it does where that can be seen."""
    own = getattr(function, "__code__", None)
    seen = None if own is None else (own.co_code, own.co_names, [c for c in own.co_consts if not hasattr(c, "co_code")])
    return digest((function, seen))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
