"""The textbook's matrices against their formulas in mpmath, and against the mechanisms that draw from them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import pytest

from discreet.errors import InvalidParameter
from discreet.finite import databases, exponential, geometric, randomized_response
from discreet.finite.laws import grown
from discreet.mechanisms import Geometric

F = Fraction


def mp(x: Fraction) -> Any:
    return mpmath.mpf(x.numerator) / x.denominator


@pytest.mark.parametrize("epsilon", [F(1, 10**9), F(1, 3), F(1), F(7), F(199)])
def test_the_fraction_for_a_power_of_e_is_just_below_it(epsilon: Fraction) -> None:
    with mpmath.workdps(150):
        short = 1 - mp(grown(epsilon)) / mpmath.exp(mp(epsilon))
    assert 0 <= short < 1e-23
    assert grown(epsilon) >= 1


@pytest.mark.parametrize("epsilon", ["0.1", 1, 5])
@pytest.mark.parametrize("k", [2, 5])
def test_randomized_response_has_its_law_and_its_epsilon(k: int, epsilon: Any) -> None:
    M = randomized_response(range(k), epsilon=epsilon)
    e = math.exp(float(epsilon))
    assert float(M.law(1)[1]) == pytest.approx(e / (e + k - 1), rel=1e-14)
    assert float(M.law(1)[0]) == pytest.approx(1 / (e + k - 1), rel=1e-14)
    ratio = M.ratio()
    assert ratio is not None
    with mpmath.workdps(60):
        assert 0 <= mpmath.exp(mpmath.mpf(str(epsilon))) - mp(ratio) < 1e-20 * e


@pytest.mark.parametrize(("epsilon", "sensitivity"), [("0.5", 1), (1, 2), (3, 1), ("0.01", 3)])
def test_the_geometric_matrix_has_the_formula_and_the_tails_of_the_mechanism(epsilon: Any, sensitivity: int) -> None:
    n = 7
    M = geometric(n, epsilon=epsilon, sensitivity=sensitivity)
    a = math.exp(-float(epsilon) / sensitivity)
    for x in range(n + 1):
        law = M.law(x)
        for o in range(1, n):
            assert float(law[o]) == pytest.approx((1 - a) / (1 + a) * a ** abs(o - x), rel=1e-12)
        assert float(law[0]) == pytest.approx(a**x / (1 + a), rel=1e-12)
        assert float(law[n]) == pytest.approx(a ** (n - x) / (1 + a), rel=1e-12)
    assert M.epsilon() == pytest.approx(float(epsilon), rel=1e-12)
    with mpmath.workdps(60):
        assert mp(M.ratio() or F(0)) <= mpmath.exp(mpmath.mpf(str(epsilon)))
    assert M.loss.epsilon() == pytest.approx(
        Geometric(epsilon=epsilon, sensitivity=sensitivity).loss.epsilon(), rel=1e-9
    )


@pytest.mark.parametrize("epsilon", ["0.000001", "0.5", 2, 40])
def test_the_exponential_matrix_is_near_its_formula_and_keeps_epsilon_exactly(epsilon: Any) -> None:
    def utility(x: int, o: int) -> Fraction:
        return F(-abs(x - o), 3)

    M = exponential(utility, inputs=range(6), outputs=range(4), epsilon=epsilon, sensitivity="1/3",
                    neighbours=lambda x, y: abs(x - y) == 1)  # fmt: skip
    e = mpmath.mpf(str(epsilon))
    with mpmath.workdps(60):
        for x in range(6):
            weights = [mpmath.exp(e * mp(utility(x, o)) * 3 / 2) for o in range(4)]
            for o, p in M.law(x).items():
                truth = weights[int(str(o))] / sum(weights)
                assert abs(mp(p) / truth - 1) < 2e-10  # ε is lowered by 2⁻³⁸, times a spread of up to 15/2 · ε
        ratio = M.ratio()
        assert ratio is not None
        assert mp(ratio) <= mpmath.exp(e)


def test_the_exponential_mechanism_reaches_its_epsilon() -> None:
    """Two outputs whose utilities move in opposite directions: the ratio tends to e^ε as one weight takes all."""
    M = exponential(lambda x, o: x if o else -x, inputs=[10, 11], outputs=[0, 1], epsilon=1, sensitivity=1)
    assert 0.999 < M.epsilon() <= 1


def test_a_sensitivity_that_is_too_small_is_found_out() -> None:
    M = exponential(lambda x, o: -abs(x - o) * 5, inputs=range(3), outputs=range(3), epsilon=1, sensitivity=1)
    assert M.epsilon() > 1


def test_inputs_that_are_databases_are_handed_over_as_records() -> None:
    world = databases("ab", 2, relation="replace")
    M = exponential(lambda r, o: r.count(o), inputs=world, outputs="ab", epsilon=1, sensitivity=1, neighbours="replace")
    assert M.epsilon() <= 1
    assert M.chance(world[0], ["a"]) > F(1, 2)


def test_many_inputs_have_one_short_denominator() -> None:
    M = exponential(lambda x, o: -abs(x - o), inputs=range(300), outputs=range(5), epsilon=1, sensitivity=1,
                    neighbours=lambda x, y: abs(x - y) == 1)  # fmt: skip
    assert M.table.whole.bit_length() < 600
    assert M.epsilon() <= 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: geometric(10, epsilon=0), "epsilon must be above 0"),
        (lambda: geometric(10, epsilon=1000), "epsilon must be at most 200"),
        (lambda: geometric(0, epsilon=1), "most must be"),
        (lambda: geometric(10**6, epsilon=1), "probabilities; at most"),
        (lambda: geometric(1200, epsilon=199), "fractions of some"),
        (lambda: geometric(5, epsilon=1, sensitivity=0), "sensitivity must be"),
        (lambda: randomized_response([], epsilon=1), "values has no elements"),
        (lambda: randomized_response([1, 1], epsilon=1), "an element twice"),
        (lambda: randomized_response([[1]], epsilon=1), "has a list, which cannot be an output"),  # type: ignore[list-item]
        (lambda: softmax(epsilon=math.nan), "finite number"),
        (lambda: softmax(sensitivity=0), "sensitivity must be above 0"),
        (lambda: softmax(outputs=[]), "outputs has no elements"),
        (lambda: softmax(inputs=[]), "inputs has no elements"),
        (lambda: softmax(utility=lambda x, o: math.nan), "a utility must be a finite number"),
        (lambda: softmax(utility=lambda x, o: 10**6 * o), "a factor of 2"),
        (lambda: softmax(epsilon=F(1, 10**12)), "epsilon must be at least"),
    ],
)
def test_bad_parameters_are_refused(call: Any, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        call()


def softmax(**options: Any) -> object:
    given = {"inputs": [0, 1], "outputs": [0, 1], "epsilon": 1, "sensitivity": 1, **options}
    return exponential(given.pop("utility", lambda x, o: -abs(x - o)), **given)
