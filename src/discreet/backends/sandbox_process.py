"""A process of its own for outer queries: what a text uses up of memory, or makes fail, takes nothing else down.

The database's own limit of memory does not hold for texts: `replace(s, 'a', s)`, three times over, is a thousand
gigabytes. Where the operating system has limits of a process's memory (Linux), the process has one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import duckdb

from discreet.backends.connection import open_sandbox
from discreet.errors import BackendFailed

MEMORY = 3 << 30
"""Bytes that the process may have."""

LARGEST = 1 << 28
"""Bytes of a result, at most."""

_GRACE = 10  # seconds after which a process that is not interrupted is ended
_KEPT = 2  # processes that wait for the next query
_PROGRAM = "from discreet.backends.sandbox_process import serve; serve({})"


class SandboxRows(NamedTuple):
    """Result of a statement."""

    columns: list[str]
    rows: list[tuple[Any, ...]]


class SandboxProcess:
    """A child that runs statements in a database of its own (`open_sandbox`)."""

    def __init__(self) -> None:
        self._maker = os.getpid()
        self._child = subprocess.Popen(  # noqa: S603  # this interpreter, with a fixed program
            [sys.executable, "-P", "-c", _PROGRAM.format(MEMORY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p or os.getcwd() for p in sys.path)},  # noqa: PTH109
        )

    @property
    def is_there(self) -> bool:
        """True where it can be asked: a fork of the process that made it cannot."""
        return self._maker == os.getpid() and self._child.poll() is None

    def reset(self, seconds: float) -> None:
        """Begin a new, empty database."""
        self._ask((None, [], seconds), seconds)

    def execute(self, sql: str, parameters: Sequence[Any] = (), *, seconds: float) -> SandboxRows:
        """Run a statement.

        Raises:
            duckdb.Error: it fails, or takes too long or too much memory.
        """
        return self._ask((sql, list(parameters), seconds), seconds)

    def close(self) -> None:
        """End it."""
        if self._maker != os.getpid():
            self._child.returncode = 0  # another's child, of which nothing is to be waited for
            return
        self._child.kill()
        for pipe in (self._child.stdin, self._child.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._child.wait()

    def _ask(self, request: Any, seconds: float) -> SandboxRows:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        alarm = threading.Timer(seconds + _GRACE, self._child.kill)
        alarm.start()
        try:
            pickle.dump(request, self._child.stdin, pickle.HIGHEST_PROTOCOL)
            self._child.stdin.flush()
            kind, *told = pickle.load(self._child.stdout)  # noqa: S301  # of our own program
        except (OSError, EOFError, pickle.UnpicklingError):
            self.close()
            raise duckdb.OutOfMemoryException("It took too much memory or time, and was ended.") from None
        except BaseException:
            self.close()  # between a question and its answer
            raise
        finally:
            alarm.cancel()
        if kind is not None:
            raise getattr(duckdb, kind, duckdb.Error)(*told)
        return SandboxRows(*told)


_idle: list[SandboxProcess] = []


@contextmanager
def borrowed(seconds: float) -> Iterator[SandboxProcess]:
    """Yield a process with an empty database, which nobody else has now.

    Raises:
        BackendFailed: no process can be started here.
    """
    process = None
    while _idle and process is None:
        with contextlib.suppress(IndexError):  # another thread took it
            process = _idle.pop()
        if process is not None and not process.is_there:
            process.close()
            process = None
    try:
        process = process or SandboxProcess()
        process.reset(seconds)
    except (OSError, TypeError, duckdb.Error):
        raise BackendFailed(
            "No process could be started for the query over results.",
            hint="it runs in a Python of its own: sys.executable has to be one",
        ) from None
    try:
        yield process
    finally:
        if process.is_there and len(_idle) < _KEPT:
            _idle.append(process)
        else:
            process.close()


@atexit.register
def _end() -> None:
    while _idle:
        _idle.pop().close()


def serve(memory: int) -> None:
    """Run statements from standard input until it ends; the program of the child."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    out = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123  # what is printed is no answer
        os.dup2(nowhere.fileno(), 1)
    _limit_memory(memory)
    connection = open_sandbox()
    while True:
        try:
            sql, given, seconds = pickle.load(sys.stdin.buffer)  # noqa: S301  # from the parent
        except EOFError:
            os._exit(0)
        if sql is None:
            connection.close()
            connection = open_sandbox()
            _reply(out, None, [], [])
            continue
        alarm = threading.Timer(seconds, connection.interrupt)
        alarm.start()
        try:
            found = connection.execute(sql, given) if given else connection.execute(sql)
            told = pickle.dumps((None, [name for name, *_ in found.description or []], found.fetchall()))
            if len(told) > LARGEST:
                raise duckdb.OutOfMemoryException(f"The result is larger than {LARGEST >> 20} MB.")
            out.write(told)
            out.flush()
        except MemoryError:
            _reply(out, "OutOfMemoryException", "It took too much memory.")
        except duckdb.Error as error:
            _reply(out, type(error).__name__, str(error))
        except Exception as error:  # a value that Python does not have, such as a date before its first
            _reply(out, "Error", f"A value of the result cannot be shown: {error}"[:300])
        finally:
            alarm.cancel()


def _reply(out: IO[bytes], *told: Any) -> None:
    pickle.dump(told, out)
    out.flush()


def _limit_memory(memory: int) -> None:
    try:
        import resource
    except ImportError:
        return
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
