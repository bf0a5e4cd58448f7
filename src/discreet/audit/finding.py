"""What an audit found, as values: the verdict, the witness, what was tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.audit.claim import Claim
from discreet.audit.evidence.intervals import clopper_pearson

if TYPE_CHECKING:
    from discreet.audit.event_predicate import EventPredicate
    from discreet.audit.evidence.power import Power

Floats: TypeAlias = NDArray[np.float64]

VIOLATED = "violated"
CONSISTENT = "consistent"

LAW = "law"
BITS = "bits"

Bits: TypeAlias = Literal["keep", "ignore"]
"""The treatment of the bits of real numbers: tested, or lost on a grid."""


@dataclass(frozen=True, slots=True)
class Chance:
    """The chance of an event: how often it was seen among fresh samples, with its Clopper–Pearson interval."""

    hits: int
    samples: int
    low: float
    high: float

    @classmethod
    def of(cls, hits: int, samples: int, error: float) -> Chance:
        """Return the chance of an event that was seen that often; its interval misses with probability `error`."""
        return cls(hits, samples, *clopper_pearson(hits, samples, error))

    @property
    def estimate(self) -> float:
        """The share of samples in which the event was seen."""
        return self.hits / self.samples if self.samples else 0.0


@dataclass(frozen=True, slots=True)
class Witness:
    """Two neighbours, an event, and its chances: what a reader needs to check the claim by hand.

    Attributes:
        x: the neighbour under which the event is the likelier.
        x_neighbour: the other one.
        event: the event in words.
        under_x: the chance of the event under x.
        under_neighbour: its chance under the other neighbour.
        epsilon: log of the ratio of the two, of what the intervals leave for sure at the claimed δ.
        happens: the event as a function: `happens(outputs)` tells for each output whether it happened.
    """

    x: object
    x_neighbour: object
    event: str
    under_x: Chance
    under_neighbour: Chance
    epsilon: float
    happens: EventPredicate | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """The errors of the best test that was found, beside those that the claim allows.

    Attributes:
        alpha: type I errors, rising.
        beta: the type II errors of the test, estimated on fresh samples.
        beta_high: upper bounds of them, all at once at the audit's error.
        claimed: the least type II errors that the claim allows; `beta_high` below it is a violation.
    """

    alpha: Floats
    beta: Floats
    beta_high: Floats
    claimed: Floats


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe beside the statistical test.

    Attributes:
        name: what was probed: "reachable support", "fork", …
        verdict: "violated", "suspicious" (worth a look; no proof), "consistent" or "skipped".
        words: what was seen, in one or two sentences.
        details: numbers for machines.
    """

    name: str
    verdict: str
    words: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tried:
    """One thing that was tried: a pair of neighbours or a score, and the ε that its training samples showed."""

    what: str
    epsilon: float
    samples: int


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
        from discreet.audit.reports.report import text

        return text(self)

    def to_json(self) -> dict[str, Any]:
        """The audit as JSON values."""
        from discreet.audit.reports.report import to_json

        return to_json(self)

    def to_html(self) -> str:
        """The audit as one HTML page without outside parts."""
        from discreet.audit.reports.html import page

        return page(self)
