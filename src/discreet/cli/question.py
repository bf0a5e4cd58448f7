"""One call of `sql` or `plan` as a value, and the session that it describes; what options declare of tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.cli.options import Bounds
from discreet.errors import DiscreetError, InvalidParameter, MissingBounds, MissingFact, NotPrivate, UnsupportedQuery

if TYPE_CHECKING:
    from discreet.engine.session import Session
    from discreet.policy import PolicyTerms
    from discreet.privacy.guarantee import Budget
    from discreet.privacy.unit import PrivacyUnit

_FIXED = {
    "--ledger": "ledger",
    "--budget": "budget",
    "--budget-delta": "budget_delta",
    "--per-query": "per_query",
    "--per-person": "per_person",
    "--table": "tables",
    "--unit-path": "paths",
    "--public": "public",
    "--link": "links",
    "--names": "names",
    "--keys": "keys",
    "--relation": "relation",
    "--filter": "filter",
}
"""Options that only a policy says where there is one, and the names of their values."""


def sources(source: str, tables: Sequence[tuple[str, str]]) -> str | dict[str, str]:
    """Return the one source, or each table's by its name."""
    from discreet.backends.sources import table_name

    if not tables:
        return source
    found = {table_name(source): source}
    for name, other in tables:
        if name in found:
            raise InvalidParameter(f"Table {name!r} is given twice.", hint="give each --table a name of its own")
        found[name] = other
    return found


def columns(ranges: Sequence[Bounds], values: Sequence[tuple[str, list[str | int | None]]]) -> dict[str, Any]:
    """Return the facts of each column."""
    import discreet as dp

    found: dict[str, Any] = {}
    declared: list[tuple[str, Any]] = []
    for column, low, high, integer in ranges:
        with _naming(f"--range {column}"):
            declared.append((column, dp.Range(low, high, integer=integer)))
    for column, keys in values:
        with _naming(f"--values {column}"):
            declared.append((column, dp.Values(*keys)))
    for column, facts in declared:
        if column in found:
            raise InvalidParameter(
                f"Column {column!r} is declared twice.", hint="give one --range or one --values for each column"
            )
        found[column] = facts
    return found


@contextmanager
def _naming(option: str) -> Iterator[None]:
    """Where what was declared is looked at: an error names the option."""
    try:
        yield
    except InvalidParameter as error:
        hint = error.hint or f"look at what stands after {option}="
        raise InvalidParameter(f"{option}: {error.message}", hint=hint) from None


