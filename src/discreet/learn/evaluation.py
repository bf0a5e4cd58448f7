"""Private evaluation of a model: mistakes, confusion matrix, AUC, calibration, MAE and R², with intervals.

Of a classifier each row is counted twice, with half of the budget each: as a mistake or not, and in a histogram of its
label and its score in public bins. Of a regressor five clamped sums are taken.

Guarantee:
    (ε, δ)-DP for each row, or for each person of a session, of everything in an `Evaluation`, if the model's answer for
    a row follows from that row alone (of discreet's own models it does). Each row is in one cell of each histogram, and
    its errors are clamped to the target's range (docs/proofs/learn.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import beta, norm
from sklearn.base import BaseEstimator, is_classifier, is_regressor
from sklearn.utils.validation import check_is_fitted

from discreet.accounting.loss import PrivacyLoss
from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.person_recipe import as_json, run_on_arrays
from discreet.engine.plain_copy import WHOLE, is_own_class
from discreet.engine.recipe import Draw
from discreet.errors import InvalidParameter, MissingBounds
from discreet.learn.asked import AskedColumns, DeclaredRows, in_cells, middle_of
from discreet.learn.estimator import listed_rows
from discreet.learn.features import DeclaredColumn, cell_by_cell, equal, fact_of, number, read_bounds
from discreet.learn.losses import Floats
from discreet.learn.trusted import SAID, digest, own_randomness, rows_as_given, silent
from discreet.noise.entropy import SystemEntropy
from discreet.plan.parts import person_part
from discreet.plan.person_rows import PersonRows, person_rows
from discreet.privacy.exact import Real, positive, probability, read_confidence
from discreet.privacy.unit import PrivacyUnit, Relation, Sensitivity
from discreet.verify.certificate.seal import answer

if TYPE_CHECKING:
    from discreet.engine.person_parts import Parts, PeopleRows
    from discreet.engine.recipe import Receipt, Running
    from discreet.mechanisms.additive import Additive
    from discreet.plan.parts import PersonPart
    from discreet.plan.plan import Plan

BINS, REACH = 48, 6.0
"""Bins of the score of two classes, of equal width between ± `REACH`; those at the ends hold all beyond."""

_FINE = 20  # bits of a regressor's sums
_BLOCK = 256  # rows that a model of somebody else's is asked at a time
_TRIES = 1000  # draws of the noise for an interval of what is no sum
_FAR = 1e9  # the largest 1 − R²
_LENGTHS = "X and y have different lengths."
_NONE = (
    "Noise alone could give these numbers: too few rows have a declared label. Are the labels spelled as in the data?"
)


class EvaluatedNumber(NamedTuple):
    """A noisy number of an evaluation.

    Attributes:
        value: the noisy value.
        sample: an interval for the value of these rows: how far noise may have moved it.
        population: an interval for the value on the distribution that the rows were drawn from; None where none is
            known.
    """

    value: float
    sample: tuple[float, float]
    population: tuple[float, float] | None = None

    def __str__(self) -> str:
        of = "" if self.population is None else f"; of the distribution {self.population[0]:.4g} to "
        end = "" if self.population is None else f"{self.population[1]:.4g}"
        return f"{self.value:.4g} ({self.sample[0]:.4g} to {self.sample[1]:.4g}{of}{end})"


@dataclass(frozen=True)
class Evaluation:
    """What was measured of a model.

    Attributes:
        numbers: name → number: "errors", "accuracy" and, of two classes, "auc" (of discreet's own
            models); of a regressor "mae" and "r2".
        loss: what it cost.
        confusion: noisy counts by label (rows) and prediction (columns); None of a regressor.
        calibration: of two classes for each bin its lower end, its upper end, and the share of the second label in it,
            which is None where noise hides it.
        confidence: of the intervals.
    """

    numbers: Mapping[str, EvaluatedNumber]
    loss: PrivacyLoss
    confidence: float
    confusion: NDArray[np.int64] | None = None
    calibration: tuple[tuple[float, float, float | None], ...] = ()
    _note: str = field(default="", repr=False, compare=False)
    _receipt: Any = field(default=None, repr=False, compare=False)
    _planned: str = field(default="", repr=False, compare=False)

    def explain(self) -> str:
        """Return what was read and drawn, and whose code saw it, in sentences."""
        return self._planned

    def __getattr__(self, name: str) -> EvaluatedNumber:
        numbers: Mapping[str, EvaluatedNumber] = self.__dict__.get("numbers", {})
        if name in numbers:
            return numbers[name]
        raise AttributeError(f"This evaluation has no {name!r}: it has {', '.join(numbers)}.")

    @property
    def stored(self) -> bool:
        """Whether a session's ledger had it, so that it cost nothing."""
        return self._receipt is not None and bool(self._receipt.stored)

    def certificate(self) -> dict[str, Any]:
        """Return the certificate of an evaluation in a session.

        Raises:
            InvalidParameter: it was of arrays, without a ledger; or the ledger does not keep it.
        """
        if self._receipt is None:
            raise InvalidParameter("this evaluation was of arrays, without a ledger.", hint="session.evaluate(…)")
        found: dict[str, Any] = self._receipt.paid.certificate("", *_shown(self.numbers))
        return found

    def __str__(self) -> str:
        return "\n".join([*(f"{name}: {n}" for name, n in self.numbers.items()), *filter(None, [self._note])])


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    *,
    epsilon: Real,
    delta: Real = 0,
    classes: Any = None,
    target: Any = None,
    relation: str | Relation = Relation.ADD_REMOVE,
    confidence: Real = Fraction(19, 20),
) -> Evaluation:
    """Measure how well a fitted model predicts these rows, which the caller holds; no ledger is charged.

    Somebody else's model is called on blocks of rows, twice in different orders. Where its answers differ, where it
    fails and where its label is not declared, it made a mistake.

    Args:
        model: fitted; of discreet.learn or any object with `predict`, which returns a label or a number for each row.
        X: rows that it was not fitted to.
        y: their labels or numbers.
        epsilon: the ε to be spent.
        delta: the δ to be spent: above 0 for Gaussian noise.
        classes: the labels, of somebody else's classifier.
        target: (low, high) of y, of somebody else's regressor.
        relation: "add-remove" or "replace".
        confidence: of the intervals.

    Guarantee:
        (ε, δ)-DP for each row, under `relation`, if the model's answer for a row follows from that row alone. How long
        it takes is not hidden.

    >>> from discreet.learn import LogisticRegression
    >>> X = np.array([[-1.0], [1.0]] * 500)
    >>> model = LogisticRegression(epsilon=1, delta=1e-6, bounds=(-2, 2), classes=[0, 1]).fit(X, X[:, 0] > 0)
    >>> evaluate(model, X, X[:, 0] > 0, epsilon=1).errors.value < 40
    True

    Raises:
        InvalidParameter: a parameter that cannot be, or a model that is neither classifier nor regressor.
    """
    asked = EvaluatedTarget.of(model, classes, target)
    given: dict[str, Any] = {"asked": asked, "confidence": read_confidence(confidence)}
    recipe = Evaluating((), positive("epsilon", epsilon), probability("delta", delta), **given)
    columns, n = asked.columns_of(model, X, y)
    facts = asked.facts
    types = {name: Type.INT if fact.integer else Type.REAL for name, fact in facts.items()}
    table = TableSchema("rows", types, facts, PrivacyUnit.row(), Relation.parse(relation))
    plan = recipe.plan([table])
    state = run_on_arrays(recipe, plan, np.arange(n), columns)
    return recipe.evaluated(plan, as_json(state))


