"""A plan's derivation in the textbook's terms, with its own numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet.catalog.schema import TableSchema
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.exponential_quantile import COUNTED, NAMED, NEAR, ExponentialQuantile
from discreet.mechanisms.rounds import GaussianRounds
from discreet.plan.bound import bounding
from discreet.plan.grouping_sets.split_budget import agreements, levels_of
from discreet.plan.measures.measure import Measure
from discreet.plan.quantile_tree.chosen import rank_off
from discreet.plan.quantile_tree.shape import TreeRead, TreeShape
from discreet.plan.reports import count_margin, report_moves
from discreet.privacy.guarantee import decimal, words
from discreet.privacy.unit import Relation, Sensitivity

if TYPE_CHECKING:
    from discreet.mechanisms.rounds import Selection
    from discreet.plan.decided import Decided
    from discreet.query.keys import GroupKeys


FREE = "Arithmetic, HAVING, ORDER BY, LIMIT and intervals use only the noisy numbers: post-processing, free."
"""What an explanation ends with."""


def explain(plan: Decided, outlook: str = "") -> str:
    """Who is protected, how far one unit moves each number, which noise hides it, and what it costs together; then what
    the account would say to it.
    """
    lines = [*_who(plan), "", *_groups(plan), ""]
    rows = zip(plan.question.measures, plan.sensitivities, plan.allocation.noises, strict=True)
    for i, (measure, sensitivity, noise) in enumerate(rows):
        lines += _column(i, measure, sensitivity, noise, plan)
    for i, (tree_read, (sensitivity, _)) in enumerate(zip(plan.question.trees, plan.trees, strict=True)):
        lines += _tree(i, tree_read, sensitivity, plan)
    read = (e.said for expr in plan.question.outer.expressions for e in expr.walk())
    lines += [said for said in dict.fromkeys(read) if said]
    if plan.allocation.levels:
        lines += level_lines(plan)
    if plan.allocation.reports:
        lines += _reports(plan)
    g = plan.allocation.guarantee
    lines += [
        "",
        f"Together: ε = {decimal(g.epsilon)}, δ = {decimal(g.delta)} (composition: {_composition(plan)})."
        + (f" {outlook}" if outlook else ""),
    ]
    if plan.question.table.relation is Relation.ADD_REMOVE:
        d = min(
            Fraction(1), g.delta * Fraction(1 + math.exp(min(g.epsilon, Fraction(100))))
        )  # group privacy: Lemma 2.2 of Vadhan 2017
        lines += [f"Changing one such unit is two steps, and costs at most {words(2 * g.epsilon, d)}."]
    return "\n".join([*lines, FREE])


def citations(plan: Decided) -> list[str]:
    """Return the works on which the plan's guarantee rests."""
    found = [
        "Dwork, McSherry, Nissim, Smith 2006, Calibrating noise to sensitivity, https://doi.org/10.1007/11681878_14"
    ]
    if any(isinstance(n, DiscreteLaplaceNoise | ExponentialQuantile) for n in _noises(plan)):
        found.append(
            "Ghosh, Roughgarden, Sundararajan 2009, Universally utility-maximizing privacy mechanisms, https://arxiv.org/abs/0811.2841"
        )
    if plan.allocation.is_gaussian:
        found.append(
            "Balle, Wang 2018, Improving the Gaussian mechanism for differential privacy, https://arxiv.org/abs/1805.06530"
        )
    chosen = [isinstance(q, ExponentialQuantile) for q in plan.allocation.trees]
    if any(chosen):
        found.append(
            "Smith 2011, Privacy-preserving statistical estimation with optimal convergence rates, https://doi.org/10.1145/1993636.1993743"
        )
    trees = [tree_read.at and not by_rank for tree_read, by_rank in zip(plan.question.trees, chosen, strict=True)]
    if any(tree_read.shape.layers for tree_read in plan.question.trees):
        found.append(
            "Li, Miklau, Hay, McGregor, Rastogi 2015, The matrix mechanism, https://doi.org/10.1007/s00778-015-0398-x"
        )
    if any(trees) or plan.allocation.levels:
        found.append(
            "Hay, Rastogi, Miklau, Suciu 2010, Boosting the accuracy of differentially private histograms, https://arxiv.org/abs/0904.0942"
        )
    if isinstance(plan.allocation.threshold, GaussianRounds):
        found.append("Swanberg, Desfontaines, Haney 2023, DP-SIPS, https://arxiv.org/abs/2301.01998")
    elif plan.allocation.threshold is not None:
        found.append(
            "Desfontaines, Voss, Gipson, Mandayam 2022, Differentially private partition selection, https://arxiv.org/abs/2006.03684"
        )
    return found


