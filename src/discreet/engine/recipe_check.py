"""Second check of plans that other people's recipes make: a session performs none that it has not verified itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING

from discreet.errors import InvalidParameter
from discreet.noise.entropy import SystemEntropy
from discreet.plan.parts import PersonPart, kept_open
from discreet.plan.person_rows import PersonRows
from discreet.plan.plan import Payer, Plan
from discreet.plan.query import Query, public_table
from discreet.verify.check import check
from discreet.verify.shapes import reject

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.ledger.account import Account


def verified(
    recipe: object,
    plan: Plan,
    account: Account,
    tables: Sequence[TableSchema],
    version: str | None,
    *,
    stays_open: bool = False,
    found: bool = False,
) -> Plan:
    """Return the plan of a recipe that is not a session's own, verified anew, under an identity of its own.

    Args:
        recipe: what made it.
        plan: what is checked.
        account: who pays.
        tables: the session's.
        version: the owner's label of the data.
        stays_open: whether it is charged whole, as a run that stays open.
        found: whether such a run is found again; one that takes inputs never is.

    Raises:
        InternalError: the second derivation does not agree with it; nothing was charged.
        InvalidParameter: it is no plan of queries with declared bounds that one population pays for.
    """
    rows = [part.rows for part in plan.parts]
    values = [plan, *plan.measurements, *plan.payers, *plan.parts, *rows]
    if (
        not {type(value) for value in values} <= {Plan, Query, Payer, PersonPart, PersonRows}
        or not (plan.measurements or plan.parts)
        or len(plan.payers) != 1
        or plan.stages
        or plan.flows
        or plan.looks
    ):
        raise InvalidParameter(
            "A recipe of your own plans private parts of rows, or queries with declared bounds, which one population "
            "pays for.",
            hint="make its plan with discreet.recipes.plan_recipe, or discreet.plan.planner.plan_batch",
        )
    if stays_open:
        plan = kept_open(plan)
    name = f"{type(recipe).__module__}.{type(recipe).__qualname__}"
    (payer,) = plan.payers
    if not payer.population:
        plan = replace(plan, payers=(replace(payer, population=account.population),))
    # whatever its code may read of a recipe that is a value is part of what is asked
    value = repr(recipe) if is_dataclass(recipe) else ""
    once = (
        [] if plan.draws is None or found else [SystemEntropy().bytes(16).hex()]
    )  # a run that stays open is never found again
    asked = json.dumps([name, value, account.population, version, plan.identity, *once])
    plan = replace(plan, recipe=name, identity=hashlib.sha256(asked.encode()).hexdigest())
    claim = plan.claim_of_one
    check(claim)
    known = {t.name: t for t in tables}
    for source in claim.sources:
        if source.table is None:
            same = all(name in known and public_table(known[name]) == t for name, t in source.tables.items())
        else:
            own = known.get(source.table)
            said = None if own is None or own.public or own.reached else (own.unit.column, own.view)
            same = said == (source.unit, source.view)
        if not same or claim.relation is not account.relation:
            reject("whose the rows are, and who their neighbours")
    return plan