@dataclass(frozen=True)
class EvaluatedTarget:
    """What is measured: of a classifier cells of label and score, of a regressor errors within the target's range."""

    labels: tuple[Any, ...] = ()  # of a classifier
    target: tuple[float, float] | None = None  # of a regressor
    scored: bool = False  # whether a classifier of two classes has scores

    @classmethod
    def of(cls, model: Any, classes: Any, target: Any) -> EvaluatedTarget:
        own = is_own(model)
        if isinstance(model, type) or not callable(getattr(model, "predict", None)):
            raise InvalidParameter(
                f"evaluate takes a fitted model with predict, not {type(model).__name__}.",
                hint="an object whose predict(X) returns a label or a number for each row of X",
            )
        if isinstance(model, BaseEstimator) and hasattr(model, "fit"):
            check_is_fitted(model)
        kind = _kind_of(model) or ("classifier" if classes is not None else "regressor" if target is not None else "")
        if kind == "classifier":
            given = model.classes_.tolist() if own else classes
            if given is None:
                raise MissingBounds(
                    "evaluate needs classes=, which must not be read from the data.", hint="classes=[LABEL, LABEL]"
                )
            return cls(labels=tuple(given), scored=own and len(given) == 2)
        if kind == "regressor":
            if not own and target is None:
                raise MissingBounds(
                    "evaluate needs target=, which must not be read from the data.", hint="target=(LOW, HIGH)"
                )
            column = model._target if own else DeclaredColumn.of("y", fact_of("target", target))
            return cls(target=(column.low, column.high))
        raise MissingBounds(
            f"Nothing says whether {type(model).__name__} predicts labels or numbers.",
            hint="classes=[LABEL, LABEL], or target=(LOW, HIGH)",
        )

    @property
    def guesses(self) -> int:
        """How many cells there are for each label: bins of the score, or the predicted labels and one for a failure."""
        return BINS if self.scored else len(self.labels) + 1

    @property
    def facts(self) -> dict[str, Range]:
        """What is declared of the columns that stand for a row."""
        if self.target is None:
            return {"cell": Range(0, len(self.labels) * self.guesses, integer=True), "wrong": Range(0, 1, integer=True)}
        return {"error": Range(-1, 1), "y": Range(-1, 1)}

    def columns_of(self, model: Any, X: Any, y: Any) -> tuple[dict[str, NDArray[Any]], int]:
        """Return the columns of rows that are here."""
        told = cell_by_cell(y).reshape(-1)
        found, scores = _answers(model, X, len(told), numbers=self.target is not None)
        if self.target is not None:
            return self.errors(DeclaredColumn("y", *self.target).read(told), found), len(told)
        labels = np.full(len(told), len(self.labels))
        for k, label in enumerate(self.labels):
            labels[equal(told, label)] = k
        return self.cells(labels, self.places(found), scores), len(told)

    def places(self, found: Sequence[Any]) -> NDArray[np.int64]:
        """Return the places of predicted labels; the number of labels for every other."""
        guessed = np.full(len(found), len(self.labels))
        for k, label in enumerate(self.labels):
            guessed[[i for i, one in enumerate(found) if _is(one, label)]] = k
        return guessed

    def cells(self, labels: NDArray[Any], guessed: NDArray[Any], scores: Floats | None) -> dict[str, NDArray[Any]]:
        """Return the cell of each row, and whether its prediction is wrong; rows without a declared label are in none.

        Args:
            labels: places of labels; the number of labels for every other.
            guessed: places of predictions, likewise.
            scores: of two classes that of the second.
        """
        k = len(self.labels)
        wrong = guessed != labels
        if self.scored:
            assert scores is not None
            held = np.where(np.isnan(scores), 0.0, scores)
            place = np.clip(np.floor((held / REACH + 1) * BINS / 2), 0, BINS - 1)
        else:
            place = guessed
        cell = np.where(labels < k, labels * self.guesses + place, k * self.guesses)
        return {"cell": cell.astype(np.int64), "wrong": wrong.astype(np.int64)}

    def errors(self, y: Floats, found: Floats) -> dict[str, NDArray[Any]]:
        """Return the errors of rows and their numbers, over half of the target's range."""
        assert self.target is not None
        low, high = self.target
        half = (high - low) / 2
        guess = np.clip(np.where(np.isfinite(found), found, (low + high) / 2), low, high)
        return {"error": np.clip((guess - y) / half / 2, -1, 1), "y": np.clip((y - low) / half - 1, -1, 1)}


