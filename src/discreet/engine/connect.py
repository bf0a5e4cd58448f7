"""The front door's first step: from sources, and what their owner says of them, to a session."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, TypeVar, cast

from discreet.catalog.listed_keys import Keys
from discreet.errors import InvalidParameter, LedgerError, MissingBounds, MissingFact
from discreet.policy import Policy, PolicyTerms, is_policy, refuse_fixed
from discreet.privacy.exact import count
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import PrivacyUnit, Relation

if TYPE_CHECKING:
    from discreet.accounting.loss import PrivacyLoss
    from discreet.backends.duckdb import DuckDB
    from discreet.catalog.owners import Owners
    from discreet.catalog.schema import Fact, Reached, TableSchema
    from discreet.engine.session import Session
    from discreet.engine.tables import Kept
    from discreet.ledger.account import Account
    from discreet.ledger.ledger import Ledger

T = TypeVar("T")

DEFAULT_LEDGER = "discreet.ledger"
"""Where spending is kept unless `ledger=` says another place; connecting says so aloud."""


def connect(
    source: object,
    *,
    unit: PrivacyUnit | str | None = None,
    public: Collection[str] = (),
    links: Mapping[str, str | Sequence[str]] | None = None,
    columns: Mapping[str, Fact] | None = None,
    keys: Keys | None = None,
    min_people: int = 1,
    budget: Budget | None = None,
    per_person: Budget | None = None,
    population: str | None = None,
    ledger: str | os.PathLike[str] | None = None,
    version: str | None = None,
    names: Sequence[str] | None = None,
    relation: str | Relation | None = None,
    filter: str | None = None,  # noqa: A002  # the field's word, and the front door's
    curve: PrivacyLoss | None = None,
    analyst: str | None = None,
    analysts: str | None = None,
    bounds: str | None = None,
) -> Session:
    """Return a session over private tables, and public ones beside them.

    Args:
        source: a path or glob (Parquet, CSV, JSON, a DuckDB database), a data frame (pandas, polars,
            pyarrow), an open DuckDB connection or relation, a pyarrow dataset or whatever else gives an Arrow stream
            (read once, and kept in memory), or a dict of table names to these; or a policy file, `discreet.toml`, which
            says the rest. Then
            `unit` and `columns` can only tighten what it says, `population` chooses one of several, and what else it
            fixes is refused.
        unit: who is protected, with caps: `PrivacyUnit("user_id", max_groups=3, max_rows=10)` or `PrivacyUnit.row()`;
            needed without a policy.
            Its `tables` says of tables without that column which column holds the unit, or which foreign key leads
            to it. Ids are whole numbers or text (`catalog/ids.py`).
        public: the names of the tables without personal data. They may be read freely: their values are known from
            connecting on. Whether a table is public, and how its units are found otherwise, is fixed with
            its first charged query.
        links: further keys along which tables may be joined, beside the unit's own column: table → foreign key, or
            several, `{"items": "ticket_id -> tickets.id"}`. By a link the owner says that rows with one key belong to
            one unit. A join along it holds the units equal as well, and a note says so; without a link such a join
            is refused.
        columns: public facts that the owner declares: column → `Range` or `Values` (`"table.column"` where two tables
            share a name). They go before what a public table says itself. `Values` under a name that no table has are
            the keys of GROUP BY that have this name in the result.
        keys: the groups of some columns together, as whole tuples: `dp.Keys(frame)`.
        min_people: of how many people a group is at least that a GROUP BY shows. Above 1 all groups are selected
            privately, declared ones too, which needs a δ. A query may raise it.
        budget: how much may ever be learned about each unit; needed when the population is new, unless each person has
            a budget of their own.
        per_person: each person's own budget: a query is charged to the people in it, by what each adds to it, and
            who has used the budget up is left out of later results; fixed when the account is opened. It needs
            add-remove neighbours and a unit with a column. `budget` is then a cap on all queries besides, or none.
        population: whose budget it is; the private table's name unless said. The same population is the same account,
            whatever the file.
        ledger: where spending is kept: a path (SQLite), a `postgresql://` URL, or ":memory:" for one that ends with
            the process; unless said where DISCREET_LEDGER says, or ./discreet.ledger.
        version: a public label of the data's version; a new label makes old results new queries.
        names: column names for CSV files without a header.
        relation: "add-remove" or "replace"; fixed when the account is opened.
        filter: "basic", "zcdp", "gdp", "renyi" or "renyi-curve"; fixed when the account is opened.
        curve: for "renyi-curve", the loss of the work that all queries together may not exceed at any order.
        analyst: who asks, by a name that the owner has added; needed once the account has analysts.
        analysts: for a new account "together" (the default) or "apart", which promises besides that one analyst alone
            learns no more than the own cap allows; fixed when the account is opened.
        bounds: "auto" to have the caps and missing ranges of every query chosen privately, "values" for missing
            ranges alone, as `Session.sql(…, bounds="auto")` does.

    Raises:
        SourceError, LedgerError, InvalidParameter, MissingBounds: see `discreet.errors`; nothing has been charged.
    """
    terms: dict[str, Any] = {
        "public": public,
        "links": links,
        "budget": budget,
        "per_person": per_person,
        "ledger": ledger,
        "names": names,
        "relation": relation,
        "filter": filter,
        "curve": curve,
        "analysts": analysts,
        "keys": keys,
        "min_people": None if count("min_people", min_people) == 1 else min_people,
    }
    if keys is not None and not isinstance(keys, Keys):
        _refuse("keys", "dp.Keys", keys, 'keys=dp.Keys({"year": [2025, 2026], "quarter": ["Q1", "Q2"]})')
    said: dict[str, Any] = {
        "unit": unit,
        "columns": columns,
        "population": population,
        "analyst": analyst,
        "bounds": bounds,
    }
    if is_policy(source):
        refuse_fixed(terms)
        by = Policy.read(cast("str", source)).connection(**said)
        return _session(**by.arguments, version=version, by=by)
    return _session(source, version=version, **said, **terms)


def _session(
    source: object,
    *,
    unit: PrivacyUnit | str | None,
    public: Collection[str],
    columns: Mapping[str, Fact] | None,
    population: str | None,
    ledger: str | os.PathLike[str] | None,
    version: str | None,
    names: Sequence[str] | None,
    analyst: str | None,
    budget: Budget | None = None,
    per_person: Budget | None = None,
    relation: str | Relation | None = None,
    filter: str | None = None,  # noqa: A002  # as above
    curve: PrivacyLoss | None = None,
    analysts: str | None = None,
    bounds: str | None = None,
    links: Mapping[str, str | Sequence[str]] | None = None,
    keys: Keys | None = None,
    min_people: int | None = None,
    by: PolicyTerms | None = None,
) -> Session:
    """Return the session of one population; `by` is the policy that says all this, where one does."""
    from discreet.backends.duckdb import DuckDB
    from discreet.catalog.owners import find_links, find_owners
    from discreet.engine.session import Session

    who, facts, place = _unit(unit), columns or {}, _place(ledger)
    wanted = None if relation is None else Relation.parse(relation)
    _check_given(facts, {"budget": budget, "per_person": per_person}, {"population": population, "version": version})
    with ExitStack() as opened:
        backend = opened.enter_context(closing(DuckDB(source, names=names)))
        known = who or PrivacyUnit.row()  # who stands in until all that is missing is known
        owners = find_owners(known, public, backend.tables, backend.views)
        linked = find_links(links or {}, backend.tables, backend.views)
        whose = population if population is not None else _only_private(owners, said=who is not None)

        def accounts(book: Ledger) -> list[Account]:
            funded = budget is not None or per_person is not None or book.account(whose) is not None
            missing = missing_terms(who, bounds, None if funded else whose, () if funded else book.populations())
            if missing := missing if by is None else by.lacks(missing):
                raise MissingBounds.of(missing)
            account = book.prepared_account(
                whose, budget, relation=wanted, filter=filter, curve=curve, per_person=per_person, analysts=analysts
            )
            if by is not None:
                _check_lock(book, by)
                if analyst is not None and by.cap is not None:
                    account = account.with_analyst(analyst, by.cap, by="policy", reason=f"[analyst.{analyst}] in it")
            return [account.asked_by(analyst)]

        hides = by is not None and by.cap is not None
        book, (account,), tables = _open(
            opened,
            backend,
            place,
            facts,
            {whose: known},
            {whose: owners},
            accounts,
            linked,
            keys,
            min_people or 1,
            hides=hides,
            by_policy=by is not None,
        )
        fixed = frozenset[str]() if by is None else by.fixed
        given: dict[str, Any] = {"bounds": bounds, "fixed": fixed, "by_policy": by is not None}
        session = Session(book, [account], backend, tables, version, **given)
        opened.pop_all()
        return session


def connect_both(
    source: object,
    *,
    units: Mapping[str, PrivacyUnit],
    columns: Mapping[str, Fact] | None = None,
    budget: Mapping[str, Budget] | None = None,
    ledger: str | os.PathLike[str] | None = None,
    version: str | None = None,
    names: Sequence[str] | None = None,
    relation: str | Relation | Mapping[str, str | Relation] | None = None,
    filter: str | Mapping[str, str] | None = None,  # noqa: A002  # as in `connect`
    analyst: str | Mapping[str, str] | None = None,
) -> Session:
    """Return a session over tables each of whose rows belongs to two populations at once, patients and doctors say.

    Each query is charged to both populations, or to none. A table that holds one of them only is asked in a session
    of its own (`connect`) with that population and the same ledger.

    Args:
        source: as in `connect`.
        units: for each of the two populations, by its name, the column of its ids and how many rows one unit may add
            to a group: {"patients": PrivacyUnit("patient_id", max_rows=10), "doctors": PrivacyUnit("doctor_id", …)}.
        columns: public facts that the owner declares, as in `connect`.
        budget: for each population that is new, how much may ever be learned about each of its units.
        ledger: where spending of both is kept, as in `connect`.
        version: a public label of the data's version, as in `connect`.
        names: column names for CSV files without a header.
        relation: as in `connect`, for both or for each.
        filter: as in `connect`, for both or for each.
        analyst: who asks, in both accounts or in each.

    Raises:
        SourceError, LedgerError, InvalidParameter, MissingBounds: see `discreet.errors`; nothing has been charged.
    """
    from discreet.backends.duckdb import DuckDB
    from discreet.catalog.owners import find_two_owners
    from discreet.engine.session import Session
    from discreet.ledger.joint_charge import check_joint

    facts = columns or {}
    _check_units(units)
    budgets: dict[str, Budget] = _for_each(
        "budget", budget, units, only_dict="budget={'patients': dp.Budget(epsilon=3), 'doctors': …}"
    )
    for own in [None, *budgets.values()]:
        _check_given(facts, {"budget": own}, {"version": version})
    place = _place(ledger)
    said: Mapping[str, str | Relation | None] = _for_each("relation", relation, units)
    filters: dict[str, str] = _for_each("filter", filter, units)
    analysts: dict[str, str] = _for_each("analyst", analyst, units)
    relations = {n: None if r is None else Relation.parse(r) for n, r in said.items()}

    def accounts(book: Ledger) -> list[Account]:
        found = []
        for n in units:
            if n not in budgets and book.account(n) is None:
                raise InvalidParameter(
                    f"a new account for {n!r} needs a budget with ε above 0.",
                    hint=f"budget={{{n!r}: dp.Budget(epsilon=3), …}}",
                )
            account = book.prepared_account(n, budgets.get(n), relation=relations.get(n), filter=filters.get(n))
            found.append(account.asked_by(analysts.get(n)))
            check_joint(account)
        return found

    with ExitStack() as opened:
        backend = opened.enter_context(closing(DuckDB(source, names=names)))
        owners = find_two_owners(units, backend.tables, backend.views)
        book, both, tables = _open(opened, backend, place, facts, units, owners, accounts)
        session = Session(book, both, backend, tables, version, units=_units_of_tables(owners, units))
        opened.pop_all()
        return session


def _open(
    opened: ExitStack,
    backend: DuckDB,
    place: str | os.PathLike[str],
    facts: Mapping[str, Fact],
    units: Mapping[str, PrivacyUnit],
    owners: Mapping[str, Owners],
    accounts: Callable[[Ledger], list[Account]],
    links: Mapping[str, Sequence[Reached]] | None = None,
    keys: Keys | None = None,
    min_people: int = 1,
    *,
    hides: bool = False,
    by_policy: bool = False,
) -> tuple[Ledger, list[Account], list[TableSchema]]:
    """Open the ledger and the accounts of the populations, and make the tables answerable as the accounts keep them."""
    from discreet.catalog.owners import check_links, check_unit
    from discreet.catalog.schema import check_declared
    from discreet.engine.tables import attach_all, check_alike, find_shapes, pin_all
    from discreet.ledger.ledger import Ledger

    whose = list(owners.values())
    kept = [_kept(place, name, backend.tables) for name in owners]
    now = find_shapes(backend, whose, kept)
    for unit, own in zip(units.values(), whose, strict=True):
        check_unit(unit, now, own, by_policy=by_policy)
    check_declared(now, facts)
    book = opened.enter_context(Ledger.prepared(place))
    found = accounts(book)
    check_alike(book, found, now, whose[0], {table for known in kept for table in known}, named=not hides)
    pinned = pin_all(backend, found, now, whose)
    first = next(iter(units.values()))
    tables = attach_all(
        backend, pinned, whose, unit=first, facts=facts, account=found[0], keys=keys, min_people=min_people
    )
    if links:
        check_links(links, pinned, whose[0])
        tables = [replace(t, links=tuple(links.get(t.name, ()))) for t in tables]
    return book, found, tables


def _check_lock(book: Ledger, by: PolicyTerms) -> None:
    """Refuse a ledger that is not locked as the policy says."""
    if by.locked and not book.is_locked:
        place, population = shlex.quote(str(by.arguments["ledger"])), shlex.quote(by.arguments["population"])
        raise LedgerError(
            f"The policy says that the ledger {place} is locked, and it is not.",
            hint=f"its owner opens the account and locks it: `discreet ledger open {place} {population} BUDGET`, "
            f"`discreet ledger lock {place} --by NAME --reason WHY`",
        )


def _refuse(name: str, wanted: str, given: object, hint: str) -> Never:
    raise InvalidParameter(f"{name} must be {wanted}, not {type(given).__name__}.", hint=hint)


def _place(ledger: object) -> str | os.PathLike[str]:
    if isinstance(ledger, str | os.PathLike):
        return ledger
    if ledger is not None:
        _refuse("ledger", "a path", ledger, 'ledger="customers.ledger"')
    if place := os.environ.get("DISCREET_LEDGER"):
        print("discreet: spending is kept where DISCREET_LEDGER says", file=sys.stderr)
        return place
    print(f"discreet: spending is kept in ./{DEFAULT_LEDGER} (ledger= names another place)", file=sys.stderr)
    if (other := _beside()) is not None:
        warnings.warn(
            f"A second {DEFAULT_LEDGER} is about to begin here, and {other} is there already: people in both would "
            "have two privacy budgets. Name one place with ledger= or DISCREET_LEDGER.",
            UserWarning,
            stacklevel=4,
        )
    _begun.add(Path(DEFAULT_LEDGER).absolute())
    return DEFAULT_LEDGER


_begun: set[Path] = set()  # places of ledgers that this process has used by default


def _beside() -> Path | None:
    """Return another ledger by default, of this process or of a folder above, where none is in the working folder."""
    here = Path(DEFAULT_LEDGER).absolute()
    if here.exists():
        return None
    above = (folder / DEFAULT_LEDGER for folder in here.parent.parents)
    return next((place for place in (*_begun, *above) if place != here and place.is_file()), None)


def _unit(unit: PrivacyUnit | str | None) -> PrivacyUnit | None:
    column = unit.column if isinstance(unit, PrivacyUnit) else unit
    if isinstance(column, Mapping):
        raise InvalidParameter(
            "unit is a dict, and connect protects one population.",
            hint="dp.connect_both(source, units={'patients': dp.PrivacyUnit('patient_id', max_rows=10), 'doctors': …})",
        )
    if unit is None or isinstance(unit, PrivacyUnit):
        return unit
    if not isinstance(unit, str):
        hint = 'dp.PrivacyUnit("user_id", max_groups=3, max_rows=10), or dp.PrivacyUnit.row()'
        _refuse("unit", "a PrivacyUnit", unit, hint)
    return PrivacyUnit(unit)


def missing_terms(
    unit: PrivacyUnit | None, bounds: str | None, new: str | None, opened: Sequence[str] = ()
) -> list[MissingFact]:
    """Return which facts are missing before anything can be asked of a population.

    Args:
        unit: who is protected; None where that is not said.
        bounds: "auto" where caps are chosen privately.
        new: the population, where its account is new and no budget is given.
        opened: the populations of the ledger, of which it may be a slip.
    """
    from discreet.catalog.schema import looks_like

    found = []
    if unit is None:
        say = "unit=dp.PrivacyUnit('COLUMN', max_groups=3, max_rows=10)"
        found.append(
            MissingFact("unit", "who is protected", say, "unit=dp.PrivacyUnit.row() where each row is a person")
        )
    elif not unit.is_row and unit.caps is None and bounds != "auto":
        caps = [f"max_groups={unit.max_groups or 3}", f"max_rows={unit.max_rows or 10}"]
        what = f"how many groups one {unit.column!r} may enter in a query, and how many rows it may add to each"
        if unit.max_groups is not None:
            what = f"how many rows one {unit.column!r} may add to each group"
        say = f"unit=dp.PrivacyUnit({unit.column!r}, {', '.join(caps)})"
        auto = "bounds='auto', which chooses these caps privately for a tenth of each ε"
        found.append(MissingFact("caps", what, say, auto))
    if new is not None:
        what, say = f"the privacy budget of {new!r}", "budget=dp.Budget(epsilon=3)"
        if near := next((name for name in opened if looks_like(new, [name])), None):
            what, more = f"{what}; the ledger has {near!r}", f"{say} for other people"
            found.append(MissingFact("population", what, f"population={near!r}", more))
        else:
            found.append(MissingFact("budget", what, say))
    return found


def _check_given(columns: object, budgets: Mapping[str, object], texts: Mapping[str, object]) -> None:
    if not isinstance(columns, Mapping):
        wanted = "a dict from a column's name to a Range or Values"
        _refuse("columns", wanted, columns, "columns={'age': dp.Range(0, 120)}")
    for name, budget in budgets.items():
        if budget is not None and not isinstance(budget, Budget):
            _refuse(name, "a Budget", budget, f"{name}=dp.Budget(epsilon=3)")
    for name, text in texts.items():
        if text is not None and not (isinstance(text, str) and 0 < len(text) <= 1000 and "\0" not in text):
            raise InvalidParameter(f"{name} must be a text of 1 to 1000 characters.")


def _kept(place: str | os.PathLike[str], population: str, tables: Sequence[str]) -> Kept:
    """Return what the population's account knows of the tables: of what a known table is now, only ids are read."""
    from discreet.catalog.owners import Owner
    from discreet.catalog.types import TableShape
    from discreet.ledger.ledger import Ledger
    from discreet.ledger.places import is_there

    if not is_there(place):
        return {}
    with Ledger.existing(place) as book:
        account = book.account(population)
        pins = {} if account is None else account.pins()
    found = {t: pins[t.casefold()] for t in tables if t.casefold() in pins}
    return {t: (TableShape.from_json(k), Owner.from_json(k)) for t, k in found.items()}


