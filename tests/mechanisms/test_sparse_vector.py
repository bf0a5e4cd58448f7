"""Sparse vector: its exact law against all neighbours, its draws, its gaps and numbers, floats, errors, doors."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.mechanisms import AboveThreshold, SparseVector
from discreet.mechanisms.sparse_vector import Crossings, split
from discreet.noise.entropy import SystemEntropy
from tests.coverage import covers
from tests.mechanisms.sparse_laws import Law, Outcome, outcomes

ALARM = 1e-9
RNG = SystemEntropy()
CASES = [(epsilon, c, monotonic) for epsilon in (0.5, 2.0) for c in (1, 2, 3) for monotonic in (False, True)]


def law_of(m: SparseVector | AboveThreshold, *, cutoff: int, threshold: int, moved: int = 0) -> Law:
    """The textbook's law at the mechanism's split of ε; the offset is public, and found from the median."""
    e1, e2, _ = map(float, m.parts)
    bare = Law.textbook(e1, e2, cutoff, m.monotonic, 0)
    median = bare.query * math.log(2 * bare.query / (bare.bar + bare.query))
    return Law.textbook(e1, e2, cutoff, m.monotonic, threshold + round(median) + moved)


@pytest.mark.parametrize(("epsilon", "cutoff", "monotonic"), CASES)
def test_no_neighbour_exceeds_epsilon_in_a_small_world(epsilon: float, cutoff: int, monotonic: bool) -> None:
    mechanism = SparseVector(epsilon=epsilon, threshold=1, cutoff=cutoff, monotonic=monotonic)
    law = law_of(mechanism, cutoff=cutoff, threshold=1)
    laws = {q: law.of(q, cutoff) for q in product(range(-1, 4), repeat=3)}
    worst = 0.0
    for q in product(range(3), repeat=3):
        assert sum(laws[q].values()) == pytest.approx(1, abs=1e-12)
        for step in product((0, 1) if monotonic else (-1, 0, 1), repeat=3):
            p, r = laws[q], laws[tuple(a + b for a, b in zip(q, step, strict=True))]
            worst = max(worst, *(abs(math.log(p[o] / r[o])) for o in p))
    assert worst <= epsilon * (1 + 1e-9)
    assert worst > epsilon / 2  # the enumeration sees something


@pytest.mark.parametrize(("epsilon", "cutoff", "monotonic"), CASES)
def test_epsilon_is_attained_by_many_below_and_a_few_above(epsilon: float, cutoff: int, monotonic: bool) -> None:
    mechanism = SparseVector(epsilon=epsilon, threshold=1, cutoff=cutoff, monotonic=monotonic)
    law = law_of(mechanism, cutoff=cutoff, threshold=1)
    bars, chances = law.bars()

    def chance(below: int, above: int) -> float:
        p = chances * (1 - law.tail(bars - below)) ** 100 * law.tail(bars - above) ** cutoff
        return float(p.sum())

    ratio = math.log(chance(0, 1) / chance(1, 1 if monotonic else 0))
    assert epsilon * (1 - 1e-6) < ratio < epsilon * (1 + 1e-9)


@pytest.mark.parametrize(("cutoff", "monotonic"), [(1, False), (1, True), (2, False)])
def test_no_neighbour_exceeds_epsilon_when_gaps_are_seen(cutoff: int, monotonic: bool) -> None:
    epsilon = 2.0
    mechanism = SparseVector(epsilon=epsilon, threshold=1, cutoff=cutoff, monotonic=monotonic, answers="gap")
    law = law_of(mechanism, cutoff=cutoff, threshold=1)
    worst = 0.0
    for q in product(range(2), repeat=2):
        for step in product((0, 1) if monotonic else (-1, 0, 1), repeat=2):
            r = tuple(a + b for a, b in zip(q, step, strict=True))
            for places in outcomes(2, cutoff):
                if not places:
                    continue
                for sizes in product(range(4), repeat=len(places)):
                    gaps = dict(zip(places, sizes, strict=True))
                    p, o = law.chance_of_gaps(q, gaps, cutoff), law.chance_of_gaps(r, gaps, cutoff)
                    worst = max(worst, abs(math.log(p / o)))
    assert epsilon / 2 < worst <= epsilon * (1 + 1e-9)


def test_a_law_with_noise_that_forgets_the_cutoff_exceeds_epsilon() -> None:
    # Algorithm 4 of Lyu, Su and Li: the enumeration would notice.
    e1, e2 = map(float, split(Fraction(1), 4, monotonic=False))
    law = Law.textbook(e1, e2, 1, False, 1)
    x, y = (0, 1, 1, 1, 1), (1, 0, 0, 0, 0)
    ratio = law.chance(x, (1, 2, 3, 4), 4) / law.chance(y, (1, 2, 3, 4), 4)
    assert math.log(ratio) > 2


def counted(draw: Callable[[], Outcome], draws: int) -> Counter[Outcome]:
    return Counter(draw() for _ in range(draws))


def chi_square(seen: Counter[Outcome], law: dict[Outcome, float]) -> float:
    """The p-value, with outcomes that expect few draws taken together."""
    n = sum(seen.values())
    often = [o for o in law if n * law[o] >= 25]
    observed = [*(seen[o] for o in often), n - sum(seen[o] for o in often)]
    wanted = [*(n * law[o] for o in often), n - sum(n * law[o] for o in often)]
    if wanted[-1] < 5:
        observed[-2:], wanted[-2:] = [sum(observed[-2:])], [sum(wanted[-2:])]
    return float(stats.chisquare(observed, wanted).pvalue)


QUERIES = (0, 4, 2, 5)


def by_release(m: SparseVector) -> Outcome:
    return m.release(np.array(QUERIES), rng=RNG).positions


def by_asking(m: SparseVector) -> Outcome:
    run, places = m.start(rng=RNG), []
    for i, q in enumerate(QUERIES):
        if run.halted:
            break
        if run.ask(q):
            places.append(i)
    return tuple(places)


@pytest.mark.laws
@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", [by_release, by_asking])
def test_runs_follow_the_law_and_not_a_neighbouring_one(way: Callable[[SparseVector], Outcome]) -> None:
    mechanism = SparseVector(epsilon=3, threshold=3, cutoff=2)
    seen = counted(lambda: way(mechanism), 8_000)
    law = law_of(mechanism, cutoff=2, threshold=3)
    assert chi_square(seen, law.of(QUERIES, 2)) > ALARM
    assert chi_square(seen, law_of(mechanism, cutoff=2, threshold=3, moved=1).of(QUERIES, 2)) < ALARM
    assert chi_square(seen, Law(law.bar * 1.3, law.query, law.level).of(QUERIES, 2)) < ALARM
    assert chi_square(seen, Law(law.bar, law.query * 1.25, law.level).of(QUERIES, 2)) < ALARM


def test_long_arrays_follow_the_law_too() -> None:
    # Over 256 queries the noise comes from tables: where the first of 400 is above, against its law.
    mechanism = AboveThreshold(epsilon=2, threshold=10)
    law = law_of(mechanism, cutoff=1, threshold=10)
    values = np.zeros(400, dtype=np.int64)
    bars, chances = law.bars()

    def first_before(k: int, law: Law) -> float:
        return float(1 - (chances * (1 - law.tail(bars)) ** k).sum())

    draws = 3000
    cuts = [0, 5, 20, 50, 100, 200, 400]
    found = [mechanism.release(values, rng=RNG) for _ in range(draws)]
    seen = np.histogram([400 if i is None else i for i in found], bins=[*cuts, 401])[0]

    def wanted(law: Law) -> NDArray[np.float64]:
        p = np.array([first_before(k, law) for k in cuts] + [1.0])
        return draws * np.diff(p)

    assert stats.chisquare(seen, wanted(law)).pvalue > ALARM
    wrong = Law(law.bar, law.query * 1.2, law.level)
    assert stats.chisquare(seen, wanted(wrong)).pvalue < ALARM


def test_floats_follow_the_continuous_law_and_not_a_neighbouring_one() -> None:
    # Exponential noise, as integers of 1/256: a mistake of that size does not show in so many draws.
    mechanism = SparseVector(epsilon=3, threshold="0.75", sensitivity="0.5", cutoff=2)
    e1, e2, _ = map(float, mechanism.parts)
    bar, query = 0.5 / e1, 2 * 2 * 0.5 / e2
    level = 0.75 + query * math.log(2 * query / (bar + query))
    values = np.array([0.0, 1.0, 0.5, 1.25])
    seen = counted(lambda: mechanism.release(values, rng=RNG).positions, 8_000)

    def law(bar: float, query: float, level: float) -> dict[Outcome, float]:
        fine = Law(256 * bar, 256 * query, round(256 * level))
        return fine.of(tuple(int(256 * v) for v in values), 2)

    assert chi_square(seen, law(bar, query, level)) > ALARM
    assert chi_square(seen, law(bar, query, level + 0.2)) < ALARM
    assert chi_square(seen, law(bar * 1.3, query, level)) < ALARM


def test_gaps_follow_their_law_and_not_a_neighbouring_one() -> None:
    mechanism = SparseVector(epsilon=2, threshold=3, answers="gap")
    law = law_of(mechanism, cutoff=1, threshold=3)
    e1, e2, _ = map(float, mechanism.parts)
    mean = [1 / math.expm1(e1), 1 / math.expm1(e2 / 2)]  # of ρ and ν
    shown = law.level + round(mean[0] - mean[1])  # what a gap of 0 is shown as
    numbers = [mechanism.release(np.array([2]), rng=RNG).numbers for _ in range(8_000)]
    gaps: Counter[Outcome] = Counter((int(n[0] - shown),) for n in numbers if n)
    assert min(gaps)[0] == 0

    def chances(query: int) -> dict[Outcome, float]:
        p: dict[Outcome, float] = {(g,): law.chance_of_gaps((query,), {0: g}, 1) for g in range(40)}
        return {g: x / law.chance((query,), (0,), 1) for g, x in p.items()}

    assert chi_square(gaps, chances(2)) > ALARM
    wrong: dict[Outcome, float] = {(g[0] + 1,): x for g, x in chances(2).items()}
    assert chi_square(gaps, wrong) < ALARM


def test_fresh_numbers_have_laplace_noise_of_their_share_and_no_other() -> None:
    mechanism = SparseVector(epsilon=3, threshold=-1000, cutoff=5, sensitivity=2, answers="1/3")
    numbers = [mechanism.release(np.zeros(5, dtype=np.int64), rng=RNG).numbers for _ in range(1500)]
    drawn = np.array(numbers).ravel()
    assert drawn.size == 7500  # all are above a threshold so low
    scale = 5 * 2 / 1.0  # cΔ/ε₃

    def passed(scale: float) -> bool:
        u = np.random.default_rng(1).random(drawn.size)  # spread each integer over its mass
        k = np.abs(drawn)
        a = math.exp(-1 / scale)
        below = np.where(drawn < 0, a**k / (1 + a), 1 - a ** (k + 1) / (1 + a))
        mass = (1 - a) / (1 + a) * a**k
        return bool(stats.kstest(below - u * mass, "uniform").pvalue > ALARM)

    assert passed(scale) and not passed(scale * 1.4) and not passed(scale / 1.4)


def test_the_split_has_the_least_variance_and_spends_all() -> None:
    for c, monotonic in product((1, 2, 7, 1000), (False, True)):
        e1, e2 = split(Fraction(1, 2), c, monotonic)
        assert e1 + e2 == Fraction(1, 2) and e1 > 0 and e2 > 0
        m = c if monotonic else 2 * c
        variance = [(1 / (s * float(e1))) ** 2 + (m / (0.5 - s * float(e1))) ** 2 for s in (0.999, 1, 1.001)]
        assert variance[1] < variance[0] and variance[1] < variance[2]
        assert float(e2 / e1) == pytest.approx(m ** (2 / 3), rel=1e-4)
    assert sum(SparseVector(epsilon=1, threshold=0, cutoff=9, answers=0.3).parts) == 1


@pytest.mark.parametrize("values", [np.array([0, 9, 9, 9, 0]), np.array([0.0, 9.0, 9.0, 9.0, 0.0])])
def test_a_run_ends_at_the_cutoff(values: NDArray[np.float64]) -> None:
    sharp = SparseVector(epsilon=10**6, threshold=5, cutoff=2, answers="gap")
    found = sharp.release(values)
    assert isinstance(found, Crossings)
    assert found.asked == 3 and found.positions == (1, 2)
    assert found.above.tolist() == [False, True, True]
    assert found.numbers == pytest.approx((9, 9), abs=1e-3)
    assert all(type(n) is type(values.tolist()[0]) for n in found.numbers or ())
    whole = SparseVector(epsilon=10**6, threshold=5, cutoff=9).release(values)
    assert whole.asked == 5 and whole.positions == (1, 2, 3) and whole.numbers is None


def test_the_first_one_above_is_found_or_none() -> None:
    sharp = AboveThreshold(epsilon=10**6, threshold=5)
    assert sharp.release(np.array([1, 2, 8, 9])) == 2
    assert sharp.release(np.array([1, 2])) is None
    assert sharp.release(np.array([], dtype=np.int64)) is None
    assert sharp.release(np.array([4, 5])) == 1  # on the threshold is above
    assert AboveThreshold(epsilon=10**6, threshold="4.5").release(np.array([4, 5])) == 1


def test_a_million_queries_are_told_apart() -> None:
    values = np.zeros(1_000_000, dtype=np.int64)
    values[[123_456, 999_999]] = 10_000
    found = SparseVector(epsilon=1, threshold=5_000, cutoff=5).release(values)
    assert found.positions == (123_456, 999_999) and found.asked == 1_000_000


def test_far_values_of_any_size_are_taken() -> None:
    sharp = SparseVector(epsilon=10**3, threshold=0, cutoff=4)
    assert sharp.release(np.array([-1.7e308, 1.7e308])).positions == (1,)
    assert sharp.release(np.array([-(2**63), 2**63 - 1])).positions == (1,)
    assert sharp.release(np.array([2**64 - 1], dtype=np.uint64)).positions == (0,)
    run = sharp.start()
    assert [run.ask(x) for x in (-(10**300), 10**300)] == [False, True]
    mixed = sharp.start()
    assert [mixed.ask(x) for x in (-0.5, 10**300, -5)] == [False, True, False]


def test_a_number_beyond_all_floats_is_cut_off_there() -> None:
    mechanism = SparseVector(epsilon=1, threshold="-1e350", answers="gap")
    assert mechanism.release(np.array([1e308])).numbers == (-sys.float_info.max,)


@pytest.mark.parametrize("threshold", [10**18, 2 * 10**18, -(10**25), 10**300])
def test_far_thresholds_are_compared_exactly(threshold: int) -> None:
    sharp = SparseVector(epsilon=10**3, threshold=threshold, cutoff=9, answers="gap")
    run = sharp.start()
    assert [run.ask(threshold + d) for d in (-1, 0, 2)] == [None, threshold, threshold + 2]
    if abs(threshold) < 2**62:
        assert sharp.release(np.array([threshold - 1, threshold])).positions == (1,)
    near = [math.nextafter(float(threshold), side * math.inf) for side in (-1, 1)]
    assert sharp.release(np.array(near)).positions == (1,)
    assert sharp.release(np.array([-1.7e308, 1.7e308])).positions == (1,)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
@pytest.mark.parametrize(("cutoff", "monotonic"), [(1, False), (2, True), (3, False)])
def test_the_error_bounds_every_answer(confidence: float, cutoff: int, monotonic: bool) -> None:
    mechanism = SparseVector(epsilon=1, threshold=0, cutoff=cutoff, monotonic=monotonic)
    law = law_of(mechanism, cutoff=cutoff, threshold=0)
    k = 4
    alpha = math.floor(mechanism.error(confidence, queries=k))
    for signs in product((-1, 1), repeat=k):  # all queries just beyond the error
        queries = tuple(s * (alpha + 1) for s in signs)
        right = tuple(i for i, s in enumerate(signs) if s > 0)[:cutoff]
        assert law.chance(queries, right, cutoff) >= confidence


@pytest.mark.parametrize("answers", ["gap", "0.4"])
def test_the_error_of_numbers_covers(answers: str) -> None:
    mechanism = SparseVector(epsilon=1, threshold=0, cutoff=3, answers=answers)
    within, runs, far = mechanism.answer_error(0.8, queries=4), 800, []
    values = np.array([20, -5, 40, 30])
    for _ in range(runs):
        found = mechanism.release(values, rng=RNG)
        assert found.numbers is not None
        far.append(max(abs(n - values[i]) for n, i in zip(found.numbers, found.positions, strict=True)))
    assert covers(sum(x <= within for x in far), runs, 0.8)
    assert not covers(sum(x <= within / 2 for x in far), runs, 0.8)
    with pytest.raises(InvalidParameter, match="no numbers"):
        SparseVector(epsilon=1, threshold=0).answer_error(queries=4)


def test_one_sided_noise_errs_less_than_the_textbooks() -> None:
    # Algorithm 7 with Laplace noise: |ν| ≤ s₂ ln(2k/β) and |ρ| ≤ s₁ ln(2/β) give s₂ ln(2k/β) + s₁ ln(2/β).
    for c, k in ((1, 10), (1, 10**6), (10, 1000)):
        mechanism = SparseVector(epsilon=1, threshold=0, cutoff=c)
        bar, query = mechanism.scales
        textbook = query * math.log(2 * k / 0.05) + bar * math.log(2 / 0.05)
        assert mechanism.error(0.95, queries=k) < 0.9 * textbook


BAD_VALUES = [
    3,
    [37, None],
    "37",
    None,
    np.array([[1, 2]]),
    np.array([37.0, math.nan]),
    np.array([math.inf]),
    np.array([True]),
    np.array([37 + 2j], dtype=np.complex64),
    np.array(7),
    np.ma.masked_array([1, 2], mask=[False, True]),
]


@pytest.mark.parametrize("values", BAD_VALUES, ids=repr)
def test_what_is_no_array_of_numbers_is_refused(values: object) -> None:
    for mechanism in (SparseVector(epsilon=1, threshold=0), AboveThreshold(epsilon=1, threshold=0)):
        with pytest.raises(InvalidParameter) as caught:
            mechanism.release(values)
        assert "37" not in str(caught.value)


@pytest.mark.parametrize("bad", [math.nan, math.inf, "x", None, True], ids=repr)
def test_impossible_thresholds_are_refused(bad: object) -> None:
    for kind in (SparseVector, AboveThreshold):
        with pytest.raises(InvalidParameter, match="threshold"):
            kind(epsilon=1, threshold=bad)  # type: ignore[arg-type]


def test_impossible_choices_are_refused_with_a_way_out() -> None:
    for cutoff in (0, -1, 1.5, True, None):
        with pytest.raises(InvalidParameter, match="cutoff"):
            SparseVector(epsilon=1, threshold=0, cutoff=cutoff)  # type: ignore[arg-type]
    for answers in (0, 1, -0.5, math.nan, True, "all"):
        with pytest.raises(InvalidParameter, match="answers"):
            SparseVector(epsilon=1, threshold=0, answers=answers)
    for monotonic in (1, "yes", None):
        with pytest.raises(InvalidParameter, match="monotonic"):
            SparseVector(epsilon=1, threshold=0, monotonic=monotonic)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match=r"2\^50"):
        SparseVector(epsilon="1e-12", threshold=0, cutoff=10**6)
    with pytest.raises(InvalidParameter, match="below 1"):
        SparseVector(epsilon=1, threshold=0, sensitivity="0.5").release(np.array([1]))
    for queries in (0, -1, 1.5):
        with pytest.raises(InvalidParameter, match="queries"):
            SparseVector(epsilon=1, threshold=0).error(queries=queries)  # type: ignore[arg-type]


def test_explain_and_repr_carry_the_numbers() -> None:
    names = {"SparseVector": SparseVector, "AboveThreshold": AboveThreshold}
    for m in (
        SparseVector(epsilon=0.5, threshold=7, cutoff=3, answers=0.2),
        SparseVector(epsilon=0.5, threshold="0.1", sensitivity=2, monotonic=True, answers="gap"),
        AboveThreshold(epsilon=0.5, threshold=7, monotonic=True),
    ):
        assert eval(repr(m), names) == m
        assert "a whole run is 0.5-DP" in m.explain()
