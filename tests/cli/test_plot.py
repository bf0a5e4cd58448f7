"""`discreet sql --plot`: a picture of the answer, or a refusal before the charge."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Call
from tests.cli.test_sql import ASKED, QUESTION, spent


def test_the_answer_is_drawn_with_its_intervals(samples: Path, call: Call) -> None:
    result = call(*ASKED, "--budget", "3", "--json", "--plot", "ages.svg")
    assert result.exit_code == 0
    assert result.stderr == "The result is drawn in ages.svg.\n"
    answer = json.loads(result.stdout)
    image = (samples / "ages.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(image)
    (low, high), value = answer["intervals"]["n"][0], answer["rows"][0][1]
    for number in (value, low, high):
        assert f": {number:.0f}" in image or f": {number:,.0f}" in image
    assert "95 % intervals; private at ε = 0.5" in image


@pytest.mark.parametrize(
    ("file", "word"), [("ages.txt", ".svg, .png or .pdf"), ("-", ".svg"), ("no/ages.png", "no such folder")]
)
def test_a_file_that_cannot_be_a_picture_is_refused_before_the_charge(
    samples: Path, call: Call, file: str, word: str
) -> None:
    result = call(*ASKED, "--budget", "3", "--plot", file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert word in result.stderr
    assert not (samples / "discreet.ledger").exists()


@pytest.mark.parametrize(
    "options",
    [
        ("--ledger", "kept.svg", "--plot", "kept.svg"),
        ("--ledger", "kept.svg", "--plot", "link.svg"),
        ("--ledger", "kept.svg", "--certificate", "./kept.svg"),
        ("--certificate", "adult.parquet"),
        ("--certificate", "a.svg", "--plot", "a.svg"),
        ("--plot", "folder.svg"),
    ],
    ids=" ".join,
)
def test_nothing_that_the_question_uses_is_written_over(samples: Path, call: Call, options: tuple[str, ...]) -> None:
    (samples / "link.svg").symlink_to("kept.svg")
    (samples / "folder.svg").mkdir()
    before = (samples / "adult.parquet").read_bytes()
    result = call(*ASKED, "--budget", "3", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "written over" in result.stderr or "is a folder" in result.stderr
    assert not any((samples / name).exists() for name in ("discreet.ledger", "kept.svg"))
    assert (samples / "adult.parquet").read_bytes() == before


def test_a_ledger_is_not_drawn_over_itself(samples: Path, call: Call) -> None:
    assert call(*ASKED, "--budget", "3", "--ledger", "kept.svg").exit_code == 0
    result = call("budget", "kept.svg", "--plot", "kept.svg")
    assert (result.exit_code, result.stdout) == (2, "") and "written over kept.svg" in result.stderr
    assert call("budget", "kept.svg").exit_code == 0


def test_without_the_extra_nothing_is_charged(samples: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    result = call(*ASKED, "--budget", "3", "--plot", "ages.png")
    assert (result.exit_code, "discreet[plots]" in result.stderr) == (2, True)
    assert not (samples / "discreet.ledger").exists()


def test_an_answer_by_three_columns_is_refused_before_the_charge(samples: Path, call: Call) -> None:
    assert call(*ASKED, "--budget", "3").exit_code == 0
    by_three = QUESTION.replace("SELECT sex", "SELECT sex, sex AS b, sex AS c")
    result = call(*[by_three if a == QUESTION else a for a in ASKED], "--plot", "ages.png")
    assert result.exit_code == 2
    assert "up to two columns, not by 3" in result.stderr
    assert spent(call) == 0.5


def test_a_plan_is_drawn_as_risk_beside_error(samples: Path, call: Call) -> None:
    planned = ["plan", *ASKED[1:]]
    result = call(*planned, "--plot", "choice.svg")
    assert result.exit_code == 0 and result.stderr.endswith("Risk and error are drawn in choice.svg.\n")
    image = (samples / "choice.svg").read_text(encoding="utf-8")
    assert "Risk and error against ε" in image and not (samples / "discreet.ledger").exists()
    assert "such folder" in call(*planned, "--plot", "no/choice.svg").stderr
