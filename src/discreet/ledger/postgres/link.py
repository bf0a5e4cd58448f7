"""One connection to a PostgreSQL server, and the only file that knows the driver (pg8000).

Steps are sent together where they can be: between the lock and the commit each round trip is time in which nobody
else can charge. Values travel as parameters, never inside a statement's text, which the server may log and show.
"""

from __future__ import annotations

import os
import select
import socket
import ssl
import struct
import time
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from discreet.errors import LedgerError, MissingExtra
from discreet.ledger.postgres.failures import CROWDED, Lost, Refused, unreachable
from discreet.ledger.postgres.url import Address

Values: TypeAlias = list[Any]

Step: TypeAlias = str | tuple[Any, ...]
"""Statements without values, in one text; or one statement, and its values for $1, $2, …"""

_GRACE = 10.0  # seconds beyond the patience after which a silent connection counts as lost
_HANGING = "60s"  # a client that stops in the middle of a transaction, for good or not, loses it after this long
OLDEST = 13  # the first version of PostgreSQL that says what became of a transaction by its full number
_NULL = struct.pack("!i", -1)
_EXECUTE_AND_SYNC = b"E" + struct.pack("!ixi", 9, 0) + b"S" + struct.pack("!i", 4)

_TLS = struct.pack("!ii", 8, 80877103)  # the message that asks the server for TLS (SSLRequest)


class Link:
    """A connection, for one thread at a time and for the process that made it alone.

    Raises:
        MissingExtra: the driver is not installed.
        LedgerError: the server cannot be reached, refuses the user, or does not speak as is demanded.
        Refused: it has no connection free, or is starting: worth trying again.
    """

    def __init__(self, address: Address, *, patience: float) -> None:
        self._pid = os.getpid()
        self._inside = False
        self._doubted = False
        self._prepared: dict[str, Any] = {}
        self.commits = 0
        self._socket = _connected(address)
        try:
            self._connection = _logged_in(address, self._socket)
            self._socket.settimeout(patience + _GRACE)
            self._connection.message_types[b"C"] = self._completed
            self._connection.message_types[b"N"] = self._noticed
            self.ask(
                f"SET lock_timeout = {max(1, round(1000 * patience))}; SET synchronous_commit = on; "
                "SET client_min_messages = warning; "
                "SET default_transaction_isolation = 'read committed'; SET search_path = pg_catalog; "
                "SET plan_cache_mode = force_generic_plan; "
                f"SET statement_timeout = 0; SET idle_in_transaction_session_timeout = '{_HANGING}'"
            )
        except BaseException:
            self._socket.close()
            raise
        _LINKS.add(self)

    def ask(self, *steps: Step) -> list[list[Values]]:
        """Return the rows of each step. All are sent before the first answer is read: together they are one round trip.

        Raises:
            Refused: a step failed; inside a transaction, those after it did nothing.
            Lost: the connection ended, or the server warned: a wait for its standbys may have been broken off, after
                which it answers as if all were well. Nothing more is known than `commits` says.
        """
        self.commits = 0
        answers: list[list[Values]] = []

        def exchange() -> str | None:
            refused = None
            for step in steps:
                self._prepare(step)
            asked = [self._sent(step) for step in steps]
            self._connection._sock.flush()
            for context in asked:
                code = self._answered(context)
                refused = refused or code
                answers.append(context.rows or [])
            return refused

        self._exchanged(exchange)
        return answers

    def prepare(self, statement: str) -> None:
        """Let the server know a statement without asking it; as `ask` otherwise."""
        if statement not in self._prepared or not self.usable:
            self._exchanged(lambda: self._prepare((statement,)))

    def _exchanged(self, exchange: Callable[[], str | None]) -> None:
        """Send and receive; what is broken off in the middle leaves a connection that is used no more."""
        if not self.usable:
            raise Lost
        refused, self._inside = None, True
        try:
            refused = exchange()
            self._inside = False
        except Exception as error:
            # Not kept as a cause: it may quote anything. Preparing alone is answered to its end by an error.
            refused = _code(error)
            self._inside = refused is None
        if self._inside or self._doubted:
            self._inside = True
            raise Lost
        if refused is not None:
            raise Refused(refused)

    @property
    def usable(self) -> bool:
        """Whether the last answer came to its end, in this process."""
        return not self._inside and self._pid == os.getpid()

    @property
    def silent(self) -> bool:
        """Whether nothing has come that was not asked for: the end of the connection would."""
        if not self.usable:
            return False
        if not hasattr(select, "poll"):
            return not select.select([self._socket], [], [], 0)[0]
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return not waiting.poll(0)

    @property
    def idle(self) -> bool:
        """Whether it is usable and outside of any transaction."""
        return self.usable and self._connection._transaction_status == b"I"

    def _prepare(self, step: Step) -> None:
        """Let the server know the statement, once for this connection."""
        if not isinstance(step, str) and step[0] not in self._prepared:
            self._prepared[step[0]] = self._connection.prepare_statement(step[0], ())

    def _sent(self, step: Step) -> Any:
        """Send a step without waiting, and return what its answer will be gathered in."""
        from pg8000 import converters, core

        connection = self._connection
        if isinstance(step, str):
            connection.send_QUERY(step)
            return core.Context(step)
        statement, *values = step
        name, columns, functions = self._prepared[statement]
        connection._sock.write(_asking(name, converters.make_params(connection.py_types, values)))
        return core.Context(statement, columns=columns, input_funcs=functions)

    def _answered(self, context: Any) -> str | None:
        """Read the answer to a step up to its end; the code of its error, if it failed."""
        try:
            self._connection.handle_messages(context)
        except Exception as error:
            if error is not context.error:  # not the server's answer: the connection broke
                raise
            return _code(error) or "25P02"
        return None

    def close(self) -> None:
        """End the connection."""
        if self._pid != os.getpid():
            return
        with suppress(Exception):
            if self.usable:
                self._connection.close()
        with suppress(OSError):  # the driver's file over the socket would keep it open
            self._socket.shutdown(socket.SHUT_RDWR)
        with suppress(Exception):
            self._connection._sock.close()
        self._socket.close()
        self._inside = True

    def cut(self) -> None:
        """Let a forked child hold none of its parent's connection, and tell the server nothing.

        Otherwise the server would not see the end of a parent that dies while its child lives on.
        """
        if (fd := self._socket.detach()) >= 0:
            os.close(fd)

    def _completed(self, data: bytes, context: Any) -> None:
        """Take note of a statement that was carried out: the driver calls this."""
        self.commits += data == b"COMMIT\0"
        self._connection.handle_COMMAND_COMPLETE(data, context)

    def _noticed(self, data: bytes, context: Any) -> None:
        """Take note of a notice: the driver calls this. A warning of this class ends a wait for standbys."""
        self._doubted |= any(field.startswith(b"C01") for field in data.split(b"\0"))


