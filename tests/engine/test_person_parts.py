"""Private parts of people's rows: charged once, held to their norms, replayed, certified."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet as dp
from discreet.engine.person_parts import PartUse, PeopleRows, people_of, plain, total_of
from discreet.engine.row_factor import RowPlaces
from discreet.engine.session import Session
from discreet.errors import BudgetExceeded, InternalError, InvalidParameter
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.binary_tree import BinaryTree
from discreet.mechanisms.exponential import Exponential
from discreet.mechanisms.sparse_vector import SparseVector
from discreet.recipes import (
    AboveOrBelow,
    AddedNoise,
    Draw,
    FixedSizeSampling,
    NamedBest,
    OneOfSteps,
    PersonPart,
    PersonRecipe,
    Plan,
    PoissonSampling,
    Running,
    RunningTotals,
    Sensitivity,
    TableSchema,
    person_part,
    person_rows,
    plan_recipe,
    run_on_arrays,
)
from discreet.verify.certificate.checker import check, words

PEOPLE = 400
FRAME = pd.DataFrame(
    {
        "who": np.repeat(np.arange(PEOPLE), 3),
        "x": np.tile([1.5, -0.25, np.nan], PEOPLE),
        "n": np.tile([1, 2, 9], PEOPLE),
    }
)
COLUMNS = {"x": dp.Range(-2, 2), "n": dp.Range(0, 5, integer=True)}


def session(unit: dp.PrivacyUnit | None = None, **given: Any) -> Session:
    return dp.connect(
        {"t": FRAME},
        unit=unit or dp.PrivacyUnit("who", max_groups=2, max_rows=2),
        columns=COLUMNS,
        budget=dp.Budget(5000, "1e-4", per_query=5000),
        population="p",
        ledger=":memory:",
        **given,
    )


NARROW = AddedNoise(DiscreteLaplaceNoise(Fraction(1, 50)))
BOTH = Sensitivity(2, 3)


@dataclass(frozen=True)
class Drawn(PersonRecipe):
    """Draws one private part as often as is asked, and shows what came."""

    law: Any = NARROW
    norms: Sensitivity = BOTH
    kind: str = "each"
    apart: bool = False
    times: int = 1
    sampling: Any = None
    rows: int = 2
    draws: int | None = None
    width: int = 2
    sql: str = "SELECT n, n * 2 AS twice FROM t"

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        rows = person_rows(self.sql, tables, rows=self.rows)
        found = person_part(
            "numbers",
            rows,
            width=self.width,
            norms=self.norms,
            kind=self.kind,
            apart=self.apart,
            times=self.times,
            law=self.law,
            sampling=self.sampling,
        )
        return plan_recipe([found], delta="1e-6", parameters={"draws": self.draws})

    def run(self, plan: Plan) -> Running[Any]:
        found = []
        for i in range(self.draws or self.times):
            found.append((yield Draw("numbers", {"step": i})))
        return found

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["drawn"], [[x] for x in state]

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        return np.ones((people.size, self.width), np.int64)

    def whole(self, people: PeopleRows, of: str, args: Any) -> Any:
        return np.full(self.width, people.size)


def first(recipe: PersonRecipe, **given: Any) -> Any:
    with session(**given) as s:
        return s.perform(recipe, trusted_code=True).rows[0][0]


def test_a_sum_over_people_is_drawn_charged_and_replayed() -> None:
    with session() as s:
        found = s.perform(Drawn(), trusted_code=True)
        assert found.rows == [([PEOPLE, PEOPLE],)] and not found.stored  # noise of scale 1/50: none
        spent = s.spent.epsilon("1e-6")
        assert spent == pytest.approx(2 * 3 * 50)
        again = s.perform(Drawn(), trusted_code=True)
        assert again.rows == found.rows and again.stored
        assert s.spent.epsilon("1e-6") == spent
        assert s.history()[-2].note["sql"] == f"{__name__}.Drawn"


def test_noise_that_is_chosen_costs_what_is_asked() -> None:
    @dataclass(frozen=True)
    class Chosen(Drawn):
        """With two parts of one budget."""

        def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
            rows = person_rows(self.sql, tables, rows=2)
            of = person_part("numbers", rows, width=2, l2=5, times=4)
            other = person_part("other", rows, width=2, norms=Sensitivity(1, 3), share=3)
            return plan_recipe([of, other], epsilon=2 * part, delta="1e-6")

    with session() as s:
        s.perform(Chosen(times=4), trusted_code=True)
        assert 1.99 < s.spent.epsilon("1e-6") <= 2
        plan = Chosen().plan(s._desk.tables)
    noises = [p.law.noise for p in plan.parts]  # type: ignore[union-attr]
    assert [type(z) for z in noises] == [RoundedGaussianNoise] * 2
    # μ² = Σ times·l2²/σ², a quarter of it for the first
    each = [4 * 25 / noises[0].sigma ** 2, 9 / noises[1].sigma ** 2]
    assert float(each[1] / each[0]) == pytest.approx(3, rel=1e-6)


def test_a_part_beyond_the_norms_counts_nothing() -> None:
    class Hostile(Drawn):
        """Of 400 people the first goes beyond each norm in turn."""

        def each(self, people: PeopleRows, of: str, args: Any) -> Any:
            parts = np.ones((people.size, 4), np.int64)
            parts[0] = [[9, 0, 0, 0], [3, 3, 3, 0], [3, 3, 0, 0], [-(2**63), 2**62, 2**63 - 1, 1]][args["step"]]
            return parts

    norms = Sensitivity(4, 3, l1=5, l2_squared=10)
    with session() as s:
        found = s.perform(Hostile(norms=norms, width=4, times=4), trusted_code=True)
    assert [row[0] for row in found.rows] == [[PEOPLE - 1] * 4] * 4


@pytest.mark.parametrize("a,b", [(3, 2), (2**40, 1), (1, 7), (-(2**63), -(2**63))])
def test_factors_are_held_to_the_norms_of_their_product(a: int, b: int) -> None:
    class Factors(Drawn):
        """Each person's part is a product of two rows."""

        def each(self, people: PeopleRows, of: str, args: Any) -> Any:
            left, right = np.ones((people.size, 2), np.int64), np.ones((people.size, 2), np.int64)
            left[0, 0], right[0, 1] = a, b
            return left, right

    norms = Sensitivity(4, 6, l1=12, l2_squared=50)
    inside = (a, b) == (3, 2)  # (3, 1)·(1, 2): 3 + 6 + 1 + 2 = 12 and 9 + 36 + 1 + 4 = 50
    others = PEOPLE - 1
    assert first(Factors(norms=norms, width=4)) == (
        [others + 3, others + 6, others + 1, others + 2] if inside else [others] * 4
    )


