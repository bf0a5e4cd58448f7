"""Two populations, one session: what is charged to whom, what is answered, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

import discreet as dp
from discreet.engine import cells
from discreet.engine.cells import exact_flows, flow_uses, measured_flows
from discreet.engine.meter import Meter, follow
from discreet.engine.session import Session
from discreet.errors import (
    BackendFailed,
    BudgetExceeded,
    DiscreetError,
    InternalError,
    InvalidParameter,
    MissingBounds,
    UnknownColumn,
    UnsupportedQuery,
)
from discreet.ledger.ledger import Ledger
from discreet.noise.entropy import SystemEntropy
from discreet.plan.plan import Plan
from tests.engine.reachable import reachable
from tests.written import written

UNITS = {"patients": dp.PrivacyUnit("patient", max_rows=2), "doctors": dp.PrivacyUnit("doctor", max_rows=3)}
BUDGET = {"patients": dp.Budget(3), "doctors": dp.Budget(2)}
FACTS: dict[str, Any] = {"cost": dp.Range(-4, 8), "ward": dp.Values("a", "b"), "days": dp.Range(0, 5, integer=True)}
COUNT = "SELECT COUNT(*) AS n FROM visits"


def visits(seed: int = 0, rows: int = 14) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    cost = np.round(rng.uniform(-8, 12, rows) * 4) / 4
    return pd.DataFrame(
        {
            "patient": rng.integers(0, 5, rows),
            "doctor": rng.choice(["x", "y", "z"], rows),
            "cost": cost,
            "days": rng.integers(-2, 9, rows),
            "ward": rng.choice(["a", "b", "c"], rows),
        }
    )


def both(source: object = None, place: object = ":memory:", **changed: Any) -> Session:
    given: dict[str, Any] = {"units": UNITS, "budget": BUDGET, "columns": FACTS, **changed}
    table = {"visits": visits()} if source is None else source
    return dp.connect_both(table, ledger=place, **given)  # type: ignore[arg-type]  # bad ones are tried too


@pytest.fixture
def session() -> Iterator[Session]:
    with both() as opened:
        yield opened


def left(session: Session) -> dict[str, dp.Budget]:
    """What remains of each population's budget."""
    return {name: account.remaining for name, account in session.accounts.items()}


def exact(session: Session, sql: str) -> list[list[int]]:
    """The exact numbers that noise would be added to."""
    plan = session.plan(sql, epsilon=1)
    return exact_flows(plan, lambda text: session._desk.backend.rows(text, {}))


def best(rows: pd.DataFrame, values: pd.Series, caps: tuple[float, float]) -> float:
    """The largest total within the caps of parts of the rows, as a linear program over rows."""
    if rows.empty:
        return 0.0
    limits, bounds = [], [(0.0, float(v)) for v in values]
    matrix = []
    for column, cap in zip(("patient", "doctor"), caps, strict=True):
        for unit in rows[column].unique():
            matrix.append((rows[column] == unit).to_numpy(float))
            limits.append(cap)
    found = linprog(-np.ones(len(rows)), np.array(matrix), limits, bounds=bounds)
    return -float(found.fun or 0)


ASKED = (
    "SELECT ward, COUNT(*) AS n, SUM(cost) AS c, SUM(days) AS d, COUNT(DISTINCT patient) AS p, "
    "COUNT(DISTINCT doctor) AS o FROM visits WHERE cost > -7 GROUP BY ward"
)


@pytest.mark.parametrize("seed", range(3))
def test_the_numbers_are_the_largest_totals_within_the_caps(seed: int) -> None:
    rows = visits(seed, rows=40)
    rows.loc[0, "doctor"] = None
    with both({"visits": rows}, budget={"patients": dp.Budget(1e9), "doctors": dp.Budget(1e9)}) as session:
        plan = session.plan(ASKED, epsilon=20)
        found = dict(
            zip([str(m.identity[0]) for m in plan.query.question.measures], exact(session, ASKED), strict=False)
        )
        steps = [m.step for m in plan.query.question.measures]
        numbers = exact(session, ASKED)
    assert found
    measured = {
        str(m.identity): [n * float(s) for n in of]
        for m, of, s in zip(plan.query.question.measures, numbers, steps, strict=True)
    }
    rows = rows[rows.doctor.notna() & (rows.cost > -7)]
    for place, ward in enumerate(("a", "b")):
        here = rows[rows.ward == ward]
        cost, days = here.cost.clip(-4, 8), here.days.clip(0, 5)
        wanted = {
            "['rows']": best(here, cost * 0 + 1, (2, 3)),
            "['units']": best(here, cost * 0 + 1, (1, 3)),
            "['total', days": best(here, days, (10, 15)),
            "['total', cost": best(here, cost.clip(lower=0), (16, 24)) - best(here, (-cost).clip(lower=0), (8, 12)),
        }
        for name, value in wanted.items():
            key = next(k for k in measured if _is(k, name))
            assert measured[key][place] == pytest.approx(value, abs=1e-4), name
        pairs = here.drop_duplicates(["patient", "doctor"])
        doctors = next(v for k, v in measured.items() if k.startswith("['distinct'"))
        assert doctors[place] == pytest.approx(best(pairs, pairs.cost * 0 + 1, (2, 1)))


