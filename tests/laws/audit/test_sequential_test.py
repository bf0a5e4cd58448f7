"""Tests that a sequential test forgets what was drawn while the manner of drawing changed, and keeps what it knew."""

import math
import time

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2_contingency, norm

from discreet.audit.claim import Claim
from discreet.audit.evidence.betting import Cuts, Wealth
from discreet.audit.learned import Learned
from discreet.audit.outputs.shape import Batch
from discreet.audit.sequential_test import SequentialTest, _clearest_apart

ERROR = 0.05


class Scripted:
    """Fair bits; in some draws all are `turned` instead, and what `manner` says changes in some."""

    def __init__(self, seed: int, *, turned: tuple[int, ...], changes: tuple[int, ...], bit: int) -> None:
        self._random = np.random.default_rng(seed)
        self._turned, self._changes, self._bit = turned, changes, bit
        self.draws = 0
        self.manner = 0

    def draw(self, n: int) -> NDArray[np.int64]:
        """n bits."""
        self.draws += 1
        self.manner += self.draws in self._changes
        if self.draws in self._turned:
            return np.full(n, self._bit, dtype=np.int64)
        return self._random.integers(0, 2, n)


def sequential_test(*, turned: tuple[int, ...], changes: tuple[int, ...], samples: int = 200_000) -> SequentialTest:
    one = Scripted(1, turned=turned, changes=changes, bit=0)
    two = Scripted(2, turned=turned, changes=(), bit=1)
    claim = Claim.of(0.1)
    return SequentialTest(one, two, claim, error=ERROR, samples=samples, until="end").run()


def draws(samples: int = 200_000) -> int:
    """The number of draws of a whole test."""
    one, two = (Scripted(s, turned=(), changes=(), bit=0) for s in (1, 2))
    SequentialTest(one, two, Claim.of(0.1), error=ERROR, samples=samples, until="end").run()
    return one.draws


@pytest.mark.parametrize("changed", [True, False])
def test_a_batch_during_which_the_manner_changed_is_no_evidence(changed: bool) -> None:
    first = (1, 2)  # what is drawn at first is learned from, and convicts of nothing
    assert not sequential_test(turned=(1,), changes=()).refuted
    found = sequential_test(turned=first, changes=(2,) if changed else ())
    assert found.refuted is not changed  # the same outputs convict where nothing else was amiss


def test_what_was_refuted_before_stays_refuted() -> None:
    last = draws()
    found = sequential_test(turned=tuple(range(1, last)), changes=(last,))
    assert found.refuted
    assert found.epsilon_lower > 1


class Bits:
    """Ones with some chance, and with another one after so many draws of single outputs."""

    def __init__(self, seed: int, chance: float, later: float | None = None, after: int = 0) -> None:
        self._random = np.random.default_rng(seed)
        self._chance, self._later, self._after = chance, chance if later is None else later, after
        self.drawn = 0
        self.manner = 0

    def draw(self, n: int) -> NDArray[np.int64]:
        """n bits."""
        at = np.arange(self.drawn, self.drawn + n)
        self.drawn += n
        chance = np.where(at < self._after, self._chance, self._later)
        return (self._random.random(n) < chance).astype(np.int64)


EXCESS = 0.5 * math.exp(-0.17)  # an ε of 0.17 against a fair coin, where 0.1 is claimed


def longer(seed: int, second: Bits, *, more: int) -> SequentialTest:
    found = SequentialTest(Bits(seed, 0.5), second, Claim.of(0.1), error=1e-6, samples=8000, more=more)
    return found.run()


def test_a_test_that_comes_near_to_refuting_a_claim_goes_on_until_it_does() -> None:
    # In 8,000 samples the excess is worth three standard deviations, and five are needed.
    for seed in range(5):
        short = longer(seed, Bits(seed + 100, EXCESS), more=0)
        assert not short.refuted
        assert short.spent == 8000
        long = longer(seed, Bits(seed + 100, EXCESS), more=56_000)
        assert long.refuted
        assert 8000 < long.spent <= 64_000


def test_a_claim_that_holds_with_nothing_to_spare_costs_few_samples_more() -> None:
    spent = []
    for seed in range(12):
        kept = longer(seed, Bits(seed + 100, 0.5 * math.exp(-0.1)), more=56_000)
        assert not kept.refuted
        spent.append(kept.spent)
    assert np.mean(spent) < 1.5 * 8000


