"""Staircase, sparse vector, noisy max with each noise, monotonic selection: contracts, audits and broken twins."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms import AboveThreshold, Exponential, NoisyMax, PermuteAndFlip, SparseVector, Staircase
from discreet.mechanisms.selection import Selection
from discreet.noise.entropy import SystemEntropy
from tests.contracts.audit_row import AuditRow, sampled
from tests.contracts.mechanism_row import Row

N = 20_000
RNG = SystemEntropy()
BROKEN = np.random.default_rng()  # twins are sampled in floats: that is not how they are broken

MECHANISMS = (
    Row(Staircase, lambda e: Staircase(epsilon=e, sensitivity=3), "staircase", True),
    Row(Staircase, lambda e: Staircase(epsilon=e, sensitivity="0.5", gamma="1/3"), "staircase", True),
    Row(Staircase, lambda e: Staircase(epsilon=e, sensitivity=7, dimension=4), "staircase", True),
    Row(NoisyMax, lambda e: NoisyMax(epsilon=e, noise="exponential"), "noisy-max", True),
    Row(NoisyMax, lambda e: NoisyMax(epsilon=e, noise="gumbel", monotonic=True), "noisy-max", True),
    Row(Exponential, lambda e: Exponential(epsilon=e, monotonic=True), "exponential", True),
    Row(PermuteAndFlip, lambda e: PermuteAndFlip(epsilon=e, monotonic=True), "permute-and-flip", True),
    Row(
        SparseVector,
        lambda e: SparseVector(epsilon=e, threshold=10, cutoff=3, answers="0.3"),
        "sparse-vector",
        True,
        given={"threshold": 10},
    ),
    Row(
        SparseVector,
        lambda e: SparseVector(epsilon=e, threshold="0.5", sensitivity=2, monotonic=True, answers="gap"),
        "sparse-vector",
        True,
        given={"threshold": 0},
    ),
    Row(
        AboveThreshold, lambda e: AboveThreshold(epsilon=e, threshold=-3), "sparse-vector", True, given={"threshold": 0}
    ),
)


def staircase(value: float, case: str) -> AuditRow:
    """One number that moves by its sensitivity; the twin's steps are a quarter as wide."""

    def law(width: Fraction) -> Callable[..., object]:
        mechanism = Staircase(epsilon=1, sensitivity=width)
        return lambda x, n: np.array([mechanism.release(x, rng=RNG) for _ in range(n)])

    claim = Staircase(epsilon=1, sensitivity=4).loss
    x, y = value, value + 4
    sound, twin = (sampled(law(Fraction(w)), x, y, claim) for w in (4, 1))
    return AuditRow("Staircase", case, sound, twin, "Δ = 1 sold as 4", 2_000, 300_000)


def staircase_vector() -> AuditRow:
    """Four numbers that move by 1 each; the twin takes their ℓ1 distance of 4 for Δ, as Laplace noise may."""

    def sound(x: int, n: int) -> NDArray[np.float64]:
        mechanism = Staircase(epsilon=2, dimension=4)
        return np.array([mechanism.release(np.full(4, x), rng=RNG).sum() for _ in range(n)])

    def twin(x: int, n: int) -> object:
        law = Staircase(epsilon=2, sensitivity=4).noise
        noisy = x + law.draw(4 * n, RNG).reshape(n, 4)
        ends = (law.inner, 1 - law.inner)  # a step lies between x and y there, in each number
        return (noisy == ends[0]).sum(axis=1) - (noisy == ends[1]).sum(axis=1)

    claim = Staircase(epsilon=2, dimension=4).loss
    return AuditRow(
        "Staircase",
        "four numbers",
        sampled(sound, 0, 1, claim),
        sampled(twin, 0, 1, claim),
        "noise of ℓ1 sensitivity 4 on each of four numbers, 8 sold as 2",
        2_000,
        300_000,
    )


def sparse(
    case: str,
    mechanism: SparseVector,
    x: list[int],
    y: list[int],
    twin: Callable[..., NDArray[np.float64]],
    power: str,
    *,
    seen: Callable[[NDArray[np.float64]], NDArray[np.float64]] = np.asarray,
    ci: int = 2_000,
) -> AuditRow:
    """Queries of which some rise and some fall; the twin is a published mistake.

    What is `seen` of a run is one row: which queries are above, and then their numbers at their places.
    """

    def sound(queries: list[int], n: int) -> object:
        values, k = np.array(queries), len(queries)
        rows = np.zeros((n, k if mechanism.answers is None else 2 * k))
        for row in rows:
            found = mechanism.release(values, rng=RNG)
            row[list(found.positions)] = 1
            row[[k + i for i in found.positions if found.numbers is not None]] = found.numbers or ()
        return seen(rows)

    def broken(queries: list[int], n: int) -> object:
        return seen(twin(queries, n))

    claim = mechanism.loss
    return AuditRow("SparseVector", case, sampled(sound, x, y, claim), sampled(broken, x, y, claim), power, ci, 200_000)


