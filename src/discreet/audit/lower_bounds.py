"""`lower_bound`: what an audit has learned, counted on as many fresh samples as one likes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from discreet.audit.claim import Claim
from discreet.audit.evidence.betting import Cuts, Wealth
from discreet.audit.evidence.promises import FARTHEST, Promises
from discreet.audit.outputs.sampling import Sampler
from discreet.audit.result import Audit
from discreet.audit.sequential import check_limits
from discreet.errors import InvalidParameter
from discreet.privacy.guarantee import Budget

_LEARNED = 0.05
"""The share of the samples by which the first event is chosen."""
_BATCH = 50_000  # outputs of each neighbour that are drawn at a time: they stay in the cache
_SETTLED = 1_000_000  # the most of them between two choices of an event
_CHOICES = 8  # such choices at least
_LEAST = 1e-3  # the least ε around which bounds are close to each other
_PART = 0.9
"""The part of the error of the first wealth; the rest is for those that follow a change in the way of drawing."""


def lower_bound(mechanism: Callable[..., object], audit: Audit, *, samples: int, error: float = 0.05) -> float:
    """Return a lower bound on ε at the claimed δ from the event that an audit found, on fresh samples.

    An audit spends its samples on many events. This one knows what to look for: it only ranks outputs by the witness's
    score and counts, so that many more samples are drawn in the same time, and the bound is nearer to the truth.

    >>> import numpy as np
    >>> from discreet.audit import distinguish, lower_bound
    >>> def noisy(x, n):
    ...     return x + np.random.default_rng().geometric(0.6, n) - np.random.default_rng().geometric(0.6, n)
    >>> audit = distinguish(noisy, 0, 1, claimed=1, samples=20_000, until="end")
    >>> 0.8 < lower_bound(noisy, audit, samples=200_000) < 1
    True

    Args:
        mechanism: the one that was audited.
        audit: what was found; its witness has the two inputs and the event.
        samples: outputs of each of the two inputs.
        error: the chance that the bound is above the truth.

    Guarantee:
        The bound exceeds the true ε of these two inputs at the claimed δ, and so that of the mechanism, with
        probability at most `error`, if runs are independent of each other; whatever the audit had found. Which
        threshold on the score is bet on is chosen from earlier samples only, as in `Wealth`; docs/proofs/auditing.md.

    Raises:
        InvalidParameter: an audit without a witness, or a mechanism that cannot be run.

    References:
        Ville 1939; Waudby-Smith, Ramdas 2024, https://arxiv.org/abs/2010.09686
    """
    check_limits(samples=samples, seconds=None, error=error)
    witness = audit.witness
    if witness is None or witness.happens is None:
        raise InvalidParameter(
            "the audit has no witness, so that there is no event to count.",
            hint='audit = distinguish(…, until="end"), with more samples',
        )
    # A grid that is finest where the bound is expected to be, chosen from what was seen before.
    seen = max(witness.under_x.estimate - audit.claim.delta, 0.0) / max(witness.under_neighbour.high, 1e-300)
    near = min(max(math.log(max(seen, 1.0)), _LEAST), FARTHEST)
    rank, promises = witness.happens.rank, Promises.of(Claim.of(Budget(near, audit.claim.delta)))
    first, second = Sampler(mechanism, witness.x), Sampler(mechanism, witness.x_neighbour)
    for source in (first, second):
        source.examine()
    steps = witness.happens.ranks - 1
    none = np.zeros(steps, dtype=np.int64)
    past = Cuts(np.arange(steps, dtype=np.float64), 0, none, none.copy())
    refuted = np.zeros(len(promises), dtype=np.bool_)
    wealth, era, manner = Wealth(promises, _PART * error), 0, (first.manner, second.manner)
    learned, left = min(max(int(_LEARNED * samples), 1), samples - 1), samples
    while left:
        bets = wealth.plan([past]) if past.n >= learned else None
        ranks: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []
        fair = True
        size = min(left, learned - past.n if bets is None else min(_SETTLED, samples // _CHOICES + 1))
        while size and fair:
            n = min(_BATCH, size)
            ranks.append((rank(first.draw(n)), rank(second.draw(n))))
            size, left = size - n, left - n
            fair = manner == (first.manner, second.manner)
        if not fair:
            # How outputs are drawn has changed, which depends on what they were: nothing of these samples counts, and a
            # wealth that has made bets is followed by another one, with its own part of the error.
            manner = (first.manner, second.manner)
            if bets is not None:
                refuted |= wealth.refuted
                era += 1
                wealth = Wealth(promises, (1 - _PART) * error * 2.0**-era)
            continue
        p, q = (np.concatenate([pair[i] for pair in ranks]) for i in (0, 1))
        if bets is not None:
            wealth.settle(bets, [(p, q)], left=left)
        past.add(p, q)
    return promises.epsilon_lower(refuted | wealth.refuted)