def _noises(plan: Decided) -> tuple[Additive | ExponentialQuantile, ...]:
    """Return the noise of columns and of trees, and choices by rank."""
    return (*plan.allocation.noises, *plan.allocation.trees)


def _who(plan: Decided) -> list[str]:
    table = plan.question.table
    unit, relation = table.unit, table.relation
    who = "one row" if unit.is_row else f"all rows that share one {unit.column!r}"
    if plan.question.relation is not None:
        private = [t for t in plan.question.relation.tables if not t.public]
        who = f"all rows of one unit, which is {' and '.join(map(_owner, private))}"
        return [f"Protected: {who}. {neighbours(relation)}"]
    return [f"Protected: {who} of {table.name!r}. {neighbours(relation)}"]


def neighbours(relation: Relation) -> str:
    """Return the sentence on which data sets are neighbours."""
    differ = "is there or not" if relation is Relation.ADD_REMOVE else "is replaced by any other"
    return f"Neighbours ({relation.value}): one such unit {differ}."


def _owner(table: TableSchema) -> str:
    """Where a table's rows have their unit."""
    if table.reached is not None:
        way = table.reached
        return f"that of {way.table}.{way.key} = {way.column!r} in {table.name!r}"
    return f"{table.unit.column!r} in {table.name!r}"


def _groups(plan: Decided) -> list[str]:
    q = plan.question
    b, k = bounding(q), (q.table.unit.caps or (0, 0))[0]
    rows = "" if b.most is None else f" At most {b.most:,} rows of a unit are read, chosen by a keyed hash."
    how = ", chosen by a keyed hash" if b.ranks_groups or b.most is None else ""
    if q.keys.lists is None:
        threshold = plan.allocation.threshold
        assert threshold is not None
        few = f", none of fewer than {threshold.min_people}" if threshold.min_people > 1 else ""
        return [
            f"Groups: private{_of_grid(q.keys)}. A unit enters at most {k}.{rows}",
            f"  A group is shown by {_selected(threshold)}, for {words(threshold.epsilon, threshold.delta)}:",
            f"  one with {threshold.kept_from(Fraction(19, 20))} units or more is kept in 19 of 20 cases{few}.",
        ]
    if not q.keys.exprs:
        return ["Groups: one, the whole table."]
    return [f"Groups: {q.keys.shown:,}, declared, so all are shown. A unit enters at most {k}{how}.{rows}"]


def _selected(chosen: Selection) -> str:
    if isinstance(chosen, GaussianRounds):
        return f"weights, in {len(chosen.rounds)} rounds of Gaussian noise"
    return "optimal partition selection"


def _of_grid(keys: GroupKeys) -> str:
    """Say why declared groups are selected."""
    if keys.grid is None:
        return ""
    many = math.prod(len(values) for values in keys.grid)
    return f", among the {many:,} declared combinations"


def column_name(i: int, measure: Measure) -> str:
    """Return what a column is, and its grid."""
    step = "" if measure.step == 1 else f", in steps of {decimal(measure.step)}"
    return f"Column {i}: {measure.word}{step}"


def norms(s: Sensitivity) -> str:
    """Return the four norms of a sensitivity."""
    return f"Δ₀ = {s.l0}, Δ∞ = {s.linf}, Δ₁ = {s.l1}, Δ₂² = {s.l2_squared}"


def _column(i: int, measure: Measure, s: Sensitivity, noise: Additive, plan: Decided) -> list[str]:
    caps = plan.question.table.unit.caps
    assert caps is not None
    low, high = measure.span(caps[1])
    most = bounding(plan.question).most
    total = "" if most is None else f" and {most * measure.of_one_row} in all at most,"
    return [
        f"{column_name(i, measure)}.",
        f"  One unit adds to each group an integer in [{low}, {high}],{total}",
        f"  so {norms(s)}.",
        f"  {_law(noise, s, measure.step)}",
    ]


