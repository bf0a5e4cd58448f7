"""The law of a privacy loss, seen through its moment generating function.

With L = log dP/dQ under P, M(z) = E_P[e^(zL); L < ∞] composes by multiplying, at complex z as at real. All
that inverts M asks three things: its logarithm with an error bound, how fast |M| falls along a vertical line,
and the chance of an infinite loss.

References: Zhu, Dong, Wang 2022, section 4 (characteristic functions of dominating pairs),
https://arxiv.org/abs/2106.08567; the formulas and their error bounds: docs/proofs/contour.md
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from discreet.privacy.nonuniform import Complex, Floats, line_sizes, line_sums

_UNIT = 2.0**-50  # eight rounding units: what a few elementary operations may lose, relatively

__all__ = [
    "AtomsLaw",
    "Complex",
    "Floats",
    "GaussianLaw",
    "LaplaceLaw",
    "Law",
    "SumLaw",
    "TimesLaw",
    "TwoPointLaw",
]


class Law(ABC):
    """The law of the loss of some uses together, in one direction."""

    __slots__ = ()

    @abstractmethod
    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        """The logarithm of M(z) for Re z > 0, and a bound on its error: M is off by a factor e^±error at most."""

    def line(self, c: float, step: float, count: int) -> tuple[Complex, Floats]:
        """`log_mgf` at c, c + i·step, c + 2i·step, …: count of them."""
        return self.log_mgf(np.asarray(c + 1j * step * np.arange(count), dtype=np.complex128))

    def decay(self, c: float, y: float) -> float:
        """An upper bound of log |M(c + iv)/M(c)| over all v ≥ y; never above 0."""
        return 0.0

    def calm(self, level: float) -> tuple[tuple[Law, ...], Law] | None:
        """Parts of the law, and the rest, in which no use is likely to lose much more than `level`.

        They are measures that add up to the law: an outcome belongs to the rest or to one of the parts. None
        where the law has no such division.
        """
        return None

    def mirror(self) -> Law | None:
        """The law of −L under Q, whose M at z is M(−1 − z); None where it has no formula."""
        return None

    def masses(self) -> tuple[float, float, float]:
        """The masses under P and under Q of a law that has a mirror, and what they may be off, relatively."""
        return 1.0, 1.0, 0.0


@dataclass(frozen=True, slots=True)
class GaussianLaw(Law):
    """N(μ²/2, μ²): the loss of Gaussian uses together, μ² their sum."""

    mu_squared: float

    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        value = self.mu_squared / 2 * z * (z + 1)
        return value, _UNIT * np.abs(value)

    def decay(self, c: float, y: float) -> float:
        return -self.mu_squared * y * y / 2

    def mirror(self) -> Law:
        return self


@dataclass(frozen=True, slots=True, eq=False)
class TwoPointLaw(Law):
    """The losses ±ε with masses e^ε/(1+e^ε) and 1/(1+e^ε): pure uses, each ε with its count."""

    epsilon: Floats
    count: Floats

    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        rest = 1 / (1 + np.exp(self.epsilon))
        turn = np.multiply.outer(z, self.epsilon)
        value = (turn + np.log1p(rest * np.expm1(-2 * turn))) @ self.count
        # |M| may come near 0 where the two terms cancel: the error is relative to what is left of it.
        return value, _UNIT * (_sizes(turn, rest) @ self.count)

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
        turn = np.multiply.outer(z, self.ratio)
        part = (z / (1 + 2 * z))[:, None] * np.expm1(-self.ratio - 2 * turn)
        value = (turn + np.log1p(part)) @ self.count
        near = np.abs(turn) + (1 + np.abs(turn)) * np.abs(part) / np.maximum(np.abs(1 + part), 1e-300)
        return value, _UNIT * ((8 * near + 1) @ self.count)

    def decay(self, c: float, y: float) -> float:
        both = 1 + np.exp(-(1 + 2 * c) * self.ratio)
        whole = both + (2 - both) / (1 + 2 * c)
        return float(np.minimum(np.log(both * (1 + 1 / (2 * y)) / whole), 0.0) @ self.count)

    def mirror(self) -> Law:
        return self


@dataclass(frozen=True, slots=True, eq=False)
class AtomsLaw(Law):
    """Finitely many losses, each with its mass under P; what is missing to 1 is the chance of an infinite loss."""

    loss: Floats
    mass: Floats

    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        turn = np.multiply.outer(z, self.loss)
        top = turn.real.max(axis=-1, initial=-np.inf)
        grown = np.exp(turn - top[..., None]) * self.mass
        total = grown.sum(axis=-1)
        off = (np.abs(grown) * (np.abs(turn) + np.abs(top)[..., None] + self.loss.size + 8)).sum(axis=-1)
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
        off = (self.loss.size + 24) * (whole + size) + 24 * heights * float(grown @ np.abs(self.loss))
        off += 8 * (float(grown @ np.abs(c * self.loss)) + abs(top) * whole)
        with np.errstate(divide="ignore"):
            value = top + np.log(total)
        relative = _UNIT * off / np.maximum(np.abs(total), 1e-300)
        return np.asarray(value), np.asarray(np.where(relative < 0.5, 2 * relative, np.inf))


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
        for law in self.laws:
            v, e = law.line(c, step, count)
            value, error = value + v, error + e
        return value, error

    def decay(self, c: float, y: float) -> float:
        return float(sum(law.decay(c, y) for law in self.laws))

    def calm(self, level: float) -> tuple[tuple[Law, ...], Law] | None:
        """By the first law of which a use is large: the ones before are calm then, the ones after are whole."""
        parts: list[Law] = []
        before: tuple[Law, ...] = ()
        for i, law in enumerate(self.laws):
            found = law.calm(level)
            if found is not None:
                parts += [SumLaw((*before, part, *self.laws[i + 1 :])) for part in found[0]]
                law = found[1]
            before = (*before, law)
        return (tuple(parts), SumLaw(before)) if parts else None

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


def _sizes(turn: Complex, rest: Floats) -> Floats:
    part = rest * np.expm1(-2 * turn)
    return np.asarray(
        8 * (np.abs(turn) + (1 + np.abs(turn)) * np.abs(part) / np.maximum(np.abs(1 + part), 1e-300)) + 1
    )
