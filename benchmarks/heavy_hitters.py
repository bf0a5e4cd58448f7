"""Heavy hitters among a million texts on a million devices at ε = 2: time, and recall against the truth.

    python -m benchmarks.heavy_hitters [--users 1000000] [--texts 1000000] [--rounds 3] [--exponent 1.0 1.5]

Texts follow Zipf's law. Two protocols: `LocalHashing.find`, which has the list of all texts, and `HeavyHitters.find`,
which has only an alphabet of 36 characters and the length 8. Beside them, what one value costs when local hashing is
decoded by its definition, each report against each value.
"""

from __future__ import annotations

import argparse
import string
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # `python benchmarks/heavy_hitters.py` works too
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.runner import Claim, Contender, Timing, alternate, save, table
from discreet.local import HeavyHitters, LocalHashing

ALPHABET = string.ascii_lowercase + string.digits
LENGTH = 8
EPSILON = 2
ERROR = "0.05"
BY_DEFINITION = 20  # values that are looked up one by one
NUMPY = np.random.default_rng()


@dataclass(frozen=True, slots=True)
class World:
    """Who holds what, most frequent text first."""

    words: list[str]
    held: list[str]
    counts: np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How much of the truth was found.

    Attributes:
        listed: texts that were listed.
        false: of them, those that no device holds.
        best: how many of the most frequent ones were listed before the first was missed.
        shares: for several shares, (found, there) of the texts that are held by so many devices.
    """

    listed: int
    false: int
    best: int
    shares: dict[float, tuple[int, int]]


def world(users: int, texts: int, exponent: float) -> World:
    """Texts of 6 to 8 random characters, held by Zipf's law."""
    letters = NUMPY.choice(list(ALPHABET), (texts + texts // 20, LENGTH))
    drawn = ("".join(row) for row in letters.tolist())
    words = list({w[: LENGTH - i % 3]: None for i, w in enumerate(drawn)})[:texts]
    share = np.arange(1, texts + 1) ** -exponent
    places = NUMPY.choice(texts, users, p=share / share.sum())
    return World(words, [words[i] for i in places.tolist()], np.bincount(places, minlength=texts))


def outcome(found: tuple[object, ...], truth: World, shares: tuple[float, ...]) -> Outcome:
    """The listed texts against the counts of the devices."""
    rank = {w: i for i, w in enumerate(truth.words)}
    listed = {rank.get(str(text), -1) for text in found}
    order = np.argsort(-truth.counts, kind="stable").tolist()
    best = next((k for k, i in enumerate(order) if i not in listed), len(order))
    users = len(truth.held)
    reach = {}
    for share in shares:
        there = np.flatnonzero(truth.counts >= share * users).tolist()
        reach[share] = sum(i in listed for i in there), len(there)
    false = sum(i < 0 or not truth.counts[i] for i in listed)
    return Outcome(len(listed), false, best, reach)


def measured(
    name: str, randomizer: LocalHashing | HeavyHitters, truth: World, rounds: int, shares: tuple[float, ...]
) -> tuple[list[Timing], list[Outcome]]:
    """Both halves, each round with fresh coins."""
    outcomes: list[Outcome] = []
    reports = randomizer.randomize(truth.held)

    def devices() -> None:
        nonlocal reports
        reports = randomizer.randomize(truth.held)

    def server() -> None:
        outcomes.append(outcome(randomizer.find(reports, error=ERROR).labels, truth, shares))

    timings = alternate(
        [Contender(f"{name}: devices", devices), Contender(f"{name}: server", server)], rounds=rounds, warmup=0
    )
    return timings, outcomes


def decoding(oracle: LocalHashing, reports: Any, rounds: int) -> list[Timing]:
    """All values by the transform, and a few by the definition: each report against each value."""

    def by_definition() -> None:
        for place in range(BY_DEFINITION):
            oracle.law.supports(reports, place).sum()

    return alternate(
        [
            Contender("all values by one transform", lambda: oracle.law.totals(reports)),
            Contender(f"{BY_DEFINITION} values by definition", by_definition),
        ],
        rounds=rounds,
    )


def tell(name: str, outcomes: list[Outcome]) -> None:
    """One line for each share."""
    print(
        f"{name}: listed {[o.listed for o in outcomes]}, of which nobody holds {[o.false for o in outcomes]}; "
        f"the first {[o.best for o in outcomes]} of the most frequent"
    )
    for share in outcomes[0].shares:
        found = sum(o.shares[share][0] for o in outcomes)
        there = sum(o.shares[share][1] for o in outcomes)
        said = f"{found / there:.1%}" if there else "none there"
        print(f"    held by at least {share:.2%} of the devices: {found} of {there} found ({said})")


def main() -> None:
    """Prints times, recall and false finds, and saves them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--exponent", type=float, nargs="+", default=[1.0, 1.5])
    options = parser.parse_args()
    parts: dict[str, list[Timing]] = {}
    claims: list[Claim] = []
    for exponent in options.exponent:
        started = time.perf_counter()
        truth = world(options.users, options.texts, exponent)
        print(f"\nZipf exponent {exponent:g} (made in {time.perf_counter() - started:.1f} s)")
        listed = LocalHashing(truth.words, epsilon=EPSILON)
        unlisted = HeavyHitters(epsilon=EPSILON, length=LENGTH, alphabet=ALPHABET)
        print(f"open domain: levels {unlisted.levels}")
        for name, randomizer, shares, sure in (
            ("known list", listed, (0.02, 0.01, 0.007, 0.006, 0.005, 0.004), 0.006),
            ("open domain", unlisted, (0.05, 0.02, 0.014, 0.01, 0.007), 0.01),
        ):
            timings, outcomes = measured(name, randomizer, truth, options.rounds, shares)
            title = f"{name}, exponent {exponent:g}"
            parts[title] = timings
            print("", table(timings, baseline=timings[0].name), sep="\n")
            tell(title, outcomes)
            wall = sum(t.wall for t in timings)
            found = sum(o.shares[sure][0] for o in outcomes)
            there = max(1, sum(o.shares[sure][1] for o in outcomes))
            claims += [
                Claim(f"{title}: devices and server", wall, 60, "s"),
                Claim(f"{title}: recall of what {sure:.1%} hold", found / there, 0.95, "", at_least=True),
                Claim(f"{title}: false finds a run", sum(o.false for o in outcomes) / len(outcomes), 0.5, ""),
            ]
        if exponent == options.exponent[0]:
            one = decoding(listed, listed.randomize(truth.held), options.rounds)
            parts["decoding"] = one
            print("", table(one, baseline=one[0].name), sep="\n")
            ratio = one[1].ratio(one[0])[0] * options.texts / BY_DEFINITION
            claims.append(Claim("decoding by definition ÷ by transform", ratio, 1000, at_least=True))
    print("", *claims, sep="\n")
    print(save(f"heavy-hitters-{options.users}", parts, claims))


if __name__ == "__main__":
    main()
