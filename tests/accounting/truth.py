"""Truth for DP-SGD accountants: the exact privacy curve of a composed, Poisson-subsampled Gaussian.

Nothing here comes from the package under test. For Q = N(0, s^2), r(x) = 1 - q + q exp((2x - 1) / 2s^2)
and x drawn from Q, the T-fold hockey-stick divergence is

    delta(eps) = (1 / 2 pi i) * integral over Re z = c of  m(z)^T exp(-z eps) / (z (z + 1)) dz,   c > 0,

with m(z) = E r^(1+z) when a record is removed and m(z) = E r^(-z) when one is added (the transform of
l -> (1 - exp(eps - l))+ is exp(-z eps) / (z (z + 1)), and m(z)^T is the moment generating function of
the privacy loss). Both integrals are trapezoid sums whose step is halved until the answers agree. The sums
over x run in fixed point (256 bits); everything else is mpmath at the same precision. One composition
(T = 1) has a closed form, used instead because m alone decays too slowly along the contour.

Run ``python tests/accounting/truth.py`` to write ``sgd_truth.json`` beside this file.
``python tests/accounting/truth.py few`` adds cases of two steps, whose transforms hardly decay.
``python tests/accounting/truth.py several`` adds cases of three steps, in doubles, to 12 digits.
``python tests/accounting/truth.py check`` compares the contour with three other routes to the answer.

References:
    Zhu, Dong and Wang, "Optimal Accounting of Differential Privacy via Characteristic Function" (2022),
    https://arxiv.org/abs/2106.08567
"""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import mpmath
import numpy as np
from mpmath import mp, mpf

BITS: Final = 256
X_AGREE: Final = mpf("1e-30")
Y_AGREE: Final = mpf("1e-25")
MAX_Y: Final = 6000
MAX_X: Final = 60_000
DIGITS: Final = 20

# (sigma, q, steps, delta); every number is the decimal that is written, not the nearest double.
CASES: Final = (
    ("1", "0.01", 1, "1e-5"),
    ("0.3", "1e-5", 1, "1e-9"),
    ("10", "0.5", 1, "1e-6"),
    ("1", "0.01", 1000, "1e-5"),
    ("1", "0.01", 10_000, "1e-5"),
    ("10", "0.1", 10_000, "1e-6"),
    ("2", "0.05", 20_000, "1e-8"),
    ("1", "0.5", 50, "1e-9"),
    ("1", "0.01", 100_000, "1e-5"),
    ("1", "0.01", 1000, "1e-12"),
    ("1", "0.01", 10_000, "1e-15"),
    ("5", "1e-3", 1_000_000, "1e-5"),
    ("0.7", "0.004", 5000, "1e-6"),
    ("0.5", "0.01", 1000, "1e-6"),
    ("1.1", "0.0042666666", 14_062, "1e-5"),
    ("4", "0.2", 500, "1e-7"),
    ("1", "1", 20, "1e-6"),
    ("0.8", "0.1", 100, "1e-10"),
)


# The transform of these hardly decays: one of the two steps is averaged over.
FEW: Final = (
    ("2.25269", "0.00017551", 2, "1e-12"),
    ("0.83754", "0.00017152", 2, "2e-6"),
    ("1.10051", "0.00005589", 2, "3e-12"),
    ("0.47972", "0.00012849", 2, "7e-5"),
    ("0.38943", "0.00002461", 2, "5e-15"),
    ("1.86843", "0.0101071", 2, "8e-15"),
    ("7.23876", "0.0003388", 2, "6e-12"),
    ("1.19166", "0.00585009", 2, "7e-10"),
    ("1.65388", "0.00006535", 2, "8e-11"),
    ("0.96563", "0.00031266", 2, "3e-7"),
)


