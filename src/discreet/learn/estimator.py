"""What the private estimators share: parameters that are read before any data, columns of data, and what a fit says."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.loss import PrivacyLoss
from discreet.catalog.schema import Fact, Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.engine.person_recipe import as_json, run_on_arrays
from discreet.errors import InvalidParameter, MissingBounds, MissingExtra
from discreet.learn import model_file
from discreet.learn.asked import AskedColumns, DeclaredRows
from discreet.learn.features import DeclaredColumn, cell_by_cell, number, read_bounds
from discreet.learn.losses import Floats
from discreet.plan.notes import bias_of_facts
from discreet.privacy.exact import Real, positive, probability
from discreet.privacy.unit import PrivacyUnit, Relation

T = TypeVar("T")

MEANINGS = {
    "epsilon": "the ε to be spent.",
    "delta": "the δ to be spent; at 0 noise is Laplace's, and wider, where a fit does not need δ.",
    "bounds": "(low, high) for all columns, a pair a column, or {name: dp.Range | dp.Values} for a data frame.",
    "relation": '"add-remove" or "replace".',
    "classes": 'the labels, or "public" where it is no secret which labels occur.',
    "target": "(low, high) of y; predictions lie within it.",
    "loss": '"squared", or "huber", which is linear beyond an eighth of the target\'s range.',
    "basis": '"linear", or "gam" for a sum of functions of each column.',
    "knots": "how many public knots such a function has.",
    "solver": '"gradient"; of `LinearRegression` also "gram", for one noisy Gram matrix, which takes no clipping and '
    'any δ; of two classes (`LogisticRegression`) and of the Huber loss "objective", for noise in what is minimised, '
    'which takes δ = 0, and "output", for noise on the minimum, which is for teaching.',
    "rows": "a public guess at the number of rows, in place of a noisy count.",
    "n_clusters": "how many clusters.",
    "n_components": "how many components are kept; None for all.",
    "with_mean": "whether means are taken away.",
    "with_std": "whether columns are divided by their deviations.",
}
"""What each parameter means."""


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def parameters(kind: type[T]) -> type[T]:
    """Make what a class and its bases annotate with `parameters` the arguments of its constructor."""
    made: Any = dataclass(eq=False, repr=False, kw_only=True)(kind)
    told = "\n".join(f"    {f.name}: {MEANINGS[f.name]}" for f in fields(made))
    made.__init__.__doc__ = f"Note the parameters.\n\nArgs:\n{told}"
    found: type[T] = made
    return found


try:
    from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
except ImportError:
    raise MissingExtra(
        "Learning needs scikit-learn, which is not installed.", hint="pip install 'discreet[learn]'"
    ) from None

if TYPE_CHECKING:
    from discreet.engine.person_recipe import PersonRecipe
    from discreet.plan.plan import Plan


@parameters
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator whose `fit` is differentially private for each row.

    Attributes:
        loss_: what the fit cost, as a `PrivacyLoss`.
        n_features_in_: how many columns X has.
        feature_names_in_: their names, where X has names.
    """

    epsilon: Real | None = None
    delta: Real | None = None
    bounds: Any = None
    relation: str = "add-remove"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the model: private for each row.

        Args:
            X: an array or a data frame; what is missing becomes the middle of its bounds, and what lies outside its
                end.
            y: of an estimator that predicts, a number a row, read in the same way, or a label; a row whose label is
                not declared is left out.

        Raises:
            MissingBounds, InvalidParameter: something has to be declared; raised before X is read.
        """
        self._check()
        self._declared()
        cells, names = self._cells(X, reset=True)
        self._columns = read_bounds(self.bounds, names, named=hasattr(self, "feature_names_in_"))
        rows = len(cells[0])
        target = self._goal(y, rows)
        # their number is public under replace, where each row is a unit and none is dropped
        self._draw(self._recipe(rows if self._relation() is Relation.REPLACE else None), cells, target)
        return self

    def _goal(self, y: Any, rows: int) -> tuple[Floats, Fact] | None:
        """Return what is predicted of each row, as a recipe reads it; None where nothing is."""
        return None

    @abstractmethod
    def _recipe(self, rows: int | None = None) -> DeclaredRows:
        """Return what is drawn of the declared columns; `rows` is their number where that is public."""

    def explain(self) -> str:
        """Return what the fit read and drew, and what it cost, in sentences."""
        check_is_fitted(self)
        return f"{self._planned}\n{self._explained()}\n{self._bias()}".rstrip()

    def _bias(self) -> str:
        """Return which values are clamped, and what undeclared ones are."""
        facts = {
            c.name: Range(c.low, c.high) if c.values is None else Values(*c.values)
            for c in self.__dict__.get("_columns", ())
        }
        return bias_of_facts(facts, "are a value of their own")

    def _explained(self) -> str:
        return ""

    @property
    def cost(self) -> PrivacyLoss:
        """What the fit cost."""
        check_is_fitted(self)
        return self.loss_

    @property
    def stored(self) -> bool:
        """Whether the session's ledger had the fit, so that it cost nothing."""
        return bool(self._received()[0].stored)

    def certificate(self) -> dict[str, Any]:
        """Return the certificate of a fit in a session, for `discreet verify`.

        Raises:
            InvalidParameter: it was fitted on arrays, without a ledger; or the ledger does not keep it.
        """
        receipt, columns, rows = self._received()
        found: dict[str, Any] = receipt.paid.certificate("", columns, rows)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, as JSON, which `load` reads; large arrays stand beside it, in PATH.npz.

        The file holds declarations, noisy numbers and what they cost: no row, and no code. What a session's ledger
        keeps of the fit, its certificate, stays there.

        Raises:
            InvalidParameter: it holds something that JSON has not.
        """
        check_is_fitted(self)
        model_file.write(self, path)

    def _received(self) -> Any:
        check_is_fitted(self)
        receipt = self.__dict__.get("_receipt")
        if receipt is None:
            raise InvalidParameter(
                "this model was fitted on arrays, without a ledger.", hint="session.fit(model, features=…, target=…)"
            )
        return receipt

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        state.pop("_receipt", None)  # it holds the account
        return state

    def _guarantee(self) -> tuple[Fraction, Fraction]:
        """Return ε and δ. Raises InvalidParameter: one is missing or impossible."""
        name = type(self).__name__
        if self.epsilon is None:
            raise InvalidParameter(f"{name} needs epsilon.", hint=f"{name}(epsilon=1, delta=1e-6, …)")
        if self.delta is None:
            raise InvalidParameter(f"{name} needs delta.", hint=f"{name}(epsilon=1, delta=1e-6, …)")
        epsilon, delta = positive("epsilon", self.epsilon), probability("delta", self.delta)
        if self.bounds is None:
            raise MissingBounds(
                f"{name} needs bounds=, which must not be read from the data.",
                hint="bounds=(LOW, HIGH), a pair a column, or {name: dp.Range(LOW, HIGH)}",
            )
        return epsilon, delta

    def _relation(self) -> Relation:
        return Relation.parse(self.relation)

    def _inputs(self, X: Any) -> list[Floats]:
        """Return each column of X as numbers within its bounds."""
        cells, _ = self._cells(X, reset=False)
        return [column.read(c) for column, c in zip(self._columns, cells, strict=True)]

    def _cells(self, X: Any, *, reset: bool) -> tuple[list[NDArray[Any]], list[str]]:
        """Return each column of X as it is, and their names; only dtype and number of columns may raise."""
        frame = _frame_names(X)
        if frame is not None:
            self._check_frame(X, frame, reset=reset)
            cells = [_cells(X, name) for name in frame]
        else:
            X = listed_rows(X)
            dtype = getattr(X, "dtype", None)
            if isinstance(dtype, np.dtype) and (dtype.kind == "c" or getattr(X, "ndim", 2) < 2):
                _refuse_shape("Complex data not supported." if dtype.kind == "c" else "Expected 2D array.")
            if isinstance(dtype, np.dtype) and dtype.kind == "O":
                X = object_numbers(X)
            kept = {"ensure_all_finite": False, "ensure_min_samples": 0, "dtype": "numeric", "reset": reset}
            array = validate_data(self, X, **kept)
            cells = list(np.asarray(array).T)
            frame = [f"column {i}" for i in range(len(cells))]
        return cells, frame

    def _only_numbers(self) -> None:
        """Refuse columns of declared values."""
        listed = [c.name for c in self._columns if c.values is not None]
        if listed:
            raise InvalidParameter(
                f"{type(self).__name__} takes numbers, and {listed[0]!r} has declared values.",
                hint="leave the column out of X, in a session out of features=",
            )

    def _check_frame(self, X: Any, names: list[str], *, reset: bool) -> None:
        """Note the names of a frame's columns, or compare them with those of the fit."""
        from sklearn.utils.validation import _check_feature_names, _check_n_features

        if not reset:
            check_is_fitted(self)
        _check_feature_names(self, X, reset=reset)
        _check_n_features(self, X, reset=reset)
        if not names:
            raise InvalidParameter("X has no columns: 0 feature(s) while a minimum of 1 is required.")

    def _one_target(self, y: Any, rows: int) -> NDArray[Any]:
        """Return y as one number or label a row."""
        if y is None:
            raise InvalidParameter(
                f"{type(self).__name__} requires y to be passed, but the target y is None.", hint="fit(X, y)"
            )
        found = np.asarray(column_or_1d(cell_by_cell(y), warn=True))
        if len(found) != rows:
            raise InvalidParameter(
                "X and y have different lengths: Found input variables with inconsistent numbers of samples."
            )
        return found

    def _draw(self, recipe: PersonRecipe, cells: Sequence[Any], target: tuple[Floats, Fact] | None) -> None:
        """Draw a recipe of arrays, whose columns are called x0, x1, … and y, and take what it found."""
        declared: dict[str, Fact] = {}
        for i, c in enumerate(self._columns):
            whole = c.values is not None
            declared[f"x{i}"] = Range(c.low if not whole else 0, c.high if not whole else int(c.high), integer=whole)
        given: dict[str, Any] = {
            f"x{i}": ReadLater(*both) for i, both in enumerate(zip(self._columns, cells, strict=True))
        }
        if target is not None:
            given["y"], declared["y"] = target
        types = {name: Type.INT if f.integer else Type.REAL for name, f in declared.items() if isinstance(f, Range)}
        table = TableSchema("rows", types, declared, PrivacyUnit.row(), self._relation())
        plan = recipe.plan([table])
        self.accept(plan, run_on_arrays(recipe, plan, np.arange(len(cells[0])), given))

    def asked_of(
        self,
        tables: Sequence[TableSchema],
        features: Sequence[str] | None,
        target: str | None,
        table: str | None,
        where: str | None,
    ) -> DeclaredRows:
        """Return the recipe that fits a clone of this estimator in a session; `session.fit` performs it.

        Raises:
            PlanError, InvalidParameter: it cannot be fitted so.
        """
        name, has_target = type(self).__name__, is_classifier(self) or is_regressor(self)
        if has_target and target is None:
            raise InvalidParameter(f"{name} needs target=, the column that is predicted.", hint="target='income'")
        if target is not None and not has_target:
            raise InvalidParameter(f"{name} predicts no column.", hint="leave target= out")
        asked = AskedColumns.of(tables, features, target, table, where)
        if self.bounds is not None:
            raise InvalidParameter("In a session the bounds are those of its columns.", hint="leave bounds= out")
        if self._relation().value != asked.relation:
            raise InvalidParameter(
                f"{name} is for {self._relation().value} neighbours, and this account is for {asked.relation}.",
                hint=f"relation={asked.relation!r}",
            )
        model = clone(self)
        model.bounds = asked.facts
        model._columns = read_bounds(asked.facts, list(asked.facts), named=True)
        labels = model._declare(asked.target)
        model._check()
        recipe: DeclaredRows = model._recipe()
        return replace(recipe, sql=asked.sql(labels), per_person=asked.per_person, centred=True, model=model)

    def _declare(self, target: Fact | None) -> list[Any] | None:
        """Take what is declared of the target, where the parameters say nothing of it; return a classifier's labels."""
        return None

    def declare_columns(self, columns: tuple[DeclaredColumn, ...]) -> None:
        """Take the columns of a fit in a session, and what the parameters declare of the target."""
        self._columns, self.n_features_in_ = columns, len(columns)
        self.feature_names_in_ = np.array([c.name for c in columns], dtype=object)
        self._declared()

    def _declared(self) -> None:
        """Take what the parameters declare of the target."""

    def accept(self, plan: Plan, state: Any) -> None:
        """Take a fit: what it cost, and its state, from which all else follows."""
        self.loss_, self._planned = PrivacyLoss(plan.payers[0].events), plan.explain()
        self._state = as_json(state)
        self._take(self._state)

    def _check(self) -> None:
        """Refuse what can be seen without data."""
        self._guarantee()
        self._relation()

    @abstractmethod
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arrays of a state, which follow from the declarations."""

    @abstractmethod
    def _take(self, state: Any) -> None:
        """Set what follows from the declarations and the state of a fit, which is public."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = False
        return tags


