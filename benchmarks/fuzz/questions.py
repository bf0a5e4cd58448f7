"""Random questions: a FROM clause, aggregates of every kind, groups of every kind, and what is made of the answer."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from benchmarks.fuzz.dialects import LANGUAGES
from benchmarks.fuzz.functions import DUCKDB, Language, Name, Writer
from benchmarks.fuzz.relations import Relations, Source
from benchmarks.fuzz.worlds import Shape
from discreet.privacy.unit import Relation

_ONE = (
    *("SUM", "AVG", "MEAN") * 3, "VAR_POP", "VAR_SAMP", "VARIANCE", "STDDEV_POP", "STDDEV_SAMP", "STDDEV",
)  # fmt: skip
_TWO = (
    *("COVAR_POP", "COVAR_SAMP", "CORR", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2", "REGR_COUNT", "REGR_AVGX"),
    *("REGR_AVGY", "REGR_SXX", "REGR_SXY", "REGR_SYY"),
)
_SPREAD = (
    *("MEDIAN({v})", "MIN({v})", "MAX({v})", "QUANTILE_CONT({v}, 0.25)", "QUANTILE_DISC({v}, 0.75)"),
    *("QUANTILE({v}, 0.5)", "APPROX_QUANTILE({v}, 0.9)", "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY {v})"),
    *("PERCENTILE_DISC(0.1) WITHIN GROUP (ORDER BY {v} DESC)", "MODE({m})", "MODE() WITHIN GROUP (ORDER BY {m})"),
)
_SEVERAL = (
    *("HISTOGRAM({m})", "HISTOGRAM({v}, [2.5, 0, 1])", "HISTOGRAM({v}, range(0, 9, 3))", "APPROX_TOP_K({m}, 2)"),
    *("QUANTILE_CONT({v}, [0.25, 0.5])", "QUANTILE_DISC({v}, [0, 1])", "APPROX_QUANTILES({v}, 4)"),
    "PERCENTILE_CONT(ARRAY[0.1, 0.5]) WITHIN GROUP (ORDER BY {v} DESC)",
)
_OF_MOMENTS = (
    *("MIN({d})", "MAX({d})", "MEDIAN({d})", "QUANTILE_CONT({d}, 0.3)", "MODE({d})", "QUANTILE_DISC({d}, [0.1, 0.9])"),
    *("HISTOGRAM({d}, [DATE '2023-06-01', '2024-01-01'])", "APPROX_TOP_K({d}, 2)"),
)
_NARROW = "greatest({k} '2024-02-29', least({k} '{h}', {m}))"
"""Few enough days or seconds for each to have a count of its own."""
_COUNTED = ("MODE({d})", "APPROX_TOP_K({d}, 2)")
_CLAMPS = (("2023-01-01", "2024-12-31"), ("2024-02-29", "2024-02-29"), ("0001-01-01", "9999-12-31"))
_DEEP = (52, 38, 9, 1)
_FLAT = (75, 22, 3, 0)
"""How often FROM nests that deep: what costs most is asked least."""
_HOW: Mapping[str, int] = {
    "count": 28, "one": 20, "two": 6, "distinct": 9, "shape": 9, "several": 7, "moment": 8, "truth": 7, "within": 6,
}  # fmt: skip
"""How often which aggregates are written: the texts of moments are long, as they write their arguments many times."""
_ADDS: Mapping[str, int] = {"count": 45, "one": 40, "two": 15}
_ADD_UP = ("COUNT of x", "SUM", "AVG", "STDDEV", "VAR", "CO", "REGR")
"""How the names of aggregates in other spellings begin that mostly add up over groups."""
_PLAIN = ("SUM", "AVG", "MEAN")
"""Aggregates that read their argument once."""
_ONCE = ("SUM", "AVG", "MIN", "MAX", "PERCENTILE", "MEDIAN")
"""How the names of such aggregates in other spellings begin."""
_TRUTH = ("COUNT_IF", "BOOL_OR", "BOOL_AND", "EVERY")
_WRONG = (
    "SELECT * FROM {f}", "SELECT {x} FROM {f}", "SELECT DISTINCT {x} FROM {f}", "SELECT COUNT(*) FROM nowhere",
    "SELECT COUNT(*) FROM {f} WHERE {x} = ?", "SELECT COUNT(*), nofunction({x}) FROM {f}",
    "SELECT COUNT(*) FROM {f} WHERE now() > {x}", "SELECT STRING_AGG({x}, ',') FROM {f}",
    "SELECT SUM({x}) FROM {f} a, {f} b", "SELECT COUNT(*) FROM {f} WHERE {x} = (SELECT 1)", "",
    "SELECT COUNT(*) OVER () FROM {f}", "DELETE FROM {f}", "SELECT COUNT(*) FROM {f}; SELECT 1", "SELECT",
    "SELECT COUNT(*) FROM {f} a JOIN {f} b ON a.{x} < b.{x}", "SELECT COUNT(*) FROM {f} LIMIT {x}",
    "SELECT COUNT(*) FROM {f} WHERE {x} IN (SELECT {x} FROM {f}) OR TRUE", "SELECT LIST({x}) FROM {f}",
    "SELECT COUNT(*) FROM (SELECT {x}, COUNT(*) AS n FROM {f} GROUP BY {x} HAVING n > 1)",
)  # fmt: skip


_OVER = (
    "SELECT AVG(m0) AS a, MAX(m0) AS b FROM ({inner}) r",
    "WITH r AS ({inner}) SELECT *, m0 / SUM(m0) OVER () AS share FROM r",
    "WITH r AS ({inner}) SELECT COUNT(*) AS n FROM r WHERE m0 > 1",
    "WITH r AS ({inner}) SELECT m0, RANK() OVER (ORDER BY m0 DESC) AS place FROM r ORDER BY place",
    "WITH r AS ({inner}) SELECT m0 / (SELECT COUNT(*) FROM {t}) AS part FROM r",
    "WITH r AS ({inner}), s AS (SELECT COUNT(*) AS n FROM {t}) SELECT m0, n FROM r, s",
)

WRONG = "wrong on purpose"
"""The construct of questions that are mostly to be refused, and so are not counted towards the hits of any."""

PRIVATE_GROUPS = "private groups"
"""The construct of groups that are selected privately."""

_MADE_BY: Mapping[str, str] = {
    "query over results": "over_results",
    "ROW_NUMBER quantile": "ranked",
    "result fed back": "fed_back",
    "list fed back": "fed_back",
    "join from the public side": "towards_people",
    "sets of groups": "sets_of_groups",
    "public n": "size",
}
"""Constructs that a method of `_Asker` writes, where the tables allow them."""

_TRIES = 300  # questions that are written for one that has a construct

_LONG = 150  # characters, beyond which most questions are written anew: what costs most is asked least


@dataclass(frozen=True, slots=True)
class Question:
    """A text, the constructs that stand in it, and whether its groups are perhaps selected privately."""

    sql: str
    constructs: tuple[str, ...]
    dialect: str = "duckdb"
    needs_delta: bool = False


def random_question(rng: Random, shape: Shape, wanted: str = "", how: str = "") -> Question:
    """A question of a shape's tables, a third in another spelling; about one in ten is wrong on purpose. With `wanted`
    many are written, and one that has this construct is asked, or the last one. With `how` a method of `_Asker` writes
    it.
    """
    for _ in range(_TRIES if wanted else 0):
        found = random_question(rng, shape, how=_MADE_BY.get(wanted, "ask"))
        if wanted in found.constructs:
            return found
    language = DUCKDB
    if how in ("", "ask") and rng.random() < 0.33:
        language = LANGUAGES[rng.choices(list(LANGUAGES), list(map(_wide, LANGUAGES.values())))[0]]
    while True:
        found = _question(Writer(rng, language), shape, how)
        if len(found.sql) <= (_LONG if language.is_own else 2 * _LONG) or rng.random() < 0.1:
            return found


def _question(writer: Writer, shape: Shape, how: str = "") -> Question:
    rng, name = writer.rng, writer.language.name
    writer.use(*([] if writer.language.is_own else [f"dialect {name}"]))
    if rng.random() < 0.03:
        table = rng.choice(shape.tables)
        text = rng.choice(_WRONG).replace("{f}", table.name)
        text = text.replace("{x}", rng.choice(list(table.columns)))
        return Question(text, (WRONG,), name)
    asker = _Asker(writer, Relations(writer, shape))
    if not how:
        how = rng.choices(list(_ASKERS), list(_ASKERS.values()))[0] if writer.language.is_own else "ask"
    text = getattr(asker, how)()
    needs_delta = PRIVATE_GROUPS in writer.used
    if rng.random() < 0.05:
        writer.used, text = ["changed text"], _changed(rng, text)  # which others are left in it is not known
    return Question(text, tuple(dict.fromkeys(writer.used)), name, needs_delta)


_ASKERS: Mapping[str, int] = {
    "ask": 84, "over_results": 6, "ranked": 4, "fed_back": 3, "towards_people": 1, "sets_of_groups": 1, "size": 1,
}  # fmt: skip
"""How often which method of `_Asker` writes a question."""


def _wide(language: Language) -> float:
    """Languages with many spellings are asked more often than in proportion: what they are compared in has most."""
    return math.pow(sum(map(len, language.templates.values())), 1.4)


class _Asker:
    """Writes the outermost SELECT."""

    __slots__ = ("made", "relations", "source", "w")

    def __init__(self, writer: Writer, relations: Relations) -> None:
        self.w = writer
        self.relations = relations
        self.source: Source
        self.made = 0  # how many constructs stand in the source

    def ask(self) -> str:
        w, r = self.w, self.relations
        self.source = r.some(w.rng.choices((0, 1, 2, 3), _DEEP if w.language.is_own else _FLAT)[0])
        self.made = len(w.used)
        where = r.where(self.source) if w.chance(0.4 if w.language.is_own else 0.8) else ""
        keys = self._keys()
        sets, group = self._group(keys)
        aggregates = [self._aggregate(adds=sets and w.chance(0.95)) for _ in range(w.rng.choice((1, 1, 1, 2)))]
        items = [f"{k.text} AS g{i}" if w.chance(0.8) else k.text for i, k in enumerate(keys)]
        items += [f"{text} AS m{i}" for i, (text, _) in enumerate(aggregates)]
        answer = [*(Name(k.text, k.kind) for k in keys), *(Name(t, k) for t, k in aggregates)]
        if w.chance(0.2):
            before = len(w.used)
            text = w.expression(w.rng.choice("irnbtds"), answer, w.depth())
            if any(n.text in text for n in answer):
                w.use("expression over the answer")
                items.append(f"{text} AS o")
            else:
                w.drop(before)
        if w.chance(0.03):
            w.use("DP_INTERVAL_LOW")
            items.append("DP_INTERVAL_LOW(m0) AS low, DP_INTERVAL_HIGH(m0) AS high")
        if sets and w.language.is_own and w.chance(0.5):
            w.use("GROUPING")
            items.append(f"GROUPING({keys[0].text}) AS gr")
        if not group:
            w.rng.shuffle(items)
        tail = self._tail(answer, aggregates)
        common = f"WITH {', '.join(r.common)} " if r.common else ""
        clause = self._clause() if w.chance(0.04 if w.language.is_own else 0.15) else ""
        return f"{common}SELECT {clause}{', '.join(items)} FROM {self.source.text}{where}{group}{tail}"

    def over_results(self) -> str:
        """A query over the result of another, or over two."""
        inner = self.ask()
        w = self.w
        w.use("query over results")
        text = w.rng.choice(_OVER)
        if "{t}" in text:
            text = text.replace("{t}", w.rng.choice([t.name for t in self.relations.shape.tables if not t.public]))
        return text.replace("{inner}", inner)

    def fed_back(self) -> str:
        """A query whose rows read a result of their own."""
        inner, w = self.ask(), self.w
        names = [n for n in self.source.names if n.kind in "irtbd"]
        tables = [t.name for t in self.relations.shape.tables if not t.public]
        if not names or not tables:
            return inner
        name = w.rng.choice(names)
        of = {
            "i": "SELECT COUNT(*) FROM {t}",
            "r": "SELECT COUNT(*) / 2 FROM {t}",
            "t": "SELECT CASE WHEN COUNT(*) > 3 THEN 'a' END FROM {t}",
            "b": "SELECT COUNT(*) > 3 FROM {t}",
            "d": "SELECT CASE WHEN COUNT(*) > 3 THEN DATE '2024-01-31' END FROM {t}",
        }[name.kind].replace("{t}", w.rng.choice(tables))
        said = f"({name.text} {w.rng.choice(('<', '>=', '<>', 'IS NOT DISTINCT FROM'))} ({of}))"
        own = [(t.name, c) for t in self.relations.shape.tables for c, kind in t.columns.items()
               if not t.public and kind == name.kind and kind in "itd"]  # fmt: skip
        listed = bool(own) and w.chance(0.4)
        if listed:
            table, column = w.rng.choice(own)
            cut = w.rng.choice(("", " HAVING COUNT(*) > 1", " ORDER BY COUNT(*) DESC, 1 LIMIT 2"))
            no = w.rng.choice(("", "NOT "))
            said = f"({name.text} {no}IN (SELECT {column} FROM {table} GROUP BY {column}{cut}))"
        how = w.rng.choice(("where", "filter", "key", "sum"))
        head, found, tail = inner.partition(f" FROM {self.source.text}")
        how = "where" if not found or " SELECT " in head else how
        if how in ("where", "key"):  # of the query that was written first only the source stays
            w.drop(self.made)
        w.use("result fed back", *(["list fed back", PRIVATE_GROUPS] if listed else []))
        if how == "where":
            where = self.relations.where(self.source) if w.chance(0.3) else ""
            common = f"WITH {', '.join(self.relations.common)} " if self.relations.common else ""
            also = f"{where} AND {said}" if where else f" WHERE {said}"
            return f"{common}SELECT COUNT(*) AS m0 FROM {self.source.text}{also}"
        if how == "key":
            common = f"WITH {', '.join(self.relations.common)} " if self.relations.common else ""
            return f"{common}SELECT {said} AS g0, COUNT(*) AS m0 FROM {self.source.text} GROUP BY g0"
        added = f"COUNT(*) FILTER (WHERE {said})" if how == "filter" else f"SUM(CASE WHEN {said} THEN 2 ELSE -1 END)"
        return f"{head}, {added} AS f0{found}{tail}"

    def ranked(self) -> str:
        """A quantile that is written with ROW_NUMBER over everybody's rows."""
        w, r = self.w, self.relations
        before = len(w.used)
        self.source = r.some(w.rng.choice((0, 0, 1)))
        numbers = [n.text for n in self.source.names if n.bounded and n.kind in "ir"]
        if not numbers:
            w.drop(before)
            r.common.clear()
            return self.ask()
        w.use("ROW_NUMBER quantile")
        x, listed = w.rng.choice(numbers), [n.text for n in self.source.names if n.listed]
        key = w.rng.choice(listed) if listed and w.chance(0.5) else None
        first, by, group = ("", "", "") if key is None else (f"{key} AS k, ", f"PARTITION BY {key}", " GROUP BY k")
        where = r.where(self.source) if w.chance(0.2) else ""
        numbered = f"ROW_NUMBER() OVER ({by} ORDER BY {x}) AS nr, COUNT(*) OVER ({by}) AS n"
        rows = f"(SELECT {first}{x} AS x, {numbered} FROM {self.source.text}{where}) z"
        p = w.rng.choice(("0.25", "0.5", "0.9"))
        taken = w.rng.choice(
            (
                f"MIN(CASE WHEN nr < {p} * n THEN 9999 ELSE x END)",
                f"MIN(CASE WHEN nr >= n * {p} THEN x END)",
                f"MAX(CASE WHEN nr = CEIL({p} * n) THEN x END)",
            )
        )
        common = f"WITH {', '.join(r.common)} " if r.common else ""
        return f"{common}SELECT {'' if key is None else 'k, '}{taken} AS m0 FROM {rows}{group}"

    def towards_people(self) -> str:
        """A LEFT JOIN of people's rows to the public table, by columns of which groups are."""
        w, r = self.w, self.relations
        public = next((t for t in r.shape.tables if t.public), None)
        if public is None:
            return self.ask()
        base, self.source = r.base(public), r.owned(w.rng.choice((0, 0, 1)))
        w.use("join from the public side", PRIVATE_GROUPS)
        keys = w.rng.sample(base.names[:2], w.rng.randint(1, 2))
        texts = [n.text for n in self.source.names if n.kind == "t"]
        on = f"{w.rng.choice(texts or ['NULL'])} = {base.names[0].text}"
        on += f" AND {w.filter([*base.names, *self.source.names])}" if w.chance(0.2) else ""
        of = w.rng.choice(("COUNT({x})", "COUNT(DISTINCT {x})", "SUM({v})", "AVG({v})", "MEDIAN({v})"))
        of = of.replace("{x}", w.rng.choice(self.source.names).text)
        of = of.replace("{v}", self._bounded(long=False)) if "{v}" in of else of
        sides = f"{base.text} LEFT JOIN {self.source.text}", f"{self.source.text} RIGHT JOIN {base.text}"
        listed = ", ".join(k.text for k in keys)
        return f"{self._with()}SELECT {listed}, {of} AS m0 FROM {w.rng.choice(sides)} ON {on} GROUP BY {listed}"

    def sets_of_groups(self) -> str:
        """UNION, INTERSECT or EXCEPT of groups."""
        w, r = self.w, self.relations
        self.source = r.owned(w.rng.choice((0, 0, 1)))
        w.use("sets of groups", PRIVATE_GROUPS)
        keys = ", ".join(k.text for k in w.rng.sample(self.source.names, w.rng.randint(1, 2)))
        sides = [f"SELECT {keys} FROM {self.source.text}{r.where(self.source) if w.chance(0.7) else ''}" for _ in "ab"]
        return self._with() + w.rng.choice((" UNION ", " INTERSECT ", " EXCEPT ")).join(sides)

    def size(self) -> str:
        """How many rows a table has, each of which is a unit, and what is made of that."""
        w, r = self.w, self.relations
        if not r.shape.is_row:
            return self.ask()
        self.source = r.base(r.shape.tables[0])
        w.use(*(["public n"] if r.shape.relation is Relation.REPLACE else []))
        columns = [n.text for n in self.source.names if n.bounded and n.kind in "ir"]
        x = w.rng.choice(columns or ["1"])
        more = w.rng.choice(("", f", AVG({x}) AS m1", f", SUM({x}) AS m1", f", AVG(COALESCE({x}, 1)) AS m1"))
        return f"SELECT COUNT(*) AS m0{more} FROM {self.source.text}"

    def _with(self) -> str:
        common = self.relations.common
        return f"WITH {', '.join(common)} " if common else ""

    def _clause(self) -> str:
        """BigQuery's clause, with some of its options."""
        w, shape = self.w, self.relations.shape
        w.use("WITH DIFFERENTIAL_PRIVACY")
        units = [t.unit for t in shape.tables if t.unit is not None]
        most = w.rng.choice((shape.caps[0], max(shape.caps[0] - 1, 1), 1, shape.caps[0] + 1))
        options = [
            ("epsilon", w.rng.choice(("1", "0.25"))),
            ("delta", w.rng.choice(("0.000001", "1e-6", "0.01"))),
            ("max_groups_contributed", str(most)),
            ("privacy_unit_column", w.rng.choice(units) if units and w.chance(0.95) else "nobody"),
        ]
        said = [o for o in options if w.chance(0.6) and (units or o[0] != "privacy_unit_column")]
        w.use(*(f"option {name}" for name, _ in said))
        written = ", ".join(f"{name} = {value}" for name, value in said)
        return f"WITH DIFFERENTIAL_PRIVACY OPTIONS ({written}) " if said else "WITH DIFFERENTIAL_PRIVACY "

    def _keys(self) -> list[Name]:
        w, names = self.w, self.source.names
        listed = [n for n in names if n.listed]
        how = w.rng.choice(("none", "declared", "declared", "columns", "expressions"))
        if how == "none" or (how == "declared" and not listed):
            return []
        n = w.rng.randint(1, 2)
        if how == "declared":
            w.use("GROUP BY declared values")
            return w.rng.sample(listed, min(n, len(listed)))
        if how == "columns":
            w.use("GROUP BY columns")
            found = w.rng.sample(names, min(n, len(names)))
            w.use(*([] if all(k.listed for k in found) else [PRIVATE_GROUPS]))
            return found
        column = w.rng.choice(listed or list(names))
        found = []
        for kind, of in ((column.kind, [column]), (w.rng.choice("irtbds"), names))[:n]:
            before = len(w.used)
            key = Name(w.expression(kind, of, w.depth() if found else 1), kind)
            if any(name.text in key.text for name in names):
                found.append(key)
            else:
                w.drop(before)
        w.use(*["GROUP BY expressions", PRIVATE_GROUPS] if found else [])
        return found

    def _group(self, keys: list[Name]) -> tuple[bool, str]:
        """GROUP BY in one of its spellings; whether it adds up totals."""
        w = self.w
        if not keys:
            return False, ""
        texts = ", ".join(k.text for k in keys)
        if w.chance(0.2):
            how = w.rng.choice(("ROLLUP", "CUBE", "GROUPING SETS"))
            w.use(how)
            inside = f"({texts}), ({keys[0].text}), ()" if how == "GROUPING SETS" else texts
            return True, f" GROUP BY {how} ({inside})"
        how = w.rng.choice(("texts", "places") if w.language.name == "postgres" else ("texts", "ALL", "places"))
        w.use(f"GROUP BY {how}")
        places = ", ".join(str(i + 1) for i in range(len(keys)))
        return False, f" GROUP BY {({'texts': texts, 'ALL': 'ALL', 'places': places})[how]}"

    def _tail(self, answer: list[Name], aggregates: list[tuple[str, str]]) -> str:
        w, text = self.w, ""
        if w.chance(0.15):
            w.use("HAVING")
            text += f" HAVING {w.condition(answer)}"
        if w.chance(0.25):
            w.use("ORDER BY")
            by = w.rng.choice((aggregates[0][0], "m0", "1", *(a.text for a in answer[:1])))
            text += f" ORDER BY {by}{w.rng.choice(('', ' DESC', ' ASC NULLS FIRST'))}"
            if w.chance(0.6):
                w.use("LIMIT")
                text += f" LIMIT {w.rng.randint(0, 5)}"
                if w.chance(0.4):
                    w.use("OFFSET")
                    text += " OFFSET 1"
        return text

    def _aggregate(self, *, adds: bool) -> tuple[str, str]:
        """An aggregate, perhaps with FILTER, and the letter of its type; one that adds up over groups where it must."""
        w, names = self.w, self.source.names
        if not w.language.is_own:
            return self._spelled(adds=adds)
        weights = _ADDS if adds else _HOW
        how = w.rng.choices(list(weights), list(weights.values()))[0]
        kind = "r"
        if how == "count":
            of = w.rng.choice(("*", "1", "x", "x"))
            text, kind = f"COUNT({self._any() if of == 'x' else of})", "i"
            w.use("COUNT(*)" if "*" in text else "COUNT(x)")
        elif how == "distinct":
            units = [n.text for n in names if n.role == "unit"]
            own = bool(units) and w.chance(0.5)
            w.use("COUNT(DISTINCT unit)" if own else "COUNT(DISTINCT x)")
            text, kind = f"COUNT(DISTINCT {w.rng.choice(units) if own else self._any()})", "i"
        elif how == "one":
            name = w.rng.choice(_ONE)
            w.use(name)
            boolean = name in ("SUM", "AVG") and w.chance(0.1)
            distinct = name in ("SUM", "AVG") and not adds and not boolean and w.chance(0.15)
            if distinct:
                w.use(f"{name}(DISTINCT x)")
            value = w.condition(names) if boolean else self._bounded(name in _PLAIN or w.chance(0.08))
            text = f"{name}({'DISTINCT ' if distinct else ''}{value})"
        elif how == "two":
            name = w.rng.choice(_TWO)
            w.use(name)
            text = f"{name}({self._bounded(w.chance(0.06))}, {self._bounded(long=False)})"
        elif how == "shape":
            text = w.rng.choice(_SPREAD)
            w.use(text.split("(")[0] + (" WITHIN GROUP" if "WITHIN" in text else ""))
            text = self._of_value(text)
        elif how == "several":
            text, kind = w.rng.choice(_SEVERAL), "l"
            w.use(text.partition("(")[0] + (" of a list" if "[" in text else ""))
            text = self._of_value(text)
        elif how == "moment":
            text = w.rng.choice(_OF_MOMENTS)
            moment, kind = self._moment(narrow=text in _COUNTED and w.chance(0.8))
            w.use(text.partition("(")[0] + (" of dates" if kind == "d" else " of times"))
            text, kind = text.replace("{d}", moment), "l" if "[" in text or "TOP" in text else kind
        elif how == "truth":
            name = w.rng.choice(_TRUTH)
            w.use(name)
            text, kind = f"{name}({w.filter(names)})", "i" if name == "COUNT_IF" else "b"
        else:
            low, high = w.rng.choice(((0, 1), (0, 1), (0, 1), (-1, 1), (-2, 3)))
            name, low = ("COUNT", max(low, 0)) if w.chance(0.5) else ("SUM", low)
            value = self._bounded() if name == "SUM" else "*" if w.chance(0.5) else self._any()
            if w.chance(0.3):
                w.use(f"contribution_bounds_per_group of {name}")
                text = f"{name}({value}, contribution_bounds_per_group => ({low}, {high}))"
            else:
                w.use(f"{name}_WITHIN")
                text = f"{name}_WITHIN({value}, {low}, {high})"
        if w.chance(0.03 if how == "two" else 0.15):
            w.use("FILTER")
            text += f" FILTER (WHERE {w.filter(names)})"
        return text, kind

    def _spelled(self, *, adds: bool) -> tuple[str, str]:
        """An aggregate in another spelling."""
        w, names = self.w, self.source.names
        fitting = [a for a in w.language.aggregates if not adds or a[0].split(" ", 1)[1].startswith(_ADD_UP)]
        construct, text, kind = w.rng.choice(fitting)
        w.use(construct)
        reals = [n.text for n in names if n.bounded and n.kind == "r"]
        text = text.replace("{x}", w.rng.choice(names).text)
        text = text.replace("{u}", w.rng.choice(reals or ["GREATEST(0.5, LEAST(2.5, 1.5))"]))
        while "{v}" in text:
            text = text.replace("{v}", self._bounded(w.chance(0.15 if text.startswith(_ONCE) else 0.03)), 1)
        return w.fill(text, kind, names, w.depth()), kind

    def _of_value(self, template: str) -> str:
        """An aggregate's template over a bounded number, or over what has few values."""
        if "{m}" in template:
            return template.replace("{m}", self._whole())
        return template.replace("{v}", self._bounded())

    def _any(self) -> str:
        w = self.w
        if w.chance(0.5):
            return w.rng.choice(self.source.names).text
        return w.expression(w.rng.choice("irtbds"), self.source.names, w.depth())

    def _bounded(self, long: bool = True) -> str:
        """A number with bounds: declared ones, arithmetic of them, or a clamp of anything; of a column if not `long`,
        as what is squared and multiplied with others is written many times.
        """
        w, names = self.w, self.source.names
        columns = [n.text for n in names if n.bounded and n.kind in "ir"]
        capped = [n.text for n in names if n.capped]
        if capped and long and w.chance(0.5):
            w.use("bounds by caps")
            return w.rng.choice((w.rng.choice(capped), f"{w.rng.choice(capped)} * {w.rng.choice([*columns, '2'])}"))
        how = w.rng.choice(("column", "column", "arithmetic", "case", "clamp", "clamp")[: None if long else 2])
        if not columns and how != "clamp":
            how = "clamp"
        if how == "clamp":
            w.use("clamp")
            if not long:
                return f"greatest(0, least(3, {w.leaf('i', names)}))"
            low, high = w.rng.choice((("0", "10"), ("-1.5", "2.25"), ("0", "1"), ("-1000000", "1000000"), ("2", "2")))
            return f"greatest({low}, least({high}, {w.expression('n', names, w.depth())}))"
        one = w.rng.choice(columns)
        if how == "arithmetic":
            op, other = w.rng.choice("+-*"), w.rng.choice([*columns, "2", "0.5"])
            w.use(f"function {op}")
            return f"{one} {op} {other}"
        if how == "case":
            w.use("function case")
            return f"CASE WHEN {w.filter(names)} THEN {one} ELSE {w.rng.choice(('0', 'NULL', one))} END"
        return one

    def _whole(self) -> str:
        """What MODE takes: listed values, or a narrow range of whole numbers."""
        w, names = self.w, self.source.names
        listed = [n.text for n in names if n.listed or (n.bounded and n.kind == "i")]
        if listed and w.chance(0.8):
            return w.rng.choice(listed)
        return f"greatest(0, least(9, {w.expression('i', names, 1)}))"

    def _moment(self, *, narrow: bool) -> tuple[str, str]:
        """A date or time with bounds, and which: a column's own, or a clamp of one."""
        w, names = self.w, self.source.names
        moments = [n for n in names if n.kind in "ds"]
        if not moments:
            return "DATE '2024-02-29'", "d"
        kind = w.rng.choice(sorted({n.kind for n in moments}))  # fewer columns are times
        moments = [n for n in moments if n.kind == kind]
        one = w.rng.choice([n for n in moments if n.bounded] or moments)
        if one.bounded and not narrow and w.chance(0.7):
            return one.text, kind
        w.use("clamp of dates")
        written = "DATE" if kind == "d" else "TIMESTAMP"
        if narrow:
            high = "2024-03-15" if kind == "d" else "2024-02-29 00:02:00"
            return _NARROW.format(k=written, h=high, m=one.text), kind
        low, high = w.rng.choice(_CLAMPS)
        return f"greatest({written} '{low}', least({written} '{high}', {one.text}))", kind


_WORD = re.compile(r"\s+|\w+|'[^']*'|.", re.DOTALL)


def _changed(rng: Random, text: str) -> str:
    """The text with a word left out, written twice, or in the place of another."""
    words = _WORD.findall(text)
    if len(words) < 3:
        return text
    i, j = rng.randrange(len(words)), rng.randrange(len(words))
    how = rng.choice(("drop", "twice", "swap", "instead"))
    if how == "drop":
        words.pop(i)
    elif how == "twice":
        words.insert(i, words[i])
    elif how == "swap":
        words[i], words[j] = words[j], words[i]
    else:
        words[i] = words[j]
    return "".join(words)
