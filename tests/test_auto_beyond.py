"""The units that exceed chosen caps: which places of the census may hold them, and the limit of their share."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from benchmarks.chosen_ranges import Seeded, chosen_in, stages_of
from discreet.backends.connection import open_database
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.mechanisms.summed import SummedNoise
from discreet.plan.auto_bounds.caps import EDGES, SHARES, Caps, Cell, beyond, place_sql, share_beyond
from discreet.plan.auto_bounds.staged import kept, restored

ALL: dict[Cell, int] = dict.fromkeys(itertools.product(range(len(EDGES)), range(len(EDGES)), range(SHARES)), 0)


def people() -> list[list[int]]:
    """Numbers of rows by group: all small ones, and random ones."""
    few = [c for k in (1, 2, 3) for c in itertools.combinations_with_replacement(range(1, 9), k)]
    rng = np.random.default_rng(20_261_124)
    many = [rng.integers(1, int(rng.integers(2, 40)), int(rng.integers(1, 40))).tolist() for _ in range(400)]
    return [*map(list, few), *many, [2_000_000], [1, 1_048_575]]


@pytest.mark.exhaustive
@pytest.mark.sampled(6)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("caps", [Caps(1, 1), Caps(2, 3), Caps(3, 4), Caps(6, 12), Caps(5, 1 << 20), Caps(20, 7)])
@pytest.mark.parametrize("groups", [None, 40])
def test_everybody_who_exceeds_caps_is_in_a_place_that_is_counted(caps: Caps, groups: int | None) -> None:
    owned = people()
    listed = ", ".join(f"({len(rows)}, {sum(rows)}, {max(rows)})" for rows in owned)
    shown = ", ".join(place_sql("k", "t", "m"))
    found = open_database().execute(f"SELECT {shown} FROM (VALUES {listed}) v(k, t, m)").fetchall()
    for rows, (k, t, m) in zip(owned, found, strict=True):
        exceeds = len(rows) > caps.groups or max(rows) > caps.rows
        counted, units = beyond({**ALL, (int(k), int(t), int(m)): 1}, caps, groups)
        assert units == 1
        assert counted >= exceeds


def test_places_of_people_within_the_caps_are_not_counted() -> None:
    """Caps at the end of bins are told exactly, by groups, and by rows where there is one group."""
    for n, rows in enumerate((1, 3, 7, 15)):
        for of in range(len(EDGES)):
            counted, _ = beyond({**ALL, (0, of, int(of > 0)): 1}, Caps(1, rows), 1)
            assert counted == (of > n)
    assert beyond({**ALL, (2, 4, 0): 1}, Caps(7, 15), None) == (0, 1)
    assert beyond({**ALL, (2, 4, 0): 1}, Caps(6, 15), None) == (1, 1)
    assert beyond({**ALL, (2, 4, 0): 1}, Caps(6, 15), 6) == (0, 1)  # nobody has more groups than there are
    assert beyond({**ALL, (2, 4, 1): 1}, Caps(7, 15), None) == (1, 1)


def missed(groups: int, runs: int) -> float:
    """How often the limit of any caps is below the true share: caps may be chosen from the same noise."""
    noise, rng = DiscreteLaplaceNoise(Fraction(10)), np.random.default_rng(20_261_124)
    stays = 1 - np.exp(-1 / 10)
    exact = {**dict.fromkeys(ALL, 1000), (0, 0, 0): 10**6}
    found = [Caps(k, r) for k in range(1, groups + 1) for r in (2**i for i in range(20))]
    truth = [Fraction(*beyond(exact, caps, groups)) for caps in found]
    failed = 0
    for _ in range(runs):
        drawn = rng.geometric(stays, (2, len(ALL)))
        noisy = {c: exact[c] + int(a - b) for c, a, b in zip(ALL, *drawn, strict=True)}
        limits = (share_beyond(beyond(noisy, caps, groups), caps, noise, groups) for caps in found)
        failed += any(limit < true for limit, true in zip(limits, truth, strict=True))
    return failed / runs


@pytest.mark.exhaustive
@pytest.mark.parametrize("union", [True, False])
def test_the_limit_holds_for_the_worst_caps_of_all(monkeypatch: pytest.MonkeyPatch, union: bool) -> None:
    """Without the union bound over caps it does not: that wrong law is refused."""
    quantile = SummedNoise.quantile

    def other(noise: SummedNoise, confidence: Fraction) -> int:
        lost = 1 - confidence
        return quantile(noise, 1 - (lost if union or lost == Fraction(1, 500) else lost * len(EDGES)))

    monkeypatch.setattr(SummedNoise, "quantile", cache(other))
    runs, most = 400, 0.025
    bar = most + 4 * (most * (1 - most) / runs) ** 0.5
    assert (missed(1, runs) <= bar) == union


def test_a_limit_is_a_share_whatever_the_noise() -> None:
    noise = DiscreteLaplaceNoise(Fraction(10))
    numbers = (-(10**9), -3, 0, 2, 10**9)
    for cut, units in itertools.product(numbers, numbers):
        assert 0 <= share_beyond((cut, units), Caps(1, 4), noise, None) <= 1
    assert share_beyond((0, 0), Caps(1, 4), noise, 1) == 1  # nobody is seen


@pytest.fixture(autouse=True)
def same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.noise.entropy.SystemEntropy", lambda: Seeded(np.random.default_rng(2)))


def asked() -> tuple[dp.Release, dp.Session]:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"uid": np.repeat(np.arange(6000), rng.integers(1, 4, 6000))})
    session = dp.connect(
        {"t": frame}, unit="uid", bounds="auto", budget=dp.Budget(epsilon=100), population="p", ledger=":memory:"
    )
    return session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1), session


def test_the_limit_is_said_stored_and_sealed() -> None:
    release, session = asked()
    with session:
        chosen = chosen_in(release.plan)
        assert 0 < chosen.exceeding <= 1
        assert [note for note in release.notes if note.endswith("or more rows in one (97.5 % confidence).")]
        again = session.sql("SELECT COUNT(*) AS n FROM t", epsilon=1)
        assert again.stored
        assert again.notes == release.notes
        document = release.certificate()
        assert json.loads(json.dumps(document)) == document
        ((low, high),) = release.interval("n")
        assert high - low < 10**4  # the interval stays that of the capped answer
        choice = chosen.choice
        assert restored(json.loads(json.dumps(kept(choice, {})))) == (choice, {})


def test_the_noisy_numbers_are_those_of_the_census() -> None:
    release, session = asked()
    with session:
        plan = session.plan("SELECT COUNT(*) AS n FROM t", epsilon=1)
        assert stages_of(plan).of_caps is not None
        beyond_them = chosen_in(release.plan).choice.beyond
        assert beyond_them is not None
        counted, units = beyond_them
        assert abs(units - 6000) < 10 * 10 * (2 * 21) ** 0.5
        assert abs(counted) < 6000 + 10 * 10 * (2 * 21) ** 0.5


def test_places_of_people_within_a_cap_on_all_rows_are_not_counted() -> None:
    for n, total in enumerate((1, 3, 7, 15)):
        for of in range(len(EDGES)):
            counted, _ = beyond({**ALL, (0, of, int(of > 0)): 1}, Caps(total, total, total), None)
            assert counted == (of > n)
