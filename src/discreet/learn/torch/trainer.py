"""Private training: secret batches, clipped gradients, exact noise, and an account of the steps that were begun."""

from __future__ import annotations

import inspect
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from discreet.accounting.calibrate import calibrate
from discreet.accounting.constructors import approximate, pure
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.learn.torch import checkpoint
from discreet.learn.torch.batches import Parts, RowBatch, RowSource, own_chance, random_order
from discreet.learn.torch.clipping import Clipper, Clipping, Loss, positive_limit, scaled, unchanged
from discreet.learn.torch.distributed import Ranks
from discreet.learn.torch.noise import LARGEST_PIECE, AdaptiveLimit, CorrelatedNoise, GridNoise, set_gradients
from discreet.learn.torch.preflight import check
from discreet.learn.torch.validation import Validation
from discreet.mechanisms.binary_tree import BlockTree
from discreet.mechanisms.samples import FixedSizeSampling, OneOfSteps, PoissonSampling, Sampling
from discreet.mechanisms.square_root import LONGEST, Banded, Factorization
from discreet.noise import laplace
from discreet.noise.entropy import SystemEntropy, below_vector, process
from discreet.privacy.event import Composed, GaussianEvent
from discreet.privacy.exact import Real, count, positive, probability
from discreet.privacy.unit import Relation

Scheme: TypeAlias = Literal["poisson", "fixed", "allocation", "cyclic"]
Noise: TypeAlias = Literal["independent", "tree", "banded"]

COUNTED = Fraction(2, 100)
"""The part of ε that the number of rows takes, where it is not public."""

EARLY = 20
"""After so many steps it is said when nothing has been learnt."""

_BANDS = {"poisson": 4, "cyclic": 32}  # so many by default, or as many as there are parts
_RATES = 1 << 32  # rates are multiples of its inverse
_SPREAD = 3  # a piece has room for so many deviations more rows than expected


