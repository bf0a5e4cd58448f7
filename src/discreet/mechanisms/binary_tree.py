"""Continual counting, of a whole stream or as it comes, over the tree of dyadic blocks."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms import square_root
from discreet.mechanisms.abstract import Mechanism, Run, numbered
from discreet.mechanisms.additive import Additive
from discreet.mechanisms.calibrated import AskedGuarantee, bits_for, half_width
from discreet.mechanisms.parameters import read_choice, read_whole
from discreet.mechanisms.square_root import Draw, Factorization, Progress, SquareRoot, floats, widened
from discreet.mechanisms.values import read, total
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.privacy.event import Composed
from discreet.privacy.exact import Real, count, set_fields
from discreet.privacy.guarantee import called, decimal
from discreet.privacy.unit import Relation

_MOST = 1 << 40  # steps of a tree


@dataclass(frozen=True, slots=True, init=False, repr=False)
class BinaryTree(Mechanism):
    """All prefix sums of a stream of integers, each answered as soon as its last element is there.

    With `factorization="tree"`, the default, noisy sums of dyadic blocks are kept, and each answer is made of those
    that are complete, by least squares. With "square-root" the stream is convolved with the power series of
    1/√(1 − q), which with Gaussian noise has about half the error of the tree; a run of it takes longer for each step.

    Guarantee:
        ε-DP with Laplace noise, and (ε, δ)-DP and μ-GDP with Gaussian noise, for all answers of one release or run
        together. Neighbours are two streams of which one has a unit that the other has not ("add-remove"), or has
        another unit in its place ("replace"). A unit changes at most `contributions` = b of the elements, each by
        at most `sensitivity` = Δ, up or down; the caller makes sure of that. (A unit whose one element changes by at
        most Δ is covered by "add-remove".) The number of elements and their order in time are public.
        Under add-remove the tree's noisy sums move by b·levels·Δ in ℓ1, under replace by twice that; in ℓ2 see the
        pages. Everything that is measured is an integer, with a multiplier 2^m that makes the noise fine.

    References:
        Chan, Shi, Song 2011, Section 3 (the binary mechanism), https://doi.org/10.1145/2043621.2043626; Dwork, Naor,
        Pitassi, Rothblum 2010 (the counter), https://doi.org/10.1145/1806689.1806787; Fichtenberger, Henzinger,
        Upadhyay 2023, Theorem 1, https://arxiv.org/abs/2202.11205; docs/proofs/binary-tree.md,
        docs/proofs/square-root.md.

    >>> run = BinaryTree(epsilon=100, steps=1000).start()
    >>> [round(run.add(x)) for x in (3, 0, 4)]
    [3, 3, 7]
    """

    epsilon: Fraction
    delta: Fraction
    steps: int
    sensitivity: int
    contributions: int
    relation: Relation
    factorization: str
    measured: Factorization
    noise: Additive
    _events: Composed

    def __init__(
        self,
        *,
        epsilon: Real | None = None,
        steps: int | None = None,
        sensitivity: Real = 1,
        delta: Real | None = None,
        noise: str | None = None,
        factorization: str = "tree",
        contributions: int = 1,
        relation: Relation | str = Relation.ADD_REMOVE,
    ) -> None:
        asked = AskedGuarantee.read("BinaryTree", epsilon, delta, noise)
        factorization = read_choice("factorization", factorization, ("tree", "square-root"))
        if steps is None:
            raise InvalidParameter("BinaryTree needs steps, the most elements of the stream.", hint="steps=1000")
        t, s = count("steps", steps), int(read_whole("sensitivity", sensitivity))
        b, kind = count("contributions", contributions), Relation.parse(relation)
        most = _MOST if factorization == "tree" else square_root.LONGEST
        if t > most:
            raise InvalidParameter(
                f"steps must be at most {most:,} for factorization={factorization!r}, not {t:,}.",
                hint="take factorization='tree'" if most < _MOST else "count in coarser steps",
            )
        if b > t:
            raise InvalidParameter(f"contributions must be at most steps = {t}, not {b}.")
        if factorization == "square-root" and asked.is_pure:
            raise InvalidParameter(
                "the square-root factorisation needs Gaussian noise, and so a delta.",
                hint="give delta=1e-6, or take factorization='tree'",
            )
        moved = s * (2 if kind is Relation.REPLACE else 1)  # one unit goes, and another comes
        measured = _measured(factorization, t, b, moved, asked)
        noise_law, events = asked.calibrated(measured.l1(b) * moved, measured.sensitivity(b) * moved**2)
        set_fields(self, epsilon=asked.epsilon, delta=asked.delta, steps=t, sensitivity=s, contributions=b)
        set_fields(self, relation=kind, factorization=factorization, measured=measured, noise=noise_law, _events=events)

    @property
    def events(self) -> Composed:
        return self._events

    def release(self, values: NDArray[Any], *, rng: Entropy | None = None) -> NDArray[np.float64]:
        """All noisy prefix sums of a stream that is there already, in the law of a run.

        Args:
            values: a one-dimensional numpy array of at most `steps` integers; its length is public.
            rng: where randomness comes from, for tests; the operating system's by default.

        Raises:
            InvalidParameter: another type or shape, or too many elements. The message quotes none.
        """
        numbers = read(values)
        if numbers.shape is None or len(numbers.shape) != 1:
            raise InvalidParameter("values must be a one-dimensional array.")
        if numbers.is_real:
            raise InvalidParameter(
                "values must be integers.",
                hint="round them to a public grid first, and count the rounding in the sensitivity",
            )
        if len(numbers.entries) > self.steps:
            raise InvalidParameter(
                f"values must hold at most steps = {self.steps} elements, not {len(numbers.entries)}."
            )
        source = SystemEntropy() if rng is None else rng
        return self.measured.release(numbers.entries, lambda n: self.noise.draw(n, source))

    def start(self, *, rng: Entropy | None = None) -> CountingRun:
        """Return a run that takes one element after another; it costs what `loss` says, once."""
        return CountingRun(self.measured, self.noise, SystemEntropy() if rng is None else rng)

    def error(self, confidence: Real = 0.95, *, step: int | None = None) -> float:
        """Return a half-width within which the error of the answer at this step stays; by default at the worst step.

        The roundings of floats, some 10⁻¹⁵ of the largest sum, come on top.
        """
        at = self._step(step)
        return half_width(self.noise, self.measured.squares(at), self.measured.absolutes(at), confidence)

    def deviation(self, step: int | None = None) -> float:
        """Return the standard deviation of the answer at this step; by default at the worst step."""
        return math.sqrt(self.measured.squares(self._step(step)) * self.noise.variance)

    @property
    def root_mean_square(self) -> float:
        """The root of the mean squared error over all steps."""
        return math.sqrt(self.measured.mean_squares() * self.noise.variance)

    def explain(self) -> str:
        e, m = decimal(self.epsilon), self.measured
        moved = self.sensitivity * (2 if self.relation is Relation.REPLACE else 1)
        if self.delta:
            root = math.sqrt(m.sensitivity(self.contributions)) * moved
            size = f"in ℓ2 by at most {root:.6g}"
            law = f"N(0, σ²) with σ = {math.sqrt(self.noise.variance):.6g}, rounded"
            end = f"The loss is μ-GDP with μ = {math.sqrt(self._events.parts[0][0].mu_squared or 0):.6g}: ({e}, "
            end += f"{decimal(self.delta)})-DP."
        else:
            l1 = m.l1(self.contributions) * moved
            size = f"in ℓ1 by at most {l1}"
            law = f"the discrete Laplace law of scale {l1}/{e}"
            end = f"The ratio of probabilities is at most exp({e}): {e}-DP."
        return numbered(
            repr(self),
            f"Neighbours. A unit changes at most {self.contributions} of the elements, each by at most "
            f"{self.sensitivity}; relation {self.relation.value}, so a change is at most {moved}.",
            m.explained(),
            f"Sensitivity. What is measured, in units of 2^-{m.bits}, moves {size}.",
            f"Noise. Each measured integer gets its own noise from {law}.",
            f"Conclusion. {end}",
            "Answers. They are made of noisy integers up to their step: post-processing.",
            f"Error. Within ±{self.error():.6g} at every step with confidence 95%.",
        )

    def _step(self, step: int | None) -> int:
        if step is None:
            return self.measured.worst()
        at = count("step", step)
        if at > self.steps:
            raise InvalidParameter(f"step must be at most steps = {self.steps}, not {at}.")
        return at

    def __repr__(self) -> str:
        names, add_remove = ("epsilon", "steps"), Relation.ADD_REMOVE
        return called(self, *names, sensitivity=1, delta=0, factorization="tree", contributions=1, relation=add_remove)


def _measured(kind: str, steps: int, contributions: int, moved: int, asked: AskedGuarantee) -> Factorization:
    """Return the factorisation, in units so small that the noise is fine."""
    if kind == "tree":
        tree = BlockTree.best(steps, is_pure=asked.is_pure)
        width = asked.width(tree.l1(contributions) * moved, tree.sensitivity(contributions) * moved**2)
        return BlockTree(steps, tree.height, bits_for(width))
    # Rounding moves R by less than 2^-10 of it in all: L stays within a thousandth of f.
    least = steps.bit_length() + 9
    return SquareRoot(steps, max(least, bits_for(asked.width(moved, moved**2))))


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
        """Start a run; `BinaryTree.start` does it."""
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
        """Return the noisy sum of all elements so far, this one included.

        Raises:
            InvalidParameter: not an integer, more elements than declared, or a run that another process started.
                Nothing is answered, and the run goes on as if it had not been asked.
        """
        self._stay()
        if isinstance(value, bool) or type(value).__name__ == "bool":
            raise InvalidParameter(
                "an element must be an integer, not a truth value.", hint="use int(value) to count it as 0 or 1"
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
            return float(self._progress.add(whole))

    def error(self, confidence: Real = 0.95) -> float:
        """Return a half-width within which the error of the last answer (before any, of the first) stays."""
        step = max(self.taken, 1)
        f = self._factorization
        return half_width(self._noise, f.squares(step), f.absolutes(step), confidence)


_LONGEST = 256  # bits of an element; a longer one is cut off there, since floats of answers end somewhere


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
    def best(cls, steps: int, *, is_pure: bool = False, participations: int = 1, separation: int = 1) -> BlockTree:
        """Return the height of the least error at its worst step: a level less is less noise, more blocks to add."""

        def cost(height: int) -> float:
            tree = cls(steps, height)
            moved = tree.l1(1) ** 2 if is_pure else tree.sensitivity(participations, separation)
            return float(moved) * tree.squares(tree.worst())

        return cls(steps, min(range(steps.bit_length()), key=cost))

    @property
    def levels(self) -> int:
        """In how many blocks an element is."""
        return self.height + 1

    def l1(self, contributions: int) -> int:
        return (self.levels * contributions) << self.bits

    def sensitivity(self, participations: int, separation: int = 1) -> int:
        # On each level the sum of squares is largest where blocks are as full as can be. The first elements of this
        # distance reach it on all levels at once where it is a power of two; else it is more than there can be.
        found, least = 0, min(participations, -(-self.steps // separation))
        for h in range(self.levels):
            most = -(-(1 << h) // separation)
            full, rest = divmod(least, most)
            found += full * most * most + rest * rest
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

    def begin(self, draw: Draw, width: int | None = None) -> Progress:
        return _Growing(self, draw, width)

    def explained(self) -> str:
        return (
            f"Tree. Each element is in one block of each of the {self.levels} heights 0, …, {self.height}; one noisy "
            "sum is kept for each complete block."
        )


class _Growing(Progress):
    """A tree that grows: for each open height the exact sum of its left block, and what was made of noisy sums."""

    __slots__ = ("_tree",)

    def __init__(self, tree: BlockTree, draw: Draw, width: int | None) -> None:
        super().__init__(draw, width)
        self._tree = tree
        # elements, finished largest blocks, (exact, raised) of the open heights
        self.state = (0, 0.0, ())

    def add(self, value: Any) -> Any:
        seen, done, opened = self.state
        exact = value << self._tree.bits
        raised = np.float64(exact + self._noise())
        left = list(opened)
        h = 0
        while h < self._tree.height and seen >> h & 1:
            other, above = left.pop()
            exact = exact + other
            h += 1
            raised = above + raised + 2.0**h * np.float64(exact + self._noise())
        if h == self._tree.height:
            done = done + raised / (2.0 ** (h + 1) - 1)
        else:
            left.append((exact, raised))
        open_heights = [i for i in range(self._tree.height - 1, -1, -1) if (seen + 1) >> i & 1]
        answer = done
        for i, (_, made) in zip(open_heights, left, strict=True):
            answer = answer + made / (2.0 ** (i + 1) - 1)
        # At once, so that an interrupted call leaves the run as it was; its draws are never used again.
        self.state = (seen + 1, done, tuple(left))
        return answer * 2.0**-self._tree.bits


def _ones(n: int) -> list[int]:
    """Return the places of the ones of n."""
    return [i for i in range(n.bit_length()) if n >> i & 1]


def _square(h: int) -> float:
    """Σ c² of the estimate of a block of height h: 2^(h−k) noisy sums of weight 2^k/(2^(h+1) − 1)."""
    return float(2.0**h / (2.0 ** (h + 1) - 1))


def _absolute(h: int) -> float:
    return (h + 1) * _square(h)
