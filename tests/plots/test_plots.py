"""What is drawn is what was asked: the curves' own numbers, the mark, the labels."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from discreet import accounting, plots
from discreet.errors import InvalidParameter, MissingExtra
from discreet.plots.distribution import law
from discreet.plots.style import ticks
from tests.plots.seen import parts, rows, words

GAUSSIAN = accounting.gaussian(noise_multiplier=1)


def line(chart: object, x: str, y: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The points of the curves that have these two columns."""
    points = rows(chart, "series", x, y)
    return np.array([p[x] for p in points]), np.array([p[y] for p in points])


def test_the_picture_of_gaussian_noise_has_both_of_its_curves() -> None:
    chart = plots.privacy(GAUSSIAN)
    epsilon, delta = line(chart, "epsilon", "delta")
    truth = stats.norm.cdf(0.5 - epsilon) - np.exp(epsilon) * stats.norm.cdf(-0.5 - epsilon)
    assert delta == pytest.approx(truth, rel=1e-3)  # the last of them cancel in floating point
    assert epsilon[0] == 0
    level, missed = line(chart, "alarm", "miss")
    assert missed == pytest.approx(stats.norm.cdf(stats.norm.isf(level) - 1), abs=1e-9)
    assert (missed <= 1 - level + 1e-12).all()


def test_the_curve_of_delta_has_a_logarithmic_axis() -> None:
    scales = [p["encoding"]["y"].get("scale", {}) for p in parts(plots.delta(GAUSSIAN)) if "encoding" in p]
    assert {s.get("type") for s in scales} == {"log"}


def test_the_asked_delta_is_marked_with_its_epsilon() -> None:
    chart = plots.delta(GAUSSIAN, delta="1e-5")
    assert "ε = 4.377 at δ = 1e-05" in words(chart)  # Balle, Wang 2018, Theorem 8
    (mark,) = rows(chart, "x", "y", "colour")
    assert mark["x"] == pytest.approx(4.377, abs=1e-3)


def test_several_losses_have_labels_marks_colours_and_dashes_of_their_own() -> None:
    losses = {"a": GAUSSIAN, "b": accounting.laplace(1), "c": accounting.approximate(1, 1e-5)}
    chart = plots.privacy(losses, delta="1e-6")
    coloured = [p["encoding"] for p in parts(chart) if "strokeDash" in p.get("encoding", {})]
    assert len(coloured) == 2
    for encoding in coloured:
        for channel in ("color", "strokeDash"):
            scale = encoding[channel]["scale"]
            assert scale["domain"] == ["a", "b", "c"]
            assert len({str(look) for look in scale["range"]}) == 3
    assert len(rows(chart, "x", "y", "colour")) == 2  # 1e-5 is spent apart by the third


def test_a_pure_loss_ends_at_its_epsilon() -> None:
    epsilon, delta = line(plots.delta(accounting.pure(2)), "epsilon", "delta")
    assert delta[epsilon < 1.99].min() > 1e-3
    assert delta[epsilon >= 2].max() < 1e-10


def test_a_delta_that_is_spent_apart_stays_in_the_picture() -> None:
    loss = accounting.approximate("0.5", "1e-4")
    chart = plots.delta(loss, delta="1e-4")
    epsilon, delta = line(chart, "epsilon", "delta")
    assert delta[epsilon > 0.51] == pytest.approx(1e-4, rel=1e-6)
    assert "ε = 0.5 at" in words(chart)


def test_no_loss_at_all_is_the_diagonal_and_says_so() -> None:
    chart = plots.privacy({"none": accounting.pure(0)})
    level, missed = line(chart, "alarm", "miss")
    assert missed == pytest.approx(1 - level, abs=1e-12)
    assert "none: δ = 0 at every ε" in words(chart)


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="at least one"):
        plots.privacy({})
    with pytest.raises(InvalidParameter, match="delta"):
        plots.privacy(GAUSSIAN, delta=0)


@pytest.mark.system
def test_altair_is_loaded_only_to_draw() -> None:
    code = (
        "import sys; from discreet import accounting, plots; "
        "assert not {'altair', 'vl_convert'} & set(sys.modules); plots.tradeoff(accounting.gaussian(1)); "
        "assert 'altair' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("module", "name"), [("altair", "Altair"), ("vl_convert", "vl-convert")])
def test_without_the_extra_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for draw in (lambda: plots.privacy(GAUSSIAN), lambda: plots.check("x.svg")):
        with pytest.raises(MissingExtra, match=f"need {name}") as caught:
            draw()
        assert "discreet[plots]" in caught.value.hint


def test_the_law_of_the_loss_of_gaussian_noise_is_gaussian() -> None:
    places, mass = law(GAUSSIAN)  # μ = 1: N(1/2, 1)
    width = places[1] - places[0]
    truth = stats.norm.cdf(places + width / 2, 0.5) - stats.norm.cdf(places - width / 2, 0.5)
    inner = slice(1, -1)  # what lies beyond the ends is at the ends, or nowhere
    assert mass[inner] == pytest.approx(truth[inner], abs=1e-3)
    assert not np.allclose(mass[inner], np.roll(truth, 1)[inner], atol=1e-3)
    assert float(mass @ places) == pytest.approx(0.5, abs=0.01)


def test_the_law_of_a_pure_loss_has_two_values() -> None:
    places, mass = law(accounting.pure(1))
    assert (places[0], places[-1]) == (-1, 1)
    assert mass[-1] == pytest.approx(math.e / (1 + math.e))
    assert mass[0] == pytest.approx(1 / (1 + math.e))
    assert mass[1:-1] == pytest.approx(np.zeros(len(mass) - 2), abs=1e-9)


def test_losses_beyond_the_marked_epsilon_are_told_apart() -> None:
    chart = plots.privacy_loss(GAUSSIAN, delta="1e-3")
    epsilon = GAUSSIAN.epsilon("1e-3")
    bars = rows(chart, "loss", "mass")
    assert {b["where"] for b in bars} == {"within", "beyond"}
    assert all((b["loss"] > epsilon) == (b["where"] == "beyond") for b in bars)
    assert f"ε = {epsilon:.4g} at δ = 0.001" in words(chart)
    assert "infinite" in words(plots.privacy_loss(accounting.approximate(1, "1e-5")))


def test_a_law_that_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="nothing at all"):
        plots.privacy_loss(accounting.pure(0))
    with pytest.raises(InvalidParameter, match="range of floats"):
        plots.privacy_loss(accounting.pure(10_000))
    with pytest.raises(InvalidParameter, match="privacy loss or a mechanism"):
        plots.privacy_loss(3)  # type: ignore[arg-type]


def test_logarithmic_axes_are_marked_at_round_numbers() -> None:
    assert ticks(0.05, 5)[2:8] == [0.05, 0.1, 0.2, 0.5, 1, 2]
    assert ticks(1e-8, 0.3) == [1e-8, 1e-6, 1e-4, 1e-2, 1]