def test_sums_are_exact_where_floats_are_not() -> None:
    with session() as s:
        read = person_rows("SELECT n FROM t", s._desk.tables)
    part = person_part("sum", read, width=1, norms=Sensitivity(1, 2**31 - 1))
    values = np.full(((1 << 22) + 3, 1), 2**31 - 1, np.int64)
    assert total_of(part, values).tolist() == [(2**31 - 1) * ((1 << 22) + 3)]
    assert total_of(part, (values, np.ones_like(values))).tolist() == [(2**31 - 1) * ((1 << 22) + 3)]
    with pytest.raises(InvalidParameter, match="64 bits"):
        person_part("sum", read, width=1, norms=Sensitivity(1, 2**31))


class Failing(Drawn):
    """Fails on one person's rows, with words of them."""

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        if people.size == 1 and int(people.matrix[0, 0]) == 2:
            raise InvalidParameter(f"a secret: {people.matrix}")
        return np.ones((people.size, 2), np.int64)


def test_where_people_are_apart_a_person_whose_code_fails_counts_nothing() -> None:
    with session() as s:
        s._desk.backend.rows("SELECT 1", {})
        found = s.perform(Failing(apart=True, rows=1), trusted_code=True)
    own = found.rows[0][0]
    assert own[0] == own[1] and 0 <= own[0] <= PEOPLE


@pytest.mark.parametrize("kind", ["each", "whole"])
@pytest.mark.parametrize(
    "error", [ValueError, InvalidParameter, SystemExit, StopIteration, GeneratorExit, BaseException]
)
def test_what_fails_says_nothing_of_the_data(kind: str, error: type[BaseException]) -> None:
    class Tells(Drawn):
        """Fails with words of the data."""

        def each(self, people: PeopleRows, of: str, args: Any) -> Any:
            raise error(f"a secret: {people.matrix}")

        whole = each

    with session() as s:
        with pytest.raises(InternalError, match="code for people's rows failed") as raised:
            s.perform(Tells(kind=kind), trusted_code=True)
        assert s.spent.epsilon("1e-6") > 0
    assert raised.value.__cause__ is None and raised.value.__context__ is None


