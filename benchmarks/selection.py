"""How many groups are shown: Gaussian rounds beside one round of equal weights and the optimal threshold.

`python -m benchmarks.selection [--people 50000] [--runs 5]` prints the number of groups that each shows in two worlds,
and how often more the rounds show. Nothing of it is timed. The people, and the draws of noise, follow from the seed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.convert import mu_squared_for
from discreet.mechanisms.additive import RoundedGaussianNoise
from discreet.mechanisms.gaussian import root_above
from discreet.mechanisms.rounds import WHOLE, GaussianRounds, Round, weight
from discreet.mechanisms.threshold import Threshold
from discreet.noise.entropy import Entropy, SystemEntropy
from discreet.privacy.exact import first_whole
from discreet.privacy.unit import Relation

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Person and group, each pair once."""

EPSILON, DELTA, MAX_GROUPS, DRAWS = Fraction(1), Fraction(1, 10**6), 20, 20
WORLDS = (("Zipf 1.5 over 20,000", 1.5, 20_000, 1.5), ("Zipf 1.05 over 200,000", 1.05, 200_000, 1.2))
"""Name, exponent, values, and how often more groups the rounds are to show than one round."""


@dataclass(frozen=True)
class Kept:
    """How many groups were shown in a run."""

    rounds: int
    one_round: int
    threshold: int


def world(people: int, exponent: float, values: int, seed: int) -> Pairs:
    """Return who has which groups, of so many draws each."""
    rng = np.random.default_rng(seed)
    chances = np.arange(1, values + 1, dtype=np.float64) ** -exponent
    drawn = rng.choice(values, (people, DRAWS), p=chances / chances.sum())
    person = np.repeat(np.arange(people), DRAWS)
    pairs = np.unique(person * values + drawn.ravel())
    return pairs // values, pairs % values


def in_rounds(pairs: Pairs, values: int, rounds: tuple[Round, ...], rng: Entropy) -> int:
    """Return how many groups the rounds show."""
    weights = np.array([0, *(weight(n) for n in range(1, DRAWS + 1))])
    shown = np.zeros(values, dtype=bool)
    for one in rounds:
        person, group = (x[~shown[pairs[1]]] for x in pairs)
        left = np.bincount(person)
        sums = np.bincount(group, weights[left[person]], minlength=values).astype(np.int64)
        present = np.flatnonzero(sums)
        shown[present[one.kept(sums[present].tolist(), rng)]] = True
    return int(shown.sum())


def in_one_round(pairs: Pairs, values: int, rng: Entropy) -> int:
    """Return how many groups one round shows to which each person gives the same weight, whatever they have."""
    mu_squared, each = mu_squared_for(EPSILON, DELTA / 2), weight(MAX_GROUPS)
    noise = RoundedGaussianNoise(root_above(WHOLE**2 / mu_squared))
    least = first_whole(lambda t: MAX_GROUPS * noise.tail(t - each - 1) / 2 <= DELTA / 2)
    one = Round(noise, least, DELTA / 2)
    counts = np.bincount(pairs[1], minlength=values)
    return sum(one.kept((counts[counts > 0] * each).tolist(), rng))


def kept(pairs: Pairs, values: int, rng: Entropy) -> Kept:
    """Return what each of the three shows."""
    rounds = GaussianRounds(EPSILON, DELTA, MAX_GROUPS, Relation.ADD_REMOVE).rounds
    threshold = Threshold(EPSILON, DELTA, MAX_GROUPS)
    counts = np.bincount(pairs[1], minlength=values)
    return Kept(
        in_rounds(pairs, values, rounds, rng),
        in_one_round(pairs, values, rng),
        sum(threshold.keep(counts[counts > 0], rng)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--people", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    rng = SystemEntropy()
    print(f"{asked.people:,} people with {DRAWS} draws each, ε = 1, δ = 1e-6, max_groups = {MAX_GROUPS}")
    print("| world | rounds | one round | threshold | × one round (target) | × threshold |")
    print("|---|---|---|---|---|---|")
    for name, exponent, values, target in WORLDS:
        found = [kept(world(asked.people, exponent, values, run), values, rng) for run in range(asked.runs)]
        rounds, one, known = (np.mean([getattr(k, n) for k in found]) for n in ("rounds", "one_round", "threshold"))
        print(
            f"| {name} | {rounds:,.0f} | {one:,.0f} | {known:,.0f} | {rounds / one:.2f} (≥ {target}) "
            f"| {rounds / known:.2f} |"
        )


if __name__ == "__main__":
    main()
