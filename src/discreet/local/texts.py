"""Texts as rows of symbols of a public alphabet, and hashes of their beginnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.domain import is_many, read_array
from discreet.local.hashing import Words, key_of, mixed
from discreet.privacy.exact import count

Symbols = NDArray[np.uint16]

_MOST_SYMBOLS = 60_000
_LONGEST = 256
_STEP = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Spelling:
    """Texts of up to `length` symbols; 0 stands for the end, and fills what is left of a row.

    Attributes:
        length: the symbols that count; what comes after is cut off.
        alphabet: the characters in order, each of them once; None for the bytes of UTF-8.
    """

    length: int
    alphabet: str | None

    @property
    def base(self) -> int:
        """How many symbols there are, with the end."""
        return (255 if self.alphabet is None else len(self.alphabet)) + 1

    def read(self, x: Any) -> tuple[Symbols, bool]:
        """A row of symbols for each text, and whether several came. What is not a text counts as its `str`."""
        many = is_many(x)
        listed = x if isinstance(x, list) else read_array("x", x).tolist() if many else [x]
        texts = [v if type(v) is str else _text(v) for v in listed]
        return self.rows(texts), many

    def rows(self, texts: Sequence[str]) -> Symbols:
        """A row of symbols for each text: characters outside of the alphabet are left out, a NUL ends the text."""
        if self.alphabet is None:
            raw = np.array(
                [t.encode("utf-8", "replace")[: self.length] for t in texts], dtype=f"S{self.length}"
            )
            symbols = raw.view(np.uint8).reshape(len(texts), self.length).astype(np.uint16)
        else:
            codes = np.array(texts, dtype=f"U{self.length}").view(np.uint32).reshape(len(texts), self.length)
            symbols = self._places(codes)
            for i in np.flatnonzero(((symbols == 0) & (codes != 0)).any(axis=1)).tolist():
                known = "".join(c for c in texts[i] if c in self.alphabet)[: self.length]
                symbols[i] = 0
                symbols[i, : len(known)] = self._places(np.array([ord(c) for c in known], dtype=np.uint32))
        ended = np.logical_or.accumulate(symbols == 0, axis=1)
        return np.where(ended, 0, symbols).astype(np.uint16)

    def text(self, row: Symbols) -> str:
        """The text of a row."""
        used = row[: int(np.argmin(row != 0))] if (row == 0).any() else row
        if self.alphabet is None:
            return bytes(used.tolist()).decode("utf-8", "replace")
        return "".join(self.alphabet[s - 1] for s in used.tolist())

    def _places(self, codes: NDArray[np.uint32]) -> Symbols:
        """1 + the place of each character in the alphabet, 0 for others."""
        points = np.array([ord(c) for c in self.alphabet or ""], dtype=np.uint32)
        order = np.argsort(points)
        at = np.minimum(np.searchsorted(points[order], codes), points.size - 1)
        place = order[at]
        return np.where(points[place] == codes, place + 1, 0).astype(np.uint16)


@dataclass(frozen=True, slots=True)
class Beginnings:
    """Hashes of the beginnings of rows, grown symbol by symbol."""

    salt: str

    def start(self, n: int) -> Words:
        """The hashes of n empty beginnings."""
        return np.full(n, key_of("beginnings", self.salt), dtype=np.uint64)

    def longer(self, words: Words, symbols: NDArray[Any]) -> Words:
        """The hashes of the beginnings with one symbol more."""
        return mixed(words ^ (symbols.astype(np.uint64) + np.uint64(1)) * _STEP)

    def buckets(self, words: Words, level: int, size: int) -> NDArray[np.int64]:
        """Where the beginnings fall in a table of so many places; each level has a function of its own."""
        return (mixed(words ^ np.uint64(key_of("level", level, self.salt))) % np.uint64(size)).astype(
            np.int64
        )


def read_spelling(length: int, alphabet: str | None) -> Spelling:
    """A public spelling, whose parameters are sound."""
    if count("length", length) > _LONGEST:
        raise InvalidParameter(
            f"length must be a whole number from 1 to {_LONGEST}: the symbols of a text that count."
        )
    given: object = alphabet  # what came need not be what was annotated
    if given is not None:
        sound = isinstance(given, str) and 1 <= len(given) <= _MOST_SYMBOLS and "\0" not in given
        if not isinstance(given, str) or not sound or len(set(given)) < len(given):
            raise InvalidParameter(
                "alphabet must be a text of different characters, without NUL.",
                hint="alphabet=string.ascii_lowercase + string.digits; left out, it is the bytes of UTF-8",
            )
    return Spelling(int(length), alphabet)


def _text(value: Any) -> str:
    """The text that another value counts as; one that has none, such as a number of too many digits, is empty."""
    try:
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    except (ValueError, RecursionError):
        return ""
