"""A list of values, each with its own interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

from discreet.catalog.types import Type
from discreet.mechanisms.additive import Additive
from discreet.plan.nodes.node import Answer, Node


@dataclass(frozen=True, slots=True)
class ListOf(Node):
    """A list of values, each of which could be a column of its own."""

    items: tuple[Node, ...]
    type: Type = Type.LIST

    @property
    def children(self) -> tuple[Node, ...]:
        return self.items

    def map_children(self, change: Callable[[Any], Any]) -> Self:
        return replace(self, items=tuple(change(e) for e in self.items))

    @property
    def has_interval(self) -> bool:
        return all(e.has_interval for e in self.items)

    def compiled(self) -> Answer:
        each = [e.compiled() for e in self.items]
        return lambda keys, cells: [e(keys, cells) for e in each]

    def interval(self, noises: Sequence[Additive], confidence: Fraction) -> Answer:
        each = [e.interval(noises, confidence) for e in self.items]
        return lambda keys, cells: [e(keys, cells) for e in each]
