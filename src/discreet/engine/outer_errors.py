"""Errors of SQL over results before the data: from the parts' laws of noise, at public guesses where these settle them.

Guarantee:
    A function of the plan, of the text and of public guesses. No data is read, and no public table.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from discreet.backends.sandbox import FAILURES, open_tables
from discreet.errors import InvalidParameter, UnknownColumn
from discreet.plan.assumed import Assumed
from discreet.plan.nodes.noise import quantile
from discreet.post.noisy_table import NoisyTable
from discreet.post.redraw import PAIRS, Place, Rows, column_places, moved, redrawn, spread
from discreet.query.lineage import Follows

if TYPE_CHECKING:
    from discreet.mechanisms.additive import Additive
    from discreet.plan.nodes.node import Node
    from discreet.plan.outer import Foreseen
    from discreet.plan.plan import Plan
    from discreet.plan.query import Query
    from discreet.privacy.exact import Real

MOST = 2 * PAIRS
"""Noisy numbers whose coefficients are found one by one; of more, noise is drawn."""

MOST_DRAWN = 2_000
"""Noisy numbers of a result whose errors are found before the data."""

MOST_SURE = Fraction(PAIRS, PAIRS + 1)
"""Largest confidence of which the draws say something."""

_ANY = 1 << 10  # what a noisy number is where a column is affine in it, so that it does not matter
_STEP = 1 << 20
_KEPT = 64
_kept: OrderedDict[Any, Any] = OrderedDict()

T = TypeVar("T")


def foreseen(plan: Plan, assuming: Mapping[str, Real] | None) -> Foreseen:
    """Return the errors of a plan's outer columns, at these guesses."""
    first = next(iter(plan.outputs.values())).query
    return OuterErrors(plan, Assumed.of(first, assuming).sizes)


