"""`assert_private`, for the tests of any project."""

from __future__ import annotations

from collections.abc import Callable

from discreet.audit.finding import Bits
from discreet.audit.result import Audit
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import Budget


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
        mechanism,
        x,
        x_neighbour,
        Budget(epsilon, delta),
        samples=samples,
        seconds=seconds,
        error=error,
        floats=floats,
    )
    if audit.violated:
        raise AssertionError(str(audit))
    return audit
