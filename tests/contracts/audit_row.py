"""One audit: what is offered, and the broken twin that shows the audit's power."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from discreet.accounting.loss import PrivacyLoss
from discreet.audit import Audit, distinguish
from discreet.privacy.guarantee import Budget

ERROR = 1e-9
"""The chance of accusing what is sound, in each audit: small, since the suite runs often."""

ENGINE = "sql engine"
"""The name under which the whole SQL engine stands."""

Audited: TypeAlias = Callable[[int], Audit]
"""An audit with so many samples of each neighbour."""


@dataclass(frozen=True)
class AuditRow:
    """One audit.

    Attributes:
        of: the class of the mechanism, of the aggregate's measure or of the estimator; or `ENGINE`.
        case: what of it.
        sound: the audit of what this package offers: it must end "consistent".
        broken: the same audit of a deliberately broken twin: it must end "violated".
        power: how broken the twin is: what the slice in CI would find.
        ci: samples of each neighbour in CI.
        long: samples of each neighbour at length.
    """

    of: str
    case: str
    sound: Audited
    broken: Audited
    power: str
    ci: int
    long: int

    def __str__(self) -> str:
        return f"{self.of}: {self.case}"


def sampled(mechanism: Callable[..., object], x: object, y: object, claim: PrivacyLoss | Budget) -> Audited:
    """The audit of a mechanism with a keyword `n` on two neighbours."""
    return lambda samples: distinguish(mechanism, x, y, claim, samples=samples, error=ERROR, probes=False)
