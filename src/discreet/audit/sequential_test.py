"""Sequential test of one pair of samplers: learn from past batches, bet on the next one."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.claim import Claim, Ints, Promises
from discreet.audit.evidence.betting import Cuts, Wealth, edges
from discreet.audit.finding import CONSISTENT, VIOLATED, Tradeoff, Witness
from discreet.audit.learned import Learned, ScoreEvent, chances, clearest, count, epsilon_of, tradeoff
from discreet.audit.outputs.sampling import Sampler
from discreet.audit.outputs.shape import Batch
from discreet.audit.result import Audit, Power, likeliest

Until: TypeAlias = Literal["refuted", "end"]

FOREVER = 10**15
"""Number of samples where time alone is limited: more than any test draws."""

TRAINING = 0.2
"""Share of the samples after which events are no longer learned anew and stakes aim at the end."""

_FIRST = (100, 2000)  # the first batch: a twentieth of the samples, within these
_CELLS = 5_000_000  # numbers that a batch may hold, once encoded
_BATCH = 250_000  # outputs of each neighbour in one batch
_PROMISING = 2.0  # standard deviations beyond the claim from which on more samples than planned are drawn
_HOPED = 10.0  # the same that bets may win by the end of all of those samples, or they are not worth while
_LESSON = 0.25  # of the time that is left, which learning once more may take
_ODDS = 4.0  # log odds against such bets, and for bets that win nothing, with which hope is given up
_AGAIN = 3  # scores that may be bet on, beside those that are, by each of two ways to rank them
_GAUGE = 2  # outputs that tell how fast the mechanism is, when there is a limit on time

_PARTS = 16
"""Sizes, equally far from each other, at which a test that is limited by time may show its counts."""


class OutputSource(Protocol):
    """Source of outputs of one neighbour: a `Sampler`, or anything like it."""

    def draw(self, n: int) -> Batch:
        """Return exactly n fresh, independent outputs."""


class SequentialTest:
    """Sequential test of a claim on one pair of neighbours.

    Args:
        first: source of the outputs of one neighbour.
        second: source of the outputs of the other one.
        claim: the claim, tested in both orders.
        error: largest probability that a true claim is refuted; also that each bound is wrong.
        samples: most outputs of each neighbour, unless they come near to refuting the claim.
        more: most outputs that are drawn beyond them then.
        seconds: most time, about, from now on.
        until: "refuted" ends when the claim is refuted; "end" uses all samples, for the best bounds.
        effort: effort of learning scores.
        began: outputs of the two that were drawn before, to learn from (not tested, not counted).
        bits: whether the bits of real numbers are tested; without them they are read on grids (`Encoder`).

    Guarantee:
        As `Wealth`, if all outputs are independent. No bet is settled on samples that it was learned from, nor on a
        batch during which the way of drawing changed (`Sampler.manner`).
    """

    def __init__(
        self,
        first: OutputSource,
        second: OutputSource,
        claim: Claim,
        *,
        error: float,
        samples: int,
        more: int = 0,
        seconds: float | None = None,
        until: Until = "refuted",
        effort: int = 1,
        began: tuple[Batch, Batch] | None = None,
        bits: bool = True,
    ) -> None:
        self.first, self.second, self.claim, self._bits = first, second, claim, bits
        self.error, self.samples, self.more, self.effort = error, samples, more, effort
        self.until, self._planned = until, samples
        self.promises = Promises.of(claim)
        self._era, self._manner = 0, self._manners()
        self.wealth = self._new_wealth()
        self._rows = np.zeros(len(self.promises), dtype=np.bool_)
        self._claim = False
        self.spent = 0
        """Number of outputs drawn of each neighbour."""
        self._past = SampleBuffer(began)
        self._before = 0 if began is None else len(began[0])
        self._ended = False
        # What was spent when more samples were asked for the last time, and the most that may be by then; what was won
        # since then, and its variance; whether these bets may be given up.
        self._first: int | None = None
        self._last = samples + more
        self._won = np.zeros(2)
        self._patient = False
        # Whether training is over, whether outputs are kept all the same, to learn from once more, and the seconds
        # that the last lesson took.
        self._trained = self._keeps = False
        self._took = 0.0
        self._taught = 0
        """Number of outputs of each neighbour that were drawn when training ended."""
        self._learned: Learned | None = None
        self._event: ScoreEvent | None = None
        self._fresh = Fresh((), 0, timed=False)
        self._start = time.monotonic()
        self._pace = 0.0
        """Seconds that an output of each neighbour takes: of the last batch, without what learning took."""
        self.give(seconds)

    def give(self, seconds: float | None) -> None:
        """Set the time, about, that may be taken from now on."""
        self._deadline = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def refuted(self) -> bool:
        """Return whether the claim is refuted."""
        return self._claim or self.wealth.claim_refuted

    @property
    def of_law(self) -> bool:
        """Return whether its events are those of a law: no output has real numbers, or they are read on grids."""
        return not self._bits or self.has_no_reals

    @property
    def has_no_reals(self) -> bool:
        """Return whether no output that was learned from had real numbers."""
        return self._learned is None or not self._learned.encoder.has_reals

    @property
    def counts(self) -> tuple[Cuts, ...]:
        """Return the events of the scores in use, with all counts so far."""
        return self._learned.cuts if self._learned else ()

    @property
    def elapsed(self) -> float:
        """Return the seconds since it was made."""
        return time.monotonic() - self._start

    @property
    def epsilon_lower(self) -> float:
        """Return a lower bound on ε at the claimed δ; no less than the claimed ε where that is refuted."""
        found = self.promises.epsilon_lower(self._rows | self.wealth.refuted)
        return max(found, self.claim.epsilon) if self._point_refuted else found

    @property
    def delta_lower(self) -> float:
        """Return a lower bound on δ at the claimed ε; no less than the claimed δ where that is refuted."""
        found = self.promises.delta_lower(self._rows | self.wealth.refuted)
        return max(found, self.claim.delta) if self._point_refuted else found

    @property
    def _timed(self) -> bool:
        """Return whether anything but a number of samples that was fixed before may end the test."""
        return self._deadline < math.inf or self._first is not None

    @property
    def _point_refuted(self) -> bool:
        return self.refuted and len(self.claim.points) == 1

    @property
    def promise(self) -> float:
        """Return by how many standard deviations the counts since the last learning exceed what the claim allows."""
        return edges(self.claim.points, self._fresh.counts)

    def begin(self) -> SequentialTest:
        """Draw, bet and learn until the claim is refuted, or the planned samples or time are spent."""
        if self.spent == 0:
            for source in (self.first, self.second):
                if isinstance(source, Sampler):
                    source.examine()
            self._manner = self._manners()
        self._test()
        return self

    def run(self, least: float | None = None, *, patient: bool = False) -> SequentialTest:
        """Begin, and go on while the counts are near enough to refuting the claim.

        Args:
            least: the `promise` with which it goes on for the first time; the usual one by default.
            patient: whether it goes on to the end, whatever the counts are.
        """
        self._patient |= patient
        self.begin()
        while not self._ended and self._goes_on(_PROMISING if least is None else least):
            least = None
            self._test()
        self.forget()
        return self

    def forget(self) -> None:
        """Free the outputs that were kept to learn from; a test may go on without."""
        self._keeps = False
        self._past.clear()

    def _test(self) -> None:
        """Draw, bet and learn until samples or time are spent, the claim is refuted, or hope is given up."""
        while not self._ended and (most := self._most()) > self.spent:
            training = self._first is None and (
                (self.spent + self._before < self._lesson(most) and not self._too_late(2))
                or (self.spent > 0 and self._learned is None)
            )
            self._learn_if_due(training)
            n = self._next(most, training)
            began = time.monotonic()
            bets = self.wealth.plan(self._learned.cuts) if self._learned else None
            p, q = self._draw(n)
            if not self._fair():
                self._start_again()
                continue
            if training or (self._keeps and len(self._past) < self._past.enough):
                self._past.add(p, q)
            if bets is not None and self._learned is not None:
                bins = self._learned.bins(p, q)
                self.wealth.settle(bets, bins, left=None if training else max(most - self.spent, 0))
                count(self._learned.cuts, bins)
                self._fresh.add(bins)
                self._won += bets.won(bins)
            self._pace = (time.monotonic() - began) / n
            self._ended = (self.refuted and self.until == "refuted") or self._fails()

    def audit(self, name: str, x: object, x_neighbour: object) -> Audit:
        """Return the result, with the clearest event's chances from samples that it was not chosen on."""
        power = self.power()
        witness, curve = self._evidence(x, x_neighbour)
        return Audit(
            name=name,
            claim=self.claim,
            verdict=VIOLATED if self.refuted else CONSISTENT,
            error=self.error,
            epsilon_lower=self.epsilon_lower,
            delta_lower=self.delta_lower,
            power=power,
            witness=witness,
            tradeoff=curve,
            samples=2 * self.spent,
            seconds=self.elapsed,
            tried=self._learned.tried(self.claim.delta) if self._learned else (),
        )

    def _most(self) -> int:
        """Return the most samples of each neighbour that the limits still allow; no less than were drawn."""
        return min(self.samples, self.spent + self._fit()) if self.spent else self.samples

    def _fit(self) -> int:
        """Return about how many more samples of each neighbour fit into the time that is left."""
        left = self._deadline - time.monotonic()
        return int(min(max(left, 0.0) / max(self._pace, 1e-9), FOREVER))

    def _next(self, most: int, training: bool) -> int:
        """Return the size of the next batch: as many again while learning, a twelfth of all afterwards."""
        small, large = _FIRST
        if self.spent == 0 and self._deadline < math.inf:
            n = _GAUGE
        elif training:
            first = int(np.clip(most // 20, small, large))
            rest = math.ceil(self._lesson(most)) - self.spent - self._before
            n = min(max(self.spent, first), rest if rest > 0 else self.spent)
        else:
            n = max(most // 12, small)
        width = self._learned.width if self._learned else 1
        n = max(min(n, max(_CELLS // width, 1000), _BATCH, most - self.spent), 2)
        left = self.samples - self.spent
        return left if left - n <= 1 else n  # no batch of a single output

    def _draw(self, n: int) -> tuple[Batch, Batch]:
        p, q = self.first.draw(n), self.second.draw(n)
        self.spent += n
        return p, q

    def _manners(self) -> tuple[object, ...]:
        return tuple(getattr(source, "manner", None) for source in (self.first, self.second))

    def _fair(self) -> bool:
        """Return whether the manner of drawing is the same as before; from now on the new one is."""
        before, self._manner = self._manner, self._manners()
        if before == self._manner:
            return True
        self._era += 1
        return False

    def _part(self) -> float:
        """Return the part of the error for one wealth and its witness: all parts together are 1."""
        return 3 / 4 if self._era == 0 else 2.0**-self._era / 4

    def _new_wealth(self) -> Wealth:
        # Half of the error is for the verdict, half for each bound's own run.
        return Wealth(self.promises, self.error / 2 * self._part())

    def _start_again(self) -> None:
        """Go on in another manner: what was refuted stays so, a new wealth has its own part of the error."""
        self._rows |= self.wealth.refuted
        self._claim |= self.wealth.claim_refuted
        self.wealth = self._new_wealth()
        if self._learned is not None:
            ahead = self._most() - self.spent
            self._fresh = Fresh(self._learned.cuts, ahead, timed=self._timed)

    def _goes_on(self, least: float) -> bool:
        """Ask for more samples if the counts are so near to refuting the claim that these may do so; return whether.

        A test of its own follows, with a new wealth and its own part of the error; it may be followed in turn.
        """
        learned, left = self._learned, min(self._planned + self.more - self.spent, self._fit())
        if self.more == 0 or left < 2 or learned is None or self.refuted or self.until == "end":
            return False
        points = self.claim.points
        if self.promise < least:
            return False
        best = _farthest(points, self._fresh.counts)
        event = self._event.score if self._event else best[0]
        self._learned = learned.keep(sorted({*best, event}))
        self._first, self._last, self._won = self.spent, self.spent + left, np.zeros(2)
        self._era += 1
        self._rows |= self.wealth.refuted
        self.wealth = self._new_wealth()
        needed = max(self.wealth.needed(self._learned.cuts), self._planned // 2)
        self.samples = self.spent + (left if self._patient else min(needed, left))
        ahead = self.samples - self.spent
        self._event = self._clearest(self._learned, ahead)
        self._fresh = Fresh(self._learned.cuts, ahead, timed=True)
        return True

    def _fails(self) -> bool:
        """Return whether the bets on the samples that were asked for win less than the first ones promised.

        Wald's test of no excess against the one that is hoped for, which would be so many standard deviations when all
        samples that may be drawn are: given up where e^`_ODDS` speaks for none.
        """
        if self._first is None or self._patient or self.spent < self._first + self._planned:
            return False
        won, variance = self._won
        hoped = _HOPED * math.sqrt((self.spent - self._first) / max(self._last - self._first, 1))
        return bool(won < (hoped / 2 - _ODDS / hoped) * math.sqrt(variance))

    def _learn_if_due(self, training: bool) -> None:
        """Learn when the past has doubled, when training ends, and once more in a test that goes on long enough."""
        again, past = self._first is not None, self._past
        if len(past) == 0 or (self._trained and not training and not again):
            return
        due = len(past) >= (past.enough if again else (2.0 if training else 1.2) * past.learned_from)
        if due and not (self._learned is not None and self._too_late(2 if again else 1)):
            start = time.monotonic()
            learned = Learned.of(*past.lesson(), effort=self.effort + again, bits=self._bits)
            if learned.cuts:
                self._adopt(learned, last=not training)
            self._took = time.monotonic() - start
            if again:  # what comes is bet on other events, and judged by itself
                self._first, self._won = self.spent, np.zeros(2)
        elif self._learned is not None and not training and not again:
            self._adopt(self._learned, last=True)
        if not self._trained and not training:
            self._taught = self.spent
        self._trained = not training and self._learned is not None
        if not again:
            self._keeps = self._trained and self.more > 0 and self.until != "end" and past.has_room()
        if due if again else not (training or self._keeps):
            self.forget()

    def _too_late(self, effort: int) -> bool:
        """Return whether learning once more, at so many times the effort, takes too much of the time that is left."""
        expected = effort * self._took * len(self._past) / max(self._past.learned_from, 1)
        return expected > _LESSON * (self._deadline - time.monotonic())

    def _lesson(self, most: int) -> float:
        """Return the samples after which events are no longer learned anew: more of them would not be kept."""
        return min(TRAINING * most, 2 * KEPT, self._past.most())

    def _adopt(self, learned: Learned, *, last: bool) -> None:
        ahead = self._most() - self.spent
        event = self._clearest(learned, ahead)
        if last:  # other scores than those that are bet on, or that may be, are not computed any more
            bets = self.wealth.plan(learned.cuts).score.tolist()
            used = {
                event.score,
                *(bets if self.until == "end" else bets[-1:]),
                *(_clearest_apart(learned.cuts) if self._first is None else ()),
                *_farthest(self.claim.points, learned.cuts),
            }
            learned = learned.keep(sorted(used))
            event = self._clearest(learned, ahead)
        self._learned, self._event = learned, event
        self._fresh = Fresh(learned.cuts, ahead, timed=self._timed)

    def _clearest(self, learned: Learned, ahead: int) -> ScoreEvent:
        """Return the event to show: the plainest of those nearly as good as the best; the best for bounds."""
        claim, plain = self.claim, None if self.until == "end" else learned.plainness
        return clearest(learned.cuts, claim.delta, ahead, self.error / 2, epsilon=claim.epsilon, plain=plain)

    def power(self) -> Power:
        """Return the violations that this test would have found, judged by the event that shows the most."""
        claimed, error = self.claim.points[0], math.exp(-self.wealth.target)
        tested = self.spent - (self._taught if self._first is None else self._first)
        likely = likeliest(self.counts, claimed[1])
        return Power(claimed, likely, error, tested, self.spent, 2 * KEPT, self._pace)

    def _evidence(self, x: object, x_neighbour: object) -> tuple[Witness | None, Tradeoff | None]:
        """Return witness and trade-off.

        Samples that let the test stop early are not those of an interval. A test that ran to its end shows the samples
        since its last learning, a number that was known before (`Fresh`); one that stopped early draws some more. Each
        of the two has half of the error.
        """
        learned, event = self._learned, self._event
        if learned is None or event is None:
            return None, None
        bets = self.wealth.plan(learned.cuts)
        fresh, error = self._fresh.counts, self.error / 2 * self._fresh.share * self._part()
        if self._first is not None:  # its events are chosen when it begins, and perhaps once more
            error /= 2
        left = self._most() - self.spent
        if self.refuted and left > 1:
            more = min(max(self.spent, 1000), left, _BATCH)
            event = self._clearest(learned, more)
            fresh = [cuts.empty() for cuts in learned.cuts]
            drawn = self._draw(more)
            if fair := self._fair():
                bins = learned.bins(*drawn)
                self.wealth.settle(bets, bins)  # so that the bounds do not stay behind the verdict
            while not fair:
                drawn = self._draw(more)
                fair = self._fair()
                bins = learned.bins(*drawn)
            error = self.error / 2 * self._part()
            count(fresh, bins)
        counts = fresh[event.score]
        one, two = chances(event, counts, error)
        pair = (x_neighbour, x) if event.other else (x, x_neighbour)
        shown = epsilon_of(one, two, self.claim.delta)
        witness = Witness(*pair, learned.words(event), one, two, shown, learned.happens(event))
        return witness, tradeoff(event, counts, self.claim, error)


def _farthest(points: Sequence[tuple[float, float]], past: Sequence[Cuts]) -> list[int]:
    """Return the scores whose best events are farthest beyond the claim."""
    found = [edges(points, [cuts]) for cuts in past]
    return sorted(range(len(found)), key=lambda i: -found[i])[:_AGAIN]


def _clearest_apart(past: Sequence[Cuts]) -> list[int]:
    """Return the scores whose bins differ most between the two neighbours, by χ².

    The best event of a score is chosen by noise where samples are few; its bins as a whole are not.
    """
    found = []
    for cuts in past:
        p, q = (-np.diff(np.concatenate([[cuts.n], hits, [0]])) for hits in (cuts.p, cuts.q))
        seen = p + q > 0
        terms = (p - q)[seen] ** 2 / (p + q)[seen]
        found.append(float((terms.sum() - len(terms)) / math.sqrt(max(len(terms), 1))))
    return sorted(range(len(found)), key=lambda i: -found[i])[:_AGAIN]


class Fresh:
    """Counts since the events were chosen.

    A limit on time ends a test after a number of samples that may have to do with what they were: a mechanism can be
    slow where its outputs are rare. Then only sixteenths of the number that was expected are shown, each with a
    sixteenth of the error.

    Args:
        cuts: the events.
        expected: how many samples of each neighbour are expected from now on.
        timed: whether time may end them earlier or later.
    """

    def __init__(self, cuts: Sequence[Cuts], expected: int, *, timed: bool) -> None:
        self._running = [cut.empty() for cut in cuts]
        self._sizes = [max(expected, 1) * k // _PARTS for k in range(1, _PARTS + 1)] if timed else []
        self._n = 0
        self._timed = timed
        self.counts = [cut.empty() for cut in self._running] if timed else self._running
        """What may be shown."""

    @property
    def share(self) -> float:
        """The part of the error that an interval of these counts has."""
        return 1 / _PARTS if self._timed else 1.0

    def add(self, bins: Sequence[tuple[Ints, Ints]]) -> None:
        """Count more pairs."""
        done, m = 0, len(bins[0][0]) if bins else 0
        while self._sizes and self._sizes[0] <= self._n + m - done:
            size = self._sizes.pop(0)
            self._count(bins, done, done + size - self._n)
            done += size - self._n
            self._n = size
            self.counts = [Cuts(c.at, c.n, c.p, c.q) for c in self._running]
        if not self._timed or self._sizes:
            self._count(bins, done, m)
            self._n += m - done

    def _count(self, bins: Sequence[tuple[Ints, Ints]], start: int, stop: int) -> None:
        for cut, (p, q) in zip(self._running, bins, strict=True):
            cut.add(p[start:stop], q[start:stop])


KEPT = 600_000
"""Outputs of each neighbour that are learned from at most."""

_ONCE_MORE = 4  # times the outputs that were learned from, with which a test that goes on learns once more
_WORTH = 2  # the same below which it is not worth while
_ROOM = 2**27  # bytes that the outputs of both neighbours may take that are kept for it
_WEIGHED = 8  # outputs by which all are weighed
_LOOKED_INTO = 10_000  # parts of an output that are looked at


class SampleBuffer:
    """Batches of two neighbours, as many outputs of the one as of the other.

    Args:
        began: outputs that were drawn before.

    Attributes:
        learned_from: outputs of each neighbour from which was learned the last time.
    """

    def __init__(self, began: tuple[Batch, Batch] | None = None) -> None:
        self._pairs: list[tuple[Batch, Batch]] = [] if began is None else [began]
        self.learned_from = 0
        self._weight = 0.0

    def __len__(self) -> int:
        return sum(len(p) for p, _ in self._pairs)

    def add(self, p: Batch, q: Batch) -> None:
        """Keep a batch of each."""
        self._pairs.append((p, q))

    def clear(self) -> None:
        """Keep nothing of what there is."""
        self._pairs.clear()

    def lesson(self) -> tuple[Batch, Batch]:
        """Return what is learned from now: all outputs, or the newest of them. The other ones are forgotten."""
        p, q = (_joined([pair[i] for pair in self._pairs], KEPT) for i in (0, 1))
        self._pairs[:] = [(p, q)]
        self.learned_from = len(p)
        return p, q

    @property
    def enough(self) -> int:
        """The outputs of each neighbour from which a test that goes on learns once more."""
        return min(_ONCE_MORE * self.learned_from, KEPT)

    def has_room(self) -> bool:
        """Return whether so many are more than were learned from, and small enough to be kept until then."""
        return _WORTH * self.learned_from <= self.enough and self.enough <= self.most()

    def most(self) -> float:
        """Return the outputs of each neighbour that are small enough to be kept all at once."""
        if self._pairs and not self._weight:
            self._weight = sum(_bytes_each(batch) for batch in self._pairs[-1])
        return _ROOM / self._weight if self._weight else math.inf


def _joined(parts: Sequence[Batch], most: int) -> Batch:
    """Return the newest outputs of several batches, at most so many."""
    arrays: list[NDArray[np.generic]] = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts):
        return np.concatenate(arrays)[-most:]
    return [output for part in parts for output in part][-most:]


def _bytes_each(batch: Batch) -> float:
    """Return the bytes of memory that an output takes, about; inf for one of very many parts."""
    if isinstance(batch, np.ndarray) and batch.dtype != object:
        return batch.nbytes / len(batch)
    some = batch[:: max(1, len(batch) // _WEIGHED)]
    return sum(map(_bytes, some)) / len(some)


def _bytes(value: object) -> float:
    found, seen, open_ = 0.0, set[int](), [value]
    while open_:
        part = open_.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if len(seen) > _LOOKED_INTO:
            return math.inf
        if isinstance(part, np.ndarray) and part.dtype != object:
            found += part.nbytes
            continue
        try:
            found += sys.getsizeof(part)
            open_ += _parts(part)
        except Exception:  # it does not let itself be looked at
            return math.inf
    return found


def _parts(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return chain(value, value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    if isinstance(value, np.ndarray):
        return list(value.flat)
    return () if isinstance(value, type) else list(getattr(value, "__dict__", {}).values())
