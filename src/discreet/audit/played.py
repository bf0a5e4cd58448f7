"""What Bob reached, as a value, beside what the guarantee allows one who guesses. Proofs: docs/proofs/games.md."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.audit.claim import Claim
from discreet.audit.finding import VIOLATED, Chance, Tradeoff
from discreet.audit.places import Floats
from discreet.audit.reports import chance_words, document, facts, fields_of, head, notes, number, picture, text
from discreet.errors import InvalidParameter
from discreet.privacy.guarantee import decimal
from discreet.table import render_html, visible

UNCLAIMED = "unclaimed"
_ROUNDING = 1e-9

_CAPTION = (
    "The claim forbids the red region. The blue line is Bob's test on fresh games, with its band; where the upper edge "
    "of the band enters the red region, the claim is broken. The dashed line is guessing."
)
_ERRORS = "type I error: the second called the first", "type II error: the first called the second"


_SLACK = 1e-12
"""Far above the rounding errors of a few terms below 1."""


@dataclass(frozen=True, slots=True)
class GameMeasure:
    """One thing that Bob reached.

    Attributes:
        what: "success", "advantage", "odds", …
        found: as it was seen.
        low, high: the ends of its interval; all intervals of a game hold at once with chance 1 − error.
        allowed: the most that the guarantee allows; None where it says nothing, or nothing was claimed.
    """

    what: str
    found: float
    low: float
    high: float
    allowed: float | None

    @property
    def violated(self) -> bool:
        """Whether it is surely more than the guarantee allows."""
        return self.allowed is not None and self.low > self.allowed + _ROUNDING


@dataclass(frozen=True, slots=True)
class Game:
    """What Bob reached in a game of guessing the input from the output.

    Guarantee:
        With probability at least 1 − error all intervals and the band hold at once; so a mechanism that keeps its claim
        is called "violated" with probability at most `error`.

    Attributes:
        name: what was attacked.
        kind: "membership" (two neighbours) or "attribute" (several worlds).
        claim: what was claimed, if anything.
        verdict: "violated", "consistent" or "unclaimed".
        error: the stated error probability.
        worlds: what Alice may put in, as text.
        priors: the chances with which she does.
        success: how many of the games Bob won, on fresh samples.
        rows: what he reached, beside what is allowed; the first is his success.
        clearest: the output in words that told Bob most, where there are two worlds.
        tradeoff: his errors beside those that the claim allows, where there are two worlds.
        by_world: how many games he won in each world.
        samples: samples drawn, of all worlds together.
        seconds: wall-clock seconds.
        notes: what a reader should know about the mechanism's runs.
    """

    name: str
    kind: str
    claim: Claim | None
    verdict: str
    error: float
    worlds: tuple[str, ...]
    priors: tuple[Fraction, ...]
    success: Chance
    rows: tuple[GameMeasure, ...]
    clearest: str
    tradeoff: Tradeoff | None
    by_world: tuple[Chance, ...]
    samples: int
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def violated(self) -> bool:
        """Whether the claim was refuted."""
        return self.verdict == VIOLATED

    @property
    def advantage(self) -> GameMeasure | None:
        """By how much Bob says "the first" more often when it is; None for more than two worlds."""
        return next((row for row in self.rows if row.what == "advantage"), None)

    @property
    def odds(self) -> GameMeasure | None:
        """The odds after the clearest output for the world it speaks for; None for more than two worlds."""
        return next((row for row in self.rows if row.what == "odds"), None)

    def __str__(self) -> str:
        first, s = self.rows[0], self.success
        limit = "" if first.allowed is None else f"; the guarantee allows at most {_percent(first.allowed)}"
        span = f"{100 * first.low:.1f}–{100 * first.high:.1f}"
        lines = [
            f"{self.name}: {self.verdict.upper()}",
            "",
            f"Alice puts in {self._choices()}. Bob sees the output and guesses which.",
            f"Bob is right in {_percent(first.found)} ({span}) of {s.samples:,} games{limit}.",
            f"Without the output he would be right in {_percent(float(max(self.priors)))}.",
        ]
        for row in self.rows[1:]:
            what = f"Odds after the clearest output, {self.clearest}" if row.what == "odds" else row.what.capitalize()
            limit = "" if row.allowed is None else f"; allowed: at most {row.allowed:.4g}"
            lines.append(f"{what}: {row.found:.4g} ({row.low:.4g} to {row.high:.4g}){limit}.")
        if self.claim is not None:
            lines.append(f"The claim is {self.claim.text}; false-positive rate: at most {100 * self.error:.4g} %.")
        lines += [f"Note: {note}" for note in self.notes]
        return "\n".join(visible(line) for line in lines)

    def to_html(self) -> str:
        """Return the game as one HTML page without outside parts."""
        return document(self.name, _body(self))

    def _choices(self) -> str:
        named = [f"{world} with chance {decimal(prior)}" for world, prior in zip(self.worlds, self.priors, strict=True)]
        return ", ".join(named[:-1]) + f" or {named[-1]}"

    def to_json(self) -> dict[str, Any]:
        """Return the game in JSON's own types."""
        return fields_of(self)


