"""Multisets of events: their order, and that nothing is lost of them while another thread looks at a part."""

from __future__ import annotations

import sys
from collections import Counter
from fractions import Fraction as F
from types import FrameType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from discreet.privacy.event import Composed, Event, GaussianEvent, LaplaceEvent

EVENTS: tuple[Event, ...] = tuple(LaplaceEvent(F(1, k)) for k in range(1, 5))


def _written_out(tree: Any) -> tuple[list[Event], Composed]:
    """The events of a tree of sums and multiples one after another, and their composition."""
    if isinstance(tree, int):
        return [EVENTS[tree]], Composed.of(EVENTS[tree])
    first, second, times = tree
    one, left = _written_out(first)
    if second is None:
        return one * times, left * times
    two, right = _written_out(second)
    return one + two, left + right


LEAVES: st.SearchStrategy[Any] = st.integers(0, len(EVENTS) - 1)
TREES = st.recursive(
    LEAVES, lambda t: st.tuples(t, t, st.just(1)) | st.tuples(t, st.none(), st.integers(0, 3)), max_leaves=12
)


@given(TREES)
def test_events_are_counted_in_the_order_in_which_they_first_came(tree: Any) -> None:
    written, composed = _written_out(tree)
    assert composed.parts == tuple(Counter(written).items())
    assert composed.parts == composed.parts  # the second time from what was kept


def _disturbed(total: Composed, nodes: list[Composed], at: int) -> bool:
    """Looks at the parts of `nodes` before step `at` of counting `total`; whether there is such a step."""
    steps = 0
    code = Composed._tally.__code__
    outer = sys.gettrace()

    def follow(frame: FrameType, kind: str, _: object) -> Any:
        nonlocal steps
        if frame.f_code is not code:
            return None
        frame.f_trace_opcodes = True
        if kind == "opcode":
            if steps == at:
                sys.settrace(None)
                for node in nodes:
                    assert node.parts
            steps += 1
        return follow

    sys.settrace(follow)
    try:
        assert total.parts
    finally:
        sys.settrace(outer)
    return steps > at


def test_nothing_is_lost_while_another_thread_counts_a_part() -> None:
    """A thread may be stopped before any step of the interpreter, while another one counts the same nodes."""
    one, two, three = (GaussianEvent(F(k)) for k in (1, 2, 3))
    at, more = 0, True
    while more:
        a, b, c = (Composed.of(event) for event in (one, two, three))
        inner = a + b
        twice = inner * 2
        right = twice + c
        total = inner + (right + twice) + (c + a)
        more = _disturbed(total, [inner, twice, right, a, b, c], at)
        assert dict(total.parts) == {one: 6, two: 5, three: 2}, at
        at += 1
    assert at > 100
