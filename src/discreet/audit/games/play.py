"""Alice and Bob: what an attacker who sees one output can say about the input, beside what the guarantee allows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.loss import PrivacyLoss
from discreet.audit.claim import Claim
from discreet.audit.evidence.intervals import broken as broken_by
from discreet.audit.evidence.intervals import tradeoff_high
from discreet.audit.finding import CONSISTENT, VIOLATED, Chance, Tradeoff
from discreet.audit.games import allowed
from discreet.audit.games.bob import Chooser, Guesser, scored
from discreet.audit.games.played import UNCLAIMED, GameMeasure
from discreet.audit.games.played import Game as Game
from discreet.audit.outputs.sampling import Sampler, called
from discreet.audit.reports.report import shown
from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, count, exact
from discreet.privacy.guarantee import Approximate, Budget

Floats: TypeAlias = NDArray[np.float64]
Promise: TypeAlias = Budget | Approximate | PrivacyLoss | Claim | Real

_AT_ONCE, _SINGLY = 200_000, 20_000
"""Samples of each world, for mechanisms that draw many at once and for others."""
_LEVELS = 201
_ROUNDING = 1e-9


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
    bob = Guesser.learned(
        samplers[0].draw(n), samplers[1].draw(n), float(pi), 0.0 if claim is None else claim.delta
    )
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
            None if claim is None else allowed.success(claim, priors),
        ),
        GameMeasure(
            "advantage",
            x_said.estimate - other_said.estimate,
            x_said.low - other_said.high,
            x_said.high - other_said.low,
            None if claim is None else allowed.advantage(claim),
        ),
        GameMeasure(
            "odds",
            odds,
            before * p.low / q.high,
            before * p.high / q.low if q.low else math.inf,
            None if claim is None else allowed.odds(claim, priors[likely]),
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
        raise InvalidParameter(
            f"worlds must be at least two, not {len(inputs)}.", hint="attributes(m, [a, b, c])"
        )
    chances = (
        (Fraction(1, len(inputs)),) * len(inputs)
        if priors is None
        else tuple(exact("priors", p) for p in priors)
    )
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
    limit = None if claim is None else allowed.success(claim, chances)
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
            "priors must lie strictly between 0 and 1 and sum to 1.",
            hint="exact fractions do: Fraction(1, 3)",
        )
    if not 0 < error < 1:
        raise InvalidParameter(f"error must lie strictly between 0 and 1, not {error}.", hint="error=1e-3")
    return None if claimed is None else Claim.of(claimed)


def _half(samples: int | None, samplers: Sequence[Sampler]) -> int:
    if samples is None:
        return (_AT_ONCE if samplers[0].takes_n else _SINGLY) // 2
    return count("samples", samples, least=100) // 2


def _band(
    p: Floats,
    q: Floats,
    cuts: Floats,
    claim: Claim | None,
    error: float,
) -> Tradeoff:
    """Type I errors are guesses "x" under x′, type II errors guesses "x′" under x."""
    n = len(p)
    p_hits, q_hits = (n - np.searchsorted(np.sort(s), cuts) for s in (p, q))
    alpha = np.unique(np.concatenate([np.linspace(0, 1, _LEVELS), q_hits / n]))
    beta, high = tradeoff_high(alpha, p_hits, q_hits, n, error)
    claimed = np.zeros_like(alpha) if claim is None else allowed.errors(claim, alpha)
    return Tradeoff(alpha, beta, high, claimed)


def _notes(samplers: Sequence[Sampler]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note for s in samplers for note in s.notes))
