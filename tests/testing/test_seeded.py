"""Sessions for users' tests: the same results for the same seed, no files, and a fixture that closes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet import testing
from discreet.errors import InvalidParameter

pytest_plugins = ["pytester"]

FRAME = pd.DataFrame({"who": [i // 3 for i in range(300)], "ward": ["a", "b", "c"] * 100, "x": [1.0, 2.0, 3.0] * 100})
TERMS: dict[str, Any] = {
    "unit": dp.PrivacyUnit("who", max_groups=1, max_rows=1),
    "columns": {"ward": dp.Values("a", "b", "c"), "x": dp.Range(0, 4)},
}
SQL = "SELECT ward, COUNT(*) AS n, AVG(x) AS m, MEDIAN(x) AS d FROM data GROUP BY ward"


def rows(seed: int) -> list[Any]:
    with testing.session(FRAME, seed=seed, **TERMS) as s:
        return [s.sql(SQL, epsilon=1).rows, s.sql(SQL, epsilon=1, fresh=True).rows]


def test_a_seed_gives_the_same_noise_and_the_same_choice_of_groups_and_another_seed_another() -> None:
    assert rows(1) == rows(1) != rows(2)
    first, second = rows(1)
    assert first != second  # it goes on


def test_nothing_real_is_within_its_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    relation = type("Relation", (), {"__module__": "duckdb"})()
    monkeypatch.chdir(tmp_path)
    FRAME.to_parquet("visits.parquet")
    for source in ("visits.parquet", Path("visits.parquet"), {"t": "postgresql://x"}, relation):
        with pytest.raises(InvalidParameter, match="takes data frames only"):
            testing.session(source, seed=1, **TERMS)
    with testing.session(FRAME, seed=1, **TERMS) as s:
        s.sql(SQL, epsilon=1)
    assert [path.name for path in tmp_path.iterdir()] == ["visits.parquet"]
    with pytest.raises(InvalidParameter, match="seed"):
        testing.session(FRAME, seed=-1, **TERMS)
    with pytest.raises(TypeError, match="seed"):
        dp.connect(FRAME, seed=1, **TERMS)  # type: ignore[call-arg]  # that is the test


def test_sessions_of_others_stay_unforeseeable() -> None:
    with (
        testing.session(FRAME, seed=1, **TERMS),
        dp.connect(FRAME, budget=dp.Budget(10), ledger=":memory:", **TERMS) as real,
    ):
        draws = {real.sql(SQL, epsilon="0.1", fresh=True).rows[0][1] for _ in range(4)}
    assert len(draws) > 1


def test_the_fixture_makes_sessions_and_closes_them(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["discreet.testing.plugin"]')
    pytester.makepyfile(
        """
        import pandas as pd
        import pytest
        import discreet as dp

        kept = []

        def test_made(seeded_session):
            s = seeded_session(pd.DataFrame({"x": [1, 2, 3]}), unit=dp.PrivacyUnit.row())
            kept.append(s)
            assert isinstance(s.sql("SELECT COUNT(*) AS n FROM data", epsilon=1).value, int)

        def test_closed():
            with pytest.raises(dp.errors.DiscreetError):
                kept[0].sql("SELECT COUNT(*) AS n FROM data", epsilon=1, fresh=True)
        """
    )
    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=2)
