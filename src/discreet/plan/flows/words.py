"""The derivation of a question to two populations, in the textbook's terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.explain import citations
from discreet.privacy.guarantee import decimal, words
from discreet.privacy.unit import Relation

if TYPE_CHECKING:
    from discreet.plan.plan import Plan


def explain(plan: Plan) -> str:
    """Who is protected, how far one unit of either population moves each number, and what each is charged."""
    assert plan.flows is not None
    q, flows = plan.query.question, plan.flows
    lines = []
    for p in flows.parties:
        differ = "is there or not" if p.relation is Relation.ADD_REMOVE else "is replaced by any other"
        lines.append(
            f"Protected as {p.population!r}: all rows that share one {p.unit.column!r} of {q.table.name!r}. "
            f"Neighbours ({p.relation.value}): one such unit {differ}."
        )
    lines += ["Rows without an id of either are dropped.", ""]
    count = q.keys.count
    lines.append(
        "Groups: one, the whole table."
        if not q.keys.exprs
        else f"Groups: {count}, declared, so all are shown. Each unit is charged for all {count}, as none of them "
        "can be left out without moving the other population's; max_groups limits nothing here."
    )
    rows = zip(q.measures, flows.networks, plan.query.allocation.noises, strict=True)
    for i, (measure, network, noise) in enumerate(rows):
        step = "" if measure.step == 1 else f", in steps of {decimal(measure.step)}"
        of = "difference of two maximum flows" if len(network.flows) > 1 else "maximum flow"
        lines += ["", f"Column {i}: {measure.word}{step}, as the {of} in each group."]
        for side, p in enumerate(flows.parties):
            low, high = network.span(side)
            s = p.allowed.sensitivities[i]
            lines.append(
                f"  One unit of {p.population!r} moves a group by an integer in [{low}, {high}], so Δ₀ = {s.l0}, "
                f"Δ∞ = {s.linf}, Δ₁ = {s.l1}, Δ₂² = {s.l2_squared}."
            )
        match noise:
            case DiscreteLaplaceNoise(scale):
                lines.append(
                    f"  Laplace noise on the integers, P(k) ∝ exp(−|k|/b) with b = {float(scale):,.6g}."
                )
            case RoundedGaussianNoise(sigma):
                lines.append(f"  Gaussian noise, rounded to the integers, with σ = {float(sigma):,.6g}.")
    lines.append("")
    for p in flows.parties:
        g = p.paid.guarantee
        of = words(p.allowed.epsilon, p.allowed.delta)
        lines.append(
            f"{p.population!r} pays ε = {decimal(g.epsilon)}, δ = {decimal(g.delta)}, of {of} that it may be asked."
        )
    if plan.outlook:
        lines.append(plan.outlook)
    lines.append(
        "The noise is added once, and each population is charged by how far one of its own units moves what it is "
        "added to. Arithmetic, HAVING, ORDER BY, LIMIT and intervals use only the noisy numbers: post-processing, free."
    )
    return "\n".join(lines)


def cited(plan: Plan) -> list[str]:
    """The works on which the plan's guarantee rests."""
    return [
        *citations(plan.query),
        (
            "Kasiviswanathan, Nissim, Raskhodnikova, Smith 2013, Analyzing graphs with node differential privacy, "
            "https://doi.org/10.1007/978-3-642-36594-2_26"
        ),
    ]
