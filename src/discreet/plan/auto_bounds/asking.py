"""From a query as it was asked to its two stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from discreet.catalog.schema import TableSchema
from discreet.errors import InvalidParameter
from discreet.plan.auto_bounds.caps import Caps
from discreet.plan.auto_bounds.staged import NEARLY_ALL, SHARE, StagedQuery, stage, with_caps
from discreet.plan.cost import PlanTerms
from discreet.plan.measures.ranges import Ranges
from discreet.plan.plan import Plan
from discreet.plan.planner import make_less_noisy_plan, make_plan, query_of
from discreet.plan.query import Query, is_chosen, kind_of
from discreet.plan.question import Question
from discreet.plan.rules import RULES
from discreet.privacy.exact import Real, probability
from discreet.query.dialects.prepared import Prepared


def plan_in_stages(
    prepared: Prepared,
    tables: Sequence[TableSchema],
    *,
    chosen: str,
    population: str,
    version: str | None,
    epsilon: Fraction,
    delta: Real,
    noise: str | None,
    truncation: Real,
) -> Plan | None:
    """Return a query in two stages; None where nothing that was asked to be chosen is missing.

    Args:
        prepared: the query.
        tables: the connected tables.
        chosen: "auto" for caps and ranges, "values" for ranges, "ranges" for these with nearly all of ε.
        population: whose account pays.
        version: the owner's public label of the data.
        epsilon: the ε of both stages.
        delta: the δ of the second.
        noise: "laplace" or "gaussian", of the second; "auto" or None: for each choice the less wide one.
        truncation: the share of the second's ε that is spent on truncation reports.

    Raises:
        PlanError, InvalidParameter: see `discreet.errors`; nothing has been read or charged.
    """
    caps = chosen == "auto"
    if caps and [t.unit for t in prepared.tables] != [t.unit for t in tables]:
        raise InvalidParameter(
            "max_groups_contributed caps the groups of a unit, and bounds='auto' chooses that cap.",
            hint="say one of the two",
        )
    spent = probability("delta", prepared.delta_or(delta))
    rules = [rule for rule in RULES if rule.in_stages]
    terms = PlanTerms(population, version, epsilon, spent, kind_of(noise), probability("truncation", truncation))

    def make(left: Fraction, under: Caps | None, ranges: Ranges) -> Query:
        of = prepared.tables if under is None else with_caps(prepared.tables, under)
        own = replace(terms, epsilon=left)
        if is_chosen(noise):  # both stages are charged as one (ε, δ), whatever the noise of the second
            return query_of(make_less_noisy_plan(prepared.text, of, own, ranges, rules, alike=True, spent=True))
        return query_of(make_plan(prepared.text, of, own, ranges, rules))

    def identify(question: Question, left: Fraction) -> str:
        return question.identity(replace(terms, epsilon=left))

    rows = max(((t.unit.caps or (1, 1))[1] for t in prepared.tables if not t.public), default=1)
    share = NEARLY_ALL if chosen == "ranges" else SHARE
    label = " noise chosen for each choice" if is_chosen(noise) and spent else ""
    return stage(StagedQuery(make, identify, population, epsilon, spent, caps, rows, share, label))
