"""Draws the pictures of docs/how-much-did-that-cost.md beside this file: `python docs/pictures/draw.py`.

Another folder may be named: `python docs/pictures/draw.py FOLDER`. With one version of matplotlib the files are
the same, byte for byte, whenever they are drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

from discreet import plots
from discreet.accounting import gaussian, laplace, random_allocation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DELTA = 1e-6


def one_answer() -> Figure:
    """One Laplace answer, at two ε."""
    return plots.privacy({"ε = 0.1": laplace(10), "ε = 1": laplace(1)})


def many_answers() -> Figure:
    """What n answers cost: the sum of their ε, and what composition says at δ."""
    from matplotlib.figure import Figure

    counts = [1, 3, 8, 10, 12, 15, 20, 30, 50, 100, 200, 400, 1000]
    composed = [(laplace(10) * n).epsilon(DELTA) for n in counts]
    figure = Figure(figsize=(5.8, 4.2), layout="constrained", facecolor="white")
    axes = figure.subplots()
    axes.plot(counts, [n / 10 for n in counts], "--", color="#D55E00", linewidth=2, label="sum of the ε")
    axes.plot(counts, composed, "-", color="#0072B2", linewidth=2, label="ε at δ = 1e-06")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("Laplace answers of ε = 0.1 each", fontsize=11)
    axes.set_ylabel("ε", fontsize=11, rotation=0)
    axes.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1000"])
    axes.set_yticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axes.set_xlim(1, 1000)
    axes.set_ylim(0.08, 120)
    axes.grid(color="#E2E2E2", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=10, loc="upper left")
    return figure


def two_noises() -> Figure:
    """Laplace and Gaussian noise of the same standard deviation, 200 times."""
    losses = {"200 × Laplace": laplace(10) * 200, "200 × Gaussian": gaussian(14.142) * 200}
    return plots.privacy(losses, delta=DELTA)


def one_pass() -> Figure:
    """One pass over the data in 100 noisy steps, by three ways to choose who is in which."""
    losses = {
        "order known": gaussian(1),
        "Poisson samples": gaussian(1).poisson(0.01) * 100,
        "random allocation": random_allocation(1, 100),
    }
    figure = plots.delta(losses, delta=DELTA)
    axes = figure.axes[0]
    axes.texts[0].remove()  # it would stand on two of the curves; on the right there is none
    axes.text(6.75, 1.4 * DELTA, "δ = 1e-06", fontsize=10, horizontalalignment="right")
    return figure


def dp_sgd() -> Figure:
    """A thousand steps of DP-SGD on samples of 1 %."""
    return plots.privacy(gaussian(1).poisson(0.01) * 1000, delta=DELTA)


PICTURES: tuple[Callable[[], Figure], ...] = (one_answer, many_answers, two_noises, one_pass, dp_sgd)


def draw(folder: Path, suffix: str = ".svg") -> None:
    """Write every picture into the folder, under the name of its function."""
    # The salt makes the names inside an SVG file the same in every drawing.
    with mpl.rc_context({"svg.hashsalt": "discreet"}):
        for picture in PICTURES:
            plots.save(picture(), folder / (picture.__name__.replace("_", "-") + suffix))


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
