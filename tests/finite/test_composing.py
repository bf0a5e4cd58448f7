"""Composition, channels, groups and samples on matrices: laws by hand, and the textbook's bounds."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.finite import Database, Mechanism, databases, geometric, randomized_response

F = Fraction
COIN = Mechanism({0: ["3/4", "1/4"], 1: ["1/4", "3/4"]})
FAINT = Mechanism({0: ["3/5", "2/5"], 1: ["2/5", "3/5"]})
ON_TWO = Mechanism({x: {x.counts: 1} for x in databases("ab", 2, relation="replace")})


@st.composite
def mechanisms(draw: st.DrawFn, inputs: int = 3) -> Mechanism:
    """Laws of full support on three outputs."""
    row = st.lists(st.integers(1, 6), min_size=3, max_size=3)
    return Mechanism([[F(v, sum(r)) for v in r] for r in [draw(row) for _ in range(inputs)]])


def test_both_outputs_have_the_product_law() -> None:
    both = COIN & FAINT
    assert both.law(0) == {(0, 0): F(9, 20), (0, 1): F(6, 20), (1, 0): F(3, 20), (1, 1): F(2, 20)}
    assert both.ratio() == 3 * F(3, 2)


def test_an_adaptive_second_step_has_the_law_of_its_branch() -> None:
    adaptive = COIN.then({0: COIN, 1: FAINT})
    assert adaptive.law(0) == {(0, 0): F(9, 16), (0, 1): F(3, 16), (1, 0): F(3, 20), (1, 1): F(1, 10)}
    assert adaptive.ratio() == 9  # that of the dearer branch
    assert COIN.then(lambda o: FAINT if o else COIN) == adaptive
    # only what comes last, as in the notes' theorem M₂(x, M₁(x))
    last = adaptive.post(lambda o: o[1])
    assert last.law(0) == {0: F(9, 16) + F(3, 20), 1: F(3, 16) + F(1, 10)}


@settings(max_examples=60, deadline=None)
@given(mechanisms(), st.lists(mechanisms(), min_size=3, max_size=3), st.fractions(0, 1), st.fractions(0, 1))
def test_the_sums_of_the_theorem_hold_for_adaptive_choices(
    first: Mechanism, seconds: list[Mechanism], d: Fraction, e: Fraction
) -> None:
    """(ε₁ + ε₂, δ₁ + δ₂): as ratios, exactly, with δ₂ that of the worst branch."""
    both = first.then(dict(zip(first.outputs, seconds, strict=True)))
    one, two = d / 4, e / 4
    a = first.ratio(one)
    branches = [m.ratio(two) for m in seconds]
    assert a is not None
    b = max(r for r in branches if r is not None)
    found = both.ratio(one + two)
    assert found is not None
    assert found <= a * b


@settings(max_examples=60, deadline=None)
@given(mechanisms(), mechanisms())
def test_a_channel_never_helps_to_tell_neighbours_apart(M: Mechanism, K: Mechanism) -> None:
    after = M.post(K)
    for x in M.inputs:  # the law by hand
        by_hand = {u: sum((p * K.law(o)[u] for o, p in M.law(x).items()), F(0)) for u in K.outputs}
        assert after.law(x) == by_hand
    before, later = M.ratio(), after.ratio()
    assert before is not None
    assert later is not None
    assert later <= before
    assert all(after.delta_bounds(e)[0] <= M.delta_bounds(e)[1] for e in ("0.1", 1))
    assert all(after.tradeoff(a) >= M.tradeoff(a) for a in ("0.1", "0.5"))


def test_channels_are_functions_mappings_and_laws() -> None:
    assert COIN.post(lambda o: "same").ratio() == 1
    assert COIN.post({0: 1, 1: 0}).law(0) == {1: F(3, 4), 0: F(1, 4)}
    assert COIN.post(lambda o: {0: "1/2", o: "1/2"} if o else {0: 1}).law(0) == {0: F(7, 8), 1: F(1, 8)}


def test_disjoint_parts_cost_the_larger_of_both() -> None:
    both = COIN.parallel(FAINT)
    assert both.ratio() == 3
    assert both.law((0, 1))[0, 1] == F(3, 4) * F(3, 5)
    # neighbours differ in one part: (0,0)~(0,1), (0,0)~(1,0), (1,1)~(0,1), (1,1)~(1,0)
    named = {frozenset((both.inputs[i], both.inputs[j])) for i, j in both.pairs}
    assert named == {
        frozenset(p)
        for p in itertools.combinations(itertools.product((0, 1), repeat=2), 2)
        if sum(a != b for a, b in zip(*p, strict=True)) == 1
    }
    assert both.group(2).ratio() == F(9, 2)


@pytest.mark.parametrize("t", [1, 2, 3, 4])
def test_groups_keep_the_textbook_bound(t: int) -> None:
    """Cut-off noise 2^−|k|, |k| ≤ 2: t steps reach δ(1 + 2 + … + 2^(t−1)) exactly while they overlap."""
    whole = F(5, 2)
    M = Mechanism(
        lambda n: {n + k: F(1, 2 ** abs(k)) / whole for k in range(-2, 3)},
        inputs=range(6),
        neighbours=lambda m, n: abs(m - n) == 1,
    )
    delta = M.failure
    assert delta == F(1, 10)
    assert M.ratio(delta) == 2
    group = M.group(t)
    unrolled = delta * (2**t - 1)
    if unrolled < 1:
        found = group.ratio(unrolled)
        assert found is not None
        assert found <= 2**t
    assert group.failure <= min(F(1), unrolled) <= t * 2**t * delta
    assert t > 3 or group.failure == unrolled


def test_a_group_of_a_geometric_mechanism_is_as_private_as_its_loss_says() -> None:
    M = geometric(8, epsilon="1/2")
    for k in (1, 2, 3):
        assert M.group(k).epsilon() == pytest.approx(k / 2, abs=1e-12)
        assert M.loss.group(k).delta("0.6") >= M.group(k).delta("0.6") * (1 - 1e-9)


def test_poisson_samples_have_the_law_by_hand() -> None:
    world = databases("ab", 2)
    tell = Mechanism({x: {x.counts: 1} for x in world}, neighbours="add-remove")
    sampled = tell.poisson("1/3")
    found = sampled.law(Database("ab", (2, 0)))
    assert (found[0, 0], found[1, 0], found[2, 0]) == (F(4, 9), F(4, 9), F(1, 9))
    found = sampled.law(Database("ab", (1, 1)))
    assert (found[0, 0], found[1, 0], found[0, 1], found[1, 1]) == (F(4, 9), F(2, 9), F(2, 9), F(1, 9))
    assert tell.poisson(1) == tell
    assert tell.poisson(0).ratio() == 1


@pytest.mark.parametrize("rate", ["1/10", "1/2", "9/10"])
@pytest.mark.parametrize("delta", [0, "1/50"])
def test_poisson_amplification_is_that_of_the_theorem(rate: str, delta: str) -> None:
    """Balle, Barthe, Gaboardi 2018, Theorem 8: ratio 1 + q(a − 1) at qδ, for add-remove; reached at δ = 0."""
    world = databases([0, 1], 4)
    M = geometric(4, epsilon=1).of(sum, inputs=world, neighbours="add-remove")
    base = M.ratio(delta)
    found = M.poisson(rate).ratio(F(rate) * F(delta))
    assert base is not None
    assert found is not None
    assert found <= 1 + F(rate) * (base - 1)
    if not delta:
        assert found == 1 + F(rate) * (base - 1)


@pytest.mark.parametrize(("sample", "population"), [(1, 3), (2, 5), (3, 4), (3, 3)])
def test_fixed_size_amplification_is_that_of_the_theorem(sample: int, population: int) -> None:
    """Theorem 9: ratio 1 + (m/n)(a − 1) for replaced records; reached by a count."""
    small = databases([0, 1], sample, relation="replace")
    M = geometric(3, epsilon=1).of(sum, inputs=small, neighbours="replace")
    drawn = M.fixed_size(sample, population)
    a, found = M.ratio(), drawn.ratio()
    assert a is not None
    assert found == 1 + F(sample, population) * (a - 1)
    assert set(drawn.inputs) == set(databases([0, 1], population, relation="replace"))


def test_fixed_size_samples_are_hypergeometric() -> None:
    small = databases("ab", 2, relation="replace")
    tell = Mechanism({x: {x.counts[0]: 1} for x in small})
    law = tell.fixed_size(2, 5).law(Database("ab", (3, 2)))
    assert {k: law[k] for k in range(3)} == {k: F(math.comb(3, k) * math.comb(2, 2 - k), 10) for k in range(3)}


def test_a_mechanism_of_a_question() -> None:
    M = geometric(2, epsilon=1).of(
        lambda r: r.count("ill"), inputs=databases(["ill", "well"], 2), neighbours="add-remove"
    )
    assert M.ratio() == geometric(2, epsilon=1).ratio()
    assert M.law(Database(["ill", "well"], (1, 1))) == geometric(2, epsilon=1).law(1)
    with pytest.raises(InvalidParameter, match="no input of the mechanism"):
        geometric(1, epsilon=1).of(len, inputs=databases("a", 2))


def test_mixtures_of_inputs_are_mixtures_of_laws() -> None:
    M = COIN.mixture({"fair": ["1/2", "1/2"], "mostly": {0: "9/10", 1: "1/10"}})
    assert M.law("fair") == {0: F(1, 2), 1: F(1, 2)}
    assert M.law("mostly") == {0: F(7, 10), 1: F(3, 10)}
    assert M.ratio() == F(5, 3)


def test_repeating_a_local_answer_every_day_gives_it_away() -> None:
    day = randomized_response(["no", "yes"], epsilon=1)
    week = day
    for _ in range(6):
        week = (week & day).post(lambda o: (o[0] if isinstance(o[0], int) else int(o[0] == "yes")) + int(o[1] == "yes"))
    assert week.epsilon() == pytest.approx(7, abs=1e-12)
    assert float(week.posterior(7)["yes"]) == pytest.approx(1 / (1 + math.exp(-7)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: COIN.then(7), "must be a Mechanism, not int"),
        (lambda: COIN.then({0: COIN}), "nothing is given for the output 1"),
        (lambda: COIN & geometric(2, epsilon=1), "same inputs"),
        (lambda: COIN & Mechanism([["1/2", "1/2"]] * 2, neighbours=[]), "same neighbours"),
        (lambda: COIN.post(3), "a channel is"),
        (lambda: COIN.post(lambda o: [o]), "cannot be an output"),
        (lambda: COIN.post(lambda o: {0: "1/2"}), "sum to 1, and sum to 0.5"),
        (lambda: COIN.post({0: 1}), "nothing is given for the output 1"),
        (lambda: COIN.poisson("1/2"), "only a mechanism on databases"),
        (lambda: COIN.poisson(2), r"rate must lie in \[0, 1\]"),
        (lambda: COIN.fixed_size(1, 2), "only a mechanism on databases"),
        (lambda: ON_TWO.fixed_size(3, 5), "databases of sample=3 records"),
        (lambda: ON_TWO.fixed_size(2, 1), "at most population = 1, not 2"),
        (lambda: ON_TWO.fixed_size(2, 10**7), "databases"),
        (lambda: ON_TWO.poisson("1/2"), "is no input"),
        (lambda: COIN.expected(lambda x, o: math.nan), "finite number"),
    ],
)
def test_bad_parts_are_refused(call: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        call()


def test_what_has_no_inputs_or_is_no_mechanism_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="no elements"):
        COIN.of(lambda x: x, inputs=[])
    with pytest.raises(InvalidParameter, match="no elements"):
        COIN.mixture({})
    with pytest.raises(InvalidParameter, match="must be a Mechanism, not int"):
        COIN.parallel(3)  # type: ignore[arg-type]  # refused


def test_a_groups_mechanism_is_not_composed_with_one_whose_steps_are_longer() -> None:
    line = Mechanism([["1/2", "1/2"]] * 5, neighbours=[(i, i + 1) for i in range(4)])
    long = Mechanism([["1/2", "1/2"]] * 5, neighbours=[(i, j) for i in range(5) for j in range(i) if i - j < 3])
    assert set(line.group(2).pairs) == set(long.pairs)
    for first, second in ((line.group(2), long), (long, line.group(2))):
        with pytest.raises(InvalidParameter, match="steps"):
            first & second
    assert (line & line).group(2).pairs == (line.group(2) & line.group(2)).pairs
