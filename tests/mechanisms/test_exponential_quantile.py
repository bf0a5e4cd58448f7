"""The exponential quantile: how far losses move by going through small tables, its law, its interval, its doors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.mechanisms import ExponentialQuantile
from discreet.mechanisms.exponential_quantile import COUNTED, MOST_CELLS, NAMED, NEAR, Runs
from discreet.noise.entropy import SystemEntropy
from discreet.noise.selection import MOST, exponential
from discreet.privacy.unit import Relation
from discreet.testing import ReplayEntropy
from tests.coverage import covers
from tests.noise.chi_square import accepts, refuses

HALF = Fraction(1, 2)
SHARES = [HALF, Fraction(1, 5), Fraction(3, 4)]
Counts = tuple[int, ...]


def losses(counts: Counts, p: Fraction, shift: Fraction | int = 0) -> list[Fraction]:
    """From the definition, cell by cell."""
    target, before, found = p * sum(counts) + shift, 0, []
    for i, w in enumerate(counts):
        above = Fraction(0) if i == 0 else before - target
        under = Fraction(0) if i == len(counts) - 1 else target - before - w
        found.append(max(above, under, Fraction(0)))
        before += w
    return found


def law(counts: Counts, q: ExponentialQuantile, shift: int = 0, *, stretch: float = 1.0) -> list[float]:
    d = np.array([float(x) for x in losses(counts, q.p, shift)])
    weight = np.exp(-float(q.rate) * stretch * d)
    return [float(w) for w in weight / weight.sum()]


def tables(cells: int, most: int) -> Iterator[Counts]:
    return product(range(most + 1), repeat=cells)


def added(cells: int, weight: int) -> list[Counts]:
    """All that one unit may add."""
    return [c for c in tables(cells, weight) if sum(c) <= weight]


def width(one: list[Fraction], two: list[Fraction]) -> Fraction:
    moves = [b - a for a, b in zip(one, two, strict=True)]
    return max(moves) - min(moves)


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("weight", [1, 2])
@pytest.mark.parametrize("p", SHARES)
def test_losses_move_within_the_stated_width_and_no_smaller_one_would_do(p: Fraction, weight: int) -> None:
    cells, most = 4, 2 if weight == 1 else 3
    worst = dict.fromkeys(Relation, Fraction(0))
    for base in tables(cells, most):
        given = [losses(tuple(b + a for b, a in zip(base, own, strict=True)), p) for own in added(cells, weight)]
        alone = losses(base, p)
        worst[Relation.ADD_REMOVE] = max(worst[Relation.ADD_REMOVE], *(width(alone, d) for d in given))
        pairs = ((d, e) for i, d in enumerate(given) for e in given[:i])
        worst[Relation.REPLACE] = max(worst[Relation.REPLACE], *(width(d, e) for d, e in pairs))
    for relation, found in worst.items():
        q = ExponentialQuantile(epsilon=1, p=p, sensitivity=weight, relation=relation)
        assert q.ranges == ((found, 1),)
    assert worst[Relation.ADD_REMOVE] == 2 * max(p, 1 - p) * weight and worst[Relation.REPLACE] == 2 * weight


@pytest.mark.parametrize("groups", [1, 2, 3, 4, None])
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("p", SHARES)
def test_over_several_groups_no_pair_of_units_can_change_more(p: Fraction, k: int, groups: int | None) -> None:
    """Every choice of groups of the old and of the new unit; the widths of one group are those found above."""
    shared, alone = Fraction(2), 2 * max(p, 1 - p)
    n = 2 * k if groups is None else groups
    sets = [{i for i in range(n) if mask >> i & 1} for mask in range(1 << n)]
    units = [s for s in sets if len(s) <= k]
    worst = max(len(old & new) * shared + (len(old | new) - len(old & new)) * alone for old in units for new in units)
    q = ExponentialQuantile(epsilon=1, p=p, relation="replace", max_groups=k, groups=groups)
    assert sum(found * times for found, times in q.ranges) == worst
    assert q.rate * worst == NAMED
    most = max(len(s) for s in units)
    add = ExponentialQuantile(epsilon=1, p=p, max_groups=k, groups=groups)
    assert sum(found * times for found, times in add.ranges) == most * alone


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("p", SHARES)
def test_the_exact_law_keeps_epsilon_on_every_small_table_and_comes_close(p: Fraction, relation: Relation) -> None:
    """By the law itself: log-probabilities of neighbours differ by numbers in an interval of one selection's width, and
    a mechanism with a tenth more than its rate would not.
    """
    q = ExponentialQuantile(epsilon=3, p=p, relation=relation)
    share, worst = 3 * float(NAMED), 0.0
    for base in tables(4, 2):
        for shift in (-1, 0, 2):
            near = [tuple(b + a for b, a in zip(base, own, strict=True)) for own in added(4, 1)]
            logs = [np.log(law(c, q, shift)) for c in (near if relation is Relation.REPLACE else [base, *near])]
            ahead = logs[:1] if relation is Relation.ADD_REMOVE else logs
            worst = max(worst, *(float(np.ptp(x - y)) for x in ahead for y in logs))
    assert worst <= share + 1e-9
    assert worst * 1.1 > share


COUNTS = (0, 0, 3, 0, 0, 1, 4, 0)


@pytest.mark.laws
def test_cells_are_named_by_the_law_and_not_by_a_slightly_wrong_one() -> None:
    q, rng = ExponentialQuantile(epsilon=6), SystemEntropy()
    held = [i for i, w in enumerate(COUNTS) if w]
    before = [0, *np.cumsum([COUNTS[i] for i in held]).tolist()]
    found = [q.choose(held, before, len(COUNTS), rng).cell for _ in range(6_000)]
    truth = law(COUNTS, q)
    assert accepts(found, truth)
    assert refuses(found, law(COUNTS, q, stretch=1.4), truth)


def test_runs_of_copies_are_drawn_as_often_as_single_candidates() -> None:
    utilities, copies = np.array([0, -1, -3]), np.array([2, 30, 500])
    weights = np.exp(0.7 * utilities) * copies
    truth = (weights / weights.sum()).tolist()
    rng = SystemEntropy()
    drawn = [exponential(utilities, Fraction(7, 10), rng, copies=copies) for _ in range(8_000)]
    assert accepts(drawn, truth)
    alone = np.exp(0.7 * utilities)
    assert refuses(drawn, (alone / alone.sum()).tolist(), truth)
    off = np.exp(0.9 * utilities) * copies
    assert refuses(drawn, (off / off.sum()).tolist(), truth)


@pytest.mark.parametrize(
    "copies",
    [np.array([1, 2]), np.array([1, 0, 2]), np.array([1.0, 1.0, 1.0]), np.array([1, MOST, 1]), np.array([1, -1, 1])],
    ids=repr,
)
def test_impossible_copies_are_refused(copies: np.ndarray) -> None:
    with pytest.raises(InvalidParameter):
        exponential([1, 2, 3], Fraction(1), SystemEntropy(), copies=copies)


@pytest.mark.parametrize("scale", [1, 1 << 70], ids=["64 bits", "wide"])
def test_runs_have_the_losses_of_their_cells(scale: int) -> None:
    """Also where numbers do not fit in 64 bits."""
    for counts in [*tables(5, 1), COUNTS, (7,), (0,), (2, 0), (0, 3), (0,) * 9]:
        held = [i for i, w in enumerate(counts) if w]
        before = [0, *np.cumsum([counts[i] for i in held]).tolist()]
        runs = Runs.of(held, [b * scale for b in before], len(counts))
        for p, shift in product(SHARES, (-2, 0, 5)):
            a, b = p.numerator, p.denominator
            target = (a * sum(counts) + b * shift) * scale
            found = np.repeat(runs.losses(target, b), runs.lengths)
            assert found.tolist() == [d * b * scale for d in losses(counts, p, shift)]
            assert runs.starts.tolist() == (np.cumsum(runs.lengths) - runs.lengths).tolist()


FAR = [
    (5, *[0] * 60, 5),
    (*[0] * 30, 90, *[0] * 30),
    (*[1] * 64,),
    (*[0] * 60, 1, 1, 1, 1),
    (300, *[0] * 40, 1, 300),
    (0,) * 64,
    (7,),
    (*[40, 0] * 30,),
]


@pytest.mark.parametrize("digits", [18, 19, 20, 25])
@pytest.mark.parametrize("counts", [(0, 0, 0, 0), (0, 1, 0, 0), (0,), (1,), (0, 3, 0, 4)])
def test_a_share_of_many_digits_is_taken_exactly_of_no_rows_as_of_some(counts: Counts, digits: int) -> None:
    """A failure where there are no rows would tell that there are none."""
    p = Fraction(3 * 10 ** (digits - 1) + 1, 10**digits)
    places = [i for i, w in enumerate(counts) if w]
    runs = Runs.of(places, [0, *np.cumsum([counts[i] for i in places]).tolist()], len(counts))
    for shift in (0, -3, 3):
        found = runs.losses(p.numerator * sum(counts) + p.denominator * shift, p.denominator)
        cells = [Fraction(int(x), p.denominator) for x in np.repeat(found, runs.lengths)]
        assert cells == losses(counts, p, shift)
    named, low, high = ExponentialQuantile(epsilon=1, p=p).release(counts)
    assert 0 <= low <= named <= high < len(counts)


@pytest.mark.parametrize("size", [10**290, 10**309, 10**400])
@pytest.mark.parametrize("counts", [(1, 0, 0, 0), (0, 1, 0, 1), (0, 0, 0, 1)])
def test_weights_of_any_size_are_counted(counts: Counts, size: int) -> None:
    """A failure at large ones would tell that there are such."""
    named, low, high = ExponentialQuantile(epsilon=10).release([n * size for n in counts])
    assert 0 <= low <= named <= high < len(counts)
    assert all(not n or low <= i <= high for i, n in enumerate(counts))


@pytest.mark.parametrize("p", [Fraction(1, 10**400), Fraction(1, 10**300), Fraction(5, 10**324)])
@pytest.mark.parametrize("counts", [(3, 0, 0, 0), (0, 4, 0, 1), (0,) * 8])
def test_a_share_below_all_floats_has_an_interval(counts: Counts, p: Fraction) -> None:
    for share, values in ((p, counts), (1 - p, counts[::-1])):
        named, low, high = ExponentialQuantile(epsilon=1, p=share).release(values)
        assert 0 <= low <= named <= high < len(values)


def test_all_parts_cost_epsilon_together_and_histograms_what_their_noise_is_for() -> None:
    for relation, k, weight in product(Relation, (1, 2), (1, 5)):
        q = ExponentialQuantile(epsilon=2, sensitivity=weight, relation=relation, max_groups=k, groups=None)
        moved = (1 if relation is Relation.ADD_REMOVE else 2) * k * weight
        assert moved / q.near.scale == 2 * NEAR and moved / q.counted.scale == 2 * COUNTED
        assert sum(n * (e.pure or 0) for e, n in q.events) == 2


def true_cells(weights: Counts, p: Fraction) -> set[int]:
    """The cells of the values at all ranks that a usual definition of the quantile may mean."""
    upto, total = np.cumsum(weights), sum(weights)
    m = max(p, 1 - p)
    near = [k for k in range(1, total + 1) if p * total - m <= k <= p * total + m + 1] or [1]
    return {int(np.searchsorted(upto, k)) for k in near}


@pytest.mark.thinned(2)
@pytest.mark.laws
@pytest.mark.sampled(8)
@pytest.mark.parametrize("p", [*SHARES, Fraction(99, 100)])
@pytest.mark.parametrize("confidence", [Fraction(9, 10), Fraction(19, 20)])
def test_the_interval_holds_the_quantile_as_often_as_asked(p: Fraction, confidence: Fraction) -> None:
    """For tables with gaps and heavy cells too, and for all usual definitions at once; that less noise than there is
    would be seen is in `test_flanks.py`.
    """
    q, runs = ExponentialQuantile(epsilon=Fraction(1, 2), p=p), 400
    for weights in ((300, *[0] * 40, 1, 300), (*[40, 0] * 30,), (*[9] * 64,), (0, 1, 0), (2, 0, 0, 1)):
        held = [i for i, w in enumerate(weights) if w]
        before = [0, *np.cumsum([weights[i] for i in held]).tolist()]
        rng = ReplayEntropy(np.random.default_rng(7).bytes(1 << 23))
        truth, kept = true_cells(weights, p), 0
        for _ in range(runs):
            found = q.choose(held, before, len(weights), rng)
            low, high = q.interval(found, len(weights), confidence)
            assert 0 <= low <= found.cell <= high < len(weights)
            kept += low <= min(truth) and max(truth) <= high
        assert covers(kept, runs, confidence)


@pytest.mark.parametrize("confidence", [HALF, Fraction(19, 20), Fraction(999, 1000)])
def test_the_error_bounds_the_rank_by_the_exact_law_and_a_smaller_one_would_not(confidence: Fraction) -> None:
    q = ExponentialQuantile(epsilon=1)
    likely = []
    for counts in [*FAR, (300, *[0] * 200, 1), *((c * 40 for c in t) for t in tables(4, 2))]:
        weights = tuple(counts)
        t = q.error(confidence, cells=len(weights))
        chance = law(weights, q)
        d = losses(weights, HALF)
        assert sum(c for c, x in zip(chance, d, strict=True) if x >= t) <= 1 - confidence + 1e-12 or t == 0
    # many empty cells at one distance: the bound is nearly reached
    for cells in (100, 1000):
        t = q.error(confidence, cells=cells)
        rows = 2 * math.floor(t * 0.9)
        weights = (0, rows, *[0] * (cells - 2))
        named = np.array(law(weights, q))
        likely.append(float(named[2:].sum() + named[0]))
    assert min(likely) > 1 - confidence


def test_a_released_cell_lies_between_its_ends_and_they_hold_the_true_one() -> None:
    q, rng = ExponentialQuantile(epsilon=4), SystemEntropy()
    counts = [3] * 200
    held = 0
    for _ in range(300):
        cell, low, high = q.release(counts, rng=rng)
        assert 0 <= low <= cell <= high < 200
        held += low <= 99 and high >= 100
    assert held >= 280


def test_a_million_values_in_a_wide_grid_are_chosen_from_exactly_and_fast() -> None:
    rng = SystemEntropy()
    q = ExponentialQuantile(epsilon=1, sensitivity=1 << 20, row=1 << 20)
    places = np.arange(10**6) * 4000
    before = np.arange(10**6 + 1) << 20
    chosen = q.choose(places.tolist(), before.tolist(), MOST_CELLS, rng)
    (low, high), cell = q.interval(chosen, MOST_CELLS, Fraction(19, 20)), chosen.cell
    assert low <= cell <= high
    assert abs(cell / 4000 - 500_000) < 400 and 0 < (high - low) / 4000 < 800


@pytest.mark.parametrize("p", [0, 1, -1, 2, math.nan, "x", None, True])
def test_shares_that_have_no_rank_are_refused(p: object) -> None:
    with pytest.raises(InvalidParameter):
        ExponentialQuantile(epsilon=1, p=p)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "counts", [[], [1.5], [-1], ["1"], [True], [None], np.array([1.0]), np.array([[1]]), np.array([True])], ids=repr
)
def test_what_is_no_count_is_refused_without_quoting_it(counts: object) -> None:
    with pytest.raises(InvalidParameter) as caught:
        ExponentialQuantile(epsilon=1).release(counts)  # type: ignore[arg-type]
    assert "1.5" not in str(caught.value)


def test_impossible_groups_rows_and_grids_are_refused() -> None:
    for wrong in ({"max_groups": 0}, {"groups": 0}, {"row": -1}, {"sensitivity": "1/2"}, {"relation": "other"}):
        with pytest.raises(InvalidParameter):
            ExponentialQuantile(epsilon=1, **wrong)
    with pytest.raises(InvalidParameter, match="coarser grid"):
        ExponentialQuantile(epsilon=1).choose([], [0], MOST_CELLS + 1, SystemEntropy())


def test_repr_can_be_read_back() -> None:
    for q in (
        ExponentialQuantile(epsilon="0.3"),
        ExponentialQuantile(epsilon=2, p="0.9", sensitivity=5, relation="replace", max_groups=2, groups=None, row=0),
    ):
        assert eval(repr(q), {"ExponentialQuantile": ExponentialQuantile}) == q
