"""Intervals against closed forms, and their coverage over fresh noise."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from scipy import integrate, stats

from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.noise.entropy import SystemEntropy
from discreet.plan.nodes.noise import quantile
from tests.coverage import covers
from tests.plan.tables import planned

LEVEL = Fraction(19, 20)
TRIALS = 1500


def sum_of_two_laplace_tail(t: float, a: float, b: float) -> float:
    """P(|X + Y| > t) for independent continuous Laplace of scales a and b, by quadrature over Y."""

    def integrand(y: float) -> float:
        tail = stats.laplace(scale=a).sf(t - y) + stats.laplace(scale=a).cdf(-t - y)
        return float(stats.laplace(scale=b).pdf(y) * tail)

    return float(integrate.quad(integrand, -60 * b, 60 * b, limit=400, points=[-t, 0, t])[0])


@pytest.mark.parametrize(("a", "b"), [(1, 1), (3, 1), (1, 20)])
def test_the_quantile_of_a_sum_is_that_of_the_convolved_laws(a: int, b: int) -> None:
    scale = 2000  # so fine that the integers do not show
    terms = (
        (Fraction(1), DiscreteLaplaceNoise(Fraction(a * scale))),
        (Fraction(1), DiscreteLaplaceNoise(Fraction(b * scale))),
    )
    t = quantile(terms, LEVEL) / scale
    assert sum_of_two_laplace_tail(t, a, b) <= 0.05
    assert sum_of_two_laplace_tail(t * 0.97, a, b) > 0.05


def test_the_quantile_of_one_laplace_is_the_textbooks() -> None:
    b = 5000
    t = quantile(((Fraction(2), DiscreteLaplaceNoise(Fraction(b))),), LEVEL)
    assert t == pytest.approx(2 * b * math.log(20), rel=1e-3)


def test_gaussians_add_up_in_quadrature() -> None:
    terms = tuple((Fraction(1), RoundedGaussianNoise(Fraction(s))) for s in (300, 400))
    assert quantile(terms, LEVEL) == pytest.approx(500 * stats.norm.ppf(0.975), rel=0.02)
    assert quantile(terms, LEVEL) >= 500 * stats.norm.ppf(0.975)


def coverage(sql: str, column: str, truth: list[int], *, noises: list[Additive] | None = None) -> int:
    """In how many of TRIALS fresh noises the interval contains what the true integers give."""
    plan = planned(sql)
    laws = plan.allocation.noises if noises is None else tuple(noises)
    expr = plan.column(column)
    interval, value = expr.number_interval(laws, LEVEL), expr.compiled()((), truth)
    rng, columns = SystemEntropy(), []
    for noise, exact in zip(plan.allocation.noises, truth, strict=True):
        columns.append(noise.add([exact] * TRIALS, rng))
    hits = 0
    for cells in zip(*columns, strict=True):
        found = interval((), cells)
        assert found is not None
        point = expr.compiled()((), cells)
        assert point is None or found[0] <= point <= found[1]  # None: a noisy count of 0 was divided by
        hits += found[0] <= value <= found[1]
    return hits


def true_cells(sql: str, count: int, mean: float) -> list[int]:
    """The exact integers of `count` rows of the same amount, in the order of the plan's measures."""
    plan, cells = planned(sql), []
    for m in plan.question.measures:
        match m.identity[0]:
            case "rows" | "known":
                cells.append(count)
            case "total":
                cells.append(round(mean / m.step) * count)
            case _:
                cells.append(round((mean - 100) / m.step) * count)
    return cells


@pytest.mark.thinned(2)
@pytest.mark.parametrize("count", [0, 40, 1000])
@pytest.mark.parametrize("mean", [0.0, 131.7, 200.0])
def test_a_mean_is_covered_whatever_the_size_of_its_group(count: int, mean: float) -> None:
    sql = "SELECT AVG(amount) AS a FROM visits"
    assert covers(coverage(sql, "a", true_cells(sql, count, mean)), TRIALS, LEVEL)


