"""The matrix of a finite mechanism has its probabilities."""

from __future__ import annotations

import pytest

from discreet import finite, mechanisms, plots
from discreet.errors import InvalidParameter
from tests.plots.seen import marks, parts, rows


def test_each_cell_has_its_probability_exactly() -> None:
    chart = plots.matrix(finite.Mechanism({"no": ["2/3", "1/3"], "yes": ["1/4", "3/4"]}))
    cells = {(r["input"], r["output"]): (r["p"], r["exact"]) for r in rows(chart, "input", "p")}
    assert cells == {
        ("no", "0"): (pytest.approx(2 / 3), "2/3"),
        ("no", "1"): (pytest.approx(1 / 3), "1/3"),
        ("yes", "0"): (0.25, "1/4"),
        ("yes", "1"): (0.75, "3/4"),
    }
    assert marks(chart) == ["rect", "text"]


def test_long_names_of_outputs_stand_upright() -> None:
    def angle(name: str) -> int:
        made = finite.Mechanism({0: {name: "3/4", "b": "1/4"}, 1: {name: "1/4", "b": "3/4"}})
        (found,) = {
            p["encoding"]["x"]["axis"]["labelAngle"] for p in parts(plots.matrix(made)) if "x" in p.get("encoding", {})
        }
        return int(found)

    assert (angle("a"), angle("an output with a long name")) == (0, -90)


def test_what_is_no_small_matrix_is_refused() -> None:
    large = finite.Mechanism([["1/50"] * 50] * 2)
    assert marks(plots.matrix(finite.Mechanism([["1/20"] * 20] * 2))) == ["rect"]
    with pytest.raises(InvalidParameter, match="not for 2 and 50"):
        plots.matrix(large)
    with pytest.raises(InvalidParameter, match="finite mechanism"):
        plots.matrix(mechanisms.Laplace(epsilon=1))  # type: ignore[arg-type]