@dataclass(frozen=True)
class TrainingPlan:
    """What a run costs and how much noise it gets, all of it public.

    Attributes:
        sampling: how rows are drawn.
        rows: how many there are: public, or counted with noise.
        noise_multiplier: σ, the deviation of the noise over the sensitivity of a sum.
        steps: how many there are.
        expected_batch: how many rows a step has on average.
        noise: deviation of the noise of each coordinate of the mean gradient; of correlated noise that of independent
            noise whose sums over steps have the same mean squared error.
        delta: the δ of `epsilons`: what was asked for, or 1e-5.
        width: how many numbers are trained.
        notes: what the preflight says.
    """

    sampling: Sampling
    rows: int
    noise_multiplier: Fraction
    steps: int
    expected_batch: float
    noise: float
    delta: float
    width: int
    notes: tuple[str, ...]

    @cached_property
    def epsilons(self) -> tuple[float, ...]:
        """Each ε after a pass over the rows, and after the last step; of many passes at most about 50."""
        each = max(1, round(self.rows / self.expected_batch))
        ends = [*range(each, self.steps, each)]
        return tuple(self.loss(n).epsilon(self.delta) for n in [*ends[:: -(-len(ends) // 50) or 1], self.steps])

    def loss(self, steps: int) -> PrivacyLoss:
        """Return what so many steps cost; whole passes, where each row is in one step of a pass."""
        if isinstance(self.sampling, OneOfSteps):
            steps = -(-steps // self.sampling.steps) * self.sampling.steps
        return _loss(self.sampling, self.noise_multiplier, steps)

    def __str__(self) -> str:
        spent = f"ε = {self.loss(self.steps).epsilon(self.delta):.4g} at δ = {self.delta:g}"
        long = self.noise * math.sqrt(self.width)
        return "\n".join(
            [
                f"{self.steps} steps of about {self.expected_batch:.0f} rows out of {self.rows}, which cost {spent}.",
                f"Noise multiplier {float(self.noise_multiplier):.4g}.",
                f"Noise of {self.noise:.3g} on each of {self.width} coordinates of the mean gradient.",
                f"Its length is about {long:.3g}; that of the clipped mean is max_grad_norm at most.",
                *self.notes,
            ]
        )


class PrivateTrainer:
    """Training of a PyTorch model that is differentially private for each row of its data set.

    Rows of each step are drawn in secret, each row's gradient is clipped to `max_grad_norm`, exact Gaussian noise is
    added to the sum, and the optimizer takes its step. The model is not wrapped: names and `state_dict` stay as they
    are. Nothing is charged before the first batch; until then `plan` is free.

    Args:
        model: to be trained, in place. In DistributedDataParallel, each of its processes makes a trainer with the same
            arguments, and calls the same methods: each takes its share of a batch, and noise is added once.
        loss_fn: `loss_fn(model, *batch)` returns one loss a row, of shape (B,).
        optimizer: any optimizer of the model's parameters that needs no closure.
        dataset: tensors with the rows first, or a map-style data set. Shapes and dtypes of rows are public. It is left
            out of a trainer for `session.train`.
        batch_size: expected number of rows of a step.
        max_grad_norm: C, the longest gradient of a row.
        epsilon: ε to be spent at most.
        delta: δ to be spent at most.
        epochs: passes over the rows; or
        steps: how many steps.
        noise_multiplier: σ. Of ε with δ, σ, and steps or epochs two are given, and the third is solved for.
        rows: public number of rows. Without it the number is counted with noise, for 2 % of ε.
        sampling: "poisson", each row in each step by a coin of its own; "allocation", each row in one step of each
            pass; "fixed", exactly `batch_size` rows, where the number of rows is public and neighbours replace a row;
            "cyclic", each row in one step of each pass, the same in all passes, for correlated noise.
        physical_batch: how many rows are differentiated at once; it changes memory and time alone.
        clipping: "flat", min(1, C/|g|); "per-layer", the same for each of K layers with C/√K; "automatic",
            C/(|g| + C/100); or "adaptive", "flat" with a C that follows the median of |g|, whose noisy count costs the
            sum at most 2 % more noise.
        noise: "independent" for each step; or correlated over steps, so that it nearly cancels in their sums: "tree",
            of dyadic blocks of steps, or "banded", with the least error for so many `bands`. With sampling="cyclic" the
            run is one use, charged whole at its first step. "banded" goes with "poisson" too: rows are in `bands`
            parts, and each step samples the next part.
        bands: how many later steps know of a step's noise, and one more.
        validation: rows that are held back, as `dataset`, for `validate`. They are declared to be public, or
        validation_epsilon: what all of their mean losses cost together, as a part of `epsilon` where that is given; and
        validation_bound: the largest loss of a row that counts in them.
        validations: how often `fit` takes their loss, at equal distances, the last after the last step.
        collate_fn: makes tensors of a list of rows, as for a DataLoader.
        num_workers: threads that read rows of a map-style data set.
        device: where batches are moved; by default that of the model.
        example: a batch that was made up, for the preflight, where zeros and ones will not do for the integers of rows.

    Guarantee:
        Parameters after any number of steps, and all that follows from them, are (ε, δ)-DP for one row added or removed
        ("fixed": replaced), as `privacy_loss` says; rows that are no finite number, cannot be read, or have another
        shape add nothing. The caller's model and loss must keep rows apart: the preflight refuses those that were seen
        not to. How long a step takes follows from the number of its rows.

    References:
        Abadi et al. 2016, https://arxiv.org/abs/1607.00133; docs/proofs/torch.md.

    Raises:
        InvalidParameter: something cannot be trained so; nothing was charged.
    """

    def __init__(
        self,
        model: nn.Module,
        loss_fn: Loss,
        optimizer: torch.optim.Optimizer,
        dataset: Any = None,
        *,
        batch_size: int,
        max_grad_norm: float,
        epsilon: Real | None = None,
        delta: Real | None = None,
        epochs: Real | None = None,
        steps: int | None = None,
        noise_multiplier: Real | None = None,
        rows: int | None = None,
        sampling: Scheme = "poisson",
        physical_batch: int | None = None,
        clipping: Clipping = "flat",
        noise: Noise = "independent",
        bands: int | None = None,
        validation: Any = None,
        validation_epsilon: Real | None = None,
        validation_bound: Real | None = None,
        validations: int = 1,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        device: Any = None,
        example: Sequence[Tensor] | None = None,
    ) -> None:
        self._batch = count("batch_size", batch_size)
        self._limit = positive_limit(max_grad_norm)
        scaled(torch.ones(1), self._limit, clipping)
        self._epsilon = None if epsilon is None else positive("epsilon", epsilon)
        self._delta = None if delta is None else probability("delta", delta)
        self._epochs = None if epochs is None else positive("epochs", epochs)
        self._steps = None if steps is None else count("steps", steps)
        self._multiplier = None if noise_multiplier is None else positive("noise_multiplier", noise_multiplier)
        self._clipping, self._scheme, self._kind = clipping, sampling, noise
        self._bands = None if bands is None else count("bands", bands)
        self._check_asked()
        self._ranks, model = Ranks.of(model)
        if self._ranks.size > 1 and (noise != "independent" or clipping == "adaptive" or validation is not None):
            raise InvalidParameter(
                "On several processes noise is independent, C stays as it is, and there is no validation set.",
                hint='leave noise=, clipping="adaptive" and validation= out',
            )
        _check_optimizer(model, optimizer)
        self.device = torch.device(device) if device is not None else next(model.parameters()).device
        workers = count("num_workers", num_workers, least=0)
        self._source: RowSource | None = None
        if dataset is not None:
            self._source = RowSource.of(dataset, example, collate_fn, workers, self.device)
        elif collate_fn is not None or num_workers or example is not None or validation is not None:
            raise InvalidParameter("collate_fn=, num_workers=, example= and validation= go with a dataset.")
        self._validation: Validation | None = None
        if validation is not None:
            held = RowSource.of(validation, example, collate_fn, workers, self.device)
            self._validation = Validation.of(held, validations, validation_epsilon, validation_bound)
        elif validation_epsilon is not None or validation_bound is not None:
            raise InvalidParameter("validation_epsilon= and validation_bound= go with validation=.")
        self._set_apart = (self._validation and self._validation.epsilon) or Fraction(0)
        if self._epsilon is not None and self._set_apart >= self._epsilon * (1 - COUNTED):
            raise InvalidParameter("validation_epsilon leaves nothing of epsilon.", hint="a tenth of epsilon, say")
        self.validated: list[tuple[int, float]] = []
        self._shown = 0
        self._rows = None if rows is None else count("rows", rows)
        if sampling == "fixed" and self._source is not None:
            self._rows = self._public_rows(self._source.size)
        elif self._rows is None and self._epsilon is None:
            raise InvalidParameter(
                "The number of rows is private, and counting it takes a part of ε.",
                hint="give rows=, a public number, or epsilon= and delta=",
            )
        self.physical_batch = self._piece() if physical_batch is None else count("physical_batch", physical_batch)
        if self.physical_batch > LARGEST_PIECE:
            raise InvalidParameter(f"physical_batch must be at most {LARGEST_PIECE}, not {self.physical_batch}.")
        self.model, self.optimizer, self._loss_fn = model, optimizer, loss_fn
        self._clipper: Clipper | None = None
        self._notes, self._each = tuple[str, ...](), 1
        if self._source is not None:
            self.fit_to(self._source.made_up() if example is None else [x.to(self.device) for x in example])
        self._rng = SystemEntropy()
        self._plan: TrainingPlan | None = None
        self._begun, self._noted, self._agreed = 0, 0, False
        self._run, self._paths = self._rng.bytes(16).hex(), list[Path]()
        self._drawn: Iterator[NDArray[np.int64]] | None = None
        self._latest: RowBatch | None = None
        self._process: tuple[int, int] | None = None
        self._made: GridNoise | None = None
        self._correlated: CorrelatedNoise | None = None
        self._part_of = np.zeros(0, np.int64)
        self._sum, self._summed, self._varied, self.norm = np.zeros(0), 0, 0.0, math.nan

    def fit_to(self, batch: Sequence[Tensor], *, each: int = 1) -> None:
        """Check, before any charge, that the model keeps the rows of batches like this one apart.

        Args:
            batch: made up.
            each: how many rows a person has at most, whose gradients are clipped as one.

        Raises:
            InvalidParameter: it does not.
        """
        found = check(self.model, self._loss_fn, batch)
        if found.clipper is None:
            raise InvalidParameter("The model cannot be trained privately as it is.", hint=str(found))
        self._clipper, self._notes, self._each = found.clipper, found.notes, each
        self._example, self._flags = batch, [p.requires_grad for p in self.model.parameters()]
        if each > 1:  # how many terms the gradient of a person has
            with unchanged(self.model):
                rows = [torch.cat([x[:1]] * 2 * each) for x in batch]
                found.clipper.sums(rows, self._limit, clipping=self._clipping, each=each)

    # ------------------------------------------------------------------ what is free
    def plan(self, rows: int | None = None) -> TrainingPlan:
        """Return what the run costs and how much noise it gets; free.

        Args:
            rows: a guess, where the number of rows is private and was not counted yet.

        Raises:
            InvalidParameter: the number of rows is not known yet, or no noise meets what was asked for.
        """
        if self._plan is not None:
            return self._plan
        known = self._rows if self._rows is not None else rows
        if known is None:
            raise InvalidParameter("The number of rows is private.", hint="give a guess: plan(rows=10_000)")
        return self._planned(count("rows", known))

    @property
    def privacy_loss(self) -> PrivacyLoss:
        """What the steps cost that were begun, stepped or not."""
        if self._plan is None or (not self._begun and not self._counted):
            return pure(0)
        held = pure(self._set_apart) if self._begun else pure(0)
        if not self._counted:
            return self._plan.loss(self._begun) + held if self._set_apart else self._plan.loss(self._begun)
        assert self._epsilon is not None
        found = pure(self._epsilon * COUNTED)
        # sampling follows from the count: no tight composition of both is known, so that ε and δ are added
        left = self._epsilon * (1 - COUNTED) - self._set_apart
        return found + approximate(left, self._delta or 0) + held if self._begun else found

    def spent(self, delta: Real) -> float:
        """Return ε at δ of the steps that were begun; with a private number of rows all of ε, from the first step on.

        Raises:
            InvalidParameter: no finite ε exists at that δ, or a session trains, which keeps what it charged.
        """
        if self._source is None:
            raise InvalidParameter(
                "This trainer has no dataset of its own, and has spent nothing.",
                hint="session.spent, or the result's cost",
            )
        return self.privacy_loss.epsilon(delta)

    # ------------------------------------------------------------------ steps
    def batches(self) -> Iterator[RowBatch]:
        """Yield the batches that are left, each to be given to `step`; it is charged when it is drawn."""
        self._settle()
        while self._begun < self.plan().steps:
            yield self._draw()

    def step(self, batch: RowBatch) -> None:
        """Clip, add noise, and let the optimizer take its step.

        Raises:
            InvalidParameter: not the latest batch, or one that was stepped.
        """
        self._check_process()
        latest, self._latest = self._latest, None  # the handler of a signal, or a thread, finds none meanwhile
        try:
            if latest is None or batch is not latest:
                raise InvalidParameter(
                    "Only the latest batch can be stepped, and once.", hint="for batch in p.batches(): p.step(batch)"
                )
            total, balance = self._added_up(batch)
        except BaseException:
            self._latest = latest  # nothing was drawn for it
            raise
        if self._ranks.size > 1:
            self._agree()
        self._take(self._noisy(self._ranks.added(total)))
        if self._clipping == "adaptive":
            adaptive = self._adaptive(self.plan().noise_multiplier)
            self._limit, self._made = adaptive.next(self._limit, balance, self._rng), None

    def _added_up(self, batch: RowBatch) -> tuple[NDArray[np.int64], int]:
        """Return the sum of a batch's clipped rows, in steps of the grid, and the count of adaptive clipping."""
        assert self._source is not None
        noise, clipper = self._noise(), self._fitted()
        total, balance = np.zeros(noise.width, np.int64), 0
        pieces = self._source.pieces(batch, self.physical_batch, self._rng, filled=self._scheme != "fixed")
        with own_chance():
            for tensors, kept in pieces:
                sums = clipper.sums(tensors, self._limit, kept=kept, clipping=self._clipping)
                total += noise.whole([sums[p] for p in clipper.trained])
                balance += sums.balance
        return total, balance

    def _noisy(self, total: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the sum of a step with noise, which one process adds."""
        noise = self._noise()  # of what was differentiated
        if noise.factors is None:
            return self._ranks.first(np.zeros(total.size) if self._ranks.rank else noise.noisy(total, self._rng))
        self._correlated = self._correlated or CorrelatedNoise(noise, self._rng)
        return self._correlated.noisy(total)

    def _take(self, noisy: NDArray[np.float64]) -> None:
        """Let the optimizer take its step along a noisy sum."""
        self._tell(noisy, self._noise())
        set_gradients(self._fitted().trained, noisy / self.plan().expected_batch)
        self.optimizer.step()
        self.optimizer.zero_grad()

    @property
    def max_grad_norm(self) -> float:
        """C of the next step."""
        return self._limit

    def validate(self) -> float:
        """Return the mean loss of the validation set, in evaluation mode: never that of the training set.

        Raises:
            InvalidParameter: there is none; or it is paid for, and the next time that was paid for is not due yet.
        """
        held = self._validation
        if held is None:
            raise InvalidParameter("There is no validation set.", hint="validation=, declared to be public or paid for")
        if held.epsilon is not None:
            self._check_process()
            if self._plan is None or self._shown >= held.due(self._begun, self._plan.steps):
                raise InvalidParameter(
                    f"Its loss is paid for {held.times} times in a run, and the next one is not due.",
                    hint=f"after each {held.times}th part of the steps" if held.times > 1 else "after the last step",
                )
            self._shown += 1
        found = held.loss(self.model, self._loss_fn, self.physical_batch, self._rng)
        self.validated.append((self._begun, found))
        return found

    def fit(self, *, progress: bool = False, scheduler: Any = None) -> PrivateTrainer:
        """Take the steps that are left.

        Args:
            progress: whether to show step, ε so far, the norm of the noisy gradient, and the last validation loss:
                never the loss of the rows that are trained on.
            scheduler: of the learning rate, stepped after each step.
        """
        self.model.train()
        for batch in self.batches():
            self.step(batch)
            if scheduler is not None:
                scheduler.step()
            held, steps = self._validation, self.plan().steps
            if held is not None and held.due(batch.step, steps) > held.due(batch.step - 1, steps):
                self.validate()
            if progress:
                self._show(batch.step)
        return self

    # ------------------------------------------------------------------ checkpoints
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write parameters, optimizer and public settings to a file; `resume` reads it and runs no code of it.

        Beside it lies a file, PATH.begun, that later steps are noted in before they are drawn. Whoever resumes from a
        copy of both that is older than the last step, or from two files of one run, hides steps from the account. Of
        several processes the first one writes.

        Where noise is correlated, a third file, PATH.secret, holds what undoes the noise, and its owner alone may read
        it. It serves to go on from the last step, from the last path that was saved to, and is removed with the next
        step.

        Raises:
            InvalidParameter: noise is correlated, and the latest batch was not stepped.
        """
        self._settle()
        if self._ranks.rank:  # the first process writes
            return
        to = Path(path)
        if self._kind != "independent":
            self._check_stepped()
            for other in {*self._paths} - {to}:
                checkpoint.forget_secret(other)
        if to not in self._paths:
            self._paths.append(to)
        self._note(self._begun)
        if self._correlated is not None:
            going_on = (self._part_of, self._correlated.state, repr(self._noise().factors))
            checkpoint.write_secret(to, self._run, self._begun, going_on)
        content = {"run": self._run, "begun": self._begun, "settings": self._settings(self.plan())}
        checkpoint.write(to, {**content, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()})

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        model: nn.Module,
        loss_fn: Loss,
        optimizer: torch.optim.Optimizer,
        dataset: Any,
        *,
        validation: Any = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int = 0,
        device: Any = None,
        example: Sequence[Tensor] | None = None,
    ) -> PrivateTrainer:
        """Return the trainer that `save` wrote, over the same data set; steps begun since are charged, not repeated.

        Raises:
            InvalidParameter: there is no such checkpoint, or it does not fit the model.
        """
        found, at = checkpoint.read(Path(path)), Path(path)
        if "settings" not in found:
            raise InvalidParameter(f"{path} is of a session.", hint="session.train(…, checkpoint=…) goes on with it")
        s = found["settings"]
        counted = bool(s["counted"])
        given: dict[str, Any] = {"collate_fn": collate_fn, "num_workers": num_workers, "device": device}
        same = "batch_size max_grad_norm steps sampling physical_batch clipping rows noise_multiplier noise bands"
        given |= {name: s[name] for name in same.split()}
        if validation is not None:
            names = ("validation_epsilon", "validation_bound", "validations")
            given |= {"validation": validation} | {name: s[name] for name in names}
        other = InvalidParameter(f"{path} is of another model or optimizer.", hint="give those that it was saved with")
        groups = [group.keys() for group in found["optimizer"]["param_groups"]]
        if [group.keys() for group in optimizer.param_groups] != groups:  # torch would fail in the first step
            raise other
        try:
            trainer = cls(model, loss_fn, optimizer, dataset, example=example, **given)
            trainer.model.load_state_dict(found["model"])
            optimizer.load_state_dict(found["optimizer"])
        except InvalidParameter:
            raise
        except (RuntimeError, ValueError, KeyError):
            raise other from None
        trainer._set_apart = Fraction(s["validation_epsilon"] or 0)
        trainer._delta = None if s["delta"] is None else Fraction(s["delta"])
        trainer._plan = trainer._planned(s["rows"])
        trainer._epsilon = None if s["epsilon"] is None else Fraction(s["epsilon"])
        trainer._rows = None if counted else s["rows"]
        begun = np.array([max(found["begun"], checkpoint.noted(at, found["run"]))])
        trainer._ranks.added(begun)  # all processes have read it before one goes on
        trainer._run, trainer._paths = found["run"], [] if trainer._ranks.rank else [at]
        trainer._begun = trainer._noted = int(trainer._ranks.first(begun)[0])
        if isinstance(trainer._plan.sampling, OneOfSteps):  # who was in the rest of a pass is not kept
            each = trainer._plan.sampling.steps
            trainer._begun = -(-trainer._begun // each) * each
        if trainer._validation is not None:  # what was due may have been shown
            trainer._shown = trainer._validation.due(trainer._begun, trainer._plan.steps)
        if isinstance(trainer._plan.sampling, Parts) and trainer._begun:
            trainer._part_of, state, factors = checkpoint.read_secret(at, found["run"], found["begun"])
            if repr(trainer._noise().factors) != factors:
                raise InvalidParameter("Another version of scipy makes other bands.", hint="resume with the old one")
            trainer._correlated = CorrelatedNoise(trainer._noise(), trainer._rng, state)
            trainer._drawn = trainer._plan.sampling.samples(trainer._part_of, trainer._begun, trainer._rng)
            trainer._summed = EARLY  # said of the first steps alone
        return trainer

    # ------------------------------------------------------------------ private
    def _settings(self, plan: TrainingPlan | None) -> dict[str, Any]:
        """Return what is public of the run: what was asked for, or planned."""
        multiplier = self._multiplier if plan is None else plan.noise_multiplier
        return {
            "batch_size": self._batch,
            "max_grad_norm": self._limit,
            "epsilon": _text(self._epsilon),
            "delta": _text(self._delta),
            "noise_multiplier": _text(multiplier),
            "steps": plan.steps if plan else self._steps,
            "rows": plan.rows if plan else self._rows,
            "counted": self._counted,
            "sampling": self._scheme,
            "physical_batch": self.physical_batch,
            "clipping": self._clipping,
            "noise": self._kind,
            "bands": self._bands,
            "validation_epsilon": _text(self._set_apart or None),
            "validation_bound": _text(self._validation.bound if self._validation else None),
            "validations": self._validation.times if self._validation else 1,
        }

    def _agree(self) -> None:
        """Compare with the other processes what noise and sampling follow from."""
        clipper, source = self._fitted(), self._source
        width = sum(p.numel() for p in clipper.trained)
        noise = GridNoise(Fraction(self._limit), Fraction(1), width, 1, ())
        self._ranks.agree(
            settings=(self._settings(self._plan), self._epochs),
            trained_parameters=[(n, tuple(p.shape), p.requires_grad) for n, p in self.model.named_parameters()],
            grid=noise.grid.exponent,
            terms_of_layers=[*clipper.terms],
            number_of_rows=source.size if source else None,
            steps_begun=self._begun,
        )

    @property
    def _counted(self) -> bool:
        return self._plan is not None and self._rows is None

    def _check_asked(self) -> None:
        if self._scheme not in ("poisson", "fixed", "allocation", "cyclic"):
            known = "'poisson', 'fixed', 'allocation' or 'cyclic'"
            raise InvalidParameter(f"sampling must be {known}, not {self._scheme!r}.")
        if self._kind not in (*_GO_WITH, "independent"):
            raise InvalidParameter(f"noise must be 'independent', 'tree' or 'banded', not {self._kind!r}.")
        if self._scheme not in _GO_WITH.get(self._kind, ("poisson", "fixed", "allocation")):
            raise InvalidParameter(
                f"sampling={self._scheme!r} does not go with noise={self._kind!r}.",
                hint='"cyclic" with noise="tree" or "banded"; "poisson" with noise="banded" or "independent"',
            )
        if self._clipping == "adaptive" and self._kind != "independent":
            raise InvalidParameter(
                f"clipping='adaptive' does not go with noise={self._kind!r}, which is made for one C.",
                hint='clipping="flat"',
            )
        if self._bands is not None and self._kind != "banded":
            raise InvalidParameter(f"bands= does not go with noise={self._kind!r}.", hint='noise="banded"')
        if self._kind == "banded" and (self._steps or 0) > LONGEST:
            raise InvalidParameter(f'noise="banded" takes at most {LONGEST:,} steps.', hint='noise="tree"')
        if self._scheme == "cyclic" and self._epochs is None and self._steps is None:
            raise InvalidParameter(
                "A cyclic run costs the same for any number of steps.", hint="give epochs= or steps="
            )
        if self._epochs is not None and self._steps is not None:
            raise InvalidParameter("Both epochs and steps are given.", hint="leave one out")
        long = self._epochs is not None or self._steps is not None
        if (self._epsilon is None) != (self._delta is None):
            raise InvalidParameter("epsilon and delta are given together.", hint="epsilon=3, delta=1e-5")
        if [self._epsilon is not None, self._multiplier is not None, long].count(True) != 2:
            raise InvalidParameter(
                "Of epsilon with delta, noise_multiplier, and epochs or steps two must be given.",
                hint="epsilon=3, delta=1e-5, epochs=10",
            )

    def _fitted(self) -> Clipper:
        if self._clipper is None:
            raise InvalidParameter(
                "This trainer has no dataset.", hint="give one, or session.train(trainer, features=[…], target=…)"
            )
        return self._clipper

    def _public_rows(self, size: int) -> int:
        if self._rows is not None and self._rows != size:
            raise InvalidParameter("rows is not the number of rows.", hint='leave rows= out: sampling="fixed" knows it')
        if self._batch >= size:
            raise InvalidParameter(f"batch_size must be below the number of rows, {size}, not {self._batch}.")
        return size

    def _piece(self) -> int:
        share = -(-self._batch // self._ranks.size)
        if self._scheme == "fixed":
            return min(share, LARGEST_PIECE)
        return min(-(-math.ceil(share + _SPREAD * math.sqrt(share)) // 8) * 8, LARGEST_PIECE)

    def _sampling(self, rows: int) -> Sampling:
        if self._scheme == "fixed":
            return FixedSizeSampling(self._batch, rows)
        if self._scheme == "allocation":
            return OneOfSteps(max(2, round(rows / self._batch)))
        if self._scheme == "cyclic":
            return Parts(max(1, round(rows / self._batch)))
        if self._kind == "banded":
            parts = self._bands or _BANDS["poisson"]
            if parts * self._batch >= rows and self._rows is not None:
                raise InvalidParameter(
                    f"Each of {parts} parts of {rows} rows is smaller than batch_size = {self._batch}.",
                    hint='take fewer bands=, or sampling="cyclic"',
                )
            return Parts(parts, Fraction(min(max(parts * self._batch * _RATES // rows, 1), _RATES - 1), _RATES))
        return PoissonSampling(Fraction(min(max(self._batch * _RATES // rows, 1), _RATES - 1), _RATES))

    def _planned(self, rows: int, epsilon: Fraction | None = None) -> TrainingPlan:
        """Return the plan for so many rows, and for all of ε, or what is left of it beside the count, or this."""
        rows = max(rows, self._batch)
        sampling, part = self._sampling(rows), 1 if self._rows is not None else 1 - COUNTED
        each = sampling.steps if isinstance(sampling, OneOfSteps) else 1
        steps = self._steps
        if self._epochs is not None:
            steps = max(1, math.ceil(self._epochs * rows / self._batch))
        multiplier = self._multiplier
        asked: dict[str, Any] = {"delta": self._delta or 0}
        if self._epsilon is not None:
            asked["epsilon"] = self._epsilon * part - self._set_apart if epsilon is None else epsilon
        if steps is not None:
            steps = -(-steps // each) * each
            if multiplier is None:
                wanted = steps
                multiplier = calibrate(lambda sigma: _loss(sampling, sigma, wanted), **asked)
        else:
            assert multiplier is not None
            sigma = multiplier
            steps = each * calibrate(lambda n: _loss(sampling, sigma, n * each), **asked, increasing=True, integer=True)
        batch = rows / each if each > 1 else float(self._batch)
        if isinstance(sampling, PoissonSampling):
            batch = float(sampling.rate * rows)
        elif isinstance(sampling, Parts):
            batch = float(sampling.rate * rows / sampling.parts)
        noise, delta = self._noise_of(multiplier, sampling, steps), float(self._delta or Fraction(1, 10**5))
        deviation = noise.deviation / batch
        return TrainingPlan(sampling, rows, multiplier, steps, batch, deviation, delta, noise.width, self._notes)

    def _noise_of(self, multiplier: Fraction, sampling: Sampling, steps: int) -> GridNoise:
        width = sum(p.numel() for p in self._fitted().trained)
        replaced = self._sampling_relation() is Relation.REPLACE
        if self._clipping == "adaptive":
            multiplier = self._adaptive(multiplier).of_sum
        terms = tuple(self._fitted().terms)
        factors, times, apart = None, 1, 1
        if isinstance(sampling, Parts):
            apart = sampling.parts
            # at a rate below 1 each participation is charged apart
            times = sampling.participations(steps) if sampling.rate == 1 else 1
            factors = self._factors(steps, times, apart)
        return GridNoise(
            Fraction(self._limit), multiplier, width, self.physical_batch, terms, replaced, factors, times, apart
        )

    def _adaptive(self, multiplier: Fraction) -> AdaptiveLimit:
        return AdaptiveLimit(multiplier, self._batch, self._sampling_relation() is Relation.REPLACE)

    def _factors(self, steps: int, participations: int, separation: int) -> Factorization:
        if self._kind == "tree":
            return BlockTree.best(steps, participations=participations, separation=separation)
        return Banded.best(steps, self._bands or min(_BANDS[self._scheme], separation))

    def _sampling_relation(self) -> Relation:
        return Relation.REPLACE if self._scheme == "fixed" else Relation.ADD_REMOVE

    def _noise(self) -> GridNoise:
        if self._flags != [p.requires_grad for p in self.model.parameters()]:
            if self._correlated is not None:
                raise InvalidParameter("Parameters must stay trained, or frozen, while noise is correlated.")
            self._made = None
            self.fit_to(self._example, each=self._each)  # noise follows from these layers, not from a batch's
        if self._made is None or (self._correlated is None and [*self._made.terms] != self._fitted().terms):
            plan = self.plan()
            self._made = self._noise_of(plan.noise_multiplier, plan.sampling, plan.steps)
        return self._made

    def _check_process(self) -> None:
        """Refuse what is left of a run in the child of a fork: it would be drawn twice, and is charged once."""
        self._process = self._process or process()
        if self._process != process():
            raise InvalidParameter(
                "This run was begun in another process, which alone goes on with it.", hint="make a trainer in each"
            )

    def _check_stepped(self) -> None:
        if self._begun != (0 if self._correlated is None else self._correlated.taken):
            raise InvalidParameter(
                f"Step {self._begun} was drawn and not stepped: correlated noise takes every step.",
                hint="p.step(batch)",
            )

    def _settle(self) -> None:
        """Count the rows, where their number is private, and solve for the rest."""
        if not self._agreed:
            self._agree()
            self._agreed = True
        if self._plan is None and self._rows is None:
            assert self._epsilon is not None and self._source is not None
            noise = laplace.sample(1 / (self._epsilon * COUNTED), self._rng)
            counted = self._ranks.first(np.array([self._source.size + noise]))
            self._plan = self._planned(max(int(counted[0]), self._batch))
        elif self._plan is None:
            self._plan = self.plan()

    def _draw(self) -> RowBatch:
        self._settle()
        assert self._source is not None
        self._check_process()
        sampling, ahead = self.plan().sampling, checkpoint.AHEAD
        if isinstance(sampling, Parts):
            self._check_stepped()
            ahead = 1
        if self._begun >= self._noted:
            self._note(min(self._begun + ahead, self.plan().steps))
        self._begun += 1
        if self._drawn is None and isinstance(sampling, Parts):
            self._part_of = below_vector(sampling.parts, self._source.size, self._rng)
            self._drawn = sampling.samples(self._part_of, 0, self._rng)
        elif self._drawn is None:
            self._drawn = sampling.start(self._source.size, self._rng)
        places = next(self._drawn)
        if self._ranks.size > 1:
            places = self._ranks.first(places[random_order(len(places), self._rng)])
            places = places[self._ranks.rank :: self._ranks.size]
        self._latest = RowBatch(self._begun, places)
        return self._latest

    def _note(self, begun: int) -> None:
        for path in self._paths:
            checkpoint.note(path, self._run, begun)
            if begun > self._begun:
                checkpoint.forget_secret(path)
        self._noted = begun

    def _tell(self, noisy: NDArray[np.float64], noise: GridNoise) -> None:
        """Keep what is public of the noisy sum, and say when nothing was learnt."""
        self.norm = float(np.linalg.norm(noisy)) / self.plan().expected_batch
        if self._summed >= EARLY:
            return
        if self._summed and self._sum.size != noisy.size:  # other parameters are trained: nothing is said of them
            self._summed = EARLY
            return
        self._sum = noisy.copy() if not self._summed else self._sum + noisy
        self._summed += 1
        self._varied += noise.deviation**2
        if self._summed == EARLY:
            square, variance = float(self._sum @ self._sum), self._varied
            if noise.factors is not None:
                variance = noise.variance(EARLY)
            if square < variance * (noise.width + 3 * math.sqrt(2 * noise.width)):
                warnings.warn(
                    f"After {EARLY} steps the sum of the noisy gradients is not to be told from noise. A larger "
                    "batch_size, more steps, a larger epsilon, or a smaller model helps, and so may another "
                    "max_grad_norm or learning rate.",
                    UserWarning,
                    stacklevel=4,
                )
            self._sum = np.zeros(0)

    def _show(self, step: int) -> None:
        plan = self.plan()
        if step % max(1, plan.steps // 50) and step != plan.steps:
            return
        delta = self._delta or Fraction(1, 10**5)
        end = "\n" if step == plan.steps else ""
        held = f"  validation {self.validated[-1][1]:.4g}" if self.validated else ""
        said = f"step {step}/{plan.steps}  ε ≤ {self.spent(delta):.3g} at δ = {float(delta):g}"
        print(f"\r{said}  noisy gradient {self.norm:.3g}{held} ", end=end, file=sys.stderr, flush=True)


def make_private(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    dataset: Any,
    *,
    loss_fn: Loss,
    batch_size: int,
    max_grad_norm: float,
    **more: Any,
) -> PrivateTrainer:
    """Return what gives the batches of a loop of your own, and takes its steps: `for b in p.batches(): p.step(b)`.

    Args:
        model: as for `PrivateTrainer`, as are all others.
        optimizer: of the model's parameters.
        dataset: tensors, or a map-style data set.
        loss_fn: one loss a row.
        batch_size: expected number of rows of a step.
        max_grad_norm: C.
        more: what else `PrivateTrainer` takes.

    >>> net = nn.Linear(2, 1)
    >>> def loss(model, x, y): return (model(x)[:, 0] - y).square()
    >>> data = torch.randn(100, 2), torch.zeros(100)
    >>> sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> asked = {"epsilon": 1, "delta": "1e-5", "steps": 5, "rows": 100}
    >>> p = make_private(net, sgd, data, loss_fn=loss, batch_size=10, max_grad_norm=1.0, **asked)
    >>> for batch in p.batches():
    ...     p.step(batch)
    >>> p.spent(delta="1e-5") <= 1
    True
    """
    return PrivateTrainer(
        model, loss_fn, optimizer, dataset, batch_size=batch_size, max_grad_norm=max_grad_norm, **more
    )


def _loss(sampling: Sampling, multiplier: Fraction, steps: int) -> PrivacyLoss:
    return PrivacyLoss(sampling.events(Composed.of(GaussianEvent(1 / multiplier**2)), steps))


_GO_WITH = {"tree": ("cyclic",), "banded": ("cyclic", "poisson")}


def _check_optimizer(model: nn.Module, optimizer: Any) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidParameter(f"optimizer must be an optimizer of torch, not {type(optimizer).__name__}.")
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise InvalidParameter(
            f"{type(optimizer).__name__} asks for the loss several times in a step, by a closure.",
            hint="take an optimizer that steps on one gradient, such as SGD or Adam",
        )
    own = {*model.parameters()}
    held = {p for group in optimizer.param_groups for p in group["params"]}
    if held - own:
        raise InvalidParameter("optimizer has parameters that the model has not.", hint="make it of model.parameters()")
    if not any(p.requires_grad for p in held):
        raise InvalidParameter("optimizer has no parameter that is trained.", hint="make it of model.parameters()")


def _text(x: Fraction | None) -> str | None:
    return None if x is None else str(x)