@pytest.mark.parametrize(
    "made",
    [
        np.ones((PEOPLE, 2)),
        np.ones((PEOPLE - 1, 2), np.int64),
        [[1, 1]] * PEOPLE,
        np.ones((PEOPLE, 2), np.int32),
        (np.ones((PEOPLE, 2), np.int64), np.ones((PEOPLE, 2), np.int64)),
        (np.ones(PEOPLE, np.int64), np.ones((PEOPLE, 2), np.int64)),
        (type("Shaped", (), {"shape": property(lambda self: 1 / 0)})(),) * 2,
        None,
    ],
)
def test_another_shape_is_refused(made: Any) -> None:
    class Other(Drawn):
        """Gives something else than a row of integers a person."""

        def each(self, people: PeopleRows, of: str, args: Any) -> Any:
            return made

    with session() as s, pytest.raises(InternalError, match="planned shape"):
        s.perform(Other(), trusted_code=True)


def test_places_are_histograms_and_nothing_else() -> None:
    class Counted(Drawn):
        """Each row counts at one place."""

        def each(self, people: PeopleRows, of: str, args: Any) -> Any:
            return RowPlaces(people.starts, np.zeros((len(people.matrix), 1), np.int64), 2)

    norms = Sensitivity(1, 2)
    assert first(Counted(norms=norms, kind="places"))[1] == 0
    with session() as s, pytest.raises(InternalError, match="planned shape"):
        s.perform(Drawn(norms=norms, kind="places"), trusted_code=True)
    with session() as s, pytest.raises(InvalidParameter, match="apart goes with"):
        s.perform(Counted(norms=norms, kind="places", apart=True), trusted_code=True)


def test_a_part_is_drawn_as_often_as_it_was_paid_for() -> None:
    with session() as s:
        assert len(s.perform(Drawn(times=3), trusted_code=True).rows) == 3
        with pytest.raises(InternalError, match="drawn already"):
            s.perform(Drawn(times=3, draws=4), trusted_code=True)


def test_rows_are_the_persons_own_in_one_order() -> None:
    seen: list[Any] = []

    class Looks(Drawn):
        """Keeps what it was handed, as no recipe may."""

        def each(self, people: PeopleRows, of: str, args: Any) -> Any:
            seen.append((people.matrix.copy(), people.person.copy(), people.real("x"), people.summed(people.matrix)))
            assert not people.matrix.flags.writeable
            return np.ones((people.size, 2), np.int64)

    first(Looks(sql="SELECT x, n FROM t WHERE n < 5", rows=5))
    matrix, person, x, summed = seen[0]
    step = Fraction(2, 1 << 30)
    assert person.tolist() == np.repeat(np.arange(PEOPLE), 2).tolist()
    assert matrix[:2].tolist() == [[int(Fraction(-1, 4) / step), 2], [int(Fraction(3, 2) / step), 1]]
    assert x[:2].tolist() == [-0.25, 1.5]
    assert summed[7].tolist() == [int(Fraction(5, 4) / step), 3]


def test_a_null_is_the_number_nearest_to_nothing_and_values_are_clamped() -> None:
    seen: list[Any] = []

    class Looks(Drawn):
        """Keeps what it was handed, as no recipe may."""

        def each(self, people: PeopleRows, of: str, args: Any) -> Any:
            seen.append(people.matrix.copy())
            return np.ones((people.size, 2), np.int64)

    first(Looks(sql="SELECT x, n + 1 AS m FROM t WHERE n > 5", rows=1))
    assert seen[0][0].tolist() == [0, 6]  # x is NULL; n = 9 is clamped to 5


def test_each_row_may_be_a_unit() -> None:
    assert first(Drawn(), unit=dp.PrivacyUnit.row()) == [3 * PEOPLE] * 2