# Three steps: all but one are averaged over, in doubles.
SEVERAL: Final = (
    (1.0, 1e-4, 3, 1e-9),
    (0.5, 3e-4, 3, 1e-6),
    (2.0, 1e-3, 3, 1e-12),
    (3.0, 1e-3, 3, 1e-9),
    (0.4, 5e-5, 3, 1e-12),
)


class NoDecayError(Exception):
    """No trustworthy answer (the integrand does not decay, or the steps do not settle): the case is left out."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One composed pair: noise ``sigma``, sampling rate ``q``, ``steps`` compositions, one direction."""

    sigma: mpf
    q: mpf
    steps: int
    remove: bool


def delta_of_one_step(pair: Pair, eps: mpf) -> mpf:
    """The closed form at T = 1: the loss is monotone in x, so the event is a half line."""
    s, q = pair.sigma, pair.q
    sign = 1 if pair.remove else -1
    ratio = (mp.exp(sign * eps) - 1 + q) / q
    if ratio <= 0:
        return 1 - mp.exp(eps) if pair.remove else mpf(0)
    t = s * s * mp.log(ratio) + mpf(1) / 2
    plain, shifted = mp.ncdf(-sign * t / s), mp.ncdf(-sign * (t - 1) / s)
    mixed = (1 - q) * plain + q * shifted
    return mixed - mp.exp(eps) * plain if pair.remove else plain - mp.exp(eps) * mixed


