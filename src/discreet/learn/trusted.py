"""Code of the caller's that runs on private rows: nothing that it prints, logs, warns of or raises leaves.

Guarantee:
    Of what runs inside `silent`, prints to Python's and to the process's streams, logs and warnings go nowhere, for all
    threads of the process. How long it takes, and what else it does to the world, is not hidden: such code runs in a
    process of the data's owner alone.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import pickle
import random
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.learn.features import DeclaredColumn
from discreet.noise.entropy import SystemEntropy

SAID = "Code of the caller's ran on people's rows, trusted: that its answers follow from them alone is its promise."
"""What is said of every result of such code."""


@contextmanager
def silent() -> Iterator[None]:
    """Let nothing out of what runs inside but what it returns."""
    _flush()
    with ExitStack() as held:
        nowhere = held.enter_context(Path(os.devnull).open("w", encoding="utf-8"))
        for stream in (1, 2):
            with suppress(OSError):  # a process may have none
                kept = os.dup(stream)
                held.callback(os.close, kept)
                held.callback(os.dup2, kept, stream)
                os.dup2(nowhere.fileno(), stream)
        held.callback(_flush)
        held.enter_context(redirect_stdout(nowhere))
        held.enter_context(redirect_stderr(nowhere))
        held.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)
        held.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        held.enter_context(np.errstate(all="ignore"))
        yield


@contextmanager
def own_randomness() -> Iterator[None]:
    """Let code draw from fresh states of numpy's and Python's own generators, which are put back: else how much it drew
    for some rows would decide what it draws for others.
    """
    numpys, pythons = np.random.get_state(), random.getstate()
    np.random.seed(np.frombuffer(SystemEntropy().bytes(32), np.uint32))
    random.seed(SystemEntropy().bytes(32))
    try:
        yield
    finally:
        np.random.set_state(numpys)
        random.setstate(pythons)


def _flush() -> None:
    """Write what the streams hold, those of C too."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with suppress(Exception):
            stream.flush()  # type: ignore[union-attr]  # there may be none
    with suppress(Exception):
        ctypes.CDLL(None).fflush(None)


def digest(code: Any) -> str:
    """Return what tells such code from any other, for the identity of a query; of what cannot be told, a new one."""
    with suppress(Exception):
        return hashlib.sha256(pickle.dumps(getattr(code, "told_apart", code))).hexdigest()
    return SystemEntropy().bytes(16).hex()


def rows_as_given(columns: Sequence[DeclaredColumn], cells: Iterable[NDArray[Any]], model: Any) -> Any:
    """Return rows as a fitted model expects them: a frame where it knows names of columns, else an array.

    Args:
        columns: what is declared.
        cells: of each the numbers, or the places of its values; what is not declared becomes None.
        model: fitted.
    """
    found = [
        own if c.values is None else np.array([*c.values, None], object)[own]
        for c, own in zip(columns, cells, strict=True)
    ]
    if not hasattr(model, "feature_names_in_"):
        return np.stack(found, axis=1)
    import pandas as pd

    return pd.DataFrame(dict(zip(map(str, model.feature_names_in_), found, strict=True)))
