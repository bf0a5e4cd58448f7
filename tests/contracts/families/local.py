"""Frequency oracles, RAPPOR, and what keeps a device from telling too much over time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from discreet.errors import BudgetExceeded
from discreet.local import (
    DeviceBudget,
    Hadamard,
    Memoised,
    RandomizedResponse,
    Randomizer,
    Rappor,
    SubsetSelection,
    UnaryEncoding,
    device_budget,
)
from discreet.privacy.guarantee import Budget
from tests.contracts.audit_row import Audited, AuditRow, sampled

Number = Callable[[NDArray[Any]], NDArray[Any]]


def as_bits(reports: NDArray[Any]) -> NDArray[Any]:
    """Rows of bits as numbers."""
    return np.asarray(reports @ (1 << np.arange(reports.shape[1])))


def as_sets(reports: NDArray[Any]) -> NDArray[Any]:
    """Rows of places as numbers."""
    return np.asarray((1 << reports).sum(axis=1))


def one_report(
    make: Callable[[str], Randomizer],
    x: object,
    y: object,
    case: str,
    number: Number = np.asarray,
    *,
    broken: str = "1.5",
) -> AuditRow:
    """One report of each device at ε = 1; the twin has another ε and the same claim."""

    def law(epsilon: str) -> Callable[..., object]:
        return lambda value, n: number(make(epsilon).randomize([value] * n))

    claim = make("1").loss
    sound, twin = (sampled(law(e), x, y, claim) for e in ("1", broken))
    return AuditRow(type(make("1")).__name__, case, sound, twin, f"ε = {broken} sold as 1", 20_000, 2_000_000)


def asked_daily() -> AuditRow:
    """Three reports of one value; the twin draws each of them anew."""
    response = RandomizedResponse(epsilon=1)

    def audited(memoised: bool) -> Audited:
        def reports(x: int, n: int) -> object:
            if not memoised:
                return as_bits(response.randomize([x] * (3 * n)).reshape(n, 3))
            devices = (Memoised(response) for _ in range(n))
            return as_bits(np.array([[device.randomize(x) for _ in range(3)] for device in devices]))

        return sampled(reports, 0, 1, Memoised(response).loss)

    return AuditRow("Memoised", "three days", audited(True), audited(False), "drawn every day", 2_000, 100_000)


class Disk:
    """Files in memory: a thousand devices with real ones would wait for a disk all the time."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.open: list[str] = []

    @contextmanager
    def exclusive(self, path: str) -> Iterator[int]:
        self.open.append(path)
        yield len(self.open) - 1

    @staticmethod
    def place(path: object) -> str:
        return str(path)

    def exists(self, path: str) -> bool:
        return path in self.files

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def replace(self, path: str, data: bytes) -> None:
        self.files[path] = data

    def held(self, path: str, descriptor: int) -> bytes:
        return self.files.get(self.open[descriptor], b"")

    def overwrite(self, path: str, descriptor: int, data: bytes) -> None:
        self.files[self.open[descriptor]] = data


def kept_for_life() -> AuditRow:
    """As many reports as a device's budget pays for; the twin is given its budget again every day."""
    response = RandomizedResponse(epsilon=1)

    def device(x: int, i: int, resets: bool) -> int:
        budget, told = DeviceBudget.create(f"/device/{i}", 1), 0
        for day in range(3):
            if resets:
                budget = DeviceBudget.create(f"/device/{i}.{day}", 1)
            try:
                told = 3 * told + 1 + int(budget.randomize(response, x))
            except BudgetExceeded:
                told *= 3
        return told

    def audited(resets: bool) -> Audited:
        def reports(x: int, n: int) -> object:
            with patch.object(device_budget, "durable", Disk()), patch.object(device_budget, "_newest", {}):
                return np.array([device(x, i, resets) for i in range(n)])

        return sampled(reports, 0, 1, Budget(epsilon=1))

    return AuditRow("DeviceBudget", "three days", audited(False), audited(True), "refilled every day", 1_200, 20_000)


AUDITS = [
    one_report(lambda e: RandomizedResponse(epsilon=e), False, True, "two values"),
    one_report(lambda e: RandomizedResponse(5, epsilon=e), 0, 4, "five values"),
    one_report(lambda e: RandomizedResponse(3, epsilon=e), 0, "outside", "a value outside", broken="2"),
    one_report(lambda e: UnaryEncoding(3, epsilon=e), 0, 2, "optimised", as_bits),
    one_report(lambda e: UnaryEncoding(3, epsilon=e, variant="symmetric"), 0, 2, "symmetric", as_bits),
    one_report(lambda e: SubsetSelection(6, epsilon=e, size=2), 0, 5, "two of six", as_sets),
    one_report(lambda e: Hadamard(6, epsilon=e), 0, 3, "six values"),
    one_report(lambda e: Rappor(epsilon=e, bits=4, hashes=1, cohorts=1), "a", "b", "once", as_bits, broken="1.5"),
    asked_daily(),
    kept_for_life(),
]
