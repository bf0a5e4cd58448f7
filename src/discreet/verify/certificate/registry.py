"""A release in the words of registries of deployments and of evaluators: what is promised to whom, and what is not.

The questions are those of NIST SP 800-226, *Guidelines for Evaluating Differential Privacy Guarantees* (2025),
https://doi.org/10.6028/NIST.SP.800-226, and the fields those of the third tier of the registry of deployments,
https://registry.opendp.org/transparency-tiers. Everything follows from the claim and the ledger; the wording belongs to
the format. What only the owner knows (the purpose, the people, who has access) is left to the owner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from discreet.ledger.entry import Opened
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.privacy.codec import fraction_text
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import Relation
from discreet.verify.claim import Cost, PartKind, PlanClaim
from discreet.verify.derive import PrivateRows
from discreet.verify.flows import FlowClaim, span_of_side


def registry(claim: PlanClaim, opened: Opened, *, population: str, version: str | None) -> dict[str, Any]:
    """The release as an entry of a registry."""
    return entry_of(
        claim.relation,
        claim.charged,
        opened,
        population=population,
        version=version,
        unit={
            "is": sorted({_unit(source) for source in claim.sources}),
            "population": population,
            # what the second derivation finds; how many rows count (`m.rows`) is read off no statement
            "contribution": [{"groups": m.groups, "of_groups": m.declared} for m in claim.measurements],
            "bounded_by": _bounded_by(claim),
        },
        declared=any(m.lists for m in claim.measurements),
        mechanisms=_mechanisms(claim),
    )


def _bounded_by(claim: PlanClaim) -> str:
    """What bounds a unit's contribution."""
    kinds = {part.kind for part in claim.parts}
    if PartKind.WHOLE in kinds:
        return "in part by the promise of a recipe, which nothing here proves; nothing is assumed of the data"
    if kinds:
        return "norms of a unit's part that are checked in integers; nothing is assumed of the data"
    return "the SQL that runs; nothing is assumed of the data"


def registry_of_both(
    claim: FlowClaim, opened: Sequence[Opened], *, populations: Sequence[str], version: str | None
) -> list[dict[str, Any]]:
    """The release as an entry of a registry, for each of the populations."""
    groups = math.prod(claim.lists)
    found = []
    for place, (side, account, name) in enumerate(zip(claim.sides, opened, populations, strict=True)):
        spans = [span_of_side(column, place) for column in claim.measured]
        unit = {
            "is": [rows_of(claim.table, side.unit)],
            "population": name,
            "protected_beside": [other for other in populations if other != name],
            "contribution": [
                {"groups": groups, "of_groups": groups, "least": str(low), "most": str(high)}
                for low, high in spans
            ],
            "bounded_by": "the caps of maximum flows over what the SQL gives; nothing is assumed of the data",
        }
        found.append(
            entry_of(
                side.relation,
                side.cost,
                account,
                population=name,
                version=version,
                unit=unit,
                declared=bool(claim.lists),
                mechanisms=sorted({named(column.noise) for column in claim.measured}),
                also=[_ALSO],
            )
        )
    return found


_ALSO = "what the answer says of somebody who is a unit of both populations, for whom the two losses add up"


