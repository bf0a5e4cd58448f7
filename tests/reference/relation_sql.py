"""The reference's relations as an analyst writes them, so that the same thing can be asked of an engine."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from discreet.errors import InvalidParameter
from tests.reference.expression import Column, Expression
from tests.reference.measures import CountUnits
from tests.reference.question import Question
from tests.reference.relation import Base, Database, Filter, Group, Join, JoinKind, Project, Relation, Union, Windowed
from tests.reference.relation_nested import Beside, Matched, Nested
from tests.reference.relation_parts import Aggregate, Window
from tests.reference.sql import measure_sql, node_sql, parts_of, table_sql

NONE: Mapping[str, str] = MappingProxyType({})


class Spelling(Enum):
    """How nested relations and semi joins are written: derived tables and joins, or WITH and [NOT] EXISTS."""

    NESTED = "nested"
    NAMED = "named"


def relation_sql(relation: Relation, spelling: Spelling = Spelling.NESTED) -> str:
    """The rows of a relation, in the order of its columns: `SELECT …`."""
    writer = _Writer(spelling)
    source, where = writer.source(relation)
    return f"{writer.named()}SELECT {', '.join(relation.columns)} FROM {source}{_where(where)}"


def relation_question_sql(
    question: Question, relation: Relation, unit: str | None = None, spelling: Spelling = Spelling.NESTED
) -> str:
    """The question of a relation's rows; keys are named k0, k1, … and measures a0, a1, …

    `unit` is the column, `alias.name`, that an analyst names in COUNT(DISTINCT unit).
    """
    writer = _Writer(spelling)
    source, where = writer.source(relation)
    keys = [_text(k) for k in question.keys]
    outputs = [f"{k} AS k{i}" for i, k in enumerate(keys)]
    for i, m in enumerate(question.measures):
        counts_units = isinstance(m, CountUnits)
        if counts_units and unit is None:
            raise InvalidParameter("unit must be named where units are counted.")
        outputs.append(f"{f'COUNT(DISTINCT {unit})' if counts_units else measure_sql(m, question)} AS a{i}")
    where = [*where, *([_text(question.where)] if question.where is not None else [])]
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"{writer.named()}SELECT {', '.join(outputs)} FROM {source}{_where(where)}{group}"


def database_sql(database: Database) -> tuple[str, ...]:
    """The statements that create the tables with their rows."""
    return tuple(s for t in database.tables for s in table_sql(t.name, t.columns, database.rows[t.name]))


class _Writer:
    """Writes the parts of one text; relations that are named come before it."""

    __slots__ = ("_named", "_spelling")

    def __init__(self, spelling: Spelling) -> None:
        self._spelling = spelling
        self._named: list[str] = []

    def named(self) -> str:
        """The WITH clause so far."""
        return f"WITH {', '.join(self._named)} " if self._named else ""

    def source(self, relation: Relation) -> tuple[str, list[str]]:
        """What stands after FROM, and the conditions that stand after WHERE."""
        match relation:
            case Base(table, alias):
                return f"{table.name} AS {alias}", []
            case Filter(of, where):
                text, conditions = self.source(of)
                return text, [*conditions, _text(where)]
            case Join(left, right, how, on):
                return self._join(left, right, how, on)
            case (
                Project(_, alias)
                | Group(_, alias)
                | Windowed(_, alias)
                | Beside(_, alias)
                | Union(_, _, alias)
                | Matched(_, _, alias)
            ):
                return self._nested(self.select(relation), alias), []
        raise TypeError(f"{type(relation).__name__} has no SQL")

    def select(self, relation: Relation) -> str:
        """The relation as a SELECT of its own, which an alias will name."""
        match relation:
            case Project(of, _, outputs, distinct):
                source, where = self.source(of)
                shown = [f"{_text(e)} AS {name}" for name, e in outputs]
                return f"SELECT {'DISTINCT ' if distinct else ''}{', '.join(shown)} FROM {source}{_where(where)}"
            case Group():
                return self._group(relation)
            case Union(left, right, _, distinct):
                return f"{self.select(left)} UNION{'' if distinct else ' ALL'} {self.select(right)}"
            case Matched(left, right, _, keeps, every):
                word = "INTERSECT" if keeps else "EXCEPT"
                return f"{self.select(left)} {word}{' ALL' if every else ''} {self.select(right)}"
            case Beside():
                return self._beside(relation)
            case Windowed(of, _, outputs, windows):
                source, where = self.source(of)
                shown = [f"{_text(e)} AS {name}" for name, e in outputs]
                shown += [f"{_window(w)} AS {name}" for name, w in windows]
                return f"SELECT {', '.join(shown)} FROM {source}{_where(where)}"
        source, where = self.source(relation)
        shown = [f"{name} AS {name.partition('.')[2]}" for name in relation.columns]
        return f"SELECT {', '.join(shown)} FROM {source}{_where(where)}"

    def _group(self, g: Group) -> str:
        source, where = self.source(g.of)
        keys = [(name, _text(e)) for name, e in g.keys]
        shown = [*keys, *((name, _aggregate(a)) for name, a in g.aggregates)]
        having = ""
        if g.having is not None:
            having = f" HAVING {_text(g.having, {f'{g.alias}.{name}': text for name, text in shown})}"
        outputs = ", ".join(f"{text} AS {name}" for name, text in shown)
        by = ", ".join(dict.fromkeys(text for _, text in keys))
        return f"SELECT {outputs} FROM {source}{_where(where)} GROUP BY {by}{having}"

    def _beside(self, b: Beside) -> str:
        source, where = self.source(b.of)
        nested = [(name, self._value(n)) for name, n in b.nested]
        shown = [f"{_text(e)} AS {name}" for name, e in b.outputs] + [f"{t} AS {name}" for name, t in nested]
        if b.where is not None:
            where = [*where, _text(b.where, {f"{b.alias}.{name}": text for name, text in nested})]
        return f"SELECT {', '.join(shown)} FROM {source}{_where(where)}"

    def _value(self, n: Nested) -> str:
        source, where = self.source(n.of)
        rows = f"FROM {source}{_where([*where, _text(n.on)])}"
        if n.aggregate is not None:
            return f"(SELECT {_aggregate(n.aggregate)} {rows})"
        test = f"EXISTS (SELECT 1 {rows})"
        if n.value is not None and n.member is not None:
            test = f"{_text(n.value)} IN (SELECT {_text(n.member)} {rows})"
        return f"CASE WHEN {test} THEN 1 WHEN NOT {test} THEN 0 END"

    def _join(self, left: Relation, right: Relation, how: JoinKind, on: Expression) -> tuple[str, list[str]]:
        text, conditions = self.source(left)
        other, others = self.source(right)
        if isinstance(right, Join) or (others and how is not JoinKind.INNER):
            raise InvalidParameter("right must be a table or a SELECT with an alias.")
        if conditions and how in (JoinKind.RIGHT, JoinKind.FULL):
            raise InvalidParameter(f"left must not be filtered before a {how.value}.")
        if self._spelling is Spelling.NAMED and how in (JoinKind.SEMI, JoinKind.ANTI):
            word = "EXISTS" if how is JoinKind.SEMI else "NOT EXISTS"
            return text, [*conditions, f"{word} (SELECT 1 FROM {other}{_where([*others, _text(on)])})"]
        return f"{text} {how.value} {other} ON {_text(on)}", [*conditions, *others]

    def _nested(self, select: str, alias: str) -> str:
        if self._spelling is Spelling.NESTED:
            return f"({select}) AS {alias}"
        definition = f"{alias} AS ({select})"
        if definition not in self._named:  # both sides of a UNION may read it
            self._named.append(definition)
        return alias


def _where(conditions: list[str]) -> str:
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _text(expression: Expression, names: Mapping[str, str] = NONE) -> str:
    """The expression, with some columns replaced by what they stand for."""
    if isinstance(expression, Column):
        return names.get(expression.name, expression.name)
    return node_sql(expression, [_text(e, names) for e in parts_of(expression)])


def _aggregate(a: Aggregate) -> str:
    if a.argument is None:
        return "COUNT(*)"
    word, _, distinct = a.name.partition(" ")
    return f"{word}({distinct + ' ' if distinct else ''}{_text(a.argument)})"


def _window(w: Window) -> str:
    argument = "*" if w.name == "COUNT" and w.argument is None else "" if w.argument is None else _text(w.argument)
    partition = f"PARTITION BY {', '.join(map(_text, w.partition))}" if w.partition else ""
    terms = [f"{_text(e)} {'DESC' if descends else 'ASC'} NULLS LAST" for e, descends in w.order]
    order = f"ORDER BY {', '.join(terms)}" if terms else ""
    ends = w.frame and (_end(w.frame[0], "PRECEDING"), _end(w.frame[1], "FOLLOWING"))
    frame = f"ROWS BETWEEN {ends[0]} AND {ends[1]}" if ends else ""
    return f"{w.name}({argument}) OVER ({' '.join(filter(None, [partition, order, frame]))})"


def _end(rows: int | None, unbounded: str) -> str:
    if rows is None:
        return f"UNBOUNDED {unbounded}"
    return "CURRENT ROW" if rows == 0 else f"{abs(rows)} {'PRECEDING' if rows < 0 else 'FOLLOWING'}"
