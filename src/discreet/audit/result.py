"""The result of an audit (a value, which is also a text, JSON and one HTML page), with the power of its test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.audit.claim import Claim
from discreet.audit.evidence.betting import Cuts, growth_rate
from discreet.audit.finding import BITS, LAW, VIOLATED, Bits, Probe, Tradeoff, Tried, Witness
from discreet.audit.places import Floats
from discreet.audit.reports import (
    chance_words,
    document,
    facts,
    fields_of,
    head,
    lines_of,
    notes,
    number,
    picture,
    plain,
    plain_fields,
    shown,
    text,
)
from discreet.table import render, render_html, visible

_FLOATS = {
    "keep": "first on a grid that hides their bits (3/4 of the error), then with all bits (1/4)",
    "ignore": "ignored: they were read on a grid that hides their bits",
}
_CAPTION = (
    "The claim forbids the red region. The blue line is the best test that was found, on fresh samples, with its "
    "band; where the upper edge of the band enters the red region, the claim is broken. The dashed line is guessing."
)
_SHOWN, _SHOWN_ON_PAGE = 8, 40
"""Rows of what was tried that a text and a page show; JSON has all."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Guarantee:
        A mechanism that keeps its claim is called "violated" with probability at most `error`; and `epsilon_lower`
        (at the claimed δ) exceeds the true ε with probability at most `error`, and so does `delta_lower` (at the
        claimed ε) the true δ.

    Attributes:
        name: what was audited.
        claim: what was claimed.
        verdict: "violated" or "consistent".
        error: the stated error probability.
        epsilon_lower: a lower bound on ε at the claimed δ.
        delta_lower: a lower bound on δ at the claimed ε.
        power: which violations it would have found in most runs, and what smaller ones would need; None when nothing
            was sampled.
        witness: the clearest event, with its two probabilities; None when nothing was sampled.
        tradeoff: the empirical trade-off against the claimed one; None when nothing was sampled.
        samples: samples drawn, of both neighbours together.
        seconds: wall-clock seconds.
        tried: what was tried, most promising first.
        probes: floating-point and state probes.
        notes: what a reader should know: exceptions, mutation, determinism.
        limit: the seconds that it might take; None where it had no such limit.
        floats: what was audited of real numbers: "keep", their law on a grid and then their bits; "ignore", their law
            alone; None where no output had any.
        cause: what refutes the claim: "law", an event that remains where real numbers are read on a grid (a wrong scale
            or sensitivity, say); "bits", an event of floating-point bits only, while no such event was found; None
            where nothing does, or where the two were not told apart.
    """

    name: str
    claim: Claim
    verdict: str
    error: float
    epsilon_lower: float
    delta_lower: float
    power: Power | None
    witness: Witness | None
    tradeoff: Tradeoff | None
    samples: int
    seconds: float
    tried: tuple[Tried, ...] = ()
    probes: tuple[Probe, ...] = ()
    notes: tuple[str, ...] = ()
    limit: float | None = None
    floats: Bits | None = None
    cause: str | None = None

    @property
    def violated(self) -> bool:
        """Whether the claim was refuted."""
        return self.verdict == VIOLATED

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.verdict.upper()}{self._why()}", "", *lines_of(self._rows())]
        if self.witness is not None:
            lines += ["", *_witness_lines(self.witness)]
        if self.tried:
            lines += ["", render(["tried", "ε seen", "samples"], _tried_rows(self.tried[:_SHOWN]))]
            if len(self.tried) > _SHOWN:
                lines.append(f"and {len(self.tried) - _SHOWN} more.")
        for probe in self.probes:
            lines += ["", f"{probe.name}: {probe.verdict}. {probe.words}"]
        if self.notes:
            lines += ["", *(f"Note: {note}" for note in self.notes)]
        return "\n".join(visible(line) for one in lines for line in one.split("\n"))

    def to_json(self) -> dict[str, Any]:
        """Return all of the audit in JSON's own types; inputs as text; an infinite number is the text "inf"."""
        power, witness = self.power, self.witness
        inputs = {} if witness is None else {k: shown(getattr(witness, k)) for k in ("x", "x_neighbour")}
        return {
            **fields_of(self, "power", "witness"),
            "power": power and {k: plain(getattr(power, k)) for k in ("epsilon", "delta", "unseen")},
            "witness": witness and {**inputs, **plain_fields(witness, *inputs)},
        }

    def to_html(self) -> str:
        """Return the audit as one HTML page without outside parts: verdict, witness, trade-off, probes."""
        parts = [head(self.name, self.verdict, self._why()), facts(self._rows())]
        if self.witness is not None:
            parts += ["<h2>Witness</h2>", _witness_html(self.witness)]
        if self.tradeoff is not None:
            parts += ["<h2>Errors of the best test</h2>", picture(self.tradeoff, _CAPTION)]
        if self.tried:
            table = render_html(["what", "ε seen", "samples"], _tried_rows(self.tried[:_SHOWN_ON_PAGE]))
            parts += ["<h2>Tried</h2>", table]
            if len(self.tried) > _SHOWN_ON_PAGE:
                parts.append(f"<p>and {len(self.tried) - _SHOWN_ON_PAGE} more.</p>")
        if self.probes:
            probes: list[list[str | None]] = [[p.name, p.verdict, p.words] for p in self.probes]
            parts += ["<h2>Probes</h2>", render_html(["probe", "verdict", "what was seen"], probes, align=["left"] * 3)]
        return document(self.name, *parts, notes(self.notes))

    def _why(self) -> str:
        """Return the words after the verdict where there are real numbers: what refutes the claim, or was left out."""
        if self.floats is not None and self.cause is not None:
            return " in law (scale or sensitivity)" if self.cause == LAW else " by floating-point bits"
        return "" if self.violated or self.floats != "ignore" else " in law (floats ignored)"

    def _rows(self) -> list[tuple[str, str]]:
        """Return the rows about claim, bounds, floats, error, power and effort: a name and words."""
        found = (
            f"ε ≥ {number(self.epsilon_lower)} at δ = {number(self.claim.delta)}; "
            f"δ ≥ {number(self.delta_lower)} at ε = {number(self.claim.epsilon)}"
        )
        allowed = "" if self.limit is None else f"; about {self.limit:g} s were allowed"
        by_bits = self.cause == BITS
        return [
            ("claimed", self.claim.text),
            ("found", found),
            *([] if self.floats is None else [("floats", _FLOATS[self.floats])]),
            ("error", f"false-positive rate: at most {number(self.error)}"),
            *([("law", "nothing was found on the grid, a test of this power:")] if by_bits else []),
            *([] if self.power is None or (self.violated and not by_bits) else _power_words(self.power)),
            ("effort", f"{self.samples:,} samples in {self.seconds:.3g} s{allowed}"),
        ]


