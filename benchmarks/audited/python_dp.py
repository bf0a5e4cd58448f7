"""PyDP, the Python binding of Google's library, at the ε of `benchmarks.audit_peers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydp.algorithms import laplacian
from pydp.algorithms import numerical_mechanisms as noise

_BOUNDS = {"epsilon": 1.0, "lower_bound": 0, "upper_bound": 1, "dtype": "float"}

MECHANISMS: dict[str, Callable[[Any], Any]] = {
    "LaplaceMechanism": noise.LaplaceMechanism(1.0, 1.0).add_noise,
    "GaussianMechanism": noise.GaussianMechanism(1.0, 1e-3, 1.0).add_noise,
    "Count": lambda rows: laplacian.Count(epsilon=1.0, dtype="float").quick_result(rows),
    "BoundedSum": lambda rows: laplacian.BoundedSum(**_BOUNDS).quick_result(rows),
    "BoundedMean": lambda rows: laplacian.BoundedMean(**_BOUNDS).quick_result(rows),
    "BoundedVariance": lambda rows: laplacian.BoundedVariance(**_BOUNDS).quick_result(rows),
    "Median": lambda rows: laplacian.Median(**_BOUNDS).quick_result(rows),
}
