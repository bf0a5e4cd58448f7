"""Selection of groups: the optimum by its recurrence in sixty digits, the coins bit by bit."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.mechanisms import Threshold
from discreet.noise.entropy import SystemEntropy
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.unit import Relation
from discreet.testing import ReplayEntropy

DIGITS = 80
ALARM = 1e-9
SURE = "0.999999999999999"

GRID = [
    ("1", "1e-5"),
    ("0.1", "1e-8"),
    ("3", "0.2"),
    ("0.01", "1e-3"),
    ("20", "1e-10"),
    ("0.5", "0.9"),
    ("1/3", "1e-20"),
    ("1e-4", "1/2"),
]


def number(x: Fraction) -> mp.mpf:
    return mp.mpf(x.numerator) / x.denominator


def optimum(epsilon: mp.mpf, delta: mp.mpf, last: int) -> list[mp.mpf]:
    """π(0), …, π(last) by the recurrence of Desfontaines et al."""
    p = [mp.mpf(0)]
    for _ in range(last):
        rising = mp.exp(epsilon) * p[-1] + delta
        falling = 1 - mp.exp(-epsilon) * (1 - p[-1] - delta)
        p.append(min(rising, falling, mp.mpf(1)))
    return p


def truncated_geometric(epsilon: mp.mpf, k: int, n: int) -> mp.mpf:
    """P(n + Z > k) with P(Z = z) ∝ exp(−ε|z|) on −k, …, k."""
    mass = {z: mp.exp(-epsilon * abs(z)) for z in range(-k, k + 1)}
    return mp.fsum(m for z, m in mass.items() if n + z > k) / mp.fsum(mass.values())


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_keep_probabilities_are_the_optimal_recurrence(epsilon: str, delta: str) -> None:
    threshold = Threshold(epsilon, delta)
    with mp.workdps(DIGITS):
        last = min(threshold.kept_from(SURE) + 3, 2000)
        truth = optimum(number(Fraction(epsilon)), number(Fraction(delta)), last)
        for n in range(0, last + 1, max(1, last // 40)):
            low, high = threshold.enclosure(n, 100)
            assert high - low <= Fraction(1, 1 << 100)
            margin = mp.mpf(10) ** (-DIGITS + 20)
            assert number(low) - margin <= truth[n] <= number(high) + margin
            assert 0 <= low - threshold.keep_probability(n) <= Fraction(1, 1 << 64)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [*GRID, ("1e-9", "1e-12"), ("1e-6", "0.3"), ("50", "1e-10"), ("2000", "1e-60"), ("3", "0.999999999")],
)
def test_every_size_takes_the_same_digits(epsilon: str, delta: str) -> None:
    # Else what is kept of public parameters would tell something of the size of a group.
    threshold = Threshold(epsilon, delta)
    near = threshold._turn
    sizes = {1, 2, 3, 10, near - 1, near, near + 1, near + 5, 2 * near, 2 * near + 3, 40 * near, 1 << 62}
    assert len({threshold._interval(n, 80)[2] for n in sizes if n > 0}) == 1


def test_a_copy_with_another_parameter_is_made_anew() -> None:
    assert replace(Threshold(1, "1e-5"), epsilon=Fraction(2)) == Threshold(2, "1e-5")


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_neighbouring_counts_keep_the_promise_exactly(epsilon: str, delta: str) -> None:
    # (ε, δ)-DP of the two-valued output, both ways and for both outcomes, on the certified enclosures.
    threshold = Threshold(epsilon, delta)
    with mp.workdps(DIGITS):
        grow, d = mp.exp(number(Fraction(epsilon))), number(Fraction(delta))
        margin = mp.mpf(2) ** -110
        last = min(threshold.kept_from(SURE) + 2, 300)
        high = [number(threshold.enclosure(n, 120)[1]) for n in range(last + 1)]
        low = [number(threshold.enclosure(n, 120)[0]) for n in range(last + 1)]
        for n in range(last):
            assert low[n + 1] <= grow * high[n] + d + margin
            assert 1 - high[n] <= grow * (1 - low[n + 1]) + d + margin
            assert low[n] <= grow * high[n + 1] + d + margin
            assert 1 - high[n + 1] <= grow * (1 - low[n]) + d + margin


@pytest.mark.parametrize("k", [1, 2, 5, 20])
@pytest.mark.parametrize("epsilon", ["0.2", "1", "2.5"])
def test_the_truncated_geometric_is_the_optimum_where_its_threshold_is_whole(k: int, epsilon: str) -> None:
    with mp.workdps(DIGITS):
        e = mp.mpf(epsilon)
        # δ from k = (1/ε) ln((e^ε + 2δ − 1)/((e^ε + 1)δ)): irrational, so no δ that a user can write is it
        delta = (mp.exp(e) - 1) / (mp.exp(k * e) * (mp.exp(e) + 1) - 2)
        for n, p in enumerate(optimum(e, delta, 2 * k + 2)):
            assert abs(p - (truncated_geometric(e, k, n) if n else 0)) < mp.mpf(10) ** -60


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-5"), ("0.3", "1e-3"), ("2", "0.01")])
def test_elsewhere_the_optimum_keeps_at_least_as_much(epsilon: str, delta: str) -> None:
    threshold = Threshold(epsilon, delta)
    with mp.workdps(DIGITS):
        e, d = mp.mpf(epsilon), mp.mpf(delta)
        k = int(mp.ceil(mp.log((mp.exp(e) + 2 * d - 1) / ((mp.exp(e) + 1) * d)) / e))
        ours = [number(threshold.keep_probability(n)) for n in range(1, 2 * k)]
        theirs = [truncated_geometric(e, k, n) for n in range(1, 2 * k)]
        assert all(a >= b - mp.mpf(2) ** -60 for a, b in zip(ours, theirs, strict=True))
        assert max(a - b for a, b in zip(ours, theirs, strict=True)) > mp.mpf("0.01")


def test_a_group_of_no_units_is_never_kept_and_a_large_one_always() -> None:
    threshold = Threshold(1, "0.4")
    assert threshold.keep_probability(0) == threshold.keep_probability(-3) == 0
    assert threshold.keep_probability(100) == 1
    lowest, highest = bytes(8), b"\xff" * 8
    assert threshold.keep([0], ReplayEntropy(lowest * 5)) == [False]
    assert threshold.keep([100], ReplayEntropy(highest * 5)) == [True]
    assert threshold.keep([], SystemEntropy()) == []
    assert threshold.keep([1 << 62], SystemEntropy()) == [True]


@pytest.mark.parametrize("n", [1, 3, 11, 12, 17, 22])
def test_every_coin_turns_at_exactly_its_probability(n: int) -> None:
    # A coin is kept iff a uniform number is below π(n); its first 64 bits decide unless they are π(n)'s.
    threshold = Threshold(1, "1e-5")
    with mp.workdps(DIGITS):
        p = optimum(mp.mpf(1), mp.mpf("1e-5"), n)[n]
        scaled = mp.floor(p * mp.mpf(2) ** 192)
    turn = int(scaled) >> 128
    assert threshold.keep([n], ReplayEntropy(_word(turn - 1))) == [True]
    assert threshold.keep([n], ReplayEntropy(_word(turn + 1))) == [False]
    middle, last = (int(scaled) >> 64) & ((1 << 64) - 1), int(scaled) & ((1 << 64) - 1)
    assert threshold.keep([n], ReplayEntropy(_word(turn) + _word(middle - 1))) == [True]
    assert threshold.keep([n], ReplayEntropy(_word(turn) + _word(middle + 1))) == [False]
    assert threshold.keep([n], ReplayEntropy(_word(turn) + _word(middle) + _word(last - 1))) == [True]
    assert threshold.keep([n], ReplayEntropy(_word(turn) + _word(middle) + _word(last + 1))) == [False]


def _word(x: int) -> bytes:
    return x.to_bytes(8, "little")


def test_frequencies_are_the_probabilities_and_no_others() -> None:
    threshold, draws = Threshold(1, "1e-2", max_groups=2), 20_000
    sizes = np.repeat(np.arange(1, 20), draws)
    kept = np.array(threshold.keep(sizes, SystemEntropy())).reshape(-1, draws).sum(axis=1)
    p = np.array([float(threshold.keep_probability(n)) for n in range(1, 20)])
    inside = (p > 0.001) & (p < 0.999)

    def chi_square(q: np.ndarray) -> float:
        k, q = kept[inside], q[inside]
        return float(stats.chi2.sf(((k - draws * q) ** 2 / (draws * q * (1 - q))).sum(), len(q)))

    assert chi_square(p) > ALARM
    assert chi_square(p * 0.97) < ALARM
    assert (kept[p == 1] == draws).all()


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("groups", [1, 3])
def test_the_cost_is_what_was_asked_for(relation: Relation, groups: int) -> None:
    threshold = Threshold("0.7", "1e-6", groups, relation=relation)
    touched = groups * (2 if relation is Relation.REPLACE else 1)
    per_group = ApproximateEvent(Fraction(7, 10) / touched, Fraction(1, 10**6) / touched)
    assert threshold.event() == threshold.events == Composed([(per_group, touched)])
    assert sum(e.pure * n for e, n in threshold.event() if e.pure is not None) == Fraction(7, 10)
    assert sum(e.failure * n for e, n in threshold.event()) == Fraction(1, 10**6)
    other = Threshold(Fraction(7, 10) / touched, Fraction(1, 10**6) / touched)
    assert threshold.keep_probability(9) == other.keep_probability(9)


def test_replace_is_given_half_of_add_remove() -> None:
    add, replace = Threshold(1, "1e-6", 2), Threshold(1, "1e-6", 1, relation="replace")
    assert add.per_group == replace.per_group


@pytest.mark.parametrize("confidence", [0.01, 0.5, 0.95, SURE])
def test_kept_from_is_the_least_size(confidence: float | str) -> None:
    threshold = Threshold("0.3", "1e-6")
    n = threshold.kept_from(confidence)
    assert threshold.keep_probability(n) >= Fraction(str(confidence)) > threshold.keep_probability(n - 1)
    assert threshold.error(confidence) == n


@pytest.mark.parametrize("confidence", [0, 1, 1.5, float("nan"), True, "x"])
def test_impossible_confidences_are_refused(confidence: object) -> None:
    with pytest.raises(InvalidParameter):
        Threshold(1, "1e-6").kept_from(confidence)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", ["1e-24", "1e-9", "1e6", "1e24"])
@pytest.mark.parametrize("delta", ["1e-12", "0.999"])
def test_extreme_parameters_end_quickly(epsilon: str, delta: str) -> None:
    threshold = Threshold(epsilon, delta)
    n = threshold.kept_from(SURE)
    assert threshold.keep([0, 1, n, 10 * n], SystemEntropy())[3]


@pytest.mark.parametrize(
    ("epsilon", "delta", "groups"),
    [
        (0, "1e-6", 1),
        (-1, "1e-6", 1),
        (float("nan"), "1e-6", 1),
        (float("inf"), "1e-6", 1),
        (True, "1e-6", 1),
        (1, 0, 1),
        (1, 1, 1),
        (1, float("nan"), 1),
        (1, "x", 1),
        (1, None, 1),
        (1, "1e-6", 0),
        (1, "1e-6", 1.5),
        (1, "1e-6", True),
    ],
)
def test_impossible_parameters_are_refused(epsilon: object, delta: object, groups: object) -> None:
    with pytest.raises(InvalidParameter):
        Threshold(epsilon, delta, groups)  # type: ignore[arg-type]


def test_unknown_relations_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="add-remove"):
        Threshold(1, "1e-6", relation="substitute")


def test_a_missing_delta_says_what_to_do() -> None:
    with pytest.raises(InvalidParameter) as caught:
        Threshold(1, 0)
    assert "declare the keys" in caught.value.hint


def test_explain_and_repr_carry_the_numbers() -> None:
    threshold = Threshold("1.5", "6e-6", 3, relation="replace")
    text = threshold.explain()
    for piece in ("at most 6 counts", "(0.25, 1e-06)", "π(1) = 1e-06", "(1.5, 6e-06)-DP", "95%"):
        assert piece in text
    assert eval(repr(threshold), {"Threshold": Threshold}) == threshold
