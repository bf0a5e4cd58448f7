"""Local differential privacy: devices that answer with noise of their own, and a server that adds up.

A randomizer is one value on both sides: `randomize` runs on the device, `estimate` on the server.
"""

from __future__ import annotations

from discreet.local.device_budget import DeviceBudget as DeviceBudget
from discreet.local.domain import Domain as Domain
from discreet.local.estimate import Estimate as Estimate
from discreet.local.estimate import Shares as Shares
from discreet.local.frequency import FrequencyOracle as FrequencyOracle
from discreet.local.hadamard import Hadamard as Hadamard
from discreet.local.heavy_hitters import HeavyHitters as HeavyHitters
from discreet.local.local_hashing import LocalHashing as LocalHashing
from discreet.local.means import Duchi as Duchi
from discreet.local.means import Laplace as Laplace
from discreet.local.means import Piecewise as Piecewise
from discreet.local.memoised import Memoised as Memoised
from discreet.local.privunit import PrivUnit as PrivUnit
from discreet.local.randomized_response import RandomizedResponse as RandomizedResponse
from discreet.local.randomizer import Randomizer as Randomizer
from discreet.local.rappor import Rappor as Rappor
from discreet.local.sketches import CountMeanSketch as CountMeanSketch
from discreet.local.sketches import HadamardSketch as HadamardSketch
from discreet.local.subset_selection import SubsetSelection as SubsetSelection
from discreet.local.unary_encoding import UnaryEncoding as UnaryEncoding
from discreet.namespace import public_names


def __dir__() -> list[str]:
    return public_names(globals())
