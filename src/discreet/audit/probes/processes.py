"""Work in other processes that ends in time and leaves nothing behind."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

CAN_FORK = hasattr(os, "fork")

_WORKER = "from discreet.audit.probes.processes import serve; serve()"


class Child:
    """A forked child that computes something; what it found is read with `result`.

    Attributes:
        pid: its number.
    """

    def __init__(self, pid: int, pipe: int) -> None:
        self.pid = pid
        self._pipe = pipe

    def result(self, seconds: float) -> Any:
        """Return what the child's work returned, as JSON values; None when it failed or took longer."""
        deadline = time.monotonic() + seconds
        parts: list[bytes] = []
        while True:
            ready, _, _ = select.select([self._pipe], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return None
            part = os.read(self._pipe, 1 << 16)
            if not part:
                return json.loads(b"".join(parts)) if parts else None
            parts.append(part)

    def end(self) -> None:
        """End the child, whatever it does, and remove what the system keeps of it."""
        os.close(self._pipe)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


@contextlib.contextmanager
def forked(work: Callable[[], object]) -> Iterator[Child]:
    """Yield a child made by a plain fork, which has a copy of all that the parent has in memory."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns that a fork among threads may block; a child that blocks is ended
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(json.dumps(work()).encode())
        finally:
            os._exit(0)  # no handlers, no buffers of the parent
    os.close(writing)
    child = Child(pid, reading)
    try:
        yield child
    finally:
        child.end()


def fresh(jobs: Sequence[bytes], seconds: float) -> list[Any]:
    """Results of pickled jobs, each (function, arguments), in interpreters of their own that start together.

    A result is None where the job failed or took longer; a text that begins with "failed: " says why.
    """
    deadline = time.monotonic() + seconds
    started: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = []
    results: list[Any] = []
    try:
        for job in jobs:
            answers: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed below
            process = subprocess.Popen(  # noqa: S603  # this interpreter, with a fixed program
                [sys.executable, "-c", _WORKER],
                stdin=subprocess.PIPE,
                stdout=answers,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )
            started.append((process, answers))
            threading.Thread(target=_feed, args=(process, job), daemon=True).start()
        _let_go(started, deadline)
        for process, answers in started:
            results.append(_finished(process, answers, deadline))
    finally:
        for process, answers in started:
            process.kill()
            with contextlib.suppress(OSError):
                if process.stdin is not None:
                    process.stdin.close()
            process.wait()
            answers.close()
    return results


def serve() -> None:
    """Do one job from standard input; the program of `fresh`."""
    out = os.fdopen(os.dup(1), "w")
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123  # what the job prints is not its result
        os.dup2(nowhere.fileno(), 1)
    size = int.from_bytes(sys.stdin.buffer.read(8), "little")
    try:
        function, arguments = pickle.loads(sys.stdin.buffer.read(size))  # noqa: S301  # from the parent
        print("ready", file=out, flush=True)
        sys.stdin.buffer.read(1)  # all begin together
        result = function(*arguments)
    except BaseException as e:
        result = f"failed: {type(e).__name__}: {e}"
        print("ready", file=out, flush=True)
    print(json.dumps(result), file=out, flush=True)
    os._exit(0)


def _feed(process: subprocess.Popen[bytes], job: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError, ValueError):
        process.stdin.write(len(job).to_bytes(8, "little") + job)
        process.stdin.flush()


def _let_go(started: Sequence[tuple[subprocess.Popen[bytes], IO[bytes]]], deadline: float) -> None:
    while time.monotonic() < deadline:
        if all(_said(answers) or process.poll() is not None for process, answers in started):
            break
        time.sleep(0.01)
    for process, _ in started:
        assert process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            process.stdin.write(b"\n")
            process.stdin.flush()


def _finished(process: subprocess.Popen[bytes], answers: IO[bytes], deadline: float) -> Any:
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None
    lines = _said(answers).decode(errors="replace").splitlines()
    try:
        return json.loads(lines[-1])
    except (IndexError, ValueError):
        return None


def _said(answers: IO[bytes]) -> bytes:
    # the child shares the file's position, so it is read without moving it
    if hasattr(os, "pread"):
        return os.pread(answers.fileno(), 1 << 26, 0)
    here = answers.tell()
    answers.seek(0)
    text = answers.read()
    answers.seek(here)
    return text
