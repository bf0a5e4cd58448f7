"""Private model choice: the best of several candidates, of a number of runs that is drawn first and never shown.

Guarantee:
    Each run takes a random candidate, fits it to a random four fifths of the rows, and measures it on the others. So a
    person counts in one of both. K runs are made, of a geometric law of mean 1/γ, and the best of them leaves. Where a
    run is ε-DP this is 3ε-DP (Liu, Talwar 2019, Theorem 3.1). Where it is ρ-zCDP it is of Rényi divergence
    λρ + 2(λ' − 1)ρ + 2·ln(1/γ)/λ' + ln(1/γ)/(λ − 1) at order λ, for any λ' ≥ 1 (Papernot, Steinke 2022, Theorem 2, with
    η = 1). docs/proofs/model-choice.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import clone, is_classifier

from discreet.accounting.convert import gdp_epsilon
from discreet.accounting.loss import PrivacyLoss
from discreet.catalog.schema import Range, TableSchema
from discreet.catalog.types import Type
from discreet.engine.person_recipe import as_json, run_on_arrays
from discreet.engine.recipe import Draw
from discreet.errors import InternalError, InvalidParameter
from discreet.learn.asked import AskedColumns, DeclaredRows
from discreet.learn.estimator import PrivateEstimator, listed_rows
from discreet.learn.evaluation import EvaluatedTarget, Evaluating, evaluate, is_own
from discreet.learn.features import cell_by_cell, occurring_labels
from discreet.mechanisms.draws import BestOfRuns
from discreet.noise.bernoulli import bernoulli
from discreet.noise.entropy import Entropy, SystemEntropy, below_vector, words64
from discreet.plan.parts import person_part
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.exact import Real, count, positive, probability
from discreet.privacy.unit import PrivacyUnit, Relation, Sensitivity

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from discreet.engine.person_parts import PeopleRows
    from discreet.engine.recipe import Receipt, Running
    from discreet.plan.parts import PersonPart
    from discreet.plan.person_rows import PersonRows
    from discreet.plan.plan import Plan

T = TypeVar("T")

TESTED = 5  # one row in so many measures a run, and the others are what it is fitted to


@dataclass(frozen=True)
class ChosenModel:
    """The best of all runs.

    Attributes:
        model: fitted to four fifths of the rows.
        candidate: which of the candidates it is of.
        score: its noisy accuracy; of a regressor its mean error, noisy too, below 0.
        loss: what all of this cost.
    """

    model: PrivateEstimator
    candidate: int
    score: float
    loss: PrivacyLoss

    def __repr__(self) -> str:
        kind = type(self.model).__name__
        return f"ChosenModel(candidate {self.candidate}, {kind}: score {self.score:.4g}; {self.loss})"


def choose(
    candidates: Sequence[PrivateEstimator], X: Any, y: Any, *, epsilon: Real, delta: Real = 0, runs: int | None = None
) -> ChosenModel:
    """Return the best of several models by private accuracy, at about three times the ε of one run, however many.

    Args:
        candidates: unfitted classifiers or regressors of discreet.learn, without ε and δ, which are chosen here.
        X: an array or a frame, one row a person.
        y: a label or a number a row.
        epsilon: the ε to be spent in all.
        delta: the δ to be spent in all; with 0 all candidates are fitted with δ = 0, which the solver "gradient" and
            trees do not take.
        runs: how many runs there are on average: 4 for each candidate by default.

    Guarantee:
        (ε, δ)-DP for each row, of everything that is returned; how long it takes tells of the number of runs, which is
        independent of the data.

    >>> from discreet.learn import LogisticRegression
    >>> X = np.array([[-1.0], [1.0]] * 500)
    >>> given = {"bounds": (-2, 2), "classes": [0, 1], "solver": "objective"}
    >>> models = [LogisticRegression(basis=basis, **given) for basis in ("linear", "gam")]
    >>> choose(models, X, X[:, 0] > 0, epsilon=6).loss.epsilon(delta=0)
    6.0

    Raises:
        InvalidParameter: candidates that cannot be compared, or have an ε of their own.
    """
    e, d = positive("epsilon", epsilon), probability("delta", delta)
    relation, run = _checked(candidates), _Run.of(e, d, count("runs", 4 * len(candidates) if runs is None else runs))
    rng = SystemEntropy()
    rows = X if hasattr(X, "iloc") else np.asarray(listed_rows(X))
    told = cell_by_cell(y).reshape(-1)
    if len(rows) != len(told):
        raise InvalidParameter("X and y have different lengths.")
    public = all(isinstance(own := getattr(model, "classes", None), str) and own == "public" for model in candidates)
    occurring = occurring_labels(told).tolist() if public else None

    def one(place: int) -> tuple[float, PrivateEstimator]:
        model = clone(candidates[place]).set_params(epsilon=run.epsilon, delta=d)
        if public:
            model.set_params(classes=occurring)  # which of them are in the random part is a secret
        tested = words64(rng, len(told)) % TESTED == 0
        model.fit(_taken(rows, ~tested), told[~tested])
        given: dict[str, Any] = {"epsilon": run.epsilon, "delta": d, "relation": relation}
        found = evaluate(model, _taken(rows, tested), told[tested], **given)
        for loss in (model.loss_, found.loss):
            run.hold(loss)
        return (found.accuracy.value if is_classifier(model) else -found.mae.value), model

    score, place, best = _best(len(candidates), run.law.runs, rng, one)
    best.loss_ = PrivacyLoss(Composed([ApproximateEvent(e, d)]))  # that of its own fit alone would say too little
    return ChosenModel(best, place, score, best.loss_)


def _best(candidates: int, runs: int, rng: Entropy, one: Callable[[int], tuple[float, T]]) -> tuple[float, int, T]:
    """Return the best of a geometric number of runs of random candidates: its score, its place and its result."""
    best: tuple[float, int, T] | None = None
    while best is None or not bernoulli(Fraction(1, runs), rng):
        place = int(below_vector(candidates, 1, rng)[0])
        score, found = one(place)
        if best is None or score > best[0]:
            best = score, place, found
    return best


@dataclass(frozen=True)
class _Run:
    """What each run may cost: `epsilon` of its fit and of its evaluation, which read different people."""

    law: BestOfRuns
    epsilon: Fraction

    @classmethod
    def of(cls, epsilon: Fraction, delta: Fraction, runs: int) -> _Run:
        law = BestOfRuns.of(epsilon, delta, runs)
        # a run at (ε₀, δ) has μ² ≤ 2ρ, since its noise is calibrated to no more
        return cls(law, law.run if not delta else Fraction(gdp_epsilon(2 * law.run, delta) * (1 - 1e-6)))

    def hold(self, loss: PrivacyLoss) -> None:
        """Refuse a run whose noise is not what the theorem is about: this follows from its plan, and not from data."""
        events = [*loss.events]
        if not self.law.delta:
            if any(event.pure is None or event.failure for event, _ in events):
                raise InvalidParameter(
                    "a candidate needs δ, since its solver draws Gaussian noise.",
                    hint="delta=1e-6; or for δ = 0 candidates with solver='objective', or GaussianNB",
                )
            held = sum((n * (event.pure or 0) for event, n in events), Fraction(0)) <= self.epsilon
        else:
            if any(event.mu_squared is None or event.failure for event, _ in events):
                raise InvalidParameter(
                    "with δ candidates have Gaussian noise alone.", hint="solver='gradient', or delta=0 for all"
                )
            held = float(sum((n * (event.mu_squared or 0) for event, n in events), Fraction(0))) <= 2 * self.law.run
        if not held:
            raise InternalError("A run costs more than was planned.")


def _checked(candidates: Sequence[Any]) -> Relation:
    """Return who are neighbours, of candidates that may be compared."""
    if not candidates or not all(is_own(model) for model in candidates):
        raise InvalidParameter(
            "choose is for classifiers and regressors of discreet.learn.", hint="choose([LogisticRegression(…), …], …)"
        )
    if any(model.epsilon is not None or model.delta is not None for model in candidates):
        raise InvalidParameter("choose sets the ε and δ of its candidates.", hint="leave their epsilon= and delta= out")
    if len({is_classifier(model) for model in candidates}) > 1:
        raise InvalidParameter("a classifier is not compared with a regressor.")
    if len({str(getattr(model, "classes", None)) for model in candidates}) > 1:
        raise InvalidParameter("candidates have the same classes.")
    if len({str(getattr(model, "target", None)) for model in candidates}) > 1:
        raise InvalidParameter("candidates have the same target.")
    relations = {Relation.parse(model.relation) for model in candidates}
    if len(relations) > 1:
        raise InvalidParameter("candidates have the same relation.")
    return relations.pop()


def _taken(rows: Any, some: Any) -> Any:
    return rows.iloc[np.flatnonzero(some)] if hasattr(rows, "iloc") else rows[some]


def choice_of(
    candidates: Sequence[Any],
    tables: Sequence[TableSchema],
    asked: tuple[Sequence[str] | None, str, str | None, str | None],
    epsilon: Real,
    delta: Real,
    runs: int | None,
) -> Choosing:
    """Return the recipe that chooses among plain copies of candidates in a session; `session.choose` performs it.

    Raises:
        PlanError, InvalidParameter: it cannot be chosen so.
    """
    _checked(candidates)
    e, d = positive("epsilon", epsilon), probability("delta", delta)
    run = _Run.of(e, d, count("runs", 4 * len(candidates) if runs is None else runs))
    own = [model.set_params(epsilon=run.epsilon, delta=d).asked_of(tables, *asked).model for model in candidates]
    read = AskedColumns.of(tables, *asked)
    labels = own[0].classes_.tolist() if is_classifier(own[0]) else None
    goal = None if labels else (own[0]._target.low, own[0]._target.high)
    given: dict[str, Any] = {"sql": read.sql(labels), "per_person": read.per_person, "centred": True}
    relation = Relation.parse(read.relation)
    return Choosing(own[0]._columns, e, d, tuple(own), run, relation, tuple(labels or ()), goal, **given)


@dataclass(frozen=True)
class Choosing(DeclaredRows):
    """A recipe of which the best of several models comes, by runs whose number stays hidden.

    Guarantee:
        As of `choose`, for each person: coins of their own say which part all their rows are in.

    Attributes:
        candidates: with what is declared of the columns and the target.
        run_of: what each run costs.
        neighbours: who are.
        labels: of classifiers.
        target: the bounds of the target, of regressors.
    """

    candidates: tuple[Any, ...]
    run_of: _Run
    neighbours: Relation
    labels: tuple[Any, ...] = ()
    target: tuple[float, float] | None = None

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        e = self.epsilon * part
        own = replace(self, epsilon=e, run_of=_Run.of(e, self.delta, self.run_of.law.runs)) if part != 1 else self
        return super(Choosing, own).plan(tables)

    def parts(self, rows: PersonRows, epsilon: Fraction) -> list[PersonPart]:
        for recipe in (self._measured(None), *(self._fit(i) for i in range(len(self.candidates)))):
            self.run_of.hold(PrivacyLoss(recipe.plan([self._table]).payers[0].events))
        given: dict[str, Any] = {"norms": Sensitivity(self._width, 255), "kind": "whole", "law": self.run_of.law}
        return [person_part("best", rows, width=self._width, **given)]

    @property
    def said(self) -> Any:
        return [[type(m).__name__, repr(m.get_params(deep=False)), repr(m._columns)] for m in self.candidates]

    @property
    def _width(self) -> int:
        """Bytes of the longest result: of each number so many digits at most."""
        shapes = [self._made(i)._shapes().values() for i in range(len(self.candidates))]
        return 1024 + 32 * max(sum(map(math.prod, own)) for own in shapes)

    def run(self, plan: Plan) -> Running[Any]:
        drawn = yield Draw("best")
        return json.loads(bytes(drawn.tolist()).rstrip(b"\0"))

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["candidate", "score"], [[state["candidate"], state["score"]]]

    def build(self, plan: Plan, state: Any, receipt: Receipt) -> Any:
        """Return the chosen model: all of it follows from the state."""
        found = as_json(state)
        model = self._made(found["candidate"])
        model.accept(plan, found["model"])
        columns, rows = self.table(plan, found)
        model.__dict__["_receipt"] = (receipt, columns, [tuple(row) for row in rows])
        return ChosenModel(model, found["candidate"], found["score"], model.loss_)

    def _made(self, place: int) -> Any:
        model: Any = clone(self.candidates[place]).set_params(epsilon=self.run_of.epsilon, delta=self.delta)
        model.declare_columns(self.columns)
        return model

    # ------------------------------------------------------------------ a run: over columns of people's rows
    @property
    def _facts(self) -> dict[str, Range]:
        facts = {f"x{i}": Range(c.low, c.high, integer=c.values is not None) for i, c in enumerate(self.columns)}
        goal = Range(*self.target) if self.target is not None else Range(0, len(self.labels), integer=True)
        return {**facts, "y": goal}

    @property
    def _table(self) -> TableSchema:
        types = {name: Type.INT if f.integer else Type.REAL for name, f in self._facts.items()}
        unit = PrivacyUnit("who", max_groups=1, max_rows=self.per_person)
        return TableSchema("rows", {"who": Type.INT, **types}, dict(self._facts), unit, self.neighbours)

    def _fit(self, place: int) -> DeclaredRows:
        recipe: DeclaredRows = self._made(place)._recipe()
        return replace(recipe, sql=self._sql, per_person=self.per_person)

    @property
    def _sql(self) -> str:
        return f"SELECT {', '.join(self._facts)} FROM rows"

    def _measured(self, model: Any) -> Evaluating:
        asked = EvaluatedTarget(self.labels, self.target, len(self.labels) == 2)
        given: dict[str, Any] = {"asked": asked, "confidence": Fraction(19, 20), "model": model}
        given |= {"sql": self._sql, "per_person": self.per_person}
        return Evaluating(self.columns, self.run_of.epsilon, self.delta, **given)

    def whole(self, people: PeopleRows, of: str, args: Any) -> NDArray[np.int64]:
        rng: Entropy = args["secret"]
        columns: dict[str, NDArray[Any]] = {f"x{i}": own for i, own in enumerate(self.cells(people))}
        columns["y"] = people.column("y") if self.target is None else self.numbers(people, *self.target)

        def drawn(recipe: Any, some: NDArray[np.bool_]) -> Any:
            rows = some[people.person]
            own, plan = {name: cells[rows] for name, cells in columns.items()}, recipe.plan([self._table])
            return as_json(run_on_arrays(recipe, plan, people.person[rows], own, rng=rng))

        def one(place: int) -> tuple[float, Any]:
            tested = words64(rng, people.size) % TESTED == 0
            state = drawn(self._fit(place), ~tested)
            model = self._made(place)
            model._take(state)
            measured = self._measured(model)
            return measured.score(drawn(measured, tested)), state

        score, place, state = _best(len(self.candidates), self.run_of.law.runs, rng, one)
        told = json.dumps({"candidate": place, "score": score, "model": state}).encode()
        return np.frombuffer(told.ljust(self._width, b"\0"), np.uint8).astype(np.int64)
