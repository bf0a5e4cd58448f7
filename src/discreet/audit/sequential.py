"""`distinguish`: does what a mechanism puts out tell two neighbours apart more than it claims to?"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.loss import PrivacyLoss
from discreet.audit.claim import FARTHEST, Claim, Promises
from discreet.audit.evidence.betting import Cuts, Wealth
from discreet.audit.finding import BITS, CONSISTENT, LAW, VIOLATED, Bits, Probe
from discreet.audit.outputs.encoding import Encoder
from discreet.audit.outputs.sampling import Sampler, called, check
from discreet.audit.result import Audit
from discreet.audit.sequential_test import FOREVER, SequentialTest, Until
from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real
from discreet.privacy.guarantee import Approximate, Budget

SECONDS = 20.0
"""The time that an audit takes, about, where neither time nor samples are limited."""

_LAW = 3 / 4  # of error, samples and time, for the law of real numbers; the rest is for their bits

Parts: TypeAlias = "tuple[tuple[bool, float], ...]"
"""The tests of an audit in their order: whether each keeps the bits of real numbers, and its part of the error."""


def distinguish(
    mechanism: Callable[..., object],
    x: object,
    x_neighbour: object,
    claimed: Budget | Approximate | PrivacyLoss | Claim | Real,
    *,
    samples: int | None = None,
    seconds: float | None = None,
    error: float = 1e-3,
    name: str | None = None,
    probes: bool = True,
    until: Until = "refuted",
    floats: Bits = "keep",
) -> Audit:
    """Test a claim on two neighbours by running the mechanism on both.

    Outputs may be of any type; an exception is an output. A batch of them trains scores that separate the two, the next
    batch tests them, then trains, and so on. Where outputs have real numbers, three quarters of samples, time and error
    are for a test of their law: they are read on a grid that hides their lowest bits. The rest is for a test with all
    bits. The verdict says which of the two refutes the claim (`Audit.cause`).

    Args:
        mechanism: called as mechanism(x), or as mechanism(x, n=n) if it has a keyword `n`: then it returns n outputs.
        x: one neighbour.
        x_neighbour: the other one.
        claimed: a `Budget`, a `PrivacyLoss` or an ε.
        samples: the most outputs of each neighbour; by default as many as fit into `seconds`.
        seconds: the most time, about; 20 by default, or no limit where `samples` is given. A call that takes longer
            (5 at least, 60 at most) counts as hanging.
        error: the chance of accusing a mechanism that keeps its claim.
        name: what the report calls it; its own name by default.
        probes: whether floating-point probes are run beside the test, if outputs are floats.
        until: "refuted" stops as soon as the claim is refuted; "end" uses all samples for the best bounds.
        floats: "ignore" tests the law only: what floating-point bits give away is not looked for.

    Guarantee:
        As `Audit`, if runs are independent of each other. Probes do not change the verdict.

    Raises:
        InvalidParameter: an argument that cannot be used, or a mechanism that cannot be run or raised in each run.

    References:
        Ville 1939; Waudby-Smith, Ramdas 2024, https://arxiv.org/abs/2010.09686; the task of finding an event: Bichsel,
        Steffen, Bogunovic, Vechev 2021 (DP-Sniper), https://doi.org/10.1109/SP40001.2021.00081
    """
    claim = Claim.of(claimed)
    check(mechanism)
    check_limits(samples=samples, seconds=seconds, error=error, until=until, floats=floats)
    seconds, start = limit_of(samples, seconds), time.monotonic()
    first, second = (Sampler(mechanism, at, seconds_each=longest_call(seconds)) for at in (x, x_neighbour))
    sequential_tests: list[SequentialTest] = []
    for (bits, part), most, end in planned(parts_of((first, second), floats), samples or FOREVER, seconds):
        sequential_test = SequentialTest(
            first,
            second,
            claim,
            error=part * error,
            samples=most,
            seconds=None if end is None else start + end - time.monotonic(),
            until=until,
            bits=bits,
        )
        sequential_tests.append(sequential_test.run())
        if sequential_test.refuted and until == "refuted":
            break
    shown = clearest_of(sequential_tests)
    found = float_probes(mechanism, (x, x_neighbour), claim, shown, first) if probes and floats == "keep" else ()
    name = name or called(mechanism, type(mechanism).__name__)
    notes = [*(f"x: {note}" for note in first.notes), *(f"x_neighbour: {note}" for note in second.notes)]
    refuse_untested(name, (first, second), sequential_tests)
    spent = sum(sequential_test.spent for sequential_test in sequential_tests)
    if samples is not None and spent < samples and not shown.refuted:
        notes.append(f"time ran out after {spent} of {samples} samples of each neighbour.")
    audit = together(shown.audit(name, x, x_neighbour), shown, sequential_tests, error, floats)
    return replace(audit, probes=found, notes=tuple(notes), limit=seconds, seconds=time.monotonic() - start)


def refuse_untested(name: str, samplers: Sequence[Sampler], sequential_tests: Sequence[SequentialTest]) -> None:
    """Refuse to call a mechanism consistent that raised an exception in every run."""
    if all(sampler.only_raised for sampler in samplers) and not any(
        sequential_test.refuted for sequential_test in sequential_tests
    ):
        raise InvalidParameter(
            f"{name} raised an exception in every run, so that nothing else was compared.",
            hint="call it once with these inputs, and mend what it raises",
        )


def parts_of(samplers: Sequence[Sampler], floats: Bits) -> Parts:
    """Return the tests of an audit: of the law and of the bits where these samplers have put out real numbers."""
    if floats == "ignore":
        return ((False, 1.0),)
    if Encoder.learned(*(sampler.looked for sampler in samplers)).has_reals:
        return ((False, _LAW), (True, 1 - _LAW))
    return ((True, 1.0),)


def planned(parts: Parts, samples: int, seconds: float | None) -> list[tuple[tuple[bool, float], int, float | None]]:
    """Return the tests of an audit with their samples, and the seconds after which each one ends."""
    law = math.ceil(parts[0][1] * samples)
    ends = (None, None) if seconds is None else (parts[0][1] * seconds, seconds)
    return [p for p in zip(parts, (law, samples - law), ends, strict=False) if p[1]]


def clearest_of(sequential_tests: Sequence[SequentialTest]) -> SequentialTest:
    """Return the test that is shown: one that refutes, by the law if there is such; else that of the largest bound."""
    return max(
        sequential_tests,
        key=lambda sequential_test: (
            sequential_test.refuted,
            sequential_test.refuted and sequential_test.of_law,
            sequential_test.epsilon_lower,
        ),
    )


def together(
    audit: Audit, shown: SequentialTest, sequential_tests: Sequence[SequentialTest], error: float, floats: Bits
) -> Audit:
    """Return the audit of all tests, from that of the one that is shown; its power is that against the law."""
    laws = [sequential_test for sequential_test in sequential_tests if sequential_test.of_law]
    refuted = LAW if shown.of_law else BITS if laws else None
    return replace(
        audit,
        verdict=VIOLATED if shown.refuted else CONSISTENT,
        error=error,
        epsilon_lower=max(sequential_test.epsilon_lower for sequential_test in sequential_tests),
        delta_lower=max(sequential_test.delta_lower for sequential_test in sequential_tests),
        power=audit.power if shown.of_law or not laws else clearest_of(laws).power(),
        samples=2 * sum(sequential_test.spent for sequential_test in sequential_tests),
        floats=None if all(sequential_test.has_no_reals for sequential_test in sequential_tests) else floats,
        cause=refuted if shown.refuted else None,
    )


def limit_of(samples: int | None, seconds: float | None) -> float | None:
    """Return the seconds that an audit may take: those that were given, or the usual ones where no limit was."""
    return SECONDS if samples is None and seconds is None else seconds


def longest_call(seconds: float | None) -> float:
    """Return the most seconds that one call may take, in a test that may take so many."""
    return 60.0 if seconds is None else min(60.0, max(seconds, 5.0))


def check_limits(
    *, samples: int | None, seconds: float | None, error: float, until: Until = "end", floats: Bits = "keep"
) -> None:
    """Refuse limits and options that make no sense.

    Raises:
        InvalidParameter: naming the one.
    """
    for name, value, known in (("until", until, Until), ("floats", floats, Bits)):
        if value not in get_args(known):
            one, other = get_args(known)
            raise InvalidParameter(f"{name} must be {one!r} or {other!r}, not {value!r}.", hint=f"{name}={other!r}")
    whole: object = samples
    if whole is not None and (isinstance(whole, bool) or not isinstance(whole, int) or whole < 1):
        raise InvalidParameter(f"samples must be a positive integer, not {samples!r}.", hint="samples=100_000")
    if seconds is not None and not (_is_number(seconds) and seconds > 0 and math.isfinite(seconds)):
        raise InvalidParameter(f"seconds must be positive, not {seconds!r}.", hint="seconds=10")
    if not (_is_number(error) and 0 < error <= 0.5):
        raise InvalidParameter(f"error must be above 0 and at most 1/2, not {error!r}.", hint="error=1e-3")


def _is_number(x: object) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def float_probes(
    mechanism: Callable[..., object],
    pair: tuple[object, object],
    claim: Claim,
    sequential_test: SequentialTest,
    source: Sampler,
) -> tuple[Probe, ...]:
    """Floating-point probes of a pair, where a float is released, in a fifth of the test's time or a second."""
    some = source.draw(8)
    if isinstance(some, np.ndarray):
        floats = some.dtype.kind == "f" and some.ndim == 1
    else:
        floats = all(isinstance(output, (float, np.floating)) for output in some)
    if not floats:
        return ()
    from discreet.audit.probes.floating import probe_floats

    samples, seconds = min(max(sequential_test.spent, 1000), 100_000), max(sequential_test.elapsed / 5, 1.0)
    return probe_floats(mechanism, *pair, claimed=claim, samples=samples, seconds=seconds)


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