def epsilon_of_one_step(pair: Pair, delta: mpf) -> mpf:
    """Bisection on the closed form (decreasing in eps), down to the working precision."""
    low, high = mpf(0), mpf(1)
    if delta_of_one_step(pair, low) <= delta:
        raise NoDecayError("delta is already met at eps = 0")
    while delta_of_one_step(pair, high) > delta:
        high *= 2
    for _ in range(BITS // 2):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of_one_step(pair, middle) > delta else (low, middle)
    return low


def abscissa(pair: Pair, delta: mpf) -> float:
    """A c near the saddle point, in double precision: any c > 0 is right, this one is quick."""
    s, q, log_delta = float(pair.sigma), float(pair.q), float(mp.log(delta))

    def bound(c: float) -> float:
        x = np.linspace(-14 * s, (1 + c if pair.remove else 0) + 14 * s, 6000)
        log_r = np.logaddexp(np.log1p(-q) if q < 1 else -np.inf, np.log(q) + (2 * x - 1) / (2 * s * s))
        terms = -x * x / (2 * s * s) + (1 + c if pair.remove else -c) * log_r
        log_m = np.log(np.exp(terms - terms.max()).sum() * (x[1] - x[0]) / (s * np.sqrt(2 * np.pi)))
        return float((pair.steps * (log_m + terms.max()) - log_delta - np.log(c * (c + 1))) / c)

    grid = np.exp(np.linspace(np.log(0.02), np.log(2000), 120))
    return float(grid[int(np.argmin([bound(float(c)) for c in grid]))])


def fixed(values: list[mpf]) -> Any:
    """Fixed-point integers in an object array."""
    return np.array([int(mp.floor(mp.ldexp(v, BITS) + mpf(1) / 2)) for v in values], dtype=object)


def powers(pair: Pair, c: mpf, h: mpf, step: mpf, loose: float) -> tuple[list[mpf], mpf]:
    """m(c + ikh)^T / m(c)^T for k = 0, 1, ... until negligible, after agreement of ``step`` and 2 ``step``.

    The list is empty when the two trapezoid sums over x disagree, and its first entry is m(c)^T itself. The
    second result is the mean of the composed loss under the law tilted by c.
    """
    s, q = pair.sigma, pair.q
    wide = s * mp.sqrt(2 * (100 + (0 if pair.remove or q == 1 else -c * mp.log(1 - q))))
    if not pair.remove and q == 1:
        wide += c
    low, high = -wide, wide + (1 + c if pair.remove else 0)
    count = 2 * int((high - low) / (2 * step)) + 1
    if count > MAX_X:
        raise NoDecayError(f"needs {count} nodes in x")
    xs = [low + j * step for j in range(count)]
    logs = [mp.log(1 - q + q * mp.exp((2 * x - 1) / (2 * s * s))) for x in xs]
    real_part = 1 + c if pair.remove else -c
    weights = [mp.exp(-x * x / (2 * s * s) + real_part * v) for x, v in zip(xs, logs, strict=True)]
    total = mp.fsum(weights)
    re, im = fixed([w / total for w in weights]), np.array([0] * count, dtype=object)
    turns = [mp.cos_sin(h * v if pair.remove else -h * v) for v in logs]
    cos, sin = fixed([t[0] for t in turns]), fixed([t[1] for t in turns])
    out = [mp.power(total * step / (s * mp.sqrt(2 * mp.pi)), pair.steps)]
    mean = pair.steps * mp.fdot(weights, logs) / total * (1 if pair.remove else -1)
    calm = 0
    for k in range(MAX_Y):
        if k:
            re, im = (re * cos - im * sin) >> BITS, (re * sin + im * cos) >> BITS
        both = mp.mpc(mp.ldexp(int(re.sum()), -BITS), mp.ldexp(int(im.sum()), -BITS))
        half = mp.mpc(mp.ldexp(2 * int(re[::2].sum()), -BITS), mp.ldexp(2 * int(im[::2].sum()), -BITS))
        fine, coarse = both**pair.steps, half**pair.steps
        z = mp.mpc(c, k * h)
        scale = abs(c * (c + 1) / (z * (z + 1)))
        if abs(fine - coarse) * scale > X_AGREE * loose:
            return [], mean
        if k:
            out.append(fine)
        calm = calm + 1 if abs(fine) * scale < X_AGREE * loose else 0
        if calm > 10 + k // 4:  # the last fifth of the contour is negligible
            return out, mean
    raise NoDecayError(f"the integrand is still {mp.nstr(abs(fine) * scale, 3)} at y = {mp.nstr(k * h, 5)}")


def invert(values: list[mpf], c: mpf, h: mpf, eps: mpf, stride: int) -> tuple[mpf, mpf]:
    """delta(eps) and its derivative by the trapezoid sum over every ``stride``-th node."""
    value, slope = mpf(0), mpf(0)
    turn, phase = mp.expj(-h * stride * eps), mp.mpc(1)
    for k in range(0, len(values), stride):
        z = mp.mpc(c, k * h)
        term = phase / (z + 1) * (values[k] if k else mpf(1) / 2)
        value += (term / z).real
        slope -= term.real
        phase *= turn
    front = values[0] * mp.exp(-c * eps) * h * stride / mp.pi
    return front * value, front * slope


def solve(pair: Pair, delta: mpf, tilt: float = 1.0, loose: float = 1.0) -> tuple[mpf, str]:
    """The eps at which the composed pair reaches ``delta``, and a line on how it was found.

    ``tilt`` moves the contour (the answer must not move); ``loose`` > 1 loosens the agreement asked for.
    """
    if pair.steps == 1 and tilt == 1.0:
        return epsilon_of_one_step(pair, delta), "closed form"
    c = mpf(abscissa(pair, delta) * tilt)
    h = mp.pi * c / (66 + mp.log(1 / delta))
    step = min(pair.sigma / 4, 10 * pair.sigma**2 / 90)
    for _ in range(16):
        values, mean = powers(pair, c, h, step, loose)
        if not values:
            step /= 2
            continue
        # With few nodes that matter, the period 2 pi / h is shorter than the tilted law is wide: its aliases
        # add up to a constant, on which h and 2 h agree although both are wrong.
        if sum(abs(v) > mpf("1e-20") for v in values[1:]) < 16:
            h /= 2
            continue
        eps = (mp.log(values[0] / delta) - mp.log(c * (c + 1))) / c
        for _ in range(60):
            value, derivative = invert(values, c, h, eps, 1)
            move = mp.log(value / delta) * value / derivative if value > 0 else mpf(1)
            eps -= move
            if abs(move) < mpf("1e-40") * max(abs(eps), 1):
                break
        else:
            raise NoDecayError("Newton's method did not settle")
        if abs(mean - eps) > mp.pi / (4 * h):  # the tilted law must lie well inside one period around eps
            h /= 2
            continue
        fine, coarse = invert(values, c, h, eps, 1)[0], invert(values, c, h, eps, 2)[0]
        gap = abs(fine / coarse - 1)
        if gap < Y_AGREE * loose:
            note = f"c={mp.nstr(c, 5)} h={mp.nstr(h, 4)} nodes={len(values)} step={mp.nstr(step, 4)}"
            return eps, f"{note} gap={mp.nstr(gap, 2)}"
        h /= 2
    raise NoDecayError("the steps were halved sixteen times without agreement")


def average(pair: Pair, eps: mpf, degree: int) -> mpf:
    """delta(eps) of two steps: the closed form of one, averaged over the loss of the other.

    That closed form is flat, and its other derivatives are not, where the rest of eps is the least loss of a
    use: the integral is divided there, and each side has a rule for ends.
    """
    s, q = pair.sigma, pair.q

    def integrand(x: mpf) -> mpf:
        r = 1 - q + q * mp.exp((2 * x - 1) / (2 * s * s))
        loss = mp.log(r) if pair.remove else -mp.log(r)
        return mp.npdf(x, 0, s) * (r if pair.remove else 1) * delta_of_one_step(pair, eps - loss)

    low, high = -11 * s, 1 + 11 * s
    ends = {low, -4 * s, mpf(0), 4 * s, high}
    level = mp.exp(eps) / (1 - q) - 1 + q if pair.remove else mpf(0)
    if level > 0:
        at = s * s * mp.log(level / q) + mpf(1) / 2
        ends |= {x for x in (at - s * s, at, at + s * s) if low < x < high}
    return mp.quad(integrand, sorted(ends), maxdegree=degree)


def solve_few(pair: Pair, delta: mpf, degree: int) -> mpf:
    """The eps at which `average` reaches ``delta``."""
    high = 2 * epsilon_of_one_step(pair, delta / 4)
    return mpmath.findroot(
        lambda eps: mp.log(average(pair, eps, degree) / delta), (high / 100, high), solver="anderson", tol=mpf("1e-38")
    )


def write_few(path: Path) -> None:
    """Adds the cases of two steps to the table; two rules have to agree."""
    rows = [row for row in json.loads(path.read_text(encoding="utf-8")) if not row.get("few")]
    for sigma, q, steps, delta in FEW:
        row: dict[str, object] = {"sigma": float(sigma), "q": float(q), "steps": steps, "delta": float(delta)}
        with mpmath.workprec(160):
            pair = Pair(mpf(sigma), mpf(q), steps, True)
            eps = solve_few(pair, mpf(delta), 7)
            gap = average(pair, eps, 8) / mpf(delta) - 1
            if abs(gap) > mpf("1e-15"):
                print(sigma, q, steps, delta, "SKIPPED: another rule is off by", mp.nstr(gap, 3), flush=True)
                continue
            row["epsilon_remove"] = mp.nstr(eps, DIGITS - 5, min_fixed=-8, max_fixed=12)
            # The other way is only compared: twice one step at delta/4 is above two steps at delta/2.
            if 2 * epsilon_of_one_step(Pair(mpf(sigma), mpf(q), 1, False), mpf(delta) / 4) > eps:
                raise NoDecayError("adding may lose more than removing")
        print(sigma, q, steps, delta, row["epsilon_remove"], "gap", mp.nstr(gap, 3), flush=True)
        rows.append({**row, "few": True})
        path.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def one_left(rest: Any, s: float, q: float) -> Any:
    """delta of one step at eps = rest + log(1 - q), to relative accuracy; of a removal."""
    from scipy.special import erfcx, ndtr

    log_ratio = np.log(np.expm1(np.clip(rest, 1e-300, 700))) + math.log1p(-q) - math.log(q)
    t = s * s * log_ratio + 0.5
    a, b = (t - 1) / s, t / s
    # phi(a) = ratio * phi(b): where both are tails their difference is taken before the normal density.
    far = np.exp(-a * a / 2) / 2 * (erfcx(np.maximum(a, 0) / 2**0.5) - erfcx(np.maximum(b, 0) / 2**0.5))
    near = ndtr(-a) - np.exp(np.minimum(log_ratio, 700)) * ndtr(-b)
    return np.where(rest <= 0, -np.expm1(np.minimum(rest, 0) + math.log1p(-q)), q * np.where(a > 0, far, near))


def several(steps: int, rest: float, s: float, q: float, rule: tuple[int, int]) -> float:
    """delta of some removals at eps = rest + steps * log(1 - q), where log(1 - q) is the least loss of a use.

    One step after another is averaged over by Gauss's rule on panels, which become narrow towards where
    the others have nothing left of ``rest``: there the integrand has its only kink, though a flat one.
    """
    if steps == 1:
        return float(one_left(np.array([rest]), s, q)[0])
    order, panels = rule
    low, high = -9.5 * s, 1 + 11 * s
    ends = np.linspace(low, high, panels)
    if rest > 0:
        at = s * s * (math.log(math.expm1(rest)) + math.log1p(-q) - math.log(q)) + 0.5
        around = np.concatenate([s * 0.5 ** np.arange(1, 22), s * s * 2.0 ** np.arange(-4, 3)])
        ends = np.concatenate([ends, [at], at - around, at + around])
        ends = np.unique(ends[(ends >= low) & (ends <= high)])
    nodes, shares = np.polynomial.legendre.leggauss(order)
    middle, half = (ends[1:] + ends[:-1]) / 2, (ends[1:] - ends[:-1]) / 2
    x = (middle[:, None] + half[:, None] * nodes).ravel()
    loss = np.log1p(q / (1 - q) * np.exp((2 * x - 1) / (2 * s * s)))
    weight = (half[:, None] * shares).ravel() * np.exp(loss - x * x / (2 * s * s))
    weight *= (1 - q) / (s * math.sqrt(2 * math.pi))
    if steps == 2:
        return math.fsum(weight * one_left(rest - loss, s, q))
    each = zip(weight.tolist(), loss.tolist(), strict=True)
    return math.fsum(w * several(steps - 1, rest - v, s, q, rule) for w, v in each if w > 1e-32)


def write_several(path: Path) -> None:
    """Adds the cases of three steps to the table; another rule has to agree to 12 digits."""
    rows = [row for row in json.loads(path.read_text(encoding="utf-8")) if row.get("digits") is None]
    for s, q, steps, delta in SEVERAL:
        coarse, fine = (16, 24), (24, 33)

        def log_excess(eps: float, rule: tuple[int, int] = fine) -> float:
            value = several(steps, eps - steps * math.log1p(-q), s, q, rule)  # noqa: B023
            return math.log(value / delta)  # noqa: B023

        one = Pair(mpf(s), mpf(q), 1, True)
        start = float(epsilon_of_one_step(one, mpf(delta) / steps))  # below, and not far
        old, new = start * (1 - 1e-3), start
        at, then = log_excess(old, coarse), log_excess(new, coarse)
        for _ in range(12):
            old, new, at = new, new - then * (new - old) / (then - at), then
            then = log_excess(new, coarse)
            if abs(then) < 1e-13:
                break
        slope = (log_excess(new * (1 - 1e-4), coarse) - then) / (-1e-4 * new)
        gap = log_excess(new) / slope / new
        adding = steps * float(epsilon_of_one_step(Pair(mpf(s), mpf(q), 1, False), mpf(delta) / steps**2))
        print(s, q, steps, delta, repr(new), "gap", gap, "adding at most", adding, flush=True)
        if abs(gap) > 1e-12 or adding > new:
            print("SKIPPED", flush=True)
            continue
        row = {"sigma": s, "q": q, "steps": steps, "delta": delta, "epsilon_remove": f"{new:.12g}"}
        rows.append({**row, "few": True, "digits": 12})
        path.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def write_table(path: Path) -> None:
    """Solve every case, writing the table anew after each one so that a partial table is usable."""
    rows: list[dict[str, object]] = []
    for sigma, q, steps, delta in CASES:
        row: dict[str, object] = {"sigma": float(sigma), "q": float(q), "steps": steps, "delta": float(delta)}
        start = time.perf_counter()
        try:
            for name in ("remove", "add"):
                pair = Pair(mpf(sigma), mpf(q), steps, name == "remove")
                eps, note = solve(pair, mpf(delta))
                if steps > 1:
                    other = solve(pair, mpf(delta), tilt=0.8)[0]
                    if abs(other - eps) > mpf("1e-21") * abs(eps):
                        raise NoDecayError(f"another contour gives {mp.nstr(other, DIGITS)}")
                row[f"epsilon_{name}"] = mp.nstr(eps, DIGITS, min_fixed=-8, max_fixed=12)
                took = time.perf_counter() - start
                print(sigma, q, steps, delta, name, row[f"epsilon_{name}"], note, f"{took:.1f}s", flush=True)
        except NoDecayError as reason:
            print(sigma, q, steps, delta, "SKIPPED:", reason, flush=True)
            continue
        rows.append(row)
        path.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def check() -> None:
    """Three other routes: the Gaussian closed form, another contour, and two steps by a nested integral."""
    for remove in (True, False):
        name = "remove" if remove else "add"
        eps, _ = solve(Pair(mpf(1), mpf(1), 20, remove), mpf("1e-6"))
        mu = mp.sqrt(20)
        exact = mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu)
        print(name, "q = 1, relative gap to the Gaussian curve", mp.nstr(exact / mpf("1e-6") - 1, 3), flush=True)

        pair = Pair(mpf(1), mpf("0.01"), 1000, remove)
        gap = solve(pair, mpf("1e-5"))[0] - solve(pair, mpf("1e-5"), tilt=0.7)[0]
        print(name, "another contour, gap in eps", mp.nstr(gap, 3), flush=True)

        two, one = Pair(mpf(1), mpf("0.5"), 2, remove), Pair(mpf(1), mpf("0.5"), 1, remove)
        eps, _ = solve(two, mpf("1e-3"), loose=1e14)
        print(name, "two steps, relative gap", mp.nstr(nested(one, eps) / mpf("1e-3") - 1, 3), flush=True)


def nested(one: Pair, eps: mpf) -> mpf:
    """delta of two steps: the closed form of one, averaged over the loss of the other."""
    s, q = one.sigma, one.q

    def integrand(x: mpf) -> mpf:
        r = 1 - q + q * mp.exp((2 * x - 1) / (2 * s * s))
        loss = mp.log(r) if one.remove else -mp.log(r)
        return mp.npdf(x, 0, s) * (r if one.remove else 1) * delta_of_one_step(one, eps - loss)

    with mpmath.workprec(100):
        return mp.fsum(integrand(mpf(j) / 64) for j in range(-13 * 64, 14 * 64)) / 64


if __name__ == "__main__":
    mp.prec = BITS
    if sys.argv[1:] == ["check"]:
        check()
    elif sys.argv[1:] == ["few"]:
        write_few(Path(__file__).with_name("sgd_truth.json"))
    elif sys.argv[1:] == ["several"]:
        write_several(Path(__file__).with_name("sgd_truth.json"))
    else:
        write_table(Path(__file__).with_name("sgd_truth.json"))
