"""The decided question to a table of two populations: its SQL, its flows, one noise, and what each population pays."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Never

from discreet.accounting.filter import Charge
from discreet.accounting.loss import PrivacyLoss
from discreet.errors import InvalidParameter, UnsupportedQuery
from discreet.plan.cost import Allocation, Kind, sensitivity_of
from discreet.plan.expr import Call, Expr, Measured, identity
from discreet.plan.flows.edges import edges_sql
from discreet.plan.flows.network import Flow, Network, coarser, network
from discreet.plan.flows.share import Allowed, Paid, shared_noise
from discreet.plan.parse import parse_select
from discreet.plan.plan import Plan
from discreet.plan.question import Question, read_question
from discreet.plan.schema import TableSchema
from discreet.privacy.event import Composed
from discreet.privacy.guarantee import Approximate, words
from discreet.privacy.sensitivity import Sensitivity
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.rederive.claim import Cost
from discreet.rederive.flows import FlowClaim, FlowColumn, Pipe, Side, check_flows

FORMAT = 1
"""The version of the identity of questions to two populations."""


@dataclass(frozen=True, slots=True)
class Party:
    """One of the two populations, in one question.

    Attributes:
        population: whose account it is.
        unit: the column of its ids in the table, and the cap on rows.
        relation: its neighbours.
        allowed: how far one of its units moves each column, and what it may pay.
        paid: what it pays.
    """

    population: str
    unit: PrivacyUnit
    relation: Relation
    allowed: Allowed
    paid: Paid

    @property
    def charge(self) -> Charge:
        """What its account is asked to pay."""
        return Charge(self.paid.events, self.paid.guarantee)

    @property
    def cost(self) -> PrivacyLoss:
        """What running the question costs it."""
        return PrivacyLoss(self.paid.events)

    @property
    def price(self) -> str:
        """What is charged to it, in words."""
        g = self.paid.guarantee
        return f"{words(g.epsilon, g.delta)} of {self.population!r}"


@dataclass(frozen=True, slots=True)
class SharedPlan(Plan):
    """A question to two populations that has been decided. Nothing has been read or charged.

    Attributes:
        networks: the flows of each column.
        parties: the two populations, and what each pays.
    """

    networks: tuple[Network, ...] = ()
    parties: tuple[Party, ...] = ()

    @property
    def flows(self) -> tuple[Flow, ...]:
        """All flows, in the order of the statement's numbers."""
        return tuple(flow for n in self.networks for flow in n.flows)

    @property
    def charges(self) -> dict[str, Charge]:
        """What each population's account is asked to pay."""
        return {p.population: p.charge for p in self.parties}

    @property
    def costs(self) -> dict[str, PrivacyLoss]:
        """What running it costs each population."""
        return {p.population: p.cost for p in self.parties}

    @property
    def cost(self) -> Never:
        """There is no one cost: see `costs`."""
        _two()

    @property
    def charge(self) -> Never:
        """There is no one charge: see `charges`."""
        _two()

    @property
    def price(self) -> str:
        return ", ".join(p.price for p in self.parties)

    @property
    def notes(self) -> tuple[str, ...]:
        from discreet.plan.notes import clamped, many, said_of, undeclared

        each = " in each group" if self.question.keys.exprs else ""
        caps = [
            f"one {p.unit.column!r} counts for at most {many(p.unit.max_rows or 1, 'row')}{each}"
            for p in self.parties
        ]
        found = (said_of([*clamped(self.question), *caps]), undeclared(self.question))
        return tuple(sentence for sentence in found if sentence)

    def is_keyed(self, text: str) -> bool:
        """No group is chosen by the account's key."""
        return False

    @property
    def claim(self) -> FlowClaim:
        """What the second derivation judges."""
        places = iter(range(len(self.flows)))
        columns = [
            FlowColumn(tuple(Pipe(next(places), f.sign, f.caps) for f in n.flows), noise)
            for n, noise in zip(self.networks, self.allocation.noises, strict=True)
        ]
        first, second = (_side(p) for p in self.parties)
        table, lists = self.question.table, self.question.keys.lists or ()
        return FlowClaim(
            table.name,
            frozenset(table.columns),
            self.sql,
            tuple(len(v) for v in lists),
            tuple(columns),
            (first, second),
            self.question.table.view,
        )

    def explain(self) -> str:
        """The derivation in the textbook's terms, with the numbers of this question."""
        from discreet.plan.flows.words import explain

        return explain(self)