def published(
    queries: list[int],
    n: int,
    *,
    bar: float,
    query: float,
    cutoff: int | None,
    shown: bool = False,
    threshold: float = 0,
) -> NDArray[np.float64]:
    """A run with Laplace noise of these scales, as the variants in Figure 1 of Lyu, Su and Li have it."""
    q = np.array(queries, dtype=np.float64)
    noisy = q + (BROKEN.laplace(0, query, (n, len(q))) if query else 0.0)
    above = noisy >= threshold + BROKEN.laplace(0, bar, (n, 1))
    if cutoff is not None:
        above &= np.cumsum(above, axis=1) <= cutoff
    if not shown:
        return above.astype(np.float64)
    return np.hstack([above, np.where(above, noisy, 0.0)])


def later_ones(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many more of the second half are above than of the first."""
    k = rows.shape[1] // 2
    return np.asarray(rows[:, k:].sum(axis=1) - rows[:, :k].sum(axis=1))


def any_above() -> AuditRow:
    """Whether any of 300 is above; the twin has no noise on the threshold."""
    mechanism, x, y = AboveThreshold(epsilon=1, threshold=5), [0] * 300, [1] * 300

    def sound(queries: list[int], n: int) -> object:
        values = np.array(queries)
        return np.array([mechanism.release(values, rng=RNG) is not None for _ in range(n)])

    def twin(queries: list[int], n: int) -> object:
        return (np.array(queries) + BROKEN.laplace(0, 1, (n, len(queries))) >= 5).any(axis=1)

    return AuditRow(
        "AboveThreshold",
        "whether any is above",
        sampled(sound, x, y, mechanism.loss),
        sampled(twin, x, y, mechanism.loss),
        "noise for all of ε on each query and none on the threshold",
        4_000,
        100_000,
    )


def one_direction(kind: type[Selection]) -> AuditRow:
    """All others rise; the twin uses the doubled rate where they rise and one falls."""

    def law(mechanism: Selection) -> Callable[..., object]:
        return lambda u, n: np.array([mechanism.release(range(len(u)), u, rng=RNG) for _ in range(n)])

    monotonic = kind(epsilon=2, monotonic=True)
    x, y, against = [1, *[0] * 19], [1, *[1] * 19], [0, *[1] * 19]
    return AuditRow(
        kind.__name__,
        "in one direction",
        sampled(law(monotonic), x, y, monotonic.loss),
        sampled(law(monotonic), x, against, monotonic.loss),
        "utilities that move against each other, 4 sold as 2",
        3_000,
        300_000,
    )


def noisy_max(noise: str) -> AuditRow:
    """The worst neighbours, in floats: one utility falls, all others rise."""

    def law(epsilon: int) -> Callable[..., object]:
        mechanism = NoisyMax(epsilon=epsilon, noise=noise)  # type: ignore[arg-type]
        return lambda u, n: np.array([mechanism.release(range(len(u)), u, rng=RNG) for _ in range(n)])

    x, y = [1.0, *[0.0] * 9], [0.0, *[1.0] * 9]
    claim = NoisyMax(epsilon=1, noise=noise).loss  # type: ignore[arg-type]
    sound, twin = (sampled(law(e), x, y, claim) for e in (1, 4))
    return AuditRow("NoisyMax", f"{noise} noise", sound, twin, "ε = 4 sold as 1", 2_000, 300_000)


AUDITS = (
    staircase(0, "whole numbers"),
    staircase(0.0, "floats"),
    staircase_vector(),
    noisy_max("exponential"),
    noisy_max("gumbel"),
    one_direction(Exponential),
    one_direction(PermuteAndFlip),
    sparse(
        "a cut-off of twenty",
        SparseVector(epsilon=1, threshold=0, cutoff=20),
        [*[0] * 20, *[1] * 20],
        [*[1] * 20, *[0] * 20],
        partial(published, bar=2, query=2, cutoff=20),
        "Algorithm 4: noise on queries that forgets the cut-off, 30 = (1 + 6c)/4 sold as 1",
        seen=later_ones,
    ),
    sparse(
        "a query that rises and one that falls",
        SparseVector(epsilon=1, threshold=0, cutoff=1),
        [0, 1],
        [1, 0],
        partial(published, bar=2, query=0, cutoff=None),
        "Algorithm 5: no noise on queries and no cut-off, ∞ sold as 1",
    ),
    sparse(
        "many above",
        SparseVector(epsilon=1, threshold=0, cutoff=2),
        [*[0] * 40, *[1] * 40],
        [*[1] * 40, *[0] * 40],
        partial(published, bar=2, query=4, cutoff=None),
        "Algorithm 6: no cut-off, ∞ sold as 1",
        seen=later_ones,
    ),
    sparse(
        "gaps",
        SparseVector(epsilon=1, threshold=0, cutoff=1, answers="gap"),
        [0, 0, 0, 0, 0, 1],
        [1, 1, 1, 1, 1, 0],
        partial(published, bar=2, query=2, cutoff=1, shown=True),
        "Algorithm 3: the noisy value that was compared is shown, ∞ sold as 1",
        ci=12_000,
    ),
    sparse(
        "fresh numbers",
        SparseVector(epsilon=1, threshold=0, cutoff=1, answers="1/2"),
        [1],
        [0],
        partial(published, bar=1, query=1, cutoff=1, shown=True),
        "a number with noise for all of ε beside the comparison",
        ci=12_000,
    ),
    any_above(),
)