@dataclass(frozen=True)
class Evaluating(DeclaredRows):
    """An evaluation, over columns that stand for rows; or over a session's columns, of a model's own coefficients.

    Attributes:
        asked: what is measured.
        confidence: of the intervals.
        weights: of the model, for the identity of the query.
        model: the fitted model, of a session.
        trusted: of somebody else's model in a session what tells it from others.
        middle: of the bounds of a session's target.
    """

    asked: EvaluatedTarget = field(kw_only=True)
    confidence: Fraction = field(kw_only=True)
    weights: tuple[tuple[float, ...], ...] = field(default=(), kw_only=True)
    trusted: str | None = field(default=None, kw_only=True)
    middle: float = field(default=0.0, kw_only=True)

    def parts(self, rows: PersonRows, epsilon: Fraction) -> list[PersonPart]:
        m = rows.most
        if self.asked.target is None:
            width = len(self.asked.labels) * self.asked.guesses
            return [
                person_part(self._name("mistakes"), rows, width=2, norms=in_cells(2, m)),
                person_part(self._name("cells"), rows, width=width, norms=in_cells(width, m)),
            ]
        return [person_part(self._name("sums"), rows, width=5, norms=Sensitivity(5, m << _FINE))]

    @property
    def said(self) -> Any:
        own = self.model is not None and self.trusted is None
        features = self.model._features.said if own else repr((self.trusted, self.columns))
        kind = None if self.model is None else type(self.model).__name__
        return [repr(self.asked), self.weights, features, kind]

    def read(self, tables: Sequence[TableSchema]) -> PersonRows:
        """Return which rows are read."""
        sql = self.sql or f"SELECT {', '.join(self.asked.facts)} FROM rows"
        return person_rows(sql, tables, rows=self.per_person)

    def _name(self, of: str) -> str:
        """Return what a plan and a certificate call a part: they say whose code makes it."""
        return of if self.trusted is None else f"{of} by trusted code of the caller's"

    def run(self, plan: Plan) -> Running[Any]:
        state = {}
        for of in ("mistakes", "cells") if self.asked.target is None else ("sums",):
            state[of] = [*(yield Draw(self._name(of)))]
        return state

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["part", "noisy"], [[name, value] for name, values in state.items() for value in values]

    def prepare(self, people: PeopleRows) -> Any:
        if self.model is None:
            return {name: people.real(name) for name in self.asked.facts}
        read, n, scores = [*self.cells(people)], len(people.matrix), None
        if self.trusted is None:
            z = self.model._features.scores(read, self.model._weights, n)
            found, scores = self.model.answers_of(z), z[:, 0]
        else:
            rows = rows_as_given(self.columns, read, self.model)
            found = _asked_twice(self.model, rows, n, numbers=self.asked.target is not None)
        if self.asked.target is not None:
            low, high = self.asked.target
            return self.asked.errors(np.clip(people.real("y") + self.middle, low, high), found)
        return self.asked.cells(people.column("y"), self.asked.places(found) if scores is None else found, scores)

    def each(self, people: PeopleRows, of: str, args: Any) -> Parts:
        known, of = people.prepared, of.split()[0]
        n = len(people.matrix)
        if of == "sums":
            e, y = known["error"] * 2, known["y"]
            found = np.stack([np.ones(n), np.abs(e) / 2, e * e / 4, y, y * y], axis=1)
            return people.summed(np.trunc(found * 2**_FINE).astype(np.int64))
        width = 2 if of == "mistakes" else len(self.asked.labels) * self.asked.guesses
        counts = known["cell"] < len(self.asked.labels) * self.asked.guesses
        place = np.where(counts, known["wrong"] if of == "mistakes" else known["cell"], 0).astype(np.int64)
        shown = np.zeros((n, width), np.int64)
        shown[np.arange(n), place] = counts
        return people.summed(shown)

    # ------------------------------------------------------------------ public: what follows from the noisy numbers
    def build(self, plan: Plan, state: Any, receipt: Receipt) -> Any:
        """Return the evaluation."""
        return self.evaluated(plan, as_json(state), receipt)

    def answers(self, plan: Plan, state: Any, result: Any) -> Mapping[str, dict[str, Any]]:
        """Return the numbers as JSON, of which the ledger keeps a digest."""
        return {"": answer(*_shown(result.numbers))}

    def evaluated(self, plan: Plan, state: Any, receipt: Receipt | None = None) -> Evaluation:
        """Return the evaluation of noisy numbers."""
        laws = {part.name.split()[0]: part.law.noise for part in plan.parts}  # type: ignore[union-attr]  # noise that was chosen
        loss, level = PrivacyLoss(plan.payers[0].events), float(self.confidence)
        planned = plan.explain() if self.trusted is None else f"{plan.explain()}\n{SAID}"
        if self.asked.target is not None:
            found = self._of_sums(state["sums"], laws["sums"])
            return Evaluation(found, loss, level, _receipt=receipt, _planned=planned)
        numbers = _of_mistakes(state["mistakes"], laws["mistakes"], level)
        k, cells = len(self.asked.labels), np.array(state["cells"], np.float64)
        by_label = cells.reshape(k, self.asked.guesses)
        calibration: tuple[tuple[float, float, float | None], ...] = ()
        if self.asked.scored:
            numbers["auc"] = _of_cells(by_label, laws["cells"], level)
            calibration = _calibration(by_label, laws["cells"].quantile(self.confidence))
            half = BINS // 2
            by_label = np.stack([by_label[:, :half].sum(axis=1), by_label[:, half:].sum(axis=1)], axis=1)
        confusion = np.clip(by_label, -(2.0**62), 2.0**62).astype(np.int64)
        few = sum(state["mistakes"]) <= 2 * laws["mistakes"].quantile(self.confidence)
        return Evaluation(numbers, loss, level, confusion, calibration, _NONE * few, receipt, planned)

    def score(self, state: Any) -> float:
        """Return the noisy accuracy of a state; of a regressor the mean error, below 0."""
        if self.asked.target is None:
            right, wrong = state["mistakes"]
            return _share(max(right, 0), max(wrong, 0))
        width = self.asked.target[1] - self.asked.target[0]
        return -width * float(_ratios(np.array([state["sums"]], np.float64) / 2**_FINE)[0][0][0])

    def _of_sums(self, sums: list[int], law: Additive) -> dict[str, EvaluatedNumber]:
        """Return a regressor's numbers, in the units of the target."""
        assert self.asked.target is not None
        width, level = self.asked.target[1] - self.asked.target[0], float(self.confidence)
        s = np.array(sums, np.float64) / 2**_FINE
        tried = s + law.draw(5 * _TRIES, SystemEntropy()).astype(np.float64).reshape(_TRIES, 5) / 2**_FINE
        half = (1 + level) / 2  # half of the doubt for the noise, half for the sample
        mae, share = (float(found[0]) for found in _ratios(s[None, :])[0])
        n = max(float(s[0]), 1.0)
        reach = float(norm.ppf((1 + half) / 2)) * math.sqrt(max(float(s[2]) / n - mae**2, 0.0) / n)
        low, high = _between(tried, 0, half)
        own, away = _between(tried, 1, level), _between(tried, 1, half)
        square, spread = min(max(float(s[2]) / n, 0.0), 1.0), max(float(s[4]) / n - (float(s[3]) / n) ** 2, 1e-9)
        # var u ≤ E u·(1 − E u) within [0, 1]; var (y − E y)² ≤ spread·(most − spread), where that is at most `most`
        most = (1 + min(abs(float(s[3]) / n), 1.0)) ** 2
        by = float(norm.ppf(1 - (1 - half) / 4))  # of both together
        off = by * math.sqrt(square * (1 - square) / n), by * math.sqrt(max(spread * (most - spread), 0.0) / n)
        least = away[0] * max(1 - off[0] / max(square, 1e-9), 0.0) / (1 + off[1] / spread)
        largest = (away[1] + 4 * off[0] / spread) / max(1 - off[1] / spread, 1e-9)
        ends = [width * end for end in (*_between(tried, 0, level), max(low - reach, 0.0), min(high + reach, 1.0))]
        return {
            "mae": EvaluatedNumber(mae * width, (ends[0], ends[1]), (ends[2], ends[3])),
            "r2": EvaluatedNumber(1 - share, (1 - own[1], 1 - own[0]), (1 - min(largest, _FAR), 1 - least)),
        }


