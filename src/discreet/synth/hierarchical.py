"""Census-style releases as they are asked for: of a session's table, or of a data frame without a ledger."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.catalog.schema import Fact, TableSchema
from discreet.errors import InvalidParameter, MissingBounds
from discreet.privacy.exact import Real, positive
from discreet.privacy.unit import Relation
from discreet.synth.asked import BINS, AskedSynthesis
from discreet.synth.census import KINDS, CensusAttributes, CensusRelease, Hierarchy, Weights
from discreet.synth.released import frame_session
from discreet.synth.tree import TreeNoise
from discreet.synth.units import level_units

TOTAL, CELLS = (4, 15, 10, 10, 20), (5, 8, 13, 12, 10)
"""Weights of totals and of histograms from the whole table down to the finest level; of other numbers of levels they
are interpolated.
"""

MOST = 10_000_000  # the most noisy numbers of a release
_ALL = "all"


@dataclass(frozen=True, slots=True)
class AskedHierarchy:
    """A census-style release as it is asked for; `Session.hierarchy` says what each argument is."""

    epsilon: Real | None = None
    delta: Real | None = None
    levels: Sequence[str] | Mapping[str, int] = ()
    attributes: Sequence[str] = ()
    table: str | None = None
    code: str | None = None
    units: object = None
    invariants: Collection[str] = ()
    weights: str | Mapping[str, tuple[Real, Real]] | None = None
    loss: Mapping[tuple[str, str], Real] | None = None
    filler: Mapping[str, Any] | None = None
    bins: int = BINS

    def recipe(self, tables: Sequence[TableSchema]) -> CensusRelease:
        """Return the recipe over these tables.

        Raises:
            UnknownColumn: there is no such table or column.
            MissingBounds: units or values are not public.
            InvalidParameter, NotPrivate: it cannot be made so; nothing was charged.
        """
        if isinstance(self.attributes, str) or not self.attributes:
            raise InvalidParameter("attributes= is a list of columns.", hint="attributes=['race', 'adult']")
        asked = AskedSynthesis(self.epsilon, self.delta, self.table, self.attributes, bins=self.bins)
        epsilon, delta = asked._guarantee()
        own = asked._table(tables)
        columns = asked._columns(own)
        filler = self.filler or {}
        units = level_units(own, tables, self.levels, self.code, self.units, filler)
        unknown = {*filler} - {*units.names, *(c.name for c in columns), self.code}
        twice = {*units.names, self.code} & {c.name for c in columns}
        if unknown or twice or _ALL in units.names:
            raise InvalidParameter(
                f"filler= has {sorted(map(str, unknown))[0]!r:.60}, which is no column of this release."
                if unknown
                else f"{sorted(map(str, twice))[0]!r} is a level and an attribute."
                if twice
                else f"{_ALL!r} is the whole table, and the name of a level."
            )
        fillers = [c.cells_of(filler[c.name])[0] if c.name in filler else None for c in columns]
        attributes = CensusAttributes(columns, tuple(fillers))
        numbers = sum(units.tree.sizes) * (attributes.cells + 1)
        if numbers > MOST:
            raise InvalidParameter(
                f"the release has {numbers:,} noisy numbers, and at most {MOST:,} are made.",
                hint=f"fewer attributes: a histogram has {attributes.cells:,} cells",
            )
        caps = own.unit.caps
        recipe = CensusRelease(
            source=own.name,
            epsilon=epsilon,
            delta=delta,
            attributes=attributes,
            weights=default_weights(len(units.names)),
            per_person=1 if caps is None else caps[1],
            fixed=self._is_fixed(own),
            digest=units.digest,
            units=units,
        )
        return replace(recipe, weights=self._weights(recipe))

    def _is_fixed(self, own: TableSchema) -> bool:
        """Whether the number of rows is an invariant."""
        given: Any = self.invariants
        if isinstance(given, str) or not {*given} <= {"total"}:
            raise InvalidParameter(
                "'total' is the only invariant: with others exact, neighbours would be other tables than those of the "
                "account, and its charges would not add up.",
                hint="invariants=['total'], or none: every other table is noisy",
            )
        if not given:
            return False
        if own.relation is not Relation.REPLACE or not own.unit.is_row:
            raise InvalidParameter(
                "the number of rows is public only in an account with relation='replace', where each row is a unit.",
                hint="leave invariants= out: the total is noisy then",
            )
        return True

    def _weights(self, recipe: CensusRelease) -> Weights:
        given, names = self.weights, recipe.names
        if (self.loss is None) != (given != "optimise"):
            raise InvalidParameter(
                "weights='optimise' and loss= go together.", hint="loss={('tract', 'total'): 1, ('tract', 'cells'): 2}"
            )
        if given is None:
            return recipe.weights
        if given == "optimise":
            assert self.loss is not None
            return _optimised(recipe, self.loss)
        if not isinstance(given, Mapping) or {*given} != {*names} or any(len([*pair]) != 2 for pair in given.values()):
            raise InvalidParameter(
                f"weights= has a pair for each of {', '.join(map(repr, names))}: of totals, and of histograms.",
                hint="weights={'all': (1, 1), …}, or 'optimise'",
            )
        first, second = ([positive("weights", given[name][i]) for name in names] for i in range(2))
        return tuple(zip(first, second, strict=True))


def default_weights(levels: int) -> Weights:
    """Return the default shares of the budget for so many levels below the whole table."""
    places = np.linspace(0, len(TOTAL) - 1, levels + 1)
    of = [np.interp(places, np.arange(len(w)), w) for w in (TOTAL, CELLS)]
    return tuple((Fraction(round(a * 1000)), Fraction(round(b * 1000))) for a, b in zip(*of, strict=True))


def _optimised(recipe: CensusRelease, loss: Mapping[tuple[str, str], Real]) -> Weights:
    """Return weights under which the weighted sum of mean standard errors is least, by a search in steps."""
    goal = {}
    for key, value in loss.items():
        if key not in [(name, kind) for name in recipe.names for kind in KINDS]:
            raise InvalidParameter(
                f"loss= has {key!r:.60}, which is no level with 'total' or 'cells'.",
                hint="loss={('tract', 'cells'): 1}",
            )
        goal[recipe.names.index(key[0]), key[1]] = float(positive("loss", value))
    tree, cells = recipe.units.tree, recipe.attributes.cells

    def cost(weights: Sequence[float]) -> float:
        whole = sum(weights[recipe.fixed :])
        of = [whole / w for w in weights]
        totals = (0.0 if recipe.fixed else of[0], *of[2::2])
        noise = TreeNoise(tree, cells, totals, tuple(of[1::2]))
        return sum(w * float(noise.errors(i, cells if k == "total" else 1).mean()) for (i, k), w in goal.items())

    found, step = [float(w) for pair in recipe.weights for w in pair], 2.0
    best = cost(found)
    while step > 1.02:
        before = best
        for i in range(recipe.fixed, len(found)):
            for factor in (step, 1 / step):
                tried = [w * factor if j == i else w for j, w in enumerate(found)]
                if (value := cost(tried)) < best * (1 - 1e-9) and min(tried) > 1e-4 * sum(tried):
                    found, best = tried, value
        step = step if best < before * (1 - 1e-3) else math.sqrt(step)
    scaled = [Fraction(max(round(w / sum(found) * 10**6), 1)) for w in found]
    return tuple(zip(scaled[::2], scaled[1::2], strict=True))


def hierarchy(
    frame: object,
    *,
    levels: Sequence[str] | Mapping[str, int],
    attributes: Mapping[str, Fact],
    units: object,
    epsilon: Real,
    delta: Real,
    relation: str | Relation = "add-remove",
    **asked: Any,
) -> Hierarchy:
    """Return a census-style release of a data frame, without a ledger; each row is a person.

    Guarantee:
        (ε, δ)-DP for each row of the frame under `relation`, once for each call; the caller accounts for it.

    Args:
        frame: a data frame (pandas, polars, pyarrow), or the path of a file.
        levels: as in `Session.hierarchy`.
        attributes: what is declared of each column of the histograms: `dp.Range` or `dp.Values`.
        units: the public units: a frame, a dict of columns, or the path of a CSV file.
        epsilon: the ε to be spent.
        delta: the δ to be spent, above 0.
        relation: "add-remove", or "replace", where the number of rows may be public.
        asked: code, invariants, weights, loss, filler and bins, as in `Session.hierarchy`.

    Raises:
        PlanError, InvalidParameter: it cannot be made so.
    """
    declared: Any = attributes  # what came need not be what was annotated
    if not isinstance(declared, Mapping):
        raise MissingBounds(
            "attributes= declares each column, whose values must not be read from the data.",
            hint="attributes={'race': dp.Values('a', 'b')}",
        )
    with frame_session(frame, attributes, relation, epsilon, delta) as session:
        given = {"levels": levels, "attributes": [*attributes], "units": units, **asked}
        found: Hierarchy = session.hierarchy(epsilon=epsilon, delta=delta, **given)
    return found.without_ledger()
