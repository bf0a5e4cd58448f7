"""Runs of somebody else's mechanism: many times, whatever it does, none of them changed by another."""

from __future__ import annotations

import copy
import inspect
import itertools
import math
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.audit.outputs.encoding import Encoder
from discreet.audit.outputs.shape import Batch, in_words, without_addresses
from discreet.audit.places import Floats
from discreet.errors import InvalidParameter

_HANGS = 3
"""Runs that may hang before the mechanism is given up."""
_TRIALS = 8
"""Runs that are looked at, and thrown away, before samples are drawn."""
_LOOKED_AT = 200
"""Outputs of a draw that are compared with each other for the notes."""
_TOGETHER = (48, 64)
"""Calls, and outputs of each, that tell whether outputs of one call depend on each other."""
_TOGETHER_SECONDS = (0.15, 1.0)
"""The most that these calls take, of the processor and by the clock."""
_CLOCKS = (time.process_time, time.monotonic)
_PRINTED = 8
"""Outputs of a draw of which it is checked that later runs do not change them."""
_MOST_ITEMS = 10_000
"""Items that are read from an iterator that a mechanism returns."""
_RARE = 1e-4
"""The chance by which independent outputs of one call look dependent to one half of the calls; both halves have to."""
_FEWEST = 8  # calls in each half
_COLUMNS = 24


UNCHANGING = (int, float, complex, str, bytes, bool, type(None))


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
        raise InvalidParameter("mechanism is asynchronous.", hint="wrap it: lambda x: asyncio.run(mechanism(x))")
    parameters = _parameters(mechanism)
    if not parameters:
        raise InvalidParameter("mechanism takes no input.", hint=hint)
    first, *others = parameters
    needed = [p.name for p in others if p.default is p.empty and p.name != "n"]
    if needed or first.kind is first.KEYWORD_ONLY:
        names = ", ".join(needed or [first.name])
        raise InvalidParameter(f"mechanism needs arguments beside its input: {names}.", hint=hint)


def called(function: object, otherwise: str) -> str:
    """Return the name of a function; other words where it has none."""
    name = str(getattr(function, "__name__", "<"))
    return otherwise if name.startswith("<") else name


