"""A certificate of counts that are read from one partition, with sums that overlap or are more than was paid for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import discreet as dp
from discreet.verify.certificate.checker import check
from tests.verify.asked import ask, exported, plain, visits
from tests.verify.forging import Document, forged, measurement, rewrite, sealed

SQL = f"SELECT {', '.join(f'COUNT_IF(day < {i}) AS c{i}' for i in range(1, 5))} FROM visits"


def honest() -> tuple[Document, tuple[str, ...]]:
    where = visits(unit=dp.PrivacyUnit.row())
    document = plain(ask(where, SQL, {}).certificate())
    return document, tuple(exported(where))


def layers(document: Document) -> list[list[list[int]]]:
    (tree,) = measurement(document)["trees"]
    found: list[list[list[int]]] = tree["layers"]
    return found


def overlapping(d: Document) -> None:
    layers(d)[0][0] = [0, 1]


def beyond(d: Document) -> None:
    layers(d)[0].append([1 << 20])


def deeper(d: Document) -> None:
    layers(d).append([[0]])


@pytest.mark.parametrize("change", [overlapping, beyond, deeper])
def test_layers_whose_sums_overlap_are_refused(change: Callable[[Document], None]) -> None:
    document, ledger = honest()
    assert layers(document)
    assert check(document, ledger).ok
    assert check(sealed(forged(document, lambda d: None)), ledger).ok
    assert not check(sealed(forged(document, change))).ok


def test_a_level_that_is_stored_with_more_numbers_than_it_has_nodes_is_refused() -> None:
    document, _ = honest()

    def longer(said: dict[str, Any]) -> None:
        (((family, *_),),) = said["release"]["trees"]
        family[2].append(family[2][0])

    found = forged(document, lambda d: rewrite(d, "release", longer))
    assert not check(sealed(found)).ok
    assert json.dumps(found) != json.dumps(document)
