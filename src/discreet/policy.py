"""Policy files: what the owner fixes of tables, populations and analysts, as the arguments of `connect`."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from discreet.catalog.listed_keys import Keys
from discreet.catalog.owners import FORM
from discreet.catalog.schema import Fact, Range, Values, declared_facts
from discreet.errors import DiscreetError, InvalidParameter, MissingFact, SourceError
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import PrivacyUnit

Section: TypeAlias = Mapping[str, Any]

FILE = "discreet.toml"
"""The policy that commands look for in the working folder."""


@dataclass(frozen=True, slots=True)
class Population:
    """Terms of a population's account: `[population.NAME]`.

    Attributes:
        ledger: path or URL of the ledger.
        terms: the arguments `budget`, `per_person`, `relation`, `filter`, `analysts` and `min_people` of `connect`, as
            far as they are said.
        locked: whether the policy holds only over a locked ledger, in which no query opens an account.
    """

    ledger: str
    terms: Mapping[str, Any]
    locked: bool


CAPS = ("max_groups", "max_rows", "max_contributions")
"""The caps on what one person adds, as `PrivacyUnit` and policy files name them."""


@dataclass(frozen=True, slots=True)
class PolicyTable:
    """Terms of a table: `[table.NAME]`.

    Attributes:
        source: path or URL.
        population: whose people its rows are; "" for a public table.
        unit: column with the person's id, or foreign key that leads to it; "" where neither is said.
        each_row: whether each row is one person.
        caps: `max_groups`, `max_rows` and `max_contributions`, as far as they are said.
        columns: public facts.
        names: column names of a file without a header.
        links: further keys along which it may be joined.
        keys: the file that lists the groups of some columns together; None where there is none.
    """

    source: str
    population: str
    unit: str
    each_row: bool
    caps: Mapping[str, int]
    columns: Mapping[str, Fact]
    names: Sequence[str] | None
    links: Sequence[str] = ()
    keys: str | None = None

    @property
    def owner(self) -> str:
        """Whose its rows are, in words."""
        if not self.population:
            return "public"
        return "unit: each row" if self.each_row else f"unit {self.unit}" if self.unit else "not said"


@dataclass(frozen=True, slots=True)
class PolicyAnalyst:
    """Terms of an analyst: `[analyst.NAME]`. A `token_sha256` is kept for a server, and unused by `connect`.

    Attributes:
        tables: the tables that the analyst may query; None for all.
        budget: the analyst's cap.
        token_sha256: hash of the analyst's token.
    """

    tables: tuple[str, ...] | None
    budget: Budget
    token_sha256: str | None


@dataclass(frozen=True, slots=True)
class PolicyTerms:
    """Arguments of `connect` that a policy gives, and what it asks of the ledger besides.

    Attributes:
        arguments: of `connect`.
        locked: whether the ledger has to be locked.
        cap: the analyst's budget.
        missing: facts that the policy has to say and does not.
        budget: the fact that a new account has no budget, in the policy's words.
        fixed: the caps that the policy says, which no query may have chosen.
    """

    arguments: dict[str, Any]
    locked: bool
    cap: Budget | None
    missing: tuple[MissingFact, ...]
    budget: MissingFact
    fixed: frozenset[str] = frozenset()

    def lacks(self, terms: Sequence[MissingFact]) -> list[MissingFact]:
        """Return facts that are missing before anything can be asked, each as the policy says it where it has to."""
        kept = [self.budget if f.kind in ("budget", "population") else f for f in terms if f.kind != "unit"]
        return [*self.missing, *kept]


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy file, read and checked.

    Guarantee:
        A session over it protects the units, by the caps, ranges, keys and budgets that it says: arguments of an
        analyst can tighten these, and never widen one.
    """

    path: str
    populations: Mapping[str, Population]
    tables: Mapping[str, PolicyTable]
    analysts: Mapping[str, PolicyAnalyst] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Policy:
        """Return the policy in a file.

        Raises:
            SourceError: it cannot be read, or is not TOML.
            InvalidParameter: an unknown key, a value of another kind, or sections that contradict each other.
        """
        shown, file = os.fspath(path), Path(path).expanduser()
        try:
            said = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError:
            raise SourceError(f"The policy {shown!r} cannot be read.", hint="check the path") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            hint = "text stands in quotes, and each key stands once"
            if "Unescaped" in str(error) or "hex value" in str(error):
                hint = r"write a path with /, or in single quotes: 'C:\data\visits.csv'"
            raise SourceError(f"The policy {shown!r} is not TOML: {error}.", hint=hint) from None
        _check_keys("The policy", said, ("population", "table", "analyst"))
        sections = {kind: _section(kind, said.get(kind, {})) for kind in ("population", "table", "analyst")}
        populations = {n: _population(n, s, file.parent) for n, s in sections["population"].items()}
        tables = {n: _table(n, s, file.absolute().parent, list(populations)) for n, s in sections["table"].items()}
        analysts = {n: _analyst(n, s, list(tables)) for n, s in sections["analyst"].items()}
        if not any(table.population for table in tables.values()):
            raise InvalidParameter(
                f"The policy {shown!r} has no table with personal data.",
                hint="write [population.NAME] and [table.NAME], as `discreet init SOURCE` does",
            )
        return cls(shown, populations, tables, analysts)

    def connection(
        self,
        *,
        population: str | None = None,
        analyst: str | None = None,
        unit: PrivacyUnit | str | None = None,
        max_groups: int | None = None,
        max_rows: int | None = None,
        max_contributions: int | None = None,
        columns: Mapping[str, Fact] | None = None,
        bounds: str | None = None,
    ) -> PolicyTerms:
        """Return the arguments of `connect` for one population, tightened by those that are given.

        Raises:
            InvalidParameter: an argument that would widen the policy; an analyst or a population that it does not name.
        """
        who = self._analyst(analyst)
        named = [n for n in self.populations if any(t.population == n for t in self.tables.values())]
        if population is None and len(named) > 1:
            names = ", ".join(map(repr, named))
            raise InvalidParameter(f"The policy has several populations: {names}.", hint=f"population={named[0]!r}")
        whose = named[0] if population is None else _known("population", population, named)
        reachable = self.tables if who is None or who.tables is None else {t: self.tables[t] for t in who.tables}
        tables = {n: t for n, t in reachable.items() if t.population in ("", whose)}
        private = {n: t for n, t in tables.items() if t.population}
        if not private:
            raise InvalidParameter(
                f"The policy lets {analyst!r} query no table of {whose!r}.",
                hint="give the population= of one of the tables that it lists",
            )
        people = {n: t for n, t in self.tables.items() if t.population == whose}  # whoever asks: caps hold for all
        terms = self.populations[whose]
        missing = [
            MissingFact(
                "policy",
                f"who is protected in table {n!r}",
                _under(f"table.{n}", 'unit = "COLUMN"', "each_row = true", "public = true"),
            )
            for n, t in private.items()
            if not (t.unit or t.each_row)
        ]
        asked = dict(zip(CAPS, (max_groups, max_rows, max_contributions), strict=True))
        arguments: dict[str, Any] = {
            "source": {n: t.source for n, t in tables.items()},
            "unit": None if missing else _tightened(_unit(private, people), unit, asked),
            "public": [n for n, t in tables.items() if not t.population],
            "columns": _narrowed({n: t.columns for n, t in tables.items()}, columns or {}),
            "population": whose,
            "ledger": terms.ledger,
            "analyst": analyst,
            "names": _names(tables),
            **terms.terms,
        }
        fixed = frozenset(cap for t in people.values() for cap in t.caps)
        refuse_chosen(bounds, fixed)
        if bounds is not None:
            arguments["bounds"] = bounds
        if listed := {n: t.keys for n, t in private.items() if t.keys is not None}:
            arguments["keys"] = _listed(listed)
        if links := _links(tables, self.tables):
            arguments["links"] = links
        budget = _under(f"population.{whose}", "budget = { epsilon = 3, delta = 1e-6 }")
        lacks_budget = MissingFact("policy", f"the privacy budget of {whose!r}", budget)
        cap = None if who is None else who.budget
        return PolicyTerms(arguments, terms.locked, cap, tuple(missing), lacks_budget, fixed)

    def _analyst(self, name: str | None) -> PolicyAnalyst | None:
        if name is None and self.analysts:
            raise InvalidParameter(
                f"The policy {self.path!r} names analysts: each query needs the one who asks.",
                hint=f"add analyst={next(iter(self.analysts))!r}",
            )
        return (
            None if name is None or not self.analysts else self.analysts[_known("analyst", name, list(self.analysts))]
        )


