"""Files of fitted models: what follows from declarations and noisy numbers, as JSON and npz, and never code.

A file holds the estimator's name, its parameters, the declared columns, the state that a fit left and what it cost;
large arrays stand beside it, in FILE.npz. Reading makes a new estimator of one of the package's own classes by its
parameters, checks that the numbers of the state have the shapes that follow from these, and takes them. Nothing in a
file is run, and no class is looked up elsewhere.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeGuard
from zipfile import ZipFile

import numpy as np

from discreet.accounting.loss import PrivacyLoss
from discreet.catalog.schema import Fact, Range, Values
from discreet.errors import DiscreetError, InvalidParameter
from discreet.learn.features import DeclaredColumn
from discreet.privacy.codec import decode, encode

FORMAT, VERSION = "discreet model", 1  # what stands first in a file, and its version: another one is refused
LARGEST = 1 << 28  # bytes of a file that is read
LARGE, BESIDE = 1 << 16, "npz"  # numbers of an array that stands beside the file, and what the file has in its place
_TEXTS = {"epsilon", "delta"}  # parameters that are written exactly
_EXACT = re.compile(r"\d{1,400}(/[1-9]\d{0,400})?")  # 1e999999999 would take all memory
_ENTRIES = 64  # of a state or of the parameters


def write(model: Any, path: Any) -> None:
    """Write a fitted model to a file, and its large arrays beside it.

    Raises:
        InvalidParameter: a parameter is no plain value.
    """
    sizes = {name: math.prod(shape) for name, shape in model._shapes().items()}
    large = {name: np.array(model._state[name], np.float64) for name, size in sizes.items() if size > LARGE}
    Path(path).write_text(_written(model, {**model._state, **dict.fromkeys(large, BESIDE)}), encoding="utf-8")
    if large:
        np.savez(_beside(path), **large)  # type: ignore[arg-type]  # of numpy's own further parameters it has none


def _beside(path: Any) -> Path:
    return Path(f"{os.fspath(path)}.npz")


def _written(model: Any, state: Any) -> str:
    given = model.get_params(deep=False)
    given.pop("bounds")
    told = {
        "format": FORMAT,
        "version": VERSION,
        "estimator": type(model).__name__,
        "parameters": {name: _plain(name, value) for name, value in given.items()},
        "labels": [_plain("classes_", label) for label in model.classes_] if hasattr(model, "classes_") else None,
        "columns": [_column(c) for c in model._columns],
        "named": hasattr(model, "feature_names_in_"),
        "state": state,
        "loss": encode(model.loss_.events),
        "planned": model._planned,
    }
    return json.dumps(told, allow_nan=False, ensure_ascii=False, indent=1)


def read(path: Any, classes: Mapping[str, type[Any]]) -> Any:
    """Return the model of a file.

    Args:
        path: of the file.
        classes: the estimators that a file may name.

    Raises:
        InvalidParameter: there is no such file, it is no model, or another version wrote it.
    """
    try:
        with Path(path).open("rb") as file:
            found = file.read(LARGEST + 1)
    except OSError as error:
        raise InvalidParameter(f"the file {path} cannot be read: {error.strerror}.") from None
    if len(found) > LARGEST:
        raise _broken(f"it is larger than {LARGEST >> 20} MB")
    try:
        told = json.loads(found, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise _broken("it is no JSON") from None
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise _broken("it is no file of a model")
    if told.get("version") != VERSION:
        raise InvalidParameter(
            "another version of discreet wrote this model.", hint="read it with that version, or fit the model again"
        )
    kind = told.get("estimator")
    if not isinstance(kind, str) or kind not in classes:
        raise _broken("it names no estimator of discreet.learn")
    try:
        return _made(classes[kind], told, _beside(path))
    except InvalidParameter as error:
        if error.message.startswith("the file"):
            raise
        raise _broken(f"its parameters cannot be: {error.message}") from None
    except (DiscreetError, TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError):
        raise _broken("its parts do not fit together") from None


def _whole(state: Any, beside: Path) -> Any:
    """Return the state with the arrays that stand beside the file."""
    names = [name for name, value in state.items() if value == BESIDE] if isinstance(state, dict) else []
    if not names:
        return state
    try:
        with ZipFile(beside) as file:
            small = sum(file.getinfo(f"{name}.npy").file_size for name in names) <= LARGEST
        with np.load(beside, allow_pickle=False) as arrays:
            found = {name: arrays[name].tolist() for name in names if small}
    except Exception:  # whatever a broken archive makes of it
        raise _broken(f"{beside.name} does not stand beside it, or is broken") from None
    if not small:
        raise _broken(f"its arrays are larger than {LARGEST >> 20} MB")
    return {**state, **found}


def _made(kind: type[Any], told: dict[str, Any], beside: Path) -> Any:
    columns, named, parameters = told["columns"], told["named"], told["parameters"]
    if not isinstance(columns, list) or not columns or not isinstance(parameters, dict) or type(named) is not bool:
        raise _broken("its parts do not fit together")
    facts = [_fact(c) for c in columns]
    names = [c["name"] for c in columns]
    if not all(isinstance(name, str) for name in names) or len({*names}) < len(names):
        raise _broken("its columns have no names of their own")
    given = {name: _read(value) for name, value in parameters.items()}
    if {*given, "bounds"} != {*kind._get_param_names()}:
        raise _broken(f"its parameters are not those of {kind.__name__}")
    for name in _TEXTS:
        if not isinstance(given[name], str) or not _EXACT.fullmatch(given[name]):
            raise _broken(f"{name} is no fraction")
        given[name] = Fraction(given[name])
    model = kind(bounds=dict(zip(names, facts, strict=True)) if named else facts, **given)
    model._check()
    model.declare_columns(tuple(DeclaredColumn.of(n, fact) for n, fact in zip(names, facts, strict=True)))
    labels = told["labels"]
    if given.get("classes") == "public" and isinstance(labels, list) and len(labels) > 1:
        model.classes_ = np.array([_read(label) for label in labels])
    if not named:
        del model.feature_names_in_
    state = _whole(told["state"], beside)
    _check_state(state, model._shapes())
    if not isinstance(told["planned"], str) or not isinstance(told["loss"], list):
        raise _broken("its parts do not fit together")
    model.loss_, model._planned, model._state = PrivacyLoss(decode(told["loss"])), told["planned"], state
    model._take(state)
    return model


def _check_state(state: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a state whose arrays are not of these shapes, or that holds anything else than finite numbers."""
    if not isinstance(state, dict) or not shapes.keys() <= state.keys() or len(state) > _ENTRIES:
        raise _broken("its numbers are not those of the estimator")
    for name, value in state.items():
        if name in shapes:
            if not _has_shape(value, shapes[name]):
                raise _broken(f"the numbers of {name!r} are of another shape, or not finite")
        elif value is not None and not _is_finite(value):
            raise _broken(f"{name!r} is no number")


