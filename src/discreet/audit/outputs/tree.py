"""Outputs that are no plain arrays, as columns: one node for each place in them, learned from samples."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import chain, zip_longest
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.shape import LABEL, MAPPING, NUMBER, SEQUENCE, frame, in_words, kind, textless, unfolded
from discreet.audit.places import Floats

Emit: TypeAlias = Callable[[Floats], None]

WIDEST = 64
"""Positions of a sequence, or keys of a mapping, that become columns; identity covers the rest."""
_LABELS = 512
"""Different texts of one place that are told apart; identity covers the rest."""
_DEEPEST = 6
_PLAIN = {float, int, bool}


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column: its name, what it holds, and the texts that the numbers of a label column stand for.

    Attributes:
        name: what a reader calls it: "output[3]".
        kind: "number" and "label" for what was put out, "difference" and "derived" for what was computed from it.
        labels: texts, by number; empty where the column is a number.
    """

    name: str
    kind: str
    labels: tuple[str, ...] = ()


@dataclass(slots=True)
class Branch:
    """One place in the outputs, and the columns that describe what is there."""

    path: str
    depth: int = 0
    kinds: tuple[str, ...] = ()
    numeric: bool = False
    boolean: bool = False
    texts: tuple[str, ...] = ()
    parses: bool = False
    lengths: bool = False
    orders: tuple[str, ...] = ()
    positions: list[Branch] = field(default_factory=list)
    keys: dict[str, Branch] = field(default_factory=dict)

    @classmethod
    def learned(cls, path: str, values: list[Any], depth: int = 0) -> Branch:
        """Return the node for values of one place."""
        node = cls(path, depth)
        counted = Counter(_kinds(values))
        node.kinds = tuple(sorted(counted))
        parts = _parts(values)
        node.numeric = len(parts[NUMBER][0]) > 0
        node.boolean = set(node.kinds) <= {"bool", "bool_"}
        texts: Counter[str] = Counter(parts[LABEL][1])
        node.texts = tuple(sorted(t for t, _ in texts.most_common(_LABELS)))
        node.parses = len(texts) > 1 and all(_parsed(t) is not None for t in node.texts)
        sequences, mappings = parts[SEQUENCE][1], parts[MAPPING][1]
        node.lengths = len({len(v) for v in sequences} | {len(v) for v in mappings}) > 1
        if depth < _DEEPEST:
            for i, (_, items) in enumerate(_transposed(sequences)):
                node.positions.append(cls.learned(f"{path}[{i}]", items, depth + 1))
            frequent = Counter(k for m in mappings for k in m).most_common(WIDEST)
            for key in sorted(k for k, _ in frequent):
                here = [m[key] for m in mappings if key in m]
                node.keys[key] = cls.learned(f"{path}[{key!r}]", here, depth + 1)
        orders = Counter(" ".join(m) for m in mappings)
        node.orders = tuple(sorted(o for o, _ in orders.most_common(_LABELS))) if len(orders) > 1 else ()
        return node

    def columns(self) -> list[OutputColumn]:
        """Return the columns that `encode` gives, in its order."""
        found = []
        if len(self.kinds) > 1:
            found.append(OutputColumn(f"type of {self.path}", LABEL, self.kinds))
        if self.numeric:
            found.append(OutputColumn(self.path, NUMBER, ("False", "True") if self.boolean else ()))
        if len(self.texts) > 1:
            found.append(OutputColumn(self.path, LABEL, self.texts))
            found.append(OutputColumn(f"length of {self.path}", "derived"))
        if self.parses:
            found.append(OutputColumn(f"number in {self.path}", NUMBER))
        if self.lengths:
            found.append(OutputColumn(f"length of {self.path}", "derived"))
        if self.orders:
            found.append(OutputColumn(f"keys of {self.path}", LABEL, self.orders))
        for child in [*self.positions, *self.keys.values()]:
            found += child.columns()
        return found

    def encode(self, values: list[Any], rows: NDArray[np.intp], n: int, emit: Emit) -> None:
        """Emit the columns of values, which are those of the given rows out of n; NaN is put elsewhere."""

        def put(at: NDArray[np.intp] | list[int], numbers: Iterable[float] | Floats) -> None:
            column = np.full(n, np.nan)
            column[rows[at]] = numbers if isinstance(numbers, np.ndarray) else list(numbers)
            emit(column)

        everywhere = np.arange(len(values))
        if len(self.kinds) > 1:
            put(everywhere, _numbered(_kinds(values), self.kinds))
        parts = _parts(values)
        if self.numeric:
            put(*parts[NUMBER])
        at, texts = parts[LABEL]
        if len(self.texts) > 1:
            put(at, _numbered(texts, self.texts))
            put(at, [float(len(t)) for t in texts])
        if self.parses:
            numbers = [_parsed(t) for t in texts]
            put(at, [np.nan if x is None else x for x in numbers])
        (at_s, sequences), (at_m, mappings) = parts[SEQUENCE], parts[MAPPING]
        if self.lengths:
            put([*at_s, *at_m], [float(len(v)) for v in [*sequences, *mappings]])
        if self.orders:
            put(at_m, _numbered([" ".join(m) for m in mappings], self.orders))
        rows_s, rows_m = rows[at_s], rows[at_m]
        items = _transposed(sequences)
        for i, child in enumerate(self.positions):
            here, found = items[i] if i < len(items) else ([], [])
            child.encode(found, rows_s[here], n, emit)
        for key, child in self.keys.items():
            here = [i for i, m in enumerate(mappings) if key in m]
            child.encode([mappings[i][key] for i in here], rows_m[here], n, emit)


