"""The auditor: given any callable and a claimed guarantee, find a violation or a lower bound on the real loss.

It uses public names only and trusts nobody, this package included. See docs/decisions/0004-auditor.md.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from discreet.audit.claim import Claim as Claim
from discreet.audit.finding import Chance as Chance
from discreet.audit.finding import Probe as Probe
from discreet.audit.finding import Tradeoff as Tradeoff
from discreet.audit.finding import Tried as Tried
from discreet.audit.finding import Witness as Witness
from discreet.audit.result import Audit as Audit
from discreet.namespace import public_names

if TYPE_CHECKING:
    from discreet.audit.canaries import Canaries as Canaries
    from discreet.audit.canaries import many_runs as many_runs
    from discreet.audit.canaries import one_run as one_run
    from discreet.audit.exact import Finite as Finite
    from discreet.audit.exact import finite as finite
    from discreet.audit.games import attributes as attributes
    from discreet.audit.games import game as game
    from discreet.audit.neighbours import Datasets as Datasets
    from discreet.audit.neighbours import Numbers as Numbers
    from discreet.audit.neighbours import Vectors as Vectors
    from discreet.audit.played import Game as Game
    from discreet.audit.probes.floating import probe_floats as probe_floats
    from discreet.audit.probes.stateful import probe_state as probe_state
    from discreet.audit.search import assert_private as assert_private
    from discreet.audit.search import refute as refute
    from discreet.audit.sequential import distinguish as distinguish
    from discreet.audit.sequential import lower_bound as lower_bound
    from discreet.audit.sql import audit_sql as audit_sql

_HOMES = MappingProxyType(
    {
        **dict.fromkeys(("Canaries", "many_runs", "one_run"), "canaries"),
        **dict.fromkeys(("Datasets", "Numbers", "Vectors"), "neighbours"),
        **dict.fromkeys(("Finite", "finite"), "exact"),
        **dict.fromkeys(("Game", "attributes", "game"), "games"),
        **dict.fromkeys(("assert_private", "refute"), "search"),
        "audit_sql": "sql",
        "distinguish": "sequential",
        "lower_bound": "sequential",
        "probe_floats": "probes.floating",
        "probe_state": "probes.stateful",
    }
)
"""Public names that are loaded when they are first used."""


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"discreet.audit.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'discreet.audit' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*public_names(globals()), *_HOMES})
