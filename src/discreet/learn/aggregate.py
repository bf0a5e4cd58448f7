"""Any estimator made private by sample and aggregate: fitted on disjoint blocks of people, whose weights are combined.

Guarantee:
    That of `SampleAndAggregate`: ε-DP for each person, for any estimator whose fit on a block follows from that block
    alone. Its code runs on the caller's own arrays, and what it prints, and how long it takes, is not hidden.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InternalError, InvalidParameter, MissingBounds
from discreet.learn.estimator import listed_rows, object_numbers
from discreet.learn.features import cell_by_cell, equal
from discreet.mechanisms import SampleAndAggregate
from discreet.privacy.exact import Real


class SampleAggregate(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
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
    loss_: PrivacyLoss

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

    def fit(self, X: Any, y: Any, who: Any = None) -> SampleAggregate:
        """Fit the blocks, and combine their weights.

        Args:
            X: an array of numbers, one row an observation.
            y: a label or a number a row.
            who: whose each row is; left out, each row is a person. All rows of a person are in one block.

        Raises:
            MissingBounds, InvalidParameter: something has to be declared.
        """
        name, labels = type(self).__name__, self._labels()
        if self.epsilon is None:
            raise InvalidParameter(f"{name} needs epsilon.", hint=f"{name}(…, epsilon=1)")
        if self.weights is None:
            raise MissingBounds(f"{name} needs weights=, the range of each weight.", hint="weights=(-10, 10)")
        rows, told = np.asarray(listed_rows(X)), cell_by_cell(y)
        if rows.dtype.kind == "O" and isinstance(X, list | tuple):
            rows = object_numbers(rows)
        if rows.dtype.kind not in "biuf":
            raise InvalidParameter("X holds numbers.", hint="an array or a frame of numbers")
        if rows.ndim != 2 or told.shape != rows.shape[:1]:
            raise InvalidParameter("X has two dimensions, and y one number or label for each row.")
        model = self._rehearsed(rows.shape[1], labels)
        shapes = [np.shape(getattr(model, attribute)) for attribute in self.attributes]
        size = sum(math.prod(shape) for shape in shapes)
        ranges: Any = self.weights
        pairs = [ranges] * size if np.ndim(ranges[0]) == 0 else [*ranges]
        if len(pairs) != size:
            raise InvalidParameter(f"weights= has {len(pairs)} pairs, and the estimator {size} weights.")

        def weights_of(block: list[Any]) -> Any:
            own = np.concatenate(block)
            if labels is not None:
                own = own[np.any([equal(told[own], label) for label in labels], axis=0)]
            fitted = clone(self.estimator).fit(rows[own], np.asarray(told[own].tolist()))
            if labels is not None and fitted.classes_.tolist() != labels:
                raise InternalError("A label is not in this block.")  # its weights are of something else
            return self._weights_of(fitted)

        lower, upper = ([*ends] for ends in zip(*pairs, strict=True))
        given: dict[str, Any] = {"aggregation": self.aggregation, "relation": self.relation}
        mechanism = SampleAndAggregate(
            weights_of, blocks=self.blocks, epsilon=self.epsilon, lower=lower, upper=upper, **given
        )
        found: Any = mechanism.release(self._people(len(rows), who))
        for attribute, shape, ends in zip(self.attributes, shapes, self._ends(shapes), strict=True):
            setattr(model, attribute, np.reshape(found[ends], shape) if shape else found[ends][0])
        self.model_, self.loss_, self._said = model, mechanism.loss, mechanism.explain()
        return self

    def _labels(self) -> list[Any] | None:
        if not is_classifier(self.estimator):
            return None
        if self.classes is None:
            raise MissingBounds(
                "a classifier needs classes=, which must not be read from the data.", hint="classes=[LABEL, LABEL]"
            )
        return list(np.unique(np.asarray(self.classes)).tolist())

    def _rehearsed(self, columns: int, labels: list[Any] | None) -> Any:
        """Return the estimator fitted to made-up rows, which says what it learns."""
        made = np.sin(np.arange(64 * columns)).reshape(64, columns)
        y = made[:, 0] if labels is None else np.resize(np.asarray(labels), 64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = clone(self.estimator).fit(made, y)
        missing = [attribute for attribute in self.attributes if not hasattr(model, attribute)]
        if missing:
            raise InvalidParameter(
                f"a fitted {type(model).__name__} has no {missing[0]}.", hint="attributes=[…]: its weights"
            )
        return model

    def _weights_of(self, model: Any) -> Any:
        return np.concatenate([np.ravel(getattr(model, attribute)) for attribute in self.attributes])

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
        return self.model_.predict(X)

    def score(self, X: Any, y: Any) -> float:
        """Return the estimator's score on these rows, exactly: this is not private."""
        check_is_fitted(self)
        return float(self.model_.score(X, y))

    def explain(self) -> str:
        """Return how the weights were found, and what it cost, in sentences."""
        check_is_fitted(self)
        return self._said

    @property
    def classes_(self) -> Any:
        """The labels, of a classifier."""
        check_is_fitted(self)
        return self.model_.classes_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = self.estimator.__sklearn_tags__().estimator_type
        tags.classifier_tags = self.estimator.__sklearn_tags__().classifier_tags
        tags.regressor_tags = self.estimator.__sklearn_tags__().regressor_tags
        tags.target_tags.required, tags.non_deterministic = True, True
        return tags
