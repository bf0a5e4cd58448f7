"""`finite` against closed forms, a brute-force enumeration of events, and a grid of tests."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import discreet as dp
from discreet.audit.claim import Claim
from discreet.audit.exact import Finite, finite
from discreet.errors import InvalidParameter
from discreet.finite.measured import exceeds, exponential
from discreet.mechanisms import Gaussian, Geometric

F = Fraction
THREE_QUARTERS = {"yes": {"yes": "3/4", "no": "1/4"}, "no": {"yes": "1/4", "no": "3/4"}}


def k_ary(k: int, ratio: Fraction) -> dict[int, dict[int, Fraction]]:
    """Says the truth `ratio` times as often as each other answer."""
    whole = ratio + k - 1
    return {x: {o: (ratio if o == x else F(1)) / whole for o in range(k)} for x in range(k)}


def truncated_geometric(n: int, a: Fraction) -> dict[int, dict[int, Fraction]]:
    """Ghosh, Roughgarden, Sundararajan 2009: the tails of P(k) ∝ a^|k| are put on 0 and n."""
    law: dict[int, dict[int, Fraction]] = {}
    for x in range(n + 1):
        law[x] = {o: (1 - a) / (1 + a) * a ** abs(o - x) for o in range(1, n)}
        law[x][0], law[x][n] = a**x / (1 + a), a ** (n - x) / (1 + a)
    return law


def brute_delta(p: list[Fraction], q: list[Fraction], grown: Fraction) -> Fraction:
    """The largest P(E) − a Q(E) over all events."""
    events = itertools.chain.from_iterable(itertools.combinations(range(len(p)), r) for r in range(len(p) + 1))
    return max(sum((p[k] - grown * q[k] for k in e), F(0)) for e in events)


def test_randomised_response_has_the_ratio_of_its_coin() -> None:
    answer = finite(THREE_QUARTERS)
    assert answer.ratio() == 3
    assert answer.epsilon() == pytest.approx(math.log(3), abs=1e-15)
    with mpmath.workdps(40):
        assert 0 <= mpmath.mpf(answer.epsilon()) - mpmath.log(3) < 3e-16
    assert answer.delta_bounds(0) == (F(1, 2), F(1, 2))
    assert answer.tradeoff(F(1, 4)) == F(1, 4)
    assert answer.tradeoff(F(1, 8)) == 1 - 3 * F(1, 8)


@pytest.mark.parametrize(("k", "ratio"), [(2, F(3)), (3, F(5, 2)), (7, F(10)), (40, F(11, 10))])
def test_k_ary_randomised_response_has_its_closed_forms(k: int, ratio: Fraction) -> None:
    answer = finite(k_ary(k, ratio))
    assert answer.ratio() == ratio
    low, high = answer.delta_bounds(F(1, 20))
    truth = max(0.0, (float(ratio) - math.exp(0.05)) / (float(ratio) + k - 1))
    assert float(low) == pytest.approx(truth, abs=1e-14)
    assert low <= high <= low + F(1, 10**36)
    assert answer.ratio(F(1, 100)) == max(F(1), ratio - (ratio + k - 1) / 100)


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_the_truncated_geometric_mechanism_has_the_ratio_of_its_neighbours(n: int) -> None:
    a = F(2, 5)
    answer = finite(truncated_geometric(n, a), neighbours=[(x, x + 1) for x in range(n)])
    assert answer.ratio() == 1 / a
    for k in range(1, n + 1):
        assert answer.group(k).ratio() == 1 / a**k
    assert answer.group(n + 5).ratio() == 1 / a**n


def test_the_exponential_mechanism_has_the_ratio_that_is_worked_out_by_hand() -> None:
    # scores of the worlds on three candidates; P ∝ 2^score, so e^(ε/2) = 2 and e^ε = 4 is the general bound
    scores = {"w": (0, 0, 0), "v": (1, 0, 0), "u": (1, -1, 0)}
    law = {w: {c: F(2) ** s / sum(F(2) ** t for t in row) for c, s in enumerate(row)} for w, row in scores.items()}
    answer = finite(law, neighbours=[("w", "v"), ("w", "u")])
    # candidate 1 under w and u: (1/3) / (½ / 3.5) = 7/3
    assert answer.ratio() == F(7, 3)
    assert answer.witness is not None
    assert (answer.witness.x, answer.witness.x_neighbour, answer.witness.outputs) == ("w", "u", (1,))
    assert finite(law, 2 * Decimal("0.69314718056")).verdict == "consistent"


def test_uniform_noise_is_not_private_for_any_epsilon() -> None:
    answer = finite(
        lambda x: {x + k: F(1, 11) for k in range(-5, 6)},
        dp.Budget(epsilon=10, delta="1e-3"),
        inputs=range(4),
        neighbours=[(0, 1), (1, 2), (2, 3)],
    )
    assert answer.ratio() is None
    assert answer.epsilon() == math.inf
    assert answer.failure == F(1, 11)
    assert answer.delta_bounds(1000) == (F(1, 11), F(1, 11))
    assert answer.group(3).failure == F(3, 11)
    assert answer.violated
    assert "δ is at least 0.0909091 (1/11) however large ε is" in str(answer)
    assert answer.witness is not None
    assert answer.witness.under_neighbour == 0
    assert math.isinf(answer.witness.epsilon)
    assert finite({0: {0: 1}, 1: {0: 1}}).ratio(F(1, 11)) == 1
    assert answer.ratio(F(1, 11)) == 1
    assert answer.ratio(F(1, 12)) is None


laws = st.lists(st.integers(0, 6), min_size=4, max_size=4).filter(any)


@settings(max_examples=150, deadline=None)
@given(laws, laws, st.integers(1, 5), st.integers(0, 12))
def test_delta_and_ratio_and_tradeoff_agree_with_all_events(
    p: list[int], q: list[int], numerator: int, part: int
) -> None:
    one, other = [F(a, sum(p)) for a in p], [F(a, sum(q)) for a in q]
    answer = finite([one, other])
    both = [(one, other), (other, one)]
    assert answer.delta_bounds(0)[0] == max(brute_delta(a, b, F(1)) for a, b in both)
    grown = F(math.exp(numerator / 3))  # a float of e^ε: within 1e-15 of the truth, relatively
    expected = max(brute_delta(a, b, grown) for a, b in both)
    low, high = answer.delta_bounds(F(numerator, 3))
    assert float(low) == pytest.approx(float(expected), abs=1e-13)
    assert 0 <= high - low <= F(1, 10**36)
    d = F(part, 13)
    ratio = answer.ratio(d)
    failure = max(sum((a for a, b in zip(x, y, strict=True) if not b), F(0)) for x, y in both)
    assert (ratio is None) == (failure > d)
    if ratio is not None:
        assert max(brute_delta(a, b, ratio) for a, b in both) <= d
        less = ratio * F(10**9 - 1, 10**9)
        assert ratio == 1 or max(brute_delta(a, b, less) for a, b in both) > d
    # all deterministic tests lie on or above the trade-off, and it is attained at the bends
    errors = [
        (sum((x[k] for k in e), F(0)), 1 - sum((y[k] for k in e), F(0)))
        for x, y in both
        for r in range(5)
        for e in itertools.combinations(range(4), r)
    ]
    assert all(answer.tradeoff(a) <= b for a, b in errors)
    assert all(any(b == answer.tradeoff(a) for c, b in errors if c == a) for a in (F(0), F(1)))


@pytest.mark.parametrize("digits", [5, 12, 17, 40, 90])
def test_no_rounding_turns_the_verdict(digits: int) -> None:
    with localcontext() as context:
        context.prec = digits + 30
        e = Fraction(Decimal(1).exp())
    step = Fraction(1, 10**digits)
    below, above = (e // step) * step, (e // step + 1) * step
    for ratio, verdict in ((below, "consistent"), (above, "violated")):
        answer = finite(k_ary(3, ratio), dp.Budget(epsilon=1))
        assert answer.ratio() == ratio
        assert answer.verdict == verdict


def test_a_delta_decides_exactly() -> None:
    # δ(ln 3) of randomised response with ratio 5 on two answers: (5 − 3)/6 = 1/3, but ln 3 is no fraction
    law = k_ary(2, F(5))
    below, above = F("1.0986122886681096"), F("1.0986122886681099")  # ln 3 = 1.09861228866810969…
    assert finite(law, dp.Budget(epsilon=above, delta=F(1, 3))).verdict == "consistent"
    assert finite(law, dp.Budget(epsilon=below, delta=F(1, 3))).verdict == "violated"
    assert finite(law, dp.Budget(epsilon=0, delta=F(2, 3))).verdict == "consistent"
    assert finite(law, dp.Budget(epsilon=0, delta=F(2, 3) - F(1, 10**80))).verdict == "violated"


def test_huge_and_tiny_epsilons_take_no_time() -> None:
    answer = finite(THREE_QUARTERS, dp.Budget(epsilon=10**12))
    assert answer.verdict == "consistent"
    assert answer.delta_bounds(10**100) == (F(0), F(0))
    assert finite(THREE_QUARTERS, dp.Budget(epsilon="1e-300")).verdict == "violated"


def test_a_loss_is_compared_along_its_curve() -> None:
    a = F(1, 2)
    law, pairs = truncated_geometric(6, a), [(x, x + 1) for x in range(6)]
    sound = Geometric(epsilon="0.6931472").loss  # just above ln 2
    short = Geometric(epsilon="0.6931471").loss  # just below
    assert finite(law, sound, neighbours=pairs).verdict == "consistent"
    assert finite(law, short, neighbours=pairs).verdict == "violated"
    assert finite(law, Gaussian(sigma=5).loss, neighbours=pairs).verdict == "violated"
    assert "points of its curve" in str(finite(law, Gaussian(sigma="0.1").loss, neighbours=pairs))
    assert finite(law, Claim.of(sound), neighbours=pairs).verdict == "consistent"
    assert finite(law, Claim.of("0.6931471"), neighbours=pairs).violated


def test_floats_mean_their_shortest_decimals() -> None:
    exactly = finite(np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]))
    assert exactly.ratio() == 7
    assert exactly.outputs == (0, 1, 2)


def rounded(ratio: float) -> list[list[float]]:
    weights = [[ratio if i == o else 1.0 for o in range(3)] for i in range(3)]
    return [[w / sum(row) for w in row] for row in weights]


def test_rounded_rows_need_a_rounding_and_do_not_accuse_within_it() -> None:
    with pytest.raises(InvalidParameter, match=r"must sum to 1; the sum is off by 1e-16") as refused:
        finite([[1 / 3, 1 / 3, 0.3333333333333335], [1, 0, 0]])
    assert "rounding=1e-12" in str(refused.value)
    answer = finite(rounded(math.e), 1, rounding=1e-12)
    assert answer.verdict == "consistent"
    assert finite(rounded(math.e * (1 + 1e-13)), 1, rounding=1e-12).verdict == "consistent"
    assert finite(rounded(math.e * (1 + 1e-11)), 1, rounding=1e-12).verdict == "violated"
    assert answer.epsilon() == pytest.approx(1, abs=1e-14)


def test_an_underflow_is_no_violation_within_a_rounding() -> None:
    rows = [[1 - 5e-324, 5e-324], [1.0, 0.0]]
    assert finite(rows, 1, rounding=1e-12).verdict == "consistent"
    assert finite([["0.9", "0.1"], ["1", "0"]], 1, rounding=1e-12).verdict == "violated"


def test_the_witness_can_be_checked_by_hand() -> None:
    law = {"a": {1: "0.5", 2: "0.3", 3: "0.2"}, "b": {1: "0.1", 2: "0.1", 3: "0.8"}}
    answer = finite(law, dp.Budget(epsilon=1, delta="0.1"))
    witness = answer.witness
    assert witness is not None
    # for a the event {1, 2} has 0.8 − 0.2e = 0.256; for b the event {3} has 0.8 − 0.2e as well
    assert {(witness.x, witness.outputs), ("a", (1, 2)), ("b", (3,))} == {("a", (1, 2)), ("b", (3,))}
    assert (witness.under_x, witness.under_neighbour) == (F(4, 5), F(1, 5))
    assert witness.epsilon == pytest.approx(math.log(4))
    text = str(answer)
    assert "violated: δ is 0.256344 at ε = 1, where 0.1 was claimed." in text
    assert "0.8 (4/5) under" in text


def test_one_input_is_perfectly_private() -> None:
    answer = finite([["1/2", "1/2"]], 0)
    assert answer.ratio() == 1
    assert answer.verdict == "consistent"
    assert answer.witness is None
    assert answer.tradeoff("0.3") == F(7, 10)
    assert repr(answer) == "<Finite 1×2: ε = 0, consistent>"


def test_inputs_may_be_unhashable() -> None:
    answer = finite(lambda x: {len(x): 1}, inputs=[[], [1], [1, 2]], neighbours=[([], [1])])
    assert answer.failure == 1
    assert answer.group(1).pairs == ((0, 1),)


@pytest.mark.parametrize(
    ("mechanism", "options", "message"),
    [
        (7, {}, "must be a mapping, a function or rows"),
        ([[0.5, 0.5], [1]], {}, "one length"),
        ([[0.5, 0.6], [1, 0]], {}, r"off by 0.1"),
        ([[1.5, -0.5]], {}, "below 0"),
        ([[math.nan, 1]], {}, "finite number"),
        ([["a", "b"]], {}, "must be a number"),
        ([], {}, "no inputs"),
        ({}, {}, "no inputs"),
        ({0: [1, 0]}, {}, "must be a mapping"),
        (lambda x: {x: 1}, {}, "needs inputs="),
        ({0: {0: 1}}, {"inputs": [0]}, "already"),
        ([[1], [1]], {"inputs": [0]}, "2 rows and 1 inputs"),
        ([[1], [1]], {"neighbours": [(0, 2)]}, "2 is a neighbour, but not an input"),
        ([[1], [1]], {"neighbours": [0]}, "pairs of inputs"),
        ([[1], [1]], {"inputs": ["a", "a"], "neighbours": [("a", "a")]}, "given twice"),
        ([[1]], {"rounding": 0.5}, "rounding must lie"),
    ],
)
def test_bad_tables_are_refused(mechanism: object, options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        finite(mechanism, **options)  # type: ignore[arg-type]  # wrong on purpose


def test_bad_questions_are_refused() -> None:
    answer = finite(THREE_QUARTERS)
    with pytest.raises(InvalidParameter, match="claimed"):
        finite(THREE_QUARTERS, object())  # type: ignore[arg-type]  # wrong on purpose
    for ask in (lambda: answer.delta_bounds(-1), lambda: answer.tradeoff(2), lambda: answer.group(0)):
        with pytest.raises(InvalidParameter):
            ask()
    with pytest.raises(InvalidParameter, match="neighbours="):
        finite([[1] + [0] * 9] * 4000)
    assert isinstance(answer, Finite)


@pytest.mark.parametrize("epsilon", [F(1, 10**30), F(1, 3), F(7), F(12345, 7)])
@pytest.mark.parametrize("digits", [5, 20, 60])
def test_e_to_the_epsilon_lies_between_its_bounds(epsilon: Fraction, digits: int) -> None:
    low, high = exponential(epsilon, digits)
    with mpmath.workdps(digits + 30):
        truth = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        assert mpmath.mpf(low.numerator) / low.denominator < truth < mpmath.mpf(high.numerator) / high.denominator
    assert high / low - 1 < F(1, 10 ** (digits - 1))


def test_comparisons_know_their_edges() -> None:
    assert exceeds(1, 0, F(10**20))
    assert not exceeds(0, 0, F(1))
    assert not exceeds(1, 1, F(0))
    assert not exceeds(10**30, 1, F(10**20))
    assert exceeds(3, 1, F(1))
    assert not exceeds(27, 10, F(1))