def _only_private(owners: Owners, *, said: bool) -> str:
    """Return the one private table; any, where it is not said how their units are found."""
    private = [t for t, owner in owners.items() if not owner.public]
    if len(private) == 1 or not said:
        return private[0]
    raise InvalidParameter(
        "Several tables need the name of the population whose budget they share.", hint='population="customers"'
    )


def _units_of_tables(
    owners: Mapping[str, Owners], units: Mapping[str, PrivacyUnit]
) -> dict[str, tuple[PrivacyUnit, PrivacyUnit]]:
    """Return the two units of each table, by the column of it that holds their ids."""
    first, second = (
        {t: unit.capped_like(own.column) for t, own in owners[name].items()} for name, unit in units.items()
    )
    return {table: (first[table], second[table]) for table in first}


def _check_units(units: object) -> None:
    """Refuse what is no two populations, by their names. Raises InvalidParameter: it is not."""
    both = "units={'patients': dp.PrivacyUnit('patient_id', max_rows=10), 'doctors': …}"
    if not isinstance(units, Mapping):
        hint = f"{both}; one population is connected with dp.connect(source, unit=…)"
        _refuse("units", "a dict from a population's name to its PrivacyUnit", units, hint)
    if len(units) != 2:
        raise InvalidParameter(
            f"units names two populations, not {len(units)}.",
            hint="one is connected with dp.connect(source, unit=…); rows of three kinds of units cannot be bounded",
        )
    for name, unit in units.items():
        if not isinstance(name, str) or not name:
            raise InvalidParameter(f"a population is named by a text, not {name!r:.60}.")
        if not isinstance(unit, PrivacyUnit):
            _refuse(f"the unit of {name!r:.60}", "a PrivacyUnit", unit, both)


def _for_each(
    name: str, given: T | Mapping[str, T] | None, populations: Collection[str], *, only_dict: str = ""
) -> dict[str, T]:
    """Return what is said for each population: the one thing for both, or a dict for those that it names.

    Raises:
        InvalidParameter: a population that is not there; one thing for both where `only_dict` says how to give a dict.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        if only_dict:
            _refuse(name, "a dict by the populations' names", given, only_dict)
        return dict.fromkeys(populations, given)
    unknown = sorted(repr(n) for n in given if n not in populations)
    if unknown:
        raise InvalidParameter(
            f"{name} names {unknown[0]:.60}, which is none of the populations {' and '.join(map(repr, populations))}."
        )
    return dict(given)
