"""A question as it was asked of a session, without its ε: what makes its plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias
from unicodedata import normalize

from discreet.engine.payers import part_of
from discreet.errors import InvalidParameter, UnsupportedQuery
from discreet.plan.parameters import epsilon_asked, share_asked
from discreet.privacy.exact import Real, exact
from discreet.query.dialects.conventions import prepare

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.ledger.account import Account
    from discreet.plan.plan import Plan
    from discreet.plan.query import Query
    from discreet.privacy.unit import PrivacyUnit
    from discreet.query.dialects.conventions import Prepared

ForEach: TypeAlias = "Real | Mapping[str, Real]"
"""A number, or of two populations one for each by its name."""


@dataclass(frozen=True, slots=True)
class AskedOfOne:
    """A question and what goes with it, as they were given.

    Attributes:
        sql: the question.
        dialect: whose spelling it has.
        delta: the δ to be spent.
        noise: "laplace" or "gaussian".
        truncation: the share of ε for truncation reports.
        chosen: what a first stage chooses: "auto", "values", or nothing.
        version: the owner's public label of the data.
        accounts: who pays.
    """

    sql: str
    dialect: str
    delta: ForEach
    noise: str | None
    truncation: Real
    chosen: str | None
    version: str | None
    accounts: tuple[Account, ...]

    def prepared(self, tables: Sequence[TableSchema]) -> Prepared:
        """The question with what its own words say of ε, δ and caps."""
        return prepare(self.sql, self.dialect, tables)

    def plan(
        self, tables: Sequence[TableSchema], epsilon: ForEach | None, part: Fraction = Fraction(1)
    ) -> Plan:
        """Its plan over these tables, at so large a part of this ε.

        Raises:
            PlanError, InvalidParameter: it cannot be answered as asked.
        """
        from discreet.plan.plan import alone

        prepared = self.prepared(tables)
        spent = (
            epsilon_asked(prepared.epsilon_or(None if epsilon is None else one("epsilon", epsilon))) * part
        )
        staged = None if self.chosen is None else self._in_stages(prepared, tables, spent)
        if staged is not None:
            return staged
        return alone(self.query(prepared, spent), self.accounts[0].population)

    def query(self, prepared: Prepared, epsilon: Fraction) -> Query:
        """The question decided at this ε, without a first stage."""
        from discreet.plan.query import make_query

        return make_query(
            prepared.text,
            prepared.tables,
            population=self.accounts[0].population,
            version=self.version,
            epsilon=epsilon,
            delta=share_asked("delta", prepared.delta_or(one("delta", self.delta))),
            noise=self.noise,
            truncation=share_asked("truncation", self.truncation),
        )

    def _in_stages(self, prepared: Prepared, tables: Sequence[TableSchema], epsilon: Fraction) -> Plan | None:
        """The question in two stages; None where nothing that was asked to be chosen is missing."""
        from discreet.plan.auto_bounds.asking import plan_in_stages

        return plan_in_stages(
            prepared,
            tables,
            caps=self.chosen == "auto",
            population=self.accounts[0].population,
            version=self.version,
            epsilon=epsilon,
            delta=share_asked("delta", one("delta", self.delta)),
            noise=self.noise,
            truncation=share_asked("truncation", self.truncation),
        )


@dataclass(frozen=True, slots=True)
class AskedOfBoth(AskedOfOne):
    """A question to rows that belong to two populations.

    Attributes:
        units: of each table the two units.
    """

    units: Mapping[str, tuple[PrivacyUnit, PrivacyUnit]]

    def plan(
        self, tables: Sequence[TableSchema], epsilon: ForEach | None, part: Fraction = Fraction(1)
    ) -> Plan:
        """As `AskedOfOne.plan`; ε and δ are what no population pays more than, or one for each."""
        from discreet.plan.flows.plan import make_shared_plan
        from discreet.plan.query import kind_of

        self._refuse_chosen()
        prepared = self.prepared(tables)
        if prepared.has_clause:
            raise UnsupportedQuery(
                "WITH DIFFERENTIAL_PRIVACY OPTIONS says one unit, and two populations are protected here.",
                hint="leave the clause out, and pass epsilon=",
            )
        first, second = self.accounts
        epsilons = [epsilon_asked(e) for e in self._each("epsilon", epsilon)]
        epsilons = epsilons if part == 1 else [part_of(e, part) for e in epsilons]
        deltas = [share_asked("delta", 0 if d is None else d) for d in self._each("delta", self.delta)]
        return make_shared_plan(
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
        """Refuses what a question to one population may ask for beside its answer."""
        if self.chosen is not None:
            raise InvalidParameter(
                "bounds= is not answered where two populations are protected: a first look would have to bound both.",
                hint="declare caps, dp.PrivacyUnit('patient_id', max_rows=…), and ranges, columns={'x': dp.Range(…)}",
            )
        if exact("truncation", self.truncation) != 0:
            raise InvalidParameter(
                "truncation= is not answered where two populations are protected: a unit at a cap may be there because "
                "of the other population.",
                hint="leave it out, and choose caps that few exceed",
            )

    def _each(self, name: str, given: ForEach | None) -> tuple[Real | None, Real | None]:
        """A number for each population, in their order."""
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


def one(name: str, given: ForEach) -> Real:
    """The number of the one population.

    Raises:
        InvalidParameter: several were given, by names.
    """
    if isinstance(given, Mapping):
        raise InvalidParameter(
            f"{name} is one number here: one population pays.",
            hint=f"{name}={next(iter(given.values()), 0.5)}",
        )
    return given
