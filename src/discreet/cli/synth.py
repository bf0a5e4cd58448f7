"""`discreet synth`: a synthetic data set of a table, charged to the ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import output, writing
from discreet.cli.options import LEDGER, NAMES, RANGE, VALUES, VERSION, Amount, BudgetAmount
from discreet.cli.question import QueryCall
from discreet.errors import InvalidParameter
from discreet.privacy.exact import positive, probability

if TYPE_CHECKING:
    from discreet.engine.session import Session
    from discreet.synth import Synthetic

_EXAMPLE = """\b
Example, on a table of `discreet demo --save .`:
  discreet synth adult.parquet --each-row --range age=17:90 \\
      --values sex=Female,Male --epsilon 1 --delta 1e-6 \\
      --budget 3,1e-5 -o synthetic.csv
"""

_ENDINGS = (".csv", ".parquet", ".model")

_UNSAID: dict[str, Any] = {
    **dict.fromkeys(("max_contributions", "budget_delta", "per_person", "keys", "noise", "bounds")),
    **dict.fromkeys(("tables", "paths", "public", "links", "errors", "assuming"), ()),
    "rows": 1,
    "dialect": "duckdb",
    "truncation": 0,
    "min_people": 1,
}
"""Options of `sql` that this command does not have."""


@click.command("synth", short_help="Synthetic data of a table.", epilog=_EXAMPLE)
@click.argument("source", metavar="[SOURCE]", required=False)
@click.option("--policy", metavar="FILE", help="Policy file; ./discreet.toml where no SOURCE is given.")
@click.option("--from", "table", metavar="TABLE", help="Table of a policy, where there are several.")
@click.option("-o", "--out", metavar="FILE", help="File for the rows, .csv or .parquet, or for the model, .model.")
@click.option("--plan", "only_plan", is_flag=True, help="Cost and size only; free.")
@click.option("--rows", type=click.IntRange(0), help="Number of rows; about as many as SOURCE has unless given.")
@click.option("--label", metavar="COLUMN", help="Column that will be predicted.")
@click.option("--bins", type=click.IntRange(1), default=100, show_default=True, help="Most bins of a range.")
@click.option(
    "--method",
    type=click.Choice(["adaptive", "independent", "mst", "aim", "mwem"]),
    default="adaptive",
    show_default=True,
    help="Columns and pairs that matter most, columns alone, or MST, AIM or MWEM.",
)
@click.option("--unit", metavar="COLUMN", help="Column with the person's id.")
@click.option("--each-row", is_flag=True, help="Each row is one person.")
@click.option("--max-rows", type=int, help="Contribution bound: rows of a person that are read.")
@RANGE
@VALUES
@click.option("--epsilon", type=Amount(positive), required=True, help="ε, the privacy cost.")
@click.option("--delta", type=Amount(probability), default="1e-6", show_default=True, help="δ of the ε guarantee.")
@click.option("--population", help="Population whose budget pays; the table's name unless given.")
@click.option("--budget", type=BudgetAmount(), help="Privacy budget of a new account: 3,1e-5. Needed once.")
@click.option("--per-query", type=Amount(positive), help="With --budget: largest ε of one query; 20 unless given.")
@LEDGER
@NAMES
@VERSION
@click.option(
    "--relation", type=click.Choice(["add-remove", "replace"]), help="Neighbouring relation. Fixed at opening."
)
@click.option("--filter", metavar="NAME", help="Composition rule: basic, zcdp, gdp or renyi. Fixed at opening.")
@click.option("--analyst", metavar="NAME", help="Name of the analyst; needed where the account has analysts.")
@click.option("--fresh", is_flag=True, help="New noise, charged again, for what was asked before.")
@click.option("--json", "as_json", is_flag=True, help="Plan, report and errors as JSON.")
def command(
    source: str | None,
    policy: str | None,
    table: str | None,
    out: str | None,
    only_plan: bool,
    rows: int | None,
    label: str | None,
    bins: int,
    method: str,
    fresh: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Write synthetic rows with the columns of SOURCE that --range and --values declare.

    SOURCE is a Parquet, CSV or JSON file, a glob of such files, a DuckDB file or a policy. The cost is charged to the
    population's account before any data is read. The same again is free, and gives other rows of the same model.
    """
    call, own = _call(source, policy, table, asked)
    declared = [name for name, *_ in (*call.ranges, *call.values)]
    given: dict[str, Any] = {
        "epsilon": call.epsilon,
        "delta": call.delta,
        "label": label,
        "bins": bins,
        "method": method,
        "table": own,
    }
    if only_plan:
        with call.open_without_account() as session:
            given["columns"] = declared or _known(session, own)
            plan = session.plan_synthesis(**given)
            if not call.has_account(session.population):  # the one that planned it ends with this command
                plan = plan.without_outlook()
        output.say_json(plan.as_json()) if as_json else output.say(str(plan))
        return
    if out is None or Path(out).suffix not in _ENDINGS:
        raise InvalidParameter(
            f"-o must name a file that ends in {', '.join(_ENDINGS)}.",
            hint="-o synthetic.csv; or --plan, which is free",
        )
    writing.check("-o", out, call.files)
    if out.endswith(".parquet"):
        from discreet.engine import frames

        frames.to_arrow({})  # refused before the charge where pyarrow is not installed
    with call.open() as session:
        given["columns"] = declared or _known(session, own)
        made = session.synthesize(**given, fresh=fresh)
        _write(made, out, rows)
        if as_json:
            output.say_json(
                {"file": out, "rows": made.rows if rows is None else rows, "report": made.report().as_json()}
            )
        else:
            output.say(str(made.report()))
            paid = "Answered from the ledger, free" if made.stored else f"Charged {made.price}"
            output.remark(
                f"{paid}; left for {session.population!r} in {call.shown}: {output.spelled(session.remaining)}."
            )


