"""Bloom filters: a text as a few set bits out of many, by public hashes that differ from cohort to cohort."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
            hashlib.blake2b(
                text(v), digest_size=size, person=b"discreet", salt=c.to_bytes(16, "big")
            ).digest()
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
