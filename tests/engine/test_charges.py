"""Every kind of query and recipe in every kind of account: what it is charged, or why it is refused.

A charge is what the draws cost, and is there before a row is read; a refusal comes before any charge, and names both
sides. `docs/charges.md` says which it is, and is read here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, takewhile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model

import discreet as dp
from discreet.accounting.filter import ORDERS
from discreet.backends.duckdb import DuckDB
from discreet.backends.person_filter import PersonFilter
from discreet.engine.cells import measured
from discreet.engine.session import Session
from discreet.errors import DiscreetError, InternalError, InvalidParameter
from discreet.learn import BoostedTreesRegressor, KMeans, LinearRegression, SampleAggregate
from discreet.ledger.account import Account
from discreet.ledger.entry import Charged, PeopleCharged
from discreet.ledger.ledger import Ledger
from discreet.ledger.people_table import CAPACITY
from discreet.mechanisms.additive import DiscreteLaplaceNoise, RoundedGaussianNoise
from discreet.mechanisms.binary_tree import BinaryTree
from discreet.mechanisms.exponential import Exponential
from discreet.mechanisms.sparse_vector import SparseVector
from discreet.plan.plan import alone
from discreet.plan.planner import make_query
from discreet.recipes import (
    AboveOrBelow,
    AddedNoise,
    Draw,
    FixedSizeSampling,
    NamedBest,
    OneOfSteps,
    PeopleRows,
    PersonRecipe,
    Plan,
    PoissonSampling,
    Running,
    RunningTotals,
    Sensitivity,
    TableSchema,
    Wait,
    person_part,
    person_rows,
    plan_recipe,
)
from discreet.spending import spending_of
from discreet.verify.certificate.checker import check
from tests.engine.prices import (
    Use,
    bounded_range,
    fixed_size_epsilon,
    gaussian,
    gaussian_delta,
    gaussian_mu,
    laplace,
    least,
    of_rho,
    responses,
    sampled,
    sampled_deltas,
    two_steps_deltas,
)
from tests.house.tree import ROOT

D = 1e-6
DELTA = "1e-6"
ROWS = [2] * 4 + [1] * 8
"""How many rows each person has."""
WHO = np.repeat(np.arange(len(ROWS)), ROWS)
N = np.arange(len(WHO)) % 10
FRAME = pd.DataFrame({"who": WHO, "doctor": WHO % 3, "n": N, "w": N, "z": N, "g": np.where(WHO % 2, "a", "b")})


# what is asked


@dataclass(frozen=True)
class Part(PersonRecipe):
    """Draws one private part, and waits first where it stays open."""

    law: Any
    kind: str = "each"
    times: int = 1
    sampling: Any = None
    delta: str = "0"
    waits: bool = False

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        rows = person_rows("SELECT n FROM t", tables, rows=2)
        given: dict[str, Any] = {"kind": self.kind, "times": self.times, "law": self.law, "sampling": self.sampling}
        return plan_recipe([person_part("p", rows, width=1, norms=Sensitivity(1, 1), **given)], delta=self.delta)

    def run(self, plan: Plan) -> Running[Any]:
        if self.waits:
            yield Wait()
        for _ in range(self.times):
            yield Draw("p", 0)
        return []

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        return [], []

    def each(self, people: PeopleRows, of: str, args: Any) -> Any:
        return np.ones((people.size, 1), np.int64)

    def whole(self, people: PeopleRows, of: str, args: Any) -> Any:
        return np.zeros(1, np.int64)


@dataclass(frozen=True)
class OfQuery:
    """A recipe of one's own that draws of a query."""

    waits: bool = False

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        return alone(make_query(COUNT, tables, population="p", version=None, epsilon=part), "p")

    def run(self, plan: Plan) -> Running[Any]:
        if self.waits:
            yield Wait()
        return (yield from measured(plan.query, "0 "))

    def settled(self, plan: Plan, state: Any) -> Plan:
        return plan

    def keep(self, state: Any) -> dict[str, Any]:
        return {}

    def restore(self, plan: Plan, kept: dict[str, Any]) -> Any:
        return None

    def build(self, plan: Plan, state: Any, receipt: Any) -> None:
        return None

    def answers(self, plan: Plan, state: Any, result: Any) -> Mapping[str, dict[str, Any]]:
        return {}


