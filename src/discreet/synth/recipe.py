"""Noisy tables for a synthetic data set, as a recipe of the one pipeline: all columns, and pairs that are chosen.

All columns are measured at once. Then in each of a few rounds the pairs that the fitted mixture explains worst are
chosen by the exponential mechanism, measured, and the mixture is fitted to all noisy tables. How many rounds there are,
how many pairs in each and how the budget is split is one public rule for all data.

Guarantee:
    (ε, δ)-DP for one person under the relation of the account. A person's rows are at most `per_person`; their
    histogram over a table is held to its norms in integers, and they move each score by at most the largest weight
    times `per_person` (twice that under replace). The price is that of Gaussian noise of each table and of bounded
    range for each choice (docs/proofs/synth.md).

References:
    McKenna, Mullins, Sheldon, Miklau 2022 (AIM, its score), https://arxiv.org/abs/2201.12677; Dong, Durfee, Rogers 2020
    (bounded range), https://arxiv.org/abs/1909.13830; Bun, Steinke 2016 (zCDP), https://arxiv.org/abs/1605.02065.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.calibrate import calibrate
from discreet.accounting.constructors import zcdp
from discreet.accounting.loss import PrivacyLoss
from discreet.engine.person_recipe import as_json
from discreet.engine.recipe import Draw
from discreet.engine.row_factor import RowPlaces
from discreet.mechanisms.additive import RoundedGaussianNoise
from discreet.mechanisms.draws import AddedNoise, NamedBest
from discreet.mechanisms.exponential import Exponential
from discreet.plan.parts import PersonPart, person_part, plan_recipe
from discreet.privacy.discrete_events import BoundedRangeEvent
from discreet.privacy.event import Composed, GaussianEvent
from discreet.privacy.unit import Relation, Sensitivity
from discreet.synth.domain import CellRecipe, Floats, Integers
from discreet.synth.mixture import START, Mixture, Tables
from discreet.synth.synthetic import Synthetic, SyntheticModel, TableFact
from discreet.verify.claim import PartKind

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.engine.person_parts import Parts, PeopleRows
    from discreet.engine.recipe import Receipt, Running
    from discreet.plan.plan import Plan

COLUMNS, CHOICE = Fraction(3, 10), Fraction(1, 10)
"""The share of ρ for all single columns, and that of each round for choosing its pairs."""

PICKS, FEWEST, MOST = 10, 4, 22  # pairs of a round at ε = 1 and δ = 1e-5, and the fewest and most
AT_ONE = 0.030557  # the ρ of zero-concentrated privacy that ε = 1 and δ = 1e-5 allow
MERGED = 1.5  # values of a column whose noisy count is below so many σ become one
_LARGEST = 2.0**40  # what is taken for the number of rows
_FAR = 2.0**50  # what is taken for a noisy count
_MODEL = 1 << 31  # what is taken for an expected count
_NEVER = -(1 << 58)  # score of a pair that was measured


class Schedule(NamedTuple):
    """Choice of the public rule: rounds, pairs of each, steps of a fit and of the last, whether pairs are chosen; the
    share of ρ for columns, and that of the rest for choices; how far apart components are at the start.
    """

    rounds: int
    picks: int
    steps: int
    last: int
    chosen: bool
    columns: Fraction = COLUMNS
    choice: Fraction = CHOICE
    spread: float = START


@dataclass(frozen=True)
class AdaptiveSynthesis(CellRecipe):
    """Noisy tables of columns and of chosen pairs, and the synthetic data set that is made of them."""

    per_person: int = 1
    candidates: tuple[tuple[int, int], ...] = ()  # the pairs of columns that may be measured, by their places
    weights: tuple[int, ...] = ()  # of each of them the weight of its score
    # combinations that never occur: for each a cell set of some columns, by their places; public
    zeros: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...] = ()
    components: int = 400  # how many product distributions are mixed
    steps: tuple[int, int] | None = None  # of a fit and of the last one; None for those of the rule
    _fitted: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def schedule(self) -> Schedule:
        """What the public rule chooses."""
        n = len(self.candidates)
        if not n:
            return Schedule(0, 0, 0, 0, chosen=False)
        picks = min(max(round(PICKS * (self.rho / AT_ONE) ** 0.25), FEWEST), MOST)
        few = picks <= 5
        rounds, steps, last = (3, 60, 100) if few else (4, 150, 300)
        steps, last = self.steps or (steps, last)
        if rounds * picks >= n:
            return Schedule(1, n, steps, last, chosen=False)
        return Schedule(rounds, picks, steps, last, chosen=True)

    @cached_property
    def rho(self) -> float:
        """The ρ of zero-concentrated privacy that (ε, δ) allow."""
        return 1 / float(calibrate(lambda x: zcdp(1 / x), epsilon=self.epsilon, delta=self.delta))

    @property
    def choices(self) -> dict[str, int]:
        """How often a pair is chosen, by the name of the part."""
        rounds, picks, *_ = self.schedule
        return {"choice": rounds * picks} if self.schedule.chosen else {}

    @property
    def shares(self) -> dict[str, Fraction]:
        """The share of ρ of each part."""
        if not self.schedule.rounds:
            return {"columns": Fraction(1)}
        rule = self.schedule
        left = 1 - rule.columns
        choice = left * rule.choice if rule.chosen else Fraction(0)
        return {"columns": rule.columns, "pair": left - choice, "choice": choice}

    @property
    def widest(self) -> int:
        """How many cells the largest pair has."""
        sizes = self.sizes
        return max((sizes[a] * sizes[b] for a, b in self.candidates), default=0)

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        rows = self.rows(tables)
        m, k, width = rows.most, len(self.columns), sum(self.sizes)
        l0 = min(width, k * m)
        each = Sensitivity(l0, m, l1=k * m, l2_squared=min(k * m * m, l0 * m * m))
        made = [person_part("columns", rows, width=width, norms=each, kind="places")]
        rounds, picks, *_ = self.schedule
        if rounds:
            one = Sensitivity(min(m, self.widest), m, l1=m, l2_squared=m * m)
            made.append(person_part("pair", rows, width=self.widest, norms=one, kind="places", times=rounds * picks))
        for name, times in self.choices.items():
            moved = max(self.weights) * m * (2 if made[0].relation is Relation.REPLACE else 1)
            norms = Sensitivity(len(self.candidates), moved)
            of: dict[str, Any] = {"kind": "whole", "times": times, "width": len(self.candidates)}
            made.append(person_part(name, rows, norms=norms, **of))
        parts = with_laws(made, self.shares, self.epsilon * part, self.delta)
        return plan_recipe(parts, epsilon=self.epsilon * part, delta=self.delta, parameters={"of": repr(self)})

    def run(self, plan: Plan) -> Running[dict[str, Any]]:
        state: dict[str, Any] = {"columns": (yield Draw("columns")), "rounds": []}
        fit = SynthesisFit(self, plan, state["columns"])
        for _ in range(self.schedule.rounds):
            places: list[int] = [*range(len(self.candidates))]
            if self.schedule.chosen:
                places = []
                asked = fit.asked(self.noise_of_scores(fit.pair_sigma))
                for _ in range(self.schedule.picks):
                    done = self.done([*fit.measured, *places])
                    place = yield Draw("choice", {**asked, "done": done})
                    if not done[place]:
                        places.append(int(place))
            found = []
            for place in places:
                noisy = yield Draw("pair", fit.place_of(place))
                found.append([place, listed(noisy[: fit.cells(place)]), 1])
            state["rounds"].append(found)
            fit.learn(found, is_last=len(state["rounds"]) == self.schedule.rounds)
        self.remember(state, fit)
        return state

    def remember(self, state: Any, fit: SynthesisFit) -> None:
        """Keep the fit of a run for the model that is made of its state."""
        self._fitted["of"] = (json.dumps(as_json(state)), fit)

    def done(self, places: Sequence[int]) -> NDArray[np.bool_]:
        """Return which candidates are not chosen any more once these are: themselves."""
        return np.isin(np.arange(len(self.candidates)), places)

    def promise(self, plan: Plan, rows: int | None) -> str:
        """Return a bound on the error where the data have so many rows, in words; empty where none is stated."""
        return ""

    def noise_of_scores(self, sigma: float) -> float:
        """Return the σ of which scores take the expected error away."""
        return sigma

    def prepare(self, people: PeopleRows) -> Any:
        """Return a place for tables that several draws need."""
        return {}

    def each(self, people: PeopleRows, of: str, args: Any) -> Parts:
        if of == "columns":
            starts = np.cumsum([0, *self.sizes[:-1]])
            return RowPlaces(people.starts, people.matrix + starts[None, :], sum(self.sizes))
        first, second = (args["maps"][i][people.matrix[:, args[which]]] for i, which in enumerate("ab"))
        return RowPlaces(people.starts, (first * args["beside"] + second)[:, None], self.widest)

    def whole(self, people: PeopleRows, of: str, args: Any) -> Integers:
        tables = self._exact(people, args["maps"], args["sizes"])
        starts = np.cumsum([0, *args["sizes"]])
        found = np.full(len(self.candidates), _NEVER, np.int64)
        for i, (a, b) in enumerate(self.candidates):
            if not args["done"][i]:
                model = args["model"][starts[a] : starts[a + 1], starts[b] : starts[b + 1]]
                apart = int(np.abs(tables[i] - model).sum())
                found[i] = self.weights[i] * (apart - int(args["noise"][i]))
        return found

    def _exact(self, people: PeopleRows, maps: Sequence[Integers], sizes: Sequence[int]) -> list[Integers]:
        """Return the tables of all candidates over merged values; they are the same for all choices of a run."""
        kept: dict[bytes, list[Integers]] = people.prepared
        key = b"".join(m.tobytes() for m in maps)
        if key not in kept:
            cells = [m[people.matrix[:, i]] for i, m in enumerate(maps)]
            kept[key] = [
                np.bincount(cells[a] * sizes[b] + cells[b], minlength=sizes[a] * sizes[b]).reshape(sizes[a], sizes[b])
                for a, b in self.candidates
            ]
        return kept[key]

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Return the noisy tables."""
        rows = [["columns", str(listed(state["columns"]))]]
        for place, counts, _ in (pair for found in state["rounds"] for pair in found):
            a, b = (self.columns[i].name for i in self.candidates[place])
            rows.append([f"{a}, {b}", str(listed(counts))])
        return ["table", "counts"], rows

    def build(self, plan: Plan, state: Any, receipt: Receipt) -> Any:
        """Return the synthetic data set: all of it follows from the state."""
        return Synthetic(self.model(plan, as_json(state)), plan, self.proof(plan, state, receipt))

    def model(self, plan: Plan, kept: Any) -> SyntheticModel:
        """Return what is fitted to a state, as JSON has read it: the same whenever it is read."""
        said, fit = self._fitted.get("of", ("", None))
        if said != json.dumps(kept):
            fit = SynthesisFit(self, plan, kept["columns"])
            for i, found in enumerate(kept["rounds"]):
                fit.learn(found, is_last=i + 1 == len(kept["rounds"]))
        self._fitted.clear()
        assert isinstance(fit, SynthesisFit)
        return fit.model()


