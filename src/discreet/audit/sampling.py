"""Runs somebody else's mechanism: many times, whatever it does."""

from __future__ import annotations

import copy
import inspect
import itertools
import math
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter

Batch: TypeAlias = "list[object] | NDArray[Any]"
"""Outputs; axis 0 counts the samples."""

_HANGS = 3
"""Runs that may hang before the mechanism is given up."""
_TRIALS = 8
"""Runs that are looked at, and thrown away, before samples are drawn."""
_LOOKED_AT = 200
"""Outputs of a draw that are compared with each other for the notes."""
_MOST_ITEMS = 10_000
"""Items that are read from an iterator that a mechanism returns."""
_UNCHANGING = (int, float, complex, str, bytes, bool, type(None))


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception as an output: callers see its type and its text."""

    type: str
    text: str

    def __str__(self) -> str:
        return f"raised {self.type}: {self.text}" if self.text else f"raised {self.type}"


class _TooSlow(BaseException):
    """A run took too long. Not an `Exception`, so that a mechanism that catches those does not swallow it."""


def check(mechanism: Callable[..., object]) -> None:
    """Refuses what cannot be called with one input.

    Raises:
        InvalidParameter: not callable, asynchronous, or it needs no argument or more than one.
    """
    hint = "a function of one input: audit.distinguish(lambda x: mechanism(x, epsilon=1), 0, 1, claimed=1)"
    if not callable(mechanism):
        raise InvalidParameter(f"mechanism must be callable, not {type(mechanism).__name__}.", hint=hint)
    if inspect.iscoroutinefunction(mechanism):
        raise InvalidParameter(
            "mechanism is asynchronous.", hint="wrap it: lambda x: asyncio.run(mechanism(x))"
        )
    parameters = _parameters(mechanism)
    if not parameters:
        raise InvalidParameter("mechanism takes no input.", hint=hint)
    first, *others = parameters
    needed = [p.name for p in others if p.default is p.empty and p.name != "n"]
    if needed or first.kind is first.KEYWORD_ONLY:
        names = ", ".join(needed or [first.name])
        raise InvalidParameter(f"mechanism needs arguments beside its input: {names}.", hint=hint)


class Sampler:
    """Draws outputs of a mechanism at one input.

    A mechanism with a keyword `n` is called as mechanism(x, n=n) and returns n outputs on axis 0; any other one is
    called once for each output. An exception is an output; so is a run of more than `seconds_each`, three times: the
    next one is an error. That limit interrupts a run in the main thread only, and no code that never returns to the
    interpreter.
    """

    def __init__(self, mechanism: Callable[..., object], x: object, *, seconds_each: float = 60.0) -> None:
        """Looks at a few runs, which are thrown away.

        Raises:
            InvalidParameter: a mechanism that cannot be called with one input, or that keeps hanging.
        """
        check(mechanism)
        if not seconds_each > 0:
            raise InvalidParameter(
                f"seconds_each must be positive, not {seconds_each!r}.", hint="seconds_each=60"
            )
        self._mechanism = mechanism
        self._seconds = seconds_each
        self._several = any(p.name == "n" for p in _parameters(mechanism)[1:])
        self._singly = not self._several
        self._input = _Input(x)
        self._same_object = False
        self._runs = 0
        self._raised: dict[str, int] = {}
        self._hangs = 0
        self._begun: object = None
        self._notes: dict[str, str] = {}
        self._look()

    @property
    def takes_n(self) -> bool:
        """Whether one call gives any number of outputs."""
        return self._several

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know about the runs so far."""
        raised = [
            f"it raised {name} in {count} of {self._runs} runs."
            for name, count in sorted(self._raised.items())
        ]
        return (*self._input.notes, *self._notes.values(), *raised)

    def draw(self, n: int) -> Batch:
        """Exactly n fresh outputs.

        Raises:
            InvalidParameter: it kept hanging, or it returned another number of outputs than it was asked for.
        """
        batch: Batch = []
        for _ in range(3):
            with self._watched():
                batch = self._one_by_one(n) if self._singly or n == 1 else self._at_once(n)
            if not self._input.changed():
                break
        self._describe(batch)
        return batch

    def _look(self) -> None:
        with self._watched():
            if self._several:
                self._at_once(2)
                self._input.changed()
            before: object = None
            for _ in range(_TRIALS):
                output = self._run(n=1)
                self._same_object |= output is before and not isinstance(output, (*_UNCHANGING, tuple))
                self._input.changed()
                before = output
        if self._same_object:
            self._notes["same object"] = "it returns one object again and again: each output was copied."
        self._runs = 0
        self._raised.clear()

    def _one_by_one(self, n: int) -> list[object]:
        outputs = []
        for _ in range(n):
            output = self._run(n=1)
            outputs.append(copy.deepcopy(output) if self._same_object else output)
        return outputs

    def _at_once(self, n: int) -> Batch:
        output = self._run(n=n)
        if not isinstance(output, Raised):
            return _exactly(output, n)
        # One exception hides n outputs. From now on each output has its own run; and since one of these n is known
        # to be an exception, one is put among them if no run shows it: else this draw would hold too few.
        self._singly = True
        self._notes["singly"] = "it raised while drawing many outputs at once: they were drawn one by one."
        outputs = self._one_by_one(n)
        if not any(isinstance(o, Raised) for o in outputs):
            outputs[int(np.random.default_rng(self._runs).integers(n))] = output
        return outputs

    def _run(self, n: int) -> object:
        """One call: its output, or the exception that it raised."""
        self._runs += 1
        try:
            x = self._input.handed()
            output = self._mechanism(x, n=n) if self._several else self._mechanism(x)
            if isinstance(output, Iterator):
                output = list(itertools.islice(output, _MOST_ITEMS))
            if self._several and n == 1:
                output = _exactly(output, 1)[0]
        except InvalidParameter as e:
            if self._several and e.message.startswith(_WRONG_LENGTH):
                raise
            return self._note_raised(e)
        except (Exception, SystemExit) as e:
            return self._note_raised(e)
        except _TooSlow:
            self._hangs += 1
            message = f"the mechanism did not return within {self._seconds:g} seconds"
            if self._hangs > _HANGS:
                raise InvalidParameter(
                    f"{message} in {self._hangs} of {self._runs} runs.", hint="raise seconds_each, or fix it"
                ) from None
            self._notes["hangs"] = f"{message} in {self._hangs} runs; that was taken as an output."
            return Raised("TimeLimit", "no answer in time")
        return output

    def _note_raised(self, e: BaseException) -> Raised:
        name = type(e).__name__
        self._raised[name] = self._raised.get(name, 0) + 1
        try:
            return Raised(name, str(e))
        except Exception:
            return Raised(name, "")

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """A timer that ends a run during which it rings twice."""
        usable = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
        if not usable or signal.getitimer(signal.ITIMER_REAL)[0] > 0:  # somebody else's alarm is left alone
            yield
            return
        seen = [-1, time.monotonic()]

        def ring(signum: int, frame: FrameType | None) -> None:
            if seen[0] != self._runs:
                seen[:] = [self._runs, time.monotonic()]
            elif time.monotonic() - seen[1] >= self._seconds:
                raise _TooSlow

        old = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, self._seconds / 4, self._seconds / 4)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)

    def _describe(self, batch: Batch) -> None:
        if len(batch) < 2:
            return
        some = batch[:_LOOKED_AT]
        texts = [repr(o) for o in (some.tolist() if isinstance(some, np.ndarray) else some)]
        if len(set(texts)) == 1 and len(texts) >= 20:
            self._notes["constant"] = f"it gave the same output in {len(texts)} runs."
        elif len(texts) >= 20 and texts == self._begun:
            self._notes["repeats"] = (
                "two draws gave the same outputs in the same order: it repeats its random numbers."
            )
        self._begun = texts
        plain = isinstance(batch, np.ndarray) and batch.dtype != object
        lengths = set() if plain else {len(o) for o in batch if isinstance(o, (list, tuple))}
        if len(lengths) > 1:
            self._notes["ragged"] = f"its outputs have {min(lengths)} to {max(lengths)} items."
        nan = _nans(batch)
        if nan:
            self._notes["nan"] = f"NaN was in {nan} of the last {len(batch)} outputs."


