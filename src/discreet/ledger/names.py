"""Names that enter a ledger: populations, analysts, tables, queries.

Two populations whose names look alike would be two budgets where people believe there is one.

References: Unicode Technical Standard 39, skeletons of confusable strings,
https://www.unicode.org/reports/tr39/; the letters below are the Cyrillic, Greek, Armenian and Cherokee ones of its
table that look like Latin ones, and a few others.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from discreet.errors import InvalidParameter

_LONGEST = 400
_LONGEST_WORDS = 2000

UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800") | {
    chr(c) for c in (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
}
"""Characters that Unicode counts as letters, marks or symbols and that show nothing."""

_LIKE = {
    "'": "2019 2018 02bc 0060 00b4",
    "-": "2010 2011 2012 2013 2014 2212",
    "a": "0430 03b1 0251",
    "b": "044c 0432",
    "c": "0441 03f2 13df",
    "d": "0501 13a0",
    "e": "0435",
    "g": "0261 0581 13c0",
    "h": "043d 04bb 0570 13bb",
    "i": "0456 03b9 0269 056c 0131",
    "j": "0458 03f3 0575 13ab",
    "k": "043a 03ba 13e6",
    "l": "04cf 007c 0031",
    "m": "043c 13b7",
    "n": "0578",
    "o": "043e 03bf 0585 0030",
    "p": "0440 03c1 13e2",
    "q": "051b 0566",
    "r": "0433 13a1",
    "s": "0455 13da",
    "t": "0442 03c4 13a2",
    "u": "03c5 057d",
    "v": "03bd 028b",
    "w": "051d 03c9 13d4 13b3",
    "x": "0445 03c7",
    "y": "0443",
    "æ": "04d5",
}
"""A character of a name, and the code points of those that look like it."""

_ALIKE = {int(code, 16): shown for shown, codes in _LIKE.items() for code in codes.split()}


def name(parameter: str, text: str) -> str:
    """Return the text, if it can be a name: not empty, not long, printable, without spaces around it.

    Raises:
        InvalidParameter: it cannot; the message names `parameter`.
    """
    if type(text) is not str or not text or len(text) > _LONGEST or text != text.strip():
        raise InvalidParameter(
            f"{parameter} must be 1 to {_LONGEST} characters without spaces around them, not {text!r:.80}."
        )
    if not text.isprintable() or UNSEEN & set(text):  # not printable are also lone surrogates, which have no UTF-8
        raise InvalidParameter(f"{parameter} must be printable characters, not {text!a:.80}.")
    return text


def population(text: str) -> str:
    r"""Return the name of a population. Spellings that Unicode calls equivalent are one population, with one budget.

    >>> population("Cafe\u0301") == population("Caf\u00e9")
    True
    """
    return unicodedata.normalize("NFC", name("population", text))


def person(parameter: str, text: str) -> str:
    """Return the name of an analyst or a group, normalised as that of a population is."""
    return unicodedata.normalize("NFC", name(parameter, text))


def words(parameter: str, text: str) -> str:
    """Return a public sentence of an owner: who signed off, and why.

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


def skeleton(name: str) -> str:
    r"""Return a text that is the same for names that look alike.

    >>> skeleton("\u0441ustomers") == skeleton("Customers")  # the first begins with a Cyrillic letter
    True
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return " ".join(plain.translate(_ALIKE).split())