COUNT = "SELECT COUNT(*) AS n FROM t"
LAPLACE = AddedNoise(DiscreteLaplaceNoise(Fraction(4)))
GAUSSIAN = AddedNoise(RoundedGaussianNoise(Fraction(4)))
SPARSE = AboveOrBelow(SparseVector(epsilon=1, threshold=3))
BEST = NamedBest(Exponential(epsilon=1, sensitivity=1))
POISSON, FIXED, STEPS = PoissonSampling.at("0.25"), FixedSizeSampling(3, 20), OneOfSteps(2)

Ask = Callable[[Session], object]


def sql(text: str, **given: Any) -> Ask:
    return lambda s: s.sql(text, epsilon=1, **given)


def perform(*given: Any, **more: Any) -> Ask:
    return lambda s: s.perform(Part(*given, **more), trusted_code=True)


def opens(law: Any, kind: str = "each", **more: Any) -> Ask:
    recipe = Part(law, kind, **more | {"waits": True})

    def ask(s: Session) -> object:
        with s.open(recipe, trusted_code=True) as run:
            return run.ask()

    return ask


def opens_query(s: Session) -> object:
    with s.open(OfQuery(waits=True), trusted_code=True) as run:
        return run.ask()


def totals(s: Session) -> object:
    relation = next(iter(s.accounts.values())).relation
    tree = BinaryTree(epsilon=1, steps=4, relation=relation)
    return s.perform(Part(RunningTotals(tree), times=4), trusted_code=True)


def fit(s: Session) -> object:
    relation = next(iter(s.accounts.values())).relation.value
    model = LinearRegression(epsilon=1, delta=DELTA, rows=20, relation=relation)
    return s.fit(model, features=["n"], target="w")


def trees(s: Session) -> object:
    relation = next(iter(s.accounts.values())).relation.value
    model = BoostedTreesRegressor(epsilon=1, delta=DELTA, rows=20, relation=relation)
    return s.fit(model, features=["n"], target="w")


def clusters(s: Session) -> object:
    relation = next(iter(s.accounts.values())).relation.value
    return s.fit(KMeans(2, epsilon=1, delta=0, relation=relation), features=["n"])


def objective(s: Session) -> object:
    relation = next(iter(s.accounts.values())).relation.value
    given: dict[str, Any] = {"loss": "huber", "solver": "objective", "relation": relation}
    return s.fit(LinearRegression(epsilon=1, delta=0, **given), features=["n"], target="w")


def blocks(s: Session) -> object:
    relation = next(iter(s.accounts.values())).relation.value
    model = SampleAggregate(PLAIN, blocks=3, epsilon=1, weights=(-9, 9), relation=relation)
    return s.fit(model, features=["n"], target="w", trusted_code=True)


def chooses(s: Session) -> object:
    relation = next(iter(s.accounts.values())).relation.value
    models = [LinearRegression(rows=20, relation=relation, solver=solver) for solver in ("gradient", "gram")]
    return s.choose(models, features=["n"], target="w", epsilon=1, delta=DELTA, runs=1)


PLAIN = linear_model.LinearRegression().fit([[1.0], [2.0]], [1, 2])
MODEL = LinearRegression(epsilon=1, delta=1e-6, bounds=(0, 9), target=(0, 9)).fit([[1.0], [2.0]], [1, 2])


def evaluates(s: Session) -> object:
    return s.evaluate(MODEL, features=["n"], target="w", epsilon=1)


def evaluates_other(s: Session) -> object:
    return s.evaluate(PLAIN, features=["n"], target="w", epsilon=1, trusted_code=True)


def synthesizes(s: Session) -> object:
    return s.synthesize(epsilon=1, delta=DELTA, columns=["n", "w"])


def counts_units(s: Session) -> object:
    return s.hierarchy(epsilon=1, delta=DELTA, levels=["n"], attributes=["w"], bins=5)


def summary(s: Session) -> object:
    return spending_of(next(iter(s.accounts.values())), epsilon=1, fresh=True)


# what it costs


