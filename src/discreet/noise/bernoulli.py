"""Coins whose chance is exactly a fraction, or exactly exp(−x)."""

from __future__ import annotations

from fractions import Fraction

from discreet.errors import InvalidParameter
from discreet.noise import fixedpoint
from discreet.noise.entropy import Entropy, bits

_WORD = 64  # bits drawn at a time


def bernoulli(p: Fraction, rng: Entropy) -> bool:
    """Return True with probability exactly `p`, a fraction in [0, 1].

    Guarantee:
        Exact: the bits of a uniform U are compared with the binary expansion of p, 64 at a time and further
        only on a tie (chance 2^−64).
    """
    numerator, denominator = int(p.numerator), int(p.denominator)
    if not 0 <= numerator <= denominator:
        raise InvalidParameter("p must lie in [0, 1].")
    while True:
        digit, numerator = divmod(numerator << _WORD, denominator)
        drawn = bits(rng, _WORD)
        if drawn != digit or numerator == 0:  # an expansion that ends in a tie leaves U ≥ p
            return drawn < digit


def exp_neg(x: Fraction, rng: Entropy) -> bool:
    """Return True with probability exactly exp(−x), for a fraction x ≥ 0.

    Guarantee:
        Exact: the bits of a uniform U are compared with a proved enclosure of exp(−x), 64 at a time and
        further only where the enclosure does not decide (chance below 2^−62). The time depends on x and on
        nothing else that is drawn.

    References:
        docs/proofs/bernoulli.md.
    """
    return scaled_exp_neg(x, rng, drawn=bits(rng, _WORD), known=_WORD)


def scaled_exp_neg(x: Fraction, rng: Entropy, *, drawn: int, known: int, weight: int = 1, shift: int = 0) -> bool:
    """Return whether U·weight < 2^shift·exp(−x), where `drawn` is the first `known` bits of a uniform U in [0, 1).

    The coin of a rejection step whose proposal was made with the integer weight ≥ 2^shift·exp(−x): with
    fresh bits, True has probability exactly 2^shift·exp(−x)/weight.
    """
    if x < 0:
        raise InvalidParameter("x must be at least 0.")
    while True:
        lo, hi = fixedpoint.exp_neg(x, known + shift)
        if (drawn + 1) * weight <= lo:
            return True
        if drawn * weight >= hi:
            return False
        drawn = drawn << _WORD | bits(rng, _WORD)
        known += _WORD
