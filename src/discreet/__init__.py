"""discreet: the private query layer for data about people.

>>> import discreet as dp
>>> dp.Budget(epsilon=1)
Budget(epsilon=1, delta=0)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from discreet import errors as errors
from discreet.privacy.guarantee import Budget as Budget
from discreet.privacy.unit import PrivacyUnit as PrivacyUnit

if TYPE_CHECKING:
    from discreet import accounting as accounting
    from discreet import audit as audit
    from discreet import finite as finite
    from discreet import learn as learn
    from discreet import local as local
    from discreet import mechanisms as mechanisms
    from discreet import plots as plots
    from discreet import sketch as sketch
    from discreet import synth as synth
    from discreet import testing as testing
    from discreet.catalog.listed_keys import Keys as Keys
    from discreet.catalog.schema import Range as Range
    from discreet.catalog.schema import Values as Values
    from discreet.engine.connect import connect as connect
    from discreet.engine.connect import connect_both as connect_both
    from discreet.engine.release import Release as Release
    from discreet.engine.session import Session as Session
    from discreet.ledger.ledger import Ledger as Ledger
    from discreet.mechanisms import mechanism as mechanism
    from discreet.plan.plan import Plan as Plan

__all__ = [
    "Budget",
    "Keys",
    "Ledger",
    "Plan",
    "PrivacyUnit",
    "Range",
    "Release",
    "Session",
    "Values",
    "accounting",
    "audit",
    "connect",
    "connect_both",
    "errors",
    "finite",
    "learn",
    "local",
    "mechanism",
    "mechanisms",
    "plots",
    "sketch",
    "synth",
    "testing",
]

__version__ = "0.1.0"

_HOMES = {
    "Keys": "discreet.catalog.listed_keys",
    "Ledger": "discreet.ledger.ledger",
    "Plan": "discreet.plan.plan",
    "Range": "discreet.catalog.schema",
    "Release": "discreet.engine.release",
    "Session": "discreet.engine.session",
    "Values": "discreet.catalog.schema",
    "connect": "discreet.engine.connect",
    "connect_both": "discreet.engine.connect",
    "mechanism": "discreet.mechanisms",
}
"""Public names that are loaded when they are first used, so that importing the package stays quick."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in (
        "accounting",
        "audit",
        "finite",
        "learn",
        "local",
        "mechanisms",
        "plots",
        "sketch",
        "synth",
        "testing",
    ):
        value = importlib.import_module(f"discreet.{name}")
    else:
        raise AttributeError(f"module 'discreet' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
