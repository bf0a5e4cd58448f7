"""`discreet both`: ask one question of rows that belong to two populations, and charge both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import answers, declared, output, parties, picture, writing
from discreet.cli.budgets import amounts, spelled
from discreet.cli.interrupt import charging
from discreet.cli.options import ColumnNames, NamedTable, RangeOf, ValuesOf, between
from discreet.cli.parties import Protected, Said
from discreet.cli.question import have_accounts
from discreet.cli.waiting import waiting
from discreet.errors import InvalidParameter
from discreet.privacy.exact import positive, probability

if TYPE_CHECKING:
    from discreet.engine.release import Release
    from discreet.engine.session import Session

_EXAMPLE = """\b
Example, where a row is a visit of a patient to a doctor:
  discreet both visits.parquet "SELECT COUNT(*) AS visits FROM visits" \\
      --protect patients=patient_id:8 --protect doctors=doctor_id:120 \\
      --budget patients=3 --budget doctors=6 --epsilon 1
"""

_RELATIONS = ("add-remove", "replace")


@click.command("both", short_help="Ask rows of two populations; both are charged.", epilog=_EXAMPLE)
@click.argument("source")
@click.argument("query")
@click.option(
    "--protect",
    multiple=True,
    required=True,
    type=Protected(),
    help="A population, the column of its ids, and how many rows one unit may add to a group. Twice.",
)
@click.option(
    "--epsilon", multiple=True, required=True, type=Said(), help="What the question may cost each: ε."
)
@click.option("--delta", multiple=True, type=Said(), help="And δ; 0 unless given.")
@click.option(
    "--budget", multiple=True, type=Said(), help="Opens an account: patients=3, or patients=3,1e-6."
)
@click.option(
    "--table",
    "tables",
    multiple=True,
    type=NamedTable("NAME=SOURCE", "--table stays=stays.parquet"),
    help="One more table of both. Repeatable.",
)
@click.option(
    "--range", "ranges", multiple=True, type=RangeOf(), help="Public bounds: cost=0:500. Repeatable."
)
@click.option("--values", multiple=True, type=ValuesOf(), help="Public keys: ward=a,b. Repeatable.")
@click.option("--ledger", metavar="FILE", help="Where charges are kept; ./discreet.ledger unless given.")
@click.option("--names", type=ColumnNames(), help="Column names of a file without a header.")
@click.option("--version", metavar="LABEL", help="A public label of the data's version.")
@click.option("--relation", multiple=True, type=Said(), help="What makes neighbours: add-remove or replace.")
@click.option("--filter", "filters", multiple=True, type=Said(), help="How charges add. Fixed at opening.")
@click.option("--analyst", multiple=True, type=Said(), help="Who asks; needed where an account has analysts.")
@click.option(
    "--dialect",
    default="duckdb",
    show_default=True,
    type=click.Choice(["duckdb", "postgres", "bigquery", "snowflake", "spark"]),
    help="Whose spelling QUERY has.",
)
@click.option("--noise", type=click.Choice(["laplace", "gaussian"]), help="Laplace unless given.")
@click.option("--plan", "only_plan", is_flag=True, help="Only what it would cost and how exact it is; free.")
@click.option("--fresh", is_flag=True, help="Draw new noise for a question asked before, and pay again.")
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, callback=between, help="Of the intervals."
)
@click.option("--json", "as_json", is_flag=True, help="Answer and errors as JSON.")
@click.option(
    "--csv", "as_csv", is_flag=True, help="The rows as CSV, with _low and _high beside each number."
)
@click.option("--certificate", metavar="FILE", help="Also write the release's proof as JSON.")
@click.option("--plot", metavar="FILE", help="Also draw the answer, to a .svg, .png or .pdf file.")
@click.option("--explain", is_flag=True, help="Also how the answer was made and what it cost.")
def command(
    source: str,
    query: str,
    protect: Sequence[tuple[str, str, int]],
    epsilon: Sequence[tuple[str | None, str]],
    delta: Sequence[tuple[str | None, str]],
    budget: Sequence[tuple[str | None, str]],
    tables: Sequence[tuple[str, str]],
    ranges: Sequence[Any],
    values: Sequence[Any],
    ledger: str | None,
    names: list[str] | None,
    version: str | None,
    relation: Sequence[tuple[str | None, str]],
    filters: Sequence[tuple[str | None, str]],
    analyst: Sequence[tuple[str | None, str]],
    dialect: str,
    noise: str | None,
    only_plan: bool,
    fresh: bool,
    confidence: float,
    as_json: bool,
    as_csv: bool,
    certificate: str | None,
    plot: str | None,
    explain: bool,
) -> None:
    """Ask QUERY of SOURCE, whose rows are of two populations at once, and charge both.

    A row about a visit is about a patient and about a doctor. One noise protects the units of both; each
    population's account is charged by how far one of its own units can move the answer, or neither is.
    What may differ between the two is written NAME=VALUE, once for each; without a name it holds for both.
    """
    if as_json and as_csv:
        raise InvalidParameter("--json and --csv cannot both be had.", hint="choose one")
    answered = {"--fresh": fresh, "--csv": as_csv, "--certificate": certificate, "--plot": plot}
    if only_plan and (idle := [option for option, given in answered.items() if given]):
        raise InvalidParameter(
            f"{idle[0]} does not go with --plan, which asks nothing.", hint="leave one out"
        )
    units, place = parties.units(protect), ledger or "discreet.ledger"

    def each(option: str, said: Sequence[tuple[str | None, str]], read: Any = str) -> dict[str, Any]:
        return parties.for_each(option, said, units, read)

    epsilons = each("--epsilon", epsilon, _exact("--epsilon"))
    deltas = each("--delta", delta, _exact("--delta"))
    if missing := [name for name in units if name not in epsilons]:
        raise InvalidParameter(
            f"--epsilon is missing for {missing[0]!r}.",
            hint=f"add --epsilon {missing[0]}=0.5, or one --epsilon for both",
        )
    budgets = each("--budget", budget, parties.budget)
    price: dict[str, Any] = {
        "epsilon": epsilons,
        "delta": {n: deltas.get(n, 0) for n in units},
        "dialect": dialect,
        "noise": noise,
    }
    said: dict[str, Any] = {
        "units": units,
        "columns": declared.columns(ranges, values),
        "version": version,
        "names": names,
        "relation": each("--relation", relation, _relation),
        "filter": each("--filter", filters),
    }
    data, who = declared.sources(source, tables), each("--analyst", analyst)
    if only_plan:
        _plan(query, data, said, place, budgets, who, price, as_json=as_json, explain=explain)
        return
    files = [place, source, *(other for _, other in tables)]
    if certificate is not None:  # before the charge
        writing.check("--certificate", certificate, files)
    if plot is not None:
        picture.check(plot, files if certificate is None else [*files, certificate])
    import discreet as dp
    from discreet.ledger.places import shown

    with dp.connect_both(data, budget=budgets, ledger=place, analyst=who, **said) as session:
        if plot is not None:
            picture.foresee(session.plan(query, **price))
        with charging(shown(place), as_json=as_json), waiting("asking the data", quiet=as_json):
            release = session.sql(query, fresh=fresh, **price)
        if certificate is not None:
            writing.certificate(certificate, release)
        _say(release, session, confidence, as_json=as_json, as_csv=as_csv, explain=explain)
        if plot is not None:
            picture.draw(release, plot, confidence)


def _exact(option: str) -> Any:
    """Reads an amount of privacy, exactly."""
    check = probability if option == "--delta" else positive

    def read(text: str) -> Fraction:
        try:
            return check(option, text)
        except InvalidParameter as error:
            raise InvalidParameter(
                error.message, hint=f"as in {option} 0.5 or {option} patients=1e-6"
            ) from None

    return read


def _relation(text: str) -> str:
    if text not in _RELATIONS:
        raise InvalidParameter(f"--relation must be add-remove or replace, not {text!r}.")
    return text


def _plan(
    query: str,
    data: str | dict[str, str],
    said: dict[str, Any],
    place: str,
    budgets: dict[str, Any],
    analyst: dict[str, Any],
    price: dict[str, Any],
    *,
    as_json: bool,
    explain: bool,
) -> None:
    """What the question would cost: on the accounts where both are there, else on some that end with this command."""
    import discreet as dp

    known = have_accounts(place, list(said["units"]))
    if not known:
        place, analyst = ":memory:", {}
        budgets = {
            n: budgets.get(n) or dp.Budget(price["epsilon"][n], price["delta"][n]) for n in said["units"]
        }
    with dp.connect_both(data, budget=budgets, ledger=place, analyst=analyst, **said) as session:
        plan = session.plan(query, **price)
        if not known:
            plan = replace(plan, outlook="")
    if as_json:
        costs = {name: amounts(charge.guarantee) for name, charge in plan.charges.items()}
        output.say_json(
            {"columns": plan.columns, "cost": costs, "sql": plan.sql, "explanation": plan.explain()}
            | {"notes": plan.notes}
            | ({"outlook": plan.outlook} if plan.outlook else {})
        )
        return
    output.say(f"{plan}")
    if plan.outlook:
        output.say(plan.outlook)
    if explain:
        output.say(f"\n{plan.explain()}")


def _say(
    release: Release,
    session: Session,
    confidence: float,
    *,
    as_json: bool,
    as_csv: bool,
    explain: bool,
) -> None:
    left = {name: account.remaining for name, account in session.accounts.items()}
    if as_json:
        answer = {
            **answers.measured_json(release, confidence),
            "cost": {name: amounts(charge.guarantee) for name, charge in release.plan.charges.items()},
            "stored": release.stored,
            "charged": {name: amounts(charge) for name, charge in release.charges.items()},
            "remaining": {name: amounts(budget) for name, budget in left.items()},
        }
        output.say_json({**answer, "explanation": release.explain()} if explain else answer)
        return
    answers.say(release, confidence, as_csv=as_csv, explain=explain)
    for name, charge in release.charges.items():
        paid = "Answered from the ledger, free" if release.stored else f"Charged {spelled(charge)}"
        output.remark(f"{paid}; left for {name!r}: {spelled(left[name])}.")
