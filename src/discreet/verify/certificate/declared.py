"""Certificates of mechanisms that an owner used by hand: the charge is shown, the sensitivity is the owner's word.

The value that was released is in no ledger, and so in no certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidParameter
from discreet.ledger.entry import Charged, Opened
from discreet.privacy.guarantee import words
from discreet.verify.certificate.entries import check_chain, check_ledger, entry_of
from discreet.verify.certificate.evidence import HEAD, LINK, check_together, link_of
from discreet.verify.certificate.forms import Reader, must, record, text
from discreet.verify.claim import Cost
from discreet.verify.price import fits

if TYPE_CHECKING:
    from discreet.ledger.account import Account
    from discreet.ledger.log import View

DECLARED = "sensitivity declared by the caller, not derived"
"""What the entry of such a charge says, and its certificate."""

FORMAT = "discreet certificate of a declared charge, format 1"
"""Format that such a certificate names."""

STEPS = {
    "format": "the certificate has the fields of its format, and no others",
    "sensitivity": f"not checked: {DECLARED}",
    "account": "the ledger opened the account of the population",
    "charge": "the ledger charged the population for this mechanism, under the relation of its account",
    "guarantee": "the events that were charged compose to no more than the guarantee",
    "ledger": "the ledger that was given is whole, and has these entries and this head",
}
"""The steps of its check, in order, and what each shows."""

_FORMS: dict[str, Reader[Any]] = {"format": text, "sensitivity": text, "account": LINK, "charge": LINK, "head": HEAD}


def write(account: Account, entry: int) -> dict[str, Any]:
    """Return the certificate of the charge with this number in the ledger, as JSON.

    Raises:
        InvalidParameter: it is no charge of a mechanism, of another account, or not to be shown to this analyst.
    """
    check_together([account])

    def find(view: View) -> dict[str, Any]:
        opened = view.latest(account.population, Opened.kind, Opened.key)
        assert opened is not None  # an account has its first entry
        links = {"account": LINK.write(link_of(view, opened.seq)), "charge": LINK.write(link_of(view, entry))}
        return {"format": FORMAT, "sensitivity": DECLARED, **links, "head": HEAD.write(view.head)}

    own = {e.seq: e.content for e in account.history()}.get(entry)
    if not isinstance(own, Charged) or own.note.get("sensitivity") != DECLARED:
        raise InvalidParameter(
            f"entry {entry} of this account is no charge of a mechanism.",
            hint="the result of a query has its own certificate, also later: run the query again, which is free, and "
            "call release.certificate()",
        )
    return account.log.read(find)


class DeclaredCheck:
    """The check of one such certificate: a method for each step, in the order of `STEPS`."""

    found = None

    def __init__(self, document: Any) -> None:
        self._document = document
        self.said = ""

    def _format(self) -> None:
        self._given = record(self._document, _FORMS, "it")
        must(self._given["format"] == FORMAT, "its format is another")

    def _sensitivity(self) -> None:
        must(self._given["sensitivity"] == DECLARED, "it says something else of the sensitivity")

    def _account(self) -> None:
        link = self._given["account"]
        self._population = str(link.read().population)
        self._opened = entry_of(link, Opened, self._population).content

    def _charge(self) -> None:
        account, charge = self._given["account"], self._given["charge"]
        content, opened = entry_of(charge, Charged, self._population).content, self._opened
        assert isinstance(content, Charged) and isinstance(opened, Opened)
        check_chain([account, charge])
        must(account.seq < charge.seq, "the charge is older than its account")
        must(content.note.get("sensitivity") == DECLARED, "the charge is for something else")
        must(content.note.get("relation") == opened.relation.value, "the account is for other neighbours")
        paid = content.charge.guarantee
        self._cost = Cost(content.charge.events, paid.epsilon, paid.delta)
        price = f"{words(paid.epsilon, paid.delta)} ({opened.relation.value})"
        said = f"Verified: {self._population!r} was charged {price} by entry {charge.seq} for "
        self.said = f"{said}{content.note.get('mechanism')}; {DECLARED}."

    def _guarantee(self) -> None:
        must(fits(self._cost), "the events cost more than ε and δ")

    def ledger(self, lines: Sequence[str], published: str | None) -> None:
        """Take the last step: both entries are in that ledger."""
        check_ledger(lines, published, [self._given["account"], self._given["charge"]], self._given["head"])
