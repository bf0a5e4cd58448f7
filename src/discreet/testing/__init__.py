"""The public test kit: a brute-force reference for bounded queries, tiny worlds, and replayed randomness.

`discreet.testing.strategies` has the hypothesis strategies; it is imported on its own, since hypothesis is
optional.
"""

from __future__ import annotations

from discreet.testing.reference import (
    Cells,
    Key,
    Order,
    Question,
    bounded_answers,
    bounded_cells,
    combinations,
    true_answers,
)
from discreet.testing.reference_expression import (
    And,
    Arithmetic,
    Between,
    Call,
    Case,
    Cast,
    Column,
    Compare,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Or,
    Row,
)
from discreet.testing.reference_measures import (
    Count,
    CountOf,
    CountUnits,
    CountUnitsWhere,
    Mean,
    Measure,
    OnLattice,
    Sum,
)
from discreet.testing.reference_values import Kind, Value
from discreet.testing.replay import ReplayEntropy
from discreet.testing.worlds import (
    World,
    is_additive,
    observed_sensitivity,
    observed_sensitivity_by_unit,
)

__all__ = [
    "And",
    "Arithmetic",
    "Between",
    "Call",
    "Case",
    "Cast",
    "Cells",
    "Column",
    "Compare",
    "Count",
    "CountOf",
    "CountUnits",
    "CountUnitsWhere",
    "Expression",
    "In",
    "IsNull",
    "Key",
    "Kind",
    "Literal",
    "Mean",
    "Measure",
    "Not",
    "OnLattice",
    "Or",
    "Order",
    "Question",
    "ReplayEntropy",
    "Row",
    "Sum",
    "Value",
    "World",
    "bounded_answers",
    "bounded_cells",
    "combinations",
    "is_additive",
    "observed_sensitivity",
    "observed_sensitivity_by_unit",
    "true_answers",
]
