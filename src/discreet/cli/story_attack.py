"""The demo's third part: two harmless totals whose difference is one person."""

from __future__ import annotations

import math
from fractions import Fraction

from discreet.cli.story import Scene, heading, show, tell
from discreet.table import render

EPSILON = Fraction(1, 10)
ATTEMPTS = 40

EVERYONE = "SELECT COUNT(*) AS n FROM adult WHERE income = '>50K'"


def all_but(age: int) -> str:
    """The same count without one woman, of whom the attacker knows four things that anybody might know."""
    her = f"age = {age} AND education = 'Masters' AND occupation = 'Sales' AND sex = 'Female'"
    return f"{EVERYONE} AND NOT ({her})"


def attack(scene: Scene) -> None:
    """The attack on exact answers, on ours, and on ours again and again."""
    heading(3, "Attack one person")
    tell(
        """You know a 59-year-old saleswoman with a master's degree, and want to know whether she
        earns more than $50,000. You ask for two totals that look harmless and subtract them."""
    )
    show(EVERYONE + "\n\n" + all_but(59).replace(" AND NOT", "\n    AND NOT"))
    with_her, without = scene.truth(EVERYONE)[0][0], scene.truth(all_but(59))[0][0]
    tell(
        f"""Exact answers give her away: {with_her:,} − {without:,} = {with_her - without}, so she
        does. Any database that answers exactly does this, however many people each total counts."""
    )
    noisy_with = scene.adults.sql(EVERYONE, epsilon=EPSILON).rows[0][0]
    noisy_without = scene.adults.sql(all_but(59), epsilon=EPSILON).rows[0][0]
    show(
        render(
            ["", "with her", "without her", "difference"],
            [
                ["exact", f"{with_her:,}", f"{without:,}", f"{with_her - without:,}"],
                ["private", f"{noisy_with:,}", f"{noisy_without:,}", f"{noisy_with - noisy_without:,}"],
            ],
        )
    )
    yes, no = (_guesses(scene, age) for age in (59, 58))
    total = float(2 * EPSILON)
    tell(
        f"""Private answers tell next to nothing. In {ATTEMPTS} further attempts on a practice account, the
        difference said "she does" {yes} times about her, and {no} times about her colleague of 58,
        who does not."""
    )
    tell(
        f"""That is the promise. Two answers at ε = 0.1 make ε = {total:g} together, so whoever
        starts from an even chance ends, by the best use of them, at most at {
            math.exp(total) / (1 + math.exp(total)):.0%}."""
    )


def _guesses(scene: Scene, age: int) -> int:
    """How often the difference of two private totals lies nearer to 1 than to 0, each time with new noise."""
    count = 0
    for _ in range(ATTEMPTS):
        first, second = (
            scene.practice.sql(query, epsilon=EPSILON, fresh=True).rows[0][0]
            for query in (EVERYONE, all_but(age))
        )
        count += first - second >= 1
    return count
