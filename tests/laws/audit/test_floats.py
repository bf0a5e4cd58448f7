"""The verdict tells a wrong law (scale, sensitivity) from floating-point bits, and one error covers both tests.

Each audit of a fixed verdict has an error of 1e-9: the chance that a sound one fails here. Seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from discreet.audit import Audit, assert_private, audit_sql, distinguish, refute
from discreet.audit.sequential_test import SequentialTest
from discreet.audit.sql.tables import Neighbours
from discreet.errors import InvalidParameter
from discreet.privacy.guarantee import Budget

Noise = Callable[[np.random.Generator, int], NDArray[np.floating[Any]]]
Floats = Literal["keep", "ignore"]

ERROR = 1e-9
CLAIM = Budget(1)
GRID = 2.0**-20


def laplace(scale: float) -> Noise:
    return lambda rng, n: rng.laplace(0, scale, n)


def on_a_public_grid(scale: float) -> Noise:
    return lambda rng, n: np.rint(rng.laplace(0, scale, n) / GRID) * GRID


def tenths(ratio: float) -> Noise:
    """Two-sided geometric noise in tenths, whose sum with an input has other bits at another input."""
    return lambda rng, n: 0.1 * (rng.geometric(1 - ratio, n) - rng.geometric(1 - ratio, n))


def added(noise: Noise, seed: int, sensitivity: float = 1.0) -> Callable[..., Any]:
    rng = np.random.default_rng(seed)
    return lambda x, n: sensitivity * x + noise(rng, n)


def gaussian(rng: np.random.Generator, n: int) -> NDArray[np.floating[Any]]:
    """σ = 4 keeps ε = 1 at δ = 1e-3: Dwork, Roth, Theorem A.1, asks for 3.78."""
    return rng.normal(0, 4, n)


# What keeps the bits, and what ignores them, has to say: None for "consistent".
CASES: dict[str, tuple[Noise, float, Budget, str | None, str | None]] = {
    "right": (on_a_public_grid(1), 1, CLAIM, None, None),
    "float laplace": (laplace(1), 1, CLAIM, "bits", None),
    "float gaussian": (gaussian, 1, Budget(1, "0.001"), "bits", None),
    "tenths": (tenths(np.exp(-0.1)), 1, CLAIM, "bits", None),
    "wrong scale": (on_a_public_grid(0.6), 1, CLAIM, "law", "law"),
    "wrong sensitivity": (on_a_public_grid(1), 1.8, CLAIM, "law", "law"),
    "wrong scale of a float laplace": (laplace(0.6), 1, CLAIM, "law", "law"),
    "tenths of a wrong scale": (tenths(np.exp(-0.17)), 1, CLAIM, "law", "law"),
}
HEADLINES = {"bits": "VIOLATED by floating-point bits", "law": "VIOLATED in law (scale or sensitivity)"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("floats", ["keep", "ignore"])
@pytest.mark.parametrize("name", CASES)
def test_the_headline_says_what_refutes_the_claim(name: str, floats: Floats) -> None:
    noise, sensitivity, claim, *causes = CASES[name]
    mechanism = added(noise, 1, sensitivity)
    audit = distinguish(mechanism, 0.0, 1.0, claim, samples=40_000, error=ERROR, name="m", probes=False, floats=floats)
    cause = causes[floats == "ignore"]
    assert (audit.violated, audit.cause, audit.floats) == (cause is not None, cause, floats)
    quiet = "CONSISTENT" if floats == "keep" else "CONSISTENT in law (floats ignored)"
    assert str(audit).startswith(f"m: {quiet if cause is None else HEADLINES[cause]}\n")
    assert audit.samples <= 80_000


@pytest.mark.parametrize(
    ("limit", "beyond", "cause"),
    [(on_a_public_grid(1), laplace(1), "bits"), (laplace(1), laplace(0.5), "law")],
    ids=["bits of one pair", "the law of one pair, bits of all"],
)
def test_a_search_finds_the_pair_whatever_breaks_the_claim_elsewhere(limit: Noise, beyond: Noise, cause: str) -> None:
    rng = np.random.default_rng(2)

    def mechanism(x: float, n: int) -> NDArray[np.floating[Any]]:
        return x + (beyond if x > 8.5 else limit)(rng, n)

    inputs = [(float(i), float(i + 1)) for i in range(12)]
    found = refute(mechanism, inputs, CLAIM, samples=60_000, error=ERROR, probes=False)
    assert found.violated and found.cause == cause
    assert found.witness is not None
    assert max(found.witness.x, found.witness.x_neighbour) > 8.5  # type: ignore[call-overload]
    law = refute(mechanism, inputs, CLAIM, samples=60_000, error=ERROR, probes=False, floats="ignore")
    assert law.cause == (cause if cause == "law" else None)


def test_a_search_sees_the_real_numbers_that_only_some_inputs_give() -> None:
    def mechanism(x: float, n: int) -> NDArray[np.floating[Any]]:
        return laplace(1)(rng, n) + x if x > 2 else np.zeros(n)

    rng = np.random.default_rng(4)
    found = refute(mechanism, [(0.0, 1.0), (3.0, 4.0)], CLAIM, samples=60_000, error=ERROR, probes=False)
    assert (found.violated, found.cause, found.floats) == (True, "bits", "keep")


@pytest.mark.parametrize("search", [False, True])
def test_the_two_tests_share_error_samples_and_time(monkeypatch: pytest.MonkeyPatch, search: bool) -> None:
    made: list[tuple[bool, float, int]] = []
    begin = SequentialTest.__init__

    def init(self: SequentialTest, *args: Any, error: float, samples: int, **options: Any) -> None:
        made.append((options["bits"], error, samples + options.get("more", 0)))
        begin(self, *args, error=error, samples=samples, **options)

    monkeypatch.setattr(SequentialTest, "__init__", init)

    def audit(noise: Noise, floats: Floats) -> Audit:
        made.clear()
        if search:
            inputs = [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]
            return refute(added(noise, 3), inputs, CLAIM, samples=8000, error=0.01, probes=False, floats=floats)
        return distinguish(added(noise, 3), 0.0, 1.0, CLAIM, samples=8000, error=0.01, probes=False, floats=floats)

    audit(on_a_public_grid(1), "keep")
    for bits, part in ((False, 3 / 4), (True, 1 / 4)):
        assert sum(e for b, e, _ in made if b is bits) == pytest.approx(part * 0.01)
        assert {n for b, _, n in made if b is bits} == {8000 * part}
    whole = [lambda rng, n: rng.geometric(0.5, n) - rng.geometric(0.5, n), on_a_public_grid(1)]
    for noise, floats in zip(whole, ("keep", "ignore"), strict=True):  # no real numbers, or none of their bits
        found = audit(noise, floats)  # type: ignore[arg-type]
        assert sum(e for _, e, _ in made) == pytest.approx(0.01)
        assert {n for *_, n in made} == {8000}
        assert found.floats == (None if floats == "keep" else floats)


def accused(mechanisms: Iterable[Callable[..., Any]], error: float) -> list[str | None]:
    return [distinguish(m, 0.0, 1.0, CLAIM, samples=600, error=error, probes=False).cause for m in mechanisms]


@pytest.mark.parametrize(("scale", "wrong"), [(1.0, False), (0.5, True)])
def test_a_law_that_keeps_its_claim_is_accused_no_more_often_than_stated(scale: float, wrong: bool) -> None:
    # The law of the first one is at its limit, and its bits give it away: "law" is wrong with 3/4 of the error.
    error, audits = 0.3, 24
    found = accused((added(laplace(scale), seed) for seed in range(audits)), error)
    laws = found.count("law")
    assert bool(binom.sf(laws - 1, audits, 0.75 * error) < 1e-9) is wrong
    assert wrong or "bits" in found


def test_a_verdict_by_bits_has_the_power_of_the_test_of_the_law() -> None:
    audit = distinguish(added(laplace(1), 5), 0.0, 1.0, CLAIM, samples=100_000, error=ERROR, probes=False)
    assert audit.cause == "bits" and audit.power is not None
    assert 1 < audit.power.epsilon < 1.3
    words = str(audit)
    assert "law      nothing was found on the grid, a test of this power:" in words
    assert "would have been found in most runs" in words
    assert audit.to_json()["cause"] == "bits" and audit.to_json()["floats"] == "keep"
    assert "violated by floating-point bits" in audit.to_html()


def test_own_tests_may_ask_for_the_law_alone() -> None:
    mechanism = added(laplace(1), 6)
    assert assert_private(mechanism, 0.0, 1.0, epsilon=1, samples=20_000, floats="ignore").floats == "ignore"
    with pytest.raises(AssertionError, match="floating-point bits"):
        assert_private(mechanism, 0.0, 1.0, epsilon=1, samples=20_000)
    with pytest.raises(AssertionError, match="scale or sensitivity"):
        assert_private(mechanism, 0.0, 1.0, epsilon="0.5", samples=20_000, floats="ignore")


class Floats64:
    """An engine that adds float noise to a count."""

    def __init__(self, scale: float) -> None:
        self.noise = added(laplace(scale), 8)

    def open(self, tables: Any) -> Any:
        return tables["t"]

    def ask(self, connection: Any, query: str) -> float:
        return float(self.noise(float(len(connection)), 1)[0])


@pytest.mark.parametrize(
    ("floats", "scale", "cause"), [("keep", 1, "bits"), ("ignore", 1, None), ("ignore", 0.3, "law")]
)
def test_an_engine_is_audited_by_its_law_alone_where_that_is_asked_for(
    floats: Floats, scale: float, cause: str | None
) -> None:
    given = [Neighbours({"t": []}, {"t": [{"uid": 1}]}, "one row more")]
    found = audit_sql(Floats64(scale), claimed=1, tables=given, candidates=1, samples=8000, error=ERROR, floats=floats)
    assert (found.cause, found.floats) == (cause, floats)


def test_the_bits_have_their_time_where_the_law_takes_all_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float | None] = []
    give = SequentialTest.give

    def giving(self: SequentialTest, seconds: float | None) -> None:
        given.append(seconds)
        give(self, seconds)

    monkeypatch.setattr(SequentialTest, "give", giving)
    audit = distinguish(added(on_a_public_grid(1), 7), 0.0, 1.0, CLAIM, seconds=2, error=ERROR, probes=False)
    law, bits = given
    assert law is not None and 1 < law <= 1.5
    assert bits is not None and 0 < bits < 0.75
    assert not audit.violated and audit.limit == 2


@pytest.mark.parametrize("audit", [distinguish, lambda m, x, y, claim, **no: refute(m, [(x, y)], claim, **no)])
def test_what_is_no_choice_is_refused(audit: Callable[..., Audit]) -> None:
    with pytest.raises(InvalidParameter, match="floats must be 'keep' or 'ignore', not 'drop'"):
        audit(added(laplace(1), 1), 0.0, 1.0, CLAIM, floats="drop")
