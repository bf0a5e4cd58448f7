"""diffprivlib's mechanisms and tools, at the ε of `benchmarks.audit_peers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from diffprivlib import mechanisms as m
from diffprivlib import tools as t

BOUNDS = (0.0, 1.0)


def array(rows: list[float]) -> Any:
    """Rows as an array of floats."""
    return np.asarray(rows, dtype=float)


def vector(answers: list[float]) -> list[float]:
    """Laplace noise of scale 1 on each answer."""
    noise = m.Laplace(epsilon=1, sensitivity=1)
    return [float(noise.randomise(x)) for x in answers]


exponential = m.Exponential(epsilon=1, sensitivity=1, utility=[0.0, 1.0, 2.0])

MECHANISMS: dict[str, Callable[[Any], Any]] = {
    "Laplace": m.Laplace(epsilon=1, sensitivity=1).randomise,
    "LaplaceTruncated": m.LaplaceTruncated(epsilon=1, sensitivity=1, lower=0, upper=4).randomise,
    "LaplaceFolded": m.LaplaceFolded(epsilon=1, sensitivity=1, lower=0, upper=4).randomise,
    "LaplaceBoundedDomain": m.LaplaceBoundedDomain(epsilon=1, sensitivity=1, lower=0, upper=4).randomise,
    "LaplaceBoundedNoise": m.LaplaceBoundedNoise(epsilon=1, delta=0.05, sensitivity=1).randomise,
    "Snapping": m.Snapping(epsilon=1, sensitivity=1, lower=-100.0, upper=100.0).randomise,
    "Staircase": m.Staircase(epsilon=1, sensitivity=1).randomise,
    "Geometric": m.Geometric(epsilon=1, sensitivity=1).randomise,
    "GeometricTruncated": m.GeometricTruncated(epsilon=1, sensitivity=1, lower=0, upper=4).randomise,
    "Gaussian": m.Gaussian(epsilon=1, delta=1e-3, sensitivity=1).randomise,
    "GaussianAnalytic": m.GaussianAnalytic(epsilon=1, delta=1e-3, sensitivity=1).randomise,
    "GaussianDiscrete": m.GaussianDiscrete(epsilon=1, delta=1e-3, sensitivity=1).randomise,
    "Uniform": m.Uniform(delta=0.25, sensitivity=1).randomise,
    "tools.sum": lambda rows: float(t.sum(array(rows), epsilon=1, bounds=BOUNDS)),
    "tools.mean": lambda rows: float(t.mean(array(rows), epsilon=1, bounds=BOUNDS)),
    "tools.var": lambda rows: float(t.var(array(rows), epsilon=1, bounds=BOUNDS)),
    "tools.median": lambda rows: float(t.median(array(rows), epsilon=1, bounds=BOUNDS)),
    "tools.count_nonzero": lambda rows: float(t.count_nonzero(array(rows), epsilon=1)),
    "tools.histogram": lambda rows: [float(x) for x in t.histogram(array(rows), epsilon=1, bins=3, range=BOUNDS)[0]],
}