class ReadLater:
    """A column of data that is read where an array is made of it, so that all are never held twice."""

    def __init__(self, column: DeclaredColumn, cells: NDArray[Any]) -> None:
        self._column, self._cells = column, cells

    def __len__(self) -> int:
        return len(self._cells)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return self._column.read(self._cells)


def load(path: str | os.PathLike[str]) -> Any:
    """Return the fitted model that `save` wrote to a file.

    Loading runs no code of the file, whoever wrote it: it names one of the package's own estimators, and holds numbers
    that are checked.

    Raises:
        InvalidParameter: there is no such file, it is no model, or another version of discreet wrote it.
    """
    home = sys.modules["discreet.learn"]
    found = {k.__name__: k for k in _below(PrivateEstimator) if getattr(home, k.__name__, None) is k}
    return model_file.read(path, found)


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    """Yield all classes below a class."""
    for below in kind.__subclasses__():
        yield below
        yield from _below(below)


def _frame_names(X: Any) -> list[str] | None:
    """Return the names of a data frame's columns; None where X is none, or has other than texts for names."""
    columns = getattr(X, "columns", None)
    if columns is None or not hasattr(X, "shape"):
        return None
    names = [*columns]
    return names if names and all(isinstance(name, str) for name in names) else None


def _cells(X: Any, name: str) -> NDArray[Any]:
    """Return a frame's column as an array."""
    column = X[name]
    if isinstance(column, np.ndarray):
        return column
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return np.asarray(column)
    return np.asarray(column.to_numpy(), dtype=object) if hasattr(column, "to_numpy") else np.asarray(column)


