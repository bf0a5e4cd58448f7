"""Parameters of estimators, annotated in their classes: constructors that scikit-learn reads, and meanings."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

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
