"""The loss of Gaussian noise on a Poisson sample, by a trapezoid rule whose error is bounded.

With Q = N(0, σ²), u(x) = (2x − 1)/2σ² and l(x) = log(1 − q + q·e^u): when a record is removed the loss is l
under the mixture, so M(z) = E_Q[e^((1+z)l)]; when one is added it is −l under Q, so M(z) = E_Q[e^(−zl)].
Both integrands are analytic for |Im x| < πσ², which bounds the error of the rule and, by moving the path of
integration, |M| far up a vertical line.

A use may be marked, with a chance that rises smoothly from 0 to 1 around some x. The law can be divided into the
part where some use is marked, which has lost much, and the part where none is. Proofs: docs/proofs/contour.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from discreet.privacy.law import Law
from discreet.privacy.nonuniform import Complex, Floats, line_sizes, line_sums, summed

_UNIT = 2.0**-52
_TAIL = 9.5  # deviations of the normal law that are summed; what is left out is bounded and added
_FAR_TAIL = 14.0
_MOST = 5e4  # points of the rule; a line that needs more is given up, as an infinite bound
_MOST_PRODUCTS = 3e7  # of points and heights
_GOOD = 40.0  # the rule is good to about e^-40 of M(c)
_LARGEST = 700.0  # e to this is a float
_LEAST, _MOST_SIGMA = 1e-3, 1e5  # a σ beyond is not answered
_SMALLEST = 1e-290  # what is kept below loses digits
_FARTHEST = 36.0  # deviations
_QUADRATURE = -27.0  # log of what the quadrature of a height may be off, as a share of M(c)


@dataclass(frozen=True, slots=True)
class _Window:
    """The normal law with each x kept with the chance Φ((at − x)/τ), or with one minus that where `above`."""

    at: float
    tau: float
    above: bool

    @property
    def whole(self) -> bool:
        return self.at == math.inf

    def kept(self, x: Floats) -> Floats:
        if self.whole:
            return np.ones_like(x)
        return _half_erfc((self.at - x if self.above else x - self.at) / (self.tau * math.sqrt(2)))

    def slip(self, x: Floats) -> Floats:
        """Units by which `kept` may be off, relatively."""
        return np.zeros_like(x) if self.whole else 4 * ((x - self.at) / self.tau) ** 2

    def vanished(self, x: Floats, exponent: Floats) -> float:
        """An upper bound of Σ e^exponent·kept where `kept` is below the range of floats; the exponent may be large."""
        if self.whole:
            return 0.0
        gone = self.kept(x) < _SMALLEST
        return float(np.exp(np.minimum(exponent + self.log_kept(x), 709.0))[gone].sum())

    def log_kept(self, x: Floats) -> Floats:
        """An upper bound of the logarithm of `kept`: log(erfc(t)/2) ≤ −t² where the logarithm is out of range."""
        if self.whole:
            return np.zeros_like(x)
        with np.errstate(divide="ignore"):
            inside = np.log(self.kept(x))
        far = np.maximum(self.at - x if self.above else x - self.at, 0.0) / (self.tau * math.sqrt(2))
        return np.where(far > 5, -far * far, inside)


@dataclass(frozen=True, slots=True)
class SampledGaussianLaw(Law):
    """`steps` uses of noise of deviation `sigma` on a Poisson sample at rate `rate`, sensitivity 1.

    `rate` lies strictly between 0 and 1; `removes` says whether P is the side that has the record. With marks
    around a finite `at`, the law has the part where some use has one if `marked`, else that where none has.
    """

    sigma: float
    rate: float
    steps: int
    removes: bool
    at: float = math.inf
    marked: bool = False

    def log_mgf(self, z: Complex) -> tuple[Complex, Floats]:
        flat = np.ravel(z)
        value, error = np.empty(flat.size, dtype=np.complex128), np.empty(flat.size)
        for i, at in enumerate(flat):
            v, e = self.line(float(at.real), float(at.imag), 2 if at.imag else 1)
            value[i], error[i] = v[-1], e[-1]
        return value.reshape(z.shape), error.reshape(z.shape)

    def line(self, c: float, step: float, count: int) -> tuple[Complex, Floats]:
        with np.errstate(all="ignore"):
            if not self.marked:
                return _checked(*_power(self.steps, *self._mean(self._calm, c, step, count)))
            three = (self._mean(window, c, step, count) for window in (_WHOLE, self._calm, self._marked))
            return _checked(*_difference(self.steps, *three))

    def decay(self, c: float, y: float) -> float:
        own, least = self._heights(_WHOLE if self.marked else self._calm, c, y)
        if not self.marked:
            # Where marks are missing M(c) is the quadrature's, which is as good as that of the height.
            return self.steps * min(float(np.logaddexp(own - least, _QUADRATURE)) + 1e-11, 0.0)
        value, error = self.line(c, 0.0, 1)
        if not value[0].real < math.inf:
            return 0.0
        calm, _ = self._heights(self._calm, c, y)
        marked, most = self._heights(self._marked, c, y)
        marked = float(np.logaddexp(marked, most + _QUADRATURE))
        both = float(np.logaddexp(max(own, calm), least + _QUADRATURE))
        rest = (self.steps - 1) * min(both + 1e-11, least + 1e-11)
        return min(math.log(self.steps) + marked + 1e-9 + rest - float(value[0].real - error[0]), 0.0)

    def calm(self, level: float) -> tuple[tuple[Law, ...], Law] | None:
        if not self.removes or self.at < math.inf or not 0 < level < _LARGEST:
            return None
        at = self.sigma**2 * math.log1p(math.expm1(level) / self.rate) + 0.5
        if not at < _FARTHEST * self.sigma:  # chances of marks are no floats
            return None
        return (replace(self, at=at, marked=True),), replace(self, at=at)

    def mirror(self) -> Law | None:
        return replace(self, removes=False) if self.removes else None  # the other way nothing would be gained

    def masses(self) -> tuple[float, float, float]:
        if self.at == math.inf:
            return 1.0, 1.0, 0.0
        wide = math.sqrt(2 * (self.sigma**2 + self._calm.tau**2))
        far = self.at / wide
        without = 0.5 * math.erfc(far)
        moved = 0.5 * math.erfc((self.at - 1) / wide)
        with_record = (1 - self.rate) * without + self.rate * moved
        kept = [self.steps * math.log1p(-chance) for chance in (with_record, without)]
        p, q = (-math.expm1(k) if self.marked else math.exp(k) for k in kept)
        off = 16 * _UNIT * (4 + far * far + 1 / wide**2 - min(kept))
        return (p, q, off) if self.removes else (q, p, off)

    @property
    def _calm(self) -> _Window:
        return replace(self._marked, above=False)

    @property
    def _marked(self) -> _Window:
        return _Window(self.at, 0.1 * min(self.sigma**2, self.sigma), True)

    def _mean(self, window: _Window, c: float, step: float, count: int) -> tuple[Complex, Floats]:
        """M − 1 of the kept part of one use, or M of what is kept above, and the error of it."""
        y = abs(step) * (count - 1)
        if not (
            c < 1e7 and _LEAST <= self.sigma <= _MOST_SIGMA and self.rate > 1e-30
        ):  # no use for such a c but to be refused
            return np.full(count, math.inf + 0j), np.full(count, math.inf)
        low, high = self._ends(c, window)
        spacing, rule = self._rule(window, c, y, low, high)
        if not spacing > 0:
            return np.full(count, math.inf + 0j), np.full(count, math.inf)
        size = (high - low) / spacing
        if not size < _MOST or size * count > _MOST_PRODUCTS:
            return np.full(count, math.inf + 0j), np.full(count, math.inf)
        # Multiples of a spacing of few digits are exact.
        x: Floats = np.asarray(
            spacing * (math.floor(low / spacing) + np.arange(math.ceil(size) + 2)), np.float64
        )
        loss, slip = self._loss(x), self._slip(x)
        power = 1 + c if self.removes else -c
        kept = window.kept(x) * (spacing / (self.sigma * math.sqrt(2 * math.pi)))
        normal = -x * x / (2 * self.sigma**2)
        grows = power * loss
        if float((grows + normal + window.log_kept(x)).max()) > _LARGEST:
            return np.full(count, math.inf + 0j), np.full(count, math.inf)
        tilted = np.exp(np.minimum(grows + normal, _LARGEST)) * kept
        off = (
            8 - 2 * normal + window.slip(x)
        )  # units by which a term may be off, relatively, apart from its growth
        if not window.above:
            lost = 0.5 * math.erfc(window.at / math.sqrt(2 * (self.sigma**2 + window.tau**2)))
            plain = np.exp(normal) * kept
            grown = np.where(grows > 1, tilted - plain, plain * np.expm1(np.minimum(grows, 1.0)))
            base, base_off = (
                math.fsum(grown) - lost,
                float(np.where(grows > 1, tilted + plain, np.abs(grown)) @ off),
            )
            base_off += (24 + 8 * window.at**2 / self.sigma**2) * lost if lost else 0.0
        else:
            base, base_off = math.fsum(tilted), float(tilted @ off)
        slipped = abs(power) * slip + 2 * np.abs(grows)
        base_off += float(slipped @ tilted) + 4 * abs(base)
        base_off += window.vanished(x, grows + normal) * spacing / self.sigma / _UNIT
        sums = line_sums(tilted, loss if self.removes else -loss, step, count)
        heights: Floats = np.asarray(abs(step) * np.arange(count), dtype=np.float64)
        sums_off = line_sizes(tilted * (off + slipped + summed(x.size)), loss, heights)
        error = _UNIT * (base_off + sums_off + heights * float((slip + 4 * np.abs(loss)) @ tilted))
        return base + sums, error + rule + self._cut(window, c, low, high)

    def _loss(self, x: Floats) -> Floats:
        u = (2 * x - 1) / (2 * self.sigma**2)
        part = self.rate * np.expm1(np.minimum(u, 1.0))
        large = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + u)
        return np.where((u <= 1) & (part > -0.5), np.log1p(np.maximum(part, -0.5)), large)

    def _slip(self, x: Floats) -> Floats:
        """Units by which `_loss` may be off."""
        u = (2 * x - 1) / (2 * self.sigma**2)
        few = 4 + 2 * abs(math.log(self.rate)) + 5 * np.abs(u)
        return np.asarray(self._share(x) * few + 6 * np.abs(self._loss(x)) - 3 * math.log1p(-self.rate))

    def _ends(self, c: float, window: _Window) -> tuple[float, float]:
        """Where the integrand is cut: beyond, it falls at least as fast as the normal law beyond _TAIL."""
        far = self._far(window) * self.sigma
        if self.removes:
            low, high = -far, 1 + c + far
            if (
                1 + c > far
            ):  # the peak may be far to the left of 1 + c: look where the integrand falls for good
                x = np.linspace(low, high, 600)
                share = self._share(x)
                g = (1 + c) * self._loss(x) - x * x / (2 * self.sigma**2)
                falls = x[:-1] - (1 + c) * share[1:] >= far
                falls &= g[:-1] < g.max() - _TAIL * _TAIL / 2
                rises = np.flatnonzero(~falls)
                high = float(x[min(int(rises[-1]) + 1 if rises.size else 0, x.size - 1)])
        else:
            low, high = -far, far
            if self._leans(c):
                x = -np.geomspace(far + c, far, 600)  # the peak may be far to the right of −c
                g = -c * self._loss(x) - x * x / (2 * self.sigma**2)
                falls = (-x - c * self._share(x) >= far) & (g < g.max() - _TAIL * _TAIL / 2)
                rises = np.flatnonzero(~falls)
                low = float(x[max(int(rises[0]) - 1 if rises.size else x.size - 1, 0)])
        if window.whole:
            return low, high
        if window.above:
            return max(low, min(window.at - self._far(window) * window.tau, high - self.sigma)), high
        return low, min(high, max(window.at + self._reach(c, window) * window.tau, low + self.sigma))

    def _far(self, window: _Window) -> float:
        """Deviations that are summed; more where what is kept may be tiny and nothing raises it."""
        return _TAIL if self.removes or window.whole else _FAR_TAIL

    def _reach(self, c: float, window: _Window) -> float:
        """The τ beyond the window at which the integrand is cut: from there on it falls faster than e^(−_TAIL·t/τ)."""
        far = self._far(window)
        if not self.removes:
            return far
        steepest = (1 + c) * window.tau / self.sigma**2
        d = far + steepest * np.append(0.0, np.geomspace(1e-3, 1.0, 60))
        x = window.at + d * window.tau
        g = (1 + c) * self._loss(x) - d * d / 2
        start = (1 + c) * float(self._loss(np.array([window.at]))[0])
        falls = (d[:-1] - steepest * self._share(x)[1:] >= far) & (g[:-1] < start - far * far / 2)
        rises = np.flatnonzero(~falls)
        return float(d[min(int(rises[-1]) + 1 if rises.size else 0, d.size - 1)])

    def _share(self, x: Floats) -> Floats:
        """σ² l', which rises from 0 to 1."""
        u = (2 * x - 1) / (2 * self.sigma**2)
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(math.log1p(-self.rate) - math.log(self.rate) - u)))

    def _leans(self, c: float) -> bool:
        """Whether e^(−c·l) may move the mass of the add side to the left, by c at most."""
        return -c * math.log1p(-self.rate) > 1

    def _cut(self, window: _Window, c: float, low: float, high: float) -> float:
        """A bound on what lies beyond the ends.

        As 0 ≤ l' ≤ 1/σ², the integrand falls beyond an end that is d deviations beyond the farthest peak at
        least as fast as e^(−d·t/σ), t being the way from that end. d deviations τ beyond the ends of the window
        at most e^(−d²/2) is kept.
        """
        at = self._loss(np.array([low, high]))
        tail = math.erfc(self._far(window) / math.sqrt(2))

        def edge(end: float, exponent: float) -> float:
            inside = exponent - end * end / (2 * self.sigma**2)
            return math.exp(inside) * 2 / _TAIL if inside < _LARGEST else math.inf

        if not self.removes:
            most = math.exp(min(-c * math.log1p(-self.rate), _LARGEST))  # of e^(−c·l)
            right = math.exp(min(max(-c * float(at[1]), 0.0), _LARGEST)) * tail
            left = edge(low, -c * float(at[0])) if self._leans(c) else math.e * tail
            return right + left + (0.0 if window.whole else most * tail)
        if window.whole:
            return tail + edge(high, (1 + c) * float(at[1]))
        if window.above:
            return tail * (1 + math.exp(min((1 + c) * float(at[0]), _LARGEST))) + edge(
                high, (1 + c) * float(at[1])
            )
        reach = self._reach(c, window)
        if high < window.at + reach * window.tau:
            return tail + edge(high, (1 + c) * float(at[1]))
        return tail + edge(high, (1 + c) * float(at[1]) - reach * reach / 2)

    def _rule(self, window: _Window, c: float, y: float, low: float, high: float) -> tuple[float, float]:
        """A spacing for which the rule is good to about e^-40 of M(c) up to the height y, and its error."""
        turns = min(1.0, 5 / self.sigma) * np.array([0.0, 0.05, 0.2, 0.5, 0.9, 1.4, 2.0])
        grown = self._moved(window, c, turns if y else turns[[0, 4, 5, 6]], -y)
        turns = turns if y else turns[[0, 4, 5, 6]]
        lost = np.maximum(grown[1:] - grown[0], 0.0)
        spacings = 2 * math.pi * self.sigma**2 * turns[1:] / (_GOOD + 3 + lost)
        best = int(np.argmax(spacings))
        spacing = _few_digits(min(float(spacings[best]), self.sigma / 4, (high - low) / 8))
        rule = grown[best + 1] - 2 * math.pi * self.sigma**2 * turns[best + 1] / spacing
        return spacing, 32 * math.exp(min(float(rule), _LARGEST))

    def _heights(self, window: _Window, c: float, y: float) -> tuple[float, float]:
        """Upper bounds of log |M(c + iv)| for all v ≥ y, and log M(c)."""
        turns = np.geomspace(1e-3, 2.8, 12) * min(1.0, 12 / self.sigma)
        least = float(self._moved(window, c, np.array([0.0]), 0.0)[0])
        return min(float(np.min(self._moved(window, c, turns, y))), least), least

    def _moved(self, window: _Window, c: float, turns: Floats, y: float) -> Floats:
        """The logarithm of ∫ |integrand at x ± iσ²·turn| dx: an upper bound of log |M(c + iv)| for each v ≥ y.

        With y < 0 the path is moved to the worse side, and the bound is of all v ≤ |y|.
        """
        # Far on the worse side the factor e^|y|·angle outweighs that little is kept outside the window.
        wide = _WHOLE if y < -30 else window
        low, high = self._ends(c, wide)
        low, high = low - 3 * self.sigma, high + 3 * self.sigma
        width = min(self.sigma / 8, max(self.sigma**2 / 16, (high - low) / 8000))
        x = np.linspace(low, high, math.ceil(min((high - low) / width, _MOST)) + 1)
        u = (2 * x - 1) / (2 * self.sigma**2)
        t = turns[:, None]
        # w = 1 − q + q·e^(u + i·turn), scaled by e^−max(u, 0).
        scale = np.maximum(u, 0.0)
        one, two = (1 - self.rate) * np.exp(-scale), self.rate * np.exp(u - scale)
        real, imaginary = one + two * np.cos(t), two * np.sin(t)
        with np.errstate(divide="ignore"):
            size = np.log(np.hypot(real, imaginary)) + scale
        kept = window.log_kept(x)
        power = 1 + c if self.removes else -c
        exponent = power * size + (kept - x * x / (2 * self.sigma**2)) + self.sigma**2 * t * t / 2
        if not window.whole:
            exponent += self.sigma**4 * t * t / (2 * window.tau**2)
        if y:
            angle = np.arctan2(imaginary, real)
            if y < 0:  # the largest in the cell to the right: the integrand may be steep there
                angle[:, :-1] = angle[:, 1:]
            exponent -= y * angle
        top = exponent.max(axis=1)
        spacing = (x[1] - x[0]) / (self.sigma * math.sqrt(2 * math.pi))
        return np.asarray(top + np.log(np.exp(exponent - top[:, None]).sum(axis=1) * spacing))


