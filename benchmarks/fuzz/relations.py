"""Random FROM clauses: joins of every kind, subqueries, unions, windows, and what may be read from them.

Most of what is written here belongs to people as the language demands; `slip` is the chance that a rule is broken, so
that refusals are asked for too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.fuzz.functions import Name, Writer
from benchmarks.fuzz.worlds import Shape, Table
from discreet.catalog.schema import Range, Values

_WINDOWS = (
    "row_number() {over}", "rank() {over}", "dense_rank() {over}", "count(*) {over}", "count({x}) {over}",
    "sum({i}) {over}", "min({n}) {over}", "max({x}) {over}", "lag({x}) {over}", "lead({x}, 2) {over}",
    "lag({i}, 1, 0) {over}", "first_value({x}) {over}", "ntile(2) {over}", "last_value({x}) {over}",
    "percent_rank() {over}", "avg({i}) {over}", "cume_dist() {over}", "first_value({x}) {over}",
    "last_value({x}) {over}", "min({n}) {over}", "avg({i}) {over}", "max({x}) {over}",
)  # fmt: skip
_FRAMES = (
    "ROWS 2 PRECEDING", "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING", "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
)  # fmt: skip
_FRAMED = ("count", "sum", "min", "max", "first_value", "last_value", "avg")
_VALUES = (
    ("COUNT(*)", "i"), ("COUNT({x})", "i"), ("SUM({i})", "i"), ("AVG({n})", "r"), ("MAX({r})", "r"), ("MIN({i})", "i"),
    ("COALESCE(MAX({i}), 0) - COUNT(*)", "i"), ("COUNT(DISTINCT {x})", "i"),
)  # fmt: skip
_INNER = (
    ("COUNT(*)", "i"), ("COUNT({x})", "i"), ("COUNT(DISTINCT {x})", "i"), ("SUM({i})", "i"), ("SUM({r})", "r"),
    ("AVG({n})", "r"), ("MIN({i})", "i"), ("MAX({r})", "r"), ("MIN({t})", "t"), ("MAX({d})", "d"),
    ("BOOL_OR({b})", "b"), ("BOOL_AND({b})", "b"), ("COUNT_IF({b})", "i"),
    ("COUNT(*) FILTER (WHERE {b})", "i"), ("SUM({i}) FILTER (WHERE {b})", "i"),
    ("SUM(DISTINCT {i})", "i"), ("SUM(DISTINCT {r})", "r"), ("AVG(DISTINCT {n})", "r"),
)  # fmt: skip
_INNER_ANYWHERE = (
    ("COUNT(*)", "i"), ("COUNT({x})", "i"), ("COUNT(DISTINCT {x})", "i"), ("SUM({i})", "i"), ("AVG({n})", "r"),
    ("MIN({i})", "i"), ("MAX({r})", "r"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Source:
    """What stands behind FROM, and the names that it gives."""

    text: str
    names: tuple[Name, ...]
    public: bool = False
    joined: bool = False

    def holders(self) -> list[Name]:
        """The names that tell the unit."""
        return [n for n in self.names if n.role and not n.role.startswith("tie ")]


_LISTED = (
    "(VALUES ('a', 1), ('b', NULL), (NULL, 3)) {}(name, n)",
    "(SELECT 'a' AS name, 1 AS n UNION ALL SELECT 'b', -2 UNION ALL SELECT 'b', 3) {}",
    "(SELECT name, n FROM UNNEST(['a', 'b']) s(name), generate_series(1, 3) g(n)) {}",
)


_DATES = (
    "generate_series(DATE '2023-01-01', DATE '2024-12-01', INTERVAL 1 MONTH)",
    "generate_series(TIMESTAMP '2023-01-31', TIMESTAMP '2024-03-31', INTERVAL '1 month')",
    "range(DATE '2024-02-20', DATE '2024-03-05', INTERVAL 1 DAY)",
)


@dataclass(slots=True)
class Relations:
    """Writes the relations of one question; every alias is another."""

    writer: Writer
    shape: Shape
    slip: float = 0.03
    common: list[str] = field(default_factory=list)
    aliases: int = 0

    def alias(self, prefix: str = "a") -> str:
        """A new alias."""
        self.aliases += 1
        return f"{prefix}{self.aliases}"

    def base(self, table: Table) -> Source:
        """A table under an alias."""
        alias = self.alias()
        return Source(f"{table.name} {alias}", self._names(table, f"{alias}."), table.public)

    def owned(self, depth: int) -> Source:
        """A private relation."""
        private = [t for t in self.shape.tables if not t.public]
        if depth <= 0 or (self.shape.is_row and self.writer.chance(0.4)):
            return self.base(self.writer.rng.choice(private))
        several = len(self.shape.tables) > 1
        if self.shape.is_row and self.writer.chance(0.9 if several else 0.7):
            return self.public_join(depth - 1) if several and self.writer.chance(0.7) else self.rows(depth - 1)
        ways: list[Callable[[int], Source]] = [self.projected, self.grouped, self.union]
        if self.writer.language.is_own:
            ways += [self.windows] * 4
            ways += [self.split]
        if several:
            ways += [self.public_join] * 2
        ways += [self.join] * 3
        return self.writer.rng.choice(ways)(depth - 1)

    def some(self, depth: int) -> Source:
        """A private relation, or seldom the public table alone."""
        public = [t for t in self.shape.tables if t.public]
        if public and self.writer.chance(self.slip):
            return self.base(public[0])
        return self.owned(depth)

    def join(self, depth: int) -> Source:
        """Two private relations along the unit."""
        w = self.writer
        left = self.owned(depth)
        before = self._written()
        right = self._single(depth)
        pairs = _pairs(left, right)
        if not pairs and not w.chance(self.slip * 5):
            self._drop(before)
            return left
        one, other = w.rng.choice(pairs) if pairs else (left.names[0], right.names[0])
        if one.role.startswith("tie "):
            w.use("join along a link")
        kind = w.rng.choice(w.language.joins)
        if kind == ",":
            return self._comma(left, right, f"{one.text} = {other.text}")
        w.use(f"private {kind}")
        if not left.joined and one.column == other.column and w.chance(0.6):
            same = {(n.column, n.kind) for n in left.names} & {(n.column, n.kind) for n in right.names}
            common = {n.column for n in left.names} & {n.column for n in right.names}
            if w.language.is_own and len(same) == len(common) and w.chance(0.5):
                return self._natural(left, right, kind, common)
            return self._using(left, right, kind, one.column)
        on = f"{one.text} = {other.text}"
        if w.chance(0.4):
            w.use("further condition in ON")
            on = f"{on} AND {w.filter([*left.names, *right.names])}"
        if w.chance(0.1):
            w.use("subquery in ON")
            on = f"{on} AND {self._subquery(w.rng.choice((left, right)))}"
        return _joined(left, right, kind, f"ON {on}")

    def public_join(self, depth: int) -> Source:
        """A private relation and the public table, on anything."""
        w = self.writer
        left = self.owned(depth)
        w.use(*["public join of row units"] if self.shape.is_row else [])
        right = self.public(next(t for t in self.shape.tables if t.public))
        kind = w.rng.choice(w.language.public_joins)
        if w.chance(self.slip):
            kind = w.rng.choice(("FULL JOIN", "RIGHT JOIN", "ASOF JOIN", "POSITIONAL JOIN"))
        if kind in (",", "CROSS JOIN"):
            w.use(f"public {kind}")
            return _joined(left, right, kind, "")
        kind_of_key = right.names[0].kind
        texts = [n.text for n in left.names if n.kind == kind_of_key]
        if kind_of_key == "s":
            texts += [f"date_trunc('month', CAST({n.text} AS TIMESTAMP))" for n in left.names if n.kind in "ds"]
        if texts and w.chance(0.7):
            on = f"{w.rng.choice(texts)} = {right.names[0].text}"
        else:
            on = w.filter([*left.names, *right.names])
        if kind == "JOIN" and w.chance(0.3):
            w.use("public RIGHT JOIN towards the private side")
            found = _joined(right, left, "RIGHT JOIN", f"ON {on}")
            return replace(found, public=False, names=(*right.names, *left.names))
        w.use(f"public {kind}")
        return _joined(left, right, kind, f"ON {on}")

    def public(self, table: Table) -> Source:
        """The public table, or what is made of it."""
        w = self.writer
        base, alias = self.base(table), self.alias("r")
        if w.chance(0.6):
            return base
        name = base.names[0].text
        if w.language.is_own and w.chance(0.3):
            w.use("rows that are written out")
            listed = w.rng.choice(_LISTED).format(alias)
            return Source(listed, (Name(f"{alias}.name", "t"), Name(f"{alias}.n", "i")), True)
        if w.language.is_own and w.chance(0.2):
            w.use("dates that are written out")
            return Source(f"{w.rng.choice(_DATES)} {alias}(d)", (Name(f"{alias}.d", "s"),), True)
        if w.language.is_own and w.chance(0.3):
            w.use("public LIMIT")
            cut = f"ORDER BY factor, {name} LIMIT {w.rng.choice('012')}"
            text = f"(SELECT {name} AS name, factor AS n FROM {base.text} {cut}) {alias}"
            return Source(text, (Name(f"{alias}.name", "t"), Name(f"{alias}.n", "i")), True)
        if w.chance(0.5):
            w.use("public GROUP BY")
            text = f"(SELECT {name} AS name, COUNT(*) AS n, AVG(factor) AS f FROM {base.text} GROUP BY {name}) {alias}"
            kinds = [("name", "t"), ("n", "i"), ("f", "r")]
        else:
            w.use("public derived table")
            where = w.filter(base.names)
            text = f"(SELECT DISTINCT {name} AS name, factor AS n FROM {base.text} WHERE {where}) {alias}"
            kinds = [("name", "t"), ("n", "i")]
        return Source(text, tuple(Name(f"{alias}.{n}", k) for n, k in kinds), True)

    def projected(self, depth: int) -> Source:
        """A derived table or a common table expression: columns, expressions, DISTINCT, WHERE, subqueries."""
        w, of = self.writer, self.owned(depth)
        items, names = self._items(of)
        distinct = "DISTINCT " if w.chance(0.3) else ""
        if distinct:
            w.use("inner DISTINCT")
        where = self.where(of) if w.chance(0.6) else ""
        return self._derived(f"SELECT {distinct}{', '.join(items)} FROM {of.text}{where}", names)

    def rows(self, depth: int) -> Source:
        """A derived table of rows, each of which is a unit."""
        w, of = self.writer, self.owned(depth)
        w.use("derived table of row units")
        items, names = self._items(of)
        return self._derived(
            f"SELECT {', '.join(items)} FROM {of.text}{self.where(of) if w.chance(0.5) else ''}", names
        )

    def grouped(self, depth: int) -> Source:
        """Aggregates of each person."""
        w, of = self.writer, self.owned(depth)
        holders = of.holders()
        if not holders and not w.chance(self.slip * 5):
            return of
        w.use("inner GROUP BY")
        keys = [w.rng.choice(holders or list(of.names))]
        if w.chance(0.4):
            keys.append(w.rng.choice(of.names))
        out, items = [], []
        for i, key in enumerate(keys):
            out.append(Name(f"k{i}", key.kind, key.bounded, key.role, key.listed))
            items.append(f"{key.text} AS k{i}")
        spellings = [", ".join(k.text for k in keys), ", ".join(str(i + 1) for i in range(len(keys)))]
        by = w.rng.choice([*spellings, "ALL"] if w.language.is_own else spellings)
        for i in range(w.rng.randint(1, 3)):
            template, kind = w.rng.choice(_INNER if w.language.is_own else _INNER_ANYWHERE)
            w.use(f"inner {template.split('(')[0]}{' DISTINCT' if 'DISTINCT' in template else ''}")
            w.use(*["inner FILTER"] if "FILTER" in template else [])
            items.append(f"{self._over(template, of)} AS n{i}")
            out.append(Name(f"n{i}", kind, capped=template.startswith("COUNT")))
        text = f"SELECT {', '.join(items)} FROM {of.text}{self.where(of) if w.chance(0.4) else ''} GROUP BY {by}"
        if w.chance(0.3):
            w.use("inner HAVING")
            text += f" HAVING COUNT(*) > {w.rng.choice('012')}"
        return self._multiplied(self._derived(text, out))

    def _multiplied(self, of: Source) -> Source:
        """Half the time a text of each person, joined with itself in stage after stage: mostly longer than is asked."""
        w = self.writer
        if not w.language.is_own or not w.chance(0.5):
            return of
        w.use("text multiplied through GROUP BY")
        for _ in range(w.rng.randint(1, 3)):
            keys = list({n.role: n for n in of.holders()}.values())
            texts = [n.text for n in of.names if n.kind == "t"] or [f"CAST({of.names[-1].text} AS VARCHAR)"]
            selected = [f"{k.text} AS k{i}" for i, k in enumerate(keys)]
            many = " || ".join([w.rng.choice(texts)] * w.rng.choice((2, 64)))
            by = ", ".join(k.text for k in keys) or "1"
            text = f"SELECT {', '.join([*selected, f'MAX({many}) AS n0'])} FROM {of.text} GROUP BY {by}"
            of = self._derived(text, [*(replace(k, text=f"k{i}") for i, k in enumerate(keys)), Name("n0", "t")])
        return of

    def windows(self, depth: int) -> Source:
        """Window functions over a person's rows, and QUALIFY."""
        w, of = self.writer, self.owned(depth)
        holders = of.holders()
        if not holders and not w.chance(self.slip * 5):
            return of
        items, names = self._items(of)
        for i in range(w.rng.randint(0, 2)):
            call = w.rng.choice(_WINDOWS)
            items.append(f"{self._window(call, of)} AS w{i}")
            names = [*names, Name(f"w{i}", "i" if "{x}" not in call and "{n}" not in call else "r")]
        text = f"SELECT {', '.join(items)} FROM {of.text}{self.where(of) if w.chance(0.3) else ''}"
        if w.chance(0.5):
            w.use("QUALIFY")
            text += f" QUALIFY {self._window(w.rng.choice(_WINDOWS[:5]), of)} <= {w.rng.choice('12')}"
        return self._derived(text, names)

    def split(self, depth: int) -> Source:
        """A row for each part of a text."""
        w, of = self.writer, self.owned(depth)
        texts = [n.text for n in of.names if n.kind == "t"]
        if not texts or of.public:
            return of
        w.use("UNNEST of a text")
        text, separator = w.rng.choice(texts), w.rng.choice(",ab")
        listed = f"string_split({text} || ',b', '{separator}')"
        if w.chance(0.5):
            alias = self.alias("s")
            return Source(f"{of.text}, UNNEST({listed}) AS {alias}(part)", (*of.names, Name(f"{alias}.part", "t")))
        items, names = self._items(of)
        where = self.where(of) if w.chance(0.3) else ""
        return self._derived(
            f"SELECT {', '.join([*items, f'UNNEST({listed}) AS part'])} FROM {of.text}{where}",
            [*names, Name("part", "t")],
        )

    def union(self, depth: int) -> Source:
        """The same columns of two selections."""
        w, of = self.writer, self.owned(depth)
        items, names = self._items(of)
        every = w.rng.choice(("UNION ALL", "UNION ALL", "UNION")) if w.language.is_own else "UNION ALL"
        selected = ", ".join(items)
        again = f"SELECT {selected} FROM {of.text}{self.where(of)}"
        if w.language.is_own and w.chance(0.7):
            every = w.rng.choice(("EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"))
        w.use(every)
        return self._derived(f"SELECT {selected} FROM {of.text} {every} {again}", names)

    def where(self, of: Source) -> str:
        """WHERE, with subqueries at times."""
        w = self.writer
        parts = [w.filter(of.names)]
        if not w.language.is_own:
            parts = [f"({parts[0]} OR {w.filter(of.names)})"]
        alone = self.shape.is_row and len(self.shape.tables) == 1
        if w.chance(0.3) and not alone:
            parts.append(self._subquery(of))
        if w.chance(0.25) and not alone:
            parts.append(self._mixed(of))
        if w.chance(0.15):
            parts += self._narrowing(of)
        w.rng.shuffle(parts)
        w.use("WHERE")
        return f" WHERE {' AND '.join(parts)}"

    def _narrowing(self, of: Source) -> list[str]:
        """A term that narrows the bounds of a column, or its values."""
        w = self.writer
        found = [n for n in of.names if (n.bounded and n.kind in "ir") or (n.listed and n.kind == "t")]
        if not found:
            return []
        w.use("WHERE narrows")
        name = w.rng.choice(found)
        if name.kind == "t":
            return [w.rng.choice(("{} IN ('a', 'new', 'p')", "{} = 'b'", "{} IN ('q')")).format(name.text)]
        how = w.rng.choice(("{} BETWEEN 1 AND 3", "{} > 0", "{} <= 2.5", "{} = 1", "{} >= -1", "{} IN (1, 2)"))
        return [how.format(name.text)]

    def _subquery(self, of: Source) -> str:
        """[NOT] EXISTS or [NOT] IN over the same unit, or over the public table."""
        w = self.writer
        no = w.rng.choice(("", "NOT "))
        publics = [t for t in self.shape.tables if t.public]
        if publics and w.chance(0.4):
            right = self.base(publics[0])
            texts = [n.text for n in of.names if n.kind == "t"] or ["'a'"]
            one, other = w.rng.choice(texts), right.names[0].text
            what = "public"
        else:
            right = self.base(w.rng.choice([t for t in self.shape.tables if not t.public]))
            pairs = _pairs(of, right)
            if not pairs:
                return w.filter(of.names)
            found = w.rng.choice(pairs)
            one, other, what = found[0].text, found[1].text, "private"
            if found[0].role.startswith("tie "):
                w.use("subquery along a link")
        if w.chance(0.2):
            test = w.rng.choice(("= ANY", "<> ALL"))
            w.use(f"{what} {test}")
            inside = f" WHERE {w.filter(right.names)}" if w.chance(0.5) else ""
            return f"{one} {test} (SELECT {other} FROM {right.text}{inside})"
        if w.language.is_own and w.chance(0.15):
            both = [(n.text, m.text) for n in of.names for m in right.names if n.kind == m.kind]
            if both:
                w.use(f"{what} {no}IN of several")
                more = w.rng.choice(both)
                return f"({one}, {more[0]}) {no}IN (SELECT {other}, {more[1]} FROM {right.text})"
        if w.chance(0.5):
            w.use(f"{what} {no}IN")
            inside = f" WHERE {w.filter(right.names)}" if w.chance(0.5) else ""
            return f"{one} {no}IN (SELECT {other} FROM {right.text}{inside})"
        w.use(f"{what} {no}EXISTS")
        further = f" AND {w.filter([*of.names, *right.names])}" if w.chance(0.5) else ""
        return f"{no}EXISTS (SELECT 1 FROM {right.text} WHERE {one} = {other}{further})"

    def _mixed(self, of: Source) -> str:
        """A condition in which a subquery stands under OR, or for a value."""
        w = self.writer
        if w.chance(0.5):
            w.use("subquery under OR")
            return f"({w.filter(of.names)} OR {self._subquery(of)})"
        value, _ = self._value(of)
        compared = f"{value} {w.rng.choice(('>', '<=', '=', '<>'))} {w.rng.choice(('0', '1', '2'))}"
        return f"(({compared}) IS NOT TRUE)" if w.chance(0.5) else compared

    def _value(self, of: Source) -> tuple[str, str]:
        """A subquery in place of a value, and its kind."""
        w = self.writer
        if w.chance(0.25):
            test = self._subquery(of)
            w.use("subquery inside CASE")
            return f"CASE WHEN {test} THEN 1 WHEN NOT ({test}) THEN 0 END", "i"
        publics = [t for t in self.shape.tables if t.public]
        if publics and w.chance(0.4):
            right, conditions = self.base(publics[0]), []
            texts = [n.text for n in of.names if n.kind == "t"]
            if texts and w.chance(0.5):
                conditions.append(f"{w.rng.choice(texts)} = {right.names[0].text}")
            what = "public value"
        else:
            right = self.base(w.rng.choice([t for t in self.shape.tables if not t.public]))
            pairs = _pairs(of, right)
            if not pairs and not w.chance(self.slip * 5):
                return "1", "i"
            conditions = ["{} = {}".format(*(n.text for n in w.rng.choice(pairs)))] if pairs else []
            what = "private value"
        if w.chance(0.4):
            w.use(f"{what} by what is around")
            conditions.append(w.filter([*of.names, *right.names]))
        w.use(what)
        template, kind = w.rng.choice(_VALUES)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"(SELECT {self._over(template, right)} FROM {right.text}{where})", kind

    def _single(self, depth: int) -> Source:
        """A table, or a subquery."""
        before = self._written()
        found = self.owned(depth) if self.writer.chance(0.4) else self.owned(0)
        if not found.joined:
            return found
        self._drop(before)
        return self.owned(0)

    def _written(self) -> tuple[int, int]:
        """How many constructs and common table expressions there are, for `_drop`."""
        return len(self.writer.used), len(self.common)

    def _drop(self, since: tuple[int, int]) -> None:
        """Forgets what belongs to a relation that is not in the question."""
        self.writer.drop(since[0])
        del self.common[since[1] :]

    def _comma(self, left: Source, right: Source, on: str) -> Source:
        """A comma join is closed in a subquery, with the equation in its WHERE."""
        w = self.writer
        w.use("comma join")
        both = Source(f"{left.text}, {right.text}", (*left.names, *right.names))
        items, names = self._items(both)
        more = f" AND {w.filter(both.names)}" if w.chance(0.3) else ""
        return self._derived(f"SELECT {', '.join(items)} FROM {both.text} WHERE {on}{more}", names)

    def _using(self, left: Source, right: Source, kind: str, column: str) -> Source:
        w = self.writer
        w.use("USING")
        rest = [n for n in (*left.names, *right.names) if n.column != column]
        (holder,) = [n for n in left.names if n.column == column][:1]
        found = _joined(left, right, kind, f"USING ({column})")
        kept = [n for n in found.names if n.text in {r.text for r in rest}]
        if _is_one_sided(kind):
            return found
        return replace(found, names=(replace(holder, text=column), *kept))

    def _natural(self, left: Source, right: Source, kind: str, common: set[str]) -> Source:
        """Every column that both have is held equal, and is one."""
        self.writer.use(f"NATURAL {kind}")
        found = _joined(left, right, f"NATURAL {kind}", "")
        if _is_one_sided(kind):
            return found
        theirs = {n.role for n in right.names if n.role}
        merged = [replace(n, text=n.column) for n in left.names if n.column in common]
        merged = [n if n.role in theirs else replace(n, role="") for n in merged]
        return replace(found, names=(*merged, *(n for n in found.names if n.column not in common)))

    def _items(self, of: Source) -> tuple[list[str], list[Name]]:
        """A select list of columns and expressions, the unit's first; and the names that it gives."""
        w = self.writer
        holders = of.holders()
        chosen = [*w.rng.sample(holders, min(len(holders), w.rng.randint(1, 2)))]
        plain = [n for n in of.names if n not in chosen]
        chosen += w.rng.sample(plain, min(len(plain), w.rng.randint(1, 5)))
        items, names = [], []
        for i, n in enumerate(chosen):
            items.append(f"{n.text} AS p{i}")
            names.append(replace(n, text=f"p{i}"))
        for i in range(w.rng.randint(0, 1)):
            kind = w.rng.choice("irtbds")
            items.append(f"{w.expression(kind, of.names, w.depth())} AS e{i}")
            names.append(Name(f"e{i}", kind))
        if w.chance(0.15) and not self.shape.is_row:
            value, kind = self._value(of)
            items.append(f"{value} AS v0")
            names.append(Name("v0", kind))
        return items, names

    def _derived(self, text: str, names: Sequence[Name]) -> Source:
        """A subquery under an alias, or a common table expression."""
        w, alias = self.writer, self.alias("q")
        out = tuple(replace(n, text=f"{alias}.{n.text}") for n in names)
        if w.chance(0.3):
            w.use("WITH")
            self.common.append(f"{alias} AS ({text})")
            return Source(alias, out)
        w.use("derived table")
        return Source(f"({text}) {alias}", out)

    def _window(self, call: str, of: Source) -> str:
        w = self.writer
        w.use(f"window {call.split('(')[0]}")
        partition = [n.text for n in w.rng.sample(of.holders(), 1)] if of.holders() else []
        if w.chance(self.slip):
            partition = []
        if w.chance(0.2):
            partition.append(w.rng.choice(of.names).text)
        order = ", ".join(
            f"{n.text}{w.rng.choice(('', ' DESC', ' NULLS FIRST'))}"
            for n in w.rng.sample(of.names, min(len(of.names), w.rng.randint(1, 2)))
        )
        by = f"PARTITION BY {', '.join(partition)} " if partition else ""
        ordered = w.chance(0.8)
        frame = ""
        if call.split("(")[0] in _FRAMED and w.chance(0.8 if ordered else self.slip):
            frame = f" {w.rng.choice(_FRAMES)}"
            w.use(f"frame {frame.split()[0]}", f"framed {call.split('(')[0]}")
        over = f"OVER ({by}{'ORDER BY ' + order if ordered else ''}{frame})"
        return self._over(call.replace("{over}", over), of)

    def _over(self, template: str, of: Source) -> str:
        """An aggregate's template over these names; `{x}` is any column."""
        w = self.writer
        while "{x}" in template:
            template = template.replace("{x}", w.rng.choice(of.names).text, 1)
        return w.fill(template, "i", of.names, 0)

    def _names(self, table: Table, prefix: str) -> tuple[Name, ...]:
        keys = {(t.link[1], t.link[2]) for t in self.shape.tables if t.link is not None and t.unit is None}
        ties = {(t.tie[1], t.tie[2]) for t in self.shape.tables if t.tie is not None}
        names = []
        for column, kind in table.columns.items():
            fact = self.shape.facts.get(table.name, {}).get(column)
            role = ""
            if column == table.unit:
                role = "unit"
            elif table.link is not None and table.unit is None and column == table.link[0]:
                role = f"link {table.link[1]}.{table.link[2]}"
            elif (table.name, column) in keys:
                role = f"key {table.name}.{column}"
            elif table.tie is not None and column == table.tie[0]:
                role = f"tie {table.tie[1]}.{table.tie[2]}"
            elif (table.name, column) in ties:
                role = f"tie {table.name}.{column}"
            bounded = isinstance(fact, Range) or (isinstance(fact, Values) and kind in "ir")
            names.append(Name(f"{prefix}{column}", kind, bounded, role, isinstance(fact, Values)))
        return tuple(names)


