"""Randomness that was written down: for tests that enumerate a sampler's law, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import TypeVar

from discreet.noise.entropy import Entropy

_Outcome = TypeVar("_Outcome", bound=Hashable)


class EntropyExhausted(EOFError):
    """More random bytes were asked for than the test had written down."""


class ReplayEntropy:
    r"""Hands out the given bytes in order, and raises `EntropyExhausted` when they end.

    >>> rng = ReplayEntropy(bytes([1, 2, 3]))
    >>> rng.bytes(2), rng.left
    (b'\x01\x02', 1)
    """

    __slots__ = ("_data", "_used")

    def __init__(self, data: bytes) -> None:
        self._data = bytes(data)
        self._used = 0

    def bytes(self, n: int, /) -> bytes:
        """Return the next `n` of the given bytes."""
        if n > self.left:
            raise EntropyExhausted(f"{n} bytes were asked for and {self.left} are left")
        start = self._used
        self._used += n
        return self._data[start : self._used]

    @property
    def left(self) -> int:
        """How many bytes have not been handed out."""
        return len(self._data) - self._used


def exact_law(sample: Callable[[Entropy], _Outcome], length: int) -> tuple[dict[_Outcome, Fraction], Fraction]:
    """Return the probability of each outcome within `length` random bytes, and the probability left undecided.

    Every string of bytes is tried, each only as far as the sampler reads, so the result is exact.

    >>> from discreet.noise.entropy import below
    >>> law, undecided = exact_law(lambda rng: below(3, rng), 1)
    >>> law[0] == law[1] == law[2] == Fraction(1, 4) == undecided
    True
    """
    law: dict[_Outcome, Fraction] = {}
    undecided = Fraction(0)
    open_prefixes = [b""]
    while open_prefixes:
        prefix = open_prefixes.pop()
        rng = ReplayEntropy(prefix)
        try:
            outcome = sample(rng)
        except EntropyExhausted:
            if len(prefix) == length:
                undecided += Fraction(1, 256**length)
            else:
                open_prefixes.extend(prefix + bytes([b]) for b in range(256))
            continue
        law[outcome] = law.get(outcome, Fraction(0)) + Fraction(1, 256 ** len(prefix))
    return law, undecided