class Sampler:
    """Draws outputs of a mechanism at one input.

    A mechanism with a keyword `n` is called as mechanism(x, n=n) and returns n outputs on axis 0; any other one is
    called once for each output. An exception is an output; so is a run of more than `seconds_each`, three times: the
    next one is an error. That limit interrupts a run in the main thread only, and no code that never returns to the
    interpreter.
    """

    def __init__(self, mechanism: Callable[..., object], x: object, *, seconds_each: float = 60.0) -> None:
        """Look at a few runs, which are thrown away.

        Raises:
            InvalidParameter: a mechanism that cannot be called with one input, or that keeps hanging.
        """
        check(mechanism)
        if not seconds_each > 0:
            raise InvalidParameter(f"seconds_each must be positive, not {seconds_each!r}.", hint="seconds_each=60")
        self._mechanism = mechanism
        self._seconds = seconds_each
        self._several = any(p.name == "n" for p in _parameters(mechanism)[1:])
        self._singly = not self._several
        self._input = Input(x)
        self._copied = False
        self._family: object = None
        self._runs = 0
        self._raised: dict[str, int] = {}
        self._hangs = 0
        self._begun: object = None
        self._notes: dict[str, str] = {}
        self._examined = False
        self.looked: list[object] = []
        """The outputs of the few runs that were looked at."""
        self._look()

    @property
    def takes_n(self) -> bool:
        """Whether one call gives any number of outputs."""
        return self._several

    @property
    def manner(self) -> tuple[bool, bool, bool]:
        """How outputs are drawn: one by one, copied, from a copy of the input. A draw after which it is another than
        before is not fair: that depends on what was drawn. Each changes once at most.
        """
        return self._singly, self._copied, self._input.copies

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know about the runs so far."""
        raised = [f"it raised {name} in {count} of {self._runs} runs." for name, count in sorted(self._raised.items())]
        return (*self._input.notes, *self._notes.values(), *raised)

    @property
    def only_raised(self) -> bool:
        """Whether each run so far ended with an exception."""
        return 0 < self._runs == sum(self._raised.values())

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

    def examine(self) -> None:
        """Look whether outputs of one call depend on each other; if so, each output has its own call from now on.

        The test of a claim takes them for independent: outputs that share a part of their noise are few in truth.
        What is drawn here is thrown away, so that nothing that is tested depends on it.
        """
        if self._examined:
            return
        self._examined = True
        calls, each = _TOGETHER
        ends = [now() + s for now, s in zip(_CLOCKS, _TOGETHER_SECONDS, strict=True)]
        found: list[Batch] = []
        with self._watched():
            while not self._singly and len(found) < calls:
                if any(now() > end for now, end in zip(_CLOCKS, ends, strict=True)):
                    break
                found.append(self._at_once(each))
                self._input.changed()
        if not self._singly and depend(found):
            self._one_at_a_time("the outputs of one call depend on each other")
        self._forget()

    def _look(self) -> None:
        with self._watched():
            if self._several:
                for n in (2, 64):
                    self.looked.extend(self._at_once(n)[:_TRIALS])
                    self._input.changed()
            outputs = Printed(_TRIALS)
            before: object = None
            for _ in range(_TRIALS):
                output = self._run(n=1)
                if output is before and not isinstance(output, (*UNCHANGING, tuple)):
                    self._copy_all()
                outputs.add(output)
                self.looked.append(output)
                self._input.changed()
                before = output
            if outputs.changed():
                self._copy_all()
        self._forget()

    def _forget(self) -> None:
        """Forget what was only looked at: it is not counted."""
        self._runs = 0
        self._raised.clear()

    def _one_by_one(self, n: int) -> list[object]:
        for _ in range(2):
            outputs: list[object] = []
            printed = Printed(_PRINTED)
            for _ in range(n):
                output = self._run(n=1)
                if self._copied:
                    output = copied(output)
                else:
                    printed.add(output)
                outputs.append(output)
            if not printed.changed():
                break
            self._copy_all()
        return outputs

    def _copy_all(self) -> None:
        self._copied = True
        self._notes["copied"] = (
            "it returns one object again and again, or changes what it returned: each output was copied."
        )

    def _one_at_a_time(self, why: str) -> None:
        self._singly = True
        self._notes["singly"] = f"{why}: they were drawn one by one."

    def _at_once(self, n: int) -> Batch:
        output = self._run(n=n)
        if not isinstance(output, Raised):
            batch = _exactly(output, n)
            family = _family(batch)
            if self._family in (None, family):
                self._family = family
                return batch
            # The shape or the type of an array depends on all of its entries: padded to the longest, text for all
            # where one is a text. One output would then tell what the other ones are.
            self._one_at_a_time("the outputs of one call had another shape or type than those of another call")
            return self._one_by_one(n)
        # One exception hides n outputs, so that what is not hidden is no fair draw: each output has its own run now.
        self._one_at_a_time("it raised while drawing many outputs at once")
        return self._one_by_one(n)

    def _run(self, n: int) -> object:
        """One call: its output, or the exception that it raised."""
        self._runs += 1
        try:
            x = self._input.handed()
            output = self._mechanism(x, n=n) if self._several else self._mechanism(x)
            if isinstance(output, Iterator):
                output = list(itertools.islice(output, max(_MOST_ITEMS, n + 1)))
            if isinstance(output, np.ma.MaskedArray):
                output = unmasked(output)
            if self._several and n == 1:
                output = _exactly(output, 1)[0]
        except InvalidParameter as e:
            if self._several and e.message.startswith(_WRONG_LENGTH):
                raise
            return self._note_raised(e)
        except KeyboardInterrupt:
            raise
        except _TooSlow:
            self._hangs += 1
            message = f"the mechanism did not return within {self._seconds:g} seconds"
            if self._hangs > _HANGS:
                raise InvalidParameter(
                    f"{message} in {self._hangs} of {self._runs} runs.", hint="raise seconds_each, or fix it"
                ) from None
            self._notes["hangs"] = f"{message} in {self._hangs} runs; that was taken as an output."
            return Raised("TimeLimit", "no result in time")
        except BaseException as e:  # a panic of a compiled library, an exit, a cancellation
            return self._note_raised(e)
        return output

    def _note_raised(self, e: BaseException) -> Raised:
        name = type(e).__name__
        self._raised[name] = self._raised.get(name, 0) + 1
        try:
            return Raised(name, without_addresses(str(e)))
        except Exception:
            return Raised(name, "")

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Yield a timer that ends a run during which it rings twice."""
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
        some = [_told(output) for output in batch[:_LOOKED_AT]]
        if len(set(some)) == 1 and len(some) >= 20:
            self._notes["constant"] = f"it gave the same output in {len(some)} runs."
        elif len(some) >= 20 and some == self._begun:
            self._notes["repeats"] = "two draws gave the same outputs in the same order: it repeats its random numbers."
        self._begun = some
        plain = isinstance(batch, np.ndarray) and batch.dtype != object
        lengths = set() if plain else {len(o) for o in batch if isinstance(o, (list, tuple))}
        if len(lengths) > 1:
            self._notes["ragged"] = f"its outputs have {min(lengths)} to {max(lengths)} items."
        nan = _nans(batch)
        if nan:
            self._notes["nan"] = f"NaN was in {nan} of the last {len(batch)} outputs."


