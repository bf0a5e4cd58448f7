"""`finite`: the exact privacy of a mechanism with finitely many inputs and outputs."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.accounting.decimals import log
from discreet.accounting.loss import PrivacyLoss
from discreet.audit.claim import Claim
from discreet.audit.exact.exponential import beyond, exceeds, exponential
from discreet.audit.exact.rows import Table, graph, read
from discreet.audit.exact.two_laws import impossible, largest_ratio, least_ratio, likelier, type_two
from discreet.audit.finding import CONSISTENT, VIOLATED
from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, above, below, count, exact, probability
from discreet.privacy.guarantee import Approximate, Budget, decimal

_SHOWN = 6


def finite(
    mechanism: object,
    claimed: Budget | Approximate | PrivacyLoss | Claim | Real | None = None,
    *,
    inputs: Iterable[object] | None = None,
    neighbours: Iterable[tuple[object, object]] | None = None,
    rounding: Real = 0,
) -> Finite:
    """The exact privacy of a mechanism that is given by the probabilities of its outputs.

    Args:
        mechanism: a mapping input → (mapping output → probability); a function of an input that returns such a
            mapping, with `inputs`; or rows of probabilities, one row an input (0, 1, …, unless `inputs` names
            them), one column an output. Probabilities are fractions, integers, decimals or texts; a float means
            its shortest decimal. Each row must sum to 1, exactly.
        claimed: what the mechanism is said to keep.
        inputs: the inputs.
        neighbours: pairs of neighbouring inputs; all pairs unless said (the local model).
        rounding: the most by which each probability may be off, as a share of it: for rows that were computed in
            floats. Rows then sum to 1 within that. Numbers are reported for the probabilities as they were given;
            "violated" is said only if no probabilities within the rounding keep the claim.

    Guarantee:
        The verdict, `ratio`, `delta_bounds` and `tradeoff` of a number are exact or bounds on the stated side;
        no float takes part. "violated" means that an event violates the claim, "consistent" that none does at
        the points that are tested: one for a budget, several of the curve for a `PrivacyLoss`.

    References:
        Dwork, Roth 2014, Definition 2.4, https://www.cis.upenn.edu/~aaroth/Papers/privacybook.pdf; Balle, Wang
        2018, Theorem 5 (the event that decides δ), https://arxiv.org/abs/1805.06530; Dong, Roth, Su 2019,
        Definition 2.1 (the trade-off), https://arxiv.org/abs/1905.02383

    >>> answer = finite({"yes": {"yes": "3/4", "no": "1/4"}, "no": {"yes": "1/4", "no": "3/4"}}, claimed=1)
    >>> answer.ratio(), answer.verdict
    (Fraction(3, 1), 'violated')

    Raises:
        InvalidParameter: rows that are no probabilities or do not sum to 1, neighbours that are no inputs, or more
            pairs and outputs than can be compared.
    """
    table = read(mechanism, inputs, exact("rounding", rounding))
    pairs = graph(table, neighbours)
    return Finite(table, pairs, pairs, None if claimed is None else Claim.of(claimed), _points(claimed))


@dataclass(frozen=True, slots=True)
class Event:
    """An event with its exact probabilities under two neighbours.

    Attributes:
        x: the input under which it is the likelier.
        x_neighbour: its neighbour.
        outputs: the outputs that make up the event.
        under_x: the probability under x.
        under_neighbour: that under the neighbour.
    """

    x: object
    x_neighbour: object
    outputs: tuple[Hashable, ...]
    under_x: Fraction
    under_neighbour: Fraction

    @property
    def epsilon(self) -> float:
        """The logarithm of the ratio of the two probabilities, rounded to a float."""
        return _log(self.under_x / self.under_neighbour) if self.under_neighbour else math.inf

    def __str__(self) -> str:
        shown = ", ".join(repr(o) for o in self.outputs[:_SHOWN])
        more = f" and {len(self.outputs) - _SHOWN} more" if len(self.outputs) > _SHOWN else ""
        p, q = _both(self.under_x), _both(self.under_neighbour)
        return f"output {shown}{more}: {p} under {self.x!r}, {q} under {self.x_neighbour!r}"


@dataclass(frozen=True, slots=True, repr=False)
class Finite:
    """What a table of probabilities keeps, exactly.

    Attributes:
        table: the inputs, the outputs and the probabilities.
        pairs: the pairs of inputs, as indices, that are compared.
        edges: the pairs that differ by one unit.
        claim: what was claimed, if anything.
        points: the promises (ε, δ) that decide the verdict, as fractions.
    """

    table: Table
    pairs: tuple[tuple[int, int], ...]
    edges: tuple[tuple[int, int], ...]
    claim: Claim | None
    points: tuple[tuple[Fraction, Fraction], ...]

    @property
    def inputs(self) -> tuple[object, ...]:
        """The inputs, in order."""
        return self.table.inputs

    @property
    def outputs(self) -> tuple[Hashable, ...]:
        """The outputs, in order."""
        return self.table.outputs

    def ratio(self, delta: Real = 0) -> Fraction | None:
        """e^ε for the least ε ≥ 0 at δ, exactly; None where no finite ε exists."""
        d = probability("delta", delta) * self.table.whole
        greatest = Fraction(1)
        for p, q in self._all_rows():
            ratio = least_ratio(p, q, d)
            if ratio is None:
                return None
            greatest = max(greatest, ratio)
        return greatest

    def epsilon(self, delta: Real = 0) -> float:
        """The least ε at δ, rounded up to a float; infinite where there is none."""
        ratio = self.ratio(delta)
        return math.inf if ratio is None else _log(ratio)

    def delta_bounds(self, epsilon: Real) -> tuple[Fraction, Fraction]:
        """The least δ at ε, from below and from above: equal where e^ε matters not, else within 10⁻³⁶ of each other."""
        e = exact("epsilon", epsilon)
        if e < 0:
            raise InvalidParameter(f"epsilon must be at least 0, not {epsilon}.")
        low, high = self._bracket(e)
        most_low = most_high = 0
        for p, q in self._all_rows():
            event = likelier(p, q, e)
            over, under = sum(p[k] for k in event), sum(q[k] for k in event)
            most_low = max(most_low, over * high.denominator - under * high.numerator)
            most_high = max(most_high, over * low.denominator - under * low.numerator)
        whole = self.table.whole
        return Fraction(most_low, high.denominator * whole), Fraction(most_high, low.denominator * whole)

    def delta(self, epsilon: Real) -> float:
        """The least δ at ε, rounded up to a float."""
        return above(self.delta_bounds(epsilon)[1])

    @property
    def failure(self) -> Fraction:
        """The δ that is left however large ε is: the chance of outputs that a neighbour never gives."""
        return Fraction(max((impossible(p, q) for p, q in self._all_rows()), default=0), self.table.whole)

    def tradeoff(self, alpha: Real) -> Fraction:
        """The least type II error of any test of two neighbours with type I error α, exactly.

        References: Dong, Roth, Su 2019, Definition 2.1, https://arxiv.org/abs/1905.02383
        """
        a = exact("alpha", alpha)
        if not 0 <= a <= 1:
            raise InvalidParameter(f"alpha must lie in [0, 1], not {alpha}.")
        whole = self.table.whole
        return min((type_two(p, q, whole, a) for p, q in self._all_rows()), default=1 - a)

    def group(
        self, k: int, claimed: Budget | Approximate | PrivacyLoss | Claim | Real | None = None
    ) -> Finite:
        """The privacy of inputs that are at most k steps of neighbours apart: that of groups of k units."""
        steps = count("k", k)
        near: dict[int, set[int]] = {}
        for i, j in self.edges:
            near.setdefault(i, set()).add(j)
            near.setdefault(j, set()).add(i)
        pairs = []
        for start in range(len(self.inputs)):
            reached, ahead = {start}, {start}
            for _ in range(steps):
                ahead = {j for i in ahead for j in near.get(i, ())} - reached
                reached |= ahead
                if not ahead:
                    break
            pairs += [(start, j) for j in sorted(reached) if j > start]
        claim = None if claimed is None else Claim.of(claimed)
        return Finite(self.table, tuple(pairs), self.edges, claim, _points(claimed))

    @property
    def violated(self) -> bool:
        """Whether the claim is refuted; False where nothing was claimed."""
        return any(self._broken())

    @property
    def verdict(self) -> str | None:
        """The word "violated" or "consistent"; None where nothing was claimed."""
        if self.claim is None:
            return None
        return VIOLATED if self.violated else CONSISTENT

    @property
    def witness(self) -> Event | None:
        """The clearest event: against the claim where it is violated, else the one with the largest ratio."""
        broken = list(self._broken())
        if not broken:
            return self._largest()
        e, _, i, j = max(broken, key=lambda b: self._excess(b[2], b[3], b[0], b[1]))
        return self._event(i, j, likelier(*self._rows(i, j), e))

    def __str__(self) -> str:
        exactly = f", within rounding of {decimal(self.table.rounding)}" if self.table.rounding else ", exact"
        size = (
            f"{len(self.inputs)} inputs × {len(self.outputs)} outputs, {len(self.pairs)} pairs of neighbours"
        )
        lines = [f"Finite mechanism: {size}{exactly}", self._pure_words()]
        witness = self.witness
        if witness is not None:
            lines.append(f"Witness: {witness}")
        shown = {Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2), *(e for e, _ in self.points)}
        lines += [f"  δ at ε = {decimal(e)}: {_both(self.delta_bounds(e)[1])}" for e in sorted(shown)]
        if self.claim is not None:
            lines.append(f"Claimed {self.claim.text}: {self._verdict_words()}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The answer in JSON's own types; fractions as text."""
        from discreet.audit.reports.exact import to_json

        return to_json(self)

    def to_html(self) -> str:
        """The answer as one HTML page without outside parts."""
        from discreet.audit.reports.exact import page

        return page(self)

    def __repr__(self) -> str:
        ratio = self.ratio()
        loss = f"δ ≥ {decimal(self.failure)} at every ε" if ratio is None else f"ε = {_log(ratio):.6g}"
        said = "" if self.claim is None else f", {self.verdict}"
        return f"<Finite {len(self.inputs)}×{len(self.outputs)}: {loss}{said}>"

    def _pure_words(self) -> str:
        ratio = self.ratio()
        if ratio is None:
            return f"No finite ε at δ = 0: δ is at least {_both(self.failure)} however large ε is."
        return f"ε = {_log(ratio):.6g} at δ = 0: the largest ratio is {_both(ratio)}."

    def _verdict_words(self) -> str:
        broken = next(self._broken(), None)
        if broken is None:
            more = f" at {len(self.points)} points of its curve" if len(self.points) > 1 else ""
            return f"{CONSISTENT}{more}."
        e, d, _, _ = broken
        found = _both(self.delta_bounds(e)[0])
        return f"{VIOLATED}: δ is {found} at ε = {decimal(e)}, where {decimal(d)} was claimed."

    def _broken(self) -> Iterator[tuple[Fraction, Fraction, int, int]]:
        """The promises that are broken, with the neighbours that break them."""
        for e, d in self.points:
            for i, j in self._ordered():
                if self._breaks(i, j, e, d):
                    yield e, d, i, j

    def _ordered(self) -> Iterator[tuple[int, int]]:
        for i, j in self.pairs:
            yield i, j
            yield j, i

    def _rows(self, i: int, j: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return self.table.rows[i], self.table.rows[j]

    def _all_rows(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        return (self._rows(i, j) for i, j in self._ordered())

    def _bracket(self, e: Fraction) -> tuple[Fraction, Fraction]:
        """Bounds of e^ε; any, where no ratio of two probabilities comes near it."""
        return (Fraction(1), Fraction(1)) if beyond(e, self.table.whole) else exponential(e, 40)

    def _excess(self, i: int, j: int, e: Fraction, d: Fraction) -> Fraction:
        """By how much δ at ε exceeds what was claimed, to forty digits."""
        p, q = self._rows(i, j)
        event = likelier(p, q, e)
        over, under = sum(p[k] for k in event), sum(q[k] for k in event)
        return (over - self._bracket(e)[1] * under) / self.table.whole - d

    def _breaks(self, i: int, j: int, e: Fraction, d: Fraction) -> bool:
        """Whether P(E) > e^ε Q(E) + δ for some event, whatever the probabilities are within the rounding."""
        p, q = self.table.least[i], self.table.most[j]
        event = likelier(p, q, e)
        more = sum(p[k] for k in event) - d * self.table.wide
        return more > 0 and exceeds(more, sum(q[k] for k in event), e)

    def _largest(self) -> Event | None:
        """The outputs with the largest ratio of their probabilities; all the impossible ones if there are any."""
        best: tuple[int, Fraction, int, int] | None = None
        for i, j in self._ordered():
            p, q = self._rows(i, j)
            found = impossible(p, q), largest_ratio(p, q)
            if best is None or found > best[:2]:
                best = *found, i, j
        if best is None:
            return None
        lost, ratio, i, j = best
        both = list(enumerate(zip(*self._rows(i, j), strict=True)))
        if lost:
            return self._event(i, j, [k for k, (a, b) in both if a and not b])
        return self._event(i, j, [k for k, (a, b) in both if b and a == ratio * b])

    def _event(self, i: int, j: int, event: Sequence[int]) -> Event:
        p, q = self._rows(i, j)
        whole = self.table.whole
        chances = Fraction(sum(p[k] for k in event), whole), Fraction(sum(q[k] for k in event), whole)
        return Event(self.inputs[i], self.inputs[j], tuple(self.outputs[k] for k in event), *chances)


def _points(claimed: Any) -> tuple[tuple[Fraction, Fraction], ...]:
    """The promises of a claim as fractions: never less than was claimed."""
    if claimed is None:
        return ()
    if isinstance(claimed, PrivacyLoss):
        pure = [] if claimed.pure is None else [(claimed.pure, Fraction(0))]
        curve = [exact("delta", d) for _, d in Claim.of(claimed).points if d]
        asked = [(claimed.guarantee(d).epsilon, d) for d in curve if d > claimed.failure]
        return (*pure, *asked, (Fraction(0), exact("delta", claimed.delta(0))))
    if isinstance(claimed, Claim):
        if claimed.loss is not None:
            return _points(claimed.loss)
        return tuple((_least_read(e), _least_read(d)) for e, d in claimed.points)
    guarantee = claimed.guarantee if isinstance(claimed, Budget) else claimed
    if not isinstance(guarantee, Approximate):
        guarantee = Approximate(exact("claimed", guarantee))
    return ((guarantee.epsilon, guarantee.delta),)


def _least_read(x: float) -> Fraction:
    """A float of a claim, by whichever way of reading it is the milder."""
    return max(Fraction(x), exact("claimed", x))


def _log(ratio: Fraction) -> float:
    """The logarithm of a ratio ≥ 1, rounded up: the sixty digits are off by far less than what is added."""
    return above(log(ratio) * (1 + Fraction(1, 10**50))) if ratio > 1 else 0.0


def _both(x: Fraction) -> str:
    """A fraction as such where it is short, and as a decimal."""
    short = f"{x.numerator}/{x.denominator}" if x.denominator > 1 else str(x.numerator)
    near = f"{float(x) if x < 10**300 else below(x):.6g}"
    return short if short == near else f"{near} ({short})" if len(short) < 20 else near
