"""Names that enter a ledger: populations, tables, questions."""

from __future__ import annotations

import unicodedata

from discreet.errors import InvalidParameter

_LONGEST = 400


def name(parameter: str, text: str) -> str:
    """The text, if it can be a name: not empty, not long, printable, without spaces around it.

    Raises:
        InvalidParameter: it cannot; the message names `parameter`.
    """
    if type(text) is not str or not text or len(text) > _LONGEST or text != text.strip():
        raise InvalidParameter(
            f"{parameter} must be 1 to {_LONGEST} characters without spaces around them, not {text!r:.80}."
        )
    if not text.isprintable():  # also lone surrogates, which have no UTF-8
        raise InvalidParameter(f"{parameter} must be printable characters, not {text!r:.80}.")
    return text


def population(text: str) -> str:
    r"""The name of a population. Spellings that Unicode calls equivalent are one population, with one budget.

    >>> population("Cafe\u0301") == population("Caf\u00e9")
    True
    """
    return unicodedata.normalize("NFC", name("population", text))
