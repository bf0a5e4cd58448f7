"""A group key of the answer's row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from discreet.catalog.schema import Scalar
from discreet.catalog.types import Type
from discreet.plan.nodes.node import Answer, Known, Node, point
from discreet.query.functions.function import EVERYTHING, Interval


@dataclass(frozen=True, slots=True)
class Key(Node):
    """The i-th group key of the answer's row."""

    index: int
    type: Type

    @property
    def key(self) -> int:
        return self.index

    @property
    def has_interval(self) -> bool:
        return False

    def compiled(self) -> Answer:
        return lambda keys, _cells: keys[self.index]

    def _bounded(self, known: Known, keys: Sequence[Scalar]) -> tuple[Interval, bool]:
        value = keys[self.index]
        return point(value) or EVERYTHING, value is not None
