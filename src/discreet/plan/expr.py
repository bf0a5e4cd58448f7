"""Typed expression trees, frozen: over the cells of a row, and over the noisy columns of the answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from discreet.plan.schema import Scalar
from discreet.plan.types import Type

if TYPE_CHECKING:
    from discreet.plan.quantile_tree.shape import Spread


@dataclass(frozen=True, slots=True)
class Column:
    """A cell of the row, read as `type`."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant written in the question. NULL has type None until a place gives it one."""

    value: Scalar
    type: Type | None


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the closed language (`plan/functions`), applied."""

    name: str
    args: tuple[Expr, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Key:
    """The i-th group key of the answer's row."""

    index: int
    type: Type


@dataclass(frozen=True, slots=True)
class Measured:
    """The i-th noisy integer column times its grid step."""

    index: int
    step: Fraction
    type: Type


@dataclass(frozen=True, slots=True)
class Mean:
    """`centre` + numerator/denominator inside [low, high]; the noisy denominator is taken as at least 1."""

    numerator: Measured
    denominator: Measured
    centre: Fraction
    low: Fraction
    high: Fraction
    type: Type = Type.REAL


@dataclass(frozen=True, slots=True)
class Covariance:
    """`product` − `first`·`second` inside [low, high]: means over the same rows of numbers less a public centre.

    For a sample it is times n/(n − 1), with the noisy number of rows n taken as at least 2.
    """

    product: Mean
    first: Mean
    second: Mean
    low: Fraction
    high: Fraction
    sample: bool
    type: Type = Type.REAL


@dataclass(frozen=True, slots=True)
class Slope:
    """`covariance` over `variance`, of the same rows, inside ±`most`; the variance is taken as at least `flattest`."""

    covariance: Covariance
    variance: Covariance
    flattest: Fraction
    most: Fraction
    type: Type = Type.REAL


@dataclass(frozen=True, slots=True)
class Quantile:
    """The value at a share p of a spread's weight; the least and the greatest value for 0 and 1."""

    spread: Spread
    p: Fraction
    type: Type


@dataclass(frozen=True, slots=True)
class Commonest:
    """The value of a spread's heaviest leaf."""

    spread: Spread
    type: Type


@dataclass(frozen=True, slots=True)
class Several:
    """A list of values, each of which could be a column of its own."""

    items: tuple[Expr, ...]
    type: Type = Type.LIST


@dataclass(frozen=True, slots=True)
class Top:
    """A list of the values of type `of` that a spread's `most` heaviest leaves stand for, the heaviest first."""

    spread: Spread
    most: int
    of: Type
    type: Type = Type.LIST


@dataclass(frozen=True, slots=True)
class Histogram:
    """A map from the value of type `of` that each leaf of a spread stands for to how many rows it holds."""

    spread: Spread
    of: Type
    type: Type = Type.MAP


@dataclass(frozen=True, slots=True)
class Within:
    """How many rows lie in these leaves of a spread that has layers (`plan/partition`)."""

    spread: Spread
    leaves: tuple[int, ...]
    type: Type = Type.INT


Expr: TypeAlias = (
    Column
    | Literal
    | Call
    | Key
    | Measured
    | Mean
    | Covariance
    | Slope
    | Quantile
    | Commonest
    | Several
    | Top
    | Histogram
    | Within
)


def walk(expr: Expr) -> Iterator[Expr]:
    """The node and all below it."""
    yield expr
    below = expr.args if isinstance(expr, Call) else expr.items if isinstance(expr, Several) else ()
    for e in below:
        yield from walk(e)


def columns_of(expr: Expr) -> list[str]:
    """The names of the columns that the tree reads, each once, in order."""
    return list(dict.fromkeys(e.name for e in walk(expr) if isinstance(e, Column)))


def identity(expr: Expr) -> Any:
    """The tree as JSON-able lists: equal trees, equal lists."""
    match expr:
        case Column(name, type_):
            return ["column", name, type_.value]
        case Literal(value, type_):
            return ["literal", None if value is None else str(value), type_.value if type_ else None]
        case Call(name, args, type_):
            return ["call", name, type_.value, *(identity(a) for a in args)]
        case _:
            raise TypeError(f"{type(expr).__name__} is not part of what is measured")
