r"""Tables for people: plain text and HTML. Pure, and knows nothing of privacy.

A cell may hold anything that a database can hold, so nothing of it reaches a terminal as a command: control
characters, escape sequences and marks that reorder text are shown as `\x1b`, never sent.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import pairwise, zip_longest
from typing import Any, Literal, TypeAlias

Align: TypeAlias = Literal["left", "right"]

NULL = "NULL"
"""How an absent value is shown."""

ELLIPSIS = "…"

MARK = "*"
"""What stands behind a number whose margin of error is at least as large as itself."""


def render(
    columns: Sequence[str],
    rows: Sequence[Sequence[str | None]],
    *,
    align: Sequence[Align] | None = None,
    max_width: int | None = None,
) -> str:
    """Return the table as aligned plain text, without a newline at the end; None is NULL, no rows are said.

    Columns in which every value is a number stand to the right unless `align` says otherwise. A table wider
    than `max_width` terminal cells has its widest columns of text shortened with an ellipsis; a number is
    never shortened, since half of a number is another number.

    >>> print(render(["ward", "n"], [["surgery", "1,204"], [None, "17"]]))
    ward         n
    ───────  ─────
    surgery  1,204
    NULL        17
    """
    sides = _sides(columns, rows, align)
    cells = [[NULL if cell is None else visible(cell) for cell in row] for row in rows]
    for i in (i for i, side in enumerate(sides) if side == "right"):
        if any(_is_marked(row[i]) for row in cells):  # so that the digits of the others stand below each other
            for row in cells:
                row[i] += "" if _is_marked(row[i]) else " "
    lines = [[visible(name) for name in columns], *cells]
    widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
    if max_width is not None:
        numbers = [max((width(row[i]) for row in cells), default=0) for i in range(len(columns))]
        least = [max(_LEAST, n) if side == "right" else _LEAST for n, side in zip(numbers, sides, strict=True)]
        widths = _shrunk(widths, least, max_width)
    head, *body = [_line(line, widths, sides) for line in lines]
    return "\n".join([head, "  ".join("─" * w for w in widths).rstrip(), *(body or ["(no rows)"])])


def render_html(
    columns: Sequence[str],
    rows: Sequence[Sequence[str | None]],
    *,
    align: Sequence[Align] | None = None,
    faded: Sequence[bool] | None = None,
) -> str:
    r"""Return the table as an HTML fragment in which every cell is escaped; None is a grey NULL.

    `faded` says which rows are grey.

    >>> print(render_html(["a<b"], [["x"], [None]], align=["left"]).replace("><", ">\n<"))
    <table>
    <thead>
    <tr>
    <th style="text-align:left">a&lt;b</th>
    </tr>
    </thead>
    <tbody>
    <tr>
    <td style="text-align:left">x</td>
    </tr>
    <tr>
    <td style="text-align:left">
    <em style="opacity:0.6">NULL</em>
    </td>
    </tr>
    </tbody>
    </table>
    """
    styles = [f' style="text-align:{side}"' for side in _sides(columns, rows, align)]
    head = "".join(f"<th{s}>{_escaped(name)}</th>" for name, s in zip(columns, styles, strict=True))
    body = "".join(
        f"<tr{_FADED if grey else ''}>"
        + "".join(f"<td{s}>{_escaped(cell)}</td>" for cell, s in zip(row, styles, strict=True))
        + "</tr>"
        for row, grey in zip(rows, faded or [False] * len(rows), strict=True)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def measured(value: object, interval: Any = None) -> str | None:
    """Return a cell for a value: a number with the digits that its interval leaves meaningful, and its ±, marked with *
    where that is at least as large as the number.

    The ± is the larger of the two distances to the interval's ends, rounded up, so that it never claims too much.
    Where one is more than twice the other, both are shown: + up to the upper end, − down to the lower one. A date has
    the two ends behind it, and each value of a list or map its own interval.

    >>> measured(1204, (1187.0, 1221.0)), measured(38.5816, (38.2, 38.9)), measured(1204), measured("surgery")
    ('1,204 ± 17', '38.58 ± 0.38', '1,204', 'surgery')
    >>> measured(199.02, (195.1, 200.0)), measured({"a": 12, "b": 3}, {"a": (9.0, 15.0), "b": (0.0, 6.0)})
    ('199.0 +1.0 −3.9', '{a=12 ± 3, b=3 ± 3*}')
    """
    if value is None:
        return None if interval is None else f"{NULL} ± ∞{MARK}"
    if isinstance(value, Mapping):
        pairs = ((k, v, None if interval is None else interval[k]) for k, v in value.items())
        return "{" + ", ".join(f"{_plain(k)}={_shown(v, ends)}" for k, v, ends in pairs) + "}"
    if isinstance(value, list):
        ends = interval or [None] * len(value)
        return "[" + ", ".join(_shown(v, e) for v, e in zip(value, ends, strict=True)) + "]"
    if isinstance(value, bool) or not isinstance(value, int | float):
        between = "" if interval is None or interval[0] == interval[1] else f" ({interval[0]} to {interval[1]})"
        return f"{value}{between}"
    if interval is None or interval[0] == interval[1]:
        return _plain(value)
    mark = MARK if uncertain(value, interval) else ""
    low, high = interval
    above, below = max(high - value, 0.0), max(value - low, 0.0)
    half = max(above, below)
    if not math.isfinite(half):
        return f"{value:,.6g} ± ∞{mark}"
    digits = 0 if isinstance(value, int) else max(0, 1 - math.floor(math.log10(half)))  # two digits of the ±
    if digits > _MOST_DIGITS:
        return f"{value:.12g} ± {half:.3g}{mark}"
    shown = round(value, digits) + 0  # no −0
    up, down = (_rounded_up(x, digits) for x in (high - shown, shown - low))
    if half > _SAME * min(above, below):
        return f"{shown:,.{digits}f} +{up:,.{digits}f} −{down:,.{digits}f}{mark}"
    return f"{shown:,.{digits}f} ± {max(up, down):,.{digits}f}{mark}"


def uncertain(value: object, interval: Any) -> bool:
    """Whether the margin of error of a number is at least as large as the number; of a list or map, of one in it.

    Where noise may have made a number NULL, as in √(n − 30), nothing is known of it.

    >>> uncertain(12, (-3.0, 27.0)), uncertain(12, (9.0, 15.0)), uncertain(12, None)
    (True, False, False)
    """
    if value is None or interval is None:
        return interval is not None
    if isinstance(value, Mapping):
        return any(uncertain(v, interval[k]) for k, v in value.items())
    if isinstance(value, list):
        return any(uncertain(v, ends) for v, ends in zip(value, interval, strict=True))
    if isinstance(value, bool) or not isinstance(value, int | float) or interval[0] == interval[1]:
        return False
    return bool(max(interval[1] - value, value - interval[0]) >= abs(value))


def _shown(value: object, interval: Any) -> str:
    found = measured(value, interval)
    return NULL if found is None else found


def _plain(value: object) -> str:
    """Return a value without an interval."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float):
        return f"{value:,.6g}".replace("inf", "∞")
    return f"{value:,}"


