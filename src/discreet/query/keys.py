"""The groups of a query: public lists of keys, or keys that have to be selected privately."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from discreet.catalog.schema import MOST_KEYS, Fact, Scalar, Values, domain_values
from discreet.catalog.types import Type
from discreet.errors import InvalidParameter, UnsupportedQuery
from discreet.query.expr import Call, Column, Expr, Literal, applied, columns_of, walk
from discreet.query.functions import FUNCTIONS
from discreet.query.functions.calendar import moment_at
from discreet.query.narrowing import narrowed, passing
from discreet.query.ranges import range_of


@dataclass(frozen=True, slots=True)
class JointKeys:
    """Keys whose values are listed together.

    Attributes:
        places: their places among the keys.
        rows: the tuples that are groups.
        some: whether rows may have other combinations of their values, so that these have to be filtered out.
    """

    places: tuple[int, ...]
    rows: tuple[tuple[Scalar, ...], ...]
    some: bool = False
    known: frozenset[tuple[Scalar, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "known", frozenset(self.rows))


@dataclass(frozen=True, slots=True)
class GroupKeys:
    """The group keys of a query.

    Attributes:
        exprs: the row-level key expressions.
        lists: for each its public values, in the order of their declaration; None when any key is undeclared, so that
            the groups have to be selected privately.
        named: for each what is declared for its output name, where something is.
        joint: keys of which not every combination of their values is a group.
        grid: the lists of public values where their combinations are too many to be shown, so that groups are selected
            privately among them.
    """

    exprs: tuple[Expr, ...]
    lists: tuple[tuple[Scalar, ...], ...] | None
    named: Mapping[Expr, Values] = field(default_factory=dict, repr=False, compare=False)
    joint: tuple[JointKeys, ...] = ()
    grid: tuple[tuple[Scalar, ...], ...] | None = None

    @property
    def count(self) -> int | None:
        """How many combinations of values there are, at least as many as groups; None when that is private."""
        return None if self.lists is None else math.prod(len(v) for v in self.lists)

    @property
    def shown(self) -> int:
        """How many groups there are, where that is public."""
        together = {p for j in self.joint for p in j.places}
        alone = [len(v) for p, v in enumerate(self.lists or ()) if p not in together]
        return math.prod([*alone, *(len(j.rows) for j in self.joint)])

    def holds(self, key: tuple[Scalar, ...]) -> bool:
        """Whether a group may be shown: its values are together in the lists of those that are listed together, or one
        is NULL.
        """
        parts = ((tuple(key[p] for p in j.places), j) for j in self.joint)
        return all(None in part or part in j.known for part, j in parts)

    def all(self) -> list[tuple[Scalar, ...]]:
        """Every group: each combination of the public values, of those that are listed together only these."""
        assert self.lists is not None
        if not self.joint:
            return list(itertools.product(*self.lists))
        together = {p for j in self.joint for p in j.places}
        alone = [JointKeys((p,), tuple((v,) for v in vs)) for p, vs in enumerate(self.lists) if p not in together]
        parts = sorted([*alone, *self.joint], key=lambda j: j.places)
        places = [p for j in parts for p in j.places]
        order = [places.index(p) for p in range(len(places))]
        found = ([v for row in rows for v in row] for rows in itertools.product(*(j.rows for j in parts)))
        return [tuple(row[i] for i in order) for row in found]


def find_keys(
    exprs: Sequence[Expr],
    facts: Mapping[str, Fact],
    named: Mapping[Expr, Values] | None = None,
    where: Expr | None = None,
    joint: Sequence[JointKeys] = (),
    *,
    most: int | None = None,
) -> GroupKeys:
    """Return the keys of a GROUP BY; public when each has values that are declared or follow from its expression.

    An expression over declared columns has as keys its values over all combinations of theirs, computed
    here without data. Of others the values may follow all the same (`known_values`), or are declared for the name that
    it has in the result: `named`. Those that cannot pass the filter `where` are left out, and a filter may list the
    values itself (`narrowing`). Of keys in `joint` only the listed combinations are groups. More than `most` groups
    give way to a private selection among them.
    """
    named = named or {}
    lists = [passing(e, _listed(e, facts, named[e]), where) if e in named else _passing(e, facts, where) for e in exprs]
    if any(v is None for v in lists):
        return GroupKeys(tuple(exprs), None, named)
    known = tuple(v for v in lists if v is not None)
    keys = GroupKeys(tuple(exprs), known, named, tuple(_within(j, known) for j in joint))
    if exprs and most is not None and keys.shown > most:
        return GroupKeys(tuple(exprs), None, named, keys.joint, grid=known)
    if keys.shown > MOST_KEYS and any(_declared_lists(e, facts) is None for e in exprs if e not in named):
        return GroupKeys(tuple(exprs), None, named)
    if keys.shown > MOST_KEYS:
        raise UnsupportedQuery(
            f"The declared keys have {keys.shown:,} combinations, more than {MOST_KEYS}.",
            hint="pass a δ, with which groups are selected privately; or group by fewer columns, or by coarser "
            "expressions of them",
        )
    return keys


MOST_SHOWN = 100_000
"""Declared groups that are all shown where the query has a δ; of more, those that have people are selected."""


def in_grid(keys: GroupKeys) -> list[Expr]:
    """Return the conditions under which a row has its keys among public values; NULL is a group of its own where groups
    are selected.
    """
    found: list[Expr] = []
    for expr, values in zip(keys.exprs, keys.grid or (), strict=bool(keys.grid)):
        known = [v for v in values if v is not None]
        numbers = [v for v in known if isinstance(v, int) and not isinstance(v, bool)]
        if known and len(numbers) == len(known) == max(numbers, default=0) - min(numbers, default=1) + 1:
            ends = (min(numbers), max(numbers))
            inside = [_call(op, expr, Literal(end, expr.type)) for op, end in zip((">=", "<="), ends, strict=True)]
            within: Expr = Call("and", tuple(inside), Type.BOOL)
        else:
            listed = [Literal(v, expr.type) for v in known]
            within = _call("in", expr, *listed) if listed else Literal(False, Type.BOOL)
        found.append(Call("or", (within, _call("is null", expr)), Type.BOOL))
    return found


def _call(name: str, *args: Expr) -> Expr:
    return Call(name, args, Type.BOOL)


def _within(joint: JointKeys, lists: Sequence[tuple[Scalar, ...]]) -> JointKeys:
    """Return the listed combinations of values that are in the lists, in their order; and, where each may be NULL, that
    of a row that an outer join leaves without them.
    """
    places = [{v: i for i, v in enumerate(lists[p])} for p in joint.places]
    rows = [r for r in joint.rows if all(v in at for v, at in zip(r, places, strict=True))]
    nothing = (None,) * len(places)
    if not joint.some and all(None in at for at in places) and nothing not in rows:
        rows.append(nothing)
    return replace(joint, rows=tuple(sorted(rows, key=lambda r: [at[v] for v, at in zip(r, places, strict=True)])))


def sort_key(key: Sequence[Scalar]) -> list[tuple[int, float, str]]:
    """Return an order of keys that depends on nothing but their values: NULL last."""
    return [_rank(v) for v in key]


def _rank(value: Scalar) -> tuple[int, float, str]:
    if value is None:
        return (2, 0.0, "")
    if isinstance(value, int | float):
        return (0, float(value), str(value))
    return (1, 0.0, str(value))


def domain(expr: Expr, facts: Mapping[str, Fact], most: int) -> tuple[Scalar, ...] | None:
    """Return the values of an expression over all combinations of its columns' declared ones; None when any is
    undeclared, or there are more than `most` combinations.
    """
    lists = _declared_lists(expr, facts)
    if inexact_in(expr) is not None:
        return None
    return None if lists is None or math.prod(map(len, lists)) > most else _image(expr, lists)


def _passing(expr: Expr, facts: Mapping[str, Fact], where: Expr | None) -> tuple[Scalar, ...] | None:
    """Return the values of a key that pass the filter."""
    if isinstance(expr, Column) and expr.type is Type.INT and not isinstance(facts.get(expr.name), Values):
        declared = range_of(expr, facts)
        low, high = narrowed(expr, declared, where)
        if (low, high) != declared and high - low < MOST_KNOWN:
            return passing(expr, tuple(range(math.ceil(low), math.floor(high) + 1)), where)
    return passing(expr, _values(expr, facts), where)


def _values(expr: Expr, facts: Mapping[str, Fact]) -> tuple[Scalar, ...] | None:
    lists = _declared_lists(expr, facts)
    if lists is None:
        return known_values(expr, facts)
    inexact = inexact_in(expr)
    if inexact is not None and (known := known_values(expr, facts)) is not None:
        return known
    if inexact is not None:
        raise UnsupportedQuery(
            f"A key over declared values cannot pass through {inexact.upper()}: its last digit depends on the machine.",
            hint="group by the column itself, or by CASE WHEN x < 10 THEN … or width_bucket(x, 0, 100, 10)",
        )
    if math.prod(map(len, lists)) > MOST_KEYS:
        raise UnsupportedQuery(
            f"An expression in GROUP BY has more than {MOST_KEYS} combinations of declared values.",
            hint="group by fewer columns in one expression",
        )
    return _image(expr, lists)


def _listed(expr: Expr, facts: Mapping[str, Fact], fact: Values) -> tuple[Scalar, ...]:
    """Return the values that are declared for the output name of a key.

    Raises:
        InvalidParameter: they are of another type, or go beyond those that are known of it.
    """
    if expr.type is not fact.type and (expr.type, fact.type) != (Type.REAL, Type.INT):
        kind = "NULL" if expr.type is None else expr.type.word
        raise InvalidParameter(
            f"{fact!r:.60} is declared for a key that is {kind}.",
            hint="declare values of its type, or CAST the key to theirs",
        )
    known = _values(expr, facts)
    if known is not None and not set(fact.values) <= set(known):
        raise InvalidParameter(
            f"{fact!r:.60} is declared for a key, and some are not among the values that are known of it.",
            hint="leave these out, or declare more values of its columns",
        )
    return tuple(dict.fromkeys(_plain(v, expr.type) for v in fact.values))


def inexact_in(expr: Expr) -> str | None:
    """Return a function in the tree whose value here may differ from the database's in the last bit."""
    return next((e.name for e in walk(expr) if isinstance(e, Call) and FUNCTIONS[e.name].inexact), None)


