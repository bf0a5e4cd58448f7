"""A release as a picture: every noisy number with its interval."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeAlias

from discreet.catalog.schema import Values as ValuesFact
from discreet.catalog.types import Type
from discreet.engine.release import Release
from discreet.errors import InvalidParameter
from discreet.plots.style import CLOCK, COLOURS, INK, dressed, zoomed
from discreet.plots.vega import Picture, Values, alt, inline, needed, written
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import decimal

if TYPE_CHECKING:
    from discreet.plan.plan import Plan
    from discreet.plan.query import Query
    from discreet.query.expr import Expr

MOST = 60
"""Rows that are drawn with a name each; dates and numbers may be many more."""

_MOST_POINTS = 2_000
_MEASURES = 4
_WIDE, _ROW = 460, 26
_COLOURED = len(COLOURS)  # values of the second key
_FEW = 8  # dates or numbers that are rows with a name each; more make a line
_LABEL = 180  # points of a name beside a row
_LIMIT = 300  # points of a title along an axis
_HEAD = 600  # points of a title beside the panels
_LETTER = 7  # points of a letter in the lines below a title
_DAY = 86_400.0
_UNITS = {
    "year": 366 * _DAY,
    "quarter": 92 * _DAY,
    "month": 31 * _DAY,
    "week": 7 * _DAY,
    "day": _DAY,
    "hour": 3600.0,
    "minute": 60.0,
    "second": 1.0,
}  # to which times are cut off, and the longest of each
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")  # what every reader of pictures takes
_TAKEN = frozenset({"image", "title"})  # a tooltip fetches the one, as a picture, and makes a heading of the other


@dataclass(frozen=True, slots=True)
class Shown:
    """What of a release is drawn: the columns of its keys, and those of its noisy numbers with their intervals."""

    keys: tuple[str, ...]
    measures: tuple[str, ...]
    intervals: dict[str, list[Any]]
    orders: tuple[dict[Any, int], ...] = ()
    """For each key the place of each declared value, as it is named; empty where groups are selected privately."""
    steps: tuple[float, ...] = ()
    """For each key how far apart two values are between which no other lies; 0 where that is not known."""
    coded: tuple[bool, ...] = ()
    """Whether the numbers of a key are codes or bins, which are bars, rather than a scale."""


def release(release: Release, *, confidence: Real = Fraction(19, 20), labels: bool = True) -> Picture:
    """Return the rows of a release: a bar or a point for each number, with its interval; one panel for each noisy
    column.

    One key stands on the vertical axis, or, where it is a date or a number, on the horizontal one, with a band for the
    intervals. A second key is told by colour. Bars start at 0; where that would make them all look alike, there are
    points on an axis that does not. Declared codes and bins are bars. A line ends where a group may be missing, and
    goes on behind it. Lists, maps and noisy dates are left out, and so is NULL on an axis of dates or numbers. The
    notes stand below the title.

    Args:
        release: what is drawn.
        confidence: of the intervals.
        labels: whether keys have the labels that the owner gave their values.

    Guarantee:
        A function of the release alone: the picture and its files hold its rows and intervals, and nothing else.

    Raises:
        InvalidParameter: nothing with an interval, more than two keys, or more groups than can be told apart.
        MissingExtra: Altair or vl-convert is not installed.
    """
    if not isinstance(release, Release):
        raise InvalidParameter(
            f"a picture of a result is made of a release, not of {type(release).__name__}.",
            hint="plots.release(session.sql(…))",
        )
    shown = _shown(release, confidence)
    needed()
    rows = _rows(release, shown, release.rows if labels else release.codes)
    panels = [_panel(rows, shown, i) for i in range(len(shown.measures))]
    chart = panels[0] if len(panels) == 1 else alt.hconcat(*panels) if len(shown.keys) else alt.vconcat(*panels)
    by = " and ".join(written(k) for k in shown.keys)
    title = ", ".join(written(m) for m in shown.measures) + (f" by {by}" if by else "")
    level = Fraction(str(confidence)) if isinstance(confidence, float) else Fraction(confidence)
    words = [f"{decimal(100 * level)} % intervals; private at {release.plan.price}"]
    if release.stored and release.drawn is not None:
        words.append(written(str(release.drawn)))
    ends = [(row[f"v{i}"], row[f"l{i}"], row[f"h{i}"]) for row in rows for i in range(len(shown.measures))]
    if any(value is not None and None in (low, high) for value, low, high in ends):
        why = "it has no bounds" if release.plan.outer is None else "none is known"
        words.append(f"where there is no interval beside a number, {why}")
    if any(value is None for value, _, _ in ends):
        words.append("where there is no number, it is NULL, perhaps by its noise")
    wide = _HEAD * (len(panels) if shown.keys else 1)
    words += [line for note in release.notes for line in wrap(written(note), wide // _LETTER)]
    return dressed(chart, title, words, limit=wide)


def columns(plan: Plan, name: str = "") -> tuple[list[str], list[str]]:
    """Which output columns would be keys and which noisy numbers, from the plan of a query, or of the one named, alone.

    A number that is made of keys is a key; lists, maps, noisy dates and the ends of intervals are neither, and so are
    noisy columns of SQL over results of which no interval is known.
    """
    if plan.outer is not None:
        keys = [n for n in plan.columns if not plan.is_noisy(n)]
        return keys, [n for n in plan.columns if plan.has_interval(n)]
    return _of_query(plan.outputs[name].query)


def _of_query(plan: Query) -> tuple[list[str], list[str]]:
    keys: list[str] = []
    measures: list[str] = []
    for name in plan.columns:
        expr = plan.column(name)
        if plan.is_end(name) or (expr.type is not None and expr.type.is_nested):
            continue
        noisy = expr.type is not None and (expr.type.is_number or expr.type.is_moment) and bool(expr.atoms())
        if not noisy:
            keys.append(name)
        elif expr.type is not None and expr.type.is_number:
            measures.append(name)
    return keys, measures


def room(keys: int, measures: int) -> None:
    """Refuse what no picture has room for; so it can be said before a query is paid for.

    Raises:
        InvalidParameter: more than two keys, or no noisy column, or too many.
    """
    if keys > 2:
        raise InvalidParameter(
            f"a picture shows a result by up to two columns, not by {keys}.", hint="group by fewer, or use the table"
        )
    if not measures:
        raise InvalidParameter("there is no number with an interval to draw.", hint="ask for COUNT(*), SUM, AVG, …")
    if measures > _MEASURES:
        raise InvalidParameter(
            f"a picture shows up to {_MEASURES} noisy columns, not {measures}.", hint="ask for fewer at a time"
        )


def _shown(release: Release, confidence: Real) -> Shown:
    keys, measures = columns(release.plan, release.name)
    numbers = {n: all(v is None or isinstance(v, int | float) for v in release[n]) for n in measures}
    measures = [n for n in measures if numbers[n]]
    intervals = {name: release.interval(name, confidence=confidence) for name in measures}
    if not release.rows:
        raise InvalidParameter("the release has no rows: there is nothing to draw.")
    room(len(keys), len(measures))
    places = [release.columns.index(name) for name in keys]
    if len({tuple(_name(row[p]) for p in places) for row in release.rows}) < len(release.rows):
        raise InvalidParameter(
            "several rows of the release have the same name, so that a picture would not tell them apart.",
            hint="select every column that the query groups by",
        )
    orders = tuple(_order(release.origin(name)) for name in keys)
    steps = tuple(1.0 if order else _step(release.origin(name)) for name, order in zip(keys, orders, strict=True))
    coded = tuple(_is_coded(release.origin(name)) for name in keys)
    return Shown(tuple(keys), tuple(measures), intervals, orders, steps, coded)


_Origin: TypeAlias = "tuple[Query, str] | None"
"""The query that has a column, and its name there; None where it is computed from results."""


def _key_of(origin: _Origin) -> Expr | None:
    """Return what the query groups by, where an output column is just that."""
    place = None if origin is None else origin[0].column(origin[1]).key
    return None if place is None or origin is None else origin[0].question.keys.exprs[place]


def _step(origin: _Origin) -> float:
    """Return the distance of neighbouring values of a key, dates in seconds; 0 where it is not known."""
    key = _key_of(origin)
    if key is None or key.type is None:
        return 0.0
    if key.column is not None:
        return {Type.INT: 1.0, Type.DATE: _DAY}.get(key.type, 0.0)
    return next((length for unit, length in _UNITS.items() if key.args_of(f"trunc_{unit}")), 0.0)


def _is_coded(origin: _Origin) -> bool:
    key = _key_of(origin)
    if key is None or key.column is None or origin is None:
        return True
    return isinstance(origin[0].question.table.facts.get(key.column), ValuesFact)


def _order(origin: _Origin) -> dict[Any, int]:
    """Return the places of a key's declared values; empty where it has none."""
    if origin is None:
        return {}
    plan, column = origin
    expr, lists = plan.column(column), plan.question.keys.lists
    if lists is None or expr.key is None or expr.key >= len(lists):
        return {}
    known: list[Any] = sorted(v for v in lists[expr.key] if v is not None)
    return {_name(v): i for i, v in enumerate(known)}


