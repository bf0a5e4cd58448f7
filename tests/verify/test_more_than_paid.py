"""Certificates that hold more than was paid for: choices by rank for other units, more noisy numbers than there are
nodes and groups, and a report of what follows the order of all rows. All else in them is made to fit.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from discreet.backends.connection import open_database
from discreet.errors import InternalError, InvalidParameter
from discreet.mechanisms import exponential_quantile
from discreet.mechanisms.exponential_quantile import NAMED, ExponentialQuantile, Runs
from discreet.privacy import codec
from discreet.privacy.discrete_events import BoundedRangeEvent
from discreet.privacy.unit import Relation
from discreet.verify.certificate.checker import check
from discreet.verify.certificate.stored import check_plain
from discreet.verify.check import check as derive_again
from discreet.verify.check import derived, priced
from tests.verify.asked import SINGLE, ask, plain, session
from tests.verify.forging import Document, forged, measurement, plan_claim, rewrite, sealed


@cache
def honest(kind: str, name: str) -> Document:
    document: Document = plain(ask(session(kind, False), *SINGLE[name]).certificate())
    assert check(sealed(forged(document, lambda d: None))).ok
    return document


def of_two_groups(d: Document) -> None:
    """The choice of a replaced unit in one group as that of one that comes or goes in two: of half the range each, so
    that the rate is the same.
    """
    noise = measurement(d)["trees"][0]["noise"]
    noise.update(relation="add-remove", max_groups=2, groups=None)
    said = {name: noise[name] for name in noise if name not in ("kind", "epsilon", "p", "sensitivity")}
    events = ExponentialQuantile(
        **{**said, **{name: Fraction(noise[name]) for name in ("epsilon", "p", "sensitivity")}}
    ).events
    for cost in ("measured", "charged"):
        d["claim"][cost]["events"] = codec.encode(events)


def rho(d: Document, *, choices: bool) -> float:
    """The ρ of the choices by rank, or of the other events: here the two histograms."""
    events = plan_claim(d).charged.events
    return float(sum(n * (e.rho or 0) for e, n in events if isinstance(e, BoundedRangeEvent) is choices))


def law(noise: ExponentialQuantile, counts: list[int]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The exact chances of each run of leaves to be named, at the rank that is aimed at."""
    places = [i for i, w in enumerate(counts) if w]
    before = np.cumsum([0, *(counts[i] for i in places)]).tolist()
    runs = Runs.of(places, before, len(counts))
    losses = runs.losses(noise.p.numerator * before[-1], noise.p.denominator).astype(float)
    weights = runs.lengths * np.exp(-float(noise.rate) / noise.p.denominator * losses)
    return np.repeat(weights / weights.sum() / runs.lengths, runs.lengths)


def test_a_choice_by_rank_is_for_the_units_that_the_text_bounds() -> None:
    document = honest("replace", "a median")
    assert measurement(document)["trees"][0]["noise"]["relation"] == "replace"
    found = forged(document, of_two_groups)
    assert rho(found, choices=True) == rho(document, choices=True) / 2 > 0
    assert rho(found, choices=False) == rho(document, choices=False) > 0  # the histograms' parts move as far
    assert check(sealed(found)).broken == "noise"


def test_a_choice_by_rank_for_two_groups_would_say_half_of_what_it_costs() -> None:
    """Somebody's rows move from the first leaf to the last one, and all ranks between them by T."""
    most, cells, epsilon = 4, 2000, 1 / (3 * NAMED)
    told = ExponentialQuantile(epsilon=epsilon, sensitivity=most, max_groups=2, groups=None)
    truly = ExponentialQuantile(epsilon=epsilon, sensitivity=most, relation=Relation.REPLACE)
    assert told.rate == truly.rate
    low, middle, high = [0] * cells, [2 * most], [0] * cells
    others = [0, 20 * most, *low, *middle, *high, 20 * most, 0]
    one, other = ([*others] for _ in range(2))
    one[0], other[-1] = most, most
    p, q = law(told, one), law(told, other)
    divergence = float(np.sum(p * np.log(p / q)))
    costs = [
        float(sum(n * (e.rho or 0) for e, n in noise.events if isinstance(e, BoundedRangeEvent)))
        for noise in (told, truly)
    ]
    assert costs[0] * 1.5 < divergence < costs[1]


