"""Private parts of a recipe: whose rows they read, how far one unit moves a draw, and what all draws cost.

The text is read anew (`derive_rows`), the move is derived from the kind of the part, and the events must be those of
the mechanism for this move, as often as it may be drawn, on the samples that are claimed. That a person's part keeps
to its norms is not claimed but done: the sum over people drops what does not (docs/proofs/pipeline.md). Of a whole it
is the recipe's own promise, which a certificate says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from sqlglot import exp

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
from discreet.verify.derive import PrivateRows, parsed, unit_rows, whole_kind
from discreet.verify.kinds import span_of
from discreet.verify.shapes import are_columns, holds_only, is_secret, reads_stage, reject, whole_constant


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


@dataclass(frozen=True, slots=True)
class DerivedRows:
    """What the text says.

    Attributes:
        columns: between which whole numbers each column lies.
        rows: how many rows a person has at most; 1 where each row is a unit.
    """

    columns: tuple[tuple[int, int], ...]
    rows: int


def derive_rows(sql: str, source: PrivateRows) -> DerivedRows:
    """Return what the text alone says of the rows of people.

    Raises:
        InternalError: a shape that is not known to keep people apart.
    """
    tree, ctes, source = parsed(sql, source)
    _, row, lists = unit_rows(ctes, source)
    if lists or set(ctes) != {"unit rows"}:
        reject("the stages of the query")
    each = source.unit is None
    names = [f"c{i}" for i in range(len(row) - (0 if each else 1))]
    if set(row) != {*names, *(() if each else ("u",))}:
        reject("the columns of the rows")
    reads_stage(tree, "unit rows", {"expressions", "from_", "with_", "qualify"})
    if not each:
        first = tree.expressions[0].unalias()
        if tree.expressions[0].alias != "p" or not _is_window(first, exp.DenseRank, [], ["u"]):
            reject("whose the rows are")
    shown = tree.expressions if each else tree.expressions[1:]
    if not are_columns(shown, names):
        reject("the columns of the rows")
    for name in names:
        whole_kind(row[name], {})
    spans = []
    for name in names:
        low, high = span_of(row[name], frozenset())
        if not (-_WORD <= low <= high <= _WORD):
            reject("a column that 64 bits may not hold")
        spans.append((int(low), int(high)))
    if each and tree.args.get("qualify") is not None:
        reject("which rows are kept")
    return DerivedRows(tuple(spans), 1 if each else _most(tree, names))


_WORD = 1 << 62


def _most(tree: exp.Select, names: list[str]) -> int:
    """Return the n of QUALIFY row_number() OVER (PARTITION BY u ORDER BY hash(u, columns, $secret), columns) <= n.

    Rows that do not differ in the order do not differ at all, so that which of them is kept changes nothing: what is
    kept of a person follows from that person's rows.
    """
    qualify = tree.args.get("qualify")
    test = None if qualify is None else qualify.this
    if type(test) is not exp.LTE:
        reject("how many rows of a person are kept")
    window = test.this
    if not _is_window(window, exp.RowNumber, ["u"], None):
        reject("how many rows of a person are kept")
    first, *rest = window.args["order"].expressions
    key = first.this
    hashed = type(key) is exp.Anonymous and key.name.lower() == "hash" and key.expressions
    if not hashed or not are_columns(key.expressions[:-1], ["u", *names]):
        reject("the order of a person's rows")
    if not is_secret(key.expressions[-1]) or not are_columns([o.this for o in rest], names):
        reject("the order of a person's rows is not total")
    return whole_constant(test.expression)


def _is_window(e: exp.Expr, function: type[exp.Expr], by: list[str], order: list[str] | None) -> bool:
    """Whether it is this function over these columns, in this order; None for any."""
    if type(e) is not exp.Window or type(e.this) is not function or not holds_only(e.this, ()):
        return False
    if not holds_only(e, {"this", "partition_by", "order", "over"}):
        return False
    ordered = e.args.get("order")
    if type(ordered) is not exp.Order or not holds_only(ordered, {"expressions"}):
        return False
    terms = ordered.expressions
    if not all(type(o) is exp.Ordered and holds_only(o, {"this", "desc", "nulls_first"}) for o in terms):
        return False
    if not are_columns(e.args.get("partition_by") or [], by):
        return False
    return order is None or are_columns([o.this for o in terms], order)
