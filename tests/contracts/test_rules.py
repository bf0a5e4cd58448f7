"""What every rule of the planner obeys: no number has more noise, `verify` accepts the plan, and it means the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from discreet.engine.cells import measure
from discreet.engine.release import Release
from discreet.engine.sql_recipe import _part
from discreet.errors import InternalError
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.mechanisms.threshold import Threshold
from discreet.noise.entropy import SystemEntropy
from discreet.plan.cost import PlanTerms
from discreet.plan.plan import Plan
from discreet.plan.query import Query, claim_of_all, decided
from discreet.plan.question import read_question
from discreet.plan.rules import RULES
from discreet.plan.rules.by_rank import BY_RANK
from discreet.plan.rules.common import COMMON, measured_apart
from discreet.plan.rules.one_partition import ONE_PARTITION
from discreet.plan.rules.rule import Rule, improved, is_no_noisier
from discreet.privacy.event import Composed
from discreet.verify.check import check
from tests.house.tree import SRC
from tests.plan.cases import Engine
from tests.plan.rules.cases import FOLDER, Case, cases, errors
from tests.reference.expression import Row
from tests.reference.values import Kind

SCHEMA = {"uid": Kind.INT, "x": Kind.INT, "v": Kind.INT, "region": Kind.TEXT, "day": Kind.INT, "code": Kind.INT}
APPLIES = [(rule, case) for rule in RULES for case in cases(rule, "applies")]
IDS = [f"{rule.name} {case.ask!s:.40}" for rule, case in APPLIES]


def people() -> list[Row]:
    """Forty lone people a region, within all bounds and caps; each quantile that is asked for has many people."""
    rng, found = Random(7), list[Row]()
    for region in ("a", "b"):
        for x in [10] * 14 + [30] * 14 + [60] * 12:
            i, v, day = len(found), rng.randint(0, 10), rng.randint(0, 19)
            found.append({"uid": i, "x": x, "v": v, "region": region, "day": day, "code": i % 3})
    return found


ENGINE = Engine.open()
ENGINE.fill(people(), SCHEMA)


def quiet(law: Any) -> Any:
    """A law that is nearly always 0, or sure of its leaf, or shows each group of three."""
    if isinstance(law, ExponentialQuantile | Threshold):
        return replace(law, epsilon=Fraction(10**15 if isinstance(law, ExponentialQuantile) else 100))
    tiny = Fraction(1, 50)
    return DiscreteLaplaceNoise(tiny) if isinstance(law, DiscreteLaplaceNoise) else RoundedGaussianNoise(tiny)


def silenced(query: Query) -> Query:
    """The query without noise to speak of."""
    a = query.allocation
    levels = tuple(replace(level, noises=tuple(map(quiet, level.noises))) for level in a.levels)
    noises, trees = tuple(map(quiet, a.noises)), tuple(map(quiet, a.trees))
    threshold = a.threshold and quiet(a.threshold)
    found = replace(a, noises=noises, trees=trees, levels=levels, threshold=threshold)
    return replace(query, allocation=found)


def answers(plan: Plan) -> dict[str, list[str]]:
    """The rows of each answer on `people`, without noise to speak of."""
    measurements = tuple(map(silenced, plan.measurements))
    outputs = {name: replace(output, query=silenced(output.query)) for name, output in plan.outputs.items()}
    plan = replace(plan, measurements=measurements, outputs=outputs)
    tables = [measure(query, ENGINE.run, SystemEntropy()) for query in measurements]
    shown = {name: Release(plan, _part(tables, output.place), name=name) for name, output in outputs.items()}
    return {name: sorted(map(repr, release.rows)) for name, release in shown.items()}


def refused(after: Plan, before: Plan) -> str | None:
    """By which part of the contract a rule's plan is refused: "noise", "verify" or "meaning"; None where by none."""
    if not is_no_noisier(after, before):
        return "noise"
    (payer,) = after.payers
    try:
        check(claim_of_all(after.measurements, payer.events, payer.guarantee))
    except InternalError:
        return "verify"
    return None if answers(after) == answers(before) else "meaning"


