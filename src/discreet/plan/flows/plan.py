"""The decided query to a table of two populations: its SQL, its flows, one noise, and what each population pays.

Guarantee:
    In the text that `edges_sql` returns, each row is of one group, one unit of either population, and those of the
    table's rows that have all three. Its numbers are whole, from 0 to what a pair can carry at all, and follow from
    these rows alone. Rows without an id of either population are dropped. What a unit passes is capped where the flows
    are found (`flow.py`), not here. The events of `Side.cost` composed are (ε, δ)-DP for its ε and δ, for neighbours in
    that population, whose sensitivities they are for; the ε is at most what was allowed it (docs/proofs/flows.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from discreet.accounting.convert import mu_squared_for
from discreet.accounting.loss import PrivacyLoss
from discreet.catalog.schema import TableSchema, domain_values
from discreet.errors import MissingFact, UnsupportedQuery
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.plan.bound import BoundedQuery, lattice_sql, rows_with
from discreet.plan.cost import Allocation, Kind, PlanTerms, allocate, root_above, sensitivity_of
from discreet.plan.explain import FREE, citations, column_name, law_name, neighbours, norms
from discreet.plan.flows.network import Flow, FlowPayer, Network, coarser, network
from discreet.plan.measures.lattice_value import LatticeValue
from discreet.plan.plan import Payer, Plan, PlanOutput
from discreet.plan.query import Query
from discreet.plan.question import Question, read_question
from discreet.privacy.event import Composed
from discreet.privacy.guarantee import Approximate, decimal, words
from discreet.privacy.unit import PrivacyUnit, Relation, Sensitivity
from discreet.query.expr import Column, Expr, columns_of, finite
from discreet.query.parse import parse_select
from discreet.verify.claim import Cost
from discreet.verify.flows import ClaimedFlow, FlowClaim, FlowColumn, Side, check_flows


@dataclass(frozen=True, slots=True)
class Flows:
    """What a plan has besides where two populations pay for it.

    Attributes:
        networks: the flows of each column.
        parties: the two populations, and what each pays.
    """

    networks: tuple[Network, ...]
    parties: tuple[FlowPayer, FlowPayer]

    @property
    def flows(self) -> tuple[Flow, ...]:
        """All flows, in the order of the statement's numbers."""
        return tuple(flow for n in self.networks for flow in n.flows)

    def notes(self, query: Query) -> tuple[str, ...]:
        """Return what the numbers leave out, in sentences."""
        from discreet.plan.notes import clamped, many, said_of, undeclared

        each = " in each group" if query.question.keys.exprs else ""
        caps = [
            f"one {p.unit.column!r} counts for at most {many(p.unit.max_rows or 1, 'row')}{each}" for p in self.parties
        ]
        found = (said_of([*clamped(query.question), *caps]), undeclared(query.question))
        return tuple(sentence for sentence in found if sentence)

    def explain(self, plan: Plan) -> str:
        """Return who is protected, how far one unit of either population moves each number, and who pays what."""
        q = plan.query.question
        lines = [
            f"Protected as {p.population!r}: all rows that share one {p.unit.column!r} of {q.table.name!r}. "
            f"{neighbours(p.side.relation)}"
            for p in self.parties
        ]
        lines += ["Rows without an id of either are dropped.", ""]
        count = q.keys.count
        lines.append(
            "Groups: one, the whole table."
            if not q.keys.exprs
            else f"Groups: {count}, declared, so all are shown. Each unit is charged for all {count}, as none of them "
            "can be left out without moving the other population's; max_groups limits nothing here."
        )
        rows = zip(q.measures, self.networks, plan.query.allocation.noises, strict=True)
        for i, (measure, found, noise) in enumerate(rows):
            of = "difference of two maximum flows" if len(found.flows) > 1 else "maximum flow"
            lines += ["", f"{column_name(i, measure)}, as the {of} in each group."]
            for side, p in enumerate(self.parties):
                low, high = found.span(side)
                lines.append(
                    f"  One unit of {p.population!r} moves a group by an integer in [{low}, {high}], "
                    f"so {norms(p.side.sensitivities[i])}."
                )
            lines.append(f"  {law_name(noise, Fraction(1))}.")
        lines.append("")
        for p in self.parties:
            g = p.side.cost
            of = words(p.allowed.epsilon, p.allowed.delta)
            lines.append(
                f"{p.population!r} pays ε = {decimal(g.epsilon)}, δ = {decimal(g.delta)}, of {of} that it may be asked."
            )
        lines += [plan.outlook] if plan.outlook else []
        lines.append(
            "The noise is added once, and each population is charged by how far one of its own units moves what it is "
            f"added to. {FREE}"
        )
        return "\n".join(lines)

    def citations(self, plan: Plan) -> list[str]:
        """Return the works on which the guarantee of such a plan rests."""
        nodes = "Kasiviswanathan, Nissim, Raskhodnikova, Smith 2013, Analyzing graphs with node differential privacy"
        return [*citations(plan.query), f"{nodes}, https://doi.org/10.1007/978-3-642-36594-2_26"]

    def claim(self, query: Query) -> FlowClaim:
        """Return what the second derivation judges."""
        places = iter(range(len(self.flows)))
        columns = [
            FlowColumn(tuple(ClaimedFlow(next(places), f.sign, f.caps) for f in n.flows), noise)
            for n, noise in zip(self.networks, query.allocation.noises, strict=True)
        ]
        first, second = self.parties
        table, lists = query.question.table, query.question.keys.lists or ()
        return FlowClaim(
            table.name,
            frozenset(table.columns),
            query.sql,
            tuple(len(v) for v in lists),
            tuple(columns),
            (first.side, second.side),
            table.view,
        )


