"""The aggregates that can be asked for, one file each: the measures they need, and how the noisy ones combine."""

from __future__ import annotations

from types import MappingProxyType

from discreet.plan.aggregates.aggregate import Aggregate
from discreet.plan.aggregates.count import count, count_units
from discreet.plan.aggregates.mean import mean
from discreet.plan.aggregates.total import total

AGGREGATES: MappingProxyType[str, Aggregate] = MappingProxyType(
    {"count": count, "count distinct unit": count_units, "sum": total, "avg": mean}
)
"""Name → aggregate."""
