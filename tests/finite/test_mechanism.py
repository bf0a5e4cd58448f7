"""Exact privacy of matrices against brute force over events, closed forms and mpmath."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dp
from discreet.audit import finite as audited
from discreet.errors import InvalidParameter
from discreet.finite import Database, Mechanism, databases, sensitivity
from discreet.testing import ReplayEntropy

F = Fraction
BROAD = Mechanism([[1] + [0] * 99] * 300, neighbours=[])
FRONT = {0: [0.75, 0.25], 1: [0.25, 0.75]}


@st.composite
def rows(draw: st.DrawFn) -> list[list[Fraction]]:
    """Two to four laws on two to four outputs, with zeros now and then."""
    m = draw(st.integers(2, 4))
    row = st.lists(st.integers(0, 6), min_size=m, max_size=m).filter(any)
    return [[F(v, sum(r)) for v in r] for r in draw(st.lists(row, min_size=2, max_size=4))]


def events(m: int) -> list[tuple[int, ...]]:
    return [e for r in range(m + 1) for e in itertools.combinations(range(m), r)]


def brute_delta(table: list[list[Fraction]], grown: Fraction) -> Fraction:
    """The largest P(E) − a Q(E) over all ordered pairs of rows and all events."""
    return max(
        sum((p[k] - grown * q[k] for k in e), F(0)) for p, q in itertools.permutations(table, 2) for e in events(len(p))
    )


def hockey(p: tuple[Fraction, ...], q: tuple[Fraction, ...], grown: Fraction) -> Fraction:
    return sum((max(a - grown * b, F(0)) for a, b in zip(p, q, strict=True)), F(0))


def test_the_front_door() -> None:
    M = Mechanism(FRONT)
    assert M.ratio() == 3
    assert M.epsilon(delta=0) == pytest.approx(math.log(3), abs=1e-15)
    assert M.delta(epsilon=1) == pytest.approx(0.75 - 0.25 * math.e, abs=1e-15)
    assert M.loss.epsilon() == pytest.approx(math.log(3))
    assert dp.finite.Mechanism is Mechanism
    assert repr(M) == "<Mechanism 2×2: ε = 1.09861>"


@settings(max_examples=150, deadline=None)
@given(rows(), st.fractions(0, 4))
def test_delta_is_the_largest_over_all_events(table: list[list[Fraction]], extra: Fraction) -> None:
    M = Mechanism(table)
    assert M.delta_bounds(0) == (brute_delta(table, F(1)),) * 2
    grown = 1 + extra
    assert hockey(*M.dominating, grown) == brute_delta(table, grown)


@settings(max_examples=100, deadline=None)
@given(rows(), st.fractions(0, F(9, 10)))
def test_the_ratio_is_the_least_that_is_enough(table: list[list[Fraction]], delta: Fraction) -> None:
    M = Mechanism(table)
    ratio = M.ratio(delta)
    if ratio is None:
        assert M.failure > delta
        assert brute_delta(table, F(10**9)) > delta
        return
    assert brute_delta(table, ratio) <= delta
    assert ratio == 1 or brute_delta(table, ratio * (1 - F(1, 10**6))) > delta


@settings(max_examples=60, deadline=None)
@given(rows(), st.fractions(0, 1))
def test_the_trade_off_is_the_best_of_all_tests(table: list[list[Fraction]], alpha: Fraction) -> None:
    """Every randomised test is a mixture of two events; so the best one lies on the hull of the events' errors."""
    found = Mechanism(table).tradeoff(alpha)
    best = F(1)
    for p, q in itertools.permutations(table, 2):
        points = [(sum((p[k] for k in e), F(0)), 1 - sum((q[k] for k in e), F(0))) for e in events(len(p))]
        for (a, b), (c, d) in itertools.product(points, repeat=2):
            if a <= alpha <= c:
                best = min(best, b if a == c else b + (d - b) * (alpha - a) / (c - a))
    assert found == best