def _is(identity: str, name: str) -> bool:
    kind, _, column = name.partition(", ")
    return identity.startswith(kind) and (not column or f"'{column}'" in identity)


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_no_unit_moves_the_numbers_further_than_planned(seed: int, relation: str) -> None:
    """On the real database: every unit of either population is taken away, and put in another's place."""
    rng = np.random.default_rng(seed)
    table = visits(seed)
    plan: Plan | None = None

    def answers(rows: pd.DataFrame) -> np.ndarray[Any, Any]:
        nonlocal plan
        with both({"visits": rows}, relation=relation) as session:
            plan = session.plan(ASKED, epsilon=1)
            return np.array(exact(session, ASKED))

    here = answers(table)
    for side, column in enumerate(("patient", "doctor")):
        for unit in table[column].unique():
            without = table[table[column] != unit]
            other = table[table[column] == unit].copy()
            for c in ("cost", "ward", "days", "doctor" if column == "patient" else "patient"):
                other[c] = rng.permutation(visits(seed + 100)[c].to_numpy())[: len(other)]
            changed = pd.concat([without, other])
            moved = here - answers(changed if relation == "replace" else without)
            assert plan is not None
            assert plan.flows is not None
            for by, said in zip(moved, plan.flows.parties[side].side.sensitivities, strict=True):
                assert abs(by).max() <= said.linf
                assert abs(by).sum() <= said.l1
                assert (by**2).sum() <= said.l2_squared


def test_each_population_is_charged_its_own_and_the_answer_is_free_again(session: Session) -> None:
    release = session.sql(COUNT, epsilon=0.6)
    assert release.charges["doctors"].epsilon == Fraction(3, 5)
    assert release.charges["patients"].epsilon == Fraction(2, 5)
    assert left(session) == {"patients": dp.Budget("13/5"), "doctors": dp.Budget("7/5")}
    again = session.sql("SELECT COUNT(*) AS visits FROM visits", epsilon=0.6)
    assert again.stored
    assert again.rows == release.rows
    assert set(again.charges.values()) == {dp.Budget(0).guarantee}
    assert session.accounts["doctors"].remaining == dp.Budget("7/5")
    assert not session.sql(COUNT, epsilon=0.6, fresh=True).stored
    assert session.accounts["doctors"].spent.epsilon() == 1.2
    histories = [account.history() for account in session.accounts.values()]
    assert [len(h) for h in histories] == [6, 6]
    assert {e.note["together"][0] for h in histories for e in h if e.note} == {"patients"}


def test_a_plan_says_what_each_would_have_left(session: Session) -> None:
    told = session.plan(COUNT, epsilon=0.6).explain()
    assert "'patients': Asked now, it leaves ε = 2.6 of ε = 3, enough for 6 more like it." in told
    assert "'doctors': Asked now, it leaves ε = 1.4 of ε = 2, enough for 2 more like it." in told
    session.sql(COUNT, epsilon=0.6)
    assert "asking it again is free" in session.plan(COUNT, epsilon=0.6).explain()
    assert session.plan(COUNT, epsilon=0.6).error("n") > 0
    assert "'doctors': It would be refused now" in session.plan(COUNT, epsilon=5).explain()


def test_each_may_be_allowed_its_own(session: Session) -> None:
    release = session.sql(COUNT, epsilon={"doctors": 1, "patients": 0.1})
    assert {p: c.epsilon for p, c in release.charges.items()} == {
        "patients": Fraction(1, 10),
        "doctors": Fraction(3, 20),
    }