def _declared_lists(expr: Expr, facts: Mapping[str, Fact]) -> list[tuple[Scalar, ...]] | None:
    names = columns_of(expr)
    domains = [domain_values(facts.get(n)) for n in names]
    return [d for d in domains if d is not None] if names and None not in domains else None


def _image(expr: Expr, lists: Sequence[tuple[Scalar, ...]]) -> tuple[Scalar, ...]:
    names = columns_of(expr)
    if isinstance(expr, Column):
        return tuple(dict.fromkeys(_plain(v, expr.type) for v in lists[0]))
    found = (expr.of_row(dict(zip(names, values, strict=True))) for values in itertools.product(*lists))
    distinct = list(dict.fromkeys(_plain(v, expr.type) for v in found))
    return tuple(
        distinct if len(names) == 1 and len(distinct) == len(lists[0]) else sorted(distinct, key=lambda v: _rank(v))
    )


MOST_KNOWN = 5_000
"""Values that may follow from one expression; groups of more have to be declared, or selected privately."""


def known_values(expr: Expr, facts: Mapping[str, Fact]) -> tuple[Scalar, ...] | None:
    """Return all values that an expression can have, NULL among them, as they follow from its form and from what is
    declared; None where they do not, or are too many.

    A row with another value, of a column beyond its declared range, is in no group.
    """
    found = _known(expr, facts)
    return None if found is None or len(found) > MOST_KNOWN else tuple(sorted(found, key=lambda v: _rank(v)))


