"""Outputs of any type as rows of numbers with names, and as a code for the whole output; grids for real numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.identity import codes_of
from discreet.audit.outputs.shape import Batch
from discreet.audit.outputs.tree import Branch, DerivedColumns, OutputColumn, example
from discreet.audit.places import Floats

Index: TypeAlias = "slice | NDArray[Any]"

_WIDEST = 128
"""Entries of an array that become columns: of wider ones those that differ most between the batches."""
_LEARNED_FROM = 20_000
"""Outputs of each batch from which columns and labels are learned."""
_BLOCK = 4096

_QUANTILES = 64  # parts into which the distinct values of a column are cut
_FINER = 10  # bits by which the step is finer than the smallest of those parts
_PRECISION = 47  # bits below the largest of the cuts that a step may be: a cell there holds 64 floats
_LOOKED_AT = 8192  # values from which the step is chosen
_WHOLE = 2.0**53  # from here on all floats are whole
_SHIFT = 0.381966011250105  # (3 − √5)/2: cells begin where no multiple of a power of two or ten is near


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Outputs as numbers.

    Attributes:
        values: one row for each output; NaN where an output has no such part, or has NaN there.
        columns: what each column is.
        codes: the identity of each whole output: equal outputs, equal codes.
        examples: an output with that code, as text.
        kept: what scores have computed of these rows, by what it was computed with.
    """

    values: Floats
    columns: tuple[OutputColumn, ...]
    codes: NDArray[np.int64]
    examples: Callable[[int], str]
    kept: dict[object, Any] = field(default_factory=dict, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(c.name for c in self.columns)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, index: Index) -> Encoded:
        return Encoded(self.values[index], self.columns, self.codes[index], self.examples)

    def first(self, n: int) -> Encoded:
        """Return a copy of the first n rows: the other ones are not held by it."""
        return Encoded(self.values[:n].copy(order="F"), self.columns, self.codes[:n].copy(), self.examples)

    @classmethod
    def joined(cls, parts: Sequence[Encoded]) -> Encoded:
        """Return the rows of all parts, which one encoder made."""

        def examples(code: int) -> str:
            for part in parts:
                text = part.examples(code)
                if text:
                    return text
            return ""

        if len(parts) == 1:
            return parts[0]
        values = np.concatenate([p.values for p in parts])
        return cls(values, parts[0].columns, np.concatenate([p.codes for p in parts]), examples)


