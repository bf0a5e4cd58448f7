"""A stream that is counted as it comes."""

from __future__ import annotations

import operator

from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import Additive
from discreet.mechanisms.calibrated import half_width
from discreet.mechanisms.run import Run
from discreet.mechanisms.streams.factorization import Factorization
from discreet.noise.entropy import Entropy
from discreet.privacy.exact import Real


class CountingRun(Run):
    """Takes one element after another, and gives the noisy sum of all so far.

    Guarantee:
        That of the mechanism that started it, for all answers together, also where an element is chosen after the
        answers before it. Noise is drawn as the stream comes and no element is remembered beyond the open blocks
        of a tree; the square-root factorisation remembers all.

    References:
        Denisov, McMahan, Rush, Smith, Thakurta 2022, Theorem 2.1, https://arxiv.org/abs/2202.08312;
        docs/proofs/binary-tree.md, "Adaptive streams".
    """

    __slots__ = ("_factorization", "_noise", "_progress")

    def __init__(self, factorization: Factorization, noise: Additive, rng: Entropy) -> None:
        """Starts a run; `BinaryTree.start` does it."""
        super().__init__()
        self._factorization = factorization
        self._noise = noise
        self._progress = factorization.begin(lambda n: noise.draw(n, rng))

    def __repr__(self) -> str:
        return f"<CountingRun: {self.taken} taken, {self.left} left>"

    @property
    def taken(self) -> int:
        """How many elements have come."""
        return self._progress.taken

    @property
    def left(self) -> int:
        """How many more may come."""
        return self._factorization.steps - self.taken

    def add(self, value: int) -> float:
        """The noisy sum of all elements so far, this one included.

        Raises:
            InvalidParameter: not an integer, more elements than declared, or a run that another process started.
                Nothing is answered, and the run goes on as if it had not been asked.
        """
        self._stay()
        if isinstance(value, bool) or type(value).__name__ == "bool":
            raise InvalidParameter(
                "an element must be an integer, not a truth value.",
                hint="use int(value) to count it as 0 or 1",
            )
        try:
            whole = operator.index(value)
        except TypeError:
            raise InvalidParameter(
                f"an element must be an integer, not {type(value).__name__}.",
                hint="round it to a public grid first, and count the rounding in the sensitivity",
            ) from None
        if whole.bit_length() > _LONGEST:
            whole = (1 << _LONGEST) - 1 if whole > 0 else 1 - (1 << _LONGEST)
        with self._alone():
            if not self.left:
                raise InvalidParameter(
                    f"the run has taken all of its {self.taken} steps.",
                    hint="declare more steps= at the start; another run is charged anew",
                )
            return self._progress.add(whole)

    def error(self, confidence: Real = 0.95) -> float:
        """A half-width within which the error of the last answer (before any, of the first) stays."""
        step = max(self.taken, 1)
        f = self._factorization
        return half_width(self._noise, f.squares(step), f.absolutes(step), confidence)


_LONGEST = 256  # bits of an element; a longer one is cut off there, since floats of answers end somewhere