def make_shared_plan(
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
) -> SharedPlan:
    """Decides a question to two populations.

    Args:
        sql: the question.
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
            "Groups that are not declared are not answered where two populations are protected: which of them to show "
            "would have to be private for both.",
            hint='declare the keys: columns={"region": dp.Values("north", "south")}',
        )
    sides = tuple(
        Allowed(
            tuple(sensitivity_of(n.span(i), groups, groups, relation) for n in networks),
            epsilons[i],
            deltas[i],
        )
        for i, relation in enumerate(relations)
    )
    noises, paid = shared_noise(sides, kind)
    parties = tuple(
        Party(name, unit, relation, side, pays)
        for name, unit, relation, side, pays in zip(
            populations, (first, second), relations, sides, paid, strict=True
        )
    )
    plan = SharedPlan(
        question,
        _identity(question, networks, parties, version, kind),
        max(epsilons),
        max(deltas),
        edges_sql(question, second.column, [f for n in networks for f in n.flows]),
        (),
        _largest(sides),
        # its events and its guarantee are nobody's: each population has its own
        Allocation(noises, None, (), Composed(), Approximate(max(epsilons), max(deltas))),
        networks=networks,
        parties=parties,
    )
    check_flows(plan.claim)
    return plan


def _question(sql: str, tables: Sequence[TableSchema]) -> Question:
    """The question, if it is one of one table and of numbers that flows answer."""
    try:
        select = parse_select(sql)
    except RecursionError:
        raise UnsupportedQuery("The question nests too deeply to be read.", hint="write it flatter") from None
    if select.table is None:
        raise UnsupportedQuery(
            "Joins and subqueries are not answered where two populations are protected.",
            hint="ask one table, with WHERE and CASE; a table of one population is asked in a session of its own",
        )
    question = read_question(sql, tables)
    if question.relation is not None:
        raise UnsupportedQuery(
            "Joins and subqueries are not answered where two populations are protected.",
            hint="ask one table, with WHERE and CASE",
        )
    if question.spreads:
        raise UnsupportedQuery(
            "Quantiles, MIN, MAX, MODE and histograms are not answered where two populations are protected.",
            hint="count rows between limits: COUNT(*) FILTER (WHERE x < 10)",
        )
    if question.outer.sets is not None:
        raise UnsupportedQuery(
            "ROLLUP, CUBE and GROUPING SETS are not answered where two populations are protected.",
            hint="ask one question for each set of keys",
        )
    return question


def _on_coarser_grids(question: Question, units: tuple[PrivacyUnit, PrivacyUnit]) -> Question:
    """The question with sums on grids whose caps a flow can carry, and answers that know it."""
    measures = tuple(coarser(m, units) for m in question.measures)
    if measures == question.measures:
        return question
    steps = [m.step for m in measures]
    outer = question.outer
    return replace(
        question,
        measures=measures,
        outer=replace(
            outer,
            columns=tuple((n, _stepped(e, steps)) for n, e in outer.columns),
            having=None if outer.having is None else _stepped(outer.having, steps),
            order=tuple(replace(o, by=_stepped(o.by, steps)) for o in outer.order),
        ),
    )


def _stepped(expr: Expr, steps: Sequence[Fraction]) -> Expr:
    if isinstance(expr, Measured):
        return replace(expr, step=steps[expr.index])
    if isinstance(expr, Call):
        return Call(expr.name, tuple(_stepped(a, steps) for a in expr.args), expr.type)
    return expr


def _largest(sides: Sequence[Allowed]) -> tuple[Sensitivity, ...]:
    """Of each column, the move of the population that moves it further; each is charged by its own."""
    return tuple(
        max(pair, key=lambda s: s.l1) for pair in zip(*(s.sensitivities for s in sides), strict=True)
    )


def _side(party: Party) -> Side:
    g = party.paid.guarantee
    assert party.unit.column is not None
    cost = Cost(party.paid.events, g.epsilon, g.delta)
    return Side(party.unit.column, party.relation, party.allowed.sensitivities, cost)


def _identity(
    q: Question, networks: Sequence[Network], parties: Sequence[Party], version: str | None, kind: Kind
) -> str:
    """The question's identity: equal measurements with equal parameters, equal text."""
    described: dict[str, Any] = {
        "flows": FORMAT,
        "table": q.table.name,
        "version": version,
        "where": None if q.where is None else identity(q.where),
        "keys": [identity(e) for e in q.keys.exprs],
        "lists": [[[type(v).__name__, str(v)] for v in values] for values in q.keys.lists or ()],
        "measures": [m.identity for m in q.measures],
        "caps": [[[f.sign, *f.caps] for f in n.flows] for n in networks],
        "parties": [
            [
                p.population,
                p.unit.column,
                p.unit.max_rows,
                p.relation.value,
                str(p.allowed.epsilon),
                str(p.allowed.delta),
            ]
            for p in parties
        ],
        "noise": kind.value,
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def _two() -> Never:
    raise InvalidParameter(
        "a question to two populations costs each of them something else.",
        hint="look at .costs or .charges, by the names of the populations",
    )
