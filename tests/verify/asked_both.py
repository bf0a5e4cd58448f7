"""Questions to two populations, and their certificates; and forgeries of these."""

from __future__ import annotations

from functools import cache
from typing import Any

import pandas as pd

import discreet as dp
from discreet.engine.session import Session
from tests.verify.asked import plain
from tests.verify.forging import Document

VISITS = pd.DataFrame(
    {
        "patient": [i % 40 for i in range(120)],
        "doctor": [f"d{i % 7}" for i in range(120)],
        "ward": ["a", "b", "c", "a", None] * 24,
        "cost": [float(i % 13) - 4 for i in range(120)],
        "days": [i % 6 for i in range(120)],
        "day": pd.to_datetime(["2026-01-05", "2026-02-07", "2026-03-09"] * 40),
    }
)
GROUPS = (
    "SELECT ward, COUNT(*) AS n, SUM(cost) AS c, SUM(days) AS d, COUNT(DISTINCT patient) AS p, "
    "COUNT(DISTINCT doctor) AS o FROM visits WHERE days < 5 GROUP BY ward"
)
GAUSSIAN: dict[str, Any] = {"noise": "gaussian", "delta": "1e-6"}
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "a count": ("SELECT COUNT(*) AS n FROM visits", {}),
    "known": ("SELECT COUNT(cost) AS n, COUNT(*) FILTER (WHERE days > 2) AS m FROM visits", {}),
    "a signed sum": ("SELECT SUM(cost) AS s FROM visits WHERE ward = 'a'", {}),
    "whole numbers": ("SELECT SUM(days) AS s FROM visits", {}),
    "booleans": ("SELECT BOOL_OR(cost > 7) AS b, BOOL_AND(days < 6) AS c, COUNT_IF(cost > 2) AS n FROM visits", {}),
    "people": ("SELECT COUNT(DISTINCT patient) AS p, COUNT(DISTINCT doctor) AS d FROM visits", {}),
    "groups": (GROUPS, {}),
    "two keys": ("SELECT ward, days, COUNT(*) AS n FROM visits GROUP BY ward, days", {}),
    "made of it": (("SELECT ward, SUM(cost) / COUNT(cost) AS mean FROM visits GROUP BY ward HAVING COUNT(cost) > 1 "
                   "ORDER BY 2 DESC"), {}),
    "Gaussian": ("SELECT ward, COUNT(*) AS n, SUM(cost) AS c FROM visits GROUP BY ward", GAUSSIAN),
    "Gaussian, one": ("SELECT SUM(days) AS d FROM visits", GAUSSIAN),
    "Laplace with δ": ("SELECT ward, days, COUNT(*) AS n FROM visits GROUP BY ward, days", {"delta": "1e-6"}),
    "conditions": (("SELECT SUM(CASE WHEN ward = 'a' THEN cost ELSE 0 END) AS s FROM visits WHERE day > "
                   "DATE '2026-01-31' AND UPPER(doctor) LIKE 'D%'"), {}),
    "nothing": ("SELECT SUM(CASE WHEN days > 9 THEN 0 ELSE 0 END) AS s, COUNT(*) AS n FROM visits", {}),
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "add-remove": {},
    "one replaced": {"relation": {"doctors": "replace"}, "filter": {"doctors": "zcdp"}},
    "both replaced": {"relation": "replace"},
}


def both(**options: Any) -> Session:
    said: dict[str, Any] = {
        "units": {"patients": dp.PrivacyUnit("patient", max_rows=2), "doctors": dp.PrivacyUnit("doctor", max_rows=9)},
        "columns": {"cost": dp.Range(-4, 8), "days": dp.Range(0, 5, integer=True), "ward": dp.Values("a", "b", None)},
        "budget": {"patients": dp.Budget(10_000, "0.5"), "doctors": dp.Budget(9_000, "0.5")},
        "version": "2026-01",
        "ledger": ":memory:",
    }
    return dp.connect_both({"visits": VISITS}, **{**said, **options})


def asked(session: Session, name: str, **options: Any) -> Document:
    """The certificate of an answer."""
    sql, own = ASKED[name]
    found: Document = plain(session.sql(sql, **{"epsilon": 1, **own, **options}).certificate())
    return found


def exported(session: Session) -> tuple[str, ...]:
    return tuple(session._ledger.export())


def honest(name: str, kind: str = "add-remove") -> tuple[Document, Document, Document, tuple[str, ...]]:
    """A certificate, that of a second draw, that of a cheaper question, and the export of their ledger."""
    return _honest(name, kind)


@cache
def _honest(name: str, kind: str) -> tuple[Document, Document, Document, tuple[str, ...]]:
    with both(**KINDS[kind]) as session:
        first, again = asked(session, name), asked(session, name, fresh=True)
        cheap = asked(session, name, epsilon="1/10")
        return first, again, cheap, exported(session)