def _ratios(sums: Floats) -> tuple[tuple[Floats, Floats], Any]:
    """Return the mean error over the target's range and 1 − R² of rows of sums, and where each of them is known."""
    n, error, square, y, y2 = sums.T
    found, known = [], []
    for part, whole, top in ((error, n, 1.0), (4 * square * n, np.minimum(y2, n) * n - y * y, _FAR)):
        some = (n > 0) & (whole > 0)
        found.append(np.where(some, np.clip(part / np.where(some, whole, 1), 0, top), top))
        known.append(some)
    return (found[0], found[1]), known


def _between(tried: Floats, which: int, level: float) -> tuple[float, float]:
    """Return the interval that holds a ratio of sums at this level, where these are sums that noise makes likely: one
    with no ratio may be anything.
    """
    found, known = _ratios(tried)
    least, tail = np.where(known[which], found[which], 0.0), (1 - level) / 2
    return float(np.quantile(least, tail)), float(np.quantile(found[which], 1 - tail))


def _of_mistakes(counts: list[int], law: Additive, level: float) -> dict[str, EvaluatedNumber]:
    """Return the errors and the accuracy, of noisy numbers of right and of wrong predictions."""
    right, wrong = counts
    q = law.quantile(_exact_level((1 + level) / 2))  # both numbers together
    least, most = max(wrong - q, 0), max(wrong + q, 0)
    few, many = max(right - q, 0), max(right + q, 0)
    sample = (_share(few, most), _share(many, least))
    alone = law.quantile(_exact_level(level))
    errors = EvaluatedNumber(wrong, (max(wrong - alone, 0), max(wrong + alone, 0)))
    half = law.quantile(_exact_level((3 + level) / 4))  # half of the doubt for the noise, half for the sample
    low = _clopper_pearson(max(right - half, 0), max(wrong + half, 0), (1 + level) / 2)[0]
    high = _clopper_pearson(max(right + half, 0), max(wrong - half, 0), (1 + level) / 2)[1]
    accuracy = _share(max(right, 0), max(wrong, 0))
    return {"errors": errors, "accuracy": EvaluatedNumber(accuracy, sample, (low, high))}


