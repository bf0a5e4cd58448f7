"""OpenDP's measurements, at the ε of `benchmarks.audit_peers`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import opendp.prelude as dp

dp.enable_features("contrib")

_NUMBER = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
_WHOLE = dp.atom_domain(T=int), dp.absolute_distance(T=int)
_ANSWERS = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
_ROWS = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
_UNIT = (0.0, 1.0)

_clamped = _ROWS >> dp.t.then_clamp(bounds=_UNIT)
_sum = _clamped >> dp.t.then_sum() >> dp.m.then_laplace(scale=1.0)
_count = _ROWS >> dp.t.then_count() >> dp.m.then_laplace(scale=1.0)
_answers = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)

MECHANISMS: dict[str, Callable[[Any], Any]] = {
    "laplace on floats": dp.m.make_laplace(*_NUMBER, scale=1.0),
    "laplace on integers": dp.m.make_laplace(*_WHOLE, scale=1.0),
    "gaussian on floats (ρ = 1/2)": dp.m.make_gaussian(
        dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=1.0
    ),
    "laplace on a vector": dp.m.make_laplace(*_ANSWERS, scale=1.0),
    "randomized response": dp.m.make_randomized_response_bool(prob=math.e / (1 + math.e)),
    "sum of clamped rows": _sum,
    "count": lambda rows: _count(rows),
    "noisy max": dp.m.make_noisy_max(*_answers, dp.max_divergence(), scale=2.0),
}
