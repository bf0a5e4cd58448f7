"""The law of a privacy loss, seen through its moment generating function.

With L = log dP/dQ under P, M(z) = E_P[e^(zL); L < ∞] composes by multiplying, at complex z as at real. All
that inverts M asks three things: its logarithm with an error bound, how fast |M| falls along a vertical line,
and the chance of an infinite loss.

References: Zhu, Dong, Wang 2022, section 4 (characteristic functions of dominating pairs),
https://arxiv.org/abs/2106.08567; the formulas and their error bounds: docs/proofs/contour.md
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from discreet.privacy.nonuniform import Complex, Floats, line_sizes, line_sums

_BLOCK = 1 << 15  # numbers that are worked on at once
_BINS = 128  # losses that stand for many where only their size matters
_MANY_HEIGHTS = 8  # for which products of many losses are formed first
_LEAST_C = 0.01  # (1 + z)/z is at most about a hundred then
_UNIT = 2.0**-50  # eight rounding units: what a few elementary operations may lose, relatively

__all__ = ["AtomsLaw", "Complex", "Floats", "GaussianLaw", "LaplaceLaw", "Law", "SumLaw", "TimesLaw", "TwoPointLaw"]


class Law(ABC):
    """The law of the loss of some uses together, in one direction."""

    __slots__ = ()

    @abstractmethod
    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        """Return the logarithm of M(z) for Re z > 0, and a bound on its error: M is off by a factor e^±error."""

    def line(self, c: float, step: float, count: int) -> tuple[Complex, Floats]:
        """`log_mgf` at c, c + i·step, c + 2i·step, …: count of them."""
        return self.log_mgf(np.asarray(c + 1j * step * np.arange(count), dtype=np.complex128))

    def decay(self, c: float, y: float) -> float:
        """Return an upper bound of log |M(c + iv)/M(c)| over all v ≥ y; never above 0."""
        return 0.0

    def width(self) -> int:
        """Return how many numbers `line` works on for each height, about."""
        return 1

    def rough(self, c: Floats) -> Floats:
        """About log M(c) at several c > 0, without a bound on the error: to choose by, not to answer by."""
        with np.errstate(all="ignore"):
            value, _ = self.log_mgf(np.asarray(c, dtype=np.complex128))
        return np.asarray(value.real)

    def falls(self, c: float, y: Floats) -> Floats:
        """About log |M(c + iy)/M(c)| at several heights, to choose by; −∞ where that is not known."""
        return np.full(y.size, -math.inf)

    def under(self, level: float) -> Law:
        """Return the outcomes where no use has a mark at `level`: a use that loses much more is nearly sure to have
        one.

        A use that is marked at one level is marked at all lower ones. The law itself where it cannot be divided.
        """
        return self

    def over(self, low: float, high: float) -> tuple[Law, ...]:
        """Laws that add up to the outcomes with a mark at `low` and none at `high`; none if it cannot be divided."""
        return ()

    def mirror(self) -> Law | None:
        """Return the law of −L under Q, whose M at z is M(−1 − z); None where it has no formula or falls no faster."""
        return None

    def masses(self) -> tuple[float, float, float]:
        """Return the masses under P and under Q of a law that has a mirror, and what they may be off, relatively."""
        return 1.0, 1.0, 0.0

    def p_most(self) -> float:
        """At least the mass under P."""
        return 1.0

    def marks(self, levels: Floats) -> Floats:
        """About the chance, under P, of some use with a mark at each of several levels: to choose by."""
        return np.zeros(levels.size)


@dataclass(frozen=True, slots=True)
class GaussianLaw(Law):
    """N(μ²/2, μ²): the loss of Gaussian uses together, μ² their sum."""

    mu_squared: float

    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        value = self.mu_squared / 2 * z * (z + 1)
        return value, _UNIT * np.abs(value)

    def decay(self, c: float, y: float) -> float:
        return -self.mu_squared * y * y / 2

    def falls(self, c: float, y: Floats) -> Floats:
        return -self.mu_squared * y * y / 2

    def mirror(self) -> Law:
        return self


@dataclass(frozen=True, slots=True, eq=False)
class TwoPointLaw(Law):
    """The losses ±ε with masses e^ε/(1+e^ε) and 1/(1+e^ε): pure uses, each ε with its count."""

    epsilon: Floats
    count: Floats

    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        # |M| may come near 0 where the two terms cancel: the error is relative to what is left of it.
        rest = np.exp(-self.epsilon) / (1 + np.exp(-self.epsilon))
        return _fallen(z, self.epsilon, self.count, 0.0, rest, np.ones_like(z))

    def line(self, c: float, step: float, count: int) -> tuple[Complex, Floats]:
        z = _heights(c, step, count)
        if not _come_once(self.count, count):
            return self.log_mgf(z)
        share = np.exp(-self.epsilon) / (1 + np.exp(-self.epsilon))
        factors = Factors(self.epsilon, share * np.exp(-2 * c * self.epsilon), 1 - share, None)
        return _together(self, z, step, factors, share, np.ones(count))

    def rough(self, c: Floats) -> Floats:
        epsilon, count = _few(self.epsilon, self.count)
        share = np.expm1(np.multiply.outer(-2 * c, epsilon)) * (np.exp(-epsilon) / (1 + np.exp(-epsilon)))
        return np.asarray((np.log1p(share) + np.multiply.outer(c, epsilon)) @ count)

    def width(self) -> int:
        return self.epsilon.size

    def mirror(self) -> Law:
        return self


@dataclass(frozen=True, slots=True, eq=False)
class LaplaceLaw(Law):
    """Laplace noise on numbers that move by `ratio` scales, each with its count.

    The loss is ±r at the ends and r − 2x between, so M = e^(zr)(1 + z(E − 1)/(1 + 2z)), E = e^(−(1+2z)r).
    """

    ratio: Floats
    count: Floats

    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        return _fallen(z, self.ratio, self.count, 1.0, np.ones_like(self.ratio), z / (1 + 2 * z))

    def line(self, c: float, step: float, count: int) -> tuple[Complex, Floats]:
        z = _heights(c, step, count)
        if not _come_once(self.count, count) or c < _LEAST_C:
            return self.log_mgf(z)
        front = z / (1 + 2 * z)  # f(r + E) with f = z/(1 + 2z) and r = (1 + z)/z
        factors = Factors(self.ratio, np.exp(-(1 + 2 * c) * self.ratio), (1 + z) / z, front)
        return _together(self, z, step, factors, np.ones_like(self.ratio), np.abs(front))

    def rough(self, c: Floats) -> Floats:
        ratio, count = _few(self.ratio, self.count)
        share = np.expm1(np.multiply.outer(-(1 + 2 * c), ratio)) * (c / (1 + 2 * c))[:, None]
        return np.asarray((np.log1p(share) + np.multiply.outer(c, ratio)) @ count)

    def width(self) -> int:
        return self.ratio.size

    def decay(self, c: float, y: float) -> float:
        both = 1 + np.exp(-(1 + 2 * c) * self.ratio)
        whole = both + (2 - both) / (1 + 2 * c)
        return float(np.minimum(np.log(both * (1 + 1 / (2 * y)) / whole), 0.0) @ self.count)

    def mirror(self) -> Law:
        return self


@dataclass(frozen=True, slots=True, eq=False)
class AtomsLaw(Law):
    """Finitely many losses, each with its mass under P; what is missing to 1 is the chance of an infinite loss.

    Losses may be off by 2⁻⁴⁴ of their size and masses by 2⁻⁴⁸: the error of M allows for it.
    """

    loss: Floats
    mass: Floats

    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        turn = np.multiply.outer(z, self.loss)
        top = turn.real.max(axis=-1, initial=-np.inf)
        grown = np.exp(turn - top[..., None]) * self.mass
        total = grown.sum(axis=-1)
        off = (np.abs(grown) * (72 * np.abs(turn) + np.abs(top)[..., None] + self.loss.size + 8)).sum(axis=-1)
        with np.errstate(divide="ignore"):
            value = top + np.log(total)
        relative = _UNIT * off / np.maximum(np.abs(total), 1e-300)
        return np.asarray(value), np.asarray(np.where(relative < 0.5, 2 * relative, np.inf))

    def line(self, c: float, step: float, count: int) -> tuple[Complex, Floats]:
        top = float((c * self.loss).max(initial=0.0))
        grown = np.exp(c * self.loss - top) * self.mass
        heights: Floats = np.asarray(abs(step) * np.arange(count), dtype=np.float64)
        size = line_sizes(grown, self.loss, heights)
        whole = float(grown.sum())
        total = whole + line_sums(grown, self.loss, step, count)
        off = (self.loss.size + 24) * (whole + size) + 72 * heights * float(grown @ np.abs(self.loss))
        off += 72 * (float(grown @ np.abs(c * self.loss)) + abs(top) * whole)
        with np.errstate(divide="ignore"):
            value = top + np.log(total)
        relative = _UNIT * off / np.maximum(np.abs(total), 1e-300)
        return np.asarray(value), np.asarray(np.where(relative < 0.5, 2 * relative, np.inf))

    def width(self) -> int:
        return self.loss.size


@dataclass(frozen=True, slots=True)
class TimesLaw(Law):
    """`times` independent losses of one law, added up."""

    law: Law
    times: int

    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        value, error = self.law.log_mgf(z)
        return self.times * value, self.times * (error + _UNIT * np.abs(value))

    def line(self, c: float, step: float, count: int) -> tuple[Complex, Floats]:
        value, error = self.law.line(c, step, count)
        return self.times * value, self.times * (error + _UNIT * np.abs(value))

    def decay(self, c: float, y: float) -> float:
        return self.times * self.law.decay(c, y)

    def rough(self, c: Floats) -> Floats:
        return np.asarray(self.times * self.law.rough(c))

    def width(self) -> int:
        return self.law.width()


@dataclass(frozen=True, slots=True, eq=False)
class _Stack(Law):
    """Many laws of equally many atoms, a row for each, and how often each is added up."""

    loss: Floats
    mass: Floats
    times: Floats

    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        flat = np.ravel(z)
        value, error = np.empty(flat.size, dtype=np.complex128), np.empty(flat.size)
        rows = max(_BLOCK // self.loss.size, 1)
        for i in range(0, flat.size, rows):
            turn = np.multiply.outer(flat[i : i + rows], self.loss)
            top = turn.real.max(axis=2)
            grown = np.exp(turn - top[..., None]) * self.mass
            total, sizes = grown.sum(axis=2), np.abs(grown)
            units = 72 * np.abs(turn) + (np.abs(top) + self.loss.shape[1] + 24)[..., None]
            relative = _UNIT * (sizes * units).sum(axis=2) / np.maximum(np.abs(total), 1e-300)
            logs = top + np.log(np.where(total == 0, 1e-300, total))
            value[i : i + rows] = (logs * self.times).sum(axis=1)
            off = np.where(relative < 0.5, 2 * relative, np.inf) + 8 * _UNIT * np.abs(logs)
            error[i : i + rows] = off @ self.times
        return value.reshape(z.shape), error.reshape(z.shape)


@lru_cache(maxsize=8)
def _stacked(laws: tuple[Law, ...]) -> tuple[tuple[Law, ...], tuple[Law, ...]]:
    """Laws with equally many atoms as stacks, where there are several; and all the others."""
    by_size: dict[int, list[TimesLaw]] = {}
    others: list[Law] = []
    for law in laws:
        if isinstance(law, TimesLaw) and isinstance(law.law, AtomsLaw) and law.law.loss.size <= _BLOCK // 64:
            by_size.setdefault(law.law.loss.size, []).append(law)
        else:
            others.append(law)
    stacks: list[Law] = []
    for size, alike in by_size.items():
        if len(alike) < 4 or not size:
            others += alike
            continue
        atoms = [law.law for law in alike if isinstance(law.law, AtomsLaw)]
        loss, mass = np.stack([a.loss for a in atoms]), np.stack([a.mass for a in atoms])
        stacks.append(_Stack(loss, mass, np.array([float(law.times) for law in alike])))
    return tuple(stacks), tuple(others)


@dataclass(frozen=True, slots=True)
class SumLaw(Law):
    """Independent losses added up."""

    laws: tuple[Law, ...]

    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        value, error = np.zeros(z.shape, dtype=np.complex128), np.zeros(z.shape)
        for law in self.laws:
            v, e = law.log_mgf(z)
            value, error = value + v, error + e
        return value, error

    def line(self, c: float, step: float, count: int) -> tuple[Complex, Floats]:
        value, error = np.zeros(count, dtype=np.complex128), np.zeros(count)
        stacks, others = _stacked(self.laws)
        for law in (*stacks, *others):
            v, e = law.line(c, step, count)
            value, error = value + v, error + e
        return value, error

    def decay(self, c: float, y: float) -> float:
        return float(sum(law.decay(c, y) for law in self.laws))

    def width(self) -> int:
        return max(sum(law.width() for law in self.laws), 1)

    def rough(self, c: Floats) -> Floats:
        stacks, others = _stacked(self.laws)
        return np.asarray(sum((law.rough(c) for law in (*stacks, *others)), np.zeros(c.size)))

    def falls(self, c: float, y: Floats) -> Floats:
        return np.asarray(sum((law.falls(c, y) for law in self.laws), np.zeros(y.size)))

    def under(self, level: float) -> Law:
        return SumLaw(tuple(law.under(level) for law in self.laws))

    def over(self, low: float, high: float) -> tuple[Law, ...]:
        """By the first law with a mark at `low`: the ones before have none, the ones after none at `high`."""
        parts: list[Law] = []
        for i, law in enumerate(self.laws):
            before = tuple(other.under(low) for other in self.laws[:i])
            after = tuple(other.under(high) for other in self.laws[i + 1 :])
            parts += [SumLaw((*before, part, *after)) for part in law.over(low, high)]
        return tuple(parts)

    def mirror(self) -> Law | None:
        mirrored = [law.mirror() for law in self.laws]
        known = tuple(law for law in mirrored if law is not None)
        return SumLaw(known) if len(known) == len(mirrored) else None

    def masses(self) -> tuple[float, float, float]:
        p, q, off = 1.0, 1.0, 0.0
        for law in self.laws:
            own_p, own_q, own_off = law.masses()
            p, q, off = p * own_p, q * own_q, off + 1.01 * own_off + (_UNIT if own_off else 0.0)
        return p, q, off

    def p_most(self) -> float:
        return math.prod(law.p_most() for law in self.laws)

    def marks(self, levels: Floats) -> Floats:
        return np.asarray(sum((law.marks(levels) for law in self.laws), np.zeros(levels.size)))


def _few(loss: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Of many losses, which are sorted, a few that stand for their neighbours."""
    if loss.size <= 4 * _BINS:
        return loss, count
    first = np.arange(_BINS) * loss.size // _BINS
    counts = np.add.reduceat(count, first)
    return np.add.reduceat(loss * count, first) / counts, counts


