"""The matrices of the textbook's mechanisms, in fractions: a power of e is replaced by a fraction that is no larger."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from typing import Any

from discreet.errors import InvalidParameter
from discreet.finite.composing import cost, refuse_large
from discreet.finite.histograms import Neighbours, records_of, refuse_slow
from discreet.finite.measured import exponential as bounds_of_exponential
from discreet.finite.mechanism import Mechanism, made
from discreet.finite.rows import of_integers, refuse_no_function, several
from discreet.privacy.exact import Real, count, positive

DIGITS = 24
_LARGEST = 200
"""An ε beyond it hides nothing, and would only make long numbers."""
_MOST_BITS = 200_000
"""Of one probability."""

_OFF = Fraction(1, 1 << 40)
"""By which share a probability of the exponential mechanism may be off."""
_LEAST = Fraction(1, 1 << 30)
_MOST_SPREAD = 2_000


def grown(epsilon: Fraction) -> Fraction:
    """Return a fraction of some 24 digits that is at most e^ε, and less than it by at most one part in 10²³."""
    low, _ = bounds_of_exponential(epsilon, DIGITS + 4)
    scale = 10 ** max(0, DIGITS - len(str(int(low))))
    return max(Fraction(1), Fraction(int(low * scale), scale))


def randomized_response(values: Iterable[Hashable], *, epsilon: Real) -> Mechanism:
    """k-ary randomised response: the true value e^ε times as often as each other one.

    Guarantee:
        ε-DP between any two values. In place of e^ε stands a fraction that is at most that, by one part in 10²³.

    References: Kairouz, Bonawitz, Ramage 2016, https://arxiv.org/abs/1602.07387

    >>> randomized_response(["yes", "no"], epsilon=1)
    <Mechanism 2×2: ε = 1>
    """
    known = names_of("values", values)
    e = grown(_epsilon(epsilon))
    whole = e + len(known) - 1
    refuse_large(len(known), len(known))
    return Mechanism({x: {o: (e if o == x else Fraction(1)) / whole for o in known} for x in known})


def geometric(most: int, *, epsilon: Real, sensitivity: int = 1) -> Mechanism:
    """Return the geometric mechanism for a count from 0 to `most`, whose tails beyond both ends are put on the ends.

    P(o | x) ∝ α^|o − x| with α = e^(−ε/Δ). Neighbours are counts that differ by at most `sensitivity` = Δ.

    Guarantee:
        ε-DP for such neighbours. In place of e^(ε/Δ) stands a fraction that is at most that, by one part in 10²³.

    References: Ghosh, Roughgarden, Sundararajan 2009, Section 2, https://arxiv.org/abs/0811.2841

    >>> geometric(10, epsilon="1/2")
    <Mechanism 11×11: ε = 0.5>
    """
    n, step = count("most", most), count("sensitivity", sensitivity)
    refuse_large(n + 1, n + 1)
    a = 1 / grown(_epsilon(epsilon) / step)
    _refuse_long(n, a)
    # (1 − a)/(1 + a)·a^k and a^k/(1 + a), over the denominator (q + p)qⁿ for a = p/q
    p, q = a.numerator, a.denominator
    whole = (q + p) * q**n
    refuse_slow(whole.bit_length(), n + 1, sum(min(n - x, step) for x in range(n)))
    powers = [p**k * q ** (n - k) for k in range(n + 1)]
    rows = tuple(
        (q * powers[x], *((q - p) * powers[abs(o - x)] for o in range(1, n)), q * powers[n - x]) for x in range(n + 1)
    )
    counts = tuple(range(n + 1))
    pairs = tuple((x, y) for x in counts for y in range(x + 1, min(n, x + step) + 1))
    return made(of_integers(counts, counts, rows, whole), pairs)


def exponential(
    utility: Callable[[Any, Any], Real],
    *,
    inputs: Iterable[object],
    outputs: Iterable[Hashable],
    epsilon: Real,
    sensitivity: Real,
    neighbours: Neighbours = None,
) -> Mechanism:
    """Return the exponential mechanism: P(o | x) ∝ exp(ε · utility(x, o) / 2Δ).

    Args:
        utility: a function of the input (the records of a `Database`) and the output; its values are read as
            fractions, a float as its shortest decimal.
        inputs: the inputs.
        outputs: what may come out.
        epsilon: ε.
        sensitivity: Δ, by how much the utility of an output may differ between neighbours.
        neighbours: which inputs are neighbours, as in `Mechanism`.

    Guarantee:
        ε-DP if the utilities of neighbours differ by at most Δ, which is not checked here: `M.ratio()` says what
        holds. The law is that of the mechanism at ε − 2⁻³⁸ with every probability off by at most a share 2⁻⁴⁰, so
        that all have one denominator, a power of two; together that is at most ε. Proof: docs/proofs/finite.md.

    References: McSherry, Talwar 2007, Theorem 6, https://doi.org/10.1109/FOCS.2007.66

    >>> exponential(lambda x, o: -abs(x - o), inputs=range(4), outputs=range(4), epsilon=1, sensitivity=3)
    <Mechanism 4×4: ε = 0.5>
    """
    refuse_no_function("utility", utility, hint="lambda x, o: -abs(x - o)")
    known, names = several("inputs", inputs, hint="inputs=range(4)"), names_of("outputs", outputs)
    if not known:
        raise InvalidParameter("inputs has no elements.", hint="inputs=range(4)")
    refuse_large(len(known), len(names))
    e, d = _epsilon(epsilon), positive("sensitivity", sensitivity)
    table = [[cost("a utility", utility(records_of(x), o)) for o in names] for x in known]
    if e < _LEAST:
        raise InvalidParameter(f"epsilon must be at least {float(_LEAST):.1g} here, not {epsilon}.")
    rate = (e - 4 * _OFF) / (2 * d)
    most = max(max(row) - min(row) for row in table)
    bits = int(rate * most * Fraction(3, 2)) + 1  # log₂ of the largest ratio of two weights, at least
    if bits > _MOST_SPREAD:
        raise InvalidParameter(
            f"the weights of two outputs would be a factor of 2^{bits} apart; at most 2^{_MOST_SPREAD} is kept.",
            hint="give utilities a smaller range, or a larger sensitivity",
        )
    law = iter([_softmax([rate * u for u in row], 48 + bits + 2 * len(names).bit_length()) for row in table])
    return Mechanism(lambda _: dict(zip(names, next(law), strict=True)), inputs=known, neighbours=neighbours)


def _softmax(exponents: list[Fraction], bits: int) -> list[Fraction]:
    """Multiples of 2^−bits that sum to 1, near to e^z over their sum: each rounded down, the largest takes the rest."""
    top = max(exponents)
    # Twenty more bits, and as many digits of e^(top − z): far finer than the rounding below.
    fine = bits + 20
    digits = fine // 3 + 10
    weights = [int((1 << fine) / bounds_of_exponential(top - z, digits)[1]) for z in exponents]
    whole = sum(weights)
    parts = [(w << bits) // whole for w in weights]
    largest = parts.index(max(parts))
    parts[largest] += (1 << bits) - sum(parts)
    return [Fraction(p, 1 << bits) for p in parts]


def _epsilon(epsilon: Real) -> Fraction:
    e = positive("epsilon", epsilon)
    if e > _LARGEST:
        raise InvalidParameter(f"epsilon must be at most {_LARGEST} here, not {epsilon}: more hides nothing.")
    return e


def names_of(name: str, values: Iterable[object]) -> tuple[Hashable, ...]:
    """Return the outputs: at least one, and no two equal.

    Raises:
        InvalidParameter: there are none, two are equal, or one is of a type that cannot be an output.
    """
    found: list[Hashable] = []
    for o in several(name, values, hint=f"{name}=['yes', 'no']"):
        if not isinstance(o, Hashable):
            raise InvalidParameter(
                f"{name} has a {type(o).__name__}, which cannot be an output.", hint="give numbers, texts or tuples"
            )
        found.append(o)
    if len(set(found)) < len(found):
        raise InvalidParameter(f"{name} has an element twice.", hint="give each once; True is 1, and 2.0 is 2")
    if not found:
        raise InvalidParameter(f"{name} has no elements.", hint=f"{name}=['yes', 'no']")
    return tuple(found)


def _refuse_long(power: int, base: Fraction) -> None:
    bits = power * (base.numerator.bit_length() + base.denominator.bit_length())
    if bits > _MOST_BITS:
        raise InvalidParameter(
            f"probabilities would be fractions of some {bits:,} bits; at most {_MOST_BITS:,} are kept.",
            hint="take fewer counts, or utilities that are whole multiples of a coarser unit",
        )
