"""Every recipe holds the contract, and each way of breaking it is rejected by the check that is for it.

`tests/exhaustive/contracts` tries more data sets, newcomers and noisy values, of every recipe under both relations.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from discreet.catalog.schema import TableSchema
from discreet.engine.row_factor import RowPlaces
from discreet.mechanisms.additive import DiscreteLaplaceNoise
from discreet.plan.plan import Plan
from discreet.plan.planner import make_query
from discreet.privacy.event import Composed
from discreet.privacy.unit import Relation
from discreet.recipes import Draw, PeopleRows, Running, Sensitivity
from discreet.synth.census import CensusRelease
from tests.contracts.recipes import CHECKS, SHORT, Effort, Move, RecipeRow, bounds, faults, moves, private_parts
from tests.contracts.recipes_rows import ROWS, Counts, Moments, Tally, Worst, census
from tests.house.test_docs import blocks
from tests.house.tree import ROOT

PAGE = ROOT / "docs" / "extending.md"


def worked_examples() -> dict[str, RecipeRow]:
    """The rows of the worked examples, by what the page calls them."""
    found: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(PAGE.read_text(encoding="utf-8")):
        if "= RecipeRow(" in block.text:
            exec(compile("\n" * block.line + block.text, "docs/extending.md", "exec", dont_inherit=True), found)
    return {name: row for name, row in found.items() if isinstance(row, RecipeRow)}


EXAMPLES = worked_examples()
SOUND = (*ROWS, EXAMPLES["two_way"], EXAMPLES["descent"])


@pytest.mark.exhaustive
@pytest.mark.sampled(11)
@pytest.mark.thinned(6)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("row", SOUND, ids=str)
def test_every_recipe_holds_the_contract(row: RecipeRow, check: Any) -> None:
    assert list(check(row, row.relations[0], SHORT)) == []


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.parametrize("row", [row for row in SOUND if len(row.relations) > 1 and not row.slow], ids=str)
def test_a_person_who_takes_anothers_place_moves_no_draw_by_more_than_was_planned(row: RecipeRow) -> None:
    assert list(bounds(row, Relation.REPLACE, SHORT)) == []


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["sums of rows", "groups", "selected groups", "reports", "totals", "cells"])
def test_what_the_contract_measures_reaches_what_was_planned(name: str) -> None:
    """Norms that were planned any smaller would be seen."""
    row = next(row for row in ROWS if row.name == name)
    most: dict[str, list[int]] = {}
    for seen in moves(row, Relation.ADD_REMOVE):
        assert isinstance(seen, Move)
        most.setdefault(seen.of, []).append(seen.most.l1 - seen.found.l1)
    assert {of: min(short) for of, short in most.items()} == dict.fromkeys(most, 0)


@pytest.mark.parametrize(("name", "check"), [("sampled", "own rows"), ("whole of a sample", "samples")])
def test_a_sample_that_is_not_of_people_is_seen(name: str, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row, take = next(row for row in ROWS if row.name == name), PeopleRows.take
    monkeypatch.setattr(PeopleRows, "take", lambda people, chosen: take(people, chosen[chosen != 4]))
    assert {fault.check for fault in private_parts(row, Relation.ADD_REMOVE, TWIN)} == {check}


# ------------------------------------------------------------------ broken twins: 3 to 10 lines each
class Unclipped(Tally):
    """A person's sums are not clamped: the meter counts 0 for them, and the sum is not what the recipe says."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        return people.summed(people.matrix)


class UnclippedWhole(Worst):
    """Of kind whole nothing but the contract finds it: all rows of a person count, where one was planned for."""

    def whole(self, people: PeopleRows, of: str, args: Any) -> Any:
        return np.array([int(people.column(name).sum()) for name in self.names], np.int64)


class DrawnTwice(Counts):
    """A column is drawn again: the mean of both has less noise than was paid for."""

    def run(self, plan: Plan) -> Running[Any]:
        keys = plan.query.question.keys.all()
        first = yield Draw("0 column 0", tuple(keys))
        second = yield Draw("0 column 0", tuple(keys))
        return [[*key, a + b, 0] for key, a, b in zip(keys, first, second, strict=True)]


class TooSmall(Counts):
    """A query whose plan says that a person moves a column by 1."""

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        plan = super().plan(tables, part)
        return replace(plan, measurements=(replace(plan.query, sensitivities=(Sensitivity(1, 1),) * 2),))


class TooSmallWhole(Worst):
    """A person moves both scores, and the plan says one: of kind whole, nothing else would find it."""

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        plan = super().plan(tables, part)
        parts: Any = plan.parts
        worst = replace(parts[0], norms=Sensitivity(1, parts[0].norms.linf))
        return replace(plan, parts=(worst, *parts[1:]))


class Scaled(Counts):
    """The statement gives twice of what was derived."""

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        plan = super().plan(tables, part)
        assert "least(n, 2)" in plan.query.sql
        return replace(plan, measurements=(replace(plan.query, sql=plan.query.sql.replace("least(n, 2)", "2 * n")),))


class ScaledEach(Tally):
    """A person's part is multiplied after it was clamped."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        return super().each(people, of, args) * 3


class ScaledWhole(Worst):
    """The scores are multiplied after their move was derived."""

    def whole(self, people: PeopleRows, of: str, args: Any) -> Any:
        return super().whole(people, of, args) * 3


class DividedByN(Tally):
    """A part is divided by the number of people, which is private, and so follows from all of them."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        return super().each(people, of, args) // max(people.size, 1)


