"""What truncation reports say: intervals that cover, and sentences on bias that are true of the data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from hashlib import shake_256
from typing import Any

import numpy as np
import pytest

from discreet.catalog.schema import Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.planner import make_query
from discreet.plan.query import Query
from discreet.plan.reports import Part, Report
from discreet.post.truncation import Reported, bias, report_notes, reported
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.testing import ReplayEntropy
from tests.coverage import covers

COLUMNS = {"uid": Type.INT, "x": Type.REAL, "ward": Type.TEXT}
FACTS: dict[str, Range | Values] = {"x": Range(0, 100), "ward": Values("a", "b")}
MANY = PrivacyUnit("uid", max_groups=2, max_rows=5)
PARTS = (Part.BELOW, Part.ABOVE, Part.NULL)


def planned(sql: str, unit: PrivacyUnit | None = None, **asked: Any) -> Query:
    table = TableSchema("t", COLUMNS, FACTS, unit or PrivacyUnit.row(), Relation.ADD_REMOVE)
    options = {"population": "p", "version": None, "epsilon": 2, "truncation": "1/2", **asked}
    return make_query(sql, [table], **options)


def report(is_row: bool) -> Report:
    return Report("'x'", PARTS, ("", "", ""), None, "[0, 100]", is_row)


# --- shares ---


@pytest.mark.laws
@pytest.mark.sampled(4)
@pytest.mark.parametrize("is_row", [True, False])
@pytest.mark.parametrize("scale", [2, 30])
def test_intervals_of_shares_cover_and_hardly_more(is_row: bool, scale: int) -> None:
    exact = (400, 60, 0, 40) if is_row else (400, 30, 0, 10, 40, 10, 10, 0)
    noise, rng = (
        DiscreteLaplaceNoise(Fraction(scale)),
        ReplayEntropy(shake_256(bytes([scale, is_row])).digest(1 << 20)),
    )
    true = {p: sum(exact[i] for i in report(is_row).counted([p])) for p in PARTS}
    runs, hit, over, narrow = 400, dict.fromkeys(PARTS, 0), dict.fromkeys(PARTS, 0), dict.fromkeys(PARTS, 0)
    less = DiscreteLaplaceNoise(Fraction(scale, 4))
    for _ in range(runs):
        drawn = tuple(noise.add(exact, rng))
        found = Reported(report(is_row), noise, drawn)
        for part, share in Reported(report(is_row), less, drawn).shares.items():
            narrow[part] += share.low <= true[part] / sum(exact) <= share.high
        for part, share in found.shares.items():
            hit[part] += share.low <= true[part] / sum(exact) <= share.high
            over[part] += found.most(part) < true[part]
            assert 0 <= share.low <= share.share <= share.high <= 1
    assert all(covers(n, runs, 0.95) for n in hit.values()), hit
    assert all(covers(runs - n, runs, 0.975) for n in over.values()), over
    assert not any(covers(n, runs, 0.95) for n in narrow.values()), narrow
    assert min(hit.values()) < runs  # a wider interval would hold always


def test_shares_are_shares_whatever_the_noise() -> None:
    noise = DiscreteLaplaceNoise(Fraction(5))
    for counts in ((0, 0, 0, 0), (-9, -9, -9, -9), (-50, 3, -2, 1), (10**9, 0, 0, 0)):
        found = Reported(report(True), noise, counts)
        assert all(0 <= s.low <= s.share <= s.high <= 1 for s in found.shares.values())
        assert found.count(Part.ABOVE) >= 0 and found.most(Part.ABOVE) >= 0


def test_a_report_is_told_as_json() -> None:
    found = Reported(report(True), DiscreteLaplaceNoise(Fraction(1, 100)), (90, 0, 10, 0)).to_json()
    assert found["of"] == "'x'" and found["bounds"] == "[0, 100]" and found["counted"] == "rows"
    assert found["shares"]["above"] == {"share": 0.1, "interval": [0.1, 0.1]}


# --- bias ---


def exact_reports(plan: Query, rows: Sequence[tuple[int, Any, Any]], groups: int = 2) -> list[int]:
    """The counts of a plan over rows of (uid, x, ward), in plain Python and without noise."""
    found: list[int] = []
    for r in plan.reports:
        of_unit: dict[int, set[Part]] = {}
        entered: dict[int, dict[Any, int]] = {}
        for i, (uid, x, ward) in enumerate(rows):
            who = i if r.is_row else uid
            parts = of_unit.setdefault(who, set())
            if r.of is None:
                if ward in ("a", "b") or not plan.question.keys.exprs:
                    own = entered.setdefault(who, {})
                    key = ward if plan.question.keys.exprs else 0
                    own[key] = own.get(key, 0) + 1
            elif "key" in r.name:
                parts |= set() if ward in ("a", "b") else {Part.NULL if ward is None else Part.UNDECLARED}
            elif x is None or x < 0 or x > 100:
                parts.add(Part.NULL if x is None else Part.BELOW if x < 0 else Part.ABOVE)
        for who, own in entered.items():
            of_unit[who] |= {Part.GROUPS} if len(own) > groups else set()
            of_unit[who] |= {Part.ROWS} if max(own.values()) > 5 else set()
        counts = [0] * r.places
        for parts in of_unit.values():
            places = [r.parts.index(p) for p in parts]
            counts[sum(p + 1 if r.is_row else 1 << p for p in places)] += 1
        found += counts
    return found


def told(plan: Query, counts: Sequence[int], cells: tuple[int, ...], interval: tuple[float, float]) -> list[str]:
    return report_notes(plan, reported(plan, counts), lambda _: [(cells, plan.allocation.noises, interval)])


def limits(note: str) -> tuple[int, float]:
    """The most rows or units that are concerned, and how far they may lie, as a sentence says."""
    most, far = re.search(r"at most ([\d,]+)", note), re.search(r"more than ([\d,.e+]+)", note)
    assert most is not None and far is not None, note
    return int(most[1].replace(",", "")), float(far[1].rstrip(".").replace(",", ""))


@pytest.mark.parametrize("unit", [None, MANY], ids=["rows", "people"])
@pytest.mark.parametrize("far", [101.0, 150.0, 1_000.0, 1e6])
def test_where_a_sum_is_biased_beyond_its_margin_the_sentence_allows_for_it(
    unit: PrivacyUnit | None, far: float
) -> None:
    plan = planned("SELECT SUM(x) AS s FROM t", unit)
    rows = [(i // 4, float(i % 100), "a") for i in range(2000)] + [(600 + i, far, "a") for i in range(40)]
    margin = plan.error("s")
    cut = sum(max(x - 100, 0) for _, x, _ in rows)
    note = told(plan, exact_reports(plan, rows), (0,), (-margin, margin))[-1]
    most, allowed = limits(note)
    assert most >= 40
    # in words: the bias is beyond the margin only if the average is beyond what is said
    assert cut <= margin or cut / 40 > allowed
    width = 100 if unit is None else 500
    assert ("may exceed" in note) == (margin / most < width)


def test_a_mean_is_biased_by_a_share_of_what_is_cut_off() -> None:
    plan = planned("SELECT AVG(x) AS a FROM t")
    place = [type(m).__name__ for m in plan.question.measures].index("KnownCount")
    for beyond, far, n in ((40, 250.0, 2000), (40, 104.0, 2000), (1, 1e5, 50_000)):
        rows = [(0, float(i % 100), "a") for i in range(n - beyond)] + [(0, far, "a")] * beyond
        values = [x for _, x, _ in rows]
        moved = sum(values) / n - sum(min(x, 100.0) for x in values) / n
        cells = [0, 0]
        cells[place] = n
        note = told(plan, exact_reports(plan, rows), tuple(cells), (49.0, 51.0))[-1]
        most, allowed = limits(note)
        assert most >= beyond and (moved <= 1 or far - 100 > allowed), note
        assert allowed <= n / most  # a mean over fewer rows would be moved further
        assert note.startswith("Truncation bias of 'a'")


def test_caps_bias_counts_and_the_sentence_allows_for_it() -> None:
    plan = planned("SELECT COUNT(*) AS n FROM t", MANY)
    rows = [(u, 1.0, "a") for u in range(300) for _ in range(1 + 30 * (u < 20))]
    bounded = sum(min(1 + 30 * (u < 20), 5) for u in range(300))
    margin = plan.error("n")
    note = told(plan, exact_reports(plan, rows), (bounded,), (bounded - margin, bounded + margin))[-1]
    most, allowed = limits(note)
    assert len(rows) - bounded > margin and most >= 20 and (len(rows) - bounded) / 20 > allowed
    assert "of each unit concerned" in note


def test_caps_bias_a_count_of_people_by_one_each_in_a_group() -> None:
    text = "SELECT ward, COUNT(DISTINCT uid) AS n FROM t GROUP BY ward"
    narrow = PrivacyUnit("uid", max_groups=1, max_rows=5)
    plan = planned(text, narrow, epsilon=100)
    for people, said in ((1, "is within its margin of error"), (400, "may exceed its margin of error")):
        rows = [(u, 1.0, w) for u in range(500) for w in "ab"[: 1 + (u < people)]]
        note = told(plan, exact_reports(plan, rows, groups=1), (250,), (245.0, 255.0))[-1]
        assert note.startswith(f"Truncation bias of 'n' {said}"), note
    plan = planned("SELECT COUNT(DISTINCT uid) AS n FROM t", narrow)
    assert [n for n in told(plan, [0] * plan.reports[0].places, (0,), (-1.0, 1.0)) if "bias" in n] == []


def test_what_is_not_known_to_move_in_proportion_may_always_exceed_its_margin() -> None:
    for sql, unit in (
        ("SELECT AVG(x) AS a FROM t", MANY),
        ("SELECT STDDEV(x) AS a FROM t", None),
        ("SELECT SUM(x) / COUNT(*) AS a FROM t", None),
        ("SELECT MAX(x) AS a FROM t", None),
        ("SELECT MODE(ward) AS a FROM t", None),
    ):
        plan = planned(sql, unit)
        counts = [0] * sum(r.places for r in plan.reports)
        note = told(plan, counts, (0,) * 5, (-1.0, 1.0))[-1]
        assert note == "Truncation bias of 'a' may exceed its margin of error: nothing limits what is cut off."


@pytest.mark.parametrize(
    ("below", "above", "p", "within"),
    [(0, 0, 0.5, True), (400, 0, 0.5, True), (498, 0, 0.5, False), (0, 498, 0.5, False), (97, 0, 0.1, False),
     (100, 800, 0.15, True), (300, 300, 0.9, False)],
)  # fmt: skip
def test_a_quantile_that_lies_within_the_bounds_is_not_biased(below: int, above: int, p: float, within: bool) -> None:
    plan = planned(f"SELECT QUANTILE_CONT(x, {p}) AS q FROM t")
    rows = [(0, -5.0, "a")] * below + [(0, 50.0, "a")] * (1000 - below - above) + [(0, 900.0, "a")] * above
    note = told(plan, exact_reports(plan, rows), (), (0.0, 100.0))[-1]
    assert ("No truncation bias" in note) is within
    if within:
        values = np.array([x for _, x, _ in rows])
        assert np.quantile(values, p) == np.quantile(np.clip(values, 0, 100), p)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("value", "known"),
    [
        ("x", True),
        ("n", True),
        ("CAST(n AS DOUBLE)", True),
        ("CAST(text AS DOUBLE)", True),
        ("2 * n", True),
        ("CASE WHEN ward = 'a' THEN n ELSE 0 END", True),
        ("CASE WHEN ward = 'a' THEN n END", False),
        ("CAST(CASE WHEN ward = 'a' THEN x END AS BIGINT)", False),
    ],
)
def test_a_cast_leaves_out_no_rows_and_a_filter_does(value: str, known: bool) -> None:
    """A CSV's numbers are cast, and MEDIAN casts whole numbers: its rows are known all the same."""
    columns = COLUMNS | {"n": Type.INT, "text": Type.TEXT}
    facts = FACTS | {"n": Range(0, 100, integer=True), "text": Range(0, 100)}
    table = TableSchema("t", columns, facts, PrivacyUnit.row(), Relation.ADD_REMOVE)
    options: dict[str, Any] = {"population": "p", "version": None, "epsilon": 2, "truncation": "1/2"}
    for sql in (f"MEDIAN({value})", f"MEDIAN({value}) FILTER (WHERE ward = 'b')"):
        plan = make_query(f"SELECT {sql} AS q FROM t", [table], **options)
        note = told(plan, [1000] + [0] * (sum(r.places for r in plan.reports) - 1), (), (0.0, 100.0))[-1]
        assert note.startswith("No truncation bias in 'q'") is (known and "FILTER" not in sql), note