def _known(expr: Expr, facts: Mapping[str, Fact]) -> dict[Scalar, None] | None:
    match expr:
        case Literal(value, _):
            return {value: None}
        case Column(name, _) if (declared := domain_values(facts.get(name))) is not None:
            return dict.fromkeys(declared)
        case Call("case", args, _):
            return _union([_known(a, facts) for a in (*args[1::2], args[-1])])
        case Call("coalesce", args, _):
            found = _union([_known(a, facts) for a in args])
            last = _known(args[-1], facts)
            return found if found is None or (last and None in last) else {v: None for v in found if v is not None}
        case Call("nullif", (first, _), _):
            return _union([_known(first, facts), {None: None}])
        case Call("is null" | "same", _, _):
            return {False: None, True: None}
        case Call("dayname" | "monthname" as name, _, _):
            days = (dt.date(2001, 1 + i % 12, 1 + i) for i in range(28))
            return {**dict.fromkeys(applied(name, [d], Type.TEXT) for d in days), None: None}
    if isinstance(expr, Call) and (computed := _computed(expr, facts)) is not None:
        return computed
    if expr.type is Type.BOOL:
        return {False: None, True: None, None: None}
    return _between(expr, facts)


def _computed(call: Call, facts: Mapping[str, Fact]) -> dict[Scalar, None] | None:
    """Return the values of a function over all combinations of its arguments' values."""
    if FUNCTIONS[call.name].inexact:
        return None
    lists = [_known(a, facts) for a in call.args]
    given = [v for v in lists if v is not None]
    if len(given) < len(lists) or math.prod(map(len, given)) > MOST_KNOWN:
        return None
    literals = ([Literal(v, a.type) for v in values] for a, values in zip(call.args, given, strict=True))
    found = (replace(call, args=args).of_row({}) for args in itertools.product(*literals))
    return dict.fromkeys(_plain(v, call.type) for v in found)


