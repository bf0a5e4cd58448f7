"""An engineer who compares libraries: mechanisms, accounting, the auditor, results as data, tests of their own."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import discreet as dp
from discreet import data
from tests.journeys.walk import Journey

pytestmark = pytest.mark.system


def test_an_engineer_meets_no_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    eng = Journey("engineer", tmp_path)
    monkeypatch.chdir(tmp_path)

    # Mechanisms, by the textbook's names.
    laplace = eng.ask(lambda: dp.mechanism("Laplace", sensitivity=1, epsilon=0.5))
    assert laplace is not None
    assert isinstance(eng.ask(lambda: laplace.release(42)), int)
    answer = eng.ask(lambda: laplace.answer(42))
    assert answer is not None
    assert answer.interval is not None
    assert answer.interval[0] < answer.value < answer.interval[1]
    assert eng.ask(lambda: dp.mechanism("gauss", sensitivity=1, epsilon=0.5, delta=1e-6)) is not None
    assert eng.ask(lambda: laplace.release([1, 2, 3])) is not None
    assert eng.ask(lambda: laplace.release(pl.Series([1, 2, 3]))) is not None

    # The accountant and the auditor.
    loss = eng.ask(lambda: dp.accounting.gaussian(noise_multiplier=1.0).poisson(0.01) * 1000)
    assert loss is not None
    low, high = loss.bounds(delta=1e-5)
    assert 0 < low <= high < 3
    rng = np.random.default_rng(1)

    def broken(x: int, n: int | None = None) -> object:
        return x + rng.laplace(scale=1, size=n)

    found = eng.ask(lambda: dp.audit.distinguish(broken, 0, 1, claimed=dp.Budget(epsilon=0.1)))
    assert found is not None
    assert found.verdict == "violated"

    # SQL: plan, error, ask; then the release as data.
    session = eng.ask(
        lambda: dp.connect(
            data.trips(),
            unit=dp.PrivacyUnit.row(),
            columns={"fare": dp.Range(0, 100), "color": dp.Values("yellow", "green")},
            budget=dp.Budget(epsilon=3),
            ledger=":memory:",
        )
    )
    assert session is not None
    query = "SELECT color, COUNT(*) AS n, AVG(fare) AS fare FROM trips GROUP BY color"
    plan = eng.ask(lambda: session.plan(query, error={"n": 25}))
    assert plan is not None
    release = eng.ask(lambda: session.sql(query, error={"n": 25}))
    assert release is not None
    assert len(release) == 2
    assert len(release["n"]) == 2
    assert [row["color"] for row in json.loads(release.to_json())] == ["yellow", "green"]
    assert pl.from_arrow(release.to_arrow()).shape == (2, 7)
    assert pickle.loads(pickle.dumps(release)).rows == copy.deepcopy(release).rows == release.rows
    noisy = eng.ask(lambda: session.release(laplace, 42, relation="add-remove"))
    assert noisy is not None
    assert [type(entry.content).__name__ for entry in session.history()][-1] == "Charged"

    # A test of their own draws the same numbers each time, and opens no file.
    rows = []
    table = {"t": pl.DataFrame({"x": range(100)})}
    for _ in range(2):
        with dp.testing.session(table, unit=dp.PrivacyUnit.row(), seed=7) as seeded:
            rows.append(seeded.sql("SELECT COUNT(*) AS n FROM t", epsilon=1).rows)
    assert rows[0] == rows[1]
    assert list(tmp_path.iterdir()) == []
    eng.end(most=0)
    assert "engineer: 0 refusals met" in capsys.readouterr().out
