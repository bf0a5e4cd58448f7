"""`discreet sql`: ask one question, and be charged for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from discreet.cli import answers, output, picture, writing
from discreet.cli.budgets import spelled
from discreet.cli.interrupt import charging
from discreet.cli.options import between, question
from discreet.cli.question import QueryCall
from discreet.cli.waiting import waiting
from discreet.errors import InvalidParameter

if TYPE_CHECKING:
    from discreet.engine.release import Release
    from discreet.engine.session import Session


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


@click.command("sql", short_help="Ask one question, and be charged for it.", epilog=_EXAMPLES)
@question
@click.option("--fresh", is_flag=True, help="Draw new noise for a question asked before, and pay again.")
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, callback=between, help="Of the intervals."
)
@click.option("--json", "as_json", is_flag=True, help="Answer and errors as JSON.")
@click.option(
    "--csv", "as_csv", is_flag=True, help="The rows as CSV, with _low and _high beside each number."
)
@click.option(
    "--certificate",
    metavar="FILE",
    help="Also write the release's proof as JSON, which `discreet verify` checks.",
)
@click.option(
    "--plot", metavar="FILE", help="Also draw the answer with its intervals, to a .svg, .png or .pdf file."
)
@click.option("--explain", is_flag=True, help="Also how the answer was made and what it cost.")
def command(
    fresh: bool,
    confidence: float,
    as_json: bool,
    as_csv: bool,
    certificate: str | None,
    plot: str | None,
    explain: bool,
    **asked: Any,
) -> None:
    """Ask QUERY of SOURCE and print a private answer with its error bars.

    SOURCE is a Parquet, CSV or JSON file, a glob of such files, or a DuckDB file. The table in QUERY has the
    name of the file without its ending; --table adds others, and --public and --unit-path say whose they are.
    The cost is charged to the population's account before any data is
    read. The same question asked again gets the same answer, free.
    """
    if as_json and as_csv:
        raise InvalidParameter("--json and --csv cannot both be had.", hint="choose one")
    asked_for = QueryCall(**asked)
    if certificate is not None:  # before the charge
        writing.check("--certificate", certificate, asked_for.files)
    if plot is not None:
        picture.check(plot, asked_for.files if certificate is None else [*asked_for.files, certificate])
    with asked_for.open() as session:
        if certificate is not None:
            from discreet.verify.certificate.evidence import check_together

            check_together([session._account])
        if plot is not None:
            picture.foresee(session.plan(asked_for.query, **asked_for.price()))
        with charging(asked_for.shown, as_json=as_json), waiting("asking the data", quiet=as_json):
            release = session.sql(asked_for.query, fresh=fresh, **asked_for.price())
        if certificate is not None:
            writing.certificate(certificate, release)
        _say(release, session, asked_for.shown, confidence, as_json=as_json, as_csv=as_csv, explain=explain)
        if plot is not None:
            picture.draw(release, plot, confidence)


def _say(
    release: Release,
    session: Session,
    ledger: str,
    confidence: float,
    *,
    as_json: bool,
    as_csv: bool,
    explain: bool,
) -> None:
    if as_json:
        output.say_json(answers.as_json(release, session, confidence, explain=explain))
        return
    answers.say(release, confidence, as_csv=as_csv, explain=explain)
    output.remark(_bill(release, session, ledger))


def _bill(release: Release, session: Session, ledger: str) -> str:
    paid = "Answered from the ledger, free" if release.stored else f"Charged {spelled(release.charged)}"
    return f"{paid}; left for {session.population!r} in {ledger}: {spelled(session.remaining)}."
