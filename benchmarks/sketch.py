"""Private sketches of vectors: error against the exact kernel sum, digits told apart, and time.

`python -m benchmarks.sketch --housing california_housing.csv --images t10k-images-idx3-ubyte.gz --labels
t10k-labels-idx1-ubyte.gz` takes the places of 20,640 block groups and the 10,000 test digits of MNIST from these
files; what is not given is left out. Of the digits 8,000 are sketched and 2,000 are asked which they are; the density
of all is compared with the exact one as well. Without any it measures made-up rows.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

if __package__ in (None, ""):  # `python benchmarks/sketch.py` works too
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from numpy.typing import NDArray

from benchmarks.runner import Claim, Contender, Timing, alternate, save, table
from discreet.sketch import DensitySketch, SketchClassifier

Floats = NDArray[np.float64]
DELTA = 1e-6
LAWS = (("no noise to speak of", 10**9, 0.0), ("ε = 1", 1, 0.0), ("ε = 1, δ = 1e-6", 1, DELTA))
NEAR = {"kernel": "l2", "bandwidth": "0.25", "power": 2}
ANGLES = {"kernel": "angular", "power": 6}  # angles are seen from the middle of the ranges, which is black
DRAWN = np.random.default_rng(20)


@dataclass(frozen=True)
class World:
    """Rows whose density is measured, and the kernel: distances where each range has width 1, or angles from 0."""

    name: str
    rows: Floats
    ranges: list[tuple[float, float]]
    kernel: dict[str, Any]

    def near(self, points: Floats) -> list[Floats]:
        """For each point how near it is to all rows, as the kernel takes it."""
        if self.kernel["kernel"] == "angular":
            unit = self.rows / np.linalg.norm(self.rows, axis=1, keepdims=True)
            cosines = (points / np.linalg.norm(points, axis=1, keepdims=True)) @ unit.T
            return list(np.arccos(np.clip(cosines, -1, 1)))
        width = np.array([high - low for low, high in self.ranges])
        return [np.sqrt((((p - self.rows) / width) ** 2).sum(axis=1)) for p in points]


def exact(sketch: DensitySketch, world: World, points: Floats) -> Floats:
    """The kernel sum that a sketch estimates."""
    return np.array([float(sketch.kernel(d).sum()) for d in world.near(points)])


def density(world: World) -> tuple[list[Timing], list[Claim]]:
    """Scores at 200 of the rows beside the exact ones; errors are shares of the number of rows."""
    rows = world.rows
    points = rows[DRAWN.choice(len(rows), 200, replace=False)]
    claims, contenders = [], []
    for what, epsilon, delta in LAWS:
        repetitions = 1000 if delta or epsilon > 1 else 100
        made = DensitySketch(
            epsilon=epsilon,
            delta=delta,
            dimension=rows.shape[1],
            ranges=world.ranges,
            repetitions=repetitions,
            **world.kernel,
        )
        truth = exact(made, world, points)
        off = [made.fit(rows).score(points) - truth for _ in range(5)]
        share = float(np.sqrt(np.mean(np.square(off)))) / len(rows)
        bias = abs(float(np.mean(off))) / len(rows)
        label = f"{world.name}, {what}, {repetitions} repetitions"
        claims.append(Claim(f"{label}: error of a density", 100 * share, 5.0 if repetitions == 100 else 2.0, "%"))
        claims.append(Claim(f"{label}: what remains of it on average", 100 * bias, 2.0, "%"))
        contenders.append(Contender(f"{label}: fit", partial(made.fit, rows)))
    fitted = made.fit(rows)
    contenders.append(Contender("200 points, sketch", partial(fitted.score, points)))
    contenders.append(Contender("200 points, exact", partial(exact, made, world, points)))
    return alternate(contenders, rounds=3), claims


def digits(images: Floats, labels: NDArray[np.uint8]) -> tuple[list[Timing], list[Claim]]:
    """How many of 2,000 digits are named rightly, after 8,000 others."""
    order = DRAWN.permutation(len(images))
    known, asked = order[:8_000], order[8_000:10_000]
    claims, contenders = [], []
    for what, epsilon, delta, power, least in (
        ("no noise to speak of", 10**9, 0.0, 16, 0.8),
        ("ε = 1", 1, 0.0, 5, 0.55),
        ("ε = 1, δ = 1e-6", 1, DELTA, 6, 0.7),
        ("ε = 4, δ = 1e-6", 4, DELTA, 8, 0.7),
    ):
        made = SketchClassifier(
            epsilon=epsilon,
            delta=delta,
            classes=range(10),
            dimension=784,
            ranges=(-255, 255),
            kernel="angular",
            power=power,
            repetitions=60 if epsilon == 1 and not delta else 300,
            buckets=64 if epsilon < 10 else 4096,
        )
        found: list[Any] = []
        fit: Callable[[], object] = partial(_told, made, images[known], labels[known], images[asked], found)
        contenders.append(Contender(f"digits, {what}: fit and 2,000 questions", fit))
        fit()
        right = float(np.mean(np.array(found[-1]) == labels[asked]))
        claims.append(Claim(f"digits, {what}: named rightly", 100 * right, 100 * least, "%", at_least=True))
    return alternate(contenders, rounds=1, warmup=0), claims


def _told(made: SketchClassifier, rows: Floats, labels: NDArray[np.uint8], asked: Floats, found: list[Any]) -> None:
    found.append(made.fit(rows, labels).predict(asked))


def housing(path: Path) -> Floats:
    """Longitude and latitude of each block group."""
    return np.asarray(np.genfromtxt(path, delimiter=",", skip_header=1, usecols=(0, 1)))


def idx(path: Path, head: int) -> NDArray[np.uint8]:
    """The bytes of an IDX file after its head."""
    return np.frombuffer(gzip.decompress(path.read_bytes())[head:], dtype=np.uint8)


def main() -> None:
    """Measures, prints the tables and the targets, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--housing", type=Path)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--labels", type=Path)
    options = parser.parse_args()
    parts: dict[str, tuple[list[Timing], list[Claim]]] = {}
    if options.housing:
        parts["places of houses"] = density(World("housing", housing(options.housing), [(-125, -113), (32, 43)], NEAR))
    if options.images and options.labels:
        images = idx(options.images, 16).reshape(-1, 784).astype(np.float64)
        parts["digits"] = digits(images, idx(options.labels, 8))
        parts["density of digits"] = density(World("images", images, [(-255, 255)] * 784, ANGLES))
    if not parts:
        made_up = np.clip(np.concatenate([DRAWN.normal(c, 0.05, (10_000, 4)) for c in (0.3, 0.7)]), 0, 1)
        parts["made-up rows"] = density(World("made-up rows", made_up, [(0, 1)] * 4, NEAR))
    for title, (timings, _) in parts.items():
        print(f"\n{title}\n{table(timings, baseline=timings[0].name)}")
    found = [claim for _, claims in parts.values() for claim in claims]
    print("", *found, sep="\n")
    print(save("sketch", {title: timings for title, (timings, _) in parts.items()}, found))


if __name__ == "__main__":
    main()