def test_nothing_is_said_of_numbers_of_which_nothing_is_cut_off() -> None:
    plan = planned("SELECT ward, COUNT(*) AS n, COUNT(x) AS k, SUM(x) AS s FROM t GROUP BY ward")
    found = reported(plan, [0] * sum(r.places for r in plan.reports))
    rows = [((0, 0, 0), plan.allocation.noises, (-1.0, 1.0))]
    said = {n: bias(plan, found, n, e, rows) for n, e in plan.question.outer.columns}
    assert said["ward"] is None and said["n"] is None and said["k"] is None and said["s"] is not None
    assert bias(plan, found, "s", plan.column("s"), []) is None  # no row is shown


def test_rows_in_no_group_are_counted_for_each_key() -> None:
    plan = planned("SELECT ward, COUNT(*) AS n FROM t GROUP BY ward", epsilon=200)
    rows = [(0, 1.0, w) for w, n in (("a", 900), ("z", 90), (None, 10)) for _ in range(n)]
    (note,) = told(plan, exact_reports(plan, rows), (0,), (-1.0, 1.0))
    assert note == (
        "The key 'ward': undeclared in 9 % of the rows (9 % to 9 %), NULL in 1 % of the rows (1 % to 1 %); "
        "at most 100 rows (97.5 %) are in no group for it."
    )


def test_where_surely_nothing_is_cut_off_there_is_no_bias() -> None:
    plan = planned("SELECT SUM(x) AS s FROM t")
    assert told(plan, [1000, -90, -90, 0], (0,), (-1.0, 1.0))[-1] == (
        "No truncation bias in 's' (95 %): nothing is cut off."
    )