@dataclass(frozen=True)
class Own:
    """A column with noise: what a person adds, and the Laplace scale or the Gaussian σ²."""

    adds: int
    scale: float = 0.0
    sigma_squared: float = 0.0


@dataclass(frozen=True)
class Asked:
    """What is asked, and what it costs.

    Attributes:
        ask: asks it of a session.
        uses: its draws, for the worst unit under add-remove.
        epsilon, delta: what they cost together; `replaced` is that ε where units are replaced.
        own: what a person with so many rows, of such a sum, pays for the sums; None where all pay the worst case.
        rest: what everybody pays beside these.
        rows: how many rows of a person are read at most.
    """

    ask: Ask
    uses: Sequence[Use] = ()
    epsilon: float = 1.0
    delta: float = 0.0
    replaced: float = 1.0
    own: Callable[[int, int], Sequence[Own]] | None = None
    rest: Sequence[Use] = ()
    rows: int = 2


MU = gaussian_mu(1, D)
HALF_MU = gaussian_mu(0.5, D / 2)
OF_POISSON = least(D, *sampled_deltas(1 / 16, 0.25))
OF_FIXED = fixed_size_epsilon(1 / 4, 3 / 20, D)
TWO_GAUSSIAN = least(D, gaussian_delta(2 / 16))
TWO_REPLACED = least(D, gaussian_delta(4 * 2 / 16))
TWO_STEPS = least(D, *two_steps_deltas(1 / 16))

ASKED: dict[str, Asked] = {
    "query": Asked(sql(COUNT), [laplace(2, 2)], own=lambda n, _: [Own(n, scale=2)]),
    "query, Gaussian noise": Asked(
        sql(COUNT, noise="gaussian", delta=DELTA),
        [gaussian(MU)],
        delta=D,
        own=lambda n, _: [Own(n, sigma_squared=4 / MU)],
    ),
    "query, undeclared groups": Asked(
        sql("SELECT g, COUNT(*) AS n FROM t GROUP BY g", delta=DELTA),
        [responses(0.5, D), laplace(2, 4)],
        delta=D,
        own=lambda n, _: [Own(n, scale=4)],
        rest=[responses(0.5, D)],
    ),
    "query, median": Asked(sql("SELECT MEDIAN(n) AS m FROM t"), [responses(1)]),
    "query, first look": Asked(
        sql("SELECT SUM(z) AS m FROM t", bounds="values"),
        [responses(0.9), laplace(1, 100 / 7), laplace(1, 200 / 3), laplace(1, 200 / 3)],
    ),
    "batch": Asked(
        lambda s: s.batch({"a": COUNT, "b": "SELECT SUM(n) AS n FROM t"}, epsilon=1),
        [laplace(2, 4), laplace(18, 36)],
        own=lambda n, total: [Own(n, scale=4), Own(total, scale=36)],
    ),
    "result fed back into rows": Asked(
        sql("SELECT COUNT(*) AS n FROM t WHERE n > (SELECT SUM(n) / 12 FROM t)"), [laplace(18, 36), laplace(2, 4)]
    ),
    "recipe of a query": Asked(lambda s: s.perform(OfQuery(), trusted_code=True), [laplace(2, 2)]),
    "each, Laplace noise": Asked(perform(LAPLACE), [laplace(1, 4)], 0.25, replaced=0.5),
    "each, Gaussian noise": Asked(
        perform(GAUSSIAN, times=2, delta=DELTA), [gaussian(1 / 16)] * 2, TWO_GAUSSIAN, D, TWO_REPLACED
    ),
    "whole, best of scores": Asked(perform(BEST, "whole"), [bounded_range(1)]),
    "sparse vector": Asked(perform(SPARSE, "whole"), [responses(1)]),
    "sums over time": Asked(totals, [responses(1)]),
    "Poisson sample": Asked(perform(GAUSSIAN, sampling=POISSON, delta=DELTA), [sampled(1 / 16, 0.25)], OF_POISSON, D),
    "fixed-size sample": Asked(perform(GAUSSIAN, sampling=FIXED, delta=DELTA), delta=D, replaced=OF_FIXED),
    "one of steps": Asked(perform(GAUSSIAN, sampling=STEPS, times=2, delta=DELTA), [of_rho(1 / 32)], TWO_STEPS, D),
    "open run, Gaussian noise": Asked(
        opens(GAUSSIAN, times=2, delta=DELTA), [gaussian(2 / 16)], TWO_GAUSSIAN, D, TWO_REPLACED
    ),
    "open run, sparse vector": Asked(opens(SPARSE, "whole"), [responses(1)]),
    "open run, Poisson sample": Asked(
        opens(GAUSSIAN, sampling=POISSON, delta=DELTA), [responses(OF_POISSON, D)], OF_POISSON, D
    ),
    "open run, fixed-size sample": Asked(opens(GAUSSIAN, sampling=FIXED, delta=DELTA), delta=D, replaced=OF_FIXED),
    "open run of a query": Asked(opens_query, [responses(1)]),
    "fit": Asked(fit, [gaussian(MU)], delta=D),
    "fit, boosted trees": Asked(trees, [gaussian(MU)], delta=D),
    "fit, Laplace noise": Asked(clusters, [responses(1)]),
    "fit, objective perturbation": Asked(objective, [responses(0.99), laplace(1, 100)], rows=1),
    "fit, sample and aggregate": Asked(blocks, [bounded_range(1 / 2)] * 2),
    "choose": Asked(chooses, [responses(1, D)], delta=D),
    "evaluate": Asked(evaluates, [laplace(1 << 9, 5 << 9)] * 5),
    "evaluate, trusted code": Asked(evaluates_other, [laplace(1 << 9, 5 << 9)] * 5),
    "synthesize": Asked(synthesizes, [gaussian(MU)], delta=D),
    "hierarchy": Asked(counts_units, [gaussian(MU)], delta=D),
    "summary of what people spent": Asked(summary, [laplace(1, 1)]),
}


