"""`discreet plan`: cost and error of a query, before it is asked; free."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import output, writing
from discreet.cli.options import QueryCommand, between, question
from discreet.cli.output import amounts, spelled
from discreet.cli.question import QueryCall
from discreet.errors import InvalidParameter
from discreet.table import Align, render

if TYPE_CHECKING:
    from discreet.plan.plan import Plan

_EXAMPLE = """\b
Examples, on a table of `discreet demo --save .`:
  discreet plan adult.parquet "SELECT COUNT(*) AS n FROM adult" \\
      --each-row --epsilon 0.5
  discreet plan adult.parquet "SELECT COUNT(*) AS n FROM adult" \\
      --each-row --error n=20
"""


@click.command("plan", cls=QueryCommand, short_help="Cost and error of a query; free.", epilog=_EXAMPLE)
@question
@click.option(
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    callback=between,
    help="Confidence level of the errors.",
)
@click.option("--json", "as_json", is_flag=True, help="Plan and errors as JSON.")
@click.option("--plot", metavar="FILE", help="File for a chart of risk and error against ε: .svg, .png or .pdf.")
@click.option("--sql", "show_sql", is_flag=True, help="SQL that the database would run.")
@click.option("--explain", is_flag=True, help="Also the derivation of the cost.")
def command(confidence: float, as_json: bool, plot: str | None, show_sql: bool, explain: bool, **asked: Any) -> None:
    """Show the cost of QUERY and the error of its result.

    With --error instead of --epsilon it is planned at the least ε that gives these errors.
    No data is read, nothing is charged, and no account is opened: --budget is not needed.
    """
    asked_for = QueryCall.taken_from(asked)
    guesses = asked_for.guesses
    if plot is not None:
        writing.check_picture(plot, asked_for.files)
    from discreet.plan.explain import report_errors, report_lines

    with asked_for.open_without_account() as session:
        plan = session.plan(asked_for.query, **asked_for.price(), **asked_for.wanted(confidence))
        if not asked_for.has_account(session.population):  # the one that planned it ends with this command
            plan = replace(plan, left=None, outlook="")
    if plot is not None:
        writing.choice(plot, plan, confidence, guesses)
    if plan.stages is not None:
        _say_whole(plan, as_json=as_json, show_sql=show_sql)
        return
    found = {name: plan.error_or_none(name, confidence, assuming=guesses) for name in plan.columns}
    cost = plan.charge.guarantee
    if as_json:
        answer = {"columns": plan.columns, "errors": found, "confidence": confidence, "rows": asked_for.rows}
        answer |= {"notes": plan.notes}
        if plan.outlook:
            answer |= {"left": None if plan.left is None else amounts(plan.left), "outlook": plan.outlook}
        if plan.outer is None and plan.query.truncation:
            answer["truncation"] = report_errors(plan.query)
        output.say_json({**answer, "cost": amounts(cost), "sql": plan.sql, "explanation": plan.explain()})
        return
    noisy = list(filter(plan.is_noisy, plan.columns))
    shown = [[name, _shown(found[name]), _where(plan, name, guesses)] for name in noisy]
    output.say(render(["column", f"± at {confidence * 100:.4g} %", "where"], shown, align=_SIDES))
    for line in report_lines(plan.query) if plan.outer is None else ():
        output.say(line)
    output.say(f"\nIt would cost {spelled(cost)}.{f' {plan.outlook}' if plan.outlook else ''}")
    for note in plan.notes:
        output.say(note)
    if explain:
        output.say(f"\n{plan.explain()}")
    if show_sql:
        output.say(f"\n{plan.sql}")


def _say_whole(plan: Plan, *, as_json: bool, show_sql: bool) -> None:
    """Say a plan whose errors follow from its first stage."""
    cost, stages = amounts(plan.charge.guarantee), plan.stages
    if as_json:
        answer = {"columns": plan.columns, "notes": plan.notes, "cost": cost, "sql": plan.sql}
        if stages is not None and stages.last.truncation:
            from discreet.plan.explain import report_errors

            answer["truncation"] = report_errors(*stages.rehearsed)
        output.say_json({**answer, "explanation": plan.explain()})
        return
    output.say(f"{plan}\n\n{plan.explain()}")
    if show_sql:
        output.say(f"\n{plan.sql}")


_SIDES: tuple[Align, ...] = ("left", "right", "left")


def _shown(error: float | None) -> str:
    return "?" if error is None else f"{error:,.4g}"


def _where(plan: Plan, column: str, guesses: dict[str, Any]) -> str:
    if plan.error_or_none(column) is not None:
        return "whatever the result"
    if plan.error_or_none(column, assuming={"rows": guesses["rows"]}) is not None:
        return f"it is over {int(guesses['rows']):,} rows"
    if plan.error_or_none(column, assuming=guesses) is not None:
        return "the result is as assumed"
    try:
        return f"its rank is off by {plan.rank_error(column):,.3g} rows or less at 95 %"
    except InvalidParameter:
        return "known with the result"
