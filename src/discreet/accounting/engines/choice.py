"""Which engine answers for a composition, and what it certifies.

One use is its pair's curve and Gaussian uses together are one. Products with few distinct outcomes are
enumerated; where the moment generating function has a formula it is inverted; all else is composed on a grid.
Closed forms are always asked too, and the least upper bound is reported: each of them is a theorem's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias, TypeGuard

import numpy as np

from discreet.accounting.bounds import AccountingEngine, Answer, Bounds, sums, total
from discreet.accounting.convert import SMALLEST_DELTA, gdp_delta, gdp_epsilon, invert
from discreet.accounting.engines import contour, enumeration, lattice, two_sampled_uses
from discreet.accounting.engines.closed import GAUSSIAN, SUM, deltas, epsilons
from discreet.accounting.engines.sampled_gaussian import SampledGaussianLaw
from discreet.privacy.discrete_events import RandomizedResponseEvent
from discreet.privacy.event import ApproximateEvent, Composed, DiscreteLaplaceEvent, Event, GaussianEvent, LaplaceEvent
from discreet.privacy.exact import above, below
from discreet.privacy.law import AtomsLaw, Floats, GaussianLaw, LaplaceLaw, Law, SumLaw, TimesLaw, TwoPointLaw
from discreet.privacy.pair import ACCURACY, FLOOR, Curve, Pair
from discreet.privacy.sampling import PoissonEvent

CURVE = AccountingEngine("the curve of one use", "Zhu, Dong, Wang 2022, Definition 7")
OUTCOMES = AccountingEngine("enumeration of the outcomes", "Zhu, Dong, Wang 2022, Theorem 10")
TWICE = AccountingEngine("going through the outcomes of one of two uses", "Zhu, Dong, Wang 2022, Theorem 10")
CONTOUR = AccountingEngine("contour inversion", "Zhu, Dong, Wang 2022, Theorem 10")
GRID = AccountingEngine("tilted FFT on a grid", "Zhu, Dong, Wang 2022, Theorem 10")

_FEW = 64  # distinct events for which closed forms cost nothing
_NEAR_ZERO = Fraction(1, 10**9)  # of ε: the same where ε is small
_TIGHT = 1e-6  # relatively: an engine that certifies this much is not asked again by another
_MOST_OUTCOMES = 1_000_000
_FARTHEST = 10**12
_MANY_ATOMS = 64
_ATTAINED = {ApproximateEvent, DiscreteLaplaceEvent, GaussianEvent, LaplaceEvent, RandomizedResponseEvent}
_NEVER_FAIL = _ATTAINED - {ApproximateEvent}

Sides: TypeAlias = tuple[Sequence[tuple[Pair, int]], ...]
"""The pairs of a composition with their counts; and once more reversed, unless that is the same."""


def epsilon_answer(events: Composed, delta: Fraction) -> Answer | None:
    """Return the least ε found at δ, None when there is none."""
    events = _ordered(events)
    numeric = _numeric_epsilon(events, delta) if delta >= SMALLEST_DELTA else None
    found = [] if numeric is None else [numeric]
    if numeric is None or _closed_may_be_better(events, numeric):
        lower = 0.0 if numeric is None else numeric.lower
        found += [Answer(lower, upper, engine) for upper, engine in epsilons(events, delta)]
    best = min(found, key=lambda a: a.upper, default=None)
    if best is None:
        return None
    if delta == 0:  # a sum of ε, and each of them is met by some use
        return Answer(below(best.upper), best.upper, best.engine)
    return Answer(min(best.lower, below(best.upper)), best.upper, best.engine)


def delta_answer(events: Composed, epsilon: Fraction) -> Answer:
    """Return the least δ found at ε."""
    events = _ordered(events)
    numeric = _numeric_delta(events, epsilon)
    found = [] if numeric is None else [numeric]
    if numeric is None or _closed_may_be_better(events, numeric):
        lower = 0.0 if numeric is None else numeric.lower
        found += [Answer(lower, Fraction(upper), engine) for upper, engine in deltas(events, epsilon)]
    best = min(found, key=lambda a: a.upper)
    return Answer(min(best.lower, below(best.upper)), best.upper, best.engine)


def upper_curve(events: Composed, delta: float) -> Callable[[float], float] | None:
    """At least δ(ε) at every ε ≥ 0, down to `delta` as tightly as a grid can, from a few runs of the engine.

    None where another engine answers each ε by itself, and nearer to the truth.
    """
    events = _ordered(events)
    if not events.parts or _is_single(events) or total((e.mu_squared, n) for e, n in events) is not None:
        return None
    first = next(engine for engine, _ in _engines(events, _Question()))
    if first is OUTCOMES or (first is CONTOUR and laws(events) is not None):
        return None
    known = []
    for side in _sides(events):
        curve = lattice.upper_curve(side, delta)
        if curve is None:
            return None
        known.append(curve)
    return lambda epsilon: max(curve.delta(epsilon) for curve in known)


def _numeric_epsilon(events: Composed, delta: Fraction) -> Answer | None:
    if not events.parts:
        return Answer(0.0, Fraction(0), SUM)
    mu_squared = total((e.mu_squared, n) for e, n in events)
    if mu_squared is not None:
        upper = gdp_epsilon(mu_squared, delta)
        return Answer(_just_below(upper), Fraction(upper), GAUSSIAN)
    if _is_single(events):
        return _one_epsilon(events, delta)
    return _asked(events, _Question(delta=delta))


def _numeric_delta(events: Composed, epsilon: Fraction) -> Answer | None:
    if not events.parts:
        return Answer(0.0, Fraction(0), SUM)
    mu_squared = total((e.mu_squared, n) for e, n in events)
    if mu_squared is not None:
        upper = gdp_delta(mu_squared, epsilon)
        return Answer(max(upper * (1 - 3 * ACCURACY) - 2 * FLOOR, 0.0), Fraction(upper), GAUSSIAN)
    pure = total((e.pure, n) for e, n in events)
    if pure is not None and pure <= epsilon:  # no loss is larger, except where something fails
        failed = _failed((e.failure, n) for e, n in events)
        known = _failed((e.failure, n) for e, n in events if isinstance(e, ApproximateEvent))
        return Answer(known.lower, min(Fraction(failed.upper), sums(events).failure), SUM)
    if epsilon > _FARTHEST:  # a smaller ε has the larger δ, and no engine leaves the range of floats
        near = _numeric_delta(events, Fraction(_FARTHEST))
        return None if near is None else Answer(0.0, near.upper, near.engine)
    if _is_single(events):
        pairs = [pair for side in _sides(events) for pair, _ in side]
        upper = float(_worst(pairs)(np.array(below(epsilon))))
        off = _off(pairs)
        # The parameters of pairs are rounded up, by which δ may be larger than the truth at a slightly larger ε.
        further = np.array(above(epsilon) * (1 + 2.0**-49) + 2.0**-1000)
        lower = float(_worst(pairs)(further)) * (1 - 3 * off) - 2 * FLOOR
        return Answer(max(min(lower, upper), 0.0), Fraction(upper), CURVE)
    return _asked(events, _Question(epsilon=epsilon))


def _both(known: Answer | None, bounds: Bounds, engine: AccountingEngine) -> Answer:
    if known is None:
        return Answer(bounds.lower, Fraction(bounds.upper), engine)
    lower = max(known.lower, bounds.lower)
    if bounds.upper < known.upper:
        return Answer(lower, Fraction(bounds.upper), engine)
    return Answer(lower, known.upper, known.engine)


def _closed_may_be_better(events: Composed, answer: Answer) -> bool:
    """Return whether closed forms are worth asking: an answer that is tight they only beat where ε add up exactly."""
    if _is_closed(answer) or not _is_tight(answer):
        return not _is_closed(answer)
    return len(events.parts) <= _FEW and all(e.pure is not None for e, _ in events)


def _is_closed(answer: Answer) -> bool:
    """Return whether it is a closed form already, than which the others are no better."""
    return answer.engine in (GAUSSIAN, SUM)


def _is_tight(answer: Answer) -> bool:
    return answer.upper - Fraction(answer.lower) <= Fraction(_TIGHT) * answer.upper


def _one_epsilon(events: Composed, delta: Fraction) -> Answer | None:
    pairs = [pair for side in _sides(events) for pair, _ in side]
    curve, high = _worst(pairs), max(pair.epsilon_max for pair in pairs)
    if not math.isfinite(high):
        closed = [upper for upper, _ in epsilons(events, delta)]
        high = above(min(closed)) if closed else _reached(curve, below(delta))
    if not math.isfinite(high):
        return None
    upper = invert(curve, below(delta), high=high)
    if upper is None:
        return None
    off = _off(pairs)
    if off > 0.1:
        return Answer(0.0, Fraction(upper), CURVE)
    # Where a curve that is exact up to `off` exceeds a slightly larger δ the truth exceeds δ.
    more = above(delta) * (1 + 4 * off) + 2 * FLOOR
    lower = invert(curve, more, high=high) or 0.0
    return Answer(max(lower * (1 - 1e-12), 0.0), Fraction(upper), CURVE)


def _off(pairs: Sequence[Pair]) -> float:
    """Return how far the pairs' curves may be above those of some use, relatively; at most 1."""
    return min(max(pair.accuracy for pair in pairs), 1.0) if all(pair.exact for pair in pairs) else 1.0


