"""The loss of one use of Gaussian noise on a Poisson sample, at many points, and powers of transforms of it.

With u(x) = (2x − 1)/2σ² the loss is l(x) = log(1 − q + q·e^u). Errors are counted in units of 2⁻⁵².
Proofs: docs/proofs/contour.md.
"""

from __future__ import annotations

import math

import numpy as np

from discreet.privacy.law import Law
from discreet.privacy.nonuniform import Complex, Floats

UNIT = 2.0**-52

_COUNTS = 0.3  # of all uses: what so few of them have does not count where it is rough
_PHASE = 3.0  # between points: with more, sums say nothing
_RISES = 0.3  # of a logarithm that only falls where it is well known
_SLOWEST = 0.15


def losses(sigma: float, rate: float, x: Floats) -> Floats:
    """l(x), at rising x."""
    u = (2 * x - 1) / (2 * sigma**2)
    end = int(np.searchsorted(u, 1.0, "right"))
    part = rate * np.expm1(u[:end])
    first = int(np.searchsorted(part, -0.5, "right"))
    if first == 0 and end == u.size:
        return np.asarray(np.log1p(part))
    out = np.empty(u.size)
    out[first:end] = np.log1p(part[first:])
    low, high = math.log1p(-rate), math.log(rate)
    out[:first] = np.logaddexp(low, high + u[:first])
    out[end:] = np.logaddexp(low, high + u[end:])
    return out


def loss_slips(sigma: float, rate: float, x: Floats, loss: Floats) -> Floats:
    """Units by which `losses` may be off, at rising x."""
    u = (2 * x - 1) / (2 * sigma**2)
    few = 4 + 2 * abs(math.log(rate)) + 5 * np.abs(u)
    summed = shares(sigma, rate, x) * few - 3 * math.log1p(-rate)
    if rate < 0.25:  # there q(e^u − 1) > −½, and where u ≤ 1 no logarithms are added
        summed[: int(np.searchsorted(u, 0.99))] = 0.0
    return np.asarray(summed + 6 * np.abs(loss))


def shares(sigma: float, rate: float, x: Floats) -> Floats:
    """σ² l', which rises from 0 to 1."""
    u = (2 * x - 1) / (2 * sigma**2)
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(math.log1p(-rate) - math.log(rate) - u)))


