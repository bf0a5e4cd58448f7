"""Whether the noisy numbers that a ledger keeps are those that a claim speaks of: as many of each kind, no more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Sized
from typing import Any

from discreet.certificate.evidence import CERTIFIED
from discreet.certificate.forms import anything, listed, number, record, refuse, whole
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.rederive.claim import Claim, Measurement, Tree


def check_stored(release: Mapping[str, Any], claim: Claim) -> None:
    """Refuses a stored release that holds another number than the claim has noise for.

    Raises:
        InvalidParameter: naming it.
    """
    kept = {name: part for name, part in release.items() if name != CERTIFIED}
    tables = [kept]
    if claim.looks:
        tables = [_chosen(kept, claim)]
    elif len(claim.measurements) > 1:
        found = record(kept, {"format": number, "tables": listed(anything)}, "the stored batch")
        tables = list(found["tables"])
    if len(tables) != len(claim.measurements):
        refuse("the stored release has another number of measurements")
    for table, m in zip(tables, claim.measurements, strict=True):
        _check_table(table, m)


def _chosen(kept: dict[str, Any], claim: Claim) -> Any:
    """The table of an answer in two stages, whose caps are those that were chosen."""
    names: dict[str, Any] = {"format": number, "caps": anything, "table": anything}
    if "ranges" in kept:
        names["ranges"] = listed(anything)
    found = record(kept, names, "the stored release")
    caps = found["caps"]
    (m,) = claim.measurements
    if caps is not None:
        groups, rows = listed(number)(caps)
        if m.groups != (groups if m.declared is None else min(groups, m.declared)) or m.rows != rows:
            refuse("the caps that were chosen are not those of the measurement")
    elif any(look.kind == "caps" for look in claim.looks):
        refuse("no caps were chosen")
    return found["table"]


def _check_table(table: Any, m: Measurement) -> None:
    names = dict(_PLAIN)
    if m.trees:
        names["spreads"] = listed(listed(listed(_family)))
    if m.levels:
        names["levels"] = listed(listed(listed(whole)))
    found = record(table, names, "the stored table")
    keys = found["keys"]
    _check_cells(keys, found["cells"], m.keys, m.declared, len(m.columns))
    if len(found["reports"]) != len(m.reports):
        refuse("the stored report is another")
    trees = found.get("spreads", ())
    if len(trees) != len(m.trees) or any(len(rows) != len(keys) for rows in trees):
        refuse("the stored spreads are others")
    for tree, rows in zip(m.trees, trees, strict=True):
        for families in rows:
            _check_families(families, tree)
    levels = found.get("levels", ())
    if len(levels) != len(m.levels):
        refuse("the stored totals are others")
    for level, rows in zip(m.levels, levels, strict=True):
        cells_of = math.prod((m.lists or ())[i] for i in level.kept)
        if len(rows) != cells_of or any(len(row) != len(m.columns) for row in rows):
            refuse("the stored totals are others")


_PLAIN: dict[str, Any] = {
    "format": number,
    "keys": listed(listed(anything)),
    "cells": listed(listed(whole)),
    "reports": listed(whole),
}


def check_plain(release: Mapping[str, Any], keys: int, groups: int, columns: int) -> None:
    """Refuses a stored release that is not so many groups of so many keys, each with so many noisy numbers.

    Raises:
        InvalidParameter: naming what it is.
    """
    kept = {name: part for name, part in release.items() if name != CERTIFIED}
    found = record(kept, _PLAIN, "the stored table")
    _check_cells(found["keys"], found["cells"], keys, groups, columns)
    if found["reports"]:
        refuse("the stored report is another")


def _check_cells(
    keys: Sequence[Sized], cells: Sequence[Sized], each: int, groups: int | None, columns: int
) -> None:
    if any(len(key) != each for key in keys) or (groups is not None and len(keys) != groups):
        refuse("the stored groups are others")
    if len(cells) != len(keys) or any(len(row) != columns for row in cells):
        refuse("the stored table has another number of columns")


def _check_families(families: tuple[tuple[int, int, int], ...], tree: Tree) -> None:
    """The nodes that were looked at lie in levels that have noise, each of them once; a choice by rank names three."""
    places = [(level, place) for level, place, _ in families]
    if len(set(places)) != len(places):
        refuse("a node of a spread is stored twice")
    if isinstance(tree.noise, ExponentialQuantile):
        if [(level, place, n) for level, place, n in families] != [(0, 0, 3)]:
            refuse("what was chosen by rank is stored as something else")
    elif any(level >= tree.depth for level, _ in places):
        refuse("a node of a spread is stored whose level has no noise")
    elif tree.layers is not None and any(
        place or n != len(tree.layers[level]) for level, place, n in families
    ):
        refuse("a level of a spread is stored with another number of nodes")


def _family(value: Any) -> tuple[int, int, int]:
    if type(value) is not list or len(value) != 3:
        refuse("a node of a spread is stored in another form")
    return number(value[0]), number(value[1]), len(listed(whole)(value[2]))
