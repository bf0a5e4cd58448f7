"""Whether the noisy numbers that a ledger keeps are those that a claim speaks of: as many of each kind, no more."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from discreet.ledger.chain import canonical
from discreet.mechanisms.exponential_quantile import EDGES, ExponentialQuantile
from discreet.verify.certificate.evidence import CERTIFIED
from discreet.verify.certificate.forms import Form, anything, flag, listed, number, record, refuse, text, whole
from discreet.verify.check import Found
from discreet.verify.claim import Measurement, PlanClaim, Tree
from discreet.verify.plain import results_in


def check_stored(release: Mapping[str, Any], claim: PlanClaim, found: Sequence[Found]) -> None:
    """Refuses a stored release that holds another number than the claim has noise for.

    Args:
        release: what the ledger keeps.
        claim: what was paid for.
        found: what the statements of each measurement say of a unit.

    Raises:
        InvalidParameter: naming it.
    """
    kept = {name: part for name, part in release.items() if name != CERTIFIED}
    if claim.recipe:  # what its public run made of the noisy values: any state of that is post-processing
        record(kept, {"format": number, "state": anything}, "the stored state of a recipe")
        return
    tables = [kept]
    if claim.looks:
        tables = [_chosen(kept, claim)]
    elif len(claim.measurements) > 1:
        names: dict[str, Form[Any]] = {"format": number, "tables": listed(anything)}
        results = {name for m in claim.measurements for name in results_of(m)}
        names |= {"fed": listed(anything)} if results else {}
        batch = record(kept, names, "the stored batch")
        tables = list(batch["tables"])
        if results and len(batch["fed"]) != len(results):
            refuse("another number of results was fed back")
    if len(tables) != len(claim.measurements):
        refuse("the stored release has another number of measurements")
    for table, m, facts in zip(tables, claim.measurements, found, strict=True):
        _check_table(table, m, facts)


def results_of(m: Measurement) -> tuple[str, ...]:
    """Return the results that the statements of a measurement read, by the names of their parameters."""
    texts = (m.sql, m.weights, *(own for _, own in m.distinct), *(tree.sql for tree in m.trees), *m.truncation)
    return results_in(" ".join(texts))


def _chosen(kept: dict[str, Any], claim: PlanClaim) -> Any:
    """Return the table of a result in two stages, whose caps are those that were chosen."""
    names = {"format": number, "caps": anything, "ranges": listed(_range), "table": anything}
    found = record(kept, names, "the stored release")
    if len(found["ranges"]) != sum(look.values for look in claim.looks):
        refuse("another number of ranges was chosen")
    caps = found["caps"]
    (m,) = claim.measurements
    if (caps is None) == any(look.kind == "caps" for look in claim.looks):
        refuse("caps are stored that were not looked at, or none that were")
    if caps is not None:
        groups, rows = _caps(caps)
        if m.groups != (groups if m.declared is None else min(groups, m.declared)) or m.rows != rows:
            refuse("the caps that were chosen are not those of the measurement")
    return found["table"]


def _check_table(table: Any, m: Measurement, facts: Found) -> None:
    found = record(table, _STORED, "the stored table")
    keys = found["keys"]
    _check_cells(keys, found["cells"], m.keys, m.declared, len(m.columns))
    if len(found["reports"]) != sum(facts.reports):
        refuse("the stored report is another")
    trees = found["trees"]
    if len(trees) != len(m.trees) or any(len(rows) != len(keys) for rows in trees):
        refuse("the stored trees are others")
    for tree, reach, rows in zip(m.trees, facts.trees, trees, strict=True):
        for families in rows:
            _check_families(families, tree, reach.leaves)
    levels = found["levels"]
    if len(levels) != len(m.levels):
        refuse("the stored totals are others")
    for level, rows in zip(m.levels, levels, strict=True):
        cells_of = math.prod((m.lists or ())[i] for i in level.kept)
        if len(rows) != cells_of or any(len(row) != len(m.columns) for row in rows):
            refuse("the stored totals are others")


def check_plain(release: Mapping[str, Any], keys: int, groups: int, columns: int) -> None:
    """Refuses a stored release that is not so many groups of so many keys, each with so many noisy numbers.

    Raises:
        InvalidParameter: naming what it is.
    """
    kept = {name: part for name, part in release.items() if name != CERTIFIED}
    found = record(kept, _STORED, "the stored table")
    _check_cells(found["keys"], found["cells"], keys, groups, columns)
    if found["reports"] or found["trees"] or found["levels"]:
        refuse("the stored release holds more than groups and their numbers")


def _check_cells(
    keys: Sequence[Sequence[Any]], cells: Sequence[Sequence[int]], each: int, groups: int | None, columns: int
) -> None:
    if any(len(key) != each for key in keys) or (groups is not None and len(keys) != groups):
        refuse("the stored groups are others")
    if len({tuple(map(_alike, key)) for key in keys}) != len(keys):
        refuse("a group is stored twice")
    if len(cells) != len(keys) or any(len(row) != columns for row in cells):
        refuse("the stored table has another number of columns")


def _alike(value: Any) -> Any:
    """Return a key, the same for keys that are one to the database: of each a single spelling is known.

    Raises:
        InvalidParameter: none of the forms in which a key is kept.
    """
    if type(value) is int:
        return Fraction(value)
    if value is None or type(value) in (bool, str):
        return canonical(value)
    said, read = None, None
    if type(value) is dict and len(value) == 1:
        ((kind, said),) = value.items()
        read = _KEYS.get(kind)
    if read is None or type(said) is not str:
        refuse("a key is stored in another form")
    try:
        found, again = read(said)
    except (ValueError, OverflowError):
        refuse("a key is stored in another form")
    if again != said:
        refuse("a key is stored in another form")
    return Fraction(found) if type(found) is float and math.isfinite(found) else canonical(value)


def _real(said: str) -> tuple[float, str]:
    found = float.fromhex(said)
    return found, found.hex()


def _date(said: str) -> tuple[dt.date, str]:
    found = dt.date.fromisoformat(said)
    return found, found.isoformat()


def _time(said: str) -> tuple[dt.datetime, str]:
    found = dt.datetime.fromisoformat(said)
    return found, found.isoformat()


_KEYS: dict[str, Callable[[str], tuple[Any, str]]] = {"real": _real, "date": _date, "timestamp": _time}
"""Keys that JSON has no word for: what was kept, and how that is spelled."""


_Family: TypeAlias = tuple[int, int, tuple[int, ...]]
"""The level and the place of a node, and what is stored of its children."""


def _check_families(families: Sequence[_Family], tree: Tree, leaves: int) -> None:
    """Check that the nodes that were looked at lie in levels that have noise, each of them once and with as many
    children as it has; a choice by rank names a leaf, and edges with a number for each part between them.
    """
    places = [(level, place) for level, place, _ in families]
    if len(set(places)) != len(places):
        refuse("a node of a tree is stored twice")
    if isinstance(tree.noise, ExponentialQuantile):
        if places != [(0, 0), (1, 0), (2, 0)] or not _are_chosen(*(n for _, _, n in families), leaves=leaves):
            refuse("what was chosen by rank is stored as something else")
        return
    if any(level >= tree.depth for level, _ in places):
        refuse("a node of a tree is stored whose level has no noise")
    for level, place, children in families:
        if tree.layers is None:
            most = _children(leaves, tree.depth, level, place)
        else:
            most = 0 if place else len(tree.layers[level])
        if not most or len(children) != most:
            refuse("a level of a tree is stored with another number of nodes")


def _are_chosen(named: Sequence[int], edges: Sequence[int], counts: Sequence[int], *, leaves: int) -> bool:
    """Return a leaf, at most so many edges between leaves on each side of it as are drawn, from left to right, and a
    number for each part between them.
    """
    if len(named) != 1 or not 0 <= named[0] < leaves or not all(0 < x < leaves for x in edges):
        return False
    left = sum(x <= named[0] for x in edges)
    few = max(left, len(edges) - left) <= EDGES
    return few and list(edges) == sorted(set(edges)) and len(counts) == len(edges) + 1


def _children(leaves: int, depth: int, level: int, place: int) -> int:
    """How many children a node has in the tree of so many leaves, of that depth and the least fan-out."""
    fanout = _fanout(leaves, depth)
    size = fanout ** (depth - level - 1)
    first = place * fanout * size
    return len(range(first, min(first + fanout * size, leaves), size))


@lru_cache
def _fanout(leaves: int, depth: int) -> int:
    fanout: int = max(1, math.floor(leaves ** (1 / depth)))
    while fanout > 1 and (fanout - 1) ** depth >= leaves:
        fanout -= 1
    while fanout**depth < leaves:
        fanout += 1
    return fanout


@Form
def _family(value: Any) -> _Family:
    if type(value) is not list or len(value) != 3:
        refuse("a node of a tree is stored in another form")
    return number(value[0]), number(value[1]), listed(whole)(value[2])


def _caps(value: Any) -> tuple[int, int]:
    """Caps; behind them stand the noisy numbers of units beyond them and of all."""
    if type(value) is not list or len(value) != 4:
        refuse("the caps that were chosen are stored in another form")
    _ = whole(value[2]), whole(value[3])
    return number(value[0]), number(value[1])


@Form
def _range(value: Any) -> tuple[Fraction, Fraction, bool, int, int]:
    """Bounds, whether what is bounded is whole, and the noisy numbers of units outside and within."""
    if type(value) is not list or len(value) != 5:
        refuse("a range that was chosen is stored in another form")
    low, high = (_bound(end) for end in value[:2])
    return low, high, flag(value[2]), whole(value[3]), whole(value[4])


def _bound(value: Any) -> Fraction:
    if re.fullmatch(r"-?[0-9]{1,400}(/[1-9][0-9]{0,400})?", text(value)) is None:
        refuse("a range that was chosen is stored in another form")
    return Fraction(value)


_STORED: dict[str, Any] = {
    "format": number,
    "keys": listed(listed(anything)),
    "cells": listed(listed(whole)),
    "reports": listed(whole),
    "trees": listed(listed(listed(_family))),
    "levels": listed(listed(listed(whole))),
}