class SynthesisFit:
    """Everything that follows from noisy tables, step by step: merged values, and the mixture."""

    def __init__(self, recipe: AdaptiveSynthesis, plan: Plan, columns: Sequence[int]) -> None:
        self.recipe, self.plan = recipe, plan
        sigmas = sigmas_of(plan)
        self.sigma, self.pair_sigma = sigmas["columns"], sigmas.get("pair", math.inf)
        ends = np.cumsum([0, *recipe.sizes])
        counts = _held(columns)
        own = [counts[a:b] for a, b in pairwise(ends)]
        self.rows = float(min(max(np.mean([c.sum() for c in own]), 1), _LARGEST))
        self.own = own
        self.maps, merged, precision = [], [], []
        for noisy in own:
            cells, parts = merge(noisy, self.sigma)
            self.maps.append(cells)
            merged.append(np.bincount(cells, weights=noisy, minlength=len(parts)))
            precision.append(1 / (self.sigma**2 * parts))
        sizes = [len(m) for m in merged]
        self.tables = Tables(sizes, np.concatenate(merged), np.concatenate(precision), self.rows)
        self.mixture = Mixture(self.tables, recipe.components, recipe.schedule.spread)
        self.measured: dict[int, tuple[Floats, int]] = {}
        self.first: dict[tuple[int, int], tuple[float, Floats]] = {}
        if not recipe.schedule.rounds:
            self.mixture.logits[:] = self.mixture.base  # columns are independent

    def asked(self, sigma: float) -> dict[str, Any]:
        """Return the public arguments of a choice, where the chosen pair is measured with noise of σ."""
        model = np.rint(np.clip(self.mixture.pairs, 0, _MODEL)).astype(np.int64)
        noise = [round(math.sqrt(2 / math.pi) * sigma * self.cells(i)) for i in range(len(self.recipe.candidates))]
        return {"maps": self.maps, "sizes": [*self.tables.sizes], "model": model, "noise": noise}

    def place_of(self, place: int) -> dict[str, Any]:
        """Return the public arguments of the measurement of a candidate."""
        a, b = self.recipe.candidates[place]
        return {"a": a, "b": b, "maps": [self.maps[a], self.maps[b]], "beside": self.tables.sizes[b]}

    def cells(self, place: int) -> int:
        """Return how many cells a candidate has over merged values."""
        a, b = self.recipe.candidates[place]
        return self.tables.sizes[a] * self.tables.sizes[b]

    def expected(self, place: int) -> Floats:
        """Return the mixture's expected counts of a candidate."""
        a, b = (self.tables.slices[i] for i in self.recipe.candidates[place])
        return self.mixture.pairs[a, b]

    def learn(self, found: Sequence[Any], *, is_last: bool) -> None:
        """Take the noisy tables of a round, each the sum of so many draws, and fit all."""
        sizes = self.tables.sizes
        for place, counts, times in found:
            a, b = self.recipe.candidates[place]
            before, drawn = self.measured.get(place, (np.zeros((sizes[a], sizes[b])), 0))
            self.measured[place] = total, n = before + _held(counts).reshape(sizes[a], sizes[b]), drawn + times
            self.tables.add(a, b, total / n, self.pair_sigma / math.sqrt(n))
            if not drawn:  # whether a table is measured again follows from its noise, and from this one's it does not
                self.first[a, b] = self.pair_sigma / math.sqrt(n), total / n
        self.mixture.fit(self.recipe.schedule.last if is_last else self.recipe.schedule.steps)

    def model(self) -> SyntheticModel:
        """Return the synthetic data set over all values: merged ones are equally likely."""
        held = self.mixture.probabilities
        full = []
        for own, cells in zip(self.tables.slices, self.maps, strict=True):
            full.append(held[:, own][:, cells] / np.bincount(cells)[cells])
        names, sizes = [column.name for column in self.recipe.columns], self.tables.sizes
        facts = [
            TableFact((n,), size, self.sigma, c.size - size + 1 if size < c.size else 0, own)
            for n, c, size, own in zip(names, self.recipe.columns, sizes, self.own, strict=True)
        ]
        for a in range(len(names)):
            for b in range(a + 1, len(names)):
                sigma, counts = self.first.get((a, b), (None, None))
                facts.append(TableFact((names[a], names[b]), sizes[a] * sizes[b], sigma, 0, counts))
        weights = np.concatenate(full, axis=1).astype(np.float32)
        return SyntheticModel(
            self.recipe.columns, weights, self.rows, tuple(facts), self.recipe.zeros, tuple(self.maps)
        )