def _few_digits(x: float) -> float:
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(mantissa * 2**20), exponent - 20)


_WHOLE = _Window(math.inf, 1.0, False)


def _log1p(m: Complex) -> Complex:
    """log(1 + m) to relative accuracy for small m, which the complex np.log1p does not have."""
    x, y = m.real, m.imag
    out = np.empty(m.shape, dtype=np.complex128)
    small = np.abs(x) + np.abs(y) < 0.5
    near = np.where(small, 2 * x + x * x + y * y, 0.0)
    out.real = np.where(small, 0.5 * np.log1p(near), np.log(np.hypot(1 + x, y)))
    out.imag = np.arctan2(y, 1 + x)
    return out


def _power(steps: int, m: Complex, dm: Floats) -> tuple[Complex, Floats]:
    """Log (1 + m)^T and its error; where nothing is left of its digits, the most that it may be, off by itself."""
    value = steps * _log1p(m)
    size = np.abs(1 + m)
    off = steps * np.log1p(dm / np.maximum(size, 1e-300)) + 16 * _UNIT * np.abs(value)
    lost = ~(off < 1)
    value = np.where(lost, steps * np.log(size + dm) * (1 + 0j), value)
    return np.asarray(value), np.asarray(np.where(lost, math.log(3) + 16 * _UNIT * np.abs(value), off))


