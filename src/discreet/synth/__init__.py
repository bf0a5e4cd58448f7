"""Synthetic data sets with differential privacy: rows that look like people's, made of noisy tables alone, and
census-style tables of all levels that agree.
"""

from __future__ import annotations

from discreet.namespace import public_names
from discreet.synth.answers import Answers as Answers
from discreet.synth.answers import OnlineAnswer as OnlineAnswer
from discreet.synth.asked import AIM as AIM
from discreet.synth.asked import MST as MST
from discreet.synth.asked import MWEM as MWEM
from discreet.synth.asked import Adaptive as Adaptive
from discreet.synth.asked import Independent as Independent
from discreet.synth.census import Hierarchy as Hierarchy
from discreet.synth.census import HierarchyErrors as HierarchyErrors
from discreet.synth.census import HierarchyPlan as HierarchyPlan
from discreet.synth.hierarchical import hierarchy as hierarchy
from discreet.synth.synthetic import CountInterval as CountInterval
from discreet.synth.synthetic import Synthetic as Synthetic
from discreet.synth.synthetic import SyntheticReport as SyntheticReport
from discreet.synth.synthetic import SyntheticRows as SyntheticRows
from discreet.synth.synthetic import load as load


def __dir__() -> list[str]:
    return public_names(globals())