def test_every_rule_has_a_file_of_its_own_and_a_fixture() -> None:
    room = SRC / "discreet" / "plan" / "rules"
    files = {path.stem for path in room.glob("*.py")} - {"__init__", "rule"}
    assert {rule.name for rule in RULES} == files == {path.stem for path in FOLDER.glob("*.json")}
    assert all(cases(rule, "applies") and cases(rule, "not") for rule in RULES)


@pytest.mark.parametrize(("rule", "case"), APPLIES, ids=IDS)
def test_a_rule_makes_no_number_noisier_is_verified_and_keeps_the_meaning(rule: Rule, case: Case) -> None:
    before = case.plan(rule)
    after = rule.apply(before, case.plan_terms)
    assert after is not None and refused(after, before) is None and all(answers(after).values())
    limits, found = case.reference(before), errors(after)
    assert limits.keys() == found.keys()
    assert all(found[number] <= limit * 1.001 for number, limit in limits.items())
    assert found == pytest.approx(case.after) and limits == pytest.approx(case.before)
    assert found != limits or len(after.measurements) < len(before.measurements) or rule.name == "common"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_leaves_alone_what_it_is_not_for(rule: Rule) -> None:
    for case in cases(rule, "not"):
        before = case.plan(rule)
        assert improved(before, case.plan_terms, [rule]) is before, case


def with_noise(factor: Fraction) -> Callable[[Query, PlanTerms], Query]:
    """All noise so much wider, at the events that were paid for."""

    def scaled(law: Any) -> Any:
        of = "epsilon" if isinstance(law, ExponentialQuantile) else law.__slots__[0]
        by = 1 / factor if of == "epsilon" else factor
        return replace(law, **{of: getattr(law, of) * by})

    def change(query: Query, _terms: PlanTerms) -> Query:
        a = query.allocation
        found = replace(a, noises=tuple(map(scaled, a.noises)), trees=tuple(map(scaled, a.trees)))
        return replace(query, allocation=found)

    return change


def with_fewer_events(query: Query, _terms: PlanTerms) -> Query:
    """The last event is not paid for."""
    a = query.allocation
    *kept, (event, n) = a.events.parts
    return replace(query, allocation=replace(a, events=Composed([*kept, (event, n - 1)] if n > 1 else kept)))


def of_fewer_rows(query: Query, terms: PlanTerms) -> Query:
    """A condition that was not asked for."""
    sql = query.question.text.replace(" FROM t", " FROM t WHERE x > 50")
    return decided(read_question(sql, [query.question.table]), terms)


TWINS: dict[str, tuple[Callable[[Query, PlanTerms], Query], str]] = {
    "noisier": (with_noise(Fraction(21, 20)), "noise"),
    "too little noise": (with_noise(Fraction(19, 20)), "verify"),
    "an event is dropped": (with_fewer_events, "verify"),
    "other rows": (of_fewer_rows, "meaning"),
}


@pytest.mark.parametrize("name", TWINS)
def test_broken_rules_are_refused(name: str) -> None:
    change, by = TWINS[name]
    twin = Rule(name=name, of_one=change)
    for rule in (BY_RANK, ONE_PARTITION):
        case = cases(rule, "applies")[0]
        before = case.plan(rule)
        after = twin.apply(before, case.plan_terms)
        assert after is not None and refused(after, before) == by
        assert (improved(before, case.plan_terms, [twin]) is before) == (by == "noise")


def test_a_rule_that_loses_an_answer_is_refused() -> None:
    case = cases(COMMON, "applies")[0]
    before = case.plan(COMMON)
    name = next(iter(before.outputs))
    twin = Rule(
        name="forgetful",
        of_several=lambda asked, terms: measured_apart({n: q for n, q in asked.items() if n != name}, terms),
    )
    after = twin.apply(before, case.plan_terms)
    assert after is not None and refused(after, before) == "noise"


def test_a_batch_that_no_rule_improves_is_verified_too() -> None:
    case = cases(COMMON, "applies")[0]
    before = case.plan(COMMON)
    (payer,) = before.payers
    check(claim_of_all(before.measurements, payer.events, payer.guarantee))
    assert (payer.guarantee.epsilon, [m.epsilon for m in before.measurements]) == (Fraction(1), [Fraction(1, 2)] * 2)
