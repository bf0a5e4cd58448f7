from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Call

RUN = ("-q", "0.01", "-t", "1000", "--delta", "1e-5")


def test_a_run_is_answered_in_a_line_and_a_table(call: Call) -> None:
    result = call("account", "--noise-multiplier", "1", *RUN)
    assert (result.exit_code, result.stderr) == (0, "")
    # 1.82823666651804, computed at 256 bits: the case of tests/accounting/sgd_truth.json.
    assert result.stdout.startswith("ε = 1.8282367 at δ = 1e-05")
    assert "1e-10      3.2904437" in result.stdout


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
