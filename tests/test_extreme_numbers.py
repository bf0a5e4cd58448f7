"""Every public number may be as extreme as a caller writes it: it works, or a sentence refuses it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.errors import DiscreetError, InternalError

FRAME = pd.DataFrame({"x": [1.0, 2.0], "id": [1, 2]})
NUMBERS: list[Any] = [
    *("1e400", "1e-400", "1e-30", "nan", "inf", "0x1", "1_0", "", "abc", "5%", "-1"),
    *(1e-300, 5e-324, 1e-30, 0, -1, -0.0, 0.1, 1e20, 1e308, float("nan"), float("inf"), 10**400, -(10**400)),
    *(Fraction(1, 3**2000), Fraction(10**400, 3), Decimal("1e-400"), Decimal("NaN"), True, None, b"1", complex(1)),
    *(np.float32(0.1), np.int64(1), np.nan),
]


def session(low: Any = 0, high: Any = 1) -> dp.Session:
    return dp.connect(
        {"t": FRAME},
        unit=dp.PrivacyUnit.row(),
        columns={"x": dp.Range(low, high)},
        budget=dp.Budget(epsilon=10, delta="1e-6"),
        ledger=":memory:",
    )


def planned(sql: str = "SELECT SUM(x) AS a FROM t", **options: Any) -> object:
    with session() as s:
        return s.plan(sql, **options)


USES: dict[str, Callable[[Any], object]] = {
    "epsilon": lambda v: session().sql("SELECT COUNT(*) AS a FROM t", epsilon=v),
    "delta": lambda v: planned(epsilon=1, delta=v),
    "truncation": lambda v: planned(epsilon=1, truncation=v),
    "error": lambda v: planned(error={"a": v}),
    "assuming": lambda v: planned("SELECT AVG(x) AS a FROM t", error={"a": "5%"}, assuming={"a": v, "rows": 100}),
    "confidence": lambda v: planned(error={"a": 1}, confidence=v),
    "budget": lambda v: dp.Budget(epsilon=v),
    "budget's delta": lambda v: dp.Budget(epsilon=1, delta=v),
    "per_query": lambda v: dp.Budget(epsilon=1, per_query=v),
    "max_groups": lambda v: dp.PrivacyUnit("id", max_groups=v, max_rows=1),
    "max_rows": lambda v: dp.PrivacyUnit("id", max_groups=1, max_rows=v),
    "laplace": lambda v: dp.mechanisms.Laplace(epsilon=v, sensitivity=1).release(3),
    "sensitivity": lambda v: dp.mechanisms.Laplace(epsilon=1, sensitivity=v).release(3),
    "gaussian": lambda v: dp.mechanism(noise="gaussian", sensitivity=1, epsilon=v, delta=1e-6).error(0.95),
    "loss": lambda v: dp.accounting.pure(v).epsilon(delta=0),
}


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("use", USES)
def test_a_number_works_or_is_refused_in_a_sentence(use: str) -> None:
    for value in NUMBERS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                USES[use](value)
        except InternalError as error:
            raise AssertionError((use, value)) from error
        except DiscreetError as error:
            said = str(error)
            if "inf" not in repr(value) and "nan" not in repr(value).lower():
                assert " inf" not in said and " nan" not in said, (use, value, said)


ENDS: list[tuple[Any, Any]] = [
    *((0, 1e-200), (0, 5e-324), (1e-300, 2e-300), (0, "1e-200"), (0, "1e-40"), (-1e-90, 1e-90), (0, "1e400")),
    *((-1e308, 1e308), (0, 1e300), (0, 2**62), (0, Fraction(1, 3**700)), (0, 10**400), (-0.0, 1), (0, 0), (1, 1)),
    *((1e15, 1e15 + 0.5), (float("nan"), 1), (0, float("inf"))),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    "sql", ["SUM(x)", "AVG(x)", "MEDIAN(x)", "VAR_SAMP(x)", "MAX(x)", "SUM(x * x * x)", "CORR(x, x)"]
)
def test_a_range_works_or_is_refused_in_a_sentence(sql: str) -> None:
    for low, high in ENDS:
        try:
            with session(low, high) as s:
                s.plan(f"SELECT {sql} AS a FROM t", epsilon=1)
        except InternalError as error:
            raise AssertionError((low, high)) from error
        except DiscreetError as error:
            assert str(error)
