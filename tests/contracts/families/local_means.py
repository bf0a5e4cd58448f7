"""Means, vectors, sketches and heavy hitters of devices: each audited on two far values, beside a broken twin."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.local import (
    CountMeanSketch,
    Duchi,
    HadamardSketch,
    HeavyHitters,
    Laplace,
    LocalHashing,
    Piecewise,
    PrivUnit,
    Randomizer,
)
from discreet.local.hashing import digests
from discreet.local.sketches import _HEAD, SketchRandomizer, _parity
from discreet.noise.entropy import SystemEntropy, below_vector
from tests.contracts.audit_row import AuditRow, sampled

SOLD = Fraction(1)
"""What every report is sold as."""

Look = Callable[[Any, Any], NDArray[Any]]
"""What an attacker looks at in reports of a randomizer: what they say about two values."""


def row(
    make: Callable[[Fraction], Randomizer],
    x: object,
    y: object,
    look: Look,
    *,
    case: str,
    broken: Fraction = Fraction(2),
    ci: int = 6_000,
) -> AuditRow:
    """Reports of two values under an honest ε = 1 and under a larger one that is sold as 1."""

    def law(epsilon: Fraction) -> Callable[..., object]:
        randomizer = make(epsilon)
        return lambda value, n: look(randomizer, randomizer.randomize(np.array([value] * n)))

    sound, twin = (sampled(law(e), x, y, make(SOLD).loss) for e in (SOLD, broken))
    name = type(make(SOLD)).__name__
    return AuditRow(name, case, sound, twin, f"ε = {broken} sold as 1", ci, 100 * ci)


def as_they_are(randomizer: Any, reports: NDArray[Any]) -> NDArray[Any]:
    """The reports themselves; a row of bits as one number."""
    if reports.ndim == 1:
        return reports
    return np.asarray(reports @ (1 << np.arange(reports.shape[1])))


def along_the_axis(randomizer: PrivUnit, reports: NDArray[Any]) -> NDArray[Any]:
    """How far the reported directions lie on the side of the first axis."""
    return np.round(randomizer._vectors(reports)[:, 0], 2)


def places(sketch: SketchRandomizer) -> tuple[int, int]:
    """Where the two texts fall in the only row."""
    first, second = sketch.place(digests(["tree", "flower"], sketch._key), np.array([0])).tolist()
    assert first != second
    return first, second


def both_bits(sketch: CountMeanSketch, reports: NDArray[Any]) -> NDArray[Any]:
    """The bits at the hashes of the two texts."""
    bits = np.unpackbits(reports[:, _HEAD:], axis=1)
    first, second = places(sketch)
    return np.asarray(bits[:, first] * 2 + bits[:, second])


def both_signs(sketch: HadamardSketch, reports: NDArray[Any]) -> NDArray[Any]:
    """Whether the sign is that of either text."""
    column, sign = reports // 2 % sketch.width, reports % 2
    first, second = (_parity(column & place) ^ sign for place in places(sketch))
    return np.asarray(first * 2 + second)


def both_supported(oracle: LocalHashing, reports: NDArray[Any]) -> NDArray[Any]:
    """Which of two values a report supports."""
    first, second = (oracle.law.supports(reports, place) for place in (0, 2))
    return np.asarray(first * 2 + second)


def level_and_support(hitters: HeavyHitters, reports: NDArray[Any]) -> NDArray[Any]:
    """The level, and which of the two texts' beginnings the report supports there."""
    level, report = np.divmod(reports, hitters.law.size * hitters.law.prime)
    at = hitters._places(hitters.spelling.rows(["ox", "tortoise"]))
    seen = level * 4
    for i, place in enumerate(at):
        for j in (0, 1):
            seen += (level == i) * hitters.law.supports(report, int(place[j])) * (1 + j)
    return seen


def levels_that_the_text_reaches() -> AuditRow:
    """The broken twin asks a device only about beginnings that are no longer than its text."""
    honest = HeavyHitters(epsilon=1, length=8, alphabet="abcdefghijklmnopqrstuvwxyz")

    def sound(value: str, n: int) -> object:
        return level_and_support(honest, honest.randomize([value] * n))

    def short(value: str, n: int) -> object:
        reached = max(1, sum(end <= len(value) for end in honest.levels))
        rng = SystemEntropy()
        level = below_vector(reached, n, rng)
        places = np.array([int(p[0]) for p in honest._places(honest.spelling.rows([value]))])
        reports = level * (honest.law.size * honest.law.prime) + honest.law.reports(places[level], rng)
        return level_and_support(honest, reports)

    claim = honest.loss
    power = "levels that the text does not reach are not drawn"
    return AuditRow(
        "HeavyHitters",
        "texts of two lengths",
        sampled(sound, "ox", "tortoise", claim),
        sampled(short, "ox", "tortoise", claim),
        power,
        4_000,
        400_000,
    )


def cut_window() -> AuditRow:
    """The broken twin slides its window beyond the ends and cuts what sticks out: it is no longer equally wide."""
    honest = Piecewise(epsilon=1)
    law = honest.window

    def sound(value: float, n: int) -> object:
        return honest.randomize(np.full(n, value))

    def cut(value: float, n: int) -> object:
        middle = int((value + 1) / 2 * (law.reports - 1))
        low, high = max(0, middle - law.width // 2), min(law.reports, middle + law.width // 2)
        rng = SystemEntropy()
        inside = low + below_vector(high - low, n, rng)
        other = below_vector(law.reports - (high - low), n, rng)
        return np.where(law.coin.flips(n, rng), inside, other + (high - low) * (other >= low))

    claim = honest.loss
    sound_, twin = (sampled(m, -1.0, 1.0, claim) for m in (sound, cut))
    return AuditRow(
        "Piecewise", "a window at the ends", sound_, twin, "the window is cut at the ends", 20_000, 2_000_000
    )


AUDITS = (
    row(lambda e: Duchi(epsilon=e), -1.0, 1.0, as_they_are, case="a number"),
    row(lambda e: Duchi(epsilon=e, dimension=3), [1.0, 1.0, -1.0], [-1.0, -1.0, 1.0], as_they_are, case="a vector"),
    row(lambda e: Laplace(epsilon=e), -1.0, 1.0, as_they_are, case="a number on a device"),
    row(lambda e: Piecewise(epsilon=e), -1.0, 1.0, as_they_are, case="a number", ci=10_000),
    cut_window(),
    row(
        lambda e: PrivUnit(epsilon=e, dimension=4, candidates=16),
        [1.0, 0.0, 0.0, 0.0],
        [-1.0, 0.0, 0.0, 0.0],
        along_the_axis,
        case="opposite vectors",
        broken=Fraction(3),
    ),
    row(lambda e: CountMeanSketch(epsilon=e, rows=1, width=16), "tree", "flower", both_bits, case="two texts"),
    row(lambda e: HadamardSketch(epsilon=e, rows=1, width=16), "tree", "flower", both_signs, case="two texts"),
    row(lambda e: LocalHashing(3, epsilon=e), 0, 2, both_supported, case="two values"),
    levels_that_the_text_reaches(),
)
