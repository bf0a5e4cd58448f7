"""Linear models that keep each row private, in scikit-learn's habits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier, is_regressor
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from discreet.catalog.schema import Fact, Range, Values
from discreet.errors import InvalidParameter, MissingBounds
from discreet.learn.asked import FeatureRows
from discreet.learn.descent import LinearDescent
from discreet.learn.estimator import PrivateEstimator, parameters
from discreet.learn.features import DeclaredColumn, Features, equal, fact_of, occurring_labels
from discreet.learn.gram import GramRegression
from discreet.learn.losses import Floats, Hinge, Huber, Logistic, Poisson, RowLoss, Softmax, Squared
from discreet.learn.objective import ObjectiveMinimum
from discreet.privacy.exact import count

if TYPE_CHECKING:
    from discreet.plan.plan import Plan

OBJECTIVE = ("objective", "output")  # solvers that find the minimum itself, of two classes or of the Huber loss


class ScoredModel(PrivateEstimator):
    """What estimators share whose predictions follow from scores of public features."""

    _weights: Floats
    _features: Any
    _target: DeclaredColumn

    @abstractmethod
    def rebuild(self, outputs: int) -> Floats:
        """Make weights and features anew of plain numbers, whatever they are, and return the weights.

        Raises:
            AttributeError, TypeError, ValueError: they are not what a fit gives.
        """

    @abstractmethod
    def answers_of(self, scores: Floats) -> NDArray[Any]:
        """Return the predictions that follow from scores: places of labels, or numbers."""

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        columns = self._inputs(X)
        found: Floats = self._features.scores(columns, self._weights, len(columns[0]))
        return found


class LinearModel(ScoredModel):
    """What linear models share.

    Attributes:
        coef_: coefficients in the units of the data: of a column within its declared bounds; of the basis "gam" and of
            declared values one for each of `terms_`.
        intercept_: the score where all of these are 0.
        terms_: what the coefficients are of.
        steps_: how many steps the descent took.
    """

    basis: Any
    knots: Any
    solver: Any
    rows: Any
    coef_: Floats
    intercept_: Any
    terms_: list[str]
    steps_: int
    _solvers: ClassVar[tuple[str, ...]] = ("gradient",)
    _descent: ClassVar[type[LinearDescent]] = LinearDescent

    @abstractmethod
    def _loss(self) -> RowLoss:
        """Return the loss; what is declared of the target is known."""

    def _recipe(self, rows: int | None = None) -> FeatureRows:
        bounds = (self._target.low, self._target.high) if is_regressor(self) else None
        given: dict[str, Any] = {"basis": self.basis, "knots": self.knots, "target": bounds}
        if self.solver == "gram":
            return GramRegression(self._columns, *self._guarantee(), **given)
        given["loss"] = self._loss()
        if self.solver in OBJECTIVE:
            return ObjectiveMinimum(self._columns, *self._guarantee(), **given, inside=self.solver == "objective")
        known = rows if self.rows is None else count("rows", self.rows)
        return self._descent(self._columns, *self._guarantee(), **given, rows=known)

    def rebuild(self, outputs: int) -> Floats:
        self._features = Features(tuple(self._features.columns), self._features.basis, self._features.knots)
        self._weights = np.asarray(self._weights, np.float64).reshape(outputs, self._features.width)
        return self._weights

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        labels = len(self.__dict__.get("classes_", ()))
        return {"weights": (labels if labels > 2 else 1, self._made_of({}).width), "steps": ()}

    def _made_of(self, state: Mapping[str, Any]) -> Features:
        """Return the features of a state."""
        return Features(self._columns, self.basis, self.knots)

    def accept(self, plan: Plan, state: Any) -> None:
        super().accept(plan, state)
        sigma = [float(part.law.noise.sigma) for part in plan.parts if part.name == "count"]  # type: ignore[union-attr]  # Gaussian noise
        if is_classifier(self) and sigma and self._state["rows"] <= 3 * sigma[0]:  # said by a model that is read, too
            self._planned += "\nNoise hides how many rows have a declared label: look at the spelling of labels."

    def _take(self, state: Any) -> None:
        self._features, self._weights = self._made_of(state), np.array(state["weights"])
        self.steps_, self._clip = state["steps"], state.get("clip")
        self.coef_, self.intercept_ = self._features.coefficients(self._weights)
        self.terms_ = self._features.names

    def _check(self) -> None:
        super()._check()
        if self.solver not in self._solvers:
            raise InvalidParameter(f"solver must be one of {', '.join(map(repr, self._solvers))}, not {self.solver!r}.")
        if not self._guarantee()[1] and self.solver == "gradient":
            other = ", or solver='objective'" * ("objective" in self._solvers)
            raise InvalidParameter(
                "Gradient descent with Gaussian noise needs delta above 0.", hint=f"delta=1e-6{other}"
            )
        Features((), self.basis, self.knots)

    def _explained(self) -> str:
        if self.solver == "gram":
            return f"Least squares of a Gram matrix of {self._features.width} features, drawn once."
        if self.solver in OBJECTIVE:
            where = "in the objective" if self.solver == "objective" else "on the minimum"
            return f"The minimum of a regularised sum of losses of {self._features.width} features, with noise {where}."
        return (
            f"Gradient descent: {self.steps_} steps, each person's gradient clipped to a length of {self._clip:g}, on "
            f"{self._features.width} features of {len(self._columns)} columns."
        )


class _Classifier(ClassifierMixin, ScoredModel):  # type: ignore[misc]  # scikit-learn has no types
    """What classifiers share."""

    classes: Any
    classes_: NDArray[Any]

    def _check(self) -> None:
        super()._check()
        if self.classes is None:
            raise MissingBounds(
                f"{type(self).__name__} needs classes=, which must not be read from the data.",
                hint="classes=[LABEL, LABEL], or classes='public' where it is no secret which labels occur",
            )
        if isinstance(self.classes, str) and self.classes != "public":
            raise InvalidParameter(f"classes must be labels or 'public', not {self.classes!r}.")

    def _goal(self, y: Any, rows: int) -> tuple[Floats, Fact]:
        labels = self._one_target(y, rows)
        if isinstance(self.classes, str):
            labels = np.asarray(y) if isinstance(y, list) else labels  # their types are no secret either
            self.classes_ = occurring_labels(labels)
            check_classification_targets(self.classes_)
        self._refuse_one()
        found = np.full(len(labels), len(self.classes_), np.float64)
        for k, label in enumerate(self.classes_.tolist()):
            found[equal(labels, label)] = k
        return found, Range(0, len(self.classes_), integer=True)

    def _refuse_one(self) -> None:
        if len(self.classes_) < 2:
            raise InvalidParameter("a classifier needs at least two classes; there is 1 class.")

    def _declare(self, target: Fact | None) -> list[Any]:
        if self.classes is None and isinstance(target, Values):
            self.classes = [value for value in target.values if value is not None]
        if self.classes is None or isinstance(self.classes, str):
            raise MissingBounds(
                "The target has no declared values.",
                hint="classes=[LABEL, LABEL], or its dp.Values(…), when you connect",
            )
        self._declared()
        self._refuse_one()
        labels: list[Any] = self.classes_.tolist()
        return labels

    def _declared(self) -> None:
        if not isinstance(self.classes, str):
            self.classes_ = _labels(self.classes)

    def decision_function(self, X: Any) -> Floats:
        """Return the scores of rows: of two classes that of the second, else one for each class."""
        z = self._scores(X)
        return z[:, 0] if z.shape[1] == 1 else z

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most likely label of each row."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.answers_of(self._scores(X))])

    def answers_of(self, scores: Floats) -> NDArray[Any]:
        return (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)


class Probabilities(_Classifier):
    """What classifiers with probabilities share."""

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class, one row of them a row."""
        z = self._scores(X)
        if z.shape[1] == 1:
            return np.concatenate([expit(-z), expit(z)], axis=1)
        return np.asarray(softmax(z, axis=1))

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithms of the probabilities."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))


