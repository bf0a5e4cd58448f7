"""How every function of the language is spelled, and random expressions of them.

In a template `{i}` stands for a whole number, `{r}` a real, `{n}` either, `{t}` text, `{d}` a date, `{s}` a time, `{m}`
either of these two, `{b}` a condition, `{c}` a small written whole number, `{p}` a written pattern of LIKE, `{g}` a
written regular expression, `{q}` a written text, `{w}` a column of whole numbers, and `{k}` for whatever type the
result has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random

_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_FINE = (*_UNITS, "millisecond", "microsecond")
_PARTS = ("year", "quarter", "month", "week", "day", "dayofweek", "dayofyear", "hour", "minute", "second")
_NAMED = ("millisecond", "microsecond", "isodow", "isoyear", "yearweek", "decade", "century")
_OF_ONE = (*("floor", "ceil", "sqrt", "ln", "log10", "exp", "cbrt"), *("sin", "cos", "tan", "asin", "acos", "atan"))

_INTS: tuple[tuple[str, str], ...] = (
    *((op, f"({{i}} {op} {{i}})") for op in ("+", "-", "*", "//", "%")),
    ("neg", "(- {i})"),
    *((f, f"{f}({{i}})") for f in ("abs", "trunc", "round")),
    ("sign", "sign({n})"),
    ("width_bucket", "width_bucket({n}, 0, 10, 5)"),
    *((f, f"{f}({{t}})") for f in ("length", "strlen", "ascii", "unicode")),
    ("unicode", "ord({t})"),
    ("strpos", "strpos({t}, {t})"),
    ("strpos", "instr({t}, 'a')"),
    *((f, f"{f}({{m}})") for f in _PARTS),
    *((f, f"date_part('{f}', {{m}})") for f in _NAMED),
    ("isodow", "extract(isodow FROM {m})"),
    *((f"diff_{u}", f"date_diff('{u}', {{s}}, {{s}})") for u in _FINE),
    *((f"sub_{u}", f"date_sub('{u}', {{m}}, {{m}})") for u in _FINE),
    ("date - date", "({d} - {d})"),
    ("as bigint", "CAST({n} AS BIGINT)"),
    ("as bigint", "TRY_CAST({t} AS INTEGER)"),
    ("as bigint", "CAST({b} AS BIGINT)"),
)
_REALS: tuple[tuple[str, str], ...] = (
    *((op, f"({{r}} {op} {{n}})") for op in ("+", "-", "*", "//", "%")),
    ("/", "({n} / {n})"),
    ("floor", "fmod({r}, {n})"),
    ("neg", "(- {r})"),
    *((f, f"{f}({{r}})") for f in ("abs", "trunc", "round")),
    ("round", "round({r}, 2)"),
    *((f, f"{f}({{n}})") for f in _OF_ONE),
    ("log10", "log({n})"),
    ("log", "log(2, {n})"),
    ("log", "log({n}, {n})"),
    ("radians", "radians({n})"),
    ("degrees", "degrees({n})"),
    ("atan2", "atan2({n}, {n})"),
    ("power", "power({n}, {c})"),
    ("power", "({r} ** {n})"),
    ("coalesce", "(pi() * {r})"),
    ("epoch", "epoch({s})"),
    ("as double", "CAST({i} AS DOUBLE)"),
    ("as double", "{t}::DOUBLE"),
    ("as double", "CAST({n} AS DECIMAL)"),
)
_TEXTS: tuple[tuple[str, str], ...] = (
    *((f, f"{f}({{t}})") for f in ("lower", "upper", "trim", "ltrim", "rtrim")),
    ("trim", "trim(BOTH 'a' FROM {t})"),
    ("ltrim", "trim(LEADING 'a' FROM {t})"),
    ("||", "({t} || {t})"),
    ("||", "concat({t}, {i}, {m})"),
    ("concat_ws", "concat_ws('-', {t}, {t})"),
    ("substring", "substring({t}, {c}, {c})"),
    ("substring", "left({t}, {c})"),
    ("left", "left({t}, length({t}) - 3)"),
    ("right", "right({t}, {c})"),
    ("split_part", "split_part({t}, '-', {c})"),
    ("replace", "replace({t}, 'a', 'bb')"),
    ("lpad", "lpad({t}, 5, 'xy')"),
    ("rpad", "rpad({t}, 5)"),
    ("regexp_extract", "regexp_extract({t}, {g})"),
    ("regexp_replace", "regexp_replace({t}, {g}, 'x', 'g')"),
    ("strftime", "strftime({m}, '%Y-%m-%d %H')"),
    ("dayname", "dayname({m})"),
    ("monthname", "monthname({m})"),
    ("as varchar", "CAST({n} AS VARCHAR)"),
    ("as varchar", "{m}::VARCHAR"),
    ("as varchar", "CAST({b} AS TEXT)"),
)
_BOOLS: tuple[tuple[str, str], ...] = (
    *((op, f"({{{k}}} {op} {{{k}}})") for op in ("=", "<>", "<", "<=", ">", ">=") for k in ("n", "n", "t", "m")),
    ("same", "({n} IS NOT DISTINCT FROM {n})"),
    ("same", "({t} IS DISTINCT FROM {t})"),
    ("and", "({b} AND {b})"),
    ("and", "({n} BETWEEN {n} AND {n})"),
    ("or", "({b} OR {b})"),
    ("not", "(NOT {b})"),
    ("in", "({i} IN ({c}, {c}, NULL))"),
    ("in", "({t} NOT IN ('a', 'é'))"),
    ("is null", "({t} IS NULL)"),
    ("is null", "({n} IS NOT NULL)"),
    ("is null", "isnull({m})"),
    ("coalesce", "({b} IS TRUE)"),
    ("like", "({t} LIKE {p})"),
    ("like_escape", "({t} LIKE 'a!%b' ESCAPE '!')"),
    ("ilike", "({t} ILIKE {p})"),
    ("starts_with", "starts_with({t}, {t})"),
    ("starts_with", "prefix({t}, 'a')"),
    ("ends_with", "suffix({t}, {t})"),
    ("ends_with", "ends_with({t}, 'b')"),
    ("contains", "contains({t}, {t})"),
    ("regexp_matches", "regexp_matches({t}, {g})"),
    ("regexp_full_match", "regexp_full_match({t}, {g})"),
    ("regexp_full_match", "({t} SIMILAR TO {g})"),
    ("as boolean", "CAST({i} AS BOOLEAN)"),
    ("as boolean", "TRY_CAST({t} AS BOOLEAN)"),
)
_DATES: tuple[tuple[str, str], ...] = (
    ("make_date", "make_date({i}, {c}, {c})"),
    ("last_day", "last_day({d})"),
    ("date + days", "({d} + {i})"),
    ("days + date", "({c} + {d})"),
    ("date - days", "({d} - {c})"),
    ("as date", "CAST({t} AS DATE)"),
    ("as date", "CAST({s} AS DATE)"),
)
_TIMES: tuple[tuple[str, str], ...] = (
    *((f"trunc_{u}", f"date_trunc('{u}', {{m}})") for u in _UNITS),
    ("add_months", "({m} + INTERVAL 3 MONTH)"),
    ("add_months", "({m} - INTERVAL ({i}) YEAR)"),
    ("add_days", "({s} + INTERVAL ({i}) DAY)"),
    ("add_days", "(INTERVAL '1 week' + {m})"),
    ("add_microseconds", "({m} + INTERVAL ({i}) HOUR)"),
    ("add_microseconds", "({s} - INTERVAL '1 year 2 minutes')"),
    ("as timestamp", "CAST({t} AS TIMESTAMP)"),
    ("as timestamp", "CAST({d} AS TIMESTAMP)"),
)
_ANY: tuple[tuple[str, str], ...] = (
    ("case", "CASE WHEN {b} THEN {k} ELSE {k} END"),
    ("case", "CASE {n} WHEN {n} THEN {k} END"),
    ("case", "if({b}, {k}, {k})"),
    ("coalesce", "coalesce({k}, {k})"),
    ("coalesce", "ifnull({k}, {k})"),
    ("nullif", "nullif({k}, {k})"),
)
_NUMBERS: tuple[tuple[str, str], ...] = (("least", "least({k}, {k})"), ("greatest", "greatest({k}, {k})"))
TEMPLATES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "i": (*_INTS, *_ANY, *_NUMBERS),
    "r": (*_REALS, *_ANY, *_NUMBERS),
    "t": (*_TEXTS, *_ANY),
    "b": (*_BOOLS, *_ANY),
    "d": (*_DATES, *_ANY),
    "s": (*_TIMES, *_ANY),
}
"""Letter of the result → (name of the function, template)."""

WRITTEN: Mapping[str, tuple[str, ...]] = {
    "i": ("0", "1", "2", "3", "-1", "7", "9223372036854775807", "NULL"),
    "r": ("0.0", "0.5", "-1.5", "2.25", "1e20", "0.1"),
    "t": ("'a'", "'b'", "''", "'é'", "'it''s'", "'2.5'", "'2024-02-29'"),
    "b": ("TRUE", "FALSE"),
    "d": ("DATE '2024-02-29'", "DATE '1969-12-31'", "DATE '9999-12-31'"),
    "s": ("TIMESTAMP '2024-02-29 13:45:59'", "TIMESTAMP '0001-01-01 00:00:00'"),
    "c": ("0", "1", "2", "5", "12", "-1"),
    "p": ("'a%'", "'%é'", "'_'", "'%'", "'%a_b%'", "''"),
    "g": ("'a'", "'^[a-c]+$'", "'\\d{2,4}|\\s\\w'", "'(a|-)+'", "'.'", "'x+'"),
}
CASTS: Mapping[str, tuple[str, ...]] = {
    "i": ("CAST({r} AS BIGINT)", "length({t})", "CAST({b} AS BIGINT)", "year({d})", "month({s})"),
    "r": ("CAST({i} AS DOUBLE)", "CAST({t} AS DOUBLE)", "epoch({s})", "epoch({d})", "CAST({b} AS DOUBLE)"),
    "t": tuple(f"CAST({{{k}}} AS VARCHAR)" for k in "irbds"),
    "b": ("({i} > 1)", "({r} < 1)", "({t} = 'a')", "({d} > DATE '2020-01-01')", "({s} > DATE '2020-01-01')"),
    "d": ("make_date(2024, {i}, 1)", "CAST({s} AS DATE)", "CAST({t} AS DATE)"),
    "s": ("CAST({d} AS TIMESTAMP)", "CAST({t} AS TIMESTAMP)", "(TIMESTAMP '2024-01-01 00:00:00' + INTERVAL ({i}) DAY)"),
}


@dataclass(frozen=True, slots=True)
class Language:
    """One spelling of the language.

    Attributes:
        name: as `dialect=` takes it.
        templates: letter of the result → (construct, template).
        written: letter → constants.
        casts: letter → how a name of another type is read as it.
        aggregates: (construct, template, letter of the result); none where the asker knows them itself.
        joins, public_joins: how tables of people are joined, and a public one to them.
    """

    name: str
    templates: Mapping[str, tuple[tuple[str, str], ...]]
    written: Mapping[str, tuple[str, ...]]
    casts: Mapping[str, tuple[str, ...]]
    aggregates: tuple[tuple[str, str, str], ...] = ()
    joins: tuple[str, ...] = ()
    public_joins: tuple[str, ...] = ()

    weights: Mapping[str, tuple[float, ...]] = field(init=False)

    def __post_init__(self) -> None:
        """Constructs with many templates are written with none of them much more often than others."""
        often = Counter(c for found in self.templates.values() for c, _ in found)
        weights = {k: tuple(accumulate(often[c] ** -0.8 for c, _ in t)) for k, t in self.templates.items()}
        object.__setattr__(self, "weights", weights)

    @property
    def is_own(self) -> bool:
        """Whether it is DuckDB's."""
        return self.name == "duckdb"


