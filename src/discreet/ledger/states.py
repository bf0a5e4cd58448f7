"""The states beside the entries, which only repeat them: tallies, terms, where a ledger moved; and the secret keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from discreet.accounting.filter import Tally
from discreet.ledger import forms
from discreet.ledger.chain import canonical, parse, unchecked

MOVED = "moved"
"""The state of a ledger that goes on elsewhere: in which store, and the head that its copy has begun from."""


ARRIVED = "arrived"
"""The state of such a ledger once the other store has its copy: from then on there is never another one."""

MARK = "mark"
"""The state of a store that a ledger is to move into: a random text, by which it is known from another in its place."""

MARKED = "marked"
"""The state of a ledger that has moved: the mark of the one store that it moves into."""


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
    return unchecked({"seq": seq, "spent": forms.tally_texts(spent)})


def read_tally(text: str) -> tuple[int, Tally]:
    """Return the entry's number and the tally.

    Raises:
        ValueError: not what `tally_text` writes.
    """
    try:
        value = json.loads(text)  # in canonical form if it is what is written below
        seq, spent = forms.number(value["seq"]), forms.tally(value["spent"])
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
            forms.number(value["budget"]),
            None if status is None else forms.number(status),
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


def read_moved(text: str) -> tuple[str, int, str]:
    """Where a ledger went on, and the number and hash of the last entry of its copy.

    Raises:
        ValueError: not what `moved_text` writes.
    """
    try:
        value = parse(text)
        found = forms.text(value["to"]), forms.number(value["seq"]), forms.digest(value["head"])
    except (KeyError, TypeError) as error:
        raise ValueError("not a move") from error
    if moved_text(*found) != text:
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
    return {forms.text(name): forms.number(seq) for name, seq in forms.object_of(value).items()}
