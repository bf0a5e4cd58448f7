"""A claim as JSON, and back.

A treaty with every certificate ever written: a field never changes its meaning, one that is not in the tables below is
refused and not skipped, and what means something new gets a new format number.
"""

from __future__ import annotations

from typing import Any

from discreet.certificate.forms import (
    anything,
    flag,
    fraction,
    listed,
    number,
    optional,
    record,
    refuse,
    text,
    whole,
)
from discreet.certificate.parts import (
    additive,
    cost,
    cost_json,
    kind_of,
    length,
    noise_json,
    relation,
    sensitivity,
    sensitivity_json,
)
from discreet.errors import InternalError, InvalidParameter
from discreet.mechanisms.additive import Additive, DiscreteLaplaceNoise
from discreet.mechanisms.exponential_quantile import ExponentialQuantile
from discreet.mechanisms.threshold import Threshold
from discreet.privacy.codec import fraction_text
from discreet.rederive.claim import Claim, Column, Level, Look, Measurement, Tree
from discreet.rederive.derive import Source
from discreet.rederive.owned import Table


def encode(claim: Claim) -> dict[str, Any]:
    """A claim as JSON."""
    return {
        "relation": claim.relation.value,
        "looks": [_look_json(look) for look in claim.looks],
        "measurements": [_measurement_json(m) for m in claim.measurements],
        "measured": cost_json(claim.measured),
        "charged": cost_json(claim.charged),
    }


def decode(value: Any) -> Claim:
    """The claim that `encode` wrote.

    Raises:
        InvalidParameter: anything else.
    """
    try:
        return Claim(**record(value, _CLAIM, "the claim"))
    except InternalError as error:  # a table of the source that is nobody's, or several kinds at once
        raise InvalidParameter(error.message) from None


def _measurement_json(m: Measurement) -> dict[str, Any]:
    return {
        "source": _source_json(m.source),
        "sql": m.sql,
        "distinct": [[place, own] for place, own in m.distinct],
        "truncation": list(m.truncation),
        "keys": m.keys,
        "lists": None if m.lists is None else list(m.lists),
        "groups": m.groups,
        "rows": m.rows,
        "columns": [
            {
                "low": str(c.low),
                "high": str(c.high),
                "sensitivity": sensitivity_json(c.sensitivity),
                "noise": noise_json(c.noise),
            }
            for c in m.columns
        ],
        "trees": [
            {
                "sql": t.sql,
                "depth": t.depth,
                "at": [fraction_text(p) for p in t.at],
                "sensitivity": sensitivity_json(t.sensitivity),
                "noise": noise_json(t.noise),
                **({} if t.layers is None else {"layers": [[list(n) for n in x] for x in t.layers]}),
            }
            for t in m.trees
        ],
        "levels": [{"kept": list(v.kept), "noises": [noise_json(z) for z in v.noises]} for v in m.levels],
        "threshold": None if m.threshold is None else _threshold_json(m.threshold),
        "reports": [noise_json(z) for z in m.reports],
    }


def _look_json(look: Look) -> dict[str, Any]:
    return {
        "kind": look.kind,
        "source": _source_json(look.source),
        "sql": look.sql,
        "counts": look.counts,
        "noise": noise_json(look.noise),
        "epsilon": fraction_text(look.epsilon),
        "outside": None if look.outside is None else noise_json(look.outside),
    }


def _source_json(source: Source) -> dict[str, Any]:
    return {
        "table": source.table,
        "columns": sorted(source.columns),
        "unit": source.unit,
        "tables": {
            name: {
                "columns": dict(t.columns),
                "unit": t.unit,
                "key": None if t.key is None else list(t.key),
                "public": t.public,
                "view": t.view,
            }
            for name, t in source.tables.items()
        },
        "view": source.view,
    }


def _threshold_json(t: Threshold) -> dict[str, Any]:
    return {
        "epsilon": fraction_text(t.epsilon),
        "delta": fraction_text(t.delta),
        "max_groups": t.max_groups,
        "relation": t.relation.value,
    }


def _threshold(value: Any) -> Threshold:
    names = {"epsilon": fraction, "delta": fraction, "max_groups": number, "relation": relation}
    return Threshold(**record(value, names, "a selection of groups"))


