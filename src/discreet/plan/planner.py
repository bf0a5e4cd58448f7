"""From text to plan: the query as it is asked, then what rules make of it (`rules/`), then a second derivation."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeAlias, TypeVar

from discreet.catalog.schema import TableSchema, find_table
from discreet.catalog.types import Type
from discreet.errors import DiscreetError, InvalidParameter, MissingBounds, PlanError, UnsupportedQuery
from discreet.mechanisms.additive import Additive
from discreet.plan.cost import Kind, PlanTerms
from discreet.plan.measures.ranges import Ranges
from discreet.plan.outer import OuterQuery, PartColumns
from discreet.plan.plan import Plan, alone
from discreet.plan.query import Query, decided, is_chosen, kind_of
from discreet.plan.question import OF_ONE_UNIT, Question, read_question
from discreet.plan.rules import RULES
from discreet.plan.rules.common import measured_apart
from discreet.plan.rules.rule import Rule, improved
from discreet.privacy.exact import Real, positive, probability
from discreet.query.dialects.prepared import prepare, refuse_clause
from discreet.query.expr import parameters_of
from discreet.query.parse import parse_query
from discreet.query.split import FedResult, Split, split
from discreet.verify.check import check

TypeOf: TypeAlias = Callable[[str, Mapping[str, PartColumns], Sequence[TableSchema]], Type]
"""An outer query of one cell, the columns of its parts, and its public tables → the type of the cell."""

_T = TypeVar("_T")

MOST_QUESTIONS = 1000
"""Queries in one batch."""


def make_query(
    sql: str,
    tables: Sequence[TableSchema],
    *,
    population: str,
    version: str | None,
    epsilon: Real,
    delta: Real = 0,
    noise: str | None = None,
    truncation: Real = 0,
    ranges: Ranges | None = None,
    rules: Sequence[Rule] = RULES,
) -> Query:
    """Return the decided query of a text, as `make_plan` decides it.

    Args:
        sql: the query.
        tables: the connected private tables.
        population: whose account pays.
        version: the owner's public label of the data.
        epsilon: the ε to be spent at most, above 0.
        delta: the δ to be spent at most; 0 for pure ε.
        noise: "laplace" (the default) or "gaussian".
        truncation: the share of ε, below 1, spent on counting the units of which something is cut off; 0 for none.
        ranges: of values without bounds, where those were chosen.
        rules: what may be tried to measure it with less noise.

    Raises:
        PlanError, InvalidParameter: see `discreet.errors`; nothing has been read or charged.
    """
    eps, dlt, kind, share = (
        positive("epsilon", epsilon),
        probability("delta", delta),
        kind_of(noise),
        probability("truncation", truncation),
    )
    terms = PlanTerms(population, version, eps, dlt, kind, share)
    return query_of(make_plan(sql, tables, terms, ranges, rules))


def query_of(plan: Plan) -> Query:
    """Return the one query of a plan.

    Raises:
        UnsupportedQuery: it is of SQL over results.
    """
    if plan.outer is not None:
        raise UnsupportedQuery(
            "This is SQL over results, and no one query.", hint="ask for each measured part by itself"
        )
    return plan.query


def make_plan(
    sql: str,
    tables: Sequence[TableSchema],
    terms: PlanTerms,
    ranges: Ranges | None = None,
    rules: Sequence[Rule] = RULES,
    type_of: TypeOf | None = None,
) -> Plan:
    """Return the verified plan of one query, or of SQL over results (decision 0010); results are fed back into rows
    where their types are found by `type_of`. Raises as `make_query`.
    """
    return _verified(_made(sql, _Reading(tables, terms.delta > 0, type_of), terms, ranges, rules))


@dataclass(frozen=True, slots=True)
class _Reading:
    """Texts over these tables: each is read once, for whatever kind of noise it is planned."""

    tables: Sequence[TableSchema]
    selects: bool
    type_of: TypeOf | None = None
    _questions: dict[tuple[str, bool, bool], Question | UnsupportedQuery] = field(default_factory=dict)
    _splits: dict[str, Split | UnsupportedQuery | None] = field(default_factory=dict)

    def question(self, sql: str, ranges: Ranges | None = None, *, fed: bool = False) -> Question:
        """Return a text as it was read; `ranges` are the same in each call, or None. Raises as `read_question`."""
        if not isinstance(sql, str):
            parse_query(sql)  # refuses it; it may be nothing that can be a key
        key = (sql, ranges is None, fed)
        if key not in self._questions:
            try:
                self._questions[key] = read_question(sql, self.tables, ranges, selects=self.selects, fed=fed)
            except UnsupportedQuery as error:
                self._questions[key] = error
        return _read(self._questions[key])

    def split(self, sql: str) -> Split | None:
        """Return the measured parts of a text and its outer query; None where there are none. Raises as `split`."""
        if sql not in self._splits:
            try:
                self._splits[sql] = split(sql, self.tables, None if self.type_of is None else self._type_of_result)
            except RecursionError:
                self._splits[sql] = None
            except UnsupportedQuery as error:
                self._splits[sql] = error
        return _read(self._splits[sql])

    def _type_of_result(self, outer: str, parts: Mapping[str, str], public: Sequence[str]) -> Type:
        assert self.type_of is not None
        columns = {name: _columns_of(self.question(text, fed=True)) for name, text in parts.items()}
        return self.type_of(outer, columns, [find_table(t, self.tables) for t in public])


def _read(found: _T | UnsupportedQuery) -> _T:
    match found:
        case UnsupportedQuery():
            raise found
    return found


def _made(
    sql: str, reading: _Reading, terms: PlanTerms, ranges: Ranges | None = None, rules: Sequence[Rule] = RULES
) -> Plan:
    try:
        return _decided(reading.question(sql, ranges), terms, rules)
    except UnsupportedQuery as error:
        refused = error
    return _plan_results(sql, reading, terms, rules, refused)


def _plan_results(
    sql: str, reading: _Reading, terms: PlanTerms, rules: Sequence[Rule], refused: UnsupportedQuery
) -> Plan:
    """Return the plan of the measured parts of a query that was refused as one query, and of its outer query."""
    tables = reading.tables
    try:
        found = reading.split(sql)
    except UnsupportedQuery as error:
        raise (refused if refused.message.startswith(OF_ONE_UNIT) else error) from None
    if found is None:
        raise refused
    if terms.report_share:
        raise InvalidParameter(
            "truncation= is not supported for SQL over results.", hint="leave it out, or ask for a part by itself"
        )
    try:
        if len(found.parts) == 1:
            ((name, text),) = found.parts.items()
            plan = _decided(reading.question(text), terms, rules)
            plan = replace(plan, outputs={name: plan.outputs[""]})
        else:
            part = _part_of(terms, len(found.parts))
            fed = bool(found.fed)
            asked = {
                name: _decided(reading.question(text, fed=fed), part, _IN_BATCHES).query
                for name, text in found.parts.items()
            }
            apart = measured_apart(asked, terms)
            if _feeds_itself(apart, found.fed):
                raise UnsupportedQuery(
                    "A result that people's rows read depends itself on a result that people's rows read.",
                    hint="ask for the inner result first, and write its value into the query",
                )
            plan = improved(apart, terms, RULES)
            if _feeds_itself(plan, found.fed):
                plan = apart
    except MissingBounds as error:
        if found.fed and not error.missing:
            raise _unbounded() from None
        raise
    except UnsupportedQuery as error:
        raise (refused if found.is_one and not found.fed else error) from None
    read = {name: _columns_of(o.query.question) for name, o in plan.outputs.items()}
    public = tuple(
        find_table(t, tables) for t in dict.fromkeys([*found.public, *(t for f in found.fed for t in f.public)])
    )
    keys = [o.query.question.keys for o in plan.outputs.values()] if found.aggregates else []
    shown = (any(k.exprs and k.lists is not None for k in keys), any(k.lists is None for k in keys))
    own = refused if found.is_one and not found.fed else None
    if found.fed:
        plan = replace(plan, identity=_identity_fed(plan.identity, found.fed, found.parts, tables))
    return replace(
        plan,
        outer=OuterQuery(
            sql, found.outer, read, public, refused=own, over_groups=shown, said=found.said, fed=found.fed
        ),
    )


def _columns_of(question: Question) -> PartColumns:
    return [(n, e.type) for n, e in question.outer.columns]


def _feeds_itself(plan: Plan, fed: Sequence[FedResult]) -> bool:
    """Whether a measurement from which a result is computed reads a result."""
    places = [plan.outputs[part].place for f in fed for part in f.parts]
    first = [plan.measurements[0 if p is None else p.measurement] for p in places]
    return any(parameters_of(text) for query in first for text in query.statements)


def _identity_fed(
    identity: str, fed: Sequence[FedResult], parts: Mapping[str, str], tables: Sequence[TableSchema]
) -> str:
    """Return the identity of measurements some of which read results: it says how these are computed, too."""
    described = [
        [
            f.number,
            f.type.value,
            f.sql,
            {p: parts[p] for p in f.parts},
            [find_table(t, tables).digest for t in f.public],
        ]
        for f in fed
    ]
    return hashlib.sha256(json.dumps([identity, described], ensure_ascii=True).encode()).hexdigest()


def _unbounded() -> UnsupportedQuery:
    return UnsupportedQuery(
        "SUM, AVG and the like need bounds of their values, and none follow for a value that reads a result.",
        hint="put bounds around the expression: SUM(dp_clamp(x - (SELECT AVG(x) FROM t), -100, 100))",
    )


def make_less_noisy_plan(
    sql: str,
    tables: Sequence[TableSchema],
    terms: PlanTerms,
    ranges: Ranges | None = None,
    rules: Sequence[Rule] = RULES,
    *,
    alike: bool,
    spent: bool = False,
    type_of: TypeOf | None = None,
) -> Plan:
    """Return the verified plan of one query, or of SQL over results, with the noise whose 95 % widths are less in
    every number.

    Laplace noise stays where the query spends no δ with it, which Gaussian noise would, and where both do not cost
    the same in the account (`alike`).

    Args:
        sql: the query.
        tables: the connected tables.
        terms: what may be spent; the kind of noise in it is not read.
        ranges: of values without bounds, where those were chosen.
        rules: what may be tried to measure it with less noise.
        alike: whether the account charges a query by its (ε, δ), whatever the noise.
        spent: whether the δ is charged whatever the noise.
        type_of: as in `make_plan`.

    Raises:
        PlanError, InvalidParameter: see `discreet.errors`; nothing has been read or charged.
    """
    reading = _Reading(tables, terms.delta > 0, type_of)

    def make(kind: Kind) -> Plan:
        return _made(sql, reading, replace(terms, kind=kind), ranges, rules)

    return _less_noisy(make, alike=alike, spent=spent and terms.delta > 0)


def _less_noisy(make: Callable[[Kind], Plan], *, alike: bool, spent: bool = False) -> Plan:
    """Return the verified plan of the kind of noise with the less wide numbers, as `make_less_noisy_plan` says it."""
    laplace = make(Kind.LAPLACE)
    spent = spent or all(o.query.allocation.guarantee.delta for o in laplace.outputs.values())
    if not alike or not spent:
        return _verified(laplace)
    try:
        gaussian = make(Kind.GAUSSIAN)
    except PlanError:  # what Gaussian noise cannot do
        return _verified(laplace)
    pairs = [(gaussian.outputs[name].query, o.query) for name, o in laplace.outputs.items() if name in gaussian.outputs]
    same = laplace.outputs.keys() == gaussian.outputs.keys()
    return _verified(gaussian if same and all(_is_narrower(*pair) for pair in pairs) else laplace)


def _is_narrower(one: Query, other: Query) -> bool:
    """Whether no number measured by one query has a wider 95 % interval than by the other."""
    a, b = one.allocation, other.allocation
    noises, others = (*a.noises, *a.trees), (*b.noises, *b.trees)
    if a.levels or b.levels or len(noises) != len(others):
        return False
    return all(
        isinstance(x, Additive) and isinstance(y, Additive) and x.quantile(_WIDTH) <= y.quantile(_WIDTH)
        for x, y in zip(noises, others, strict=True)
    )


_WIDTH = Fraction(19, 20)


def replanned(query: Query, population: str, epsilon: Real) -> Query:
    """Return a query decided again at another ε, without reports: for pictures. It is not verified, and not run."""
    eps, a = positive("epsilon", epsilon), query.allocation
    terms = PlanTerms(population, None, eps, query.delta, Kind.GAUSSIAN if a.is_gaussian else Kind.LAPLACE)
    return improved(alone(decided(query.question, terms), population), terms, RULES).query


def plan_batch(
    questions: Mapping[str, str],
    tables: Sequence[TableSchema],
    *,
    population: str,
    version: str | None,
    epsilon: Real,
    delta: Real = 0,
    noise: str | None = None,
    dialect: str = "duckdb",
    alike: bool = False,
) -> Plan:
    """Decides several queries with one budget; with noise="auto" or None the noise is chosen for all of them, as
    `make_less_noisy_plan` chooses it (`alike`).

    Raises:
        PlanError, InvalidParameter: one of them cannot be answered as asked; the message says which.
    """
    eps, dlt, kind = positive("epsilon", epsilon), probability("delta", delta), kind_of(noise)
    _check_questions(questions)
    terms = PlanTerms(population, version, eps, dlt, kind)

    def make(kind: Kind) -> Plan:
        return _planned_together(questions, tables, replace(terms, kind=kind), dialect)

    return _less_noisy(make, alike=alike) if is_chosen(noise) else _verified(make(kind))


def _planned_together(
    questions: Mapping[str, str], tables: Sequence[TableSchema], terms: PlanTerms, dialect: str
) -> Plan:
    found: dict[str, Query] = {}
    part = _part_of(terms, len(questions))
    for name, sql in questions.items():
        try:
            prepared = prepare(sql, dialect, tables)
            if prepared.has_clause:
                refuse_clause()
            question = read_question(prepared.text, tables, selects=terms.delta > 0)
            found[name] = _decided(question, part, _IN_BATCHES).query
        except DiscreetError as error:
            said = f"in query {name!r:.60}: {error.message}"
            raise type(error)(said, hint=error.hint, missing=error.missing) from None
    return improved(measured_apart(found, terms), terms, RULES)


_IN_BATCHES = tuple(rule for rule in RULES if rule.in_batches)


def _part_of(terms: PlanTerms, of: int) -> PlanTerms:
    """Return an even part of ε and δ."""
    return replace(terms, epsilon=terms.epsilon / of, delta=terms.delta / of)


def _decided(question: Question, terms: PlanTerms, rules: Sequence[Rule]) -> Plan:
    return improved(alone(decided(question, terms), terms.population), terms, rules)


def _verified(plan: Plan) -> Plan:
    check(plan.claim_of_one)
    return plan


def _check_questions(questions: object) -> None:
    if not isinstance(questions, Mapping) or not questions:
        raise InvalidParameter(
            f"a batch is a dict from a name to a query, not {questions!r:.60}.",
            hint='batch({"a": "SELECT …", "b": "SELECT …"}, epsilon=1)',
        )
    if len(questions) > MOST_QUESTIONS:
        raise InvalidParameter(f"a batch has {MOST_QUESTIONS} queries at most, not {len(questions)}.")
    for name in questions:
        if not isinstance(name, str) or not name:
            raise InvalidParameter(f"the name of a query must be text, not {name!r:.60}.")
