"""What the ledger keeps of answers: another version of its form is refused in one sentence, whatever was asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.engine import sql_recipe
from discreet.engine.session import Session
from discreet.errors import LedgerError
from discreet.post import noisy_table

COUNT = "SELECT COUNT(*) AS n FROM data"
ASKED: dict[str, Callable[[Session], Any]] = {
    "a table": lambda s: s.sql(COUNT, epsilon=1),
    "a batch": lambda s: s.batch({"n": COUNT, "s": "SELECT SUM(x) FROM data WHERE x > 1"}, epsilon=1),
    "two stages": lambda s: s.sql(COUNT, epsilon=1, bounds="auto"),
}


@pytest.mark.parametrize("asked", ASKED)
def test_an_answer_that_another_version_stored_is_refused(asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"uid": [1, 2, 3], "x": [0.0, 1.0, 2.0]})
    unit, facts = dp.PrivacyUnit("uid", max_groups=1, max_rows=2), {"x": dp.Range(0, 4)}
    with dp.connect(frame, unit=unit, columns=facts, budget=dp.Budget(9), ledger=":memory:") as session:
        with monkeypatch.context() as other:
            other.setattr(noisy_table if asked == "a table" else sql_recipe, "FORMAT", 2)
            ASKED[asked](session)
        spent = session.spent.epsilon(delta=0)
        with pytest.raises(LedgerError, match="Another version of discreet stored this result") as refused:
            ASKED[asked](session)
        assert "what was spent still counts" in refused.value.hint
        assert session.spent.epsilon(delta=0) == spent == 1
