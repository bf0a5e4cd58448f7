"""Public hash functions: of texts and numbers to 64 bits, and from there to anything.

Nothing here is private and nothing needs to be: a hash is a function that server and devices share, named by a public
salt. What matters is that it spreads values evenly and is the same on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter

Words = NDArray[np.uint64]

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_LONGEST_SALT = 10_000


def mixed(words: Words) -> Words:
    """Return a permutation of the 64-bit words that leaves no pattern: the finaliser of SplitMix64.

    References:
        Steele, Lea, Flood 2014 (SplitMix), https://doi.org/10.1145/2660193.2660195
    """
    z = words + np.uint64(_GOLDEN)
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return z


def key_of(*parts: object) -> int:
    """64 bits from a salt and what tells functions of one salt apart."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def digests(values: Iterable[Hashable] | NDArray[Any], key: int) -> Words:
    """64 bits for each value, the same for equal numbers: 7, numpy's 7 and 7.0, and True and 1."""
    if isinstance(values, np.ndarray):
        if values.dtype.kind in "iub" and values.dtype != np.uint64:  # whose upper half is beyond int64
            return _of_integers(values.reshape(-1).astype(np.uint64), key)
        values = values.reshape(-1).tolist()
    listed = list(values)
    if not listed:
        return np.empty(0, dtype=np.uint64)
    if all(type(v) is int and -(1 << 63) <= v < 1 << 63 for v in listed):
        return _of_integers(np.array(listed, dtype=np.int64).astype(np.uint64), key)
    secret = key.to_bytes(8, "little")
    if all(type(v) is str for v in listed):  # by far the most frequent kind, kept short
        raw = b"".join(
            [blake2b(b"s" + v.encode("utf-8", "surrogatepass"), digest_size=8, key=secret).digest() for v in listed]
        )
        return np.frombuffer(raw, dtype="<u8").astype(np.uint64)
    return np.array([_of_one(v, key, secret) for v in listed], dtype=np.uint64)


def _of_one(value: Any, key: int, secret: bytes) -> int:
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()  # as it comes out of an array
    if isinstance(value, str):
        raw = b"s" + value.encode("utf-8", "surrogatepass")
    elif isinstance(value, bytes):
        raw = b"b" + value
    else:
        whole = _whole(value)
        if whole is not None:
            if -(1 << 63) <= whole < 1 << 63:
                return int(_of_integers(np.array([whole & _MASK], dtype=np.uint64), key)[0])
            raw = b"i" + str(whole % (1 << 256)).encode()
        else:
            raw = b"o" + _written(value).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(raw, digest_size=8, key=secret).digest(), "little")


def _whole(value: Any) -> int | None:
    """Return the integer that a value is equal to, if any."""
    if isinstance(value, int | np.integer | np.bool_):
        return int(value)
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return int(value)
    return None


def _written(value: Any) -> str:
    try:
        return repr(float(value) if isinstance(value, float | np.floating) else value)
    except (ValueError, RecursionError):  # Python does not write it; no value may be refused
        return type(value).__name__


def _of_integers(words: Words, key: int) -> Words:
    return mixed(mixed(words) ^ np.uint64(key))


def read_salt(salt: str) -> str:
    """Return a public salt."""
    given: object = salt  # what came need not be what was annotated
    if not isinstance(given, str) or len(salt) > _LONGEST_SALT:
        raise InvalidParameter(
            "salt must be a text, the same on all devices and on the server.", hint="salt='2026, spring'"
        )
    return salt


_WORD = 8  # bytes of the digest for each hash


@dataclass(frozen=True, slots=True)
class Bloom:
    """`hashes` bits out of `bits`, for each of `cohorts` families of hash functions; the bits may coincide.

    The hash is BLAKE2b keyed by nothing but the cohort: devices and the server agree on it for ever.
    """

    bits: int
    hashes: int
    cohorts: int

    def positions(self, values: Iterable[Any], cohorts: Iterable[int]) -> NDArray[np.int64]:
        """Return the set bits of each value in its cohort, a row each."""
        size = _WORD * self.hashes
        digests = [
            hashlib.blake2b(text(v), digest_size=size, person=b"discreet", salt=c.to_bytes(16, "big")).digest()
            for v, c in zip(values, cohorts, strict=True)
        ]
        words = np.frombuffer(b"".join(digests), dtype="<u8").reshape(len(digests), self.hashes)
        return (words % np.uint64(self.bits)).astype(np.int64)

    def filters(self, values: Iterable[Any], cohorts: Iterable[int]) -> NDArray[np.uint8]:
        """Return the bits themselves, a row for each value."""
        positions = self.positions(values, cohorts)
        bits = np.zeros((len(positions), self.bits), dtype=np.uint8)
        np.put_along_axis(bits, positions, 1, axis=1)
        return bits


def text(value: Any) -> bytes:
    """Return a value as the text that is hashed: bytes and texts as they are, anything else as `str` writes it."""
    if isinstance(value, bytes):
        return value
    try:
        written = str(value)
    except (ValueError, RecursionError):  # a number of more than 4,300 digits; no value may be refused
        written = hex(value) if isinstance(value, int) else type(value).__name__
    return written.encode("utf-8", "surrogatepass")