# who pays

BUDGET = dp.Budget(100, "1e-2")
CURVE = dp.accounting.gaussian(noise_multiplier="0.2")
ONE: dict[str, Any] = {"columns": {"n": dp.Range(0, 9, integer=True), "w": dp.Range(0, 9)}, "population": "p"}


def unit(rows: int) -> dp.PrivacyUnit:
    return dp.PrivacyUnit("who", max_groups=1, max_rows=rows)


def one(**given: Any) -> Callable[[Path, int], Session]:
    return lambda folder, rows: dp.connect({"t": FRAME}, ledger=":memory:", unit=unit(rows), **ONE, **given)


def of_analyst(kind: str) -> Callable[[Path, int], Session]:
    def session(folder: Path, rows: int) -> Session:
        place = folder / f"{kind}.ledger"
        said: dict[str, Any] = {"by": "owner", "reason": "plan"}
        with Ledger.open(place) as ledger:
            account = ledger.open_account("p", BUDGET, analysts=kind)
            account.cap_group("g", dp.Budget(80, "1e-3"), **said)
            account.cap_analyst("ana", dp.Budget(50, "1e-4"), group="g", **said)
        return dp.connect({"t": FRAME}, ledger=place, analyst="ana", unit=unit(rows), **ONE)

    return session


def both(**given: Any) -> Callable[[Path, int], Session]:
    units = {"p": dp.PrivacyUnit("who", max_rows=2), "q": dp.PrivacyUnit("doctor", max_rows=4)}
    budget = {"p": BUDGET, "q": BUDGET}
    return lambda folder, rows: dp.connect_both(
        {"t": FRAME}, units=units, budget=budget, columns=ONE["columns"], ledger=":memory:", **given
    )


@dataclass(frozen=True)
class Pays:
    """Who pays: the rule by which charges add up, and the session."""

    rule: str
    session: Callable[[Path, int], Session]
    delta: bool = True


