"""A release in the words of registries of deployments and of evaluators: what is promised to whom, and what is not.

The questions are those of NIST SP 800-226, *Guidelines for Evaluating Differential Privacy Guarantees* (2025),
https://doi.org/10.6028/NIST.SP.800-226, and the fields those of the third tier of the registry of deployments,
https://registry.opendp.org/transparency-tiers. Everything follows from the claim and the ledger; the wording belongs to
the format. What only the owner knows (the purpose, the people, who has access) is left to the owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from discreet.ledger.entry import Opened
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.draws import DrawLaw
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.mechanisms.rounds import GaussianRounds
from discreet.mechanisms.threshold import Threshold
from discreet.privacy.codec import fraction_text
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import Relation
from discreet.verify.certificate.claim_checks import ClaimChecks, RegistryFacts
from discreet.verify.claim import Cost


def registry(
    checks: ClaimChecks, opened: Sequence[Opened], *, populations: Sequence[str], version: str | None
) -> list[dict[str, Any]]:
    """Return the release as an entry of a registry, for each of the populations that paid for it.

    Args:
        checks: its claim.
        opened: what the account of each was opened as.
        populations: whose they are.
        version: the public label of the data.
    """
    return [
        _entry(*payer, checks.registry_facts(place, populations), account, version)
        for place, (payer, account) in enumerate(zip(checks.payers, opened, strict=True))
    ]


def _entry(relation: Relation, cost: Cost, facts: RegistryFacts, opened: Opened, version: str | None) -> dict[str, Any]:
    return {
        "flavor": {
            "definition": "approximate differential privacy" if cost.delta else "pure differential privacy",
            "neighbours": _NEIGHBOURS[relation.value],
            "unprotected": _unprotected(relation, facts.declared),
        },
        "unit": facts.unit,
        "parameters": {"epsilon": fraction_text(cost.epsilon), "delta": fraction_text(cost.delta)},
        "model": "central: the noise is added where the data is, by the owner of the data, who is trusted with it",
        "life_cycle": {
            "protects": "the result of this query, and whatever is made of it later",
            "does_not_protect": "the data where it is collected, stored, copied and processed before that",
            "data_version": version,
        },
        "accounting": {
            "mechanisms": sorted({_named(mechanism) for mechanism in facts.mechanisms}),
            "composition": opened.filter,
            "promise_at_opening": _promise(opened.budget),
            "promise_to_each_person": None if opened.people is None else _promise(opened.people.budget),
            "post_processing": "rows, intervals and order of the result are computed from the noisy numbers alone",
        },
        "implementation": {
            "integers": "the database gives whole numbers; noise is drawn exactly, on whole numbers",
            "charged": "durably, before the data was read",
            "randomness": "the operating system's generator, stretched by AES",
        },
        "out_of_scope": [*_OUT_OF_SCOPE, *facts.also],
    }


_NEIGHBOURS = {
    "add-remove": "one unit with all its rows is there or is not (unbounded)",
    "replace": "one unit with all its rows becomes another (bounded); the number of units is public",
}

_OUT_OF_SCOPE = (
    "what the result says of groups of people, which is what it is for",
    "bias of the data and of the caps and bounds, which intervals do not cover",
    "results about the same people from other ledgers or by other means, whose losses add up with this one",
    "how long the database takes, unless results are paced, and what else its machine lets be seen",
    "the owner of the data, who could have read it, and whether the program that ran is the one that is published",
)


def _unprotected(relation: Relation, declared: bool) -> list[str]:
    found = ["the names and types of tables and columns", "declared bounds, lists and caps", "public tables"]
    if relation.value == "replace":
        found.append("the number of units")
    if declared:
        found.append("which groups are shown: those that are declared")
    return found


def _named(mechanism: object) -> str:
    """Return a mechanism in words."""
    match mechanism:
        case DiscreteLaplaceNoise():
            return "discrete Laplace noise"
        case RoundedGaussianNoise():
            return "Gaussian noise, rounded to whole numbers"
        case ExponentialQuantile():
            return "exponential mechanism on ranks, and discrete Laplace noise on counts about the named value"
        case DrawLaw():
            return mechanism.name
        case Threshold():
            return "optimal private selection of groups"
        case GaussianRounds():
            return "private selection of groups by weights, in rounds of Gaussian noise, rounded to whole numbers"
        case _:
            return "unknown"


def _promise(budget: Budget | None) -> dict[str, str] | None:
    """Return what everything that is ever charged costs together, as it was promised at the opening of the account."""
    if budget is None:
        return None
    return {"epsilon": fraction_text(budget.epsilon), "delta": fraction_text(budget.delta)}
