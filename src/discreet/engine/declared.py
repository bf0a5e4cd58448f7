"""Mechanisms that an owner uses by hand, charged to the account of a session; their sensitivity is the owner's word."""

from __future__ import annotations

import hashlib
import inspect
import logging
from typing import TYPE_CHECKING, Any

from discreet.accounting.filter import Charge
from discreet.errors import InvalidParameter
from discreet.mechanisms.abstract import Mechanism
from discreet.mechanisms.numeric import NoisyValue, Numeric
from discreet.privacy.exact import Real, exact
from discreet.privacy.guarantee import decimal
from discreet.privacy.unit import Relation
from discreet.verify.certificate.declared import DECLARED

if TYPE_CHECKING:
    from discreet.ledger.account import Account


def charge_mechanism(
    account: Account, mechanism: Mechanism, relation: str | Relation | None, delta: Real | None, version: str | None
) -> Charge:
    """Charge an account for one release of a mechanism, and return the charge, which is durable.

    Raises:
        InvalidParameter, BudgetExceeded, LedgerError: nothing was charged, and nothing may be released.
    """
    given: object = mechanism  # what came need not be what was annotated
    if not isinstance(given, Mechanism):
        raise InvalidParameter(
            f"a mechanism is charged, not {type(mechanism).__name__}.", hint="dp.mechanism('laplace', …)"
        )
    if account.people is not None:
        raise InvalidParameter(
            "people have budgets of their own here, and a mechanism does not say whose rows its value is made of.",
            hint="use SQL, or a recipe with private parts",
        )
    for said in (relation, getattr(mechanism, "relation", None)):
        if said is not None and Relation.parse(said) is not account.relation:
            raise InvalidParameter(
                f"this account is for {account.relation.value} neighbours, and the mechanism for "
                f"{Relation.parse(said).value}.",
                hint=f"compute the sensitivity under {account.relation.value}",
            )
    at = getattr(mechanism, "delta", None) if delta is None else exact("delta", delta)
    try:
        charge = Charge.of(mechanism.loss, at or 0)
    except InvalidParameter as refused:
        raise InvalidParameter(refused.message, hint="say at which δ it is charged: delta=1e-6") from None
    told = repr(mechanism)[:1000]
    note: dict[str, Any] = {"sql": f"{told}: {DECLARED}", "mechanism": told, "sensitivity": DECLARED}
    identity = hashlib.sha256(f"mechanism {told}".encode()).hexdigest()
    account.charge(identity, charge, note={**note, "relation": account.relation.value, "version": version})
    logging.getLogger("discreet").info("charged ε = %s: %s", decimal(charge.guarantee.epsilon), told)
    return charge


def check_releases(mechanism: Mechanism, data: tuple[Any, ...]) -> None:
    """Refuse, before the charge, a mechanism that is not used by one call, or not by a call with so many arguments.

    Raises:
        InvalidParameter: it has no `release`, or one that takes other arguments.
    """
    given: object = mechanism
    if not isinstance(given, Mechanism):
        return  # the charge refuses it
    release = getattr(mechanism, "answer" if isinstance(mechanism, Numeric) else "release", None)
    if not callable(release):
        raise InvalidParameter(
            f"{type(mechanism).__name__} has no release().", hint="session.charge(mechanism), then use its own methods"
        )
    try:
        inspect.signature(release).bind(*data)
    except TypeError:
        raise InvalidParameter(
            f"{type(mechanism).__name__} does not release {len(data)} values.",
            hint=f"session.release(mechanism, …) takes what release{inspect.signature(release)} takes",
        ) from None


def released(mechanism: Mechanism, data: tuple[Any, ...]) -> NoisyValue:
    """Return a release of a mechanism that has been charged."""
    if isinstance(mechanism, Numeric):
        return mechanism.answer(*data)
    release: Any = mechanism.release  # type: ignore[attr-defined]  # each family has its own, of other data
    return NoisyValue(release(*data), None, exact("confidence", "0.95"), mechanism.loss)
