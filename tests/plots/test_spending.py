"""The picture of an account has the sums of its ledger."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from discreet import accounting, plots
from discreet.accounting.filter import Charge
from discreet.errors import InvalidParameter
from discreet.ledger.ledger import Ledger
from discreet.privacy.guarantee import Budget
from tests.plots.seen import rows, words


def test_the_picture_of_spending_has_the_sums_of_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        days = iter([1, 2, 3, 4, 5, 3, 6])  # set back once: the entry stays in its place

        @classmethod
        def now(cls, zone: object) -> datetime:
            return datetime(2026, 5, next(cls.days), tzinfo=UTC)

    monkeypatch.setattr("discreet.ledger.log.datetime", Clock)
    signed: dict[str, Any] = {"by": "the board", "reason": "as agreed"}
    with Ledger.open(":memory:") as ledger:
        account = ledger.open_account("customers", Budget(2))
        account.cap_analyst("ana", Budget(2), **signed)
        account.cap_analyst("ben", Budget(2), **signed)
        for analyst, epsilon in (("ana", "0.5"), ("ben", "0.25"), ("ana", "0.75")):
            charge = Charge.of(accounting.pure(epsilon))
            account.seen_by(analyst).charge("q", charge, note={})
        account.change_budget(Budget(3), **signed)
        chart = plots.spending(account)
    lines: dict[str, list[float]] = {}
    for point in rows(chart, "who", "epsilon"):
        lines.setdefault(point["who"], []).append(point["epsilon"])
    assert lines == {
        "spent": [0, 0.5, 0.75, 1.5, 1.5],
        "ana": [0, 0.5, 1.25, 1.25],
        "ben": [0, 0.25, 0.25],
        "budget": [2, 3, 3],
    }
    times = [p["time"] for p in rows(chart, "who", "epsilon") if p["who"] == "spent"]
    assert times == sorted(times) and times[0].startswith("2026-05-01")
    assert "customers" in words(chart)


def test_an_analyst_of_any_name_has_a_line_of_their_own() -> None:
    signed: dict[str, Any] = {"by": "the board", "reason": "as agreed"}
    with Ledger.open(":memory:") as ledger:
        account = ledger.open_account("customers", Budget(2))
        for analyst in ("spent", "budget"):
            account.cap_analyst(analyst, Budget(2), **signed)
            account.seen_by(analyst).charge(analyst, Charge.of(accounting.pure("0.5")), note={})
        points = rows(plots.spending(account), "who", "epsilon")
    last = {point["who"]: point["epsilon"] for point in points}
    assert last == {"spent": 1, "spent (analyst)": 0.5, "budget (analyst)": 0.5, "budget": 2}


def test_an_account_just_opened_has_lines_of_some_length() -> None:
    with Ledger.open(":memory:") as ledger:
        points = rows(plots.spending(ledger.open_account("customers", Budget(2))), "who", "epsilon")
    first, *_, last = sorted(datetime.fromisoformat(point["time"]) for point in points)
    assert 59 < (last - first).total_seconds() < 61


def test_a_picture_of_no_account_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="needs a session or an account"):
        plots.spending({})
