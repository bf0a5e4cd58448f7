"""The histogram: how far one unit moves it, the law of its counts, keys, doors."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.mechanisms import Histogram, Threshold
from discreet.privacy.unit import Relation
from tests.coverage import covers

ALARM = 1e-9


@pytest.mark.parametrize("relation", list(Relation), ids=lambda r: r.value)
@pytest.mark.parametrize("changes", [1, 2, 3])
def test_no_unit_moves_the_counts_farther_and_some_move_them_so_far(relation: Relation, changes: int) -> None:
    keys = range(2 * changes)
    units = [
        np.bincount(rows, minlength=len(keys))
        for n in range(changes + 1)
        for rows in (np.array(r, dtype=np.int64) for r in combinations_with_replacement(keys, n))
    ]
    others = units if relation is Relation.REPLACE else [np.zeros(len(keys), dtype=np.int64)]
    moved = [a - b for a in units for b in others]
    s = Histogram(["a"], epsilon=1, relation=relation, changes=changes).sensitivity
    assert s.l0 == max(int((d != 0).sum()) for d in moved)
    assert s.linf == max(int(np.abs(d).max()) for d in moved)
    assert s.l1 == max(int(np.abs(d).sum()) for d in moved)
    assert s.l2_squared == max(int((d * d).sum()) for d in moved)


@pytest.mark.parametrize(
    ("given", "scale"),
    [({}, 2.0), ({"relation": "replace"}, 4.0), ({"changes": 3, "noise": "geometric"}, 6.0)],
    ids=str,
)
def test_counts_have_discrete_laplace_noise_of_the_stated_scale(given: dict[str, Any], scale: float) -> None:
    keys = list(range(3000))
    h = Histogram(keys, epsilon="0.5", **given)
    noise = np.array(list(h.release([7] * 50).values()))
    noise[7] -= 50
    edges = [-np.inf, *np.arange(-2.5, 3), np.inf]
    seen = np.histogram(noise, edges)[0]
    for stretch, right in ((1.0, True), (1.5, False)):
        k = np.arange(-400, 401)
        mass = np.exp(-np.abs(k) / (scale * stretch))
        chances = np.histogram(k, edges, weights=mass / mass.sum())[0]
        assert (float(stats.chisquare(seen, len(keys) * chances).pvalue) > ALARM) is right


def test_gaussian_noise_is_that_of_the_distance_of_two_counts() -> None:
    one, two = (
        Histogram(range(3000), epsilon=1, delta="1e-6", noise="gaussian", relation=r) for r in ("add-remove", "replace")
    )
    for h, sigma in ((one, 4.2249), (two, 4.2249 * math.sqrt(2))):
        noise = np.array(list(h.release([]).values())) + np.random.default_rng(1).uniform(-0.5, 0.5, 3000)
        width = math.sqrt(sigma**2 + 1 / 6)
        assert stats.kstest(noise, stats.norm(scale=width).cdf).pvalue > ALARM
        assert stats.kstest(noise, stats.norm(scale=1.4 * width).cdf).pvalue < ALARM
        assert h.loss.epsilon(1e-6) <= 1


def test_all_declared_keys_are_answered_in_their_order_and_no_others() -> None:
    h = Histogram(["b", "a", None, 3], epsilon=1000)
    assert list(h.release(["a", "x", 3.0, 3, math.nan, [1]]).items()) == [("b", 0), ("a", 1), (None, 2), (3, 2)]


def test_equal_numbers_are_one_key_of_one_type() -> None:
    h = Histogram(epsilon=100, delta="0.1")
    for rows in ([True] * 50, [1] * 50, [1.0] * 50, np.ones(50), np.ones(50, dtype=bool)):
        ((key, n),) = h.release(rows).items()
        assert type(key) is int and key == 1 and abs(n - 50) < 3


def test_keys_from_the_data_are_shown_in_their_own_order() -> None:
    h = Histogram(epsilon=100, delta="0.1")
    rows = ["b", 2, None, b"z", "a", -1.5, math.inf] * 100
    assert list(h.release(rows)) == [None, -1.5, 2, math.inf, "a", "b", b"z"]
    assert list(h.release(rows[::-1])) == list(h.release(rows))


def test_keys_from_the_data_are_shown_as_the_threshold_says() -> None:
    h, n = Histogram(epsilon=1, delta="0.02"), 5
    kept = Threshold("0.5", "0.02")
    chance = float(kept.keep_probability(n))
    shown = sum("a" in h.release(["a"] * n) for _ in range(3000))
    assert 0.1 < chance < 0.6
    assert ALARM < stats.binom.cdf(shown, 3000, chance) < 1 - ALARM
    assert not ALARM < stats.binom.cdf(shown, 3000, chance * 0.7) < 1 - ALARM


def test_the_error_covers_at_its_rate() -> None:
    h = Histogram(range(4000), epsilon="0.3")
    t, noise = h.error("0.9"), np.abs(list(h.release([]).values()))
    assert covers(int((noise <= t).sum()), 4000, 0.9) and not covers(int((noise <= 0.8 * t).sum()), 4000, 0.9)
    assert stats.binom.sf(int((noise <= t).sum()), 4000, 0.94) > ALARM


def test_no_row_makes_it_fail() -> None:
    odd = [[], {}, object(), 1e308, 10**30, "é", b"", math.nan, -0.0, Ellipsis, (1, 2), np.float32(2), np.str_("q")]
    assert Histogram([0], epsilon=1000).release(odd) == {0: 1}
    Histogram(epsilon=1, delta="0.1").release(odd * 50)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"keys": []}, "at least one"),
        ({"keys": ["a", "a"]}, "differ"),
        ({"keys": [1, True]}, "differ"),
        ({"keys": "abc"}, "list"),
        ({"keys": None}, "delta="),
        ({"noise": "gaussian"}, "delta="),
        ({"noise": "cauchy"}, "noise"),
        ({"delta": "1e-6"}, "no delta"),
        ({"keys": None, "delta": "1e-6", "changes": 2}, "one row"),
        ({"changes": 0}, "changes"),
        ({"relation": "both"}, "relation"),
        ({"epsilon": math.nan}, "epsilon"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_a_sentence_that_names_it(given: dict[str, Any], hint: str) -> None:
    with pytest.raises(InvalidParameter, match=hint):
        Histogram(**{"keys": ["a", "b"], "epsilon": 1, **given})


@pytest.mark.parametrize("bad", ["abc", 3, None, np.zeros((2, 2)), np.ma.masked_array([1])], ids=repr)
def test_rows_are_a_list_or_a_plain_array(bad: Any) -> None:
    with pytest.raises(InvalidParameter):
        Histogram(["a"], epsilon=1).release(bad)
