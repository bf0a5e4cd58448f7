"""How releases are stored and found again: the noisy numbers, and digests of the claim and of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet.certificate.paid import Paid
from discreet.certificate.seal import answer, certified, noted
from discreet.ledger.entry import release_in
from discreet.plan.auto_bounds.staged import kept, restored
from discreet.plan.claim import claim_of
from discreet.privacy.guarantee import Approximate
from discreet.release import Drawn, NoisyTable, Release

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.plan.auto_bounds.staged import Advised, StagedPlan
    from discreet.plan.batch import Batch, Place
    from discreet.plan.plan import Plan


def note(plan: Plan, version: str | None) -> dict[str, Any]:
    """The public facts beside a charge; they commit to all that will run, before the data is read."""
    return {**_asked(plan, version), **noted(claim_of(plan))}


def note_in_stages(staged: StagedPlan, version: str | None) -> dict[str, Any]:
    """The same of a question in two stages: to its first, and to what its second may cost."""
    return {**_asked(staged.last, version), **noted(staged.claim)}


def _asked(plan: Plan, version: str | None) -> dict[str, Any]:
    return {"sql": plan.question.text, "table": plan.question.table.name, "version": version}


def released(
    account: Account, plan: Plan, table: NoisyTable, drawn: Drawn, charged: Approximate | None = None
) -> Release:
    """The release of a question; without `charged`, of one that the ledger had."""
    paid = Paid(account, plan.identity, "", table.to_json, lambda: claim_of(plan))
    return _release(plan, table, drawn, charged, paid)


def released_in_stages(
    account: Account,
    identity: str,
    plan: Advised,
    table: NoisyTable,
    drawn: Drawn,
    charged: Approximate | None = None,
) -> Release:
    """The same of a question in two stages."""
    paid = Paid(account, identity, "", lambda: kept(plan.choice, table.to_json()), lambda: plan.claim)
    return _release(plan, table, drawn, charged, paid)


def find(account: Account, plan: Plan, version: str | None) -> Release | None:
    """The release that the ledger has of a question; None when there is none."""
    found = account.found(plan.identity)
    if found is None:
        return None
    return released(account, plan, NoisyTable.from_json(release_in(found)), Drawn(found.time, version))


def find_in_stages(account: Account, staged: StagedPlan, version: str | None) -> Release | None:
    """The same of a question in two stages."""
    found = account.found(staged.identity)
    if found is None:
        return None
    choice, table = restored(release_in(found))
    plan, drawn = staged.advised(choice), Drawn(found.time, version)
    return released_in_stages(account, staged.identity, plan, NoisyTable.from_json(table), drawn)


def keep(releases: dict[str, Release], charge: int) -> dict[str, Release]:
    """Stores what one charge paid for, the numbers that all these releases are made of and their digests; and returns
    the releases.

    Args:
        releases: by the names of their questions in a batch; "" without one.
        charge: the number of the charge.
    """
    (paid, *_) = [r.paid for r in releases.values() if r.paid is not None]
    answers = {name: answer(r.columns, r.rows) for name, r in releases.items()}
    paid.keep(charge, certified(paid.claim(), answers))
    return releases


def releases(
    account: Account,
    batch: Batch,
    tables: Sequence[NoisyTable],
    drawn: Drawn,
    charged: Approximate | None = None,
) -> dict[str, Release]:
    """One release for each question, by its name; without `charged`, of a batch that the ledger had.

    Guarantee:
        Post-processing: a release holds columns of a noisy table of the batch, which was charged as a whole.
    """
    found = {}
    for name, plan in batch.plans.items():
        paid = Paid(account, batch.identity, name, lambda: stored_batch(tables), lambda: batch.claim)
        found[name] = _release(plan, _part(tables, batch.places[name]), drawn, charged, paid)
    return found


def stored_batch(tables: Sequence[NoisyTable]) -> dict[str, Any]:
    """What the ledger keeps of a batch: a single measurement is kept as that of a question is."""
    if len(tables) == 1:
        return tables[0].to_json()
    return {"format": 1, "tables": [t.to_json() for t in tables]}


def restored_batch(kept: dict[str, Any]) -> list[NoisyTable]:
    """What `stored_batch` wrote."""
    return [NoisyTable.from_json(t) for t in kept.get("tables", [kept])]


def _release(plan: Plan, table: NoisyTable, drawn: Drawn, charged: Approximate | None, paid: Paid) -> Release:
    """A release; without `charged`, one that the ledger had."""
    free = Approximate(Fraction(0))
    return Release(plan, table, charged=charged or free, stored=charged is None, paid=paid, drawn=drawn)


def _part(tables: Sequence[NoisyTable], place: Place) -> NoisyTable:
    """A question's own columns of the measurement that it is answered from."""
    table = tables[place.measurement]
    cells = tuple(tuple(row[i] for i in place.columns) for row in table.cells)
    spreads = tuple(table.spreads[i] for i in place.spreads)
    levels = tuple(tuple(tuple(row[i] for i in place.columns) for row in level) for level in table.levels)
    return NoisyTable(table.keys, cells, (), spreads, levels)
