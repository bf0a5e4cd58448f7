"""PrivUnit for vectors, over public random directions: unit vectors that a number names, on both sides the same."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.coins import Coin, rounded_coin, weighted_flips
from discreet.local.estimate import Estimate, Floats, half_width, read_epsilon
from discreet.local.hashing import Words, mixed
from discreet.local.means import no_domain, read_reports
from discreet.local.randomizer import Randomizer, numbered
from discreet.local.reals import read_numbers
from discreet.noise.entropy import Entropy, SystemEntropy, below_vector, words64
from discreet.privacy.exact import Real, count, positive, set_fields
from discreet.privacy.guarantee import called, decimal

_CHUNK = 1 << 19  # coordinates of directions that are made at once
_WIDEST = 1 << 20
_MOST = 1 << 16
_LARGEST = 1 << 26
_HUGE = 1e150

_PANELS, _NODES = 48, 16
_FAR = 14.0  # deviations, beyond which a normal has no mass that floats see
_GRID = 3001
_ENOUGH = 8  # so many nearest ones, and little is lost
_FEWEST = 16
_MOST_PAIRS = 1 << 12


@dataclass(frozen=True, slots=True, init=False, repr=False)
class PrivUnit(Randomizer):
    """Reports one of K public random directions: with chance p one of the k that are nearest to the vector.

    A device draws a number, from which a public hash makes K/2 uniform directions u and their opposites. It ranks them
    by ⟨u, x⟩ and names one of the k nearest with chance p, else one of the K − k others, each evenly. A report is that
    number and the place of the direction. A vector shorter than the radius is first brought to it, in its own
    direction or the opposite one, at random so that its expectation stays.

    As K grows this is PrivUnit, whose cap holds a share k/K of the sphere; with `candidates` left out K is such that
    the variance is at most some 5 % above PrivUnit's optimum for ε ≤ 8. The estimate's squared error is
    (radius/m)²/n at most, with m = E⟨u, x⟩ of the reported direction.

    Guarantee:
        Each report is ε-DP for any two vectors. Whatever floats make of ⟨u, x⟩, exactly k of the K directions count as
        nearest: each of them has chance p/k and each other one (1 − p)/(K − k), where p(K − k)/((1 − p)k) ≤ e^ε in
        integers. Nothing that is drawn or computed before that coin bears on the ratio. Longer vectors are cut to the
        radius, and entries that are not numbers count as 0.

    Args:
        epsilon: the ε of one report.
        dimension: how many numbers a vector has, at least 2.
        radius: the largest length.
        candidates: K, even. More are nearer to the optimum, and cost the device more: it makes K/2 directions.

    References:
        Bhowmick, Duchi, Freudiger, Kapoor, Rogers 2018 (PrivUnit), https://arxiv.org/abs/1812.00984; Asi, Feldman,
        Talwar 2022 (its optimum), https://arxiv.org/abs/2205.02466; Isik, Chen, Özgür, Weissman, No 2023 (naming one of
        the k closest of public codewords), https://arxiv.org/abs/2306.04924; Shah, Chen, Ballé, Kairouz, Theis 2022
        (public candidates), https://arxiv.org/abs/2111.00092; docs/proofs/privunit.md, Theorem 1.

    >>> PrivUnit(epsilon=4, dimension=100).candidates
    128
    """

    epsilon: Fraction
    dimension: int
    radius: Fraction
    candidates: int
    nearest: int

    def __init__(self, *, epsilon: Real, dimension: int, radius: Real = 1, candidates: int | None = None) -> None:
        e, d, r = read_epsilon(epsilon), count("dimension", dimension), positive("radius", radius)
        if not 2 <= d <= _WIDEST:
            raise InvalidParameter(
                f"dimension must lie between 2 and {_WIDEST:,}, not {d:,}.",
                hint="Duchi and Piecewise are for single numbers",
            )
        if not 1 / Fraction(_HUGE) <= r <= Fraction(_HUGE):
            raise InvalidParameter("radius must lie between 1e-150 and 1e150.", hint="use other units")
        if candidates is None:
            pairs, nearest = best_numbers(e, d)
        else:
            pairs, odd = divmod(count("candidates", candidates, least=2), 2)
            if odd or 2 * pairs > _MOST:
                raise InvalidParameter(
                    f"candidates must be even and at most {_MOST:,}, not {candidates:,}.",
                    hint="leave it out for the best number",
                )
            nearest = best_nearest(e, pairs, d)
        if pairs * d > _LARGEST:
            raise InvalidParameter(
                f"{2 * pairs:,} candidates of dimension {d:,} do not fit on a device: {pairs * d:,} numbers.",
                hint="fewer candidates, or a projection to fewer dimensions before",
            )
        set_fields(self, epsilon=e, dimension=d, radius=r, candidates=2 * pairs, nearest=nearest)

    @property
    def coin(self) -> Coin:
        """Heads: one of the nearest."""
        return rounded_coin(self.epsilon, Fraction(self.nearest, self.candidates - self.nearest))

    @property
    def closeness(self) -> Closeness:
        """How near the reported direction is to the vector's, on average."""
        return _closeness(self.candidates // 2, self.nearest, self.coin.chance, self.dimension)

    @property
    def squared_error(self) -> float:
        """A bound of E‖v̂ − v‖² for what one report says about its vector; for the mean of n it is a share 1/n of it."""
        return (float(self.radius) / self.closeness.mean) ** 2

    def randomize(self, x: Any, *, rng: Entropy | None = None) -> Any:
        """Two integers, a public number and a place; for an array of vectors a row of two for each.

        Args:
            x: `dimension` numbers, or an array with so many in each row.
            rng: where randomness comes from, for tests; the operating system's by default.
        """
        vectors, alone = read_numbers(x, self.dimension)
        source = SystemEntropy() if rng is None else rng
        step = max(1, _CHUNK // (self.candidates // 2 * self.dimension))
        parts = [self._named(vectors[i : i + step], source) for i in range(0, len(vectors), step)]
        reports = np.concatenate([np.empty((0, 2), dtype=np.int64), *parts])
        return reports[0] if alone else reports

    def estimate(self, reports: Any, *, domain: Sequence[Hashable] | None = None) -> Estimate:
        """Return the mean of the vectors of the devices that reported, coordinate by coordinate.

        The interval of a coordinate is for the worst vectors, those along its axis.
        """
        no_domain(domain)
        given = read_reports(reports, row=(2,), low=0)
        if int(given[:, 1].max()) >= self.candidates:
            raise InvalidParameter(
                "there are reports that no device with these parameters sends.",
                hint="server and devices need equal parameters",
            )
        given = given.astype(np.int64)
        total = np.zeros(self.dimension)
        step = max(1, _CHUNK // self.dimension)
        for start in range(0, len(given), step):
            total += self._vectors(given[start : start + step]).sum(axis=0)
        radius = float(self.radius)
        return Estimate(
            tuple(range(self.dimension)),
            total * (radius / self.closeness.mean / len(given)),
            users=len(given),
            own=self._variance,
            reach=radius * (1 / self.closeness.mean + 1),
            bounds=(-radius, radius),
        )

    def error(self, users: int, confidence: Real = 0.95) -> float:
        """Return how far each coordinate of the mean of so many vectors is off at most, with that confidence."""
        return half_width(self._variance, users, confidence)

    @property
    def _variance(self) -> float:
        """Of a coordinate of what one device adds, at the worst vector: E⟨U, e⟩² is linear in ⟨x, e⟩²."""
        square, d = self.closeness.square, self.dimension
        return max(square, (1 - square) / (d - 1)) * self.squared_error

    def _named(self, vectors: Floats, rng: Entropy) -> NDArray[np.int64]:
        n, pairs, k = len(vectors), self.candidates // 2, self.nearest
        unit = self._on_the_sphere(vectors, rng)
        nonces = words64(rng, n) >> np.uint64(1)
        inner = np.einsum("njd,nd->nj", directions(nonces, np.arange(pairs), self.dimension), unit)
        chosen = np.argpartition(-np.abs(inner), k - 1, axis=1)[:, :k]  # exactly k, whatever the numbers are
        opposite = np.take_along_axis(inner, chosen, axis=1) < 0
        near = np.sort(chosen + pairs * opposite, axis=1)
        place = near[np.arange(n), below_vector(k, n, rng)]
        other = below_vector(self.candidates - k, n, rng)
        for column in near.T:  # the other-th of those that are not near: they are in order
            other += other >= column
        heads = self.coin.flips(n, rng)
        return np.column_stack([nonces.astype(np.int64), np.where(heads, place, other)])

    def _on_the_sphere(self, vectors: Floats, rng: Entropy) -> Floats:
        """Vectors of length 1 (or 0) whose expectation is the vector over the radius."""
        known = np.clip(np.nan_to_num(vectors, nan=0.0, posinf=_HUGE, neginf=-_HUGE), -_HUGE, _HUGE)
        largest = np.abs(known).max(axis=1, keepdims=True)
        scaled = known / np.where(largest > 0, largest, 1.0)
        length = np.sqrt((scaled * scaled).sum(axis=1, keepdims=True))
        share = np.clip(length * (largest / float(self.radius)), 0.0, 1.0)[:, 0]
        weights = np.minimum((1 + share) * 2.0**63, 2.0**64 - 2048).astype(np.uint64)
        kept = weighted_flips(weights, rng) | (share >= 1 - 2.0**-48)
        return scaled / np.where(length > 0, length, 1.0) * np.where(kept, 1.0, -1.0)[:, None]

    def _vectors(self, reports: NDArray[np.int64]) -> Floats:
        opposite, index = np.divmod(reports[:, 1], self.candidates // 2)
        found = directions(reports[:, 0].astype(np.uint64), index[:, None], self.dimension)[:, 0]
        return found * (1.0 - 2.0 * opposite)[:, None]

    def explain(self) -> str:
        e, p = decimal(self.epsilon), float(self.coin.chance)
        k, others = self.nearest, self.candidates - self.nearest
        return numbered(
            repr(self),
            f"Directions. A uniform number, drawn without the vector, names {self.candidates} public directions.",
            f"Ranks. Whatever the vector is, exactly {k} of them count as nearest to it.",
            f"Law. With chance p = {p:.6g} one of those {k} is reported, else one of the {others} others, evenly.",
            f"Ratio. A direction has chance p/{k} or (1 − p)/{others}, whatever the vector is.",
            f"Odds. p·{others}/((1 − p)·{k}) ≤ exp({e}), compared in integers.",
            f"Conclusion. The number has the same law for all vectors: one report is {e}-DP.",
            f"Error. The mean of n vectors has squared error {self.squared_error:.6g}/n at most.",
        )

    def __repr__(self) -> str:
        return called(self, "epsilon", "dimension", "radius", "candidates")


@lru_cache(maxsize=64)
def _closeness(pairs: int, nearest: int, chance: Fraction, dimension: int) -> Closeness:
    return closeness(pairs, nearest, chance, dimension)


_STEP = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_MASK = np.uint64((1 << 32) - 1)


def directions(nonces: Words, index: NDArray[np.int64], dimension: int) -> Floats:
    """Return the directions with these indices that each nonce names: shape (nonces, indices, dimension), each of
    length 1.

    `index` is one-dimensional, the same for all nonces, or has a row for each. A Gaussian vector, divided by its
    length, is uniform on the sphere; the normals are Box and Muller's, of hashed counters.
    """
    pairs = -(-dimension // 2)
    index = np.broadcast_to(index, (nonces.size, index.shape[-1]))
    first = index.astype(np.uint64)[:, :, None] * np.uint64(pairs)
    counters = np.asarray(first + np.arange(pairs, dtype=np.uint64), dtype=np.uint64)
    words = mixed(mixed(nonces)[:, None, None] + counters * _STEP)
    radius = np.sqrt(-2 * np.log(((words >> _HALF).astype(np.float64) + 0.5) / 2**32))
    angle = (words & _MASK).astype(np.float64) * (2 * np.pi / 2**32)
    normals = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1)
    vectors: Floats = normals.reshape(*index.shape, 2 * pairs)[:, :, :dimension]
    lengths = np.sqrt((vectors * vectors).sum(axis=-1, keepdims=True))
    return np.asarray(vectors / lengths)


@dataclass(frozen=True, slots=True)
class Closeness:
    """Of the reported direction U, for a unit vector x.

    Attributes:
        mean: E⟨U, x⟩.
        square: E⟨U, x⟩².
    """

    mean: float
    square: float


def closeness(pairs: int, nearest: int, chance: Fraction, dimension: int) -> Closeness:
    """For `pairs` of opposite uniform directions: one of the `nearest` with this chance, else one of the others.

    With T = |⟨u, x⟩| for uniform u, of which `pairs` are drawn, the nearest ones have Σ E g(T) = pairs·E[g(T)·P(fewer
    than `nearest` others are larger)]; with t = sin φ the density of T is proportional to cos^(d−2) φ in φ.
    """
    from scipy.special import bdtr, betainc

    d = dimension
    phi, weights = _quadrature(min(math.pi / 2, _FAR / math.sqrt(d)))
    log_density = math.lgamma(d / 2) - math.lgamma((d - 1) / 2) - math.log(math.pi) / 2 + math.log(2)
    mass = weights * np.exp(log_density + (d - 2) * np.log(np.cos(phi)))
    larger = betainc((d - 1) / 2, 0.5, np.cos(phi) ** 2)
    among = pairs * mass * (bdtr(nearest - 1, pairs - 1, larger) if nearest < pairs else 1.0)
    t = np.sin(phi)
    near, near_square = float(among @ t) / nearest, float(among @ (t * t)) / nearest
    others, p = 2 * pairs - nearest, float(chance)
    # all directions together sum to 0, and their squares to 2·pairs/d
    mean = p * near - (1 - p) * near * nearest / others
    square = p * near_square + (1 - p) * (2 * pairs / d - nearest * near_square) / others
    return Closeness(mean, square)


@lru_cache(maxsize=64)
def best_numbers(epsilon: Fraction, dimension: int) -> tuple[int, int]:
    """(pairs, nearest): the fewest pairs, a power of two, for which the best number of nearest ones is some."""
    pairs = _FEWEST
    while True:
        nearest = best_nearest(epsilon, pairs, dimension)
        if nearest >= _ENOUGH or pairs >= _MOST_PAIRS:
            return pairs, nearest
        pairs *= 2


def best_nearest(epsilon: Fraction, pairs: int, dimension: int) -> int:
    """Return the number of nearest ones that brings the reported direction nearest to the vector.

    On a grid, by numpy alone, since devices need it; only the variance depends on how good it is.
    """
    phi = np.linspace(0, min(math.pi / 2, _FAR / math.sqrt(dimension)), _GRID)
    with np.errstate(divide="ignore"):
        mass = np.exp((dimension - 2) * np.log(np.maximum(np.cos(phi), 0.0))) if dimension > 2 else np.ones(_GRID)
        mass /= mass.sum()
        below = np.clip(np.cumsum(mass) - mass / 2, 1e-300, 1 - 2.0**-53)
        log_larger, log_smaller = np.log(1 - below), np.log(below)
    t = np.sin(phi)
    odds, total, best, found = math.exp(min(float(epsilon), 700.0)), 0.0, -math.inf, 1
    for k in range(1, pairs + 1):
        ways = math.lgamma(pairs + 1) - math.lgamma(k) - math.lgamma(pairs - k + 1)
        total += float((t * mass) @ np.exp(ways + (k - 1) * log_larger + (pairs - k) * log_smaller))
        others = 2 * pairs - k
        p = k * odds / (k * odds + others)
        mean = total / k * (p - (1 - p) * k / others)
        if mean > best:
            best, found = mean, k
        elif k > 2 * found + 8:
            break
    return found


@lru_cache(maxsize=16)
def _quadrature(end: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of Gauss and Legendre on panels of [0, end]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    width = end / _PANELS
    starts = np.arange(_PANELS)[:, None] * width
    return (starts + (nodes + 1) * width / 2).ravel(), np.tile(weights * width / 2, _PANELS)
