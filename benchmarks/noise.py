"""Exact noise against numpy's float samplers, which are fast and unsafe; scalars, fresh scales, selection.

    python -m benchmarks.noise [--size 1000000] [--rounds 7] [--peers]

`--peers` adds OpenDP's vector Laplace and Gaussian (`python -m benchmarks.peers opendp` installs it).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import count
from pathlib import Path

if __package__ in (None, ""):  # `python benchmarks/noise.py` works too
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks import peers
from benchmarks.runner import Claim, Contender, Timing, alternate, in_subprocess, save, table
from discreet.noise import gaussian, laplace, selection
from discreet.noise.entropy import Entropy, SystemEntropy

SCALES = [Fraction(s) for s in ("1", "3", "10/3", "10", "100", "300", "1000", "10000")]
SCALES += [Fraction(1 << k) for k in (20, 30, 40)]
SCALAR_SCALES = [Fraction(1, 10), Fraction(1), Fraction(10), Fraction(1000), Fraction(1 << 40), Fraction(1 << 56)]
SCALAR_SCALES.append(Fraction(10**30 + 1, 3 * 10**29))
DRAWS = 2_000  # scalars of one measurement
NEVER_SEEN = count(10**6)
RNG = SystemEntropy()
NUMPY = np.random.default_rng()


def fresh(scale: Fraction, draw: Callable[[Fraction], object]) -> object:
    """A draw at a scale that was never seen, with its set-up."""
    return draw(scale + Fraction(1, next(NEVER_SEEN)))


def vectors(scale: Fraction, size: int, rounds: int) -> tuple[list[Timing], list[Claim]]:
    """All vector samplers of one scale, in turns with numpy's."""
    kinds: dict[str, Callable[[Fraction], object]] = {
        "Laplace": lambda s: laplace.sample_vector(s, size, RNG),
        "rounded Gaussian": lambda s: gaussian.rounded_vector(s, size, RNG),
        "discrete Gaussian": lambda s: gaussian.discrete_vector(s * s, size, RNG),
    }
    timings = alternate(
        [
            Contender("numpy laplace", partial(NUMPY.laplace, 0.0, float(scale), size)),
            Contender("numpy normal", partial(NUMPY.normal, 0.0, float(scale), size)),
            *(Contender(name, partial(draw, scale)) for name, draw in kinds.items()),
            *(Contender(f"{name}, fresh scale", partial(fresh, scale, draw)) for name, draw in kinds.items()),
        ],
        rounds=rounds,
    )
    by = {t.name: t for t in timings}
    claims = [
        Claim(f"{ours}, scale {scale}, ÷ {base}", by[ours].ratio(by[base])[0], limit)
        for name, base, limit in (
            ("Laplace", "numpy laplace", 1.3),
            ("rounded Gaussian", "numpy normal", 1.8),
            ("discrete Gaussian", "numpy normal", 1.8),
        )
        for ours in (name, f"{name}, fresh scale")
    ]
    return timings, claims


def scalars(rounds: int) -> tuple[list[Timing], list[Claim]]:
    """One draw at a time; the table's numbers are for DRAWS of them."""
    kinds: dict[str, Callable[[Fraction], int]] = {
        "Laplace": lambda s: laplace.sample(s, RNG),
        "rounded Gaussian": lambda s: gaussian.rounded(s, RNG),
        "discrete Gaussian": lambda s: gaussian.discrete(s * s, RNG),
    }

    def many(draw: Callable[[Fraction], int], scale: Fraction) -> None:
        for _ in range(DRAWS):
            draw(scale)

    contenders = [
        Contender(f"{name}, scale {float(scale):g}", partial(many, draw, scale))
        for name, draw in kinds.items()
        for scale in SCALAR_SCALES
    ]
    timings = alternate(contenders, rounds=rounds)
    return timings, [Claim(f"one draw: {t.name}", 1e6 * t.cpu / DRAWS, 20, "µs") for t in timings]


def releases(rounds: int) -> tuple[list[Timing], list[Claim]]:
    """Twenty noisy counts at a scale that was never seen, and selection among 1e5 candidates."""

    def few(draw: Callable[[Fraction, int, Entropy], object], scale: Fraction) -> object:
        return draw(scale, 20, RNG)

    seven = Fraction(7)
    utilities = NUMPY.integers(0, 10_000, 100_000)
    timings = alternate(
        [
            Contender("20 Laplace, fresh scale", partial(fresh, seven, partial(few, laplace.sample_vector))),
            Contender("20 Gaussian, fresh scale", partial(fresh, seven, partial(few, gaussian.rounded_vector))),
            Contender("exponential, 1e5", lambda: selection.exponential(utilities, Fraction(1, 100), RNG)),
            Contender("permute-and-flip, 1e5", lambda: selection.permute_and_flip(utilities, Fraction(1, 100), RNG)),
            Contender("noisy max, 1e5", lambda: selection.noisy_max(utilities, Fraction(100), RNG)),
        ],
        rounds=3 * rounds,
    )
    limits = [2.0, 2.0, 5.0, 5.0, 5.0]
    return timings, [Claim(t.name, 1e3 * t.cpu, limit, "ms") for t, limit in zip(timings, limits, strict=True)]


def against_opendp(size: int, rounds: int) -> tuple[list[Timing], list[Claim]]:
    """How many times faster than OpenDP's vectors of the same size and scale."""
    python = peers.python_of("opendp")
    if python is None:
        print("OpenDP is left out: make its environment with `python -m benchmarks.peers opendp`")
        return [], []
    timings, claims = [], []
    for name, draw in (("laplace", laplace.sample_vector), ("gaussian", gaussian.rounded_vector)):
        for scale in (1, 1000, 1 << 20):
            peer = partial(in_subprocess, "benchmarks.noise_opendp", name, str(scale), str(size), python=python)
            pair = alternate(
                [
                    Contender(f"{name}, scale {scale}", partial(draw, Fraction(scale), size, RNG)),
                    Contender(f"OpenDP {name}, scale {scale}", peer),
                ],
                rounds=rounds,
            )
            timings += pair
            faster = pair[1].ratio(pair[0])[0]
            claims.append(Claim(f"{name}, scale {scale}: OpenDP ÷ ours", faster, 300, at_least=True))
    return timings, claims


def show(title: str, timings: Sequence[Timing], baseline: str) -> None:
    """One table."""
    print(f"\n{title}\n{table(timings, baseline=baseline)}")


def main() -> None:
    """Measures, prints the tables and the targets, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", action="store_true", help="OpenDP too, where its environment was made")
    options = parser.parse_args()
    parts: dict[str, tuple[list[Timing], list[Claim]]] = {}
    for scale in SCALES:
        title = f"{options.size:,} draws, scale {scale}"
        parts[title] = vectors(scale, options.size, options.rounds)
        show(title, parts[title][0], "numpy normal")
    parts[f"{DRAWS:,} single draws"] = scalars(options.rounds)
    parts["releases and selection"] = releases(options.rounds)
    for title in list(parts)[-2:]:
        show(title, parts[title][0], parts[title][0][0].name)
    if options.peers:
        timings, claims = against_opendp(options.size, 2)
        if timings:
            parts[f"{options.size:,} draws beside OpenDP"] = timings, claims
            show(f"{options.size:,} draws beside OpenDP", timings, timings[0].name)
    print("", *(claim for _, found in parts.values() for claim in found), sep="\n")
    found = [claim for _, part in parts.values() for claim in part]
    print(save(f"noise-{options.size}", {title: timings for title, (timings, _) in parts.items()}, found))


if __name__ == "__main__":
    main()