class DividedByNWhole(Worst):
    """The scores are shares: somebody more moves them by far where there are few people."""

    def whole(self, people: PeopleRows, of: str, args: Any) -> Any:
        return super().whole(people, of, args) * 100 // max(people.size, 1)


class Remembers(Tally):
    """The result is made with what the private part kept aside."""

    seen: ClassVar[list[int]] = []

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        self.seen.append(people.size)
        return super().each(people, of, args)

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["n", "big"], [*state, [self.seen[-1], 0]]


class SteersByIt(Remembers):
    """What is drawn next follows from what the private part kept aside."""

    def run(self, plan: Plan) -> Running[Any]:
        yield Draw("tally")
        return [(yield Draw("tally", self.seen[-1] > 2))]

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["n", "big"], state


class CountsItsCalls(Tally):
    """A part follows from how often the code was called."""

    calls: ClassVar[list[int]] = []

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        self.calls.append(1)
        return np.full((people.size, 2), len(self.calls) % 5, np.int64)


class FirstRowOf(Tally):
    """A part follows from the order in which people stand."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        parts = super().each(people, of, args)
        parts[1:] = 0
        return parts


class RaisesLate(Tally):
    """The private part fails for some people, in a state that honest noise does not lead to."""

    def run(self, plan: Plan) -> Running[Any]:
        first = yield Draw("tally", 0)
        return [(yield Draw("tally", int(first[0] > 2**61)))]

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        if args and people.size and people.matrix.max() > 4:
            raise ValueError("of a person")
        return super().each(people, of, args)


class Forked(Tally):
    """The run goes on in two processes, each with noise of its own."""

    def run(self, plan: Plan) -> Running[Any]:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return (yield from super().run(plan))


class ForkedInside(Tally):
    """The private part forks, so that the same numbers get noise in two processes."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return super().each(people, of, args)


class TakesLogarithms(Tally):
    """The public side fails on a number that noise may give."""

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["n", "big"], [[math.log(n), big] for n, big in state]


class Forgets(Moments):
    """The ledger keeps less than the result is made of."""

    def restore(self, plan: Plan, kept: dict[str, Any]) -> Any:
        return [0] * len(super().restore(plan, kept))


class OfASize(Worst):
    """There are as many scores as people."""

    def whole(self, people: PeopleRows, of: str, args: Any) -> Any:
        return np.zeros(people.size, np.int64)


class CountsTwice(CensusRelease):
    """A row counts in its unit, and in the next one."""

    def each(self, people: PeopleRows, of: str, args: Any) -> RowPlaces:
        own = super().each(people, of, args)
        places = np.concatenate([own.places, (own.places + 1) % own.width], axis=1)
        return RowPlaces(people.starts, places, own.width)


class LeavesOneOut(CensusRelease):
    """A level is measured and not charged."""

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        plan = super().plan(tables, part)
        (payer,) = plan.payers
        events = sum((p.events for p in plan.parts[:-1]), Composed())  # type: ignore[attr-defined]  # they are parts
        return replace(plan, payers=(replace(payer, events=events),))


class KnowsTheRows(CensusRelease):
    """The number of rows is taken for public where people come and go."""

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        plan = super().plan(tables, part)
        query = make_query("SELECT COUNT(*) AS n FROM t", tables, population="", version=None, epsilon=1)
        narrow = (DiscreteLaplaceNoise(Fraction(1, 1024)),)
        allocation = replace(query.allocation, noises=narrow, events=Composed())
        query = replace(query, sensitivities=(Sensitivity(0, 0),), allocation=allocation)
        return replace(plan, measurements=(query,))


TWINS: tuple[tuple[type[Any] | Callable[[], Any], set[str]], ...] = (
    (Unclipped, {"clipped"}),
    (UnclippedWhole, {"bounds"}),
    (DrawnTwice, {"paid for"}),
    (TooSmall, {"verified"}),
    (TooSmallWhole, {"bounds"}),
    (Scaled, {"verified"}),
    (ScaledEach, {"clipped"}),
    (ScaledWhole, {"bounds"}),
    (DividedByN, {"own rows"}),
    (DividedByNWhole, {"bounds"}),
    (Remembers, {"transcript"}),
    (lambda: SteersByIt(times=2), {"transcript"}),
    (CountsItsCalls, {"repeats", "own rows", "bounds"}),
    (FirstRowOf, {"own rows"}),
    (lambda: RaisesLate(times=2), {"raises"}),
    (Forked, {"forked"}),
    (ForkedInside, {"forked"}),
    (TakesLogarithms, {"hostile noise"}),
    (Forgets, {"replay"}),
    (OfASize, {"raises"}),
    (lambda: census(CountsTwice), {"clipped"}),
    (lambda: census(LeavesOneOut), {"verified"}),
    (lambda: census(KnowsTheRows), {"verified"}),
    (EXAMPLES["counts_years"].make, {"clipped"}),
    (EXAMPLES["divides_by_people"].make, {"own rows"}),
)


TWIN = Effort(60, 3, far=2)


@pytest.mark.exhaustive
@pytest.mark.sampled(12)
@pytest.mark.parametrize(("make", "checks"), TWINS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_broken_twin_is_rejected_for_what_is_broken(make: Callable[[], Any], checks: set[str]) -> None:
    base = next((row for row in EXAMPLES.values() if row.make is make), RecipeRow("a broken twin", make))
    row = replace(base, relations=(Relation.ADD_REMOVE,))
    found = faults(row, TWIN)
    assert {fault.check for fault in found} == checks
    assert not any("was given noisy" in fault.saw for fault in found)  # of two processes the meter serves one
