"""The third-party statistical cases as values, and this package asked what each of them asks."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.loss import PrivacyLoss
from discreet.audit.outputs.sampling import Raised
from discreet.audit.sql import Ours
from discreet.audit.sql.ours import Exact, noisy_tables
from discreet.catalog.schema import Range, Values
from discreet.mechanisms import Gaussian, Laplace
from discreet.privacy.guarantee import Budget
from discreet.privacy.unit import PrivacyUnit

FILE = Path(__file__).parents[2] / "fixtures" / "third_party" / "google_statistical_cases.json"

Draw: TypeAlias = Callable[[int], NDArray[np.float64]]


@dataclass(frozen=True)
class Case:
    """One case: whose it is, its name, its parameters, and the factors that hold for all of its collection."""

    collection: str
    name: str
    tested: Mapping[str, Any]
    sampled: Mapping[str, Any]
    factors: Mapping[str, float]
    votes: int

    def __str__(self) -> str:
        return f"{self.collection.removesuffix('_test_cases')}: {self.name}"

    @property
    def claim(self) -> Budget:
        """What the case says that answers are."""
        return Budget(epsilon=self.tested["epsilon"], delta=self.tested.get("delta", 0.0))

    @property
    def samples(self) -> int:
        """How many answers of each neighbour the case is decided with, all votes together."""
        return int(self.sampled["number_of_samples"]) * self.votes


@cache
def cases() -> tuple[Case, ...]:
    """All of them."""
    found = []
    for collection, parts in json.loads(FILE.read_text(encoding="utf-8")).items():
        (listed,) = (part for part in parts.values() if isinstance(part, list))
        votes = parts["voting_parameters"]["number_of_votes"]
        for case in listed:
            (sampled,) = (v for k, v in case.items() if k.endswith("sampling_parameters"))
            (tested,) = (v for k, v in case.items() if k.endswith("test_parameters"))
            name = case["name"].strip()
            found.append(Case(collection, name, tested, sampled, parts["validity_parameters"], votes))
    return tuple(found)


@dataclass(frozen=True)
class Pair:
    """The answers of two neighbours, a row of numbers each."""

    first: Draw
    second: Draw


ASKED: Mapping[str, str] = MappingProxyType(
    {
        "count_dp_test_cases": "SELECT g, COUNT(*) AS a FROM t GROUP BY g",
        "bounded_sum_dp_test_cases": "SELECT g, SUM(v) AS a FROM t GROUP BY g",
        "long_bounded_sum_dp_test_cases": "SELECT g, SUM(v) AS a FROM t GROUP BY g",
        "bounded_mean_dp_test_cases": "SELECT g, AVG(v) AS a FROM t GROUP BY g",
    }
)
"""The question that each collection of aggregates stands for."""

COMBINED: Mapping[str, str] = MappingProxyType(
    {"bounded_stdv_dp_test_cases": "SELECT g, STDDEV_POP(v) AS a FROM t GROUP BY g"}
)
"""Collections whose answer combines several columns, of which one person need not move each as far as it may."""

TOO_FAR = tuple(
    f"Gaussian noise, {entries}, many partitions contributed"
    for entries in ("empty stdv", "one entry", "multiple entries")
)
"""Cases of deviations that put all entries of one person into one partition, 25 instead of the root of 25, as if noise
were by their sum: with Gaussian noise, which is by the root of the sum of squares, that is five people. They are asked
with five entries, as the cases of sums and means are.
"""

TREES: tuple[str, ...] = ("bounded_quantiles_dp_test_cases", "approximate_bounds_dp_test_cases")
"""Collections that are not answered from cells that could be drawn here; tests/audit asks them for whole releases."""

CLOSENESS = MappingProxyType({"laplace_closeness_test_cases": Laplace, "gaussian_closeness_test_cases": Gaussian})
"""The mechanisms whose law is compared with a given one."""


def engine(case: Case) -> Ours:
    """This package with the parameters of a case: one person's caps, bounds and noise."""
    s = case.sampled
    gaussian = s["noise_type"] == "GAUSSIAN"
    partitions = int(s["max_partitions_contributed"])
    whole = case.collection.startswith("long")
    v = "BIGINT" if whole else "DOUBLE"
    facts: dict[str, Any] = {"g": Values(*range(partitions))}
    if "lower_bound" in s:
        facts["v"] = Range(s["lower_bound"], s["upper_bound"], integer=whole)
    return Ours(
        epsilon=s["epsilon"],
        delta=s["delta"] if gaussian else 0,
        unit=PrivacyUnit("uid", max_groups=partitions, max_rows=int(s.get("max_contributions_per_partition", 1))),
        columns=facts,
        noise="gaussian" if gaussian else "laplace",
        types={"uid": "BIGINT", "g": "BIGINT", "v": v},
    )


