"""What is handed to the laboratory and is no list, no function, no mechanism: each ends in a sentence."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discreet import finite
from discreet.errors import InvalidParameter
from discreet.finite.measured import largest_ratio

M = finite.Mechanism({0: [0.75, 0.25], 1: [0.25, 0.75]})
CALLS: dict[str, Callable[[Any], object]] = {
    "inputs must be several values": lambda v: finite.Mechanism(lambda _: {0: 1}, inputs=v),
    "neighbours must be several values": lambda v: finite.Mechanism([[1], [1]], neighbours=v),
    "event must be several values": lambda v: M.chance(0, v),
    "loss must be a function": lambda v: M.expected(v),
    "prior must be several values": lambda v: M.posterior(0, prior=v),
    "priors must be a mapping": lambda v: M.mixture(v),
    "utility must be a function": lambda v: finite.exponential(v, inputs=[0], outputs=[0], epsilon=1, sensitivity=1),
    "outputs must be several values": lambda v: finite.exponential(
        lambda x, o: 0, inputs=[0], outputs=v, epsilon=1, sensitivity=1
    ),
    "inputs must be several": lambda v: finite.optimal(lambda x, o: 0, inputs=v, epsilon=1),
    "loss must be a func": lambda v: finite.optimal(v, inputs=[0, 1], epsilon=1),
    "mechanism must be a Mechanism": lambda v: finite.remapped(v, lambda x, o: 0, prior=[1]),
    "counts must be several values": lambda v: finite.Database(["a"], v),
}


@pytest.mark.parametrize("message", CALLS)
@pytest.mark.parametrize("value", [3, 2.5, object()], ids=lambda value: type(value).__name__)
def test_what_cannot_be_is_named(message: str, value: Any) -> None:
    with pytest.raises(InvalidParameter, match=message) as refused:
        CALLS[message](value)
    assert refused.value.hint


@pytest.mark.parametrize("value", [np.array([1.0, 2.0]), [1], {}], ids=lambda value: type(value).__name__)
def test_what_has_no_hash_is_no_input_and_no_output(value: Any) -> None:
    for ask in (M.law, M.posterior):
        with pytest.raises(InvalidParameter, match=r"is no (in|out)put"):
            ask(value)


@pytest.mark.parametrize("norm", [np.array([1.0, 2.0]), [1], None, "1", True, 3], ids=repr)
def test_a_norm_is_1_2_or_infinite(norm: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"norm must be 1, 2 or math\.inf"):
        finite.sensitivity(sum, relation="replace", universe=range(3), size=2, norm=norm)


def test_a_range_that_would_fill_the_memory_is_refused_with_the_number() -> None:
    with pytest.raises(InvalidParameter, match=r"10,000,000,000 elements"):
        finite.randomized_response(range(10**10), epsilon=1)


def test_the_largest_ratio_is_that_of_all_ratios_tried() -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        p, q = (rng.integers(0, 6, size=5).tolist() for _ in range(2))  # few values: many ties, many zeros
        ratios = [Fraction(a, b) for a, b in zip(p, q, strict=True) if b]
        assert largest_ratio(p, q) == max(ratios, default=Fraction(0))


def test_the_geometric_mechanism_for_a_hundred_people_is_shown_at_once() -> None:
    mechanism = finite.geometric(100, epsilon=1)
    start = time.process_time()
    assert math.isclose(mechanism.epsilon(), 1, rel_tol=1e-9)
    assert time.process_time() - start < 0.5  # it takes some 40 ms; without reduced ratios, more than a second
