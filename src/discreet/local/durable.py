"""Small files of a device that survive a crash: one writer at a time, replaced whole, readable by the owner alone."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from discreet.errors import InvalidParameter, LedgerBusy, LedgerError

_PATIENCE = 30.0  # seconds
_PAUSE = 0.005


@contextmanager
def exclusive(path: str) -> Iterator[int]:
    """Yield the descriptor of a file that is made if need be, locked against all other processes and threads.

    Raises:
        LedgerBusy: another one holds it for too long.
        LedgerError: the file cannot be opened.
    """
    with failing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
    try:
        until = time.monotonic() + _PATIENCE
        while not _lock(descriptor):
            if time.monotonic() > until:
                raise LedgerBusy(f"another process holds {path} for too long.", hint="try again later")
            time.sleep(_PAUSE)
        try:
            yield descriptor
        finally:
            _unlock(descriptor)  # explicit: a child of a fork may hold a copy of the descriptor
    finally:
        os.close(descriptor)


def place(path: object) -> str:
    """Where a file is, links followed: the same text for every way to write its path.

    Raises:
        InvalidParameter: it is no path.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidParameter(f"path must be the path of a file, not {type(path).__name__}.", hint="'answers.json'")
    return os.path.realpath(os.fsdecode(path))


def read(path: str) -> bytes | None:
    """Return the whole file; None where there is none."""
    try:
        with failing(path):
            return Path(path).read_bytes()
    except LedgerError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


def replace(path: str, data: bytes) -> None:
    """Have the file hold `data` from now on, whatever happens to the machine; only its owner may read it.

    The caller holds the lock. Until the end the old file is there, and afterwards the new one.
    """
    new = f"{path}.new"
    with failing(path):
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS, 0o600)
        try:
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, 0o600)  # it may have been there, left by a crash or by somebody else
            _write(descriptor, data)
        finally:
            os.close(descriptor)
        Path(new).replace(path)
        _sync_folder(path)


def exists(path: str) -> bool:
    """Return whether there is such a file."""
    return Path(path).exists()


def held(path: str, descriptor: int) -> bytes:
    """Return what a short locked file holds."""
    with failing(path):
        os.lseek(descriptor, 0, os.SEEK_SET)
        return os.read(descriptor, 1 << 12)


def overwrite(path: str, descriptor: int, data: bytes) -> None:
    """Have a locked file of always the same length hold `data` from now on."""
    with failing(path):
        os.lseek(descriptor, 0, os.SEEK_SET)
        _write(descriptor, data)


@contextmanager
def failing(path: str) -> Iterator[None]:
    """Turn every error of the file system inside the block into a `LedgerError`."""
    try:
        yield
    except OSError as error:
        raise LedgerError(
            f"the file {path} cannot be used: {error.strerror}.",
            hint="nothing was reported; look at the folder, its rights and its free space",
        ) from error


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
    _sync(descriptor)


if sys.platform == "win32":
    import msvcrt

    _FLAGS = os.O_BINARY | os.O_NOINHERIT

    def _lock(descriptor: int) -> bool:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    def _sync(descriptor: int) -> None:
        os.fsync(descriptor)

    def _sync_folder(path: str) -> None:
        """Windows writes names by itself."""

    _LOCKED_BYTE = 1 << 30  # far behind what the file holds, which others may read meanwhile

else:
    import fcntl

    _FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW

    def _lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _sync(descriptor: int) -> None:
        if hasattr(fcntl, "F_FULLFSYNC"):  # macOS: fsync leaves it in the disk's cache
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
        else:
            os.fsync(descriptor)

    def _sync_folder(path: str) -> None:
        folder = os.open(Path(path).parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
