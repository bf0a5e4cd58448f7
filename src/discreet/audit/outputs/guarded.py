"""What a mechanism is given, and what it returned, kept from being changed by its other runs."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNCHANGING = (int, float, complex, str, bytes, bool, type(None))


class Printed:
    """The first outputs of a draw, and what they were when they were returned."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._outputs: list[object] = []
        self._prints: list[bytes | None] = []

    def add(self, output: object) -> None:
        """Takes note of an output, if there were not enough of them."""
        if len(self._outputs) < self._most and not isinstance(output, UNCHANGING):
            self._outputs.append(output)
            self._prints.append(_print(output))

    def changed(self) -> bool:
        """Whether later runs changed any of them: the mechanism keeps a hand on what it returns."""
        return any(_print(o) != p for o, p in zip(self._outputs, self._prints, strict=True))


def _print(output: object) -> bytes | None:
    try:
        return pickle.dumps(output)
    except Exception:
        return None


def unmasked(array: Any) -> NDArray[Any]:
    """A masked array with None where it is masked: what lies beneath is not put out."""
    plain = np.array(array.data, dtype=object)
    plain[np.ma.getmaskarray(array)] = None
    return plain


def copied(output: object) -> object:
    """A copy, where there can be one."""
    try:
        return copy.deepcopy(output)
    except Exception:
        return output


class Input:
    """The input, protected from a mechanism that changes it."""

    def __init__(self, x: object) -> None:
        self._x = x
        self.copies = False
        """Whether each run gets a copy."""
        self._print: bytes | None = None
        self.notes: list[str] = []
        if isinstance(x, UNCHANGING):
            return
        try:
            self._x = copy.deepcopy(x)
            self._print = pickle.dumps(copy.deepcopy(self._x))
        except Exception:
            self._x = x
            self.notes.append("its input cannot be copied: whether it is changed by a run was not checked.")

    def handed(self) -> object:
        """What the next run gets."""
        return pickle.loads(self._print) if self.copies and self._print is not None else self._x  # noqa: S301

    def changed(self) -> bool:
        """Whether a run changed the input since; from then on each run gets a copy."""
        if self.copies or self._print is None:
            return False
        try:
            # A copy is pickled both times: pickles of equal objects differ by which parts are shared.
            same = pickle.dumps(copy.deepcopy(self._x)) == self._print
        except Exception:
            same = False
        if same:
            return False
        self.copies = True
        self.notes.append("it changes its input: each run got a copy.")
        return True
