"""Census-style releases: totals and histograms of every level of units in one plan, and tables that agree.

Guarantee:
    (ε, δ)-DP for one person under the relation of the account. A person's rows are at most `per_person`; at each level
    their total and their histogram are held to their norms in integers and have Gaussian noise; all of them are charged
    together. The number of rows is public only where units are rows that are replaced, over the whole table: the second
    derivation reads that in its statement. Everything else follows from these numbers (docs/proofs/hierarchy.md).

References:
    Abowd and others 2022 (the 2020 Census), https://arxiv.org/abs/2204.08986; Dong, Roth, Su 2019 (Gaussian noise
    composes exactly), https://arxiv.org/abs/1905.02383. Estimates: `tree.py`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.engine.cells import measured
from discreet.engine.person_recipe import PersonRecipe, as_json
from discreet.engine.recipe import Draw
from discreet.engine.row_factor import RowPlaces
from discreet.errors import InvalidParameter
from discreet.mechanisms.draws import AddedNoise
from discreet.plan.parts import PersonPart, person_part, plan_recipe
from discreet.plan.person_rows import PersonRows, person_rows
from discreet.plan.planner import make_query
from discreet.privacy.exact import Real, positive, probability
from discreet.privacy.unit import Relation, Sensitivity
from discreet.query.expr import quoted
from discreet.synth.domain import Floats, Integers, SynthColumn, bias_of
from discreet.synth.released import Distances, Priced, Proved, digest_of
from discreet.synth.synthetic import SyntheticRows
from discreet.synth.tree import TreeNoise, whole
from discreet.synth.units import LevelUnits
from discreet.table import render

if TYPE_CHECKING:
    from discreet.catalog.schema import TableSchema
    from discreet.engine.person_parts import PeopleRows
    from discreet.engine.person_recipe import RecipeTable
    from discreet.engine.recipe import Receipt, Running
    from discreet.plan.plan import Plan

Weights = tuple[tuple[Fraction, Fraction], ...]
"""For the whole table and then each level, the shares of the budget of its totals and of its histograms."""

KINDS = ("total", "cells")

MOST_MICRODATA = 20_000_000  # the most rows of microdata
_SPECTRUM = tuple(float(f"{x:.3g}") for x in np.geomspace(0.1, 10, 21))
_FAR = 1 << 50  # what is taken for a noisy count


@dataclass(frozen=True)
class CensusAttributes:
    """The columns of a histogram."""

    columns: tuple[SynthColumn, ...]  # with their cells, of which the last is for NULL and what is not declared
    # for each the cell that NULL and undeclared values are counted in; None for one of their own
    fillers: tuple[int | None, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many cells each column has."""
        return tuple(c.size - (f is not None) for c, f in zip(self.columns, self.fillers, strict=True))

    @property
    def cells(self) -> int:
        """How many cells a histogram has."""
        return int(np.prod(self.sizes))

    def find(self, columns: Sequence[Integers]) -> Integers:
        """Return the cell of each row."""
        found = np.zeros(len(columns[0]), np.int64)
        for column, size, filler, own in zip(self.columns, self.sizes, self.fillers, columns, strict=True):
            found = found * size + (own if filler is None else np.where(own == column.size - 1, filler, own))
        return found


