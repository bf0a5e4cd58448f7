"""A second derivation of the cost, from the final SQL alone; it shares no code with the first.

`derive` reads off the text that the database will run how many groups a unit can enter and between which
integers its contribution lies; here it is recomputed what the plan's noise then costs. A text that is not known
to be bounded, a cost above the promise, or events that say less than the noise costs, is an InternalError before
anything is charged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Never

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.rederive.census import derive_reports
from discreet.rederive.derive import Derived, Source, derive
from discreet.rederive.distinct import derive_distinct
from discreet.rederive.levels import gaussian_cost, laplace_cost, tier_of
from discreet.rederive.owned import Table
from discreet.rederive.spread import derive_spread

if TYPE_CHECKING:
    from discreet.plan.plan import Plan


_CHOICES = 3  # by rank in each group: the value, and both ends of its interval


@dataclass(frozen=True, slots=True)
class Moves:
    """How far one unit moves a column: ℓ1 and squared ℓ2 at worst, and a move that it surely can make (`many` cells by
    `far` each).
    """

    l1: int
    l2_squared: int
    many: int
    far: int


def check(sql: str, plan: Plan) -> None:
    """Refuses a plan whose SQL does not bound what its noise was chosen for.

    Raises:
        InternalError: the two derivations disagree.
    """
    table, source = plan.question.table, source_of(plan)
    apart = [(i, derive_distinct(text, source)) for i, text in plan.distinct]
    trees = [derive_spread(text, source) for _, text in plan.spreads]
    others = [*(d for _, d in apart), *(d.reach for d in trees)]
    # without sums over units, what the groups are is said by the statements that count apart
    derived = derive(sql, source) if sql or not others else replace(others[0], spans=())
    groups = max(_reach(d, plan) for d in (derived, *others))
    reports = 0 if plan.truncation is None else derive_reports(plan.truncation, source)
    if reports != len(plan.allocation.reports):
        _disagree("the report of truncation")
    other = table.relation.value == "replace"
    moves = [_moves(span, groups, derived.listed, replace=other) for span in derived.spans]
    noises = plan.allocation.noises
    if plan.allocation.threshold is not None:
        if derived.spans[-1:] != ((1, 1),) and derived.spans[-1:] != ((0, 1),):
            _disagree("the count of units by which groups are selected")
        moves = moves[:-1]
    for place, counted in apart:
        moves.insert(place, _moves(counted.spans[0], groups, counted.listed, replace=other))
    levels = [s.spread.depth for s in plan.question.spreads]
    if len(noises) != len(moves) or not len(levels) == len(trees) == len(plan.allocation.spreads):
        _disagree("the number of columns")
    by_rank = Fraction(0)
    asked = [s.at for s in plan.question.spreads]
    for tree, depth, at, noise in zip(trees, levels, asked, plan.allocation.spreads, strict=True):
        if isinstance(noise, ExponentialQuantile):
            if at != (noise.p,):
                _disagree("which quantile is chosen")
            by_rank += _CHOICES * noise.rate * tree.loss_range(noise.p, groups, replace=other)
            continue
        moves += [Moves(*tree.moves(groups, replace=other))] * depth
        noises += (noise,) * depth
    sure = list(zip(moves, noises, strict=True))
    levelled = Fraction(0), Fraction(0)
    if plan.allocation.levels:
        columns = len(derived.spans)
        levelled = _levelled(plan, derived.spans, groups, replace=other)
        moves, noises = moves[columns:], noises[columns:]
    _check_total(plan, moves, noises, groups, by_rank, levelled, replace=other)
    _check_divergence(plan, sure, by_rank, 2 * groups if other else groups)


def _levelled(
    plan: Plan, spans: Sequence[tuple[int, int]], groups: int, *, replace: bool
) -> tuple[Fraction, Fraction]:
    """The ε or μ² of columns whose totals are measured as well."""
    a, lists = plan.allocation, plan.question.keys.lists
    if (
        lists is None
        or plan.distinct
        or a.threshold is not None
        or any(len(v.noises) != len(spans) for v in a.levels)
    ):
        _disagree("what totals are measured")
    sizes, pure, mu_squared = [len(v) for v in lists], Fraction(0), Fraction(0)
    kept = [range(len(sizes)), *(level.kept for level in a.levels)]
    if len({frozenset(k) for k in kept}) != len(kept):
        _disagree("what totals are measured")
    for i, (span, finest) in enumerate(zip(spans, a.noises, strict=True)):
        noises = [finest, *(level.noises[i] for level in a.levels)]
        scales = [z.scale for z in noises if isinstance(z, DiscreteLaplaceNoise)]
        squares = [z.sigma**2 for z in noises if isinstance(z, RoundedGaussianNoise)]
        tiers = [tier_of(sizes, k, z) for k, z in zip(kept, scales or squares, strict=False)]
        found = [t for t in tiers if t is not None]
        if len(found) != len(noises) or len(noises) not in (len(scales), len(squares)):
            _disagree("what totals are measured")
        if scales:
            pure += laplace_cost(found, span, groups, replace=replace)
        else:
            mu_squared += gaussian_cost(found, span, groups, replace=replace)
    return pure, mu_squared


def source_of(plan: Plan) -> Source:
    """What the text may read: the question's one table, or the tables that its rows come from."""
    question = plan.question
    if question.relation is None:
        table = question.table
        if table.reached is not None or table.public:
            _disagree("whose the rows are")
        return Source(table.name, frozenset(table.columns), table.unit.column)
    tables: dict[str, Table] = {}
    for t in question.relation.tables:
        columns = {n: None if kind is None else kind.value for n, kind in t.columns.items()}
        key = None if t.reached is None else (t.reached.column, t.reached.table, t.reached.key)
        unit = None if t.public or key is not None else t.unit.column
        if t.name in tables or (not t.public and t.relation is not question.table.relation):
            _disagree("what is known of the tables")
        tables[t.name] = Table(columns, unit, key, t.public)
    return Source(None, frozenset(), "u", tables)


