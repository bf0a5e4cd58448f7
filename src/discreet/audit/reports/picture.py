"""The trade-off of an audit as a picture (SVG) that needs nothing from outside."""

from __future__ import annotations

from html import escape

from discreet.audit.finding import Floats, Tradeoff

_SIDE, _LEFT, _TOP = 320, 62, 14  # in the picture's own units
_RED, _BLUE, _GREY = "#b3261e", "#0072b2", "#5b6875"
_POINTS = 200

ERRORS = "type I error: x′ called x", "type II error: x called x′"
"""What the two axes are, where two neighbours are told apart."""


def svg(tradeoff: Tradeoff, errors: tuple[str, str] = ERRORS) -> str:
    """What the claim allows, the best test that was found, and its band, over the type I error."""
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
