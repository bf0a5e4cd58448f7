"""RAPPOR from outside: filters, the law of its bits, decoding, and what is refused."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.local import Memoised, Rappor
from discreet.local.hashing import Bloom

ALARM = 1e-9


def test_filters_are_published_hashes() -> None:
    digest = hashlib.blake2b(b"news.example", digest_size=16, person=b"discreet", salt=(5).to_bytes(16, "big")).digest()
    wanted = {int.from_bytes(digest[i : i + 8], "little") % 100 for i in (0, 8)}
    row = Bloom(100, 2, 8).filters(["news.example"], [5])[0]
    assert set(np.flatnonzero(row).tolist()) == wanted
    assert (Bloom(100, 2, 8).filters([b"7", "7", 7], [1, 1, 1]) == Bloom(100, 2, 8).filters(["7"], [1])).all()


def test_bits_are_kept_with_the_chance_of_the_paper() -> None:
    """Theorem 1 with h hashes: ε = 2h·ln((1 − f/2)/(f/2))."""
    rappor = Rappor(epsilon=4, bits=16, hashes=2, cohorts=1)
    half_f = 1 / (1 + math.exp(4 / 4))
    reports = rappor.randomize(["a"] * 60_000)
    truth = rappor.bloom.filters(["a"], [0])[0]
    kept = int((reports[:, 1:] == truth).sum())
    assert stats.binomtest(kept, 16 * 60_000, 1 - half_f).pvalue > ALARM
    assert stats.binomtest(kept, 16 * 60_000, 1 - half_f + 0.01).pvalue < ALARM
    assert float(rappor.permanent.chance) == pytest.approx(1 - half_f)


def test_two_levels_agree_with_both_theorems() -> None:
    rappor = Rappor(epsilon=1, lifetime=6, hashes=1, cohorts=1, bits=8)
    a, b = float(rappor.permanent.chance), float(rappor.instant.chance)
    assert 2 * math.log(a / (1 - a)) == pytest.approx(6)
    s = a * b + (1 - a) * (1 - b)
    assert 2 * math.log(s / (1 - s)) == pytest.approx(1)
    assert rappor.events.parts[0][0].pure == 1 and rappor.lifetime == 6
    assert Memoised(rappor).events.parts[0][0].pure == 6


def test_a_memoised_rappor_repeats_with_fresh_coins_around_one_permanent_response() -> None:
    rappor = Rappor(epsilon=2, lifetime=8, bits=32, hashes=1)
    daily = Memoised(rappor)
    reports = np.array([daily.randomize("home") for _ in range(2_000)])
    assert len(set(reports[:, 0].tolist())) == 1  # the cohort is drawn once
    assert len(np.unique(reports, axis=0)) > 1_000
    means, b = reports[:, 1:].mean(axis=0), float(rappor.instant.chance)
    nearest = np.where(means > 0.5, b, 1 - b)  # averaging shows the permanent response and nothing below it
    assert np.abs(means - nearest).max() < 7 * 0.5 / math.sqrt(2_000)


CANDIDATES = [f"site-{i}" for i in range(60)]


def crowd(n: int) -> list[str]:
    return [CANDIDATES[min(i % 90, 59)] for i in range(n)]


@pytest.mark.parametrize("rappor", [Rappor(epsilon=4), Rappor(epsilon=2, lifetime=6)], ids=repr)
def test_shares_of_candidates_are_found_within_their_errors(rappor: Rappor) -> None:
    n = 30_000
    truth = np.bincount([CANDIDATES.index(x) for x in crowd(900)], minlength=60) / 900
    estimate = rappor.estimate(rappor.randomize(crowd(n)), domain=CANDIDATES)
    lower, upper = estimate.interval(1 - 1e-11)
    assert ((lower <= truth + 1e-3) & (truth - 1e-3 <= upper)).all()
    assert np.abs(estimate.values - truth).max() < 9 * rappor.error(n, 0.6827)
    off = (estimate.values - truth) / estimate.standard_error
    assert 0.4 < float(np.sqrt((off**2).mean())) < 1.7
    one = rappor.estimate(rappor.randomize(crowd(900)), domain=list(reversed(CANDIDATES)))
    assert one.labels == tuple(reversed(CANDIDATES))


def test_more_candidates_than_bits_are_fitted_where_few_are_there() -> None:
    rappor = Rappor(epsilon=6, bits=32, hashes=1, cohorts=4)
    many = [f"site-{i}" for i in range(400)]
    reports = rappor.randomize(["site-7"] * 15_000 + ["site-300"] * 5_000)
    with pytest.raises(InvalidParameter, match="too many"):
        rappor.estimate(reports, domain=many)
    shares = dict(rappor.fit(reports, many))
    assert abs(shares["site-7"] - 0.75) < 0.1 and abs(shares["site-300"] - 0.25) < 0.1
    assert min(shares.values()) >= 0


def test_candidates_with_the_same_bits_are_refused_for_least_squares() -> None:
    rappor = Rappor(epsilon=2, bits=2, hashes=1, cohorts=1)
    rows = {x: tuple(rappor.bloom.filters([x], [0])[0]) for x in "abcdefgh"}
    same = [x for x in rows if rows[x] == rows["a"]][:2]
    with pytest.raises(InvalidParameter, match="told apart"):
        rappor.estimate(rappor.randomize(same), domain=same)


def test_any_value_has_a_report() -> None:
    rappor = Rappor(epsilon=1)
    for x in ("", "é\ud800", 7, None, float("nan"), (1, 2), b"\xff", 10**5000):
        assert rappor.randomize(x).shape == (129,)
    assert rappor.randomize(np.array(["a", "b"])).shape == (2, 129)
    assert rappor.randomize([]).shape == (0, 129)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"epsilon": 2, "lifetime": 1},
        {"epsilon": 1, "lifetime": math.inf},
        {"epsilon": 1, "bits": 1},
        {"epsilon": 1, "bits": 1 << 20},
        {"epsilon": 1, "hashes": 0},
        {"epsilon": 1, "hashes": 9},
        {"epsilon": 1, "cohorts": 300},
        {"epsilon": 1, "cohorts": 1.5},
    ],
    ids=repr,
)
def test_impossible_parameters_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match=list(wrong)[-1]):
        Rappor(**wrong)


def test_servers_need_candidates_and_reports_of_these_parameters() -> None:
    rappor = Rappor(epsilon=1)
    good = rappor.randomize(["a", "b"])
    for domain in (None, [], "ab", ["a", "a"], ["1", 1]):
        with pytest.raises(InvalidParameter, match="candidates"):
            rappor.estimate(good, domain=domain)
    for reports in (good[:, 1:], good + 200, good.astype(float), [], [[1]], np.ma.masked_array(good)):
        with pytest.raises(InvalidParameter, match="report"):
            rappor.estimate(reports, domain=["a", "b"])


def test_it_explains_itself_and_is_a_value() -> None:
    rappor = Rappor(epsilon="0.75", lifetime=3)
    assert rappor == Rappor(epsilon=Fraction(3, 4), lifetime=3) != Rappor(epsilon="0.75")
    title, *steps = rappor.explain().splitlines()
    assert title == repr(rappor) and len(steps) == 5 and "0.75" in steps[-1]