def test_a_release_is_shown_with_both_prices_and_is_explained(session: Session) -> None:
    release = session.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=0.5)
    assert "charged ε = 0.333333 of 'patients', ε = 0.5 of 'doctors'" in str(release)
    assert "answered again" in str(session.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=0.5))
    assert [r[0] for r in release.rows] == ["a", "b"]
    assert release.nonnegative().rows[0][1] >= 0
    assert release.nonnegative().nonnegative().charges == release.charges
    assert "maximum flow" in release.explain()
    assert any("Kasiviswanathan" in work for work in release.citations())
    assert set(release.costs) == {"patients", "doctors"}
    low, high = release.interval("n")[0]
    assert low < release.rows[0][1] < high
    for holder, name in ((release, "cost"), (release, "charged"), (release.plan, "cost"), (release.plan, "charge")):
        with pytest.raises(InvalidParameter) as refused:
            getattr(holder, name)
        assert refused.value.hint
    assert "Session(tables=visits" in repr(session)
    for account in session.accounts.values():
        assert account.promises()
        assert account.budget == BUDGET[account.population]
    assert (session.tables, list(session.accounts)) == (["visits"], ["patients", "doctors"])


def test_what_one_account_says_is_asked_of_each(session: Session) -> None:
    """The short forms of a session of one population are refused with where to look instead."""
    for short in ("population", "analyst", "promises", "budget", "spent", "remaining"):
        with pytest.raises(InvalidParameter, match="two populations") as refused:
            getattr(session, short)
        assert "accounts['patients']" in str(refused.value.hint)
    with pytest.raises(InvalidParameter, match="two populations"):
        session.history()
    with pytest.raises(InvalidParameter, match="two populations"):
        session.batch({"n": COUNT}, epsilon=1)
    with pytest.raises(InvalidParameter, match="two populations"):
        session.plan(COUNT, error={"n": 10})
    assert left(session) == BUDGET


def test_a_refusal_by_either_charges_neither_and_says_what_fits(tmp_path: Path) -> None:
    with both(place=tmp_path / "l") as session:
        before = left(session)
        for epsilon, poor in ((2.5, "doctors"), ({"patients": 19, "doctors": 19}, "patients")):
            with pytest.raises(
                BudgetExceeded, match=poor if poor == "doctors" else "nothing was charged to either"
            ) as refused:
                session.sql(COUNT, epsilon=epsilon)
            assert left(session) == before
            hint = str(refused.value.hint)
            fits = hint.split("epsilon=")[1].split(" would")[0]
            fitting = session.plan(COUNT, epsilon=fits).charges
            assert all(a.refusal(fitting[name]) is None for name, a in session.accounts.items())
        with Ledger.open(tmp_path / "l") as book:
            book.open_account("doctors", BUDGET["doctors"])
            account = book.open_account("patients", BUDGET["patients"])
            account.freeze(by="owner", reason="a look")
        with pytest.raises(BudgetExceeded, match="frozen"):
            session.sql(COUNT, epsilon=0.5)
        assert left(session) == before


