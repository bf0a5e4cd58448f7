"""Any estimator made private by sample and aggregate: fitted on disjoint blocks of people, whose weights are combined.

Guarantee:
    ε-DP for each person, for any estimator whose fit on a block follows from that block alone: of arrays that of
    `SampleAndAggregate`, in a session as of `BlockMedians`. How long its code takes is not hidden.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from discreet.catalog.schema import Values
from discreet.engine.recipe import Draw
from discreet.errors import InternalError, InvalidParameter, MissingBounds
from discreet.learn.asked import DeclaredRows
from discreet.learn.estimator import PrivateEstimator, listed_rows
from discreet.learn.features import DeclaredColumn, cell_by_cell, equal, numbers_of
from discreet.learn.trusted import SAID, digest, own_randomness, silent
from discreet.mechanisms import Exponential, SampleAndAggregate
from discreet.mechanisms.draws import NamedBest
from discreet.noise.entropy import SystemEntropy, words64
from discreet.plan.parts import person_part
from discreet.privacy.exact import Real
from discreet.privacy.unit import Sensitivity

if TYPE_CHECKING:
    from discreet.catalog.schema import Fact
    from discreet.engine.person_parts import PeopleRows
    from discreet.engine.recipe import Running
    from discreet.plan.parts import PersonPart
    from discreet.plan.person_rows import PersonRows
    from discreet.plan.plan import Plan

POINTS = 4097  # public points of a weight's range, of which one is named as the median of the blocks' answers
_RANKS, _SUM = "ranks by trusted code of the caller's", "sums by trusted code of the caller's"


@dataclass(frozen=True)
class BlockMedians(DeclaredRows):
    """Medians, or winsorized means, of the weights that somebody else's estimator has on blocks of people.

    Guarantee:
        ε-DP for each person, if a fit follows from its rows alone. A person's rows are in one block, which coins of
        their own choose, of a fresh key for each run; so one person changes one answer of each weight, and moves the
        numbers of answers below and above a public point by 1. A point's score is the larger of how far both are above
        those of the quantile, below 0; the exponential mechanism names one, for each weight at an even part of ε. Of a
        mean it names two quartiles, each at a quarter of that; what is left is for Laplace noise on the sum of answers,
        clamped to public ends around them and counted in steps of which one answer has `POINTS` − 1 at most.
    """

    ranges: tuple[tuple[float, float], ...] = field(kw_only=True)  # of the weights
    blocks: int = field(kw_only=True)  # how many
    winsorized: bool = field(kw_only=True)  # whether means are drawn
    code: str = field(kw_only=True)  # what tells the estimator from others

    def parts(self, rows: PersonRows, epsilon: Fraction) -> list[PersonPart]:
        n = len(self.ranges)
        given: dict[str, Any] = {"norms": Sensitivity(POINTS, 1), "kind": "whole"}
        given |= {"times": n * (1 + self.winsorized), "width": POINTS}
        law = NamedBest(Exponential(epsilon=epsilon / n / (4 if self.winsorized else 1)))
        parts = [person_part(_RANKS, rows, **given, law=law)]
        if self.winsorized:
            parts.append(person_part(_SUM, rows, width=1, norms=Sensitivity(1, POINTS - 1), kind="whole", times=n))
        return parts

    @property
    def said(self) -> Any:
        return [self.code, self.blocks, self.ranges, [c.said for c in self.columns]]

    def run(self, plan: Plan) -> Running[Any]:
        found = []
        for i, (low, high) in enumerate(self.ranges):
            named = []
            for quarter in (1, 3) if self.winsorized else (2,):
                place = yield Draw(_RANKS, {"weight": i, "quarter": quarter})
                named.append(low + (high - low) * int(place) / (POINTS - 1))
            if self.winsorized:
                ends = widened(named, self.blocks, low, high)
                (total,) = yield Draw(_SUM, {"weight": i, "ends": ends})
                named = [min(max(ends[0] + (ends[1] - ends[0]) * int(total) / (POINTS - 1) / self.blocks, low), high)]
            found += named
        return {"weights": found}

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["weight", "value"], [[f"weight {i}", value] for i, value in enumerate(state["weights"])]

    def prepare(self, people: PeopleRows) -> Any:
        """Return the blocks' weights, sorted."""
        labels = self.model._labels()
        if labels is None:
            low, high = self.model._target
            told: NDArray[Any] = self.numbers(people, low, high)
        else:
            told = np.array([*labels, None], object)[np.clip(people.column("y"), 0, len(labels))]
        rows = numbers_of(self.columns, self.cells(people))
        block = (words64(SystemEntropy(), people.size) % self.blocks)[people.person].astype(np.int64)
        own = np.split(np.argsort(block, kind="stable"), np.cumsum(np.bincount(block, minlength=self.blocks))[:-1])
        mechanism = self.model._mechanism(rows, told, labels, self.ranges)
        with silent():
            answers = np.array([mechanism._ask([places] if len(places) else []) for places in own])
        return np.sort(answers, axis=0)

    def whole(self, people: PeopleRows, of: str, args: Any) -> NDArray[np.int64]:
        answers, low, high = people.prepared[:, args["weight"]], *self.ranges[args["weight"]]
        if of == _SUM:
            low, high = args["ends"]
            steps = (np.clip(answers, low, high) - low) * ((POINTS - 1) / (high - low))
            return np.array([np.rint(steps).astype(np.int64).sum()])
        points, k, quarter = np.linspace(low, high, POINTS), self.blocks, args["quarter"]
        below, above = np.searchsorted(answers, points, "left"), k - np.searchsorted(answers, points, "right")
        return np.asarray(-np.maximum(below - quarter * k // 4, above - (4 - quarter) * k // 4), np.int64)


def widened(quartiles: Sequence[float], blocks: int, low: float, high: float) -> list[float]:
    """Return where answers are clamped: so many quartile distances around their middle that means are hardly biased."""
    least = (high - low) / (POINTS - 1)  # of what is told apart
    first, last = sorted(quartiles)
    middle, reach = (first + last) / 2, math.ceil(math.pow(blocks, 13 / 30)) * max(last - first, least)
    return [max(middle - reach, low), min(middle + reach, high)]


class SampleAggregate(MetaEstimatorMixin, PrivateEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Somebody else's estimator, fitted on blocks of people; its weights are the private medians of the blocks'.

    Which weights there are is seen by a fit to made-up rows. A block where the fit fails, or has other weights, counts
    as the middle of their ranges.

    Guarantee:
        ε-DP for each person, under `relation`, if a fit follows from its rows alone.

    References:
        docs/proofs/sample-and-aggregate.md.

    Attributes:
        model_: of the estimator's class, with the private weights.
        loss_: what the fit cost.

    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.linspace(-1, 1, 4000)[:, None]
    >>> model = SampleAggregate(LinearRegression(), blocks=40, epsilon=20, weights=(-4, 4)).fit(X, 2 * X[:, 0])
    >>> model.predict([[0.5]]).round().tolist()
    [1.0]
    """

    model_: Any
    runs_foreign_code = True
    bounds = None

    def __init__(
        self,
        estimator: Any,
        *,
        blocks: int,
        epsilon: Real | None = None,
        weights: tuple[Real, Real] | Sequence[tuple[Real, Real]] | None = None,
        classes: Sequence[Any] | None = None,
        attributes: Sequence[str] = ("coef_", "intercept_"),
        aggregation: str = "median",
        relation: str = "add-remove",
    ) -> None:
        """Note the parameters.

        Args:
            estimator: of scikit-learn or like it; it stays unfitted.
            blocks: how many there are: each fit has one in so many people.
            epsilon: the ε to be spent, of which each weight has an even part.
            weights: (low, high) of all weights, or a pair for each.
            classes: the labels, of a classifier; a row with another label is left out.
            attributes: which numbers of a fitted estimator are its weights.
            aggregation: "median" or "winsorized".
            relation: "add-remove" or "replace".
        """
        self.estimator, self.blocks, self.epsilon, self.weights = estimator, blocks, epsilon, weights
        self.classes, self.attributes, self.aggregation, self.relation = classes, attributes, aggregation, relation

    def fit(self, X: Any, y: Any = None, who: Any = None) -> Self:
        """Fit the blocks, and combine their weights.

        Args:
            X: an array of numbers, one row an observation.
            y: a label or a number a row.
            who: whose each row is; left out, each row is a person. All rows of a person are in one block.

        Raises:
            MissingBounds, InvalidParameter: something has to be declared.
        """
        labels = self._labels()
        self._declared_ranges()
        if np.asarray(listed_rows(X)).dtype.kind in "USmMV":
            raise InvalidParameter("X holds numbers.", hint="an array or a frame of numbers")
        self.__dict__.pop("_columns", None)  # of a fit in a session
        cells, _ = self._cells(X, reset=True)
        if any(np.asarray(c).dtype.kind not in "biuf" for c in cells):
            raise InvalidParameter("X holds numbers.", hint="an array or a frame of numbers")
        rows = np.stack(cells, axis=1)
        told = cell_by_cell(self._one_target(y, len(rows)))
        model = self._rehearsed(rows.shape[1])
        mechanism = self._mechanism(rows, told, labels, self._ranges(model))
        with silent():
            found: Any = mechanism.release(self._people(len(rows), who))
        self.loss_, self._planned = mechanism.loss, mechanism.explain()
        self._take({"weights": found}, model)
        return self

    def _mechanism(
        self, rows: NDArray[Any], told: NDArray[Any], labels: list[Any] | None, pairs: Sequence[tuple[Any, Any]]
    ) -> SampleAndAggregate:
        def weights_of(block: list[Any]) -> Any:
            own = np.concatenate(block)
            if labels is not None:
                own = own[np.any([equal(told[own], label) for label in labels], axis=0)]
            with own_randomness():
                fitted = clone(self.estimator).fit(rows[own], np.asarray(told[own].tolist()))
            if labels is not None and fitted.classes_.tolist() != labels:
                raise InternalError("A label is not in this block.")  # its weights are of something else
            return np.concatenate([np.ravel(getattr(fitted, attribute)) for attribute in self.attributes])

        lower, upper = ([*ends] for ends in zip(*pairs, strict=True))
        assert self.epsilon is not None
        given: dict[str, Any] = {"blocks": self.blocks, "aggregation": self.aggregation, "relation": self.relation}
        return SampleAndAggregate(weights_of, epsilon=self.epsilon, lower=lower, upper=upper, **given)

    def _declared_ranges(self) -> None:
        name = type(self).__name__
        if self.epsilon is None:
            raise InvalidParameter(f"{name} needs epsilon.", hint=f"{name}(…, epsilon=1)")
        if self.weights is None:
            raise MissingBounds(f"{name} needs weights=, the range of each weight.", hint="weights=(-10, 10)")

    def _ranges(self, model: Any) -> list[tuple[Any, Any]]:
        """Return the range of each weight of a model."""
        ranges: Any = self.weights
        size = sum(math.prod(shape) for shape in self._shapes_of(model))
        pairs = [ranges] * size if np.ndim(ranges[0]) == 0 else [*ranges]
        if len(pairs) != size:
            raise InvalidParameter(f"weights= has {len(pairs)} pairs, and the estimator {size} weights.")
        return pairs

    def _shapes_of(self, model: Any) -> list[tuple[int, ...]]:
        return [np.shape(getattr(model, attribute)) for attribute in self.attributes]

    def _check(self) -> None:
        self._declared_ranges()
        self._relation()

    def _declare(self, target: Fact | None) -> list[Any] | None:
        if not is_classifier(self.estimator):
            if isinstance(target, Values) or target is None:
                raise InvalidParameter(
                    "the target of a regressor has bounds, and no values.", hint="dp.Range(LOW, HIGH)"
                )
            column = DeclaredColumn.of("y", target)
            self._target = column.low, column.high
            return None
        if self.classes is None and isinstance(target, Values):
            self.classes = [value for value in target.values if value is not None]
        return self._labels()

    def _recipe(self, rows: int | None = None) -> BlockMedians:
        pairs, none = self._ranges(self._rehearsed(self._width)), np.zeros((0, 1))
        checked = self._mechanism(none, none, None, pairs)  # which refuses what cannot be
        given: dict[str, Any] = {"ranges": tuple((float(low), float(high)) for low, high in pairs), "model": self}
        given["winsorized"] = self.aggregation == "winsorized"
        given |= {"blocks": checked.blocks, "code": digest((self.estimator, self.classes, [*self.attributes]))}
        return BlockMedians(self._columns, checked.epsilon, Fraction(0), **given)

    @property
    def _width(self) -> int:
        """The count of numbers in a row of the declared columns."""
        return int(numbers_of(self._columns, [np.zeros(0)] * len(self._columns)).shape[1])

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {}

    def _take(self, state: Any, model: Any = None) -> None:
        model = self._rehearsed(self._width) if model is None else model
        shapes = self._shapes_of(model)
        for attribute, shape, ends in zip(self.attributes, shapes, self._ends(shapes), strict=True):
            found = np.array(state["weights"][ends])
            setattr(model, attribute, np.reshape(found, shape) if shape else found[0])
        self.model_ = model

    def _explained(self) -> str:
        return SAID

    def save(self, path: Any) -> None:
        """Refuse: what is kept of somebody else's estimator would have to run its code.

        Raises:
            InvalidParameter: always.
        """
        raise InvalidParameter(
            "a model of somebody else's estimator is not written to a file.", hint="keep model_.coef_"
        )

    def _labels(self) -> list[Any] | None:
        if not is_classifier(self.estimator):
            return None
        if self.classes is None:
            raise MissingBounds(
                "a classifier needs classes=, which must not be read from the data.", hint="classes=[LABEL, LABEL]"
            )
        return list(np.unique(np.asarray(self.classes)).tolist())

    def _rehearsed(self, columns: int) -> Any:
        """Return the estimator fitted to made-up rows, which says what it learns."""
        labels, made = self._labels(), np.sin(np.arange(64 * columns)).reshape(64, columns)
        y = made[:, 0] if labels is None else np.resize(np.asarray(labels), 64)
        with silent(), own_randomness():
            model = clone(self.estimator).fit(made, y)
        missing = [attribute for attribute in self.attributes if not hasattr(model, attribute)]
        if missing:
            raise InvalidParameter(
                f"a fitted {type(model).__name__} has no {missing[0]}.", hint="attributes=[…]: its weights"
            )
        return model

    @staticmethod
    def _ends(shapes: Sequence[tuple[int, ...]]) -> list[slice]:
        ends = np.cumsum([0, *(math.prod(shape) for shape in shapes)]).tolist()
        return [slice(a, b) for a, b in pairwise(ends)]

    @staticmethod
    def _people(rows: int, who: Any) -> list[Any]:
        """Return the places of each person's rows."""
        if who is None:
            return list(np.arange(rows)[:, None])
        if len(who) != rows:
            raise InvalidParameter("who= says for each row whose it is.")
        found: dict[Any, list[int]] = {}
        for place, one in enumerate(cell_by_cell(who).tolist()):
            found.setdefault(one if isinstance(one, int | float) and one == one else repr(one), []).append(place)
        return [np.array(places) for places in found.values()]

    def predict(self, X: Any) -> Any:
        """Return what the estimator predicts with the private weights."""
        check_is_fitted(self)
        return self.model_.predict(self._given(X))

    def score(self, X: Any, y: Any) -> float:
        """Return the estimator's score on these rows, exactly: this is not private."""
        check_is_fitted(self)
        return float(self.model_.score(self._given(X), y))

    def _given(self, X: Any) -> Any:
        """Return rows of numbers: of a fit in a session each column as it was declared."""
        if "_columns" in self.__dict__:
            return numbers_of(self._columns, self._inputs(X))
        return np.stack(self._cells(X, reset=False)[0], axis=1)

    @property
    def classes_(self) -> Any:
        """The labels, of a classifier."""
        check_is_fitted(self)
        return self.model_.classes_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = self.estimator.__sklearn_tags__()
        tags.estimator_type, tags.input_tags.allow_nan = own.estimator_type, own.input_tags.allow_nan
        tags.classifier_tags, tags.regressor_tags = own.classifier_tags, own.regressor_tags
        tags.target_tags.required = True
        return tags