@dataclass(frozen=True, slots=True)
class OuterErrors:
    """Errors of outer columns before the data.

    A column of a part has the error of that part's plan. One that is affine in noisy numbers has that of their weighed
    sum: the outer query runs once with each number moved. What is smooth has one at public guesses at the parts'
    columns, by 200 runs with the noise drawn, as its interval has it after the data.

    Attributes:
        plan: of SQL over results.
        sizes: public guesses, by the names of the parts' columns, or of outer ones.
    """

    plan: Plan
    sizes: Mapping[str, Fraction]

    def error(self, column: str, confidence: Fraction) -> float:
        """Return the half-width t such that the noise moves the column by at most t with this probability; infinite
        where the noise is too large beside what is guessed.

        Raises:
            UnknownColumn: no such column.
            InvalidParameter: it depends on the data, without guesses that settle it.
        """
        place, follows = self._place(column), self.plan.traced.column(column)
        if follows.follows is Follows.PUBLIC:
            raise InvalidParameter(f"{column!r} is public: no noise moves it.", hint="ask for the error of a number")
        if self.plan.traced.lineage.is_chosen or follows.follows is Follows.UNKNOWN:
            raise InvalidParameter(
                f"the error of {column!r} depends on the data: noise chooses the rows, or more than sums and ratios.",
                hint="the release has an interval where one is known; or ask for the error of the parts' columns",
            )
        if follows.origins:
            parts = [(self.plan.outputs[part].query, name) for part, name in follows.origins]
            return max(query.error(name, confidence, assuming=self.sizes) for query, name in parts)
        straight = follows.follows in (Follows.LINEAR, Follows.SUM)
        tables = self._tables(column, any_size=straight)
        if straight and sum(len(t.cells) * len(t.cells[0]) for t in tables.values()) <= MOST:
            rows = [weights[place] for weights in self._weights(column, tables)]
            return max((quantile(terms, confidence) for terms in dict.fromkeys(map(_terms, rows))), default=0.0)
        if confidence > MOST_SURE:
            raise InvalidParameter(
                f"the error of {column!r} is found by drawing the noise, which says nothing above 99 % confidence.",
                hint="confidence=0.99, or ask for the error of the parts' columns",
            )
        shown, runs = _once(("drawn", self._key(tables), self.plan.identity), lambda: self._drawn(column, tables))
        return max((math.inf if w is None else w for w in spread(shown, place, runs, confidence)), default=0.0)

    def value(self, column: str) -> Fraction:
        """Return what a column is assumed to be, or the least size of it that follows from the guesses at the parts.

        Raises:
            InvalidParameter: that is not assumed.
        """
        if column in self.sizes:
            return self.sizes[column]
        place, tables = self._place(column), self._tables(column, any_size=False)
        (rows,) = self._runs(column, [_rows(self.plan, tables)])
        found = [row[place] for row in rows if isinstance(row[place], int | float) and math.isfinite(row[place])]
        return Fraction(min(map(abs, found), default=0))

    def _place(self, column: str) -> int:
        columns = self.plan.columns
        if column not in columns:
            raise UnknownColumn(f"The result has no column {column!r}.", hint=f"its columns are: {', '.join(columns)}")
        return columns.index(column)

    def _tables(self, column: str, *, any_size: bool) -> dict[str, NoisyTable]:
        """Return noisy tables in which each number is as it is guessed; `any_size` where no guess is needed."""
        outer, outputs = self.plan.outer, self.plan.outputs
        assert outer is not None
        why = "it is read from totals or quantiles" if not self.plan.is_redrawable else ""
        if any(o.query.question.keys.lists is None for o in outputs.values()):
            why = "its groups are selected privately"
        elif sum(o.query.question.keys.shown * len(o.query.allocation.noises) for o in outputs.values()) > MOST_DRAWN:
            why = f"it may follow from more than {MOST_DRAWN:,} noisy numbers"
        elif outer.public:
            why = "public tables are read with the result"
        if why:
            raise InvalidParameter(
                f"the error of {column!r} is not known before the data: {why}.",
                hint="the release has an interval where one is known",
            )
        guessed = {name: _guessed(output.query, self.sizes) for name, output in outputs.items()}
        keys = {name: _keys(output.query) for name, output in outputs.items()}

        def tables(step: int) -> dict[str, NoisyTable]:
            """Return the guesses, with numbers that are not guessed moved, each by another multiple of the step."""
            found = {}
            for n, cells in guessed.items():
                rows = [
                    [_ANY + i * k * step if c is None else c for i, c in enumerate(cells, 1)]
                    for k in range(len(keys[n]))
                ]
                found[n] = NoisyTable(keys[n], tuple(map(tuple, rows)))
            return found

        if any_size or not any(None in cells for cells in guessed.values()):
            return tables(0)
        place, inputs = self._place(column), [_rows(self.plan, tables(step)) for step in (0, _STEP)]
        one, other = ([row[place] for row in rows] for rows in self._runs(column, inputs))
        if repr(one) != repr(other):  # it reads what is not guessed
            names = [
                n for o in outputs.values() for n, node in o.query.question.outer.columns if _index(node) is not None
            ]
            example = ", ".join(f"{n!r}: 10_000" for n in dict.fromkeys(names) if n not in self.sizes)
            guess = f"assuming={{{example}}}"
            raise InvalidParameter(
                f"the error of {column!r} depends on how large the numbers are from which it is computed.",
                hint=f"give public guesses at columns of its parts: {guess}; the release has an interval"
                if example
                else "the release has an interval where one is known",
            )
        return tables(0)

    def _weights(self, column: str, tables: Mapping[str, NoisyTable]) -> Sequence[Sequence[_Weights]]:
        """Return of each row and column how far it is moved by each noisy number that moves by 1, with its noise."""
        noises = {key: z for o in self.plan.outputs.values() for key, z in column_places(o)}
        sizes = {key: len(tables[name].cells) for name, o in self.plan.outputs.items() for key, _ in column_places(o)}

        def found() -> list[list[dict[Place, list[float]]]]:
            steps = [(key, i) for key, n in sizes.items() for i in range(n)]
            zero = {key: [0] * n for key, n in sizes.items()}
            moves = [{**zero, key: [_STEP * (i == j) for j in range(sizes[key])]} for key, i in steps]
            base, *runs = self._runs(column, [moved(self.plan, tables, m, 1) for m in (zero, *moves)])
            weights: list[list[dict[Place, list[float]]]] = [[{} for _ in row] for row in base]
            for (key, _), rows in zip(steps, runs, strict=True):
                for i, (row, other) in enumerate(zip(base, rows, strict=True)):
                    for j, (a, b) in enumerate(zip(row, other, strict=True)):
                        numbers = isinstance(a, int | float) and isinstance(b, int | float)
                        weights[i][j].setdefault(key, []).append((b - a) / _STEP if numbers else 0.0)
            return weights

        rows = _once(("weights", self._key(tables)), found)
        return [[[(w, noises[k]) for k, ws in cell.items() for w in ws if w] for cell in row] for row in rows]

    def _drawn(self, column: str, tables: Mapping[str, NoisyTable]) -> tuple[Rows, list[tuple[Rows, Rows]]]:
        pairs = itertools.chain.from_iterable(redrawn(self.plan, tables))
        shown, *runs = self._runs(column, [_rows(self.plan, tables), *pairs])
        return shown, list(zip(runs[::2], runs[1::2], strict=True))

    def _runs(self, column: str, inputs: Sequence[Mapping[str, Rows]]) -> list[Rows]:
        """Return the rows of the outer query over each of these rows of the parts.

        Raises:
            InvalidParameter: it fails, or takes too long.
        """
        outer = self.plan.outer
        assert outer is not None
        shapes = {name: [(n, k.value) for n, k in columns if k] for name, columns in outer.parts.items()}
        try:
            with open_tables({name: (shape, ()) for name, shape in shapes.items()}) as sandbox:
                found: list[Rows] = []
                for rows in inputs:
                    for name, own in rows.items():
                        sandbox.fill(name, shapes[name], own)
                    found.append(sandbox.run(self.plan.traced.unordered)[1])
                    keys = self.plan.traced.public_cells(found[-1])
                    if keys is None or keys != self.plan.traced.public_cells(found[0]):
                        raise InvalidParameter(
                            f"the error of {column!r} is not known before the data: noise decides which row is which.",
                            hint="SELECT the keys of the groups, too",
                        )
        except FAILURES:
            raise InvalidParameter(
                f"the error of {column!r} is not known: the query over results fails at guessed numbers.",
                hint="guess other numbers with assuming=; the release has an interval where one is known",
            ) from None
        return found

    def _key(self, tables: Mapping[str, NoisyTable]) -> Any:
        parts = [(n, o.place, o.query.question.outer.columns) for n, o in self.plan.outputs.items()]
        return self.plan.traced.unordered, tuple(parts), tuple((t.keys, t.cells) for t in tables.values())


