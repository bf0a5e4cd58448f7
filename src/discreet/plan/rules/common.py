"""Several queries planned together: the same measurement is made once, and all share one budget as the columns
of one query do.

Queries over the same rows, groups and unit are one statement, hence one pass of the database. The groups of each of m
queries have at most the noise that they would have alone with an m-th of ε and of δ: less where columns are shared,
and with Gaussian noise, where μ² adds up and not ε. A query with one column does not pay for one with five
(`plan/needs.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from typing import Any

from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InternalError
from discreet.mechanisms.additive import Additive
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.mechanisms.rounds import selection
from discreet.plan.bound import bounding
from discreet.plan.cost import Allocation, Kind, PlanTerms, allocate, as_small
from discreet.plan.measures.measure import Measure
from discreet.plan.needs import is_composed, law_of, least_scales, needs_of, noise_delta_of
from discreet.plan.plan import Payer, Place, Plan, PlanOutput
from discreet.plan.quantile_tree.shape import TreeShape
from discreet.plan.query import Query, statements, with_allocation
from discreet.plan.question import Outer
from discreet.plan.rules.rule import Rule, has_no_more_noise
from discreet.plan.rules.totals import measured_totals
from discreet.privacy.event import Composed
from discreet.privacy.guarantee import Approximate
from discreet.privacy.unit import Sensitivity


def measured_apart(asked: Mapping[str, Query], terms: PlanTerms) -> Plan:
    """Return the plan of a batch that measures each query by itself, with the part of ε and δ that it has."""
    events = sum((q.allocation.events for q in asked.values()), Composed())
    outputs = {
        name: PlanOutput(q, Place(i, (*range(len(q.question.measures)),), (*range(len(q.question.trees)),)))
        for i, (name, q) in enumerate(asked.items())
    }
    measurements, guarantee = tuple(asked.values()), Approximate(terms.epsilon, terms.delta)
    payer = Payer(terms.population, events, guarantee)
    return Plan(_identity(measurements, ("apart",)), measurements, outputs, (payer,))


def together(asked_for: Mapping[str, Query], alone: Mapping[str, Query], terms: PlanTerms) -> Plan:
    """Return the batch of these queries, of which `alone` says what each would be by itself."""
    m = len(asked_for)
    nothing = Outer((), None, (), None, 0)
    rows = {n: replace(q.question, measures=(), outer=nothing).identity(terms) for n, q in asked_for.items()}
    for name, q in asked_for.items():
        if q.allocation.levels:  # totals that are measured as well are a measurement of their own
            rows[name] += json.dumps(q.question.outer.sets)
    by_rows = _merged(asked_for, rows, terms)
    order = sorted(by_rows, key=lambda key: (by_rows[key].identity, key))
    asked = [[q for name, q in asked_for.items() if rows[name] == key] for key in order]
    shared = _allocated([by_rows[key] for key in order], asked, terms)
    measurements = tuple(
        replace(with_allocation(by_rows[key], terms, a), epsilon=terms.epsilon, delta=terms.delta)
        for key, a in zip(order, shared.allocations, strict=True)
    )
    _check_price(shared.events, shared.guarantee)
    identity = _identity(measurements, shared.law)
    places = {name: _place(q, by_rows[rows[name]], order.index(rows[name])) for name, q in asked_for.items()}
    outputs = {
        name: _output(q, alone[name], measurements[at.measurement], at, shared, m)
        for (name, q), at in zip(asked_for.items(), places.values(), strict=True)
    }
    payer = Payer(terms.population, shared.events, shared.guarantee)
    return Plan(identity, measurements, outputs, (payer,))


@dataclass(frozen=True, slots=True)
class _Shared:
    """One budget over all measurements; `law` says how it is divided, where that is not evenly."""

    allocations: tuple[Allocation, ...]
    events: Composed
    guarantee: Approximate
    law: tuple[str, ...]


def _merged(plans: Mapping[str, Query], rows: Mapping[str, str], terms: PlanTerms) -> dict[str, Query]:
    """For all queries over the same rows, groups and unit one plan, with the columns of all of them."""
    found: dict[str, list[Query]] = {}
    for name, p in plans.items():
        found.setdefault(rows[name], []).append(p)
    return {key: _with_all_columns(same, terms) for key, same in found.items()}


def _with_all_columns(same: Sequence[Query], terms: PlanTerms) -> Query:
    moved: dict[Measure, Sensitivity] = {}
    trees: dict[TreeShape, tuple[Sensitivity, str]] = {}
    for p in same:
        moved |= dict(zip(p.question.measures, p.sensitivities, strict=True))
        trees |= {tree_read.shape: found for tree_read, found in zip(p.question.trees, p.trees, strict=True)}
    measures = sorted(moved, key=lambda m: json.dumps(m.identity, sort_keys=True))
    sets = same[0].question.outer.sets if same[0].allocation.levels else None
    read = Outer(tuple(("", e) for p in same for e in p.question.outer.expressions), None, (), None, 0, sets=sets)
    question = replace(same[0].question, measures=tuple(measures), outer=read)
    sql, distinct = statements(question, bounding(question))
    return replace(
        same[0],
        question=question,
        identity=question.identity(terms),
        sql=sql,
        sensitivities=tuple(moved[m] for m in measures),
        distinct=distinct,
        trees=tuple(trees[tree_read.shape] for tree_read in question.trees),
    )


def _allocated(plans: Sequence[Query], asked: Sequence[Sequence[Query]], terms: PlanTerms) -> _Shared:
    """Return the noise of each measurement's columns, and its selection of groups, from one budget.

    Each column, level of a tree and selection gets what it needs (`needs.py`), and of what is left in proportion.
    `asked` has for each measurement its queries, planned alone with their part of ε and δ.
    """
    epsilon, delta, kind = terms.epsilon, terms.delta, terms.kind
    questions = sum(len(own) for own in asked)
    sensitivities = [s for p in plans for s in p.sensitivities]
    trees = [level for p in plans for level in _levels(p)]
    needs = [needs_of(p, own, questions) for p, own in zip(plans, asked, strict=True)]
    composes = questions > 1 and any(is_composed(p) for own in asked for p in own)
    # where Laplace columns compose by a δ, what is left is given to them below, and selections have what they need
    together = Fraction(1) if composes else sum((n.total for n in needs), Fraction(0))
    shares = [n.divided(together) for n in needs]
    selecting = [n.selection for n in shares if n.selection]
    for_columns = 1 - sum(selecting, Fraction(0))
    weights = [*(w for n in shares for w in n.columns), *(w for n in shares for w in n.trees)]
    of_columns = sum((n.total - n.selection for n in shares), Fraction(0))
    parts = [w / of_columns for w in weights]
    noise_delta = noise_delta_of([p for own in asked for p in own], delta, kind)
    if kind is Kind.LAPLACE and not composes and any(p.allocation.levels for own in asked for p in own):
        noise_delta = Fraction(0)  # columns that a δ lets compose have no measured totals, which weigh more
    noises: tuple[Additive, ...] = ()
    of_trees: tuple[Additive | ExponentialQuantile, ...] = ()
    needed = Fraction(0)
    if parts:
        found = allocate(
            sensitivities,
            epsilon=epsilon * for_columns,
            delta=noise_delta,
            kind=kind,
            select=None,
            trees=trees,
            shares=parts,
        )
        noises, of_trees, needed = found.noises, found.trees, found.guarantee.delta
        if composes:
            least = least_scales(plans, asked)
            moved = [*sensitivities, *(s for s, depth in trees for _ in range(depth))]
            shorter = as_small(least, moved, epsilon * for_columns, noise_delta)
            starts = [len(sensitivities) + sum(depth for _, depth in trees[:i]) for i in range(len(trees))]
            noises, of_trees = shorter[: len(sensitivities)], tuple(shorter[i] for i in starts)
            needed = noise_delta
    guarantee = Approximate(epsilon, delta if selecting else needed)
    selection_delta = (delta - (noise_delta if needed else 0)) / max(len(selecting), 1)
    rest, rest_of_trees = iter(noises), iter(of_trees)
    allocations, events = [], Composed()
    for p, given in zip(plans, shares, strict=True):
        own = tuple(islice(rest, len(p.sensitivities)))
        own_trees = tuple(islice(rest_of_trees, len(p.trees)))
        threshold = None
        if given.selection:
            k, table = bounding(p.question).max_groups, p.question.table
            share = epsilon * given.selection
            threshold = selection(share, selection_delta, k, table.relation, table.min_people)
        mine = threshold.event() if threshold else Composed()
        mine += sum((n.event(s) for n, s in zip(own, p.sensitivities, strict=True)), Composed())
        for n, (s, depth) in zip(own_trees, _levels(p), strict=True):
            assert isinstance(n, Additive)  # in a batch no quantile is chosen by rank
            mine += n.event(s) * depth
        even = Allocation(own, threshold, (), mine, guarantee, own_trees)
        allocations.append(_with_totals(replace(p, allocation=even), plain=not needed))
        events += allocations[-1].events
    law = law_of(shares, noise_delta if needed else Fraction(0), delta, kind)
    law = (*law, "as alone") if composes else law
    return _Shared(tuple(allocations), events, guarantee, law)


def _with_totals(query: Query, *, plain: bool) -> Allocation:
    """Return the noise of a measurement, divided among levels where no number has more by it."""
    found = measured_totals(query, plain=plain)
    if found is None or not has_no_more_noise(replace(query, allocation=found), query):
        return query.allocation
    return found


def _levels(plan: Query) -> list[tuple[Sensitivity, int]]:
    """For each tree how far one unit moves a level, and how many levels there are."""
    read = zip(plan.trees, plan.question.trees, strict=True)
    return [(moves, tree_read.shape.depth) for (moves, _), tree_read in read]


def _check_price(events: Composed, guarantee: Approximate) -> None:
    """Check that the events of all measurements together cost no more than what is charged, by the accountant."""
    pure = failure = Fraction(0)
    exact = True
    for event, n in events:
        exact = exact and event.pure is not None
        pure, failure = pure + n * (event.pure or 0), failure + n * event.failure
    if exact and pure <= guarantee.epsilon and failure <= guarantee.delta:
        return
    found = PrivacyLoss(events).epsilon(delta=guarantee.delta) if guarantee.delta else float("inf")
    if not found <= float(guarantee.epsilon) * (1 + 1e-6):
        raise InternalError(
            "The price of this batch is less than what its measurements reveal together. Nothing was charged.",
            hint="please report the queries",
        )


def _place(plan: Query, measured: Query, measurement: int) -> Place:
    """Where a query's columns and trees are measured."""
    trees = [tree_read.shape for tree_read in measured.question.trees]
    return Place(
        measurement,
        tuple(measured.question.measures.index(m) for m in plan.question.measures),
        tuple(trees.index(tree_read.shape) for tree_read in plan.question.trees),
    )


