"""Queries as they are planned: in DuckDB's spelling, under the policy that their own words ask for.

What a query says beside itself (`conventions.py`) may tighten the owner's policy and never weaken it: wider caps and
another unit are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Never

from discreet.catalog.schema import TableSchema
from discreet.errors import InvalidParameter, UnsupportedQuery
from discreet.privacy.exact import Real, exact, positive, probability
from discreet.privacy.guarantee import decimal
from discreet.query.dialects.conventions import CLAUSES, SIGNS, take_off
from discreet.query.dialects.dialect import DIALECTS, as_duckdb


@dataclass(frozen=True, slots=True)
class Prepared:
    """A query without the clauses of other databases, in DuckDB's spelling.

    Attributes:
        text: the query.
        tables: the connected tables, under the policy that the query asked for.
        epsilon, delta: what the clause says may be spent; None where it does not.
        has_clause: whether there was one.
        known_groups: whether it says that groups are public.
    """

    text: str
    tables: tuple[TableSchema, ...]
    epsilon: Fraction | None = None
    delta: Fraction | None = None
    has_clause: bool = False
    known_groups: bool = False

    def check_groups(self, known: bool) -> None:
        """Check that groups are known where the clause says that they are public."""
        if self.known_groups and not known:
            raise UnsupportedQuery(
                "OPTIONS say that groups are public, and the groups of this query are not known.",
                hint="join a public table that has the keys, or declare them: columns={'key': dp.Values(…)}",
            )

    def epsilon_or(self, given: Real | None) -> Real | None:
        """Return the ε of the clause or of the caller, who may both say it if they agree."""
        return self.epsilon if given is None else self._agreed("epsilon", given, self.epsilon)

    def delta_or(self, given: Real) -> Real:
        """Return the δ of the clause or of the caller; 0 is what a caller says who does not say it."""
        if self.delta is not None and exact("delta", given) == 0:
            return self.delta
        return self._agreed("delta", given, self.delta)

    def _agreed(self, name: str, given: Real, said: Fraction | None) -> Real:
        if said is not None and exact(name, given) != said:
            raise InvalidParameter(
                f"the query's OPTIONS say {name} = {decimal(said)}, and the call says {given}.", hint="say it once"
            )
        return given


def prepare(sql: Any, dialect: object, tables: Sequence[TableSchema]) -> Prepared:
    """Take off what stands in a query beside it, apply it, and put the rest into DuckDB's spelling.

    Raises:
        UnsupportedQuery, InvalidParameter: a form that is not supported, or one that would weaken the owner's policy.
    """
    options = None
    if isinstance(sql, str) and dialect in DIALECTS and SIGNS.search(sql):
        sql, options = take_off(sql, str(dialect))
    if options is not None:
        few = _least(options)
        own, tables = tables, [_tightened(t, options).with_people(few) for t in tables]
        _check_unit(options.get("PRIVACY_UNIT_COLUMN"), own)
    said = options or {}
    return Prepared(
        sql if dialect == "duckdb" else as_duckdb(sql, dialect, tables),
        tuple(tables),
        positive("epsilon", said["EPSILON"]) if "EPSILON" in said else None,
        probability("delta", said["DELTA"]) if "DELTA" in said else None,
        options is not None,
        said.get("GROUP_SELECTION_STRATEGY", "").upper() == "PUBLIC_GROUPS",
    )


def refuse_clause() -> Never:
    """Refuses the clause in one query of several that share a price."""
    raise UnsupportedQuery(
        f"WITH {CLAUSES[0]} stands in a query of its own: a batch has one price and one policy.",
        hint="leave it out, and give epsilon to batch()",
    )


_CAPS = ("MAX_GROUPS_CONTRIBUTED", "MAX_ROWS_CONTRIBUTED")


def _tightened(table: TableSchema, options: dict[str, str]) -> TableSchema:
    """Return the table under the caps that the query asks for."""
    unit, caps = table.unit, table.unit.caps
    asked = [options.get(option) for option in _CAPS]
    if table.public or asked == [None, None]:
        return table
    if caps is None:
        option = next(o.lower() for o, given in zip(_CAPS, asked, strict=True) if given is not None)
        raise InvalidParameter(
            f"{option} tightens a declared cap, and the owner's are chosen from the data.",
            hint="leave it out, or connect with dp.PrivacyUnit(column, max_groups=…, max_rows=…)",
        )
    for option, given, own in zip(_CAPS, asked, caps, strict=True):
        if given is not None and (not given.isdecimal() or not 0 < int(given) <= own):
            raise InvalidParameter(
                f"{option.lower()} must be a whole number from 1 to the owner's {own}, not {given:.20}.",
                hint="a query may tighten the owner's policy, and never weaken it",
            )
    if unit.is_row:
        return table
    groups, rows = (int(given) if given else None for given in asked)
    if groups is not None and groups < caps[0]:
        unit = replace(unit, max_groups=groups)
    if rows is not None and rows < caps[1]:
        unit = replace(unit, max_rows=rows)
    return replace(table, unit=unit)


def _least(options: dict[str, str]) -> int:
    """Return of how many people a shown group is at least; the owner may say more."""
    asked = options.get("MIN_PRIVACY_UNITS_PER_GROUP", "1")
    if not asked.isdecimal() or not 0 < int(asked) < 1 << 31:
        raise InvalidParameter(
            f"min_privacy_units_per_group must be a whole number from 1 to 2^31 − 1, not {asked:.20}.",
            hint="min_privacy_units_per_group = 10",
        )
    return int(asked)


def _check_unit(asked: str | None, tables: Sequence[TableSchema]) -> None:
    """Check that the unit is the owner's."""
    if asked is None:
        return
    units = {t.unit.column for t in tables if not t.public and t.reached is None}
    named = asked.rpartition(".")[2].lower()
    if named not in {u.lower() for u in units if u is not None}:
        who = "each row" if units == {None} else " or ".join(sorted(repr(u) for u in units if u is not None))
        raise InvalidParameter(
            f"privacy_unit_column says {asked!r:.60}, and the owner protects {who}.",
            hint="leave it out: who is protected is the owner's to say",
        )
