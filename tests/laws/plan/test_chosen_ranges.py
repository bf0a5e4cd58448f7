"""Means under chosen ranges, over twelve distributions: what their intervals and stated shares promise is kept."""

from __future__ import annotations

import pytest

from benchmarks.chosen_ranges import ENOUGH, Tally, bar, tallies
from discreet.mechanisms.additive import DiscreteLaplaceNoise


def kept(found: dict[tuple[str, int], Tally]) -> list[bool]:
    """Whether finite intervals cover, stated shares hold, and nearly all intervals are finite from enough rows on."""
    together = sum(found.values(), Tally())
    many = sum((t for (_, n), t in found.items() if n >= ENOUGH), Tally())
    return [
        together.covered >= bar(0.95, together.finite) * together.finite,
        together.held >= bar(0.975, together.runs) * together.runs,
        many.finite >= bar(0.95, many.runs) * many.runs,
    ]


def test_finite_intervals_cover_and_the_stated_share_holds() -> None:
    found = tallies((50, 500, ENOUGH, 20_000), 25, 20_261_124)
    assert all(kept(found)), found
    assert sum(t.finite for (_, n), t in found.items() if n == 50) == 0


@pytest.mark.parametrize("part", [2, 1])
def test_a_limit_from_a_part_of_the_noise_is_refused(monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    """With a half of the quantile stated shares are too small more often than promised; with all of it they are not."""
    quantile = DiscreteLaplaceNoise.quantile

    def smaller(noise: DiscreteLaplaceNoise, confidence: object) -> int:
        return quantile(noise, confidence) // part  # type: ignore[arg-type]

    with monkeypatch.context() as changed:
        changed.setattr("discreet.mechanisms.additive.DiscreteLaplaceNoise.quantile", smaller)
        found = tallies((20_000,), 60, 20_261_124)
    heavy = sum((t for (name, _), t in found.items() if name.startswith(("1 in", "Pareto"))), Tally())
    assert (heavy.held >= bar(0.975, heavy.runs) * heavy.runs) == (part == 1), heavy
