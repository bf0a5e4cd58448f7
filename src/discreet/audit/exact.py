"""`finite`: the exact privacy of a mechanism with finitely many inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.accounting.loss import PrivacyLoss
from discreet.audit.claim import Claim
from discreet.audit.finding import CONSISTENT, VIOLATED
from discreet.audit.reports import document, facts, head, number, plain, shown, text
from discreet.finite.measured import ComparedTable, OutputEvent, exceeds, in_words, likelier, log_above, within
from discreet.finite.rows import graph, read
from discreet.privacy.exact import Real, exact
from discreet.privacy.guarantee import Approximate, Budget, decimal
from discreet.table import render_html

_SHOWN = 6

_LOOKED_AT = Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2)
"""The ε at which δ is shown, beside those of the claim."""

_CELLS = 400
"""Probabilities that a page shows; more are for the object."""


def finite(
    mechanism: object,
    claimed: Budget | Approximate | PrivacyLoss | Claim | Real | None = None,
    *,
    inputs: Iterable[object] | None = None,
    neighbours: Iterable[tuple[object, object]] | None = None,
    rounding: Real = 0,
) -> Finite:
    """Return the exact privacy of a mechanism that is given by the probabilities of its outputs.

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


@dataclass(frozen=True, slots=True, repr=False)
class Finite(ComparedTable):
    """What a table of probabilities keeps, exactly.

    Attributes:
        table: the inputs, the outputs and the probabilities.
        pairs: the pairs of inputs, as indices, that are compared.
        edges: the pairs that differ by one unit.
        claim: what was claimed, if anything.
        points: the promises (ε, δ) that decide the verdict, as fractions.
    """

    claim: Claim | None
    points: tuple[tuple[Fraction, Fraction], ...]

    def group(self, k: int, claimed: Budget | Approximate | PrivacyLoss | Claim | Real | None = None) -> Finite:
        """Return the privacy of inputs that are at most k steps of neighbours apart: that of groups of k units."""
        pairs = within(self.edges, len(self.inputs), k)
        claim = None if claimed is None else Claim.of(claimed)
        return Finite(self.table, pairs, self.edges, claim, _points(claimed))

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
    def witness(self) -> OutputEvent | None:
        """The clearest event: against the claim where it is violated, else the one with the largest ratio."""
        broken = list(self._broken())
        if not broken:
            return self.largest()
        e, _, i, j = max(broken, key=lambda b: self.excess(b[2], b[3], b[0]) - b[1])
        return self.event(i, j, likelier(*self.rows_of(i, j), e))

    def __str__(self) -> str:
        exactly = f", within rounding of {decimal(self.table.rounding)}" if self.table.rounding else ", exact"
        size = f"{len(self.inputs)} inputs × {len(self.outputs)} outputs, {len(self.pairs)} pairs of neighbours"
        lines = [f"Finite mechanism: {size}{exactly}", self._pure_words()]
        witness = self.witness
        if witness is not None:
            lines.append(f"Witness: {witness}")
        shown = {Fraction(0), Fraction(1, 2), Fraction(1), Fraction(2), *(e for e, _ in self.points)}
        lines += [f"  δ at ε = {decimal(e)}: {in_words(self.delta_bounds(e)[1])}" for e in sorted(shown)]
        if self.claim is not None:
            lines.append(f"Claimed {self.claim.text}: {self._verdict_words()}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the answer in JSON's own types; fractions as text."""
        return _json(self)

    def to_html(self) -> str:
        """Return the answer as one HTML page without outside parts."""
        return document("Finite mechanism", _body(self))

    def __repr__(self) -> str:
        ratio = self.ratio()
        loss = f"δ ≥ {decimal(self.failure)} at every ε" if ratio is None else f"ε = {log_above(ratio):.6g}"
        said = "" if self.claim is None else f", {self.verdict}"
        return f"<Finite {len(self.inputs)}×{len(self.outputs)}: {loss}{said}>"

    def _pure_words(self) -> str:
        ratio = self.ratio()
        if ratio is None:
            return f"No finite ε at δ = 0: δ is at least {in_words(self.failure)} however large ε is."
        return f"ε = {log_above(ratio):.6g} at δ = 0: the largest ratio is {in_words(ratio)}."

    def _verdict_words(self) -> str:
        broken = next(self._broken(), None)
        if broken is None:
            more = f" at {len(self.points)} points of its curve" if len(self.points) > 1 else ""
            return f"{CONSISTENT}{more}."
        e, d, _, _ = broken
        found = in_words(self.delta_bounds(e)[0])
        return f"{VIOLATED}: δ is {found} at ε = {decimal(e)}, where {decimal(d)} was claimed."

    def _broken(self) -> Iterator[tuple[Fraction, Fraction, int, int]]:
        """Yield the promises that are broken, with the neighbours that break them."""
        for e, d in self.points:
            for i, j in self.ordered():
                if self._breaks(i, j, e, d):
                    yield e, d, i, j

    def _breaks(self, i: int, j: int, e: Fraction, d: Fraction) -> bool:
        """Return whether P(E) > e^ε Q(E) + δ for some event, whatever the probabilities are within the rounding."""
        p, q = self.table.least[i], self.table.most[j]
        event = likelier(p, q, e)
        more = sum(p[k] for k in event) - d * self.table.wide
        return more > 0 and exceeds(more, sum(q[k] for k in event), e)


def _points(claimed: Any) -> tuple[tuple[Fraction, Fraction], ...]:
    """Return the promises of a claim as fractions: never less than was claimed."""
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
    """Return a float of a claim, by whichever way of reading it is the milder."""
    return max(Fraction(x), exact("claimed", x))


def _json(answer: Finite) -> dict[str, Any]:
    """All of the answer but the probabilities; fractions and inputs as text, an infinite number as "inf"."""
    ratio, witness = answer.ratio(), answer.witness
    claim = answer.claim
    return {
        "format": 1,
        "inputs": [shown(x) for x in answer.inputs],
        "outputs": [shown(o) for o in answer.outputs],
        "pairs": [list(pair) for pair in answer.pairs],
        "rounding": str(answer.table.rounding),
        "claimed": None
        if claim is None
        else {"text": claim.text, "points": [[str(a) for a in point] for point in answer.points]},
        "verdict": answer.verdict,
        "epsilon": plain(answer.epsilon()),
        "ratio": None if ratio is None else str(ratio),
        "failure": str(answer.failure),
        "deltas": [{"epsilon": str(e), "delta": answer.delta(e)} for e in _epsilons(answer)],
        "witness": None if witness is None else _event(witness),
    }


def _body(answer: Finite) -> str:
    """Return a page's verdict, ε, the event, δ at several ε, and the probabilities where they are few."""
    parts = [head("Finite mechanism", answer.verdict), facts(_rows(answer))]
    if (witness := answer.witness) is not None:
        parts += ["<h2>Witness</h2>", f"<p>{text(str(witness))}</p>"]
    claimed: dict[Fraction, Fraction] = {}
    for e, d in answer.points:
        claimed[e] = min(d, claimed.get(e, d))
    rows: list[list[str | None]] = [
        [decimal(e), number(answer.delta(e)), decimal(claimed[e]) if e in claimed else "–"] for e in _epsilons(answer)
    ]
    parts += ["<h2>δ at ε</h2>", render_html(["ε", "δ", "claimed δ"], rows)]
    if len(answer.inputs) * len(answer.outputs) <= _CELLS:
        whole = answer.table.whole
        table: list[list[str | None]] = [
            [shown(x), *(str(Fraction(p, whole)) for p in row)]
            for x, row in zip(answer.inputs, answer.table.rows, strict=True)
        ]
        parts += ["<h2>Probabilities</h2>", render_html(["input", *map(shown, answer.outputs)], table)]
    return "".join(parts)


def _rows(answer: Finite) -> list[tuple[str, str]]:
    ratio, rounding = answer.ratio(), answer.table.rounding
    found = (
        f"no finite ε; δ ≥ {number(float(answer.failure))} at every ε"
        if ratio is None
        else f"ε = {number(answer.epsilon())} at δ = 0"
    )
    size = f"{len(answer.inputs)} inputs × {len(answer.outputs)} outputs"
    return [
        ("claimed", "nothing" if answer.claim is None else answer.claim.text),
        ("found", found),
        ("error", "none: the numbers are exact" if not rounding else f"within rounding of {decimal(rounding)}"),
        ("work", f"{size}, {len(answer.pairs)} pairs of neighbours"),
    ]


def _epsilons(answer: Finite) -> list[Fraction]:
    return sorted({*_LOOKED_AT, *(e for e, _ in answer.points)})


def _event(event: OutputEvent) -> dict[str, Any]:
    return {
        "x": shown(event.x),
        "x_neighbour": shown(event.x_neighbour),
        "outputs": [shown(o) for o in event.outputs],
        "under_x": str(event.under_x),
        "under_neighbour": str(event.under_neighbour),
        "epsilon": plain(event.epsilon),
    }
