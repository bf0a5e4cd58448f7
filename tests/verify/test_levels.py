"""Totals measured beside the groups: their events are recomputed one by one, and none may be told as cheaper ones."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from discreet.accounting.filter import Charge, open_filter
from discreet.catalog.schema import Range, TableSchema, Values
from discreet.catalog.types import Type
from discreet.plan.planner import make_query
from discreet.plan.query import claim_of
from discreet.privacy import codec
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.guarantee import Approximate, Budget
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.verify.certificate.checker import check
from discreet.verify.certificate.claim_checks import of_measurements
from discreet.verify.check import check_moves, derived, priced
from discreet.verify.claim import PlanClaim
from discreet.verify.price import check_charge, check_divergence, check_events, check_total
from tests.verify.asked import SINGLE, ask, exported, plain, session
from tests.verify.forging import Document, forged, sealed

GROUPS = ["ROLLUP (a, b)", "CUBE (a, b)", "GROUPING SETS ((a, b), ())", "ROLLUP (a, b, c)"]
NOISES: list[dict[str, Any]] = [{}, {"noise": "gaussian", "delta": "1e-6"}]


def claim(group: str, caps: tuple[int, int], relation: Relation, span: tuple[int, int], **noise: Any) -> PlanClaim:
    """The claim of a question with totals, over lists of three, four and two values."""
    facts: dict[str, Any] = {
        "a": Values(1, 2, 3),
        "b": Values(1, 2, 3, 4),
        "c": Values(1, 2),
        "x": Range(*span, integer=True),
    }
    columns = dict.fromkeys(["u", "a", "b", "c", "x"], Type.INT)
    t = TableSchema("t", columns, facts, PrivacyUnit("u", max_groups=caps[0], max_rows=caps[1]), relation)
    keys = "a, b, c" if "c" in group else "a, b"
    sql = f"SELECT {keys}, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY {group}"
    return claim_of(make_query(sql, [t], population="p", version=None, epsilon=1, **noise))


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.thinned(3)
@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("group", GROUPS)
def test_the_events_of_honest_totals_are_found_again(group: str, relation: Relation, noise: dict[str, Any]) -> None:
    levels = 0
    for caps, span in itertools.product([(1, 1), (2, 3), (5, 1), (12, 2)], [(0, 1), (-3, 2), (0, 7)]):
        found = claim(group, caps, relation, span, **noise)
        levels += sum(len(m.levels) for m in found.measurements)
        assert of_measurements(found) == found.measured.events, (caps, span)
    assert levels or (group, relation, noise) == (GROUPS[1], Relation.ADD_REMOVE, {})  # which adds up its groups


def told(own: PlanClaim, events: Composed) -> PlanClaim:
    return replace(own, measured=replace(own.measured, events=events), charged=replace(own.charged, events=events))


def passes_what_is_asked_of_every_claim(own: PlanClaim) -> bool:
    """The second derivation's own bounds, by which events of totals were once judged alone."""
    facts = derived(own)
    parts = priced(own, facts)
    check_moves(own, facts)
    check_total(parts, own.measured)
    check_events(parts, own.measured)
    check_divergence(parts, own.measured)
    check_charge(own)
    return True


@pytest.mark.parametrize(("relation", "least"), [(Relation.ADD_REMOVE, "0.99"), (Relation.REPLACE, "0.34")])
def test_totals_told_as_many_small_losses_are_others(relation: Relation, least: str) -> None:
    own = claim("ROLLUP (a, b)", (2, 3), relation, (0, 7))
    small = Composed([(ApproximateEvent(Fraction(1, 6)), 6)])
    cheap = told(own, small)
    assert passes_what_is_asked_of_every_claim(cheap)
    assert of_measurements(cheap) != small
    rule = open_filter("zcdp", Budget(3, "1e-6"))
    price = Approximate(own.charged.epsilon, own.charged.delta)
    rho, less = (rule.cost(Charge(e, price))[0] for e in (own.measured.events, small))
    assert less < rho * Fraction(least)  # what a ledger that counts in ρ would have been told


@pytest.mark.parametrize("kind", ["add-remove", "replace"])
@pytest.mark.parametrize("name", ["totals", "a cube", "totals, Gaussian"])
def test_a_certificate_of_them_is_rejected(name: str, kind: str) -> None:
    where = session(kind, False)
    document = plain(ask(where, *SINGLE[name]).certificate())
    assert check(document, exported(where)).ok
    (first, n), *others = codec.decode(document["claim"]["measured"]["events"]).parts
    small = [(ApproximateEvent(first.pure / 2), 2 * n)] if first.pure is not None else [(first, n - 1)]
    events = codec.encode(Composed([*others, *((event, many) for event, many in small if many)]))

    def change(d: Document) -> None:
        for cost in ("measured", "charged"):
            d["claim"][cost]["events"] = events

    verdict = check(sealed(forged(document, change)))
    assert verdict.broken == "events"
