"""The tree of dyadic blocks: every element is in one block of each height."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.streams.factorization import Draw, Factorization, Progress, floats, widened
from discreet.mechanisms.values import total

_BATCH = 512  # draws that a run takes at once


@dataclass(frozen=True, slots=True)
class BlockTree(Factorization):
    """The sums of the blocks [k·2^h, (k+1)·2^h) that are complete, for h = 0, …, height.

    The answer after t elements is the sum of the complete blocks that tile [0, t), the largest first. The sum of a
    block of height h is estimated by least squares from all noisy sums inside it: with Y_k the sum of its noisy
    blocks of height k it is Σ 2^k Y_k/(2^(h+1) − 1), of variance 2^h/(2^(h+1) − 1) ≈ ½ where its own noisy sum has 1.

    References:
        Chan, Shi, Song 2011, Section 3, https://doi.org/10.1145/2043621.2043626; Honaker 2015, *Efficient use of
        differentially private binary trees* (estimation from below); docs/proofs/binary-tree.md.
    """

    steps: int
    height: int
    bits: int = 0

    @classmethod
    def best(cls, steps: int, *, is_pure: bool) -> BlockTree:
        """The height with the least error at its worst step: one less level is less noise, and more blocks to add."""

        def cost(height: int) -> float:
            tree = cls(steps, height)
            return float((height + 1) ** (2 if is_pure else 1)) * tree.squares(tree.worst())

        return cls(steps, min(range(steps.bit_length()), key=cost))

    @property
    def levels(self) -> int:
        """In how many blocks an element is."""
        return self.height + 1

    def l1(self, contributions: int) -> int:
        return (self.levels * contributions) << self.bits

    def l2_squared(self, contributions: int) -> int:
        # On each level the sum of squares is largest where blocks are as full as can be, as those of the first
        # `contributions` elements are on all levels at once.
        found = 0
        for h in range(self.levels):
            full, rest = divmod(contributions, 1 << h)
            found += full << 2 * h
            found += rest * rest
        return found << 2 * self.bits

    def squares(self, step: int) -> float:
        tops, rest = step >> self.height, step & ((1 << self.height) - 1)
        return (tops * _square(self.height) + sum(_square(h) for h in _ones(rest))) * 4.0**-self.bits

    def absolutes(self, step: int) -> float:
        tops, rest = step >> self.height, step & ((1 << self.height) - 1)
        found = tops * _absolute(self.height) + sum(_absolute(h) for h in _ones(rest))
        return found * 2.0**-self.bits

    def worst(self) -> int:
        # With as many blocks of the largest height as there are, or one less and all others; among the remainders
        # up to the last the largest sum has a one of it cleared and only ones below.
        last = self.steps
        found = {last} | {((last >> i) << i) - 1 for i in (*_ones(last), self.height) if last >> i}
        return max((s for s in found if s >= 1), key=self.squares)

    def mean_squares(self) -> float:
        total_squares = 0.0
        for h in range(self.levels):
            # The sum over t = 1, …, steps of the bit h of t, or of ⌊t/2^height⌋ at the top.
            cycle = 1 << (h + 1)
            if h < self.height:
                counted = (self.steps + 1) // cycle * (cycle // 2)
                counted += max(0, (self.steps + 1) % cycle - cycle // 2)
            else:
                tops, rest = divmod(self.steps + 1, 1 << h)
                counted = (tops * (tops - 1) // 2 << h) + tops * rest
            total_squares += counted * _square(h)
        return total_squares / self.steps * 4.0**-self.bits

    def release(self, values: NDArray[Any], draw: Draw) -> NDArray[np.float64]:
        n = len(values)
        if not n:
            return np.empty(0)
        sums = widened(values, self.bits, n)
        sizes = [n >> h for h in range(self.levels) if n >> h]
        drawn = draw(sum(sizes))  # at once, which is faster
        raised = np.empty(0)  # Σ 2^k Y_k of each block
        estimates = []
        for h, size in enumerate(sizes):
            if h:
                sums = sums[0 : 2 * size : 2] + sums[1 : 2 * size : 2]
            noisy = floats(total(sums, drawn[sum(sizes[:h]) :][:size]))
            raised = raised[0 : 2 * size : 2] + raised[1 : 2 * size : 2] + 2.0**h * noisy if h else noisy
            estimates.append(raised / (2.0 ** (h + 1) - 1))
        # From here on only noisy numbers: the answer after k·2^h elements, for smaller and smaller h.
        answers = np.concatenate(([0.0], np.cumsum(estimates[-1])))
        for h in range(len(estimates) - 2, -1, -1):
            size = n >> h
            finer = np.empty(size + 1)
            finer[0::2] = answers[: size // 2 + 1]
            finer[1::2] = answers[: (size + 1) // 2] + estimates[h][0 : 2 * ((size + 1) // 2) : 2]
            answers = finer
        return answers[1:] * 2.0**-self.bits

    def begin(self, draw: Draw) -> Progress:
        return _Growing(self, draw)

    def explained(self) -> str:
        return (
            f"Tree. Each element is in one block of each of the {self.levels} heights 0, …, {self.height}; one noisy "
            "sum is kept for each complete block."
        )


class _Growing(Progress):
    """A tree that grows: for each open height the exact sum of its left block, and what was made of noisy sums."""

    __slots__ = ("_draw", "_drawn", "_state", "_tree")

    def __init__(self, tree: BlockTree, draw: Draw) -> None:
        self._tree = tree
        self._draw = draw
        self._drawn: list[int] = []
        # elements, finished largest blocks, (exact, raised) of the open heights
        self._state: tuple[int, float, tuple[tuple[int, float], ...]] = (0, 0.0, ())

    @property
    def taken(self) -> int:
        return self._state[0]

    def add(self, value: int) -> float:
        seen, done, opened = self._state
        exact = value << self._tree.bits
        raised = float(exact + self._noise())
        left = list(opened)
        h = 0
        while h < self._tree.height and seen >> h & 1:
            other, above = left.pop()
            exact += other
            h += 1
            raised = above + raised + 2.0**h * float(exact + self._noise())
        if h == self._tree.height:
            done += raised / (2.0 ** (h + 1) - 1)
        else:
            left.append((exact, raised))
        open_heights = [i for i in range(self._tree.height - 1, -1, -1) if (seen + 1) >> i & 1]
        answer = done
        for i, (_, made) in zip(open_heights, left, strict=True):
            answer += made / (2.0 ** (i + 1) - 1)
        # At once, so that an interrupted call leaves the run as it was; its draws are never used again.
        self._state = (seen + 1, done, tuple(left))
        return answer * 2.0**-self._tree.bits

    def _noise(self) -> int:
        if not self._drawn:
            self._drawn = self._draw(_BATCH).tolist()
        return int(self._drawn.pop())


def _ones(n: int) -> list[int]:
    """The places of the ones of n."""
    return [i for i in range(n.bit_length()) if n >> i & 1]


def _square(h: int) -> float:
    """Σ c² of the estimate of a block of height h: 2^(h−k) noisy sums of weight 2^k/(2^(h+1) − 1)."""
    return float(2.0**h / (2.0 ** (h + 1) - 1))


def _absolute(h: int) -> float:
    return (h + 1) * _square(h)
