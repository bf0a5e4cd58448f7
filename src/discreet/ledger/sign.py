"""Signed heads: an owner's Ed25519 signature under the hash that commits to the whole ledger.

References: RFC 8032, https://www.rfc-editor.org/rfc/rfc8032
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.errors import InvalidParameter, LedgerError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_HEAD = b"discreet ledger head, format 1\x00"


@dataclass(frozen=True, slots=True)
class SignedHead:
    """A head, the owner's signature under it, and the public key that checks it; all in hexadecimal."""

    head: str
    signature: str
    public_key: str


def new_key(path: str | os.PathLike[str]) -> str:
    """Make a private key in a new file, for its owner only, and return its public key.

    Raises:
        LedgerError: the file exists, or cannot be written.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(text)
    except FileExistsError:
        raise LedgerError(f"{Path(path).name} exists; a key is never written over.", hint="name a new file") from None
    except OSError as error:
        raise LedgerError(f"the key {Path(path).name} cannot be written.", hint="look at the path") from error
    return _public(key)


def sign_head(head: str, key: str | os.PathLike[str]) -> SignedHead:
    """Return the head, signed with the private key in a PEM file (PKCS 8, not encrypted, as `new_key` or OpenSSL writes
    it).

    Raises:
        LedgerError: the file cannot be read.
        InvalidParameter: it holds no Ed25519 key, or the head is none.
    """
    message = _message(head)
    return SignedHead(head.strip().lower(), signed(message, key), public_key(key))


def signed(message: bytes, key: str | os.PathLike[str]) -> str:
    """Return the signature under a message, by the private key in a file; see `sign_head`."""
    return _private(Path(key)).sign(message).hex()


def public_key(key: str | os.PathLike[str]) -> str:
    """Return the public key of the private one in a file."""
    return _public(_private(Path(key)))


def is_signed(head: str, signature: str, public_key: str) -> bool:
    """Whether the owner of this public key has signed this head.

    Args:
        head: 64 hexadecimal digits.
        signature: 128 hexadecimal digits.
        public_key: 64 hexadecimal digits, from somewhere that the ledger's keeper could not change.

    Raises:
        InvalidParameter: one of them has another form.
    """
    return verified(_message(head), signature, public_key)


def verified(message: bytes, signature: str, public_key: str) -> bool:
    """Whether the owner of this public key has signed this message; see `is_signed`."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    raw = _hex("the signature", signature, 64)
    try:
        Ed25519PublicKey.from_public_bytes(_hex("the public key", public_key, 32)).verify(raw, message)
    except InvalidSignature:
        return False
    return True


def _message(head: str) -> bytes:
    return _HEAD + _hex("a head", head, 32)


def _hex(what: str, text: str, length: int) -> bytes:
    try:
        found = bytes.fromhex(text)
    except (ValueError, TypeError):
        found = b""
    if len(found) != length:
        raise InvalidParameter(f"{what} is {2 * length} hexadecimal digits, not {text!r:.80}.")
    return found


def _public(key: Ed25519PrivateKey) -> str:
    return key.public_key().public_bytes_raw().hex()


def _private(path: Path) -> Ed25519PrivateKey:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        text = path.read_bytes()
    except OSError as error:
        raise LedgerError(f"the key {path.name} cannot be read.", hint="look at the path") from error
    try:
        key = load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidParameter(
            f"{path.name} holds no Ed25519 private key that can be read.",
            hint="`discreet ledger key FILE` makes one; so does `openssl genpkey -algorithm ed25519`",
        )
    return key
