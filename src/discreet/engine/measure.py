"""A query's noisy table without a ledger: the same loop, for audits and for whoever charges elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet.engine.cells import Run, measured, uses_of
from discreet.engine.meter import Meter, follow

if TYPE_CHECKING:
    from discreet.engine.noisy_table import NoisyTable
    from discreet.noise.entropy import Entropy
    from discreet.plan.query import Query


def measure(query: Query, run: Run, rng: Entropy) -> NoisyTable:
    """Reads the exact numbers of a query, and adds its noise.

    Guarantee:
        It costs the query's events, once for each call; the caller accounts for them.

    Args:
        query: what was decided.
        run: runs its statements on the data, with the `$secret` of the caller where there is one.
        rng: the noise.
    """
    return follow(measured(query), Meter(uses_of(query), lambda text, keyed: run(text), rng))
