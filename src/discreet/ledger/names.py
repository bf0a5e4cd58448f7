"""Names that enter a ledger: populations, analysts, tables, questions."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from discreet.errors import InvalidParameter
from discreet.ledger.lookalikes import UNSEEN, skeleton

_LONGEST = 400
_LONGEST_WORDS = 2000


def name(parameter: str, text: str) -> str:
    """The text, if it can be a name: not empty, not long, printable, without spaces around it.

    Raises:
        InvalidParameter: it cannot; the message names `parameter`.
    """
    if type(text) is not str or not text or len(text) > _LONGEST or text != text.strip():
        raise InvalidParameter(
            f"{parameter} must be 1 to {_LONGEST} characters without spaces around them, not {text!r:.80}."
        )
    if not text.isprintable() or UNSEEN & set(
        text
    ):  # not printable are also lone surrogates, which have no UTF-8
        raise InvalidParameter(f"{parameter} must be printable characters, not {text!a:.80}.")
    return text


def population(text: str) -> str:
    r"""The name of a population. Spellings that Unicode calls equivalent are one population, with one budget.

    >>> population("Cafe\u0301") == population("Caf\u00e9")
    True
    """
    return unicodedata.normalize("NFC", name("population", text))


def person(parameter: str, text: str) -> str:
    """The name of an analyst or a group, normalised as that of a population is."""
    return unicodedata.normalize("NFC", name(parameter, text))


def words(parameter: str, text: str) -> str:
    """A public sentence of an owner: who signed off, and why.

    Raises:
        InvalidParameter: empty, too long, or with characters that cannot be shown.
    """
    if type(text) is not str or not text.strip() or len(text) > _LONGEST_WORDS or not text.isprintable():
        raise InvalidParameter(
            f"{parameter} must be 1 to {_LONGEST_WORDS} printable characters, not {text!a:.80}.",
            hint="by= says who signs it off, reason= why; both stay in the ledger for ever",
        )
    return text


def apart(what: str, new: str, known: Iterable[str]) -> None:
    """Refuse a new name that people would take for one that is known.

    Raises:
        InvalidParameter: it looks like a known one, letters of other alphabets and upper and lower case aside.
    """
    for old in known:
        if old != new and skeleton(old) == skeleton(new):
            raise InvalidParameter(
                f"the new {what} {new!a} looks like {old!a}, which this ledger knows.",
                hint=f"write {old!a} if it is meant, or choose a name that nobody can take for it",
            )
