"""Heavy hitters among texts that nobody has listed: beginnings that many devices share, made longer level by level."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.local.domain import is_many, listed, read_array
from discreet.local.estimate import Estimate, half_width, read_epsilon
from discreet.local.frequency import Scores, read_reports, whole_reports
from discreet.local.hashing import Words, key_of, mixed, read_salt
from discreet.local.local_hashing import LinearHash, least_support, linear_hash, read_error
from discreet.local.randomizer import Randomizer, numbered
from discreet.noise.entropy import Entropy, SystemEntropy, below_vector
from discreet.privacy.exact import Real, above, count, set_fields
from discreet.privacy.guarantee import decimal

_TABLE = 2_000_000  # places for beginnings at one level, at least
_MOST = 1 << 22  # beginnings that are looked up at one level
_RARE = 1 << 10  # at the last level, places for each text that is looked up
_MOST_KEPT = 1 << 10
_LENIENT = Fraction(1, 4)  # the share of the kept places that chance may take before the last level


@dataclass(frozen=True, slots=True)
class _Found:
    """Beginnings of one length, with their hashes."""

    rows: Symbols
    words: Words


@dataclass(frozen=True, slots=True)
class _Longer:
    """Longer beginnings: their hashes, which one each was, and the symbols that were added, as one number."""

    words: Words
    origin: NDArray[np.int64]
    code: NDArray[np.int64]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class HeavyHitters(Randomizer):
    """Finds the texts that many devices hold, of all texts up to a length: no list of candidates is needed.

    A device draws a level, and reports by local hashing the beginning of its text that belongs to the level. The
    server looks at the beginnings level by level: what few reports support is dropped, the rest is made
    longer by all symbols. Each device reports once.

    For a public list of candidates `LocalHashing.find` sees rarer values, since all devices answer one question.

    Guarantee:
        Each report is ε-DP for any two texts, whatever their lengths: the level and the hash function are drawn
        without the text, and the residue that the hash function gives for a beginning is kept with chance p,
        where p(q − 1)/(1 − p) ≤ e^ε in integers. What is not a text counts as its `str`; characters outside of
        the alphabet are left out, and what comes after `length` symbols is cut off.

    Args:
        epsilon: the ε of one report.
        length: how many symbols of a text count.
        alphabet: the characters that count; by default texts are bytes of UTF-8. A short one needs fewer levels.
        keep: how many beginnings the server carries on at each level.
        salt: names the public hash functions.

    References:
        Wang, Li, Jha 2017 (the prefix extending method), https://arxiv.org/abs/1708.06674; Bassily, Nissim, Stemmer,
        Thakurta 2017 (TreeHist), https://arxiv.org/abs/1707.04982; docs/proofs/heavy-hitters.md, Theorem 3.

    >>> HeavyHitters(epsilon=2, length=12, alphabet="abcdefghijklmnopqrstuvwxyz").levels
    (4, 7, 9, 11, 12)
    """

    epsilon: Fraction
    spelling: Spelling
    keep: int
    salt: str

    def __init__(
        self, *, epsilon: Real, length: int, alphabet: str | None = None, keep: int = 64, salt: str = ""
    ) -> None:
        set_fields(self, epsilon=read_epsilon(epsilon), spelling=read_spelling(length, alphabet))
        kept = count("keep", keep)
        if kept > _MOST_KEPT or kept * self.spelling.base > _MOST:
            raise InvalidParameter(
                f"keep times the {self.spelling.base} symbols must be at most {_MOST:,}, and keep {_MOST_KEPT:,}.",
                hint="a smaller alphabet, or a smaller keep: more than 1/error of a share cannot be found anyway",
            )
        set_fields(self, keep=kept, salt=read_salt(salt))

    @property
    def law(self) -> LinearHash:
        """The law of what is reported at a level."""
        return linear_hash(self.epsilon, _TABLE)

    @property
    def levels(self) -> tuple[int, ...]:
        """The lengths of the beginnings, in symbols; the last one is the whole text."""
        base, length, table = self.spelling.base, self.spelling.length, self.law.size
        if base**length <= table // _RARE:
            return (length,)
        first, more = _power(base, _MOST), _power(base, _MOST // self.keep)
        body = length - _power(base, table // (_RARE * self.keep))  # the last level must be looked up sparsely
        steps = max(0, -(-(body - first) // more))
        ends = [body - (body - first) * i // steps for i in range(steps)][::-1]
        return (min(first, body), *ends, length)

    @property
    def scores(self) -> Scores:
        """How a report of the last level scores for a text."""
        return self.law.scores

    def randomize(self, x: Any, *, rng: Entropy | None = None) -> Any:
        """Return a whole number; for a list or an array of texts one for each.

        Args:
            x: a text, or a list or an array with one for each device.
            rng: where randomness comes from, for tests; the operating system's by default.
        """
        rows, many = self.spelling.read(x)
        source = SystemEntropy() if rng is None else rng
        law, ends = self.law, self.levels
        level = below_vector(len(ends), len(rows), source)
        places = np.zeros(len(rows), dtype=np.int64)
        for i, places_at in enumerate(self._places(rows)):
            places = np.where(level == i, places_at, places)
        reports = level * (law.size * law.prime) + law.reports(places, source)
        return reports if many else int(reports[0])

    def estimate(self, reports: Any, *, domain: Sequence[Hashable] | None = None) -> Estimate:
        """Return the shares of the texts in `domain`, from the reports of the last level.

        Intervals, the proven one too, are of the share of a text's place in the table: it is the text's own unless
        another frequent one falls there, which for two given texts has a chance of one in two million or less.

        Intervals are about the place of a text in the public table of that level: they take the texts that share it,
        one in millions of all others, for evenly spread.

        Args:
            reports: an array with one report for each device.
            domain: the texts; needed here, since there is no list of them. `find` makes one.
        """
        if domain is None:
            raise InvalidParameter(
                "domain= must list the texts whose shares are estimated.", hint="find(reports) finds them"
            )
        asked = listed(domain)
        texts = [t for t in asked if isinstance(t, str)]
        if not texts or len(texts) < len(asked):
            raise InvalidParameter(
                "domain= must be a list or an array of texts, at least one.", hint="domain=['red', 'green']"
            )
        last = self._split(reports)[-1]
        return self._shares(self.spelling.rows(texts), self.law.totals(last), last.size, tuple(texts))

    def find(self, reports: Any, *, error: Real = "0.05") -> Estimate:
        """Return the texts that enough reports of the last level support, the most frequent first.

        Args:
            reports: an array with one report for each device.
            error: a bound of the chance that chance alone lists a text that no device holds. (A text whose place in
                the table of the last level is that of a frequent one is listed with it; there is one in 1024 for
                each frequent one at most.)
        """
        chance = read_error(error)
        split = self._split(reports)
        ends, hashes = self.levels, Beginnings(self.salt)
        found = _Found(np.zeros((1, 0), dtype=np.uint16), hashes.start(1))
        for level, (end, given) in enumerate(zip(ends, split, strict=True)):
            longer = self._longer(found, end, hashes)
            totals = self.law.totals(given)
            support = totals[hashes.buckets(longer.words, level, self.law.size)]
            last = level == len(ends) - 1
            allowed = chance if last else self.keep * _LENIENT
            looked_up = max(1, support.size)
            least = least_support(given.size, self.law.prime, min(allowed / looked_up, Fraction(1, 2)))
            enough = np.flatnonzero(support >= least)
            best = enough[np.argsort(-support[enough], kind="stable")][: None if last else self.keep]
            found = self._picked(found, longer, best, end)
        texts = tuple(self.spelling.text(row) for row in found.rows)
        return self._shares(found.rows, totals, split[-1].size, texts)

    def key(self, x: Any) -> str:
        """Return a text by which texts that count as equal are known, for `Memoised`."""
        return self.spelling.text(self.spelling.read(x)[0][0])

    def error(self, users: int, confidence: Real = 0.95) -> float:
        """Return how far an estimated share is off at most when so many devices report, with that confidence."""
        own, other = self._variances
        return half_width(max(own, other) * len(self.levels), users, confidence)

    @property
    def _variances(self) -> tuple[float, float]:
        """Of one device of the last level, for a text that it holds or not: of its coins, and of who is asked there."""
        scores = self.scores
        return above(scores.own_variance / scores.gap**2) + 1.0, above(scores.other_variance / scores.gap**2)

    def _places(self, rows: Symbols) -> list[NDArray[np.int64]]:
        """For each level the places of the beginnings."""
        hashes, words, found, at = Beginnings(self.salt), Beginnings(self.salt).start(len(rows)), [], 0
        for level, end in enumerate(self.levels):
            for i in range(at, end):
                words = hashes.longer(words, rows[:, i])
            at = end
            found.append(hashes.buckets(words, level, self.law.size))
        return found

    def _split(self, reports: Any) -> list[NDArray[np.int64]]:
        given = read_reports(reports)
        span = self.law.size * self.law.prime
        level, report = np.divmod(whole_reports(given, 1, span * len(self.levels)), span)
        return [report[level == i] for i in range(len(self.levels))]

    def _longer(self, found: _Found, end: int, hashes: Beginnings) -> _Longer:
        """All beginnings of length `end` that begin with a found one; after the end of a text comes nothing."""
        base, n = self.spelling.base, len(found.rows)
        words, origin, code = found.words, np.arange(n), np.zeros(n, dtype=np.int64)
        ended = found.rows[:, -1] == 0 if found.rows.shape[1] else np.zeros(n, dtype=np.bool_)
        for _ in range(end - found.rows.shape[1]):
            going, over = np.flatnonzero(~ended), np.flatnonzero(ended)
            parent = np.concatenate([np.repeat(going, base), over])
            symbol = np.concatenate([np.tile(np.arange(base), going.size), np.zeros_like(over)])
            words = hashes.longer(words[parent], symbol)
            origin, code, ended = origin[parent], code[parent] * base + symbol, symbol == 0
        return _Longer(words, origin, code)

    def _picked(self, found: _Found, longer: _Longer, best: NDArray[np.int64], end: int) -> _Found:
        more = end - found.rows.shape[1]
        powers = self.spelling.base ** np.arange(more - 1, -1, -1, dtype=np.int64)
        symbols = longer.code[best, None] // powers % self.spelling.base
        rows = np.column_stack([found.rows[longer.origin[best]], symbols.astype(np.uint16)])
        return _Found(rows, longer.words[best])

    def _shares(self, rows: Symbols, totals: NDArray[np.int64], users: int, texts: tuple[str, ...]) -> Estimate:
        if not users:
            raise InvalidParameter(
                "no device answered at the last level.", hint="heavy hitters need thousands of reports"
            )
        law, scores = self.law, self.scores
        support = totals[self._places(rows)[-1]].astype(np.float64)
        shares = (support - users / law.prime) / (users * float(scores.gap))
        crowd = 1 / law.size  # the share of all others that falls on the same place, on average over the hash functions
        own, other = self._variances
        return Estimate(
            texts,
            (shares - crowd) / (1 - crowd),
            users=users,
            own=own,
            other=other,
            reach=above(scores.spread / scores.gap) + 1.0,
        )

    def explain(self) -> str:
        law, e = self.law, decimal(self.epsilon)
        q, p = law.prime, float(law.coin.chance)
        return numbered(
            repr(self),
            f"Level. One of {len(self.levels)} levels is drawn uniformly, without the text; the beginning of "
            f"{', '.join(map(str, self.levels))} symbols counts there.",
            f"Hash. A public function takes the beginning to one of {law.size:,} places, and a uniform linear function "
            f"takes that to a residue modulo {q}.",
            f"Law. The residue is reported with chance p = {p:.6g}, each other one with chance (1 − p)/{q - 1}.",
            f"Ratio. Given level and function, two texts have ratio at most p·{q - 1}/(1 − p) ≤ exp({e}), in integers.",
            f"Conclusion. Level and function have the same law for all texts: the one report of a device is {e}-DP.",
        )

    def __repr__(self) -> str:
        s = self.spelling
        alphabet = "" if s.alphabet is None else f", alphabet=<{len(s.alphabet)} characters>"
        return (
            f"HeavyHitters(epsilon={decimal(self.epsilon)}, length={s.length}{alphabet}, keep={self.keep}, "
            f"salt={self.salt!r})"
        )


def _power(base: int, most: int) -> int:
    """Return the largest k with base^k ≤ most, at least 0."""
    k = 0
    while base ** (k + 1) <= most:
        k += 1
    return k


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
        """Return a row of symbols for each text, and whether several came. What is not a text counts as its `str`."""
        many = is_many(x)
        listed = x if isinstance(x, list) else read_array("x", x).tolist() if many else [x]
        texts = [v if type(v) is str else _text(v) for v in listed]
        return self.rows(texts), many

    def rows(self, texts: Sequence[str]) -> Symbols:
        """Return a row of symbols for each text: characters outside of the alphabet are left out, a NUL ends it."""
        if self.alphabet is None:
            raw = np.array([t.encode("utf-8", "replace")[: self.length] for t in texts], dtype=f"S{self.length}")
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
        """Return the text of a row."""
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
        """Return the hashes of n empty beginnings."""
        return np.full(n, key_of("beginnings", self.salt), dtype=np.uint64)

    def longer(self, words: Words, symbols: NDArray[Any]) -> Words:
        """Return the hashes of the beginnings with one symbol more."""
        return mixed(words ^ (symbols.astype(np.uint64) + np.uint64(1)) * _STEP)

    def buckets(self, words: Words, level: int, size: int) -> NDArray[np.int64]:
        """Where the beginnings fall in a table of so many places; each level has a function of its own."""
        return (mixed(words ^ np.uint64(key_of("level", level, self.salt))) % np.uint64(size)).astype(np.int64)


def read_spelling(length: int, alphabet: str | None) -> Spelling:
    """Return a public spelling, whose parameters are sound."""
    if count("length", length) > _LONGEST:
        raise InvalidParameter(f"length must be a whole number from 1 to {_LONGEST}: the symbols of a text that count.")
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
    """Return the text that another value counts as; empty for one that has none, as a number of too many digits."""
    try:
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    except (ValueError, RecursionError):
        return ""