def _reach(derived: Derived, plan: Plan) -> int:
    """How many groups a unit can enter."""
    declared = plan.question.keys.count
    if derived.keys != len(plan.question.keys.exprs) or derived.listed != declared:
        _disagree("what the groups are")
    if (declared is None) != (plan.allocation.threshold is not None):
        _disagree("whether the groups are public")
    bounds = [n for n in (derived.groups, declared) if n is not None]
    if not bounds:
        _disagree("the groups of a unit, which are not bounded")
    return min(bounds)


def _moves(span: tuple[int, int], k: int, groups: int | None, *, replace: bool) -> Moves:
    """The worst change, by trying every number of shared groups."""
    low, high = min(span[0], 0), max(span[1], 0)
    far, width = max(-low, high), high - low
    if not replace:
        return Moves(k * far, k * far * far, k, far)
    best1 = best2 = 0
    # what is best is best at an end: both norms are linear in the number of shared groups on either side of a bend
    bend = k if groups is None else min(max(2 * k - groups, 0), k)
    for shared in {0, bend, max(bend - 1, 0), min(bend + 1, k), k}:
        fresh = 2 * (k - shared) if groups is None else min(2 * (k - shared), groups - shared)
        best1 = max(best1, shared * width + fresh * far)
        best2 = max(best2, shared * width * width + fresh * far * far)
    return Moves(best1, best2, 2 * k if groups is None else min(2 * k, groups), far)


