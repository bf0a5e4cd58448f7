"""Synthetic data sets: rows, marginals and reports of a fitted mixture, all of it post-processing, and model files."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.engine import frames
from discreet.errors import InvalidParameter, UnsupportedQuery
from discreet.noise.entropy import SystemEntropy, words64
from discreet.plan.query import confidence_level
from discreet.privacy.exact import Real, count, positive, probability
from discreet.synth.domain import Floats, Integers, SynthColumn, bias_of
from discreet.synth.released import ModelCheck, Proved, digest_of
from discreet.table import render

if TYPE_CHECKING:
    from discreet.engine.person_recipe import RecipeTable
    from discreet.noise.entropy import Entropy
    from discreet.plan.plan import Plan
    from discreet.privacy.unit import Relation
    from discreet.synth.domain import CountedCells

FORMAT = 3  # version of model files
LEAST = 1e-6  # the least probability of what `given` says

TRIES, ENOUGH = 1000, 20_000
"""Structural zeros leave too few rows where fewer than 1 in `TRIES` of at least `ENOUGH` is kept."""

_BLOCK = 1 << 20  # rows that are drawn at a time


@dataclass(frozen=True, slots=True)
class TableFact:
    """What is known of the error of a column or pair, from public numbers."""

    columns: tuple[str, ...]  # one name or two
    cells: int  # how many cells were measured, or would have been: rare values are one
    sigma: float | None  # standard deviation of the noise of each measured cell; None where the pair was not measured
    merged: int  # how many rare values of a column became one
    # the noisy counts: of a column's own cells, or of a pair's over merged values; None where there are none
    counts: Floats | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SyntheticModel:
    """A fitted mixture over declared columns."""

    columns: tuple[SynthColumn, ...]  # the columns
    held: NDArray[np.float32]  # for each component the probabilities of all columns' cells, one after the other
    rows: float  # a noisy number of rows
    facts: tuple[TableFact, ...]  # what is known of each column and pair
    # combinations that never occur, as cells of columns by their places
    zeros: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...] = ()
    maps: tuple[Integers, ...] = ()  # of each column the place of each cell after rare values became one
    weights: Floats | None = None  # the probability of each component; None for equal ones
    promise: str = ""  # a bound on the error, in words; empty where none is stated

    def masses(self, place: int) -> Floats:
        """Return each component's probabilities of a column."""
        start = sum(column.size for column in self.columns[:place])
        own = self.held[:, start : start + self.columns[place].size].astype(np.float64)
        return np.asarray(own / own.sum(axis=1, keepdims=True))

    @property
    def likely(self) -> Floats:
        """The probability of each component."""
        return np.full(len(self.held), 1 / len(self.held)) if self.weights is None else self.weights

    def place(self, name: str) -> int:
        """Return the place of a column. Raises InvalidParameter: there is none of that name."""
        names = [column.name for column in self.columns]
        if name not in names:
            raise InvalidParameter(f"{name!r} is no column of this data set.", hint=f"columns are: {', '.join(names)}")
        return names.index(name)


class CountInterval(NamedTuple):
    """A number of rows with its confidence interval, and the standard deviation of its noise."""

    value: float
    low: float
    high: float
    sigma: float