def is_policy(source: object) -> bool:
    """Return whether a source is a policy file, by its name."""
    return isinstance(source, str | os.PathLike) and os.fspath(source).endswith(".toml")


def refuse_fixed(given: Mapping[str, object]) -> None:
    """Refuse arguments that only the policy says.

    Raises:
        InvalidParameter: one of them is given.
    """
    for name, value in given.items():
        if value is not None and value != ():
            raise InvalidParameter(f"{name}= is fixed by the policy.", hint=f"leave {name}= out")


def refuse_chosen(bounds: str | None, fixed: Collection[str]) -> None:
    """Refuse to have caps chosen that the policy fixes.

    Raises:
        InvalidParameter: `bounds` is "auto", and some are fixed.
    """
    if bounds == "auto" and fixed:
        raise InvalidParameter(
            f"The policy fixes {' and '.join(sorted(fixed))}, and bounds='auto' would choose it.",
            hint="leave bounds= out; bounds='values' chooses missing ranges alone",
        )


def _under(section: str, *lines: str) -> str:
    return f"{' or '.join(f'`{line}`' for line in lines)} under [{section}] in the policy"


def _population(name: str, said: Section, folder: Path) -> Population:
    where = f"[population.{name}]"
    keys = ("ledger", "budget", "locked", "per_person", "relation", "filter", "analysts", "min_people")
    _check_keys(where, said, keys)
    terms: dict[str, Any] = {k: _text(where, k, said[k]) for k in ("relation", "filter", "analysts") if k in said}
    terms |= {k: _budget(where, k, said[k]) for k in ("budget", "per_person") if k in said}
    terms |= {k: _count(where, k, said[k]) for k in ("min_people",) if k in said}
    ledger = _text(where, "ledger", said.get("ledger", "discreet.ledger"))
    if ledger == ":memory:":
        raise InvalidParameter(
            f"{where} keeps its ledger in memory: the budget would begin anew at each connect.",
            hint='ledger = "discreet.ledger"',
        )
    return Population(_place(ledger, folder), terms, _flag(where, "locked", said))


