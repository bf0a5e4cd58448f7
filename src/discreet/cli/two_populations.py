"""`discreet both`: ask one query of rows that belong to two populations, and charge both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import answers, options, output
from discreet.cli.answers import Answering
from discreet.cli.options import BudgetAmount, Protected, Said
from discreet.cli.output import amounts, spelled
from discreet.cli.question import columns, have_accounts, sources
from discreet.errors import InvalidParameter
from discreet.privacy.exact import positive, probability

if TYPE_CHECKING:
    from discreet.engine.release import Release
    from discreet.engine.session import Session
    from discreet.privacy.guarantee import Budget
    from discreet.privacy.unit import PrivacyUnit


_EXAMPLE = """\b
Example, where a row is a visit of a patient to a doctor:
  discreet both visits.parquet "SELECT COUNT(*) AS visits FROM visits" \\
      --protect patients=patient_id:8 --protect doctors=doctor_id:120 \\
      --budget patients=3 --budget doctors=6 --epsilon 1
"""

_RELATIONS = ("add-remove", "replace")


@click.command("both", short_help="Result of a query on rows of two populations.", epilog=_EXAMPLE)
@click.argument("source")
@click.argument("query")
@click.option(
    "--protect",
    multiple=True,
    required=True,
    type=Protected(),
    help="Population, column of its ids, and rows that one unit may add to a group. Twice.",
)
@click.option("--epsilon", multiple=True, required=True, type=Said(), help="ε, the privacy cost of the query to each.")
@click.option("--delta", multiple=True, type=Said(), help="δ of the query; 0 unless given.")
@click.option("--budget", multiple=True, type=Said(), help="Budget of a new account: patients=3, or patients=3,1e-6.")
@options.TABLE
@options.RANGE
@options.VALUES
@options.LEDGER
@options.NAMES
@options.VERSION
@click.option("--relation", multiple=True, type=Said(), help="Neighbouring relation: add-remove or replace.")
@click.option("--filter", "filters", multiple=True, type=Said(), help="Composition rule. Fixed at opening.")
@click.option("--analyst", multiple=True, type=Said(), help="Name of the analyst, where an account has analysts.")
@options.DIALECT
@options.NOISE
@click.option("--plan", "only_plan", is_flag=True, help="Only the cost and the error; free.")
@options.answering
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
    **answering: Any,
) -> None:
    """Ask QUERY of SOURCE, whose rows are of two populations at once, and charge both.

    A row about a visit is about a patient and about a doctor. One noise protects the units of both; each
    population's account is charged by how far one of its own units can move the result, or neither is.
    What may differ between the two is written NAME=VALUE, once for each; without a name it holds for both.
    """
    how = Answering.taken_from(answering)
    answered = {"--fresh": how.fresh, "--csv": how.as_csv, "--certificate": how.certificate, "--plot": how.plot}
    if only_plan and (idle := [option for option, given in answered.items() if given]):
        raise InvalidParameter(f"{idle[0]} does not go with --plan, which asks nothing.", hint="leave one out")
    units, place = _units(protect), ledger or "discreet.ledger"

    def each(option: str, said: Sequence[tuple[str | None, str]], read: Any = str) -> dict[str, Any]:
        return _for_each(option, said, units, read)

    epsilons = each("--epsilon", epsilon, _exact("--epsilon"))
    deltas = each("--delta", delta, _exact("--delta"))
    if missing := [name for name in units if name not in epsilons]:
        raise InvalidParameter(
            f"--epsilon is missing for {missing[0]!r}.",
            hint=f"add --epsilon {missing[0]}=0.5, or one --epsilon for both",
        )
    budgets = each("--budget", budget, _budget)
    price: dict[str, Any] = {
        "epsilon": epsilons,
        "delta": {n: deltas.get(n, 0) for n in units},
        "dialect": dialect,
        "noise": noise,
    }
    said: dict[str, Any] = {
        "units": units,
        "columns": columns(ranges, values),
        "version": version,
        "names": names,
        "relation": each("--relation", relation, _relation),
        "filter": each("--filter", filters),
    }
    data, who = sources(source, tables), each("--analyst", analyst)
    if only_plan:
        _plan(query, data, said, place, budgets, who, price, how)
        return
    how.check([place, source, *(other for _, other in tables)])
    import discreet as dp
    from discreet.ledger.places import shown

    with dp.connect_both(data, budget=budgets, ledger=place, analyst=who, **said) as session:
        release = how.ask(session, query, price, ledger=shown(place))
        _say(release, session, how)
        how.draw(release)


def _exact(option: str) -> Any:
    """Read an amount of privacy, exactly."""
    check = probability if option == "--delta" else positive

    def read(text: str) -> Fraction:
        try:
            return check(option, text)
        except InvalidParameter as error:
            raise InvalidParameter(error.message, hint=f"as in {option} 0.5 or {option} patients=1e-6") from None

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
    how: Answering,
) -> None:
    """Say what the query would cost: on the accounts where both are there, else on some that end here."""
    import discreet as dp

    known = have_accounts(place, list(said["units"]))
    if not known:
        place, analyst = ":memory:", {}
        budgets = {n: budgets.get(n) or dp.Budget(price["epsilon"][n], price["delta"][n]) for n in said["units"]}
    with dp.connect_both(data, budget=budgets, ledger=place, analyst=analyst, **said) as session:
        plan = session.plan(query, **price)
        if not known:
            plan = replace(plan, outlook="")
    if how.as_json:
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
    if how.explain:
        output.say(f"\n{plan.explain()}")


def _say(release: Release, session: Session, how: Answering) -> None:
    left = {name: account.remaining for name, account in session.accounts.items()}
    if how.as_json:
        answer = {
            **answers.measured_json(release, how.confidence),
            "cost": {name: amounts(charge.guarantee) for name, charge in release.plan.charges.items()},
            "stored": release.stored,
            "charged": {name: amounts(charge) for name, charge in release.charges.items()},
            "remaining": {name: amounts(budget) for name, budget in left.items()},
        }
        output.say_json({**answer, "explanation": release.explain()} if how.explain else answer)
        return
    how.say(release)
    for name, charge in release.charges.items():
        paid = "Answered from the ledger, free" if release.stored else f"Charged {spelled(charge)}"
        output.remark(f"{paid}; left for {name!r}: {spelled(left[name])}.")


def _units(protected: Sequence[tuple[str, str, int]]) -> dict[str, PrivacyUnit]:
    """Return the unit of each population."""
    import discreet as dp

    found = {name: dp.PrivacyUnit(column, max_rows=rows) for name, column, rows in protected}
    if len(found) != 2 or len(protected) != 2:
        raise InvalidParameter(
            f"--protect names two populations, each once, not {len(found)}.",
            hint="write --protect patients=patient_id:8 --protect doctors=doctor_id:120; `discreet sql` asks tables "
            "of one population",
        )
    return found


def _for_each(
    option: str, said: Sequence[tuple[str | None, str]], populations: Collection[str], read: Callable[[str], Any]
) -> dict[str, Any]:
    """Return what is said for each population; nothing for one that is not spoken of."""
    found: dict[str, Any] = {}
    for name, text in said:
        if name is not None and name not in populations:
            raise InvalidParameter(
                f"{option} names {name!r}, which --protect does not.",
                hint=f"the populations are {' and '.join(map(repr, populations))}",
            )
        for one in populations if name is None else [name]:
            if one in found:
                raise InvalidParameter(
                    f"{option} is given twice for {one!r}.",
                    hint=f"give it once for both, or once for each: {option} {one}=…",
                )
            found[one] = read(text)
    return found


def _budget(text: str) -> Budget:
    """Read a budget as it is typed: `3`, or `3,1e-6`."""
    import discreet as dp

    epsilon, delta = BudgetAmount().convert(text, None, None)
    return dp.Budget(epsilon, delta or 0)