@pytest.mark.parametrize("sampling", [PoissonSampling(Fraction(1, 3)), OneOfSteps(4), FixedSizeSampling(100, PEOPLE)])
def test_samples_are_of_people(sampling: Any) -> None:
    unit = dp.PrivacyUnit("who", max_groups=2, max_rows=2)
    relation = sampling.relation.value
    law = AddedNoise(RoundedGaussianNoise(Fraction(1, 4)))
    with session(unit, relation=relation) as s:
        rows = s.perform(Drawn(law=law, times=4, sampling=sampling), trusted_code=True).rows
    sizes = [n for ((n, _),) in rows]
    if isinstance(sampling, OneOfSteps):
        assert abs(sum(sizes) - PEOPLE) <= 6  # everybody once, and the noise of four draws
    elif isinstance(sampling, FixedSizeSampling):
        assert all(abs(n - 100) <= 3 for n in sizes)
    else:
        assert all(abs(n - PEOPLE / 3) < 5 * math.sqrt(PEOPLE * 2 / 9) for n in sizes)


def test_a_sample_is_refused_for_another_relation_and_for_shared_noise() -> None:
    gaussian = AddedNoise(RoundedGaussianNoise(Fraction(100)))
    tree = RunningTotals(BinaryTree(epsilon=1, steps=4, sensitivity=3))
    for recipe, word in (
        (Drawn(law=gaussian, sampling=FixedSizeSampling(10, PEOPLE)), "replace"),
        (Drawn(law=tree, width=1, norms=Sensitivity(1, 3), sampling=PoissonSampling(Fraction(1, 2))), "shares noise"),
        (Drawn(sampling=PoissonSampling(Fraction(1, 2))), "one use"),
        (Drawn(law=gaussian, times=3, sampling=OneOfSteps(2)), "whole passes"),
    ):
        with session() as s, pytest.raises(InvalidParameter, match=word):
            s.perform(recipe, trusted_code=True)


def test_a_sparse_vector_is_charged_once_and_ends_as_a_result() -> None:
    law = AboveOrBelow(SparseVector(epsilon=100, threshold=100, cutoff=2))

    class Asks(Drawn):
        """Numbers of people below and above the threshold."""

        def each(self, people: PeopleRows, of: str, args: Any) -> Any:
            return np.full((people.size, 1), int(args["step"] % 2))

    recipe = Asks(law=law, width=1, norms=Sensitivity(1, 1), times=10**6, draws=6)
    with session() as s:
        rows = s.perform(recipe, trusted_code=True).rows
        assert [x for (x,) in rows] == [False, True, False, True, None, None]
        assert s.spent.epsilon("1e-6") == pytest.approx(100)
        with pytest.raises(BudgetExceeded):
            s.perform(replace(recipe, law=AboveOrBelow(SparseVector(epsilon=5000, threshold=1))), trusted_code=True)


def test_a_person_counts_in_so_many_steps_of_a_tree() -> None:
    law = RunningTotals(BinaryTree(epsilon=40, steps=4, contributions=2))
    with session() as s:
        rows = s.perform(Drawn(law=law, width=1, norms=Sensitivity(1, 1), times=5), trusted_code=True).rows
        assert s.spent.epsilon("1e-6") == pytest.approx(40)
    sums = [x for (x,) in rows]
    assert sums[4] is None
    assert [round(x / PEOPLE) for x in sums[:4]] == [1, 2, 2, 2]


def test_steps_are_capped_of_factors_too_and_not_of_a_whole() -> None:
    class Factors(Drawn):
        """The same part of each person as a product."""

        def each(self, people: PeopleRows, of: str, args: Any) -> Any:
            return np.ones((people.size, 1), np.int64), np.ones((people.size, 1), np.int64)

    law = RunningTotals(BinaryTree(epsilon=40, steps=4, contributions=2))
    with session() as s:
        given: dict[str, Any] = {"law": law, "width": 1, "norms": Sensitivity(1, 1), "times": 4}
        for recipe, sums in ((Factors(**given), [1, 2, 2, 2]), (Drawn(kind="whole", **given), [1, 2, 3, 4])):
            rows = s.perform(recipe, trusted_code=True).rows
            assert [round(x / PEOPLE) for (x,) in rows] == sums


def test_another_attribute_of_a_recipe_is_another_question() -> None:
    @dataclass(frozen=True)
    class Scaled(Drawn):
        """With a number that only its private code reads."""

        factor: int = 1

        def each(self, people: PeopleRows, of: str, args: Any) -> Any:
            return np.full((people.size, 2), self.factor)

    with session() as s:
        rows = [s.perform(Scaled(factor=f), trusted_code=True).rows[0][0] for f in (1, 2)]
    assert rows == [[PEOPLE] * 2, [2 * PEOPLE] * 2]