class SyntheticRows:
    """Rows of a synthetic data set.

    Attributes:
        columns: the names of the columns.
        cells: for each column its values.
    """

    def __init__(self, columns: Sequence[str], cells: Sequence[list[Any]]) -> None:
        self.columns = [*columns]
        self.cells = [*cells]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows, of plain values."""
        return list(zip(*self.cells, strict=True))

    def to_arrow(self) -> Any:
        """Return the rows as a pyarrow table."""
        return frames.to_arrow(self._by_name)

    def to_polars(self) -> Any:
        """Return the rows as a polars frame."""
        return frames.to_polars(self._by_name)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas frame."""
        return frames.to_pandas(self._by_name)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the rows as CSV with a header; NULL is an empty field."""
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(self.columns)
            writer.writerows(zip(*self.cells, strict=True))

    @property
    def _by_name(self) -> Mapping[str, list[Any]]:
        return dict(zip(self.columns, self.cells, strict=True))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.cells[0]) if self.cells else 0

    def __repr__(self) -> str:
        return f"SyntheticRows({', '.join(self.columns)}; {len(self)} rows)"


@dataclass(frozen=True, slots=True)
class SyntheticReport:
    """Expected errors of a synthetic data set's columns and pairs, from public numbers.

    Attributes:
        rows: (columns, cells, expected total variation distance or None where the pair was not measured, values that
            were merged). The distance is that of the noisy table; the fitted one is often nearer.
        warnings: what the numbers do not say, in sentences.
        checked: of each row the total variation distance of the data set from the data, with noise; where it was asked.
        margin: how far each of these is off at most, with a probability of 95 %.
    """

    rows: tuple[tuple[tuple[str, ...], int, float | None, int], ...]
    warnings: tuple[str, ...]
    checked: tuple[float, ...] = ()
    margin: float | None = None

    @property
    def mean(self) -> float:
        """The mean distance of pairs that was found; of columns where there is one alone.

        Raises:
            InvalidParameter: none was looked for.
        """
        if not self.checked:
            raise InvalidParameter("the data were not looked at.", hint="report(check=0.1), which is charged")
        pairs = [x for row, x in zip(self.rows, self.checked, strict=True) if len(row[0]) > 1]
        return fmean(pairs or self.checked)

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        names = ("columns", "cells", "expected error", "merged values", "distance")
        tables = [dict(zip(names, (*row, *more), strict=False)) for row, more in self._rows]
        return {"tables": tables, "warnings": [*self.warnings], **({"margin": self.margin} if self.checked else {})}

    @property
    def _rows(self) -> list[tuple[tuple[tuple[str, ...], int, float | None, int], tuple[float, ...]]]:
        return [(row, self.checked[i : i + 1]) for i, row in enumerate(self.rows)]

    def __str__(self) -> str:
        shown = [
            (
                *(" × ".join(names), f"{cells:,}", "not measured" if error is None else f"{error:.3g}", f"{merged:,}"),
                *(f"{x:.3g} ± {self.margin:.2g}" for x in more),
            )
            for (names, cells, error, merged), more in self._rows
        ]
        head = ["table", "cells", "expected error", "merged values", *(["distance"] if self.checked else [])]
        return "\n".join([render(head, shown), *self.warnings])

    __repr__ = __str__


class Synthetic(Proved):
    """A synthetic data set: rows, marginals and a report. All of it is post-processing of noisy tables, and free.

    Guarantee:
        That of the noisy tables that the mixture was fitted to: (ε, δ)-DP at the price of `cost`, whatever is made of
        them and however many rows are drawn (docs/proofs/synth.md).
    """

    def __init__(self, model: SyntheticModel, plan: Plan | None = None, proof: RecipeTable | None = None) -> None:
        self._model, self.plan, self._proof = model, plan, proof

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self._model.columns]

    @property
    def rows(self) -> int:
        """A noisy number of rows of the data."""
        return round(self._model.rows)

    def without_ledger(self) -> Synthetic:
        """Return the same without its certificate."""
        return Synthetic(self._model, self.plan)

    def sample(self, rows: int | None = None, *, given: Mapping[str, Any] | None = None) -> SyntheticRows:
        """Return synthetic rows.

        Args:
            rows: how many; as many as the data have, about, where it is left out.
            given: what some columns hold: a value, or a pair of ends of a range.

        Raises:
            InvalidParameter: what is given has a probability near 0, or next to nothing remains beside structural
                zeros.
        """
        wanted = self.rows if rows is None else count("rows", rows, least=0)
        cells = self._cells(wanted, given or {}, SystemEntropy())
        rng = SystemEntropy()
        return SyntheticRows(
            self.columns,
            [c.sampled(own, _uniform(len(own), rng)) for c, own in zip(self._model.columns, cells, strict=True)],
        )

    def marginal(self, *names: str) -> list[tuple[Any, ...]]:
        """Return the expected number of rows in each cell of one column or two: values or bins, and the count."""
        if len(names) not in (1, 2) or len(set(names)) < len(names):
            raise InvalidParameter("marginal takes one column or two.", hint="marginal('age', 'income')")
        model = self._model
        places = [model.place(name) for name in names]
        own = [model.columns[i] for i in places]
        return [
            (*(column.label(i) for column, i in zip(own, at, strict=True)), float(n))
            for at, n in np.ndenumerate(self._counts(places))
        ]

    def _counts(self, places: Sequence[int]) -> Floats:
        """Return the expected number of rows in each cell of one column or two."""
        model = self._model
        masses = [model.masses(i) for i in places]
        table = model.likely @ masses[0] if len(places) == 1 else masses[0].T @ (model.likely[:, None] * masses[1])
        for zero in model.zeros:
            if {i for i, _ in zero} <= {*places}:
                cells = dict(zero)
                table[np.ix_(*([*cells.get(i, range(model.columns[i].size))] for i in places))] = 0
        return np.asarray(table * (model.rows / table.sum()))

    def report(
        self, *, check: Real | None = None, delta: Real = 0, frame: Any = None, relation: str | Relation = "add-remove"
    ) -> SyntheticReport:
        """Return the expected error of each column and pair, from public numbers alone, and what a check finds.

        Args:
            check: the ε of a look at the data: the distance of each column and pair, with noise. It is charged to the
                session that made the data set.
            delta: the δ of the look; above 0 its noise is Gaussian, which is less for many columns.
            frame: a data frame to look at in place of the session's table; each row is a person, and you account for
                it.
            relation: of `frame`: "add-remove", or "replace" where the number of rows is public.

        Raises:
            InvalidParameter: `check` of a data set that no open session made, without `frame`.
            BudgetExceeded: the account cannot pay; no data was read.
        """
        model, found, warnings = self._model, [], []
        for fact in model.facts:
            error = None
            if fact.sigma is not None:
                error = min(math.sqrt(2 / math.pi) * fact.sigma * fact.cells / (2 * model.rows), 1.0)
            found.append((fact.columns, fact.cells, error, fact.merged))
        unseen = sum(fact.sigma is None for fact in model.facts)
        merged = [f"{fact.columns[0]} ({fact.merged})" for fact in model.facts if fact.merged]
        if model.promise:
            warnings.append(model.promise)
        elif unseen:
            warnings.append(f"{unseen} pairs were not measured: what relates their columns is known through others.")
        if bias := bias_of(model.columns):
            warnings.append(bias)
        if merged:
            warnings.append(f"Rare values were merged, and are equally likely: {', '.join(merged)}.")
        report = SyntheticReport(tuple(found), tuple(warnings))
        if check is None:
            if frame is not None or delta:
                raise InvalidParameter("frame= and delta= are for a look at the data.", hint="check=0.1 with them")
            return report
        tables = {(p := tuple(map(model.place, fact.columns))): self._counts(p) for fact in model.facts}
        whole = {places: np.rint(table).astype(np.int64) for places, table in tables.items()}
        price, digest = (positive("check", check), probability("delta", delta)), digest_of(whole.values())

        def look(source: str, most: int) -> ModelCheck:
            return ModelCheck(model.columns, source, *price, most, whole, digest)

        looked, off = self._looked(look, frame, {c.name: c.fact for c in model.columns}, relation)
        distances, twice = [n for _, n in looked], 2 * model.rows
        return replace(report, checked=tuple(n / twice for n in distances), margin=off / twice)

    def interval(self, sql: str, confidence: Real = Fraction(19, 20)) -> CountInterval:
        """Return a confidence interval of a counting query, from one of the noisy tables that were measured.

        It is for the rows that were read: at most `max_rows` of a person, and values moved into their ranges.

        Args:
            sql: SELECT COUNT(*) FROM the table WHERE a condition on one column, or on a pair that was measured.
            confidence: of the interval.

        Raises:
            UnsupportedQuery: there is no interval, and why.
        """
        from discreet.synth.domain import read_count

        return self._interval(read_count(sql, self._model.columns), float(confidence_level(confidence)))

    def _interval(self, asked: CountedCells, confidence: float) -> CountInterval:
        model, sizes = self._model, [c.size for c in self._model.columns]
        found: list[tuple[float, float]] = []
        held_any = False
        for fact in model.facts:
            places = tuple(map(model.place, fact.columns))
            if fact.counts is None or fact.sigma is None or not {*asked.places} <= {*places}:
                continue
            held_any = True
            chosen = merged_cells(asked.over(places, sizes), [model.maps[i] for i in places] if len(places) > 1 else [])
            if chosen is not None:
                # each number was rounded to a whole one, which adds a variance of 1/12 at most
                found.append((int(chosen.sum()) * (fact.sigma**2 + 1 / 12), float(fact.counts[chosen].sum())))
        if not found:
            names = " and ".join(repr(model.columns[i].name) for i in asked.places)
            why = "rare values were merged, and the condition tells them apart" if held_any else "no table has them all"
            raise UnsupportedQuery(
                f"There is no interval for a condition on {names}: {why}.",
                hint="ask the data: session.sql, which is charged; or .marginal, without an interval",
            )
        variance, value = min(found)
        half = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(variance)
        half = half + 0.5 if variance else 0.0
        return CountInterval(value, value - half, value + half, math.sqrt(variance))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a model file: the mixture as arrays (npz) with JSON beside them. Its certificate is not in it."""
        model = self._model
        said = {
            "format": FORMAT,
            "columns": [column.said for column in model.columns],
            "rows": model.rows,
            "promise": model.promise,
            "facts": [[list(f.columns), f.cells, f.sigma, f.merged] for f in model.facts],
            "maps": [own.tolist() for own in model.maps],
            "zeros": [[[i, list(cells)] for i, cells in zero] for zero in model.zeros],
        }
        text = np.frombuffer(json.dumps(said).encode(), np.uint8)
        with Path(path).open("wb") as file:
            counts: dict[str, Any] = {} if model.weights is None else {"weights": model.weights}
            counts |= {f"counts{i}": f.counts for i, f in enumerate(model.facts) if f.counts is not None}
            np.savez_compressed(file, model=text, held=model.held, **counts)

    def _cells(self, wanted: int, given: Mapping[str, Any], rng: Entropy) -> list[Integers]:
        """Return cells of so many rows, none of which is a structural zero."""
        weights, allowed = self._weights(given)
        found: list[list[Integers]] = []
        have = drawn = 0
        while have < wanted:
            if drawn >= ENOUGH and have * TRIES < drawn:
                raise InvalidParameter(
                    f"structural zeros leave fewer than 1 in {TRIES} of these rows.", hint="give less, or fewer zeros"
                )
            n = min(max(wanted - have, drawn), _BLOCK)
            block = self._block(n, weights, allowed, rng)
            kept = ~self._is_zero(block, n)
            found.append([column[kept] for column in block])
            have, drawn = have + int(kept.sum()), drawn + n
        return [
            np.concatenate([block[i] for block in found])[:wanted] if found else np.zeros(0, np.int64)
            for i in range(len(self._model.columns))
        ]

    def _weights(self, given: Mapping[str, Any]) -> tuple[Floats, dict[int, list[int]]]:
        """Return how likely each component is, and between which cells of the given columns."""
        model = self._model
        allowed = {model.place(name): model.columns[model.place(name)].cells_of(value) for name, value in given.items()}
        likely = model.likely
        for i, cells in allowed.items():
            likely = likely * model.masses(i)[:, cells].sum(axis=1)
        total = float(likely.sum())
        if total < LEAST:
            raise InvalidParameter(
                f"what is given has a probability of {total:.1g}, below {LEAST:g}.",
                hint="give fewer columns, or ranges",
            )
        return likely / total, allowed

    def _block(self, n: int, weights: Floats, allowed: Mapping[int, Sequence[int]], rng: Entropy) -> list[Integers]:
        """Return cells of n rows: components, and in each the cells of each column, in their shares as near as can be,
        in orders of chance.
        """
        at = (np.arange(n) + _uniform(1, rng)) / n
        component = np.minimum(np.searchsorted(np.cumsum(weights), at), len(weights) - 1)
        starts = np.searchsorted(component, np.arange(len(weights) + 1))
        size, place = np.diff(starts)[component], np.arange(n) - starts[component]
        shuffled, found = np.argsort(_uniform(n, rng), kind="stable"), []
        for i in range(len(self._model.columns)):
            masses = self._model.masses(i)
            if i in allowed:
                masses *= np.isin(np.arange(masses.shape[1]), allowed[i])
            ends = np.cumsum(masses, axis=1)
            ends = ends / np.maximum(ends[:, -1:], 1e-300) + np.arange(len(ends))[:, None]  # one after the other
            own = np.empty(n, np.int64)  # each component's rows, and then these in an order of chance
            own[np.lexsort([_uniform(n, rng), component])] = place
            share = component + np.minimum((own + _uniform(n, rng)) / size, 1 - 2.0**-32)
            cell = np.searchsorted(ends.reshape(-1), share, side="right") % masses.shape[1]
            found.append(cell[shuffled])
        return found

    def _is_zero(self, cells: Sequence[Integers], n: int) -> NDArray[np.bool_]:
        found = np.zeros(n, np.bool_)
        for zero in self._model.zeros:
            found |= np.logical_and.reduce([np.isin(cells[i], own) for i, own in zero])
        return found

    def __repr__(self) -> str:
        return f"Synthetic({', '.join(self.columns)}; about {self.rows:,} rows)"


