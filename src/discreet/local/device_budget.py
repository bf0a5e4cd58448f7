"""A budget for the life of a device: a tally in a file that only grows, and that no calendar resets."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

from discreet.errors import BudgetExceeded, InvalidParameter, LedgerCorrupt, LedgerError
from discreet.local import durable
from discreet.local.memoised import Memoised, is_one
from discreet.local.randomizer import Randomizer
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.privacy.exact import Real, exact, positive
from discreet.privacy.guarantee import decimal, words

T = TypeVar("T")

_FORMAT = "discreet device budget 1"
_SEEN = "{id} {charges:020d}\n"
_LONGEST = 1 << 12  # bits of the denominator of what is spent
_KEEP = "nothing was reported; the device stays silent rather than spend twice"

_newest: dict[str, tuple[str, int]] = {}
"""By path: the id of the tally and the most charges that this process has seen in it."""


@dataclass(frozen=True, slots=True)
class DeviceTally:
    """What the file holds: how much there is, how much is spent, in how many charges."""

    id: str
    epsilon: Fraction
    spent: Fraction
    charges: int


class DeviceBudget:
    """How much a device may ever tell: ε for its life, charged before each report.

    `DeviceBudget.create(path, epsilon)` makes the file, once, when the device is set up; `DeviceBudget(path)` opens it
    ever after. There is no way to refill it, and no clock in it.

    Guarantee:
        All reports made through `randomize` (or after a `charge` of their ε) are together ε-DP for any two histories of
        the device's values, however adaptively they are asked for, as long as the tally is kept: a charge is durable
        before the report is drawn, one process or thread charges at a time, and what a crash leaves open counts as
        spent. Answers that are memoised already cost nothing more; for them the guarantee is that of `Memoised`.
        A file that is damaged, missing, or older than what this process or the companion file `<path>.seen` has seen is
        refused. A device that is restored whole, both files included, cannot notice that.

    References:
        Composition: Dwork, Roth, *The Algorithmic Foundations of Differential Privacy*, Theorem 3.16,
        https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf; with adaptive choice of ε: Rogers, Roth, Ullman,
        Vadhan
        2016 (the filter for basic composition), https://arxiv.org/abs/1605.08294; docs/proofs/device-budget.md
    """

    __slots__ = ("path",)

    def __init__(self, path: str | os.PathLike[str], epsilon: Real | None = None) -> None:
        self.path = durable.place(path)
        tally = self.tally
        if epsilon is not None and exact("epsilon", epsilon) != tally.epsilon:
            raise LedgerError(
                f"this device has a budget of {decimal(tally.epsilon)} for its life, not {epsilon}.",
                hint="leave epsilon out, or give the one that it was created with",
            )

    @classmethod
    def create(cls, path: str | os.PathLike[str], epsilon: Real) -> DeviceBudget:
        """Return the budget of a device that has none yet.

        Raises:
            LedgerError: there is a tally already, or there was one.
        """
        place, whole = durable.place(path), positive("epsilon", epsilon)
        with durable.exclusive(f"{place}.seen") as seen:
            if durable.read(place) is not None or durable.held(place, seen) or place in _newest:
                raise LedgerError(
                    f"{place} is, or was, the budget of this device already.",
                    hint="DeviceBudget(path) opens it; what is spent stays spent",
                )
            _store(place, seen, DeviceTally(SystemEntropy().bytes(16).hex(), whole, Fraction(0), 0))
        return cls(place)

    @property
    def tally(self) -> DeviceTally:
        """What the file holds now."""
        with self._opened() as (tally, _):
            return tally

    @property
    def epsilon(self) -> Fraction:
        """The privacy budget, which never resets."""
        return self.tally.epsilon

    @property
    def spent(self) -> Fraction:
        """What has been charged so far."""
        return self.tally.spent

    @property
    def remaining(self) -> Fraction:
        """What is left, for ever."""
        tally = self.tally
        return tally.epsilon - tally.spent

    def charge(self, epsilon: Real) -> None:
        """Spend ε. When this returns, it is spent whatever happens.

        Raises:
            BudgetExceeded: so much is not left; nothing was charged.
            LedgerError: the file cannot be used; count it as charged, and report nothing.
        """
        asked = positive("epsilon", epsilon)
        with self._opened() as (tally, seen):
            if tally.spent + asked > tally.epsilon:
                left = words(tally.epsilon - tally.spent, Fraction(0))
                raise BudgetExceeded(
                    f"this device has {left} left of {decimal(tally.epsilon)} for its life, and this needs "
                    f"{decimal(asked)}.",
                    asked=words(asked, Fraction(0)),
                    left=left,
                    hint="nothing refills it; answers that are memoised are free",
                )
            spent = tally.spent + asked
            if spent.denominator.bit_length() > _LONGEST:
                raise InvalidParameter(
                    "epsilon would give the tally more digits than any use needs; nothing was charged.",
                    hint="charge amounts with few digits, such as 0.25",
                )
            _store(self.path, seen, replace(tally, spent=spent, charges=tally.charges + 1))

    def randomize(self, randomizer: Randomizer, x: Any, *, rng: Entropy | None = None) -> Any:
        """Return the device's report of `x`, charged before it is drawn; free where `randomizer` has memoised an
        answer.

        Whether a budget is left follows from public facts, and for a memoised randomizer from how often the value
        changed, which it does not hide. It does not follow from the values.

        Raises:
            BudgetExceeded: so much is not left.
            InvalidParameter: values of several devices.
        """
        if isinstance(randomizer, Memoised):
            kept = randomizer.again(x, rng=rng)
            if kept is not None:  # looked up once: an answer that is gone by then is not drawn anew unpaid
                return kept
            self.charge(randomizer.epsilon)
        elif not is_one(randomizer, x):
            raise InvalidParameter(
                "a device's budget pays for the reports of one device.", hint="give one value, not an array"
            )
        else:
            self.charge(randomizer.epsilon)
        return randomizer.randomize(x, rng=rng)

    def paying(self, epsilon: Real, work: Callable[[], T]) -> T:
        """Return what the work returns, which starts when ε is charged: for releases that are no randomizer's."""
        self.charge(epsilon)
        return work()

    @contextmanager
    def _opened(self) -> Iterator[tuple[DeviceTally, int]]:
        """Yield the tally, checked, with the companion file locked."""
        if not durable.exists(self.path) and not durable.exists(f"{self.path}.seen"):
            raise LedgerError(
                f"there is no budget at {self.path}.",
                hint="DeviceBudget.create(path, epsilon) makes one, once for each device",
            )
        with durable.exclusive(f"{self.path}.seen") as seen:
            tally = _parsed(self.path, durable.read(self.path))
            witness = durable.held(self.path, seen)
            known, least = _newest.get(self.path, (tally.id, 0))
            if known != tally.id or tally.charges < max(least, _witnessed(self.path, witness, tally)):
                raise _refused(self.path, "is older than what was seen, or another one is in its place")
            _newest[self.path] = (tally.id, tally.charges)
            yield tally, seen

    def __repr__(self) -> str:
        tally = self.tally
        return f"DeviceBudget({self.path!r}): {decimal(tally.spent)} of {decimal(tally.epsilon)} spent"


