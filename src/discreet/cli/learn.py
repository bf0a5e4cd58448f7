"""`discreet learn`: a private model of a table's columns, charged to the ledger and written to a file."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from discreet.cli import output, writing
from discreet.cli.options import Amount, QueryCommand, between, fields, question, without
from discreet.cli.output import amounts, spelled
from discreet.cli.question import QueryCall
from discreet.cli.waiting import charging, waiting
from discreet.errors import BudgetExceeded, InvalidParameter
from discreet.privacy.exact import positive
from discreet.privacy.guarantee import decimal

if TYPE_CHECKING:
    from discreet.engine.session import Session
    from discreet.plan.plan import Plan

MODELS = {
    "logistic": "LogisticRegression",
    "svm": "LinearSVC",
    "linear": "LinearRegression",
    "poisson": "PoissonRegressor",
    "bayes": "GaussianNB",
    "trees": "BoostedTrees",
    "trees-regressor": "BoostedTreesRegressor",
    "kmeans": "KMeans",
    "pca": "PCA",
    "scaler": "StandardScaler",
}
"""The models of the command, and the class of each."""

PREDICTING = ("logistic", "svm", "linear", "poisson", "bayes", "trees", "trees-regressor")
"""Those with a target."""

_OF_QUERIES = frozenset(
    {"--error", "--assuming", "--rows", "--min-people", "--keys", "--dialect", "--noise", "--truncation", "--bounds"}
)

_EXAMPLE = """\b
Examples, on a table of `discreet demo --save .`:
  discreet learn adult.parquet --target income --model logistic \\
      --each-row --range age=17:90 --range hours=1:99 \\
      --values "income=<=50K,>50K" --epsilon 1 --delta 1e-6 \\
      --budget 3,1e-5 -o model.json
  discreet learn adult.parquet --model kmeans --clusters 3 --each-row \\
      --range age=17:90 --range hours=1:99 --epsilon 1 --plan
