"""A sparse vector run: questions one after another, each answered at once."""

from __future__ import annotations

from discreet.errors import InvalidParameter
from discreet.mechanisms.run import Run
from discreet.mechanisms.sparse_law import SparseLaw
from discreet.mechanisms.values import read
from discreet.noise.entropy import Entropy


class SparseRun(Run):
    """Asks one question after another, until `cutoff` of them were above the threshold.

    Guarantee:
        That of the mechanism that started it, for all answers together, also when each question is chosen
        after the answers to those before. The number type of the first question (integer or float) is public
        and fixes that of the run: integers go through a run of floats, floats are refused in one of integers.

    References:
        Lyu, Su, Li 2017, Algorithm 7, https://arxiv.org/abs/1603.01699; docs/proofs/sparse-vector.md.
    """

    __slots__ = ("_answering", "_asked", "_law", "_laws", "_left", "_level", "_rng")

    def __init__(
        self, laws: tuple[SparseLaw | None, SparseLaw], cutoff: int, answering: bool, rng: Entropy
    ) -> None:
        """Starts a run; `SparseVector.start` and `AboveThreshold.start` do it.

        Args:
            laws: that of integers, or None where they are not taken, and that of floats.
            cutoff: after so many questions above the threshold it ends.
            answering: whether those are answered with a number.
            rng: where randomness comes from.
        """
        super().__init__()
        self._laws = laws
        self._law: SparseLaw | None = None
        self._level = 0
        self._left = cutoff
        self._answering = answering
        self._asked = 0
        self._rng = rng

    @property
    def asked(self) -> int:
        """How many questions were answered."""
        return self._asked

    @property
    def left(self) -> int:
        """How many more may be above the threshold."""
        return self._left

    @property
    def halted(self) -> bool:
        """Whether the run is over."""
        return self._left == 0

    def ask(self, value: object) -> bool | int | float | None:
        """Whether this query is above the threshold; with numbers, its number if it is and None if not.

        Args:
            value: the query's answer on the data, one integer or one float.

        Raises:
            InvalidParameter: the run is over, or belongs to another process, or the value is not one finite
                number of the type of the run. The message does not quote it.
        """
        self._stay()
        numbers = read(value)
        if numbers.shape is not None:
            raise InvalidParameter(
                "ask takes one number at a time.", hint="release(values) takes a whole array at once"
            )
        with self._alone():
            if not self._left:
                raise InvalidParameter(
                    "this run is over: it has found as many queries above the threshold as cutoff= allows.",
                    hint="start another run, which is charged anew",
                )
            law = self._begin(numbers.is_real)
            query = law.queries(numbers)
            found = law.above(query, self._level, 1, self._rng)
            self._asked += 1
            self._left -= len(found)
            said = [law.number(int(query[0]), gap, self._rng) for _, gap in found] if self._answering else []
        self._stay()  # a fork in between shows here
        if self._answering:
            return said[0] if said else None
        return bool(found)

    def _begin(self, real: bool) -> SparseLaw:
        """The run's law; the first question fixes it and draws the noisy threshold."""
        if self._law is None:
            law = self._laws[real]
            if law is None:
                raise InvalidParameter(
                    "sensitivity is below 1: an integer could not change at all.",
                    hint="ask with floats",
                )
            self._level = law.level(self._rng)
            self._law = law
        elif real and self._law.grid is None:
            raise InvalidParameter(
                "this run began with an integer, and takes integers only.",
                hint="begin with a float where questions of both types come",
            )
        return self._law

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._asked} asked, {self._left} left>"
