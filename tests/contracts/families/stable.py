"""Noise that follows the data: contracts, audits, and twins that take what is only locally true for private."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms import ProposeTestRelease, SampleAndAggregate, SmoothSensitivity
from discreet.mechanisms.stable.smooth_sensitivity import LogNormal, StudentT
from discreet.mechanisms.stable.spread import GRID_BITS, Interquartile, Rank, SensitivityBounds
from discreet.mechanisms.values import Declared
from discreet.noise import laplace
from discreet.noise.entropy import SystemEntropy, bits
from discreet.noise.ratio import digits_for, rounded
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import Relation
from tests.contracts.audit_row import AuditRow, sampled
from tests.contracts.mechanism_row import DELTA, Row

RNG = SystemEntropy()
HALF = Fraction(1, 2)
RANGE: dict[str, Any] = {"lower": 0, "upper": 1}
PAGE = "smooth-sensitivity"


def largest(rows: object) -> object:
    """An estimator that one row decides."""
    return np.max(np.asarray(rows))


def smooth(**given: Any) -> Row:
    """A pure one."""
    return Row(
        SmoothSensitivity,
        lambda e: SmoothSensitivity(epsilon=e, **RANGE, **given),
        PAGE,
        True,
        given=RANGE | given,
        sized=False,
    )


MECHANISMS = (
    smooth(),
    smooth(statistic="quantile", p="0.9", relation="replace", degrees=4),
    smooth(statistic="iqr", law="cauchy", changes=3),
    smooth(statistic="mad", law="quartic", relation="replace"),
    smooth(statistic="mode", values=[0, "0.5", 1]),
    Row(
        SmoothSensitivity,
        lambda e: SmoothSensitivity(epsilon=e, delta=DELTA, law="laplace-log-normal", **RANGE),
        PAGE,
        False,
        given=RANGE | {"law": "laplace-log-normal"},
        sized=False,
    ),
    Row(
        ProposeTestRelease,
        lambda e: ProposeTestRelease(epsilon=e, delta=DELTA, bound="0.1", **RANGE),
        "propose-test-release",
        False,
        given=RANGE | {"bound": "0.1"},
        sized=False,
    ),
    Row(
        ProposeTestRelease,
        lambda e: ProposeTestRelease("mode", epsilon=e, delta=DELTA, values=[0, 1], relation="replace", **RANGE),
        "propose-test-release",
        False,
        given=RANGE | {"bound": "0.1"},
        sized=False,
    ),
    Row(
        SampleAndAggregate,
        lambda e: SampleAndAggregate(largest, blocks=10, epsilon=e, **RANGE),
        "sample-and-aggregate",
        True,
        given=RANGE | {"estimator": largest, "blocks": 10},
        sized=False,
    ),
    Row(
        SampleAndAggregate,
        lambda e: SampleAndAggregate(
            largest,
            blocks=10,
            epsilon=e,
            lower=[0, 0],
            upper=[1, 2],
            aggregation="winsorized",
            relation="replace",
            repeats=2,
        ),
        "sample-and-aggregate",
        True,
        given=RANGE | {"estimator": largest, "blocks": 10, "aggregation": "winsorized"},
        sized=False,
    ),
)


def local(mechanism: SmoothSensitivity, spread: Callable[[NDArray[np.int64], int], SensitivityBounds]) -> Any:
    """The twin: the same law, with its scale from the local sensitivity."""
    declared = Declared.of(0, 1, bits=GRID_BITS)
    law = LogNormal.best(rho) if (rho := mechanism.loss.rho) and mechanism.delta else StudentT(2)

    def release(values: list[float], *, rng: SystemEntropy) -> float:
        found = spread(np.sort(declared.places(values)), declared.span)
        z = law.draw(digits_for(declared.span), rng)
        scale = Fraction(found.most(0)) / mechanism.alpha
        place = rounded(z, bits(rng, 1) == 1, scale, found.value(), 0, declared.span)
        return declared.value(place)

    return release


def followed(
    case: str,
    mechanism: SmoothSensitivity,
    spread: Callable[[NDArray[np.int64], int], SensitivityBounds],
    x: list[float],
    y: list[float],
) -> AuditRow:
    """Neighbours of which one could change at once and the other could not."""

    def law(release: Callable[..., object]) -> Callable[..., object]:
        return lambda values, n: np.array([release(values, rng=RNG) for _ in range(n)])

    claim = mechanism.loss if mechanism.delta is None else Budget(mechanism.epsilon, mechanism.delta)
    sound, twin = (sampled(law(r), x, y, claim) for r in (mechanism.release, local(mechanism, spread)))
    return AuditRow("SmoothSensitivity", case, sound, twin, "local sensitivity instead of smooth", 1_000, 100_000)


def tested() -> AuditRow:
    """Distances on both sides of the threshold; the twin looks at them without noise."""
    mechanism = ProposeTestRelease(bound="0.1", epsilon=1, delta="0.01", **RANGE)
    sizes = (mechanism.threshold, mechanism.threshold + 1)  # as many zeros are as far from breaking the bound
    claim = Budget(epsilon=1, delta="0.01")

    def sound(size: int, n: int) -> object:
        found = [mechanism.release(np.zeros(size), rng=RNG) for _ in range(n)]
        return np.array([2.0 if f is None else f for f in found])

    def twin(size: int, n: int) -> object:
        passed = size > mechanism.threshold
        noise = [laplace.sample(Fraction(200), RNG) / 1000 for _ in range(n)]
        return np.array([min(max(z, 0.0), 1.0) if passed else 2.0 for z in noise])

    ours, theirs = (sampled(law, *sizes, claim) for law in (sound, twin))
    return AuditRow("ProposeTestRelease", "at the threshold", ours, theirs, "no noise on the distance", 1_500, 100_000)


def asked(aggregation: str, blocks: int, broken: str) -> AuditRow:
    """One row that decides the answer of every block it is in, which is all of them; the twin counts it as in one."""
    given: dict[str, Any] = RANGE | {"blocks": blocks, "aggregation": aggregation}
    honest = SampleAndAggregate(largest, epsilon=1, repeats=blocks, **given)
    cheat = SampleAndAggregate(largest, epsilon=broken, repeats=1, **given)
    claim = honest.loss

    def sound(row: list[float], n: int) -> object:
        return np.array([honest.release(row, rng=RNG) for _ in range(n)])

    def twin(row: list[float], n: int) -> object:
        # so many rows like it that hardly any block is without one: its answers are those of one row in all blocks
        rows = np.full(100, max(row))
        return np.array([cheat.release(rows, rng=RNG) for _ in range(n)])

    ours, theirs = (sampled(law, [0.0, 0.0], [0.0, 0.0, 1.0], claim) for law in (sound, twin))
    power = f"rows in {blocks} blocks, counted as in one"
    return AuditRow("SampleAndAggregate", aggregation, ours, theirs, power, 1_000, 50_000)


AUDITS = (
    followed(
        "the median of few numbers",
        SmoothSensitivity(epsilon=1, **RANGE),
        lambda x, span: Rank(x, span, HALF, Relation.ADD_REMOVE),
        [0.0] * 5 + [1.0] * 5,
        [0.0] * 6 + [1.0] * 5,
    ),
    followed(
        "the distance of quartiles, replaced",
        SmoothSensitivity("iqr", epsilon=1, relation="replace", **RANGE),
        lambda x, span: Interquartile(x, span, Relation.REPLACE),
        [0.5] * 6 + [1.0] * 2,
        [0.5] * 7 + [1.0],
    ),
    followed(
        "concentrated",
        SmoothSensitivity(epsilon=1, delta="0.01", law="laplace-log-normal", **RANGE),
        lambda x, span: Rank(x, span, HALF, Relation.ADD_REMOVE),
        [0.0] * 5 + [1.0] * 5,
        [0.0] * 6 + [1.0] * 5,
    ),
    tested(),
    asked("median", 9, "1"),
    asked("winsorized", 9, "1"),
)