def _reached(curve: Callable[[Curve], Curve], delta: float) -> float:
    """Return an ε at which the curve has fallen to δ."""
    grid: Curve = np.ldexp(1.0, np.arange(-20, 11))
    meets = np.flatnonzero(curve(grid) <= delta)
    return float(grid[meets[0]]) if meets.size else math.inf


def _worst(pairs: Sequence[Pair]) -> Callable[[Curve], Curve]:
    def curve(epsilon: Curve) -> Curve:
        return np.asarray(np.max(np.stack([pair.upper(epsilon) for pair in pairs]), axis=0))

    return curve


def _sides(events: Composed) -> Sides:
    forward = [(event.pair(), n) for event, n in events]
    backward = [(pair.reverse(), n) for pair, n in forward]
    return (forward,) if forward == backward else (forward, backward)


@dataclass(frozen=True, slots=True)
class _Question:
    """The least ε at `delta`; where that is None, the least δ at `epsilon`."""

    delta: Fraction | None = None
    epsilon: Fraction = Fraction(0)


def _asked(events: Composed, question: _Question) -> Answer | None:
    best: Answer | None = None
    for engine, ask in _engines(events, question):
        bounds = ask()
        if bounds is None:
            continue
        best = _both(best, bounds, engine)
        if _is_tight(best) or (question.delta is not None and best.upper - Fraction(best.lower) <= _NEAR_ZERO):
            break
    return best


