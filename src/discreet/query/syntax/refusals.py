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
    reason, hint = _REASONS.get(type(node), (f"This part of the question is not answered: {shown}", REFERENCE))
    if isinstance(node, exp.Window) and _is_over_answer(node):
        reason, hint = _OVER_ANSWER
    raise UnsupportedQuery(reason, hint=hint)


def _is_over_answer(window: exp.Window) -> bool:
    """Whether an aggregate stands in it beside its own function."""
    own = window.this.find(exp.AggFunc)
    return any(isinstance(e, exp.AggFunc) and e is not own for e in window.walk())


_OVER_ANSWER = (
    "Window functions are not answered over the groups of an answer.",
    "work it out on answer.rows, which is free; ROLLUP has the total beside its parts",
)


def clock() -> Never:
    """Refuses the present, in whatever words."""
    raise UnsupportedQuery(*_CLOCK[:1], hint=_CLOCK[1])


_CLOCK = ("The current time is refused: a question means the same tomorrow.", "write the time itself")
_BITS = ("Operations on bits are not answered here.", "use %, // and comparisons of numbers")
_HASH = ("Hashes are not answered here.", "compare the value itself")
_REASONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Rand: ("random() is refused: an answer's only randomness is its noise.", "leave it out"),
    exp.Window: (
        "Window functions are not answered over all people's rows.",
        "aggregate with GROUP BY, or use them in a subquery: OVER (PARTITION BY the unit …)",
    ),
    exp.Subquery: ("Subqueries are not answered in this place.", "join the subquery, or put it into FROM"),
    exp.Placeholder: ("Parameters ($1, ?) are not answered here.", "write the value itself"),
    exp.CurrentDate: ("The current date is refused: a question means the same tomorrow.", "write the date itself"),
    **dict.fromkeys((exp.CurrentTimestamp, exp.CurrentTime, exp.Localtime, exp.Localtimestamp), _CLOCK),
    exp.Uuid: ("uuid() is refused: an answer's only randomness is its noise.", "leave it out"),
    exp.Collate: ("COLLATE is not answered here.", "compare lower(x) where case should not matter"),
    exp.RegexpILike: ("~* is not answered here.", "write regexp_matches(x, pattern, 'i')"),
    exp.Glob: ("GLOB is not answered here.", "use LIKE, starts_with, ends_with or contains"),
    exp.Columns: ("COLUMNS(…) is not answered here.", "name the columns one by one"),
    exp.WithinGroup: (
        "This form of WITHIN GROUP is not answered here.",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)",
    ),
    exp.Any: ("ANY is not answered here.", "use IN (…), or conditions joined with OR"),
    exp.All: ("ALL is not answered here.", "use NOT IN (…), or conditions joined with AND"),
    exp.Interval: (
        "INTERVAL stands only beside + and -, after a date or time.",
        "write d + INTERVAL (n) DAY, or date_diff('day', a, b) for a difference",
    ),
    exp.DateBin: ("time_bucket() is not answered here.", "use date_trunc('week', x), or width_bucket of a number"),
    exp.AtTimeZone: ("AT TIME ZONE is not answered here: times are in UTC.", "add hours: t + INTERVAL 2 HOUR"),
    exp.StrToTime: ("strptime() is not answered here.", "CAST text such as '2024-12-31' to DATE or TIMESTAMP"),
    exp.UnixToTime: (
        "to_timestamp() is not answered here.",
        "write TIMESTAMP '1970-01-01' + INTERVAL (n) SECOND",
    ),
    exp.ToChar: ("to_char() is not answered here.", "use strftime(d, '%Y-%m')"),
    exp.Repeat: ("repeat() is not answered here: texts may not grow without bound.", "use lpad or rpad"),
    exp.Reverse: ("reverse() is not answered here.", "use right(x, n) or ends_with(x, 'end')"),
    exp.Chr: ("chr() is not answered here.", "write the character itself"),
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot), _BITS),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), _BITS),
    **dict.fromkeys((exp.MD5, exp.SHA, exp.SHA2), _HASH),
}  # fmt: skip
