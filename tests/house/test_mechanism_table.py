"""The table of mechanisms names all of them, and what it says of each is there."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import NamedTuple

import pytest

from discreet import local, mechanisms, plots, sketch
from tests.contracts.audits import AUDITS
from tests.house.test_audits import NO_GUARANTEE
from tests.house.tree import ROOT, listed

PAGE = ROOT / "docs" / "mechanisms.md"
RELATIONS = {"both", "that of Δ", "that of Δ (ℓ1)", "that of Δ (ℓ2)", "that of Δ (of each number)"}


class Line(NamedTuple):
    """A line of one of the two tables."""

    name: str
    proof: str
    picture: str
    contract: str
    benchmark: str
    relation: str | None


def lines(part: str) -> list[Line]:
    """The lines of the table under a heading."""
    text = PAGE.read_text(encoding="utf-8").split(f"## {part}\n")[1].split("\n## ")[0]
    found = []
    for line in text.splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            name, *middle, proof, picture, contract, benchmark = cells
            relation = middle[-1] if len(middle) == 3 else None
            found.append(Line(name.strip("`"), proof, picture.strip("`"), contract, benchmark.strip("`"), relation))
    return found


CENTRAL, DEVICES = lines("Of the data holder"), lines("On the device")
every = pytest.mark.parametrize("line", CENTRAL + DEVICES, ids=lambda line: line.name)


def public(package: ModuleType) -> set[str]:
    """The classes of a package that can be made and give a guarantee."""
    kinds = {name: getattr(package, name) for name in listed(package)}
    return {
        name
        for name, kind in kinds.items()
        if inspect.isclass(kind) and not inspect.isabstract(kind) and name not in NO_GUARANTEE
    }


def test_both_tables_name_every_mechanism_once() -> None:
    assert sorted(line.name for line in CENTRAL) == sorted(public(mechanisms) | public(sketch))
    assert sorted(line.name for line in DEVICES) == sorted(public(local))


@every
def test_what_a_line_says_is_there(line: Line) -> None:
    link = re.fullmatch(r"\[[\w-]+\]\((proofs/[\w-]+\.md)\)", line.proof)
    assert link is not None and (PAGE.parent / link[1]).exists()
    assert not line.picture or callable(getattr(plots, line.picture))
    assert (ROOT / "benchmarks" / f"{line.benchmark}.py").exists()
    assert line.contract == "yes" and line.name in {row.of for row in AUDITS}
    assert line.relation is None or line.relation in RELATIONS
