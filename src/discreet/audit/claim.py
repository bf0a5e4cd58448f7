"""A claimed guarantee, as the promises that an auditor tests at once, and the bounds on ε and δ of those it refutes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from discreet.accounting.loss import PrivacyLoss
from discreet.audit.places import Floats
from discreet.errors import InvalidParameter
from discreet.privacy.exact import Real, exact
from discreet.privacy.guarantee import Approximate, Budget, words

_CURVE = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""The δ at which the curve of a loss is tested, beside its pure ε and ε = 0."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Promises P(E) ≤ e^ε Q(E) + δ for all events E and both orders of two neighbours.

    Attributes:
        points: the promises that are tested, as pairs (ε, δ); the first is the one that is reported on.
        text: the claim in words.
        loss: the whole curve, where the claim was a `PrivacyLoss`.
    """

    points: tuple[tuple[float, float], ...]
    text: str
    loss: PrivacyLoss | None = None

    @classmethod
    def of(cls, claimed: Budget | Approximate | PrivacyLoss | Claim | Real) -> Claim:
        """Return the claim that a `Budget`, a guarantee, a `PrivacyLoss` or a bare ε stands for.

        Raises:
            InvalidParameter: something else, or no finite ε at any δ.
        """
        if isinstance(claimed, Claim):
            return claimed
        if isinstance(claimed, PrivacyLoss):
            return cls._curve(claimed)
        if isinstance(claimed, Budget):
            claimed = claimed.guarantee
        if not isinstance(claimed, Approximate):
            try:
                claimed = Approximate(exact("claimed", claimed))
            except TypeError:
                raise InvalidParameter(
                    f"claimed must be a Budget, a PrivacyLoss or an ε, not {type(claimed).__name__}.",
                    hint="claimed=discreet.Budget(epsilon=1)",
                ) from None
        point = (_above(claimed.epsilon), _above(claimed.delta))
        return cls((point,), words(claimed.epsilon, claimed.delta))

    @classmethod
    def _curve(cls, loss: PrivacyLoss) -> Claim:
        pure = [] if loss.pure is None else [(_above(loss.pure), 0.0)]
        curve = [(loss.epsilon(d), d) for d in (*_CURVE, *_above_failure(loss)) if d > loss.failure]
        points = dict.fromkeys([*pure, *curve, (0.0, loss.delta(0))])
        return cls(tuple(points), repr(loss), loss)

    @property
    def epsilon(self) -> float:
        """The ε of the promise that is reported on."""
        return self.points[0][0]

    @property
    def delta(self) -> float:
        """The δ of the promise that is reported on."""
        return self.points[0][1]

    def tradeoff(self, alpha: Floats) -> Floats:
        """Return the least type II error that the claim allows a test of that type I error.

        References: Dong, Roth, Su 2019, Proposition 2.4 (points), https://arxiv.org/abs/1905.02383
        """
        if self.loss is not None:
            return np.asarray(self.loss.tradeoff(alpha), dtype=np.float64)
        beta = np.zeros_like(alpha)
        for epsilon, delta in self.points:
            grown = math.exp(min(epsilon, 700.0))
            beta = np.maximum(beta, np.maximum(1 - delta - grown * alpha, (1 - delta - alpha) / grown))
        return np.asarray(beta, dtype=np.float64)


def _above_failure(loss: PrivacyLoss) -> list[float]:
    """Return a δ at which a loss that fails with a larger chance than those of the curve still has an ε."""
    return [float(loss.failure + (1 - loss.failure) / 8)] if loss.failure >= _CURVE[0] else []


def _above(x: Fraction) -> float:
    """Return a float that is at least x: an auditor tests what was claimed, or less."""
    near = float(x)
    return near if Fraction(near) >= x else math.nextafter(near, math.inf)


Ints: TypeAlias = NDArray[np.intp]

FARTHEST = 40.0
"""The largest ε that is worth a promise: 1e17 samples could not refute it."""

_COARSE, _CLOSE, _FAR, _DELTAS = 150, 200, 1200, 160
_STRIDE = 8
_FRACTIONS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98)


