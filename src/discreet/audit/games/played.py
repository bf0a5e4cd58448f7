"""What Bob reached, as a value: in words and in JSON, beside what the guarantee allows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.audit.claim import Claim
from discreet.audit.finding import VIOLATED, Chance, Tradeoff
from discreet.privacy.guarantee import decimal
from discreet.table import visible

UNCLAIMED = "unclaimed"
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Measure:
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
    rows: tuple[Measure, ...]
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
    def advantage(self) -> Measure | None:
        """By how much Bob says "the first" more often when it is; None for more than two worlds."""
        return next((row for row in self.rows if row.what == "advantage"), None)

    @property
    def odds(self) -> Measure | None:
        """The odds after the clearest output for the world it speaks for; None for more than two worlds."""
        return next((row for row in self.rows if row.what == "odds"), None)

    def __str__(self) -> str:
        first, s = self.rows[0], self.success
        limit = "" if first.allowed is None else f"; the guarantee allows at most {_percent(first.allowed)}"
        lines = [
            f"{self.name}: {self.verdict.upper()}",
            "",
            f"Alice puts in {self._choices()}. Bob sees the output and guesses which.",
            f"Bob is right in {_percent(first.found)} ({_span(first)}) of {s.samples:,} games{limit}.",
            f"Without the output he would be right in {_percent(float(max(self.priors)))}.",
        ]
        for row in self.rows[1:]:
            what = (
                f"Odds after the clearest output, {self.clearest}"
                if row.what == "odds"
                else row.what.capitalize()
            )
            limit = "" if row.allowed is None else f"; allowed: at most {row.allowed:.4g}"
            lines.append(f"{what}: {row.found:.4g} ({row.low:.4g} to {row.high:.4g}){limit}.")
        if self.claim is not None:
            lines.append(
                f"The claim is {self.claim.text}; one who keeps it is accused with chance {self.error:.4g} at most."
            )
        lines += [f"Note: {note}" for note in self.notes]
        return "\n".join(visible(line) for line in lines)

    def to_html(self) -> str:
        """The game as one HTML page without outside parts."""
        from discreet.audit.reports.games import page

        return page(self)

    def _choices(self) -> str:
        named = [
            f"{world} with chance {decimal(prior)}"
            for world, prior in zip(self.worlds, self.priors, strict=True)
        ]
        return ", ".join(named[:-1]) + f" or {named[-1]}"

    def to_json(self) -> dict[str, Any]:
        """Return the game in JSON's own types."""
        from discreet.audit.reports.report import fields_of

        return fields_of(self)


def _percent(x: float) -> str:
    return f"{100 * x:.1f} %"


def _span(row: Measure) -> str:
    return f"{100 * row.low:.1f}–{100 * row.high:.1f}"