def _rows(release: Release, shown: Shown, read: list[tuple[Any, ...]]) -> Values:
    """One record for each row: `k0`, `k1` the keys, and for each measure `v`, `l` and `h` with its number."""
    places = [release.columns.index(name) for name in (*shown.keys, *shown.measures)]
    count = len(shown.keys)
    rows: Values = []
    for i, row in enumerate(read):
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
    if value == "NULL":
        return '"NULL"\u200b'  # a text, which is not the group of what is absent
    if isinstance(value, int) and abs(value) > 1 << 53:  # a browser's numbers are floats
        return str(value)
    return value if isinstance(value, int | float) else written(value)


def _number(value: Any) -> float | None:
    number = float("nan") if value is None else float(value)
    return number if math.isfinite(number) else None


def _panel(rows: Values, shown: Shown, measure: int) -> Any:
    if not shown.keys:
        return _alone(rows, shown, measure)
    kinds = [_kind(rows, j) for j in range(len(shown.keys))]
    distinct = [list(dict.fromkeys(row[f"k{j}"] for row in rows)) for j in range(len(shown.keys))]
    lines = [kind != "nominal" and len(few) > _FEW for kind, few in zip(kinds, distinct, strict=True)]
    for j, kind in enumerate(kinds):
        if kind == "quantitative" and shown.coded[j] and len(distinct[j]) <= MOST:
            lines[j] = False
    first = 0
    if len(kinds) == 2:
        # On the axis is the key that makes a line, of dates or numbers, else the one with more values.
        first = 1 if (lines[1], len(distinct[1])) > (lines[0], len(distinct[0])) else 0
        if len(distinct[1 - first]) > _COLOURED:
            raise InvalidParameter(
                f"a picture tells up to {_COLOURED} values of a second column apart, not {len(distinct[1 - first])}.",
                hint="group by one column, or ask for fewer of its values with WHERE",
            )
    second = None if len(kinds) == 1 else 1 - first
    named = [j for j in range(len(kinds)) if not (lines[j] and j == first)]
    rows = [{**row, **{f"k{j}": _text(row[f"k{j}"]) for j in named}} for row in rows]
    distinct = [list(map(_text, found)) if j in named else found for j, found in enumerate(distinct)]
    groups = [] if second is None else distinct[second]
    if lines[first]:
        return _along(rows, shown, measure, first, second, groups, kinds[first])
    return _grouped(rows, shown, measure, first, second, groups, distinct[first])


