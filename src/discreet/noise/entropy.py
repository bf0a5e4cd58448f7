"""Uniform random bytes, the one port through which randomness enters, and uniform integers below n."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext


_REKEY = 1 << 30  # bytes from one key; its 2^26 blocks never repeat, which shows with chance < 2^-76
_BUFFER = 1 << 12  # bytes kept in advance for small requests
_SMALL = 1 << 9  # a request up to this size is served from the buffer
_CHUNK = 1 << 26  # the most that one call to the cipher makes

_forks = 0  # how many forks lie between this process and the one that imported the module
_zeros = bytes(1 << 16)  # what the cipher encrypts; grows on use, and the pages stay the kernel's zero page


class Entropy(Protocol):
    """A source of independent uniform random bytes, each handed out once."""

    def bytes(self, n: int, /) -> bytes:
        """`n` uniform random bytes, owned by the caller."""
        ...


class SystemEntropy:
    """The operating system's CSPRNG, stretched by AES-256 in counter mode.

    Every thread has its own stream under its own key from `os.urandom`. A stream is thrown away after 2^30
    bytes and in the child of a fork, so no two threads or processes ever share output. Bytes are erased from
    the buffer as they are handed out. There is no seed, and a source cannot be copied or pickled. One source
    may be shared by all threads; a signal handler may use it in the middle of another request.

    Guarantee:
        If AES-256 is a pseudorandom permutation and `os.urandom` is uniform, the output cannot be told from
        independent uniform bytes. A snapshot of a whole virtual machine, resumed twice, repeats itself until
        the next key: that is outside what a process can see.

    References:
        NIST SP 800-38A, §6.5 (counter mode); NIST SP 800-90A Rev. 1, §10.2.1
        (https://doi.org/10.6028/NIST.SP.800-90Ar1); docs/proofs/entropy.md.
    """

    __slots__ = ("_local",)

    def __init__(self) -> None:
        self._local = _Streams()

    def bytes(self, n: int, /) -> bytes:
        """`n` uniform random bytes, owned by the caller."""
        while True:
            # The stream is out of its place while it is used: a signal handler that draws in between gets
            # another one. A fork, before or in between, is seen at the end: what was drawn is thrown away.
            streams = self._local.streams
            try:
                stream = streams.pop()
            except IndexError:
                stream = _Stream()
            drawn = stream.take(n)
            if stream.is_ours():
                streams.append(stream)
                return drawn

    def __repr__(self) -> str:
        return "SystemEntropy()"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SystemEntropy cannot be copied or pickled; make another one where it is needed")

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()


class _Streams(threading.local):
    """The streams of one thread that are not in use: one, or two after a signal handler drew."""

    def __init__(self) -> None:
        self.streams: list[_Stream] = []


class _Stream:
    """One AES-256-CTR key stream, its small buffer, and the process that it belongs to."""

    __slots__ = ("_buffer", "_encryptor", "_fork", "_left", "_pid", "_start")

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._fork = _forks
        self._buffer = bytearray(_BUFFER)
        self._start = _BUFFER
        self._left = 0
        self._encryptor: CipherContext | None = None

    def is_ours(self) -> bool:
        """Return whether no fork has happened since the stream was made (seen even where no hook of Python ran)."""
        return self._fork == _forks and self._pid == os.getpid()

    def take(self, n: int) -> bytes:
        if n < 0:
            raise InvalidParameter(f"n must be at least 0, not {n}.")
        if n > _SMALL:
            return self._generate(n)
        if self._start + n > _BUFFER:
            self._buffer[:] = self._generate(_BUFFER)
            self._start = 0
        start, end = self._start, self._start + n
        self._start = end
        drawn = bytes(self._buffer[start:end])
        self._buffer[start:end] = bytes(n)
        return drawn

    def _generate(self, n: int) -> bytes:
        if n <= _CHUNK:
            return self._encrypt(n)
        sizes = [_CHUNK] * (n // _CHUNK)
        return b"".join([self._encrypt(size) for size in (*sizes, n % _CHUNK)])

    def _encrypt(self, n: int) -> bytes:
        if self._encryptor is None or n > self._left:
            self._encryptor, self._left = _keyed(), _REKEY
        self._left -= n
        return self._encryptor.update(_zero_bytes(n))


def _keyed() -> CipherContext:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(16))).encryptor()


def _zero_bytes(n: int) -> memoryview:
    global _zeros
    zeros = _zeros
    if n > len(zeros):  # two threads may both grow it; each keeps its own, and both are zeros
        _zeros = zeros = bytes(1 << (n - 1).bit_length())
    return memoryview(zeros)[:n]


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # there is no fork on Windows
    os.register_at_fork(after_in_child=_count_fork)


def process() -> tuple[int, int]:
    """Return what tells this process from every other that goes on from the same memory, by forks of Python or not."""
    return _forks, os.getpid()


def bits(rng: Entropy, k: int) -> int:
    """`k` uniform random bits, as an integer in [0, 2^k)."""
    return int.from_bytes(rng.bytes((k + 7) >> 3), "little") >> (-k & 7)


def words16(rng: Entropy, n: int) -> NDArray[np.uint16]:
    """`n` independent uniform 16-bit words; the array cannot be written to."""
    return np.frombuffer(rng.bytes(2 * n), dtype="<u2")


def words32(rng: Entropy, n: int) -> NDArray[np.uint32]:
    """`n` independent uniform 32-bit words; the array cannot be written to."""
    return np.frombuffer(rng.bytes(4 * n), dtype="<u4")


def words64(rng: Entropy, n: int) -> NDArray[np.uint64]:
    """`n` independent uniform 64-bit words; the array cannot be written to."""
    return np.frombuffer(rng.bytes(8 * n), dtype="<u8")


def below(n: int, rng: Entropy) -> int:
    """Return a uniform integer in [0, n), for any n ≥ 1.

    Guarantee:
        Exact: as many bits as n − 1 has are drawn until they are below n, fewer than twice on average. The
        number of draws is independent of the result.
    """
    if n < 1:
        raise InvalidParameter("n must be an integer of at least 1.")
    k = (n - 1).bit_length()
    while True:
        drawn = bits(rng, k)
        if drawn < n:
            return drawn


def below_vector(n: int, size: int, rng: Entropy) -> NDArray[np.int64]:
    """`size` independent uniform integers in [0, n), for 1 ≤ n ≤ 2^63.

    Guarantee:
        Exact, by the same rejection as `below`.
    """
    if not 1 <= n <= 1 << 63:
        raise InvalidParameter("n must be an integer from 1 to 2^63.")
    if size < 0:
        raise InvalidParameter("size must be an integer of at least 0.")
    k = (n - 1).bit_length()
    if n == 1 << k:
        return _words(k, size, rng)
    drawn = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        left = size - filled
        more = _words(k, left + left * ((1 << k) - n) // n + 16, rng)  # about the expected number; the rest is repeated
        accepted = more[more < n][:left]
        drawn[filled : filled + accepted.size] = accepted
        filled += accepted.size
    return drawn


def _words(k: int, size: int, rng: Entropy) -> NDArray[np.int64]:
    """`size` words of k ≤ 63 uniform bits."""
    if k == 0:
        return np.zeros(size, dtype=np.int64)
    if k <= 16:
        return (words16(rng, size) >> np.uint16(16 - k)).astype(np.int64)
    if k <= 32:
        return (words32(rng, size) >> np.uint32(32 - k)).astype(np.int64)
    return (words64(rng, size) >> np.uint64(64 - k)).astype(np.int64)
