"""Canonical JSON, the hash chain over it, and an owner's signature under its head.

An entry's hash is SHA-256(tag ‖ previous hash ‖ body). Tag and previous hash have fixed lengths, so that
two different (previous, body) never share an input, and whoever knows one hash knows, up to a collision,
everything before it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidParameter, LedgerError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


GENESIS = "0" * 64  # what stands in for the hash before the first entry; the head of an empty ledger
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)

_TAG = b"discreet ledger entry, format 1\x00"


def link(previous: str, body: str) -> str:
    """Return the hash, as 64 hexadecimal digits, of an entry with this canonical body after that hash."""
    return hashlib.sha256(_TAG + bytes.fromhex(previous) + body.encode("utf-8", "surrogatepass")).hexdigest()


def canonical(value: Any) -> str:
    r"""Return the one JSON text of a value: ASCII, sorted keys, no spaces.

    Two values have one text exactly when they are equal as JSON, numbers compared with their type and last
    bit.

    >>> canonical({"b": [1, 2.5], "a": "é"})
    '{"a":"\\u00e9","b":[1,2.5]}'

    Raises:
        InvalidParameter: NaN, an infinity, a key that is not text, or a type that JSON does not have.
    """
    _check(value)
    try:
        return _ENCODER.encode(value)
    except ValueError:  # an integer beyond the digits that Python turns into text
        raise InvalidParameter("a value for the ledger has more digits than any use needs.") from None


def unchecked(value: Any) -> str:
    """`canonical` of what was just made of texts and integers, and of nothing that anybody gave."""
    return _ENCODER.encode(value)


def parse(body: str) -> Any:
    """Return what a canonical text stands for.

    Raises:
        ValueError: not JSON, or not in canonical form.
    """
    value = json.loads(body)
    if _ENCODER.encode(value) != body:
        raise ValueError("not canonical")
    return value


def _check(value: Any) -> None:
    """Refuse what `json.dumps` would change on the way: keys turned into text, subclasses, NaN."""
    if type(value) is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise InvalidParameter(f"a key in the ledger must be text, not {type(key).__name__}.")
            _check(item)
    elif type(value) in (list, tuple):
        for item in value:
            _check(item)
    elif type(value) is float:
        if not math.isfinite(value):
            raise InvalidParameter("a number in the ledger must be finite.")
    elif value is not None and type(value) not in (str, int, bool):
        raise InvalidParameter(
            f"a value of type {type(value).__name__} cannot be written to the ledger.",
            hint="text, integers, floats, booleans, None, lists and dicts of them can",
        )


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
