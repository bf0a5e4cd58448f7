"""A loss asked in other words: Rényi divergence, zCDP, hockey-stick divergence, and what an attacker gains.

Every answer is an upper bound for the worst neighbours, rounded up. Proofs: docs/proofs/questions.md
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from discreet.accounting.bounds import Loss
from discreet.accounting.divergence import renyi_upper
from discreet.accounting.engines.choice import laws
from discreet.errors import InvalidParameter
from discreet.privacy.event import Composed, Event, LaplaceEvent
from discreet.privacy.exact import Real, above, below, exact
from discreet.privacy.guarantee import decimal
from discreet.privacy.law import AtomsLaw, Law
from discreet.privacy.sampling import PoissonEvent

_UP = 1 + 2.0**-48  # a few roundings of positive terms


def rdp(loss: Loss, alpha: Real) -> float:
    """Return a Rényi divergence of order α > 1 that no neighbours' outputs exceed; `math.inf` or 'inf' asks for the
    pure ε.

    Guarantee:
        Both directions are bounded by it. It is the divergence itself, up to rounding, where every event's
        moment generating function has a formula (Gaussian and Laplace noise, sampled Gaussian noise, pure
        uses); elsewhere αρ, or that of randomised response, stands in for the event's.

    Raises:
        InvalidParameter: an order of at most 1, a δ that is spent apart (the divergence is infinite), or an
        event for which no divergence is known.

    References: Mironov 2017, Definition 4 and Proposition 1 (sums), https://arxiv.org/abs/1702.07476; sampled
    Gaussian: Mironov, Talwar, Zhang 2019, https://arxiv.org/abs/1908.10530
    """
    _nothing_apart(loss, "Rényi divergence")
    if _is_infinite(alpha):
        if loss.pure is None:
            raise InvalidParameter(
                "this loss has no divergence of infinite order: it is not pure.",
                hint="ask at a finite order, as in 10, or for epsilon(delta=1e-6)",
            )
        return _rounded(loss.pure)
    order = exact("alpha", alpha)
    if order <= 1:
        raise InvalidParameter(
            f"alpha must be above 1, not {alpha}.", hint="orders from 1.5 to 64 are usual; 'inf' is pure ε"
        )
    terms = [_divergences(event, n, order) for event, n in loss.events]
    return _rounded(max((sum(side, Fraction(0)) for side in zip(*terms, strict=True)), default=Fraction(0)))


def zcdp(loss: Loss) -> float:
    """Return the least known ρ for which all of it is ρ-zCDP.

    Guarantee:
        The sum of the events' ρ, where that of an ε-DP use is ε·tanh(ε/2) (attained by randomised response),
        and of Laplace noise r + e^−r − 1 (attained). It may be below `loss.rho`, which filters use.

    Raises:
        InvalidParameter: a δ that is spent apart, or an event without ρ.

    References: sums are Bun, Steinke 2016, Lemma 1.7, https://arxiv.org/abs/1605.02065; Laplace noise is Harrison,
    Manurangsi 2025, *Exact zCDP Characterizations*, https://arxiv.org/abs/2510.25746; ε·tanh(ε/2):
    docs/proofs/questions.md
    """
    _nothing_apart(loss, "ρ")
    total = Fraction(0)
    for event, n in loss.events:
        rho = _rho(event)
        if rho is None:
            raise InvalidParameter(
                f"this loss has no known ρ: a use of {type(event).__name__} has none.",
                hint="ask for epsilon(delta=1e-6)",
            )
        total += rho * n
    return _rounded(total)


def hockey_stick(loss: Loss, alpha: Real) -> float:
    """Return a bound of P(S) − α·Q(S) over all events S and neighbours' outputs P and Q, for any α ≥ 0.

    Guarantee:
        At α = e^ε it is δ(ε). Below 1 it follows by H_α(P ‖ Q) = 1 − α + α·H_{1/α}(Q ‖ P) from the reverse
        direction, which `loss.delta` bounds as well.

    Raises:
        InvalidParameter: a negative α.

    References: Balle, Barthe, Gaboardi 2018, Theorem 1, https://arxiv.org/abs/1807.01647; the identity:
    docs/proofs/pairs.md, "Reversal"
    """
    a = exact("alpha", alpha)
    if a < 0:
        raise InvalidParameter(f"alpha must be at least 0, not {alpha}.")
    if a == 0:
        return 1.0
    found = Fraction(loss.delta(Fraction(_log(max(a, 1 / a)))))
    return min(_rounded(found if a >= 1 else 1 - a + a * found), 1.0)


def advantage(loss: Loss) -> float:
    """Return how far an attacker's true positive rate can exceed the false positive rate: δ(0).

    Guarantee:
        No test whether a unit is in the data, whatever else is known to the attacker, has a larger difference;
        equally, no two neighbours' outputs differ more in total variation.

    References: the membership advantage of Yeom, Giacomelli, Fredrikson, Jha 2018, https://arxiv.org/abs/1709.01604
    """
    return loss.delta(0)


def success(loss: Loss, prior: Real = Fraction(1, 2)) -> float:
    """Return the chance with which an attacker can say rightly whether a unit is in the data, held for `prior` before.

    Guarantee:
        No rule does better on average: (1 − π) + π·H_{(1−π)/π}, π the prior. Without any answer it is max(π, 1 − π).

    Raises:
        InvalidParameter: a prior outside [0, 1].

    References: docs/proofs/questions.md
    """
    p = exact("prior", prior)
    if not 0 <= p <= 1:
        raise InvalidParameter(f"prior must lie in [0, 1], not {prior}.")
    if p in (0, 1):
        return 1.0
    return min(_rounded(1 - p + p * Fraction(hockey_stick(loss, (1 - p) / p))), 1.0)


def _is_infinite(alpha: Real) -> bool:
    """Return whether it is infinity as a float or in words; an order with more digits than a float is not."""
    words = not isinstance(alpha, int | Fraction) and str(alpha).strip().lower()
    return words in ("inf", "+inf", "infinity", "+infinity")


def _nothing_apart(loss: Loss, what: str) -> None:
    if loss.failure:
        raise InvalidParameter(
            f"this loss has no {what}: δ = {decimal(loss.failure)} is spent apart, and with that chance nothing "
            "bounds what is revealed.",
            hint="ask for epsilon(delta) at a larger delta, or for tradeoff",
        )


def _divergences(event: Event, n: int, alpha: Fraction) -> tuple[Fraction, Fraction]:
    """Bounds of the divergence of n uses and of the reverse one."""
    bounds = (renyi_upper(event, alpha), event.pure, None if event.rho is None else alpha * event.rho)
    known = [bound * n for bound in bounds if bound is not None]
    both = laws(Composed([(event, n)]))
    finite = isinstance(event.pair().law(), AtomsLaw)  # leaves out tiny masses, which are not tiny at every order
    found = [known, known] if both is None or finite else [[*known, *_divergence(law, n, alpha)] for law in both]
    if not all(found):
        raise InvalidParameter(
            f"this loss has no known Rényi divergence: a use of {type(event).__name__} has none.",
            hint="ask for epsilon(delta=1e-6)",
        )
    return min(found[0]), min(found[1])


def _divergence(law: Law, n: int, alpha: Fraction) -> list[Fraction]:
    """Return log M(α − 1)/(α − 1), rounded up; α − 1 may be rounded up too, as the divergence grows with the order."""
    z = above(alpha - 1)
    with np.errstate(all="ignore"):  # what leaves the range of floats is no bound
        value, error = law.log_mgf(np.array([complex(z)]))
        # NumPy's complex log1p(x) is log(1 + x): each use may lose a rounding unit.
        upper = float(value[0].real + error[0] + n * 2.0**-51) / z
    return [Fraction(max(upper * _UP, 0.0))] if math.isfinite(upper * _UP) else []


def _rho(event: Event) -> Fraction | None:
    bounds = [] if event.rho is None else [event.rho]
    if event.pure is not None and 0 < event.pure < 700:
        e = above(event.pure)
        bounds.append(Fraction(e * math.tanh(e / 2) * _UP))
    if isinstance(event, LaplaceEvent):
        r = above(event.ratio)
        bounds.append(Fraction((r + math.expm1(-r)) * _UP + r * 2.0**-51))  # the sum may cancel
    if isinstance(event, PoissonEvent):
        inner = _rho(event.event)
        bounds += [] if inner is None else [inner]
    return min(bounds, default=None)


def _rounded(x: Fraction) -> float:
    """Return the least float whose shortest decimal is at least x: 7/10 is 0.7."""
    up = above(x)
    if math.isinf(up):
        raise InvalidParameter("alpha or this loss is so large that the result leaves the range of floats.")
    down = math.nextafter(up, 0.0)
    return down if math.isfinite(up) and Fraction(repr(down)) >= x else up


def _log(x: Fraction) -> float:
    """Return the logarithm of x for x ≥ 1, rounded down."""
    if x < 2:
        return math.log1p(below(x - 1)) * (1 - 2.0**-50)
    logs = math.log(x.numerator), math.log(x.denominator)
    return max(logs[0] - logs[1] - 2.0**-50 * (logs[0] + logs[1]), 0.0)