def make_flow_plan(
    sql: str,
    tables: Sequence[TableSchema],
    units: Mapping[str, tuple[PrivacyUnit, PrivacyUnit]],
    *,
    populations: tuple[str, str],
    relations: tuple[Relation, Relation],
    version: str | None,
    epsilons: tuple[Fraction, Fraction],
    deltas: tuple[Fraction, Fraction],
    kind: Kind,
) -> Plan:
    """Decides a query to two populations.

    Args:
        sql: the query.
        tables: the connected tables, each of whose rows are of a unit of either population.
        units: of each table, by its name, the two units; the columns of their ids are the table's own.
        populations: whose accounts pay.
        relations: their neighbours.
        version: the owner's public label of the data.
        epsilons: the ε that each may be charged at most.
        deltas: the same of δ.
        kind: of the noise.

    Raises:
        PlanError, InvalidParameter: see `discreet.errors`; nothing has been read or charged.
    """
    question = _question(sql, tables)
    first, second = units[question.table.name]
    assert first.column is not None and second.column is not None
    question = _on_coarser_grids(question, (first, second))
    networks = tuple(
        network(m, (first, second), (first.column, second.column), populations, question.text)
        for m in question.measures
    )
    groups = question.keys.count
    if groups is None:
        raise UnsupportedQuery(
            "Groups that are not declared are not supported where two populations are protected: which of them to show "
            "would have to be private for both.",
            hint='declare the keys: columns={"region": dp.Values("north", "south")}',
            missing=_missing_keys(question),
        )
    moved = [
        tuple(sensitivity_of(n.span(i), groups, groups, relation) for n in networks)
        for i, relation in enumerate(relations)
    ]
    allowed = list(map(Approximate, epsilons, deltas))
    noises = flow_noise(moved, allowed, kind)
    first_party, second_party = (
        FlowPayer(
            populations[i],
            unit,
            allowed[i],
            Side(unit.column or "", relations[i], moved[i], _paid(moved[i], allowed[i], noises)),
        )
        for i, unit in enumerate((first, second))
    )
    flows = Flows(networks, (first_party, second_party))
    query = Query(
        question,
        _identity(question, networks, flows.parties, version, kind),
        max(epsilons),
        max(deltas),
        edges_sql(question, second.column, flows.flows),
        (),
        tuple(max(pair, key=lambda s: s.l1) for pair in zip(*moved, strict=True)),  # each is charged by its own
        # its events and its guarantee are of no one population: each population has its own
        Allocation(noises, None, (), Composed(), Approximate(max(epsilons), max(deltas))),
    )
    check_flows(flows.claim(query))
    payers = tuple(
        Payer(p.population, p.side.cost.events, Approximate(p.side.cost.epsilon, p.side.cost.delta))
        for p in flows.parties
    )
    return Plan(query.identity, (query,), {"": PlanOutput(query)}, payers, flows=flows)