_LINKS: weakref.WeakSet[Link] = weakref.WeakSet()


def _cut_all() -> None:
    for link in list(_LINKS):
        link.cut()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_cut_all)


def _asking(name: bytes, values: list[str | None]) -> bytes:
    """Return the messages Bind, Execute and Sync for a statement; the driver would ask for an answer to each."""
    parts = [b"\0", name, struct.pack("!hh", 0, len(values))]
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            text = value.encode()
            parts += (struct.pack("!i", len(text)), text)
    parts.append(b"\0\0")  # every column as text
    data = b"".join(parts)
    return b"B" + struct.pack("!i", len(data) + 4) + data + _EXECUTE_AND_SYNC


def _connected(address: Address) -> socket.socket:
    """Return a socket to the server, with TLS where it is demanded or offered."""
    raw = None
    try:
        if address.is_local_socket:
            raw = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            raw.settimeout(address.connect_timeout)
            raw.connect(str(Path(address.host, f".s.PGSQL.{address.port}")))
            return raw
        raw = socket.create_connection((address.host, address.port), address.connect_timeout)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return raw if address.sslmode == "disable" else _secured(raw, address)
    except (OSError, UnicodeError, AttributeError) as error:  # no such host, no Unix sockets here
        refused = isinstance(error, ssl.SSLError)
    except LedgerError:
        assert raw is not None
        raw.close()
        raise
    if raw is not None:
        raw.close()
    raise _no_tls(address) if refused else unreachable(address.place)


def _secured(raw: socket.socket, address: Address) -> socket.socket:
    raw.sendall(_TLS)
    answer = raw.recv(1)
    if answer == b"S":
        return _context(address).wrap_socket(raw, server_hostname=address.host)
    if answer == b"N" and address.sslmode == "prefer":
        return raw
    raise _no_tls(address) if answer else unreachable(address.place)


