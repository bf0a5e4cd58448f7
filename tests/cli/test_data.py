from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import duckdb
import pytest

from discreet import data
from discreet.backends.connection import open_database


def table(path: Path) -> duckdb.DuckDBPyRelation:
    return open_database().read_parquet(str(path))


@pytest.fixture(scope="module")
def recipe() -> ModuleType:
    """The script that made the files."""
    path = Path(__file__).parents[2] / "examples" / "make_sample_data.py"
    spec = importlib.util.spec_from_file_location("make_sample_data", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_adult_agrees_with_what_its_publishers_counted() -> None:
    # adult.names: 32561 instances for training, of which 7841 (24.08 %) earn more than 50K.
    adult = table(data.adult())
    counts = adult.aggregate("count(*), count(*) FILTER (income = '>50K'), min(age), max(age)").fetchall()
    assert counts == [(32_561, 7_841, 17, 90)]
    assert (
        adult.filter("income NOT IN ('<=50K', '>50K') OR workclass = '?' OR trim(workclass) <> workclass").fetchall()
        == []
    )


def test_the_visits_are_those_that_the_script_draws(recipe: ModuleType) -> None:
    visits = table(data.clinic_visits())
    assert visits.columns == ["person_id", "ward", "month", "cost"]
    assert visits.fetchall() == recipe.visits()
    assert visits.aggregate("count(*), count(DISTINCT person_id)").fetchall() == [(25_403, 3_000)]


def test_the_files_are_small() -> None:
    assert data.adult().stat().st_size + data.clinic_visits().stat().st_size < 400_000


def test_the_recipe_reads_the_published_form(recipe: ModuleType, tmp_path: Path) -> None:
    row = "39, State-gov, 77516, Bachelors, 13, Never-married, ?, Wife, White, Female, 0, 0, 40, Cuba, <=50K"
    (tmp_path / "adult.data").write_text(row + "\n")
    recipe.adult(tmp_path / "adult.data", tmp_path / "adult.parquet")
    assert table(tmp_path / "adult.parquet").fetchall() == [
        (39, "State-gov", "Bachelors", "Never-married", None, "Wife", "Female", 40, "<=50K")
    ]
