"""Private parts of a recipe: whose rows they read, how far one unit moves a draw, and what all draws cost.

The text is read anew (`person_rows`), the move is derived from the kind of the part, and the events must be those of
the mechanism for this move, as often as it may be drawn, on the samples that are claimed. That a person's part keeps
to its norms is not claimed but done: the sum over people drops what does not (docs/proofs/pipeline.md). Of a whole it
is the recipe's own promise, which a certificate says.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.binary_tree import BinaryTree
from discreet.mechanisms.draws import AboveOrBelow, AddedNoise, BestOfRuns, DrawLaw, NamedBest, RunningTotals
from discreet.mechanisms.exponential import Exponential, PermuteAndFlip
from discreet.mechanisms.noisy_max import NoisyMax
from discreet.mechanisms.perturbed_minimum import PerturbedMinimum
from discreet.mechanisms.samples import FixedSizeSampling, OneOfSteps, PoissonSampling
from discreet.mechanisms.sparse_vector import SparseVector
from discreet.privacy.event import Composed
from discreet.privacy.unit import Relation, Sensitivity
from discreet.verify.claim import PartClaim, PartKind, PlanClaim
from discreet.verify.derive import PrivateRows
from discreet.verify.person_rows import DerivedRows, derive_rows
from discreet.verify.shapes import reject


def part_moves(part: PartClaim, relation: Relation) -> Sensitivity:
    """Return how far one unit moves a draw before the noise.

    The whole moves as its recipe promises. A sum over people moves by one part when a unit comes or goes, and by the
    difference of two when it is replaced: |x − y|₁ ≤ |x|₁ + |y|₁, |x − y|₂² ≤ 2|x|₂² + 2|y|₂², and so on; of two
    histograms, where x·y ≥ 0, |x − y|₂² ≤ |x|₂² + |y|₂² and |x − y|∞ ≤ max(|x|∞, |y|∞). Of two sums of squares of rows
    a and b, x·y = Σ (a·b)² ≥ 0 too, and numbers have any sign.
    """
    n = part.norms
    if part.kind is PartKind.WHOLE or relation is Relation.ADD_REMOVE:
        return n
    if part.kind is PartKind.PLACES:
        l0 = min(2 * n.l0, part.width)
        return Sensitivity(l0, n.linf, l1=min(2 * n.l1, l0 * n.linf), l2_squared=min(2 * n.l2_squared, l0 * n.linf**2))
    square = (2 if part.kind is PartKind.SQUARES else 4) * n.l2_squared
    l0, linf = min(2 * n.l0, part.width), min(2 * n.linf, math.isqrt(square))  # no number is longer than all together
    return Sensitivity(l0, linf, l1=min(2 * n.l1, l0 * linf), l2_squared=min(square, l0 * linf**2))


def part_events(part: PartClaim, relation: Relation) -> Composed:
    """Return what all draws of a part cost.

    Raises:
        InternalError: its mechanism or its sampling is not for such draws.
    """
    moved = part_moves(part, relation)
    try:
        if part.sampling is None:
            return part.law.events(moved, part.times, relation)
        if part.sampling.relation is not relation or part.law.remembers:
            reject("the samples of a private part")
        return part.sampling.events(part.law.events(moved, 1, relation), part.times)
    except InvalidParameter:
        reject("the mechanism of a private part")


def check_parts(claim: PlanClaim) -> None:
    """Refuses a part whose statement does not keep people apart, or whose events say less than its noise costs.

    Raises:
        InternalError: naming what is wrong.
    """
    if len({part.name for part in claim.parts}) < len(claim.parts):
        reject("the names of private parts")
    read: list[tuple[str, PrivateRows, DerivedRows]] = []
    for part in claim.parts:
        if (type(part.law), type(_inner(part.law))) not in _KNOWN or type(part.sampling) not in _SCHEMES:
            reject("the mechanism of a private part")
        found = next((rows for sql, source, rows in read if (sql, source) == (part.sql, part.source)), None)
        if found is None:  # parts often share their statement
            found = derive_rows(part.sql, part.source)
            read.append((part.sql, part.source, found))
        if found.rows > part.rows:
            reject("how many rows of a person are kept")
        # else the sum of a person's squares could leave the 64 bits in which it is compared; a whole has none
        wide = part.norms.l0 * part.norms.linf**2 >= 1 << 62 and part.kind is not PartKind.WHOLE
        if part.times < 1 or part.width < 1 or part.norms.l0 > part.width or wide:
            reject("the shape of a private part")
        if part.kind is not PartKind.EACH and part.apart:
            reject("how a private part is bounded")
        # parts of people have any sign, and another unit may raise one number and lower another
        if getattr(_inner(part.law), "monotonic", False) and (
            part.kind is not PartKind.WHOLE or claim.relation is Relation.REPLACE
        ):
            reject("the direction in which a unit moves a draw")
        _check_price(part, claim.relation)
        if isinstance(part.law, PerturbedMinimum):
            if part.kind is not PartKind.WHOLE or part.rows > 1 or part.width != part.law.width or part.sampling:
                reject("the shape of a private part")
            _check_objective(part.law, claim.relation)
        if isinstance(part.law, BestOfRuns):
            if part.kind is not PartKind.WHOLE or part.times > 1 or part.sampling:
                reject("the shape of a private part")
            _check_runs(part.law)


def events_of_parts(claim: PlanClaim) -> Composed:
    """Return what all draws of all private parts cost."""
    return sum((part_events(part, claim.relation) for part in claim.parts), Composed())


def part_reasons(claim: PlanClaim) -> list[str]:
    """Return a sentence for each private part of a recipe."""
    found = []
    if claim.open:
        found.append(
            "The run stays open for inputs, which may follow from anything that was released before: all its draws are "
            "charged together, as one event, before the first."
        )
    for part in claim.parts:
        n = part.norms
        norms = f"l0 ≤ {n.l0:,}, l∞ ≤ {n.linf:,}, l1 ≤ {n.l1:,}, l2² ≤ {n.l2_squared:,}"
        if part.kind is PartKind.WHOLE:
            why = f"the recipe promises that one unit moves it by {norms} at most; nothing here proves it"
        else:
            whose = (
                "sees one unit at a time" if part.apart else "is promised to make each part of one unit's rows alone"
            )
            why = f"a unit's part beyond {norms} counts 0, which is checked in integers; the code {whose}"
        sampled = "" if part.sampling is None else f", each on a secret sample of units ({part.sampling!r})"
        often = "once" if part.times == 1 else f"at most {part.times:,} times"
        found.append(
            f"Part {part.name!r}: {_many(part.width, 'whole number')} of at most {_many(part.rows, 'row')} of a unit, "
            f"drawn {often}{sampled} with {part.law.name}; {why}."
        )
    return found


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _check_price(part: PartClaim, relation: Relation) -> None:
    """Refuses events of noise without samples that add up to less than the noise costs by its own formula: l1 over the
    scale, or l2² over σ², once for each draw.
    """
    noise, moved = _inner(part.law), part_moves(part, relation)
    if part.sampling is not None or not isinstance(noise, Additive):
        return
    pure = mu_squared = Fraction(0)
    for event, n in part_events(part, relation):
        pure, mu_squared = pure + n * (event.pure or 0), mu_squared + n * (event.mu_squared or 0)
    if isinstance(noise, DiscreteLaplaceNoise) and pure < part.times * moved.l1 / noise.scale:
        reject("the price of a private part")
    if isinstance(noise, RoundedGaussianNoise) and mu_squared < part.times * moved.l2_squared / noise.sigma**2:
        reject("the price of a private part")


def _check_objective(law: PerturbedMinimum, relation: Relation) -> None:
    """Refuses noise in an objective that one loss shows more of than is claimed.

    Of the privacy loss, ln(1 + curvature/weight) is for the volume. Without δ the rest is the move over the scale. With
    it the rest is at most s²/2 + s·r, where r is the length of a normal vector along the losses that come and go, of
    one number or of two; the excess of its exponential is added up in steps.
    """
    losses = 2 if relation is Relation.REPLACE else 1
    s, left = float(law.slope / law.scale) * losses, float(law.epsilon) - math.log1p(float(law.curvature / law.weight))
    if not law.delta:
        if s > left * (1 + 1e-9):
            reject("the price of a private part")
        return
    least = (left - s * s / 2) / s
    r = np.linspace(max(least, 0), max(least, 0) + 40, 100_001)
    density = r * np.exp(-(r**2) / 2) if losses == 2 else math.sqrt(2 / math.pi) * np.exp(-(r**2) / 2)
    excess = density * -np.expm1(np.minimum(s * (least - r), 0))
    if least < 0 or float(excess.sum()) * 40 / 100_000 > float(law.delta) * (1 + 1e-3):
        reject("the price of a private part")


def _check_runs(law: BestOfRuns) -> None:
    """Refuse runs that cost more than the best of them may.

    Without δ all cost three times what one does. With it, of Rényi divergence ρλ + 2ρ(λ′ − 1) + 2·ln(runs)/λ′ +
    ln(runs)/(λ − 1), the least is sought over both orders.
    """
    if not law.run > 0 or law.runs < 1 or not law.epsilon > 0 or not 0 <= law.delta < 1:
        reject("the runs of a private part")
    if not law.delta:
        if 3 * law.run > law.epsilon:
            reject("the price of a private part")
        return
    rho, log = float(law.run), math.log(law.runs)
    a = 1 + np.geomspace(1e-3, 1e6, 20_001)
    of_all = rho * a + log / (a - 1) + np.log((a - 1) / a) - (math.log(law.delta) + np.log(a)) / (a - 1)
    b = np.geomspace(1, 1e6, 20_001)
    if of_all.min() + (2 * rho * (b - 1) + 2 * log / b).min() > float(law.epsilon) * (1 + 1e-5):
        reject("the price of a private part")


def _inner(law: DrawLaw) -> object:
    """Return the mechanism that a law draws."""
    match law:
        case AddedNoise():
            return law.noise
        case NamedBest():
            return law.selection
        case AboveOrBelow():
            return law.sparse
        case RunningTotals():
            return law.tree
        case PerturbedMinimum():
            return law.output
        case _:
            return None


_KNOWN = frozenset(
    {
        (AddedNoise, DiscreteLaplaceNoise),
        (AddedNoise, RoundedGaussianNoise),
        (NamedBest, Exponential),
        (NamedBest, NoisyMax),
        (NamedBest, PermuteAndFlip),
        (AboveOrBelow, SparseVector),
        (RunningTotals, BinaryTree),
        (PerturbedMinimum, DiscreteLaplaceNoise),
        (BestOfRuns, type(None)),
    }
)
"""The closed list of mechanisms, each of just this class: one of somebody else's might say another price of itself."""

_SCHEMES = frozenset({type(None), PoissonSampling, FixedSizeSampling, OneOfSteps})
