"""The stored cases, and how what is observed of them now is compared with what is stored."""

from __future__ import annotations

import json
import lzma
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

from tests.meanings.observe import Observer
from tests.meanings.worlds import World

FIXTURE = Path(__file__).with_name("meanings.jsonl.xz")
MOST_BYTES = 460_000

Case: TypeAlias = dict[str, Any]
"""Inputs: `world`, `sql` (a query, or queries by name), `asked` (options), `from` (where it was found). What it means:
`planned`, and where it is answered `state`, `shown` and `same` (the first case that is the same query).
"""

MEANING = ("planned", "state", "shown")
KINDS = (
    "nonnegative", "failed", "refused", "cost", "first stage", "people", "left", "cells", "chosen cells",
    "sensitivities of each", "measured", "trees", "selection", "reports", "totals", "error", "notes", "rows", "of",
    "intervals", "columns", "state",
)  # fmt: skip
"""Kinds of facts; a difference is of the first one that is on the path to it."""

_CLOSE = 1e-9
"""Relative difference of floats that count as equal: numerical libraries round differently."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A place in which a case does not mean what it did.

    Attributes:
        case: its index.
        path: the way to the fact.
        stored, found: the two values.
    """

    case: int
    path: tuple[str, ...]
    stored: Any
    found: Any

    @property
    def kind(self) -> str:
        return next((kind for kind in KINDS if kind in self.path), self.path[0])

    def __str__(self) -> str:
        return f"{self.kind} at {'/'.join(self.path)}: {self.stored!r:.160} is now {self.found!r:.160}"


def load() -> tuple[dict[str, World], list[Case]]:
    """Return the worlds by name, and the cases."""
    with lzma.open(FIXTURE, "rt", encoding="utf-8") as file:
        worlds, *cases = map(json.loads, file)
    return worlds, cases


def save(worlds: Mapping[str, World], cases: Sequence[Case]) -> None:
    """Write the fixture."""
    with lzma.open(FIXTURE, "wt", encoding="utf-8", newline="\n", preset=9 | lzma.PRESET_EXTREME) as file:
        file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in (worlds, *cases))


def observed(worlds: Mapping[str, World], cases: Sequence[Case], *, strict: bool) -> list[Case]:
    """Return what cases mean now, from their stored noisy states; an unexpected error raises if `strict`, else counts
    as a meaning.
    """
    found: list[Case] = [{} for _ in cases]
    identities = [""] * len(cases)
    order = sorted(range(len(cases)), key=lambda i: (cases[i]["world"], i))
    for name, group in groupby(order, key=lambda i: str(cases[i]["world"])):
        with closing(Observer(worlds[name])) as observer:
            for i in group:
                try:
                    identities[i], found[i] = observer.observe(cases[i])
                except Exception as error:
                    if strict:
                        raise
                    found[i] = {"planned": {"failed": f"{type(error).__name__}: {error}"}}
    first: dict[str, int] = {}
    for i, identity in enumerate(identities):
        if identity:
            found[i]["same"] = first.setdefault(identity, i)
    return found


def compared(worlds: Mapping[str, World], cases: Sequence[Case]) -> list[Difference]:
    """Return each difference between what some of the cases mean and what is stored of them."""
    first: dict[int, int] = {}
    found: list[Difference] = []
    for i, (case, now) in enumerate(zip(cases, observed(worlds, cases, strict=False), strict=True)):
        stored = {part: case[part] for part in MEANING if part in case}
        if "same" in case:
            stored["same"] = first.setdefault(case["same"], i)  # among these cases
        found += [Difference(i, *difference) for difference in _differences(stored, now, ())]
    return found


def summary(differences: Sequence[Difference], cases: int) -> str:
    """Return how many cases differ, and in how many each kind of fact does."""
    kinds = Counter(kind for kind, _ in {(d.kind, d.case) for d in differences})
    head = f"{len({d.case for d in differences})} of {cases} cases differ."
    return "\n".join([head, *(f"  {kind}: {n}" for kind, n in kinds.most_common())])


def _differences(a: Any, b: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for key in a | b:
            yield from _differences(a.get(key, "nothing"), b.get(key, "nothing"), (*path, key))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (one, other) in enumerate(zip(a, b, strict=True)):
            yield from _differences(one, other, (*path, str(i)))
    elif not _is_same(a, b):
        yield path, a, b


def _is_same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=_CLOSE, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and bool(a == b)
