"""The table of constructs is true: what it says is answered is planned, checked and run, the rest is refused free.

And the reference of SQL names every function and aggregate that there is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest

from discreet import Session
from discreet.errors import InvalidParameter, PlanError
from discreet.plan.aggregates import AGGREGATES
from discreet.query.syntax import _KNOWN_NAMES as FUNCTION_NAMES
from discreet.query.syntax import _PARTS as TIME_PARTS
from tests.house.test_docs import blocks
from tests.house.tree import ROOT

PAGE = ROOT / "docs" / "sql-constructs.md"

_LINE = re.compile(r"\| (?P<construct>.+?) \| `(?P<sql>[^`]+)` \| (?P<word>answered|refused) \|(?: (?P<why>.+))? \|")


@dataclass(frozen=True, slots=True)
class Construct:
    """A line of the table."""

    name: str
    sql: str
    answered: bool
    why: str


def constructs(page: str) -> list[Construct]:
    """The lines of the page's tables that have an example; any other line of them is an error."""
    found = []
    for line in page.splitlines():
        if not line.startswith("|") or line.startswith(("| construct |", "|---")):
            continue
        match = _LINE.fullmatch(line)
        assert match, line
        found.append(Construct(match["construct"], match["sql"], match["word"] == "answered", match["why"] or ""))
    return found


TEXT = PAGE.read_text(encoding="utf-8")
LINES = constructs(TEXT)


@pytest.fixture(scope="module")
def session() -> Session:
    """The session of the page's one code block."""
    [block] = [b for b in blocks(TEXT) if b.language == "python"]
    namespace: dict[str, Any] = {}
    exec(compile(block.text, str(PAGE), "exec", dont_inherit=True), namespace)
    found: Session = namespace["session"]
    return found


def _spends(sql: str) -> dict[str, Any]:
    own = "OPTIONS" in sql  # says its ε itself
    return {"delta": 1e-7} if own else {"epsilon": 1, "delta": 1e-7}


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.thinned(6)
@pytest.mark.parametrize("line", [c for c in LINES if c.answered], ids=lambda c: c.sql[:60])
def test_what_is_said_to_be_answered_is_answered(line: Construct, session: Session) -> None:
    assert session.sql(line.sql, **_spends(line.sql)).columns


@pytest.mark.parametrize("line", [c for c in LINES if not c.answered], ids=lambda c: c.sql[:60])
def test_what_is_said_to_be_refused_is_refused_with_a_way_round_and_free(line: Construct, session: Session) -> None:
    before = session.remaining
    with pytest.raises((PlanError, InvalidParameter)) as refusal:
        session.sql(line.sql, **_spends(line.sql))
    assert refusal.value.hint
    assert session.remaining == before


def test_the_table_has_answered_and_refused_constructs_each_once() -> None:
    assert sum(c.answered for c in LINES) > 50
    assert sum(not c.answered for c in LINES) > 50
    assert len({c.sql for c in LINES}) == len(LINES)


REFERENCE = (ROOT / "docs" / "sql-reference.md").read_text(encoding="utf-8").lower()


@pytest.mark.parametrize("word", sorted({*FUNCTION_NAMES, *TIME_PARTS, *(a for a in AGGREGATES if " " not in a)}))
def test_the_reference_names_every_function_and_aggregate(word: str) -> None:
    assert re.search(rf"\b{re.escape(word)}\b", REFERENCE)


def test_a_line_that_cannot_be_read_is_an_error_and_not_skipped() -> None:
    with pytest.raises(AssertionError, match="perhaps"):
        constructs("| samples | `SELECT 1` | perhaps | |\n")
