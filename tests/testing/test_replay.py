"""The randomness that tests write down themselves."""

from __future__ import annotations

from fractions import Fraction

import pytest

from discreet.noise.entropy import Entropy
from discreet.testing.replay import EntropyExhausted, ReplayEntropy, exact_law


def test_bytes_come_out_in_order_and_once() -> None:
    rng = ReplayEntropy(b"abcdef")
    assert (rng.bytes(2), rng.bytes(0), rng.bytes(3), rng.left) == (b"ab", b"", b"cde", 1)


def test_the_end_is_an_error_and_loses_nothing() -> None:
    rng = ReplayEntropy(b"abc")
    with pytest.raises(EntropyExhausted, match="4 bytes were asked for and 3 are left"):
        rng.bytes(4)
    assert rng.bytes(3) == b"abc"


def test_an_exact_law_counts_each_string_only_as_far_as_it_is_read() -> None:
    def sample(rng: Entropy) -> str:
        first = rng.bytes(1)[0]
        if first < 64:
            return "short"
        return "even" if rng.bytes(1)[0] % 2 == 0 else "odd"

    law, undecided = exact_law(sample, 2)
    assert law == {"short": Fraction(1, 4), "even": Fraction(3, 8), "odd": Fraction(3, 8)}
    assert undecided == 0
    law, undecided = exact_law(sample, 1)
    assert law == {"short": Fraction(1, 4)}
    assert undecided == Fraction(3, 4)