def _tree(i: int, tree_read: TreeRead, s: Sensitivity, plan: Decided) -> list[str]:
    shape, unit, noise = tree_read.shape, plan.question.table.unit, plan.allocation.trees[i]
    assert unit.caps is not None
    steps = shape.steps(is_row=unit.is_row)
    step = Fraction(1, steps)
    if isinstance(noise, ExponentialQuantile):
        return _chosen(i, tree_read, noise, plan)
    levels = "" if shape.depth == 1 else f" on each of {shape.depth} levels"
    weight = "1 for its row" if unit.is_row else f"at most {unit.caps[1]:,}, spread over its rows"
    lines = [
        f"Quantile tree {i}: {shape.word}.",
        f"  One unit adds to each group a weight of {weight}, counted in steps of 1/{steps:,} row,",
        f"  so{levels} Δ∞ = {s.linf:,}, Δ₁ = {s.l1:,}, Δ₂² = {s.l2_squared:,} steps.",
        f"  Each level: {_law(noise, s, step)}",
    ]
    if tree_read.at:
        reach = rank_off(shape, noise, Fraction(19, 20), is_row=unit.is_row)
        lines.append(
            f"  {len(tree_read.at)} quantile{'s are' if len(tree_read.at) > 1 else ' is'} read from it, at the cost of "
            f"one; the rank of a median is off by {reach:,.3g} rows or less in 19 of 20 cases."
        )
    elif shape.layers is not None:
        lines += partition_lines(plan, shape)
    elif shape.depth == 1:
        off = shape.rows(noise.quantile(Fraction(19, 20)), is_row=unit.is_row)
        lines.append(f"  The number of rows with each value is off by {off:,.3g} or less in 19 of 20 cases.")
    return lines


def _chosen(i: int, tree_read: TreeRead, q: ExponentialQuantile, plan: Decided) -> list[str]:
    """Return a quantile whose leaf is chosen by rank."""
    shape, unit = tree_read.shape, plan.question.table.unit
    steps = shape.steps(is_row=unit.is_row)
    weight = "1 for its row" if unit.is_row else f"at most {q.sensitivity / steps}, spread over its rows"
    pairs = ", where a group left and one entered count once" if q.relation is Relation.REPLACE else ""
    widths = ", ".join(f"{decimal(width / steps)} rows ({n}×)" for width, n in q.ranges)
    rows = q.reach() / steps
    off = q.error(Fraction(19, 20), cells=shape.leaves) / steps
    step = Fraction(1, steps)
    evenly = rank_off(shape, q, Fraction(19, 20), is_row=unit.is_row)
    return [
        f"Quantile {i}: p = {decimal(q.p)}, one of {shape.leaves:,} leaves, by the exponential mechanism on ranks.",
        f"  One unit adds to each group a weight of {weight}, counted in steps of 1/{steps:,} row.",
        "  The loss d of a leaf is how far p times the weight is from its ranks. Between neighbours the losses of all",
        f"  leaves of a group move by numbers in an interval of width {widths}{pairs}.",
        f"  P(leaf) ∝ exp(−r·d) with r = {float(q.rate):.6g} per step, once in each group: bounded range,",
        f"  ε = {decimal(NAMED * q.epsilon)}. In 19 of 20 cases its rank is off by {evenly:,.3g} rows or less where",
        f"  values lie evenly, and by {off:,.3g} or less whatever the data.",
        "  For the interval, rows between edges about the leaf are counted twice. Laplace noise of",
        f"  b = {_size(q.near.scale, step)} rows, ε = {decimal(NEAR * q.epsilon)}, says how dense they are, so",
        f"  where edges lie; of b = {_size(q.counted.scale, step)} rows, ε = {decimal(COUNTED * q.epsilon)},",
        f"  tests the rank at each, to {rows:,.3g} rows in 19 of 20 cases.",
    ]


def law_name(noise: Additive, step: Fraction) -> str:
    """Return the law of a column's noise."""
    match noise:
        case DiscreteLaplaceNoise(scale):
            return f"Laplace noise on the integers, P(k) ∝ exp(−|k|/b) with b = {_size(scale, step)}"
        case RoundedGaussianNoise(sigma):
            return f"Gaussian noise, rounded to the integers, with σ = {_size(sigma, step)}"
        case _:
            return repr(noise)


def _law(noise: Additive, s: Sensitivity, step: Fraction) -> str:
    if not s.l0:
        return "It is public, and has no noise: a row is replaced by another, and none is left out."
    law = law_name(noise, step)
    match noise:
        case DiscreteLaplaceNoise(scale):
            return f"{law}: densities of neighbours differ by at most exp(Δ₁/b) = exp({decimal(s.l1 / scale)})."
        case RoundedGaussianNoise(sigma):
            return f"{law}: μ-GDP with μ = Δ₂/σ = {float(s.l2_squared / sigma**2) ** 0.5:.6g}."
        case _:
            return law