def test_a_crash_after_the_charge_leaves_both_charged_and_no_answer(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise ValueError("a cell")

    with monkeypatch.context() as broken:
        broken.setattr(cells, "largest_flows", failing)
        with pytest.raises(BackendFailed, match="charge stands") as failed:
            session.sql(COUNT, epsilon=0.5)
    assert "cell" not in str(failed.value)
    assert failed.value.__context__ is None or "cell" not in str(failed.value.__context__)
    assert {p: a.spent.epsilon() for p, a in session.accounts.items()} == {
        "patients": pytest.approx(1 / 3),
        "doctors": 0.5,
    }
    assert not session.sql(COUNT, epsilon=0.5).stored
    assert session.accounts["doctors"].spent.epsilon() == 1


@pytest.mark.parametrize(
    ("broken", "error", "shown"),
    [
        ("largest_flows", KeyboardInterrupt, KeyboardInterrupt),
        ("largest_flows", ValueError, BackendFailed),
        ("redacting_errors", KeyboardInterrupt, KeyboardInterrupt),
        ("redacting_errors", ValueError, InternalError),
    ],
)
def test_a_failure_shows_no_frame_with_what_was_read(
    session: Session,
    monkeypatch: pytest.MonkeyPatch,
    broken: str,
    error: type[BaseException],
    shown: type[BaseException],
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise error("a cell")

    monkeypatch.setattr(cells, broken, failing)
    with pytest.raises(shown, match="charge stands") as failed:
        session.sql(COUNT, epsilon=0.5)
    names = {frame.f_code.co_name for frame in reachable(failed.value)[1]}
    assert "perform" in names
    assert not names & {"_flows", "exact_flows", "failing"}
    assert failed.value.__context__ is None
    assert "cell" not in str(failed.value)


def test_many_threads_that_ask_the_same_pay_once(session: Session) -> None:
    found: list[list[tuple[Any, ...]]] = []
    asking = [threading.Thread(target=lambda: found.append(session.sql(COUNT, epsilon=0.5).rows)) for _ in range(6)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len({str(rows) for rows in found}) == 1
    assert session.accounts["doctors"].spent.epsilon() == 0.5


def test_neither_population_can_be_left_out_later(tmp_path: Path) -> None:
    place = tmp_path / "l"
    written(both(place=place)).close()
    both(place=place, budget=None).close()
    table = {"visits": visits()}
    patient, doctor = (dp.PrivacyUnit(c, max_groups=1, max_rows=2) for c in ("patient", "doctor"))
    for population, unit in (("patients", patient), ("doctors", doctor), ("patients", dp.PrivacyUnit.row())):
        with pytest.raises(InvalidParameter, match=r"fixed with its first charged query: .* and, as"):
            dp.connect(table, unit=unit, population=population, ledger=place)
    with pytest.raises(InvalidParameter, match="fixed with"):
        dp.connect({**table, "staff": visits()}, unit=patient, public=["visits"], population="patients", ledger=place)
    with pytest.raises(InvalidParameter, match="fixed with"):  # another name for the other
        both(
            place=place,
            units={"patients": UNITS["patients"], "nurses": UNITS["doctors"]},
            budget={"nurses": dp.Budget(1)},
        )
    with pytest.raises(InvalidParameter, match="fixed with"):  # their ids exchanged
        both(place=place, units={"patients": UNITS["doctors"], "doctors": UNITS["patients"]}, budget=None)
    both({"Visits": visits()}, place=place, budget=None, units=dict(reversed(UNITS.items()))).close()


def test_a_table_that_was_one_populations_is_not_made_two(tmp_path: Path) -> None:
    place = tmp_path / "l"
    unit = dp.PrivacyUnit("patient", max_groups=1, max_rows=2)
    alone = dp.connect({"visits": visits()}, unit=unit, population="patients", budget=dp.Budget(3), ledger=place)
    written(alone).close()
    with pytest.raises(InvalidParameter, match="fixed with its first charged query: the column 'patient', not"):
        both(place=place)


def test_a_table_of_one_population_is_asked_in_its_own_session_on_the_same_account(tmp_path: Path) -> None:
    place = tmp_path / "l"
    people = pd.DataFrame({"patient": range(5), "age": range(20, 70, 10)})
    with both(place=place) as session:
        session.sql(COUNT, epsilon=0.6)
        unit = dp.PrivacyUnit("patient", max_groups=1, max_rows=1)
        with dp.connect({"people": people}, unit=unit, population="patients", ledger=place) as alone:
            assert alone.remaining == dp.Budget("13/5")
            alone.sql("SELECT COUNT(*) FROM people", epsilon=1)
        assert left(session) == {"patients": dp.Budget("8/5"), "doctors": dp.Budget("7/5")}


def test_columns_that_were_pinned_stay_and_a_later_file_must_fit(tmp_path: Path) -> None:
    place = tmp_path / "l"
    written(both(place=place)).close()
    later = visits().rename(columns={"cost": "price"}).assign(doctor=None)
    with both({"visits": later}, place=place, budget=None) as session:
        assert exact(session, COUNT) == [[0]]
        assert exact(session, "SELECT SUM(cost) FROM visits") == [[0]]


def test_rows_without_an_id_of_either_are_nobodys() -> None:
    rows = pd.DataFrame(
        {
            "patient": pd.array([1, None, None, 2], dtype="Int64"),
            "doctor": ["x", "x", "y", None],
            "cost": 1.0,
            "days": 1,
            "ward": "a",
        }
    )
    with both({"visits": rows}) as session:
        assert exact(session, COUNT) == [[1]]


def test_an_empty_table_has_zeros() -> None:
    with both({"visits": visits().head(0)}) as session:
        assert exact(session, ASKED.replace("ward, ", "", 1).replace(" GROUP BY ward", "")) == [[0]] * 5
        assert len(session.sql("SELECT ward, COUNT(*) FROM visits GROUP BY ward", epsilon=1).rows) == 2


def test_several_groups_have_flows_of_their_own() -> None:
    rows = pd.DataFrame(
        {"patient": [1, 1, 1, 1], "doctor": "x", "cost": 1.0, "days": [1, 1, 1, 2], "ward": ["a", "a", "a", "b"]}
    )
    with both({"visits": rows}) as session:
        assert exact(session, "SELECT ward, days, COUNT(*) FROM visits GROUP BY ward, days") == [
            [0, 2, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]
        ]


@pytest.mark.laws
def test_the_noise_is_that_of_the_plan(session: Session) -> None:
    plan = session.plan(COUNT, epsilon=1)
    (truth,) = exact(session, COUNT)

    def noisy() -> int:
        meter = Meter(flow_uses(plan), lambda text, _: session._desk.backend.rows(text, {}), SystemEntropy())
        return follow(measured_flows(plan), meter).cells[0][0]

    drawn = [noisy() - truth[0] for _ in range(400)]
    scale = 3.0  # of Laplace noise: one doctor's three rows, at ε = 1
    mean = float(np.mean(np.abs(drawn)))
    assert 0.75 * scale < mean < 1.25 * scale  # five deviations
    assert not 0.75 * scale < 2 * mean < 1.25 * scale


def test_analysts_are_named_in_each_account(tmp_path: Path) -> None:
    place = tmp_path / "l"
    with Ledger.open(place) as book:
        book.open_account("patients", BUDGET["patients"])
        account = book.open_account("doctors", BUDGET["doctors"])
        account.cap_analyst("ann", dp.Budget("1/2"), by="owner", reason="new")
    with pytest.raises(InvalidParameter, match="analyst"):
        both(place=place)
    with both(place=place, analyst={"doctors": "ann"}) as session:
        session.sql(COUNT, epsilon=0.5)
        with pytest.raises(BudgetExceeded, match="ann"):
            session.sql(COUNT, epsilon=0.5, fresh=True)
        assert session.accounts["patients"].remaining == dp.Budget(3 - Fraction(1, 3))


def test_accounts_that_promise_more_are_refused(tmp_path: Path) -> None:
    for name, terms in (("each", {"per_person": dp.Budget(1)}), ("apart", {"analysts": "apart"})):
        place = tmp_path / name
        with Ledger.open(place) as book:
            book.open_account("doctors", dp.Budget(1), **terms)
            if name == "apart":
                account = book.account("doctors")
                assert account is not None
                account.cap_analyst("ann", dp.Budget("1/2"), by="owner", reason="new")
        with pytest.raises(InvalidParameter, match=r"budget of their own|kept apart"):
            both(
                place=place, budget={"patients": dp.Budget(1)}, analyst={"doctors": "ann"} if name == "apart" else None
            )


def test_relations_and_filters_are_each_accounts_own(tmp_path: Path) -> None:
    with both(
        relation={"patients": "replace"},
        filter={"patients": "zcdp"},
        budget={"patients": dp.Budget(3, 1e-6), "doctors": dp.Budget(3, 1e-6)},
        place=tmp_path / "l",
    ) as session:
        plan = session.plan("SELECT SUM(cost) FROM visits", epsilon=0.5, delta=1e-7, noise="gaussian")
        assert plan.flows is not None
        assert [p.side.relation.value for p in plan.flows.parties] == ["replace", "add-remove"]
        session.sql("SELECT SUM(cost) FROM visits", epsilon=0.5, delta=1e-7, noise="gaussian")
        session.sql(COUNT, epsilon={"patients": 0.2, "doctors": 0.3}, delta={"patients": 0, "doctors": 0})
        with pytest.raises(BudgetExceeded):
            session.sql(COUNT, epsilon=10)
    with pytest.raises(InvalidParameter, match="relation"):
        both(relation="replace", budget=None, place=tmp_path / "l")


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"units": {"patients": UNITS["patients"]}}, "two populations, not 1"),
        ({"units": {}}, "two populations, not 0"),
        ({"units": UNITS | {"nurses": UNITS["doctors"]}}, "two populations, not 3"),
        ({"units": UNITS["patients"]}, "units must be a dict"),
        ({"units": {"patients": "patient", "doctors": "doctor"}}, "must be a PrivacyUnit"),
        ({"units": {1: UNITS["patients"], "doctors": UNITS["doctors"]}}, "named by a text"),
        ({"units": {"patients": dp.PrivacyUnit.row(), "doctors": UNITS["doctors"]}}, "is each row"),
        ({"units": {"patients": UNITS["doctors"], "doctors": UNITS["doctors"]}}, "in the column 'doctor'"),
        ({"units": UNITS | {"doctors": dp.PrivacyUnit("boss", max_rows=1)}}, "not in table"),
        (
            {
                "units": UNITS
                | {"doctors": dp.PrivacyUnit("doctor", max_rows=1, tables={"visits": "ward -> visits.doctor"})}
            },
            "foreign key",
        ),
        ({"budget": None}, "needs a budget"),
        ({"budget": {"patients": dp.Budget(1)}}, "'doctors' needs a budget"),
        ({"budget": dp.Budget(1)}, "must be a dict"),
        ({"budget": {"patients": 1, "doctors": 2}}, "must be a Budget"),
        ({"budget": BUDGET | {"nurses": dp.Budget(1)}}, "none of the populations"),
        ({"relation": "both"}, "relation"),
        ({"filter": {"patient": "zcdp"}}, "none of the populations"),
        ({"columns": {"price": dp.Range(0, 1)}}, "which no table has"),
        ({"version": ""}, "version"),
        ({"source": {"visits": visits(), "VISITS": visits()}}, "Two tables"),
    ],
)
def test_what_is_not_two_populations_is_refused_with_a_sentence(
    changed: dict[str, Any], match: str, tmp_path: Path
) -> None:
    with pytest.raises((InvalidParameter, UnknownColumn), match=match):
        both(place=tmp_path / "l", **changed)
    if (tmp_path / "l").exists():
        assert Ledger.open(tmp_path / "l").populations() == []


