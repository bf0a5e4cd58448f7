"""How far one unit moves each column, from what the SQL says of it, and what the noise of a claim costs then: against
the promise, and against what the ledger is told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.loss import PrivacyLoss
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.privacy.event import ApproximateEvent, Composed, Event, GaussianEvent
from discreet.privacy.unit import Sensitivity
from discreet.verify.claim import Cost, PlanClaim
from discreet.verify.quantile_tree import DerivedTree
from discreet.verify.shapes import reject


@dataclass(frozen=True, slots=True)
class Moves:
    """How far one unit moves a column: ℓ1 and squared ℓ2 at worst, how many of its numbers and each of them by how much
    at worst, and a move that it surely can make (`surely` numbers by `far` each; `many` of them unless said).
    """

    l1: int
    l2_squared: int
    many: int
    far: int
    furthest: int
    fewer: int | None = None

    @property
    def surely(self) -> int:
        """How many numbers it surely can move by `far` each."""
        return self.many if self.fewer is None else self.fewer

    @property
    def norms(self) -> tuple[int, int, int, int]:
        """The four norms of the worst change: l0, linf, l1 and squared l2."""
        return self.many, self.furthest, self.l1, self.l2_squared

    def within(self, said: Sensitivity) -> bool:
        """Whether no norm is larger than is said."""
        return all(own <= most for own, most in zip(self.norms, norms(said), strict=True))


def norms(said: Sensitivity) -> tuple[int, int, int, int]:
    """Return the four norms of a sensitivity, in the order of `Moves.norms`."""
    return said.l0, said.linf, said.l1, said.l2_squared


def column_moves(
    span: tuple[int, int], k: int, groups: int | None, *, replace: bool, total: int | None = None
) -> Moves:
    """Return the worst change of a unit that adds to at most k groups a number of the span, by trying every number of
    shared groups; `groups` is how many there are, None when that is private. With `total`, the sizes of what it adds to
    all groups are at most so much together.
    """
    low, high = min(span[0], 0), max(span[1], 0)
    far, width = max(-low, high), high - low
    if total is not None and far:
        return _moves_within(column_moves(span, k, groups, replace=replace), low, high, k, total, replace=replace)
    if not replace:
        return Moves(k * far, k * far * far, k, far, far)
    best1 = best2 = 0
    # what is best is best at an end: both norms are linear in the number of shared groups on either side of a bend
    bend = k if groups is None else min(max(2 * k - groups, 0), k)
    for shared in {0, bend, max(bend - 1, 0), min(bend + 1, k), k}:
        fresh = 2 * (k - shared) if groups is None else min(2 * (k - shared), groups - shared)
        best1 = max(best1, shared * width + fresh * far)
        best2 = max(best2, shared * width * width + fresh * far * far)
    return Moves(best1, best2, 2 * k if groups is None else min(2 * k, groups), far, width)


def _moves_within(loose: Moves, low: int, high: int, k: int, total: int, *, replace: bool) -> Moves:
    """Return the worst change where the total is bounded as well: of what comes or goes, a sum of squares is at worst
    when groups are full one after the other. Two such vectors are apart by no more than both are long, and at a right
    angle at most where neither has numbers of both signs.
    """
    far, squares, left = max(-low, high), 0, total
    full = min(left // far, k)
    squares, left = full * far * far, left - full * far
    squares += left * left if full < k else 0
    l1 = total * 2 if replace else total
    if replace:
        squares *= 4 if low < 0 < high else 2
    return Moves(min(loose.l1, l1), min(loose.l2_squared, squares), loose.many, far, loose.furthest, full)


def tree_moves(found: DerivedTree, groups: int, *, replace: bool) -> Moves:
    """Return the worst change of a level of a tree."""
    l1, l2_squared, many, far = found.moves(groups, replace=replace)
    return Moves(l1, l2_squared, many, far, far)


@dataclass(frozen=True, slots=True)
class RoundsCost:
    """The (ε, δ) of a selection of groups in rounds of Gaussian noise, and the μ² and the failures of its rounds."""

    epsilon: Fraction
    delta: Fraction
    mu_squared: Fraction
    failure: Fraction

    @property
    def fits(self) -> bool:
        """Whether the rounds cost no more than (ε, δ)."""
        return gaussian_fits(self.mu_squared, self.epsilon, self.delta - self.failure)


@dataclass(frozen=True, slots=True)
class PricedPart:
    """What one measurement's noise is for.

    Attributes:
        paid: each column and level whose price follows from its move, with its noise.
        sure: these, and the finest groups of columns whose totals are measured as well.
        levelled: the ε or μ² of those columns.
        by_rank: the ε of the choices by rank, for each quantile.
        fixed: the ε of the reports and of an optimal selection of groups.
        failure: the δ of the selection.
        reach: how many groups one unit can change.
        rounds: what a selection in rounds costs.
    """

    paid: tuple[tuple[Moves, Additive], ...]
    sure: tuple[tuple[Moves, Additive], ...]
    levelled: tuple[Fraction, Fraction]
    by_rank: tuple[Fraction, ...]
    fixed: Fraction
    failure: Fraction
    reach: int
    rounds: RoundsCost | None = None

    @property
    def chosen(self) -> tuple[Fraction, Fraction]:
        """The (ε, δ) of reports, selections and choices by rank."""
        epsilon = sum(self.by_rank, self.fixed)
        return (epsilon, self.failure) if self.rounds is None else (epsilon + self.rounds.epsilon, self.rounds.delta)

    @property
    def priced(self) -> tuple[Fraction, Fraction, list[tuple[Moves, Fraction]]]:
        """The ε and the μ² of the columns, and those with Laplace noise, with its scale."""
        pure, mu_squared = self.levelled
        laplace = []
        for m, noise in self.paid:
            if isinstance(noise, DiscreteLaplaceNoise):
                pure += m.l1 / noise.scale
                laplace.append((m, noise.scale))
            elif isinstance(noise, RoundedGaussianNoise):
                mu_squared += m.l2_squared / noise.sigma**2
            else:
                reject("a noise of unknown kind")
        return pure, mu_squared, laplace


def fits(cost: Cost) -> bool:
    """Whether the events composed cost at most (ε, δ), by the accountant; ε up to the last bit of a double."""
    pure, failure = Fraction(0), Fraction(0)
    exact = True
    for event, n in cost.events:
        exact = exact and event.pure is not None
        pure, failure = pure + n * (event.pure or 0), failure + n * event.failure
    if exact and pure <= cost.epsilon and failure <= cost.delta:
        return True
    if not cost.delta:
        return False
    return PrivacyLoss(cost.events).epsilon(delta=cost.delta) <= math.nextafter(float(cost.epsilon), math.inf)


def check_total(parts: Sequence[PricedPart], cost: Cost) -> None:
    """Refuses noise that costs more than (ε, δ): that of each measurement by itself, and all of it together.

    What Laplace columns of several measurements cost together below the sum of their ε is left to the accountant, which
    composes the events.

    Raises:
        InternalError: naming what is too dear.
    """
    for part in parts:
        _check_part([part], cost)
    if len(parts) > 1:
        _check_part(parts, cost)


def _check_part(parts: Sequence[PricedPart], cost: Cost) -> None:
    priced = [part.priced for part in parts]
    pure = sum((p for p, _, _ in priced), Fraction(0))
    mu_squared = sum((m for _, m, _ in priced), Fraction(0))
    left = cost.epsilon - sum((part.chosen[0] for part in parts), Fraction(0))
    left_delta = cost.delta - sum((part.chosen[1] for part in parts), Fraction(0))
    if mu_squared and pure:
        reject("two kinds of noise in one plan")
    if left < 0 or left_delta < 0 or not all(part.rounds is None or part.rounds.fits for part in parts):
        reject("the price of the selection, the reports or the choices by rank")
    if mu_squared and not gaussian_fits(mu_squared, left, left_delta):
        reject("the price of the Gaussian columns")
    if pure <= left:
        return
    levelled = any(part.levelled[0] for part in parts)
    if levelled or not left_delta or (len(parts) == 1 and not _laplace_fits(priced[0][2], left, left_delta)):
        reject("the price of the columns")


def check_events(parts: Sequence[PricedPart], cost: Cost) -> None:
    """Refuses events that add up to less than what was found here.

    Raises:
        InternalError: they do.
    """
    pure = mu_squared = failure = Fraction(0)
    for part in parts:
        own, own_mu, _ = part.priced
        pure, mu_squared = pure + own + sum(part.by_rank, part.fixed), mu_squared + own_mu
        failure += part.failure
        if part.rounds is not None:
            mu_squared, failure = mu_squared + part.rounds.mu_squared, failure + part.rounds.failure
    told, told_mu, told_delta = _sums(cost)
    if told < pure or told_mu < mu_squared or told_delta < failure:
        reject("what the ledger is told")


def check_charge(claim: PlanClaim) -> None:
    """Refuses a charge that is for less than the first looks and the measurements together.

    Raises:
        InternalError: it is.
    """
    measured, charged = claim.measured, claim.charged
    if claim.open:
        same = (measured.epsilon, measured.delta) == (charged.epsilon, charged.delta)
        if claim.looks or not claim.recipe or not same or charged.events not in wholes(measured):
            reject("what is charged")
        return
    if not claim.looks:
        if measured != charged:
            reject("what is charged")
        return
    times = 2 if claim.relation.value == "replace" else 1
    first = sum((look.epsilon for look in claim.looks), Fraction(0))
    spent = times * sum((look.spent for look in claim.looks), Fraction(0))
    told, _, told_delta = _sums(charged)
    if first + measured.epsilon > charged.epsilon or measured.delta > charged.delta:
        reject("what is charged")
    if told < spent + measured.epsilon or told_delta < measured.delta:
        reject("what the ledger is told")


def wholes(cost: Cost) -> list[Composed]:
    """Return the events that dominate the whole of a run that stays open: its (ε, δ), and its μ² where each draw has
    one.
    """
    found: list[Event] = [ApproximateEvent(cost.epsilon, cost.delta)]
    if all(event.mu_squared is not None and event.failure == 0 for event, _ in cost.events):
        found.append(GaussianEvent(_sums(cost)[1]))
    return [Composed([event]) for event in found]


def _sums(cost: Cost) -> tuple[Fraction, Fraction, Fraction]:
    """Return the sums of ε, μ² and failures of some events."""
    told = told_mu = told_delta = Fraction(0)
    for event, n in cost.events:
        told += n * (event.pure or 0)
        told_mu += n * (event.mu_squared or 0)
        told_delta += n * event.failure
    return told, told_mu, told_delta


def check_divergence(parts: Sequence[PricedPart], cost: Cost) -> None:
    """Refuses events whose ρ is below what the noise surely has.

    ρ is at least the Kullback–Leibler divergence (Bun, Steinke 2016, Definition 1.1 at α → 1,
    https://arxiv.org/abs/1605.02065). That of discrete Laplace noise for the move that a unit surely can make is known;
    a choice by rank of range w has ρ = w²/8 by its theorem, and choices whose ranges add up have the least when these
    are equal.

    Raises:
        InternalError: it is.
    """
    needed = 0.0
    for part in parts:
        needed += sum(_float(width**2 / (8 * part.reach)) for width in part.by_rank)
        needed += 0.0 if part.rounds is None else _float(part.rounds.mu_squared / 2)
        for move, noise in part.sure:
            if isinstance(noise, DiscreteLaplaceNoise):
                needed += move.surely * _divergence(move.far, noise.scale)
            elif isinstance(noise, RoundedGaussianNoise):
                needed += _float(move.surely * move.far**2 / noise.sigma**2 / 2)
    told = sum(_float(n * (event.rho or Fraction(0))) for event, n in cost.events)
    if told * (1 + 1e-6) < needed:
        reject("what the ledger is told")


def _float(x: Fraction) -> float:
    """Return the nearest float; infinite beyond them."""
    try:
        return float(x)
    except OverflowError:
        return math.inf


def _divergence(far: int, scale: Fraction) -> float:
    """E ln(P(K)/P(K − far)) for P(k) ∝ exp(−|k|/scale): far/scale, less what lies between.

    E(|K − d| − |K|) is the sum over j < d of 1 − 2·P(K > j), and P(K > j) = q^(j + 1)/(1 + q) with q = exp(−1/scale).
    """
    ratio, step = _float(far / scale), _float(1 / scale)
    if ratio < 1e-3:  # where the difference below has no digits: at least this
        return ratio * ratio / 2 * (1 - ratio / 3)
    if step > 700:  # all noise is 0, but for less than floats tell
        return ratio
    between = 2 * math.exp(-step) * math.expm1(-ratio) / math.expm1(-2 * step)
    return max(far - between, 0.0) * step


def gaussian_fits(mu_squared: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) ≤ δ, to six digits: Balle, Wang 2018, Theorem 8, https://arxiv.org/abs/1805.06530."""
    from scipy.special import log_ndtr

    if delta <= 0:
        return False
    mu, e = math.sqrt(mu_squared), float(epsilon)
    first, second = float(log_ndtr(mu / 2 - e / mu)), e + float(log_ndtr(-mu / 2 - e / mu))
    return first + math.log(-math.expm1(min(second - first, -1e-300))) <= math.log(delta) + 1e-6


def _laplace_fits(columns: list[tuple[Moves, Fraction]], epsilon: Fraction, delta: Fraction) -> bool:
    """Whether δ suffices where the ε of many Laplace numbers add up to more than `epsilon`.

    Judged on a move that a unit surely can make, with a tenth of tolerance in δ: a plan that is right is never
    refused, and one whose noise is short enough to miss δ by a tenth is.
    """
    shifts = [(m.far, float(scale), m.surely) for m, scale in columns if m.far and m.surely]
    top = max(far / scale for far, scale, _ in shifts)
    spread = sum(many * (far / scale) ** 2 for far, scale, many in shifts)
    if sum(many for *_, many in shifts) > _MANY:  # so many that the sum of the losses is normal
        return gaussian_fits(Fraction(spread), epsilon, min(delta * 2, Fraction(1, 2)))
    most = sum(many * far / scale for far, scale, many in shifts)
    reach = min(most, spread / 2 + 12 * math.sqrt(spread) + top)
    fine = max(math.ceil(top * _GRID / reach), 1)
    fine -= fine % shifts[0][0] if shifts[0][0] <= fine else 0  # the few losses of a small shift lie on the grid
    step = top / fine
    spectrum = np.ones(_GRID + 1, dtype=np.complex128)
    for far, scale, many in shifts:
        spectrum *= np.fft.rfft(_losses(far, scale, step)) ** many
    mass = np.maximum(np.fft.irfft(spectrum), 0)
    at = np.arange(2 * _GRID) * step
    at[_GRID:] -= 2 * _GRID * step  # negative losses stand in the upper half
    above = at > float(epsilon)
    # No loss is above `most`: what the grid makes of one that is just above ε may not count for more.
    excess = np.minimum(at[above], most) - float(epsilon)
    found = float(np.sum(mass[above] * -np.expm1(-np.maximum(excess, 0.0))))
    return found <= float(delta) * 1.1 + 1e-12


def _losses(far: int, scale: float, step: float) -> NDArray[np.float64]:
    """Return the law of the privacy loss of one discrete Laplace number that moves by `far`, on multiples of `step`."""
    p = math.exp(-1 / scale)
    last = round(far / scale / step)
    at = np.arange(-last, last + 1)
    # loss ≥ l exactly where the noise is at most (far − l·scale)/2
    z = np.floor((far - (at - 0.5) * step * scale) / 2)
    exceeds = np.where(z < 0, p ** np.maximum(-z, 0), 1 + p - p ** (np.maximum(z, 0) + 1)) / (1 + p)
    exceeds[0] = 1.0
    mass = np.zeros(2 * _GRID)
    mass[at % (2 * _GRID)] = exceeds - np.append(exceeds[1:], 0.0)
    return mass


_GRID = 1 << 15
_MANY = 1 << 12
