"""The least ε for a wanted error, and the most ε that an account can pay: found by search, and verified on the plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from discreet.accounting.filter import Charge
from discreet.errors import BudgetExceeded, DiscreetError, InvalidParameter
from discreet.plan.assumed import ROWS
from discreet.privacy.exact import Real, below, exact, positive
from discreet.privacy.guarantee import decimal

if TYPE_CHECKING:
    from discreet.plan.outer import Foreseen
    from discreet.plan.plan import Plan

LEAST_EPSILON = Fraction(1, 10**6)
"""The least ε of a query; far below it, reports of errors would leave the range of floats."""

_DIGITS = 100  # mantissas are 100 to 999: three digits
_DECADE = 9 * _DIGITS


@dataclass(frozen=True, slots=True)
class WantedErrors:
    """Errors that a plan may have at most, at a confidence, if the result is as assumed.

    Attributes:
        errors: output column → its error: a number, or a share of the column's assumed value as "5%".
        confidence: the probability with which the noise stays within it.
        assuming: public guesses (`plan/assumed.py`), for what depends on the data.
    """

    errors: Mapping[str, Real]
    confidence: Fraction
    assuming: Mapping[str, Real] | None

    def worst(self, plan: Plan) -> tuple[float, str]:
        """Return the largest share of its target that a column's error takes, and which column; at most 1 when all are
        met.
        """
        assumed = plan.foreseen(self.assuming)
        self._check(plan, assumed)
        shares = []
        for column, error in self.errors.items():
            found, target = (
                plan.error(column, self.confidence, assuming=self.assuming),
                _target(column, error, assumed),
            )
            shares.append((found / target if target > 0 else math.inf, column))
        return max(shares)

    def _check(self, plan: Plan, assumed: Foreseen) -> None:
        """Refuses a guess at what the query does not have."""
        queries = [output.query for output in plan.outputs.values()]
        means = any(e.over is not None for q in queries for _, c in q.question.outer.columns for e in c.walk())
        known = {ROWS, *plan.columns, *(name for q in queries for name in q.columns)}
        unknown = [k for k in assumed.sizes if k not in known]
        if unknown and not means:
            raise InvalidParameter(
                f"assuming says what {unknown[0]!r:.60} is, which the result does not have.",
                hint=f"its columns are: {', '.join(plan.columns)}; {ROWS!r} is for means",
            )


def read_wanted(errors: object, confidence: Fraction, assuming: Mapping[str, Real] | None) -> WantedErrors:
    """Return the wanted errors, checked as far as they can be without the query.

    Raises:
        InvalidParameter: not a dict of positive numbers or shares.
    """
    if not isinstance(errors, Mapping) or not errors:
        raise InvalidParameter(
            f"error must be a dict from a column's name to its largest error, not {errors!r:.60}.",
            hint="error={'n': 50}, or error={'n': '5%'} with assuming={'n': 10_000}",
        )
    for column, error in errors.items():
        _amount(column, error)
    return WantedErrors(errors, confidence, assuming)


def least(make: Callable[[Fraction], Plan], wanted: WantedErrors, cap: Fraction) -> Plan:
    """Return the plan of least ε that has the wanted errors: ε has three digits, rounded up, and is at most `cap`.

    Raises:
        InvalidParameter: no ε up to `cap` gives these errors.
        PlanError: the query cannot be answered as asked.
    """
    top = max(_index(cap), 0)
    low, high, at, steps = -1, top + 1, min(_index(Fraction(1)), top), 0
    best: Plan | None = None
    column = ""
    while high - low > 1:
        epsilon = min(_epsilon(at), cap)
        plan = make(epsilon)
        share, worst = wanted.worst(plan)
        if share <= 1:
            high, best = at, plan
        else:
            low, column = at, worst
        steps += 1
        # errors are nearly inverse to ε; each third step halves the bracket, whatever they are
        guess = (low + high) // 2 if steps % 3 == 0 else _guess(epsilon, share, top)
        at = min(max(guess, low + 1), high - 1)
    if best is None:
        raise InvalidParameter(
            f"no ε up to {decimal(cap)}, the owner's cap on one query, makes the error of {column!r} so small.",
            hint="ask for a larger error, for fewer columns, or for larger groups",
        )
    return best


def _epsilon(index: int) -> Fraction:
    """1e-6, 1.01e-6, …, 9.99e-6, 1e-5, …"""
    decade, place = divmod(index, _DECADE)
    return LEAST_EPSILON * Fraction(10) ** decade * Fraction(_DIGITS + place, _DIGITS)


def _index(epsilon: Fraction) -> int:
    """Return the first place whose ε is at least this one."""
    decade = 0
    while _epsilon((decade + 1) * _DECADE) <= epsilon:
        decade += 1
    return decade * _DECADE + math.ceil(epsilon / _epsilon(decade * _DECADE) * _DIGITS) - _DIGITS


def _guess(epsilon: Fraction, share: float, top: int) -> int:
    wanted = float(epsilon) * share
    if not wanted < float(_epsilon(top)):
        return top
    return _index(Fraction(max(wanted, float(LEAST_EPSILON))))


def _amount(column: str, error: Real) -> tuple[Fraction, bool]:
    """Return a wanted error, and whether it is a share of the column's value."""
    name = f"error[{column!r}]"
    text = error.strip() if isinstance(error, str) else ""
    if text.endswith("%"):
        return positive(name, text[:-1].strip()) / 100, True
    return positive(name, error), False


