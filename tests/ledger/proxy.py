"""A tiny proxy before a PostgreSQL server that counts the messages of both sides and cuts at a chosen one."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from contextlib import suppress
from types import TracebackType

STARTUP_TLS = 80877103


class Proxy:
    """Listens on a port of its own and forwards to the server, message by message.

    Attributes:
        messages: how many went through, of both sides, since `arm`.
        types: the type of each, a client's in upper case as it is, with ">" before it, a server's with "<".
    """

    def __init__(self, server_port: int, *, tls: ssl.SSLContext | None = None) -> None:
        self._server_port = server_port
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._cut_at: int | None = None
        self._dead_after = False
        self._dead = False
        self.messages = 0
        self.types: list[str] = []
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._listen)
        self._threads: list[threading.Thread] = []
        self._thread.start()

    def arm(self, cut_at: int | None, *, dead_after: bool = False) -> None:
        """Count anew, and cut every connection instead of letting that message through; once."""
        with self._lock:
            self.messages, self.types = 0, []
            self._cut_at, self._dead_after, self._dead = cut_at, dead_after, False

    @property
    def has_cut(self) -> bool:
        """Whether the message to cut at was reached."""
        return self._cut_at is not None and self.messages >= self._cut_at

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._cut()
        self._thread.join()
        for thread in self._threads:
            thread.join()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._dead:
                client.close()
                continue
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        server = None
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            first = _exactly(client, 8)
            if struct.unpack("!ii", first)[1] == STARTUP_TLS:
                if self._tls is None:
                    client.sendall(b"N")
                else:
                    client.sendall(b"S")
                    client = self._tls.wrap_socket(client, server_side=True)
                first = _exactly(client, 8)
            startup = first + _exactly(client, struct.unpack("!ii", first)[0] - 8)
            server = socket.create_connection(("127.0.0.1", self._server_port))
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open |= {client, server}
            server.sendall(startup)
            back = threading.Thread(target=self._pump, args=(server, client, "<"))
            back.start()
            self._pump(client, server, ">")
            back.join()
        except (OSError, EOFError):
            pass
        finally:
            for one in (client, server):
                if one is not None:
                    self._open.discard(one)
                    one.close()

    def _pump(self, source: socket.socket, target: socket.socket, side: str) -> None:
        try:
            while True:
                head = _exactly(source, 5)
                body = _exactly(source, struct.unpack("!i", head[1:])[0] - 4)
                with self._lock:
                    self.messages += 1
                    self.types.append(side + chr(head[0]))
                    cut = self.messages == self._cut_at
                if cut:
                    self._dead = self._dead_after
                    self._cut()
                    return
                target.sendall(head + body)
        except (OSError, EOFError, ValueError):
            _shut(target)
            _shut(source)

    def _cut(self) -> None:
        for one in list(self._open):
            _shut(one)


def _shut(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = source.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
