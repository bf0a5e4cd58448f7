"""A locked ledger: no charge opens an account in it, and only its owner does, with the owner's key where it names one.

That key is also needed for all else that may let an account spend more: a budget, a cap, a thaw (`forms.Act`). The lock
is an entry of the chain, and so is its end. A signature is by an Ed25519 key, under the hash of the entry
before it, so that it stands for one place of one chain and for nothing else, and under all that the entry says.

References: RFC 8032, https://www.rfc-editor.org/rfc/rfc8032
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from typing import TypeAlias, TypeVar

from discreet.errors import InvalidParameter, LedgerError
from discreet.ledger import names, sign
from discreet.ledger.chain import canonical
from discreet.ledger.entry import Entry, Locked
from discreet.ledger.forms import Act
from discreet.ledger.log import View
from discreet.privacy.guarantee import Budget, decimal

Key: TypeAlias = str | os.PathLike[str]
"""The file of an Ed25519 private key."""

A = TypeVar("A", bound=Act)

LEDGER = ""
"""What stands in the place of a population in the entries about the whole ledger; no population has this name."""

_TAG = b"discreet ledger act, format 1\x00"


def lock_of(view: View) -> Locked | None:
    """Return the lock that holds now; None when none does."""
    last = view.latest(LEDGER, Locked.kind, Locked.key)
    said = None if last is None else last.content
    return said if isinstance(said, Locked) and said.locked else None


def change_lock(view: View, place: str, locked: bool, key: Key | None, by: str, reason: str) -> Entry:
    """Append a lock, with a key one that only this key opens, or the end of one."""
    view.refuse_moved()
    if locked == (lock_of(view) is not None):
        raise InvalidParameter(f"the ledger {place} is {'locked already' if locked else 'not locked'}.")
    public = sign.public_key(key) if locked and key is not None else None
    said = Locked(locked, public, names.words("by", by), names.words("reason", reason))
    signed = _signed(view, LEDGER, said, key) if locked else by_owner(view, place, LEDGER, said, key)
    return view.append(LEDGER, signed)


def refuse_locked(view: View, place: str, population: str) -> None:
    """Refuse to open an account by a charge in a locked ledger.

    Raises:
        LedgerError: it is locked.
    """
    if lock_of(view) is not None:
        command = shlex.join(["discreet", "ledger", "open", place, population])
        raise LedgerError(
            f"the ledger {place} is locked: no query opens an account in it, and {population!r} has none.",
            hint=f"give population= the name that it has there; its owner opens a new one with `{command} BUDGET`, or "
            "Ledger.open_account(…)",
        )


def refuse_new_analyst(view: View, place: str, population: str, analyst: str, cap: Budget) -> None:
    """Refuse to add an analyst by a charge in a ledger that is locked with a key.

    Raises:
        InvalidParameter: it is locked so.
    """
    held = lock_of(view)
    if held is not None and held.public_key is not None:
        budget = ",".join(decimal(part) for part in (cap.epsilon, cap.delta) if part)
        command = shlex.join(["discreet", "ledger", "analyst", place, population, analyst, budget])
        raise InvalidParameter(
            f"the ledger {place} is locked with a key: no query adds an analyst to it, and it has no {analyst!r}.",
            hint=f"its owner adds them: `{command} --key KEYFILE --by NAME --reason WHY`",
        )


def by_owner(view: View, place: str, population: str, act: A, key: Key | None) -> A:
    """Return an act, signed where the ledger's lock names a key.

    Raises:
        InvalidParameter: it names another key than this one.
    """
    held = lock_of(view)
    if held is None or held.public_key is None:
        return act
    if key is None or sign.public_key(key) != held.public_key:
        raise InvalidParameter(
            f"the ledger {place} is locked with a key, and this {'names none' if key is None else 'is another one'}.",
            hint="key= names the file of its owner's private key",
        )
    return _signed(view, population, act, key)


def is_signed(previous: str, population: str, act: Act, public_key: str) -> bool:
    """Whether an entry after that hash carries the signature of that key.

    Raises:
        InvalidParameter: a signature or a key that is none.
    """
    return act.signature is not None and sign.verified(_message(previous, population, act), act.signature, public_key)


def _signed(view: View, population: str, act: A, key: Key | None) -> A:
    if key is None:
        return act
    signature = sign.signed(_message(view.head[1], population, act), key)
    return replace(act, signature=signature)


def _message(previous: str, population: str, act: Act) -> bytes:
    fields = {**act.to_json(), "kind": act.kind, "population": population}
    del fields["signature"]
    return _TAG + bytes.fromhex(previous) + canonical(fields).encode()