def sigmas_of(plan: Plan) -> dict[str, float]:
    """Return the standard deviation of the noise of each kind of table."""
    laws = {part.name: part.law.noise for part in plan.parts if isinstance(part.law, AddedNoise)}
    return {name: float(noise.sigma) for name, noise in laws.items() if isinstance(noise, RoundedGaussianNoise)}


def merge(noisy: Floats, sigma: float) -> tuple[Integers, Floats]:
    """Return for each value its place after rare ones became one, and how many values each place has.

    It is decided by noisy counts alone. The places of values that are kept come first.
    """
    kept = noisy >= MERGED * sigma
    if not kept.any():
        kept[noisy.argmax()] = True
    n, rare = int(kept.sum()), int((~kept).sum())
    if rare < 2:
        return np.arange(len(noisy)), np.ones(len(noisy))
    cells = np.full(len(noisy), n)
    cells[kept] = np.arange(n)
    return cells, np.array([1.0] * n + [float(rare)])


def with_laws(
    made: Sequence[PersonPart], shares: Mapping[str, Fraction], epsilon: Fraction, delta: Fraction
) -> list[PersonPart]:
    """Return the parts with their mechanisms, so wide that all cost (ε, δ): wholes are chosen of, others counted."""
    chosen = tuple((shares[part.name], part.times) for part in made if part.kind is PartKind.WHOLE)
    rho = _rho(epsilon, delta, chosen)
    found = []
    for part in made:
        own = rho * shares[part.name] / part.times
        if part.kind is PartKind.WHOLE:
            best = Exponential(epsilon=_range_of(own), sensitivity=part.moves.linf)
            found.append(replace(part, law=NamedBest(best)))
        else:
            square = math.ceil(Fraction(part.moves.l2_squared) / (2 * own) * (1 << 64))
            noise = RoundedGaussianNoise(Fraction(math.isqrt(square) + 1, 1 << 32))
            found.append(replace(part, law=AddedNoise(noise)))
    return found