def _exact_level(level: float) -> Fraction:
    return Fraction(min(level, 1 - 2.0**-40))


def _share(part: int, other: int) -> float:
    return part / (part + other) if part + other else 0.5


def _clopper_pearson(right: int, wrong: int, level: float) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson for the chance of being right."""
    tail = (1 - level) / 2
    low = float(beta.ppf(tail, right, wrong + 1)) if right else 0.0
    high = float(beta.ppf(1 - tail, right + 1, wrong)) if wrong else 1.0
    return low, high


def _auc(cells: Floats) -> tuple[Floats, Any]:
    """Return the area under the curve of counts by label and bin, and whether there are any; rows of one bin count one
    half. Noisy counts below 0 stay so: else noise would draw the area to one half.
    """
    first, second = cells[..., 0, :], cells[..., 1, :]
    below = np.cumsum(first, axis=-1) - first / 2
    sizes = first.sum(axis=-1), second.sum(axis=-1)
    known = (sizes[0] >= 1) & (sizes[1] >= 1)
    pairs = np.where(known, sizes[0] * sizes[1], 1)
    return np.where(known, np.clip((second * below).sum(axis=-1) / pairs, 0, 1), 0.5), known


def _of_cells(cells: Floats, law: Additive, level: float) -> EvaluatedNumber:
    """Return the area under the curve of noisy counts."""
    value = float(_auc(cells)[0])
    drawn = law.draw(cells.size * _TRIES, SystemEntropy()).astype(np.float64).reshape(_TRIES, *cells.shape)
    (found, known), tail = _auc(cells + drawn), (1 - level) / 2
    low = float(np.quantile(np.where(known, found, 0), tail))
    high = float(np.quantile(np.where(known, found, 1), 1 - tail))
    first, second = np.maximum(cells, 0)
    tied = float((first * second).sum() / max(first.sum() * second.sum(), 1.0)) / 2  # scores of one bin are not ordered
    low, high = max(low - tied, 0.0), min(high + tied, 1.0)
    sizes = np.maximum(np.maximum(cells, 0).sum(axis=1), 1.0)
    # the variance of Hanley and McNeil 1982
    q1, q2 = value / (2 - value), 2 * value**2 / (1 + value)
    variance = value * (1 - value) + (sizes[1] - 1) * (q1 - value**2) + (sizes[0] - 1) * (q2 - value**2)
    reach = float(norm.ppf((1 + level) / 2)) * math.sqrt(max(variance, 0.0) / (sizes[0] * sizes[1]))
    return EvaluatedNumber(value, (low, high), (max(low - reach, 0.0), min(high + reach, 1.0)))


def _calibration(cells: Floats, hidden: float) -> tuple[tuple[float, float, float | None], ...]:
    """Return the share of the second label by bins of the score."""
    both = cells.sum(axis=0)
    shares = [min(max(float(b / n), 0.0), 1.0) if n > 2 * hidden else None for b, n in zip(cells[1], both, strict=True)]
    ends = expit((np.arange(BINS + 1) * 2 / BINS - 1) * REACH).tolist()
    return tuple(zip(ends, ends[1:], shares, strict=False))


def _shown(numbers: Mapping[str, EvaluatedNumber]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the numbers as a table."""
    return ["name", "value"], [(name, float(number.value)) for name, number in numbers.items()]


