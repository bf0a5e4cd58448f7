"""Recipe of SQL: the parameters of a query and its plan, of one query or several, of one population or of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias
from unicodedata import normalize

from discreet.engine.cells import measured
from discreet.engine.payers import part_of
from discreet.engine.recipe import Draw
from discreet.engine.release import Release
from discreet.errors import (
    DiscreetError,
    InvalidParameter,
    MissingBounds,
    MissingFact,
    NotPrivate,
    PlanError,
    UnsupportedQuery,
)
from discreet.plan.auto_bounds.queries import Choice
from discreet.plan.auto_bounds.staged import kept, restored
from discreet.plan.cost import PlanTerms
from discreet.plan.least import LEAST_EPSILON
from discreet.plan.planner import make_less_noisy_plan, make_plan
from discreet.plan.query import is_chosen, kind_of
from discreet.post.evaluate import evaluate
from discreet.post.noisy_table import FORMAT, NoisyTable, check_format, restored_cell, stored_cell
from discreet.privacy.exact import Real, exact, positive, probability
from discreet.query.dialects.prepared import Prepared, prepare
from discreet.query.expr import parameters_of
from discreet.query.split import split
from discreet.verify.certificate.seal import answer

if TYPE_CHECKING:
    from discreet.catalog.schema import Scalar, TableSchema
    from discreet.catalog.types import Type
    from discreet.engine.outer_release import ReadPublic
    from discreet.engine.recipe import Receipt, Running
    from discreet.ledger.account import Account
    from discreet.plan.outer import PartColumns
    from discreet.plan.plan import Place, Plan
    from discreet.privacy.unit import PrivacyUnit
    from discreet.query.split import FedResult


_LONG = 10**60

_DECIMALS = 10**800
"""What the denominator of each decimal divides that is read: all decimals together have one denominator."""

ForEach: TypeAlias = "Real | Mapping[str, Real]"  # a number, or of two populations one for each by its name


@dataclass(frozen=True, slots=True)
class QueryParameters:
    """A query and its parameters, as they were given."""

    sql: str  # the query
    dialect: str  # SQL dialect of the query
    delta: ForEach  # the δ to be spent
    noise: str | None  # "laplace", "gaussian", or "auto" or None: chosen where the query spends a δ anyhow
    truncation: Real  # the share of ε for truncation reports
    chosen: str | None  # what a first stage chooses: "auto", "values", "ranges", or nothing
    version: str | None  # the owner's public label of the data
    accounts: tuple[Account, ...]  # who pays
    min_people: int  # of how many people a shown group is at least, where that is more than the owner says

    def prepared(self, tables: Sequence[TableSchema]) -> Prepared:
        """Return the query with what its own words say of ε, δ, caps and small groups."""
        return prepare(self.sql, self.dialect, [t.with_people(self.min_people) for t in tables])

    def plan(self, tables: Sequence[TableSchema], epsilon: ForEach | None, part: Fraction = Fraction(1)) -> Plan:
        """Its plan over these tables, at so large a part of this ε.

        Raises:
            PlanError, InvalidParameter: it cannot be answered as asked; all facts that it lacks are named together,
                and without an ε what three values of it would give.
        """
        from discreet.engine.public_facts import EPSILON, unpriced

        prepared = self.prepared(tables)
        asked = prepared.epsilon_or(None if epsilon is None else one("epsilon", epsilon))
        if asked is None:
            self.complete(tables, Fraction(1), [EPSILON])
            raise unpriced(lambda e: self._planned(prepared, tables, e), self.accounts[0].remaining)
        spent = epsilon_parameter(asked) * part
        with suppress(MissingBounds, NotPrivate):  # then all that is missing is named
            return self._planned(prepared, tables, spent)
        return self.complete(tables, spent)

    def complete(self, tables: Sequence[TableSchema], epsilon: Fraction, known: Sequence[MissingFact] = ()) -> Plan:
        """Return the plan at this ε; `known` are facts that are missing besides those which are found.

        Raises:
            PlanError, InvalidParameter: it cannot be answered as asked; all facts that it lacks are named together.
        """
        from discreet.engine.public_facts import with_all_missing

        delta = one("delta", self.delta)
        left = self.accounts[0].remaining

        def planned(tables: Sequence[TableSchema], delta: Real) -> Plan:
            asked = replace(self, delta=delta)
            return asked._planned(asked.prepared(tables), tables, epsilon)

        done = with_all_missing(planned, tables, delta, left, known)
        if isinstance(done, DiscreetError):
            raise done
        return done

    def _planned(self, prepared: Prepared, tables: Sequence[TableSchema], epsilon: Fraction) -> Plan:
        if self.chosen is None:
            return self.at_once(prepared, epsilon)
        try:
            staged = self._in_stages(prepared, tables, epsilon)
        except (MissingBounds, UnsupportedQuery) as error:
            refused: PlanError = error
        else:
            return self.at_once(prepared, epsilon) if staged is None else staged
        return self._of_results(prepared, epsilon, refused)

    def _of_results(self, prepared: Prepared, epsilon: Fraction, refused: PlanError) -> Plan:
        """Return the plan of SQL over results whose parts have all bounds, where a first stage was asked for."""
        outer = None
        with suppress(MissingBounds, UnsupportedQuery):
            plan = self.at_once(prepared, epsilon)
            outer = plan.outer
            if outer is not None and self.chosen != "auto":
                return plan
        found = split(prepared.text, prepared.tables) if outer is None or not outer.fed else None
        if (outer is None or not outer.fed) and (found is None or found.is_one):
            raise refused
        raise UnsupportedQuery(
            "bounds= chooses caps and bounds for one query at a time, and SQL over results has measured parts.",
            hint="declare caps and bounds, columns={'x': dp.Range(low, high)}; or ask for the part by itself",
        )

    def at_once(self, prepared: Prepared, epsilon: Fraction) -> Plan:
        """Return the plan of the query at this ε, without a first stage."""
        delta = share_parameter("delta", prepared.delta_or(one("delta", self.delta)))
        share, population = share_parameter("truncation", self.truncation), self.accounts[0].population
        terms = PlanTerms(population, self.version, epsilon, delta, kind_of(self.noise), share)
        if is_chosen(self.noise):
            alike = charges_alike(self.accounts[0])
            plan = make_less_noisy_plan(prepared.text, prepared.tables, terms, alike=alike, type_of=_type_of_result)
        else:
            plan = make_plan(prepared.text, prepared.tables, terms, type_of=_type_of_result)
        prepared.check_groups(all(o.query.question.keys.lists is not None for o in plan.outputs.values()))
        if plan.outer is None:
            return plan
        from discreet.engine.outer_release import tried

        return tried(plan)

    def _in_stages(self, prepared: Prepared, tables: Sequence[TableSchema], epsilon: Fraction) -> Plan | None:
        """Return the query in two stages; None where nothing that was asked to be chosen is missing."""
        from discreet.plan.auto_bounds.asking import plan_in_stages

        return plan_in_stages(
            prepared,
            tables,
            chosen=self.chosen or "",
            population=self.accounts[0].population,
            version=self.version,
            epsilon=epsilon,
            delta=share_parameter("delta", one("delta", self.delta)),
            noise=self.noise,
            truncation=share_parameter("truncation", self.truncation),
        )


@dataclass(frozen=True, slots=True)
class FlowParameters(QueryParameters):
    """The same of a query to rows that belong to two populations."""

    units: Mapping[str, tuple[PrivacyUnit, PrivacyUnit]]  # of each table the two units

    def plan(self, tables: Sequence[TableSchema], epsilon: ForEach | None, part: Fraction = Fraction(1)) -> Plan:
        """As `QueryParameters.plan`; ε and δ are what no population pays more than, or one for each."""
        from discreet.engine.public_facts import EPSILON, with_all_missing

        self._refuse_chosen()
        prepared = self.prepared(tables)
        if prepared.has_clause:
            raise UnsupportedQuery(
                "WITH DIFFERENTIAL_PRIVACY OPTIONS says one unit, and two populations are protected here.",
                hint="leave the clause out, and pass epsilon=",
            )
        spent = [epsilon_parameter(1 if epsilon is None else e) for e in self._each("epsilon", epsilon)]
        spent = spent if part == 1 else [part_of(e, part) for e in spent]
        deltas = [share_parameter("delta", 0 if d is None else d) for d in self._each("delta", self.delta)]
        known, left = [EPSILON] if epsilon is None else [], self.accounts[0].remaining

        def planned(tables: Sequence[TableSchema], _: Real) -> Plan:
            return self._planned_for_both(prepared, tables, spent, deltas)

        done = with_all_missing(planned, tables, 0, left, known)
        if isinstance(done, DiscreetError):
            raise done
        epsilon_parameter(1 if epsilon is not None else None)
        return done

    def _planned_for_both(
        self,
        prepared: Prepared,
        tables: Sequence[TableSchema],
        epsilons: Sequence[Fraction],
        deltas: Sequence[Fraction],
    ) -> Plan:
        from discreet.plan.flows.plan import make_flow_plan

        first, second = self.accounts
        return make_flow_plan(
            prepared.text,
            tables,
            self.units,
            populations=(first.population, second.population),
            relations=(first.relation, second.relation),
            version=self.version,
            epsilons=(epsilons[0], epsilons[1]),
            deltas=(deltas[0], deltas[1]),
            kind=kind_of(self.noise),
        )

    def _refuse_chosen(self) -> None:
        """Refuses what a query to one population may ask for beside its result."""
        if self.chosen is not None:
            raise InvalidParameter(
                "bounds= is not supported where two populations are protected: a first look would have to bound both.",
                hint="declare caps, dp.PrivacyUnit('patient_id', max_rows=…), and ranges, columns={'x': dp.Range(…)}",
            )
        if self.min_people > 1:
            raise InvalidParameter(
                "min_people= is not supported where two populations are protected: groups are declared there.",
                hint="leave it out",
            )
        if exact("truncation", self.truncation) != 0:
            raise InvalidParameter(
                "truncation= is not supported where two populations are protected: a unit at a cap may be there "
                "because of the other population.",
                hint="leave it out, and choose caps that few exceed",
            )

    def _each(self, name: str, given: ForEach | None) -> tuple[Real | None, Real | None]:
        """Return a number for each population, in their order."""
        first, second = (account.population for account in self.accounts)
        if not isinstance(given, Mapping):
            return given, given
        given = {normalize("NFC", str(n)): each for n, each in given.items()}  # as accounts are named
        if set(given) != {first, second}:
            raise InvalidParameter(
                f"{name} must be one number, or one for each of {first!r} and {second!r}.",
                hint=f"{name}={{{first!r}: 0.5, {second!r}: 1}}",
            )
        return given[first], given[second]


def _type_of_result(sql: str, parts: Mapping[str, PartColumns], public: Sequence[TableSchema]) -> Type:
    from discreet.engine.outer_release import type_of_result

    return type_of_result(sql, parts, public)


def charges_alike(account: Account) -> bool:
    """Return whether the account charges a query by its (ε, δ), whatever its noise."""
    return account.filter == "basic" and account.people is None


def one(name: str, given: ForEach) -> Real:
    """Return the number of the one population.

    Raises:
        InvalidParameter: several were given, by names.
    """
    if isinstance(given, Mapping):
        raise InvalidParameter(
            f"{name} is one number here: one population pays.", hint=f"{name}={next(iter(given.values()), 0.5)}"
        )
    return given


def bounds_parameter(bounds: str | None) -> str | None:
    """Return what a first stage chooses: "auto", "values", "ranges", or nothing.

    Raises:
        InvalidParameter: anything else.
    """
    if bounds not in (None, "auto", "values", "ranges"):
        raise InvalidParameter(
            f"bounds must be 'auto', 'values' or 'ranges', or left out, not {bounds!r:.60}.",
            hint="caps are declared with dp.PrivacyUnit(column, max_groups=…, max_rows=…), bounds with dp.Range",
        )
    return bounds


def epsilon_parameter(epsilon: Real | None) -> Fraction:
    """Return the ε that a query may cost. Raises InvalidParameter: none, or too little for any result."""
    if epsilon is None:
        raise InvalidParameter(
            "A query needs epsilon=: what it may cost.",
            hint="epsilon=0.5, or error={'n': 50} for the least ε that gives it",
        )
    x = _short("epsilon", positive("epsilon", epsilon))
    if x < LEAST_EPSILON:
        raise InvalidParameter(
            f"epsilon must be at least {float(LEAST_EPSILON):g}, not {epsilon!s:.40}.",
            hint="so little ε is drowned by its noise: over a million times what one person can change",
        )
    return x


def share_parameter(name: str, share: Real) -> Fraction:
    """Return the δ that a query may cost, or the share of its ε that one part of it may.

    Raises:
        InvalidParameter: not in [0, 1), or a fraction of very long numbers.
    """
    return _short(name, probability(name, share))


def _short(name: str, x: Fraction) -> Fraction:
    """Return a number that can be added up with many others: of fractions with long denominators, the sum soon is too
    long.
    """
    if max(x.numerator, x.denominator) >= _LONG and _DECIMALS % x.denominator:
        raise InvalidParameter(
            f"{name} must be a decimal, or a fraction of numbers below 10^60: sums of others grow too long.",
            hint=f"give {name}=0.5 or {name}='1/3'",
        )
    return x


Make: TypeAlias = "Callable[[Sequence[TableSchema], Fraction], Plan]"
"""The plan over these tables, at so large a part of the ε asked for."""


@dataclass(frozen=True, slots=True)
class AnsweredQuestions:
    """The noisy tables of a plan's measurements, what its first stage chose, where it has one, the plan with it, and
    the results that were fed back into rows.
    """

    tables: tuple[NoisyTable, ...]
    choice: Choice | None = None
    settled: Plan | None = None
    fed: tuple[Scalar, ...] = ()


@dataclass(frozen=True, slots=True)
class Questions:
    """Queries in SQL, as a recipe: their results are releases, by name."""

    make: Make  # their plan
    public: ReadPublic | None = None  # reads public tables, for results that are fed back into people's rows

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        return self.make(tables, part)

    def run(self, plan: Plan) -> Running[AnsweredQuestions]:
        if plan.flows is not None:
            from discreet.engine.cells import measured_flows

            return AnsweredQuestions(((yield from measured_flows(plan)),))
        if plan.stages is not None:
            from discreet.engine.first_stage import measured_in_stages

            choice, settled, table = yield from measured_in_stages(plan)
            return AnsweredQuestions((table,), choice, settled)
        results = () if plan.outer is None else plan.outer.fed
        later = [any(map(parameters_of, q.statements)) if results else False for q in plan.measurements]
        tables: dict[int, NoisyTable] = {}
        for i in (i for i, reads in enumerate(later) if not reads):
            tables[i] = yield from measured(plan.measurements[i], f"{i} ")
        fed = [self._result(plan, result, tables) for result in results]
        for result, value in zip(results, fed, strict=True):
            yield Draw(result.name, value)
        for i in (i for i, reads in enumerate(later) if reads):
            tables[i] = yield from measured(plan.measurements[i], f"{i} ")
        return AnsweredQuestions(tuple(tables[i] for i in range(len(later))), fed=tuple(fed))

    def _result(self, plan: Plan, result: FedResult, tables: Mapping[int, NoisyTable]) -> Scalar:
        """Return the value of a result, computed from the noisy tables of its parts."""
        from discreet.engine.outer_release import result_value

        assert plan.outer is not None and self.public is not None
        rows = {}
        for part in result.parts:
            output = plan.outputs[part]
            table = _part(tables, output.place)
            rows[part] = [values for _, values in evaluate(output.query, table, nonnegative=False)]
        return result_value(plan.outer, result, rows, self.public)

    def settled(self, plan: Plan, state: AnsweredQuestions) -> Plan:
        if state.fed and plan.outer is not None:
            return replace(plan, outer=replace(plan.outer, values=state.fed))
        return plan if state.settled is None else state.settled

    def keep(self, state: AnsweredQuestions) -> dict[str, Any]:
        first, *others = state.tables
        if state.choice is not None:
            return {"format": FORMAT, **kept(state.choice, first.to_json())}
        if others:
            fed = {"fed": [stored_cell(v) for v in state.fed]} if state.fed else {}
            return {"format": FORMAT, "tables": [t.to_json() for t in state.tables], **fed}
        return first.to_json()

    def restore(self, plan: Plan, kept: dict[str, Any]) -> AnsweredQuestions:
        check_format(kept)
        if plan.stages is not None:
            choice, table = restored(kept)
            return AnsweredQuestions((NoisyTable.from_json(table),), choice, plan.stages.settled(plan, choice))
        fed = tuple(restored_cell(v) for v in kept.get("fed", []))
        return AnsweredQuestions(tuple(NoisyTable.from_json(t) for t in kept.get("tables", [kept])), fed=fed)

    def build(self, plan: Plan, state: AnsweredQuestions, receipt: Receipt) -> dict[str, Release]:
        return {
            name: Release(
                plan,
                _part(state.tables, output.place),
                name=name,
                stored=receipt.stored,
                paid=receipt.paid,
                drawn=receipt.drawn,
            )
            for name, output in plan.outputs.items()
        }

    def answers(self, plan: Plan, state: AnsweredQuestions, result: Mapping[str, Release]) -> dict[str, dict[str, Any]]:
        return {name: answer(r.columns, r.codes) for name, r in result.items()}


def _part(tables: Sequence[NoisyTable] | Mapping[int, NoisyTable], place: Place | None) -> NoisyTable:
    """Return a query's own columns of the measurement that it is answered from."""
    if place is None:
        return tables[0]
    table = tables[place.measurement]
    cells = tuple(tuple(row[i] for i in place.columns) for row in table.cells)
    trees = tuple(table.trees[i] for i in place.trees)
    levels = tuple(tuple(tuple(row[i] for i in place.columns) for row in level) for level in table.levels)
    return NoisyTable(table.keys, cells, (), trees, levels)