class Encoder:
    """What turns outputs into rows: its columns are fixed, so that rows of several batches can be compared."""

    def __init__(self, raw: tuple[OutputColumn, ...], plain: _Plain | None, node: Branch | None) -> None:
        self._raw = raw
        self._plain = plain
        self._node = node
        self._kept: frozenset[str] = frozenset()
        self._grids: dict[int, float] = {}
        self.has_reals = False
        """True if the outputs that it was learned from have numbers that are not whole."""

    @classmethod
    def learned(cls, *batches: Batch, bits: bool = True) -> Encoder:
        """Return the encoder whose columns and labels tell the outputs of these batches apart.

        Args:
            batches: samples; the same number of each neighbour is best.
            bits: whether real numbers keep their bits, the lowest of which are columns too. Without bits they are
                read on a grid for each column (`grids`), so that a mechanism is judged by its law.
        """
        some = [batch[:_LEARNED_FROM] for batch in batches]
        plain = _Plain.learned(some)
        if plain is not None:
            encoder = cls(plain.columns, plain, None)
        else:
            node = Branch.learned("output", [o for batch in some for o in _listed(batch)])
            encoder = cls(tuple(node.columns()), None, node)
        encoder._learn(np.concatenate([encoder._matrix(batch) for batch in some]), bits=bits)
        return encoder

    def encode(self, batch: Batch, *, needed: Collection[int] | None = None) -> Encoded:
        """Return the outputs as rows.

        Args:
            batch: the outputs.
            needed: the columns whose values are needed, and −1 for codes: others are zero. None: all.
        """
        raw = self._on_grids(self._matrix(batch))
        found = [c for c in self._derived.compute(raw, self._raw) if c[0].name in self._kept]
        columns = (*self._raw, *(column for column, _ in found))
        # Fortran order: everything that follows goes through the columns one by one.
        values = np.zeros((len(raw), len(columns)), order="F")
        plain = [j for j in range(raw.shape[1]) if needed is None or j in needed]
        for start in range(0, len(raw), _BLOCK):  # rows that stay in the cache for all columns
            rows = slice(start, start + _BLOCK)
            for j in plain:
                values[rows, j] = raw[rows, j]
        for j, (_, compute) in enumerate(found, start=raw.shape[1]):
            if needed is None or j in needed:
                values[:, j] = compute()
        if needed is None or -1 in needed:
            codes = codes_of(raw if self._grids else batch)
        else:
            codes = np.zeros(len(batch), dtype=np.int64)
        return Encoded(values, columns, codes, _examples(batch, codes, "about " if self._grids else ""))

    def _matrix(self, batch: Batch) -> Floats:
        if self._plain is not None:
            return self._plain.matrix(batch)
        assert self._node is not None
        outputs = _listed(batch)
        found: list[Floats] = []
        self._node.encode(outputs, np.arange(len(outputs)), len(outputs), found.append)
        return np.column_stack(found) if found else np.empty((len(outputs), 0))

    def _on_grids(self, raw: Floats) -> Floats:
        if self._grids:
            raw = raw.copy()
            for column, step in self._grids.items():
                raw[:, column] = on_grid(raw[:, column], step)
        return raw

    def _learn(self, raw: Floats, *, bits: bool) -> None:
        """Choose the grids, and drop computed columns that are constant or that repeat another column."""
        numbers = [i for i, c in enumerate(self._raw) if c.kind == "number" and not c.labels]
        reals = [i for i in numbers if is_real(raw[:, i])]
        self.has_reals = bool(reals)
        self._grids = {} if bits else {i: step_of(raw[:, i]) for i in reals}
        self._derived = DerivedColumns.of(self._raw, [i for i in numbers if i not in self._grids])
        self._raw = tuple(
            replace(c, name=f"{c.name} (grid 2^{math.log2(self._grids[i]):g})") if i in self._grids else c
            for i, c in enumerate(self._raw)
        )
        raw = self._on_grids(raw)
        kept = {values.tobytes(): column.name for column, values in zip(self._raw, raw.T, strict=True)}
        for column, compute in self._derived.compute(raw, self._raw):
            values = compute()
            if not ((values[:1] == values).all() or np.isnan(values).all()):
                kept.setdefault(values.tobytes(), column.name)
        self._kept = frozenset(kept.values())


@dataclass(frozen=True, slots=True)
class _Plain:
    """Outputs that are all numbers, or all arrays of one shape."""

    shape: tuple[int, ...]
    chosen: NDArray[np.intp]
    boolean: bool

    @classmethod
    def learned(cls, batches: list[Batch]) -> _Plain | None:
        arrays = [_as_array(batch) for batch in batches]
        shapes = {None if a is None else (a.shape[1:], _type(b)) for a, b in zip(arrays, batches, strict=True)}
        if len(shapes) != 1 or None in shapes or not all(len(b) for b in batches):
            return None
        flat = [np.asarray(a, dtype=np.float64).reshape(len(a), -1) for a in arrays if a is not None]
        shape = arrays[0].shape[1:] if arrays[0] is not None else ()
        return cls(shape, _widest(flat), all(a is not None and a.dtype.kind == "b" for a in arrays))

    @property
    def columns(self) -> tuple[OutputColumn, ...]:
        names = [
            "output" + "".join(f"[{k}]" for k in np.unravel_index(i, self.shape)) if self.shape else "output"
            for i in self.chosen
        ]
        return tuple(OutputColumn(name, "number", ("False", "True") if self.boolean else ()) for name in names)

    def matrix(self, batch: Batch) -> Floats:
        """Rows; NaN for an output that is of another type or shape than those that were learned from."""
        array = _as_array(batch)
        if array is not None and array.shape[1:] == self.shape:
            flat = array.reshape(len(array), -1)
            whole = flat.shape[1] == len(self.chosen)
            return np.asarray(flat if whole else flat[:, self.chosen], dtype=np.float64)
        rows = np.full((len(batch), len(self.chosen)), np.nan)
        for i, output in enumerate(batch):
            one = _as_array([output])
            if one is not None and one.shape[1:] == self.shape:
                rows[i] = one.reshape(-1)[self.chosen]
        return rows