def test_connect_says_where_two_are_connected() -> None:
    with pytest.raises(InvalidParameter, match="one population") as refused:
        dp.connect({"visits": visits()}, unit=UNITS)  # type: ignore[arg-type]  # what somebody will try
    assert "connect_both" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("changed", "error", "match"),
    [
        ({}, InvalidParameter, "needs epsilon"),
        ({"epsilon": -1}, InvalidParameter, "epsilon"),
        ({"epsilon": float("nan")}, InvalidParameter, "epsilon"),
        ({"epsilon": "much"}, InvalidParameter, "epsilon"),
        ({"epsilon": {"patients": 1}}, InvalidParameter, "one for each of"),
        ({"epsilon": {"patients": 1, "nurses": 1}}, InvalidParameter, "one for each of"),
        ({"epsilon": 1, "delta": 1}, InvalidParameter, "delta"),
        ({"epsilon": 1, "noise": "loud"}, InvalidParameter, "noise"),
        ({"epsilon": 1, "noise": "gaussian"}, DiscreetError, "δ"),
        ({"epsilon": 1, "bounds": "auto"}, InvalidParameter, "bounds= is not supported"),
        ({"epsilon": 1, "truncation": 0.1}, InvalidParameter, "truncation= is not supported"),
        ({"epsilon": 1, "dialect": "cobol"}, DiscreetError, "dialect"),
        ({"epsilon": 40}, InvalidParameter, "at most"),
    ],
)
def test_what_is_asked_wrongly_is_refused_and_free(
    session: Session, changed: dict[str, Any], error: type[DiscreetError], match: str
) -> None:
    with pytest.raises(error, match=match):
        session.sql(COUNT, **changed)
    assert left(session) == BUDGET


