"""Methods of the literature over the same tables and the same fit: MST and AIM.

Guarantee:
    That of `AdaptiveSynthesis`, of which they differ in public rules alone: what is planned, in which shares of the
    budget, and which of it is drawn next (docs/proofs/synth.md).

References:
    McKenna, Miklau, Sheldon 2021 (MST), https://arxiv.org/abs/2108.04978; McKenna, Mullins, Sheldon, Miklau 2022 (AIM,
    Algorithm 2), https://arxiv.org/abs/2201.12677.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.engine.recipe import Draw
from discreet.synth.recipe import AdaptiveSynthesis, Schedule, SynthesisFit, listed

if TYPE_CHECKING:
    from discreet.engine.recipe import Running
    from discreet.plan.plan import Plan

STEPS, LAST = 20, 100
"""Steps of a fit of AIM, and of the last one."""

OF_TREE, SPREAD = 150, 0.3
"""Steps of the fit of a tree, and how far apart components start: what was not measured then stays as it is."""

ROUNDS = 15
"""Draws of pairs for each column: AIM's 16 rounds, of which one pays for the columns."""

DOUBLINGS = 3
"""How often AIM's rounds become twice as precise at most."""


@dataclass(frozen=True)
class TreeSynthesis(AdaptiveSynthesis):
    """MST: a tree of pairs, chosen by how badly independent columns explain them; a third of ρ for each of its steps.

    Here values are merged below 1.5 σ and not 3 σ, scores have the workload's weights, and the mixture is fitted in the
    place of a graphical model.
    """

    @cached_property
    def schedule(self) -> Schedule:
        """The tree's edges in one round."""
        n, edges = len(self.candidates), len(self.columns) - 1
        steps, last = self.steps or (OF_TREE, OF_TREE)
        if not n:
            return Schedule(0, 0, 0, 0, chosen=False)
        third, half = Fraction(1, 3), Fraction(1, 2)
        return Schedule(1, min(n, edges), steps, last, n > edges, columns=third, choice=half, spread=SPREAD)

    def done(self, places: Sequence[int]) -> NDArray[np.bool_]:
        """Return which candidates join columns that are joined already."""
        group = list(range(len(self.columns)))
        for place in places:
            a, b = (group[i] for i in self.candidates[place])
            group = [a if g == b else g for g in group]
        return np.array([group[a] == group[b] for a, b in self.candidates])

    def noise_of_scores(self, sigma: float) -> float:
        """Return 0: scores are distances alone."""
        return 0.0


@dataclass(frozen=True)
class AimSynthesis(AdaptiveSynthesis):
    """AIM: rounds of one pair, each chosen for what it explains badly, twice as precise where the last told nothing.

    As in the paper a column counts as a round of 16 for each column, nine tenths of a round measure and one chooses, a
    round whose pair moved the model by less than its noise is followed by rounds of half of σ and twice of ε, pairs may
    be chosen again, and the last round spends what is left.
    Here all draws are planned before the first. Half of σ is the mean of four draws. Choices are planned at each of
    four precisions as often as they can be needed, of which only some are drawn: they take 29 % of ρ and not 10 %, so σ
    is 1.12 times the paper's, and no round is more than 8 times as precise as the first. Candidates are pairs. Rare
    values are merged, and the mixture is fitted in the place of a graphical model, which has no limit of size.
    """

    @cached_property
    def schedule(self) -> Schedule:
        """As many rounds of one pair as there are draws."""
        steps, last = self.steps or (STEPS, LAST)
        if not self.candidates:
            return Schedule(0, 0, 0, 0, chosen=False)
        return Schedule(ROUNDS * len(self.columns), 1, steps, last, chosen=True, spread=SPREAD)

    @property
    def choices(self) -> dict[str, int]:
        """How often a pair is chosen, at each precision."""
        draws = self.schedule.rounds
        return {f"choice{k}": draws // 4**k for k in range(DOUBLINGS + 1) if draws // 4**k}

    @property
    def shares(self) -> dict[str, Fraction]:
        """Nine tenths of a round for each column and for each draw of a pair, and a tenth of it for each choice."""
        if not self.candidates:
            return super().shares
        weights = {"columns": 9 * len(self.columns), "pair": 9 * self.schedule.rounds}
        weights |= {name: times * 4**k for k, (name, times) in enumerate(self.choices.items())}
        return {name: Fraction(weight, sum(weights.values())) for name, weight in weights.items()}

    def run(self, plan: Plan) -> Running[dict[str, Any]]:
        state: dict[str, Any] = {"columns": (yield Draw("columns")), "rounds": []}
        fit = SynthesisFit(self, plan, state["columns"])
        left, level, top = self.schedule.rounds, 0, len(self.choices) - 1
        while left:
            draws = left if left <= 2 * 4**level else 4**level
            sigma = fit.pair_sigma / math.sqrt(draws)
            place = int((yield Draw(f"choice{level}", {**fit.asked(sigma), "done": self.done([])})))
            total: Any = 0
            for _ in range(draws):
                noisy = yield Draw("pair", fit.place_of(place))
                total = total + noisy[: fit.cells(place)].astype(object)
            left -= draws
            before = fit.expected(place)
            found = [[place, listed(total), draws]]
            state["rounds"].append(found)
            fit.learn(found, is_last=not left)
            moved = float(np.abs(fit.expected(place) - before).sum())
            if moved <= math.sqrt(2 / math.pi) * sigma * fit.cells(place):
                level = min(level + 1, top)
        self.remember(state, fit)
        return state
