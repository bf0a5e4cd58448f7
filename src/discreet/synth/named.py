"""Methods of the literature: MST and AIM, over the same tables and the same fit, and MWEM, which learns the cells of
pairs by multiplicative weights over all combinations of cells.

The weights are an expected number of rows for each combination. Where a query q was measured as m, each is multiplied
by exp(q(x)·(m − q(A))/2n). That brings them nearer to the data in relative entropy, which is at most ln N at the start:
so few measurements are needed, whatever the queries are.

Guarantee:
    MST and AIM have that of `AdaptiveSynthesis`, of which they differ in public rules alone: what is planned, in which
    shares of the budget, and which of it is drawn next. MWEM is (ε, δ)-DP for one person, as all recipes of noisy
    counts and choices (docs/proofs/synth.md). The bound on errors holds with the stated probability over the noise.

References:
    McKenna, Miklau, Sheldon 2021 (MST), https://arxiv.org/abs/2108.04978; McKenna, Mullins, Sheldon, Miklau 2022 (AIM,
    Algorithm 2), https://arxiv.org/abs/2201.12677; Hardt, Ligett, McSherry 2012 (MWEM, Theorem 2.2),
    https://arxiv.org/abs/1012.4763.
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
from discreet.engine.row_factor import RowPlaces
from discreet.errors import InvalidParameter
from discreet.mechanisms.additive import RoundedGaussianNoise
from discreet.plan.parts import person_part, plan_recipe
from discreet.privacy.unit import Sensitivity
from discreet.synth.domain import Floats, Integers, SynthColumn
from discreet.synth.recipe import AdaptiveSynthesis, Schedule, SynthesisFit, listed, with_laws
from discreet.synth.synthetic import SyntheticModel, TableFact

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.engine.person_parts import Parts, PeopleRows
    from discreet.engine.recipe import Running
    from discreet.plan.plan import Plan


MOST_COMBINATIONS = 1 << 16  # the most combinations of cells of all columns
MOST_ROUNDS = 200  # the most rounds of MWEM
GUESSED_ROWS = 10_000  # of how many rows MWEM's rounds are chosen where the number is private
FOR_ROWS = Fraction(1, 20)  # the share of the budget for the number of rows, where it is private
DOUBT = 0.05  # the probability with which a stated bound may fail
_LARGEST = 2**40  # what is taken for a noisy number of rows


class CellWeights:
    """An expected number of rows for each combination of cells; public."""

    def __init__(self, sizes: Sequence[int], rows: int) -> None:
        """Start with all combinations alike."""
        self.rows = float(min(max(rows, 1), _LARGEST))
        n = math.prod(sizes)
        if n > MOST_COMBINATIONS:
            raise InvalidParameter(
                f"these columns have {n:,} combinations of values and bins, and at most {MOST_COMBINATIONS:,} are "
                "weighed.",
                hint="fewer columns, or fewer bins=",
            )
        self.held = np.full([*sizes], self.rows / n)

    def guess(self, chosen: NDArray[np.bool_]) -> float:
        """Return the expected number of rows in some combinations."""
        return float(self.held[chosen].sum())

    def learn(self, chosen: NDArray[np.bool_], noisy: float) -> None:
        """Take a noisy number of rows in some combinations."""
        apart = (min(max(noisy, 0.0), self.rows) - self.guess(chosen)) / (2 * self.rows)
        self.held = np.where(chosen, self.held * math.exp(apart), self.held)
        self.held *= self.rows / self.held.sum()


def model_of(columns: Sequence[SynthColumn], held: Floats, promise: str, zeros: Any = ()) -> SyntheticModel:
    """Return the data set of an expected number of rows for each combination: all but the largest column are fixed."""
    sizes = [column.size for column in columns]
    last = int(np.argmax(sizes))
    lines = np.moveaxis(held, last, -1).reshape(-1, sizes[last])
    share = lines.sum(axis=1)
    kept = share > 0
    others = [i for i in range(len(sizes)) if i != last]
    at = np.unravel_index(np.flatnonzero(kept), [sizes[i] for i in others]) if others else ()
    own: list[Floats] = [np.zeros(0)] * len(sizes)
    own[last] = lines[kept] / share[kept, None]
    for i, cells in zip(others, at, strict=True):
        own[i] = np.eye(sizes[i])[cells]
    facts = tuple(TableFact((column.name,), column.size, None, 0) for column in columns)
    maps = tuple(np.arange(size) for size in sizes)
    weights = share[kept] / share.sum()
    matrix = np.concatenate(own, axis=1).astype(np.float32)
    return SyntheticModel(tuple(columns), matrix, float(held.sum()), facts, zeros, maps, weights, promise)


@dataclass(frozen=True)
class WeightsSynthesis(AdaptiveSynthesis):
    """MWEM: in each round the cell of a pair that is worst explained is chosen and measured.

    The data set is the mean of all rounds. Noise is Gaussian where the paper has Laplace's.
    """

    public_rows: int | None = None  # the number of rows, where it is public; None where it is measured

    @cached_property
    def offsets(self) -> Integers:
        """Where the cells of each pair begin among all, and how many there are."""
        return np.cumsum([0, *(self.sizes[a] * self.sizes[b] for a, b in self.candidates)])

    @cached_property
    def schedule(self) -> Schedule:
        """As many rounds as make the bound least, one cell of a pair each."""
        log_n, rows = math.log(math.prod(self.sizes)), self.public_rows or GUESSED_ROWS
        bounds = {
            t: self._bound(t, rows, log_n, *_widths(self.rho, t, self.per_person)) for t in range(1, MOST_ROUNDS + 1)
        }
        return Schedule(min(bounds, key=lambda t: bounds[t]), 1, 0, 0, chosen=True)

    @property
    def shares(self) -> dict[str, Fraction]:
        """Half for choices, and half for cells, but for the number of rows."""
        rest = Fraction(1) if self.public_rows else 1 - FOR_ROWS
        rows = {} if self.public_rows else {"rows": FOR_ROWS}
        return {**rows, "cell": rest / 2, "choice": rest / 2}

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        CellWeights(self.sizes, 1)  # refuses what is too large
        rows = self.rows(tables)
        m, queries, times = rows.most, int(self.offsets[-1]), self.schedule.rounds
        one = Sensitivity(1, m)
        made = [] if self.public_rows else [person_part("rows", rows, width=1, norms=one, kind="places")]
        made.append(person_part("cell", rows, width=1, norms=one, kind="places", times=times))
        # a person's rows in one cell are from 0 to m, so that they move each score by m, also where they are replaced
        norms = Sensitivity(queries, m)
        made.append(person_part("choice", rows, width=queries, norms=norms, kind="whole", times=times))
        parts = with_laws(made, self.shares, self.epsilon * part, self.delta)
        return plan_recipe(parts, epsilon=self.epsilon * part, delta=self.delta, parameters={"of": repr(self)})

    def run(self, plan: Plan) -> Running[dict[str, Any]]:
        rows = self.public_rows
        if rows is None:
            (noisy,) = yield Draw("rows")
            rows = int(noisy)
        state: dict[str, Any] = {"rows": rows, "steps": []}
        weights = CellWeights(self.sizes, rows)
        for _ in range(self.schedule.rounds):
            place = yield Draw("choice", self._expected(weights))
            (noisy,) = yield Draw("cell", int(place))
            state["steps"].append([int(place), int(noisy)])
            weights.learn(self._cell(int(place)), float(noisy))
        return state

    def each(self, people: PeopleRows, of: str, args: Any) -> Parts:
        inside = np.ones(len(people.matrix), np.bool_)
        if of == "cell":
            pair, cell = self._at(args)
            for i, own in zip(self.candidates[pair], cell, strict=True):
                inside &= people.matrix[:, i] == own
        return rows_where(people, inside)

    def whole(self, people: PeopleRows, of: str, args: Any) -> Integers:
        kept, plain = people.prepared, [np.arange(size) for size in self.sizes]
        if "exact" not in kept:
            kept["exact"] = np.concatenate([table.reshape(-1) for table in self._exact(people, plain, self.sizes)])
        return np.asarray(np.abs(kept["exact"] - args))

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Return the noisy cells."""
        rows = [["rows", state["rows"]]]
        for place, noisy in state["steps"]:
            pair, cell = self._at(place)
            named = [f"{self.columns[i].name} = {c}" for i, c in zip(self.candidates[pair], cell, strict=True)]
            rows.append([" and ".join(named), noisy])
        return ["cell", "counts"], rows

    def model(self, plan: Plan, kept: Any) -> SyntheticModel:
        """Return the mean of all rounds."""
        weights, total = CellWeights(self.sizes, kept["rows"]), np.zeros(self.sizes)
        for place, noisy in kept["steps"]:
            total += weights.held
            weights.learn(self._cell(place), float(noisy))
        mean = total / len(kept["steps"])
        return model_of(self.columns, mean, self.promise(plan, round(weights.rows)), self.zeros)

    def promise(self, plan: Plan, rows: int | None) -> str:
        """Return the bound on the error of every cell of a pair, in words; of so many rows."""
        rows = self.public_rows or rows
        said = f"{self.schedule.rounds} cells of pairs are measured, of {int(self.offsets[-1]):,}."
        if rows is None:
            return f"{said} With rows=, the bound on the error of every cell follows."
        bound = self.bound(plan, rows)
        return (
            f"{said} With a probability of {1 - DOUBT:.0%}, every cell of a pair is within {bound:,.0f} rows of "
            f"{rows:,}" + ("." if bound < rows else ", which says nothing: there are too few rows for this ε.")
        )

    def bound(self, plan: Plan, rows: int) -> float:
        """Return how far every cell of a pair is from the data at most, with a probability of 95 %."""
        parts: dict[str, Any] = {part.name: part.law for part in plan.parts}
        sigma, rate = parts["cell"].noise.sigma, parts["choice"].selection.epsilon
        off = 0 if self.public_rows else parts["rows"].noise.quantile(1 - Fraction(DOUBT) / 3)
        log_n = math.log(math.prod(self.sizes))
        return self._bound(self.schedule.rounds, rows, log_n, float(sigma), float(rate), off)

    def _bound(self, rounds: int, rows: int, log_n: float, sigma: float, rate: float, off: int = 0) -> float:
        """Return the bound of so many rounds (docs/proofs/synth.md): `off` is how far the number of rows may be off."""
        noise = RoundedGaussianNoise(Fraction(sigma)).quantile(1 - Fraction(DOUBT) / (3 * rounds)) + off
        missed = 2 * self.per_person / rate * math.log(int(self.offsets[-1]) * rounds * 3 / DOUBT) + 1
        return math.sqrt(4 * (rows + off) ** 2 * log_n / rounds + noise**2) + missed + 3 * off

    def _expected(self, weights: CellWeights) -> Integers:
        """Return the expected counts of all cells of pairs, rounded."""
        axes = range(len(self.sizes))
        found = [weights.held.sum(axis=tuple(i for i in axes if i not in pair)).reshape(-1) for pair in self.candidates]
        return np.asarray(np.rint(np.concatenate(found)), np.int64)

    def _at(self, place: int) -> tuple[int, tuple[int, ...]]:
        """Return the pair and the cells of a place."""
        pair = int(np.searchsorted(self.offsets, place, side="right")) - 1
        _, b = self.candidates[pair]
        return pair, divmod(place - int(self.offsets[pair]), self.sizes[b])

    def _cell(self, place: int) -> NDArray[np.bool_]:
        """Return the combinations of a cell."""
        pair, cell = self._at(place)
        chosen = np.ones(self.sizes, np.bool_)
        for i, own in zip(self.candidates[pair], cell, strict=True):
            inside = np.arange(self.sizes[i]) == own
            chosen &= inside.reshape([-1 if k == i else 1 for k in range(len(self.sizes))])
        return chosen


def _widths(rho: float, rounds: int, most: int) -> tuple[float, float]:
    """Return σ of a cell and ε of a choice where half of ρ is for each."""
    return most / math.sqrt(rho / rounds), math.sqrt(4 * rho / rounds)


def rows_where(people: PeopleRows, inside: NDArray[np.bool_]) -> RowPlaces:
    """Return people's parts that count some of their rows. Private."""
    starts = np.concatenate([[0], np.cumsum(inside)])[people.starts]
    return RowPlaces(starts, np.zeros((int(inside.sum()), 1), np.int64), 1)


STEPS, LAST = 20, 100  # steps of a fit of AIM, and of the last one

OF_TREE, SPREAD = 150, 0.3
"""Steps of the fit of a tree, and how far apart components start: what was not measured then stays as it is."""

ROUNDS = 15  # draws of pairs for each column: AIM's 16 rounds, of which one pays for the columns
DOUBLINGS = 3  # how often AIM's rounds become twice as precise at most


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