def _told(output: object) -> object:
    """Return what tells an output from others: its bytes where they say all, else its text."""
    if isinstance(output, np.ndarray | np.generic) and output.dtype != object:
        return output.tobytes()
    return in_words(output)


_WRONG_LENGTH = "the mechanism was asked for n="


def _exactly(output: object, n: int) -> Batch:
    """Return the n outputs of one call."""
    if hasattr(output, "to_numpy"):
        output = output.to_numpy()
    batch: Batch | None = None
    # A copy: the next call may write into the same array.
    if isinstance(output, np.ndarray):
        batch = np.array(output)
    elif isinstance(output, (list, tuple)):
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


def _family(batch: Batch) -> object:
    """Return what all outputs of one call have in common, and those of another call should have as well."""
    if not isinstance(batch, np.ndarray):
        return "list"
    return ("number" if batch.dtype.kind in "fiub" else batch.dtype.kind, batch.shape[1:])


def _parameters(mechanism: Callable[..., object]) -> list[inspect.Parameter]:
    """Return the parameters that can be given one by one; a signature that cannot be read is taken as one parameter."""
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


def depend(calls: Sequence[Batch]) -> bool:
    """Whether outputs of one call are more, or less, alike than those of different calls, beyond doubt.

    Args:
        calls: equally many outputs of each of several calls at one input.
    """
    half = len(calls) // 2
    if half < _FEWEST or len(calls[0]) < 2:
        return False
    width = len(calls[0])
    arrays = [call for call in calls if isinstance(call, np.ndarray)]
    every: Batch = np.concatenate(arrays) if len(arrays) == len(calls) else [o for call in calls for o in call]
    values = Encoder.learned(every, bits=False).encode(every).values[:, :_COLUMNS]
    rare = _RARE / max(values.shape[1], 1)
    for column in values.T:
        ranked = _ranks(column).reshape(len(calls), width)
        sides = [_side(part, rare) for part in (ranked[:half], ranked[half : 2 * half])]
        if sides[0] != 0 and sides[0] == sides[1]:
            return True
    return False


def _side(ranks: Floats, rare: float) -> int:
    """1 where calls differ too much, −1 where they differ too little, else 0.

    References: Kruskal, Wallis 1952, Use of ranks in one-criterion variance analysis.
    """
    from scipy.special import chdtr, chdtrc

    calls, width = ranks.shape
    off = ranks - ranks.mean()
    total = float((off**2).sum())
    if total == 0:
        return 0
    h = (ranks.size - 1) * width * float((off.mean(axis=1) ** 2).sum()) / total
    if chdtrc(calls - 1, h) < rare / 2:
        return 1
    return -1 if chdtr(calls - 1, h) < rare / 2 else 0


def _ranks(x: Floats) -> Floats:
    """Ranks, equal ones for equal values; NaN comes first."""
    clean = np.where(np.isnan(x), -np.inf, x)
    _, inverse, times = np.unique(clean, return_inverse=True, return_counts=True)
    last = np.cumsum(times)
    return np.asarray((last - (times - 1) / 2)[inverse.reshape(-1)], dtype=np.float64)


class Printed:
    """The first outputs of a draw, and what they were when they were returned."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._outputs: list[object] = []
        self._prints: list[bytes | None] = []

    def add(self, output: object) -> None:
        """Take note of an output, if there were not enough of them."""
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
    """Return a masked array with None where it is masked: what lies beneath is not put out."""
    plain = np.array(array.data, dtype=object)
    plain[np.ma.getmaskarray(array)] = None
    return plain


def copied(output: object) -> object:
    """Return a copy, where there can be one."""
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
        """Return what the next run gets."""
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