@dataclass(frozen=True, slots=True)
class QueryCall:
    """One call of `sql` or `plan`, as it was typed: over SOURCE, or over the tables of a policy."""

    source: str
    query: str
    policy: str | None
    unit: str | None
    each_row: bool
    tables: Sequence[tuple[str, str]]
    paths: Sequence[tuple[str, str]]
    public: Sequence[str]
    links: Sequence[tuple[str, str]]
    epsilon: Fraction | None
    errors: Sequence[tuple[str, str]]
    assuming: Sequence[tuple[str, str]]
    rows: int
    delta: Fraction
    population: str | None
    max_groups: int | None
    max_rows: int | None
    max_contributions: int | None
    ranges: Sequence[Bounds]
    values: Sequence[tuple[str, list[str | int | None]]]
    budget: tuple[Fraction, Fraction | None] | None
    budget_delta: Fraction | None
    per_query: Fraction | None
    per_person: tuple[Fraction, Fraction | None] | None
    ledger: str | None
    names: list[str] | None
    keys: str | None
    version: str | None
    relation: str | None
    filter: str | None
    analyst: str | None
    dialect: str
    noise: str | None
    truncation: Fraction
    min_people: int
    bounds: str | None

    @classmethod
    def taken_from(cls, asked: dict[str, Any]) -> QueryCall:
        """Return the call of a command with these options.

        Raises:
            InvalidParameter: neither a source nor a policy, both, or options of what a policy fixes.
        """
        from discreet.policy import FILE, is_policy

        words, policy = asked.pop("words"), asked.pop("policy")
        if len(words) > 2:
            raise InvalidParameter("There is more than a SOURCE and a QUERY.", hint="put the query in quotes")
        *sources, query = words
        source = sources[0] if sources else ""
        if source and is_policy(source) and policy is None:
            source, policy = "", source
        if source and policy is not None:
            raise InvalidParameter("--policy names the tables, and SOURCE another one.", hint="leave SOURCE out")
        if not source and policy is None:
            if not Path(FILE).exists():
                raise InvalidParameter(
                    f"The query has no SOURCE, and there is no policy {FILE} in this folder.",
                    hint='write SOURCE "SELECT …", or make a policy with `discreet init SOURCE`',
                )
            policy = FILE
        if policy is not None and (fixed := [option for option, name in _FIXED.items() if asked[name]]):
            raise InvalidParameter(f"{fixed[0]} is fixed by the policy {policy}.", hint=f"leave {fixed[0]} out")
        return cls(source=source, query=query, policy=policy, **asked)

    @property
    def place(self) -> str:
        """The path of the ledger, or its URL."""
        found = self._by_policy()
        return self.ledger or "discreet.ledger" if found is None else str(found.arguments["ledger"])

    @property
    def shown(self) -> str:
        """The same, without a password."""
        from discreet.ledger.places import shown

        return shown(self.place)

    @property
    def files(self) -> list[str]:
        """What is used and must not be written over: the ledger and the sources, as they were typed."""
        found = self._by_policy()
        if found is not None:
            return [str(self.policy), self.place, *found.arguments["source"].values()]
        return [self.place, self.source, *(source for _, source in self.tables)]

    @property
    def private_tables(self) -> list[str]:
        """The names of a policy's tables of the population."""
        found = self._by_policy()
        return [] if found is None else [t for t in found.arguments["source"] if t not in found.arguments["public"]]

    def open(self) -> Session:
        """Return the session that the options describe; nothing is charged yet.

        Raises:
            MissingBounds: facts are missing that no session is without; those that the query lacks are named with them.
        """
        if missing := self._missing_terms():
            raise self._with_all_missing(missing)
        return self._connect(self.place, self._budget(), analyst=self.analyst, per_person=self._per_person())

    def open_without_account(self) -> Session:
        """Return a session for plans: on the account where there is one, else on none that lasts."""
        from discreet.privacy.guarantee import Budget

        if missing := [fact for fact in self._missing_terms() if fact.kind not in ("budget", "population")]:
            raise self._with_all_missing(missing)
        free = self._connect(":memory:", self._budget() or Budget(self.epsilon or 1, self.delta), analyst=None)
        if not self.has_account(free.population):
            return free
        free.close()
        return self.open()

    def has_account(self, population: str) -> bool:
        """Whether the ledger has an account of this population."""
        return have_accounts(self.place, [population])

    @property
    def guesses(self) -> dict[str, Any]:
        """Public guesses at the result."""
        return {"rows": self.rows, **dict(self.assuming)}

    def wanted(self, confidence: float) -> dict[str, Any]:
        """Return the errors that are wanted in place of an ε, as `Session.sql` and `Session.plan` take them."""
        errors = {"error": dict(self.errors), "confidence": confidence, "assuming": self.guesses}
        return errors if self.errors else {}

    def price(self) -> dict[str, Any]:
        """Return what `Session.sql` and `Session.plan` are told beside the query."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "dialect": self.dialect,
            "noise": self.noise,
            "truncation": self.truncation,
            "min_people": self.min_people,
        }

    def _connect(
        self, ledger: str, budget: Budget | None, *, analyst: str | None, per_person: Budget | None = None
    ) -> Session:
        import discreet as dp

        found = self._by_policy()
        if found is not None and ledger == self.place:
            return dp.connect(
                self.policy,
                unit=found.arguments["unit"],
                columns=columns(self.ranges, self.values),
                population=self.population,
                version=self.version,
                analyst=analyst,
                bounds=self.bounds,
            )
        if found is not None:
            terms = {"ledger": ledger, "budget": budget, "per_person": None, "analyst": None, "version": self.version}
            return dp.connect(**(found.arguments | {"unit": _guessed(found.arguments["unit"])} | terms))
        return dp.connect(
            sources(self.source, self.tables),
            unit=self._unit(),
            public=self.public,
            links={table: [key for t, key in self.links if t == table] for table, _ in self.links},
            columns=columns(self.ranges, self.values),
            keys=None if self.keys is None else dp.Keys(self.keys),
            budget=budget,
            per_person=per_person,
            population=self.population,
            ledger=ledger,
            version=self.version,
            names=self.names,
            relation=self.relation,
            filter=self.filter,
            analyst=analyst,
            bounds=self.bounds,
        )

    def _missing_terms(self) -> list[MissingFact]:
        """Return what is missing of who is protected, and the budget of a new account."""
        from discreet.backends.sources import table_name
        from discreet.engine.connect import missing_terms

        if (by := self._by_policy()) is not None:
            terms, whose = by.arguments, by.arguments["population"]
            opened = {"budget", "per_person"} & terms.keys() or self.has_account(whose)
            return _short(
                by.lacks(missing_terms(terms["unit"], terms.get("bounds"), None if opened else whose)), terms["unit"]
            )
        name = self.population or ("" if self.tables else table_name(self.source))
        funded = self._budget() is not None or self.per_person is not None or not name or self.has_account(name)
        found = missing_terms(
            self._unit(), self.bounds, None if funded else name, () if funded else populations_in(self.place)
        )
        return _short(found, self)

    def _with_all_missing(self, missing: list[MissingFact]) -> DiscreetError:
        """Return the refusal that names these facts and those that the query lacks, as far as that can be told."""
        from discreet.privacy.guarantee import Budget, decimal

        known = self.policy is not None or self._unit() is not None
        guess = self  # of a policy what it lacks is guessed where it is connected
        if self.policy is None:
            guess = (
                self._with_caps()
                if self.unit
                else replace(self, each_row=True, paths=(), max_groups=None, max_rows=None, max_contributions=None)
            )
        try:
            with guess._connect(":memory:", Budget(20, Fraction(1, 2)), analyst=None) as session:
                session.plan(self.query, **self.price())
        except (MissingBounds, NotPrivate, InvalidParameter) as error:
            if not error.missing:
                raise
            missing = [*missing, *error.missing]
        except UnsupportedQuery:  # some queries need a unit with a column
            if known:
                raise
        if self.delta or any(fact.say.startswith("delta=") for fact in missing):
            delta = max(10 * self.delta, Fraction(1, 10**6))  # all of it in the first query would end the rest
            said = f"budget=dp.Budget(epsilon=3, delta={decimal(delta)})"
            missing = [replace(f, say=said) if f.kind == "budget" else f for f in missing]
        return MissingBounds.of(missing)

    def _with_caps(self) -> QueryCall:
        """Return the same call with the caps that it lacks, to find out what else is missing."""
        if self.max_contributions is not None:
            return self
        return replace(self, max_groups=self.max_groups or 3, max_rows=self.max_rows or 10)

    def _by_policy(self) -> PolicyTerms | None:
        """Return what the policy says, tightened by the options; None without one."""
        import discreet as dp
        from discreet.policy import Policy

        if self.policy is None:
            return None
        return Policy.read(self.policy).connection(
            population=self.population,
            analyst=self.analyst,
            unit=dp.PrivacyUnit.row() if self.each_row else self.unit,
            max_groups=self.max_groups,
            max_rows=self.max_rows,
            max_contributions=self.max_contributions,
            columns=columns(self.ranges, self.values),
            bounds=self.bounds,
        )

    def _unit(self) -> PrivacyUnit | None:
        import discreet as dp

        if self.each_row and self.unit is not None:
            raise InvalidParameter(
                "--unit and --each-row do not go together.",
                hint="--unit user_id when a column has the person's id, --each-row when a row is a person",
            )
        if not self.each_row and self.unit is None:
            return None
        if self.unit is None:
            if (self.max_groups, self.max_rows, self.max_contributions) != (None, None, None):
                raise InvalidParameter(
                    "--max-groups, --max-rows and --max-contributions do not go with --each-row.",
                    hint="a person with one row enters one group, once; leave them out",
                )
            if self.paths:
                raise InvalidParameter(
                    "--unit-path does not go with --each-row.",
                    hint="where each row is a person, no other row is theirs; name the other tables with --public",
                )
            return dp.PrivacyUnit.row()
        return dp.PrivacyUnit(
            self.unit,
            max_groups=self.max_groups,
            max_rows=self.max_rows,
            tables=self.paths,
            max_contributions=self.max_contributions,
        )

    def _per_person(self) -> Budget | None:
        import discreet as dp

        return None if self.per_person is None else dp.Budget(self.per_person[0], self.per_person[1] or 0)

    def _budget(self) -> Budget | None:
        import discreet as dp

        if self.budget is None:
            if self.budget_delta is not None:
                raise InvalidParameter("--budget-delta needs --budget.", hint="write --budget 3,1e-6")
            if self.per_query is not None:
                raise InvalidParameter(
                    "--per-query needs --budget: it is fixed when the account is opened.",
                    hint="write --budget 30 --per-query 25",
                )
            return None
        epsilon, delta = self.budget
        if delta is not None and self.budget_delta is not None:
            raise InvalidParameter("The δ of the budget is given twice.", hint="write --budget 3,1e-6, and no more")
        cap = {} if self.per_query is None else {"per_query": self.per_query}
        return dp.Budget(epsilon, delta if delta is not None else self.budget_delta or 0, **cap)


def _short(found: list[MissingFact], of: Any) -> list[MissingFact]:
    """Return the same facts, those about caps with the options of the caps that are missing."""
    unsaid = [f"{n}={m}" for n, m in (("max_groups", 3), ("max_rows", 10)) if getattr(of, n, None) is None]
    return [replace(fact, say=" ".join(unsaid)) if fact.kind == "caps" else fact for fact in found]


def _guessed(unit: PrivacyUnit | None) -> PrivacyUnit:
    """Return who stands in for the unit in a plan that is made to find out what is missing."""
    import discreet as dp

    if unit is None or unit.is_row:
        return dp.PrivacyUnit.row()
    if unit.caps is not None:
        return unit
    return dp.PrivacyUnit(unit.column, unit.max_groups or 3, unit.max_rows or 10, unit.tables)


def have_accounts(place: str, populations: Sequence[str]) -> bool:
    """Whether the ledger there, if there is one, has an account of each of these populations."""
    from discreet.ledger.ledger import Ledger
    from discreet.ledger.places import is_there

    if not is_there(place):
        return False
    with Ledger.existing(place) as book:
        return all(book.account(name) is not None for name in populations)


def populations_in(place: str) -> list[str]:
    """Return the populations that have an account in the ledger there, if there is one."""
    from discreet.ledger.ledger import Ledger
    from discreet.ledger.places import is_there

    if not is_there(place):
        return []
    with Ledger.existing(place) as book:
        return book.populations()