def _context(address: Address) -> ssl.SSLContext:
    verified = address.sslmode.startswith("verify")
    roots = address.sslrootcert if verified and address.sslrootcert != "system" else None
    try:
        context = ssl.create_default_context(cafile=roots)
        if address.sslcert:
            context.load_cert_chain(address.sslcert, address.sslkey)
    except OSError:  # ssl.SSLError is one too
        raise LedgerError(
            f"a file of certificates for the ledger {address.place} cannot be read.",
            hint="look at sslrootcert=, sslcert= and sslkey=",
        ) from None
    context.check_hostname = address.sslmode == "verify-full"
    context.verify_mode = ssl.CERT_REQUIRED if verified else ssl.CERT_NONE
    return context


def _no_tls(address: Address) -> LedgerError:
    return LedgerError(
        f"the server of the ledger {address.place} does not speak TLS as sslmode={address.sslmode} demands.",
        hint="look at its certificate and at sslrootcert=; sslmode=disable is for a network that nobody else is in",
    )


def _logged_in(address: Address, connected: socket.socket) -> Any:
    """Return the driver's connection over the socket."""
    try:
        from pg8000 import native
    except ImportError:
        raise MissingExtra(
            "a ledger in PostgreSQL needs the driver pg8000, which is not installed.",
            hint="pip install 'discreet[postgres]'",
        ) from None
    told: Exception
    try:
        connection = native.Connection(
            address.user,
            database=address.database,
            password=address.password or "",  # the server refuses it, where none is given and one is asked for
            application_name="discreet",
            startup_params={"client_encoding": "UTF8", "standard_conforming_strings": "on"},
            sock=connected,
            ssl_context=False,  # it is there already, if it is
        )
    except Exception as error:
        code = _code(error)
        told = unreachable(address.place) if code is None else Refused(code)
    else:
        return _known(connection, address)
    raise told


def _known(connection: Any, address: Address) -> Any:
    """Return the connection, unless its server is too old or reads quoted text otherwise than it is written here."""
    told = connection.parameter_statuses
    version = str(told.get("server_version", "0")).partition(" ")[0].partition(".")[0]
    if version.isdigit() and int(version) >= OLDEST and told.get("standard_conforming_strings") == "on":
        return connection
    connection.close()
    raise LedgerError(
        f"the server of the ledger {address.place} is not PostgreSQL {OLDEST} or later.",
        hint="keep the ledger on a newer server",
    )


def _code(error: BaseException | None) -> str | None:
    """Return the server's code, if the error repeats one: the driver's mishaps while closing may lie on top of it."""
    while error is not None:
        told = error.args[0] if error.args else None
        if isinstance(told, dict) and "C" in told:
            return str(told["C"])
        error = error.__context__
    return None


_TRUSTED = 30.0  # seconds after which a connection that was not used is not believed to be there still
_KEPT = 4  # how many connections wait at most, for as many threads
_PAUSE = 0.05  # seconds between two tries to get a connection from a server that has none free


@dataclass(slots=True)
class _Idle:
    """Connections with the time of their last use, and the process that may use them."""

    links: deque[tuple[float, Link]] = field(default_factory=deque)
    pid: int = field(default_factory=os.getpid)

    def close(self) -> None:
        with suppress(IndexError):
            while True:
                self.links.pop()[1].close()


class Pool:
    """Connections that are taken by any thread and given back; a forked child begins with none."""

    def __init__(self, address: Address, *, patience: float) -> None:
        self._address = address
        self._patience = patience
        self._idle = _Idle()
        weakref.finalize(self, self._idle.close)

    def waiting(self) -> Link | None:
        """Return a connection that was used before, if there is one; whether it still works is not known."""
        if self._idle.pid != os.getpid():
            self._idle.links.clear()
            self._idle.pid = os.getpid()
        with suppress(IndexError):
            while True:
                used, link = self._idle.links.pop()
                if time.monotonic() - used < _TRUSTED:
                    return link
                link.close()
        return None

    def fresh(self, deadline: float) -> Link:
        """Return a new connection; while the server has none free, it is asked again until the deadline.

        Raises:
            Refused: it refuses, or had none free for so long.
            LedgerError: it cannot be reached.
        """
        while True:
            try:
                return Link(self._address, patience=self._patience)
            except Refused as refused:
                if refused.code not in CROWDED or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE)

    def give_back(self, link: Link) -> None:
        """Keep the connection for its next use; one inside a transaction is ended, and the transaction with it."""
        if link.idle and len(self._idle.links) < _KEPT and self._idle.pid == os.getpid():
            self._idle.links.append((time.monotonic(), link))
        else:
            link.close()

    def close(self) -> None:
        """End all that wait."""
        if self._idle.pid == os.getpid():
            self._idle.close()