def _table(name: str, said: Section, folder: Path, populations: Sequence[str]) -> PolicyTable:
    where = f"[table.{name}]"
    keys = ("source", "population", "unit", "each_row", "public", *CAPS, "columns", "names", "links", "keys")
    _check_keys(where, said, keys)
    if "source" not in said:
        raise InvalidParameter(f"{where} does not say its source.", hint='source = "visits.parquet"')
    public, each_row = _flag(where, "public", said), _flag(where, "each_row", said)
    owned = [k for k in ("population", "unit", "each_row", *CAPS, "links", "keys") if k in said]
    if public and owned:
        raise InvalidParameter(f"{where} is public, and says {owned[0]} as well.", hint=f"leave {owned[0]} out there")
    capped = [k for k in ("unit", *CAPS, "links") if k in said]
    if each_row and capped:
        raise InvalidParameter(
            f"{where} says each_row, and {capped[0]} as well.", hint="a person with one row enters one group, once"
        )
    whose = "" if public else _text(where, "population", said.get("population", next(iter(populations), "")))
    if not public and ("population" not in said and len(populations) != 1):
        raise InvalidParameter(
            f"{where} does not say its population.", hint='population = "customers", or public = true'
        )
    if whose:
        _known("population", whose, populations)
    caps = {k: _count(where, k, said[k]) for k in CAPS if k in said}
    columns = {c: _fact(f"{where} columns.{c}", f) for c, f in _section("columns", said.get("columns", {})).items()}
    names = _texts(where, "names", said["names"]) if "names" in said else None
    links = tuple(_texts(where, "links", said["links"])) if "links" in said else ()
    unit = _text(where, "unit", said["unit"]) if "unit" in said else ""
    return PolicyTable(
        _place(_text(where, "source", said["source"]), folder),
        whose,
        unit,
        each_row,
        caps,
        columns,
        names,
        links,
        _place(_text(where, "keys", said["keys"]), folder) if "keys" in said else None,
    )