PAYS: dict[str, Pays] = {
    "basic": Pays("basic", one(budget=BUDGET)),
    "δ = 0": Pays("basic", one(budget=dp.Budget(100)), delta=False),
    "zcdp": Pays("zcdp", one(budget=BUDGET, filter="zcdp")),
    "renyi": Pays("renyi", one(budget=BUDGET, filter="renyi")),
    "renyi-curve": Pays("renyi-curve", one(budget=BUDGET, filter="renyi-curve", curve=CURVE)),
    "gdp": Pays("gdp", one(budget=BUDGET, filter="gdp")),
    "replace": Pays("basic", one(budget=BUDGET, relation="replace")),
    "per person": Pays("basic", one(budget=BUDGET, per_person=BUDGET)),
    "per person, zcdp": Pays("zcdp", one(per_person=BUDGET, filter="zcdp")),
    "per person, gdp": Pays("gdp", one(per_person=BUDGET, filter="gdp")),
    "per person, renyi": Pays("renyi", one(per_person=BUDGET, filter="renyi")),
    "per person, renyi-curve": Pays("renyi-curve", one(per_person=BUDGET, filter="renyi-curve", curve=CURVE)),
    "analyst": Pays("basic", of_analyst("together")),
    "analyst apart": Pays("basic", of_analyst("apart")),
    "two populations": Pays("basic", both()),
    "two populations, gdp": Pays("gdp", both(filter="gdp")),
}

_OPEN: dict[tuple[str, int], Session] = {}
_asked: list[Session] = []
"""The session that is asked in this test, whose ledger is looked into at each statement."""


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Session]]:
    """Sessions, each opened when it is first asked for."""

    def get(name: str, rows: int = 2) -> Session:
        if (name, rows) not in _OPEN:
            _OPEN[name, rows] = PAYS[name].session(tmp_path_factory.mktemp("ledgers"), rows)
        _asked[:] = [_OPEN[name, rows]]
        return _OPEN[name, rows]

    yield get
    while _OPEN:
        _OPEN.popitem()[1].close()
    _asked.clear()


# the page


def page(first: str) -> dict[str, dict[str, str]]:
    """A table of the page, by the name of its first column: row → column → cell."""
    lines = (ROOT / "docs" / "charges.md").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} |"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in takewhile(_is_row, lines[start:])]
    return {row[0]: dict(zip(rows[0][1:], row[1:], strict=True)) for row in rows[2:]}


def _is_row(line: str) -> bool:
    return line.startswith("|")


FILTERS, PAYERS, TOGETHER = page("what is asked, by filter"), page("what is asked, by payer"), page("together")
REASONS = page("no")


def test_the_page_has_each_recipe_and_each_account_once() -> None:
    for table in (FILTERS, PAYERS):  # the rows of PyTorch are tried where it is, in tests/learn/torch
        assert [name for name in table if name != "train"] == [*ASKED]
    columns = [[*next(iter(table.values()))] for table in (FILTERS, PAYERS)]
    assert [name for names in columns for name in names] == [*PAYS]
    used = {cell for table in (FILTERS, PAYERS, TOGETHER) for row in table.values() for cell in row.values()}
    assert {cell.removeprefix("no: ") for cell in used if cell.startswith("no: ")} == {*REASONS}


# what it must cost


def sums(asked: Asked, rule: str, *, order: float, replaced: bool = False) -> list[tuple[float, float]]:
    """What is charged in each sum of a rule: at least the first number, and just the second."""
    delta = (asked.delta, asked.delta)
    rho, mu = sum(u.rho for u in asked.uses), sum(u.mu_squared or 0 for u in asked.uses)
    match rule:
        case "basic":
            return [(asked.replaced if replaced else asked.epsilon,) * 2, delta]
        case "zcdp":
            return [(rho, rho), delta if any(u.delta for u in asked.uses) else (0, 0)]
        case "gdp":
            return [(mu, mu)]
    orders = [order] if rule == "renyi" else [float(a) for a in ORDERS]
    failed = sum(u.delta for u in asked.uses)
    each = [[u.divergence(a) for u in asked.uses] for a in orders]
    return [*((sum(low for low, _ in d), sum(high for _, high in d)) for d in each), (failed, failed)]


def agrees(charged: Sequence[Fraction], wanted: Sequence[tuple[float, float]]) -> None:
    assert len(charged) == len(wanted)
    for got, (low, just) in zip(charged, wanted, strict=True):
        assert float(got) >= low * (1 - 1e-6)
        assert float(got) == pytest.approx(just, rel=1e-3 if 0 < just != round(just, 2) else 1e-9)


def in_words(symbol: str, charged: Sequence[Fraction]) -> str:
    """The sums of a charge that are not 0, by their symbols."""
    return f"{symbol}, δ" if len(charged) > 1 and charged[-1] else symbol


