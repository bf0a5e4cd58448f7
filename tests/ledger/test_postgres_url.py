"""How a URL, the environment and the password file are read, and TLS, which a proxy speaks for the server."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from discreet.errors import LedgerError
from discreet.ledger.ledger import Ledger
from discreet.ledger.postgres.url import Address, address
from discreet.privacy.guarantee import Budget
from tests.ledger.proxy import Proxy
from tests.postgres import Server


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HOST", "PORT", "USER", "PASSWORD", "DATABASE", "SSLMODE", "SSLROOTCERT", "CONNECT_TIMEOUT"):
        monkeypatch.delenv(f"PG{name}", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))


FULL = Address("db.example.org", 6543, "ana", "claims", "audit", "s:/?#[]@é", "verify-full", "ca.pem")


def test_a_url_says_where_who_and_how() -> None:
    url = (
        "postgresql://ana:s%3A%2F%3F%23%5B%5D%40%C3%A9@db.example.org:6543/claims"
        "?schema=audit&sslmode=verify-full&sslrootcert=ca.pem"
    )
    assert address(url) == FULL
    assert FULL.place == "postgresql://ana@db.example.org:6543/claims?schema=audit"
    assert "s:/" not in repr(FULL)


def test_what_a_url_leaves_out_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"HOST": "db.example.org", "PORT": "6543", "USER": "ana", "PASSWORD": "s:/?#[]@é", "DATABASE": "claims"}
    for name, value in {**given, "SSLMODE": "verify-full", "SSLROOTCERT": "ca.pem"}.items():
        monkeypatch.setenv(f"PG{name}", value)
    assert address("postgresql://?schema=audit") == FULL
    assert address("postgres:///other?schema=audit&user=bob").place == (
        "postgresql://bob@db.example.org:6543/other?schema=audit"
    )


@pytest.mark.parametrize(
    ("url", "host", "port", "mode"),
    [
        ("postgresql://a@localhost/d", "localhost", 5432, "prefer"),
        ("postgresql://a@127.0.0.9/d", "127.0.0.9", 5432, "prefer"),
        ("postgresql://a@[::1]:7/d", "::1", 7, "prefer"),
        ("postgresql://a@10.0.0.1/d", "10.0.0.1", 5432, "require"),
        ("postgresql://a@[2001:db8::1]/d", "2001:db8::1", 5432, "require"),
        ("postgresql://a@db.example.org/d", "db.example.org", 5432, "require"),
        ("postgresql://a@db.example.org/d?sslmode=disable", "db.example.org", 5432, "disable"),
        ("postgresql://a@/d?host=/run/pg&port=9", "/run/pg", 9, "prefer"),
        ("postgresql://a@%2Frun%2Fpg/d", "/run/pg", 5432, "prefer"),
    ],
)
def test_another_machine_must_speak_tls_unless_told_otherwise(url: str, host: str, port: int, mode: str) -> None:
    found = address(url)
    assert (found.host, found.port, found.sslmode, found.database) == (host, port, mode, "d")
    again = address(found.place + ("&" if "?" in found.place else "?") + f"sslmode={mode}")
    assert (again.host, again.port, again.user, again.database) == (host, port, "a", "d")


SECRET = "geheim"
BAD = [
    "postgresql://a:geheim@h:port/d",
    "postgresql://a:geheim@h:99999/d",
    "postgresql://a:geheim@[h/d",
    "postgresql://a:geheim@h1,h2/d",
    "postgresql://a:geheim@h/d?target_session_attrs=any",
    "postgresql://a:geheim@h/d?sslmode=allow",
    "postgresql://a:geheim@h/d?schema=Größe",
    "postgresql://a:geheim@h/d?schema=a%22b",
    "postgresql://a:geheim@h/d?schema=",
    "postgresql://a:geheim@h/d?schema",
    "postgresql://a:geheim@h/d?port=-1",
    "postgresql://a:geheim@h/d?connect_timeout=soon",
    "postgresql://a:geheim@h/d%00",
    "postgresql://a:geheim@h/d#part",
]


@pytest.mark.parametrize("url", BAD)
def test_a_url_that_cannot_be_meant_is_refused_without_being_repeated(url: str) -> None:
    for look in (Ledger.open, Ledger.existing):
        with pytest.raises(LedgerError) as caught:
            look(url)
        assert caught.value.hint
        assert SECRET not in f"{caught.value}{caught.value.__cause__}"


def test_the_password_file_is_read_as_libpq_reads_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "passwords"
    monkeypatch.setenv("PGPASSFILE", str(file))
    file.write_text(
        "# a remark: *:*:*:*:never\n"
        "not a line\n"
        "h:5432:d:bob:bobs\n"
        "h:1:d:ana:other port\n"
        "localhost:*:*:ana:by socket\n"
        r"h:*:*:an\:a:co\:lon\\s:and more" + "\n"
        "*:*:d:ana:first\n"
        "*:*:*:*:last\n",
        encoding="utf-8",
    )
    file.chmod(0o600)
    found = {
        "bob@h/d": "bobs",
        "ana@h/d": "first",
        "ana@h/e": "last",
        "ana@%2Frun/d": "by socket",
        "an%3Aa@h/d": "co:lon\\s:and more",
        "ana:here@h/d": "here",
    }
    assert {url: address(f"postgresql://{url}").password for url in found} == found
    file.chmod(0o640)
    assert address("postgresql://ana@h/d").password is None


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost, signed by itself, and another one that signed nothing."""
    folder = tmp_path_factory.mktemp("certificates")
    now = datetime.datetime.now(datetime.UTC)
    for name in ("server", "other"):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(names, critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (folder / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
    return folder


@pytest.fixture
def secured(postgres: Server, certificates: Path) -> Iterator[Proxy]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
    with Proxy(postgres.port, tls=context) as proxy:
        yield proxy


def test_over_tls_a_ledger_is_opened_where_the_certificate_is_as_demanded(
    postgres: Server, secured: Proxy, certificates: Path
) -> None:
    url = postgres.url(host="localhost", port=secured.port)
    good, bad = (f"&sslrootcert={certificates / name}.pem" for name in ("server", "other"))
    with Ledger.open(f"{url}&sslmode=verify-full{good}") as ledger:
        ledger.open_account("p", Budget(1))
        assert ledger.verify().ok
    by_address = url.replace("localhost", "127.0.0.1")
    for demanded in ("&sslmode=prefer", "&sslmode=require", f"&sslmode=verify-ca{good}"):
        Ledger.existing(by_address + demanded).close()
    for refused in (
        f"{by_address}&sslmode=verify-full{good}",  # another name
        f"{url}&sslmode=verify-ca{bad}",
        f"{url}&sslmode=verify-full{bad}",
        f"{url}&sslmode=verify-full",  # nobody that this machine knows signed it
    ):
        with pytest.raises(LedgerError, match="does not speak TLS as sslmode="):
            Ledger.existing(refused)


def test_without_tls_a_server_is_refused_where_tls_is_demanded(postgres: Server) -> None:
    url = postgres.url()
    for mode in ("require", "verify-ca", "verify-full"):
        with pytest.raises(LedgerError, match=f"does not speak TLS as sslmode={mode} demands"):
            Ledger.open(f"{url}&sslmode={mode}")
    Ledger.open(f"{url}&sslmode=prefer").close()
    Ledger.existing(f"{url}&sslmode=disable").close()


def test_a_missing_file_of_certificates_is_told(postgres: Server, secured: Proxy, tmp_path: Path) -> None:
    url = postgres.url(host="localhost", port=secured.port)
    with pytest.raises(LedgerError, match="a file of certificates for the ledger"):
        Ledger.open(f"{url}&sslmode=verify-full&sslrootcert={tmp_path / 'none.pem'}")


def test_over_the_socket_of_the_same_machine_a_ledger_is_opened(postgres: Server) -> None:
    url = f"postgresql://postgres@/postgres?host={postgres.folder}&port={postgres.port}&schema=by_socket"
    with Ledger.open(url) as ledger:
        ledger.open_account("p", Budget(1))
    with Ledger.existing(url) as ledger:
        assert ledger.populations() == ["p"]
