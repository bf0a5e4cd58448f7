"""Ask one question of a table in which each row is one person, and look at the errors and the price."""

from __future__ import annotations

import discreet as dp
from discreet import data


def main() -> None:
    """Plan, ask, and see what is left."""
    people = dp.connect(
        data.adult(),
        unit=dp.PrivacyUnit.row(),
        columns={"hours": dp.Range(1, 99), "sex": dp.Values("Female", "Male")},
        budget=dp.Budget(epsilon=1),
        ledger=":memory:",
    )
    question = "SELECT sex, COUNT(*) AS n, AVG(hours) AS hours FROM adult WHERE age >= 25 GROUP BY sex"

    plan = people.plan(question, epsilon=0.5)  # free
    print(f"The counts will have a margin of error of {plan.error('n', confidence=0.95):.0f}, at 95 % confidence.\n")

    print(people.sql(question, epsilon=0.5))
    print(f"\nLeft: {people.remaining}")


if __name__ == "__main__":
    main()
