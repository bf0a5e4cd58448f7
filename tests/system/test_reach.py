"""Queries that others wrote, from public repositories: how many are answered may not become fewer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import discreet as dp
from discreet.backends.connection import open_database
from discreet.engine.session import Session
from discreet.errors import DiscreetError

CORPORA = Path(__file__).parent / "corpora"

ANSWERED = {"smartnoise": 144, "omop_library": 123, "google_docs": 53}
"""Of each file, how many; a change that answers more writes more here."""

LINKS = {"omop_library": {"condition_occurrence": "visit_occurrence_id -> visit_occurrence.visit_occurrence_id"}}
"""Further keys of one person, as an owner of these tables would declare them."""
WITH_LINKS = {"omop_library": 126}
"""How many are answered where the owner declares these."""


def declared(low: str, high: str, integer: bool) -> dp.Range:
    if "-" in low[1:]:
        return dp.Range(date.fromisoformat(low), date.fromisoformat(high))
    return dp.Range(float(low), float(high), integer=integer)


def connected(name: str, folder: Path, links: Mapping[str, str] | None = None) -> Session:
    """A session over empty tables."""
    schema: dict[str, Any] = json.loads((CORPORA / "schemas.json").read_text())[name]
    path = folder / f"{name}.duckdb"
    with open_database(path) as db:
        for table, columns in schema["tables"].items():
            listed = ", ".join(f'"{c}" {kind}' for c, kind in columns.items())
            db.execute(f'CREATE TABLE "{table}" ({listed})')
    return dp.connect(
        path,
        unit=dp.PrivacyUnit(
            schema["unit"], max_groups=schema["max_groups"], max_rows=schema["max_rows"], tables=schema["paths"]
        ),
        public=schema["public"],
        links=links,
        columns={c: declared(*r) for c, r in schema["ranges"].items()},
        population=name,
        ledger=":memory:",
        budget=dp.Budget(epsilon=10**22, delta="0.9", per_query=10**21),
    )


def asked(session: Session, queries: Iterable[dict[str, str]]) -> tuple[list[str], list[dict[str, str]]]:
    """Ids of the queries that are answered, and the queries that are refused."""
    answered, refused = [], []
    for query in queries:
        priced: dict[str, Any] = {} if "OPTIONS" in query["sql"].upper() else {"epsilon": 1, "delta": "1e-6"}
        try:
            session.plan(query["sql"], dialect=query["dialect"], **priced)
        except DiscreetError as refusal:  # and nothing else
            assert refusal.hint
            refused.append(query)
        else:
            answered.append(query["id"])
    return answered, refused


@pytest.mark.parametrize("name", ANSWERED)
def test_no_fewer_queries_of_others_are_answered(name: str, tmp_path: Path) -> None:
    queries = map(json.loads, (CORPORA / f"{name}.jsonl").read_text().splitlines())
    with connected(name, tmp_path) as session:
        answered, refused = asked(session, queries)
    assert len(answered) == ANSWERED[name]
    if name in LINKS:
        (tmp_path / "linked").mkdir()
        with connected(name, tmp_path / "linked", LINKS[name]) as session:
            more, _ = asked(session, refused)
        assert len(answered) + len(more) == WITH_LINKS[name]