_Part: TypeAlias = "tuple[Any, Any]"


def _parts(values: list[Any]) -> dict[str, _Part]:
    """Values by shape: for each the indices and the unfolded values."""
    types = set(map(type, values))
    empty: tuple[list[int], list[Any]] = ([], [])
    parts: dict[str, _Part] = {NUMBER: empty, SEQUENCE: empty, MAPPING: empty, LABEL: empty}
    if types <= _PLAIN and values:
        try:
            parts[NUMBER] = (np.arange(len(values)), np.array(values, dtype=np.float64))
        except OverflowError:
            pass
        else:
            return parts
    if types <= {list, tuple} and values:
        parts[SEQUENCE] = (np.arange(len(values)), values)
        return parts
    if types == {dict} and set(map(type, chain.from_iterable(values))) <= {str}:
        parts[MAPPING] = (np.arange(len(values)), values)
        return parts
    found: dict[str, tuple[list[int], list[Any]]] = {}
    for i, value in enumerate(values):
        shape, plain = unfolded(value)
        at, items = found.setdefault(shape, ([], []))
        at.append(i)
        items.append(plain)
    return parts | found


def _kinds(values: list[Any]) -> list[str]:
    types = set(map(type, values))
    if types and types <= {int, bool, str, bytes, type(None), list, tuple, dict}:
        names = {t: t.__name__ for t in types}
        return [names[t] for t in map(type, values)]
    return [kind(v) for v in values]


def _transposed(sequences: list[Any]) -> list[tuple[Any, list[Any]]]:
    """For each position the indices of the sequences that reach it, and their items."""
    if not sequences:
        return []
    lengths = np.fromiter(map(len, sequences), dtype=np.int64, count=len(sequences))
    longest = int(lengths.max())
    if longest > WIDEST:
        sequences, longest = [s[:WIDEST] for s in sequences], WIDEST
    if int(lengths.min()) >= longest:
        everywhere = np.arange(len(sequences))
        return [(everywhere, list(items)) for items in zip(*sequences, strict=True)]
    columns = []
    for i, items in enumerate(zip_longest(*sequences)):
        here = np.flatnonzero(lengths > i)
        columns.append((here, [items[j] for j in here]))
    return columns


def _numbered(texts: list[str], known: tuple[str, ...]) -> list[float]:
    """Return the number of each text; −1 for one that was not seen while learning."""
    index = {t: float(i) for i, t in enumerate(known)}
    return [index.get(t, -1.0) for t in texts]


