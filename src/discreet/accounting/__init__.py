"""What uses of mechanisms cost together: losses, conversions, calibration. Names no mechanism.

Every constructor here returns a `PrivacyLoss`; add them, multiply them by a count, and ask for `epsilon` or `delta`.

>>> loss = gaussian(noise_multiplier=10) * 20 + pure(0.1)
>>> round(loss.epsilon(delta=1e-6), 2)
2.04
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from discreet.accounting.calibrate import calibrate as calibrate
from discreet.accounting.constructors import approximate as approximate
from discreet.accounting.constructors import discrete_gaussian as discrete_gaussian
from discreet.accounting.constructors import discrete_laplace as discrete_laplace
from discreet.accounting.constructors import exponential as exponential
from discreet.accounting.constructors import from_densities as from_densities
from discreet.accounting.constructors import from_pmfs as from_pmfs
from discreet.accounting.constructors import gaussian as gaussian
from discreet.accounting.constructors import gdp as gdp
from discreet.accounting.constructors import geometric as geometric
from discreet.accounting.constructors import laplace as laplace
from discreet.accounting.constructors import permute_and_flip as permute_and_flip
from discreet.accounting.constructors import pure as pure
from discreet.accounting.constructors import random_allocation as random_allocation
from discreet.accounting.constructors import randomized_response as randomized_response
from discreet.accounting.constructors import renyi as renyi
from discreet.accounting.constructors import staircase as staircase
from discreet.accounting.constructors import zcdp as zcdp
from discreet.accounting.loss import PrivacyLoss as PrivacyLoss
from discreet.accounting.loss import parallel as parallel
from discreet.namespace import public_names

if TYPE_CHECKING:
    from discreet.accounting.odometer import Odometer as Odometer
    from discreet.privacy.grouping import textbook_group as textbook_group

_HOMES = {"Odometer": "discreet.accounting.odometer", "textbook_group": "discreet.privacy.grouping"}
"""Public names that are loaded when they are first used, so that importing the package stays quick."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'discreet.accounting' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*public_names(globals()), *_HOMES})
