"""The demo's fourth part: the same question in other words, until the ledger says no."""

from __future__ import annotations

from fractions import Fraction

from discreet.cli.story import Scene, heading, show, tell
from discreet.errors import BudgetExceeded

EPSILON = Fraction(1, 20)
AGAIN = 100
MOST = 100  # wordings; the budget is for far fewer


def reworded(i: int) -> str:
    """How many are 40 or older, in the i-th of endlessly many wordings."""
    condition = "age >= 40" if i == 0 else f"age + {i} >= {40 + i}"
    return f"SELECT COUNT(*) AS n FROM adult WHERE {condition}"


def average(scene: Scene) -> None:
    """Averaging away the noise, stopped; and the same question again, free."""
    heading(4, "Average the noise away")
    tell(
        """Noise averages out, so ask one question in many wordings: how many people are at least
        40? Every new wording draws new noise, and every one is charged to the same people."""
    )
    show(f"{reworded(0)}\n{reworded(1)}\n{reworded(2)}\n…")
    answers: list[int] = []
    refusal = ""
    while not refusal and len(answers) < MOST:
        try:
            answers.append(scene.adults.sql(reworded(len(answers)), epsilon=EPSILON).rows[0][0])
        except BudgetExceeded as error:
            refusal = error.message
    exact = scene.truth(reworded(0))[0][0]
    off = abs(sum(answers) / len(answers) - exact)
    tell(f"After {len(answers)} answers at ε = 0.05, whose average is {off:,.0f} off, the ledger refuses:")
    show(refusal)
    tell(
        """No file name, new session, second process or other analyst gets round it, since the
        account belongs to the people, not to the file. But the question that was asked before may
        be asked for ever:"""
    )
    same = [scene.adults.sql(reworded(0), epsilon=EPSILON) for _ in range(AGAIN)]
    distinct = {release.rows[0][0] for release in same}
    free = all(release.stored for release in same)
    show(
        f"asked {AGAIN} times more: {len(distinct)} answer, {answers[0]:,}, "
        f"{'each time free' if free else 'not free'}"
    )