@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    "expression",
    [
        "COUNT(*)",
        "3 * COUNT(*) - 7",
        "SUM(amount) - 2 * COUNT(*)",
        "SUM(amount) / COUNT(*)",
        "SQRT(ABS(COUNT(*)))",
        "CASE WHEN COUNT(*) > 50 THEN AVG(amount) ELSE COUNT(*) END",
        "GREATEST(COUNT(*), 10) + ROUND(AVG(amount), 1)",
        "COALESCE(LN(COUNT(*)), 0)",
    ],
)
def test_derived_columns_are_covered(expression: str) -> None:
    sql = f"SELECT {expression} AS d FROM visits"
    assert covers(coverage(sql, "d", true_cells(sql, 120, 31.0)), TRIALS, LEVEL)


def test_a_sum_that_is_read_from_two_columns_is_covered_and_its_error_is_that_of_both() -> None:
    sql = "SELECT SUM(amount) AS s, COUNT(amount) AS n, AVG(amount) AS m FROM visits"
    plan, cells = planned(sql), true_cells(sql, 400, 131.7)
    assert {m.identity[0] for m in plan.question.measures} == {"centred", "known"}
    assert covers(coverage(sql, "s", cells), TRIALS, LEVEL)
    place = next(i for i, m in enumerate(plan.question.measures) if m.identity[0] == "known")
    noises: list[Additive] = list(plan.allocation.noises)
    noises[place] = DiscreteLaplaceNoise(Fraction(1, 50))  # the noise of the count is left out
    assert not covers(coverage(sql, "s", cells, noises=noises), TRIALS, LEVEL)
    rng, error, shown = SystemEntropy(), plan.error("s"), plan.column("s").compiled()
    drawn = [z.add([c] * TRIALS, rng) for z, c in zip(plan.allocation.noises, cells, strict=True)]
    off = [abs(shown((), row) - shown((), cells)) for row in zip(*drawn, strict=True)]
    assert covers(sum(x <= error for x in off), TRIALS, LEVEL)
    assert not covers(sum(x <= 0.8 * error for x in off), TRIALS, LEVEL)


def test_the_coverage_test_refuses_intervals_for_too_little_noise() -> None:
    sql = "SELECT COUNT(*) AS n FROM visits"
    narrow: list[Additive] = [DiscreteLaplaceNoise(Fraction(5))]  # the plan's scale is 10
    assert not covers(coverage(sql, "n", [500], noises=narrow), TRIALS, LEVEL)


def test_keys_and_constants_have_no_width_and_text_has_no_interval() -> None:
    plan = planned("SELECT region, day, day + 1 AS tomorrow, COUNT(*) AS n FROM visits GROUP BY region, day")
    noises = plan.allocation.noises
    assert plan.column("region").number_interval(noises, LEVEL)(("north", 3), [5]) is None
    assert plan.column("day").number_interval(noises, LEVEL)(("north", 3), [5]) == (3.0, 3.0)
    assert plan.column("tomorrow").number_interval(noises, LEVEL)(("north", 3), [5]) == (4.0, 4.0)


def test_the_error_before_and_the_interval_after_agree() -> None:
    plan = planned("SELECT COUNT(*) + SUM(amount) AS d, COUNT(*) AS n FROM visits")
    for name in ("d", "n"):
        width = plan.column(name).known_error(plan.laws, LEVEL)
        found = plan.column(name).number_interval(plan.allocation.noises, LEVEL)((), [1000, 10**9])
        assert width is not None
        assert found is not None
        assert found[1] - found[0] == pytest.approx(2 * width)
        assert plan.error(name) == width


def test_a_greatest_of_what_may_be_null_covers_what_is_left() -> None:
    """LN of a negative count is NULL, and GREATEST passes over it: the answer may then lie below LN's bounds."""
    plan = planned("SELECT GREATEST(LN(COUNT(*) - 500), COUNT(*) / 1000) AS g FROM visits")
    found = plan.column("g").number_interval(plan.allocation.noises, LEVEL)((), [510])
    assert found is not None
    assert found[0] <= 0.49  # the true count may be 490, whose answer is 0.49