def _witness_lines(witness: Witness) -> list[str]:
    """Return the neighbours, the event and its two chances."""
    lines = [
        f"Event: {witness.event}.",
        f"  under x  = {shown(witness.x)}: {chance_words(witness.under_x)}",
        f"  under x′ = {shown(witness.x_neighbour)}: {chance_words(witness.under_neighbour)}",
    ]
    if witness.epsilon > 0:
        lines.append(f"  so these two alone show ε ≥ {number(witness.epsilon)}.")
    return lines


def _tried_rows(tried: Sequence[Tried]) -> list[list[str]]:
    return [[t.what, number(t.epsilon), f"{t.samples:,}"] for t in tried]


def _power_words(power: Power) -> list[tuple[str, str]]:
    (epsilon, delta), least = power.claimed, (power.epsilon, power.delta)
    seen = [f"ε = {number(least[0])} at δ = {number(delta)}"] if least[0] < math.inf else []
    seen += [f"δ = {number(least[1])} at ε = {number(epsilon)}"] if least[1] < math.inf else []
    rows = [("power", f"{' or '.join(seen) or 'nothing, with so few samples,'} would have been found in most runs")]
    for one in power.unseen:
        larger = (
            f"a δ of {number(one.delta)} instead of {number(delta)}"
            if one.delta != delta
            else f"an ε of {number(one.epsilon)} instead of {number(epsilon)}"
        )
        need = f"{float(f'{one.samples:.2g}'):,.0f} samples of each neighbour, {one.seconds:.2g} s"
        rows.append(("", f"{larger} would need about {need}"))
    return rows


def _witness_html(witness: Witness) -> str:
    rows = "".join(
        f"<dt>under {name}</dt><dd><code>{text(shown(x))}</code>: {text(chance_words(chance))}</dd>"
        for name, x, chance in (("x", witness.x, witness.under_x), ("x′", witness.x_neighbour, witness.under_neighbour))
    )
    alone = f"<p>These two alone show ε ≥ {number(witness.epsilon)}.</p>" if witness.epsilon > 0 else ""
    return f"<p>Event: {text(witness.event)}.</p><dl>{rows}</dl>{alone}"


_MOST_RUNS = 0.8416  # the normal quantile of 80 %
_LEARNING = 0.3  # standard deviations that are lost by learning the event and by stepping in slices
_DOUBT = 2.0  # standard deviations by which rates are doubted when an event is chosen to judge power by
_OFTEN = 100  # times that it has happened
_GRID = np.geomspace(1e-6, 1.0, 600)
_FARTHEST = 40.0  # the largest ε that is looked for


