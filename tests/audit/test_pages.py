"""Games, canaries and exact answers as pages: whole, nothing from outside, and what was found is on them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import discreet as dp
from discreet.audit import attributes, finite, game, many_runs, one_run
from tests.audit.test_report import Tags

HOSTILE = "<script>alert(1)</script>\x1b[31m"


def checked(page: str) -> Tags:
    """A page that is whole and needs nothing from outside."""
    tags = Tags()
    tags.feed(page)
    assert page.startswith("<!doctype html>") and tags.open == []
    assert not {"script", "link", "img", "iframe"} & set(tags.seen)
    assert "http" not in page and "\x1b" not in page
    return tags


def coin(epsilon: float, seed: int) -> Callable[..., NDArray[np.int64]]:
    """Randomized response to 0 or 1."""
    rng, truth = np.random.default_rng(seed), 1 / (1 + math.exp(-epsilon))

    def mechanism(x: int, n: int) -> NDArray[np.int64]:
        return np.where(rng.random(n) < truth, x, 1 - x)

    return mechanism


def test_a_game_is_a_page() -> None:
    found = game(coin(2.0, 0), 1, 0, claimed=1, samples=4000, name=HOSTILE, seed=0)
    page = found.to_html()
    assert {"svg", "table"} <= set(checked(page).seen)
    advantage = found.advantage
    assert advantage is not None and advantage.allowed is not None
    for part in ('class="verdict violated"', "&lt;script&gt;", f"{advantage.found:.4g}", f"{advantage.allowed:.4g}"):
        assert part in page
    assert f"{found.success.hits:,} of {found.success.samples:,}" in page


def test_a_game_of_many_worlds_without_a_claim_is_a_page() -> None:
    found = attributes(lambda x, n: np.full(n, x % 2), [1, 2, HOSTILE.__len__()], samples=900, seed=1)
    page = found.to_html()
    assert "svg" not in checked(page).seen
    assert 'class="verdict unclaimed"' in page and "claimed</dt><dd>nothing" in page
    assert page.count("Bob is right") == 1


def test_canaries_are_a_page() -> None:
    rng = np.random.default_rng(2)
    found = one_run(
        lambda records: set(records),
        range(60),
        lambda model, canary: float(canary in model) + 0.1 * rng.random(),
        1,
        name=HOSTILE,
        seed=3,
    )
    page = found.to_html()
    assert {"svg", "table"} <= set(checked(page).seen)
    for part in ('class="verdict violated"', "60 canaries", "out called in", f"ε ≥ {found.epsilon_lower:.4g}"):
        assert part in page
    # One row for each number of guesses, under one of titles; the rest of the page is no table.
    assert page.count("<tr>") == len(found.tried) + 1


def test_one_canary_in_many_runs_is_a_page() -> None:
    rng = np.random.default_rng(4)
    found = many_runs(lambda r: len(r) + rng.laplace(), "x", lambda model, canary: model, 1, runs=100)
    page = found.to_html()
    checked(page)
    assert 'class="verdict consistent"' in page and "100 runs with one canary" in page


LAW = {"a": {1: "0.5", HOSTILE: "0.3", 3: "0.2"}, "b": {1: "0.1", HOSTILE: "0.1", 3: "0.8"}}


def test_an_exact_answer_is_a_page() -> None:
    answer = finite(LAW, dp.Budget(epsilon=1, delta="0.1"))
    page = answer.to_html()
    assert "table" in checked(page).seen
    # 0.8 − 0.2e, and the largest ratio of two probabilities, 5.
    for part in ('class="verdict violated"', f"{0.8 - 0.2 * math.e:.4g}", f"ε = {math.log(5):.4g}", "3/10"):
        assert part in page


def test_an_answer_without_a_claim_has_no_verdict_on_its_page() -> None:
    page = finite([["1", "0"], ["0", "1"]]).to_html()
    checked(page)
    assert 'class="verdict' not in page and "no finite ε; δ ≥ 1 at every ε" in page


def test_many_probabilities_are_not_shown() -> None:
    rows = [["1/30"] * 30 for _ in range(30)]
    assert "Probabilities" not in finite(rows, 0).to_html()


def test_an_exact_answer_in_json_has_its_fractions_as_text() -> None:
    read = json.loads(json.dumps(finite(LAW, dp.Budget(epsilon=1, delta="0.1")).to_json(), allow_nan=False))
    assert (read["verdict"], read["ratio"], read["failure"]) == ("violated", "5", "0")
    assert read["claimed"]["points"] == [["1", "1/10"]]
    assert read["epsilon"] == pytest.approx(math.log(5))
    assert [row["delta"] for row in read["deltas"]] == pytest.approx(
        [0.6, 0.8 - 0.2 * math.exp(0.5), 0.8 - 0.2 * math.e, max(0.5 - 0.1 * math.e**2, 0.8 - 0.2 * math.e**2, 0)]
    )
    assert read["witness"]["under_x"] == "4/5"
    lost = finite([["1", "0"], ["0", "1"]]).to_json()
    assert (lost["epsilon"], lost["ratio"], lost["verdict"]) == ("inf", None, None)
