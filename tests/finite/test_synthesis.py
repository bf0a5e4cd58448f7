"""Optimal mechanisms: closed forms, the theorem of universality as an equality of fractions, and bounds that hold."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.finite import Mechanism, databases, geometric, optimal, randomized_response, remapped
from discreet.finite.measured import exponential
from discreet.finite.synthesis import keeps, lower_bound, mixed_in, vertex

F = Fraction


def near(x: int, y: int) -> bool:
    return abs(x - y) == 1


LOSSES = {
    "absolute": lambda x, o: abs(x - o),
    "squared": lambda x, o: (x - o) ** 2,
    "wrong": lambda x, o: x != o,
    "far": lambda x, o: max(0, abs(x - o) - 1),
}


def priors(n: int) -> dict[str, list[Fraction]]:
    return {
        "uniform": [F(1, n + 1)] * (n + 1),
        "rising": [F(2 * (k + 1), (n + 1) * (n + 2)) for k in range(n + 1)],
        "two points": [F(3, 4)] + [F(0)] * (n - 1) + [F(1, 4)],
        "odd": [F(2 * (k % 2) + 1, sum(2 * (j % 2) + 1 for j in range(n + 1))) for k in range(n + 1)],
    }


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("epsilon", ["0.2", 1, 4])
def test_the_best_guess_of_one_of_k_values_is_randomised_response(k: int, epsilon: Any) -> None:
    best = optimal(lambda x, o: x != o, inputs=range(k), epsilon=epsilon, prior=[F(1, k)] * k)
    assert float(best.value) == pytest.approx((k - 1) / (math.exp(float(epsilon)) + k - 1), rel=1e-12)
    assert best.value == randomized_response(range(k), epsilon=epsilon).expected(lambda x, o: x != o)
    assert 0 <= best.gap < 1e-9


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("n", [2, 5, 8])
@pytest.mark.parametrize("epsilon", ["0.3", 1, 2])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_geometric_mechanism_remapped_is_optimal_for_every_reader(n: int, epsilon: Any, loss: str) -> None:
    """Ghosh, Roughgarden, Sundararajan 2009, Theorem 3.1: as fractions where a corner was recovered."""
    noisy = geometric(n, epsilon=epsilon)
    for prior in priors(n).values():
        best = optimal(LOSSES[loss], inputs=range(n + 1), epsilon=epsilon, prior=prior, neighbours=near)
        reached = remapped(noisy, LOSSES[loss], prior=prior).expected(LOSSES[loss], prior)
        assert best.bound <= reached <= best.bound + F(1, 10**9)
        assert reached == best.value if best.is_vertex else abs(reached - best.value) < F(1, 10**9)
        ratio = best.mechanism.ratio()
        assert ratio is not None
        assert ratio < exponential(F(epsilon), 40)[1]


def test_other_questions_than_counts_have_no_mechanism_for_every_reader() -> None:
    """Randomised response on three values serves badly a reader who knows that one of them is out."""
    prior, loss = [F(1, 2), F(1, 2), F(0)], LOSSES["wrong"]
    best = optimal(loss, inputs=range(3), epsilon=1, prior=prior)
    own = remapped(randomized_response(range(3), epsilon=1), loss, prior=prior)
    assert float(best.value) == pytest.approx(1 / (1 + math.e), rel=1e-12)
    assert float(own.expected(loss, prior)) == pytest.approx(1 - (math.e + 0.5) / (math.e + 2), rel=1e-12)
    assert own.expected(loss, prior) > best.value + F(4, 100)


@pytest.mark.parametrize("loss", LOSSES)
def test_without_a_prior_the_worst_input_counts_and_a_least_favourable_prior_proves_it(loss: str) -> None:
    best = optimal(LOSSES[loss], inputs=range(5), epsilon=1, neighbours=near)
    assert best.value == best.mechanism.expected(LOSSES[loss])
    assert 0 <= best.gap < 1e-9
    assert sum(best.prior) == 1
    # against that prior no other mechanism does better, and on the worst input this one does no worse
    again = optimal(LOSSES[loss], inputs=range(5), epsilon=1, neighbours=near, prior=best.prior)
    assert abs(again.value - best.value) < F(1, 10**9)
    assert best.value <= geometric(4, epsilon=1).expected(LOSSES[loss])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=3, max_size=3),
    st.sampled_from(["0.1", 1, 3]),
)
def test_any_task_is_solved_within_its_proved_gap(costs: list[list[int]], epsilon: Any) -> None:
    best = optimal(lambda x, o: costs[x][o], inputs=range(3), epsilon=epsilon, prior=[F(1, 3)] * 3)
    assert 0 <= best.gap < 1e-8
    low, high = exponential(F(epsilon), 40)
    ratio = best.mechanism.ratio()
    assert ratio is not None
    assert ratio <= low < high
    for other in (
        randomized_response(range(3), epsilon=epsilon),
        Mechanism([[1, 0, 0]] * 3),
        Mechanism([["1/3"] * 3] * 3),
    ):
        assert other.expected(lambda x, o: costs[x][o], [F(1, 3)] * 3) >= best.bound


def test_the_bound_holds_for_any_prices_and_is_no_bound_for_less_private_mechanisms() -> None:
    costs = [[F(abs(x - o)) for o in range(3)] for x in range(3)]
    edges = [(0, 1), (1, 0), (1, 2), (2, 1)]
    prior = [F(1, 3)] * 3
    best = optimal(LOSSES["absolute"], inputs=range(3), epsilon=1, prior=prior, neighbours=near)
    high = exponential(F(1), 40)[1]
    for prices in ([[F(0)] * 3] * 4, [[F(1, 7)] * 3] * 4, [[F(k, 9) for k in range(3)]] * 4):
        assert lower_bound(costs, edges, high, prior, prices) <= best.bound
    identity = Mechanism([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert identity.expected(LOSSES["absolute"], prior) < best.bound


def test_rounded_rows_are_repaired_by_mixing() -> None:
    grown, edges = F(2), [(0, 1), (1, 0)]
    rows = [[F(667, 1000), F(332, 1000)], [F(1, 3), F(2, 3)]]  # misses the sum, and the ratio
    assert not keeps(rows, edges, grown)
    fixed = mixed_in(rows, edges, grown)
    assert keeps(fixed, edges, grown)
    assert all(abs(a - b) < F(3, 1000) for p, q in zip(rows, fixed, strict=True) for a, b in zip(p, q, strict=True))
    unused = mixed_in([[F(2, 3), F(1, 3), F(0)], [F(1, 4), F(3, 4), F(0)]], edges, grown)
    assert keeps(unused, edges, grown)
    assert [row[2] for row in unused] == [0, 0]


def test_a_corner_is_recovered_from_floats_and_from_nothing_else() -> None:
    grown, edges = F(3), [(0, 1), (1, 0)]
    assert vertex([[F(0.75), F(0.25 + 1e-12)], [F(0.25), F(0.75 - 1e-12)]], edges, grown, None) == [
        [F(3, 4), F(1, 4)],
        [F(1, 4), F(3, 4)],
    ]
    assert vertex([[F(1, 2), F(1, 2)], [F(2, 5), F(3, 5)]], edges, grown, None) is None  # inside, no corner


def test_databases_and_other_outputs() -> None:
    world = databases(["ill", "well"], 3, relation="replace")
    best = optimal(
        lambda r, o: abs(r.count("ill") - o), inputs=world, outputs=range(4), epsilon=1, neighbours="replace"
    )
    assert best.gap < 1e-9
    assert best.mechanism.epsilon() <= 1
    assert "Mean cost" in str(best)
    assert repr(best).startswith("<Optimal <Mechanism 4×4: ε = 1>: cost")
    certain = optimal(lambda x, o: o, inputs=[0, 1], outputs=[3, 7], epsilon=1)
    assert certain.value == 3
    alone = optimal(lambda x, o: x != o, inputs=["one"], epsilon=1)
    assert alone.value == alone.bound == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0}, "epsilon must be above 0"),
        ({"epsilon": 13}, "epsilon must be at most 12, not 13"),
        ({"epsilon": math.nan}, "finite number"),
        ({"inputs": []}, "inputs has no elements"),
        ({"outputs": []}, "outputs has no elements"),
        ({"inputs": range(101)}, "101 inputs with 101 outputs are 10,201 unknown probabilities; at most 10,000"),
        ({"inputs": range(100)}, "4,950 pairs of neighbours with 100 outputs are 990,000 constraints"),
        ({"inputs": [0, 0], "neighbours": near}, "an element twice"),
        ({"prior": [1]}, "1 probabilities for 3 inputs"),
        ({"prior": ["1/2", "1/2", "1/2"]}, "its sum is 1.5"),
        ({"loss": lambda x, o: math.inf}, "loss must be a finite number"),
    ],
)
def test_bad_tasks_are_refused(options: dict[str, Any], message: str) -> None:
    given_options = {"inputs": range(3), "epsilon": 1, **options}
    with pytest.raises(InvalidParameter, match=message):
        optimal(given_options.pop("loss", LOSSES["absolute"]), **given_options)


@pytest.mark.parametrize("epsilon", [8, 10, 11, 12])
@pytest.mark.parametrize("prior", [None, [1, 0, 0]])
def test_a_large_epsilon_is_solved_as_closely_as_a_small_one(epsilon: int, prior: Any) -> None:
    for loss in (LOSSES["absolute"], LOSSES["wrong"]):
        best = optimal(loss, inputs=range(3), epsilon=epsilon, prior=prior)
        assert best.gap < F(1, 10**8)
    # All three inputs are neighbours: of the laws that err with chance q, randomised response has the least q.
    if prior is None:
        assert float(best.value) == pytest.approx(2 / (math.exp(epsilon) + 2), rel=1e-4)
    else:
        assert best.value == 0  # the input is known


def test_many_inputs_are_solved_in_more_than_one_way_until_the_bound_is_near() -> None:
    best = optimal(LOSSES["absolute"], inputs=range(40), epsilon=1, neighbours=near)
    assert best.gap < F(1, 10**5)