@settings(max_examples=80, deadline=None)
@given(rows())
def test_the_dominating_pair_is_its_own_reverse_and_sums_to_one(table: list[list[Fraction]]) -> None:
    p, q = Mechanism(table).dominating
    assert sum(p) == sum(q) == 1
    assert sorted(zip(p, q, strict=True)) == sorted(zip(q, p, strict=True))


@settings(max_examples=40, deadline=None)
@given(rows())
def test_the_loss_says_what_the_matrix_says(table: list[list[Fraction]]) -> None:
    M = Mechanism(table)
    for epsilon in ("0.1", "0.7", 2):
        assert M.loss.delta(epsilon) == pytest.approx(M.delta(epsilon), rel=2e-11, abs=1e-15)
        assert M.loss.delta(epsilon) >= M.delta(epsilon) * (1 - 1e-11)
    assert M.loss.failure == M.failure


def test_the_loss_composes_as_the_matrix_does() -> None:
    M = Mechanism({0: ["1/2", "1/3", "1/6"], 1: ["1/6", "1/3", "1/2"], 2: ["1/3", "1/3", "1/3"]})
    twice = M & M
    for epsilon in ("0.2", 1, "1.9"):
        assert (M.loss * 2).delta(epsilon) >= twice.delta(epsilon) * (1 - 1e-9)
        assert twice.loss.delta(epsilon) == pytest.approx(twice.delta(epsilon), rel=2e-11)
    symmetric = Mechanism(FRONT)  # one pair of neighbours: nothing is lost
    assert (symmetric.loss * 2).delta(1) == pytest.approx((symmetric & symmetric).delta(1), rel=2e-11)


@pytest.mark.parametrize("alpha", [1, "1.0000001", "1.5", 2, 7, 40, "123.25"])
def test_renyi_divergences_are_those_of_mpmath(alpha: Any) -> None:
    table = [[F(1, 2), F(1, 3), F(1, 6)], [F(1, 100), F(1, 2), F(49, 100)], [F(1, 3)] * 3]
    found = Mechanism(table).renyi(alpha)
    with mpmath.workdps(60):
        a = mpmath.mpf(str(alpha))
        best = mpmath.mpf(0)
        for p, q in itertools.permutations(table, 2):
            pairs = [
                (mpmath.mpf(x.numerator) / x.denominator, mpmath.mpf(y.numerator) / y.denominator)
                for x, y in zip(p, q, strict=True)
            ]
            if a == 1:
                value = sum(x * mpmath.log(x / y) for x, y in pairs)
            else:
                value = mpmath.log(sum(x**a * y ** (1 - a) for x, y in pairs)) / (a - 1)
            best = max(best, value)
        assert 0 <= mpmath.mpf(found) - best <= best * mpmath.mpf("3e-16")


def test_moments_are_exact_and_agree_with_renyi() -> None:
    M = Mechanism(FRONT)
    assert M.moment(1) == 1
    assert M.moment(2) == F(9, 16) * 4 + F(1, 16) * F(4, 3) == F(7, 3)
    for order in (2, 3, 10):
        exactly = M.moment(order)
        assert exactly is not None
        assert M.renyi(order) == pytest.approx(math.log(exactly) / (order - 1), rel=1e-14)
    assert M.renyi(math.inf) == M.epsilon()
    gone = Mechanism([[1, 0], ["1/2", "1/2"]])
    assert gone.moment(2) is None
    assert gone.renyi(2) == gone.renyi(1) == math.inf
    same = Mechanism([["1/2", "1/2"]] * 2)
    assert same.moment(5) == 1
    assert [same.renyi(a) for a in (5, 1, "1.5")] == [0, 0, 0]


