"""Where spending is kept unless said, and the events that a log has."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet as dp
from discreet.engine import connect as connecting
from discreet.errors import BudgetExceeded

FRAME = pd.DataFrame({"x": [12345.0] * 9})
TERMS: dict[str, Any] = {"unit": dp.PrivacyUnit.row(), "columns": {"x": dp.Range(0, 99_999)}, "budget": dp.Budget(2)}


@pytest.fixture(autouse=True)
def _none_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connecting, "_begun", set())
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)


def charge() -> None:
    with dp.connect(FRAME, **TERMS) as s:
        s.sql("SELECT COUNT(*) AS n FROM data", epsilon=1)


def test_the_environment_names_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCREET_LEDGER", str(tmp_path / "kept.ledger"))
    charge()
    assert (tmp_path / "kept.ledger").exists() and not (tmp_path / "discreet.ledger").exists()
    with dp.Ledger.existing(tmp_path / "kept.ledger") as ledger:
        assert ledger.account("data") is not None


def test_a_second_ledger_by_default_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work" / "deep").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        charge()
        charge()  # the same one again
    for folder in ("work/deep", "other"):  # below the first, and elsewhere in the same process
        monkeypatch.chdir(tmp_path / folder)
        with pytest.warns(UserWarning, match="A second discreet.ledger is about to begin"):
            charge()


def test_a_log_has_what_was_charged_released_and_refused_and_nothing_of_the_data(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "discreet"), dp.connect(FRAME, ledger=":memory:", **TERMS) as s:
        shown = s.sql("SELECT SUM(x) AS total FROM data", epsilon=1).value
        s.sql("SELECT SUM(x) AS total FROM data", epsilon=1)
        s.charge(dp.mechanism("laplace", sensitivity=1, epsilon="0.5"))
        with pytest.raises(BudgetExceeded):
            s.sql("SELECT COUNT(*) AS n FROM data", epsilon=2)
    events = [record.getMessage() for record in caplog.records if record.name == "discreet"]
    assert [e.split(":")[0] for e in events] == [
        "charged ε = 1",
        "released",
        "answered again from the ledger, free",
        "charged ε = 0.5",
        "refused, the budget cannot pay ε = 2",
    ]
    assert not any(word in e for e in events for word in ("12345", "111105", str(shown)))


def test_namespaces_list_public_names_only() -> None:
    from discreet import data

    assert set(dir(dp)) == {*dp.__all__, "__version__"} and "Ledger" in dir(dp) and "testing" in dir(dp)
    for space in (dp.mechanisms, dp.finite, dp.local, dp.plots, dp.sketch, dp.accounting, dp.audit, dp.testing, data):
        names = dir(space)
        assert names and not {"annotations", "Callable", "MappingProxyType", "importlib", "Any", "laplace_"} & set(
            names
        )
        assert not [n for n in names if n.startswith("_")]
        assert all(hasattr(space, n) for n in names)
    assert {"Laplace", "mechanism"} <= set(dir(dp.mechanisms)) and "exact" not in dir(dp.mechanisms)
    assert {"DiscreetError", "BudgetExceeded"} <= set(dir(dp.errors)) and "redacted" not in dir(dp.errors)