def for_a_person(asked: Asked, rule: str, order: float, rows: int, total: int) -> list[float] | None:
    """What a person with so many rows, which add up to so much, pays by contribution; None where it is not derived."""
    if asked.own is None or rule == "renyi-curve":
        return None
    columns, failed = asked.own(rows, total), sum(u.delta for u in asked.rest)
    if rule == "basic":
        if any(c.sigma_squared for c in columns):
            return None
        return [sum(c.adds / c.scale for c in columns) + len(asked.rest) * 0.5, failed]
    half = {"zcdp": 0.5, "renyi": order / 2, "gdp": 1.0}[rule]  # of a square over σ², or over b² if that is less
    found = 0.0
    for c in columns:
        by_square = half * c.adds**2 / (c.sigma_squared or c.scale**2)
        found += min(by_square, c.adds / c.scale) if c.scale else by_square
    rest = sum(u.rho if rule == "zcdp" else u.divergence(order)[1] for u in asked.rest)
    return [found] if rule == "gdp" else [found + rest, failed]


def refused_as(reason: Mapping[str, str], error: DiscreetError) -> None:
    """Checks that a refusal names both sides and a way round, and is no failure of the product's own."""
    assert not isinstance(error, InternalError) and error.hint
    for side in ("one side says", "the other side says"):
        assert [text for text in re.findall("`([^`]*)`", reason[side]) if text not in error.message] == []


# one combination


def charges(account: Account) -> list[Charged]:
    return [e.content for e in account.history() if isinstance(e.content, Charged)]


def spent(session: Session) -> dict[str, tuple[Fraction, ...]]:
    """Every sum that the ledger keeps of the accounts: of the populations, and of analysts and groups."""
    found = {}
    for name in session.accounts:
        account = session._ledger.account(name)
        if account is not None:
            found[name] = account._read(lambda now: now.population.spent)
            found |= {s.limit.whose: s.limit.spent for s in account._read(lambda now: [*now.analysts(), *now.groups()])}
    return found


def people(session: Session) -> dict[int, list[int]]:
    """What each person has spent, by hash."""
    (account,) = session.accounts.values()
    budgets = account.person_budgets
    assert budgets is not None
    table = session._ledger._log.read(lambda view: budgets._read(view)).table
    return {int(h): [int(x) for x in column] for h, column in zip(table.hashes, table.spent.T, strict=True)}


@dataclass(frozen=True)
class Ran:
    """A statement that ran, and how many charges, and settled charges of people, the ledger had then."""

    by: str
    text: str
    paid: int
    settled: int


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Ran]:
    """Each statement on private rows; those that were tried on empty tables are called "DuckDB.rehearse"."""
    found: list[Ran] = []
    of_people = [(PersonFilter, name) for name in ("people", "rows", "columns")]
    for cls, name in [*((DuckDB, name) for name in ("rows", "columns", "rehearse")), *of_people]:
        monkeypatch.setattr(cls, name, _noting(found, f"{cls.__name__}.{name}", getattr(cls, name)))
    return found


def _noting(found: list[Ran], name: str, real: Any) -> Any:
    def run(backend: Any, text: str, *given: Any) -> Any:
        entries = [e.content for s in _asked for a in s.accounts.values() for e in a.history()]
        found.append(Ran(name, text, *(sum(isinstance(e, kind) for e in entries) for kind in (Charged, PeopleCharged))))
        return real(backend, text, *given)

    return run


def taken_apart(ran: list[Ran]) -> tuple[list[Ran], set[str]]:
    """What ran on private rows, and what was tried on empty tables."""
    tried = {r.text for r in ran if r.by == "DuckDB.rehearse"}
    return [r for r in ran if r.by != "DuckDB.rehearse"], tried