@pytest.mark.parametrize("alpha", [F(1) + F(1, 10**60), F(1) + F(1, 10**30), F(10**9), F(10**30)])
def test_a_renyi_order_near_one_or_huge_is_answered_from_above_and_closely(alpha: Fraction) -> None:
    with mpmath.workdps(200):
        p, a = mpmath.mpf(3) / 4, mpmath.mpf(alpha.numerator) / alpha.denominator
        # (3/4)^a (1/4)^(1 − a) + (1/4)^a (3/4)^(1 − a), divided by its larger term 3^(a − 1)·3/4
        true = mpmath.log(3) + mpmath.log(p + (1 - p) * mpmath.mpf(3) ** (-2 * (a - 1))) / (a - 1)
        found = Mechanism(FRONT).renyi(alpha)
        assert true <= found <= true * (1 + 1e-15)


@pytest.mark.parametrize("alpha", [1, "1.5", 2, 50])
def test_a_divergence_of_laws_that_hardly_differ_is_not_said_to_be_nothing(alpha: Any) -> None:
    off = F(1, 10**70)
    M = Mechanism([[F(1, 2) + off, F(1, 2) - off], [F(1, 2) - off, F(1, 2) + off]])
    assert 0 < M.renyi(alpha) < 1e-40


def test_the_worst_event_attains_what_is_said() -> None:
    M = Mechanism({"a": ["0.5", "0.3", "0.2"], "b": ["0.1", "0.1", "0.8"], "c": ["0.3", "0.3", "0.4"]})
    worst = M.worst()
    assert worst is not None
    assert worst.under_x / worst.under_neighbour == M.ratio() == 5
    assert (worst.x, worst.x_neighbour, worst.outputs) == ("a", "b", (0,))
    at = M.worst(1)
    assert at is not None
    assert float(at.under_x) - math.e * float(at.under_neighbour) == pytest.approx(M.delta(1))
    assert Mechanism([["1/2", "1/2"]]).worst() is None
    assert Mechanism([["1/2", "1/2"]]).worst(1) is None


def test_it_agrees_with_the_auditor() -> None:
    table = {0: {0: "0.9", 1: "0.1"}, 1: {0: "0.5", 1: "0.5"}, 2: {0: "0.1", 1: "0.9"}}
    M, judged = Mechanism(table, neighbours=[(0, 1), (1, 2)]), audited(table, neighbours=[(0, 1), (1, 2)])
    assert M.ratio() == judged.ratio() == 5
    assert M.group(2).ratio() == judged.group(2).ratio() == 9
    assert M.table == judged.table


def test_neighbours_may_be_a_relation_pairs_or_a_function() -> None:
    world = databases("ab", 2)
    law = {x: {x.size: 1} for x in world}
    by_name = Mechanism(law, neighbours="add-remove")
    by_hand = Mechanism(law, neighbours=lambda x, y: abs(len(x) - len(y)) == 1 and not set(x) & set(y) - set(x + y))
    assert set(by_name.pairs) == set(Mechanism(law, neighbours=dp.finite.neighbours("ab", 2)).pairs)
    assert by_hand.pairs
    assert by_name.failure == 1
    assert Mechanism(law, neighbours="replace").ratio() == 1  # the size is public there


