"""Parts of results: as text, as JSON, and as HTML pages whose style and pictures are inside them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from html import escape
from typing import Any

import numpy as np

from discreet.audit.claim import Claim
from discreet.audit.finding import Chance, Tradeoff
from discreet.audit.places import Floats
from discreet.table import visible

_STYLE = """
:root { color-scheme: light; --ink: #1d2733; --soft: #5b6875; --line: #dfe4ea; --bad: #b3261e; --good: #146c43; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); max-width: 54rem; margin: 2.5rem auto;
  padding: 0 1.2rem; }
h1 { font-size: 1.55rem; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.verdict { display: inline-block; padding: .1rem .7rem; border-radius: 1rem; color: #fff; font-weight: 600; }
.violated { background: var(--bad); } .consistent { background: var(--good); } .unclaimed { background: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1.2rem; }
dt { color: var(--soft); } dd { margin: 0; }
table { border-collapse: collapse; font-size: .92rem; }
th, td { padding: .3rem .8rem; border-bottom: 1px solid var(--line); } th { color: var(--soft); font-weight: 600; }
code { background: #f3f5f7; padding: .05rem .3rem; border-radius: .25rem; overflow-wrap: anywhere; }
figure { margin: 1rem 0; } figcaption { color: var(--soft); font-size: .92rem; }
svg { max-width: 100%; height: auto; }
"""

_SIDE, _LEFT, _TOP = 320, 62, 14  # in the picture's own units
_RED, _BLUE, _GREY = "#b3261e", "#0072b2", "#5b6875"
_POINTS = 200

ERRORS = "type I error: x′ called x", "type II error: x called x′"
"""What the two axes are, where two neighbours are told apart."""

_LONGEST = 160
"""Characters of an input that are shown; a reader who needs more has the object."""


def document(title: str, *parts: str) -> str:
    """Return a whole page around parts that are HTML already."""
    viewport = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{viewport}<title>{text(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{"".join(parts)}</body></html>\n'


def head(name: str, verdict: str | None, why: str = "") -> str:
    """Return the name, and the verdict where there is one, with what refutes the claim."""
    mark = "" if verdict is None else f'<p><span class="verdict {text(verdict)}">{text(verdict + why)}</span></p>'
    return f"<h1>{text(name)}</h1>{mark}"


def facts(rows: Iterable[tuple[str, str]]) -> str:
    """Return what was claimed, found, done: pairs of a word and what it stands for."""
    return f"<dl>{''.join(f'<dt>{text(a)}</dt><dd>{text(b)}</dd>' for a, b in rows)}</dl>"


def notes(words: Sequence[str]) -> str:
    """Return what a reader should know, as a list under its own heading; nothing where there is nothing."""
    return "".join(["<h2>Notes</h2><ul>", *(f"<li>{text(note)}</li>" for note in words), "</ul>"] if words else [])


def picture(tradeoff: Tradeoff, caption: str, errors: tuple[str, str] = ERRORS) -> str:
    """Return a trade-off with what it shows in words."""
    return f"<figure>{svg(tradeoff, errors)}<figcaption>{text(caption)}</figcaption></figure>"


def text(words: str) -> str:
    """Words in which nothing is a tag, or a command of a terminal."""
    return escape(visible(words))


def svg(tradeoff: Tradeoff, errors: tuple[str, str] = ERRORS) -> str:
    """Return what the claim allows, the best test that was found, and its band, over the type I error."""
    width, height = _LEFT + _SIDE + 14, _TOP + _SIDE + 46
    claimed = _points(tradeoff.alpha, tradeoff.claimed)
    found = _points(tradeoff.alpha, tradeoff.beta)
    upper = _points(tradeoff.alpha, tradeoff.beta_high)
    corners = [(_x(0), _y(1)), (_x(1), _y(0))]
    parts = [
        _shape([*claimed, (_x(0), _y(0))], fill=_RED, opacity="0.12"),
        _line(claimed, _RED, "1.6"),
        _line(corners, "#9aa5b1", "1", ' stroke-dasharray="4 4"'),
        _shape([*found, *upper[::-1]], fill=_BLUE, opacity="0.22"),
        _line(found, _BLUE, "2"),
        *(_tick(x) for x in (0.0, 0.25, 0.5, 0.75, 1.0)),
        _label(f'x="{_LEFT + _SIDE / 2}" y="{height - 6}"', escape(errors[0])),
        _label(f'transform="translate(14 {_TOP + _SIDE / 2}) rotate(-90)"', escape(errors[1])),
    ]
    frame = f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" fill="#fff" stroke="#dfe4ea"/>'
    name = 'role="img" aria-label="type II error for each type I error"'
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" {name}>{frame}{"".join(parts)}</svg>'


def _points(alpha: Floats, beta: Floats) -> list[tuple[float, float]]:
    step = max(len(alpha) // _POINTS, 1)
    kept = sorted({*range(0, len(alpha), step), len(alpha) - 1} - {-1})
    return [(_x(float(alpha[i])), _y(float(min(max(beta[i], 0.0), 1.0)))) for i in kept]


def _path(points: list[tuple[float, float]]) -> str:
    return " L".join(f"{x},{y}" for x, y in points)


def _line(points: list[tuple[float, float]], colour: str, width: str, more: str = "") -> str:
    return f'<path d="M{_path(points)}" fill="none" stroke="{colour}" stroke-width="{width}"{more}/>'


def _shape(points: list[tuple[float, float]], *, fill: str, opacity: str) -> str:
    return f'<path d="M{_path(points)} Z" fill="{fill}" opacity="{opacity}"/>'


def _label(where: str, words: str, size: int = 12, anchor: str = "middle") -> str:
    return f'<text {where} text-anchor="{anchor}" font-size="{size}" fill="{_GREY}">{words}</text>'


def _tick(x: float) -> str:
    below = _label(f'x="{_x(x)}" y="{_TOP + _SIDE + 16}"', f"{x:g}", 11)
    return below + _label(f'x="{_LEFT - 7}" y="{_y(x) + 4}"', f"{x:g}", 11, "end")


def _x(alpha: float) -> float:
    return round(_LEFT + alpha * _SIDE, 1)


def _y(beta: float) -> float:
    return round(_TOP + (1 - beta) * _SIDE, 1)


def chance_words(chance: Chance) -> str:
    """Return how often, out of how many, and the interval."""
    return f"{chance.hits:,} of {chance.samples:,}, a chance of {number(chance.low)} to {number(chance.high)}"


def number(x: float) -> str:
    """Return a number in four digits, as people read it."""
    return "∞" if x == math.inf else f"{x:.4g}"


def shown(x: object) -> str:
    """Return an input on one line, cut where it is long."""
    try:
        words = np.array2string(x, separator=", ", threshold=20) if isinstance(x, np.ndarray) else repr(x)
    except Exception as error:  # somebody else's __repr__ must not end an audit
        words = f"<{type(x).__name__} without a text: {type(error).__name__}>"
    words = " ".join(words.split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def fields_of(result: Any, *without: str) -> dict[str, Any]:
    """Return the fields of a result in JSON's own types, with the claim in words and as points."""
    claim: Claim | None = result.claim
    claimed = claim and {"text": claim.text, "points": plain(claim.points)}
    return {"format": 1, "claimed": claimed, **plain_fields(result, "claim", *without)}


def plain(value: object) -> Any:
    """Return a value in JSON's own types: results by their fields, an infinite number and what is unknown as text."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float | Fraction | np.floating):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(v) for v in value]
    return plain_fields(value) if type(value).__module__.startswith("discreet.audit.") else shown(value)


def plain_fields(result: Any, *without: str) -> dict[str, Any]:
    """Return the fields that count in comparisons, in JSON's own types."""
    return {f.name: plain(getattr(result, f.name)) for f in fields(result) if f.compare and f.name not in without}


def lines_of(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Return rows of a name and words as lines for a terminal."""
    return [f"{name:<8} {words}" for name, words in rows]
