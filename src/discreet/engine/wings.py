"""What a session does of learning and synthesis: each asks for a recipe of a room above, which `perform` then does.

What decides it without asking, free, has the arguments of what asks, but for `fresh`.
"""

from __future__ import annotations

import importlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, count

if TYPE_CHECKING:
    from discreet.engine.perform import Desk
    from discreet.ledger.account import Account
    from discreet.plan.plan import Plan
    from discreet.privacy.unit import PrivacyUnit

P = ParamSpec("P")
R = TypeVar("R")


@overload
def decides(action: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[P, R]]: ...
@overload
def decides(action: Callable[P, Any], **also: Any) -> Callable[[Callable[..., R]], Callable[..., R]]: ...
def decides(action: Callable[P, Any], **also: Any) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Give a method the arguments of the one that asks for what it decides, but for `fresh`, and those of `also`.

    They are completed, and any other is refused; the method is given all of them by name.
    """
    asked = signature(action)
    kept = [p for p in asked.parameters.values() if p.name != "fresh"]
    kept += [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in also.items()]

    def decorate(method: Callable[..., R]) -> Callable[..., R]:
        shown = asked.replace(parameters=kept, return_annotation=signature(method).return_annotation)

        @wraps(method)
        def decided(*args: Any, **given: Any) -> R:
            bound = shown.bind(*args, **given)
            bound.apply_defaults()
            return method(**bound.arguments)

        decided.__signature__ = shown  # type: ignore[attr-defined]  # which `inspect` reads
        return decided

    return decorate


class Wings(ABC):
    """A session's methods for learning and synthesis."""

    _desk: Desk
    _units: Mapping[str, tuple[PrivacyUnit, PrivacyUnit]] | None
    _by_policy: bool

    @property
    @abstractmethod
    def accounts(self) -> dict[str, Account]:
        """Who pays."""

    @abstractmethod
    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """Plan a query."""

    @abstractmethod
    def sql(self, *args: Any, **kwargs: Any) -> Any:
        """Run a query."""

    def fit(
        self,
        estimator: Any,
        *,
        features: Sequence[str] | None = None,
        target: str | None = None,
        table: str | None = None,
        where: str | None = None,
        fresh: bool = False,
        trusted_code: bool = False,
    ) -> Any:
        """Fit a clone of one of discreet's own estimators, charged to the ledger before the data is read.

        The same fit again is answered from the ledger, free; `fresh=True` draws again and is charged. Bounds, labels
        and the target's range are those of `columns=`; what is missing counts as the middle of its bounds.

        Args:
            estimator: of `discreet.learn`, with its ε and δ; it stays unfitted.
            features: columns; left out, all of which something is declared, without the target.
            target: the column that is predicted, of an estimator that predicts one.
            table: the table, where there are several.
            where: a condition on its rows, in SQL.
            fresh: whether to draw again even if the fit is stored.
            trusted_code: whether the estimator that a `SampleAggregate` has may run beside the data, as in `perform`;
                no policy lets it.

        Returns:
            A fitted clone, with `cost` and `certificate()`.

        Raises:
            PlanError, InvalidParameter: it cannot be fitted as asked; nothing was charged.
            BudgetExceeded: the account cannot pay; nothing was charged and no data was read.
            LedgerError: the ledger cannot be used; no data was read.
            BackendFailed: the database failed after the charge, which stands.
        """
        recipe = self._fit(estimator, features, target, table, where, trusted_code=trusted_code)
        return self._desk.perform(recipe, fresh=fresh, ours=False)

    @decides(fit)
    def plan_fit(self, **asked: Any) -> Plan:
        """Decide a fit without asking for it, with the arguments of `fit`: free, and no data is touched.

        Raises:
            PlanError, InvalidParameter: it cannot be fitted as asked.
        """
        return self._desk.plan(self._fit(**asked))

    def _fit(
        self,
        estimator: Any,
        features: Any,
        target: str | None,
        table: str | None,
        where: str | None,
        trusted_code: bool,
    ) -> Any:
        own = self._own(estimator, "asked_of", trusted_code)
        return own.asked_of(self._desk.tables, features, target, table, where)

    def evaluate(
        self,
        model: Any,
        *,
        target: str,
        epsilon: Real,
        features: Sequence[str] | None = None,
        delta: Real = 0,
        table: str | None = None,
        where: str | None = None,
        confidence: Real = Fraction(19, 20),
        fresh: bool = False,
        trusted_code: bool = False,
    ) -> Any:
        """Measure how well a fitted model predicts, charged to the ledger before the data is read.

        Args:
            model: fitted, of `discreet.learn`: it is evaluated by its coefficients, so that no other code runs; or with
                `trusted_code` any other with `predict`, whose labels, or range, are those of the target.
            target: the column that is predicted.
            epsilon: the ε to be spent.
            features: columns, in the order of the model's; left out, those whose names the model knows.
            delta: the δ to be spent: above 0 for Gaussian noise.
            table: the table, where there are several.
            where: a condition on its rows, in SQL.
            confidence: of the intervals.
            fresh: whether to draw again even if the evaluation is stored.
            trusted_code: whether a model of somebody else's may run beside the data, as in `perform`; no policy lets
                it.

        Raises:
            PlanError, InvalidParameter, BudgetExceeded, LedgerError, BackendFailed: as `fit`.
        """
        own = self._own(model, "answers_of", trusted_code)
        if features is None and (names := getattr(own, "feature_names_in_", None)) is not None:
            features = [*names]
        given = (own, self._desk.tables, (features, target, table, where), epsilon, delta, confidence)
        room = importlib.import_module("discreet.learn.evaluation")
        return self._desk.perform(room.evaluation_of(*given, trusted=own is model), fresh=fresh, ours=False)

    def choose(
        self,
        candidates: Sequence[Any],
        *,
        target: str,
        epsilon: Real,
        delta: Real = 0,
        features: Sequence[str] | None = None,
        runs: int | None = None,
        table: str | None = None,
        where: str | None = None,
        fresh: bool = False,
    ) -> Any:
        """Choose the best of several models, charged to the ledger before the data is read.

        Random candidates are fitted and measured a random number of times, which stays hidden; it costs about three
        times the ε of one run, however many candidates there are. The same choice again is free.

        Args:
            candidates: of `discreet.learn`, classifiers or regressors, without ε and δ, which are chosen here.
            target: the column that is predicted.
            epsilon: the ε to be spent in all.
            delta: the δ to be spent in all.
            features: as in `fit`.
            runs: how many runs there are on average: 4 for each candidate by default.
            table: as in `fit`.
            where: as in `fit`.
            fresh: whether to draw again even if the choice is stored.

        Returns:
            A `discreet.learn.ChosenModel`, whose model has `cost` and `certificate()`.

        Raises:
            PlanError, InvalidParameter, BudgetExceeded, LedgerError, BackendFailed: as `fit`.
        """
        recipe = self._choice(candidates, target, epsilon, delta, features, runs, table, where)
        return self._desk.perform(recipe, fresh=fresh, ours=False)

    @decides(choose)
    def plan_choose(self, **asked: Any) -> Plan:
        """Decide a choice without asking for it, with the arguments of `choose`: free, and no data is touched.

        Raises:
            PlanError, InvalidParameter: it cannot be chosen as asked.
        """
        return self._desk.plan(self._choice(**asked))

    def _choice(
        self,
        candidates: Sequence[Any],
        target: str,
        epsilon: Real,
        delta: Real,
        features: Sequence[str] | None,
        runs: int | None,
        table: str | None,
        where: str | None,
    ) -> Any:
        own = [self._own(model, "answers_of") for model in candidates]
        room = importlib.import_module("discreet.learn.choice")
        return room.choice_of(own, self._desk.tables, (features, target, table, where), epsilon, delta, runs)

    def train(
        self,
        trainer: Any,
        *,
        features: Sequence[str] | None = None,
        target: str | None = None,
        table: str | None = None,
        where: str | None = None,
        encode: str = "one-hot",
        transform: Any = None,
        checkpoint: str | os.PathLike[str] | None = None,
        scheduler: Any = None,
        progress: bool = False,
        fresh: bool = False,
        trusted_code: bool = False,
    ) -> Any:
        """Train a PyTorch model, in place, on rows of people, charged to the ledger before the data is read.

        People are drawn for each step; all rows of a person enter together, and their gradients are clipped as one. All
        steps are charged at once, as a run that stays open. Where the number of people is private, a query counts it
        first, for 2 % of ε.

        Args:
            trainer: a `discreet.learn.torch.PrivateTrainer` that was made without a dataset; its `rows` and
                `batch_size` count people.
            features: columns; left out, all of which something is declared, without the target. Numbers are scaled by
                their bounds to [−1, 1], as float32, in this order.
            target: the column that is predicted: the place of its value among the sorted ones, or its number. A row
                with another value adds nothing.
            table: the table, where there are several.
            where: a condition on its rows, in SQL.
            encode: "one-hot", declared values among the numbers, with a last place for every other; or "index", each
                column of values as a tensor of places, after that of the numbers.
            transform: makes what the loss is given of the tensors of one row; a row that it fails on adds nothing.
            checkpoint: a file that keeps the model while it is trained. With it the same training again is free, and
                one that was broken off takes the steps that were not begun, without another charge.
            scheduler: of the learning rate, stepped after each step.
            progress: whether to show step, ε so far, and the norm of the noisy gradient.
            fresh: whether to train again, and be charged, even if there is one.
            trusted_code: whether the model and its loss may run beside the data, as in `perform`; no policy lets them.

        Returns:
            A `discreet.learn.torch.TrainedModel`, with `model`, `cost` and `certificate()`.

        Raises:
            MissingExtra: PyTorch is not installed.
            PlanError, InvalidParameter: it cannot be trained as asked; nothing was charged.
            BudgetExceeded: the account cannot pay; nothing was charged and no data was read.
            LedgerError: the ledger cannot be used; no data was read.
            BackendFailed: the database failed after the charge, which stands.
        """
        given = (features, target, table, where, encode, transform, checkpoint, scheduler, progress)
        recipe = self._training(trainer, *given, trusted_code=trusted_code)
        if not fresh:
            recipe.refuse_another()
        if recipe.counting is not None:
            sql, epsilon = recipe.counting
            counted = self.plan(sql, epsilon=epsilon, noise="laplace")
            if self._desk.payers.found(counted.identity) is None:
                self._desk.refuse_costlier(recipe.with_count)
            ((people,),) = self.sql(sql, epsilon=epsilon, noise="laplace").rows
            recipe = recipe.of(people)
        return self._desk.perform(recipe, fresh=fresh, ours=False, in_steps=True)

    @decides(train, people=None)
    def plan_train(self, people: int | None, **asked: Any) -> Any:
        """Decide a training without asking for it: its price, steps and noise, free, and no data is touched.

        It has the arguments of `train`, and `people`, a guess at their number, where it is private.

        Returns:
            A `discreet.learn.torch.TrainingPlan`.

        Raises:
            MissingExtra, PlanError, InvalidParameter: as `train`.
        """
        recipe = self._training(**asked)
        if recipe.counting is not None:
            if people is None:
                raise InvalidParameter("The number of people is private.", hint="give a guess: people=10_000")
            recipe = recipe.of(count("people", people))
        return recipe.described(self._desk.plan(recipe, in_steps=True))

    def _training(self, trainer: Any, *given: Any, trusted_code: bool, **asked: Any) -> Any:
        self._refuse_code(f"the model of a {type(trainer).__name__}", trusted_code)
        self._refuse_two("a training")
        room = importlib.import_module("discreet.learn.torch.session")
        return room.training_of(trainer, self._desk.tables, *given, **asked)

    def synthesize(
        self,
        *,
        epsilon: Real | None = None,
        delta: Real | None = None,
        table: str | None = None,
        columns: Sequence[str] | None = None,
        workload: str | Sequence[str] | Sequence[tuple[str, str]] | Mapping[tuple[str, str], int] | None = None,
        label: str | None = None,
        bins: int = 100,
        structural_zeros: Sequence[Mapping[str, Any]] = (),
        method: str = "adaptive",
        rows: int | None = None,
        fresh: bool = False,
    ) -> Any:
        """Make a synthetic data set of a table, charged to the ledger before the data is read.

        The same again is answered from the ledger, free. Values and bounds are those of `columns=` when you connected;
        at most `max_rows` rows of a person are read.

        Args:
            epsilon: the ε to be spent.
            delta: the δ to be spent, above 0.
            table: the table, where there are several.
            columns: columns of it; all but the person's where they are left out.
            workload: pairs of columns to be measured, [("age", "income")], or their weights from 1 to 100 as a dict;
                or queries in SQL, each of which adds 1 to the weight of every pair of columns that it names.
            label: a column whose pairs have twice the weight, since it will be predicted.
            bins: the most bins of a range.
            structural_zeros: combinations that never occur, [{"age": (0, 14), "married": True}].
            method: "adaptive" measures all columns and the pairs that matter most, "independent" columns alone; "mst",
                "aim" and "mwem" are the methods of these names.
            rows: the number of rows, where it is public, for "mwem", which measures it else.
            fresh: whether to draw again even if it is stored.

        Returns:
            A `discreet.synth.Synthetic`, with `sample`, `marginal`, `report`, `save` and `certificate`.

        Raises:
            PlanError, InvalidParameter: it cannot be made as asked; nothing was charged.
            BudgetExceeded: the account cannot pay; nothing was charged and no data was read.
            LedgerError: the ledger cannot be used; no data was read.
            BackendFailed: the database failed after the charge, which stands.
        """
        given = (table, columns, workload, label, bins, structural_zeros, method, rows)
        _, recipe = self._synthesis(epsilon, delta, *given)
        made: Any = self._desk.perform(recipe, fresh=fresh, ours=False)
        return made.checked_by(lambda check: self._desk.perform(check, ours=False), recipe.source, recipe.per_person)

    @decides(synthesize)
    def plan_synthesis(self, **asked: Any) -> Any:
        """Decide a synthesis without asking for it, with the arguments of `synthesize`: its price and its size, free.

        Returns:
            A plan, with `cells`, `pairs`, `sigma`, `pair_error`, `memory` and `seconds`.

        Raises:
            PlanError, InvalidParameter: it cannot be made as asked.
        """
        room, recipe = self._synthesis(**asked)
        return room.SynthesisPlan.of(recipe, self._desk.plan(recipe))

    def _synthesis(self, *given: Any, **asked: Any) -> tuple[Any, Any]:
        """Return the room of synthesis, and the recipe; the room stands above the engine and is found by its name."""
        self._refuse_two("a synthesis")
        room = importlib.import_module("discreet.synth.asked")
        return room, room.AskedSynthesis(*given, **asked).recipe(self._desk.tables)

    def hierarchy(
        self,
        *,
        levels: Sequence[str] | Mapping[str, int],
        attributes: Sequence[str],
        epsilon: Real | None = None,
        delta: Real | None = None,
        table: str | None = None,
        code: str | None = None,
        units: object = None,
        invariants: Collection[str] = (),
        weights: str | Mapping[str, tuple[Real, Real]] | None = None,
        loss: Mapping[tuple[str, str], Real] | None = None,
        filler: Mapping[str, Any] | None = None,
        bins: int = 100,
        fresh: bool = False,
    ) -> Any:
        """Make census-style tables of all levels of units that agree, charged to the ledger before the data is read.

        The same again is answered from the ledger, free. At most `max_rows` rows of a person are read.

        Args:
            levels: nested columns of units from the coarsest to the finest; or with `code` the length of each level's
                prefix, {"county": 5, "tract": 11}.
            attributes: columns of the histograms, whose values or bounds are declared.
            epsilon: the ε to be spent.
            delta: the δ to be spent, above 0.
            table: the table, where there are several.
            code: the column of which the levels are prefixes.
            units: the public units: a frame, the path of a CSV file, or the name of a public table; what is declared
                of their columns where it is left out.
            invariants: ["total"], where each row is a unit that is replaced: then the number of rows is exact.
            weights: shares of the budget, as pairs of totals and histograms for "all" and each level; or "optimise".
            loss: for "optimise", how much each error counts: {("tract", "cells"): 1}.
            filler: for columns, the value that NULL and what is not public count as; else they are apart.
            bins: the most bins of a range.
            fresh: whether to draw again even if it is stored.

        Returns:
            A `discreet.synth.Hierarchy`, with `table`, `microdata`, `errors`, `to_arrow` and `certificate`.

        Raises:
            PlanError, InvalidParameter, BudgetExceeded, LedgerError, BackendFailed: as `synthesize`.
        """
        given = (levels, attributes, table, code, units, invariants, weights, loss, filler, bins)
        recipe = self._hierarchy(epsilon, delta, *given)
        made: Any = self._desk.perform(recipe, fresh=fresh, ours=False)
        return made.checked_by(lambda check: self._desk.perform(check, ours=False), recipe.source, recipe.per_person)

    @decides(hierarchy)
    def plan_hierarchy(self, **asked: Any) -> Any:
        """Decide a census-style release without asking for it, with the arguments of `hierarchy`: its price and its
        errors, free.

        Returns:
            A plan, with `errors`, `spectrum`, `weights` and `cost`.

        Raises:
            PlanError, InvalidParameter: it cannot be made as asked.
        """
        recipe = self._hierarchy(**asked)
        return recipe.described(self._desk.plan(recipe))

    def _hierarchy(self, *given: Any, **asked: Any) -> Any:
        self._refuse_two("a release")
        room = importlib.import_module("discreet.synth.hierarchical")
        return room.AskedHierarchy(*given, **asked).recipe(self._desk.tables)

    def _own(self, estimator: Any, can: str, trusted_code: bool = False) -> Any:
        """Return a plain copy of an estimator of the package's own: only these run beside the data untrusted; of any
        other, that is trusted, itself.
        """
        from discreet.engine.plain_copy import is_own_class, plain_copy

        kind = type(estimator)
        own = is_own_class(kind, "learn") and hasattr(kind, can)
        foreign = not own or getattr(kind, "runs_foreign_code", False)
        if (foreign and not trusted_code) or (not own and can == "asked_of"):
            raise InvalidParameter(
                f"{kind.__name__} is no estimator of discreet.learn, and it would run beside the data."
                if not own
                else f"the estimator of this {kind.__name__} would run beside the data.",
                hint=("trusted_code=True, in a process of the data's owner" if own else "SampleAggregate(…)")
                if can == "asked_of"
                else "trusted_code=True, in a process of the data's owner; or dp.learn.evaluate on rows of your own",
            )
        self._refuse_two("a fit")
        if not foreign:
            return plain_copy(estimator)
        self._refuse_under_policy(kind.__name__)
        return estimator

    def _refuse_code(self, what: str, trusted_code: bool) -> None:
        if not trusted_code:
            raise InvalidParameter(
                f"{what} would run beside the data.", hint="pass trusted_code=True, in a process of the data's owner"
            )
        self._refuse_under_policy(what)

    def _refuse_under_policy(self, name: str) -> None:
        if self._by_policy:
            raise InvalidParameter(
                f"{name} would run code beside the data, and this session is opened by a policy.",
                hint="the owner of the data connects to the source itself",
            )

    def _refuse_two(self, what: str) -> None:
        """Refuse what bounds one population where two pay."""
        if self._units is not None:
            both = " and ".join(map(repr, self.accounts))
            raise InvalidParameter(
                f"{what} bounds one population, and two populations pay here: {both}.",
                hint="connect to a table that is of one population alone, with dp.connect",
            )
