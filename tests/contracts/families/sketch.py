"""Sketches of vectors: what one row, or one label, can change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.sketch import DensitySketch, SketchClassifier
from tests.contracts.audit_row import AuditRow, sampled

REPETITIONS = 4
POINT = np.array([[0.5]])
SHAPE: dict[str, Any] = {"dimension": 1, "bandwidth": 1, "buckets": 2}


def in_its_buckets(released: Any, n: int) -> NDArray[Any]:
    """The counts in the buckets of the point: sample, part, repetition.

    One sketch of n times as many repetitions at n times the ε is n independent sketches.
    """
    buckets = released.hashes.buckets(released.counting.family.box.whole(POINT))[0]
    counts = released.counts[:, np.arange(len(buckets)), buckets]
    return np.asarray(counts.reshape(len(counts), n, REPETITIONS).swapaxes(0, 1))


def one_row_more() -> AuditRow:
    """No row, or one: in how many repetitions its bucket is not empty. The twin has the noise of one repetition."""

    def law(epsilon: int) -> Callable[..., object]:
        def release(rows: int, n: int) -> object:
            sketch = DensitySketch(epsilon=epsilon * n, repetitions=REPETITIONS * n, **SHAPE)
            return (in_its_buckets(sketch.fit(np.full((rows, 1), 0.5)), n) > 0).sum(axis=(1, 2))

        return release

    claim = DensitySketch(epsilon=1, repetitions=REPETITIONS, **SHAPE).loss
    sound, twin = (sampled(law(e), 0, 1, claim) for e in (1, REPETITIONS))
    return AuditRow("DensitySketch", "a row more", sound, twin, "the noise of one repetition of 4", 20_000, 200_000)


def another_label() -> AuditRow:
    """One row, with one label or the other: how many counts speak for the first. The twin counts a moved row once."""

    def law(relation: str, epsilon: int) -> Callable[..., object]:
        def release(label: str, n: int) -> object:
            sketch = SketchClassifier(
                epsilon=epsilon * n, classes=["no", "yes"], repetitions=REPETITIONS * n, relation=relation, **SHAPE
            )
            no, yes = in_its_buckets(sketch.fit(POINT, [label]), n).swapaxes(0, 1) > 0
            return no.sum(axis=1) - yes.sum(axis=1)

        return release

    claim = SketchClassifier(
        epsilon=1, classes=["no", "yes"], repetitions=REPETITIONS, relation="replace", **SHAPE
    ).loss
    sound, twin = (sampled(law(*given), "no", "yes", claim) for given in (("replace", 1), ("add-remove", 2)))
    power = "half of the noise, for a row that is counted once: 4 sold as 1"
    return AuditRow("SketchClassifier", "another label", sound, twin, power, 20_000, 200_000)


AUDITS = [one_row_more(), another_label()]
"""The audits of this family."""