def _range_of(rho: Fraction) -> Fraction:
    """Return the ε of a choice that costs ρ = ε²/8, rounded down."""
    return Fraction(math.sqrt(8 * float(rho)) * (1 - 1e-12))


@lru_cache(maxsize=64)
def _rho(epsilon: Fraction, delta: Fraction, choices: tuple[tuple[Fraction, int], ...]) -> Fraction:
    """Return the largest ρ at which Gaussian noise and choices cost (ε, δ) together: more than zCDP alone would say,
    since the composition of these events is known better.
    """

    def at(width: Fraction) -> PrivacyLoss:
        rho = 1 / width
        events = Composed([(GaussianEvent(2 * rho * (1 - sum(share for share, _ in choices))), 1)])
        for share, times in choices:
            events += Composed([(BoundedRangeEvent(_range_of(rho * share / times)), times)])
        return PrivacyLoss(events)

    start = calibrate(lambda x: zcdp(1 / x), epsilon=epsilon, delta=delta)
    return 1 / calibrate(at, epsilon=epsilon, delta=delta, start=start, tolerance=1e-4 if choices else 1e-8)


def _held(noisy: Sequence[Any]) -> Floats:
    """Return noisy counts as floats of a size that no sum or square leaves."""
    return np.asarray(np.clip(np.array([float(n) for n in noisy]), -_FAR, _FAR))


def listed(noisy: Any) -> list[int]:
    """Return noisy counts as plain numbers."""
    return [int(n) for n in noisy]
