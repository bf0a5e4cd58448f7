"""A child whose every change to a folder is seen before it is made, and is made, spoiled, or the child's last.

Linux on x86-64 only: it reads and writes the child's registers with ptrace(2).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from discreet.errors import InternalError, InvalidParameter

_TRACEME, _PEEK_REGISTERS, _POKE_REGISTERS, _TO_NEXT_CALL, _OPTIONS = 0, 12, 13, 24, 0x4200
_MARK_CALLS, _DIE_TOGETHER = 1, 1 << 20
_CALL_STOP = signal.SIGTRAP | 0x80
_NO_CALL = (1 << 64) - 1
_HERE = -100  # AT_FDCWD
_CANNOT = 77

# Registers of user_regs_struct, in words.
_RAX, _RDX, _RSI, _RDI, _R10, _ORIG_RAX = 10, 12, 13, 14, 7, 15
_WORDS = 27

_OF_FILE = {1: "write", 18: "pwrite", 74: "fsync", 75: "fdatasync", 77: "truncate", 285: "allocate"}
_OF_NAME = {82: "rename", 86: "link", 87: "unlink"}
_AT_NAME = {263: "unlink", 264: "rename", 265: "link", 316: "rename"}
_OPEN, _OPEN_AT = 2, 257
_UNFORESEEN = {20: "writev", 296: "pwritev", 328: "pwritev2", 326: "copy_file_range", 40: "sendfile", 85: "creat"}


class Fate(Enum):
    """What becomes of one change."""

    MADE = "made"
    KILLED = "killed"
    """The child is killed before it."""
    FULL = "disk full"
    BROKEN = "I/O error"
    SHORT = "short write"
    LOST = "lost"
    """It is said to be done, and is not: for a sync, a disk that lies."""


_ERRORS = {Fate.FULL: 28, Fate.BROKEN: 5, Fate.LOST: 0}  # ENOSPC, EIO, success


@dataclass(frozen=True, slots=True)
class Change:
    """One system call that changes the folder.

    Attributes:
        call: "write", "pwrite", "fsync", "fdatasync", "truncate", "allocate", "create", "rename", "link", "unlink".
        path: the file's absolute path.
        offset: of a write; the size of a truncation.
        data: what is written.
        target: the new name of a renamed or linked file.
    """

    call: str
    path: str
    offset: int = 0
    data: bytes = b""
    target: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """How the child ended.

    Attributes:
        status: its exit status; negative when a signal killed it.
        said: what it wrote to the pipe that it was given.
    """

    status: int
    said: bytes


def can_trace() -> bool:
    """Whether this system lets a process trace its child in the way that this file does."""
    return sys.platform == "linux" and os.uname().machine == "x86_64"


def run(
    work: Callable[[int], None], folder: Path, decide: Callable[[Change], Fate], hear: Callable[[], None] | None = None
) -> End:
    """Run work in a forked child, asking what becomes of each change that it is about to make in a folder.

    Args:
        work: what the child does; it is given the pipe on which it says what it has been told is done.
        folder: where changes are watched.
        decide: the fate of a change.
        hear: called each time when the child is about to say something.

    Raises:
        InvalidParameter: this system does not let a process trace its child.
    """
    if not can_trace():
        raise InvalidParameter("the crash campaign needs Linux on x86-64, whose ptrace it uses.")
    told, tell = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of other threads, which the child never uses
        pid = os.fork()
    if pid == 0:
        _be_traced(work, told, tell)
    os.close(tell)
    try:
        status = _Tracer(pid, str(folder.resolve()) + os.sep, decide, tell, hear or (lambda: None)).run()
        said = b"".join(iter(lambda: os.read(told, 1 << 16), b""))
    finally:
        os.close(told)
    if status == _CANNOT:
        raise InvalidParameter("this system does not let a process trace its own child.")
    return End(status, said)


def _be_traced(work: Callable[[int], None], told: int, tell: int) -> None:
    status = 1
    try:
        os.close(told)
        if _ptrace(_TRACEME, 0, 0, 0, checked=False) != 0:
            os._exit(_CANNOT)
        os.kill(os.getpid(), signal.SIGSTOP)
        work(tell)
        status = 0
    finally:
        os._exit(status)


class _Tracer:
    def __init__(
        self, pid: int, folder: str, decide: Callable[[Change], Fate], tell: int, hear: Callable[[], None]
    ) -> None:
        self._pid, self._folder, self._decide, self._tell, self._hear = pid, folder, decide, tell, hear
        self._registers = (ctypes.c_uint64 * _WORDS)()

    def run(self) -> int:
        _, status = os.waitpid(self._pid, 0)
        if os.WIFEXITED(status):
            return os.waitstatus_to_exitcode(status)
        _ptrace(_OPTIONS, self._pid, 0, _MARK_CALLS | _DIE_TOGETHER)
        passed, entering, fate = 0, True, Fate.MADE
        while True:
            _ptrace(_TO_NEXT_CALL, self._pid, 0, passed)
            _, status = os.waitpid(self._pid, 0)
            if not os.WIFSTOPPED(status):
                return os.waitstatus_to_exitcode(status)
            caught, passed = os.WSTOPSIG(status), 0
            if caught != _CALL_STOP:
                passed = 0 if caught == signal.SIGTRAP else caught
            elif entering:
                entering, fate = False, self._fate()
                if fate is Fate.KILLED:
                    os.kill(self._pid, signal.SIGKILL)
                    return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
                self._spoil(fate)
            else:
                entering = True
                if fate in _ERRORS:
                    self._registers[_RAX] = (-_ERRORS[fate]) % (1 << 64)
                    self._poke()

    def _fate(self) -> Fate:
        _ptrace(_PEEK_REGISTERS, self._pid, 0, ctypes.addressof(self._registers))
        change = self._change()
        return Fate.MADE if change is None else self._decide(change)

    def _spoil(self, fate: Fate) -> None:
        if fate in _ERRORS:
            self._registers[_ORIG_RAX] = _NO_CALL
        elif fate is Fate.SHORT:
            self._registers[_RDX] //= 2
        else:
            return
        self._poke()

    def _poke(self) -> None:
        _ptrace(_POKE_REGISTERS, self._pid, 0, ctypes.addressof(self._registers))

    def _change(self) -> Change | None:
        r = self._registers
        call = r[_ORIG_RAX]
        if call == 1 and r[_RDI] == self._tell:
            self._hear()
            return None
        if call in _OF_FILE:
            return self._of_file(_OF_FILE[call], self._open_path(r[_RDI]))
        if call in _OF_NAME:
            return self._of_names(_OF_NAME[call], self._name(_HERE, r[_RDI]), lambda: self._name(_HERE, r[_RSI]))
        if call in _AT_NAME:
            name = self._name(_signed(r[_RDI]), r[_RSI])
            return self._of_names(_AT_NAME[call], name, lambda: self._name(_signed(r[_RDX]), r[_R10]))
        if call in (_OPEN, _OPEN_AT):
            at = call == _OPEN_AT
            flags = r[_RDX if at else _RSI]
            path = self._name(_signed(r[_RDI]) if at else _HERE, r[_RSI if at else _RDI])
            if not path.startswith(self._folder) or not flags & (os.O_CREAT | os.O_TRUNC):
                return None
            if not Path(path).exists():
                return Change("create", path)
            return Change("truncate", path) if flags & os.O_TRUNC else None
        if call in _UNFORESEEN and (self._open_path(r[_RDI]) or "").startswith(self._folder):
            raise InternalError(f"the system call {_UNFORESEEN[call]} changed a watched file in an unforeseen way.")
        return None

    def _of_file(self, call: str, path: str | None) -> Change | None:
        r = self._registers
        if path is None or not (path + os.sep).startswith(self._folder):
            return None
        if call == "write":
            return Change(call, path, self._position(r[_RDI]), self._bytes(r[_RSI], r[_RDX]))
        if call == "pwrite":
            return Change(call, path, r[_R10], self._bytes(r[_RSI], r[_RDX]))
        return Change(call, path, r[_RSI] if call == "truncate" else 0)

    def _of_names(self, call: str, path: str, target: Callable[[], str]) -> Change | None:
        if not path.startswith(self._folder):
            return None
        return Change(call, path, target="" if call == "unlink" else target())

    def _open_path(self, fd: int) -> str | None:
        try:
            return str(Path(f"/proc/{self._pid}/fd/{fd}").readlink())
        except OSError:
            return None

    def _position(self, fd: int) -> int:
        line = Path(f"/proc/{self._pid}/fdinfo/{fd}").read_text(encoding="ascii").splitlines()[0]
        return int(line.split()[1])

    def _name(self, at: int, address: int) -> str:
        text = os.fsdecode(self._bytes(address, 4096, until=b"\0"))
        base = f"/proc/{self._pid}/cwd" if at == _HERE else f"/proc/{self._pid}/fd/{at}"
        return os.path.normpath(Path(base).readlink() / text)

    def _bytes(self, address: int, size: int, until: bytes | None = None) -> bytes:
        with Path(f"/proc/{self._pid}/mem").open("rb", buffering=0) as memory:
            if until is None:
                memory.seek(address)
                return memory.read(size)
            found = b""
            while until not in found and len(found) < size:
                memory.seek(address + len(found))
                found += memory.read(256 - (address + len(found)) % 256)  # never beyond the end of a page
            return found.split(until)[0]


def _signed(word: int) -> int:
    low = word & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _ptrace(request: int, pid: int, address: int, data: int, *, checked: bool = True) -> int:
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.argtypes, call.restype = [ctypes.c_long] * 4, ctypes.c_long
    found = int(call(request, pid, address, data))
    if checked and found != 0:
        raise InternalError(f"ptrace failed: {os.strerror(ctypes.get_errno())}.")
    return found