def load(path: str | os.PathLike[str]) -> Synthetic:
    """Return the synthetic data set of a model file that `save` wrote; no code in it is run.

    Raises:
        InvalidParameter: it is no such file, or of another version.
    """
    try:
        with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as found:
            said = json.loads(found["model"].tobytes())
            held = np.asarray(found["held"], np.float32)
            arrays = {name: np.asarray(found[name], np.float64) for name in found if name not in ("model", "held")}
        if said["format"] != FORMAT:
            raise InvalidParameter("this model file is of another version of discreet.", hint="save it again")
        columns = tuple(SynthColumn.read(column) for column in said["columns"])
        facts = tuple(
            TableFact(tuple(names), cells, sigma, merged, arrays.get(f"counts{i}"))
            for i, (names, cells, sigma, merged) in enumerate(said["facts"])
        )
        maps = tuple(np.array(own, np.int64) for own in said["maps"])
        zeros = tuple(tuple((i, tuple(cells)) for i, cells in zero) for zero in said["zeros"])
        rows, promise = float(said["rows"]), str(said["promise"])
        weights = arrays.get("weights")
        sizes = {
            c.name: (c.size, int(own.max()) + 1) for c, own in zip(columns, maps, strict=True) if len(own) == c.size
        }
        shapes = [tuple(sizes[name][len(f.columns) > 1] for name in f.columns) for f in facts]
        fits = weights is None or (weights.shape == held.shape[:1] and abs(weights.sum() - 1) < 1e-6)
        fits &= all(f.counts is None or f.counts.shape == shape for f, shape in zip(facts, shapes, strict=True))
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InvalidParameter):
            raise
        raise InvalidParameter("this is no model file of a synthetic data set.", hint="Synthetic.save(path)") from None
    if not fits or held.ndim != 2 or held.shape[1] != sum(c.size for c in columns) or not np.isfinite(held).all():
        raise InvalidParameter("this model file does not fit together.", hint="save it again")
    return Synthetic(SyntheticModel(columns, held, rows, facts, zeros, maps, weights, promise))


def merged_cells(holds: NDArray[np.bool_], maps: Sequence[Integers]) -> NDArray[np.bool_] | None:
    """Return the same of merged values, an axis for each; None where some of these are held in part."""
    for axis, cells in enumerate(maps):
        moved = np.moveaxis(holds, axis, 0)
        shape = (int(cells.max()) + 1, *moved.shape[1:])
        some, every = np.zeros(shape, np.bool_), np.ones(shape, np.bool_)
        np.logical_or.at(some, cells, moved)
        np.logical_and.at(every, cells, moved)
        if (some != every).any():
            return None
        holds = np.moveaxis(some, 0, axis)
    return holds


def _uniform(n: int, rng: Entropy) -> Floats:
    """Return uniform numbers in [0, 1)."""
    return np.asarray((words64(rng, n) >> np.uint64(11)).astype(np.float64) / 2.0**53)
