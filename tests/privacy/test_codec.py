"""What is stored comes back, and what was not written by us is refused."""

from __future__ import annotations

import json
from fractions import Fraction as F
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.privacy.codec import decode, encode
from discreet.privacy.event import (
    ApproximateEvent,
    Composed,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    ZCDPEvent,
)

fractions = st.fractions(min_value=0, max_value=10**6)
above_zero = st.fractions(min_value=F(1, 10**9), max_value=10**9)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(ApproximateEvent, fractions, st.fractions(min_value=0, max_value=F(999, 1000))),
    st.builds(ZCDPEvent, fractions),
    st.builds(LaplaceEvent, fractions),
    st.builds(DiscreteLaplaceEvent, st.integers(0, 2**60), above_zero),
    st.builds(GaussianEvent, fractions),
    st.builds(DiscreteGaussianEvent, st.integers(0, 2**60), above_zero),
)


@given(st.lists(st.tuples(events, st.integers(1, 2**40)), max_size=5))
def test_any_events_come_back_from_json_as_they_were(parts: list[tuple[Event, int]]) -> None:
    composed = Composed(parts)
    assert decode(json.loads(json.dumps(encode(composed)))) == composed


def test_the_stored_form_is_pinned() -> None:
    stored = encode(Composed([(DiscreteLaplaceEvent(3, F(7, 2)), 2), ApproximateEvent(F(1, 2), F(1, 10**6))]))
    assert stored == [
        {"event": "approximate", "count": 1, "epsilon": "1/2", "delta": "1/1000000"},
        {"event": "discrete-laplace", "count": 2, "shift": 3, "scale": "7/2"},
    ]


GOOD = {"event": "discrete-laplace", "count": 2, "shift": 3, "scale": "7/2"}


@pytest.mark.parametrize(
    "change",
    [
        {"event": "renyi"}, {"event": None}, {"event": ["zcdp"]}, {"event": "Zcdp"},
        {"count": 0}, {"count": -1}, {"count": 1.0}, {"count": True}, {"count": "2"}, {"count": None},
        {"shift": "3"}, {"shift": 3.0}, {"shift": -1}, {"shift": True}, {"shift": None},
        {"scale": 3.5}, {"scale": 3}, {"scale": "nan"}, {"scale": "1/0"}, {"scale": "x"}, {"scale": "-1/2"},
        {"scale": "0/1"}, {"scale": None}, {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_row_that_was_not_written_by_us_is_refused(change: dict[str, Any]) -> None:
    assert decode([GOOD])
    with pytest.raises(InvalidParameter, match="stored event"):
        decode([{**GOOD, **change}])


@pytest.mark.parametrize("missing", ["event", "count", "shift", "scale"])
def test_a_row_that_lacks_a_field_is_refused(missing: str) -> None:
    with pytest.raises(InvalidParameter, match="stored event"):
        decode([{k: v for k, v in GOOD.items() if k != missing}])