def _analyst(name: str, said: Section, tables: Sequence[str]) -> PolicyAnalyst:
    where = f"[analyst.{name}]"
    _check_keys(where, said, ("tables", "budget", "token_sha256"))
    listed = tuple(_texts(where, "tables", said["tables"])) if "tables" in said else None
    for table in listed or ():
        _known("table", table, tables)
    token = said.get("token_sha256")
    if token is not None and not re.fullmatch("[0-9a-f]{64}", _text(where, "token_sha256", token)):
        raise InvalidParameter(
            f"token_sha256 of {where} is not a SHA-256 hash.", hint="write its 64 digits in lower-case hexadecimal"
        )
    if "budget" not in said:
        raise InvalidParameter(f"{where} has no budget.", hint="budget = { epsilon = 1 }")
    return PolicyAnalyst(listed, _budget(where, "budget", said["budget"]), token)


def _fact(where: str, said: object) -> Fact:
    facts = _section(where, said, inner=False)
    _check_keys(where, facts, ("range", "values", "integer", "null", "labels"))
    if ("range" in facts) == ("values" in facts):
        raise InvalidParameter(
            f"{where} needs a range or values.", hint='{ range = [0, 200] } or { values = ["a", "b"] }'
        )
    only = {"integer": "range", "null": "values", "labels": "values"}
    for key, other in only.items():
        if key in facts and other not in facts:
            raise InvalidParameter(f"{where} says {key} without {other}.", hint=f"leave {key} out")
    listed = facts.get("range", facts.get("values"))
    if not isinstance(listed, list) or ("range" in facts and len(listed) != 2):
        raise InvalidParameter(f"{where} needs a list.", hint='{ range = [0, 200] } or { values = ["a", "b"] }')
    try:
        if "range" in facts:
            return Range(*listed, integer=_flag(where, "integer", facts))
        values = [*listed, *([None] if _flag(where, "null", facts) else [])]
        if "labels" not in facts:
            return Values(*values)
        labels = _texts(where, "labels", facts["labels"])
        if len(labels) != len(listed):
            raise InvalidParameter("labels and values differ in number", hint="give each value its label, in order")
        return Values(dict(zip(listed, labels, strict=True))).listed(*values)
    except (DiscreetError, TypeError) as error:
        hint = error.hint if isinstance(error, DiscreetError) else "a range is two numbers, or two dates"
        raise InvalidParameter(f"{where}: {getattr(error, 'message', 'no such list')}", hint=hint) from None