def _output(query: Query, alone: Query, measured: Query, place: Place, shared: _Shared, questions: int) -> PlanOutput:
    """Return a query's result: with the noise of its columns as measured in the batch, and the batch's price."""
    a = measured.allocation
    own = Allocation(
        tuple(a.noises[i] for i in place.columns),
        a.threshold,
        (),
        shared.events,
        shared.guarantee,
        tuple(a.trees[i] for i in place.trees),
        tuple(replace(v, noises=tuple(v.noises[i] for i in place.columns)) for v in a.levels),
        tuple(a.undivided[i] for i in place.columns) if a.undivided else (),
    )
    if questions == 1:
        return PlanOutput(replace(query, allocation=own), place)
    asked = replace(query, allocation=own, epsilon=measured.epsilon, delta=measured.delta)
    return PlanOutput(asked, place, alone)


def _identity(measurements: Sequence[Query], law: tuple[str, ...]) -> str:
    """Return the measurement's own where there is one with even parts, so that it is the same query; else one of
    all.
    """
    if len(measurements) == 1 and not law:
        return measurements[0].identity
    described: list[Any] = ["batch", 1, [p.identity for p in measurements]]
    if law:
        described = ["batch", 2, [p.identity for p in measurements], list(law)]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()


COMMON = Rule(name="common", of_several=lambda asked, terms: together(asked, asked, terms))
