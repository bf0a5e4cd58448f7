"""Alice and Bob: what an attacker who sees one output can say about the input, beside what the guarantee allows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.loss import PrivacyLoss
from discreet.audit import played
from discreet.audit.claim import Claim
from discreet.audit.evidence.intervals import CutEvent, threshold, tradeoff_high
from discreet.audit.evidence.intervals import broken as broken_by
from discreet.audit.finding import CONSISTENT, VIOLATED, Chance, Tradeoff
from discreet.audit.outputs.encoding import Encoded, Encoder
from discreet.audit.outputs.sampling import Sampler, called
from discreet.audit.outputs.shape import Batch
from discreet.audit.places import Floats
from discreet.audit.played import UNCLAIMED, GameMeasure
from discreet.audit.played import Game as Game
from discreet.audit.reports import shown
from discreet.audit.scores import Score, learn
from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, count, exact
from discreet.privacy.guarantee import Approximate, Budget

Promise: TypeAlias = Budget | Approximate | PrivacyLoss | Claim | Real

_AT_ONCE, _SINGLY = 200_000, 20_000
"""Samples of each world, for mechanisms that draw many at once and for others."""
_LEVELS = 201
_ROUNDING = 1e-9

_CUTS = 1000
_BAND = 24
_BINS = 64
_DOUBT = 0.01  # of the intervals by which the clearest outputs are compared; it is no part of any guarantee
_CLEARER = 0.05  # by how much a later score, which is harder to put into words, has to be clearer
_PRIOR = 0.5  # counts that each bin has beforehand


def game(
    mechanism: Callable[..., object],
    x: object,
    x_neighbour: object,
    *,
    claimed: Promise | None = None,
    prior: Real = Fraction(1, 2),
    samples: int | None = None,
    error: float = 1e-3,
    seed: int | None = None,
    name: str | None = None,
) -> Game:
    """Membership inference: Alice puts in one of two neighbours, Bob sees the output and says which.

    Guarantee:
        As `Game` states. Bob's test is learned on one half of the samples and judged on the other, fresh one.

    Args:
        mechanism: a function of one input; with a keyword `n` it returns n outputs at once.
        x: the one neighbour.
        x_neighbour: the other one.
        claimed: the guarantee that the result is held against.
        prior: the chance that Alice puts in `x`.
        samples: of each neighbour; by default 200,000 of a mechanism that draws many at once, else 20,000.
        error: the chance of a false accusation, and of any wrong interval.
        seed: of Alice's coins.
        name: what the report calls it.

    Raises:
        InvalidParameter: a prior outside (0, 1), fewer than 100 samples, or a mechanism that cannot be called.

    References: Yeom et al. 2018, Theorem 1, https://arxiv.org/abs/1709.01604; docs/proofs/games.md
    """
    started = time.perf_counter()
    pi = exact("prior", prior)
    priors = (pi, 1 - pi)
    claim = _door(claimed, priors, error)
    samplers = (Sampler(mechanism, x), Sampler(mechanism, x_neighbour))
    n = _half(samples, samplers)
    bob = Guesser.learned(samplers[0].draw(n), samplers[1].draw(n), float(pi), 0.0 if claim is None else claim.delta)
    fresh = [bob.encoder.encode(s.draw(n)) for s in samplers]
    scores = [scored(bob.score, f) for f in fresh]
    each = error / 4  # success, the two rates, the clearest output, the band

    first = int(np.random.default_rng(seed).binomial(n, float(pi)))
    won = (int(np.sum(scores[0][:first] >= bob.cut)), int(np.sum(scores[1][: n - first] < bob.cut)))
    success = Chance.of(sum(won), n, each)
    x_said, other_said = (Chance.of(int(np.sum(s >= bob.cut)), n, each / 2) for s in scores)
    clear = [scored(bob.clear_score, f) for f in fresh]
    likely, rare = (0, 1) if bob.clear.inside else (1, 0)
    p, q = (Chance.of(bob.clear.hits(clear[i]), n, each / 2) for i in (likely, rare))
    before = float(priors[likely] / priors[rare])
    odds = before * p.estimate / q.estimate if q.hits else math.inf if p.hits else before
    rows = (
        GameMeasure(
            "success",
            success.estimate,
            success.low,
            success.high,
            None if claim is None else played.success(claim, priors),
        ),
        GameMeasure(
            "advantage",
            x_said.estimate - other_said.estimate,
            x_said.low - other_said.high,
            x_said.high - other_said.low,
            None if claim is None else played.advantage(claim),
        ),
        GameMeasure(
            "odds",
            odds,
            before * p.low / q.high,
            before * p.high / q.low if q.low else math.inf,
            None if claim is None else played.odds(claim, priors[likely]),
        ),
    )
    band = _band(scores[0], scores[1], bob.cuts, claim, each)
    broken = claim is not None and (
        any(row.violated for row in rows)
        or broken_by(claim.points, p.low - _ROUNDING, q.high)
        or bool(np.any(band.beta_high + _ROUNDING < band.claimed))
    )
    hit = np.concatenate([bob.clear.happens(s) for s in clear])
    both = type(fresh[0]).joined(fresh)
    worlds = (shown(x), shown(x_neighbour))
    return Game(
        name=name or called(mechanism, "mechanism"),
        kind="membership",
        claim=claim,
        verdict=UNCLAIMED if claim is None else VIOLATED if broken else CONSISTENT,
        error=error,
        worlds=worlds,
        priors=priors,
        success=success,
        rows=rows,
        clearest=f"{bob.clear_score.words(both, hit)}, which speaks for {worlds[likely]}",
        tradeoff=band,
        by_world=(Chance.of(won[0], first, each), Chance.of(won[1], n - first, each)),
        samples=4 * n,
        seconds=time.perf_counter() - started,
        notes=_notes(samplers),
    )


def attributes(
    mechanism: Callable[..., object],
    worlds: Sequence[object],
    *,
    claimed: Promise | None = None,
    priors: Sequence[Real] | None = None,
    samples: int | None = None,
    error: float = 1e-3,
    seed: int | None = None,
    name: str | None = None,
) -> Game:
    """Attribute inference: Alice puts in one of several worlds that differ in one record, Bob says which.

    Guarantee:
        As `Game` states, where any two of the worlds are neighbours in the sense of the claim. Bob's choice of the
        likeliest world is learned on one half of the samples and judged on the other, fresh one.

    Args:
        mechanism: a function of one input; with a keyword `n` it returns n outputs at once.
        worlds: two or more inputs that pairwise differ in one record, as in its secret attribute.
        claimed: the guarantee that the result is held against.
        priors: the chance of each world; equal by default.
        samples: of each world; by default 200,000 of a mechanism that draws many at once, else 20,000.
        error: the chance of a false accusation.
        seed: of Alice's choices.
        name: what the report calls it.

    Raises:
        InvalidParameter: fewer than two worlds, priors that do not sum to 1, or as `game`.

    References: docs/proofs/games.md, Theorem 1
    """
    started = time.perf_counter()
    inputs = list(worlds)
    if len(inputs) < 2:
        raise InvalidParameter(f"worlds must be at least two, not {len(inputs)}.", hint="attributes(m, [a, b, c])")
    chances = (Fraction(1, len(inputs)),) * len(inputs) if priors is None else tuple(exact("priors", p) for p in priors)
    if len(chances) != len(inputs):
        raise InvalidParameter(f"there are {len(inputs)} worlds and {len(chances)} priors.")
    claim = _door(claimed, chances, error)
    samplers = tuple(Sampler(mechanism, x) for x in inputs)
    n = _half(samples, samplers)
    bob = Chooser.learned([s.draw(n) for s in samplers], [float(p) for p in chances])
    games = np.random.default_rng(seed).multinomial(n, [float(p) for p in chances])
    won = [
        int(np.sum(bob.guesses(s.draw(int(k))) == i)) if k else 0
        for i, (s, k) in enumerate(zip(samplers, games, strict=True))
    ]
    success = Chance.of(sum(won), n, error)
    limit = None if claim is None else played.success(claim, chances)
    row = GameMeasure("success", success.estimate, success.low, success.high, limit)
    return Game(
        name=name or called(mechanism, "mechanism"),
        kind="attribute",
        claim=claim,
        verdict=UNCLAIMED if claim is None else VIOLATED if row.violated else CONSISTENT,
        error=error,
        worlds=tuple(shown(x) for x in inputs),
        priors=chances,
        success=success,
        rows=(row,),
        clearest="",
        tradeoff=None,
        by_world=tuple(Chance.of(w, int(k), error) for w, k in zip(won, games, strict=True)),
        samples=n * len(inputs) + n,
        seconds=time.perf_counter() - started,
        notes=_notes(samplers),
    )


def _door(claimed: Promise | None, priors: Sequence[Fraction], error: float) -> Claim | None:
    if not all(0 < p < 1 for p in priors) or sum(priors) != 1:
        raise InvalidParameter(
            "priors must lie strictly between 0 and 1 and sum to 1.", hint="exact fractions do: Fraction(1, 3)"
        )
    if not 0 < error < 1:
        raise InvalidParameter(f"error must lie strictly between 0 and 1, not {error}.", hint="error=1e-3")
    return None if claimed is None else Claim.of(claimed)


def _half(samples: int | None, samplers: Sequence[Sampler]) -> int:
    if samples is None:
        return (_AT_ONCE if samplers[0].takes_n else _SINGLY) // 2
    return count("samples", samples, least=100) // 2


def _band(p: Floats, q: Floats, cuts: Floats, claim: Claim | None, error: float) -> Tradeoff:
    """Type I errors are guesses "x" under x′, type II errors guesses "x′" under x."""
    n = len(p)
    p_hits, q_hits = (n - np.searchsorted(np.sort(s), cuts) for s in (p, q))
    alpha = np.unique(np.concatenate([np.linspace(0, 1, _LEVELS), q_hits / n]))
    beta, high = tradeoff_high(alpha, p_hits, q_hits, n, error)
    claimed = np.zeros_like(alpha) if claim is None else played.errors(claim, alpha)
    return Tradeoff(alpha, beta, high, claimed)


def _notes(samplers: Sequence[Sampler]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for s in samplers for note in s.notes))


@dataclass(frozen=True, slots=True)
class Guesser:
    """A test between two neighbours, fixed before it is judged.

    Attributes:
        encoder: reads outputs.
        score: the score by which Bob guesses.
        cut: Bob guesses the first neighbour where the score is at least that.
        cuts: rising thresholds of the same score, for the trade-off of errors.
        clear_score: the score of the clearest output.
        clear: the clearest output.
    """

    encoder: Encoder
    score: Score
    cut: float
    cuts: Floats
    clear_score: Score
    clear: CutEvent

    @classmethod
    def learned(cls, p: Batch, q: Batch, prior: float, delta: float) -> Guesser:
        """Learned on the first halves of both samples, chosen among on the second halves."""
        encoder = Encoder.learned(p, q)
        first, second = encoder.encode(p), encoder.encode(q)
        half_p, half_q = len(first) // 2, len(second) // 2
        scores = learn(first[:half_p], second[:half_q]) or [_Nothing()]
        best, chosen, cut, clearest, clear = (
            -math.inf,
            scores[0],
            -math.inf,
            scores[0],
            CutEvent(0.0, True, True, -1.0),
        )
        for score in scores:
            s, t = scored(score, first[half_p:]), scored(score, second[half_q:])
            reached, at = _best_cut(s, t, prior)
            if reached > best:
                best, chosen, cut = reached, score, at
            event = threshold(s, t, delta, _DOUBT)
            if event.ratio > clear.ratio + _CLEARER * abs(clear.ratio):
                clearest, clear = score, event
        cuts = _spread(scored(chosen, first[half_p:]), scored(chosen, second[half_q:]))
        return cls(encoder, chosen, cut, cuts, clearest, clear)


@dataclass(frozen=True, slots=True)
class Chooser:
    """Bob's choice among several worlds: the one of the largest posterior, learned world by world against the rest.

    Attributes:
        encoder: reads outputs.
        weights: for each world a score, the edges of its bins, and the log of posterior odds in each bin.
    """

    encoder: Encoder
    weights: tuple[tuple[Score, Floats, Floats], ...]

    @classmethod
    def learned(cls, batches: Sequence[Batch], priors: Sequence[float]) -> Chooser:
        """Learned on the first halves of the samples; scores are chosen, and become odds, on the second halves."""
        encoder = Encoder.learned(*batches)
        worlds = [encoder.encode(b) for b in batches]
        heads, tails = [w[: len(w) // 2] for w in worlds], [w[len(w) // 2 :] for w in worlds]
        weights = []
        for i, prior in enumerate(priors):
            shares = [p / (1 - prior) if j != i else 0.0 for j, p in enumerate(priors)]
            rest, rest_held = _mixed(heads, shares), _mixed(tails, shares)
            best: tuple[float, tuple[Score, Floats, Floats]] | None = None
            for score in learn(heads[i], rest) or [_Nothing()]:
                s, t = scored(score, tails[i]), scored(score, rest_held)
                edges = _edges(s, t)
                told = _log_odds(s, t, edges, prior)
                loss = prior * np.mean(np.logaddexp(0, -told[np.searchsorted(edges, s, "right")])) + (
                    1 - prior
                ) * np.mean(np.logaddexp(0, told[np.searchsorted(edges, t, "right")]))
                if best is None or loss < best[0]:
                    best = float(loss), (score, edges, told)
            assert best is not None
            weights.append(best[1])
        return cls(encoder, tuple(weights))

    def guesses(self, batch: Batch) -> NDArray[np.intp]:
        """Return the world that each output speaks for."""
        outputs = self.encoder.encode(batch)
        odds = [told[np.searchsorted(edges, scored(score, outputs), "right")] for score, edges, told in self.weights]
        return np.asarray(np.argmax(np.stack(odds), axis=0), dtype=np.intp)


def scored(score: Score, outputs: Encoded) -> Floats:
    """Return the scores, where one that is NaN says nothing."""
    return np.nan_to_num(np.asarray(score(outputs), dtype=np.float64), nan=0.0, posinf=1e300, neginf=-1e300)


class _Nothing:
    """The score of outputs that have nothing in them."""

    @property
    def name(self) -> str:
        return "nothing"

    @property
    def needs(self) -> frozenset[int]:
        return frozenset()

    def __call__(self, outputs: Encoded) -> Floats:
        return np.zeros(len(outputs))

    def words(self, outputs: Encoded, hit: NDArray[np.bool_]) -> str:
        return "any output"


def _best_cut(p: Floats, q: Floats, prior: float) -> tuple[float, float]:
    """Return the largest success of "the first neighbour iff the score is at least the cut", and that cut."""
    cuts = np.unique(np.concatenate([p, q]))
    if len(cuts) > _CUTS:
        cuts = np.unique(np.quantile(cuts, np.linspace(0, 1, _CUTS), method="nearest"))
    cuts = np.append(cuts, np.inf)
    said = 1 - np.searchsorted(np.sort(p), cuts) / max(1, len(p))
    silent = np.searchsorted(np.sort(q), cuts) / max(1, len(q))
    reached = prior * said + (1 - prior) * silent
    at = int(np.argmax(reached))
    return float(reached[at]), float(cuts[at])


def _spread(p: Floats, q: Floats) -> Floats:
    """Thresholds for the band: all scores when they are few, else quantiles that are denser in the tails."""
    pooled = np.concatenate([p, q])
    values = np.unique(pooled)
    if len(values) <= _BAND:
        return values
    tail = np.geomspace(0.001, 0.04, _BAND // 4)
    levels = np.concatenate([tail, np.linspace(0.06, 0.94, _BAND - 2 * len(tail)), 1 - tail])
    return np.unique(np.quantile(pooled, levels, method="nearest"))


def _mixed(worlds: Sequence[Encoded], shares: Sequence[float]) -> Encoded:
    """Return outputs of several worlds in these shares, as many as one world has."""
    n = max(len(w) for w in worlds)
    return Encoded.joined([w[: math.ceil(s * n)] for w, s in zip(worlds, shares, strict=True) if s > 0])


def _edges(p: Floats, q: Floats) -> Floats:
    values = np.unique(np.concatenate([p, q]))
    if len(values) <= _BINS:
        return values[1:]
    return np.unique(np.quantile(np.concatenate([p, q]), np.linspace(0, 1, _BINS + 1)[1:-1], method="nearest"))


def _log_odds(p: Floats, q: Floats, edges: Floats, prior: float) -> Floats:
    """Log posterior odds in each bin, from counts."""
    bins = len(edges) + 1
    hits = np.bincount(np.searchsorted(edges, p, "right"), minlength=bins) + _PRIOR
    misses = np.bincount(np.searchsorted(edges, q, "right"), minlength=bins) + _PRIOR
    ratio = np.log(hits / hits.sum()) - np.log(misses / misses.sum())
    return np.asarray(ratio + math.log(prior / (1 - prior)), dtype=np.float64)