def test_a_function_that_is_true_in_one_order_only_still_says_who_is_a_neighbour() -> None:
    table = {2: [1, 0], 1: ["1/2", "1/2"], 0: ["1/4", "3/4"]}
    assert Mechanism(table, neighbours=lambda x, y: y == x + 1).ratio() is None
    for inputs in itertools.permutations(table):
        M = Mechanism({x: table[x] for x in inputs}, neighbours=lambda x, y: y == x + 1)
        named = {frozenset((M.inputs[i], M.inputs[j])) for i, j in M.pairs}
        assert named == {frozenset((0, 1)), frozenset((1, 2))}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([Database("ab", [1, 0]), Database("ba", [2, 0])], "two universes"),
        ([Database("ab", [1, 0]), Database("ab", [1, 0])], "given twice"),
    ],
)
def test_a_relation_is_refused_where_counts_alone_would_decide_it_wrongly(inputs: list[Database], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Mechanism([[1, 0], [0, 1]], inputs=inputs, neighbours="add-remove")


def test_laws_chances_and_beliefs() -> None:
    M = Mechanism({"sick": {"yes": "3/4", "no": "1/4"}, "well": {"yes": "1/4", "no": "3/4"}})
    assert M.law("sick") == {"yes": F(3, 4), "no": F(1, 4)}
    assert M.chance("sick", ["yes"]) == M.chance("sick", lambda o: o == "yes") == F(3, 4)
    assert M.chance("well", []) == 0
    # Bayes by hand: 1/10·3/4 against 9/10·1/4
    assert M.posterior("yes", {"sick": "1/10", "well": "9/10"}) == {"sick": F(1, 4), "well": F(3, 4)}
    assert M.posterior("yes")["sick"] == F(3, 4)
    assert M.expected(lambda x, o: int((x == "sick") != (o == "yes"))) == F(1, 4)
    assert M.expected(lambda x, o: x == "sick" and 4, prior=["1/4", "3/4"]) == 1


def test_floats_that_miss_one_are_scaled_when_a_rounding_is_given() -> None:
    thirds = [[1 / 3] * 3, [0.5, 0.25, 0.25]]
    with pytest.raises(InvalidParameter, match="sum is off by -1e-16"):
        Mechanism(thirds)
    M = Mechanism(thirds, rounding=1e-12)
    assert M.law(0) == dict.fromkeys(range(3), F(1, 3))
    assert M.ratio() == F(3, 2)
    # the promise about rounding: a truth within a share r has an ε within 2 log((1 + r)/(1 − r))
    r = F(1, 1000)
    truth = [[F(1, 2), F(1, 2)], [F(1, 4), F(3, 4)]]
    given_rows = [[F(1, 2) * (1 + r), F(1, 2) * (1 - r)], [F(1, 4) * (1 - r), F(3, 4) * (1 + r)]]
    found = Mechanism(given_rows, rounding=r)
    slack = 2 * math.log((1 + r) / (1 - r))
    assert abs(found.epsilon() - Mechanism(truth).epsilon()) <= slack
    assert abs(found.delta(0.5) - Mechanism(truth).delta(0.5)) <= 5 * r


def test_a_small_matrix_is_printed_whole() -> None:
    text = str(Mechanism(FRONT))
    assert "3/4  1/4" in text
    assert "the largest ratio is 3." in text
    assert "Worst: output 0: 0.75 (3/4) under 0, 0.25 (1/4) under 1" in text
    assert "No finite ε" in str(Mechanism([[1, 0], [0, 1]]))
    assert "1/20" not in str(Mechanism([["1/20"] * 20] * 2))


def test_two_that_say_the_same_are_equal() -> None:
    assert Mechanism(FRONT) == Mechanism({0: ["3/4", "1/4"], 1: ["0.25", "0.75"]})
    assert Mechanism(FRONT) != Mechanism(FRONT, neighbours=[])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Mechanism({0: [0.5, 0.6], 1: [0.5, 0.5]}), "under 0 must sum to 1; the sum is off by 0.1"),
        (lambda: Mechanism([[1.5, -0.5]]), "below 0"),
        (lambda: Mechanism([[math.nan, 1]]), "finite number"),
        (lambda: Mechanism([[True, False]]), "must be a number, not True"),
        (lambda: Mechanism([[0.5, 0.5], [1]]), "one length"),
        (lambda: Mechanism([]), "no inputs"),
        (lambda: Mechanism({}), "no inputs"),
        (lambda: Mechanism({0: 5}), "must be a row of probabilities"),
        (lambda: Mechanism(np.ma.masked_array([[0.5, 0.5]], mask=[[False, True]])), "must be a number, not NoneType"),
        (lambda: Mechanism(7), "must be a mapping, a function or rows"),
        (lambda: Mechanism({0: [1]}, inputs=[0]), "already"),
        (lambda: Mechanism(lambda x: {x: 1}), "needs inputs="),
        (lambda: Mechanism({0: [1], 1: {0: 1}}), "must be a mapping"),
        (lambda: Mechanism([[1], [1]], neighbours=[(0, 2)]), "2 is a neighbour, but not an input"),
        (lambda: Mechanism([[1], [1]], neighbours="replace"), "for inputs that are databases"),
        (lambda: Mechanism([[1], [1]], neighbours="near"), "relation must be"),
        (lambda: Mechanism([[1] + [0] * 9] * 4000), "too many"),
        (lambda: BROAD & BROAD, "300 inputs with 10,000 outputs are 3,000,000 probabilities"),
        (
            lambda: Mechanism([[F(1, 7**k), 1 - F(1, 7**k)] for k in range(0, 10000, 10)]),
            "bits, are too much to compare",
        ),
        (lambda: Mechanism([[1]], rounding=0.5), "rounding must lie"),
        (lambda: Mechanism(FRONT).delta(-1), "epsilon must be at least 0"),
        (lambda: Mechanism(FRONT).worst(-1), "epsilon must be at least 0"),
        (lambda: Mechanism(FRONT).epsilon(delta=1), r"delta must lie in \[0, 1\)"),
        (lambda: Mechanism(FRONT).tradeoff(2), "alpha must lie"),
        (lambda: Mechanism(FRONT).renyi(0.5), "alpha must be at least 1"),
        (lambda: Mechanism(FRONT).moment(0), "order must be"),
        (lambda: Mechanism(FRONT).moment(10**8), "too long a number"),
        (lambda: Mechanism(FRONT).group(0), "k must be"),
        (lambda: Mechanism(FRONT).law(3), "3 is no input"),
        (lambda: Mechanism(FRONT).posterior(7), "7 is no output"),
        (lambda: Mechanism([[1, 0], [1, 0]]).posterior(1), "no chance under this prior"),
        (lambda: Mechanism(FRONT).posterior(0, {5: 1}), "5, which is no input"),
        (lambda: Mechanism(FRONT).posterior(0, [1]), "1 probabilities for 2 inputs"),
        (lambda: Mechanism(FRONT).posterior(0, [1, 1]), "its sum is 2"),
    ],
)
def test_bad_matrices_and_questions_are_refused(call: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        call()


def test_numbers_too_long_to_be_written_out_are_shown_short() -> None:
    tiny = F(1, 3**12000)
    M = Mechanism({0: [tiny, 1 - tiny], 1: [2 * tiny, 1 - 2 * tiny]})
    assert "ε = 0.693147" in str(M) and str(M.worst()).startswith("output 0: 0 under 1, 0 under 0")
    assert str(sensitivity(lambda r: len(r) * F(10**6000, 3), universe=[0], size=1, relation="add-remove"))
    with pytest.raises(InvalidParameter, match="sum to 0"):
        M.post(lambda _: {0: tiny})
    with pytest.raises(InvalidParameter, match="its sum is 0"):
        M.expected(lambda _, o: o, [tiny, 0])


def test_beyond_its_epsilon_the_worst_event_is_empty_and_tells_nothing() -> None:
    event = Mechanism(FRONT).worst(5)
    assert event is not None and not event.outputs
    assert event.under_x == 0 and event.epsilon == 0.0


def test_samples_have_the_probabilities_of_their_row() -> None:
    """Every draw of three bits: each output comes exactly as often as its row says."""
    M = Mechanism({"a": ["1/8", "3/8", "1/2"], "b": [0, 0, 1]})
    drawn = [M.sample("a", rng=ReplayEntropy(bytes([byte]))) for byte in range(256)]
    assert [drawn.count(o) for o in M.outputs] == [32, 96, 128]
    assert M.sample("b") == 2
    with pytest.raises(InvalidParameter, match="no input"):
        M.sample("c")