def _unit(private: Mapping[str, PolicyTable], people: Mapping[str, PolicyTable]) -> PrivacyUnit:
    """Return the unit of the tables of one population that are queried, with the caps of all of its tables."""
    each_row = {t.each_row for t in people.values() if t.each_row or t.unit}
    if len(each_row) > 1:
        raise InvalidParameter(
            "Tables of one population say each_row and a unit with a column.", hint="give them two populations"
        )
    if True in each_row:
        return PrivacyUnit.row()
    plain = [t.unit for t in private.values() if "->" not in t.unit]
    if not plain:
        raise InvalidParameter("No table of the population has a column with the person's id.", hint=FORM)
    caps: dict[str, int] = {}
    for name, table in people.items():
        for cap, most in table.caps.items():
            if caps.setdefault(cap, most) != most:
                raise InvalidParameter(
                    f"[table.{name}] says {cap} = {most}, and another table of the population says {caps[cap]}.",
                    hint="one query may read both: give all tables of a population the same caps",
                )
    others = {n: t.unit for n, t in private.items() if t.unit != plain[0]}
    return PrivacyUnit(plain[0], tables=others, **caps)


def _tightened(fixed: PrivacyUnit, given: PrivacyUnit | str | None, asked: Mapping[str, int | None]) -> PrivacyUnit:
    if isinstance(given, PrivacyUnit):
        if given.column != fixed.column or given.tables not in ((), fixed.tables):
            raise _other_unit(fixed)
        asked = {name: getattr(given, name) for name in CAPS}
    elif given is not None and given != fixed.column:
        raise _other_unit(fixed)
    if fixed.is_row:
        if not {*asked.values()} <= {None, 1}:
            raise InvalidParameter("The policy says that each row is one person: caps do not go with it.")
        return fixed
    caps = {}
    for name, given_cap in asked.items():
        most = getattr(fixed, name)
        if most is not None and given_cap is not None and given_cap > most:
            raise _widens(f"{name} {given_cap}", str(most), f"give {name}={most} or less")
        caps[name] = most if given_cap is None else given_cap
    return PrivacyUnit(fixed.column, tables=fixed.tables, **caps)


def _narrowed(fixed: Mapping[str, Mapping[str, Fact]], given: Mapping[str, Fact]) -> dict[str, Fact]:
    """Return the facts of each table's columns, narrowed by those that an analyst gives."""
    found = {f"{table}.{column}": fact for table, facts in fixed.items() for column, fact in facts.items()}
    for table, facts in fixed.items():
        named = {n for n in given if n in facts} | {n.removeprefix(f"{table}.") for n in given}
        for column, fact in declared_facts(table, dict.fromkeys(named & facts.keys()), given).items():
            if not _is_within(fact, facts[column]):
                hint = "give a part of it, or leave it out"
                asked, had = (f"columns={{{column!r}: dp.{of!r}}}" for of in (fact, facts[column]))
                raise _widens(asked, had, hint)
            found[f"{table}.{column}"] = fact
    return {n: f for n, f in given.items() if f"{n}" not in found} | found


def _is_within(fact: object, fixed: Fact) -> bool:
    match fact, fixed:
        case Range(), Range():
            kinds = fact.integer or not fixed.integer
            return (
                kinds
                and fact.type.is_moment == fixed.type.is_moment
                and fixed.low <= fact.low <= fact.high <= fixed.high
            )
        case Values(), Values():
            return {(type(v), v) for v in fact.values} <= {(type(v), v) for v in fixed.values}
    return False


def _listed(files: Mapping[str, str]) -> Keys:
    """Return the keys that the tables of one population list in a file."""
    if len(files) > 1:
        raise InvalidParameter(
            f"Several tables of the population list keys: {' and '.join(map(repr, files))}.",
            hint="list those of one table",
        )
    return Keys(next(iter(files.values())))


def _links(tables: Mapping[str, PolicyTable], known: Mapping[str, PolicyTable]) -> dict[str, list[str]]:
    """Return the links of the tables, without those to tables of the policy that the analyst may not query."""

    def leads(link: str, names: Iterable[str]) -> bool:
        target = link.partition("->")[2].strip().casefold()
        return any(target.startswith(f"{name.casefold()}.") for name in names)

    hidden = [name for name in known if name not in tables]
    found = {n: [k for k in t.links if leads(k, tables) or not leads(k, hidden)] for n, t in tables.items()}
    return {n: keys for n, keys in found.items() if keys}