def test_a_unit_without_a_cap_is_asked_for_one() -> None:
    with (
        both(units=UNITS | {"doctors": dp.PrivacyUnit("doctor")}) as session,
        pytest.raises(MissingBounds, match="doctor"),
    ):
        session.sql(COUNT, epsilon=1)


def test_a_clause_of_one_unit_is_refused(session: Session) -> None:
    with pytest.raises(UnsupportedQuery, match="two populations"):
        session.sql(
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, privacy_unit_column = patient) COUNT(*) "
            "FROM visits",
            epsilon=1,
            dialect="bigquery",
        )


def test_a_closed_session_says_so(session: Session) -> None:
    session.close()
    with pytest.raises(DiscreetError):
        session.sql(COUNT, epsilon=1)
    assert "Session(tables=visits; remaining=unknown" in repr(session)


def test_ids_that_are_no_number_are_one_unit_as_they_are_to_the_database() -> None:
    with both() as session:
        plan = session.plan(COUNT, epsilon=1)
    rows = [(float("nan"), f"d{i}", 1) for i in range(50)] + [(1.0, "x", 1), (1, "y", 1)]
    assert exact_flows(plan, lambda _: rows) == [[2 + 2]]  # of each patient as many rows as the cap lets count
    named = [(row[1], row[0], 1) for row in rows[:50]]
    assert exact_flows(plan, lambda _: named) == [[3]]