def test_what_only_the_first_samples_promise_is_given_up() -> None:
    for seed in range(3):
        sound = 0.5 * math.exp(-0.1)
        found = longer(seed, Bits(seed + 100, EXCESS, later=sound, after=8000), more=56_000)
        assert not found.refuted
        assert 8000 < found.spent < 40_000


@pytest.mark.parametrize("spent", [16_000, 30_000, 64_000])
@pytest.mark.parametrize("z", [-3.0, -1.0, 0.0, 2.0, 4.0])
def test_hope_is_given_up_at_the_odds_of_walds_test(spent: int, z: float) -> None:
    """Against an excess that would be ten deviations when all samples are spent: by the law of one number."""
    found = SequentialTest(Bits(0, 0.5), Bits(1, 0.5), Claim.of(0.1), error=ERROR, samples=8000, more=56_000)
    found._first, found.spent = 8000, spent
    found._won = np.array([z * 60.0, 3600.0])
    hoped = 10 * math.sqrt((spent - 8000) / 56_000)
    assert found._fails() is bool(norm.logpdf(z, hoped) - norm.logpdf(z) < -4.0)


def lessons(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """How many outputs are learned from, and with which effort, in the order of learning."""
    found: list[tuple[int, int]] = []
    learn = Learned.of.__func__  # type: ignore[attr-defined]

    def of(cls: type[Learned], p: Batch, q: Batch, *, effort: int = 1, bits: bool = True) -> Learned:
        found.append((len(p), effort))
        learned: Learned = learn(cls, p, q, effort=effort, bits=bits)
        return learned

    monkeypatch.setattr(Learned, "of", classmethod(of))
    return found


def test_a_test_that_goes_on_learns_once_more_from_four_times_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.audit.sequential_test._PROMISING", -math.inf)
    monkeypatch.setattr("discreet.audit.sequential_test._ODDS", math.inf)
    found = lessons(monkeypatch)
    long = longer(0, Bits(100, 0.5 * math.exp(-0.1)), more=56_000)
    assert long.spent == 64_000
    (before, effort), (after, more) = found[-2:]
    assert (effort, more) == (1, 2)
    assert 4 * before <= after <= 4 * before + 64_000 // 12 + 1
    assert all(size <= 0.2 * 8000 + 8000 // 12 for size, _ in found[:-1])  # the others were in training


def test_a_test_that_goes_on_does_not_keep_what_is_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.audit.sequential_test._PROMISING", -math.inf)
    monkeypatch.setattr("discreet.audit.sequential_test._ODDS", math.inf)
    monkeypatch.setattr("discreet.audit.sequential_test._ROOM", 4000)
    found = lessons(monkeypatch)
    long = longer(0, Bits(100, 0.5 * math.exp(-0.1)), more=56_000)
    assert long.spent == 64_000
    assert {effort for _, effort in found} == {1}
    assert len(long._past) == 0


def test_a_test_for_bounds_keeps_nothing_that_it_does_not_learn_from(monkeypatch: pytest.MonkeyPatch) -> None:
    found = lessons(monkeypatch)
    one, two = Bits(0, 0.5), Bits(1, 0.5 * math.exp(-0.1))
    kept = SequentialTest(one, two, Claim.of(0.1), error=ERROR, samples=8000, more=56_000, until="end").begin()
    assert len(kept._past) == 0
    assert {effort for _, effort in found} == {1}


class Slow:
    """Vectors; the first draw takes its time, as one that compiles something."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._drawn = False

    def draw(self, n: int) -> NDArray[np.float64]:
        """n vectors of two."""
        if not self._drawn:
            time.sleep(0.3)
            self._drawn = True
        return np.round(self._random.laplace(0, 50, (n, 2)))


def test_a_slow_start_does_not_end_the_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time seems to suffice for a few outputs only, until it turns out that more can be drawn."""
    found = lessons(monkeypatch)
    one, two = Slow(0), Slow(1)
    began = (one._random.random((3000, 2)), two._random.random((3000, 2)))
    SequentialTest(one, two, Claim.of(1), error=ERROR, samples=100_000, seconds=30.0, began=began).begin()
    assert found[0][0] == 3000
    assert found[-1][0] >= 10_000


def deep(value: float) -> object:
    """A number in so many lists that it is no column."""
    found: object = value
    for _ in range(9):
        found = [found]
    return found


def test_what_teaches_nothing_does_not_end_the_learning() -> None:
    random = np.random.default_rng(0)
    began = [deep(x) for x in random.random(300)], [deep(x) for x in random.random(300)]
    one, two = (Scripted(k, turned=tuple(range(60)), changes=(), bit=k) for k in (0, 1))
    found = SequentialTest(one, two, Claim.of(0.1), error=ERROR, samples=1000, more=7000, began=began).run()
    assert found.refuted


def test_there_is_no_second_lesson_for_which_the_time_does_not_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.audit.sequential_test._PROMISING", -math.inf)
    monkeypatch.setattr("discreet.audit.sequential_test._ODDS", math.inf)
    for took, efforts in ((0.0, {1, 2}), (1000.0, {1})):
        with monkeypatch.context() as patch:
            found = lessons(patch)
            one, two = Bits(0, 0.5), Bits(1, 0.5 * math.exp(-0.1))
            test = SequentialTest(
                one, two, Claim.of(0.1), error=ERROR, samples=8000, more=56_000, seconds=300.0
            ).begin()
            test._took = took
            test.run()
            assert {effort for _, effort in found} == efforts
            assert len(test._past) == 0


def test_the_scores_that_are_kept_are_those_whose_laws_differ_most() -> None:
    random = np.random.default_rng(0)
    past, statistics = [], []
    for k in range(6):
        size = 3 + 2 * k
        p, q = (random.multinomial(5000, random.dirichlet(np.full(size, 300.0))) for _ in range(2))
        hits = [np.cumsum(x[::-1])[::-1][1:] for x in (p, q)]
        past.append(Cuts(np.arange(size - 1.0), 5000, *hits))
        statistics.append((chi2_contingency(np.stack([p, q])).statistic - size) / math.sqrt(size))
    assert _clearest_apart(past) == np.argsort(statistics)[::-1][:3].tolist()


def test_each_manner_has_a_part_of_the_error() -> None:
    found = sequential_test(turned=(), changes=())
    parts = []
    for era in range(60):
        found._era = era
        parts.append(found._part())
    assert math.fsum(parts) <= 1
    assert min(parts) > 0


@pytest.fixture
def insistent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that go on whatever they have seen, as often as they can."""
    monkeypatch.setattr("discreet.audit.sequential_test._PROMISING", -math.inf)
    monkeypatch.setattr("discreet.audit.sequential_test._ODDS", math.inf)
    monkeypatch.setattr(Wealth, "needed", lambda wealth, past: 0)


@pytest.mark.usefixtures("insistent")
def test_however_often_a_test_goes_on_its_wealths_share_the_error() -> None:
    errors: list[float] = []

    class Recorded(SequentialTest):
        def _new_wealth(self) -> Wealth:
            made = super()._new_wealth()
            errors.append(math.exp(-made.target))
            return made

    one = Scripted(1, turned=(), changes=(3, 20, 40), bit=0)
    two = Scripted(2, turned=(), changes=(12, 20), bit=0)
    found = Recorded(one, two, Claim.of(0.1), error=ERROR, samples=2000, more=6000, effort=0).run()
    assert found.spent == 8000
    assert len(errors) >= 6
    # Half of the error is for the verdict, half for each bound.
    assert math.fsum(errors) <= ERROR / 2 * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("insistent")
@pytest.mark.parametrize(("epsilon", "wrong"), [(0.5, False), (1.0, True)])
def test_a_test_that_always_goes_on_accuses_no_more_often_than_stated(epsilon: float, wrong: bool) -> None:
    error, audits = 0.3, 150
    truth = 1 / (1 + math.exp(-epsilon))
    found = [
        SequentialTest(
            Bits(2 * k, truth), Bits(2 * k + 1, 1 - truth), Claim.of(0.5), error=error, samples=400, more=800, effort=0
        ).run()
        for k in range(audits)
    ]
    accused = sum(one.refuted for one in found)
    above = sum(one.epsilon_lower > epsilon for one in found)
    assert binom.sf(above - 1, audits, error) > 1e-9
    assert bool(binom.sf(accused - 1, audits, error) < 1e-9) is wrong