def _rounded_up(x: float, digits: int) -> float:
    return float(max(math.ceil(x * 10**digits * (1 - 1e-12)), 0) / 10**digits)


def visible(text: str) -> str:
    r"""Return the text with everything that a terminal would obey rather than show written out as an escape.

    >>> print(visible("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_spelled(char) if _obeyed(char) else char for char in text)


def width(text: str) -> int:
    """How many terminal cells the text takes: two for a wide East Asian one, none for a combining mark."""
    if text.isascii():
        return len(text)
    narrow = sum(_cells(char) for char in text)
    return narrow + sum(a not in _INVISIBLE and b == _AS_PICTURE and _cells(a) == 1 for a, b in pairwise(text))


def shorten(text: str, cells: int) -> str:
    """Return the text cut to that many terminal cells, with an ellipsis where something is missing."""
    if width(text) <= cells:
        return text
    kept = ""
    for char in text:
        if width(kept + char) > cells - 1:
            break
        kept += char
    return kept + ELLIPSIS


_DIGITS = r"([\d.,_]*\d[\d.,_]*(e[-+]?\d+)?|inf|nan|∞)"
_NUMBER = re.compile(rf"[-+−~≈]?{_DIGITS}%?(( ?± ?{_DIGITS}%?| \+{_DIGITS} −{_DIGITS})\{MARK}?)?", re.IGNORECASE)
_AS_PICTURE = "\ufe0f"  # variation selector 16: the character before it is drawn as a picture, two cells wide
_JOINERS = "\u200c\u200d"  # zero-width, harmless, and part of correct Persian, Hindi and family pictures
_INVISIBLE = _JOINERS + _AS_PICTURE
_SAME = 2  # the larger of two sides of an interval is at most so many times the smaller, where one ± stands for both
_MOST_DIGITS = 9  # behind the point; beyond them a number is written with an exponent
_FADED = ' style="opacity:0.5"'
_LEAST = 4  # cells that a shortened column keeps


def _obeyed(char: str) -> bool:
    return unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and char not in _JOINERS


def _spelled(char: str) -> str:
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char) or ascii(char)[1:-1]


def _cells(char: str) -> int:
    if char in _INVISIBLE or unicodedata.category(char) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def _sides(columns: Sequence[str], rows: Sequence[Sequence[str | None]], align: Sequence[Align] | None) -> list[Align]:
    for name, given in [("a row", row) for row in rows] + ([("align", align)] if align is not None else []):
        if len(given) != len(columns):
            raise TypeError(f"{name} has {len(given)} entries for {len(columns)} columns")
    if align is not None:
        return list(align)
    return ["right" if _numeric([row[i] for row in rows]) else "left" for i in range(len(columns))]


def _numeric(cells: Sequence[str | None]) -> bool:
    values = [cell for cell in cells if cell is not None]
    return bool(values) and all(_NUMBER.fullmatch(cell) for cell in values)


def _is_marked(cell: str) -> bool:
    return cell.endswith(MARK) and _NUMBER.fullmatch(cell) is not None


def _shrunk(widths: list[int], least: list[int], most: int) -> list[int]:
    """Return the widths with the widest column narrowed, again and again, until all fits or nothing can give."""
    widths = [min(w, max(most, low)) for w, low in zip(widths, least, strict=True)]
    while sum(widths) + 2 * (len(widths) - 1) > most:
        able = [i for i, w in enumerate(widths) if w > least[i]]
        if not able:
            break
        widths[max(able, key=lambda i: widths[i])] -= 1
    return widths


def _line(cells: Sequence[str], widths: Sequence[int], sides: Sequence[Align]) -> str:
    padded = [_padded(*cell) for cell in zip_longest(cells, widths, sides)]
    return "  ".join(padded).rstrip()


def _padded(text: str, cells: int, side: Align) -> str:
    text = shorten(text, cells)
    space = " " * (cells - width(text))
    return space + text if side == "right" else text + space


def _escaped(cell: str | None) -> str:
    return f'<em style="opacity:0.6">{NULL}</em>' if cell is None else html.escape(visible(cell))
