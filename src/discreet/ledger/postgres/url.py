"""Which PostgreSQL database, schema and user a URL means, as far as libpq's own rules for URLs, variables and files go.

`postgresql://[user[:password]@][host][:port][/database][?name=value&…]`. What the URL leaves out comes from `PGHOST`,
`PGPORT`, `PGUSER`, `PGPASSWORD`, `PGDATABASE` and `PGSSL…`, the password also from the password file. Two things are
stricter than libpq: a server on another machine must speak TLS unless the URL or `PGSSLMODE` says otherwise, and a
parameter that is not known is refused.

References: https://www.postgresql.org/docs/current/libpq-connect.html, …/libpq-envars.html, …/libpq-pgpass.html
"""

from __future__ import annotations

import getpass
import ipaddress
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from discreet.errors import LedgerError

SCHEMA = "discreet"  # the schema of a ledger unless the URL's `?schema=` says another one
_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
_VARIABLES = {
    "host": "PGHOST",
    "port": "PGPORT",
    "user": "PGUSER",
    "password": "PGPASSWORD",
    "dbname": "PGDATABASE",
    "sslmode": "PGSSLMODE",
    "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT",
    "sslkey": "PGSSLKEY",
    "connect_timeout": "PGCONNECT_TIMEOUT",
}
_EXAMPLE = 'give ledger="postgresql://user@host/database", the password in PGPASSWORD or the password file'


@dataclass(frozen=True, slots=True)
class Address:
    """A database, how to reach it, and the ledger's schema in it. The password is in no text of it.

    `host` is a name, an IP address, or the folder of a Unix socket.
    """

    host: str
    port: int
    user: str
    database: str
    schema: str = SCHEMA
    password: str | None = field(default=None, repr=False)
    sslmode: str = "prefer"
    sslrootcert: str | None = None
    sslcert: str | None = None
    sslkey: str | None = None
    connect_timeout: float = 10.0

    @property
    def is_local_socket(self) -> bool:
        """Whether the host is the folder of a Unix socket."""
        return self.host.startswith("/")

    @property
    def place(self) -> str:
        """The URL without its password, for messages."""
        host = quote(self.host, safe="") if self.is_local_socket or ":" in self.host else self.host
        where = f"{quote(self.user)}@{host}:{self.port}/{quote(self.database)}"
        return f"postgresql://{where}" + (f"?schema={quote(self.schema)}" if self.schema != SCHEMA else "")


def address(url: str) -> Address:
    """Return what the URL, the environment and the password file say together.

    Raises:
        LedgerError: a URL that cannot be read, several hosts, or an unknown parameter. No message repeats the URL,
            which may hold a password.
    """
    given = _parameters(url)
    for name, variable in _VARIABLES.items():
        if name not in given and (value := os.environ.get(variable)):
            given[name] = value
    host = given.get("host") or _socket_folder(given.get("port", "5432"))
    user = given.get("user") or getpass.getuser()
    database = given.get("dbname") or user
    mode = given.get("sslmode") or ("prefer" if _is_near(host) else "require")
    if mode not in _MODES:
        raise LedgerError(f"a ledger's sslmode is one of {', '.join(_MODES)}.", hint=_EXAMPLE)
    if "," in host:
        raise LedgerError(
            "a ledger is in one database, and this URL names several hosts.",
            hint="name the primary alone: another host may lack charges that were made",
        )
    schema = given.get("schema", SCHEMA)
    if not re.fullmatch("[a-z_][a-z0-9_]{0,62}", schema):
        raise LedgerError(
            "a ledger's schema has a name of 1 to 63 small letters, digits and underscores.", hint=_EXAMPLE
        )
    port = _number(given.get("port", "5432"), "port", 65535)
    password = given.get("password")
    return Address(
        host=host,
        port=port,
        user=user,
        database=database,
        schema=schema,
        password=_from_file(host, port, database, user) if password is None else password,
        sslmode=mode,
        sslrootcert=given.get("sslrootcert"),
        sslcert=given.get("sslcert"),
        sslkey=given.get("sslkey"),
        connect_timeout=_number(given.get("connect_timeout", "10"), "connect_timeout", 3600) or 3600,
    )


def _parameters(url: str) -> dict[str, str]:
    try:
        parts = urlsplit(url)
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
        port = parts.port
    except ValueError:
        raise LedgerError("the URL of the ledger cannot be read.", hint=_EXAMPLE) from None
    host = parts.netloc.rpartition("@")[2]
    host = host.rpartition(":")[0] if port is not None else host.removesuffix(":")
    given = {
        "user": unquote(parts.username or ""),
        "host": unquote(host).removeprefix("[").removesuffix("]"),
        "port": "" if port is None else str(port),
        "dbname": unquote(parts.path.removeprefix("/")),
    }
    if parts.password is not None:
        given["password"] = unquote(parts.password)
    given = {name: value for name, value in given.items() if value or name == "password"}
    for name, value in pairs:
        if name not in (*_VARIABLES, "schema"):
            raise LedgerError(
                f"the URL of the ledger has the unknown parameter {name!r:.60}.",
                hint=f"known are {', '.join(sorted(_VARIABLES))} and schema",
            )
        given[name] = value
    if any("\0" in value for value in given.values()) or parts.fragment:
        raise LedgerError("the URL of the ledger cannot be read.", hint=_EXAMPLE)
    return given


def _number(text: str, name: str, most: int) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= most):
        raise LedgerError(f"{name} of the ledger's URL must be a whole number up to {most}.", hint=_EXAMPLE)
    return int(text)


def _socket_folder(port: str) -> str:
    """Where libpq looks for a server when no host is named."""
    for folder in ("/var/run/postgresql", "/tmp"):  # noqa: S108  # where the server's own default puts it
        if Path(folder, f".s.PGSQL.{port}").exists():
            return folder
    return "localhost"


def _is_near(host: str) -> bool:
    """Whether nobody stands between this process and the server."""
    if host.startswith("/") or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _from_file(host: str, port: int, database: str, user: str) -> str | None:
    """Return the password that the password file has; like libpq's, a file that others may read is not used."""
    path = Path(os.environ.get("PGPASSFILE") or Path("~/.pgpass").expanduser())
    try:
        if os.name != "nt" and stat.S_IMODE(path.stat().st_mode) & 0o077:
            return None
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError, RuntimeError):
        return None
    wanted = ("localhost" if host.startswith("/") else host, str(port), database, user)
    for line in lines:
        fields = _fields(line)
        if len(fields) == 5 and all(has in ("*", want) for has, want in zip(fields, wanted, strict=False)):
            return fields[4]
    return None


def _fields(line: str) -> list[str]:
    r"""Return the five fields of a line, in which `\` takes the next character as it is."""
    fields, characters = [""], iter(line)
    for character in characters:
        if character == "\\":
            fields[-1] += next(characters, "")
        elif character == ":" and len(fields) < 5:
            fields.append("")
        else:
            fields[-1] += character
    return [] if line.startswith("#") else fields
