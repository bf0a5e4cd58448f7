"""How values stand in the ledger's JSON: fractions, tallies, budgets, hashes, and the states beside the entries, which
only repeat them: tallies, terms, where a ledger moved, and the names of the secret keys.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Generic, Self, TypeVar

from discreet.accounting.filter import Tally
from discreet.ledger.chain import canonical, parse, unchecked
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
SIGNED = {"by": WORDS, "reason": WORDS}  # who signs off an owner's act, and why
ACT: dict[str, Form[Any]] = {**SIGNED, "signature": NAME}  # the same, and the signature of an act


MOVED = "moved"
"""The state of a ledger that goes on elsewhere: in which store, and the head that its copy has begun from."""


ARRIVED = "arrived"
"""The state of such a ledger once the other store has its copy: from then on there is never another one."""

MARK = "mark"
"""The state of a store that a ledger is to move into: a random text, by which it is known from another in its place."""

MARKED = "marked"  # the state of a ledger that has moved: the mark of the one store that it moves into
_KEY = "secret/"


@dataclass(frozen=True, slots=True)
class Terms:
    """Where an account's terms are said: the numbers of the entries that hold now.

    Attributes:
        budget: that says the population's budget: its opening, or the last change.
        status: the last freeze, thaw or close; None when there was none.
        analysts: each analyst's cap.
        groups: each group's cap.
    """

    budget: int
    status: int | None = None
    analysts: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)


def secret_name(population: str) -> str:
    """Return the state that holds an account's secret key."""
    return _KEY + population


def populations_of(names: Iterable[str]) -> list[str]:
    """Return the populations that have an account, by the names of all states."""
    return [name.removeprefix(_KEY) for name in names if name.startswith(_KEY)]


def tally_name(population: str) -> str:
    """Return the state that repeats an account's tally and names the entry it comes from."""
    return f"tally/{population}"


def terms_name(population: str) -> str:
    """Return the state that names the entries of an account's terms."""
    return f"terms/{population}"


def analyst_name(population: str, analyst: str) -> str:
    """Return the state that repeats what an analyst has spent. Two names in one text cannot run together as JSON."""
    return f"analyst/{canonical([population, analyst])}"


def group_name(population: str, group: str) -> str:
    """Return the state that repeats what a group of analysts has spent."""
    return f"group/{canonical([population, group])}"


def tally_text(seq: int, spent: Tally) -> str:
    """Return the stored form of a tally."""
    return unchecked({"seq": seq, "spent": tally_texts(spent)})


def read_tally(text: str) -> tuple[int, Tally]:
    """Return the entry's number and the tally. Raises ValueError: not what `tally_text` writes."""
    try:
        value = json.loads(text)  # in canonical form if it is what is written below
        seq, spent = number(value["seq"]), tally(value["spent"])
    except (KeyError, TypeError) as error:
        raise ValueError("not a tally") from error
    if tally_text(seq, spent) != text:
        raise ValueError("not a tally")
    return seq, spent


def terms_text(terms: Terms) -> str:
    """Return the stored form of the terms."""
    return canonical(
        {"budget": terms.budget, "status": terms.status, "analysts": dict(terms.analysts), "groups": dict(terms.groups)}
    )


@lru_cache(maxsize=64)
def read_terms(text: str) -> Terms:
    """Return the terms, which nobody changes: the same text is read by nearly every transaction.

    Raises:
        ValueError: not what `terms_text` writes.
    """
    try:
        value = parse(text)
        status = value["status"]
        terms = Terms(
            number(value["budget"]),
            None if status is None else number(status),
            _numbers(value["analysts"]),
            _numbers(value["groups"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError("not terms") from error
    if terms_text(terms) != text:
        raise ValueError("not terms")
    return terms


def moved_text(to: str, seq: int, head: str) -> str:
    """Return the stored form of where a ledger went on, and from which entry."""
    return canonical({"to": to, "seq": seq, "head": head})


def read_moved(stored: str) -> tuple[str, int, str]:
    """Where a ledger went on, and the number and hash of the last entry of its copy.

    Raises:
        ValueError: not what `moved_text` writes.
    """
    try:
        value = parse(stored)
        found = text(value["to"]), number(value["seq"]), digest(value["head"])
    except (KeyError, TypeError) as error:
        raise ValueError("not a move") from error
    if moved_text(*found) != stored:
        raise ValueError("not a move")
    return found


def read_secret(text: str | None, digest: str) -> bytes | None:
    """Return an account's secret key, if it is the one with that SHA-256."""
    try:
        secret = bytes.fromhex(text or "")
    except ValueError:
        return None
    return secret if len(secret) == 32 and hashlib.sha256(secret).hexdigest() == digest else None


def _numbers(value: Any) -> dict[str, int]:
    return {text(name): number(seq) for name, seq in object_of(value).items()}