def few_digits(x: float) -> float:
    """At most x, of 20 binary digits: its multiples are exact."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(mantissa * 2**20), exponent - 20)


def log1p(m: Complex) -> Complex:
    """log(1 + m) to relative accuracy for small m, which the complex np.log1p does not have."""
    x, y = m.real, m.imag
    out = np.empty(m.shape, dtype=np.complex128)
    small = np.abs(x) + np.abs(y) < 0.5
    near = np.where(small, 2 * x + x * x + y * y, 0.0)
    out.real = np.where(small, 0.5 * np.log1p(near), np.log(np.hypot(1 + x, y)))
    out.imag = np.arctan2(y, 1 + x)
    return out


def power(steps: int, m: Complex, dm: Floats) -> tuple[Complex, Floats]:
    """Log (1 + m)^T and its error; where nothing is left of its digits, the most that it may be, off by itself."""
    value = steps * log1p(m)
    size = np.abs(1 + m)
    off = steps * np.log1p(dm / np.maximum(size, 1e-300)) + 16 * UNIT * np.abs(value)
    lost = ~(off < 1)
    value = np.where(lost, steps * np.log(size + dm) * (1 + 0j), value)
    return np.asarray(value), np.asarray(np.where(lost, math.log(3) + 16 * UNIT * np.abs(value), off))


def difference(
    steps: int, whole: tuple[Complex, Floats], calm: tuple[Complex, Floats], marked: tuple[Complex, Floats]
) -> tuple[Complex, Floats]:
    """log((1 + w)^T − (1 + a)^T), where b = w − a is known as well; each with its error."""
    (w, dw), (a, da), (b, db) = whole, calm, marked
    (one, rel_w), (two, rel_a) = power(steps, w, dw), power(steps, a, da)
    size_a = np.maximum(np.abs(1 + a), 1e-300)
    top = np.maximum(one.real, two.real)
    e1, e2 = np.exp(one - top), np.exp(two - top)
    plain = e1 - e2
    plain_error = np.abs(e1) * np.expm1(rel_w) + np.abs(e2) * np.expm1(rel_a) + 4 * UNIT
    # Where the two are near each other: (1 + a)^T (e^r − 1), r = T log(1 + b/(1 + a)).
    ratio = b / (1 + a)
    off = db / size_a + np.abs(ratio) * (da / size_a + 8 * UNIT)
    r = steps * log1p(ratio)
    r_off = steps * off / np.maximum(1 - np.abs(ratio) - off, 1e-300) + 8 * UNIT * np.abs(r)
    near = e2 * np.expm1(r)
    near_error = np.abs(near) * (np.expm1(rel_a) + 8 * UNIT) + np.abs(e2) * np.exp(np.abs(r)) * np.expm1(r_off)
    use = (np.abs(ratio) + off < 0.5) & (near_error < plain_error)
    value, error = np.where(use, near, plain), np.where(use, near_error, plain_error)
    value = np.where(np.abs(value) > error, value, error + 1e-300)  # at most three times the error away
    return np.asarray(top + np.log(value)), np.asarray(np.log1p(3 * error / np.abs(value)) + 8 * UNIT)


def fallen(steps: int, exponent: Floats, loss: Floats, y: Floats) -> Floats:
    """About log |M(c + iy)/M(c)| at rising y, from the logarithms of the terms of one use at some points.

    Where the points are too far apart for a height, it goes on as a power of the height. Unknown, that is −∞, where
    it rises again: where a few points decide it, where it ends is not to be told from some heights.
    """
    weight = np.exp(exponent - exponent.max())
    known = weight > 1e-14
    weight = weight[known] / weight.sum()
    loss = loss[known]
    apart = float(np.abs(np.diff(loss))[steps * weight[1:] > _COUNTS].max(initial=0.0))
    near = max(int(np.searchsorted(y, _PHASE / apart)), 2) if apart else y.size
    turn = np.multiply.outer(y[:near], loss)
    size = np.hypot(1 + (np.cos(turn) - 1) @ weight, np.sin(turn) @ weight)
    found = np.minimum(steps * np.log(np.maximum(size, 1e-300)), -1e-9)
    if bool((np.diff(found) > _RISES).any()):
        return np.full(y.size, -math.inf)
    if near >= y.size:
        return np.asarray(found)
    last, before = -float(found[-1]), -float(found[-2])
    power = min(max(math.log(last / before) / math.log(y[near - 1] / y[near - 2]), _SLOWEST), 2.0)
    return np.append(found, -last * (y[near:] / y[near - 1]) ** power)


def checked(value: Complex, error: Floats) -> tuple[Complex, Floats]:
    """Numbers that left the range of floats, as an infinite bound."""
    good = np.isfinite(error) & ~np.isnan(value) & (value.real < math.inf)
    return np.where(good, value, math.inf + 0j), np.where(good, error, 0.0)


def half_erfc(t: Floats) -> Floats:
    """Φ(−√2·t)."""
    out = np.where(t < 0, 1.0, np.where(np.isnan(t), math.nan, 0.0))
    some = (t > -6.0) & (t < 27.5)  # beyond, it is that number to the last digit
    out[some] = 0.5 * np.fromiter(map(math.erfc, t[some].tolist()), dtype=np.float64, count=int(some.sum()))
    return out


def one_by_one(law: Law, z: Complex) -> tuple[Complex, Floats]:
    """`log_mgf` of a law that knows lines only: each z is the second point of a line of its own."""
    flat = np.ravel(z)
    value, error = np.empty(flat.size, dtype=np.complex128), np.empty(flat.size)
    for i, at in enumerate(flat):
        v, e = law.line(float(at.real), float(at.imag), 2 if at.imag else 1)
        value[i], error[i] = v[-1], e[-1]
    return value.reshape(z.shape), error.reshape(z.shape)
