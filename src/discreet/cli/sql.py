"""`discreet sql`: result of a query, charged to the ledger."""

from __future__ import annotations

from typing import Any

import click

from discreet.cli import answers, output
from discreet.cli.answers import Answering
from discreet.cli.options import QueryCommand, answering, question
from discreet.cli.output import spelled
from discreet.cli.question import QueryCall
from discreet.cli.tables import say_described

_EXAMPLES = """\b
Examples, on the tables of `discreet demo --save .`:
  discreet sql adult.parquet \\
      "SELECT sex, AVG(age) AS age FROM adult GROUP BY sex" \\
      --each-row --range age=17:90 --values sex=Female,Male \\
      --epsilon 0.5 --budget 3
  discreet sql clinic_visits.parquet \\
      "SELECT ward, SUM(cost) AS cost FROM clinic_visits GROUP BY ward" \\
      --unit person_id --max-groups 2 --max-rows 10 --range cost=0:2000 \\
      --epsilon 0.5 --delta 1e-7 --budget 3,1e-6
"""


@click.command("sql", cls=QueryCommand, short_help="Result of a query, with error bars.", epilog=_EXAMPLES)
@question
@answering
def command(**asked: Any) -> None:
    """Print the private result of QUERY on SOURCE, with error bars.

    SOURCE is a Parquet, CSV or JSON file, a glob of such files, or a DuckDB file. The table in QUERY has the
    name of the file without its ending; --table adds others.
    Without SOURCE, tables, units, bounds and budgets are those of the policy discreet.toml in this folder, or of
    --policy FILE; `discreet init SOURCE` drafts one.
    The cost is charged to the population's account before any data is read. The same query again gives the same
    result, free. SHOW TABLES and DESCRIBE name are free, too.
    """
    how = Answering.taken_from(asked)
    call = QueryCall.taken_from(asked)
    if say_described(call.query, [call.policy or call.source, *(s for _, s in call.tables)], as_json=how.as_json):
        return
    how.check(call.files)
    with call.open() as session:
        release = how.ask(session, call.query, call.price() | call.wanted(how.confidence), ledger=call.shown)
        if how.as_json:
            output.say_json(answers.as_json(release, session, how.confidence, explain=how.explain))
        else:
            how.say(release)
            paid = "Answered from the ledger, free" if release.stored else f"Charged {spelled(release.charged)}"
            left = f"left for {session.population!r} in {call.shown}: {spelled(session.remaining)}"
            output.remark(f"{paid}; {left}.")
        how.draw(release)
