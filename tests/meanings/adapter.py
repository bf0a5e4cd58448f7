"""The one place to change when forms of the product change: how today's product plans, counts, draws and releases.

The other files here speak of numbers and of mechanisms by the names below, and use what users see: `columns`, `notes`,
`error` and `rank_error` of a query; `columns`, `rows`, `interval`, `notes` and `nonnegative` of a release. The fixture
stays as it is when this file changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias
from unittest.mock import patch

import discreet as dp
from discreet.engine.cells import exact_all, exact_flows
from discreet.engine.meter import Meter, follow
from discreet.engine.perform import planned_uses
from discreet.engine.release import Release
from discreet.engine.sql_recipe import Questions, _part
from discreet.errors import DiscreetError
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.mechanisms.rounds import GaussianRounds
from discreet.mechanisms.threshold import Threshold
from discreet.plan import planner as planning
from discreet.plan.auto_bounds.staged import kept, restored
from discreet.plan.plan import Plan
from discreet.plan.planner import plan_batch
from discreet.plan.query import Query
from discreet.post.noisy_table import NoisyTable
from discreet.privacy.codec import encode
from discreet.query.expr import parameters_of
from tests.meanings.worlds import World, fact, plain, restored_value, table, unit

Facts: TypeAlias = dict[str, Any]

MECHANISMS: dict[type[Any], str] = {
    DiscreteLaplaceNoise: "discrete Laplace",
    RoundedGaussianNoise: "rounded Gaussian",
    ExponentialQuantile: "quantile by rank",
    Threshold: "selection of groups",
    GaussianRounds: "selection of groups in rounds",
}
BUDGET = dp.Budget("1000", "0.1")
SECRET = 0x9E3779B97F4A7C15  # in the place of the account's key, which is random


@dataclass(frozen=True)
class Named:
    """One question of a plan."""

    plan: Plan
    name: str

    @property
    def query(self) -> Query:
        return self.plan.outputs[self.name].query

    @property
    def columns(self) -> list[str]:
        return self.query.columns

    @property
    def notes(self) -> tuple[str, ...]:
        return self.plan.notes_of(self.name)

    def error(self, *of: Any, **given: Any) -> float:
        return self.query.error(*of, **given)

    def rank_error(self, *of: Any) -> float:
        return self.query.rank_error(*of)


def connected(world: World) -> Any:
    """Return a session over a world, with an account in memory."""
    tables = {name: table(t) for name, t in world["tables"].items()}
    facts = {name: fact(f) for name, f in world["facts"].items()}
    options: Facts = {"columns": facts, "ledger": ":memory:", **world["options"]}
    if isinstance(world["unit"], dict):
        units = {name: unit(u) for name, u in world["unit"].items()}
        return dp.connect_both(tables, units=units, budget=dict.fromkeys(units, BUDGET), **options)
    options |= {"per_person" if "per_person" in options else "budget": BUDGET}
    return dp.connect(tables, unit=unit(world["unit"]), population="p", **options)


def plan(s: Any, sql: str | Mapping[str, str], asked: Mapping[str, Any]) -> Any:
    """Return the plan of a query, or of a batch of queries by their names."""
    if isinstance(sql, str):
        with patch.object(planning, "check"):  # verifying has tests of its own, and takes half of the time
            return s.plan(sql, **asked)
    return plan_batch(sql, s._desk.tables, population=s.population, version=None, **asked)


def queries(p: Any) -> dict[str, Any]:
    """Return the queries of a plan by their names; none where caps or ranges are chosen first."""
    return {} if p.stages is not None else {name: Named(p, name) for name in p.outputs}


def second_stage(p: Any, chosen: Facts) -> Any:
    """Return the query with the caps and ranges that a first stage chose."""
    return Named(p.stages.settled(p, restored({**chosen, "table": {}})[0]), "")


def costs(p: Any) -> list[Facts]:
    """Return what each population pays: events by their stored tags, and (ε, δ)."""
    return [
        {"events": encode(c.events), "epsilon": str(c.guarantee.epsilon), "delta": str(c.guarantee.delta)}
        for c in p.charges.values()
    ]


def account(s: Any, p: Any) -> Facts:
    """Return what the account would have left, and what each person would pay in parts of a budget of their own."""
    found: Facts = {}
    if len(p.payers) == 1 and [*p.outputs] == [""]:
        found["left"] = None if p.left is None else [str(Fraction(p.left.epsilon)), str(Fraction(p.left.delta))]
        people = s._desk._people
        if people is not None and p.stages is None:
            try:
                cost = people.cost(p)
                each = sorted([int(part) for part in parts] for _, *parts in _run(s, cost.sql, cost.keyed))
                found["people"] = {"most": list(cost.worst), "each": each}
            except DiscreetError as error:
                found["people"] = {"refused": type(error).__name__}
    return found


def measured(q: Any) -> Facts:
    """Return the sensitivities, noise and step of what a query measures; its trees, selection, reports and totals."""
    flows, q = q.plan.flows, q.query
    a = q.allocation
    columns = zip(q.question.measures, q.sensitivities, a.noises, strict=True)
    found: Facts = {"measured": [[_norms(s), _law(z), str(m.step)] for m, s, z in columns]}
    if flows is not None:
        found["sensitivities of each"] = [[_norms(s) for s in p.side.sensitivities] for p in flows.parties]
    if q.trees:
        trees = zip(q.question.trees, q.trees, a.trees, strict=True)
        found["trees"] = [[t.shape.leaves, t.shape.depth, _norms(s), _law(z)] for t, (s, _), z in trees]
    if a.threshold is not None:
        found["selection"] = _law(a.threshold)
    if a.reports:
        found["reports"] = [[r.places, _law(z)] for r, z in zip(q.reports, a.reports, strict=True)]
    if a.levels:
        found["totals"] = [[list(v.kept), str(v.share), [_law(z) for z in v.noises]] for v in a.levels]
    return found


def exact_cells(s: Any, p: Any) -> list[Any]:
    """Return, for each measurement, the exact integers that noise is added to: of groups, leaves, and reports."""
    p = p.plan if isinstance(p, Named) else p
    if p.flows is not None:
        return [exact_flows(p, lambda text: _run(s, text))]
    return [_cells(s, m) for m in p.measurements]


def first_stage(s: Any, p: Any) -> list[Facts]:
    """Return the noise and the exact counts from which caps and ranges are chosen; empty where none are."""
    looks: Any = () if p.stages is None else [v for v in (p.stages.of_caps, p.stages.of_values) if v]
    found: list[Facts] = []
    for look in looks:
        counts = sorted(_run(s, look.sql, "$secret" in look.sql), key=repr)
        found.append({"noise": _law(look.noise), "counts": plain(counts)})
        if hasattr(look, "outside"):
            found[-1] |= {"outside": _law(look.outside), "of": list(look.named)}
    return found


def draw(s: Any, p: Any, rng: Any) -> Facts:
    """Return a noisy state: each query's noisy integers by its name, and what a first stage chose."""
    fed: Facts = {}
    meter = Meter(planned_uses(p, None, s._desk._people, fed), lambda text, keyed: _run(s, text, keyed, fed), rng)
    found = follow(Questions(lambda tables, part: p, lambda text: _run(s, text)).run(p), meter)
    states = {name: _state(_part(found.tables, output.place)) for name, output in p.outputs.items()}
    if found.choice is None:
        return states
    chosen = kept(found.choice, {})
    return {**states, "chosen": {"caps": chosen["caps"], "ranges": chosen["ranges"]}}


