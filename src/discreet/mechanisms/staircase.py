"""The staircase mechanism: steps that fall by e^ε each, Δ integers wide, a part of each a step ahead."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import numbered, one_changed
from discreet.mechanisms.additive import Additive, Integers, as_objects
from discreet.mechanisms.numeric import Lattice, Numeric, fine_grid
from discreet.mechanisms.parameters import read_dimension, read_size
from discreet.mechanisms.values import NumberArray
from discreet.noise import fixedpoint, geometric, laplace
from discreet.noise.entropy import Entropy, below, below_vector, words16, words64
from discreet.noise.table import LazyUniform
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.exact import Real, exact, set_fields
from discreet.privacy.guarantee import called, decimal
from discreet.privacy.unit import Sensitivity

_FINEST = Fraction(1, 1 << 20)  # floats need no grid finer than this part of Δ, beside 2^-20 of it

_WORD = 64
_SMALL = 1 << 62  # places below it, and their steps, are drawn as 64-bit integers
_MARGIN = 2.0**-36  # relative; far above the rounding of the few float operations in a tail


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Staircase(Numeric):
    """Adds noise whose mass is a staircase: level on stretches, falling by e^ε every Δ.

    Of all ε-DP noise for one number of sensitivity Δ it has the least expected |error|: Δ/(2·sinh(ε/2)), which
    falls like e^(−ε/2) as ε grows where that of `Laplace`, Δ/ε, falls like 1/ε. Below ε = 1 the two hardly
    differ. On integers with Δ = 1 it is `Geometric`.

    Guarantee:
        ε-DP when the value moves by at most `sensitivity` = Δ between neighbours, under the relation for
        which Δ was computed. An array needs `dimension` = n, and then *each* of its numbers may move by up to
        Δ (ℓ∞, not ℓ1 as for `Laplace`): each has noise for ε/n, since a move by however little can cost all of its ε.
        Floats are rounded to a grid chosen from Δ, ε, gamma and n alone, and what rounding adds to Δ widens the steps,
        so ε holds as stated. Any `gamma` is private. The type of the value is public: see `Numeric`.

    References:
        Geng, Viswanath 2014, the Theorems on optimality for real numbers and for integers,
        https://arxiv.org/abs/1212.1186; docs/proofs/staircase.md.

    >>> Staircase(epsilon=5, sensitivity=100).error(confidence=0.95)
    47.0
    """

    epsilon: Fraction
    sensitivity: Fraction
    gamma: Fraction | None
    dimension: int | None

    def __init__(
        self, *, epsilon: Real, sensitivity: Real = 1, gamma: Real | None = None, dimension: int | None = None
    ) -> None:
        """Make the mechanism.

        Args:
            epsilon: the privacy parameter.
            sensitivity: how far the value, or each number of an array, moves between neighbours.
            gamma: the share of each step that is level with it, above 0 and at most 1; by default the one for
                which the expected |error| is least.
            dimension: how many numbers an array holds.
        """
        set_fields(self, epsilon=read_size("epsilon", epsilon), sensitivity=read_size("sensitivity", sensitivity))
        set_fields(self, gamma=None if gamma is None else _share(gamma), dimension=read_dimension(dimension))

    @property
    def noise(self) -> StaircaseNoise:
        return self._law(max(1, math.floor(self.sensitivity)))

    @property
    def lattice(self) -> Lattice:
        grid = fine_grid(self._width(), self.sensitivity)
        steps = grid.linf(self.sensitivity)
        return Lattice(grid, steps, self._law(steps))

    @property
    def events(self) -> Composed:
        return Composed([(ApproximateEvent(self._each), self.dimension or 1)])

    @property
    def _each(self) -> Fraction:
        """The ε of one number."""
        return self.epsilon / (self.dimension or 1)

    def _law(self, width: int) -> StaircaseNoise:
        if self.gamma is None:
            return StaircaseNoise(self._each, width, best_inner(self._each, width))
        return StaircaseNoise(self._each, width, min(max(1, round(self.gamma * width)), width))

    def _width(self) -> Fraction:
        """About how wide the noise is: that of whole steps, or of the level part of the first one."""
        e = self._each
        if e <= 1:
            return self.sensitivity / e
        share = self.gamma if self.gamma is not None else Fraction(1 / (1 + math.exp(min(float(e) / 2, 99.0))))
        return self.sensitivity * max(share, _FINEST)

    def _check_size(self, numbers: NumberArray) -> None:
        if self.dimension is None and numbers.shape is not None:
            raise InvalidParameter(
                "an array needs dimension=, since its numbers share ε.",
                hint=f"Staircase(..., dimension={len(numbers.entries)}) where this length is public; Laplace, "
                "whose sensitivity is the sum over the entries, is often better for arrays",
            )
        Numeric._check_size(self, numbers)

    def explain(self) -> str:
        e, d = decimal(self._each), decimal(self.sensitivity)
        n, law, fine = self.dimension or 1, self.noise, self.lattice
        many = f" Each of {n} numbers has ε/{n} = {e} of ε = {decimal(self.epsilon)}." if n > 1 else ""
        return numbered(
            repr(self),
            f"Sensitivity. Neighbours x, y have |f(x) − f(y)| ≤ Δ = {d} (in an array: each of its numbers).{many}",
            f"Noise. M(x) = f(x) + Z with P(Z = ±(k·{law.width} + j)) ∝ exp(−k·{e}) for 0 ≤ j < {law.inner}"
            + (f", and ∝ exp(−(k + 1)·{e}) for {law.inner} ≤ j < {law.width}." if law.inner < law.width else "."),
            f"Falling. The mass does not rise with |Z|, and {law.width} further out it is exp(−{e}) of itself.",
            f"Ratio. So P(Z = z) ≤ exp({e})·P(Z = z + d) whenever |d| ≤ {law.width}: |z + d| ≤ |z| + {law.width}.",
            f"Conclusion. P(M(x) = o) / P(M(y) = o) ≤ exp({e}) for every o: "
            + (f"M is {e}-DP." if n == 1 else f"over {n} numbers M is {decimal(self.epsilon)}-DP."),
            one_changed(self.epsilon),
            f"Floats. Rounded to multiples of 2^{fine.grid.exponent}, neighbours differ by at most {fine.steps} "
            f"steps; a staircase that is {fine.steps} of them wide gives exp({e}) again.",
            f"Error. Within ±{self.error():.6g} with confidence 95%.",
        )

    def __repr__(self) -> str:
        return called(self, "epsilon", "sensitivity", "gamma", "dimension")


def _share(gamma: Real) -> Fraction:
    g = exact("gamma", gamma)
    if not 0 < g <= 1:
        raise InvalidParameter(
            f"gamma must lie above 0 and be at most 1, not {gamma}.", hint="leave it out for the best one"
        )
    return g


@dataclass(frozen=True, slots=True)
class StaircaseNoise(Additive):
    """P(Z = ±(kΔ + j)) ∝ e^(−kε) for 0 ≤ j < inner, and ∝ e^(−(k+1)ε) for inner ≤ j < Δ.

    Guarantee:
        One integer that moves by at most `width` = Δ costs ε, and one that moves by m·Δ or less costs mε. A
        move by 1 can cost ε as well, so that numbers which move together cost ε each: unlike for Laplace
        noise, their ℓ1 distance says nothing (docs/proofs/staircase.md).

    References:
        Geng, Viswanath 2014 (the discrete setting), https://arxiv.org/abs/1212.1186

    Attributes:
        epsilon: by how much the logarithm of the mass falls from one step to the next.
        width: Δ, the width of a step.
        inner: how many integers of each step are as likely as the step says; the others belong to the next.
    """

    epsilon: Fraction
    width: int
    inner: int

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise InvalidParameter(f"epsilon must be above 0, not {self.epsilon}.")
        if not 1 <= self.inner <= self.width:
            raise InvalidParameter(f"inner must lie between 1 and the width of a step, not {self.inner}.")

    def event(self, sensitivity: Sensitivity) -> Composed:
        if not sensitivity.l0 or not sensitivity.linf:
            return Composed()
        steps = -(-sensitivity.linf // self.width)
        return Composed([(ApproximateEvent(steps * self.epsilon), sensitivity.l0)])

    def draw(self, size: int, rng: Entropy) -> Integers:
        z, refused = self._proposals(size, rng)
        again = np.flatnonzero(refused)
        while len(again):
            more, refused = self._proposals(len(again), rng)
            if more.dtype == object and z.dtype != object:
                z = as_objects(z.tolist())
            z[again] = more
            again = again[refused]
        return z

    def tail(self, t: int) -> float:
        if t < 0:
            return 1.0
        k, j = divmod(t + 1, self.width)
        b, r, outer = math.exp(-_capped(self.epsilon)), self.inner, self.width - self.inner
        far = max(0, j - r)
        # Σ over i ≥ j of one step's weights and b times those before j: no difference that loses digits
        rest = max(0, r - j) + b * (outer - far) + b * (min(j, r) + b * far)
        whole = 2 * (r + b * outer) + math.expm1(-_capped(self.epsilon))  # 2C − (1 − b), at least r
        return min(1.0, 2 * math.exp(-_capped(k * self.epsilon)) * (rest / whole) * (1 + _MARGIN) + 5e-324)

    def cdf(self, t: NDArray[np.float64]) -> NDArray[np.float64]:
        k = np.floor(t)
        m = np.where(k < 0, -k, k + 1)  # P(Z ≤ k) is P(Z ≥ m) or 1 − P(Z ≥ m)
        width, r, e = float(self.width), float(self.inner), float(self.epsilon)
        b, outer = math.exp(-min(e, 1e3)), float(self.width - self.inner)
        step = np.floor(m / width)
        j = m - step * width
        far = np.maximum(0.0, j - r)
        rest = np.maximum(0.0, r - j) + b * (outer - far) + b * (np.minimum(j, r) + b * far)
        whole = 2 * (r + b * outer) + math.expm1(-min(e, 1e3))
        with np.errstate(under="ignore"):
            above = np.exp(-np.minimum(step * e, 1e3)) * rest / whole
        return np.asarray(np.where(k < 0, above, 1 - above))

    @property
    def variance(self) -> float:
        d, r, e = float(self.width), float(self.inner), _capped(self.epsilon)
        b, p = math.exp(-e), -math.expm1(-e)
        mass = r + b * (d - r)
        first = (p * r * (r - 1) + b * d * (d - 1)) / 2
        second = (p * (r - 1) * r * (2 * r - 1) + b * (d - 1) * d * (2 * d - 1)) / 6
        ahead = b / p  # Σ k·bᵏ over Σ bᵏ, and below the same for k²
        squares = mass * d * d * ahead * (1 + b) / p + 2 * d * first * ahead + second
        return 2 * squares / (2 * mass - p)

    def _proposals(self, size: int, rng: Entropy) -> tuple[Integers, NDArray[np.bool_]]:
        """Magnitudes with a fair sign, and which of them are −0, which is refused."""
        magnitude = self._magnitudes(size, rng)
        minus = (words16(rng, size) & np.uint16(1)).astype(bool)
        return np.where(minus, -magnitude, magnitude), minus & (magnitude == 0).astype(bool)

    def _magnitudes(self, size: int, rng: Entropy) -> Integers:
        """kΔ + j: the step k is geometric, the side of j a coin, its place uniform."""
        scale = 1 / self.epsilon
        if scale <= laplace.LARGEST_SCALE:
            k = geometric.sample_vector(scale, size, rng)
        else:
            k = as_objects([geometric.sample(scale, rng) for _ in range(size)])
        small = self.width <= _SMALL
        inner, outer = (self._places(n, size, rng) for n in (self.inner, self.width - self.inner))
        # Both are drawn, so that the work is the same whichever is shown.
        j = np.where(self._coins(size, rng), inner, self.inner + outer)
        if small and k.dtype != object and size and (int(k.max()) + 1) * self.width <= _SMALL:
            return np.asarray(k * self.width + j)
        return as_objects([a * self.width + c for a, c in zip(k.tolist(), j.tolist(), strict=True)])

    def _places(self, n: int, size: int, rng: Entropy) -> Integers:
        """Uniform places below n; where n = 0 they are never shown."""
        if self.width <= _SMALL:
            return below_vector(max(1, n), size, rng)
        return as_objects([below(max(1, n), rng) for _ in range(size)])

    def _coins(self, size: int, rng: Entropy) -> NDArray[np.bool_]:
        """Return whether each place lies in the inner part, of chance exactly inner/(inner + e^−ε(Δ − inner))."""
        u = words64(rng, size)
        lo, hi = _bounds(self, _WORD)
        shown = u < np.uint64(lo) if lo < 1 << _WORD else np.ones(size, dtype=bool)
        undecided = ~shown if hi >= 1 << _WORD else (u < np.uint64(hi)) & ~shown
        for i in np.flatnonzero(undecided):
            shown[i] = self._settle(LazyUniform(int(u[i]), _WORD, rng))
        return shown

    def _settle(self, u: LazyUniform) -> bool:
        """Return the coin that a word leaves open, by further digits."""
        while True:
            lo, hi = _bounds(self, u.bits)
            if u.value < lo:
                return True
            if u.value >= hi:
                return False
            u.extend()


@lru_cache(maxsize=64)
def best_inner(epsilon: Fraction, width: int) -> int:
    """Return the part of a step for which E|Z| is least, to within rounding in e^−ε at 256 bits and more.

    Any part is private; this one is a public function of ε and Δ. With b = e^−ε and C = r + b(Δ − r), E|Z| is
    2·N(r)/((1 − b)(2C − 1 + b)) with a convex quadratic N, so that it falls and then rises as r grows.
    """
    bits = 256 + 2 * width.bit_length()
    b, one = fixedpoint.exp_neg(epsilon, bits)[1], 1 << bits
    p = one - b

    def terms(r: int) -> tuple[int, int]:
        mass = r * one + b * (width - r)
        rest = p * (p * r * (r - 1) + b * width * (width - 1))
        return 2 * width * mass * b + rest, 2 * mass - p

    low, high = 1, width
    while low < high:
        r = (low + high) // 2
        (n, d), (n_next, d_next) = terms(r), terms(r + 1)
        if n_next * d < n * d_next:
            low = r + 1
        else:
            high = r
    return low


@lru_cache(maxsize=64)
def _bounds(law: StaircaseNoise, bits: int) -> tuple[int, int]:
    """(lo, hi) with lo ≤ 2^bits·p ≤ hi for the chance p of the inner part; a first digit string below lo means
    U < p, one of at least hi means U ≥ p.
    """
    fine = bits + law.width.bit_length() + 8
    least, most = fixedpoint.exp_neg(law.epsilon, fine)
    r, outer = law.inner << fine, law.width - law.inner
    return (r << bits) // (r + most * outer), -(-(r << bits) // (r + least * outer))


def _capped(x: Fraction) -> float:
    return float(x) if x < 1000 else 1e3  # where exp has long underflowed
