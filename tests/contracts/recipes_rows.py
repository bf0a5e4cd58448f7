"""Every recipe of today, as a row of the contract: SQL in its forms, private parts of people's rows, open runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np

from discreet.catalog.schema import TableSchema
from discreet.catalog.types import Type
from discreet.engine.cells import measured
from discreet.engine.sql_recipe import Questions
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.binary_tree import BinaryTree
from discreet.mechanisms.exponential import Exponential
from discreet.mechanisms.sparse_vector import SparseVector
from discreet.plan.auto_bounds.asking import plan_in_stages
from discreet.plan.flows.plan import make_flow_plan
from discreet.plan.plan import Plan, alone
from discreet.plan.planner import make_query, plan_batch
from discreet.plan.query import kind_of
from discreet.privacy.unit import PrivacyUnit, Relation
from discreet.query.dialects.prepared import prepare
from discreet.recipes import (
    AboveOrBelow,
    AddedNoise,
    Draw,
    FixedSizeSampling,
    NamedBest,
    OneOfSteps,
    PeopleRows,
    PersonRecipe,
    PoissonSampling,
    Running,
    RunningTotals,
    Sensitivity,
    Wait,
    person_part,
    person_rows,
    plan_recipe,
)
from discreet.synth.census import CensusCheck, CensusRelease
from discreet.synth.hierarchical import AskedHierarchy
from tests.contracts.recipes_row import FACTS, UNIT, RecipeRow

ASKED: Mapping[str, Any] = MappingProxyType({"population": "p", "version": None, "epsilon": 1})
ROW = PrivacyUnit.row()


def question(name: str, sql: str, *, unit: PrivacyUnit | None = None, slow: bool = False, **asked: Any) -> RecipeRow:
    """The row of a question in SQL."""

    def make(tables: Sequence[TableSchema], part: Fraction) -> Plan:
        return alone(make_query(sql, tables, **{**ASKED, **asked}), "p")

    row = RecipeRow(name, lambda: Questions(make), trusted=False, slow=slow)
    return row if unit is None else replace(row, unit=unit)


def staged(name: str, sql: str, *, caps: bool) -> RecipeRow:
    """The row of a question whose caps or bounds a first look chooses."""

    def make(tables: Sequence[TableSchema], part: Fraction) -> Plan:
        given: dict[str, Any] = {**ASKED, "epsilon": Fraction(1), "delta": 0, "noise": None, "truncation": 0}
        plan = plan_in_stages(prepare(sql, "duckdb", tables), tables, chosen="auto" if caps else "values", **given)
        assert plan is not None
        return plan

    return RecipeRow(name, lambda: Questions(make), trusted=False, slow=True)


def batch(name: str, *texts: str) -> RecipeRow:
    """The row of several questions that are asked together."""

    def make(tables: Sequence[TableSchema], part: Fraction) -> Plan:
        return plan_batch({f"q{i}": sql for i, sql in enumerate(texts)}, tables, **ASKED)

    return RecipeRow(name, lambda: Questions(make), trusted=False, slow=True)


PATIENTS, DOCTORS = PrivacyUnit("who", max_rows=2), PrivacyUnit("doctor", max_rows=3)


def flows(name: str, sql: str, *, unit: PrivacyUnit) -> RecipeRow:
    """The row of a question to patients and doctors, of whom units of one are the people."""

    def make(tables: Sequence[TableSchema], part: Fraction) -> Plan:
        return make_flow_plan(
            sql,
            [replace(table, unit=PATIENTS) for table in tables],
            {"t": (PATIENTS, DOCTORS)},
            populations=("patients", "doctors"),
            relations=(tables[0].relation, tables[0].relation),
            version=None,
            epsilons=(Fraction(1), Fraction(2)),
            deltas=(Fraction(0), Fraction(0)),
            kind=kind_of(None),
        )

    other = "doctor" if unit is PATIENTS else "who"
    return RecipeRow(name, lambda: Questions(make), unit=unit, others={other: Type.INT}, trusted=False)


@dataclass(frozen=True)
class Counts(PersonRecipe):
    """Noisy numbers of a verified query, drawn by a recipe of one's own."""

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        sql = "SELECT ward, COUNT(*) AS k, SUM(n) AS s FROM t GROUP BY ward"
        return alone(make_query(sql, tables, **{**ASKED, "epsilon": part}), "p")

    def run(self, plan: Plan) -> Running[Any]:
        table = yield from measured(plan.query, "0 ")
        return [[*key, *cells] for key, cells in zip(table.keys, table.cells, strict=True)]

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["ward", "k", "s"], state