def _engines(events: Composed, question: _Question) -> Iterator[tuple[AccountingEngine, Callable[[], Bounds | None]]]:
    """Yield the engines that can answer, the best first, each as a call."""
    few = len(events.parts) <= _FEW
    sides = _sides(events) if few else ()
    known = [[(pair.law(), n) for pair, n in side] for side in sides]
    atoms = [[(law, n) for law, n in side if isinstance(law, AtomsLaw)] for side in known]
    finite = few and all(len(a) == len(b) for a, b in zip(atoms, known, strict=True))
    finite = finite and all(n <= _MOST_OUTCOMES for _, n in events)  # of one outcome there may be any number
    if finite and all(enumeration.outcomes(side) <= _MOST_OUTCOMES for side in atoms):
        yield OUTCOMES, lambda: _ask_sides(enumeration, atoms, question, sides, by_law=True)

    def inverted() -> Bounds | None:
        both = laws(events)
        return None if both is None else _ask_laws(events, both, question)

    def composed() -> Bounds | None:
        every = sides or _sides(events)
        return _ask_sides(lattice, every, question, every)

    rest = [(CONTOUR, inverted), (GRID, composed)]
    if question.delta is not None and two_sampled_uses.answers(sides):
        # Of small samples it is the quicker one where little is lost, and contours often do not get there.
        before = 0 if all(isinstance(e, PoissonEvent) and 2 * e.rate < 1 for e, _ in events) else 1
        rest.insert(before, (TWICE, lambda: _ask_sides(two_sampled_uses, sides, question, sides)))
    if any(law.loss.size > _MANY_ATOMS for side in atoms for law, _ in side):
        rest.reverse()  # their losses are steps of a grid, and heights cost as much as they are many
    yield from rest


