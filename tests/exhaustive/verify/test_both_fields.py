"""Every field of certificates of two populations, and of the entries in them, changed in every way that its type knows:
each change is rejected, at a step that reads the field.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from discreet.errors import LedgerError
from discreet.ledger.chain import canonical
from discreet.verify.certificate.checker import check
from tests.exhaustive.verify.test_every_field import NEUTRAL, changed, defects, nodes
from tests.verify.asked_both import honest
from tests.verify.forging import Document, relink, sealed

NAMES = {"groups": "add-remove", "Gaussian": "one replaced", "two keys": "both replaced"}
EACH = ("accounts", "sides", "caps", "populations", "measured", "flows")

READERS: list[tuple[str, set[str]]] = [
    (r"answer(/.*)?", {"release"}),
    (r"registry(/.*)?", {"registry"}),
    (r"reasons(/.*)?", {"sensitivity"}),
    (r"populations(/.*)?", {"account"}),
    (r"(library|version|question(/.*)?)", {"charge"}),
    (r"ledger/accounts", {"account"}),
    (r"ledger/accounts/\d/account(/.*)?", {"account", "tables", "charge"}),
    (r"ledger/accounts/\d/schemas(/.*)?", {"tables", "account"}),
    (r"ledger/accounts/\d/charge(/.*)?", {"charge", "tables"}),
    (r"ledger/accounts/\d/release(/.*)?", {"release"}),
    (r"ledger/head(/.*)?", {"release", "ledger"}),
    (r"claim/(table|columns|view)(/.*)?", {"bounds", "tables"}),
    (r"claim/(sql|lists)(/.*)?", {"bounds", "charge"}),
    (r"claim/measured(/\d+/flows(/.*)?)?", {"bounds", "sensitivity"}),
    (r"claim/measured/\d+/noise(/.*)?", {"noise", "events"}),
    (r"claim/sides/\d/unit", {"bounds"}),
    (r"claim/sides/\d/relation", {"sensitivity"}),
    (r"claim/sides/\d/sensitivities(/.*)?", {"sensitivity"}),
    (r"claim/sides/\d/cost/events(/.*)?", {"events"}),
    (r"claim/sides/\d/cost/(epsilon|delta)", {"noise", "guarantee", "charge"}),
]
"""A field, and the steps that read it; a value that is none of its type is a matter of the format."""

Kind = tuple[str, str]
ENTRIES = ("account", "schemas", "charge", "release")


def generic(path: tuple[Any, ...]) -> str:
    """The field of a path, with its place where it is one of two populations'."""
    of_two = {i + 1 for i, name in enumerate(path) if name in ("accounts", "sides", "caps")}
    return "/".join(str(p) if i in of_two or isinstance(p, str) else "0" for i, p in enumerate(path))


@cache
def forgeries() -> dict[str, list[tuple[Kind, Document]]]:
    """Each kind of change once, by the honest certificate that it is of."""
    found: dict[str, list[tuple[Kind, Document]]] = {name: [] for name in NAMES}
    seen = set()
    for name, of in NAMES.items():
        document = honest(name, of)[0]
        for path, value in nodes(document, each=EACH):
            for what, to in defects(value):
                kind = generic(path), what
                if kind in seen or kind in NEUTRAL or (to == value and type(to) is type(value)):
                    continue
                seen.add(kind)
                found[name].append((kind, changed(document, path, to)))
    return found


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMES)
def test_no_field_can_be_changed(name: str, every: int) -> None:
    ledger, wrong = honest(name, NAMES[name])[3], []
    for (field, what), document in forgeries()[name][::every]:
        allowed = next((steps for pattern, steps in READERS if re.fullmatch(pattern, field)), set())
        alone = check(document)
        broken = alone.broken if alone.broken is not None else check(document, ledger).broken
        if broken != "format" and broken not in allowed:
            wrong.append((field, what, broken, alone.reason))
    assert wrong == []


def test_no_claim_can_be_changed_though_all_is_made_to_fit_it() -> None:
    ledgers = {name: honest(name, of)[3] for name, of in NAMES.items()}
    only_by_ledger, kinds = set(), 0
    for name in NAMES:
        for (field, what), document in forgeries()[name]:
            if not field.startswith("claim/"):
                continue
            kinds += 1
            fitted = sealed(copy.deepcopy(document))
            broken = check(fitted).broken
            if broken is None:
                only_by_ledger.add((field, what))
                broken = check(fitted, ledgers[name]).broken
            assert broken is not None, (field, what)
    assert kinds >= 200
    # another law of the same price, or the same statement otherwise: true of itself, and not what was charged for
    assert {field for field, _ in only_by_ledger} <= TRUE_OF_ITSELF, only_by_ledger


TRUE_OF_ITSELF = {"claim/sides/0/cost/epsilon", "claim/sides/1/cost/epsilon",
                  "claim/sides/0/cost/delta", "claim/sides/1/cost/delta"}  # fmt: skip
"""A promise that is weaker than what the noise keeps."""


def bodies() -> Iterator[tuple[Kind, Document]]:
    """Each field of each entry's body changed, with the hashes that follow."""
    for name, of in NAMES.items():
        document = honest(name, of)[0]
        for place in (0, 1):
            for entry in ENTRIES:
                own = document["ledger"]["accounts"][place][entry]
                said = json.loads((own[0] if entry == "schemas" else own)["body"])
                for path, value in nodes(said):
                    for what, to in defects(value):
                        if to == value and type(to) is type(value):
                            continue
                        forgery = copy.deepcopy(document)
                        at = forgery["ledger"]["accounts"][place][entry]
                        at = at[0] if entry == "schemas" else at
                        at["body"] = canonical(changed(said, path, to))
                        relink(forgery)
                        yield (f"{name}/{place}/{entry}/{generic(path)}", what), forgery


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_no_entry_can_say_anything_else(every: int) -> None:
    """Without the ledger what does not bear on the claim goes unseen; with it nothing does."""
    steps: dict[str, int] = {}
    for (field, what), document in itertools.islice(bodies(), 0, None, every):
        name, _, entry = field.split("/")[:3]
        try:
            verdict = check(document, honest(name, NAMES[name])[3])
        except LedgerError:  # pragma: no cover  # the ledger that is given is the honest one
            raise AssertionError((field, what)) from None
        assert verdict.broken is not None, (field, what)
        steps[verdict.broken] = steps.get(verdict.broken, 0) + 1
        if entry == "charge" and field.split("/")[3] in ("question", "events", "epsilon", "delta"):
            assert verdict.broken == "charge", (field, what)
    assert sum(steps.values()) >= 2000 // every
    assert {"account", "tables", "charge", "release", "ledger"} <= steps.keys()


def test_the_kinds_of_changes_are_many() -> None:
    assert sum(map(len, forgeries().values())) >= 500
