"""Whatever gives a guarantee has an audit and a broken twin in the table of audits."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType

import discreet
from discreet import mechanisms, plan
from discreet.mechanisms import Mechanism
from discreet.plan.measures.measure import Measure
from tests.contracts.audit_row import ENGINE
from tests.contracts.audits import AUDITS
from tests.house.tree import listed

ESTIMATORS = ("learn", "synth", "sketch", "local")
"""Packages each of whose public classes gives a guarantee of its own."""

NO_GUARANTEE = {
    "CountInterval": "made of noisy tables",
    "OnlineAnswer": "an answer of `Answers`",
    "ChosenModel": "made of what `choose` released",
    "Domain": "a public list of values",
    "Estimate": "made of reports that were released",
    "EvaluatedNumber": "made of noisy counts",
    "Evaluation": "made of noisy counts",
    "Shares": "made of reports that were released",
    "HierarchyErrors": "made of a plan",
    "HierarchyPlan": "a plan",
    "Synthetic": "made of noisy tables",
    "SyntheticReport": "made of noisy tables",
    "SyntheticRows": "made of noisy tables",
}
"""Public classes of theirs that promise nothing, with what they are; those that cannot be made are none either."""


def concrete(root: type, package: ModuleType) -> set[str]:
    """The classes below `root` that can be made, in all modules of a package."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    found, ahead = set[str](), [root]
    while ahead:
        kind = ahead.pop()
        ahead += kind.__subclasses__()
        if not inspect.isabstract(kind) and kind.__module__.startswith(package.__name__):
            found.add(kind.__name__)
    return found


def estimators() -> set[str]:
    """The public classes of the packages of estimators that are there."""
    there = {m.name for m in pkgutil.iter_modules(discreet.__path__)}
    modules = [importlib.import_module(f"discreet.{name}") for name in ESTIMATORS if name in there]
    public = [getattr(m, name) for m in modules for name in listed(m)]
    made = {kind.__name__ for kind in public if inspect.isclass(kind) and not inspect.isabstract(kind)}
    return made - NO_GUARANTEE.keys()


def needed() -> set[str]:
    """The names of all that needs an audit."""
    return concrete(Mechanism, mechanisms) | concrete(Measure, plan) | estimators() | {ENGINE}


def test_every_mechanism_aggregate_and_estimator_has_an_audit_with_a_broken_twin() -> None:
    assert needed() == {row.of for row in AUDITS}, "give it a row in tests/contracts/families/"


def test_the_house_sees_what_is_there() -> None:
    assert {"Laplace", "Threshold", "NoisyMax", "RowCount", "CentredTotal"} <= needed()


def test_every_row_of_audits_says_what_it_would_find() -> None:
    names = [str(row) for row in AUDITS]
    assert len(names) == len(set(names))
    assert all(row.power and 500 <= row.ci < row.long for row in AUDITS)