def release(q: Any, state: Facts) -> Any:
    """Return a query's release that is made of a stored noisy state."""
    return Release(q.plan, _noisy(state), name=q.name)


def _run(s: Any, text: str, keyed: bool = False, fed: Facts | None = None) -> list[tuple[Any, ...]]:
    given = {name: (fed or {}).get(name) for name in parameters_of(text)}  # NULL, where no value was measured
    rows: list[tuple[Any, ...]] = s._desk.backend.rows(text, {"secret": SECRET, **given} if keyed else given)
    return rows


def _runs(s: Any, p: Any) -> Any:
    return lambda text: _run(s, text, p.is_keyed(text))


def _cells(s: Any, p: Any) -> list[Any]:
    cells, leaves = exact_all(p, _runs(s, p))
    groups = [[plain(key), c] for key, c in cells.items()]
    trees = [[[plain(key), list(t.leaves), list(t.before)] for key, t in found.items()] for found in leaves]
    reports = [[int(c) for c in row] for text in p.truncation for row in _run(s, text)]
    return [sorted(groups, key=json.dumps), [sorted(tree, key=json.dumps) for tree in trees], reports]


def _norms(s: Any) -> list[int]:
    return [s.l0, s.linf, s.l1, s.l2_squared]


def _law(mechanism: Any) -> list[Any]:
    """The mechanism's name and its exact public parameters."""
    names = sorted(f.name for f in fields(mechanism) if not f.name.startswith("_") and f.init)
    if "min_people" in names and mechanism.min_people == 1:  # as usual
        names.remove("min_people")
    return [MECHANISMS[type(mechanism)], {name: _parameter(getattr(mechanism, name)) for name in names}]


def _parameter(part: Any) -> Any:
    return part.value if isinstance(part, Enum) else part if isinstance(part, int | None) else str(part)


def _state(found: NoisyTable) -> Facts:
    """A noisy table by columns."""
    columns: Sequence[Any] = list(zip(*found.cells, strict=True))
    state: Facts = {"keys": plain(found.keys), "columns": plain(columns)}
    if found.reports:
        state["reports"] = list(found.reports)
    if found.trees:
        state["trees"] = [
            [[[*at, list(weights)] for at, weights in sorted(f.items())] for f in rows] for rows in found.trees
        ]
    if found.levels:
        state["totals"] = plain(found.levels)
    return state


def _noisy(state: Facts) -> NoisyTable:
    """The noisy table of a state."""
    keys = tuple(tuple(restored_value(v) for v in key) for key in state["keys"])
    cells = tuple(zip(*state["columns"], strict=True)) if state["columns"] else ((),) * len(keys)
    trees = tuple(tuple({(a, b): tuple(w) for a, b, w in f} for f in rows) for rows in state.get("trees", ()))
    totals = tuple(tuple(tuple(row) for row in level) for level in state.get("totals", ()))
    return NoisyTable(keys, cells, tuple(state.get("reports", ())), trees, totals)
