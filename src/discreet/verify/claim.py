"""What a charge pays for, as plain values: the statements that run, whose rows they read, the noise, and the price.

The planner says it of every plan, a certificate carries it, and `check` judges it without either of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise
from discreet.mechanisms.draws import DrawLaw
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.mechanisms.rounds import Selection
from discreet.mechanisms.samples import Sampling
from discreet.privacy.event import Composed
from discreet.privacy.unit import Relation, Sensitivity
from discreet.verify.derive import PrivateRows


@dataclass(frozen=True, slots=True)
class NoisyColumn:
    """An integer column.

    Attributes:
        low, high: the least and the greatest that a unit adds to it in one group.
        sensitivity: how far one unit moves it over all groups.
        noise: what is added to each of its numbers; where totals are measured as well, to those of the finest groups.
    """

    low: int
    high: int
    sensitivity: Sensitivity
    noise: Additive


@dataclass(frozen=True, slots=True)
class Tree:
    """A quantile tree: weights of leaves, and sums of them, from which quantiles and the like are read.

    Attributes:
        sql: counts the leaves.
        depth: how many levels have noise.
        at: the quantiles that are read.
        sensitivity: how far one unit moves a level.
        noise: of each node; or what chooses a leaf by its rank.
        layers: the leaves of each node of each level, where these are listed; None for a tree.
    """

    sql: str
    depth: int
    at: tuple[Fraction, ...]
    sensitivity: Sensitivity
    noise: Additive | ExponentialQuantile
    layers: tuple[tuple[tuple[int, ...], ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class Level:
    """Totals that are measured beside the finest groups: the keys that they keep, and each column's noise."""

    kept: tuple[int, ...]
    noises: tuple[Additive, ...]


@dataclass(frozen=True, slots=True)
class Measurement:
    """Statements over the same rows and groups, and what is added to their numbers before these leave.

    Attributes:
        source: the rows that the statements may read.
        sql: gives the columns that are sums over units; empty where there are none and the groups are public.
        distinct: the place of each COUNT(DISTINCT x) among the columns, and the statement that counts it.
        truncation: the statements of the truncation reports.
        keys: how many keys the groups have.
        lists: how many values each of them may have; None where the groups are private.
        groups: how many groups a unit enters at most.
        rows: how many of its rows count in each, as the query was asked, which is compared with no text; None where
            each row is a unit.
        columns: the integer columns, in order.
        trees: its quantile trees.
        levels: the totals that are measured as well.
        threshold: the selection of groups, where these are private.
        reports: for each truncation report, the noise of each of its counts.
        weights: sums the weights of a round of selection, of which the first is this text; empty where there is none.
    """

    source: PrivateRows
    sql: str
    distinct: tuple[tuple[int, str], ...]
    truncation: tuple[str, ...]
    keys: int
    lists: tuple[int, ...] | None
    groups: int
    rows: int | None
    columns: tuple[NoisyColumn, ...]
    trees: tuple[Tree, ...] = ()
    levels: tuple[Level, ...] = ()
    threshold: Selection | None = None
    reports: tuple[Additive, ...] = ()
    weights: str = ""

    @property
    def declared(self) -> int | None:
        """How many groups there are; None when that is private."""
        return None if self.lists is None else math.prod(self.lists)


@dataclass(frozen=True, slots=True)
class Look:
    """A first stage's look at the data, from which caps or bounds are chosen.

    Attributes:
        kind: "caps", a census of units by place, or "values", counts of units by the size of their values.
        source: the rows that it may read.
        sql: counts units.
        counts: how many columns of places the census has, or in how many counts a unit is.
        noise: what is added to each count.
        epsilon: what it may cost.
        outside: what is added to the numbers of units within a chosen range, and not; None where none is chosen.
    """

    kind: str
    source: PrivateRows
    sql: str
    counts: int
    noise: DiscreteLaplaceNoise
    epsilon: Fraction
    outside: DiscreteLaplaceNoise | None = None

    @property
    def moved(self) -> int:
        """How many vectors of counts a unit is in."""
        return 1 if self.kind == "caps" else self.counts

    @property
    def values(self) -> int:
        """How many ranges are chosen: of a unit with many rows the largest and the least value are counted."""
        return 0 if self.kind == "caps" else self.counts // (1 if self.source.unit is None else 2)

    @property
    def spent(self) -> Fraction:
        """What the noise costs for a unit that moves each vector of counts by 1."""
        apart = Fraction(0) if self.outside is None else self.values / self.outside.scale
        return self.moved / self.noise.scale + apart


class PartKind(Enum):
    """How a private part of people's rows is bounded."""

    EACH = "each"
    """A row of integers a person: one beyond the norms counts 0, which is checked in integers for every person."""
    PLACES = "places"
    """A histogram a person, of places where their rows count: the same, and none of its numbers is below 0."""
    SQUARES = "squares"
    """A sum a person, of x·xᵀ over their rows x, which the meter multiplies: the same, and the inner product of no two
    of them is below 0."""
    WHOLE = "whole"
    """Anything else: that one person moves it by the norms at most is the recipe's own promise."""


@dataclass(frozen=True, slots=True)
class PartClaim:
    """What is drawn of people's rows by code of a recipe.

    Attributes:
        name: what the recipe calls it.
        kind: how it is bounded.
        apart: whether the code sees one person at a time, so that no part can follow from other people.
        source: the rows that the statement may read.
        sql: gives rows of people, as whole numbers.
        rows: how many rows of a person it gives at most.
        width: how many integers a draw has before the noise.
        norms: of a person's part at most; of the whole, how far one unit moves it.
        law: the mechanism.
        times: how often it may be drawn.
        sampling: how the people of a draw are sampled; None where all are in each.
    """

    name: str
    kind: PartKind
    apart: bool
    source: PrivateRows
    sql: str
    rows: int
    width: int
    norms: Sensitivity
    law: DrawLaw
    times: int
    sampling: Sampling | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """Events, and the (ε, δ) that they are charged at."""

    events: Composed
    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True)
class PlanClaim:
    """Everything that one charge pays for.

    Attributes:
        relation: which populations are neighbours.
        looks: what is looked at first, where something is chosen.
        measurements: what is measured.
        measured: what the measurements cost together.
        charged: what the ledger is told, `looks` included.
        parts: what a recipe draws of people's rows.
        recipe: the name of a recipe that is not the session's own; "" of a query in SQL.
        open: whether its run takes inputs, so that it is charged whole, as one event.
    """

    relation: Relation
    looks: tuple[Look, ...]
    measurements: tuple[Measurement, ...]
    measured: Cost
    charged: Cost
    parts: tuple[PartClaim, ...] = ()
    recipe: str = ""
    open: bool = False

    @property
    def sources(self) -> tuple[PrivateRows, ...]:
        """Whose rows are read, by each look, each measurement and each private part."""
        looks, parts = (x.source for x in self.looks), (x.source for x in self.parts)
        return (*looks, *(m.source for m in self.measurements), *parts)

    @property
    def statements(self) -> tuple[str, ...]:
        """Every text that the database runs."""
        found = [look.sql for look in self.looks]
        for m in self.measurements:
            found += [*m.truncation, m.sql, *(own for _, own in m.distinct), *(t.sql for t in m.trees), m.weights]
        found += [part.sql for part in self.parts]
        return tuple(text for text in found if text)