class _Grid(Protocol):
    """An engine for one side of a composition."""

    def epsilon_bounds(self, parts: Sequence[tuple[Any, int]], delta: float) -> Bounds | None: ...

    def delta_bounds(self, parts: Sequence[tuple[Any, int]], epsilon: float) -> Bounds: ...


def _ask_sides(
    engine: _Grid,
    sides: Sequence[Sequence[tuple[Any, int]]],
    question: _Question,
    pairs: Sides,
    *,
    by_law: bool = False,
) -> Bounds | None:
    if question.delta is not None:
        found = [engine.epsilon_bounds(side, below(question.delta)) for side in sides]
    else:
        found = [engine.delta_bounds(side, below(question.epsilon)) for side in sides]
    worst = _worse(found)
    exact = all(pair.exact and (by_law or pair.accuracy <= ACCURACY) for side in pairs for pair, _ in side)
    return worst if worst is None or exact else Bounds(0.0, worst.upper)


def _ask_laws(events: Composed, sides: tuple[Law, Law], question: _Question) -> Bounds | None:
    # The laws of (ε, δ)-DP uses are those given that they do not fail; of other events, losses that are
    # infinite are missing from the law. With f the chance that one of the former fails:
    # f + (1 − f)·δ' ≤ δ ≤ F + (1 − f)·δ', F the chance that any fails.
    kinds = {type(e) for e, _ in events}  # of many events, a look at each takes its time
    attained = kinds <= _ATTAINED or all(_is_attained(e) for e, _ in events)
    failing = [] if kinds <= _NEVER_FAIL else [(e, f, n) for e, n in events if (f := e.failure)]
    known = _failed((f, n) for e, f, n in failing if isinstance(e, ApproximateEvent))
    every = _failed((f, n) for _, f, n in failing)
    lost = min(sum(n for _, n in events) * FLOOR, 1.0)  # laws may leave out so little mass
    every = Bounds(every.lower, min(every.upper + lost, 1.0))
    if question.delta is None:
        found = _worse([contour.delta_bounds(law, below(question.epsilon)) for law in sides])
        assert found is not None
        upper = every.upper + (1 - known.lower) * found.upper * (1 + 1e-15)
        lower = known.lower + (1 - known.upper) * found.lower * (1 - 1e-15) if attained else 0.0
        return Bounds(lower, min(upper * (1 + 1e-15), 1.0))
    left = (question.delta - Fraction(every.upper)) / (1 - Fraction(known.lower))
    if left < SMALLEST_DELTA:
        return None
    worst = contour.worst_epsilon(sides, below(left), reverses=not failing)
    if worst is None or not attained:
        return None if worst is None else Bounds(0.0, worst.upper)
    if every.upper <= lost:
        return worst
    more = (question.delta - Fraction(known.lower)) / (1 - Fraction(known.upper))
    if more >= 1:
        return Bounds(0.0, worst.upper)
    least = [contour.epsilon_bounds(law, above(more)) for law in sides]
    return Bounds(max((b.lower for b in least if b is not None), default=0.0), worst.upper)


def _is_attained(event: Event) -> bool:
    """Return whether some use has the law that `laws` composes, to the last digits that lower bounds have."""
    if type(event) in _ATTAINED:
        return True
    if isinstance(event, PoissonEvent) and isinstance(event.event, GaussianEvent):
        # The largest loss of a use is −log(1 − q); lower bounds leave out a hundred times more.
        return (Fraction(above(event.rate)) - event.rate) * 10**13 <= 1 - event.rate
    return event.pair().exact


def _failed(chances: Iterable[tuple[Fraction, int]]) -> Bounds:
    """Return the chance that any of independent failures occurs: 1 − Π(1 − f)^n."""
    known = [(above(f), n) for f, n in chances if f]
    if any(f >= 1 for f, _ in known):
        return Bounds(1.0, 1.0)
    chance = -math.expm1(math.fsum(n * math.log1p(-f) for f, n in known))
    return Bounds(chance * (1 - 1e-13), min(chance * (1 + 1e-13), 1.0))


def _worse(found: Sequence[Bounds | None]) -> Bounds | None:
    known = [bounds for bounds in found if bounds is not None]
    if len(known) < len(found) or not known:
        return None
    return Bounds(max(b.lower for b in known), max(b.upper for b in known))


