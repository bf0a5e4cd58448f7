"""The identity of an output as 64 bits: equal outputs have equal codes, in every batch and every process."""

from __future__ import annotations

import dataclasses
import hashlib
import marshal
from collections.abc import Mapping, Set
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.shape import attributes, frame, label

Codes: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]

_VERSION = 2
"""Of marshal: the last one that writes equal values as equal bytes, whatever objects they share."""
_NUMERIC = "fiub"
_FLOAT, _INTEGER, _BOOL = 1, 2, 3
_EXACT = 2**53
"""Up to this all integers are floats."""
_BLOCK = 8192
"""Outputs whose numbers stay in the cache."""


def codes_of(batch: list[Any] | NDArray[Any]) -> Codes:
    """One code for each output; 0.0 and −0.0, 1 and 1.0 and True differ, and all NaNs are one.

    Numbers of numpy count by their value alone: whether an array holds integers or floats depends on all of its
    entries, so that it says nothing about one of them.

    Two different outputs share a code by a chance of 2⁻⁶⁴. Nothing rests on that: an event of codes is an event.
    """
    if isinstance(batch, np.ndarray) and batch.dtype.kind in _NUMERIC:
        return _array_codes(batch, _FLOAT)
    outputs = list(batch.tolist()) if isinstance(batch, np.ndarray) else batch
    groups: dict[tuple[Any, ...], list[int]] = {}
    kinds = [_group(o) for o in outputs]
    for i, kind in enumerate(kinds):
        groups.setdefault(kind, []).append(i)
    codes = np.empty(len(outputs), dtype=np.int64)
    for kind, rows in groups.items():
        members = outputs if len(rows) == len(outputs) else [outputs[i] for i in rows]
        codes[rows] = _group_codes(kind, members)
    return codes


def canonical(value: Any) -> Any:
    """Return a value made of built-in types only, equal for equal values."""
    if type(value) is dict and all(map(_is_plain, value)) and all(map(_is_plain, value.values())):
        return ("mapping", *value.items())  # as below, in one step
    if isinstance(value, np.ndarray):
        return ("array", value.shape, canonical(value.tolist()))
    if isinstance(value, np.generic):
        return canonical(value.item())
    if type(value) is float:
        return value if value == value else "NaN"
    if isinstance(value, (bool, int, str, bytes, type(None))) and type(value) in _PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *(canonical(v) for v in value))
    if isinstance(value, Set):
        return ("set", *sorted((canonical(v) for v in value), key=label))
    if isinstance(value, Mapping):
        return ("mapping", *((canonical(k), canonical(v)) for k, v in value.items()))
    found = frame(value)
    if found is not None:
        return canonical(found)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = ((f.name, canonical(getattr(value, f.name))) for f in dataclasses.fields(value))
        return (type(value).__name__, *fields)
    inner = attributes(value)
    return (type(value).__name__, label(value) if inner is None else canonical(inner))


_PLAIN = frozenset((bool, int, str, bytes, type(None)))


def _group(output: Any) -> tuple[Any, ...]:
    if type(output) is float:
        return ("f",)
    if type(output) is int:
        return ("i",) if -(2**63) <= output < 2**63 else ("other",)
    if type(output) is bool:
        return ("b",)
    if isinstance(output, (np.ndarray, np.generic)) and output.dtype.kind in _NUMERIC:
        return ("numpy", output.shape)
    return ("other",)


def _group_codes(kind: tuple[Any, ...], members: list[Any]) -> Codes:
    if kind[0] == "other":
        code = _plain_mapping_code if _are_plain_mappings(members) else _text_code
        return np.fromiter(map(code, members), dtype=np.int64, count=len(members))
    if kind[0] == "numpy":
        codes = np.empty(len(members), dtype=np.int64)
        dtypes = [m.dtype for m in members]
        for dtype in set(dtypes):
            rows = [i for i, d in enumerate(dtypes) if d == dtype]
            codes[rows] = _array_codes(np.stack([np.asarray(members[i]) for i in rows]), _FLOAT)
        return codes
    dtype, salt = {"f": (np.float64, _FLOAT), "i": (np.int64, _INTEGER), "b": (np.bool_, _BOOL)}[kind[0]]
    return _array_codes(np.asarray(members, dtype=dtype), salt)


def _text_code(value: Any) -> int:
    try:
        plain = value if type(value) is str else canonical(value) if not _marshals(value) else value
        written = marshal.dumps(plain, _VERSION)
    except Exception:  # contains itself, is nested too deeply, or does not let itself be looked at
        written = label(value).encode(errors="backslashreplace")
    return _digest(written)


def _plain_mapping_code(value: dict[Any, Any]) -> int:
    """`_text_code` of a dictionary whose keys and values are their own canonical forms."""
    return _digest(marshal.dumps(("mapping", *value.items()), _VERSION))


def _are_plain_mappings(members: list[Any]) -> bool:
    """Return whether all are such dictionaries: looked at together, as no single one can be so fast."""
    if set(map(type, members)) != {dict}:
        return False
    kinds = set(map(type, chain.from_iterable(members)))
    return kinds.union(*(map(type, m.values()) for m in members)) <= _PLAIN


def _digest(written: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(written, digest_size=8).digest(), "little", signed=True)


def _marshals(value: Any) -> bool:
    """Return whether marshal alone tells such values apart: flat sequences of plain values, as most outputs are."""
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return type(value) in _PLAIN


def _is_plain(value: Any) -> bool:
    """Return whether a value is its own canonical form."""
    return type(value) in _PLAIN or (type(value) is float and value == value)


def _array_codes(batch: NDArray[Any], salt: int) -> Codes:
    codes: Codes = np.empty(len(batch), dtype=np.int64)
    for start in range(0, len(batch), _BLOCK):
        codes[start : start + _BLOCK] = _codes_of_some(batch[start : start + _BLOCK], salt)
    return codes


def _codes_of_some(batch: NDArray[Any], salt: int) -> Codes:
    flat = batch.reshape(len(batch), -1)
    if batch.dtype.kind == "f":
        bits = np.ascontiguousarray(flat, dtype=np.float64).view(np.uint64)
        if np.isnan(flat).any():
            bits = np.where(np.isnan(flat), np.float64(np.nan).view(np.uint64), bits)
    else:
        whole = flat.astype(np.int64)
        bits = whole.astype(np.float64).view(np.uint64)
        large = (whole > _EXACT) | (whole < -_EXACT) | ((flat > _EXACT) if flat.dtype.kind == "u" else False)
        if large.any():
            bits = np.where(large, _mixed(whole.view(np.uint64)), bits)
    start = salt
    for length in batch.shape[1:]:
        start = (start * 1_000_003 + length) % 2**62
    code: Words = np.full(len(flat), start, dtype=np.uint64)
    for j in range(flat.shape[1]):
        code = _mixed(code ^ bits[:, j])
    return (code if flat.shape[1] else _mixed(code)).view(np.int64)


def _mixed(z: Words) -> Words:
    """Return the finaliser of SplitMix64, a bijection.

    References: Steele, Lea, Flood 2014, Fast splittable pseudorandom number generators, Figure 17 (mix64 variant 13).
    """
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
