"""What is drawn is what was asked: the lines' own numbers, the mark, the labels, the files."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats

from discreet import accounting, plots
from discreet.accounting.filter import Charge
from discreet.errors import InvalidParameter, MissingExtra
from discreet.ledger.ledger import Ledger
from discreet.privacy.guarantee import Budget

GAUSSIAN = accounting.gaussian(noise_multiplier=1)


def thick_lines(axes: Axes) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The curves, without the guides."""
    lines = [line for line in axes.get_lines() if line.get_linewidth() == 2]
    return [(np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)) for line in lines]


def words(figure: Figure) -> str:
    """All that is written inside the axes."""
    return " | ".join(text.get_text() for axes in figure.axes for text in axes.texts)


def test_the_picture_of_gaussian_noise_has_both_of_its_curves() -> None:
    left, right = plots.privacy(GAUSSIAN).axes
    ((epsilon, delta),) = thick_lines(left)
    truth = stats.norm.cdf(0.5 - epsilon) - np.exp(epsilon) * stats.norm.cdf(-0.5 - epsilon)
    assert delta == pytest.approx(truth, rel=1e-3)  # the last of them cancel in floating point
    assert (epsilon[0], left.get_yscale()) == (0, "log")
    ((level, missed),) = thick_lines(right)
    assert missed == pytest.approx(stats.norm.cdf(stats.norm.isf(level) - 1), abs=1e-9)
    assert (missed <= 1 - level + 1e-12).all()


def test_the_asked_delta_is_marked_with_its_epsilon() -> None:
    figure = plots.delta(GAUSSIAN, delta="1e-5")
    assert "ε = 4.377 at δ = 1e-05" in words(figure)  # Balle, Wang 2018, Theorem 8
    (mark,) = [line for line in figure.axes[0].get_lines() if line.get_marker() == "o"]
    assert float(np.asarray(mark.get_xdata())[0]) == pytest.approx(4.377, abs=1e-3)


def test_several_losses_have_labels_marks_and_lines_of_their_own() -> None:
    losses = {"a": GAUSSIAN, "b": accounting.laplace(1), "c": accounting.approximate(1, 1e-5)}
    figure = plots.privacy(losses, delta="1e-6")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b", "c"]
    for axes in figure.axes:
        lines = [line for line in axes.get_lines() if line.get_linewidth() == 2]
        assert len({line.get_color() for line in lines}) == len({line.get_linestyle() for line in lines}) == 3
    marks = [line for line in figure.axes[0].get_lines() if line.get_marker() == "o"]
    assert len(marks) == 2  # 1e-5 is spent apart by the third


def test_a_pure_loss_ends_at_its_epsilon() -> None:
    ((epsilon, delta),) = thick_lines(plots.delta(accounting.pure(2)).axes[0])
    assert delta[epsilon < 1.99].min() > 1e-3
    assert delta[epsilon >= 2].max() < 1e-10


def test_a_delta_that_is_spent_apart_stays_in_the_picture() -> None:
    loss = accounting.approximate("0.5", "1e-4")
    figure = plots.delta(loss, delta="1e-4")
    ((epsilon, delta),) = thick_lines(figure.axes[0])
    assert delta[epsilon > 0.51] == pytest.approx(1e-4, rel=1e-6)
    assert "ε = 0.5 at" in words(figure)


def test_no_loss_at_all_is_the_diagonal_and_says_so() -> None:
    figure = plots.privacy({"none": accounting.pure(0)})
    ((level, missed),) = thick_lines(figure.axes[1])
    assert missed == pytest.approx(1 - level, abs=1e-12)
    assert "none: δ = 0 at every ε" in words(figure)


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("PDF", b"%PDF")])
def test_a_figure_is_written_by_its_suffix(tmp_path: Path, suffix: str, start: bytes) -> None:
    file = tmp_path / f"loss.{suffix}"
    plots.save(plots.tradeoff(GAUSSIAN), file)
    assert file.read_bytes().startswith(start)


@pytest.mark.parametrize("file", ["-", "loss", "loss.txt", ""])
def test_another_suffix_is_refused(file: str) -> None:
    with pytest.raises(InvalidParameter, match=r"\.png"):
        plots.save(plots.tradeoff(GAUSSIAN), file)
    with pytest.raises(InvalidParameter, match=r"\.png"):
        plots.check(file)


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="at least one"):
        plots.privacy({})
    with pytest.raises(InvalidParameter, match="delta"):
        plots.privacy(GAUSSIAN, delta=0)


def test_the_same_picture_is_the_same_file(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        plots.save(plots.privacy({"x": GAUSSIAN}, delta="1e-5"), tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_pyplot_is_never_loaded_and_matplotlib_only_to_draw() -> None:
    code = (
        "import sys; from discreet import accounting, plots; "
        "assert 'matplotlib' not in sys.modules; plots.tradeoff(accounting.gaussian(1)); "
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match="need matplotlib") as caught:
        plots.privacy(GAUSSIAN)
    assert "discreet[plots]" in caught.value.hint


def test_the_picture_of_spending_has_the_sums_of_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        days = iter([1, 2, 3, 4, 5, 3, 6])  # set back once: the entry stays in its place

        @classmethod
        def now(cls, zone: object) -> datetime:
            return datetime(2026, 5, next(cls.days), tzinfo=UTC)

    monkeypatch.setattr("discreet.ledger.log.datetime", Clock)
    signed: dict[str, Any] = {"by": "the board", "reason": "as agreed"}
    with Ledger.open(":memory:") as ledger:
        account = ledger.open_account("customers", Budget(2))
        account.cap_analyst("ana", Budget(2), **signed)
        account.cap_analyst("ben", Budget(2), **signed)
        for analyst, epsilon in (("ana", "0.5"), ("ben", "0.25"), ("ana", "0.75")):
            charge = Charge.of(accounting.pure(epsilon))
            account.seen_by(analyst).charge("q", charge, note={})
        account.change_budget(Budget(3), **signed)
        (axes,) = plots.spending(account).axes
    lines = {
        line.get_label(): list(map(float, np.asarray(line.get_ydata(), float)))
        for line in axes.get_lines()
        if not str(line.get_label()).startswith("_")
    }
    assert lines == {
        "spent": [0, 0.5, 0.75, 1.5, 1.5],
        "ana": [0, 0.5, 1.25, 1.25],
        "ben": [0, 0.25, 0.25],
        "budget": [2, 3, 3],
    }
    assert axes.get_title(loc="left") == "customers"


def test_a_picture_of_no_account_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="needs an account"):
        plots.spending({})