"""


@click.command("learn", cls=QueryCommand, short_help="Private model of a table, in a file.", epilog=_EXAMPLE)
@without(_OF_QUERIES, question)
@click.option("--model", "kind", required=True, type=click.Choice([*MODELS]), help="Kind of the model.")
@click.option("--target", metavar="COLUMN", help="Column that is predicted: of --values or --range.")
@click.option("--classes", metavar="A,B", help="Labels of the target, as --values of it.")
@click.option("--features", metavar="A,B", help="Columns to learn from; all declared ones unless given.")
@click.option("--from", "table", metavar="TABLE", help="Table to learn from, where there are several.")
@click.option("--where", metavar="CONDITION", help="Condition on the rows, in SQL.")
@click.option("--basis", type=click.Choice(["linear", "gam"]), help="Functions of numbers, of a linear model.")
@click.option("--solver", metavar="NAME", help="Solver of a linear model: gradient, gram or objective.")
@click.option("--clusters", type=click.IntRange(1), help="Number of clusters of kmeans; 8 unless given.")
@click.option("--components", type=click.IntRange(1), help="Number of components of pca; all unless given.")
@click.option("-o", "--output", "file", metavar="FILE", help="File for the model, which `dp.learn.load` reads.")
@click.option(
    "--evaluate", "measured", type=Amount(positive), help="ε for measuring the model on these rows, charged besides."
)
@click.option("--evaluate-where", metavar="CONDITION", help="Condition on the rows that it is measured on.")
@click.option("--plan", "only_plan", is_flag=True, help="Cost and derivation alone; free.")
@click.option("--fresh", is_flag=True, help="New noise, charged again, for a fit asked before.")
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, callback=between, help="Confidence of the intervals."
)
@click.option("--json", "as_json", is_flag=True, help="Result and errors as JSON.")
def command(
    kind: str,
    target: str | None,
    classes: str | None,
    features: str | None,
    table: str | None,
    where: str | None,
    file: str | None,
    measured: Any,
    evaluate_where: str | None,
    only_plan: bool,
    fresh: bool,
    confidence: float,
    as_json: bool,
    **asked: Any,
) -> None:
    """Learn a model from SOURCE, and write it to a file.

    SOURCE, its unit, bounds, population and ledger are as in `discreet sql`, or those of the policy. Features and
    target have declared bounds or values. The cost is charged before any data is read; the same fit again is free.
    """
    from discreet import learn

    estimator = {name: asked.pop(name) for name in ("basis", "solver", "clusters", "components")}
    words = asked.pop("words")
    if len(words) > 1:
        raise InvalidParameter("There is more than a SOURCE.", hint="further tables: --table NAME=FILE")
    if measured is not None and kind not in PREDICTING:
        raise InvalidParameter(f"--evaluate measures predictions, and {kind} has none.", hint="leave --evaluate out")
    if evaluate_where is not None and measured is None:
        raise InvalidParameter(
            "--evaluate-where is for --evaluate, which is missing.", hint="--evaluate 0.5, the ε of the evaluation"
        )
    if classes is not None:
        if target is None:
            raise InvalidParameter("--classes are labels of --target, which is missing.", hint="--target COLUMN")
        asked["values"] = [*asked["values"], (target, labels_of(classes))]
    from discreet.backends.sources import table_name
    from discreet.policy import is_policy

    by_policy = not words or asked["policy"] is not None or is_policy(words[0])
    name = table or (table_name(words[0]) if words else "rows")
    if (by_policy or asked["unit"] is not None) and asked["max_groups"] is asked["max_contributions"] is None:
        asked["max_groups"] = 1  # rows of a fit have no groups
    stand_in = f'SELECT COUNT(*) AS n FROM "{name}"'  # asks for nothing that the model does not need
    call = QueryCall.taken_from({**_NOT_ASKED, **asked, "words": (*words, stand_in)})
    lacks = [] if call.epsilon else [("no ε", "--epsilon 1")]
    lacks += [] if file or only_plan else [("no file to be written to", "-o model.json, or --plan")]
    if lacks:
        raise InvalidParameter(
            f"the model has {' and '.join(l for l, _ in lacks)}.", hint=" ".join(h for _, h in lacks)
        )
    if file is not None:
        writing.check("--output", file, call.files)
    given = {"epsilon": call.epsilon, "delta": call.delta, **_parameters(kind, estimator)}
    names = None if features is None else [text for text, _ in fields("--features", features)]
    rows: dict[str, Any] = {"features": names, "target": target, "table": table}
    with call.open_without_account() if only_plan else call.open() as session:
        relation = next(iter(session.accounts.values())).relation.value
        model = getattr(learn, MODELS[kind])(**given, relation=relation)
        if only_plan:
            _say_plan(session, model, {**rows, "where": where}, measured, as_json=as_json)
            return
        if measured is not None:
            _refuse_costlier(session.plan_fit(model, **rows, where=where), measured, session)
        assert file is not None
        replaced = " in place of the file that was there" * Path(file).exists()
        with charging(call.shown, as_json=as_json), waiting("fitting the model", quiet=as_json):
            fitted = session.fit(model, **rows, where=where, fresh=fresh)
        try:
            fitted.save(file)
        except OSError as error:
            raise InvalidParameter(
                f"--output {file} cannot be written: {error.strerror}. The fit is paid for.",
                hint="ask it again with another file, which is free",
            ) from None
        found = None
        if measured is not None:
            rows["features"] = fitted.feature_names_in_.tolist()
            how: dict[str, Any] = {
                "epsilon": measured,
                "where": evaluate_where or where,
                "confidence": confidence,
                "fresh": fresh,
            }
            with charging(call.shown, as_json=as_json), waiting("measuring the model", quiet=as_json):
                try:
                    found = session.evaluate(fitted, **rows, **how)
                except BudgetExceeded as refusal:
                    refusal.message += f" {file} is written, and paid for."
                    raise
        if as_json:
            numbers = {} if found is None else {n: v._asdict() for n, v in found.numbers.items()}
            told = {"model": file, "features": fitted.feature_names_in_.tolist(), "stored": fitted.stored}
            told |= {"evaluation": numbers, "population": session.population}
            output.say_json({**told, "remaining": amounts(session.remaining), "explanation": fitted.explain()})
            return
        output.say(f"Wrote {file}{replaced}: {fitted._explained()}")
        if bias := fitted._bias():
            output.remark(bias)
        if found is not None:
            output.say(str(found))
            if evaluate_where is None:
                output.remark("Measured on the rows that it was fitted to; --evaluate-where names others.")
        receipts = [fitted._received()[0], *([] if found is None else [found._receipt])]
        costs = [spelled(r.paid.claim().charged) for r in receipts if not r.stored]
        paid = f"Charged {' and '.join(costs)}" if costs else "Answered from the ledger, free"
        output.remark(f"{paid}; left for {session.population!r} in {call.shown}: {spelled(session.remaining)}.")


_NOT_ASKED: dict[str, Any] = {
    "errors": (),
    "assuming": (),
    "rows": 10_000,
    "min_people": 1,
    "keys": None,
    "dialect": "duckdb",
    "noise": None,
    "truncation": 0,
    "bounds": None,
}
"""Options of `sql` that this command does not have."""


def labels_of(text: str) -> list[str | int | None]:
    """Return labels as --values reads them."""
    from discreet.cli.options import ValuesOf

    found: list[str | int | None] = ValuesOf().convert(f"classes={text}", None, None)[1]
    return found


def _parameters(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a kind of model; an option of another kind is refused."""
    takes = {"kmeans": {"clusters": "n_clusters"}, "pca": {"components": "n_components"}}
    linear = {"basis": "basis", "solver": "solver"} if kind in ("logistic", "svm", "linear", "poisson") else {}
    own = {**takes.get(kind, {}), **linear}
    for name, value in given.items():
        if value is not None and name not in own:
            raise InvalidParameter(f"--{name} does not go with --model {kind}.", hint=f"leave --{name} out")
    return {own[name]: value for name, value in given.items() if value is not None}


def _say_plan(session: Session, model: Any, rows: dict[str, Any], measured: Fraction | None, *, as_json: bool) -> None:
    """Say what a fit and its evaluation would cost."""
    plan = session.plan_fit(model, **rows)
    fit = plan.payers[0].guarantee
    cost = replace(fit, epsilon=fit.epsilon + (measured or 0))
    if as_json:
        output.say_json({"cost": amounts(cost), "explanation": plan.explain()})
        return
    split = "" if measured is None else f": {plan.price} for the fit, and ε = {decimal(measured)} for its evaluation"
    output.say(f"It would cost {spelled(cost)}{split}.\n\n{plan.explain()}")


def _refuse_costlier(plan: Plan, measured: Fraction, session: Session) -> None:
    """Refuse an evaluation that the account cannot pay beside a fit that is not stored, before the fit is charged.

    Raises:
        BudgetExceeded: nothing was charged.
    """
    left = plan.left  # None where the fit itself will be refused
    if left is not None and left.epsilon < session.remaining.epsilon and measured > left.epsilon:
        asked, has = f"ε = {decimal(measured)}", spelled(left)
        raise BudgetExceeded(
            f"{session.population!r}: the evaluation needs {asked}, and the fit ({plan.price}) leaves {has}. "
            "Nothing was charged.",
            asked=asked,
            left=has,
            hint=f"--evaluate {decimal(left.epsilon)} would fit" if left.epsilon else "leave --evaluate out",
        )