def entry_of(
    relation: Relation,
    cost: Cost,
    opened: Opened,
    *,
    population: str,
    version: str | None,
    unit: dict[str, Any],
    declared: bool,
    mechanisms: list[str],
    also: Sequence[str] = (),
) -> dict[str, Any]:
    """One population's entry in a registry.

    Args:
        relation: its neighbours.
        cost: what it was charged.
        opened: what its account was opened as.
        population: whose it is.
        version: the public label of the data.
        unit: who is protected, and by what a unit is bounded.
        declared: whether groups were declared.
        mechanisms: in words.
        also: what else is out of scope.
    """
    return {
        "flavor": {
            "definition": "approximate differential privacy" if cost.delta else "pure differential privacy",
            "neighbours": _NEIGHBOURS[relation.value],
            "unprotected": _unprotected(relation, declared),
        },
        "unit": unit,
        "parameters": {"epsilon": fraction_text(cost.epsilon), "delta": fraction_text(cost.delta)},
        "model": "central: the noise is added where the data is, by the owner of the data, who is trusted with it",
        "life_cycle": {
            "protects": "what leaves in answer to this question, and whatever is made of it later",
            "does_not_protect": "the data where it is collected, stored, copied and processed before that",
            "data_version": version,
        },
        "accounting": {
            "mechanisms": mechanisms,
            "composition": opened.filter,
            "promise_at_opening": _promise(opened.budget),
            "promise_to_each_person": None if opened.people is None else _promise(opened.people.budget),
            "post_processing": "rows, intervals and order of the answer are computed from the noisy numbers alone",
        },
        "implementation": {
            "integers": "the database gives whole numbers; noise is drawn exactly, on whole numbers",
            "charged": "durably, before the data was read",
            "randomness": "the operating system's generator, stretched by AES",
        },
        "out_of_scope": [*_OUT_OF_SCOPE, *also],
    }


_NEIGHBOURS = {
    "add-remove": "one unit with all its rows is there or is not (unbounded)",
    "replace": "one unit with all its rows becomes another (bounded); the number of units is public",
}

_OUT_OF_SCOPE = (
    "what the answer says of groups of people, which is what it is for",
    "bias of the data and of the caps and bounds, which intervals do not cover",
    "answers about the same people from other ledgers or by other means, whose losses add up with this one",
    "how long the database takes, unless answers are paced, and what else its machine lets be seen",
    "the owner of the data, who could have read it, and whether the program that ran is the one that is published",
)


def _unprotected(relation: Relation, declared: bool) -> list[str]:
    found = ["the names and types of tables and columns", "declared bounds, lists and caps", "public tables"]
    if relation.value == "replace":
        found.append("the number of units")
    if declared:
        found.append("which groups are shown: those that are declared")
    return found


def _unit(source: PrivateRows) -> str:
    if source.table is not None:
        return f"each row of {source.table}" if source.unit is None else rows_of(source.table, source.unit)
    ways = []
    for name, t in sorted(source.tables.items()):
        if t.unit is not None:
            ways.append(f"{name}.{t.unit}")
        elif t.key is not None:
            ways.append(f"{name}.{t.key[0]} -> {t.key[1]}.{t.key[2]}")
    return f"all rows that lead to one value of the unit: {', '.join(ways)}"


def rows_of(table: str, column: str) -> str:
    """A unit of rows of one table."""
    return f"all rows of {table} with one value of {column}"


def _mechanisms(claim: PlanClaim) -> list[str]:
    found = {named(z) for look in claim.looks for z in (look.noise, look.outside) if z is not None}
    for m in claim.measurements:
        found |= {named(c.noise) for c in m.columns} | {named(t.noise) for t in m.trees}
        found |= {named(z) for z in m.reports} | {named(z) for v in m.levels for z in v.noises}
        if m.threshold is not None:
            found.add("optimal private selection of groups")
    return sorted(found | {part.law.name for part in claim.parts})


def named(noise: object) -> str:
    """A mechanism in words."""
    match noise:
        case DiscreteLaplaceNoise():
            return "discrete Laplace noise"
        case RoundedGaussianNoise():
            return "Gaussian noise, rounded to whole numbers"
        case ExponentialQuantile():
            return (
                "exponential mechanism on ranks, and discrete Laplace noise on counts about the named value"
            )
        case _:
            return "unknown"


def _promise(budget: Budget | None) -> dict[str, str] | None:
    """What everything that is ever charged costs together, as it was promised at the opening of the account."""
    if budget is None:
        return None
    return {"epsilon": fraction_text(budget.epsilon), "delta": fraction_text(budget.delta)}
