"""`discreet learn`: a model in a file, charged once, and refusals that name options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import discreet as dp
from tests.cli.conftest import Call

FACTS = ("--each-row", "--range", "age=17:90", "--range", "hours=1:99")
LABELS = ("--target", "income", "--classes", "<=50K,>50K")
ASKED = ("learn", "adult.parquet", "--model", "bayes", *FACTS, *LABELS)


def test_a_model_is_written_measured_and_answered_again_from_the_ledger(samples: Path, call: Call) -> None:
    paid = (*ASKED, "--epsilon", "1", "--evaluate", "0.5", "-o", "m.json")
    first = call(*paid, "--budget", "3")
    assert first.exit_code == 0, first.stderr
    assert "accuracy: 0.7" in first.stdout
    assert "ε = 1.5" in first.stderr
    assert "--evaluate-where" in first.stderr
    model = dp.learn.load("m.json")
    assert model.feature_names_in_.tolist() == ["age", "hours"]
    again = json.loads(call(*paid, "--json").stdout)
    assert again["stored"]
    assert again["remaining"]["epsilon"] == 1.5
    assert set(again["evaluation"]) == {"errors", "accuracy", "auc"}


def test_a_plan_is_free_and_opens_no_account(samples: Path, call: Call) -> None:
    found = call("learn", "adult.parquet", "--model", "kmeans", "--clusters", "3", *FACTS, "--epsilon", "1", "--plan")
    assert found.exit_code == 0, found.stderr
    assert "It would cost ε = 1." in found.stdout
    assert not (samples / "discreet.ledger").exists()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (("--epsilon", "1"), "-o model.json"),
        (("-o", "m.json"), "--epsilon 1"),
        (("--epsilon", "1", "-o", "none/m.json"), "no such folder"),
        (("--epsilon", "1", "-o", "adult.parquet"), "written over"),
        (("--epsilon", "1", "-o", "m.json", "--basis", "gam"), "--basis does not go with --model bayes"),
        (("--epsilon", "1", "-o", "m.json", "--features", "wage"), "'wage'"),
        (("--epsilon", "1", "-o", "m.json", "--model", "logistic"), "--delta 1e-6"),
        (("--epsilon", "1", "-o", "m.json", "--model", "pca", "--evaluate", "1"), "pca has none"),
        (("--epsilon", "1", "-o", "m.json", "--model", "pca"), "leave --target out"),
    ],
)
def test_what_cannot_be_learned_is_refused_before_the_charge(
    samples: Path, call: Call, changed: tuple[str, ...], words: str
) -> None:
    refused = call(*ASKED, "--budget", "3", *changed)
    assert refused.exit_code == 2
    assert words in refused.stderr
    assert not (samples / "m.json").exists()


def test_a_target_that_is_missing_or_undeclared_is_named_as_an_option(samples: Path, call: Call) -> None:
    given = ("learn", "adult.parquet", "--model", "bayes", *FACTS, "--epsilon", "1", "--budget", "3", "-o", "m.json")
    assert "--target" in call(*given).stderr
    assert "--range income=LOW:HIGH" in call(*given, "--target", "income").stderr
    assert call(*given, "--classes", "a,b").exit_code == 2
