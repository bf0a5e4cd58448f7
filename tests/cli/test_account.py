from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call

RUN = ("-q", "0.01", "-t", "1000", "--delta", "1e-5")


def test_a_run_is_answered_in_a_line_and_a_table(call: Call) -> None:
    result = call("account", "--noise-multiplier", "1", *RUN)
    assert (result.exit_code, result.stderr) == (0, "")
    # 1.82823666651804, computed at 256 bits: the case of tests/accounting/sgd_truth.json.
    assert result.stdout.startswith("ε = 1.8282367 at δ = 1e-05")
    assert "1e-10      3.290443" in result.stdout


def test_json_has_the_bounds_of_every_delta(call: Call) -> None:
    answer = json.loads(call("account", "-z", "1", *RUN, "--json").stdout)
    assert answer["epsilon"] == pytest.approx(1.82823666651804, rel=1e-9)
    assert all(row["lower"] <= row["upper"] for row in answer["bounds"])
    assert [row["delta"] for row in answer["bounds"]] == [1e-4, 1e-5, 1e-6, 1e-8, 1e-10]


def test_the_noise_is_solved_for(call: Call) -> None:
    solved = json.loads(call("account", "--epsilon", "1", *RUN, "--json").stdout)
    assert 0.999 < solved["epsilon"] <= 1
    again = json.loads(call("account", "-z", str(solved["noise_multiplier"]), *RUN, "--json").stdout)
    assert again["epsilon"] == pytest.approx(solved["epsilon"], rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (RUN, "either --noise-multiplier or --epsilon"),
        (("-z", "1", "--epsilon", "1", *RUN), "either --noise-multiplier or --epsilon"),
        (("-z", "0", *RUN), "noise-multiplier"),
        (("-z", "nan", *RUN), "noise-multiplier"),
        (("-z", "1", "-q", "1.5", "--delta", "1e-5"), "rate"),
        (("-z", "1", "-t", "-1", "--delta", "1e-5"), "count"),
        (("-z", "1", "--delta", "0"), "no pure ε"),
        (("-z", "1", "--delta", "1"), "delta"),
        (("-z", "1"), "--delta"),
    ],
)
def test_a_wrong_request_is_refused_by_name(call: Call, arguments: tuple[str, ...], word: str) -> None:
    result = call("account", *arguments)
    assert result.exit_code == 2
    assert word in result.stderr


def test_the_curves_are_drawn_to_a_file(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "loss.svg"
    result = call("account", "-z", "2", "--delta", "1e-5", "--plot", str(file), "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["steps"] == 1  # the remark is beside the answer
    assert "drawn in" in result.stderr
    assert file.read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("file", "word", "code"), [("-", ".png", 2), ("x.txt", ".png", 2), ("no/x.png", "no such folder", 2)]
)
def test_a_picture_that_cannot_be_written_is_refused(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, word: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    result = call("account", "-z", "2", "--delta", "1e-5", "--plot", file)
    assert (result.exit_code, result.stdout) == (code, "")
    assert word in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_engine_and_its_theorem_are_named(call: Call) -> None:
    answer = json.loads(call("account", "-z", "1", *RUN, "--json").stdout)
    assert answer["engine"] == "contour inversion"
    assert "Theorem 10" in answer["theorem"]
    assert call("account", "-z", "1", *RUN).stdout.endswith("(Zhu, Dong, Wang 2022, Theorem 10).\n")


def test_a_recorded_run_costs_what_its_parameters_say(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "history.json"
    file.write_text("[[1.0, 0.01, 600], [1.0, 0.01, 400]]")
    answer = json.loads(call("account", "--history", str(file), "--delta", "1e-5", "--json").stdout)
    assert answer["epsilon"] == pytest.approx(1.82823666651804, rel=1e-9)
    assert (answer["history"], answer["relation"]) == (str(file), "add-remove")


@pytest.mark.parametrize("text", ["", "{}", "[[1.0, 2.0, 3]]", '[["nan", 0.1, 3]]', "[[1, 0.1]]"])
def test_a_file_that_is_no_history_is_refused(call: Call, tmp_path: Path, text: str) -> None:
    file = tmp_path / "history.json"
    file.write_text(text)
    result = call("account", "--history", str(file), "--delta", "1e-5")
    assert result.exit_code == 2
    assert "history.json" in result.stderr


def test_a_history_that_is_not_there_is_a_failed_source(call: Call, tmp_path: Path) -> None:
    assert call("account", "--history", str(tmp_path / "no.json"), "--delta", "1e-5").exit_code == 4
