"""Whether two streams of outputs share their noise, or are equal by chance."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from discreet.audit.evidence.intervals import clopper_pearson
from discreet.audit.outputs.identity import codes_of
from discreet.audit.outputs.sampling import Raised, Sampler
from discreet.audit.outputs.shape import Batch

Stream: TypeAlias = list[int | None]
"""Outputs one after another, by their codes; None for an exception."""

_MOST = 4096
_LEAST = 64
_LONGEST = 4000
_SHIFT = 24  # by how much two streams may be shifted


@dataclass(frozen=True, slots=True)
class Yardstick:
    """How many equal outputs in a row are no chance.

    Attributes:
        run: two streams of independent outputs share a run of so many by a chance of at most the error.
        length: how many outputs of each stream are compared.
        collision: an upper bound on the chance that two independent outputs are equal.
        distinct: how many different outputs there were among `drawn`.
        drawn: how many outputs were drawn to find out.
        seconds: how long it takes to draw one stream, about.
    """

    run: int
    length: int
    collision: float
    distinct: int
    drawn: int
    seconds: float

    @classmethod
    def of(cls, sampler: Sampler, *, comparisons: int, seconds: float, error: float) -> Yardstick | None:
        """Measured on a mechanism; None where outputs are too few or too much alike.

        Guarantee:
            Where outputs are independent and of one law, `comparisons` pairs of streams of `length` share a run of
            `run` outputs, at whatever places, with probability at most `error`: half of it for the Clopper–Pearson
            bound on the chance that two outputs are equal, half for the runs.
        """
        start = time.monotonic()
        end, codes = start + seconds, Stream()
        while len(codes) < _LEAST or (len(codes) < _MOST and time.monotonic() < end):
            codes += stream_of(sampler.draw(max(_LEAST // 4, len(codes))))
            if time.monotonic() > end + 3 * seconds:
                break
        each = (time.monotonic() - start) / len(codes)
        answers = [c for c in codes if c is not None]
        if len(answers) < _LEAST // 2 or len(answers) < len(codes) / 2:
            return None
        pairs = len(answers) // 2
        equal = sum(a == b for a, b in zip(answers[:pairs], answers[pairs:], strict=False))
        collision = clopper_pearson(equal, pairs, error)[1]
        if collision >= 1 or len(set(answers)) < 2:
            return None
        run = length = 1
        while True:
            wanted = math.log(2 * comparisons * length**2 / error) / -math.log(collision)
            run = max(2, math.ceil(wanted * (1 + 1e-9)))
            if run + _SHIFT <= length:
                break
            length = run + _SHIFT
            if run > _LONGEST:
                return None
        return cls(run, length, collision, len(set(answers)), len(answers), each * length)

    def shared(self, a: Sequence[int | None], b: Sequence[int | None]) -> bool:
        """Whether two streams have a run of equal outputs that is no chance."""
        runs = {tuple(w) for w in _windows(a, self.run)}
        return any(tuple(w) in runs for w in _windows(b, self.run))

    def tells(self, a: Sequence[int | None]) -> bool:
        """Whether a stream has runs that can be compared.

        Exceptions do not count, and neither does one output again and again: a mechanism may have stopped answering.
        """
        return bool(_windows(a, self.run))


def stream_of(batch: Batch) -> Stream:
    """The codes of outputs."""
    failed = [isinstance(o, Raised) for o in batch]
    return [None if bad else int(code) for code, bad in zip(codes_of(batch), failed, strict=True)]


def stream(mechanism: Callable[..., object], x: object, length: int) -> Stream:
    """So many fresh outputs of a mechanism."""
    return stream_of(Sampler(mechanism, x).draw(length))


def _windows(s: Sequence[int | None], run: int) -> list[Sequence[int | None]]:
    windows = [s[i : i + run] for i in range(len(s) - run + 1)]
    return [w for w in windows if None not in w and len(set(w)) > 1]
