"""Files: by their suffix, without a browser, the same every time, and no more in them than what is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from discreet import accounting, local, mechanisms, plots, sketch
from discreet.errors import InvalidParameter

GAUSSIAN = accounting.gaussian(noise_multiplier=1)


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<svg"), ("PDF", b"%PDF")])
def test_a_picture_is_written_by_its_suffix(tmp_path: Path, suffix: str, start: bytes) -> None:
    file = tmp_path / f"loss.{suffix}"
    plots.save(plots.tradeoff(GAUSSIAN), file)
    assert file.read_bytes().lstrip().startswith(start)


@pytest.mark.parametrize("file", ["-", "loss", "loss.txt", ""])
def test_another_suffix_is_refused(file: str) -> None:
    with pytest.raises(InvalidParameter, match=r"\.png"):
        plots.save(plots.tradeoff(GAUSSIAN), file)
    with pytest.raises(InvalidParameter, match=r"\.png"):
        plots.check(file)


@pytest.mark.exhaustive
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_same_picture_is_the_same_file(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        plots.save(plots.privacy({"x": GAUSSIAN}, delta="1e-5"), tmp_path / f"{name}.{suffix}")
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_an_image_has_no_unseen_marks_and_fetches_nothing(tmp_path: Path) -> None:
    chart = plots.delta(GAUSSIAN)
    plots.save(chart, tmp_path / "loss.svg")
    image = (tmp_path / "loss.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(image)
    assert 'opacity="0"' not in image and "<image" not in image


def test_a_hostile_label_stays_a_label(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><!-- \x1b[31m\u202e"
    chart = plots.tradeoff({evil: GAUSSIAN})
    plots.save(chart, tmp_path / "evil.svg")
    image = (tmp_path / "evil.svg").read_text(encoding="utf-8")
    for text in (image, chart.to_json(), str(chart.to_dict())):  # a notebook puts the second into a script
        assert "<script" not in text and "</script" not in text and "\x1b" not in text
        assert "alert(1)" in text
    ElementTree.fromstring(image)


def test_a_place_or_a_picture_that_is_none_is_refused(tmp_path: Path) -> None:
    chart = plots.privacy_loss(mechanisms.Laplace(epsilon=1))
    with pytest.raises(InvalidParameter, match="there is no folder"):
        plots.save(chart, tmp_path / "nowhere" / "loss.svg")
    for file in (None, 3, ["loss.svg"]):
        with pytest.raises(InvalidParameter, match="file must be the path of a file"):
            plots.save(chart, file)  # type: ignore[arg-type]
    for picture in (None, "loss.svg", 3):
        with pytest.raises(InvalidParameter, match="chart must be a picture"):
            plots.save(picture, tmp_path / "loss.svg")


def test_whatever_has_a_loss_is_drawn() -> None:
    for source in (local.Hadamard(5, epsilon=1), sketch.DensitySketch(epsilon=1, dimension=2, bandwidth=0.5)):
        drawn, plain = plots.privacy_loss(source), plots.privacy_loss(source.loss)
        assert drawn.to_dict() == plain.to_dict()
        assert plots.posterior(source).to_dict() == plots.posterior(1).to_dict()


@pytest.mark.parametrize("account", [None, 3, {"a": 3}, "ledger"], ids=repr)
def test_spending_needs_an_account(account: Any) -> None:
    with pytest.raises(InvalidParameter, match="needs a session or an account"):
        plots.spending(account)