def _ordered(events: Composed) -> Composed:
    """Return the same in an order that does not depend on how they were added, and so neither does any rounding.

    Of many events the laws sort their own parameters.
    """
    if not 1 < len(events.parts) <= _FEW:
        return events
    return Composed([*sorted(events.parts, key=lambda part: repr(part[0]))])


def _is_single(events: Composed) -> bool:
    # Not by `len(events)`, which is no more than a machine's integer.
    return len(events.parts) == 1 and events.parts[0][1] == 1


def _just_below(epsilon: float) -> float:
    return max(epsilon * (1 - 1e-9) - 1e-300, 0.0)


_Part: TypeAlias = tuple[int, int, int]
"""The numerator and the denominator of a parameter, and how often it comes."""


def laws(events: Composed) -> tuple[Law, Law] | None:
    """Return the law of the loss, and of the reverse loss, apart from `failure`; None when an event has no formula.

    Parameters are rounded to floats, towards the larger loss.
    """
    two: list[_Part] = []
    laplace: list[_Part] = []
    sampled = []
    other: list[tuple[Law, Law]] = []
    gaussian: list[tuple[Fraction | None, int]] = []
    for event, n in events:
        # Types are compared as they are: of many events, an `isinstance` of abstract ones takes longer than the rest.
        if type(event) is GaussianEvent:
            gaussian.append((event.mu_squared, n))
        elif type(event) is LaplaceEvent:
            laplace.append((*event.ratio.as_integer_ratio(), n))
        elif type(event) is ApproximateEvent:
            two.append((*event.epsilon.as_integer_ratio(), n))
        elif type(event) is DiscreteLaplaceEvent and event.shift == 1:
            scale, unit = event.scale.as_integer_ratio()
            two.append((unit, scale, n))
        elif type(event) is RandomizedResponseEvent and event.categories == 2:
            two.append((*event.epsilon.as_integer_ratio(), n))
        elif samples_nearly_all(event):  # floats cannot say how many it leaves out; taking all dominates
            gaussian.append((event.event.mu_squared, n))
        elif _samples_gaussian(event):
            sampled.append((event, n))
        else:
            pair = event.pair()
            both = pair.law(), pair.reverse().law()
            if both[0] is None or both[1] is None:
                return None
            other.append((TimesLaw(both[0], n), TimesLaw(both[1], n)))
    mu_squared = total(gaussian)
    common: list[Law] = [GaussianLaw(above(mu_squared))] if mu_squared else []
    common += [LaplaceLaw(*_arrays(laplace))] if laplace else []
    common += [TwoPointLaw(*_arrays(two))] if two else []
    sampled.sort(key=repr)
    other.sort(key=repr)
    remove = (*(_sampled(e, n, True) for e, n in sampled), *(law for law, _ in other))
    add = (*(_sampled(e, n, False) for e, n in sampled), *(law for _, law in other))
    return SumLaw((*common, *remove)), SumLaw((*common, *add))


def samples_nearly_all(event: Event) -> TypeGuard[PoissonEvent]:
    """Return whether it is Gaussian noise on a sample whose rate is 1 but for less than floats can say."""
    return _samples_gaussian(event) and 1 - event.rate < Fraction(1, 2**50)


def _samples_gaussian(event: Event) -> TypeGuard[PoissonEvent]:
    return isinstance(event, PoissonEvent) and isinstance(event.event, GaussianEvent)


def _sampled(event: Event, n: int, removes: bool) -> SampledGaussianLaw:
    assert isinstance(event, PoissonEvent)
    assert isinstance(event.event, GaussianEvent)
    sigma = math.sqrt(below(1 / event.event.mu_squared)) * (1 - 2.0**-51)
    return SampledGaussianLaw(sigma, above(event.rate), n, removes)


def _arrays(parts: Sequence[_Part]) -> tuple[Floats, Floats]:
    try:  # one unit more, for a quotient that was rounded down: of many, to look at each takes longer
        many = len(parts) > _FEW
        x = np.nextafter([whole / unit for whole, unit, _ in parts], math.inf) if many else None
    except OverflowError:
        x = None
    if x is None:
        x = np.array([above(Fraction(whole, unit)) for whole, unit, _ in parts])
    counts = np.array([float(n) for _, _, n in parts])
    order = np.lexsort((counts, x))  # the order of composition leaves no trace
    return x[order], counts[order]