@dataclass(frozen=True)
class Tally(PersonRecipe):
    """Noisy sums of what people hold, clamped: drawn as often as is said, of a sample where there is one."""

    times: int = 1
    apart: bool = False
    sampling: Any = None

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        rows = person_rows("SELECT n, CAST(n > 2 AS INT) AS big FROM t", tables, rows=2)
        found = person_part(
            "tally",
            rows,
            width=2,
            norms=Sensitivity(2, 5),
            apart=self.apart,
            times=self.times,
            law=AddedNoise(RoundedGaussianNoise(Fraction(40))),
            sampling=self.sampling,
        )
        return plan_recipe([found], delta="1e-6")

    def run(self, plan: Plan) -> Running[Any]:
        found = []
        for _ in range(self.times):
            found.append((yield Draw("tally")))
        return found

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        return np.minimum(people.summed(people.matrix), 5)

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["n", "big"], state


@dataclass(frozen=True)
class Moments(PersonRecipe):
    """Sums of products of (1, x): a person's part is two factors."""

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        rows = person_rows("SELECT x FROM t", tables)
        return plan_recipe([person_part("moments", rows, width=4, l2=5 << 20)], epsilon=part, delta="1e-6")

    def run(self, plan: Plan) -> Running[Any]:
        return (yield Draw("moments"))

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        x = np.rint(people.real("x") * 2**10).astype(np.int64)
        row = np.stack([np.full(people.size, 2**10), x], axis=1)
        return row, row

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["sum"], [[value / 2**20] for value in state]


@dataclass(frozen=True)
class Worst(PersonRecipe):
    """Adaptive synthesis in small: the worst of two tables is chosen by scores, and measured, twice."""

    names: tuple[str, ...] = ("n", "m")
    sampling: Any = None

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        rows = person_rows("SELECT n, 5 - n AS m FROM t", tables)
        law = NamedBest(Exponential(epsilon=Fraction(1, 2), sensitivity=2))
        # under replace a person leaves one place of a table for another
        moves = 2 if rows.question.table.relation is Relation.REPLACE else 1
        of: dict[str, Any] = {"kind": "whole", "times": 2, "law": law, "sampling": self.sampling}
        worst = person_part("worst", rows, width=2, norms=Sensitivity(2, moves), **of)
        noise = AddedNoise(DiscreteLaplaceNoise(Fraction(8)))
        return plan_recipe([worst, person_part("table", rows, width=6, norms=Sensitivity(1, 1), times=2, law=noise)])

    def run(self, plan: Plan) -> Running[Any]:
        model = {name: [10] * 6 for name in self.names}
        for _ in range(2):
            worst = self.names[(yield Draw("worst", model))]
            noisy = yield Draw("table", worst)
            model[worst] = [max(-(10**6), min(int(v), 10**6)) for v in noisy]
        return model

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        return np.eye(6, dtype=np.int64)[people.column(args)]

    def whole(self, people: PeopleRows, of: str, args: Any) -> Any:
        found = [np.bincount(people.column(name), minlength=6) - np.array(args[name]) for name in self.names]
        return np.array([int(np.abs(apart).sum()) for apart in found], np.int64)

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["table", "counts"], [[name, str(counts)] for name, counts in state.items()]


@dataclass(frozen=True)
class Steps(PersonRecipe):
    """Noisy sums over time: people count at the step that their n is, in one step of four."""

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        rows = person_rows("SELECT n FROM t", tables)
        law = RunningTotals(BinaryTree(epsilon=1, steps=4, relation=rows.question.table.relation))
        return plan_recipe([person_part("now", rows, width=1, norms=Sensitivity(1, 1), times=5, law=law)])

    def run(self, plan: Plan) -> Running[Any]:
        found = []
        for step in range(5):
            found.append((yield Draw("now", step)))
        return found

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        return (people.column("n") == args).astype(np.int64)[:, None]

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["total"], [[total] for total in state]


@dataclass(frozen=True)
class Online(PersonRecipe):
    """A run that stays open: whether one count after another is large, until two were."""

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        rows = person_rows("SELECT n FROM t", tables)
        most = 2 if rows.question.table.relation is Relation.REPLACE else 1
        law = AboveOrBelow(SparseVector(epsilon=1, threshold=10, cutoff=2, sensitivity=most))
        return plan_recipe([person_part("over", rows, width=1, norms=Sensitivity(1, 1), times=9, law=law)])

    def run(self, plan: Plan) -> Running[Any]:
        said: list[Any] = []
        while True:
            most = yield Wait(said)
            said.append((yield Draw("over", most)))

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        return (people.matrix <= args).astype(np.int64)

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return ["over"], [[over] for over in state]