DUCKDB = Language(
    "duckdb",
    {letter: tuple((f"function {name}", t) for name, t in found) for letter, found in TEMPLATES.items()},
    WRITTEN,
    CASTS,
    joins=(*("JOIN", "INNER JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN", ","),),
    public_joins=("JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN", "CROSS JOIN", ","),
)
_PLACE = re.compile(r"\{(\w)\}")


@dataclass(frozen=True, slots=True)
class Name:
    """Something that an expression may read: its text, the letter of its type, whether its bounds are declared, and
    what it tells of the unit ("unit", or "key …", "link …" of a declared foreign key), and whether the contribution
    bounds bound it.
    """

    text: str
    kind: str
    bounded: bool = False
    role: str = ""
    listed: bool = False
    capped: bool = False

    @property
    def column(self) -> str:
        """The column's own name."""
        return self.text.split(".")[-1]


@dataclass(slots=True)
class Writer:
    """Writes random expressions, and keeps the constructs that it used."""

    rng: Random
    language: Language = DUCKDB
    used: list[str] = field(default_factory=list)

    def use(self, *constructs: str) -> None:
        """Notes constructs of what is written."""
        self.used.extend(constructs)

    def drop(self, since: int) -> None:
        """Forgets the constructs after the first `since`: what they were noted for is not in the question."""
        del self.used[since:]

    def chance(self, share: float) -> bool:
        """Whether something of this probability happens."""
        return self.rng.random() < share

    def depth(self) -> int:
        """How deep an expression nests: functions of functions are long texts, and asked least."""
        return self.rng.choices((0, 1, 2), (30, 62, 8))[0]

    def expression(self, kind: str, names: Sequence[Name], depth: int) -> str:
        """An expression of the type with this letter, over these names."""
        if kind == "n":
            kind = "i" if self.chance(0.5) else "r"
        elif kind == "m":
            kind = "d" if self.chance(0.5) else "s"
        if kind in "cpgq":
            return self.rng.choice(self.language.written[kind])
        if kind == "w":
            whole = [n.text for n in names if n.kind == "i"]
            return self.rng.choice(whole or self.language.written["i"])
        if depth <= 0 or self.chance(0.1):
            return self.leaf(kind, names)
        templates, weights = self.language.templates[kind], self.language.weights[kind]
        construct, template = self.rng.choices(templates, cum_weights=weights)[0]
        self.use(construct)
        return self.fill(template, kind, names, depth - 1)

    def fill(self, template: str, kind: str, names: Sequence[Name], depth: int) -> str:
        """A template with random arguments in its places; one of them may be deep, in other spellings all."""
        deep = self.rng.randint(0, 2)
        place = -1

        def argument(match: re.Match[str]) -> str:
            nonlocal place
            place += 1
            wanted = kind if match[1] == "k" else match[1]
            return self.expression(wanted, names, depth if place == deep or not self.language.is_own else 0)

        return _PLACE.sub(argument, template)

    def leaf(self, kind: str, names: Sequence[Name]) -> str:
        """A name of that type, or a constant."""
        fitting = [n.text for n in names if n.kind == kind]
        if fitting and not self.chance(0.1):
            return self.rng.choice(fitting)
        if names and self.chance(0.8):
            return self._read_as(kind, self.rng.choice(names))
        return self.rng.choice(self.language.written[kind])

    def _read_as(self, kind: str, name: Name) -> str:
        """A name of another type, cast."""
        found = [t for t in self.language.casts[kind] if f"{{{name.kind}}}" in t]
        if not found:
            return self.rng.choice(self.language.written[kind])
        return found[0].replace(f"{{{name.kind}}}", name.text)

    def condition(self, names: Sequence[Name]) -> str:
        """A condition that reads a name, where there is one."""
        return self.expression("b", names, (2 if self.chance(0.15) else 1) if self.language.is_own else 2)

    def filter(self, names: Sequence[Name]) -> str:
        """A condition that more rows meet: most random ones are false or NULL."""
        found = self.condition(names)
        return f"({found} IS NOT TRUE)" if self.chance(0.65) else found