def is_own(model: Any) -> bool:
    """Return whether a model is one of the package's own, whose answer for a row follows from that row alone."""
    return is_own_class(type(model), "learn") and hasattr(type(model), "answers_of")


def evaluation_of(
    model: Any,
    tables: Sequence[TableSchema],
    asked: tuple[Sequence[str] | None, str, str | None, str | None],
    epsilon: Real,
    delta: Real,
    confidence: Real,
    *,
    trusted: bool = False,
) -> Evaluating:
    """Return the recipe that measures a fitted model in a session; `session.evaluate` performs it.

    Raises:
        PlanError, InvalidParameter: it cannot be measured so.
    """
    columns = AskedColumns.of(tables, *asked)
    goal = columns.target
    if trusted:
        labels = [v for v in goal.values if v is not None] if isinstance(goal, Values) else None
        what = EvaluatedTarget.of(model, labels, None if labels else goal)
        own = read_bounds(columns.facts, list(columns.facts), named=True)
    else:
        what = EvaluatedTarget.of(model, None, None)
        _check_numbers(model, what)
        own = model._features.columns
    wanted = getattr(model, "n_features_in_", len(own)) if trusted else len(own)
    if len(columns.facts) != wanted:
        raise InvalidParameter(f"features= has {len(columns.facts)} columns, and the model has {wanted}.")
    facts: dict[str, Fact] = {}
    for c, (name, fact) in zip(own, columns.facts.items(), strict=True):
        if c.values is None and isinstance(fact, Values):
            raise InvalidParameter(f"The model reads a number where {name!r} has declared values.")
        facts[name] = fact if c.values is None else Values(*c.values)
    columns = replace(columns, facts=facts)
    if what.target is not None and not isinstance(columns.target, Range):
        raise InvalidParameter("the target of a regressor has bounds, and no values.", hint="dp.Range(LOW, HIGH)")
    given: dict[str, Any] = {"asked": what, "confidence": read_confidence(confidence), "centred": True, "model": model}
    given |= {"sql": columns.sql(None if what.target is not None else what.labels), "per_person": columns.per_person}
    given["weights"] = () if trusted else tuple(map(tuple, model._weights.tolist()))
    read = tuple(
        c if c.values is not None else DeclaredColumn.of(c.name, facts[name])
        for c, name in zip(own, facts, strict=True)
    )
    given |= {
        "trusted": digest(model) if trusted else None,
        "middle": middle_of(goal) if isinstance(goal, Range) else 0.0,
    }
    return Evaluating(read, positive("epsilon", epsilon), probability("delta", delta), **given)