MANY = ("SELECT COUNT(*) AS k, SUM(x) AS s FROM t", "SELECT ward, COUNT(*) AS k FROM t GROUP BY ward")
POISSON, FIXED = PoissonSampling(Fraction(1, 3)), FixedSizeSampling(100, 5000)
FLOWS = "SELECT ward, COUNT(*) AS k, SUM(x) AS s FROM t GROUP BY ward"


def census(kind: type[CensusRelease] = CensusRelease) -> CensusRelease:
    """A census-style release: three levels with the whole table, a histogram of two attributes."""
    table = TableSchema("t", dict(FACTS_TYPES), FACTS, UNIT, Relation.ADD_REMOVE)
    given: dict[str, Any] = {"levels": ["ward", "n"], "attributes": ["x"], "bins": 2, "units": WARDS}
    made = AskedHierarchy(1, "1e-6", **given).recipe([table])
    return kind(**{f.name: getattr(made, f.name) for f in fields(made)})


def census_of_rows() -> CensusRelease:
    """The same of rows, with their number as it is."""
    return replace(census(), fixed=True, per_person=1)


def census_check() -> CensusCheck:
    """A look at how far some tables are from the data."""
    made = census()
    sizes, cells = made.units.tree.sizes, made.attributes.cells
    return CensusCheck(made, Fraction(1), Fraction(0), "", [np.ones((n, cells), np.int64) for n in sizes])


WARDS = {"ward": ["a", "a", "b"], "n": [0, 1, 1]}
FACTS_TYPES = {"ward": Type.TEXT, "x": Type.REAL, "n": Type.INT}


ROWS = (
    question("sums", "SELECT COUNT(*) AS k, SUM(x) AS s, AVG(n) AS a, COUNT(DISTINCT n) AS d FROM t WHERE n > 0"),
    question("sums of rows", "SELECT COUNT(*) AS k, SUM(x) AS s FROM t", unit=ROW),
    question("groups", "SELECT ward, COUNT(*) AS k, SUM(x) AS s FROM t GROUP BY ward", noise="gaussian", delta="1e-6"),
    question("selected groups", "SELECT code, COUNT(*) AS k, SUM(n) AS s FROM t GROUP BY code", delta="1e-6"),
    question("reports", "SELECT ward, SUM(x) AS s FROM t GROUP BY ward", truncation="0.2"),
    question("totals", "SELECT ward, n, COUNT(*) AS k, SUM(x) AS s FROM t GROUP BY ROLLUP (ward, n)"),
    question("tree", "SELECT ward, MEDIAN(x) AS m, MAX(x) AS b FROM t GROUP BY ward", slow=True),
    question("rank", "SELECT MEDIAN(x) AS m FROM t"),
    staged("chosen caps", "SELECT ward, SUM(v) AS s FROM t GROUP BY ward", caps=True),
    staged("chosen ranges", "SELECT SUM(v) AS s, COUNT(*) AS k FROM t", caps=False),
    batch("batch", *MANY),
    flows("patients of doctors", FLOWS, unit=PATIENTS),
    flows("doctors of patients", FLOWS, unit=DOCTORS),
    RecipeRow("cells", Counts),
    RecipeRow("each", Tally),
    RecipeRow("each apart", lambda: Tally(apart=True)),
    RecipeRow("two factors", Moments),
    RecipeRow("sampled", lambda: Tally(times=3, sampling=POISSON), relations=(Relation.ADD_REMOVE,)),
    RecipeRow("of fixed size", lambda: Tally(times=3, sampling=FIXED), relations=(Relation.REPLACE,)),
    RecipeRow("one of steps", lambda: Tally(times=6, sampling=OneOfSteps(3)), relations=(Relation.ADD_REMOVE,)),
    RecipeRow("census release", census),
    RecipeRow("census check", census_check),
    RecipeRow("census release of all rows", census_of_rows, unit=ROW, relations=(Relation.REPLACE,)),
    RecipeRow("whole", Worst),
    RecipeRow("whole of a sample", lambda: Worst(sampling=POISSON), relations=(Relation.ADD_REMOVE,)),
    RecipeRow("over time", Steps),
    RecipeRow("open run", Online, inputs=(0, 3, 5, 5, 1)),
)