def _store(path: str, seen: int, tally: DeviceTally) -> None:
    """First the tally, whole, then the witness of it: a crash in between leaves a tally that is ahead."""
    durable.replace(path, _text(tally))
    _newest[path] = (tally.id, tally.charges)
    durable.overwrite(path, seen, _SEEN.format(id=tally.id, charges=tally.charges).encode())


def _text(tally: DeviceTally) -> bytes:
    body = {
        "format": _FORMAT,
        "id": tally.id,
        "epsilon": str(tally.epsilon),
        "spent": str(tally.spent),
        "charges": tally.charges,
    }
    return json.dumps({**body, "check": _check(body)}, indent=1).encode()


def _check(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _parsed(path: str, data: bytes | None) -> DeviceTally:
    if data is None:
        raise _refused(path, "is gone")
    try:
        stored = json.loads(data)
        if stored.pop("check") == _check(stored) and stored.get("format") == _FORMAT:
            found = DeviceTally(
                stored["id"], Fraction(stored["epsilon"]), Fraction(stored["spent"]), int(stored["charges"])
            )
            if 0 <= found.spent <= found.epsilon and found.charges >= 0:
                return found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ZeroDivisionError):
        pass
    raise _refused(path, "is damaged")


def _witnessed(path: str, witness: bytes, tally: DeviceTally) -> int:
    """Return the charges that the companion file has seen; it is empty only before the first charge."""
    if not witness and tally.charges == 0:
        return 0
    try:
        known, charges = witness.decode("ascii").split()
        if known == tally.id:
            return int(charges)
    except ValueError:
        pass
    raise _refused(path, "does not belong to its companion file")


def _refused(path: str, what: str) -> LedgerCorrupt:
    return LedgerCorrupt(f"the budget of this device, {path}, {what}.", hint=_KEEP)
