"""`lower_bound`: near the truth, above it as rarely as stated, whatever the audit before it had found."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from discreet.audit import Audit, distinguish, lower_bound
from discreet.errors import InvalidParameter

FALSE_ALARM = 1e-9


def response(epsilon: float, seed: int) -> Callable[..., NDArray[np.int64]]:
    """Randomised response: its ε is this, exactly."""
    rng, chance = np.random.default_rng(seed), 1 / (1 + math.exp(epsilon))

    def mechanism(x: int, n: int) -> NDArray[np.int64]:
        return (rng.random(n) < (chance if x == 0 else 1 - chance)).astype(np.int64)

    return mechanism


def audited(mechanism: Callable[..., object], samples: int = 4000, claimed: float = 0.5) -> Audit:
    """What is found without a stop."""
    return distinguish(mechanism, 0, 1, claimed, samples=samples, until="end", probes=False)


def test_a_bound_is_above_the_truth_as_rarely_as_stated_and_near_it() -> None:
    runs, error, truth = 20, 0.1, 0.5
    mechanism = response(truth, 0)
    audit = audited(mechanism)
    found = [lower_bound(mechanism, audit, samples=20_000, error=error) for _ in range(runs)]
    assert sum(bound > truth for bound in found) <= binom.isf(FALSE_ALARM, runs, error)
    # Deviation of the log ratio of two counts of chances 0.62 and 0.38, each of 19,000 samples.
    deviation = math.sqrt((0.38 / 0.62 + 0.62 / 0.38) / 19_000)
    assert truth - 3.5 * deviation < np.median(found) < truth
    # Were the truth a little less, nearly all bounds would be above it.
    assert sum(bound > truth - 5 * deviation for bound in found) > 0.95 * runs


def test_more_samples_come_nearer_than_the_audit_did() -> None:
    mechanism = response(0.2, 1)
    audit = audited(mechanism, claimed=0.2)
    assert audit.epsilon_lower < 0.15
    assert 0.17 < lower_bound(mechanism, audit, samples=400_000) < 0.2


def test_the_event_of_a_witness_is_a_function_of_outputs() -> None:
    rng = np.random.default_rng(2)

    def words(x: int) -> tuple[str, float]:
        return ("yes" if rng.random() < (0.9 if x else 0.2) else "no", float(rng.integers(3)))

    for pair in ((0, 1), (1, 0)):
        witness = distinguish(words, *pair, 0.1, samples=3000, error=1e-6).witness
        assert witness is not None
        assert witness.happens is not None
        for x, chance in ((witness.x, witness.under_x), (witness.x_neighbour, witness.under_neighbour)):
            hits = witness.happens([words(int(str(x))) for _ in range(2000)])
            assert chance.low - 0.06 < hits.mean() < chance.high + 0.06
        same: list[object] = [words(0) for _ in range(50)]
        ranks = witness.happens.rank(same)
        assert (ranks == [int(witness.happens.rank([output])[0]) for output in same]).all()
        assert ((ranks >= witness.happens.least) == witness.happens(same)).all()
        assert ranks.max() < witness.happens.ranks


def test_outputs_that_must_be_drawn_one_by_one_in_the_middle_do_not_push_it_up() -> None:
    rng = np.random.default_rng(3)

    def raises(x: int, n: int) -> NDArray[np.int64]:
        if rng.random() < n * 1e-4:  # one output in 10,000
            raise ValueError
        return (rng.random(n) < (0.6 if x else 0.4)).astype(np.int64)

    audit = audited(response(math.log(1.5), 4))
    found = [lower_bound(raises, audit, samples=20_000, error=0.01) for _ in range(2)]
    assert all(0.3 < bound < math.log(1.5) + 0.05 for bound in found)


def test_an_audit_without_a_witness_has_nothing_to_count() -> None:
    mechanism = response(1, 0)
    none = audited(mechanism, samples=2)
    assert none.witness is None
    with pytest.raises(InvalidParameter, match="no witness"):
        lower_bound(mechanism, none, samples=100)
    with pytest.raises(InvalidParameter, match="samples"):
        lower_bound(mechanism, audited(mechanism), samples=0)