def _text(value: Any) -> str:
    """Return a number that is a name, as one: names beside NULL have to be of one kind."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _kind(rows: Values, j: int) -> str:
    values = [row[f"k{j}"] for row in rows if row[f"k{j}"] != "NULL"]
    if values and all(isinstance(v, int | float) for v in values):
        return "quantitative"
    return "temporal" if values and all(_is_date(v) for v in values) else "nominal"


def _is_date(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(_DATE.fullmatch(value)) and bool(dt.datetime.fromisoformat(value))
    except ValueError:
        return False


def _instant(value: str) -> str:
    """Return a time without a zone as one of UTC, in which it is drawn: else the machine's zone would move it."""
    return value if len(value) == 10 else value.replace(" ", "T") + "Z"


def _within_a_year(rows: Values, j: int) -> bool:
    """Whether days, without the year, say which they are."""
    days = [row[f"k{j}"] for row in rows]
    return all(len(d) == 10 for d in days) and dt.date.fromisoformat(max(days)) - dt.date.fromisoformat(
        min(days)
    ) < dt.timedelta(days=365)


def _told(shown: Shown, measure: int) -> list[Any]:
    kinds = [alt.Tooltip(f"k{j}:N", title=_heading(name)) for j, name in enumerate(shown.keys)]
    name = _heading(shown.measures[measure])
    return [
        *kinds,
        alt.Tooltip(f"v{measure}:Q", title=name, format=",.6~g"),
        alt.Tooltip(f"l{measure}:Q", title="from", format=",.6~g"),
        alt.Tooltip(f"h{measure}:Q", title="to", format=",.6~g"),
    ]