def test_from_one_person_alone_nobody_else_is_reached() -> None:
    with session() as s:
        read = person_rows("SELECT n FROM t", s._desk.tables, rows=2)
    one = people_of(read, [np.arange(5), np.arange(5)]).one(0)
    assert one.matrix.base is None and one.person.base is None


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, ValueError])
def test_a_person_for_whom_the_code_ends_the_program_counts_nothing(error: type[BaseException]) -> None:
    class Ends(Drawn):
        """Ends the program for some people."""

        def each(self, people: PeopleRows, of: str, args: Any) -> Any:
            if people.matrix[0, 0] == 1:
                raise error(f"a secret: {people.matrix}")
            return np.ones((1, 2), np.int64)

    own = first(Ends(apart=True, rows=1))
    assert own[0] == own[1] and 0 < own[0] < PEOPLE


@pytest.mark.filterwarnings("error")
def test_no_warning_tells_of_the_data() -> None:
    class Warns(Drawn):
        """Divides by a private zero."""

        def prepare(self, people: PeopleRows) -> Any:
            return np.ones(1) / np.zeros(1)

        def each(self, people: PeopleRows, of: str, args: Any) -> Any:
            assert np.isinf(np.ones(1) / np.zeros(1)) and np.isinf(people.prepared)
            return np.ones((people.size, 2), np.int64)

    assert first(Warns()) == [PEOPLE, PEOPLE]


def test_one_text_under_two_names_is_read_by_either() -> None:
    class Two(Drawn):
        """The same column twice."""

        def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
            rows = {name: person_rows(f"SELECT n AS {name} FROM t", tables) for name in "ab"}
            norms = Sensitivity(1, 5)
            return plan_recipe(
                [person_part(n, r, width=1, norms=norms, law=NARROW) for n, r in rows.items()], delta="1e-6"
            )

        def run(self, plan: Plan) -> Running[Any]:
            one = yield Draw("a")
            other = yield Draw("b")
            return [one, other]

        def each(self, people: PeopleRows, of: str, args: Any) -> Any:
            return people.column(of)[people.starts[:-1]][:, None]

    with session() as s:
        ((a,), (b,)) = s.perform(Two(), trusted_code=True).rows
        assert a == b
        with pytest.raises(InvalidParameter, match="plain values"):
            plan_recipe(Two().plan(s._desk.tables).parts, delta="1e-6", parameters={"x": object()})  # type: ignore[arg-type]  # as they stand


def test_the_best_of_scores_is_named() -> None:
    class Best(Drawn):
        """The scores of three candidates."""

        def whole(self, people: PeopleRows, of: str, args: Any) -> Any:
            return np.array([0, people.size, 5])

    law = NamedBest(Exponential(epsilon=10))
    assert first(Best(kind="whole", law=law, width=3, norms=Sensitivity(3, 1))) == 1
    with session() as s, pytest.raises(InvalidParameter, match="selection is for"):
        s.perform(Best(kind="whole", law=law, width=3, norms=Sensitivity(3, 2)), trusted_code=True)


def forged(slip: Any) -> Drawn:
    @dataclass(frozen=True)
    class Forged(Drawn):
        """The same with another plan."""

        def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
            plan = super().plan(tables, part)
            return slip(plan)  # type: ignore[no-any-return]

    return Forged()


def a_part(plan: Plan, **given: Any) -> Plan:
    (part,) = plan.parts
    assert isinstance(part, PersonPart)
    return replace(plan, parts=(replace(part, **given),))


class Cheap(DiscreteLaplaceNoise):
    """Noise that says it costs nothing."""

    def event(self, sensitivity: Sensitivity) -> Any:
        return super().event(sensitivity) * 0