def _target(column: str, error: Real, assumed: Foreseen) -> float:
    """Return the wanted error in the column's own units, rounded down."""
    amount, relative = _amount(column, error)
    if not relative:
        return below(amount)
    try:
        size = abs(assumed.value(column))
    except InvalidParameter:
        size = exact("size", 0)
    if size == 0:
        raise InvalidParameter(
            f"an error of {error} of {column!r} depends on how large {column!r} is.",
            hint=f"give a public guess other than 0: assuming={{{column!r}: 10_000}}",
        )
    return below(amount * size)


_STEPS = 12  # of a bisection between neighbouring powers of two: finer than three digits


def with_fitting(
    refusal: BudgetExceeded, charge: Callable[[Fraction], Charge], affords: Callable[[Charge], bool], asked: Fraction
) -> BudgetExceeded:
    """Return the refusal, with the largest ε in its hint that the account can pay, to three digits; reads no data."""
    found = most(lambda epsilon: _fits(charge, affords, epsilon), asked)
    if found is None:
        return refusal
    hint = f"epsilon={decimal(found)} would fit; {refusal.hint.split('; ', 1)[-1]}"
    return BudgetExceeded(refusal.message, asked=refusal.asked, left=refusal.left, hint=hint)


def most(fits: Callable[[Fraction], bool], below: Fraction) -> Fraction | None:
    """Return the largest ε below a bound that fits, rounded down to three digits; None when not even the least does.

    What is returned fits; that nothing between it and the bound does is as true as that the cost grows with ε.
    """
    if below <= LEAST_EPSILON or not fits(LEAST_EPSILON):
        return None
    low, high = below / 2, below
    while low > LEAST_EPSILON and not fits(low):
        low, high = low / 2, low
    low = max(low, LEAST_EPSILON)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    found = max(_three_digits(low), LEAST_EPSILON)
    return found if fits(found) else None


def _fits(charge: Callable[[Fraction], Charge], affords: Callable[[Charge], bool], epsilon: Fraction) -> bool:
    try:
        return affords(charge(epsilon))
    except DiscreetError:  # too little for this question to be planned at all
        return False


def _three_digits(x: Fraction) -> Fraction:
    """Return it rounded down."""
    unit = Fraction(1)
    while x / unit < 100:
        unit /= 10
    while x / unit >= 1000:
        unit *= 10
    return int(x / unit) * unit
