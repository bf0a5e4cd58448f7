"""The true ε (or noise) of every case with 256 bits, by code that shares nothing with the package.

    python -m benchmarks.accounting_truth          writes accounting_truth.json (minutes)
    python -m benchmarks.accounting_truth check    compares the mixture's formulas with integrals of its densities

DP-SGD is inverted along a contour (`tests/accounting/truth.py`, whose `check` compares it with three other
routes); so is the mixture, whose moment generating functions have closed forms; Gaussian noise has a closed
form itself; and repeated randomized response is a binomial sum. Every inversion is done along two contours,
which have to agree to 20 digits. Two cases have no entry: the transform of few and rarely sampled steps hardly
decays (W1-short), and the exact curve of samples without replacement is not known (W6).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import mpmath
from mpmath import mp, mpf

from benchmarks.accounting_cases import CASES, Case, mixture
from tests.accounting import truth

PATH = Path(__file__).with_name("accounting_truth.json")
COMMAND = "python -m benchmarks.accounting_truth"
DIGITS = 20
UNKNOWN = ("W1-short", "W6")
_NODES = 4000


class Disagreement(Exception):
    """Two contours gave different answers."""


def sgd(case: Case, delta: mpf, *, sigma: mpf | None = None, check: bool = True) -> mpf:
    """The larger of both directions' ε."""
    found = []
    for remove in (True, False):
        pair = truth.Pair(mpf(case.sigma) if sigma is None else sigma, mpf(case.rate), case.steps, remove)
        found.append(truth.solve(pair, delta)[0])
        if check and case.steps > 1:
            _agree(found[-1], truth.solve(pair, delta, tilt=0.8)[0])
    return max(found)


def noise(case: Case, delta: mpf) -> mpf:
    """The sigma at which ε is `case.epsilon`, by the secant method on logarithms."""
    target = mp.log(mpf(case.epsilon))

    def gap(log_sigma: mpf) -> mpf:
        return mp.log(sgd(case, delta, sigma=mp.exp(log_sigma), check=False)) - target

    root = mpmath.findroot(gap, (mpf(0), mpf("0.1")), solver="secant", tol=mpf("1e-44"), maxsteps=40)
    return mp.exp(root)


def gaussian(case: Case, delta: mpf) -> mpf:
    """Balle and Wang 2018, Theorem 8, for the one Gaussian use that the steps are together."""
    mu = mp.sqrt(case.steps) / mpf(case.sigma)

    def curve(eps: mpf) -> mpf:
        return mp.ncdf(mu / 2 - eps / mu) - mp.exp(eps) * mp.ncdf(-mu / 2 - eps / mu)

    return _bisect(curve, delta)


def response(case: Case, delta: mpf) -> mpf:
    """The binomial sum: k of the n answers lie on the one side, and the loss is (2k − n)ε₀."""
    n, e = case.steps, mpf(case.epsilon)
    odds = mp.exp(e) / (1 + mp.exp(e))
    masses = [mp.binomial(n, k) * odds**k * (1 - odds) ** (n - k) for k in range(n + 1)]

    def curve(eps: mpf) -> mpf:
        return mp.fsum(m * -mp.expm1(eps - (2 * k - n) * e) for k, m in enumerate(masses) if (2 * k - n) * e > eps)

    return _bisect(curve, delta)


def mixed(case: Case, delta: mpf) -> mpf:
    """The inversion of the product of the moment generating functions; all pairs are symmetric.

    With w = z + 1/2 a Laplace loss has e^(−ε/2)(cosh wε + sinh(wε)/2w), randomized response, and so discrete
    Laplace of shift 1, cosh(wε)/cosh(ε/2), and a Gaussian exp(z(z + 1)/2σ²).
    """
    answers = [_invert(case, delta, tilt) for tilt in ("1", "0.8")]
    _agree(*answers)
    return answers[0]


def _invert(case: Case, delta: mpf, tilt: str) -> mpf:
    logs = _log_mgf(list(mixture(case)))
    c = mpf(tilt) * _saddle(logs, delta)
    h = mp.pi * c / (66 + mp.log(1 / delta))
    scale = mp.re(logs(mp.mpc(c)))
    values = [mp.exp(scale)]
    while len(values) < 3 or abs(values[-1]) > mpf("1e-40"):
        values.append(mp.exp(logs(mp.mpc(c, len(values) * h)) - scale))
        if len(values) > _NODES:
            raise Disagreement(f"{case.name}: the integrand does not decay")
    eps = (scale - mp.log(delta * c * (c + 1))) / c
    for _ in range(60):
        value, slope = truth.invert(values, c, h, eps, 1)
        move = mp.log(value / delta) * value / slope
        eps -= move
        if abs(move) < mpf("1e-40"):
            break
    fine, coarse = (truth.invert(values, c, h, eps, stride)[0] for stride in (1, 2))
    if abs(fine / coarse - 1) > mpf("1e-22"):
        raise Disagreement(f"{case.name}: half of the nodes give another answer")
    return eps


