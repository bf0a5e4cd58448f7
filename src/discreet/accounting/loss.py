"""What some uses of mechanisms cost together, asked in any of the field's words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, overload

from discreet.accounting.bounds import Answer, Sums, largest, sums
from discreet.errors import InvalidParameter
from discreet.privacy.event import Composed, Event
from discreet.privacy.exact import Real, count, exact, probability, reported
from discreet.privacy.guarantee import Approximate, decimal
from discreet.privacy.parallel import Alternatives
from discreet.privacy.unit import Relation

if TYPE_CHECKING:
    from discreet.privacy.pair import Curve

_MOST_BITS = 333  # of an ε, and half of those of a ρ
_LARGE = 1 << _MOST_BITS
_MANY = 1 << 30
_MOST_USES = 10**300
_NOTHING = Fraction(0)


@dataclass(frozen=True, slots=True, repr=False)
class PrivacyLoss:
    """The loss of a multiset of events whose parameters were fixed before the first answer.

    Guarantee:
        Whatever was dominated by `events`, adaptively chosen within them, is (ε, δ)-DP for each pair that
        `epsilon`, `delta` and `guarantee` return, under the neighbours for which the events were derived:
        `relation`, where an operation holds for one kind only. Each answer is the least of several theorems'
        answers: the sums of ε and δ; zCDP; the Gaussian closed form; and the composition of the dominating
        pairs by the engine that `explain` names.

    Args:
        uses: the events; or alternatives, of which the worst is answered.
        by_use: whether each event is a use by itself, as those of the constructors of `discreet.accounting`
            are, and not one number of a vector that is released together.
        units: how many units neighbours may differ by.

    References:
        Dwork, Roth 2014, Theorem 3.16 (sums); Canonne, Kamath, Steinke 2020, Proposition 12 (zCDP),
        https://arxiv.org/abs/2004.00010; Balle, Wang 2018, Theorem 8 (Gaussian), https://arxiv.org/abs/1805.06530; Zhu,
        Dong, Wang 2022, Theorem 10 (pairs), https://arxiv.org/abs/2106.08567. Proofs: docs/proofs/composition.md

    >>> from discreet.privacy.event import ApproximateEvent
    >>> loss = PrivacyLoss(Composed([ApproximateEvent(Fraction(1, 10))])) * 3
    >>> loss
    PrivacyLoss: ε = 0.3 (pure)
    >>> loss.epsilon()
    0.3
    """

    uses: Composed | Alternatives
    by_use: bool = field(default=False, compare=False)
    units: int = field(default=1, compare=False)

    def __add__(self, other: PrivacyLoss) -> PrivacyLoss:
        if not isinstance(other, PrivacyLoss):
            return NotImplemented
        by_use, units = self.by_use and other.by_use, self.units if self.units < other.units else other.units
        if type(self.uses) is Composed is type(other.uses):
            return made(self.uses + other.uses, by_use, units)
        return PrivacyLoss(_alternatives(self) + _alternatives(other), by_use, units)

    def __mul__(self, n: int) -> PrivacyLoss:
        return self if type(n) is int and n == 1 else PrivacyLoss(self.uses * n, self.by_use, self.units)

    __rmul__ = __mul__

    def __radd__(self, other: int) -> PrivacyLoss:
        """So that `sum` of losses works: its start is 0."""
        return self if other == 0 else NotImplemented

    @property
    def events(self) -> Composed:
        """The events.

        Raises:
            InvalidParameter: uses on disjoint parts, which are several compositions.
        """
        if isinstance(self.uses, Composed):
            return self.uses
        raise InvalidParameter(
            f"this loss is the largest of {len(self.uses)} compositions, which are no one list of events.",
            hint="charge what is used on each part of the data by itself",
        )

    @property
    def relation(self) -> Relation | None:
        """The only neighbours for which the loss holds; None for those that its parameters were derived for."""
        return self.uses.relation

    def max(self, other: PrivacyLoss) -> PrivacyLoss:
        """Return the loss of these uses and of `other` on two disjoint parts of the data; see `parallel`."""
        return parallel(self, other)

    def poisson(self, rate: Real) -> PrivacyLoss:
        """Return the loss of this one use on a sample that each unit enters independently with chance `rate`.

        Guarantee:
            For add-remove neighbours and no others: the sample is secret, and its size is not fixed.

        Raises:
            InvalidParameter: a rate outside [0, 1], or several uses (sample each: `loss.poisson(q) * n`).

        References: Zhu, Dong, Wang 2022, Theorem 11, https://arxiv.org/abs/2106.08567; proof: docs/proofs/sampling.md
        """
        from discreet.accounting.operations import sampled

        q = exact("rate", rate)
        if not 0 <= q <= 1:
            raise InvalidParameter(f"rate must lie in [0, 1], not {rate}.")
        part = self._of_one_use(lambda event: sampled(event, q), "loss.poisson(rate) * n")
        return self if q == 1 else part

    def fixed_size(self, sample: int, population: int) -> PrivacyLoss:
        """Return the loss of this one use on `sample` of `population` units, drawn without replacement.

        Guarantee:
            For replaced units and no others, as both sizes are public. Each use draws afresh, in secret.

        Raises:
            InvalidParameter: sizes that are no sample, or several uses (sample each: `….fixed_size(n, N) * k`).

        References: Zhu, Dong, Wang 2022, Proposition 30, https://arxiv.org/abs/2106.08567; proof:
        docs/proofs/fixed-size.md
        """
        from discreet.accounting.operations import drawn

        n, of = count("sample", sample, least=0), count("population", population)
        if n > of:
            raise InvalidParameter(f"sample must be at most population = {of}, not {n}.")
        part = self._of_one_use(lambda event: drawn(event, n, of), "loss.fixed_size(n, N) * k")
        return self if n == of else part

    def shuffle(self, users: int) -> PrivacyLoss:
        """Return the loss of the shuffled reports of `users`, each made by this ε-DP local randomiser.

        Guarantee:
            For replacing one user's data; every user applies the same randomiser to their own data only, and
            its ε is between any two inputs of one user.

        Raises:
            InvalidParameter: a use that is not ε-DP by itself, or several.

        References: Feldman, McMillan, Talwar 2021, https://arxiv.org/abs/2012.12803; proof: docs/proofs/shuffling.md
        """
        from discreet.accounting.operations import shuffled

        n = count("users", users)
        return self._of_one_use(lambda event: shuffled(event, n), "loss.shuffle(n) * k")

    def group(self, k: int) -> PrivacyLoss:
        """Return the loss for neighbours that differ by up to k units.

        The textbook's (kε, k·e^((k−1)ε)·δ) is `textbook_group`; this is never worse.

        Guarantee:
            For k units added, removed or replaced, whichever `self` holds for with one.

        Raises:
            InvalidParameter: a k below 1, or uses that release vectors (derive them for k times the sensitivity).

        References: Dong, Roth, Su 2019, Theorem 2.14, https://arxiv.org/abs/1905.02383; Ganesh 2024,
        https://arxiv.org/abs/2401.10294; proof: docs/proofs/group.md
        """
        from discreet.privacy.grouping import group_uses

        if count("k", k) == 1:
            return self
        if not self.by_use and any(_uses(c) > 1 and sums(c).mu_squared is None for c in self._choices):
            raise InvalidParameter(
                "this loss may be of numbers that were released together, whose group privacy is not the sum "
                "of theirs.",
                hint="derive the mechanism for k times the sensitivity",
            )
        if not isinstance(self.uses, Composed):
            raise InvalidParameter(
                "a group may lie in several of the disjoint parts, and what that costs is not known here.",
                hint="group the loss of each part by itself, and add them",
            )
        return replace(self, uses=group_uses(self.uses, k), units=self.units * k)

    @property
    def pure(self) -> Fraction | None:
        """The ε for which all of it is ε-DP, exactly; None when δ has to be above 0."""
        return None if self.failure else self.pure_apart

    @property
    def pure_apart(self) -> Fraction | None:
        """The ε for which all of it is ε-DP apart from `failure`; None when no ε does."""
        return largest(s.pure for s in self._sums)

    @property
    def rho(self) -> Fraction | None:
        """The ρ for which all of it is ρ-zCDP apart from `failure`; None when an event has none."""
        return largest(s.rho for s in self._sums)

    @property
    def mu_squared(self) -> Fraction | None:
        """The μ² for which all of it is μ-GDP; None unless every event is Gaussian."""
        return largest(s.mu_squared for s in self._sums)

    @property
    def failure(self) -> Fraction:
        """The δ that is spent apart, whatever ε is asked for: the sum of the events' own."""
        return max(s.failure for s in self._sums)

    def epsilon(self, delta: Real = 0) -> float:
        """Return an ε for which all of it is (ε, δ)-DP, rounded up to a float (which means its shortest decimal).

        Raises:
            InvalidParameter: no finite ε exists at that δ: Gaussian noise or zCDP at δ = 0, or a δ below `failure`.
        """
        epsilon = reported(self.guarantee(delta).epsilon)
        if math.isinf(epsilon):
            raise InvalidParameter(
                "this loss has no ε within the range of floats.", hint="ask guarantee(delta), which is exact"
            )
        return epsilon

    def guarantee(self, delta: Real = 0) -> Approximate:
        """Return the same as an exact promise. The ε of pure events at δ = 0 is their sum, not rounded.

        Raises:
            InvalidParameter: no finite ε exists at that δ.
        """
        d = probability("delta", delta)
        return Approximate(self.answer(d).upper, d)

    def delta(self, epsilon: Real) -> float:
        """Return a δ for which all of it is (ε, δ)-DP, rounded up.

        Raises:
            InvalidParameter: a negative ε.
        """
        return reported(self._delta_answer(epsilon).upper)

    def bounds(self, delta: Real | None = None, *, epsilon: Real | None = None) -> tuple[float, float]:
        """Certified bounds of the least ε at δ, or of the least δ at ε, of the worst uses that events stand for.

        The upper one is `epsilon(delta)`. The lower one is what some such uses lose, and 0 where none are known.

        Raises:
            InvalidParameter: both or neither of them given; or as `epsilon` and `delta`.
        """
        if epsilon is not None and delta is None:
            answer = self._bracketed(lambda loss: loss._delta_answer(epsilon))
        elif delta is not None and epsilon is None:
            d = probability("delta", delta)
            answer = self._bracketed(lambda loss: loss.answer(d))
        else:
            raise InvalidParameter("bounds needs a delta or an epsilon, and not both.")
        upper = reported(answer.upper)
        return min(answer.lower, math.nextafter(upper, 0.0)) if upper else 0.0, upper

    def answer(self, delta: Fraction) -> Answer:
        """Return the answer at δ, with its lower bound, its engine and its theorem.

        Raises:
            InvalidParameter: no finite ε exists at that δ.
        """
        if delta > 0:  # without one, sums are exact however large they are
            self._within_range()
        from discreet.accounting.engines.choice import epsilon_answer

        found = [epsilon_answer(choice, delta) for choice in self._choices]
        known = [a for a in found if a is not None]
        if len(known) < len(found):
            raise self._unreachable(delta)
        worst = max(known, key=lambda a: a.upper)
        return replace(worst, lower=max(a.lower for a in known))

    def explain(self, delta: Real = 0) -> str:
        """Return which engine and which theorem answer at δ, and for whom.

        Raises:
            InvalidParameter: as `epsilon`.
        """
        d = probability("delta", delta)
        answer = self._bracketed(lambda loss: loss.answer(d))
        at_least = f"the truth is at least {answer.lower:.10g}" if answer.lower else "no lower bound is known"
        neighbours = "those that the uses were derived for" if self.relation is None else self.relation.value
        return "\n".join(
            (
                f"{self!r}",
                f"Answer: ε ≤ {reported(answer.upper):.10g} at δ = {decimal(d)}; {at_least}.",
                f"Engine: {answer.engine.name}.",
                f"Theorem: {answer.engine.theorem}.",
                f"Neighbours: {neighbours}.",
            )
        )

    def rdp(self, alpha: Real) -> float:
        """Return the Rényi divergence of order α > 1, in the worse direction, rounded up; see `questions.rdp`."""
        from discreet.accounting.questions import rdp

        return self._greatest(lambda loss: rdp(loss, alpha))

    def zcdp(self) -> float:
        """Return the least ρ known for which all of it is ρ-zCDP, rounded up; see `questions.zcdp`."""
        from discreet.accounting.questions import zcdp

        return self._greatest(zcdp)

    def gdp(self) -> float:
        """Return the least μ known for which all of it is μ-GDP, rounded up; see `mu.gdp`."""
        from discreet.accounting.engines.closed import gdp

        return self._greatest(gdp)

    def hockey_stick(self, alpha: Real) -> float:
        """Return the hockey-stick divergence of order α ≥ 0, in the worse direction: δ at ε = log α, rounded up."""
        from discreet.accounting.questions import hockey_stick

        return self._greatest(lambda loss: hockey_stick(loss, alpha))

    def advantage(self) -> float:
        """Return the most by which an attacker's true positives can exceed the false: δ at ε = 0, rounded up."""
        from discreet.accounting.questions import advantage

        return self._greatest(advantage)

    def success(self, prior: Real = Fraction(1, 2)) -> float:
        """Return the chance to say rightly whether a unit is in the data, which was held for `prior` before."""
        from discreet.accounting.questions import success

        return self._greatest(lambda loss: success(loss, prior))

    @overload
    def tradeoff(self, alpha: Real) -> float: ...
    @overload
    def tradeoff(self, alpha: Curve) -> Curve: ...
    def tradeoff(self, alpha: Real | Curve) -> float | Curve:
        """Return the least type II error of any test with type I error α (f-DP), rounded down; see `tradeoff`."""
        import numpy as np

        from discreet.accounting.tradeoff import tradeoff

        found = [np.asarray(tradeoff(PrivacyLoss(choice), alpha)) for choice in self._choices]
        least = np.min(np.stack(found), axis=0)
        return least if isinstance(alpha, np.ndarray) else float(least)

    def __repr__(self) -> str:
        return f"PrivacyLoss: {self._in_words()}"

    def _in_words(self) -> str:
        apart = f", δ = {decimal(self.failure)}" if self.failure else ""
        several = f"the largest of {len(self._choices)}: " if len(self._choices) > 1 else ""
        simple, whom = (self.pure_apart, "" if self.relation is None else f", for {self.relation.value} neighbours")
        if simple is not None:
            return f"{several}ε = {decimal(simple)}{apart or ' (pure)'}{whom}"
        if self.mu_squared is not None:
            at = f"ε = {self.epsilon(delta=1e-6):.4g} at δ = 1e-06"
            return f"{several}μ = {float(self.mu_squared) ** 0.5:.6g} (Gaussian: {at})"
        uses = max(_uses(choice) for choice in self._choices)
        if self.relation is not None:
            return f"{several}{uses} use{'s' * (uses != 1)}{whom}{apart}"
        if self.rho is not None:
            return f"{several}ρ = {decimal(self.rho)} (zCDP{', apart from' + apart[1:] if apart else ''})"
        return f"{several}{uses} use{'s' * (uses != 1)}{apart}"

    @property
    def _choices(self) -> tuple[Composed, ...]:
        return (self.uses,) if isinstance(self.uses, Composed) else tuple(self.uses)

    @property
    def _sums(self) -> tuple[Sums, ...]:
        return tuple(sums(choice) for choice in self._choices)

    def _bracketed(self, ask: Callable[[PrivacyLoss], Answer]) -> Answer:
        """Return the answer, where its engine knows no lower bound with what members of the events' classes lose."""
        from discreet.accounting.operations import members

        answer = ask(self)
        if answer.lower:
            return answer
        known = [found for choice in self._choices if (found := members(choice)) is not None]
        lower = max((ask(PrivacyLoss(m)).lower for m in known if m not in self._choices), default=0.0)
        return replace(answer, lower=lower)

    def _delta_answer(self, epsilon: Real) -> Answer:
        e = exact("epsilon", epsilon)
        if e < 0:
            raise InvalidParameter(f"epsilon must be at least 0, not {epsilon}.")
        self._within_range()
        from discreet.accounting.engines.choice import delta_answer

        known = [delta_answer(choice, e) for choice in self._choices]
        worst = max(known, key=lambda a: a.upper)
        return replace(worst, lower=max(a.lower for a in known))

    def _greatest(self, question: Callable[[PrivacyLoss], float]) -> float:
        self._within_range()
        return max(question(PrivacyLoss(choice)) for choice in self._choices)

    def _within_range(self) -> None:
        """Floats carry the squares of ε and μ; a loss for which they do not protects nobody."""
        for choice in self._choices:
            for event, n in choice:
                if n > _MOST_USES:
                    raise InvalidParameter("this loss has more than 10^300 uses.", hint="it protects nobody")
                pure = event.pure  # of Gaussian uses μ² is twice ρ: a bit fewer
                x = pure if pure is not None else event.mu_squared
                if x is None:
                    x = event.rho or _NOTHING
                whole, parts = (x * n if n > _MANY else x).as_integer_ratio()
                if whole < _LARGE:  # as nearly all are, whatever they are divided by
                    continue
                if whole.bit_length() - parts.bit_length() > _MOST_BITS * (1 + (pure is None)):
                    raise InvalidParameter(
                        "this loss is so large that it leaves the range of floats.", hint="it protects nobody"
                    )

    def _of_one_use(self, operation: Callable[[Event], Composed], hint: str) -> PrivacyLoss:
        """Of the one event there is; nothing remains nothing."""
        from discreet.accounting.operations import one_use

        if self.units > 1:
            raise InvalidParameter(
                f"this loss is for groups of {self.units} units, and each unit enters a sample by itself.",
                hint="sample or shuffle first, and then group",
            )
        event = one_use(self.events, hint)
        return self if event is None else replace(self, uses=operation(event))

    def _unreachable(self, delta: Fraction) -> InvalidParameter:
        if self.failure > delta:
            return InvalidParameter(
                f"this loss has no ε at delta={decimal(delta)}: {decimal(self.failure)} of δ is spent apart.",
                hint=f"ask at a delta above {decimal(self.failure)}",
            )
        if not delta:
            words = "this loss has no pure ε: it needs a delta above 0."
        else:
            apart = f" more than the {decimal(self.failure)} that is spent apart" if self.failure else ""
            words = f"this loss has no pure ε, and none at delta={decimal(delta)}: it needs at least 1e-280{apart}."
        return InvalidParameter(words, hint="ask at a larger delta, such as epsilon(delta=1e-6)")