_Weights = Sequence[tuple[float, "Additive"]]


def _once(key: Any, make: Callable[[], T]) -> T:
    """Return what was found before for a key; a search for the least ε asks for the same again and again."""
    if key not in _kept:
        _kept[key] = make()
        if len(_kept) > _KEPT:
            _kept.popitem(last=False)
    found: T = _kept[key]
    return found


def _terms(weights: _Weights) -> tuple[tuple[Fraction, Additive], ...]:
    return tuple((Fraction(abs(w)).limit_denominator(1 << 40), z) for w, z in sorted(weights, key=lambda p: abs(p[0])))


def _rows(plan: Plan, tables: Mapping[str, NoisyTable]) -> dict[str, Rows]:
    zero = {key: [0] * len(tables[n].cells) for n, o in plan.outputs.items() for key, _ in column_places(o)}
    return moved(plan, tables, zero, 1)


def _keys(query: Query) -> tuple[tuple[Any, ...], ...]:
    keys = query.question.keys
    rows = itertools.product(*(keys.lists or ()))
    return tuple(r for r in rows if all(tuple(r[p] for p in j.places) in j.known for j in keys.joint))


def _index(node: Node) -> int | None:
    """Return the place of the one noisy integer in which a column is affine."""
    affine = node.affine()
    return next(iter(affine[1])) if affine is not None and len(affine[1]) == 1 else None


def _guessed(query: Query, sizes: Mapping[str, Fraction]) -> list[int | None]:
    """Return the noisy integers of a row as guesses at the columns settle them."""
    cells: list[int | None] = [None] * len(query.allocation.noises)
    for name, node in query.question.outer.columns:
        place, affine = _index(node), node.affine()
        if name in sizes and place is not None and affine is not None:
            cells[place] = round((sizes[name] - affine[0]) / affine[1][place])
    return cells