def _heights(c: float, step: float, count: int) -> Complex:
    return np.asarray(c + 1j * step * np.arange(count), dtype=np.complex128)


def _come_once(count: Floats, heights: int) -> bool:
    """Return whether there are many losses that come once each, and many heights."""
    return count.size >= _BINS and heights >= _MANY_HEIGHTS and bool((count == 1).all())


def _together(
    law: Law, z: Complex, step: float, factors: Factors, share: Floats, size: Floats
) -> tuple[Complex, Floats]:
    """Σ log(e^(z·l)·factor) along a line with a bound on the error; where a factor is nearly 0, one by one."""
    value, least = factors.along(step, z.size)
    whole, n = math.fsum(factors.loss), factors.loss.size
    weight, spread = float(share.sum()) * (1 + 1e-9), float(share @ factors.loss) * (1 + 1e-9)
    near = np.flatnonzero(~(least > LEAST))
    least[near] = 1.0
    off = 8 / least * (n + 2 * size * (weight + 2 * np.abs(z.imag) * spread)) + 15 * n
    error = _UNIT * (off + (3 * np.abs(z) + 1) * whole + 2 * np.abs(value.real))
    value += z * whole
    if near.size:
        value[near], error[near] = law.log_mgf(z[near])
    return value, error


def _fallen(
    z: Complex, loss: Floats, count: Floats, more: float, share: Floats, factor: Complex
) -> tuple[Complex, Floats]:
    """Σ n·log(e^(z·l)(1 + f(z)·s·(E − 1))), E = e^(−(2z + more)·l), for losses l with shares s and counts n."""
    flat, part, whole = np.ravel(z), np.ravel(factor), math.fsum(loss * count)
    value, error = np.empty(flat.size, dtype=np.complex128), np.empty(flat.size)
    rows = max(_BLOCK // max(loss.size, 1), 1)
    for i in range(0, flat.size, rows):
        at, f = flat[i : i + rows], part[i : i + rows]
        turn = np.multiply.outer(-2 * at.imag, loss)
        size = np.exp(np.multiply.outer(-(2 * at.real + more), loss))
        one, two = share * (size * np.cos(turn) - 1), share * size * np.sin(turn)
        real = 1 + f.real[:, None] * one - f.imag[:, None] * two
        imaginary = f.real[:, None] * two + f.imag[:, None] * one
        left = real * real + imaginary * imaginary
        size = np.abs(f)
        logs = (0.5 * np.log(np.maximum(left, 1e-300)) * count).sum(axis=1)
        turns = (np.arctan2(imaginary, real) * count).sum(axis=1)
        # What is off before the logarithm is relative to the sizes of the terms, not to their sum.
        terms = 1 + 2 * size[:, None] * share * (1 + np.abs(turn))
        off = (8 * terms / np.sqrt(np.maximum(left, 1e-300)) + 1) @ count
        value[i : i + rows] = at * whole + logs + 1j * turns
        error[i : i + rows] = _UNIT * (off + (3 * np.abs(at) + 1) * whole)
    return value.reshape(z.shape), error.reshape(z.shape)


LEAST = 0.1
"""A modulus of a factor above which products of many are floats, and still have their digits."""

_HALVINGS = 6  # products of up to 127 of moduli between a tenth and a hundred, which are floats
_ROWS, _COLUMNS = 16, 1024  # of what is worked on at once: it stays in the fastest memories


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """The factors f·(r + w·e^(−2iyl)) of many losses l at a height y; of f and r one of them hangs on y, or on l.

    `front` holds f at each height, and `rest` r at each height; or `front` is None, f is 1, and `rest` holds r for each
    loss. No factor is larger than about a hundred times f.
    """

    loss: Floats
    weight: Floats
    rest: Complex | Floats
    front: Complex | None

    def along(self, step: float, count: int) -> tuple[Complex, Floats]:
        """Return the logarithms of the products at y = 0, step, …, and at most the least modulus of a factor of each.

        Where the latter is not above `LEAST`, the former says nothing. With y = y' + y'' every e^(−2iyl) is the product
        of two out of a few.
        """
        value, least = np.zeros(count, dtype=np.complex128), np.full(count, math.inf)
        inner = -2j * step * np.arange(min(_ROWS, count))
        room = np.empty((inner.size, _COLUMNS), dtype=np.complex128)  # so that it is not asked for again and again
        for j in range(0, self.loss.size, _COLUMNS):
            loss, weight = self.loss[j : j + _COLUMNS], self.weight[j : j + _COLUMNS]
            turned = np.exp(np.multiply.outer(inner, loss))
            for i in range(0, count, _ROWS):
                rows = slice(i, min(i + _ROWS, count))
                first = weight * np.exp(-2j * step * i * loss)
                factor = np.multiply(first, turned[: rows.stop - i], out=room[: rows.stop - i, : loss.size])
                factor += self.rest[j : j + _COLUMNS] if self.front is None else self.rest[rows, None]
                size = 1.0 if self.front is None else np.abs(self.front[rows])
                modulus = factor.real.min(axis=1) * size
                if not modulus.min() > LEAST:
                    modulus = np.abs(factor).min(axis=1) * size
                least[rows] = np.minimum(least[rows], modulus)
                product = _multiplied(factor)
                with np.errstate(divide="ignore"):  # of a factor 0
                    value[rows] += np.log(np.abs(product)).sum(axis=1) + 1j * np.angle(product).sum(axis=1)
        if self.front is not None:
            value += self.loss.size * np.log(self.front)
        return value, least


def _multiplied(factor: Complex) -> Complex:
    """Along each row, the products of up to 127 numbers each: of these logarithms take less time."""
    for _ in range(_HALVINGS):
        half = factor.shape[1] // 2
        if not half:
            break
        product = factor[:, :half] * factor[:, half : 2 * half]
        if factor.shape[1] % 2:
            product[:, 0] *= factor[:, -1]
        factor = product
    return factor