def one_person_apart(case: Case) -> Case:
    """The case, with as many entries added as the noise is for; see `TOO_FAR`."""
    s = case.sampled
    if case.name not in TOO_FAR:
        return case
    most = len(s["raw_entry"]) + math.isqrt(int(s["max_partitions_contributed"]))
    return replace(case, sampled={**s, "neighbour_raw_entry": s["neighbour_raw_entry"][:most]})


def neighbours(case: Case) -> tuple[Exact, Exact]:
    """The exact cells of both lists of entries, as the engine bounds them; counts are given as they are."""
    ours, query = engine(case), {**ASKED, **COMBINED}[case.collection]
    if case.collection.startswith("count"):
        with ours.open({"t": []}) as nobody:
            plan = ours.plan(nobody, query)
        lists = case.sampled["raw_increment_by"], case.sampled["neighbour_raw_increment_by"]
        one, two = (Exact(plan, {(0,): [sum(entries)]}) for entries in lists)
        return one, two
    found = []
    for entries in (case.sampled["raw_entry"], case.sampled["neighbour_raw_entry"]):
        rows: list[dict[str, object]] = [{"uid": i, "g": 0, "v": v} for i, v in enumerate(entries)]
        with ours.open({"t": rows}) as connection:
            exact = ours.exact(connection, query)
        assert not isinstance(exact, Raised), exact
        found.append(Exact(exact.plan, {(0,): exact.cells[0,]}))
    return found[0], found[1]


def cost(case: Case) -> PrivacyLoss:
    """What this package says that the case's question costs: the whole curve."""
    return PrivacyLoss(neighbours(case)[0].plan.allocation.events)


def answers(case: Case) -> Pair:
    """What this package answers."""
    return Pair(*_arrays(*neighbours(case)))


def farther(case: Case) -> Pair:
    """The same noise on neighbours that lie farther apart than a person's caps allow."""
    first, second = neighbours(case)
    factor = Fraction(case.factors["distance_specificity"])
    ((key, one),) = first.cells.items()
    moved = [a + _away(factor * (b - a)) for a, b in zip(one, second.cells[key], strict=True)]
    return Pair(*_arrays(first, Exact(second.plan, {key: moved})))


def failing(case: Case) -> Pair:
    """The first neighbour twice; one of the two times it fails now and then, visibly."""
    first, _ = neighbours(case)
    one, two = _arrays(first, first)
    chance = case.tested["delta_tolerance"] * case.factors["failure_specificity"]
    rng = np.random.default_rng(1)

    def fails(n: int) -> NDArray[np.float64]:
        drawn = two(n)
        drawn[rng.random(n) < chance] = np.nan
        return drawn

    return Pair(one, fails)


def noise_of(case: Case) -> Draw:
    """The mechanism of a case of closeness at its input."""
    s = case.sampled
    l0, linf, n = s["l0_sensitivity"], Fraction(s["linf_sensitivity"]), int(s["number_of_samples"])
    if case.collection.startswith("laplace"):
        mechanism: Any = Laplace(epsilon=s["epsilon"], sensitivity=l0 * linf, dimension=n)
    else:
        l2 = Fraction(math.nextafter(math.sqrt(l0), math.inf)) * linf
        mechanism = Gaussian(epsilon=s["epsilon"], delta=s["delta"], sensitivity=l2, dimension=n)
    return lambda size: mechanism.release(np.full(size, s["raw_input"]))


def _arrays(first: Exact, second: Exact) -> tuple[Draw, Draw]:
    one, two = noisy_tables(first, second)
    return (lambda n: np.asarray(one(n))), (lambda n: np.asarray(two(n)))


def _away(x: Fraction) -> int:
    """The next whole number that is not nearer to 0."""
    return math.ceil(x) if x > 0 else math.floor(x)
