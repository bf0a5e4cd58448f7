"""Noise that is drawn ahead in blocks, for releases of one number at a time."""

from __future__ import annotations

import math

from discreet.mechanisms.additive import Additive
from discreet.noise.entropy import SystemEntropy, process
from discreet.noise.lattice import Grid

_MOST = 1 << 10  # numbers of a block; blocks before it double, so that little is drawn in vain


class Reserve:
    """Noise of one law, and of one mechanism, that no release has used yet.

    The vector samplers draw a block in less time than a few single numbers take. A release takes the last
    number out of the block and adds it; an empty block is drawn anew by the next release.

    Guarantee:
        The released numbers have the law of noise drawn on demand: those of a block are independent of each
        other and of everything outside it, none is used twice, and which one a release gets does not depend
        on any of them. Threads take different numbers, since `list.pop` is one step. A process that was
        forked throws away what it finds, since a block belongs to the process that began to draw it. A copy,
        pickled or not, has none of the numbers.

        The time of a release does not follow its noise: it is that of one step out of a list and one
        addition, in which only the length of Python's integers shows (some 20 ns), beside a pause of 0 to
        about 2 µs that is drawn together with the noise. A block is drawn at every 1,024th release, whatever
        was drawn or released before.

    References:
        docs/proofs/reserve.md.
    """

    __slots__ = ("_grid", "_law", "_size", "_stock")

    def __init__(self, law: Additive, grid: Grid | None) -> None:
        self._law = law
        self._grid = grid
        self._size = 1
        self._stock: tuple[tuple[int, int], list[tuple[int, int]]] = (process(), [])

    def add(self, value: int | float) -> int | float:
        """An integer, or a finite float on the grid, plus noise of its own."""
        noise = self._take()
        grid = self._grid
        if grid is None:
            assert type(value) is int
            return value + noise
        try:
            # Both powers of two are exact, or end at 0 or out of range; the sum is one of integers.
            return math.ldexp(round(math.ldexp(value, -grid.exponent)) + noise, grid.exponent)
        except OverflowError:
            return grid.to_float(grid.snap(value) + noise)

    def _take(self) -> int:
        home, ahead = self._stock
        try:
            number, pause = ahead.pop()
        except IndexError:
            return self._draw()
        if home != process():
            return self._draw()
        for _ in range(pause << 1):
            pass
        return number

    def _draw(self) -> int:
        """The first number of a new block, which takes the place of all that is left."""
        home = process()  # first, so that the child of a fork in between finds a block of its parent's
        rng, size = SystemEntropy(), self._size  # which another thread may change meanwhile
        block = list(zip(self._law.draw(size, rng).tolist(), rng.bytes(size), strict=True))
        number: int = block.pop()[0]
        self._size = min(2 * size, _MOST)
        self._stock = home, block
        return number

    def __reduce__(self) -> tuple[type[Reserve], tuple[Additive, Grid | None]]:
        return Reserve, (self._law, self._grid)
