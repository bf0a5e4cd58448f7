"""The third-party cases that whole releases answer, of quantiles and of chosen bounds: each keeps the case's (ε, δ).

One person's entries lie in as many groups as a case lets a person be in. One quantile is chosen by its rank, several
are read from a noisy tree: cases take turns. Bounds are chosen for a sum, by a first look that is part of the release.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from discreet.audit import Audit, distinguish
from discreet.audit.sql import Ours
from discreet.audit.sql.ours import Connection, shown
from discreet.catalog.schema import Values
from discreet.privacy.unit import PrivacyUnit
from tests.laws.statistical.third_party import Case, cases, engine

BOUNDS = [case for case in cases() if case.collection == "approximate_bounds_dp_test_cases"]
QUANTILES = [case for case in cases() if case.collection == "bounded_quantiles_dp_test_cases"]
ALARM = 1e-9
"""The chance of accusing answers that keep their claim."""

MISSED = 1e-3
FAR = 400
"""So many people with the entries of one are refuted."""

ONE = "SELECT g, QUANTILE_CONT(v, 0.5) AS a FROM t GROUP BY g"
SUM = "SELECT g, SUM(v) AS a FROM t GROUP BY g"
SEVERAL = "SELECT g, QUANTILE_CONT(v, [0.05, 0.5, 0.95]) AS a FROM t GROUP BY g"


def tables(case: Case, people: int = 1) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """The rows of both neighbours: each entry that both have is somebody's, the rest is one person's."""
    s = case.sampled
    groups, times = int(s["max_partitions_contributed"]), int(s["max_contributions_per_partition"])
    rows: list[dict[str, object]] = [{"uid": i, "g": i % groups, "v": v} for i, v in enumerate(s["raw_entry"])]
    (moved,) = set(Counter(s["neighbour_raw_entry"]) - Counter(s["raw_entry"]))
    own: list[dict[str, object]] = [
        {"uid": -1 - k, "g": g, "v": moved} for k in range(people) for g in range(groups) for _ in range(times)
    ]
    return rows, [*rows, *own]


def audited(case: Case, query: str, samples: int, error: float, people: int = 1) -> Audit:
    """Whole releases of this package against the claim of a case."""
    ours = replace(engine(case), releases=True)
    first, second = tables(case, people)
    with ours.open({"t": first}) as one, ours.open({"t": second}) as two:
        draws = ours.bulk(one, two, query)

        def mechanism(side: int, n: int) -> object:
            return draws[side](n)

        return distinguish(mechanism, 0, 1, case.claim, samples=samples, error=error, probes=False)


def question(case: Case) -> str:
    """One quantile or several, by turns."""
    return (ONE, SEVERAL)[QUANTILES.index(case) % 2]


def test_all_cases_of_quantiles_are_there() -> None:
    assert len(QUANTILES) == 39
    assert all(len(set(c.sampled["neighbour_raw_entry"])) <= len(set(c.sampled["raw_entry"])) + 1 for c in QUANTILES)


def check(query: str, samples: int) -> None:
    """One case keeps its claim, and does not where the neighbours lie farther apart."""
    case = next(case for case in QUANTILES if case.name.startswith("Laplace") and not case.sampled["raw_entry"])
    assert not audited(case, query, samples, ALARM).violated
    assert audited(case, query, samples, MISSED, people=FAR).violated


def test_a_quantile_by_rank_keeps_what_its_case_asks_and_farther_neighbours_do_not() -> None:
    check(ONE, 100)


@pytest.mark.slow
def test_quantiles_of_a_tree_keep_what_their_case_asks_and_farther_neighbours_do_not() -> None:
    check(SEVERAL, 200)


@pytest.mark.slow
@pytest.mark.parametrize("case", QUANTILES, ids=str)
def test_quantiles_keep_what_their_cases_ask(case: Case) -> None:
    samples = max(60, 300 // int(case.sampled["max_partitions_contributed"]))
    assert not audited(case, question(case), samples, ALARM).violated


class Chosen(Ours):
    """This package, asked with bounds that it chooses."""

    def ask(self, connection: Connection, query: str) -> object:
        """A new session, with a ledger of its own."""
        with self.session(connection.frames) as session:
            return shown(session.sql(query, epsilon=self.epsilon, delta=self.delta, bounds="values"))


def bounds_audited(case: Case, samples: int, error: float, people: int = 1) -> Audit:
    """Sums with chosen bounds against the claim of a case."""
    s = case.sampled
    times = int(s["max_contributions"])
    ours = Chosen(
        epsilon=s["epsilon"],
        delta=0,
        unit=PrivacyUnit("uid", max_groups=1, max_rows=times),
        columns={"g": Values(0)},
        types={"uid": "BIGINT", "g": "BIGINT", "v": "DOUBLE"},
    )
    rows: list[dict[str, object]] = [{"uid": i, "g": 0, "v": float(v)} for i, v in enumerate(s["raw_entry"])]
    (moved,) = set(Counter(s["neighbour_raw_entry"]) - Counter(s["raw_entry"]))
    own: list[dict[str, object]] = [
        {"uid": -1 - k, "g": 0, "v": float(moved)} for k in range(people) for _ in range(times)
    ]
    with ours.open({"t": rows}) as one, ours.open({"t": [*rows, *own]}) as two:
        return distinguish(
            lambda side: ours.ask(two if side else one, SUM),
            0,
            1,
            case.claim,
            samples=samples,
            error=error,
            probes=False,
        )


def test_all_cases_of_bounds_are_there() -> None:
    assert len(BOUNDS) == 14


@pytest.mark.slow
@pytest.mark.parametrize("case", BOUNDS, ids=str)
def test_sums_with_chosen_bounds_keep_what_their_cases_ask(case: Case) -> None:
    assert not bounds_audited(case, 60, ALARM).violated


@pytest.mark.slow
def test_farther_neighbours_are_told_apart_by_sums_with_chosen_bounds() -> None:
    # Sixty would need the two sides told apart without a single mistake.
    assert bounds_audited(BOUNDS[0], 200, MISSED, people=FAR).violated