@pytest.mark.exhaustive
@pytest.mark.sampled(5)
@pytest.mark.thinned(6)  # of which each kind has three accounts or more, and each account four kinds
@pytest.mark.parametrize("pays", PAYS)
@pytest.mark.parametrize("what", ASKED)
def test_it_is_charged_as_the_page_says_or_refused_before_anything(
    what: str, pays: str, sessions: Callable[..., Session], reads: list[Ran]
) -> None:
    asked, payer, session = ASKED[what], PAYS[pays], sessions(pays, ASKED[what].rows)
    cell = (FILTERS if pays in FILTERS[what] else PAYERS)[what][pays]
    by_person = pays.startswith("per person")
    if by_person and asked.ask is summary:  # it counts who was asked about before
        ASKED["query, Gaussian noise"].ask(session)
    before, paid = spent(session), sum(len(charges(a)) for a in session.accounts.values())
    had = people(session) if by_person else {}
    entries = [len(a.history()) for a in session.accounts.values()]
    reads.clear()
    if cell.startswith("no: "):
        with pytest.raises(DiscreetError) as raised:
            asked.ask(session)
        refused_as(REASONS[cell.removeprefix("no: ")], raised.value)
        assert taken_apart(reads)[0] == [] and spent(session) == before
        assert [len(a.history()) for a in session.accounts.values()] == entries
        return
    asked.ask(session)
    now = spent(session)
    nothing = (Fraction(0),) * len(next(iter(now.values())))
    added = {
        name: tuple(a - b for a, b in zip(total, before.get(name, nothing), strict=True)) for name, total in now.items()
    }
    order = float(next(iter(session.accounts.values()))._units.order) if payer.rule == "renyi" else 0  # type: ignore[attr-defined]
    wanted = sums(asked, payer.rule, order=order, replaced=pays == "replace")
    symbols = {"basic": "ε", "zcdp": "ρ", "gdp": "μ²"}.get(payer.rule, "D")
    if pays.startswith("two"):
        agrees(added["q"], wanted)
        agrees(added["p"], of_the_other(asked, payer.rule))
        assert cell == f"each {in_words(symbols, added['q'])}"
    else:
        assert [*added] == (["p", "the analyst 'ana'", "the group 'g'"] if "analyst" in pays else ["p"])
        for cost in added.values():
            agrees(cost, wanted)
        assert by_person or cell == in_words(symbols, added["p"])
    # each statement was planned, and ran after the charge; those on people's rows ran after these had paid
    ran, tried = taken_apart(reads)
    assert ran or asked.ask is summary
    assert all(r.paid == paid + len(session.accounts) for r in ran)
    assert "first look" in what or {r.text for r in ran} <= tried
    if by_person:
        settled = sum(isinstance(e.content, PeopleCharged) for a in session.accounts.values() for e in a.history())
        assert all((r.by == "PersonFilter.people") == (r.settled < max(r.settled for r in ran)) for r in ran)
        check_people(session, asked, (payer.rule, order), cell, had, wanted, settled)


@pytest.mark.parametrize("short", ["1e-10", "9e-10", "1e-8"])
def test_a_little_less_than_the_draws_cost_is_not_charged(short: str, sessions: Callable[..., Session]) -> None:
    """A price may be asked to nine digits, and is charged to the last one."""
    epsilon = Fraction(TWO_GAUSSIAN) * (1 - Fraction(short))

    def plan(tables: Sequence[TableSchema]) -> Plan:
        rows = person_rows("SELECT n FROM t", tables, rows=2)
        part = person_part("p", rows, width=1, norms=Sensitivity(1, 1), times=2, law=GAUSSIAN)
        return plan_recipe([part], epsilon=epsilon, delta=DELTA)

    tables = sessions("basic")._desk.tables
    if short == "1e-8":
        with pytest.raises(InvalidParameter, match="the draws cost"):
            plan(tables)
        return
    assert gaussian_delta(2 / 16)(float(plan(tables).charge.guarantee.epsilon)) <= D * (1 + 1e-13)


def of_the_other(asked: Asked, rule: str) -> list[tuple[float, float]]:
    """What the population pays whose units move the numbers half as far as the other's, for which the noise is made."""
    (use,) = asked.uses
    if use.mu_squared is None:
        return [(0.5, 0.5), (0, 0)]
    if rule == "gdp":
        return [(MU / 4, MU / 4)]
    return [(least(D, gaussian_delta(MU / 4)),) * 2, (D, D)]