def _percent(x: float) -> str:
    return f"{100 * x:.1f} %"


def _body(game: Game) -> str:
    """Return a page's verdict, what Bob reached beside what is allowed, his errors, each world, notes."""
    reached = render_html(["Bob's …", "found", "at least", "at most", "allowed"], [_measure(row) for row in game.rows])
    parts = [head(game.name, game.verdict), facts(_rows(game)), "<h2>What Bob reached</h2>", reached]
    if game.clearest:
        parts.append(f"<p>The clearest output: {text(game.clearest)}.</p>")
    if game.tradeoff is not None:
        parts += ["<h2>Bob's errors</h2>", picture(game.tradeoff, _CAPTION, _ERRORS)]
    worlds: list[list[str | None]] = [
        [world, decimal(prior), chance_words(won)]
        for world, prior, won in zip(game.worlds, game.priors, game.by_world, strict=True)
    ]
    table = render_html(["what Alice puts in", "with chance", "Bob is right"], worlds, align=["left"] * 3)
    return "".join([*parts, "<h2>Worlds</h2>", table, notes(game.notes)])


def _rows(game: Game) -> list[tuple[str, str]]:
    claimed = "nothing" if game.claim is None else game.claim.text
    return [
        ("game", "which of two neighbours?" if game.kind == "membership" else "which of several worlds?"),
        ("claimed", claimed),
        ("Bob", f"is right in {chance_words(game.success)}"),
        ("without the output", f"he would be right with chance {number(float(max(game.priors)))}"),
        ("error", f"false-positive rate: at most {number(100 * game.error)} %"),
        ("work", f"{game.samples:,} samples in {game.seconds:.3g} s"),
    ]


def _measure(row: GameMeasure) -> list[str | None]:
    return [
        row.what,
        number(row.found),
        number(row.low),
        number(row.high),
        "–" if row.allowed is None else number(row.allowed),
    ]


def success(claim: Claim, priors: Sequence[Fraction]) -> float:
    """Return the largest chance to guess which of several worlds is real, of which any two are neighbours.

    Guarantee:
        For (ε, δ)-DP and priors p₁ ≥ p₂ ≥ …: δ + (1 − δ)·max_t (p₁ + … + p_t)·e^ε/(e^ε + t − 1), the least of it over
        the points of the claim; rounded up. For two worlds it is attained. docs/proofs/games.md, Theorem 1.

    References: for k equal priors, Humphries et al. 2020, https://arxiv.org/abs/2010.12112 (k = 2).
    """
    falling = np.cumsum(sorted((float(p) for p in priors), reverse=True))
    others = np.arange(len(falling))  # t − 1
    best = 1.0
    for epsilon, delta in promises(claim):
        reached = float(np.max(falling / (1 + others * math.exp(-epsilon))))
        best = min(best, delta + (1 - delta) * reached)
    if claim.loss is not None and len(priors) == 2:
        best = min(best, max(claim.loss.success(p) for p in priors))
    return min(1.0, best + _SLACK)


def advantage(claim: Claim) -> float:
    """Return the largest difference of a guess's chances under two neighbours: (e^ε − 1 + 2δ)/(e^ε + 1), rounded up."""
    half = Fraction(1, 2)
    return min(1.0, 2 * success(claim, (half, half)) - 1)


def odds(claim: Claim, prior: Fraction) -> float | None:
    """Return the largest odds for one world after any output: prior odds times e^ε, for pure ε; None where δ > 0."""
    pure = [epsilon for epsilon, delta in claim.points if delta == 0]
    if not pure:
        return None
    before = float(prior) / float(1 - prior)
    return before * math.exp(min(min(pure), 700.0)) * (1 + _SLACK)


def errors(claim: Claim, alpha: Floats) -> Floats:
    """Return the least type II errors that a claim allows tests of those levels."""
    if claim.loss is None:
        return claim.tradeoff(alpha)
    return np.asarray(claim.loss.tradeoff(alpha), dtype=np.float64)


_TAIL_SLACK = 1 + 1e-9
"""Far above the rounding errors of the binomial tails and of what follows."""

_STEPS = 60  # of a bisection
_POINTS = 24  # of a curve
_SHARES = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 32)
_SHARES_IN = (1 / 8,)
_FEWEST = 4


@dataclass(frozen=True, slots=True)
class Guesses:
    """How many canaries were guessed in and out, how many rightly, and what that says.

    Attributes:
        inside: guesses "it is in" (the first twin), of the highest scores.
        outside: guesses "it is out" (the second twin), of the lowest scores.
        right: how many of them were right.
        p_value: the chance of as many or more under the claim, before the correction for several tries.
        epsilon_lower: the lower bound on ε at the claimed δ, with the error divided among the tries.
    """

    inside: int
    outside: int
    right: int
    p_value: float
    epsilon_lower: float

    @property
    def guesses(self) -> int:
        """All guesses together."""
        return self.inside + self.outside


