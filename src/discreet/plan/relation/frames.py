"""The rows that a window looks at: ROWS, counted from the current one in an order without ties."""

from __future__ import annotations

from typing import Never

from sqlglot import exp

from discreet.errors import UnsupportedQuery
from discreet.plan.relation.node import Frame

_FRAMED = ("count", "sum", "min", "max", "first_value", "last_value")
"""The functions that look at the rows of a frame; the others look at the whole partition, whatever is written."""


def read_frame(spec: exp.Expr | None, name: str, *, ordered: bool) -> Frame | None:
    """The frame of a window function; None where it is SQL's default.

    Raises:
        UnsupportedQuery: a frame that is not answered, or that the function does not look at.
    """
    frame = None if spec is None else _read(spec)
    if frame is None and name == "last_value":
        raise UnsupportedQuery(
            "LAST_VALUE without a frame is the current row's own value.",
            hint="write ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING after ORDER BY, or FIRST_VALUE with "
            "the order turned round",
        )
    if frame is None:
        return None
    if name not in _FRAMED:
        raise UnsupportedQuery(f"{name.upper()} takes no frame.", hint="leave ROWS out of it")
    if not ordered and frame != (None, None):
        raise UnsupportedQuery("A frame of rows needs an order.", hint="add ORDER BY before ROWS")
    return frame


def _read(spec: exp.Expr) -> Frame | None:
    start = _end(spec.args.get("start"), spec.args.get("start_side"), before=True)
    end = (
        0 if spec.args.get("end") is None else _end(spec.args["end"], spec.args.get("end_side"), before=False)
    )
    if spec.args.get("exclude"):
        raise UnsupportedQuery(
            "EXCLUDE in a window is not answered here.",
            hint="take the row's own part off again: SUM(x) OVER (…) - x",
        )
    if start is None and end is None:
        return None, None
    if spec.args.get("kind") != "ROWS":
        if spec.args.get("kind") == "RANGE" and (start, end) == (None, 0):
            return None
        raise UnsupportedQuery(
            "Frames of windows are answered as ROWS only, not as RANGE and GROUPS.",
            hint="ROWS BETWEEN 6 PRECEDING AND CURRENT ROW; or join the table with itself on the range",
        )
    if start is not None and end is not None and start > end:
        raise UnsupportedQuery("This frame ends before it starts.", hint="write the earlier row first")
    return start, end


def _end(bound: object, side: object, *, before: bool) -> int | None:
    if bound == "UNBOUNDED":
        if side != ("PRECEDING" if before else "FOLLOWING"):
            _refuse_end()
        return None
    if bound == "CURRENT ROW":
        return 0
    if (
        not isinstance(bound, exp.Literal)
        or bound.is_string
        or not bound.name.isdigit()
        or len(bound.name) > _DIGITS
    ):
        _refuse_end()
    return int(bound.name) if side == "FOLLOWING" else -int(bound.name)


_DIGITS = 9


def _refuse_end() -> Never:
    raise UnsupportedQuery(
        "A frame is counted in written whole numbers of rows.",
        hint="ROWS BETWEEN 6 PRECEDING AND CURRENT ROW, or UNBOUNDED PRECEDING, UNBOUNDED FOLLOWING",
    )
