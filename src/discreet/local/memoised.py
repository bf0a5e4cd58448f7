"""The same answer for ever: what keeps a question asked every day from leaking by averaging."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Hashable, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.errors import InvalidParameter, LedgerCorrupt
from discreet.local import durable
from discreet.local.domain import is_many
from discreet.local.estimate import Estimate
from discreet.local.randomizer import Randomizer, numbered
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.privacy.event import ApproximateEvent, Composed
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import decimal

_FORMAT = "discreet memoised answers 1"


class Memoised(Randomizer):
    """A randomizer of one device that draws a value's report once and gives the same one for ever after.

    Args:
        randomizer: what reports.
        path: the device's own file of answers, made when it is missing and readable by its owner alone (mode 0600).
            It holds, in clear, for which values there is an answer: it is as secret as the values. Without a path the
            answers live as long as this object: a restart draws anew, and so do a copy and the child of a fork.

    Guarantee:
        For two histories of a device's values that change and return at the same times, with m different values each,
        all reports ever made are m·`lifetime`-DP: a value that never changes costs one report, however often it is
        asked for. When values change and return is *not* protected: a new value has a new report, and whoever sees
        both knows that it changed. (Where `repeat` adds noise of its own, as in `Rappor`, it takes many reports to
        see it.) A report leaves only after its answer is durable; two processes or threads never report two answers
        for one value.
        A file that is deleted or set back makes the device draw anew, which costs `lifetime` again and cannot be seen
        from here: see `DeviceBudget` for a tally of that.

    References:
        Erlingsson, Pihur, Korolova 2014, Section 3 and Theorem 1 (the permanent response),
        https://arxiv.org/abs/1407.6981; docs/proofs/device-budget.md, "Memoised answers".

    >>> from discreet.local import RandomizedResponse
    >>> daily = Memoised(RandomizedResponse(3, epsilon=1))
    >>> len({daily.randomize(2) for day in range(100)})
    1
    """

    __slots__ = ("_answers", "_scope", "path", "randomizer")

    def __init__(self, randomizer: Randomizer, path: str | os.PathLike[str] | None = None) -> None:
        given: object = randomizer  # what came need not be what was annotated
        if not isinstance(given, Randomizer) or isinstance(given, Memoised):
            raise InvalidParameter(
                f"randomizer must be a randomizer to memoise, not {type(randomizer).__name__}.",
                hint="Memoised(RandomizedResponse(3, epsilon=1), 'answers.json')",
            )
        self.randomizer = randomizer
        self.path = None if path is None else durable.place(path)
        self._scope = fingerprint(randomizer)
        self._answers: dict[str, Any] = {}

    @property
    def epsilon(self) -> Fraction:
        """The ε of all reports of one value: `lifetime` of the randomizer."""
        return self.randomizer.lifetime

    @property
    def events(self) -> Composed:
        """What all reports of one value cost together."""
        if self.randomizer.lifetime == self.randomizer.epsilon:
            return self.randomizer.events
        return Composed([ApproximateEvent(self.randomizer.lifetime)])

    def randomize(self, x: Any, *, rng: Entropy | None = None) -> Any:
        """Return the device's report of `x`: drawn when `x` is first seen, and from then on what was kept.

        Raises:
            InvalidParameter: values of several devices: each device has answers of its own.
            LedgerError: the file cannot be read or written; nothing was reported.
        """
        self._check(x)
        source = SystemEntropy() if rng is None else rng
        key = f"{self._scope}:{self.randomizer.key(x)}"
        if self.path is None:
            fixed = self._answers.get(key)
            if fixed is None:  # of threads that draw at the same time, one answer is kept, and leaves
                fixed = self._answers.setdefault(key, self.randomizer.fix(x, source))
        else:
            fixed = self._kept(self.path, key, x, source)
        return self._repeated(fixed, source)

    def again(self, x: Any, *, rng: Entropy | None = None) -> Any:
        """Return a report of `x` from what was kept, which costs nothing more; None where there is no answer yet."""
        self._check(x)
        kept = self._all().get(f"{self._scope}:{self.randomizer.key(x)}")
        if kept is None:
            return None
        return self._repeated(kept if self.path is None else _restored(kept), SystemEntropy() if rng is None else rng)

    def knows(self, x: Any) -> bool:
        """Return whether there is an answer for `x`, so that a report costs nothing more."""
        self._check(x)
        return f"{self._scope}:{self.randomizer.key(x)}" in self._all()

    @property
    def spent(self) -> Fraction:
        """ε times the number of different values that this randomizer has answered for on this device."""
        return self.epsilon * sum(key.startswith(f"{self._scope}:") for key in self._all())

    def estimate(self, reports: Any, *, domain: Sequence[Hashable] | None = None) -> Estimate:
        """Return what the randomizer estimates: one report for each of many devices."""
        return self.randomizer.estimate(reports, domain=domain)

    def error(self, users: int, confidence: Real = 0.95) -> float:
        """Return that of the randomizer: repeated reports of one device add nothing."""
        return self.randomizer.error(users, confidence)

    def explain(self) -> str:
        e = decimal(self.epsilon)
        return numbered(
            repr(self),
            f"One value. What is kept for a value is {e}-DP: {self.randomizer!r}.",
            "Repeated. Every report of the value is made from what was kept and from coins that ignore the value: "
            f"post-processing, so all of them together are {e}-DP.",
            f"Several values. Each new value is one more use: m different values cost m·{e}, for two histories that "
            "change and return at the same times.",
            "Not protected. Whether and when the value changed: another value has another result.",
        )

    def _repeated(self, fixed: Any, source: Entropy) -> Any:
        report = self.randomizer.repeat(fixed, source)
        return report.copy() if isinstance(report, np.ndarray) else report  # what is kept stays as it is

    def _kept(self, path: str, key: str, x: Any, source: Entropy) -> Any:
        with durable.exclusive(f"{path}.lock"):
            answers = _read(path)
            if key not in answers:
                fixed = self.randomizer.fix(x, source)
                answers[key] = _written(fixed)
                durable.replace(path, _text(answers))  # before anything leaves
            return _restored(answers[key])

    def _all(self) -> dict[str, Any]:
        if self.path is None:
            return self._answers
        with durable.exclusive(f"{self.path}.lock"):
            return _read(self.path)

    def _check(self, x: Any) -> None:
        if not is_one(self.randomizer, x):
            raise InvalidParameter(
                "a memoised randomizer reports for one device, and takes one value.",
                hint="make one for each device; for a simulation of many use the randomizer itself",
            )

    def __repr__(self) -> str:
        return f"Memoised({self.randomizer!r})"


def is_one(randomizer: Randomizer, x: Any) -> bool:
    """Return whether `x` is what one device holds: a vector for those that report about vectors, else no array."""
    if getattr(randomizer, "dimension", None) is None:
        return not is_many(x)
    return np.ndim(x) <= 1


def fingerprint(value: object) -> str:
    """Return a digest of all public parameters of a randomizer: another ε or domain is another question."""
    return hashlib.sha256(_described(value).encode()).hexdigest()[:32]


def _described(value: object) -> str:
    if is_dataclass(value) and not isinstance(value, type):
        inner = (f"{f.name}={_described(getattr(value, f.name))}" for f in fields(value) if f.compare)
        return f"{type(value).__name__}({', '.join(inner)})"
    if isinstance(value, tuple):
        return f"({', '.join(map(_described, value))})"
    return repr(value)


def _written(fixed: Any) -> Any:
    """Return a report as JSON."""
    if isinstance(fixed, np.ndarray):
        return {"dtype": fixed.dtype.str, "values": fixed.tolist()}
    if isinstance(fixed, bool | int | float | str):
        return fixed
    raise InvalidParameter(f"a report of type {type(fixed).__name__} cannot be kept in a file.")


def _restored(stored: Any) -> Any:
    if isinstance(stored, dict):
        return np.array(stored["values"], dtype=np.dtype(stored["dtype"]))
    return stored


def _text(answers: dict[str, Any]) -> bytes:
    body = json.dumps(answers, sort_keys=True)
    check = hashlib.sha256(body.encode()).hexdigest()
    return json.dumps({"format": _FORMAT, "answers": answers, "check": check}, sort_keys=True).encode()


def _read(path: str) -> dict[str, Any]:
    """Return the answers of a file; none where there is no file.

    Raises:
        LedgerCorrupt: it does not hold what was written. It is not thrown away: new answers would cost more.
    """
    data = durable.read(path)
    if data is None:
        return {}
    try:
        stored = json.loads(data)
        answers: dict[str, Any] = stored["answers"]
        check = hashlib.sha256(json.dumps(answers, sort_keys=True).encode()).hexdigest()
        sound = stored["format"] == _FORMAT and check == stored["check"]
    except (ValueError, KeyError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise LedgerCorrupt(
            f"the answers in {path} are damaged; nothing was reported.",
            hint="restore the file; without it every value has to be paid for again",
        )
    return answers