def listed_rows(X: Any) -> Any:
    """Return lists of cells as an array of objects: numpy would make one type of all for the sake of one."""
    if not isinstance(X, list | tuple) or not X:
        return X
    width = len(X[0]) if isinstance(X[0], list | tuple | np.ndarray) else 0
    if not width or any(not isinstance(row, list | tuple | np.ndarray) or len(row) != width for row in X):
        _refuse_shape("Expected 2D array.")
    found = np.empty((len(X), width), object)
    for place, row in enumerate(X):
        for i, cell in enumerate(row):
            found[place, i] = cell
    return found


def _refuse_shape(what: str) -> Never:
    """Refuse an array in words of our own: those of scikit-learn show what stands in it."""
    raise InvalidParameter(f"{what} Reshape your data: X has one row an observation, and numbers in it.")


def object_numbers(X: Any) -> Any:
    """Return an array of objects as floats: what is no number is NaN.

    Raises:
        TypeError: a cell is neither number nor text. The message says nothing of it.
    """
    array = np.asarray(X)
    cells: list[Any] = array.reshape(-1).tolist()
    if any(c is not None and not isinstance(c, str | int | float | Fraction | np.generic) for c in cells):
        raise TypeError("argument must be a string or a number, in each cell of an array of objects.")
    return np.array([number(cell) for cell in cells], np.float64).reshape(array.shape)
