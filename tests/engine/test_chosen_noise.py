"""noise="auto": Gaussian noise exactly where a δ is spent anyhow, both cost the same, and no number is wider by it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import Additive, RoundedGaussianNoise

ROWS = pd.DataFrame({"id": range(300), "k": [i % 7 for i in range(300)], "x": [float(i % 10) for i in range(300)]})
PRIVATE = "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY k"
DECLARED = "SELECT COUNT(*) AS n, SUM(x) AS s FROM t"


def opened(**given: Any) -> dp.Session:
    options: dict[str, Any] = {
        "unit": dp.PrivacyUnit("id", max_groups=40, max_rows=1),
        "columns": {"x": dp.Range(0, 10)},
        "budget": dp.Budget(10, "1e-3"),
        "population": "p",
        "ledger": ":memory:",
    }
    return dp.connect({"t": ROWS}, **{**options, **given})


def is_gaussian(session: dp.Session, sql: str, **asked: Any) -> bool:
    return session.plan(sql, epsilon=1, **{"delta": "1e-6", "noise": "auto", **asked}).query.allocation.is_gaussian


def test_it_is_the_narrower_of_both_where_groups_are_selected() -> None:
    for groups, expected in ((40, True), (1, False)):
        with opened(unit=dp.PrivacyUnit("id", max_groups=groups, max_rows=1)) as session:
            assert is_gaussian(session, PRIVATE) == expected
            plans = [session.plan(PRIVATE, epsilon=1, delta="1e-6", noise=n) for n in ("auto", "laplace", "gaussian")]
            widths = [[z.quantile(Fraction(19, 20)) for z in p.query.allocation.noises] for p in plans]
            assert widths[0] == [min(pair) for pair in zip(*widths[1:], strict=True)]
            assert plans[0].query.identity == plans[1 + expected].query.identity
            assert all(isinstance(z, Additive) for z in plans[0].query.allocation.noises)
            assert any(isinstance(z, RoundedGaussianNoise) for z in plans[0].query.allocation.noises) == expected


def test_it_spends_no_delta_that_laplace_noise_does_not() -> None:
    with opened() as session:
        assert not is_gaussian(session, DECLARED)
        assert session.sql(DECLARED, epsilon=1, delta="1e-6", noise="auto").charged.delta == 0


@pytest.mark.parametrize("account", [{"filter": "zcdp"}, {"per_person": dp.Budget(5, "1e-3")}])
def test_it_is_laplace_where_both_do_not_cost_the_same(account: dict[str, Any]) -> None:
    with opened(**account) as session:
        assert not is_gaussian(session, PRIVATE)


def test_it_chooses_in_queries_of_their_own_alone() -> None:
    with opened() as session:
        with pytest.raises(InvalidParameter, match="noise must be"):
            session.batch({"a": DECLARED}, epsilon=1, noise="auto")
        with pytest.raises(InvalidParameter, match="noise must be"):
            session.plan(DECLARED, epsilon=1, noise="auto", bounds="auto")