def tail(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return the largest chance of at least `right` right guesses that (ε, δ)-DP allows.

    Guarantee:
        For coins that are fair and independent, a mechanism that is (ε, δ)-DP with respect to each of the
        `canaries` coins, and a guesser who sees its output only and always makes `guesses` guesses, whichever
        they are: P(W ≥ v) ≤ G + mδ·G·(1 − G)/(v·b), where G and b are the chances that a binomial of `guesses`
        trials of chance e^ε/(1 + e^ε) is at least v, and v. It is rounded up.

    References:
        docs/proofs/canaries.md, Theorem 1. For δ = 0 it is the p-value of Steinke, Nasr, Jagielski 2023, section 5 and
        Appendix D, and for δ > 0 it is below theirs, https://arxiv.org/abs/2305.08846

    >>> round(tail(100, 100, 80, 1.0, 0.0), 5)
    0.07156
    """
    if right <= 0:
        return 1.0
    from scipy.special import betainc, betaincc, expit, log_expit

    # In terms of misses, whose chance stays exact for a large ε; the binomial law by the incomplete beta function.
    misses, wrong = guesses - right, float(expit(-epsilon))
    reached = float(betaincc(misses + 1, right, wrong))
    if delta == 0:
        return min(1.0, reached * _TAIL_SLACK)
    # log of the binomial's chance of exactly v hits, which may be below every float
    atom = (
        math.lgamma(guesses + 1)
        - math.lgamma(right + 1)
        - math.lgamma(misses + 1)
        + right * float(log_expit(epsilon))
        + misses * float(log_expit(-epsilon))
    )
    if reached > 1e-280:
        log_ratio = math.log(reached) - atom
    else:  # terms beyond v fall at least geometrically there: G/b ≤ 1/(1 − ρ)
        growth = misses * math.exp(min(epsilon, 700.0)) / (right + 1)
        log_ratio = -math.log1p(-growth) if growth < 1 else math.inf
    ratio = math.exp(min(log_ratio, 700.0))
    failures = canaries * delta * ratio * float(betainc(misses + 1, right, wrong)) / right
    return min(1.0, (reached + failures) * _TAIL_SLACK)


def epsilon_lower(canaries: int, guesses: int, right: int, delta: float, error: float) -> float:
    """Return a lower bound on ε at δ from that many right guesses, which is too high with chance at most `error`.

    Guarantee:
        Every ε' that `tail` rejects rules out all smaller ones too (ε-DP implies ε'-DP), so any ε' with a tail
        of at most `error` is a bound. docs/proofs/canaries.md, Corollary 2.
    """
    if tail(canaries, guesses, right, 0.0, delta) > error:
        return 0.0
    low, high = 0.0, 1.0
    while high < 64 and tail(canaries, guesses, right, high, delta) <= error:
        low, high = high, 2 * high
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if tail(canaries, guesses, right, middle, delta) <= error:
            low = middle
        else:
            high = middle
    return low


def p_value(canaries: int, guesses: int, right: int, promises: Iterable[tuple[float, float]]) -> float:
    """Return the largest chance of at least that many right guesses under all of the promises together.

    No correction for the number of promises is needed: all of them bound tails of one and the same count.
    """
    return min(tail(canaries, guesses, right, epsilon, delta) for epsilon, delta in promises)


def promises(claim: Claim) -> tuple[tuple[float, float], ...]:
    """Return the points of a claim; of a `PrivacyLoss` more of its curve, from ε = 0 on to where δ is about 1e-7."""
    loss = claim.loss
    if loss is None:
        return claim.points
    for delta in (1e-7, 1e-5, 1e-3, 1e-1):
        try:
            last = loss.epsilon(delta)
        except InvalidParameter:  # no finite ε at so small a δ
            continue
        grid = [float(e) for e in np.linspace(0.0, last, _POINTS)]
        return tuple(dict.fromkeys([*claim.points, *((e, loss.delta(e)) for e in grid)]))
    return claim.points


def ladder(canaries: int) -> tuple[tuple[int, int], ...]:
    """Return the numbers of guesses (in, out) that are tried by default: all, half, a quarter, … of the canaries."""
    both = [(math.ceil(canaries * s / 2), math.floor(canaries * s / 2)) for s in _SHARES]
    only_in = [(math.ceil(canaries * s), 0) for s in _SHARES_IN]
    chosen = [pair for pair in dict.fromkeys([*both, *only_in]) if sum(pair) >= _FEWEST]
    return tuple(chosen) or ((math.ceil(canaries / 2), canaries // 2),)
