"""Draws the pictures of the documents beside this file: `python docs/pictures/draw.py`.

Another folder may be named: `python docs/pictures/draw.py FOLDER`. With one version of Altair and of vl-convert the
files are the same, byte for byte, whenever they are drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import altair as alt

from discreet import mechanisms, plots
from discreet.accounting import gaussian, laplace, random_allocation
from discreet.plots.style import COLOURS, DASHES, HIGH, dressed
from discreet.plots.vega import Picture, inline

DELTA = 1e-6


def one_answer() -> Picture:
    """One Laplace answer, at two ε."""
    return plots.privacy({"ε = 0.1": laplace(10), "ε = 1": laplace(1)})


def many_answers() -> Picture:
    """What n answers cost: the sum of their ε, and what composition says at δ."""
    counts = [1, 3, 8, 10, 12, 15, 20, 30, 50, 100, 200, 400, 1000]
    lines = {"sum of the ε": [n / 10 for n in counts]}
    lines["ε at δ = 1e-06"] = [(laplace(10) * n).epsilon(DELTA) for n in counts]
    rows = [
        {"n": n, "epsilon": e, "how": how} for how, found in lines.items() for n, e in zip(counts, found, strict=True)
    ]
    names = list(lines)
    log, powers = alt.Scale(type="log", nice=False), [0.1, 1, 10, 100, 1000]
    chart = (
        alt.Chart(inline(rows), width=460, height=HIGH)
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("n:Q", title="Laplace answers of ε = 0.1 each", scale=log, axis=alt.Axis(values=powers)),
            y=alt.Y("epsilon:Q", title="ε", scale=log, axis=alt.Axis(values=powers, format="~g", titleAngle=0)),
            color=alt.Color("how:N", scale=alt.Scale(domain=names, range=[COLOURS[1], COLOURS[0]])),
            strokeDash=alt.StrokeDash("how:N", scale=alt.Scale(domain=names, range=[DASHES[1], DASHES[0]])),
        )
    )
    return dressed(chart)


def two_noises() -> Picture:
    """Laplace and Gaussian noise of the same standard deviation, 200 times."""
    losses = {"200 × Laplace": laplace(10) * 200, "200 × Gaussian": gaussian(14.142) * 200}
    return plots.privacy(losses, delta=DELTA)


def one_pass() -> Picture:
    """One pass over the data in 100 noisy steps, by three ways to choose who is in which."""
    losses = {
        "order known": gaussian(1),
        "Poisson samples": gaussian(1).poisson(0.01) * 100,
        "random allocation": random_allocation(1, 100),
    }
    return plots.delta(losses, delta=DELTA)


def dp_sgd() -> Picture:
    """A thousand steps of DP-SGD on samples of 1 %."""
    return plots.privacy(gaussian(1).poisson(0.01) * 1000, delta=DELTA)


def two_neighbours() -> Picture:
    """Gaussian noise at (1, 0.05) on two neighbours, and the answers of which δ consists."""
    return plots.densities(mechanisms.Gaussian(epsilon=1, delta="0.05"), 10, 11, log=False)


def what_is_believed() -> Picture:
    """What an answer may do to a belief, at three ε."""
    return plots.posterior({"ε = 0.1": 0.1, "ε = 1": 1, "ε = 3": 3}, prior=0.1)


def error_by_epsilon() -> Picture:
    """How exact a count is, by two noises."""
    makers: dict[str, Callable[..., object]] = {
        "Laplace": mechanisms.Laplace,
        "Gaussian, δ = 1e-6": lambda e: mechanisms.Gaussian(epsilon=e, delta=DELTA),
    }
    return plots.error(makers, unit="people")


PICTURES: tuple[Callable[[], Picture], ...] = (
    one_answer,
    many_answers,
    two_noises,
    one_pass,
    dp_sgd,
    two_neighbours,
    what_is_believed,
    error_by_epsilon,
)


def draw(folder: Path, suffix: str = ".svg") -> None:
    """Write every picture into the folder, under the name of its function."""
    for picture in PICTURES:
        plots.save(picture(), folder / (picture.__name__.replace("_", "-") + suffix))


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
