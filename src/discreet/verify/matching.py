"""Whether a row finds one value at most in a list of declared keys.

A list holds each value once. The database compares values of two types by casting one of them, and different ones
may become the same: whole numbers as doubles, texts as numbers. Where each row is a unit, one that finds two values
would be in two groups, with nothing after it that bounds them.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlglot
from sqlglot import exp

from discreet.verify.kinds import NULL, Kind, is_real, kind_of


def finds_one(sql: str, columns: Mapping[str, Kind]) -> bool:
    """Whether each list is compared with keys of its own type, in a text that has been found to be bounded.

    Args:
        sql: a statement over one table in which each row is a unit.
        columns: the table's columns, with the types as which they are read.
    """
    tree = sqlglot.parse_one(sql, dialect="duckdb")
    stages = {stage.alias: stage.this for stage in tree.find_all(exp.CTE)}

    def kind(column: exp.Column) -> Kind:
        if column.table == "s":
            return columns.get(column.name)
        found = {e.alias: e.this for e in stages["unit bounded"].expressions}
        return kind_of(found[column.name], kind)

    for join in tree.find_all(exp.Join):
        key, listed = _family(kind_of(join.args["on"].this, kind)), _listed(stages, join.this.name)
        if listed is None or not listed <= {key} or key is None:
            return False
    return True


def _listed(stages: Mapping[str, exp.Expr], name: str) -> set[Kind] | None:
    """The types of the values in a list; None where one is not known."""
    values = stages[name].args["from_"].this
    if type(values) is exp.Values:
        kinds = {_family(kind_of(row.expressions[0], _nothing)) for row in values.expressions} - {NULL}
    else:
        value = stages[values.name].expressions[0].this
        given = value.this if type(value) is exp.TryCast else value
        kinds = {"BIGINT" if type(given.this) is exp.GenerateSeries else "VARCHAR"}
        kinds = {_family(kind_of(value, _nothing))} if value is not given else kinds
    return None if None in kinds else kinds


def _family(kind: Kind) -> Kind:
    """A type, in which all that are compared without a loss are one."""
    return "DOUBLE" if is_real(kind) else "BIGINT" if kind == "HUGEINT" else kind


def _nothing(column: exp.Column) -> Kind:
    return None
