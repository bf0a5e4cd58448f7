"""What each node of a statement may have in it: a part that no reader looks at is refused, wherever it stands.

A reader that matches one shape looks at the parts that this shape has. The parser knows more of them for the same node
(the format of a cast, the sample of a table, a second value of max), and each of them changes what the database does.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from discreet.verify.shapes import reject

_PARTS = {
    "": "Null RowNumber Rank DenseRank PercentRank CumeDist Star",
    "this": "Abs Acos Ascii Asin Atan Avg Boolean Cbrt Ceil Cos DataType Degrees Exp Explode FirstValue Floor From "
    "LastDay LastValue Length Ln LogicalAnd LogicalOr Lower Max Min Neg Not Ntile Paren Placeholder Qualify Radians "
    "Sign Sin Sqrt Sum Tan ToDays Trunc Try Unicode Upper Var Where",
    "this expression": "Add And Atan2 Contains Div EQ EndsWith Escape Filter GT GTE ILike IntDiv Is LT LTE Left Like "
    "Log Mod Mul NEQ NullSafeEQ Nullif Or Pow Right Split StartsWith Sub Union",
    "this expressions": "Anonymous Coalesce In Order",
    "expressions": "Distinct Group GroupingSets Tuple With",
    "this expressions ignore_nulls": "Greatest Least",
    "this alias": "Alias CTE Subquery",
    "alias expressions": "Values",
    "this db alias": "Table",
    "this columns": "TableAlias",
    "this on side kind": "Join",
    "this table": "Column",
    "this quoted": "Identifier",
    "this is_string": "Literal",
    "distinct expressions from_ group joins qualify where with_": "Select",
    "this to": "Cast",
    "this to safe": "TryCast",
    "ifs default": "Case",
    "this true": "If",
    "this low high": "Between",
    "this big_int": "Count",
    "this desc nulls_first": "Ordered",
    "this partition_by order over spec": "Window",
    "kind start start_side end end_side": "WindowSpec",
    "this offset default": "Lag Lead",
    "start end is_end_exclusive": "GenerateSeries",
    "this expression safe": "DPipe",
    "expressions safe coalesce": "ConcatWs",
    "this expression unit date_part_boundary": "DateDiff",
    "year month day": "DateFromParts",
    "this unit": "TimestampTrunc",
    "this format": "TimeToStr",
    "this decimals": "Round",
    "this start length": "Substring",
    "this substr": "StrPosition",
    "this expression position": "Trim",
    "this expression fill_pattern is_left": "Pad",
    "this expression replacement": "Replace",
    "this delimiter part_index": "SplitPart",
    "this expression flag": "RegexpLike",
    "this expression options": "RegexpFullMatch",
    "this expression group parameters null_if_pos_overflow": "RegexpExtract",
    "this expression replacement modifiers single_replace": "RegexpReplace",
}
_KNOWN = {
    getattr(exp, name): frozenset(parts.split()) for parts, names in _PARTS.items() for name in names.split()
}


def nothing_unread(nodes: Iterable[exp.Expr]) -> None:
    """Refuses a statement with a node that no reader knows, or with a part of one that none looks at.

    Raises:
        InternalError: there is one.
    """
    for node in nodes:
        known = _KNOWN.get(type(node))
        if known is None or any(part and name not in known for name, part in node.args.items()):
            reject("a part of a statement that is not read")