def _joined(left: Source, right: Source, kind: str, on: str) -> Source:
    """The join, and which of its names still tell the unit."""
    plain = kind.removeprefix("NATURAL ")
    ours = plain not in ("RIGHT JOIN", "FULL JOIN")
    theirs = plain in ("JOIN", "INNER JOIN", "RIGHT JOIN")
    names = [n if ours else replace(n, role="") for n in left.names]
    if not _is_one_sided(kind):
        names += [n if theirs else replace(n, role="") for n in right.names]
    comma = kind == ","
    text = f"{left.text}{'' if comma else ' '}{kind} {right.text}{' ' + on if on else ''}"
    return Source(text, tuple(names), joined=True)


def _is_one_sided(kind: str) -> bool:
    return "SEMI" in kind or "ANTI" in kind


def _pairs(left: Source, right: Source) -> list[tuple[Name, Name]]:
    """The pairs of names that are equal only within a unit."""
    found = []
    for one in left.holders():
        for other in right.holders():
            roles = {one.role, other.role}
            linked = any(r.startswith("key ") and f"link {r[4:]}" in roles for r in roles)
            if roles == {"unit"} or linked or (len(roles) == 1 and one.role.startswith("link ")):
                found.append((one, other))
    ties = [n for n in left.names if n.role.startswith("tie ")]
    return found + [(one, other) for one in ties for other in right.names if other.role == one.role]