def _log_mgf(parts: list[tuple[str, float, int]]) -> Callable[[mpmath.mpc], mpmath.mpc]:
    """Log m(z), up to multiples of 2πi."""
    gauss, others = mpf(0), []
    for family, x, n in parts:
        if family == "gaussian":
            gauss += n / (2 * mpf(repr(x)) ** 2)
        else:
            others.append((family == "laplace", mpf(repr(x)), n))
    front = -mp.fsum(n * (e / 2 if laplace else mp.log(mp.cosh(e / 2))) for laplace, e, n in others)

    def logs(z: mpmath.mpc) -> mpmath.mpc:
        w, product, power = z + mpf(1) / 2, mp.mpc(1), mpf(0)
        for laplace, e, n in others:
            up = mp.exp(w * e)
            down = 1 / up
            product *= ((up + down + (up - down) / (2 * w) if laplace else up + down) / 2) ** n
            if not mpf("1e-1000000") < abs(product) < mpf("1e1000000"):
                power += mp.log(product)
                product = mp.mpc(1)
        return front + gauss * z * (z + 1) + power + mp.log(product)

    return logs


def _saddle(logs: Callable[[mpmath.mpc], mpmath.mpc], delta: mpf) -> mpf:
    """A c near the best one, by golden section on the Chernoff bound; any c is right, this one is quick."""
    with mpmath.workprec(60):
        low, high = mpf("-3"), mpf("6")  # of log c
        for _ in range(14):
            one, two = low + (high - low) * mpf("0.382"), low + (high - low) * mpf("0.618")
            values = [(mp.re(logs(mp.mpc(mp.exp(t)))) - mp.log(delta)) / mp.exp(t) for t in (one, two)]
            low, high = (low, two) if values[0] < values[1] else (one, high)
        return mp.exp((low + high) / 2)


def _bisect(curve: Callable[[mpf], mpf], delta: mpf) -> mpf:
    low, high = mpf(0), mpf(1)
    while curve(high) > delta:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if curve(middle) > delta else (low, middle)
    return low


def _agree(one: mpf, other: mpf) -> None:
    if abs(one - other) > mpf("1e-21") * max(abs(one), mpf("1e-9")):
        raise Disagreement(f"two contours: {mp.nstr(one, 25)} and {mp.nstr(other, 25)}")


def check() -> None:
    """Each family's moment generating function against E (p/q)^z under p, from the masses and densities."""
    z, x = mp.mpc("1.7", "2.3"), mpf("0.25")

    def laplace(t: mpf) -> mpmath.mpc:
        return mp.exp(-x * abs(t)) * x / 2 * mp.exp(z * x * (abs(t - 1) - abs(t)))

    def gaussian(t: mpf) -> mpmath.mpc:
        return mp.npdf(t, 0, x) * mp.exp(z * (1 - 2 * t) / (2 * x * x))

    truth_of, far = mp.exp(x) / (1 + mp.exp(x)), 300
    discrete = mp.nsum(
        lambda k: mp.tanh(x / 2) * mp.exp(-x * abs(k) + z * x * (abs(k - 1) - abs(k))), [-mp.inf, mp.inf]
    )
    for family, by_definition in (
        ("laplace", mp.quad(laplace, [-mp.inf, 0, 1, mp.inf])),
        ("gaussian", mp.quad(gaussian, mpmath.linspace(-far * x, far * x, 241))),
        ("response", truth_of * mp.exp(z * x) + (1 - truth_of) * mp.exp(-z * x)),
        ("discrete laplace", discrete),
    ):
        formula = mp.exp(_log_mgf([(family, float(x), 1)])(z))
        print(f"{family:16} relative gap {mp.nstr(abs(formula / by_definition - 1), 3)}")


SOLVERS = {"sgd": sgd, "noise": noise, "gaussian": gaussian, "response": response, "mixed": mixed}


def load() -> dict[str, dict[str, float]]:
    """The stored truth: case → δ → ε, or the noise for the cases that ask for it."""
    stored = json.loads(PATH.read_text(encoding="utf-8"))
    return {name: {d: float(x) for d, x in row.items()} for name, row in stored["truth"].items()}


def main() -> None:
    """Solves every case, and writes the file anew after each one."""
    mp.prec = truth.BITS
    if sys.argv[1:] == ["check"]:
        check()
        return
    found: dict[str, dict[str, str]] = {}
    for case in CASES.values():
        if case.name in UNKNOWN:
            continue
        for delta in case.deltas:
            start = time.perf_counter()
            answer = mp.nstr(SOLVERS[case.kind](case, mpf(delta)), DIGITS)
            found.setdefault(case.name, {})[delta] = answer
            print(f"{case.name:12} {delta:6} {answer:24} {time.perf_counter() - start:6.1f} s", flush=True)
            record = {"command": COMMAND, "bits": truth.BITS, "mpmath": mpmath.__version__, "truth": found}
            PATH.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
