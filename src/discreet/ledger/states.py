"""The states beside the entries: each account's tally, which only repeats the entries, and its secret key."""

from __future__ import annotations

import hashlib

from discreet.accounting.filter import Tally
from discreet.ledger.chain import canonical, parse
from discreet.ledger.entry import tally
from discreet.privacy.codec import fraction_text


def secret_name(population: str) -> str:
    """The state that holds an account's secret key."""
    return f"secret/{population}"


def tally_name(population: str) -> str:
    """The state that repeats an account's tally and names the entry it comes from."""
    return f"tally/{population}"


def tally_text(seq: int, spent: Tally) -> str:
    """The stored form of that state."""
    return canonical({"seq": seq, "spent": [fraction_text(x) for x in spent]})


def read_tally(text: str) -> tuple[int, Tally]:
    """The entry's number and the tally.

    Raises:
        ValueError: not what `tally_text` writes.
    """
    try:
        value = parse(text)
        seq, spent = value["seq"], tally(value["spent"])
        if type(seq) is not int or tally_text(seq, spent) != text:
            raise ValueError("not a tally")
    except (KeyError, TypeError) as error:
        raise ValueError("not a tally") from error
    return seq, spent


def read_secret(text: str | None, digest: str) -> bytes | None:
    """An account's secret key, if it is the one with that SHA-256."""
    try:
        secret = bytes.fromhex(text or "")
    except ValueError:
        return None
    return secret if len(secret) == 32 and hashlib.sha256(secret).hexdigest() == digest else None