@parameters
class _LinearClassifier(LinearModel, _Classifier):
    """What linear classifiers share."""

    classes: Any = None
    basis: str = "linear"
    knots: int = 12
    solver: str = "gradient"
    rows: int | None = None

    def _only_two(self, what: str, hint: str) -> None:
        if len(self.classes_) > 2:
            raise InvalidParameter(f"Only binary classification is supported by {what}.", hint=hint)


@parameters
class LogisticRegression(_LinearClassifier, Probabilities):
    """Logistic regression of two or more classes, by noisy gradient descent.

    Guarantee:
        (ε, δ)-DP for each row, under `relation`, of everything that `fit` leaves: all Gaussian noise of a fit is one
        event (`loss_`). What is public: the number and names of columns, the bounds, the classes, all parameters, and
        under replace the number of rows. Each fit draws fresh noise.

    References:
        docs/proofs/learn.md.

    >>> X = np.array([[-1.0], [1.0]] * 500)
    >>> model = LogisticRegression(epsilon=1, delta=1e-6, bounds=(-2, 2), classes=[False, True])
    >>> model.fit(X, X[:, 0] > 0).predict([[-1.5], [1.5]]).tolist()
    [False, True]
    """

    _solvers = ("gradient", *OBJECTIVE)

    def _loss(self) -> RowLoss:
        if self.solver in OBJECTIVE:
            self._only_two(f"solver={self.solver!r}", "solver='gradient'")
        return Logistic() if len(self.classes_) == 2 else Softmax(len(self.classes_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.solver not in OBJECTIVE
        return tags


@parameters
class LinearSVC(_LinearClassifier):
    """Linear classification of two classes by the smoothed hinge loss, by noisy gradient descent.

    Guarantee:
        As of `LogisticRegression`.
    """

    def _loss(self) -> RowLoss:
        self._only_two("LinearSVC", "LogisticRegression, which takes more classes")
        return Hinge()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class Regressor(RegressorMixin, LinearModel):  # type: ignore[misc]  # scikit-learn has no types
    """What linear regressors share."""

    target: Any

    def _check(self) -> None:
        super()._check()
        if self.target is None:
            raise MissingBounds(
                f"{type(self).__name__} needs target=, which must not be read from the data.", hint="target=(LOW, HIGH)"
            )

    def _goal(self, y: Any, rows: int) -> tuple[Floats, Fact]:
        return self._target.read(self._one_target(y, rows)), Range(self._target.low, self._target.high)

    def _declare(self, target: Fact | None) -> None:
        if isinstance(target, Values):
            raise InvalidParameter("the target of a regressor has bounds, and no values.", hint="dp.Range(LOW, HIGH)")
        if self.target is not None:
            raise InvalidParameter(
                "In a session the target's bounds are those of its column.", hint="leave target= out"
            )
        self.target = target
        self._declared()

    def _declared(self) -> None:
        self._target = DeclaredColumn.of("y", fact_of("target", self.target))
        self._loss()  # which refuses what cannot be

    def predict(self, X: Any) -> Floats:
        """Return the prediction of each row, or its mean, within the target's bounds."""
        return self.answers_of(self._scores(X))


class ScaledRegressor(Regressor):
    """What regressors share whose target is scaled to ±1."""

    loss: Any

    def _loss(self) -> RowLoss:
        if self.loss not in ("squared", "huber"):
            raise InvalidParameter(f"loss must be 'squared' or 'huber', not {self.loss!r}.")
        return Squared() if self.loss == "squared" else Huber()

    def answers_of(self, scores: Floats) -> NDArray[Any]:
        z = np.clip(scores[:, 0], -1, 1)
        low, high = self._target.low, self._target.high
        return np.asarray(low + (z + 1) * (high - low) / 2)


@parameters
class LinearRegression(ScaledRegressor):
    """Linear regression by squared or Huber loss, by noisy gradient descent.

    Guarantee:
        (ε, δ)-DP for each row, under `relation`, of everything that `fit` leaves: all Gaussian noise of a fit is one
        event (`loss_`). What is public: the number and names of columns, the bounds, the target's too, all parameters,
        and under replace the number of rows. Each fit draws fresh noise.

    References:
        docs/proofs/learn.md.
    """

    _solvers = ("gradient", "gram", *OBJECTIVE)

    target: Any = None
    loss: str = "squared"
    basis: str = "linear"
    knots: int = 12
    solver: str = "gradient"
    rows: int | None = None

    def _check(self) -> None:
        super()._check()
        if self.solver == "gram" and self.loss != "squared":
            raise InvalidParameter("solver='gram' has the squared loss alone.", hint="loss='squared'")
        if self.solver in OBJECTIVE and self.loss != "huber":
            raise InvalidParameter(f"solver={self.solver!r} has the Huber loss alone.", hint="loss='huber'")

    def _take(self, state: Any) -> None:
        super()._take(state)
        low, high = self._target.low, self._target.high
        self.coef_ = self.coef_[0] * (high - low) / 2
        self.intercept_ = float(self.intercept_[0]) * (high - low) / 2 + (low + high) / 2


@parameters
class PoissonRegressor(Regressor):
    """Poisson regression with the logarithm as its link, by noisy gradient descent.

    The loss is divided by the highest target, and predictions are at most that.

    Guarantee:
        As of `LinearRegression`.
    """

    target: Any = None
    basis: str = "linear"
    knots: int = 12
    solver: str = "gradient"
    rows: int | None = None

    def _loss(self) -> RowLoss:
        if self._target.low < 0:
            raise InvalidParameter("target= of a Poisson regression starts at 0 or above.", hint="target=(0, HIGH)")
        return Poisson(high=self._target.high)

    def answers_of(self, scores: Floats) -> NDArray[Any]:
        z = np.minimum(scores[:, 0], np.log(self._target.high))
        return np.clip(np.exp(z), self._target.low, self._target.high)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


def _labels(classes: Any) -> NDArray[Any]:
    """Return declared labels in their order."""
    try:
        given = [*classes]
    except TypeError:
        raise InvalidParameter(f"classes must be labels or 'public', not {classes!r}.") from None
    found = np.unique(np.asarray(given))
    if len(found) != len(given):
        raise InvalidParameter("classes must be labels of one kind that differ from each other.")
    return found
