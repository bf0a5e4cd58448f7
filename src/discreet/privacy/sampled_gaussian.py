"""The loss of Gaussian noise on a Poisson sample, by a trapezoid rule whose error is bounded.

With Q = N(0, σ²), u(x) = (2x − 1)/2σ² and l(x) = log(1 − q + q·e^u): when a record is removed the loss is l
under the mixture, so M(z) = E_Q[e^((1+z)l)]; when one is added it is −l under Q, so M(z) = E_Q[e^(−zl)].
Both integrands are analytic for |Im x| < πσ², which bounds the error of the rule and, by moving the path of
integration, |M| far up a vertical line. Proofs: docs/proofs/contour.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from discreet.privacy.law import Complex, Floats, Law

_UNIT = 2.0**-52
_TAIL = 9.5  # deviations of the normal law that are summed; what is left out is bounded and added
_MOST = 1e5  # points of the rule; a line that needs more is given up, as an infinite bound
_BLOCK = 1 << 18  # numbers of a block of the sum, to bound memory


@dataclass(frozen=True, slots=True)
class SampledGaussianLaw(Law):
    """`steps` uses of noise of deviation `sigma` on a Poisson sample at rate `rate`, sensitivity 1.

    `rate` lies strictly between 0 and 1; `removes` says whether P is the side that has the record.
    """

    sigma: float
    rate: float
    steps: int
    removes: bool

    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        shape, z = z.shape, np.ravel(z)
        c, y = float(z.real.max()), float(np.abs(z.imag).max())
        power = 1 + z if self.removes else -z
        low, high = self._ends(c, 12.0)
        if 8 * (high - low) / self.sigma > _MOST or (high - low) / self._step(c, y) > _MOST:
            return np.full(shape, math.inf + 0j), np.zeros(shape)
        x, loss, step = self._nodes(c, y)
        weight = np.exp(-x * x / (2 * self.sigma**2)) * (step / (self.sigma * math.sqrt(2 * math.pi)))
        excess = np.empty(z.size, dtype=np.complex128)
        error = np.empty(z.size)
        block = max(_BLOCK // x.size, 1)
        for i in range(0, z.size, block):
            part = slice(i, i + block)
            grown = np.expm1(np.multiply.outer(power[part].real, loss))
            turn = np.multiply.outer(power[part].imag, loss)
            half = np.sin(turn / 2)
            real = grown - 2 * (grown + 1) * half * half
            imaginary = (grown + 1) * np.sin(turn)
            excess[part] = real @ weight + 1j * (imaginary @ weight)
            size = (np.abs(grown) + (grown + 1) * np.minimum(np.abs(turn), 2.0)) @ weight
            bend = (np.abs(np.multiply.outer(power[part], loss)) * (grown + 1)) @ weight
            error[part] = _UNIT * ((x.size + 16) * size + 16 * bend)
        error += self._quadrature_error(z, step)
        value = self.steps * np.log1p(excess)
        relative = error / np.maximum(np.abs(1 + excess), 1e-300)
        total = self.steps * np.log1p(relative) + 8 * _UNIT * np.abs(value)
        return value.reshape(shape), total.reshape(shape)

    def decay(self, c: float, y: float) -> float:
        turns = np.geomspace(1e-3, 2.8, 12) * min(1.0, 12 / self.sigma)
        least = self._moved(c, np.array([0.0]), 0.0)[0]
        moved = self._moved(c, turns, y) - least + 1e-9  # far more than the rule is off
        return self.steps * min(float(np.min(moved)), 0.0)

    def _nodes(self, c: float, y: float) -> tuple[Floats, Floats, float]:
        step = min(self.sigma / 5, self._step(c, y))
        low, high = self._ends(c, _TAIL)
        x: Floats = np.asarray(low + step * np.arange(math.ceil((high - low) / step) + 1), dtype=np.float64)
        return x, self._loss(x), step

    def _loss(self, x: Floats) -> Floats:
        u = (2 * x - 1) / (2 * self.sigma**2)
        small = np.log1p(self.rate * np.expm1(np.minimum(u, 1.0)))
        large = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + np.maximum(u, 1.0))
        return np.where(u <= 1, small, large)

    def _turn(self) -> float:
        return min(2.0, 5 / self.sigma)

    def _step(self, c: float, y: float) -> float:
        """A step for which the rule is good to about 1e-17 of M(c) at the height y."""
        turn = self._turn()
        grown, least = self._grown(c)
        lost = max(grown - least, 0.0)
        return 2 * math.pi * self.sigma**2 * turn / (40 + lost + y * turn)

    def _grown(self, c: float) -> tuple[float, float]:
        """The logarithms of ∫|integrand| on the path moved by `_turn`, and on the real line."""
        both = self._moved(c, np.array([0.0, self._turn()]), 0.0)
        return float(both[1]), float(both[0])

    def _quadrature_error(self, z: Complex, step: float) -> Floats:
        """A bound on what the trapezoid rule and the cut tails are off."""
        c, turn = float(z.real.max()), self._turn()
        grown, _ = self._grown(c)
        rule = grown + np.abs(z.imag) * turn - 2 * math.pi * self.sigma**2 * turn / step
        cut = math.erfc(_TAIL / math.sqrt(2)) + self._cut(c)
        return np.asarray(4 * np.exp(rule) + cut)

    def _ends(self, c: float, deviations: float) -> tuple[float, float]:
        """Where the integrand is cut: it has at most this many deviations beyond the farthest peak."""
        far = deviations * self.sigma
        if self.removes:
            return -far, 1 + c + far
        return -far - (c if self._leans(c) else 0.0), far

    def _leans(self, c: float) -> bool:
        """Whether e^(−c·l) may move the mass of the add side to the left, by c at most."""
        return -c * math.log1p(-self.rate) > 1

    def _cut(self, c: float) -> float:
        """A bound on the integrand beyond the ends, where it may exceed the normal density.

        As 0 ≤ l' ≤ 1/σ², the integrand falls beyond an end that is d deviations beyond the farthest peak at
        least as fast as e^(−d·t/σ), t being the way from that end.
        """
        if not self.removes and not self._leans(c):
            return math.e * math.erfc(_TAIL / math.sqrt(2))
        low, high = self._ends(c, _TAIL)
        end, power = (high, 1 + c) if self.removes else (low, -c)
        edge = power * float(self._loss(np.array([end]))[0]) - end * end / (2 * self.sigma**2)
        return math.exp(edge) * 2 / _TAIL if edge < 700 else math.inf

    def _moved(self, c: float, turns: Floats, y: float) -> Floats:
        """The logarithm of ∫ |integrand at x ± iσ²·turn| dx, an upper bound of log |M(c + iv)| for each v ≥ y ≥ 0."""
        width = self.sigma / 8
        low, high = self._ends(c, 12.0)
        x = np.linspace(low, high, math.ceil((high - low) / width) + 1)
        u = (2 * x - 1) / (2 * self.sigma**2)
        t = turns[:, None]
        # w = 1 − q + q·e^(u + i·turn), scaled by e^−max(u, 0).
        scale = np.maximum(u, 0.0)
        real = (1 - self.rate) * np.exp(-scale) + self.rate * np.exp(u - scale) * np.cos(t)
        imaginary = self.rate * np.exp(u - scale) * np.sin(t)
        with np.errstate(divide="ignore"):
            size = np.log(np.hypot(real, imaginary)) + scale
        angle = np.arctan2(imaginary, real)
        power = 1 + c if self.removes else -c
        exponent = power * size - y * angle - x * x / (2 * self.sigma**2) + self.sigma**2 * t * t / 2
        top = exponent.max(axis=1)
        spacing = (x[1] - x[0]) / (self.sigma * math.sqrt(2 * math.pi))
        return np.asarray(top + np.log(np.exp(exponent - top[:, None]).sum(axis=1) * spacing))
