"""The SQL audit: sound engines pass, twins with one slip are caught, and the short cut draws what sessions answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet.audit import audit_sql
from discreet.audit.claim import Claim
from discreet.audit.outputs.sampling import Raised
from discreet.audit.sql import Asked, Neighbours, Ours, RandomTables, all_queries
from discreet.audit.sql.audit import look
from discreet.audit.sql.ours import Exact, noisy_tables
from discreet.audit.sql.tables import SCHEMA, TRAPS, UNIT, random_query
from discreet.errors import InvalidParameter
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import PrivacyUnit
from tests.audit.broken_engines import TWINS, RawWithNoise

ALARM = 1e-9

SOUND = {
    "as it comes": Ours(),
    "a large δ": Ours(delta=Fraction(1, 20)),
    "replace": Ours(relation="replace", delta=Fraction(1, 50)),
    "rows": Ours(unit=PrivacyUnit.row(), epsilon=Fraction(1, 2)),
    "gaussian": Ours(noise="gaussian", delta=Fraction(1, 50)),
    "with a report on caps": Ours(truncation=Fraction(1, 4)),
    "one group, many rows": Ours(unit=PrivacyUnit(UNIT, max_groups=1, max_rows=20)),
}


def claim_of(engine: Ours) -> Budget:
    return Budget(epsilon=engine.epsilon, delta=engine.delta)


def tables_for(engine: Ours) -> RandomTables:
    return RandomTables(unit=engine.unit.column, relation=engine.relation)


@pytest.mark.parametrize("name", TWINS)
def test_a_broken_twin_is_caught(name: str) -> None:
    engine = TWINS[name]()
    audit = audit_sql(engine, claimed=claim_of(engine), candidates=40, samples=20_000, seconds=600)
    assert audit.violated and audit.witness is not None
    assert isinstance(audit.witness.x, Asked)


@pytest.mark.parametrize("name", ["as it comes", "replace"])
def test_a_sound_engine_is_not_accused(name: str) -> None:
    engine = SOUND[name]
    audit = audit_sql(
        engine, claimed=claim_of(engine), tables=tables_for(engine), candidates=12, samples=5_000, keep=1, error=ALARM
    )
    assert not audit.violated
    assert len(audit.tried) == 12


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_sound_engines_are_not_accused_at_length(name: str) -> None:
    engine = SOUND[name]
    audit = audit_sql(
        engine, claimed=claim_of(engine), tables=tables_for(engine), candidates=250, seconds=150, keep=4, error=1e-6
    )
    assert not audit.violated
    used = 0.7 if engine.truncation else 0.8  # a quarter is for the report, which few neighbours move
    assert audit.epsilon_lower > used * float(engine.epsilon)  # the noise is used up, so the audit had power


def test_an_engine_with_two_methods_is_caught_by_what_it_raises_and_shows() -> None:
    audit = audit_sql(RawWithNoise(1), claimed=1, candidates=30, seconds=600)
    assert audit.violated and audit.name == "RawWithNoise"


def test_an_engine_that_cannot_open_one_of_two_worlds_is_caught() -> None:
    class Refuses:
        def open(self, tables: Any) -> object:
            if any(row["level"] not in (1, 2, 3) for row in tables["t"]):
                raise ValueError("level is not in the list")
            return None

        def ask(self, connection: object, query: str) -> object:
            return 0

    audit = audit_sql(Refuses(), claimed=1, candidates=3, samples=500)
    assert audit.violated and audit.witness is not None
    assert audit.witness.under_x.estimate == 1.0 and audit.witness.under_neighbour.hits == 0


def test_the_whole_way_through_sessions_is_audited_too() -> None:
    engine = Ours(delta=0)
    audit = audit_sql(engine, claimed=1, bulk=False, candidates=1, samples=15, keep=1, error=ALARM)
    assert not audit.violated


@pytest.mark.slow
def test_the_whole_way_through_sessions_is_audited_at_length() -> None:
    audit = audit_sql(Ours(), claimed=claim_of(Ours()), bulk=False, candidates=30, seconds=200, error=1e-6)
    assert not audit.violated


QUESTION = "SELECT region, COUNT(*) AS n, SUM(x) AS s FROM t GROUP BY region ORDER BY region"


@pytest.fixture(scope="module")
def worlds() -> Neighbours:
    return next(RandomTables().pairs(np.random.default_rng(3)))


@pytest.fixture(scope="module")
def drawn(worlds: Neighbours) -> Iterator[dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]]:
    ours, releases = Ours(delta=0), Ours(delta=0, releases=True)
    with ours.open(worlds.first) as first, ours.open(worlds.second) as second:
        sessions: list[Any] = [ours.ask(first, QUESTION) for _ in range(60)]
        released: Any = releases.bulk(first, second, QUESTION)[0](2_000)
        tables = np.asarray(ours.bulk(first, second, QUESTION)[0](100_000))
        exact = ours.exact(first, QUESTION)
        assert isinstance(exact, Exact)
        names = [m.word for m in exact.plan.question.measures]
        order = [names.index("the number of rows"), names.index("the sum of the clamped values")]
        in_order = np.column_stack([tables[:, 2 * g + m] for g in range(2) for m in order])
    yield {
        "sessions": np.array([[v for row in a["rows"] for v in row[1:]] for a in sessions], dtype=np.float64),
        "releases": np.array([[v for row in a["rows"] for v in row[1:]] for a in released], dtype=np.float64),
        "tables": in_order,
    }


@pytest.mark.parametrize("slow", ["sessions", "releases"])
@pytest.mark.parametrize("column", range(4))
def test_noisy_tables_have_the_law_of_what_is_answered(drawn: Any, slow: str, column: int) -> None:
    # tests of integers: a little jitter makes the law continuous, so that the p-value is right
    rng = np.random.default_rng(column)
    a, b = (drawn[k][:, column] + rng.random(len(drawn[k])) for k in (slow, "tables"))
    assert stats.ks_2samp(a, b).pvalue > ALARM
    # and laws that are wrong are told apart, even by sixty sessions: another cell, half or twice the noise
    shape = np.std(b)
    middle = np.median(b)
    assert stats.ks_2samp(a, b + 2 * shape).pvalue < ALARM
    if slow == "releases":
        for factor in (0.6, 1.7):
            assert stats.ks_2samp(a, middle + factor * (b - middle)).pvalue < ALARM


def test_every_neighbour_that_is_drawn_differs_in_one_unit() -> None:
    for relation in ("add-remove", "replace"):
        pairs = RandomTables(relation=relation).pairs(np.random.default_rng(0))
        for worlds in itertools.islice(pairs, 60):
            first, second = worlds.first["t"], worlds.second["t"]
            units = {repr(r[UNIT]) for r in (*first, *second)}
            changed = [
                u
                for u in units
                if sorted(repr(r) for r in first if repr(r[UNIT]) == u)
                != sorted(repr(r) for r in second if repr(r[UNIT]) == u)
            ]
            assert len(changed) <= 1 and "None" not in changed
            assert all(set(row) == set(SCHEMA) for row in (*first, *second))


def test_every_row_can_be_a_unit() -> None:
    for relation, more in (("add-remove", 1), ("replace", 0)):
        pairs = RandomTables(unit=None, relation=relation).pairs(np.random.default_rng(0))
        for worlds in itertools.islice(pairs, 40):
            first, second = worlds.first["t"], worlds.second["t"]
            assert len(second) - len(first) == more
            assert len({*map(repr, second)} - {*map(repr, first)}) <= 1


def test_random_tables_hold_what_breaks_engines() -> None:
    rows = [
        row
        for worlds in itertools.islice(RandomTables().pairs(np.random.default_rng(1)), 60)
        for row in worlds.second["t"]
    ]
    cells = {repr(v) for row in rows for v in row.values()}
    assert {"nan", "inf", "-inf", "-0.0", "None", "9223372036854775807", "'🎈'", "'e\u0301'"} <= cells
    sizes = [len(w.first["t"]) for w in itertools.islice(RandomTables().pairs(np.random.default_rng(1)), 200)]
    assert min(sizes) == 0 and max(sizes) > 50


def test_most_questions_are_answered_and_some_are_refused() -> None:
    rng = np.random.default_rng(0)
    engine = Ours()
    texts = [*TRAPS, *(random_query(rng) for _ in range(40))]
    with engine.open({"t": []}) as nobody:
        refused = [t for t in texts if isinstance(engine.exact(nobody, t), Raised)]
    assert "SELECT * FROM t" in refused
    assert len(refused) < len(texts) / 5


def test_questions_are_the_same_for_the_same_seed() -> None:
    one, two = (list(itertools.islice(all_queries(np.random.default_rng(7)), 80)) for _ in range(2))
    assert one == two and set(TRAPS) <= set(one) and len(set(one)) > len(TRAPS) + 20


def test_groups_that_nobody_moves_are_left_out_but_for_two() -> None:
    engine = Ours()
    with engine.open({"t": []}) as nobody:
        exact = engine.exact(nobody, "SELECT region, flag, COUNT(*) FROM t GROUP BY region, flag")
    assert isinstance(exact, Exact) and len(exact.cells) == 4
    moved = Exact(exact.plan, exact.cells | {("a", True): [3]})
    first, second = noisy_tables(exact, moved)
    assert np.asarray(first(5)).shape == np.asarray(second(5)).shape == (5, 3)


def test_a_look_sees_what_breaks_a_promise_and_little_else() -> None:
    rng = np.random.default_rng(0)
    claim = Claim.of(1)

    def whole(value: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return value + rng.geometric(1 - np.exp(-1), 2000) - rng.geometric(1 - np.exp(-1), 2000)

    seen = {
        "the same": (whole(0), whole(0)),
        "what was claimed": (whole(0), whole(1)),
        "twice that": (whole(0), whole(2)),
        "its lowest bits": (rng.laplace(size=2000), 1 + rng.laplace(size=2000)),
        "a support": ([0, 1, 2, 3] * 500, [0, 1, 2, 4] * 500),
    }
    excess = {name: look(np.asarray(p), np.asarray(q), claim).excess for name, (p, q) in seen.items()}
    assert excess["the same"] < 5 and excess["what was claimed"] < 5
    assert excess["twice that"] > 8 and excess["a support"] > 8 and excess["its lowest bits"] > 8


@pytest.mark.parametrize("wrong", [{"keep": 0}, {"candidates": 0}, {"error": 0.0}, {"queries": []}, {"tables": []}])
def test_impossible_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        audit_sql(Ours(), claimed=1, **wrong)


def test_random_tables_take_their_own_unit_only() -> None:
    with pytest.raises(InvalidParameter, match="uid"):
        RandomTables(unit="x")
    with pytest.raises(InvalidParameter):
        RandomTables(relation="neither")
