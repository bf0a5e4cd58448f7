"""The one pipeline: plan, find, rehearse, charge, settle who takes part, draw, store, certify, in this order.

Guarantee:
    Nothing is read of private data before the charge is durable, and nothing of it leaves but what the meter gave for
    what was charged. Where anything fails after the charge, it stands (docs/proofs/pipeline.md).
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from discreet.engine.cells import flow_uses, uses_of
from discreet.engine.meter import FedUse, Meter, PlannedUse, Reserved, follow
from discreet.engine.open_run import OpenRun, StepRun
from discreet.engine.payers import Paid, PeopleOf, note_of
from discreet.engine.recipe import Drawn, Receipt, Recipe
from discreet.errors import BudgetExceeded, InternalError, InvalidParameter, SourceError
from discreet.ledger.entry import release_in
from discreet.noise.entropy import SystemEntropy
from discreet.plan.parts import PersonPart, kept_open
from discreet.plan.person_rows import PersonRows
from discreet.plan.plan import Payer, Plan
from discreet.plan.query import Query, public_table
from discreet.query.expr import parameters_of
from discreet.verify.certificate.evidence import CERTIFIED
from discreet.verify.certificate.seal import certified
from discreet.verify.check import check
from discreet.verify.shapes import reject

if TYPE_CHECKING:
    from discreet.backends.backend import Backend
    from discreet.catalog.schema import Scalar, TableSchema
    from discreet.engine.payers import Payers, Readable
    from discreet.ledger.account import Account
    from discreet.ledger.entry import Entry
    from discreet.noise.entropy import Entropy


log = logging.getLogger("discreet")
"""Events of public facts: what was charged, refused and released. Nothing of the data is in them."""

S = TypeVar("S")
R = TypeVar("R")


class Desk:
    """What a session performs with: accounts that pay, the database, its tables, and the owner's label of the data."""

    def __init__(self, payers: Payers, backend: Backend, tables: Sequence[TableSchema], version: str | None) -> None:
        self.payers = payers
        self.backend = backend
        self.tables = tuple(tables)
        self.version = version
        account = payers.accounts[0]  # of two populations none has budgets of its people
        self._people = None if account.people is None else PeopleOf(account, backend, tables)
        self._locks: dict[str, threading.Lock] = {}

    def perform(self, recipe: Recipe[S, R], *, fresh: bool = False, ours: bool = True, in_steps: bool = False) -> R:
        """Do what a recipe asks, and return its result; the same again is answered from the ledger, free.

        The planner has verified what is `ours`. What is `in_steps`, a `StepRecipe`, is charged whole, as a run that
        stays open is, and gone on with where it was broken off.

        Raises:
            InternalError: the second derivation refuses the plan; nothing was charged.
            PlanError, InvalidParameter: it cannot be done as asked; nothing was charged.
            BudgetExceeded: an account cannot pay; nothing was charged and no data was read.
            LedgerError: the ledger cannot be used; no data was read, or nothing is released.
            BackendFailed: the database failed after the charge, which stands.
        """
        plan = self._planned(recipe, ours=ours, stays_open=in_steps, found=in_steps)
        try:
            # one thread at a time asks a question; another that asks the same waits, and gets the stored answer
            with nullcontext() if fresh else self._locks.setdefault(plan.identity, threading.Lock()):
                found = None if fresh else self.payers.found(plan.identity)
                if found is not None:
                    log.info("answered again from the ledger, free: query %.12s", plan.identity)
                    return self._again(recipe, plan, found)
                run = StepRun.of(self.payers.accounts[0], recipe, plan.identity, fresh=fresh) if in_steps else None
                with self._paid(recipe, plan, run) as (charges, meter):
                    state = follow(recipe.run(plan), meter)
                return self._stored(recipe, plan, state, charges)
        except BudgetExceeded as refusal:
            refused = refusal
        log.info("refused, the budget cannot pay %s: query %.12s", plan.price, plan.identity)
        raise self.payers.fitting(refused, plan, lambda part: recipe.plan(self.tables, part))

    def plan(self, recipe: Recipe[S, R], *, in_steps: bool = False) -> Plan:
        """Return the plan of another's recipe, verified, with what the accounts can pay, free; raises as `perform`."""
        return self.payers.with_outlook(self._planned(recipe, ours=False, stays_open=in_steps, found=in_steps))

    def refuse_costlier(self, recipe: Recipe[S, R]) -> None:
        """Refuse a recipe in steps that cannot be paid, before a smaller one before it is charged; raises so."""
        refusal = self.payers.accounts[0].refusal(self._planned(recipe, ours=False, stays_open=True).charge)
        if refusal is not None:
            raise refusal

    def open(self, recipe: Recipe[S, R]) -> OpenRun[S, R]:
        """Charge a recipe whose run stays open, take it to its first wait, and return it; raises as `perform`."""
        plan = self._planned(recipe, ours=False, stays_open=True)
        try:
            with self._paid(recipe, plan) as (charges, meter):
                meter.read_ahead()
                return OpenRun(recipe.run(plan), meter, lambda state: self._stored(recipe, plan, state, charges))
        except BudgetExceeded as refusal:
            refused = refusal
        raise self.payers.fitting(refused, plan, lambda part: kept_open(recipe.plan(self.tables, part)))

    def _planned(self, recipe: Recipe[S, R], *, ours: bool, stays_open: bool = False, found: bool = False) -> Plan:
        """Return the plan over the tables as they are now, verified here where the recipe is not the session's own."""
        self.tables = look_again(self.backend, self.tables)
        plan = recipe.plan(self.tables)
        if not ours:
            account = self.payers.accounts[0]
            plan = verified(recipe, plan, account, self.tables, self.version, stays_open=stays_open, found=found)
        if [p.population for p in plan.payers] != [a.population for a in self.payers.accounts]:
            raise InternalError("This plan is paid for by others than this session's accounts. Nothing was charged.")
        return plan

    def _again(self, recipe: Recipe[S, R], plan: Plan, found: Entry) -> R:
        """Return the result of a stored state."""
        state = recipe.restore(plan, release_in(found))
        plan = recipe.settled(plan, state)
        return recipe.build(plan, state, self._receipt(recipe, plan, state, found.time, stored=True))

    @contextmanager
    def _paid(self, recipe: object, plan: Plan, run: StepRun | None = None) -> Iterator[tuple[list[Entry], Meter]]:
        """Rehearse and charge a plan, and give the charges and the meter of what was charged; a run in steps that was
        charged before goes on.
        """
        check_views(self.backend, self.tables)
        read = parameters_of if plan.outer is not None and plan.outer.fed else lambda _: []
        for text, keyed in plan.rehearsals:
            self.backend.rehearse(text, self._parameters(keyed) | dict.fromkeys(read(text)))
        people = self._people
        cost = None if people is None else people.cost(plan)
        if run is not None and run.charge is not None:
            charges = [run.charge]
            log.info("goes on with what was charged: query %.12s", plan.identity)
        else:
            charges = self.payers.charge(plan, note_of(plan, self.version))
            log.info("charged %s: query %.12s", plan.price, plan.identity)
        reading: AbstractContextManager[Readable] = nullcontext(self.backend)
        fed: dict[str, Scalar] = {}

        def given(text: str, keyed: bool) -> dict[str, Any]:
            return self._parameters(keyed) | {name: fed[name] for name in read(text)}

        if people is not None and cost is not None:  # else everybody takes part
            reading = people.taking_part(cost, charges[0].seq, self._secret)
        with reading as data:
            uses = planned_uses(plan, recipe, people, fed)
            meter = Meter(
                uses if run is None else run.uses(uses, charges[0]),
                lambda text, keyed: data.rows(text, given(text, keyed)),
                self._entropy(),
                lambda text, keyed: data.columns(text, given(text, keyed)),
            )
            try:
                yield charges, meter
            except BaseException:
                meter.close()
                raise

    def _stored(self, recipe: Recipe[S, R], plan: Plan, state: S, charges: list[Entry]) -> R:
        """Return the result of a new state, once the ledger has it."""
        plan = recipe.settled(plan, state)
        receipt = self._receipt(recipe, plan, state, charges[0].time, stored=False)
        result = recipe.build(plan, state, receipt)
        digests = certified(plan.claim, recipe.answers(plan, state, result))
        self.payers.store(plan.identity, charges, {**recipe.keep(state), CERTIFIED: digests})
        log.info("released: query %.12s", plan.identity)
        return result

    def _receipt(self, recipe: Recipe[S, R], plan: Plan, state: S, time: str, *, stored: bool) -> Receipt:
        paid = Paid(self.payers.accounts, plan.identity, lambda: recipe.keep(state), lambda: plan.claim)
        return Receipt(Drawn(time, self.version), stored, paid)

    def _entropy(self) -> Entropy:
        """Return what noise is drawn from; a session for tests has another source (`testing/seeded.py`)."""
        return SystemEntropy()

    def _parameters(self, keyed: bool) -> dict[str, Any]:
        return {"secret": self._secret} if keyed else {}

    @property
    def _secret(self) -> int:
        return int.from_bytes(self.payers.accounts[0].secret[:8], "big")


