"""How single values stand in an entry's JSON: fractions, tallies, budgets, hashes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Generic, Self, TypeVar

from discreet.accounting.filter import Tally
from discreet.privacy import codec
from discreet.privacy.guarantee import Budget

T = TypeVar("T")

_FRACTION = re.compile(r"-?[0-9]{1,4000}/[0-9]{1,4000}")
_DIGEST = re.compile("[0-9a-f]{64}")


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """Form of a value in JSON; it is called to read one."""

    read: Callable[[Any], T]
    write: Callable[[T], Any] = _same

    def __call__(self, value: Any) -> T:
        """Return the value of this form."""
        return self.read(value)


class Fields:
    """Content of an entry: a frozen dataclass whose fields stand in JSON in these forms."""

    __slots__ = ()

    forms: ClassVar[Mapping[str, Form[Any]]]
    keyed_by: ClassVar[str] = ""

    @property
    def key(self) -> str:
        """What its kind is looked up by: the field `keyed_by`; empty where an account has one at a time."""
        value = getattr(self, self.keyed_by) if self.keyed_by else None
        return "" if value is None else str(value)

    def to_json(self) -> dict[str, Any]:
        """Return the fields."""
        return {name: form.write(getattr(self, name)) for name, form in self.forms.items()}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Self:
        """Return the value of these fields."""
        return cls(**{name: form.read(body[name]) for name, form in cls.forms.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Act(Fields):
    """Content that may let an account spend more, with the owner's signature where the ledger is locked with a key."""

    kind: ClassVar[str]

    signature: str | None = None


@lru_cache(maxsize=256)
def fraction(text: str) -> Fraction:
    """Return the fraction that `codec.fraction_text` wrote.

    Raises:
        ValueError: any other text.
    """
    if not _FRACTION.fullmatch(text):
        raise ValueError("not a fraction")
    above, _, below = text.partition("/")
    x = Fraction(int(above), int(below))
    if codec.fraction_text(x) != text:
        raise ValueError("not a fraction in lowest terms")
    return x


def tally(texts: list[str]) -> Tally:
    """Return a tally from its stored form."""
    return tuple(fraction(text) for text in list_of(texts))


def tally_texts(amounts: Tally) -> list[str]:
    """Return the stored form of a tally."""
    return [codec.fraction_text(x) for x in amounts]


def budget(limits: dict[str, Any]) -> Budget:
    """Return a budget from its stored form, which has no other limit than these three."""
    if object_of(limits).keys() != {"epsilon", "delta", "per_query"}:
        raise ValueError("unknown limit")
    found = {name: fraction(text) for name, text in limits.items()}
    return Budget(found["epsilon"], found["delta"], per_query=found["per_query"])


def budget_texts(limits: Budget) -> dict[str, str]:
    """Return the stored form of a budget."""
    amounts = {"epsilon": limits.epsilon, "delta": limits.delta, "per_query": limits.per_query}
    return {name: codec.fraction_text(x) for name, x in amounts.items()}


def text(value: Any) -> str:
    """Return a value that must be text."""
    if type(value) is not str:
        raise TypeError("not text")
    return value


def words(value: Any) -> str:
    """Return a value that must be text with something in it: an owner's signature or reason."""
    if not text(value).strip():
        raise ValueError("empty words")
    return text(value)


def optional(value: Any) -> str | None:
    """Return a value that must be text or null."""
    return None if value is None else text(value)


def truth(value: Any) -> bool:
    """Return a value that must be true or false."""
    if type(value) is not bool:
        raise TypeError("not a truth value")
    return value


def digest(value: Any) -> str:
    """Return a SHA-256 in 64 lower-case hexadecimal digits."""
    if not _DIGEST.fullmatch(text(value)):
        raise ValueError("not a digest")
    return text(value)


def number(value: Any) -> int:
    """Return the number of an entry."""
    if type(value) is not int:
        raise TypeError("not a number of an entry")
    return value


def object_of(value: Any) -> dict[str, Any]:
    """Return a value that must be an object."""
    if type(value) is not dict:
        raise TypeError("not an object")
    return value


def list_of(value: Any) -> list[Any]:
    """Return a value that must be a list."""
    if type(value) is not list:
        raise TypeError("not a list")
    return value


TEXT, WORDS, NUMBER, DIGEST, TRUTH = Form(text), Form(words), Form(number), Form(digest), Form(truth)
OBJECT, NAME = Form(object_of), Form(optional)
TALLY, BUDGET = Form(tally, tally_texts), Form(budget, budget_texts)
SIGNED = {"by": WORDS, "reason": WORDS}
"""Who signs off an owner's act, and why."""
ACT: dict[str, Form[Any]] = {**SIGNED, "signature": NAME}
"""The same, and the signature of an act."""