class _Input:
    """The input, protected from a mechanism that changes it."""

    def __init__(self, x: object) -> None:
        self._x = x
        self._copies = False
        self._print: bytes | None = None
        self.notes: list[str] = []
        if isinstance(x, _UNCHANGING):
            return
        try:
            self._x = copy.deepcopy(x)
            self._print = pickle.dumps(copy.deepcopy(self._x))
        except Exception:
            self._x = x
            self.notes.append("its input cannot be copied: whether it is changed by a run was not checked.")

    def handed(self) -> object:
        """What the next run gets."""
        return pickle.loads(self._print) if self._copies and self._print is not None else self._x  # noqa: S301

    def changed(self) -> bool:
        """Whether a run changed the input since; from then on each run gets a copy."""
        if self._copies or self._print is None:
            return False
        try:
            # A copy is pickled both times: pickles of equal objects differ by which parts are shared.
            same = pickle.dumps(copy.deepcopy(self._x)) == self._print
        except Exception:
            same = False
        if same:
            return False
        self._copies = True
        self.notes.append("it changes its input: each run got a copy.")
        return True


_WRONG_LENGTH = "the mechanism was asked for n="


def _exactly(output: object, n: int) -> Batch:
    """The n outputs of one call."""
    if hasattr(output, "to_numpy"):
        output = output.to_numpy()
    batch = output if isinstance(output, (np.ndarray, list)) else None
    if batch is None and isinstance(output, (tuple, Iterator)):
        batch = list(output)
    if batch is None or (isinstance(batch, np.ndarray) and batch.ndim == 0):
        raise InvalidParameter(
            f"{_WRONG_LENGTH}{n} outputs and returned one {type(output).__name__}.",
            hint="return an array or a list with one entry for each output",
        )
    if len(batch) != n:
        raise InvalidParameter(
            f"{_WRONG_LENGTH}{n} outputs and returned {len(batch)}.",
            hint="a keyword n is the number of outputs; call it otherwise if it means something else",
        )
    return batch


def _parameters(mechanism: Callable[..., object]) -> list[inspect.Parameter]:
    """The parameters that can be given one by one; a signature that cannot be read is taken as one parameter."""
    one = inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY)
    try:
        found = list(inspect.signature(mechanism).parameters.values())
    except (TypeError, ValueError):
        return [one]
    if not found or found[0].kind is inspect.Parameter.VAR_POSITIONAL:
        found = [one, *found] if found else []
    return [p for p in found if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _nans(batch: Batch) -> int:
    if isinstance(batch, np.ndarray):
        if batch.dtype.kind not in "fc":
            return 0
        return int(np.isnan(batch).reshape(len(batch), -1).any(axis=1).sum())
    return sum(isinstance(o, float) and math.isnan(o) for o in batch)
