"""`refute`: searches for neighbours that break a claim, then tests the best of them; `assert_private`, for tests."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from discreet.accounting.loss import PrivacyLoss
from discreet.audit.claim import Claim
from discreet.audit.evidence.betting import Cuts
from discreet.audit.finding import Bits, Probe, Tried
from discreet.audit.neighbours import Inputs, Pair, described, read_inputs
from discreet.audit.outputs.encoding import Encoder
from discreet.audit.outputs.sampling import Sampler, called, check
from discreet.audit.outputs.shape import Batch
from discreet.audit.result import Audit
from discreet.audit.scores import learn
from discreet.audit.sequential import (
    check_limits,
    clearest_of,
    float_probes,
    limit_of,
    longest_call,
    parts_of,
    planned,
    refuse_untested,
    together,
)
from discreet.audit.sequential_test import FOREVER, SequentialTest, Until
from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import Approximate, Budget

Claimed: TypeAlias = Budget | Approximate | PrivacyLoss | Claim | Real

_CANDIDATES = 60  # pairs to begin with
_FILLED = 40  # where fewer are listed, others are made from them
_ENUMERATED = 3000  # pairs that are listed at all
_ROUNDS = ((20, 10, 3), (10, 4, 3), (6, 0, 3))  # kept, new ones made from them, how many times the samples
_MORE = ((20, 8, 4), (10, 2, 5), (5, 0, 3), (3, 0, 4))  # the same where all samples are used for the best bounds
_FIRST = (200, 2000)  # samples of each neighbour in the first round: a share of all, within these
_FIRST_OF_MORE = 10_000  # the most of these where all samples are used: near the truth, pairs differ by little
_SHARE = 400
_BEGUN = (25_000, 250_000)
"""Outputs of each neighbour with which a test begins in successive halving: of a mechanism called for each, and of one
with an `n`.
"""
_LEARNED = 60_000  # samples of each neighbour from which scores are learned
_SEEDS = 4  # candidates from which others are made
_KNOWN = 2  # patterns that are kept, whatever the samples say, while these say nothing for sure
_DOUBT = 0.5  # standard deviations by which counts are doubted when candidates are compared
_DOUBT_OF_MORE = 2.0  # the same for the best bounds, which doubt as much
_SHRUNK = 6.0  # hits that are added to the rarer side
_HOPE = 2.0  # standard deviations by which a candidate may be better than it looks
_SURE = 6.0  # standard deviations after which a candidate is tested at once
_LIKELY = 4.0  # standard deviations from which on the largest excess goes first
_SEARCHING = 0.35  # share of a limit on time
_LOOKED_AT, _LOOKING = (8, 0.05)  # pairs whose outputs tell whether there are real numbers, and the share of that

_BEGINNING = 0.25  # of the time, in which all begin
_CLEAR = 3.0  # standard deviations beyond the claim with which a test goes on at once
_HOPEFUL = (1.0, 1.5)  # the same with which the best one goes on when all have begun, and with which the others do


@dataclass(slots=True, eq=False)
class _Candidate:
    """A pair of neighbours, and what samples that were thrown away have shown.

    Attributes:
        pair: the neighbours.
        samplers: draw from them; made when they are first needed, since that runs the mechanism.
        excess: by how much the best event's ε, doubted, went beyond the claim.
        epsilon: the ε, doubted, at the claimed δ.
        high: the same event's excess with the doubt on the other side.
        sure: the largest excess of an event, in standard deviations.
        drawn: samples of both, in all rounds.
        last: the last outputs, to learn from.
        learned: how many of them of each neighbour its scores were learned from.
    """

    pair: Pair
    samplers: tuple[Sampler, Sampler] | None = None
    excess: float = -math.inf
    high: float = -math.inf
    epsilon: float = 0.0
    sure: float = 0.0
    drawn: int = 0
    last: tuple[Batch, Batch] | None = None
    learned: int = 0


def refute(
    mechanism: Callable[..., object],
    inputs: Inputs | Iterable[Pair],
    claimed: Claimed,
    *,
    samples: int | None = None,
    seconds: float | None = None,
    error: float = 1e-3,
    name: str | None = None,
    probes: bool = True,
    keep: int = 4,
    until: Until = "refuted",
    seed: int = 0,
    floats: Bits = "keep",
) -> Audit:
    """Search neighbours on which the mechanism breaks its claim, and test the best ones as `distinguish` does.

    Samples of the search are thrown away. Patterns and small worlds come first; the better half of them gets more
    samples, round by round, and new pairs are made from the best ones. Where outputs have real numbers the search and
    the first tests are of their law; the bits are tested after that.

    Guarantee:
        A mechanism that keeps its claim for all neighbours in `inputs` is called "violated" with probability at most
        `error`, and each lower bound is above the truth with probability at most `error`: the `keep` pairs that are
        tested, with fresh samples, share the error (three quarters of it for the law, where there are two tests).

    Args:
        mechanism: as for `distinguish`.
        inputs: `Vectors`, `Datasets`, `Numbers`, or pairs of neighbours.
        claimed: a `Budget`, a `PrivacyLoss` or an ε.
        samples: the most outputs of each neighbour of a pair; by default as many as fit into `seconds`.
        seconds: the most time, about; 20 by default, or no limit where `samples` is given. The search takes a third of
            it at most. Of the pairs that are tested the most promising ones go on, the best of them to the end.
        error: the chance of a false verdict.
        name: what the report calls it.
        probes: whether floating-point probes are run too, on the best pair, where inputs and outputs are floats.
        keep: how many pairs are tested.
        until: "refuted" stops when the claim is refuted; "end" goes on, for the best lower bounds.
        seed: of the choices of the search, not of the mechanism.
        floats: "ignore" tests the law only, as for `distinguish`.

    References:
        Ding, Wang, Wang, Zhang, Kifer 2018, https://doi.org/10.1145/3243734.3243818 (patterns, a search that throws its
        samples away); Bichsel, Steffen, Bogunovic, Vechev 2021, https://doi.org/10.1109/SP40001.2021.00081

    Raises:
        InvalidParameter: the mechanism cannot be called with one input, or an argument is impossible.
    """
    check_limits(samples=samples, seconds=seconds, error=error, until=until, floats=floats)
    if keep < 1:
        raise InvalidParameter(f"keep must be at least 1, not {keep}.", hint="keep=4")
    check(mechanism)
    claim, source, seconds = Claim.of(claimed), read_inputs(inputs), limit_of(samples, seconds)
    search = _Search(mechanism, source, claim, seconds, until, floats, np.random.default_rng(seed))
    tests: list[_Test] = []
    for (bits, part), most, end in planned(search.parts, samples or FOREVER, seconds):
        best = search.best_by_bits(keep, end) if tests else search.best(keep, most, end)
        tests += _tested(search, best, part * error, most, end, bits)
        if until == "refuted" and tests[-1][1].refuted:
            break
    name = name or called(mechanism, type(mechanism).__name__)
    audit = _audit(search, tests, error, name, floats, probes)
    return replace(audit, limit=seconds)


_Test: TypeAlias = "tuple[_Candidate, SequentialTest]"


def _tested(
    search: _Search, best: list[_Candidate], error: float, samples: int, end: float | None, bits: bool
) -> list[_Test]:
    """Test pairs until one is refuted, which is the last of the list; all of them for the best bounds.

    For a verdict they go through successive halving with equal parts of the error. For bounds, or a single pair, one
    follows another: the first has half of the error, and as many samples as the others together.
    """

    def test(i: int, error: float, samples: int, **options: Any) -> _Test:
        candidate = best[i]
        sequential_test = SequentialTest(
            *search.samplers(candidate),
            search.claim,
            error=error,
            samples=samples,
            began=candidate.last,
            bits=bits,
            **options,
        )
        return candidate, sequential_test

    if search.until == "refuted" and len(best) > 1:
        first = max(1, min(samples // len(best), search.begun))
        halved = [test(i, error / len(best), first, more=samples - first) for i in range(len(best))]
        successive_halving([sequential_test for _, sequential_test in halved], search.left(end))
        return sorted((t for t in halved if t[1].spent), key=lambda t: t[1].refuted)
    tests: list[_Test] = []
    for i in range(len(best)):
        share = 1.0 if i == 0 else 0.5 / (len(best) - 1)
        part = 1.0 if len(best) == 1 else min(share, 0.5)
        left, effort = search.left(end), 1 if i == 0 else 0
        seconds = None if left is None else left / (len(best) - i)
        tests.append(
            test(i, part * error, max(1, int(share * samples)), seconds=seconds, until=search.until, effort=effort)
        )
        tests[-1][1].run()
    return tests


class _Search:
    """The candidates and the rounds through which they go."""

    def __init__(
        self,
        mechanism: Callable[..., object],
        source: Inputs,
        claim: Claim,
        seconds: float | None,
        until: Until,
        floats: Bits,
        rng: np.random.Generator,
    ) -> None:
        self.mechanism, self.source, self.claim, self.until, self.rng = mechanism, source, claim, until, rng
        self.began, self.longest_call = time.monotonic(), longest_call(seconds)
        self.deadline = math.inf
        self.seen: set[str] = set()
        self.tried: list[_Candidate] = []
        pairs = list(itertools.islice(source.pairs(), _ENUMERATED))
        self.candidates = [c for pair in _spread(pairs, _CANDIDATES) if (c := self._candidate(pair)) is not None]
        if not self.candidates:
            raise InvalidParameter("inputs has no two different neighbours.", hint="Vectors(5), or [(x, x_neighbour)]")
        # Worlds that are larger than those that were listed: some steps away from them.
        for i in range(max(_FILLED - len(self.candidates), 0)):
            made = self._mutant(self.candidates[i % len(self.candidates)], steps=1 + i % 4)
            if made is not None:
                self.candidates.append(made)
        self.begun = _BEGUN[self.samplers(self.candidates[0])[0].takes_n]
        looked: list[Sampler] = []
        for c in self.candidates[:_LOOKED_AT]:  # some may have no real numbers among their outputs
            looked += self.samplers(c)
            self.parts = parts_of(looked, floats)
            if len(self.parts) > 1 or time.monotonic() > self.began + _LOOKING * (seconds or math.inf):
                break
        self._bits = self.parts[0][0]

    def left(self, end: float | None) -> float | None:
        """Return the seconds until a limit that counts from the beginning of the search; never none at all."""
        return None if end is None else max(self.began + end - time.monotonic(), 0.05)

    def samplers(self, c: _Candidate) -> tuple[Sampler, Sampler]:
        """Return what draws from the two neighbours."""
        if c.samplers is None:
            one, two = (Sampler(self.mechanism, x, seconds_each=self.longest_call) for x in c.pair)
            c.samplers = one, two
        return c.samplers

    def best(self, keep: int, samples: int, end: float | None) -> list[_Candidate]:
        """Return the candidates to test, the most promising first.

        Args:
            keep: how many there are at most.
            samples: of each neighbour, for their tests.
            end: the seconds, from the beginning of the search, after which these tests end.
        """
        if len(self.candidates) == 1:  # there is nothing to choose
            return self.candidates
        self._take(end)
        most = _FIRST_OF_MORE if self.until == "end" else _FIRST[1]
        samples = min(samples, 4 * self.begun)
        size = int(np.clip(samples // _SHARE, _FIRST[0], most))
        best = self._round(self.candidates, size)
        for kept, new, times in _MORE if self.until == "end" else _ROUNDS:
            if self._found(best) or time.monotonic() > self.deadline:
                break
            size = min(size * times, max(samples // 8, size))
            made = [m for i in range(new) if (m := self._mutant(best[i % min(_SEEDS, len(best))])) is not None]
            best = self._round([*best[: max(kept, keep)], *made], size)
        else:
            if self.until == "end":
                best.sort(key=lambda c: -c.excess)  # the last round had samples enough
        return best[:keep]

    def best_by_bits(self, keep: int, end: float | None) -> list[_Candidate]:
        """Return the candidates whose last samples, looked at once more with all bits, are the most promising."""
        self._bits = True
        self._take(end)
        return self._round(self.tried, None)[:keep] if self.tried else self.candidates

    def _take(self, end: float | None) -> None:
        """Set the deadline of the looks at candidates, of which tests follow until `end`."""
        left = self.left(end)
        self.deadline = math.inf if left is None else time.monotonic() + _SEARCHING * left

    def _found(self, best: list[_Candidate]) -> bool:
        return self.until == "refuted" and best[0].sure > _SURE

    def _round(self, candidates: list[_Candidate], size: int | None) -> list[_Candidate]:
        """Look at fresh samples of all, or at their last ones for None; the most promising come first."""
        fresh = []
        for c in candidates:
            if size is not None:
                self._draw(c, size)
            self._look(c)
            fresh.append(c)
            if self._found([c]) or time.monotonic() > self.deadline:
                break
        return self._ranked(fresh)

    def _ranked(self, candidates: list[_Candidate]) -> list[_Candidate]:
        """Return the most promising first; where noise alone may have put them in order, known patterns come before
        them.

        While nothing is sure, two come by their excess in standard deviations, which is what a test will need, for each
        that comes by its ε: of that the largest is most often that of a rare event with a few lucky hits. The first two
        patterns are always among those that are kept then.
        """
        found = sorted(candidates, key=lambda c: -c.excess)
        best = found[0]
        if self.until == "refuted" and best.sure > _LIKELY:
            return found
        unsure = best.sure <= _LIKELY
        known = [c for c in self.candidates[:_KNOWN] if unsure and any(c is looked_at for looked_at in found)]
        turns: Iterable[tuple[_Candidate | None, ...]]
        if self.until == "refuted":
            sure = sorted(candidates, key=lambda c: -c.sure)
            turns = itertools.zip_longest(sure[::2], sure[1::2], found)
        else:  # the earlier ones of those that look alike take turns with the largest bounds
            place = {id(c): i for i, c in enumerate(self.candidates)}
            alike = [c for c in found if c.high >= best.excess]
            alike.sort(key=lambda c: place.get(id(c), len(place)))
            turns = itertools.zip_longest(alike, found)
        ranked = itertools.chain(known, *turns)
        return list({id(c): c for c in ranked if c is not None}.values())

    def _draw(self, c: _Candidate, size: int) -> None:
        c.learned = min(size, max(size // 2, _FIRST[0]), _LEARNED)
        p, q = (sampler.draw(c.learned + size) for sampler in self.samplers(c))
        c.drawn += 2 * len(p)
        c.last = p, q
        if not any(c is other for other in self.tried):
            self.tried.append(c)

    def _look(self, c: _Candidate) -> None:
        """Learn from some of the last samples, and count on the others."""
        assert c.last is not None
        doubt = _DOUBT_OF_MORE if self.until == "end" else _DOUBT
        (p, q), learned = c.last, c.learned
        encoder = Encoder.learned(p[:learned], q[:learned], bits=self._bits)
        p_rows, q_rows = encoder.encode(p), encoder.encode(q)
        c.excess, c.high, c.epsilon, c.sure = -math.inf, -math.inf, 0.0, -math.inf
        p_held, q_held = p_rows[learned:], q_rows[learned:]
        for score in learn(p_rows[:learned], q_rows[:learned], effort=0):
            p_scores, q_scores = score(p_held), score(q_held)
            cuts = Cuts.through(p_scores, q_scores)
            cuts.add(cuts.bins(p_scores), cuts.bins(q_scores))
            for point, (epsilon, delta) in enumerate(self.claim.points):
                low, high, sure = _shown(cuts, delta, epsilon, doubt)
                if low - epsilon > c.excess:
                    c.excess, c.high = low - epsilon, high - epsilon
                c.sure = max(c.sure, sure)
                if point == 0:
                    c.epsilon = max(c.epsilon, low)

    def _candidate(self, pair: Pair) -> _Candidate | None:
        key = described(pair)
        if key in self.seen:
            return None
        self.seen.add(key)
        return _Candidate(pair)

    def _mutant(self, parent: _Candidate, steps: int = 1) -> _Candidate | None:
        """Return a pair that was not looked at yet; None where there seems to be none."""
        for _ in range(8):
            pair = parent.pair
            for _ in range(steps):
                pair = self.source.mutate(pair, self.rng)
            made = self._candidate(pair)
            if made is not None:
                return made
        return None


def _shown(cuts: Cuts, delta: float, epsilon: float, doubt: float) -> tuple[float, float, float]:
    """Return what the best event shows: an ε at δ that is shrunk, one that is hopeful, and its excess over ε in
    deviations.

    Hits are added to the rarer side, so that the best of many events in the tails is not the one with the luckiest few.
    """
    likely = np.concatenate([cuts.p, cuts.n - cuts.q]).astype(np.float64)
    rare = np.concatenate([cuts.q, cuts.n - cuts.p]).astype(np.float64)
    above = likely - delta * cuts.n
    low = np.log(np.maximum(above - doubt * np.sqrt(likely), 1e-3) / (rare + doubt * np.sqrt(rare) + _SHRUNK))
    best = int(np.argmax(low))
    up, down = above[best] + _HOPE * math.sqrt(likely[best]), rare[best] - _HOPE * math.sqrt(rare[best])
    high = math.log(max(up, 1e-3) / max(down, 0.5))
    p, q, grown = (likely + 0.5) / (cuts.n + 1), (rare + 0.5) / (cuts.n + 1), math.exp(min(epsilon, 300.0))
    sure = (p - grown * q - delta) / np.sqrt(p * (1 - p) + grown**2 * q * (1 - q)) * math.sqrt(cuts.n)
    return float(low[best]), high, float(sure.max())


def _spread(pairs: list[Pair], most: int) -> list[Pair]:
    """At most so many pairs: the first ones, and others from all over the rest."""
    if len(pairs) <= most:
        return pairs
    first = most // 2
    rest = pairs[first:]
    return pairs[:first] + [rest[i * len(rest) // (most - first)] for i in range(most - first)]


def _audit(search: _Search, tests: list[_Test], error: float, name: str, floats: Bits, probes: bool) -> Audit:
    """Return one audit of all that was tested, which shows the clearest test."""
    sequential_tests = [sequential_test for _, sequential_test in tests]
    sequential_test = clearest_of(sequential_tests)
    candidate = next(c for c, d in tests if d is sequential_test)
    samplers = [s for c, _ in tests for s in search.samplers(c)]
    refuse_untested(name, samplers, sequential_tests)
    notes = dict.fromkeys(note for s in samplers for note in s.notes)
    found: tuple[Probe, ...] = ()
    if probes and floats == "keep":
        source = search.samplers(candidate)[0]
        found = float_probes(search.mechanism, candidate.pair, search.claim, sequential_test, source)
    looked = sorted(search.tried, key=lambda c: -c.excess)
    tried = tuple(Tried(described(c.pair), c.epsilon, c.drawn) for c in looked)
    audit = together(sequential_test.audit(name, *candidate.pair), sequential_test, sequential_tests, error, floats)
    return replace(
        audit,
        samples=audit.samples + sum(c.drawn for c in search.tried),
        seconds=time.monotonic() - search.began,
        tried=tried or audit.tried,
        probes=found,
        notes=tuple(notes),
    )


def successive_halving(sequential_tests: Sequence[SequentialTest], seconds: float | None = None) -> None:
    """Run tests until one refutes its claim, none is promising any more, or the time is over.

    With a limit on time a quarter of it is for beginning. Each test that goes on has half of what is left, and the best
    one has the rest, promising or not.

    A search compares pairs by few samples of each. Where an excess is small it cannot tell good pairs from bad ones,
    and one long test would be spent on the wrong pair too often.

    Guarantee:
        Which test goes on is chosen from what all of them have seen, never from what is still to come; so each wealth
        stays a nonnegative supermartingale, and each test is wrong with its own error at most
        (docs/proofs/auditing.md, "Several tests").
    """
    _successive_halving(sequential_tests, math.inf if seconds is None else time.monotonic() + seconds)
    for sequential_test in sequential_tests:
        sequential_test.forget()


def _successive_halving(sequential_tests: Sequence[SequentialTest], end: float) -> None:
    for place, sequential_test in enumerate(sequential_tests):
        sequential_test.give(_left(end) * _BEGINNING / (len(sequential_tests) - place))
        if sequential_test.begin().refuted:
            return
        if sequential_test.promise >= _CLEAR:
            sequential_test.give(_left(end) / 2)
            if sequential_test.run().refuted:
                return
    ranked = sorted(sequential_tests, key=lambda sequential_test: -sequential_test.promise)
    for place, sequential_test in enumerate(ranked):
        sequential_test.give(_left(end) / 2)
        if sequential_test.run(_HOPEFUL[min(place, 1)]).refuted:
            return
    if end < math.inf:
        best = max(ranked, key=lambda sequential_test: sequential_test.promise)
        best.give(_left(end))
        best.run(-math.inf, patient=True)


def _left(end: float) -> float:
    return max(end - time.monotonic(), 0.0)


def assert_private(
    mechanism: Callable[..., object],
    x: object,
    x_neighbour: object,
    *,
    epsilon: Real,
    delta: Real = 0,
    samples: int | None = None,
    seconds: float | None = None,
    error: float = 1e-6,
    floats: Bits = "keep",
) -> Audit:
    """Fail a test unless these two neighbours are as hard to tell apart as (ε, δ) promises.

    It works in any test runner, and needs no plug-in:

    >>> import numpy as np
    >>> def noisy_count(rows, n):
    ...     return len(rows) + np.random.default_rng().geometric(0.6, n) - np.random.default_rng().geometric(0.6, n)
    >>> _ = assert_private(noisy_count, [1, 2], [1, 2, 3], epsilon=1, samples=20_000)

    Args:
        mechanism: any callable of one input; one with a keyword `n` returns n outputs at once, which is faster.
        x: an input.
        x_neighbour: a neighbour of it; both orders are tested.
        epsilon: the ε that is claimed.
        delta: the δ that is claimed.
        samples: the most outputs to draw for each neighbour: what makes a test take the same effort everywhere.
        seconds: the most time to take; 20 by default, or no limit where `samples` is given.
        error: the chance that a mechanism which keeps the claim fails; small, since tests run often.
        floats: "ignore" tests the law of real numbers only, on a grid that hides their bits.

    Guarantee:
        A mechanism that keeps the claim fails with probability at most `error`. One that passes was not refuted;
        that is not a proof.

    Returns:
        The audit, for a test that wants to look at its power (`power`).

    Raises:
        AssertionError: the claim is violated; the message has the event and its two chances.
        InvalidParameter: an argument that cannot be used.
    """
    from discreet.audit.sequential import distinguish

    audit = distinguish(
        mechanism, x, x_neighbour, Budget(epsilon, delta), samples=samples, seconds=seconds, error=error, floats=floats
    )
    if audit.violated:
        raise AssertionError(str(audit))
    return audit
