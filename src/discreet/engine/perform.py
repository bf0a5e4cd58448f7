"""The one pipeline: plan, find, rehearse, charge, settle who takes part, draw, store, certify, in this order.

Guarantee:
    Nothing is read of private data before the charge is durable, and nothing of it leaves but what the meter gave for
    what was charged. Where anything fails after the charge, it stands (docs/proofs/pipeline.md).
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from discreet.engine.cells import uses_of
from discreet.engine.meter import Meter, follow
from discreet.engine.open_run import OpenRun
from discreet.engine.paid import Paid
from discreet.engine.payers import Payers
from discreet.engine.people import PeopleOf
from discreet.engine.recipe import Drawn, Receipt, Recipe
from discreet.engine.tables import check_views, look_again
from discreet.engine.uses import PlannedUse, Reserved
from discreet.errors import BudgetExceeded, InternalError, InvalidParameter
from discreet.noise.entropy import SystemEntropy
from discreet.plan.claim import public_table
from discreet.plan.parts import PersonPart, kept_open
from discreet.plan.person_rows import PersonRows
from discreet.plan.plan import Payer, Plan
from discreet.plan.query import Query
from discreet.verify.certificate.evidence import CERTIFIED
from discreet.verify.certificate.seal import certified, noted
from discreet.verify.check import check
from discreet.verify.shapes import reject

if TYPE_CHECKING:
    from discreet.backends.backend import Backend
    from discreet.catalog.schema import TableSchema
    from discreet.engine.people import Readable
    from discreet.ledger.account import Account
    from discreet.ledger.entry import Entry
    from discreet.plan.people.person_cost import PersonCost

S = TypeVar("S")
R = TypeVar("R")


def verified(
    recipe: object,
    plan: Plan,
    account: Account,
    tables: Sequence[TableSchema],
    version: str | None,
    *,
    stays_open: bool = False,
) -> Plan:
    """Return the plan of a recipe that is not a session's own, verified anew, under an identity of its own.

    Raises:
        InternalError: the second derivation does not agree with it; nothing was charged.
        InvalidParameter: it is no plan of queries with declared bounds that one population pays for.
    """
    rows = [part.rows for part in plan.parts]
    values = [plan, *plan.measurements, *plan.payers, *plan.parts, *rows]
    # the claim says nothing of other people than those whose rows a private part reads
    others = len(plan.payers) != 1 or (account.people is not None and plan.measurements)
    if (
        not {type(value) for value in values} <= {Plan, Query, Payer, PersonPart, PersonRows}
        or not (plan.measurements or plan.parts)
        or others
        or plan.stages
        or plan.flows
        or plan.looks
    ):
        raise InvalidParameter(
            "A recipe of your own plans private parts of rows, or queries with declared bounds, which one population "
            "pays for; where people have budgets of their own, private parts alone.",
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
    once = [] if plan.draws is None else [SystemEntropy().bytes(16).hex()]  # a run that stays open is never found again
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

    def perform(self, recipe: Recipe[S, R], *, fresh: bool = False, ours: bool = True) -> R:
        """Do what a recipe asks, and returns its result; the same again is answered from the ledger, free.

        Args:
            recipe: what is asked.
            fresh: whether to draw again, and be charged, even if the answer is stored.
            ours: whether the session made the recipe, whose planner has verified its plan.

        Raises:
            InternalError: the second derivation refuses the plan; nothing was charged.
            PlanError, InvalidParameter: it cannot be done as asked; nothing was charged.
            BudgetExceeded: an account cannot pay; nothing was charged and no data was read.
            LedgerError: the ledger cannot be used; no data was read, or nothing is released.
            BackendFailed: the database failed after the charge, which stands.
        """
        self.tables = look_again(self.backend, self.tables)
        plan = recipe.plan(self.tables)
        if not ours:
            plan = verified(recipe, plan, self.payers.accounts[0], self.tables, self.version)
        self._refuse_others(plan)
        try:
            # one thread at a time asks a question; another that asks the same waits, and gets the stored answer
            with nullcontext() if fresh else self._locks.setdefault(plan.identity, threading.Lock()):
                found = None if fresh else self.payers.found(plan.identity)
                return self._draw(recipe, plan) if found is None else self._again(recipe, plan, found)
        except BudgetExceeded as refusal:
            refused = refusal
        raise self.payers.fitting(refused, plan, lambda part: recipe.plan(self.tables, part))

    def open(self, recipe: Recipe[S, R]) -> OpenRun[S, R]:
        """Charges a recipe whose run stays open, takes it to its first wait, and returns it; raises as `perform`."""
        self.tables = look_again(self.backend, self.tables)
        plan, account = recipe.plan(self.tables), self.payers.accounts[0]
        plan = verified(recipe, plan, account, self.tables, self.version, stays_open=True)
        self._refuse_others(plan)
        try:
            with self._paid(recipe, plan) as (charges, meter):
                meter.read_ahead()
                return OpenRun(recipe.run(plan), meter, lambda state: self._stored(recipe, plan, state, charges))
        except BudgetExceeded as refusal:
            refused = refusal
        raise self.payers.fitting(refused, plan, lambda part: kept_open(recipe.plan(self.tables, part)))

    def _refuse_others(self, plan: Plan) -> None:
        if [p.population for p in plan.payers] != [a.population for a in self.payers.accounts]:
            raise InternalError("This plan is paid for by others than this session's accounts. Nothing was charged.")

    def _again(self, recipe: Recipe[S, R], plan: Plan, found: Entry) -> R:
        """Return the result of a stored state."""
        from discreet.ledger.entry import release_in

        state = recipe.restore(plan, release_in(found))
        plan = recipe.settled(plan, state)
        return recipe.build(plan, state, self._receipt(recipe, plan, state, found.time, stored=True))

    def _draw(self, recipe: Recipe[S, R], plan: Plan) -> R:
        """Rehearses, charges, draws, and stores."""
        with self._paid(recipe, plan) as (charges, meter):
            state = follow(recipe.run(plan), meter)
        return self._stored(recipe, plan, state, charges)

    @contextmanager
    def _paid(self, recipe: object, plan: Plan) -> Iterator[tuple[list[Entry], Meter]]:
        """Rehearses and charges a plan, and gives the charges and the meter of what was charged."""
        check_views(self.backend, self.tables)
        for text, keyed in plan.rehearsals:
            self.backend.rehearse(text, self._parameters(keyed))
        cost = None if self._people is None else self._people.cost(plan)
        charges = self.payers.charge(plan, self._note(plan))
        with self._taking_part(cost, charges[0]) as data:
            meter = Meter(
                self._uses(plan, recipe),
                lambda text, keyed: data.rows(text, self._parameters(keyed)),
                SystemEntropy(),
                lambda text, keyed: data.columns(text, self._parameters(keyed)),
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
        return result

    def _receipt(self, recipe: Recipe[S, R], plan: Plan, state: S, time: str, *, stored: bool) -> Receipt:
        paid = Paid(self.payers.accounts, plan.identity, lambda: recipe.keep(state), lambda: plan.claim)
        return Receipt(Drawn(time, self.version), stored, paid)

    def _uses(self, plan: Plan, recipe: object) -> list[PlannedUse]:
        """Every use of a mechanism that a plan was charged for."""
        if plan.flows is not None:
            from discreet.engine.flows import flow_uses

            return flow_uses(plan)
        stages = plan.stages
        if stages is None:
            found = [use for i, query in enumerate(plan.measurements) for use in uses_of(query, f"{i} ")]
            if not plan.parts:
                return found
            from discreet.engine.person_parts import part_uses

            return [*found, *part_uses(plan.parts, recipe)]
        from discreet.engine.looks import SECOND, look_uses

        people = self._people

        def second(settled: Plan) -> list[PlannedUse]:
            """Return what the second stage may draw: its query was verified, and costs what was set aside at most."""
            query = settled.query
            stages.refuse_costlier(query)
            if people is not None:
                people.check_stages(stages.last, query)
            return uses_of(query, f"{SECOND} ")

        return [*look_uses(stages), Reserved(SECOND, second)]

    def _note(self, plan: Plan) -> dict[str, Any]:
        """Return the public facts beside a charge; they commit to all that will run, before the data is read."""
        says: dict[str, Any] = {"version": self.version, **noted(plan.claim)}
        if plan.recipe:
            read = {part.rows.bounded.table.name for part in plan.parts}
            read |= {q.question.table.name for q in plan.measurements}
            stays = {} if plan.draws is None else {"open": True}
            return {"sql": plan.recipe, "tables": sorted(read), **stays, **says}
        if [*plan.outputs] == [""]:
            question = plan.query.question
            return {"sql": question.text, "table": question.table.name, **says}
        texts = {name: output.query.question.text for name, output in plan.outputs.items()}
        tables = sorted({q.question.table.name for q in plan.measurements})
        return {"batch": texts, "tables": tables, **says}

    @contextmanager
    def _taking_part(self, cost: PersonCost | None, charge: Entry) -> Iterator[Readable]:
        """Yield what runs SQL on the data of those who take part: of everybody, where people have no budgets of their
        own.
        """
        if cost is None or self._people is None:
            yield self.backend
            return
        with self._people.taking_part(cost, charge.seq, self._secret) as data:
            yield data

    def _parameters(self, keyed: bool) -> dict[str, int]:
        return {"secret": self._secret} if keyed else {}

    @property
    def _secret(self) -> int:
        return int.from_bytes(self.payers.accounts[0].secret[:8], "big")