def _check_total(
    plan: Plan,
    moves: list[Moves],
    noises: Sequence[Additive],
    groups: int,
    by_rank: Fraction,
    levelled: tuple[Fraction, Fraction],
    *,
    replace: bool,
) -> None:
    """What the derived movements cost under the plan's noise, with the ε of choices by rank and the ε or μ² of columns
    whose totals are measured, against the promise and against the events.
    """
    a = plan.allocation
    pure, mu_squared = levelled
    laplace: list[tuple[Moves, Fraction]] = []
    for m, noise in zip(moves, noises, strict=True):
        if isinstance(noise, DiscreteLaplaceNoise):
            pure += m.l1 / noise.scale
            laplace.append((m, noise.scale))
        elif isinstance(noise, RoundedGaussianNoise):
            mu_squared += m.l2_squared / noise.sigma**2
        else:
            _disagree("a noise of unknown kind")
    fixed, failed = by_rank, Fraction(0)
    for report in a.reports:
        if not isinstance(report, DiscreteLaplaceNoise):
            _disagree("a noise of unknown kind")
        fixed += 1 / report.scale
    if a.threshold is not None:
        fixed, failed = fixed + a.threshold.epsilon, a.threshold.delta
        if a.threshold.max_groups < groups or a.threshold.touched < (2 * groups if replace else groups):
            _disagree("the selection of groups, which is for fewer groups")
    left, left_delta = a.guarantee.epsilon - fixed, a.guarantee.delta - failed
    if mu_squared and pure:
        _disagree("two kinds of noise in one plan")
    if left < 0 or left_delta < 0:
        _disagree("the price of the selection, the reports or the choices by rank")
    if mu_squared and not _gaussian_fits(mu_squared, left, left_delta):
        _disagree("the price of the Gaussian columns")
    if pure > left and (levelled[0] or not left_delta or not _laplace_fits(laplace, left, left_delta)):
        _disagree("the price of the columns")
    _check_events(plan, pure + fixed, mu_squared, failed)


def _check_events(plan: Plan, pure: Fraction, mu_squared: Fraction, delta: Fraction) -> None:
    """The ledger is told of at least what was found here."""
    told = told_mu = told_delta = Fraction(0)
    for event, n in plan.allocation.events:
        told += n * (event.pure or 0)
        told_mu += n * (event.mu_squared or 0)
        told_delta += n * event.failure
    if told < pure or told_mu < mu_squared or told_delta < delta:
        _disagree("what the ledger is told")


def _check_divergence(plan: Plan, sure: list[tuple[Moves, Additive]], by_rank: Fraction, groups: int) -> None:
    """The ledger is told of a ρ that is not below what the noise surely has.

    ρ is at least the Kullback–Leibler divergence (Bun, Steinke 2016, Definition 1.1 at α → 1,
    https://arxiv.org/abs/1605.02065). That of discrete Laplace noise for the move that a unit surely can make is known;
    a choice by rank of range w has ρ = w²/8 by its theorem, and choices whose ranges add up have the least when these
    are equal.
    """
    needed = _float(by_rank**2 / (8 * _CHOICES * groups))
    for move, noise in sure:
        if isinstance(noise, DiscreteLaplaceNoise):
            needed += move.many * _divergence(move.far, noise.scale)
        elif isinstance(noise, RoundedGaussianNoise):
            needed += _float(move.many * move.far**2 / noise.sigma**2 / 2)
    told = sum(_float(n * (event.rho or Fraction(0))) for event, n in plan.allocation.events)
    if told * (1 + 1e-6) < needed:
        _disagree("what the ledger is told")


def _float(x: Fraction) -> float:
    """The nearest float; infinite beyond them."""
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


def _gaussian_fits(mu_squared: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
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
    shifts = [(m.far, float(scale), m.many) for m, scale in columns if m.far]
    top = max(far / scale for far, scale, _ in shifts)
    spread = sum(many * (far / scale) ** 2 for far, scale, many in shifts)
    if sum(many for *_, many in shifts) > _MANY:  # so many that the sum of the losses is normal
        return _gaussian_fits(Fraction(spread), epsilon, min(delta * 2, Fraction(1, 2)))
    most = sum(many * far / scale for far, scale, many in shifts)
    reach = min(most, spread / 2 + 12 * math.sqrt(spread) + top)
    fine = max(math.ceil(top * _GRID / reach), 1)
    fine -= (
        fine % shifts[0][0] if shifts[0][0] <= fine else 0
    )  # the few losses of a small shift lie on the grid
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
    """The law of the privacy loss of one discrete Laplace number that moves by `far`, on multiples of `step`."""
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


def _disagree(what: str) -> Never:
    raise InternalError(
        f"The second derivation of this question's cost disagrees with the first about {what}. Nothing was charged.",
        hint="please report the question",
    )