def _missing_keys(question: Question) -> list[MissingFact]:
    """Return the columns of keys whose values nobody has declared, as facts that are missing."""
    facts = question.table.facts
    names = [n for e in question.keys.exprs for n in columns_of(e) if domain_values(facts.get(n)) is None]
    return [
        MissingFact("values", f"the groups of {n!r}", f"columns={{{n!r}: dp.Values('A', 'B')}}", column=n)
        for n in dict.fromkeys(names)
    ]


def _question(sql: str, tables: Sequence[TableSchema]) -> Question:
    """Return the query, if it is one of one table and of numbers that flows can count."""
    try:
        select = parse_select(sql)
    except RecursionError:
        raise UnsupportedQuery("The query nests too deeply to be read.", hint="write it flatter") from None
    one = "ask one table, with WHERE and CASE; a table of one population is asked in a session of its own"
    _refuse(select.table is None, "Joins and subqueries", one)
    question = read_question(sql, tables)
    _refuse(question.relation is not None, "Joins and subqueries", one)
    limits = "count rows between limits: COUNT(*) FILTER (WHERE x < 10)"
    _refuse(bool(question.trees), "Quantiles, MIN, MAX, MODE and histograms", limits)
    apart = "ask one query for each set of keys"
    _refuse(question.outer.sets is not None, "ROLLUP, CUBE and GROUPING SETS", apart)
    return question


def _refuse(asked: bool, what: str, hint: str) -> None:
    if asked:
        raise UnsupportedQuery(f"{what} are not supported where two populations are protected.", hint=hint)


def _on_coarser_grids(question: Question, units: tuple[PrivacyUnit, PrivacyUnit]) -> Question:
    """Return the query with sums on grids whose caps a flow can carry, and results that know it."""
    measures = tuple(coarser(m, units) for m in question.measures)
    if measures == question.measures:
        return question
    steps = [m.step for m in measures]
    outer = question.outer.with_columns(lambda m: replace(m, step=steps[m.index]))
    return replace(question, measures=measures, outer=outer)


