"""A recipe in the table of contracts: how it is made, and of which table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from discreet.catalog.schema import Fact, Range, Values
from discreet.catalog.types import Type
from discreet.privacy.unit import PrivacyUnit, Relation

FACTS: Mapping[str, Fact] = MappingProxyType(
    {"ward": Values("a", "b", "c"), "x": Range(-2, 2), "n": Range(0, 5, integer=True)}
)
OTHERS: Mapping[str, Type] = MappingProxyType({"code": Type.INT, "v": Type.REAL})
UNIT = PrivacyUnit("who", max_groups=2, max_rows=2)
BOTH = (Relation.ADD_REMOVE, Relation.REPLACE)


@dataclass(frozen=True, eq=False)
class RecipeRow:
    """A recipe in the table of the contract.

    Attributes:
        name: what a test calls it.
        make: makes the recipe; two of them know nothing of each other.
        table: the name of its table.
        unit: who is protected.
        facts: what is declared of its columns.
        others: its columns of which nothing is declared, and their types.
        inputs: what an open run is sent; None for a recipe that is performed.
        relations: the relations under which it is planned.
        trusted: whether it is a recipe of somebody's own, whose plan is verified anew.
        slow: whether its plan takes long, so that fewer neighbours and noises are tried by default.
    """

    name: str
    make: Callable[[], Any]
    table: str = "t"
    unit: PrivacyUnit = UNIT
    facts: Mapping[str, Fact] = field(default_factory=lambda: FACTS)
    others: Mapping[str, Type] = field(default_factory=lambda: OTHERS)
    inputs: Sequence[Any] | None = None
    relations: tuple[Relation, ...] = BOTH
    trusted: bool = True
    slow: bool = False

    @cached_property
    def columns(self) -> dict[str, Type]:
        """The columns without the person's, and their types."""
        return {**{name: _type_of(fact) for name, fact in self.facts.items()}, **self.others}

    def __str__(self) -> str:
        return self.name


def _type_of(fact: Fact) -> Type:
    if isinstance(fact, Range):
        return Type.INT if fact.integer else Type.REAL
    kinds = {type(v) for v in fact.values if v is not None}
    return {str: Type.TEXT, bool: Type.BOOL, int: Type.INT, float: Type.REAL}[kinds.pop()]
