"""`discreet plan`: what a question would cost and how exact its answer would be. Free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from discreet.cli import output
from discreet.cli.answers import is_noisy
from discreet.cli.budgets import amounts, spelled
from discreet.cli.options import between, question
from discreet.cli.question import Question
from discreet.errors import InvalidParameter
from discreet.table import Align, render

if TYPE_CHECKING:
    from discreet.plan.plan import Plan

_EXAMPLE = """\b
Example, on a table of `discreet demo --save .`:
  discreet plan adult.parquet "SELECT COUNT(*) AS n FROM adult" \\
      --each-row --epsilon 0.5
"""


@click.command(
    "plan", short_help="What a question would cost, and how exact it would be; free.", epilog=_EXAMPLE
)
@question
@click.option("--rows", default=10_000, show_default=True, help="A guess: over how many rows a mean is.")
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, callback=between, help="Of the errors."
)
@click.option("--json", "as_json", is_flag=True, help="The plan and errors as JSON.")
@click.option("--sql", "show_sql", is_flag=True, help="Also the SQL that the database would run.")
@click.option("--explain", is_flag=True, help="Also how the cost is derived.")
def command(rows: int, confidence: float, as_json: bool, show_sql: bool, explain: bool, **asked: Any) -> None:
    """Show what QUERY would cost and how exact its answer would be.

    No data is read, nothing is charged, and no account is opened: --budget is not needed.
    """
    asked_for = Question(**asked)
    with asked_for.open_without_account() as session:
        plan = session.plan(asked_for.query, **asked_for.price())
    errors = {name: _error(plan, name, confidence, rows) for name in plan.columns}
    cost = plan.charge.guarantee
    if as_json:
        answer = {"columns": plan.columns, "errors": errors, "confidence": confidence, "rows": rows}
        output.say_json({**answer, "cost": amounts(cost), "sql": plan.sql, "explanation": plan.explain()})
        return
    noisy = [name for name in plan.columns if is_noisy(plan, name)]
    shown = [[name, _shown(errors[name]), _where(plan, name, rows)] for name in noisy]
    output.say(render(["column", f"± at {confidence * 100:.4g} %", "where"], shown, align=_SIDES))
    output.say(f"\nIt would cost {spelled(cost)}.")
    if explain:
        output.say(f"\n{plan.explain()}")
    if show_sql:
        output.say(f"\n{plan.sql}")


def _error(plan: Plan, column: str, confidence: float, rows: int | None) -> float | None:
    """The error, or None when it depends on more than a number of rows, or the column is no number."""
    try:
        return plan.error(column, confidence=confidence, assuming={"rows": rows} if rows else None)
    except InvalidParameter:
        return None


_SIDES: tuple[Align, ...] = ("left", "right", "left")


def _shown(error: float | None) -> str:
    return "?" if error is None else f"{error:,.4g}"


def _where(plan: Plan, column: str, rows: int) -> str:
    if _error(plan, column, 0.95, None) is not None:
        return "whatever the answer"
    known = _error(plan, column, 0.95, rows) is not None
    return f"it is over {rows:,} rows" if known else "known with the answer"
