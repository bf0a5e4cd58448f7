"""What has no place in the closed language: why, and the way round."""

from __future__ import annotations

from typing import Never

from sqlglot import exp
from sqlglot.errors import ErrorLevel

from discreet.errors import UnsupportedQuery
from discreet.pages import page

REFERENCE = f"{page('sql-reference')} lists the supported functions"
"""Where to look."""


def nothing_but(node: exp.Expr, places: set[str]) -> None:
    """Refuses a node with anything in another place than these: nothing is skipped."""
    if any(part and place not in places for place, part in node.args.items()):
        refuse(node)


def refuse(node: exp.Expr) -> Never:
    """Refuses a node by name."""
    text = " ".join(node.sql(dialect="duckdb", comments=False, unsupported_level=ErrorLevel.IGNORE).split())
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    reason, hint = _REASONS.get(type(node), (f"This part of the query is not supported: {shown}", REFERENCE))
    if isinstance(node, exp.Window) and _is_over_answer(node):
        reason, hint = _OVER_ANSWER
    raise UnsupportedQuery(reason, hint=hint)


def _is_over_answer(window: exp.Window) -> bool:
    """Whether an aggregate stands in it beside its own function."""
    own = window.this.find(exp.AggFunc)
    return any(isinstance(e, exp.AggFunc) and e is not own for e in window.walk())


_OVER_ANSWER = (
    "Window functions are not supported over the groups of a result.",
    "work it out on release.rows, which is free; ROLLUP has the total beside its parts",
)


def clock() -> Never:
    """Refuses the present, in whatever words."""
    raise UnsupportedQuery(*_CLOCK[:1], hint=_CLOCK[1])


_CLOCK = ("The current time is refused: a query means the same tomorrow.", "write the time itself")
_BITS = ("Operations on bits are not supported here.", "use %, // and comparisons of numbers")
_HASH = ("Hashes are not supported here.", "compare the value itself")
_REASONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Rand: ("random() is refused: a result's only randomness is its noise.", "leave it out"),
    exp.Window: (
        "Window functions are not supported over all people's rows.",
        "aggregate with GROUP BY, or use them in a subquery: OVER (PARTITION BY the unit …)",
    ),
    exp.Subquery: ("Subqueries are not supported in this place.", "join the subquery, or put it into FROM"),
    exp.Placeholder: ("Parameters ($1, ?) are not supported here.", "write the value itself"),
    exp.CurrentDate: ("The current date is refused: a query means the same tomorrow.", "write the date itself"),
    **dict.fromkeys((exp.CurrentTimestamp, exp.CurrentTime, exp.Localtime, exp.Localtimestamp), _CLOCK),
    exp.Uuid: ("uuid() is refused: a result's only randomness is its noise.", "leave it out"),
    exp.Collate: ("COLLATE is not supported here.", "compare lower(x) where case should not matter"),
    exp.RegexpILike: ("~* is not supported here.", "write regexp_matches(x, pattern, 'i')"),
    exp.Glob: ("GLOB is not supported here.", "use LIKE, starts_with, ends_with or contains"),
    exp.Columns: ("COLUMNS(…) is not supported here.", "name the columns one by one"),
    exp.WithinGroup: (
        "This form of WITHIN GROUP is not supported here.",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)",
    ),
    exp.Any: ("ANY is not supported here.", "use IN (…), or conditions joined with OR"),
    exp.All: ("ALL is not supported here.", "use NOT IN (…), or conditions joined with AND"),
    exp.Interval: (
        "INTERVAL stands only beside + and -, after a date or time.",
        "write d + INTERVAL (n) DAY, or date_diff('day', a, b) for a difference",
    ),
    exp.DateBin: ("time_bucket() is not supported here.", "use date_trunc('week', x), or width_bucket of a number"),
    exp.AtTimeZone: ("AT TIME ZONE is not supported here: times are in UTC.", "add hours: t + INTERVAL 2 HOUR"),
    exp.StrToTime: ("strptime() is not supported here.", "CAST text such as '2024-12-31' to DATE or TIMESTAMP"),
    exp.UnixToTime: (
        "to_timestamp() is not supported here.",
        "write TIMESTAMP '1970-01-01' + INTERVAL (n) SECOND",
    ),
    exp.Repeat: ("repeat() is not supported here: texts may not grow without bound.", "use lpad or rpad"),
    exp.Reverse: ("reverse() is not supported here.", "use right(x, n) or ends_with(x, 'end')"),
    exp.Chr: ("chr() is not supported here.", "write the character itself"),
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot), _BITS),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), _BITS),
    **dict.fromkeys((exp.MD5, exp.SHA, exp.SHA2), _HASH),
}  # fmt: skip