@pytest.mark.parametrize(
    "slip",
    [
        lambda plan: a_part(plan, times=2),
        lambda plan: a_part(plan, norms=Sensitivity(2, 2**32, l1=2**33, l2_squared=2**64)),
        lambda plan: a_part(plan, norms=Sensitivity(2, 4)),
        lambda plan: a_part(plan, law=AddedNoise(DiscreteLaplaceNoise(Fraction(1, 100)))),
        lambda plan: a_part(plan, law=AddedNoise(Cheap(Fraction(1, 50)))),
        lambda plan: replace(plan, payers=(replace(plan.payers[0], guarantee=dp.Budget(1)),)),
        lambda plan: replace(plan, parts=plan.parts * 2),
        lambda plan: replace(plan, parts=()),
    ],
)
def test_a_plan_that_lies_is_refused_before_the_charge(slip: Any) -> None:
    with session() as s:
        with pytest.raises((InternalError, InvalidParameter)):
            s.perform(forged(slip), trusted_code=True)
        assert s.history() == []


def test_the_certificate_says_how_a_part_is_bounded() -> None:
    with session() as s:
        found = s.perform(Drawn(), trusted_code=True)
        document = json.loads(json.dumps(found.certificate()))
        verdict = check(document, s._ledger.export())
        assert verdict.broken is None, verdict.reason
        assert "counts 0, which is checked in integers" in document["reasons"][0]
        promised = "this is the recipe's promise, which is not checked here"
        assert [promised in line for line in words(verdict)].count(True) == 1  # its code sees everybody at once
        whole = json.loads(json.dumps(s.perform(Drawn(kind="whole"), trusted_code=True).certificate()))
        assert "nothing here proves it" in whole["reasons"][0]
        assert promised in "".join(words(check(whole)))
        for change in ({"times": 2}, {"width": 1}, {"apart": True}, {"kind": "whole"}, {"rows": 1}):
            other = json.loads(json.dumps(document))
            other["claim"]["parts"][0] |= change
            assert check(other).broken is not None


def test_people_with_budgets_of_their_own_pay_the_worst_case_and_are_left_out() -> None:
    with session(per_person=dp.Budget(400, "1e-5", per_query=400)) as s:
        assert s.perform(Drawn(), trusted_code=True).rows == [([PEOPLE, PEOPLE],)]
        left = s.perform(Drawn(sql="SELECT n, 1 AS one FROM t"), trusted_code=True)
        assert left.rows == [([0, 0],)]  # 300 of 400 were spent, and this costs 300 again


def test_the_same_loop_runs_on_arrays_without_a_ledger() -> None:
    class Sums(Drawn):
        """The sums of each person's x and n, in their steps."""

        def each(self, people: PeopleRows, of: str, args: Any) -> Any:
            return people.summed(people.matrix)

    recipe = Sums(sql="SELECT x, n FROM t", norms=Sensitivity(2, 2**30))
    with session() as s:
        plan = recipe.plan(s._desk.tables)
    columns = {"x": FRAME["x"].to_numpy(), "n": FRAME["n"].to_numpy()}
    (here,) = run_on_arrays(recipe, plan, FRAME["who"].to_numpy(), columns)
    step = Fraction(2, 1 << 30)
    # of each three rows two are kept, the first by their values: −0.25 and nothing, 2 and 9, which is clamped
    assert here.tolist() == [int(Fraction(-PEOPLE, 4) / step), PEOPLE * (2 + 5)]
    for wrong in ({"x": columns["x"]}, {**columns, "n": columns["n"][:-1]}):
        with pytest.raises(InvalidParameter, match="arrays"):
            run_on_arrays(recipe, plan, FRAME["who"].to_numpy(), wrong)


def test_arguments_are_copied_and_plain() -> None:
    given: dict[str, Any] = {"w": np.ones(3), "k": [1, (2, "x")]}
    copied = plain(given)
    given["w"][0] = 5
    assert copied["w"].tolist() == [1, 1, 1] and not copied["w"].flags.writeable
    for bad in (object(), {"a": {1, 2}}, np.array([object()]), Fraction(1, 2)):
        with pytest.raises(InternalError, match="plain values"):
            plain(bad)


def test_people_are_told_apart_by_their_number_and_not_by_its_size() -> None:
    with session() as s:
        read = person_rows("SELECT n FROM t", s._desk.tables, rows=2)
    people = people_of(read, [np.array([9, 2, 9]), np.array([4, 1, 3])])
    assert (people.size, people.person.tolist(), people.matrix.ravel().tolist()) == (2, [0, 1, 1], [1, 3, 4])
    assert people.take(np.array([1])).matrix.ravel().tolist() == [3, 4]
    assert people.one(0).matrix.tolist() == [[1]]
    assert PartUse.__slots__ is not None