def _names(tables: Mapping[str, PolicyTable]) -> Sequence[str] | None:
    named = [t.names for t in tables.values() if t.names is not None]
    if named and len(tables) > 1:
        raise InvalidParameter(
            "names are for the one table of a policy: a file without a header stands alone.",
            hint="give the file a first line with its columns' names",
        )
    return named[0] if named else None


def _other_unit(fixed: PrivacyUnit) -> InvalidParameter:
    who = "each row" if fixed.column is None else f"{fixed.column!r}"
    return InvalidParameter(
        f"The policy protects {who}, and this asks for another unit.", hint="leave unit= out; caps may be lower"
    )


def _widens(given: str, fixed: str, hint: str) -> InvalidParameter:
    return InvalidParameter(f"{given} is not within the policy, which says {fixed}.", hint=hint)


def _known(kind: str, name: str, names: Collection[str]) -> str:
    if name in names:
        return name
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    listed = ", ".join(names) or "none"
    raise InvalidParameter(
        f"The policy has no {kind} {name!r}.", hint=f"perhaps {near[0]} is meant" if near else f"it has {listed}"
    )


def _check_keys(where: str, said: Section, keys: Sequence[str]) -> None:
    for key in said:
        if key not in keys:
            near = difflib.get_close_matches(key, keys, n=1, cutoff=0.5)
            hint = f"perhaps {near[0]} is meant" if near else f"keys are: {', '.join(keys)}"
            raise InvalidParameter(f"{where} has no key {key!r:.60}.", hint=hint)


def _section(where: str, said: object, *, inner: bool = True) -> Section:
    """Return a table of TOML; with `inner`, one of tables."""
    if isinstance(said, dict) and (not inner or all(isinstance(value, dict) for value in said.values())):
        return said
    raise InvalidParameter(
        f"{where} is not a section of the policy.", hint="write [table.visits], or columns.age = { … }"
    )


def _budget(where: str, key: str, said: object) -> Budget:
    terms = _section(f"{key} of {where}", said, inner=False)
    _check_keys(f"{key} of {where}", terms, ("epsilon", "delta", "per_query"))
    if "epsilon" not in terms:
        raise InvalidParameter(f"{key} of {where} has no epsilon.", hint=f"{key} = {{ epsilon = 3, delta = 1e-6 }}")
    try:
        return Budget(**terms)
    except InvalidParameter as error:
        hint = f"{key} = {{ epsilon = 3, delta = 1e-6 }}"
        raise InvalidParameter(f"{key} of {where}: {error.message}", hint=hint) from None


def _place(path: str, folder: Path) -> str:
    """Return a path relative to the policy's folder; URLs and `:memory:` as they are."""
    if "://" in path or path == ":memory:":
        return path
    return str(folder / Path(path).expanduser())


def _text(where: str, key: str, said: object) -> str:
    if isinstance(said, str) and said and "\0" not in said:
        return said
    raise InvalidParameter(f"{key} of {where} must be a text in quotes.", hint=f'{key} = "…"')


def _texts(where: str, key: str, said: object) -> list[str]:
    if isinstance(said, list):
        return [_text(where, key, text) for text in said]
    raise InvalidParameter(f"{key} of {where} must be a list.", hint=f'{key} = ["a", "b"]')


def _flag(where: str, key: str, said: Section) -> bool:
    value = said.get(key, False)
    if isinstance(value, bool):
        return value
    raise InvalidParameter(f"{key} of {where} must be true or false.", hint=f"{key} = true")


def _count(where: str, key: str, said: object) -> int:
    if isinstance(said, int) and not isinstance(said, bool) and said >= 1:
        return said
    raise InvalidParameter(f"{key} of {where} must be a whole number of at least 1.", hint=f"{key} = 3")