def _call(source: str | None, policy: str | None, table: str | None, asked: dict[str, Any]) -> tuple[QueryCall, str]:
    """Return the call of `sql` over the same table, whose query stands in where facts are missing, and its name."""
    from discreet.backends.sources import table_name
    from discreet.policy import is_policy

    by_policy = source is None or policy is not None or is_policy(source)
    groups = 1 if by_policy or (asked["unit"] and not asked["each_row"]) else None  # no query widens a policy
    words = ["SELECT 1"] if source is None else [source, "SELECT 1"]
    call = QueryCall.taken_from({**_UNSAID, **asked, "words": words, "policy": policy, "max_groups": groups})
    if not by_policy and table is not None:
        raise InvalidParameter("--from names a table of a policy.", hint="leave it out")
    own = [table or table_name(source or "")] if table or not by_policy else call.private_tables
    if len(own) != 1:
        raise InvalidParameter("The policy has several tables.", hint=f"--from {own[0]}")
    return replace(call, query='SELECT COUNT(*) AS n FROM "' + own[0].replace('"', '""') + '"'), own[0]


def _known(session: Session, table: str) -> list[str]:
    """Return the columns of a table that a policy declares."""
    return [column for of, column, _, known in session.schema if known and of.casefold() == table.casefold()]


def _write(made: Synthetic, out: str, rows: int | None) -> None:
    """Write rows or the model.

    Raises:
        InvalidParameter: the file cannot be written.
    """
    try:
        if out.endswith(".model"):
            made.save(out)
        elif out.endswith(".parquet"):
            import pyarrow.parquet

            pyarrow.parquet.write_table(made.sample(rows).to_arrow(), out)
        else:
            made.sample(rows).to_csv(out)
    except OSError as error:
        raise InvalidParameter(
            f"-o {out} cannot be written: {error.strerror}. The synthesis is paid for.",
            hint="ask it again with another file, which is free",
        ) from None