def _difference(
    steps: int,
    whole: tuple[Complex, Floats],
    calm: tuple[Complex, Floats],
    marked: tuple[Complex, Floats],
) -> tuple[Complex, Floats]:
    """log((1 + w)^T − (1 + a)^T), where b = w − a is known as well; each with its error."""
    (w, dw), (a, da), (b, db) = whole, calm, marked
    (one, rel_w), (two, rel_a) = _power(steps, w, dw), _power(steps, a, da)
    size_a = np.maximum(np.abs(1 + a), 1e-300)
    top = np.maximum(one.real, two.real)
    e1, e2 = np.exp(one - top), np.exp(two - top)
    plain = e1 - e2
    plain_error = np.abs(e1) * np.expm1(rel_w) + np.abs(e2) * np.expm1(rel_a) + 4 * _UNIT
    # Where the two are near each other: (1 + a)^T (e^r − 1), r = T log(1 + b/(1 + a)).
    ratio = b / (1 + a)
    off = db / size_a + np.abs(ratio) * (da / size_a + 8 * _UNIT)
    r = steps * _log1p(ratio)
    r_off = steps * off / np.maximum(1 - np.abs(ratio) - off, 1e-300) + 8 * _UNIT * np.abs(r)
    near = e2 * np.expm1(r)
    near_error = np.abs(near) * (np.expm1(rel_a) + 8 * _UNIT) + np.abs(e2) * np.exp(np.abs(r)) * np.expm1(
        r_off
    )
    use = (np.abs(ratio) + off < 0.5) & (near_error < plain_error)
    value, error = np.where(use, near, plain), np.where(use, near_error, plain_error)
    value = np.where(np.abs(value) > error, value, error + 1e-300)  # at most twice the error away
    return np.asarray(top + np.log(value)), np.asarray(np.log1p(2 * error / np.abs(value)) + 8 * _UNIT)


def _checked(value: Complex, error: Floats) -> tuple[Complex, Floats]:
    """Numbers that left the range of floats, as an infinite bound."""
    good = np.isfinite(error) & ~np.isnan(value) & (value.real < math.inf)
    return np.where(good, value, math.inf + 0j), np.where(good, error, 0.0)


def _half_erfc(t: Floats) -> Floats:
    return 0.5 * np.fromiter(map(math.erfc, t.tolist()), dtype=np.float64, count=t.size)
