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
        (("--epsilon", "1", "-o", "m.json", "--evaluate-where", "age > 20"), "--evaluate-where is for --evaluate"),
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


def test_an_evaluation_that_cannot_be_paid_is_refused_before_the_fit(samples: Path, call: Call) -> None:
    refused = call(*ASKED, "--epsilon", "1", "--evaluate", "2.5", "-o", "m.json", "--budget", "3")
    assert refused.exit_code == 3
    assert "the fit (ε = 1) leaves ε = 2. Nothing was charged." in refused.stderr
    assert "--evaluate 2 would fit" in refused.stderr
    assert not (samples / "m.json").exists()
    planned = call(*ASKED, "--epsilon", "1", "--evaluate", "0.2", "--plan")
    assert "It would cost ε = 1.2: ε = 1 for the fit, and ε = 0.2 for its evaluation." in planned.stdout


def test_labels_that_no_row_has_are_suspected_and_an_older_file_is_named(samples: Path, call: Call) -> None:
    paid = ("--epsilon", "0.5", "-o", "m.json", "--budget", "3")
    assert call(*ASKED, *paid).exit_code == 0
    found = call(*ASKED, *paid, "--classes", "low,high", "--evaluate", "0.5")
    assert "Are the labels spelled as in the data?" in found.stdout
    assert "Wrote m.json in place of the file that was there" in found.stdout


def test_hints_of_a_fit_name_its_own_options(samples: Path, call: Call) -> None:
    learn = (
        "learn",
        "clinic_visits.parquet",
        "--range",
        "cost=0:2000",
        "--epsilon",
        "1",
        "--budget",
        "3",
        "-o",
        "m.json",
    )
    unit = (*learn, "--model", "kmeans", "--unit", "person_id")
    refused = call(*unit).stderr
    assert "--max-rows 10" in refused
    assert "--bounds" not in refused
    assert "--max-groups" not in refused
    rows = ("--max-rows", "3")
    assert "leave the column out of --features" in call(*unit, *rows, "--values", "ward=surgery").stderr
    bayes = (*learn, "--model", "bayes", "--each-row", "--range", "month=1:12", "--target", "month")
    assert "--classes LABEL,LABEL" in call(*bayes).stderr
    assert "--values ward=" in call(*learn, "--model", "bayes", "--each-row", "--target", "ward").stderr
    missing = call(*learn, "--each-row").stderr
    assert "Missing option '--model'. Choose from: logistic, svm" in missing


def test_what_a_model_lacks_is_said_together_and_a_slip_in_its_kind_is_named(samples: Path, call: Call) -> None:
    asked = ("learn", "adult.parquet", "--each-row", "--range", "age=17:90")
    assert "the model has no ε and no file to be written to." in call(*asked, "--model", "kmeans").stderr
    assert "Hint: perhaps kmeans is meant; " in call(*asked, "--model", "kmean").stderr