def test_histograms_cost_no_more_than_they_say_where_all_of_a_unit_changes_its_part() -> None:
    """The Kullback–Leibler divergence by definition, of one number that falls by T beside one that rises by T."""
    q = ExponentialQuantile(epsilon=2, sensitivity=3, relation=Relation.REPLACE)
    k = np.arange(-400, 401)
    found, told = (0.0, float(sum(n * (e.rho or 0) for e, n in q.events if not isinstance(e, BoundedRangeEvent))))
    for noise in (q.near, q.counted):
        size = np.abs(k) / float(noise.scale)
        mass = np.exp(-size) / np.exp(-size).sum()
        found += 2 * float(np.sum(mass * (np.abs(k - 3) / float(noise.scale) - size)))
    assert found < told
    cheap = ExponentialQuantile(epsilon=1, sensitivity=3, relation=Relation.REPLACE)  # sold as with twice the noise
    assert found > float(sum(n * (e.rho or 0) for e, n in cheap.events if not isinstance(e, BoundedRangeEvent)))


@pytest.mark.parametrize(("part", "more"), [("NAMED", "4/10"), ("NEAR", "2/10"), ("COUNTED", "7/10")])
@pytest.mark.parametrize("kind", ["add-remove", "replace", "each row"])
def test_a_part_of_epsilon_that_was_not_paid_is_refused(
    kind: str, part: str, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a mechanism whose choice is sharper, or one of whose histograms has less noise, than its events say."""
    document = honest(kind, "a median")
    claim = plan_claim(document)
    monkeypatch.setattr(exponential_quantile, part, Fraction(more))
    assert check(sealed(forged(document, lambda d: None))).broken == "noise"
    with pytest.raises(InternalError):
        derive_again(claim)


@pytest.mark.parametrize("kind", ["add-remove", "replace", "each row"])
def test_the_choice_and_two_histograms_are_derived_to_cost_all_of_epsilon_exactly(kind: str) -> None:
    claim = plan_claim(honest(kind, "a median"))
    (part,) = priced(claim, derived(claim))
    (choice,), (both, _, scales) = part.by_rank, part.priced
    assert (choice, both) == (NAMED * claim.measured.epsilon, (1 - NAMED) * claim.measured.epsilon)
    assert len(scales) == 2


@pytest.mark.parametrize("name", ["near", "counted", "scale", "rate"])
def test_a_choice_by_rank_has_no_scales_of_its_own(name: str) -> None:
    def change(d: Document) -> None:
        measurement(d)["trees"][0]["noise"][name] = "1/1"

    assert check(sealed(forged(honest("add-remove", "a median"), change))).broken is not None


REPORT = """WITH "unit rows" AS (SELECT s."uid" AS u, s."cost" AS g0 FROM main."visits" s WHERE s."uid" IS NOT NULL),
"unit groups" AS (SELECT u, g0, count(*) AS n FROM "unit rows" GROUP BY u, g0),
"unit totals" AS (SELECT u, {total} AS most FROM "unit groups" GROUP BY u),
"unit places" AS (SELECT CASE WHEN {test} THEN 1 ELSE 0 END AS p0 FROM "unit totals")
SELECT CAST(count(*) FILTER (WHERE p0 = 0) AS VARCHAR) AS m0,
CAST(count(*) FILTER (WHERE p0 = 1) AS VARCHAR) AS m1,
CAST(count(*) FILTER (WHERE p0 = 2) AS VARCHAR) AS m2,
CAST(count(*) FILTER (WHERE p0 = 3) AS VARCHAR) AS m3 FROM "unit places\""""


@pytest.mark.parametrize(
    ("total", "test", "broken"),
    [
        ("max(g0)", "CAST(most AS VARCHAR) = '-0.0'", "bounds"),
        ("sum(g0)", "most > 3", "bounds"),
        ("max(n)", "most > 2", None),
        ("count(g0)", "most > 2", None),
    ],
)
def test_a_report_follows_from_a_unit_s_rows_in_whatever_order(total: str, test: str, broken: str | None) -> None:
    def change(d: Document) -> None:
        measurement(d)["truncation"][0] = REPORT.format(total=total, test=test)

    assert check(sealed(forged(honest("add-remove", "a report"), change))).broken == broken


def test_the_largest_of_equal_zeros_is_the_one_that_came_first() -> None:
    sql = REPORT.format(total="max(g0)", test="CAST(most AS VARCHAR) = '-0.0'")
    found = []
    for zeros in (("-0.0", "0.0"), ("0.0", "-0.0")):
        with open_database() as database:
            database.execute("SET threads = 1")
            database.execute("CREATE TABLE visits (uid BIGINT, cost DOUBLE)")
            for zero in zeros:  # the same rows of 100 people, in two orders
                database.execute(f"INSERT INTO visits SELECT i, CAST('{zero}' AS DOUBLE) FROM range(100) r(i)")
            found.append(database.execute(sql).fetchall())
    assert found == [[("0", "100", "0", "0")], [("100", "0", "0", "0")]]


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.thinned(2)
@pytest.mark.parametrize("kind", ["add-remove", "replace", "each row"])
@pytest.mark.parametrize("more", [["7"], ["7", "7"]])
def test_a_report_has_as_many_counts_as_its_statement(kind: str, more: list[str]) -> None:
    document = honest(kind, "reports on values")
    assert check(stored(document, lambda r: r["reports"].extend(more))).broken == "release"
    assert check(stored(document, lambda r: r["reports"].pop())).broken == "release"


def stored(document: Document, change: Callable[[dict[str, Any]], None]) -> Document:
    return sealed(forged(document, lambda d: rewrite(d, "release", lambda said: change(said["release"]))))


def more_nodes(release: dict[str, Any]) -> None:
    release["trees"][0][0].append([0, 1, ["7"] * 500])


def longer(release: dict[str, Any]) -> None:
    release["trees"][0][0][0][2].append("7")


def shorter(release: dict[str, Any]) -> None:
    release["trees"][0][0][0][2].pop()


def beyond(release: dict[str, Any]) -> None:
    level, place, children = release["trees"][0][0][-1]
    release["trees"][0][0][-1] = [level, place + (1 << 40), children]


@pytest.mark.exhaustive
@pytest.mark.sampled(7)
@pytest.mark.thinned(4)
@pytest.mark.parametrize("change", [more_nodes, longer, shorter, beyond])
@pytest.mark.parametrize("name", ["a histogram", "quartiles", "a mode", "extremes"])
@pytest.mark.parametrize("kind", ["add-remove", "each row"])
def test_each_node_has_as_many_children_as_its_tree(
    kind: str, name: str, change: Callable[[dict[str, Any]], None]
) -> None:
    assert check(stored(honest(kind, name), change)).broken == "release"


LEAF, FIVE = [0, 0, ["100"]], ["90", "95", "98", "105", "110"]


def chosen(leaf: list[str], edges: list[str], parts: int) -> list[Any]:
    return [[0, 0, leaf], [1, 0, edges], [2, 0, ["7"] * parts]]


@pytest.mark.parametrize(
    ("families", "ok"),
    [
        (chosen(["100"], FIVE, 6), True),
        (chosen(["100"], [], 1), True),
        (chosen(["100"], ["100", "101"], 3), True),
        (chosen(["100"], [str(96 + i) for i in range(10)], 11), True),
        (chosen(["100"], FIVE, 5), False),
        (chosen(["100"], FIVE, 7), False),
        (chosen(["100"], [*FIVE[::-1]], 6), False),  # out of order
        (chosen(["100"], ["90", "90"], 3), False),
        (chosen(["100"], ["0", "90"], 3), False),
        (chosen(["100"], ["90", "-1"], 3), False),
        (chosen(["100"], ["90", "99999"], 3), False),
        (chosen(["100"], [str(95 + i) for i in range(10)], 11), False),  # six on the left
        (chosen(["100"], [str(97 + i) for i in range(10)], 11), False),
        (chosen(["99999"], FIVE, 6), False),
        (chosen(["-1"], FIVE, 6), False),
        (chosen([], FIVE, 6), False),
        (chosen(["100", "100"], FIVE, 6), False),
        (chosen(["100"], FIVE, 6)[:2], False),
        (chosen(["100"], FIVE, 6)[::2], False),
        ([*chosen(["100"], FIVE, 6), [3, 0, ["7"] * 6]], False),  # the histogram of which edges were made
        ([LEAF, [1, 1, FIVE], [2, 0, ["7"] * 6]], False),
        ([LEAF, LEAF, [2, 0, ["7"]]], False),
        ([[0, 0, ["5", "4", "6"]]], False),  # a leaf between two, as it once was
    ],
)
def test_what_is_chosen_by_rank_is_a_leaf_with_edges_about_it_and_a_number_for_each_part(
    families: list[Any], ok: bool
) -> None:
    def change(release: dict[str, Any]) -> None:
        release["trees"][0][0] = families

    found = check(stored(honest("add-remove", "a median"), change)).broken
    assert (found != "release") is ok


def as_real(value: Any) -> Any:
    return {"real": float(value).hex()}


def as_short_real(value: Any) -> Any:
    return {"real": f"{value}.0"}


@pytest.mark.parametrize("other", [lambda v: v, float, lambda v: [v], as_real, as_short_real])
def test_no_group_has_two_noisy_numbers(other: Callable[[Any], Any]) -> None:
    def change(release: dict[str, Any]) -> None:
        first, *_ = keys = release["keys"]
        release["keys"] = [*keys, [other(first[0])] if isinstance(first[0], int) else first]
        release["cells"] = [*release["cells"], release["cells"][0]]

    for name in ("private groups", "nested"):
        document = honest("add-remove", name)
        assert check(stored(document, change)).broken == "release"


@pytest.mark.parametrize(
    ("keys", "ok"),
    [
        ([0, {"real": "0x1.8000000000000p+0"}, {"real": "nan"}, {"real": "inf"}, None, False, "0"], True),
        ([{"real": "0x0.0p+0"}, {"real": "-0x0.0p+0"}], False),
        ([{"real": "0x1.8p+0"}], False),
        ([{"real": "-nan"}], False),
        ([{"real": "0x1p+99999"}], False),
        ([{"date": "2020-01-02"}, {"timestamp": "2020-01-02T00:00:00"}], True),
        ([{"date": "20200102"}], False),
        ([{"timestamp": "2020-01-02 00:00:00"}], False),
        ([{"text": "a"}], False),
        ([{}], False),
        ([{"real": 1}], False),
    ],
)
def test_a_key_has_one_spelling(keys: list[Any], ok: bool) -> None:
    none: dict[str, list[Any]] = {"reports": [], "trees": [], "levels": []}
    kept = {"format": 1, "keys": [[k] for k in keys], "cells": [["1"]] * len(keys), **none}
    if ok:
        check_plain(kept, 1, len(keys), 1)
    else:
        with pytest.raises(InvalidParameter, match="no certificate"):
            check_plain(kept, 1, len(keys), 1)


def test_no_group_that_was_declared_stands_for_another() -> None:
    def change(release: dict[str, Any]) -> None:
        release["keys"][1] = release["keys"][0]

    assert check(stored(honest("add-remove", "groups"), change)).broken == "release"


@pytest.mark.exhaustive
@pytest.mark.sampled(7)
@pytest.mark.thinned(4)
@pytest.mark.parametrize("name", ["caps chosen", "both chosen", "bounds chosen"])
@pytest.mark.parametrize(
    "ranges",
    [
        [["0", "1", False, "0", "9"]] * 2,
        [["0", "1", False]],
        [["0", "1", False, "0", "9", "7"]],
        [["0", "1/0", False, "0", "9"]],
        [["0", "1", 1, "0", "9"]],
        [[0, 1, False, "0", "9"]],
        [["0", "1", False, 0, "9"]],
        [["0", "1", False, "0", "9.5"]],
        [{"rows": [1]}],
    ],
)
def test_as_many_ranges_are_chosen_as_were_looked_at(name: str, ranges: list[Any]) -> None:
    assert check(stored(honest("add-remove", name), lambda r: r.update(ranges=ranges))).broken == "release"


def test_a_range_in_the_right_form_is_one() -> None:
    """So that what is refused above is refused for its form, or for how many there are."""
    document = honest("add-remove", "bounds chosen")
    assert check(stored(document, lambda r: r.update(ranges=[["0", "1", False, "-3", "9"]]))).broken != "release"


def test_the_places_of_a_first_look_are_public() -> None:
    """Else the database would name the places: somebody's largest value."""
    document = honest("add-remove", "bounds chosen")
    (look,) = document["claim"]["looks"]
    before, _, rest = look["sql"].partition('"unit places" AS (')
    _, _, after = rest.partition('FROM "unit totals"')

    def places(first: str, second: str) -> Callable[[Document], None]:
        text = f'{before}"unit places" AS (SELECT {first} AS p0, {second} AS p1 FROM "unit totals"{after}'
        return lambda d: d["claim"]["looks"][0].update(sql=text)

    # fmt: off
    for first in ("h0", "floor(h0)", "CASE WHEN h0 > 3 THEN h0 END", "floor(log2(greatest(h0, CAST(1 AS DOUBLE))))",
                  "1 + h0", "-h0", "floor(h0 * CAST(1000 AS DOUBLE))", "0.5"):
        assert check(sealed(forged(document, places(first, "1")))).broken == "bounds", first
    for first in ("CASE WHEN h0 > 3 THEN 1 WHEN h0 < 0 THEN -(2 + 3) ELSE 0 END",
                  "floor(log2(least(greatest(h0, CAST(1 AS DOUBLE)), CAST(8 AS DOUBLE))))"):
        assert check(sealed(forged(document, places(first, "1")))).ok, first
    # fmt: on


KEY = 's."note" AS g0'


@pytest.mark.parametrize(
    "key",
    [
        'CASE WHEN s."day" > 3 THEN to_days(30) ELSE to_months(1) END',
        'CASE WHEN s."day" > 3 THEN to_months(2147483647) ELSE to_months(1) END',
        "1.5",
    ],
)
def test_a_key_is_of_a_type_that_is_read_whatever_its_value(key: str) -> None:
    def change(d: Document) -> None:
        own = measurement(d)
        own["sql"] = own["sql"].replace(KEY, f"{key} AS g0")

    document = honest("add-remove", "private groups")
    assert KEY in measurement(document)["sql"]
    assert check(sealed(forged(document, change))).broken == "tables"


def test_one_row_would_fail_a_question_whose_keys_are_spans_of_time() -> None:
    sql = measurement(honest("add-remove", "private groups"))["sql"]
    key = 'CASE WHEN s."day" > 3 THEN to_months(2147483647) ELSE to_months(1) END'
    with open_database() as database:
        database.execute("CREATE TABLE visits (uid BIGINT, day BIGINT)")
        database.execute("INSERT INTO visits SELECT i, 1 FROM range(100) r(i)")
        asked = sql.replace(KEY, f"{key} AS g0")
        assert len(database.execute(asked, {"secret": "0"}).fetchall()) == 1
        database.execute("INSERT INTO visits VALUES (100, 9)")
        with pytest.raises(OverflowError):
            database.execute(asked, {"secret": "0"}).fetchall()