def _as_array(batch: Batch) -> NDArray[Any] | None:
    """Return a batch as one array of numbers, if that is what it is."""
    if isinstance(batch, np.ndarray):
        return batch if batch.dtype.kind in "fiub" else None
    types = set(map(type, batch))
    if len(types) != 1:
        return None
    (only,) = types
    if only is float or (issubclass(only, np.generic) and np.dtype(only).kind in "fiub"):
        return np.asarray(batch)
    if only is int or only is bool:
        try:
            return np.asarray(batch, dtype=np.int64 if only is int else np.bool_)
        except OverflowError:
            return None
    if only is np.ndarray:
        arrays: list[Any] = batch
        same = {(a.shape, a.dtype) for a in arrays}
        if len(same) == 1 and arrays[0].dtype.kind in "fiub" and arrays[0].size:
            return np.stack(arrays)
    return None


def _type(batch: Batch) -> type | None:
    """Return the type of all outputs, where it is Python's own: values alone tell numbers of numpy apart."""
    return None if isinstance(batch, np.ndarray) or type(batch[0]) not in (int, float, bool) else type(batch[0])


def _widest(flat: list[Floats]) -> NDArray[np.intp]:
    """Return the columns that are kept: all, or those whose means differ most between the batches."""
    width = flat[0].shape[1]
    if width <= _WIDEST:
        return np.arange(width)
    with np.errstate(all="ignore"):
        means = np.stack([np.nan_to_num(f).mean(axis=0) for f in flat])
        spread = np.nan_to_num(np.concatenate(flat)).std(axis=0)
        differ = np.nan_to_num(np.ptp(means, axis=0) / np.maximum(spread, 1e-300))
    return np.sort(np.argsort(-differ, kind="stable")[:_WIDEST])


def _listed(batch: Batch) -> list[Any]:
    if not isinstance(batch, np.ndarray):
        return batch
    # What holds for all entries of an array says nothing about one of them: see `codes_of`.
    plain = batch.astype(np.float64) if batch.dtype.kind in "fiub" else batch
    return list(plain.tolist())


def _examples(batch: Batch, codes: NDArray[np.int64], about: str) -> Callable[[int], str]:
    """Text of the output with a code, empty if the batch has none; looked up when asked for."""

    def of(code: int) -> str:
        at = np.flatnonzero(codes == code)
        return about + example(batch[int(at[0])]) if len(at) else ""

    return of


def is_real(values: Floats) -> bool:
    """Return whether one of these floats is no whole number, or so large that all floats are whole there."""
    finite = values[np.isfinite(values)]
    return bool(np.any((np.floor(finite) != finite) | (np.abs(finite) >= _WHOLE)))


def step_of(values: Floats) -> float:
    """Return the step of a column's grid, a power of two chosen from the law of these values alone.

    Much finer than the values' spread, so that nothing of the law is lost; much coarser than the floats of their size,
    so that each cell holds many floats and the bits are lost.
    """
    finite = values[np.isfinite(values)]
    some = np.unique(finite[:: len(finite) // _LOOKED_AT + 1])
    cuts = np.quantile(some, np.linspace(0, 1, _QUANTILES + 1), method="nearest")
    largest = max(float(np.max(np.abs(cuts[1:-1]))), 2.0**-1020)
    least = math.frexp(largest)[1] - _PRECISION
    gaps = np.diff(cuts)
    gaps = gaps[gaps > math.ldexp(1.0, least)]
    found = math.frexp(float(gaps.min()))[1] - 1 - _FINER if len(gaps) else least
    return math.ldexp(1.0, max(found, least))


def on_grid(values: Floats, step: float) -> Floats:
    """Return each value as the multiple of the step that begins its cell; what is not finite stays as it is.

    A function of the value alone: what it does to outputs is post-processing.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.floor(values / step + _SHIFT) * step
    return np.where(np.isfinite(found), found, values)