@dataclass(frozen=True, slots=True)
class Unseen:
    """A violation that a test would have missed in most runs, and about what it would need.

    Attributes:
        epsilon, delta: the true promise.
        samples: of each neighbour.
        seconds: at the pace of the test.
    """

    epsilon: float
    delta: float
    samples: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Power:
    """Estimates, no bounds, for violations by an event like the best one that a test has found.

    A larger ε at the claimed δ keeps the event's chance under the neighbour that it favours, and makes it rarer under
    the other one. A larger δ at the claimed ε keeps the chance under the other one. A test finds what is "found in most
    runs" in about 80 % of them (docs/proofs/auditing.md, "What is an estimate only").

    Attributes:
        claimed: the promise (ε, δ) that is reported on.
        likely: the chance of the event under the neighbour that it favours; 1/2 where nothing told the two apart.
        error: of the wealth against the claim.
        tested: pairs that were bet on.
        drawn: outputs of each neighbour.
        taught: the most of them that only teach.
        pace: seconds that an output of each neighbour takes.
    """

    claimed: tuple[float, float]
    likely: float
    error: float
    tested: int
    drawn: int
    taught: int
    pace: float

    @property
    def epsilon(self) -> float:
        """The least ε at the claimed δ that would have been found in most runs; ∞ where none would."""
        claimed = self.claimed[0]
        grid = claimed + _GRID * (max(_FARTHEST, 2 * claimed) - claimed)
        return self._least(grid, *self._larger_epsilon(grid))

    @property
    def delta(self) -> float:
        """The least δ at the claimed ε that would have been found in most runs; ∞ where none would."""
        claimed = self.claimed[1]
        grid = claimed + _GRID * (1 - claimed)
        return self._least(grid, *self._larger_delta(grid))

    @property
    def unseen(self) -> tuple[Unseen, ...]:
        """Violations half as large as those that would have been found: one in δ, one in ε."""
        halves = [
            (claimed + least) / 2 for claimed, least in zip(self.claimed, (self.epsilon, self.delta), strict=True)
        ]
        return tuple(
            self.needs(**{name: half})
            for name, half in (("delta", halves[1]), ("epsilon", halves[0]))
            if half < math.inf
        )

    def needs(self, *, epsilon: float | None = None, delta: float | None = None) -> Unseen:
        """About how many samples of each neighbour, and seconds, would find a violation in most runs.

        Args:
            epsilon: the true ε at the claimed δ.
            delta: the true δ at the claimed ε, instead.

        >>> power = Power((1.0, 0.0), 0.5, 4e-4, 80_000, 100_000, 20_000, 1e-6)
        >>> needed = power.needs(epsilon=1.02)
        >>> round(needed.samples, -5), round(needed.seconds, 1)
        (300000.0, 0.3)
        """
        true = (epsilon or self.claimed[0], delta or self.claimed[1])
        larger = self._larger_epsilon if delta is None else self._larger_delta
        pairs = float(self._pairs(*larger(np.asarray([true[delta is not None]])))[0])
        samples = pairs + min(pairs * (self.drawn / max(self.tested, 1) - 1), self.taught)
        return Unseen(*true, samples, samples * self.pace)

    def _larger_epsilon(self, epsilons: Floats) -> tuple[Floats, Floats]:
        p = np.full(len(epsilons), self.likely)
        return p, (p - self.claimed[1]) * np.exp(-epsilons)

    def _larger_delta(self, deltas: Floats) -> tuple[Floats, Floats]:
        p = np.minimum(self.likely + deltas - self.claimed[1], 1.0)
        return p, (p - deltas) * math.exp(-self.claimed[0])

    def _pairs(self, p: Floats, q: Floats) -> Floats:
        """Pairs after which wealth that grows at the largest rate on such an event has refuted the claim."""
        from scipy.special import ndtri

        sure = float(-ndtri(self.error)) + _MOST_RUNS + _LEARNING
        with np.errstate(divide="ignore"):
            return np.asarray(sure**2 / 2 / growth_rate(p, q, *self.claimed))

    def _least(self, grid: Floats, p: Floats, q: Floats) -> float:
        seen = np.flatnonzero(self._pairs(p, q) <= self.tested)
        return float(grid[seen[0]]) if len(seen) else math.inf


def likeliest(past: Sequence[Cuts], delta: float) -> float:
    """Return the chance, under the neighbour that it favours, of the event that shows the largest ε at δ; 1/2 where
    none does.

    Rates are doubted, so that it is not that of an event with some lucky hits.
    """
    most, chance = 0.0, 0.5
    for cuts in past:
        likely, low, high = cuts.doubted(delta, _DOUBT)
        shown = np.log(np.maximum(low, 1e-300) / (high + _DOUBT**2 / (cuts.n + 1)))
        shown[likely * cuts.n < _OFTEN] = -math.inf
        best = int(np.argmax(shown))
        if shown[best] > most:
            most, chance = float(shown[best]), float(likely[best])
    return chance
