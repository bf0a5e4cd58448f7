"""The parameter of a family that a promise allows: how much noise it needs, how many steps it affords.

Where a falling quantity first reaches 0, in as few looks at it as can be: each look may be costly.

Positions are s = log x where the quantity falls in x, and s = −log x where it grows. The next look goes where
the inverse of the polynomial through the last ones sees the root, and never outside of what is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, Literal, overload

from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, positive, probability
from discreet.privacy.guarantee import Approximate

_MOST_COUNT = 2**62

_FARTHEST = 277.0  # e^277 is 2^400: beyond that no parameter is looked for
_MOST_LOOKS = 200
_EDGE = 1e-6  # the rounding of a parameter at the ends


@overload
def calibrate(
    family: Callable[[Fraction], PrivacyLoss],
    *,
    epsilon: Real | None = None,
    delta: Real = 0,
    targets: Iterable[tuple[Real, Real]] | None = None,
    start: Real = 1,
    tolerance: float = 1e-6,
    increasing: bool = False,
    most: Real | None = None,
    integer: Literal[False] = False,
) -> Fraction: ...


@overload
def calibrate(
    family: Callable[[int], PrivacyLoss],
    *,
    epsilon: Real | None = None,
    delta: Real = 0,
    targets: Iterable[tuple[Real, Real]] | None = None,
    start: Real = 1,
    tolerance: float = 1e-6,
    increasing: bool = False,
    most: Real | None = None,
    integer: Literal[True],
) -> int: ...


def calibrate(
    family: Callable[[Any], PrivacyLoss],
    *,
    epsilon: Real | None = None,
    delta: Real = 0,
    targets: Iterable[tuple[Real, Real]] | None = None,
    start: Real = 1,
    tolerance: float = 1e-6,
    increasing: bool = False,
    most: Real | None = None,
    integer: bool = False,
) -> Fraction | int:
    """Return the least parameter of `family` that was found to meet (ε, δ), or the largest when the loss grows with it.

    Guarantee:
        `family` at the returned parameter meets every promise: exactly that value was evaluated, in exact
        arithmetic where the loss has any. This holds for every family. That it is nearly the *best* such
        parameter needs a loss that only falls with it, as with a noise multiplier or a scale, or only grows,
        as with a sample rate, a number of steps or the ε of a query. (The discrete Gaussian's δ at one ε does
        grow with σ in places; so a larger parameter is to be asked again.)

    Args:
        family: the loss at a parameter above 0; for `integer`, at an int.
        epsilon: the ε to meet, above 0.
        delta: the δ to meet.
        targets: several (ε, δ) to meet at once, in place of `epsilon` and `delta`.
        start: where the search begins; a good guess saves evaluations.
        tolerance: how far from the best parameter the answer may lie, relatively.
        increasing: whether the loss grows with the parameter; the largest one is searched then.
        most: the largest parameter that `family` takes, such as 1 for a sample rate.
        integer: whether the parameter is a count; the answer is then the best one exactly.

    Raises:
        InvalidParameter: no parameter meets it, every one does, or `family` has no finite ε at that δ.

    >>> from discreet.accounting import gaussian
    >>> float(calibrate(gaussian, epsilon=1, delta=1e-5))
    3.73063...
    >>> calibrate(lambda n: gaussian(10) * n, epsilon=1, delta=1e-5, increasing=True, integer=True)
    7
    """
    first, end = positive("start", start), None if most is None else positive("most", most)
    if not 1e-14 < tolerance < 1:
        raise InvalidParameter(f"tolerance must lie between 1e-14 and 1, not {tolerance}.")
    measured = _Family(family, _promises(epsilon, delta, targets), integer)
    first = first if end is None else min(first, end)
    binding, done = measured.worst(first) if len(measured.promises) > 1 else 0, set[int]()
    while True:
        excess = partial(measured.excess, binding)
        search = Search(excess, increasing, first, end, slope=0.5 if integer and increasing else 1.0)
        try:
            found = search_integer(search, _MOST_COUNT) if integer else search_real(search, tolerance)
        except InvalidParameter as error:  # the family's own, or its loss's
            raise measured.explained(binding, increasing) or measured.beyond(error) from None
        if found is None:
            raise measured.explained(binding, increasing) or measured.nowhere(binding, increasing)
        if integer and not increasing and found == 1 and measured.grows_from_one(binding, end):
            raise _wrong_way(True)
        first = found
        if all(measured.excess(i, first) <= 0 for i in range(len(measured.promises))):
            return int(first) if integer else first
        done.add(binding)
        binding = measured.worst(first)
        if binding in done:  # it was met on the safe side of its own search, and is not here
            raise InvalidParameter(
                "no parameter was found that meets all targets: the loss neither only falls nor only grows.",
                hint="calibrate to each target apart, and check the results",
            )


def _promises(epsilon: Real | None, delta: Real, targets: Iterable[tuple[Real, Real]] | None) -> list[Approximate]:
    if (epsilon is None) == (targets is None):
        raise InvalidParameter(
            "epsilon must be given, or targets with a pair (ε, δ) for each promise, and not both.",
            hint="epsilon=1, delta=1e-6, or targets=[(1, 1e-6), (2, 1e-9)]",
        )
    pairs = list(targets) if targets is not None else [(epsilon, delta)]
    if not pairs:
        raise InvalidParameter("targets must have at least one pair (ε, δ).")
    return [Approximate(positive("epsilon", e), probability("delta", d)) for e, d in pairs if e is not None]


@dataclass(slots=True)
class _Family:
    """A family measured against promises, each parameter and promise once."""

    family: Callable[[Any], PrivacyLoss]
    promises: list[Approximate]
    integer: bool
    losses: dict[Fraction, PrivacyLoss] = field(default_factory=dict)
    known: dict[tuple[int, Fraction], float] = field(default_factory=dict)
    last: Fraction = Fraction(0)

    def excess(self, promise: int, x: Fraction) -> float:
        """By how much a promise is missed at x; at most 0 exactly when it is met."""
        if (promise, x) not in self.known:
            self.last = x
            if x not in self.losses:
                self.losses[x] = self._loss(x)
            self.known[promise, x] = _excess(self.losses[x], self.promises[promise])
        return self.known[promise, x]

    def worst(self, x: Fraction) -> int:
        """Return the promise that is missed most at x, or met most barely."""
        x = Fraction(max(round(x), 1)) if self.integer else x
        return max(range(len(self.promises)), key=lambda i: self.excess(i, x))

    def _loss(self, x: Fraction) -> PrivacyLoss:
        try:
            loss: object = self.family(int(x) if self.integer else x)
        except (InvalidParameter, TypeError):
            n = max(round(x), 1)
            if not self.integer and self._takes(n) and not self._takes(Fraction(n)):
                raise InvalidParameter(
                    f"the parameter of this family is a whole number, and {float(x):.6g} was tried as a fraction.",
                    hint="give integer=True",
                ) from None
            raise
        if not isinstance(loss, PrivacyLoss):
            raise InvalidParameter(
                f"family must return a loss, not {type(loss).__name__}.",
                hint="as in calibrate(lambda sigma: gaussian(sigma) * 10, …)",
            )
        return loss

    def _takes(self, x: int | Fraction) -> bool:
        try:
            return isinstance(self.family(x), PrivacyLoss)
        except (InvalidParameter, TypeError):
            return False

    def beyond(self, error: InvalidParameter) -> InvalidParameter:
        """Return what the family says at a parameter to which the search has led, and the way back."""
        if not self.known:  # it was the first one
            return error
        return InvalidParameter(
            error.message,
            hint=f"the search had come to the parameter {float(self.last):.6g}: give most= where the parameter "
            "ends, and increasing=True when the loss grows with it",
        )

    def explained(self, promise: int, increasing: bool) -> InvalidParameter | None:
        """Return the refusal of a loss that was seen to move the other way than was said, if it was."""
        seen = sorted((x, excess) for (i, x), excess in self.known.items() if i == promise)
        if len(seen) < 2 or seen[0][1] == seen[-1][1]:
            return None
        grows = seen[0][1] < seen[-1][1]
        return None if grows == increasing else _wrong_way(grows)

    def nowhere(self, promise: int, increasing: bool) -> InvalidParameter:
        """Return the refusal where nothing, or everything, meets the promise."""
        seen = {x: excess for (i, x), excess in self.known.items() if i == promise}
        least, most = float(min(seen)), float(max(seen))
        if all(excess <= 0 for excess in seen.values()):
            return InvalidParameter(
                f"every parameter that was tried, from {least:.6g} to {most:.6g}, meets the promise: there is no "
                f"{'largest' if increasing else 'least'} one.",
                hint="give most= where the parameter ends" if increasing else "ask for a smaller epsilon",
            )
        return InvalidParameter(
            f"no parameter that was tried, from {least:.6g} to {most:.6g}, meets the promise.",
            hint="part of the loss may not depend on the parameter, or most= ends too early; "
            "a larger epsilon or delta can be met",
        )

    def grows_from_one(self, promise: int, most: Fraction | None) -> bool:
        """Return whether the loss of two is larger than that of one, so that the least count is no answer."""
        if most is not None and most < 2:
            return False
        try:
            return self.excess(promise, Fraction(2)) > self.excess(promise, Fraction(1))
        except InvalidParameter:
            return False


def _wrong_way(grows: bool) -> InvalidParameter:
    if grows:
        return InvalidParameter(
            "the loss of this family grows with its parameter, and the least parameter was looked for.",
            hint="give increasing=True, and most= where the parameter ends (1 for a sample rate)",
        )
    return InvalidParameter(
        "the loss of this family falls as its parameter grows, and the largest parameter was looked for.",
        hint="leave increasing=True out",
    )


def _excess(loss: PrivacyLoss, promise: Approximate) -> float:
    if loss.failure > promise.delta:  # more δ is spent apart than there is: a miss, however large the ε
        return math.inf
    try:
        found = loss.guarantee(promise.delta).epsilon
    except InvalidParameter:
        if loss.failure:  # all of δ is spent apart, and what is left needs some
            return math.inf
        raise
    difference = _noise(found, promise.delta) - _noise(promise.epsilon, promise.delta)
    return min(difference, 0.0) if found <= promise.epsilon else max(difference, 1e-300)


def _noise(epsilon: Fraction, delta: Fraction) -> float:
    """Return the logarithm of μ, roughly, of the Gaussian use with that ε and δ: nearly linear in that of a noise
    scale.

    Only the speed of the search depends on it, and that it grows with ε: ε = μ²/2 + μz with z the quantile of
    δ, and μ = 2ε/(z + √(z² + 2ε)).
    """
    if not epsilon:
        return -700.0
    log_epsilon = math.log(epsilon.numerator) - math.log(epsilon.denominator)
    if not delta:
        return log_epsilon
    size = 2 * (math.log(delta.denominator) - math.log(delta.numerator))
    z = math.sqrt(max(size - math.log(size + 1) - math.log(2 * math.pi), 0.0))
    if log_epsilon > 600:
        return (log_epsilon + math.log(2)) / 2
    e = math.exp(log_epsilon)
    return math.log(2) + log_epsilon - math.log(z + math.sqrt(z * z + 2 * e))


@dataclass(frozen=True, slots=True)
class Trial:
    """One value: at the position s the parameter x has this excess, at most 0 exactly where x will do."""

    s: float
    excess: float
    x: Fraction


@dataclass(slots=True)
class Search:
    """A search for the best x at which `excess` is at most 0, from `first` on, and at `most` at most.

    Attributes:
        excess: what is looked at; it falls in x, or grows if `increasing`.
        increasing: whether it grows, so that the largest x is wanted and not the smallest.
        first: where to look first.
        most: the largest x that may be looked at.
        slope: a guess of how fast the excess changes with log x.
    """

    excess: Callable[[Fraction], float]
    increasing: bool
    first: Fraction
    most: Fraction | None = None
    slope: float = 1.0
    looks: list[Trial] = field(default_factory=list)

    def look(self, x: Fraction) -> Trial:
        """Look at x, or remember having looked."""
        for known in self.looks:
            if known.x == x:
                return known
        found = Trial(self.place(x), self.excess(x), x)
        self.looks.append(found)
        return found

    def place(self, x: Fraction) -> float:
        """Return the position of x."""
        s = math.log(x.numerator) - math.log(x.denominator)
        return -s if self.increasing else s

    @property
    def miss(self) -> Trial | None:
        """The look nearest to the root of those beyond it that will not do."""
        best = self.hit
        beyond = [at for at in self.looks if at.excess > 0 and (best is None or at.s < best.s)]
        return max(beyond, key=lambda at: at.s, default=None)

    @property
    def hit(self) -> Trial | None:
        """The best look that will do."""
        return min((at for at in self.looks if at.excess <= 0), key=lambda at: at.s, default=None)

    def root(self) -> float:
        """Where the root should be; within what brackets it, when both sides are known."""
        miss, hit, last = self.miss, self.hit, self.looks[-1]
        if miss is not None and hit is not None:
            for many in (4, 3, 2):
                s = _inverse(self.looks, many)
                if s is not None and miss.s < s < hit.s:
                    return s
            return (miss.s + hit.s) / 2
        near = sorted(self.looks, key=lambda at: abs(at.s - last.s))[:2]
        step, slope = 0.0, self.slope
        if len(near) == 2:
            step = abs(near[0].s - near[1].s)
            if math.isfinite(near[0].excess) and math.isfinite(near[1].excess) and step:
                slope = (near[0].excess - near[1].excess) / (near[1].s - near[0].s)
        way = last.excess / slope if slope > 1e-3 and math.isfinite(last.excess) else math.inf
        way = max(min(abs(way), max(1.5, 3 * step)), 1e-12)
        return last.s + way if hit is None else last.s - way

    def stalled(self) -> bool:
        """Return whether the last looks hardly narrowed the bracket, as at a jump: then halving is better."""
        return len(self.looks) > 8 and len(self.looks) % 3 == 0


def search_real(search: Search, tolerance: float) -> Fraction | None:
    """Return the best x to a relative tolerance; None where there is none between what will do and what will not."""
    digits = max(8, math.ceil(-math.log10(tolerance)) + 2)
    low, high = _range(search)
    search.look(search.first)
    while len(search.looks) < _MOST_LOOKS:
        miss, hit = search.miss, search.hit
        if hit is not None and hit.s <= low:
            return hit.x if search.increasing and search.most is not None else None
        if hit is not None and (_is_near(search, hit, tolerance) or (miss is not None and hit.s - miss.s <= tolerance)):
            return hit.x
        if miss is not None and hit is None and miss.s >= high - _EDGE:
            return None
        s = search.root()
        if miss is not None and hit is not None:
            if search.stalled():
                s = (miss.s + hit.s) / 2
            elif hit.s - s <= 0.8 * tolerance:  # all that is missing is a miss close below
                s = max(hit.s - 0.9 * tolerance, (miss.s + hit.s) / 2)
            elif s - miss.s <= 0.8 * tolerance:
                s = min(miss.s + 0.9 * tolerance, (miss.s + hit.s) / 2)
            else:
                s += 0.3 * tolerance  # more often than not on the safe side
        else:
            s += 0.3 * tolerance
        before = len(search.looks)
        search.look(_at(search, min(max(s, low), high), low, high, digits))
        if len(search.looks) == before:  # the digits end here
            break
    return None if search.hit is None or search.miss is None else search.hit.x


def search_integer(search: Search, farthest: int) -> Fraction | None:
    """Return the best whole x exactly, if the excess is monotone; None as in `search_real`."""
    most = farthest if search.most is None else math.floor(search.most)
    if most < 1:
        raise InvalidParameter("most must be at least 1 for an integer parameter.")
    search.look(Fraction(min(max(round(search.first), 1), most)))
    best, worst = (most, 1) if search.increasing else (1, most)
    toward = 1 if search.increasing else -1  # from what will do towards what is better
    while True:
        miss, hit = search.miss, search.hit
        if miss is None and hit is not None and hit.x == best:
            return None if search.increasing and search.most is None else hit.x
        if hit is None and miss is not None and miss.x == worst:
            return None
        if hit is not None and miss is not None and abs(hit.x - miss.x) == 1:
            return hit.x
        s = search.root()
        if miss is not None and hit is not None and search.stalled():
            n = int(hit.x + miss.x) // 2
        else:
            size = math.exp(min(-s if search.increasing else s, math.log(most)))
            n = math.floor(size * (1 + 1e-12)) if search.increasing else math.ceil(size * (1 - 1e-12))
        # Strictly between what is known, and at least one away from what was looked at last.
        if hit is not None and (n - hit.x) * toward <= 0:
            n = int(hit.x) + toward
        if miss is not None and (n - miss.x) * toward >= 0:
            n = int(miss.x) - toward
        before = len(search.looks)
        search.look(Fraction(min(max(n, 1), most)))
        if len(search.looks) == before:  # rounding keeps a float from reaching the end
            search.look(Fraction(worst if hit is None else best))


def _is_near(search: Search, hit: Trial, tolerance: float) -> bool:
    """Return whether the slope there says that the root is within the tolerance; at a steady slope that is enough."""
    others = [at for at in search.looks if at is not hit and math.isfinite(at.excess) and at.s != hit.s]
    if not others or not math.isfinite(hit.excess):
        return False
    near = min(others, key=lambda at: abs(at.s - hit.s))
    slope = (near.excess - hit.excess) / (hit.s - near.s)
    local = abs(hit.s - near.s) < 0.1
    return 0.02 < slope < 50 and -hit.excess <= (0.7 if local else 0.4) * tolerance * slope


def _inverse(looks: list[Trial], many: int) -> float | None:
    """Return the position of excess 0 on the polynomial s(excess) through the `many` looks with the least excess."""
    known = sorted((at for at in looks if math.isfinite(at.excess)), key=lambda at: abs(at.excess))[:many]
    known.sort(key=lambda at: at.s)
    if len(known) < many or any(a.excess <= b.excess for a, b in pairwise(known)):
        return None
    total = 0.0
    for a in known:
        weight = math.prod(b.excess / (b.excess - a.excess) for b in known if b is not a)
        total += weight * (a.s - known[0].s)
    return known[0].s + total


def _range(search: Search) -> tuple[float, float]:
    here = search.place(search.first)
    low, high = here - _FARTHEST, here + _FARTHEST
    if search.most is not None:
        end = search.place(search.most)
        return (end, high) if search.increasing else (low, end)
    return low, high


def _at(search: Search, s: float, low: float, high: float, digits: int) -> Fraction:
    """Return the parameter at s, with few digits, so that what is returned is what was looked at."""
    if search.most is not None and s == (low if search.increasing else high):
        return search.most
    return Fraction(f"{math.exp(-s if search.increasing else s):.{digits}e}")