def _check_numbers(model: Any, what: EvaluatedTarget) -> None:
    """Refuse a model with which some rows could fail, and others not: that it failed would tell of them."""
    outputs = 1 if what.target is not None or len(what.labels) <= 2 else len(what.labels)
    try:
        columns = [*model._features.columns, *([model._target] if what.target is not None else [])]
        sound = bool(np.isfinite(model.rebuild(outputs)).all())
        sound &= all(c.low < c.high and math.isfinite(float(c.high) - float(c.low)) for c in columns)
    except (AttributeError, TypeError, ValueError):
        sound = False
    if not sound:
        raise InvalidParameter(
            f"this {type(model).__name__} has coefficients or columns that no fit gives.", hint="model.fit(X, y)"
        )


def _kind_of(model: Any) -> str:
    """Return what scikit-learn takes a model for: "classifier", "regressor", or nothing."""
    with suppress(AttributeError, TypeError):  # what is no estimator has no tags
        return "classifier" if is_classifier(model) else "regressor" if is_regressor(model) else ""
    return ""


def _answers(model: Any, X: Any, n: int, *, numbers: bool) -> tuple[Any, Floats | None]:
    """Return the predictions and, of two classes, probabilities of the second; NaN or None where a model failed."""
    if is_own(model):
        scores = model._scores(X)
        if len(scores) != n:
            raise InvalidParameter(_LENGTHS)
        own = model.answers_of(scores)
        return (own if numbers else model.classes_[own]), scores[:, 0]
    nested = isinstance(X, list | tuple) and len(X) and isinstance(X[0], list | tuple | np.ndarray)
    rows = X if hasattr(X, "iloc") else listed_rows(X) if nested else cell_by_cell(X)
    if len(rows) != n:
        raise InvalidParameter(_LENGTHS)
    return _asked_twice(model, rows, n, numbers=numbers), None