def _heading(name: str) -> str:
    """Return a column's name in a tooltip; an unseen space keeps it from being one of a tooltip's own words."""
    return written(name) + ("\u200b" if name in _TAKEN else "")


def _bars(rows: Values, measure: int) -> bool:
    """Whether bars from 0 show the differences: all above 0, the least at most half of the largest."""
    values = [row[f"v{measure}"] for row in rows if row[f"v{measure}"] is not None]
    return bool(values) and min(values) >= 0 and min(values) <= 0.5 * max(values)


def _scale(rows: Values, shown: Shown, measure: int, *, bars: bool) -> dict[str, Any]:
    large = max((abs(row[f"{end}{measure}"] or 0) for row in rows for end in "vlh"), default=0) >= 1e6
    looks: dict[str, Any] = {"format": "~s"} if large else {}
    axis = alt.Axis(tickCount=5, titleLimit=_LIMIT, **looks)
    numbers = any(row[f"v{measure}"] is not None for row in rows)
    scale = alt.Scale(zero=bars) if numbers else alt.Scale(domain=[0, 1])  # of nothing an axis has no ends
    return {"title": written(shown.measures[measure]), "scale": scale, "axis": axis}


def _grouped(
    rows: Values, shown: Shown, measure: int, first: int, second: int | None, groups: list[Any], names: list[Any]
) -> Any:
    if len(rows) > MOST:
        raise InvalidParameter(
            f"a picture names up to {MOST} groups, not {len(rows)}.", hint="ask for fewer, with ORDER BY … LIMIT 20"
        )
    bars = _bars(rows, measure)
    many = max(len(groups), 1)
    height = max(_ROW * len(names) * (1 if many == 1 else 0.8 * many), 60)
    y = alt.Y(
        f"k{first}:N",
        sort=names,
        scale=alt.Scale(paddingInner=0.3),
        title=written(shown.keys[first]),
        axis=alt.Axis(labelLimit=_LABEL, grid=False, titleLimit=max(height, _LABEL)),
    )
    base = alt.Chart(inline(rows)).encode(y=y)
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
    line = base.encode(x=alt.X(f"l{measure}:Q", **_scale(rows, shown, measure, bars=bars)), x2=f"h{measure}:Q")
    if dark and second is not None:
        line = line.encode(color=alt.value(INK))
    layers = [value, line.mark_rule(strokeWidth=2, **dark)]
    for end in ("l", "h"):
        tick = base.encode(x=alt.X(f"{end}{measure}:Q", **_scale(rows, shown, measure, bars=bars)))
        if dark and second is not None:
            tick = tick.encode(color=alt.value(INK))
        layers.append(tick.mark_tick(thickness=2, size=10, opacity=1, **dark))
    return alt.layer(*(layers if bars else [*layers[1:], value])).properties(width=_WIDE, height=height)


