"""Histogram, quantiles, median, top k: contracts, audits and broken twins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from discreet.mechanisms import Histogram, Median, Quantiles, TopK
from discreet.noise.entropy import SystemEntropy
from discreet.privacy.guarantee import Budget
from tests.contracts.audit_row import AuditRow, sampled
from tests.contracts.mechanism_row import DELTA, Row

RNG = SystemEntropy()
RANGE: dict[str, Any] = {"lower": 0, "upper": 1}
QUARTILES = ["1/4", "1/2", "3/4"]
KEYS = ["a", "b"]

MECHANISMS = (
    Row(Histogram, lambda e: Histogram(KEYS, epsilon=e), "histogram", True, given={"keys": KEYS}, sized=False),
    Row(
        Histogram,
        lambda e: Histogram(KEYS, epsilon=e, noise="geometric", relation="replace", changes=3),
        "histogram",
        True,
        given={"keys": KEYS},
        sized=False,
    ),
    Row(
        Histogram,
        lambda e: Histogram(KEYS, epsilon=e, delta=DELTA, noise="gaussian", relation="replace"),
        "histogram",
        False,
        given={"noise": "gaussian", "keys": KEYS},
        sized=False,
    ),
    Row(Histogram, lambda e: Histogram(epsilon=e, delta=DELTA), "histogram", False, sized=False, tight=False),
    Row(
        Histogram,
        lambda e: Histogram(epsilon=e, delta=DELTA, noise="gaussian", relation="replace"),
        "histogram",
        False,
        sized=False,
        tight=False,
    ),
    Row(Median, lambda e: Median(epsilon=e, **RANGE), "approximate-quantiles", True, given=RANGE, sized=False),
    Row(
        Quantiles,
        lambda e: Quantiles(QUARTILES, epsilon=e, relation="replace", changes=2, **RANGE),
        "approximate-quantiles",
        True,
        given=RANGE | {"p": QUARTILES},
        sized=False,
    ),
    Row(TopK, lambda e: TopK(3, epsilon=e), "top-k", True, given={"k": 3}),
    Row(TopK, lambda e: TopK(2, epsilon=e, sensitivity=2, relation="replace"), "top-k", True, given={"k": 2}),
)


def audited(
    of: str,
    case: str,
    sound: Callable[[Any], object],
    twin: Callable[[Any], object],
    x: object,
    y: object,
    claim: Any,
    power: str,
    ci: int,
) -> AuditRow:
    """One output at a time."""

    def law(release: Callable[[Any], object]) -> Callable[..., object]:
        return lambda data, n: np.array([release(data) for _ in range(n)])

    ours, theirs = (sampled(law(release), x, y, claim) for release in (sound, twin))
    return AuditRow(of, case, ours, theirs, power, ci, 100_000)


def counted() -> AuditRow:
    """One row that changes its key; the twin's noise is that of a row that is there or not."""
    honest, broken = (Histogram(KEYS, epsilon=1, relation=r) for r in ("replace", "add-remove"))
    x, y = ["a", "b"], ["a", "a"]

    def of(histogram: Histogram) -> Callable[[Sequence[str]], object]:
        return lambda rows: list(histogram.release(rows, rng=RNG).values())

    return audited(
        "Histogram", "a replaced row", of(honest), of(broken), x, y, honest.loss, "scale 1/ε, not 2/ε", 4_000
    )


def found() -> AuditRow:
    """A key that one unit alone has; the twin shows every key that is there."""
    honest = Histogram(epsilon=1, delta="0.01")
    twin = Histogram(["a", "b"], epsilon=1)

    def ours(rows: list[str]) -> object:
        shown = honest.release(rows, rng=RNG)
        return [shown.get(k, -100) for k in KEYS]

    def theirs(rows: list[str]) -> object:
        shown = {k: v for k, v in twin.release(rows, rng=RNG).items() if k in rows}
        return [shown.get(k, -100) for k in KEYS]

    x, y = ["a"] * 9, ["a"] * 9 + ["b"]
    claim = Budget(epsilon=1, delta="0.01")
    return audited("Histogram", "a new key", ours, theirs, x, y, claim, "keys without a threshold", 2_000)


def between() -> tuple[AuditRow, ...]:
    """Two wide empty parts, and a row more that moves the middle rank towards one of them."""
    medians = [Median(epsilon=e, **RANGE) for e in (1, 8)]
    trees = [Quantiles(QUARTILES, epsilon=e, **RANGE) for e in (2, 16)]
    return (
        _between("Median", medians[0], medians[1], medians[0].loss, "ε = 8 sold as 1"),
        _between("Quantiles", trees[0], trees[1], trees[0].loss, "ε = 16 sold as 2"),
    )


def _between(of: str, honest: Median | Quantiles, broken: Median | Quantiles, claim: Any, power: str) -> AuditRow:
    x = np.repeat([0.0, 0.5, 1.0], [60, 2, 60])

    def by(mechanism: Median | Quantiles) -> Callable[[Any], object]:
        return lambda values: mechanism.release(values, rng=RNG)

    return audited(of, "a row at the end", by(honest), by(broken), x, np.append(x, 1.0), claim, power, 800)


def peeled() -> AuditRow:
    """Some counts rise and others fall; the twin has the rate of counts that only rise."""
    honest, broken = (TopK(2, epsilon=2, relation=r) for r in ("replace", "add-remove"))
    x, y = [1, 1, *[0] * 8], [0, 0, *[1] * 8]

    def of(top: TopK) -> Callable[[Sequence[int]], object]:
        return lambda counts: top.release(range(10), counts, rng=RNG)

    power = "the rate for counts that only rise"
    return audited("TopK", "a replaced unit", of(honest), of(broken), x, y, honest.loss, power, 3_000)


AUDITS = (counted(), found(), *between(), peeled())