def _asked_twice(model: Any, rows: Any, n: int, *, numbers: bool) -> Any:
    """Return the answers of somebody else's model for `n` rows, or NaN or None; nothing else of it leaves."""
    taken = rows.iloc.__getitem__ if hasattr(rows, "iloc") else rows.__getitem__
    found: list[Any] = []
    with silent():
        for first in range(0, n, _BLOCK):
            found += _of_block(model, taken, np.arange(first, min(first + _BLOCK, n)))
    return np.array([number(one) for one in found], np.float64) if numbers else found


def _of_block(model: Any, taken: Any, places: NDArray[np.int64]) -> list[Any]:
    """Return a model's answers for some rows: asked in two orders, and row by row where that fails."""
    if len(places) == 0:
        return []
    padded = np.concatenate([places, np.repeat(places[-1], _BLOCK - len(places))])
    first, second = _asked_once(model, taken, padded), _asked_once(model, taken, padded[::-1])
    if first is None or second is None:
        if len(places) == 1:
            return [None]
        return [one for place in places for one in _of_block(model, taken, np.array([place]))]
    pairs = zip(first[: len(places)], second[::-1][: len(places)], strict=True)
    return [a if _is(a, b) else None for a, b in pairs]


def _asked_once(model: Any, taken: Any, places: NDArray[np.int64]) -> list[Any] | None:
    """Return a model's answers, or None where it fails: what it says of that may tell of the rows."""
    try:
        with own_randomness():
            found = cell_by_cell(model.predict(taken(places)))
        # what is no plain value could be code too
        return [a if type(a) in WHOLE else None for a in found.tolist()] if found.shape == places.shape else None
    except KeyboardInterrupt:
        raise
    except BaseException:
        return None


def _is(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:
        return False
