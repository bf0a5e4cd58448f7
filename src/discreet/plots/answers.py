"""A release as a picture: every noisy number with its interval."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.errors import InvalidParameter
from discreet.plots.style import COLOURS, INK, dressed, zoomed
from discreet.plots.vega import Picture, Values, alt, inline, needed, written
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import decimal
from discreet.release import Release

MOST = 60
"""Rows that are drawn with a name each; dates and numbers may be many more."""

_MOST_POINTS = 2_000
_MEASURES = 4
_WIDE, _ROW = 460, 26
_COLOURED = len(COLOURS)  # values of the second key


@dataclass(frozen=True, slots=True)
class Shown:
    """What of a release is drawn: the columns of its keys, and those of its noisy numbers with their intervals."""

    keys: tuple[str, ...]
    measures: tuple[str, ...]
    intervals: dict[str, list[Any]]


def release(release: Release, *, confidence: Real = Fraction(19, 20)) -> Picture:
    """The rows of a release: a bar or a point for each number, with its interval; one panel for each noisy column.

    One key stands on the vertical axis, or, where it is a date or a number, on the horizontal one, with a band for the
    intervals. A second key is told by colour. Bars start at 0; where that would make them all look alike, there are
    points on an axis that does not. Lists, maps and noisy dates are left out.

    Guarantee:
        A function of the release alone: the picture and its files hold its rows and intervals, and nothing else.

    Raises:
        InvalidParameter: nothing with an interval, more than two keys, or more groups than can be told apart.
        MissingExtra: Altair or vl-convert is not installed.
    """
    if not isinstance(release, Release):
        raise InvalidParameter(
            f"a picture of an answer is made of a release, not of {type(release).__name__}.",
            hint="plots.release(session.sql(…))",
        )
    shown = _shown(release, confidence)
    needed()
    rows = _rows(release, shown)
    panels = [_panel(rows, shown, i) for i in range(len(shown.measures))]
    chart = (
        panels[0] if len(panels) == 1 else alt.hconcat(*panels) if len(shown.keys) else alt.vconcat(*panels)
    )
    by = " and ".join(written(k) for k in shown.keys)
    title = ", ".join(written(m) for m in shown.measures) + (f" by {by}" if by else "")
    level = Fraction(str(confidence)) if isinstance(confidence, float) else Fraction(confidence)
    return dressed(chart, title, [f"{decimal(100 * level)} % intervals; private at {release.plan.price}"])


def room(keys: int, measures: int) -> None:
    """Refuse what no picture has room for; so it can be said before a question is paid for.

    Raises:
        InvalidParameter: more than two keys, or no noisy column, or too many.
    """
    if keys > 2:
        raise InvalidParameter(
            f"a picture shows an answer by up to two columns, not by {keys}.",
            hint="group by fewer, or use the table",
        )
    if not measures:
        raise InvalidParameter(
            "there is no number with an interval to draw.", hint="ask for COUNT(*), SUM, AVG, …"
        )
    if measures > _MEASURES:
        raise InvalidParameter(
            f"a picture shows up to {_MEASURES} noisy columns, not {measures}.",
            hint="ask for fewer at a time",
        )


def _shown(release: Release, confidence: Real) -> Shown:
    keys, measures, intervals = [], [], {}
    for place, name in enumerate(release.columns):
        if release.plan.is_end(name):
            continue
        found = release.interval(name, confidence=confidence)
        values = [row[place] for row in release.rows]
        if any(_is_pair(pair) for pair in found):
            measures.append(name)
            intervals[name] = found
        elif all(pair is None for pair in found) and all(_is_scalar(v) for v in values):
            keys.append(name)
    if not release.rows:
        raise InvalidParameter("the release has no rows: there is nothing to draw.")
    room(len(keys), len(measures))
    return Shown(tuple(keys), tuple(measures), intervals)


def _is_pair(pair: object) -> bool:
    return (
        isinstance(pair, tuple)
        and len(pair) == 2
        and all(isinstance(end, int | float | Fraction) for end in pair)
    )


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | bool | int | float | dt.date)


def _rows(release: Release, shown: Shown) -> Values:
    """One record for each row: `k0`, `k1` the keys, and for each measure `v`, `l` and `h` with its number."""
    places = [release.columns.index(name) for name in (*shown.keys, *shown.measures)]
    count = len(shown.keys)
    rows: Values = []
    for i, row in enumerate(release.rows):
        cells = [row[p] for p in places]
        record: dict[str, Any] = {f"k{j}": _name(cell) for j, cell in enumerate(cells[:count])}
        for j, name in enumerate(shown.measures):
            pair = shown.intervals[name][i]
            record[f"v{j}"] = _number(cells[count + j])
            record[f"l{j}"], record[f"h{j}"] = (None, None) if pair is None else map(_number, pair)
        rows.append(record)
    return rows


def _name(value: Any) -> Any:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.date):
        return value.isoformat()
    return written(value) if isinstance(value, str) else value


def _number(value: Any) -> float | None:
    number = float("nan") if value is None else float(value)
    return number if math.isfinite(number) else None


def _panel(rows: Values, shown: Shown, measure: int) -> Any:
    if not shown.keys:
        return _alone(rows, shown, measure)
    kinds = [_kind(rows, j) for j in range(len(shown.keys))]
    distinct = [list(dict.fromkeys(row[f"k{j}"] for row in rows)) for j in range(len(shown.keys))]
    first = 0
    if len(kinds) == 2:
        # The key with a line of its own is on the axis: a date or number, else the one with more values.
        first = (
            1 if (kinds[1] != "nominal", len(distinct[1])) > (kinds[0] != "nominal", len(distinct[0])) else 0
        )
        if len(distinct[1 - first]) > _COLOURED:
            raise InvalidParameter(
                f"a picture tells up to {_COLOURED} values of a second column apart, not {len(distinct[1 - first])}.",
                hint="group by one column, or ask for fewer of its values with WHERE",
            )
    second = None if len(kinds) == 1 else 1 - first
    groups = [] if second is None else distinct[second]
    if kinds[first] != "nominal" and len(distinct[first]) > 8:
        return _along(rows, shown, measure, first, second, groups, kinds[first])
    return _grouped(rows, shown, measure, first, second, groups, distinct[first])


def _kind(rows: Values, j: int) -> str:
    values = [row[f"k{j}"] for row in rows if row[f"k{j}"] != "NULL"]
    if values and all(isinstance(v, int | float) for v in values):
        return "quantitative"
    return "temporal" if values and all(_is_date(v) for v in values) else "nominal"


def _is_date(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(dt.datetime.fromisoformat(value)) and len(value) >= 10
    except ValueError:
        return False


def _within_a_year(rows: Values, j: int) -> bool:
    """Whether days, without the year, say which they are."""
    days = [row[f"k{j}"] for row in rows]
    return all(len(d) == 10 for d in days) and dt.date.fromisoformat(max(days)) - dt.date.fromisoformat(
        min(days)
    ) < dt.timedelta(days=365)


def _told(shown: Shown, measure: int) -> list[Any]:
    kinds = [alt.Tooltip(f"k{j}:N", title=written(name)) for j, name in enumerate(shown.keys)]
    name = written(shown.measures[measure])
    return [
        *kinds,
        alt.Tooltip(f"v{measure}:Q", title=name, format=",.6~g"),
        alt.Tooltip(f"l{measure}:Q", title="from", format=",.6~g"),
        alt.Tooltip(f"h{measure}:Q", title="to", format=",.6~g"),
    ]


def _bars(rows: Values, measure: int) -> bool:
    """Whether bars from 0 show the differences: all above 0, the least at most half of the largest."""
    values = [row[f"v{measure}"] for row in rows if row[f"v{measure}"] is not None]
    return bool(values) and min(values) >= 0 and min(values) <= 0.5 * max(values)


def _scale(rows: Values, shown: Shown, measure: int, *, bars: bool) -> dict[str, Any]:
    large = max((abs(row[f"{end}{measure}"] or 0) for row in rows for end in "vlh"), default=0) >= 1e6
    axis = alt.Axis(tickCount=5, format="~s") if large else alt.Axis(tickCount=5)
    return {"title": written(shown.measures[measure]), "scale": alt.Scale(zero=bars), "axis": axis}


def _grouped(
    rows: Values,
    shown: Shown,
    measure: int,
    first: int,
    second: int | None,
    groups: list[Any],
    names: list[Any],
) -> Any:
    if len(rows) > MOST:
        raise InvalidParameter(
            f"a picture names up to {MOST} groups, not {len(rows)}.",
            hint="ask for fewer, with ORDER BY … LIMIT 20",
        )
    bars = _bars(rows, measure)
    y = alt.Y(
        f"k{first}:N",
        sort=names,
        scale=alt.Scale(paddingInner=0.3),
        title=written(shown.keys[first]),
        axis=alt.Axis(labelLimit=180, grid=False),
    )
    base = alt.Chart(inline(rows)).encode(y=y)
    many = max(len(groups), 1)
    if second is not None:
        colour = alt.Color(
            f"k{second}:N",
            scale=alt.Scale(domain=groups, range=list(COLOURS[: len(groups)])),
            legend=alt.Legend(
                title=written(shown.keys[second]), symbolType="square", symbolStrokeWidth=0, symbolSize=160
            ),
        )
        base = base.encode(
            yOffset=alt.YOffset(f"k{second}:N", sort=groups, scale=alt.Scale(paddingInner=0.15)), color=colour
        )
    x = alt.X(f"v{measure}:Q", **_scale(rows, shown, measure, bars=bars))
    fixed: dict[str, Any] = {} if second is not None else {"color": COLOURS[0]}
    told = _told(shown, measure)
    if bars:
        value = base.mark_bar(opacity=0.75, **fixed).encode(x=x, tooltip=told)
    else:
        value = base.mark_point(filled=True, size=110, opacity=1, **fixed).encode(x=x, tooltip=told)
    # Intervals: dark on bars, in the colour of the group beside points.
    dark: dict[str, Any] = {"color": INK} if bars or second is None else {}
    line = base.encode(
        x=alt.X(f"l{measure}:Q", **_scale(rows, shown, measure, bars=bars)), x2=f"h{measure}:Q"
    )
    if dark and second is not None:
        line = line.encode(color=alt.value(INK))
    layers = [value, line.mark_rule(strokeWidth=2, **dark)]
    for end in ("l", "h"):
        tick = base.encode(x=alt.X(f"{end}{measure}:Q", **_scale(rows, shown, measure, bars=bars)))
        if dark and second is not None:
            tick = tick.encode(color=alt.value(INK))
        layers.append(tick.mark_tick(thickness=2, size=10, opacity=1, **dark))
    height = max(_ROW * len(names) * (1 if many == 1 else 0.8 * many), 60)
    return alt.layer(*(layers if bars else [*layers[1:], value])).properties(width=_WIDE, height=height)


def _along(
    rows: Values, shown: Shown, measure: int, first: int, second: int | None, groups: list[Any], kind: Any
) -> Any:
    if len(rows) > _MOST_POINTS:
        raise InvalidParameter(
            f"a picture shows up to {_MOST_POINTS:,} rows, not {len(rows):,}.",
            hint="group by month instead of day",
        )
    kept = [row for row in rows if row[f"k{first}"] != "NULL"]
    scale = alt.Scale(type="utc") if kind == "temporal" else alt.Scale(zero=False, nice=False)
    axis: dict[str, Any] = (
        {"axis": alt.Axis(format="%d %b")} if kind == "temporal" and _within_a_year(kept, first) else {}
    )
    x = alt.X(f"k{first}", type=kind, scale=scale, title=written(shown.keys[first]), **axis)
    bars = _bars(rows, measure)
    base = alt.Chart(inline(kept)).encode(x=x)
    fixed: dict[str, Any] = {"color": COLOURS[0]}
    if second is not None:
        colour = alt.Color(
            f"k{second}:N",
            scale=alt.Scale(domain=groups, range=list(COLOURS[: len(groups)])),
            legend=alt.Legend(title=written(shown.keys[second]), symbolType="stroke"),
        )
        base, fixed = base.encode(color=colour), {}
    y = alt.Y(f"v{measure}:Q", **_scale(rows, shown, measure, bars=bars))
    band = base.mark_area(opacity=0.25, **fixed).encode(
        y=alt.Y(f"l{measure}:Q", **_scale(rows, shown, measure, bars=bars)), y2=f"h{measure}:Q"
    )
    line = base.mark_line(strokeWidth=2, **fixed).encode(y=y)
    dots = base.mark_point(filled=True, size=36, opacity=1, **fixed).encode(
        y=y, tooltip=_told(shown, measure)
    )
    return zoomed(alt.layer(band, line, dots).properties(width=620, height=320), f"zoom{measure}", "x")


def _alone(rows: Values, shown: Shown, measure: int) -> Any:
    """One row without keys: a point on its own axis."""
    base = alt.Chart(inline(rows))
    low = alt.X(f"l{measure}:Q", **_scale(rows, shown, measure, bars=False))
    line = base.mark_rule(strokeWidth=3, color=INK).encode(x=low, x2=f"h{measure}:Q")
    ticks = [
        base.mark_tick(thickness=2, size=16, opacity=1, color=INK).encode(
            x=alt.X(f"{end}{measure}:Q", **_scale(rows, shown, measure, bars=False))
        )
        for end in ("l", "h")
    ]
    point = base.mark_point(filled=True, size=170, opacity=1, color=COLOURS[0]).encode(
        x=alt.X(f"v{measure}:Q", **_scale(rows, shown, measure, bars=False)), tooltip=_told(shown, measure)
    )
    return alt.layer(line, *ticks, point).properties(width=_WIDE, height=60)