def _composition(plan: Decided) -> str:
    a = plan.allocation
    if plan.allocation.is_gaussian:
        return "the μ² of Gaussian columns add up, converted by the exact Gaussian curve"
    if a.guarantee.delta and a.threshold is None:
        return "numerical, from the dominating pairs of all columns"
    return "ε and δ add up"


def _size(scale: Fraction, step: Fraction) -> str:
    """Return a scale in grid steps, and in the column's own units where these differ."""
    steps = f"{float(scale):,.6g}"
    return steps if step == 1 else f"{steps} steps, {float(scale * step):,.6g} in the column's own units"


def _reports(plan: Decided) -> list[str]:
    """Return what the truncation reports count, and how exact it is."""
    moved, noises = report_moves(plan.question.table.relation), plan.allocation.reports
    epsilon = sum((moved.l1 / z.scale for z in noises if isinstance(z, DiscreteLaplaceNoise)), Fraction(0))
    where = "counts" if len(plan.reports) == 1 else f"each of {len(plan.reports)} vectors of counts"
    return [
        f"Truncation reports: a unit is in one count of {where}, so Δ₁ = {moved.l1}; ε = {decimal(epsilon)} together.",
        *(f"  {line}" for line in report_lines(plan)),
    ]


def report_errors(*plans: Decided) -> dict[str, str]:
    """For each truncation report how exact its counts are, in the plan where they are the least exact."""
    widest: dict[str, tuple[int, str]] = {}
    for plan in plans:
        for report, noise in zip(plan.reports, plan.allocation.reports, strict=True):
            off = max(count_margin(report, noise, part) for part in report.parts), report.what
            widest[report.name] = max(off, widest.get(report.name, off))
    return {name: f"{off:,} {what}" for name, (off, what) in widest.items()}


def report_lines(*plans: Decided) -> list[str]:
    """Return the same in lines."""
    return [f"truncation of {name}: ± {off} at 95 %" for name, off in report_errors(*plans).items()]


def level_lines(plan: Decided) -> list[str]:
    """Which levels are measured, with what part of the budget, and what noise is left on each; nothing without them."""
    allocation, levels = plan.allocation, levels_of(plan.question)
    if not allocation.levels or levels is None:
        return []
    part = {level.kept: level.share for level in allocation.levels}
    part[levels.kept[0]] = 1 - sum(part.values(), Fraction(0))
    combined = agreements(plan.question, allocation)
    lines = ["Totals are measured as well, and all levels made to agree by least squares, so that totals are sums:"]
    for kept in levels.kept:
        noise = ", ".join(
            f"{math.sqrt(a.variance(kept)) * float(m.step):,.4g}"
            for a, m in zip(combined, plan.question.measures, strict=True)
        )
        share = f"{float(part[kept]):.1%} of each column's budget" if kept in part else "not measured, added up"
        keys = f"{len(kept)} of {len(levels.sizes)} keys" if kept else "the grand total"
        lines.append(
            f"  {keys}: {levels.cells(kept):,} of {levels.parts(kept):,} finest groups each; {share}; "
            f"standard deviation {noise}."
        )
    return lines


def partition_lines(plan: Decided, shape: TreeShape) -> list[str]:
    """Which sums of cells are measured, and how each count is read from them."""
    assert shape.layers is not None
    laws = plan.laws
    parts = (e for expr in plan.question.outer.expressions for e in expr.walk())
    read = dict.fromkeys(e.counts() for e in parts if e.source == shape)
    sums = " and ".join(f"{len(layer):,}" for layer in shape.layers)
    each = f"on each of {shape.depth} levels ({sums} sums)" if shape.depth > 1 else f"({sums} sums)"
    lines = [
        f"  A row lies in one cell at most, so all counts that are read from them cost together what one costs {each};",
        "  each is read from the sums by least squares:",
    ]
    for i, counts in enumerate(c for c in read if c is not None):
        cells = sum(len(leaves) for _, leaves in counts.parts)
        lines.append(
            f"    count {i}: {_of(cells, 'cell')}, read from {_of(len(counts.read), 'sum')}; "
            f"standard deviation {math.sqrt(counts.variance(laws.of(shape))):,.4g} rows."
        )
    return lines


def _of(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' if n != 1 else ''}"