def _laplace(value: Any) -> DiscreteLaplaceNoise:
    noise = additive(value)
    if not isinstance(noise, DiscreteLaplaceNoise):
        refuse("the noise of a first look is not discrete Laplace noise")
    return noise


def _node_noise(value: Any) -> Additive | ExponentialQuantile:
    if kind_of(value) != "exponential-quantile":
        return additive(value)
    found = record(value, _QUANTILE, "a choice by rank")
    del found["kind"]
    return ExponentialQuantile(**found)


_QUANTILE = {
    "kind": text,
    "epsilon": fraction,
    "p": fraction,
    "sensitivity": whole,
    "relation": relation,
    "max_groups": number,
    "groups": optional(number),
    "row": number,
}


def _table(value: Any) -> Table:
    names = {
        "columns": _kinds,
        "unit": optional(text),
        "key": optional(listed(text)),
        "public": flag,
        "view": optional(text),
    }
    found = record(value, names, "a table")
    key = found["key"]
    if key is not None and len(key) != 3:
        refuse("a key that leads to a unit has not three parts")
    return Table(found["columns"], found["unit"], key, found["public"], found["view"])


def _kinds(value: Any) -> dict[str, str | None]:
    if type(value) is not dict:
        refuse("the columns of a table are no object")
    return {text(name): optional(text)(kind) for name, kind in value.items()}


def _source(value: Any) -> Source:
    names = {
        "table": optional(text),
        "columns": listed(text),
        "unit": optional(text),
        "tables": anything,
        "view": optional(text),
    }
    found = record(value, names, "the rows")
    if type(found["tables"]) is not dict or list(found["columns"]) != sorted(set(found["columns"])):
        refuse("the tables or columns are not as they are written")
    tables = {name: _table(t) for name, t in found["tables"].items()}
    if (found["table"] is None) != bool(tables):
        refuse("the rows are of one table or of several")
    if tables and (found["columns"] or found["unit"] != "u" or found["view"] is not None):
        refuse("the rows of several tables have their unit as u")
    return Source(found["table"], frozenset(found["columns"]), found["unit"], tables, found["view"])


def _column(value: Any) -> Column:
    return Column(
        **record(
            value, {"low": whole, "high": whole, "sensitivity": sensitivity, "noise": additive}, "a column"
        )
    )


def _tree(value: Any) -> Tree:
    names: dict[str, Any] = {
        "sql": text,
        "depth": _few,
        "at": listed(fraction),
        "sensitivity": sensitivity,
        "noise": _node_noise,
    }
    if isinstance(value, dict) and "layers" in value:
        names["layers"] = listed(listed(listed(number)))
    return Tree(**record(value, names, "a spread"))


def _level(value: Any) -> Level:
    return Level(**record(value, {"kept": listed(number), "noises": listed(additive)}, "a level of totals"))


def _few(value: Any) -> int:
    if number(value) > _MOST_LEVELS:
        refuse("a spread has more levels than any number needs")
    return number(value)


_MOST_LEVELS = 64  # so that a hostile file is refused, and not computed for ever


def _apart(value: Any) -> tuple[int, str]:
    if type(value) is not list or len(value) != 2:
        refuse("a count of different values has not a place and a statement")
    return number(value[0]), text(value[1])


def _measurement(value: Any) -> Measurement:
    names = {
        "source": _source,
        "sql": text,
        "distinct": listed(_apart),
        "truncation": listed(text),
        "keys": number,
        "lists": optional(listed(length)),
        "groups": number,
        "rows": optional(number),
        "columns": listed(_column),
        "trees": listed(_tree),
        "levels": listed(_level),
        "threshold": optional(_threshold),
        "reports": listed(additive),
    }
    return Measurement(**record(value, names, "a measurement"))


def _look(value: Any) -> Look:
    names = {
        "kind": text,
        "source": _source,
        "sql": text,
        "counts": number,
        "noise": _laplace,
        "epsilon": fraction,
        "outside": optional(_laplace),
    }
    return Look(**record(value, names, "a first look"))


_CLAIM = {
    "relation": relation,
    "looks": listed(_look),
    "measurements": listed(_measurement),
    "measured": cost,
    "charged": cost,
}
