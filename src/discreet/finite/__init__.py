"""The laboratory of small worlds: everything that is finite about privacy, tried out in fractions.

Databases are histograms, sensitivities are found by trying every pair of neighbours, a mechanism is a stochastic
matrix, and what it keeps is computed and not estimated. Nothing here is for private data: what is computed is exact,
and messages quote what they were given.

>>> M = Mechanism({0: [0.75, 0.25], 1: [0.25, 0.75]})
>>> (M & M).ratio()
Fraction(9, 1)
"""

from __future__ import annotations

from discreet.finite.histograms import Database as Database
from discreet.finite.histograms import databases as databases
from discreet.finite.histograms import neighbours as neighbours
from discreet.finite.laws import exponential as exponential
from discreet.finite.laws import geometric as geometric
from discreet.finite.laws import randomized_response as randomized_response
from discreet.finite.measured import OutputEvent as OutputEvent
from discreet.finite.mechanism import Mechanism as Mechanism
from discreet.finite.sensitivities import Attained as Attained
from discreet.finite.sensitivities import local_sensitivity as local_sensitivity
from discreet.finite.sensitivities import sensitivity as sensitivity
from discreet.finite.sensitivities import smooth_sensitivity as smooth_sensitivity
from discreet.finite.synthesis import Optimal as Optimal
from discreet.finite.synthesis import optimal as optimal
from discreet.finite.synthesis import remapped as remapped
from discreet.namespace import public_names


def __dir__() -> list[str]:
    return public_names(globals())