@dataclass(frozen=True, slots=True, eq=False)
class Promises:
    """Rows (ε, δ), fixed before any sample is drawn: the claim's points, a grid of ε, a grid of δ.

    Anchors are promises for which an event is searched; each row bets on the event of its anchor.

    Attributes:
        epsilons, deltas: the rows.
        claimed: the rows of the claim's points.
        by_epsilon: the rows at the claimed δ, ε rising from 0.
        by_delta: the rows at the claimed ε, δ rising from 0.
        anchor: for each row, its anchor: the next easier one of its chain.
        anchor_epsilons, anchor_deltas: the anchors, easier ones first within each chain.
        parent: for each anchor, the one before it in its chain, or −1; always a smaller number.
    """

    epsilons: Floats
    deltas: Floats
    claimed: Ints
    by_epsilon: Ints
    by_delta: Ints
    anchor: Ints
    anchor_epsilons: Floats
    anchor_deltas: Floats
    parent: Ints

    @classmethod
    def of(cls, claim: Claim) -> Promises:
        """Return the promises for a claim: dense around it, geometric beyond."""
        epsilons = _epsilons(claim.epsilon)
        deltas = _deltas(claim.delta)
        rest = claim.points[1:]
        eps = np.concatenate([epsilons, np.full(len(deltas), claim.epsilon), [e for e, _ in rest]])
        del_ = np.concatenate([np.full(len(epsilons), claim.delta), deltas, [d for _, d in rest]])
        by_epsilon = np.arange(len(epsilons))
        by_delta = len(epsilons) + np.arange(len(deltas))
        others = len(epsilons) + len(deltas) + np.arange(len(rest))
        at = int(np.searchsorted(epsilons, claim.epsilon))
        claimed = np.concatenate([[at], others]).astype(np.intp)

        anchors: list[tuple[float, float]] = []
        parent: list[int] = []
        anchor = np.zeros(len(eps), dtype=np.intp)

        def chain(rows: Ints, keep: list[int], before: int) -> None:
            first = len(anchors)
            for place in keep:
                parent.append(len(anchors) - 1 if len(anchors) > first else before)
                anchors.append((float(eps[rows[place]]), float(del_[rows[place]])))
            anchor[rows] = first + np.searchsorted(np.asarray(keep), np.arange(len(rows)), side="right") - 1

        # The last few rows of a stride share an anchor below them, whose event is as good for them.
        keep = sorted({0, at, *range(0, len(epsilons), _STRIDE)})
        chain(by_epsilon, keep, -1)
        chain(by_delta, sorted({0, *range(0, len(deltas), _STRIDE)}), keep.index(at))
        for row, (epsilon, delta) in zip(others, rest, strict=True):
            for share in _FRACTIONS if epsilon > 0 else ():
                parent.append(len(anchors) - 1 if share > _FRACTIONS[0] else -1)
                anchors.append((epsilon * share, delta))
            chain(np.asarray([row]), [0], len(anchors) - 1 if epsilon > 0 else -1)
        a = np.asarray(anchors, dtype=np.float64)
        return cls(eps, del_, claimed, by_epsilon, by_delta, anchor, a[:, 0], a[:, 1], np.asarray(parent, np.intp))

    def __len__(self) -> int:
        return len(self.epsilons)

    def epsilon_lower(self, refuted: NDArray[np.bool_]) -> float:
        """Return the end of the run of refuted ε from 0 on, at the claimed δ; 0 when there is none.

        Guarantee:
            Let each row that is true be refuted with probability at most α. Then this exceeds the true ε with
            probability at most α: for that the run has to include the least ε of the grid that is not below the truth,
            and its promise is true.
        """
        return _end(self.epsilons[self.by_epsilon], refuted[self.by_epsilon])

    def delta_lower(self, refuted: NDArray[np.bool_]) -> float:
        """Return the end of the run of refuted δ from 0 on, at the claimed ε; wrong with the probability above."""
        return _end(self.deltas[self.by_delta], refuted[self.by_delta])


def _end(values: Floats, refuted: NDArray[np.bool_]) -> float:
    run = len(values) if refuted.all() else int(np.argmin(refuted))
    return float(values[run - 1]) if run else 0.0


def _epsilons(claimed: float) -> Floats:
    """Return a rising grid that has 0 and the claimed ε in it."""
    dense = claimed * np.arange(int(1.5 * _COARSE)) / _COARSE
    close = claimed * (0.9 + 0.2 * np.arange(_CLOSE) / _CLOSE)
    start = max(1.5 * claimed, 1e-4)
    far = np.geomspace(start, max(FARTHEST, 3 * start), _FAR)
    return np.unique(np.concatenate([[0.0, claimed], dense, close, far]))


def _deltas(claimed: float) -> Floats:
    grid = np.geomspace(1e-8, 0.999, _DELTAS)
    close = claimed * np.array([0.5, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.5, 2.0])
    both = np.concatenate([[0.0], grid, close])
    return np.unique(both[both < 1])
