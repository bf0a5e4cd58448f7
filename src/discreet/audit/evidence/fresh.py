"""Counts of events on samples that are newer than the events, at sizes that no outcome decides."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.audit.evidence.betting import Cuts, Ints

_PARTS = 16
"""Sizes, equally far from each other, at which a test that is limited by time may show its counts."""


class Fresh:
    """Counts since the events were chosen.

    A limit on time ends a test after a number of samples that may have to do with what they were: a mechanism can be
    slow where its outputs are rare. Then only sixteenths of the number that was expected are shown, each with a
    sixteenth of the error.

    Args:
        cuts: the events.
        expected: how many samples of each neighbour are expected from now on.
        timed: whether time may end them earlier or later.
    """

    def __init__(self, cuts: Sequence[Cuts], expected: int, *, timed: bool) -> None:
        self._running = [cut.empty() for cut in cuts]
        self._sizes = [max(expected, 1) * k // _PARTS for k in range(1, _PARTS + 1)] if timed else []
        self._n = 0
        self._timed = timed
        self.counts = [cut.empty() for cut in self._running] if timed else self._running
        """What may be shown."""

    @property
    def share(self) -> float:
        """The part of the error that an interval of these counts has."""
        return 1 / _PARTS if self._timed else 1.0

    def add(self, bins: Sequence[tuple[Ints, Ints]]) -> None:
        """Counts more pairs."""
        done, m = 0, len(bins[0][0]) if bins else 0
        while self._sizes and self._sizes[0] <= self._n + m - done:
            size = self._sizes.pop(0)
            self._count(bins, done, done + size - self._n)
            done += size - self._n
            self._n = size
            self.counts = [Cuts(c.at, c.n, c.p, c.q) for c in self._running]
        if not self._timed or self._sizes:
            self._count(bins, done, m)
            self._n += m - done

    def _count(self, bins: Sequence[tuple[Ints, Ints]], start: int, stop: int) -> None:
        for cut, (p, q) in zip(self._running, bins, strict=True):
            cut.add(p[start:stop], q[start:stop])