def check_people(
    session: Session,
    asked: Asked,
    rule: tuple[str, float],
    cell: str,
    had: Mapping[int, list[int]],
    wanted: Sequence[tuple[float, float]],
    settled: int,
) -> None:
    """Checks that each person has paid their own cost where the page says so, else the price of all of it."""
    (account,) = session.accounts.values()
    budgets = account.person_budgets
    assert budgets is not None and settled
    worst, expected = [just for _, just in wanted], []
    for who, rows in enumerate(ROWS):
        own = for_a_person(asked, *rule, rows, int(FRAME[FRAME.who == who].n.sum()))
        assert (cell == "all") == (own is None)
        assert (cell == "own + rest") == (own is not None and bool(asked.rest))
        cost = worst if own is None or own[0] > worst[0] else own
        expected.append([x / float(c) * CAPACITY for x, c in zip(cost, budgets.capacity, strict=True)])
    now = people(session)
    found = sorted([a - b for a, b in zip(now[h], had.get(h, [0] * len(now[h])), strict=True)] for h in now)
    assert len(found) == len(ROWS)
    for got, want in zip(found, sorted(expected), strict=True):
        for parts, exact in zip(got, want, strict=True):
            assert exact * (1 - 1e-6) <= parts <= exact * (1 + 1e-3) + 2


# which promises go together

TERMS: dict[str, dict[str, Any]] = {
    "per person": {"per_person": BUDGET},
    "analysts": {"analysts": "together"},
    "analysts apart": {"analysts": "apart"},
    "two populations": {},
    "certificates": {},
    "replace": {"relation": "replace"},
    "each row a unit": {},
    "δ = 0": {},
    "zcdp or renyi": {"filter": "renyi"},
    "gdp": {"filter": "gdp"},
}


def kept(promises: set[str], folder: Path) -> None:
    """Opens accounts with these promises, asks a query, and checks its certificate."""
    terms = {name: value for promise in promises for name, value in TERMS[promise].items()}
    budget = dp.Budget(100) if "δ = 0" in promises else BUDGET
    terms = {name: budget if name == "per_person" else value for name, value in terms.items()}
    two, of_rows = "two populations" in promises, "each row a unit" in promises
    who = "ana" if "analysts" in terms else None
    noise: dict[str, Any] = {"noise": "gaussian", "delta": DELTA} if "gdp" in promises else {}
    units = {"p": dp.PrivacyUnit.row() if of_rows else unit(2)}
    units |= {"q": dp.PrivacyUnit("doctor", max_rows=4)} if two else {}
    place = folder / "one.ledger"
    with Ledger.open(place) as ledger:
        for name in units:
            account = ledger.open_account(name, budget, **terms)
            if who is not None:
                account.cap_analyst(who, budget, by="owner", reason="plan")
    if two:
        s = dp.connect_both({"t": FRAME}, units=units, columns=ONE["columns"], ledger=place, analyst=who)
    else:
        s = dp.connect({"t": FRAME}, ledger=place, analyst=who, **{**ONE, "unit": units["p"]})
    with s:
        release = s.sql(COUNT, epsilon=1, **noise)
        if "certificates" in promises:
            assert check(json.loads(json.dumps(release.certificate()))).broken is None


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("one", "other"), list(combinations(TERMS, 2)))
def test_promises_go_together_as_the_page_says(one: str, other: str, tmp_path: Path, reads: list[Ran]) -> None:
    cell = TOGETHER[one][other]
    assert cell == TOGETHER[other][one] and TOGETHER[one][one] == ""
    if cell == "—":  # two ways of one thing
        return
    if not cell.startswith("no: "):
        assert cell == "yes"
        kept({one, other}, tmp_path)
        return
    with pytest.raises(DiscreetError) as raised:
        kept({one, other}, tmp_path)
    refused_as(REASONS[cell.removeprefix("no: ")], raised.value)
    if "certificates" not in (one, other):  # which are asked for after the answer
        assert taken_apart(reads)[0] == []
        with Ledger.open(tmp_path / "one.ledger") as ledger:
            accounts = [ledger.account(name) for name in ledger.populations()]
            assert not any(charges(account) for account in accounts if account is not None)


def test_the_page_has_each_promise_once() -> None:
    assert [*TOGETHER] == [*TERMS] and all([*row] == [*TERMS] for row in TOGETHER.values())