def _between(expr: Expr, facts: Mapping[str, Fact]) -> dict[Scalar, None] | None:
    """Return the whole numbers, or the dates and times of a calendar's unit, between the bounds of an expression."""
    unit = expr.name.removeprefix("trunc_") if isinstance(expr, Call) and expr.name.startswith("trunc_") else "day"
    cut = isinstance(expr, Call) and (expr.name in (f"trunc_{unit}", "as date") or _is_of_days(expr))
    of = expr.children[0] if cut else expr
    low, high = range_of(of, facts)
    if math.isinf(low) or math.isinf(high):
        return None
    if expr.type is Type.INT and high - low < MOST_KNOWN:
        return {**dict.fromkeys(range(math.ceil(low), math.floor(high) + 1)), None: None}
    step = _STEPS[unit]
    if of.type not in (Type.DATE, Type.TIMESTAMP) or not (cut or expr.type is Type.DATE):
        return None
    first, last = moment_at(low, up=True), moment_at(high, up=False)
    if first is None or last is None or (last - first) / step > _MOST_STEPS:
        return None
    moments = [first + i * step for i in range((last - first) // step + 1)] + [last]
    name, more = (expr.name, expr.args[1:]) if isinstance(expr, Call) and cut else ("as date", ())
    kind = expr.type or Type.TEXT
    return {**dict.fromkeys(applied(name, [m, *(a.of_row({}) for a in more)], kind) for m in moments), None: None}


def _is_of_days(call: Call) -> bool:
    """Whether a text of a date is the same all day: STRFTIME of years, months and days alone."""
    if call.name != "strftime" or not isinstance(call.args[1], Literal):
        return False
    return set(re.findall("%-?(.)", str(call.args[1].value))) <= set("YymdbBaAjuwUWVG%")


_MOST_STEPS = 100_000
_STEPS = {
    **dict.fromkeys(("year", "quarter", "month"), dt.timedelta(days=28)),
    **dict.fromkeys(("week", "day"), dt.timedelta(days=1)),
    **{unit: dt.timedelta(**{f"{unit}s": 1}) for unit in ("hour", "minute", "second")},
}
"""Steps of which at least one falls into each year, month and so on."""


def _union(found: Sequence[dict[Scalar, None] | None]) -> dict[Scalar, None] | None:
    known = [values for values in found if values is not None]
    return {v: None for values in known for v in values} if len(known) == len(found) else None


def _plain(value: Scalar, kind: Type | None) -> Scalar:
    return float(value) + 0.0 if kind is Type.REAL and isinstance(value, int | float) else value