@dataclass(frozen=True)
class CensusRelease(PersonRecipe):
    """Noisy totals and histograms of all levels, and the tables that are made of them."""

    source: str  # the name of the table
    epsilon: Fraction  # the ε to be spent
    delta: Fraction  # the δ to be spent
    attributes: CensusAttributes  # the columns of the histograms
    weights: Weights  # the shares of the budget
    per_person: int  # how many rows of a person are read at most
    fixed: bool  # whether the number of rows is public
    digest: str  # a digest of the units
    units: LevelUnits = field(repr=False, compare=False)  # the units

    @property
    def names(self) -> tuple[str, ...]:
        """The levels, the whole table first."""
        return ("all", *self.units.names)

    def rows(self, tables: Sequence[TableSchema]) -> PersonRows:
        """Return the rows that are read: numbers of the columns of units, and cells of the attributes."""
        sql = [*self.units.sql, *(column.sql for column in self.attributes.columns)]
        text = f"SELECT {', '.join(f'{e} AS c{i}' for i, e in enumerate(sql))} FROM {quoted(self.source)}"
        return person_rows(text, tables, rows=self.per_person)

    def plan(self, tables: Sequence[TableSchema], part: Fraction = Fraction(1)) -> Plan:
        rows = self.rows(tables)
        m, made = rows.most, list[PersonPart]()
        for level, (size, shares) in enumerate(zip(self.units.tree.sizes, self.weights, strict=True)):
            for kind, share in zip(KINDS, shares, strict=True):
                width = size * (self.attributes.cells if kind == "cells" else 1)
                norms = Sensitivity(min(width, m), m, l1=m, l2_squared=m * m)
                if level or kind == "cells" or not self.fixed:
                    made.append(
                        person_part(f"{kind} {level}", rows, width=width, norms=norms, kind="places", share=share)
                    )
        plan = plan_recipe(made, epsilon=self.epsilon * part, delta=self.delta)
        if not self.fixed:
            return plan
        size_of = make_query(
            f"SELECT COUNT(*) AS n FROM {quoted(self.source)}", tables, population="", version=None, epsilon=1
        )
        if any(moved.l1 for moved in size_of.sensitivities):
            raise InvalidParameter(
                f"the number of rows of {self.source!r} is not public: lines that cannot be read may be left out.",
                hint="a data frame, Parquet or a database; or no invariants=",
            )
        identity = hashlib.sha256(f"{plan.identity} {size_of.identity}".encode()).hexdigest()
        (payer,) = plan.payers
        payer = replace(payer, events=payer.events + size_of.allocation.events)
        return replace(plan, measurements=(size_of,), payers=(payer,), identity=identity)

    def run(self, plan: Plan) -> Running[dict[str, Any]]:
        state: dict[str, Any] = {}
        if self.fixed:
            size = yield from measured(plan.measurements[0], "0 ")
            state["rows"] = min(max(int(size.cells[0][0]), 0), _FAR)
        for part in plan.parts:
            noisy = yield Draw(part.name)
            state[part.name] = " ".join(map(str, noisy.tolist()))
        return state

    def prepare(self, people: PeopleRows) -> tuple[Integers, Integers]:
        """Return the unit of the last level and the cell of each row."""
        columns, n = [*people.matrix.T], len(self.units.sql)
        return self.units.find(columns[:n]), self.attributes.find(columns[n:])

    def each(self, people: PeopleRows, of: str, args: Any) -> RowPlaces:
        leaf, cell = people.prepared
        kind, _, level = of.partition(" ")
        unit = np.zeros(len(leaf), np.int64) if level == "0" else self.units.places[int(level) - 1][leaf]
        width = self.units.tree.sizes[int(level)]
        if kind == "cells":
            unit, width = unit * self.attributes.cells + cell, width * self.attributes.cells
        return RowPlaces(people.starts, unit[:, None], width)

    def table(self, plan: Plan, state: Any) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Return the noisy tables."""
        return ["table", "counts"], [[name, str(counts)] for name, counts in state.items()]

    def build(self, plan: Plan, state: Any, receipt: Receipt) -> Any:
        """Return the tables that agree: all of them follow from the state."""
        kept = as_json(state)
        tables = whole(tree_noise(self, plan), estimates(self, plan, kept), kept.get("rows"))
        return Hierarchy(self, plan, tables, self.proof(plan, state, receipt))

    def described(self, plan: Plan) -> HierarchyPlan:
        """Return a plan of it with its errors."""
        return HierarchyPlan(self, plan)


def tree_noise(recipe: CensusRelease, plan: Plan) -> TreeNoise:
    """Return the variances of what a plan draws."""
    laws = {part.name: part.law for part in plan.parts}
    noises = {name: float(law.noise.variance) for name, law in laws.items() if isinstance(law, AddedNoise)}
    levels = range(len(recipe.weights))
    totals = tuple(noises.get(f"total {i}", 0.0) for i in levels)
    return TreeNoise(recipe.units.tree, recipe.attributes.cells, totals, tuple(noises[f"cells {i}"] for i in levels))


def estimates(recipe: CensusRelease, plan: Plan, kept: Mapping[str, Any]) -> list[Floats]:
    """Return the least-squares estimates of a state, for the whole table and each level a line for each unit."""
    noise, width = tree_noise(recipe, plan), recipe.attributes.cells

    def read(name: str, columns: int) -> Floats:
        noisy = np.fromstring(kept[name], np.float64, sep=" ") if name in kept else np.zeros(1)
        return np.asarray(np.clip(noisy, -_FAR, _FAR).reshape(-1, columns))

    levels = range(len(recipe.weights))
    totals, cells = [read(f"total {i}", 1) for i in levels], [read(f"cells {i}", width) for i in levels]
    return noise.fit(totals, cells, kept.get("rows"))


@dataclass(frozen=True)
class CensusCheck(Distances):
    """The noisy ℓ1 distances of released tables from those of the data: at each level of totals and of histograms."""

    release: CensusRelease  # what was released
    epsilon: Fraction  # the ε to be spent
    delta: Fraction  # the δ to be spent; 0 for Laplace noise
    digest: str  # a digest of the tables
    tables: Sequence[Integers] = field(repr=False, compare=False)  # the released tables

    def rows(self, tables: Sequence[TableSchema]) -> PersonRows:
        return self.release.rows(tables)

    @property
    def of(self) -> list[tuple[str, ...]]:
        return [(level, kind) for level in self.release.names for kind in KINDS]

    def prepare(self, people: PeopleRows) -> tuple[Integers, Integers]:
        """Return the unit of the last level and the cell of each row."""
        return self.release.prepare(people)

    def whole(self, people: PeopleRows, of: str, args: Any) -> Integers:
        (leaf, cell), shape = people.prepared, self.tables[-1].shape
        exact = np.bincount(leaf * shape[1] + cell, minlength=shape[0] * shape[1]).reshape(shape)
        found: list[int] = []
        for level in range(len(self.tables) - 1, -1, -1):
            apart = exact - self.tables[level]
            found = [int(np.abs(apart.sum(axis=1)).sum()), int(np.abs(apart).sum()), *found]
            exact = np.add.reduceat(exact, self.release.units.tree.starts[level - 1], axis=0) if level else exact
        return np.array(found, np.int64)


@dataclass(frozen=True, slots=True)
class HierarchyErrors:
    """Standard errors of the estimates of a census-style release, before these are made whole and ≥ 0: exact.

    Attributes:
        rows: (level, table, numbers in it, root mean square of their standard errors, the largest one).
        measured: (level, table) → the noisy mean absolute error of the released numbers, and how far it is off at most
            with a probability of 95 %; where it was asked.
    """

    rows: tuple[tuple[str, str, int, float, float], ...]
    measured: Mapping[tuple[str, str], tuple[float, float]] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = [(a, b, f"{n:,}", f"{e:.3g}", f"{most:.3g}", *self._seen(a, b)) for a, b, n, e, most in self.rows]
        seen = ["measured"] if self.measured else []
        return render(["level", "table", "numbers", "standard error", "largest", *seen], shown)

    def _seen(self, level: str, table: str) -> list[str]:
        if not self.measured:
            return []
        found = self.measured.get((level, table))
        return ["" if found is None else f"{found[0]:.3g} ± {found[1]:.2g}"]

    __repr__ = __str__


class HierarchyPlan(Priced):
    """A census-style release that has been decided, with its errors: free, and nothing was read or charged.

    Attributes:
        plan: what is drawn, and its price.
    """

    plan: Plan

    def __init__(self, recipe: CensusRelease, plan: Plan) -> None:
        self._recipe, self.plan = recipe, plan

    @property
    def levels(self) -> list[str]:
        """The levels, from the coarsest to the finest."""
        return [*self._recipe.units.names]

    @property
    def attributes(self) -> list[str]:
        """The columns of the histograms."""
        return [column.name for column in self._recipe.attributes.columns]

    @property
    def weights(self) -> dict[str, tuple[float, float]]:
        """For the whole table and each level the shares of the budget of totals and of histograms."""
        weights = self._recipe.weights
        free = sum(a + b for a, b in weights) - (weights[0][0] if self._recipe.fixed else 0)
        return {
            name: (0.0 if self._recipe.fixed and not i else float(a / free), float(b / free))
            for i, (name, (a, b)) in enumerate(zip(self._recipe.names, weights, strict=True))
        }

    @cached_property
    def _cells_of(self) -> dict[str, int]:
        """For each table of a level, how many cells of the histogram one of its numbers adds up."""
        names, sizes, cells = self.attributes, self._recipe.attributes.sizes, self._recipe.attributes.cells
        alone = {name: cells // size for name, size in zip(names, sizes, strict=True)} if len(names) > 1 else {}
        return {"total": cells, **alone, " × ".join(names): 1}

    def errors(self) -> HierarchyErrors:
        """Return the standard errors of all tables before they are made whole: exact, and known before the data."""
        return self._errors(tree_noise(self._recipe, self.plan))

    def _errors(self, noise: TreeNoise) -> HierarchyErrors:
        rows, width = [], self._recipe.attributes.cells
        for level, name in enumerate(self._recipe.names):
            for table, cells in self._cells_of.items():
                found = noise.errors(level, cells)
                mean = math.sqrt(float((found**2).mean()))
                rows.append((name, table, len(found) * (width // cells), mean, float(found.max())))
        return HierarchyErrors(tuple(rows))

    def spectrum(self, epsilons: Sequence[Real] | None = None) -> list[tuple[float, str, str, float]]:
        """Return (ε, level, table, standard error) for each ε at this δ: free.

        Args:
            epsilons: where; 21 from 0.1 to 10 unless given.
        """
        parts: Any = self.plan.parts
        found = []
        for epsilon in (positive("epsilons", e) for e in (_SPECTRUM if epsilons is None else epsilons)):
            plan = plan_recipe([replace(p, law=None) for p in parts], epsilon=epsilon, delta=self._recipe.delta)
            rows = self._errors(tree_noise(self._recipe, plan)).rows
            found += [(float(epsilon), level, table, error) for level, table, _, error, _ in rows]
        return found

    def explain(self) -> str:
        """Return what is drawn, how the tables are made, and what it costs, in sentences."""
        fixed, units = self._recipe.fixed, self._recipe.units
        rows = "public: units are rows that are replaced, and none is left out" if fixed else "noisy"
        return (
            f"{HierarchyPlan.__str__(self)}\nThe number of rows is {rows}.\n"
            "A row whose unit or value is not public counts as the filler, or in a unit and cell of its own: none is "
            f"left out. Units without rows are noisy as all {units.tree.sizes[-1]:,} are; leave out of the list a unit "
            "that is known to be empty.\n"
            "Least squares over the tree fit all noisy numbers. They are made whole from the top down: no number is "
            f"negative, and each is the sum of those below it.\n{self.plan.explain()}"
        )

    def __str__(self) -> str:
        sizes = zip(self.levels, self._recipe.units.tree.sizes[1:], strict=True)
        named = ", ".join(f"{n:,} of {name!r}" for name, n in sizes)
        cells = self._recipe.attributes.cells
        lines = [
            f"A census-style release that costs {self.price}",
            f"Units: {named}; each with its total and a histogram of {cells:,} cells ({', '.join(self.attributes)}).",
            str(self.errors()),
        ]
        bias = bias_of(self._recipe.attributes.columns, "become the filler, or have a cell of their own")
        lines += [bias] if bias else []
        return "\n".join([*lines, *([self.plan.outlook] if self.plan.outlook else [])])

    __repr__ = __str__


class Hierarchy(Proved, HierarchyPlan):
    """A census-style release: whole tables of every level that agree with each other, and rows that have these tables.

    Guarantee:
        That of the noisy tables that it was made of: (ε, δ)-DP at the price of `cost`, whatever is made of them
        (docs/proofs/hierarchy.md).

    Attributes:
        plan: what was decided before the data was touched.
        rows: the number of rows: public, or noisy.
    """

    def __init__(
        self, recipe: CensusRelease, plan: Plan, tables: Sequence[Integers], proof: RecipeTable | None
    ) -> None:
        super().__init__(recipe, plan)
        self._tables, self._proof, self.rows = tables, proof, int(tables[0].sum())

    def errors(
        self, *, check: Real | None = None, delta: Real = 0, frame: Any = None, relation: str | Relation = "add-remove"
    ) -> HierarchyErrors:
        """Return the standard errors of all tables before they were made whole: exact, from the plan.

        Args:
            check: the ε of a look at the data: the mean absolute error of each level's totals and histograms as they
                are, with noise. It is charged to the session that made the release.
            delta: the δ of it; 0 for Laplace noise.
            frame: a data frame to look at in place of the session's table; each row is a person, and you account for
                it.
            relation: of `frame`: "add-remove", or "replace" where the number of rows is public.

        Raises:
            InvalidParameter: no open session made it, and it is to be checked without `frame`.
            BudgetExceeded, LedgerError, BackendFailed: as `session.hierarchy`.
        """
        found = super().errors()
        if check is None:
            if frame is not None or delta:
                raise InvalidParameter("frame= and delta= are for a look at the data.", hint="check=0.1 with them")
            return found
        price, own = (positive("check", check), probability("delta", delta)), self._recipe

        def look(source: str, most: int) -> CensusCheck:
            release = replace(own, source=source, per_person=most)
            return CensusCheck(release, *price, digest_of(self._tables), self._tables)

        checked, off = self._looked(look, frame, {c.name: c.fact for c in own.attributes.columns}, relation)
        numbers, last = {(level, table): n for level, table, n, _, _ in found.rows}, " × ".join(self.attributes)
        of = [((level, last if kind == "cells" else kind), n) for level, kind, n in checked]
        return replace(found, measured={key: (max(n, 0) / numbers[key], off / numbers[key]) for key, n in of})

    def without_ledger(self) -> Hierarchy:
        """Return the same without its certificate."""
        return Hierarchy(self._recipe, self.plan, self._tables, None)

    def table(self, level: str, attributes: Sequence[str] | None = None) -> SyntheticRows:
        """Return the table of a level: a row for each unit and each combination of the attributes, and the `count`.

        Args:
            level: which; "all" for the whole table.
            attributes: some of them; all unless given, and none for totals.

        Raises:
            InvalidParameter: there is no such level or attribute.
        """
        names = ["all", *self.levels]
        if level not in names:
            raise InvalidParameter(f"{level!r:.60} is no level.", hint=f"levels are: {', '.join(names)}")
        shown = self.attributes if attributes is None else [*attributes]
        if isinstance(attributes, str) or not {*shown} <= {*self.attributes} or len({*shown}) < len(shown):
            raise InvalidParameter(
                "attributes= names attributes of the release.", hint=f"these are: {', '.join(self.attributes)}"
            )
        own, place = self._recipe.attributes, names.index(level)
        kept = [i for i, name in enumerate(self.attributes) if name in shown]
        cube = self._tables[place].reshape(-1, *own.sizes)
        counts = cube.sum(axis=tuple(i + 1 for i in range(len(own.sizes)) if i not in kept))
        units: LevelUnits = self._recipe.units
        unit, *cells = (at.reshape(-1).tolist() for at in np.indices(counts.shape))
        found: list[list[Any]] = []
        if place:
            paths = units.units(place - 1)
            found += [[paths[u][i] for u in unit] for i in range(len(paths[0]))]
        for i, at in zip(kept, cells, strict=True):
            labels = [own.columns[i].label(cell) for cell in range(own.sizes[i])]
            found.append([labels[cell] for cell in at])
        heads = [*(units.columns(place - 1) if place else []), *(self.attributes[i] for i in kept), "count"]
        return SyntheticRows(heads, [*found, counts.reshape(-1).tolist()])

    def microdata(self) -> SyntheticRows:
        """Return one row for each counted row: its units and its attributes, a range as the middle of its bin.

        Raises:
            InvalidParameter: there are too many of them.
        """
        if self.rows > MOST_MICRODATA:
            raise InvalidParameter(f"the release has {self.rows:,} rows, and at most {MOST_MICRODATA:,} are made.")
        own, units = self._recipe.attributes, self._recipe.units
        counts = self._tables[-1]
        unit, *cells = np.unravel_index(
            np.repeat(np.arange(counts.size), counts.reshape(-1)), (len(counts), *own.sizes)
        )
        found: list[list[Any]] = [[units.paths[u][i] for u in unit.tolist()] for i in range(len(units.names))]
        for column, at in zip(own.columns, cells, strict=True):
            found.append(column.sampled(at.astype(np.int64), np.full(len(at), 0.5)))
        return SyntheticRows([*units.names, *self.attributes], found)

    def to_arrow(self) -> Any:
        """Return the table of the finest level as a pyarrow table."""
        return self.table(self.levels[-1]).to_arrow()

    def __repr__(self) -> str:
        sizes = zip(self.levels, self._recipe.units.tree.sizes[1:], strict=True)
        return f"Hierarchy({', '.join(f'{n:,} of {name}' for name, n in sizes)}; {self.rows:,} rows)"

    __str__ = __repr__