def _parsed(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def example(output: Any, most: int = 160) -> str:
    """Return an output as text, cut where it is long."""
    if isinstance(output, (np.generic, np.ndarray)):
        output = output.tolist()
    shape, plain = unfolded(output)
    named = shape == MAPPING and (frame(output) is not None or textless(output))
    shown = plain if named else output
    text = str(shown) if type(shown).__module__ == "discreet.audit.outputs.sampling" else in_words(shown)
    return text if len(text) <= most else text[: most - 1] + "…"


Computed: TypeAlias = "tuple[OutputColumn, Callable[[], Floats]]"
"""A column, and what computes its values."""

_FEW = 6
"""Numeric columns up to which each one's lowest bits are a column; beyond, the lowest of all of them."""
_MOST_DIFFERENCES = 64
_FRACTION, _EXPONENTS, _BIAS = 52, 0x7FF, 1023  # of a float of 64 bits
_BLOCK = 16_384  # numbers whose bits stay in the cache


@dataclass(frozen=True, slots=True)
class DerivedColumns:
    """Which columns are computed, and from which."""

    groups: tuple[tuple[int, ...], ...]
    numbers: tuple[int, ...]
    labels: tuple[int, ...]

    @classmethod
    def of(cls, columns: tuple[OutputColumn, ...], numbers: Sequence[int]) -> DerivedColumns:
        """Return what can be computed from raw columns: those of one parent are a vector.

        Args:
            columns: the raw columns.
            numbers: those whose bits are looked at.
        """
        vectors: dict[str, list[int]] = {}
        for i, column in enumerate(columns):
            if column.name.endswith("]"):
                vectors.setdefault(column.kind + column.name.rpartition("[")[0], []).append(i)
        numeric = [tuple(v) for k, v in vectors.items() if k.startswith("number") and len(v) > 1]
        named = [v for k, v in vectors.items() if k.startswith("label") and len(v) > 1]
        return cls(tuple(numeric), tuple(numbers), tuple(named[0]) if named else ())

    def compute(self, raw: Floats, columns: tuple[OutputColumn, ...]) -> Iterator[Computed]:
        """Yield the computed columns; their values are computed when they are asked for."""
        for group in self.groups:
            yield from _of_vector(_Once(partial(_some, raw, group)), [columns[i] for i in group])
        if self.labels:
            labels = _Once(partial(_some, raw, self.labels))
            path = columns[self.labels[0]].name.rpartition("[")[0]
            yield _derived(f"first change in {path}", lambda: np.argmax(labels() != labels()[:, :1], axis=1))
        if 0 < len(self.numbers) <= _FEW:
            for i in self.numbers:
                yield _derived(f"lowest bit of {columns[i].name}", partial(lowest_bit, raw[:, i]))
                yield _derived(f"whether {columns[i].name} is whole", partial(_is_whole, raw[:, i]))
        elif self.numbers:
            bit = _Once(lambda: lowest_bit(_some(raw, self.numbers)))
            yield _derived("lowest bit of any number", lambda: _across(np.fmin, bit()))
            yield _derived("highest lowest bit of all numbers", lambda: _across(np.fmax, bit()))


def lowest_bit(x: Floats) -> Floats:
    """log₂ of the lowest bit that is set in each float; 0 has +∞, what is no number NaN."""
    found = np.empty(x.shape)
    rows = max(1, _BLOCK // max(1, math.prod(x.shape[1:])))
    for start in range(0, len(x), rows):
        found[start : start + rows] = _lowest_bit(x[start : start + rows])
    return found


def _lowest_bit(x: Floats) -> Floats:
    bits = np.ascontiguousarray(x, dtype=np.float64).view(np.int64)
    exponent = bits >> _FRACTION & _EXPONENTS
    whole = bits & (1 << _FRACTION) - 1 | (exponent > 0).astype(np.int64) << _FRACTION
    # A power of two, whose own exponent is the place of that bit.
    lowest = (whole & -whole).astype(np.float64).view(np.int64) >> _FRACTION
    place = lowest + np.maximum(exponent, 1) - (_BIAS + _BIAS + _FRACTION)
    found: Floats = place.astype(np.float64)
    found[whole == 0] = np.inf
    found[exponent == _EXPONENTS] = np.nan
    return found


class _Once:
    """A value that several columns need, computed when the first of them is."""

    def __init__(self, of: Callable[[], Floats]) -> None:
        self._of = of
        self._value: Floats | None = None

    def __call__(self) -> Floats:
        if self._value is None:
            self._value = self._of()
        return self._value


def _some(raw: Floats, columns: tuple[int, ...]) -> Floats:
    return raw if columns == tuple(range(raw.shape[1])) else raw[:, list(columns)]


def _is_whole(x: Floats) -> NDArray[np.bool_]:
    return np.asarray(np.floor(x) == x)


def _step(some: _Once, j: int) -> Floats:
    return np.asarray(some()[:, j] - some()[:, j - 1])


def _of_vector(some: _Once, columns: list[OutputColumn]) -> Iterator[Computed]:
    path = columns[0].name.rpartition("[")[0]
    yield from _described(some, path)
    if all(c.labels for c in columns):
        return
    for j in range(1, min(len(columns), _MOST_DIFFERENCES + 1)):
        name = f"{columns[j].name} − {columns[j - 1].name}"
        yield OutputColumn(name, "difference"), _quiet(partial(_step, some, j))


def _described(some: _Once, path: str) -> Iterator[Computed]:
    def high() -> Floats:
        return np.where(np.isnan(some()), -np.inf, some())

    yield _derived(f"sum of {path}", lambda: np.where(np.isnan(some()), 0.0, some()).sum(axis=1))
    yield _derived(f"largest of {path}", lambda: _across(np.fmax, some()))
    yield _derived(f"smallest of {path}", lambda: _across(np.fmin, some()))
    yield _derived(f"index of the largest of {path}", lambda: np.argmax(high(), axis=1))
    yield _derived(f"index of the first number in {path}", lambda: _first(~np.isnan(some())))
    yield _derived(f"index of the first that is no number in {path}", lambda: _first(np.isnan(some())))
    yield _derived(f"how many numbers in {path}", lambda: (~np.isnan(some())).sum(axis=1))


def _across(of: np.ufunc, some: Floats) -> Floats:
    """Return a ufunc over the entries of each row: column after column, as numpy is slow at many short rows."""
    return np.asarray(reduce(of, some.T))


def _first(here: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the first place in each row; its length where there is none."""
    return np.asarray(np.where(here.any(axis=1), np.argmax(here, axis=1), here.shape[1]))


def _derived(name: str, values: Callable[[], NDArray[np.generic]]) -> Computed:
    return OutputColumn(name, "derived"), _quiet(lambda: values().astype(np.float64))


def _quiet(values: Callable[[], Floats]) -> Callable[[], Floats]:
    def computed() -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            return values()

    return computed