def _along(
    rows: Values, shown: Shown, measure: int, first: int, second: int | None, groups: list[Any], kind: Any
) -> Any:
    if len(rows) > _MOST_POINTS:
        raise InvalidParameter(
            f"a picture shows up to {_MOST_POINTS:,} rows, not {len(rows):,}.", hint="group by month instead of day"
        )
    kept = [row for row in rows if row[f"k{first}"] != "NULL" and row[f"v{measure}"] is not None]
    kept = _in_runs(
        kept, f"k{first}", None if second is None else f"k{second}", shown.orders[first], shown.steps[first]
    )
    if kind == "temporal":
        kept = [{**row, f"k{first}": _instant(row[f"k{first}"])} for row in kept]
    ends: dict[str, Any] = {"nice": False, "padding": 8}  # whole dots at both ends
    scale = alt.Scale(type="utc", **ends) if kind == "temporal" else alt.Scale(zero=False, **ends)
    looks: dict[str, Any] = {"titleLimit": _LIMIT, "tickCount": 8}
    if kind == "temporal":
        looks["format"] = "%d %b" if _within_a_year(kept, first) else CLOCK
    if kind == "quantitative" and all(isinstance(row[f"k{first}"], int) for row in kept):
        looks |= {"tickMinStep": 1, "format": "d"}  # years have no commas
    x = alt.X(f"k{first}", type=kind, scale=scale, title=written(shown.keys[first]), axis=alt.Axis(**looks))
    bars = _bars(rows, measure)
    base = alt.Chart(inline(kept)).encode(x=x, detail=alt.Detail("run:N"))
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
    dots = base.mark_point(filled=True, size=36, opacity=1, **fixed).encode(y=y, tooltip=_told(shown, measure))
    layers = [band, line, dots]
    runs = [row["run"] for row in kept]
    if single := [row for row in kept if runs.count(row["run"]) == 1]:  # of which a band would not be seen
        rule = base.properties(data=inline(single)).mark_rule(strokeWidth=2, opacity=0.5, **fixed)
        low = alt.Y(f"l{measure}:Q", **_scale(rows, shown, measure, bars=bars))
        layers.insert(0, rule.encode(y=low, y2=f"h{measure}:Q"))
    return zoomed(alt.layer(*layers).properties(width=620, height=320), f"zoom{measure}", "x")


def _in_runs(rows: Values, key: str, colour: str | None, order: Mapping[Any, int], step: float) -> Values:
    """Return the rows with the number of their run: of keys between which none is missing, in one colour.

    None is missing between two that are declared one after the other, or else at most a step apart. Where the step is
    not known, each row is a run.
    """
    place = {row[key]: float(order[row[key]]) if order else _along_axis(row[key]) for row in rows}
    found: Values = []
    last: dict[Any, tuple[float, int]] = {}
    runs = count()
    for row in sorted(rows, key=lambda row: place[row[key]]):
        at, of = place[row[key]], None if colour is None else row[colour]
        before = last.get(of)
        joined = before is not None and at - before[0] <= step
        run = before[1] if before is not None and joined else next(runs)
        last[of] = (at, run)
        found.append({**row, "run": run})
    return found


def _along_axis(key: Any) -> float:
    """Where a number, a date or a time lies on its axis."""
    if not isinstance(key, str):
        return float(key)
    return (dt.datetime.fromisoformat(key) - dt.datetime(1970, 1, 1)).total_seconds()


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