_new = object.__new__
_set_uses, _set_by_use, _set_units = (PrivacyLoss.__dict__[name].__set__ for name in ("uses", "by_use", "units"))


def made(uses: Composed | Alternatives, by_use: bool, units: int) -> PrivacyLoss:
    """`PrivacyLoss(uses, by_use, units)`, in half the time: there may be very many."""
    loss = _new(PrivacyLoss)
    _set_uses(loss, uses)
    _set_by_use(loss, by_use)
    _set_units(loss, units)
    return loss


def parallel(*losses: PrivacyLoss) -> PrivacyLoss:
    """Return the loss of uses on disjoint parts of the data, one loss for each part: the largest of them.

    Guarantee:
        For add-remove neighbours, when a public rule says for each unit by itself which part it belongs to.
        A replaced unit may leave one part and enter another, and costs both: add their losses instead.

    Raises:
        InvalidParameter: no loss, one for replaced units only, or more than 64 of which none dominates.

    References: McSherry 2009, Theorem 4, https://doi.org/10.1145/1559845.1559850; proof: docs/proofs/parallel.md
    """
    for loss in losses:
        if not isinstance(loss, PrivacyLoss):
            raise InvalidParameter(
                f"losses must be losses, one for each part of the data, not {type(loss).__name__}.",
                hint="as in parallel(laplace(2), gaussian(4))",
            )
    by_use, units = all(loss.by_use for loss in losses), min((loss.units for loss in losses), default=1)
    return PrivacyLoss(Alternatives.parallel(_alternatives(loss) for loss in losses), by_use, units)


def _alternatives(loss: PrivacyLoss) -> Alternatives:
    return Alternatives([loss.uses]) if isinstance(loss.uses, Composed) else loss.uses


def _uses(events: Composed) -> int:
    """Return how many there are, which may be more than `len` can say."""
    return sum(n for _, n in events.parts)