def planned_uses(
    plan: Plan, recipe: object, people: PeopleOf | None, fed: dict[str, Scalar] | None = None
) -> list[PlannedUse]:
    """Return every use of a mechanism that a plan was charged for."""
    if plan.flows is not None:
        return flow_uses(plan)
    stages = plan.stages
    if stages is None:
        found = [use for i, query in enumerate(plan.measurements) for use in uses_of(query, f"{i} ")]
        found += [] if plan.outer is None or fed is None else [FedUse(f.name, f.type, fed) for f in plan.outer.fed]
        if not plan.parts:
            return found
        from discreet.engine.person_parts import part_uses

        return [*found, *part_uses(plan.parts, recipe)]
    from discreet.engine.first_stage import SECOND, first_stage_uses

    def second(settled: Plan) -> list[PlannedUse]:
        """Return what the second stage may draw: its query was verified, and costs what was set aside at most."""
        query = settled.query
        stages.refuse_costlier(query)
        if people is not None:
            people.check_stages(stages.last, query)
        return uses_of(query, f"{SECOND} ")

    return [*first_stage_uses(stages), Reserved(SECOND, second)]


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


def look_again(backend: Backend, tables: Sequence[TableSchema]) -> tuple[TableSchema, ...]:
    """Return the tables as they show their sources now: those whose files were written since are attached again.

    A source that is gone or broken is no reason to refuse a query that was answered before; `check_views` refuses it.
    """
    try:
        views = backend.refresh()
    except (SourceError, InvalidParameter):
        return tuple(tables)
    return tuple(t if t.view == views[t.name] else replace(t, view=views[t.name]) for t in tables)


def check_views(backend: Backend, tables: Sequence[TableSchema]) -> None:
    """Refuse, before anything is charged, sources that cannot be read as the query was planned.

    Raises:
        SourceError, InvalidParameter: one is gone, cannot be read, stores ids in a type that has none, or has other
            columns than just now.
    """
    views = backend.refresh()
    if any(t.view != views[t.name] for t in tables):
        raise SourceError(
            "The columns of a source changed while the query was planned. Nothing was charged.", hint="ask again"
        )
