"""Questions over the whole language, and their certificates: asked of small tables, each once."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

import discreet as dp
from discreet.engine.release import Release
from discreet.engine.session import Session

VISITS = pd.DataFrame(
    {
        "uid": [i // 4 for i in range(240)],
        "ward": ["a", "b", "c", "a", "b"] * 48,
        "cost": [float(i % 7) for i in range(240)],
        "day": [i % 5 for i in range(240)],
        "note": [f"n{i % 3}" for i in range(240)],
        "fee": [float(i % 13) for i in range(240)],
    }
)
PEOPLE = pd.DataFrame({"id": list(range(60)), "city": ["x", "y", "z"] * 20, "age": [20 + i for i in range(60)]})
ORDERS = pd.DataFrame(
    {"oid": list(range(120)), "id": [i // 2 for i in range(120)], "total": [i % 11 for i in range(120)]}
)
ITEMS = pd.DataFrame({"oid": [i // 2 for i in range(240)], "price": [float(i % 9) for i in range(240)]})
ZONES = pd.DataFrame({"city": ["x", "y"], "zone": ["n", "s"]})

SINGLE: dict[str, tuple[str, dict[str, Any]]] = {
    "a count": ("SELECT COUNT(*) AS n FROM visits", {}),
    "groups": ("SELECT ward, COUNT(*) AS n, SUM(cost) AS s FROM visits WHERE day < 4 GROUP BY ward", {}),
    "two keys": ("SELECT ward, day, COUNT(*) AS n, COUNT(DISTINCT uid) AS u FROM visits GROUP BY ward, day", {}),
    "means": ("SELECT ward, AVG(cost) AS a FROM visits GROUP BY ward HAVING COUNT(*) > 1 ORDER BY 2 DESC", {}),
    "Gaussian": ("SELECT ward, COUNT(*) AS n, SUM(day) AS s FROM visits GROUP BY ward",
                 {"noise": "gaussian", "delta": "1e-6"}),
    "private groups": ("SELECT note, COUNT(*) AS n FROM visits GROUP BY note", {"delta": "1e-4"}),
    "private groups, Gaussian": ("SELECT note, SUM(cost) AS s FROM visits GROUP BY note",
                                 {"noise": "gaussian", "delta": "1e-4"}),
    "groups in rounds": ("SELECT note, COUNT(*) AS n FROM visits GROUP BY note", {"delta": "1e-4", "epsilon": 20}),
    "values": ("SELECT ward, COUNT(DISTINCT note) AS k, COUNT(*) AS n FROM visits GROUP BY ward", {}),
    "values of all": ("SELECT COUNT(DISTINCT note) AS k FROM visits", {}),
    "a median": ("SELECT MEDIAN(cost) AS m FROM visits", {}),
    "quartiles": (("SELECT ward, QUANTILE_CONT(cost, 0.25) AS a, QUANTILE_CONT(cost, 0.75) AS b FROM visits "
                  "GROUP BY ward"), {}),
    "extremes": ("SELECT MIN(day) AS a, MAX(day) AS b FROM visits", {}),
    "a mode": ("SELECT ward, MODE(day) AS m FROM visits GROUP BY ward", {"noise": "gaussian", "delta": "1e-6"}),
    "a histogram": ("SELECT HISTOGRAM(day) AS h FROM visits", {}),
    "totals": ("SELECT ward, day, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward, day)", {}),
    "a cube": ("SELECT ward, day, SUM(cost) AS s FROM visits GROUP BY CUBE (ward, day)",
               {"noise": "gaussian", "delta": "1e-6"}),
    "totals, Gaussian": ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward)",
                         {"noise": "gaussian", "delta": "1e-6"}),
    "tree out": ("SELECT STDDEV(cost) AS d, VARIANCE(cost) AS v FROM visits", {}),
    "related": ("SELECT CORR(cost, day) AS r FROM visits", {}),
    "a report": ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", {"truncation": "1/10"}),
    "reports on values": ("SELECT ward, SUM(cost) AS s, MEDIAN(day) AS d FROM visits GROUP BY ward",
                          {"truncation": "1/4"}),
    "made of it": ("SELECT ward, COUNT(*) * 2 AS n, ROUND(SUM(cost)) AS s FROM visits GROUP BY ward LIMIT 2", {}),
    "conditions": ("SELECT COUNT_IF(cost > 3) AS n, SUM(day) FILTER (WHERE cost < 5) AS s FROM visits", {}),
    "text": ("SELECT UPPER(ward) AS w, COUNT(*) AS n FROM visits WHERE note LIKE 'n%' GROUP BY 1", {}),
    "nested": ("SELECT n, COUNT(*) AS k FROM (SELECT uid, COUNT(*) AS n FROM visits GROUP BY uid) t GROUP BY n",
               {"delta": "1e-4"}),
    "windows": (("SELECT COUNT(*) AS n FROM (SELECT day - LAG(day) OVER (PARTITION BY uid ORDER BY day, cost) AS d "
                "FROM visits) t WHERE d > 0"), {}),
    "caps chosen": ("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", {"bounds": "auto"}),
    "caps chosen, private groups": ("SELECT note, COUNT(*) AS n FROM visits GROUP BY note",
                                    {"bounds": "auto", "delta": "1e-4"}),
    "both chosen": ("SELECT SUM(fee) AS s FROM visits", {"bounds": "auto"}),
    "bounds chosen": ("SELECT ward, AVG(fee) AS a FROM visits GROUP BY ward", {"bounds": "values"}),
}  # fmt: skip
SEVERAL: dict[str, tuple[str, dict[str, Any]]] = {
    "a join": ("SELECT city, COUNT(*) AS n, SUM(total) AS s FROM people p JOIN orders o ON p.id = o.id GROUP BY city",
               {}),
    "by keys": ("SELECT SUM(price) AS s FROM people p JOIN orders o ON p.id = o.id JOIN items i ON i.oid = o.oid", {}),
    "a public table": ("SELECT zone, COUNT(*) AS n FROM people p JOIN zones z ON p.city = z.city GROUP BY zone", {}),
    "exists": (("SELECT COUNT(*) AS n FROM people p WHERE EXISTS (SELECT 1 FROM orders o WHERE o.id = p.id AND "
               "o.total > 5)"), {}),
    "outer": ("SELECT COUNT(o.oid) AS n FROM people p LEFT JOIN orders o ON p.id = o.id AND o.total > 3", {}),
    "union": ("SELECT COUNT(*) AS n FROM (SELECT id FROM people UNION ALL SELECT id FROM orders) t", {}),
    "a median of a join": ("SELECT MEDIAN(age) AS m FROM people p JOIN orders o ON p.id = o.id", {}),
    "values of a join": (("SELECT city, COUNT(DISTINCT o.total) AS k FROM people p JOIN orders o ON p.id = o.id "
                         "GROUP BY city"), {"noise": "gaussian", "delta": "1e-6"}),
}  # fmt: skip
BATCHES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "two of one": ({"n": SINGLE["groups"][0], "m": SINGLE["means"][0]}, {}),
    "apart": ({"n": SINGLE["a count"][0], "g": SINGLE["private groups"][0]}, {"delta": "1e-4"}),
    "Gaussian": ({"n": SINGLE["groups"][0], "q": SINGLE["quartiles"][0], "t": SINGLE["totals"][0]},
                 {"noise": "gaussian", "delta": "1e-6"}),
}  # fmt: skip


def visits(ledger: str | Path = ":memory:", **options: Any) -> Session:
    said: dict[str, Any] = {
        "unit": dp.PrivacyUnit("uid", max_groups=2, max_rows=3),
        "columns": {"cost": dp.Range(0, 7), "day": dp.Range(0, 4, integer=True), "ward": dp.Values("a", "b", "c")},
        "budget": dp.Budget(10_000, "0.5"),
        "population": "patients",
        "version": "2026-01",
        "ledger": ledger,
    }
    return dp.connect({"visits": VISITS}, **{**said, **options})


def shop(ledger: str | Path = ":memory:", **options: Any) -> Session:
    said: dict[str, Any] = {
        "unit": dp.PrivacyUnit("id", max_groups=2, max_rows=4, tables={"items": "oid -> orders.oid"}),
        "public": ["zones"],
        "columns": {
            "people.city": dp.Values("x", "y", "z"),
            "zones.zone": dp.Values("n", "s"),
            "people.age": dp.Range(0, 100, integer=True),
            "orders.total": dp.Range(0, 10, integer=True),
            "items.price": dp.Range(0, 9),
        },
        "budget": dp.Budget(10_000, "0.5"),
        "population": "customers",
        "ledger": ledger,
    }
    tables = {"people": PEOPLE, "orders": ORDERS, "items": ITEMS, "zones": ZONES}
    return dp.connect(tables, **{**said, **options})


KINDS: dict[str, dict[str, Any]] = {
    "add-remove": {},
    "replace": {"relation": "replace"},
    "each row": {"unit": dp.PrivacyUnit.row()},
}


@cache
def session(kind: str, several: bool) -> Session:
    opened: Session = (shop if several else visits)(**KINDS[kind])
    return opened


def ask(where: Session, sql: str, options: dict[str, Any]) -> Release:
    release: Release = where.sql(sql, **{"epsilon": 1, **options})
    return release


def plain(document: Any) -> Any:
    """A document as it is read from a file."""
    return json.loads(json.dumps(document))


def exported(where: Session) -> list[str]:
    """The public export of a session's ledger."""
    return list(where._ledger.export())