def _identity(
    q: Question, networks: Sequence[Network], parties: Sequence[FlowPayer], version: str | None, kind: Kind
) -> str:
    """Return the query's identity: that of the same query to each population, with the caps of its flows."""
    terms = [PlanTerms(p.population, version, p.allowed.epsilon, p.allowed.delta, kind) for p in parties]
    described = {
        "flows": [[[f.sign, *f.caps] for f in n.flows] for n in networks],
        "parties": [
            [q.identity(t), p.unit.column, p.unit.max_rows, p.side.relation.value]
            for t, p in zip(terms, parties, strict=True)
        ],
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def edges_sql(question: Question, second: str, flows: Sequence[Flow]) -> str:
    """One row for each group and pair of units: places of its keys (`g0`, …), ids (`u`, `w`), numbers (`m0`, …).

    Args:
        question: over one table, whose unit is the first population's.
        second: the column of the second population's id.
        flows: what each number is for.
    """
    table = question.table
    kind = table.columns[second]
    assert kind is not None  # ids of nested and binary values are refused when a table is connected
    values = list(dict.fromkeys(f.of for f in flows if isinstance(f.of, LatticeValue)))
    known = list(dict.fromkeys(f.of for f in flows if _is_expression(f.of)))
    columns = [
        f"{finite(Column(second, kind))} AS w",
        *(f"{lattice_sql(v)} AS v{i}" for i, v in enumerate(values)),
        *(f"CASE WHEN {finite(e)} IS NOT NULL THEN 1 END AS x{i}" for i, e in enumerate(known) if e),  # type: ignore[arg-type]  # no lattice value is among them
    ]
    rows = rows_with(BoundedQuery(table, question.where, question.keys, (), 1, 1), columns)

    def carried(flow: Flow) -> str:
        if flow.of is None:
            return "count(*)"
        if not isinstance(flow.of, LatticeValue):
            return f"count(x{known.index(flow.of)})"
        v = f"v{values.index(flow.of)}"
        return f"coalesce(sum(greatest({v if flow.sign > 0 else '-' + v}, 0)), 0)"

    by = ", ".join([*(f"g{i}" for i in range(len(question.keys.exprs))), "u", "w"])
    numbers = ", ".join(f"least({carried(f)}, {f.most}) AS m{i}" for i, f in enumerate(flows))
    return f'{rows}\nSELECT {by}, {numbers} FROM "unit rows" WHERE NOT w IS NULL GROUP BY {by}'


def _is_expression(of: Expr | LatticeValue | None) -> bool:
    return of is not None and not isinstance(of, LatticeValue)


def flow_noise(
    moved: Sequence[tuple[Sensitivity, ...]], allowed: Sequence[Approximate], kind: Kind
) -> tuple[Additive, ...]:
    """Return the noise of each column such that no population pays more than it may; of each, how far a unit moves
    them.

    Raises:
        NotPrivate: Gaussian noise without a δ.
    """
    alone = [
        allocate(s, epsilon=most.epsilon, delta=most.delta, kind=kind, select=None).noises
        for s, most in zip(moved, allowed, strict=True)
    ]
    noises = [max(column, key=_scale) for column in zip(*alone, strict=True)]
    # all are made smaller by one factor, until a population pays all that it may: where columns differ in which
    # population needs more, none does yet
    if all(isinstance(z, RoundedGaussianNoise) for z in noises):
        part = max(
            sum((s.l2_squared / _scale(z) ** 2 for s, z in zip(of, noises, strict=True)), Fraction(0))
            / mu_squared_for(most.epsilon, most.delta)
            for of, most in zip(moved, allowed, strict=True)
        )
        if not 0 < part < 1:
            return tuple(noises)
        return tuple(RoundedGaussianNoise(root_above(_scale(z) ** 2 * part)) for z in noises)
    part = max(_pure(s, noises) / most.epsilon for s, most in zip(moved, allowed, strict=True))
    if not 0 < part < 1:  # at 1, or above it, where a δ pays for more than adding up does
        return tuple(noises)
    return tuple(DiscreteLaplaceNoise(_scale(z) * part) for z in noises)


def _scale(noise: Additive) -> Fraction:
    if isinstance(noise, DiscreteLaplaceNoise):
        return noise.scale
    assert isinstance(noise, RoundedGaussianNoise)
    return noise.sigma


def _pure(moved: Sequence[Sensitivity], noises: Sequence[Additive]) -> Fraction:
    """Return what Laplace noise costs a population when ε adds up."""
    return sum((s.l1 / _scale(z) for s, z in zip(moved, noises, strict=True)), Fraction(0))


def _paid(moved: Sequence[Sensitivity], allowed: Approximate, noises: Sequence[Additive]) -> Cost:
    events = sum((z.event(s) for z, s in zip(noises, moved, strict=True)), Composed())
    if all(isinstance(z, DiscreteLaplaceNoise) for z in noises) and _pure(moved, noises) <= allowed.epsilon:
        return Cost(events, _pure(moved, noises), Fraction(0))
    if not len(events):
        return Cost(events, Fraction(0), Fraction(0))
    return Cost(events, min(allowed.epsilon, PrivacyLoss(events).guarantee(allowed.delta).epsilon), allowed.delta)
