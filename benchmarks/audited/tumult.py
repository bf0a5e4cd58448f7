"""Tumult Core's noise, at the ε of `benchmarks.audit_peers`; no Spark is needed for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tmlt.core.domains.numpy_domains import NumpyFloatDomain, NumpyIntegerDomain
from tmlt.core.measurements.noise_mechanisms import (
    AddDiscreteGaussianNoise,
    AddGaussianNoise,
    AddGeometricNoise,
    AddLaplaceNoise,
)

_FLOAT, _INT = NumpyFloatDomain(), NumpyIntegerDomain()


def _on(measure: Any, kind: Any) -> Callable[[Any], Any]:
    return lambda x: measure(kind(x))


MECHANISMS: dict[str, Callable[[Any], Any]] = {
    "AddLaplaceNoise": _on(AddLaplaceNoise(_FLOAT, 1), np.float64),
    "AddGeometricNoise": _on(AddGeometricNoise(1), np.int64),
    "AddGaussianNoise (ρ = 1/2)": _on(AddGaussianNoise(_FLOAT, 1), np.float64),
    "AddDiscreteGaussianNoise (ρ = 1/2)": _on(AddDiscreteGaussianNoise(1), np.int64),
}
