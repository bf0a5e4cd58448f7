"""Texts that are longer than those of which they are made, and the guards that hold their length.

Made anew in stage after stage, one person's text would use up the memory, and the question would fail for it alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

MOST = 1 << 16
"""Characters of a text that may be made of others, or be rewritten with longer parts."""

_FILLED = 1000
"""Characters to which a text may be filled up."""


def grows(e: exp.Expr) -> bool:
    """Whether the expression makes a text longer, and neither a guard nor its constants hold its length."""
    match e:
        case exp.DPipe():
            return not isinstance(e.parent, exp.DPipe) and not _holds(_guard_of(e), _of_all(e))
        case exp.ConcatWs():
            return not _holds(_guard_of(e), _of_parts(e))
        case exp.Replace() | exp.RegexpReplace():
            old, new = e.expression, e.args.get("replacement")
            if not isinstance(old, exp.Literal) or not isinstance(new, exp.Literal) or not old.name:
                return True
            place = len(old.name) if isinstance(e, exp.Replace) else 1  # a match is not empty
            most = MOST // max(-(-len(new.name) // place), 1)
            return not _holds(_guard_of(e), (_length(e.this), _whole(most)))
        case exp.Pad():
            size = e.expression
            while isinstance(size, exp.Cast):
                size = size.this
            return not isinstance(size, exp.Literal) or not size.name.isdigit() or int(size.name) > _FILLED
        case exp.Repeat() | exp.Space():
            return True
        case _:
            return False


def _guard_of(e: exp.Expr) -> exp.Expr | None:
    """The condition under which alone the expression is computed: CASE WHEN … THEN e."""
    inner, outer = e, e.parent
    while isinstance(outer, exp.Paren | exp.Try):
        inner, outer = outer, outer.parent
    if type(outer) is not exp.If or outer.args["true"] is not inner:
        return None
    case = outer.parent
    return outer.this if type(case) is exp.Case and case.this is None else None


def _holds(guard: exp.Expr | None, wanted: tuple[exp.Expr, exp.Expr]) -> bool:
    """Whether it says that the one is at most the other."""
    return type(guard) is exp.LTE and (guard.this, guard.expression) == wanted


def _of_all(e: exp.DPipe) -> tuple[exp.Expr, exp.Expr]:
    """The length of texts that follow each other, and the most that it may be."""
    return _sum([_length(p) for p in e.flatten(unnest=False)]), _whole(MOST)


def _of_parts(e: exp.ConcatWs) -> tuple[exp.Expr, exp.Expr]:
    """The same of texts with a separator between those that are not NULL, counted after the last one too."""
    separator, *parts = e.expressions
    each = [exp.Add(this=_length(p), expression=_length(separator)) for p in parts]
    counted = [exp.Coalesce(this=one, expressions=[_whole(0)]) for one in each]
    return _sum(counted), exp.Add(this=_whole(MOST), expression=_length(separator))


def _sum(terms: Sequence[exp.Expr]) -> exp.Expr:
    found = terms[0]
    for term in terms[1:]:
        found = exp.Add(this=found, expression=term)
    return found


def _length(e: exp.Expr) -> exp.Expr:
    return exp.Length(this=e.copy())


def _whole(n: int) -> exp.Expr:
    return exp.Literal.number(n)