def _has_shape(value: Any, shape: tuple[int, ...]) -> bool:
    if not shape:
        return _is_finite(value)
    return isinstance(value, list) and len(value) == shape[0] and all(_has_shape(v, shape[1:]) for v in value)


def _is_finite(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and abs(value) < 1e300 and math.isfinite(value)


def _column(c: DeclaredColumn) -> dict[str, Any]:
    if c.values is None:
        return {"name": c.name, "range": [c.low, c.high]}
    return {"name": c.name, "values": [_plain(c.name, v) for v in c.values]}


def _fact(column: Any) -> Fact:
    if "values" in column:
        return Values(*(_read(v) for v in column["values"]))
    low, high = column["range"]
    if not _is_finite(low) or not _is_finite(high):
        raise _broken("a column has bounds that are no numbers")
    return Range(low, high)


def _plain(name: str, value: Any) -> Any:
    """Return a parameter or a label as JSON has it."""
    if isinstance(value, np.generic):
        value = value.item()
    if name in _TEXTS:
        return str(Fraction(str(value)))
    if isinstance(value, Range):
        return [_plain(name, value.low), _plain(name, value.high)]
    if isinstance(value, Values):
        return [_plain(name, v) for v in value.values]
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return {"date": value.isoformat()}
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(name, v) for v in value]
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise InvalidParameter(
        f"a model with {name} of this kind cannot be saved: numbers, texts, dates and lists of these can."
    )


def _read(value: Any) -> Any:
    """Return a parameter or a label that was written."""
    if isinstance(value, dict):
        return dt.date.fromisoformat(value["date"])
    if isinstance(value, list):
        return [_read(v) for v in value]
    return value


def _no_number(text: str) -> float:
    raise _broken(f"{text} is no number")


def _broken(why: str) -> InvalidParameter:
    return InvalidParameter(f"the file holds no model that can be read: {why}.", hint="model.save(FILE) writes one")
